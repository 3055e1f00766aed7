/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds the damaged pages of a backup from outside, and the lost writes.
 *
 * A page that could not be read is damaged if it is in use, and redo of the backup does not make it
 * from nothing or from an image. A page that is older than newest.c says has lost a write. The log
 * tells these pages from pages of a later use, as in a scrub: a transaction takes pages long before
 * it formats them, and a barrier may cover pages that are never written. The spool of a transaction
 * that has not committed at the backup's end says nothing of the page. Nothing is repaired.
 *
 * Whether a page is in use is read from the database as it is now. Pages that were taken after the
 * backup's end are left out; the log on the disk shows them. */
#include "ship/newest.h"
#include "ship/outside.h"

#include <lladd/bytes.h>
#include <lladd/pages.h>
#include <stdio.h>
#include <string.h>

/* A page that may be damaged, or may have lost a write, and what the log says of it. */
struct fate {
    uint64_t page;
    struct ll_ship_must must; /* LSN 0: the page could not be read */
    uint64_t writer; /* a transaction that has taken it to write it in bulk, and has not ended */
    bool used;       /* it is in use */
    bool later;      /* a use began above must.lsn */
    bool blank;      /* it was taken, and no record has changed it since */
    bool made;       /* redo makes it, from nothing or from an image */
};

struct judging {
    struct ll_ship_outside *o;
    struct ll_ship_newest n;
    struct lladd_archive *a;
    struct lladd_store *locked; /* of `a`; not used: b.store serves all threads */
    struct ll_ship_image im;  /* the backup's own log */
    struct ll_ship_buf fates; /* struct fate, in the order of pages of each kind */
    struct lladd_error *err;
};

static struct fate *fates(const struct judging *j, size_t *n)
{
    *n = j->fates.len / sizeof(struct fate);
    return (void *)j->fates.data;
}

/* ---- what the pages must have --------------------------------------------------------------- */

static int learn_record(void *ctx, const struct ll_ship_logged *l, struct lladd_error *err)
{
    struct ll_ship_newest *n = ctx;
    (void)err;
    if (l->kind == LL_SHIP_REC_UPDATE || l->kind == LL_SHIP_REC_CLR ||
        l->kind == LL_SHIP_REC_IMAGE)
        ll_ship_newest_record(n, l->page, l->lsn);
    return 0;
}

/* The archive's indexes have the whole segments; the backup's log has the pieces after them. */
static int learn(struct judging *j)
{
    struct ll_ship_outside *o = j->o;
    struct ll_ship_newest *n = &j->n;
    uint64_t end;
    bool more = false;
    n->needs_base = true;
    n->redo = o->b.m.redo.v;
    n->pages = o->pages;
    n->must = ll_ship_new(o->b.mem, (n->pages + 1) * sizeof *n->must);
    int rc = n->must ? ll_ship_newest_learn(n, 0) : ll_ship_no_memory(j->err);
    return rc || !n->compared ? rc
                              : ll_ship_scan(&j->im, o->b.m.info.from.v, o->b.m.info.end.v,
                                             learn_record, n, &end, &more, j->err);
}

static int open_archive(struct judging *j)
{
    struct lladd_archive_options opt = LLADD_ARCHIVE_OPTIONS_INIT;
    const struct ll_ship_backup *b = &j->o->b;
    opt.allocator = b->opt.allocator;
    opt.world = b->opt.world;
    int rc = ll_ship_archive_new(b->store, &opt, &j->a, j->err);
    if (rc)
        return rc;
    j->locked = j->a->store;
    j->a->store = b->store;
    j->a->dev = b->dev;
    ll_ship_newest_init(&j->n, j->a, NULL, j->err);
    rc = ll_ship_archive_identify(j->a, j->err);
    return rc ? rc
              : ll_ship_spool_look(j->a->dev, j->a->mem, j->a->uuid, j->a->page_size, &j->a->spool,
                                   j->err);
}

/* ---- the pages ------------------------------------------------------------------------------ */

static int add_damaged(struct judging *j)
{
    const struct ll_ship_buf *damaged = &j->o->b.damaged;
    int rc = 0;
    for (size_t at = 0; at < damaged->len && !rc; at += sizeof(uint64_t)) {
        struct fate one = {.page = *(const uint64_t *)(const void *)(damaged->data + at)};
        if (!ll_ship_laid_has(&j->o->goal.laid, one.page))
            rc = ll_ship_append(&j->fates, &one, sizeof one, j->err);
    }
    return rc;
}

static int add_older(struct judging *j)
{
    const struct ll_ship_backup *b = &j->o->b;
    uint32_t size = b->m.info.page_size;
    int rc = 0;
    memset(b->chunk, 0, size);
    uint32_t zeros = lladd_crc32c(0, b->chunk, size);
    for (uint64_t i = 0; i < j->n.pages && !rc; i++) {
        const unsigned char *entry = ll_ship_outside_entry(j->o, i);
        struct fate one = {.page = i, .must = j->n.must[i]};
        uint64_t lsn = lladd_get64(entry);
        uint32_t crc = lladd_get32(entry + 8);
        if (one.must.lsn && one.must.lsn < b->m.info.end.v &&
            ll_ship_is_older(&one.must, lsn || crc == zeros, lsn, crc))
            rc = ll_ship_append(&j->fates, &one, sizeof one, j->err);
    }
    return rc;
}

/* ---- their use ------------------------------------------------------------------------------ */

static int see_taken(void *ctx, const struct lladd_inspect_record *r)
{
    struct judging *j = ctx;
    const struct lladd_log_entry *e = &r->entry;
    struct ll_ship_logged l = {
        .kind = e->kind, .page = e->page, .redo = e->redo.data, .redo_len = e->redo.len};
    uint64_t first, n;
    size_t have;
    struct fate *at = fates(j, &have);
    if (!ll_ship_taken(j->o->b.m.info.page_size, &l, &first, &n))
        return 0;
    for (size_t i = 0; i < have; i++)
        if (at[i].page >= first && at[i].page - first < n)
            at[i].used = false;
    return 0;
}

static int find_use(struct judging *j, struct lladd_inspect *view)
{
    size_t n;
    struct fate *at = fates(j, &n);
    int rc = 0;
    for (size_t i = 0; i < n && !rc; i++) {
        enum lladd_page_use use = LLADD_USE_NONE;
        bool known = false;
        rc = lladd_inspect_page_use(view, lladd_page_of(at[i].page), &use, &known, j->err);
        if (rc == LLADD_OUT_OF_RANGE)
            rc = 0;
        else if (!rc && at[i].must.raw)
            at[i].used = known && use == LLADD_USE_RAW;
        else if (!rc)
            at[i].used = !known || use == LLADD_USE_PAGED || use == LLADD_USE_SYSTEM;
    }
    return rc ? rc : lladd_inspect_log(view, j->o->b.m.info.end, see_taken, j, j->err);
}

static int find_uses(struct judging *j)
{
    struct lladd_inspect_info info;
    struct lladd_inspect *view;
    uint64_t end;
    int rc = ll_ship_outside_look(j->o, j->o->logged, &info, &end, &view);
    if (rc)
        return rc;
    rc = find_use(j, view);
    lladd_inspect_close(view);
    return rc;
}

/* ---- their fate in the log ------------------------------------------------------------------ */

static void begin_use(struct judging *j, const struct ll_ship_logged *l, uint64_t first, uint64_t n,
                      bool blank)
{
    size_t have;
    struct fate *at = fates(j, &have);
    for (size_t i = 0; i < have; i++) {
        if (at[i].page < first || at[i].page - first >= n)
            continue;
        at[i].later = at[i].later || l->lsn > at[i].must.lsn;
        at[i].writer = blank ? 0 : l->txn;
        at[i].blank = blank;
        at[i].made = false;
    }
}

static int see_fate(void *ctx, const struct ll_ship_logged *l, struct lladd_error *err)
{
    enum { AT_FLAGS = 16, FORMATS = 4 }; /* of a record (docs/disk-format.md) */
    struct judging *j = ctx;
    uint64_t first, n;
    size_t have;
    struct fate *at = fates(j, &have);
    bool image = l->kind == LL_SHIP_REC_IMAGE;
    bool changes = image || l->kind == LL_SHIP_REC_UPDATE || l->kind == LL_SHIP_REC_CLR;
    bool ends = l->kind == LL_SHIP_REC_COMMIT || l->kind == LL_SHIP_REC_PREPARE;
    (void)err;
    if (l->kind == LL_SHIP_REC_REDO_BARRIER && l->redo_len == 16)
        begin_use(j, l, lladd_get64(l->redo), lladd_get64(l->redo + 8), false);
    else if (ll_ship_taken(j->o->b.m.info.page_size, l, &first, &n))
        begin_use(j, l, first, n, true);
    for (size_t i = 0; i < have && (changes || ends); i++) {
        if (ends && at[i].writer == l->txn)
            at[i].writer = 0;
        if (!changes || l->page != at[i].page)
            continue;
        bool base = image || (l->bytes[AT_FLAGS] & FORMATS) != 0;
        at[i].blank = false;
        at[i].made = at[i].made || (base && l->lsn >= j->o->b.m.redo.v);
    }
    return 0;
}

/* The lowest LSN that a page must have, or where the backup's log begins if that is lower. */
static uint64_t lowest(const struct judging *j)
{
    size_t n;
    const struct fate *at = fates(j, &n);
    uint64_t low = j->o->b.m.info.from.v;
    for (size_t i = 0; i < n; i++)
        low = at[i].must.lsn && at[i].must.lsn < low ? at[i].must.lsn : low;
    return low;
}

static void forget_fates(struct judging *j)
{
    size_t n;
    struct fate *at = fates(j, &n);
    for (size_t i = 0; i < n; i++)
        at[i] = (struct fate){.page = at[i].page, .must = at[i].must};
}

/* Reads the backup's log and, if a page must have an older LSN, the archived log from there on. */
static int find_fates(struct judging *j)
{
    struct ll_ship_outside *o = j->o;
    struct ll_ship_image im;
    uint64_t end, low = lowest(j), to = o->b.m.info.end.v;
    bool more = false;
    forget_fates(j);
    if (low >= o->b.m.info.from.v)
        return ll_ship_scan(&j->im, low, to, see_fate, j, &end, &more, j->err);
    ll_ship_image_init(&im, o->b.mem, o->b.store, o->b.m.info.uuid);
    int rc = ll_ship_collect(&o->past, &o->steps, o->b.m.info.timeline, &j->n.m, to, &im, j->err);
    if (!rc)
        rc = ll_ship_scan(&im, ll_ship_newest_start(&j->n, low), to, see_fate, j, &end, &more,
                          j->err);
    ll_ship_image_free(&im);
    return rc;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static int report_lost(struct judging *j, const struct fate *f)
{
    struct ll_ship_backup *b = &j->o->b;
    char text[200];
    struct lladd_finding finding = {.kind = LLADD_FINDING_DAMAGE,
                                    .code = LLADD_CORRUPT_PAGE,
                                    .file = "pages",
                                    .offset = f->page * b->m.info.page_size,
                                    .lsn = lladd_lsn_of(f->must.lsn),
                                    .page = lladd_page_of(f->page),
                                    .message = text};
    b->m.info.lost_pages++;
    if (f->must.raw)
        (void)snprintf(text, sizeof text, "the raw page is not as it was written");
    else
        (void)snprintf(text, sizeof text,
                       "a write was lost: the page has LSN %llu, and was written with LSN %llu",
                       (unsigned long long)lladd_get64(ll_ship_outside_entry(j->o, f->page)),
                       (unsigned long long)f->must.lsn);
    return b->opt.finding ? b->opt.finding(b->opt.finding_ctx, &finding) : 0;
}

static int report(struct judging *j, const struct fate *f)
{
    const struct ll_ship_backup *b = &j->o->b;
    int rc = f->must.lsn ? report_lost(j, f)
                         : ll_ship_tell_damaged(b, f->page, "a backup from outside repairs nothing",
                                                b->opt.finding, b->opt.finding_ctx);
    return rc ? lladd_error_set(j->err, rc, "the function for findings has stopped the backup") : 0;
}

static int conclude(struct judging *j)
{
    struct ll_ship_backup *b = &j->o->b;
    size_t n;
    const struct fate *at = fates(j, &n);
    int rc = 0;
    b->damaged.len = 0;
    for (size_t i = 0; i < n && !rc; i++) {
        bool lost = at[i].must.lsn != 0;
        if (!at[i].used || at[i].blank || at[i].made || at[i].writer || (lost && at[i].later))
            continue;
        rc = ll_ship_append(&b->damaged, &at[i].page, sizeof at[i].page, j->err);
        if (!rc)
            rc = report(j, &at[i]);
    }
    return rc;
}

/* Adds the pages that have lost a write. If the archive is damaged, or has a gap since the newest
 * backup, the pages cannot be compared, and the backup goes on without that. */
static int compare(struct judging *j)
{
    struct lladd_error why = LLADD_ERROR_INIT, *err = j->err;
    size_t before = j->fates.len;
    j->err = &why;
    int rc = open_archive(j);
    if (!rc)
        rc = learn(j);
    if (!rc && j->n.compared)
        rc = add_older(j);
    if (!rc && j->fates.len > before)
        rc = find_fates(j);
    j->err = err;
    j->o->b.m.info.compared = !rc && j->n.compared;
    if (!rc)
        return 0;
    j->fates.len = before;
    if (lladd_code_root(rc) == LLADD_ROOT_DATA || rc == LLADD_OUT_OF_RANGE)
        return 0;
    if (err && why.code)
        *err = why;
    return rc;
}

int ll_ship_outside_judge(struct ll_ship_outside *o)
{
    struct judging j = {.o = o, .fates.mem = o->b.mem, .err = o->err};
    ll_ship_image_init(&j.im, o->b.mem, o->b.store, o->b.m.info.uuid);
    int rc = ll_ship_collect(&o->past, &o->steps, o->b.m.info.timeline, &o->b.m,
                             o->b.m.info.end.v, &j.im, o->err);
    if (!rc)
        rc = add_damaged(&j);
    size_t damaged = j.fates.len;
    if (!rc)
        rc = compare(&j);
    if (!rc && damaged && j.fates.len == damaged)
        rc = find_fates(&j); /* of the damaged pages alone */
    if (!rc && j.fates.len)
        rc = find_uses(&j);
    if (!rc)
        rc = conclude(&j);
    if (j.a) {
        ll_ship_newest_free(&j.n);
        j.a->store = j.locked;
    }
    lladd_archive_free(j.a);
    ll_ship_image_free(&j.im);
    ll_ship_buf_free(&j.fates);
    return rc;
}
