/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checks that docs/disk-format.md is true and complete. reader.py was written from that page alone.
 * Here reader.py reads databases with everything that the library can write, and must find all of
 * it.
 *
 * If the page omits a field, or puts it in another place than the library does, the reader stops
 * with an error. The last test shows that the reader does so.
 */
#include "support/fixtures.h"

#include <check.h>
#include <fcntl.h>
#include <lladd/bulk.h>
#include <lladd/extension.h>
#include <lladd/lladd.h>
#include <lladd/log_read.h>
#include <lladd/pages.h>
#include <lladd/heap.h>
#include <lladd/records.h>
#include <lladd/twophase.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char *dir;
static struct lladd_db *db;
static struct lladd_error err;

/* ---- the test's extension: a logical undo, an object class, a participant -------------------- */

static lladd_op_id logical;
static lladd_pageno counters; /* the counter from which compensate subtracts */

static int compensate(void *ctx, struct lladd_txn *txn, struct lladd_span undo)
{
    (void)ctx;
    (void)undo;
    return lladd_counter_add(txn, counters, 8, -1);
}

static bool any_bytes(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span bytes)
{
    (void)page;
    (void)kind;
    return bytes.len == 4;
}

static const struct lladd_field word_field[] = {{"word", LLADD_FIELD_U32}, {NULL, LLADD_FIELD_END}};

static const struct lladd_op op_logical = {
    .struct_size = sizeof op_logical,
    .name = "doc.logical",
    .version = 3,
    .undo_fields = word_field,
    .record_max = 4,
    .undo_kind = LLADD_UNDO_LOGICAL,
    .validate = any_bytes,
    .compensate = compensate,
    .undo_log_max = 512,
    .undo_pages_max = 1,
};

/* The class needs no log, because it keeps no objects. */
static lladd_lsn nothing_needed(void *ctx, struct lladd_db *handle)
{
    (void)ctx;
    (void)handle;
    return lladd_lsn_of(UINT64_MAX);
}

static int object_redo(void *ctx, struct lladd_db *handle, lladd_lsn lsn, uint64_t object,
                       struct lladd_span redo)
{
    (void)ctx;
    (void)handle;
    (void)lsn;
    (void)object;
    (void)redo;
    return 0;
}

static int object_undo(void *ctx, struct lladd_db *handle, struct lladd_txn *txn, lladd_lsn clr,
                       uint64_t object, struct lladd_span undo)
{
    (void)ctx;
    (void)handle;
    (void)txn;
    (void)clr;
    (void)object;
    (void)undo;
    return 0;
}

static const struct lladd_object_class class_object = {
    .struct_size = sizeof class_object,
    .name = "doc.object",
    .version = 1,
    .durable_lsn = nothing_needed,
    .redo = object_redo,
    .undo = object_undo,
};

static int part_prepare(void *ctx, void *state, struct lladd_txn *txn, struct lladd_sink *sink)
{
    char filling[3000];
    (void)ctx;
    (void)state;
    (void)txn;
    memset(filling, 'b', sizeof filling);
    return lladd_sink_write(sink, filling, sizeof filling);
}

static int part_in_doubt(void *ctx, struct lladd_txn *txn, struct lladd_span blob)
{
    (void)ctx;
    (void)txn;
    return blob.len == 3000 && ((const char *)blob.data)[2999] == 'b' ? 0 : LLADD_BAD_RECORD;
}

static const struct lladd_participant participant = {
    .struct_size = sizeof participant,
    .name = "doc.participant",
    .version = 1,
    .prepare = part_prepare,
    .in_doubt = part_in_doubt,
};

static const struct lladd_op *const ops[] = {&op_logical, NULL};
static const struct lladd_object_class *const classes[] = {&class_object, NULL};
static const struct lladd_participant *const participants[] = {&participant, NULL};
static const struct lladd_extension extension = {
    .struct_size = sizeof extension,
    .name = "doc.extension",
    .version = 1,
    .ops = ops,
    .classes = classes,
    .participants = participants,
};

/* ---- fixture --------------------------------------------------------------------------------- */

#define OK(call) ck_assert_msg((call) == 0, "%s: %s", #call, err.message)
#define TXN_OK(call) ck_assert_msg((call) == 0, "%s: %s", #call, lladd_txn_error(txn)->message)

static const uint32_t page_sizes[] = {4096, 65536};
enum { PAGE_SIZES = sizeof page_sizes / sizeof page_sizes[0] };

static void open_db(uint32_t page_size)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    o.flags = LLADD_OPT_NO_THREADS;
    o.page_size = page_size;
    o.cache_bytes = 8u << 20;
    o.log_ring_bytes = 1u << 20;
    o.log_segment_min = 1u << 14; /* the first segments have one block of less than 64 KiB */
    o.log_segment_max = 1u << 18;
    OK(lladd_register_extension(&o, &extension, &err));
    OK(lladd_open(dir, &o, &db, &err));
    lladd_options_release(&o);
    OK(lladd_op_lookup(db, "doc.logical", 3, &logical));
}

static struct lladd_txn *begin(void)
{
    struct lladd_txn *txn = NULL;
    OK(lladd_begin(db, NULL, &txn, &err));
    return txn;
}

static void setup(void)
{
    dir = temp_dir_new();
    db = NULL;
    memset(&err, 0, sizeof err);
}

static void teardown(void)
{
    if (db)
        lladd_db_kill(db);
    temp_dir_remove(dir);
}

/* Runs the second reader, reader.py. Returns its output, which the caller frees; *status: its exit
 * status. */
static char *read_again(int *status)
{
    char command[1024];
    size_t len = 0, room = 1 << 20;
    char *text = malloc(room);
    ck_assert_ptr_nonnull(text);
    int n = snprintf(command, sizeof command, "'%s' -B '%s' '%s' 2>&1", LLADD_PYTHON, LLADD_READER,
                     dir);
    ck_assert(n > 0 && (size_t)n < sizeof command);
    FILE *pipe = popen(command, "r");
    ck_assert_ptr_nonnull(pipe);
    for (size_t got; (got = fread(text + len, 1, room - 1 - len, pipe)) > 0;)
        len += got;
    text[len] = 0;
    *status = pclose(pipe);
    return text;
}

static char *read_well(void)
{
    int status;
    char *text = read_again(&status);
    ck_assert_msg(status == 0, "the second reader: %s", text);
    return text;
}

static void has(const char *text, const char *line)
{
    char wanted[256];
    int n = snprintf(wanted, sizeof wanted, "\n%s\n", line);
    ck_assert(n > 0 && (size_t)n < sizeof wanted);
    ck_assert_msg(strstr(text, wanted) != NULL, "no line \"%s\" in:\n%s", line, text);
}

static bool has_kind(const char *text, int kind)
{
    char word[16];
    const char *line = strstr(text, "\nkinds ");
    const char *end = line ? strchr(line + 1, '\n') : NULL;
    ck_assert_ptr_nonnull(end);
    snprintf(word, sizeof word, " %d ", kind);
    char row[256] = {0};
    memcpy(row, line + 1, (size_t)(end - line) - 1);
    strcat(row, " ");
    return strstr(row, word) != NULL;
}

/* ---- everything ------------------------------------------------------------------------------ */

static void write_bytes(void)
{
    struct lladd_txn *txn = begin();
    char text[300];
    memset(text, 'x', sizeof text);
    TXN_OK(lladd_page_alloc(txn, &counters));
    TXN_OK(lladd_page_format(txn, counters, "lladd.bytes"));
    TXN_OK(lladd_root_set(txn, "counters", (struct lladd_root_value){counters.v, 7}));
    TXN_OK(lladd_counter_add(txn, counters, 0, 0x41));
    TXN_OK(lladd_bytes_set(txn, counters, 100, "short", 5));
    TXN_OK(lladd_bytes_set(txn, counters, 200, text, sizeof text));
    TXN_OK(lladd_bytes_set_range(txn, counters, 1000, text, sizeof text));
    TXN_OK(lladd_commit(txn));
}

static void write_records(void)
{
    struct lladd_txn *txn = begin();
    struct lladd_rid first, rid, fixed_rid;
    struct lladd_heap *heap;
    lladd_pageno root, fixed;
    static char big[65536];
    uint32_t size = lladd_page_size(db);
    memset(big, 'R', sizeof big);
    TXN_OK(lladd_heap_create_open(txn, &root, &heap));
    TXN_OK(lladd_root_set(txn, "heap", (struct lladd_root_value){root.v, 0}));
    TXN_OK(lladd_heap_insert(txn, heap, "the first one", 13, &first));
    for (int i = 0; i < 12; i++)
        TXN_OK(lladd_heap_insert(txn, heap, big, size / 5, &rid));
    /* The first record's page is full, so the record has to move. */
    memcpy(big, "moved away", 10);
    TXN_OK(lladd_heap_set(txn, heap, first, big, size / 2));
    TXN_OK(lladd_heap_delete(txn, heap, rid));
    lladd_heap_close(heap);
    TXN_OK(lladd_page_alloc(txn, &fixed));
    TXN_OK(lladd_fixed_format(txn, fixed, 11));
    TXN_OK(lladd_fixed_alloc(txn, fixed, "eleven byte", &fixed_rid));
    TXN_OK(lladd_fixed_alloc(txn, fixed, NULL, &rid));
    TXN_OK(lladd_fixed_set(txn, fixed_rid, 7, "BYTE", 4));
    TXN_OK(lladd_fixed_free(txn, rid));
    TXN_OK(lladd_commit(txn));
}

static void write_extents(void)
{
    uint32_t size = lladd_page_size(db);
    unsigned char *bytes = calloc(2, size);
    struct lladd_txn *txn = begin();
    lladd_pageno raw, bulk, gone;
    ck_assert_ptr_nonnull(bytes);
    TXN_OK(lladd_extent_alloc(txn, 2, LLADD_EXTENT_RAW, &raw));
    memcpy(bytes, "raw page", 8);
    TXN_OK(lladd_bulk_write(txn, raw, 2, NULL, bytes));
    TXN_OK(lladd_extent_alloc(txn, 1, LLADD_EXTENT_BULK, &bulk));
    memset(bytes, 'k', size);
    TXN_OK(lladd_bulk_write(txn, bulk, 1, "lladd.bytes", bytes));
    TXN_OK(lladd_bulk_sync(txn));
    TXN_OK(lladd_root_set(txn, "bulk", (struct lladd_root_value){bulk.v, raw.v}));
    TXN_OK(lladd_page_alloc(txn, &gone));
    TXN_OK(lladd_page_format(txn, gone, "lladd.bytes"));
    TXN_OK(lladd_page_free(txn, gone));
    TXN_OK(lladd_commit(txn));
    free(bytes);
}

/* Writes a transaction that is rolled back, first to a savepoint and then completely. Its actions
 * are nested deeper than the narrow form of a record can express. */
static void write_actions(void)
{
    unsigned char word[4] = {1, 2, 3, 4};
    struct lladd_action action[9];
    struct lladd_token token;
    lladd_savepoint_id sp;
    struct lladd_txn *txn = begin();
    for (int i = 0; i < 9; i++)
        TXN_OK(lladd_nta_begin(txn, &action[i]));
    TXN_OK(lladd_counter_add(txn, counters, 8, 1));
    for (int i = 8; i > 0; i--)
        TXN_OK(lladd_nta_end(txn, &action[i], LLADD_NO_OP, NULL, 0));
    TXN_OK(lladd_nta_end(txn, &action[0], logical, word, sizeof word));
    TXN_OK(lladd_savepoint(txn, &sp));
    TXN_OK(lladd_log_undo_only(txn, logical, word, sizeof word));
    TXN_OK(lladd_counter_add(txn, counters, 8, 1));
    TXN_OK(lladd_log_object(txn, &class_object, 77, lladd_span_of("redo", 4),
                            lladd_span_of("undo it", 7), &token, NULL));
    lladd_object_applied(txn, &token);
    TXN_OK(lladd_rollback_to(txn, sp));
    TXN_OK(lladd_abort(txn));
}

static void write_the_rest(void)
{
    static char note[70000];
    struct lladd_txn *txn = begin();
    char name[24];
    lladd_lsn lsn;
    memset(note, 'n', sizeof note);
    TXN_OK(lladd_log_note(txn, "doc.note", lladd_span_of(note, sizeof note), &lsn));
    for (int i = 0; i < 60; i++) { /* more than a root page of 4096 bytes can hold */
        snprintf(name, sizeof name, "root.%d", i);
        TXN_OK(lladd_root_set(txn, name, (struct lladd_root_value){0, (uint64_t)i}));
    }
    TXN_OK(lladd_root_delete(txn, "root.3"));
    TXN_OK(lladd_commit(txn));
    OK(lladd_pin_set(db, "backup", lsn, &err));
    OK(lladd_pin_set(db, "other", lsn, &err));
    OK(lladd_pin_clear(db, "other", &err));
}

static void decide(const struct lladd_gid *gid, enum lladd_outcome outcome)
{
    struct lladd_txn *txn = begin();
    TXN_OK(lladd_counter_add(txn, counters, 0, 0));
    TXN_OK(lladd_prepare(txn, gid));
    TXN_OK(lladd_heuristic_end(txn, outcome));
}

static void leave_in_doubt(void)
{
    struct lladd_gid gid = {.format = 4711, .gtrid_length = 5, .bqual_length = 3};
    struct lladd_txn_options o = {.struct_size = sizeof o, .owner = "an application"};
    struct lladd_txn *txn = NULL;
    lladd_pageno page;
    memcpy(gid.data, "gtridcom", 8);
    decide(&gid, LLADD_OUTCOME_COMMIT);
    memcpy(gid.data, "gtridabo", 8);
    decide(&gid, LLADD_OUTCOME_ABORT);
    OK(lladd_checkpoint(db, &err));
    memcpy(gid.data, "gtridfor", 8);
    decide(&gid, LLADD_OUTCOME_COMMIT);
    OK(lladd_heuristic_forget(db, &gid, &err));
    memcpy(gid.data, "gtridbql", 8);
    txn = begin();
    TXN_OK(lladd_page_alloc(txn, &page));
    TXN_OK(lladd_commit(txn));
    OK(lladd_begin(db, &o, &txn, &err));
    TXN_OK(lladd_txn_join(txn, &participant, dir));
    TXN_OK(lladd_page_free(txn, page));
    TXN_OK(lladd_prepare(txn, &gid));
}

static void write_everything(uint32_t page_size)
{
    open_db(page_size);
    lladd_lsn start = lladd_durable_lsn(db);
    OK(lladd_pin_set(db, "all", start, &err)); /* keeps the whole log for the reader */
    write_bytes();
    write_records();
    write_extents();
    write_actions();
    write_the_rest();
    OK(lladd_checkpoint(db, &err));
    write_bytes(); /* pages with a base below redo's start get images */
    leave_in_doubt();
}

START_TEST(everything_that_can_be_written)
{
    char line[64];
    uint32_t size = page_sizes[_i];
    write_everything(size);
    int rc = lladd_close(db);
    db = NULL;
    ck_assert_int_eq(rc, 0);
    char *text = read_well();
    for (int kind = 1; kind <= 20; kind++)
        ck_assert_msg(has_kind(text, kind), "no record of kind %d in:\n%s", kind, text);
    ck_assert(has_kind(text, 22));
    snprintf(line, sizeof line, "control clean=1 incarnation=1 page_size=%u\nkinds ", size);
    ck_assert_msg(strncmp(text, line, strlen(line)) == 0, "%s", text);
    ck_assert_ptr_nonnull(strstr(text, " deepest=9 "));
    has(text, "note doc.note 70000 nnnnnnnnnnnnnnnn");
    has(text, "prepared 4711 gtrid bql an application");
    has(text, "outcome 4711 gtrid com 1");
    has(text, "outcome 4711 gtrid abo 2");
    ck_assert_ptr_null(strstr(text, "\noutcome 4711 gtrid for "));
    has(text, "blob doc.participant 3000 2048 952");
    ck_assert_ptr_nonnull(strstr(text, "\nblob lladd.pages 40 0 40\n"));
    ck_assert_ptr_nonnull(strstr(text, "\npin backup "));
    ck_assert_ptr_null(strstr(text, "\npin other "));
    has(text,
        "bytes counters A\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00"
        "\\x00");
    has(text, "bytes bulk kkkkkkkkkkkkkkkk");
    ck_assert_ptr_nonnull(strstr(text, " raw raw page\n"));
    has(text, "root root.59 0 59");
    ck_assert_ptr_null(strstr(text, "\nroot root.3 "));
    ck_assert_ptr_nonnull(strstr(text, " eleven BYTE\n"));
    snprintf(line, sizeof line, " tag=1 %u moved away", size / 2);
    ck_assert_msg(strstr(text, line) != NULL, "no \"%s\" in:\n%s", line, text);
    free(text);

    /* The library can open the database that the reader has read. */
    open_db(size);
    struct lladd_gid gid = {.format = 4711, .gtrid_length = 5, .bqual_length = 3};
    struct lladd_txn *txn;
    memcpy(gid.data, "gtridbql", 8);
    OK(lladd_in_doubt_claim(db, &gid, &txn, &err));
    TXN_OK(lladd_commit(txn));
    rc = lladd_close(db);
    db = NULL;
    ck_assert_int_eq(rc, 0);
    text = read_well();
    ck_assert_ptr_null(strstr(text, "\nprepared "));
    free(text);
}
END_TEST

START_TEST(a_killed_database_and_its_second_life)
{
    write_everything(page_sizes[_i]);
    struct lladd_txn *txn = begin();
    TXN_OK(lladd_counter_add(txn, counters, 0, 1000)); /* never committed */
    lladd_db_kill(db);
    db = NULL;
    char *text = read_well();
    ck_assert_msg(strncmp(text, "control clean=0 incarnation=1 ", 30) == 0, "%s", text);
    free(text);

    open_db(page_sizes[_i]);
    int rc = lladd_close(db);
    db = NULL;
    ck_assert_int_eq(rc, 0);
    text = read_well();
    ck_assert_msg(strncmp(text, "control clean=1 incarnation=2 ", 30) == 0, "%s", text);
    has(text, "prepared 4711 gtrid bql an application");
    has(text,
        "bytes counters A\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00"
        "\\x00");
    free(text);
}
END_TEST

/* ---- the reader notices damage --------------------------------------------------------------- */

static void flip(const char *name, off_t at)
{
    char *path = temp_dir_path(dir, name);
    unsigned char byte;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    ck_assert_msg(fd >= 0, "%s", path);
    ck_assert_int_eq(pread(fd, &byte, 1, at), 1);
    byte ^= 4;
    ck_assert_int_eq(pwrite(fd, &byte, 1, at), 1);
    ck_assert_int_eq(close(fd), 0);
    free(path);
}

START_TEST(the_second_reader_notices_damage)
{
    static const struct {
        const char *file;
        off_t at;
        off_t at_too; /* 0: only one place */
    } damage[] = {
        {"control", 40, 4096 + 40},               /* uuid, in both copies */
        {"pages", 16, 0},                         /* baseLSN of page 0 */
        {"pages", 4096 + 100, 0},                 /* a bit of the allocation bitmap */
        {"log/0000000000000008.seg", 48, 0},      /* segment size */
        {"log/0000000000000008.seg", 64 + 12, 0}, /* LSN of the first record */
        {"log/0000000000000008.seg", 64 + 20, 0}, /* its field `prev` */
    };
    write_everything(4096);
    int rc = lladd_close(db);
    db = NULL;
    ck_assert_int_eq(rc, 0);
    for (size_t i = 0; i < sizeof damage / sizeof damage[0]; i++) {
        for (int again = 0; again < 2; again++) { /* damaged, then restored */
            int status;
            flip(damage[i].file, damage[i].at);
            if (damage[i].at_too)
                flip(damage[i].file, damage[i].at_too);
            char *text = read_again(&status);
            ck_assert_msg((status == 0) == (again == 1), "damage %zu: %s", i, text);
            free(text);
        }
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("docs/format");
    TCase *tc = tcase_create("second reader");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, everything_that_can_be_written, 0, PAGE_SIZES);
    tcase_add_loop_test(tc, a_killed_database_and_its_second_life, 0, PAGE_SIZES);
    tcase_add_test(tc, the_second_reader_notices_damage);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
