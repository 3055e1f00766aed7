/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The switches of <lladd/dst.h>: off, nothing is wrong in any of the situations below; on, what was
 * promised is broken in at least one of them. So each switch does what its line says, and none is
 * without effect. (That a simulator finds them without being told where to look is for the
 * simulator's own tests to show.)
 */
#include "rig.h"

#include <errno.h>
#include <lladd/dst.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGES = 4, WIDE_CELL = 8, DOUBT_CELL = 9, CELLS_USED = 10 };

static struct rig r;
static struct lladd_dst dst;
static unsigned extra_flags; /* of the options */

/* What was promised, and what may or may not have happened when the lights went out. */
static struct world {
    lladd_pageno page[PAGES];
    int64_t sum[PAGES][CELLS_USED];
    int64_t maybe[PAGES][CELLS_USED];
    bool in_flight;
    bool prepare_called, prepared;
    unsigned broken_promises; /* page writes and acknowledgements before their log */
} w;

static void observe(void *ctx, const struct lladd_dst_event *e)
{
    (void)ctx;
    if ((e->what == LLADD_DST_PAGE_WRITE || e->what == LLADD_DST_ACKNOWLEDGE) &&
        e->lsn.v >= e->durable.v)
        w.broken_promises++;
}

/* Committed pages; then the library gets the bug (LLADD_BUGS: none). */
static void begin_case(unsigned bug)
{
    memset(&w, 0, sizeof w);
    rig_init(&r, 0);
    r.options.log_segment_min = 4096;
    r.options.log_segment_max = 4096;
    r.options.checkpoint_bytes = 4096; /* when lladd_maintain is called */
    r.options.flags |= extra_flags;
    rig_open(&r);
    rig_pages(&r, w.page, PAGES);
    memset(&dst, 0, sizeof dst);
    dst.observe = observe;
    dst.planted = bug < LLADD_BUGS ? UINT64_C(1) << bug : 0;
    lladd_dst_enter(&dst);
}

static void end_case(void)
{
    lladd_dst_enter(NULL);
    if (r.db)
        rig_crash(&r, &fault_kill);
    rig_free(&r);
}

/* ---- a life, up to where it ends ------------------------------------------------------------- */

/* Far apart: in sectors of their own, almost. */
static struct cell at(unsigned page, unsigned index)
{
    return cell_of(w.page[page], index * 6);
}

#define TRY(call) \
    do { \
        int try_rc = (call); \
        if (try_rc) \
            return try_rc; \
    } while (0)

static int begin(struct lladd_txn **txn)
{
    return lladd_begin(r.db, NULL, txn, &r.err);
}

static void settle(void)
{
    for (unsigned p = 0; p < PAGES; p++)
        for (unsigned c = 0; c < CELLS_USED; c++)
            w.sum[p][c] += w.maybe[p][c];
    memset(w.maybe, 0, sizeof w.maybe);
    w.in_flight = false;
}

/* Some of it rolled back to a savepoint, some of it in a nested top action. */
static int one_that_commits(void)
{
    struct lladd_txn *txn;
    lladd_savepoint_id savepoint;
    TRY(begin(&txn));
    TRY(cell_add(txn, at(0, 0), 1));
    TRY(lladd_savepoint(txn, &savepoint));
    TRY(cell_add(txn, at(0, 1), 5));
    TRY(cell_put_wide(txn, at(1, WIDE_CELL), 77, 900));
    TRY(lladd_rollback_to(txn, savepoint));
    TRY(cells_transfer(txn, at(1, 0), at(2, 0), 3));
    w.maybe[0][0] = 1;
    w.maybe[1][0] = -3;
    w.maybe[2][0] = 3;
    w.in_flight = true;
    TRY(lladd_commit(txn));
    settle();
    return 0;
}

static int one_that_aborts(void)
{
    struct lladd_txn *txn;
    TRY(begin(&txn));
    TRY(cell_add(txn, at(2, 1), 7));
    TRY(cells_transfer(txn, at(3, 0), at(3, 4), 2));
    return lladd_abort(txn);
}

/* Left open, with a part rolled back: once by page undo, once by a compensation. */
static int one_that_stays_open(void)
{
    struct lladd_txn *txn;
    lladd_savepoint_id savepoint;
    TRY(begin(&txn));
    TRY(cell_add(txn, at(3, 1), 1));
    TRY(lladd_savepoint(txn, &savepoint));
    TRY(cells_transfer(txn, at(3, 2), at(0, 2), 4));
    TRY(cell_add(txn, at(3, 3), 10));
    return lladd_rollback_to(txn, savepoint);
}

static int one_in_doubt(void)
{
    struct lladd_gid gid = gid_of("g");
    struct lladd_txn *txn;
    TRY(begin(&txn));
    TRY(cell_add(txn, at(3, DOUBT_CELL), 1));
    w.prepare_called = true;
    TRY(lladd_prepare(txn, &gid));
    w.prepared = true;
    return 0;
}

static int live(void)
{
    TRY(one_that_commits());
    TRY(lladd_checkpoint(r.db, &r.err));
    TRY(one_that_commits());
    TRY(one_that_aborts());
    TRY(one_that_commits());
    TRY(lladd_checkpoint(r.db, &r.err));
    TRY(one_that_stays_open());
    TRY(one_in_doubt());
    TRY(one_that_commits());
    TRY(lladd_checkpoint(r.db, &r.err));
    TRY(one_that_stays_open());
    for (unsigned i = 0; i < 5; i++) {
        TRY(one_that_commits());
        TRY(one_that_aborts());
    }
    TRY(lladd_checkpoint(r.db, &r.err));
    TRY(one_that_commits());
    return one_that_aborts();
}

/* ---- afterwards ------------------------------------------------------------------------------ */

static int count_doubt(void *ctx, const struct lladd_in_doubt_info *info)
{
    (void)info;
    ++*(unsigned *)ctx;
    return 0;
}

static bool cells_are(bool with_maybe, bool in_doubt)
{
    for (unsigned p = 0; p < PAGES; p++) {
        for (unsigned c = 0; c < CELLS_USED; c++) {
            uint64_t found;
            if (cell_read(r.db, at(p, c), &found, &r.err))
                return false;
            int64_t want = w.sum[p][c] + (with_maybe ? w.maybe[p][c] : 0);
            if (p == 3 && c == DOUBT_CELL)
                want += in_doubt;
            if ((int64_t)found != want)
                return false;
        }
    }
    return true;
}

/* The database says what was promised. What was in flight is decided from then on. */
static bool kept(void)
{
    unsigned doubt = 0;
    if (lladd_in_doubt(r.db, count_doubt, &doubt, &r.err) || doubt > w.prepare_called ||
        doubt < w.prepared || w.broken_promises)
        return false;
    if (cells_are(false, doubt > 0)) {
        memset(w.maybe, 0, sizeof w.maybe);
        w.in_flight = false;
        return true;
    }
    if (!w.in_flight || !cells_are(true, doubt > 0))
        return false;
    settle();
    return true;
}

/* Recovers, and again after a second power failure, and once more when somebody has worked. */
static bool recovers(void)
{
    for (unsigned i = 0; i < 2; i++) {
        if (rig_try_open(&r) || !kept())
            return false;
        if (i == 1 && one_that_commits())
            return false;
        rig_crash(&r, &fault_power);
    }
    return rig_try_open(&r) == 0 && kept();
}

/* ---- situations: true if what was promised was broken ---------------------------------------- */

/* Power is lost, or the process killed, at each call of the device in turn; what was not durable is
 * lost, kept, or partly kept and torn. */
static bool breaks_at_calls(unsigned bug, unsigned n_modes)
{
    static const enum fault_crash_mode modes[] = {FAULT_POWER, FAULT_KILL, FAULT_SUBSET,
                                                  FAULT_SUBSET};
    bool broken = false, ended = false;
    for (uint64_t n = 1; !broken && !ended; n++) {
        for (unsigned m = 0; !broken && m < n_modes; m++) {
            struct fault_crash how = {modes[m], 4 * n + m, modes[m] == FAULT_SUBSET};
            begin_case(bug);
            fault_device_crash_at(r.fd, n);
            int rc = live();
            ended = !fault_device_crashed(r.fd);
            broken = (rc && ended) || w.broken_promises;
            rig_crash(&r, &how);
            broken = broken || !recovers();
            end_case();
        }
    }
    return broken;
}

static bool breaks_at_some_call(unsigned bug)
{
    return breaks_at_calls(bug, 4);
}

/* The same where pages do not tear: no images in the log that would make redo start anew. */
static bool breaks_without_images(unsigned bug)
{
    extra_flags = LLADD_OPT_ATOMIC_PAGES;
    bool broken = breaks_at_calls(bug, 2);
    extra_flags = 0;
    return broken;
}

/* Segments are used again and again for records of the same sizes, so that old ones may stand where
 * new ones are looked for. */
static bool breaks_in_recycled_segments(unsigned bug)
{
    bool broken = false, ended = false;
    for (uint64_t n = 1; !broken && !ended; n++) {
        begin_case(bug);
        fault_device_crash_at(r.fd, n);
        int rc = 0;
        for (unsigned i = 0; i < 300 && !rc; i++) {
            struct lladd_txn *txn;
            rc = begin(&txn);
            if (!rc)
                rc = cell_add(txn, at(0, 0), 1);
            w.maybe[0][0] = 1;
            w.in_flight = true;
            if (!rc && (rc = lladd_commit(txn)) == 0)
                settle();
            if (!rc && i % 50 == 49)
                rc = lladd_checkpoint(r.db, &r.err);
        }
        ended = !fault_device_crashed(r.fd);
        rig_crash(&r, &fault_power);
        broken = !recovers();
        end_case();
    }
    return broken;
}

/* A sync fails, and the bytes it should have made durable never will be. */
static bool breaks_when_a_sync_fails(unsigned bug)
{
    bool broken = false;
    for (unsigned pages = 0; pages < 2; pages++) {
        for (uint64_t n = 1, fired = 1; fired && !broken; n++) {
            begin_case(bug);
            fault_device_only(r.fd, pages ? "pages" : "log");
            fault_device_fail(r.fd, n, FAULT_SYNC, EIO, false);
            (void)live();
            fired = fault_device_fired(r.fd);
            fault_device_fail(r.fd, 0, FAULT_SYNC, EIO, false);
            rig_crash(&r, &fault_power);
            broken = !recovers();
            end_case();
        }
    }
    return broken;
}

/* One page of the file is damaged: it is rebuilt, or that is said. */
static bool breaks_when_a_page_rots(unsigned bug)
{
    unsigned char byte = 0x5a;
    uint64_t found = 0;
    begin_case(bug);
    rig_set(&r, at(0, 0), 0x1111111111111111);
    rig_close(&r);
    rig_file_write(&r, "pages", &byte, 1, w.page[0].v * 4096 + LLADD_PAGE_HEADER + 1);
    bool broken = rig_try_open(&r) == 0 && cell_read(r.db, at(0, 0), &found, &r.err) == 0 &&
                  found != 0x1111111111111111;
    end_case();
    return broken;
}

/* The log is damaged before its end, in what had been durable for long: that is said. */
static bool breaks_when_the_log_rots(unsigned bug)
{
    static const unsigned char zeros[512];
    begin_case(bug);
    for (unsigned i = 0; i < 20; i++)
        rig_set(&r, at(0, 0), i);
    char name[32];
    (void)snprintf(name, sizeof name, "log/%016llx.seg",
                   (unsigned long long)lladd_durable_lsn(r.db).v);
    struct lladd_stats stats = rig_stats(&r);
    rig_crash(&r, &fault_power);
    /* The segment of the checkpoint, somewhat behind it. */
    size_t len = 0;
    uint64_t first = 0;
    unsigned char *bytes = NULL;
    for (uint64_t lsn = stats.checkpoint_lsn; lsn > 0 && !bytes; lsn--) {
        (void)snprintf(name, sizeof name, "log/%016llx.seg", (unsigned long long)lsn);
        bytes = rig_file(&r, name, &len);
        first = lsn;
    }
    ck_assert_ptr_nonnull(bytes);
    free(bytes);
    rig_file_write(&r, name, zeros, sizeof zeros, (stats.log_durable - first) / 2 / 512 * 512);
    bool broken = rig_try_open(&r) == 0 && cell_get(r.db, at(0, 0)) != 19;
    end_case();
    return broken;
}

/* A page that a transaction has freed belongs to it until it has committed. */
static bool breaks_when_a_page_is_freed(unsigned bug)
{
    begin_case(bug);
    struct lladd_txn *frees, *takes;
    lladd_pageno got;
    bool broken = false;
    ok_db(&r, begin(&frees));
    ok_db(&r, begin(&takes));
    ok(frees, lladd_page_free(frees, w.page[1]));
    for (unsigned i = 0; i < 8 && !broken; i++) {
        ok(takes, lladd_page_alloc(takes, &got));
        broken = got.v == w.page[1].v;
    }
    end_case();
    return broken;
}

/* Raw bytes in place of pages that were changed shortly before. */
static bool breaks_when_written_in_bulk_and(unsigned bug, bool checkpoint)
{
    static unsigned char bytes[4096], found[4096];
    memset(bytes, 0xc3, sizeof bytes);
    begin_case(bug);
    struct lladd_txn *txn;
    lladd_pageno first = w.page[1];
    ok_db(&r, begin(&txn));
    ok(txn, cells_format(txn, first));
    ok(txn, cell_add(txn, cell_of(first, 0), 1));
    done(lladd_commit(txn));
    ok_db(&r, begin(&txn));
    ok(txn, lladd_fence(txn, first, 1));
    ok(txn, lladd_bulk_write(txn, first, 1, NULL, bytes));
    ok(txn, lladd_bulk_sync(txn));
    done(lladd_commit(txn));
    for (unsigned i = 0; i < 60 && checkpoint; i++)
        rig_set(&r, at(0, 0), i);
    if (checkpoint) { /* redo starts before the fence all the same */
        rig_maintain(&r);
        ck_assert_uint_eq(rig_stats(&r).checkpoints, 2);
    }
    rig_crash(&r, &fault_power);
    bool broken = rig_try_open(&r) != 0 ||
                  lladd_bulk_read(r.db, first, 1, true, found, &r.err) != 0 ||
                  memcmp(bytes, found, sizeof bytes) != 0;
    end_case();
    return broken;
}

static bool breaks_when_written_in_bulk(unsigned bug)
{
    return breaks_when_written_in_bulk_and(bug, false) ||
           breaks_when_written_in_bulk_and(bug, true);
}

/* ---- which of them shows which --------------------------------------------------------------- */

static bool (*const situations[])(unsigned bug) = {
    breaks_when_a_page_is_freed, breaks_when_a_page_rots,    breaks_when_the_log_rots,
    breaks_when_written_in_bulk, breaks_when_a_sync_fails,   breaks_at_some_call,
    breaks_without_images,       breaks_in_recycled_segments};

enum { SITUATIONS = sizeof situations / sizeof situations[0] };

static const char *const names[] = {
#define NAME(id, text, oracle, what) text,
    LLADD_BUG_LIST(NAME)
#undef NAME
};

START_TEST(bugs_have_names_of_their_own)
{
    ck_assert_uint_le(LLADD_BUGS, 64); /* bits of lladd_dst.planted */
    for (unsigned i = 0; i < LLADD_BUGS; i++)
        for (unsigned k = 0; k < i; k++)
            ck_assert_str_ne(names[i], names[k]);
}
END_TEST

START_TEST(nothing_breaks_without_a_bug)
{
    ck_assert(!situations[_i](LLADD_BUGS));
}
END_TEST

START_TEST(each_bug_breaks_something)
{
    /* These take two threads: test_interleave.c. */
    bool broken = _i == LLADD_BUG_WAKE || _i == LLADD_BUG_GROUP_LATE || _i == LLADD_BUG_UNDO_LATE ||
                  _i == LLADD_BUG_IN_FLIGHT;
    for (unsigned i = 0; i < SITUATIONS && !broken; i++)
        broken = situations[i]((unsigned)_i);
    ck_assert_msg(broken, "\"%s\" makes no difference", names[_i]);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("planted");
    TCase *t = tcase_create("planted");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, bugs_have_names_of_their_own);
    tcase_add_loop_test(t, nothing_breaks_without_a_bug, 0, SITUATIONS);
    tcase_add_loop_test(t, each_bug_breaks_something, 0, LLADD_BUGS);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
