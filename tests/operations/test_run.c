/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Extent sequences (extents.h), which are called runs here. Tests
 * - the arithmetic;
 * - growing and shrinking, which a rollback of the calling transaction does not undo;
 * - the rollback of a run's creation;
 * - the chain of pages after the root page;
 * - lack of memory, and damage.
 */
#include "op_fixture.h"

#include "operations/shared/extents.h"

#include <lladd/bulk.h>

enum { AT = 100 }; /* offset of the run's list of extents in the body of the root page */

static struct fixture b;
static lladd_pageno root;
static struct ll_extents run;

static void open_run(void)
{
    ok_db(&b, ll_operations__extents_open(&run, b.db, root, AT, &b.err));
}

/* Makes a root page, here a page of bytes, and an empty run. */
static void make(struct lladd_txn *txn)
{
    ok(txn, lladd_page_alloc(txn, &root));
    ok(txn, lladd_bytes_format(txn, root));
    ok(txn, ll_operations__extents_create(txn, root, AT));
}

static void setup(void)
{
    fixture_init(&b, 4096);
    fixture_open(&b);
    struct lladd_txn *txn = fixture_begin(&b);
    make(txn);
    commit(txn);
    open_run();
}

static void teardown(void)
{
    ll_operations__extents_close(&run);
    fixture_free(&b);
}

/* Simulates a power failure, and opens the run again. */
static void crash(void)
{
    ll_operations__extents_close(&run);
    fixture_crash(&b);
    open_run();
}

struct sum {
    uint64_t pages, calls;
};

static int add_up(void *ctx, lladd_pageno first, uint64_t n)
{
    struct sum *s = ctx;
    for (uint64_t i = 0; i < n; i++) {
        enum lladd_page_use use;
        ok_db(&b, lladd_page_use_get(b.db, lladd_page_of(first.v + i), &use, &b.err));
        ck_assert_int_eq(use, LLADD_USE_PAGED);
    }
    s->pages += n;
    s->calls++;
    return 0;
}

/* Asserts that every allocated page is the root page or belongs to the run. */
static void check_whole(void)
{
    struct sum s = {0, 0};
    ok_db(&b, ll_operations__extents_each(&run, add_up, &s, &b.err));
    ck_assert_uint_eq(s.pages + 1, fixture_pages_used(&b));
}

static void grow(uint64_t n)
{
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, ll_operations__extents_grow(txn, &run, n));
    commit(txn);
}

/* ---- arithmetic ------------------------------------------------------------------------------ */

/* The first eight extents have one page each. A later extent has at most a quarter of the pages
 * before it, and at most 8192. */
START_TEST(every_page_has_its_place_and_no_extent_moves)
{
    uint64_t at = 0;
    for (uint64_t k = 0; k < 90; k++) {
        uint64_t length = ll_operations__extents_pages(k + 1) - ll_operations__extents_pages(k);
        ck_assert_uint_ge(length, 1);
        ck_assert_uint_le(length, 8192);
        ck_assert_uint_le(length, k < 8 ? 1 : ll_operations__extents_pages(k) / 4);
        ck_assert_uint_eq(ll_operations__extents_pages(k), at);
        for (uint64_t i = 0; i < length; i++, at++) {
            uint64_t offset, extent = ll_extents_extent(at, &offset);
            ck_assert_uint_eq(extent, k);
            ck_assert_uint_eq(offset, i);
        }
    }
    uint64_t offset, far = ll_extents_extent(UINT64_C(1) << 48, &offset);
    ck_assert_uint_eq(ll_operations__extents_pages(far) + offset, UINT64_C(1) << 48);
}
END_TEST

/* ---- growing --------------------------------------------------------------------------------- */

START_TEST(an_empty_run_has_no_pages)
{
    ck_assert_uint_eq(ll_operations__extents_size(&run), 0);
    check_whole();
    crash();
    ck_assert_uint_eq(ll_operations__extents_size(&run), 0);
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, ll_operations__extents_grow(txn, &run, 0));
    ok(txn, ll_operations__extents_shrink(txn, &run, 0));
    ck_assert_uint_eq(lladd_txn_id(txn).v, 0); /* the calls have logged nothing */
    commit(txn);
}
END_TEST

START_TEST(a_growing_run_moves_no_page)
{
    enum { N = 200 };
    uint64_t where[N];
    unsigned char seen[4096] = {0};
    for (uint64_t i = 0; i < N; i++) {
        grow(i + 1);
        ck_assert_uint_ge(ll_operations__extents_size(&run), i + 1);
        where[i] = ll_operations__extents_page(&run, i).v;
        ck_assert_uint_lt(where[i], sizeof seen);
        ck_assert(!seen[where[i]]++);
    }
    check_whole();
    for (int round = 0; round < 2; round++) {
        for (uint64_t i = 0; i < N; i++)
            ck_assert_uint_eq(ll_operations__extents_page(&run, i).v, where[i]);
        crash();
    }
    check_whole();
}
END_TEST

START_TEST(growth_survives_the_rollback_of_its_transaction)
{
    struct lladd_txn *txn = fixture_begin(&b);
    lladd_savepoint_id before;
    ok(txn, lladd_savepoint(txn, &before));
    ok(txn, ll_operations__extents_grow(txn, &run, 9));
    uint64_t size = ll_operations__extents_size(&run),
             ninth = ll_operations__extents_page(&run, 8).v;
    ok(txn, lladd_rollback_to(txn, before));
    ck_assert_uint_eq(ll_operations__extents_size(&run), size);
    abort_txn(txn);
    ck_assert_uint_eq(ll_operations__extents_size(&run), size);
    check_whole();
    grow(9); /* allocates nothing, since the run has nine pages */
    txn = fixture_begin(&b);
    ok(txn, lladd_bytes_set(txn, root, 0, "x", 1));
    commit(txn);
    crash();
    ck_assert_uint_eq(ll_operations__extents_size(&run), size);
    ck_assert_uint_eq(ll_operations__extents_page(&run, 8).v, ninth);
    check_whole();
}
END_TEST

/* ---- in the transaction that creates the run ------------------------------------------------- */

/* _i 0: an abort with an open handle; 1: an abort after the handle was closed; 2: a crash. */
START_TEST(a_rollback_of_the_creation_removes_the_run)
{
    uint64_t used = fixture_pages_used(&b);
    ll_operations__extents_close(&run);
    struct lladd_txn *txn = fixture_begin(&b);
    lladd_pageno before = root;
    make(txn);
    open_run();
    ck_assert(ll_extents_made_by(&run, txn));
    ok(txn, ll_operations__extents_grow(txn, &run, 50));
    ck_assert_uint_gt(fixture_pages_used(&b), used + 50);
    if (_i == 1)
        ll_operations__extents_close(&run);
    if (_i == 2) {
        ll_operations__extents_close(&run);
        struct lladd_txn *other = fixture_begin(&b); /* makes the loser's records durable */
        ok(other, lladd_bytes_set(other, before, 0, "x", 1));
        commit(other);
        fixture_crash(&b);
    } else {
        abort_txn(txn);
    }
    ck_assert_uint_eq(fixture_pages_used(&b), used);
    if (_i == 0) {
        ck_assert_uint_eq(ll_operations__extents_size(&run), 0);
        ll_operations__extents_close(&run);
    }
    root = before;
    open_run();
    check_whole();
}
END_TEST

/* The creating transaction rolls back to savepoints, and aborts a nested top action. The run in
 * memory must follow these rollbacks. */
START_TEST(rollbacks_of_the_creating_transaction_change_memory)
{
    ll_operations__extents_close(&run);
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_action action;
    lladd_savepoint_id early, late;
    lladd_pageno first = root;
    make(txn);
    open_run();
    ok(txn, ll_operations__extents_grow(txn, &run, 3));
    ok(txn, lladd_savepoint(txn, &early));
    ok(txn, ll_operations__extents_grow(txn, &run, 20));
    ok(txn, lladd_savepoint(txn, &late));
    ok(txn, ll_operations__extents_shrink(txn, &run, 5));
    ck_assert_uint_eq(ll_operations__extents_size(&run), 5);
    ok(txn, lladd_rollback_to(txn, late));
    ok(txn, ll_operations__extents_grow(txn, &run, 20));
    ck_assert_uint_eq(ll_operations__extents_size(&run), 20);
    ok(txn, lladd_rollback_to(txn, early));
    ok(txn, ll_operations__extents_grow(txn, &run, 1));
    ck_assert_uint_eq(ll_operations__extents_size(&run), 3);
    ok(txn, lladd_nta_begin(txn, &action));
    ok(txn, ll_operations__extents_grow(txn, &run, 40));
    ok(txn, lladd_nta_abort(txn, &action));
    ok(txn, ll_operations__extents_grow(txn, &run, 4));
    ck_assert_uint_eq(ll_operations__extents_size(&run), 4);
    commit(txn);
    ck_assert_uint_eq(fixture_pages_used(&b), 2 + 4);
    /* After the commit the run is like any other run. */
    txn = fixture_begin(&b);
    ck_assert(!ll_extents_made_by(&run, txn));
    ok(txn, ll_operations__extents_grow(txn, &run, 6));
    abort_txn(txn);
    ck_assert_uint_eq(ll_operations__extents_size(&run), 6);
    ll_operations__extents_close(&run);
    open_run();
    ck_assert_uint_eq(ll_operations__extents_size(&run), 6);
    ll_operations__extents_close(&run);
    root = first;
    open_run();
}
END_TEST

/* ---- freeing --------------------------------------------------------------------------------- */

/* Other transactions get the pages of a freed extent when the transaction that has freed it has
 * ended, by a commit (_i 0) or by an abort (_i 1). */
START_TEST(freed_extents_are_reused_after_their_transaction)
{
    grow(100);
    uint64_t had = fixture_pages_used(&b);
    struct lladd_txn *txn = fixture_begin(&b), *other = fixture_begin(&b);
    lladd_pageno last = ll_operations__extents_page(&run, 99), taken;
    ok(txn, ll_operations__extents_shrink(txn, &run, 50));
    ck_assert_uint_ge(ll_operations__extents_size(&run), 50);
    ck_assert_uint_lt(ll_operations__extents_size(&run), 64);
    check_whole();
    for (int i = 0; i < 100; i++) {
        ok(other, lladd_page_alloc(other, &taken));
        ck_assert_uint_ne(taken.v, last.v);
    }
    abort_txn(other);
    if (_i)
        abort_txn(txn); /* does not undo the closed action */
    else
        commit(txn);
    check_whole();
    ck_assert_uint_lt(fixture_pages_used(&b), had);
    other = fixture_begin(&b);
    bool again = false;
    for (uint64_t pages = lladd_page_count(b.db); !again && lladd_page_count(b.db) == pages;) {
        ok(other, lladd_page_alloc(other, &taken));
        again = taken.v == last.v;
    }
    ck_assert(again);
    abort_txn(other);
    grow(100);
    crash();
    check_whole();
    ck_assert_uint_ge(ll_operations__extents_size(&run), 100);
}
END_TEST

START_TEST(a_rollback_restores_a_freed_run)
{
    grow(30);
    uint64_t used = fixture_pages_used(&b), page = ll_operations__extents_page(&run, 29).v;
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, ll_operations__extents_free(txn, &run));
    ck_assert_uint_eq(fixture_pages_used(&b), 1);
    abort_txn(txn);
    ck_assert_uint_eq(fixture_pages_used(&b), used);
    ck_assert_uint_eq(ll_operations__extents_page(&run, 29).v, page);
    check_whole();
    crash();
    check_whole();
    txn = fixture_begin(&b);
    ok(txn, ll_operations__extents_free(txn, &run));
    ok(txn, lladd_page_free(txn, root));
    commit(txn);
    ck_assert_uint_eq(fixture_pages_used(&b), 0);
    txn = fixture_begin(&b);
    ll_operations__extents_close(&run);
    make(txn);
    commit(txn);
    open_run();
}
END_TEST

/* ---- the chain ------------------------------------------------------------------------------- */

static struct {
    lladd_op_id put, link, format;
} ops;

/* Writes a list of n extents, with `chain_pages` pages in the chain. The extents of a long list
 * would take gigabytes. So all entries name the same few pages, from `first` on, and no page of an
 * extent is written. A page of the chain has 506 entries. */
static void list_by_hand(uint64_t first, uint64_t n, uint64_t chain_pages)
{
    struct put {
        uint32_t offset;
        uint64_t value;
    } args;
    lladd_pageno page = root, next;
    unsigned char bytes[8];
    struct lladd_txn *txn = fixture_begin(&b);
    ok_db(&b, lladd_op_lookup(b.db, "lladd.run.put", 1, &ops.put));
    ok_db(&b, lladd_op_lookup(b.db, "lladd.run.link", 1, &ops.link));
    ok_db(&b, lladd_op_lookup(b.db, "lladd.run.format", 1, &ops.format));
    for (uint32_t k = 0; k < LL_RUN_DIRECT; k++) {
        args = (struct put){AT + 24 + 8 * k, first};
        ok(txn, lladd_update(txn, ops.put, root, &args, sizeof args));
    }
    for (uint64_t c = 0, k = LL_RUN_DIRECT; c < chain_pages; c++) {
        ok(txn, lladd_page_alloc(txn, &next));
        lladd_put64(bytes, root.v);
        ok(txn, lladd_update(txn, ops.format, next, bytes, sizeof bytes));
        args = (struct put){page.v == root.v ? AT + 8 : 0, next.v};
        ok(txn, lladd_update(txn, page.v == root.v ? ops.put : ops.link, page, &args, sizeof args));
        page = next;
        for (uint32_t i = 0; i < 506 && k < n; i++, k++) {
            args = (struct put){16 + 8 * i, first + k % 3};
            ok(txn, lladd_update(txn, ops.link, page, &args, sizeof args));
        }
    }
    args = (struct put){AT, n};
    ok(txn, lladd_update(txn, ops.put, root, &args, sizeof args));
    commit(txn);
}

START_TEST(a_long_list_goes_on_in_a_chain_of_pages)
{
    enum { N = LL_RUN_DIRECT + 506 + 3 };
    grow(1);
    ok_db(&b, lladd_pages_extend(b.db, 8192 + 64, &b.err));
    uint64_t first = ll_operations__extents_page(&run, 0).v;
    list_by_hand(first, N, 2);
    crash();
    ck_assert_uint_eq(run.n_extents, N);
    for (uint64_t k = LL_RUN_DIRECT; k < N; k++)
        ck_assert_uint_eq(
            ll_operations__extents_page(&run, ll_operations__extents_pages(k) + k % 7).v,
            first + k % 3 + k % 7);
    /* Growing appends an extent to the list, on the second page of the chain. Shrinking removes
     * it. */
    grow(ll_operations__extents_pages(N) + 1);
    ck_assert_uint_eq(run.n_extents, N + 1);
    uint64_t page = ll_operations__extents_page(&run, ll_operations__extents_pages(N)).v;
    crash();
    ck_assert_uint_eq(run.n_extents, N + 1);
    ck_assert_uint_eq(ll_operations__extents_page(&run, ll_operations__extents_pages(N)).v, page);
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, ll_operations__extents_shrink(txn, &run, ll_operations__extents_pages(N)));
    commit(txn);
    ck_assert_uint_eq(run.n_extents, N);
    uint64_t used = fixture_pages_used(&b);
    ck_assert_uint_eq(used, 2 + 2); /* the root page, one page of the run, and the chain */
    /* A chain that is too short for the list is found when the run is opened. */
    ll_operations__extents_close(&run);
    list_by_hand(first, N, 1);
    ck_assert_int_eq(ll_operations__extents_open(&run, b.db, root, AT, &b.err), LLADD_CORRUPT_PAGE);
    list_by_hand(first, N, 2);
    open_run();
}
END_TEST

/* _i 0: the first page of the chain is made when the root page is full; 1: the second page is made
 * when the first one is full. */
START_TEST(the_chain_gets_a_page_when_its_last_page_is_full)
{
    uint64_t n = _i ? LL_RUN_DIRECT + 506 : LL_RUN_DIRECT;
    uint64_t length = ll_operations__extents_pages(n + 1) - ll_operations__extents_pages(n);
    grow(1);
    ok_db(&b, lladd_pages_extend(b.db, 8192 + 64, &b.err));
    list_by_hand(ll_operations__extents_page(&run, 0).v, n, _i ? 1 : 0);
    crash();
    uint64_t used = fixture_pages_used(&b);
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, ll_operations__extents_grow(txn, &run, ll_operations__extents_pages(n) + 1));
    abort_txn(txn);
    ck_assert_uint_eq(fixture_pages_used(&b), used + 1 + length);
    crash(); /* the growth was not durable, so it is lost */
    ck_assert_uint_eq(fixture_pages_used(&b), used);
    ck_assert_uint_eq(run.n_extents, n);
    grow(ll_operations__extents_pages(n) + 1);
    crash();
    ck_assert_uint_eq(fixture_pages_used(&b), used + 1 + length);
    ck_assert_uint_eq(run.n_extents, n + 1);
}
END_TEST

START_TEST(impossible_lists_are_refused)
{
    static const uint64_t counts[] = {5, 1u << 20, UINT64_MAX};
    struct put {
        uint32_t offset;
        uint64_t value;
    } args = {AT, counts[_i]};
    lladd_op_id op;
    grow(2);
    ok_db(&b, lladd_op_lookup(b.db, "lladd.run.put", 1, &op));
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_update(txn, op, root, &args, sizeof args));
    struct ll_extents other;
    ck_assert_int_eq(ll_operations__extents_open(&other, b.db, root, AT, &b.err),
                     LLADD_CORRUPT_PAGE);
    ck_assert_uint_eq(b.err.page.v, root.v);
    ck_assert_str_ne(b.err.message, "");
    args.offset = 4096 - 32 - 7;
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_update(txn, op, root, &args, sizeof args));
    abort_txn(txn);
}
END_TEST

/* ---- failures -------------------------------------------------------------------------------- */

/* In round n, memory allocation n of the call fails, and the call must change nothing. The test
 * ends with the first call that succeeds. */
START_TEST(without_memory_nothing_changes)
{
    for (uint64_t n = 1;; n++) {
        struct lladd_txn *txn = fixture_begin(&b);
        uint64_t size = ll_operations__extents_size(&run);
        fault_alloc_fail(&b.mem, n, false);
        int rc = ll_operations__extents_grow(txn, &run, size + 1);
        fault_alloc_fail(&b.mem, 0, false);
        if (rc == 0) {
            commit(txn);
            ck_assert_uint_gt(n, 1);
            break;
        }
        ck_assert_int_eq(rc, LLADD_NO_MEMORY);
        ck_assert_int_eq(lladd_txn_error(txn)->code, rc);
        ck_assert_uint_eq(ll_operations__extents_size(&run), size);
        check_whole();
        commit(txn);
    }
    check_whole();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("runs");
    TCase *c = tcase_create("runs");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, every_page_has_its_place_and_no_extent_moves);
    tcase_add_test(c, an_empty_run_has_no_pages);
    tcase_add_test(c, a_growing_run_moves_no_page);
    tcase_add_test(c, growth_survives_the_rollback_of_its_transaction);
    tcase_add_loop_test(c, a_rollback_of_the_creation_removes_the_run, 0, 3);
    tcase_add_test(c, rollbacks_of_the_creating_transaction_change_memory);
    tcase_add_loop_test(c, freed_extents_are_reused_after_their_transaction, 0, 2);
    tcase_add_test(c, a_rollback_restores_a_freed_run);
    tcase_add_test(c, a_long_list_goes_on_in_a_chain_of_pages);
    tcase_add_loop_test(c, the_chain_gets_a_page_when_its_last_page_is_full, 0, 2);
    tcase_add_loop_test(c, impossible_lists_are_refused, 0, 3);
    tcase_add_test(c, without_memory_nothing_changes);
    suite_add_tcase(s, c);
    return fixture_run(s);
}
