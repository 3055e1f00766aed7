/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_BENCH_DRIVER_H
#define LL_BENCH_DRIVER_H
/* The benchmark driver: cases of workloads, each run with each engine in a process of its own.
 *
 * main.c reads the command line. plan.c goes through the cells and forks a process for each. A cell
 * is a case with an engine, a number of operations and a number of threads. rows.c writes the
 * results. The workloads are in backup.c, bulk.c, commit.c, latency.c, ordered.c, read.c and
 * recovery.c. Their functions run in the child process: they open the engine, measure, and send
 * rows to the parent. count.c counts system calls. */
#include "engines/engine.h"

#include <stdio.h>

#define ROW_SLICES 400
#define NAMES_MAX 32

/* ---- the command line ------------------------------------------------------------------------ */

struct list {
    uint64_t v[16];
    int n;
};

struct plan {
    const struct bench_case *cases[NAMES_MAX];
    int n_cases;
    const struct bench_engine *engines[64];
    int n_engines;
    const struct bench_missing *skipped[NAMES_MAX];
    int n_skipped;
    struct list n, threads;           /* empty: the defaults of the case */
    uint64_t records, cache, seconds; /* 0: the default of the case */
    uint32_t key_size, value_size;    /* 0: the default of the case */
    int runs;
    unsigned limit_seconds;
    const char *dir;
    FILE *json; /* NULL: none */
    const char *json_name;
    bool quiet; /* no table: the JSON goes to standard output */
    bool dry;   /* shows the rows, without numbers, and measures nothing */
};

/* ---- cells and rows -------------------------------------------------------------------------- */

struct cell {
    const struct bench_case *c;
    const struct bench_engine *engine;
    uint64_t n; /* operations; 0: as many as fit the time */
    uint64_t records;
    uint64_t cache;
    uint64_t seconds;
    uint32_t key_size, value_size, threads;
    int run;
    char dir[512]; /* the directory of the database */
    int rows;      /* file descriptor to which rows are written */
};

/* Totals, not rates; rows.c divides. NAN: unknown or not applicable. */
struct row {
    char name[24]; /* distinguishes the rows of a cell; empty: the name of the case */
    uint64_t ops, retries;
    double elapsed_s, cpu_us, p50_us, p99_us, p999_us;
    double log_bytes, written_bytes, device_bytes, syncs, pages_read, pages_written;
    double close_s; /* duration of the close; in W1 and W2 a part of `elapsed_s` */
    double peak_mib;
    /* Operations per slice of time, and when a checkpoint ran; for charts. */
    double slice_s, mark_from_s, mark_to_s;
    uint32_t n_slices, slices[ROW_SLICES];
    char failure[200]; /* empty: none */
};

struct bench_case {
    const char *workload, *name, *what;
    /* Why this engine cannot run the case; NULL if it can. */
    const char *(*refuses)(const struct bench_engine *, const struct cell *);
    int (*run)(const struct cell *); /* in the child; not 0: failed, with a message on stderr */
    /* Both run before `run`, each in a child of its own, and report failures as `run` does. NULL:
     * the case has none. */
    int (*load)(const struct cell *);    /* makes the database, once for all similar cells */
    int (*prepare)(const struct cell *); /* before each run; may end by SIGKILL */
    enum bench_level level;
    uint64_t n, records, txn_ops; /* txn_ops 0: n */
    uint64_t cache;
    uint32_t key_size, value_size;
    struct list threads;
    uint64_t seconds;
    bool in_order; /* keys are the records' numbers, not mixed */
    bool keep_log;
    bool cold; /* files are dropped from the operating system's cache before each run */
};
extern const struct bench_case bench_cases[]; /* ends with workload NULL */

int plan_run(const struct plan *);
void rows_head(const struct plan *);
void rows_put(const struct plan *, const struct cell *, const struct row *);
void rows_skipped(const struct plan *, const char *workload, const char *engine, const char *why);

/* ---- for workloads --------------------------------------------------------------------------- */

/* Latencies in buckets 3 % wide, which bounds the error of a percentile. */
#define HIST_BUCKETS (64 * 32)
struct hist {
    uint64_t count;
    uint32_t bucket[HIST_BUCKETS];
};
void hist_add(struct hist *, uint64_t ns);
void hist_merge(struct hist *, const struct hist *);
double hist_us(const struct hist *, double quantile); /* NAN if it is empty */

/* The process's requests to the operating system so far. */
struct counts {
    uint64_t syncs;         /* fsync, fdatasync, msync(MS_SYNC), writes on O_SYNC, O_DSYNC files */
    uint64_t written_bytes; /* by write, pwrite and the like; not by writes through mmap */
    uint64_t log_bytes;     /* the part of written_bytes that went to log files */
};
void count_log_files(const char *names); /* as in bench_engine.log_files */
void count_read(struct counts *);
/* Bytes that all processes have written to the directory's device so far; NAN: unknown. */
double count_device_bytes(const char *dir);

/* The counters at the beginning of a measurement. */
struct meter {
    uint64_t t0, cpu0;
    double device0;
    struct counts counts0;
    double log0, read0, written0;
};
void meter_start(struct meter *, const struct cell *, struct bench_db *);
void meter_stop(const struct meter *, const struct cell *, struct bench_db *, struct row *);

/* The key of record i. Keys are mixed, so that inserts come in random order, unless the case is
 * `in_order` or the engine `numbered`. */
uint64_t cell_key(const struct cell *, uint64_t i);
struct bench_setup cell_setup(const struct cell *, uint64_t expected);
int cell_open(const struct cell *, uint64_t expected, struct bench_db **);
int cell_join(const struct cell *, struct bench_db *, struct bench_thread **);
void cell_leave(const struct cell *, struct bench_db *, struct bench_thread *);
/* The value of record i after its update `version` (0: as loaded). */
void cell_value(const struct cell *, uint64_t i, uint32_t version, void *value);
void cell_send(const struct cell *, struct row *);
struct row row_init(const char *name);
void row_latencies(struct row *, const struct hist *);
/* Ends a transaction after its operations have returned rc. 0: commits. BENCH_AGAIN: rolls back,
 * and returns BENCH_AGAIN. Any other rc is returned at once, and the process then ends. */
int cell_end(const struct cell *, struct bench_db *, struct bench_txn *, int rc);
/* Updates a key that no other thread changes, in a transaction of its own. Repeats the transaction
 * on BENCH_AGAIN. */
int cell_update(const struct cell *, struct bench_db *, struct bench_thread *, uint64_t i,
                uint32_t version, uint64_t *retries);
int load_records(const struct cell *); /* loads cell->records records, and closes the database */

/* Threads that begin at the same time. */
struct worker {
    const struct cell *cell;
    struct bench_db *db;
    struct bench_thread *thread;
    void *shared; /* data of the workload, shared by its workers */
    uint32_t index;
    uint64_t ops, retries, seed;
    struct hist hist;
    int rc;
};
typedef int worker_fn(struct worker *);
/* Runs fn in the cell's threads, and measures it; adds the results of all threads to the row. */
int workers_run(const struct cell *, struct bench_db *, worker_fn *, void *shared, struct row *);
/* Runs a whole cell of lookups or scans: opens the database, calls `warm` to read the records, runs
 * fn, closes the database, and sends the row. */
int workers_run_warm(const struct cell *, int (*warm)(const struct cell *, struct bench_db *),
                     worker_fn *);

/* ---- the workloads --------------------------------------------------------------------------- */

int run_insert(const struct cell *);
int run_fill(const struct cell *);
int load_fill(const struct cell *);
int run_overwrite(const struct cell *);
int run_large(const struct cell *);
int run_rollback(const struct cell *);
int run_commits(const struct cell *);
int run_async(const struct cell *);
int run_latency(const struct cell *);
int run_lookups(const struct cell *);
int run_lookups_many(const struct cell *);
int run_transactions_and_die(const struct cell *);
int run_recovery(const struct cell *);
int run_load(const struct cell *);
int run_ordered_lookups(const struct cell *);
int run_scans(const struct cell *);
int run_backup(const struct cell *);

#endif
