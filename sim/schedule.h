/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_SIM_SCHEDULE_H
#define LL_SIM_SCHEDULE_H
/* Schedules: who runs next, as choices.
 *
 * A *policy* answers the scheduler's turns (lladd/dst.h) with as few choices as it can, which it
 * gets from a function of the engine: choose(ctx, kind, n) returns 0 ... n-1, or a negative number
 * to stop the run. 0 is always the most ordinary answer, so the schedule without any other choice
 * preempts nobody. A run is a function of the answers. */
#include <lladd/dst.h>

typedef int ll_schedule_choose_fn(void *ctx, unsigned kind, unsigned n);

/* Kinds of choices, for whoever prints or counts them. */
enum ll_schedule_kind {
    LL_SCHEDULE_PREEMPT = 1, /* go on (0), or with which other fiber */
    LL_SCHEDULE_NEXT,        /* the current one sleeps or gives way: who is next */
    LL_SCHEDULE_WAKE,        /* which of several sleepers is woken */
    LL_SCHEDULE_PRIORITY,    /* PCT: rank of a new fiber */
    LL_SCHEDULE_CHANGE       /* PCT: at which point a priority changes */
};

enum { LL_SCHEDULE_FIBERS_MAX = 64, LL_SCHEDULE_DEPTH_MAX = 16 };

enum ll_schedule_policy {
    /* At most `bound` preemptions, at any points; every other turn is a choice among all. With all
     * choices tried that is everything that can happen with so few preemptions. */
    LL_SCHEDULE_BOUNDED,
    /* The same, and each other turn at which it is not the first one's counts as a preemption, too.
     * Where many threads sleep and wake, the free choices alone would be too many. */
    LL_SCHEDULE_DELAYED,
    /* Probabilistic concurrency testing: each fiber gets a random priority, the highest runs, and
     * at `bound` - 1 random points of `length` the current one falls below all others. Finds a bug
     * that needs `bound` orderings with probability >= 1 / (fibers * length^(bound-1)). */
    LL_SCHEDULE_PCT
};

struct ll_schedule {
    ll_schedule_choose_fn *choose;
    void *ctx;
    enum ll_schedule_policy policy;
    unsigned bound;
    uint32_t length; /* PCT: points expected in a run */
    /* of this run */
    unsigned preemptions;
    uint32_t at; /* turns so far */
    uint32_t changes[LL_SCHEDULE_DEPTH_MAX];
    int64_t priorities[LL_SCHEDULE_FIBERS_MAX]; /* 0: not met yet */
    int64_t lowest;
};

/* bound <= LL_SCHEDULE_DEPTH_MAX for PCT. */
void ll_schedule_init(struct ll_schedule *, enum ll_schedule_policy, unsigned bound,
                      uint32_t length, ll_schedule_choose_fn *, void *ctx);
/* Before each run. */
void ll_schedule_begin(struct ll_schedule *);
/* lladd_dst_schedule.turn, with the policy as its ctx. */
unsigned ll_schedule_turn(void *schedule, const struct lladd_dst_turn *);

/* ---- all answers, one run after the other ---------------------------------------------------- */

/* Depth first over every vector of choices: for kernels that need nothing but schedules. */
struct ll_all_choices {
    uint32_t *at, *of; /* the answers of this run, and how many there were to choose from */
    size_t len, cap, pos;
    bool differs;   /* a run asked otherwise than the run before it with the same answers */
    bool no_memory; /* it was stopped for want of it */
};

void ll_all_choices_init(struct ll_all_choices *);
void ll_all_choices_free(struct ll_all_choices *);
ll_schedule_choose_fn ll_all_choices_choose; /* with a struct ll_all_choices as its ctx */
/* After a run: true if there is another one to be made. */
bool ll_all_choices_next(struct ll_all_choices *);

/* ---- answers from a seed --------------------------------------------------------------------- */

struct ll_seeded_choices {
    uint64_t state;
};
ll_schedule_choose_fn ll_seeded_choices_choose;

#endif
