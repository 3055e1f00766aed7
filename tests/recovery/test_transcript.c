/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The trace of recovery's decisions: which transactions are losers, which records are redone, and
 * the order of undo (REC-5: records of the deepest level first, and within a level the newest
 * record first).
 *
 * An LSN depends on the length of every earlier record. So numbers in the trace are replaced by
 * names before it is compared: txn_is(1) and here(1) give the names T1 and r1. Other numbers are
 * shown as "?".
 */
#include "db_fixture.h"

#include <ctype.h>
#include <lladd/log_read.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct fixture r;
static lladd_pageno page;

/* The names of numbers. */
static struct {
    uint64_t lsn;
    char name[8];
} names[32];
static unsigned n_names;

static void call(uint64_t lsn, char kind, unsigned number)
{
    ck_assert_uint_lt(n_names, sizeof names / sizeof *names);
    names[n_names].lsn = lsn;
    snprintf(names[n_names++].name, sizeof names[0].name, "%c%u", kind, number);
}

/* Gives the transaction the name T<number>. */
static void txn_is(const struct lladd_txn *txn, unsigned number)
{
    call(lladd_txn_id(txn).v, 'T', number);
}

/* Gives the record that is logged next the name r<number>. */
static void here(unsigned number)
{
    call(fixture_stats(&r).log_tail, 'r', number);
}

/* Returns the text with every number after "LSN " or "transaction " replaced by its name. */
static char *renamed(const char *text)
{
    char *out = calloc(1, strlen(text) + 1);
    size_t len = 0;
    while (*text) {
        bool lsn = strncmp(text, "LSN ", 4) == 0, txn = strncmp(text, "transaction ", 12) == 0;
        size_t skip = lsn ? 4 : txn ? 12 : 0;
        if (!skip || !isdigit((unsigned char)text[skip])) {
            out[len++] = *text++;
            continue;
        }
        memcpy(out + len, text, skip);
        len += skip;
        char *end;
        uint64_t v = strtoull(text + skip, &end, 10);
        text = end;
        const char *name = "?";
        for (unsigned i = 0; i < n_names; i++)
            if (names[i].lsn == v && names[i].name[0] == (lsn ? 'r' : 'T'))
                name = names[i].name;
        len += (size_t)snprintf(out + len, 8, "%s", name);
    }
    return out;
}

/* Returns the lines of the trace that begin with one of `prefixes` (such as "undo|in doubt"), with
 * names in the place of numbers. */
static char *lines_of(const char *prefixes)
{
    char *all = renamed(r.trace), *out = calloc(1, strlen(all) + 1);
    for (char *line = strtok(all, "\n"); line; line = strtok(NULL, "\n")) {
        for (const char *p = prefixes; p; p = strchr(p, '|')) {
            p += *p == '|';
            size_t n = strcspn(p, "|");
            if (strncmp(line, p, n) == 0) {
                strcat(out, line);
                strcat(out, "\n");
                break;
            }
        }
    }
    free(all);
    return out;
}

static void expect_lines(const char *prefixes, const char *expected)
{
    char *got = lines_of(prefixes);
    ck_assert_msg(strcmp(got, expected) == 0, "got:\n%sexpected:\n%s", got, expected);
    free(got);
}

static void expect_undo(const char *expected)
{
    expect_lines("undo|undone|in doubt", expected);
}

static struct cell at(unsigned i)
{
    return cell_of(page, i);
}

/* The operation "test.stop". Its compensation makes all earlier records durable, and then fails,
 * but only the first time. */
static bool stops;

static int stop_compensate(void *ctx, struct lladd_txn *txn, struct lladd_span undo)
{
    (void)ctx;
    (void)undo;
    if (!stops)
        return 0;
    struct lladd_db *db = lladd_txn_db(txn);
    struct lladd_error *err = lladd_txn_error_out(txn);
    int rc = lladd_pin_set(db, "force", lladd_lsn_of(fixture_stats(&r).log_oldest), err);
    return rc ? rc : lladd_error_set(err, LLADD_BUSY, "stopped by the test");
}

static bool stop_validate(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)v;
    return kind == LLADD_SPAN_UNDO && s.len == 0;
}

static const struct lladd_op test_stop = {
    .struct_size = sizeof test_stop,
    .name = "test.stop",
    .version = 1,
    .record_max = 8,
    .undo_kind = LLADD_UNDO_LOGICAL,
    .validate = stop_validate,
    .compensate = stop_compensate,
    .undo_log_max = 256,
    .undo_pages_max = 1,
};

static lladd_op_id stop_id(void)
{
    lladd_op_id id = LLADD_NO_OP;
    ck_assert_int_eq(lladd_op_lookup(r.db, "test.stop", 1, &id), 0);
    return id;
}

/* Aborts; the rollback stops at test.stop. Then the power fails, and the database is opened. */
static void abort_halfway(struct lladd_txn *txn)
{
    stops = true;
    ck_assert_int_eq(lladd_abort(txn), LLADD_UNDO_FAILED);
    stops = false;
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
}

/* Uses every operation once, so that later no name and no image of the page is logged. */
static void begin_case(void)
{
    n_names = 0;
    fixture_init(&r, 0);
    fixture_want_trace(&r);
    ok_db(&r, lladd_register_op(&r.options, &test_stop, &r.err));
    fixture_open(&r);
    page = fixture_page(&r);
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, cell_put(txn, at(9), 1));
    ok(txn, cell_add(txn, at(9), 1));
    ok(txn, cell_bump(txn, at(9), 1));
    ok(txn, cells_transfer(txn, at(9), at(10), 1));
    ok(txn, lladd_log_undo_only(txn, stop_id(), "", 0));
    done(lladd_commit(txn));
}

/* Makes all records durable. Then the power fails, and the database is opened. */
static void crash(void)
{
    ok_db(&r, lladd_pin_set(r.db, "force", lladd_lsn_of(fixture_stats(&r).log_oldest), &r.err));
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
}

/* Returns the number before `what` in a line like "analysis: ... 12 records, 3 commits,
 * 1 losers". */
static unsigned number_before(const char *what)
{
    const char *p = strstr(r.trace, what);
    ck_assert_ptr_nonnull(p);
    while (p > r.trace && isdigit((unsigned char)p[-1]))
        p--;
    return (unsigned)atoi(p);
}

static void end_case(void)
{
    fixture_free(&r);
}

/* ---- cases ------------------------------------------------------------------------------- */

START_TEST(after_a_clean_stop_recovery_does_nothing)
{
    begin_case();
    fixture_set(&r, at(0), 1);
    fixture_reopen(&r);
    ck_assert_uint_eq(number_before(" losers"), 0);
    ck_assert_uint_eq(number_before(" commits"), 0);
    expect_lines("redo|undo|undone|in doubt|double", "");
    end_case();
}
END_TEST

START_TEST(winners_are_redone_and_losers_undone_newest_record_first)
{
    begin_case();
    struct lladd_txn *winner = fixture_begin(&r), *a = fixture_begin(&r), *b = fixture_begin(&r);
    here(1);
    ok(a, cell_add(a, at(0), 1));
    ok(winner, cell_add(winner, at(0), 10));
    here(2);
    ok(b, cell_put(b, at(1), 5));
    here(3);
    ok(a, cell_add(a, at(2), 1));
    txn_is(a, 1);
    txn_is(b, 2);
    done(lladd_commit(winner));
    crash();
    ck_assert_uint_eq(number_before(" commits"), 2); /* the winner, and the commit of begin_case */
    ck_assert_uint_eq(number_before(" losers"), 2);
    expect_undo("undo: transaction T1, LSN r3, depth 0, test.add, page 2\n"
                "undo: transaction T2, LSN r2, depth 0, test.put, page 2\n"
                "undone: transaction T2\n"
                "undo: transaction T1, LSN r1, depth 0, test.add, page 2\n"
                "undone: transaction T1\n");
    fixture_expect(&r, at(0), 10);
    end_case();
}
END_TEST

START_TEST(what_a_rollback_has_undone_is_not_undone_again)
{
    lladd_savepoint_id sp;
    begin_case();
    struct lladd_txn *txn = fixture_begin(&r);
    here(1);
    ok(txn, cell_add(txn, at(0), 1));
    ok(txn, lladd_savepoint(txn, &sp));
    here(2);
    ok(txn, cell_add(txn, at(0), 2));
    here(3);
    ok(txn, cell_bump(txn, at(1), 2));
    ok(txn, lladd_rollback_to(txn, sp));
    here(4);
    ok(txn, cell_add(txn, at(0), 4));
    txn_is(txn, 1);
    crash();
    expect_undo("undo: transaction T1, LSN r4, depth 0, test.add, page 2\n"
                "undo: transaction T1, LSN r1, depth 0, test.add, page 2\n"
                "undone: transaction T1\n");
    fixture_expect(&r, at(0), 0);
    end_case();
}
END_TEST

/* When the power fails, two of four records are undone. The CLRs of these two tell recovery to
 * continue with the other two. */
START_TEST(a_rollback_that_a_crash_interrupted_goes_on_where_it_was)
{
    begin_case();
    struct lladd_txn *txn = fixture_begin(&r);
    here(1);
    ok(txn, cell_add(txn, at(0), 1));
    here(2);
    ok(txn, lladd_log_undo_only(txn, stop_id(), "", 0));
    ok(txn, cell_add(txn, at(0), 4));
    ok(txn, cell_bump(txn, at(0), 8));
    txn_is(txn, 1);
    abort_halfway(txn);
    expect_undo("undo: transaction T1, LSN r2, depth 0, test.stop\n"
                "undo: transaction T1, LSN r1, depth 0, test.add, page 2\n"
                "undone: transaction T1\n");
    fixture_expect(&r, at(0), 0);
    end_case();
}
END_TEST

START_TEST(an_open_action_is_undone_physically_and_a_closed_one_logically)
{
    struct lladd_action open;
    begin_case();
    struct lladd_txn *txn = fixture_begin(&r);
    here(1);
    ok(txn, cell_put(txn, at(0), 1));
    ok(txn, cells_transfer(txn, at(1), at(2), 3));
    ok(txn, lladd_nta_begin(txn, &open));
    here(2);
    ok(txn, cell_put(txn, at(3), 1));
    here(3);
    ok(txn, cell_put(txn, at(4), 1));
    txn_is(txn, 1);
    crash();
    /* "?" is the record that closes the transfer; the test does not know its LSN. */
    expect_undo("undo: transaction T1, LSN r3, depth 1, test.put, page 2\n"
                "undo: transaction T1, LSN r2, depth 1, test.put, page 2\n"
                "undo: transaction T1, LSN ?, depth 0, test.transfer\n"
                "undo: transaction T1, LSN r1, depth 0, test.put, page 2\n"
                "undone: transaction T1\n");
    for (unsigned i = 0; i < 5; i++)
        fixture_expect(&r, at(i), 0);
    end_case();
}
END_TEST

START_TEST(a_closed_action_inside_an_open_one_is_undone_logically)
{
    struct lladd_action open;
    begin_case();
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, lladd_nta_begin(txn, &open));
    here(1);
    ok(txn, cell_put(txn, at(0), 1));
    ok(txn, cells_transfer(txn, at(1), at(2), 3));
    here(2);
    ok(txn, cell_put(txn, at(3), 1));
    txn_is(txn, 1);
    crash();
    expect_undo("undo: transaction T1, LSN r2, depth 1, test.put, page 2\n"
                "undo: transaction T1, LSN ?, depth 1, test.transfer\n"
                "undo: transaction T1, LSN r1, depth 1, test.put, page 2\n"
                "undone: transaction T1\n");
    end_case();
}
END_TEST

/* REC-5. The open action of the older transaction is undone before the ordinary record of the newer
 * transaction. Otherwise a logical undo might use a structure that the action has changed only in
 * part. */
START_TEST(the_deepest_level_goes_first_across_transactions)
{
    struct lladd_action a_outer, a_inner, b_outer;
    begin_case();
    struct lladd_txn *a = fixture_begin(&r), *b = fixture_begin(&r), *c = fixture_begin(&r);
    here(1);
    ok(a, cell_put(a, at(0), 1));
    ok(a, lladd_nta_begin(a, &a_outer));
    here(2);
    ok(a, cell_put(a, at(1), 1));
    ok(a, lladd_nta_begin(a, &a_inner));
    here(3);
    ok(a, cell_put(a, at(2), 1));
    ok(b, lladd_nta_begin(b, &b_outer));
    here(4);
    ok(b, cell_put(b, at(3), 1));
    here(5);
    ok(c, cell_bump(c, at(4), 1));
    here(6);
    ok(b, cell_put(b, at(5), 1));
    txn_is(a, 1);
    txn_is(b, 2);
    txn_is(c, 3);
    crash();
    expect_undo("undo: transaction T1, LSN r3, depth 2, test.put, page 2\n"
                "undo: transaction T2, LSN r6, depth 1, test.put, page 2\n"
                "undo: transaction T2, LSN r4, depth 1, test.put, page 2\n"
                "undone: transaction T2\n"
                "undo: transaction T1, LSN r2, depth 1, test.put, page 2\n"
                "undo: transaction T3, LSN r5, depth 0, test.bump, page 2\n"
                "undone: transaction T3\n"
                "undo: transaction T1, LSN r1, depth 0, test.put, page 2\n"
                "undone: transaction T1\n");
    for (unsigned i = 0; i < 6; i++)
        fixture_expect(&r, at(i), 0);
    end_case();
}
END_TEST

START_TEST(what_is_in_doubt_is_left_alone)
{
    struct lladd_gid gid = gid_of("x");
    begin_case();
    struct lladd_txn *doubt = fixture_begin(&r), *loser = fixture_begin(&r), *txn;
    here(1);
    ok(doubt, cell_put(doubt, at(0), 1));
    here(2);
    ok(loser, cell_put(loser, at(1), 1));
    ok(doubt, lladd_prepare(doubt, &gid));
    txn_is(doubt, 1);
    txn_is(loser, 2);
    crash();
    ck_assert_uint_eq(number_before(" in doubt"), 1);
    ck_assert_uint_eq(number_before(" losers"), 1);
    expect_undo("in doubt: transaction T1\n"
                "undo: transaction T2, LSN r2, depth 0, test.put, page 2\n"
                "undone: transaction T2\n");
    fixture_expect(&r, at(0), 1);
    ok_db(&r, lladd_in_doubt_claim(r.db, &gid, &txn, &r.err));
    done(lladd_abort(txn));
    fixture_expect(&r, at(0), 0);
    end_case();
}
END_TEST

/* The abort of a prepared transaction has begun before the crash. The next open completes it, and
 * the transaction can no longer be committed. */
START_TEST(an_interrupted_abort_of_a_prepared_transaction_is_finished)
{
    struct lladd_gid gid = gid_of("x");
    for (int checkpoint = 0; checkpoint < 2; checkpoint++) {
        struct lladd_txn *claimed;
        begin_case();
        struct lladd_txn *txn = fixture_begin(&r);
        here(1);
        ok(txn, cell_put(txn, at(0), 1));
        here(2);
        ok(txn, lladd_log_undo_only(txn, stop_id(), "", 0));
        ok(txn, cell_put(txn, at(1), 1));
        txn_is(txn, 1);
        ok(txn, lladd_prepare(txn, &gid));
        if (checkpoint)
            ok_db(&r, lladd_checkpoint(r.db, &r.err));
        abort_halfway(txn);
        ck_assert_uint_eq(number_before(" in doubt"), 0);
        expect_undo("undo: transaction T1, LSN r2, depth 0, test.stop\n"
                    "undo: transaction T1, LSN r1, depth 0, test.put, page 2\n"
                    "undone: transaction T1\n");
        ck_assert_int_eq(lladd_in_doubt_claim(r.db, &gid, &claimed, &r.err), LLADD_NOT_FOUND);
        fixture_expect(&r, at(0), 0);
        fixture_expect(&r, at(1), 0);
        end_case();
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("transcript");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, after_a_clean_stop_recovery_does_nothing);
    tcase_add_test(tc, winners_are_redone_and_losers_undone_newest_record_first);
    tcase_add_test(tc, what_a_rollback_has_undone_is_not_undone_again);
    tcase_add_test(tc, a_rollback_that_a_crash_interrupted_goes_on_where_it_was);
    tcase_add_test(tc, an_open_action_is_undone_physically_and_a_closed_one_logically);
    tcase_add_test(tc, a_closed_action_inside_an_open_one_is_undone_logically);
    tcase_add_test(tc, the_deepest_level_goes_first_across_transactions);
    tcase_add_test(tc, what_is_in_doubt_is_left_alone);
    tcase_add_test(tc, an_interrupted_abort_of_a_prepared_transaction_is_finished);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
