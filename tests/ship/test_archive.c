/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The archive of the log: what it stores, compared with the log itself, and what it keeps; marks
 * and times; the thread.
 */
#include "archive_rig.h"

#include "support/test_world.h"

#include <errno.h>
#include <lladd/extension.h>
#include <lladd/inspect.h>
#include <lladd/log_read.h>
#include <lladd/sync.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- stored --------------------------------------------------------------------------------- */

static const uint64_t sizes[] = {4096, 1u << 16, 1u << 18};

START_TEST(the_store_gets_the_log)
{
    begin(disk, sizes[_i]);
    keep();
    for (unsigned i = 0; i < 200; i++) {
        ledger_write(&ledger, i % 9 == 0 ? 20000 : i % 7 * 300);
        if (i % 50 == 20)
            OK(lladd_checkpoint(ledger.db, &err));
        if (i % 20 == 11)
            ledger_archive(&ledger);
    }
    ledger_archive(&ledger);
    struct lladd_archive_status s = ledger_status(&ledger);
    ck_assert_uint_eq(s.stored.v, lladd_durable_lsn(ledger.db).v);
    ck_assert_uint_eq(s.unstored_bytes, 0);
    ck_assert_uint_gt(s.objects, 3);
    check_all(true);
    end();
}
END_TEST

/* Pieces of the current segment follow each other, and are deleted when the whole segment is
 * stored. */
START_TEST(pieces_of_the_current_segment)
{
    struct memory_object *o;
    unsigned pieces = 0;
    begin(disk, 1u << 18);
    keep();
    uint64_t first = lladd_log_hold_raise(hold, lladd_lsn_of(0)).v, at = first;
    ledger_archive(&ledger);
    for (unsigned i = 0; i < 5; i++) {
        ledger_write(&ledger, 5000);
        ledger_archive(&ledger);
    }
    while ((o = object(".%016llx-", at)) != NULL) {
        pieces++;
        at = strtoull(strrchr(o->name, '-') + 1, NULL, 16);
    }
    ck_assert_uint_gt(pieces, 4);
    ck_assert_uint_eq(at, lladd_durable_lsn(ledger.db).v);
    for (unsigned i = 0; i < 40; i++)
        ledger_write(&ledger, 20000);
    ledger_archive(&ledger);
    ck_assert_ptr_null(object(".%016llx-", first));
    check_all(true);
    end();
}
END_TEST

/* Runs end with a close or a kill, and with or without stored pieces. The next run continues the
 * archive. Where a crash has cut the log, the next segment in the store has a cut. */
START_TEST(the_archive_goes_on_after_crashes)
{
    for (unsigned run = 0; run < 12; run++) {
        begin(disk, sizes[_i]);
        if (run % 4)
            ledger_archive(&ledger);
        for (unsigned i = 0; i < 10 + run; i++) {
            ledger_write(&ledger, 3000 + i * 100);
            if (run % 3 && i % 4 == 0)
                ledger_archive(&ledger);
        }
        if (run % 2)
            ledger_close(&ledger);
        else
            ledger_kill(&ledger);
    }
    begin(disk, sizes[_i]);
    ledger_archive(&ledger);
    check_all(false);
    struct archived a = read_archive();
    unsigned cuts = 0;
    for (size_t i = 0; i < a.n; i++)
        cuts += a.ix[i].cut.v < a.ix[i].first.v;
    ck_assert_uint_gt(cuts, 3);
    free_archive(&a);
    ledger_close(&ledger);
}
END_TEST

static int whole_log(void *ctx, const struct lladd_finding *f)
{
    (void)ctx;
    ck_abort_msg("%s: %s", f->file, f->message);
    return 0;
}

/* After a crash the archive goes on in the segment that begins after the gap. While its pin is at
 * the start of the gap, the log is truncated up to the end of the gap. The log is whole then. */
START_TEST(the_log_is_whole_after_each_step)
{
    struct lladd_options options = LLADD_OPTIONS_INIT;
    struct lladd_inspect *view;
    bool more;
    begin(disk, sizes[_i]);
    for (unsigned i = 0; i < 10; i++)
        ledger_write(&ledger, 3000);
    ledger_kill(&ledger);
    options.device = disk;
    for (unsigned step = 0; step < 20; step++) {
        begin(disk, sizes[_i]);
        OK(lladd_archive_step(ledger.archive, &more, &err));
        OK(lladd_checkpoint(ledger.db, &err));
        for (unsigned i = 0; i < 3; i++) /* reuses files of truncated segments */
            ledger_write(&ledger, 3000);
        OK(lladd_checkpoint(ledger.db, &err));
        ledger_close(&ledger);
        OK(lladd_inspect_open(NULL, &options, &view, &err));
        OK(lladd_inspect_verify(view, whole_log, NULL, NULL, &err));
        lladd_inspect_close(view);
    }
}
END_TEST

/* Log that is stored is recycled; log that is not stored is kept, also while the database is open
 * without the archive. */
START_TEST(log_is_kept_until_it_is_stored)
{
    struct lladd_pinner who;
    struct lladd_options plain = LLADD_OPTIONS_INIT;
    struct lladd_db *db;
    lladd_lsn needed;
    begin(disk, 1u << 16);
    ledger_archive(&ledger);
    for (unsigned i = 0; i < 50; i++)
        ledger_write(&ledger, 10000);
    uint64_t kept = ledger_status(&ledger).kept.v;
    OK(lladd_checkpoint(ledger.db, &err));
    OK(lladd_log_pinner(ledger.db, &who, &err));
    ck_assert_str_eq(who.kind, "pin");
    ck_assert_str_eq(who.name, "lladd.archive.0");
    ck_assert_uint_eq(who.lsn.v, kept);
    ledger_close(&ledger);
    plain.device = disk;
    plain.flags = LLADD_OPT_NO_THREADS;
    OK(lladd_open(NULL, &plain, &db, &err));
    OK(lladd_checkpoint(db, &err));
    OK(lladd_log_needed(db, &needed, &err));
    ck_assert_uint_eq(needed.v, kept);
    ck_assert_int_eq(lladd_close(db), 0);
    begin(disk, 1u << 16);
    ledger_archive(&ledger);
    OK(lladd_checkpoint(ledger.db, &err));
    OK(lladd_log_needed(ledger.db, &needed, &err));
    ck_assert_uint_gt(needed.v, kept + 300000);
    check_all(false);
    ledger_close(&ledger);
}
END_TEST

/* A transaction with pages written in bulk is named in the index of the segment with its commit. */
START_TEST(bulk_writers_are_named)
{
    unsigned named = 0;
    begin(disk, 1u << 14);
    keep();
    for (unsigned i = 0; i < 30; i++) {
        ledger_write(&ledger, 3000);
        if (i % 3 == 0)
            ledger_bulk(&ledger);
    }
    for (unsigned i = 0; i < 5; i++)
        ledger_write(&ledger, 5000);
    ledger_archive(&ledger);
    struct archived a = read_archive();
    for (size_t i = 0; i < a.n; i++)
        named += (unsigned)(a.ix[i].bulk.len / sizeof(struct ll_ship_index_bulk));
    ck_assert_uint_eq(named, 10);
    ck_assert_uint_eq(a.ix[a.n - 1].open.len, 0);
    free_archive(&a);
    check_all(true);
    end();
}
END_TEST

/* ---- marks ---------------------------------------------------------------------------------- */

/* Checks each time mark: all commits below its `end` were made at its time or before, and all
 * commits that were made before the time of the previous mark are below. */
START_TEST(marks_and_times)
{
    enum { COMMITS = 300 };
    static uint64_t lsn[COMMITS];
    static int64_t time[COMMITS];
    struct test_world world;
    lladd_lsn named;
    unsigned times = 0;
    bool found = false;
    test_world_init(&world, 7);
    ledger.archive_options = (struct lladd_archive_options)LLADD_ARCHIVE_OPTIONS_INIT;
    ledger.archive_options.world = &world.world;
    begin(disk, 1u << 14);
    keep();
    for (unsigned i = 0; i < COMMITS; i++) {
        bool more;
        ledger_write(&ledger, 500);
        lsn[i] = lladd_durable_lsn(ledger.db).v;
        time[i] = world.world.wall_us(world.world.ctx);
        test_world_advance(&world, 70000000); /* 70 ms */
        if (i % 3 == 0)
            OK(lladd_archive_step(ledger.archive, &more, &err));
        if (i == 100)
            OK(lladd_archive_mark(ledger.archive, "before-the-sale", &named, &err));
    }
    ck_assert_int_eq(lladd_archive_mark(ledger.archive, "before-the-sale", NULL, &err),
                     LLADD_EXISTS);
    static const char *const bad[] = {"", "a/b", ".x", "a b",
                                      ("01234567890123456789012345678901234567890123456789"
                                       "0123456789abcde")};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_int_eq(lladd_archive_mark(ledger.archive, bad[i], NULL, &err),
                         LLADD_BAD_ARGUMENT);
    ledger_archive(&ledger);
    for (unsigned i = 0; i < 5; i++)
        ledger_write(&ledger, 9000);
    ledger_archive(&ledger);
    struct archived a = read_archive();
    int64_t before = 0;
    for (size_t i = 0; i < a.n; i++) {
        const struct ll_ship_mark *m = (const void *)a.ix[i].marks.data;
        for (size_t k = 0; k < a.ix[i].marks.len / sizeof *m; k++) {
            if (m[k].name[0]) {
                ck_assert_str_eq(m[k].name, "before-the-sale");
                ck_assert_uint_eq(m[k].lsn.v, named.v);
                found = true;
                continue;
            }
            ck_assert_int_gt(m[k].time_us, before);
            for (unsigned c = 0; c < COMMITS; c++) {
                if (time[c] > m[k].time_us)
                    ck_assert_uint_gt(lsn[c], m[k].end.v);
                if (time[c] < before)
                    ck_assert_uint_le(lsn[c], m[k].end.v);
            }
            before = m[k].time_us;
            times++;
        }
    }
    ck_assert(found);
    ck_assert_uint_gt(named.v, lsn[100]);
    ck_assert_uint_lt(named.v, lsn[101]);
    ck_assert_uint_ge(times, COMMITS * 70 / 1000 / 2);
    ck_assert_ptr_nonnull(memory_store_find(&store, "t00000000/mark/before-the-sale"));
    free_archive(&a);
    check_all(true);
    end();
    test_world_free(&world);
}
END_TEST

/* ---- detached, refused ---------------------------------------------------------------------- */

START_TEST(a_detached_archive_keeps_nothing)
{
    struct lladd_pinner who;
    bool more;
    ledger_init(&ledger, disk, &store.base, 1u << 14);
    ledger.options.log_ring_bytes = 1u << 17;
    ledger.options.log_limit_bytes = 1u << 20; /* so that recycled segments are used again */
    ledger_open(&ledger);
    for (unsigned i = 0; i < 20; i++)
        ledger_write(&ledger, 3000);
    ledger_archive(&ledger);
    for (unsigned i = 0; i < 20; i++)
        ledger_write(&ledger, 3000);
    OK(lladd_archive_detach(ledger.archive, &err));
    ck_assert(!ledger_status(&ledger).attached);
    ck_assert_int_eq(lladd_archive_step(ledger.archive, &more, &err), LLADD_BAD_STATE);
    ck_assert_int_eq(lladd_archive_detach(ledger.archive, &err), LLADD_BAD_STATE);
    ck_assert_int_eq(lladd_archive_mark(ledger.archive, "m", NULL, &err), LLADD_BAD_STATE);
    for (unsigned i = 0; i < 300; i++)
        ledger_write(&ledger, 10000);
    OK(lladd_checkpoint(ledger.db, &err));
    OK(lladd_log_pinner(ledger.db, &who, &err));
    ck_assert_str_ne(who.kind, "pin");
    ck_assert_str_ne(who.kind, "hold");
    ledger_close(&ledger);
    /* The database is archived again: the archive has a gap. */
    begin(disk, 1u << 14);
    for (unsigned i = 0; i < 20; i++)
        ledger_write(&ledger, 3000);
    ledger_archive(&ledger);
    struct archived a = read_archive();
    ck_assert(ledger_status(&ledger).gap);
    check_remade(&a);
    free_archive(&a);
    ledger_close(&ledger);
}
END_TEST

START_TEST(wrong_calls_are_refused)
{
    struct ledger other = {.n = 0};
    struct lladd_archive *archive;
    bool more;
    begin(disk, 1u << 14);
    ledger_archive(&ledger);
    ck_assert_int_eq(lladd_ship_register(NULL, &store.base, NULL, &archive, &err),
                     LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(lladd_ship_register(&ledger.options, &store.base, NULL, &archive, &err),
                     LLADD_BAD_REGISTRATION);
    ck_assert_int_eq(lladd_archive_step(NULL, &more, &err), LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(lladd_archive_status_get(NULL, NULL, &err), LLADD_BAD_ARGUMENT);
    /* The store is of another database. */
    ledger_init(&other, copy, &store.base, 1u << 14);
    ck_assert_int_eq(lladd_archive_step(other.archive, &more, &err), LLADD_BAD_STATE);
    ledger_open(&other);
    ck_assert_int_eq(lladd_archive_step(other.archive, &more, &err), LLADD_OTHER_DATABASE);
    ledger_close(&other);
    ledger_close(&ledger);
    /* An archive with a thread, in a handle without threads. */
    ledger.archive_options = (struct lladd_archive_options)LLADD_ARCHIVE_OPTIONS_INIT;
    ledger.archive_options.thread = true;
    ledger_init(&ledger, disk, &store.base, 1u << 14);
    ledger.options.flags = LLADD_OPT_NO_THREADS;
    ck_assert_int_eq(lladd_open(NULL, &ledger.options, &ledger.db, &err), LLADD_BAD_ARGUMENT);
    lladd_options_release(&ledger.options);
    lladd_archive_free(ledger.archive);
}
END_TEST

/* ---- a thread ------------------------------------------------------------------------------- */

/* The thread stores the log while transactions commit, and is joined by the close. */
START_TEST(a_thread_archives)
{
    ledger.archive_options = (struct lladd_archive_options)LLADD_ARCHIVE_OPTIONS_INIT;
    ledger.archive_options.thread = true;
    ledger.archive_options.piece_ns = ledger.archive_options.mark_ns = 1000000;
    for (unsigned run = 0; run < 3; run++) {
        begin(disk, 1u << 16);
        for (unsigned i = 0; i < 100; i++) {
            ledger_write(&ledger, 3000);
            if (i % 5 == 0)
                ledger_bulk(&ledger);
        }
        uint64_t want = lladd_durable_lsn(ledger.db).v;
        while (ledger_status(&ledger).stored.v < want)
            lladd_yield();
        ck_assert(!ledger_status(&ledger).gap);
        ledger_close(&ledger);
    }
    struct archived a = read_archive();
    check_segments(&a);
    check_remade(&a);
    ck_assert_uint_gt(a.n, 10);
    free_archive(&a);
}
END_TEST

static uint32_t looked, enough;

static void *look(void *arg)
{
    (void)arg;
    while (!lladd_atomic_load32(&enough)) {
        (void)ledger_status(&ledger);
        lladd_atomic_add32(&looked, 1);
    }
    return NULL;
}

/* A thread asks for the status while the database is closed. */
START_TEST(the_status_can_be_had_during_a_close)
{
    for (unsigned run = 0; run < 10; run++) {
        struct lladd_thread thread = {0};
        looked = enough = 0;
        begin(disk, 1u << 16);
        ledger_bulk(&ledger);
        ck_assert_int_eq(lladd_thread_start(&thread, look, NULL), 0);
        while (lladd_atomic_load32(&looked) == 0)
            lladd_yield();
        OK(lladd_close(ledger.db));
        uint32_t then = lladd_atomic_load32(&looked);
        while (lladd_atomic_load32(&looked) - then < 2)
            lladd_yield();
        ck_assert(!ledger_status(&ledger).attached);
        lladd_atomic_store32(&enough, 1);
        lladd_thread_join(&thread);
        lladd_options_release(&ledger.options);
        lladd_archive_free(ledger.archive);
        ledger.db = NULL;
        ledger.archive = NULL;
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("archive");
    TCase *tc = tcase_create("all"), *threads = tcase_create("threads");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_checked_fixture(threads, setup, teardown);
    tcase_add_loop_test(tc, the_store_gets_the_log, 0, 3);
    tcase_add_test(tc, pieces_of_the_current_segment);
    tcase_add_loop_test(tc, the_log_is_whole_after_each_step, 0, 3);
    tcase_add_loop_test(tc, the_archive_goes_on_after_crashes, 0, 3);
    tcase_add_test(tc, log_is_kept_until_it_is_stored);
    tcase_add_test(tc, bulk_writers_are_named);
    tcase_add_test(tc, marks_and_times);
    tcase_add_test(tc, a_detached_archive_keeps_nothing);
    tcase_add_test(tc, wrong_calls_are_refused);
    tcase_add_test(threads, a_thread_archives);
    tcase_add_test(threads, the_status_can_be_had_during_a_close);
    suite_add_tcase(s, tc);
    suite_add_tcase(s, threads);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
