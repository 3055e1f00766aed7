/* SPDX-License-Identifier: BSD-2-Clause */
/* The pages of blobs and the operations on them.
 *
 *   root page, type "lladd.blob"
 *     32 u64 length
 *     40 32 * u48 data pages 0 to 31
 *    232 4 * u48 index pages of levels 1 to 4
 *    256 the first bytes
 *
 *   index page, type "lladd.blob.index"
 *     32 u64 root page
 *     40 u56 first data page below it
 *     47 u8  level, from 1
 *     48 u48 each: data pages (level 1), or index pages of the level below
 *
 *   data page, type "lladd.blob.data"
 *     32 u64 root page
 *     40 u56 number of the data page
 *     47 u8  0
 *     48 bytes
 *
 * Page number 0 in an entry: the page does not exist, and its bytes are zeros. All bytes after
 * the blob's length are zero, so lengthening a blob writes no bytes.
 *
 *   lladd.blob.format        redo u64 length, bytes from 256 on              no undo
 *   lladd.blob.write         redo u64 length, u16 offset, bytes              undo the same fields
 *   lladd.blob.link          redo u16 entry, u16 n, u64 first page           undo the same fields
 *   lladd.blob.index.format  redo u64 root, u64 what                         no undo
 *   lladd.blob.index.link    redo u16 entry, u16 n, u64 first page           undo the same fields
 *   lladd.blob.data.format   redo u64 root, u64 what, bytes from 48 on       no undo
 *   lladd.blob.data.set      redo u16 offset, bytes                          undo the same fields
 *
 * Offsets are within the page. `what` is the page's word at 40. A link replaces one run of n
 * entries by another run. A run is n consecutive pages, or n empty entries (first page 0), so
 * redo and undo are short for any number of pages. */
#include "operations/blob/blob.h"

#include <string.h>

#define WRITE_HEAD 10u
#define LINK_BYTES 12u
#define OWNED_HEAD 16u
#define SET_HEAD 2u

static const unsigned char zeros[BLOB_PIECE];

static const unsigned char *or_zeros(const unsigned char *bytes)
{
    return bytes ? bytes : zeros;
}

static int outside(struct lladd_draft *draft, struct lladd_view page, uint64_t at, uint64_t n)
{
    return ll_operations__on(draft->error, page.number,
                             lladd_error_set(draft->error, LLADD_OUT_OF_RANGE,
                                             "from %llu to %llu: outside a page of a blob",
                                             (unsigned long long)at, (unsigned long long)(at + n)));
}

/* ---- root: format, write --------------------------------------------------------------------- */

static int format_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                          struct lladd_draft *draft)
{
    static const struct ll_blob_write empty; /* lladd_page_format passes no arguments */
    const struct ll_blob_write *a = args.len ? args.data : &empty;
    (void)ctx;
    (void)page;
    unsigned char *redo = lladd_draft_redo(draft, 8 + a->n);
    lladd_put64(redo, a->length);
    if (a->n)
        memcpy(redo + 8, or_zeros(a->bytes), a->n);
    return 0;
}

static bool format_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    return kind == LLADD_SPAN_REDO && s.len >= 8 && lladd_get64(s.data) <= LLADD_BLOB_MAX &&
           s.len - 8 <= ll_blob_head_room(page.size);
}

static void format_redo(struct lladd_page *page, struct lladd_span redo)
{
    memset(lladd_page_body(page), 0, lladd_body_size(page->size));
    memcpy(page->bytes + BLOB_LENGTH, redo.data, 8);
    memcpy(page->bytes + BLOB_FIRST, (const unsigned char *)redo.data + 8, redo.len - 8);
}

static int write_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                         struct lladd_draft *draft)
{
    const struct ll_blob_write *a = args.data;
    (void)ctx;
    if (a->at < BLOB_FIRST || a->at > page.size || a->n > page.size - a->at)
        return outside(draft, page, a->at, a->n);
    const unsigned char *new = or_zeros(a->bytes), *now = page.bytes + a->at;
    size_t skip, n = ll_operations__differ(now, new, a->n, &skip);
    unsigned char *redo = lladd_draft_redo(draft, WRITE_HEAD + n);
    unsigned char *undo = lladd_draft_undo(draft, WRITE_HEAD + n);
    uint16_t at = n ? (uint16_t)(a->at + skip) : BLOB_FIRST; /* an offset on a page: 16 bits */
    lladd_put64(redo, a->length);
    lladd_put16(redo + 8, at);
    memcpy(redo + WRITE_HEAD, new + skip, n);
    memcpy(undo, page.bytes + BLOB_LENGTH, 8);
    lladd_put16(undo + 8, at);
    memcpy(undo + WRITE_HEAD, now + skip, n);
    return 0;
}

static bool write_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    const unsigned char *p = s.data;
    (void)kind;
    return s.len >= WRITE_HEAD && lladd_get64(p) <= LLADD_BLOB_MAX &&
           lladd_get16(p + 8) >= BLOB_FIRST &&
           lladd_get16(p + 8) + (s.len - WRITE_HEAD) <= page.size;
}

static void write_apply(struct lladd_page *page, struct lladd_span bytes)
{
    const unsigned char *p = bytes.data;
    memcpy(page->bytes + BLOB_LENGTH, p, 8);
    memcpy(page->bytes + lladd_get16(p + 8), p + WRITE_HEAD, bytes.len - WRITE_HEAD);
}

/* ---- entries --------------------------------------------------------------------------------- */

uint32_t ll_operations__blob_run(const unsigned char *page, uint32_t base, uint32_t i, uint32_t n)
{
    uint64_t first = ll_blob_entry(page, base, i);
    uint32_t k = 1;
    while (k < n && ll_blob_entry(page, base, i + k) == (first ? first + k : 0))
        k++;
    return k;
}

/* Offset of a page's first entry, and the number of its entries. */
struct entries {
    uint32_t base, n;
};
static const struct entries of_root = {BLOB_ENTRIES, BLOB_DIRECT + BLOB_LEVELS};

static struct entries of_index(uint32_t page_size)
{
    struct entries e = {BLOB_REST, ll_blob_fan(page_size)};
    return e;
}

static void put_link(unsigned char *p, uint32_t at, uint32_t n, uint64_t first)
{
    lladd_put16(p, (uint16_t)at);
    lladd_put16(p + 2, (uint16_t)n);
    lladd_put64(p + 4, first);
}

static int link_in(struct lladd_view page, struct entries e, const struct ll_blob_link *a,
                   struct lladd_draft *draft)
{
    if (a->n == 0 || a->at > e.n || a->n > e.n - a->at)
        return outside(draft, page, a->at, a->n);
    if (ll_operations__blob_run(page.bytes, e.base, a->at, a->n) < a->n)
        return ll_operations__on(
            draft->error, page.number,
            lladd_error_set(draft->error, LLADD_CONFLICT,
                            "another transaction has written to the blob"));
    put_link(lladd_draft_redo(draft, LINK_BYTES), a->at, a->n, a->first);
    put_link(lladd_draft_undo(draft, LINK_BYTES), a->at, a->n,
             ll_blob_entry(page.bytes, e.base, a->at));
    return 0;
}

static bool link_fine(struct entries e, struct lladd_span s)
{
    const unsigned char *p = s.data;
    if (s.len != LINK_BYTES)
        return false;
    uint32_t at = lladd_get16(p), n = lladd_get16(p + 2);
    return at <= e.n && n <= e.n - at && lladd_get64(p + 4) <= (UINT64_C(1) << 48) - n;
}

static void link_apply(struct lladd_page *page, uint32_t base, struct lladd_span s)
{
    const unsigned char *p = s.data;
    uint32_t n = lladd_get16(p + 2);
    uint64_t first = lladd_get64(p + 4);
    unsigned char *e = page->bytes + base + lladd_get16(p) * BLOB_ENTRY;
    for (uint32_t i = 0; i < n; i++, e += BLOB_ENTRY)
        lladd_put48(e, first ? first + i : 0);
}

static int link_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                        struct lladd_draft *draft)
{
    (void)ctx;
    return link_in(page, of_root, args.data, draft);
}
static bool link_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)page;
    (void)kind;
    return link_fine(of_root, s);
}
static void root_link_apply(struct lladd_page *page, struct lladd_span bytes)
{
    link_apply(page, of_root.base, bytes);
}

static int index_link_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                              struct lladd_draft *draft)
{
    (void)ctx;
    return link_in(page, of_index(page.size), args.data, draft);
}
static bool index_link_validate(struct lladd_view page, enum lladd_span_kind kind,
                                struct lladd_span s)
{
    (void)kind;
    return link_fine(of_index(page.size), s);
}
static void index_link_apply(struct lladd_page *page, struct lladd_span bytes)
{
    link_apply(page, BLOB_REST, bytes);
}

/* ---- index and data pages: format, set ------------------------------------------------------- */

/* lladd_page_format passes no arguments; a page that it formats belongs to no blob. */
static int owned_prepare(unsigned level, struct lladd_span args, struct lladd_draft *draft)
{
    struct ll_blob_data none = {.where = ll_blob_where(level, 0)};
    const struct ll_blob_data *a = args.len ? args.data : &none;
    unsigned char *redo = lladd_draft_redo(draft, OWNED_HEAD + a->n);
    lladd_put64(redo, a->root.v);
    lladd_put64(redo + 8, a->where);
    if (a->n)
        memcpy(redo + OWNED_HEAD, a->bytes, a->n);
    return 0;
}

static int index_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                         struct lladd_draft *draft)
{
    (void)ctx;
    (void)page;
    return owned_prepare(1, args, draft);
}
static bool index_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)page;
    if (kind != LLADD_SPAN_REDO || s.len != OWNED_HEAD)
        return false;
    uint64_t level = lladd_get64((const unsigned char *)s.data + 8) >> 56;
    return level >= 1 && level <= BLOB_LEVELS;
}

static int data_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                        struct lladd_draft *draft)
{
    (void)ctx;
    (void)page;
    return owned_prepare(0, args, draft);
}
static bool data_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    return kind == LLADD_SPAN_REDO && s.len >= OWNED_HEAD &&
           s.len - OWNED_HEAD <= ll_blob_page_room(page.size) &&
           lladd_get64((const unsigned char *)s.data + 8) >> 56 == 0;
}

static void owned_redo(struct lladd_page *page, struct lladd_span redo)
{
    memset(lladd_page_body(page), 0, lladd_body_size(page->size));
    memcpy(lladd_page_body(page), redo.data, redo.len);
}

static int set_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                       struct lladd_draft *draft)
{
    const struct ll_blob_set *a = args.data;
    (void)ctx;
    if (a->at < BLOB_REST || a->at > page.size || a->n > page.size - a->at)
        return outside(draft, page, a->at, a->n);
    const unsigned char *new = or_zeros(a->bytes), *now = page.bytes + a->at;
    size_t skip, n = ll_operations__differ(now, new, a->n, &skip);
    unsigned char *redo = lladd_draft_redo(draft, SET_HEAD + n);
    unsigned char *undo = lladd_draft_undo(draft, SET_HEAD + n);
    lladd_put16(redo, n ? (uint16_t)(a->at + skip) : BLOB_REST);
    memcpy(undo, redo, SET_HEAD);
    memcpy(redo + SET_HEAD, new + skip, n);
    memcpy(undo + SET_HEAD, now + skip, n);
    return 0;
}
static bool set_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)kind;
    return s.len >= SET_HEAD && lladd_get16(s.data) >= BLOB_REST &&
           lladd_get16(s.data) + (s.len - SET_HEAD) <= page.size;
}
static void set_apply(struct lladd_page *page, struct lladd_span bytes)
{
    const unsigned char *p = bytes.data;
    memcpy(page->bytes + lladd_get16(p), p + SET_HEAD, bytes.len - SET_HEAD);
}

/* ---- descriptors ----------------------------------------------------------------------------- */

static const struct lladd_field format_fields[] = {
    {"length", LLADD_FIELD_U64}, {"bytes", LLADD_FIELD_TEXT}, {NULL, LLADD_FIELD_END}};
static const struct lladd_field write_fields[] = {{"length", LLADD_FIELD_U64},
                                                  {"offset", LLADD_FIELD_U16},
                                                  {"bytes", LLADD_FIELD_TEXT},
                                                  {NULL, LLADD_FIELD_END}};
static const struct lladd_field link_fields[] = {{"entry", LLADD_FIELD_U16},
                                                 {"count", LLADD_FIELD_U16},
                                                 {"first", LLADD_FIELD_PAGE},
                                                 {NULL, LLADD_FIELD_END}};
static const struct lladd_field index_fields[] = {
    {"root", LLADD_FIELD_PAGE}, {"what", LLADD_FIELD_U64}, {NULL, LLADD_FIELD_END}};
static const struct lladd_field data_fields[] = {{"root", LLADD_FIELD_PAGE},
                                                 {"what", LLADD_FIELD_U64},
                                                 {"bytes", LLADD_FIELD_TEXT},
                                                 {NULL, LLADD_FIELD_END}};
static const struct lladd_field set_fields[] = {
    {"offset", LLADD_FIELD_U16}, {"bytes", LLADD_FIELD_TEXT}, {NULL, LLADD_FIELD_END}};

const struct lladd_op ll_operations__blob_format = {
    .struct_size = sizeof(struct lladd_op),
    .name = "lladd.blob.format",
    .version = 1,
    .page_type = "lladd.blob",
    .formats = true,
    .redo_fields = format_fields,
    .record_max = 8 + BLOB_PIECE,
    .undo_kind = LLADD_UNDO_NONE,
    .prepare = format_prepare,
    .validate = format_validate,
    .redo = format_redo,
};

const struct lladd_op ll_operations__blob_write = {
    .struct_size = sizeof(struct lladd_op),
    .name = "lladd.blob.write",
    .version = 1,
    .page_type = "lladd.blob",
    .redo_fields = write_fields,
    .undo_fields = write_fields,
    .record_max = 2 * (WRITE_HEAD + BLOB_PIECE),
    .undo_kind = LLADD_UNDO_PAGE,
    .prepare = write_prepare,
    .validate = write_validate,
    .redo = write_apply,
    .undo = write_apply,
};

const struct lladd_op ll_operations__blob_link_op = {
    .struct_size = sizeof(struct lladd_op),
    .name = "lladd.blob.link",
    .version = 1,
    .page_type = "lladd.blob",
    .redo_fields = link_fields,
    .undo_fields = link_fields,
    .record_max = 2 * LINK_BYTES,
    .undo_kind = LLADD_UNDO_PAGE,
    .prepare = link_prepare,
    .validate = link_validate,
    .redo = root_link_apply,
    .undo = root_link_apply,
};

const struct lladd_op ll_operations__blob_index_format = {
    .struct_size = sizeof(struct lladd_op),
    .name = "lladd.blob.index.format",
    .version = 1,
    .page_type = "lladd.blob.index",
    .formats = true,
    .redo_fields = index_fields,
    .record_max = OWNED_HEAD,
    .undo_kind = LLADD_UNDO_NONE,
    .prepare = index_prepare,
    .validate = index_validate,
    .redo = owned_redo,
};

const struct lladd_op ll_operations__blob_index_link = {
    .struct_size = sizeof(struct lladd_op),
    .name = "lladd.blob.index.link",
    .version = 1,
    .page_type = "lladd.blob.index",
    .redo_fields = link_fields,
    .undo_fields = link_fields,
    .record_max = 2 * LINK_BYTES,
    .undo_kind = LLADD_UNDO_PAGE,
    .prepare = index_link_prepare,
    .validate = index_link_validate,
    .redo = index_link_apply,
    .undo = index_link_apply,
};

const struct lladd_op ll_operations__blob_data_format = {
    .struct_size = sizeof(struct lladd_op),
    .name = "lladd.blob.data.format",
    .version = 1,
    .page_type = "lladd.blob.data",
    .formats = true,
    .redo_fields = data_fields,
    .record_max = OWNED_HEAD + BLOB_PIECE,
    .undo_kind = LLADD_UNDO_NONE,
    .prepare = data_prepare,
    .validate = data_validate,
    .redo = owned_redo,
};

const struct lladd_op ll_operations__blob_data_set = {
    .struct_size = sizeof(struct lladd_op),
    .name = "lladd.blob.data.set",
    .version = 1,
    .page_type = "lladd.blob.data",
    .redo_fields = set_fields,
    .undo_fields = set_fields,
    .record_max = 2 * (SET_HEAD + BLOB_PIECE),
    .undo_kind = LLADD_UNDO_PAGE,
    .prepare = set_prepare,
    .validate = set_validate,
    .redo = set_apply,
    .undo = set_apply,
};

/* ---- page types ------------------------------------------------------------------------------ */

static bool root_check(struct lladd_view v)
{
    return lladd_get64(v.bytes + BLOB_LENGTH) <= LLADD_BLOB_MAX;
}

static bool index_check(struct lladd_view v)
{
    uint64_t level = lladd_get64(v.bytes + BLOB_WHERE) >> 56;
    return level >= 1 && level <= BLOB_LEVELS;
}

static bool data_check(struct lladd_view v)
{
    return lladd_get64(v.bytes + BLOB_WHERE) >> 56 == 0;
}

static void describe_entries(struct lladd_sink *sink, struct lladd_view v, struct entries e)
{
    for (uint32_t i = 0, n; i < e.n; i += n) {
        uint64_t first = ll_blob_entry(v.bytes, e.base, i);
        n = ll_operations__blob_run(v.bytes, e.base, i, e.n - i);
        if (first)
            lladd_sink_printf(sink, "  %u to %u: from page %llu on\n", i, i + n - 1,
                              (unsigned long long)first);
    }
}

static void root_describe(void *ctx, struct lladd_sink *sink, struct lladd_view v)
{
    (void)ctx;
    lladd_sink_printf(sink, "%llu bytes\n", (unsigned long long)lladd_get64(v.bytes + BLOB_LENGTH));
    describe_entries(sink, v, of_root);
}

static void owned_describe(struct lladd_sink *sink, struct lladd_view v)
{
    uint64_t where = lladd_get64(v.bytes + BLOB_WHERE);
    lladd_sink_printf(sink, "of blob %llu, level %llu, data page %llu\n",
                      (unsigned long long)lladd_get64(v.bytes + BLOB_ROOT),
                      (unsigned long long)(where >> 56),
                      (unsigned long long)(where & ((UINT64_C(1) << 56) - 1)));
}

static void index_describe(void *ctx, struct lladd_sink *sink, struct lladd_view v)
{
    (void)ctx;
    owned_describe(sink, v);
    describe_entries(sink, v, of_index(v.size));
}

static void data_describe(void *ctx, struct lladd_sink *sink, struct lladd_view v)
{
    (void)ctx;
    owned_describe(sink, v);
}

const struct lladd_page_type ll_operations__blob_page = {
    .struct_size = sizeof(struct lladd_page_type),
    .name = "lladd.blob",
    .version = 1,
    .check = root_check,
    .describe = root_describe,
};

const struct lladd_page_type ll_operations__blob_index_page = {
    .struct_size = sizeof(struct lladd_page_type),
    .name = "lladd.blob.index",
    .version = 1,
    .check = index_check,
    .describe = index_describe,
};

const struct lladd_page_type ll_operations__blob_data_page = {
    .struct_size = sizeof(struct lladd_page_type),
    .name = "lladd.blob.data",
    .version = 1,
    .check = data_check,
    .describe = data_describe,
};
