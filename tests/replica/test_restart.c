/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A replica is crashed, or closed, after every event of a stream, with digests and forced logs
 * before it. Then each table has exactly the rows of the source up to its own position, and the
 * replica asks for nothing that it has let the source forget. The source sends what it is asked
 * for, sometimes through a second crash, and the replica has all rows.
 */
#include "replica_fixture.h"

#include <lladd/bytes.h>

static struct fixture b;
static struct lladd_replica *r;
static struct source s;

enum { EVENTS = 160 };

/* What is done besides the events; it depends on the number of the run and of the event. */
static void beside(uint64_t *rng)
{
    switch (seeded_next(rng) % 12) {
    case 0:
    case 1:
        replica_digest(&b, source_tables[seeded_next(rng) % SOURCE_TABLES]);
        break;
    case 2:
        ok_db(&b, lladd_checkpoint(b.db, &b.err));
        break;
    case 3:
        ok_db(&b, lladd_replica_apply(r, NULL, 0, NULL, &b.err)); /* stores the state */
        break;
    default:
        break;
    }
}

/* Sends the events from the position on that the replica asks for, up to event `end`. *durable gets
 * the newest position that the source may forget. */
static void send_upto(size_t end, uint64_t *rng, uint64_t *durable)
{
    while (source_find(&s, replica_from(r)) < end) {
        size_t i = source_find(&s, replica_from(r)), n = 1 + seeded_next(rng) % 4, done;
        n = n < end - i ? n : end - i;
        ok_db(&b, lladd_replica_apply(r, s.events + i, n, &done, &b.err));
        ck_assert_uint_eq(done, n);
        uint64_t now = replica_durable(&b, r);
        ck_assert_uint_ge(now, *durable);
        ck_assert_uint_le(now, replica_from(r));
        *durable = now;
        beside(rng);
    }
    if (seeded_next(rng) % 2)
        *durable = replica_durable(&b, r); /* the last digests, too */
}

static void expect_own_positions(void)
{
    for (unsigned i = 0; i < SOURCE_TABLES; i++) {
        struct lladd_managed *t = managed_open(&b, source_tables[i]);
        struct lladd_managed_position at;
        ok_db(&b, lladd_managed_position_get(t, false, &at, &b.err));
        char *rows = source_rows(&s, source_tables[i], at.commit);
        managed_expect(&b, t, rows);
        free(rows);
        managed_close(&b, t);
    }
}

/* The smallest BEGIN of those transactions that are open after `end` events; or the next event. */
static uint64_t oldest_open(size_t end)
{
    for (size_t i = 0; i < end; i++) {
        size_t k = i + 1;
        if (s.events[i].kind != LLADD_REPLICA_BEGIN)
            continue;
        while (k < end && (s.events[k].txn != s.events[i].txn || s.events[k].table))
            k++;
        if (k == end)
            return s.events[i].position;
    }
    return end ? s.events[end - 1].position + 1 : 1;
}

static struct lladd_replica_options options_for(uint64_t *rng)
{
    struct lladd_replica_options o = LLADD_REPLICA_OPTIONS_INIT;
    o.batch = (uint32_t)(seeded_next(rng) % 3);
    o.lag_bytes = seeded_next(rng) % 2 ? 60 : 0;
    o.buffer_bytes = seeded_next(rng) % 2 ? 300 : 0;
    o.flags = seeded_next(rng) % 2 ? LLADD_REPLICA_CHECK : 0;
    return o;
}

static void one_run(size_t end, bool crash, uint64_t seed)
{
    uint64_t rng = seed, durable = 0;
    struct lladd_replica_options o = options_for(&rng);
    replica_begin(&b);
    r = replica_open(&b, &o);
    for (int round = 0; round < 2; round++) {
        size_t upto = round ? end + (s.n - end) / 2 : end;
        send_upto(upto, &rng, &durable);
        replica_expect(&b, &s, upto ? s.events[upto - 1].position : 0);
        if (crash)
            fixture_crash(&b);
        else
            replica_close(&b, r);
        expect_own_positions();
        o = options_for(&rng);
        r = replica_open(&b, &o);
        ck_assert_uint_ge(replica_from(r), durable);
        ck_assert_uint_le(replica_from(r), oldest_open(upto));
        if (!crash) {
            ck_assert_uint_eq(replica_from(r), oldest_open(upto));
            replica_expect(&b, &s, upto ? s.events[upto - 1].position : 0);
        }
        if (lladd_replica_wait(r, 0, 0, &b.err) == 0)
            replica_expect(&b, &s, replica_info(&b, r).applied);
    }
    send_upto(s.n, &rng, &durable);
    ok_db(&b, lladd_replica_wait(r, source_end(&s), 0, &b.err));
    replica_expect(&b, &s, source_end(&s));
    replica_done(&b, r);
}

/* _i: bit 0: close, not crash; the other bits: the seed. */
START_TEST(after_every_event)
{
    source_make(&s, 77 + (uint64_t)_i, EVENTS, true);
    for (size_t end = 0; end < EVENTS; end++)
        one_run(end, !(_i & 1), (uint64_t)_i * 1000 + end);
    source_free(&s);
}
END_TEST

/* The source sends everything again from its beginning: older events are skipped. */
START_TEST(a_source_may_send_too_much)
{
    struct lladd_replica_options o = LLADD_REPLICA_OPTIONS_INIT;
    uint64_t rng = 5, durable = 0;
    source_make(&s, 3, EVENTS, true);
    replica_begin(&b);
    for (size_t end = 20; end < EVENTS; end += 20) {
        r = replica_open(&b, &o);
        replica_send(&b, r, &s, 1, s.events[end].position, 7);
        replica_expect(&b, &s, s.events[end - 1].position);
        send_upto(end, &rng, &durable);
        replica_digest(&b, "rows");
        fixture_crash(&b);
    }
    r = replica_open(&b, &o);
    replica_send(&b, r, &s, 1, UINT64_MAX, 7);
    replica_expect(&b, &s, source_end(&s));
    replica_done(&b, r);
    source_free(&s);
}
END_TEST

/* A program has the tables open, so neither the close nor the next open loads them. What the close
 * has stored, and what the replica lets the source forget, outlives a crash. _i: the crash comes
 * after another open. */
START_TEST(a_closed_replica_is_durable)
{
    uint64_t durable = 4;
    replica_begin(&b);
    for (unsigned i = 0; i < SOURCE_TABLES; i++)
        (void)managed_open(&b, source_tables[i]); /* until the crash */
    r = replica_open(&b, NULL);
    replica_take(&b, r, event_of(LLADD_REPLICA_BEGIN, 1, 1));
    replica_take(&b, r, event_put(2, 1, "rows", 1, "a"));
    replica_take(&b, r, event_of(LLADD_REPLICA_COMMIT, 3, 1));
    replica_digest(&b, "rows");
    ok_db(&b, lladd_replica_apply(r, NULL, 0, NULL, &b.err)); /* stores the state */
    replica_close(&b, r);
    if (_i) {
        r = replica_open(&b, NULL);
        durable = replica_durable(&b, r);
        ck_assert_uint_eq(durable, 4);
    }
    fixture_crash(&b);
    r = replica_open(&b, NULL);
    ck_assert_uint_ge(replica_from(r), durable);
    replica_table_has(&b, "rows", "1=a");
    replica_done(&b, r);
}
END_TEST

/* A table gets its first row long after the state was stored. The stored position counts for the
 * table (REP-2), so the table is not digested at once. */
START_TEST(a_late_row_is_not_digested_at_once)
{
    struct lladd_replica_options o = LLADD_REPLICA_OPTIONS_INIT;
    o.lag_bytes = 100;
    replica_begin(&b);
    r = replica_open(&b, &o);
    replica_take(&b, r, event_of(LLADD_REPLICA_MARK, 1000, 0)); /* stores the state */
    replica_take(&b, r, event_of(LLADD_REPLICA_BEGIN, 1001, 1));
    replica_take(&b, r, event_put(1002, 1, "more", 1, "a"));
    replica_take(&b, r, event_of(LLADD_REPLICA_COMMIT, 1003, 1));
    replica_take(&b, r, event_of(LLADD_REPLICA_MARK, 1050, 0));
    struct lladd_managed *t = managed_open(&b, "more");
    ck_assert_uint_eq(managed_stats(&b, t).digests, 0);
    replica_take(&b, r, event_of(LLADD_REPLICA_MARK, 1200, 0));
    ck_assert_uint_eq(managed_stats(&b, t).digests, 1);
    managed_close(&b, t);
    replica_done(&b, r);
}
END_TEST

/* What an open could not read again is not stored. */
START_TEST(too_many_tables_are_refused)
{
    enum { TABLES = 6000, LENGTH = LLADD_MANAGED_NAME_MAX };
    static char names[TABLES][LENGTH + 1];
    static const char *tables[TABLES + 1];
    struct lladd_replica_options o = LLADD_REPLICA_OPTIONS_INIT;
    replica_begin(&b);
    for (unsigned i = 0; i < TABLES; i++) {
        memset(names[i], 'n', LENGTH);
        lladd_put32((unsigned char *)names[i], 0x01010101u + i % 200 + (i / 200 << 8));
        tables[i] = names[i];
    }
    o.tables = tables;
    ck_assert_int_eq(replica_try_open(&b, &o, &r), LLADD_BAD_ARGUMENT);
    ck_assert_msg(strstr(b.err.message, "6000 tables"), "%s", b.err.message);
    fixture_free(&b);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("restart");
    TCase *tc = tcase_create("all");
    tcase_add_loop_test(tc, after_every_event, 0, 4);
    tcase_add_test(tc, a_source_may_send_too_much);
    tcase_add_test(tc, a_late_row_is_not_digested_at_once);
    tcase_add_test(tc, too_many_tables_are_refused);
    tcase_add_loop_test(tc, a_closed_replica_is_durable, 0, 2);
    suite_add_tcase(suite, tc);
    return fixture_run(suite);
}
