/* SPDX-License-Identifier: BSD-2-Clause */
/* Redo: repeats history, page by page.
 *
 * Redo of a page depends only on that page and the log (OP-4). Workers therefore divide the pages
 * by a hash of the page number, and each worker reads the whole log with its own cursor. Workers
 * need no queue and no common order. A worker verifies the records of its pages, and skips other
 * records by their length. If the page LSN is at least the record's LSN, the page has the change
 * already. Otherwise the worker applies the record. A base (an image or a format record) is applied
 * to any page. Another record is applied only if the page LSN equals the record's page_prev
 * (BUF-6). A mismatch is reported as damage, except on a page without a base (below). If analysis
 * has met bases of the page, redo passes over the records before the newest base, and does not read
 * the page.
 *
 * Before a worker applies a batch of records, it asks the system for the pages of these records,
 * and prefetches and latches these pages. No latch is taken between two records, because the atomic
 * operation would wait until the stores to the page have completed.
 *
 * If workers fail, redo reports the failure with the lowest LSN. Each worker goes on at least up to
 * the lowest failure so far. So the number of workers and their timing do not influence the report.
 *
 * Two kinds of pages have no base: a page that fails verification (BUF-5), and a page that lacks
 * changes from before the start of redo (BUF-6). rebuild.c tries these pages again, from the oldest
 * log. REC-4 says which pages redo marks dirty although redo applied no record. */
#include "recovery/redo.h"

#include <lladd/bytes.h>
#include <string.h>
#include <unistd.h>

#define TIME_ONE_IN 64u /* one batch out of this number is timed */

/* `view`: the page's view, made some time before the call. To pass a view that was just made is
 * slow: the copy loads words that span several recent stores. Such a load waits for the stores. */
static int apply_bytes(struct ll_core *core, const struct ll_record *rec, struct lladd_page *page,
                       struct lladd_view *view, struct lladd_error *err)
{
    struct ll_name *name = ll_op_catalog_by_number(core, rec->op);
    int rc = LL_LIKELY(name && name->desc && name->kind == LL_NAME_OP)
                 ? 0
                 : ll_analysis_check_op(core, rec, err);
    if (rc)
        return rc;
    const struct lladd_op *op = name->desc;
    bool clr = rec->kind == LL_REC_CLR;
    struct lladd_span bytes = clr ? rec->undo : rec->redo;
    if (rec->flags & LL_REC_FORMATS) {
        memset(page->bytes, 0, page->size);
        ll_blank_header(page->bytes, name, page->number);
        *view = ll_view_of(page);
    }
    bool typed = name->page_type ? view->type == name->page_type->number : view->type != 0;
    if (!typed || (clr ? !op->undo : !op->redo) ||
        (op->validate && !op->validate(*view, clr ? LLADD_SPAN_UNDO : LLADD_SPAN_REDO, bytes))) {
        rc = ll_fail_lsn(err, LLADD_BAD_RECORD, rec->lsn,
                         "LSN %llu: %s bytes of \"%s\" do not fit page %llu",
                         (unsigned long long)rec->lsn.v, clr ? "undo" : "redo", op->name,
                         (unsigned long long)rec->page);
        if (err)
            err->page = page->number;
        return rc;
    }
    LLADD_CALLING(clr ? "undo" : "redo", op->name, rec->page);
    if (!LLADD_CHANGED(.op = op, .undo = clr, .page = page, .lsn = rec->lsn, .bytes = bytes)) {
        if (clr)
            op->undo(page, bytes);
        else
            op->redo(page, bytes);
    }
    LLADD_CALLED();
    ll_page_set_lsn(page->bytes, rec->lsn);
    if (rec->flags & LL_REC_FORMATS)
        ll_page_set_base(page->bytes, rec->lsn);
    return 0;
}

bool ll_redo_is_durable(const struct ll_core *core, const unsigned char *page)
{
    return !core->tore_unprotected && ll_page_base(page).v < core->redo_start;
}

static bool never_formatted(const unsigned char *page)
{
    return ll_page_lsn(page).v == 0 && ll_page_type(page) == 0;
}

int ll_redo_check_image(struct ll_core *core, lladd_lsn lsn, struct lladd_view view,
                        struct lladd_error *err)
{
    const struct lladd_page_type *t = ll_op_catalog_page_type(core, view.type);
    if (!t || !t->loaded || !t->check || t->check(view))
        return 0;
    int rc = ll_fail_lsn(err, LLADD_BAD_RECORD, lsn,
                         "LSN %llu: the image of page %llu is not a valid page of type \"%s\"",
                         (unsigned long long)lsn.v, (unsigned long long)view.number.v, t->name);
    if (err)
        err->page = view.number;
    return rc;
}

static int redo_image(struct ll_core *core, const struct ll_record *rec, struct lladd_page *page,
                      struct lladd_view *view, bool baseless, struct lladd_error *err)
{
    if (LLADD_REPLAY() && !baseless && view->type != 0) {
        ll_page_set_lsn(page->bytes, rec->lsn);
        ll_page_set_base(page->bytes, rec->lsn);
        return 0;
    }
    int rc = ll_image_apply(core, rec, page->bytes, err);
    *view = ll_view_of(page);
    return rc ? rc : ll_redo_check_image(core, rec->lsn, *view, err);
}

static int redo_record(struct ll_core *core, const struct ll_record *rec, struct lladd_page *page,
                       struct lladd_view *view, bool baseless, uint64_t start,
                       struct lladd_error *err)
{
    lladd_lsn at = ll_page_lsn(page->bytes);
    bool base = ll_redo_is_base(rec);
    if (!baseless && at.v >= rec->lsn.v && !LLADD_PLANTED(LLADD_BUG_REDO_TWICE))
        return LLADD_EXISTS;
    if (rec->kind == LL_REC_CLR && LLADD_PLANTED(LLADD_BUG_REDO_CLR))
        return LLADD_EXISTS;
    if (rec->kind == LL_REC_IMAGE)
        return redo_image(core, rec, page, view, baseless, err);
    if (!base) {
        if (baseless || (never_formatted(page->bytes) && rec->page_prev.v != 0))
            return LLADD_NOT_FOUND;
        /* The change that the record expects is before the start of redo, or it is the bulk write
         * at a redo barrier, and it is not on the page. Either the page was freed and dropped
         * without a write, or a write was lost. So the page has no base, like a page that fails
         * verification. This matters only if the page is in use. */
        if (at.v < rec->page_prev.v && rec->page_prev.v < start)
            return LLADD_NOT_FOUND;
        if (LL_UNLIKELY(at.v != rec->page_prev.v) && !LLADD_PLANTED(LLADD_BUG_REDO_TWICE)) {
            int rc =
                ll_fail_lsn(err, LLADD_CORRUPT_PAGE, rec->lsn,
                            "page %llu of \"pages\" has LSN %llu, but the record at LSN %llu "
                            "found the page at LSN %llu: a write was lost, or the file is from "
                            "elsewhere",
                            (unsigned long long)rec->page, (unsigned long long)at.v,
                            (unsigned long long)rec->lsn.v, (unsigned long long)rec->page_prev.v);
            if (err)
                err->page = page->number;
            return rc;
        }
    }
    return apply_bytes(core, rec, page, view, err);
}

int ll_redo_record(struct ll_core *core, const struct ll_record *rec, struct lladd_page *page,
                   bool baseless, lladd_lsn start, struct lladd_error *err)
{
    struct lladd_view view = ll_view_of(page);
    return redo_record(core, rec, page, &view, baseless, start.v, err);
}

void ll_redo_forget_base(unsigned char *page, lladd_lsn barrier)
{
    if (ll_page_base(page).v < barrier.v)
        ll_page_set_base(page, lladd_lsn_of(0));
}

/* ---- one batch --------------------------------------------------------------------------- */

struct held_page {
    struct ll_frame *frame;
    struct lladd_view view;
};

/* Size of the hash table of latched pages: a power of two, at least twice a batch. */
#define HELD_PLACES 64u
_Static_assert(HELD_PLACES >= 2 * LL_LOG_BATCH, "the search for a frame must end");

struct held {
    unsigned n;
    struct held_page page[LL_LOG_BATCH];
    uint8_t place[HELD_PLACES]; /* index + 1 */
};

/* The place of page n in the table, or the empty place for it. */
static uint8_t *held_place(struct held *h, uint64_t n)
{
    uint64_t i = n * 0x9e3779b97f4a7c15ull >> 58;
    while (h->place[i] && h->page[h->place[i] - 1].frame->page.number.v != n)
        i = (i + 1) % HELD_PLACES;
    return &h->place[i];
}

/* Does the record give the page all its bytes, so that the page need not be read? */
static bool rewrites(const struct ll_record *rec)
{
    return ll_redo_is_base(rec) && !(LLADD_REPLAY() && rec->kind == LL_REC_IMAGE);
}

static int hold(struct ll_redo_worker *w, struct held *h, const struct ll_record *rec,
                struct held_page **out)
{
    uint8_t *place = held_place(h, rec->page);
    if (*place) {
        *out = &h->page[*place - 1];
        return 0;
    }
    unsigned how = LL_FIX_EXCLUSIVE | LL_FIX_REDO | (rewrites(rec) ? LL_FIX_BASE : 0);
    struct held_page *p = &h->page[h->n];
    int rc = ll_buffer_fix(w->core->buffer, lladd_page_of(rec->page), how, &p->frame, &w->err);
    if (rc)
        return rc;
    p->view = ll_view_of(&p->frame->page);
    *place = (uint8_t)++h->n;
    *out = p;
    return 0;
}

/* Notes that the page has no base, and clears the page, so that it is not written. Redo drops the
 * page at the end. */
static int give_up_base(struct ll_redo_worker *w, const struct ll_record *rec, struct ll_frame *f)
{
    bool unread = f->flags == (LL_FRAME_BASELESS | LL_FRAME_UNREAD);
    int rc = ll_hashmap_put(&w->baseless, rec->page, rec->lsn.v | (unread ? LL_REDO_UNREAD : 0));
    if (rc)
        return ll_fail(&w->err, rc, "out of memory in redo");
    ll_buffer_clear(w->core->buffer, f);
    return 0;
}

static int redo_held(struct ll_redo_worker *w, const struct ll_record *rec, struct held_page *p)
{
    struct ll_frame *f = p->frame;
    bool known = w->baseless.count && ll_hashmap_find(&w->baseless, rec->page) != NULL;
    bool baseless = known || f->flags & LL_FRAME_BASELESS;
    lladd_lsn barrier = {w->core->n_barriers ? ll_redo_barrier_of(w->core, rec->page).v : 0};
    int rc = redo_record(w->core, rec, &f->page, &p->view, baseless,
                         ll_redo_start_of(w->core, barrier).v, &w->err);
    ll_observe_redo(w->core, rec, rc);
    if (LL_LIKELY(rc == 0)) {
        w->redone++;
        f->flags &= ~(uint32_t)LL_FRAME_BASELESS;
        if (ll_redo_is_base(rec) && w->baseless.count)
            ll_hashmap_remove(&w->baseless, rec->page);
    }
    if (rc == 0 || rc == LLADD_EXISTS) {
        if (lladd_atomic_load64_relaxed(&f->rec_lsn) == 0 &&
            (rc == 0 || !ll_redo_is_durable(w->core, f->page.bytes)))
            ll_buffer_dirty(w->core->buffer, f, rec->lsn);
        if (barrier.v)
            ll_redo_forget_base(f->page.bytes, barrier);
        rc = 0;
    } else if (rc == LLADD_NOT_FOUND) {
        rc = known ? 0 : give_up_base(w, rec, f);
    }
    return rc;
}

static int timed_redo_held(struct ll_redo_worker *w, const struct ll_record *rec,
                           struct held_page *p)
{
    struct ll_name *n = ll_op_catalog_by_number(w->core, rec->op);
    uint64_t start = ll_now_ns(&w->core->env);
    int rc = redo_held(w, rec, p);
    if (n) {
        uint64_t ns = (ll_now_ns(&w->core->env) - start) * TIME_ONE_IN;
        lladd_atomic_count64(&n->redo_ns, ns);
        lladd_atomic_count64(&n->redone, TIME_ONE_IN);
    }
    return rc;
}

static bool counts(const struct ll_redo_worker *w, const struct ll_record *rec)
{
    const struct ll_core *core = w->core;
    if (!ll_redo_index_counts(rec) || (w->part && !ll_redo_index_in_pass(w->part, rec->page)))
        return false;
    const uint64_t *base = w->bases->count ? ll_hashmap_find(w->bases, rec->page) : NULL;
    if (base && rec->lsn.v < *base)
        return false;
    return core->n_barriers == 0 || ll_redo_barrier_of(core, rec->page).v <= rec->lsn.v;
}

/* Returns a bit for each record of the batch that this worker must apply (`counts`). Prefetches
 * what redo needs of the pages of these records. */
static uint32_t look_at(struct ll_redo_worker *w, const struct ll_log_batch *batch)
{
    uint32_t which = 0;
    for (uint32_t i = 0; i < batch->n; i++) {
        const struct ll_record *rec = &batch->record[i];
        if (!counts(w, rec))
            continue;
        which |= UINT32_C(1) << i;
        ll_core_expect(w->core, rec, ll_redo_index_payload(rec));
        if (!rewrites(rec))
            ll_buffer_prefetch(w->core->buffer, lladd_page_of(rec->page), 1);
    }
    return which;
}

/* w->at becomes the LSN of the last record. If the page of a record cannot be fixed, only the
 * records before this record are applied, and the call fails with w->at at this record. But if
 * there is no frame while this worker holds frames, *n becomes the number of the records before:
 * their pages are released, so the worker can go on. */
static int redo_some(struct ll_redo_worker *w, const struct ll_record *records, unsigned *n,
                     uint32_t which, bool timed)
{
    struct held h;
    struct held_page *page[LL_LOG_BATCH];
    unsigned fixed = 0;
    int rc = 0, failed = 0;
    h.n = 0;
    memset(h.place, 0, sizeof h.place);
    for (; fixed < *n; fixed++) {
        page[fixed] = NULL;
        if ((which >> fixed & 1) && (failed = hold(w, &h, &records[fixed], &page[fixed])) != 0)
            break;
    }
    for (unsigned i = 0; !rc && i < fixed; i++) {
        w->at = records[i].lsn.v;
        if (page[i])
            rc = timed ? timed_redo_held(w, &records[i], page[i])
                       : redo_held(w, &records[i], page[i]);
    }
    for (unsigned i = 0; i < h.n; i++)
        ll_buffer_unfix(w->core->buffer, h.page[i].frame, LL_FIX_EXCLUSIVE);
    if (failed == LLADD_NO_FRAME && h.n > 0) {
        *n = fixed;
        failed = 0;
    }
    if (!rc && failed) {
        w->at = records[fixed].lsn.v;
        rc = failed;
    }
    return rc;
}

static int redo_batch(struct ll_redo_worker *w, const struct ll_log_batch *batch, bool timed)
{
    uint32_t which = look_at(w, batch);
    int rc = 0;
    for (uint32_t i = 0, n; !rc && i < batch->n; i += n) {
        n = batch->n - i < w->together ? batch->n - i : w->together;
        rc = redo_some(w, batch->record + i, &n, which >> i, timed);
    }
    return rc;
}

/* ---- the log, from the redo point to its end --------------------------------------------- */

static void report(const struct ll_redo_worker *w, lladd_lsn at)
{
    struct ll_core *core = w->core;
    if (w->share.index != 0 || !core->progress)
        return;
    /* `to` is the end of the records; after a crash the log continues at a higher LSN. */
    uint64_t from = core->control.redo.v, to = ll_log_scan_end(core->log).v;
    ll_core_progress(core, LLADD_PHASE_REDO, at,
                     at.v < to ? (unsigned)((at.v - from) * 100 / (to - from)) : 100);
}

static int first_batch(struct ll_redo_worker *w, struct ll_log_cursor *cursor,
                       struct ll_log_batch *batch)
{
    struct ll_core *core = w->core;
    struct ll_record *rec = &batch->record[0];
    w->at = core->control.redo.v;
    int rc = ll_log_cursor_begin(cursor, core->control.redo, rec, &w->err);
    if (rc)
        return rc;
    batch->passed = 1;
    batch->end = lladd_lsn_of(rec->lsn.v + rec->size);
    batch->n = ll_log_share_has(w->share, rec);
    return 0;
}

static int redo_share(struct ll_redo_worker *w, struct ll_log_cursor *cursor)
{
    struct ll_log_batch batch;
    uint64_t batches = 0, told = 0;
    int rc = first_batch(w, cursor, &batch);
    while (!rc) {
        w->seen += batch.passed;
        rc = redo_batch(w, &batch, ++batches % TIME_ONE_IN == 0);
        if (rc)
            break;
        w->at = batch.end.v;
        if (w->at > lladd_atomic_load64(w->stop))
            break;
        if (w->seen - told > 0x4000) {
            told = w->seen;
            report(w, lladd_lsn_of(w->at));
        }
        rc = ll_log_cursor_batch(cursor, w->share, LL_LOG_BATCH, &batch, &w->err);
        if (rc)
            w->at = w->err.lsn.v > w->at ? w->err.lsn.v : w->at;
    }
    return rc == LLADD_END ? 0 : rc;
}

static void *worker(void *arg)
{
    struct ll_redo_worker *w = arg;
    struct ll_log_cursor *cursor;
    int rc = ll_log_cursor_open(w->core->log, &cursor);
    if (rc) {
        w->at = 0;
        rc = ll_fail(&w->err, rc, "out of memory in redo");
    } else {
        rc = redo_share(w, cursor);
        ll_log_cursor_close(cursor);
    }
    w->rc = rc;
    uint64_t lowest = lladd_atomic_load64(w->stop);
    while (rc && w->at < lowest && !lladd_atomic_cas64(w->stop, &lowest, w->at)) {
    }
    return NULL;
}

/* All workers together latch at most this number of pages: half of the cache, at least one page. */
static uint64_t most_latched(const struct ll_core *core)
{
    struct ll_buffer_stats s;
    ll_buffer_stats(core->buffer, &s);
    return s.frames < 2 ? 1 : s.frames / 2;
}

static unsigned most_together(const struct ll_core *core, unsigned workers)
{
    uint64_t each = most_latched(core) / workers;
    return each < LL_LOG_BATCH ? (unsigned)each : LL_LOG_BATCH;
}

static int run(struct ll_core *core, struct ll_redo_worker *workers, unsigned n,
               const struct ll_redo *r, struct lladd_error *err)
{
    uint64_t stop = UINT64_MAX;
    unsigned together = most_together(core, n);
    for (unsigned i = 0; i < n; i++) {
        struct ll_redo_worker *w = &workers[i];
        w->core = core;
        w->part = r->part;
        w->bases = r->bases;
        w->share = (struct ll_log_share){i, n};
        w->stop = &stop;
        w->together = together;
        ll_hashmap_init(&w->baseless, &core->env);
    }
    for (unsigned i = LLADD_PLANTED(LLADD_BUG_SHARE) ? 2 : 1; i < n; i++)
        if (!core->env.threads || lladd_thread_start(&workers[i].thread, worker, &workers[i]))
            worker(&workers[i]); /* without a thread, this thread does the share */
    worker(&workers[0]);
    const struct ll_redo_worker *first = NULL;
    for (unsigned i = 0; i < n; i++) {
        const struct ll_redo_worker *w = &workers[i];
        if (workers[i].thread.started)
            lladd_thread_join(&workers[i].thread);
        if (w->rc && (!first || w->at < first->at))
            first = w;
    }
    if (first && err)
        *err = first->err;
    return first ? first->rc : 0;
}

/* Starting a thread takes longer than redo of a short log, and asking the system for the number of
 * processors takes longer than opening a small database. */
static unsigned wanted_shares(const struct ll_core *core)
{
    enum { SHORT = 4 << 20, MOST = 8 };
    if (core->redo_threads)
        return core->redo_threads;
    if (!core->env.threads || ll_log_tail(core->log).v - core->control.redo.v < SHORT)
        return 1;
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > MOST ? MOST : (unsigned)n;
}

/* Each worker latches at least one page. */
static unsigned shares(const struct ll_core *core)
{
    unsigned want = wanted_shares(core);
    uint64_t most = want > 1 ? most_latched(core) : 1;
    return want < most ? want : (unsigned)most;
}

int ll_redo_drop(struct ll_core *core, uint64_t page, struct lladd_error *err)
{
    int rc = ll_buffer_drop(core->buffer, lladd_page_of(page), 1);
    if (!rc || ll_core_check(core, err))
        return rc;
    return ll_fail_page(err, rc, lladd_page_of(page), "page %llu cannot be dropped in redo",
                        (unsigned long long)page);
}

/* From now on, a fetch of a page without a base fails (page_recovery.c). */
static int refuse_fetches(struct ll_core *core, struct ll_hashmap *baseless,
                          struct lladd_error *err)
{
    size_t at = 0;
    uint64_t page, lsn;
    int rc = 0;
    while (!rc && ll_hashmap_next(baseless, &at, &page, &lsn))
        rc = ll_redo_drop(core, page, err);
    core->baseless = baseless;
    return rc;
}

static int redo_by(struct ll_core *core, unsigned n, struct ll_redo *out, struct lladd_error *err)
{
    struct ll_redo_worker *workers = ll_alloc_zero(&core->env, n * sizeof *workers);
    if (!workers)
        return ll_fail(err, LLADD_NO_MEMORY, "out of memory in redo");
    core->baseless = NULL;
    lladd_atomic_store32(&core->redoing, 1);
    int rc = run(core, workers, n, out, err);
    lladd_atomic_store32(&core->redoing, 0);
    for (unsigned i = 0; i < n; i++) {
        struct ll_redo_worker *w = &workers[i];
        size_t at = 0;
        uint64_t page, lsn;
        out->redone += w->redone;
        out->seen = w->seen > out->seen ? w->seen : out->seen;
        while (!rc && ll_hashmap_next(&w->baseless, &at, &page, &lsn))
            if (ll_hashmap_put(&out->baseless, page, lsn))
                rc = ll_fail(err, LLADD_NO_MEMORY, "out of memory in redo");
        ll_hashmap_free(&w->baseless);
    }
    ll_free(&core->env, workers);
    return rc;
}

int ll_redo(struct ll_core *core, struct ll_redo *out, struct lladd_error *err)
{
    struct lladd_error why = LLADD_ERROR_INIT;
    unsigned n = shares(core);
    int rc = redo_by(core, n, out, &why);
    /* With reserved address space the budget may afford fewer pages than the cache has frames, and
     * the other workers may have held all pages. One worker needs one page at a time. It redoes
     * everything again, as after a crash in redo. */
    if (rc == LLADD_NO_FRAME && n > 1)
        rc = redo_by(core, 1, out, &why);
    if (rc && err)
        *err = why;
    if (!rc)
        rc = refuse_fetches(core, &out->baseless, err);
    if (!rc)
        ll_core_trace(core,
                      "redo: from %llu, %llu records read, %llu applied, %llu pages "
                      "without a base",
                      (unsigned long long)core->control.redo.v, (unsigned long long)out->seen,
                      (unsigned long long)out->redone, (unsigned long long)out->baseless.count);
    return rc;
}

int ll_redo_refuse(struct ll_core *core, uint64_t page, uint64_t lsn, struct lladd_error *err)
{
    if (core->unread.code) {
        if (err)
            *err = core->unread;
        return core->unread.code;
    }
    bool why = core->refused.page.v == page && *core->refused.message;
    bool unread = (lsn & LL_REDO_UNREAD) != 0;
    lsn &= ~(uint64_t)LL_REDO_ALONE;
    int rc = ll_fail_page(err, unread ? LLADD_READ_FAILED : LLADD_CORRUPT_PAGE, lladd_page_of(page),
                          "page %llu of \"pages\" %s: it has no base for the record at LSN %llu, "
                          "and the log from LSN %llu on holds no image to rebuild it from%s%.80s",
                          (unsigned long long)page,
                          unread ? "cannot be read" : "is damaged, or a write was lost",
                          (unsigned long long)lsn, (unsigned long long)ll_log_oldest(core->log).v,
                          why ? "; " : "", why ? core->refused.message : "");
    if (err)
        err->lsn = lladd_lsn_of(lsn);
    return rc;
}

/* After undo: fails if a page without a base is in use. */
int ll_redo_baseless(struct ll_core *core, const struct ll_redo *r, struct lladd_error *err)
{
    size_t at = 0;
    uint64_t page, lsn, worst = 0, first = UINT64_MAX;
    while (ll_hashmap_next(&r->baseless, &at, &page, &lsn)) {
        bool used = true;
        int rc = core->is_allocated ? core->is_allocated(core, lladd_page_of(page), &used, err) : 0;
        if (rc)
            return rc;
        if (used && lsn < first) {
            first = lsn;
            worst = page;
        }
    }
    return first == UINT64_MAX ? 0 : ll_redo_refuse(core, worst, first, err);
}
