/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_TESTS_SIM_APP_SUBJECT_H
#define LL_TESTS_SIM_APP_SUBJECT_H
/* A subject as an application would write it, with its own operation, and faults that can be
 * switched on. */
#include <lladd/sim.h>

enum app_fault {
    APP_RIGHT,
    APP_UNDO_WRITES_OLD,  /* undo restores the old value, even if other transactions have added
                           * since */
    APP_FORGETS_NOTE,     /* the workload makes a change without noting it */
    APP_CHECK_COMPLAINS,  /* `check` refuses a sum of 12 */
    APP_RANDOM,           /* each run of the workload differs */
    APP_LEAKS_PAGE,       /* `pages` does not list all pages */
    APP_FAILS,            /* the workload returns an error */
    APP_NO_UNDO,          /* addition is redo-only, and there is no model */
    APP_NEVER_ABORTS,     /* the workload commits everything */
    APP_NEVER_RUN,        /* the subject names an operation that its workload never runs */
    APP_LOOSE,            /* the workload uses a transaction that has ended */
    APP_IGNORES,          /* the workload ignores the result of a commit */
    APP_IMPURE,           /* redo has side effects: each redo adds one more than the previous one */
    APP_LEAKS_MEMORY,     /* `check` leaks memory */
    APP_LOOPS,            /* the workload commits for ever */
    APP_HANGS,            /* the workload does nothing for ever */
    APP_REFUSED,          /* the workload repeats for ever a call that its operation refuses */
    APP_CRASHES,          /* the workload crashes the process */
    APP_SMALL_RECORD,     /* prepare asks for more bytes than record_max, and ignores the result */
    APP_SPEECHLESS,       /* prepare refuses without a reason */
    APP_CHECK_SPEECHLESS, /* check fails without a reason */
    APP_SETUP_SPEECHLESS, /* the setup fails without a reason */
    APP_SETUP_HOLDS,      /* the setup leaves a page fixed */
    APP_WAITS,            /* the workload waits for a lock that it holds itself */
    APP_NO_CREDIT_MAX     /* the workload asks for more log space than the operation declares */
};

/* The state of a subject with one of these faults. */
struct app {
    enum app_fault fault;
    struct lladd_op op;
    struct lladd_sim_subject subject;
    int (*run)(void *ctx, struct lladd_sim *, struct lladd_db *, struct lladd_error *);
    unsigned runs;
};
/* Makes the subject app->subject, with this fault. */
void app_init(struct app *, enum app_fault);

#endif
