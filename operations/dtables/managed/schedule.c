/* SPDX-License-Identifier: BSD-2-Clause */
/* Decides which maintenance is due, and does it.
 *
 * The ruler schedule (Anvil paper, section 5.3; `every` is its k) combines runs when k digests have
 * made runs that are not combined yet. The n-th combine, counted from 1, takes these k runs and z
 * older ones: z is the number of trailing zero bits of n. (The paper's text subtracts one from z;
 * the sequence in the paper does not.) The tiered schedule begins with the newest
 * run and adds older runs, while the next run is at most 5/4 as large as the runs added before it
 * together. If these are at least k runs, it combines them. level.c has the schedule of levels. */
#include "operations/dtables/managed/managed.h"

/* `now` may be before the end of the newest digest, because a thread reads the clock before it
 * takes the mutex. */
static uint64_t since_digest(const struct lladd_managed *t, uint64_t now)
{
    return now > t->digested_ns ? now - t->digested_ns : 0;
}

static bool digest_due(const struct lladd_managed *t, uint64_t now)
{
    const struct ll_manifest *m = &t->manifest;
    if (lladd_atomic_load64(&t->pending_bytes) >= m->memory_bytes)
        return true; /* to free memory, even if no transaction has committed since the digest */
    if (lladd_atomic_load64(&t->newest) <= t->view->cutoff)
        return false;
    return lladd_atomic_load32(&t->asked) ||
           (m->max_rows && lladd_atomic_load64(&t->pending_rows) >= m->max_rows) ||
           (m->interval_ns && since_digest(t, now) >= m->interval_ns);
}

static uint32_t ruler(const struct ll_manifest *m)
{
    uint32_t n = (uint32_t)m->fresh;
    if (n < m->every)
        return 0;
    for (uint64_t c = m->combines + 1; c && (c & 1) == 0; c >>= 1)
        n++;
    return n < m->n_runs ? n : m->n_runs;
}

/* Returns how many of the newest runs form a tier: each but the newest is at most 5/4 as large as
 * all newer runs together. 0: fewer than `every`. */
static uint32_t tier(const struct ll_manifest *m)
{
    uint64_t sum = m->n_runs ? m->runs[0].bytes : 0;
    uint32_t n = 1;
    while (n < m->n_runs && m->runs[n].bytes <= sum + sum / 4)
        sum += m->runs[n++].bytes;
    return n >= m->every ? n : 0;
}

uint32_t ll_managed__combine_due(const struct lladd_managed *t, uint32_t *first)
{
    const struct ll_manifest *m = &t->manifest;
    *first = 0;
    if (m->schedule == LLADD_MANAGED_LEVELS)
        return ll_managed__level_due(t, first);
    uint32_t n = m->schedule == LLADD_MANAGED_RULER    ? ruler(m)
                 : m->schedule == LLADD_MANAGED_TIERED ? tier(m)
                                                       : 0;
    return n > 1 ? n : 0;
}

/* Does a combine go before a digest? With levels it does: digests add to C1, and a combine that
 * waited for them would wait as long as there are writers. Called under the mutex. */
static bool combine_first(const struct lladd_managed *t)
{
    return t->manifest.schedule == LLADD_MANAGED_LEVELS && !t->compaction_failed &&
           !lladd_atomic_load32(&t->asked);
}

int ll_managed__due(struct lladd_managed *t, uint64_t now)
{
    int due = 0;
    uint32_t first;
    lladd_mutex_lock(&t->mutex);
    bool digest = !t->digesting && digest_due(t, now);
    bool combine = !t->combining && ll_managed__combine_due(t, &first);
    if (t->closing || t->opening)
        due = 0;
    else if (t->ready && !t->freeing && !t->free_failed)
        due = LL_FREE;
    else if (combine && (!digest || combine_first(t)))
        due = LL_COMBINE;
    else if (digest)
        due = LL_DIGEST;
    else if (t->ready && !t->freeing)
        due = LL_FREE;
    lladd_mutex_unlock(&t->mutex);
    return due;
}

uint64_t ll_managed__interval_left(struct lladd_managed *t, uint64_t now)
{
    lladd_mutex_lock(&t->mutex);
    uint64_t gone = since_digest(t, now), all = t->manifest.interval_ns;
    lladd_mutex_unlock(&t->mutex);
    return gone < all ? all - gone : all;
}

/* ---- one at a time --------------------------------------------------------------------------- */

static bool *flag(struct lladd_managed *t, enum ll_managed_work what)
{
    return what == LL_DIGEST ? &t->digesting : what == LL_COMBINE ? &t->combining : &t->freeing;
}

/* Claims a kind of work for this thread. LLADD_BUSY if another thread is doing it, or the table is
 * being closed. */
static int work_begin(struct lladd_managed *t, enum ll_managed_work what, struct lladd_error *err)
{
    static const char *const names[] = {"", "digested", "combined",
                                        "cleared of replaced runs"};
    lladd_mutex_lock(&t->mutex);
    bool busy = *flag(t, what) || t->closing;
    if (!busy)
        *flag(t, what) = true;
    if (t->manifest.schedule == LLADD_MANAGED_LEVELS)
        lladd_cond_broadcast(&t->changed); /* a writer may be waiting for the work to begin */
    lladd_mutex_unlock(&t->mutex);
    return busy ? lladd_error_set(err, LLADD_BUSY, "table \"%s\" is being %s, or closed", t->name,
                                  names[what])
                : 0;
}

static void work_end(struct lladd_managed *t, enum ll_managed_work what, int rc)
{
    uint64_t now = lladd_now_ns(t->db);
    lladd_mutex_lock(&t->mutex);
    *flag(t, what) = false;
    if (what == LL_DIGEST) {
        t->digested_ns = now;
        t->flush = (struct ll_managed_merge){.rows = 0};
        t->flush_failed = rc == LLADD_BUSY ? t->flush_failed : rc;
        t->compaction_failed = false; /* its turn again */
    } else if (what == LL_COMBINE) {
        t->compaction = (struct ll_managed_merge){.rows = 0};
        t->compaction_failed = rc && rc != LLADD_BUSY;
    }
    lladd_cond_broadcast(&t->changed);
    lladd_mutex_unlock(&t->mutex);
}

int ll_managed__work_stop(struct lladd_managed *t, struct lladd_error *err)
{
    lladd_mutex_lock(&t->mutex);
    while ((t->digesting || t->combining) && !t->closing)
        lladd_cond_wait(&t->changed, &t->mutex);
    bool closing = t->closing;
    if (!closing)
        t->digesting = t->combining = true;
    lladd_mutex_unlock(&t->mutex);
    return closing ? lladd_error_set(err, LLADD_BUSY, "table \"%s\" is being closed", t->name) : 0;
}

void ll_managed__work_go_on(struct lladd_managed *t)
{
    lladd_mutex_lock(&t->mutex);
    t->digesting = t->combining = false;
    lladd_cond_broadcast(&t->changed);
    lladd_mutex_unlock(&t->mutex);
}

int ll_managed__step(struct lladd_managed *t, int due, struct lladd_error *err)
{
    TRY(work_begin(t, (enum ll_managed_work)due, err));
    int rc = due == LL_DIGEST ? ll_managed__flush_now(t, err)
             : due == LL_FREE ? ll_managed__reclaim_now(t, err)
                              : ll_managed__compact_now(t, 0, err);
    work_end(t, (enum ll_managed_work)due, rc);
    return rc;
}

/* ---- public calls ---------------------------------------------------------------------------- */

int lladd_managed_maintain(struct lladd_managed *t, bool *more, struct lladd_error *err)
{
    TRY(lladd_check_process(t->db, err));
    ll_managed__retire(t);
    int due = ll_managed__due(t, lladd_now_ns(t->db));
    int rc = due ? ll_managed__step(t, due, err) : 0;
    if (more)
        *more = rc == 0 && due && ll_managed__due(t, lladd_now_ns(t->db)) != 0;
    return rc;
}

int lladd_managed_digest(struct lladd_managed *t, struct lladd_error *err)
{
    TRY(lladd_check_process(t->db, err));
    TRY(work_begin(t, LL_DIGEST, err));
    int rc = ll_managed__flush_now(t, err);
    work_end(t, LL_DIGEST, rc);
    ll_managed__wake(t->all); /* a combine may be due now */
    return rc;
}

int lladd_managed_combine(struct lladd_managed *t, uint32_t runs, struct lladd_error *err)
{
    TRY(lladd_check_process(t->db, err));
    TRY(work_begin(t, LL_COMBINE, err));
    int rc = ll_managed__compact_now(t, runs ? runs : UINT32_MAX, err);
    work_end(t, LL_COMBINE, rc);
    ll_managed__wake(t->all); /* another combine may be due, and runs may have to be freed */
    return rc;
}

/* Returns the bytes of all memtables, and sets *memtables to their number. Called under the
 * mutex. */
static uint64_t memory_of(const struct lladd_managed *t, uint64_t *memtables)
{
    uint64_t bytes = 0;
    *memtables = t->view->n_mems;
    for (uint32_t i = 0; i < t->view->n_mems; i++)
        bytes += lladd_atomic_load64(&t->view->mems[i]->bytes);
    for (const struct ll_version *v = t->retired; v; v = v->next)
        for (uint32_t i = 0; i < v->n_mems; i++) {
            const struct ll_version *newer = t->view;
            bool seen = false;
            for (uint32_t k = 0; k < newer->n_mems; k++)
                seen = seen || newer->mems[k] == v->mems[i];
            for (newer = t->retired; newer != v && !seen; newer = newer->next)
                for (uint32_t k = 0; k < newer->n_mems; k++)
                    seen = seen || newer->mems[k] == v->mems[i];
            if (!seen) {
                bytes += lladd_atomic_load64(&v->mems[i]->bytes);
                ++*memtables;
            }
        }
    return bytes;
}

int lladd_managed_stats_get(struct lladd_managed *t, struct lladd_managed_stats *out,
                            struct lladd_managed_run *runs, size_t n, struct lladd_error *err)
{
    TRY(lladd_check_process(t->db, err));
    if (out->struct_size < sizeof out->struct_size)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "struct_size is missing");
    struct lladd_managed_stats s = {.struct_size = out->struct_size};
    uint64_t now = lladd_now_ns(t->db);
    lladd_mutex_lock(&t->all->mutex);
    lladd_mutex_lock(&t->mutex);
    ll_managed__held_stats(t, now, &s);
    const struct ll_manifest *m = &t->manifest;
    s.memory_bytes = memory_of(t, &s.memtables);
    s.pending_bytes = lladd_atomic_load64(&t->pending_bytes);
    s.pending_rows = lladd_atomic_load64(&t->pending_rows);
    s.runs = m->n_runs;
    s.obsolete = m->n_obsolete;
    s.digests = m->digests;
    s.combines = m->combines;
    for (uint32_t i = 0; i < m->n_runs; i++) {
        s.run_rows += m->runs[i].rows;
        s.run_tombstones += m->runs[i].tombstones;
        s.run_ranges += m->runs[i].ranges;
        s.run_bytes += m->runs[i].bytes;
        s.run_pages += m->runs[i].pages;
        if (runs && i < n)
            runs[i] = m->runs[i];
    }
    s.conflicts = lladd_atomic_load64(&t->conflicts);
    s.waits = lladd_atomic_load64(&t->waits);
    s.failures = lladd_atomic_load64(&t->failures);
    s.last_failure = t->last_failure;
    s.frozen_bytes = t->flush.bytes;
    s.level_bytes =
        m->schedule == LLADD_MANAGED_LEVELS ? (uint64_t)ll_managed__level_target(t) : 0;
    lladd_mutex_unlock(&t->mutex);
    lladd_mutex_unlock(&t->all->mutex);
    memcpy(out, &s, s.struct_size < sizeof s ? s.struct_size : sizeof s);
    return 0;
}
