/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_BENCH_ENGINE_H
#define LL_BENCH_ENGINE_H
/* One table of engines, ours and the peers', so that a workload is written once.
 *
 * An engine is a way to store fixed-length values under 64-bit integer keys, in transactions. The
 * workload hands out keys as numbers; each engine encodes them in its best form, `key_size` bytes
 * long. To add one: a file with a `struct bench_engine`, and a line in engines.c.
 *
 * Calls return 0, BENCH_ABSENT, BENCH_AGAIN (roll back, try again) or BENCH_FAILED with a message
 * on stderr. Of those that are NULL the engine is not capable; workloads skip it by name. */
#include <stddef.h>
#include <stdint.h>

enum { BENCH_ABSENT = 1, BENCH_AGAIN = 2, BENCH_FAILED = -1 };

struct bench_setup {
    const char *dir; /* empty, or that of the database to be opened again */
    uint64_t cache_bytes;
    uint64_t expected; /* elements: a hint for those who can use it */
    uint32_t key_size; /* 4 or 8 */
    uint32_t value_size;
    uint32_t threads; /* that will be using it */
};

struct bench_db;  /* each engine's own */
struct bench_txn; /* likewise */

struct bench_engine {
    const char *name;
    const char *(*version)(void);
    const char *settings; /* one line */
    /* Creates, or opens what is there. */
    int (*open)(const struct bench_setup *, struct bench_db **);
    int (*close)(struct bench_db *); /* cleanly, everything on the disk */
    int (*begin)(struct bench_db *, struct bench_txn **);
    int (*commit)(struct bench_db *, struct bench_txn *); /* durable */
    int (*abort)(struct bench_db *, struct bench_txn *);
    /* A key that is not there. */
    int (*insert)(struct bench_db *, struct bench_txn *, uint64_t key, const void *value);
    /* A key that is there. */
    int (*update)(struct bench_db *, struct bench_txn *, uint64_t key, const void *value);
    int (*lookup)(struct bench_db *, uint64_t key, void *value);
    /* n keys at a time; found[i] says which were there. */
    int (*lookup_many)(struct bench_db *, const uint64_t *keys, size_t n, void *values,
                       unsigned char *found);
    /* Elements 0, 1, 2 ... instead of keys: `count` of them from `first` on. */
    int (*fill)(struct bench_db *, struct bench_txn *, uint64_t first, uint64_t count,
                const void *values);
    /* Log bytes written and pages read and written so far; 0 where it does not say. */
    void (*io)(struct bench_db *, uint64_t *log_bytes, uint64_t *pages_read,
               uint64_t *pages_written);
};

/* Those that were found at configure time, in an array that ends with NULL. */
extern const struct bench_engine *const bench_engines[];
/* Names of those that were not, and why; ends with NULL. */
extern const char *const bench_engines_missing[];
const struct bench_engine *bench_engine_find(const char *name);

#endif
