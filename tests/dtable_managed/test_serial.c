/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Serialisable transactions. Snapshots alone allow anomalies (write skew, phantoms). Locks on keys
 * and tables prevent them, even if the snapshot is older than the lock, if changes were digested
 * meanwhile, and with several threads. The test runs under TSan.
 */
#include "managed_fixture.h"

#include <lladd/lock.h>
#include <lladd/sync.h>

enum { DOCTORS = 6, THREADS = 6 };

#ifdef LL_TEST_SHORT
enum { ROUNDS = 150 };
#else
enum { ROUNDS = 600 };
#endif

static struct fixture b;
static struct lladd_managed *t;

static struct lladd_managed *begin(struct lladd_managed_options *o)
{
    managed_init(&b);
    ok_db(&b, lladd_lock_register(&b.options, &b.err));
    fixture_open(&b);
    return managed_table(&b, "rows", o);
}

static int lock(struct lladd_txn *txn, uint32_t key, enum lladd_lock_mode mode)
{
    struct lladd_dtable_key k = lladd_dtable_u32(key);
    return lladd_managed_lock(txn, t, &k, mode, LLADD_LOCK_TRY);
}

static int lock_all(struct lladd_txn *txn, enum lladd_lock_mode mode)
{
    return lladd_managed_lock(txn, t, NULL, mode, LLADD_LOCK_TRY);
}

static bool has(struct lladd_txn *txn, uint32_t key, const char *text)
{
    struct lladd_dtable_key k = lladd_dtable_u32(key);
    char buf[16];
    size_t len;
    ok(txn, lladd_managed_get(txn, t, &k, buf, sizeof buf, &len));
    return len == strlen(text) && memcmp(buf, text, len) == 0;
}

/* ---- anomalies ------------------------------------------------------------------------------- */

/* Each of two doctors sees that the other one is on call, and leaves. */
START_TEST(write_skew_without_locks)
{
    t = begin(NULL);
    managed_fill(&b, t, "1=on 2=on");
    struct lladd_txn *x = fixture_begin(&b), *y = fixture_begin(&b);
    ck_assert(has(x, 1, "on") && has(x, 2, "on"));
    ck_assert(has(y, 1, "on") && has(y, 2, "on"));
    managed_put(x, t, 1, "off");
    managed_put(y, t, 2, "off");
    commit(x);
    commit(y);
    managed_expect(&b, t, "1=off 2=off");
    managed_done(&b, t);
}
END_TEST

START_TEST(write_skew_with_locks)
{
    t = begin(NULL);
    managed_fill(&b, t, "1=on 2=on");
    struct lladd_txn *x = fixture_begin(&b), *y = fixture_begin(&b);
    for (uint32_t i = 1; i <= 2; i++) {
        ok(x, lock(x, i, LLADD_LOCK_S));
        ok(y, lock(y, i, LLADD_LOCK_S));
        ck_assert(has(x, i, "on") && has(y, i, "on"));
    }
    refuses(x, LLADD_BUSY, lock(x, 1, LLADD_LOCK_X)); /* the other transaction has read this row */
    abort_txn(y);
    ok(x, lock(x, 1, LLADD_LOCK_X));
    managed_put(x, t, 1, "off");
    commit(x);
    y = fixture_begin(&b);
    ok(y, lock(y, 1, LLADD_LOCK_S));
    ck_assert(has(y, 1, "off"));
    commit(y);
    managed_expect(&b, t, "1=off 2=on");
    managed_done(&b, t);
}
END_TEST

/* A row that was changed after the snapshot cannot be locked for reading or writing. If the change
 * has put the same bytes again, the row can be locked after a digest. */
START_TEST(snapshot_is_older)
{
    t = begin(NULL);
    managed_fill(&b, t, "1=a 2=b 3=c");
    struct lladd_txn *x = fixture_begin(&b);
    ck_assert(has(x, 3, "c"));
    managed_fill(&b, t, "1=new 2=b");
    for (int digested = 0; digested < 2; digested++) {
        refuses(x, LLADD_CONFLICT, lock(x, 1, LLADD_LOCK_S));
        refuses(x, LLADD_CONFLICT, lock(x, 1, LLADD_LOCK_X));
        refuses(x, LLADD_CONFLICT, lock_all(x, LLADD_LOCK_S));
        if (digested)
            ok(x, lock(x, 2, LLADD_LOCK_S)); /* the row was put with the same bytes */
        else
            refuses(x, LLADD_CONFLICT, lock(x, 2, LLADD_LOCK_S));
        ok(x, lock(x, 3, LLADD_LOCK_S));
        ok(x, lock(x, 4, LLADD_LOCK_S)); /* the row was absent in the snapshot, and is absent now */
        ok(x, lock_all(x, LLADD_LOCK_IX));
        ck_assert(has(x, 1, "a"));
        ok_db(&b, lladd_managed_digest(t, &b.err));
    }
    ck_assert_uint_ge(managed_stats(&b, t).conflicts, 7);
    abort_txn(x);
    x = fixture_begin(&b);
    ok(x, lock_all(x, LLADD_LOCK_S));
    ck_assert(has(x, 1, "new"));
    commit(x);
    managed_done(&b, t);
}
END_TEST

/* An absent key can be locked. A reader's lock of the table keeps others from inserting. */
START_TEST(phantoms)
{
    t = begin(NULL);
    managed_fill(&b, t, "1=a 9=z");
    struct lladd_txn *x = fixture_begin(&b), *y = fixture_begin(&b);
    ok(x, lock(x, 5, LLADD_LOCK_S));
    refuses(y, LLADD_BUSY, lock(y, 5, LLADD_LOCK_X));
    ok(x, lock_all(x, LLADD_LOCK_S));
    managed_sees(x, t, "1=a 9=z");
    refuses(y, LLADD_BUSY, lock(y, 6, LLADD_LOCK_X));
    ok(y, lock(y, 9, LLADD_LOCK_S));
    commit(x);
    ok(y, lock(y, 6, LLADD_LOCK_X));
    managed_put(y, t, 6, "new");
    ok(y, lock(y, 6, LLADD_LOCK_X)); /* the transaction's own changes are no conflict */
    x = fixture_begin(&b);
    refuses(x, LLADD_BUSY, lock_all(x, LLADD_LOCK_S));
    commit(y);
    ok(x, lock_all(x, LLADD_LOCK_S)); /* the transaction has read nothing yet, so its snapshot is
                                       * new */
    managed_sees(x, t, "1=a 6=new 9=z");
    commit(x);
    managed_expect(&b, t, "1=a 6=new 9=z");
    managed_done(&b, t);
}
END_TEST

/* Keys have locks, and ranges have none. So a transaction that deletes a range locks the table.
 * This lock conflicts with a reader's lock of a key. */
START_TEST(ranges_are_locked_with_the_table)
{
    struct lladd_dtable_key one = lladd_dtable_u32(1), nine = lladd_dtable_u32(9);
    t = begin(NULL);
    managed_fill(&b, t, "1=a 5=e 9=z");
    struct lladd_txn *reads = fixture_begin(&b), *deletes = fixture_begin(&b);
    ok(reads, lock(reads, 5, LLADD_LOCK_S));
    ck_assert(has(reads, 5, "e"));
    refuses(deletes, LLADD_BUSY, lock_all(deletes, LLADD_LOCK_X));
    ok(reads, lock(reads, 12, LLADD_LOCK_X));
    managed_put(reads, t, 12, "e");
    commit(reads);
    ok(deletes, lock_all(deletes, LLADD_LOCK_X)); /* this transaction is serialised after the
                                                   * reader */
    managed_sees(deletes, t, "1=a 5=e 9=z 12=e");
    ok(deletes, lladd_managed_delete_range(deletes, t, &one, &nine));
    reads = fixture_begin(&b);
    refuses(reads, LLADD_BUSY, lock(reads, 5, LLADD_LOCK_S));
    refuses(reads, LLADD_BUSY, lock(reads, 7, LLADD_LOCK_X));
    commit(deletes);
    ok(reads, lock(reads, 5, LLADD_LOCK_S));
    managed_sees(reads, t, "9=z 12=e");
    commit(reads);
    managed_done(&b, t);
}
END_TEST

/* A lock conflicts with a write of a transaction that takes no locks. */
START_TEST(locks_and_writers_without_locks)
{
    t = begin(NULL);
    managed_fill(&b, t, "1=a");
    struct lladd_txn *x = fixture_begin(&b), *y = fixture_begin(&b);
    managed_put(y, t, 1, "b");
    refuses(x, LLADD_CONFLICT, lock(x, 1, LLADD_LOCK_S));
    abort_txn(y);
    ok(x, lock(x, 1, LLADD_LOCK_S));
    struct lladd_dtable_key wrong = lladd_dtable_string("x");
    refuses(x, LLADD_WRONG_TYPE, lladd_managed_lock(x, t, &wrong, LLADD_LOCK_S, LLADD_LOCK_TRY));
    commit(x);
    managed_done(&b, t);
    managed_init(&b);
    fixture_open(&b);
    t = managed_table(&b, "rows", NULL);
    x = fixture_begin(&b);
    refuses(x, LLADD_BAD_STATE, lock(x, 1, LLADD_LOCK_S));
    abort_txn(x);
    managed_done(&b, t);
}
END_TEST

/* ---- other keys ------------------------------------------------------------------------------ */

static int no_case(void *ctx, struct lladd_span a, struct lladd_span c)
{
    const unsigned char *p = a.data, *q = c.data;
    (void)ctx;
    for (size_t i = 0; i < a.len && i < c.len; i++)
        if ((p[i] | 32) != (q[i] | 32))
            return (p[i] | 32) < (q[i] | 32) ? -1 : 1;
    return a.len < c.len ? -1 : a.len > c.len;
}

static uint64_t no_case_hash(void *ctx, struct lladd_span s)
{
    const unsigned char *p = s.data;
    uint64_t h = 0;
    (void)ctx;
    for (size_t i = 0; i < s.len; i++)
        h = h * 31 + (p[i] | 32u);
    return h;
}

START_TEST(keys_that_are_equal)
{
    static const struct lladd_dtable_comparator comparator = {.struct_size = sizeof comparator,
                                                              .name = "no_case",
                                                              .compare = no_case,
                                                              .hash = no_case_hash};
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    managed_init(&b);
    ok_db(&b, lladd_lock_register(&b.options, &b.err));
    fixture_open(&b);
    ok_db(&b, lladd_dtable_comparator_add(b.db, &comparator, &b.err));
    o.type = LLADD_DTABLE_BYTES;
    t = managed_table(&b, "plain", &o);
    o.comparator = "no_case";
    struct lladd_managed *other = managed_table(&b, "folded", &o);
    struct lladd_txn *x = fixture_begin(&b), *y = fixture_begin(&b);
    struct lladd_dtable_key low = lladd_dtable_bytes("abc", 3), high = lladd_dtable_bytes("ABC", 3);
    ok(x, lladd_managed_lock(x, t, &low, LLADD_LOCK_X, LLADD_LOCK_TRY));
    ok(y, lladd_managed_lock(y, t, &high, LLADD_LOCK_X, LLADD_LOCK_TRY));
    ok(y, lladd_managed_lock(y, other, &high, LLADD_LOCK_X, LLADD_LOCK_TRY));
    refuses(x, LLADD_BUSY, lladd_managed_lock(x, other, &low, LLADD_LOCK_S, LLADD_LOCK_TRY));
    commit(x);
    commit(y);
    managed_close(&b, other);
    managed_done(&b, t);
}
END_TEST

/* ---- threads --------------------------------------------------------------------------------- */

struct doctor {
    struct lladd_thread thread;
    uint64_t seed, left, came, again, looked;
    uint32_t number;
};
static struct doctor doctors[THREADS];

static int lock_wait(struct lladd_txn *txn, const uint32_t *key, enum lladd_lock_mode mode)
{
    struct lladd_dtable_key k = lladd_dtable_u32(key ? *key : 0);
    return lladd_managed_lock(txn, t, key ? &k : NULL, mode, LLADD_LOCK_WAIT);
}

static bool on_call(struct lladd_txn *txn, uint32_t who)
{
    struct lladd_dtable_key k = lladd_dtable_u32(who);
    int rc = lladd_managed_get(txn, t, &k, NULL, 0, NULL);
    sure(rc == 0 || rc == LLADD_NOT_FOUND, "get");
    return rc == 0;
}

/* The doctor leaves if another one stays on call. All keys are looked up, even absent ones. */
static int leave(struct lladd_txn *txn, struct doctor *d, uint32_t who)
{
    unsigned others = 0;
    int rc = lock_wait(txn, &who, LLADD_LOCK_U);
    for (uint32_t i = 0; !rc && i < DOCTORS; i++) {
        rc = i == who ? 0 : lock_wait(txn, &i, LLADD_LOCK_S);
        others += !rc && i != who && on_call(txn, i);
    }
    if (rc || others == 0 || !on_call(txn, who))
        return rc;
    rc = lock_wait(txn, &who, LLADD_LOCK_X);
    if (!rc)
        rc = managed_try(txn, t, who, NULL);
    d->left += !rc;
    return rc;
}

static int come(struct lladd_txn *txn, struct doctor *d, uint32_t who)
{
    int rc = lock_wait(txn, &who, LLADD_LOCK_X);
    if (!rc)
        rc = managed_try(txn, t, who, "on");
    d->came += !rc;
    return rc;
}

/* Counts the doctors on call twice, by a cursor. At least one doctor must be on call, and both
 * counts must be equal. */
static int look(struct lladd_txn *txn, struct doctor *d)
{
    unsigned counted[2] = {0, 0};
    int rc = lock_wait(txn, NULL, LLADD_LOCK_S);
    for (int i = 0; !rc && i < 2; i++) {
        const struct lladd_dtable *rows;
        struct lladd_dtable_cursor *c;
        sure(lladd_managed_table(txn, t, &rows) == 0, "table");
        sure(lladd_dtable_cursor_open(rows, 0, &c, NULL) == 0, "cursor");
        while (lladd_dtable_next(c, NULL) == 0)
            counted[i]++;
        lladd_dtable_cursor_close(c);
    }
    sure(rc || (counted[0] > 0 && counted[0] == counted[1]), "none is on call");
    d->looked += !rc;
    return rc;
}

static void *work(void *arg)
{
    struct doctor *d = arg;
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct lladd_txn *txn = NULL;
        uint32_t who = (uint32_t)(seeded_next(&d->seed) % DOCTORS);
        uint64_t what = seeded_next(&d->seed) % 8;
        lladd_lsn at;
        sure(lladd_begin(b.db, NULL, &txn, NULL) == 0, "begin");
        int rc = what == 0 ? look(txn, d) : what < 4 ? come(txn, d, who) : leave(txn, d, who);
        sure(rc == 0 || lladd_code_root(rc) == LLADD_ROOT_RETRY, "a lock");
        d->again += rc != 0;
        if (rc)
            sure(lladd_abort(txn) == 0, "abort");
        else
            sure(lladd_commit_async(txn, &at) == 0, "commit");
        if (d->number == 0 && i % 40 == 3) {
            rc = lladd_managed_digest(t, NULL);
            sure(rc == 0 || rc == LLADD_BUSY, "digest");
        }
    }
    return NULL;
}

START_TEST(one_doctor_is_always_on_call)
{
    uint64_t left = 0, came = 0, looked = 0;
    fixture_init_threads(&b);
    ok_db(&b, lladd_managed_register(&b.options, &b.err));
    ok_db(&b, lladd_lock_register(&b.options, &b.err));
    b.options.durability = LLADD_DURABLE_LATER;
    fixture_open(&b);
    t = managed_table(&b, "rows", NULL);
    managed_fill(&b, t, "0=on 1=on 2=on");
    for (uint32_t i = 0; i < THREADS; i++) {
        doctors[i] = (struct doctor){.number = i, .seed = i + 5};
        ck_assert_int_eq(lladd_thread_start(&doctors[i].thread, work, &doctors[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        lladd_thread_join(&doctors[i].thread);
        left += doctors[i].left;
        came += doctors[i].came;
        looked += doctors[i].looked;
    }
    ck_assert_uint_gt(left, 10);
    ck_assert_uint_gt(came, 10);
    ck_assert_uint_gt(looked, 10);
    managed_done(&b, t);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("managed dTables: serialisable");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, write_skew_without_locks);
    tcase_add_test(tc, write_skew_with_locks);
    tcase_add_test(tc, snapshot_is_older);
    tcase_add_test(tc, phantoms);
    tcase_add_test(tc, ranges_are_locked_with_the_table);
    tcase_add_test(tc, locks_and_writers_without_locks);
    tcase_add_test(tc, keys_that_are_equal);
    tcase_add_test(tc, one_doctor_is_always_on_call);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
