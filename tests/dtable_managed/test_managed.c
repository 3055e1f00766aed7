/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Managed dTables. The tests show which rows a transaction sees, and which rows are there after a
 * restart. Digests, combines and the freeing of runs must not change these rows.
 */
#include "managed_fixture.h"
#include "support/test_world.h"

#include <lladd/dtable_class.h>
#include <lladd/stats.h>
#include <stdio.h>

static struct fixture b;
static struct lladd_managed *t;

/* ---- rows ------------------------------------------------------------------------------------ */

/* Committed rows are there, even after a crash and after a clean close. An empty value is there,
 * too. */
START_TEST(rows_stay)
{
    char buf[8];
    size_t len = 0;
    t = managed_begin(&b, NULL);
    managed_fill(&b, t, "5=five 1=one 3=three 2=");
    managed_fill(&b, t, "3=drei 1");
    managed_expect(&b, t, "2= 3=drei 5=five");
    t = managed_restart(&b);
    managed_expect(&b, t, "2= 3=drei 5=five");
    managed_close(&b, t);
    fixture_close(&b);
    fixture_open(&b);
    t = managed_open(&b, "rows");
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_dtable_key key = lladd_dtable_u32(5);
    ok(txn, lladd_managed_get(txn, t, &key, buf, 2, &len));
    ck_assert_uint_eq(len, 4);
    ck_assert_int_eq(memcmp(buf, "fi", 2), 0);
    key = lladd_dtable_u32(1);
    refuses(txn, LLADD_NOT_FOUND, lladd_managed_get(txn, t, &key, buf, 2, &len));
    key = lladd_dtable_u64(1);
    refuses(txn, LLADD_WRONG_TYPE, lladd_managed_get(txn, t, &key, buf, 2, &len));
    commit(txn);
    managed_done(&b, t);
}
END_TEST

/* Uncommitted rows are visible only to their transaction, and are gone after its abort or a
 * crash. */
START_TEST(aborts)
{
    t = managed_begin(&b, NULL);
    managed_fill(&b, t, "1=one 2=two");
    struct lladd_txn *txn = fixture_begin(&b);
    managed_fill_in(txn, t, "1 3=three 2=zwei");
    managed_sees(txn, t, "2=zwei 3=three");
    managed_expect(&b, t, "1=one 2=two");
    abort_txn(txn);
    managed_expect(&b, t, "1=one 2=two");
    managed_fill(&b, t, "3=drei");
    txn = fixture_begin(&b);
    managed_put(txn, t, 9, "lost");
    t = managed_restart(&b);
    managed_expect(&b, t, "1=one 2=two 3=drei");
    managed_done(&b, t);
}
END_TEST

/* A rollback to a savepoint and an abort of a top action undo changes, and these do not come back
 * after a crash. */
START_TEST(savepoints)
{
    lladd_savepoint_id one, two;
    struct lladd_action action;
    t = managed_begin(&b, NULL);
    struct lladd_txn *txn = fixture_begin(&b);
    managed_fill_in(txn, t, "1=a 2=a");
    ok(txn, lladd_savepoint(txn, &one));
    managed_fill_in(txn, t, "1=b 3=b");
    ok(txn, lladd_savepoint(txn, &two));
    managed_fill_in(txn, t, "1=c 2 3=c");
    managed_sees(txn, t, "1=c 3=c");
    ok(txn, lladd_rollback_to(txn, two));
    managed_sees(txn, t, "1=b 2=a 3=b");
    managed_fill_in(txn, t, "4=d");
    ok(txn, lladd_rollback_to(txn, one));
    managed_sees(txn, t, "1=a 2=a");
    managed_fill_in(txn, t, "3=e");
    ok(txn, lladd_rollback_to(txn, one));
    ok(txn, lladd_nta_begin(txn, &action));
    managed_fill_in(txn, t, "2=x 7=x");
    ok(txn, lladd_nta_abort(txn, &action));
    ok(txn, lladd_nta_begin(txn, &action));
    managed_fill_in(txn, t, "8=y");
    ok(txn, lladd_nta_end(txn, &action, LLADD_NO_OP, NULL, 0));
    managed_fill_in(txn, t, "2=f");
    managed_sees(txn, t, "1=a 2=f 8=y");
    commit(txn);
    managed_expect(&b, t, "1=a 2=f 8=y");
    t = managed_restart(&b);
    managed_expect(&b, t, "1=a 2=f 8=y");
    managed_done(&b, t);
}
END_TEST

/* ---- isolation ------------------------------------------------------------------------------- */

/* A transaction takes its snapshot when it first uses a table. It has one snapshot for all
 * tables. */
START_TEST(snapshots)
{
    t = managed_begin(&b, NULL);
    struct lladd_managed *other = managed_table(&b, "other", NULL);
    managed_fill(&b, t, "1=a");
    managed_fill(&b, other, "1=a");
    struct lladd_txn *reader = fixture_begin(&b);
    managed_sees(reader, t, "1=a");
    struct lladd_txn *writer = fixture_begin(&b);
    managed_fill_in(writer, t, "1=b 2=b");
    managed_fill_in(writer, other, "1=b 2=b");
    commit(writer);
    managed_sees(reader, t, "1=a");
    managed_sees(reader, other, "1=a");
    ok_db(&b, lladd_managed_digest(other, &b.err));
    ok_db(&b, lladd_managed_digest(t, &b.err));
    managed_fill(&b, t, "3=c");
    ok_db(&b, lladd_managed_digest(t, &b.err));
    ok_db(&b, lladd_managed_combine(t, 0, &b.err));
    managed_tidy(&b, t);
    managed_sees(reader, t, "1=a");
    managed_sees(reader, other, "1=a");
    commit(reader);
    managed_expect(&b, t, "1=b 2=b 3=c");
    managed_tidy(&b, t);
    ck_assert_uint_eq(managed_stats(&b, t).obsolete, 0);
    managed_close(&b, other);
    managed_done(&b, t);
}
END_TEST

/* A transaction sees a table as of its snapshot, even if it first reads the table after later rows
 * were digested. */
START_TEST(table_first_read_after_digests)
{
    t = managed_begin(&b, NULL);
    struct lladd_managed *other = managed_table(&b, "other", NULL);
    managed_fill(&b, other, "1=a");
    struct lladd_txn *reader = fixture_begin(&b);
    managed_sees(reader, t, "");
    managed_fill(&b, other, "1=b");
    ok_db(&b, lladd_managed_digest(other, &b.err));
    managed_fill(&b, other, "1=c");
    ok_db(&b, lladd_managed_digest(other, &b.err));
    managed_sees(reader, other, "1=a");
    commit(reader);
    managed_expect(&b, other, "1=c");
    managed_close(&b, other);
    /* This table is created and opened after the snapshot was taken, so a put conflicts. */
    reader = fixture_begin(&b);
    managed_sees(reader, t, "");
    other = managed_table(&b, "third", NULL);
    managed_fill(&b, other, "1=z");
    ok_db(&b, lladd_managed_digest(other, &b.err));
    managed_close(&b, other);
    other = managed_open(&b, "third");
    refuses(reader, LLADD_CONFLICT, managed_try(reader, other, 1, "y"));
    commit(reader);
    managed_close(&b, other);
    managed_done(&b, t);
}
END_TEST

/* The first writer of a key blocks other writers. After the first writer has aborted, another one
 * can write the key. */
START_TEST(conflicts)
{
    t = managed_begin(&b, NULL);
    managed_fill(&b, t, "1=a 2=a");
    struct lladd_txn *one = fixture_begin(&b), *two = fixture_begin(&b), *three = fixture_begin(&b);
    managed_sees(one, t, "1=a 2=a");
    managed_sees(two, t, "1=a 2=a");
    managed_sees(three, t, "1=a 2=a");
    managed_put(one, t, 1, "b");
    refuses(two, LLADD_CONFLICT, managed_try(two, t, 1, "c"));
    refuses(two, LLADD_CONFLICT, managed_try(two, t, 1, NULL));
    managed_put(two, t, 2, "c");
    managed_put(one, t, 1, "bb");
    commit(one);
    refuses(three, LLADD_CONFLICT, managed_try(three, t, 1, "d"));
    abort_txn(two);
    managed_put(three, t, 2, "d");
    managed_sees(three, t, "1=a 2=d");
    commit(three);
    managed_expect(&b, t, "1=bb 2=d");
    ck_assert_uint_eq(managed_stats(&b, t).conflicts, 3);
    managed_done(&b, t);
}
END_TEST

/* A conflict is found even if the other writer's row was digested, and combined, meanwhile. */
START_TEST(conflicts_digested)
{
    t = managed_begin(&b, NULL);
    managed_fill(&b, t, "1=a 2=a 3=a");
    struct lladd_txn *one = fixture_begin(&b);
    managed_sees(one, t, "1=a 2=a 3=a");
    managed_fill(&b, t, "1=b 2 4=b");
    ok_db(&b, lladd_managed_digest(t, &b.err));
    managed_fill(&b, t, "5=b");
    ok_db(&b, lladd_managed_digest(t, &b.err));
    ok_db(&b, lladd_managed_combine(t, 0, &b.err));
    refuses(one, LLADD_CONFLICT, managed_try(one, t, 1, "x"));
    refuses(one, LLADD_CONFLICT, managed_try(one, t, 2, "x"));
    refuses(one, LLADD_CONFLICT, managed_try(one, t, 4, "x"));
    managed_put(one, t, 3, "x");
    managed_put(one, t, 6, "x");
    managed_put(one, t, 3, "y");
    managed_sees(one, t, "1=a 2=a 3=y 6=x");
    commit(one);
    managed_expect(&b, t, "1=b 3=y 4=b 5=b 6=x");
    ok_db(&b, lladd_managed_digest(t, &b.err));
    managed_expect(&b, t, "1=b 3=y 4=b 5=b 6=x");
    t = managed_restart(&b);
    managed_expect(&b, t, "1=b 3=y 4=b 5=b 6=x");
    managed_done(&b, t);
}
END_TEST

/* An open cursor shows what its transaction writes, at any position. */
START_TEST(cursor_and_own_writes)
{
    const struct lladd_dtable *table = NULL;
    struct lladd_dtable_cursor *c = NULL;
    struct lladd_dtable_key key;
    struct lladd_dtable_value v;
    t = managed_begin(&b, NULL);
    managed_fill(&b, t, "2=a 4=a 6=a 8=a");
    ok_db(&b, lladd_managed_digest(t, &b.err));
    managed_fill(&b, t, "6=b");
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_managed_table(txn, t, &table));
    ok(txn, lladd_dtable_cursor_open(table, 0, &c, &b.err));
    key = lladd_dtable_u32(3);
    ok(txn, lladd_dtable_seek(c, &key, &b.err));
    managed_fill_in(txn, t, "4 5=x 6 7=x 3=x");
    ok(txn, lladd_dtable_next(c, &b.err));
    ok(txn, lladd_dtable_row(c, &key, &v, &b.err));
    ck_assert_uint_eq(key.number, 5);
    ok(txn, lladd_dtable_next(c, &b.err));
    ok(txn, lladd_dtable_row(c, &key, &v, &b.err));
    ck_assert_uint_eq(key.number, 7);
    ok(txn, lladd_dtable_prev(c, &b.err));
    managed_fill_in(txn, t, "3 2=y");
    ok(txn, lladd_dtable_prev(c, &b.err));
    ok(txn, lladd_dtable_row(c, &key, &v, &b.err));
    ck_assert_uint_eq(key.number, 2);
    ck_assert_int_eq(memcmp(v.bytes.data, "y", 1), 0);
    ck_assert_int_eq(lladd_dtable_prev(c, &b.err), LLADD_END);
    lladd_dtable_cursor_close(c);
    managed_sees(txn, t, "2=y 5=x 7=x 8=a");
    abort_txn(txn);
    managed_expect(&b, t, "2=a 4=a 6=b 8=a");
    managed_done(&b, t);
}
END_TEST

/* A digest leaves out the rows of open transactions, and rows that are committed later. A later
 * digest takes them. */
START_TEST(digest_with_open_transactions)
{
    t = managed_begin(&b, NULL);
    managed_fill(&b, t, "1=a 2=a");
    struct lladd_txn *slow = fixture_begin(&b), *gone = fixture_begin(&b);
    managed_put(slow, t, 3, "slow");
    managed_put(gone, t, 4, "gone");
    ok_db(&b, lladd_managed_digest(t, &b.err));
    ck_assert_uint_eq(managed_stats(&b, t).run_rows, 2);
    managed_fill(&b, t, "1=b 5=b");
    managed_put(slow, t, 6, "slow");
    managed_sees(slow, t, "1=a 2=a 3=slow 6=slow");
    ok_db(&b, lladd_managed_digest(t, &b.err));
    managed_expect(&b, t, "1=b 2=a 5=b");
    ok_db(&b, lladd_managed_combine(t, 0, &b.err));
    abort_txn(gone);
    commit(slow);
    managed_expect(&b, t, "1=b 2=a 3=slow 5=b 6=slow");
    t = managed_restart(&b);
    managed_expect(&b, t, "1=b 2=a 3=slow 5=b 6=slow");
    ok_db(&b, lladd_managed_digest(t, &b.err));
    ck_assert_uint_eq(managed_stats(&b, t).memtables, 1);
    ck_assert_uint_eq(managed_stats(&b, t).pending_rows, 0);
    managed_expect(&b, t, "1=b 2=a 3=slow 5=b 6=slow");
    managed_done(&b, t);
}
END_TEST

/* Two transactions stay in doubt over restarts and digests; then one is committed, and the other
 * aborted. */
START_TEST(in_doubt)
{
    struct lladd_gid one = fixture_gid("one"), two = fixture_gid("two");
    t = managed_begin(&b, NULL);
    managed_fill(&b, t, "1=a 2=a");
    struct lladd_txn *first = fixture_begin(&b), *second = fixture_begin(&b);
    managed_fill_in(first, t, "1=first 3=first");
    managed_fill_in(second, t, "2=second");
    ok(first, lladd_prepare(first, &one));
    ok(second, lladd_prepare(second, &two));
    t = managed_restart(&b);
    managed_expect(&b, t, "1=a 2=a");
    struct lladd_txn *txn = fixture_begin(&b);
    refuses(txn, LLADD_CONFLICT, managed_try(txn, t, 3, "x"));
    managed_put(txn, t, 5, "x");
    commit(txn);
    ck_assert_int_eq(lladd_managed_close(t, &b.err), LLADD_BUSY);
    ok_db(&b, lladd_managed_digest(t, &b.err));
    ok_db(&b, lladd_in_doubt_claim(b.db, &one, &first, &b.err));
    commit(first);
    managed_expect(&b, t, "1=first 2=a 3=first 5=x");
    ok_db(&b, lladd_managed_digest(t, &b.err));
    t = managed_restart(&b);
    ok_db(&b, lladd_in_doubt_claim(b.db, &two, &second, &b.err));
    abort_txn(second);
    managed_expect(&b, t, "1=first 2=a 3=first 5=x");
    managed_done(&b, t);
}
END_TEST

/* ---- runs ------------------------------------------------------------------------------------ */

/* A combine keeps tombstones if there is an older run. A combine of all runs drops them. Replaced
 * runs are freed. */
START_TEST(tombstones)
{
    t = managed_begin(&b, NULL);
    managed_fill(&b, t, "1 2=a 3=a");
    ok_db(&b, lladd_managed_digest(t, &b.err));
    ck_assert_uint_eq(managed_stats(&b, t).run_tombstones, 0);
    managed_fill(&b, t, "2 3=b 7");
    ok_db(&b, lladd_managed_digest(t, &b.err));
    ck_assert_uint_eq(managed_stats(&b, t).run_tombstones, 2);
    managed_fill(&b, t, "3 4=c");
    ok_db(&b, lladd_managed_digest(t, &b.err));
    managed_expect(&b, t, "4=c");
    ok_db(&b, lladd_managed_combine(t, 2, &b.err));
    ck_assert_uint_eq(managed_stats(&b, t).runs, 2);
    ck_assert_uint_eq(managed_stats(&b, t).run_tombstones, 3);
    managed_expect(&b, t, "4=c");
    ok_db(&b, lladd_managed_combine(t, 0, &b.err));
    ck_assert_uint_eq(managed_stats(&b, t).runs, 1);
    ck_assert_uint_eq(managed_stats(&b, t).run_tombstones, 0);
    ck_assert_uint_eq(managed_stats(&b, t).run_rows, 1);
    ck_assert_uint_eq(managed_stats(&b, t).obsolete, 4);
    managed_tidy(&b, t);
    ck_assert_uint_eq(managed_stats(&b, t).obsolete, 0);
    managed_fill(&b, t, "4");
    ok_db(&b, lladd_managed_digest(t, &b.err));
    ok_db(&b, lladd_managed_combine(t, 0, &b.err));
    ck_assert_uint_eq(managed_stats(&b, t).runs, 0);
    managed_expect(&b, t, "");
    t = managed_restart(&b);
    managed_expect(&b, t, "");
    managed_done(&b, t);
}
END_TEST

/* A combine replaces a run that is being read. The run is freed later, even if the database crashes
 * before that. */
START_TEST(obsolete)
{
    t = managed_begin(&b, NULL);
    managed_fill(&b, t, "1=a");
    ok_db(&b, lladd_managed_digest(t, &b.err));
    managed_fill(&b, t, "2=b");
    ok_db(&b, lladd_managed_digest(t, &b.err));
    struct lladd_txn *reader = fixture_begin(&b);
    managed_sees(reader, t, "1=a 2=b");
    ok_db(&b, lladd_managed_combine(t, 0, &b.err));
    managed_tidy(&b, t);
    ck_assert_uint_eq(managed_stats(&b, t).obsolete, 2);
    managed_no_leaks(&b);
    managed_sees(reader, t, "1=a 2=b");
    struct lladd_txn *txn = fixture_begin(&b);
    managed_put(txn, t, 3, "c");
    commit(txn); /* makes the combine durable, too */
    t = managed_restart(&b);
    managed_no_leaks(&b);
    ck_assert_uint_eq(managed_stats(&b, t).obsolete, 2);
    managed_tidy(&b, t);
    ck_assert_uint_eq(managed_stats(&b, t).obsolete, 0);
    managed_expect(&b, t, "1=a 2=b 3=c");
    managed_done(&b, t);
}
END_TEST

/* A put does not digest, even if a digest is due. */
START_TEST(puts_do_not_digest)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    bool more = false;
    o.rows = 1;
    t = managed_begin(&b, &o);
    for (int i = 0; i < 20; i++)
        managed_fill(&b, t, "1=a 2=b 3=c");
    ck_assert_uint_eq(managed_stats(&b, t).digests, 0);
    ok_db(&b, lladd_managed_maintain(t, &more, &b.err));
    ck_assert_uint_eq(managed_stats(&b, t).digests, 1);
    managed_expect(&b, t, "1=a 2=b 3=c");
    managed_done(&b, t);
}
END_TEST

/* Close does not commit an open transaction. */
START_TEST(close_aborts)
{
    t = managed_begin(&b, NULL);
    managed_fill(&b, t, "1=a");
    struct lladd_txn *open = fixture_begin(&b);
    managed_put(open, t, 2, "never");
    fixture_close(&b);
    fixture_open(&b);
    t = managed_open(&b, "rows");
    managed_expect(&b, t, "1=a");
    managed_done(&b, t);
}
END_TEST

/* The ruler schedule of the Anvil paper. During 8 digests with k = 2 there are four combines: of 2,
 * 2 + 1, 2, and 2 + 2 runs. */
START_TEST(ruler)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    static const uint64_t runs[] = {1, 1, 2, 1, 2, 2, 3, 1};
    char row[32];
    o.every = 2;
    o.rows = 1;
    t = managed_begin(&b, &o);
    for (unsigned i = 0; i < 8; i++) {
        snprintf(row, sizeof row, "%u=x", i);
        managed_fill(&b, t, row);
        managed_tidy(&b, t);
        ck_assert_uint_eq(managed_stats(&b, t).digests, i + 1);
        ck_assert_uint_eq(managed_stats(&b, t).runs, runs[i]);
    }
    ck_assert_uint_eq(managed_stats(&b, t).combines, 4);
    managed_expect(&b, t, "0=x 1=x 2=x 3=x 4=x 5=x 6=x 7=x");
    managed_done(&b, t);
}
END_TEST

/* An explicit combine takes some of the new runs. The schedule still counts the other ones, and
 * combines when four runs are not combined yet. */
START_TEST(ruler_after_a_partial_combine)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    static const uint64_t runs[] = {1, 2, 3, 3, 4, 1};
    char row[32];
    o.every = 4;
    o.rows = 1;
    t = managed_begin(&b, &o);
    for (unsigned i = 0; i < 6; i++) {
        if (i == 3)
            ok_db(&b, lladd_managed_combine(t, 2, &b.err));
        snprintf(row, sizeof row, "%u=x", i);
        managed_fill(&b, t, row);
        managed_tidy(&b, t);
        ck_assert_uint_eq(managed_stats(&b, t).runs, runs[i]);
    }
    managed_expect(&b, t, "0=x 1=x 2=x 3=x 4=x 5=x");
    managed_done(&b, t);
}
END_TEST

/* Tiers: small runs are combined with each other before a large one is. */
START_TEST(tiered)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    char row[32];
    o.every = 3;
    o.schedule = LLADD_MANAGED_TIERED;
    t = managed_begin(&b, &o);
    struct lladd_txn *txn = fixture_begin(&b);
    for (uint32_t i = 0; i < 5000; i++)
        managed_put(txn, t, i, "x");
    commit(txn);
    ok_db(&b, lladd_managed_digest(t, &b.err));
    for (unsigned i = 0; i < 3; i++) {
        snprintf(row, sizeof row, "%u=y", 9000 + i);
        managed_fill(&b, t, row);
        ok_db(&b, lladd_managed_digest(t, &b.err));
    }
    ck_assert_uint_eq(managed_stats(&b, t).runs, 4);
    managed_tidy(&b, t);
    ck_assert_uint_eq(managed_stats(&b, t).runs, 2);
    ck_assert_uint_eq(managed_stats(&b, t).run_rows, 5003);
    managed_done(&b, t);
}
END_TEST

/* ---- tables ---------------------------------------------------------------------------------- */

static int count(void *ctx, const char *name)
{
    ck_assert_str_ne(name, "");
    ++*(unsigned *)ctx;
    return 0;
}

/* A transaction creates and drops tables; an open table is not dropped. */
START_TEST(created_and_destroyed)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    struct lladd_managed *other = NULL, *again = NULL;
    unsigned n = 0;
    t = managed_begin(&b, NULL);
    o.type = LLADD_DTABLE_U32;
    struct lladd_txn *txn = fixture_begin(&b), *second = fixture_begin(&b);
    ok(txn, lladd_managed_create(txn, "second", &o));
    refuses(txn, LLADD_EXISTS, lladd_managed_create(txn, "second", &o));
    refuses(txn, LLADD_EXISTS, lladd_managed_create(txn, "rows", &o));
    refuses(second, LLADD_BUSY, lladd_managed_create(second, "second", &o));
    ck_assert_int_eq(lladd_managed_open(b.db, "second", &other, &b.err), LLADD_BUSY);
    abort_txn(second);
    abort_txn(txn);
    ck_assert_int_eq(lladd_managed_open(b.db, "second", &other, &b.err), LLADD_NOT_FOUND);
    other = managed_table(&b, "second", &o);
    managed_fill(&b, other, "1=a");
    ok_db(&b, lladd_managed_digest(other, &b.err));
    managed_fill(&b, other, "2=b");
    ok_db(&b, lladd_managed_open(b.db, "second", &again, &b.err));
    ck_assert_ptr_eq(again, other);
    managed_close(&b, again);
    txn = fixture_begin(&b);
    refuses(txn, LLADD_BUSY, lladd_managed_destroy(txn, "second"));
    managed_close(&b, other);
    ok(txn, lladd_managed_destroy(txn, "second"));
    abort_txn(txn);
    other = managed_open(&b, "second");
    managed_expect(&b, other, "1=a 2=b");
    managed_close(&b, other);
    txn = fixture_begin(&b);
    ok(txn, lladd_managed_destroy(txn, "second"));
    commit(txn);
    ok_db(&b, lladd_managed_each(b.db, count, &n, &b.err));
    ck_assert_uint_eq(n, 1);
    txn = fixture_begin(&b);
    refuses(txn, LLADD_NOT_FOUND, lladd_managed_destroy(txn, "second"));
    commit(txn);
    managed_done(&b, t);
}
END_TEST

/* A table is created and opened in one call, which commits. */
START_TEST(created_and_opened)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    struct lladd_managed *other = NULL;
    o.type = LLADD_DTABLE_U32;
    t = managed_begin(&b, NULL);
    ok_db(&b, lladd_managed_create_open(b.db, "other", &o, &other, &b.err));
    managed_fill(&b, other, "1=one");
    managed_expect(&b, other, "1=one");
    managed_close(&b, other);
    other = NULL;
    ck_assert_int_eq(lladd_managed_create_open(b.db, "other", &o, &other, &b.err), LLADD_EXISTS);
    ck_assert_int_eq(lladd_managed_create_open(b.db, "", &o, &other, &b.err), LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(lladd_managed_create_open(b.db, "third", NULL, &other, NULL),
                     LLADD_BAD_ARGUMENT);
    struct lladd_txn *txn = fixture_begin(&b); /* another transaction is creating this table */
    ok(txn, lladd_managed_create(txn, "fourth", &o));
    ck_assert_int_eq(lladd_managed_create_open(b.db, "fourth", &o, &other, &b.err), LLADD_BUSY);
    abort_txn(txn);
    ck_assert_ptr_null(other);
    t = managed_restart(&b);
    ok_db(&b, lladd_managed_open(b.db, "other", &other, &b.err));
    managed_expect(&b, other, "1=one");
    managed_close(&b, other);
    ok_db(&b, lladd_managed_create_open(b.db, "fourth", &o, &other, &b.err));
    managed_close(&b, other);
    managed_done(&b, t);
}
END_TEST

/* A put refuses a value that the configuration cannot store. A configuration in which the first
 * value would settle the size is refused at creation. */
START_TEST(values_that_do_not_fit)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    o.type = LLADD_DTABLE_U32;
    o.config = "class(dt) fixed_dtable config [ \"value_size\" int 2 ]";
    t = managed_begin(&b, &o);
    struct lladd_txn *txn = fixture_begin(&b);
    managed_put(txn, t, 1, "ab");
    refuses(txn, LLADD_REJECTED, managed_try(txn, t, 2, "abc"));
    managed_put(txn, t, 3, NULL);
    o.config = "class(dt) fixed_dtable";
    refuses(txn, LLADD_BAD_CONFIG, lladd_managed_create(txn, "bad", &o));
    o.config = "class(dt) no_such_dtable";
    refuses(txn, LLADD_BAD_CONFIG, lladd_managed_create(txn, "bad", &o));
    o.config = NULL;
    o.type = 0;
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_managed_create(txn, "bad", &o));
    commit(txn);
    ok_db(&b, lladd_managed_digest(t, &b.err));
    managed_expect(&b, t, "1=ab");
    managed_done(&b, t);
}
END_TEST

/* ---- other cases ----------------------------------------------------------------------------- */

/* Keys of bytes in an order of their own. */
static int backwards(void *ctx, struct lladd_span x, struct lladd_span y)
{
    (void)ctx;
    size_t n = x.len < y.len ? x.len : y.len;
    int c = n ? memcmp(y.data, x.data, n) : 0;
    return c ? c : y.len < x.len ? -1 : y.len > x.len;
}
static int onwards(void *ctx, struct lladd_span x, struct lladd_span y)
{
    return backwards(ctx, y, x);
}
static const struct lladd_dtable_comparator comparator = {
    .struct_size = sizeof comparator, .name = "backwards", .compare = backwards};

START_TEST(order_of_a_comparator)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    const struct lladd_dtable *table = NULL;
    struct lladd_dtable_cursor *c = NULL;
    struct lladd_dtable_key key;
    struct lladd_dtable_value v = lladd_dtable_value_of("v", 1);
    static const char *const words[] = {"a", "abc", "", "b"};
    static const char *const sorted[] = {"b", "abc", "a", ""};
    managed_init(&b);
    fixture_open(&b);
    ok_db(&b, lladd_dtable_comparator_add(b.db, &comparator, &b.err));
    o.type = LLADD_DTABLE_BYTES;
    o.comparator = "backwards";
    t = managed_table(&b, "rows", &o);
    for (unsigned i = 0; i < 4; i++) {
        struct lladd_txn *txn = fixture_begin(&b);
        key = lladd_dtable_bytes(words[i], strlen(words[i]));
        ok(txn, lladd_managed_put(txn, t, &key, &v));
        commit(txn);
        if (i == 1)
            ok_db(&b, lladd_managed_digest(t, &b.err));
    }
    managed_close(&b, t);
    fixture_crash(&b);
    ck_assert_int_eq(lladd_managed_open(b.db, "rows", &t, &b.err), LLADD_NO_COMPARATOR);
    static struct lladd_dtable_comparator forwards;
    forwards = comparator;
    forwards.compare = onwards;
    ok_db(&b, lladd_dtable_comparator_add(b.db, &forwards, &b.err));
    ck_assert_int_eq(lladd_managed_open(b.db, "rows", &t, &b.err), LLADD_OTHER_ORDER);
    fixture_crash(&b);
    ok_db(&b, lladd_dtable_comparator_add(b.db, &comparator, &b.err));
    t = managed_open(&b, "rows");
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_managed_table(txn, t, &table));
    ok(txn, lladd_dtable_cursor_open(table, 0, &c, &b.err));
    for (unsigned i = 0; i < 4; i++) {
        ok(txn, lladd_dtable_next(c, &b.err));
        ok(txn, lladd_dtable_row(c, &key, &v, &b.err));
        ck_assert_uint_eq(key.bytes.len, strlen(sorted[i]));
        ck_assert_int_eq(memcmp(key.bytes.data, sorted[i], key.bytes.len), 0);
    }
    ck_assert_int_eq(lladd_dtable_next(c, &b.err), LLADD_END);
    lladd_dtable_cursor_close(c);
    commit(txn);
    managed_done(&b, t);
}
END_TEST

/* A cursor may outlive its transaction. The table cannot be closed before the cursor. */
START_TEST(cursor_outlives)
{
    const struct lladd_dtable *table = NULL;
    struct lladd_dtable_cursor *c = NULL;
    t = managed_begin(&b, NULL);
    managed_fill(&b, t, "1=a 2=a");
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_managed_table(txn, t, &table));
    ok(txn, lladd_dtable_cursor_open(table, 0, &c, &b.err));
    commit(txn);
    managed_fill(&b, t, "1 2=b");
    ok_db(&b, lladd_managed_digest(t, &b.err));
    ck_assert_int_eq(lladd_managed_close(t, &b.err), LLADD_BUSY);
    ok_db(&b, lladd_dtable_next(c, &b.err));
    ok_db(&b, lladd_dtable_next(c, &b.err));
    ck_assert_int_eq(lladd_dtable_next(c, &b.err), LLADD_END);
    lladd_dtable_cursor_close(c);
    managed_expect(&b, t, "2=b");
    managed_done(&b, t);
}
END_TEST

/* A read-only transaction can read, but not write. A transaction of another database can do
 * neither. */
START_TEST(wrong_transactions)
{
    struct lladd_txn_options o = LLADD_TXN_OPTIONS_INIT;
    struct lladd_txn *txn = NULL;
    struct fixture other;
    t = managed_begin(&b, NULL);
    managed_fill(&b, t, "1=a");
    o.read_only = true;
    ok_db(&b, lladd_begin(b.db, &o, &txn, &b.err));
    managed_sees(txn, t, "1=a");
    refuses(txn, LLADD_READ_ONLY, managed_try(txn, t, 2, "b"));
    managed_sees(txn, t, "1=a");
    commit(txn);
    managed_init(&other);
    fixture_open(&other);
    txn = fixture_begin(&other);
    refuses(txn, LLADD_OTHER_DATABASE, managed_try(txn, t, 2, "b"));
    commit(txn);
    fixture_free(&other);
    managed_expect(&b, t, "1=a");
    managed_done(&b, t);
}
END_TEST

/* The log is kept as long as it has rows that are not digested. */
START_TEST(a_digest_releases_the_log)
{
    struct lladd_stats before = {.struct_size = sizeof before}, after = before;
    t = managed_begin(&b, NULL);
    struct lladd_txn *txn = fixture_begin(&b);
    for (uint32_t i = 0; i < 3000; i++)
        managed_put(txn, t, i, "some value or other");
    commit(txn);
    ok_db(&b, lladd_checkpoint(b.db, &b.err));
    ck_assert_int_eq(lladd_stats_get(b.db, &before), 0);
    ok_db(&b, lladd_managed_digest(t, &b.err));
    for (int i = 0; i < 3; i++) {
        managed_fill(&b, t, "1=x");
        ok_db(&b, lladd_managed_digest(t, &b.err));
        ok_db(&b, lladd_checkpoint(b.db, &b.err));
    }
    ck_assert_int_eq(lladd_stats_get(b.db, &after), 0);
    ck_assert_uint_gt(after.log_oldest, before.log_oldest);
    ck_assert_uint_gt(after.log_oldest, before.log_tail - 100000);
    managed_done(&b, t);
}
END_TEST

/* A row keeps the log. It is digested when the journal asks for this. */
START_TEST(a_digest_when_the_journal_asks)
{
    managed_init(&b);
    b.options.log_limit_bytes = 2u << 20;
    b.options.checkpoint_bytes = 256u << 10;
    fixture_open(&b);
    t = managed_table(&b, "rows", NULL);
    struct lladd_managed *other = managed_table(&b, "other", NULL);
    managed_fill(&b, t, "1=a");
    for (unsigned i = 0; i < 60 && managed_stats(&b, t).digests == 0; i++) {
        struct lladd_txn *txn = fixture_begin(&b);
        for (uint32_t k = 0; k < 500; k++)
            managed_put(txn, other, k, "whatever it may be, it takes its room in the log");
        commit(txn);
        ok_db(&b, lladd_managed_digest(other, &b.err));
        ok_db(&b, lladd_managed_combine(other, 0, &b.err));
        managed_tidy(&b, other);
        ok_db(&b, lladd_checkpoint(b.db, &b.err));
        managed_tidy(&b, t);
    }
    ck_assert_uint_eq(managed_stats(&b, t).digests, 1);
    ck_assert_uint_eq(managed_stats(&b, t).run_rows, 1);
    managed_expect(&b, t, "1=a");
    managed_close(&b, other);
    managed_done(&b, t);
}
END_TEST

/* Rows in memory are digested when `interval_ns` has passed on the clock of the handle. */
START_TEST(a_digest_after_the_interval)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    struct test_world w;
    bool more = true;
    test_world_init(&w, 42);
    managed_init(&b);
    b.options.world = &w.world;
    fixture_open(&b);
    o.interval_ns = 1000000;
    t = managed_table(&b, "rows", &o);
    test_world_advance(&w, 5000000);
    ok_db(&b, lladd_managed_maintain(t, &more, &b.err));
    ck_assert(!more);
    managed_fill(&b, t, "1=a");
    ok_db(&b, lladd_managed_maintain(t, NULL, &b.err));
    ck_assert_uint_eq(managed_stats(&b, t).digests, 1);
    managed_fill(&b, t, "2=a");
    managed_tidy(&b, t);
    ck_assert_uint_eq(managed_stats(&b, t).digests, 1);
    test_world_advance(&w, 1000000);
    managed_tidy(&b, t);
    ck_assert_uint_eq(managed_stats(&b, t).digests, 2);
    managed_done(&b, t);
    test_world_free(&w);
}
END_TEST

/* This class rejects keys above 5. The class has no callback `accepts`, so a put of such a key
 * succeeds. The digest stores such rows in a linear_dtable. */
static int add_few(struct lladd_dtable_builder *builder, const struct lladd_dtable_key *key,
                   const struct lladd_dtable_value *v)
{
    return key->number > 5 ? LLADD_DTABLE_REJECT : lladd_dtable_add(builder->base, key, v);
}
static const struct lladd_dtable_param fickle_params[] = {
    {.name = "base", .type = LLADD_DTABLE_PARAM_CHILD, .required = true, .about = "below"},
    {.type = LLADD_DTABLE_PARAM_END}};
static const struct lladd_dtable_class fickle = {.struct_size = sizeof fickle,
                                                 .name = "fickle_dtable",
                                                 .version = 1,
                                                 .about = "rejects keys above 5",
                                                 .params = fickle_params,
                                                 .add = add_few};

START_TEST(values_refused_by_a_digest)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    managed_init(&b);
    fixture_open(&b);
    ok_db(&b, lladd_dtable_class_add(b.db, &fickle, &b.err));
    o.config = "class(dt) fickle_dtable config [ \"base\" class(dt) linear_dtable ]";
    t = managed_table(&b, "rows", &o);
    managed_fill(&b, t, "1=a 2=a");
    ok_db(&b, lladd_managed_digest(t, &b.err));
    managed_fill(&b, t, "2=b 7=b");
    ok_db(&b, lladd_managed_digest(t, &b.err));
    managed_expect(&b, t, "1=a 2=b 7=b");
    ok_db(&b, lladd_managed_combine(t, 0, &b.err));
    managed_tidy(&b, t);
    managed_expect(&b, t, "1=a 2=b 7=b");
    managed_done(&b, t);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("managed dTables");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, rows_stay);
    tcase_add_test(tc, aborts);
    tcase_add_test(tc, savepoints);
    tcase_add_test(tc, snapshots);
    tcase_add_test(tc, table_first_read_after_digests);
    tcase_add_test(tc, conflicts);
    tcase_add_test(tc, conflicts_digested);
    tcase_add_test(tc, cursor_and_own_writes);
    tcase_add_test(tc, digest_with_open_transactions);
    tcase_add_test(tc, in_doubt);
    tcase_add_test(tc, tombstones);
    tcase_add_test(tc, obsolete);
    tcase_add_test(tc, puts_do_not_digest);
    tcase_add_test(tc, close_aborts);
    tcase_add_test(tc, ruler);
    tcase_add_test(tc, ruler_after_a_partial_combine);
    tcase_add_test(tc, tiered);
    tcase_add_test(tc, created_and_destroyed);
    tcase_add_test(tc, created_and_opened);
    tcase_add_test(tc, values_that_do_not_fit);
    tcase_add_test(tc, order_of_a_comparator);
    tcase_add_test(tc, cursor_outlives);
    tcase_add_test(tc, wrong_transactions);
    tcase_add_test(tc, a_digest_releases_the_log);
    tcase_add_test(tc, a_digest_when_the_journal_asks);
    tcase_add_test(tc, a_digest_after_the_interval);
    tcase_add_test(tc, values_refused_by_a_digest);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
