/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bw-trees without memory. Each allocation fails once, and all fail from one on. A call that fails
 * has changed nothing and can be repeated; a call that succeeds has done its work, even if a split,
 * an index term or a consolidation had to be left to a later call. Nothing leaks.
 */
#include "op_fixture.h"
#include "operations/bwtree/bwtree.h"

#include <stdio.h>

enum { KEYS = 60, STEPS = 150 };

static struct fixture b;
static struct lladd_bwtree *tree;
static struct lladd_bwtree_cursor *cursor;
static struct lladd_error err;
static uint32_t model[KEYS]; /* 0: no row */
static uint64_t failed;      /* number of calls that have failed */
static uint32_t chain;

/* Repeats a call that has failed for lack of memory, with memory. */
#define AGAIN(rc, call) \
    do { \
        rc = (call); \
        if (rc == LLADD_NO_MEMORY) { \
            failed++; \
            ck_assert_int_eq(err.code, LLADD_NO_MEMORY); \
            fault_alloc_fail(&b.mem, 0, false); \
            check_all(); \
            rc = (call); \
        } \
    } while (0)

static size_t key_of(uint32_t k, char out[64])
{
    return (size_t)snprintf(out, 64, "%s%03u", k % 3 ? "a long beginning of a key: " : "", k);
}

static void check_all(void)
{
    char key[64];
    for (uint32_t k = 0; k < KEYS; k++) {
        uint32_t got = 0;
        int rc = lladd_bwtree_get(tree, key, key_of(k, key), &got, sizeof got, NULL, &err);
        ck_assert_int_eq(rc, model[k] ? 0 : LLADD_NOT_FOUND);
        ck_assert_uint_eq(got, model[k]);
    }
}

static void change(uint32_t k, uint32_t number)
{
    char key[64];
    size_t len = key_of(k, key);
    int rc;
    if (number % 5 == 4) {
        AGAIN(rc, lladd_bwtree_delete(tree, key, len, &err));
        ck_assert_int_eq(rc, model[k] ? 0 : LLADD_NOT_FOUND);
        model[k] = 0;
    } else if (model[k] == 0) {
        AGAIN(rc, lladd_bwtree_insert(tree, key, len, &number, sizeof number, &err));
        ck_assert_int_eq(rc, 0);
        model[k] = number;
    } else {
        AGAIN(rc, lladd_bwtree_put(tree, key, len, &number, sizeof number, &err));
        ck_assert_int_eq(rc, 0);
        model[k] = number;
    }
}

static void move(uint32_t number)
{
    char key[64];
    size_t len = key_of(number % KEYS, key);
    int rc;
    AGAIN(rc, lladd_bwtree_cursor_seek(cursor, key, len, &err));
    ck_assert(rc == 0 || rc == LLADD_END);
    AGAIN(rc, lladd_bwtree_cursor_prev(cursor, &err));
    ck_assert(rc == 0 || rc == LLADD_END);
}

static void open_all(void)
{
    struct lladd_bwtree_options o = LLADD_BWTREE_OPTIONS_INIT;
    o.page_bytes = 128;
    o.leaf_chain = chain;
    int rc = lladd_bwtree_open_volatile(b.db, &o, &tree, &err);
    if (rc) {
        ck_assert_int_eq(rc, LLADD_NO_MEMORY);
        ck_assert_ptr_null(tree);
        failed++;
        fault_alloc_fail(&b.mem, 0, false);
        ck_assert_int_eq(lladd_bwtree_open_volatile(b.db, &o, &tree, &err), 0);
    }
    AGAIN(rc, lladd_bwtree_cursor_open(tree, &cursor, &err));
    ck_assert_int_eq(rc, 0);
}

static void run(void)
{
    memset(model, 0, sizeof model);
    tree = NULL;
    open_all();
    for (uint32_t i = 1; i <= STEPS; i++) {
        change(i * 17 % KEYS, i);
        if (i % 10 == 0)
            move(i);
    }
    fault_alloc_fail(&b.mem, 0, false);
    check_all();
    ck_assert_msg(lladd_bwtree_check(tree, &err) == 0, "%s", err.message);
    for (uint32_t i = 1; i <= STEPS; i++) /* what was left is done now */
        change(i * 13 % KEYS, i);
    check_all();
    ck_assert_msg(lladd_bwtree_check(tree, &err) == 0, "%s", err.message);
    lladd_bwtree_cursor_close(cursor);
    lladd_bwtree_close(tree);
}

/* Chains of up to 64 deltas are consolidated without memory for a list; others are not. */
static const uint32_t chains[] = {3, 70};

static void run_failing(uint64_t n, bool forever)
{
    uint64_t live = fault_alloc_live(&b.mem);
    fault_alloc_fail(&b.mem, n, forever);
    run();
    ck_assert_uint_eq(fault_alloc_live(&b.mem), live);
}

static void each_fails(bool forever)
{
    fixture_init(&b, 4096);
    fixture_open(&b);
    failed = 0;
    uint64_t before = fault_alloc_calls(&b.mem);
    run_failing(0, false);
    uint64_t calls = fault_alloc_calls(&b.mem) - before;
    ck_assert_uint_gt(calls, STEPS);
    for (uint64_t n = 1; n <= calls; n++)
        run_failing(n, forever);
    ck_assert_uint_gt(failed, forever ? calls / 3 : 10);
    fixture_free(&b);
}

START_TEST(each_allocation_fails_once)
{
    chain = chains[_i];
    each_fails(false);
}
END_TEST

/* From one allocation on there is no memory, until a call fails. */
START_TEST(all_allocations_fail_from_one_on)
{
    chain = chains[_i];
    each_fails(true);
}
END_TEST

/* A move that cannot enter an epoch, for want of a slot, leaves the cursor at no row. */
START_TEST(a_move_that_fails_leaves_the_cursor_at_no_row)
{
    enum { SLOTS = 32 };
    struct lladd_epoch *in[SLOTS];
    struct lladd_span key;
    uint32_t v = 7;
    fixture_init(&b, 4096);
    fixture_open(&b);
    ck_assert_int_eq(lladd_bwtree_open_volatile(b.db, NULL, &tree, &err), 0);
    ck_assert_int_eq(lladd_bwtree_put(tree, "a", 1, &v, sizeof v, &err), 0);
    ck_assert_int_eq(lladd_bwtree_put(tree, "b", 1, &v, sizeof v, &err), 0);
    ck_assert_int_eq(lladd_bwtree_cursor_open(tree, &cursor, &err), 0);
    ck_assert_int_eq(lladd_bwtree_cursor_first(cursor, &err), 0);
    for (int i = 0; i < SLOTS; i++)
        ck_assert_ptr_nonnull(in[i] = lladd_epoch_enter(tree->epochs));
    fault_alloc_fail(&b.mem, 1, true);
    ck_assert_int_eq(_i ? lladd_bwtree_cursor_prev(cursor, &err)
                        : lladd_bwtree_cursor_next(cursor, &err), LLADD_NO_MEMORY);
    ck_assert_int_eq(lladd_bwtree_cursor_row(cursor, &key, NULL, &err), LLADD_BAD_STATE);
    fault_alloc_fail(&b.mem, 0, false);
    for (int i = 0; i < SLOTS; i++)
        lladd_epoch_leave(tree->epochs, in[i]);
    /* As before its first move. */
    ck_assert_int_eq(_i ? lladd_bwtree_cursor_prev(cursor, &err)
                        : lladd_bwtree_cursor_next(cursor, &err), 0);
    ck_assert_int_eq(lladd_bwtree_cursor_row(cursor, &key, NULL, &err), 0);
    ck_assert_int_eq(*(const char *)key.data, _i ? 'b' : 'a');
    lladd_bwtree_cursor_close(cursor);
    lladd_bwtree_close(tree);
    fixture_free(&b);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("Bw-trees without memory");
    TCase *c = tcase_create("failures");
    tcase_add_loop_test(c, each_allocation_fails_once, 0, 2);
    tcase_add_loop_test(c, all_allocations_fail_from_one_on, 0, 2);
    tcase_add_loop_test(c, a_move_that_fails_leaves_the_cursor_at_no_row, 0, 2);
    suite_add_tcase(s, c);
    return fixture_run(s);
}
