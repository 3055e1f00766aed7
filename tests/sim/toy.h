/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_TESTS_SIM_TOY_H
#define LL_TESTS_SIM_TOY_H
/* A subject as an application would write it, with its own operation, and faults that can be
 * switched on. */
#include <lladd/sim.h>

enum toy_fault {
    TOY_RIGHT,
    TOY_UNDO_WRITES_OLD, /* undo restores the old value, even if others have added since */
    TOY_FORGETS_NOTE,    /* the workload makes a change without noting it */
    TOY_CHECK_COMPLAINS, /* for any database in which the sum is 12 */
    TOY_RANDOM,          /* the workload differs each time */
    TOY_LEAKS_PAGE,      /* `pages` does not list all pages */
    TOY_FAILS,           /* the workload returns an error */
    TOY_NO_UNDO,         /* addition is redo-only, and there is no model */
    TOY_NEVER_ABORTS,    /* the workload commits everything */
    TOY_NEVER_RUN,       /* the subject names an operation that its workload never runs */
    TOY_LOOSE,           /* the workload uses a transaction that has ended */
    TOY_IGNORES,         /* the workload ignores the result of a commit */
    TOY_IMPURE,          /* redo has side effects: each one adds one more than the one before */
    TOY_LEAKS_MEMORY,    /* `check` leaks memory */
    TOY_LOOPS,           /* the workload commits for ever */
    TOY_HANGS,           /* the workload does nothing for ever */
    TOY_REFUSED,         /* the workload repeats for ever what its operation refuses */
    TOY_CRASHES,         /* the workload crashes the process */
    TOY_SMALL_RECORD,    /* prepare asks for more than record_max, and ignores the result */
    TOY_SPEECHLESS,      /* prepare refuses, without a reason */
    TOY_CHECK_SPEECHLESS, /* check fails without a reason */
    TOY_SETUP_SPEECHLESS, /* the setup fails without a reason */
    TOY_SETUP_HOLDS,      /* the setup leaves a page fixed */
    TOY_WAITS,            /* the workload waits for a lock that it holds itself */
    TOY_NO_CREDIT_MAX     /* it uses more records at a time than the operation declares */
};

/* The state of such a subject: no globals. */
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
