/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls of a thread that holds a page. A call that may wait is refused, in debug and release
 * builds. Calls that change several held pages together do not wait. A thread with log credit may
 * wait only for pages, for their I/O, and for the log's writer. Any other wait stops debug
 * builds.
 */
#include "db_fixture.h"
#include "support/fixtures.h"

#include <errno.h>
#include <lladd/log_read.h>
#include <lladd/sync.h>
#include <stdlib.h>

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

/* Every call that may wait returns the error immediately, even if it would not have to wait, and
 * changes nothing. */
START_TEST(what_may_wait_is_refused_while_a_page_is_held)
{
    const enum lladd_latch latch = _i & 1 ? LLADD_LATCH_EXCLUSIVE : LLADD_LATCH_SHARED;
    struct lladd_log_need needs[] = {{0, 1}, {LLADD_NO_OP, 1}};
    struct lladd_page *held;
    struct lladd_txn *other = NULL;
    struct lladd_action action;
    lladd_savepoint_id sp;
    begin_case(_i);
    lladd_pageno second = fixture_page(&r);
    struct cell far = cell_of(second, 1);
    needs[0].op = r.ids.put;
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, cell_put(txn, at(0), 7)); /* leaves some log credit with the transaction */
    ok(txn, lladd_savepoint(txn, &sp));
    ok(txn, lladd_nta_begin(txn, &action));
    ok(txn, cell_put(txn, at(1), 8));
    ok_db(&r, lladd_page_fix(r.db, page, latch, &held, &r.err));
    refused(txn, LLADD_BAD_STATE, cell_put(txn, far, 1));
    ck_contains(lladd_txn_error(txn)->message, "lladd_log_credit_all");
    refused(txn, LLADD_BAD_STATE, cell_put(txn, at(0), 1));
    refused(txn, LLADD_BAD_STATE, cell_poke(txn, far, 1));
    refused(txn, LLADD_BAD_STATE, lladd_log_credit(txn, r.ids.put, 1));
    refused(txn, LLADD_BAD_STATE, lladd_log_credit_all(txn, needs, 2));
    refused(txn, LLADD_BAD_STATE, lladd_log_undo_only(txn, r.ids.restore, &far, 8));
    refused(txn, LLADD_BAD_STATE,
            lladd_log_note(txn, "test.note", lladd_span_of(&far, sizeof far), NULL));
    refused(txn, LLADD_BAD_STATE, lladd_nta_end(txn, &action, r.ids.restore, &far, 8));
    refused(txn, LLADD_BAD_STATE, lladd_nta_abort(txn, &action));
    refused(txn, LLADD_BAD_STATE, lladd_rollback_to(txn, sp));
    refused(txn, LLADD_BAD_STATE, lladd_commit(txn));
    refused(txn, LLADD_BAD_STATE, lladd_abort(txn));
    ck_assert_int_eq(lladd_begin(r.db, NULL, &other, &r.err), LLADD_BAD_STATE);
    ck_assert_int_eq(lladd_checkpoint(r.db, &r.err), LLADD_BAD_STATE);
    ck_assert_int_eq(lladd_maintain(r.db, NULL, &r.err), LLADD_BAD_STATE);
    ck_assert_int_eq(lladd_wait_durable(r.db, lladd_lsn_of(0), &r.err), LLADD_BAD_STATE);
    ck_assert_int_eq(lladd_close(r.db), LLADD_BAD_STATE);
    ok(txn, lladd_log_credit(txn, r.ids.put, 0));
    lladd_page_unfix(r.db, held, latch);
    fixture_expect(&r, far, 0);
    ok(txn, lladd_nta_end(txn, &action, LLADD_NO_OP, NULL, 0));
    ok(txn, cell_put(txn, far, 1));
    done(lladd_commit(txn));
    fixture_expect(&r, at(0), 7);
    fixture_expect(&r, at(1), 8);
    fixture_expect(&r, far, 1);
    end_case();
}
END_TEST

/* The right order: the thread first takes the credit for all records, then the latches, and then
 * logs all records and ends the action. */
START_TEST(pages_change_together_with_the_end_of_an_action)
{
    struct {
        unsigned index;
        uint64_t value;
        size_t filling;
    } args = {3, 77, 0};
    struct lladd_log_need needs[LLADD_LOG_NEEDS_MAX + 1] = {{0, 2}, {LLADD_NO_OP, 1}};
    struct lladd_page *held[2];
    struct lladd_action action;
    begin_case(_i);
    lladd_pageno second = fixture_page(&r);
    needs[0].op = r.ids.put;
    struct lladd_txn *txn = fixture_begin(&r);
    refused(txn, LLADD_TOO_LARGE, lladd_log_credit_all(txn, needs, LLADD_LOG_NEEDS_MAX + 1));
    ok(txn, lladd_nta_begin(txn, &action));
    ok(txn, lladd_log_credit_all(txn, needs, 2));
    ok_db(&r, lladd_page_fix(r.db, page, LLADD_LATCH_EXCLUSIVE, &held[0], &r.err));
    ok_db(&r, lladd_page_fix(r.db, second, LLADD_LATCH_EXCLUSIVE, &held[1], &r.err));
    ok(txn, lladd_update_page(txn, r.ids.put, held[0], &args, sizeof args));
    ok(txn, lladd_update_page(txn, r.ids.put, held[1], &args, sizeof args));
    ok(txn, lladd_nta_end(txn, &action, LLADD_NO_OP, NULL, 0));
    lladd_page_unfix(r.db, held[1], LLADD_LATCH_EXCLUSIVE);
    lladd_page_unfix(r.db, held[0], LLADD_LATCH_EXCLUSIVE);
    ok(txn, lladd_log_credit(txn, r.ids.put, 0));
    done(lladd_abort(txn));
    fixture_expect(&r, at(3), 77);
    fixture_expect(&r, cell_of(second, 3), 77);
    end_case();
}
END_TEST

/* The log is full again and again, and checkpoints wait for the pages that the thread holds. An
 * update that takes its own credit is refused while the thread holds a page, and takes no space. In
 * the right order, the thread takes the credit before it holds a page. */
START_TEST(pages_change_together_at_the_log_limit)
{
    enum { ROUNDS = 1500, LIMIT = 32 * 16384 };
    struct {
        unsigned index;
        uint64_t value;
        size_t filling;
    } args = {3, 0, 600};
    struct lladd_page *held[2];
    struct lladd_log_need need = {0, 2};
    fixture_init(&r, (unsigned)_i);
    r.options.log_ring_bytes = 128u << 10;
    r.options.log_segment_min = r.options.log_segment_max = 16384;
    r.options.log_limit_bytes = LIMIT;
    r.options.durability = LLADD_DURABLE_LATER;
    fixture_open(&r);
    page = fixture_page(&r);
    lladd_pageno second = fixture_page(&r);
    need.op = r.ids.wide;
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct lladd_txn *txn = fixture_begin(&r);
        ok(txn, cell_put(txn, at(0), i));
        ok_db(&r, lladd_page_fix(r.db, page, LLADD_LATCH_EXCLUSIVE, &held[0], &r.err));
        refused(txn, LLADD_BAD_STATE, cell_put(txn, cell_of(second, 0), i));
        lladd_page_unfix(r.db, held[0], LLADD_LATCH_EXCLUSIVE);
        args.value = i;
        ok(txn, lladd_log_credit_all(txn, &need, 1));
        ok_db(&r, lladd_page_fix(r.db, page, LLADD_LATCH_EXCLUSIVE, &held[0], &r.err));
        ok_db(&r, lladd_page_fix(r.db, second, LLADD_LATCH_EXCLUSIVE, &held[1], &r.err));
        ok(txn, lladd_update_page(txn, r.ids.wide, held[0], &args, sizeof args));
        ok(txn, lladd_update_page(txn, r.ids.wide, held[1], &args, sizeof args));
        lladd_page_unfix(r.db, held[1], LLADD_LATCH_EXCLUSIVE);
        lladd_page_unfix(r.db, held[0], LLADD_LATCH_EXCLUSIVE);
        ok(txn, lladd_log_credit(txn, r.ids.put, 0));
        done(lladd_commit(txn));
    }
    ck_assert_uint_gt(lladd_durable_lsn(r.db).v, 2 * LIMIT);
    ck_assert_uint_le(fixture_stats(&r).log_disk_bytes, LIMIT);
    fixture_expect(&r, at(0), ROUNDS - 1);
    fixture_expect(&r, at(3), ROUNDS - 1);
    fixture_expect(&r, cell_of(second, 3), ROUNDS - 1);
    fixture_expect(&r, cell_of(second, 0), 0);
    fixture_free(&r);
}
END_TEST

/* ---- log credit in hand ------------------------------------------------------------------ */

#ifdef LLADD_DEBUG
static struct lladd_mutex mutex;

/* A call of a thread that has credit in hand for `txn`, or none. */
struct call {
    void (*make)(struct lladd_txn *txn, bool in_hand);
    uint32_t rank;    /* the rank of `mutex` */
    const char *says; /* the message that stops the call with credit in hand; NULL: no message, the
                       * call is allowed */
};

static void take_credit(struct lladd_txn *txn, bool in_hand)
{
    ok(txn, lladd_log_credit(txn, r.ids.put, 1));
    if (!in_hand)
        ok(txn, lladd_log_credit(txn, r.ids.put, 0));
}

static void lock(struct lladd_txn *txn, bool in_hand)
{
    take_credit(txn, in_hand);
    lladd_mutex_lock(&mutex);
    lladd_mutex_unlock(&mutex);
}

static void sleep_on_a_word(struct lladd_txn *txn, bool in_hand)
{
    const uint32_t word = 0;
    take_credit(txn, in_hand);
    lladd_word_wait_as("a gate", &word, 0, 1, 1);
}

static void sleep_on_a_word_without_a_name(struct lladd_txn *txn, bool in_hand)
{
    const uint32_t word = 0;
    take_credit(txn, in_hand);
    lladd_word_wait(&word, 0, 1, 1);
}

static void wait_for_a_condition(struct lladd_txn *txn, bool in_hand)
{
    struct lladd_cond c;
    ck_assert_int_eq(lladd_cond_init(&c), 0);
    take_credit(txn, in_hand);
    lladd_mutex_lock(&mutex);
    (void)lladd_cond_wait_for(&c, &mutex, 1);
    lladd_mutex_unlock(&mutex);
    lladd_cond_destroy(&c);
}

static void wait_for_a_condition_of_a_mutex_that_was_locked_before(struct lladd_txn *txn,
                                                                   bool in_hand)
{
    struct lladd_cond c;
    ck_assert_int_eq(lladd_cond_init(&c), 0);
    lladd_mutex_lock(&mutex);
    take_credit(txn, in_hand);
    (void)lladd_cond_wait_for(&c, &mutex, 1);
    lladd_mutex_unlock(&mutex);
    lladd_cond_destroy(&c);
}

static void ask_in_another_transaction(struct lladd_txn *txn, bool in_hand)
{
    struct lladd_txn *other = fixture_begin(&r);
    take_credit(txn, in_hand);
    ok(other, lladd_log_credit(other, r.ids.put, 1));
    done(lladd_abort(other));
}

static void ask_again(struct lladd_txn *txn, bool in_hand)
{
    take_credit(txn, in_hand);
    ok(txn, lladd_log_credit(txn, r.ids.put, 8));
}

/* The mutex is locked before the credit is requested, or not at all. */
static void ask_with_a_mutex(struct lladd_txn *txn, bool in_hand)
{
    if (in_hand)
        lladd_mutex_lock(&mutex);
    take_credit(txn, in_hand);
    if (in_hand)
        lladd_mutex_unlock(&mutex);
}

/* The thread holds a page of another database. (To hold a page of the same database is an error in
 * every build.) */
static void ask_with_a_page_of_another_database(struct lladd_txn *txn, bool in_hand)
{
    static struct fixture other;
    struct lladd_page *held;
    fixture_init(&other, 0);
    fixture_open(&other);
    lladd_pageno number = fixture_page(&other);
    if (in_hand)
        ok_db(&other, lladd_page_fix(other.db, number, LLADD_LATCH_SHARED, &held, &other.err));
    take_credit(txn, in_hand);
    if (in_hand)
        lladd_page_unfix(other.db, held, LLADD_LATCH_SHARED);
    fixture_free(&other);
}

static void wait_until_durable(struct lladd_txn *txn, bool in_hand)
{
    take_credit(txn, in_hand);
    ok_db(&r, lladd_wait_durable(r.db, lladd_lsn_of(0), &r.err));
}

static const struct call calls[] = {
    {lock, LLADD_RANK_EXTENSION, "or the log credit that the thread has (the mutex)"},
    {lock, LLADD_RANK_CHECKPOINT, "or the log credit that the thread has (the mutex)"},
    {lock, LLADD_RANK_CATALOGUE, "or the log credit that the thread has (the mutex)"},
    {lock, LLADD_RANK_COMMIT, NULL},
    {lock, LLADD_RANK_BUFFER, NULL},
    {sleep_on_a_word, LLADD_RANK_LEAF, "a thread sleeps with log credit in hand (a gate)"},
    {sleep_on_a_word_without_a_name, LLADD_RANK_LEAF,
     "a thread sleeps with log credit in hand (a word)"},
    {wait_for_a_condition, LLADD_RANK_COMMIT,
     "a condition is waited for with log credit in hand (the mutex)"},
    {wait_for_a_condition, LLADD_RANK_LEAF,
     "a condition is waited for with log credit in hand (the mutex)"},
    {wait_for_a_condition, LLADD_RANK_BUFFER, NULL},
    {wait_for_a_condition_of_a_mutex_that_was_locked_before, LLADD_RANK_EXTENSION,
     "or log credit held that comes after its mutex (the mutex)"},
    {ask_in_another_transaction, LLADD_RANK_LEAF,
     "log credit is asked for with log credit in hand (credit)"},
    {ask_again, LLADD_RANK_LEAF, NULL},
    {ask_with_a_mutex, LLADD_RANK_COMMIT, "log credit is asked for with a mutex held (the mutex)"},
    {ask_with_a_mutex, LLADD_RANK_LEAF, "log credit is asked for with a mutex held (the mutex)"},
    {ask_with_a_mutex, LLADD_RANK_EXTENSION, NULL},
    {ask_with_a_page_of_another_database, LLADD_RANK_LEAF,
     "log credit is asked for with a page held (credit)"},
    {wait_until_durable, LLADD_RANK_LEAF,
     "callbacks of commits may run with log credit in hand (credit)"},
};
enum { CALLS = sizeof calls / sizeof *calls };

static void make_call(const struct call *call, bool in_hand)
{
    begin_case(0);
    ck_assert_int_eq(lladd_mutex_init(&mutex, call->rank, "the mutex"), 0);
    fixture_set(&r, at(0), 1); /* the first use of an operation takes the catalogue's mutex */
    struct lladd_txn *txn = fixture_begin(&r);
    call->make(txn, in_hand);
    done(lladd_abort(txn));
    lladd_mutex_destroy(&mutex);
    end_case();
}

static void call_with_credit(void *call)
{
    make_call(call, true);
}

/* Debug builds name what the thread waits for. Without credit each call is allowed. */
START_TEST(a_wait_with_log_credit_in_hand_stops_debug_builds)
{
    struct call call = calls[_i];
    make_call(&call, false);
    if (call.says)
        ck_assert_msg(dies_saying(call_with_credit, &call, call.says), "does not say: %s",
                      call.says);
    else
        make_call(&call, true);
}
END_TEST

/* The handle is poisoned while the thread has log credit. The call that returns this error takes
 * the credit back, so the thread may open a database afterwards. */
START_TEST(a_poisoned_handle_takes_the_log_credit_back)
{
    begin_case(0);
    fixture_set(&r, at(0), 1);
    struct lladd_txn *txn = fixture_begin(&r), *other = fixture_begin(&r);
    ok(other, cell_put(other, at(1), 1));
    take_credit(txn, true);
    fault_device_fail(r.fd, 1, FAULT_SYNC, EIO, true);
    ck_assert_int_eq(lladd_log_force(r.db, lladd_txn_id(other), &r.err), LLADD_WRITE_FAILED);
    fault_device_fail(r.fd, 0, 0, 0, false);
    ck_assert_int_eq(lladd_log_credit(txn, r.ids.put, 0), LLADD_WRITE_FAILED);
    fixture_crash(&r, &fault_kill);
    fixture_open(&r);
    fixture_expect(&r, at(0), 1);
    end_case();
}
END_TEST
#endif

int main(void)
{
    Suite *s = suite_create("held pages");
    TCase *tc = tcase_create("all");
    tcase_add_loop_test(tc, what_may_wait_is_refused_while_a_page_is_held, 0, FIXTURE_KINDS);
    tcase_add_loop_test(tc, pages_change_together_with_the_end_of_an_action, 0, FIXTURE_KINDS);
    tcase_add_loop_test(tc, pages_change_together_at_the_log_limit, 0, FIXTURE_KINDS);
#ifdef LLADD_DEBUG
    tcase_add_loop_test(tc, a_wait_with_log_credit_in_hand_stops_debug_builds, 0, CALLS);
    tcase_add_test(tc, a_poisoned_handle_takes_the_log_credit_back);
#endif
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
