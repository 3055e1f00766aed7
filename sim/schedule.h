/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_SIM_SCHEDULE_H
#define LL_SIM_SCHEDULE_H
/* Schedules: which fiber runs next, as choices.
 *
 * At each turn of the scheduler (lladd/dst.h), a *policy* decides which fiber runs next, with as
 * few choices as possible. For each choice it calls choose(ctx, kind, n), which returns a number
 * from 0 to n-1, or a negative number to stop the run. 0 is the ordinary answer: if all answers are
 * 0, no fiber is preempted, except under the policy PCT. Runs with equal answers are equal. */
#include <lladd/dst.h>

typedef int ll_schedule_choose_fn(void *ctx, unsigned kind, unsigned n);

/* Kinds of choices, for printing and counting. */
enum ll_schedule_kind {
    LL_SCHEDULE_PREEMPT = 1, /* continue (0), or switch to another fiber */
    LL_SCHEDULE_NEXT,        /* the current fiber sleeps or yields: which fiber runs next */
    LL_SCHEDULE_WAKE,        /* which of several sleepers wakes */
    LL_SCHEDULE_PRIORITY,    /* PCT: priority of a new fiber */
    LL_SCHEDULE_CHANGE       /* PCT: point at which a priority changes */
};

enum { LL_SCHEDULE_FIBERS_MAX = 64, LL_SCHEDULE_DEPTH_MAX = 16 };

enum ll_schedule_policy {
    /* At most `bound` preemptions, at any points. Where the current fiber cannot continue, the
     * choice of the next fiber does not count. Trying all choices covers everything that can happen
     * with at most `bound` preemptions. */
    LL_SCHEDULE_BOUNDED,
    /* As BOUNDED, but every answer other than 0 counts as a preemption. For workloads in which many
     * threads sleep and wake: under BOUNDED they would have too many choices that do not count. */
    LL_SCHEDULE_DELAYED,
    /* Probabilistic concurrency testing: each fiber gets a random priority, and the fiber with the
     * highest priority runs. At `bound` - 1 random points of `length`, the running fiber gets the
     * lowest priority. A bug that needs `bound` orderings is found with a probability of at least
     * 1 / (fibers * length^(bound-1)). */
    LL_SCHEDULE_PCT
};

struct ll_schedule {
    ll_schedule_choose_fn *choose;
    void *ctx;
    enum ll_schedule_policy policy;
    unsigned bound;
    uint32_t length; /* PCT: expected number of turns in a run */
    /* Of the current run: */
    unsigned preemptions;
    uint32_t at;                                /* number of turns so far */
    uint32_t changes[LL_SCHEDULE_DEPTH_MAX];    /* turns at which a priority changes */
    int64_t priorities[LL_SCHEDULE_FIBERS_MAX]; /* 0: no priority yet */
    int64_t lowest;
};

/* For PCT, a bound above LL_SCHEDULE_DEPTH_MAX is lowered to it. */
void ll_schedule_init(struct ll_schedule *, enum ll_schedule_policy, unsigned bound,
                      uint32_t length, ll_schedule_choose_fn *, void *ctx);
/* Must be called before each run. */
void ll_schedule_begin(struct ll_schedule *);
/* For lladd_dst_schedule.turn; its ctx is the struct ll_schedule. */
unsigned ll_schedule_turn(void *schedule, const struct lladd_dst_turn *);

/* ---- all answers, one run after the other ---------------------------------------------------- */

/* Enumerates all vectors of answers, depth first. */
struct ll_all_choices {
    uint32_t *at, *of; /* answers of this run; number of possible answers to each question */
    size_t len, cap, pos;
    bool differs;   /* after the same answers, a run asked other questions than the run before */
    bool no_memory; /* the run was stopped for lack of memory */
};

void ll_all_choices_init(struct ll_all_choices *);
void ll_all_choices_free(struct ll_all_choices *);
ll_schedule_choose_fn ll_all_choices_choose; /* its ctx is a struct ll_all_choices */
/* Must be called after each run. Returns false after the last run. */
bool ll_all_choices_next(struct ll_all_choices *);

/* ---- answers from a seed --------------------------------------------------------------------- */

struct ll_seeded_choices {
    uint64_t state;
};
ll_schedule_choose_fn ll_seeded_choices_choose;

#endif
