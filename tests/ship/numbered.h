/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_SHIP_NUMBERED_H
#define TESTS_SHIP_NUMBERED_H
/*
 * A run: a database in which transactions are numbered.
 *
 * Transaction k sets the counter to k, and inserts row k; sometimes it also deletes and replaces
 * older rows. So the contents of the table say which transaction was the last. All calls assert
 * success.
 */
#include "memory_store.h"

#include <lladd/hash.h>
#include <lladd/lladd.h>

enum { RUN_MOST = 200, RUN_SEGMENT_MOST = 1 << 18 };
enum { RUN_LOSER = 5000 }; /* a row of transactions that never commit */

struct run {
    struct lladd_options options;
    struct lladd_db *db;
    struct lladd_hash *table;
    struct memory_store *store;            /* of the archive */
    const struct lladd_environment *world; /* not NULL: the library archives, with these clocks */
    struct lladd_archive *archive;
    size_t segment;         /* bytes of a segment of the log */
    uint64_t variant;       /* tells the rows of two timelines apart */
    uint64_t number;        /* of the last transaction */
    uint64_t end[RUN_MOST]; /* LSN after each transaction */
    uint64_t variants[RUN_MOST];
};

/* Opens or creates the database on the device. `flags`: LLADD_OPT_... All of its log is kept. */
void run_open(struct run *, struct lladd_device *, unsigned flags);
void run_close(struct run *);
void run_kill(struct run *);
struct lladd_txn *run_begin(struct run *);
void run_put(struct run *, struct lladd_txn *, uint64_t row, uint64_t number);
/* Does the next transactions, up to this one. */
void run_work_to(struct run *, uint64_t number);
/* Asserts that the table of `opened` is as transaction `number` of the run has left it. */
void run_check(struct run *opened, const struct run *, uint64_t number);

/* Archives the log of the open database, as far as it is durable: by the library, or as closed
 * segments and two parts of the last one. */
void run_archive(struct run *, uint32_t timeline);
void run_store_object(struct run *, const char *name, const void *bytes, size_t len);
void run_read_file(struct lladd_device *, const char *name, void *out, size_t len);
/* The LSN after the segment that begins at `first`. */
uint64_t run_segment_end(const struct run *, uint64_t first);
/* For qsort: uint64_t, ascending. */
int run_by_number(const void *, const void *);
#endif
