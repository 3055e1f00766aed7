/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Closing a handle with `durable` callbacks that write. lladd_close calls such a callback for each
 * commit that the close itself has made durable.
 */
#include "db_fixture.h"
#include "support/fixtures.h"

#include <stdlib.h>
#include <string.h>

enum { PAGES = 60 };

static struct fixture r;
static lladd_pageno pages[PAGES];
static bool class_is_full; /* the class's checkpoint callback fails for lack of space */
static bool leaves_open;   /* the `durable` callback does not end its transaction */
static unsigned calls;

static int class_checkpoint(void *ctx, struct lladd_db *db)
{
    (void)ctx;
    (void)db;
    return class_is_full ? LLADD_NO_SPACE : 0;
}

static lladd_lsn class_durable_lsn(void *ctx, struct lladd_db *db)
{
    (void)ctx;
    (void)db;
    return lladd_lsn_of(UINT64_MAX);
}

static const struct lladd_object_class full_class = {
    .struct_size = sizeof full_class,
    .name = "test.full",
    .version = 1,
    .checkpoint = class_checkpoint,
    .durable_lsn = class_durable_lsn,
};

static struct lladd_txn *begin_relaxed(struct lladd_db *db)
{
    struct lladd_txn_options later = LLADD_TXN_OPTIONS_INIT;
    struct lladd_txn *txn = NULL;
    later.durability = LLADD_DURABLE_LATER;
    ok_db(&r, lladd_begin(db, &later, &txn, &r.err));
    return txn;
}

/* The `durable` callback. For the first commit it writes more pages than the cache holds. */
static void write_more(void *ctx, void *state, struct lladd_db *db, lladd_lsn lsn)
{
    (void)ctx;
    (void)state;
    (void)lsn;
    if (calls++)
        return;
    struct lladd_txn *txn = begin_relaxed(db);
    for (unsigned i = 1; i < PAGES; i++)
        ok(txn, cell_put(txn, cell_of(pages[i], 0), 2));
    if (!leaves_open)
        done(lladd_commit(txn));
}

static const struct lladd_participant teller = {
    .struct_size = sizeof teller,
    .name = "test.teller",
    .version = 1,
    .durable = write_more,
};

/* Closes a database in which one commit is not durable. */
static void close_with_callback(bool full)
{
    fixture_init(&r, 0);
    r.options.cache_bytes = 80u << 10;
    ok_db(&r, lladd_register_class(&r.options, &full_class, &r.err));
    ok_db(&r, lladd_register_participant(&r.options, &teller, &r.err));
    fixture_open(&r);
    fixture_pages(&r, pages, PAGES);
    calls = 0;
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    struct lladd_txn *txn = begin_relaxed(r.db);
    ok(txn, lladd_txn_join(txn, &teller, NULL));
    ok(txn, cell_put(txn, cell_of(pages[0], 0), 1));
    done(lladd_commit(txn));
    class_is_full = full;
    fixture_close(&r);
    ck_assert_uint_eq(calls, 1);
    class_is_full = false;
}

static void expect(uint64_t more)
{
    fixture_expect(&r, cell_of(pages[0], 0), 1);
    for (unsigned i = 1; i < PAGES; i++)
        fixture_expect(&r, cell_of(pages[i], 0), more);
}

/* What the callback commits is kept. If _i is 1, close takes no checkpoint, for lack of space, and
 * the next open recovers. */
START_TEST(what_a_callback_commits_lasts)
{
    leaves_open = false;
    close_with_callback(_i);
    fixture_open(&r);
    expect(2);
    fixture_close(&r);
    fixture_free(&r);
}
END_TEST

/* The callback leaves a transaction open, and close rolls it back. If _i is 1, close takes no
 * checkpoint, so the next open must recover. That open crashes at its n-th call, for every n, and
 * the database is opened once more. */
START_TEST(what_a_callback_leaves_open_is_rolled_back)
{
    bool crashed = true;
    leaves_open = true;
    for (uint64_t n = 1; crashed; n++) {
        close_with_callback(_i);
        fault_device_crash_at(r.fd, n);
        int rc = fixture_try_open(&r);
        crashed = fault_device_crashed(r.fd);
        ck_assert_msg(crashed || rc == 0, "call %llu: %s: %s", (unsigned long long)n,
                      lladd_code_name(rc), r.err.message);
        fault_device_crash_at(r.fd, 0);
        fixture_crash(&r, &fault_kill);
        fixture_open(&r);
        expect(0);
        fixture_close(&r);
        fixture_free(&r);
    }
}
END_TEST

/* The callback leaves a transaction open, and close rolls it back. So the next open finds no
 * losers. */
START_TEST(a_clean_close_leaves_nothing_to_roll_back)
{
    leaves_open = true;
    close_with_callback(false);
    fixture_want_trace(&r);
    fixture_open(&r);
    ck_contains(r.trace, " 0 losers");
    fixture_close(&r);
    fixture_free(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("close");
    TCase *t = tcase_create("callbacks");
    tcase_add_loop_test(t, what_a_callback_commits_lasts, 0, 2);
    tcase_add_loop_test(t, what_a_callback_leaves_open_is_rolled_back, 0, 2);
    tcase_add_test(t, a_clean_close_leaves_nothing_to_roll_back);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
