/* SPDX-License-Identifier: BSD-2-Clause */
/* Redo: repeats history, page by page.
 *
 * Redo of one page depends on nothing but that page and the log (OP-4), so the pages are dealt out
 * to workers by a hash of their number, each with a cursor of its own over the same log: no queue,
 * no order to keep between workers. A record is applied iff the page is exactly where the record
 * found it (page LSN = page_prev, BUF-6); a page that is further on has it already; anything else
 * is damage and said so.
 *
 * A page that fails verification here is torn or rotten: it has no base, its records are skipped
 * until an image or a format record gives it one (BUF-5). What is left without a base at the end
 * matters only if the allocator says the page is in use. Pages visited are marked dirty even if
 * nothing was applied (REC-4): what was read may be in no more than a cache of the system. */
#include "recovery/redo.h"

#include <string.h>

#define TIME_ONE_IN 64u

static int apply_bytes(struct ll_core *core, const struct ll_record *rec, struct lladd_page *page,
                       struct lladd_error *err)
{
    struct ll_name *name = ll_catalogue_by_number(core, rec->op);
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
        ll_page_set_number(page->bytes, page->number.v);
        ll_page_set_type(page->bytes, name->page_type ? (uint16_t)name->page_type->number : 0);
    }
    struct lladd_view view = ll_view_of(page);
    bool typed = name->page_type ? view.type == name->page_type->number : view.type != 0;
    if (!typed || (clr ? !op->undo : !op->redo) ||
        (op->validate && !op->validate(view, clr ? LLADD_SPAN_UNDO : LLADD_SPAN_REDO, bytes))) {
        rc = ll_fail_lsn(err, LLADD_BAD_RECORD, rec->lsn,
                         "LSN %llu: %s bytes of \"%s\" do not fit page %llu",
                         (unsigned long long)rec->lsn.v, clr ? "undo" : "redo", op->name,
                         (unsigned long long)rec->page);
        if (err)
            err->page = page->number;
        return rc;
    }
    if (clr)
        op->undo(page, bytes);
    else
        op->redo(page, bytes);
    ll_page_set_lsn(page->bytes, rec->lsn);
    if (rec->flags & LL_REC_FORMATS)
        ll_page_set_base(page->bytes, rec->lsn);
    return 0;
}

static bool never_formatted(const unsigned char *page)
{
    return ll_page_lsn(page).v == 0 && ll_page_type(page) == 0;
}

int ll_redo_record(struct ll_core *core, const struct ll_record *rec, struct lladd_page *page,
                   bool baseless, struct lladd_error *err)
{
    lladd_lsn at = ll_page_lsn(page->bytes);
    bool base = rec->kind == LL_REC_IMAGE || (rec->flags & LL_REC_FORMATS);
    if (!baseless && at.v >= rec->lsn.v && !LLADD_PLANTED(LLADD_BUG_REDO_TWICE))
        return LLADD_EXISTS;
    if (rec->kind == LL_REC_CLR && LLADD_PLANTED(LLADD_BUG_REDO_CLR))
        return LLADD_EXISTS;
    if (rec->kind == LL_REC_IMAGE)
        return ll_image_apply(core, rec, page->bytes, err);
    if (!base) {
        if (baseless || (never_formatted(page->bytes) && rec->page_prev.v != 0))
            return LLADD_NOT_FOUND;
        if (LL_UNLIKELY(at.v != rec->page_prev.v) && !LLADD_PLANTED(LLADD_BUG_REDO_TWICE)) {
            int rc =
                ll_fail_lsn(err, LLADD_CORRUPT_PAGE, rec->lsn,
                            "page %llu of \"pages\" has LSN %llu, but the record at LSN %llu "
                            "found it at %llu: a write was lost or the file is from elsewhere",
                            (unsigned long long)rec->page, (unsigned long long)at.v,
                            (unsigned long long)rec->lsn.v, (unsigned long long)rec->page_prev.v);
            if (err)
                err->page = page->number;
            return rc;
        }
    }
    return apply_bytes(core, rec, page, err);
}

static uint64_t page_hash(uint64_t page)
{
    return (page * 0x9e3779b97f4a7c15ull) >> 40;
}

static int redo_one(struct ll_redo_worker *w, const struct ll_record *rec)
{
    struct ll_core *core = w->core;
    struct ll_frame *f;
    unsigned how = LL_FIX_EXCLUSIVE | LL_FIX_REDO;
    int rc = ll_buffer_fix(core->buffer, lladd_page_of(rec->page), how, &f, &w->err);
    if (rc)
        return rc;
    rc = ll_redo_record(core, rec, &f->page, f->flags & LL_FRAME_BASELESS, &w->err);
    ll_observe_redo(core, rec, rc);
    if (rc == 0) {
        bool base = rec->kind == LL_REC_IMAGE || (rec->flags & LL_REC_FORMATS);
        w->redone++;
        f->flags &= ~(uint32_t)LL_FRAME_BASELESS;
        if (base && w->baseless.count)
            ll_map_remove(&w->baseless, rec->page);
    }
    if (rc == 0 || rc == LLADD_EXISTS) {
        if (lladd_atomic_load64_relaxed(&f->rec_lsn) == 0)
            ll_buffer_dirty(core->buffer, f, rec->lsn);
        rc = 0;
    } else if (rc == LLADD_NOT_FOUND) {
        rc = ll_map_put(&w->baseless, rec->page, rec->lsn.v);
        if (rc)
            ll_fail(&w->err, rc, "out of memory in redo");
    }
    ll_buffer_unfix(core->buffer, f, LL_FIX_EXCLUSIVE);
    return rc;
}

static bool is_mine(const struct ll_redo_worker *w, const struct ll_record *rec)
{
    if (rec->kind != LL_REC_UPDATE && rec->kind != LL_REC_CLR && rec->kind != LL_REC_IMAGE)
        return false;
    if (rec->page == LLADD_NO_PAGE)
        return false;
    if (w->n > 1 && page_hash(rec->page) % w->n != w->index)
        return false;
    return w->core->n_fences == 0 || ll_fence_of(w->core, rec->page).v <= rec->lsn.v;
}

static void report(struct ll_redo_worker *w, const struct ll_record *rec)
{
    struct ll_core *core = w->core;
    if (w->index != 0 || !core->progress || (w->seen & 0x3fff) != 0)
        return;
    uint64_t from = core->control.redo.v, to = ll_log_tail(core->log).v;
    core->progress(core->callback_ctx, LLADD_PHASE_REDO, rec->lsn,
                   to > from ? (unsigned)((rec->lsn.v - from) * 100 / (to - from)) : 100);
}

static int timed_redo_one(struct ll_redo_worker *w, const struct ll_record *rec)
{
    struct ll_name *n = ll_catalogue_by_number(w->core, rec->op);
    uint64_t start = ll_now_ns(&w->core->env);
    int rc = redo_one(w, rec);
    if (n) {
        uint64_t ns = (ll_now_ns(&w->core->env) - start) * TIME_ONE_IN;
        lladd_atomic_count64(&n->redo_ns, ns);
        lladd_atomic_count64(&n->redone, TIME_ONE_IN);
    }
    return rc;
}

static void *worker(void *arg)
{
    struct ll_redo_worker *w = arg;
    struct ll_core *core = w->core;
    struct ll_log_cursor *cursor;
    struct ll_record rec;
    int rc = ll_log_cursor_open(core->log, &cursor);
    if (rc) {
        w->rc = ll_fail(&w->err, rc, "out of memory in redo");
        lladd_atomic_store32(w->stop, 1);
        return NULL;
    }
    /* Exactly there: a search would pass over a damaged record. Only a cut tail has no record. */
    rc = ll_log_cursor_read(cursor, core->control.redo, &rec, &w->err);
    if (rc == LLADD_OUT_OF_RANGE)
        rc = ll_log_cursor_seek(cursor, core->control.redo, &rec, &w->err);
    for (; !rc;
         rc = ll_log_cursor_next(cursor, &rec, &w->err)) {
        w->seen++;
        if (is_mine(w, &rec))
            rc = w->seen % TIME_ONE_IN ? redo_one(w, &rec) : timed_redo_one(w, &rec);
        if (rc || ((w->seen & 0xff) == 0 && lladd_atomic_load32(w->stop)))
            break;
        report(w, &rec);
    }
    ll_log_cursor_close(cursor);
    w->rc = rc == LLADD_END ? 0 : rc;
    if (w->rc)
        lladd_atomic_store32(w->stop, 1);
    return NULL;
}

static int run(struct ll_core *core, struct ll_redo_worker *workers, unsigned n,
               struct lladd_error *err)
{
    uint32_t stop = 0;
    for (unsigned i = 0; i < n; i++) {
        struct ll_redo_worker *w = &workers[i];
        w->core = core;
        w->index = i;
        w->n = n;
        w->stop = &stop;
        ll_map_init(&w->baseless, &core->env);
    }
    for (unsigned i = 1; i < n; i++)
        if (lladd_thread_start(&workers[i].thread, worker, &workers[i]))
            worker(&workers[i]); /* no thread to be had: its share is done here */
    worker(&workers[0]);
    int rc = 0;
    for (unsigned i = 0; i < n; i++) {
        if (workers[i].thread.started)
            lladd_thread_join(&workers[i].thread);
        if (workers[i].rc && !rc) {
            rc = workers[i].rc;
            if (err)
                *err = workers[i].err;
        }
    }
    return rc;
}

int ll_redo(struct ll_core *core, struct ll_redo *out, struct lladd_error *err)
{
    unsigned n = core->env.threads && core->redo_threads ? core->redo_threads : 1;
    /* A thread costs more than a short log. */
    if (ll_log_tail(core->log).v - core->control.redo.v < (4u << 20))
        n = 1;
    struct ll_redo_worker *workers = ll_alloc_zero(&core->env, n * sizeof *workers);
    if (!workers)
        return ll_fail(err, LLADD_NO_MEMORY, "out of memory in redo");
    int rc = run(core, workers, n, err);
    for (unsigned i = 0; i < n; i++) {
        struct ll_redo_worker *w = &workers[i];
        size_t at = 0;
        uint64_t page, lsn;
        out->redone += w->redone;
        out->seen = w->seen > out->seen ? w->seen : out->seen;
        while (!rc && ll_map_next(&w->baseless, &at, &page, &lsn))
            if (ll_map_put(&out->baseless, page, lsn))
                rc = ll_fail(err, LLADD_NO_MEMORY, "out of memory in redo");
        ll_map_free(&w->baseless);
    }
    ll_free(&core->env, workers);
    if (!rc)
        ll_core_transcript(core,
                           "redo: from %llu, %llu records read, %llu applied, %llu pages "
                           "without a base",
                           (unsigned long long)core->control.redo.v, (unsigned long long)out->seen,
                           (unsigned long long)out->redone,
                           (unsigned long long)out->baseless.count);
    return rc;
}

/* After undo: a page without a base matters if it is in use. */
int ll_redo_baseless(struct ll_core *core, const struct ll_redo *r, struct lladd_error *err)
{
    size_t at = 0;
    uint64_t page, lsn;
    while (ll_map_next(&r->baseless, &at, &page, &lsn)) {
        bool used = true;
        int rc = core->is_allocated ? core->is_allocated(core, lladd_page_of(page), &used, err) : 0;
        if (rc)
            return rc;
        if (used)
            return ll_fail_page(err, LLADD_CORRUPT_PAGE, lladd_page_of(page),
                                "page %llu of \"pages\" is damaged, and the log from LSN %llu on "
                                "holds no image to rebuild it from",
                                (unsigned long long)page,
                                (unsigned long long)ll_log_oldest(core->log).v);
    }
    return 0;
}

/* ---- one page, online (BUF-2) ------------------------------------------------------------ */

int ll_repair_page(void *ctx, lladd_pageno number, unsigned char *bytes, lladd_lsn *rec_lsn,
                   struct lladd_error *err)
{
    struct ll_core *core = ctx;
    struct lladd_page page = {bytes, core->page_size, 0, number};
    struct lladd_error why = err ? *err : (struct lladd_error)LLADD_ERROR_INIT;
    struct lladd_error mine = LLADD_ERROR_INIT;
    struct ll_log_cursor *cursor;
    struct ll_record rec;
    bool baseless = true;
    int rc = ll_log_cursor_open(core->log, &cursor);
    if (rc)
        return ll_fail(err, rc, "out of memory for a repair");
    memset(bytes, 0, core->page_size);
    for (rc = ll_log_cursor_seek(cursor, ll_log_oldest(core->log), &rec, &mine); !rc;
         rc = ll_log_cursor_next(cursor, &rec, &mine)) {
        if (rec.page != number.v ||
            (rec.kind != LL_REC_UPDATE && rec.kind != LL_REC_CLR && rec.kind != LL_REC_IMAGE))
            continue;
        if (ll_fence_of_locked(core, number.v).v > rec.lsn.v)
            continue;
        rc = ll_redo_record(core, &rec, &page, baseless, &mine);
        ll_observe_redo(core, &rec, rc);
        if (rc == 0 && baseless) {
            baseless = false;
            *rec_lsn = rec.lsn;
        }
        if (rc == LLADD_EXISTS || rc == LLADD_NOT_FOUND)
            rc = 0;
        if (rc)
            break;
    }
    ll_log_cursor_close(cursor);
    if (rc != LLADD_END || baseless) {
        if (rc == LLADD_END || rc == 0)
            return ll_fail_page(err, LLADD_CORRUPT_PAGE, number,
                                "%.150s; the log holds no image to rebuild it from", why.message);
        if (err)
            *err = mine;
        return rc;
    }
    return 0;
}
