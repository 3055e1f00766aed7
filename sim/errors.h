/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_SIM_ERRORS_H
#define LL_SIM_ERRORS_H
/* What errors.c is made of besides: faults (faults.c), features of recoveries (features.c). */
#include "sim/sim_private.h"

enum { LL_SIM_FEATURE_WORDS = 4 }; /* 64 features each: 128 of events, then those of calls */

/* ---- faults.c ---------------------------------------------------------------------------- */

enum {
    LL_SIM_FAULT_ONCE = 1,     /* and not for ever */
    LL_SIM_FAULT_RESOURCE = 2, /* want of something: nothing is broken */
    LL_SIM_FAULT_LIE = 4,
    LL_SIM_FAULT_DISK = 8 /* of pages, while the database is open (lost.c) */
};
unsigned ll_sim_fault_flags(enum lladd_sim_fault);
const char *ll_sim_fault_what(enum lladd_sim_fault);

enum { LL_SIM_SYNCS = 8 };
#define LL_SIM_NOBODY UINT32_MAX

/* Where it happens. */
enum ll_sim_stage { LL_SIM_WORKLOAD, LL_SIM_RECOVERY, LL_SIM_CREATION, LL_SIM_STAGES };
enum ll_sim_phase { LL_SIM_OPENING, LL_SIM_RUNNING, LL_SIM_CLOSING };

struct ll_sim_faults {
    struct lladd_sim *sim;
    enum lladd_sim_fault kind;
    enum ll_sim_stage stage;
    uint32_t at; /* from 1 */
    bool for_ever;
    bool armed;

    enum ll_sim_phase phase; /* now */
    uint32_t seen;           /* calls it could have hit */
    uint32_t fired;          /* and has */
    uint32_t calls;          /* of the trace, before the first of these */
    enum ll_sim_phase hit;   /* at the first of these */

    bool grave;               /* the handle has to be poisoned */
    enum ll_sim_phase graved; /* since then */
    uint64_t acks;            /* promises made until then */

    uint32_t late;  /* the file whose next sync tells of an earlier one; LL_SIM_NOBODY */
    uint32_t again; /* a file whose sync failed and was asked again; LL_SIM_NOBODY */
    uint32_t failed[LL_SIM_SYNCS]; /* files whose sync failed, and that were not written since */
    uint32_t n_failed;

    bool gathering; /* features */
    uint64_t features[LL_SIM_FEATURE_WORDS];
    uint32_t recording;                     /* for tokens: of the workload without faults */
    struct lladd_sim_errors_report *report; /* NULL in replays */
    char text[200];                         /* what was hit, for the history */
};

/* From then on the device calls and allocations of the simulator's databases pass it. */
int ll_sim_faults_new(struct lladd_sim *);
/* The fault that it says may happen. */
void ll_sim_arm(struct ll_sim_faults *);
/* The device is well again. */
void ll_sim_disarm(struct ll_sim_faults *);

/* ---- lost.c ------------------------------------------------------------------------------ */

/* The workload with a fault of the kind LL_SIM_FAULT_DISK, and what its handle then shows. */
int ll_sim_lose_write(struct ll_sim_faults *, struct ll_sim_verdict *);

/* ---- features.c -------------------------------------------------------------------------- */

static inline void ll_sim_feature_put(uint64_t *features, unsigned i)
{
    features[i / 64 % LL_SIM_FEATURE_WORDS] |= UINT64_C(1) << i % 64;
}

/* A crash of the workload, and what the recovery from it does. */
struct ll_sim_point {
    uint32_t calls;
    bool kill;
    bool taken;
    uint64_t features[LL_SIM_FEATURE_WORDS];
};
/* Takes at most `most` of them, so that together they do as much as they can: each time the one
 * that adds most, the first of these; when all is done that any of them does, from the start with
 * the others. Returns how many. */
uint32_t ll_sim_features_cover(struct ll_sim_point *, uint32_t n, struct ll_sim_point *out,
                               uint32_t most);

#endif
