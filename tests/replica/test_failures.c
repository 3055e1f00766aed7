/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A replica under failures. Each allocation, each read and each write of a workload fails in turn.
 * The workload applies a stream, with transactions that are spilled and with digests, and in the
 * middle closes the replica and opens it again. After a failure the replica has a prefix of the
 * stream, and the same call goes on. No row, no page and no memory is lost.
 */
#include "replica_fixture.h"

static struct fixture b;
static struct lladd_replica *r;
static struct source s;

enum { EVENTS = 60, STEPS = 8, SENDS = 3 };

static struct lladd_replica_options options(void)
{
    struct lladd_replica_options o = LLADD_REPLICA_OPTIONS_INIT;
    o.batch = 2;
    o.buffer_bytes = 200;
    o.lag_bytes = 40;
    return o;
}

static void setup(void)
{
    struct lladd_replica_options o = options();
    replica_begin(&b);
    r = replica_open(&b, &o);
}

/* Sends the events before `end` that the replica asks for. */
static int send_upto(size_t end)
{
    size_t i = source_find(&s, replica_from(r)), done;
    return lladd_replica_apply(r, s.events + i, i < end ? end - i : 0, &done, &b.err);
}

static int digest(const char *table)
{
    struct lladd_managed *t;
    int rc = lladd_managed_open(b.db, table, &t, &b.err);
    if (rc)
        return rc;
    rc = lladd_managed_digest(t, &b.err);
    int closed = lladd_managed_close(t, &b.err);
    return rc ? rc : closed;
}

static int open_again(void)
{
    struct lladd_replica_options o = options();
    if (r) {
        struct lladd_replica *old = r;
        r = NULL; /* a close that fails releases it, too */
        int rc = lladd_replica_close(old, &b.err);
        if (rc)
            return rc;
    }
    return replica_try_open(&b, &o, &r);
}

static int step(int i)
{
    switch (i) {
    case 0:
        return send_upto(EVENTS / 3);
    case 1:
        return digest("rows");
    case 2:
        return send_upto(EVENTS / 2);
    case 3:
        return lladd_replica_apply(r, NULL, 0, NULL, &b.err);
    case 4:
        return open_again();
    case 5:
        return send_upto(EVENTS * 3 / 4);
    case 6:
        return digest("more");
    default:
        return send_upto(EVENTS);
    }
}

/* The replica has a prefix of the stream, unless one table is ahead of another. */
static void unchanged(int i)
{
    (void)i;
    if (r && lladd_replica_wait(r, 0, 0, &b.err) == 0)
        replica_expect(&b, &s, replica_info(&b, r).applied);
}

static void done(void)
{
    ok_db(&b, lladd_replica_apply(r, NULL, 0, NULL, &b.err));
    size_t end = source_find(&s, replica_from(r));
    if (end < EVENTS)
        replica_send(&b, r, &s, s.events[end].position, UINT64_MAX, 10);
    replica_expect(&b, &s, source_end(&s));
    for (unsigned i = 0; i < SOURCE_TABLES; i++)
        replica_digest(&b, source_tables[i]);
    replica_expect(&b, &s, source_end(&s));
    replica_done(&b, r);
}

static void crashed(int i)
{
    struct lladd_replica_options o = options();
    (void)i;
    fixture_crash(&b);
    r = replica_open(&b, &o);
    done();
}

static void all_done(uint64_t run)
{
    if (run % 8 == 0)
        crashed(0);
    else
        done();
}

static const struct fixture_steps steps = {STEPS, setup, step, unchanged, crashed, all_done};

START_TEST(every_allocation_fails_once)
{
    source_make(&s, 9, EVENTS, false);
    ck_assert_uint_gt(fixture_each_fails_once(&b, &steps, false), 40);
    source_free(&s);
}
END_TEST

START_TEST(every_read_fails_once)
{
    source_make(&s, 9, EVENTS, false);
    (void)fixture_each_fails_once(&b, &steps, true); /* few reads are not of cached pages */
    source_free(&s);
}
END_TEST

START_TEST(every_write_fails)
{
    source_make(&s, 9, EVENTS, false);
    ck_assert_uint_gt(fixture_each_write_fails(&b, &steps), 5);
    source_free(&s);
}
END_TEST

/* The open of a replica after a crash, with spilled transactions that are freed. */
START_TEST(every_allocation_of_an_open_fails_once)
{
    struct lladd_replica_options o = options();
    uint64_t fired = 1;
    unsigned failures = 0;
    source_make(&s, 9, EVENTS, false);
    setup();
    ck_assert_int_eq(send_upto(EVENTS), 0);
    ck_assert_uint_gt(replica_info(&b, r).spilled_bytes, 0);
    ok_db(&b, lladd_checkpoint(b.db, &b.err));
    fixture_crash(&b);
    for (uint64_t n = 1; fired; n++) {
        fault_alloc_fail(&b.mem, n, false);
        int rc = replica_try_open(&b, &o, &r);
        fired = fault_alloc_fired(&b.mem);
        fault_alloc_fail(&b.mem, 0, false);
        if (rc) {
            ck_assert_int_eq(rc, LLADD_NO_MEMORY);
            failures++;
        } else if (fired) { /* what failed was optional */
            fixture_close(&b);
            fixture_open(&b);
        }
    }
    ck_assert_uint_gt(failures, 10);
    done();
    source_free(&s);
}
END_TEST

/* The digest of the first close fails, and a table is busy. The close that releases the replica
 * still returns the error of the digest. */
START_TEST(a_busy_table_hides_no_failure)
{
    struct lladd_replica_options o = options();
    source_make(&s, 9, EVENTS, false);
    setup();
    ck_assert_int_eq(send_upto(EVENTS), 0);
    struct lladd_managed *t = managed_open(&b, "rows");
    struct lladd_txn *txn = fixture_begin(&b);
    free(managed_text(txn, t));
    managed_close(&b, t); /* the replica has it open */
    fault_alloc_fail(&b.mem, 1, true);
    ck_assert_int_eq(lladd_replica_close(r, &b.err), LLADD_BUSY);
    ck_assert_int_eq(b.err.code, LLADD_BUSY);
    fault_alloc_fail(&b.mem, 0, false);
    commit(txn);
    ck_assert_int_eq(lladd_replica_close(r, &b.err), LLADD_NO_MEMORY);
    ck_assert_int_eq(b.err.code, LLADD_NO_MEMORY);
    r = replica_open(&b, &o);
    done();
    source_free(&s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("failures");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, every_allocation_fails_once);
    tcase_add_test(tc, every_read_fails_once);
    tcase_add_test(tc, every_write_fails);
    tcase_add_test(tc, every_allocation_of_an_open_fails_once);
    tcase_add_test(tc, a_busy_table_hides_no_failure);
    suite_add_tcase(suite, tc);
    return fixture_run(suite);
}
