/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Readers of a replica wait for a position, and after a restart until the tables agree. Then a
 * transaction or a snapshot has all that was committed up to the position.
 */
#include "replica_fixture.h"

static struct fixture b;
static struct lladd_replica *r;

static const enum lladd_replica_kind BEGIN = LLADD_REPLICA_BEGIN, COMMIT = LLADD_REPLICA_COMMIT;

static void begin(void)
{
    replica_begin(&b);
    r = replica_open(&b, NULL);
}

static void take(struct lladd_replica_event e)
{
    replica_take(&b, r, e);
}

static void put(uint64_t position, uint64_t txn, const char *table, uint32_t key, const char *value)
{
    take(event_put(position, txn, table, key, value));
}

/* Asserts what the snapshot has, in both tables. */
static void snapshot_has(struct lladd_managed_snapshot *snapshot, const char *const has[2])
{
    for (unsigned i = 0; i < SOURCE_TABLES; i++) {
        struct lladd_managed *t = managed_open(&b, source_tables[i]);
        managed_snapshot_sees(&b, snapshot, t, has[i]);
        managed_close(&b, t);
    }
}

START_TEST(a_snapshot_shows_what_it_has_waited_for)
{
    struct lladd_managed_snapshot *one = NULL, *two = NULL;
    const char *const first[] = {"1=a", "1=a"}, *const second[] = {"1=b 2=b", "1=a"};
    begin();
    take(event_of(BEGIN, 1, 1));
    put(2, 1, "rows", 1, "a");
    put(3, 1, "more", 1, "a");
    ck_assert_int_eq(lladd_replica_snapshot(r, 4, 1000, &one, &b.err), LLADD_TIMEOUT);
    ck_assert_ptr_null(one);
    take(event_of(COMMIT, 4, 1));
    ok_db(&b, lladd_replica_snapshot(r, 4, 0, &one, &b.err));
    take(event_of(BEGIN, 5, 2));
    put(6, 2, "rows", 1, "b");
    put(7, 2, "rows", 2, "b");
    take(event_of(COMMIT, 8, 2));
    ok_db(&b, lladd_replica_snapshot(r, 8, 0, &two, &b.err));
    snapshot_has(one, first);
    for (unsigned i = 0; i < SOURCE_TABLES; i++)
        replica_digest(&b, source_tables[i]);
    snapshot_has(one, first);
    snapshot_has(two, second);
    ck_assert_int_eq(lladd_replica_close(r, &b.err), LLADD_BUSY);
    lladd_managed_snapshot_close(one);
    lladd_managed_snapshot_close(two);
    replica_done(&b, r);
}
END_TEST

/* One table is ahead of the other after a crash: readers wait until the stream has passed both. */
START_TEST(readers_wait_until_the_tables_agree)
{
    struct lladd_managed_snapshot *snapshot = NULL;
    begin();
    ok_db(&b, lladd_replica_wait(r, 0, 0, &b.err));
    take(event_of(BEGIN, 1, 1));
    put(2, 1, "rows", 1, "a");
    put(3, 1, "more", 1, "a");
    take(event_of(COMMIT, 4, 1));
    ok_db(&b, lladd_replica_wait(r, 4, 0, &b.err));
    ck_assert_int_eq(lladd_replica_wait(r, 5, 1000, &b.err), LLADD_TIMEOUT);
    replica_digest(&b, "rows");
    ok_db(&b, lladd_checkpoint(b.db, &b.err)); /* the digest survives the crash */
    fixture_crash(&b);
    r = replica_open(&b, NULL);
    replica_table_has(&b, "rows", "1=a"); /* a transaction that has not waited sees the half */
    replica_table_has(&b, "more", "");
    ck_assert_int_eq(lladd_replica_wait(r, 0, 1000, &b.err), LLADD_TIMEOUT);
    ck_assert_msg(strstr(b.err.message, "4 is awaited"), "%s", b.err.message);
    ck_assert_uint_eq(replica_from(r), 1);
    take(event_of(BEGIN, 1, 1));
    put(2, 1, "rows", 1, "a");
    put(3, 1, "more", 1, "a");
    ck_assert_int_eq(lladd_replica_wait(r, 0, 0, &b.err), LLADD_TIMEOUT);
    ck_assert_int_eq(lladd_replica_snapshot(r, 0, 0, &snapshot, &b.err), LLADD_TIMEOUT);
    ck_assert_ptr_null(snapshot);
    take(event_of(COMMIT, 4, 1));
    ok_db(&b, lladd_replica_wait(r, 0, 0, &b.err));
    replica_table_has(&b, "rows", "1=a");
    replica_table_has(&b, "more", "1=a");
    ck_assert_uint_eq(replica_info(&b, r).dropped, 1);
    replica_done(&b, r);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("readers");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, a_snapshot_shows_what_it_has_waited_for);
    tcase_add_test(tc, readers_wait_until_the_tables_agree);
    suite_add_tcase(suite, tc);
    return fixture_run(suite);
}
