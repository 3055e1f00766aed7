/* SPDX-License-Identifier: BSD-2-Clause */
/* Instant recovery (docs/decisions/instant-recovery.md): open does not wait for the redo of most
 * pages. A page is redone when it is first fetched, or in a step in the background.
 *
 * Instead of redo, recovery builds an index of the records that each page needs (redo_index.h). The
 * buffer manager asks for pending redo of each page that it loads, and the page is redone before
 * its frame becomes visible. Redo of a cached page is therefore never pending, and hits and
 * optimistic reads need no check.
 *
 * A step fixes and unfixes the next page of the index; the records of several pages are read
 * together, in the order of the log (log_prefetch.h). A checkpoint first takes all remaining steps,
 * so the log that redo needs is not truncated. After a crash before the checkpoint, redo starts at
 * the same LSN.
 *
 * The index and the prefetched records share `recovery_bytes`. Pages for which the index has no
 * room are redone in a pass over the log before open goes on. So are the pages that undo will
 * fetch, if they have many records to redo.
 *
 * A page leaves the index when it has been redone, or when it gets new contents: it is formatted,
 * dropped, or gets a redo barrier. A page that is formatted leaves when the format record is logged
 * (BUF-4). If redo of a page fails, the page stays in the index, and the next fetch tries again. If
 * the page is free, a step removes it from the index.
 *
 * Threads: `mutex` guards the index and is held for a lookup. A thread that redoes a page holds the
 * page's frame and one of a few cursors. The memory of the cursors is allocated at open, so that a
 * rollback that fetches a page needs no memory (REC-3). The index is freed when it is empty and no
 * thread walks over it. */
#include "recovery/restart_instant.h"

#include "recovery/log_prefetch.h"
#include "recovery/redo.h"
#include "recovery/redo_index.h"

#include <stdlib.h>
#include <string.h>

enum {
    CURSORS = 3, /* most pages that are redone concurrently */
    /* reading a record out of order takes as long as scanning this many bytes */
    RANDOM_READ = 16 << 10,
    PASS_LEAST = 1 << 20, /* setting up a pass takes as long as scanning this many bytes */
    INSTANT_RANK_STEPS = LLADD_RANK_CHECKPOINT + 10,
    INSTANT_RANK_INDEX = LLADD_RANK_LOG - 10 /* cursors are closed under it */
};

struct ll_instant {
    struct ll_core *core;
    uint64_t left; /* atomic: pages in the index; changed under `mutex` */
    struct lladd_mutex mutex;
    struct lladd_cond changed; /* a cursor is free, a reader has left, or a step has ended */
    struct ll_redo_index index;
    uint32_t walkers; /* threads that use the index without the mutex; the index is not freed while
                       * there are such threads */
    struct ll_log_cursor *cursors[CURSORS];
    unsigned free_cursors;
    uint64_t stepping;               /* the page of the current step, or LLADD_NO_PAGE */
    bool filling;                    /* a step is changing `prefetch`: new walkers do not use it */
    uint32_t readers;                /* walkers that use `prefetch` */
    struct ll_log_prefetch prefetch; /* changed only while `filling` and without readers */
    struct lladd_mutex steps;        /* one step at a time; guards the fields that follow */
    struct ll_log_cursor *prefetch_cursor; /* NULL: no memory for it */
    size_t prefetch_end; /* index in `order`; the records of the pages before this index were
                          * prefetched */
    struct ll_vec order; /* the pages that were in the index at the beginning, ascending; freed
                          * under both mutexes */
    size_t next;
    struct lladd_error refused; /* first error of this round */
};

/* ---- life -------------------------------------------------------------------------------- */

/* Under the mutex, or while no other thread runs. */
static void count_memory(struct ll_instant *in)
{
    struct ll_core *core = in->core;
    uint64_t bytes = ll_redo_index_bytes(&in->index) + ll_log_prefetch_bytes(&in->prefetch);
    lladd_atomic_store64(&core->recovery_memory, bytes);
    lladd_atomic_max64(&core->recovery_memory_most, bytes);
}

static void free_index(struct ll_instant *in)
{
    ll_redo_index_free(&in->index);
    count_memory(in);
    for (unsigned i = 0; i < in->free_cursors; i++)
        ll_log_cursor_close(in->cursors[i]);
    in->free_cursors = 0;
}

void ll_instant_free(struct ll_core *core)
{
    struct ll_instant *in = core->instant;
    if (!in)
        return;
    core->instant = NULL;
    free_index(in);
    ll_vec_free(&in->order);
    ll_log_prefetch_free(&in->prefetch);
    ll_log_cursor_close(in->prefetch_cursor);
    lladd_cond_destroy(&in->changed);
    lladd_mutex_destroy(&in->steps);
    lladd_mutex_destroy(&in->mutex);
    ll_free(&core->env, in);
}

static struct ll_instant *new_instant(struct ll_core *core)
{
    struct ll_instant *in = ll_alloc_zero(&core->env, sizeof *in);
    if (!in)
        return NULL;
    if (lladd_mutex_init(&in->mutex, INSTANT_RANK_INDEX, "redo index") ||
        lladd_mutex_init(&in->steps, INSTANT_RANK_STEPS, "redo in steps") ||
        lladd_cond_init(&in->changed)) {
        ll_free(&core->env, in);
        return NULL;
    }
    in->core = core;
    in->stepping = LLADD_NO_PAGE;
    ll_redo_index_init(&in->index, &core->env, core->control.redo, 0);
    ll_vec_init(&in->order, &core->env, sizeof(uint64_t));
    ll_log_prefetch_init(&in->prefetch, &core->env);
    return in;
}

/* Adds the records from the start of redo to the checkpoint, which analysis has not read. */
static int read_older(struct ll_core *core, struct ll_redo_index *b, struct lladd_error *err)
{
    lladd_lsn from = core->control.redo, to = core->control.checkpoint;
    struct ll_log_cursor *cursor;
    struct ll_record rec;
    if (from.v >= to.v)
        return 0;
    int rc = ll_log_cursor_open(core->log, &cursor);
    if (rc)
        return ll_fail(err, rc, "out of memory in recovery");
    rc = ll_log_cursor_begin(cursor, from, &rec, err);
    for (uint64_t n = 1; !rc && rec.lsn.v < to.v; n++) {
        ll_redo_index_add(b, &rec, true);
        if (n % 0x1000 == 0)
            ll_core_progress(core, LLADD_PHASE_REDO, rec.lsn, 0);
        rc = ll_log_cursor_next(cursor, &rec, err);
    }
    ll_log_cursor_close(cursor);
    return rc == LLADD_END ? 0 : rc;
}

/* Makes `order`. Removes the pages with a redo barrier after their last record. False: no
 * memory. */
static bool put_in_order(struct ll_instant *in)
{
    struct ll_core *core = in->core;
    size_t at = 0, kept = 0;
    uint64_t page, ends;
    if (ll_vec_reserve(&in->order, in->index.pages.count))
        return false;
    while (ll_hashmap_next(&in->index.pages, &at, &page, &ends))
        if (ll_vec_append(&in->order, &page, 1))
            return false;
    uint64_t *pages = in->order.data;
    for (size_t i = 0; i < in->order.len; i++) {
        page = pages[i];
        if (ll_redo_index_newest(&in->index, page).v < ll_redo_barrier_of_locked(core, page).v)
            (void)ll_hashmap_remove(&in->index.pages, page);
        else
            pages[kept++] = page;
    }
    ll_vec_truncate(&in->order, kept);
    if (kept)
        qsort(pages, kept, sizeof *pages, ll_by_key);
    return true;
}

static bool get_cursors(struct ll_instant *in)
{
    while (in->free_cursors < CURSORS) {
        struct ll_log_cursor **c = &in->cursors[in->free_cursors];
        if (ll_log_cursor_open(in->core->log, c))
            return false;
        in->free_cursors++;
        if (ll_log_cursor_prepare(*c, in->index.record_max))
            return false;
    }
    return true;
}

/* Redoes all pages, or those of ll_redo_index_in_pass. Sets `left` to 0, so that no fix redoes a
 * page meanwhile. The caller must set `left` again before ll_redo_rebuild, which reads the
 * allocation bitmap: redo of the bitmap may be pending. */
static int redo_now(struct ll_instant *in, bool all, struct ll_redo *r, struct lladd_error *err)
{
    struct ll_core *core = in->core;
    uint64_t before = r->redone;
    if (LLADD_PLANTED(LLADD_BUG_EARLY))
        return 0;
    lladd_atomic_store64(&in->left, 0);
    r->part = all ? NULL : &in->index;
    int rc = ll_redo(core, r, err);
    r->part = NULL;
    core->recovered_early += r->redone - before;
    (void)lladd_atomic_add64(&core->recovered_redone, r->redone - before);
    return rc;
}

static void share_memory(struct ll_instant *in)
{
    uint64_t budget = in->core->recovery_bytes, used = ll_redo_index_bytes(&in->index);
    in->prefetch.most = used < budget ? budget - used : 0;
    in->prefetch.payload = in->index.seen ? in->index.payload / in->index.seen + 1 : 0;
    count_memory(in);
}

int ll_instant_begin(struct ll_core *core, struct ll_analysis *a, struct ll_redo *r, bool *begun,
                     struct lladd_error *err)
{
    struct ll_buffer_stats cached;
    *begun = false;
    ll_buffer_stats(core->buffer, &cached);
    struct ll_instant *in = a->pending.lost || cached.frames_used ? NULL : new_instant(core);
    if (!in)
        return 0;
    core->instant = in;
    in->index = a->pending;
    ll_redo_index_init(&a->pending, &core->env, core->control.redo, 0);
    int rc = read_older(core, &in->index, err);
    ll_redo_index_join(&in->index);
    bool ready = !rc && !in->index.lost && put_in_order(in);
    if (ready && in->order.len)
        ready = get_cursors(in) && ll_buffer_include(core->buffer, in->index.page_max);
    if (!ready) {
        ll_instant_free(core);
        return rc == LLADD_NO_MEMORY ? 0 : rc;
    }
    core->recovered_records = in->index.seen;
    share_memory(in);
    *begun = true;
    ll_core_trace(core, "redo: from %llu, when pages are fetched: %llu records, %llu pages%s",
                  (unsigned long long)core->control.redo.v,
                  (unsigned long long)core->recovered_records, (unsigned long long)in->order.len,
                  ll_redo_index_is_part(&in->index) ? ", others now for lack of memory" : "");
    rc = ll_redo_index_is_part(&in->index) ? redo_now(in, false, r, err) : 0;
    lladd_atomic_store64(&in->left, in->order.len);
    if (!in->order.len)
        free_index(in);
    return rc ? rc : ll_redo_rebuild(core, r, err);
}

uint64_t ll_instant_left(const struct ll_core *core)
{
    return core->instant ? lladd_atomic_load64(&core->instant->left) : 0;
}

/* ---- the index --------------------------------------------------------------------------- */

/* Under the mutex. */
static void take_off(struct ll_instant *in, uint64_t page)
{
    if (!ll_hashmap_remove(&in->index.pages, page))
        return;
    lladd_atomic_store64(&in->left, in->index.pages.count);
    if (in->index.pages.count == 0 && in->walkers == 0)
        free_index(in);
}

/* Begins a walk over the page's records. Returns a cursor, or NULL if no redo of the page is
 * pending. *prefetched: the walk may use `prefetch`. */
static struct ll_log_cursor *begin_walk(struct ll_instant *in, uint64_t page,
                                        struct ll_redo_index_walk *w, bool *prefetched)
{
    struct ll_log_cursor *cursor = NULL;
    lladd_mutex_lock(&in->mutex);
    while (ll_redo_index_find(&in->index, page, w) && in->free_cursors == 0)
        lladd_cond_wait(&in->changed, &in->mutex);
    if (ll_redo_index_find(&in->index, page, w)) {
        cursor = in->cursors[--in->free_cursors];
        in->walkers++;
        *prefetched = !in->filling;
        in->readers += *prefetched;
    }
    lladd_mutex_unlock(&in->mutex);
    return cursor;
}

static void end_walk(struct ll_instant *in, struct ll_log_cursor *cursor, bool prefetched)
{
    lladd_mutex_lock(&in->mutex);
    in->cursors[in->free_cursors++] = cursor;
    in->walkers--;
    in->readers -= prefetched;
    if (in->index.pages.count == 0 && in->walkers == 0)
        free_index(in);
    lladd_cond_broadcast(&in->changed);
    lladd_mutex_unlock(&in->mutex);
}

bool ll_instant_is_pending(struct ll_core *core, lladd_pageno page, bool *base)
{
    struct ll_redo_index_walk w;
    if (LL_LIKELY(ll_instant_left(core) == 0))
        return false;
    lladd_mutex_lock(&core->instant->mutex);
    bool is = ll_redo_index_find(&core->instant->index, page.v, &w);
    lladd_mutex_unlock(&core->instant->mutex);
    /* A base after the first record is not looked for here: redo of the page finds it. */
    *base = is && w.base && w.lsn.v >= ll_redo_barrier_of_locked(core, page.v).v;
    return is;
}

void ll_instant_redone(struct ll_core *core, lladd_pageno page)
{
    if (LL_LIKELY(ll_instant_left(core) == 0))
        return;
    lladd_mutex_lock(&core->instant->mutex);
    take_off(core->instant, page.v);
    lladd_mutex_unlock(&core->instant->mutex);
}

/* ---- pages that undo will fetch ---------------------------------------------------------- */

/* Skips records that are undone already. Also marks the pages of the records in a top action that
 * is undone logically, because the compensation will fetch about the same pages. Ends at a record
 * that is not valid; undo will report it. */
void ll_instant_expect(struct ll_core *core, struct ll_log_cursor *cursor,
                       const struct lladd_txn *txn)
{
    struct ll_instant *in = core->instant;
    struct ll_record rec;
    lladd_lsn at = txn->undo_next;
    for (uint64_t n = 1; at.v; n++) {
        if (ll_log_cursor_need(cursor, at, &rec, NULL) || rec.txn.v != txn->id.v ||
            rec.prev.v >= at.v || rec.undo_next.v >= at.v)
            return;
        if (ll_redo_index_counts(&rec))
            (void)ll_redo_index_mark(&in->index, rec.page);
        if (n % 0x1000 == 0)
            ll_core_progress(core, LLADD_PHASE_UNDO, at, 0);
        bool over = rec.kind != LL_REC_ACTION_END && ll_rollback_passes_over(&rec);
        at = over ? rec.undo_next : rec.prev;
    }
}

static bool is_worth_a_pass(const struct ll_instant *in)
{
    struct ll_core *core = in->core;
    uint64_t bytes = ll_log_tail(core->log).v - core->control.redo.v + PASS_LEAST;
    uint64_t enough = bytes / RANDOM_READ, n = 0;
    struct ll_redo_index_walk w;
    for (size_t i = 0; in->index.marked && i < in->order.len && n <= enough; i++) {
        uint64_t page = *(const uint64_t *)ll_vec_at(&in->order, i);
        bool more =
            ll_redo_index_in_pass(&in->index, page) && ll_redo_index_find(&in->index, page, &w);
        for (; more && n <= enough; n++)
            more = ll_redo_index_next(&in->index, &w);
    }
    return n > enough;
}

int ll_instant_redo_expected(struct ll_core *core, struct ll_redo *r, struct lladd_error *err)
{
    struct ll_instant *in = core->instant;
    if (!is_worth_a_pass(in))
        return 0;
    ll_core_trace(core, "redo: %llu pages that undo needs", (unsigned long long)in->index.marked);
    /* If few pages are not marked, redo of all pages costs less than a lookup of each page. */
    uint64_t pages = in->index.pages.count;
    bool all = !ll_redo_index_is_part(&in->index) && in->index.marked >= pages - pages / 8;
    int rc = redo_now(in, all, r, err);
    lladd_mutex_lock(&in->mutex);
    for (size_t i = 0; i < in->order.len; i++) {
        uint64_t page = *(const uint64_t *)ll_vec_at(&in->order, i);
        if (all || ll_redo_index_in_pass(&in->index, page))
            take_off(in, page);
    }
    lladd_atomic_store64(&in->left, in->index.pages.count);
    lladd_mutex_unlock(&in->mutex);
    return rc ? rc : ll_redo_rebuild(core, r, err);
}

/* ---- one page ---------------------------------------------------------------------------- */

/* Moves the walk to the first record to apply: skips what the page has, what is before the redo
 * barrier, and what is before the newest base. False: no record is left. */
static bool skip_known(const struct ll_redo_index *b, lladd_lsn barrier, lladd_lsn at,
                       bool baseless, struct ll_redo_index_walk *w)
{
    struct ll_redo_index_walk i = *w;
    bool found = false;
    do {
        if (i.lsn.v < barrier.v || (!baseless && i.lsn.v <= at.v))
            continue;
        if (!found || i.base)
            *w = i;
        found = true;
    } while (ll_redo_index_next(b, &i));
    return found;
}

/* Reads the page's record at an LSN that the index has. `prefetch` is nullable. */
static int read_record(const struct ll_log_prefetch *prefetch, struct ll_log_cursor *cursor,
                       lladd_lsn lsn, lladd_pageno page, struct ll_record *rec,
                       struct lladd_error *err)
{
    int rc = prefetch && ll_log_prefetch_find(prefetch, lsn, rec)
                 ? 0
                 : ll_log_cursor_need(cursor, lsn, rec, err);
    if (rc || (ll_redo_index_counts(rec) && rec->page == page.v))
        return rc;
    return ll_fail_lsn(err, LLADD_CORRUPT_LOG, lsn, "the record at LSN %llu is not about page %llu",
                       (unsigned long long)lsn.v, (unsigned long long)page.v);
}

int ll_instant_redo_page(struct ll_core *core, lladd_pageno number, unsigned char *bytes,
                         bool *baseless, lladd_lsn *since, struct lladd_error *err)
{
    struct ll_instant *in = core->instant;
    struct lladd_page page = {bytes, core->page_size, 0, number};
    lladd_lsn barrier = ll_redo_barrier_of_locked(core, number.v);
    struct ll_redo_index_walk w;
    struct ll_record rec;
    uint64_t applied = 0;
    bool prefetched = false;
    int rc = 0;
    struct ll_log_cursor *cursor = begin_walk(in, number.v, &w, &prefetched);
    if (!cursor)
        return 0;
    *since = w.lsn;
    bool more = skip_known(&in->index, barrier, ll_page_lsn(bytes), *baseless, &w);
    while (!rc && more) {
        rc = read_record(prefetched ? &in->prefetch : NULL, cursor, w.lsn, number, &rec, err);
        if (!rc) {
            rc = ll_redo_record(core, &rec, &page, *baseless, ll_redo_start_of(core, barrier), err);
            ll_observe_redo(core, &rec, rc);
        }
        applied += rc == 0;
        *baseless = rc == LLADD_NOT_FOUND || (rc && *baseless);
        if (rc == LLADD_NOT_FOUND || rc == LLADD_EXISTS)
            rc = 0;
        more = ll_redo_index_next(&in->index, &w);
    }
    end_walk(in, cursor, prefetched);
    if (applied == 0 && ll_redo_is_durable(core, bytes))
        *since = lladd_lsn_of(0); /* as in full redo (redo.c) */
    (void)lladd_atomic_add64(&core->recovered_redone, applied);
    return rc;
}

/* ---- all pages ---------------------------------------------------------------------------- */

/* Asks the prefetch for the page's records, from its newest base on. False: no room for all. */
static bool want_page(struct ll_instant *in, uint64_t page)
{
    struct ll_redo_index_walk w, first;
    lladd_mutex_lock(&in->mutex);
    bool is = ll_redo_index_find(&in->index, page, &w);
    lladd_mutex_unlock(&in->mutex);
    if (!is)
        return true;
    first = w;
    while (ll_redo_index_next(&in->index, &w))
        first = w.base ? w : first;
    do {
        if (!ll_log_prefetch_want(&in->prefetch, first.lsn))
            return false;
    } while (ll_redo_index_next(&in->index, &first));
    return true;
}

static void read_prefetch(struct ll_instant *in)
{
    lladd_mutex_lock(&in->mutex);
    in->filling = true;
    while (in->readers)
        lladd_cond_wait(&in->changed, &in->mutex);
    in->walkers++; /* keeps the index */
    lladd_mutex_unlock(&in->mutex);
    ll_log_prefetch_clear(&in->prefetch);
    in->prefetch_end = in->next;
    bool room = in->prefetch_cursor || !ll_log_cursor_open(in->core->log, &in->prefetch_cursor);
    while (room && in->prefetch_end < in->order.len)
        room = want_page(in, *(const uint64_t *)ll_vec_at(&in->order, in->prefetch_end++));
    if (in->prefetch_cursor)
        ll_log_prefetch_read(&in->prefetch, in->prefetch_cursor);
    lladd_mutex_lock(&in->mutex);
    count_memory(in);
    in->filling = false;
    in->walkers--;
    if (in->index.pages.count == 0 && in->walkers == 0)
        free_index(in);
    lladd_mutex_unlock(&in->mutex);
}

/* Handles a page that cannot be redone: keeps the error for the end of the round, unless the page
 * is free or has got new contents. */
static int refuse(struct ll_instant *in, uint64_t page, int rc, const struct lladd_error *why,
                  struct lladd_error *err)
{
    struct ll_core *core = in->core;
    bool used = true, base;
    if ((rc == LLADD_CORRUPT_PAGE || rc == LLADD_READ_FAILED) && core->is_allocated) {
        int asked = core->is_allocated(core, lladd_page_of(page), &used, err);
        if (asked && rc != LLADD_READ_FAILED)
            return asked;
    }
    if (!used)
        ll_instant_redone(core, lladd_page_of(page));
    else if (in->refused.code == 0 && ll_instant_is_pending(core, lladd_page_of(page), &base))
        in->refused = *why;
    return 0;
}

static int step_page(struct ll_instant *in, uint64_t page, struct lladd_error *err)
{
    struct ll_core *core = in->core;
    struct ll_redo_index_walk w;
    struct ll_frame *f;
    struct lladd_error why = LLADD_ERROR_INIT;
    if (ll_point(&core->env, "recovery.step"))
        return ll_fail(err, LLADD_BUSY, "stopped at a named point");
    lladd_mutex_lock(&in->mutex);
    bool is = ll_redo_index_find(&in->index, page, &w);
    in->stepping = is ? page : LLADD_NO_PAGE;
    lladd_mutex_unlock(&in->mutex);
    if (!is)
        return 0;
    /* A thread that has the page latched has redone it, or is about to. This step must not wait for
     * that thread, because the thread may be waiting for the end of this step
     * (ll_instant_forget). */
    int rc = ll_buffer_fix(core->buffer, lladd_page_of(page), LL_FIX_SHARED | LL_FIX_TRY, &f, &why);
    if (!rc)
        ll_buffer_unfix(core->buffer, f, LL_FIX_SHARED);
    else if (rc == LLADD_BUSY)
        rc = 0;
    lladd_mutex_lock(&in->mutex);
    in->stepping = LLADD_NO_PAGE;
    lladd_cond_broadcast(&in->changed);
    lladd_mutex_unlock(&in->mutex);
    if (lladd_code_root(rc) == LLADD_ROOT_DATA)
        return refuse(in, page, rc, &why, err);
    if (rc && err)
        *err = why;
    return rc;
}

static int steps(struct ll_instant *in, uint64_t most, bool *more, struct lladd_error *err)
{
    int rc = 0;
    for (uint64_t n = 0; !rc && n < most && in->next < in->order.len; n++) {
        const uint64_t *page = ll_vec_at(&in->order, in->next);
        if (lladd_atomic_load32(&in->core->instant_stop))
            return ll_fail(err, LLADD_BUSY, "recovery was told to stop");
        if (in->next >= in->prefetch_end)
            read_prefetch(in);
        rc = step_page(in, *page, err);
        in->next += !rc;
    }
    *more = in->next < in->order.len;
    if (rc || *more)
        return rc;
    in->next = in->prefetch_end = 0;
    if (ll_instant_left(in->core) == 0) {
        lladd_mutex_lock(&in->mutex); /* ll_instant_forget reads `order` under this mutex */
        ll_vec_free(&in->order);
        if (in->readers == 0)
            ll_log_prefetch_free(&in->prefetch);
        count_memory(in);
        lladd_mutex_unlock(&in->mutex);
        return 0;
    }
    struct lladd_error why = in->refused;
    in->refused.code = 0;
    *more = why.code == 0; /* other threads have latched the remaining pages */
    if (*more)
        lladd_yield();
    if (why.code && err)
        *err = why;
    return why.code;
}

int ll_instant_step(struct ll_core *core, uint64_t most, bool *more, struct lladd_error *err)
{
    struct ll_instant *in = core->instant;
    *more = false;
    if (ll_instant_left(core) == 0)
        return 0;
    lladd_mutex_lock(&in->steps);
    int rc = steps(in, most, more, err);
    lladd_mutex_unlock(&in->steps);
    return rc;
}

int ll_instant_finish(struct ll_core *core, struct lladd_error *err)
{
    bool more = true;
    int rc = 0;
    while (!rc && more)
        rc = ll_instant_step(core, UINT64_MAX, &more, err);
    return rc;
}

/* ---- ranges of pages --------------------------------------------------------------------- */

/* Index in `order` of the first page with a number of at least `from`. */
static size_t lower_bound(const struct ll_instant *in, uint64_t from)
{
    return ll_lower_bound(in->order.data, in->order.len, in->order.element, from);
}

void ll_instant_forget(struct ll_core *core, lladd_pageno first, uint64_t n)
{
    struct ll_instant *in = core->instant;
    if (LL_LIKELY(ll_instant_left(core) == 0))
        return;
    lladd_mutex_lock(&in->mutex);
    for (size_t i = lower_bound(in, first.v); i < in->order.len; i++) {
        uint64_t page = *(const uint64_t *)ll_vec_at(&in->order, i);
        if (page - first.v >= n)
            break;
        while (in->stepping == page)
            lladd_cond_wait(&in->changed, &in->mutex);
        take_off(in, page);
    }
    lladd_mutex_unlock(&in->mutex);
}

/* The first page with pending redo among n pages from `from` on, or LLADD_NO_PAGE. */
static uint64_t first_pending(struct ll_instant *in, uint64_t from, uint64_t n)
{
    struct ll_redo_index_walk w;
    uint64_t found = LLADD_NO_PAGE;
    lladd_mutex_lock(&in->mutex);
    for (size_t i = lower_bound(in, from); i < in->order.len && found == LLADD_NO_PAGE; i++) {
        uint64_t page = *(const uint64_t *)ll_vec_at(&in->order, i);
        if (page - from >= n)
            break;
        if (ll_redo_index_find(&in->index, page, &w))
            found = page;
    }
    lladd_mutex_unlock(&in->mutex);
    return found;
}

int ll_instant_settle(struct ll_core *core, lladd_pageno first, uint64_t n, struct lladd_error *err)
{
    uint64_t page = first.v;
    bool some = false;
    if (LL_LIKELY(ll_instant_left(core) == 0))
        return 0;
    for (;; page++) {
        struct ll_frame *f;
        page = first_pending(core->instant, page, n - (page - first.v));
        if (page == LLADD_NO_PAGE)
            break;
        int rc = ll_buffer_fix(core->buffer, lladd_page_of(page), LL_FIX_SHARED, &f, err);
        if (rc)
            return rc;
        ll_buffer_unfix(core->buffer, f, LL_FIX_SHARED);
        some = true;
    }
    return some ? ll_buffer_write_range(core->buffer, first, n, err) : 0;
}
