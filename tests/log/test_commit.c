/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Group commit and poison. A commit takes one write and one sync if no other thread commits at the
 * time. Durable records survive a power failure, other records may be lost. Every synced group ends
 * with a seal that states what was durable before it (LOG-3), and no group consists of seals alone.
 * A failed write or sync is final for every thread and is not tried again (LOG-4).
 */
#include "log_fixture.h"

#include <string.h>

static struct fixture f;

static void setup(void)
{
    fixture_init(&f);
}

static void teardown(void)
{
    fixture_free(&f);
}

START_TEST(one_write_one_sync)
{
    f.cfg.segment_min = f.cfg.segment_max = 1 << 16;
    fixture_create(&f);
    struct ll_log_stats before, after;
    ll_log_stats(f.log, &before);
    fault_device_reset_calls(f.fd);
    for (unsigned i = 0; i < 20; i++) {
        put(&f, 100);
        force(&f);
        ck_assert_uint_eq(fault_device_calls(f.fd, FAULT_PWRITEV), i + 1);
        ck_assert_uint_eq(fault_device_calls(f.fd, FAULT_SYNC), i + 1);
        ck_assert_uint_eq(fault_device_calls(f.fd, FAULT_WRITES), 2 * (i + 1));
        force(&f); /* nothing to do */
    }
    ll_log_stats(f.log, &after);
    ck_assert_uint_eq(after.groups - before.groups, 20);
    ck_assert_uint_eq(after.syncs - before.syncs, 20);
    ck_assert_uint_eq(after.writes - before.writes, 20);
    ck_assert_uint_eq(after.records, 40); /* 20 records and a seal for each group */
    ck_assert_uint_eq(after.bytes, ll_log_tail(f.log).v - 8);
    ck_assert_uint_eq(after.bytes_written, after.bytes);
}
END_TEST

/* A group that crosses the end of a block is one write that includes the next header. A group that
 * crosses the end of a segment is written to two files. */
START_TEST(write_across_blocks)
{
    f.cfg.segment_min = 1 << 18;
    f.cfg.segment_max = 1 << 18;
    f.cfg.ring_bytes = 1 << 20;
    fixture_create(&f);
    while (ll_log_tail(f.log).v < 70000)
        put(&f, 1000);
    fault_device_reset_calls(f.fd);
    force(&f);
    ck_assert_uint_eq(fault_device_calls(f.fd, FAULT_PWRITEV), 1);
    ck_assert_uint_eq(fault_device_calls(f.fd, FAULT_SYNC), 1);
    while (ll_log_tail(f.log).v < 300000)
        put(&f, 1000);
    fault_device_reset_calls(f.fd);
    force(&f);
    ck_assert_uint_eq(fault_device_calls(f.fd, FAULT_PWRITEV), 2);
    ck_assert_uint_eq(fault_device_calls(f.fd, FAULT_SYNC), 2);
    check_records(&f, 0, f.count);
}
END_TEST

/* Written records survive the death of the process. Durable records survive a power failure,
 * too. */
START_TEST(written_and_durable)
{
    fixture_create(&f);
    put(&f, 10);
    force(&f);
    lladd_lsn lsn = put(&f, 20);
    must(&f, ll_log_write(f.log, lsn, &f.err));
    ck_assert_uint_gt(ll_log_written(f.log).v, lsn.v);
    ck_assert_uint_le(ll_log_durable(f.log).v, lsn.v);
    put(&f, 30); /* only in memory */
    crash_and_reopen(&f, FAULT_KILL);
    ck_assert_uint_eq(f.count, 2);
    lsn = put(&f, 40);
    must(&f, ll_log_write(f.log, lsn, &f.err));
    crash_and_reopen(&f, FAULT_POWER);
    ck_assert_uint_eq(f.count, 2);
    /* A thread forces a record that was already written. The group of this force writes only a
     * seal. */
    lsn = put(&f, 50);
    must(&f, ll_log_write(f.log, lsn, &f.err));
    force(&f);
    crash_and_reopen(&f, FAULT_POWER);
    ck_assert_uint_eq(f.count, 3);
}
END_TEST

struct forcer {
    struct lladd_thread thread;
    lladd_lsn lsn;
    int rc;
    struct lladd_error err;
};

static void *force_it(void *arg)
{
    struct forcer *w = arg;
    w->rc = ll_log_force(f.log, w->lsn, &w->err);
    return NULL;
}

/* While a group is being synced, another thread writes later records. The sync of the group does
 * not make these durable. With _i 1 the later write fails, and so the group fails, too. */
START_TEST(written_while_it_is_synced)
{
    struct forcer w = {.err = LLADD_ERROR_INIT};
    fixture_create(&f);
    f.env.world.ctx = f.world.world.ctx;
    f.env.world.point = f.world.world.point;
    w.lsn = put(&f, 100);
    test_world_stop_at(&f.world, "log.group.before_sync");
    ck_assert_int_eq(lladd_thread_start(&w.thread, force_it, &w), 0);
    ck_assert(test_world_await(&f.world, "log.group.before_sync", 1));
    lladd_lsn later = put(&f, 200);
    if (_i)
        fault_device_fail(f.fd, 1, FAULT_PWRITEV, EIO, false);
    int rc = ll_log_write(f.log, later, &f.err);
    ck_assert_int_eq(rc, _i ? LLADD_WRITE_FAILED : 0);
    ck_assert_int_eq(ll_log_written(f.log).v > later.v, _i == 0);
    if (!_i) { /* append more than the ring holds */
        for (unsigned i = 0; i < 40; i++)
            put(&f, 1000);
    }
    ck_assert_uint_le(ll_log_durable(f.log).v, w.lsn.v);
    test_world_release(&f.world, "log.group.before_sync");
    lladd_thread_join(&w.thread);
    ck_assert_int_eq(w.rc, _i ? LLADD_WRITE_FAILED : 0);
    ck_assert_int_eq(ll_log_durable(f.log).v > w.lsn.v, _i == 0);
    ck_assert_uint_le(ll_log_durable(f.log).v, later.v);
    ck_assert_int_eq(ll_poisoned(&f.poison), _i != 0);
    if (!_i) {
        force(&f);
        check_records(&f, 0, f.count);
    }
}
END_TEST

/* The ranges for which the device was asked to begin the writeback. */
static struct lladd_device_ops asked_ops;
static unsigned asked;
static uint64_t asked_from, asked_to;

static void note_asked(struct lladd_device *dev, struct lladd_file *file, uint64_t off,
                       uint64_t len)
{
    (void)dev;
    (void)file;
    if (asked == 0)
        asked_from = off;
    else
        ck_assert_uint_eq(off, asked_to); /* each byte is requested once */
    asked_to = off + len;
    asked++;
}

/* A request for writeback costs more than many small writes. So the log makes one request for each
 * mebibyte, whatever the size of the writes. */
START_TEST(writeback_is_requested_once_for_each_mebibyte)
{
    f.cfg.segment_min = f.cfg.segment_max = 8 << 20;
    f.cfg.ring_bytes = 1 << 20;
    asked_ops = *f.cfg.dev->ops;
    asked_ops.start_writeback = note_asked;
    f.cfg.dev->ops = &asked_ops;
    asked = 0;
    fixture_create(&f);
    while (ll_log_tail(f.log).v < (5 << 19))
        must(&f, ll_log_write(f.log, put(&f, 2000), &f.err));
    ck_assert_uint_eq(asked, 2); /* two and a half mebibytes were written */
    ck_assert_uint_lt(asked_from, LL_LOG_BLOCK_HEADER + 16);
    ck_assert_uint_ge(asked_to, 2 << 20);
    ck_assert_uint_lt(asked_to, (2 << 20) + (2 << 17));
    force(&f); /* durable bytes need no writeback */
    uint64_t durable = ll_log_durable(f.log).v;
    asked = 0;
    while (ll_log_tail(f.log).v < durable + (1 << 20))
        must(&f, ll_log_write(f.log, put(&f, 2000), &f.err));
    must(&f, ll_log_write(f.log, put(&f, 2000), &f.err));
    ck_assert_uint_eq(asked, 1);
    ck_assert_uint_ge(asked_from, durable);
}
END_TEST

/* Without a sync by the caller, a relaxed commit becomes durable by the log's thread. In a log
 * without a thread the next force makes it durable. _i 1: the log has a thread. */
START_TEST(a_relaxed_commit_is_synced_by_the_thread_or_the_next_force)
{
    f.env.threads = _i != 0;
    fixture_create(&f);
    lladd_lsn lsn = put(&f, 100);
    ck_assert_int_eq(ll_log_force_soon(f.log), _i != 0);
    while (_i && ll_log_durable(f.log).v <= lsn.v)
        lladd_yield();
    ck_assert_int_eq(ll_log_durable(f.log).v > lsn.v, _i != 0);
    force(&f);
    if (_i) { /* the failure poisons the log, and the next call returns the error */
        fault_device_fail(f.fd, 1, FAULT_SYNC, EIO, true);
        lsn = put(&f, 100);
        ck_assert(ll_log_force_soon(f.log));
        while (ll_log__check(f.log, NULL) == 0)
            lladd_yield();
        must_fail(&f, LLADD_WRITE_FAILED, ll_log_force(f.log, lsn, &f.err));
    }
}
END_TEST

struct seals {
    uint64_t durable; /* end of the last group seen */
    unsigned seals, others;
};

static int on_record(void *ctx, const struct ll_record *rec, struct lladd_error *err)
{
    struct seals *s = ctx;
    (void)err;
    if (rec->kind != LL_REC_SEAL) {
        s->others++;
        return 0;
    }
    ck_assert_uint_gt(s->others, 0); /* no seal is alone in its group */
    ck_assert_uint_eq(rec->redo.len, 8);
    ck_assert_uint_eq(lladd_get64(rec->redo.data), s->durable);
    ck_assert_uint_eq(rec->size, LL_LOG_SEAL_SIZE);
    s->durable = rec->lsn.v + rec->size;
    s->others = 0;
    s->seals++;
    return 0;
}

START_TEST(seals)
{
    struct seals s = {8, 0, 0};
    fixture_create(&f);
    for (unsigned i = 0; i < 100; i++) {
        for (unsigned k = 0; k <= i % 5; k++)
            put(&f, 100);
        force(&f);
        if (i % 7 == 0)
            must(&f, ll_log_force(f.log, lladd_lsn_of(ll_log_tail(f.log).v - 8), &f.err));
    }
    stop(&f);
    f.start.clean = false;
    f.start.segment.v = 0;
    must(&f, ll_log_open(&f.cfg, &f.start, &f.log, &f.err));
    must(&f, ll_log_scan(f.log, on_record, &s, &f.err));
    ck_assert_uint_eq(s.seals, 100);
    ck_assert_uint_eq(s.others, 0);
    ck_assert_uint_eq(s.durable, f.start.end.v);
}
END_TEST

START_TEST(beyond_the_tail)
{
    fixture_create(&f);
    lladd_lsn lsn = put(&f, 5);
    must_fail(&f, LLADD_BAD_ARGUMENT, ll_log_force(f.log, ll_log_tail(f.log), &f.err));
    must_fail(&f, LLADD_BAD_ARGUMENT, ll_log_write(f.log, lladd_lsn_of(UINT64_MAX), &f.err));
    must(&f, ll_log_force(f.log, lsn, &f.err));
}
END_TEST

static void check_poisoned(lladd_lsn durable)
{
    struct ll_credit c = {0};
    struct lladd_error first = f.err;
    bool more;
    ck_assert_int_eq(first.code, LLADD_WRITE_FAILED);
    ck_assert(ll_poisoned(&f.poison));
    fault_device_reset_calls(f.fd);
    for (unsigned again = 0; again < 2; again++) {
        must_fail(&f, LLADD_WRITE_FAILED, ll_log_force(f.log, lladd_lsn_of(8), &f.err));
        ck_assert_str_eq(f.err.message, first.message);
        ck_assert_int_eq(f.err.line, first.line);
        must_fail(&f, LLADD_WRITE_FAILED, ll_log_write(f.log, lladd_lsn_of(8), &f.err));
        must_fail(&f, LLADD_WRITE_FAILED, ll_log_credit(f.log, &c, 50, &f.err));
        must_fail(&f, LLADD_WRITE_FAILED, ll_log_credit_reserved(f.log, &c, 50, &f.err));
        must_fail(&f, LLADD_WRITE_FAILED, ll_log_undo_reserve(f.log, 50, &f.err));
        must_fail(&f, LLADD_WRITE_FAILED, ll_log_maintain(f.log, &more, &f.err));
        must_fail(&f, LLADD_WRITE_FAILED, ll_log_finish(f.log, &f.start.end, &f.err));
    }
    ck_assert_uint_eq(ll_log_durable(f.log).v, durable.v);
    ck_assert(ll_poisoned(&f.poison));
    ck_assert_uint_eq(fault_device_calls(f.fd, FAULT_WRITES), 0); /* no write is tried again */
}

/* _i says what fails. 0: the write; 1: the sync; 2 to 4: a named point before or after the write or
 * the sync. */
START_TEST(poison)
{
    const char *points[] = {"log.group.before_write", "log.group.before_sync",
                            "log.group.after_sync"};
    fixture_create(&f);
    for (unsigned i = 0; i < 5; i++)
        put(&f, 70);
    force(&f);
    lladd_lsn durable = ll_log_durable(f.log);
    lladd_lsn lsn = put(&f, 80);
    int err = _i % 2 ? ENOSPC : EIO; /* ENOSPC poisons the log, too, because the space was
                                      * reserved */
    if (_i == 0)
        fault_device_fail(f.fd, 1, FAULT_PWRITEV, err, false);
    else if (_i == 1)
        fault_device_fail(f.fd, 1, FAULT_SYNC, err, false);
    else
        test_world_fail_at(&f.world, points[_i - 2], 1, err);
    must_fail(&f, LLADD_WRITE_FAILED, ll_log_force(f.log, lsn, &f.err));
    check_poisoned(durable);
    /* A caller that has credit may still append. Its records do not become durable, and no thread
     * hangs. */
    struct ll_record late = {.kind = LL_REC_COMMIT, .page = LLADD_NO_PAGE};
    ck_assert_uint_ge(f.credit.bytes, LL_RECORD_NARROW);
    ll_log_reserve(f.log, &f.credit, &late, false);
    ll_log_publish(f.log, &late);
    ll_log_wait_published(f.log, ll_log_tail(f.log));
    /* After opening again, the durable records are there. */
    f.durable_count = f.count - 1;
    crash_and_reopen(&f, FAULT_POWER);
    ck_assert_uint_ge(f.count, f.durable_count);
    put(&f, 90);
    force(&f);
    check_records(&f, 0, f.count);
}
END_TEST

/* A write fails. A thread that needs ring space gets the error. */
START_TEST(a_thread_that_needs_space_gets_the_error)
{
    lladd_lsn lsn;
    int rc = 0;
    fixture_create(&f);
    put(&f, 10);
    test_world_fail_at(&f.world, "log.group.before_write", 1, EIO);
    for (unsigned i = 0; i < 100 && rc == 0; i++)
        rc = try_put(&f, 1000, &lsn);
    ck_assert_int_eq(rc, LLADD_WRITE_FAILED);
    check_poisoned(lladd_lsn_of(8));
    /* All records are published, so this wait ends. */
    ll_log_wait_published(f.log, ll_log_tail(f.log));
}
END_TEST

/* The log is poisoned outside group commit. The next force has a record to write, and returns that
 * error. */
START_TEST(poison_from_outside_group_commit)
{
    struct lladd_error why = LLADD_ERROR_INIT;
    fixture_create(&f);
    put(&f, 10);
    force(&f);
    put(&f, 10);
    ll_fail(&why, LLADD_BUG, "a test says so");
    ll_log__poison(f.log, &why);
    ll_log__poison(f.log, &why);
    ck_assert(ll_poisoned(&f.poison));
    must_fail(&f, LLADD_BUG, ll_log_force(f.log, f.list[1].rec.lsn, &f.err));
    ck_assert_str_eq(f.err.message, "a test says so");
}
END_TEST

START_TEST(wrong_states)
{
    lladd_lsn end;
    struct ll_log_cursor *c;
    struct ll_record rec;
    fixture_create(&f);
    must(&f, ll_log_start(f.log, &f.err)); /* a new log is ready: nothing to do */
    ck_assert_int_eq(ll_log_cursor_open(f.log, &c), 0);
    must_fail(&f, LLADD_BAD_STATE, ll_log_cursor_next(c, &rec, &f.err));
    ll_log_cursor_close(c);
    ll_log_cursor_close(NULL);
    put(&f, 1);
    force(&f);
    ll_log_close(f.log);
    f.log = NULL;
    must(&f, ll_log_open(&f.cfg, &f.start, &f.log, &f.err));
    must_fail(&f, LLADD_BAD_STATE, ll_log_finish(f.log, &end, &f.err));
    ll_log_close(NULL);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("commit");
    TCase *t = tcase_create("commit");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, one_write_one_sync);
    tcase_add_test(t, write_across_blocks);
    tcase_add_test(t, written_and_durable);
    tcase_add_loop_test(t, written_while_it_is_synced, 0, 2);
    tcase_add_test(t, writeback_is_requested_once_for_each_mebibyte);
    tcase_add_loop_test(t, a_relaxed_commit_is_synced_by_the_thread_or_the_next_force, 0, 2);
    tcase_add_test(t, seals);
    tcase_add_test(t, beyond_the_tail);
    tcase_add_loop_test(t, poison, 0, 5);
    tcase_add_test(t, a_thread_that_needs_space_gets_the_error);
    tcase_add_test(t, poison_from_outside_group_commit);
    tcase_add_test(t, wrong_states);
    suite_add_tcase(s, t);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed == 0 ? 0 : 1;
}
