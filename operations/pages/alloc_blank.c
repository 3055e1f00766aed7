/* SPDX-License-Identifier: BSD-2-Clause */
/* Blank pages: pages that are allocated and have not been formatted since. A structure may allocate
 * pages long before it formats them (shared/extents.c). When the page was freed, its cached copy
 * was dropped unwritten (BUF-6), so the page on disk may lack changes that are in the log. That is
 * no damage, because a blank page has no contents.
 *
 * The log tells which pages are blank: a page is blank if no record about the page follows the
 * record that takes the page. The record that takes the page follows the records of the page's
 * earlier use. So if redo meets a record of the earlier use, the log from the start of redo on also
 * has the record that takes the page. Older log, which a pin may keep, is not read: it may be
 * damaged. If a page is allocated now, the record that takes it was not undone: after its undo, the
 * page would be free until another record takes it. A page that was written in bulk and not changed
 * since looks blank, too. That does no harm: redo meets no record of such a page, so recovery does
 * not ask about it.
 *
 * Recovery asks about one page at a time, and only about pages without a base, so it hardly ever
 * asks. The first question reads the log; each later one reads only what is new. */
#include "operations/pages/alloc_bitmap.h"

#include <lladd/log_read.h>
#include <lladd/stats.h>
#include <string.h>

void ll_operations__blank_free(struct ll_operations *ops)
{
    lladd_mem_free(ops->db, ops->alloc.blank.bits);
}

/* Makes the table cover the page file. */
static int want_bits(struct ll_operations *ops, struct lladd_error *err)
{
    struct ll_blank_pages *b = &ops->alloc.blank;
    uint64_t words = lladd_page_count(ops->db) / 64 + 1;
    if (words <= b->n_words)
        return 0;
    uint64_t *bits = words > SIZE_MAX / sizeof *bits
                         ? NULL
                         : lladd_mem_resize(ops->db, b->bits, (size_t)words * sizeof *bits);
    if (!bits)
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for a list of blank pages");
    memset(bits + b->n_words, 0, (size_t)(words - b->n_words) * sizeof *bits);
    b->bits = bits;
    b->n_words = words;
    return 0;
}

static void set_blank(struct ll_blank_pages *b, uint64_t page, bool blank)
{
    uint64_t bit = UINT64_C(1) << page % 64;
    if (page / 64 >= b->n_words)
        return;
    b->bits[page / 64] = blank ? b->bits[page / 64] | bit : b->bits[page / 64] & ~bit;
}

/* Does the record change a page? In the record of an object, `page` is the object's number. */
static bool is_about_page(const struct lladd_log_entry *e)
{
    const char *kind = lladd_log_kind_name(e->kind);
    return e->page != LLADD_NO_PAGE &&
           (strcmp(kind, "update") == 0 || strcmp(kind, "clr") == 0 || strcmp(kind, "image") == 0);
}

static void see(struct ll_operations *ops, const struct lladd_log_entry *e)
{
    struct ll_blank_pages *b = &ops->alloc.blank;
    lladd_pageno first;
    uint64_t n;
    if (!is_about_page(e))
        return;
    set_blank(b, e->page, false);
    if (lladd_pages_taken(ops->db, e, &first, &n))
        for (uint64_t i = 0; i < n; i++)
            set_blank(b, first.v + i, true);
}

/* Reads the log from where the last call has ended. */
static int read_on(struct ll_operations *ops, lladd_lsn redo, struct lladd_error *err)
{
    struct ll_blank_pages *b = &ops->alloc.blank;
    lladd_lsn end = lladd_durable_lsn(ops->db), from = b->upto.v ? b->upto : redo;
    struct lladd_log_cursor *cursor;
    struct lladd_log_entry e;
    TRY(lladd_log_open(ops->db, from, NULL, &cursor, err));
    int rc = lladd_log_next(cursor, &e, err);
    for (; !rc && e.lsn.v < end.v; rc = lladd_log_next(cursor, &e, err))
        see(ops, &e);
    lladd_log_close(cursor);
    if (rc && rc != LLADD_END)
        return rc;
    b->upto = end;
    return 0;
}

int ll_operations__is_blank(struct ll_operations *ops, lladd_pageno page, bool *out,
                            struct lladd_error *err)
{
    const struct ll_blank_pages *b = &ops->alloc.blank;
    struct lladd_stats s = {.struct_size = sizeof s};
    /* The page may have been taken a moment ago, and a cursor returns durable records only. */
    TRY(lladd_stats_get(ops->db, &s));
    TRY(lladd_log_force(ops->db, lladd_lsn_of(s.log_tail - 1), err));
    TRY(want_bits(ops, err));
    TRY(read_on(ops, lladd_lsn_of(s.log_tail - s.redo_bytes), err));
    *out = page.v / 64 < b->n_words && b->bits[page.v / 64] >> page.v % 64 & 1;
    return 0;
}
