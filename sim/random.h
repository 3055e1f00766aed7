/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_SIM_RANDOM_H
#define LL_SIM_RANDOM_H
/* Internal interface of random.c and random_shrink.c. */
#include "sim/sim_private.h"

enum { REPEATS_MAX = 10 };

/* Flags of ll_sim_which.without: no errors in recoveries, no error in the workload, the subject's
 * own sizes. */
enum { NO_DISTURBANCE = 1, NO_ERROR = 2, OWN_SIZES = 4, WITHOUT_ALL = 7 };

/* Identifies a row of crashes (random.c). A token stores these values in this order. */
struct ll_sim_which {
    uint32_t workload;
    uint32_t repeats; /* 0: as many as were drawn */
    uint32_t without; /* flags; in a token, the flag A_ROW means that a row of choices follows */
    uint32_t depth, point, variant;
};
enum { A_ROW = 8, ROW_AT = 3, WHICH_VALUES = 6 };

enum ll_sim_scope {
    ALL,   /* all points and variants */
    ABOUT, /* all, beginning with r->at.point, until the oracle `wanted` reports a violation */
    THERE, /* only the point and variant in r->at */
    ROW    /* replay the row of choices in r->row */
};

/* The faults, and the sorts of places at which a run is crashed. */
#define FAULTS(X) \
    X(KILL, "the process dies") \
    X(POWER, "power fails") \
    X(NAME_LOST, "a name is lost") \
    X(SIZE_LOST, "a size is lost") \
    X(LOG_CUT, "the log is cut") \
    X(LOG_HOLE, "a hole in the log") \
    X(LOG_ALONE, "a part of the log alone") \
    X(WRITE_LOST, "a write has not arrived") \
    X(TORN, "a write is torn") \
    X(CRASH_2, "recovery is crashed") \
    X(CRASH_3, "recovery is crashed again") \
    X(ERROR_WORKLOAD, "an error in the workload") \
    X(ERROR_RECOVERY, "an error in recovery") \
    X(NO_SPACE, "no space") \
    X(SHORT, "a write is done in part") \
    X(SYNC_FAILED, "a sync fails") \
    X(AT_WRITE, "crash after a write") \
    X(AT_WRITE_PAGES, "crash after a write of pages") \
    X(AT_WRITE_LOG, "crash after a write of the log") \
    X(AT_TRUNCATE, "crash after truncate") \
    X(AT_CREATE, "crash after create") \
    X(AT_RENAME, "crash after rename") \
    X(AT_UNLINK, "crash after unlink") \
    X(AT_SYNC, "crash after a sync") \
    X(AT_SYNC_PAGES, "crash after a sync of pages") \
    X(AT_SYNC_LOG, "crash after a sync of the log") \
    X(AT_SYNC_DIR, "crash after sync of a directory") \
    X(AT_BEGIN, "crash when a transaction begins") \
    X(AT_NOTE, "crash when a transaction does a step") \
    X(AT_COMMIT, "crash when a transaction commits") \
    X(AT_ABORT, "crash when a transaction aborts") \
    X(AT_OTHER, "crash at savepoints and prepares")
enum ll_sim_random_fault {
#define FAULT_ENUM(name, text) F_##name,
    FAULTS(FAULT_ENUM)
#undef FAULT_ENUM
        FAULT_COUNT
};

struct ll_sim_random {
    struct lladd_sim *sim; /* simulator of the current workload */
    struct lladd_sim_random_report *report;
    struct lladd_sim_bounds bounds;
    struct lladd_sim_fired fired[FAULT_COUNT];
    struct lladd_sim_failure *failures;
    struct ll_sim_vector *tokens; /* one for each failure; `count` 0: the failure has no token */
    struct ll_sim_which at;
    enum ll_sim_scope scope;
    enum lladd_sim_oracle wanted; /* NONE: any oracle */
    struct ll_sim_vector row;     /* choices of a row of crashes: from a token, or collected for a
                                   * token */
    bool whole;                   /* `row` contains all choices that were made */
    uint32_t recording;           /* the hash that the recording must have; 0: any */
    uint32_t drawn;               /* number of calls of `run` that was drawn */
    struct lladd_sim_failure whole_failure;     /* the failure before its row was made smaller */
    void (*trace)(void *ctx, const char *line); /* nullable */
    uint64_t started;
    uint64_t stream;           /* state of the random stream */
    /* The number of the call that fails, counted from 1 (0: none fails), and how many calls have
     * failed. */
    uint32_t error_at, errors;
    /* How many calls this run has made, and the most calls of a recovery in this row of crashes. */
    uint32_t calls, most;
    bool stop;
    struct lladd_sink *history;
};

/* Runs workload number r->at.workload and crashes it. r->scope says which crashes are tried. */
int ll_sim_random_workload(struct ll_sim_random *r, const struct lladd_sim_subject *,
                           struct lladd_error *);
/* Makes each failure as small as possible and sets its token. */
int ll_sim_random_give_tokens(struct ll_sim_random *r, const struct lladd_sim_subject *,
                              struct lladd_error *);

#endif
