/* SPDX-License-Identifier: BSD-2-Clause */
/* The increment of a field of a record, lladd.slotted.add and lladd.fixed.add: like counter.c,
 * but the counter's place is a slot and an offset in the slot's record. Between an addition and
 * its undo, the record may move on its page, and other transactions may store and free records
 * on the page.
 *
 *   u16 slot, u16 offset, i64 delta   redo adds delta; undo, the same fields, subtracts it */
#include "operations/operations_private.h"

#define ADD_BYTES 12u

struct add_args {
    uint32_t slot, offset;
    int64_t delta;
};

typedef bool record_fn(struct lladd_view, uint32_t slot, struct lladd_record *out);

/* The field's offset on the page; 0: there is no such field. */
static uint32_t field_at(record_fn *record, struct lladd_view v, uint32_t slot, uint32_t offset,
                         struct lladd_record *out)
{
    if (!record(v, slot, out) || out->len < 8 || offset > out->len - 8)
        return 0;
    return (uint32_t)(out->bytes - v.bytes) + offset;
}

static int no_field(struct lladd_error *err, struct lladd_view v, const struct add_args *a,
                    bool there, uint32_t len)
{
    int rc = there ? lladd_error_set(err, LLADD_OUT_OF_RANGE,
                                     "a number at byte %u does not fit a record of %u", a->offset,
                                     len)
                   : lladd_error_set(err, LLADD_OUT_OF_RANGE,
                                     "there is no record in slot %u of page %llu", a->slot,
                                     (unsigned long long)v.number.v);
    return ll_operations__on(err, v.number, rc);
}

static int prepare(record_fn *record, struct lladd_view v, struct lladd_span args,
                   struct lladd_draft *draft)
{
    const struct add_args *a = args.data;
    struct lladd_record r = {NULL, 0, 0};
    int64_t sum;
    uint32_t at = field_at(record, v, a->slot, a->offset, &r);
    if (!at)
        return no_field(draft->error, v, a, r.bytes != NULL, r.len);
    int64_t now = (int64_t)lladd_get64(v.bytes + at);
    if (__builtin_add_overflow(now, a->delta, &sum))
        return ll_operations__on(draft->error, v.number,
                                 lladd_error_set(draft->error, LLADD_BAD_ARGUMENT,
                                                 "%lld + %lld overflows", (long long)now,
                                                 (long long)a->delta));
    unsigned char *redo = lladd_draft_redo(draft, ADD_BYTES);
    unsigned char *undo = lladd_draft_undo(draft, ADD_BYTES);
    lladd_put16(redo, (uint16_t)a->slot);
    lladd_put16(redo + 2, (uint16_t)a->offset);
    lladd_put64(redo + 4, (uint64_t)a->delta);
    memcpy(undo, redo, ADD_BYTES);
    return 0;
}

static bool validate(record_fn *record, struct lladd_view v, struct lladd_span s)
{
    const unsigned char *p = s.data;
    struct lladd_record r;
    return s.len == ADD_BYTES && field_at(record, v, lladd_get16(p), lladd_get16(p + 2), &r) != 0;
}

/* Modulo 2^64, as in counter.c. */
static void apply(record_fn *record, struct lladd_page *page, struct lladd_span s, bool undo)
{
    const unsigned char *p = s.data;
    struct lladd_record r;
    uint32_t at = field_at(record, lladd_page_view(page), lladd_get16(p), lladd_get16(p + 2), &r);
    uint64_t delta = lladd_get64(p + 4);
    lladd_put64(page->bytes + at, lladd_get64(page->bytes + at) + (undo ? 0 - delta : delta));
}

static const struct lladd_field add_fields[] = {{"slot", LLADD_FIELD_U16},
                                                {"offset", LLADD_FIELD_U16},
                                                {"delta", LLADD_FIELD_I64},
                                                {NULL, LLADD_FIELD_END}};

#define ADD_OP(op_name, type, which) \
    static int which##_prepare(void *ctx, struct lladd_view v, struct lladd_span args, \
                               struct lladd_draft *draft) \
    { \
        (void)ctx; \
        return prepare(lladd_##which##_record, v, args, draft); \
    } \
    static bool which##_validate(struct lladd_view v, enum lladd_span_kind kind, \
                                 struct lladd_span s) \
    { \
        (void)kind; \
        return validate(lladd_##which##_record, v, s); \
    } \
    static void which##_redo(struct lladd_page *page, struct lladd_span s) \
    { \
        apply(lladd_##which##_record, page, s, false); \
    } \
    static void which##_undo(struct lladd_page *page, struct lladd_span s) \
    { \
        apply(lladd_##which##_record, page, s, true); \
    } \
    const struct lladd_op ll_operations__##which##_add = { \
        .struct_size = sizeof(struct lladd_op), \
        .name = (op_name), \
        .version = 1, \
        .page_type = (type), \
        .redo_fields = add_fields, \
        .undo_fields = add_fields, \
        .record_max = 2 * ADD_BYTES, \
        .undo_kind = LLADD_UNDO_PAGE, \
        .prepare = which##_prepare, \
        .validate = which##_validate, \
        .redo = which##_redo, \
        .undo = which##_undo, \
    }

ADD_OP("lladd.slotted.add", "lladd.slotted", slotted);
ADD_OP("lladd.fixed.add", "lladd.fixed", fixed);

static int add(struct lladd_txn *txn, lladd_op_id op, struct lladd_rid rid, uint32_t offset,
               int64_t delta)
{
    struct add_args args = {rid.slot, offset, delta};
    return lladd_update(txn, op, rid.page, &args, sizeof args);
}

int lladd_slotted_add(struct lladd_txn *txn, struct lladd_rid rid, uint32_t offset, int64_t delta)
{
    LLADD_USE(txn);
    return add(txn, LL_OP_SLOTTED_ADD, rid, offset, delta);
}

int lladd_fixed_add(struct lladd_txn *txn, struct lladd_rid rid, uint32_t offset, int64_t delta)
{
    LLADD_USE(txn);
    return add(txn, LL_OP_FIXED_ADD, rid, offset, delta);
}
