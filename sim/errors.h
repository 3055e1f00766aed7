/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_SIM_ERRORS_H
#define LL_SIM_ERRORS_H
/* Internal interface of errors.c, faults.c and features.c. */
#include "sim/sim_private.h"

/* A word has 64 features. Features 0 to 127 are of events, the others of device calls. */
enum { LL_SIM_FEATURE_WORDS = 4 };

/* ---- faults.c ---------------------------------------------------------------------------- */

enum {
    LL_SIM_FAULT_ONCE = 1,     /* cannot last for ever */
    LL_SIM_FAULT_RESOURCE = 2, /* lack of a resource, which must not poison the handle */
    LL_SIM_FAULT_LIE = 4,      /* a sync returns 0 and makes nothing durable */
    LL_SIM_FAULT_DISK = 8      /* affects pages while the database is open (lost_writes.c) */
};
unsigned ll_sim_fault_flags(enum lladd_sim_fault);
const char *ll_sim_fault_what(enum lladd_sim_fault);

enum { LL_SIM_SYNCS = 8 };
#define LL_SIM_NONE UINT32_MAX /* no file, or no number of calls */

/* Where the fault happens. */
enum ll_sim_stage { LL_SIM_WORKLOAD, LL_SIM_RECOVERY, LL_SIM_CREATION, LL_SIM_STAGES };
enum ll_sim_phase { LL_SIM_OPENING, LL_SIM_RUNNING, LL_SIM_CLOSING };

struct ll_sim_faults {
    struct lladd_sim *sim;
    enum lladd_sim_fault kind;
    enum ll_sim_stage stage;
    uint32_t at; /* n, from 1 */
    bool for_ever;
    bool armed;

    enum ll_sim_phase phase; /* current phase */
    uint32_t seen;           /* number of calls that the fault could have hit */
    uint32_t fired;          /* number of calls that the fault has hit */
    uint32_t calls;          /* length of the trace at the first hit */
    enum ll_sim_phase hit;   /* phase at the first hit */

    bool grave;               /* the handle must be poisoned */
    enum ll_sim_phase graved; /* phase in which `grave` was set */
    uint64_t acks;            /* number of promises made before `grave` was set */

    uint32_t late;  /* the next sync of this file reports an earlier failure; LL_SIM_NONE: none */
    uint32_t again; /* a failed sync of this file was repeated without a write in between;
                     * LL_SIM_NONE: none */
    uint32_t failed[LL_SIM_SYNCS]; /* files with a failed sync and no write since */
    uint32_t n_failed;

    bool gathering; /* collecting features */
    uint64_t features[LL_SIM_FEATURE_WORDS];
    uint32_t recording;                     /* hash of the workload without faults, for tokens */
    struct lladd_sim_errors_report *report; /* NULL in replays */
    char text[200];                         /* description of the hit, for the history */
};

/* Installs the hooks for the device calls and allocations of the simulator's databases. */
int ll_sim_faults_new(struct lladd_sim *);
/* Arms the fault: from now on calls can be hit. */
void ll_sim_arm(struct ll_sim_faults *);
/* Disarms the fault: from now on the device works. */
void ll_sim_disarm(struct ll_sim_faults *);

/* ---- lost_writes.c --------------------------------------------------------------------------- */

/* Runs the workload with a LL_SIM_FAULT_DISK fault, then checks what its handle shows. */
int ll_sim_lose_write(struct ll_sim_faults *, struct ll_sim_verdict *);

/* ---- features.c -------------------------------------------------------------------------- */

static inline void ll_sim_feature_put(uint64_t *features, unsigned i)
{
    features[i / 64 % LL_SIM_FEATURE_WORDS] |= UINT64_C(1) << i % 64;
}

/* A crash of the workload, and the features of the recovery from it. */
struct ll_sim_point {
    uint32_t calls;
    bool kill;
    bool taken;
    uint64_t features[LL_SIM_FEATURE_WORDS];
};
/* Chooses at most `most` points. Each step takes the point that adds the most features, or the
 * first of several that add equally many. When no point adds a feature, all features count as
 * missing again, and the choice goes on with the remaining points. Returns the number of points
 * chosen. */
uint32_t ll_sim_features_cover(struct ll_sim_point *, uint32_t n, struct ll_sim_point *out,
                               uint32_t most);

#endif
