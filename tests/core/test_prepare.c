/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two-phase commit (LLADD paper, section 4.2; REC-1). A prepared transaction can always be
 * committed or aborted. After every crash it is in doubt with the same global id, and can be
 * claimed once. Participants get their callbacks in the right order, and get their blobs back.
 */
#include "db_fixture.h"
#include "support/fixtures.h"

#include <errno.h>
#include <lladd/log_read.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct fixture r;
static lladd_pageno page;
static void begin_case(int kind)
{
    fixture_init(&r, (unsigned)kind);
    fixture_open(&r);
    page = fixture_page(&r);
}

static struct cell at(unsigned i)
{
    return cell_of(page, i);
}

/* ---- the life of a prepared transaction -------------------------------------------------- */

START_TEST(a_prepared_transaction_can_be_committed_or_aborted_at_once)
{
    begin_case(_i);
    struct lladd_txn *a = fixture_prepared(&r, "a", at(0), 1),
                     *b = fixture_prepared(&r, "b", at(1), 2);
    ck_assert_uint_eq(fixture_in_doubt(&r).n, 2);
    ck_assert(fixture_in_doubt(&r).info[0].claimed); /* because its handle is in use */
    done(lladd_commit(a));
    done(lladd_abort(b));
    ck_assert_uint_eq(fixture_in_doubt(&r).n, 0);
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    fixture_expect(&r, at(0), 1);
    /* An abort does not sync. So after the crash b may be in doubt again, with its change. */
    ck_assert_uint_eq(cell_get(r.db, at(1)), fixture_in_doubt(&r).n ? 2 : 0);
    fixture_free(&r);
}
END_TEST

START_TEST(an_asynchronous_prepare_holds_once_the_log_is_durable)
{
    struct lladd_gid gid[3] = {gid_of("a"), gid_of("b"), gid_of("c")};
    struct lladd_txn *txn[3];
    lladd_lsn lsn[3];
    begin_case(_i);
    for (unsigned i = 0; i < 3; i++) {
        txn[i] = fixture_begin(&r);
        ok(txn[i], cell_put(txn[i], at(i), i + 1));
        if (i)
            refused(txn[i], LLADD_EXISTS, lladd_prepare_async(txn[i], &gid[i - 1], &lsn[i]));
        ok(txn[i], lladd_prepare_async(txn[i], &gid[i], &lsn[i]));
        refused(txn[i], LLADD_BAD_STATE, cell_put(txn[i], at(i), 0));
        if (i == 1)
            ok_db(&r, lladd_wait_durable(r.db, lsn[1], &r.err));
    }
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    ck_assert_uint_eq(fixture_in_doubt(&r).n, 2); /* the first two; the third was not durable */
    done(lladd_commit(fixture_claim(&r, "a")));
    for (unsigned i = 0; i < 3; i += 2)
        fixture_expect(&r, at(i), i == 0);
    fixture_free(&r);
}
END_TEST

START_TEST(after_prepare_only_commit_and_abort_are_legal)
{
    struct lladd_gid gid = gid_of("again");
    struct lladd_action action;
    lladd_savepoint_id sp, dead;
    begin_case(_i);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, lladd_savepoint(txn, &dead));
    ok(txn, cell_put(txn, at(0), 1));
    struct lladd_gid first = gid_of("a");
    ok(txn, lladd_prepare(txn, &first));
    refused(txn, LLADD_BAD_STATE, cell_put(txn, at(0), 2));
    refused(txn, LLADD_BAD_STATE, lladd_prepare(txn, &gid));
    refused(txn, LLADD_BAD_STATE, lladd_nta_begin(txn, &action));
    refused(txn, LLADD_BAD_STATE, lladd_savepoint(txn, &sp));
    refused(txn, LLADD_BAD_STATE, lladd_rollback_to(txn, dead));
    refused(txn, LLADD_BAD_STATE, lladd_log_note(txn, "n", lladd_span_of("", 0), NULL));
    fixture_expect(&r, at(0), 1);
    done(lladd_commit(txn));
    fixture_free(&r);
}
END_TEST

/* Crashes, checkpoints and clean stops come in any order. */
START_TEST(it_is_in_doubt_again_after_every_restart_with_its_exact_id)
{
    struct lladd_gid gid = {.format = -77, .gtrid_length = 64, .bqual_length = 64};
    struct lladd_txn_options o = LLADD_TXN_OPTIONS_INIT;
    seeded_fill(5, gid.data, sizeof gid.data);
    begin_case(_i);
    o.owner = "the coordinator of Tuesday";
    struct lladd_txn *txn = fixture_begin_with(&r, &o);
    ok(txn, cell_put(txn, at(0), 1));
    ok(txn, cells_transfer(txn, at(1), at(2), 5));
    lladd_lsn id = lladd_txn_id(txn);
    ok(txn, lladd_prepare(txn, &gid));
    int64_t when = fixture_in_doubt(&r).info[0].prepared_us;
    for (unsigned round = 0; round < 6; round++) {
        switch (round % 3) {
        case 0:
            fixture_crash(&r, &fault_power);
            break;
        case 1:
            fixture_close(&r);
            break;
        default:
            ok_db(&r, lladd_checkpoint(r.db, &r.err));
            fixture_crash(&r, &fault_kill);
        }
        fixture_open(&r);
        struct fixture_doubts l = fixture_in_doubt(&r);
        ck_assert_uint_eq(l.n, 1);
        ck_assert_mem_eq(&l.info[0].gid, &gid, sizeof gid);
        ck_assert_uint_eq(l.info[0].txn.v, id.v);
        ck_assert_int_eq(l.info[0].prepared_us, when);
        ck_assert_str_eq(l.info[0].owner, o.owner);
        ck_assert(!l.info[0].claimed);
        fixture_expect(&r, at(0), 1);
        fixture_expect(&r, at(2), 5);
        fixture_set(&r, at(9), round); /* other transactions go on */
    }
    ok_db(&r, lladd_in_doubt_claim(r.db, &gid, &txn, &r.err));
    ck_assert(fixture_in_doubt(&r).info[0].claimed);
    struct lladd_txn *twice;
    ck_assert_int_eq(lladd_in_doubt_claim(r.db, &gid, &twice, &r.err), LLADD_BUSY);
    if (_i & FIXTURE_RESERVED)
        done(lladd_commit(txn));
    else
        done(lladd_abort(txn));
    ck_assert_int_eq(lladd_in_doubt_claim(r.db, &gid, &twice, &r.err), LLADD_NOT_FOUND);
    fixture_reopen(&r);
    ck_assert_uint_eq(fixture_in_doubt(&r).n, 0);
    fixture_expect(&r, at(0), _i & FIXTURE_RESERVED ? 1 : 0);
    fixture_expect(&r, at(1), _i & FIXTURE_RESERVED ? (uint64_t)-5 : 0);
    fixture_expect(&r, at(2), _i & FIXTURE_RESERVED ? 5 : 0);
    fixture_free(&r);
}
END_TEST

START_TEST(a_claimed_transaction_that_is_not_ended_is_in_doubt_again)
{
    begin_case(_i);
    (void)fixture_prepared(&r, "a", at(0), 1);
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    (void)fixture_claim(&r, "a");
    fixture_close(&r);
    fixture_open(&r);
    ck_assert_uint_eq(fixture_in_doubt(&r).n, 1);
    ck_assert(!fixture_in_doubt(&r).info[0].claimed);
    struct lladd_txn *txn = fixture_claim(&r, "a");
    done(lladd_commit(txn));
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    ck_assert_uint_eq(fixture_in_doubt(&r).n, 0);
    fixture_expect(&r, at(0), 1);
    fixture_free(&r);
}
END_TEST

START_TEST(a_global_id_is_used_once_at_a_time)
{
    struct lladd_gid gid = gid_of("a");
    begin_case(_i);
    struct lladd_txn *first = fixture_prepared(&r, "a", at(0), 1), *second = fixture_begin(&r);
    ok(second, cell_put(second, at(1), 1));
    refused(second, LLADD_EXISTS, lladd_prepare(second, &gid));
    ok(second, cell_put(second, at(2), 1)); /* the refused prepare has not changed it */
    done(lladd_commit(first));
    ok(second, lladd_prepare(second, &gid)); /* the global id is free again */
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    struct lladd_txn *third = fixture_begin(&r);
    refused(third, LLADD_EXISTS, lladd_prepare(third, &gid)); /* recovery knows the id in use */
    done(lladd_abort(third));
    done(lladd_commit(fixture_claim(&r, "a")));
    fixture_expect(&r, at(1), 1);
    fixture_free(&r);
}
END_TEST

START_TEST(wrong_global_ids_are_refused)
{
    begin_case(_i);
    struct lladd_gid gid[5];
    struct lladd_txn *txn = fixture_begin(&r), *out;
    for (unsigned i = 0; i < 5; i++)
        gid[i] = gid_of("a");
    gid[0].format = -1;
    gid[1].gtrid_length = 0;
    gid[2].gtrid_length = 65;
    gid[3].bqual_length = 65;
    ok(txn, cell_put(txn, at(0), 1));
    for (unsigned i = 0; i < 4; i++) {
        refused(txn, LLADD_BAD_ARGUMENT, lladd_prepare(txn, &gid[i]));
        ck_assert_int_eq(lladd_in_doubt_claim(r.db, &gid[i], &out, &r.err), LLADD_BAD_ARGUMENT);
    }
    refused(txn, LLADD_BAD_ARGUMENT, lladd_prepare(txn, NULL));
    ck_assert_int_eq(lladd_in_doubt_claim(r.db, &gid[4], &out, &r.err), LLADD_NOT_FOUND);
    ok(txn, cell_put(txn, at(0), 2));
    done(lladd_commit(txn));
    fixture_free(&r);
}
END_TEST

/* No coordinator knows whether a transaction has written, so an empty one can be prepared, too. */
START_TEST(an_empty_transaction_can_be_prepared)
{
    struct lladd_gid gid = gid_of("empty");
    begin_case(_i);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, lladd_prepare(txn, &gid));
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    ck_assert_uint_eq(fixture_in_doubt(&r).n, 1);
    done(lladd_commit(fixture_claim(&r, "empty")));
    ck_assert_uint_eq(fixture_in_doubt(&r).n, 0);
    fixture_free(&r);
}
END_TEST

static void holds_the_log(int kind, bool restart)
{
    struct lladd_pinner who;
    struct lladd_txn_options o = LLADD_TXN_OPTIONS_INIT;
    struct lladd_gid gid = gid_of("holder");
    begin_case(kind);
    o.owner = "a slow reader";
    struct lladd_txn *txn = fixture_begin_with(&r, &o);
    ok(txn, cell_put(txn, at(0), 1));
    lladd_lsn id = lladd_txn_id(txn);
    ok(txn, lladd_prepare(txn, &gid));
    for (unsigned i = 0; i < 20; i++) {
        struct lladd_txn *other = fixture_begin(&r);
        ok(other, cell_put_wide(other, at(1), i, 2000));
        done(lladd_commit(other));
    }
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    if (restart)
        fixture_reopen(&r);
    ok_db(&r, lladd_log_pinner(r.db, &who, &r.err));
    ck_assert_str_eq(who.kind, "prepared");
    ck_assert_uint_eq(who.lsn.v, id.v);
    ck_assert_uint_eq(who.txn.v, id.v);
    ck_assert_uint_gt(who.age_bytes, 20 * 2000);
    ck_assert_str_ne(who.name, "");
    ck_assert_uint_le(fixture_stats(&r).log_oldest, id.v);
    done(lladd_commit(restart ? fixture_claim(&r, "holder") : txn));
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    ck_assert_uint_gt(fixture_stats(&r).log_oldest, id.v);
    fixture_free(&r);
}

/* Until it ends, even after restarts, a prepared transaction keeps the log, and is reported. */
START_TEST(what_is_prepared_holds_the_log_and_is_named)
{
    holds_the_log(_i, false);
    holds_the_log(_i, true);
}
END_TEST

START_TEST(what_was_listed_in_doubt_can_be_claimed)
{
    begin_case(_i);
    (void)fixture_prepared(&r, "a", at(0), 1);
    (void)fixture_prepared(&r, "b", at(1), 1);
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    struct fixture_doubts l = fixture_in_doubt(&r);
    ck_assert_uint_eq(l.n, 2);
    for (unsigned i = 0; i < l.n; i++) {
        struct lladd_txn *txn;
        ok_db(&r, lladd_in_doubt_claim(r.db, &l.info[i].gid, &txn, &r.err));
        done(lladd_commit(txn));
    }
    fixture_expect(&r, at(0), 1);
    fixture_expect(&r, at(1), 1);
    fixture_free(&r);
}
END_TEST

/* ---- participants ------------------------------------------------------------------------ */

/* The calls of callbacks, one letter each: P prepare, I in doubt, L logged, D durable, A aborted, R
 * rolled back, T undone. Some tests add letters for other participants. */
static char said[64];
static unsigned n_said;
static uint64_t last_logged, last_durable;
static unsigned char blob[10000]; /* the blob that prepare writes */
static size_t blob_len;
static int prepare_fails;
static unsigned blobs_back;

static const struct lladd_participant watcher, second_watcher;

static void say(char c)
{
    ck_assert_uint_lt(n_said, sizeof said - 1);
    said[n_said++] = c;
    said[n_said] = 0;
}

static void forget_said(void)
{
    n_said = 0;
    said[0] = 0;
}

static int on_prepare(void *ctx, void *state, struct lladd_txn *txn, struct lladd_sink *sink)
{
    (void)txn;
    ck_assert_ptr_eq(ctx, said);
    ck_assert_ptr_eq(state, &blob);
    say('P');
    if (prepare_fails)
        return lladd_error_set(lladd_txn_error_out(txn), prepare_fails, "not yet");
    for (size_t i = 0; i < blob_len; i += 7) /* writes the blob in small pieces */
        lladd_sink_write(sink, blob + i, blob_len - i < 7 ? blob_len - i : 7);
    return 0;
}

static int on_in_doubt(void *ctx, struct lladd_txn *txn, struct lladd_span b)
{
    (void)ctx;
    say('I');
    ck_assert_uint_eq(b.len, blob_len);
    ck_assert(b.len == 0 || memcmp(b.data, blob, b.len) == 0);
    blobs_back++;
    return lladd_txn_join(txn, &watcher, &blob);
}

static void on_logged(void *ctx, void *state, lladd_lsn commit)
{
    (void)ctx;
    ck_assert_ptr_eq(state, &blob);
    ck_assert_uint_ge(commit.v, last_logged); /* calls come in commit order */
    last_logged = commit.v;
    say('L');
}

static void on_durable(void *ctx, void *state, struct lladd_db *db, lladd_lsn commit)
{
    (void)ctx;
    (void)state;
    ck_assert_uint_ge(commit.v, last_durable);
    ck_assert(commit.v == 0 || lladd_durable_lsn(db).v > commit.v);
    last_durable = commit.v;
    say('D');
}

static void on_aborted(void *ctx, void *state, struct lladd_db *db)
{
    (void)ctx;
    (void)db;
    ck_assert_ptr_eq(state, &blob);
    say('A');
}

static void on_rolled_back(void *ctx, void *state, struct lladd_txn *txn, lladd_savepoint_id id)
{
    (void)ctx;
    (void)txn;
    (void)id;
    ck_assert_ptr_eq(state, &blob);
    say('R');
}

static lladd_lsn undone_since;

static void on_undone(void *ctx, void *state, struct lladd_txn *txn, lladd_lsn since)
{
    (void)ctx;
    (void)txn;
    ck_assert_ptr_eq(state, &blob);
    undone_since = since;
    say('T');
}

#define WATCHER(its_name) \
    { \
        .struct_size = sizeof(struct lladd_participant), .name = its_name, .version = 1, \
        .ctx = said, .prepare = on_prepare, .in_doubt = on_in_doubt, .logged = on_logged, \
        .durable = on_durable, .aborted = on_aborted, .rolled_back_to = on_rolled_back, \
        .undone = on_undone, \
    }
static const struct lladd_participant watcher = WATCHER("test.watcher");
static const struct lladd_participant second_watcher = WATCHER("test.watcher2");

static void begin_watched(int kind)
{
    forget_said();
    last_logged = last_durable = 0;
    prepare_fails = 0;
    blobs_back = 0;
    blob_len = 0;
    seeded_fill(3, blob, sizeof blob);
    fixture_init(&r, (unsigned)kind);
    ok_db(&r, lladd_register_participant(&r.options, &watcher, &r.err));
    fixture_open(&r);
    page = fixture_page(&r);
}

static struct lladd_txn *joined(void)
{
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, lladd_txn_join(txn, &watcher, &blob));
    ok(txn, cell_put(txn, at(0), 1));
    return txn;
}

START_TEST(participants_hear_of_commit_abort_and_partial_rollback_in_order)
{
    lladd_savepoint_id sp;
    lladd_lsn lsn;
    begin_watched(_i);
    done(lladd_commit(joined()));
    ck_assert_str_eq(said, "LD");
    forget_said();
    done(lladd_abort(joined()));
    ck_assert_str_eq(said, "A");
    forget_said();
    struct lladd_txn *txn = joined();
    ok(txn, lladd_savepoint(txn, &sp));
    ok(txn, lladd_rollback_to(txn, sp));
    done(lladd_commit_async(txn, &lsn));
    ck_assert_str_eq(said, "RTL"); /* the commit is not known to be durable yet */
    ok_db(&r, lladd_wait_durable(r.db, lsn, &r.err));
    ck_assert_str_eq(said, "RTLD");
    fixture_free(&r);
}
END_TEST

/* A commit without changes is durable when all commits that its transaction may have seen are. */
START_TEST(a_commit_of_nothing_is_durable_in_its_turn)
{
    lladd_lsn lsn;
    begin_watched(_i);
    done(lladd_commit_async(joined(), NULL));
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, lladd_txn_join(txn, &watcher, &blob));
    done(lladd_commit_async(txn, &lsn));
    ck_assert_str_eq(said, "LL");
    ok_db(&r, lladd_wait_durable(r.db, lsn, &r.err));
    ck_assert_str_eq(said, "LLDD");
    txn = fixture_begin(&r); /* all earlier commits are durable */
    ok(txn, lladd_txn_join(txn, &watcher, &blob));
    done(lladd_commit_async(txn, &lsn));
    ck_assert_str_eq(said, "LLDDLD");
    fixture_free(&r);
}
END_TEST

static int committing_fails;

static int on_committing(void *ctx, void *state, struct lladd_txn *txn)
{
    (void)ctx;
    ck_assert_ptr_eq(state, &blob);
    say('C');
    return committing_fails ? lladd_error_set(lladd_txn_error_out(txn), committing_fails, "not yet")
                            : 0;
}

static const struct lladd_participant forcing = {
    .struct_size = sizeof(struct lladd_participant),
    .name = "test.forcing",
    .version = 1,
    .logged = on_logged,
    .durable = on_durable,
    .aborted = on_aborted,
    .committing = on_committing,
};

/* A participant's own data may have to be durable before the commit record. So the library calls it
 * before it logs the commit or prepare. If the call fails, the transaction can go on. */
START_TEST(participants_are_asked_before_the_commit_is_logged)
{
    struct lladd_gid gid = gid_of("forcing");
    forget_said();
    last_logged = last_durable = 0;
    committing_fails = 0;
    fixture_init(&r, (unsigned)_i);
    ok_db(&r, lladd_register_participant(&r.options, &forcing, &r.err));
    fixture_open(&r);
    page = fixture_page(&r);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, lladd_txn_join(txn, &forcing, &blob));
    ok(txn, cell_put(txn, at(0), 1));
    committing_fails = LLADD_NO_SPACE;
    ck_assert_int_eq(lladd_commit(txn), LLADD_NO_SPACE);
    ck_assert_int_eq(lladd_prepare(txn, &gid), LLADD_NO_SPACE);
    ck_assert_str_eq(said, "CC");
    committing_fails = 0;
    ok(txn, cell_put(txn, at(0), 2));
    done(lladd_commit(txn));
    ck_assert_str_eq(said, "CCCLD");
    forget_said();
    txn = fixture_begin(&r);
    ok(txn, lladd_txn_join(txn, &forcing, &blob));
    ok(txn, cell_put(txn, at(0), 3));
    ok(txn, lladd_prepare(txn, &gid));
    ck_assert_str_eq(said, "C");
    committing_fails = LLADD_NO_SPACE; /* the commit of a prepared transaction does not call it */
    done(lladd_commit(txn));
    ck_assert_str_eq(said, "CLD");
    fixture_free(&r);
}
END_TEST

/* `undone` has the LSN after which all records are undone, so a participant can drop its state. */
START_TEST(participants_hear_what_is_taken_back)
{
    struct lladd_action action, inner;
    lladd_savepoint_id sp;
    begin_watched(_i);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, lladd_txn_join(txn, &watcher, &blob));
    ok(txn, lladd_nta_begin(txn, &action));
    ok(txn, cell_put(txn, at(0), 1));
    ok(txn, lladd_nta_abort(txn, &action));
    ck_assert_str_eq(said, "T");
    ck_assert_uint_eq(undone_since.v, 0); /* the transaction has no earlier record */
    ok(txn, cell_put(txn, at(0), 2));
    lladd_lsn kept;
    ok(txn, lladd_log_note(txn, "test.mark", lladd_span_of("here", 4), &kept));
    ok(txn, lladd_nta_begin(txn, &action));
    ok(txn, lladd_nta_begin(txn, &inner));
    ok(txn, cell_put(txn, at(0), 3));
    ok(txn, lladd_nta_abort(txn, &inner));
    ck_assert_uint_eq(undone_since.v, kept.v);
    ok(txn, lladd_nta_abort(txn, &action)); /* the action has nothing left to undo */
    ck_assert_uint_eq(undone_since.v, kept.v);
    forget_said();
    ok(txn, lladd_savepoint(txn, &sp));
    ok(txn, cell_put(txn, at(0), 4));
    ok(txn, lladd_nta_begin(txn, &action));
    ok(txn, cell_put(txn, at(1), 5));
    ok(txn, lladd_rollback_to(txn, sp));
    ck_assert_str_eq(said, "RT"); /* one call covers the open action, too */
    ck_assert_uint_eq(undone_since.v, kept.v);
    ok(txn, lladd_savepoint_release(txn, sp));
    ck_assert_str_eq(said, "RT"); /* a release undoes nothing, so there is no call */
    done(lladd_commit(txn));
    fixture_free(&r);
}
END_TEST

/* The descriptor of a participant compiled with an older header ends before the member `undone`. */
START_TEST(participants_of_an_older_version_are_not_asked)
{
    struct lladd_participant older = second_watcher;
    struct lladd_action action;
    older.struct_size = offsetof(struct lladd_participant, undone);
    forget_said();
    fixture_init(&r, (unsigned)_i);
    ok_db(&r, lladd_register_participant(&r.options, &older, &r.err));
    fixture_open(&r);
    page = fixture_page(&r);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, lladd_txn_join(txn, &older, &blob));
    ok(txn, lladd_nta_begin(txn, &action));
    ok(txn, cell_put(txn, at(0), 1));
    ok(txn, lladd_nta_abort(txn, &action));
    ck_assert_str_eq(said, "");
    done(lladd_abort(txn));
    ck_assert_str_eq(said, "A");
    fixture_close(&r);
    older.struct_size--;
    ck_assert_int_eq(lladd_register_participant(&r.options, &older, &r.err),
                     LLADD_BAD_REGISTRATION);
    older.struct_size++;
    fixture_free(&r);
}
END_TEST

static void on_prepared(void *ctx, void *state, struct lladd_txn *txn)
{
    struct lladd_txn_now now;
    (void)ctx;
    ck_assert_ptr_eq(state, &blob);
    ck_assert_int_eq(lladd_txn_now_get(txn, &now), LLADD_BAD_STATE);
    say('p');
}

static void on_committed(void *ctx, void *state, struct lladd_db *db, lladd_lsn commit)
{
    (void)ctx;
    ck_assert_ptr_eq(state, &blob);
    ck_assert_ptr_eq(db, r.db);
    ck_assert_uint_ge(commit.v, last_logged);
    say('c');
}

static const struct lladd_participant early = {
    .struct_size = sizeof(struct lladd_participant),
    .name = "test.early",
    .version = 1,
    .ctx = said,
    .prepare = on_prepare,
    .aborted = on_aborted,
    .prepared = on_prepared,
    .committed = on_committed,
};

static struct lladd_txn *both_joined(void)
{
    struct lladd_txn *txn = joined();
    ok(txn, lladd_txn_join(txn, &early, &blob));
    return txn;
}

START_TEST(participants_can_hear_of_a_commit_before_it_is_durable)
{
    struct lladd_gid gid = gid_of("early");
    lladd_lsn lsn;
    begin_watched(_i & ~FIXTURE_THREADS);
    fixture_close(&r);
    ok_db(&r, lladd_register_participant(&r.options, &early, &r.err));
    fixture_open(&r);
    forget_said();
    done(lladd_commit_async(both_joined(), &lsn));
    ck_assert_str_eq(said, "Lc"); /* called before the library has asked the log for a sync */
    ok_db(&r, lladd_wait_durable(r.db, lsn, &r.err));
    ck_assert_str_eq(said, "LcD");
    forget_said();
    struct lladd_txn *txn = both_joined();
    prepare_fails = LLADD_BUSY;
    refused(txn, LLADD_BUSY, lladd_prepare(txn, &gid));
    ck_assert_str_eq(said, "P");
    prepare_fails = 0;
    ok(txn, lladd_prepare(txn, &gid));
    ck_assert_str_eq(said, "PPPp");
    forget_said();
    done(lladd_commit(txn));
    ck_assert_str_eq(said, "LcD");
    forget_said();
    txn = fixture_begin(&r);
    ok(txn, lladd_txn_join(txn, &early, &blob));
    done(lladd_commit(txn));
    ck_assert_str_eq(said, "c"); /* called even for a transaction that has written nothing */
    forget_said();
    txn = fixture_begin(&r);
    ok(txn, cell_put(txn, at(0), 2));
    ok(txn, lladd_txn_join(txn, &early, &blob));
    done(lladd_commit(txn)); /* no participant has a `durable` callback */
    ck_assert_str_eq(said, "c");
    fixture_free(&r);
}
END_TEST

START_TEST(a_transaction_tells_which_savepoint_comes_next)
{
    struct lladd_txn_now now;
    lladd_savepoint_id one, two;
    begin_watched(_i);
    struct lladd_txn *txn = fixture_begin(&r);
    for (int i = 0; i < 3; i++) {
        ok(txn, lladd_txn_now_get(txn, &now));
        ck_assert(!now.rolling_back);
        ok(txn, lladd_savepoint(txn, &one));
        ck_assert_uint_eq(one, now.next);
        ok(txn, lladd_savepoint(txn, &two));
        ok(txn, lladd_txn_now_get(txn, &now));
        ck_assert_uint_gt(now.next, two);
        ok(txn, lladd_rollback_to(txn, one));
        ok(txn, lladd_txn_now_get(txn, &now));
        ck_assert_uint_gt(now.next, two);
        ck_assert_uint_eq(now.undone, one);
    }
    struct lladd_action action;
    ok(txn, lladd_nta_begin(txn, &action));
    ok(txn, lladd_txn_now_get(txn, &now));
    lladd_savepoint_id inside = now.next;
    ok(txn, lladd_nta_abort(txn, &action));
    ok(txn, lladd_txn_now_get(txn, &now));
    ck_assert_uint_lt(now.undone, inside);
    ck_assert_uint_gt(now.undone, two);
    done(lladd_abort(txn));
    struct lladd_txn_options o = LLADD_TXN_OPTIONS_INIT;
    o.read_only = true;
    ok_db(&r, lladd_begin(r.db, &o, &txn, &r.err));
    ok(txn, lladd_txn_now_get(txn, &now));
    done(lladd_commit(txn));
    ck_assert_int_eq(lladd_txn_now_get(NULL, &now), LLADD_CLOSED);
    fixture_free(&r);
}
END_TEST

START_TEST(participants_of_transactions_that_wrote_nothing_hear_of_the_end)
{
    begin_watched(_i);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, lladd_txn_join(txn, &watcher, &blob));
    done(lladd_commit(txn));
    ck_assert_str_eq(said, "LD");
    forget_said();
    txn = fixture_begin(&r);
    ok(txn, lladd_txn_join(txn, &watcher, &blob));
    done(lladd_abort(txn));
    ck_assert_str_eq(said, "A");
    fixture_free(&r);
}
END_TEST

START_TEST(commits_in_flight_become_durable_in_order_and_each_once)
{
    lladd_lsn lsn = {0};
    begin_watched(_i & ~FIXTURE_THREADS);
    for (unsigned i = 0; i < 10; i++)
        done(lladd_commit_async(joined(), &lsn));
    ck_assert_str_eq(said, "LLLLLLLLLL");
    forget_said();
    ok_db(&r, lladd_wait_durable(r.db, lsn, &r.err));
    ck_assert_str_eq(said, "DDDDDDDDDD");
    ck_assert_uint_eq(last_durable, lsn.v);
    forget_said();
    done(lladd_commit_async(joined(), &lsn));
    fixture_close(&r); /* makes all commits durable */
    ck_assert_str_eq(said, "LD");
    fixture_free(&r);
}
END_TEST

START_TEST(joining_twice_or_unregistered_is_refused)
{
    begin_watched(_i);
    struct lladd_txn *txn = joined();
    refused(txn, LLADD_EXISTS, lladd_txn_join(txn, &watcher, &blob));
    refused(txn, LLADD_BAD_ARGUMENT, lladd_txn_join(txn, &second_watcher, &blob));
    ck_assert_ptr_eq(lladd_txn_joined(txn, &watcher), &blob);
    ck_assert_ptr_null(lladd_txn_joined(txn, &second_watcher));
    done(lladd_abort(txn));
    ck_assert_int_eq(lladd_txn_join(NULL, &watcher, &blob), LLADD_CLOSED);
    fixture_free(&r);
}
END_TEST

/* Blobs from empty to longer than a record. */
START_TEST(blobs_come_back_whole)
{
    static const size_t lengths[] = {0, 1, 2047, 2048, 2049, 4096, 10000};
    for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct lladd_gid gid = gid_of("blob");
        begin_watched(_i);
        blob_len = lengths[i];
        struct lladd_txn *txn = joined();
        ok(txn, lladd_prepare(txn, &gid));
        ck_assert_str_eq(said, "P");
        for (unsigned round = 0; round < 3; round++) {
            forget_said();
            if (round == 1)
                fixture_close(&r);
            else
                fixture_crash(&r, &fault_power);
            fixture_open(&r);
            ck_assert_str_eq(said, "I");
        }
        ck_assert_uint_eq(blobs_back, 3);
        forget_said();
        txn = fixture_claim(&r, "blob");
        ck_assert_ptr_eq(lladd_txn_joined(txn, &watcher), &blob);
        if (i % 2) {
            done(lladd_commit(txn));
            ck_assert_str_eq(said, "LD"); /* the commit is durable when the call returns */
        } else {
            done(lladd_abort(txn));
            ck_assert_str_eq(said, "A");
        }
        fixture_expect(&r, at(0), i % 2);
        fixture_free(&r);
    }
}
END_TEST

START_TEST(a_participant_may_refuse_to_prepare)
{
    struct lladd_gid gid = gid_of("g");
    begin_watched(_i);
    blob_len = 5000;
    struct lladd_txn *txn = joined();
    prepare_fails = LLADD_BUSY;
    refused(txn, LLADD_BUSY, lladd_prepare(txn, &gid));
    ck_contains(lladd_txn_error(txn)->message, "not yet");
    ck_assert_uint_eq(fixture_in_doubt(&r).n, 0);
    ok(txn, cell_put(txn, at(1), 2)); /* the refused call has not changed the transaction */
    prepare_fails = 0;
    ok(txn, lladd_prepare(txn, &gid));
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    ck_assert_uint_eq(blobs_back, 1);
    done(lladd_commit(fixture_claim(&r, "g")));
    fixture_expect(&r, at(1), 2);
    fixture_free(&r);
}
END_TEST

START_TEST(a_missing_participant_is_named_before_anything_is_touched)
{
    struct lladd_gid gid = gid_of("g");
    size_t len, again;
    begin_watched(_i & (FIXTURE_FILES | FIXTURE_RESERVED));
    blob_len = 3000;
    struct lladd_txn *txn = joined();
    ok(txn, lladd_prepare(txn, &gid));
    if (_i & FIXTURE_THREADS)
        ok_db(&r, lladd_checkpoint(r.db, &r.err)); /* so that the blob is older than a checkpoint */
    fixture_crash(&r, &fault_power);
    lladd_options_release(&r.options);
    ok_db(&r, lladd_register_extension(&r.options, &test_extension, &r.err));
    unsigned char *before = fixture_file(&r, "control", &len);
    ck_assert_int_eq(fixture_try_open(&r), LLADD_NO_OPERATION);
    ck_contains(r.err.message, "test.watcher");
    unsigned char *after = fixture_file(&r, "control", &again);
    ck_assert_uint_eq(len, again);
    ck_assert_mem_eq(before, after, len);
    free(before);
    free(after);
    ok_db(&r, lladd_register_participant(&r.options, &watcher, &r.err));
    fixture_open(&r);
    done(lladd_abort(fixture_claim(&r, "g")));
    fixture_expect(&r, at(0), 0);
    fixture_free(&r);
}
END_TEST

/* On a poisoned handle, neither `aborted` nor `durable` would be true: nothing is rolled back, and
 * the commit may or may not be durable. So neither is called. */
START_TEST(participants_hear_neither_end_on_a_poisoned_handle)
{
    begin_watched(_i & FIXTURE_RESERVED);
    struct lladd_txn *committing = joined(), *aborting = joined(), *open = joined();
    lladd_lsn lsn;
    (void)open;
    done(lladd_commit_async(joined(), &lsn));
    forget_said();
    fault_device_fail(r.fd, 1, FAULT_WRITES, EIO, true);
    ck_assert_int_eq(lladd_commit(committing), LLADD_WRITE_FAILED);
    ck_assert_int_eq(lladd_abort(aborting), LLADD_WRITE_FAILED);
    struct lladd_db *db = r.db;
    r.db = NULL;
    ck_assert_int_eq(lladd_close(db), LLADD_WRITE_FAILED);
    ck_assert_str_eq(said, "L");
    fault_device_fail(r.fd, 0, 0, 0, false);
    fixture_free(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("prepare");
    TCase *tc = tcase_create("all");
#define LOOP(test) tcase_add_loop_test(tc, test, 0, FIXTURE_KINDS)
    LOOP(a_prepared_transaction_can_be_committed_or_aborted_at_once);
    LOOP(an_asynchronous_prepare_holds_once_the_log_is_durable);
    LOOP(after_prepare_only_commit_and_abort_are_legal);
    LOOP(it_is_in_doubt_again_after_every_restart_with_its_exact_id);
    LOOP(a_claimed_transaction_that_is_not_ended_is_in_doubt_again);
    LOOP(a_global_id_is_used_once_at_a_time);
    LOOP(wrong_global_ids_are_refused);
    LOOP(an_empty_transaction_can_be_prepared);
    LOOP(what_is_prepared_holds_the_log_and_is_named);
    LOOP(what_was_listed_in_doubt_can_be_claimed);
    LOOP(participants_hear_of_commit_abort_and_partial_rollback_in_order);
    LOOP(a_commit_of_nothing_is_durable_in_its_turn);
    LOOP(participants_are_asked_before_the_commit_is_logged);
    LOOP(participants_hear_what_is_taken_back);
    LOOP(participants_of_an_older_version_are_not_asked);
    LOOP(participants_can_hear_of_a_commit_before_it_is_durable);
    LOOP(a_transaction_tells_which_savepoint_comes_next);
    LOOP(participants_of_transactions_that_wrote_nothing_hear_of_the_end);
    LOOP(commits_in_flight_become_durable_in_order_and_each_once);
    LOOP(joining_twice_or_unregistered_is_refused);
    LOOP(blobs_come_back_whole);
    LOOP(a_participant_may_refuse_to_prepare);
    LOOP(a_missing_participant_is_named_before_anything_is_touched);
    LOOP(participants_hear_neither_end_on_a_poisoned_handle);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
