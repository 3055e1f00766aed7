/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef BENCH_COMMON_DTABLE_H
#define BENCH_COMMON_DTABLE_H
/* Shared by the benchmarks of dTables. */
#include "common.h"

#include <lladd/dtable_managed.h>

/* Opens an empty database in memory, in which managed tables can be made. Commits do not wait for a
 * sync of the log. */
void bench_dtable_open(struct lladd_device **, struct lladd_db **);
/* Returns whether a value was found. Reads the first byte of the value, as its user would. */
bool bench_dtable_seen(const struct lladd_dtable_value *);
/* Read all rows with a cursor: bench_dtable_scan forward, bench_dtable_scan_back backward. End the
 * program unless there are `rows` rows. Return millions of rows per second. */
double bench_dtable_scan(const struct lladd_dtable *, uint64_t rows);
double bench_dtable_scan_back(const struct lladd_dtable *, uint64_t rows);
/* The cost of reading a table. bench_dtable_read scans the table forward and backward. If `counts`,
 * it adds the results of the scans to the figures, and also `lookup`, the nanoseconds per lookup
 * that the caller has measured. Otherwise it only fills the cache. */
struct bench_reads {
    struct bench_figure lookup, forward, backward;
};
#define BENCH_NO_READS {{.n = 0}, {.n = 0}, {.n = 0}}
void bench_dtable_read(struct bench_reads *, const struct lladd_dtable *, uint64_t rows,
                       double lookup, bool counts);

#endif
