/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One workload with roots, bytes, records, heaps and extents runs many times. Each run makes a
 * different memory allocation or device call fail, or has a device of a different size. Each call
 * succeeds, or returns the reason and has changed nothing (API-1). Every rollback succeeds (REC-3).
 * The database has exactly the committed changes, and no page is lost.
 */
#include "op_fixture.h"

#include <errno.h>
#include <lladd/bulk.h>
#include <lladd/heap.h>
#include <stdio.h>

static struct fixture b;
static lladd_pageno root, slotted, fixed, bytes;

enum { ROUNDS = 12 };

static bool committed[ROUNDS], unknown[ROUNDS];

static void setup(void)
{
    fixture_init(&b, 4096);
    b.options.cache_bytes = 1u << 19;
    b.options.log_ring_bytes = 64u << 10;
    b.options.log_segment_min = 16u << 10;
    b.options.log_segment_max = 16u << 10;
    fixture_open(&b);
    slotted = fixture_page(&b, "lladd.slotted");
    bytes = fixture_page(&b, "lladd.bytes");
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_heap_create(txn, &root));
    ok(txn, lladd_page_alloc(txn, &fixed));
    ok(txn, lladd_fixed_format(txn, fixed, 32));
    commit(txn);
    memset(committed, 0, sizeof committed);
    memset(unknown, 0, sizeof unknown);
}

#define TRY(call) \
    do { \
        int try_rc = (call); \
        if (try_rc) \
            return try_rc; \
    } while (0)

/* Makes the changes of one transaction, and rolls some of them back to a savepoint. */
static int change(struct lladd_txn *txn, struct lladd_heap *heap, int i)
{
    static unsigned char big[4000], raw[2 * 4096];
    char name[32];
    struct lladd_rid r, s, f, g;
    lladd_savepoint_id sp;
    lladd_pageno page, extent;
    memset(big, 'a' + i, sizeof big);
    snprintf(name, sizeof name, "round %d", i);
    TRY(lladd_root_set(txn, name, (struct lladd_root_value){(uint64_t)i, 1}));
    TRY(lladd_counter_add(txn, bytes, 0, 1));
    TRY(lladd_bytes_set(txn, bytes, 100 + 8 * (uint32_t)i, name, 8));
    TRY(lladd_heap_insert(txn, heap, big, 200, &r));
    TRY(lladd_heap_insert(txn, heap, big, 3000, &s));
    TRY(lladd_heap_set(txn, heap, r, big, 3900)); /* the record moves to another page */
    TRY(lladd_heap_delete(txn, heap, s));
    TRY(lladd_slotted_alloc(txn, slotted, big, 40, 0, &s));
    TRY(lladd_fixed_alloc(txn, fixed, big, &f));
    TRY(lladd_savepoint(txn, &sp));
    TRY(lladd_slotted_alloc(txn, slotted, big, 100, 0, &g));
    TRY(lladd_slotted_resize(txn, g, 50));
    TRY(lladd_slotted_free(txn, s));
    TRY(lladd_fixed_free(txn, f));
    TRY(lladd_heap_delete(txn, heap, r));
    TRY(lladd_page_alloc(txn, &page));
    TRY(lladd_bytes_format(txn, page));
    TRY(lladd_bytes_set_range(txn, page, 0, big, 4000));
    TRY(lladd_rollback_to(txn, sp));
    TRY(lladd_extent_alloc(txn, 2, LLADD_EXTENT_RAW, &extent));
    TRY(lladd_bulk_write(txn, extent, 2, NULL, raw));
    TRY(lladd_bulk_sync(txn));
    TRY(lladd_extent_free(txn, extent, 2));
    TRY(lladd_page_alloc(txn, &page));
    return lladd_page_free(txn, page);
}

static int work(struct lladd_txn *txn, int i)
{
    struct lladd_heap *heap;
    TRY(lladd_heap_open(b.db, root, &heap, lladd_txn_error_out(txn)));
    int rc = change(txn, heap, i);
    lladd_heap_close(heap);
    return rc;
}

/* Runs all rounds; every fourth one rolls back. Returns false if the handle is poisoned. */
static bool run_all(bool may_poison)
{
    for (int i = 0; i < ROUNDS; i++) {
        struct lladd_txn *txn;
        int rc = lladd_begin(b.db, NULL, &txn, &b.err);
        if (!rc) {
            rc = work(txn, i);
            if (rc)
                ck_assert_msg(lladd_txn_error(txn)->code == rc, "%s, but the error is %s: %s",
                              lladd_code_name(rc), lladd_code_name(lladd_txn_error(txn)->code),
                              lladd_txn_error(txn)->message);
            int end = rc || i % 4 == 3 ? LLADD_END : lladd_commit(txn);
            if (end == 0)
                committed[i] = true;
            else if (lladd_code_root(end) == LLADD_ROOT_POISONED)
                unknown[i] = true; /* the commit record may have reached the device */
            else
                end = lladd_abort(txn);
            rc = end ? end : rc;
        }
        if (rc && lladd_db_error(b.db, &b.err)) {
            ck_assert_msg(may_poison, "poisoned: %s", b.err.message);
            return false;
        }
        ck_assert_msg(rc == 0 || lladd_code_root(rc) == LLADD_ROOT_RESOURCE ||
                          lladd_code_root(rc) == LLADD_ROOT_RETRY ||
                          (may_poison && lladd_code_root(rc) == LLADD_ROOT_DATA),
                      "round %d: %s", i, lladd_code_name(rc));
    }
    return true;
}

/* Returns the number of rounds that should have committed and did not. */
static int count_refused(void)
{
    int n = 0;
    for (int i = 0; i < ROUNDS; i++)
        n += i % 4 != 3 && !committed[i];
    return n;
}

static bool has_root(int i)
{
    char name[32];
    struct lladd_root_value v;
    snprintf(name, sizeof name, "round %d", i);
    int rc = lladd_root_get(b.db, name, &v, &b.err);
    ck_assert(rc == 0 || rc == LLADD_NOT_FOUND);
    return rc == 0;
}

/* Asserts that the database has the changes of the committed rounds, and no others. */
static void compare(void)
{
    struct lladd_heap *heap;
    struct lladd_heap_cursor c;
    struct lladd_rid rid;
    struct lladd_record r;
    unsigned char left[ROUNDS] = {0};
    int64_t sum = 0, count = 0;
    int rc;
    for (int i = 0; i < ROUNDS; i++) {
        bool is = has_root(i);
        ck_assert_msg(is == committed[i] || unknown[i], "round %d", i);
        left[i] = is;
        count += is;
    }
    ok_db(&b, lladd_counter_get(b.db, bytes, 0, &sum, &b.err));
    ck_assert_int_eq(sum, count);
    ok_db(&b, lladd_heap_open(b.db, root, &heap, &b.err));
    lladd_heap_cursor_open(heap, &c);
    while ((rc = lladd_heap_cursor_next(&c, &rid, &r, &b.err)) == 0) {
        int i = r.bytes[0] - 'a';
        ck_assert(i >= 0 && i < ROUNDS && left[i]);
        ck_assert_uint_eq(r.len, 3900);
        left[i] = 0;
        count--;
    }
    ck_assert_int_eq(rc, LLADD_END);
    ck_assert_int_eq(count, 0);
    lladd_heap_cursor_close(&c);
    lladd_heap_close(heap);
}

/* Asserts that no page is lost: when the heap is destroyed, the three pages of setup are left. */
static void count_pages(void)
{
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_heap_destroy(txn, root));
    commit(txn);
    ck_assert_uint_eq(fixture_pages_used(&b), 3);
}

START_TEST(without_failures)
{
    setup();
    ck_assert(run_all(false));
    compare();
    fixture_crash(&b);
    compare();
    count_pages();
    fixture_free(&b);
}
END_TEST

/* _i 0: one allocation fails in each run; 1: all allocations from number n on fail. */
START_TEST(allocations_fail)
{
    bool more = true;
    uint64_t step = _i ? 7 : 1;
    int refused = 0, runs = 0;
    for (uint64_t n = 1; more; n += step, runs++) {
        setup();
        fault_alloc_fail(&b.mem, n, _i);
        run_all(false);
        more = fault_alloc_fired(&b.mem) > 0;
        fault_alloc_fail(&b.mem, 0, false);
        refused += count_refused();
        compare();
        if (n % 3 == 0)
            fixture_crash(&b);
        compare();
        count_pages();
        fixture_free(&b);
    }
    ck_assert_int_gt(runs, 20);
    ck_assert_int_gt(refused, 20);
}
END_TEST

/* _i / 2 chooses the error. _i % 2: all calls from number n on fail. */
START_TEST(device_calls_fail)
{
    static const int errors[] = {EIO, ENOSPC};
    bool more = true;
    int refused = 0, runs = 0;
    for (uint64_t n = 1; more; n += 3, runs++) {
        setup();
        fault_device_fail(b.fd, n, FAULT_ANY, errors[_i / 2], _i % 2);
        run_all(true);
        more = fault_device_fired(b.fd) > 0;
        fault_device_fail(b.fd, 0, 0, 0, false);
        refused += count_refused();
        fixture_crash(&b);
        compare();
        count_pages();
        fixture_free(&b);
    }
    ck_assert_int_gt(runs, 20);
    ck_assert_int_gt(refused, 20);
}
END_TEST

START_TEST(the_device_is_full)
{
    setup();
    uint64_t at_start = fault_device_bytes(b.fd);
    ck_assert(run_all(false));
    uint64_t at_end = fault_device_bytes(b.fd);
    fixture_free(&b);
    ck_assert_uint_gt(at_end, at_start);
    int refused = 0;
    for (uint64_t size = at_start; size <= at_end; size += (at_end - at_start) / 40 + 1) {
        setup();
        fault_device_capacity(b.fd, size);
        ck_assert(run_all(false)); /* the handle is not poisoned, every rollback succeeds */
        compare();
        refused += count_refused();
        fixture_crash(&b); /* recovers on the full device */
        compare();
        fault_device_capacity(b.fd, UINT64_MAX);
        count_pages();
        fixture_free(&b);
    }
    ck_assert_int_gt(refused, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("failures");
    TCase *c = tcase_create("failures");
    tcase_add_test(c, without_failures);
    tcase_add_loop_test(c, allocations_fail, 0, 2);
    tcase_add_loop_test(c, device_calls_fail, 0, 4);
    tcase_add_test(c, the_device_is_full);
    suite_add_tcase(s, c);
    return fixture_run(s);
}
