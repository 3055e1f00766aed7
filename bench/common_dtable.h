/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef BENCH_COMMON_DTABLE_H
#define BENCH_COMMON_DTABLE_H
/* What the benchmarks of dTables share. */
#include "common.h"

#include <lladd/dtable_managed.h>

/* A database in memory that nobody waits for, with managed tables. */
void bench_dtable_open(struct lladd_device **, struct lladd_db **);
/* Whether a value was found: of its bytes, if it has some, the first is read, as by whoever wants
 * it. */
bool bench_dtable_seen(const struct lladd_dtable_value *);
/* Walks through all of `rows`, backward from the last one if need be: millions of rows a second. */
double bench_dtable_scan(const struct lladd_dtable *, uint64_t rows);
double bench_dtable_scan_back(const struct lladd_dtable *, uint64_t rows);
/* What reading a table of so many rows costs. A round that does not count brings it into the cache;
 * `lookup`: nanoseconds of one, measured by the caller before. */
struct bench_reads {
    struct bench_figure lookup, forward, backward;
};
#define BENCH_NO_READS {{.n = 0}, {.n = 0}, {.n = 0}}
void bench_dtable_read(struct bench_reads *, const struct lladd_dtable *, uint64_t rows,
                       double lookup, bool counts);

#endif
