/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pages that lose their rows are merged: in which order rows are deleted, what is left of the tree,
 * what becomes of the numbers of pages, and merges that lack memory.
 */
#include "op_fixture.h"
#include "operations/bwtree/bwtree.h"

enum { KEYS = 3000, PAGE = 256 };

static struct fixture b;
static struct lladd_bwtree *tree;
static struct lladd_error err;

static void open_tree(void)
{
    struct lladd_bwtree_options o = LLADD_BWTREE_OPTIONS_INIT;
    fixture_init(&b, 4096);
    fixture_open(&b);
    o.key_size = o.value_size = 8;
    o.page_bytes = PAGE;
    o.leaf_chain = 4;
    ck_assert_int_eq(lladd_bwtree_open_volatile(b.db, &o, &tree, &err), 0);
}

static void close_tree(void)
{
    ck_assert_msg(lladd_bwtree_check(tree, &err) == 0, "%s", err.message);
    lladd_bwtree_close(tree);
    fixture_free(&b); /* asserts that nothing has leaked */
}

static int put(uint64_t k)
{
    uint64_t key = __builtin_bswap64(k);
    return lladd_bwtree_put(tree, &key, 8, &k, 8, &err);
}

static int delete(uint64_t k)
{
    uint64_t key = __builtin_bswap64(k);
    return lladd_bwtree_delete(tree, &key, 8, &err);
}

static int get(uint64_t k)
{
    uint64_t key = __builtin_bswap64(k);
    return lladd_bwtree_get(tree, &key, 8, NULL, 0, NULL, &err);
}

static struct lladd_bwtree_stats stats(void)
{
    struct lladd_bwtree_stats s = {.struct_size = sizeof s};
    ck_assert_int_eq(lladd_bwtree_stats_get(tree, &s, &err), 0);
    return s;
}

/* The i-th key in one of four orders. */
static uint64_t nth(int order, uint64_t i)
{
    switch (order) {
    case 0:
        return i;
    case 1:
        return KEYS - 1 - i;
    case 2: /* from the middle to both ends */
        return i % 2 ? KEYS / 2 + i / 2 : KEYS / 2 - 1 - i / 2;
    default:
        return i * 1237 % KEYS;
    }
}

/* ---- what deletions leave -------------------------------------------------------------------- */

START_TEST(deletions_in_any_order_free_pages)
{
    open_tree();
    for (uint64_t i = 0; i < KEYS; i++)
        ck_assert_int_eq(put(nth(_i / 4, i)), 0);
    struct lladd_bwtree_stats before = stats();
    ck_assert_uint_ge(before.levels, 3);
    for (uint64_t i = 0; i < KEYS; i++) {
        ck_assert_int_eq(delete(nth(_i % 4, i)), 0);
        if (i % 300 == 0)
            ck_assert_msg(lladd_bwtree_check(tree, &err) == 0, "%s", err.message);
    }
    lladd_epochs_sweep(tree->epochs);
    struct lladd_bwtree_stats after = stats();
    ck_assert_uint_eq(after.rows, 0);
    ck_assert_uint_eq(after.levels, before.levels);
    ck_assert_uint_le(after.leaves, before.leaves / 10);
    ck_assert_uint_le(after.inner, before.inner / 2);
    ck_assert_uint_eq(after.leaves + after.inner + after.merges, after.splits + after.levels);
    ck_assert_uint_lt(after.memory - after.waiting, (before.memory - before.waiting) / 4);
    ck_assert_uint_eq(after.merges_failed, 0);
    close_tree();
}
END_TEST

/* A tree that keeps a few rows of each page keeps them in fewer pages. */
START_TEST(few_rows_need_few_pages)
{
    enum { KEPT = 20 };
    open_tree();
    for (uint64_t i = 0; i < KEYS; i++)
        ck_assert_int_eq(put(i), 0);
    uint64_t leaves = stats().leaves;
    for (uint64_t i = 0; i < KEYS; i++)
        if (nth(3, i) % KEPT)
            ck_assert_int_eq(delete(nth(3, i)), 0);
    for (uint64_t i = 0; i < KEYS; i++)
        ck_assert_int_eq(get(i), i % KEPT ? LLADD_NOT_FOUND : 0);
    ck_assert_uint_eq(stats().rows, KEYS / KEPT);
    ck_assert_uint_lt(stats().leaves, leaves / 4);
    close_tree();
}
END_TEST

/* Rows that come at one end and go at the other: neither pages nor numbers of pages pile up. */
START_TEST(a_queue_stays_small)
{
    enum { LENGTH = 500, ROUNDS = 40 };
    uint64_t most = 0;
    open_tree();
    for (uint64_t i = 0; i < ROUNDS * LENGTH; i++) {
        ck_assert_int_eq(put(_i ? ROUNDS * LENGTH - i : i), 0);
        if (i >= LENGTH)
            ck_assert_int_eq(delete(_i ? ROUNDS * LENGTH - (i - LENGTH) : i - LENGTH), 0);
        if (i == 2 * LENGTH)
            most = stats().leaves + stats().inner;
    }
    ck_assert_uint_le(stats().leaves + stats().inner, 2 * most);
    ck_assert_uint_lt(tree->next, 8 * most);
    close_tree();
}
END_TEST

/* ---- numbers of pages ------------------------------------------------------------------------ */

static uint32_t n_free(void)
{
    uint32_t n = 0;
    for (uint32_t pid = (uint32_t)tree->free; pid; n++)
        pid = (uint32_t)(*bw_word(tree, pid) >> 1);
    return n;
}

static void fill(void)
{
    for (uint64_t i = 0; i < KEYS; i++)
        ck_assert_int_eq(put(nth(3, i)), 0);
}

static void empty(void)
{
    for (uint64_t i = 0; i < KEYS; i++)
        ck_assert_int_eq(delete(nth(0, i)), 0);
}

/* A PID is given out again when no thread is left in an epoch that may have seen it. */
START_TEST(numbers_of_pages_are_used_again)
{
    open_tree();
    fill();
    uint64_t pages = tree->next;
    struct lladd_epoch *parked = lladd_epoch_enter(tree->epochs);
    ck_assert_ptr_nonnull(parked);
    empty();
    uint64_t merges = stats().merges;
    ck_assert_uint_gt(merges, KEYS / 100);
    lladd_epochs_sweep(tree->epochs);
    ck_assert_uint_eq(n_free(), 0);
    ck_assert_uint_eq(tree->next, pages);
    lladd_epoch_leave(tree->epochs, parked);
    lladd_epochs_sweep(tree->epochs);
    ck_assert_uint_eq(n_free(), merges);
    for (int round = 0; round < 3; round++) {
        fill();
        lladd_epochs_sweep(tree->epochs);
        empty();
        lladd_epochs_sweep(tree->epochs);
    }
    ck_assert_uint_le(tree->next, pages + pages / 4);
    close_tree();
}
END_TEST

/* A cursor's leaf was removed. Its PID is free, or names another page, and the cursor takes neither
 * for its leaf, even if the numbers of the pages' states are equal. */
START_TEST(a_cursor_notices_that_its_leaf_is_gone)
{
    struct lladd_bwtree_cursor *c;
    struct lladd_span key;
    open_tree();
    fill();
    ck_assert_int_eq(lladd_bwtree_cursor_open(tree, &c, &err), 0);
    for (uint64_t at = 1; at < KEYS; at += 97) {
        uint64_t k = __builtin_bswap64(at), want = at;
        ck_assert_int_eq(lladd_bwtree_cursor_seek(c, &k, 8, &err), 0);
        empty();
        lladd_epochs_sweep(tree->epochs);
        if (at % 2)
            ck_assert_int_eq(lladd_bwtree_cursor_next(c, &err), LLADD_END);
        fill();
        if (at % 2)
            continue;
        while (want + 1 < KEYS && lladd_bwtree_cursor_next(c, &err) == 0) {
            ck_assert_int_eq(lladd_bwtree_cursor_row(c, &key, NULL, &err), 0);
            memcpy(&k, key.data, 8);
            ck_assert_uint_eq(__builtin_bswap64(k), ++want);
        }
        ck_assert_uint_eq(want, KEYS - 1);
    }
    lladd_bwtree_cursor_close(c);
    close_tree();
}
END_TEST

static uint32_t leaf_of(struct bw_call *c, uint64_t k, const struct bw_state **s)
{
    unsigned char key[8];
    uint32_t pid;
    lladd_put64(key, __builtin_bswap64(k));
    const struct bw_aim aim = {.key = bw_key_of(key, 8)};
    *s = ll_bwtree__find(c, &aim, 0, &pid);
    return pid;
}

/* Consolidates the key's leaf, and splits it if it is large. Returns its PID. */
static uint32_t consolidate(uint64_t k)
{
    struct bw_call c;
    const struct bw_state *s;
    ck_assert_int_eq(ll_bwtree__enter(tree, &c, &err), 0);
    uint32_t pid = leaf_of(&c, k, &s);
    ll_bwtree__consolidate(&c, pid, s);
    bw_leave(&c);
    return pid;
}

/* Page Q is split before it has its own index term, so the term comes later than that of the page
 * that was split off. Then Q is merged, and its PID names another page. Q's old term is still in
 * the parent's chain. No search may end there. */
START_TEST(an_old_term_does_not_lead_astray)
{
    struct lladd_bwtree_options o = LLADD_BWTREE_OPTIONS_INIT;
    fixture_init(&b, 4096);
    fixture_open(&b);
    o.key_size = o.value_size = 8;
    o.page_bytes = PAGE; /* 16 rows */
    o.leaf_chain = o.inner_chain = 1000; /* only this test consolidates */
    ck_assert_int_eq(lladd_bwtree_open_volatile(b.db, &o, &tree, &err), 0);
    for (uint64_t k = 0; k < 200; k++)
        ck_assert_int_eq(put(k), 0);
    (void)consolidate(0); /* the root has two leaves, from 0 and from 175 on */
    bw_bottom(bw_load(tree, BW_ROOT))->room = 0; /* terms need memory */
    fault_alloc_fail(&b.mem, 3, false);
    uint32_t first = consolidate(0); /* splits off Q, from 87 on, without term */
    ck_assert_uint_eq(fault_alloc_fired(&b.mem), 1);
    fault_alloc_fail(&b.mem, 0, false);
    uint32_t q = consolidate(100); /* splits Q at 131 */
    ck_assert_uint_ne(q, first);
    ck_assert_uint_eq(stats().terms, 1);
    ck_assert_int_eq(put(100), 0); /* adds Q's term */
    ck_assert_uint_eq(stats().terms, 2);
    for (uint64_t k = 2; k < 131; k++)
        ck_assert_int_eq(delete(k), 0);
    (void)consolidate(0); /* merges Q into the first leaf */
    ck_assert_uint_eq(stats().merges, 1);
    lladd_epochs_sweep(tree->epochs);
    ck_assert_uint_eq((uint32_t)tree->free, q);
    for (uint64_t k = 200; k < 240; k++)
        ck_assert_int_eq(put(k), 0);
    (void)consolidate(200);
    ck_assert_uint_eq((uint32_t)tree->free, 0);
    for (uint64_t k = 0; k < 240; k++)
        ck_assert_int_eq(get(k), k < 2 || k >= 131 ? 0 : LLADD_NOT_FOUND);
    close_tree();
}
END_TEST

/* ---- without memory -------------------------------------------------------------------------- */

enum { FEW = 60 };

/* Number of calls that have left a merge without its merge delta, and without the index-term
 * delete; of calls that have failed. */
static uint64_t unfinished[2], no_memory;

static void note_unfinished(void)
{
    struct bw_call c;
    uint32_t pid = (uint32_t)tree->shape;
    if (pid == 0)
        return;
    ck_assert_int_eq(ll_bwtree__enter(tree, &c, &err), 0);
    const struct bw_state *s = bw_load(tree, pid);
    ck_assert_int_eq(s->kind, BW_REMOVE);
    const struct bw_aim before = {.key = bw_delta_key(bw_delta_of(s)), .below = true};
    uint32_t left;
    unfinished[ll_bwtree__find(&c, &before, s->level, &left)->kind == BW_MERGE]++;
    bw_leave(&c);
}

/* Readers pass by an unfinished merge, and so do cursors. */
static void read_all(uint64_t from)
{
    struct lladd_bwtree_cursor *c;
    ck_assert_int_eq(lladd_bwtree_cursor_open(tree, &c, &err), 0);
    for (uint64_t k = 0; k < FEW; k++)
        ck_assert_int_eq(get(k), k < from ? LLADD_NOT_FOUND : 0);
    for (uint64_t k = from; k < FEW; k++)
        ck_assert_int_eq(lladd_bwtree_cursor_next(c, &err), 0);
    ck_assert_int_eq(lladd_bwtree_cursor_next(c, &err), LLADD_END);
    for (uint64_t k = from; k < FEW; k++)
        ck_assert_int_eq(lladd_bwtree_cursor_prev(c, &err), 0);
    ck_assert_int_eq(lladd_bwtree_cursor_prev(c, &err), LLADD_END);
    lladd_bwtree_cursor_close(c);
}

/* Deletes the rows in ascending order. In each call the n-th allocation fails, or all from it. */
static void delete_few(uint64_t n, bool forever)
{
    for (uint64_t i = 0; i < FEW; i++) {
        fault_alloc_fail(&b.mem, n, forever);
        int rc = delete(i);
        fault_alloc_fail(&b.mem, 0, false);
        if (rc == LLADD_NO_MEMORY) {
            no_memory++;
            read_all(i);
            rc = delete(i);
        }
        ck_assert_int_eq(rc, 0);
        note_unfinished();
        read_all(i + 1);
        ck_assert_msg(lladd_bwtree_check(tree, &err) == 0, "%s", err.message);
    }
}

/* A merge that stays unfinished is finished later, or the tree is closed with it. */
START_TEST(merges_without_memory)
{
    enum { ALLOCATIONS = 20 };
    bool forever = _i % 2, closed = _i / 2;
    memset(unfinished, 0, sizeof unfinished);
    no_memory = 0;
    for (uint64_t n = 1; n <= ALLOCATIONS; n++) {
        struct lladd_bwtree_options o = LLADD_BWTREE_OPTIONS_INIT;
        fixture_init(&b, 4096);
        fixture_open(&b);
        o.page_bytes = 128; /* keys of any length: four rows */
        o.leaf_chain = 3;
        o.inner_chain = 50; /* slabs have room for two deltas; others need memory */
        ck_assert_int_eq(lladd_bwtree_open_volatile(b.db, &o, &tree, &err), 0);
        for (uint64_t i = 0; i < FEW; i++)
            ck_assert_int_eq(put(i), 0);
        delete_few(n, forever);
        for (uint64_t i = 0; i < FEW && !closed; i++)
            ck_assert_int_eq(put(i), 0);
        ck_assert_msg(lladd_bwtree_check(tree, &err) == 0, "%s", err.message);
        ck_assert(closed || (uint32_t)tree->shape == 0);
        lladd_bwtree_close(tree);
        fixture_free(&b);
    }
    ck_assert_uint_gt(no_memory, 0);
    ck_assert_uint_gt(unfinished[0], 0);
    ck_assert_uint_gt(unfinished[1], 0);
}
END_TEST

/* Random changes, and allocations that fail at random. Index terms come late, or in another order;
 * numbers of pages are used again at once; old terms must not lead to them. */
START_TEST(merges_with_little_memory)
{
    enum { STEPS = 20000, SOME = 256, PHASE = 1500 };
    struct lladd_bwtree_options o = LLADD_BWTREE_OPTIONS_INIT;
    bool there[SOME] = {false};
    uint64_t seed = (uint64_t)_i + 1;
    fixture_init(&b, 4096);
    fixture_open(&b);
    o.page_bytes = 128;
    o.leaf_chain = 1 + (uint32_t)_i % 4;
    o.inner_chain = 50;
    ck_assert_int_eq(lladd_bwtree_open_volatile(b.db, &o, &tree, &err), 0);
    for (unsigned i = 0; i < STEPS; i++) {
        uint64_t random = seeded_next(&seed) >> 8, k = random % SOME;
        bool goes = (random >> 20) % 8 < (i / PHASE % 2 ? 7 : 1);
        fault_alloc_fail(&b.mem, 1 + (random >> 30) % 12, (random >> 40) % 2);
        int rc = goes ? delete(k) : put(k), want = goes && !there[k] ? LLADD_NOT_FOUND : 0;
        fault_alloc_fail(&b.mem, 0, false);
        if (rc != LLADD_NO_MEMORY) {
            ck_assert_int_eq(rc, want);
            there[k] = !goes;
        }
        lladd_epochs_sweep(tree->epochs);
        k = (random >> 46) % SOME;
        ck_assert_int_eq(get(k), there[k] ? 0 : LLADD_NOT_FOUND);
        if (i % 200 == 0)
            ck_assert_msg(lladd_bwtree_check(tree, &err) == 0, "%s", err.message);
    }
    ck_assert_uint_gt(stats().merges, STEPS / 100);
    close_tree();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("Merges in Bw-trees");
    TCase *c = tcase_create("merge");
    tcase_add_loop_test(c, deletions_in_any_order_free_pages, 0, 16);
    tcase_add_test(c, few_rows_need_few_pages);
    tcase_add_loop_test(c, a_queue_stays_small, 0, 2);
    tcase_add_test(c, numbers_of_pages_are_used_again);
    tcase_add_test(c, a_cursor_notices_that_its_leaf_is_gone);
    tcase_add_test(c, an_old_term_does_not_lead_astray);
    tcase_add_loop_test(c, merges_without_memory, 0, 4);
    tcase_add_loop_test(c, merges_with_little_memory, 0, 8);
    suite_add_tcase(s, c);
    return fixture_run(s);
}
