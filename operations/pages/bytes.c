/* SPDX-License-Identifier: BSD-2-Clause */
/* Plain bytes: page type "lladd.bytes", and its physical operations.
 *
 * The whole body belongs to the caller. An update logs the old and the new values of the changed
 * bytes. lladd.set and lladd.set.long leave out equal bytes at both ends; lladd.set_range also
 * leaves out eight or more equal bytes in the middle (page_diff.h).
 *
 *   lladd.set, lladd.set.long   redo u16 offset, bytes
 *                               undo the same fields
 *   lladd.set_range             redo any number of: u16 offset, u16 n, n bytes
 *                               undo the same fields
 *
 * lladd.set takes up to SHORT bytes, so that a call reserves little log space. lladd.set.long and
 * lladd.set_range take up to PIECE bytes; a longer range takes several records. */
#include "operations/operations_private.h"
#include "operations/shared/page_diff.h"

#include <string.h>

#define OFFSET_BYTES 2u
#define SHORT 128u
#define PIECE 4096u

struct set_args {
    const unsigned char *bytes;
    uint32_t offset, len;
};

/* ---- format ---------------------------------------------------------------------------------- */

static bool format_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)page;
    return kind == LLADD_SPAN_REDO && s.len == 0;
}

static void format_redo(struct lladd_page *page, struct lladd_span redo)
{
    (void)redo;
    memset(lladd_page_body(page), 0, lladd_body_size(page->size));
}

const struct lladd_op ll_operations__bytes_format = {
    .struct_size = sizeof(struct lladd_op),
    .name = "lladd.bytes.format",
    .version = 1,
    .page_type = "lladd.bytes",
    .formats = true,
    .record_max = 0,
    .undo_kind = LLADD_UNDO_NONE,
    .validate = format_validate,
    .redo = format_redo,
};

const struct lladd_page_type ll_operations__bytes_page = {
    .struct_size = sizeof(struct lladd_page_type),
    .name = "lladd.bytes",
    .version = 1,
};

/* ---- set ------------------------------------------------------------------------------------- */

size_t ll_operations__differ(const unsigned char *a, const unsigned char *b, size_t n, size_t *skip)
{
    size_t from = 0, to = n;
    if (n == 8) { /* a number: the most common case */
        uint64_t x = lladd_get64(a) ^ lladd_get64(b);
        *skip = x ? (size_t)__builtin_ctzll(x) / 8 : 8;
        return x ? 8 - (size_t)__builtin_clzll(x) / 8 - *skip : 0;
    }
    for (;; from += 8) {
        if (n - from < 8) {
            while (from < n && a[from] == b[from])
                from++;
            break;
        }
        uint64_t x = lladd_get64(a + from) ^ lladd_get64(b + from);
        if (x) {
            from += (size_t)__builtin_ctzll(x) / 8;
            break;
        }
    }
    *skip = from;
    if (from == n)
        return 0;
    /* The byte at `from` differs, so both loops end there at the latest. */
    for (; to - from >= 8; to -= 8) {
        uint64_t x = lladd_get64(a + to - 8) ^ lladd_get64(b + to - 8);
        if (x)
            return to - (size_t)__builtin_clzll(x) / 8 - from;
    }
    while (a[to - 1] == b[to - 1])
        to--;
    return to - from;
}

static int outside(struct lladd_error *err, lladd_pageno page, uint32_t offset, size_t len,
                   uint32_t size)
{
    return ll_operations__on(err, page,
                             lladd_error_set(err, LLADD_OUT_OF_RANGE,
                                             "bytes %u to %llu of page %llu: its body has %u",
                                             offset, (unsigned long long)offset + len,
                                             (unsigned long long)page.v, size));
}

static int set_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                       struct lladd_draft *draft)
{
    (void)ctx;
    const struct set_args *set = args.data;
    uint32_t body = lladd_body_size(page.size);
    if ((uint64_t)set->offset + set->len > body)
        return outside(draft->error, page.number, set->offset, set->len, body);
    const unsigned char *now = lladd_view_body(page) + set->offset;
    size_t skip, n = ll_operations__differ(now, set->bytes, set->len, &skip);
    unsigned char *redo = lladd_draft_redo(draft, OFFSET_BYTES + n);
    unsigned char *undo = lladd_draft_undo(draft, OFFSET_BYTES + n);
    lladd_put16(redo, (uint16_t)(set->offset + skip));
    lladd_put16(undo, (uint16_t)(set->offset + skip));
    lladd_copy(redo + OFFSET_BYTES, set->bytes + skip, n);
    lladd_copy(undo + OFFSET_BYTES, now + skip, n);
    return 0;
}

static bool set_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)kind;
    return s.len >= OFFSET_BYTES &&
           lladd_get16(s.data) + (s.len - OFFSET_BYTES) <= lladd_body_size(page.size);
}

static void set_apply(struct lladd_page *page, struct lladd_span bytes)
{
    const unsigned char *p = bytes.data;
    lladd_copy(lladd_page_body(page) + lladd_get16(p), p + OFFSET_BYTES, bytes.len - OFFSET_BYTES);
}

static const struct lladd_field set_fields[] = {
    {"offset", LLADD_FIELD_U16}, {"bytes", LLADD_FIELD_REST}, {NULL, LLADD_FIELD_END}};

#define SET_OP(op_name, most) \
    { \
        .struct_size = sizeof(struct lladd_op), .name = op_name, .version = 1, \
        .page_type = "lladd.bytes", .redo_fields = set_fields, .undo_fields = set_fields, \
        .record_max = 2 * (OFFSET_BYTES + (most)), .undo_kind = LLADD_UNDO_PAGE, \
        .prepare = set_prepare, .validate = set_validate, .redo = set_apply, .undo = set_apply, \
        .offset_first = true, \
    }

const struct lladd_op ll_operations__set = SET_OP("lladd.set", SHORT);
const struct lladd_op ll_operations__set_long = SET_OP("lladd.set.long", PIECE);

/* ---- set_range ------------------------------------------------------------------------------- */

static int range_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                         struct lladd_draft *draft)
{
    (void)ctx;
    const struct set_args *set = args.data;
    uint32_t body = lladd_body_size(page.size);
    if (set->offset > body || set->len > body - set->offset)
        return outside(draft->error, page.number, set->offset, set->len, body);
    return ll_operations__page_diff_prepare(page, set->offset, set->bytes, set->len, draft);
}

const struct lladd_op ll_operations__set_range = {
    .struct_size = sizeof(struct lladd_op),
    .name = "lladd.set_range",
    .version = 1,
    .page_type = "lladd.bytes",
    .record_max = 2 * (PIECE + LL_PAGE_DIFF_HEAD),
    .prepare = range_prepare,
    LL_PAGE_DIFF_OP,
};

/* ---- calls ----------------------------------------------------------------------------------- */

/* Sets more than PIECE bytes, with several records. A failure rolls all of them back. */
static int set_pieces(struct lladd_txn *txn, lladd_op_id op, lladd_pageno page,
                      const struct set_args *all)
{
    lladd_savepoint_id before;
    uint32_t body = lladd_body_size(lladd_page_size(lladd_txn_db(txn)));
    if (all->offset > body || all->len > body - all->offset)
        return outside(lladd_txn_error_out(txn), page, all->offset, all->len, body);
    TRY(lladd_savepoint(txn, &before));
    int rc = 0;
    for (uint32_t done = 0; done < all->len && !rc; done += PIECE) {
        uint32_t n = all->len - done < PIECE ? all->len - done : PIECE;
        struct set_args piece = {all->bytes + done, all->offset + done, n};
        rc = lladd_update(txn, op, page, &piece, sizeof piece);
    }
    return ll_operations__step_end(txn, before, rc);
}

static int set_as(struct lladd_txn *txn, lladd_op_id op, lladd_pageno page, uint32_t offset,
                  const void *bytes, size_t len)
{
    struct set_args args = {bytes, offset, (uint32_t)len};
    if (len > UINT32_MAX)
        return outside(lladd_txn_error_out(txn), page, offset, len,
                       lladd_body_size(lladd_page_size(lladd_txn_db(txn))));
    lladd_prefetch_line(lladd_txn_db(txn), page, offset);
    return len <= PIECE ? lladd_update(txn, op, page, &args, sizeof args)
                        : set_pieces(txn, op, page, &args);
}

int lladd_bytes_set(struct lladd_txn *txn, lladd_pageno page, uint32_t offset, const void *bytes,
                    size_t len)
{
    LLADD_USE(txn);
    return set_as(txn, len <= SHORT ? LL_OP_SET : LL_OP_SET_LONG, page, offset, bytes, len);
}

int lladd_bytes_set_range(struct lladd_txn *txn, lladd_pageno page, uint32_t offset,
                          const void *bytes, size_t len)
{
    LLADD_USE(txn);
    return set_as(txn, LL_OP_SET_RANGE, page, offset, bytes, len);
}

int lladd_bytes_get(struct lladd_db *db, lladd_pageno page, uint32_t offset, void *out, size_t len,
                    struct lladd_error *err)
{
    struct lladd_page *p;
    uint32_t body = lladd_body_size(lladd_page_size(db));
    if (offset > body || len > body - offset)
        return outside(err, page, offset, len, body);
    TRY(ll_operations__fix(db, page, ll_operations__bytes_page.name, LLADD_LATCH_SHARED, &p, err));
    memcpy(out, lladd_page_body(p) + offset, len);
    lladd_page_unfix(db, p, LLADD_LATCH_SHARED);
    return 0;
}

int lladd_bytes_format(struct lladd_txn *txn, lladd_pageno page)
{
    LLADD_USE(txn);
    return lladd_update(txn, LL_OP_BYTES_FORMAT, page, NULL, 0);
}
