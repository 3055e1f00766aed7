/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Unlogged tables. A source sends its transactions, each with its position, and sends them again
 * after a crash, after the table's position. After each crash, and after each close, the table has
 * exactly the rows of the source's transactions up to its position.
 */
#include "managed_fixture.h"

#include <lladd/extension.h>
#include <lladd/sync.h>
#include <stdio.h>

static struct fixture b;
static struct lladd_managed *t;

static struct lladd_managed *begin(enum lladd_managed_schedule schedule)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    o.schedule = schedule;
    o.flags = LLADD_MANAGED_UNLOGGED;
    return managed_begin(&b, &o);
}

static int try_at(struct lladd_txn *txn, uint64_t commit, uint64_t from)
{
    struct lladd_managed_position p = {commit, from};
    return lladd_managed_position_set(txn, t, &p);
}

static void at(struct lladd_txn *txn, uint64_t commit, uint64_t from)
{
    ok(txn, try_at(txn, commit, from));
}

static void digest(void)
{
    ok_db(&b, lladd_managed_digest(t, &b.err));
}

static void expect_position(bool durable, uint64_t commit, uint64_t from)
{
    struct lladd_managed_position p = {~UINT64_C(0), ~UINT64_C(0)};
    ok_db(&b, lladd_managed_position_get(t, durable, &p, &b.err));
    ck_assert_uint_eq(p.commit, commit);
    ck_assert_uint_eq(p.from, from);
}

/* ---- the source ------------------------------------------------------------------------------ */

/* Transaction n of the source puts n under the key 0 and into one of SLOTS rows. It deletes another
 * one of these rows, and each fifth transaction deletes a range of them. */
enum { SLOTS = 20, RANGE = 4, KEYS = 1 + SLOTS + RANGE, STEPS = 4 };

struct step {
    uint32_t key, to, number; /* to: deletes the keys from `key` up to, but not including, `to` */
};

static struct step step_of(uint32_t n, unsigned i)
{
    switch (i) {
    case 0:
        return (struct step){0, 0, n};
    case 1:
        return (struct step){1 + (n + 7) % SLOTS, 0, 0};
    case 2:
        return (struct step){1 + 2 * n % SLOTS, n % 5 ? 0 : 1 + RANGE + 2 * n % SLOTS, 0};
    default:
        return (struct step){1 + n % SLOTS, 0, n};
    }
}

static int take_step(struct lladd_txn *txn, struct step s)
{
    char text[16];
    struct lladd_dtable_key from = lladd_dtable_u32(s.key), to = lladd_dtable_u32(s.to);
    snprintf(text, sizeof text, "%u", (unsigned)s.number);
    return s.to ? lladd_managed_delete_range(txn, t, &from, &to)
                : managed_try(txn, t, s.key, s.number ? text : NULL);
}

/* Puts the rows of transaction n; its position is 10 n, and `from` is 5 less. */
static int take(struct lladd_txn *txn, uint32_t n)
{
    int rc = try_at(txn, UINT64_C(10) * n, UINT64_C(10) * n - 5);
    for (unsigned i = 0; !rc && i < STEPS; i++)
        rc = take_step(txn, step_of(n, i));
    return rc;
}

static int try_send(uint32_t n)
{
    struct lladd_txn *txn;
    int rc = lladd_begin(b.db, NULL, &txn, &b.err);
    return rc ? rc : fixture_end(txn, take(txn, n));
}

static void send(uint32_t from, uint32_t to)
{
    for (uint32_t n = from; n <= to; n++) {
        struct lladd_txn *txn = fixture_begin(&b);
        ok(txn, take(txn, n));
        commit(txn);
    }
}

/* Sends without waiting for the log. */
static void send_later(uint32_t from, uint32_t to)
{
    for (uint32_t n = from; n <= to; n++) {
        struct lladd_txn *txn = fixture_begin(&b);
        lladd_lsn lsn;
        ok(txn, take(txn, n));
        ck_assert_int_eq(lladd_commit_async(txn, &lsn), 0);
    }
}

/* The rows after the source's first n transactions; the caller frees the text. */
static char *rows_of(uint32_t n)
{
    uint32_t numbers[KEYS] = {0};
    char *text = calloc(KEYS, 24), *end = text;
    for (uint32_t i = 1; i <= n; i++)
        for (unsigned k = 0; k < STEPS; k++) {
            struct step s = step_of(i, k);
            numbers[s.key] = s.number;
            for (uint32_t key = s.key; key < s.to; key++)
                numbers[key] = 0;
        }
    for (unsigned i = 0; i < KEYS; i++)
        if (numbers[i])
            end += sprintf(end, "%s%u=%u", end == text ? "" : " ", i, (unsigned)numbers[i]);
    return text;
}

static void sees(struct lladd_txn *txn, uint32_t n)
{
    char *rows = rows_of(n);
    managed_sees(txn, t, rows);
    free(rows);
}

static void expect(uint32_t n)
{
    struct lladd_txn *txn = fixture_begin(&b);
    sees(txn, n);
    commit(txn);
}

/* Asserts that the table was just opened: it has the rows up to its position. Returns the number of
 * the last one of these transactions. */
static uint32_t expect_prefix(void)
{
    struct lladd_managed_position p, durable;
    ok_db(&b, lladd_managed_position_get(t, false, &p, &b.err));
    ok_db(&b, lladd_managed_position_get(t, true, &durable, &b.err));
    ck_assert_uint_eq(p.commit, durable.commit);
    ck_assert_uint_eq(p.from, durable.from);
    ck_assert_uint_eq(p.commit % 10, 0);
    ck_assert_uint_eq(p.from, p.commit ? p.commit - 5 : 0);
    expect((uint32_t)(p.commit / 10));
    return (uint32_t)(p.commit / 10);
}

static void crash(uint32_t n)
{
    t = managed_restart(&b);
    ck_assert_uint_eq(expect_prefix(), n);
}

/* ---- the contract ---------------------------------------------------------------------------- */

START_TEST(a_position_comes_first)
{
    struct lladd_dtable_key from = lladd_dtable_u32(1), to = lladd_dtable_u32(3);
    struct lladd_managed_row row = {from, lladd_dtable_value_of("x", 1)};
    size_t done = 7;
    t = begin(LLADD_MANAGED_RULER);
    expect_position(false, 0, 0);
    expect_position(true, 0, 0);
    struct lladd_txn *txn = fixture_begin(&b);
    refuses(txn, LLADD_BAD_STATE, managed_try(txn, t, 1, "a"));
    ck_assert_ptr_nonnull(strstr(lladd_txn_error(txn)->message, "position"));
    refuses(txn, LLADD_BAD_STATE, managed_try(txn, t, 1, NULL));
    refuses(txn, LLADD_BAD_STATE, lladd_managed_delete_range(txn, t, &from, &to));
    refuses(txn, LLADD_BAD_STATE, lladd_managed_put_many(txn, t, &row, 1, &done));
    ck_assert_uint_eq(done, 0);
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_managed_position_set(txn, t, NULL));
    managed_sees(txn, t, "");
    at(txn, 10, 5);
    managed_fill_in(txn, t, "1=a");
    managed_sees(txn, t, "1=a");
    commit(txn);
    managed_expect(&b, t, "1=a");
    managed_done(&b, t);
}
END_TEST

START_TEST(positions_ascend)
{
    t = begin(LLADD_MANAGED_RULER);
    struct lladd_txn *txn = fixture_begin(&b);
    refuses(txn, LLADD_OUT_OF_RANGE, try_at(txn, 0, 0));
    at(txn, 10, 5);
    refuses(txn, LLADD_OUT_OF_RANGE, try_at(txn, 10, 6));
    refuses(txn, LLADD_OUT_OF_RANGE, try_at(txn, 11, 4));
    at(txn, 11, 5);
    managed_fill_in(txn, t, "1=a");
    commit(txn);
    txn = fixture_begin(&b);
    refuses(txn, LLADD_OUT_OF_RANGE, try_at(txn, 11, 5));
    refuses(txn, LLADD_OUT_OF_RANGE, try_at(txn, 12, 4));
    refuses(txn, LLADD_BAD_STATE, managed_try(txn, t, 1, "b"));
    struct lladd_txn *other = fixture_begin(&b); /* the first one is not the writer */
    ok(other, try_at(other, 13, 9));
    commit(other);
    commit(txn);
    digest();
    expect_position(false, 13, 9);
    txn = fixture_begin(&b);
    refuses(txn, LLADD_OUT_OF_RANGE, try_at(txn, 13, 9));
    commit(txn);
    managed_expect(&b, t, "1=a");
    managed_done(&b, t);
}
END_TEST

START_TEST(logged_tables_have_no_positions)
{
    struct lladd_managed_position p = {1, 1};
    t = managed_begin(&b, NULL);
    struct lladd_txn *txn = fixture_begin(&b);
    refuses(txn, LLADD_BAD_STATE, try_at(txn, 1, 1));
    managed_fill_in(txn, t, "1=a");
    commit(txn);
    ck_assert_int_eq(lladd_managed_position_get(t, false, &p, &b.err), LLADD_BAD_STATE);
    managed_expect(&b, t, "1=a");
    managed_done(&b, t);
}
END_TEST

START_TEST(one_writer_at_a_time)
{
    t = begin(LLADD_MANAGED_RULER);
    struct lladd_txn *first = fixture_begin(&b), *second = fixture_begin(&b);
    at(first, 10, 5);
    managed_fill_in(first, t, "1=a");
    refuses(second, LLADD_CONFLICT, try_at(second, 20, 15));
    refuses(second, LLADD_BAD_STATE, managed_try(second, t, 2, "b"));
    managed_sees(second, t, "");
    commit(first);
    refuses(second, LLADD_CONFLICT, try_at(second, 20, 15)); /* its snapshot is older */
    managed_sees(second, t, "");
    commit(second);
    struct lladd_txn *gone = fixture_begin(&b);
    at(gone, 20, 15);
    managed_fill_in(gone, t, "1 2=b");
    abort_txn(gone);
    struct lladd_txn *third = fixture_begin(&b);
    at(third, 20, 15);
    managed_fill_in(third, t, "2=c");
    commit(third);
    managed_expect(&b, t, "1=a 2=c");
    ck_assert_uint_eq(managed_stats(&b, t).conflicts, 2);
    managed_done(&b, t);
}
END_TEST

/* No journal record could hold the value. */
START_TEST(values_may_be_longer_than_a_record)
{
    static char large[8u << 20], out[sizeof large];
    const struct lladd_dtable_key key = lladd_dtable_u32(1);
    const struct lladd_dtable_value v = lladd_dtable_value_of(large, sizeof large);
    const struct lladd_managed_row row = {key, v};
    size_t len = 0;
    t = begin(LLADD_MANAGED_LEVELS);
    ck_assert_uint_gt(sizeof large, lladd_log_object_max(b.db));
    struct lladd_txn *txn = fixture_begin(&b);
    at(txn, 1, 2);
    ok(txn, lladd_managed_put(txn, t, &key, &v));
    ok(txn, lladd_managed_put_many(txn, t, &row, 1, NULL));
    commit(txn);
    digest();
    txn = fixture_begin(&b);
    ok(txn, lladd_managed_get(txn, t, &key, out, sizeof out, &len));
    ck_assert_uint_eq(len, sizeof large);
    commit(txn);
    managed_done(&b, t);
}
END_TEST

/* A refused prepare changes nothing. */
START_TEST(prepare_is_refused)
{
    struct lladd_gid g = fixture_gid("x");
    lladd_savepoint_id before;
    t = begin(LLADD_MANAGED_RULER);
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_savepoint(txn, &before));
    ok(txn, take(txn, 1));
    refuses(txn, LLADD_BAD_STATE, lladd_prepare(txn, &g));
    sees(txn, 1);
    ok(txn, take(txn, 2));
    commit(txn);
    expect(2);
    txn = fixture_begin(&b);
    ok(txn, lladd_savepoint(txn, &before));
    ok(txn, take(txn, 3));
    ok(txn, lladd_rollback_to(txn, before));
    refuses(txn, LLADD_BAD_STATE, lladd_prepare(txn, &g));
    ok(txn, take(txn, 3));
    commit(txn);
    expect(3);
    digest();
    expect_position(false, 30, 25);
    txn = fixture_begin(&b); /* a reader can be prepared */
    sees(txn, 3);
    ok(txn, lladd_prepare(txn, &g));
    commit(txn);
    managed_done(&b, t);
}
END_TEST

/* ---- positions in a transaction -------------------------------------------------------------- */

START_TEST(several_positions_in_a_transaction)
{
    t = begin(LLADD_MANAGED_RULER);
    struct lladd_txn *txn = fixture_begin(&b);
    for (uint32_t n = 1; n <= 50; n++)
        ok(txn, take(txn, n));
    sees(txn, 50);
    commit(txn);
    expect(50);
    expect_position(false, 0, 0);
    digest();
    expect_position(false, 500, 495);
    ok_db(&b, lladd_checkpoint(b.db, &b.err));
    crash(50);
    managed_done(&b, t);
}
END_TEST

START_TEST(rollbacks_take_positions_back)
{
    lladd_savepoint_id one, two, none;
    struct lladd_action action;
    t = begin(LLADD_MANAGED_RULER);
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_savepoint(txn, &none));
    ok(txn, take(txn, 1));
    ok(txn, lladd_rollback_to(txn, none));
    sees(txn, 0);
    refuses(txn, LLADD_BAD_STATE, managed_try(txn, t, 1, "a"));
    ok(txn, take(txn, 1));
    ok(txn, take(txn, 2));
    ok(txn, lladd_savepoint(txn, &one));
    ok(txn, take(txn, 3));
    ok(txn, lladd_savepoint(txn, &two));
    ok(txn, take(txn, 4));
    ok(txn, take(txn, 5));
    ok(txn, lladd_rollback_to(txn, two));
    sees(txn, 3);
    refuses(txn, LLADD_OUT_OF_RANGE, try_at(txn, 30, 25));
    ok(txn, take(txn, 4));
    ok(txn, lladd_rollback_to(txn, one));
    sees(txn, 2);
    ok(txn, lladd_nta_begin(txn, &action));
    ok(txn, take(txn, 3));
    ok(txn, lladd_nta_abort(txn, &action));
    sees(txn, 2);
    ok(txn, take(txn, 3));
    ok(txn, lladd_nta_begin(txn, &action));
    ok(txn, take(txn, 4));
    ok(txn, lladd_nta_end(txn, &action, LLADD_NO_OP, NULL, 0));
    ok(txn, lladd_savepoint(txn, &two));
    ok(txn, take(txn, 5));
    ok(txn, lladd_rollback_to(txn, two));
    sees(txn, 4);
    commit(txn);
    expect(4);
    digest();
    expect_position(false, 40, 35);
    ok_db(&b, lladd_checkpoint(b.db, &b.err));
    crash(4);
    send(5, 6);
    expect(6);
    managed_done(&b, t);
}
END_TEST

/* All positions and rows are rolled back: the commit moves no position. */
START_TEST(nothing_is_left_to_commit)
{
    lladd_savepoint_id none;
    t = begin(LLADD_MANAGED_RULER);
    send(1, 1);
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_savepoint(txn, &none));
    ok(txn, take(txn, 2));
    ok(txn, lladd_rollback_to(txn, none));
    commit(txn);
    txn = fixture_begin(&b);
    ok(txn, take(txn, 2));
    abort_txn(txn);
    expect(1);
    digest();
    expect_position(false, 10, 5);
    send(2, 2);
    expect(2);
    managed_done(&b, t);
}
END_TEST

/* A commit without rows moves the position, too. */
START_TEST(a_position_without_rows)
{
    t = begin(LLADD_MANAGED_RULER);
    send(1, 3);
    digest();
    struct lladd_txn *txn = fixture_begin(&b);
    at(txn, 1000, 999);
    commit(txn);
    expect_position(false, 30, 25);
    digest();
    expect_position(false, 1000, 999);
    ck_assert_uint_eq(managed_stats(&b, t).runs, 1);
    ok_db(&b, lladd_checkpoint(b.db, &b.err));
    t = managed_restart(&b);
    expect_position(true, 1000, 999);
    expect(3);
    managed_done(&b, t);
}
END_TEST

/* Two tables in one transaction each have a position of their own. */
START_TEST(two_tables)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    t = begin(LLADD_MANAGED_RULER);
    o.flags = LLADD_MANAGED_UNLOGGED;
    struct lladd_managed *rows = t, *other = managed_table(&b, "other", &o);
    struct lladd_managed *logged = managed_table(&b, "logged", NULL);
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, take(txn, 1));
    managed_put(txn, logged, 1, "a");
    t = other;
    at(txn, 7, 7);
    managed_put(txn, other, 1, "b");
    commit(txn);
    digest();
    expect_position(false, 7, 7);
    t = rows;
    expect_position(false, 0, 0);
    ok_db(&b, lladd_checkpoint(b.db, &b.err));
    fixture_crash(&b);
    t = managed_open(&b, "other");
    managed_expect(&b, t, "1=b");
    managed_close(&b, t);
    t = managed_open(&b, "logged");
    managed_expect(&b, t, "1=a");
    managed_close(&b, t);
    t = managed_open(&b, "rows");
    expect(0);
    managed_done(&b, t);
}
END_TEST

/* ---- closes and crashes ---------------------------------------------------------------------- */

START_TEST(a_close_loses_what_is_not_digested)
{
    t = begin(LLADD_MANAGED_RULER);
    for (uint32_t n = 1; n <= 40; n += 10) {
        send(n, n + 6);
        digest();
        send(n + 7, n + 9);
        expect(n + 9);
        managed_close(&b, t);
        if (n == 11) {
            fixture_close(&b);
            fixture_open(&b);
        }
        t = managed_open(&b, "rows");
        ck_assert_uint_eq(expect_prefix(), n + 6);
        send(n + 7, n + 9); /* the source sends them again */
        expect(n + 9);
    }
    managed_done(&b, t);
}
END_TEST

/* A digest does not force the log. Until the log is forced, a crash takes the digest back, and the
 * durable position is the old one. */
START_TEST(the_log_is_lost)
{
    t = begin(LLADD_MANAGED_RULER);
    send(1, 3);
    digest();
    expect_position(false, 30, 25);
    expect_position(true, 0, 0);
    send(4, 4); /* its commit forces the log */
    expect_position(true, 30, 25);
    digest();
    expect_position(false, 40, 35);
    expect_position(true, 30, 25);
    crash(3);
    send(4, 6);
    digest();
    send_later(7, 8);
    digest(); /* may force the log up to the digest before */
    expect_position(false, 80, 75);
    struct lladd_managed_position durable;
    ok_db(&b, lladd_managed_position_get(t, true, &durable, &b.err));
    ck_assert_uint_lt(durable.commit, 80);
    uint32_t n = (uint32_t)(durable.commit / 10);
    crash(n);
    send(n + 1, 6);
    digest();
    ok_db(&b, lladd_checkpoint(b.db, &b.err));
    expect_position(true, 60, 55);
    crash(6);
    managed_done(&b, t);
}
END_TEST

/* An open makes durable what it has read. */
START_TEST(an_open_makes_the_position_durable)
{
    t = begin(LLADD_MANAGED_RULER);
    send(1, 3);
    digest();
    expect_position(true, 0, 0);
    managed_close(&b, t);
    t = managed_open(&b, "rows");
    expect_position(true, 30, 25);
    crash(3);
    managed_done(&b, t);
}
END_TEST

/* A writer is open during digests, so several memtables have its rows. A digest stores the position
 * of the transactions that have committed by then. */
START_TEST(a_digest_while_a_writer_is_open)
{
    t = begin(LLADD_MANAGED_RULER);
    send(1, 3);
    struct lladd_txn *writer = fixture_begin(&b);
    ok(writer, take(writer, 4));
    digest();
    expect_position(false, 30, 25);
    expect(3);
    ok(writer, take(writer, 5));
    digest();
    expect_position(false, 30, 25);
    ok(writer, take(writer, 6));
    sees(writer, 6);
    ck_assert_uint_gt(managed_stats(&b, t).memtables, 1);
    commit(writer);
    expect(6);
    crash(3); /* the commit has forced the log after the digest */
    writer = fixture_begin(&b);
    ok(writer, take(writer, 4));
    digest();
    commit(writer);
    send(5, 5);
    digest();
    expect_position(false, 50, 45);
    send(6, 6);
    expect(6);
    crash(5);
    managed_done(&b, t);
}
END_TEST

START_TEST(asynchronous_commits)
{
    t = begin(LLADD_MANAGED_RULER);
    send_later(1, 5);
    expect(5);
    digest();
    expect_position(false, 50, 45);
    crash(0);
    send_later(1, 5);
    digest();
    send_later(6, 9);
    ok_db(&b, lladd_checkpoint(b.db, &b.err));
    expect_position(true, 50, 45);
    crash(5);
    managed_done(&b, t);
}
END_TEST

START_TEST(old_snapshots)
{
    enum { READERS = 5 };
    struct lladd_txn *readers[READERS];
    t = begin(_i ? LLADD_MANAGED_LEVELS : LLADD_MANAGED_TIERED);
    for (uint32_t i = 0; i < READERS; i++) {
        send(7 * i + 1, 7 * i + 7);
        readers[i] = fixture_begin(&b);
        sees(readers[i], 7 * i + 7);
        digest();
    }
    ok_db(&b, lladd_managed_combine(t, 0, &b.err));
    managed_tidy(&b, t);
    send(36, 50);
    for (uint32_t i = 0; i < READERS; i++) {
        sees(readers[i], 7 * i + 7);
        refuses(readers[i], LLADD_CONFLICT, try_at(readers[i], 510, 505));
        commit(readers[i]);
    }
    expect(50);
    managed_done(&b, t);
}
END_TEST

static uint64_t blocks_read(void)
{
    struct lladd_dtable_cache_stats s = {.struct_size = sizeof s};
    lladd_dtable_cache_stats_get(b.db, &s);
    return s.reads;
}

/* Puts and deletions read nothing of a run: neither the row that they replace, nor a filter, nor
 * rows that may conflict. */
START_TEST(puts_read_no_run)
{
    enum { ROWS = 3000 };
    struct lladd_dtable_key from = lladd_dtable_u32(10), to = lladd_dtable_u32(20);
    t = begin(_i ? LLADD_MANAGED_LEVELS : LLADD_MANAGED_TIERED);
    for (uint64_t n = 1; n <= 2; n++) {
        struct lladd_txn *txn = fixture_begin(&b);
        at(txn, n, n);
        for (uint32_t i = 0; i < ROWS; i++)
            managed_put(txn, t, i, n == 1 ? "a row of some bytes" : "another one");
        commit(txn);
        digest();
    }
    ok_db(&b, lladd_checkpoint(b.db, &b.err));
    t = managed_restart(&b);
    uint64_t before = blocks_read();
    for (uint64_t n = 3; n <= 4; n++) {
        struct lladd_txn *txn = fixture_begin(&b);
        at(txn, n, n);
        for (uint32_t i = 0; i < ROWS; i += 3)
            managed_put(txn, t, i, i % 2 ? "new" : NULL);
        ok(txn, lladd_managed_delete_range(txn, t, &from, &to));
        commit(txn);
    }
    ck_assert_uint_eq(blocks_read(), before);
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_dtable_key key = lladd_dtable_u32(ROWS / 2 + 1);
    char value[32] = {0};
    size_t len;
    ok(txn, lladd_managed_get(txn, t, &key, value, sizeof value, &len));
    ck_assert_str_eq(value, "another one");
    ck_assert_uint_gt(blocks_read(), before); /* the counter does count */
    commit(txn);
    managed_done(&b, t);
}
END_TEST

/* ---- threads --------------------------------------------------------------------------------- */

static uint32_t ended; /* atomic: the writer has ended */

/* A snapshot has whole transactions of the source: the row 0 says which ones. */
static void *reader(void *arg)
{
    (void)arg;
    while (!lladd_atomic_load32(&ended)) {
        struct lladd_txn *txn = fixture_begin(&b);
        char *text = managed_text(txn, t);
        char *rows = rows_of(*text ? (uint32_t)strtoul(text + 2, NULL, 10) : 0);
        if (strcmp(text, rows) != 0) { /* an assertion would longjmp to another thread's stack */
            fprintf(stderr, "%s\n%s\n", text, rows);
            abort();
        }
        free(text);
        free(rows);
        if (lladd_commit(txn))
            abort();
    }
    return NULL;
}

START_TEST(with_threads)
{
    enum { ROUNDS = 6, EACH = 300 };
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    uint32_t next = 1, reached = 0;
    fixture_init_threads(&b);
    ok_db(&b, lladd_managed_register(&b.options, &b.err));
    fixture_open(&b);
    o.flags = LLADD_MANAGED_UNLOGGED;
    o.schedule = _i ? LLADD_MANAGED_LEVELS : LLADD_MANAGED_TIERED;
    o.memory_bytes = 4000;
    t = managed_table(&b, "rows", &o);
    for (int round = 0; round < ROUNDS; round++) {
        struct lladd_thread thread = {0};
        lladd_atomic_store32(&ended, 0);
        ok_db(&b, lladd_managed_threads(b.db, 2, &b.err));
        ck_assert_int_eq(lladd_thread_start(&thread, reader, NULL), 0);
        for (unsigned i = 0; i < EACH; i++, next++)
            (i % 8 ? send_later : send)(next, next);
        lladd_atomic_store32(&ended, 1);
        lladd_thread_join(&thread);
        struct lladd_managed_position durable;
        ok_db(&b, lladd_managed_position_get(t, true, &durable, &b.err));
        expect(next - 1);
        t = managed_restart(&b);
        uint32_t n = expect_prefix();
        ck_assert_uint_ge(n, durable.commit / 10);
        ck_assert_uint_ge(n, reached);
        reached = n;
        next = n + 1;
    }
    ck_assert_uint_gt(reached, EACH);
    digest();
    managed_tidy(&b, t);
    managed_done(&b, t);
}
END_TEST

/* ---- failures -------------------------------------------------------------------------------- */

static uint32_t sent; /* transactions that have committed */

static void setup(void)
{
    t = begin(LLADD_MANAGED_LEVELS);
    sent = 0;
}

static int send_many(uint32_t n)
{
    struct lladd_managed_row row = {lladd_dtable_u32(0), lladd_dtable_value_of("x", 1)};
    struct lladd_txn *txn;
    int rc = lladd_begin(b.db, NULL, &txn, &b.err);
    if (rc)
        return rc;
    rc = try_at(txn, UINT64_C(10) * n - 1, UINT64_C(10) * n - 5);
    rc = rc ? rc : lladd_managed_put_many(txn, t, &row, 1, NULL);
    return fixture_end(txn, rc ? rc : take(txn, n));
}

static int step(int i)
{
    int rc;
    bool more = true;
    if (i % 3 == 2)
        return lladd_managed_digest(t, &b.err);
    if (i == 9) {
        while ((rc = lladd_managed_maintain(t, &more, &b.err)) == 0 && more)
            continue;
        return rc;
    }
    rc = i % 2 ? try_send(sent + 1) : send_many(sent + 1);
    sent += rc == 0;
    return rc;
}

static void unchanged(int i)
{
    (void)i;
    expect(sent);
}

static void crashed(int i)
{
    (void)i;
    struct lladd_managed_position durable;
    ok_db(&b, lladd_managed_position_get(t, true, &durable, &b.err));
    t = managed_restart(&b);
    uint32_t n = expect_prefix();
    ck_assert_uint_ge(n, durable.commit / 10);
    ck_assert_uint_le(n, sent + 1);
    send(n + 1, 12);
    expect(12);
    digest();
    managed_done(&b, t);
}

static void all_done(uint64_t run)
{
    expect(sent);
    digest();
    expect_position(false, UINT64_C(10) * sent, UINT64_C(10) * sent - 5);
    if (run % 4 == 0) {
        ok_db(&b, lladd_checkpoint(b.db, &b.err));
        crash(sent);
    }
    managed_done(&b, t);
}

static const struct fixture_steps steps = {11, setup, step, unchanged, crashed, all_done};

START_TEST(every_allocation_fails_once)
{
    ck_assert_uint_gt(fixture_each_fails_once(&b, &steps, false), 30);
}
END_TEST

START_TEST(every_write_fails)
{
    ck_assert_uint_gt(fixture_each_write_fails(&b, &steps), 5);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("managed dTables: unlogged");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, a_position_comes_first);
    tcase_add_test(tc, positions_ascend);
    tcase_add_test(tc, logged_tables_have_no_positions);
    tcase_add_test(tc, one_writer_at_a_time);
    tcase_add_test(tc, values_may_be_longer_than_a_record);
    tcase_add_test(tc, prepare_is_refused);
    tcase_add_test(tc, several_positions_in_a_transaction);
    tcase_add_test(tc, rollbacks_take_positions_back);
    tcase_add_test(tc, nothing_is_left_to_commit);
    tcase_add_test(tc, a_position_without_rows);
    tcase_add_test(tc, two_tables);
    tcase_add_test(tc, a_close_loses_what_is_not_digested);
    tcase_add_test(tc, the_log_is_lost);
    tcase_add_test(tc, an_open_makes_the_position_durable);
    tcase_add_test(tc, a_digest_while_a_writer_is_open);
    tcase_add_test(tc, asynchronous_commits);
    tcase_add_loop_test(tc, old_snapshots, 0, 2);
    tcase_add_loop_test(tc, puts_read_no_run, 0, 2);
    tcase_add_test(tc, every_allocation_fails_once);
    tcase_add_test(tc, every_write_fails);
    suite_add_tcase(s, tc);
    TCase *threads = tcase_create("threads");
    tcase_add_loop_test(threads, with_threads, 0, 2);
    suite_add_tcase(s, threads);
    return fixture_run(s);
}
