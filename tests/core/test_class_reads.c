/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An object class that reads the log itself. Recovery does not redo its records. The records that
 * the class needs stay in the log, and the library names the class as the reason. A checkpoint may
 * ask the class to give up records. If the class gives them up, the checkpoint truncates them.
 */
#include "db_fixture.h"

#include <lladd/log_read.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static struct fixture r;
static lladd_pageno page;

static struct cell at(unsigned i)
{
    return cell_of(page, i);
}

struct diary {
    lladd_lsn need; /* the class needs the log from this LSN on */
    const char *why;
    unsigned asked;
    bool digests; /* the class gives up its records as soon as it is asked */
};
static struct diary diary;

static lladd_lsn diary_durable(void *ctx, struct lladd_db *db)
{
    (void)db;
    return ((struct diary *)ctx)->need;
}

static void diary_pins(void *ctx, struct lladd_db *db, char *text, size_t size)
{
    (void)db;
    snprintf(text, size, "%s", ((struct diary *)ctx)->why);
}

static int diary_undo(void *ctx, struct lladd_db *db, struct lladd_txn *txn, lladd_lsn lsn,
                      uint64_t object, struct lladd_span undo)
{
    (void)ctx, (void)db, (void)txn, (void)lsn, (void)object, (void)undo;
    return LLADD_BUG;
}

/* Called in the thread that takes the checkpoint. If the class gives up its records, it runs a
 * transaction. From then on it needs the log only from `below` on. */
static void diary_advance(void *ctx, struct lladd_db *db, lladd_lsn below)
{
    struct diary *d = ctx;
    struct lladd_txn *txn;
    d->asked++;
    if (!d->digests)
        return;
    done(lladd_begin(db, NULL, &txn, NULL));
    ok(txn, cell_put_wide(txn, at(2), 7, 100));
    done(lladd_commit(txn));
    d->need = below;
}

static const struct lladd_object_class diary_class = {
    .struct_size = sizeof diary_class,
    .name = "test.diary",
    .version = 1,
    .ctx = &diary,
    .durable_lsn = diary_durable,
    .advance = diary_advance,
    .pins = diary_pins,
};

static lladd_lsn write_down(const char *text)
{
    struct lladd_txn *txn = fixture_begin(&r);
    struct lladd_token token;
    lladd_lsn lsn = {0};
    struct lladd_span none = {NULL, 0};
    ok(txn, lladd_log_object(txn, &diary_class, 5, lladd_span_of(text, strlen(text)), none, &token,
                             &lsn));
    lladd_object_applied(txn, &token);
    done(lladd_commit(txn));
    return lsn;
}

static void fill_log(void)
{
    for (unsigned i = 0; i < 20; i++) {
        struct lladd_txn *txn = fixture_begin(&r);
        ok(txn, cell_put_wide(txn, at(1), i, 2000));
        done(lladd_commit(txn));
    }
}

static void expect_diary(lladd_lsn lsn, const char *text)
{
    struct lladd_log_cursor *c;
    struct lladd_log_entry e;
    ok_db(&r, lladd_log_open(r.db, lsn, "test.diary", &c, &r.err));
    ok_db(&r, lladd_log_next(c, &e, &r.err));
    ck_assert_uint_eq(e.lsn.v, lsn.v);
    ck_assert_uint_eq(e.redo.len, strlen(text));
    ck_assert_int_eq(memcmp(e.redo.data, text, e.redo.len), 0);
    lladd_log_close(c);
}

START_TEST(a_class_without_redo_holds_the_log_and_reads_it_itself)
{
    struct lladd_pinner who;
    diary = (struct diary){.why = "Monday"};
    fixture_init(&r, (unsigned)_i);
    ok_db(&r, lladd_register_class(&r.options, &diary_class, &r.err));
    fixture_open(&r);
    ck_assert_uint_eq(fixture_stats(&r).log_limit_bytes,
                      r.options.log_limit_bytes ? r.options.log_limit_bytes : 4ull << 30);
    page = fixture_page(&r);
    lladd_lsn monday = write_down("it rains");
    diary.need = monday;
    fill_log();
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    ck_assert_uint_le(fixture_stats(&r).log_oldest, monday.v);
    ck_assert_uint_gt(diary.asked, 0);
    ok_db(&r, lladd_log_pinner(r.db, &who, &r.err));
    ck_assert_str_eq(who.kind, "class");
    ck_assert_str_eq(who.name, "test.diary Monday");
    ck_assert_uint_eq(who.lsn.v, monday.v);
    fixture_crash(&r, &fault_power);
    fixture_open(&r); /* the class has to redo none of its records again, but keeps them all */
    expect_diary(monday, "it rains");
    /* The class gives up its records when it is asked, so the same checkpoint truncates them. */
    diary.digests = true;
    fill_log();
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    ck_assert_uint_gt(fixture_stats(&r).log_oldest, monday.v);
    /* If the description is empty, the name alone is reported; a long description is cut off. */
    diary = (struct diary){.why = ""};
    ok_db(&r, lladd_log_pinner(r.db, &who, &r.err));
    ck_assert_str_eq(who.name, "test.diary");
    diary.why = "0123456789012345678901234567890123456789012345678901234567890123456789";
    ok_db(&r, lladd_log_pinner(r.db, &who, &r.err));
    ck_assert_uint_eq(strlen(who.name), sizeof who.name - 1);
    diary.need = lladd_lsn_of(UINT64_MAX);
    fixture_free(&r);
}
END_TEST

/* Records that are never undone reserve no log space for undo. */
START_TEST(records_without_undo_reserve_nothing)
{
    diary = (struct diary){.need = {UINT64_MAX}};
    fixture_init(&r, (unsigned)_i);
    ok_db(&r, lladd_register_class(&r.options, &diary_class, &r.err));
    fixture_open(&r);
    page = fixture_page(&r);
    struct lladd_token token;
    struct lladd_span none = {NULL, 0};
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, cell_put_wide(txn, at(1), 1, 100));
    uint64_t before = fixture_stats(&r).undo_reserved;
    for (unsigned i = 0; i < 1000; i++) {
        ok(txn, lladd_log_object(txn, &diary_class, i, lladd_span_of("x", 1), none, &token, NULL));
        lladd_object_applied(txn, &token);
    }
    ck_assert_uint_le(fixture_stats(&r).undo_reserved, before);
    /* After a crash, recovery rolls the transaction back. */
    ok_db(&r, lladd_wait_durable(r.db, lladd_txn_id(txn), &r.err));
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    fixture_expect(&r, at(1), 0);
    fixture_free(&r);
}
END_TEST

/* A reader may begin at the end of the log or after it, where no segment exists yet. It gets
 * LLADD_END. */
START_TEST(a_reader_may_begin_where_the_log_ends)
{
    diary = (struct diary){.need = {UINT64_MAX}};
    fixture_init(&r, (unsigned)_i);
    ok_db(&r, lladd_register_class(&r.options, &diary_class, &r.err));
    r.options.log_segment_min = 4096;
    r.options.log_segment_max = 4096;
    fixture_open(&r);
    page = fixture_page(&r);
    for (unsigned i = 0; i < 12; i++) {
        struct lladd_log_cursor *c;
        struct lladd_log_entry e;
        for (unsigned k = 0; k < 3; k++) {
            uint64_t from = fixture_stats(&r).log_tail + k * 4096ull;
            ok_db(&r, lladd_log_open(r.db, lladd_lsn_of(from), NULL, &c, &r.err));
            ck_assert_int_eq(lladd_log_next(c, &e, &r.err), LLADD_END);
            lladd_log_close(c);
        }
        ok_db(&r, lladd_log_open(r.db, lladd_lsn_of(fixture_stats(&r).log_tail), NULL, &c, &r.err));
        fixture_set(&r, at(3), i);
        ok_db(&r, lladd_log_next(c, &e, &r.err)); /* the log has a new record now */
        lladd_log_close(c);
        fill_log();
        fixture_reopen(&r);
    }
    fixture_free(&r);
}
END_TEST

START_TEST(a_class_without_redo_needs_a_durable_lsn_and_has_no_undo)
{
    struct lladd_object_class c = diary_class;
    fixture_init(&r, (unsigned)_i);
    c.durable_lsn = NULL;
    ck_assert_int_eq(lladd_register_class(&r.options, &c, &r.err), LLADD_BAD_REGISTRATION);
    c = diary_class;
    c.undo = diary_undo;
    ck_assert_int_eq(lladd_register_class(&r.options, &c, &r.err), LLADD_BAD_REGISTRATION);
    c = diary_class;
    c.struct_size = offsetof(struct lladd_object_class, pins) - 1;
    ck_assert_int_eq(lladd_register_class(&r.options, &c, &r.err), LLADD_BAD_REGISTRATION);
    c.struct_size = offsetof(struct lladd_object_class, pins); /* as from an older header */
    ok_db(&r, lladd_register_class(&r.options, &c, &r.err));
    diary = (struct diary){.why = "not to be asked for"};
    fixture_open(&r);
    page = fixture_page(&r);
    struct lladd_pinner who;
    struct lladd_txn *txn = fixture_begin(&r);
    struct lladd_token token;
    struct lladd_span none = {NULL, 0};
    ok(txn, lladd_log_object(txn, &c, 0, lladd_span_of("x", 1), none, &token, NULL));
    lladd_object_applied(txn, &token);
    done(lladd_commit(txn));
    ok_db(&r, lladd_log_pinner(r.db, &who, &r.err));
    ck_assert_str_eq(who.name, "test.diary");
    fixture_free(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("class without redo");
    TCase *tc = tcase_create("all");
#define LOOP(test) tcase_add_loop_test(tc, test, 0, FIXTURE_KINDS)
    LOOP(a_class_without_redo_holds_the_log_and_reads_it_itself);
    LOOP(records_without_undo_reserve_nothing);
    LOOP(a_reader_may_begin_where_the_log_ends);
    LOOP(a_class_without_redo_needs_a_durable_lsn_and_has_no_undo);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
