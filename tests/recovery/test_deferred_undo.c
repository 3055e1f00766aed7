/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Deferred undo: losers that are rolled back after open has returned. When open returns, everything
 * that these losers have changed is locked, and the space that they have freed is reserved.
 * Transactions that need a locked name wait, and then see the old values. Other transactions go on.
 * If no lock protects a change of a loser, the loser is undone completely before open returns. Of
 * the other losers, only unfinished top actions are undone before open returns.
 *
 * Which name a lock has: {page, cell} for a cell below LOCKED, {root, key} for a key of a hash
 * table, {page, slot} for a record. Cell LOCKED and the later cells have no locks.
 */
#include "db_fixture.h"

#include <lladd/bytes.h>
#include <lladd/hash.h>
#include <lladd/lock.h>
#include <lladd/log_read.h>
#include <lladd/records.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGES = 8, LOCKED = 50, ROUNDS = 60, LOST = 1000 };

static struct fixture r;
static lladd_pageno pages[PAGES];

/* ---- locking ---- */

static int lock_cell(struct lladd_txn *txn, struct cell c, enum lladd_lock_mode mode, uint64_t ns)
{
    return lladd_lock_acquire(txn, LLADD_LOCK_NAME(lladd_lock_id(c.page.v), lladd_lock_id(c.index)),
                              mode, ns);
}

static int protect_cell(struct lladd_txn *txn, lladd_pageno page, unsigned index)
{
    return index < LOCKED ? lock_cell(txn, cell_of(page, index), LLADD_LOCK_X, LLADD_LOCK_TRY)
                          : LLADD_NOT_FOUND;
}

static int protect_logical(struct lladd_txn *txn, const struct lladd_log_entry *e)
{
    const unsigned char *p = e->undo.data;
    int rc = protect_cell(txn, lladd_page_of(lladd_get64(p)), lladd_get16(p + 8));
    if (!rc && strcmp(e->op, "test.transfer") == 0)
        rc = protect_cell(txn, lladd_page_of(lladd_get64(p + 10)), lladd_get16(p + 18));
    return rc;
}

/* Counts its calls in ctx. */
static int protect(void *ctx, struct lladd_txn *txn, const struct lladd_log_entry *e)
{
    lladd_pageno root;
    struct lladd_span key;
    uint32_t slot;
    ++*(unsigned *)ctx;
    if (strcmp(e->op, "test.add") == 0 || strcmp(e->op, "test.put") == 0)
        return protect_cell(txn, lladd_page_of(e->page), lladd_get16(e->undo.data));
    if (strcmp(e->op, "test.bump") == 0 || strcmp(e->op, "test.transfer") == 0)
        return protect_logical(txn, e);
    if (lladd_hash_logged_key(e, &root, &key))
        return lladd_lock_acquire(
            txn, LLADD_LOCK_NAME(lladd_lock_id(root.v), lladd_lock_bytes(key.data, key.len)),
            LLADD_LOCK_X, LLADD_LOCK_TRY);
    if (strncmp(e->op, "lladd.map.", 10) == 0)
        return 0; /* wrong: so the library does not ask */
    if (lladd_logged_slot(e, &slot))
        return lladd_lock_acquire(txn, LLADD_LOCK_NAME(lladd_lock_id(e->page), lladd_lock_id(slot)),
                                  LLADD_LOCK_X, LLADD_LOCK_TRY);
    return LLADD_NOT_FOUND;
}

static unsigned asked;
static const struct lladd_participant protector = {
    .struct_size = sizeof protector,
    .name = "test.protector",
    .version = 1,
    .ctx = &asked,
    .protect = protect,
};

/* ---- helpers ---- */

static void add(struct lladd_txn *txn, struct cell c, int64_t delta)
{
    if (c.index < LOCKED)
        ok(txn, lock_cell(txn, c, LLADD_LOCK_X, LLADD_LOCK_TRY));
    ok(txn, cell_add(txn, c, delta));
}

/* Asserts the present value of a cell, which may not be undone yet. Takes no lock. */
static void expect_now(struct cell c, uint64_t value)
{
    fixture_expect(&r, c, value);
}

static int try_lock(struct cell c, enum lladd_lock_mode mode, uint64_t ns)
{
    struct lladd_txn *txn = fixture_begin(&r);
    int rc = lock_cell(txn, c, mode, ns);
    done(lladd_abort(txn));
    return rc;
}

static void begin_case(unsigned kind)
{
    fixture_init(&r, kind);
    r.options.recovery = LLADD_RECOVER_INSTANT;
    r.options.checkpoint_bytes = 1u << 30;
    r.options.log_ring_bytes = 256u << 10;
    ok_db(&r, lladd_lock_register(&r.options, &r.err));
    ok_db(&r, lladd_register_participant(&r.options, &protector, &r.err));
    asked = 0;
    fixture_open(&r);
    fixture_pages(&r, pages, PAGES);
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
}

/* Commits 10 to cell 0 of each page. A loser makes ROUNDS additions to cells 1 of the pages, a
 * transfer between two cells, and a bump. */
static void write_loser(void)
{
    struct lladd_txn *loser = fixture_begin(&r), *txn = fixture_begin(&r);
    for (unsigned i = 0; i < ROUNDS; i++)
        add(loser, cell_of(pages[i % PAGES], 1), LOST);
    ok(loser, lock_cell(loser, cell_of(pages[0], 2), LLADD_LOCK_X, LLADD_LOCK_TRY));
    ok(loser, cells_transfer(loser, cell_of(pages[0], 1), cell_of(pages[0], 2), 7));
    ok(loser, cell_bump(loser, cell_of(pages[0], 2), 11));
    for (unsigned i = 0; i < PAGES; i++)
        add(txn, cell_of(pages[i], 0), 10);
    done(lladd_commit(txn));
}

static void expect_undone(void)
{
    ck_assert_uint_eq(lladd_losers_left(r.db), 0);
    for (unsigned i = 0; i < PAGES; i++) {
        expect_now(cell_of(pages[i], 0), 10);
        expect_now(cell_of(pages[i], 1), 0);
        ck_assert_int_eq(try_lock(cell_of(pages[i], 1), LLADD_LOCK_X, LLADD_LOCK_TRY), 0);
    }
    expect_now(cell_of(pages[0], 2), 0);
}

static void crash_and_open(void)
{
    fixture_crash(&r, &fault_kill);
    asked = 0;
    fixture_open(&r);
}

static void begin_deferred(unsigned kind)
{
    begin_case(kind);
    write_loser();
    crash_and_open();
}

/* ---- reads and new transactions ---- */

START_TEST(a_protected_loser_is_left_when_open_returns)
{
    begin_deferred((unsigned)_i);
    ck_assert_uint_eq(lladd_losers_left(r.db), 1);
    ck_assert_uint_eq(fixture_stats(&r).losers_left, 1);
    ck_assert_uint_eq(fixture_stats(&r).recovered_undone_txns, 0);
    ck_assert_uint_eq(asked, ROUNDS + 2);
    expect_now(cell_of(pages[1], 1), (uint64_t)(ROUNDS + PAGES - 2) / PAGES * LOST);
    for (unsigned i = 0; i < PAGES; i++) {
        struct cell its = cell_of(pages[i], 1);
        ck_assert_int_eq(try_lock(its, LLADD_LOCK_S, LLADD_LOCK_TRY), LLADD_BUSY);
        ck_assert_int_eq(try_lock(its, LLADD_LOCK_X, LLADD_LOCK_TRY), LLADD_BUSY);
        ck_assert_int_eq(try_lock(cell_of(pages[i], 0), LLADD_LOCK_X, LLADD_LOCK_TRY), 0);
    }
    ck_assert_int_eq(try_lock(cell_of(pages[0], 2), LLADD_LOCK_S, LLADD_LOCK_TRY), LLADD_BUSY);
    fixture_maintain(&r);
    ck_assert_uint_eq(fixture_stats(&r).losers_left, 0);
    ck_assert_uint_eq(fixture_stats(&r).recovered_undone_txns, 1);
    expect_undone();
    fixture_reopen(&r);
    expect_undone();
    fixture_free(&r);
}
END_TEST

/* Other transactions change the same pages and end. After the undo, only their changes are left. */
START_TEST(transactions_run_while_undo_is_pending)
{
    begin_deferred((unsigned)_i);
    bool more = true;
    unsigned n = 0;
    for (; more; n++) {
        struct lladd_txn *txn = fixture_begin(&r), *other = fixture_begin(&r);
        add(txn, cell_of(pages[n % PAGES], 3), 1);
        add(other, cell_of(pages[n % PAGES], 4), 1);
        ok_db(&r, lladd_maintain(r.db, &more, &r.err));
        done(lladd_commit(txn));
        done(lladd_abort(other));
    }
    ck_assert_uint_gt(n, 1);
    expect_undone();
    uint64_t sum = 0;
    for (unsigned i = 0; i < PAGES; i++) {
        sum += cell_get(r.db, cell_of(pages[i], 3));
        expect_now(cell_of(pages[i], 4), 0);
    }
    ck_assert_uint_eq(sum, n);
    fixture_free(&r);
}
END_TEST

/* ---- which losers are deferred ---- */

enum why { FULL, NO_PARTICIPANT, A_CELL, SYSTEM, NOTE, FREED, TAKEN, WHYS };

static void begin_unprotected(enum why why)
{
    struct lladd_txn_options system = LLADD_TXN_OPTIONS_INIT;
    system.system = why == SYSTEM;
    struct lladd_txn *loser = fixture_begin_with(&r, &system);
    if (why == A_CELL)
        add(loser, cell_of(pages[2], LOCKED), LOST);
    if (why == NOTE)
        ok(loser, lladd_log_note(loser, "test.note", lladd_span_of("x", 1), NULL));
    if (why == FREED)
        ok(loser, lladd_page_free(loser, pages[7]));
    add(loser, cell_of(pages[2], 5), LOST);
    if (why == TAKEN) { /* two losers have changed one cell, and only one of them can hold its
                         * lock */
        struct lladd_txn *another = fixture_begin(&r);
        ok(another, cell_add(another, cell_of(pages[2], 5), LOST));
    }
    /* Makes all earlier records durable. */
    fixture_set(&r, cell_of(pages[6], 0), 6);
}

START_TEST(unprotected_changes_are_undone_before_open_returns)
{
    for (enum why why = FULL; why < WHYS; why++) {
        begin_case((unsigned)_i);
        begin_unprotected(why);
        fixture_crash(&r, &fault_kill);
        if (why == FULL)
            r.options.recovery = LLADD_RECOVER_FULL;
        if (why == NO_PARTICIPANT) {
            lladd_options_release(&r.options);
            ok_db(&r, lladd_register_extension(&r.options, &test_extension, &r.err));
        }
        fixture_open(&r);
        ck_assert_uint_eq(lladd_losers_left(r.db), why == TAKEN);
        ck_assert_uint_eq(fixture_stats(&r).recovered_undone_txns, 1);
        expect_now(cell_of(pages[2], 5), why == TAKEN ? LOST : 0);
        expect_now(cell_of(pages[2], LOCKED), 0);
        if (why == TAKEN)
            ck_assert_int_eq(try_lock(cell_of(pages[2], 5), LLADD_LOCK_S, LLADD_LOCK_TRY),
                             LLADD_BUSY);
        fixture_maintain(&r);
        expect_now(cell_of(pages[2], 5), 0);
        expect_now(cell_of(pages[6], 0), 6);
        fixture_free(&r);
    }
}
END_TEST

/* REC-5. No lock protects the changes of an open action, so they are undone before open returns. */
START_TEST(an_open_action_is_undone_before_open_returns)
{
    begin_case((unsigned)_i);
    struct lladd_txn *loser = fixture_begin(&r);
    struct lladd_action action;
    add(loser, cell_of(pages[3], 1), LOST);
    ok(loser, lladd_nta_begin(loser, &action));
    ok(loser, cell_add(loser, cell_of(pages[3], LOCKED), LOST));
    ok(loser, cell_add(loser, cell_of(pages[4], LOCKED + 1), LOST));
    fixture_set(&r, cell_of(pages[6], 0), 6);
    crash_and_open();
    ck_assert_uint_eq(lladd_losers_left(r.db), 1);
    ck_assert_uint_eq(asked, 1);
    expect_now(cell_of(pages[3], LOCKED), 0);
    expect_now(cell_of(pages[4], LOCKED + 1), 0);
    expect_now(cell_of(pages[3], 1), LOST);
    fixture_maintain(&r);
    expect_now(cell_of(pages[3], 1), 0);
    fixture_free(&r);
}
END_TEST

/* If a rollback to a savepoint had already undone a change, recovery takes no lock for this
 * change. */
START_TEST(changes_that_were_rolled_back_are_not_locked)
{
    begin_case((unsigned)_i);
    struct lladd_txn *loser = fixture_begin(&r);
    lladd_savepoint_id sp;
    add(loser, cell_of(pages[3], 1), LOST);
    ok(loser, lladd_savepoint(loser, &sp));
    add(loser, cell_of(pages[4], LOCKED), LOST);
    ok(loser, lladd_rollback_to(loser, sp));
    add(loser, cell_of(pages[5], 1), LOST);
    fixture_set(&r, cell_of(pages[6], 0), 6);
    crash_and_open();
    ck_assert_uint_eq(lladd_losers_left(r.db), 1);
    ck_assert_uint_eq(asked, 2);
    fixture_maintain(&r);
    expect_now(cell_of(pages[3], 1), 0);
    expect_now(cell_of(pages[4], LOCKED), 0);
    expect_now(cell_of(pages[5], 1), 0);
    fixture_free(&r);
}
END_TEST

/* ---- crashes ---- */

/* REC-1. Several crashes come during deferred undo. Then recovery is full, or instant again. */
START_TEST(crashes_while_undo_is_pending)
{
    enum { CRASHES = 5 };
    for (unsigned full = 0; full < 2; full++) {
        begin_deferred((unsigned)_i);
        for (unsigned c = 0; c < CRASHES; c++) {
            bool more;
            ck_assert_uint_ge(lladd_losers_left(r.db), 1);
            struct lladd_txn *another = fixture_begin(&r);
            add(another, cell_of(pages[c], 6), LOST);
            ok_db(&r, lladd_maintain(r.db, &more, &r.err));
            if (c % 2)
                ok_db(&r, lladd_checkpoint(r.db, &r.err));
            struct lladd_txn *txn = fixture_begin(&r);
            add(txn, cell_of(pages[7], 7), 1);
            done(lladd_commit(txn));
            if (full && c == CRASHES - 1)
                r.options.recovery = LLADD_RECOVER_FULL;
            crash_and_open();
        }
        ck_assert(full ? lladd_losers_left(r.db) == 0 : lladd_losers_left(r.db) > 0);
        fixture_maintain(&r);
        expect_undone();
        for (unsigned c = 0; c < CRASHES; c++)
            expect_now(cell_of(pages[c], 6), 0);
        expect_now(cell_of(pages[7], 7), CRASHES);
        fixture_free(&r);
    }
}
END_TEST

/* Pending undo keeps only the log that it needs. Close waits for the end of undo (REC-2). */
START_TEST(checkpoints_list_a_loser_and_close_waits_for_its_undo)
{
    struct lladd_pinner who;
    begin_deferred((unsigned)_i);
    uint64_t from = fixture_stats(&r).checkpoint_lsn;
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    ck_assert_uint_gt(fixture_stats(&r).checkpoint_lsn, from);
    ck_assert_uint_eq(lladd_losers_left(r.db), 1);
    ok_db(&r, lladd_log_pinner(r.db, &who, &r.err));
    ck_assert_str_eq(who.kind, "transaction");
    ck_assert_uint_lt(who.lsn.v, fixture_stats(&r).checkpoint_lsn);
    crash_and_open();
    ck_assert_uint_eq(lladd_losers_left(r.db), 1);
    ck_assert_int_eq(try_lock(cell_of(pages[1], 1), LLADD_LOCK_S, LLADD_LOCK_TRY), LLADD_BUSY);
    fixture_close(&r);
    fixture_open(&r);
    ck_assert_uint_eq(fixture_stats(&r).recovered_records, 0);
    expect_undone();
    fixture_free(&r);
}
END_TEST

/* A transaction in doubt has its locks, too. The decision about it and the rollback of the losers
 * do not affect each other. */
START_TEST(a_transaction_in_doubt_beside_a_loser)
{
    begin_case((unsigned)_i);
    struct lladd_txn *half = fixture_begin(&r);
    struct lladd_gid gid = gid_of("half");
    add(half, cell_of(pages[1], 8), 33);
    ok(half, lladd_prepare(half, &gid));
    write_loser();
    crash_and_open();
    ck_assert_uint_eq(lladd_losers_left(r.db), 1);
    ck_assert_uint_eq(fixture_in_doubt(&r).n, 1);
    ck_assert_int_eq(try_lock(cell_of(pages[1], 8), LLADD_LOCK_S, LLADD_LOCK_TRY), LLADD_BUSY);
    done(lladd_commit(fixture_claim(&r, "half")));
    ck_assert_int_eq(try_lock(cell_of(pages[1], 8), LLADD_LOCK_S, LLADD_LOCK_TRY), 0);
    fixture_maintain(&r);
    expect_undone();
    expect_now(cell_of(pages[1], 8), 33);
    fixture_free(&r);
}
END_TEST

/* ---- freed space ---- */

enum { KEYS = 40, RECORD = 900 };

static lladd_pageno table_root, records;

static struct lladd_hash *open_table(void)
{
    struct lladd_hash *h;
    ok_db(&r, lladd_hash_open(r.db, table_root, 0, &h, &r.err));
    return h;
}

static void lock_key(struct lladd_txn *txn, const char *key)
{
    ok(txn,
       lladd_lock_acquire(
           txn, LLADD_LOCK_NAME(lladd_lock_id(table_root.v), lladd_lock_bytes(key, strlen(key))),
           LLADD_LOCK_X, LLADD_LOCK_TRY));
}

static void put(struct lladd_txn *txn, struct lladd_hash *h, const char *key, const char *value)
{
    lock_key(txn, key);
    ok(txn, lladd_hash_put(txn, h, key, strlen(key), value, strlen(value)));
}

static void expect_value(struct lladd_hash *h, const char *key, const char *value)
{
    char found[64] = {0};
    size_t len;
    int rc = lladd_hash_get(h, key, strlen(key), found, sizeof found, &len, &r.err);
    ck_assert_int_eq(rc, value ? 0 : LLADD_NOT_FOUND);
    if (value)
        ck_assert_str_eq(found, value);
}

static struct lladd_rid record_of(uint32_t slot)
{
    return (struct lladd_rid){records, slot, RECORD};
}

/* Makes a table with KEYS keys, and a page full of records. */
static void make_structures(void)
{
    char bytes[RECORD], key[16];
    struct lladd_rid rid;
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, lladd_hash_create(txn, NULL, &table_root));
    ok(txn, lladd_page_alloc(txn, &records));
    ok(txn, lladd_slotted_format(txn, records, 0));
    for (int i = 0; i < 4; i++) {
        memset(bytes, 'a' + i, sizeof bytes);
        ok(txn, lladd_slotted_alloc(txn, records, bytes, sizeof bytes, 0, &rid));
        ck_assert_uint_eq(rid.slot, (uint32_t)i);
    }
    done(lladd_commit(txn));
    struct lladd_hash *h = open_table();
    txn = fixture_begin(&r);
    for (int i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "key %d", i);
        put(txn, h, key, "a value of some length");
    }
    done(lladd_commit(txn));
    lladd_hash_close(h);
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
}

/* Removes and changes elements and records, and allocates no pages. */
static void give_up(void)
{
    struct lladd_hash *h = open_table();
    struct lladd_txn *loser = fixture_begin(&r);
    for (int i = 0; i < KEYS / 2; i++) {
        char key[16];
        snprintf(key, sizeof key, "key %d", i);
        lock_key(loser, key);
        ok(loser, lladd_hash_delete(loser, h, key, strlen(key)));
    }
    put(loser, h, "key 30", "short");
    put(loser, h, "new", "new");
    for (unsigned slot = 1; slot < 3; slot++) {
        ok(loser,
           lladd_lock_acquire(loser, LLADD_LOCK_NAME(lladd_lock_id(records.v), lladd_lock_id(slot)),
                              LLADD_LOCK_X, LLADD_LOCK_TRY));
        ok(loser, slot == 1 ? lladd_slotted_free(loser, record_of(slot))
                            : lladd_slotted_set(loser, record_of(slot), "x", 1, 0));
    }
    lladd_hash_close(h);
}

/* Puts n keys into the table. Then asserts that the full page has room for one more record, or has
 * none. */
static unsigned take_room(const char *prefix, unsigned n, bool there_is_room)
{
    char bytes[RECORD] = {0}, key[32];
    struct lladd_hash *h = open_table();
    struct lladd_txn *txn = fixture_begin(&r);
    struct lladd_rid rid;
    for (unsigned i = 0; i < n; i++) {
        snprintf(key, sizeof key, "%s %u", prefix, i);
        put(txn, h, key, "a value of some other length");
    }
    ck_assert_int_eq(lladd_slotted_alloc(txn, records, bytes, sizeof bytes, 0, &rid),
                     there_is_room ? 0 : LLADD_PAGE_FULL);
    done(lladd_commit(txn));
    lladd_hash_close(h);
    return n;
}

static void expect_structures(void)
{
    struct lladd_hash *h = open_table();
    char bytes[RECORD], key[16];
    size_t len;
    for (int i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "key %d", i);
        expect_value(h, key, "a value of some length");
    }
    expect_value(h, "new", NULL);
    for (unsigned slot = 0; slot < 4; slot++) {
        ok_db(&r,
              lladd_slotted_read(r.db, record_of(slot), bytes, sizeof bytes, &len, NULL, &r.err));
        ck_assert_uint_eq(len, RECORD);
        ck_assert_int_eq(bytes[RECORD - 1], 'a' + (int)slot);
    }
    ok_db(&r, lladd_hash_check(h, &r.err));
    lladd_hash_close(h);
}

START_TEST(space_that_a_loser_has_freed_is_kept_for_its_undo)
{
    begin_case((unsigned)_i & ~(unsigned)FIXTURE_FILES);
    make_structures();
    give_up();
    fixture_set(&r, cell_of(pages[6], 0), 6);
    crash_and_open();
    ck_assert_uint_eq(lladd_losers_left(r.db), 1);
    unsigned n = take_room("meanwhile", 300, false);
    ck_assert_uint_eq(lladd_losers_left(r.db), 1);
    fixture_maintain(&r);
    ck_assert_uint_eq(lladd_losers_left(r.db), 0);
    expect_structures();
    struct lladd_hash *h = open_table();
    uint64_t count;
    ok_db(&r, lladd_hash_count(h, &count, &r.err));
    ck_assert_uint_eq(count, KEYS + n);
    lladd_hash_close(h);
    fixture_reopen(&r);
    expect_structures();
    fixture_free(&r);
}
END_TEST

/* While losers are left, no freed space is used again, even if the transaction that freed it has
 * committed. After the rollback of the losers, the space is used again. */
START_TEST(freed_space_is_used_again_when_no_losers_are_left)
{
    begin_case((unsigned)_i & ~(unsigned)FIXTURE_FILES);
    make_structures();
    write_loser();
    crash_and_open();
    ck_assert_uint_eq(lladd_losers_left(r.db), 1);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, lladd_slotted_free(txn, record_of(0)));
    done(lladd_commit(txn));
    (void)take_room("kept", 1, false);
    fixture_maintain(&r);
    (void)take_room("used", 1, true);
    fixture_free(&r);
}
END_TEST

/* ---- failures ---- */

/* REC-3. A compensation that fails poisons the handle. The next open runs it again. */
START_TEST(a_compensation_fails_after_open)
{
    begin_deferred((unsigned)_i);
    bool more = true;
    int rc = 0;
    test_transfer_fails = LLADD_CORRUPT_PAGE;
    for (unsigned i = 0; !rc && more && i < 1000; i++)
        rc = lladd_maintain(r.db, &more, &r.err);
    test_transfer_fails = 0;
    ck_assert_int_eq(rc, LLADD_UNDO_FAILED);
    ck_assert_int_eq(lladd_db_error(r.db, &r.err), LLADD_UNDO_FAILED);
    ck_assert_uint_eq(lladd_losers_left(r.db), 1);
    crash_and_open();
    ck_assert_uint_eq(lladd_losers_left(r.db), 1);
    fixture_maintain(&r);
    expect_undone();
    fixture_free(&r);
}
END_TEST

/* The n-th allocation of the recovery fails, for every n. Open returns LLADD_NO_MEMORY or
 * LLADD_UNDO_FAILED, or succeeds. If it succeeds, it has undone the losers, or defers their
 * undo. */
START_TEST(an_allocation_fails)
{
    unsigned before = 0, after = 0;
    for (uint64_t n = 1;; n++) {
        begin_case(0);
        write_loser();
        fixture_crash(&r, &fault_kill);
        fault_alloc_fail(&r.mem, n, false);
        int rc = fixture_try_open(&r);
        bool fired = fault_alloc_fired(&r.mem) != 0;
        fault_alloc_fail(&r.mem, 0, false);
        if (rc) {
            ck_assert(rc == LLADD_NO_MEMORY || rc == LLADD_UNDO_FAILED);
            fixture_open(&r);
        } else {
            before += fired && lladd_losers_left(r.db) == 0;
            after += fired && lladd_losers_left(r.db) > 0;
        }
        fixture_maintain(&r);
        expect_undone();
        fixture_free(&r);
        if (!fired)
            break;
    }
    ck_assert_uint_gt(before, 0);
    ck_assert_uint_gt(after, 0);
}
END_TEST

/* Deferred undo allocates its memory before open returns, so it needs none later (REC-3). */
START_TEST(there_is_no_memory_after_open)
{
    begin_deferred(0);
    bool more = true;
    for (unsigned i = 0; i < PAGES; i++) /* reads the pages into the cache */
        expect_now(cell_of(pages[i], 0), 10);
    fault_alloc_fail(&r.mem, 1, true);
    for (unsigned i = 0; lladd_losers_left(r.db) && i < 1000; i++)
        (void)lladd_maintain(r.db, &more, &r.err);
    fault_alloc_fail(&r.mem, 0, false);
    ok_db(&r, lladd_db_error(r.db, &r.err));
    expect_undone();
    fixture_free(&r);
}
END_TEST

/* ---- threads ---- */

enum { THREADS = 3 };

/* Each transaction first adds 1 to a cell that no loser has locked. Then it waits for the lock of a
 * cell that the loser has changed, and asserts that the cell has its old value again. */
static void *wait_and_read(void *arg)
{
    unsigned who = *(unsigned *)arg;
    for (unsigned i = 0; i < PAGES; i++) {
        struct cell its = cell_of(pages[(i + who) % PAGES], 1), own = cell_of(pages[i], 20 + who);
        struct lladd_txn *txn;
        struct lladd_error err = LLADD_ERROR_INIT;
        uint64_t value;
        ck_assert_int_eq(lladd_begin(r.db, NULL, &txn, &err), 0);
        ok(txn, lock_cell(txn, own, LLADD_LOCK_X, LLADD_LOCK_TRY));
        ok(txn, cell_add(txn, own, 1));
        ok(txn, lock_cell(txn, its, LLADD_LOCK_S, LLADD_LOCK_FOREVER));
        ck_assert_int_eq(cell_read(r.db, its, &value, &err), 0);
        ck_assert_uint_eq(value, 0);
        done(lladd_commit_async(txn, NULL));
    }
    return NULL;
}

START_TEST(threads_wait_for_losers_in_the_background)
{
    pthread_t thread[THREADS];
    unsigned who[THREADS];
    begin_case(FIXTURE_THREADS | (_i ? FIXTURE_RESERVED : 0));
    write_loser();
    fixture_crash(&r, &fault_kill);
    test_world_stop_at(&r.world, "recovery.undo");
    fixture_open(&r);
    ck_assert(test_world_await(&r.world, "recovery.undo", 1));
    ck_assert_uint_eq(lladd_losers_left(r.db), 1);
    ck_assert_int_eq(try_lock(cell_of(pages[0], 1), LLADD_LOCK_S, LLADD_LOCK_TRY), LLADD_BUSY);
    for (unsigned i = 0; i < THREADS; i++) {
        who[i] = i;
        ck_assert_int_eq(pthread_create(&thread[i], NULL, wait_and_read, &who[i]), 0);
    }
    test_world_release(&r.world, "recovery.undo");
    for (unsigned i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(thread[i], NULL), 0);
    for (unsigned i = 0; i < PAGES; i++)
        for (unsigned t = 0; t < THREADS; t++)
            expect_now(cell_of(pages[i], 20 + t), 1);
    fixture_reopen(&r);
    expect_undone();
    fixture_free(&r);
}
END_TEST

/* Right after open, the power fails or the database is closed, while the background thread may
 * still undo the loser. */
START_TEST(the_handle_ends_while_undo_is_pending)
{
    begin_case(FIXTURE_THREADS | (_i & 1 ? FIXTURE_RESERVED : 0));
    write_loser();
    crash_and_open();
    if (_i & 2)
        fixture_crash(&r, &fault_power);
    else
        fixture_close(&r);
    fixture_open(&r);
    fixture_close(&r);
    fixture_open(&r);
    expect_undone();
    fixture_free(&r);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("deferred undo");
    TCase *c = tcase_create("all");
    tcase_add_loop_test(c, a_protected_loser_is_left_when_open_returns, 0, FIXTURE_THREADS);
    tcase_add_loop_test(c, transactions_run_while_undo_is_pending, 0, FIXTURE_THREADS);
    tcase_add_loop_test(c, unprotected_changes_are_undone_before_open_returns, 0, FIXTURE_THREADS);
    tcase_add_loop_test(c, an_open_action_is_undone_before_open_returns, 0, FIXTURE_THREADS);
    tcase_add_loop_test(c, changes_that_were_rolled_back_are_not_locked, 0, FIXTURE_THREADS);
    tcase_add_loop_test(c, crashes_while_undo_is_pending, 0, FIXTURE_THREADS);
    tcase_add_loop_test(c, checkpoints_list_a_loser_and_close_waits_for_its_undo, 0,
                        FIXTURE_THREADS);
    tcase_add_loop_test(c, a_transaction_in_doubt_beside_a_loser, 0, FIXTURE_THREADS);
    tcase_add_loop_test(c, space_that_a_loser_has_freed_is_kept_for_its_undo, 0, FIXTURE_THREADS);
    tcase_add_loop_test(c, freed_space_is_used_again_when_no_losers_are_left, 0, FIXTURE_THREADS);
    tcase_add_loop_test(c, a_compensation_fails_after_open, 0, FIXTURE_THREADS);
    tcase_add_test(c, an_allocation_fails);
    tcase_add_test(c, there_is_no_memory_after_open);
    suite_add_tcase(s, c);
    c = tcase_create("threads");
    tcase_add_loop_test(c, threads_wait_for_losers_in_the_background, 0, 2);
    tcase_add_loop_test(c, the_handle_ends_while_undo_is_pending, 0, 4);
    suite_add_tcase(s, c);
    return s;
}

int main(void)
{
    SRunner *runner = srunner_create(suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
