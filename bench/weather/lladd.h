/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_BENCH_WEATHER_LLADD_H
#define LL_BENCH_WEATHER_LLADD_H
/* Tables of this library for bench-weather. */
#include "store.h"

#include <lladd/ctable.h>

struct weather_table {
    struct lladd_db *db;
    struct lladd_managed *t;
    struct lladd_ctable *columns; /* NULL: the values are not packed rows */
    struct lladd_txn *reader;
    struct lladd_dtable_pin pin;
    uint64_t put; /* tuples put: the position of an unlogged table */
    unsigned reads;
    bool unlogged;
};

struct weather_table_setup {
    bool unlogged, packed;
    const char *config;
    enum lladd_managed_schedule schedule;
    uint64_t memory_bytes, page_bytes, block_bytes; /* of C0, and of both caches */
    unsigned threads;
};

/* The configuration of pages of columns. */
extern const char weather_pages[];

struct weather_table *weather_table_open(const char *dir, const struct weather_table_setup *);
void weather_table_put(void *, const struct weather_tuple *, size_t n);
void weather_table_close(void *);

#endif
