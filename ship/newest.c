/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds out which version of each page the page file must have at least. This is the newest of:
 *
 *   - the version in the newest backup: its page LSN or, for a raw page, its bytes
 *   - the version after the page's newest record below the LSN at which redo from the last
 *     checkpoint starts. The LSN of this record comes from the indexes of the archived segments, or
 *     from the log that is not archived yet
 *   - the version that was written in bulk: the LSN of its redo barrier or, for a raw page, its
 *     bytes. They come from the stored spools and, if the transaction has committed or prepared,
 *     from the spool on the disk
 *
 * Reads only "pages.idx" of the backup, the indexes of the archived log, and from the spools the
 * heads of the pieces and the raw pages. */
#include "ship/newest.h"

#include <lladd/bytes.h>
#include <lladd/dst.h>
#include <lladd/lladd.h>
#include <lladd/log_read.h>
#include <string.h>

void ll_ship_newest_init(struct ll_ship_newest *s, struct lladd_archive *a, struct lladd_db *db,
                         struct lladd_error *err)
{
    *s = (struct ll_ship_newest){.starts.mem = a->mem,
                                 .w = {.a = a,
                                       .db = db,
                                       .since = UINT64_MAX,
                                       .past.mem = a->mem,
                                       .steps.mem = a->mem,
                                       .txns.mem = a->mem,
                                       .err = err},
                                 .err = err};
    ll_ship_manifest_init(&s->m, a->mem);
}

void ll_ship_newest_free(struct ll_ship_newest *s)
{
    ll_ship_delete(s->starts.mem, s->must);
    ll_ship_manifest_free(&s->m);
    ll_ship_past_free(&s->w.past);
    ll_ship_buf_free(&s->w.steps);
    ll_ship_buf_free(&s->w.txns);
    ll_ship_buf_free(&s->starts);
}

/* If two calls have the same page and LSN, the later one counts. */
static void must_have(struct ll_ship_newest *s, uint64_t page, const struct ll_ship_must *must)
{
    if (page < s->pages && s->must[page].lsn <= must->lsn)
        s->must[page] = *must;
}

static void must_have_lsn(struct ll_ship_newest *s, uint64_t page, uint64_t lsn)
{
    must_have(s, page, &(struct ll_ship_must){.lsn = lsn});
}

void ll_ship_newest_record(struct ll_ship_newest *s, uint64_t page, uint64_t lsn)
{
    if (lsn < s->redo || LLADD_PLANTED(LLADD_BUG_SCRUB_CACHE))
        must_have_lsn(s, page, lsn);
}

void ll_ship_newest_forget_raw(struct ll_ship_newest *s)
{
    for (uint64_t i = 0; i < s->pages; i++)
        if (s->must[i].raw)
            s->must[i] = (struct ll_ship_must){0};
}

bool ll_ship_is_older(const struct ll_ship_must *must, bool whole, uint64_t lsn, uint32_t crc)
{
    if (LLADD_PLANTED(LLADD_BUG_SCRUB_BLIND))
        return false;
    return must->raw ? lsn == 0 && crc != must->crc : whole && lsn < must->lsn;
}

/* ---- the backup ----------------------------------------------------------------------------- */

/* A page without a page LSN was raw or free, or had no contents. Each is noted as raw. That does no
 * harm, because a scrub reports a page by its bytes only if the page is in use as a raw page. */
static int learn_base(void *ctx, uint64_t page, uint64_t lsn, uint32_t crc)
{
    struct ll_ship_newest *s = ctx;
    if (lsn)
        must_have_lsn(s, page, lsn);
    else
        must_have(s, page, &(struct ll_ship_must){s->m.info.from.v - 1, crc, true});
    return 0;
}

/* ---- the archived log ----------------------------------------------------------------------- */

/* `top`: the path leaves the segment's timeline here, so only log below this LSN counts. */
static int learn_segment(struct ll_ship_newest *s, const struct ll_ship_stored *seg, uint64_t top,
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
            must_have_lsn(s, p[i].page, p[i].last < below ? p[i].last : p[i].first);
    if (seg->timeline == s->w.timeline && ix.next.v > *known)
        *known = ix.next.v;
    if (ix.start.v < ix.stop.v && ix.start.v < top)
        rc = ll_ship_append(&s->starts, &ix.start.v, sizeof ix.start.v, s->err);
    ll_ship_index_free(&ix);
    return rc;
}

/* *known: the indexes have all records of the timeline below this LSN. */
static int learn_archive(struct ll_ship_newest *s, uint64_t *known)
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

uint64_t ll_ship_newest_start(const struct ll_ship_newest *s, uint64_t lsn)
{
    const uint64_t *start = (const void *)s->starts.data;
    uint64_t best = s->m.info.from.v;
    for (size_t i = 0; i < s->starts.len / sizeof *start; i++)
        if (start[i] <= lsn && start[i] > best)
            best = start[i];
    return best;
}

/* ---- the log of the database ---------------------------------------------------------------- */

static bool changes_a_page(const struct lladd_log_entry *e)
{
    return e->page != LLADD_NO_PAGE &&
           (e->kind == LL_SHIP_REC_UPDATE || e->kind == LL_SHIP_REC_CLR ||
            e->kind == LL_SHIP_REC_IMAGE);
}

/* Notes that the spool of the transaction counts, if the disk has the spool. */
static void see_end(struct ll_ship_newest *s, uint64_t txn)
{
    struct ll_ship_spooled *spool = (void *)s->w.txns.data;
    for (size_t i = 0; i < s->w.txns.len / sizeof *spool; i++)
        spool[i].ended = spool[i].ended || spool[i].txn == txn;
}

/* For a planted bug: a barrier says that its pages may be written, not that they were. */
static void see_barrier(struct ll_ship_newest *s, const struct lladd_log_entry *e)
{
    uint64_t first = lladd_get64(e->redo.data);
    uint64_t n = lladd_get64((const unsigned char *)e->redo.data + 8);
    for (uint64_t i = 0; i < n; i++)
        ll_ship_newest_record(s, first + i, e->lsn.v);
}

static int learn_log(struct ll_ship_newest *s, uint64_t from)
{
    struct lladd_log_cursor *cursor;
    struct lladd_log_entry e;
    uint64_t end = lladd_durable_lsn(s->w.db).v; /* the log goes on meanwhile */
    int rc = lladd_log_open(s->w.db, lladd_lsn_of(from), NULL, &cursor, s->err);
    if (rc)
        return rc;
    while ((rc = lladd_log_next(cursor, &e, s->err)) == 0 && e.lsn.v < end) {
        if (changes_a_page(&e))
            ll_ship_newest_record(s, e.page, e.lsn.v);
        if (e.kind == LL_SHIP_REC_COMMIT || e.kind == LL_SHIP_REC_PREPARE)
            see_end(s, e.txn.v);
        if (e.kind == LL_SHIP_REC_REDO_BARRIER && LLADD_PLANTED(LLADD_BUG_SCRUB_BARRIERS))
            see_barrier(s, &e);
    }
    lladd_log_close(cursor);
    return rc == LLADD_END ? 0 : rc;
}

/* ---- pages written in bulk ------------------------------------------------------------------ */

static int learn_piece(void *ctx, const struct ll_ship_blk_piece *p)
{
    struct ll_ship_newest *s = ctx;
    uint32_t size = s->w.page_size;
    for (uint32_t i = 0; i < p->n; i++) {
        struct ll_ship_must must = {p->barrier, 0, !p->typed};
        if (must.raw)
            must.crc = lladd_crc32c(0, p->bytes + (size_t)i * size, size);
        must_have(s, p->page + i, &must);
    }
    return 0;
}

/* ---- the whole ------------------------------------------------------------------------------ */

/* The newest backup without damaged pages: in one with such pages, some may be older than they must
 * be. If each has some, the newest one. */
static const struct lladd_backup_info *whole_base(const struct ll_ship_newest *s)
{
    const struct lladd_backup_info *b = ll_ship_wanted_base(&s->w, UINT64_MAX), *newest = b;
    while (b && b->damaged_pages)
        b = ll_ship_wanted_base(&s->w, b->end.v);
    return b ? b : newest;
}

static int find_base(struct ll_ship_newest *s)
{
    int rc = ll_ship_wanted_open(&s->w);
    const struct lladd_backup_info *base = rc ? NULL : whole_base(s);
    rc = rc == LLADD_NOT_FOUND ? 0 : rc; /* the store is empty */
    if (base && memcmp(s->w.past.uuid, s->w.uuid, sizeof s->w.uuid) != 0)
        return lladd_error_set(s->err, LLADD_OTHER_DATABASE,
                               "the store has backups of another database");
    if (!rc && !base && s->w.past.broken.len)
        return ll_ship_broken_fail((const void *)s->w.past.broken.data, s->err);
    s->compared = base != NULL;
    return base ? ll_ship_manifest_find(s->w.past.store, base->name, &s->m, s->err) : rc;
}

int ll_ship_newest_learn(struct ll_ship_newest *s, uint64_t oldest)
{
    uint64_t known = 0;
    int rc = find_base(s);
    if (rc || (s->needs_base && !s->compared))
        return rc;
    if (!rc && s->compared)
        rc = ll_ship_base_pages(s->w.past.store, &s->m, learn_base, s, s->err);
    if (!rc && s->compared)
        rc = learn_archive(s, &known);
    if (!rc && s->compared)
        rc = ll_ship_wanted_spools(&s->w);
    if (!rc && s->w.db)
        rc = learn_log(s, known > oldest ? known : oldest);
    return rc || !s->compared
               ? rc
               : ll_ship_wanted_pieces(&s->w, s->m.info.from.v, learn_piece, s);
}
