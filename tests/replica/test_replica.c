/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A replica and its source: interleaved and aborted master transactions, with and without the rows
 * before; large ones that are spilled; broken streams; a source that lacks events; rows that differ
 * from the source; what the source may forget; and what is stored.
 */
#include "replica_fixture.h"

#include <lladd/blob.h>
#include <lladd/log_read.h>
#include <stdio.h>

static struct fixture b;
static struct lladd_replica *r;
static struct source s;

static const enum lladd_replica_kind BEGIN = LLADD_REPLICA_BEGIN, COMMIT = LLADD_REPLICA_COMMIT,
                                     ABORT = LLADD_REPLICA_ABORT;

static struct lladd_replica_options plain(void)
{
    struct lladd_replica_options o = LLADD_REPLICA_OPTIONS_INIT;
    return o;
}

static void begin_with(const struct lladd_replica_options *o)
{
    replica_begin(&b);
    r = replica_open(&b, o);
}

static void take(struct lladd_replica_event e)
{
    replica_take(&b, r, e);
}

static void put(uint64_t position, uint64_t txn, const char *table, uint32_t key, const char *value)
{
    take(event_put(position, txn, table, key, value));
}

/* Asserts that the event is refused with this code, and that the message has both words. */
static void refused(struct lladd_replica_event e, int code, const char *word, const char *other)
{
    size_t done = 9;
    b.err = (struct lladd_error)LLADD_ERROR_INIT;
    ck_assert_int_eq(lladd_replica_apply(r, &e, 1, &done, &b.err), code);
    ck_assert_int_eq(b.err.code, code);
    ck_assert_uint_eq(done, 0);
    ck_assert_msg(strstr(b.err.message, word) && strstr(b.err.message, other), "\"%s\"",
                  b.err.message);
}

static void crash(const struct lladd_replica_options *o)
{
    fixture_crash(&b);
    r = replica_open(&b, o);
}

/* ---- the order of commits -------------------------------------------------------------------- */

/* _i: bits: with the rows before, which are checked; one event a call; small batches. */
START_TEST(the_tables_follow_the_commits)
{
    struct lladd_replica_options o = plain();
    o.flags = _i & 1 ? LLADD_REPLICA_CHECK : 0;
    o.batch = _i & 4 ? 1 : 0;
    source_make(&s, 1 + (uint64_t)_i, 400, _i & 1);
    begin_with(&o);
    uint64_t at = 1;
    for (size_t i = 0; i < s.n; i += 20) {
        replica_send(&b, r, &s, at, s.events[i].position, _i & 2 ? 1 : 100);
        at = s.events[i].position;
        replica_expect(&b, &s, at - 1);
        if (i % 60 == 0)
            replica_digest(&b, source_tables[i % 2]);
    }
    replica_send(&b, r, &s, at, UINT64_MAX, 100);
    replica_expect(&b, &s, source_end(&s));
    ck_assert_uint_eq(replica_from(r), source_end(&s) + 1);
    ck_assert_uint_gt(replica_info(&b, r).open, 0);
    replica_done(&b, r);
    source_free(&s);
}
END_TEST

START_TEST(a_transaction_shows_at_its_commit)
{
    begin_with(NULL);
    take(event_of(BEGIN, 1, 1));
    put(2, 1, "rows", 1, "a");
    take(event_of(BEGIN, 3, 2));
    put(4, 2, "rows", 2, "b");
    put(5, 2, "more", 2, "b");
    replica_table_has(&b, "rows", "");
    take(event_of(COMMIT, 6, 2));
    replica_table_has(&b, "rows", "2=b");
    replica_table_has(&b, "more", "2=b");
    put(7, 1, "rows", 2, "c");
    take(event_of(ABORT, 8, 1));
    replica_table_has(&b, "rows", "2=b");
    /* the number may be used again */
    take(event_of(BEGIN, 9, 2));
    struct lladd_replica_event e = event_of(LLADD_REPLICA_DELETE_RANGE, 10, 2);
    e.table = "rows";
    e.to = lladd_dtable_u32(3);
    take(e);
    put(11, 2, "rows", 1, "d");
    take(event_of(COMMIT, 12, 2));
    replica_table_has(&b, "rows", "1=d");
    struct lladd_replica_info i = replica_info(&b, r);
    ck_assert_uint_eq(i.transactions, 2);
    ck_assert_uint_eq(i.rows, 4);
    ck_assert_uint_eq(i.applied, 12);
    ck_assert_uint_eq(i.buffered_bytes, 0);
    replica_done(&b, r);
}
END_TEST

/* The second transaction is put first, for it commits first. */
START_TEST(the_later_commit_wins)
{
    begin_with(NULL);
    take(event_of(BEGIN, 1, 1));
    put(2, 1, "rows", 1, "first");
    take(event_of(BEGIN, 3, 2));
    put(4, 2, "rows", 1, "second");
    take(event_of(COMMIT, 5, 2));
    take(event_of(COMMIT, 6, 1));
    replica_table_has(&b, "rows", "1=first");
    replica_done(&b, r);
}
END_TEST

/* Each local transaction notes its position in the log. */
static unsigned count_notes(lladd_lsn from)
{
    struct lladd_log_cursor *c;
    struct lladd_log_entry e = {0};
    unsigned n = 0;
    int rc;
    ok_db(&b, lladd_log_open(b.db, from, "managed.position", &c, &b.err));
    while ((rc = lladd_log_next(c, &e, &b.err)) == 0)
        n++;
    ck_assert_int_eq(rc, LLADD_END);
    lladd_log_close(c);
    return n;
}

/* Several master transactions are one local transaction, as far as the options allow. */
START_TEST(a_local_transaction_has_whole_master_transactions)
{
    static const struct {
        uint32_t batch;
        uint64_t ns, bytes;
        unsigned local;
    } cases[] = {{0, 0, 0, 1}, {2, 0, 0, 1}, {1, 0, 0, 2}, {0, 1, 0, 2}, {0, 0, 50, 2}};
    struct lladd_replica_options o = plain();
    struct lladd_managed_position at;
    o.batch = cases[_i].batch;
    o.batch_ns = cases[_i].ns;
    o.buffer_bytes = cases[_i].bytes;
    begin_with(&o);
    ok_db(&b, lladd_checkpoint(b.db, &b.err));
    lladd_lsn before = lladd_durable_lsn(b.db);
    struct lladd_replica_event e[] = {
        event_of(BEGIN, 1, 1),  event_put(2, 1, "rows", 1, "a"), event_of(BEGIN, 3, 2),
        event_of(COMMIT, 4, 1), event_put(5, 2, "rows", 2, "b"), event_of(COMMIT, 6, 2),
        event_of(BEGIN, 7, 3)};
    size_t done;
    ok_db(&b, lladd_replica_apply(r, e, 7, &done, &b.err));
    struct lladd_managed *t = managed_open(&b, "rows");
    managed_expect(&b, t, "1=a 2=b");
    ok_db(&b, lladd_managed_digest(t, &b.err));
    ok_db(&b, lladd_managed_position_get(t, false, &at, &b.err));
    ck_assert_uint_eq(at.commit, 6);
    ck_assert_uint_eq(at.from, 7); /* nothing was open at position 6 */
    managed_close(&b, t);
    ok_db(&b, lladd_checkpoint(b.db, &b.err));
    ck_assert_uint_eq(count_notes(before), cases[_i].local);
    replica_done(&b, r);
}
END_TEST

/* ---- large transactions ---------------------------------------------------------------------- */

/* The events of two transactions take many times the buffer. */
static void send_large(uint64_t from, unsigned rows)
{
    char value[512];
    memset(value, 'v', sizeof value - 1);
    value[sizeof value - 1] = 0;
    take(event_of(BEGIN, from, 1));
    take(event_of(BEGIN, from + 1, 2));
    for (unsigned i = 0; i < rows; i++) {
        value[0] = (char)('a' + i % 26);
        put(from + 2 + 2 * i, 1, "rows", i, value);
        put(from + 3 + 2 * i, 2, "more", i, value);
    }
}

static void expect_large(const char *table, unsigned rows)
{
    struct lladd_managed *t = managed_open(&b, table);
    struct lladd_txn *txn = fixture_begin(&b);
    for (unsigned i = 0; i < rows; i++) {
        struct lladd_dtable_key key = lladd_dtable_u32(i);
        char value[600];
        size_t len;
        ok(txn, lladd_managed_get(txn, t, &key, value, sizeof value, &len));
        ck_assert_uint_eq(len, 511);
        ck_assert_int_eq(value[0], 'a' + (int)(i % 26));
    }
    commit(txn);
    managed_close(&b, t);
}

/* _i: 0: the blob is written in one piece at a time below a megabyte; 1: events are larger than the
 * buffer. */
START_TEST(large_transactions_wait_in_a_blob)
{
    enum { ROWS = 1200 };
    struct lladd_replica_options o = plain();
    o.buffer_bytes = _i ? 1 : 5000;
    begin_with(&o);
    send_large(1, ROWS);
    struct lladd_replica_info i = replica_info(&b, r);
    ck_assert_uint_gt(i.spilled_bytes, 1000000);
    ck_assert_uint_ge(i.buffered_bytes, i.spilled_bytes);
    replica_no_leaks(&b);
    take(event_of(COMMIT, 9000, 1));
    take(event_of(ABORT, 9001, 2));
    expect_large("rows", ROWS);
    replica_table_has(&b, "more", "");
    ck_assert_uint_eq(replica_info(&b, r).spilled_bytes, 0);
    ck_assert_uint_eq(replica_info(&b, r).buffered_bytes, 0);
    replica_done(&b, r);
}
END_TEST

static uint64_t pages_of_blobs(void)
{
    struct lladd_root_value v;
    uint64_t n = 0;
    for (unsigned slot = 1; slot < 4; slot++) {
        char name[40];
        snprintf(name, sizeof name, "replica:r:%u", slot);
        int rc = lladd_root_get(b.db, name, &v, &b.err);
        ck_assert(rc == 0 || rc == LLADD_NOT_FOUND);
        n += !rc;
    }
    return n;
}

/* After a crash the blobs are freed, and the source sends the events again. After a close, too. */
START_TEST(blobs_do_not_stay)
{
    struct lladd_replica_options o = plain();
    o.buffer_bytes = 5000;
    begin_with(&o);
    send_large(1, 50);
    ck_assert_uint_eq(pages_of_blobs(), 2);
    ok_db(&b, lladd_checkpoint(b.db, &b.err)); /* forces the log */
    fixture_crash(&b);
    ck_assert_uint_eq(pages_of_blobs(), 2);
    r = replica_open(&b, &o);
    ck_assert_uint_eq(pages_of_blobs(), 0);
    ck_assert_uint_eq(replica_from(r), 1);
    send_large(1, 50);
    replica_close(&b, r);
    ck_assert_uint_eq(pages_of_blobs(), 0);
    r = replica_open(&b, &o);
    send_large(1, 50);
    take(event_of(COMMIT, 9000, 2));
    expect_large("more", 50);
    replica_done(&b, r);
}
END_TEST

/* ---- broken streams -------------------------------------------------------------------------- */

START_TEST(a_broken_stream_is_refused)
{
    begin_with(NULL);
    take(event_of(BEGIN, 10, 1));
    put(11, 1, "rows", 1, "a");
    struct lladd_replica_event wrong_key = event_put(12, 1, "rows", 1, "a");
    wrong_key.key = lladd_dtable_u64(1);
    struct lladd_replica_event range = event_of(LLADD_REPLICA_DELETE_RANGE, 12, 1);
    range.table = "rows";
    range.key = lladd_dtable_u32(5);
    range.to = lladd_dtable_u32(4);
    refused(event_put(10, 1, "rows", 1, "b"), LLADD_BAD_RECORD, "position 10", "ascend");
    refused(event_of(BEGIN, 11, 2), LLADD_BAD_RECORD, "position 11", "ascend");
    put(11, 1, "rows", 1, "a"); /* changes may have the same position */
    refused(event_of(COMMIT, 3, 1), LLADD_BAD_RECORD, "position 3", "ascend");
    refused(event_of(COMMIT, 0, 1), LLADD_BAD_RECORD, "position 0", "no position");
    refused(event_of(LLADD_REPLICA_MARK, UINT64_MAX, 0), LLADD_BAD_RECORD, "position 1844", "last");
    refused(event_of(BEGIN, 12, 1), LLADD_BAD_RECORD, "position 12", "open already");
    refused(event_of(COMMIT, 12, 2), LLADD_BAD_RECORD, "position 12", "not open");
    refused(event_of(ABORT, 12, 2), LLADD_BAD_RECORD, "position 12", "not open");
    refused(event_put(12, 2, "rows", 1, "b"), LLADD_BAD_RECORD, "position 12", "not open");
    refused(event_put(12, 1, "nothing", 1, "b"), LLADD_BAD_RECORD, "position 12", "\"nothing\"");
    refused(wrong_key, LLADD_BAD_RECORD, "position 12", "type");
    refused(range, LLADD_BAD_RECORD, "position 12", "range");
    refused(event_of((enum lladd_replica_kind)99, 12, 1), LLADD_BAD_RECORD, "position 12", "kind");
    /* nothing of that has changed the stream */
    put(12, 1, "rows", 2, "b");
    take(event_of(COMMIT, 13, 1));
    refused(event_of(COMMIT, 14, 1), LLADD_BAD_RECORD, "position 14", "not open");
    replica_table_has(&b, "rows", "1=a 2=b");
    replica_done(&b, r);
}
END_TEST

/* What comes before the wrong event is taken and visible. */
START_TEST(events_before_a_wrong_one_are_applied)
{
    begin_with(NULL);
    struct lladd_replica_event e[] = {event_of(BEGIN, 1, 1), event_put(2, 1, "rows", 1, "a"),
                                      event_of(COMMIT, 3, 1), event_of(COMMIT, 4, 1),
                                      event_of(BEGIN, 5, 5)};
    size_t done = 0;
    ck_assert_int_eq(lladd_replica_apply(r, e, 5, &done, &b.err), LLADD_BAD_RECORD);
    ck_assert_uint_eq(done, 3);
    replica_table_has(&b, "rows", "1=a");
    ck_assert_uint_eq(replica_from(r), 4);
    replica_done(&b, r);
}
END_TEST

START_TEST(a_source_that_lacks_events_is_noticed)
{
    begin_with(NULL);
    refused(event_of(LLADD_REPLICA_MARK, 5, 2), LLADD_OUT_OF_RANGE, "position 1", "copy");
    take(event_of(LLADD_REPLICA_MARK, 5, 1));
    take(event_of(LLADD_REPLICA_MARK, 8, 6)); /* another connection, from where the first ended */
    refused(event_of(LLADD_REPLICA_MARK, 20, 10), LLADD_OUT_OF_RANGE, "position 9", "from 10");
    take(event_of(BEGIN, 9, 1));
    take(event_of(COMMIT, 10, 1));
    replica_close(&b, r);
    r = replica_open(&b, NULL);
    ck_assert_uint_eq(replica_from(r), 11);
    refused(event_of(LLADD_REPLICA_MARK, 20, 12), LLADD_OUT_OF_RANGE, "position 11", "from 12");
    take(event_of(LLADD_REPLICA_MARK, 10, 4)); /* before what is needed: skipped */
    ck_assert_uint_eq(replica_from(r), 11);
    replica_done(&b, r);
}
END_TEST

/* A stream that ends in the middle leaves nothing of its open transactions. */
START_TEST(an_unfinished_transaction_stays_invisible)
{
    begin_with(NULL);
    take(event_of(BEGIN, 1, 1));
    put(2, 1, "rows", 1, "a");
    replica_close(&b, r);
    replica_table_has(&b, "rows", "");
    r = replica_open(&b, NULL);
    ck_assert_uint_eq(replica_from(r), 1);
    replica_table_has(&b, "rows", "");
    replica_done(&b, r);
}
END_TEST

/* ---- rows that differ ------------------------------------------------------------------------ */

START_TEST(the_first_difference_is_reported)
{
    struct lladd_replica_options o = plain();
    o.flags = LLADD_REPLICA_CHECK;
    begin_with(&o);
    struct lladd_replica_event e = event_put(2, 1, "rows", 77, "new");
    e.before = lladd_dtable_tombstone();
    take(event_of(BEGIN, 1, 1));
    take(e);
    e.position = 3;
    e.before = lladd_dtable_value_of("new", 3); /* the transaction's own row */
    e.after = lladd_dtable_value_of("newer", 5);
    take(e);
    take(event_of(COMMIT, 4, 1));
    take(event_of(BEGIN, 5, 2));
    put(6, 2, "rows", 1, "a");
    e = event_of(LLADD_REPLICA_DELETE, 7, 2);
    e.table = "rows";
    e.key = lladd_dtable_u32(77);
    e.before = lladd_dtable_value_of("old", 3);
    take(e);
    e = event_of(COMMIT, 8, 2);
    size_t done;
    for (int i = 0; i < 2; i++) { /* the second call tries again */
        ck_assert_int_eq(lladd_replica_apply(r, &e, i ? 0 : 1, &done, &b.err), LLADD_DIVERGED);
        ck_assert_msg(strstr(b.err.message, "position 7") && strstr(b.err.message, "key 77") &&
                          strstr(b.err.message, "another value"),
                      "%s", b.err.message);
        replica_table_has(&b, "rows", "77=newer");
    }
    replica_close(&b, r);
    r = replica_open(&b, NULL); /* without the check the rows are put */
    ck_assert_uint_eq(replica_from(r), 5);
    take(event_of(BEGIN, 5, 2));
    e = event_of(LLADD_REPLICA_DELETE, 7, 2);
    e.table = "rows";
    e.key = lladd_dtable_u32(77);
    e.before = lladd_dtable_value_of("old", 3);
    take(e);
    take(event_of(COMMIT, 8, 2));
    replica_table_has(&b, "rows", "");
    replica_done(&b, r);
}
END_TEST

START_TEST(a_missing_row_and_one_too_many_are_differences)
{
    static const char *const words[] = {"key \"k\" has no row; the source had a row",
                                        "key 00ff has another value; the source had none",
                                        "key -2.5 has no row; the source had a row"};
    const struct lladd_dtable_key keys[] = {lladd_dtable_string("k"),
                                            lladd_dtable_bytes("\0\377", 2),
                                            lladd_dtable_double(-2.5)};
    struct lladd_replica_options o = plain();
    struct lladd_managed_options m = LLADD_MANAGED_OPTIONS_INIT;
    const char *const tables[] = {"other", NULL};
    size_t done;
    replica_begin(&b);
    m.type = keys[_i].type;
    m.flags = LLADD_MANAGED_UNLOGGED;
    managed_close(&b, managed_table(&b, "other", &m));
    o.flags = LLADD_REPLICA_CHECK;
    o.tables = tables;
    r = replica_open(&b, &o);
    struct lladd_replica_event e = event_put(2, 1, "other", 0, "v");
    e.key = keys[_i];
    if (_i == 1) {
        take(event_of(BEGIN, 1, 1));
        take(e);
        take(event_of(COMMIT, 3, 1));
    }
    take(event_of(BEGIN, 4, 1));
    e.position = 5;
    e.before = _i == 1 ? lladd_dtable_tombstone() : lladd_dtable_value_of("v", 1);
    take(e);
    e = event_of(COMMIT, 6, 1);
    ck_assert_int_eq(lladd_replica_apply(r, &e, 1, &done, &b.err), LLADD_DIVERGED);
    ck_assert_msg(strstr(b.err.message, words[_i]), "%s", b.err.message);
    replica_done(&b, r);
}
END_TEST

/* ---- what cannot be put ---------------------------------------------------------------------- */

/* Another transaction writes to a table. When it has ended, the next call goes on. */
START_TEST(a_commit_that_failed_is_tried_again)
{
    struct lladd_managed_options m = LLADD_MANAGED_OPTIONS_INIT;
    struct lladd_replica_options o = plain();
    const char *const tables[] = {"small", "rows", NULL};
    size_t done;
    replica_begin(&b);
    m.flags = LLADD_MANAGED_UNLOGGED;
    managed_close(&b, managed_table(&b, "small", &m));
    o.tables = tables;
    r = replica_open(&b, &o);
    struct lladd_managed *t = managed_open(&b, "small");
    struct lladd_txn *other = fixture_begin(&b);
    struct lladd_managed_position p = {1, 1};
    ok(other, lladd_managed_position_set(other, t, &p));
    take(event_of(BEGIN, 1, 1));
    put(2, 1, "rows", 1, "a");
    put(3, 1, "small", 1, "a");
    struct lladd_replica_event e = event_of(COMMIT, 4, 1);
    ck_assert_int_eq(lladd_replica_apply(r, &e, 1, &done, &b.err), LLADD_CONFLICT);
    ck_assert_uint_eq(done, 1); /* the event was taken */
    replica_table_has(&b, "rows", "");
    ck_assert_int_eq(lladd_replica_apply(r, NULL, 0, &done, &b.err), LLADD_CONFLICT);
    abort_txn(other);
    managed_close(&b, t);
    ok_db(&b, lladd_replica_apply(r, NULL, 0, &done, &b.err));
    replica_table_has(&b, "rows", "1=a");
    replica_table_has(&b, "small", "1=a");
    replica_done(&b, r);
}
END_TEST

/* A table refuses a value. When its configuration is another one, the next call goes on. */
START_TEST(a_refused_value_waits_for_another_configuration)
{
    struct lladd_managed_options m = LLADD_MANAGED_OPTIONS_INIT, any = LLADD_MANAGED_OPTIONS_INIT;
    struct lladd_replica_options o = plain();
    const char *const tables[] = {"small", NULL};
    size_t done;
    replica_begin(&b);
    m.flags = LLADD_MANAGED_UNLOGGED;
    m.config = "class(dt) fixed_dtable config [ \"value_size\" int 2 ]";
    managed_close(&b, managed_table(&b, "small", &m));
    o.tables = tables;
    r = replica_open(&b, &o);
    take(event_of(BEGIN, 1, 1));
    put(2, 1, "small", 1, "ab");
    put(3, 1, "small", 2, "abc");
    struct lladd_replica_event e = event_of(COMMIT, 4, 1);
    ck_assert_int_eq(lladd_replica_apply(r, &e, 1, &done, &b.err), LLADD_REJECTED);
    ck_assert_msg(strstr(b.err.message, "position 3") && strstr(b.err.message, "\"small\""), "%s",
                  b.err.message);
    replica_table_has(&b, "small", "");
    struct lladd_managed *t = managed_open(&b, "small");
    ok_db(&b, lladd_managed_alter(t, LLADD_MANAGED_CONFIG, &any, &b.err));
    managed_close(&b, t);
    ok_db(&b, lladd_replica_apply(r, NULL, 0, &done, &b.err));
    replica_table_has(&b, "small", "1=ab 2=abc");
    replica_done(&b, r);
}
END_TEST

/* ---- positions ------------------------------------------------------------------------------- */

static void commit_row(uint64_t position, const char *table, uint32_t key, const char *value)
{
    take(event_of(BEGIN, position, 1));
    put(position + 1, 1, table, key, value);
    take(event_of(COMMIT, position + 2, 1));
}

/* Makes the log durable. */
static void force(void)
{
    ok_db(&b, lladd_checkpoint(b.db, &b.err));
}

/* The source may forget what is in a run, when the log of the digest is durable. */
START_TEST(the_source_may_forget_what_is_durable)
{
    begin_with(NULL);
    commit_row(1, "rows", 1, "a");
    ck_assert_uint_eq(replica_durable(&b, r), 1);
    replica_digest(&b, "rows");
    ck_assert_uint_eq(replica_durable(&b, r), 1);
    force();
    ck_assert_uint_eq(replica_durable(&b, r), 1); /* the other table holds the position */
    ok_db(&b, lladd_replica_apply(r, NULL, 0, NULL, &b.err)); /* stores the state */
    ck_assert_uint_eq(replica_durable(&b, r), 1);
    ck_assert_uint_eq(replica_info(&b, r).restart, 4);
    force();
    ck_assert_uint_eq(replica_durable(&b, r), 4);
    take(event_of(BEGIN, 4, 9)); /* stays open */
    commit_row(5, "more", 1, "a");
    replica_digest(&b, "more");
    force();
    take(event_of(LLADD_REPLICA_MARK, 8, 0));
    force();
    ck_assert_uint_eq(replica_durable(&b, r), 4);
    take(event_of(ABORT, 9, 9));
    take(event_of(LLADD_REPLICA_MARK, 10, 0));
    ck_assert_uint_eq(replica_durable(&b, r), 4);
    force();
    ck_assert_uint_eq(replica_durable(&b, r), 11);
    crash(NULL);
    ck_assert_uint_eq(replica_from(r), 11);
    replica_table_has(&b, "rows", "1=a");
    replica_table_has(&b, "more", "1=a");
    replica_done(&b, r);
}
END_TEST

/* A program has copied the tables, and they are still open, with rows in memory. */
START_TEST(a_copy_is_followed_from_its_position)
{
    struct lladd_managed *tables[SOURCE_TABLES];
    replica_begin(&b);
    for (unsigned i = 0; i < SOURCE_TABLES; i++) {
        struct lladd_managed_position at = {5, 6};
        tables[i] = managed_open(&b, source_tables[i]);
        struct lladd_txn *txn = fixture_begin(&b);
        ok(txn, lladd_managed_position_set(txn, tables[i], &at));
        managed_put(txn, tables[i], 1, "copied");
        commit(txn);
    }
    r = replica_open(&b, NULL);
    ck_assert_uint_eq(replica_from(r), 6);
    commit_row(6, "rows", 2, "followed");
    for (unsigned i = 0; i < SOURCE_TABLES; i++)
        managed_close(&b, tables[i]);
    replica_table_has(&b, "rows", "1=copied 2=followed");
    replica_table_has(&b, "more", "1=copied");
    replica_close(&b, r);
    r = replica_open(&b, NULL);
    ck_assert_uint_eq(replica_from(r), 9);
    replica_table_has(&b, "rows", "1=copied 2=followed");
    replica_done(&b, r);
}
END_TEST

/* What comes before the restart position is not looked at. */
START_TEST(older_events_are_skipped)
{
    begin_with(NULL);
    commit_row(11, "rows", 1, "a");
    replica_close(&b, r);
    r = replica_open(&b, NULL);
    ck_assert_uint_eq(replica_from(r), 14);
    put(5, 1, "none", 1, "of a table that is not replicated");
    put(12, 1, "none", 1, "x");
    ck_assert_uint_eq(replica_from(r), 14);
    refused(event_put(11, 1, "none", 1, "x"), LLADD_BAD_RECORD, "position 11", "ascend");
    refused(event_put(14, 1, "none", 1, "x"), LLADD_BAD_RECORD, "position 14", "no table");
    commit_row(14, "rows", 2, "b");
    replica_table_has(&b, "rows", "1=a 2=b");
    replica_done(&b, r);
}
END_TEST

/* A table that got one row long ago does not hold the source's log (R4 of the design's review). */
START_TEST(a_quiet_table_holds_nothing_back)
{
    struct lladd_replica_options o = plain();
    struct lladd_managed_position at;
    o.lag_bytes = 800;
    begin_with(&o);
    commit_row(1, "more", 1, "once");
    for (uint32_t i = 1; i < 1000; i++)
        commit_row(10 * i, "rows", i % 7, "often");
    force();
    ck_assert_uint_gt(replica_durable(&b, r), 10 * 1000 - 1000);
    struct lladd_managed *t = managed_open(&b, "more");
    ok_db(&b, lladd_managed_position_get(t, true, &at, &b.err));
    ck_assert_uint_eq(at.commit, 3); /* its own position is that of its row */
    managed_close(&b, t);
    crash(&o);
    ck_assert_uint_gt(replica_from(r), 10 * 1000 - 1000);
    replica_table_has(&b, "more", "1=once");
    replica_done(&b, r);
}
END_TEST

/* ---- what is stored -------------------------------------------------------------------------- */

static void open_refused(const struct lladd_replica_options *o, int code, const char *word)
{
    struct lladd_replica *other = NULL;
    ck_assert_int_eq(replica_try_open(&b, o, &other), code);
    ck_assert_ptr_null(other);
    ck_assert_msg(strstr(b.err.message, word), "%s", b.err.message);
}

START_TEST(a_replica_keeps_its_tables_and_its_source)
{
    struct lladd_replica_options o = plain();
    const char *const one[] = {"rows", NULL}, *const turned[] = {"more", "rows", NULL},
                      *const foreign[] = {"rows", "none", NULL}, *const twice[] = {"rows", "rows",
                                                                                    NULL};
    struct lladd_managed_options m = LLADD_MANAGED_OPTIONS_INIT;
    replica_begin(&b);
    managed_close(&b, managed_table(&b, "logged", &m));
    const char *const logged[] = {"logged", NULL};
    o.tables = foreign;
    open_refused(&o, LLADD_NOT_FOUND, "none");
    o.tables = twice;
    open_refused(&o, LLADD_BAD_ARGUMENT, "twice");
    o.tables = logged;
    open_refused(&o, LLADD_BAD_STATE, "logged");
    o.tables = NULL;
    ck_assert_int_eq(lladd_replica_open(b.db, "r", NULL, &r, &b.err), LLADD_NOT_FOUND);
    o.source = "shop at 10.0.0.1";
    r = replica_open(&b, &o);
    open_refused(&o, LLADD_BUSY, "is open");
    ck_assert_str_eq(replica_info(&b, r).source, o.source);
    replica_close(&b, r);
    o.tables = one;
    open_refused(&o, LLADD_BAD_ARGUMENT, "2 tables");
    o.tables = foreign;
    open_refused(&o, LLADD_BAD_ARGUMENT, "none");
    o.tables = twice;
    open_refused(&o, LLADD_BAD_ARGUMENT, "twice");
    o.tables = turned;
    o.source = "another";
    open_refused(&o, LLADD_OTHER_DATABASE, "shop at");
    o.source = NULL;
    r = replica_open(&b, &o);
    replica_close(&b, r);
    ok_db(&b, lladd_replica_open(b.db, "r", NULL, &r, &b.err));
    struct lladd_replica_table tables[2];
    struct lladd_replica_info i = {.struct_size = sizeof i};
    ok_db(&b, lladd_replica_info_get(r, &i, tables, 2, &b.err));
    ck_assert_uint_eq(i.tables, 2);
    ck_assert_str_eq(tables[0].name, "rows");
    replica_close(&b, r);
    struct lladd_managed *t = managed_open(&b, "logged");
    managed_close(&b, t);
    replica_no_leaks(&b);
    fixture_free(&b);
}
END_TEST

START_TEST(names_are_checked)
{
    char name[LLADD_REPLICA_NAME_MAX + 2];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = 0;
    const char *const wrong[] = {"", "a:b", name, NULL};
    struct lladd_replica_options o = plain();
    o.tables = source_tables;
    begin_with(NULL);
    for (unsigned i = 0; i < 4; i++) {
        struct lladd_replica *other;
        ck_assert_int_eq(lladd_replica_open(b.db, wrong[i], &o, &other, &b.err),
                         LLADD_BAD_ARGUMENT);
    }
    replica_done(&b, r);
}
END_TEST

static int count_name(void *ctx, const char *name)
{
    ck_assert_str_eq(name, "r");
    ++*(unsigned *)ctx;
    return 0;
}

START_TEST(a_replica_can_be_removed)
{
    struct lladd_replica_options o = plain();
    unsigned n = 0;
    o.buffer_bytes = 5000;
    begin_with(&o);
    send_large(1, 50);
    force();
    struct lladd_txn *txn = fixture_begin(&b);
    refuses(txn, LLADD_BUSY, lladd_replica_destroy(txn, "r"));
    abort_txn(txn);
    fixture_crash(&b);
    ok_db(&b, lladd_replica_each(b.db, count_name, &n, &b.err));
    ck_assert_uint_eq(n, 1);
    txn = fixture_begin(&b);
    ok(txn, lladd_replica_destroy(txn, "r"));
    commit(txn);
    n = 0;
    ok_db(&b, lladd_replica_each(b.db, count_name, &n, &b.err));
    ck_assert_uint_eq(n, 0);
    txn = fixture_begin(&b);
    refuses(txn, LLADD_NOT_FOUND, lladd_replica_destroy(txn, "r"));
    abort_txn(txn);
    replica_no_leaks(&b);
    fixture_free(&b);
}
END_TEST

/* The stored state, byte by byte as docs/disk-format.md says; then damaged. */
START_TEST(the_state_is_as_described)
{
    static const unsigned char head[] = {1, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0,
                                         3, 0, 0, 0, 2, 0, 0, 0};
    static const char rest[] = "src\4rows\4more";
    unsigned char bytes[256];
    struct lladd_replica_options o = plain();
    struct lladd_root_value root;
    uint64_t len;
    o.source = "src";
    begin_with(&o);
    take(event_of(BEGIN, 4, 1));
    take(event_of(LLADD_REPLICA_MARK, 5, 0));
    replica_close(&b, r);
    ok_db(&b, lladd_root_get(b.db, "replica:r", &root, &b.err));
    ok_db(&b, lladd_blob_length(b.db, lladd_page_of(root.a), &len, &b.err));
    ck_assert_uint_eq(len, 4 + sizeof head + sizeof rest - 1);
    ok_db(&b, lladd_blob_read(b.db, lladd_page_of(root.a), 0, bytes, len, NULL, &b.err));
    ck_assert_uint_eq(lladd_get32(bytes), lladd_crc32c(0, bytes + 4, len - 4));
    ck_assert_mem_eq(bytes + 4, head, sizeof head);
    ck_assert_mem_eq(bytes + 4 + sizeof head, rest, sizeof rest - 1);
    for (size_t i = 0; i < len; i++) { /* each byte is changed, with and without a right checksum */
        for (int right = 0; right < 2; right++) {
            struct lladd_txn *txn = fixture_begin(&b);
            unsigned char old[4], was = bytes[i];
            memcpy(old, bytes, 4);
            bytes[i] ^= 0x80;
            if (right)
                lladd_put32(bytes, lladd_crc32c(0, bytes + 4, len - 4));
            ok(txn, lladd_blob_write(txn, lladd_page_of(root.a), 0, bytes, len));
            commit(txn);
            int rc = lladd_replica_open(b.db, "r", NULL, &r, &b.err);
            if (!rc) {
                ck_assert(right);
                replica_close(&b, r);
            } else {
                ck_assert(rc == LLADD_CORRUPT_RUN ||
                          (right && (rc == LLADD_NEWER_FORMAT || rc == LLADD_NOT_FOUND)));
            }
            bytes[i] = was;
            memcpy(bytes, old, 4);
        }
    }
    fixture_free(&b);
}
END_TEST

/* ---- misuse ---------------------------------------------------------------------------------- */

START_TEST(a_busy_table_keeps_the_replica_open)
{
    begin_with(NULL);
    commit_row(1, "rows", 1, "a");
    struct lladd_managed *t = managed_open(&b, "rows");
    struct lladd_txn *txn = fixture_begin(&b);
    managed_sees(txn, t, "1=a");
    managed_close(&b, t); /* the replica has it open */
    ck_assert_int_eq(lladd_replica_close(r, &b.err), LLADD_BUSY);
    uint64_t from;
    ck_assert_int_eq(lladd_replica_from(r, &from), LLADD_BAD_STATE);
    ck_assert_int_eq(lladd_replica_durable(r, &from, &b.err), LLADD_BAD_STATE);
    ck_assert_int_eq(lladd_replica_apply(r, NULL, 0, NULL, &b.err), LLADD_BAD_STATE);
    commit(txn);
    replica_done(&b, r);
}
END_TEST

START_TEST(it_must_be_registered)
{
    struct lladd_managed *t = managed_begin(&b, NULL);
    const struct lladd_replica_options o = {.struct_size = sizeof o, .tables = source_tables};
    ck_assert_int_eq(lladd_replica_open(b.db, "r", &o, &r, &b.err), LLADD_BAD_STATE);
    ck_assert_msg(strstr(b.err.message, "lladd_replica_register"), "%s", b.err.message);
    managed_done(&b, t);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("replica");
    TCase *tc = tcase_create("all");
    tcase_add_loop_test(tc, the_tables_follow_the_commits, 0, 8);
    tcase_add_test(tc, a_transaction_shows_at_its_commit);
    tcase_add_test(tc, the_later_commit_wins);
    tcase_add_loop_test(tc, a_local_transaction_has_whole_master_transactions, 0, 5);
    tcase_add_loop_test(tc, large_transactions_wait_in_a_blob, 0, 2);
    tcase_add_test(tc, blobs_do_not_stay);
    tcase_add_test(tc, a_broken_stream_is_refused);
    tcase_add_test(tc, events_before_a_wrong_one_are_applied);
    tcase_add_test(tc, a_source_that_lacks_events_is_noticed);
    tcase_add_test(tc, an_unfinished_transaction_stays_invisible);
    tcase_add_test(tc, the_first_difference_is_reported);
    tcase_add_loop_test(tc, a_missing_row_and_one_too_many_are_differences, 0, 3);
    tcase_add_test(tc, a_commit_that_failed_is_tried_again);
    tcase_add_test(tc, a_refused_value_waits_for_another_configuration);
    tcase_add_test(tc, the_source_may_forget_what_is_durable);
    tcase_add_test(tc, a_copy_is_followed_from_its_position);
    tcase_add_test(tc, older_events_are_skipped);
    tcase_add_test(tc, a_quiet_table_holds_nothing_back);
    tcase_add_test(tc, a_replica_keeps_its_tables_and_its_source);
    tcase_add_test(tc, names_are_checked);
    tcase_add_test(tc, a_replica_can_be_removed);
    tcase_add_test(tc, the_state_is_as_described);
    tcase_add_test(tc, a_busy_table_keeps_the_replica_open);
    tcase_add_test(tc, it_must_be_registered);
    suite_add_tcase(suite, tc);
    return fixture_run(suite);
}
