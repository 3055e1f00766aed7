/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opening and closing, and what makes them fail:
 * - options out of range;
 * - contradictory registrations;
 * - operations that the log needs and that are not registered (open names them before it changes a
 *   page);
 * - directories that are not databases;
 * - a second opener;
 * - a forked child;
 * - a handle that was closed.
 */
#include "db_fixture.h"
#include "support/fixtures.h"

#include <errno.h>
#include <lladd/log_read.h>
#include <lladd/snapshot.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct fixture r;

/* ---- opening and creating ---------------------------------------------------------------- */

START_TEST(a_new_database_is_empty_and_stays_the_same_one)
{
    unsigned char uuid[16], again[16];
    fixture_init(&r, (unsigned)_i);
    fixture_open(&r);
    ck_assert_uint_eq(lladd_page_size(r.db), 4096);
    ck_assert_uint_ge(lladd_page_count(r.db), 1);
    lladd_db_uuid(r.db, uuid);
    fixture_reopen(&r);
    lladd_db_uuid(r.db, again);
    ck_assert_mem_eq(uuid, again, 16);
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    lladd_db_uuid(r.db, again);
    ck_assert_mem_eq(uuid, again, 16);
    ck_assert_int_eq(lladd_db_error(r.db, &r.err), 0);
    fixture_free(&r);
}
END_TEST

/* Recovery itself handles some errors, such as the torn end of a log, or files that do not exist
 * yet. If the open succeeds, its caller must not see these errors. */
START_TEST(an_open_that_succeeds_leaves_the_error_alone)
{
    struct lladd_error before = LLADD_ERROR_INIT, err;
    lladd_error_set(&before, LLADD_TIMEOUT, "of another call");
    fixture_init(&r, (unsigned)_i);
    for (int round = 0; round < 4; round++) {
        err = before;
        ck_assert_int_eq(lladd_open(r.dir ? r.dir : "db", &r.options, &r.db, &err), 0);
        ck_assert_int_eq(err.code, before.code);
        ck_assert_str_eq(err.message, before.message);
        ck_assert_int_eq(err.line, before.line);
        if (round == 1)
            fixture_close(&r);
        else if (round < 3) {
            fixture_set(&r, (struct cell){fixture_page(&r), 0}, 1);
            fixture_crash(&r, round ? &fault_kill : &fault_power);
        }
    }
    fixture_free(&r);
}
END_TEST

START_TEST(options_say_whether_a_database_must_exist)
{
    fixture_init(&r, (unsigned)_i);
    uint32_t flags = r.options.flags;
    r.options.flags = flags | LLADD_OPT_MUST_EXIST;
    ck_assert_int_eq(fixture_try_open(&r), LLADD_NOT_A_DATABASE);
    r.options.flags = flags | LLADD_OPT_MUST_NOT_EXIST;
    fixture_open(&r);
    fixture_close(&r);
    ck_assert_int_eq(fixture_try_open(&r), LLADD_EXISTS);
    r.options.flags = flags | LLADD_OPT_MUST_EXIST;
    fixture_open(&r);
    fixture_free(&r);
}
END_TEST

START_TEST(a_missing_directory_is_made_or_refused)
{
    fixture_init(&r, FIXTURE_FILES);
    char *sub = temp_dir_path(r.dir, "new"), *deep = temp_dir_path(r.dir, "a/b");
    struct lladd_db *db;
    r.options.flags |= LLADD_OPT_MUST_EXIST;
    ck_assert_int_ne(lladd_open(sub, &r.options, &db, &r.err), 0);
    ck_assert_ptr_null(db);
    ck_contains(r.err.message, "new");
    r.options.flags &= ~(uint32_t)LLADD_OPT_MUST_EXIST;
    ok_db(&r, lladd_open(sub, &r.options, &db, &r.err));
    done(lladd_close(db));
    ck_assert_int_ne(lladd_open(deep, &r.options, &db, &r.err), 0); /* makes only one directory */
    ck_assert_str_ne(r.err.message, "");
    free(sub);
    free(deep);
    fixture_free(&r);
}
END_TEST

START_TEST(page_sizes_from_4_to_64_KiB_work)
{
    for (uint32_t size = 4096; size <= 65536; size *= 2) {
        fixture_init(&r, (unsigned)_i);
        r.options.page_size = size;
        r.options.log_ring_bytes = 32 * (uint64_t)size;
        r.options.cache_bytes = 64 * (uint64_t)size;
        fixture_open(&r);
        ck_assert_uint_eq(lladd_page_size(r.db), size);
        struct cell c = cell_of(fixture_page(&r), 5);
        fixture_set(&r, c, size);
        ok_db(&r, lladd_checkpoint(r.db, &r.err));
        fixture_set(&r, c, size + 1); /* logs a page image */
        fixture_crash(&r, &fault_power);
        r.options.page_size = 0; /* the size with which the database was created */
        fixture_open(&r);
        fixture_expect(&r, c, size + 1);
        fixture_close(&r);
        r.options.page_size = size == 4096 ? 8192 : 4096;
        ck_assert_int_eq(fixture_try_open(&r), LLADD_BAD_ARGUMENT);
        fixture_free(&r);
    }
}
END_TEST

/* The options are about the smallest that open accepts. The database must work with them. */
START_TEST(the_smallest_options_work)
{
    fixture_init(&r, (unsigned)_i & ~(unsigned)FIXTURE_THREADS);
    r.options.log_ring_bytes = 32 * 4096;
    r.options.log_segment_min = r.options.log_segment_max = 4096;
    r.options.cache_bytes = fixture_small_cache((unsigned)_i);
    r.options.checkpoint_bytes = 1;
    fixture_open(&r);
    lladd_pageno pages[20];
    fixture_pages(&r, pages, 20);
    for (unsigned round = 0; round < 10; round++) {
        for (unsigned i = 0; i < 20; i++)
            fixture_set(&r, cell_of(pages[i], round), i + 1);
        fixture_maintain(&r);
    }
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    for (unsigned i = 0; i < 20; i++)
        fixture_expect(&r, cell_of(pages[i], 9), i + 1);
    fixture_free(&r);
}
END_TEST

START_TEST(options_out_of_range_are_refused)
{
    fixture_init(&r, (unsigned)_i);
    struct lladd_options good = r.options;
    struct {
        const char *what;
        struct lladd_options o;
    } bad[] = {{"options", good}, {"page_size", good}, {"page_size", good}, {"page_size", good},
               {"segment", good}, {"segment", good},   {"segment", good},   {"segment", good},
               {"ring", good},    {"ring", good},      {"ring", good},      {"cache", good},
               {"enum", good},    {"enum", good},      {"options", good},   {"flag", good}};
    bad[0].o.struct_size = 3;
    bad[1].o.page_size = 2048;
    bad[2].o.page_size = 5000;
    bad[3].o.page_size = 131072;
    bad[4].o.log_segment_min = 2048;
    bad[5].o.log_segment_min = 5000;
    bad[6].o.log_segment_max = 4096; /* less than log_segment_min */
    bad[7].o.log_segment_max = UINT64_C(1) << 40;
    bad[8].o.log_ring_bytes = 4096;
    bad[9].o.log_ring_bytes = 100000;
    bad[10].o.log_ring_bytes = UINT64_C(1) << 40;
    bad[11].o.cache_bytes = 1000;
    bad[12].o.frames = (enum lladd_frames)7;
    bad[13].o.durability = (enum lladd_durability)9;
    bad[14].o.struct_size = 1u << 20;
    bad[15].o.flags |= 1u << 30;
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        r.options = bad[i].o;
        int rc = fixture_try_open(&r);
        ck_assert_msg(rc == LLADD_BAD_ARGUMENT, "case %u (%s): %d", i, bad[i].what, rc);
        ck_contains(r.err.message, bad[i].what);
    }
    r.options = good;
    ck_assert_int_eq(lladd_open(NULL, NULL, &r.db, &r.err), LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(lladd_open("x", NULL, NULL, &r.err), LLADD_BAD_ARGUMENT);
    fixture_free(&r);
}
END_TEST

/* An allocator that lacks one of its functions is refused. */
START_TEST(an_allocator_that_is_not_whole_is_refused)
{
    fixture_init(&r, 0);
    struct lladd_allocator half = r.mem.mem;
    half.resize = NULL;
    const struct lladd_allocator *whole = r.options.allocator;
    r.options.allocator = &half;
    ck_assert_int_eq(fixture_try_open(&r), LLADD_BAD_ARGUMENT);
    r.options.allocator = whole;
    fixture_open(&r);
    fixture_free(&r);
}
END_TEST

/* ---- what is not a database -------------------------------------------------------------- */

START_TEST(a_directory_with_other_things_is_refused_and_left_alone)
{
    fixture_init(&r, (unsigned)_i);
    fixture_file_write(&r, "letters.txt", "dear", 4, 0);
    ck_assert_int_eq(fixture_try_open(&r), LLADD_NOT_A_DATABASE);
    size_t len;
    unsigned char *bytes = fixture_file(&r, "letters.txt", &len);
    ck_assert_uint_eq(len, 4);
    ck_assert_mem_eq(bytes, "dear", 4);
    free(bytes);
    bytes = fixture_file(&r, "pages", &len);
    ck_assert_ptr_null(bytes);
    fixture_free(&r);
}
END_TEST

START_TEST(a_foreign_control_file_is_refused)
{
    char text[9000];
    memset(text, 'x', sizeof text);
    fixture_init(&r, (unsigned)_i);
    fixture_file_write(&r, "control", text, sizeof text, 0);
    ck_assert_int_eq(fixture_try_open(&r), LLADD_NOT_A_DATABASE);
    fixture_free(&r);
}
END_TEST

START_TEST(a_database_without_its_control_file_is_refused_and_not_made_anew)
{
    fixture_init(&r, (unsigned)_i & FIXTURE_FILES);
    fixture_open(&r);
    fixture_close(&r);
    if (r.dir) {
        char *path = temp_dir_path(r.dir, "control");
        ck_assert_int_eq(unlink(path), 0);
        free(path);
    } else {
        ck_assert_int_eq(r.base->ops->unlink(r.base, "control"), 0);
        fault_device_free(r.fd);
        r.fd = fault_device_new(r.base);
        r.options.device = fault_device_dev(r.fd);
    }
    size_t before, after;
    free(fixture_file(&r, "pages", &before));
    ck_assert_int_eq(fixture_try_open(&r), LLADD_MISSING_FILE);
    ck_contains(r.err.message, "control");
    free(fixture_file(&r, "pages", &after));
    ck_assert_uint_eq(before, after);
    fixture_free(&r);
}
END_TEST

/* Open removes the files of an interrupted creation only if the marker file `creating` exists. */
START_TEST(the_rest_of_an_interrupted_creation_is_swept_away)
{
    fixture_init(&r, (unsigned)_i);
    fixture_open(&r);
    fixture_set(&r, cell_of(fixture_page(&r), 0), 1);
    fixture_close(&r);
    unsigned char zero[8192] = {0};
    fixture_file_write(&r, "control", zero, sizeof zero, 0); /* as if it had not been written yet */
    ck_assert_int_ne(fixture_try_open(&r), 0);
    fixture_file_write(&r, "creating", "", 0, 0);
    /* If open cannot list the log's files, it fails. Otherwise an old file might stay, and be taken
     * for one of the new log. */
    if (r.fd) {
        fault_device_only(r.fd, "log");
        fault_device_fail(r.fd, 1, FAULT_LIST, EIO, false);
        ck_assert_int_eq(fixture_try_open(&r), LLADD_READ_FAILED);
        ck_contains(r.err.message, "list");
        fault_device_only(r.fd, NULL);
    }
    fixture_open(&r);
    ck_assert_uint_eq(fixture_stats(&r).committed, 1); /* the transaction of the creation */
    fixture_set(&r, cell_of(fixture_page(&r), 0), 2);
    fixture_reopen(&r);
    size_t len;
    unsigned char *marker = fixture_file(&r, "creating", &len);
    ck_assert_ptr_null(marker);
    fixture_free(&r);
}
END_TEST

/* ---- registering ------------------------------------------------------------------------- */

static int never(void *ctx, struct lladd_txn *txn, struct lladd_span undo)
{
    (void)ctx;
    (void)txn;
    (void)undo;
    return 0;
}

static void wrong_op(struct lladd_op op, const char *why)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    ck_assert_int_eq(lladd_register_op(&o, &op, &err), LLADD_BAD_REGISTRATION);
    ck_contains(err.message, why);
    lladd_options_release(&o);
}

START_TEST(contradictory_operations_are_refused)
{
    static const struct lladd_field bad_type[] = {{"a", (enum lladd_field_type)77},
                                                  {NULL, LLADD_FIELD_END}};
    static const struct lladd_field rest_first[] = {
        {"a", LLADD_FIELD_REST}, {"b", LLADD_FIELD_U8}, {NULL, LLADD_FIELD_END}};
    char long_name[65];
    memset(long_name, 'n', 64);
    long_name[64] = 0;
    struct lladd_op op = test_put;
    op.struct_size = 8;
    wrong_op(op, "struct_size");
#define WRONG(why, ...) \
    do { \
        op = test_put; \
        __VA_ARGS__; \
        wrong_op(op, why); \
    } while (0)
    WRONG("name has 1 to 63", op.name = NULL);
    WRONG("name has 1 to 63", op.name = "");
    WRONG("name has 1 to 63", op.name = long_name);
    WRONG("consists of", op.name = "Test.Put");
    WRONG("consists of", op.name = "test put");
    WRONG("count from 1", op.version = 0);
    WRONG("undo_kind must be set", op.undo_kind = (enum lladd_undo_kind)0);
    WRONG("undo_kind must be set", op.undo_kind = (enum lladd_undo_kind)4);
    WRONG("PAGE needs undo", op.undo = NULL);
    WRONG("PAGE needs undo", op.redo = NULL);
    WRONG("undo_kind is not PAGE", op.undo_kind = LLADD_UNDO_NONE);
    WRONG("not LOGICAL", op.compensate = never);
    WRONG("needs compensate", op.undo = NULL, op.undo_kind = LLADD_UNDO_LOGICAL);
    WRONG("needs compensate", op.undo = NULL, op.undo_kind = LLADD_UNDO_LOGICAL,
          op.compensate = never); /* but undo_log_max is missing */
    WRONG("redo is missing", op.undo = NULL, op.undo_kind = LLADD_UNDO_NONE, op.redo = NULL);
    WRONG("validate", op.validate = NULL);
    WRONG("formats", op.formats = true);
    WRONG("formats", op.formats = true, op.undo = NULL, op.undo_kind = LLADD_UNDO_NONE,
          op.page_type = NULL);
    WRONG("4 MiB", op.record_max = UINT32_MAX);
    WRONG("field", op.redo_fields = bad_type);
    WRONG("field", op.undo_fields = rest_first);
#undef WRONG
}
END_TEST

START_TEST(wrong_page_types_classes_participants_and_extensions_are_refused)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_page_type type = test_cells;
    struct lladd_object_class cls = {.struct_size = sizeof cls, .name = "c", .version = 1};
    struct lladd_participant part = {.struct_size = sizeof part, .name = "", .version = 1};
    struct lladd_op bad = test_put;
    const struct lladd_op *const ops[] = {&test_add, &bad, NULL};
    struct lladd_extension ext = {.struct_size = sizeof ext, .name = "e", .version = 1, .ops = ops};
    type.struct_size = 0;
    ck_assert_int_eq(lladd_register_page_type(&o, &type, &err), LLADD_BAD_REGISTRATION);
    ck_assert_int_eq(lladd_register_page_type(&o, NULL, &err), LLADD_BAD_REGISTRATION);
    ck_assert_int_eq(lladd_register_class(&o, &cls, &err), LLADD_BAD_REGISTRATION);
    ck_contains(err.message, "redo");
    ck_assert_int_eq(lladd_register_class(&o, NULL, &err), LLADD_BAD_REGISTRATION);
    ck_assert_int_eq(lladd_register_participant(&o, &part, &err), LLADD_BAD_REGISTRATION);
    ck_assert_int_eq(lladd_register_extension(&o, NULL, &err), LLADD_BAD_REGISTRATION);
    bad.version = 0;
    ck_assert_int_eq(lladd_register_extension(&o, &ext, &err), LLADD_BAD_REGISTRATION);
    /* The refused call has registered nothing, so another descriptor may have the name test.add. */
    struct lladd_op other = test_add;
    ck_assert_int_eq(lladd_register_op(&o, &other, &err), 0);
    ck_assert_int_eq(lladd_register_op(NULL, &other, &err), LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(lladd_register_op(&o, NULL, &err), LLADD_BAD_REGISTRATION);
    lladd_options_release(&o);
    lladd_options_release(&o); /* a second call is harmless */
    lladd_options_release(NULL);
}
END_TEST

START_TEST(one_name_has_one_descriptor_and_versions_live_side_by_side)
{
    fixture_init(&r, (unsigned)_i);
    struct lladd_op copy = test_put, newer = test_put;
    ok_db(&r, lladd_register_op(&r.options, &test_put, &r.err)); /* the same descriptor again */
    ck_assert_int_eq(lladd_register_op(&r.options, &copy, &r.err), LLADD_BAD_REGISTRATION);
    ck_contains(r.err.message, "test.put");
    newer.version = 2;
    ok_db(&r, lladd_register_op(&r.options, &newer, &r.err));
    fixture_open(&r);
    lladd_op_id one, two, any;
    ck_assert_int_eq(lladd_op_lookup(r.db, "test.put", 1, &one), 0);
    ck_assert_int_eq(lladd_op_lookup(r.db, "test.put", 2, &two), 0);
    ck_assert_int_eq(lladd_op_lookup(r.db, "test.put", 0, &any), 0);
    ck_assert_uint_ne(one, two);
    ck_assert_int_eq(lladd_op_lookup(r.db, "test.put", 3, &any), LLADD_NOT_FOUND);
    ck_assert_int_eq(lladd_op_lookup(r.db, "test.pu", 1, &any), LLADD_NOT_FOUND);
    fixture_free(&r);
}
END_TEST

/* The application's own registrations must not contradict the built-in ones. */
START_TEST(a_built_in_name_cannot_be_taken)
{
    fixture_init(&r, (unsigned)_i);
    struct lladd_op op = test_put;
    op.name = "lladd.set";
    ok_db(&r, lladd_register_op(&r.options, &op, &r.err));
    ck_assert_int_eq(fixture_try_open(&r), LLADD_BAD_REGISTRATION);
    ck_contains(r.err.message, "lladd.set");
    fixture_free(&r);
}
END_TEST

START_TEST(an_operation_for_a_page_type_that_is_not_registered_is_refused_at_open)
{
    fixture_init(&r, (unsigned)_i);
    struct lladd_op op = test_put;
    op.name = "test.lost";
    op.page_type = "test.nowhere";
    ok_db(&r, lladd_register_op(&r.options, &op, &r.err));
    ck_assert_int_eq(fixture_try_open(&r), LLADD_BAD_REGISTRATION);
    ck_contains(r.err.message, "test.nowhere");
    fixture_free(&r);
}
END_TEST

/* ---- operations that the log needs ------------------------------------------------------- */

/* All bytes of the page file, to check that it was not changed. */
struct before {
    unsigned char *bytes;
    size_t len;
};

static struct before remember(void)
{
    struct before b;
    b.bytes = fixture_file(&r, "pages", &b.len);
    return b;
}

static void expect_untouched(struct before b)
{
    size_t len;
    unsigned char *now = fixture_file(&r, "pages", &len);
    ck_assert_uint_eq(len, b.len);
    ck_assert_mem_eq(now, b.bytes, len);
    free(now);
    free(b.bytes);
}

/* Leaves only test.add, test.cells.format and their page type registered. */
static void forget_most(void)
{
    lladd_options_release(&r.options);
    ok_db(&r, lladd_register_page_type(&r.options, &test_cells, &r.err));
    ok_db(&r, lladd_register_op(&r.options, &test_add, &r.err));
    ok_db(&r, lladd_register_op(&r.options, &test_format, &r.err));
}

static void remember_all(void)
{
    lladd_options_release(&r.options);
    ok_db(&r, lladd_register_extension(&r.options, &test_extension, &r.err));
}

static void expect_missing(const char *name)
{
    struct before b = remember();
    ck_assert_int_eq(fixture_try_open(&r), LLADD_NO_OPERATION);
    ck_contains(r.err.message, name);
    ck_contains(r.err.message, "version 1");
    ck_contains(r.err.message, "not registered");
    ck_assert_uint_ne(r.err.lsn.v, 0);
    expect_untouched(b);
}

START_TEST(a_missing_operation_is_named_before_any_page_is_touched)
{
    fixture_init(&r, (unsigned)_i);
    fixture_open(&r);
    struct cell c = cell_of(fixture_page(&r), 0);
    fixture_set(&r, c, 5);
    fixture_crash(&r, &fault_kill);
    forget_most();
    expect_missing("test.put");
    expect_missing("test.put"); /* the refused open has changed nothing */
    remember_all();
    fixture_open(&r);
    fixture_expect(&r, c, 5);
    fixture_free(&r);
}
END_TEST

/* The record that undo needs is older than all records that analysis and redo read. */
START_TEST(a_missing_operation_of_a_loser_s_older_records_is_named_too)
{
    fixture_init(&r, (unsigned)_i);
    fixture_open(&r);
    struct cell c = cell_of(fixture_page(&r), 0);
    struct lladd_txn *loser = fixture_begin(&r);
    ok(loser, cell_put(loser, c, 5));
    ok(loser, cells_transfer(loser, cell_of(c.page, 1), cell_of(c.page, 2), 1));
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    ok(loser, cell_add(loser, c, 1));
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    fixture_crash(&r, &fault_kill);
    forget_most();
    struct before b = remember();
    ck_assert_int_eq(fixture_try_open(&r), LLADD_NO_OPERATION);
    expect_untouched(b);
    remember_all();
    fixture_open(&r);
    fixture_expect(&r, c, 0);
    fixture_free(&r);
}
END_TEST

START_TEST(a_missing_operation_of_a_prepared_transaction_is_named_too)
{
    fixture_init(&r, (unsigned)_i);
    fixture_open(&r);
    struct cell c = cell_of(fixture_page(&r), 0);
    struct lladd_gid gid = gid_of("g");
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, cell_put(txn, c, 5));
    ok(txn, lladd_prepare(txn, &gid));
    fixture_close(&r); /* after this clean close the transaction is still in doubt */
    forget_most();
    struct before b = remember();
    ck_assert_int_eq(fixture_try_open(&r), LLADD_NO_OPERATION);
    expect_untouched(b);
    remember_all();
    fixture_open(&r);
    ok_db(&r, lladd_in_doubt_claim(r.db, &gid, &txn, &r.err));
    done(lladd_abort(txn));
    fixture_expect(&r, c, 0);
    fixture_free(&r);
}
END_TEST

START_TEST(a_closed_database_opens_without_operations_that_nothing_needs_any_more)
{
    fixture_init(&r, (unsigned)_i);
    fixture_open(&r);
    struct cell c = cell_of(fixture_page(&r), 0);
    fixture_set(&r, c, 5);
    fixture_close(&r);
    forget_most();
    struct lladd_error err = LLADD_ERROR_INIT;
    ok_db(&r, lladd_open(r.dir, &r.options, &r.db, &err));
    fixture_expect(&r, c, 5);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, cell_add(txn, c, 1));
    done(lladd_commit(txn));
    fixture_close(&r);
    remember_all();
    fixture_open(&r);
    fixture_expect(&r, c, 6);
    fixture_set(&r, c, 7);
    fixture_free(&r);
}
END_TEST

/* ---- one at a time ----------------------------------------------------------------------- */

START_TEST(a_second_opener_in_this_process_is_refused)
{
    struct lladd_db *second = NULL;
    fixture_init(&r, (unsigned)_i);
    fixture_open(&r);
    ck_assert_int_eq(lladd_open(r.dir, &r.options, &second, &r.err), LLADD_LOCKED);
    ck_assert_ptr_null(second);
    if (r.dir) {
        char pid[32];
        snprintf(pid, sizeof pid, "%ld", (long)getpid());
        ck_contains(r.err.message, pid);
    }
    fixture_close(&r);
    fixture_open(&r);
    fixture_free(&r);
}
END_TEST

START_TEST(a_second_opener_in_another_process_is_refused_and_told_the_first)
{
    fixture_init(&r, FIXTURE_FILES | (unsigned)_i);
    fixture_open(&r);
    pid_t child = fork();
    if (child == 0) {
        struct lladd_db *second;
        struct lladd_error err = LLADD_ERROR_INIT;
        struct lladd_options o = LLADD_OPTIONS_INIT;
        char pid[32];
        snprintf(pid, sizeof pid, "%ld", (long)getppid());
        int rc = lladd_open(r.dir, &o, &second, &err);
        _exit(rc == LLADD_LOCKED && strstr(err.message, pid) ? 0 : 1);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    fixture_free(&r);
}
END_TEST

/* The child has a copy of the handle, and must not use it. */
START_TEST(a_forked_child_cannot_use_the_handle)
{
    fixture_init(&r, FIXTURE_FILES | (unsigned)_i);
    fixture_open(&r);
    struct cell c = cell_of(fixture_page(&r), 0);
    struct lladd_txn *txn = fixture_begin(&r), *second = fixture_begin(&r),
                     *third = fixture_begin(&r);
    ok(txn, cell_put(txn, c, 1));
    ok(third, cell_put(third, cell_of(c.page, 1), 1));
    pid_t child = fork();
    if (child == 0) {
        struct lladd_error err = LLADD_ERROR_INIT;
        struct lladd_txn *t;
        struct lladd_gid gid = gid_of("g");
        lladd_lsn lsn;
        int wrong = 0;
        wrong |= (lladd_begin(r.db, NULL, &t, &err) != LLADD_FORKED) << 0;
        wrong |= (strlen(err.message) == 0) << 1;
        wrong |= (lladd_checkpoint(r.db, &err) != LLADD_FORKED) << 2;
        wrong |= (lladd_commit(txn) != LLADD_FORKED) << 3;
        wrong |= (lladd_abort(second) != LLADD_FORKED) << 4;
        wrong |= (lladd_commit_async(third, &lsn) != LLADD_FORKED) << 5;
        wrong |= (lladd_prepare(third, &gid) != LLADD_FORKED) << 6;
        wrong |= (lladd_maintain(r.db, NULL, &err) != LLADD_FORKED) << 7;
        if (_i & FIXTURE_THREADS) /* without threads, an update makes no system call, so it does not
                                   * check for a fork */
            wrong |= (cell_put(third, c, 2) != LLADD_FORKED) << 8;
        wrong |= (lladd_close(r.db) != LLADD_FORKED) << 9;
        if (wrong)
            fprintf(stderr, "in the child: 0x%x\n", (unsigned)wrong);
        _exit(wrong ? 1 : 0);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    done(lladd_commit(txn)); /* the parent is not affected */
    done(lladd_abort(second));
    done(lladd_abort(third));
    fixture_expect(&r, c, 1);
    fixture_reopen(&r);
    fixture_expect(&r, c, 1);
    fixture_free(&r);
}
END_TEST

/* ---- after closing ----------------------------------------------------------------------- */

/* An allocator that keeps all memory until the end of the test. The test calls functions with
 * closed handles, and to check a handle, these functions read its memory. */
struct kept {
    struct kept *next;
    size_t size;
    uint64_t bytes[];
};
static struct kept *kept_blocks;
static pthread_mutex_t kept_mutex = PTHREAD_MUTEX_INITIALIZER;

static void *keep_alloc(void *ctx, size_t size)
{
    (void)ctx;
    struct kept *k = malloc(sizeof *k + size);
    if (!k)
        return NULL;
    k->size = size;
    pthread_mutex_lock(&kept_mutex);
    k->next = kept_blocks;
    kept_blocks = k;
    pthread_mutex_unlock(&kept_mutex);
    return k->bytes;
}

static void *keep_resize(void *ctx, void *p, size_t size)
{
    void *to = keep_alloc(ctx, size);
    if (to && p) {
        size_t had = ((struct kept *)(void *)((char *)p - offsetof(struct kept, bytes)))->size;
        memcpy(to, p, had < size ? had : size);
    }
    return to;
}

static void keep_release(void *ctx, void *p)
{
    (void)ctx;
    (void)p;
}

static void keep_no_longer(void)
{
    while (kept_blocks) {
        struct kept *k = kept_blocks;
        kept_blocks = k->next;
        free(k);
    }
}

START_TEST(a_handle_that_was_closed_is_recognised)
{
    static const struct lladd_allocator keeping = {NULL, keep_alloc, keep_resize, keep_release};
    struct lladd_txn *txn, *ended;
    bool more;
    struct lladd_stats s = {.struct_size = sizeof s};
    lladd_lsn lsn = {0};
    fixture_init(&r, (unsigned)_i);
    r.options.allocator = &keeping;
    fixture_open(&r);
    struct cell c = cell_of(fixture_page(&r), 0);
    ended = fixture_begin(&r);
    ok(ended, cell_put(ended, c, 1));
    done(lladd_commit(ended));
    ck_assert_int_eq(lladd_commit(ended), LLADD_CLOSED);
    ck_assert_int_eq(lladd_abort(ended), LLADD_CLOSED);
    ck_assert_int_eq(lladd_update(ended, 0, c.page, NULL, 0), LLADD_CLOSED);
    struct lladd_db *db = r.db;
    fixture_close(&r);
    struct lladd_error err = LLADD_ERROR_INIT;
    ck_assert_int_eq(lladd_begin(db, NULL, &txn, &err), LLADD_CLOSED);
    ck_assert_str_ne(err.message, "");
    ck_assert_int_eq(lladd_checkpoint(db, &err), LLADD_CLOSED);
    ck_assert_int_eq(lladd_maintain(db, &more, &err), LLADD_CLOSED);
    ck_assert_int_eq(lladd_wait_durable(db, lsn, &err), LLADD_CLOSED);
    ck_assert_int_eq(lladd_stats_get(db, &s), LLADD_CLOSED);
    ck_assert_int_eq(lladd_snapshot_acquire(db, &lsn, &err), LLADD_CLOSED);
    ck_assert_int_eq(lladd_pin_set(db, "p", lsn, &err), LLADD_CLOSED);
    ck_assert_int_eq(lladd_close(db), LLADD_CLOSED);
    ck_assert_int_eq(lladd_close(NULL), LLADD_CLOSED);
    lladd_db_kill(db);
    lladd_db_kill(NULL);
    ck_assert_int_eq(lladd_commit(NULL), LLADD_CLOSED);
    ck_assert_int_eq(lladd_abort(NULL), LLADD_CLOSED);
    r.options.allocator = &r.mem.mem;
    lladd_options_release(&r.options);
    if (r.fd) {
        fault_device_free(r.fd);
        lladd_device_close(r.base);
    }
    temp_dir_remove(r.dir);
    test_world_free(&r.world);
    keep_no_longer();
}
END_TEST

/* ---- progress, version, memory ----------------------------------------------------------- */

struct phases {
    unsigned seen[6];
    unsigned last;
};

static void see_phase(void *ctx, enum lladd_phase phase, lladd_lsn at, unsigned percent)
{
    struct phases *p = ctx;
    (void)at;
    ck_assert_uint_le(percent, 100);
    ck_assert_uint_ge((unsigned)phase, p->last); /* phases come in order */
    p->last = (unsigned)phase;
    p->seen[phase]++;
}

START_TEST(recovery_reports_its_progress)
{
    struct phases p = {{0}, 0};
    fixture_init(&r, (unsigned)_i);
    fixture_open(&r);
    lladd_pageno page = fixture_page(&r);
    struct lladd_txn *loser = fixture_begin(&r);
    ok(loser, cell_put(loser, cell_of(page, 1), 1));
    for (unsigned i = 0; i < 3000; i++) {
        struct lladd_txn *txn = fixture_begin(&r);
        ok(txn, cell_add(txn, cell_of(page, 0), 1));
        done(lladd_commit_async(txn, NULL));
    }
    fixture_set(&r, cell_of(page, 2), 1);
    fixture_crash(&r, &fault_power);
    r.options.progress = see_phase;
    r.options.callback_ctx = &p;
    fixture_open(&r);
    ck_assert_uint_gt(p.seen[LLADD_PHASE_ANALYSIS], 1);
    ck_assert_uint_ge(p.seen[LLADD_PHASE_UNDO], 1);
    ck_assert_uint_eq(p.seen[LLADD_PHASE_DONE], 1);
    fixture_expect(&r, cell_of(page, 0), 3000);
    fixture_free(&r);
}
END_TEST

START_TEST(extensions_get_memory_and_time_from_the_handle)
{
    fixture_init(&r, 0);
    fixture_open(&r);
    uint64_t live = fault_alloc_live(&r.mem);
    void *p = lladd_mem_alloc(r.db, 10);
    p = lladd_mem_resize(r.db, p, 1000);
    ck_assert_uint_eq(fault_alloc_live(&r.mem), live + 1);
    lladd_mem_free(r.db, p);
    uint64_t now = lladd_now_ns(r.db);
    test_world_advance(&r.world, 5);
    ck_assert_uint_eq(lladd_now_ns(r.db), now + 5);
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", LLADD_VERSION_MAJOR, LLADD_VERSION_MINOR,
             LLADD_VERSION_PATCH);
    ck_assert_str_eq(lladd_version(), version);
    fixture_free(&r);
}
END_TEST

/* Many databases in one process do not affect each other. */
START_TEST(many_databases_live_in_one_process)
{
    enum { MANY = 200 };
    struct fixture *many = calloc(MANY, sizeof *many);
    struct cell c[MANY];
    for (unsigned i = 0; i < MANY; i++) {
        fixture_init(&many[i], 0);
        many[i].options.cache_bytes = fixture_small_cache(0);
        fixture_open(&many[i]);
        c[i] = cell_of(fixture_page(&many[i]), 0);
    }
    for (unsigned i = 0; i < MANY; i++)
        fixture_set(&many[i], c[i], i + 1);
    for (unsigned i = 0; i < MANY; i++) {
        fixture_expect(&many[i], c[i], i + 1);
        fixture_free(&many[i]);
    }
    free(many);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("open");
    TCase *tc = tcase_create("all");
#define LOOP(test) tcase_add_loop_test(tc, test, 0, FIXTURE_KINDS)
    LOOP(a_new_database_is_empty_and_stays_the_same_one);
    LOOP(an_open_that_succeeds_leaves_the_error_alone);
    LOOP(options_say_whether_a_database_must_exist);
    tcase_add_test(tc, a_missing_directory_is_made_or_refused);
    LOOP(page_sizes_from_4_to_64_KiB_work);
    LOOP(the_smallest_options_work);
    LOOP(options_out_of_range_are_refused);
    tcase_add_test(tc, an_allocator_that_is_not_whole_is_refused);
    LOOP(a_directory_with_other_things_is_refused_and_left_alone);
    LOOP(a_foreign_control_file_is_refused);
    tcase_add_loop_test(tc, a_database_without_its_control_file_is_refused_and_not_made_anew, 0, 2);
    LOOP(the_rest_of_an_interrupted_creation_is_swept_away);
    tcase_add_test(tc, contradictory_operations_are_refused);
    tcase_add_test(tc, wrong_page_types_classes_participants_and_extensions_are_refused);
    LOOP(one_name_has_one_descriptor_and_versions_live_side_by_side);
    LOOP(a_built_in_name_cannot_be_taken);
    LOOP(an_operation_for_a_page_type_that_is_not_registered_is_refused_at_open);
    LOOP(a_missing_operation_is_named_before_any_page_is_touched);
    LOOP(a_missing_operation_of_a_loser_s_older_records_is_named_too);
    LOOP(a_missing_operation_of_a_prepared_transaction_is_named_too);
    LOOP(a_closed_database_opens_without_operations_that_nothing_needs_any_more);
    LOOP(a_second_opener_in_this_process_is_refused);
    tcase_add_loop_test(tc, a_second_opener_in_another_process_is_refused_and_told_the_first, 0,
                        FIXTURE_KINDS);
    tcase_add_loop_test(tc, a_forked_child_cannot_use_the_handle, 0, FIXTURE_KINDS);
    LOOP(a_handle_that_was_closed_is_recognised);
    LOOP(recovery_reports_its_progress);
    tcase_add_test(tc, extensions_get_memory_and_time_from_the_handle);
    tcase_add_test(tc, many_databases_live_in_one_process);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
