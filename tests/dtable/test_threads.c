/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many threads read one run, which is larger than the block cache. So blocks are loaded, waited for
 * and evicted all the time. Every thread must see the stored rows. Threads also write to a table in
 * memory while other threads scan the table. In an overlay of this table, the other threads look up
 * rows that were just put.
 */
#include "model.h"

#include <lladd/sync.h>

static struct fixture b;
enum { THREADS = 8, LOOKUPS = 3000, WRITES = 400, MIDDLE = 100000 };

struct job {
    const struct model *m;
    struct lladd_dtable *run, *memory, *over;
    uint64_t seed, compared;
    struct lladd_error err;
    const char *wrong; /* the first error, because threads do not assert */
    uint64_t put;      /* the last key that the thread has put; atomic */
    struct job *next;  /* the job of another thread */
};

#define MUST(job, condition) \
    do { \
        if (!(condition) && !(job)->wrong) \
            (job)->wrong = #condition; \
    } while (0)

static void look(struct job *j, uint64_t r, struct lladd_dtable_pin *pin)
{
    const struct model_row *row = &j->m->rows[r % j->m->n];
    struct lladd_dtable_value v;
    if (j->wrong)
        return;
    MUST(j, lladd_dtable_lookup(j->run, &row->key, pin, &v, &j->err) == 0);
    MUST(j, j->wrong || v.state == row->state);
    if (!j->wrong && v.state == LLADD_DTABLE_FOUND) {
        MUST(j, v.bytes.len == row->len);
        MUST(j, row->len == 0 || memcmp(v.bytes.data, row->value, row->len) == 0);
    }
    j->compared++;
}

static void *reader(void *arg)
{
    struct job *j = arg;
    struct lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT;
    struct lladd_dtable_cursor *c;
    for (int i = 0; i < LOOKUPS; i++)
        look(j, seeded_next(&j->seed), &pin);
    lladd_dtable_unpin(&pin);
    MUST(j, lladd_dtable_cursor_open(j->run, LLADD_DTABLE_TOMBSTONES, &c, &j->err) == 0);
    if (j->wrong)
        return NULL;
    for (size_t i = 0; i < j->m->n && !j->wrong; i++) {
        struct lladd_dtable_key key = {.number = 0};
        MUST(j, lladd_dtable_next(c, &j->err) == 0);
        MUST(j, j->wrong || lladd_dtable_row(c, &key, NULL, &j->err) == 0);
        MUST(j, key.number == j->m->rows[i].key.number);
    }
    MUST(j, j->wrong || lladd_dtable_next(c, &j->err) == LLADD_END);
    lladd_dtable_cursor_close(c);
    return NULL;
}

/* Checks that the last row of the next thread is found. */
static void look_for_last(struct job *j, struct lladd_dtable_pin *pin)
{
    uint64_t put = lladd_atomic_load64(&j->next->put);
    struct lladd_dtable_key key = lladd_dtable_u32((uint32_t)put);
    struct lladd_dtable_value v;
    if (put == 0 || j->wrong)
        return;
    MUST(j, lladd_dtable_lookup(j->over, &key, pin, &v, &j->err) == 0);
    MUST(j, j->wrong || (v.state == LLADD_DTABLE_FOUND && v.bytes.len == sizeof(uint32_t)));
}

/* Puts the thread's own keys, from the middle upwards or downwards. The value of each row is its
 * key. Then counts the rows with a cursor. */
static void *writer(void *arg)
{
    struct job *j = arg;
    struct lladd_dtable_cursor *c;
    struct lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT;
    for (uint32_t i = 0; i < WRITES; i++) {
        uint32_t away = i * THREADS + (uint32_t)j->seed % THREADS;
        uint32_t n = j->seed % 2 ? MIDDLE - away : MIDDLE + away;
        struct lladd_dtable_key key = lladd_dtable_u32(n);
        struct lladd_dtable_value v = lladd_dtable_value_of(&n, sizeof n);
        MUST(j, lladd_dtable_put(j->memory, &key, &v, &j->err) == 0);
        lladd_atomic_store64(&j->put, n);
        look_for_last(j, &pin);
    }
    lladd_dtable_unpin(&pin);
    MUST(j, lladd_dtable_cursor_open(j->memory, 0, &c, &j->err) == 0);
    if (j->wrong)
        return NULL;
    uint32_t mine = 0;
    while (lladd_dtable_next(c, &j->err) == 0 && !j->wrong) {
        struct lladd_dtable_key key;
        struct lladd_dtable_value v;
        uint32_t n = 0;
        MUST(j, lladd_dtable_row(c, &key, &v, &j->err) == 0);
        if (!j->wrong)
            memcpy(&n, v.bytes.data, sizeof n);
        MUST(j, j->wrong || n == key.number);
        mine += (n < MIDDLE ? MIDDLE - n : n - MIDDLE) % THREADS == j->seed % THREADS;
    }
    MUST(j, mine == WRITES);
    j->compared += mine;
    lladd_dtable_cursor_close(c);
    return NULL;
}

static void all(struct job *jobs, void *(*what)(void *))
{
    struct lladd_thread threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(lladd_thread_start(&threads[i], what, &jobs[i]), 0);
    for (int i = 0; i < THREADS; i++)
        lladd_thread_join(&threads[i]);
    for (int i = 0; i < THREADS; i++)
        ck_assert_msg(!jobs[i].wrong, "thread %d: %s: %s", i, jobs[i].wrong, jobs[i].err.message);
}

static const char *const configs[] = {
    "class(dt) exception_dtable config [ \"base\" class(dt) btree_dtable \"base_config\" "
    "config [ \"base\" class(dt) fixed_dtable \"base_config\" config [ \"value_size\" int 4 ] "
    "] "
    "\"alt\" class(dt) linear_dtable \"reject_value\" string \"____\" ]",
    "class(dt) cache_dtable config [ \"cache_size\" int 400 \"base\" class(dt) exception_dtable "
    "\"base_config\" config [ \"base\" class(dt) deltaint_dtable \"base_config\" config [ "
    "\"base\" class(dt) fixed_dtable ] \"alt\" class(dt) ustring_dtable \"alt_config\" config [ "
    "\"base\" class(dt) linear_dtable ] \"reject_value\" string \"____\" ] ]",
    "class(dt) compress_dtable config [ \"base\" class(dt) exception_dtable \"base_config\" "
    "config [ \"base\" class(dt) btree_dtable \"base_config\" config [ \"base\" class(dt) "
    "fixed_dtable \"base_config\" config [ \"value_size\" int 4 ] ] \"alt\" class(dt) "
    "linear_dtable \"reject_value\" string \"____\" ] ]",
    "class(dt) exception_dtable config [ \"base\" class(dt) multicolumn_dtable \"base_config\" "
    "config [ \"columns\" words [ \"u16\" \"i16\" ] \"codecs\" words [ \"nop\" ] ] \"alt\" "
    "class(dt) linear_dtable \"reject_value\" string \"____\" ]",
};

START_TEST(threads)
{
    static const struct shape shape = {LLADD_DTABLE_U32, 20000, 10, 3, 6, false};
    struct job jobs[THREADS];
    struct model m;
    lladd_pageno root;
    struct lladd_dtable_cache_stats s = {.struct_size = sizeof s};
    struct lladd_dtable *memory, *over;
    fixture_init_threads(&b);
    fixture_open(&b);
    rows_init(&m, shape.type);
    struct lladd_dtable *t = rows_run(&b, &m, configs[_i], &shape, 3, &root);
    ok_db(&b, lladd_dtable_memory(b.db, LLADD_DTABLE_U32, NULL, &memory, &b.err));
    ok_db(&b, lladd_dtable_overlay(b.db, (struct lladd_dtable *[]){memory, t}, 2, &over, &b.err));
    lladd_dtable_cache_limit(b.db, 200000);
    for (int i = 0; i < THREADS; i++)
        jobs[i] = (struct job){.m = &m,
                               .run = t,
                               .memory = memory,
                               .over = over,
                               .seed = (uint64_t)i,
                               .err = LLADD_ERROR_INIT,
                               .next = &jobs[(i + 1) % THREADS]};
    all(jobs, writer);
    all(jobs, reader);
    uint64_t compared = 0;
    for (int i = 0; i < THREADS; i++)
        compared += jobs[i].compared;
    ck_assert_uint_eq(compared, THREADS * (LOOKUPS + WRITES));
    lladd_dtable_cache_stats_get(b.db, &s);
    ck_assert_uint_le(s.used, 200000);
    ck_assert_uint_ge(s.evictions, 50);
    lladd_dtable_close(over);
    lladd_dtable_close(t);
    lladd_dtable_close(memory);
    rows_free(&m);
    fixture_free(&b);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("dtable.threads");
    TCase *tc = tcase_create("threads");
    tcase_add_loop_test(tc, threads, 0, sizeof configs / sizeof configs[0]);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
