/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A checkpoint has a row about each transaction. The row was made at some moment between the
 * checkpoint's BEGIN record and the record that contains the row. Analysis reads the records of the
 * transaction from BEGIN on. So the row may already include all, some or none of these records. The
 * log space that recovery reserves for the rollback must be the same as before the crash, because
 * more space might not exist (REC-3).
 */
#include "forged_log.h"

#include "recovery/analysis.h"

#include <lladd/bytes.h>
#include <string.h>

enum { BEFORE = 20000 }; /* bytes of log that the transaction has reserved before BEGIN */

static struct fixture r;
static struct forged_log f;
static struct ll_record last; /* the last record of the transaction */

/* ---- helpers ----------------------------------------------------------------------------- */

static void begin_case(void)
{
    fixture_init(&r, 0);
    fixture_open(&r);
    lladd_pageno page = fixture_page(&r);
    struct lladd_txn *txn = fixture_begin(&r); /* gives the operation a number in the catalogue */
    ok(txn, cells_transfer(txn, cell_of(page, 2), cell_of(page, 3), 5));
    done(lladd_commit(txn));
    fixture_close(&r);
    forged_open(&f, &r);
    (void)forged_checkpoint(&f);
    memset(&last, 0, sizeof last);
}

static void checkpoint_record(uint8_t kind)
{
    struct ll_record rec = {.kind = kind, .page = LLADD_NO_PAGE};
    (void)forged_append(&f, &rec, false);
}

/* Appends one more record of the transaction. */
static void its(struct ll_record rec)
{
    rec.page = LLADD_NO_PAGE;
    rec.txn = last.txn;
    rec.prev = last.lsn;
    (void)forged_append(&f, &rec, last.lsn.v == 0);
    last = rec;
}

/* Appends an undo-only record. The compensation may log 512 bytes (testops.c). */
static uint64_t its_undo_only(void)
{
    its((struct ll_record){.kind = LL_REC_UNDO_ONLY,
                           .flags = LL_REC_UNDO_LOGICAL,
                           .op = forged_number(&f, "test.transfer")});
    return 512 + ll_record_bound(LL_CLR_END_BYTES, 0);
}

/* Appends the end of a top action, which states the undo reserve when the action began. */
static void its_action_end(uint64_t needed)
{
    unsigned char b[8];
    lladd_put64(b, needed);
    its((struct ll_record){.kind = LL_REC_ACTION_END, .redo = lladd_span_of(b, sizeof b)});
}

/* Prepares the transaction. It will be in doubt after the crash, so its reservation stays. */
static void its_prepare(void)
{
    unsigned char b[LL_PREPARE_MAX];
    struct ll_prepared p = {.gid = gid_of("t"), .owner = "test"};
    its((struct ll_record){.kind = LL_REC_PREPARE,
                           .redo = lladd_span_of(b, ll_prepare_encode(&p, b))});
}

/* Ends the checkpoint with a row that describes the transaction as it was after the record
 * `as_of`. */
static void row(const struct ll_record *as_of, uint64_t undo_used)
{
    unsigned char b[5 + 44] = {0};
    b[0] = LL_CKPT_TXN;
    lladd_put32(b + 1, 44);
    lladd_put64(b + 5, last.txn.v);
    lladd_put64(b + 13, as_of->lsn.v);
    lladd_put64(b + 21, as_of->lsn.v);
    lladd_put64(b + 29, undo_used);
    struct ll_record rec = {
        .kind = LL_REC_CHECKPOINT_DATA, .page = LLADD_NO_PAGE, .redo = lladd_span_of(b, sizeof b)};
    (void)forged_append(&f, &rec, false);
    checkpoint_record(LL_REC_CHECKPOINT_END);
}

/* Opens the database. Asserts that recovery has reserved this much for the transaction in doubt,
 * which is as much as its commit releases. */
static void expect_set_aside(uint64_t bytes)
{
    forged_close(&f);
    fixture_open(&r);
    ck_assert_uint_eq(fixture_stats(&r).in_doubt, 1);
    uint64_t before = fixture_stats(&r).undo_reserved; /* includes what a checkpoint needs */
    struct lladd_gid gid = gid_of("t");
    struct lladd_txn *txn;
    ok_db(&r, lladd_in_doubt_claim(r.db, &gid, &txn, &r.err));
    done(lladd_commit(txn));
    ck_assert_uint_eq(before - fixture_stats(&r).undo_reserved, bytes);
    fixture_free(&r);
}

/* ---- cases ------------------------------------------------------------------------------- */

START_TEST(a_row_from_before_the_end_of_an_action)
{
    begin_case();
    uint64_t more = its_undo_only();
    struct ll_record old = last;
    checkpoint_record(LL_REC_CHECKPOINT_BEGIN);
    its_action_end(BEFORE);
    more = its_undo_only();
    row(&old, BEFORE + 700);
    its_prepare();
    expect_set_aside(BEFORE + more);
}
END_TEST

START_TEST(a_row_from_after_the_end_of_an_action)
{
    begin_case();
    checkpoint_record(LL_REC_CHECKPOINT_BEGIN);
    its_action_end(BEFORE);
    row(&last, BEFORE);
    its_prepare();
    expect_set_aside(BEFORE);
}
END_TEST

START_TEST(an_action_that_ends_after_the_row)
{
    begin_case();
    checkpoint_record(LL_REC_CHECKPOINT_BEGIN);
    (void)its_undo_only();
    row(&last, BEFORE + 700);
    its_action_end(BEFORE);
    its_prepare();
    expect_set_aside(BEFORE);
}
END_TEST

START_TEST(a_row_that_counts_all_records_before_it)
{
    begin_case();
    checkpoint_record(LL_REC_CHECKPOINT_BEGIN);
    uint64_t one = its_undo_only();
    row(&last, BEFORE + one);
    uint64_t two = its_undo_only();
    its_prepare();
    expect_set_aside(BEFORE + one + two);
}
END_TEST

START_TEST(a_row_that_counts_no_record_after_begin)
{
    begin_case();
    (void)its_undo_only();
    struct ll_record old = last;
    checkpoint_record(LL_REC_CHECKPOINT_BEGIN);
    uint64_t more = its_undo_only();
    row(&old, BEFORE);
    its_prepare();
    expect_set_aside(BEFORE + more);
}
END_TEST

/* The row counts the records up to the LSN that it states, and analysis adds the later records. So
 * no record is counted twice. */
START_TEST(a_row_that_counts_some_records_after_begin)
{
    begin_case();
    checkpoint_record(LL_REC_CHECKPOINT_BEGIN);
    uint64_t one = its_undo_only();
    struct ll_record old = last;
    uint64_t two = its_undo_only();
    row(&old, BEFORE + one);
    its_prepare();
    expect_set_aside(BEFORE + one + two);
}
END_TEST

/* After the end of a compensation, the records of the compensation need no reservation. */
START_TEST(the_end_of_a_compensation_states_the_undo_reserve)
{
    begin_case();
    checkpoint_record(LL_REC_CHECKPOINT_BEGIN);
    uint64_t one = its_undo_only();
    lladd_lsn next = last.lsn;
    row(&last, BEFORE + one);
    (void)its_undo_only();
    unsigned char b[LL_CLR_END_BYTES];
    lladd_put64(b, BEFORE + one);
    its((struct ll_record){.kind = LL_REC_CLR_END,
                           .op = forged_number(&f, "test.transfer"),
                           .undo_next = next,
                           .redo = lladd_span_of(b, sizeof b)});
    its_prepare();
    expect_set_aside(BEFORE + one);
}
END_TEST

/* Makes `transfers` transfers, and `rolled_back` more that it rolls back. The compensation of a
 * transfer changes two cells, and the record of each change has undo bytes. Returns the log space
 * that recovery reserves for the rollback of the transaction. */
static uint64_t set_aside_for(unsigned transfers, unsigned rolled_back)
{
    fixture_init(&r, 0);
    fixture_open(&r);
    lladd_pageno page = fixture_page(&r);
    struct lladd_txn *txn = fixture_begin(&r);
    lladd_savepoint_id sp;
    for (unsigned i = 0; i < transfers; i++)
        ok(txn, cells_transfer(txn, cell_of(page, 1), cell_of(page, 2), 1));
    ok(txn, lladd_savepoint(txn, &sp));
    for (unsigned i = 0; i < rolled_back; i++)
        ok(txn, cells_transfer(txn, cell_of(page, 1), cell_of(page, 2), 1));
    ok(txn, lladd_rollback_to(txn, sp));
    struct lladd_gid gid = gid_of("t");
    ok(txn, lladd_prepare(txn, &gid));
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    uint64_t before = fixture_stats(&r).undo_reserved;
    ok_db(&r, lladd_in_doubt_claim(r.db, &gid, &txn, &r.err));
    done(lladd_commit(txn));
    uint64_t after = fixture_stats(&r).undo_reserved;
    fixture_free(&r);
    return before - after;
}

START_TEST(a_rollback_needs_no_undo_reserve_afterwards)
{
    ck_assert_uint_eq(set_aside_for(5, 40), set_aside_for(5, 0));
}
END_TEST

/* ---- a compensation inside a compensation ------------------------------------------------ */

enum { OUTER = 4096 };

static unsigned inner_ends;

static void count_inner_ends(void)
{
    struct lladd_log_cursor *log;
    struct lladd_log_entry e;
    ok_db(&r, lladd_log_force(r.db, lladd_lsn_of(fixture_stats(&r).log_tail - 1), &r.err));
    ok_db(&r, lladd_log_open(r.db, lladd_lsn_of(0), "test.bump", &log, &r.err));
    while (lladd_log_next(log, &e, &r.err) == 0) {
        if (e.kind != LL_REC_CLR_END)
            continue;
        ck_assert_uint_eq(e.redo.len, LL_CLR_END_BYTES);
        ck_assert_uint_gt(lladd_get64(e.redo.data), OUTER);
        inner_ends++;
    }
    lladd_log_close(log);
}

/* The undo bytes are the page's number. The compensation makes a change and rolls this change back,
 * which runs another compensation. Then the outer compensation fails. */
static int rolling_compensate(void *ctx, struct lladd_txn *txn, struct lladd_span undo)
{
    (void)ctx;
    lladd_savepoint_id sp;
    lladd_pageno page = lladd_page_of(lladd_get64(undo.data));
    int rc = lladd_savepoint(txn, &sp);
    if (!rc)
        rc = cell_bump(txn, cell_of(page, 1), 7);
    if (!rc)
        rc = lladd_rollback_to(txn, sp);
    if (!rc)
        count_inner_ends();
    return rc ? rc : LLADD_BUSY;
}

static const struct lladd_op rolling = {
    .struct_size = sizeof rolling,
    .name = "test.rolling",
    .version = 1,
    .record_max = 8,
    .undo_kind = LLADD_UNDO_LOGICAL,
    .compensate = rolling_compensate,
    .undo_log_max = OUTER,
    .undo_pages_max = 1,
};

/* The end of the inner compensation must not release the space that is reserved for the outer one.
 * If a crash comes before the outer compensation ends, the outer compensation runs again. */
START_TEST(the_end_of_an_inner_compensation_keeps_what_the_outer_one_needs)
{
    fixture_init(&r, 0);
    ok_db(&r, lladd_register_op(&r.options, &rolling, &r.err));
    fixture_open(&r);
    lladd_pageno page = fixture_page(&r);
    lladd_op_id id;
    unsigned char undo[8];
    lladd_put64(undo, page.v);
    ok_db(&r, lladd_op_lookup(r.db, rolling.name, rolling.version, &id));
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, lladd_log_undo_only(txn, id, undo, sizeof undo));
    ck_assert_int_eq(lladd_abort(txn), LLADD_UNDO_FAILED);
    ck_assert_uint_eq(inner_ends, 1);
    fixture_crash(&r, &fault_power);
    fixture_free(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("analysis");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, a_row_from_before_the_end_of_an_action);
    tcase_add_test(tc, a_row_from_after_the_end_of_an_action);
    tcase_add_test(tc, an_action_that_ends_after_the_row);
    tcase_add_test(tc, a_row_that_counts_all_records_before_it);
    tcase_add_test(tc, a_row_that_counts_no_record_after_begin);
    tcase_add_test(tc, a_row_that_counts_some_records_after_begin);
    tcase_add_test(tc, the_end_of_a_compensation_states_the_undo_reserve);
    tcase_add_test(tc, a_rollback_needs_no_undo_reserve_afterwards);
    tcase_add_test(tc, the_end_of_an_inner_compensation_keeps_what_the_outer_one_needs);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
