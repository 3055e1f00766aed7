/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_BENCH_LLADD_H
#define LL_BENCH_LLADD_H
/* Shared by this library's engines: the handle, transactions, statistics. */
#include "engine.h"

#include <lladd/lladd.h>

struct lladd_hash;
struct lladd_array;
struct lladd_btree;
struct lladd_btree_cursor;
struct lladd_managed;

struct lladd_archive;
struct lladd_store;

/* An archive of the log, in a store beside the database; NULLs: none. */
struct bench_archive {
    struct lladd_store *store;
    struct lladd_archive *archive;
};

struct bench_db {
    struct lladd_db *db;
    struct bench_archive archive;
    struct lladd_hash *hash;
    struct lladd_array *array;
    struct lladd_btree *btree;
    struct lladd_managed *managed;
    lladd_pageno *extents; /* of lladd-records */
    uint64_t per_extent;   /* pages */
    uint32_t per_page;     /* records */
    struct bench_setup setup;
};

/* For engines that read in transactions. bench_lladd_reading begins a new transaction after
 * BENCH_READS reads. */
struct bench_thread {
    struct bench_txn *txn;
    unsigned reads;
    struct lladd_btree_cursor *cursor; /* of lladd-btree; NULL until the first scan */
};
int bench_lladd_join(struct bench_db *, struct bench_thread **out);
void bench_lladd_leave(struct bench_db *, struct bench_thread *);
int bench_lladd_reading(struct bench_db *, struct bench_thread *);

int bench_lladd_failed(const char *what, int rc, const struct lladd_error *err);
/* Opens with these options, in which the engine may have set fields and registered extensions. */
int bench_lladd_open_with(const struct bench_setup *, struct lladd_options *,
                          struct bench_db **out);
int bench_lladd_open(const struct bench_setup *, struct bench_db **out);
/* Registers an archive with the options; the caller puts it into the bench_db that it opens. */
int bench_lladd_archive(const struct bench_setup *, struct lladd_options *,
                        struct bench_archive *out);
/* Waits until the log that there is has been stored, so that the archive of the load is not
 * measured with the workload. */
int bench_lladd_catch_up(struct bench_db *);
int bench_lladd_close(struct bench_db *);
int bench_lladd_begin(struct bench_db *, struct bench_thread *, struct bench_txn **out);
int bench_lladd_commit(struct bench_db *, struct bench_txn *);
int bench_lladd_abort(struct bench_db *, struct bench_txn *);
int bench_lladd_commit_async(struct bench_db *, struct bench_txn *, uint64_t *ticket);
int bench_lladd_wait(struct bench_db *, uint64_t ticket);
int bench_lladd_checkpoint(struct bench_db *);
int bench_lladd_backup(struct bench_db *, const char *dir);
void bench_lladd_io(struct bench_db *, uint64_t *log_bytes, uint64_t *pages_read,
                    uint64_t *pages_written);

#define BENCH_LLADD \
    .version = lladd_version, \
    .settings = "defaults: pages of 4 KiB, log buffer 8 MiB, a checkpoint after 64 MiB of log " \
                "(none where the log is kept for recovery), library threads on; no locks: no " \
                "workload lets two transactions change one key at the same time", \
    .levels = BENCH_AT_ALL, .begin = bench_lladd_begin, .commit = bench_lladd_commit, \
    .checkpoints = true, .abort = bench_lladd_abort, .commit_async = bench_lladd_commit_async, \
    .wait = bench_lladd_wait, .checkpoint = bench_lladd_checkpoint, .io = bench_lladd_io, \
    .backup = bench_lladd_backup

#endif
