/* SPDX-License-Identifier: BSD-2-Clause */
/* Tells damaged pages from pages that have no contents yet, and repairs them.
 *
 * A page in use with a wrong checksum need not be damaged. A transaction takes a page, and formats
 * it or writes it in bulk later. Until then the file has the bytes of the page's earlier use. That
 * use may have had no checksum. The log says which pages these are:
 *
 *   the page was taken, and no record has changed it since     it has no contents
 *   its owner had neither prepared nor committed when the      after the commit, it is copied again
 *   page was read                                              or made by redo
 *   otherwise                                                  it is damaged
 *
 * The owner is the transaction that has taken the page, or that has logged a later redo barrier for
 * the page. If the log since `from` has neither record, the owner committed before `from`. Only
 * damaged pages are repaired: a repair of other pages would disturb their owners. */
#include "ship/backup_private.h"

#include <lladd/bulk.h>
#include <lladd/bytes.h>
#include <lladd/inspect.h>
#include <lladd/lladd.h>
#include <lladd/log_read.h>
#include <lladd/pages.h>
#include <lladd/stats.h>
#include <stdio.h>
#include <stdlib.h>

/* A page in use that was read with a wrong checksum. */
struct suspect {
    uint64_t page;
    uint64_t durable; /* the durable LSN when the page was read */
    uint64_t owner;   /* id of the transaction; 0: none found */
    uint64_t ended;   /* LSN of the owner's prepare or commit record; 0: none found */
    bool blank;       /* no record has changed the page since it was taken */
};

static struct suspect *suspects(const struct ll_ship_backup *b, size_t *n)
{
    *n = b->suspects.len / sizeof(struct suspect);
    return (void *)b->suspects.data;
}

int ll_ship_suspect(struct ll_ship_backup *b, uint64_t page)
{
    struct suspect s = {.page = page, .durable = lladd_durable_lsn(b->db).v};
    return ll_ship_append(&b->suspects, &s, sizeof s, b->err);
}

/* *keep: the page is in use, and its checksum is wrong this time, too. */
static int read_suspect(struct ll_ship_backup *b, uint64_t page, ll_ship_whole_fn *fn, void *ctx,
                        bool *keep)
{
    enum lladd_page_use use = LLADD_USE_NONE;
    int rc = ll_ship_read_pages(b, page, 1, b->chunk);
    bool whole =
        !rc && ll_ship_page_ok(b->m.info.uuid, page, b->chunk, b->m.info.page_size);
    *keep = false;
    if (rc || whole)
        return rc ? rc : fn(ctx, page, b->chunk);
    rc = lladd_page_use_get(b->db, lladd_page_of(page), &use, b->err);
    bool unknown = lladd_code_root(rc) == LLADD_ROOT_DATA; /* the allocation bitmap is damaged */
    *keep = unknown || (!rc && (use == LLADD_USE_PAGED || use == LLADD_USE_SYSTEM));
    return unknown ? 0 : rc;
}

int ll_ship_recheck(struct ll_ship_backup *b, uint64_t durable, ll_ship_whole_fn *fn, void *ctx)
{
    size_t n, kept = 0;
    struct suspect *s = suspects(b, &n);
    int rc = 0;
    for (size_t i = 0; i < n && !rc; i++) {
        bool keep;
        rc = read_suspect(b, s[i].page, fn, ctx, &keep);
        s[i].durable = durable;
        if (keep)
            s[kept++] = s[i];
    }
    b->suspects.len = kept * sizeof *s;
    return rc;
}

static uint64_t page_of(const struct suspect *s)
{
    return s->page;
}

static uint64_t owner_of(const struct suspect *s)
{
    return s->owner;
}

static int by_page(const void *a, const void *b)
{
    uint64_t x = page_of(a), y = page_of(b);
    return x < y ? -1 : x > y;
}

static int by_owner(const void *a, const void *b)
{
    uint64_t x = owner_of(a), y = owner_of(b);
    return x < y ? -1 : x > y;
}

/* The first suspect with this key or a higher one, in the order of the keys. */
static size_t first_at(const struct ll_ship_backup *b, uint64_t (*key)(const struct suspect *),
                       uint64_t want)
{
    size_t low = 0, high;
    const struct suspect *s = suspects(b, &high);
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (key(&s[mid]) < want)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Called for a record that begins a use of the pages. */
static void begin_use(struct ll_ship_backup *b, const struct lladd_log_entry *e, uint64_t first,
                      uint64_t n, bool blank)
{
    size_t all;
    struct suspect *s = suspects(b, &all);
    for (size_t i = first_at(b, page_of, first); i < all && s[i].page - first < n; i++) {
        s[i].owner = e->txn.v;
        s[i].blank = blank;
    }
}

/* First reading of the log: the owners. The suspects are in the order of their pages. */
static void see_use(struct ll_ship_backup *b, const struct lladd_log_entry *e)
{
    lladd_pageno first;
    uint64_t n;
    size_t all, i;
    struct suspect *s = suspects(b, &all);
    if (e->kind == LL_SHIP_REC_REDO_BARRIER && e->redo.len == 16)
        begin_use(b, e, lladd_get64(e->redo.data),
                  lladd_get64((const unsigned char *)e->redo.data + 8), false);
    if (e->kind != LL_SHIP_REC_UPDATE && e->kind != LL_SHIP_REC_CLR &&
        e->kind != LL_SHIP_REC_IMAGE)
        return;
    i = first_at(b, page_of, e->page);
    if (i < all && s[i].page == e->page)
        s[i].blank = false;
    if (lladd_pages_taken(b->db, e, &first, &n))
        begin_use(b, e, first.v, n, true);
}

/* Second reading: how the owners have ended. The suspects are in the order of their owners. */
static void see_end(struct ll_ship_backup *b, const struct lladd_log_entry *e)
{
    size_t all;
    struct suspect *s = suspects(b, &all);
    if (e->kind != LL_SHIP_REC_PREPARE && e->kind != LL_SHIP_REC_COMMIT)
        return;
    for (size_t i = first_at(b, owner_of, e->txn.v); i < all && s[i].owner == e->txn.v; i++)
        s[i].ended = s[i].ended ? s[i].ended : e->lsn.v;
}

static int read_log(struct ll_ship_backup *b, uint64_t end,
                    void (*see)(struct ll_ship_backup *, const struct lladd_log_entry *))
{
    struct lladd_log_cursor *cursor;
    struct lladd_log_entry e;
    int rc = lladd_log_open(b->db, b->m.info.from, NULL, &cursor, b->err);
    if (rc)
        return rc;
    while ((rc = lladd_log_next(cursor, &e, b->err)) == 0 && e.lsn.v < end)
        see(b, &e);
    lladd_log_close(cursor);
    return rc == LLADD_END ? 0 : rc;
}

static int find_owners(struct ll_ship_backup *b)
{
    size_t n;
    struct suspect *s = suspects(b, &n);
    struct lladd_stats stats = {.struct_size = sizeof stats};
    qsort(s, n, sizeof *s, by_page);
    /* An owner may have taken its page a moment ago, and a cursor returns durable records only. */
    int rc = lladd_stats_get(b->db, &stats);
    if (!rc)
        rc = lladd_log_force(b->db, lladd_lsn_of(stats.log_tail - 1), b->err);
    if (!rc)
        rc = read_log(b, stats.log_tail, see_use);
    qsort(s, n, sizeof *s, by_owner);
    return rc ? rc : read_log(b, stats.log_tail, see_end);
}

static bool is_damaged(const struct suspect *s)
{
    return s->owner == 0 || (!s->blank && s->ended && s->ended < s->durable);
}

/* Has the page written again, from the cache, the log or an archive. A backup then reads the page
 * from the file, and raises E above the page LSN as for any page. If nothing gives the page, *why
 * says why, and the backup goes on: perhaps no backup would ever get the page. */
static int repair(struct ll_ship_backup *b, uint64_t page, struct lladd_error *why)
{
    *why = (struct lladd_error)LLADD_ERROR_INIT;
    int rc = lladd_page_rewrite(b->db, lladd_page_of(page), why);
    if (!rc || lladd_code_root(rc) == LLADD_ROOT_DATA)
        return 0;
    if (b->err)
        *b->err = *why;
    return rc;
}

int ll_ship_repair_pages(struct ll_ship_backup *b, ll_ship_repaired_fn *fn, void *ctx)
{
    struct lladd_error why;
    size_t n;
    const struct suspect *s = suspects(b, &n);
    int rc = n ? find_owners(b) : 0;
    b->repairing = true;
    for (size_t i = 0; i < n && !rc; i++)
        if (is_damaged(&s[i]) && (rc = repair(b, s[i].page, &why)) == 0)
            rc = fn(b, ctx, s[i].page, why.message);
    b->repairing = false;
    b->suspects.len = 0;
    return rc;
}

int ll_ship_tell_damaged(const struct ll_ship_backup *b, uint64_t page, const char *why,
                         lladd_finding_fn *fn, void *ctx)
{
    char text[320];
    struct lladd_finding f = {.kind = LLADD_FINDING_DAMAGE,
                              .code = LLADD_CORRUPT_PAGE,
                              .file = "pages",
                              .offset = page * b->m.info.page_size,
                              .page = lladd_page_of(page),
                              .message = text};
    (void)snprintf(text, sizeof text, "the page is damaged, and was not repaired%s%s",
                   *why ? ": " : "", why);
    return fn ? fn(ctx, &f) : 0;
}
