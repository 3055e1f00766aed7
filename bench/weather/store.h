/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_BENCH_WEATHER_STORE_H
#define LL_BENCH_WEATHER_STORE_H
/* One interface for all stores that bench-weather loads with tuples. Each call ends the program if
 * it fails. */
#include "common_weather.h"

#include <lladd/bytes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BENCH_WEATHER "weather"
/* Tuples of a batch, which is a transaction. */
enum { WEATHER_BATCH = 1000 };

struct weather_store {
    const char *name;
    /* Makes an empty store in an empty directory. `memory`: bytes that it may use in all; a quarter
     * is for the blocks that it caches, and the rest, nearly, for tuples that are not in files. */
    void *(*open)(const char *dir, uint64_t memory);
    void (*put)(void *, const struct weather_tuple *, size_t n); /* at most WEATHER_BATCH */
    void (*settle)(void *); /* stores all tuples in one sorted run, or in one level */
    uint64_t (*bytes)(void *); /* of all files that have tuples, after `settle` */
    /* Is the tuple there? */
    bool (*get)(void *, const struct weather_tuple *);
    /* Reads all tuples in the order of their keys. Returns their number, and adds all
     * temperatures to *sum. NULL: the store takes part in `column` only. */
    uint64_t (*scan)(void *, int64_t *sum);
    uint64_t (*column)(void *, int64_t *sum); /* the same, but reads only the temperatures */
    void (*report)(void *, const char *name); /* prints figures of its own; nullable */
    void (*close)(void *);
};

/* This library's. lladd-unlogged: an unlogged table; lladd-journal: a logged one; both have pages
 * of columns. lladd-rows: an unlogged table of whole rows. lladd-columns: a cTable, for
 * `column`. */
extern const struct weather_store weather_lladd_unlogged, weather_lladd_journal, weather_lladd_rows,
    weather_lladd_columns;
/* RocksDB with LZ4: without a log, the same past the operating system's cache, and with a log. */
extern const struct weather_store weather_rocksdb, weather_rocksdb_direct, weather_rocksdb_log;
/* LevelDB with Snappy. It always has a log. */
extern const struct weather_store weather_leveldb;

/* Bytes of the files in `dir` with names that end with `ending`. */
uint64_t weather_files(const char *dir, const char *ending);
void weather_print(const char *store, const char *what, const char *unit, double value,
                   const char *target);
static inline int32_t weather_temperature(const void *value)
{
    return (int32_t)lladd_get32((const unsigned char *)value + 16);
}

/* Measures the cost of tuples for many sizes of C0 beside the model (docs/levels.md). */
void weather_model(const struct weather_tuple *, size_t n, uint64_t memory);

#endif
