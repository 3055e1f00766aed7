/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Managed dTables and threads. 2 and 8 threads move amounts between accounts in two tables, while
 * threads of the library digest and combine. At times a thread deletes a whole table at once, and
 * puts its sum into one account. A transaction that adds up all accounts of both tables always gets
 * the same sum, also after a restart. So do open snapshots, one of each thread and one of all, and
 * they show the same amounts as before. Runs under TSan.
 */
#include "managed_fixture.h"

#include <lladd/bytes.h>
#include <lladd/sync.h>

enum { MOST = 8, TABLES = 2, ACCOUNTS = 60, AMOUNT = 1000 };

#ifdef LL_TEST_SHORT
enum { ROUNDS = 200 };
#else
enum { ROUNDS = 1000 };
#endif

static struct fixture b;
static struct lladd_managed *tables[TABLES];

struct worker {
    struct lladd_thread thread;
    unsigned number;
    uint64_t seed, moved, conflicts, gathered, sums;
    struct lladd_managed_snapshot *snapshot;
    uint64_t was[TABLES][ACCOUNTS]; /* the amounts in it */
};
static struct worker workers[MOST];
static struct lladd_managed_snapshot *shared;
static bool ranges; /* transactions delete ranges */

static int put(struct lladd_txn *txn, unsigned table, uint32_t account, uint64_t amount)
{
    unsigned char bytes[8];
    struct lladd_dtable_key key = lladd_dtable_u32(account);
    lladd_put64(bytes, amount);
    struct lladd_dtable_value v =
        amount ? lladd_dtable_value_of(bytes, sizeof bytes) : lladd_dtable_tombstone();
    return lladd_managed_put(txn, tables[table], &key, &v);
}

static uint64_t get(struct lladd_txn *txn, unsigned table, uint32_t account)
{
    unsigned char bytes[8];
    size_t len = 0;
    struct lladd_dtable_key key = lladd_dtable_u32(account);
    int rc = lladd_managed_get(txn, tables[table], &key, bytes, sizeof bytes, &len);
    sure(rc == 0 || rc == LLADD_NOT_FOUND, "get");
    sure(rc || len == 8, "an amount");
    return rc ? 0 : lladd_get64(bytes);
}

static uint64_t sum_of(const struct lladd_dtable *t)
{
    uint64_t all = 0;
    struct lladd_dtable_cursor *c;
    struct lladd_dtable_value v;
    sure(lladd_dtable_cursor_open(t, 0, &c, NULL) == 0, "cursor");
    int rc;
    while ((rc = lladd_dtable_next(c, NULL)) == 0) {
        sure(lladd_dtable_row(c, NULL, &v, NULL) == 0 && v.bytes.len == 8, "row");
        all += lladd_get64(v.bytes.data);
    }
    sure(rc == LLADD_END, "next");
    lladd_dtable_cursor_close(c);
    return all;
}

static uint64_t sum(struct lladd_txn *txn)
{
    uint64_t all = 0;
    for (unsigned i = 0; i < TABLES; i++) {
        const struct lladd_dtable *t;
        sure(lladd_managed_table(txn, tables[i], &t) == 0, "table");
        all += sum_of(t);
    }
    return all;
}

/* ---- what a thread does ---------------------------------------------------------------------- */

static void move(struct worker *w)
{
    struct lladd_txn *txn = NULL;
    unsigned from = seeded_next(&w->seed) % TABLES, to = seeded_next(&w->seed) % TABLES;
    uint32_t one = (uint32_t)(seeded_next(&w->seed) % ACCOUNTS),
             other = (uint32_t)(seeded_next(&w->seed) % ACCOUNTS);
    lladd_savepoint_id sp;
    lladd_lsn at;
    sure(lladd_begin(b.db, NULL, &txn, NULL) == 0, "begin");
    uint64_t have = get(txn, from, one), take = have ? seeded_next(&w->seed) % have + 1 : 0;
    int rc = put(txn, from, one, have - take);
    if (!rc)
        rc = put(txn, to, other, get(txn, to, other) + take);
    if (!rc && seeded_next(&w->seed) % 4 == 0) {
        sure(lladd_savepoint(txn, &sp) == 0, "savepoint");
        rc = put(txn, to, (other + 1) % ACCOUNTS, 77777);
        sure(lladd_rollback_to(txn, sp) == 0, "rollback");
    }
    sure(rc == 0 || rc == LLADD_CONFLICT, "put");
    w->conflicts += rc != 0;
    w->moved += rc == 0;
    if (rc || seeded_next(&w->seed) % 8 == 0)
        sure(lladd_abort(txn) == 0, "abort");
    else
        sure(lladd_commit_async(txn, &at) == 0, "commit");
}

/* Deletes a whole table, and puts its sum into one account, while other transactions change
 * accounts. */
static void gather(struct worker *w)
{
    struct lladd_txn *txn = NULL;
    unsigned table = seeded_next(&w->seed) % TABLES;
    uint32_t one = (uint32_t)(seeded_next(&w->seed) % ACCOUNTS);
    uint64_t all = 0;
    lladd_lsn at;
    sure(lladd_begin(b.db, NULL, &txn, NULL) == 0, "begin");
    for (uint32_t i = 0; i < ACCOUNTS; i++)
        all += get(txn, table, i);
    int rc = lladd_managed_delete_range(txn, tables[table], NULL, NULL);
    if (!rc)
        rc = put(txn, table, one, all);
    sure(rc == 0 || rc == LLADD_CONFLICT, "range");
    w->gathered += rc == 0;
    if (rc || seeded_next(&w->seed) % 8 == 0)
        sure(lladd_abort(txn) == 0, "abort");
    else
        sure(lladd_commit_async(txn, &at) == 0, "commit");
}

static void add_up(struct worker *w)
{
    struct lladd_txn *txn = NULL;
    sure(lladd_begin(b.db, NULL, &txn, NULL) == 0, "begin");
    uint64_t first = sum(txn);
    sure(first == (uint64_t)TABLES * ACCOUNTS * AMOUNT, "the sum");
    sure(sum(txn) == first, "the same sum");
    sure(lladd_commit(txn) == 0, "commit");
    w->sums++;
}

/* Reads an open snapshot in both ways. */
static void amounts(struct lladd_managed_snapshot *s, uint64_t out[TABLES][ACCOUNTS])
{
    uint64_t all = 0;
    for (unsigned i = 0; i < TABLES; i++) {
        const struct lladd_dtable *t;
        sure(lladd_managed_snapshot_table(s, tables[i], &t, NULL) == 0, "table");
        all += sum_of(t);
        for (uint32_t k = 0; k < ACCOUNTS; k++) {
            unsigned char bytes[8] = {0};
            struct lladd_dtable_key key = lladd_dtable_u32(k);
            int rc = lladd_dtable_get(t, &key, bytes, sizeof bytes, NULL, NULL);
            sure(rc == 0 || rc == LLADD_NOT_FOUND, "get");
            out[i][k] = lladd_get64(bytes);
        }
    }
    sure(all == (uint64_t)TABLES * ACCOUNTS * AMOUNT, "the sum of a snapshot");
}

/* Opens and closes a snapshot of the thread's own. Reads it, and that of all threads. */
static void look(struct worker *w, unsigned i)
{
    uint64_t seen[TABLES][ACCOUNTS];
    if (i % 40 == w->number) {
        lladd_managed_snapshot_close(w->snapshot);
        sure(lladd_managed_snapshot_open(b.db, &w->snapshot, NULL) == 0, "snapshot");
        amounts(w->snapshot, w->was);
    } else if (w->snapshot && i % 8 == 5) {
        amounts(w->snapshot, seen);
        sure(memcmp(seen, w->was, sizeof seen) == 0, "the same amounts");
    } else if (i % 16 == 14) {
        amounts(shared, seen);
        for (uint32_t k = 0; k < ACCOUNTS; k++)
            sure(seen[0][k] == AMOUNT && seen[1][k] == AMOUNT, "the first amounts");
    }
}

static void *work(void *arg)
{
    struct worker *w = arg;
    for (unsigned i = 0; i < ROUNDS; i++) {
        look(w, i);
        move(w);
        if (i % 8 == 3 && ranges)
            gather(w);
        if (i % 16 == w->number)
            add_up(w);
        if (w->number == 0 && i % 50 == 7) {
            int rc = lladd_managed_digest(tables[i % TABLES], NULL);
            sure(rc == 0 || rc == LLADD_BUSY, "digest");
            rc = lladd_managed_combine(tables[i % TABLES], 0, NULL);
            sure(rc == 0 || rc == LLADD_BUSY, "combine");
        }
        if (w->number == 1 && i % 20 == 11) { /* while the other threads write, digest and
                                               * combine */
            static const char *const configs[] = {
                NULL, "class(dt) bloom_dtable config [ \"base\" class(dt) linear_dtable ]",
                "class(dt) fixed_dtable config [ \"value_size\" int 8 ]"};
            struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
            o.config = configs[i / 20 % 3];
            o.combine_config = configs[i / 60 % 3];
            o.rows = 40 + i % 17;
            sure(lladd_managed_alter(tables[i / 20 % TABLES],
                                     LLADD_MANAGED_CONFIG | LLADD_MANAGED_COMBINE_CONFIG |
                                         LLADD_MANAGED_ROWS,
                                     &o, NULL) == 0,
                 "alter");
        }
        if (w->number == 1 && i % 60 == 5)
            sure(lladd_checkpoint(b.db, NULL) == 0, "checkpoint");
    }
    return NULL;
}

static void run_some(unsigned n, unsigned background, enum lladd_managed_schedule second)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    uint64_t conflicts = 0, moved = 0, gathered = 0, digests = 0, combines = 0, versions = 0;
    fixture_init_threads(&b);
    ok_db(&b, lladd_managed_register(&b.options, &b.err));
    b.options.durability = LLADD_DURABLE_LATER;
    b.options.checkpoint_bytes = 256u << 10;
    fixture_open(&b);
    o.type = LLADD_DTABLE_U32;
    o.rows = 50;
    o.every = 2;
    tables[0] = managed_table(&b, "one", &o);
    o.schedule = second;
    o.memory_bytes = second == LLADD_MANAGED_LEVELS ? 4000 : 0;
    tables[1] = managed_table(&b, "two", &o);
    struct lladd_txn *txn = fixture_begin(&b);
    for (unsigned i = 0; i < TABLES; i++)
        for (uint32_t k = 0; k < ACCOUNTS; k++)
            ok(txn, put(txn, i, k, AMOUNT));
    commit(txn);
    ok_db(&b, lladd_managed_snapshot_open(b.db, &shared, &b.err));
    ok_db(&b, lladd_managed_threads(b.db, background, &b.err));
    for (unsigned i = 0; i < n; i++) {
        workers[i] = (struct worker){.number = i, .seed = i + 77};
        ck_assert_int_eq(lladd_thread_start(&workers[i].thread, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < n; i++) {
        lladd_thread_join(&workers[i].thread);
        conflicts += workers[i].conflicts;
        moved += workers[i].moved;
        gathered += workers[i].gathered;
        ck_assert_uint_gt(workers[i].sums, 0);
        lladd_managed_snapshot_close(workers[i].snapshot);
    }
    for (unsigned i = 0; i < TABLES; i++)
        versions += managed_stats(&b, tables[i]).held_versions;
    lladd_managed_snapshot_close(shared);
    for (unsigned i = 0; i < TABLES; i++) {
        struct lladd_managed_stats s = managed_stats(&b, tables[i]);
        ck_assert_uint_eq(s.failures, 0);
        digests += s.digests;
        combines += s.combines;
    }
    ck_assert_uint_gt(moved, conflicts);
    ck_assert(ranges ? gathered > 0 : versions > 0);
    ck_assert_uint_gt(digests, 0); /* the scheduler decides how many there are */
    ck_assert_uint_gt(combines, 0);
    managed_close(&b, tables[0]);
    ok_db(&b, lladd_managed_threads(b.db, 0, &b.err));
    fixture_close(&b); /* closes while a table is open */
    fixture_open(&b);
    tables[0] = managed_open(&b, "one");
    tables[1] = managed_open(&b, "two");
    add_up(&workers[0]);
    managed_tidy(&b, tables[0]);
    managed_tidy(&b, tables[1]);
    add_up(&workers[0]);
    managed_close(&b, tables[0]);
    managed_close(&b, tables[1]);
    managed_no_leaks(&b);
    fixture_free(&b);
}

static void run(unsigned n, unsigned background, enum lladd_managed_schedule second)
{
    ranges = true;
    run_some(n, background, second);
}

/* Without ranges, merges store differences for the open snapshots. */
START_TEST(threads_and_differences)
{
    ranges = false;
    run_some(6, 2, LLADD_MANAGED_LEVELS);
}
END_TEST

START_TEST(two_threads)
{
    run(2, 1, LLADD_MANAGED_TIERED);
}
END_TEST

START_TEST(eight_threads)
{
    run(8, 2, LLADD_MANAGED_TIERED);
}
END_TEST

START_TEST(two_threads_and_levels)
{
    run(2, 1, LLADD_MANAGED_LEVELS);
}
END_TEST

START_TEST(eight_threads_and_levels)
{
    run(8, 3, LLADD_MANAGED_LEVELS);
}
END_TEST

/* A writer that is faster than digests is slowed down, and never stopped. */
START_TEST(a_fast_writer_is_slowed_down)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    fixture_init_threads(&b);
    ok_db(&b, lladd_managed_register(&b.options, &b.err));
    b.options.durability = LLADD_DURABLE_LATER;
    fixture_open(&b);
    o.type = LLADD_DTABLE_U32;
    o.memory_bytes = 1000;
    tables[0] = managed_table(&b, "one", &o);
    ok_db(&b, lladd_managed_threads(b.db, 1, &b.err));
    for (uint32_t i = 0; i < 3000; i++) {
        struct lladd_txn *txn = fixture_begin(&b);
        lladd_lsn at;
        ok(txn, put(txn, 0, i, i + 1));
        ck_assert_int_eq(lladd_commit_async(txn, &at), 0);
    }
    struct lladd_managed_stats s = managed_stats(&b, tables[0]);
    ck_assert_uint_gt(s.digests, 0);
    ck_assert_uint_gt(s.waits, 0);
    ck_assert_uint_eq(s.failures, 0);
    struct lladd_txn *txn = fixture_begin(&b);
    for (uint32_t i = 0; i < 3000; i++)
        ck_assert_uint_eq(get(txn, 0, i), i + 1);
    commit(txn);
    managed_close(&b, tables[0]);
    ok_db(&b, lladd_managed_threads(b.db, 0, &b.err));
    fixture_free(&b);
}
END_TEST

/* Runs that an old snapshot keeps are freed after its transaction has ended, even if the
 * transaction read only another table, and the table is not used any more. */
START_TEST(runs_are_freed_after_the_last_snapshot)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    fixture_init_threads(&b);
    ok_db(&b, lladd_managed_register(&b.options, &b.err));
    fixture_open(&b);
    o.schedule = LLADD_MANAGED_NEVER;
    tables[0] = managed_table(&b, "one", &o);
    tables[1] = managed_table(&b, "two", NULL);
    ok_db(&b, lladd_managed_threads(b.db, 1, &b.err));
    for (unsigned i = 0; i < TABLES; i++) {
        managed_fill(&b, tables[0], "1=a");
        ok_db(&b, lladd_managed_digest(tables[0], &b.err));
        struct lladd_txn *reader = fixture_begin(&b);
        ck_assert_uint_eq(get(reader, i, 7), 0);
        managed_fill(&b, tables[0], "2=b");
        ok_db(&b, lladd_managed_digest(tables[0], &b.err));
        ok_db(&b, lladd_managed_combine(tables[0], 0, &b.err));
        ck_assert_uint_gt(managed_stats(&b, tables[0]).obsolete, 0);
        commit(reader);
        while (managed_stats(&b, tables[0]).obsolete)
            lladd_yield();
        ck_assert_uint_eq(managed_stats(&b, tables[0]).memtables, 1);
    }
    managed_close(&b, tables[0]);
    managed_close(&b, tables[1]);
    ok_db(&b, lladd_managed_threads(b.db, 0, &b.err));
    fixture_free(&b);
}
END_TEST

/* The same for an open snapshot. Nothing is due when it is closed. */
START_TEST(runs_are_freed_after_the_last_open_snapshot)
{
    fixture_init_threads(&b);
    ok_db(&b, lladd_managed_register(&b.options, &b.err));
    fixture_open(&b);
    tables[0] = managed_table(&b, "one", NULL);
    ok_db(&b, lladd_managed_threads(b.db, 1, &b.err));
    managed_fill(&b, tables[0], "1=a");
    ok_db(&b, lladd_managed_snapshot_open(b.db, &shared, &b.err));
    managed_fill(&b, tables[0], "1=b");
    ok_db(&b, lladd_managed_digest(tables[0], &b.err));
    ck_assert_uint_eq(managed_stats(&b, tables[0]).obsolete, 1);
    managed_snapshot_sees(&b, shared, tables[0], "1=a");
    lladd_managed_snapshot_close(shared);
    while (managed_stats(&b, tables[0]).obsolete)
        lladd_yield();
    managed_close(&b, tables[0]);
    ok_db(&b, lladd_managed_threads(b.db, 0, &b.err));
    fixture_free(&b);
}
END_TEST

/* Compares keys as bytes. One call also reads how many runs of the other table are still to be
 * freed. */
static uint32_t watched;
static uint64_t left_then;
static int watching(void *ctx, struct lladd_span x, struct lladd_span y)
{
    struct lladd_managed_stats s = {.struct_size = sizeof s};
    (void)ctx;
    if (lladd_atomic_load32(&watched)) {
        lladd_atomic_store32(&watched, 0);
        sure(lladd_managed_stats_get(tables[0], &s, NULL, 0, NULL) == 0, "stats");
        lladd_atomic_store64(&left_then, s.obsolete);
    }
    size_t n = x.len < y.len ? x.len : y.len;
    int c = n ? memcmp(x.data, y.data, n) : 0;
    return c ? c : x.len < y.len ? -1 : x.len > y.len;
}
static const struct lladd_dtable_comparator watcher = {
    .struct_size = sizeof watcher, .name = "watching", .compare = watching};

/* The library has one thread. One table has five runs to be freed. The thread must digest the other
 * table before it has freed them all. */
START_TEST(freeing_does_not_delay_other_tables)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT, bytes = LLADD_MANAGED_OPTIONS_INIT;
    fixture_init_threads(&b);
    ok_db(&b, lladd_managed_register(&b.options, &b.err));
    fixture_open(&b);
    ok_db(&b, lladd_dtable_comparator_add(b.db, &watcher, &b.err));
    bytes.type = LLADD_DTABLE_BYTES;
    bytes.comparator = watcher.name;
    bytes.rows = 1;
    tables[1] = managed_table(&b, "quiet", &bytes);
    o.schedule = LLADD_MANAGED_NEVER;
    tables[0] = managed_table(&b, "busy", &o);
    for (int i = 0; i < 5; i++) {
        managed_fill(&b, tables[0], "1=a 2=b");
        ok_db(&b, lladd_managed_digest(tables[0], &b.err));
    }
    ok_db(&b, lladd_managed_combine(tables[0], 0, &b.err));
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_dtable_key x = lladd_dtable_bytes("x", 1), y = lladd_dtable_bytes("y", 1);
    struct lladd_dtable_value v = lladd_dtable_value_of("v", 1);
    ok(txn, lladd_managed_put(txn, tables[1], &x, &v));
    ok(txn, lladd_managed_put(txn, tables[1], &y, &v));
    commit(txn);
    ck_assert_uint_eq(managed_stats(&b, tables[0]).obsolete, 5);
    lladd_atomic_store32(&watched, 1);
    ok_db(&b, lladd_managed_threads(b.db, 1, &b.err));
    while (managed_stats(&b, tables[1]).digests == 0 || managed_stats(&b, tables[0]).obsolete)
        lladd_yield();
    ck_assert_uint_ge(lladd_atomic_load64(&left_then), 4);
    managed_close(&b, tables[0]);
    managed_close(&b, tables[1]);
    ok_db(&b, lladd_managed_threads(b.db, 0, &b.err));
    fixture_free(&b);
}
END_TEST

/* A thread of the program digests. It leaves combines and freeing to the library's threads, and
 * wakes these. */
START_TEST(a_digest_wakes_the_threads)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    fixture_init_threads(&b);
    ok_db(&b, lladd_managed_register(&b.options, &b.err));
    fixture_open(&b);
    o.every = 2;
    tables[0] = managed_table(&b, "one", &o);
    ok_db(&b, lladd_managed_threads(b.db, 1, &b.err));
    for (int i = 0; i < 2; i++) {
        managed_fill(&b, tables[0], "1=a 2=b");
        ok_db(&b, lladd_managed_digest(tables[0], &b.err));
    }
    while (managed_stats(&b, tables[0]).combines == 0 || managed_stats(&b, tables[0]).obsolete)
        lladd_yield();
    ck_assert_uint_eq(managed_stats(&b, tables[0]).runs, 1);
    managed_close(&b, tables[0]);
    ok_db(&b, lladd_managed_threads(b.db, 0, &b.err));
    fixture_free(&b);
}
END_TEST

/* The handle is closed or killed while threads of the library digest and combine. The threads must
 * end before the memory that they use is freed. */
START_TEST(closed_or_killed_while_threads_work)
{
    enum { TIMES = 20, PUTS = 200 };
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    fixture_init_threads(&b);
    ok_db(&b, lladd_managed_register(&b.options, &b.err));
    fixture_open(&b);
    o.rows = 8;
    tables[0] = managed_table(&b, "one", &o);
    for (uint32_t i = 0; i < TIMES; i++) {
        ok_db(&b, lladd_managed_threads(b.db, 2, &b.err));
        for (uint32_t k = 0; k < PUTS; k++) {
            struct lladd_txn *txn = fixture_begin(&b);
            ok(txn, put(txn, 0, k, i + 1));
            commit(txn);
        }
        if (i % 2) {
            fixture_close(&b);
            fixture_open(&b);
        } else {
            fixture_crash(&b);
        }
        tables[0] = managed_open(&b, "one");
        struct lladd_txn *txn = fixture_begin(&b);
        ck_assert_uint_eq(get(txn, 0, PUTS - 1), i + 1);
        commit(txn);
    }
    managed_close(&b, tables[0]);
    fixture_free(&b);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("managed dTables and threads");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, two_threads);
    tcase_add_test(tc, threads_and_differences);
    tcase_add_test(tc, eight_threads);
    tcase_add_test(tc, two_threads_and_levels);
    tcase_add_test(tc, eight_threads_and_levels);
    tcase_add_test(tc, a_fast_writer_is_slowed_down);
    tcase_add_test(tc, runs_are_freed_after_the_last_snapshot);
    tcase_add_test(tc, runs_are_freed_after_the_last_open_snapshot);
    tcase_add_test(tc, freeing_does_not_delay_other_tables);
    tcase_add_test(tc, a_digest_wakes_the_threads);
    tcase_add_test(tc, closed_or_killed_while_threads_work);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
