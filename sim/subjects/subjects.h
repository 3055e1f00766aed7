/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_SIM_SUBJECTS_H
#define LL_SIM_SUBJECTS_H
/* The library's own subjects: ordinary users of <lladd/sim.h>. */
#include <lladd/sim.h>

extern const struct lladd_sim_subject ll_sim_subject_actions;
extern const struct lladd_sim_subject ll_sim_subject_arrays;
extern const struct lladd_sim_subject ll_sim_subject_blobs;
extern const struct lladd_sim_subject ll_sim_subject_bulk;
extern const struct lladd_sim_subject ll_sim_subject_bytes;
extern const struct lladd_sim_subject ll_sim_subject_counters;
extern const struct lladd_sim_subject ll_sim_subject_extents;
extern const struct lladd_sim_subject ll_sim_subject_fixed;
extern const struct lladd_sim_subject ll_sim_subject_formats;
extern const struct lladd_sim_subject ll_sim_subject_groups;
extern const struct lladd_sim_subject ll_sim_subject_heaps;
extern const struct lladd_sim_subject ll_sim_subject_inventory;
extern const struct lladd_sim_subject ll_sim_subject_lists;
extern const struct lladd_sim_subject ll_sim_subject_pages;
extern const struct lladd_sim_subject ll_sim_subject_prepared;
extern const struct lladd_sim_subject ll_sim_subject_promises;
extern const struct lladd_sim_subject ll_sim_subject_records;
extern const struct lladd_sim_subject ll_sim_subject_roots;
extern const struct lladd_sim_subject ll_sim_subject_slots;
extern const struct lladd_sim_subject ll_sim_subject_small;
extern const struct lladd_sim_subject ll_sim_subject_steal;

/* The pages of a subject: `n` of them, one behind the other, under a root. */
int ll_sim_pages_make(struct lladd_db *, uint64_t n, lladd_pageno *first, struct lladd_error *);
int ll_sim_pages_count(struct lladd_db *, lladd_pageno *first, uint64_t *n, struct lladd_error *);
int ll_sim_pages_find(struct lladd_db *, lladd_pageno *first, struct lladd_error *);

/* Ends a transaction whose call has failed: takes its error, aborts it, returns rc. */
int ll_sim_give_up(struct lladd_sim *, struct lladd_txn *, int rc, struct lladd_error *);

#endif
