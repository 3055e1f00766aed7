/* SPDX-License-Identifier: BSD-2-Clause */
/* The schedule of levels (Rose paper, sections 2.3 and 2.4). C0 are the memtables, C1 is the newest
 * run, and C2 is the oldest run. A flush absorbs C1: the new run has the rows of C0 and those of
 * C1. When C1 has R times as many bytes as C0 makes, a compaction merges it into C2. From then on
 * it is called C1', and flushes make another C1. A table that began with this schedule has these
 * three runs at most, as long as compactions are done when they are due.
 *
 * R is the square root of |C2| / |C0|, in stored bytes, so that both merges copy the same number of
 * bytes for each new row. The bytes of C0 follow from the keys that fit into memory_bytes. They do
 * not depend on how full the last memtable was.
 *
 * Writers keep pace with the flush, and the flush with the compaction (as bLSM does, SIGMOD 2012,
 * section 4): each may be an eighth of its input ahead of the next. So a put waits for a part of a
 * merge, never for a whole one, while merges keep up. A flush that the journal has asked for does
 * not wait, because it keeps the log from being truncated.
 *
 *   LEV-1  A run is an input of at most one merge at a time (`input`, under the table's mutex).
 *   LEV-2  A wait is for work that another thread is doing. If that work ends, also with an error,
 *          the wait ends. If no thread is working, a writer wakes one, and waits 10 ms at most.
 *   LEV-3  After a flush has failed, no memory that it took counts as taken, until a flush
 *          succeeds. So C0 does not grow with the number of failures. */
#include "operations/dtables/managed/change.h"

#define R_MIN 1.2
/* A flush does not absorb a run of more than this many times R times C0: it is C2, or a large run
 * of another schedule. */
#define TOO_LARGE 2.0
/* How far ahead of the next merge a writer or a flush may be, as a part of the whole. */
#define AHEAD (1.0 / 8)
/* How long a writer waits for a thread to begin, in nanoseconds. */
#define PATIENCE UINT64_C(10000000)

/* ---- sizes ----------------------------------------------------------------------------------- */

/* The stored bytes that a full C0 makes. Called under the mutex. */
static double c0_bytes(const struct lladd_managed *t)
{
    const struct ll_manifest *m = &t->manifest;
    const struct lladd_managed_run *newest = m->runs;
    if (!m->n_runs || !newest->rows || t->row_memory <= 0)
        return (double)m->memory_bytes;
    return (double)m->memory_bytes / t->row_memory * (double)newest->bytes / (double)newest->rows;
}

/* The square root, by Newton's method: from 1 or above, 60 steps are enough for 2^64. */
static double root(double x)
{
    double r = x > 1 ? x : 1;
    for (int i = 0; i < 60; i++)
        r = (r + x / r) / 2;
    return r;
}

double ll_managed__level_target(const struct lladd_managed *t)
{
    double c0 = c0_bytes(t), all = 0;
    for (uint32_t i = 0; i < t->manifest.n_runs; i++)
        all += (double)t->manifest.runs[i].bytes;
    double r = root(all / c0);
    return c0 * (r < R_MIN ? R_MIN : r);
}

bool ll_managed__level_absorbs(const struct lladd_managed *t)
{
    const struct ll_version *v = t->view;
    if (t->manifest.schedule != LLADD_MANAGED_LEVELS || !v->n_runs || v->runs[0]->input)
        return false;
    double bytes = (double)v->runs[0]->info.bytes, target = ll_managed__level_target(t);
    return v->n_runs == 2 ? bytes < target : bytes <= TOO_LARGE * target;
}

uint32_t ll_managed__level_due(const struct lladd_managed *t, uint32_t *first)
{
    const struct ll_manifest *m = &t->manifest;
    *first = m->n_runs > 2; /* flushes go on to absorb the newest run */
    if (m->n_runs < 2 || m->n_runs != t->view->n_runs)
        return 0; /* if they differ, a merge is being installed */
    if (m->n_runs == 2 && (double)m->runs[0].bytes < ll_managed__level_target(t))
        return 0;
    for (uint32_t i = *first; i < t->view->n_runs; i++)
        if (t->view->runs[i]->input)
            return 0;
    return m->n_runs - *first;
}

/* ---- pace ------------------------------------------------------------------------------------ */

/* How much of the merge is done, from 0 to 1. The number of rows is an estimate. Called under the
 * mutex. */
static double part_done(const struct ll_managed_merge *m)
{
    return m->done < m->rows ? (double)m->done / (double)m->rows : m->rows != 0;
}

/* May this flush go on, or is it too far ahead of the compaction? Called under the mutex. */
static bool flush_may_go_on(const struct lladd_managed *t)
{
    if (!t->combining || t->flush.urgent || lladd_atomic_load32(&t->asked) ||
        lladd_atomic_load32(&t->hurry))
        return true;
    double grown = (double)t->flush.absorbed - (double)t->compaction.newer +
                   part_done(&t->flush) * c0_bytes(t);
    return grown <= ll_managed__level_target(t) * (part_done(&t->compaction) + AHEAD);
}

void ll_managed__level_progress(struct lladd_managed *t, bool flush, uint64_t done)
{
    struct ll_managed_merge *m = flush ? &t->flush : &t->compaction;
    lladd_mutex_lock(&t->mutex);
    m->done = done;
    if (t->manifest.schedule == LLADD_MANAGED_LEVELS) {
        lladd_cond_broadcast(&t->changed);
        while (flush && !flush_may_go_on(t))
            lladd_cond_wait(&t->changed, &t->mutex);
    }
    lladd_mutex_unlock(&t->mutex);
}

/* Has C0 more bytes than it may have now? The bytes that a flush in progress takes do not count.
 * Called under the mutex. */
static bool is_full(const struct lladd_managed *t)
{
    uint64_t bytes = lladd_atomic_load64(&t->pending_bytes);
    double part = 1;
    if (t->flush.bytes && !t->flush_failed) { /* LEV-3 */
        bytes -= t->flush.bytes < bytes ? t->flush.bytes : bytes;
        part = part_done(&t->flush);
    }
    return (double)bytes > (double)t->manifest.memory_bytes * (part + AHEAD);
}

/* Waits for work in progress or, once, for a thread to begin. False: there is nothing to wait for.
 * Called under the mutex, which it gives up meanwhile. */
static bool wait_for_work(struct lladd_managed *t, bool *waited, bool *woken)
{
    bool working = t->digesting || (t->combining && !t->flush_failed);
    if (!working && (t->flush_failed || *woken))
        return false;
    if (!*waited)
        lladd_atomic_count64(&t->waits, 1);
    *waited = true;
    if (working) {
        lladd_cond_wait(&t->changed, &t->mutex);
        return true;
    }
    *woken = true;
    lladd_mutex_unlock(&t->mutex);
    ll_managed__wake(t->all);
    lladd_mutex_lock(&t->mutex);
    if (!t->digesting && is_full(t))
        (void)lladd_cond_wait_for(&t->changed, &t->mutex, PATIENCE); /* the caller looks again */
    return true;
}

int ll_managed__level_pace(struct lladd_managed *t, struct lladd_error *err)
{
    uint64_t memory = lladd_atomic_load64(&t->memory_bytes);
    if ((double)lladd_atomic_load64(&t->pending_bytes) <= (double)memory * AHEAD)
        return 0;
    bool waited = false, woken = false;
    lladd_mutex_lock(&t->mutex);
    bool full = is_full(t);
    while (full && wait_for_work(t, &waited, &woken))
        full = is_full(t);
    int failed = full ? t->flush_failed : 0;
    lladd_mutex_unlock(&t->mutex);
    return failed ? lladd_error_set(err, failed,
                                    "table \"%s\": its memory is full, and the last digest failed",
                                    t->name)
                  : 0;
}
