/* SPDX-License-Identifier: BSD-2-Clause */
/* The workloads, with their default sizes. */
#include "driver.h"

#define MILLION 1000000u
#define MIB (UINT64_C(1) << 20)
#define CACHE (1024 * MIB)
#define SMALL_CACHE (64 * MIB)
/* The records of W3 to W6, W8 and W9. */
#define RECORDS .records = MILLION, .key_size = 8, .value_size = 100, .cache = CACHE
#define ORDERED .key_size = 16, .value_size = 100, .cache = CACHE, ONE_THREAD
#define ONE_THREAD .threads = {{1}, 1}

static const char *levels(const struct bench_engine *e, const struct cell *c)
{
    static const char *const lacks[] = {"it has no durable commits",
                                        "it cannot leave a commit to the operating system",
                                        "it cannot leave a commit in the process"};
    return e->in_memory || e->levels & BENCH_AT(c->c->level) ? NULL : lacks[c->c->level];
}

static const char *inserts(const struct bench_engine *e, const struct cell *c)
{
    if (e->one_changer && c->threads > 1)
        return "only one transaction at a time can change it";
    return levels(e, c);
}

static const char *common(const struct bench_engine *e, const struct cell *c)
{
    return e->in_memory ? "it has no transactions" : inserts(e, c);
}

static const char *refuses_w1(const struct bench_engine *e, const struct cell *c)
{
    return e->numbered ? "it has record numbers, no keys" : inserts(e, c);
}

static const char *refuses_w2(const struct bench_engine *e, const struct cell *c)
{
    return e->records ? inserts(e, c) : "it has no record numbers";
}

static const char *refuses_async(const struct bench_engine *e, const struct cell *c)
{
    if (!e->commit_async)
        return "it has no asynchronous commit";
    return common(e, c);
}

static const char *refuses_w5(const struct bench_engine *e, const struct cell *c)
{
    (void)e;
    (void)c;
    return NULL;
}

static const char *refuses_many(const struct bench_engine *e, const struct cell *c)
{
    (void)c;
    return e->lookup_many ? NULL : "it has no lookup of many keys";
}

static const char *refuses_w8(const struct bench_engine *e, const struct cell *c)
{
    return e->checkpoint ? common(e, c) : "it has no checkpoints";
}

static const char *refuses_w11(const struct bench_engine *e, const struct cell *c)
{
    return e->scan ? levels(e, c) : "no scans in key order, or the bench does not implement them";
}

static const char *refuses_w12(const struct bench_engine *e, const struct cell *c)
{
    return e->backup ? common(e, c)
                     : "no backup of an open database, or the bench does not implement it";
}

const struct bench_case bench_cases[] = {
    {.workload = "W1", .name = "insert", .refuses = refuses_w1, .run = run_insert,
     .what = "N inserts, int to int, one transaction a thread; timed from creation to clean close",
     .level = BENCH_DISK, .n = MILLION, .key_size = 4, .value_size = 4, .cache = CACHE,
     .threads = {{1, 200}, 2}},
    {.workload = "W2", .name = "fill", .refuses = refuses_w2, .run = run_fill,
     .what = "N ints under the numbers 0, 1, 2 ... in one transaction, creation to clean close",
     .level = BENCH_DISK, .n = MILLION, .key_size = 8, .value_size = 4, .cache = CACHE,
     ONE_THREAD},
    {.workload = "W2", .name = "overwrite", .refuses = refuses_w2, .run = run_overwrite,
     .what = "N random overwrites of W2 fill's ints in one transaction; opening to clean close",
     .load = load_fill, .level = BENCH_DISK, .n = MILLION, .records = MILLION, .key_size = 8,
     .value_size = 4, .cache = CACHE, ONE_THREAD},
    {.workload = "W3", .name = "durable", .refuses = common, .run = run_commits,
     .what = "durable transactions of one update each",
     .load = load_records, .level = BENCH_DISK, .txn_ops = 1, RECORDS, .seconds = 3,
     .threads = {{1, 2, 8, 32, 64}, 5}},
    {.workload = "W3", .name = "async", .refuses = refuses_async, .run = run_async,
     .what = "durable transactions of one update each, at most 1000 commits pending at a time",
     .load = load_records, .level = BENCH_DISK, .txn_ops = 1, RECORDS, .seconds = 3, ONE_THREAD},
    {.workload = "W4", .name = "os", .refuses = common, .run = run_commits,
     .what = "transactions of one update each, the log handed to the operating system at commit",
     .load = load_records, .level = BENCH_OS, .txn_ops = 1, RECORDS, .seconds = 3,
     .threads = {{1, 2}, 2}},
    {.workload = "W4", .name = "process", .refuses = common, .run = run_commits,
     .what = "transactions of one update each, the log left in the process at commit",
     .load = load_records, .level = BENCH_PROCESS, .txn_ops = 1, RECORDS, .seconds = 3,
     .threads = {{1, 2}, 2}},
    {.workload = "W5", .name = "lookup", .refuses = refuses_w5, .run = run_lookups,
     .what = "N random lookups of cached records, split over the threads",
     .load = load_records, .level = BENCH_OS, .n = 500000, .txn_ops = 1, RECORDS,
     .threads = {{1, 2, 8, 64, 250}, 5}},
    {.workload = "W5", .name = "lookup-64", .refuses = refuses_many, .run = run_lookups_many,
     .what = "N random lookups of cached records, 64 keys a call, split over the threads",
     .load = load_records, .level = BENCH_OS, .n = 500000, .txn_ops = 1, RECORDS,
     .threads = {{1, 2}, 2}},
    {.workload = "W6", .name = "recovery-warm", .refuses = common,
     .run = run_recovery, .prepare = run_transactions_and_die,
     .what = "after N transactions of one update and kill -9: time to open and answer a read",
     .load = load_records, .level = BENCH_OS, .n = 200000, .txn_ops = 1, RECORDS, ONE_THREAD,
     .keep_log = true},
    {.workload = "W6", .name = "recovery-cold", .refuses = common,
     .run = run_recovery, .prepare = run_transactions_and_die,
     .what = "as recovery-warm, but nothing is in the operating system's cache",
     .load = load_records, .level = BENCH_OS, .n = 200000, .txn_ops = 1, RECORDS, ONE_THREAD,
     .keep_log = true, .cold = true},
    {.workload = "W7", .name = "update", .refuses = common, .run = run_large,
     .what = "N random updates, 100 a transaction, in a database 16 times as large as the cache",
     .load = load_records, .level = BENCH_OS, .n = 200000, .records = 10 * MILLION, .txn_ops = 100,
     .key_size = 8, .value_size = 100, .cache = SMALL_CACHE, ONE_THREAD, .in_order = true},
    {.workload = "W8", .name = "latency", .refuses = refuses_w8, .run = run_latency,
     .what = "durable transactions: full load; half load without and with checkpoints",
     .load = load_records, .level = BENCH_DISK, .txn_ops = 1, RECORDS, .seconds = 6,
     .threads = {{8}, 1}},
    {.workload = "W9", .name = "rollback", .refuses = common, .run = run_rollback,
     .what = "N updates of one transaction rolled back",
     .load = load_records, .level = BENCH_DISK, .n = MILLION, RECORDS, ONE_THREAD},
    {.workload = "W11", .name = "load", .refuses = refuses_w11, .run = run_load,
     .what = "N records in random order, 1000 a transaction, 16-byte keys, into an empty database",
     .level = BENCH_OS, .n = 10 * MILLION, .txn_ops = 1000, ORDERED},
    {.workload = "W11", .name = "lookup", .refuses = refuses_w11, .run = run_ordered_lookups,
     .what = "N random lookups of the records of W11 load",
     .load = load_records, .level = BENCH_OS, .n = MILLION, .records = 10 * MILLION,
     .txn_ops = 1000, ORDERED},
    {.workload = "W11", .name = "scan", .refuses = refuses_w11, .run = run_scans,
     .what = "N scans of 100 records in key order, each from a random key on",
     .load = load_records, .level = BENCH_OS, .n = 100000, .records = 10 * MILLION,
     .txn_ops = 1000, ORDERED},
    {.workload = "W12", .name = "backup", .refuses = refuses_w12, .run = run_backup,
     .what = "files copied; a backup of the open database; commits without and beside backups",
     .load = load_records, .level = BENCH_DISK, .records = 10 * MILLION, .txn_ops = 1,
     .key_size = 8, .value_size = 100, .cache = CACHE, .seconds = 6, .threads = {{8}, 1},
     .in_order = true},
    {.workload = NULL}};
