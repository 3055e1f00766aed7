/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The budget limits the memory of the process, and not only the statistics. A process that reads
 * and changes ten times as many pages as the cache holds grows by the budget and little more. The
 * same holds for a process that touches pages so far apart that each needs a page of frames and a
 * page table of its own. The tests run with both frame providers (_i), on files. The test itself
 * uses no memory that grows.
 *
 * A sanitizer's own memory is many times the budget. So under a sanitizer only the statistics are
 * checked.
 */
#include <check.h>

#include "buffer/buffer.h"
#include "support/fixtures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { MEASURED = 0 };
#else
enum { MEASURED = 1 };
#endif
enum { PAGE = 4096, MIB = 1 << 20, BUDGET = 16 * MIB, SLACK = 4 * MIB };

struct place {
    char *dir;
    struct ll_env env;
    struct lladd_device *dev;
    struct ll_poison poison;
    struct ll_buffer_config cfg;
    struct ll_buffer *b;
    uint64_t before, most; /* bytes of this process: at the start, and the maximum since */
};

static int may_write(void *ctx, lladd_pageno n, lladd_lsn lsn, lladd_lsn *durable,
                     struct lladd_error *err)
{
    (void)ctx, (void)n, (void)lsn, (void)err;
    durable->v = UINT64_MAX;
    return 0;
}

/* Returns the bytes of resident memory and page tables of the process. */
static uint64_t memory_now(void)
{
    char line[256];
    uint64_t sum = 0;
    FILE *f = fopen("/proc/self/status", "r");
    ck_assert_ptr_nonnull(f);
    while (fgets(line, sizeof line, f)) {
        if (strncmp(line, "VmRSS:", 6) == 0 || strncmp(line, "VmPTE:", 6) == 0)
            sum += strtoull(line + 6, NULL, 10) * 1024;
    }
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_uint_gt(sum, 0);
    return sum;
}

static void look(struct place *p)
{
    uint64_t now = memory_now();
    p->most = now > p->most ? now : p->most;
    struct ll_buffer_stats s;
    ll_buffer_stats(p->b, &s);
    ck_assert_uint_le(s.bytes, BUDGET);
}

/* Opens a page file of this many pages, all of them holes. */
static void open_place(struct place *p, int kind, uint64_t pages)
{
    memset(p, 0, sizeof *p);
    p->dir = temp_dir_new();
    ll_env_init(&p->env, NULL, NULL, false);
    ck_assert_int_eq(lladd_device_posix(p->dir, true, &p->dev, NULL), 0);
    struct lladd_file *file;
    ck_assert_int_eq(p->dev->ops->open(p->dev, "pages", LLADD_OPEN_CREATE, &file), 0);
    ck_assert_int_eq(p->dev->ops->truncate(p->dev, file, pages * PAGE), 0);
    ck_assert_int_eq(p->dev->ops->close(p->dev, file), 0);
    ll_poison_init(&p->poison);
    p->cfg = (struct ll_buffer_config){
        .env = &p->env,
        .poison = &p->poison,
        .dev = p->dev,
        .name = "pages",
        .page_size = PAGE,
        .budget = BUDGET,
        .frames = kind && LL_TEST_CAN_RESERVE ? LL_FRAMES_RESERVED : LL_FRAMES_HEAP,
        .recovery = {.may_write = may_write},
    };
    p->before = memory_now();
    ck_assert_int_eq(ll_buffer_open(&p->cfg, &p->b, NULL), 0);
}

static void close_place(struct place *p)
{
    if (MEASURED)
        ck_assert_uint_le(p->most - p->before, BUDGET + SLACK);
    ll_buffer_close(p->b);
    lladd_device_close(p->dev);
    temp_dir_remove(p->dir);
}

static void touch(struct place *p, uint64_t n, uint64_t value)
{
    struct ll_frame *f;
    unsigned how = value ? LL_FIX_EXCLUSIVE : LL_FIX_SHARED;
    ck_assert_int_eq(ll_buffer_fix(p->b, lladd_page_of(n), how, &f, NULL), 0);
    if (value) {
        ll_buffer_dirty(p->b, f, lladd_lsn_of(1));
        lladd_put64(f->page.bytes + 64, value);
    }
    ll_buffer_unfix(p->b, f, how);
}

START_TEST(changing_ten_times_the_cache)
{
    enum { PAGES = 10 * BUDGET / PAGE };
    struct place p;
    uint64_t seed = 1;
    open_place(&p, _i, PAGES);
    for (uint64_t n = 0; n < PAGES; n++) {
        touch(&p, n, n + 1);
        if (n % 512 == 0)
            look(&p);
    }
    for (unsigned i = 0; i < PAGES / 2; i++) {
        touch(&p, seeded_next(&seed) % PAGES, i % 2 ? i : 0);
        if (i % 512 == 0)
            look(&p);
    }
    /* The cache was full, so the test was effective. */
    struct ll_buffer_stats s;
    ll_buffer_stats(p.b, &s);
    ck_assert_uint_ge(s.bytes, BUDGET / 2);
    if (MEASURED)
        ck_assert_uint_ge(p.most - p.before, BUDGET / 2);
    close_place(&p);
}
END_TEST

START_TEST(pages_far_apart)
{
    enum { STEP = 2 * MIB / PAGE, PLACES = 12000 };
    struct place p;
    open_place(&p, _i, (uint64_t)PLACES * STEP);
    for (uint64_t i = 0; i < PLACES; i++) {
        touch(&p, i * STEP + i % STEP, 0);
        if (i % 512 == 0)
            look(&p);
    }
    look(&p);
    struct ll_buffer_stats s;
    ll_buffer_stats(p.b, &s);
    ck_assert_uint_gt(s.frames_used, _i ? BUDGET / (4 * PAGE) : BUDGET / (2 * PAGE));
    close_place(&p);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("buffer: memory");
    TCase *t = tcase_create("both providers");
    tcase_add_loop_test(t, changing_ten_times_the_cache, 0, 2);
    tcase_add_loop_test(t, pages_far_apart, 0, 2);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
