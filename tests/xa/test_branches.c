/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The states of a branch, reached by calls of the switch: commits in two phases and in one phase,
 * read-only branches, rollbacks, and branches in doubt after a crash. xa_recover returns XIDs
 * unchanged. Also tests suspending, resuming, joining and migrating, and the calls for applications
 * and administrators.
 */
#include "xa_fixture.h"

#include <lladd/stats.h>
#include <lladd/sync.h>

static struct fixture b;

static void opened(void)
{
    fixture_init(&b);
    fixture_open(&b);
}

/* ---- ends ------------------------------------------------------------------------------------ */

START_TEST(two_phases_one_phase_and_rolling_back)
{
    opened();
    XID x = fixture_xid("one"), back;
    fixture_prepared(&b, &x, 0, 5);
    gives(XA_OK, xa_commit(&x, RMID, TMNOFLAGS));
    gives(XAER_NOTA, xa_commit(&x, RMID, TMNOFLAGS));
    fixture_work(&b, &x, 1, 6); /* the XID is free again */
    gives(XA_OK, xa_commit(&x, RMID, TMONEPHASE));
    fixture_prepared(&b, &x, 2, 7);
    gives(XA_OK, xa_rollback(&x, RMID, TMNOFLAGS));
    fixture_work(&b, &x, 3, 8);
    gives(XA_OK, xa_rollback(&x, RMID, TMNOFLAGS));
    gives(XAER_NOTA, xa_rollback(&x, RMID, TMNOFLAGS));
    fixture_crash(&b, &fixture_power);
    fixture_open(&b);
    ck_assert_int_eq(fixture_get(&b, 0), 5);
    ck_assert_int_eq(fixture_get(&b, 1), 6);
    ck_assert_int_eq(fixture_get(&b, 3), 0);
    /* A rollback does not sync, so after a crash the branch is in doubt again. */
    ck_assert_int_eq(fixture_get(&b, 2), 7);
    gives(1, xa_recover(&back, 1, RMID, TMSTARTRSCAN | TMENDRSCAN));
    ck_assert_mem_eq(&back, &x, sizeof x);
    gives(XA_OK, xa_rollback(&x, RMID, TMNOFLAGS));
    ck_assert_int_eq(fixture_get(&b, 2), 0);
    fixture_free(&b);
}
END_TEST

/* A branch that has written nothing has no second phase, and no record in the log. */
START_TEST(what_has_written_nothing_is_read_only)
{
    opened();
    XID x = fixture_xid("reader"), one;
    struct lladd_stats before = {.struct_size = sizeof before}, after = before;
    ck_assert_int_eq(lladd_stats_get(lladd_xa_db(RMID), &before), 0);
    gives(XA_OK, xa_start(&x, RMID, TMNOFLAGS));
    ck_assert_int_eq(fixture_get(&b, 0), 0);
    gives(XA_OK, xa_end(&x, RMID, TMSUCCESS));
    gives(XA_RDONLY, xa_prepare(&x, RMID, TMNOFLAGS));
    gives(XAER_NOTA, xa_commit(&x, RMID, TMNOFLAGS));
    ck_assert_int_eq(lladd_stats_get(lladd_xa_db(RMID), &after), 0);
    ck_assert_uint_eq(before.log_tail, after.log_tail);
    ck_assert_uint_eq(after.active, 0);
    gives(0, xa_recover(&one, 1, RMID, TMSTARTRSCAN | TMENDRSCAN));
    fixture_free(&b);
}
END_TEST

/* ---- recovery -------------------------------------------------------------------------------- */

/* Makes an XID with the longest identifiers (i = 0) or with the shortest. */
static XID odd_xid(unsigned i)
{
    XID x;
    memset(&x, 0, sizeof x);
    x.formatID = i ? 0 : -77;
    x.gtrid_length = i ? 1 : 64;
    x.bqual_length = i ? 0 : 64;
    seeded_fill(i + 1, x.data, (size_t)(x.gtrid_length + x.bqual_length));
    x.data[0] = 0;
    return x;
}

START_TEST(xids_come_back_byte_for_byte)
{
    XID want[2], got[3];
    opened();
    for (unsigned i = 0; i < 2; i++) {
        want[i] = odd_xid(i);
        fixture_prepared(&b, &want[i], i, 1 + (int64_t)i);
    }
    for (unsigned round = 0; round < 4; round++) {
        if (round % 2)
            fixture_close(&b);
        else
            fixture_crash(&b, &fixture_power);
        fixture_open(&b);
        memset(got, 0xee, sizeof got);
        gives(2, xa_recover(got, 3, RMID, TMSTARTRSCAN | TMENDRSCAN));
        unsigned first = fixture_same(&got[0], &want[0]) ? 0 : 1;
        ck_assert_mem_eq(&got[first], &want[0], sizeof(XID));
        ck_assert_mem_eq(&got[1 - first], &want[1], sizeof(XID));
        gives(XAER_DUPID, xa_start(&want[0], RMID, TMNOFLAGS)); /* the XID is in use until its
                                                                 * branch has ended */
    }
    gives(XA_OK, xa_rollback(&want[1], RMID, TMNOFLAGS));
    gives(XA_OK, xa_commit(&want[0], RMID, TMNOFLAGS)); /* makes the rollback durable, too */
    fixture_crash(&b, &fixture_kill);
    fixture_open(&b);
    gives(0, xa_recover(got, 3, RMID, TMSTARTRSCAN | TMENDRSCAN)); /* neither branch comes back */
    ck_assert_int_eq(fixture_get(&b, 0), 1);
    ck_assert_int_eq(fixture_get(&b, 1), 0);
    fixture_work(&b, &want[0], 0, 4); /* the XID can be used again */
    gives(XA_OK, xa_commit(&want[0], RMID, TMONEPHASE));
    ck_assert_int_eq(fixture_get(&b, 0), 5);
    fixture_free(&b);
}
END_TEST

START_TEST(a_scan_has_a_cursor)
{
    XID got[5], xid[5];
    opened();
    gives(XAER_INVAL, xa_recover(got, 5, RMID, TMNOFLAGS)); /* no scan is open */
    for (unsigned i = 0; i < 5; i++) {
        char name[8] = {'n', (char)('0' + i)};
        xid[i] = fixture_xid(name);
        fixture_prepared(&b, &xid[i], i, 1);
    }
    gives(2, xa_recover(got, 2, RMID, TMSTARTRSCAN));
    gives(2, xa_recover(got + 2, 2, RMID, TMNOFLAGS));
    gives(1, xa_recover(got + 4, 2, RMID, TMNOFLAGS));
    gives(0, xa_recover(got, 2, RMID, TMENDRSCAN));
    gives(XAER_INVAL, xa_recover(got, 2, RMID, TMNOFLAGS));
    unsigned seen = 0;
    for (unsigned i = 0; i < 5; i++)
        for (unsigned k = 0; k < 5; k++)
            seen |= (unsigned)fixture_same(&got[i], &xid[k]) << k;
    ck_assert_uint_eq(seen, 31);
    gives(0, xa_recover(NULL, 0, RMID, TMSTARTRSCAN));
    gives(3, xa_recover(got, 3, RMID, TMNOFLAGS));
    gives(5, xa_recover(got, 5, RMID, TMSTARTRSCAN)); /* the scan begins anew */
    gives(XAER_INVAL, xa_recover(got, -1, RMID, TMNOFLAGS));
    gives(XAER_INVAL, xa_recover(NULL, 1, RMID, TMNOFLAGS));
    for (unsigned i = 0; i < 5; i++)
        gives(XA_OK, xa_rollback(&xid[i], RMID, TMNOFLAGS));
    fixture_free(&b);
}
END_TEST

/* ---- associations ---------------------------------------------------------------------------- */

START_TEST(a_branch_can_be_left_and_taken_up_again)
{
    opened();
    XID x = fixture_xid("a"), y = fixture_xid("b");
    gives(XA_OK, xa_start(&x, RMID, TMNOFLAGS));
    fixture_add(&b, 0, 1);
    gives(XA_OK, xa_end(&x, RMID, TMSUSPEND));
    ck_assert_ptr_null(lladd_xa_txn(RMID));
    gives(XAER_PROTO, xa_prepare(&x, RMID, TMNOFLAGS));
    gives(XA_OK, xa_start(&y, RMID, TMNOFLAGS)); /* the thread works in another branch meanwhile */
    fixture_add(&b, 1, 10);
    gives(XAER_PROTO, xa_start(&x, RMID, TMRESUME));
    gives(XA_OK, xa_end(&y, RMID, TMSUCCESS));
    gives(XA_OK, xa_start(&x, RMID, TMRESUME));
    fixture_add(&b, 0, 2);
    gives(XA_OK, xa_end(&x, RMID, TMSUCCESS));
    gives(XA_OK, xa_start(&x, RMID, TMJOIN));
    fixture_add(&b, 0, 4);
    gives(XA_OK, xa_end(&x, RMID, TMSUSPEND));
    gives(XA_OK, xa_end(&x, RMID, TMSUCCESS)); /* the branch is ended without being resumed */
    gives(XA_OK, xa_commit(&x, RMID, TMONEPHASE));
    gives(XA_OK, xa_rollback(&y, RMID, TMNOFLAGS));
    ck_assert_int_eq(fixture_get(&b, 0), 7);
    ck_assert_int_eq(fixture_get(&b, 1), 0);
    fixture_free(&b);
}
END_TEST

START_TEST(what_has_failed_can_only_be_rolled_back)
{
    opened();
    XID x = fixture_xid("a");
    gives(XA_OK, xa_start(&x, RMID, TMNOFLAGS));
    fixture_add(&b, 0, 1);
    gives(XA_RBROLLBACK, xa_end(&x, RMID, TMFAIL));
    gives(XA_RBROLLBACK, xa_start(&x, RMID, TMJOIN));
    ck_assert_ptr_null(lladd_xa_txn(RMID));
    gives(XAER_PROTO, xa_prepare(&x, RMID, TMNOFLAGS));
    gives(XAER_PROTO, xa_commit(&x, RMID, TMONEPHASE));
    gives(XA_OK, xa_rollback(&x, RMID, TMNOFLAGS));
    ck_assert_int_eq(fixture_get(&b, 0), 0);
    fixture_free(&b);
}
END_TEST

/* ---- heuristic outcomes ---------------------------------------------------------------------- */

START_TEST(what_an_administrator_has_decided_is_told_until_it_is_forgotten)
{
    opened();
    XID kept = fixture_xid("kept"), gone = fixture_xid("gone"), got[3];
    gives(XAER_NOTA, lladd_xa_heuristic(RMID, &kept, LLADD_OUTCOME_COMMIT));
    fixture_work(&b, &kept, 0, 1);
    gives(XAER_PROTO, lladd_xa_heuristic(RMID, &kept, LLADD_OUTCOME_COMMIT));
    gives(XA_OK, xa_prepare(&kept, RMID, TMNOFLAGS));
    gives(XAER_INVAL, lladd_xa_heuristic(RMID, &kept, (enum lladd_outcome)0));
    fixture_prepared(&b, &gone, 1, 2);
    gives(XA_OK, lladd_xa_heuristic(RMID, &kept, LLADD_OUTCOME_COMMIT));
    gives(XA_OK, lladd_xa_heuristic(RMID, &gone, LLADD_OUTCOME_ABORT));
    for (unsigned round = 0; round < 3; round++) {
        gives(XA_HEURCOM, xa_commit(&kept, RMID, TMNOFLAGS));
        gives(XA_HEURRB, xa_commit(&gone, RMID, TMNOFLAGS));
        gives(XA_HEURCOM, xa_rollback(&kept, RMID, TMNOFLAGS));
        gives(XA_HEURRB, xa_rollback(&gone, RMID, TMNOFLAGS));
        gives(XA_HEURRB, lladd_xa_heuristic(RMID, &gone, LLADD_OUTCOME_COMMIT));
        gives(XAER_DUPID, xa_start(&kept, RMID, TMNOFLAGS));
        gives(2, xa_recover(got, 3, RMID, TMSTARTRSCAN | TMENDRSCAN));
        ck_assert_int_eq(fixture_get(&b, 0), 1);
        ck_assert_int_eq(fixture_get(&b, 1), 0);
        fixture_crash(&b, round ? &fixture_kill : &fixture_power);
        fixture_open(&b);
    }
    gives(XA_OK, xa_forget(&kept, RMID, TMNOFLAGS));
    gives(XAER_NOTA, xa_forget(&kept, RMID, TMNOFLAGS));
    fixture_crash(&b, &fixture_power);
    fixture_open(&b);
    gives(1, xa_recover(got, 3, RMID, TMSTARTRSCAN | TMENDRSCAN));
    ck_assert(fixture_same(&got[0], &gone));
    gives(XAER_NOTA, xa_commit(&kept, RMID, TMNOFLAGS));
    fixture_work(&b, &kept, 0, 4); /* the XID is free again */
    gives(XA_OK, xa_commit(&kept, RMID, TMONEPHASE));
    gives(XA_OK, xa_forget(&gone, RMID, TMNOFLAGS));
    fixture_free(&b);
}
END_TEST

static int claim_and(void *ctx, const struct lladd_in_doubt_info *info)
{
    struct lladd_db *db = lladd_xa_db(RMID);
    const int *how = ctx;
    struct lladd_txn *txn;
    ck_assert_int_eq(lladd_in_doubt_claim(db, &info->gid, &txn, &b.err), 0);
    ck_assert_int_eq(*how ? lladd_heuristic_end(txn, (enum lladd_outcome) * how) : lladd_abort(txn),
                     0);
    return 0;
}

/* An application decides prepared branches by calls of the library, without the switch. */
START_TEST(decisions_past_the_switch_are_found)
{
    XID x = fixture_xid("a");
    int how = LLADD_OUTCOME_ABORT;
    opened();
    fixture_prepared(&b, &x, 0, 1);
    fixture_crash(&b, &fixture_power);
    fixture_open(&b);
    ck_assert_int_eq(lladd_in_doubt_each(lladd_xa_db(RMID), claim_and, &how, &b.err), 0);
    gives(XA_HEURRB, xa_commit(&x, RMID, TMNOFLAGS));
    gives(XA_OK, xa_forget(&x, RMID, TMNOFLAGS));
    fixture_prepared(&b, &x, 0, 1);
    fixture_crash(&b, &fixture_power);
    fixture_open(&b);
    how = 0;
    ck_assert_int_eq(lladd_in_doubt_each(lladd_xa_db(RMID), claim_and, &how, &b.err), 0);
    gives(XAER_NOTA, xa_commit(&x, RMID, TMNOFLAGS));
    ck_assert_int_eq(fixture_get(&b, 0), 0);
    fixture_free(&b);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("branches");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, two_phases_one_phase_and_rolling_back);
    tcase_add_test(tc, what_has_written_nothing_is_read_only);
    tcase_add_test(tc, xids_come_back_byte_for_byte);
    tcase_add_test(tc, a_scan_has_a_cursor);
    tcase_add_test(tc, a_branch_can_be_left_and_taken_up_again);
    tcase_add_test(tc, what_has_failed_can_only_be_rolled_back);
    tcase_add_test(tc, what_an_administrator_has_decided_is_told_until_it_is_forgotten);
    tcase_add_test(tc, decisions_past_the_switch_are_found);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
