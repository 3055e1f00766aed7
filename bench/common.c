/* SPDX-License-Identifier: BSD-2-Clause */
/* Directories, medians, JSON lines and counters for the benchmarks; see common.h. */
#include "common.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static uint64_t clock_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t bench_now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

uint64_t bench_cpu_ns(void)
{
    return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

uint64_t bench_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

uint64_t bench_instructions(void)
{
    static _Thread_local int fd = -2;
    if (fd == -2) {
        struct perf_event_attr a;
        memset(&a, 0, sizeof a);
        a.type = PERF_TYPE_HARDWARE;
        a.size = sizeof a;
        a.config = PERF_COUNT_HW_INSTRUCTIONS;
        a.exclude_kernel = 1;
        fd = (int)syscall(SYS_perf_event_open, &a, 0, -1, -1, 0);
    }
    uint64_t n = 0;
    if (fd < 0 || read(fd, &n, sizeof n) != (ssize_t)sizeof n)
        return 0;
    return n;
}

void bench_add(struct bench_figure *f, double value)
{
    if (f->n < (int)(sizeof f->sample / sizeof f->sample[0]))
        f->sample[f->n++] = value;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(const struct bench_figure *f)
{
    double sorted[64];
    if (f->n == 0)
        return 0;
    memcpy(sorted, f->sample, (size_t)f->n * sizeof sorted[0]);
    qsort(sorted, (size_t)f->n, sizeof sorted[0], compare);
    return f->n % 2 ? sorted[f->n / 2] : (sorted[f->n / 2 - 1] + sorted[f->n / 2]) / 2;
}

void bench_print(const char *bench, const char *what, const char *unit,
                 const struct bench_figure *f, const char *target, const char *limit)
{
    double low = f->n ? f->sample[0] : 0, high = low;
    for (int i = 1; i < f->n; i++) {
        low = f->sample[i] < low ? f->sample[i] : low;
        high = f->sample[i] > high ? f->sample[i] : high;
    }
    printf("{\"bench\":\"%s\",\"case\":\"%s\",\"unit\":\"%s\",\"median\":%.6g,\"min\":%.6g,"
           "\"max\":%.6g,\"runs\":%d",
           bench, what, unit, bench_median(f), low, high, f->n);
    if (target)
        printf(",\"target\":\"%s\"", target);
    if (limit)
        printf(",\"limit\":\"%s\"", limit);
    printf("}\n");
    fflush(stdout);
}

void bench_must(int rc, const char *what)
{
    if (rc == 0)
        return;
    fprintf(stderr, "bench: %s failed: %d\n", what, rc);
    exit(1);
}

void bench_make_dir(char path[256])
{
    const char *tmp = getenv("TMPDIR");
    snprintf(path, 256, "%s/lladd-bench-XXXXXX", tmp && strlen(tmp) < 200 ? tmp : "/tmp");
    if (!mkdtemp(path)) {
        perror(path);
        exit(1);
    }
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

void bench_remove_dir(const char *path)
{
    if (nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0)
        perror(path);
}

void bench_drop_cached(const char *path)
{
    struct dirent *e;
    DIR *d = opendir(path);
    bench_must(d ? 0 : -1, path);
    while ((e = readdir(d)) != NULL) {
        int fd = e->d_type == DT_REG ? openat(dirfd(d), e->d_name, O_RDONLY | O_CLOEXEC) : -1;
        if (fd < 0)
            continue;
        bench_must(fdatasync(fd), "fdatasync");
        bench_must(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), "fadvise");
        close(fd);
    }
    closedir(d);
}
