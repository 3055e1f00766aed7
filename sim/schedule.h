/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_SIM_SCHEDULE_H
#define LL_SIM_SCHEDULE_H
/* Schedules: which fiber runs next, as choices.
 *
 * A *policy* answers the scheduler's turns (lladd/dst.h) with as few choices as possible. It gets
 * them from a function of the engine: choose(ctx, kind, n) returns 0 ... n-1, or a negative number
 * to stop the run. 0 is always the most ordinary answer, so a schedule of zeros has no preemptions.
 * A run is a function of the answers. */
#include <lladd/dst.h>

typedef int ll_schedule_choose_fn(void *ctx, unsigned kind, unsigned n);

/* Kinds of choices, for printing and counting. */
enum ll_schedule_kind {
    LL_SCHEDULE_PREEMPT = 1, /* continue (0), or switch to another fiber */
    LL_SCHEDULE_NEXT,        /* the current fiber sleeps or yields: which one runs next */
    LL_SCHEDULE_WAKE,        /* which of several sleepers wakes */
    LL_SCHEDULE_PRIORITY,    /* PCT: priority of a new fiber */
    LL_SCHEDULE_CHANGE       /* PCT: point at which a priority changes */
};

enum { LL_SCHEDULE_FIBERS_MAX = 64, LL_SCHEDULE_DEPTH_MAX = 16 };

enum ll_schedule_policy {
    /* At most `bound` preemptions, at any points; every other turn is a choice among all fibers.
     * Trying all choices covers everything that can happen with so few preemptions. */
    LL_SCHEDULE_BOUNDED,
    /* The same, but every answer other than the first counts as a preemption. For workloads in
     * which many threads sleep and wake, so that the free choices alone would be too many. */
    LL_SCHEDULE_DELAYED,
    /* Probabilistic concurrency testing: each fiber gets a random priority, the highest one runs,
     * and at `bound` - 1 random points of `length` the running fiber drops below all others. Finds
     * a bug that needs `bound` orderings with probability >= 1 / (fibers * length^(bound-1)). */
    LL_SCHEDULE_PCT
};

struct ll_schedule {
    ll_schedule_choose_fn *choose;
    void *ctx;
    enum ll_schedule_policy policy;
    unsigned bound;
    uint32_t length; /* PCT: points expected in a run */
    /* of the current run */
    unsigned preemptions;
    uint32_t at; /* turns so far */
    uint32_t changes[LL_SCHEDULE_DEPTH_MAX];
    int64_t priorities[LL_SCHEDULE_FIBERS_MAX]; /* 0: none yet */
    int64_t lowest;
};

/* For PCT, bound <= LL_SCHEDULE_DEPTH_MAX. */
void ll_schedule_init(struct ll_schedule *, enum ll_schedule_policy, unsigned bound,
                      uint32_t length, ll_schedule_choose_fn *, void *ctx);
/* To be called before each run. */
void ll_schedule_begin(struct ll_schedule *);
/* For lladd_dst_schedule.turn; the policy is its ctx. */
unsigned ll_schedule_turn(void *schedule, const struct lladd_dst_turn *);

/* ---- all answers, one run after the other ---------------------------------------------------- */

/* Enumerates all vectors of choices depth first: for tests that need nothing but schedules. */
struct ll_all_choices {
    uint32_t *at, *of; /* answers of this run; number of possible answers to each */
    size_t len, cap, pos;
    bool differs;   /* a run asked other questions than the run before it, with the same answers */
    bool no_memory; /* the run was stopped for lack of memory */
};

void ll_all_choices_init(struct ll_all_choices *);
void ll_all_choices_free(struct ll_all_choices *);
ll_schedule_choose_fn ll_all_choices_choose; /* its ctx is a struct ll_all_choices */
/* To be called after a run. Returns true if there is another run to make. */
bool ll_all_choices_next(struct ll_all_choices *);

/* ---- answers from a seed --------------------------------------------------------------------- */

struct ll_seeded_choices {
    uint64_t state;
};
ll_schedule_choose_fn ll_seeded_choices_choose;

#endif
