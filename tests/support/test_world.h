/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SUPPORT_TEST_WORLD_H
#define SUPPORT_TEST_WORLD_H
/*
 * Time, random numbers and named points under a test's control.
 *
 *     struct test_world w;
 *     test_world_init(&w, 42);                     clock at 1 s, random numbers from seed 42
 *     options.world = &w.world;
 *     test_world_advance(&w, 1000000);             a millisecond passes
 *
 *     test_world_fail_at(&w, "log.segment.create", 2, ENOSPC);    the second passage fails
 *
 *     test_world_stop_at(&w, "log.group.before_sync");            threads stop at the point
 *     ... start the thread ...
 *     test_world_await(&w, "log.group.before_sync", 1);           until one thread has stopped
 *     ... look at the state ...
 *     test_world_release(&w, "log.group.before_sync");            they go on; later ones pass
 *
 * A point is identified by its full name. Any thread may call these functions.
 */
#include <lladd/device.h>

#include <pthread.h>

struct test_point;

struct test_world {
    struct lladd_environment world; /* for the code under test */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct test_point *points;
    uint64_t now_ns;
    int64_t wall_us;
    uint64_t random;
};

void test_world_init(struct test_world *, uint64_t seed);
void test_world_free(struct test_world *); /* no thread may be stopped at a point */
void test_world_advance(struct test_world *, uint64_t ns);

/* The n-th passage from now fails with -err; later passages do not fail. 1 is the next passage, and
 * with 0 none fails. */
void test_world_fail_at(struct test_world *, const char *point, uint64_t n, int err);
uint64_t test_world_passed(struct test_world *, const char *point);

void test_world_stop_at(struct test_world *, const char *point);
/* Waits until `threads` threads have stopped at the point; returns false after ten minutes. */
bool test_world_await(struct test_world *, const char *point, unsigned threads);
void test_world_release(struct test_world *, const char *point);

#endif
