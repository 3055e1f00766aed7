/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_DTABLE_MANAGED_SHOP_H
#define TESTS_DTABLE_MANAGED_SHOP_H
/*
 * A bed (tests/operations) with managed tables in it, and what their tests say about rows: keys are
 * u32, values short texts, and what a transaction sees of a table is written as one, "1=a 2=bb".
 */
#include "bed.h"

#include <lladd/dtable_managed.h>

void shop_init(struct bed *);
/* All at once: a database, and the table "rows" in it; the same after a power failure; closed, and
 * nothing is lost. */
struct lladd_managed *shop_begin(struct bed *, struct lladd_managed_options *);
struct lladd_managed *shop_restart(struct bed *);
void shop_done(struct bed *, struct lladd_managed *);
/* A table with u32 keys; options may be NULL. Made and opened. */
struct lladd_managed *shop_table(struct bed *, const char *name, struct lladd_managed_options *);
struct lladd_managed *shop_open(struct bed *, const char *name);
void shop_close(struct bed *, struct lladd_managed *);
/* One row, in a transaction; text NULL: a tombstone. */
int shop_try(struct lladd_txn *, struct lladd_managed *, uint32_t key, const char *text);
void shop_put(struct lladd_txn *, struct lladd_managed *, uint32_t key, const char *text);
/* "1=a 2=b 3": 3 is deleted. In a transaction of its own, which commits. */
void shop_fill(struct bed *, struct lladd_managed *, const char *rows);
void shop_fill_in(struct lladd_txn *, struct lladd_managed *, const char *rows);
/* What the transaction sees, by a cursor forward, backward, and by lookups; to be freed. */
char *shop_text(struct lladd_txn *, struct lladd_managed *);
void shop_sees(struct lladd_txn *, struct lladd_managed *, const char *rows);
/* The same in a transaction of its own. */
void shop_expect(struct bed *, struct lladd_managed *, const char *rows);
struct lladd_managed_stats shop_stats(struct bed *, struct lladd_managed *);
/* Does what is due until nothing is. */
void shop_tidy(struct bed *, struct lladd_managed *);
/* Every page that is allocated belongs to somebody: nothing is lost. */
void shop_no_leaks(struct bed *);

#endif
