/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef BENCH_COMMON_DTABLE_H
#define BENCH_COMMON_DTABLE_H
/* Shared by the benchmarks of dTables. */
#include "common.h"

#include <lladd/dtable_managed.h>

/* A database in memory with managed tables; its commits do not wait. */
void bench_dtable_open(struct lladd_device **, struct lladd_db **);
/* Whether a value was found. Reads its first byte, if it has one, as a user of the value would. */
bool bench_dtable_seen(const struct lladd_dtable_value *);
/* Walks through `rows` rows, forward or (_back) backward from the last: millions of rows a
 * second. */
double bench_dtable_scan(const struct lladd_dtable *, uint64_t rows);
double bench_dtable_scan_back(const struct lladd_dtable *, uint64_t rows);
/* The cost of reading a table of `rows` rows. A run that does not count fills the cache. `lookup`:
 * nanoseconds per lookup, as the caller has measured. */
struct bench_reads {
    struct bench_figure lookup, forward, backward;
};
#define BENCH_NO_READS {{.n = 0}, {.n = 0}, {.n = 0}}
void bench_dtable_read(struct bench_reads *, const struct lladd_dtable *, uint64_t rows,
                       double lookup, bool counts);

#endif
