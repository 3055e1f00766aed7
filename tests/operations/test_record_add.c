/* SPDX-License-Identifier: BSD-2-Clause */
/* Increments of fields of records: on slotted pages, on pages of fixed-length records, and in
 * heaps. In a heap the record is on its home page, or has moved to another page. */
#include "op_fixture.h"

#include <lladd/heap.h>
#include <lladd/log_read.h>

enum kind { SLOTTED, FIXED, AT_HOME, MOVED, KINDS };
enum { LEN = 40, FIELD = 12, OTHER = 20 };

static struct fixture b;
static enum kind kind;
static lladd_pageno heap_root;
static struct lladd_heap *heap;
static struct lladd_rid rid;

static int add_at(struct lladd_txn *txn, uint32_t offset, int64_t delta)
{
    switch (kind) {
    case SLOTTED:
        return lladd_slotted_add(txn, rid, offset, delta);
    case FIXED:
        return lladd_fixed_add(txn, rid, offset, delta);
    default:
        return lladd_heap_add(txn, heap, rid, offset, delta);
    }
}

static int add(struct lladd_txn *txn, int64_t delta)
{
    return add_at(txn, FIELD, delta);
}

static int write_part(struct lladd_txn *txn, uint32_t offset, const void *bytes, size_t len)
{
    switch (kind) {
    case SLOTTED:
        return lladd_slotted_write(txn, rid, offset, bytes, len);
    case FIXED:
        return lladd_fixed_set(txn, rid, offset, bytes, len);
    default:
        return lladd_heap_write(txn, heap, rid, offset, bytes, len);
    }
}

static void read_all(unsigned char out[LEN])
{
    size_t len = LEN;
    int rc = kind == SLOTTED ? lladd_slotted_read(b.db, rid, out, LEN, &len, NULL, &b.err)
             : kind == FIXED ? lladd_fixed_read(b.db, rid, out, LEN, &b.err)
                             : lladd_heap_get(heap, rid, out, LEN, &len, &b.err);
    ck_assert_msg(rc == 0, "%s", b.err.message);
    ck_assert_uint_eq(len, LEN);
}

static int64_t sum_at(uint32_t offset)
{
    unsigned char bytes[LEN];
    read_all(bytes);
    return (int64_t)lladd_get64(bytes + offset);
}

static int64_t sum(void)
{
    return sum_at(FIELD);
}

/* Makes a heap record that has moved, because its page was full when the record became longer. */
static void make_moved(struct lladd_txn *txn, const unsigned char *bytes)
{
    static const unsigned char large[300];
    struct lladd_rid other = {{0}, 0, 0};
    ok(txn, lladd_heap_insert(txn, heap, bytes, 8, &rid));
    do
        ok(txn, lladd_heap_insert(txn, heap, large, sizeof large, &other));
    while (other.page.v == rid.page.v);
    for (unsigned i = 0; i < 20; i++) /* small records fill the rest of the page */
        ok(txn, lladd_heap_insert(txn, heap, bytes, 16, &other));
    ok(txn, lladd_heap_set(txn, heap, rid, large, sizeof large));
    ok(txn, lladd_heap_set(txn, heap, rid, bytes, LEN));
}

static void make(void)
{
    unsigned char bytes[LEN];
    lladd_pageno page;
    memset(bytes, 0, sizeof bytes);
    struct lladd_txn *txn = fixture_begin(&b);
    if (kind == SLOTTED || kind == FIXED)
        ok(txn, lladd_page_alloc(txn, &page));
    else
        ok(txn, lladd_heap_create_open(txn, &heap_root, &heap));
    switch (kind) {
    case SLOTTED:
        ok(txn, lladd_slotted_format(txn, page, 0));
        ok(txn, lladd_slotted_alloc(txn, page, bytes, LEN, 0, &rid));
        break;
    case FIXED:
        ok(txn, lladd_fixed_format(txn, page, LEN));
        ok(txn, lladd_fixed_alloc(txn, page, bytes, &rid));
        break;
    case AT_HOME:
        ok(txn, lladd_heap_insert(txn, heap, bytes, LEN, &rid));
        break;
    default:
        make_moved(txn, bytes);
    }
    commit(txn);
}

static void setup(void)
{
    fixture_init(&b, 4096);
    fixture_open(&b);
}

static void teardown(void)
{
    lladd_heap_close(heap);
    heap = NULL;
    fixture_check(&b);
    fixture_free(&b);
}

/* ---- concurrent transactions --------------------------------------------------------------- */

/* Three transactions add to one field. Bit i of `how`: transaction i commits. Bit 3: the order in
 * which they end. */
START_TEST(each_rollback_undoes_its_own_additions)
{
    kind = (enum kind)(_i % KINDS);
    make();
    for (unsigned how = 0; how < 16; how++) {
        static const int64_t delta[] = {5, -100, 70000};
        struct lladd_txn *txn[3];
        int64_t want = sum();
        for (unsigned i = 0; i < 3; i++)
            txn[i] = fixture_begin(&b);
        for (unsigned round = 0; round < 2; round++)
            for (unsigned i = 0; i < 3; i++)
                ok(txn[i], add(txn[i], delta[i]));
        ck_assert_int_eq(sum(), want + 2 * (5 - 100 + 70000));
        for (unsigned k = 0; k < 3; k++) {
            unsigned i = how & 8 ? 2 - k : k;
            want += how >> i & 1 ? 2 * delta[i] : 0;
            if (how >> i & 1)
                commit(txn[i]);
            else
                abort_txn(txn[i]);
        }
        ck_assert_int_eq(sum(), want);
    }
}
END_TEST

/* When the power fails, one transaction is open and another has ended. Recovery redoes the
 * additions of both, and undoes the first. */
START_TEST(a_crash_undoes_the_losers_additions_only)
{
    kind = (enum kind)(_i % KINDS);
    make();
    for (unsigned i = 0; i < 4; i++) {
        int64_t was = sum();
        struct lladd_txn *loser = fixture_begin(&b), *winner = fixture_begin(&b);
        ok(loser, add(loser, 1000));
        ok(winner, add(winner, 3));
        ok(loser, add(loser, 20000));
        if (i % 2)
            ok_db(&b, lladd_checkpoint(b.db, &b.err));
        commit(winner);
        fixture_crash(&b);
        if (kind == AT_HOME || kind == MOVED)
            ok_db(&b, lladd_heap_open(b.db, heap_root, &heap, &b.err));
        ck_assert_int_eq(sum(), was + 3);
    }
}
END_TEST

START_TEST(rollback_to_a_savepoint_undoes_later_additions)
{
    lladd_savepoint_id sp;
    kind = (enum kind)(_i % KINDS);
    make();
    struct lladd_txn *txn = fixture_begin(&b), *other = fixture_begin(&b);
    ok(txn, add(txn, 1));
    ok(txn, lladd_savepoint(txn, &sp));
    ok(txn, add(txn, 10));
    ok(other, add(other, 100));
    ok(txn, lladd_rollback_to(txn, sp));
    ck_assert_int_eq(sum(), 101);
    abort_txn(other);
    commit(txn);
    ck_assert_int_eq(sum(), 1);
}
END_TEST

/* One transaction adds to two fields and rolls back. Another one writes the bytes before, between
 * and after the fields, adds to the second field too, and commits. */
START_TEST(a_rollback_keeps_the_bytes_beside_the_field)
{
    unsigned char bytes[LEN];
    kind = (enum kind)(_i % KINDS);
    make();
    struct lladd_txn *one = fixture_begin(&b), *two = fixture_begin(&b);
    ok(one, add(one, -1)); /* changes all bits of the field */
    ok(two, write_part(two, 0, "before it...", FIELD));
    ok(two, write_part(two, OTHER + 8, "beyond it", 9));
    ok(one, add_at(one, OTHER, 7));
    ok(two, add_at(two, OTHER, 8));
    if (_i / KINDS) {
        abort_txn(one);
        commit(two);
    } else {
        commit(two);
        abort_txn(one);
    }
    read_all(bytes);
    ck_assert_mem_eq(bytes, "before it...", FIELD);
    ck_assert_mem_eq(bytes + OTHER + 8, "beyond it", 9);
    ck_assert_int_eq(sum(), 0);
    ck_assert_int_eq(sum_at(OTHER), 8);
}
END_TEST

/* Before the addition is undone, the record has moved on its page. */
START_TEST(an_addition_is_undone_after_a_compaction)
{
    static const unsigned char bytes[900];
    struct lladd_rid hole, others[8];
    kind = SLOTTED;
    struct lladd_txn *txn = fixture_begin(&b);
    lladd_pageno page;
    ok(txn, lladd_page_alloc(txn, &page));
    ok(txn, lladd_slotted_format(txn, page, 0));
    ok(txn, lladd_slotted_alloc(txn, page, bytes, sizeof bytes, 0, &hole));
    ok(txn, lladd_slotted_alloc(txn, page, bytes, LEN, 0, &rid));
    ok(txn, lladd_slotted_alloc(txn, page, bytes, sizeof bytes, 0, &others[0]));
    commit(txn);
    txn = fixture_begin(&b);
    ok(txn, lladd_slotted_free(txn, hole));
    commit(txn);
    struct lladd_txn *adds = fixture_begin(&b), *moves = fixture_begin(&b);
    ok(adds, add(adds, 77));
    unsigned n = 1;
    while (n < 8 && lladd_slotted_alloc(moves, page, bytes, 600, 0, &others[n]) == 0)
        n++;
    ck_assert_uint_gt(n, 3); /* the gap had less room, so the page was compacted */
    commit(moves);
    ck_assert_int_eq(sum(), 77);
    abort_txn(adds);
    ck_assert_int_eq(sum(), 0);
}
END_TEST

/* ---- numbers ------------------------------------------------------------------------------- */

START_TEST(wrong_additions_change_nothing)
{
    kind = (enum kind)(_i % KINDS);
    make();
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, add_at(txn, 0, 1));
    ok(txn, add_at(txn, LEN - 8, 1)); /* the last offset that fits, which is not a multiple of 8 */
    static const uint32_t beyond[] = {LEN - 7, LEN, LEN + 1, 60000, 65536 + FIELD, UINT32_MAX};
    for (size_t i = 0; i < sizeof beyond / sizeof beyond[0]; i++)
        refuses(txn, LLADD_OUT_OF_RANGE, add_at(txn, beyond[i], 1));
    ok(txn, add(txn, INT64_MAX));
    refuses(txn, LLADD_BAD_ARGUMENT, add(txn, 1));
    ck_assert_int_eq(sum(), INT64_MAX);
    struct lladd_rid was = rid;
    rid.slot = 60;
    refuses(txn, LLADD_OUT_OF_RANGE, add(txn, 1));
    rid.slot = 65536 + was.slot;
    refuses(txn, LLADD_OUT_OF_RANGE, add(txn, 1));
    rid = was;
    abort_txn(txn);
    ck_assert_int_eq(sum(), 0);
}
END_TEST

/* Additions of other transactions make the sum overflow in the meantime. The result must be
 * right. */
START_TEST(sums_are_modulo_2_to_the_64)
{
    kind = (enum kind)(_i % KINDS);
    make();
    struct lladd_txn *one = fixture_begin(&b), *two = fixture_begin(&b);
    ok(one, add(one, INT64_MIN));
    ok(two, add(two, INT64_MAX));
    abort_txn(one); /* -1 - INT64_MIN is INT64_MAX */
    ck_assert_int_eq(sum(), INT64_MAX);
    one = fixture_begin(&b);
    ok(one, add(one, -5));
    commit(one);
    ok(two, add(two, -3));
    abort_txn(two);
    ck_assert_int_eq(sum(), -5);
}
END_TEST

START_TEST(a_freed_record_refuses_additions)
{
    kind = (enum kind)(_i % KINDS);
    make();
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, add(txn, 9));
    ok(txn, kind == SLOTTED ? lladd_slotted_free(txn, rid)
            : kind == FIXED ? lladd_fixed_free(txn, rid)
                            : lladd_heap_delete(txn, heap, rid));
    refuses(txn, LLADD_OUT_OF_RANGE, add(txn, 1));
    abort_txn(txn);
    ck_assert_int_eq(sum(), 0);
}
END_TEST

/* Recovery may take locks again, so the log record must name the slot of the record. */
START_TEST(the_log_names_the_slot)
{
    unsigned char redo[12] = {0}, undo[12] = {0};
    lladd_put16(undo, 7);
    const struct lladd_op *ops[] = {&ll_operations__slotted_add, &ll_operations__fixed_add};
    for (unsigned i = 0; i < 2; i++) {
        struct lladd_log_entry e = {.op = ops[i]->name,
                                    .op_version = 1,
                                    .redo = lladd_span_of(redo, sizeof redo),
                                    .undo = lladd_span_of(undo, sizeof undo)};
        uint32_t slot = 0;
        ck_assert(lladd_logged_slot(&e, &slot));
        ck_assert_uint_eq(slot, 7);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("increments on records");
    TCase *t = tcase_create("add");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, each_rollback_undoes_its_own_additions, 0, KINDS);
    tcase_add_loop_test(t, a_crash_undoes_the_losers_additions_only, 0, KINDS);
    tcase_add_loop_test(t, rollback_to_a_savepoint_undoes_later_additions, 0, KINDS);
    tcase_add_loop_test(t, a_rollback_keeps_the_bytes_beside_the_field, 0, 2 * KINDS);
    tcase_add_test(t, an_addition_is_undone_after_a_compaction);
    tcase_add_loop_test(t, wrong_additions_change_nothing, 0, KINDS);
    tcase_add_loop_test(t, sums_are_modulo_2_to_the_64, 0, KINDS);
    tcase_add_loop_test(t, a_freed_record_refuses_additions, 0, KINDS);
    tcase_add_test(t, the_log_names_the_slot);
    suite_add_tcase(s, t);
    return fixture_run(s);
}
