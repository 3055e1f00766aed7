/* SPDX-License-Identifier: BSD-2-Clause */
/* packages.bucket and packages.index_put: a custom page type and a custom operation.
 *
 * A bucket says for consecutive sequence numbers where their records are. Its page:
 *
 *   32 u64 first     the sequence number of entry 0
 *   40 u32 used      how many entries are set
 *   44 u32 zero
 *   48     entries of 16 bytes: u64 page, u32 slot, u32 size; all zero: not set
 *
 * The library calls `prepare` with the page latched: it may refuse, and otherwise builds the bytes
 * of the log record. From there on nothing can fail. The library logs the record and runs `redo` on
 * it: normal operation *is* redo (OP-1), so what recovery will do is what has been done all along.
 * Redo and undo see one page and the logged bytes; they never see an LSN. That each happens exactly
 * once, before a crash and after it, is the library's business (OP-2).
 *
 * Redo and undo bytes look the same, "make the entry of this sequence number be this":
 *
 *   u64 sequence, u64 page, u32 slot, u32 size
 *
 * Undo puts one entry back and leaves its neighbours alone, so transactions that set different
 * entries of one page can commit and abort in any order. */
#include "bucket.h"

#include <lladd/bytes.h>
#include <string.h>

#define FIRST_AT LLADD_PAGE_HEADER
#define USED_AT (FIRST_AT + 8u)
#define ENTRIES_AT (FIRST_AT + 16u)
#define ENTRY_BYTES 16u
#define PUT_BYTES (8u + ENTRY_BYTES)
#define FORMAT_BYTES 8u

uint32_t bucket_capacity(uint32_t page_size)
{
    return (page_size - ENTRIES_AT) / ENTRY_BYTES;
}

static bool is_set(const unsigned char *entry)
{
    return lladd_get64(entry) != 0; /* page 0 is the root page: no record is ever there */
}

/* Where the entry of a sequence number is in the page; 0 if it belongs to another bucket. */
static uint32_t entry_at(const unsigned char *bytes, uint32_t page_size, uint64_t sequence)
{
    uint64_t i = sequence - lladd_get64(bytes + FIRST_AT);
    return i < bucket_capacity(page_size) ? ENTRIES_AT + (uint32_t)i * ENTRY_BYTES : 0;
}

bool bucket_find(struct lladd_view page, uint64_t sequence, struct lladd_rid *out)
{
    uint32_t at = entry_at(page.bytes, page.size, sequence);
    if (!at || !is_set(page.bytes + at))
        return false;
    out->page = lladd_page_of(lladd_get64(page.bytes + at));
    out->slot = lladd_get32(page.bytes + at + 8);
    out->size = lladd_get32(page.bytes + at + 12);
    return true;
}

/* ---- packages.index_put ---------------------------------------------------------------------- */

static int put_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                       struct lladd_draft *draft)
{
    (void)ctx;
    const struct bucket_put *put = args.data;
    uint32_t at = entry_at(page.bytes, page.size, put->sequence);
    if (!at || put->rid.page.v == 0)
        return lladd_error_set(draft->error, LLADD_OUT_OF_RANGE, "no place for %llu in page %llu",
                               (unsigned long long)put->sequence,
                               (unsigned long long)page.number.v);
    unsigned char *redo = lladd_draft_redo(draft, PUT_BYTES);
    unsigned char *undo = lladd_draft_undo(draft, PUT_BYTES);
    lladd_put64(redo, put->sequence);
    lladd_put64(redo + 8, put->rid.page.v);
    lladd_put32(redo + 16, put->rid.slot);
    lladd_put32(redo + 20, put->rid.size);
    lladd_put64(undo, put->sequence);
    memcpy(undo + 8, page.bytes + at, ENTRY_BYTES);
    return 0;
}

/* Stored bytes may be anything, even with a good checksum: after true, `put_apply` stays inside the
 * page (OP-7). */
static bool put_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)kind;
    return s.len == PUT_BYTES && entry_at(page.bytes, page.size, lladd_get64(s.data)) != 0;
}

static void put_apply(struct lladd_page *page, struct lladd_span s)
{
    const unsigned char *bytes = s.data;
    unsigned char *entry = page->bytes + entry_at(page->bytes, page->size, lladd_get64(bytes));
    uint32_t used = lladd_get32(page->bytes + USED_AT) - is_set(entry);
    memcpy(entry, bytes + 8, ENTRY_BYTES);
    lladd_put32(page->bytes + USED_AT, used + is_set(entry));
}

/* The invariant: debug builds look after every update, `lladd verify` whenever it is asked. */
static bool bucket_check(struct lladd_view page)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < bucket_capacity(page.size); i++)
        used += is_set(page.bytes + ENTRIES_AT + i * ENTRY_BYTES);
    return used == lladd_get32(page.bytes + USED_AT);
}

/* Logged with the operation's name, so that `lladd log` prints the fields without this program. */
static const struct lladd_field put_fields[] = {{"sequence", LLADD_FIELD_U64},
                                                {"page", LLADD_FIELD_PAGE},
                                                {"slot", LLADD_FIELD_U32},
                                                {"size", LLADD_FIELD_U32},
                                                {NULL, LLADD_FIELD_END}};

static const struct lladd_op index_put = {
    .struct_size = sizeof(struct lladd_op),
    .name = "packages.index_put",
    .version = 1,
    .page_type = BUCKET_TYPE,
    .redo_fields = put_fields,
    .undo_fields = put_fields,
    .record_max = 2 * PUT_BYTES,
    .undo_kind = LLADD_UNDO_PAGE,
    .prepare = put_prepare,
    .validate = put_validate,
    .redo = put_apply,
    .undo = put_apply,
    .check = bucket_check,
};

/* ---- packages.bucket.format: without `prepare`, so the arguments are what is logged ---------- */

static bool format_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)page;
    return kind == LLADD_SPAN_REDO && s.len == FORMAT_BYTES;
}

static void format_redo(struct lladd_page *page, struct lladd_span redo)
{
    memcpy(page->bytes + FIRST_AT, redo.data, FORMAT_BYTES);
}

static const struct lladd_field format_fields[] = {{"first", LLADD_FIELD_U64},
                                                   {NULL, LLADD_FIELD_END}};

static const struct lladd_op bucket_format = {
    .struct_size = sizeof(struct lladd_op),
    .name = BUCKET_TYPE ".format",
    .version = 1,
    .page_type = BUCKET_TYPE,
    .formats = true, /* redo starts from zeros, whatever the page was before */
    .redo_fields = format_fields,
    .record_max = FORMAT_BYTES,
    .undo_kind = LLADD_UNDO_NONE,
    .validate = format_validate,
    .redo = format_redo,
    .check = bucket_check,
};

static const struct lladd_page_type bucket_type = {
    .struct_size = sizeof(struct lladd_page_type),
    .name = BUCKET_TYPE,
    .version = 1,
    .check = bucket_check,
};

int bucket_register(struct lladd_options *options, struct lladd_error *err)
{
    int rc = lladd_register_page_type(options, &bucket_type, err);
    if (!rc)
        rc = lladd_register(options, &bucket_format, err);
    if (!rc)
        rc = lladd_register(options, &index_put, err);
    return rc;
}

int bucket_lookup(struct lladd_db *db, lladd_op_id *put, lladd_op_id *format,
                  struct lladd_error *err)
{
    if (lladd_op_lookup(db, index_put.name, index_put.version, put) ||
        lladd_op_lookup(db, bucket_format.name, bucket_format.version, format))
        return lladd_error_set(err, LLADD_NOT_FOUND, "opened without bucket_register");
    return 0;
}
