/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * schedule: policies that choose which fiber runs next. A fiber is a simulated thread
 * (lladd/dst.h).
 *
 * Bounded. Most concurrency bugs need one or two preemptions at the right places, as the tool CHESS
 * has shown. The number of schedules with at most c preemptions grows with the c-th power of the
 * number of points, not exponentially. While preemptions are left, each point is a choice: the
 * current fiber continues, or another fiber runs. When no preemption is left, the current fiber
 * continues. A switch away from a fiber that cannot continue is not a preemption.
 *
 * Delayed. If several threads sleep and wake all the time, the number of schedules grows
 * exponentially even so, because the choice of the fiber that follows a sleeper is no preemption.
 * Under this policy every answer other than 0 therefore counts as a preemption (delay bounding).
 *
 * PCT (probabilistic concurrency testing). With random answers at every point, all fibers would
 * advance at nearly the same rate. With priorities, some fibers fall far back: the fiber with the
 * highest priority runs until it sleeps. At a few random points the running fiber gets the lowest
 * priority.
 *
 * A policy keeps no state between runs. Only the answers are kept.
 */
#include "sim/schedule.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

void ll_schedule_init(struct ll_schedule *s, enum ll_schedule_policy policy, unsigned bound,
                      uint32_t length, ll_schedule_choose_fn *choose, void *ctx)
{
    memset(s, 0, sizeof *s);
    s->choose = choose;
    s->ctx = ctx;
    s->policy = policy;
    s->bound = bound;
    s->length = length ? length : 1;
    if (policy == LL_SCHEDULE_PCT && s->bound > LL_SCHEDULE_DEPTH_MAX)
        s->bound = LL_SCHEDULE_DEPTH_MAX;
    ll_schedule_begin(s);
}

void ll_schedule_begin(struct ll_schedule *s)
{
    s->preemptions = 0;
    s->at = 0;
    s->lowest = 0;
    memset(s->priorities, 0, sizeof s->priorities);
}

static unsigned answer(struct ll_schedule *s, enum ll_schedule_kind kind, unsigned n)
{
    int i = n > 1 ? s->choose(s->ctx, kind, n) : 0;
    return i < 0 || (unsigned)i >= n ? UINT_MAX : (unsigned)i;
}

static enum ll_schedule_kind kind_of(const struct lladd_dst_turn *turn)
{
    if (turn->why == LLADD_DST_WAKE && !turn->current)
        return LL_SCHEDULE_WAKE;
    return turn->current ? LL_SCHEDULE_PREEMPT : LL_SCHEDULE_NEXT;
}

static unsigned bounded(struct ll_schedule *s, const struct lladd_dst_turn *turn)
{
    bool costs = turn->current || s->policy == LL_SCHEDULE_DELAYED;
    if (costs && s->preemptions >= s->bound)
        return 0;
    unsigned i = answer(s, kind_of(turn), turn->n);
    s->preemptions += costs && i != 0;
    return i;
}

/* Gives the fiber a priority if it has none. Priorities are positive and distinct: the high bits
 * are a random number, the low bits the fiber's number. */
static bool meet(struct ll_schedule *s, uint64_t fiber)
{
    int64_t *p = &s->priorities[fiber % LL_SCHEDULE_FIBERS_MAX];
    if (*p != 0)
        return true;
    unsigned rank = answer(s, LL_SCHEDULE_PRIORITY, 1u << 16);
    if (rank == UINT_MAX)
        return false;
    *p = ((int64_t)rank + 1) * LL_SCHEDULE_FIBERS_MAX + (int64_t)(fiber % LL_SCHEDULE_FIBERS_MAX);
    return true;
}

/* At the beginning of a run, draws the turns at which a priority changes. */
static bool draw_changes(struct ll_schedule *s)
{
    for (unsigned i = 0; i + 1 < s->bound; i++) {
        s->changes[i] = answer(s, LL_SCHEDULE_CHANGE, s->length);
        if (s->changes[i] == UINT_MAX)
            return false;
    }
    return true;
}

static unsigned highest(const struct ll_schedule *s, const struct lladd_dst_turn *turn)
{
    unsigned best = 0;
    for (unsigned i = 1; i < turn->n; i++)
        if (s->priorities[turn->fibers[i] % LL_SCHEDULE_FIBERS_MAX] >
            s->priorities[turn->fibers[best] % LL_SCHEDULE_FIBERS_MAX])
            best = i;
    return best;
}

static unsigned by_priority(struct ll_schedule *s, const struct lladd_dst_turn *turn)
{
    if (s->at == 0 && !draw_changes(s))
        return UINT_MAX;
    for (unsigned i = 0; i < turn->n; i++)
        if (!meet(s, turn->fibers[i]))
            return UINT_MAX;
    for (unsigned i = 0; i + 1 < s->bound; i++)
        if (turn->current && s->changes[i] == s->at)
            s->priorities[turn->fibers[0] % LL_SCHEDULE_FIBERS_MAX] = --s->lowest;
    s->at++;
    return highest(s, turn);
}

unsigned ll_schedule_turn(void *schedule, const struct lladd_dst_turn *turn)
{
    struct ll_schedule *s = schedule;
    return s->policy == LL_SCHEDULE_PCT ? by_priority(s, turn) : bounded(s, turn);
}

/* ---- all answers ----------------------------------------------------------------------------- */

void ll_all_choices_init(struct ll_all_choices *a)
{
    memset(a, 0, sizeof *a);
}

void ll_all_choices_free(struct ll_all_choices *a)
{
    free(a->at);
    free(a->of);
    ll_all_choices_init(a);
}

static bool grow(struct ll_all_choices *a)
{
    size_t cap = a->cap ? 2 * a->cap : 256;
    uint32_t *at = realloc(a->at, cap * sizeof *at);
    if (at)
        a->at = at;
    uint32_t *of = at ? realloc(a->of, cap * sizeof *of) : NULL;
    if (of)
        a->of = of;
    if (!of)
        return false;
    a->cap = cap;
    return true;
}

int ll_all_choices_choose(void *ctx, unsigned kind, unsigned n)
{
    struct ll_all_choices *a = ctx;
    (void)kind;
    if (a->pos < a->len) {
        if (a->of[a->pos] != n) {
            a->differs = true;
            return -1;
        }
        return (int)a->at[a->pos++];
    }
    if (a->len == a->cap && !grow(a)) {
        a->no_memory = true;
        return -1;
    }
    a->at[a->len] = 0;
    a->of[a->len++] = n;
    a->pos++;
    return 0;
}

bool ll_all_choices_next(struct ll_all_choices *a)
{
    if (a->differs || a->no_memory)
        return false;
    a->len = a->pos;
    a->pos = 0;
    while (a->len > 0 && a->at[a->len - 1] + 1 == a->of[a->len - 1])
        a->len--;
    if (a->len == 0)
        return false;
    a->at[a->len - 1]++;
    return true;
}

/* ---- from a seed ----------------------------------------------------------------------------- */

/* splitmix64 */
int ll_seeded_choices_choose(void *ctx, unsigned kind, unsigned n)
{
    struct ll_seeded_choices *c = ctx;
    (void)kind;
    uint64_t z = c->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (int)((z ^ z >> 31) % n);
}
