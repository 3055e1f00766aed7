/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Segments of several blocks. The header of a block is written with the first payload of the block,
 * and says where the first record begins. The scan distinguishes three cases: a damaged header, a
 * block that was never written, and a block from the file's former use. It cuts tails that are torn
 * over several blocks. After damage, the headers lead to the next records.
 */
#include "log_fixture.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK = LL_LOG_BLOCK_MAX, ROOM = BLOCK - LL_LOG_BLOCK_HEADER, SEGMENT = 4 * BLOCK };

static struct fixture f;

static void setup(void)
{
    fixture_init(&f);
    f.cfg.segment_min = f.cfg.segment_max = SEGMENT;
    f.cfg.ring_bytes = 1 << 20;
}

static void teardown(void)
{
    fixture_free(&f);
}

/* ---- helpers ---- */

static void fill_to(uint64_t lsn, size_t len)
{
    while (ll_log_tail(f.log).v < lsn)
        put(&f, len);
}

static void header_of(unsigned block, struct ll_log__block *b)
{
    unsigned char bytes[LL_LOG_BLOCK_HEADER];
    char name[LL_LOG_NAME_SIZE];
    name_of(8 + (uint64_t)(block / 4) * 4 * ROOM, name);
    read_file(&f, name, (uint64_t)(block % 4) * BLOCK, bytes, sizeof bytes);
    ck_assert(ll_log__block_decode(bytes, b));
}

/* ---- cases ---- */

/* If a block's header says where the first record of the block begins, a record begins there. A
 * block that lies within a longer record has no such place. _i 0: short records; 1: also records
 * longer than a block; 2: records that end at the ends of blocks. */
START_TEST(headers)
{
    const size_t lens[] = {333, 200000, 1000};
    fixture_create(&f);
    if (_i == 2) {
        unsigned char bytes[1024] = {0};
        for (unsigned i = 0; i < 800; i++) {
            uint64_t into = (ll_log_tail(f.log).v - 8) % ROOM;
            size_t size = ROOM - into < 1000 ? ROOM - into : 800;
            if (size < LL_RECORD_NARROW || (ROOM - into - size > 0 && ROOM - into - size < 40))
                size += 80;
            struct ll_record rec = {.kind = LL_REC_NOTE,
                                    .page = LLADD_NO_PAGE,
                                    .redo = {bytes, size - LL_RECORD_NARROW}};
            put_record(&f, &rec);
            if (i % 100 == 99)
                must(&f, ll_log_force(f.log, rec.lsn, &f.err));
        }
    } else {
        for (unsigned i = 0; ll_log_tail(f.log).v < 3 * SEGMENT; i++) {
            put(&f, i % 5 == 0 ? lens[_i] : 70);
            if (i % 50 == 0)
                force(&f);
        }
    }
    must(&f, ll_log_force(f.log, lladd_lsn_of(ll_log_tail(f.log).v - 8), &f.err));
    struct ll_log_cursor *c;
    struct ll_record rec;
    ck_assert_int_eq(ll_log_cursor_open(f.log, &c), 0);
    unsigned known = 0;
    for (unsigned block = 0; block < (ll_log_tail(f.log).v - 8) / ROOM; block++) {
        struct ll_log__block b;
        uint64_t begin = 8 + (uint64_t)block * ROOM;
        header_of(block, &b);
        ck_assert_uint_eq(b.lsn, begin);
        ck_assert_uint_eq(b.index, block % 4);
        must(&f, ll_log_cursor_seek(c, lladd_lsn_of(begin), &rec, &f.err));
        if (b.first_record == LL_LOG_BLOCK_UNKNOWN)
            continue;
        known++;
        if (b.first_record == LL_LOG_BLOCK_NONE)
            ck_assert_uint_ge(rec.lsn.v, begin + ROOM);
        else
            ck_assert_uint_eq(rec.lsn.v, begin + b.first_record);
    }
    ck_assert_uint_gt(known, 5);
    ll_log_cursor_close(c);
    if (_i < 2)
        check_records(&f, 0, f.count);
}
END_TEST

/* Flips bits in the headers of blocks below the watermark, and in the bytes after each header: of
 * every byte in one block, of every ninth byte in the others. */
START_TEST(damaged_headers)
{
    char name[LL_LOG_NAME_SIZE];
    fixture_create(&f);
    fill_to(8 + 2 * ROOM + 1000, 500);
    force(&f);
    fill_to(8 + 3 * ROOM + 1000, 500);
    force(&f);
    put(&f, 100);
    force(&f);
    name_of(8, name);
    for (unsigned block = 0; block < 4; block++) {
        for (uint64_t off = 0; off < LL_LOG_BLOCK_HEADER + 40; off += block == 1 ? 1 : 9) {
            flip_byte(&f, name, block * BLOCK + off, 0x40);
            must_fail(&f, LLADD_CORRUPT_LOG, look(&f));
            ck_assert_ptr_nonnull(strstr(f.err.message, name));
            flip_byte(&f, name, block * BLOCK + off, 0x40);
        }
    }
    /* A header of zeros, and a good one in the wrong block. */
    unsigned char old[LL_LOG_BLOCK_HEADER], zeros[LL_LOG_BLOCK_HEADER] = {0};
    read_file(&f, name, 2 * BLOCK, old, sizeof old);
    write_file(&f, name, 2 * BLOCK, zeros, sizeof zeros);
    must_fail(&f, LLADD_CORRUPT_LOG, look(&f));
    write_file(&f, name, 2 * BLOCK, old, sizeof old);
    unsigned char other[LL_LOG_BLOCK_HEADER];
    read_file(&f, name, BLOCK, other, sizeof other);
    write_file(&f, name, 2 * BLOCK, other, sizeof other);
    must_fail(&f, LLADD_CORRUPT_LOG, look(&f));
    write_file(&f, name, 2 * BLOCK, old, sizeof old);
    must(&f, look(&f));
}
END_TEST

/* Of a group over several blocks, a random subset of the sectors was not written. */
START_TEST(torn_blocks)
{
    uint64_t random = 5 + (uint64_t)_i;
    for (unsigned round = 0; round < 12; round++) {
        fixture_free(&f);
        setup();
        fixture_create(&f);
        fill_to(30000 + round * 7000, 300);
        force(&f);
        size_t durable = f.count;
        fill_to(ll_log_tail(f.log).v + 40000 + round * 20000, _i ? 3000 : 200);
        must(&f, ll_log_write(f.log, f.list[f.count - 1].rec.lsn, &f.err));
        ll_log_close(f.log);
        f.log = NULL;
        struct fault_crash how = {FAULT_SUBSET, seeded_next(&random), true};
        fault_device_power_cycle(f.fd, &how);
        must(&f, reopen(&f));
        ck_assert_uint_ge(f.count, durable);
        fill_to(ll_log_tail(f.log).v + 100000, 500);
        force(&f);
        size_t n = f.count;
        crash_and_reopen(&f, FAULT_POWER);
        ck_assert_uint_eq(f.count, n);
        check_records(&f, 0, n);
    }
}
END_TEST

/* Of a torn group, the header of one block was not written, but all payload was. The scan must not
 * accept payload of a block without its header. */
START_TEST(payload_without_header)
{
    char name[LL_LOG_NAME_SIZE];
    unsigned char zeros[LL_LOG_BLOCK_HEADER] = {0};
    fixture_create(&f);
    put(&f, 10);
    force(&f);
    fill_to(8 + ROOM + 5000, 400);
    must(&f, ll_log_write(f.log, f.list[f.count - 1].rec.lsn, &f.err));
    size_t all = f.count;
    name_of(8, name);
    write_file(&f, name, BLOCK, zeros, sizeof zeros);
    must(&f, reopen(&f));
    ck_assert_uint_gt(f.count, 1);
    ck_assert_uint_lt(f.count, all);
    ck_assert_uint_le(f.list[f.count - 1].rec.lsn.v + f.list[f.count - 1].rec.size, 8 + ROOM);
    fill_to(ll_log_tail(f.log).v + 70000, 400);
    check_records(&f, 0, f.count);
}
END_TEST

/* Reused files hold whole blocks of their former use. */
START_TEST(stale_blocks)
{
    fixture_create(&f);
    for (unsigned turn = 0; turn < 4; turn++) {
        fill_to(ll_log_tail(f.log).v + 2 * SEGMENT, 1000);
        force(&f);
        size_t from = f.count - 10;
        must(&f, ll_log_truncate(f.log, f.list[from].rec.lsn, &f.err));
        f.start.from = f.list[from].rec.lsn;
        f.start.watermark = ll_log_durable(f.log);
    }
    /* Crashes at several places in a reused file. */
    for (unsigned i = 0; i < 9; i++) {
        fill_to(ll_log_tail(f.log).v + 30000, 700);
        if (i % 2)
            force(&f);
        size_t n = i % 2 ? f.count : f.durable_count;
        crash_and_reopen(&f, FAULT_POWER);
        ck_assert_uint_eq(f.count, n);
        check_records(&f, n - 5, n);
    }
}
END_TEST

/* Inspection goes on after a damaged header, and after a damaged record. */
START_TEST(read_after_damage)
{
    struct ll_log_cursor *c;
    struct ll_record rec;
    char name[LL_LOG_NAME_SIZE];
    fixture_create(&f);
    fill_to(8 + 3 * ROOM, 500);
    force(&f);
    put(&f, 1);
    force(&f);
    name_of(8, name);
    flip_byte(&f, name, BLOCK + 10, 1);
    flip_byte(&f, name, 2 * BLOCK + 30000, 1);
    ll_log_close(f.log);
    f.cfg.read_only = f.cfg.lenient = true;
    must(&f, ll_log_open(&f.cfg, &f.start, &f.log, &f.err));
    ck_assert_int_eq(ll_log_cursor_open(f.log, &c), 0);
    size_t seen = 0, damaged = 0;
    uint64_t last = 0;
    int rc = ll_log_cursor_seek(c, lladd_lsn_of(8), &rec, &f.err);
    while (rc != LLADD_END) {
        if (rc == 0) {
            ck_assert_uint_gt(rec.lsn.v, last);
            last = rec.lsn.v;
            seen += rec.kind != LL_REC_SEAL;
            rc = ll_log_cursor_next(c, &rec, &f.err);
            continue;
        }
        ck_assert_int_eq(rc, LLADD_CORRUPT_LOG);
        ck_assert_uint_lt(damaged++, 200);
        uint64_t at = f.err.lsn.v > last ? f.err.lsn.v : last;
        rc = ll_log_cursor_seek(c, lladd_lsn_of(at + 8), &rec, &f.err);
        if (rc == LLADD_CORRUPT_LOG) {
            /* Nothing in that block can be read, so the reader goes on to the next block. */
            struct ll_log_place place;
            ck_assert(ll_log_place(f.log, lladd_lsn_of(at + 8), &place));
            rc = ll_log_cursor_seek(c, place.next_block, &rec, &f.err);
        }
    }
    /* One block and one record are lost. */
    ck_assert_uint_ge(seen, f.count - ROOM / 500 - 3);
    ck_assert_uint_lt(seen, f.count - 50);
    ck_assert_uint_gt(last, 8 + 3 * ROOM - 600);
    ll_log_cursor_close(c);
}
END_TEST

/* Open refuses a header that belongs to another block or segment, and a file that has lost its end.
 * Only the check of sizes notices the lost end before its bytes are needed. */
START_TEST(wrong_files)
{
    struct lladd_file *file;
    char name[LL_LOG_NAME_SIZE], second[LL_LOG_NAME_SIZE];
    unsigned char old[LL_LOG_BLOCK_HEADER], other[LL_LOG_BLOCK_HEADER];
    fixture_create(&f);
    fill_to(8 + 5 * ROOM, 1000);
    force(&f);
    name_of(8, name);
    name_of(8 + 4 * ROOM, second);
    /* The segment's first header is replaced by that of another block, of an earlier segment, of a
     * later segment. */
    read_file(&f, second, 0, old, sizeof old);
    read_file(&f, name, BLOCK, other, sizeof other);
    write_file(&f, second, 0, other, sizeof other);
    must_fail(&f, LLADD_CORRUPT_LOG, look(&f));
    read_file(&f, name, 0, other, sizeof other);
    write_file(&f, second, 0, other, sizeof other);
    must_fail(&f, LLADD_CORRUPT_LOG, look(&f));
    ck_assert_ptr_nonnull(strstr(f.err.message, second));
    write_file(&f, name, 0, old, sizeof old);
    write_file(&f, second, 0, old, sizeof old);
    must_fail(&f, LLADD_MISSING_FILE, look(&f));
    struct ll_log_start clean = f.start;
    f.start.clean = true;
    f.start.end.v = 1000;
    f.start.segment.v = 8;
    f.start.segment_bytes = SEGMENT;
    must_fail(&f, LLADD_CORRUPT_LOG, look(&f));
    f.start = clean;
    write_file(&f, name, 0, other, sizeof other);
    must(&f, look(&f));
    ck_assert_int_eq(ll_io_open(f.memory, second, 0, &file), 0);
    ck_assert_int_eq(ll_io_truncate(f.memory, file, SEGMENT - 1), 0);
    ck_assert_int_eq(ll_io_close(f.memory, file), 0);
    must_fail(&f, LLADD_MISSING_FILE, look(&f));
    ck_assert_ptr_nonnull(strstr(f.err.message, second));
}
END_TEST

/* Clean stops at each place around a block's end. */
START_TEST(stop_around_block_ends)
{
    fixture_create(&f);
    fill_to(8 + ROOM - 400, 200);
    for (unsigned i = 0; i < 40; i++) {
        put(&f, 8 * (i % 4));
        stop_and_reopen(&f);
    }
    ck_assert_uint_gt(ll_log_tail(f.log).v, 8 + ROOM + 200);
    check_records(&f, 0, f.count);
    crash_and_reopen(&f, FAULT_POWER);
    ck_assert_uint_ge(f.count, 40);
    check_records(&f, 0, f.count);
}
END_TEST

static void begin_with_ring(uint64_t bytes)
{
    fixture_free(&f);
    fixture_init(&f);
    f.cfg.segment_min = f.cfg.segment_max = 1u << 27;
    f.cfg.ring_bytes = bytes;
    fixture_create(&f);
}

/* A write needs more headers than the writer's buffer has entries. _i 0: the longest record alone
 * needs them; 1: several long records need them together, and too few entries are left for the last
 * one. */
START_TEST(headers_of_long_records)
{
    begin_with_ring(_i == 0 ? 1u << 26 : 1u << 25);
    put(&f, 100);
    force(&f);
    if (_i == 0) {
        while ((ll_log_tail(f.log).v - 8) % ROOM < ROOM - 6000)
            put(&f, 3000);
        force(&f);
        put(&f, ll_log_record_max(f.log) - ll_record_bound(0, 0));
    } else {
        for (int i = 0; i < 15; i++)
            put(&f, 1 << 20);
        put(&f, 5 << 20);
    }
    force(&f);
    size_t n = f.count;
    crash_and_reopen(&f, FAULT_POWER);
    ck_assert_uint_eq(f.count, n);
    check_records(&f, 0, f.count);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("blocks");
    TCase *t = tcase_create("blocks");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, headers, 0, 3);
    tcase_add_test(t, damaged_headers);
    tcase_add_loop_test(t, torn_blocks, 0, 2);
    tcase_add_test(t, payload_without_header);
    tcase_add_test(t, stale_blocks);
    tcase_add_test(t, read_after_damage);
    tcase_add_test(t, wrong_files);
    tcase_add_test(t, stop_around_block_ends);
    tcase_add_loop_test(t, headers_of_long_records, 0, 2);
    suite_add_tcase(s, t);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed == 0 ? 0 : 1;
}
