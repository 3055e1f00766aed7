/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reading the log in batches. The records are divided among several readers by their pages. Every
 * record reaches exactly one reader, whole and in order, for any number of readers and any position
 * of the record in blocks and segments. If any byte of a record is damaged, a reader reports damage
 * at the LSN of that record.
 */
#include "log_fixture.h"

#include <stdlib.h>
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

/* ---- helpers ---- */

/* Appends many more records than the ring holds, with payloads of 0 to 3900 bytes. */
static void append_many(void)
{
    for (unsigned i = 0; i < 600; i++) {
        put(&f, i % 50 == 7 ? 3900 : (i * 37) % 300);
        if (i % 40 == 0)
            force(&f);
    }
    force(&f);
}

static size_t index_of(lladd_lsn lsn)
{
    size_t i = 0;
    while (i < f.count && f.list[i].rec.lsn.v != lsn.v)
        i++;
    ck_assert_uint_lt(i, f.count);
    return i;
}

/* Reads the share from list[from] to the end of the log; seen[] counts the records of the share,
 * and *passed all records that were read or passed over. Returns 0 or the error. */
static int read_share(struct ll_log_share share, size_t from, unsigned most, unsigned char *seen,
                      uint64_t *passed, struct lladd_error *err)
{
    struct ll_log_cursor *c;
    struct ll_log_batch batch;
    uint64_t last = 0;
    ck_assert_int_eq(ll_log_cursor_open(f.log, &c), 0);
    int rc = ll_log_cursor_read(c, f.list[from].rec.lsn, &batch.record[0], err);
    *passed = rc == 0;
    if (!rc && ll_log_share_has(share, &batch.record[0]))
        seen[from]++;
    while (!rc && (rc = ll_log_cursor_batch(c, share, most, &batch, err)) == 0) {
        *passed += batch.passed;
        ck_assert_uint_le(batch.n, most);
        ck_assert_uint_le(batch.n, batch.passed);
        for (uint32_t i = 0; i < batch.n; i++) {
            const struct ll_record *rec = &batch.record[i];
            ck_assert_uint_gt(rec->lsn.v, last);
            ck_assert_uint_le(rec->lsn.v + rec->size, batch.end.v);
            ck_assert(ll_log_share_has(share, rec));
            last = rec->lsn.v;
            if (rec->kind == LL_REC_SEAL)
                continue;
            size_t at = index_of(rec->lsn);
            check_record(&f, rec, at);
            seen[at]++;
        }
    }
    ll_log_cursor_close(c);
    return rc == LLADD_END ? 0 : rc;
}

/* Reads the share from list[from] to `until` or a little further. Returns 0 or the error. */
static int skim_share(struct ll_log_share share, size_t from, uint64_t until,
                      struct lladd_error *err)
{
    struct ll_log_cursor *c;
    struct ll_log_batch batch;
    ck_assert_int_eq(ll_log_cursor_open(f.log, &c), 0);
    int rc = ll_log_cursor_read(c, f.list[from].rec.lsn, &batch.record[0], err);
    batch.end.v = 0;
    while (!rc && batch.end.v < until)
        rc = ll_log_cursor_batch(c, share, LL_LOG_BATCH, &batch, err);
    ll_log_cursor_close(c);
    return rc;
}

/* ---- cases ---- */

START_TEST(every_record_reaches_one_reader)
{
    static const uint32_t readers[] = {1, 2, 3, 8};
    static const unsigned most[] = {1, 5, LL_LOG_BATCH};
    fixture_create(&f);
    append_many();
    for (size_t k = 0; k < sizeof readers / sizeof readers[0]; k++) {
        unsigned char *seen = calloc(f.count, 1);
        uint64_t all = 0;
        ck_assert_ptr_nonnull(seen);
        for (uint32_t i = 0; i < readers[k]; i++) {
            uint64_t passed;
            struct ll_log_share share = {i, readers[k]};
            must(&f, read_share(share, 0, most[_i], seen, &passed, &f.err));
            ck_assert_uint_ge(passed, f.count);
            all = i == 0 ? passed : all;
            ck_assert_uint_eq(passed, all); /* every reader has passed over all records */
        }
        for (size_t i = 0; i < f.count; i++)
            ck_assert_msg(seen[i] == 1, "record %zu: %u readers", i, seen[i]);
        free(seen);
    }
}
END_TEST

/* When the log goes on after a cut, no record is given twice or left out. */
START_TEST(a_cut_is_passed_over)
{
    fixture_create(&f);
    append_many();
    crash_and_reopen(&f, FAULT_POWER);
    size_t before = f.count;
    append_many();
    ck_assert_uint_gt(f.count, before);
    unsigned char *seen = calloc(f.count, 1);
    ck_assert_ptr_nonnull(seen);
    for (uint32_t i = 0; i < 2; i++) {
        uint64_t passed;
        struct ll_log_share share = {i, 2};
        must(&f, read_share(share, 0, LL_LOG_BATCH, seen, &passed, &f.err));
    }
    for (size_t i = 0; i < f.count; i++)
        ck_assert_uint_eq(seen[i], 1);
    free(seen);
}
END_TEST

/* Each byte of a record, up to the end of its block, is damaged in turn. The lowest LSN at which
 * one of the readers fails must be the LSN of that record. */
START_TEST(damage_is_found_at_its_own_lsn)
{
    enum { READERS = 3, BEFORE = 20, AFTER = 20 };
    fixture_create(&f);
    append_many();
    size_t victim = 100 + (size_t)_i;
    struct ll_log_place place;
    const struct ll_record *rec = &f.list[victim].rec;
    ck_assert(ll_log_place(f.log, rec->lsn, &place));
    uint64_t until = f.list[victim + AFTER].rec.lsn.v;
    uint32_t here = rec->size;
    if (rec->lsn.v + here > place.next_block.v)
        here = (uint32_t)(place.next_block.v - rec->lsn.v);
    for (uint32_t at = 0; at < here; at++) {
        uint64_t lowest = UINT64_MAX;
        int code = 0;
        flip_byte(&f, place.name, place.offset + at, (unsigned char)(1u << at % 8));
        for (uint32_t i = 0; i < READERS; i++) {
            struct lladd_error err = LLADD_ERROR_INIT;
            struct ll_log_share share = {i, READERS};
            int rc = skim_share(share, victim - BEFORE, until, &err);
            if (rc && err.lsn.v < lowest) {
                lowest = err.lsn.v;
                code = rc;
            }
        }
        ck_assert_msg(lowest == rec->lsn.v, "byte %u: LSN %llu, not %llu", at,
                      (unsigned long long)lowest, (unsigned long long)rec->lsn.v);
        ck_assert_int_eq(code, LLADD_CORRUPT_LOG);
        flip_byte(&f, place.name, place.offset + at, (unsigned char)(1u << at % 8));
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("batch");
    TCase *tc = tcase_create("all");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, every_record_reaches_one_reader, 0, 3);
    tcase_add_test(tc, a_cut_is_passed_over);
    tcase_add_loop_test(tc, damage_is_found_at_its_own_lsn, 0, 8);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
