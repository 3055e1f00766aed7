/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the journal reads back: its log records, its catalogue rows, and its blobs in prepare
 * records. The first byte of the input selects one of these three; the rest is the bytes of the
 * record, row or blob.
 *
 * An accepted record's head and an accepted row must be the same bytes when written again. A
 * refused row or blob must give LLADD_BAD_RECORD or LLADD_NEWER_FORMAT. After the rollback of the
 * blob's transaction, the journal must have no tags.
 */
#include "fuzz.h"
#include "operations/journal/table.h"

#include <stdlib.h>

static struct lladd_db *db; /* all inputs use it; an input leaves no data in it */

static void open_once(void)
{
    if (db)
        return;
    db = fuzz_database(lladd_journal_register);
}

static void record(struct lladd_span s)
{
    struct ll_journal_record r;
    unsigned char head[LL_JOURNAL_RECORD_HEAD];
    if (!ll_operations__journal_get(s, &r))
        return;
    size_t len = ll_operations__journal_put(&r, head);
    MUST(len + r.bytes.len == s.len);
    MUST(memcmp(head, s.data, len) == 0);
}

static void row(struct lladd_span s)
{
    struct ll_journal_row r;
    unsigned char bytes[LL_JOURNAL_ROW_MAX];
    int rc = ll_operations__journal_row_get(s, &r);
    MUST(rc == 0 || rc == LLADD_BAD_RECORD || rc == LLADD_NEWER_FORMAT);
    if (rc)
        return;
    MUST(ll_operations__journal_row_put(&r, bytes) == s.len);
    MUST(memcmp(bytes, s.data, s.len) == 0);
}

static int count_tags(void *ctx, const struct lladd_journal_info *info)
{
    (void)info;
    ++*(unsigned *)ctx;
    return 0;
}

static void blob(struct lladd_span s)
{
    struct lladd_txn *txn;
    unsigned tags = 0;
    MUST(lladd_begin(db, NULL, &txn, NULL) == 0);
    int rc = ll_operations__journal_participant.in_doubt(NULL, txn, s);
    MUST(rc == 0 || rc == LLADD_BAD_RECORD || rc == LLADD_NEWER_FORMAT);
    MUST(rc == 0 || lladd_txn_error(txn)->code == rc);
    MUST(lladd_abort(txn) == 0);
    MUST(lladd_journal_each(db, count_tags, &tags, NULL) == 0);
    MUST(tags == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    open_once();
    if (size == 0)
        return 0;
    struct lladd_span s = lladd_span_of(data + 1, size - 1);
    if (data[0] % 3 == 0)
        record(s);
    else if (data[0] % 3 == 1)
        row(s);
    else
        blob(s);
    return 0;
}
