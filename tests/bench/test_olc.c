/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests the benchmark's B+tree in memory (bench/engines/olc.c). Threads insert keys, each in an
 * order of its own, so that leaves and inner nodes split. Meanwhile other threads look keys up and
 * scan: a key that was there before is found with its value, and a scan is in order. At the end all
 * rows are there, also after a close and an open. The test runs under TSan.
 */
#include "engines/engine.h"
#include "support/fixtures.h"

#include <check.h>
#include <lladd/sync.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WRITERS = 4, READERS = 2, EACH = 20000, STAY = 4000, APART = 100, VALUE = 100, SCAN = 150 };

extern const struct bench_engine bench_engine_olc;
static const struct bench_engine *const olc = &bench_engine_olc;
static struct bench_db *db;
static struct bench_setup setup;
static uint64_t working; /* number of writers that have not finished */

struct job {
    struct lladd_thread thread;
    uint64_t id;
};

/* The tree reports a failure with this function. */
int bench_failed(const char *engine, const char *what, const char *why)
{
    fprintf(stderr, "%s: %s: %s\n", engine, what, why);
    return BENCH_FAILED;
}

static void value_of(uint64_t key, unsigned char out[VALUE])
{
    memset(out, (int)(key % 251), VALUE);
    memcpy(out, &key, sizeof key);
}

static void put(uint64_t key)
{
    unsigned char value[VALUE];
    value_of(key, value);
    sure(olc->insert(db, NULL, key, value) == 0, "an insert failed");
}

static void look(uint64_t key)
{
    unsigned char got[VALUE], want[VALUE];
    value_of(key, want);
    sure(olc->lookup(db, NULL, key, got) == 0, "a key is not found");
    sure(memcmp(got, want, VALUE) == 0, "a key has another value");
}

/* The test inserts the multiples of APART before the threads start: these are the keys that stay. A
 * writer's keys lie between and after them. */
static uint64_t key_of(uint64_t id, uint64_t i)
{
    return i * 1237 % EACH * (APART / 5) + id + 1;
}

static void *write_all(void *arg)
{
    const struct job *j = arg;
    for (uint64_t i = 0; i < EACH; i++) {
        put(key_of(j->id, i));
        look(key_of(j->id, i / 2));
    }
    (void)lladd_atomic_sub64(&working, 1);
    return NULL;
}

/* Scans from a key that stays. The scan must begin with this key, ascend, and return all later keys
 * that stay. */
static void scan_from(uint64_t key)
{
    unsigned char values[SCAN][VALUE], want[VALUE];
    const uint64_t end = (uint64_t)STAY * APART;
    uint64_t now, before = 0, stays = key; /* the next key that stays; `end`: none */
    uint32_t seen = 0;
    sure(olc->scan(db, NULL, key, SCAN, values, &seen) == 0 && seen > 0, "a scan failed");
    for (uint32_t i = 0; i < seen; i++) {
        memcpy(&now, values[i], sizeof now);
        value_of(now, want);
        sure(memcmp(values[i], want, VALUE) == 0, "a scan shows another value");
        sure(i == 0 || now > before, "a scan does not ascend");
        sure(now <= stays || stays == end, "a scan leaves out a key");
        stays += now == stays ? APART : 0;
        before = now;
    }
}

static void *read_all(void *arg)
{
    const struct job *j = arg;
    uint64_t seed = j->id;
    do {
        for (int i = 0; i < 100; i++)
            look(seeded_next(&seed) % STAY * APART);
        scan_from(seeded_next(&seed) % STAY * APART);
    } while (lladd_atomic_load64(&working));
    return NULL;
}

static void check_all(void)
{
    for (uint64_t i = 0; i < STAY; i++)
        look(i * APART);
    for (uint64_t id = 0; id < WRITERS; id++)
        for (uint64_t i = 0; i < EACH; i++)
            look(key_of(id, i));
    unsigned char none[VALUE];
    ck_assert_int_eq(olc->lookup(db, NULL, UINT64_MAX, none), BENCH_ABSENT);
}

START_TEST(threads)
{
    struct job jobs[WRITERS + READERS];
    char *dir = temp_dir_new();
    setup = (struct bench_setup){.dir = dir, .key_size = 8, .value_size = VALUE};
    ck_assert_int_eq(olc->open(&setup, &db), 0);
    for (uint64_t i = 0; i < STAY; i++)
        put(i * APART);
    working = WRITERS;
    for (uint64_t i = 0; i < WRITERS + READERS; i++) {
        jobs[i].id = i;
        ck_assert_int_eq(lladd_thread_start(&jobs[i].thread, i < WRITERS ? write_all : read_all,
                                            &jobs[i]),
                         0);
    }
    for (uint64_t i = 0; i < WRITERS + READERS; i++)
        lladd_thread_join(&jobs[i].thread);
    check_all();
    ck_assert_int_eq(olc->close(db), 0);
    ck_assert_int_eq(olc->open(&setup, &db), 0);
    check_all();
    ck_assert_int_eq(olc->close(db), 0);
    temp_dir_remove(dir);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("the bench's tree in memory");
    TCase *c = tcase_create("threads");
    tcase_add_test(c, threads);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
