/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * gather: how long the leader of a group waits for company.
 *
 * Committers that were just woken come back soon; a leader that goes at once takes half of them
 * along, and the others wait for two syncs. So, if there was company lately, the leader gives the
 * others time until as many have come as there were, but no longer than a fifth of what a sync
 * takes. Alone he never waits.
 *
 * There are two ways to wait. To yield the processor again and again is best where it comes back at
 * once: the others run meanwhile, and nobody has to be woken. But if threads that only compute
 * share the processors, one yield can last for milliseconds. When one did, the leader sleeps
 * instead for the next groups (`polite`, twice as many each time it happens again) until the last
 * one that is missed wakes him. A sleeper is given a processor before those who compute.
 *
 * Waiting is worth its time if it makes the group a quarter bigger. When it does not (the others do
 * not come back soon), it is left out for some groups (`pause`, twice as many each time).
 *
 * Threads. `arrivals` and `goal` are everybody's; the rest belongs to the leader.
 */
#include "log/log_private.h"
#include "util/held.h"

enum {
    SHARE = 5,          /* of the time of a sync, one part in so many */
    ROUNDS = 4096,      /* of yielding, whatever the clock says */
    LATE = 4,           /* so many times too long was too long */
    POLITE_FIRST = 64,  /* groups */
    POLITE_MOST = 4096, /* a yield of 8 ms in so many groups is nothing */
    PAUSE_MOST = 64,    /* groups */
    WORTH = 4           /* one more for so many */
};

void ll_log__arrive(struct ll_log *log)
{
    struct ll_log__gather *g = &log->gather;
    uint32_t now = lladd_atomic_add32(&g->arrivals, 1) + 1;
    if (now == lladd_atomic_look32(&g->goal))
        lladd_word_wake(&g->arrivals, 1, 1);
}

static uint32_t here(const struct ll_log__gather *g)
{
    return lladd_atomic_load32(&g->arrivals) - g->at_cut;
}

static void by_yielding(struct ll_log *log, uint64_t most)
{
    struct ll_log__gather *g = &log->gather;
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
    struct ll_log__gather *g = &log->gather;
    uint64_t start = ll_now_ns(log->env);
    uint64_t took = 0;
    lladd_atomic_store32(&g->goal, g->at_cut + g->expected);
    while (took < most) {
        uint32_t seen = lladd_atomic_load32(&g->arrivals);
        if (seen - g->at_cut >= g->expected)
            break;
        ll_word_wait_with_credit("company", &g->arrivals, seen, 1, most - took);
        took = ll_now_ns(log->env) - start;
    }
    lladd_atomic_store32(&g->goal, g->at_cut); /* nobody reaches that again soon */
}

void ll_log__gather(struct ll_log *log)
{
    struct ll_log__gather *g = &log->gather;
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

void ll_log__gather_close(struct ll_log *log)
{
    struct ll_log__gather *g = &log->gather;
    uint32_t came = lladd_atomic_load32(&g->arrivals);
    g->members = came - g->at_cut;
    g->at_cut = came;
}

void ll_log__gather_done(struct ll_log *log, uint64_t sync_ns)
{
    struct ll_log__gather *g = &log->gather;
    lladd_atomic_store64_relaxed(&g->sync_ns,
                                 g->sync_ns ? (g->sync_ns * 7 + sync_ns) / 8 : sync_ns);
    g->expected = g->members + here(g);
}
