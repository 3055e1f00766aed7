/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The pace of LLADD_MANAGED_LEVELS, with threads of the library: writers wait for a part of a
 * digest, and a digest waits for a part of a combine. A gate stops the library's threads in the
 * middle of their work: the table's comparator lets them compare only a number of keys. So each
 * test decides how far a digest or combine is. Runs under TSan.
 */
#include "managed_fixture.h"
#include "operations/dtables/managed/managed.h"

#include <lladd/sync.h>
#include <stdio.h>

enum { LONG = 100, LARGE = 20000, M = 400 << 10, ROWS_OF_M = 2600 };

static struct fixture b;
static struct lladd_managed *t;

/* ---- the gate -------------------------------------------------------------------------------- */

/* A thread of the library stops when it has compared `allowed` pairs of keys that both begin with
 * this letter (0: with any letter). Threads of the test never stop. */
static uint64_t allowed, compared; /* atomic, as the next one */
static uint32_t letter;
static _Thread_local bool of_test;

static int compare(void *ctx, struct lladd_span x, struct lladd_span y)
{
    (void)ctx;
    uint32_t only = lladd_atomic_load32(&letter);
    bool counts = !only || (x.len && y.len && *(const char *)x.data == (char)only &&
                            *(const char *)y.data == (char)only);
    if (!of_test && counts) {
        uint64_t n = lladd_atomic_add64(&compared, 1);
        while (n >= lladd_atomic_load64(&allowed))
            lladd_yield();
    }
    size_t n = x.len < y.len ? x.len : y.len;
    int c = n ? memcmp(x.data, y.data, n) : 0;
    return c ? c : x.len < y.len ? -1 : x.len > y.len;
}
static const struct lladd_dtable_comparator gated = {
    .struct_size = sizeof gated, .name = "gated", .compare = compare};

static void shut(char only)
{
    lladd_atomic_store64(&compared, 0);
    lladd_atomic_store64(&allowed, 0);
    lladd_atomic_store32(&letter, (uint32_t)only);
}

static void let(uint64_t more)
{
    lladd_atomic_add64(&allowed, more);
}

static void open_gate(void)
{
    lladd_atomic_store64(&allowed, UINT64_MAX);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void begin(uint64_t memory_bytes)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    of_test = true;
    open_gate();
    fixture_init_threads(&b);
    ok_db(&b, lladd_managed_register(&b.options, &b.err));
    b.options.durability = LLADD_DURABLE_LATER;
    b.options.log_segment_min = b.options.log_segment_max = 16u << 20;
    fixture_open(&b);
    ok_db(&b, lladd_dtable_comparator_add(b.db, &gated, &b.err));
    o.type = LLADD_DTABLE_BYTES;
    o.comparator = gated.name;
    o.schedule = LLADD_MANAGED_LEVELS;
    o.memory_bytes = memory_bytes;
    t = managed_table(&b, "rows", &o);
}

static void threads(unsigned n)
{
    ok_db(&b, lladd_managed_threads(b.db, n, &b.err));
}

static void done(void)
{
    threads(0);
    managed_close(&b, t);
    fixture_free(&b);
}

/* Rows of kind 'l' have LARGE bytes, others LONG. */
static int try_put(struct lladd_txn *txn, char kind, uint32_t number)
{
    static const char value[LARGE];
    char name[16];
    int len = snprintf(name, sizeof name, "%c%08u", kind, (unsigned)number);
    struct lladd_dtable_key key = lladd_dtable_bytes(name, (size_t)len);
    struct lladd_dtable_value v = lladd_dtable_value_of(value, kind == 'l' ? LARGE : LONG);
    return lladd_managed_put(txn, t, &key, &v);
}

/* Puts the rows `from` to `to` - 1, in one transaction. */
static void put(char kind, uint32_t from, uint32_t to)
{
    struct lladd_txn *txn = NULL;
    lladd_lsn at;
    sure(lladd_begin(b.db, NULL, &txn, NULL) == 0, "begin");
    for (uint32_t i = from; i < to; i++)
        sure(try_put(txn, kind, i) == 0, "put");
    sure(lladd_commit_async(txn, &at) == 0, "commit");
}

static uint64_t count_rows(void)
{
    struct lladd_txn *txn = fixture_begin(&b);
    const struct lladd_dtable *table = NULL;
    struct lladd_dtable_cursor *c = NULL;
    uint64_t n = 0;
    ok(txn, lladd_managed_table(txn, t, &table));
    ok(txn, lladd_dtable_cursor_open(table, 0, &c, &b.err));
    int rc;
    while ((rc = lladd_dtable_next(c, &b.err)) == 0)
        n++;
    ck_assert_int_eq(rc, LLADD_END);
    lladd_dtable_cursor_close(c);
    commit(txn);
    return n;
}

static struct lladd_managed_stats stats(void)
{
    struct lladd_managed_stats s = {.struct_size = sizeof s};
    sure(lladd_managed_stats_get(t, &s, NULL, 0, NULL) == 0, "stats");
    return s;
}

/* The bytes of C0 that a digest in progress does not take. */
static uint64_t front(void)
{
    struct lladd_managed_stats s = stats();
    return s.pending_bytes - s.frozen_bytes;
}

/* Waits until a digest has begun. */
static void wait_for_digest(void)
{
    while (stats().frozen_bytes == 0)
        lladd_yield();
}

/* Lets the merge at the gate compare some more pairs. Waits until it has done so, and the threads
 * that keep pace with it have done what they may do now. */
static void let_a_part(uint64_t pairs, uint64_t digests)
{
    enum { QUIET = 100 };
    uint64_t before;
    let(pairs);
    while (lladd_atomic_load64(&compared) <= lladd_atomic_load64(&allowed) &&
           stats().digests == digests)
        lladd_yield();
    do {
        before = front();
        for (int i = 0; i < QUIET; i++)
            lladd_yield();
    } while (front() != before);
}

struct writer {
    struct lladd_thread thread;
    char kind;
    uint32_t from, to;
};

static void *write_rows(void *arg)
{
    const struct writer *w = arg;
    of_test = true;
    for (uint32_t i = w->from; i < w->to; i++)
        put(w->kind, i, i + 1);
    return NULL;
}

static void start(struct writer *w, char kind, uint32_t from, uint32_t to)
{
    *w = (struct writer){.kind = kind, .from = from, .to = to};
    ck_assert_int_eq(lladd_thread_start(&w->thread, write_rows, w), 0);
}

/* ---- a digest -------------------------------------------------------------------------------- */

/* While a digest has not begun to read, C0 may grow by an eighth. Then puts wait; and they go on
 * when a part of the digest is done. */
START_TEST(a_put_waits_for_a_part)
{
    struct writer w;
    begin(M);
    put('k', 0, ROWS_OF_M);
    ok_db(&b, lladd_managed_digest(t, &b.err));
    shut(0);
    threads(1);
    put('k', ROWS_OF_M / 2, 2 * ROWS_OF_M);
    wait_for_digest();
    uint64_t digests = stats().digests;
    ck_assert_uint_eq(front(), 0);
    start(&w, 'k', 0, ROWS_OF_M * 3 / 4);
    while (stats().waits == 0)
        lladd_yield();
    ck_assert_uint_gt(front(), M / 8);
    ck_assert_uint_lt(front(), M / 8 + 1000);
    while (front() < M / 2) {
        let_a_part(50, digests);
        ck_assert_uint_eq(stats().digests, digests); /* the digest is still in progress */
    }
    open_gate();
    lladd_thread_join(&w.thread);
    ck_assert_uint_gt(stats().waits, 1);
    ck_assert_uint_eq(count_rows(), 2 * ROWS_OF_M);
    done();
}
END_TEST

/* While a digest absorbs the newest run, the run cannot be combined. */
START_TEST(a_run_is_merged_once)
{
    begin(M);
    put('k', 0, ROWS_OF_M);
    ok_db(&b, lladd_managed_digest(t, &b.err));
    shut(0);
    threads(1);
    put('k', ROWS_OF_M / 2, 2 * ROWS_OF_M);
    wait_for_digest();
    ck_assert_int_eq(lladd_managed_combine(t, 0, &b.err), LLADD_BUSY);
    ck_assert_ptr_nonnull(strstr(b.err.message, "a digest is merging"));
    ck_assert_int_eq(lladd_managed_digest(t, &b.err), LLADD_BUSY);
    open_gate();
    while (stats().digests < 2)
        lladd_yield();
    while (stats().frozen_bytes)
        lladd_yield();
    ck_assert_uint_eq(stats().runs, 1);
    int rc;
    while ((rc = lladd_managed_combine(t, 0, &b.err)) == LLADD_BUSY)
        lladd_yield();
    ck_assert_int_eq(rc, 0);
    ck_assert_uint_eq(count_rows(), 2 * ROWS_OF_M);
    done();
}
END_TEST

static void *opens_when_in_a_hurry(void *arg)
{
    (void)arg;
    of_test = true;
    while (!lladd_atomic_load32(&t->hurry))
        lladd_yield();
    open_gate();
    return NULL;
}

/* A digest of few rows that are large also ends early when the table is closed. */
START_TEST(large_rows_do_not_delay_a_close)
{
    enum { FEW = 24 };
    struct lladd_thread opener;
    begin(M);
    put('l', 0, FEW);
    ok_db(&b, lladd_managed_digest(t, &b.err));
    shut(0);
    threads(1);
    put('l', FEW / 2, FEW / 2 + FEW);
    wait_for_digest();
    memset(&opener, 0, sizeof opener);
    ck_assert_int_eq(lladd_thread_start(&opener, opens_when_in_a_hurry, NULL), 0);
    managed_close(&b, t);
    lladd_thread_join(&opener);
    threads(0);
    t = managed_open(&b, "rows");
    ck_assert_uint_eq(stats().digests, 1);
    ck_assert_uint_eq(count_rows(), FEW / 2 + FEW);
    done();
}
END_TEST

/* ---- a combine ------------------------------------------------------------------------------- */

enum { OLD = 14000, NEWER = 8000 };

/* Makes C2 and a C1 that is large enough to be combined, both with keys of kind 'o'. Starts
 * n threads, and returns when the first one is in a combine and stands at the gate. */
static void begin_combining(unsigned n)
{
    begin(M);
    put('o', 0, OLD);
    ok_db(&b, lladd_managed_digest(t, &b.err));
    put('o', OLD / 2, OLD / 2 + NEWER);
    ok_db(&b, lladd_managed_digest(t, &b.err));
    ck_assert_uint_eq(stats().runs, 2);
    shut('o');
    threads(n);
    while (lladd_atomic_load64(&compared) == 0)
        lladd_yield();
    ck_assert_int_eq(lladd_managed_combine(t, 0, &b.err), LLADD_BUSY);
}

/* With one thread, a put waits for the whole combine if the memory is full. */
START_TEST(one_thread)
{
    struct writer w;
    begin_combining(1);
    start(&w, 'n', 0, 2 * ROWS_OF_M);
    while (stats().waits == 0)
        lladd_yield();
    struct lladd_managed_stats s = stats();
    ck_assert_uint_eq(s.digests, 2);
    ck_assert_uint_eq(s.combines, 0);
    ck_assert_uint_gt(s.pending_bytes, M + M / 8);
    ck_assert_uint_lt(s.pending_bytes, M + M / 8 + 1000);
    open_gate();
    lladd_thread_join(&w.thread);
    s = stats();
    ck_assert_uint_ge(s.combines, 1);
    ck_assert_uint_gt(s.digests, 2);
    ck_assert_uint_eq(count_rows(), OLD / 2 + NEWER + 2 * ROWS_OF_M);
    done();
}
END_TEST

/* Begins a digest that has to wait for the combine. The gate does not stop comparisons of the
 * digest's own keys, so the digest is ahead of the combine after a few steps. */
static void begin_waiting(void)
{
    begin_combining(2);
    for (uint32_t i = 0; stats().pending_bytes < M; i += 10)
        put('n', i, i + 10);
    wait_for_digest();
}

static void *opens_when_given_up(void *arg)
{
    (void)arg;
    of_test = true;
    while (stats().frozen_bytes)
        lladd_yield();
    open_gate();
    return NULL;
}

/* Closing ends the digest at once, and the combine when it next checks for a close. */
START_TEST(closed_while_a_digest_waits)
{
    struct lladd_thread opener;
    begin_waiting();
    memset(&opener, 0, sizeof opener);
    ck_assert_int_eq(lladd_thread_start(&opener, opens_when_given_up, NULL), 0);
    managed_close(&b, t);
    lladd_thread_join(&opener);
    threads(0);
    t = managed_open(&b, "rows");
    ck_assert_uint_eq(stats().digests, 2);
    ck_assert_uint_eq(stats().combines, 0);
    ck_assert_uint_gt(count_rows(), OLD / 2 + NEWER + 1000);
    managed_tidy(&b, t);
    ck_assert_uint_eq(stats().runs, 2);
    done();
}
END_TEST

/* A digest that the journal asks for does not wait for the combine. */
START_TEST(the_journal_does_not_wait)
{
    begin_waiting();
    ck_assert_uint_eq(stats().digests, 2);
    ll_managed__owner.digest(t, 0, lladd_lsn_of(0));
    while (stats().digests == 2)
        lladd_yield();
    ck_assert_uint_eq(stats().combines, 0);
    ck_assert_uint_eq(stats().runs, 3);
    open_gate();
    while (stats().combines == 0)
        lladd_yield();
    done();
}
END_TEST

/* The digest goes on when a part of the combine is done. */
START_TEST(a_digest_waits_for_a_part)
{
    begin_waiting();
    while (stats().digests == 2) {
        let_a_part(100, 2);
        ck_assert_uint_eq(stats().combines, 0);
    }
    ck_assert_uint_gt(lladd_atomic_load64(&allowed), 1000);
    open_gate();
    while (stats().combines == 0)
        lladd_yield();
    done();
}
END_TEST

/* ---- free running ---------------------------------------------------------------------------- */

#ifdef LL_TEST_SHORT
enum { WRITES = 6000 };
#else
enum { WRITES = 15000 };
#endif

/* Writers are faster than the library's threads. Memory has a bound, and the table at most three
 * runs. */
START_TEST(memory_has_a_bound)
{
    enum { SMALL = 64 << 10, A_TIME = 5 };
    begin(SMALL);
    threads((unsigned)_i);
    for (uint32_t i = 0; i < WRITES; i += A_TIME) {
        put('k', i * 7919u % 100000 * A_TIME, i * 7919u % 100000 * A_TIME + A_TIME);
        struct lladd_managed_stats s = stats();
        /* The limit is 9/8. But if no digest has begun, a put goes on after a wait of 10 ms. */
        ck_assert_uint_lt(s.pending_bytes - s.frozen_bytes, 2 * SMALL);
        ck_assert_uint_le(s.runs, 3);
    }
    while (stats().combines == 0) /* one is due by now */
        lladd_yield();
    struct lladd_managed_stats s = stats();
    ck_assert_uint_gt(s.digests, 3);
    ck_assert_uint_gt(s.waits, 0);
    ck_assert_uint_eq(s.failures, 0);
    ck_assert_uint_eq(count_rows(), WRITES);
    done();
}
END_TEST

/* Without threads, puts do not wait. */
START_TEST(no_put_waits_without_threads)
{
    enum { SMALL = 8000 };
    begin(SMALL);
    threads(1);
    threads(0);
    for (uint32_t i = 0; i < 1000; i++)
        put('k', i, i + 1);
    struct lladd_managed_stats s = stats();
    ck_assert_uint_gt(s.pending_bytes, 10 * SMALL);
    ck_assert_uint_eq(s.waits, 0);
    managed_tidy(&b, t);
    ck_assert_uint_lt(stats().pending_bytes, SMALL);
    done();
}
END_TEST

/* There is no space for runs. When the memory is full, puts return the digest's error and change
 * nothing. So the memory has a bound, however often digests are tried again. Puts go on when there
 * is space. */
START_TEST(digests_fail_while_the_memory_is_full)
{
    uint32_t n = 0, refused = 0;
    int rc = 0;
    begin(M);
    threads(2);
    fault_device_capacity(b.fd, fault_device_bytes(b.fd));
    while (refused < 300 || stats().failures < 20) {
        struct lladd_txn *txn = fixture_begin(&b);
        lladd_lsn at;
        rc = try_put(txn, 'k', n);
        if (rc) {
            refuses(txn, LLADD_NO_SPACE, rc);
            ck_assert_ptr_nonnull(strstr(lladd_txn_error(txn)->message, "its memory is full"));
            abort_txn(txn);
            refused++;
            lladd_yield();
        } else {
            ck_assert_uint_eq(refused, 0); /* LEV-3: no put goes on while a digest is tried again */
            ck_assert_int_eq(lladd_commit_async(txn, &at), 0);
            n++;
        }
        /* 9/8 before the first digest, and as much while it is in progress */
        ck_assert_uint_lt(stats().pending_bytes, 5 * M / 2);
    }
    ck_assert_uint_gt(n, ROWS_OF_M / 2);
    ck_assert_uint_eq(stats().digests, 0);
    fault_device_capacity(b.fd, UINT64_MAX);
    for (uint32_t more = 0; more < 2 * ROWS_OF_M;) {
        struct lladd_txn *txn = fixture_begin(&b);
        lladd_lsn at;
        rc = try_put(txn, 'k', n);
        if (rc) {
            abort_txn(txn);
            lladd_yield();
            continue;
        }
        ck_assert_int_eq(lladd_commit_async(txn, &at), 0);
        n++;
        more++;
    }
    ck_assert_uint_gt(stats().digests, 0);
    ck_assert_uint_eq(count_rows(), n);
    done();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("managed dTables: pace");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, a_put_waits_for_a_part);
    tcase_add_test(tc, a_run_is_merged_once);
    tcase_add_test(tc, large_rows_do_not_delay_a_close);
    tcase_add_test(tc, one_thread);
    tcase_add_test(tc, closed_while_a_digest_waits);
    tcase_add_test(tc, the_journal_does_not_wait);
    tcase_add_test(tc, a_digest_waits_for_a_part);
    tcase_add_loop_test(tc, memory_has_a_bound, 1, 3);
    tcase_add_test(tc, no_put_waits_without_threads);
    tcase_add_test(tc, digests_fail_while_the_memory_is_full);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
