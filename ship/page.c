/* SPDX-License-Identifier: BSD-2-Clause */
/* Rebuilds a page from the archive if neither the page file nor the log can give it. Takes the page
 * from the newest backup that has it, and lays over it what was written to the page in bulk after
 * the backup. Then redoes the page's archived records, up to the first record of the database's
 * log. The library redoes that log (lladd_extension.base_of).
 *
 * The index of a segment has the LSNs of the page's first and last record in the segment. Only the
 * log between these two is read. Of the log that is stored with the backup every record is read.
 *
 * Nothing is kept between two calls. The store may change during a call, because the archive stores
 * a segment and then deletes its pieces. If a call fails after such a change, the call is
 * repeated. */
#include "ship/page_private.h"

#include <lladd/bytes.h>
#include <lladd/dst.h>
#include <lladd/log_read.h>
#include <lladd/stats.h>
#include <string.h>

enum { PAGE_LSN = 8, TRIES = 4 };

static uint64_t lsn_of(const struct ll_ship_wanted *w)
{
    return w->empty ? 0 : lladd_get64(w->bytes + PAGE_LSN);
}

/* ---- what there is -------------------------------------------------------------------------- */

static int identify(struct ll_ship_wanted *w)
{
    unsigned char control[LL_SHIP_CONTROL];
    int rc = ll_ship_control_read(w->a->dev, control, w->err);
    if (rc)
        return rc;
    ll_ship_control_uuid(control, w->uuid);
    w->page_size = ll_ship_control_page_size(control);
    w->timeline = ll_ship_control_timeline(control);
    return 0;
}

/* The timelines that may have objects in the store. The store of a restored copy may lack the
 * origin's timeline. */
static int find_path(struct ll_ship_wanted *w)
{
    struct ll_ship_step own = {w->timeline, UINT64_MAX};
    struct ll_ship_fork fork;
    int rc = w->timeline ? ll_ship_past_fork(&w->past, w->timeline, &fork, w->err) : 0;
    if (rc == LLADD_NOT_FOUND)
        return ll_ship_append(&w->steps, &own, sizeof own, w->err);
    return rc ? rc : ll_ship_past_path(&w->past, w->timeline, &w->steps, w->err);
}

int ll_ship_wanted_open(struct ll_ship_wanted *w)
{
    w->steps.len = 0;
    int rc = identify(w);
    if (!rc)
        rc = ll_ship_past_open(&w->past, w->a->store, w->a->mem, w->err);
    if (rc)
        return rc;
    rc = find_path(w);
    if (rc)
        ll_ship_past_free(&w->past);
    return rc;
}

const struct lladd_backup_info *ll_ship_wanted_base(const struct ll_ship_wanted *w, uint64_t below)
{
    const struct lladd_backup_info *b = (const void *)w->past.bases.data, *best = NULL;
    for (size_t i = 0; i < w->past.bases.len / sizeof *b; i++) {
        uint64_t end = LLADD_PLANTED(LLADD_BUG_BASE_BEYOND) ? 0 : b[i].end.v;
        if (b[i].end.v < below && ll_ship_on_path(&w->steps, b[i].timeline, end) &&
            (!best || b[i].end.v > best->end.v))
            best = &b[i];
    }
    return best;
}

/* ---- the page in a backup ------------------------------------------------------------------- */

static int read_file(struct ll_ship_wanted *w, struct lladd_device *dev)
{
    struct lladd_file *file;
    int64_t got = -1;
    if (dev->ops->open(dev, "pages", LLADD_OPEN_READ_ONLY, &file) == 0) {
        got = dev->ops->pread(dev, file, w->bytes, w->page_size, w->page * w->page_size);
        (void)dev->ops->close(dev, file);
    }
    if (got < 0)
        return lladd_store_device_error(dev, w->err);
    if (w->raw && got != (int64_t)w->page_size) /* the file was shorter */
        memset(w->bytes, 0, w->page_size);
    /* The backup may have copied a damaged page, or may have ended below this page. */
    w->empty = w->raw || got != (int64_t)w->page_size ||
               !ll_ship_page_ok(w->uuid, w->page, w->bytes, w->page_size) ||
               lladd_get64(w->bytes + PAGE_LSN) == 0;
    return 0;
}

static int read_base(struct ll_ship_wanted *w, const struct lladd_backup_info *base)
{
    struct lladd_restore_options o = LLADD_RESTORE_OPTIONS_INIT;
    struct lladd_device *dev;
    o.base = base->name;
    o.allocator = w->past.mem.allocator;
    if (memcmp(base->uuid, w->uuid, sizeof w->uuid) != 0 || base->page_size != w->page_size)
        return lladd_error_set(w->err, LLADD_FOREIGN_FILE, "backup \"%s\" is of another database",
                               base->name);
    int rc = lladd_store_device(w->past.store, &o, &dev, w->err);
    if (rc)
        return rc;
    rc = read_file(w, dev);
    lladd_store_device_close(dev);
    return rc;
}

/* ---- the archived log ----------------------------------------------------------------------- */

struct redoing {
    struct ll_ship_wanted *w;
    uint64_t below; /* records that begin here or above are not wanted */
    uint64_t last;  /* the last record of the page so far */
};

static int redo(void *ctx, const struct ll_ship_logged *r, struct lladd_error *err)
{
    struct redoing *d = ctx;
    struct ll_ship_wanted *w = d->w;
    bool changes = r->kind == LL_SHIP_REC_UPDATE || r->kind == LL_SHIP_REC_CLR ||
                   r->kind == LL_SHIP_REC_IMAGE;
    if (r->lsn >= d->below)
        return LLADD_END;
    if (!changes || r->page != w->page)
        return 0;
    d->last = r->lsn;
    if (r->lsn <= lsn_of(w) || r->lsn < w->barrier)
        return 0;
    return lladd_page_redo(w->db, lladd_page_of(w->page), r->bytes, r->size, lladd_lsn_of(r->lsn),
                           r->incarnation, w->bytes, &w->empty, err);
}

/* Redoes the records of the page that begin from `from` to below `below`. A record at the end may
 * go on in the log above. */
static int redo_range(struct ll_ship_wanted *w, struct ll_ship_image *im, uint64_t from,
                      struct redoing *d)
{
    size_t n = ll_ship_image_segments(im);
    uint64_t end;
    bool more = false;
    return from >= d->below ? 0
                            : ll_ship_scan(im, from, ll_ship_image_at(im, n - 1)->limit, redo, d,
                                           &end, &more, w->err);
}

static const struct ll_ship_index_page *find_page(const struct ll_ship_index *ix, uint64_t page)
{
    const struct ll_ship_index_page *p = (const void *)ix->pages.data;
    for (size_t i = 0; i < ix->pages.len / sizeof *p; i++)
        if (p[i].page == page && !(p[i].flags & LL_SHIP_PAGE_BULK))
            return &p[i];
    return NULL;
}

static bool has_spool(const struct ll_ship_wanted *w, uint64_t txn)
{
    const struct ll_ship_spooled *s = (const void *)w->txns.data;
    size_t i = 0, n = w->txns.len / sizeof *s;
    while (i < n && s[i].txn != txn)
        i++;
    return i < n;
}

static int fail_spool(struct ll_ship_wanted *w, uint64_t txn, uint64_t lsn)
{
    return lladd_error_set(w->err, LLADD_NOT_FOUND,
                           "the pages are missing that transaction %llu wrote in bulk (LSN %llu)",
                           (unsigned long long)txn, (unsigned long long)lsn);
}

/* If a transaction that has logged barriers has committed and its spool is missing, the page may be
 * older than what the transaction has written. */
static int check_spools(struct ll_ship_wanted *w, const struct ll_ship_index *ix, uint64_t from,
                        uint64_t below)
{
    const struct ll_ship_index_bulk *bulk = (const void *)ix->bulk.data;
    w->open.len = 0;
    int rc = ll_ship_append(&w->open, ix->open.data, ix->open.len, w->err);
    for (size_t i = 0; i < ix->bulk.len / sizeof *bulk && !rc; i++) {
        if (bulk[i].lsn.v >= below)
            rc = ll_ship_append(&w->open, &bulk[i].txn, sizeof bulk[i].txn, w->err);
        else if (bulk[i].lsn.v >= from && !has_spool(w, bulk[i].txn))
            rc = fail_spool(w, bulk[i].txn, bulk[i].lsn.v);
    }
    return rc;
}

static bool is_open(const struct ll_ship_wanted *w, uint64_t txn)
{
    const uint64_t *open = (const void *)w->open.data;
    size_t i = 0, n = w->open.len / sizeof *open;
    while (i < n && open[i] != txn)
        i++;
    return i < n;
}

static bool all_have_spools(const struct ll_ship_wanted *w)
{
    const uint64_t *open = (const void *)w->open.data;
    bool all = true;
    for (size_t i = 0; i < w->open.len / sizeof *open; i++)
        all = all && has_spool(w, open[i]);
    return all;
}

/* Does the same as check_spools for transactions that have their commit in the log of the database,
 * and their barriers only in the archive. A transaction's id is its first LSN. If that is not below
 * `since`, the library asks again at the transaction's barriers. */
static int check_open(struct ll_ship_wanted *w)
{
    struct lladd_log_cursor *cursor;
    struct lladd_log_entry e;
    int rc = 0;
    if (all_have_spools(w))
        return 0;
    rc = lladd_log_open(w->db, lladd_lsn_of(w->since), NULL, &cursor, w->err);
    if (rc)
        return rc;
    while (!rc && (rc = lladd_log_next(cursor, &e, w->err)) == 0)
        if ((e.kind == LL_SHIP_REC_COMMIT || e.kind == LL_SHIP_REC_PREPARE) &&
            e.txn.v < w->since && is_open(w, e.txn.v) && !has_spool(w, e.txn.v))
            rc = fail_spool(w, e.txn.v, e.lsn.v);
    lladd_log_close(cursor);
    return rc == LLADD_END ? 0 : rc;
}

/* Redoes the records of one archived segment. `end`: the end of the backup. */
static int redo_segment(struct ll_ship_wanted *w, struct ll_ship_image *im, uint64_t first,
                        uint32_t timeline, uint64_t end, struct redoing *d)
{
    struct ll_ship_index ix;
    int rc = ll_ship_index_load(w->past.store, w->past.mem, timeline, lladd_lsn_of(first), &ix,
                                w->err);
    if (rc)
        return rc;
    const struct ll_ship_index_page *p = find_page(&ix, w->page);
    rc = check_spools(w, &ix, end, d->below);
    if (!rc && p && p->last > lsn_of(w) && p->first < d->below) {
        uint64_t below = d->below;
        d->below = p->last < below ? p->last + 1 : below;
        rc = redo_range(w, im, p->first, d);
        /* The rest of the last record may be in log that is not stored yet. */
        if (!rc && p->last < below && d->last != p->last)
            rc = lladd_error_set(w->err, LLADD_NOT_FOUND,
                                 "the record at LSN %llu is not stored whole",
                                 (unsigned long long)p->last);
    }
    ll_ship_index_free(&ix);
    return rc;
}

/* Redoes all records of the page from `from` on. */
static int redo_log(struct ll_ship_wanted *w, struct ll_ship_image *im, uint64_t from,
                    uint64_t end)
{
    struct redoing d = {.w = w};
    int rc = 0;
    for (size_t i = 0; i < ll_ship_image_segments(im) && !rc; i++) {
        const struct ll_ship_image_segment *s = ll_ship_image_at(im, i);
        const struct ll_ship_piece *p = (const struct ll_ship_piece *)(void *)im->pieces.data +
                                        s->piece;
        d.below = s->limit < w->since ? s->limit : w->since;
        if (s->limit <= from || s->first >= w->since)
            continue;
        if (p->source == LL_SHIP_IN_SEGMENT)
            rc = redo_segment(w, im, s->first, p->timeline, end, &d);
        else
            rc = redo_range(w, im, from > s->first ? from : s->first, &d);
    }
    return rc;
}

/* Checks the spools of all transactions that commit or prepare above the end of the backup. */
static int check_log(struct ll_ship_wanted *w, struct ll_ship_image *im, uint64_t end)
{
    int rc = 0;
    for (size_t i = 0; i < ll_ship_image_segments(im) && !rc; i++) {
        const struct ll_ship_image_segment *s = ll_ship_image_at(im, i);
        const struct ll_ship_piece *p = (const struct ll_ship_piece *)(void *)im->pieces.data +
                                        s->piece;
        struct ll_ship_index ix;
        if (s->limit <= end || p->source != LL_SHIP_IN_SEGMENT)
            continue;
        rc = ll_ship_index_load(w->past.store, w->past.mem, p->timeline, lladd_lsn_of(s->first),
                                &ix, w->err);
        if (!rc) {
            rc = check_spools(w, &ix, end, s->limit);
            ll_ship_index_free(&ix);
        }
    }
    return rc;
}

/* *out: the LSN up to which the archive goes on from the backup. LLADD_NOT_FOUND: the archive does
 * not go on up to `since`, or up to the cut of the database's segment that begins at `since`. */
static int reach(struct ll_ship_wanted *w, uint64_t end, uint64_t *out)
{
    struct ll_ship_segment own;
    *out = end;
    if (end >= w->since)
        return 0;
    int rc = ll_ship_past_reach(&w->past, &w->steps, end, out, w->err);
    if (rc || *out >= w->since)
        return rc;
    if (ll_ship_segment_get(w->a->dev, w->since, &own, NULL) == 0 && own.cut <= *out)
        return 0;
    return lladd_error_set(w->err, LLADD_NOT_FOUND,
                           "the log from LSN %llu to %llu is not stored", (unsigned long long)*out,
                           (unsigned long long)w->since);
}

/* ---- the whole ------------------------------------------------------------------------------ */

static int redo_base(struct ll_ship_wanted *w, const struct ll_ship_manifest *m)
{
    struct ll_ship_image im;
    uint64_t to, lsn = lsn_of(w), from = lsn > m->redo.v ? lsn : m->redo.v;
    if (w->raw ? m->info.end.v >= w->since : from >= w->since)
        return 0;
    int rc = reach(w, m->info.end.v, &to);
    if (rc)
        return rc;
    w->open.len = 0;
    ll_ship_image_init(&im, w->past.mem, w->past.store, w->uuid);
    rc = ll_ship_collect(&w->past, &w->steps, w->timeline, m, to, &im, w->err);
    if (!rc)
        rc = w->raw ? check_log(w, &im, m->info.end.v) : redo_log(w, &im, from, m->info.end.v);
    if (!rc)
        rc = check_open(w);
    ll_ship_image_free(&im);
    return rc;
}

static int from_base(struct ll_ship_wanted *w, const struct lladd_backup_info *base)
{
    struct ll_ship_manifest m;
    ll_ship_manifest_init(&m, w->past.mem);
    w->barrier = 0;
    int rc = ll_ship_manifest_find(w->past.store, base->name, &m, w->err);
    if (!rc)
        rc = read_base(w, base);
    if (!rc)
        rc = ll_ship_wanted_bulk(w, m.info.from.v);
    if (!rc)
        rc = redo_base(w, &m);
    ll_ship_manifest_free(&m);
    return rc || w->raw || !w->empty
               ? rc
               : lladd_error_set(w->err, LLADD_NOT_FOUND,
                                 "neither backup \"%s\" nor the log after it has page %llu",
                                 base->name, (unsigned long long)w->page);
}

/* Tries the backups, the newest first. If all fail, the error is that of the newest backup. */
static int from_bases(struct ll_ship_wanted *w)
{
    const struct lladd_backup_info *base;
    struct lladd_error *err = w->err, why;
    uint64_t below = UINT64_MAX;
    int rc = LLADD_NOT_FOUND;
    while (rc && (base = ll_ship_wanted_base(w, below)) != NULL) {
        why = (struct lladd_error)LLADD_ERROR_INIT;
        w->err = below == UINT64_MAX ? err : &why;
        rc = from_base(w, base);
        below = base->end.v;
    }
    w->err = err;
    return rc && below == UINT64_MAX
               ? lladd_error_set(err, rc, "the store has no backup of timeline %u", w->timeline)
               : rc;
}

static int find(struct ll_ship_wanted *w, uint64_t writer)
{
    int rc = ll_ship_wanted_open(w);
    if (rc)
        return rc;
    rc = writer ? ll_ship_wanted_under(w, writer) : ll_ship_wanted_spools(w);
    if (!rc && !writer)
        rc = from_bases(w);
    ll_ship_past_free(&w->past);
    return rc;
}

static uint64_t objects(struct lladd_archive *a)
{
    lladd_mutex_lock(&a->state);
    uint64_t n = a->status.objects;
    lladd_mutex_unlock(&a->state);
    return n;
}

static void count(struct lladd_archive *a, bool given)
{
    lladd_mutex_lock(&a->state);
    if (given)
        a->status.pages_given++;
    else
        a->status.pages_refused++;
    lladd_mutex_unlock(&a->state);
}

/* If the archive stores an object meanwhile, tries again. */
static int give(struct ll_ship_wanted *w, uint64_t writer)
{
    struct lladd_archive *a = w->a;
    uint64_t before;
    int rc, tries = 0;
    w->steps.mem = w->txns.mem = w->open.mem = a->mem;
    do {
        *w->err = (struct lladd_error)LLADD_ERROR_INIT;
        w->empty = true;
        before = objects(a);
        rc = find(w, writer);
    } while (rc && objects(a) != before && ++tries < TRIES);
    ll_ship_buf_free(&w->steps);
    ll_ship_buf_free(&w->txns);
    ll_ship_buf_free(&w->open);
    count(a, rc == 0);
    return rc;
}

int ll_ship_page(struct lladd_archive *a, struct lladd_db *db, lladd_pageno page, lladd_lsn since,
                 lladd_lsn writer, void *bytes, struct lladd_error *err)
{
    struct lladd_error why;
    struct ll_ship_wanted w = {
        .a = a, .db = db, .page = page.v, .since = since.v, .bytes = bytes, .err = &why};
    int rc = give(&w, writer.v);
    if (!rc || rc == LLADD_NO_MEMORY)
        return rc ? ll_ship_no_memory(err) : 0;
    return lladd_error_set(err, LLADD_NOT_FOUND, "archive: %s", why.message);
}

int lladd_page_from_archive(struct lladd_archive *a, lladd_pageno page, void *bytes,
                            struct lladd_error *err)
{
    struct lladd_error why;
    struct lladd_stats stats = {.struct_size = sizeof stats};
    struct ll_ship_wanted w = {.a = a, .page = page.v, .raw = true, .bytes = bytes, .err = &why};
    if (!a || !bytes)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "the archive or the buffer is NULL");
    lladd_mutex_lock(&a->state);
    w.db = a->db;
    lladd_mutex_unlock(&a->state);
    if (!w.db)
        return lladd_error_set(err, LLADD_BAD_STATE, "no database is open with this archive");
    int rc = lladd_stats_get(w.db, &stats);
    w.since = stats.log_oldest;
    if (rc)
        return lladd_error_set(err, rc, "%s", lladd_code_text(rc));
    rc = give(&w, 0);
    if (rc && err)
        *err = why;
    return rc;
}
