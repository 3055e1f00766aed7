/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_SIM_MANAGED_TABLES_H
#define LL_SIM_MANAGED_TABLES_H
/* Managed dTables with keys of 32 bits, of several subjects. */
#include <lladd/dtable_managed.h>

/* Makes and opens a table with this schedule and these flags, in a transaction of its own. */
int ll_sim_managed_make(struct lladd_db *, const char *name, enum lladd_managed_schedule,
                        uint32_t flags, struct lladd_managed **out, struct lladd_error *);
/* *out gets the first four bytes of the row as a number; 0: there is no row. */
int ll_sim_managed_number(struct lladd_txn *, struct lladd_managed *, uint32_t key, uint32_t *out);

#endif
