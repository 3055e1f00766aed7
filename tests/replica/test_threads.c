/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One thread applies a stream, readers wait for positions and read in transactions and snapshots,
 * and background threads digest and combine. A reader that has waited for a position sees all
 * transactions up to it, and of each other one all rows or none, in both tables. And a database as
 * the source, while threads write to it.
 */
#include "replica_fixture.h"

#include <lladd/replica_source.h>
#include <lladd/sync.h>

enum { TXNS = 400, READERS = 2, WRITERS = 2, ROWS = 12 };

static struct fixture b;
static struct lladd_replica *r;
static struct lladd_managed *tables[SOURCE_TABLES];
static uint32_t ended; /* atomic */

/* Master transaction n has the positions 100 n to 100 n + 99; its rows have the value n. */
static void send(uint32_t n)
{
    struct lladd_replica_event e[2 + ROWS];
    size_t k = 0, done;
    e[k++] = event_of(LLADD_REPLICA_BEGIN, 100 * n, n);
    for (uint32_t i = 0; i < ROWS; i++) {
        e[k] = event_put(100 * n + k, n, source_tables[i % 2], i / 2, "");
        e[k++].after = lladd_dtable_value_of(&n, sizeof n);
    }
    e[k] = event_of(LLADD_REPLICA_COMMIT, 100 * n + 99, n);
    struct lladd_error err = LLADD_ERROR_INIT;
    int rc = lladd_replica_apply(r, e, k + 1, &done, &err);
    ck_assert_msg(rc == 0, "%s", err.message);
}

static void *reader(void *arg)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    uint64_t rng = (uint64_t)(uintptr_t)arg + 1;
    for (uint32_t n = 1; n < TXNS; n += (uint32_t)(seeded_next(&rng) % 9)) {
        struct lladd_txn *txn;
        uint32_t seen = 0;
        int rc = lladd_replica_wait(r, 100 * n + 99, UINT64_MAX, &err);
        ck_assert_msg(rc == 0, "%s", err.message);
        ck_assert_int_eq(lladd_begin(b.db, NULL, &txn, &err), 0);
        for (uint32_t i = 0; i < ROWS; i++) {
            struct lladd_dtable_key key = lladd_dtable_u32(i / 2);
            uint32_t is;
            size_t len;
            ok(txn, lladd_managed_get(txn, tables[i % 2], &key, &is, sizeof is, &len));
            ck_assert(i == 0 || is == seen);
            seen = is;
        }
        ck_assert_uint_ge(seen, n);
        commit(txn);
    }
    return NULL;
}

/* As `reader`, in snapshots. */
static void *snapshot_reader(void *arg)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    uint64_t rng = (uint64_t)(uintptr_t)arg + 1;
    for (uint32_t n = 1; n < TXNS; n += (uint32_t)(seeded_next(&rng) % 9)) {
        struct lladd_managed_snapshot *snapshot;
        const struct lladd_dtable *in[SOURCE_TABLES];
        uint32_t seen = 0;
        int rc = lladd_replica_snapshot(r, 100 * n + 99, UINT64_MAX, &snapshot, &err);
        ck_assert_msg(rc == 0, "%s", err.message);
        for (unsigned i = 0; i < SOURCE_TABLES; i++)
            ck_assert_int_eq(lladd_managed_snapshot_table(snapshot, tables[i], &in[i], &err), 0);
        for (uint32_t i = 0; i < ROWS; i++) {
            struct lladd_dtable_key key = lladd_dtable_u32(i / 2);
            uint32_t is;
            size_t len;
            rc = lladd_dtable_get(in[i % 2], &key, &is, sizeof is, &len, &err);
            ck_assert_msg(rc == 0, "%s", err.message);
            ck_assert(i == 0 || is == seen);
            seen = is;
        }
        ck_assert_uint_ge(seen, n);
        lladd_managed_snapshot_close(snapshot);
    }
    return NULL;
}

/* Asks for positions all the time. */
static void *asker(void *arg)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    uint64_t durable = 0, from = 0;
    (void)arg;
    while (!lladd_atomic_load32(&ended)) {
        uint64_t now, next;
        ck_assert_int_eq(lladd_replica_durable(r, &now, &err), 0);
        ck_assert_int_eq(lladd_replica_from(r, &next), 0);
        ck_assert_uint_ge(now, durable);
        ck_assert_uint_ge(next, from);
        durable = now;
        from = next;
        lladd_yield();
    }
    return NULL;
}

/* Makes the replica, and starts threads that digest and combine. */
static void begin_replica(void)
{
    struct lladd_replica_options o = LLADD_REPLICA_OPTIONS_INIT;
    struct lladd_managed_options m = LLADD_MANAGED_OPTIONS_INIT;
    fixture_init_threads(&b);
    ok_db(&b, lladd_replica_register(&b.options, &b.err));
    fixture_open(&b);
    m.flags = LLADD_MANAGED_UNLOGGED;
    m.schedule = LLADD_MANAGED_LEVELS;
    m.memory_bytes = 4000;
    for (unsigned i = 0; i < SOURCE_TABLES; i++)
        tables[i] = managed_table(&b, source_tables[i], &m);
    o.lag_bytes = 4000;
    r = replica_open(&b, &o);
    ok_db(&b, lladd_managed_threads(b.db, 2, &b.err));
}

static void end_replica(void)
{
    ok_db(&b, lladd_managed_threads(b.db, 0, &b.err));
    for (unsigned i = 0; i < SOURCE_TABLES; i++)
        managed_close(&b, tables[i]);
    replica_close(&b, r);
    fixture_free(&b);
}

START_TEST(readers_beside_the_applier)
{
    struct lladd_thread threads[READERS + 2] = {0};
    begin_replica();
    for (uintptr_t i = 0; i < READERS; i++)
        ck_assert_int_eq(lladd_thread_start(&threads[i], reader, (void *)i), 0);
    ck_assert_int_eq(lladd_thread_start(&threads[READERS], asker, NULL), 0);
    ck_assert_int_eq(lladd_thread_start(&threads[READERS + 1], snapshot_reader, NULL), 0);
    for (uint32_t n = 1; n <= TXNS; n++)
        send(n);
    lladd_atomic_store32(&ended, 1);
    for (unsigned i = 0; i < READERS + 2; i++)
        lladd_thread_join(&threads[i]);
    end_replica();
}
END_TEST

/* ---- a database as the source ---------------------------------------------------------------- */

static struct fixture a;
static struct lladd_managed *logged[SOURCE_TABLES];
static uint32_t writing; /* atomic: threads that write */

/* Transaction n of a writer puts n into its rows of both tables. Each seventh one is aborted. */
static void *writer(void *arg)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    for (uint32_t n = 1; n <= TXNS; n++) {
        struct lladd_txn *txn;
        ck_assert_int_eq(lladd_begin(a.db, NULL, &txn, &err), 0);
        for (uint32_t i = 0; i < ROWS; i++) {
            struct lladd_dtable_key key = lladd_dtable_u32((uint32_t)(uintptr_t)arg * ROWS + i / 2);
            struct lladd_dtable_value value = lladd_dtable_value_of(&n, sizeof n);
            ok(txn, lladd_managed_put(txn, logged[i % 2], &key, &value));
        }
        if (n % 7 == 0)
            abort_txn(txn);
        else
            commit(txn);
    }
    (void)lladd_atomic_add32(&writing, UINT32_MAX);
    return NULL;
}

/* Sends what there is to the replica, and what the replica has durably back to the source. */
static void catch_up(struct lladd_replica_source *s)
{
    struct lladd_replica_event e;
    unsigned rows = 0;
    int rc;
    while ((rc = lladd_replica_source_next(s, &e, &a.err)) == 0) {
        rows += e.kind == LLADD_REPLICA_PUT;
        ck_assert(e.kind != LLADD_REPLICA_COMMIT || rows == ROWS);
        rows = e.kind == LLADD_REPLICA_COMMIT ? 0 : rows;
        replica_take(&b, r, e);
    }
    ck_assert_int_eq(rc, LLADD_END);
    ck_assert_uint_eq(rows, 0);
    ok_db(&a, lladd_replica_source_acknowledge(s, replica_durable(&b, r), &a.err));
}

static void same_rows(void)
{
    struct lladd_txn *txn = fixture_begin(&a);
    for (unsigned i = 0; i < SOURCE_TABLES; i++) {
        char *text = managed_text(txn, logged[i]);
        ck_assert_uint_gt(strlen(text), ROWS);
        replica_table_has(&b, source_tables[i], text);
        free(text);
    }
    abort_txn(txn);
}

/* A source and its replica, beside writers and digests of the source. */
START_TEST(writers_beside_a_source)
{
    struct lladd_thread threads[WRITERS] = {0};
    struct lladd_managed_options m = LLADD_MANAGED_OPTIONS_INIT;
    struct lladd_replica_source *s;
    fixture_init_threads(&a);
    ok_db(&a, lladd_replica_register(&a.options, &a.err));
    fixture_open(&a);
    m.memory_bytes = 4000;
    for (unsigned i = 0; i < SOURCE_TABLES; i++)
        logged[i] = managed_table(&a, source_tables[i], &m);
    ok_db(&a, lladd_managed_threads(a.db, 2, &a.err));
    begin_replica();
    ok_db(&a, lladd_replica_source_open(a.db, "r", source_tables, SOURCE_TABLES, replica_from(r),
                                        &s, &a.err));
    writing = WRITERS;
    for (uintptr_t i = 0; i < WRITERS; i++)
        ck_assert_int_eq(lladd_thread_start(&threads[i], writer, (void *)i), 0);
    for (bool more = true; more; lladd_yield()) {
        more = lladd_atomic_load32(&writing) != 0; /* if not, all commits are durable now */
        catch_up(s);
    }
    for (unsigned i = 0; i < WRITERS; i++)
        lladd_thread_join(&threads[i]);
    same_rows();
    ok_db(&a, lladd_replica_source_close(s, &a.err));
    end_replica();
    ok_db(&a, lladd_managed_threads(a.db, 0, &a.err));
    for (unsigned i = 0; i < SOURCE_TABLES; i++)
        managed_close(&a, logged[i]);
    fixture_free(&a);
}
END_TEST

/* A wait ends at its time limit. */
START_TEST(a_wait_ends)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    replica_begin(&b);
    r = replica_open(&b, NULL);
    ck_assert_int_eq(lladd_replica_wait(r, 1, 1000000, &err), LLADD_TIMEOUT);
    ck_assert_int_eq(lladd_replica_wait(r, 1, 0, &err), LLADD_TIMEOUT);
    replica_done(&b, r);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("threads");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, readers_beside_the_applier);
    tcase_add_test(tc, writers_beside_a_source);
    tcase_add_test(tc, a_wait_ends);
    suite_add_tcase(suite, tc);
    return fixture_run(suite);
}
