/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests the section "Stored bytes are wrong" of docs/what-happens-when.md as an application sees
 * it. Each test damages real files, and expects the code and the words that the page promises.
 */
#include "fixture.h"
#include "support/fixtures.h"
#include "util/crc32c.h"

#include <lladd/bytes.h>
#include <lladd/extension.h>
#include <lladd/log_read.h>
#include <lladd/records.h>
#include <lladd/stats.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The first segment of the log. place_of returns the offset of an LSN in the file of this segment.
 * (The segment has one block, and the log's first LSN is 8.) */
static const char first_segment[] = "log/0000000000000008.seg";
static off_t place_of(lladd_lsn lsn)
{
    ck_assert_uint_lt(lsn.v, SEGMENT - 64);
    return (off_t)(64 + lsn.v - 8);
}

/* Makes a database with two pages, and returns the one that has no records in the log any more. */
static lladd_pageno forgotten_page(lladd_pageno *other)
{
    options.durability = LLADD_DURABLE_LATER;
    open_db();
    lladd_pageno page = new_page();
    *other = new_page();
    struct lladd_stats s = {.struct_size = sizeof s};
    for (int i = 0; i < 6; i++) {
        for (int k = 0; k < 300; k++)
            count(*other);
        OK(lladd_checkpoint(db, &err));
        ck_assert_int_eq(lladd_stats_get(db, &s), 0);
    }
    ck_assert_uint_gt(s.log_oldest, SEGMENT);
    close_db();
    return page;
}

START_TEST(a_flipped_bit_is_put_right_from_the_log)
{
    struct lladd_stats s = {.struct_size = sizeof s};
    open_db();
    lladd_pageno page = new_page();
    count(page);
    close_db();
    file_flip("pages", (off_t)page.v * PAGE + 100);
    open_db();
    ck_assert_int_eq(counted(page), 1);
    ck_assert_int_eq(lladd_stats_get(db, &s), 0);
    ck_assert_uint_eq(s.repairs, 1);
    close_db();
}
END_TEST

START_TEST(a_flipped_bit_that_nothing_puts_right)
{
    lladd_pageno other, page = forgotten_page(&other);
    struct lladd_page *held;
    char number[32];
    file_flip("pages", (off_t)page.v * PAGE + 100);
    open_db();
    ck_assert_int_eq(lladd_page_fix(db, page, LLADD_LATCH_SHARED, &held, &err), LLADD_CORRUPT_PAGE);
    ck_assert_uint_eq(err.page.v, page.v);
    snprintf(number, sizeof number, "page %llu has checksum", (unsigned long long)page.v);
    ck_assert_msg(strstr(err.message, number) != NULL, "%s", err.message);
    ck_assert_int_eq(counted(other), 1800);
    count(other);
    close_db();
}
END_TEST

START_TEST(a_page_in_the_place_of_another)
{
    unsigned char bytes[PAGE];
    lladd_pageno other, page = forgotten_page(&other);
    struct lladd_page *held;
    char words[64];
    file_read("pages", bytes, PAGE, (off_t)other.v * PAGE);
    file_write("pages", bytes, PAGE, (off_t)page.v * PAGE);
    open_db();
    ck_assert_int_eq(lladd_page_fix(db, page, LLADD_LATCH_SHARED, &held, &err), LLADD_CORRUPT_PAGE);
    snprintf(words, sizeof words, "the place of page %llu holds page %llu",
             (unsigned long long)page.v, (unsigned long long)other.v);
    ck_assert_msg(strstr(err.message, words) != NULL, "%s", err.message);
    close_db();
}
END_TEST

/* Writes until the log that exists at the call is truncated. */
static void forget_log(void)
{
    struct lladd_stats s = {.struct_size = sizeof s};
    lladd_pageno other = new_page();
    OK(lladd_stats_get(db, &s));
    options.durability = LLADD_DURABLE_LATER;
    for (uint64_t end = s.log_tail; s.log_oldest < end; OK(lladd_stats_get(db, &s))) {
        close_db();
        open_db();
        for (int k = 0; k < 6; k++) {
            for (int i = 0; i < 300; i++)
                count(other);
            OK(lladd_checkpoint(db, &err));
        }
    }
    options.durability = LLADD_DURABLE;
    close_db();
    open_db();
}

/* Simulates a lost write: changes a page, and puts an older state of this page back into the page
 * file. If `forget` is true, the log no longer has the page's records that lie before the lost
 * change. */
static lladd_pageno lose_a_write(bool forget)
{
    unsigned char old[PAGE];
    open_db();
    lladd_pageno page = new_page();
    count(page);
    OK(lladd_checkpoint(db, &err));
    file_read("pages", old, PAGE, (off_t)page.v * PAGE);
    count(page);
    OK(lladd_checkpoint(db, &err));
    if (forget)
        forget_log();
    count(page);
    kill_db();
    file_write("pages", old, PAGE, (off_t)page.v * PAGE);
    return page;
}

START_TEST(a_lost_write_is_healed_by_older_log)
{
    options.flags |= _i ? LLADD_OPT_ATOMIC_PAGES : 0;
    lladd_pageno page = lose_a_write(false);
    open_db();
    ck_assert_int_eq(counted(page), 3);
    close_db();
}
END_TEST

START_TEST(a_lost_write_without_older_log_is_noticed)
{
    options.flags |= _i ? LLADD_OPT_ATOMIC_PAGES : 0;
    lladd_pageno page = lose_a_write(true);
    refused(LLADD_CORRUPT_PAGE, "a write was lost");
    ck_assert_uint_eq(err.page.v, page.v);
}
END_TEST

/* The write is lost while the database is open, and the handle still remembers the page LSN of that
 * write. */
START_TEST(a_lost_write_of_this_run)
{
    enum { MANY = 120 };
    unsigned char old[PAGE];
    struct lladd_stats s = {.struct_size = sizeof s};
    lladd_pageno others[MANY];
    options.durability = LLADD_DURABLE_LATER;
    options.cache_bytes = 256 << 10;
    options.flags |= _i ? LLADD_OPT_ATOMIC_PAGES : 0;
    open_db();
    lladd_pageno page = new_page();
    for (int i = 0; i < MANY; i++)
        others[i] = new_page();
    count(page);
    OK(lladd_checkpoint(db, &err));
    file_read("pages", old, PAGE, (off_t)page.v * PAGE);
    count(page);
    OK(lladd_checkpoint(db, &err));
    file_write("pages", old, PAGE, (off_t)page.v * PAGE);
    for (int i = 0; i < MANY; i++)
        ck_assert_int_eq(counted(others[i]), 0);
    if (_i) { /* the log has no image of the page */
        int64_t n;
        ck_assert_int_eq(lladd_counter_get(db, page, 0, &n, &err), LLADD_CORRUPT_PAGE);
        ck_assert_ptr_nonnull(strstr(err.message, "that write was lost"));
        ck_assert_uint_eq(err.page.v, page.v);
        close_db();
        return;
    }
    ck_assert_int_eq(counted(page), 2);
    ck_assert_int_eq(lladd_stats_get(db, &s), 0);
    ck_assert_uint_eq(s.lost_writes, 1);
    ck_assert_uint_eq(s.repairs, 1);
    close_db();
    open_db();
    ck_assert_int_eq(counted(page), 2);
    close_db();
}
END_TEST

START_TEST(a_flipped_bit_in_the_log)
{
    char lsn[32];
    open_db();
    lladd_pageno page = new_page();
    lladd_lsn damaged = count(page);
    count(page); /* the group of this record states that the records before the group are durable */
    count(page);
    kill_db();
    file_flip(first_segment, place_of(damaged) + 20);
    snprintf(lsn, sizeof lsn, "%llu", (unsigned long long)damaged.v);
    refused(LLADD_CORRUPT_LOG, lsn);
    file_flip(first_segment, place_of(damaged) + 20);
    open_db(); /* the refused open has changed no byte */
    ck_assert_int_eq(counted(page), 3);
    close_db();
}
END_TEST

START_TEST(a_flipped_bit_in_the_newest_group)
{
    open_db();
    lladd_pageno page = new_page();
    count(page);
    lladd_lsn newest = count(page);
    kill_db();
    file_flip(first_segment, place_of(newest) + 20);
    open_db();
    ck_assert_int_eq(counted(page), 1);
    close_db();
}
END_TEST

START_TEST(after_a_clean_close_there_is_no_newest_group)
{
    open_db();
    lladd_pageno page = new_page();
    lladd_lsn newest = count(page);
    close_db();
    struct stat before, after;
    char *path = temp_dir_path(dir, "control");
    ck_assert_int_eq(stat(path, &before), 0);
    file_flip(first_segment, place_of(newest) + 20);
    /* The damaged record is read only on request, and the request finds the damage. */
    struct lladd_log_cursor *cursor;
    struct lladd_log_entry entry;
    open_db();
    OK(lladd_log_open(db, lladd_lsn_of(0), NULL, &cursor, &err));
    ck_assert_int_eq(lladd_log_read(cursor, newest, &entry, &err), LLADD_CORRUPT_LOG);
    lladd_log_close(cursor);
    /* A reader that begins at the damaged record gets the error, too. */
    OK(lladd_log_open(db, newest, NULL, &cursor, &err));
    ck_assert_int_eq(lladd_log_next(cursor, &entry, &err), LLADD_CORRUPT_LOG);
    ck_assert_uint_eq(err.lsn.v, newest.v);
    lladd_log_close(cursor);
    ck_assert_int_eq(counted(page), 1);
    close_db();
    ck_assert_int_eq(stat(path, &after), 0);
    ck_assert_int_eq(after.st_size, before.st_size);
    free(path);
}
END_TEST

START_TEST(files_that_are_missing)
{
    static const struct {
        const char *name, *words;
    } files[] = {{"pages", "page file \"pages\" is missing"},
                 {first_segment, "missing: the log begins at"},
                 {"control", "\"control\" is missing"}};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        open_db();
        count(new_page());
        kill_db();
        file_remove(files[i].name);
        refused(LLADD_MISSING_FILE, files[i].words);
        fixture_finish();
        fixture_init();
    }
}
END_TEST

START_TEST(pages_that_were_cut_off)
{
    lladd_pageno other, page = forgotten_page(&other);
    char *path = temp_dir_path(dir, "pages");
    ck_assert_uint_lt(page.v, other.v);
    /* The page file is cut in the middle of a page, and between pages. Open finds both, because the
     * checkpoint states the number of pages. */
    ck_assert_int_eq(truncate(path, (off_t)other.v * PAGE + 100), 0);
    refused(LLADD_MISSING_FILE, "\"pages\" is cut off");
    ck_assert_int_eq(truncate(path, (off_t)page.v * PAGE), 0);
    refused(LLADD_MISSING_FILE, "\"pages\" is cut off");
    free(path);
}
END_TEST

START_TEST(one_copy_of_control_is_damaged)
{
    open_db();
    lladd_pageno page = new_page();
    count(page);
    kill_db();
    for (off_t copy = 0; copy < 2; copy++) {
        file_flip("control", copy * CONTROL_COPY + 80);
        open_db();
        ck_assert_int_eq(counted(page), 1);
        close_db(); /* writes both copies */
    }
}
END_TEST

START_TEST(both_copies_of_control_are_damaged)
{
    static const char text[16] = "this is a diary";
    open_db();
    close_db();
    file_flip("control", 80);
    file_flip("control", CONTROL_COPY + 80);
    refused(LLADD_CORRUPT_CONTROL, "control");
    file_write("control", text, sizeof text, 0);
    file_write("control", text, sizeof text, CONTROL_COPY);
    refused(LLADD_NOT_A_DATABASE, "control");
}
END_TEST

START_TEST(files_of_another_database)
{
    static unsigned char segment[SEGMENT], pages[PAGE];
    open_db();
    lladd_pageno page = new_page();
    close_db();
    file_read(first_segment, segment, SEGMENT, 0);
    file_read("pages", pages, PAGE, (off_t)page.v * PAGE);
    fixture_finish();
    fixture_init();
    lladd_pageno other;
    page = forgotten_page(&other);
    file_write("pages", pages, PAGE, (off_t)page.v * PAGE);
    struct lladd_page *held;
    open_db();
    ck_assert_int_eq(lladd_page_fix(db, page, LLADD_LATCH_SHARED, &held, &err), LLADD_CORRUPT_PAGE);
    count(other);
    kill_db();
    file_write(first_segment, segment, SEGMENT, 0);
    refused(LLADD_FOREIGN_FILE, "another database");
}
END_TEST

/* Changes both copies of the control block, and gives them a good checksum. */
static void patch_control(size_t at, uint64_t value, size_t bytes)
{
    unsigned char block[CONTROL_BYTES], word[8];
    lladd_put64(word, value);
    for (off_t copy = 0; copy < 2; copy++) {
        file_read("control", block, sizeof block, copy * CONTROL_COPY);
        memcpy(block + at, word, bytes);
        lladd_put32(block, ll_crc32c(0, block + 4, sizeof block - 4));
        file_write("control", block, sizeof block, copy * CONTROL_COPY);
    }
}

START_TEST(a_newer_format)
{
    open_db();
    close_db();
    patch_control(8, 2, 4);
    refused(LLADD_NEWER_FORMAT, "format version 2");
    patch_control(8, 1, 4);
    patch_control(32, 0x40, 8);
    refused(LLADD_NEWER_FORMAT, "0x40");
    patch_control(32, 0, 8);
    open_db();
    close_db();
}
END_TEST

START_TEST(a_record_that_does_not_fit)
{
    unsigned char one[8];
    char lsn[32];
    lladd_put64(one, 1);
    open_db();
    lladd_pageno page = new_page();
    struct lladd_txn *txn = begin();
    TXN_OK(lladd_update(txn, op_id(&word_add), page, one, sizeof one));
    snprintf(lsn, sizeof lsn, "LSN %llu", (unsigned long long)lladd_txn_id(txn).v);
    TXN_OK(lladd_commit(txn));
    kill_db();
    bad.refuses = true;
    refused(LLADD_BAD_RECORD, lsn);
    bad.refuses = false;
    open_db();
    ck_assert_int_eq(counted(page), 1);
    close_db();
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("docs/wrong bytes");
    TCase *tc = tcase_create("lines");
    tcase_add_checked_fixture(tc, fixture_init, fixture_finish);
    tcase_add_test(tc, a_flipped_bit_is_put_right_from_the_log);
    tcase_add_test(tc, a_flipped_bit_that_nothing_puts_right);
    tcase_add_test(tc, a_page_in_the_place_of_another);
    tcase_add_loop_test(tc, a_lost_write_is_healed_by_older_log, 0, 2);
    tcase_add_loop_test(tc, a_lost_write_without_older_log_is_noticed, 0, 2);
    tcase_add_loop_test(tc, a_lost_write_of_this_run, 0, 2);
    tcase_add_test(tc, a_flipped_bit_in_the_log);
    tcase_add_test(tc, a_flipped_bit_in_the_newest_group);
    tcase_add_test(tc, after_a_clean_close_there_is_no_newest_group);
    tcase_add_test(tc, files_that_are_missing);
    tcase_add_test(tc, pages_that_were_cut_off);
    tcase_add_test(tc, one_copy_of_control_is_damaged);
    tcase_add_test(tc, both_copies_of_control_are_damaged);
    tcase_add_test(tc, files_of_another_database);
    tcase_add_test(tc, a_newer_format);
    tcase_add_test(tc, a_record_that_does_not_fit);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    SRunner *r = srunner_create(suite());
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
