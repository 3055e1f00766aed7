/* SPDX-License-Identifier: BSD-2-Clause */
/* Scrub: reads every page of the file of an open database. A damaged page is repaired as in a
 * backup (copy_damage.c). If an undamaged page is older than the archive says, the disk has lost a
 * write, maybe in an earlier run. The same holds for a raw page that has other bytes than were
 * written last.
 *
 * newest.c finds what a page must have. A page with an older version is a suspect. Suspects include
 * pages with changes that are only in the cache, and freed pages, which need not be written. So a
 * suspect is looked at again after the next checkpoint, and stays a suspect only if it is in use. A
 * page that was taken since, or that a redo barrier has covered since, is no suspect any more. A
 * transaction takes pages long before it formats them, and a barrier may cover pages that are never
 * written. The log shows such uses. Of the archived log only the part above the oldest suspect is
 * read, and only if a suspect is left.
 *
 * A raw page does not show when it was written. But a redo barrier is logged before the write. So
 * if a raw page was written before the scrub first read it, the scrub finds the barrier in the log
 * that it reads later.
 *
 * A database that no process has open is compared in the same way, and nothing is changed. */
#include "ship/backup_private.h"
#include "ship/newest.h"

#include <lladd/bulk.h>
#include <lladd/bytes.h>
#include <lladd/dst.h>
#include <lladd/inspect.h>
#include <lladd/lladd.h>
#include <lladd/log_read.h>
#include <lladd/pages.h>
#include <lladd/stats.h>
#include <stdio.h>
#include <string.h>

enum { PAGE_LSN = 8, ROUNDS = 3 };

struct suspect {
    uint64_t page;
    struct ll_ship_must must;
    bool lost;       /* to be reported */
    uint64_t cached; /* page LSN in the cache */
};

struct scrub {
    struct ll_ship_backup b;  /* reads and repairs pages */
    struct ll_ship_newest n;  /* what pages must have */
    bool closed;              /* b.db is opened over an overlay of b.dev; nothing is changed */
    bool archive_read;        /* the archived log was read for uses of the suspects */
    struct lladd_scrub_options opt;
    struct lladd_scrub_info info;
    struct ll_ship_buf suspects;
    struct lladd_log_hold *hold;
    struct lladd_error *err;
};

static int fail_stopped(struct scrub *s, int rc)
{
    return lladd_error_set(s->err, rc, "the function for findings has stopped the scrub");
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
    return rc ? fail_stopped(s, rc) : 0;
}

/* ---- every page ----------------------------------------------------------------------------- */

static int checkpoint(struct scrub *s)
{
    unsigned char control[LL_SHIP_CONTROL];
    bool none = s->closed || LLADD_PLANTED(LLADD_BUG_SCRUB_CACHE);
    int rc = none ? 0 : lladd_checkpoint(s->b.db, s->err);
    if (!rc)
        rc = ll_ship_control_read(s->b.dev, control, s->err);
    if (!rc)
        s->n.redo = ll_ship_control_redo(control);
    return rc;
}

static bool is_whole(const struct scrub *s, uint64_t number, const unsigned char *page)
{
    return ll_ship_page_ok(s->b.m.info.uuid, number, page, s->b.m.info.page_size);
}

/* Is the page not as it must be? */
static bool is_older(const struct scrub *s, uint64_t number, const struct ll_ship_must *must,
                     const unsigned char *page)
{
    bool whole = is_whole(s, number, page);
    return ll_ship_is_older(must, whole, whole ? lladd_get64(page + PAGE_LSN) : 0,
                            must->raw ? lladd_crc32c(0, page, s->b.m.info.page_size) : 0);
}

static int compare(struct scrub *s, uint64_t number, const unsigned char *page)
{
    struct suspect one = {.page = number, .must = s->n.must[number]};
    return is_older(s, number, &one.must, page)
               ? ll_ship_append(&s->suspects, &one, sizeof one, s->err)
               : 0;
}

static int look_at_page(struct scrub *s, uint64_t number, unsigned char *page)
{
    int rc = s->closed || is_whole(s, number, page) ? 0 : ll_ship_look_closer(&s->b, number, page);
    return rc ? rc : compare(s, number, page);
}

static int see_repaired(struct ll_ship_backup *b, void *ctx, uint64_t number, const char *why)
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
        rc = ll_ship_tell_damaged(b, number, why, s->opt.finding, s->opt.finding_ctx);
        if (rc)
            rc = fail_stopped(s, rc);
    }
    return rc ? rc : compare(s, number, page);
}

static int see_whole(void *ctx, uint64_t page, const unsigned char *bytes)
{
    return compare(ctx, page, bytes);
}

/* Pages with wrong checksums are looked at again after a checkpoint, and repaired. */
static int repair_damaged(struct scrub *s)
{
    uint64_t durable = lladd_durable_lsn(s->b.db).v;
    int rc = s->b.suspects.len ? checkpoint(s) : 0;
    if (!rc)
        rc = ll_ship_recheck(&s->b, durable, see_whole, s);
    return rc ? rc : ll_ship_repair_pages(&s->b, see_repaired, s);
}

static int look_at_all(struct scrub *s)
{
    uint32_t size = s->b.m.info.page_size;
    uint64_t most = LL_SHIP_CHUNK / size, pages = s->n.pages;
    int rc = 0;
    for (uint64_t at = 0; at < pages && !rc;) {
        uint64_t n = pages - at < most ? pages - at : most;
        rc = ll_ship_read_pages(&s->b, at, n, s->b.chunk);
        for (uint64_t i = 0; i < n && !rc; i++)
            rc = look_at_page(s, at + i, s->b.chunk + i * size);
        if (!rc)
            rc = ll_ship_progress(&s->b, n * size);
        at += n;
    }
    s->info.pages = pages;
    return rc;
}

/* ---- later uses of the suspects ------------------------------------------------------------- */

static struct suspect *suspects(const struct scrub *s, size_t *n)
{
    *n = s->suspects.len / sizeof(struct suspect);
    return (void *)s->suspects.data;
}

/* The lowest LSN that a suspect must have. Later uses of the suspects are above it. */
static uint64_t lowest(const struct scrub *s)
{
    size_t n;
    const struct suspect *at = suspects(s, &n);
    uint64_t low = UINT64_MAX;
    for (size_t i = 0; i < n; i++)
        low = at[i].must.lsn < low ? at[i].must.lsn : low;
    return low;
}

static void drop_covered(struct scrub *s, uint64_t first, uint64_t n, uint64_t lsn)
{
    size_t have, kept = 0;
    struct suspect *at = suspects(s, &have);
    for (size_t i = 0; i < have; i++)
        if (at[i].page < first || at[i].page - first >= n || at[i].must.lsn >= lsn)
            at[kept++] = at[i];
    s->suspects.len = kept * sizeof *at;
}

/* If the record begins a use of pages, drops these suspects: what the pages had before does not
 * matter any more. */
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
    struct ll_ship_newest *n = &s->n;
    struct ll_ship_image im;
    uint64_t to, end, from = ll_ship_newest_start(n, lowest(s));
    bool more = false;
    ll_ship_image_init(&im, n->w.past.mem, n->w.past.store, n->w.uuid);
    int rc = ll_ship_past_reach(&n->w.past, &n->w.steps, n->m.info.end.v, &to, s->err);
    if (!rc)
        rc = ll_ship_collect(&n->w.past, &n->w.steps, n->w.timeline, &n->m, to, &im, s->err);
    if (!rc && from < to)
        rc = ll_ship_scan(&im, from, to, see_record, s, &end, &more, s->err);
    ll_ship_image_free(&im);
    s->archive_read = true;
    return rc;
}

/* The log is forced, because a cursor returns durable records only, and a page may have been taken
 * a moment ago. */
static int uses_of_log(struct scrub *s)
{
    struct lladd_log_cursor *cursor;
    struct lladd_log_entry e;
    struct lladd_stats stats = {.struct_size = sizeof stats};
    uint64_t oldest = lladd_log_hold_raise(s->hold, lladd_lsn_of(0)).v, from = lowest(s);
    int rc = lladd_stats_get(s->b.db, &stats);
    if (!rc)
        rc = lladd_log_force(s->b.db, lladd_lsn_of(stats.log_tail - 1), s->err);
    if (!rc)
        rc = lladd_log_open(s->b.db, lladd_lsn_of(from > oldest ? from : oldest), NULL, &cursor,
                            s->err);
    if (rc)
        return rc;
    while ((rc = lladd_log_next(cursor, &e, s->err)) == 0 && e.lsn.v < stats.log_tail)
        see_entry(s, &e);
    lladd_log_close(cursor);
    return rc == LLADD_END ? 0 : rc;
}

/* ---- suspects ------------------------------------------------------------------------------- */

static int use_of(struct scrub *s, uint64_t page, enum lladd_page_use *out)
{
    *out = LLADD_USE_SYSTEM; /* even if the allocation bitmap is damaged */
    int rc = lladd_page_use_get(s->b.db, lladd_page_of(page), out, s->err);
    return lladd_code_root(rc) == LLADD_ROOT_DATA ? 0 : rc;
}

/* *lsn: the page LSN in the cache. */
static int look_in_cache(struct scrub *s, uint64_t number, uint64_t *lsn)
{
    struct lladd_page *page;
    int rc = lladd_page_fix(s->b.db, lladd_page_of(number), LLADD_LATCH_SHARED, &page, s->err);
    *lsn = 0;
    if (rc) /* the cache has found a lost write, and the page cannot be rebuilt */
        return lladd_code_root(rc) == LLADD_ROOT_DATA ? 0 : rc;
    *lsn = lladd_get64(lladd_page_view(page).bytes + PAGE_LSN);
    lladd_page_unfix(s->b.db, page, LLADD_LATCH_SHARED);
    return 0;
}

/* Looks at a suspect after a checkpoint. Sets p->lost if a write of the page was lost. *keep: the
 * page stays a suspect, because a write was lost, or because the page was changed since and must be
 * looked at again. */
static int judge(struct scrub *s, struct suspect *p, bool *keep)
{
    unsigned char *page = s->b.chunk;
    enum lladd_page_use use = LLADD_USE_NONE;
    int rc = ll_ship_read_pages(&s->b, p->page, 1, page);
    *keep = !rc && !p->must.raw && !s->closed && !is_whole(s, p->page, page);
    if (rc || *keep || !is_older(s, p->page, &p->must, page) || (rc = use_of(s, p->page, &use)))
        return rc;
    if (p->must.raw) {
        *keep = use == LLADD_USE_RAW;
        p->lost = *keep;
    } else if (use == LLADD_USE_PAGED || use == LLADD_USE_SYSTEM) {
        rc = look_in_cache(s, p->page, &p->cached);
        *keep = true;
        p->lost = p->cached < s->n.redo || LLADD_PLANTED(LLADD_BUG_SCRUB_CACHE);
    }
    return rc;
}

static int judge_all(struct scrub *s, bool *lost)
{
    size_t have, kept = 0;
    struct suspect *at = suspects(s, &have);
    int rc = 0;
    *lost = false;
    for (size_t i = 0; i < have && !rc; i++) {
        bool keep;
        rc = judge(s, &at[i], &keep);
        *lost = *lost || (keep && at[i].lost);
        if (keep)
            at[kept++] = at[i];
    }
    s->suspects.len = kept * sizeof *at;
    return rc;
}

/* Has the right page written again. Returns what was done; NULL: nothing gives the page, and *why
 * says why. */
static const char *mend(struct scrub *s, const struct suspect *p, struct lladd_error *why, int *rc)
{
    uint64_t lsn = 0;
    bool cached = p->cached >= p->must.lsn;
    if (s->closed)
        return cached ? "a write was lost; the next open rebuilds the page" : NULL;
    *rc = cached ? lladd_page_rewrite(s->b.db, lladd_page_of(p->page), why)
                 : lladd_page_rebuild(s->b.db, lladd_page_of(p->page), why);
    if (!*rc)
        *rc = look_in_cache(s, p->page, &lsn);
    else if (lladd_code_root(*rc) == LLADD_ROOT_DATA)
        *rc = 0;
    else if (s->err)
        *s->err = *why;
    return *rc || lsn < p->must.lsn ? NULL
           : cached ? "a write was lost; the page was written again from the cache"
                    : "a write was lost; the page was rebuilt from the log and the archive";
}

static int report_raw(struct scrub *s, const struct suspect *p)
{
    return tell(s, LLADD_FINDING_DAMAGE, p->page, p->must.lsn,
                p->must.lsn < s->n.m.info.from.v
                    ? "the raw page is not as in the newest backup, and was not written since"
                    : "the raw page is not as it was written in bulk");
}

static int report_lost(struct scrub *s, const struct suspect *p)
{
    char text[400];
    struct lladd_error why = LLADD_ERROR_INIT;
    int rc = 0;
    s->info.lost++;
    if (p->must.raw)
        return report_raw(s, p);
    const char *done = mend(s, p, &why, &rc);
    if (rc)
        return rc;
    if (done)
        return tell(s, LLADD_FINDING_REPAIR, p->page, p->must.lsn, done);
    (void)snprintf(text, sizeof text,
                   "a write was lost: the page has LSN %llu, and was written with LSN %llu%s%.250s",
                   (unsigned long long)p->cached, (unsigned long long)p->must.lsn,
                   *why.message ? "; " : "", why.message);
    return tell(s, LLADD_FINDING_DAMAGE, p->page, p->must.lsn, text);
}

/* Reports the suspects that are certain, and keeps those that must be looked at again. */
static int report_all(struct scrub *s)
{
    size_t have, kept = 0;
    struct suspect *at = suspects(s, &have);
    int rc = 0;
    for (size_t i = 0; i < have && !rc; i++)
        if (at[i].lost)
            rc = report_lost(s, &at[i]);
        else
            at[kept++] = at[i];
    s->suspects.len = kept * sizeof *at;
    return rc;
}

static int look_at_suspects(struct scrub *s)
{
    int rc = 0;
    for (int i = 0; i < ROUNDS && s->suspects.len && !rc; i++) {
        bool lost = false;
        rc = checkpoint(s);
        if (!rc)
            rc = uses_of_log(s);
        if (!rc)
            rc = judge_all(s, &lost);
        if (!rc && lost) /* a freed page may have been taken before it was judged */
            rc = uses_of_log(s);
        if (!rc && lost && s->n.compared && !s->archive_read)
            rc = uses_of_archive(s);
        if (!rc)
            rc = report_all(s);
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
    s->n.pages = size / s->b.m.info.page_size;
    s->b.bytes_all = size;
    s->b.what = "pages";
    s->n.must = ll_ship_new(s->b.mem, (s->n.pages + 1) * sizeof *s->n.must);
    s->b.chunk = ll_ship_new(s->b.mem, LL_SHIP_CHUNK);
    return s->n.must && s->b.chunk ? 0 : ll_ship_no_memory(s->err);
}

static int run(struct scrub *s)
{
    int rc = make_room(s);
    if (!rc)
        rc = checkpoint(s);
    if (!rc)
        rc = ll_ship_newest_learn(&s->n, lladd_log_hold_raise(s->hold, lladd_lsn_of(0)).v);
    s->info.compared = s->n.compared;
    s->info.from = s->n.m.info.from;
    if (!rc)
        rc = look_at_all(s);
    if (!rc && !s->closed)
        rc = repair_damaged(s);
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
    ll_ship_take_options(&s->opt, sizeof s->opt, options);
    s->b = (struct ll_ship_backup){.db = db, .dev = a->dev, .mem = a->mem, .err = s->err};
    s->b.opt.progress = s->opt.progress;
    s->b.opt.progress_ctx = s->opt.progress_ctx;
    s->b.pace = (struct ll_ship_pace){s->opt.bytes_per_second, ll_ship_now_ns(a->opt.world), 0,
                                      a->opt.world};
    lladd_db_uuid(db, s->b.m.info.uuid);
    s->b.m.info.page_size = lladd_page_size(db);
    s->b.suspects.mem = s->b.damaged.mem = s->suspects.mem = a->mem;
    ll_ship_newest_init(&s->n, a, db, s->err);
}

static void release(struct scrub *s)
{
    ll_ship_newest_free(&s->n);
    ll_ship_buf_free(&s->b.suspects);
    ll_ship_buf_free(&s->b.damaged);
    ll_ship_buf_free(&s->suspects);
    ll_ship_delete(s->b.mem, s->b.chunk);
}

static int scrub(struct scrub *s, struct lladd_archive *a, struct lladd_db *db,
                 const struct lladd_scrub_options *options, struct lladd_scrub_info *info)
{
    begin(s, a, db, options);
    int rc = open_and_run(s);
    if (!rc && info) {
        size_t size = info->struct_size;
        s->info.struct_size = size;
        memcpy(info, &s->info, size < sizeof s->info ? size : sizeof s->info);
    }
    release(s);
    return rc;
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
    return db ? scrub(&s, a, db, options, info)
              : lladd_error_set(err, LLADD_BAD_STATE, "no database is open with this archive");
}

int lladd_archive_verify(struct lladd_db *db, struct lladd_device *files, struct lladd_store *store,
                         const struct lladd_scrub_options *options, struct lladd_scrub_info *info,
                         struct lladd_error *err)
{
    struct scrub s = {.closed = true, .err = err};
    struct lladd_archive *a;
    if (!db || !files || !store || files == lladd_db_device(db))
        return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                               "a database over an overlay, its files and a store are needed");
    int rc = ll_ship_archive_new(store, NULL, &a, err);
    if (rc)
        return rc;
    a->dev = files;
    rc = ll_ship_archive_identify(a, err);
    if (!rc)
        rc = ll_ship_spool_look(files, a->mem, a->uuid, a->page_size, &a->spool, err);
    if (!rc)
        rc = scrub(&s, a, db, options, info);
    lladd_archive_free(a);
    return rc;
}

/* ---- the scrub that is a part of a backup --------------------------------------------------- */

/* The backup reads the pages, and "entries" says how they were. */
struct ll_ship_watch {
    struct scrub s;
    struct lladd_archive *a;
    struct lladd_store *locked; /* of `a`; not used: the store of the backup serves all threads */
    struct ll_ship_backup *b;
    struct ll_ship_buf again; /* uint64_t: pages that were repaired */
    struct ll_ship_buf lost;  /* uint64_t: pages that were not */
};

static int watch_finding(void *ctx, const struct lladd_finding *f)
{
    struct ll_ship_watch *w = ctx;
    uint64_t page = f->page.v;
    int rc = ll_ship_append(f->kind == LLADD_FINDING_REPAIR ? &w->again : &w->lost, &page,
                            sizeof page, w->b->err);
    return rc || !w->b->opt.finding ? rc : w->b->opt.finding(w->b->opt.finding_ctx, f);
}

static int watch_archive(struct ll_ship_watch *w)
{
    struct lladd_archive_options o = LLADD_ARCHIVE_OPTIONS_INIT;
    o.allocator = w->b->opt.allocator;
    o.world = w->b->opt.world;
    int rc = ll_ship_archive_new(w->b->store, &o, &w->a, w->b->err);
    if (rc)
        return rc;
    w->locked = w->a->store;
    w->a->store = w->b->store;
    w->a->dev = w->b->dev;
    rc = ll_ship_archive_identify(w->a, w->b->err);
    return rc ? rc
              : ll_ship_spool_look(w->a->dev, w->a->mem, w->a->uuid, w->a->page_size, &w->a->spool,
                                   w->b->err);
}

/* Without a gap between the newest backup and the log of the database, the log has each later use
 * of a page. */
static int watch_gap(struct ll_ship_watch *w, uint64_t oldest)
{
    struct ll_ship_newest *n = &w->s.n;
    uint64_t reached = 0;
    int rc = ll_ship_past_reach(&n->w.past, &n->w.steps, n->m.info.end.v, &reached, w->b->err);
    if (!rc && reached < oldest)
        ll_ship_newest_forget_raw(n);
    return rc;
}

/* A damaged object of the store prevents the comparison, and not the backup. */
static int watch_learn(struct ll_ship_watch *w)
{
    struct lladd_error why = LLADD_ERROR_INIT, *err = w->b->err;
    uint64_t oldest = lladd_log_hold_raise(w->s.hold, lladd_lsn_of(0)).v;
    w->s.n.needs_base = true;
    w->s.err = w->s.n.err = w->s.n.w.err = &why;
    int rc = ll_ship_newest_learn(&w->s.n, oldest);
    w->s.err = w->s.n.err = w->s.n.w.err = err;
    bool learned = !rc;
    if (learned && w->s.n.compared)
        rc = watch_gap(w, oldest);
    if (lladd_code_root(rc) == LLADD_ROOT_DATA) {
        w->s.n.compared = false;
        return 0;
    }
    if (!learned && why.code && err)
        *err = why;
    return rc;
}

int ll_ship_watch_begin(struct ll_ship_backup *b, struct ll_ship_watch **out)
{
    struct lladd_scrub_options o = LLADD_SCRUB_OPTIONS_INIT;
    struct ll_ship_watch *w = ll_ship_new(b->mem, sizeof *w);
    if (!w)
        return ll_ship_no_memory(b->err);
    *out = w;
    w->b = b;
    w->again.mem = w->lost.mem = b->mem;
    w->s.err = b->err;
    int rc = watch_archive(w);
    if (rc)
        return rc;
    o.finding = watch_finding;
    o.finding_ctx = w;
    begin(&w->s, w->a, b->db, &o);
    w->s.b.pages = b->pages;
    w->s.n.redo = b->m.redo.v;
    rc = make_room(&w->s);
    if (!rc)
        rc = lladd_log_keep(b->db, "scrub", lladd_lsn_of(0), &w->s.hold, b->err);
    if (!rc)
        rc = watch_learn(w);
    b->m.info.compared = !rc && w->s.n.compared;
    return rc;
}

/* Compares the pages as they were copied first. */
static int watch_compare(struct ll_ship_watch *w)
{
    struct ll_ship_newest *n = &w->s.n;
    uint64_t have = w->b->entries.len / LL_SHIP_PAGE_ENTRY;
    uint32_t zeros;
    int rc = 0;
    memset(w->s.b.chunk, 0, n->m.info.page_size);
    zeros = lladd_crc32c(0, w->s.b.chunk, n->m.info.page_size);
    for (uint64_t i = 0; i < n->pages && i < have && !rc; i++) {
        const unsigned char *entry = w->b->entries.data + i * LL_SHIP_PAGE_ENTRY;
        struct suspect one = {.page = i, .must = n->must[i]};
        uint64_t lsn = lladd_get64(entry);
        uint32_t crc = lladd_get32(entry + 8);
        if (ll_ship_is_older(&one.must, lsn || crc == zeros, lsn, crc))
            rc = ll_ship_append(&w->s.suspects, &one, sizeof one, w->b->err);
    }
    return rc;
}

int ll_ship_watch_end(struct ll_ship_watch *w)
{
    if (!w->s.n.compared)
        return 0;
    int rc = watch_compare(w);
    if (!rc)
        rc = look_at_suspects(&w->s);
    const uint64_t *page = (const void *)w->again.data;
    for (size_t i = 0; i < w->again.len / sizeof *page && !rc; i++)
        rc = ll_ship_copy_pages(w->b, page[i], 1);
    if (!rc)
        rc = ll_ship_append(&w->b->damaged, w->lost.data, w->lost.len, w->b->err);
    w->b->m.info.lost_pages = w->s.info.lost;
    return rc;
}

void ll_ship_watch_free(struct ll_ship_watch *w)
{
    if (!w)
        return;
    lladd_log_release(w->s.hold);
    release(&w->s);
    if (w->a)
        w->a->store = w->locked;
    lladd_archive_free(w->a);
    ll_ship_buf_free(&w->again);
    ll_ship_buf_free(&w->lost);
    ll_ship_delete(w->b->mem, w);
}
