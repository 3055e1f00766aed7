/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_SIM_MANAGED_TABLES_H
#define LL_SIM_MANAGED_TABLES_H
/* Managed dTables with keys of 32 bits, of several subjects. */
#include <lladd/dtable_managed.h>
#include <lladd/sim.h>

/* Makes and opens a table with this schedule and these flags, in a transaction of its own. */
int ll_sim_managed_make(struct lladd_db *, const char *name, enum lladd_managed_schedule,
                        uint32_t flags, struct lladd_managed **out, struct lladd_error *);
/* Puts a row that is this number and its complement; number 0 deletes the row. */
int ll_sim_managed_put(struct lladd_txn *, struct lladd_managed *, uint32_t key, uint32_t number);
/* Maintains the table until nothing is due, so that all obsolete runs are freed. */
int ll_sim_managed_tidy(struct lladd_managed *, struct lladd_error *);
/* Changes the memory that makes a digest due, and C1 or C2 of a run. */
int ll_sim_managed_memory(struct lladd_managed *, uint64_t bytes, struct lladd_error *);
/* Opens the table and writes rows of ll_sim_managed_put as lines "key: number". */
int ll_sim_managed_dump(struct lladd_db *, const char *name, struct lladd_sink *,
                        struct lladd_error *);
/* Like ll_sim_managed_number, for any dTable. */
int ll_sim_dtable_number(const struct lladd_dtable *, uint32_t key, uint32_t *out,
                         struct lladd_error *);
/* *out gets the first four bytes of the row as a number; 0: there is no row. */
int ll_sim_managed_number(struct lladd_txn *, struct lladd_managed *, uint32_t key, uint32_t *out);

/* ---- the model: rows of ll_sim_managed_put -------------------------------------------------- */

struct ll_sim_managed_rows {
    uint32_t number[12]; /* of each key; 0: it has no row */
};
/* Row `key` gets `number`; 0 deletes it. Then the rows from `key` to before `to` are deleted. */
struct ll_sim_managed_note {
    uint32_t key, number, to;
};
/* As ll_sim_managed_put, and notes the row for the model. */
int ll_sim_managed_put_noted(struct lladd_sim *, struct lladd_txn *, struct lladd_managed *,
                             uint32_t key, uint32_t number);
/* Callbacks of struct lladd_sim_subject. */
void ll_sim_managed_apply(void *ctx, void *model, struct lladd_span note);
int ll_sim_managed_model_dump(void *ctx, const void *model, struct lladd_sink *);
void ll_sim_managed_describe(void *ctx, struct lladd_span note, struct lladd_sink *);
int ll_sim_managed_pages(void *ctx, struct lladd_db *, int (*fn)(void *, lladd_pageno), void *arg,
                         struct lladd_error *);

#endif
