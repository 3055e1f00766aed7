/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Slotted pages: records of any length can be stored, changed, freed and read, on every page size.
 * A model in memory has the expected records. Compaction depends only on the contents of the page.
 * Wrong calls are refused.
 */
#include "op_fixture.h"

#include "operations/records/slotted.h"

static struct fixture b;
static lladd_pageno page;

static void setup_size(uint32_t size)
{
    fixture_init(&b, size);
    fixture_open(&b);
    page = fixture_page(&b, "lladd.slotted");
}
static void setup(void)
{
    setup_size(4096);
}
static void teardown(void)
{
    fixture_free(&b);
}

static struct lladd_rid rid_of(uint32_t slot)
{
    return (struct lladd_rid){page, slot, 0};
}

static void expect(struct lladd_rid rid, const void *bytes, size_t len, unsigned tag)
{
    unsigned char *got = malloc(65536);
    size_t got_len = 0;
    unsigned got_tag = 99;
    ck_assert_ptr_nonnull(got);
    ok_db(&b, lladd_slotted_read(b.db, rid, got, 65536, &got_len, &got_tag, &b.err));
    ck_assert_uint_eq(got_len, len);
    ck_assert_uint_eq(got_tag, tag);
    ck_assert_mem_eq(got, bytes, len);
    free(got);
}

static void expect_none(struct lladd_rid rid)
{
    char c;
    ck_assert_int_eq(lladd_slotted_read(b.db, rid, &c, 1, NULL, NULL, &b.err), LLADD_OUT_OF_RANGE);
    ck_assert_uint_eq(b.err.page.v, rid.page.v);
}

static struct lladd_rid store(struct lladd_txn *txn, const void *bytes, size_t len, unsigned tag)
{
    struct lladd_rid rid = {{0}, 0, 0};
    ok(txn, lladd_slotted_alloc(txn, page, bytes, len, tag, &rid));
    ck_assert_uint_eq(rid.page.v, page.v);
    ck_assert_uint_eq(rid.size, len);
    return rid;
}

/* ---- one record ------------------------------------------------------------------------------ */

START_TEST(the_life_of_a_record)
{
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_rid a = store(txn, "alpha", 5, 1), z = store(txn, "", 0, 0);
    expect(a, "alpha", 5, 1);
    expect(z, "", 0, 0);
    ok(txn, lladd_slotted_write(txn, a, 1, "LPH", 3));
    expect(a, "aLPHa", 5, 1);
    ok(txn, lladd_slotted_set(txn, a, "a longer record", 15, 2));
    expect(a, "a longer record", 15, 2);
    ok(txn, lladd_slotted_set(txn, a, "short", 5, 0));
    expect(a, "short", 5, 0);
    ok(txn, lladd_slotted_resize(txn, a, 8));
    expect(a, "short\0\0\0", 8, 0);
    ok(txn, lladd_slotted_resize(txn, a, 2));
    expect(a, "sh", 2, 0);
    ok(txn, lladd_slotted_free(txn, a));
    expect_none(a);
    commit(txn);
    fixture_crash(&b);
    expect_none(a);
    expect(z, "", 0, 0);
}
END_TEST

START_TEST(wrong_calls_are_refused)
{
    static unsigned char big[70000];
    struct lladd_txn *txn = fixture_begin(&b);
    uint32_t max = lladd_slotted_max(4096);
    struct lladd_rid a = store(txn, "alpha", 5, 1), r;
    lladd_lsn before = lladd_txn_id(txn);
    refuses(txn, LLADD_TOO_LARGE, lladd_slotted_alloc(txn, page, big, max + 1, 0, &r));
    refuses(txn, LLADD_TOO_LARGE, lladd_slotted_set(txn, a, big, 70000, 0));
    refuses(txn, LLADD_TOO_LARGE, lladd_slotted_resize(txn, a, max + 1));
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_slotted_alloc(txn, page, big, 1, 4, &r));
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_slotted_set(txn, a, big, 1, 4));
    refuses(txn, LLADD_PAGE_FULL, lladd_slotted_alloc(txn, page, big, max, 0, &r));
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_slotted_write(txn, a, 3, big, 3));
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_slotted_write(txn, a, 6, big, 0));
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_slotted_write(txn, a, UINT32_MAX, big, 2));
    static const uint32_t slots[] = {1, 2, 1000, 65535, 65536, UINT32_MAX};
    for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++) {
        refuses(txn, LLADD_OUT_OF_RANGE, lladd_slotted_free(txn, rid_of(slots[i])));
        refuses(txn, LLADD_OUT_OF_RANGE, lladd_slotted_set(txn, rid_of(slots[i]), "x", 1, 0));
        refuses(txn, LLADD_OUT_OF_RANGE, lladd_slotted_write(txn, rid_of(slots[i]), 0, "x", 1));
        refuses(txn, LLADD_OUT_OF_RANGE, lladd_slotted_resize(txn, rid_of(slots[i]), 1));
        expect_none(rid_of(slots[i]));
    }
    struct lladd_rid elsewhere = {lladd_page_of(0), 0, 0};
    refuses(txn, LLADD_WRONG_TYPE, lladd_slotted_free(txn, elsewhere));
    refuses(txn, LLADD_WRONG_TYPE, lladd_slotted_alloc(txn, lladd_page_of(1), "x", 1, 0, &r));
    ck_assert_int_eq(lladd_slotted_read(b.db, elsewhere, big, 1, NULL, NULL, &b.err),
                     LLADD_WRONG_TYPE);
    ck_assert_uint_eq(lladd_txn_id(txn).v, before.v);
    expect(a, "alpha", 5, 1);
    ok(txn, lladd_slotted_free(txn, a));
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_slotted_free(txn, a)); /* twice */
    commit(txn);
}
END_TEST

START_TEST(a_page_shows_its_owner_and_its_records)
{
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_page *held;
    struct lladd_record r;
    ok(txn, lladd_slotted_format(txn, page, 0x0123456789abcdef));
    store(txn, "one", 3, 0);
    store(txn, "two", 3, 3);
    struct lladd_rid third = store(txn, "three", 5, 0);
    ok(txn, lladd_slotted_free(txn, rid_of(0)));
    ok_db(&b, lladd_page_fix(b.db, page, LLADD_LATCH_SHARED, &held, &b.err));
    struct lladd_view v = lladd_page_view(held);
    ck_assert_uint_eq(lladd_slotted_owner(v), 0x0123456789abcdef);
    ck_assert_uint_eq(lladd_slotted_slots(v), 3);
    ck_assert(!lladd_slotted_record(v, 0, &r));
    ck_assert(lladd_slotted_record(v, 1, &r));
    ck_assert_uint_eq(r.tag, 3);
    ck_assert_mem_eq(r.bytes, "two", 3);
    ck_assert(lladd_slotted_record(v, third.slot, &r));
    ck_assert(!lladd_slotted_record(v, 3, &r));
    lladd_page_unfix(b.db, held, LLADD_LATCH_SHARED);
    commit(txn);
}
END_TEST

START_TEST(a_page_can_be_filled_to_the_last_byte)
{
    static const uint32_t sizes[] = {4096, 8192, 16384, 32768, 65536};
    setup_size(sizes[_i]);
    uint32_t max = lladd_slotted_max(sizes[_i]);
    unsigned char *bytes = malloc(max);
    ck_assert_ptr_nonnull(bytes);
    seeded_fill(1, bytes, max);
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_rid r = store(txn, bytes, max, 0), other;
    expect(r, bytes, max, 0);
    refuses(txn, LLADD_PAGE_FULL, lladd_slotted_alloc(txn, page, "", 0, 0, &other));
    commit(txn);
    fixture_crash(&b);
    expect(r, bytes, max, 0);
    /* Changes a long record in place, makes it shorter and longer, and aborts. */
    txn = fixture_begin(&b);
    unsigned char *bytes2 = malloc(max);
    ck_assert_ptr_nonnull(bytes2);
    seeded_fill(2, bytes2, max);
    ok(txn, lladd_slotted_set(txn, r, bytes2, max, 1));
    expect(r, bytes2, max, 1);
    ok(txn, lladd_slotted_set(txn, r, bytes2, 10, 1));
    expect(r, bytes2, 10, 1);
    ok(txn, lladd_slotted_set(txn, r, bytes, max - 100, 2));
    expect(r, bytes, max - 100, 2);
    ok(txn, lladd_slotted_write(txn, r, 5, bytes2, max - 110));
    ok(txn, lladd_slotted_resize(txn, r, 3));
    expect(r, bytes, 3, 2);
    ok(txn, lladd_slotted_resize(txn, r, max));
    abort_txn(txn);
    expect(r, bytes, max, 0);
    free(bytes2);
    free(bytes);
    fixture_free(&b);
}
END_TEST

/* ---- compaction ------------------------------------------------------------------------------ */

START_TEST(holes_are_gathered_when_they_are_needed)
{
    unsigned char bytes[600], all[1200];
    struct lladd_rid r[6];
    struct lladd_txn *txn = fixture_begin(&b);
    for (unsigned i = 0; i < 6; i++) {
        memset(bytes, 'a' + (int)i, sizeof bytes);
        r[i] = store(txn, bytes, sizeof bytes, 0);
    }
    commit(txn);
    txn = fixture_begin(&b);
    ok(txn, lladd_slotted_free(txn, r[1]));
    ok(txn, lladd_slotted_free(txn, r[3]));
    commit(txn);
    txn = fixture_begin(&b);
    memset(all, 'X', sizeof all);
    struct lladd_rid big = store(txn, all, sizeof all, 0); /* no hole is so large */
    expect(big, all, sizeof all, 0);
    for (unsigned i = 0; i < 6; i++) {
        memset(bytes, 'a' + (int)i, sizeof bytes);
        if (i != 1 && i != 3)
            expect(r[i], bytes, sizeof bytes, 0);
    }
    commit(txn);
    /* A record grows into holes. The space of its old bytes is reused for the new ones. */
    txn = fixture_begin(&b);
    ok(txn, lladd_slotted_free(txn, r[0]));
    ok(txn, lladd_slotted_free(txn, r[4]));
    commit(txn);
    txn = fixture_begin(&b);
    unsigned char *grown = malloc(2300);
    ck_assert_ptr_nonnull(grown);
    memset(grown, 'X', 2300);
    memcpy(grown + 2200, "the end", 7);
    ok(txn, lladd_slotted_set(txn, big, grown, 2300, 1));
    expect(big, grown, 2300, 1);
    memset(bytes, 'c', sizeof bytes);
    expect(r[2], bytes, sizeof bytes, 0);
    memset(bytes, 'f', sizeof bytes);
    expect(r[5], bytes, sizeof bytes, 0);
    abort_txn(txn);
    expect(big, all, sizeof all, 0);
    fixture_crash(&b);
    expect(big, all, sizeof all, 0);
    free(grown);
}
END_TEST

/* The bytes in the gap do not affect where records are placed. Two pages get the same operations,
 * and the gap of one page is overwritten before each step. Outside the gap the pages stay equal. */
START_TEST(history_repeated_gives_the_same_bytes)
{
    struct scratch s, t;
    unsigned char zeros[8] = {0}, bytes[9000];
    uint64_t seed = 21;
    int moved = 0;
    scratch_init(&s, 4096, 5, &ll_operations__slotted_format, lladd_span_of(zeros, 8));
    scratch_copy(&t, &s);
    for (int step = 0; step < 4000; step++) {
        uint64_t r = seeded_next(&seed);
        const struct lladd_op *const ops[] = {
            &ll_operations__slotted_alloc, &ll_operations__slotted_free,
            &ll_operations__slotted_set, &ll_operations__slotted_purge};
        const struct lladd_op *op = ops[r % 4];
        uint32_t slot = (uint32_t)(r >> 8) % 12, len = (uint32_t)(r >> 16) % 500;
        size_t n = 2;
        lladd_put16(bytes, (uint16_t)slot);
        if (op == ops[0] || op == ops[2]) {
            bytes[2] = (unsigned char)((r >> 32) % 4);
            lladd_put16(bytes + 3, (uint16_t)len);
            lladd_put16(bytes + 5, 0);
            n = op == ops[0] ? 5 : 7;
            seeded_fill(r, bytes + n, len);
            n += len;
        }
        struct lladd_span span = lladd_span_of(bytes, n);
        if (!op->validate(scratch_view(&s), LLADD_SPAN_REDO, span))
            continue;
        uint32_t begin, end, holes = slotted_get(s.bytes, SLOTTED_HOLES);
        ll_operations__slotted_page.hole(scratch_view(&t), &begin, &end);
        memset(t.bytes + begin, 0xa5, end - begin);
        op->redo(&s.page, span);
        ck_assert(op->validate(scratch_view(&t), LLADD_SPAN_REDO, span));
        op->redo(&t.page, span);
        moved += holes > 0 && slotted_get(s.bytes, SLOTTED_HOLES) == 0;
        ll_operations__slotted_page.hole(scratch_view(&s), &begin, &end);
        ck_assert_mem_eq(s.bytes, t.bytes, begin);
        ck_assert_mem_eq(s.bytes + end, t.bytes + end, 4096 - end);
        ck_assert(ll_operations__slotted_page.check(scratch_view(&s)));
    }
    ck_assert_int_gt(moved, 20);
    scratch_free(&s);
    scratch_free(&t);
}
END_TEST

/* ---- random calls and a model ---------------------------------------------------------------- */

enum { MODEL_SLOTS = 200, MODEL_LEN = 700 };

struct model_record {
    bool there;
    uint32_t len;
    unsigned tag;
    unsigned char bytes[MODEL_LEN];
};

struct model {
    struct model_record now[MODEL_SLOTS];
    unsigned full, done;
};

static void model_expect(const struct model *m)
{
    for (uint32_t s = 0; s < MODEL_SLOTS; s++) {
        if (m->now[s].there)
            expect(rid_of(s), m->now[s].bytes, m->now[s].len, m->now[s].tag);
        else
            expect_none(rid_of(s));
    }
}

static uint32_t model_len(uint64_t r)
{
    return (uint32_t)(r % (r >> 20 & 3 ? 40 : MODEL_LEN));
}

static int model_alloc(struct model *m, struct lladd_txn *txn, uint64_t r)
{
    struct model_record n = {true, model_len(r), (unsigned)(r >> 30) % 4, {0}};
    struct lladd_rid rid;
    seeded_fill(r, n.bytes, n.len);
    int rc = lladd_slotted_alloc(txn, page, n.bytes, n.len, n.tag, &rid);
    if (!rc) {
        ck_assert_uint_lt(rid.slot, MODEL_SLOTS);
        ck_assert(!m->now[rid.slot].there);
        m->now[rid.slot] = n;
    }
    return rc;
}

static int model_change(struct model_record *e, struct lladd_txn *txn, uint32_t slot, uint64_t r)
{
    struct model_record n = *e;
    int rc;
    switch (r >> 60) {
    case 0:
    case 1:
    case 2:
    case 3:
        rc = lladd_slotted_free(txn, rid_of(slot));
        n.there = false;
        break;
    case 4:
    case 5:
        n.len = model_len(r);
        if (n.len > e->len)
            memset(n.bytes + e->len, 0, n.len - e->len);
        rc = lladd_slotted_resize(txn, rid_of(slot), n.len);
        break;
    case 6:
    case 7:
    case 8:
        if (e->len == 0)
            return 0;
        {
            uint32_t at = (uint32_t)(r >> 8) % e->len,
                     len = (uint32_t)(r >> 16) % (e->len - at + 1);
            seeded_fill(r, n.bytes + at, len);
            rc = lladd_slotted_write(txn, rid_of(slot), at, n.bytes + at, len);
        }
        break;
    default:
        n.len = model_len(r);
        n.tag = (unsigned)(r >> 40) % 4;
        if (r >> 50 & 1)
            seeded_fill(r, n.bytes, n.len);
        else if (n.len > e->len)
            seeded_fill(r, n.bytes + e->len, n.len - e->len);
        rc = lladd_slotted_set(txn, rid_of(slot), n.bytes, n.len, n.tag);
        break;
    }
    if (!rc)
        *e = n;
    return rc;
}

START_TEST(random_histories_of_one_transaction_at_a_time)
{
    static struct model m, saved;
    uint64_t seed = (uint64_t)_i + 77;
    memset(&m, 0, sizeof m);
    for (int t = 0; t < 60; t++) {
        struct lladd_txn *txn = fixture_begin(&b);
        saved = m;
        for (int step = 0; step < 30; step++) {
            uint64_t r = seeded_next(&seed);
            uint32_t slot = (uint32_t)(r >> 4) % (t % 2 ? 20 : MODEL_SLOTS);
            int rc = m.now[slot].there ? model_change(&m.now[slot], txn, slot, seeded_next(&seed))
                                       : model_alloc(&m, txn, seeded_next(&seed));
            ck_assert_msg(rc == 0 || rc == LLADD_PAGE_FULL, "%s: %s", lladd_code_name(rc),
                          lladd_txn_error(txn)->message);
            m.full += rc != 0;
            m.done += rc == 0;
        }
        model_expect(&m);
        uint64_t end = seeded_next(&seed) % 8;
        if (end < 3) {
            abort_txn(txn);
            saved.full = m.full;
            saved.done = m.done;
            m = saved;
        } else if (end < 7) {
            commit(txn);
        } else {
            fixture_crash(&b);
            saved.full = m.full;
            saved.done = m.done;
            m = saved;
        }
        model_expect(&m);
    }
    ck_assert_uint_gt(m.full, 20);
    ck_assert_uint_gt(m.done, 500);
}
END_TEST

/* ---- on a held page -------------------------------------------------------------------------- */

START_TEST(records_of_a_held_page)
{
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_page *held;
    struct lladd_rid r, other;
    static unsigned char bytes[5000];
    memset(bytes, 'b', sizeof bytes);
    ok(txn, lladd_slotted_credit(txn, 4));
    ok_db(&b, lladd_page_fix(b.db, page, LLADD_LATCH_EXCLUSIVE, &held, &b.err));
    ok(txn, lladd_slotted_alloc_held(txn, held, "first", 5, 1, &r));
    ok(txn, lladd_slotted_alloc_held(txn, held, bytes, 3000, 0, &other));
    ok(txn, lladd_slotted_set_held(txn, held, r.slot, "first again", 11, 2));
    ok(txn, lladd_slotted_free_held(txn, held, other.slot));
    lladd_page_unfix(b.db, held, LLADD_LATCH_EXCLUSIVE);
    expect(r, "first again", 11, 2);
    expect_none(other);
    commit(txn);
    /* A ghost that no transaction reserves any more is purged while the caller holds the latch. */
    txn = fixture_begin(&b);
    ok(txn, lladd_slotted_credit(txn, 2));
    ok_db(&b, lladd_page_fix(b.db, page, LLADD_LATCH_EXCLUSIVE, &held, &b.err));
    ok(txn, lladd_slotted_alloc_held(txn, held, bytes, 3900, 0, &other));
    refuses(txn, LLADD_TOO_LARGE, lladd_slotted_alloc_held(txn, held, bytes, 5000, 0, &other));
    lladd_page_unfix(b.db, held, LLADD_LATCH_EXCLUSIVE);
    expect(other, bytes, 3900, 0);
    abort_txn(txn);
    expect_none(other);
    expect(r, "first again", 11, 2);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("slotted pages");
    TCase *c = tcase_create("records");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, the_life_of_a_record);
    tcase_add_test(c, wrong_calls_are_refused);
    tcase_add_test(c, a_page_shows_its_owner_and_its_records);
    tcase_add_test(c, holes_are_gathered_when_they_are_needed);
    tcase_add_test(c, records_of_a_held_page);
    tcase_add_loop_test(c, random_histories_of_one_transaction_at_a_time, 0, 8);
    suite_add_tcase(s, c);
    c = tcase_create("pages");
    tcase_add_loop_test(c, a_page_can_be_filled_to_the_last_byte, 0, 5);
    tcase_add_test(c, history_repeated_gives_the_same_bytes);
    suite_add_tcase(s, c);
    return fixture_run(s);
}
