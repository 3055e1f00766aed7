/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The first segments of the log are missing. A checkpoint that is due leaves the start of redo
 * segments before the records with which analysis begins. So files can be missing that redo needs
 * and analysis does not: open refuses, names the first file that is left, and changes nothing;
 * verification reports the same. Files that nothing needs may be missing. An object class may need
 * log below the start of redo. If the header of a file cannot be read, the same opens are refused,
 * but the file counts as there, because a later read may succeed.
 */
#include "db_fixture.h"

#include <lladd/inspect.h>
#include <lladd/log_read.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGES = 16, SEGMENT = 8192, LOG_MOST = 64 };

struct segment {
    char name[40];
    unsigned char *bytes;
    size_t len;
    uint64_t first;
};

static struct fixture r;
static lladd_pageno pages[PAGES];
static struct segment segments[LOG_MOST]; /* by first LSN */
static size_t n_segments;

/* ---- making the files -------------------------------------------------------------------- */

static void begin_case(unsigned flags)
{
    fixture_init(&r, 0);
    r.options.flags |= flags;
    r.options.log_segment_min = r.options.log_segment_max = SEGMENT;
    r.options.checkpoint_bytes = 4 * SEGMENT;
    fixture_open(&r);
    fixture_pages(&r, pages, PAGES);
}

/* Changes no page, so no page shows that records are missing. */
static void write_log(void)
{
    static const char text[1000];
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, lladd_log_note(txn, "test.note", lladd_span_of(text, sizeof text), NULL));
    done(lladd_commit(txn));
}

/* Writes log until a checkpoint is due, and takes it. */
static void due_checkpoint(void)
{
    uint64_t before = fixture_stats(&r).checkpoints;
    for (unsigned i = 0; fixture_stats(&r).checkpoints == before; i++) {
        write_log();
        ok_db(&r, lladd_maintain(r.db, NULL, &r.err));
        ck_assert_uint_lt(i, 1000);
    }
}

static void set_all(uint64_t value)
{
    for (unsigned i = 0; i < PAGES; i++)
        fixture_set(&r, cell_of(pages[i], 2), value);
}

static void expect_all(uint64_t value)
{
    for (unsigned i = 0; i < PAGES; i++)
        fixture_expect(&r, cell_of(pages[i], 2), value);
}

/* Sets the cells to 1 after a checkpoint that leaves none of their pages dirty. The next checkpoint
 * writes none of them, and redo begins with their records. */
static void set_and_leave_unwritten(void)
{
    due_checkpoint();
    due_checkpoint();
    set_all(1);
    due_checkpoint();
    write_log();
}

static struct lladd_inspect_info look(void)
{
    struct lladd_inspect *view;
    struct lladd_inspect_info info = {.struct_size = sizeof info};
    ok_db(&r, lladd_inspect_open(NULL, &r.options, &view, &r.err));
    ck_assert_int_eq(lladd_inspect_info_get(view, &info), 0);
    lladd_inspect_close(view);
    return info;
}

/* ---- removing files ---------------------------------------------------------------------- */

static int add_segment(void *ctx, const char *name)
{
    struct segment *s = &segments[n_segments];
    (void)ctx;
    if (!strstr(name, ".seg"))
        return 0;
    ck_assert_uint_lt(++n_segments, LOG_MOST);
    snprintf(s->name, sizeof s->name, "log/%s", name);
    s->first = strtoull(name, NULL, 16);
    return 0;
}

static int by_first(const void *a, const void *b)
{
    const struct segment *x = a, *y = b;
    return x->first < y->first ? -1 : x->first > y->first;
}

static void keep_segments(void)
{
    n_segments = 0;
    ck_assert_int_eq(r.base->ops->list(r.base, "log", add_segment, NULL), 0);
    qsort(segments, n_segments, sizeof *segments, by_first);
    for (size_t i = 0; i < n_segments; i++) {
        segments[i].bytes = fixture_file(&r, segments[i].name, &segments[i].len);
        ck_assert_ptr_nonnull(segments[i].bytes);
    }
}

static void forget_segments(void)
{
    for (size_t i = 0; i < n_segments; i++)
        free(segments[i].bytes);
}

static void remove_segments(size_t n)
{
    for (size_t i = 0; i < n; i++)
        ck_assert_int_eq(r.base->ops->unlink(r.base, segments[i].name), 0);
}

static void put_back_segments(size_t n)
{
    for (size_t i = 0; i < n; i++)
        fixture_file_write(&r, segments[i].name, segments[i].bytes, segments[i].len, 0);
}

/* The number of segments that are wholly below the LSN. */
static size_t segments_below(lladd_lsn lsn)
{
    size_t n = 0;
    while (n + 1 < n_segments && segments[n + 1].first <= lsn.v)
        n++;
    return n;
}

/* ---- what must be said ------------------------------------------------------------------- */

struct said {
    bool missing;
    char message[400];
};

static int see_finding(void *ctx, const struct lladd_finding *f)
{
    struct said *s = ctx;
    if (f->kind == LLADD_FINDING_DAMAGE && f->code == LLADD_MISSING_FILE) {
        s->missing = true;
        snprintf(s->message, sizeof s->message, "%s", f->message);
    }
    return 0;
}

static void verify(struct said *s, struct lladd_verified *count)
{
    struct lladd_inspect *view;
    *count = (struct lladd_verified){.struct_size = sizeof *count};
    ok_db(&r, lladd_inspect_open(NULL, &r.options, &view, &r.err));
    ok_db(&r, lladd_inspect_verify(view, see_finding, s, count, &r.err));
    lladd_inspect_close(view);
}

/* The first n segments are missing, and recovery needs at least the last one of them. */
static void expect_refused(size_t n, bool analysis_needs_it)
{
    struct said said = {.missing = false};
    struct lladd_verified count;
    const char *left = segments[n].name;
    int rc = fixture_try_open(&r);
    ck_assert_msg(rc == LLADD_MISSING_FILE, "%zu missing: %d: %s", n, rc, r.err.message);
    ck_contains(r.err.message, left);
    ck_assert_uint_lt(r.err.lsn.v, segments[n].first);
    verify(&said, &count);
    ck_assert_msg(said.missing, "%zu missing, and verification does not say so", n);
    if (!analysis_needs_it) {
        ck_contains(said.message, left);
        ck_assert_uint_eq(count.damage, 1);
    }
}

static void expect_whole(void)
{
    struct said said = {.missing = false};
    struct lladd_verified count;
    verify(&said, &count);
    ck_assert_uint_eq(count.damage, 0);
    fixture_open(&r);
    expect_all(1);
}

/* ---- cases ------------------------------------------------------------------------------- */

/* _i: bit 0 instant recovery, bit 1 atomic pages. */
START_TEST(first_segments_that_redo_needs)
{
    begin_case(_i & 2 ? LLADD_OPT_ATOMIC_PAGES : 0);
    set_and_leave_unwritten();
    fixture_crash(&r, &fault_kill);
    r.options.recovery = _i & 1 ? LLADD_RECOVER_INSTANT : LLADD_RECOVER_FULL;
    keep_segments();
    struct lladd_inspect_info info = look();
    size_t unneeded = segments_below(info.redo), some = segments_below(info.checkpoint);
    ck_assert_uint_ge(some, unneeded + 3);
    ck_assert_uint_gt(n_segments, some + 1);
    for (size_t n = unneeded + 1; n <= some + 1; n++) {
        remove_segments(n);
        expect_refused(n, n > some);
        put_back_segments(n);
    }
    expect_whole();
    fixture_free(&r);
    forget_segments();
}
END_TEST

/* A hold has kept log below the start of redo. */
START_TEST(first_segments_that_nothing_needs)
{
    struct lladd_log_hold *hold;
    begin_case(0);
    ok_db(&r, lladd_log_keep(r.db, "reader", lladd_lsn_of(0), &hold, &r.err));
    set_and_leave_unwritten();
    lladd_log_release(hold);
    fixture_crash(&r, &fault_kill);
    r.options.recovery = _i ? LLADD_RECOVER_INSTANT : LLADD_RECOVER_FULL;
    keep_segments();
    size_t unneeded = segments_below(look().redo);
    ck_assert_uint_ge(unneeded, 3);
    remove_segments(unneeded);
    expect_whole();
    fixture_free(&r);
    forget_segments();
}
END_TEST

/* A clean close has written all pages, so recovery needs no log before the closing checkpoint:
 * neither in the next open nor after a crash of the next run. The closing checkpoint states the
 * same as the one before it, which had left the start of redo segments before the checkpoint. */
START_TEST(first_segments_after_a_clean_close)
{
    begin_case(0);
    r.options.recovery = _i ? LLADD_RECOVER_INSTANT : LLADD_RECOVER_FULL;
    set_all(1);
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    due_checkpoint();
    lladd_lsn oldest = lladd_lsn_of(fixture_stats(&r).log_oldest);
    fixture_close(&r);
    keep_segments();
    struct lladd_inspect_info info = look();
    ck_assert(info.clean);
    size_t some = segments_below(info.checkpoint);
    ck_assert_uint_ge(some, segments_below(oldest) + 3);
    remove_segments(some);
    expect_whole();
    set_all(1);
    fixture_crash(&r, &fault_kill);
    expect_whole();
    fixture_free(&r);
    forget_segments();
}
END_TEST

/* ---- headers that cannot be read ---------------------------------------------------------- */

static void bad_header(size_t i)
{
    fault_device_bad_sector(r.fd, segments[i].name, 40);
}

/* Recovery needs these segments. Nothing is lost: when their headers can be read again, the
 * database opens. */
static void expect_unread(size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        bad_header(i);
        int rc = fixture_try_open(&r);
        ck_assert_msg(rc == LLADD_READ_FAILED, "%zu: %d: %s", i, rc, r.err.message);
        ck_contains(r.err.message, segments[i].name);
        fault_device_bad_sector(r.fd, NULL, 0);
    }
}

/* Returns the result of reading the log from the LSN on. */
static int read_log(uint64_t from)
{
    struct lladd_log_cursor *c;
    struct lladd_log_entry e;
    int rc;
    ok_db(&r, lladd_log_open(r.db, lladd_lsn_of(from), NULL, &c, &r.err));
    while ((rc = lladd_log_next(c, &e, &r.err)) == 0)
        continue;
    lladd_log_close(c);
    return rc;
}

/* A pin keeps log below the start of redo. Returns the LSN of the pin. */
static uint64_t leave_pinned_log(void)
{
    begin_case(0);
    uint64_t first = fixture_stats(&r).log_oldest;
    ok_db(&r, lladd_pin_set(r.db, "reader", lladd_lsn_of(first), &r.err));
    set_and_leave_unwritten();
    fixture_crash(&r, &fault_kill);
    keep_segments();
    return first;
}

START_TEST(headers_that_only_a_pin_needs)
{
    uint64_t first = leave_pinned_log();
    r.options.recovery = _i ? LLADD_RECOVER_INSTANT : LLADD_RECOVER_FULL;
    size_t unneeded = segments_below(look().redo);
    ck_assert_uint_ge(unneeded, 3);
    expect_unread(unneeded, n_segments);
    for (size_t i = 0; i < unneeded; i += 2)
        bad_header(i);
    for (unsigned i = 0; i < 2; i++) {
        fixture_open(&r);
        expect_all(1);
        ck_assert_int_eq(read_log(first), LLADD_READ_FAILED);
        ck_contains(r.err.message, segments[0].name);
        due_checkpoint();
        ck_assert_uint_eq(fixture_stats(&r).log_oldest, first);
        ok_db(&r, lladd_pin_set(r.db, "another", lladd_lsn_of(first), &r.err));
        fixture_crash(&r, &fault_power);
    }
    fault_device_bad_sector(r.fd, NULL, 0);
    fixture_open(&r);
    ck_assert_int_eq(read_log(first), LLADD_END);
    fixture_free(&r);
    forget_segments();
}
END_TEST

/* The log is truncated when the pin is cleared, although its headers cannot be read. */
START_TEST(headers_that_nothing_needs)
{
    uint64_t first = leave_pinned_log();
    for (size_t i = 0; i < segments_below(look().redo); i++)
        bad_header(i);
    fixture_open(&r);
    expect_all(1);
    ok_db(&r, lladd_pin_clear(r.db, "reader", &r.err));
    due_checkpoint();
    ck_assert_uint_gt(fixture_stats(&r).log_oldest, first);
    fixture_maintain(&r);
    fixture_crash(&r, &fault_kill);
    fixture_open(&r);
    expect_all(1);
    ck_assert_uint_gt(fixture_stats(&r).log_oldest, first);
    fixture_free(&r);
    forget_segments();
}
END_TEST

/* A loser has its only record below the start of redo. */
START_TEST(headers_that_a_rollback_needs)
{
    begin_case(0);
    struct lladd_txn *loser = fixture_begin(&r);
    lladd_lsn at = lladd_lsn_of(fixture_stats(&r).log_tail);
    ok(loser, cell_put(loser, cell_of(pages[0], 3), 7));
    set_and_leave_unwritten();
    fixture_crash(&r, &fault_kill);
    keep_segments();
    size_t needed = segments_below(at), some = segments_below(look().redo);
    ck_assert_uint_lt(needed + 1, some);
    expect_unread(needed, needed + 1);
    for (size_t i = 0; i < some; i++)
        if (i != needed)
            bad_header(i);
    fixture_open(&r);
    expect_all(1);
    fixture_expect(&r, cell_of(pages[0], 3), 0);
    fixture_free(&r);
    forget_segments();
}
END_TEST

/* ---- an object class ---------------------------------------------------------------------- */

static struct tally {
    lladd_lsn durable; /* what the class has made durable; survives a restart */
    unsigned redone;
} tally;

static lladd_lsn tally_durable(void *ctx, struct lladd_db *db)
{
    (void)db;
    return ((struct tally *)ctx)->durable;
}

static int tally_redo(void *ctx, struct lladd_db *db, lladd_lsn lsn, uint64_t object,
                      struct lladd_span redo)
{
    (void)db;
    (void)lsn;
    (void)object;
    (void)redo;
    ((struct tally *)ctx)->redone++;
    return 0;
}

static const struct lladd_object_class tally_class = {
    .struct_size = sizeof tally_class,
    .name = "test.tally",
    .version = 1,
    .ctx = &tally,
    .durable_lsn = tally_durable,
    .redo = tally_redo,
};

static void begin_tally(void)
{
    tally = (struct tally){.redone = 0};
    fixture_init(&r, 0);
    r.options.log_segment_min = r.options.log_segment_max = SEGMENT;
    ok_db(&r, lladd_register_class(&r.options, &tally_class, &r.err));
    fixture_open(&r);
    fixture_pages(&r, pages, PAGES);
}

static lladd_lsn count_one(void)
{
    struct lladd_span nothing = lladd_span_of(NULL, 0);
    struct lladd_txn *txn = fixture_begin(&r);
    struct lladd_token token;
    lladd_lsn lsn;
    ok(txn, lladd_log_object(txn, &tally_class, 0, nothing, nothing, &token, &lsn));
    lladd_object_applied(txn, &token);
    done(lladd_commit(txn));
    return lsn;
}

/* Writes some segments of log, takes a checkpoint, and removes the files that are left over. */
static void move_on(void)
{
    for (unsigned i = 0; i < 40; i++)
        write_log();
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    fixture_maintain(&r);
}

static void stop(bool cleanly)
{
    if (cleanly)
        fixture_close(&r);
    else
        fixture_crash(&r, &fault_kill);
    tally.redone = 0;
}

static void expect_redone(unsigned n)
{
    fixture_open(&r);
    ck_assert_uint_eq(tally.redone, n);
}

/* _i: after a clean close, too, object redo needs the log from the durable LSN on. */
START_TEST(first_segments_that_a_class_needs)
{
    begin_tally();
    tally.durable = count_one();
    move_on();
    count_one();
    stop(_i);
    keep_segments();
    struct lladd_inspect_info info = look();
    size_t unneeded = segments_below(tally.durable), some = segments_below(info.redo);
    ck_assert_uint_ge(some, unneeded + 3);
    for (size_t n = unneeded + 1; n <= some; n++) {
        remove_segments(n);
        ck_assert_int_eq(fixture_try_open(&r), LLADD_MISSING_FILE);
        ck_contains(r.err.message, "test.tally");
        ck_contains(r.err.message, segments[n].name);
        ck_assert_uint_eq(tally.redone, 0);
        put_back_segments(n);
    }
    expect_redone(2);
    fixture_free(&r);
    forget_segments();
}
END_TEST

START_TEST(headers_that_a_class_needs)
{
    begin_tally();
    tally.durable = count_one();
    move_on();
    count_one();
    stop(_i);
    keep_segments();
    expect_unread(segments_below(tally.durable), segments_below(look().redo));
    tally.redone = 0;
    expect_redone(2);
    fixture_free(&r);
    forget_segments();
}
END_TEST

/* The durable LSN is older than the log when the class is used for the first time. */
START_TEST(a_class_is_first_used_when_its_log_is_gone)
{
    begin_tally();
    tally.durable = lladd_lsn_of(8);
    move_on();
    move_on();
    ck_assert_uint_gt(fixture_stats(&r).log_oldest, tally.durable.v);
    count_one();
    move_on();
    stop(_i);
    expect_redone(1);
    fixture_free(&r);
}
END_TEST

/* Files of segments that the log has given up are still there, and between them a file is gone.
 * They do not matter to a class that is used for the first time, even if it has made nothing
 * durable. */
START_TEST(files_below_the_log_do_not_matter)
{
    begin_tally();
    tally.durable = lladd_lsn_of(_i & 2 ? 8 : 0);
    for (unsigned i = 0; i < 40; i++)
        write_log();
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    uint64_t oldest = fixture_stats(&r).log_oldest;
    count_one();
    stop(_i & 1);
    keep_segments();
    ck_assert_uint_ge(segments_below(lladd_lsn_of(oldest)), 3);
    ck_assert_int_eq(r.base->ops->unlink(r.base, segments[1].name), 0);
    expect_redone(1);
    lladd_lsn needed;
    ok_db(&r, lladd_log_needed(r.db, &needed, &r.err));
    ck_assert_uint_eq(needed.v, fixture_stats(&r).log_oldest);
    fixture_free(&r);
    forget_segments();
}
END_TEST

/* A program that does not register the class uses the database while the log has no record of the
 * class. Its checkpoints keep no log for the class. */
static void use_without_the_class(void)
{
    begin_tally();
    count_one();
    move_on();
    tally.durable = lladd_lsn_of(fixture_stats(&r).log_tail);
    for (unsigned i = 0; i < 4; i++)
        move_on(); /* the files with the record are used again */
    stop(true);
    lladd_options_release(&r.options);
    ok_db(&r, lladd_register_extension(&r.options, &test_extension, &r.err));
    fixture_open(&r);
    move_on();
    move_on();
    ck_assert_uint_gt(fixture_stats(&r).log_oldest, tally.durable.v);
    stop(true);
    ok_db(&r, lladd_register_class(&r.options, &tally_class, &r.err));
}

START_TEST(a_class_was_not_registered_for_a_while)
{
    use_without_the_class();
    expect_redone(0);
    count_one();
    stop(_i);
    expect_redone(1);
    move_on();
    stop(!_i);
    expect_redone(1);
    fixture_free(&r);
}
END_TEST

/* The same, with an open that lacks memory as late as it can succeed. */
START_TEST(a_class_comes_back_when_memory_is_short)
{
    int rc = LLADD_NO_MEMORY;
    use_without_the_class();
    for (uint64_t n = 1; rc; n++) {
        fault_alloc_fail(&r.mem, n, false);
        rc = fixture_try_open(&r);
        ck_assert(rc == 0 || rc == LLADD_NO_MEMORY);
    }
    fault_alloc_fail(&r.mem, 0, false);
    count_one();
    stop(_i);
    expect_redone(1);
    fixture_free(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("missing log");
    TCase *tc = tcase_create("all");
    tcase_add_loop_test(tc, first_segments_that_redo_needs, 0, 4);
    tcase_add_loop_test(tc, first_segments_that_nothing_needs, 0, 2);
    tcase_add_loop_test(tc, first_segments_after_a_clean_close, 0, 2);
    tcase_add_loop_test(tc, first_segments_that_a_class_needs, 0, 2);
    tcase_add_loop_test(tc, headers_that_only_a_pin_needs, 0, 2);
    tcase_add_test(tc, headers_that_nothing_needs);
    tcase_add_test(tc, headers_that_a_rollback_needs);
    tcase_add_loop_test(tc, headers_that_a_class_needs, 0, 2);
    tcase_add_loop_test(tc, a_class_is_first_used_when_its_log_is_gone, 0, 2);
    tcase_add_loop_test(tc, files_below_the_log_do_not_matter, 0, 4);
    tcase_add_loop_test(tc, a_class_was_not_registered_for_a_while, 0, 2);
    tcase_add_loop_test(tc, a_class_comes_back_when_memory_is_short, 0, 2);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
