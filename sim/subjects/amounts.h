/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_SIM_AMOUNTS_H
#define LL_SIM_AMOUNTS_H
/* A model of sums: numbered counters to which transactions add. Several transactions may add to one
 * counter at a time. The subject defines where a counter is stored. */
#include "sim/subjects/subjects.h"

enum { LL_SIM_AMOUNTS = 6 };

struct ll_sim_amounts {
    int64_t of[LL_SIM_AMOUNTS];
};

struct ll_sim_place {
    lladd_pageno page;
    uint32_t offset;
};

/* Records that the transaction has added `delta`. */
int ll_sim_amount_note(struct ll_sim_work *, struct lladd_txn *, uint32_t counter, int64_t delta);

/* For the member `dump`: reads the first n counters from their places, and writes all counters to
 * the sink; the others are 0. */
int ll_sim_amounts_read(struct lladd_db *, uint32_t n,
                        struct ll_sim_place (*place_of)(lladd_pageno first, uint32_t counter),
                        struct lladd_sink *, struct lladd_error *);
void ll_sim_amounts_apply(void *ctx, void *model, struct lladd_span note);
int ll_sim_amounts_dump(void *ctx, const void *model, struct lladd_sink *);
void ll_sim_amounts_describe(void *ctx, struct lladd_span note, struct lladd_sink *);

/* Initializers for members of a subject. */
#define LL_SIM_AMOUNTS_MODEL \
    .model_size = sizeof(struct ll_sim_amounts), .model_apply = ll_sim_amounts_apply, \
    .model_dump = ll_sim_amounts_dump, .describe = ll_sim_amounts_describe

#endif
