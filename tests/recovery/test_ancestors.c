/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Defects of the ancestor, an earlier implementation of the LLADD paper, that the core must not
 * have. For each defect there is a test that the ancestor would have failed. The number in the name
 * of a test is the number of the defect in a list of demonstrated bugs. "2_2" means that the defect
 * is in a second list, of what was slow, large, limited or unsafe in the ancestor. For some
 * defects, tests in other folders have more cases.
 */
#include "buffer/buffer.h"
#include "db_fixture.h"
#include "support/fixtures.h"
#include "util/crc32c.h"

#include <errno.h>
#include <lladd/bulk.h>
#include <lladd/bytes.h>
#include <lladd/log_read.h>
#include <lladd/snapshot.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static struct fixture r;
static lladd_pageno page;

static void begin_case(int kind)
{
    fixture_init(&r, (unsigned)kind);
    fixture_open(&r);
    page = fixture_page(&r);
}

static struct cell at(unsigned i)
{
    return cell_of(page, i);
}

static void soft_commit(unsigned cell, uint64_t value)
{
    struct lladd_txn_options o = LLADD_TXN_OPTIONS_INIT;
    o.durability = LLADD_DURABLE_LATER;
    struct lladd_txn *txn = fixture_begin_with(&r, &o);
    ok(txn, cell_put(txn, at(cell), value));
    done(lladd_commit(txn));
}

/* ---- bugs that were demonstrated --------------------------------------------------------- */

START_TEST(ancestor_1_forcing_makes_soft_commits_durable)
{
    begin_case(_i);
    for (unsigned i = 0; i < CELLS; i++)
        soft_commit(i, i + 1);
    lladd_lsn newest;
    ok_db(&r, lladd_snapshot_acquire(r.db, &newest, &r.err));
    ok_db(&r, lladd_wait_durable(r.db, newest, &r.err));
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    for (unsigned i = 0; i < CELLS; i++)
        fixture_expect(&r, at(i), i + 1);
    fixture_free(&r);
}
END_TEST

/* A recycled segment is full of old records with good checksums. In each case the end of the new
 * records has another alignment to the old ones. */
START_TEST(ancestor_2_a_crash_after_a_log_chunk_was_recycled_can_be_recovered)
{
    for (unsigned alignment = 0; alignment < 24; alignment++) {
        fixture_init(&r, 0);
        r.options.log_segment_min = r.options.log_segment_max = 4096;
        fixture_open(&r);
        page = fixture_page(&r);
        for (unsigned i = 0; i < 30; i++) {
            struct lladd_txn *txn = fixture_begin(&r);
            ok(txn, cell_put_wide(txn, at(1), i, 500 + 8 * alignment));
            done(lladd_commit(txn));
            if (i % 10 == 9)
                ok_db(&r, lladd_checkpoint(r.db, &r.err));
            fixture_maintain(&r);
        }
        ck_assert_uint_gt(fixture_stats(&r).log_oldest,
                          4 * 4096); /* there was a segment to recycle */
        for (unsigned i = 0; i < 3 + alignment % 5; i++)
            fixture_set(&r, at(2), 100 + i);
        fixture_crash(&r, alignment % 2 ? &fault_kill : &fault_power);
        fixture_open(&r);
        fixture_expect(&r, at(1), 29);
        fixture_expect(&r, at(2), 100 + 2 + alignment % 5);
        fixture_free(&r);
    }
}
END_TEST

START_TEST(ancestor_4_closing_does_not_hang)
{
    fixture_init(&r, FIXTURE_THREADS | ((unsigned)_i ? FIXTURE_RESERVED : 0));
    for (unsigned i = 0; i < 300; i++) {
        fixture_open(&r);
        if (i % 3 == 0)
            (void)fixture_page(&r);
        fixture_close(&r);
    }
    fixture_free(&r);
}
END_TEST

/* The ancestor lost the last page when it wrote or read a length of whole pages. */
START_TEST(ancestor_3_and_5_bulk_writes_of_whole_pages_lose_none)
{
    enum { MOST = 9 };
    unsigned char *bytes = malloc(MOST * 4096), *back = malloc(MOST * 4096);
    begin_case(_i);
    ok_db(&r, lladd_pages_extend(r.db, 64, &r.err));
    for (unsigned n = 1; n <= MOST; n++) {
        seeded_fill(n, bytes, n * 4096);
        struct lladd_txn *txn = fixture_begin(&r);
        ok(txn, lladd_redo_barrier(txn, lladd_page_of(40), n));
        ok(txn, lladd_bulk_write(txn, lladd_page_of(40), n, NULL, bytes));
        ok(txn, lladd_bulk_sync(txn));
        done(lladd_commit(txn));
        memset(back, 0, n * 4096);
        ok_db(&r, lladd_bulk_read(r.db, lladd_page_of(40), n, true, back, &r.err));
        ck_assert_mem_eq(bytes, back, n * 4096);
    }
    free(bytes);
    free(back);
    fixture_free(&r);
}
END_TEST

START_TEST(ancestor_6_flipped_bytes_in_the_page_file_do_not_survive_in_silence)
{
    size_t len;
    begin_case(0);
    fixture_set(&r, at(0), 5);
    fixture_close(&r);
    unsigned char *bytes = fixture_file(&r, "pages", &len);
    bytes[page.v * 4096 + LLADD_PAGE_HEADER] ^= 0x10; /* 5 becomes 21 */
    fixture_file_write(&r, "pages", bytes, len, 0);
    free(bytes);
    fixture_open(&r);
    fixture_expect(&r, at(0), 5); /* the page is rebuilt from the log */
    ck_assert_uint_eq(fixture_stats(&r).repairs, 1);
    fixture_free(&r);
}
END_TEST

/* The ancestor replayed 53 MB of log at each open. */
START_TEST(ancestor_7_after_a_clean_stop_nothing_is_replayed_whatever_the_log_holds)
{
    uint64_t reads[2], segments = 0;
    for (unsigned round = 0; round < 2; round++) {
        begin_case(_i & FIXTURE_RESERVED);
        ok_db(&r, lladd_pin_set(r.db, "all", lladd_lsn_of(fixture_stats(&r).log_oldest), &r.err));
        for (unsigned i = 0; i < (round ? 3000u : 30u); i++)
            soft_commit(1, i);
        fixture_close(&r);
        fault_device_reset_calls(r.fd);
        fixture_open(&r);
        reads[round] = fault_device_calls(r.fd, FAULT_PREAD);
        ck_assert_uint_eq(fixture_stats(&r).recovered_redone, 0);
        ck_assert_uint_eq(fixture_stats(&r).recovered_records, 0);
        segments = fixture_stats(&r).log_segments;
        fixture_free(&r);
    }
    ck_assert_uint_le(reads[1], reads[0] + 2 * segments); /* the headers of the segments */
}
END_TEST

START_TEST(ancestor_8_a_bounded_log_is_truncated_instead_of_aborting)
{
    fixture_init(&r, (unsigned)_i);
    r.options.log_limit_bytes = 256u << 10;
    r.options.log_segment_max = 16u << 10;
    r.options.checkpoint_bytes = 1u << 30; /* a checkpoint is taken only for lack of log space */
    fixture_open(&r);
    page = fixture_page(&r);
    uint64_t first = fixture_stats(&r).log_tail;
    while (fixture_stats(&r).log_tail < first + 10 * (256u << 10)) {
        struct lladd_txn *txn = fixture_begin(&r);
        ok(txn, cell_put_wide(txn, at(1), 1, 2000));
        done(lladd_commit_async(txn, NULL));
        ck_assert_uint_le(fixture_stats(&r).log_disk_bytes, 256u << 10);
    }
    fixture_free(&r);
}
END_TEST

START_TEST(ancestor_10_using_a_transaction_that_has_ended_is_an_error)
{
    begin_case(_i);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, cell_put(txn, at(0), 1));
    done(lladd_commit(txn));
    ck_assert_int_eq(cell_put(txn, at(0), 2) == 0, false);
    ck_assert_int_eq(lladd_commit(txn), LLADD_CLOSED);
    ck_assert_int_eq(lladd_abort(txn), LLADD_CLOSED);
    fixture_expect(&r, at(0), 1);
    fixture_free(&r);
}
END_TEST

/* All pages that the thread uses fit into the cache, all are dirty, and no other thread writes. */
START_TEST(ancestor_11_one_thread_does_not_hang_when_all_pages_are_dirty)
{
    enum { PAGES = 200 };
    lladd_pageno pages[PAGES];
    begin_case(_i);
    fixture_pages(&r, pages, PAGES); /* 800 KiB of a cache of 1 MiB */
    struct lladd_txn *txn = fixture_begin(&r);
    for (unsigned round = 0; round < 5; round++)
        for (unsigned i = 0; i < PAGES; i++)
            ok(txn, cell_add(txn, cell_of(pages[i], 0), 1));
    done(lladd_commit(txn));
    for (unsigned i = 0; i < PAGES; i++)
        fixture_expect(&r, cell_of(pages[i], 0), 5);
    fixture_free(&r);
}
END_TEST

/* ---- 2.2: errors ------------------------------------------------------------------------- */

START_TEST(ancestor_2_2_a_commit_with_a_failed_log_write_is_not_acknowledged)
{
    for (unsigned kind = 0; kind < 2; kind++) {
        fixture_init(&r, _i ? FIXTURE_RESERVED : 0);
        r.options.log_segment_min = 64u << 10; /* no new segment is needed when the write fails */
        fixture_open(&r);
        page = fixture_page(&r);
        fixture_set(&r, at(0), 1);
        fault_device_only(r.fd, "log/");
        fault_device_fail(r.fd, 1, kind ? FAULT_SYNC : FAULT_PWRITEV, EIO, false);
        struct lladd_txn *txn = fixture_begin(&r), *waiting = fixture_begin(&r);
        ok(waiting, cell_put(waiting, at(2), 2));
        ok(txn, cell_put(txn, at(0), 2));
        ck_assert_int_eq(lladd_commit(txn), LLADD_WRITE_FAILED);
        ck_assert_int_eq(lladd_db_error(r.db, &r.err), LLADD_WRITE_FAILED);
        ck_contains(r.err.message, "log/");
        ck_assert_int_eq(r.err.sys_errno, EIO);
        /* The library never repeats the fsync, so no later sync or commit succeeds. */
        fault_device_reset_calls(r.fd);
        ck_assert_int_eq(lladd_commit(waiting), LLADD_WRITE_FAILED);
        struct lladd_db *db = r.db;
        r.db = NULL;
        ck_assert_int_eq(lladd_close(db), LLADD_WRITE_FAILED);
        ck_assert_uint_eq(fault_device_calls(r.fd, FAULT_SYNC | FAULT_PWRITEV), 0);
        fault_device_only(r.fd, NULL);
        fault_device_power_cycle(r.fd, &fault_power);
        fixture_open(&r);
        fixture_expect(&r, at(0), 1);
        fixture_expect(&r, at(2), 0);
        fixture_free(&r);
    }
}
END_TEST

START_TEST(ancestor_2_2_a_failed_sync_of_the_page_file_is_final)
{
    begin_case(_i ? FIXTURE_RESERVED : 0);
    fixture_set(&r, at(0), 1);
    fault_device_only(r.fd, "pages");
    fault_device_fail(r.fd, 1, FAULT_SYNC, EIO, false);
    ck_assert_int_eq(lladd_checkpoint(r.db, &r.err), LLADD_WRITE_FAILED);
    ck_contains(r.err.message, "pages");
    ck_assert_int_eq(lladd_checkpoint(r.db, &r.err), LLADD_WRITE_FAILED);
    struct lladd_db *db = r.db;
    r.db = NULL;
    ck_assert_int_eq(lladd_close(db), LLADD_WRITE_FAILED);
    fault_device_only(r.fd, NULL);
    fault_device_power_cycle(r.fd, &fault_power); /* loses the pages of the failed sync */
    fixture_open(&r);
    fixture_expect(&r, at(0), 1);
    fixture_free(&r);
}
END_TEST

/* The ancestor passed flags of open(2) as permission bits. */
START_TEST(ancestor_2_2_files_and_directories_have_sensible_permissions)
{
    mode_t mask = umask(0);
    begin_case(FIXTURE_FILES);
    ck_assert_uint_ge(temp_dir_modes(r.dir, 0600, 0700), 5);
    umask(mask);
    fixture_free(&r);
}
END_TEST

/* ---- 2.2: limits ------------------------------------------------------------------------- */

/* The ancestor stored operations and page types in eight bits, so it had at most 255 of each. */
START_TEST(ancestor_2_2_there_may_be_a_thousand_operations_and_page_types)
{
    enum { MANY = 1000 };
    struct lladd_op *ops = calloc(MANY, sizeof *ops);
    struct lladd_page_type *types = calloc(MANY, sizeof *types);
    char(*names)[2][24] = calloc(MANY, sizeof *names);
    fixture_init(&r, (unsigned)_i);
    r.options.log_segment_max = 256u << 10;
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(names[i][0], sizeof names[i][0], "many.op%u", i);
        snprintf(names[i][1], sizeof names[i][1], "many.type%u", i);
        types[i] = test_cells;
        types[i].name = names[i][1];
        ops[i] = test_format;
        ops[i].name = names[i][0];
        ops[i].page_type = names[i][1];
        ok_db(&r, lladd_register_page_type(&r.options, &types[i], &r.err));
        ok_db(&r, lladd_register_op(&r.options, &ops[i], &r.err));
    }
    for (unsigned round = 0; round < 2; round++) {
        fixture_open(&r);
        for (unsigned i = round; i < MANY; i += 7) {
            lladd_op_id id = LLADD_NO_OP;
            struct lladd_page *p;
            ck_assert_int_eq(lladd_op_lookup(r.db, names[i][0], 1, &id), 0);
            struct lladd_txn *txn = fixture_begin(&r);
            ok(txn, lladd_update(txn, id, lladd_page_of(20), NULL, 0));
            done(lladd_commit_async(txn, NULL));
            const uint16_t type = lladd_page_type_number(r.db, names[i][1]);
            ok_db(&r, lladd_page_fix(r.db, lladd_page_of(20), LLADD_LATCH_SHARED, &p, &r.err));
            ck_assert(lladd_page_is(r.db, lladd_page_view(p), names[i][1]));
            ck_assert_uint_eq(lladd_page_view(p).type, type);
            lladd_page_unfix(r.db, p, LLADD_LATCH_SHARED);
        }
        ok_db(&r, lladd_wait_durable(r.db, lladd_snapshot_oldest(r.db), &r.err));
        fixture_crash(&r, round ? &fault_power : &fault_kill);
    }
    fixture_open(&r);
    fixture_free(&r);
    free(ops);
    free(types);
    free(names);
}
END_TEST

/* The ancestor used the page type on disk as an index into a table, without a check. */
START_TEST(ancestor_2_2_a_page_of_an_unknown_type_is_refused)
{
    size_t len;
    unsigned char uuid[16];
    begin_case(0);
    fixture_set(&r, at(0), 5);
    lladd_db_uuid(r.db, uuid);
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    fixture_close(&r);
    unsigned char *bytes = fixture_file(&r, "pages", &len), *p = bytes + page.v * 4096;
    ll_page_set_type(p, 54321);
    uint32_t salt = ll_crc32c(0, uuid, sizeof uuid);
    lladd_put32(p, ll_page_crc(salt, page, p, 4096)); /* gives the page a good checksum */
    fixture_file_write(&r, "pages", bytes, len, 0);
    free(bytes);
    fixture_open(&r);
    struct lladd_page *fixed;
    ok_db(&r, lladd_page_fix(r.db, page, LLADD_LATCH_SHARED, &fixed, &r.err));
    ck_assert(!lladd_page_is(r.db, lladd_page_view(fixed), "test.cells"));
    lladd_page_unfix(r.db, fixed, LLADD_LATCH_SHARED);
    struct lladd_txn *txn = fixture_begin(&r);
    refused(txn, LLADD_WRONG_TYPE, cell_put(txn, at(0), 1));
    done(lladd_commit(txn));
    fixture_free(&r);
}
END_TEST

/* The ancestor wrote 128 MB of zeros into a new store. */
START_TEST(ancestor_2_2_a_new_database_is_small)
{
    fixture_init(&r, 0);
    r.options.log_segment_min = r.options.log_segment_max = 0; /* the defaults */
    fixture_open(&r);
    ck_assert_uint_lt(fault_device_bytes(r.fd), 5u << 20);
    fixture_free(&r);
}
END_TEST

/* ---- 2.2: logging and recovery ----------------------------------------------------------- */

START_TEST(ancestor_2_2_recovery_is_bounded_by_checkpoints)
{
    fixture_init(&r, _i ? FIXTURE_RESERVED : 0);
    r.options.checkpoint_bytes = 32u << 10;
    fixture_open(&r);
    page = fixture_page(&r);
    for (unsigned i = 0; i < 4000; i++) {
        soft_commit(i % CELLS, i);
        if (i % 16 == 0)
            ok_db(&r, lladd_maintain(r.db, NULL, &r.err));
    }
    ck_assert_uint_gt(fixture_stats(&r).log_tail, 300u << 10);
    fixture_set(&r, at(0), 1);
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    /* The log of at most two checkpoint intervals. Each transaction has some 100 bytes of log. */
    ck_assert_uint_lt(fixture_stats(&r).recovered_records, 2500);
    ck_assert_uint_gt(fixture_stats(&r).recovered_records, 0);
    fixture_free(&r);
}
END_TEST

/* The ancestor read every page of every region at open, to rebuild its list of free space. */
START_TEST(ancestor_2_2_opening_reads_as_little_of_a_large_database_as_of_a_small_one)
{
    uint64_t reads[2], segments = 0;
    for (unsigned round = 0; round < 2; round++) {
        lladd_pageno pages[50];
        begin_case(_i ? FIXTURE_RESERVED : 0);
        for (unsigned i = 0; i < (round ? 20u : 1u); i++)
            fixture_pages(&r, pages, 50);
        fixture_close(&r);
        fault_device_reset_calls(r.fd);
        fixture_open(&r);
        reads[round] = fault_device_calls(r.fd, FAULT_PREAD);
        segments = fixture_stats(&r).log_segments;
        fixture_free(&r);
    }
    ck_assert_uint_le(reads[1], reads[0] + 2 * segments);
}
END_TEST

/* In the ancestor every abort synced the log, and read it back from the file. */
START_TEST(ancestor_2_2_an_abort_neither_forces_nor_reads_the_log)
{
    begin_case(_i ? FIXTURE_RESERVED : 0);
    fixture_set(&r, at(0), 1);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, cell_put(txn, at(0), 2));
    ok(txn, cell_bump(txn, at(1), 2));
    ok(txn, cells_transfer(txn, at(2), at(3), 2));
    fault_device_reset_calls(r.fd);
    done(lladd_abort(txn));
    ck_assert_uint_eq(fault_device_calls(r.fd, FAULT_ANY), 0);
    fixture_expect(&r, at(0), 1);
    fixture_free(&r);
}
END_TEST

START_TEST(ancestor_2_2_a_small_update_takes_few_log_bytes)
{
    begin_case(0);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, cell_add(txn, at(0), 1));
    uint64_t before = fixture_stats(&r).log_tail;
    for (unsigned i = 0; i < 100; i++)
        ok(txn, cell_add(txn, at(0), 1)); /* ten bytes of redo, and ten bytes of undo */
    ck_assert_uint_le(fixture_stats(&r).log_tail - before, 100 * 64);
    done(lladd_commit(txn));
    fixture_free(&r);
}
END_TEST

/* The ancestor's tests simulated a crash by a function that flushed the log first. */
START_TEST(ancestor_2_2_dying_writes_nothing)
{
    begin_case(_i);
    soft_commit(0, 1);
    uint64_t calls = r.fd ? fault_device_calls(r.fd, FAULT_WRITES) : 0;
    lladd_db_kill(r.db);
    r.db = NULL;
    if (r.fd) {
        if (!(_i & FIXTURE_THREADS)) /* with threads, a background thread may have written */
            ck_assert_uint_eq(fault_device_calls(r.fd, FAULT_WRITES), calls);
        fault_device_power_cycle(r.fd, &fault_power);
    }
    fixture_open(&r);
    fixture_free(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("ancestors");
    TCase *tc = tcase_create("all");
#define LOOP(test, n) tcase_add_loop_test(tc, test, 0, n)
    LOOP(ancestor_1_forcing_makes_soft_commits_durable, FIXTURE_KINDS);
    LOOP(ancestor_2_a_crash_after_a_log_chunk_was_recycled_can_be_recovered, 1);
    LOOP(ancestor_4_closing_does_not_hang, 2);
    LOOP(ancestor_3_and_5_bulk_writes_of_whole_pages_lose_none, FIXTURE_KINDS);
    LOOP(ancestor_6_flipped_bytes_in_the_page_file_do_not_survive_in_silence, 1);
    LOOP(ancestor_7_after_a_clean_stop_nothing_is_replayed_whatever_the_log_holds, 4);
    LOOP(ancestor_8_a_bounded_log_is_truncated_instead_of_aborting, FIXTURE_KINDS);
    LOOP(ancestor_10_using_a_transaction_that_has_ended_is_an_error, FIXTURE_KINDS);
    LOOP(ancestor_11_one_thread_does_not_hang_when_all_pages_are_dirty, FIXTURE_KINDS);
    LOOP(ancestor_2_2_a_commit_with_a_failed_log_write_is_not_acknowledged, 2);
    LOOP(ancestor_2_2_a_failed_sync_of_the_page_file_is_final, 2);
    LOOP(ancestor_2_2_files_and_directories_have_sensible_permissions, 1);
    LOOP(ancestor_2_2_there_may_be_a_thousand_operations_and_page_types, 2);
    LOOP(ancestor_2_2_a_page_of_an_unknown_type_is_refused, 1);
    LOOP(ancestor_2_2_a_new_database_is_small, 1);
    LOOP(ancestor_2_2_recovery_is_bounded_by_checkpoints, 2);
    LOOP(ancestor_2_2_opening_reads_as_little_of_a_large_database_as_of_a_small_one, 2);
    LOOP(ancestor_2_2_an_abort_neither_forces_nor_reads_the_log, 2);
    LOOP(ancestor_2_2_a_small_update_takes_few_log_bytes, 1);
    LOOP(ancestor_2_2_dying_writes_nothing, FIXTURE_KINDS);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
