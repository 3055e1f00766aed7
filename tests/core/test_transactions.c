/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Transactions as the application sees them. Committed changes stay, and aborted changes are
 * undone. A rollback to a savepoint undoes a part of the transaction. Read-only transactions wait
 * for the commits that they may have seen (TXN-1). A crash loses no more than each durability mode
 * allows. Tested on every device, frame provider and thread mode.
 */
#include "db_fixture.h"

#include <errno.h>
#include <lladd/log_read.h>
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

static void end_case(void)
{
    fixture_free(&r);
}

static struct cell at(unsigned i)
{
    return cell_of(page, i);
}

/* ---- commit and abort -------------------------------------------------------------------- */

START_TEST(committed_updates_are_there_and_survive_closing)
{
    begin_case(_i);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, cell_put(txn, at(0), 7));
    ok(txn, cell_add(txn, at(0), 5));
    done(lladd_commit(txn));
    fixture_expect(&r, at(0), 12);
    fixture_reopen(&r);
    fixture_expect(&r, at(0), 12);
    end_case();
}
END_TEST

START_TEST(committed_updates_survive_a_crash)
{
    begin_case(_i);
    fixture_set(&r, at(0), 7);
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    fixture_expect(&r, at(0), 7);
    fixture_set(&r, at(0), 8);
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    fixture_expect(&r, at(0), 8);
    end_case();
}
END_TEST

START_TEST(an_abort_takes_everything_back)
{
    begin_case(_i);
    fixture_set(&r, at(0), 7);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, cell_put(txn, at(0), 1));
    ok(txn, cell_put(txn, at(0), 2));
    ok(txn, cell_add(txn, at(1), 3));
    ok(txn, cell_bump(txn, at(2), 9));
    fixture_expect(&r, at(0), 2);
    done(lladd_abort(txn));
    fixture_expect(&r, at(0), 7);
    fixture_expect(&r, at(1), 0);
    fixture_expect(&r, at(2), 0);
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    fixture_expect(&r, at(0), 7);
    fixture_expect(&r, at(2), 0);
    end_case();
}
END_TEST

START_TEST(an_unfinished_transaction_is_undone_by_the_next_open)
{
    begin_case(_i);
    fixture_set(&r, at(0), 7);
    struct lladd_txn *loser = fixture_begin(&r);
    ok(loser, cell_put(loser, at(0), 1));
    ok(loser, cell_bump(loser, at(1), 4));
    fixture_set(&r, at(2), 5); /* makes the loser's records durable too */
    fixture_crash(&r, &fault_kill);
    fixture_open(&r);
    fixture_expect(&r, at(0), 7);
    fixture_expect(&r, at(1), 0);
    fixture_expect(&r, at(2), 5);
    ck_assert_uint_eq(fixture_stats(&r).recovered_undone_txns, 1);
    end_case();
}
END_TEST

START_TEST(closing_aborts_what_is_open)
{
    begin_case(_i);
    fixture_set(&r, at(0), 7);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, cell_put(txn, at(0), 1));
    struct lladd_action action;
    ok(txn, lladd_nta_begin(txn, &action));
    ok(txn, cell_put(txn, at(1), 1));
    fixture_reopen(&r);
    fixture_expect(&r, at(0), 7);
    fixture_expect(&r, at(1), 0);
    ck_assert_uint_eq(fixture_stats(&r).recovered_undone_txns, 0);
    end_case();
}
END_TEST

START_TEST(transactions_that_touch_one_page_end_independently)
{
    begin_case(_i);
    struct lladd_txn *a = fixture_begin(&r), *b = fixture_begin(&r), *c = fixture_begin(&r);
    ok(a, cell_add(a, at(0), 1));
    ok(b, cell_add(b, at(0), 10));
    ok(c, cell_add(c, at(0), 100));
    ok(a, cell_put(a, at(1), 5));
    ok(b, cell_put(b, at(2), 6));
    done(lladd_abort(b));
    done(lladd_commit(a));
    fixture_expect(&r, at(0), 101);
    done(lladd_abort(c));
    fixture_expect(&r, at(0), 1);
    fixture_expect(&r, at(1), 5);
    fixture_expect(&r, at(2), 0);
    fixture_reopen(&r);
    fixture_expect(&r, at(0), 1);
    end_case();
}
END_TEST

/* Thousands of transactions are open at the same time. */
START_TEST(any_number_of_transactions_can_be_open)
{
    enum { MANY = 3000 };
    begin_case(_i);
    struct lladd_txn **txn = calloc(MANY, sizeof(struct lladd_txn *));
    uint64_t left = 0;
    for (unsigned i = 0; i < MANY; i++) {
        txn[i] = fixture_begin(&r);
        ok(txn[i], cell_add(txn[i], at(i % CELLS), 1));
    }
    ck_assert_uint_eq(fixture_stats(&r).active, MANY);
    for (unsigned i = 0; i < MANY; i++) {
        if (i % 3 == 0) {
            done(lladd_abort(txn[i]));
        } else {
            lladd_lsn lsn;
            done(lladd_commit_async(txn[i], &lsn));
            left++;
        }
    }
    free(txn);
    uint64_t sum = 0;
    for (unsigned i = 0; i < CELLS; i++)
        sum += cell_get(r.db, at(i));
    ck_assert_uint_eq(sum, left);
    end_case();
}
END_TEST

static void change_by_format(struct lladd_txn *txn, unsigned i)
{
    (void)i;
    ok(txn, cells_format(txn, page));
}

static void change_a_held_page(struct lladd_txn *txn, unsigned i)
{
    struct {
        unsigned index;
        uint64_t value;
        size_t filling;
    } args = {i % CELLS, i, 0};
    struct lladd_page *held;
    ok(txn, lladd_log_credit(txn, r.ids.put, 3));
    ok_db(&r, lladd_page_fix(r.db, page, LLADD_LATCH_EXCLUSIVE, &held, &r.err));
    ok(txn, lladd_update_page(txn, r.ids.put, held, &args, sizeof args));
    lladd_page_unfix(r.db, held, LLADD_LATCH_EXCLUSIVE);
    ok(txn, lladd_log_credit(txn, r.ids.put, 0));
}

static void change_in_an_action(struct lladd_txn *txn, unsigned i)
{
    unsigned char undo[RESTORE_BYTES];
    struct lladd_action action;
    restore_encode(undo, at(i % CELLS), 0);
    ok(txn, lladd_nta_begin(txn, &action));
    ok(txn, cell_put(txn, at(i % CELLS), i));
    ok(txn, lladd_nta_end(txn, &action, r.ids.restore, undo, sizeof undo));
}

static void log_an_undo(struct lladd_txn *txn, unsigned i)
{
    unsigned char undo[RESTORE_BYTES];
    restore_encode(undo, at(i % CELLS), 0);
    ok(txn, lladd_log_undo_only(txn, r.ids.restore, undo, sizeof undo));
}

static void change_nothing(struct lladd_txn *txn, unsigned i)
{
    (void)i; /* the page does not exist, so the call fails */
    ck_assert_int_lt(cell_put(txn, cell_of(lladd_page_of(1u << 30), 0), 1), 0);
}

/* Open transactions must give back their log credit, in each way in which they can get it.
 * Otherwise a thread that needs room in the small log buffer would wait for ever. */
START_TEST(open_transactions_do_not_keep_log_space)
{
    static void (*const ways[])(struct lladd_txn *, unsigned) = {
        change_by_format, change_a_held_page, change_in_an_action, log_an_undo, change_nothing};
    enum { MANY = 60 };
    for (unsigned way = 0; way < sizeof ways / sizeof ways[0]; way++) {
        struct lladd_txn *txn[MANY];
        begin_case(_i);
        for (unsigned i = 0; i < MANY; i++) {
            txn[i] = fixture_begin(&r);
            ways[way](txn[i], i);
        }
        ok_db(&r, lladd_checkpoint(r.db, &r.err));
        for (unsigned i = MANY; i-- > 0;)
            done(lladd_abort(txn[i]));
        ck_assert_uint_eq(cell_get(r.db, at(3)), 0);
        end_case();
    }
}
END_TEST

/* A transaction changes ten times as many pages as the cache holds (STEAL). */
START_TEST(a_transaction_may_be_larger_than_the_cache)
{
    enum { PAGES = 640 }; /* pages of 4 KiB; the cache has 256 KiB */
    fixture_init(&r, (unsigned)_i);
    r.options.cache_bytes = 256u << 10;
    r.options.checkpoint_bytes = 256u << 10;
    fixture_open(&r);
    lladd_pageno *pages = calloc(PAGES, sizeof *pages);
    for (unsigned i = 0; i < PAGES; i += 64)
        fixture_pages(&r, pages + i, 64);
    struct lladd_txn *txn = fixture_begin(&r);
    for (unsigned i = 0; i < PAGES; i++)
        ok(txn, cell_put(txn, cell_of(pages[i], 3), i + 1));
    if (_i & FIXTURE_THREADS)
        done(lladd_abort(txn));
    else
        done(lladd_commit(txn));
    ck_assert_uint_gt(fixture_stats(&r).evictions, PAGES / 2);
    /* Each thread that writes pages back needs memory for a batch of copies. */
    ck_assert_uint_le(fixture_stats(&r).cache_bytes, (_i & FIXTURE_THREADS ? 384u : 256u) << 10);
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    for (unsigned i = 0; i < PAGES; i++)
        fixture_expect(&r, cell_of(pages[i], 3), _i & FIXTURE_THREADS ? 0 : i + 1);
    free(pages);
    end_case();
}
END_TEST

START_TEST(a_transaction_s_id_is_the_lsn_of_its_first_record)
{
    begin_case(_i);
    struct lladd_txn *txn = fixture_begin(&r);
    ck_assert_uint_eq(lladd_txn_id(txn).v, 0);
    lladd_lsn tail = lladd_lsn_of(fixture_stats(&r).log_tail);
    ok(txn, cell_put(txn, at(0), 1));
    ck_assert_uint_ge(lladd_txn_id(txn).v, tail.v);
    ck_assert_ptr_eq(lladd_txn_db(txn), r.db);
    lladd_lsn id = lladd_txn_id(txn);
    ok(txn, cell_put(txn, at(0), 2));
    ck_assert_uint_eq(lladd_txn_id(txn).v, id.v);
    done(lladd_commit(txn));
    end_case();
}
END_TEST

/* ---- savepoints -------------------------------------------------------------------------- */

START_TEST(a_savepoint_takes_back_what_came_after_it_as_often_as_one_likes)
{
    begin_case(_i);
    struct lladd_txn *txn = fixture_begin(&r);
    lladd_savepoint_id start, sp;
    ok(txn, lladd_savepoint(txn, &start));
    ok(txn, cell_put(txn, at(0), 1));
    ok(txn, lladd_savepoint(txn, &sp));
    ok(txn, cell_put(txn, at(0), 2));
    ok(txn, cell_bump(txn, at(1), 2));
    ok(txn, lladd_rollback_to(txn, sp));
    fixture_expect(&r, at(0), 1);
    fixture_expect(&r, at(1), 0);
    ok(txn, cell_put(txn, at(0), 3));
    ok(txn, cell_add(txn, at(1), 3));
    ok(txn, lladd_rollback_to(txn, sp));
    ok(txn, lladd_rollback_to(txn, sp)); /* undoes nothing more */
    fixture_expect(&r, at(0), 1);
    fixture_expect(&r, at(1), 0);
    ok(txn, cell_put(txn, at(2), 4));
    done(lladd_commit(txn));
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    fixture_expect(&r, at(0), 1);
    fixture_expect(&r, at(1), 0);
    fixture_expect(&r, at(2), 4);
    end_case();
}
END_TEST

START_TEST(savepoints_nest_and_rolling_back_to_an_older_one_kills_the_newer)
{
    begin_case(_i);
    struct lladd_txn *txn = fixture_begin(&r);
    lladd_savepoint_id sp[3];
    for (unsigned i = 0; i < 3; i++) {
        ok(txn, lladd_savepoint(txn, &sp[i]));
        ok(txn, cell_put(txn, at(i), 1));
    }
    ok(txn, lladd_rollback_to(txn, sp[1]));
    fixture_expect(&r, at(0), 1);
    fixture_expect(&r, at(1), 0);
    fixture_expect(&r, at(2), 0);
    refused(txn, LLADD_DEAD_SAVEPOINT, lladd_rollback_to(txn, sp[2]));
    refused(txn, LLADD_DEAD_SAVEPOINT, lladd_rollback_to(txn, 4711));
    ok(txn, lladd_rollback_to(txn, sp[0]));
    fixture_expect(&r, at(0), 0);
    done(lladd_abort(txn));
    end_case();
}
END_TEST

START_TEST(an_abort_after_a_partial_rollback_takes_back_the_rest_only)
{
    begin_case(_i);
    struct lladd_txn *txn = fixture_begin(&r);
    lladd_savepoint_id sp;
    ok(txn, cell_add(txn, at(0), 1));
    ok(txn, lladd_savepoint(txn, &sp));
    ok(txn, cell_add(txn, at(0), 10));
    ok(txn, lladd_rollback_to(txn, sp));
    ok(txn, cell_add(txn, at(0), 100));
    done(lladd_abort(txn));
    fixture_expect(&r, at(0), 0); /* each undo has run exactly once */
    end_case();
}
END_TEST

START_TEST(a_crash_after_a_partial_rollback_undoes_the_rest_only)
{
    begin_case(_i);
    struct lladd_txn *txn = fixture_begin(&r);
    lladd_savepoint_id sp;
    ok(txn, cell_add(txn, at(0), 1));
    ok(txn, lladd_savepoint(txn, &sp));
    ok(txn, cell_add(txn, at(0), 10));
    ok(txn, cell_bump(txn, at(1), 10));
    ok(txn, lladd_rollback_to(txn, sp));
    ok(txn, cell_add(txn, at(0), 100));
    fixture_set(&r, at(5), 1);
    fixture_crash(&r, &fault_kill);
    fixture_open(&r);
    fixture_expect(&r, at(0), 0);
    fixture_expect(&r, at(1), 0);
    end_case();
}
END_TEST

/* OP-6 */
START_TEST(a_savepoint_dies_when_its_top_action_closes_or_is_taken_back)
{
    begin_case(_i);
    struct lladd_txn *txn = fixture_begin(&r);
    struct lladd_action action;
    lladd_savepoint_id before, inside;
    ok(txn, lladd_savepoint(txn, &before));
    ok(txn, lladd_nta_begin(txn, &action));
    ok(txn, cell_put(txn, at(0), 1));
    ok(txn, lladd_savepoint(txn, &inside));
    ok(txn, cell_put(txn, at(0), 2));
    ok(txn, lladd_rollback_to(txn, inside));
    fixture_expect(&r, at(0), 1);
    ok(txn, lladd_nta_end(txn, &action, LLADD_NO_OP, NULL, 0));
    refused(txn, LLADD_DEAD_SAVEPOINT, lladd_rollback_to(txn, inside));
    ok(txn, lladd_nta_begin(txn, &action));
    ok(txn, lladd_savepoint(txn, &inside));
    ok(txn, lladd_nta_abort(txn, &action));
    refused(txn, LLADD_DEAD_SAVEPOINT, lladd_rollback_to(txn, inside));
    ok(txn, lladd_rollback_to(txn, before));
    fixture_expect(&r, at(0), 1); /* the closed action has no undo */
    done(lladd_commit(txn));
    end_case();
}
END_TEST

START_TEST(a_released_savepoint_and_later_ones_are_gone)
{
    begin_case(_i);
    struct lladd_txn *txn = fixture_begin(&r);
    struct lladd_action action;
    lladd_savepoint_id sp[4], inside;
    for (unsigned i = 0; i < 4; i++) {
        ok(txn, lladd_savepoint(txn, &sp[i]));
        ok(txn, cell_put(txn, at(0), i + 1));
    }
    ok(txn, lladd_savepoint_release(txn, sp[2]));
    fixture_expect(&r, at(0), 4); /* the release undoes nothing */
    for (unsigned i = 2; i < 4; i++) {
        refused(txn, LLADD_DEAD_SAVEPOINT, lladd_savepoint_release(txn, sp[i]));
        refused(txn, LLADD_DEAD_SAVEPOINT, lladd_rollback_to(txn, sp[i]));
    }
    refused(txn, LLADD_DEAD_SAVEPOINT, lladd_savepoint_release(txn, 0));
    ok(txn, lladd_rollback_to(txn, sp[1]));
    fixture_expect(&r, at(0), 1);
    /* A savepoint from before a top action can be released inside the action. */
    ok(txn, lladd_nta_begin(txn, &action));
    ok(txn, lladd_savepoint(txn, &inside));
    ok(txn, cell_put(txn, at(1), 7));
    ok(txn, lladd_savepoint_release(txn, sp[1]));
    refused(txn, LLADD_DEAD_SAVEPOINT, lladd_rollback_to(txn, inside));
    ok(txn, lladd_nta_end(txn, &action, LLADD_NO_OP, NULL, 0));
    ok(txn, lladd_rollback_to(txn, sp[0]));
    fixture_expect(&r, at(0), 0);
    fixture_expect(&r, at(1), 7); /* the closed action has no undo */
    ok(txn, lladd_savepoint_release(txn, sp[0]));
    done(lladd_commit(txn));
    end_case();
}
END_TEST

/* Making and releasing savepoints in a loop needs no more memory with each round. */
START_TEST(savepoints_that_are_released_take_no_memory)
{
    lladd_savepoint_id sp = 0, last;
    begin_case(_i);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, lladd_savepoint(txn, &sp));
    ok(txn, lladd_savepoint_release(txn, sp));
    uint64_t allocations = fault_alloc_calls(&r.mem);
    for (unsigned i = 0; i < 10000; i++) {
        last = sp;
        ok(txn, lladd_savepoint(txn, &sp));
        ck_assert_uint_gt(sp, last);
        ok(txn, lladd_savepoint_release(txn, sp));
    }
    if (!(r.kind & FIXTURE_THREADS)) /* with threads, other threads may allocate */
        ck_assert_uint_eq(fault_alloc_calls(&r.mem), allocations);
    done(lladd_commit(txn));
    end_case();
}
END_TEST

/* OP-6 */
START_TEST(rolling_back_past_an_open_action_takes_the_action_back)
{
    begin_case(_i);
    struct lladd_txn *txn = fixture_begin(&r);
    struct lladd_action outer, inner;
    lladd_savepoint_id sp;
    ok(txn, cell_put(txn, at(0), 1));
    ok(txn, lladd_savepoint(txn, &sp));
    ok(txn, lladd_nta_begin(txn, &outer));
    ok(txn, cell_put(txn, at(0), 2));
    ok(txn, lladd_nta_begin(txn, &inner));
    ok(txn, cell_put(txn, at(1), 3));
    ok(txn, lladd_rollback_to(txn, sp));
    fixture_expect(&r, at(0), 1);
    fixture_expect(&r, at(1), 0);
    refused(txn, LLADD_BAD_STATE, lladd_nta_end(txn, &outer, LLADD_NO_OP, NULL, 0));
    done(lladd_commit(txn)); /* succeeds, because no action is open any more */
    fixture_expect(&r, at(0), 1);
    end_case();
}
END_TEST

/* ---- read-only, asynchronous, durability ------------------------------------------------- */

START_TEST(a_read_only_transaction_refuses_to_write_and_writes_nothing)
{
    struct lladd_txn_options o = LLADD_TXN_OPTIONS_INIT;
    struct lladd_action action;
    lladd_savepoint_id sp;
    lladd_lsn lsn;
    begin_case(_i);
    fixture_reopen(&r);
    uint64_t tail = fixture_stats(&r).log_tail;
    o.read_only = true;
    struct lladd_txn *txn = fixture_begin_with(&r, &o);
    refused(txn, LLADD_READ_ONLY, cell_put(txn, at(0), 1));
    refused(txn, LLADD_READ_ONLY, cell_poke(txn, at(0), 1));
    refused(txn, LLADD_READ_ONLY, lladd_nta_begin(txn, &action));
    refused(txn, LLADD_READ_ONLY, lladd_savepoint(txn, &sp));
    refused(txn, LLADD_READ_ONLY, lladd_log_note(txn, "note", lladd_span_of("x", 1), &lsn));
    struct lladd_gid gid = gid_of("g");
    refused(txn, LLADD_READ_ONLY, lladd_prepare(txn, &gid));
    fixture_expect(&r, at(0), 0);
    done(lladd_commit(txn));
    ck_assert_uint_eq(fixture_stats(&r).log_tail, tail);
    end_case();
}
END_TEST

/* TXN-1 */
START_TEST(committing_a_reader_makes_durable_what_it_may_have_seen)
{
    struct lladd_txn_options later = LLADD_TXN_OPTIONS_INIT, reader = LLADD_TXN_OPTIONS_INIT;
    lladd_lsn lsn, seen;
    begin_case(_i);
    later.durability = LLADD_DURABLE_LATER;
    reader.read_only = true;
    struct lladd_txn *writer = fixture_begin_with(&r, &later);
    ok(writer, cell_put(writer, at(0), 9));
    done(lladd_commit_async(writer, &lsn));
    struct lladd_txn *early = fixture_begin_with(&r, &reader);
    fixture_expect(&r, at(0), 9);
    done(lladd_commit_async(early, &seen));
    ck_assert_uint_eq(seen.v, lsn.v);
    struct lladd_txn *txn = fixture_begin_with(&r, &reader);
    done(lladd_commit(txn));
    ck_assert_uint_gt(lladd_durable_lsn(r.db).v, lsn.v);
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    fixture_expect(&r, at(0), 9);
    end_case();
}
END_TEST

START_TEST(an_asynchronous_commit_is_durable_when_waited_for)
{
    enum { N = 50 };
    lladd_lsn lsn[N];
    begin_case(_i);
    for (unsigned i = 0; i < N; i++) {
        struct lladd_txn *txn = fixture_begin(&r);
        ok(txn, cell_put(txn, at(i), i + 1));
        done(lladd_commit_async(txn, &lsn[i]));
        ck_assert(i == 0 || lsn[i].v > lsn[i - 1].v);
    }
    fixture_expect(&r, at(N - 1), N); /* other transactions see it before it is durable */
    ok_db(&r, lladd_wait_durable(r.db, lsn[N / 2], &r.err));
    ck_assert_uint_gt(lladd_durable_lsn(r.db).v, lsn[N / 2].v);
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    for (unsigned i = 0; i <= N / 2; i++)
        fixture_expect(&r, at(i), i + 1);
    for (unsigned i = N / 2 + 1, gone = 0; i < N; i++) { /* only a suffix may be lost */
        uint64_t v = cell_get(r.db, at(i));
        ck_assert(v == 0 || (v == i + 1 && !gone));
        gone = gone || v == 0;
    }
    end_case();
}
END_TEST

START_TEST(waiting_beyond_the_log_is_refused_and_for_nothing_returns_at_once)
{
    begin_case(_i);
    ok_db(&r, lladd_wait_durable(r.db, lladd_lsn_of(0), &r.err));
    lladd_lsn far = lladd_lsn_of(fixture_stats(&r).log_tail + 1000);
    ck_assert_int_eq(lladd_wait_durable(r.db, far, &r.err), LLADD_BAD_ARGUMENT);
    struct lladd_txn *txn = fixture_begin(&r);
    done(lladd_commit_async(txn, NULL));
    end_case();
}
END_TEST

/* Each mode loses no more than docs/durability.md allows. */
START_TEST(durability_modes_keep_what_they_promise)
{
    static const enum lladd_durability modes[] = {LLADD_DURABLE, LLADD_DURABLE_OS,
                                                  LLADD_DURABLE_LATER};
    for (unsigned m = 0; m < 3; m++) {
        for (unsigned power = 0; power < 2; power++) {
            struct lladd_txn_options o = LLADD_TXN_OPTIONS_INIT;
            begin_case(_i & ~FIXTURE_THREADS);
            o.durability = modes[m];
            struct lladd_txn *txn = fixture_begin_with(&r, &o);
            ok(txn, cell_put(txn, at(0), 5));
            done(lladd_commit(txn));
            fixture_crash(&r, power ? &fault_power : &fault_kill);
            fixture_open(&r);
            uint64_t v = cell_get(r.db, at(0));
            bool promised = m == 0 || (m == 1 && !power);
            ck_assert(v == 5 || (v == 0 && !promised));
            if (m == 2 && !(_i & FIXTURE_FILES))
                ck_assert_uint_eq(v, 0); /* only in this mode the commit writes nothing */
            end_case();
        }
    }
}
END_TEST

START_TEST(the_database_s_default_durability_is_the_transaction_s)
{
    fixture_init(&r, (unsigned)_i & ~(unsigned)(FIXTURE_THREADS | FIXTURE_FILES));
    r.options.durability = LLADD_DURABLE_LATER;
    fixture_open(&r);
    page = fixture_page(&r);
    uint64_t syncs = fixture_stats(&r).log_syncs;
    fixture_set(&r, at(0), 1);
    ck_assert_uint_eq(fixture_stats(&r).log_syncs, syncs);
    struct lladd_txn_options o = LLADD_TXN_OPTIONS_INIT;
    o.durability = LLADD_DURABLE;
    struct lladd_txn *txn = fixture_begin_with(&r, &o);
    ok(txn, cell_put(txn, at(0), 2));
    done(lladd_commit(txn));
    ck_assert_uint_eq(fixture_stats(&r).log_syncs, syncs + 1);
    end_case();
}
END_TEST

/* A durable commit of a single thread makes one write and one sync. A transaction that has written
 * nothing makes none. */
START_TEST(a_durable_commit_costs_one_write_and_one_sync)
{
    begin_case(_i & FIXTURE_RESERVED);
    fixture_set(&r, at(0), 1);
    fault_device_reset_calls(r.fd);
    fixture_set(&r, at(0), 2);
    ck_assert_uint_eq(fault_device_calls(r.fd, FAULT_SYNC), 1);
    ck_assert_uint_eq(fault_device_calls(r.fd, FAULT_PWRITEV), 1);
    ck_assert_uint_eq(fault_device_calls(r.fd, FAULT_ANY), 2);
    struct lladd_txn *txn = fixture_begin(&r);
    done(lladd_commit(txn));
    ck_assert_uint_eq(fault_device_calls(r.fd, FAULT_ANY), 2);
    end_case();
}
END_TEST

/* ---- pages the caller holds -------------------------------------------------------------- */

START_TEST(update_page_works_on_a_held_page_with_credit_and_is_refused_without)
{
    struct {
        unsigned index;
        uint64_t value;
        size_t filling;
    } args = {3, 77, 0};
    struct lladd_page *held;
    begin_case(_i);
    struct lladd_txn *txn = fixture_begin(&r);
    ok_db(&r, lladd_page_fix(r.db, page, LLADD_LATCH_EXCLUSIVE, &held, &r.err));
    refused(txn, LLADD_BAD_STATE, lladd_update_page(txn, r.ids.put, held, &args, sizeof args));
    lladd_page_unfix(r.db, held, LLADD_LATCH_EXCLUSIVE);
    fixture_expect(&r, at(3), 0);

    ok(txn, lladd_log_credit(txn, r.ids.put, 3));
    ok_db(&r, lladd_page_fix(r.db, page, LLADD_LATCH_EXCLUSIVE, &held, &r.err));
    ok(txn, lladd_update_page(txn, r.ids.put, held, &args, sizeof args));
    args.value = 78;
    ok(txn, lladd_update_page(txn, r.ids.put, held, &args, sizeof args));
    args.index = CELLS; /* `prepare` refuses this index; the page must not change */
    refused(txn, LLADD_BAD_ARGUMENT, lladd_update_page(txn, r.ids.put, held, &args, sizeof args));
    lladd_page_unfix(r.db, held, LLADD_LATCH_EXCLUSIVE);
    fixture_expect(&r, at(3), 78);
    done(lladd_abort(txn));
    fixture_expect(&r, at(3), 0);
    end_case();
}
END_TEST

START_TEST(redo_only_updates_are_never_undone)
{
    struct {
        unsigned index;
        uint64_t value;
        size_t filling;
    } args = {3, 77, 0};
    begin_case(_i);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, cell_poke(txn, at(0), 1));
    ok(txn, lladd_log_redo_only(txn, r.ids.put, page, &args, sizeof args));
    ok(txn, cell_put(txn, at(1), 1));
    done(lladd_abort(txn));
    fixture_expect(&r, at(0), 1);
    fixture_expect(&r, at(3), 77);
    fixture_expect(&r, at(1), 0);
    fixture_set(&r, at(5), 1); /* makes the abort durable, since an abort does not sync */
    fixture_crash(&r, &fault_kill);
    fixture_open(&r);
    fixture_expect(&r, at(0), 1);
    fixture_expect(&r, at(3), 77);
    end_case();
}
END_TEST

/* ---- refusals ---------------------------------------------------------------------------- */

START_TEST(wrong_updates_are_refused_and_change_nothing)
{
    struct {
        unsigned index;
        uint64_t value;
        size_t filling;
    } args = {3, 77, 0};
    begin_case(_i);
    struct lladd_txn *txn = fixture_begin(&r);
    refused(txn, LLADD_BAD_ARGUMENT, lladd_update(txn, 100000, page, &args, sizeof args));
    refused(txn, LLADD_BAD_ARGUMENT, lladd_update(txn, LLADD_NO_OP, page, &args, sizeof args));
    refused(txn, LLADD_BAD_ARGUMENT, cell_put(txn, at(CELLS), 1));
    refused(txn, LLADD_BAD_ARGUMENT, lladd_update(txn, r.ids.transfer, page, &args, sizeof args));
    refused(txn, LLADD_OUT_OF_RANGE, cell_put(txn, cell_of(lladd_page_of(1u << 20), 0), 1));
    ck_contains(lladd_txn_error(txn)->message, "1048576");
    refused(txn, LLADD_OUT_OF_RANGE, cell_put(txn, cell_of(lladd_page_of(UINT64_MAX), 0), 1));
    refused(txn, LLADD_WRONG_TYPE, cell_put(txn, cell_of(lladd_page_of(0), 0), 1));
    ck_assert_uint_eq(lladd_txn_error(txn)->page.v, 0);
    refused(txn, LLADD_TOO_LARGE, lladd_log_undo_only(txn, r.ids.restore, &args, 1000));
    refused(txn, LLADD_BAD_ARGUMENT, lladd_log_undo_only(txn, r.ids.put, &args, 10));
    refused(txn, LLADD_BAD_ARGUMENT, lladd_log_undo_only(txn, 5000, &args, 10));
    refused(txn, LLADD_BAD_ARGUMENT, lladd_log_credit(txn, 5000, 1));
    refused(txn, LLADD_BAD_ARGUMENT, lladd_nta_begin(txn, NULL));
    refused(txn, LLADD_BAD_ARGUMENT, lladd_savepoint(txn, NULL));
    ck_assert_uint_eq(lladd_txn_id(txn).v, 0); /* the refused calls have logged nothing */
    done(lladd_commit(txn));
    for (unsigned i = 0; i < CELLS; i++)
        fixture_expect(&r, at(i), 0);
    end_case();
}
END_TEST

START_TEST(a_record_longer_than_the_log_takes_is_refused)
{
    begin_case(_i);
    struct lladd_txn *txn = fixture_begin(&r);
    refused(txn, LLADD_TOO_LARGE, cell_put_wide(txn, at(0), 1, WIDE_MAX + 1));
    void *big = calloc(1, 32u << 10); /* more than a quarter of the ring */
    refused(txn, LLADD_TOO_LARGE, lladd_log_note(txn, "big", lladd_span_of(big, 32u << 10), NULL));
    free(big);
    ok(txn, cell_put(txn, at(0), 1));
    done(lladd_commit(txn));
    fixture_expect(&r, at(0), 1);
    end_case();
}
END_TEST

START_TEST(wrong_transaction_options_are_refused)
{
    struct lladd_txn_options o = LLADD_TXN_OPTIONS_INIT;
    struct lladd_txn *txn = NULL;
    begin_case(_i);
    ck_assert_int_eq(lladd_begin(r.db, NULL, NULL, &r.err), LLADD_BAD_ARGUMENT);
    o.struct_size = 3;
    ck_assert_int_eq(lladd_begin(r.db, &o, &txn, &r.err), LLADD_BAD_ARGUMENT);
    o = (struct lladd_txn_options)LLADD_TXN_OPTIONS_INIT;
    o.durability = (enum lladd_durability)9;
    ck_assert_int_eq(lladd_begin(r.db, &o, &txn, &r.err), LLADD_BAD_ARGUMENT);
    o = (struct lladd_txn_options)LLADD_TXN_OPTIONS_INIT;
    char owner[65];
    memset(owner, 'o', sizeof owner);
    owner[64] = 0;
    o.owner = owner;
    ck_assert_int_eq(lladd_begin(r.db, &o, &txn, &r.err), LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(lladd_begin(NULL, NULL, &txn, &r.err), LLADD_CLOSED);
    ck_assert_ptr_null(txn);
    ck_assert_uint_eq(fixture_stats(&r).active, 0);
    end_case();
}
END_TEST

/* ---- statistics -------------------------------------------------------------------------- */

struct named {
    const char *name;
    uint64_t value;
    unsigned seen, all;
};

static int see_stat(void *ctx, const char *name, uint64_t value)
{
    struct named *n = ctx;
    n->all++;
    if (strcmp(name, n->name) == 0) {
        n->value = value;
        n->seen++;
    }
    return 0;
}

static uint64_t stat_named(const char *name)
{
    struct named n = {.name = name};
    ck_assert_int_eq(lladd_stat_each(r.db, see_stat, &n), 0);
    ck_assert_msg(n.seen == 1, "statistic \"%s\" came %u times", name, n.seen);
    return n.value;
}

static int stop_at_once(void *ctx, const char *name, uint64_t value)
{
    (void)name;
    (void)value;
    ++*(int *)ctx;
    return LLADD_BUSY;
}

START_TEST(statistics_count_and_have_names)
{
    begin_case(_i);
    struct lladd_stats before = fixture_stats(&r);
    uint64_t adds = 0;
    struct lladd_txn *txn = fixture_begin(&r);
    for (unsigned i = 0; i < 5; i++, adds++)
        ok(txn, cell_add(txn, at(0), 1));
    done(lladd_commit(txn));
    txn = fixture_begin(&r);
    ok(txn, cell_put(txn, at(0), 1));
    done(lladd_abort(txn));
    struct lladd_stats after = fixture_stats(&r);
    ck_assert_uint_eq(after.begun, before.begun + 2);
    ck_assert_uint_eq(after.committed, before.committed + 1);
    ck_assert_uint_eq(after.aborted, before.aborted + 1);
    ck_assert_uint_eq(after.active, 0);
    ck_assert_uint_gt(after.log_tail, before.log_tail);
    ck_assert_uint_eq(stat_named("op.test.add.count"), adds);
    ck_assert_uint_gt(stat_named("op.test.add.bytes"), adds * 20);
    ck_assert_uint_eq(stat_named("txn.committed"), after.committed);
    ck_assert_uint_eq(stat_named("log.tail"), after.log_tail);
    ck_assert_uint_eq(stat_named("page.count"), lladd_page_count(r.db));
    (void)stat_named("cache.hits");
    (void)stat_named("recovery.ns");
    int calls = 0;
    ck_assert_int_eq(lladd_stat_each(r.db, stop_at_once, &calls), LLADD_BUSY);
    ck_assert_int_eq(calls, 1);
    end_case();
}
END_TEST

/* A caller that was compiled with an older header passes a smaller struct. */
START_TEST(statistics_fill_as_much_as_the_caller_knows)
{
    struct lladd_stats s;
    begin_case(_i);
    memset(&s, 0xee, sizeof s);
    s.struct_size = offsetof(struct lladd_stats, committed);
    ck_assert_int_eq(lladd_stats_get(r.db, &s), 0);
    ck_assert_uint_ge(s.begun, 1);
    ck_assert_uint_eq(s.committed, UINT64_C(0xeeeeeeeeeeeeeeee));
    s.struct_size = 0;
    ck_assert_int_eq(lladd_stats_get(r.db, &s), LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(lladd_stats_get(r.db, NULL), LLADD_BAD_ARGUMENT);
    end_case();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("transactions");
    TCase *tc = tcase_create("all");
#define LOOP(test) tcase_add_loop_test(tc, test, 0, FIXTURE_KINDS)
    LOOP(committed_updates_are_there_and_survive_closing);
    LOOP(committed_updates_survive_a_crash);
    LOOP(an_abort_takes_everything_back);
    LOOP(an_unfinished_transaction_is_undone_by_the_next_open);
    LOOP(closing_aborts_what_is_open);
    LOOP(transactions_that_touch_one_page_end_independently);
    LOOP(any_number_of_transactions_can_be_open);
    LOOP(open_transactions_do_not_keep_log_space);
    LOOP(a_transaction_may_be_larger_than_the_cache);
    LOOP(a_transaction_s_id_is_the_lsn_of_its_first_record);
    LOOP(a_savepoint_takes_back_what_came_after_it_as_often_as_one_likes);
    LOOP(savepoints_nest_and_rolling_back_to_an_older_one_kills_the_newer);
    LOOP(an_abort_after_a_partial_rollback_takes_back_the_rest_only);
    LOOP(a_crash_after_a_partial_rollback_undoes_the_rest_only);
    LOOP(a_savepoint_dies_when_its_top_action_closes_or_is_taken_back);
    LOOP(a_released_savepoint_and_later_ones_are_gone);
    LOOP(savepoints_that_are_released_take_no_memory);
    LOOP(rolling_back_past_an_open_action_takes_the_action_back);
    LOOP(a_read_only_transaction_refuses_to_write_and_writes_nothing);
    LOOP(committing_a_reader_makes_durable_what_it_may_have_seen);
    LOOP(an_asynchronous_commit_is_durable_when_waited_for);
    LOOP(waiting_beyond_the_log_is_refused_and_for_nothing_returns_at_once);
    LOOP(durability_modes_keep_what_they_promise);
    LOOP(the_database_s_default_durability_is_the_transaction_s);
    LOOP(a_durable_commit_costs_one_write_and_one_sync);
    LOOP(update_page_works_on_a_held_page_with_credit_and_is_refused_without);
    LOOP(redo_only_updates_are_never_undone);
    LOOP(wrong_updates_are_refused_and_change_nothing);
    LOOP(a_record_longer_than_the_log_takes_is_refused);
    LOOP(wrong_transaction_options_are_refused);
    LOOP(statistics_count_and_have_names);
    LOOP(statistics_fill_as_much_as_the_caller_knows);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
