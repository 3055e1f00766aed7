/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_REPLICA_SOURCE_H
#define TESTS_REPLICA_SOURCE_H
/*
 * A source: a stream of events that a seed determines, and the rows that the tables must have after
 * each position. Up to four master transactions are open at a time. They change two tables, "rows"
 * and "more", with u32 keys. No two open transactions change the same key, as with locks. A quarter
 * of them aborts. Positions have gaps. The last transactions stay open.
 */
#include <lladd/replica.h>

enum { SOURCE_TABLES = 2, SOURCE_KEYS = 24 };

struct source {
    struct lladd_replica_event *events; /* in the order of their positions */
    size_t n;
    char (*values)[2][16]; /* for each event: the bytes of `before` and `after` */
};

extern const char *const source_tables[SOURCE_TABLES + 1];

/* Makes a stream of n events. `before`: changes of single keys have the row before them. */
void source_make(struct source *, uint64_t seed, size_t n, bool before);
void source_free(struct source *);
/* The rows of a table after all commits up to the position, as "1=a 2=b"; the caller frees the
 * text. */
char *source_rows(const struct source *, const char *table, uint64_t position);
/* The index of the first event at or after the position. */
size_t source_find(const struct source *, uint64_t position);
/* The position of the last event; that of its last COMMIT. */
uint64_t source_end(const struct source *);
uint64_t source_last_commit(const struct source *);

#endif
