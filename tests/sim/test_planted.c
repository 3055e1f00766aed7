/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The switches of <lladd/dst.h>: off, the library is right; on, it is wrong in that way and in no
 * other. That a simulator finds each of them is for the simulator's own tests to show.
 */
#include "rig.h"
#include "seen.h"

static struct rig r;
static struct seen seen;
static lladd_pageno page[2];

/* Two committed pages of cells; then the library gets the bug. */
static void begin_case(enum lladd_bug bug)
{
    rig_init(&r, 0);
    rig_open(&r);
    rig_pages(&r, page, 2);
    seen_begin(&seen);
    if (bug < LLADD_BUGS)
        seen.dst.planted = UINT64_C(1) << bug;
}

static void end_case(void)
{
    lladd_dst_enter(NULL);
    if (r.db)
        rig_crash(&r, &fault_kill);
    rig_free(&r);
}

START_TEST(bugs_have_names_of_their_own)
{
    static const char *const names[] = {
#define NAME(id, text, oracle, what) text,
        LLADD_BUG_LIST(NAME)
#undef NAME
    };
    ck_assert_uint_le(LLADD_BUGS, 64); /* bits of lladd_dst.planted */
    ck_assert_uint_ge(LLADD_BUGS, 20);
    for (unsigned i = 0; i < LLADD_BUGS; i++)
        for (unsigned k = 0; k < i; k++)
            ck_assert_str_ne(names[i], names[k]);
}
END_TEST

/* How many pages of this run went to the disk before their log, and how many promises were made. */
static unsigned broken(enum lladd_dst_what what)
{
    unsigned n = 0;
    for (unsigned i = 0; i < seen.n; i++) {
        const struct lladd_dst_event *e = &seen.events[i];
        n += e->what == what && e->lsn.v >= e->durable.v;
    }
    return n;
}

static unsigned early_page_writes(enum lladd_bug bug)
{
    begin_case(bug);
    struct lladd_txn *txn = rig_begin(&r);
    ok(txn, cell_put(txn, cell_of(page[0], 0), 9));
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    unsigned n = broken(LLADD_DST_PAGE_WRITE);
    ck_assert_uint_ge(seen_count(&seen, LLADD_DST_PAGE_WRITE, NULL, 0), 1);
    end_case();
    return n;
}

START_TEST(without_the_gate_pages_are_written_before_their_log)
{
    ck_assert_uint_eq(early_page_writes(LLADD_BUGS), 0);
    ck_assert_uint_ge(early_page_writes(LLADD_BUG_WAL_GATE), 1);
}
END_TEST

static unsigned early_promises(enum lladd_bug bug)
{
    struct lladd_gid gid = gid_of("g");
    begin_case(bug);
    rig_set(&r, cell_of(page[0], 0), 5);
    struct lladd_txn *txn = rig_begin(&r);
    ok(txn, cell_add(txn, cell_of(page[0], 0), 1));
    ok(txn, lladd_prepare(txn, &gid));
    unsigned n = broken(LLADD_DST_ACKNOWLEDGE);
    ck_assert_uint_ge(seen_count(&seen, LLADD_DST_ACKNOWLEDGE, NULL, 0), 2);
    end_case();
    return n;
}

START_TEST(promises_can_be_made_too_early)
{
    ck_assert_uint_eq(early_promises(LLADD_BUGS), 0);
    ck_assert_uint_eq(early_promises(LLADD_BUG_ACKNOWLEDGE), 1);
    ck_assert_uint_eq(early_promises(LLADD_BUG_PREPARE), 1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("planted");
    TCase *t = tcase_create("planted");
    tcase_add_test(t, bugs_have_names_of_their_own);
    tcase_add_test(t, without_the_gate_pages_are_written_before_their_log);
    tcase_add_test(t, promises_can_be_made_too_early);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
