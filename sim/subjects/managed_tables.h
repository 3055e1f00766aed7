/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_SIM_MANAGED_TABLES_H
#define LL_SIM_MANAGED_TABLES_H
/* Managed dTables with keys of 32 bits, of several subjects. */
#include <lladd/dtable_managed.h>

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

#endif
