/* SPDX-License-Identifier: BSD-2-Clause */
/* Maintenance threads, which do the due work for all tables of a handle. Also throttles writers
 * while maintenance cannot keep up. */
#include "operations/dtables/managed/managed.h"

#define MILLISECOND UINT64_C(1000000)
/* Delays before a retry: after a conflict with other work, and after a failure. */
#define RETRY_BUSY (5 * MILLISECOND)
#define RETRY_FAILED (100 * MILLISECOND)

void ll_managed__wake(struct ll_managed *all)
{
    if (!lladd_atomic_load32(&all->running))
        return;
    lladd_mutex_lock(&all->mutex);
    all->wakes++;
    lladd_cond_signal(&all->wake);
    lladd_mutex_unlock(&all->mutex);
}

void ll_managed__nudge(struct lladd_managed *t)
{
    uint64_t rows = lladd_atomic_load64(&t->max_rows);
    if (lladd_atomic_load64(&t->pending_bytes) >= lladd_atomic_load64(&t->memory_bytes) ||
        (rows && lladd_atomic_load64(&t->pending_rows) >= rows))
        ll_managed__wake(t->all);
}

/* Chooses a table with due work. If the journal has asked for a digest of a table, this table comes
 * first, because its entries keep the log from being truncated. Otherwise the table that was served
 * longest ago comes first. Returns NULL if no work is due; *wait is then the time until work may be
 * due, or 0 if the thread waits for a wake-up. Called under the mutex. */
static struct lladd_managed *choose(struct ll_managed *all, uint64_t now, int *due, uint64_t *wait)
{
    struct lladd_managed *best = NULL;
    bool best_asked = false;
    *wait = 0;
    for (struct lladd_managed *t = all->tables; t; t = t->next) {
        if (t->opening)
            continue;
        uint64_t again = ll_managed__interval_left(t, now);
        int what = now >= t->retry_ns ? ll_managed__due(t, now) : 0;
        bool asked = what == LL_DIGEST && lladd_atomic_load32(&t->asked);
        if (what &&
            (!best || asked > best_asked || (asked == best_asked && t->served < best->served))) {
            best = t;
            best_asked = asked;
            *due = what;
        }
        if (now < t->retry_ns)
            again = t->retry_ns - now;
        *wait = again && (*wait == 0 || again < *wait) ? again : *wait;
    }
    if (best)
        best->served = ++all->served;
    return best;
}

static void failed(struct lladd_managed *t, int rc, uint64_t now)
{
    t->retry_ns = now + (rc == LLADD_BUSY ? RETRY_BUSY : RETRY_FAILED);
    if (rc == LLADD_BUSY)
        return;
    lladd_atomic_count64(&t->failures, 1);
    lladd_mutex_lock(&t->mutex);
    t->last_failure = rc;
    lladd_mutex_unlock(&t->mutex);
}

static void *work(void *arg)
{
    struct ll_managed *all = arg;
    int rc = 0;
    lladd_mutex_lock(&all->mutex);
    while (!all->stopping && lladd_code_root(rc) != LLADD_ROOT_POISONED) {
        uint64_t wait, wakes = all->wakes;
        int due;
        lladd_mutex_unlock(&all->mutex);
        uint64_t now = lladd_now_ns(all->db);
        lladd_mutex_lock(&all->mutex);
        struct lladd_managed *t = choose(all, now, &due, &wait);
        if (!t) {
            if (all->wakes != wakes || all->stopping)
                continue;
            if (wait)
                (void)lladd_cond_wait_for(&all->wake, &all->mutex, wait); /* the loop then looks
                                                                           * again */
            else
                lladd_cond_wait(&all->wake, &all->mutex);
            continue;
        }
        t->workers++;
        lladd_cond_signal(&all->wake); /* other work may be due too: for an idle thread */
        lladd_mutex_unlock(&all->mutex);
        ll_managed__retire(t);
        rc = ll_managed__step(t, due, NULL);
        now = lladd_now_ns(all->db);
        lladd_mutex_lock(&all->mutex);
        if (rc)
            failed(t, rc, now);
        t->workers--;
        lladd_cond_broadcast(&all->idle);
    }
    lladd_mutex_unlock(&all->mutex);
    return NULL;
}

void ll_managed__threads_stop(struct ll_managed *all)
{
    lladd_mutex_lock(&all->mutex);
    all->stopping = true;
    lladd_cond_broadcast(&all->wake);
    lladd_mutex_unlock(&all->mutex);
    for (unsigned i = 0; i < all->n_threads; i++)
        lladd_thread_join(&all->threads[i]);
    lladd_mem_free(all->db, all->threads);
    all->threads = NULL;
    all->n_threads = 0;
    all->stopping = false;
    lladd_atomic_store32(&all->running, 0);
}

int lladd_managed_threads(struct lladd_db *db, unsigned n, struct lladd_error *err)
{
    struct ll_managed *all;
    TRY(ll_managed__of(db, &all, err));
    lladd_mutex_lock(&all->create);
    ll_managed__threads_stop(all);
    all->threads = n ? lladd_mem_alloc(db, n * sizeof *all->threads) : NULL;
    int rc = 0;
    if (n && !all->threads)
        rc = ll_managed__no_memory(err);
    lladd_atomic_store32(&all->running, n != 0 && !rc); /* set before the threads start, so that no
                                                         * wake-up is lost */
    for (unsigned i = 0; !rc && i < n; i++) {
        memset(&all->threads[i], 0, sizeof all->threads[i]);
        if (lladd_thread_start(&all->threads[i], work, all))
            rc = lladd_error_set(err, LLADD_NO_THREAD, "thread %u of %u could not be started",
                                 i + 1, n);
        else
            all->n_threads++;
    }
    if (rc)
        ll_managed__threads_stop(all);
    lladd_mutex_unlock(&all->create);
    return rc;
}

/* There is no delay while the pending bytes are at most twice the digest trigger and a second
 * condition holds: at most ROUNDS times `every` runs are not combined yet, or the schedule never
 * combines runs. Beyond that, the delay grows with the backlog, up to 10 ms. */
static void wait_a_while(struct lladd_managed *t)
{
    enum { LAG = 2, ROUNDS = 4, LONGEST = 10 };
    uint64_t memory = lladd_atomic_load64(&t->memory_bytes);
    uint64_t bytes = lladd_atomic_load64(&t->pending_bytes), most = LAG * memory;
    uint32_t every = lladd_atomic_load32(&t->every);
    uint64_t runs = lladd_atomic_load64(&t->fresh), many = (uint64_t)ROUNDS * every, wait = 0;
    if (bytes > most)
        wait = (uint64_t)((double)(bytes - most) / (double)memory * (double)MILLISECOND);
    if (runs > many && lladd_atomic_load32(&t->schedule) != LLADD_MANAGED_NEVER)
        wait += (runs - many) * MILLISECOND / every;
    if (!wait)
        return;
    wait = wait < LONGEST * MILLISECOND ? wait : LONGEST * MILLISECOND;
    lladd_atomic_count64(&t->waits, 1);
    ll_managed__wake(t->all);
    lladd_mutex_lock(&t->mutex);
    (void)lladd_cond_wait_for(&t->changed, &t->mutex, wait); /* the wait may end early */
    lladd_mutex_unlock(&t->mutex);
}

int ll_managed__stall(struct lladd_managed *t, struct lladd_error *err)
{
    if (!lladd_atomic_load32(&t->all->running))
        return 0;
    if (lladd_atomic_load32(&t->schedule) == LLADD_MANAGED_LEVELS)
        return ll_managed__level_pace(t, err);
    wait_a_while(t);
    return 0;
}
