/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Managed dTables: one transaction or table does not harm another. Tests values and keys that do
 * not fit, old snapshots, rejected rows, and runs that cannot be freed.
 */
#include "operations/dtables/managed/managed.h"
#include "managed_fixture.h"
#include "texts.h"

#include <stdio.h>

static struct fixture b;
static struct lladd_managed *t;

/* Each run of a ustring_dtable has its own numbers for strings. Rows in memory use no numbers,
 * before a restart and after it. So a row is accepted even if there are many strings. */
START_TEST(unique_strings)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    char text[32];
    o.config = "class(dt) ustring_dtable config [ \"bytes\" int 1 \"base\" class(dt) "
               "linear_dtable ]";
    o.schedule = LLADD_MANAGED_NEVER;
    t = managed_begin(&b, &o);
    for (uint32_t round = 0; round < 3; round++) {
        struct lladd_txn *txn = fixture_begin(&b);
        for (uint32_t i = 0; i < 150; i++) {
            snprintf(text, sizeof text, "value-%u", (round * 100 + i) * 7 % 400);
            managed_put(txn, t, round * 100 + i, text);
        }
        commit(txn);
        ok_db(&b, lladd_managed_digest(t, &b.err));
        t = managed_restart(&b);
    }
    managed_fill(&b, t, "1000=before");
    ok_db(&b, lladd_managed_combine(t, 0, &b.err));
    struct lladd_txn *txn = fixture_begin(&b);
    for (uint32_t i = 0; i < 350; i++) {
        char got[32];
        size_t len;
        struct lladd_dtable_key key = lladd_dtable_u32(i);
        ok(txn, lladd_managed_get(txn, t, &key, got, sizeof got, &len));
        snprintf(text, sizeof text, "value-%u", i * 7 % 400);
        ck_assert_uint_eq(len, strlen(text));
        ck_assert_int_eq(memcmp(got, text, len), 0);
    }
    commit(txn);
    managed_done(&b, t);
}
END_TEST

/* An array cannot store keys that are so far apart, so the run is of another class. */
START_TEST(sparse_keys)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    o.config = "class(dt) array_dtable config [ \"value_size\" int 1 ]";
    t = managed_begin(&b, &o);
    managed_fill(&b, t, "1=a 10000000=b 4000000000=c");
    ok_db(&b, lladd_managed_digest(t, &b.err));
    ck_assert_uint_eq(managed_stats(&b, t).run_rows, 3);
    managed_expect(&b, t, "1=a 10000000=b 4000000000=c");
    managed_done(&b, t);
}
END_TEST

/* An old snapshot keeps the rows that it sees in memory, but not all later rows. */
START_TEST(idle_snapshot)
{
    t = managed_begin(&b, NULL);
    managed_fill(&b, t, "1=old");
    struct lladd_txn *idle = fixture_begin(&b);
    managed_sees(idle, t, "1=old");
    uint64_t few = 0;
    for (int i = 0; i < 40; i++) {
        struct lladd_txn *txn = fixture_begin(&b);
        for (uint32_t k = 1; k < 200; k++)
            managed_put(txn, t, k, i % 2 ? "some value" : "another one");
        commit(txn);
        ok_db(&b, lladd_managed_digest(t, &b.err));
        if (i == 3)
            few = managed_stats(&b, t).memory_bytes;
    }
    ck_assert_uint_le(managed_stats(&b, t).memory_bytes, 2 * few);
    managed_sees(idle, t, "1=old");
    commit(idle);
    managed_done(&b, t);
}
END_TEST

/* An old snapshot has kept rows in memory. These rows are released when the snapshot ends. This is
 * so even if the table is not used again, and even if the transaction of the snapshot has never
 * read the table. */
START_TEST(idle_snapshot_ends)
{
    for (int i = 0; i < 2; i++) {
        t = managed_begin(&b, NULL);
        struct lladd_managed *other = managed_table(&b, "other", NULL);
        managed_fill(&b, t, "1=old");
        struct lladd_txn *idle = fixture_begin(&b);
        managed_sees(idle, i ? other : t, i ? "" : "1=old");
        managed_fill(&b, t, "1=new");
        ok_db(&b, lladd_managed_digest(t, &b.err));
        ck_assert_uint_eq(managed_stats(&b, t).memtables, 2);
        uint64_t bytes = managed_stats(&b, t).memory_bytes;
        commit(idle);
        ck_assert_uint_eq(managed_stats(&b, t).memtables, 1);
        ck_assert_uint_lt(managed_stats(&b, t).memory_bytes, bytes);
        managed_close(&b, other);
        managed_done(&b, t);
    }
}
END_TEST

/* ---- keys that compare equal ----------------------------------------------------------------- */

static void put_word(struct lladd_txn *txn, const char *word)
{
    struct lladd_dtable_key key = lladd_dtable_bytes(word, strlen(word));
    struct lladd_dtable_value v = lladd_dtable_value_of("v", 1);
    ok(txn, lladd_managed_put(txn, t, &key, &v));
}

/* Asserts that the table has one row, with this key. A cursor must return it from both ends, and a
 * lookup of an equal key must find it. */
static void sees_word(struct lladd_txn *txn, const char *word)
{
    const struct lladd_dtable *table;
    struct lladd_dtable_cursor *c;
    struct lladd_dtable_key key, other = lladd_dtable_bytes("aBC", 3);
    char v;
    size_t len = 0;
    ok(txn, lladd_managed_table(txn, t, &table));
    ok(txn, lladd_dtable_cursor_open(table, 0, &c, &b.err));
    for (int i = 0; i < 2; i++) {
        ok_db(&b, i ? lladd_dtable_last(c, &b.err) : lladd_dtable_first(c, &b.err));
        ok_db(&b, lladd_dtable_row(c, &key, NULL, &b.err));
        ck_assert_uint_eq(key.bytes.len, strlen(word));
        ck_assert_int_eq(memcmp(key.bytes.data, word, key.bytes.len), 0);
    }
    ck_assert_int_eq(lladd_dtable_next(c, &b.err), LLADD_END);
    lladd_dtable_cursor_close(c);
    ok(txn, lladd_managed_get(txn, t, &other, &v, 1, &len));
}

static void expect_word(const char *word)
{
    struct lladd_txn *txn = fixture_begin(&b);
    sees_word(txn, word);
    commit(txn);
}

/* A row has the key of its own put. It does not have the key of an earlier put with an equal key
 * that was aborted, rolled back to a savepoint, or committed. */
START_TEST(equal_keys)
{
    for (int i = 0; i < 2; i++) {
        struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
        lladd_savepoint_id sp;
        managed_init(&b);
        fixture_open(&b);
        ok_db(&b, lladd_dtable_comparator_add(b.db, &no_case, &b.err));
        o.type = LLADD_DTABLE_BYTES;
        o.comparator = no_case.name;
        t = managed_table(&b, "rows", &o);
        struct lladd_txn *txn = fixture_begin(&b);
        put_word(txn, "ABC");
        sees_word(txn, "ABC");
        abort_txn(txn);
        txn = fixture_begin(&b);
        ok(txn, lladd_savepoint(txn, &sp));
        put_word(txn, "ABc");
        ok(txn, lladd_rollback_to(txn, sp));
        put_word(txn, "abc");
        sees_word(txn, "abc");
        commit(txn);
        expect_word("abc");
        struct lladd_txn *old = fixture_begin(&b);
        sees_word(old, "abc");
        if (i) {
            txn = fixture_begin(&b);
            put_word(txn, "ABC");
            commit(txn);
            sees_word(old, "abc");
            expect_word("ABC");
        }
        commit(old);
        fixture_crash(&b);
        ok_db(&b, lladd_dtable_comparator_add(b.db, &no_case, &b.err));
        t = managed_open(&b, "rows");
        expect_word(i ? "ABC" : "abc");
        txn = fixture_begin(&b);
        put_word(txn, "aBc");
        abort_txn(txn);
        expect_word(i ? "ABC" : "abc");
        ok_db(&b, lladd_managed_digest(t, &b.err));
        expect_word(i ? "ABC" : "abc");
        txn = fixture_begin(&b);
        put_word(txn, "abC");
        sees_word(txn, "abC");
        commit(txn);
        expect_word("abC"); /* the run still has the key of an earlier put */
        ok_db(&b, lladd_managed_digest(t, &b.err));
        ok_db(&b, lladd_managed_combine(t, 0, &b.err));
        expect_word("abC");
        managed_done(&b, t);
    }
}
END_TEST

/* A thread may have read the clock before a digest of another thread ended. For such a thread the
 * digest ends in the future. The thread must find that no time has passed since the digest, and
 * that no digest is due. */
START_TEST(clock_read_before_another_digest)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    o.interval_ns = UINT64_C(1000000000000);
    t = managed_begin(&b, &o);
    managed_fill(&b, t, "1=a");
    ok_db(&b, lladd_managed_digest(t, &b.err));
    managed_fill(&b, t, "1=b");
    uint64_t ended = t->digested_ns;
    ck_assert_int_eq(ll_managed__due(t, ended - 1), 0);
    ck_assert_int_eq(ll_managed__due(t, ended + o.interval_ns - 1), 0);
    ck_assert_int_eq(ll_managed__due(t, ended + o.interval_ns), LL_DIGEST);
    ck_assert_uint_eq(ll_managed__interval_left(t, ended - 1), o.interval_ns);
    ck_assert_uint_eq(ll_managed__interval_left(t, ended + 1), o.interval_ns - 1);
    ck_assert_uint_eq(ll_managed__interval_left(t, ended + o.interval_ns - 7), 7);
    ck_assert_uint_eq(ll_managed__interval_left(t, ended + o.interval_ns), o.interval_ns);
    managed_done(&b, t);
}
END_TEST

/* While a table is being dropped it cannot be opened (LLADD_BUSY), with runs or without. */
START_TEST(opened_while_dropped)
{
    for (int i = 0; i < 2; i++) {
        t = managed_begin(&b, NULL);
        managed_fill(&b, t, "1=a");
        if (i)
            ok_db(&b, lladd_managed_digest(t, &b.err));
        managed_close(&b, t);
        struct lladd_txn *txn = fixture_begin(&b);
        ok(txn, lladd_managed_destroy(txn, "rows"));
        ck_assert_int_eq(lladd_managed_open(b.db, "rows", &t, &b.err), LLADD_BUSY);
        ck_assert_int_eq(b.err.code, LLADD_BUSY);
        abort_txn(txn);
        t = managed_open(&b, "rows");
        managed_expect(&b, t, "1=a");
        managed_close(&b, t);
        txn = fixture_begin(&b);
        ok(txn, lladd_managed_destroy(txn, "rows"));
        commit(txn);
        ck_assert_int_eq(lladd_managed_open(b.db, "rows", &t, &b.err), LLADD_NOT_FOUND);
        fixture_free(&b);
    }
}
END_TEST

/* Refused rows take no memory, even if they are put many times. */
START_TEST(refused_rows_take_no_memory)
{
    static char large[8u << 20];
    struct lladd_dtable_key key = lladd_dtable_u32(1);
    struct lladd_dtable_value v = lladd_dtable_value_of(large, sizeof large);
    t = managed_begin(&b, NULL);
    managed_fill(&b, t, "2=b");
    uint64_t before = managed_stats(&b, t).memory_bytes;
    struct lladd_txn *txn = fixture_begin(&b);
    for (int i = 0; i < 300; i++)
        refuses(txn, LLADD_TOO_LARGE, lladd_managed_put(txn, t, &key, &v));
    managed_put(txn, t, 3, "c");
    commit(txn);
    ck_assert_uint_le(managed_stats(&b, t).memory_bytes, before + 4096);
    managed_expect(&b, t, "2=b 3=c");
    managed_done(&b, t);
}
END_TEST

/* A run that cannot be freed for now does not keep later rows from being digested. */
START_TEST(a_free_that_fails)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    struct lladd_managed_stats s = {.struct_size = sizeof s};
    struct lladd_managed_run run;
    struct lladd_dtable *held;
    o.rows = 1;
    o.schedule = LLADD_MANAGED_NEVER;
    t = managed_begin(&b, &o);
    managed_fill(&b, t, "1=a");
    ok_db(&b, lladd_managed_digest(t, &b.err));
    ok_db(&b, lladd_managed_stats_get(t, &s, &run, 1, &b.err));
    ok_db(&b, lladd_dtable_run_open(b.db, run.root, &held, &b.err));
    managed_fill(&b, t, "2=b");
    ok_db(&b, lladd_managed_digest(t, &b.err));
    ok_db(&b, lladd_managed_combine(t, 0, &b.err));
    struct lladd_txn *txn = fixture_begin(&b);
    managed_put(txn, t, 3, "c");
    commit(txn); /* makes the combine durable, too */
    bool refused = false;
    for (int i = 0; i < 6; i++) {
        int rc = lladd_managed_maintain(t, NULL, &b.err);
        ck_assert(rc == 0 || rc == LLADD_BUSY);
        refused = refused || rc == LLADD_BUSY;
    }
    ck_assert(refused);
    ck_assert_uint_eq(managed_stats(&b, t).pending_rows, 0); /* the row was digested nevertheless */
    lladd_dtable_close(held);
    managed_tidy(&b, t);
    ck_assert_uint_eq(managed_stats(&b, t).obsolete, 0);
    managed_expect(&b, t, "1=a 2=b 3=c");
    managed_done(&b, t);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("managed dTables: unharmed");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, unique_strings);
    tcase_add_test(tc, sparse_keys);
    tcase_add_test(tc, idle_snapshot);
    tcase_add_test(tc, idle_snapshot_ends);
    tcase_add_test(tc, equal_keys);
    tcase_add_test(tc, clock_read_before_another_digest);
    tcase_add_test(tc, opened_while_dropped);
    tcase_add_test(tc, refused_rows_take_no_memory);
    tcase_add_test(tc, a_free_that_fails);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
