/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Arrays. Tests
 * - elements at the ends of pages, ranges, and zeros where nothing was written;
 * - the length after rollbacks, also after rollbacks to savepoints;
 * - pages that are freed;
 * - arrays that are created or destroyed by a transaction that rolls back;
 * - wrong calls, which must change nothing;
 * - a failure of each memory allocation;
 * - random calls, compared with an array in memory.
 */
#include "op_fixture.h"

#include "operations/array/array.h"

#include <lladd/bulk.h>

static struct fixture b;

static void setup(void)
{
    fixture_init(&b, 4096);
    fixture_open(&b);
}

static void teardown(void)
{
    fixture_free(&b);
}

static lladd_pageno create(uint32_t size, uint64_t length)
{
    lladd_pageno root = {0};
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_array_create(txn, size, length, &root));
    commit(txn);
    return root;
}

static struct lladd_array *open_array(lladd_pageno root)
{
    struct lladd_array *a = NULL;
    ok_db(&b, lladd_array_open(b.db, root, &a, &b.err));
    return a;
}

static void crash(struct lladd_array **a, lladd_pageno root)
{
    lladd_array_close(*a);
    fixture_crash(&b);
    *a = open_array(root);
}

static uint64_t length(struct lladd_array *a)
{
    uint64_t n = UINT64_MAX;
    ok_db(&b, lladd_array_length(a, &n, &b.err));
    return n;
}

static uint64_t get8(struct lladd_array *a, uint64_t index)
{
    uint64_t v = UINT64_MAX;
    ok_db(&b, lladd_array_get(a, index, &v, &b.err));
    return v;
}

static void set8(struct lladd_txn *txn, struct lladd_array *a, uint64_t index, uint64_t v)
{
    ok(txn, lladd_array_set(txn, a, index, &v));
}

/* Asserts that the array is valid, and that every allocated page belongs to it. */
static void check_whole(struct lladd_array *a)
{
    uint64_t pages = 0;
    ok_db(&b, lladd_array_check(a, &b.err));
    ok_db(&b, lladd_array_pages(a, fixture_count_page, &pages, &b.err));
    ck_assert_uint_eq(pages, fixture_pages_used(&b));
}

/* ---- a hostile page -------------------------------------------------------------------------- */

/* The root page says that more pages are formatted than the array has. */
START_TEST(formatted_pages_that_are_not_there_are_noticed)
{
    lladd_pageno root = create(8, 100000);
    struct lladd_array *a = NULL;
    unsigned char formatted[8] = {0, 1};
    fixture_forge(&b, root, LLADD_PAGE_HEADER + 8 * LL_ARRAY_FORMATTED, formatted, 8);
    ck_assert_int_eq(lladd_array_open(b.db, root, &a, &b.err), LLADD_CORRUPT_PAGE);
    fixture_forge(&b, root, LLADD_PAGE_HEADER + 8 * LL_ARRAY_FORMATTED, formatted, 8);
    a = open_array(root);
    ck_assert_uint_eq(get8(a, 99999), 0);
    lladd_array_close(a);
}
END_TEST

/* ---- elements -------------------------------------------------------------------------------- */

START_TEST(unwritten_elements_are_zeros_and_take_no_pages)
{
    lladd_pageno root = create(8, UINT64_C(1) << 45);
    struct lladd_array *a = open_array(root);
    unsigned char bytes[8 * 1000];
    ck_assert_uint_eq(lladd_array_element_size(a), 8);
    ck_assert_uint_eq(length(a), UINT64_C(1) << 45);
    ck_assert_uint_eq(get8(a, 0), 0);
    ck_assert_uint_eq(get8(a, (UINT64_C(1) << 45) - 1), 0);
    memset(bytes, 1, sizeof bytes);
    ok_db(&b, lladd_array_get_range(a, 77777, 1000, bytes, &b.err));
    for (size_t i = 0; i < sizeof bytes; i++)
        ck_assert_uint_eq(bytes[i], 0);
    ck_assert_uint_eq(fixture_pages_used(&b), 1);
    check_whole(a);
    lladd_array_close(a);
}
END_TEST

/* Sizes of elements. With some sizes, the elements exactly fill the 4064 bytes of a page after its
 * header; with the others, some bytes are left. */
static const uint32_t sizes[] = {1, 3, 8, 100, 2032, 2033, 4064};

START_TEST(elements_at_the_ends_of_pages)
{
    uint32_t size = sizes[_i], per_page = 4064 / size;
    uint64_t at[] = {0,
                     per_page - 1,
                     per_page,
                     2 * (uint64_t)per_page - 1,
                     2 * (uint64_t)per_page,
                     17 * (uint64_t)per_page};
    static unsigned char bytes[4064], got[4064];
    lladd_pageno root = create(size, at[5] + 1);
    struct lladd_array *a = open_array(root);
    for (size_t i = 0; i < 6; i++) {
        struct lladd_txn *txn = fixture_begin(&b);
        seeded_fill(at[i] + 1, bytes, size);
        ok(txn, lladd_array_set(txn, a, at[i], bytes));
        commit(txn);
    }
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < 6; i++) {
            seeded_fill(at[i] + 1, bytes, size);
            ok_db(&b, lladd_array_get(a, at[i], got, &b.err));
            ck_assert_mem_eq(got, bytes, size);
        }
        memset(bytes, 0, size);
        if (per_page > 2) {
            ok_db(&b, lladd_array_get(a, 1, got, &b.err));
            ck_assert_mem_eq(got, bytes, size);
        }
        check_whole(a);
        crash(&a, root);
    }
    lladd_array_close(a);
}
END_TEST

START_TEST(part_of_an_element)
{
    lladd_pageno root = create(10, 3);
    struct lladd_array *a = open_array(root);
    char got[11] = "";
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_array_set(txn, a, 1, "0123456789"));
    ok(txn, lladd_array_write(txn, a, 1, 3, "abc", 3));
    ok(txn, lladd_array_write(txn, a, 1, 10, "", 0));
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_array_write(txn, a, 1, 8, "xyz", 3));
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_array_write(txn, a, 1, 11, "", 0));
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_array_write(txn, a, 3, 0, "x", 1));
    commit(txn);
    ok_db(&b, lladd_array_get(a, 1, got, &b.err));
    ck_assert_str_eq(got, "012abc6789");
    lladd_array_close(a);
}
END_TEST

START_TEST(ranges_over_pages)
{
    enum { N = 3000 };
    static uint64_t in[N], out[N];
    lladd_pageno root = create(8, N + 20);
    struct lladd_array *a = open_array(root);
    for (uint64_t i = 0; i < N; i++)
        in[i] = i * 77 + 1;
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_array_set_range(txn, a, 10, N, in));
    ok(txn, lladd_array_set_range(txn, a, N + 20, 0, in));
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_array_set_range(txn, a, 21, N, in));
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_array_set_range(txn, a, 1, UINT64_MAX, in));
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_array_set_range(txn, a, N + 21, 0, in));
    commit(txn);
    crash(&a, root);
    ok_db(&b, lladd_array_get_range(a, 10, N, out, &b.err));
    ck_assert_mem_eq(in, out, sizeof in);
    ck_assert_uint_eq(get8(a, 9), 0);
    ck_assert_uint_eq(get8(a, N + 10), 0);
    ck_assert_int_eq(lladd_array_get_range(a, 21, N, out, &b.err), LLADD_OUT_OF_RANGE);
    txn = fixture_begin(&b);
    uint64_t zeros[600] = {0};
    ok(txn, lladd_array_set_range(txn, a, 700, 600, zeros));
    abort_txn(txn);
    ok_db(&b, lladd_array_get_range(a, 10, N, out, &b.err));
    ck_assert_mem_eq(in, out, sizeof in);
    check_whole(a);
    lladd_array_close(a);
}
END_TEST

/* A rollback undoes the changes of elements. It does not undo the formatting of a page, because
 * other transactions may have elements there. */
START_TEST(a_rollback_keeps_formatted_pages)
{
    lladd_pageno root = create(8, 5000);
    struct lladd_array *a = open_array(root);
    struct lladd_txn *txn = fixture_begin(&b), *other = fixture_begin(&b);
    set8(txn, a, 4000, 4);
    set8(other, a, 4001, 5);
    abort_txn(txn);
    commit(other);
    for (int round = 0; round < 2; round++) {
        ck_assert_uint_eq(get8(a, 4000), 0);
        ck_assert_uint_eq(get8(a, 4001), 5);
        check_whole(a);
        crash(&a, root);
    }
    lladd_array_close(a);
}
END_TEST

/* ---- length ---------------------------------------------------------------------------------- */

START_TEST(an_array_grows_and_shrinks_with_its_transaction)
{
    lladd_pageno root = create(8, 0);
    struct lladd_array *a = open_array(root);
    struct lladd_txn *txn = fixture_begin(&b);
    lladd_savepoint_id sp;
    uint64_t first = 99, v = 7;
    ck_assert_uint_eq(length(a), 0);
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_array_set(txn, a, 0, &v));
    ok(txn, lladd_array_extend(txn, a, 10, &first));
    ck_assert_uint_eq(first, 0);
    set8(txn, a, 9, 7);
    ok(txn, lladd_savepoint(txn, &sp));
    ok(txn, lladd_array_extend(txn, a, 600, &first));
    ck_assert_uint_eq(first, 10);
    set8(txn, a, 609, 8);
    ok(txn, lladd_rollback_to(txn, sp));
    ck_assert_uint_eq(length(a), 10);
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_array_set(txn, a, 10, &v));
    ok(txn, lladd_array_extend(txn, a, 600, NULL));
    ck_assert_uint_eq(get8(a, 609), 0);
    commit(txn);
    txn = fixture_begin(&b);
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_array_shrink(txn, a, 611));
    refuses(txn, LLADD_TOO_LARGE, lladd_array_extend(txn, a, UINT64_C(1) << 45, NULL));
    refuses(txn, LLADD_TOO_LARGE, lladd_array_extend(txn, a, UINT64_MAX, NULL));
    set8(txn, a, 5, 5);
    ok(txn, lladd_array_shrink(txn, a, 605));
    ck_assert_int_eq(lladd_array_get(a, 5, &v, &b.err), LLADD_OUT_OF_RANGE);
    ck_assert_uint_eq(length(a), 5);
    if (_i)
        abort_txn(txn);
    else
        crash(&a, root);
    ck_assert_uint_eq(length(a), 610);
    ck_assert_uint_eq(get8(a, 9), 7);
    ck_assert_uint_eq(get8(a, 5), 0);
    check_whole(a);
    lladd_array_close(a);
}
END_TEST

static void fill(struct lladd_array *a, uint64_t n, uint64_t add)
{
    struct lladd_txn *txn = fixture_begin(&b);
    for (uint64_t i = 0; i < n; i++)
        set8(txn, a, i, i + add);
    commit(txn);
}

/* Elements that were removed by a shrink are zeros when the array is extended again. The array is
 * extended
 * - _i 0: by the same transaction, which commits;
 * - _i 1: by the same transaction, which aborts;
 * - _i 2: by another transaction;
 * - _i 3: by another transaction, after a crash. */
START_TEST(elements_are_zeros_after_a_shrink_and_an_extension)
{
    enum { N = 2000, LEFT = 700 };
    lladd_pageno root = create(8, N);
    struct lladd_array *a = open_array(root);
    fill(a, N, 1);
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_array_shrink(txn, a, N - LEFT));
    if (_i >= 2) {
        commit(txn);
        if (_i == 3)
            crash(&a, root);
        txn = fixture_begin(&b);
    }
    ok(txn, lladd_array_extend(txn, a, N - LEFT, NULL));
    for (uint64_t i = 0; i < N; i++)
        ck_assert_uint_eq(get8(a, i), i < LEFT ? i + 1 : 0);
    set8(txn, a, N - 1, 3);
    if (_i == 1) {
        abort_txn(txn);
        for (uint64_t i = 0; i < N; i++)
            ck_assert_uint_eq(get8(a, i), i + 1);
    } else {
        commit(txn);
        crash(&a, root);
        for (uint64_t i = 0; i < N; i++)
            ck_assert_uint_eq(get8(a, i), i < LEFT ? i + 1 : i == N - 1 ? 3 : 0);
    }
    check_whole(a);
    lladd_array_close(a);
}
END_TEST

START_TEST(pages_are_freed_when_the_shrinking_commit_is_durable)
{
    enum { N = 100 * 508 }; /* 100 pages of 508 elements */
    lladd_pageno root = create(8, N);
    struct lladd_array *a = open_array(root);
    fill(a, N, 1);
    uint64_t full = fixture_pages_used(&b);
    ck_assert_uint_gt(full, 100);
    struct lladd_txn *txn = fixture_begin(&b), *other;
    ok(txn, lladd_array_shrink(txn, a, N - 508));
    commit(txn);
    ck_assert_uint_eq(fixture_pages_used(&b), full);
    if (_i == 1) { /* shrinks to 0 after a crash; no page may be lost */
        crash(&a, root);
        txn = fixture_begin(&b);
        ok(txn, lladd_array_shrink(txn, a, 0));
        commit(txn);
        check_whole(a);
    }
    other = fixture_begin(&b);
    ok(other, lladd_array_shrink(other, a, 0));
    ck_assert_uint_lt(fixture_pages_used(&b), 10);
    abort_txn(other); /* does not undo the freeing of pages */
    ck_assert_uint_lt(fixture_pages_used(&b), 10);
    check_whole(a);
    ck_assert_uint_eq(get8(a, 507), 508);
    txn = fixture_begin(&b);
    ok(txn, lladd_array_extend(txn, a, N - 508, NULL));
    commit(txn);
    ck_assert_uint_eq(get8(a, N - 1), 0);
    fill(a, N, 2);
    crash(&a, root);
    for (uint64_t i = 0; i < N; i += 333)
        ck_assert_uint_eq(get8(a, i), i + 2);
    check_whole(a);
    lladd_array_close(a);
}
END_TEST

/* The first transaction shrinks the array. Before its commit is durable, a second transaction
 * extends the array and writes. A third one shrinks it and rolls back. The elements of the second
 * transaction must stay. */
START_TEST(a_late_commit_frees_no_page_in_use)
{
    enum { N = 10000 };
    lladd_pageno root = create(8, N);
    struct lladd_array *a = open_array(root);
    fill(a, N, 1);
    struct lladd_txn *txn = fixture_begin(&b);
    lladd_lsn lsn;
    ok(txn, lladd_array_shrink(txn, a, N - 500));
    ck_assert_int_eq(lladd_commit_async(txn, &lsn), 0);
    struct lladd_txn *second = fixture_begin(&b);
    ok(second, lladd_array_extend(second, a, N - 500, NULL));
    set8(second, a, N - 1, 17);
    commit(second);
    ok_db(&b, lladd_wait_durable(b.db, lsn, &b.err));
    struct lladd_txn *third = fixture_begin(&b);
    ok(third, lladd_array_shrink(third, a, N - 600));
    ok(third, lladd_array_extend(third, a, 50, NULL));
    abort_txn(third);
    ck_assert_uint_eq(length(a), N);
    ck_assert_uint_eq(get8(a, N - 1), 17);
    ck_assert_uint_eq(get8(a, 499), 500);
    ck_assert_uint_eq(get8(a, 500), 0);
    check_whole(a);
    lladd_array_close(a);
}
END_TEST

/* ---- creating and destroying ----------------------------------------------------------------- */

START_TEST(a_rollback_of_the_creation_destroys_the_array)
{
    struct lladd_txn *txn = fixture_begin(&b);
    lladd_savepoint_id sp;
    lladd_pageno root = {0}, again = {0};
    uint64_t v = 3;
    ok(txn, lladd_savepoint(txn, &sp));
    ok(txn, lladd_array_create(txn, 8, 5000, &root));
    struct lladd_array *a = open_array(root), *other = NULL;
    set8(txn, a, 4999, 1);
    ck_assert_uint_eq(get8(a, 4999), 1);
    if (_i == 0) {
        ok(txn, lladd_rollback_to(txn, sp));
        /* Another array, which may have the same root page. */
        ok(txn, lladd_array_create(txn, 16, 3, &again));
        other = open_array(again);
        ck_assert_uint_eq(lladd_array_element_size(other), 16);
        refuses(txn, LLADD_DESTROYED, lladd_array_set(txn, a, 0, &v));
        lladd_array_close(other);
    }
    abort_txn(txn);
    ck_assert_int_eq(lladd_array_get(a, 0, &v, &b.err), LLADD_DESTROYED);
    ck_assert_int_eq(lladd_array_length(a, &v, &b.err), LLADD_DESTROYED);
    ck_assert_int_eq(lladd_array_check(a, &b.err), LLADD_DESTROYED);
    txn = fixture_begin(&b);
    refuses(txn, LLADD_DESTROYED, lladd_array_set(txn, a, 0, &v));
    refuses(txn, LLADD_DESTROYED, lladd_array_extend(txn, a, 1, NULL));
    commit(txn);
    ck_assert_int_eq(lladd_array_open(b.db, root, &other, &b.err), LLADD_WRONG_TYPE);
    ck_assert_uint_eq(fixture_pages_used(&b), 0);
    lladd_array_close(a);
}
END_TEST

/* The transaction that creates the array also fills, shrinks and fills it again, and rolls back to
 * a savepoint in between. */
START_TEST(the_creating_transaction_may_change_the_array)
{
    struct lladd_txn *txn = fixture_begin(&b);
    lladd_savepoint_id sp;
    lladd_pageno root = {0};
    ok(txn, lladd_array_create(txn, 8, 1000, &root));
    struct lladd_array *a = open_array(root);
    for (uint64_t i = 0; i < 1000; i++)
        set8(txn, a, i, i + 1);
    ok(txn, lladd_savepoint(txn, &sp));
    ok(txn, lladd_array_extend(txn, a, 9000, NULL));
    for (uint64_t i = 0; i < 10000; i++)
        set8(txn, a, i, i + 2);
    ok(txn, lladd_rollback_to(txn, sp));
    ck_assert_uint_eq(length(a), 1000);
    ck_assert_uint_eq(get8(a, 999), 1000);
    ok(txn, lladd_array_shrink(txn, a, 1));
    ok(txn, lladd_array_extend(txn, a, 2000, NULL));
    ck_assert_uint_eq(get8(a, 999), 0);
    set8(txn, a, 2998, 5);
    commit(txn);
    for (int round = 0; round < 2; round++) {
        ck_assert_uint_eq(length(a), 2999);
        ck_assert_uint_eq(get8(a, 998), 999);
        ck_assert_uint_eq(get8(a, 999), 0);
        ck_assert_uint_eq(get8(a, 2998), 5);
        check_whole(a);
        crash(&a, root);
    }
    lladd_array_close(a);
}
END_TEST

START_TEST(a_rollback_restores_a_destroyed_array)
{
    lladd_pageno root = create(8, 3000);
    struct lladd_array *a = open_array(root), *other;
    uint64_t v = 1;
    fill(a, 3000, 1);
    uint64_t used = fixture_pages_used(&b);
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_array_destroy(txn, root));
    refuses(txn, LLADD_DESTROYED, lladd_array_set(txn, a, 0, &v));
    refuses(txn, LLADD_DESTROYED, lladd_array_destroy(txn, root));
    ck_assert_int_eq(lladd_array_get(a, 2999, &v, &b.err), LLADD_DESTROYED);
    ck_assert_int_eq(lladd_array_open(b.db, root, &other, &b.err), LLADD_DESTROYED);
    if (_i)
        abort_txn(txn);
    else
        crash(&a, root);
    ck_assert_uint_eq(get8(a, 2999), 3000);
    ck_assert_uint_eq(fixture_pages_used(&b), used);
    check_whole(a);
    txn = fixture_begin(&b);
    ok(txn, lladd_array_destroy(txn, root));
    commit(txn);
    ck_assert_uint_eq(fixture_pages_used(&b), 0);
    /* After the array was destroyed, other transactions get its pages. Calls with an old handle of
     * the array are refused, whatever its former root page contains now. */
    for (int i = 0; i < 40; i++) {
        lladd_pageno fresh = create(4, 100);
        other = open_array(fresh);
        ck_assert_uint_eq(lladd_array_element_size(other), 4);
        lladd_array_close(other);
        ck_assert_int_eq(lladd_array_get(a, 0, &v, &b.err), LLADD_DESTROYED);
    }
    lladd_array_close(a);
}
END_TEST

/* After the destruction has committed, other transactions allocate pages until one of them gets the
 * former root page and overwrites it. */
START_TEST(a_rollback_to_a_later_savepoint_leaves_the_array_destroyed)
{
    lladd_pageno root = create(8, 5000), got = root;
    struct lladd_array *a = open_array(root);
    lladd_savepoint_id sp;
    uint64_t n;
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_array_destroy(txn, root));
    ok(txn, lladd_savepoint(txn, &sp));
    ok(txn, lladd_rollback_to(txn, sp));
    commit(txn);
    ok_db(&b, lladd_wait_durable(b.db, lladd_lsn_of(0), &b.err));
    got.v++;
    for (int i = 0; i < 5000 && got.v != root.v; i++) {
        unsigned char bytes[4096]; /* a raw page, which has no header */
        memset(bytes, 0xa5, sizeof bytes);
        txn = fixture_begin(&b);
        ok(txn, lladd_extent_alloc(txn, 1, LLADD_EXTENT_RAW, &got));
        ok(txn, lladd_bulk_write(txn, got, 1, NULL, bytes));
        commit(txn);
    }
    ck_assert_uint_eq(got.v, root.v);
    ck_assert_int_eq(lladd_array_length(a, &n, &b.err), LLADD_DESTROYED);
    lladd_array_close(a);
}
END_TEST

START_TEST(two_handles_show_the_same_array)
{
    lladd_pageno root = create(8, 10);
    struct lladd_array *a = open_array(root), *c = open_array(root);
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_array_extend(txn, a, 5000, NULL));
    set8(txn, c, 5009, 9);
    lladd_array_close(c);
    ck_assert_uint_eq(get8(a, 5009), 9);
    lladd_array_close(a); /* before the transaction has ended */
    abort_txn(txn);
    a = open_array(root);
    ck_assert_uint_eq(length(a), 10);
    check_whole(a);
    lladd_array_close(a);
}
END_TEST

START_TEST(wrong_calls_change_nothing)
{
    struct lladd_txn *txn = fixture_begin(&b), *foreign;
    struct lladd_array *a;
    lladd_pageno root = {7}, bytes = {0};
    uint64_t v = 1;
    ck_assert_uint_eq(lladd_array_element_max(b.db), 4064);
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_array_create(txn, 0, 1, &root));
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_array_create(txn, 4065, 1, &root));
    refuses(txn, LLADD_TOO_LARGE, lladd_array_create(txn, 8, (UINT64_C(1) << 45) + 1, &root));
    ck_assert_uint_eq(root.v, 7);
    ck_assert_uint_eq(lladd_txn_id(txn).v, 0);
    commit(txn);
    bytes = fixture_page(&b, "lladd.bytes");
    ck_assert_int_eq(lladd_array_open(b.db, bytes, &a, &b.err), LLADD_WRONG_TYPE);
    ck_assert_int_eq(lladd_array_open(b.db, lladd_page_of(0), &a, &b.err), LLADD_WRONG_TYPE);
    txn = fixture_begin(&b);
    refuses(txn, LLADD_WRONG_TYPE, lladd_array_destroy(txn, bytes));
    commit(txn);
    a = open_array(create(8, 5));
    struct fixture second;
    fixture_init(&second, 4096);
    fixture_open(&second);
    foreign = fixture_begin(&second);
    refuses(foreign, LLADD_OTHER_DATABASE, lladd_array_set(foreign, a, 0, &v));
    refuses(foreign, LLADD_OTHER_DATABASE, lladd_array_set_range(foreign, a, 0, 1, &v));
    refuses(foreign, LLADD_OTHER_DATABASE, lladd_array_extend(foreign, a, 1, NULL));
    refuses(foreign, LLADD_OTHER_DATABASE, lladd_array_shrink(foreign, a, 1));
    commit(foreign);
    fixture_free(&second);
    ck_assert_uint_eq(length(a), 5);
    ck_assert_uint_eq(get8(a, 0), 0);
    lladd_array_close(a);
    lladd_array_close(NULL);
}
END_TEST

/* ---- memory and space run out ---------------------------------------------------------------- */

/* Makes each of six calls many times. The n-th time, the n-th memory allocation of the call fails.
 * A call that returns an error has changed nothing. */
START_TEST(without_memory_nothing_changes)
{
    static uint64_t values[2000];
    for (uint64_t i = 0; i < 2000; i++)
        values[i] = i + 1;
    for (int call = 0; call < 6; call++) {
        for (uint64_t n = 1;; n++) {
            lladd_pageno root = call ? create(8, 2000) : lladd_page_of(0);
            struct lladd_array *a = call ? open_array(root) : NULL;
            uint64_t used = fixture_pages_used(&b), before = call ? length(a) : 0;
            struct lladd_txn *txn = fixture_begin(&b);
            fault_alloc_fail(&b.mem, n, false);
            int rc = call == 0   ? lladd_array_create(txn, 8, 2000, &root)
                     : call == 1 ? lladd_array_set_range(txn, a, 0, 2000, values)
                     : call == 2 ? lladd_array_extend(txn, a, 50, NULL)
                     : call == 3 ? lladd_array_shrink(txn, a, 50)
                     : call == 4 ? lladd_array_destroy(txn, root)
                                 : lladd_array_open(b.db, root, &a, &b.err);
            bool fired = fault_alloc_fired(&b.mem) > 0;
            fault_alloc_fail(&b.mem, 0, false);
            if (call == 5 && !rc)
                lladd_array_close(a);
            if (rc) {
                ck_assert_int_eq(rc, LLADD_NO_MEMORY);
                ck_assert(call == 0 || length(a) == before);
                ck_assert(call == 1 || fixture_pages_used(&b) == used);
                ck_assert(call == 0 || get8(a, 1999) == 0);
            }
            abort_txn(txn);
            if (call && rc)
                ok_db(&b, lladd_array_check(a, &b.err));
            ck_assert(call == 0 || get8(a, 1999) == 0);
            lladd_array_close(call ? a : NULL);
            if (call) {
                txn = fixture_begin(&b);
                ok(txn, lladd_array_destroy(txn, root));
                commit(txn);
            }
            ck_assert_uint_eq(fixture_pages_used(&b), 0);
            if (!fired)
                break;
        }
    }
}
END_TEST

START_TEST(without_space_nothing_changes)
{
    enum { N = 200000 };
    lladd_pageno root = create(8, N);
    struct lladd_array *a = open_array(root);
    uint64_t v = 3, values[2000] = {1};
    fill(a, 600, 1);
    fault_device_capacity(b.fd, fault_device_bytes(b.fd));
    struct lladd_txn *txn = fixture_begin(&b);
    set8(txn, a, 1, 77);
    refuses(txn, LLADD_NO_SPACE, lladd_array_set(txn, a, N - 1, &v));
    refuses(txn, LLADD_NO_SPACE, lladd_array_set_range(txn, a, N - 2000, 2000, values));
    ck_assert_uint_eq(get8(a, N - 1), 0);
    ck_assert_uint_eq(get8(a, N - 2000), 0);
    ck_assert_uint_eq(length(a), N);
    if (_i)
        abort_txn(txn);
    else
        commit(txn);
    ck_assert_uint_eq(get8(a, 1), _i ? 2 : 77);
    check_whole(a);
    fault_device_capacity(b.fd, UINT64_MAX);
    txn = fixture_begin(&b);
    set8(txn, a, N - 1, 3);
    commit(txn);
    crash(&a, root);
    ck_assert_uint_eq(get8(a, N - 1), 3);
    ck_assert_uint_eq(get8(a, 599), 600);
    check_whole(a);
    lladd_array_close(a);
}
END_TEST

/* ---- against a model ------------------------------------------------------------------------- */

enum { MOST = 6000 };

struct model {
    uint64_t length;
    unsigned char bytes[MOST * 20];
};

static struct model now, saved, committed;

static void same(struct lladd_array *a, uint32_t size)
{
    static unsigned char got[MOST * 20];
    ck_assert_uint_eq(length(a), now.length);
    ok_db(&b, lladd_array_get_range(a, 0, now.length, got, &b.err));
    ck_assert_mem_eq(got, now.bytes, (size_t)now.length * size);
}

static void change(struct lladd_txn *txn, struct lladd_array *a, uint32_t size, uint64_t *seed)
{
    static unsigned char bytes[MOST * 20];
    uint64_t r = seeded_next(seed), first = now.length ? (r >> 16) % now.length : 0;
    uint64_t n = 1 + (r >> 8) % 900;
    seeded_fill(r, bytes, 900 * (size_t)size);
    if (r % 8 < 4 && now.length) {
        ok(txn, lladd_array_set(txn, a, first, bytes));
        memcpy(now.bytes + first * size, bytes, size);
    } else if (r % 8 == 4 && now.length) {
        n = n < now.length - first ? n : now.length - first;
        ok(txn, lladd_array_set_range(txn, a, first, n, bytes));
        memcpy(now.bytes + first * size, bytes, (size_t)n * size);
    } else if (r % 8 == 5 && now.length + n <= MOST) {
        ok(txn, lladd_array_extend(txn, a, n, &first));
        ck_assert_uint_eq(first, now.length);
        memset(now.bytes + now.length * size, 0, (size_t)n * size);
        now.length += n;
    } else if (r % 8 == 6 && now.length) {
        n = n < now.length ? n : now.length;
        ok(txn, lladd_array_shrink(txn, a, n));
        now.length -= n;
    } else if (now.length) {
        ok(txn, lladd_array_write(txn, a, first, 1, bytes, size - 1));
        memcpy(now.bytes + first * size + 1, bytes, size - 1);
    }
}

START_TEST(random_calls_match_a_model)
{
    uint32_t size = (uint32_t[]){4, 8, 20, 13}[_i % 4];
    uint64_t seed = (uint64_t)_i + 1;
    lladd_pageno root = create(size, 0);
    struct lladd_array *a = open_array(root);
    memset(&now, 0, sizeof now);
    for (int round = 0; round < 60; round++) {
        struct lladd_txn *txn = fixture_begin(&b);
        lladd_savepoint_id sp;
        committed = now;
        for (uint64_t i = seeded_next(&seed) % 12; i > 0; i--)
            change(txn, a, size, &seed);
        ok(txn, lladd_savepoint(txn, &sp));
        saved = now;
        for (uint64_t i = seeded_next(&seed) % 12; i > 0; i--)
            change(txn, a, size, &seed);
        if (seeded_next(&seed) % 3 == 0) {
            ok(txn, lladd_rollback_to(txn, sp));
            now = saved;
            same(a, size);
            change(txn, a, size, &seed);
        }
        switch (seeded_next(&seed) % 8) {
        case 0:
        case 1:
            abort_txn(txn);
            now = committed;
            break;
        case 2:
            crash(&a, root);
            now = committed;
            break;
        default:
            commit(txn);
            if (seeded_next(&seed) % 6 == 0)
                crash(&a, root);
        }
        same(a, size);
        if (round % 10 == 9)
            check_whole(a);
    }
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_array_destroy(txn, root));
    commit(txn);
    lladd_array_close(a);
    ck_assert_uint_eq(fixture_pages_used(&b), 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("arrays");
    TCase *c = tcase_create("arrays");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, formatted_pages_that_are_not_there_are_noticed);
    tcase_add_test(c, unwritten_elements_are_zeros_and_take_no_pages);
    tcase_add_loop_test(c, elements_at_the_ends_of_pages, 0, 7);
    tcase_add_test(c, part_of_an_element);
    tcase_add_test(c, ranges_over_pages);
    tcase_add_test(c, a_rollback_keeps_formatted_pages);
    tcase_add_loop_test(c, an_array_grows_and_shrinks_with_its_transaction, 0, 2);
    tcase_add_loop_test(c, elements_are_zeros_after_a_shrink_and_an_extension, 0, 4);
    tcase_add_loop_test(c, pages_are_freed_when_the_shrinking_commit_is_durable, 0, 2);
    tcase_add_test(c, a_late_commit_frees_no_page_in_use);
    tcase_add_loop_test(c, a_rollback_of_the_creation_destroys_the_array, 0, 2);
    tcase_add_test(c, the_creating_transaction_may_change_the_array);
    tcase_add_loop_test(c, a_rollback_restores_a_destroyed_array, 0, 2);
    tcase_add_test(c, a_rollback_to_a_later_savepoint_leaves_the_array_destroyed);
    tcase_add_test(c, two_handles_show_the_same_array);
    tcase_add_test(c, wrong_calls_change_nothing);
    tcase_add_test(c, without_memory_nothing_changes);
    tcase_add_loop_test(c, without_space_nothing_changes, 0, 2);
    tcase_add_loop_test(c, random_calls_match_a_model, 0, 12);
    suite_add_tcase(s, c);
    return fixture_run(s);
}
