/* SPDX-License-Identifier: BSD-2-Clause */
/* See test_world.h. */
#include "support/test_world.h"

#include "support/fixtures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { AWAIT_SECONDS = 600 };

struct test_point {
    struct test_point *next;
    char *name;
    uint64_t passed;
    uint64_t fail_on; /* number of the passage that fails; 0: none */
    int err;
    bool stops;
    uint64_t releases; /* number of calls of test_world_release. A stopped thread goes on when this
                        * number changes, even if the point stops threads again by then */
    unsigned standing;
};

/* Call with the mutex held. Makes the point when its name is first used. */
static struct test_point *point_called(struct test_world *w, const char *name)
{
    struct test_point *p = w->points;
    while (p && strcmp(p->name, name) != 0)
        p = p->next;
    if (p)
        return p;
    p = calloc(1, sizeof *p);
    char *copy = strdup(name);
    if (!p || !copy) {
        (void)fprintf(stderr, "test_world: out of memory\n");
        abort();
    }
    p->name = copy;
    p->next = w->points;
    w->points = p;
    return p;
}

static int pass_point(void *ctx, const char *name)
{
    struct test_world *w = ctx;
    int rc = 0;
    pthread_mutex_lock(&w->mutex);
    struct test_point *p = point_called(w, name);
    p->passed++;
    if (p->passed == p->fail_on)
        rc = -p->err;
    if (p->stops) {
        uint64_t came_at = p->releases;
        p->standing++;
        pthread_cond_broadcast(&w->changed);
        while (p->releases == came_at)
            pthread_cond_wait(&w->changed, &w->mutex);
        p->standing--;
        pthread_cond_broadcast(&w->changed);
    }
    pthread_mutex_unlock(&w->mutex);
    return rc;
}

static uint64_t now(void *ctx)
{
    struct test_world *w = ctx;
    return __atomic_load_n(&w->now_ns, __ATOMIC_RELAXED);
}

static int64_t wall(void *ctx)
{
    struct test_world *w = ctx;
    return __atomic_load_n(&w->wall_us, __ATOMIC_RELAXED);
}

static int random_bytes(void *ctx, void *buf, size_t len)
{
    struct test_world *w = ctx;
    pthread_mutex_lock(&w->mutex);
    uint64_t seed = seeded_next(&w->random);
    pthread_mutex_unlock(&w->mutex);
    seeded_fill(seed, buf, len);
    return 0;
}

void test_world_init(struct test_world *w, uint64_t seed)
{
    memset(w, 0, sizeof *w);
    pthread_mutex_init(&w->mutex, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&w->changed, &attr);
    pthread_condattr_destroy(&attr);
    w->now_ns = 1000000000u;
    w->wall_us = 1700000000000000;
    w->random = seed;
    w->world.ctx = w;
    w->world.now_ns = now;
    w->world.wall_us = wall;
    w->world.random = random_bytes;
    w->world.point = pass_point;
}

void test_world_free(struct test_world *w)
{
    while (w->points) {
        struct test_point *p = w->points;
        w->points = p->next;
        free(p->name);
        free(p);
    }
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->mutex);
}

void test_world_advance(struct test_world *w, uint64_t ns)
{
    __atomic_add_fetch(&w->now_ns, ns, __ATOMIC_RELAXED);
    __atomic_add_fetch(&w->wall_us, (int64_t)(ns / 1000), __ATOMIC_RELAXED);
}

void test_world_fail_at(struct test_world *w, const char *point, uint64_t n, int err)
{
    pthread_mutex_lock(&w->mutex);
    struct test_point *p = point_called(w, point);
    p->fail_on = n == 0 ? 0 : p->passed + n;
    p->err = err;
    pthread_mutex_unlock(&w->mutex);
}

uint64_t test_world_passed(struct test_world *w, const char *point)
{
    pthread_mutex_lock(&w->mutex);
    uint64_t n = point_called(w, point)->passed;
    pthread_mutex_unlock(&w->mutex);
    return n;
}

void test_world_stop_at(struct test_world *w, const char *point)
{
    pthread_mutex_lock(&w->mutex);
    point_called(w, point)->stops = true;
    pthread_mutex_unlock(&w->mutex);
}

bool test_world_await(struct test_world *w, const char *point, unsigned threads)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += AWAIT_SECONDS;
    int rc = 0;
    pthread_mutex_lock(&w->mutex);
    const struct test_point *p = point_called(w, point);
    while (p->standing < threads && rc == 0)
        rc = pthread_cond_timedwait(&w->changed, &w->mutex, &until);
    bool there = p->standing >= threads;
    pthread_mutex_unlock(&w->mutex);
    return there;
}

void test_world_release(struct test_world *w, const char *point)
{
    pthread_mutex_lock(&w->mutex);
    struct test_point *p = point_called(w, point);
    p->stops = false;
    p->releases++;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->mutex);
}
