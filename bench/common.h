/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_BENCH_COMMON_H
#define LL_BENCH_COMMON_H
/* Shared by all benches: clocks, figures with their median, JSON lines. A bench is not a test: it
 * asserts nothing about time, but it stops when a call fails. */
#include <stddef.h>
#include <stdint.h>

#define BENCH_RUNS 5

uint64_t bench_now_ns(void); /* monotonic */
uint64_t bench_cpu_ns(void); /* of the process */
uint64_t bench_random(uint64_t *state);
/* Instructions of this thread in user mode so far; 0: the machine does not count them. */
uint64_t bench_instructions(void);

/* One figure: up to 64 samples, usually BENCH_RUNS. It is printed as one JSON line with the median,
 * the smallest and the largest. */
struct bench_figure {
    double sample[64];
    int n;
};
void bench_add(struct bench_figure *, double value);
double bench_median(const struct bench_figure *);
/* {"bench":..., "case":..., "unit":..., "median":..., "min":..., "max":..., "runs":n, "target":...,
 * "limit":...}. `target` is what the project wants to reach, `limit` is what a bare prototype
 * reached. Both are strings; NULL: left out. */
void bench_print(const char *bench, const char *what, const char *unit, const struct bench_figure *,
                 const char *target, const char *limit);
/* Ends the program with a message if rc is not 0. */
void bench_must(int rc, const char *what);
/* Makes an empty directory below $TMPDIR or /tmp; bench_remove_dir removes a directory with all its
 * contents. */
void bench_make_dir(char path[256]);
void bench_remove_dir(const char *path);
/* Syncs the files of the directory, not those of its subdirectories, and drops them from the
 * operating system's cache. */
void bench_drop_cached(const char *path);

#endif
