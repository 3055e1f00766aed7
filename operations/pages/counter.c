/* SPDX-License-Identifier: BSD-2-Clause */
/* Counters: increments on pages of type "lladd.bytes".
 *
 * Redo adds the delta, and undo subtracts it; neither stores a value. Additions of several
 * transactions to one counter therefore commute, even if some are rolled back. The page LSN
 * makes sure that each record is applied exactly once (OP-2, OP-5). examples/counter.c
 * implements the same as an application's own operation.
 *
 *   u16 offset, i64 delta      redo adds delta; undo, the same fields, subtracts it */
#include "operations/operations_private.h"

#define COUNTER_BYTES 10u

struct counter_args {
    uint32_t offset;
    int64_t delta;
};

static int no_counter(struct lladd_error *err, lladd_pageno page, uint32_t offset)
{
    return ll_operations__on(err, page,
                             lladd_error_set(err, LLADD_OUT_OF_RANGE,
                                             "a counter at byte %u does not fit page %llu", offset,
                                             (unsigned long long)page.v));
}

static int add_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                       struct lladd_draft *draft)
{
    (void)ctx;
    const struct counter_args *add = args.data;
    int64_t sum;
    if (add->offset > lladd_body_size(page.size) - 8)
        return no_counter(draft->error, page.number, add->offset);
    int64_t now = (int64_t)lladd_get64(lladd_view_body(page) + add->offset);
    if (__builtin_add_overflow(now, add->delta, &sum))
        return ll_operations__on(draft->error, page.number,
                                 lladd_error_set(draft->error, LLADD_BAD_ARGUMENT,
                                                 "%lld + %lld overflows", (long long)now,
                                                 (long long)add->delta));
    unsigned char *redo = lladd_draft_redo(draft, COUNTER_BYTES);
    unsigned char *undo = lladd_draft_undo(draft, COUNTER_BYTES);
    lladd_put16(redo, (uint16_t)add->offset);
    lladd_put64(redo + 2, (uint64_t)add->delta);
    lladd_put16(undo, (uint16_t)add->offset);
    lladd_put64(undo + 2, (uint64_t)add->delta);
    return 0;
}

static bool add_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)kind;
    return s.len == COUNTER_BYTES && lladd_get16(s.data) <= lladd_body_size(page.size) - 8;
}

/* Adds modulo 2^64, so that a later subtraction restores the same bits even after an overflow. */
static void add_redo(struct lladd_page *page, struct lladd_span redo)
{
    const unsigned char *p = redo.data;
    unsigned char *counter = lladd_page_body(page) + lladd_get16(p);
    lladd_put64(counter, lladd_get64(counter) + lladd_get64(p + 2));
}

static void add_undo(struct lladd_page *page, struct lladd_span undo)
{
    const unsigned char *p = undo.data;
    unsigned char *counter = lladd_page_body(page) + lladd_get16(p);
    lladd_put64(counter, lladd_get64(counter) - lladd_get64(p + 2));
}

static const struct lladd_field add_fields[] = {
    {"offset", LLADD_FIELD_U16}, {"delta", LLADD_FIELD_I64}, {NULL, LLADD_FIELD_END}};

const struct lladd_op ll_operations__counter_add = {
    .struct_size = sizeof(struct lladd_op),
    .name = "lladd.counter.add",
    .version = 1,
    .page_type = "lladd.bytes",
    .redo_fields = add_fields,
    .undo_fields = add_fields,
    .record_max = 2 * COUNTER_BYTES,
    .undo_kind = LLADD_UNDO_PAGE,
    .prepare = add_prepare,
    .validate = add_validate,
    .redo = add_redo,
    .undo = add_undo,
    .offset_first = true,
};

int lladd_counter_add(struct lladd_txn *txn, lladd_pageno page, uint32_t offset, int64_t delta)
{
    LLADD_USE(txn);
    struct counter_args args = {offset, delta};
    return lladd_update(txn, LL_OP_COUNTER_ADD, page, &args, sizeof args);
}

int lladd_counter_get(struct lladd_db *db, lladd_pageno page, uint32_t offset, int64_t *out,
                      struct lladd_error *err)
{
    unsigned char bytes[8];
    if (offset > lladd_body_size(lladd_page_size(db)) - 8)
        return no_counter(err, page, offset);
    int rc = lladd_bytes_get(db, page, offset, bytes, sizeof bytes, err);
    if (!rc)
        *out = (int64_t)lladd_get64(bytes);
    return rc;
}
