/* SPDX-License-Identifier: BSD-2-Clause */
/* The callbacks of page types: what they hear of, and what they may refuse. */
#include "db_fixture.h"

#include <lladd/bulk.h>
#include <lladd/sync.h>
#include <sched.h>
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

static struct lladd_page_type watched_cells(void)
{
    struct lladd_page_type watched = test_cells;
    watched.loaded = on_loaded;
    watched.flushed = on_flushed;
    watched.evicted = on_evicted;
    return watched;
}

/* Registers the type in the place of test_cells. */
static void register_watched(const struct lladd_page_type *watched)
{
    loaded = flushed = evicted = bad_private = 0;
    lladd_options_release(&r.options);
    ok_db(&r, lladd_register_page_type(&r.options, watched, &r.err));
    for (unsigned i = 0; test_extension.ops[i]; i++)
        ok_db(&r, lladd_register_op(&r.options, test_extension.ops[i], &r.err));
}

START_TEST(page_types_hear_of_loading_flushing_and_eviction)
{
    enum { PAGES = 100 };
    struct lladd_page_type watched = watched_cells();
    lladd_pageno pages[PAGES];
    fixture_init(&r, (unsigned)_i);
    register_watched(&watched);
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

/* Between the start of redo and that of analysis, a page is changed and becomes a page of another
 * type, which has no callbacks. Redo reads the old page and formats it in the same frame. */
START_TEST(redo_gives_a_page_another_type)
{
    struct lladd_page_type watched = watched_cells(), plain = test_cells;
    struct lladd_op format = test_format;
    lladd_op_id id;
    fixture_init(&r, (unsigned)_i);
    r.options.checkpoint_bytes = 64u << 10;
    register_watched(&watched);
    plain.name = format.page_type = "test.plain";
    format.name = "test.plain.format";
    ok_db(&r, lladd_register_page_type(&r.options, &plain, &r.err));
    ok_db(&r, lladd_register_op(&r.options, &format, &r.err));
    fixture_open(&r);
    lladd_pageno page = fixture_page(&r), other = fixture_page(&r);
    fixture_set(&r, cell_of(page, 0), 1);
    fixture_reopen(&r);
    fixture_set(&r, cell_of(page, 0), 2);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, lladd_op_lookup(r.db, format.name, 1, &id));
    ok(txn, lladd_update(txn, id, page, NULL, 0));
    done(lladd_commit(txn));
    uint64_t before = fixture_stats(&r).checkpoints;
    while (fixture_stats(&r).checkpoints == before) { /* a due one writes older changes only */
        fixture_set(&r, cell_of(other, 0), 3);
        fixture_maintain(&r);
    }
    fixture_crash(&r, &fault_kill);
    loaded = evicted = 0;
    fixture_open(&r);
    fixture_close(&r);
    ck_assert_uint_eq(loaded, evicted);
    ck_assert_uint_eq(bad_private, 0);
    fixture_free(&r);
}
END_TEST

/* lladd_page_rebuild replaces the bytes of a page that `loaded` has seen. */
START_TEST(a_rebuilt_page_loses_the_private_pointer)
{
    struct lladd_page_type watched = watched_cells();
    size_t len;
    fixture_init(&r, (unsigned)_i);
    register_watched(&watched);
    fixture_open(&r);
    lladd_pageno page = fixture_page(&r);
    fixture_set(&r, cell_of(page, 0), 1);
    fixture_close(&r);
    unsigned char *old = fixture_file(&r, "pages", &len);
    fixture_open(&r);
    fixture_set(&r, cell_of(page, 0), 2);
    fixture_close(&r);
    fixture_file_write(&r, "pages", old + page.v * 4096, 4096, page.v * 4096); /* a lost write */
    free(old);
    fixture_open(&r);
    fixture_expect(&r, cell_of(page, 0), 1);
    ck_assert_uint_eq(loaded, evicted + 1);
    ok_db(&r, lladd_page_rebuild(r.db, page, &r.err));
    fixture_expect(&r, cell_of(page, 0), 2);
    ck_assert_uint_eq(loaded, evicted);
    ck_assert_uint_eq(bad_private, 0);
    fixture_free(&r);
}
END_TEST

static unsigned checkpointing, in_flush;

/* Has the pointer for some turns of the other threads. */
static void flush_slowly(void *ctx, struct lladd_page *copy, void *private_)
{
    enum { TURNS = 2000 };
    __atomic_store_n(&in_flush, private_ != NULL, __ATOMIC_SEQ_CST);
    for (unsigned i = 0; private_ && i < TURNS; i++)
        ck_assert_int_eq(sched_yield(), 0);
    on_flushed(ctx, copy, private_);
    __atomic_store_n(&in_flush, 0, __ATOMIC_SEQ_CST);
}

static void evict_unless_flushing(void *ctx, lladd_pageno number, void **private_)
{
    __atomic_fetch_add(&bad_private, __atomic_load_n(&in_flush, __ATOMIC_SEQ_CST),
                       __ATOMIC_RELAXED);
    on_evicted(ctx, number, private_);
}

static void *checkpoint(void *unused)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    ck_assert_int_eq(lladd_checkpoint(r.db, &err), 0);
    __atomic_store_n(&checkpointing, 0, __ATOMIC_SEQ_CST);
    return unused;
}

/* A page is formatted again while its copy is being written. `flushed` has the pointer until it
 * returns. */
START_TEST(a_page_is_formatted_while_its_copy_is_flushed)
{
    struct lladd_page_type watched = watched_cells();
    struct lladd_thread thread = {0};
    watched.flushed = flush_slowly;
    watched.evicted = evict_unless_flushing;
    fixture_init(&r, (unsigned)_i);
    register_watched(&watched);
    fixture_open(&r);
    lladd_pageno page = fixture_page(&r);
    fixture_reopen(&r);
    fixture_set(&r, cell_of(page, 0), 2); /* reads the page */
    ck_assert_uint_ge(loaded, 1);
    checkpointing = 1;
    ck_assert_int_eq(lladd_thread_start(&thread, checkpoint, NULL), 0);
    while (__atomic_load_n(&checkpointing, __ATOMIC_SEQ_CST) &&
           !__atomic_load_n(&in_flush, __ATOMIC_SEQ_CST))
        ck_assert_int_eq(sched_yield(), 0);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, cells_format(txn, page));
    done(lladd_commit(txn));
    lladd_thread_join(&thread);
    fixture_close(&r);
    ck_assert_uint_eq(loaded, evicted);
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
    watched.loaded = refuse_loading;
    register_watched(&watched);
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
    tcase_add_loop_test(tc, redo_gives_a_page_another_type, 0, FIXTURE_KINDS);
    tcase_add_loop_test(tc, a_rebuilt_page_loses_the_private_pointer, 0, FIXTURE_KINDS);
    tcase_add_loop_test(tc, a_page_is_formatted_while_its_copy_is_flushed, 0, FIXTURE_KINDS);
    tcase_add_loop_test(tc, a_page_type_may_refuse_to_load_a_page, 0, FIXTURE_KINDS);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
