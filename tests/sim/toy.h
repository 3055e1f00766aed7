/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_TESTS_SIM_TOY_H
#define LL_TESTS_SIM_TOY_H
/* A subject as a stranger would write it, with an operation of his own that can be broken. */
#include <lladd/sim.h>

enum toy_fault {
    TOY_RIGHT,
    TOY_UNDO_WRITES_OLD, /* undo puts back what was there, whoever has added to it since */
    TOY_FORGETS_NOTE,    /* the workload does something and does not say so */
    TOY_CHECK_COMPLAINS, /* of any database in which the sum is 12 */
    TOY_RANDOM,          /* the workload is another one each time */
    TOY_LEAKS_PAGE,      /* `pages` does not tell of all */
    TOY_FAILS,           /* the workload returns an error */
    TOY_NO_UNDO,         /* adding is redo-only, and there is no model that would mind */
    TOY_NEVER_ABORTS,    /* the workload commits all it does */
    TOY_NEVER_RUN,       /* the subject names an operation that its workload never runs */
    TOY_LOOSE,           /* the workload uses a transaction that is over */
    TOY_IGNORES,         /* the workload does not look at what a commit returns */
    TOY_IMPURE,          /* redo has side effects: each one adds one more than the one before */
    TOY_LEAKS_MEMORY,    /* `check` does not give back what it has allocated */
    TOY_LOOPS,           /* the workload commits for ever */
    TOY_HANGS,           /* the workload does nothing for ever */
    TOY_CRASHES,         /* the workload does what a process dies of */
    TOY_SMALL_RECORD,    /* prepare asks for more than record_max, and does not look */
    TOY_SPEECHLESS,      /* prepare refuses, without a reason */
    TOY_CHECK_SPEECHLESS /* check complains, and does not say of what */
};

/* What such a subject needs: no globals. */
struct toy {
    enum toy_fault fault;
    struct lladd_op op;
    struct lladd_sim_subject subject;
    int (*run)(void *ctx, struct lladd_sim *, struct lladd_db *, struct lladd_error *);
    unsigned runs;
};
/* The subject is in toy->subject. */
void toy_init(struct toy *, enum toy_fault);

#endif
