/* SPDX-License-Identifier: BSD-2-Clause */
/* packages.tally and packages.count: a custom page type and a custom operation.
 *
 * One page has, for each first letter, the number of stanzas and of their bytes; the last cell is
 * for stanzas with another first character. Many open transactions add to the page at a time, so it
 * contains uncommitted additions of many transactions.
 *
 *   offset 32: 27 cells of 16 bytes: i64 stanzas, i64 bytes
 *
 * The library calls `prepare` with the page latched. `prepare` may return an error; otherwise it
 * builds the bytes of the log record. Redo and undo cannot fail. The library logs the record and
 * runs `redo` with its bytes: normal operation *is* redo (OP-1 in docs/wal-rules.md), so recovery
 * runs the code of normal operation. Redo and undo get one page and the logged bytes, never an LSN.
 * The library applies each redo and each undo to the page exactly once, whatever crashes come
 * (OP-2).
 *
 * Redo and undo bytes have the same format, "add this to this cell"; undo subtracts:
 *
 *   u32 cell, i64 stanzas, i64 bytes
 *
 * So the log has the added amounts, not the sums. Transactions can count in one cell, and commit
 * and abort in any order, without waiting for each other's end. */
#include "tally.h"

#include <lladd/bytes.h>
#include <lladd/extension.h>

#define CELL_BYTES 16u
#define COUNT_BYTES (4u + CELL_BYTES)

static unsigned char *cell_at(unsigned char *bytes, uint32_t cell)
{
    return bytes + LLADD_PAGE_HEADER + cell * CELL_BYTES;
}

uint32_t tally_cell(const char *text, size_t len)
{
    unsigned letter = len ? (unsigned char)text[0] | 0x20u : 0; /* upper case becomes lower case */
    return letter >= 'a' && letter <= 'z' ? letter - 'a' : TALLY_CELLS - 1;
}

/* ---- packages.count -------------------------------------------------------------------------- */

static int count_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                         struct lladd_draft *draft)
{
    (void)ctx;
    (void)page;
    const struct tally_count *count = args.data;
    if (count->cell >= TALLY_CELLS)
        return lladd_error_set(draft->error, LLADD_OUT_OF_RANGE, "there is no cell %u",
                               count->cell);
    unsigned char *redo = lladd_draft_redo(draft, COUNT_BYTES);
    unsigned char *undo = lladd_draft_undo(draft, COUNT_BYTES);
    lladd_put32(redo, count->cell);
    lladd_put64(redo + 4, (uint64_t)count->add.stanzas);
    lladd_put64(redo + 12, (uint64_t)count->add.bytes);
    lladd_copy(undo, redo, COUNT_BYTES);
    return 0;
}

/* Stored bytes may have any value, even with a valid checksum: if this function returns true, redo
 * and undo stay inside the page (OP-7). */
static bool count_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)page;
    (void)kind;
    return s.len == COUNT_BYTES && lladd_get32(s.data) < TALLY_CELLS;
}

/* Adds modulo 2^64, so that undo can always subtract the amounts again. */
static void add(struct lladd_page *page, const unsigned char *bytes, uint64_t sign)
{
    unsigned char *cell = cell_at(page->bytes, lladd_get32(bytes));
    lladd_put64(cell, lladd_get64(cell) + sign * lladd_get64(bytes + 4));
    lladd_put64(cell + 8, lladd_get64(cell + 8) + sign * lladd_get64(bytes + 12));
}

static void count_redo(struct lladd_page *page, struct lladd_span redo)
{
    add(page, redo.data, 1);
}

static void count_undo(struct lladd_page *page, struct lladd_span undo)
{
    add(page, undo.data, UINT64_MAX);
}

/* The page's invariant: debug builds check it after every update, `lladd verify` on request. */
static bool tally_check(struct lladd_view page)
{
    const unsigned char *p = lladd_view_body(page);
    for (uint32_t i = 0; i < TALLY_CELLS; i++)
        if ((int64_t)lladd_get64(p + i * CELL_BYTES) < 0 ||
            (int64_t)lladd_get64(p + i * CELL_BYTES + 8) < 0)
            return false;
    return true;
}

/* Logged with the operation's name, so that `lladd log` prints the fields without this program. */
static const struct lladd_field count_fields[] = {{"cell", LLADD_FIELD_U32},
                                                  {"stanzas", LLADD_FIELD_I64},
                                                  {"bytes", LLADD_FIELD_I64},
                                                  {NULL, LLADD_FIELD_END}};

static const struct lladd_op tally_count = {
    .struct_size = sizeof(struct lladd_op),
    .name = "packages.count",
    .version = 1,
    .page_type = TALLY_TYPE,
    .redo_fields = count_fields,
    .undo_fields = count_fields,
    .record_max = 2 * COUNT_BYTES,
    .undo_kind = LLADD_UNDO_PAGE,
    .prepare = count_prepare,
    .validate = count_validate,
    .redo = count_redo,
    .undo = count_undo,
    .check = tally_check,
};

/* ---- packages.tally.format: an empty page, all zeros ----------------------------------------- */

static bool format_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)page;
    return kind == LLADD_SPAN_REDO && s.len == 0;
}

static void format_redo(struct lladd_page *page, struct lladd_span redo)
{
    (void)page; /* because of `formats`, the body of the page is already zeros */
    (void)redo;
}

static const struct lladd_op tally_format = {
    .struct_size = sizeof(struct lladd_op),
    .name = TALLY_TYPE ".format",
    .version = 1,
    .page_type = TALLY_TYPE,
    .formats = true, /* redo starts from zeros, whatever the page was before */
    .undo_kind = LLADD_UNDO_NONE,
    .validate = format_validate,
    .redo = format_redo,
    .check = tally_check,
};

static const struct lladd_page_type tally_type = {
    .struct_size = sizeof(struct lladd_page_type),
    .name = TALLY_TYPE,
    .version = 1,
    .check = tally_check,
};

int tally_register(struct lladd_options *options, struct lladd_error *err)
{
    int rc = lladd_register_page_type(options, &tally_type, err);
    if (!rc)
        rc = lladd_register_op(options, &tally_format, err);
    if (!rc)
        rc = lladd_register_op(options, &tally_count, err);
    return rc;
}

int tally_lookup(struct lladd_db *db, lladd_op_id *count, struct lladd_error *err)
{
    if (lladd_op_lookup(db, tally_count.name, tally_count.version, count))
        return lladd_error_set(err, LLADD_NOT_FOUND, "opened without tally_register");
    return 0;
}

int tally_read(struct lladd_db *db, lladd_pageno page, struct tally out[TALLY_CELLS],
               struct lladd_error *err)
{
    struct lladd_page *held;
    int rc = lladd_page_fix(db, page, LLADD_LATCH_SHARED, &held, err);
    if (rc)
        return rc;
    struct lladd_view view = lladd_page_view(held);
    const unsigned char *p = lladd_view_body(view);
    if (!lladd_page_is(db, view, TALLY_TYPE))
        rc = lladd_error_set(err, LLADD_WRONG_TYPE, "page %llu is not a tally",
                             (unsigned long long)page.v);
    for (uint32_t i = 0; i < TALLY_CELLS && !rc; i++)
        out[i] = (struct tally){(int64_t)lladd_get64(p + i * CELL_BYTES),
                                (int64_t)lladd_get64(p + i * CELL_BYTES + 8)};
    lladd_page_unfix(db, held, LLADD_LATCH_SHARED);
    return rc;
}
