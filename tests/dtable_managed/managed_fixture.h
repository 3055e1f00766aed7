/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_DTABLE_MANAGED_FIXTURE_H
#define TESTS_DTABLE_MANAGED_FIXTURE_H
/*
 * The fixture of tests/operations, extended by managed tables and by functions for rows. Keys are
 * u32, and values are short texts. The rows that a transaction sees are written as one text, "1=a
 * 2=bb".
 */
#include "op_fixture.h"

#include <lladd/dtable_managed.h>

void managed_init(struct fixture *);
/* managed_begin makes a database and the table "rows" in it. managed_restart opens both again after
 * a crash. managed_done closes both, and asserts that no page and no memory is lost. */
struct lladd_managed *managed_begin(struct fixture *, struct lladd_managed_options *);
struct lladd_managed *managed_restart(struct fixture *);
void managed_done(struct fixture *, struct lladd_managed *);
/* Creates and opens a table with u32 keys; options may be NULL. */
struct lladd_managed *managed_table(struct fixture *, const char *name,
                                    struct lladd_managed_options *);
struct lladd_managed *managed_open(struct fixture *, const char *name);
void managed_close(struct fixture *, struct lladd_managed *);
/* Put a row in the transaction. If the text is NULL, delete the row. */
int managed_try(struct lladd_txn *, struct lladd_managed *, uint32_t key, const char *text);
void managed_put(struct lladd_txn *, struct lladd_managed *, uint32_t key, const char *text);
/* Put rows, in a transaction that commits or in the given transaction. "1=a 2=b 3" puts the rows 1
 * and 2, and deletes the row 3. */
void managed_fill(struct fixture *, struct lladd_managed *, const char *rows);
void managed_fill_in(struct lladd_txn *, struct lladd_managed *, const char *rows);
/* Returns the rows that the transaction sees, by a cursor forward, backward, and by lookups; the
 * caller frees the text. */
char *managed_text(struct lladd_txn *, struct lladd_managed *);
void managed_sees(struct lladd_txn *, struct lladd_managed *, const char *rows);
/* Opens a snapshot, and gets a table in it. */
struct lladd_managed_snapshot *managed_snapshot(struct fixture *);
const struct lladd_dtable *managed_snapshot_table(struct fixture *, struct lladd_managed_snapshot *,
                                                  struct lladd_managed *);
/* Asserts that an open snapshot sees these rows. */
void managed_snapshot_sees(struct fixture *, struct lladd_managed_snapshot *,
                           struct lladd_managed *, const char *rows);
/* Asserts that a new transaction sees these rows. */
void managed_expect(struct fixture *, struct lladd_managed *, const char *rows);
struct lladd_managed_stats managed_stats(struct fixture *, struct lladd_managed *);
/* Does the background work until none is due any more. */
void managed_tidy(struct fixture *, struct lladd_managed *);
/* Asserts that no open snapshot keeps anything of the table. */
void managed_nothing_held(struct fixture *, struct lladd_managed *);
/* Asserts that every allocated page has an owner. */
void managed_no_leaks(struct fixture *);

#endif
