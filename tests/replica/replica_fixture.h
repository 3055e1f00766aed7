/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_REPLICA_FIXTURE_H
#define TESTS_REPLICA_FIXTURE_H
/*
 * The fixture of tests/dtable_managed, extended by a replica "r" of the unlogged tables "rows" and
 * "more", and by a source for it.
 */
#include "managed_fixture.h"
#include "replica_source.h"

/* Makes a database with the two tables. The replica is not open yet. */
void replica_begin(struct fixture *);
/* Opens the replica; options may be NULL. Names the tables, so the first call makes it. */
struct lladd_replica *replica_open(struct fixture *, const struct lladd_replica_options *);
int replica_try_open(struct fixture *, const struct lladd_replica_options *,
                     struct lladd_replica **);
void replica_close(struct fixture *, struct lladd_replica *);
uint64_t replica_from(struct lladd_replica *);
uint64_t replica_durable(struct fixture *, struct lladd_replica *);
struct lladd_replica_info replica_info(struct fixture *, struct lladd_replica *);
/* Applies the events of the source from one position on, before another, in pieces of `step`. */
void replica_send(struct fixture *, struct lladd_replica *, const struct source *, uint64_t from,
                  uint64_t to, size_t step);
/* Applies one event, which must succeed. */
void replica_take(struct fixture *, struct lladd_replica *, struct lladd_replica_event);
/* Asserts that a new transaction sees the source's rows after the position, in both tables. */
void replica_expect(struct fixture *, const struct source *, uint64_t position);
/* Asserts that one table has these rows. */
void replica_table_has(struct fixture *, const char *table, const char *rows);
void replica_digest(struct fixture *, const char *table);
/* Asserts that every allocated page has an owner. */
void replica_no_leaks(struct fixture *);
/* Closes the replica and the database, and asserts that nothing is lost. */
void replica_done(struct fixture *, struct lladd_replica *);

/* Events. */
struct lladd_replica_event event_of(enum lladd_replica_kind, uint64_t position, uint64_t txn);
struct lladd_replica_event event_put(uint64_t position, uint64_t txn, const char *table,
                                     uint32_t key, const char *value);

#endif
