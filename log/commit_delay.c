/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * commit_delay: how long the leader of a group waits for other committers.
 *
 * Committers that were just woken commit again soon. If the leader synced immediately, its group
 * would lack many of them, and those that come too late would wait for this sync and for the next.
 * The leader expects as many committers as were in the last group plus those that came during the
 * last sync. It waits for them, at most about a fifth of a sync, if it expects more than one and
 * syncs are not fast.
 *
 * The leader waits in one of two ways. Repeated yields are best if the leader soon gets the
 * processor back: other threads run during a yield, and no thread must be woken. But if threads
 * that only compute share the processors, one yield can take milliseconds. After such a late yield,
 * the leaders of the next `polite` groups sleep instead, and the last expected committer wakes the
 * leader: the scheduler prefers a woken sleeper to threads that compute. Each further late yield
 * doubles the number of these groups, and each wait by yields that are not late halves it.
 *
 * The wait pays if all expected committers came, or if it made the group a quarter bigger. If it
 * does not pay, the next `pause` groups do not wait. Each further wait that does not pay about
 * doubles the number of these groups, and each wait that pays halves it.
 *
 * Threads. `arrivals`, `goal` and `sync_ns` are shared by all threads; only the leader uses the
 * other fields.
 */
#include "log/log_private.h"
#include "util/held.h"

enum {
    SHARE = 5,          /* bound of the wait: 1/SHARE of a sync's duration */
    ROUNDS = 4096,      /* upper bound of yields, in case the clock fails */
    LATE = 4,           /* yields are late if they took longer than LATE times the bound */
    POLITE_FIRST = 64,  /* groups */
    POLITE_MOST = 4096, /* a yield of 8 ms in 4096 groups is negligible */
    PAUSE_MOST = 64,    /* groups */
    WORTH = 4           /* the wait pays if it adds 1/WORTH to the group */
};

void ll_log__arrive(struct ll_log *log)
{
    struct ll_log__commit_delay *g = &log->gather;
    uint32_t now = lladd_atomic_add32(&g->arrivals, 1) + 1;
    if (now == lladd_atomic_look32(&g->goal))
        lladd_word_wake(&g->arrivals, 1, 1);
}

static uint32_t here(const struct ll_log__commit_delay *g)
{
    return lladd_atomic_load32(&g->arrivals) - g->at_cut;
}

static void by_yielding(struct ll_log *log, uint64_t most)
{
    struct ll_log__commit_delay *g = &log->gather;
    uint64_t start = ll_now_ns(log->env);
    uint64_t took = 0;
    for (unsigned i = 0; i < ROUNDS && took < most && here(g) < g->expected; i++) {
        lladd_yield();
        took = ll_now_ns(log->env) - start;
    }
    if (took > LATE * most) {
        g->polite_next = g->polite_next < POLITE_FIRST ? POLITE_FIRST : 2 * g->polite_next;
        if (g->polite_next > POLITE_MOST)
            g->polite_next = POLITE_MOST;
        g->polite = g->polite_next;
    } else {
        g->polite_next /= 2;
    }
}

static void by_sleeping(struct ll_log *log, uint64_t most)
{
    struct ll_log__commit_delay *g = &log->gather;
    uint64_t start = ll_now_ns(log->env);
    uint64_t took = 0;
    lladd_atomic_store32(&g->goal, g->at_cut + g->expected);
    while (took < most) {
        uint32_t seen = lladd_atomic_load32(&g->arrivals);
        if (seen - g->at_cut >= g->expected)
            break;
        ll_word_wait_with_credit("other committers", &g->arrivals, seen, 1, most - took);
        took = ll_now_ns(log->env) - start;
    }
    lladd_atomic_store32(&g->goal, g->at_cut); /* `arrivals` will not have this value again soon */
}

void ll_log__commit_delay(struct ll_log *log)
{
    struct ll_log__commit_delay *g = &log->gather;
    uint64_t most = g->sync_ns / SHARE;
    if (g->expected <= 1 || most == 0 || ll_log__syncs_fast(log))
        return;
    uint32_t before = here(g);
    if (g->pause > 0) {
        g->pause--;
        return;
    }
    if (g->polite > 0) {
        g->polite--;
        by_sleeping(log, most);
    } else {
        by_yielding(log, most);
    }
    uint32_t after = here(g);
    if (after >= g->expected || (after - before) * WORTH >= before) {
        g->pause_next /= 2;
        return;
    }
    g->pause_next = 2 * g->pause_next + 1 < PAUSE_MOST ? 2 * g->pause_next + 1 : PAUSE_MOST;
    g->pause = g->pause_next;
}

void ll_log__commit_delay_close(struct ll_log *log)
{
    struct ll_log__commit_delay *g = &log->gather;
    uint32_t came = lladd_atomic_load32(&g->arrivals);
    g->members = came - g->at_cut;
    g->at_cut = came;
}

void ll_log__commit_delay_done(struct ll_log *log, uint64_t sync_ns)
{
    struct ll_log__commit_delay *g = &log->gather;
    lladd_atomic_store64_relaxed(&g->sync_ns,
                                 g->sync_ns ? (g->sync_ns * 7 + sync_ns) / 8 : sync_ns);
    g->expected = g->members + here(g);
}
