/* SPDX-License-Identifier: BSD-2-Clause */
/* A backup of a database that another process has open and archives into the same store. Nothing is
 * asked of the other process, and nothing of the database is changed: no pin, no hold, no
 * checkpoint. What is copied, and in which order:
 *
 *   1. find the oldest LSN that a checkpoint, a transaction or a pin needs, or, if the database has
 *      object classes, the oldest LSN of the log on the disk: it is `from`, for the other process
 *      keeps what a recovery needs. Then read the control block: its redo is not below `from`
 *   2. wait until the store has all log that was durable before the first page is copied
 *   3. copy all pages, with plain reads, while transactions change and write them
 *   4. choose E: an LSN above the page LSN of every copied page, above every redo barrier under
 *      which a copied page may have been written, and not below the watermark of the control block.
 *      Wait until the store has the log up to E
 *   5. take the log from `from` to E out of the archive, and lay over the pages what transactions
 *      with a commit or prepare record between step 2 and E have written in bulk; this is in the
 *      spools of the archive. Pages of earlier commits were in the file before step 3
 *   6. put the manifest
 *
 * The database may take checkpoints and truncate its log meanwhile, since the archive has the log.
 * A raw page has no LSN. But its redo barrier was durable before the page was written, so step 4
 * finds the barrier in the log on the disk: the last record of durable log is a seal or, if there
 * was no space for a seal, at least not above the last barrier. */
#include "ship/outside.h"

#include <lladd/bytes.h>
#include <lladd/dst.h>
#include <lladd/inspect.h>
#include <lladd/lladd.h>
#include <lladd/pages.h>
#include <lladd/sync.h>
#include <string.h>

enum { TRIES = 3 };

/* ---- the database from outside -------------------------------------------------------------- */

struct tail {
    uint64_t end; /* of the last seal or redo barrier */
};

static int see_record(void *ctx, const struct lladd_inspect_record *r)
{
    struct tail *t = ctx;
    unsigned kind = r->entry.kind;
    if (kind == LL_SHIP_REC_SEAL || kind == LL_SHIP_REC_REDO_BARRIER)
        t->end = r->entry.lsn.v + r->size;
    return 0;
}

int ll_ship_outside_look(struct ll_ship_outside *o, uint64_t from, struct lladd_inspect_info *info,
                         uint64_t *end, struct lladd_inspect **view)
{
    struct lladd_options options = LLADD_OPTIONS_INIT;
    struct tail tail = {0};
    options.device = o->b.dev;
    options.allocator = o->b.opt.allocator;
    int rc = lladd_inspect_open(NULL, &options, view, o->err);
    if (rc)
        return rc;
    *info = (struct lladd_inspect_info){.struct_size = sizeof *info};
    rc = lladd_inspect_info_get(*view, info);
    if (rc)
        (void)lladd_error_set(o->err, rc, "the database cannot be looked at");
    if (!rc)
        rc = lladd_inspect_log(*view, lladd_lsn_of(from ? from : info->redo.v), see_record, &tail,
                               o->err);
    *end = tail.end;
    if (rc)
        lladd_inspect_close(*view);
    return rc;
}

/* Reads the control block until it is the same twice: it may be written meanwhile. A database that
 * was just opened has no log of this run yet, and still looks closed. */
static int read_control(struct ll_ship_outside *o)
{
    unsigned char again[LL_SHIP_CONTROL];
    struct ll_ship_wait wait = {0};
    int rc = ll_ship_control_read(o->b.dev, o->control, o->err);
    while (!rc) {
        rc = ll_ship_control_read(o->b.dev, again, o->err);
        if (rc || (memcmp(again, o->control, sizeof again) == 0 && !ll_ship_control_clean(again)))
            break;
        memcpy(o->control, again, sizeof again);
        rc = ll_ship_control_clean(again) ? ll_ship_wait_more(o, &wait, 0) : 0;
    }
    return rc;
}

static int fail_not_archived(struct ll_ship_outside *o)
{
    return lladd_error_set(o->err, LLADD_BAD_STATE,
                           "a process has the database open and does not archive it into this "
                           "store: then only that process can make a backup (lladd_backup)");
}

/* The store must have an archive of this database, and this database must have claimed it. */
static int identify(struct ll_ship_outside *o)
{
    struct ll_ship_backup *b = &o->b;
    struct ll_ship_claim claim;
    int rc = ll_ship_control_read(b->dev, o->control, o->err);
    if (rc)
        return rc;
    ll_ship_control_uuid(o->control, b->m.info.uuid);
    b->m.info.page_size = ll_ship_control_page_size(o->control);
    b->m.info.timeline = ll_ship_control_timeline(o->control);
    rc = ll_ship_past_open(&o->past, b->store, b->mem, o->err);
    if (rc == LLADD_NOT_FOUND)
        return fail_not_archived(o);
    if (!rc && memcmp(o->past.uuid, b->m.info.uuid, sizeof o->past.uuid) != 0)
        return lladd_error_set(o->err, LLADD_OTHER_DATABASE,
                               "the store has backups of another database");
    if (!rc)
        rc = ll_ship_claim_own(b->store, b->dev, b->m.info.timeline, &claim, o->err);
    if (!rc && !claim.n)
        return fail_not_archived(o);
    return rc ? rc : ll_ship_past_path(&o->past, b->m.info.timeline, &o->steps, o->err);
}

/* At the end: all pages are of this timeline, and so is the archived log. */
static int identify_again(struct ll_ship_outside *o)
{
    unsigned char control[LL_SHIP_CONTROL];
    struct ll_ship_claim claim;
    int rc = ll_ship_control_read(o->b.dev, control, o->err);
    if (!rc && ll_ship_control_timeline(control) != o->b.m.info.timeline)
        rc = lladd_error_set(o->err, LLADD_DIVERGED,
                             "the database has left timeline %u while it was copied",
                             o->b.m.info.timeline);
    return rc ? rc
              : ll_ship_claim_own(o->b.store, o->b.dev, o->b.m.info.timeline, &claim, o->err);
}

/* The archive may have replaced the pieces of a segment by the segment since they were listed. */
static int list_again(struct ll_ship_outside *o, int rc, unsigned *attempts)
{
    if (rc != LLADD_CORRUPT_BACKUP || ++*attempts >= LL_SHIP_ATTEMPTS)
        return rc;
    return ll_ship_past_again(&o->past, o->err);
}

/* ---- where the log begins ------------------------------------------------------------------- */

/* The archive must have the log that a recovery needs, as far as the store goes by now. */
static int find_from(struct ll_ship_outside *o, uint64_t oldest)
{
    struct ll_ship_image down;
    uint64_t to = o->top, reached = oldest;
    uint64_t redo = o->b.m.redo.v, analysis = ll_ship_control_checkpoint(o->control);
    uint64_t least = redo < analysis ? redo : analysis;
    unsigned attempts = 0;
    int rc = to > oldest ? LLADD_CORRUPT_BACKUP : 0;
    while (rc == LLADD_CORRUPT_BACKUP && attempts < LL_SHIP_ATTEMPTS) {
        to = o->top;
        ll_ship_image_init(&down, o->b.mem, o->b.store, o->b.m.info.uuid);
        rc = ll_ship_past_chain(&o->past, &o->steps, oldest, &to, &down, &reached, o->err);
        ll_ship_image_free(&down);
        if (rc && list_again(o, rc, &attempts))
            return rc;
    }
    if (rc)
        return rc;
    if (reached > oldest)
        return lladd_error_set(o->err, LLADD_OUT_OF_RANGE,
                               "the archive lacks log of timeline %u between LSN %llu and LSN "
                               "%llu, which the backup needs",
                               o->b.m.info.timeline, (unsigned long long)oldest,
                               (unsigned long long)reached);
    o->b.m.info.from = lladd_lsn_of(oldest < least ? oldest : least);
    return 0;
}

/* ---- pages ---------------------------------------------------------------------------------- */

static int count_pages(struct ll_ship_outside *o, uint64_t *out)
{
    uint64_t size = 0;
    int rc = o->b.dev->ops->size(o->b.dev, o->b.pages, &size);
    *out = size / o->b.m.info.page_size;
    return rc ? ll_ship_fail_io(o->err, rc, "read the size of", "pages") : 0;
}

/* Drops the raw pages. If a page was torn before it became raw, it does not matter: its redo
 * barrier is below E. */
static int drop_raw(struct ll_ship_outside *o)
{
    uint64_t *page = (void *)o->b.damaged.data, end;
    size_t n = o->b.damaged.len / sizeof *page, kept = 0;
    struct lladd_inspect_info info;
    struct lladd_inspect *view;
    int rc = ll_ship_outside_look(o, o->logged, &info, &end, &view);
    if (rc)
        return rc;
    for (size_t i = 0; i < n && !rc; i++) {
        enum lladd_page_use use = LLADD_USE_NONE;
        bool known = false;
        rc = lladd_inspect_page_use(view, lladd_page_of(page[i]), &use, &known, o->err);
        rc = rc == LLADD_OUT_OF_RANGE ? 0 : rc; /* the file has grown since the view was taken */
        if (!known || use != LLADD_USE_RAW)
            page[kept++] = page[i];
    }
    lladd_inspect_close(view);
    o->b.damaged.len = kept * sizeof *page;
    return rc;
}

/* Reads the pages of the list again, copies those that are whole, and keeps the others. */
static int read_again(struct ll_ship_outside *o, struct ll_ship_buf *list)
{
    struct ll_ship_backup *b = &o->b;
    uint64_t *page = (void *)list->data;
    size_t n = list->len / sizeof *page, kept = 0;
    int rc = 0;
    for (size_t i = 0; i < n && !rc; i++) {
        rc = ll_ship_read_pages(b, page[i], 1, b->chunk);
        if (!rc && ll_ship_page_ok(b->m.info.uuid, page[i], b->chunk, b->m.info.page_size))
            rc = ll_ship_copy_pages(b, page[i], 1);
        else
            page[kept++] = page[i];
    }
    list->len = kept * sizeof *page;
    return rc;
}

/* Pages with wrong checksums are read again, after all others. */
static int copy_again(struct ll_ship_outside *o)
{
    int rc = o->b.damaged.len ? drop_raw(o) : 0;
    struct ll_ship_buf list = o->b.damaged;
    o->b.damaged = (struct ll_ship_buf){.mem = o->b.mem};
    for (int i = 0; i < TRIES && list.len && !rc; i++) {
        lladd_yield(); /* the writer of a page may be waiting for this processor */
        rc = read_again(o, &list);
    }
    if (!rc)
        rc = ll_ship_append(&o->b.damaged, list.data, list.len, o->err);
    ll_ship_buf_free(&list);
    return rc;
}

/* Sets o->need, from which E is chosen. */
static int copy_pages(struct ll_ship_outside *o)
{
    struct ll_ship_backup *b = &o->b;
    struct lladd_inspect_info info;
    struct lladd_inspect *view;
    uint64_t logged;
    int rc = count_pages(o, &o->pages);
    b->what = "pages";
    b->bytes_all = o->pages * b->m.info.page_size;
    if (!rc)
        rc = ll_ship_copy_pages(b, 0, o->pages);
    if (!rc)
        rc = copy_again(o);
    if (!rc)
        rc = count_pages(o, &b->m.info.pages);
    if (!rc)
        rc = ll_ship_outside_look(o, o->logged, &info, &logged, &view);
    if (rc)
        return rc;
    lladd_inspect_close(view);
    o->need = ll_ship_control_watermark(o->control);
    if (!LLADD_PLANTED(LLADD_BUG_OUTSIDE_END)) {
        o->need = b->newest + 1 > o->need ? b->newest + 1 : o->need;
        o->need = logged > o->need ? logged : o->need;
    }
    return ll_ship_flush_pages(b);
}

/* ---- the end -------------------------------------------------------------------------------- */

static void release_log(struct ll_ship_outside *o)
{
    ll_ship_image_free(&o->im);
    ll_ship_goal_free(&o->goal);
    o->goal = (struct ll_ship_goal){0};
    ll_ship_image_init(&o->im, o->b.mem, o->b.store, o->b.m.info.uuid);
}

static int gather(struct ll_ship_outside *o, uint64_t to)
{
    release_log(o);
    return ll_ship_gather(&o->past, &o->steps, &o->b.m, o->since, to, &o->im, &o->goal, o->err);
}

/* Waits for the log, and chooses E: where the whole records end that the store has. */
static int choose_end(struct ll_ship_outside *o)
{
    uint64_t need = o->need;
    unsigned attempts = 0;
    int rc = 0;
    while (!rc) {
        rc = ll_ship_wait_for(o, need);
        if (rc)
            break;
        rc = gather(o, o->top);
        if (!rc && o->goal.facts.end >= o->need) {
            o->b.m.info.end = lladd_lsn_of(o->goal.facts.end);
            break;
        }
        need = rc ? need : o->top + 1;
        rc = list_again(o, rc, &attempts);
    }
    return rc;
}

static int take_log(struct ll_ship_outside *o)
{
    struct ll_ship_backup *b = &o->b;
    uint64_t stored = b->m.info.stored_bytes;
    unsigned attempts = 0;
    for (;;) {
        b->m.log.len = 0;
        b->m.info.stored_bytes = stored;
        int rc = ll_ship_take_log(b, &o->im);
        if (!rc || (rc = list_again(o, rc, &attempts)) != 0)
            return rc;
        rc = gather(o, b->m.info.end.v);
        if (rc)
            return rc;
    }
}

/* ---- pages written in bulk ------------------------------------------------------------------ */

/* The frames begin with one of each page, in the order of pages; those that were copied later
 * follow. */
const unsigned char *ll_ship_outside_entry(const struct ll_ship_outside *o, uint64_t page)
{
    const struct ll_ship_buf *index = &o->b.index;
    uint64_t entries = o->b.entries.len / LL_SHIP_PAGE_ENTRY, at = page;
    for (size_t end = index->len; end && entries > o->pages; end -= LL_SHIP_FRAME_ENTRY) {
        struct ll_ship_frame f;
        ll_ship_frame_decode(index->data + end - LL_SHIP_FRAME_ENTRY, &f);
        entries -= f.n;
        if (page >= f.first && page - f.first < f.n) {
            at = entries + (page - f.first);
            break;
        }
    }
    return o->b.entries.data + at * LL_SHIP_PAGE_ENTRY;
}

/* Adds the pages that were collected as a frame. */
static int add_laid(struct ll_ship_outside *o)
{
    uint32_t n = o->laid;
    o->laid = 0;
    return n ? ll_ship_add_frame(&o->b, o->first, n, o->b.chunk) : 0;
}

static int lay_page(void *ctx, uint64_t page, uint64_t barrier)
{
    struct ll_ship_outside *o = ctx;
    size_t size = o->b.m.info.page_size;
    int rc = 0;
    if (page < o->pages && lladd_get64(ll_ship_outside_entry(o, page)) > barrier)
        return 0;
    if (o->laid == LL_SHIP_FRAME || page != o->first + o->laid)
        rc = add_laid(o);
    if (rc)
        return rc;
    if (!o->laid)
        o->first = page;
    unsigned char *to = o->b.chunk + o->laid++ * size;
    memset(to, 0, size);
    return ll_ship_laid_page(&o->goal.laid, page, to, o->err);
}

static int lay_pages(struct ll_ship_outside *o)
{
    if (LLADD_PLANTED(LLADD_BUG_OUTSIDE_BULK))
        return 0;
    int rc = ll_ship_laid_each(&o->goal.laid, lay_page, o);
    return rc ? rc : add_laid(o);
}

/* ---- the whole ------------------------------------------------------------------------------ */

struct oldest {
    uint64_t lsn;
    bool unknown; /* only the other process knows how much log an object class needs */
};

static int see_pinner(void *ctx, const struct lladd_pinner *p)
{
    struct oldest *o = ctx;
    o->unknown = o->unknown || strcmp(p->kind, "class") == 0;
    o->lsn = p->lsn.v && p->lsn.v < o->lsn ? p->lsn.v : o->lsn;
    return 0;
}

/* Steps 1 and 2. The log on the disk may begin with segments that nothing needs any more. */
static int begin(struct ll_ship_outside *o)
{
    struct lladd_inspect_info info;
    struct lladd_inspect *view;
    struct oldest oldest = {.lsn = UINT64_MAX};
    int rc = ll_ship_outside_look(o, 0, &info, &o->logged, &view);
    if (rc)
        return rc;
    rc = lladd_inspect_pinners(view, see_pinner, &oldest);
    lladd_inspect_close(view);
    if (rc)
        return lladd_error_set(o->err, rc, "what keeps the log cannot be found out");
    oldest.lsn = oldest.lsn < info.redo.v ? oldest.lsn : info.redo.v;
    if (oldest.unknown || oldest.lsn < info.log_oldest.v)
        oldest.lsn = info.log_oldest.v;
    rc = read_control(o);
    o->b.m.redo = lladd_lsn_of(ll_ship_control_redo(o->control));
    uint64_t need = ll_ship_control_watermark(o->control);
    need = o->logged > need ? o->logged : need;
    if (!rc)
        rc = ll_ship_wait_for(o, need > oldest.lsn ? need : oldest.lsn + 1);
    o->since = o->top;
    return rc ? rc : find_from(o, oldest.lsn);
}

static int finish(struct ll_ship_outside *o)
{
    struct ll_ship_backup *b = &o->b;
    b->m.heuristic = o->goal.facts.heuristic;
    /* Redo expects the page file to have each page that the log names. */
    if (b->m.info.pages < o->goal.facts.pages)
        b->m.info.pages = o->goal.facts.pages;
    int rc = lay_pages(o);
    if (!rc)
        rc = ll_ship_outside_judge(o);
    if (!rc)
        rc = ll_ship_finish_pages(b);
    if (!rc)
        rc = identify_again(o);
    return rc ? rc : ll_ship_backup_finish(b);
}

static int copy(struct ll_ship_outside *o)
{
    int rc = begin(o);
    if (!rc)
        rc = ll_ship_backup_start(&o->b, o->control);
    if (!rc)
        rc = copy_pages(o);
    if (!rc)
        rc = choose_end(o);
    if (!rc)
        rc = take_log(o);
    return rc ? rc : finish(o);
}

static int run(struct ll_ship_outside *o)
{
    struct ll_ship_backup *b = &o->b;
    if (!ll_ship_is_open(o))
        return lladd_error_set(o->err, LLADD_BAD_STATE, "no process has the database open");
    int rc = identify(o);
    if (!rc)
        rc = ll_ship_refuse_files(b);
    if (!rc)
        rc = ll_ship_backup_room(b);
    if (rc)
        return rc;
    release_log(o);
    rc = b->dev->ops->open(b->dev, "pages", LLADD_OPEN_READ_ONLY, &b->pages);
    if (rc)
        return ll_ship_fail_io(o->err, rc, "open", "pages");
    rc = copy(o);
    int late = b->dev->ops->close(b->dev, b->pages);
    if (!rc && late)
        rc = ll_ship_fail_io(o->err, late, "read", "pages");
    if (rc)
        ll_ship_backup_take_back(b);
    return rc;
}

static void release(struct ll_ship_outside *o)
{
    ll_ship_image_free(&o->im);
    ll_ship_goal_free(&o->goal);
    ll_ship_buf_free(&o->steps);
    ll_ship_past_free(&o->past);
    ll_ship_backup_release(&o->b);
}

int lladd_backup_outside(struct lladd_device *files, struct lladd_store *store,
                         const struct lladd_outside_options *options,
                         struct lladd_backup_info *info, struct lladd_error *err)
{
    struct lladd_outside_options opt = LLADD_OUTSIDE_OPTIONS_INIT;
    struct ll_ship_outside o = {.b = {.dev = files, .store = store, .err = err}, .err = err};
    struct lladd_store *shared = NULL;
    if (!files || !store)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                               "a backup needs the files of a database and a store");
    if (options)
        memcpy(&opt, options,
               options->struct_size < sizeof opt ? options->struct_size : sizeof opt);
    o.wait_ns = opt.wait_ns ? opt.wait_ns : LL_SHIP_WAIT_NS;
    int rc = ll_ship_backup_options(&o.b, opt.backup);
    o.steps.mem = o.b.mem;
    if (!rc)
        rc = ll_ship_store_share(&o.b.store, o.b.threads, o.b.mem, &shared, err);
    if (!rc)
        rc = run(&o);
    if (!rc && info) {
        size_t size = info->struct_size < sizeof *info ? info->struct_size : sizeof *info;
        o.b.m.info.struct_size = info->struct_size;
        memcpy(info, &o.b.m.info, size);
    }
    lladd_store_close(shared);
    release(&o);
    return rc;
}
