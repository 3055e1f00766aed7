/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lock manager, with one thread:
 * - which modes are compatible, and which mode an upgrade gives;
 * - names and their ancestors;
 * - savepoints;
 * - the locks of a prepared transaction, even after a restart;
 * - the list of locks;
 * - failures of memory allocations.
 */
#include "op_fixture.h"

#include <lladd/lock.h>

#include <stdio.h>

enum { MODES = 7 };

static struct fixture b;

static void setup(void)
{
    fixture_init(&b, 4096);
    ok_db(&b, lladd_lock_register(&b.options, &b.err));
    fixture_open(&b);
}

static void teardown(void)
{
    fixture_free(&b);
}

#define ID(...) LLADD_LOCK_NAME(__VA_ARGS__)
#define TABLE(t) ID(lladd_lock_id(t))
#define ROW(t, r) ID(lladd_lock_id(t), lladd_lock_id(r))

static const enum lladd_lock_mode IS = LLADD_LOCK_IS, IX = LLADD_LOCK_IX, S = LLADD_LOCK_S,
                                  SIX = LLADD_LOCK_SIX, U = LLADD_LOCK_U, X = LLADD_LOCK_X,
                                  NONE = LLADD_LOCK_NONE;

static int try_lock(struct lladd_txn *txn, struct lladd_lock_name name, enum lladd_lock_mode mode)
{
    return lladd_lock_acquire(txn, name, mode, LLADD_LOCK_TRY);
}

static void take(struct lladd_txn *txn, struct lladd_lock_name name, enum lladd_lock_mode mode)
{
    ok(txn, try_lock(txn, name, mode));
}

/* Returns true if another transaction could lock the name in this mode without waiting. */
static bool is_free(struct lladd_lock_name name, enum lladd_lock_mode mode)
{
    struct lladd_txn *txn = fixture_begin(&b);
    int rc = try_lock(txn, name, mode);
    ck_assert(rc == 0 || rc == LLADD_BUSY);
    abort_txn(txn);
    return rc == 0;
}

/* Asserts in which mode the name is locked. Another transaction asks for each of the modes IS, IX,
 * S, SIX, U, X. row[held] has a character for each of these: '.' if the mode must be granted, '-'
 * if it must be refused. */
static void kept(struct lladd_lock_name name, enum lladd_lock_mode held)
{
    static const char *const row[MODES] = {
        [0] = "......", [1] = ".....-", [2] = "..----", [3] = ".-.-.-",
        [4] = ".-----", [5] = ".-.---", [6] = "------"};
    for (int m = 1; m < MODES; m++)
        ck_assert_msg(is_free(name, (enum lladd_lock_mode)m) == (row[held][m - 1] == '.'),
                      "held %s, asked %s", lladd_lock_mode_name(held),
                      lladd_lock_mode_name((enum lladd_lock_mode)m));
}

static struct lladd_lock_stats stats(void)
{
    struct lladd_lock_stats s = {.struct_size = sizeof s};
    ok_db(&b, lladd_lock_stats_get(b.db, &s, &b.err));
    return s;
}

static void nothing_is_locked(void)
{
    struct lladd_lock_stats s = stats();
    ck_assert_uint_eq(s.names, 0);
    ck_assert_uint_eq(s.holds, 0);
    ck_assert_uint_eq(s.waiting, 0);
}

/* Makes the transaction log a record. */
static void write_something(struct lladd_txn *txn)
{
    lladd_pageno page;
    ok(txn, lladd_page_alloc(txn, &page));
}

/* ---- modes ----------------------------------------------------------------------------------- */

START_TEST(every_pair_of_modes)
{
    for (int held = 1; held < MODES; held++) {
        struct lladd_txn *txn = fixture_begin(&b);
        take(txn, TABLE(1), (enum lladd_lock_mode)held);
        kept(TABLE(1), (enum lladd_lock_mode)held);
        ck_assert_int_eq(lladd_lock_held(txn, TABLE(1)), held);
        abort_txn(txn);
        nothing_is_locked();
    }
}
END_TEST

/* sum[held][want] is the weakest mode that covers both modes. */
START_TEST(every_upgrade)
{
    static const enum lladd_lock_mode sum[MODES][MODES] = {
        {0, 1, 2, 3, 4, 5, 6}, {1, 1, 2, 3, 4, 5, 6}, {2, 2, 2, 4, 4, 4, 6}, {3, 3, 4, 3, 4, 5, 6},
        {4, 4, 4, 4, 4, 4, 6}, {5, 5, 4, 5, 4, 5, 6}, {6, 6, 6, 6, 6, 6, 6}};
    for (int held = 1; held < MODES; held++) {
        for (int want = 1; want < MODES; want++) {
            struct lladd_txn *txn = fixture_begin(&b);
            take(txn, TABLE(1), (enum lladd_lock_mode)held);
            take(txn, TABLE(1), (enum lladd_lock_mode)want);
            ck_assert_int_eq(lladd_lock_held(txn, TABLE(1)), sum[held][want]);
            kept(TABLE(1), sum[held][want]);
            ck_assert_uint_eq(stats().holds, 1);
            commit(txn);
        }
    }
    nothing_is_locked();
}
END_TEST

/* A transaction that asks for a second mode gets the weakest mode that covers both. This mode must
 * be compatible with the locks of other transactions. */
START_TEST(an_upgrade_is_refused_by_what_others_hold)
{
    struct lladd_txn *one = fixture_begin(&b), *two = fixture_begin(&b);
    take(one, TABLE(1), S);
    take(two, TABLE(1), S);
    refuses(one, LLADD_BUSY, try_lock(one, TABLE(1), X));
    ck_assert_int_eq(lladd_lock_held(one, TABLE(1)), S);
    take(one, TABLE(1), U);
    refuses(two, LLADD_BUSY, try_lock(two, TABLE(1), U));
    abort_txn(two);
    take(one, TABLE(1), X);
    commit(one);
    nothing_is_locked();
}
END_TEST

START_TEST(the_error_names_the_blocking_transaction)
{
    struct lladd_txn *one = fixture_begin(&b), *two = fixture_begin(&b);
    char text[64];
    take(one, ID(lladd_lock_id(7), lladd_lock_bytes("k\"\1", 3)), X);
    write_something(one);
    take(one, TABLE(8), S);
    refuses(two, LLADD_BUSY, try_lock(two, ID(lladd_lock_id(7), lladd_lock_bytes("k\"\1", 3)), S));
    const char *message = lladd_txn_error(two)->message;
    (void)snprintf(text, sizeof text, "transaction #%llu (LSN %llu) with X",
                   (unsigned long long)lladd_lock_number(one),
                   (unsigned long long)lladd_txn_id(one).v);
    ck_assert_msg(strstr(message, text) != NULL, "%s", message);
    ck_assert_msg(strstr(message, "S on {7, \"k\\22\\01\"}") != NULL, "%s", message);
    abort_txn(one);
    abort_txn(two);
}
END_TEST

/* ---- names ----------------------------------------------------------------------------------- */

START_TEST(a_lock_takes_intention_locks_on_ancestors)
{
    static const enum lladd_lock_mode intent[MODES] = {NONE, IS, IX, IS, IX, IX, IX};
    static const enum lladd_lock_mode all[MODES] = {NONE, IS, IX, S, SIX, U, X};
    for (int m = 1; m < MODES; m++) {
        struct lladd_txn *txn = fixture_begin(&b);
        struct lladd_lock_name deep =
            ID(lladd_lock_id(1), lladd_lock_id(2), lladd_lock_bytes("three", 5));
        take(txn, deep, all[m]);
        kept(TABLE(1), intent[m]);
        kept(ROW(1, 2), intent[m]);
        kept(deep, all[m]);
        ck_assert_uint_eq(stats().holds, 3);
        commit(txn);
    }
    nothing_is_locked();
}
END_TEST

START_TEST(what_an_ancestor_includes_is_not_locked_again)
{
    struct lladd_txn *txn = fixture_begin(&b);
    take(txn, TABLE(1), S);
    take(txn, ROW(1, 5), S);
    ck_assert_uint_eq(stats().holds, 1);
    ck_assert_int_eq(lladd_lock_held(txn, ROW(1, 5)), S);
    take(txn, ROW(1, 5), X); /* S and IX: SIX */
    ck_assert_int_eq(lladd_lock_held(txn, TABLE(1)), SIX);
    ck_assert_int_eq(lladd_lock_held(txn, ROW(1, 5)), X);
    ck_assert_int_eq(lladd_lock_held(txn, ROW(1, 6)), S);
    ck_assert_int_eq(lladd_lock_held(txn, ROW(2, 6)), NONE);
    take(txn, TABLE(1), X);
    take(txn, ROW(1, 6), X);
    ck_assert_int_eq(lladd_lock_held(txn, ROW(1, 6)), X);
    ck_assert_uint_eq(stats().holds, 2);
    commit(txn);
    nothing_is_locked();
}
END_TEST

START_TEST(tables_and_rows_conflict)
{
    struct lladd_txn *one = fixture_begin(&b);
    take(one, ROW(1, 5), X);
    ck_assert(!is_free(TABLE(1), S));
    ck_assert(!is_free(ROW(1, 5), S));
    ck_assert(is_free(ROW(1, 6), X));
    ck_assert(is_free(TABLE(2), X));
    commit(one);
    one = fixture_begin(&b);
    take(one, TABLE(1), S);
    ck_assert(is_free(ROW(1, 5), S));
    ck_assert(!is_free(ROW(1, 5), X));
    commit(one);
    nothing_is_locked();
}
END_TEST

/* While the thread holds a page, every lock call is refused. It is refused even if the lock is
 * free, if the transaction already has the lock, or if the call must not wait. Otherwise the
 * program's mistake would show only when another transaction has the lock. */
START_TEST(a_lock_is_refused_while_a_page_is_held)
{
    lladd_pageno page = fixture_page(&b, "lladd.bytes");
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_page *held;
    take(txn, TABLE(1), S);
    for (int latch = 0; latch < 2; latch++) {
        enum lladd_latch how = latch ? LLADD_LATCH_EXCLUSIVE : LLADD_LATCH_SHARED;
        ok_db(&b, lladd_page_fix(b.db, page, how, &held, &b.err));
        refuses(txn, LLADD_BAD_STATE, try_lock(txn, TABLE(2), S));
        ck_assert_ptr_nonnull(strstr(lladd_txn_error(txn)->message, "lladd_lock_acquire"));
        refuses(txn, LLADD_BAD_STATE, try_lock(txn, TABLE(1), S));
        refuses(txn, LLADD_BAD_STATE, lladd_lock_acquire(txn, TABLE(2), S, LLADD_LOCK_FOREVER));
        ck_assert_int_eq(lladd_lock_held(txn, TABLE(2)), NONE);
        lladd_page_unfix(b.db, held, how);
        ck_assert(is_free(TABLE(2), X));
    }
    take(txn, TABLE(2), S);
    abort_txn(txn);
}
END_TEST

/* The intention locks that a refused call has taken are released. */
START_TEST(a_refused_call_changes_nothing)
{
    struct lladd_txn *one = fixture_begin(&b), *two = fixture_begin(&b);
    take(one, ROW(1, 5), X);
    refuses(two, LLADD_BUSY, try_lock(two, ROW(1, 5), X));
    ck_assert_int_eq(lladd_lock_held(two, TABLE(1)), NONE);
    ck_assert_uint_eq(stats().holds, 2);
    take(two, TABLE(1), IS);
    lladd_savepoint_id sp;
    ok(two, lladd_savepoint(two, &sp));
    refuses(two, LLADD_BUSY, try_lock(two, ROW(1, 5), X));
    ck_assert_int_eq(lladd_lock_held(two, TABLE(1)), IS);
    take(two, ROW(1, 6), X);
    refuses(two, LLADD_BUSY, try_lock(two, ROW(1, 5), X));
    ck_assert_int_eq(lladd_lock_held(two, TABLE(1)), IX);
    ok(two, lladd_rollback_to(two, sp));
    ck_assert_int_eq(lladd_lock_held(two, TABLE(1)), IS);
    commit(one);
    commit(two);
    nothing_is_locked();
}
END_TEST

START_TEST(every_byte_of_a_name_counts)
{
    static unsigned char bytes[65536 + 1];
    size_t lens[] = {0, 1, 7, 8, 9, 31, 32, 33, 255, 4096, 65535, 65536};
    struct lladd_txn *txn = fixture_begin(&b);
    for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++)
        take(txn, ID(lladd_lock_bytes(bytes, lens[i])), X);
    for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++) {
        ck_assert(!is_free(ID(lladd_lock_bytes(bytes, lens[i])), IS));
        ck_assert_int_eq(lladd_lock_held(txn, ID(lladd_lock_bytes(bytes, lens[i]))), X);
        if (lens[i]) { /* names that differ in the last byte are different */
            bytes[lens[i] - 1] = 1;
            ck_assert(is_free(ID(lladd_lock_bytes(bytes, lens[i])), X));
            bytes[lens[i] - 1] = 0;
        }
    }
    ck_assert(is_free(ID(lladd_lock_bytes(bytes, 2)), X));
    ck_assert(is_free(TABLE(0), X)); /* a number and bytes are different names */
    ck_assert(is_free(ID(lladd_lock_id(0), lladd_lock_bytes(NULL, 0)), X));
    commit(txn);
    nothing_is_locked();
}
END_TEST

START_TEST(bad_names_and_modes)
{
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_lock_name none = {NULL, 0};
    unsigned char *huge = calloc(1, LLADD_LOCK_NAME_MAX);
    ck_assert_ptr_nonnull(huge);
    refuses(txn, LLADD_BAD_ARGUMENT, try_lock(txn, none, S));
    refuses(txn, LLADD_BAD_ARGUMENT, try_lock(txn, TABLE(1), NONE));
    refuses(txn, LLADD_BAD_ARGUMENT, try_lock(txn, TABLE(1), (enum lladd_lock_mode)7));
    refuses(txn, LLADD_TOO_LARGE,
            try_lock(txn, ID(lladd_lock_bytes(huge, LLADD_LOCK_NAME_MAX)), S));
    refuses(txn, LLADD_TOO_LARGE, try_lock(txn, ID(lladd_lock_bytes(huge, SIZE_MAX)), S));
    take(txn, ID(lladd_lock_bytes(huge, LLADD_LOCK_NAME_MAX - 5)), X);
    ck_assert_int_eq(lladd_lock_held(txn, none), NONE);
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_lock_release(txn, none));
    free(huge);
    commit(txn);
    nothing_is_locked();
}
END_TEST

/* All names have one of two hashes. */
START_TEST(equal_hashes)
{
    struct lladd_lock_options o = LLADD_LOCK_OPTIONS_INIT;
    enum { NAMES = 300 };
    o.hash_bits = 1;
    ok_db(&b, lladd_lock_configure(b.db, &o, &b.err));
    struct lladd_txn *one = fixture_begin(&b), *two = fixture_begin(&b);
    for (uint64_t i = 0; i < NAMES; i++)
        take(i % 2 ? one : two, ROW(i % 7, i), X);
    for (uint64_t i = 0; i < NAMES; i++) {
        ck_assert_int_eq(try_lock(i % 2 ? two : one, ROW(i % 7, i), S), LLADD_BUSY);
        ck_assert_int_eq(lladd_lock_held(i % 2 ? one : two, ROW(i % 7, i)), X);
    }
    ck_assert_uint_eq(stats().names, NAMES + 7);
    o.hash_bits = 2;
    ck_assert_int_eq(lladd_lock_configure(b.db, &o, &b.err), LLADD_BAD_STATE);
    commit(one);
    abort_txn(two);
    nothing_is_locked();
    ok_db(&b, lladd_lock_configure(b.db, &o, &b.err));
}
END_TEST

START_TEST(many_locks)
{
    enum { ROWS = 20000 };
    struct lladd_txn *txn = fixture_begin(&b);
    for (uint64_t i = 0; i < ROWS; i++)
        take(txn, ROW(i % 3, i), i % 2 ? X : S);
    ck_assert_uint_eq(stats().holds, ROWS + 3);
    for (uint64_t i = 0; i < ROWS; i += 97)
        ck_assert_int_eq(lladd_lock_held(txn, ROW(i % 3, i)), i % 2 ? X : S);
    write_something(txn);
    commit(txn);
    nothing_is_locked();
    ck_assert_uint_lt(stats().memory, 2u << 20); /* most of the memory is released after the end */
}
END_TEST

/* ---- early release --------------------------------------------------------------------------- */

START_TEST(reading_locks_can_be_released_early)
{
    struct lladd_txn *txn = fixture_begin(&b);
    take(txn, ROW(1, 5), S);
    refuses(txn, LLADD_BAD_STATE, lladd_lock_release(txn, TABLE(1))); /* a row is still locked */
    ok(txn, lladd_lock_release(txn, ROW(1, 5)));
    ck_assert(is_free(ROW(1, 5), X));
    ok(txn, lladd_lock_release(txn, TABLE(1)));
    nothing_is_locked();
    refuses(txn, LLADD_NOT_FOUND, lladd_lock_release(txn, TABLE(1)));
    take(txn, ROW(1, 5), X);
    refuses(txn, LLADD_BAD_STATE, lladd_lock_release(txn, ROW(1, 5)));
    refuses(txn, LLADD_BAD_STATE, lladd_lock_release(txn, TABLE(1)));
    take(txn, TABLE(2), U);
    ok(txn, lladd_lock_release(txn, TABLE(2)));
    ok(txn, lladd_lock_serialisable(txn, true));
    take(txn, TABLE(2), S);
    refuses(txn, LLADD_BAD_STATE, lladd_lock_release(txn, TABLE(2)));
    commit(txn);
    nothing_is_locked();
}
END_TEST

/* ---- savepoints ------------------------------------------------------------------------------ */

START_TEST(a_rollback_releases_newer_locks)
{
    struct lladd_txn *txn = fixture_begin(&b);
    lladd_savepoint_id one, two;
    take(txn, ROW(1, 1), S);
    take(txn, ROW(1, 2), X);
    ok(txn, lladd_savepoint(txn, &one));
    take(txn, ROW(1, 1), U); /* makes the lock stronger */
    take(txn, ROW(1, 3), X);
    ok(txn, lladd_savepoint(txn, &two));
    take(txn, ROW(1, 1), X);
    take(txn, ROW(1, 3), S); /* is locked already */
    take(txn, ROW(2, 1), S);
    for (int i = 0; i < 2; i++) { /* a savepoint can be used twice */
        ok(txn, lladd_rollback_to(txn, two));
        kept(ROW(1, 1), U);
        kept(ROW(1, 3), X);
        kept(TABLE(2), NONE);
        take(txn, ROW(1, 1), X);
    }
    ok(txn, lladd_rollback_to(txn, one));
    kept(ROW(1, 1), S);
    kept(ROW(1, 2), X);
    kept(ROW(1, 3), NONE);
    kept(TABLE(1), IX);
    ck_assert_uint_eq(stats().holds, 3);
    commit(txn);
    nothing_is_locked();
}
END_TEST

START_TEST(a_serialisable_rollback_keeps_reading_locks)
{
    struct lladd_txn *txn = fixture_begin(&b);
    lladd_savepoint_id sp;
    ok(txn, lladd_lock_serialisable(txn, true));
    take(txn, ROW(1, 1), S);
    ok(txn, lladd_savepoint(txn, &sp));
    for (int i = 0; i < 2; i++) {
        take(txn, ROW(1, 1), X);
        take(txn, ROW(1, 2), X);
        take(txn, ROW(2, 1), S);
        take(txn, TABLE(3), SIX);
        ok(txn, lladd_rollback_to(txn, sp));
        kept(ROW(1, 1), S);
        kept(ROW(1, 2), S);
        kept(TABLE(1), IS);
        kept(ROW(2, 1), S);
        kept(TABLE(3), S);
    }
    commit(txn);
    nothing_is_locked();
}
END_TEST

/* Releasing a lock also removes it from the list of upgrades, which a rollback to a savepoint
 * undoes. */
START_TEST(a_lock_is_released_after_an_upgrade)
{
    struct lladd_txn *txn = fixture_begin(&b);
    lladd_savepoint_id sp, later;
    take(txn, TABLE(1), S);
    ok(txn, lladd_savepoint(txn, &sp));
    take(txn, TABLE(1), U);
    ok(txn, lladd_savepoint(txn, &later));
    ok(txn, lladd_lock_release(txn, TABLE(1)));
    take(txn, TABLE(2), S);
    ok(txn, lladd_rollback_to(txn, sp));
    nothing_is_locked();
    abort_txn(txn);
}
END_TEST

START_TEST(top_actions_keep_their_locks)
{
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_action action;
    ok(txn, lladd_nta_begin(txn, &action));
    take(txn, TABLE(1), X);
    ok(txn, lladd_nta_abort(txn, &action));
    kept(TABLE(1), X);
    abort_txn(txn);
    nothing_is_locked();
}
END_TEST

/* ---- ends ------------------------------------------------------------------------------------ */

START_TEST(locks_are_released_when_the_commit_is_logged)
{
    struct lladd_txn *txn = fixture_begin(&b);
    lladd_lsn lsn;
    take(txn, TABLE(1), X);
    write_something(txn);
    ok(txn, lladd_commit_async(txn, &lsn));
    ck_assert(is_free(TABLE(1), X));
    ok_db(&b, lladd_wait_durable(b.db, lsn, &b.err));
    nothing_is_locked();
}
END_TEST

START_TEST(read_only_transactions_can_lock)
{
    struct lladd_txn_options o = LLADD_TXN_OPTIONS_INIT;
    struct lladd_txn *txn;
    o.read_only = true;
    ok_db(&b, lladd_begin(b.db, &o, &txn, &b.err));
    take(txn, ROW(1, 1), S);
    kept(ROW(1, 1), S);
    commit(txn);
    nothing_is_locked();
}
END_TEST

START_TEST(not_registered)
{
    fixture_close(&b);
    lladd_options_release(&b.options);
    fixture_open(&b);
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_lock_stats s = {.struct_size = sizeof s};
    refuses(txn, LLADD_BAD_STATE, try_lock(txn, TABLE(1), S));
    ck_assert_int_eq(lladd_lock_stats_get(b.db, &s, &b.err), LLADD_BAD_STATE);
    ck_assert_int_eq(lladd_lock_held(txn, TABLE(1)), NONE);
    abort_txn(txn);
}
END_TEST

/* ---- prepared -------------------------------------------------------------------------------- */

/* Prepares a transaction that holds locks in each mode. */
static struct lladd_txn *prepare_one(const char *gid, uint64_t table, bool serialisable)
{
    struct lladd_gid id = fixture_gid(gid);
    struct lladd_txn *txn = fixture_begin(&b);
    lladd_savepoint_id sp;
    write_something(txn);
    ok(txn, lladd_lock_serialisable(txn, serialisable));
    take(txn, ROW(table, 1), X);
    take(txn, ROW(table, 2), S);
    take(txn, ID(lladd_lock_id(table), lladd_lock_bytes("", 0), lladd_lock_bytes("abc", 3)), X);
    ok(txn, lladd_savepoint(txn, &sp));
    take(txn, ROW(table, 3), U);
    take(txn, ROW(table + 1, 1), S);
    take(txn, TABLE(table + 2), SIX);
    take(txn, ROW(table + 2, 1), X);
    ok(txn, lladd_prepare(txn, &id));
    return txn;
}

static void prepared_ones_are_kept(uint64_t table, bool serialisable)
{
    kept(TABLE(table), IX);
    kept(ROW(table, 1), X);
    kept(ROW(table, 2), serialisable ? S : NONE);
    kept(ID(lladd_lock_id(table), lladd_lock_bytes(NULL, 0)), IX);
    kept(ID(lladd_lock_id(table), lladd_lock_bytes(NULL, 0), lladd_lock_bytes("abc", 3)), X);
    kept(ROW(table, 3), U);
    kept(TABLE(table + 1), serialisable ? IS : NONE);
    kept(TABLE(table + 2), serialisable ? SIX : IX);
    kept(ROW(table + 2, 1), X);
}

START_TEST(prepared_transactions_keep_their_locks)
{
    bool serialisable = _i != 0;
    struct lladd_txn *txn = prepare_one("a", 10, serialisable);
    struct lladd_gid a = fixture_gid("a"), c = fixture_gid("c");
    prepare_one("c", 20, !serialisable);
    prepared_ones_are_kept(10, serialisable);
    prepared_ones_are_kept(20, !serialisable);
    refuses(txn, LLADD_BAD_STATE, try_lock(txn, TABLE(99), S));
    refuses(txn, LLADD_BAD_STATE, lladd_lock_release(txn, ROW(10, 3)));
    refuses(txn, LLADD_BAD_STATE, lladd_lock_serialisable(txn, true));
    lladd_lsn id = lladd_txn_id(txn);
    for (int i = 0; i < 2; i++) {
        fixture_crash(&b);
        prepared_ones_are_kept(10, serialisable);
        prepared_ones_are_kept(20, !serialisable);
    }
    struct lladd_txn *other = fixture_begin(&b);
    char who[64];
    refuses(other, LLADD_BUSY, try_lock(other, ROW(10, 1), S));
    (void)snprintf(who, sizeof who, "(LSN %llu, prepared) with X", (unsigned long long)id.v);
    ck_assert_msg(strstr(lladd_txn_error(other)->message, who), "%s",
                  lladd_txn_error(other)->message);
    abort_txn(other);
    ok_db(&b, lladd_in_doubt_claim(b.db, &a, &txn, &b.err));
    refuses(txn, LLADD_BAD_STATE, try_lock(txn, TABLE(99), S));
    commit(txn);
    kept(ROW(10, 1), NONE);
    prepared_ones_are_kept(20, !serialisable);
    fixture_close(&b);
    fixture_open(&b);
    prepared_ones_are_kept(20, !serialisable);
    ok_db(&b, lladd_in_doubt_claim(b.db, &c, &txn, &b.err));
    abort_txn(txn);
    nothing_is_locked();
}
END_TEST

START_TEST(a_heuristic_outcome_releases_locks)
{
    struct lladd_gid a = fixture_gid("a");
    enum lladd_outcome outcome = _i ? LLADD_OUTCOME_COMMIT : LLADD_OUTCOME_ABORT;
    struct lladd_txn *txn = prepare_one("a", 10, false);
    ck_assert_int_eq(lladd_heuristic_end(txn, outcome), 0);
    nothing_is_locked();
    prepare_one("c", 10, false);
    fixture_crash(&b);
    struct lladd_gid c = fixture_gid("c");
    prepared_ones_are_kept(10, false);
    ok_db(&b, lladd_in_doubt_claim(b.db, &c, &txn, &b.err));
    ck_assert_int_eq(lladd_heuristic_end(txn, outcome), 0);
    nothing_is_locked();
    ok_db(&b, lladd_heuristic_forget(b.db, &a, &b.err));
    ok_db(&b, lladd_heuristic_forget(b.db, &c, &b.err));
}
END_TEST

START_TEST(a_database_with_locks_in_doubt_needs_the_lock_manager)
{
    prepare_one("a", 10, false);
    fixture_kill(&b);
    lladd_options_release(&b.options);
    ck_assert_int_eq(fixture_try_open(&b), LLADD_NO_OPERATION);
    ck_assert_msg(strstr(b.err.message, "\"lock\""), "%s", b.err.message);
    ok_db(&b, lladd_lock_register(&b.options, &b.err));
    fixture_open(&b);
    prepared_ones_are_kept(10, false);
}
END_TEST

/* Many names are long, so the locks that a prepare stores are longer than the longest record. */
START_TEST(many_locks_in_doubt)
{
    enum { ROWS = 5000, LONG = 65536 };
    static unsigned char bytes[LONG];
    struct lladd_gid gid = fixture_gid("many");
    struct lladd_txn *txn = fixture_begin(&b);
    write_something(txn);
    for (uint64_t i = 0; i < ROWS; i++)
        take(txn, ROW(1, i), X);
    for (unsigned i = 0; i < 40; i++) {
        bytes[0] = (unsigned char)i;
        take(txn, ID(lladd_lock_id(2), lladd_lock_bytes(bytes, LONG)), X);
    }
    ok(txn, lladd_prepare(txn, &gid));
    fixture_crash(&b);
    ck_assert_uint_eq(stats().holds, ROWS + 40 + 2);
    for (uint64_t i = 0; i < ROWS; i += 101)
        kept(ROW(1, i), X);
    for (unsigned i = 0; i < 40; i++) {
        bytes[0] = (unsigned char)i;
        kept(ID(lladd_lock_id(2), lladd_lock_bytes(bytes, LONG)), X);
    }
    ok_db(&b, lladd_in_doubt_claim(b.db, &gid, &txn, &b.err));
    commit(txn);
    nothing_is_locked();
}
END_TEST

/* A prepare that is refused leaves all locks with the transaction. */
START_TEST(a_refused_prepare_changes_nothing)
{
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_gid gid = fixture_gid("again");
    prepare_one("again", 30, false);
    write_something(txn);
    take(txn, ROW(1, 1), S);
    refuses(txn, LLADD_EXISTS, lladd_prepare(txn, &gid));
    kept(ROW(1, 1), S);
    abort_txn(txn);
}
END_TEST

/* ---- inspection ------------------------------------------------------------------------------ */

struct seen {
    unsigned holds[MODES], n, prepared;
    char last[64];
};

/* Counts the locks of a listing. Stops the listing at lock number 100. */
static int see(void *ctx, const struct lladd_lock_info *i)
{
    struct seen *s = ctx;
    s->n++;
    s->holds[i->held]++;
    s->prepared += i->prepared;
    ck_assert_int_eq(i->wanted, NONE);
    ck_assert_uint_lt(lladd_lock_name_text(i->name, s->last, sizeof s->last), sizeof s->last);
    return s->n == 100 ? LLADD_END : 0;
}

START_TEST(every_lock_is_listed)
{
    struct seen s = {.n = 0};
    struct lladd_txn *one = fixture_begin(&b), *two = fixture_begin(&b);
    prepare_one("a", 10, false);
    take(one, ROW(1, 1), S);
    take(two, ROW(1, 1), S);
    ok_db(&b, lladd_lock_each(b.db, see, &s, &b.err));
    ck_assert_uint_eq(s.prepared, 7);
    ck_assert_uint_eq(s.n, 4 + 7); /* `one` and `two` each hold a lock on a row and on its table */
    ck_assert_uint_eq(s.holds[S], 2);
    ck_assert_uint_eq(s.holds[IS], 2);
    ck_assert_uint_eq(s.holds[X], 3);
    s.n = 99;
    ck_assert_int_eq(lladd_lock_each(b.db, see, &s, &b.err), LLADD_END);
    ck_assert_uint_lt(lladd_lock_number(one), lladd_lock_number(two) + 2);
    commit(one);
    commit(two);
}
END_TEST

START_TEST(names_as_text)
{
    char text[32];
    struct lladd_lock_name name = ID(lladd_lock_id(7), lladd_lock_bytes("a\n", 2));
    ck_assert_uint_eq(lladd_lock_name_text(name, text, sizeof text), 11);
    ck_assert_str_eq(text, "{7, \"a\\0a\"}");
}
END_TEST

/* ---- without memory -------------------------------------------------------------------------- */

/* In each call, memory allocation number `every` fails. The call succeeds, or changes nothing and
 * can be repeated. */
static void without_memory(uint64_t every)
{
    static const char longer[] = "a name that needs room of its own, more than there is";
    struct lladd_txn *txn = fixture_begin(&b);
    uint64_t holds = 0;
    lladd_savepoint_id sp;
    for (uint64_t i = 0; i < 60; i++) {
        struct lladd_lock_part parts[] = {
            lladd_lock_id(i % 5), lladd_lock_bytes(i % 3 ? "" : longer, i % 3 ? 0 : sizeof longer),
            lladd_lock_id(i)};
        struct lladd_lock_name name = {parts, i % 2 ? 3 : 2};
        enum lladd_lock_mode mode = i % 4 ? S : U;
        ok(txn, lladd_savepoint(txn, &sp));
        fault_alloc_fail(&b.mem, every, false);
        int rc = try_lock(txn, name, mode);
        fault_alloc_fail(&b.mem, 0, false);
        if (rc) {
            ck_assert_int_eq(rc, LLADD_NO_MEMORY);
            ck_assert_uint_eq(stats().holds, holds);
            take(txn, name, mode);
        }
        take(txn, name, S);
        fault_alloc_fail(&b.mem, every, false);
        rc = try_lock(txn, name, X);
        fault_alloc_fail(&b.mem, 0, false);
        ck_assert(rc == 0 || rc == LLADD_NO_MEMORY);
        ck_assert_int_eq(lladd_lock_held(txn, name), rc ? mode : X);
        holds = stats().holds;
    }
    commit(txn);
    nothing_is_locked();
}

START_TEST(an_allocation_fails_in_each_call)
{
    for (uint64_t every = 1; every < 8; every++)
        without_memory(every);
}
END_TEST

/* The n-th memory allocation of an open with locks in doubt fails. The open returns the error, and
 * can be repeated. */
START_TEST(no_memory_for_locks_in_doubt)
{
    prepare_one("a", 10, true);
    fixture_kill(&b);
    bool fired = true;
    for (uint64_t n = 1; fired; n += 1 + n / 16) {
        fault_alloc_fail(&b.mem, n, false);
        int rc = fixture_try_open(&b);
        fired = fault_alloc_fired(&b.mem) != 0;
        fault_alloc_fail(&b.mem, 0, false);
        if (rc) {
            ck_assert_int_eq(rc, LLADD_NO_MEMORY);
        } else {
            prepared_ones_are_kept(10, true);
            fixture_kill(&b);
        }
    }
    fixture_open(&b);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("locks");
    TCase *t = tcase_create("one thread");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, every_pair_of_modes);
    tcase_add_test(t, every_upgrade);
    tcase_add_test(t, an_upgrade_is_refused_by_what_others_hold);
    tcase_add_test(t, the_error_names_the_blocking_transaction);
    tcase_add_test(t, a_lock_takes_intention_locks_on_ancestors);
    tcase_add_test(t, what_an_ancestor_includes_is_not_locked_again);
    tcase_add_test(t, tables_and_rows_conflict);
    tcase_add_test(t, a_lock_is_refused_while_a_page_is_held);
    tcase_add_test(t, a_refused_call_changes_nothing);
    tcase_add_test(t, every_byte_of_a_name_counts);
    tcase_add_test(t, bad_names_and_modes);
    tcase_add_test(t, equal_hashes);
    tcase_add_test(t, many_locks);
    tcase_add_test(t, reading_locks_can_be_released_early);
    tcase_add_test(t, a_rollback_releases_newer_locks);
    tcase_add_test(t, a_serialisable_rollback_keeps_reading_locks);
    tcase_add_test(t, a_lock_is_released_after_an_upgrade);
    tcase_add_test(t, top_actions_keep_their_locks);
    tcase_add_test(t, locks_are_released_when_the_commit_is_logged);
    tcase_add_test(t, read_only_transactions_can_lock);
    tcase_add_test(t, not_registered);
    tcase_add_loop_test(t, prepared_transactions_keep_their_locks, 0, 2);
    tcase_add_loop_test(t, a_heuristic_outcome_releases_locks, 0, 2);
    tcase_add_test(t, a_database_with_locks_in_doubt_needs_the_lock_manager);
    tcase_add_test(t, many_locks_in_doubt);
    tcase_add_test(t, a_refused_prepare_changes_nothing);
    tcase_add_test(t, every_lock_is_listed);
    tcase_add_test(t, names_as_text);
    tcase_add_test(t, an_allocation_fails_in_each_call);
    tcase_add_test(t, no_memory_for_locks_in_doubt);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return fixture_run(suite());
}
