/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Recoveries that make log segments, and crash before any record in these segments is durable. The
 * first recovery crashes at each of its device calls in turn, and so does the second. The third
 * recovery succeeds. The undo of the transactions in doubt and of the losers needs more log than
 * one segment has. In another case a clean close comes between two recoveries. log/test_reuse.c
 * tests the log alone; this test opens the whole database.
 */
#include "db_fixture.h"
#include "support/fixtures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGES = 4, LOSES = 60 };

struct state {
    struct fixture r;
    lladd_pageno pages[PAGES];
    struct fault_crash how;
};

/* The options of a case: page size, ring, cache, largest segment, kind of recovery and its
 * memory. */
static const struct sizes {
    uint32_t page;
    uint64_t ring, cache, segment_max;
    enum lladd_recovery recovery;
    uint64_t recovery_bytes;
} sizes[] = {
    {4096, 128 << 10, 1 << 20, 16 << 10, LLADD_RECOVER_FULL, 0},
    {4096, 256 << 10, 64 << 10, 16 << 10, LLADD_RECOVER_INSTANT, 0},
    {8192, 128 << 10, 256 << 10, 4 << 10, LLADD_RECOVER_INSTANT, 64},
    {16384, 256 << 10, 512 << 10, 32 << 10, LLADD_RECOVER_FULL, 0},
};
enum { SIZES = sizeof sizes / sizeof *sizes };

static void set_sizes(struct fixture *r, const struct sizes *z)
{
    r->options.page_size = z->page;
    r->options.log_ring_bytes = z->ring;
    r->options.cache_bytes = z->cache;
    r->options.log_segment_min = 4096;
    r->options.log_segment_max = z->segment_max;
    r->options.recovery = z->recovery;
    r->options.recovery_bytes = z->recovery_bytes;
}

/* Makes a loser, a transaction in doubt, and a commit that makes the records of both durable. Then
 * the process dies. */
static void load(struct state *s, bool in_doubt, const struct sizes *z)
{
    struct lladd_txn *loser, *doubt, *txn;
    struct lladd_gid gid = gid_of("doubt");
    fixture_init(&s->r, 0);
    set_sizes(&s->r, z);
    fixture_open(&s->r);
    fixture_pages(&s->r, s->pages, PAGES);
    fixture_set(&s->r, cell_of(s->pages[3], 0), 1);
    ok_db(&s->r, lladd_checkpoint(s->r.db, &s->r.err));
    loser = fixture_begin(&s->r);
    for (unsigned i = 0; i < LOSES; i++)
        ok(loser, cell_put(loser, cell_of(s->pages[i % 2], i / 2), 100 + i));
    if (in_doubt) {
        doubt = fixture_begin(&s->r);
        for (unsigned i = 0; i < LOSES / 2; i++)
            ok(doubt, cell_put(doubt, cell_of(s->pages[2], i), 1000 + i));
        done(lladd_prepare(doubt, &gid));
    }
    txn = fixture_begin(&s->r);
    ok(txn, cell_put(txn, cell_of(s->pages[3], 0), 2));
    done(lladd_commit(txn));
    fixture_crash(&s->r, &fault_kill);
}

/* Opens the database, and crashes at the n-th call. Returns false if open makes fewer calls. */
static bool recover(struct state *s, uint64_t n)
{
    fault_device_crash_at(s->r.fd, n);
    int rc = fixture_try_open(&s->r);
    bool crashed = fault_device_crashed(s->r.fd);
    ck_assert_msg(crashed || rc == 0, "call %llu: %s: %s", (unsigned long long)n,
                  lladd_code_name(rc), s->r.err.message);
    s->how.seed += n;
    fixture_crash(&s->r, &s->how);
    fault_device_crash_at(s->r.fd, 0);
    return crashed;
}

static void check(struct state *s, bool in_doubt)
{
    int rc = fixture_try_open(&s->r);
    ck_assert_msg(rc == 0, "%s: %s", lladd_code_name(rc), s->r.err.message);
    fixture_expect(&s->r, cell_of(s->pages[3], 0), 2);
    for (unsigned i = 0; i < LOSES; i++)
        fixture_expect(&s->r, cell_of(s->pages[i % 2], i / 2), 0);
    ck_assert_uint_eq(fixture_in_doubt(&s->r).n, in_doubt);
    if (in_doubt) {
        struct lladd_txn *txn = fixture_claim(&s->r, "doubt");
        done(lladd_commit(txn));
        for (unsigned i = 0; i < LOSES / 2; i++)
            fixture_expect(&s->r, cell_of(s->pages[2], i), 1000 + i);
    }
    fixture_set(&s->r, cell_of(s->pages[3], 1), 3);
    fixture_reopen(&s->r);
    fixture_expect(&s->r, cell_of(s->pages[3], 1), 3);
    fixture_free(&s->r);
}

enum { MODES = 3 };

#ifdef LL_TEST_SHORT
enum { CALLS_APART = 8, TRIED_LEAST = 20 };
#else
enum { CALLS_APART = 3, TRIED_LEAST = 60 };
#endif

/* _i: bit 0, a transaction is in doubt; the next bits, what a crash leaves; the other bits, the
 * sizes. */
START_TEST(two_crashes_in_recovery)
{
    static const enum fault_crash_mode modes[] = {FAULT_KILL, FAULT_POWER, FAULT_SUBSET};
    bool in_doubt = _i & 1, first = true;
    const struct sizes *z = &sizes[_i / 2 / MODES];
    uint64_t by = (getenv("LLADD_NIGHTLY") ? 1u : CALLS_APART) * (z == sizes ? 1u : 20u);
    unsigned tried = 0;
    for (uint64_t a = 1; first; a++) {
        bool second = true;
        for (uint64_t b = 1 + a % by; second; b += by) {
            struct state s = {.how = {modes[_i / 2 % MODES], 1, true}};
            load(&s, in_doubt, z);
            first = recover(&s, a);
            second = recover(&s, b);
            check(&s, in_doubt);
            tried++;
        }
    }
    ck_assert_uint_gt(tried, TRIED_LEAST);
}
END_TEST

/* Makes a database that was closed when its log ended at the beginning of an empty segment: a
 * recovery has made this segment, and has logged nothing. There is no later segment. */
static void end_in_an_empty_segment(struct state *s)
{
    fixture_init(&s->r, 0);
    s->r.options.log_segment_min = s->r.options.log_segment_max = 64u << 10;
    fixture_open(&s->r);
    fixture_pages(&s->r, s->pages, PAGES);
    fixture_set(&s->r, cell_of(s->pages[3], 0), 2);
    ok_db(&s->r, lladd_checkpoint(s->r.db, &s->r.err));
    fault_device_capacity(s->r.fd, fault_device_bytes(s->r.fd));
    fixture_crash(&s->r, &fault_kill);
    fixture_open(&s->r);
    fixture_close(&s->r);
    fault_device_capacity(s->r.fd, UINT64_MAX);
}

/* The next session marks the database as in use, and logs nothing that survives. The recovery after
 * this session reuses the empty segment's file for its own segment. _i: what the crash leaves. */
START_TEST(an_empty_segment_at_the_log_end_of_a_clean_close_is_reused)
{
    static const enum fault_crash_mode modes[] = {FAULT_KILL, FAULT_POWER, FAULT_SUBSET};
    unsigned tried = 0;
    for (uint64_t in_use = 1; in_use < 10; in_use++) {
        bool crashed = true;
        for (uint64_t n = 1; crashed; n++) {
            struct state s = {.how = {modes[_i], 1, true}};
            end_in_an_empty_segment(&s);
            fixture_open(&s.r);
            fault_device_crash_at(s.r.fd, in_use);
            (void)lladd_checkpoint(s.r.db, &s.r.err);
            fault_device_crash_at(s.r.fd, 0);
            fixture_crash(&s.r, &fault_power);
            crashed = recover(&s, n);
            fixture_open(&s.r);
            fixture_expect(&s.r, cell_of(s.pages[3], 0), 2);
            fixture_set(&s.r, cell_of(s.pages[3], 1), 3);
            fixture_reopen(&s.r);
            fixture_expect(&s.r, cell_of(s.pages[3], 1), 3);
            fixture_free(&s.r);
            tried++;
        }
    }
    ck_assert_uint_gt(tried, 60);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("reuse");
    TCase *t = tcase_create("reuse");
    tcase_add_loop_test(t, two_crashes_in_recovery, 0, 2 * MODES * SIZES);
    tcase_add_loop_test(t, an_empty_segment_at_the_log_end_of_a_clean_close_is_reused, 0, 3);
    suite_add_tcase(s, t);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_ENV);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
