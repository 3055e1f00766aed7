/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests what docs/durability.md says about the bytes that are written, and about checkpoints. */
#include "db_fixture.h"

#include <stdlib.h>

static struct fixture r;
static lladd_pageno page;

static struct cell at(unsigned i)
{
    return cell_of(page, i);
}

static void begin_case(int kind)
{
    fixture_init(&r, (unsigned)kind);
    fixture_open(&r);
    page = fixture_page(&r);
}

static void end_case(void)
{
    fixture_free(&r);
}

/* After the next checkpoint, everything that was committed before it is durable in every mode. */
START_TEST(a_checkpoint_makes_each_commit_durable)
{
    static const enum lladd_durability modes[] = {LLADD_DURABLE, LLADD_DURABLE_OS,
                                                  LLADD_DURABLE_LATER};
    for (unsigned m = 0; m < 3; m++) {
        struct lladd_txn_options o = LLADD_TXN_OPTIONS_INIT;
        begin_case(_i);
        o.durability = modes[m];
        struct lladd_txn *txn = fixture_begin_with(&r, &o);
        ok(txn, cell_put(txn, at(0), 5));
        done(lladd_commit(txn));
        ok_db(&r, lladd_checkpoint(r.db, &r.err));
        fixture_crash(&r, &fault_power);
        fixture_open(&r);
        fixture_expect(&r, at(0), 5);
        end_case();
    }
}
END_TEST

/* docs/durability.md, "What is written, and when": a commit writes nothing but log. The checkpoint
 * writes each page once and logs at most one image of it, however often it was changed. */
START_TEST(what_a_durable_update_writes)
{
    enum { UPDATES = 20, BYTES = 100, MOST = 400 };
    begin_case(_i & FIXTURE_RESERVED);
    fixture_set(&r, at(0), 1);
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    struct lladd_stats first = fixture_stats(&r);
    for (unsigned i = 0; i < UPDATES; i++) {
        struct lladd_txn *txn = fixture_begin(&r);
        ok(txn, cell_put_wide(txn, at(40), i, BYTES));
        done(lladd_commit(txn));
    }
    struct lladd_stats before = fixture_stats(&r);
    ck_assert_uint_le(before.log_tail - first.log_tail, UPDATES * MOST);
    ck_assert_uint_eq(before.log_syncs - first.log_syncs, UPDATES);
    ck_assert_uint_eq(before.page_images, first.page_images);
    ck_assert_uint_eq(before.pages_written, first.pages_written);
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    struct lladd_stats after = fixture_stats(&r);
    ck_assert_uint_le(after.page_images - before.page_images, 1);
    ck_assert_uint_eq(after.pages_written - before.pages_written, 1);
    end_case();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("durability");
    TCase *t = tcase_create("durability");
    tcase_add_loop_test(t, a_checkpoint_makes_each_commit_durable, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, what_a_durable_update_writes, 0, FIXTURE_KINDS);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
