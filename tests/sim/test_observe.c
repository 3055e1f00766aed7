/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The events of the instrumented library. An observer gets each step once, with its LSN, page and
 * operation. A thread that does not observe gets no events.
 */
#include "db_fixture.h"
#include "seen.h"

#include <lladd/bytes.h>
#include <lladd/log_read.h>

static struct fixture r;
static struct seen seen;
static lladd_pageno page[2];

/* Makes a database with two committed pages of cells. The test observes from then on. */
static void begin_case(void)
{
    fixture_init(&r, 0);
    fixture_open(&r);
    fixture_pages(&r, page, 2);
    seen_begin(&seen);
}

static void end_case(void)
{
    lladd_dst_enter(NULL);
    fixture_free(&r);
}

static const struct lladd_dst_event *find(enum lladd_dst_what what)
{
    for (unsigned i = 0; i < seen.n; i++)
        if (seen.events[i].what == what)
            return &seen.events[i];
    ck_abort_msg("no event for a step of kind %d", (int)what);
    return NULL;
}

START_TEST(a_thread_that_does_not_observe_gets_no_events)
{
    begin_case();
    ck_assert_ptr_eq(lladd_dst_current(), &seen.dst);
    ck_assert_ptr_eq(lladd_dst_enter(NULL), &seen.dst);
    ck_assert_ptr_null(lladd_dst_current());
    fixture_set(&r, cell_of(page[0], 0), 5);
    fixture_crash(&r, &fault_kill);
    fixture_open(&r);
    fixture_expect(&r, cell_of(page[0], 0), 5);
    ck_assert_uint_eq(seen.n, 0);
    end_case();
}
END_TEST

START_TEST(a_commit_is_an_update_a_record_and_an_acknowledgement)
{
    begin_case();
    fixture_set(&r, cell_of(page[1], 3), 5);
    ck_assert_uint_eq(seen_count(&seen, LLADD_DST_APPLY, "test.put", 0), 1);
    const struct lladd_dst_event *apply = find(LLADD_DST_APPLY);
    ck_assert_uint_eq(apply->page, page[1].v);
    ck_assert_uint_eq(apply->txn.v, apply->lsn.v); /* its first record is the transaction's id */
    ck_assert_uint_eq(apply->depth, 0);
    ck_assert_uint_eq(apply->op_version, test_put.version);
    const struct lladd_dst_event *commit = find(LLADD_DST_COMMIT);
    ck_assert_uint_gt(commit->lsn.v, apply->lsn.v);
    ck_assert_uint_eq(commit->txn.v, apply->txn.v);
    const struct lladd_dst_event *told = find(LLADD_DST_ACKNOWLEDGE);
    ck_assert_uint_eq(told->lsn.v, commit->lsn.v);
    ck_assert_uint_gt(told->durable.v, commit->lsn.v);
    end_case();
}
END_TEST

START_TEST(a_page_write_comes_with_what_is_durable)
{
    begin_case();
    fixture_set(&r, cell_of(page[0], 0), 5);
    uint64_t put = find(LLADD_DST_APPLY)->lsn.v;
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    unsigned writes = 0;
    for (unsigned i = 0; i < seen.n; i++) {
        const struct lladd_dst_event *e = &seen.events[i];
        if (e->what != LLADD_DST_PAGE_WRITE)
            continue;
        ck_assert_uint_lt(e->lsn.v, e->durable.v);
        writes += e->page == page[0].v && e->lsn.v == put;
    }
    ck_assert_uint_eq(writes, 1);
    ck_assert_uint_eq(seen_count(&seen, LLADD_DST_CHECKPOINT, NULL, 0), 1);
    end_case();
}
END_TEST

/* Physical undo of an open top action, logical undo of a closed one, and the end. */
START_TEST(a_rollback_tells_each_step)
{
    begin_case();
    struct lladd_txn *txn = fixture_begin(&r);
    struct lladd_action open;
    ok(txn, cells_transfer(txn, cell_of(page[0], 0), cell_of(page[1], 0), 7));
    ok(txn, lladd_nta_begin(txn, &open));
    ok(txn, cell_put(txn, cell_of(page[0], 1), 9));
    seen.n = 0;
    done(lladd_abort(txn));
    ck_assert_uint_eq(seen_count(&seen, LLADD_DST_UNDO, "test.put", 0), 1);
    ck_assert_uint_eq(find(LLADD_DST_UNDO)->depth, 1);
    ck_assert_uint_eq(seen_count(&seen, LLADD_DST_COMPENSATE_BEGIN, "test.transfer", 0), 1);
    ck_assert_uint_eq(seen_count(&seen, LLADD_DST_COMPENSATE_END, "test.transfer", 0), 1);
    ck_assert_uint_eq(find(LLADD_DST_COMPENSATE_END)->lsn.v,
                      find(LLADD_DST_COMPENSATE_BEGIN)->lsn.v);
    ck_assert_uint_ge(seen_count(&seen, LLADD_DST_APPLY, NULL, 0), 2); /* ordinary updates */
    ck_assert_uint_eq(seen_count(&seen, LLADD_DST_END, NULL, 0), 1);
    ck_assert_uint_eq(seen_count(&seen, LLADD_DST_COMMIT, NULL, 0), 0);
    end_case();
}
END_TEST

/* The phases come in order; redo finds pages that were not written before the crash. */
START_TEST(recovery_tells_its_phases_and_what_it_finds)
{
    begin_case();
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    fixture_set(&r, cell_of(page[0], 0), 5);
    struct lladd_txn *loser = fixture_begin(&r);
    ok(loser, cell_add(loser, cell_of(page[0], 0), 1));
    fixture_set(&r, cell_of(page[1], 0), 6);
    fixture_crash(&r, &fault_power);
    seen.n = 0;
    fixture_open(&r);
    uint64_t before = 0;
    for (unsigned i = 0; i < seen.n; i++) {
        if (seen.events[i].what != LLADD_DST_PHASE)
            continue;
        ck_assert_uint_gt(seen.events[i].detail, before);
        before = seen.events[i].detail;
    }
    ck_assert_uint_eq(before, LLADD_DST_RECOVERED);
    ck_assert_uint_eq(seen_count(&seen, LLADD_DST_PHASE, NULL, LLADD_DST_UNDO_LOSERS), 1);
    ck_assert_uint_eq(seen_count(&seen, LLADD_DST_REDO, "test.put", LLADD_DST_STALE), 2);
    ck_assert_uint_eq(seen_count(&seen, LLADD_DST_REDO, "test.add", LLADD_DST_STALE), 1);
    ck_assert_uint_eq(seen_count(&seen, LLADD_DST_UNDO, "test.add", 0), 1);
    ck_assert_uint_eq(find(LLADD_DST_UNDO)->depth, 0);
    ck_assert_uint_ge(seen_count(&seen, LLADD_DST_REDO_IMAGE, NULL, LLADD_DST_FRESH), 1);
    end_case();
}
END_TEST

/* A rollback that was complete before the crash is redone like any other history. */
START_TEST(redo_tells_of_compensations)
{
    begin_case();
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, cell_add(txn, cell_of(page[0], 0), 1));
    done(lladd_abort(txn));
    fixture_set(&r, cell_of(page[1], 0), 7); /* its commit makes the CLR durable */
    fixture_crash(&r, &fault_power);
    seen.n = 0;
    fixture_open(&r);
    ck_assert_uint_eq(seen_count(&seen, LLADD_DST_REDO_CLR, "test.add", LLADD_DST_STALE), 1);
    ck_assert_uint_eq(seen_count(&seen, LLADD_DST_PHASE, NULL, LLADD_DST_UNDO_LOSERS), 0);
    end_case();
}
END_TEST

/* A page that was written before the crash already has the change. Where pages may tear, its log
 * begins with an image, and the page on disk is not read. */
START_TEST(redo_tells_of_pages_that_need_nothing)
{
    begin_case();
    r.options.flags |= LLADD_OPT_ATOMIC_PAGES;
    r.options.cache_bytes = fixture_small_cache(0);
    fixture_reopen(&r);
    fixture_set(&r, cell_of(page[0], 0), 5);
    lladd_pageno others[64];
    fixture_pages(&r, others, 64); /* more than the cache holds */
    fixture_crash(&r, &fault_kill);
    seen.n = 0;
    fixture_open(&r);
    ck_assert_uint_eq(seen_count(&seen, LLADD_DST_REDO, "test.put", LLADD_DST_PRESENT), 1);
    ck_assert_uint_eq(seen_count(&seen, LLADD_DST_REDO, "test.put", LLADD_DST_STALE), 0);
    end_case();
}
END_TEST

START_TEST(a_prepared_transaction_is_promised_when_it_is_durable)
{
    begin_case();
    struct lladd_gid gid = gid_of("g");
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, cell_add(txn, cell_of(page[0], 0), 1));
    ok(txn, lladd_prepare(txn, &gid));
    ck_assert_uint_gt(find(LLADD_DST_ACKNOWLEDGE)->durable.v, find(LLADD_DST_ACKNOWLEDGE)->lsn.v);
    done(lladd_commit(txn));
    end_case();
}
END_TEST

/* ---- object classes ---------------------------------------------------------------------- */

static int64_t total;       /* the contents of an object that is in memory only */
static bool total_is_saved; /* true: all changes of the object are durable; false: none is */

static lladd_lsn total_durable(void *ctx, struct lladd_db *db)
{
    (void)ctx;
    return total_is_saved ? lladd_durable_lsn(db) : lladd_lsn_of(0);
}

static int total_redo(void *ctx, struct lladd_db *db, lladd_lsn lsn, uint64_t object,
                      struct lladd_span s)
{
    (void)ctx;
    (void)db;
    (void)lsn;
    (void)object;
    total += (int64_t)lladd_get64(s.data);
    return 0;
}

static int total_undo(void *ctx, struct lladd_db *db, struct lladd_txn *txn, lladd_lsn compensation,
                      uint64_t object, struct lladd_span s)
{
    (void)ctx;
    (void)db;
    (void)txn;
    (void)compensation;
    (void)object;
    total -= (int64_t)lladd_get64(s.data);
    return 0;
}

static const struct lladd_object_class total_class = {
    .struct_size = sizeof total_class,
    .name = "test.total",
    .version = 1,
    .durable_lsn = total_durable,
    .redo = total_redo,
    .undo = total_undo,
};

static void total_add(struct lladd_txn *txn, uint64_t amount)
{
    unsigned char bytes[8];
    struct lladd_token token;
    lladd_put64(bytes, amount);
    struct lladd_span s = lladd_span_of(bytes, sizeof bytes);
    ok(txn, lladd_log_object(txn, &total_class, 7, s, s, &token, NULL));
    total += (int64_t)amount;
    lladd_object_applied(txn, &token);
}

static void crash_and_recover(bool saved)
{
    fixture_crash(&r, &fault_kill);
    total_is_saved = saved;
    total = saved ? total : 0;
    seen.n = 0;
    fixture_open(&r);
}

START_TEST(object_records_are_told_like_updates)
{
    fixture_init(&r, 0);
    total = 0;
    total_is_saved = false;
    ok_db(&r, lladd_register_class(&r.options, &total_class, &r.err));
    fixture_open(&r);
    seen_begin(&seen);
    struct lladd_txn *txn = fixture_begin(&r);
    total_add(txn, 5);
    ck_assert_uint_eq(find(LLADD_DST_APPLY)->page, 7);
    ck_assert_str_eq(find(LLADD_DST_APPLY)->op, "test.total");
    done(lladd_abort(txn));
    ck_assert_uint_eq(seen_count(&seen, LLADD_DST_UNDO, "test.total", 0), 1);
    txn = fixture_begin(&r);
    total_add(txn, 6);
    done(lladd_commit(txn));
    txn = fixture_begin(&r);
    total_add(txn, 70);
    crash_and_recover(false);
    ck_assert_int_eq(total, 6);
    ck_assert_uint_ge(seen_count(&seen, LLADD_DST_REDO, "test.total", LLADD_DST_STALE), 2);
    ck_assert_uint_eq(seen_count(&seen, LLADD_DST_REDO_CLR, "test.total", LLADD_DST_STALE), 1);
    crash_and_recover(true);
    ck_assert_int_eq(total, 6);
    ck_assert_uint_eq(seen_count(&seen, LLADD_DST_REDO, "test.total", LLADD_DST_STALE), 0);
    end_case();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("observe");
    TCase *t = tcase_create("observe");
    tcase_add_test(t, a_thread_that_does_not_observe_gets_no_events);
    tcase_add_test(t, a_commit_is_an_update_a_record_and_an_acknowledgement);
    tcase_add_test(t, a_page_write_comes_with_what_is_durable);
    tcase_add_test(t, a_rollback_tells_each_step);
    tcase_add_test(t, recovery_tells_its_phases_and_what_it_finds);
    tcase_add_test(t, redo_tells_of_compensations);
    tcase_add_test(t, redo_tells_of_pages_that_need_nothing);
    tcase_add_test(t, a_prepared_transaction_is_promised_when_it_is_durable);
    tcase_add_test(t, object_records_are_told_like_updates);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
