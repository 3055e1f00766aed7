/* SPDX-License-Identifier: BSD-2-Clause */
/* Root pages of arrays: page type "lladd.array". See array.c.
 *
 *   32 u32 bytes of an element
 *   36 u32 serial number
 *   40 u64 state: 0 nothing, 1 an array, 2 a destroyed array
 *   48 u64 length, in elements
 *   56 u64 formatted pages
 *   64     the extent sequence (extents.h)
 *
 *   lladd.array.format  redo u32 size, u32 serial            no undo
 *   lladd.array.put     redo u8 field, u64 value             undo the same fields, old value
 *                       field: 1 state, 2 length, 3 formatted */
#include "operations/array/array.h"

#define SIZE_AT 0u
#define SERIAL_AT 4u
#define PUT_BYTES 9u

static bool format_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    if (kind != LLADD_SPAN_REDO || s.len != LL_ARRAY_FORMAT_BYTES)
        return false;
    uint32_t size = lladd_get32(s.data);
    return size >= 1 && size <= lladd_body_size(page.size);
}

static void format_redo(struct lladd_page *page, struct lladd_span redo)
{
    memset(lladd_page_body(page), 0, lladd_body_size(page->size));
    memcpy(lladd_page_body(page), redo.data, LL_ARRAY_FORMAT_BYTES);
}

static const struct lladd_field format_fields[] = {
    {"size", LLADD_FIELD_U32}, {"serial", LLADD_FIELD_U32}, {NULL, LLADD_FIELD_END}};

const struct lladd_op ll_operations__array_format = {
    .struct_size = sizeof(struct lladd_op),
    .name = "lladd.array.format",
    .version = 1,
    .page_type = "lladd.array",
    .formats = true,
    .redo_fields = format_fields,
    .record_max = LL_ARRAY_FORMAT_BYTES,
    .undo_kind = LLADD_UNDO_NONE,
    .validate = format_validate,
    .redo = format_redo,
};

static int put_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                       struct lladd_draft *draft)
{
    (void)ctx;
    const struct ll_array_put *put = args.data;
    unsigned char *redo = lladd_draft_redo(draft, PUT_BYTES);
    unsigned char *undo = lladd_draft_undo(draft, PUT_BYTES);
    redo[0] = undo[0] = put->field;
    lladd_put64(redo + 1, put->value);
    memcpy(undo + 1, lladd_view_body(page) + 8u * put->field, 8);
    return 0;
}

static bool sensible(uint32_t field, uint64_t value)
{
    return field == LL_ARRAY_STATE ? value <= LL_ARRAY_DESTROYED : value <= LL_ARRAY_BYTES_MAX;
}

static bool put_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    const unsigned char *p = s.data;
    (void)page;
    (void)kind;
    return s.len == PUT_BYTES && p[0] >= LL_ARRAY_STATE && p[0] <= LL_ARRAY_FORMATTED &&
           sensible(p[0], lladd_get64(p + 1));
}

static void put_apply(struct lladd_page *page, struct lladd_span bytes)
{
    const unsigned char *p = bytes.data;
    memcpy(lladd_page_body(page) + 8u * p[0], p + 1, 8);
}

static const struct lladd_field put_fields[] = {
    {"field", LLADD_FIELD_U8}, {"value", LLADD_FIELD_U64}, {NULL, LLADD_FIELD_END}};

const struct lladd_op ll_operations__array_put = {
    .struct_size = sizeof(struct lladd_op),
    .name = "lladd.array.put",
    .version = 1,
    .page_type = "lladd.array",
    .redo_fields = put_fields,
    .undo_fields = put_fields,
    .record_max = 2 * PUT_BYTES,
    .undo_kind = LLADD_UNDO_PAGE,
    .prepare = put_prepare,
    .validate = put_validate,
    .redo = put_apply,
    .undo = put_apply,
};

static bool root_check(struct lladd_view v)
{
    const unsigned char *p = lladd_view_body(v);
    uint32_t size = lladd_get32(p + SIZE_AT);
    for (uint32_t field = LL_ARRAY_STATE; field <= LL_ARRAY_FORMATTED; field++)
        if (!sensible(field, lladd_get64(p + (size_t)8 * field)))
            return false;
    return size >= 1 && size <= lladd_body_size(v.size);
}

static void root_describe(void *ctx, struct lladd_sink *sink, struct lladd_view v)
{
    static const char *const states[] = {"nothing", "array", "destroyed array"};
    const unsigned char *p = lladd_view_body(v);
    uint64_t state = lladd_get64(p + 8 * LL_ARRAY_STATE);
    (void)ctx;
    lladd_sink_printf(sink, "%s of %llu elements of %u bytes, %llu pages formatted\n",
                      states[state <= LL_ARRAY_DESTROYED ? state : LL_ARRAY_NOTHING],
                      (unsigned long long)lladd_get64(p + 8 * LL_ARRAY_LENGTH),
                      lladd_get32(p + SIZE_AT),
                      (unsigned long long)lladd_get64(p + 8 * LL_ARRAY_FORMATTED));
    ll_operations__extents_describe(v, LL_ARRAY_RUN, sink);
}

const struct lladd_page_type ll_operations__array_page = {
    .struct_size = sizeof(struct lladd_page_type),
    .name = "lladd.array",
    .version = 1,
    .check = root_check,
    .describe = root_describe,
};

int ll_operations__array_read(struct lladd_db *db, lladd_pageno page, struct ll_array_root *out,
                              struct lladd_error *err)
{
    struct lladd_page *held;
    TRY(ll_operations__fix(db, page, ll_operations__array_page.name, LLADD_LATCH_SHARED, &held,
                           err));
    const unsigned char *p = lladd_page_body(held);
    bool sane = root_check(lladd_page_view(held));
    *out = (struct ll_array_root){.size = lladd_get32(p + SIZE_AT),
                                  .serial = lladd_get32(p + SERIAL_AT),
                                  .state = lladd_get64(p + 8 * LL_ARRAY_STATE),
                                  .length = lladd_get64(p + 8 * LL_ARRAY_LENGTH),
                                  .formatted = lladd_get64(p + 8 * LL_ARRAY_FORMATTED),
                                  .maker = lladd_get64(p + LL_ARRAY_RUN + 16)};
    /* Pages are formatted after they were added to the extent sequence, and freed after `formatted`
     * was lowered. So the sequence always has at least `formatted` pages. */
    sane = sane && ll_extents_says(p + LL_ARRAY_RUN, out->formatted);
    lladd_page_unfix(db, held, LLADD_LATCH_SHARED);
    if (sane && out->length <= ll_array_length_max(out->size))
        return 0;
    return ll_operations__on(err, page,
                             lladd_error_set(err, LLADD_CORRUPT_PAGE,
                                             "page %llu: invalid root page of an array",
                                             (unsigned long long)page.v));
}
