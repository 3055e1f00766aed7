/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The locks in prepare records (operations/lock/blob.c). The input is a byte, then the blobs of two
 * transactions. The byte says where the first blob ends.
 *
 * A blob is refused with LLADD_BAD_RECORD, or accepted. If the first blob is accepted, its locks
 * are written as a blob again. When both transactions have ended, a third transaction must accept
 * the written blob, and must write the same bytes. After the transactions have ended, no lock must
 * be held.
 */
#include "fuzz.h"
#include "operations/lock/table.h"

#include <stdlib.h>

static struct lladd_db *db; /* all inputs use it; an input leaves no data in it */

static void open_once(void)
{
    if (db)
        return;
    db = fuzz_database(lladd_lock_register);
}

static struct lladd_txn *begin(void)
{
    struct lladd_txn *txn;
    MUST(lladd_begin(db, NULL, &txn, NULL) == 0);
    return txn;
}

static bool believed(struct lladd_txn *txn, struct lladd_span blob)
{
    int rc = ll_operations__lock_participant.in_doubt(NULL, txn, blob);
    MUST(rc == 0 || rc == LLADD_BAD_RECORD);
    MUST(rc == 0 || lladd_txn_error(txn)->code == rc);
    return rc == 0;
}

/* ---- a blob written again -------------------------------------------------------------------- */

struct bytes {
    unsigned char *data;
    size_t len;
};

static int append(void *ctx, const void *bytes, size_t len)
{
    struct bytes *b = ctx;
    b->data = realloc(b->data, b->len + len + 1);
    MUST(b->data);
    memcpy(b->data + b->len, bytes, len);
    b->len += len;
    return 0;
}

static struct bytes written(struct lladd_txn *txn)
{
    struct bytes b = {NULL, 0};
    struct lladd_sink sink = {.ctx = &b, .write = append};
    const struct ll_locker *l = lladd_txn_joined(txn, &ll_operations__lock_participant);
    MUST(l && ll_operations__lock_blob(l, &sink) == 0);
    return b;
}

/* No other transaction may hold locks. */
static void the_same_again(struct bytes blob)
{
    struct lladd_txn *txn = begin();
    MUST(believed(txn, lladd_span_of(blob.data, blob.len)));
    struct bytes again = written(txn);
    MUST(again.len == blob.len && memcmp(again.data, blob.data, blob.len) == 0);
    free(again.data);
    MUST(lladd_abort(txn) == 0);
}

static void nothing_is_locked(void)
{
    struct lladd_lock_stats s = {.struct_size = sizeof s};
    MUST(lladd_lock_stats_get(db, &s, NULL) == 0);
    MUST(s.names == 0 && s.holds == 0 && s.waiting == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes blob = {NULL, 0};
    open_once();
    if (size == 0)
        return 0;
    size_t cut = (size - 1) * data[0] / 255;
    struct lladd_txn *one = begin(), *two = begin();
    if (believed(one, lladd_span_of(data + 1, cut)))
        blob = written(one);
    (void)believed(two, lladd_span_of(data + 1 + cut, size - 1 - cut));
    MUST(lladd_abort(one) == 0 && lladd_commit(two) == 0);
    nothing_is_locked();
    if (blob.len)
        the_same_again(blob);
    free(blob.data);
    nothing_is_locked();
    return 0;
}
