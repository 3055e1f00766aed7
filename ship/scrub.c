/* SPDX-License-Identifier: BSD-2-Clause */
/* Scrub: reads every page of the file of an open database. A damaged page is repaired as in a
 * backup (copy_damage.c). A whole page that is older than the archive says is a write that the disk
 * has lost, maybe in an earlier run.
 *
 * A page must have at least
 *
 *   - the LSN of its newest record below the start of redo of the last checkpoint: by the indexes
 *     of the archived segments, and by the log that is not archived yet
 *   - the highest redo barrier under which it was written in bulk, by the stored spools
 *   - the LSN that it has in the newest backup
 *
 * All this is taken from the begin of the newest backup on. A page that has less is suspect. So is
 * a page with changes in the cache that are not written yet, and a freed page, which need not be
 * written. So a suspect is looked at again after the next checkpoint, and it must be in use. A page
 * that was taken since, or that a redo barrier has covered since, is no suspect: a transaction
 * takes pages long before it formats them, and extents are covered whole and written in part. */
#include "ship/backup_private.h"
#include "ship/page_private.h"

#include <lladd/bulk.h>
#include <lladd/bytes.h>
#include <lladd/inspect.h>
#include <lladd/lladd.h>
#include <lladd/log_read.h>
#include <lladd/pages.h>
#include <stdio.h>
#include <string.h>

enum { PAGE_LSN = 8, ROUNDS = 3 };

struct suspect {
    uint64_t page, lsn; /* it must have this LSN */
};

struct scrub {
    struct ll_ship_backup b;  /* reads and repairs pages */
    struct ll_ship_wanted w;  /* what the archive has */
    struct lladd_scrub_options opt;
    struct lladd_scrub_info info;
    uint64_t redo;            /* start of redo of the last checkpoint */
    uint64_t *newest;         /* of each page: the LSN that it must have */
    uint64_t pages;           /* of the file when the scrub began */
    struct ll_ship_manifest m; /* of the newest backup */
    struct lladd_device *base; /* NULL: there is none */
    struct lladd_file *base_pages;
    unsigned char *chunk; /* pages of the backup */
    struct ll_ship_buf suspects;
    struct lladd_log_hold *hold;
    struct lladd_error *err;
};

static void must_have(struct scrub *s, uint64_t page, uint64_t lsn)
{
    if (page < s->pages && s->newest[page] < lsn)
        s->newest[page] = lsn;
}

static int tell(struct scrub *s, enum lladd_finding_kind kind, uint64_t page, uint64_t lsn,
                const char *message)
{
    struct lladd_finding f = {.kind = kind,
                              .code = LLADD_CORRUPT_PAGE,
                              .file = "pages",
                              .offset = page * s->b.m.info.page_size,
                              .lsn = lladd_lsn_of(lsn),
                              .page = lladd_page_of(page),
                              .message = message};
    int rc = s->opt.finding ? s->opt.finding(s->opt.finding_ctx, &f) : 0;
    return rc ? lladd_error_set(s->err, rc, "the function for findings has stopped the scrub") : 0;
}

/* ---- what a page must have ------------------------------------------------------------------ */

static int checkpoint(struct scrub *s)
{
    unsigned char control[LL_SHIP_CONTROL];
    int rc = lladd_checkpoint(s->b.db, s->err);
    if (!rc)
        rc = ll_ship_control_read(s->b.dev, control, s->err);
    if (!rc)
        s->redo = ll_ship_control_redo(control);
    return rc;
}

/* Of a segment in which the log was left for another timeline, only what is below counts. */
static int learn_segment(struct scrub *s, const struct ll_ship_stored *seg, uint64_t top,
                         uint64_t *known)
{
    struct ll_ship_index ix;
    int rc = ll_ship_index_load(s->w.past.store, s->w.past.mem, seg->timeline,
                                lladd_lsn_of(seg->first), &ix, s->err);
    if (rc)
        return rc;
    const struct ll_ship_index_page *p = (const void *)ix.pages.data;
    uint64_t below = top < s->redo ? top : s->redo;
    for (size_t i = 0; i < ix.pages.len / sizeof *p; i++)
        if (!(p[i].flags & LL_SHIP_PAGE_BULK) && p[i].first < below)
            must_have(s, p[i].page, p[i].last < below ? p[i].last : p[i].first);
    if (seg->timeline == s->w.timeline && ix.next.v > *known)
        *known = ix.next.v;
    ll_ship_index_free(&ix);
    return 0;
}

/* *known: the records below are in indexes. */
static int learn_archive(struct scrub *s, uint64_t *known)
{
    const struct ll_ship_stored *seg = (const void *)s->w.past.stored.data;
    const struct ll_ship_step *step = (const void *)s->w.steps.data;
    int rc = 0;
    for (size_t i = 0; i < s->w.past.stored.len / sizeof *seg && !rc; i++)
        for (size_t k = 0; k < s->w.steps.len / sizeof *step && !rc; k++)
            if (seg[i].source == LL_SHIP_IN_SEGMENT && seg[i].timeline == step[k].timeline &&
                seg[i].first >= s->m.info.from.v && seg[i].first < step[k].top)
                rc = learn_segment(s, &seg[i], step[k].top, known);
    return rc;
}

static bool changes_a_page(const struct lladd_log_entry *e)
{
    return e->page != LLADD_NO_PAGE &&
           (e->kind == LL_SHIP_REC_UPDATE || e->kind == LL_SHIP_REC_CLR ||
            e->kind == LL_SHIP_REC_IMAGE);
}

static int learn_log(struct scrub *s, uint64_t from)
{
    struct lladd_log_cursor *cursor;
    struct lladd_log_entry e;
    int rc = lladd_log_open(s->b.db, lladd_lsn_of(from), NULL, &cursor, s->err);
    if (rc)
        return rc;
    while ((rc = lladd_log_next(cursor, &e, s->err)) == 0 && e.lsn.v < s->redo)
        if (changes_a_page(&e))
            must_have(s, e.page, e.lsn.v);
    lladd_log_close(cursor);
    return rc == LLADD_END ? 0 : rc;
}

static int learn_piece(void *ctx, const struct ll_ship_blk_piece *p)
{
    struct scrub *s = ctx;
    for (uint32_t i = 0; i < p->n && p->typed; i++)
        must_have(s, p->page + i, p->barrier);
    return 0;
}

static int open_base(struct scrub *s)
{
    struct lladd_restore_options o = LLADD_RESTORE_OPTIONS_INIT;
    o.base = s->m.info.name;
    o.allocator = s->b.mem.allocator;
    int rc = lladd_store_device(s->w.past.store, &o, &s->base, s->err);
    if (!rc && s->base->ops->open(s->base, "pages", LLADD_OPEN_READ_ONLY, &s->base_pages) != 0)
        rc = ll_ship_no_memory(s->err);
    return rc;
}

static int learn(struct scrub *s)
{
    const struct lladd_backup_info *base;
    uint64_t known = 0, oldest = lladd_log_hold_raise(s->hold, lladd_lsn_of(0)).v;
    int rc = ll_ship_wanted_open(&s->w);
    base = rc ? NULL : ll_ship_wanted_base(&s->w, UINT64_MAX);
    rc = rc == LLADD_NOT_FOUND ? 0 : rc; /* the store is empty */
    if (base) {
        rc = ll_ship_manifest_find(s->w.past.store, base->name, &s->m, s->err);
        if (!rc)
            rc = open_base(s);
        if (!rc)
            rc = learn_archive(s, &known);
        if (!rc)
            rc = ll_ship_wanted_spools(&s->w);
        if (!rc)
            rc = ll_ship_wanted_pieces(&s->w, s->m.info.from.v, learn_piece, s);
        s->info.compared = true;
        s->info.from = s->m.info.from;
    }
    return rc ? rc : learn_log(s, known > oldest ? known : oldest);
}

/* ---- every page ----------------------------------------------------------------------------- */

static bool is_whole(const struct scrub *s, uint64_t number, const unsigned char *page)
{
    return ll_ship_page_ok(s->b.m.info.uuid, number, page, s->b.m.info.page_size);
}

/* Is the page as new as it must be? A damaged one is repaired later. */
static int compare(struct scrub *s, uint64_t number, const unsigned char *page)
{
    struct suspect one = {number, s->newest[number]};
    if (!is_whole(s, number, page) || lladd_get64(page + PAGE_LSN) >= one.lsn)
        return 0;
    return ll_ship_append(&s->suspects, &one, sizeof one, s->err);
}

static int look_at_page(struct scrub *s, uint64_t number, unsigned char *page)
{
    int rc = is_whole(s, number, page) ? 0 : ll_ship_look_closer(&s->b, number, page);
    return rc ? rc : compare(s, number, page);
}

static int see_repaired(struct ll_ship_backup *b, void *ctx, uint64_t number)
{
    struct scrub *s = ctx;
    unsigned char *page = b->chunk;
    size_t damaged = b->damaged.len;
    int rc = ll_ship_read_pages(b, number, 1, page);
    if (!rc && !is_whole(s, number, page))
        rc = ll_ship_look_closer(b, number, page);
    if (!rc && is_whole(s, number, page)) {
        s->info.repaired++;
        rc = tell(s, LLADD_FINDING_REPAIR, number, 0, "the page was damaged, and was repaired");
    } else if (!rc && b->damaged.len > damaged) {
        s->info.damaged++;
        rc = tell(s, LLADD_FINDING_DAMAGE, number, 0,
                  "the page is damaged, and cannot be repaired");
    }
    return rc ? rc : compare(s, number, page);
}

static int learn_base(struct scrub *s, uint64_t first, uint64_t n)
{
    uint32_t size = s->b.m.info.page_size;
    if (!s->base || first >= s->m.info.pages)
        return 0;
    n = n < s->m.info.pages - first ? n : s->m.info.pages - first;
    if (s->base->ops->pread(s->base, s->base_pages, s->chunk, n * size, first * size) < 0)
        return lladd_store_device_error(s->base, s->err);
    for (uint64_t i = 0; i < n; i++)
        if (is_whole(s, first + i, s->chunk + i * size))
            must_have(s, first + i, lladd_get64(s->chunk + i * size + PAGE_LSN));
    return 0;
}

static int look_at_all(struct scrub *s)
{
    uint32_t size = s->b.m.info.page_size;
    uint64_t most = LL_SHIP_CHUNK / size;
    int rc = 0;
    for (uint64_t at = 0; at < s->pages && !rc;) {
        uint64_t n = s->pages - at < most ? s->pages - at : most;
        rc = learn_base(s, at, n);
        if (!rc)
            rc = ll_ship_read_pages(&s->b, at, n, s->b.chunk);
        for (uint64_t i = 0; i < n && !rc; i++)
            rc = look_at_page(s, at + i, s->b.chunk + i * size);
        if (!rc)
            rc = ll_ship_progress(&s->b, n * size);
        at += n;
    }
    s->info.pages = s->pages;
    return rc;
}

/* ---- suspects ------------------------------------------------------------------------------- */

static void drop_covered(struct scrub *s, uint64_t first, uint64_t n, uint64_t lsn)
{
    struct suspect *at = (void *)s->suspects.data;
    size_t kept = 0, have = s->suspects.len / sizeof *at;
    for (size_t i = 0; i < have; i++)
        if (at[i].page < first || at[i].page - first >= n || at[i].lsn >= lsn)
            at[kept++] = at[i];
    s->suspects.len = kept * sizeof *at;
}

/* Does the record begin a use of pages? What they had before does not matter then. */
static void see_entry(struct scrub *s, const struct lladd_log_entry *e)
{
    lladd_pageno first;
    uint64_t n;
    if (e->kind == LL_SHIP_REC_REDO_BARRIER && e->redo.len == 16)
        drop_covered(s, lladd_get64(e->redo.data),
                     lladd_get64((const unsigned char *)e->redo.data + 8), e->lsn.v);
    else if (e->kind == LL_SHIP_REC_UPDATE && lladd_pages_taken(s->b.db, e, &first, &n))
        drop_covered(s, first.v, n, e->lsn.v);
}

static int see_record(void *ctx, const struct ll_ship_logged *r, struct lladd_error *err)
{
    struct scrub *s = ctx;
    struct lladd_log_entry e;
    if (r->kind != LL_SHIP_REC_REDO_BARRIER && r->kind != LL_SHIP_REC_UPDATE)
        return 0;
    int rc = lladd_log_decode(s->b.db, r->bytes, r->size, lladd_lsn_of(r->lsn), r->incarnation, &e,
                              err);
    if (!rc)
        see_entry(s, &e);
    return rc;
}

static int uses_of_archive(struct scrub *s)
{
    struct ll_ship_image im;
    uint64_t to, end;
    bool more = false;
    ll_ship_image_init(&im, s->w.past.mem, s->w.past.store, s->w.uuid);
    int rc = ll_ship_past_reach(&s->w.past, &s->w.steps, s->m.info.end.v, &to, s->err);
    if (!rc)
        rc = ll_ship_collect(&s->w.past, &s->w.steps, s->w.timeline, &s->m, to, &im, s->err);
    if (!rc)
        rc = ll_ship_scan(&im, s->m.info.from.v, to, see_record, s, &end, &more, s->err);
    ll_ship_image_free(&im);
    return rc;
}

static int uses_of_log(struct scrub *s)
{
    struct lladd_log_cursor *cursor;
    struct lladd_log_entry e;
    int rc = lladd_log_open(s->b.db, lladd_lsn_of(0), NULL, &cursor, s->err);
    if (rc)
        return rc;
    while ((rc = lladd_log_next(cursor, &e, s->err)) == 0)
        see_entry(s, &e);
    lladd_log_close(cursor);
    return rc == LLADD_END ? 0 : rc;
}

/* Which LSN has the page in the cache? LLADD_NOT_FOUND: it is not in use. */
static int look_in_cache(struct scrub *s, uint64_t number, uint64_t *lsn)
{
    struct lladd_page *page;
    enum lladd_page_use use = LLADD_USE_SYSTEM; /* also if the allocation bitmap is damaged */
    int rc = lladd_page_use_get(s->b.db, lladd_page_of(number), &use, s->err);
    if (rc && lladd_code_root(rc) != LLADD_ROOT_DATA)
        return rc;
    if (use != LLADD_USE_PAGED && use != LLADD_USE_SYSTEM)
        return LLADD_NOT_FOUND;
    rc = lladd_page_fix(s->b.db, lladd_page_of(number), LLADD_LATCH_SHARED, &page, s->err);
    *lsn = 0;
    if (rc) /* the cache knows that a write was lost, and nothing has the page */
        return lladd_code_root(rc) == LLADD_ROOT_DATA ? 0 : rc;
    *lsn = lladd_get64(lladd_page_view(page).bytes + PAGE_LSN);
    lladd_page_unfix(s->b.db, page, LLADD_LATCH_SHARED);
    return 0;
}

/* Looks at a suspect after a checkpoint. *again: it was changed since. *lost: a write of it was
 * lost. */
static int judge(struct scrub *s, const struct suspect *p, bool *again, bool *lost,
                 uint64_t *cached)
{
    unsigned char *page = s->b.chunk;
    int rc = ll_ship_read_pages(&s->b, p->page, 1, page);
    *again = *lost = false;
    if (rc)
        return rc;
    if (!is_whole(s, p->page, page)) {
        *again = true;
        return 0;
    }
    if (lladd_get64(page + PAGE_LSN) >= p->lsn)
        return 0;
    rc = look_in_cache(s, p->page, cached);
    if (rc == LLADD_NOT_FOUND)
        return 0;
    *again = !rc && *cached >= s->redo;
    *lost = !rc && !*again;
    return rc;
}

static int report_lost(struct scrub *s, const struct suspect *p, uint64_t cached)
{
    char text[160];
    s->info.lost++;
    if (cached >= p->lsn) {
        int rc = lladd_page_rewrite(s->b.db, lladd_page_of(p->page), s->err);
        return rc ? rc
                  : tell(s, LLADD_FINDING_REPAIR, p->page, p->lsn,
                         "a write was lost; the page was written again from the cache");
    }
    (void)snprintf(text, sizeof text,
                   "a write was lost: the page has LSN %llu, and was written with LSN %llu",
                   (unsigned long long)cached, (unsigned long long)p->lsn);
    return tell(s, LLADD_FINDING_DAMAGE, p->page, p->lsn, text);
}

/* Reports the suspects that are certain, and keeps those that must be looked at again. */
static int look_again(struct scrub *s)
{
    struct suspect *at = (void *)s->suspects.data;
    size_t kept = 0, have = s->suspects.len / sizeof *at;
    int rc = 0;
    for (size_t i = 0; i < have && !rc; i++) {
        bool again, lost;
        uint64_t cached = 0;
        rc = judge(s, &at[i], &again, &lost, &cached);
        if (!rc && again)
            at[kept++] = at[i];
        if (!rc && lost)
            rc = report_lost(s, &at[i], cached);
    }
    s->suspects.len = kept * sizeof *at;
    return rc;
}

static int look_at_suspects(struct scrub *s)
{
    int rc = s->suspects.len && s->base ? uses_of_archive(s) : 0;
    for (int i = 0; i < ROUNDS && s->suspects.len && !rc; i++) {
        rc = checkpoint(s);
        if (!rc)
            rc = uses_of_log(s);
        if (!rc)
            rc = look_again(s);
    }
    return rc;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static int make_room(struct scrub *s)
{
    uint64_t size = 0;
    int rc = s->b.dev->ops->size(s->b.dev, s->b.pages, &size);
    if (rc)
        return ll_ship_fail_io(s->err, rc, "read", "pages");
    s->pages = size / s->b.m.info.page_size;
    s->b.bytes_all = size;
    s->b.what = "pages";
    s->newest = ll_ship_new(s->b.mem, (s->pages + 1) * sizeof *s->newest);
    s->b.chunk = ll_ship_new(s->b.mem, LL_SHIP_CHUNK);
    s->chunk = ll_ship_new(s->b.mem, LL_SHIP_CHUNK);
    return s->newest && s->b.chunk && s->chunk ? 0 : ll_ship_no_memory(s->err);
}

static int run(struct scrub *s)
{
    int rc = make_room(s);
    if (!rc)
        rc = checkpoint(s);
    if (!rc)
        rc = learn(s);
    if (!rc)
        rc = look_at_all(s);
    if (!rc)
        rc = ll_ship_repair_pages(&s->b, see_repaired, s);
    return rc ? rc : look_at_suspects(s);
}

static int open_and_run(struct scrub *s)
{
    struct ll_ship_backup *b = &s->b;
    int rc = lladd_log_keep(b->db, "scrub", lladd_lsn_of(0), &s->hold, s->err);
    if (rc)
        return rc;
    b->m.info.from = lladd_log_hold_raise(s->hold, lladd_lsn_of(0));
    rc = b->dev->ops->open(b->dev, "pages", LLADD_OPEN_READ_ONLY, &b->pages);
    if (rc) {
        rc = ll_ship_fail_io(s->err, rc, "open", "pages");
    } else {
        rc = run(s);
        (void)b->dev->ops->close(b->dev, b->pages);
    }
    lladd_log_release(s->hold);
    return rc;
}

static void begin(struct scrub *s, struct lladd_archive *a, struct lladd_db *db,
                  const struct lladd_scrub_options *options)
{
    s->opt = (struct lladd_scrub_options)LLADD_SCRUB_OPTIONS_INIT;
    if (options)
        memcpy(&s->opt, options,
               options->struct_size < sizeof s->opt ? options->struct_size : sizeof s->opt);
    s->b = (struct ll_ship_backup){.db = db, .dev = a->dev, .mem = a->mem, .err = s->err};
    s->b.opt.progress = s->opt.progress;
    s->b.opt.progress_ctx = s->opt.progress_ctx;
    s->b.pace = (struct ll_ship_pace){s->opt.bytes_per_second, ll_ship_now_ns(a->opt.world), 0,
                                      a->opt.world};
    lladd_db_uuid(db, s->b.m.info.uuid);
    s->b.m.info.page_size = lladd_page_size(db);
    s->b.suspects.mem = s->b.damaged.mem = s->suspects.mem = a->mem;
    s->w = (struct ll_ship_wanted){.a = a,
                                   .db = db,
                                   .since = UINT64_MAX,
                                   .past = {.mem = a->mem},
                                   .steps = {.mem = a->mem},
                                   .txns = {.mem = a->mem},
                                   .err = s->err};
    ll_ship_manifest_init(&s->m, a->mem);
}

static void release(struct scrub *s)
{
    if (s->base_pages)
        (void)s->base->ops->close(s->base, s->base_pages);
    lladd_store_device_close(s->base);
    ll_ship_manifest_free(&s->m);
    ll_ship_past_free(&s->w.past);
    ll_ship_buf_free(&s->w.steps);
    ll_ship_buf_free(&s->w.txns);
    ll_ship_buf_free(&s->b.suspects);
    ll_ship_buf_free(&s->b.damaged);
    ll_ship_buf_free(&s->suspects);
    ll_ship_delete(s->b.mem, s->newest);
    ll_ship_delete(s->b.mem, s->b.chunk);
    ll_ship_delete(s->b.mem, s->chunk);
}

int lladd_scrub(struct lladd_archive *a, const struct lladd_scrub_options *options,
                struct lladd_scrub_info *info, struct lladd_error *err)
{
    struct scrub s = {.err = err};
    if (!a)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "the archive is NULL");
    lladd_mutex_lock(&a->state);
    struct lladd_db *db = a->db;
    lladd_mutex_unlock(&a->state);
    if (!db)
        return lladd_error_set(err, LLADD_BAD_STATE, "no database is open with this archive");
    begin(&s, a, db, options);
    int rc = open_and_run(&s);
    if (!rc && info) {
        size_t size = info->struct_size;
        s.info.struct_size = size;
        memcpy(info, &s.info, size < sizeof s.info ? size : sizeof s.info);
    }
    release(&s);
    return rc;
}
