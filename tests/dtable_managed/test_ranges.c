/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Range deletions in managed dTables. The tests show which transactions see a range deletion, which
 * transactions get a conflict, which form a range deletion has in memory, in the journal and in
 * runs, and when it is dropped.
 */
#include "operations/dtables/managed/managed.h"
#include "managed_fixture.h"

static struct fixture b;
static struct lladd_managed *t;

static void setup(void)
{
    t = managed_begin(&b, NULL);
}

enum { SMALL = 100000 };
static void setup_small(void)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    o.memory_bytes = SMALL;
    t = managed_begin(&b, &o);
}

static void teardown(void)
{
    managed_done(&b, t);
}

/* The range has no bound at an end if the number of this end is -1. */
static int try_range(struct lladd_txn *txn, int64_t from, int64_t to)
{
    struct lladd_dtable_key a = lladd_dtable_u32((uint32_t)from),
                            z = lladd_dtable_u32((uint32_t)to);
    return lladd_managed_delete_range(txn, t, from < 0 ? NULL : &a, to < 0 ? NULL : &z);
}

static void del(int64_t from, int64_t to)
{
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, try_range(txn, from, to));
    commit(txn);
}

static void digest(void)
{
    ok_db(&b, lladd_managed_digest(t, &b.err));
}

static void check_runs(void)
{
    struct lladd_managed_run runs[8];
    struct lladd_managed_stats s = {.struct_size = sizeof s};
    ok_db(&b, lladd_managed_stats_get(t, &s, runs, 8, &b.err));
    for (uint64_t i = 0; i < s.runs; i++) {
        struct lladd_dtable *run;
        ok_db(&b, lladd_dtable_run_open(b.db, runs[i].root, &run, &b.err));
        ok_db(&b, lladd_dtable_run_check(run, &b.err));
        struct lladd_dtable_run_info info = {.struct_size = sizeof info};
        ok_db(&b, lladd_dtable_run_info_get(run, &info, &b.err));
        ck_assert_uint_eq(info.ranges, runs[i].ranges);
        lladd_dtable_close(run);
    }
}

/* Checks the rows in memory. If `how` is not 0, checks them once more: 1, after a crash; 2, after a
 * digest; 3, after a digest and a combine; 4, after a digest and a crash. */
#define EVERYWHERE 5
static void settle(int how, const char *rows)
{
    managed_expect(&b, t, rows);
    if (how == 1)
        t = managed_restart(&b);
    if (how >= 2)
        digest();
    if (how == 3)
        ok_db(&b, lladd_managed_combine(t, 0, &b.err));
    if (how == 4)
        t = managed_restart(&b);
    managed_expect(&b, t, rows);
    check_runs();
    managed_tidy(&b, t);
}

/* ---- one transaction ------------------------------------------------------------------------- */

START_TEST(deletes_the_begin_but_not_the_end)
{
    managed_fill(&b, t, "1=a 2=b 3=c 4=d 5=e");
    del(2, 4);
    settle(_i, "1=a 4=d 5=e");
}
END_TEST

START_TEST(deletes_rows_of_older_runs)
{
    managed_fill(&b, t, "1=a 2=b 3=c 4=d 5=e");
    digest();
    managed_fill(&b, t, "3=cc 9=z");
    digest();
    del(2, 4);
    settle(_i, "1=a 4=d 5=e 9=z");
}
END_TEST

START_TEST(ranges_without_begin_or_end)
{
    managed_fill(&b, t, "0=z 1=a 2=b 3=c 4=d 4294967295=m");
    digest();
    del(-1, 2);
    managed_expect(&b, t, "2=b 3=c 4=d 4294967295=m");
    del(4, -1);
    settle(_i, "2=b 3=c");
    del(-1, -1);
    managed_fill(&b, t, "7=n");
    settle(_i, "7=n");
}
END_TEST

START_TEST(later_puts_are_not_deleted)
{
    managed_fill(&b, t, "1=a 2=b 3=c");
    digest();
    struct lladd_txn *txn = fixture_begin(&b);
    managed_put(txn, t, 2, "old");
    ok(txn, try_range(txn, 0, 10));
    managed_sees(txn, t, "");
    managed_put(txn, t, 3, "new");
    managed_sees(txn, t, "3=new");
    managed_put(txn, t, 4, "x");
    ok(txn, try_range(txn, 4, 6));
    managed_put(txn, t, 5, "y");
    managed_sees(txn, t, "3=new 5=y");
    commit(txn);
    settle(_i, "3=new 5=y");
}
END_TEST

START_TEST(ranges_overlap_and_touch)
{
    managed_fill(&b, t, "1=a 2=b 3=c 4=d 5=e 6=f 7=g 8=h 9=i");
    digest();
    del(2, 4);
    del(4, 5);
    del(3, 7);
    managed_fill(&b, t, "4=D 6=F");
    del(6, 8);
    del(6, 8);
    settle(_i, "1=a 4=D 8=h 9=i");
    if (_i == 2)
        ck_assert_uint_eq(managed_stats(&b, t).run_ranges, 1);
}
END_TEST

START_TEST(rollback_undoes_a_range)
{
    lladd_savepoint_id here;
    managed_fill(&b, t, "1=a 2=b 3=c");
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, try_range(txn, 1, 2));
    ok(txn, lladd_savepoint(txn, &here));
    ok(txn, try_range(txn, 0, 10));
    managed_put(txn, t, 5, "e");
    managed_sees(txn, t, "5=e");
    ok(txn, lladd_rollback_to(txn, here));
    managed_sees(txn, t, "2=b 3=c");
    managed_put(txn, t, 1, "A");
    managed_sees(txn, t, "1=A 2=b 3=c");
    commit(txn);
    txn = fixture_begin(&b);
    ok(txn, try_range(txn, -1, -1));
    managed_sees(txn, t, "");
    abort_txn(txn);
    settle(_i, "1=A 2=b 3=c");
}
END_TEST

START_TEST(range_of_a_transaction_in_doubt)
{
    struct lladd_gid g = fixture_gid("x");
    managed_fill(&b, t, "1=a 2=b 3=c");
    struct lladd_txn *txn = fixture_begin(&b);
    managed_put(txn, t, 2, "B");
    ok(txn, try_range(txn, 1, 3));
    managed_put(txn, t, 1, "A");
    ok(txn, lladd_prepare(txn, &g));
    t = managed_restart(&b);
    managed_expect(&b, t, "1=a 2=b 3=c");
    digest();
    struct lladd_txn *other = fixture_begin(&b);
    ck_assert_int_eq(managed_try(other, t, 2, "x"), LLADD_CONFLICT);
    ck_assert_int_eq(try_range(other, 0, 2), LLADD_CONFLICT);
    abort_txn(other);
    ok_db(&b, lladd_in_doubt_claim(b.db, &g, &txn, &b.err));
    commit(txn);
    settle(_i, "1=A 3=c");
}
END_TEST

START_TEST(empty_and_reversed_ranges)
{
    struct lladd_dtable_key key = lladd_dtable_u64(3);
    managed_fill(&b, t, "1=a 2=b 3=c");
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, try_range(txn, 2, 2));
    ck_assert_int_eq(try_range(txn, 3, 2), LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(lladd_managed_delete_range(txn, t, &key, NULL), LLADD_WRONG_TYPE);
    ck_assert_int_eq(lladd_managed_delete_range(txn, t, NULL, &key), LLADD_WRONG_TYPE);
    managed_sees(txn, t, "1=a 2=b 3=c");
    commit(txn);
    ck_assert_uint_eq(managed_stats(&b, t).pending_rows, 3);
}
END_TEST

/* ---- several --------------------------------------------------------------------------------- */

START_TEST(older_snapshots_still_see_the_rows)
{
    managed_fill(&b, t, "1=a 2=b 3=c");
    if (_i % 2)
        digest();
    struct lladd_txn *old = fixture_begin(&b);
    managed_sees(old, t, "1=a 2=b 3=c");
    del(1, 3);
    managed_fill(&b, t, "2=B");
    if (_i / 2)
        digest();
    managed_sees(old, t, "1=a 2=b 3=c");
    managed_expect(&b, t, "2=B 3=c");
    commit(old);
}
END_TEST

START_TEST(conflicts_with_an_earlier_put)
{
    managed_fill(&b, t, "1=a 5=e");
    struct lladd_txn *one = fixture_begin(&b), *two = fixture_begin(&b);
    managed_sees(two, t, "1=a 5=e");
    managed_put(one, t, 2, "b");
    ck_assert_int_eq(try_range(two, 1, 4), LLADD_CONFLICT);
    ok(two, try_range(two, 3, 9));
    managed_sees(two, t, "1=a");
    managed_put(one, t, 1, "A"); /* a refused transaction blocks no other */
    commit(one);
    ck_assert_int_eq(try_range(two, 1, 4), LLADD_CONFLICT);
    managed_sees(two, t, "1=a");
    if (_i)
        digest(); /* the put also conflicts when its row is in a run */
    ck_assert_int_eq(try_range(two, -1, 4), LLADD_CONFLICT);
    ck_assert_str_ne(lladd_txn_error(two)->message, "");
    ok(two, try_range(two, 3, 4));
    commit(two);
    managed_expect(&b, t, "1=A 2=b");
}
END_TEST

START_TEST(conflicts_with_a_later_put)
{
    managed_fill(&b, t, "1=a 5=e");
    struct lladd_txn *one = fixture_begin(&b), *two = fixture_begin(&b);
    managed_sees(two, t, "1=a 5=e");
    ok(one, try_range(one, 1, 4));
    ck_assert_int_eq(managed_try(two, t, 1, "A"), LLADD_CONFLICT);
    ck_assert_int_eq(managed_try(two, t, 3, "c"), LLADD_CONFLICT);
    managed_put(two, t, 4, "d");
    commit(one);
    ck_assert_int_eq(managed_try(two, t, 1, "A"), LLADD_CONFLICT);
    ck_assert_int_eq(managed_try(two, t, 3, "c"), LLADD_CONFLICT);
    struct lladd_txn *three = fixture_begin(&b);
    if (_i)
        digest();
    ck_assert_int_eq(managed_try(two, t, 1, "A"), LLADD_CONFLICT);
    managed_put(three, t, 1, "A"); /* the snapshot of `three` is later */
    managed_sees(two, t, "1=a 4=d 5=e");
    commit(two);
    commit(three);
    managed_expect(&b, t, "1=A 4=d 5=e");
}
END_TEST

/* A range deletion compares the contents of rows that are only in runs. */
START_TEST(conflicts_with_rows_digested_since)
{
    managed_fill(&b, t, "1=a 3=c 5=e 7=g");
    if (_i)
        digest();
    struct lladd_txn *txn = fixture_begin(&b);
    managed_sees(txn, t, "1=a 3=c 5=e 7=g");
    managed_fill(&b, t, "2=b 3=C 5=x 8=h");
    managed_fill(&b, t, "5=e 8");
    del(7, 8);
    digest();
    ck_assert_int_eq(try_range(txn, 2, 3), LLADD_CONFLICT);
    ck_assert_int_eq(try_range(txn, 3, 5), LLADD_CONFLICT);
    ck_assert_int_eq(try_range(txn, 7, -1), LLADD_CONFLICT);
    ck_assert_int_eq(try_range(txn, -1, -1), LLADD_CONFLICT);
    ok(txn, try_range(txn, -1, 2));
    ok(txn, try_range(txn, 4, 7)); /* key 5 was changed, and changed back */
    ok(txn, try_range(txn, 8, -1));
    managed_sees(txn, t, "3=c 7=g");
    commit(txn);
    managed_expect(&b, t, "2=b 3=C");
}
END_TEST

/* A put conflicts even if the memtable with the range deletion is gone. */
START_TEST(a_put_conflicts_with_a_digested_range)
{
    managed_fill(&b, t, "1=a 5=e");
    struct lladd_txn *txn = fixture_begin(&b);
    managed_sees(txn, t, "1=a 5=e");
    del(1, 4);
    digest();
    ck_assert_int_eq(managed_try(txn, t, 1, "A"), LLADD_CONFLICT);
    managed_put(txn, t, 3, "c"); /* absent in the snapshot and absent now: no conflict */
    managed_sees(txn, t, "1=a 3=c 5=e");
    commit(txn);
    managed_expect(&b, t, "3=c 5=e");
}
END_TEST

START_TEST(conflicts_of_two_ranges)
{
    managed_fill(&b, t, "1=a 5=e 9=i");
    struct lladd_txn *one = fixture_begin(&b), *two = fixture_begin(&b);
    managed_sees(two, t, "1=a 5=e 9=i");
    ok(one, try_range(one, 0, 5));
    ok(one, try_range(one, 2, 3));
    ck_assert_int_eq(try_range(two, 4, 8), LLADD_CONFLICT);
    ok(one, try_range(one, 4, 6)); /* a refused transaction blocks no other */
    ok(two, try_range(two, 6, 8));
    abort_txn(one);
    ok(two, try_range(two, 4, 8)); /* an aborted transaction does not block others, either */
    managed_sees(two, t, "1=a 9=i");
    commit(two);
    managed_expect(&b, t, "1=a 9=i");
}
END_TEST

/* A transaction still writes to an older memtable after the committed rows of that memtable were
 * digested. */
START_TEST(range_in_an_older_memtable)
{
    managed_fill(&b, t, "1=a 2=b 3=c");
    struct lladd_txn *slow = fixture_begin(&b);
    managed_put(slow, t, 7, "g");
    managed_fill(&b, t, "2=B");
    digest();
    ok(slow, try_range(slow, 3, 9));
    ck_assert_int_eq(try_range(slow, 1, 3), LLADD_CONFLICT);
    managed_put(slow, t, 4, "d");
    managed_sees(slow, t, "1=a 2=b 4=d");
    managed_fill(&b, t, "1=A");
    digest();
    commit(slow);
    settle(_i, "1=A 2=B 4=d");
}
END_TEST

/* ---- cursors --------------------------------------------------------------------------------- */

START_TEST(open_cursors_see_a_new_range)
{
    const struct lladd_dtable *table = NULL;
    struct lladd_dtable_cursor *c;
    struct lladd_dtable_key key = lladd_dtable_u32(4);
    managed_fill(&b, t, "1=a 2=b 3=c 4=d 5=e 6=f");
    if (_i)
        digest();
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_managed_table(txn, t, &table));
    ok(txn, lladd_dtable_cursor_open(table, 0, &c, &b.err));
    ok(txn, lladd_dtable_first(c, &b.err));
    ok(txn, try_range(txn, 1, 5));
    ok(txn, lladd_dtable_next(c, &b.err));
    ok(txn, lladd_dtable_row(c, &key, NULL, &b.err));
    ck_assert_uint_eq(key.number, 5);
    ck_assert_int_eq(lladd_dtable_prev(c, &b.err), LLADD_END);
    key.number = 4;
    ok(txn, lladd_dtable_seek(c, &key, &b.err));
    ok(txn, lladd_dtable_row(c, &key, NULL, &b.err));
    ck_assert_uint_eq(key.number, 5);
    managed_put(txn, t, 3, "C");
    ok(txn, lladd_dtable_prev(c, &b.err));
    ok(txn, lladd_dtable_row(c, &key, NULL, &b.err));
    ck_assert_uint_eq(key.number, 3);
    ok(txn, try_range(txn, 2, 4));
    key.number = 4;
    ck_assert_int_eq(lladd_dtable_seek_for_prev(c, &key, &b.err), LLADD_END);
    ok(txn, lladd_dtable_last(c, &b.err));
    ok(txn, lladd_dtable_row(c, &key, NULL, &b.err));
    ck_assert_uint_eq(key.number, 6);
    lladd_dtable_cursor_close(c);
    commit(txn);
}
END_TEST

/* ---- concurrent endpoints -------------------------------------------------------------------- */

/* A comparator that inserts another endpoint whenever a key is compared with the last endpoint.
 * This has the effect of other threads that delete ranges at the same time. */
static struct {
    struct ll_mem_part *part;
    unsigned char nearest; /* 0: none is inserted */
} others;

static int with_others(void *ctx, struct lladd_span x, struct lladd_span y)
{
    unsigned char a = *(const unsigned char *)x.data, z = *(const unsigned char *)y.data;
    (void)ctx;
    if (others.nearest && (a == 'z' || z == 'z')) {
        unsigned char at = others.nearest;
        others.nearest = 0;
        struct lladd_dtable_key from = lladd_dtable_bytes(&at, 1);
        ck_assert_int_eq(ll_managed__mem_delete(others.part, &from, NULL, 0), 0);
        others.nearest = at + 1;
    }
    return a < z ? -1 : a > z;
}

START_TEST(an_interval_contains_its_key)
{
    static const struct lladd_dtable_comparator calls = {
        .struct_size = sizeof calls, .name = "with others", .compare = with_others};
    struct lladd_dtable_order order = {.type = LLADD_DTABLE_BYTES, .comparator = &calls};
    struct lladd_dtable_key first = lladd_dtable_bytes("A", 1), last = lladd_dtable_bytes("z", 1),
                            key = lladd_dtable_bytes("y", 1);
    struct lladd_dtable_interval s;
    struct ll_memtable *m;
    ck_assert_int_eq(ll_managed__mem_new(b.db, &order, &m), 0);
    others.part = ll_managed__mem_part(m);
    ck_assert_ptr_nonnull(others.part);
    ck_assert_int_eq(ll_managed__mem_delete(others.part, &first, &last, 0), 0);
    others.nearest = 'a';
    ll_managed__mem_interval(m, &key, 0, LL_MANAGED_TAKEN_BACK - 1, others.part, &s);
    ck_assert_uint_gt(others.nearest, 'a');
    ck_assert_uint_lt(others.nearest, 'y');
    others.nearest = 0;
    ck_assert(s.deleted && s.has_from && s.has_to);
    ck_assert_int_le(lladd_dtable_compare(&order, &s.from, &key), 0);
    ck_assert_int_lt(lladd_dtable_compare(&order, &key, &s.to), 0);
    ll_managed__mem_drop(m);
}
END_TEST

/* ---- cost ------------------------------------------------------------------------------------ */

START_TEST(memory_does_not_depend_on_deleted_rows)
{
    enum { ROWS = 20000 };
    struct lladd_txn *txn = fixture_begin(&b);
    for (uint32_t i = 0; i < ROWS; i++)
        managed_put(txn, t, i, "v");
    commit(txn);
    digest();
    uint64_t memory = managed_stats(&b, t).memory_bytes, pending;
    del(10, ROWS - 10);
    pending = managed_stats(&b, t).pending_bytes;
    ck_assert_uint_lt(pending, 1000);
    ck_assert_uint_lt(managed_stats(&b, t).memory_bytes, memory + 1000);
    digest();
    ck_assert_uint_eq(managed_stats(&b, t).run_ranges, 1);
    ck_assert_uint_eq(managed_stats(&b, t).run_tombstones, 0);
    ok_db(&b, lladd_managed_combine(t, 0, &b.err));
    ck_assert_uint_eq(managed_stats(&b, t).run_ranges, 0);
    ck_assert_uint_eq(managed_stats(&b, t).run_rows, 20);
}
END_TEST

/* Checks that `pending_bytes` counts the memory of a transaction that has ended, even by an abort,
 * and that one digest frees this memory. */
static void digested_when_full(const char *rows)
{
    struct lladd_managed_stats s = managed_stats(&b, t);
    ck_assert_uint_lt(s.memory_bytes, s.pending_bytes + SMALL / 5);
    ck_assert_uint_ge(s.pending_bytes, SMALL);
    ck_assert_uint_lt(s.pending_bytes, SMALL + SMALL / 10);
    uint64_t digests = s.digests;
    ok_db(&b, lladd_managed_maintain(t, NULL, &b.err));
    s = managed_stats(&b, t);
    ck_assert_uint_eq(s.digests, digests + 1);
    ck_assert_uint_lt(s.memory_bytes, SMALL / 10);
    ck_assert_uint_eq(s.pending_bytes, 0);
    ck_assert_uint_eq(s.pending_rows, 0);
    managed_expect(&b, t, rows);
    ok_db(&b, lladd_managed_maintain(t, NULL, &b.err));
    ck_assert_uint_eq(managed_stats(&b, t).digests, digests + 1);
}

/* A range deletion adds a version to each endpoint inside its range. */
START_TEST(pending_bytes_count_endpoints)
{
    uint32_t i = 1;
    while (managed_stats(&b, t).pending_bytes < SMALL) {
        del(-1, i++);
        ck_assert_uint_lt(i, 1000);
    }
    digested_when_full("");
}
END_TEST

/* Refused range deletions have used memory of their transaction. This memory counts, whether the
 * transaction commits (_i 1) or aborts (_i 0). */
START_TEST(pending_bytes_count_refused_ranges)
{
    struct lladd_txn *one = fixture_begin(&b);
    managed_put(one, t, 3, "c");
    commit(one);
    digest();
    one = fixture_begin(&b);
    managed_put(one, t, 2, "b");
    for (uint32_t i = 0; managed_stats(&b, t).pending_bytes < SMALL; i++) {
        struct lladd_txn *txn = fixture_begin(&b);
        for (uint32_t k = 1; k < 10; k++)
            ck_assert_int_eq(try_range(txn, k % 3, 4), LLADD_CONFLICT);
        if (_i)
            commit(txn);
        else
            abort_txn(txn);
        ck_assert_uint_lt(i, 1000);
    }
    abort_txn(one);
    digested_when_full("3=c");
}
END_TEST

/* The memory of rows that were put and rolled back counts, too. */
START_TEST(pending_bytes_count_aborted_rows)
{
    char value[101];
    memset(value, 'v', sizeof value - 1);
    value[sizeof value - 1] = 0;
    for (uint32_t i = 0; managed_stats(&b, t).pending_bytes < SMALL; i++) {
        struct lladd_txn *txn = fixture_begin(&b);
        for (uint32_t k = 1; k < 10; k++)
            managed_put(txn, t, k, value);
        abort_txn(txn);
        ck_assert_uint_lt(i, 1000);
    }
    ck_assert_uint_eq(managed_stats(&b, t).pending_rows, 0);
    ok_db(&b, lladd_managed_maintain(t, NULL, &b.err));
    ck_assert_uint_eq(managed_stats(&b, t).digests, 1);
    ck_assert_uint_lt(managed_stats(&b, t).memory_bytes, SMALL / 10);
    managed_fill(&b, t, "1=a");
    digest();
    t = managed_restart(&b);
    managed_expect(&b, t, "1=a");
}
END_TEST

/* The configuration is as deep as possible. So it cannot be below a ranges_dtable, and runs with
 * ranges have a linear_dtable instead. */
START_TEST(ranges_with_the_deepest_configuration)
{
    enum { DEPTH = 32 };
    static const char above[] = "\"base\" class(dt) cache_dtable \"base_config\" config [ ";
    char text[DEPTH * (sizeof above + 2)] = "class(dt) cache_dtable config [ ";
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    for (int i = 2; i < DEPTH; i++)
        strcat(text, above);
    strcat(text, "\"base\" class(dt) linear_dtable");
    for (int i = 1; i < DEPTH; i++)
        strcat(text, " ]");
    *(_i ? &o.combine_config : &o.config) = text;
    managed_close(&b, t);
    t = managed_table(&b, "deep", &o);
    managed_fill(&b, t, "1=a 2=b 3=c");
    digest();
    for (int i = 0; i < 2; i++) {
        del(2, 3);
        managed_fill(&b, t, "4=d");
        digest();
    }
    ck_assert_uint_eq(managed_stats(&b, t).run_ranges, 2);
    managed_expect(&b, t, "1=a 3=c 4=d");
    ok_db(&b, lladd_managed_combine(t, 2, &b.err));
    ck_assert_uint_eq(managed_stats(&b, t).run_ranges, 1);
    check_runs();
    managed_expect(&b, t, "1=a 3=c 4=d");
    ok_db(&b, lladd_managed_combine(t, 0, &b.err));
    managed_expect(&b, t, "1=a 3=c 4=d");
    managed_close(&b, t);
    fixture_crash(&b);
    t = managed_open(&b, "deep");
    managed_expect(&b, t, "1=a 3=c 4=d");
}
END_TEST

static uint64_t blocks_read(void)
{
    struct lladd_dtable_cache_stats s = {.struct_size = sizeof s};
    lladd_dtable_cache_stats_get(b.db, &s);
    return s.reads;
}

/* A cursor that comes to a deleted range, in either direction, seeks to the other end of the
 * range. */
START_TEST(cursors_skip_deleted_ranges)
{
    enum { ROWS = 20000 };
    char value[101];
    memset(value, 'v', sizeof value - 1);
    value[sizeof value - 1] = 0;
    struct lladd_txn *txn = fixture_begin(&b);
    for (uint32_t i = 0; i < ROWS; i++)
        managed_put(txn, t, i, value);
    commit(txn);
    digest();
    del(3, ROWS - 3);
    if (_i)
        digest();
    t = managed_restart(&b);
    uint64_t before = blocks_read();
    txn = fixture_begin(&b);
    char *text = managed_text(txn, t);
    ck_assert_uint_eq(strlen(text), 6 * 100 + strlen("0= 1= 2= 19997= 19998= 19999="));
    free(text);
    commit(txn);
    ck_assert_uint_lt(blocks_read() - before, 12);
}
END_TEST

/* Deleted ranges of a table in an overlay hide rows of the table below. */
START_TEST(deleted_ranges_in_an_overlay)
{
    struct lladd_dtable *memory, *both, *two[2];
    const struct lladd_dtable *table = NULL;
    struct lladd_dtable_cursor *c;
    struct lladd_dtable_value v = lladd_dtable_value_of("m", 1);
    static const uint32_t left[] = {1, 3, 4, 5, 9};
    managed_fill(&b, t, "2=b 9=i");
    digest();
    del(2, 4);
    managed_fill(&b, t, "3=c");
    if (_i)
        digest();
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, try_range(txn, 6, 8));
    ok_db(&b, lladd_dtable_memory(b.db, LLADD_DTABLE_U32, NULL, &memory, &b.err));
    for (uint32_t i = 1; i < 8; i++) {
        struct lladd_dtable_key key = lladd_dtable_u32(i);
        ok_db(&b, lladd_dtable_put(memory, &key, &v, &b.err));
    }
    ok(txn, lladd_managed_table(txn, t, &table));
    two[0] = (struct lladd_dtable *)(uintptr_t)table;
    two[1] = memory;
    ok_db(&b, lladd_dtable_overlay(b.db, two, 2, &both, &b.err));
    ok_db(&b, lladd_dtable_cursor_open(both, 0, &c, &b.err));
    for (size_t i = 0; i < sizeof left / sizeof left[0]; i++) {
        struct lladd_dtable_key key;
        ok_db(&b, lladd_dtable_next(c, &b.err));
        ok_db(&b, lladd_dtable_row(c, &key, NULL, &b.err));
        ck_assert_uint_eq(key.number, left[i]);
    }
    ck_assert_int_eq(lladd_dtable_next(c, &b.err), LLADD_END);
    for (size_t i = sizeof left / sizeof left[0]; i > 0; i--) {
        struct lladd_dtable_key key;
        ok_db(&b, lladd_dtable_prev(c, &b.err));
        ok_db(&b, lladd_dtable_row(c, &key, NULL, &b.err));
        ck_assert_uint_eq(key.number, left[i - 1]);
    }
    lladd_dtable_cursor_close(c);
    lladd_dtable_close(both);
    lladd_dtable_close(memory);
    abort_txn(txn);
}
END_TEST

/* Range deletions are kept as long as older rows may exist. */
START_TEST(a_combine_of_all_runs_drops_ranges)
{
    managed_fill(&b, t, "1=a 2=b 3=c");
    del(5, 6);
    digest();
    ck_assert_uint_eq(managed_stats(&b, t).run_ranges, 0);
    del(2, 3);
    digest();
    managed_fill(&b, t, "7=g");
    digest();
    ok_db(&b, lladd_managed_combine(t, 2, &b.err));
    ck_assert_uint_eq(managed_stats(&b, t).runs, 2);
    ck_assert_uint_eq(managed_stats(&b, t).run_ranges, 1);
    managed_expect(&b, t, "1=a 3=c 7=g");
    ok_db(&b, lladd_managed_combine(t, 0, &b.err));
    ck_assert_uint_eq(managed_stats(&b, t).run_ranges, 0);
    managed_expect(&b, t, "1=a 3=c 7=g");
    del(-1, -1);
    digest();
    ok_db(&b, lladd_managed_combine(t, 0, &b.err));
    ck_assert_uint_eq(managed_stats(&b, t).runs, 0);
    managed_expect(&b, t, "");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("managed dTables: ranges");
    TCase *tc = tcase_create("all");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, deletes_the_begin_but_not_the_end, 0, EVERYWHERE);
    tcase_add_loop_test(tc, deletes_rows_of_older_runs, 0, EVERYWHERE);
    tcase_add_loop_test(tc, ranges_without_begin_or_end, 0, EVERYWHERE);
    tcase_add_loop_test(tc, later_puts_are_not_deleted, 0, EVERYWHERE);
    tcase_add_loop_test(tc, ranges_overlap_and_touch, 0, EVERYWHERE);
    tcase_add_loop_test(tc, rollback_undoes_a_range, 0, EVERYWHERE);
    tcase_add_loop_test(tc, range_of_a_transaction_in_doubt, 0, EVERYWHERE);
    tcase_add_test(tc, empty_and_reversed_ranges);
    tcase_add_loop_test(tc, older_snapshots_still_see_the_rows, 0, 4);
    tcase_add_loop_test(tc, conflicts_with_an_earlier_put, 0, 2);
    tcase_add_loop_test(tc, conflicts_with_a_later_put, 0, 2);
    tcase_add_test(tc, a_put_conflicts_with_a_digested_range);
    tcase_add_loop_test(tc, conflicts_with_rows_digested_since, 0, 2);
    tcase_add_test(tc, conflicts_of_two_ranges);
    tcase_add_loop_test(tc, range_in_an_older_memtable, 0, EVERYWHERE);
    tcase_add_loop_test(tc, open_cursors_see_a_new_range, 0, 2);
    tcase_add_test(tc, an_interval_contains_its_key);
    tcase_add_test(tc, memory_does_not_depend_on_deleted_rows);
    tcase_add_loop_test(tc, cursors_skip_deleted_ranges, 0, 2);
    tcase_add_loop_test(tc, deleted_ranges_in_an_overlay, 0, 2);
    tcase_add_test(tc, a_combine_of_all_runs_drops_ranges);
    tcase_add_loop_test(tc, ranges_with_the_deepest_configuration, 0, 2);
    suite_add_tcase(s, tc);
    tc = tcase_create("with little memory");
    tcase_add_checked_fixture(tc, setup_small, teardown);
    tcase_add_test(tc, pending_bytes_count_endpoints);
    tcase_add_loop_test(tc, pending_bytes_count_refused_ranges, 0, 2);
    tcase_add_test(tc, pending_bytes_count_aborted_rows);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
