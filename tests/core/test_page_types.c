/* SPDX-License-Identifier: BSD-2-Clause */
/* The callbacks of page types: what they hear of, and what they may refuse. */
#include "db_fixture.h"

#include <stdlib.h>
#include <string.h>

static struct fixture r;

static unsigned loaded, flushed, evicted, bad_private;

static int on_loaded(void *ctx, struct lladd_view v, void **private_, struct lladd_error *err)
{
    (void)ctx;
    (void)err;
    *private_ = malloc(sizeof(uint64_t));
    *(uint64_t *)*private_ = v.number.v;
    __atomic_fetch_add(&loaded, 1, __ATOMIC_RELAXED);
    return 0;
}

static void on_flushed(void *ctx, struct lladd_page *copy, void *private_)
{
    (void)ctx;
    if (private_ && *(uint64_t *)private_ != copy->number.v)
        __atomic_fetch_add(&bad_private, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&flushed, 1, __ATOMIC_RELAXED);
}

static void on_evicted(void *ctx, lladd_pageno number, void **private_)
{
    (void)ctx;
    if (*(uint64_t *)*private_ != number.v)
        __atomic_fetch_add(&bad_private, 1, __ATOMIC_RELAXED);
    free(*private_);
    *private_ = NULL;
    __atomic_fetch_add(&evicted, 1, __ATOMIC_RELAXED);
}

START_TEST(page_types_hear_of_loading_flushing_and_eviction)
{
    enum { PAGES = 100 };
    struct lladd_page_type watched = test_cells;
    lladd_pageno pages[PAGES];
    loaded = flushed = evicted = bad_private = 0;
    fixture_init(&r, (unsigned)_i);
    lladd_options_release(&r.options);
    watched.loaded = on_loaded;
    watched.flushed = on_flushed;
    watched.evicted = on_evicted;
    ok_db(&r, lladd_register_page_type(&r.options, &watched, &r.err));
    for (unsigned i = 0; test_extension.ops[i]; i++)
        ok_db(&r, lladd_register_op(&r.options, test_extension.ops[i], &r.err));
    r.options.cache_bytes = fixture_small_cache((unsigned)_i); /* too small for all pages */
    fixture_open(&r);
    fixture_pages(&r, pages, PAGES);
    for (unsigned round = 0; round < 3; round++)
        for (unsigned i = 0; i < PAGES; i++)
            fixture_set(&r, cell_of(pages[i], 0), round);
    fixture_close(&r);
    ck_assert_uint_gt(loaded, PAGES);
    ck_assert_uint_gt(flushed, PAGES);
    ck_assert_uint_eq(loaded, evicted); /* every private pointer was released */
    ck_assert_uint_eq(bad_private, 0);
    fixture_free(&r);
}
END_TEST

static int refuse_loading(void *ctx, struct lladd_view v, void **private_, struct lladd_error *err)
{
    (void)ctx;
    (void)private_;
    return lladd_error_set(err, LLADD_NO_MEMORY, "page %llu: no memory for its index",
                           (unsigned long long)v.number.v);
}

START_TEST(a_page_type_may_refuse_to_load_a_page)
{
    struct lladd_page_type watched = test_cells;
    uint64_t value;
    fixture_init(&r, (unsigned)_i);
    fixture_open(&r);
    lladd_pageno page = fixture_page(&r);
    fixture_set(&r, cell_of(page, 0), 5);
    fixture_close(&r);
    lladd_options_release(&r.options);
    watched.loaded = refuse_loading;
    ok_db(&r, lladd_register_page_type(&r.options, &watched, &r.err));
    for (unsigned i = 0; test_extension.ops[i]; i++)
        ok_db(&r, lladd_register_op(&r.options, test_extension.ops[i], &r.err));
    fixture_open(&r);
    ck_assert_int_eq(cell_read(r.db, cell_of(page, 0), &value, &r.err), LLADD_NO_MEMORY);
    ck_contains(r.err.message, "no memory for its index");
    struct lladd_txn *txn = fixture_begin(&r);
    refused(txn, LLADD_NO_MEMORY, cell_put(txn, cell_of(page, 0), 6));
    done(lladd_commit(txn));
    fixture_free(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("page types");
    TCase *tc = tcase_create("all");
    tcase_add_loop_test(tc, page_types_hear_of_loading_flushing_and_eviction, 0, FIXTURE_KINDS);
    tcase_add_loop_test(tc, a_page_type_may_refuse_to_load_a_page, 0, FIXTURE_KINDS);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
