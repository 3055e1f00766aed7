/* SPDX-License-Identifier: BSD-2-Clause */
/* Stanzas in a heap. A record:
 *
 *   u64 sequence, u32 total, u32 offset, u64 next page, u32 next slot, text
 *
 * A stanza that is too long for one record becomes a chain of them. */
#include "store.h"

#include "bucket.h"

#include <lladd/bytes.h>
#include <lladd/pages.h>
#include <stdlib.h>
#include <string.h>

#define HEAD_BYTES 28u
#define HEAP_ROOT "packages.heap"

static int create(struct store *s, struct lladd_error *err)
{
    struct lladd_txn *txn;
    int rc = lladd_begin(s->db, NULL, &txn, err);
    if (rc)
        return rc;
    rc = lladd_heap_create(txn, &s->heap);
    if (!rc)
        rc = lladd_root_set(txn, HEAP_ROOT, (struct lladd_root_value){s->heap.v, 0});
    if (rc) {
        *err = *lladd_txn_error(txn);
        int aborted = lladd_abort(txn);
        return aborted ? lladd_error_set(err, aborted, "the heap cannot be rolled back") : rc;
    }
    rc = lladd_commit(txn);
    return rc ? lladd_error_set(err, rc, "the heap cannot be committed") : 0;
}

int store_open(struct store *s, const char *dir, lladd_transcript_fn *transcript, void *ctx,
               struct lladd_error *err)
{
    struct lladd_options options = LLADD_OPTIONS_INIT;
    struct lladd_root_value heap;
    options.transcript = transcript;
    options.callback_ctx = ctx;
    int rc = bucket_register(&options, err);
    if (!rc)
        rc = lladd_open(dir, &options, &s->db, err);
    lladd_options_release(&options);
    if (rc)
        return rc;
    s->piece_max = lladd_heap_max(lladd_page_size(s->db)) - HEAD_BYTES;
    rc = lladd_root_get(s->db, HEAP_ROOT, &heap, err);
    if (!rc)
        s->heap = lladd_page_of(heap.a);
    else if (rc == LLADD_NOT_FOUND)
        rc = create(s, err);
    if (!rc)
        rc = index_open(&s->index, s->db, err);
    if (rc)
        lladd_kill(s->db); /* as it is: the next open recovers what there is */
    return rc;
}

int store_close(struct store *s)
{
    index_close(&s->index);
    return lladd_close(s->db);
}

/* The last piece first: each record names the one behind it. */
int store_put(struct store *s, struct lladd_txn *txn, uint64_t sequence, const char *text,
              size_t len, struct lladd_rid *out)
{
    struct lladd_rid next = {{0}, 0, 0};
    size_t offset = len ? (len - 1) / s->piece_max * s->piece_max : 0;
    unsigned char *record = malloc(HEAD_BYTES + s->piece_max);
    if (!record || len > UINT32_MAX) {
        free(record);
        return lladd_error_set(lladd_txn_error_out(txn), LLADD_NO_MEMORY, "stanza of %zu bytes",
                               len);
    }
    int rc;
    for (;;) {
        size_t n = len - offset < s->piece_max ? len - offset : s->piece_max;
        lladd_put64(record, sequence);
        lladd_put32(record + 8, (uint32_t)len);
        lladd_put32(record + 12, (uint32_t)offset);
        lladd_put64(record + 16, next.page.v);
        lladd_put32(record + 24, next.slot);
        memcpy(record + HEAD_BYTES, text + offset, n);
        rc = lladd_heap_insert(txn, s->heap, record, HEAD_BYTES + n, out);
        if (rc || offset == 0)
            break;
        next = *out;
        offset -= s->piece_max;
    }
    free(record);
    return rc;
}

bool piece_parse(const struct lladd_record *r, struct piece *out)
{
    if (r->len < HEAD_BYTES)
        return false;
    *out = (struct piece){
        .sequence = lladd_get64(r->bytes),
        .total = lladd_get32(r->bytes + 8),
        .offset = lladd_get32(r->bytes + 12),
        .next = {lladd_page_of(lladd_get64(r->bytes + 16)), lladd_get32(r->bytes + 24), 0},
        .text = (const char *)r->bytes + HEAD_BYTES,
        .len = r->len - HEAD_BYTES};
    return out->offset <= out->total && out->len <= out->total - out->offset;
}

static int broken(struct lladd_error *err, uint64_t sequence)
{
    return lladd_error_set(err, LLADD_BAD_RECORD, "the records of %llu do not fit together",
                           (unsigned long long)sequence);
}

int store_get(struct store *s, uint64_t sequence, char *buf, size_t size, size_t *len,
              struct lladd_error *err)
{
    struct lladd_rid rid;
    int rc = index_get(&s->index, sequence, &rid, err);
    if (rc)
        return rc;
    size_t max = HEAD_BYTES + s->piece_max, got = 0, n;
    unsigned char *record = malloc(max);
    if (!record)
        return lladd_error_set(err, LLADD_NO_MEMORY, "no memory for a record");
    struct piece p = {0};
    do {
        rc = lladd_heap_get(s->db, s->heap, rid, record, max, &n, err);
        if (rc)
            break;
        struct lladd_record r = {record, (uint32_t)n, 0};
        if (n > max || !piece_parse(&r, &p) || p.sequence != sequence || p.offset != got) {
            rc = broken(err, sequence);
            break;
        }
        if (got < size)
            memcpy(buf + got, p.text, p.len < size - got ? p.len : size - got);
        got += p.len;
        rid = p.next;
    } while (rid.page.v != 0 && p.len > 0);
    free(record);
    if (!rc && got != p.total)
        rc = broken(err, sequence);
    *len = got;
    return rc;
}
