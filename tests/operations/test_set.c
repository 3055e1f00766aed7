/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Plain bytes and counters. Bytes that were set can be read. Only the bytes that change are logged,
 * and undo restores exactly these. Additions of concurrent transactions to a counter commute. No
 * offset leads outside the page.
 */
#include "op_fixture.h"

static struct fixture b;
static lladd_pageno page;

static void setup_size(uint32_t size)
{
    fixture_init(&b, size);
    fixture_open(&b);
    page = fixture_page(&b, "lladd.bytes");
}
static void setup(void)
{
    setup_size(4096);
}
static void teardown(void)
{
    fixture_free(&b);
}

static void expect(uint32_t offset, const void *bytes, size_t len)
{
    unsigned char *got = malloc(len);
    ck_assert_ptr_nonnull(got);
    ok_db(&b, lladd_bytes_get(b.db, page, offset, got, len, &b.err));
    ck_assert_mem_eq(got, bytes, len);
    free(got);
}

/* ---- what is logged -------------------------------------------------------------------------- */

struct draft {
    unsigned char bytes[20000];
    struct lladd_draft d;
    struct lladd_error err;
};

static const unsigned char *undo_of(const struct draft *d)
{
    return d->bytes + d->d.redo_len;
}

/* Sets bytes of a page, tests redo and undo, and returns the record in *out. */
static void draft_set(struct scratch *s, const struct lladd_op *op, uint32_t offset,
                      const void *bytes, uint32_t len, struct draft *out)
{
    struct {
        const void *bytes;
        uint32_t offset, len;
    } args = {bytes, offset, len};
    struct scratch before;
    out->d = (struct lladd_draft){.bytes = out->bytes, .max = op->record_max, .error = &out->err};
    scratch_copy(&before, s);
    ck_assert_int_eq(op->prepare(NULL, scratch_view(s), lladd_span_of(&args, sizeof args), &out->d),
                     0);
    struct lladd_span redo = lladd_span_of(out->bytes, out->d.redo_len);
    struct lladd_span undo = lladd_span_of(undo_of(out), out->d.undo_len);
    ck_assert(op->validate(scratch_view(s), LLADD_SPAN_REDO, redo));
    op->redo(&s->page, redo);
    ck_assert_mem_eq(s->bytes + LLADD_PAGE_HEADER + offset, bytes, len);
    ck_assert(op->validate(scratch_view(s), LLADD_SPAN_UNDO, undo));
    struct scratch undone;
    scratch_copy(&undone, s);
    op->undo(&undone.page, undo);
    ck_assert_mem_eq(undone.bytes, before.bytes, s->page.size);
    scratch_free(&undone);
    scratch_free(&before);
}

static void scratch_bytes(struct scratch *s, uint32_t size)
{
    scratch_init(s, size, 5, &ll_operations__bytes_format, lladd_span_of("", 0));
}

START_TEST(a_set_of_eight_bytes_logs_twenty)
{
    static struct draft d;
    struct scratch s;
    scratch_bytes(&s, 4096);
    draft_set(&s, &ll_operations__set, 100, "\1\2\3\4\5\6\7\10", 8, &d);
    ck_assert_uint_eq(d.d.redo_len, 10);
    ck_assert_uint_eq(d.d.undo_len, 10);
    scratch_free(&s);
}
END_TEST

START_TEST(equal_bytes_at_both_ends_are_left_out)
{
    static struct draft d;
    struct scratch s;
    scratch_bytes(&s, 4096);
    draft_set(&s, &ll_operations__set, 100, "abcdefgh", 8, &d);
    draft_set(&s, &ll_operations__set, 100, "abXdeYgh", 8, &d);
    ck_assert_uint_eq(d.d.redo_len, 2 + 4);
    ck_assert_uint_eq(lladd_get16(d.bytes), 102);
    ck_assert_mem_eq(d.bytes + 2, "XdeY", 4);
    ck_assert_mem_eq(undo_of(&d) + 2, "cdef", 4);
    draft_set(&s, &ll_operations__set, 100, "abXdeYgh", 8, &d); /* nothing changes */
    ck_assert_uint_eq(d.d.redo_len, 2);
    draft_set(&s, &ll_operations__set, 4096 - 32, "", 0, &d);
    ck_assert_uint_eq(d.d.redo_len, 2);
    scratch_free(&s);
}
END_TEST

/* Two arrays differ in the bytes `first` and `last`, or are equal. The test tries all lengths, and
 * all places of the two bytes. */
START_TEST(the_difference_is_found_at_every_place)
{
    unsigned char a[40], c[40];
    for (size_t n = 0; n <= 40; n++) {
        for (size_t first = 0; first <= n; first++) {
            for (size_t last = first; last < n || last == first; last++) {
                size_t skip = 99, len;
                memset(a, 'x', sizeof a);
                memcpy(c, a, sizeof c);
                if (first < n)
                    c[first] = c[last] = 'y';
                len = ll_operations__differ(a, c, n, &skip);
                ck_assert_uint_eq(skip, first);
                ck_assert_uint_eq(len, first < n ? last - first + 1 : 0);
            }
        }
    }
}
END_TEST

START_TEST(set_range_logs_distant_changes_separately)
{
    static struct draft d;
    static unsigned char bytes[4000];
    struct scratch s;
    scratch_bytes(&s, 4096);
    bytes[10] = 1;
    bytes[17] = 1; /* the changes are so close to each other that they become one range */
    bytes[2000] = 2;
    bytes[3999] = 3;
    draft_set(&s, &ll_operations__set_range, 20, bytes, sizeof bytes, &d);
    ck_assert_uint_eq(d.d.redo_len, (4 + 8) + (4 + 1) + (4 + 1));
    ck_assert_uint_eq(lladd_get16(d.bytes), 30);
    ck_assert_uint_eq(lladd_get16(d.bytes + 12), 2020);
    draft_set(&s, &ll_operations__set_range, 20, bytes, sizeof bytes, &d);
    ck_assert_uint_eq(d.d.redo_len, 0);
    scratch_free(&s);
}
END_TEST

START_TEST(any_pattern_of_changes_fits_a_record)
{
    static struct draft d;
    static unsigned char bytes[4096];
    uint64_t seed = 3;
    struct scratch s;
    scratch_bytes(&s, 8192);
    for (uint32_t round = 0; round < 300; round++) {
        uint32_t gap = 1 + round % 20,
                 n = round % 3 ? 4096 : 1 + (uint32_t)seeded_next(&seed) % 4096;
        memcpy(bytes, s.bytes + LLADD_PAGE_HEADER + 50, n);
        for (uint32_t i = round % 7; i < n; i += gap)
            bytes[i] = (unsigned char)seeded_next(&seed);
        draft_set(&s, &ll_operations__set_range, 50, bytes, n, &d);
        draft_set(&s, &ll_operations__set_long, 60, bytes, n, &d);
    }
    scratch_free(&s);
}
END_TEST

/* ---- in a database --------------------------------------------------------------------------- */

START_TEST(set_commit_abort_crash)
{
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_bytes_set(txn, page, 0, "first", 5));
    ok(txn, lladd_bytes_set(txn, page, 4064 - 4, "last", 4));
    commit(txn);
    fixture_crash(&b);
    expect(0, "first", 5);
    expect(4060, "last", 4);
    txn = fixture_begin(&b);
    ok(txn, lladd_bytes_set(txn, page, 0, "FIRST", 5));
    ok(txn, lladd_bytes_set_range(txn, page, 2, "range of bytes", 14));
    expect(0, "FIrange of bytes", 16);
    abort_txn(txn);
    expect(0, "first\0\0\0\0\0\0\0\0\0\0\0", 16);
    txn = fixture_begin(&b);
    ok(txn, lladd_bytes_set(txn, page, 0, "FIRST", 5));
    lladd_lsn lsn;
    struct lladd_txn *other = fixture_begin(&b);
    ok(other, lladd_bytes_set(other, page, 100, "other", 5));
    ck_assert_int_eq(lladd_commit_async(other, &lsn), 0);
    ok_db(&b, lladd_wait_durable(b.db, lsn, &b.err));
    fixture_crash(&b); /* txn is open, so recovery rolls it back */
    expect(0, "first", 5);
    expect(100, "other", 5);
}
END_TEST

START_TEST(long_ranges_on_every_page_size)
{
    static const uint32_t sizes[] = {4096, 8192, 16384, 32768, 65536};
    setup_size(sizes[_i]);
    uint32_t body = lladd_body_size(sizes[_i]);
    unsigned char *bytes = malloc(body);
    ck_assert_ptr_nonnull(bytes);
    seeded_fill(1, bytes, body);
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_bytes_set(txn, page, 0, bytes, body));
    commit(txn);
    expect(0, bytes, body);
    txn = fixture_begin(&b);
    unsigned char *zeros = calloc(1, body);
    ok(txn, lladd_bytes_set_range(txn, page, 1, zeros, body - 2));
    abort_txn(txn);
    expect(0, bytes, body);
    fixture_crash(&b);
    expect(0, bytes, body);
    free(zeros);
    free(bytes);
    fixture_free(&b);
}
END_TEST

START_TEST(bytes_outside_the_page)
{
    unsigned char byte[9000] = {1};
    struct lladd_txn *txn = fixture_begin(&b);
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_bytes_set(txn, page, 4064, byte, 1));
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_bytes_set(txn, page, 4065, byte, 0));
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_bytes_set(txn, page, 4063, byte, 2));
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_bytes_set(txn, page, UINT32_MAX, byte, 2));
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_bytes_set(txn, page, 0, byte, 4065));
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_bytes_set(txn, page, 0, byte, 9000));
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_bytes_set_range(txn, page, 4000, byte, 65));
    ck_assert_int_eq(lladd_bytes_get(b.db, page, 4064, byte, 1, &b.err), LLADD_OUT_OF_RANGE);
    ck_assert_int_eq(lladd_bytes_get(b.db, page, UINT32_MAX, byte, 1, &b.err), LLADD_OUT_OF_RANGE);
    ck_assert_uint_eq(b.err.page.v, page.v);
    refuses(txn, LLADD_WRONG_TYPE, lladd_bytes_set(txn, lladd_page_of(0), 0, byte, 1));
    ck_assert_int_eq(lladd_bytes_get(b.db, lladd_page_of(1), 0, byte, 1, &b.err), LLADD_WRONG_TYPE);
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_bytes_set(txn, lladd_page_of(1u << 30), 0, byte, 1));
    ck_assert_uint_eq(lladd_txn_id(txn).v, 0); /* nothing was logged */
    commit(txn);
}
END_TEST

/* ---- counters -------------------------------------------------------------------------------- */

static int64_t counter(uint32_t offset)
{
    int64_t v = -1;
    ok_db(&b, lladd_counter_get(b.db, page, offset, &v, &b.err));
    return v;
}

/* Two transactions add and end in all orders; each commits or rolls back. */
START_TEST(increments_commute)
{
    for (int order = 0; order < 16; order++) {
        int64_t before = counter(8);
        struct lladd_txn *t[2] = {fixture_begin(&b), fixture_begin(&b)};
        int first = order & 1;
        ok(t[first], lladd_counter_add(t[first], page, 8, 5));
        ok(t[!first], lladd_counter_add(t[!first], page, 8, 100));
        ok(t[first], lladd_counter_add(t[first], page, 8, -2));
        ck_assert_int_eq(counter(8), before + 103);
        int64_t want = before;
        for (int i = 0; i < 2; i++) {
            int who = i ^ (order >> 1 & 1);
            bool keep = order >> (2 + who) & 1;
            if (keep)
                commit(t[who]);
            else
                abort_txn(t[who]);
            want += keep ? (who == first ? 3 : 100) : 0;
        }
        ck_assert_int_eq(counter(8), want);
        fixture_crash(&b);
        ck_assert_int_eq(counter(8), want);
    }
}
END_TEST

START_TEST(an_overflow_is_refused_but_not_in_undo)
{
    struct lladd_txn *txn = fixture_begin(&b), *other;
    ok(txn, lladd_counter_add(txn, page, 0, INT64_MAX - 10));
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_counter_add(txn, page, 0, 11));
    ok(txn, lladd_counter_add(txn, page, 0, 10));
    ck_assert_int_eq(counter(0), INT64_MAX);
    commit(txn);
    txn = fixture_begin(&b);
    ok(txn, lladd_counter_add(txn, page, 0, -20));
    other = fixture_begin(&b);
    ok(other, lladd_counter_add(other, page, 0, 15));
    commit(other);
    abort_txn(txn); /* overflows: undo computes modulo 2^64 */
    txn = fixture_begin(&b);
    ok(txn, lladd_counter_add(txn, page, 0, 1)); /* from INT64_MIN + 14 */
    commit(txn);
    ck_assert_int_eq(counter(0), INT64_MIN + 15);
}
END_TEST

START_TEST(counters_at_any_offset_of_the_page)
{
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_counter_add(txn, page, 4056, -1));
    ok(txn, lladd_counter_add(txn, page, 13, 7));
    ck_assert_int_eq(counter(4056), -1);
    ck_assert_int_eq(counter(13), 7);
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_counter_add(txn, page, 4057, 1));
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_counter_add(txn, page, UINT32_MAX - 3, 1));
    int64_t v;
    ck_assert_int_eq(lladd_counter_get(b.db, page, 4057, &v, &b.err), LLADD_OUT_OF_RANGE);
    commit(txn);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("bytes and counters");
    TCase *c = tcase_create("records");
    tcase_add_test(c, a_set_of_eight_bytes_logs_twenty);
    tcase_add_test(c, equal_bytes_at_both_ends_are_left_out);
    tcase_add_test(c, the_difference_is_found_at_every_place);
    tcase_add_test(c, set_range_logs_distant_changes_separately);
    tcase_add_test(c, any_pattern_of_changes_fits_a_record);
    tcase_add_loop_test(c, long_ranges_on_every_page_size, 0, 5);
    suite_add_tcase(s, c);
    c = tcase_create("database");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, set_commit_abort_crash);
    tcase_add_test(c, bytes_outside_the_page);
    tcase_add_test(c, increments_commute);
    tcase_add_test(c, an_overflow_is_refused_but_not_in_undo);
    tcase_add_test(c, counters_at_any_offset_of_the_page);
    suite_add_tcase(s, c);
    return fixture_run(s);
}
