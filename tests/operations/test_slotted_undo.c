/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Several transactions on one slotted page. Slots and space that a rollback may need are reserved.
 * So the rollback succeeds and restores the records, even if other transactions have filled the
 * page to the last byte. Other transactions get the slots and the space as soon as no rollback can
 * need them (REC-3).
 */
#include "history.h"

#include "operations/records/slotted.h"

#include <lladd/stats.h>

static struct fixture b;
static lladd_pageno page;

static void setup(void)
{
    fixture_init(&b, 4096);
    fixture_open(&b);
    page = fixture_page(&b, "lladd.slotted");
}
static void teardown(void)
{
    fixture_free(&b);
}

static struct lladd_rid store(struct lladd_txn *txn, char fill, size_t len)
{
    unsigned char bytes[4096];
    struct lladd_rid rid = {{0}, 0, 0};
    memset(bytes, fill, sizeof bytes);
    ok(txn, lladd_slotted_alloc(txn, page, bytes, len, 0, &rid));
    return rid;
}

/* Stores records of this length until none fits, and returns how many. */
static unsigned fill_page(struct lladd_txn *txn, size_t len)
{
    unsigned char bytes[4096];
    struct lladd_rid rid;
    unsigned n = 0;
    int rc;
    memset(bytes, 'f', sizeof bytes);
    while ((rc = lladd_slotted_alloc(txn, page, bytes, len, 0, &rid)) == 0)
        n++;
    ck_assert_int_eq(rc, LLADD_PAGE_FULL);
    return n;
}

static void expect(struct lladd_rid rid, char fill, size_t len)
{
    unsigned char bytes[4096], want[4096];
    size_t got = 0;
    memset(want, fill, sizeof want);
    ok_db(&b, lladd_slotted_read(b.db, rid, bytes, sizeof bytes, &got, NULL, &b.err));
    ck_assert_uint_eq(got, len);
    ck_assert_mem_eq(bytes, want, len);
}

static void expect_none(struct lladd_rid rid)
{
    ck_assert_int_eq(lladd_slotted_read(b.db, rid, NULL, 0, NULL, NULL, &b.err),
                     LLADD_OUT_OF_RANGE);
}

static unsigned count_records(void)
{
    struct lladd_page *held;
    struct lladd_record r;
    unsigned n = 0;
    ok_db(&b, lladd_page_fix(b.db, page, LLADD_LATCH_SHARED, &held, &b.err));
    struct lladd_view v = lladd_page_view(held);
    for (uint32_t s = 0; s < lladd_slotted_slots(v); s++)
        n += lladd_slotted_record(v, s, &r);
    lladd_page_unfix(b.db, held, LLADD_LATCH_SHARED);
    return n;
}

/* How the changes of the first transaction are undone:
 * - 0: by an abort;
 * - 1: after a crash;
 * - 2: by a rollback to a savepoint;
 * - 3: by an abort after a crash, at which the transaction was in doubt. */
enum { ENDS = 4 };

static void undo_changes(struct lladd_txn *txn, lladd_savepoint_id sp, int how)
{
    struct lladd_gid gid = fixture_gid("take back");
    switch (how) {
    case 0:
        abort_txn(txn);
        break;
    case 1:
        fixture_crash(&b);
        break;
    case 2:
        ok(txn, lladd_rollback_to(txn, sp));
        commit(txn);
        break;
    default:
        ok(txn, lladd_prepare(txn, &gid));
        fixture_crash(&b);
        ok_db(&b, lladd_in_doubt_claim(b.db, &gid, &txn, &b.err));
        struct lladd_txn *other = fixture_begin(&b);
        fill_page(other, 8); /* `other` does not get the space of the transaction in doubt */
        commit(other);
        abort_txn(txn);
        break;
    }
}

START_TEST(a_freed_record_comes_back_to_a_full_page)
{
    struct lladd_txn *txn = fixture_begin(&b), *other;
    lladd_savepoint_id sp;
    struct lladd_rid r = store(txn, 'r', 1000), s = store(txn, 's', 300);
    commit(txn);
    txn = fixture_begin(&b);
    ok(txn, lladd_savepoint(txn, &sp));
    ok(txn, lladd_slotted_free(txn, r));
    ok(txn, lladd_slotted_free(txn, s));
    other = fixture_begin(&b);
    unsigned n = fill_page(other, 100) + fill_page(other, 1);
    commit(other);
    undo_changes(txn, sp, _i);
    expect(r, 'r', 1000);
    expect(s, 's', 300);
    ck_assert_uint_ge(count_records(), n + 2);
}
END_TEST

START_TEST(a_shrunk_record_comes_back_to_a_full_page)
{
    struct lladd_txn *txn = fixture_begin(&b), *other;
    lladd_savepoint_id sp;
    struct lladd_rid r = store(txn, 'r', 2000);
    commit(txn);
    txn = fixture_begin(&b);
    ok(txn, lladd_savepoint(txn, &sp));
    ok(txn, lladd_slotted_set(txn, r, "x", 1, 0));
    other = fixture_begin(&b);
    fill_page(other, 50);
    ok(txn, lladd_slotted_resize(txn, r, 700)); /* the transaction can use its own reservation */
    ok(txn, lladd_slotted_resize(txn, r, 3));
    fill_page(other, 1);
    commit(other);
    undo_changes(txn, sp, _i);
    expect(r, 'r', 2000);
}
END_TEST

START_TEST(a_grown_record_shrinks_on_a_full_page)
{
    struct lladd_txn *txn = fixture_begin(&b), *other;
    lladd_savepoint_id sp;
    unsigned char bytes[4096];
    memset(bytes, 'R', sizeof bytes);
    struct lladd_rid r = store(txn, 'r', 100);
    commit(txn);
    txn = fixture_begin(&b);
    ok(txn, lladd_savepoint(txn, &sp));
    ok(txn, lladd_slotted_set(txn, r, bytes, 1500, 1));
    other = fixture_begin(&b);
    unsigned before = fill_page(other, 100);
    commit(other);
    undo_changes(txn, sp, _i);
    expect(r, 'r', 100);
    other = fixture_begin(&b);
    ck_assert_uint_ge(fill_page(other, 100), 1400 / 110); /* the space is no longer reserved */
    commit(other);
    ck_assert_uint_gt(before, 0);
}
END_TEST

START_TEST(an_undone_allocation_frees_its_slot)
{
    struct lladd_txn *txn = fixture_begin(&b), *other;
    lladd_savepoint_id sp;
    ok(txn, lladd_savepoint(txn, &sp));
    struct lladd_rid r = store(txn, 'r', 1000);
    other = fixture_begin(&b);
    struct lladd_rid o = store(other, 'o', 1000);
    fill_page(other, 64);
    commit(other);
    undo_changes(txn, sp, _i);
    expect_none(r);
    expect(o, 'o', 1000);
    other = fixture_begin(&b);
    struct lladd_rid again = store(other, 'n', 900);
    ck_assert_uint_eq(again.slot, r.slot);
    commit(other);
    expect(again, 'n', 900);
}
END_TEST

/* ---- when others get the space --------------------------------------------------------------- */

START_TEST(a_slot_is_not_reused_before_its_transaction_has_ended)
{
    struct lladd_txn *txn = fixture_begin(&b), *other;
    struct lladd_rid r = store(txn, 'r', 10);
    commit(txn);
    txn = fixture_begin(&b);
    ok(txn, lladd_slotted_free(txn, r));
    other = fixture_begin(&b);
    ck_assert_uint_ne(store(other, 'o', 10).slot, r.slot);
    ck_assert_uint_ne(store(txn, 't', 10).slot, r.slot); /* the slot is not reused before the end */
    commit(txn);
    fill_page(other, 10); /* purges the ghost, and uses its space */
    commit(other);
    expect(r, 'f', 10);
}
END_TEST

/* The space is free when the commit record is in the log, even before the record is durable. If a
 * crash keeps later records that use the space, it keeps the commit record too. */
START_TEST(space_is_free_when_the_commit_record_is_in_the_log)
{
    struct lladd_txn *txn = fixture_begin(&b), *other;
    lladd_lsn lsn;
    struct lladd_rid r = store(txn, 'r', 3000), o;
    commit(txn);
    txn = fixture_begin(&b);
    ok(txn, lladd_slotted_free(txn, r));
    other = fixture_begin(&b);
    refuses(other, LLADD_PAGE_FULL, lladd_slotted_alloc(other, page, NULL, 2000, 0, &o));
    ck_assert_int_eq(lladd_commit_async(txn, &lsn), 0);
    o = store(other, 'o', 2000);
    commit(other);
    fixture_crash(&b);
    expect(o, 'o', 2000);
}
END_TEST

START_TEST(after_a_crash_committed_frees_reserve_nothing)
{
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_rid r = store(txn, 'r', 3000);
    commit(txn);
    txn = fixture_begin(&b);
    ok(txn, lladd_slotted_free(txn, r));
    commit(txn);
    fixture_crash(&b);
    txn = fixture_begin(&b);
    store(txn, 'o', 3000);
    commit(txn);
}
END_TEST

/* An allocation moves the records of a page. The result depends only on the contents of the page,
 * so the moved bytes are not logged. */
START_TEST(compaction_is_not_logged)
{
    struct lladd_rid r[7];
    struct lladd_stats before = {.struct_size = sizeof before},
                       after = {.struct_size = sizeof after};
    struct lladd_txn *txn = fixture_begin(&b);
    for (int i = 0; i < 7; i++)
        r[i] = store(txn, (char)('a' + i), 500);
    commit(txn);
    txn = fixture_begin(&b);
    for (int i = 0; i < 7; i += 2)
        ok(txn, lladd_slotted_free(txn, r[i]));
    commit(txn);
    txn = fixture_begin(&b);
    ok_db(&b, lladd_stats_get(b.db, &before));
    struct lladd_rid big;
    ok(txn, lladd_slotted_alloc(txn, page, NULL, 2000, 0, &big));
    ok_db(&b, lladd_stats_get(b.db, &after));
    ck_assert_uint_lt(after.log_tail - before.log_tail, 200);
    commit(txn);
    for (int i = 1; i < 7; i += 2)
        expect(r[i], (char)('a' + i), 500);
}
END_TEST

/* ---- recovery -------------------------------------------------------------------------------- */

/* A logical undo needs room on a page with another loser's ghost. It must not get the ghost's
 * space. */
static lladd_pageno hungry_page;
static int hungry_rc;

static int hungry_compensate(void *ctx, struct lladd_txn *txn, struct lladd_span undo)
{
    struct lladd_rid rid;
    (void)ctx;
    (void)undo;
    hungry_rc = lladd_slotted_alloc(txn, hungry_page, NULL, 2000, 0, &rid);
    return hungry_rc == LLADD_PAGE_FULL ? 0 : hungry_rc;
}

static const struct lladd_op hungry = {
    .struct_size = sizeof(struct lladd_op),
    .name = "test.hungry",
    .version = 1,
    .record_max = 8,
    .undo_kind = LLADD_UNDO_LOGICAL,
    .compensate = hungry_compensate,
    .undo_log_max = 8192,
    .undo_pages_max = 1,
};

START_TEST(undo_in_recovery_does_not_purge_a_losers_records)
{
    lladd_op_id op;
    fixture_close(&b);
    ck_assert_int_eq(lladd_register_op(&b.options, &hungry, &b.err), 0);
    fixture_open(&b);
    ck_assert_int_eq(lladd_op_lookup(b.db, hungry.name, 1, &op), 0);
    struct lladd_txn *txn = fixture_begin(&b), *undoes, *last;
    struct lladd_rid r = store(txn, 'r', 3500);
    commit(txn);
    txn = fixture_begin(&b);
    ok(txn, lladd_slotted_free(txn, r));
    undoes = fixture_begin(&b);
    ok(undoes, lladd_log_undo_only(undoes, op, "x", 1));
    last = fixture_begin(&b);
    store(last, 'l', 8);
    commit(last);
    hungry_page = page;
    hungry_rc = 1;
    fixture_crash(&b);
    ck_assert_int_eq(hungry_rc, LLADD_PAGE_FULL);
    expect(r, 'r', 3500);
}
END_TEST

/* ---- any interleaving ------------------------------------------------------------------------ */

enum { SLOTS = 120 };

struct model {
    struct history h;
    unsigned full;
};

static void model_expect(const struct history *h)
{
    for (uint32_t s = 0; s < SLOTS; s++) {
        struct lladd_rid rid = {page, s, 0};
        if (h->now[s].there)
            expect(rid, h->now[s].fill, h->now[s].len);
        else
            expect_none(rid);
    }
}

static void model_write(struct history *h, int t, uint64_t r)
{
    struct model *m = (struct model *)(void *)h;
    unsigned char bytes[4096];
    struct version v = {true, (char)('A' + (int)(r >> 8 & 31)),
                        (uint32_t)(r >> 16) % (r >> 15 & 1 ? 30 : 900)};
    uint32_t s = (uint32_t)(r >> 32) % SLOTS;
    struct lladd_rid rid = {page, s, 0};
    int rc;
    memset(bytes, v.fill, sizeof bytes);
    if (h->now[s].there && history_may_write(h, t, s)) {
        if (r >> 48 & 1) {
            rc = lladd_slotted_set(h->txn[t], rid, bytes, v.len, 0);
        } else {
            rc = lladd_slotted_free(h->txn[t], rid);
            v.there = false;
        }
    } else {
        rc = lladd_slotted_alloc(h->txn[t], page, bytes, v.len, 0, &rid);
        s = rc ? 0 : rid.slot;
        ck_assert_uint_lt(s, SLOTS);
        if (!rc)
            ck_assert(!h->now[s].there && history_may_write(h, t, s));
    }
    ck_assert_msg(rc == 0 || rc == LLADD_PAGE_FULL, "%s", lladd_txn_error(h->txn[t])->message);
    m->full += rc != 0;
    if (rc == 0)
        history_wrote(h, t, s, v);
}

START_TEST(random_interleavings)
{
    static struct model m;
    m = (struct model){.h = {.records = SLOTS,
                             .txns = 4,
                             .steps = 2500,
                             .end_every = 12,
                             .crash_every = 400,
                             .look_every = 50,
                             .write = model_write,
                             .expect = model_expect}};
    history_run(&m.h, &b, (uint64_t)_i * 7919 + 3);
    ck_assert_uint_gt(m.full, 100);
    ck_assert_uint_gt(m.h.undone, 100);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("slotted pages shared by transactions");
    TCase *c = tcase_create("undo");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, a_freed_record_comes_back_to_a_full_page, 0, ENDS);
    tcase_add_loop_test(c, a_shrunk_record_comes_back_to_a_full_page, 0, ENDS);
    tcase_add_loop_test(c, a_grown_record_shrinks_on_a_full_page, 0, ENDS);
    tcase_add_loop_test(c, an_undone_allocation_frees_its_slot, 0, ENDS);
    tcase_add_test(c, a_slot_is_not_reused_before_its_transaction_has_ended);
    tcase_add_test(c, space_is_free_when_the_commit_record_is_in_the_log);
    tcase_add_test(c, after_a_crash_committed_frees_reserve_nothing);
    tcase_add_test(c, compaction_is_not_logged);
    tcase_add_test(c, undo_in_recovery_does_not_purge_a_losers_records);
    tcase_add_loop_test(c, random_interleavings, 0, 8);
    suite_add_tcase(s, c);
    return fixture_run(s);
}
