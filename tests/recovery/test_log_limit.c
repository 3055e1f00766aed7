/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The log at its limit (REC-3). Something keeps the whole log, users are refused, and the process
 * is killed. Recoveries crash again and again, at any device call, by a kill or a power failure.
 * With unchanged options, each open must succeed, and so must rollbacks, checkpoints, digests and
 * the close. When nothing keeps the log any more, the log must have room again.
 */
#include "db_fixture.h"
#include "support/fixtures.h"

#include <lladd/dtable_managed.h>
#include <lladd/journal.h>
#include <lladd/log_read.h>
#include <lladd/sync.h>
#include <stdio.h>
#include <string.h>

enum { LIMIT = 256 << 10, SEGMENT = 4 << 10, PAGES = 40, ENTRY = 1500 };

/* What prevents the truncation of the log. */
enum holder { NO_HOLDER, PIN, PREPARED, LONG, JOURNAL, MANAGED, HOLDERS };

static struct bench {
    struct fixture r;
    enum holder holder;
    lladd_pageno page[PAGES];
    uint64_t value[PAGES]; /* the committed value of cell 0 of each page */
    uint64_t rows;         /* number of committed rows in the managed table */
    struct lladd_txn *open; /* LONG: holds the log */
    uint64_t tag;
    struct lladd_managed *table;
    unsigned crashes;
} b;

static struct cell cell(unsigned i)
{
    return cell_of(b.page[i % PAGES], 0);
}

/* A cell that is never committed. */
static struct cell other(unsigned i)
{
    return cell_of(b.page[i % PAGES], 1 + i / PAGES % (CELLS - 1));
}

/* The `durable` callback of a participant that writes until it is refused, and its results. */
static struct {
    unsigned calls, changes;
    int refused;
    bool forbidden; /* the thread of the test holds a mutex that the callback takes, too */
} after;

static void write_on(void *ctx, void *state, struct lladd_db *db, lladd_lsn commit)
{
    (void)ctx;
    (void)state;
    (void)db;
    (void)commit;
    struct lladd_txn *txn = fixture_begin(&b.r);
    int rc = 0;
    after.calls++;
    for (unsigned i = 0; rc == 0 && i < 4000; i++) {
        rc = cell_put_wide(txn, other(i), 1, 500);
        after.changes += rc == 0;
    }
    after.refused = rc;
    done(lladd_abort(txn));
}

/* A participant that takes a mutex of its own in its callback, as if to change a structure. */
static struct lladd_mutex latch;

static void latch_in_callback(void *ctx, void *state, struct lladd_db *db, lladd_lsn commit)
{
    (void)ctx;
    (void)state;
    (void)db;
    (void)commit;
    ck_assert_msg(!after.forbidden, "called in a thread that holds the mutex");
    lladd_mutex_lock(&latch);
    after.calls++;
    lladd_mutex_unlock(&latch);
}

static const struct lladd_participant latches = {
    .struct_size = sizeof(struct lladd_participant),
    .name = "test.latches",
    .version = 1,
    .durable = latch_in_callback,
};

static const struct lladd_participant writes_on = {
    .struct_size = sizeof(struct lladd_participant),
    .name = "test.writes_on",
    .version = 1,
    .durable = write_on,
};

enum { TOLD_MOST = 40 };

static struct {
    unsigned calls, most; /* number of calls of the callback; it commits until call `most` */
} told;

/* Commits another transaction, for which the callback is called again, until call `most`. */
static void write_again(void *ctx, void *state, struct lladd_db *db, lladd_lsn commit)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_txn *txn;
    (void)state;
    (void)commit;
    if (++told.calls > told.most)
        return;
    ck_assert_int_eq(lladd_begin(db, NULL, &txn, &err), 0);
    if (told.calls < told.most)
        ok(txn, lladd_txn_join(txn, ctx, &b));
    ok(txn, cell_put(txn, cell(told.calls), 20 + told.calls));
    done(told.calls < told.most ? lladd_commit_async(txn, NULL) : lladd_commit(txn));
}

static struct lladd_participant writes_again = {
    .struct_size = sizeof(struct lladd_participant),
    .name = "test.again",
    .version = 1,
    .ctx = &writes_again,
    .durable = write_again,
};

/* Needs the catalogue of the journal or of managed tables. The catalogue is made once, under a
 * mutex. */
static void make_in_callback(void *ctx, void *state, struct lladd_db *db, lladd_lsn commit)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    uint64_t tag;
    (void)ctx;
    (void)state;
    (void)db;
    (void)commit;
    ck_assert_msg(!after.forbidden, "called in a thread that makes the catalogue");
    struct lladd_txn *txn = fixture_begin(&b.r);
    after.calls++;
    o.type = LLADD_DTABLE_U64;
    if (b.holder == MANAGED)
        ok(txn, lladd_managed_create(txn, "theirs", &o));
    else
        ok(txn, lladd_journal_acquire(txn, "theirs", "test", &tag));
    done(lladd_commit(txn));
}

static const struct lladd_participant makes = {
    .struct_size = sizeof(struct lladd_participant),
    .name = "test.makes",
    .version = 1,
    .durable = make_in_callback,
};

struct sizes {
    uint32_t page;
    uint64_t ring, cache, segment_max, limit;
    enum lladd_recovery recovery;
    uint64_t recovery_bytes;
};

static const struct sizes usual = {4096,  128 << 10,          1 << 20, 16 << 10,
                                   LIMIT, LLADD_RECOVER_FULL, 0};

static void begin_sized(unsigned kind, enum holder holder, uint32_t flags, const struct sizes *z)
{
    memset(&b, 0, sizeof b);
    memset(&after, 0, sizeof after);
    b.holder = holder;
    fixture_init(&b.r, kind);
    ok_db(&b.r, lladd_journal_register(&b.r.options, &b.r.err));
    ok_db(&b.r, lladd_managed_register(&b.r.options, &b.r.err));
    ok_db(&b.r, lladd_register_participant(&b.r.options, &writes_on, &b.r.err));
    ok_db(&b.r, lladd_register_participant(&b.r.options, &latches, &b.r.err));
    ok_db(&b.r, lladd_register_participant(&b.r.options, &writes_again, &b.r.err));
    ok_db(&b.r, lladd_register_participant(&b.r.options, &makes, &b.r.err));
    b.r.options.page_size = z->page;
    b.r.options.log_ring_bytes = z->ring;
    b.r.options.cache_bytes = z->cache;
    b.r.options.log_segment_min = SEGMENT;
    b.r.options.log_segment_max = z->segment_max;
    b.r.options.log_limit_bytes = z->limit;
    b.r.options.recovery = z->recovery;
    b.r.options.recovery_bytes = z->recovery_bytes;
    b.r.options.flags |= flags;
    fixture_open(&b.r);
    fixture_pages(&b.r, b.page, PAGES);
}

static void begin_with(enum holder holder, uint32_t flags, uint64_t limit)
{
    struct sizes z = usual;
    z.limit = limit;
    begin_sized(0, holder, flags, &z);
}

static void begin(enum holder holder, uint32_t flags)
{
    begin_with(holder, flags, LIMIT);
}

static void open_table(void)
{
    ok_db(&b.r, lladd_managed_open(b.r.db, "t", &b.table, &b.r.err));
}

static void close_table(void)
{
    if (b.table)
        ok_db(&b.r, lladd_managed_close(b.table, &b.r.err));
    b.table = NULL;
}

/* Puts a row. Returns 0, or the code of the refusal. */
static int put_row(struct lladd_txn *txn, uint64_t i)
{
    char text[200];
    memset(text, 'r', sizeof text);
    struct lladd_dtable_key key = lladd_dtable_u64(i);
    struct lladd_dtable_value value = lladd_dtable_value_of(text, sizeof text);
    return lladd_managed_put(txn, b.table, &key, &value);
}

static void hold(void)
{
    struct lladd_txn *txn;
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    switch (b.holder) {
    case PIN:
        ok_db(&b.r, lladd_pin_set(b.r.db, "p", lladd_durable_lsn(b.r.db), &b.r.err));
        break;
    case PREPARED:
        (void)fixture_prepared(&b.r, "g", cell_of(b.page[0], CELLS - 1), 1);
        break;
    case LONG:
        b.open = fixture_begin(&b.r);
        ok(b.open, cell_put(b.open, cell_of(b.page[0], CELLS - 1), 1));
        break;
    case JOURNAL:
        txn = fixture_begin(&b.r);
        ok(txn, lladd_journal_acquire(txn, "tag", "test", &b.tag));
        done(lladd_commit(txn));
        break;
    case MANAGED:
        txn = fixture_begin(&b.r);
        o.type = LLADD_DTABLE_U64;
        o.memory_bytes = 64 << 20; /* so that no digest is due before the log is full */
        ok(txn, lladd_managed_create(txn, "t", &o));
        done(lladd_commit(txn));
        open_table();
        break;
    default:
        break;
    }
}

/* Runs one transaction of a user, and counts it if it has committed. */
static int work(unsigned i)
{
    static char entry[ENTRY];
    struct lladd_txn *txn = fixture_begin(&b.r);
    int rc = cell_put_wide(txn, cell(i), b.value[i % PAGES] + 1, 200);
    if (!rc && b.holder == JOURNAL)
        rc = lladd_journal_append(txn, b.tag, lladd_span_of(entry, sizeof entry), NULL);
    if (!rc && b.holder == MANAGED)
        rc = put_row(txn, b.rows);
    if (!rc)
        rc = lladd_commit(txn);
    if (rc) {
        ck_assert_int_eq(rc, LLADD_LOG_FULL);
        done(lladd_abort(txn));
        return rc;
    }
    b.value[i % PAGES]++;
    b.rows += b.holder == MANAGED;
    return 0;
}

/* Users commit transactions, and three other transactions stay open and write, until a call is
 * refused. */
static void fill(unsigned seed)
{
    enum { OPEN = 3 };
    struct lladd_txn *open[OPEN];
    bool full = false;
    for (unsigned i = 0; i < OPEN; i++) {
        open[i] = fixture_begin(&b.r);
        ok(open[i], cell_bump(open[i], other(i), 1));
    }
    for (unsigned i = 0; i < 4000 && !full; i++) {
        unsigned who = (i * 7 + seed) % 5;
        int rc = who < OPEN ? cell_bump(open[who], other(i), 1) : work(i);
        ck_assert(rc == 0 || rc == LLADD_LOG_FULL);
        full = rc != 0;
        ck_assert_uint_le(fixture_stats(&b.r).log_disk_bytes, b.r.options.log_limit_bytes);
    }
    ck_assert(full); /* at least the open transactions keep the log */
}

static uint64_t draw(uint64_t *stream, uint64_t below)
{
    *stream = *stream * 6364136223846793005u + 1442695040888963407u;
    return (*stream >> 33) % below;
}

/* Draws a crash: the process dies, or the power fails and any part of the pending writes is lost.
 * Plans it for a random call of the recovery. */
static struct fault_crash plan_crash(uint64_t *stream, uint64_t most)
{
    struct fault_crash how = fault_kill;
    if (draw(stream, 3) == 0)
        how = (struct fault_crash){
            .mode = FAULT_SUBSET, .seed = draw(stream, 1u << 31), .torn = true};
    fault_device_crash_at(b.r.fd, 1 + draw(stream, most));
    return how;
}

/* Returns the number of calls so far at which a crash may come. */
static uint64_t calls(void)
{
    return fault_device_calls(b.r.fd, FAULT_WRITES | FAULT_OPEN | FAULT_LOCK);
}

/* Recoveries crash again and again, early and late. Each recovery goes on in another log segment,
 * and the records of the previous recovery in its own segment are lost. The last recovery
 * succeeds. */
static void recover(unsigned seed)
{
    enum { CRASHES = 40 };
    uint64_t stream = seed + 1, most = 1000; /* `most`: number of calls, at first a guess */
    unsigned within = 0;
    for (unsigned i = 0; i < CRASHES; i++) {
        struct fault_crash how = plan_crash(&stream, most);
        uint64_t before = calls();
        int rc = fixture_try_open(&b.r);
        bool crashed = fault_device_crashed(b.r.fd);
        ck_assert_msg(rc == 0 || crashed, "seed %u, crash %u: open: %s: %s", seed, b.crashes,
                      lladd_code_name(rc), b.r.err.message);
        ck_assert_int_ne(rc, LLADD_LOG_FULL);
        within += crashed;
        most = crashed ? most : calls() - before;
        b.crashes++;
        fault_device_crash_at(b.r.fd, 0);
        if (rc == 0)
            fixture_crash(&b.r, &how);
        else
            fault_device_power_cycle(b.r.fd, &how);
    }
    ck_assert_uint_ge(within, CRASHES / 2);
    fixture_open(&b.r);
}

static void expect(void)
{
    for (unsigned i = 0; i < PAGES; i++) {
        fixture_expect(&b.r, cell(i), b.value[i]);
        for (unsigned k = 1; k < 5; k++)
            fixture_expect(&b.r, cell_of(b.page[i], k), 0);
    }
}

/* Removes what keeps the log. */
static void let_go(void)
{
    struct lladd_txn *txn;
    switch (b.holder) {
    case PIN:
        ok_db(&b.r, lladd_pin_clear(b.r.db, "p", &b.r.err));
        break;
    case PREPARED:
        done(lladd_abort(fixture_claim(&b.r, "g")));
        break;
    case JOURNAL: {
        struct lladd_txn_options o = LLADD_TXN_OPTIONS_INIT;
        o.frees_log = true;
        txn = fixture_begin_with(&b.r, &o);
        ok(txn, lladd_journal_discard(txn, b.tag, lladd_lsn_of(0)));
        done(lladd_commit(txn));
        break;
    }
    case MANAGED:
        open_table();
        ok_db(&b.r, lladd_managed_digest(b.table, &b.r.err));
        break;
    default:
        break;
    }
}

static void check_rows(void)
{
    for (uint64_t i = 0; i < b.rows; i++) {
        char text[200];
        size_t len;
        struct lladd_txn *txn = fixture_begin(&b.r);
        struct lladd_dtable_key key = lladd_dtable_u64(i);
        ok(txn, lladd_managed_get(txn, b.table, &key, text, sizeof text, &len));
        ck_assert_uint_eq(len, sizeof text);
        done(lladd_abort(txn));
    }
}

static const struct sizes sizes[] = {
    {4096, 128 << 10, 1 << 20, 16 << 10, LIMIT, LLADD_RECOVER_FULL, 0},
    {4096, 128 << 10, 1 << 20, 16 << 10, LIMIT, LLADD_RECOVER_INSTANT, 0},
    {4096, 256 << 10, 64 << 10, 4 << 10, 2 * LIMIT, LLADD_RECOVER_FULL, 0},
    {4096, 128 << 10, 64 << 10, 4 << 10, LIMIT, LLADD_RECOVER_INSTANT, 64},
    {8192, 256 << 10, 1 << 20, 32 << 10, 2 * LIMIT, LLADD_RECOVER_FULL, 0},
    {8192, 128 << 10, 256 << 10, 16 << 10, 2 * LIMIT, LLADD_RECOVER_INSTANT, 1024},
    {16384, 256 << 10, 512 << 10, 64 << 10, 4 * LIMIT, LLADD_RECOVER_FULL, 0},
    {16384, 512 << 10, 1 << 20, 4 << 10, 4 * LIMIT, LLADD_RECOVER_INSTANT, 4096},
};
enum { SEEDS = sizeof sizes / sizeof *sizes };

static void at_the_limit(enum holder holder, uint32_t flags, unsigned seed)
{
    begin_sized(0, holder, flags, &sizes[seed]);
    hold();
    fill(seed);
    if (b.table) { /* the open transactions have not used the table */
        ck_assert_int_eq(seed % 3 == 0 ? lladd_managed_digest(b.table, &b.r.err) : 0, 0);
        b.table = NULL;
    }
    fixture_crash(&b.r, &fault_kill);
    for (unsigned round = 0; round < 3; round++) {
        recover(seed + round);
        expect();
        /* Each crash may have cost a small segment. */
        ck_assert_uint_le(fixture_stats(&b.r).log_disk_bytes,
                          b.r.options.log_limit_bytes + (b.crashes + round) * SEGMENT);
        if (round == 1) {
            ok_db(&b.r, lladd_checkpoint(b.r.db, &b.r.err));
            fixture_reopen(&b.r);
        }
        if (round < 2)
            fixture_crash(&b.r, &fault_kill);
    }
    let_go();
    ok_db(&b.r, lladd_checkpoint(b.r.db, &b.r.err));
    for (unsigned i = 0; i < 20; i++)
        ck_assert_int_eq(work(i), 0);
    check_rows();
    expect();
    close_table();
    fixture_maintain(&b.r);
    ck_assert_uint_le(fixture_stats(&b.r).log_disk_bytes, b.r.options.log_limit_bytes);
    fixture_free(&b.r);
}

START_TEST(a_full_log_recovers_crash_after_crash)
{
    at_the_limit((enum holder)(_i / SEEDS), 0, (unsigned)_i % SEEDS);
}
END_TEST

START_TEST(with_log_full_error_users_get_it_and_the_database_still_opens)
{
    at_the_limit((enum holder)(_i / SEEDS), LLADD_OPT_LOG_FULL_ERROR, (unsigned)_i % SEEDS);
}
END_TEST

/* Each user that is refused tries again and again, and the thread that takes checkpoints tries
 * again and again, too. */
enum { TRIES = 100, WRITERS = 4 };

static void *try_again(void *unused)
{
    char pinner[64];
    (void)unused;
    (void)snprintf(pinner, sizeof pinner, "held by transaction, transaction %llu",
                   (unsigned long long)lladd_txn_id(b.open).v);
    for (unsigned i = 0; i < TRIES; i++) {
        struct lladd_txn *txn = fixture_begin(&b.r);
        ck_assert_int_eq(cell_put_wide(txn, cell(i), 1, 2000), LLADD_LOG_FULL);
        ck_contains(lladd_txn_error(txn)->message, pinner);
        done(lladd_abort(txn));
        if (b.r.options.flags & LLADD_OPT_NO_THREADS)
            fixture_maintain(&b.r);
    }
    return NULL;
}

static void try_in_threads(void)
{
    struct lladd_thread writers[WRITERS] = {0};
    for (unsigned i = 0; i < WRITERS; i++)
        ck_assert_int_eq(lladd_thread_start(&writers[i], try_again, NULL), 0);
    for (unsigned i = 0; i < WRITERS; i++)
        lladd_thread_join(&writers[i]);
}

/* The attempts of refused users, and of the thread that takes checkpoints, log nothing. If _i is 1,
 * several threads write, and a background thread takes checkpoints. */
START_TEST(checkpoints_that_cannot_free_log_are_not_tried_again)
{
    begin_sized(_i ? FIXTURE_THREADS : 0, LONG, 0, &usual);
    hold();
    unsigned n = 0;
    while (work(n) == 0)
        ck_assert_uint_lt(n++, 4000);
    uint64_t before = fixture_stats(&b.r).checkpoints;
    if (_i)
        try_in_threads();
    else
        (void)try_again(NULL);
    /* One checkpoint may be in progress, and another one may have been requested meanwhile. */
    ck_assert_uint_le(fixture_stats(&b.r).checkpoints, before + (_i ? 2 : 0));
    /* A user's own checkpoints find nothing to write either. */
    ok_db(&b.r, lladd_checkpoint(b.r.db, &b.r.err));
    uint64_t tail = fixture_stats(&b.r).log_tail;
    for (unsigned i = 0; i < 100; i++)
        ok_db(&b.r, lladd_checkpoint(b.r.db, &b.r.err));
    ck_assert_uint_eq(fixture_stats(&b.r).log_tail, tail);
    done(lladd_abort(b.open));
    fixture_free(&b.r);
}
END_TEST

START_TEST(undo_that_fills_the_log_is_named)
{
    struct lladd_pinner who;
    struct lladd_txn *txn = NULL;
    int rc = 0;
    begin(NO_HOLDER, 0);
    for (unsigned i = 0; rc == 0 && i < 4000; i++) {
        txn = fixture_begin(&b.r);
        rc = cell_put(txn, other(i), 1);
    }
    ck_assert_int_eq(rc, LLADD_LOG_FULL);
    ck_contains(lladd_txn_error(txn)->message, "undo");
    ok_db(&b.r, lladd_log_pinner(b.r.db, &who, &b.r.err));
    ck_assert_str_eq(who.kind, "undo");
    ck_contains(who.name, "transactions");
    ck_assert_uint_ne(who.txn.v, 0);
    fixture_free(&b.r);
}
END_TEST

/* At the limit the log refuses a `durable` callback as it refuses users, although another commit is
 * queued and the callback of that commit might free log. The first callback must not wait for this,
 * because the second one runs in the same thread, after the first. */
START_TEST(a_callback_of_a_durable_commit_is_refused_at_the_limit)
{
    struct lladd_txn *first, *second, *holds;
    lladd_lsn lsn;
    begin(NO_HOLDER, 0);
    first = fixture_begin(&b.r);
    ok(first, lladd_txn_join(first, &writes_on, &b));
    ok(first, cell_put(first, cell(0), 1));
    second = fixture_begin(&b.r);
    ok(second, cell_put(second, cell(1), 1));
    holds = fixture_begin(&b.r);
    unsigned n = 0;
    while (cell_bump(holds, other(n), 1) == 0)
        ck_assert_uint_lt(n++, 4000);
    ck_assert_int_eq(lladd_txn_error(holds)->code, LLADD_LOG_FULL);
    done(lladd_commit_async(first, &lsn));
    done(lladd_commit_async(second, &lsn));
    ok_db(&b.r, lladd_wait_durable(b.r.db, lsn, &b.r.err));
    ck_assert_uint_eq(after.calls, 1);
    ck_assert_int_eq(after.refused, LLADD_LOG_FULL);
    done(lladd_abort(holds));
    fixture_expect(&b.r, cell(0), 1);
    fixture_expect(&b.r, cell(1), 1);
    fixture_reopen(&b.r);
    fixture_free(&b.r);
}
END_TEST

/* A commit with a `durable` callback is pending, and the callback takes a mutex. A thread that
 * holds this mutex writes at the limit; the callback must not run in it. If _i is 0, transactions
 * that have ended fill the log, and a checkpoint can truncate it. If _i is 1, an open transaction
 * keeps the log, and only the undo reserve of the pending commit can be released. */
START_TEST(a_writer_with_a_mutex_runs_no_callback_at_the_limit)
{
    struct lladd_txn *first, *txn = NULL;
    begin(_i ? LONG : NO_HOLDER, 0);
    hold();
    ck_assert_int_eq(lladd_mutex_init(&latch, LLADD_RANK_EXTENSION, "test"), 0);
    first = fixture_begin(&b.r);
    ok(first, lladd_txn_join(first, &latches, &b));
    ok(first, cell_put(first, cell(0), 1));
    done(lladd_commit_async(first, NULL));
    uint64_t before = fixture_stats(&b.r).checkpoints;
    int rc = 0;
    lladd_mutex_lock(&latch);
    after.forbidden = true;
    for (unsigned n = 0; rc == 0 && n < 4000 && fixture_stats(&b.r).checkpoints < before + 2; n++) {
        txn = txn ? txn : fixture_begin(&b.r);
        rc = cell_bump(txn, cell(n), 1);
        if (rc == 0 && n % 16 == 0 && _i == 0) {
            done(lladd_abort(txn));
            txn = NULL;
        }
    }
    ck_assert_int_eq(rc, _i ? LLADD_LOG_FULL : 0);
    ck_assert_uint_eq(after.calls, 0);
    after.forbidden = false;
    lladd_mutex_unlock(&latch);
    if (txn)
        done(lladd_abort(txn));
    ok_db(&b.r, lladd_checkpoint(b.r.db, &b.r.err));
    ck_assert_uint_eq(after.calls, 1);
    fixture_free(&b.r);
    lladd_mutex_destroy(&latch);
}
END_TEST

/* Writes at the limit until `checkpoints` more checkpoints were taken. The first one asks the
 * owners of tags to discard entries that keep the log. The next ones clean the journal: they wait
 * for durability, and commit. */
static void press(struct lladd_txn **txn, unsigned checkpoints)
{
    uint64_t before = fixture_stats(&b.r).checkpoints;
    for (unsigned n = 0; n < 40000 && fixture_stats(&b.r).checkpoints < before + checkpoints; n++) {
        *txn = *txn ? *txn : fixture_begin(&b.r);
        ok(*txn, cell_bump(*txn, other(n), 1));
        if (n % 16 == 0) {
            done(lladd_abort(*txn));
            *txn = NULL;
        }
    }
    ck_assert_uint_ge(fixture_stats(&b.r).checkpoints, before + checkpoints);
}

/* Leaves a commit that is not durable yet, and journal entries that keep the log. */
static void pend_and_hold(const struct lladd_participant *participant)
{
    begin(JOURNAL, 0);
    hold();
    for (unsigned i = 0; i < 10; i++)
        ck_assert_int_eq(work(i), 0);
    struct lladd_txn *first = fixture_begin(&b.r);
    ok(first, lladd_txn_join(first, participant, &b));
    ok(first, cell_put(first, cell(PAGES - 1), 1));
    done(lladd_commit_async(first, NULL));
}

START_TEST(a_class_that_commits_at_the_limit_runs_no_callback)
{
    struct lladd_txn *txn = NULL;
    ck_assert_int_eq(lladd_mutex_init(&latch, LLADD_RANK_EXTENSION, "test"), 0);
    pend_and_hold(&latches);
    lladd_mutex_lock(&latch);
    after.forbidden = true;
    press(&txn, 8);
    after.forbidden = false;
    lladd_mutex_unlock(&latch);
    ck_assert_uint_eq(after.calls, 0);
    if (txn)
        done(lladd_abort(txn));
    ok_db(&b.r, lladd_checkpoint(b.r.db, &b.r.err));
    ck_assert_uint_eq(after.calls, 1);
    fixture_free(&b.r);
    lladd_mutex_destroy(&latch);
}
END_TEST

/* At a checkpoint a class may write beyond the limit of the log. A `durable` callback may not, even
 * if it was the class that made the callback's commit durable. */
START_TEST(a_callback_of_a_commit_that_a_class_found_durable_is_refused_at_the_limit)
{
    struct lladd_txn *txn = NULL;
    pend_and_hold(&writes_on);
    press(&txn, 8);
    if (txn)
        done(lladd_abort(txn));
    ok_db(&b.r, lladd_checkpoint(b.r.db, &b.r.err));
    ck_assert_uint_eq(after.calls, 1);
    ck_assert_int_eq(after.refused, LLADD_LOG_FULL);
    ck_assert_uint_le(fixture_stats(&b.r).log_disk_bytes, LIMIT);
    fixture_free(&b.r);
}
END_TEST

/* A system transaction commits while the library holds a mutex. At this time much space is reserved
 * for a commit that has become durable. Any other commit would immediately release this space and
 * run the callback of the durable commit. */
START_TEST(a_system_commit_runs_no_callback)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    struct lladd_txn *first, *txn;
    lladd_lsn lsn;
    uint64_t tag;
    begin_with(_i ? MANAGED : JOURNAL, 0, 16 << 20);
    first = fixture_begin(&b.r);
    ok(first, lladd_txn_join(first, &makes, &b));
    for (unsigned i = 0; i < 900; i++)
        ok(first, cell_put_wide(first, cell(i), 1, 1000));
    done(lladd_commit_async(first, &lsn));
    ok_db(&b.r, lladd_log_force(b.r.db, lsn, &b.r.err));
    after.forbidden = true;
    txn = fixture_begin(&b.r);
    o.type = LLADD_DTABLE_U64;
    if (_i)
        ok(txn, lladd_managed_create(txn, "ours", &o));
    else
        ok(txn, lladd_journal_acquire(txn, "ours", "test", &tag));
    after.forbidden = false;
    ck_assert_uint_eq(after.calls, 0);
    done(lladd_commit(txn));
    ck_assert_uint_eq(after.calls, 1);
    fixture_free(&b.r);
}
END_TEST

/* While a checkpoint is about to end, the log grows beyond half of its limit. So another checkpoint
 * must follow, although no caller requests it. */
START_TEST(a_log_that_fills_during_a_checkpoint_gets_another_checkpoint)
{
    static const char end[] = "checkpoint.before_control";
    unsigned n = 0;
    memset(&b, 0, sizeof b);
    fixture_init(&b.r, FIXTURE_THREADS);
    b.r.options.log_segment_min = SEGMENT;
    b.r.options.log_segment_max = SEGMENT;
    b.r.options.log_limit_bytes = LIMIT;
    b.r.options.checkpoint_bytes = 1 << 30;
    fixture_open(&b.r);
    fixture_pages(&b.r, b.page, PAGES);
    uint64_t before = fixture_stats(&b.r).checkpoints;
    test_world_stop_at(&b.r.world, end);
    while (fixture_stats(&b.r).log_disk_bytes <= LIMIT / 2 + SEGMENT)
        ck_assert_int_eq(work(n++), 0);
    ck_assert(test_world_await(&b.r.world, end, 1));
    uint64_t tail = fixture_stats(&b.r).log_tail;
    while (fixture_stats(&b.r).log_tail < tail + 4 * SEGMENT)
        ck_assert_int_eq(work(n++), 0);
    test_world_release(&b.r.world, end);
    while (fixture_stats(&b.r).checkpoints < before + 2)
        lladd_yield();
    fixture_free(&b.r);
}
END_TEST

static void *write_to_the_limit(void *unused)
{
    (void)unused;
    unsigned n = 0;
    uint64_t first = fixture_stats(&b.r).log_tail;
    while (fixture_stats(&b.r).log_tail < first + 2 * LIMIT && work(n) == 0)
        n++;
    ck_assert_uint_ge(fixture_stats(&b.r).log_tail, first + 2 * LIMIT);
    return NULL;
}

/* A writer finds the log at its limit. Before it checks whether a checkpoint would free log,
 * another thread's checkpoint frees all that can be freed. The writer must go on, and not be
 * refused. */
START_TEST(a_checkpoint_of_another_thread_is_enough_for_a_writer_at_the_limit)
{
    static const char full[] = "log_limit.before_checkpoint";
    struct lladd_thread writer = {0};
    memset(&b, 0, sizeof b);
    fixture_init(&b.r, 0);
    b.r.options.log_segment_min = SEGMENT;
    b.r.options.log_segment_max = SEGMENT;
    b.r.options.log_limit_bytes = LIMIT;
    b.r.options.checkpoint_bytes = 1 << 30;
    fixture_open(&b.r);
    fixture_pages(&b.r, b.page, PAGES);
    test_world_stop_at(&b.r.world, full);
    ck_assert_int_eq(lladd_thread_start(&writer, write_to_the_limit, NULL), 0);
    ck_assert(test_world_await(&b.r.world, full, 1));
    ok_db(&b.r, lladd_checkpoint(b.r.db, &b.r.err));
    test_world_release(&b.r.world, full);
    lladd_thread_join(&writer);
    fixture_free(&b.r);
}
END_TEST

/* Nothing was logged since the last checkpoint, and the log begins in the segment before its last
 * one. So another checkpoint would free nothing. A transaction that does not fit must be refused,
 * and must not try one checkpoint after the other for ever. If _i is 1, a crash follows the
 * checkpoint. */
START_TEST(a_checkpoint_that_would_state_the_same_is_not_tried_for_ever)
{
    unsigned n = 0;
    begin(NO_HOLDER, 0);
    for (unsigned k = 0; k < 30; k++) {
        fixture_set(&b.r, cell(k), 7 + k);
        for (unsigned i = 0; i < 3 + k % 5; i++)
            ck_assert_int_eq(work(n++), 0);
        ok_db(&b.r, lladd_checkpoint(b.r.db, &b.r.err));
        if (_i) {
            fixture_crash(&b.r, &fault_kill);
            fixture_open(&b.r);
        }
        struct lladd_txn *txn = fixture_begin(&b.r);
        ck_assert_int_eq(lladd_log_credit(txn, b.r.ids.put, 100000), LLADD_LOG_FULL);
        done(lladd_abort(txn));
    }
    fixture_free(&b.r);
}
END_TEST

/* A callback makes commits while the database is being closed. They are kept, even if each commit
 * causes the next one. _i: bit 0, the power fails after the close; the other bits, the number of
 * commits. */
START_TEST(what_a_callback_commits_at_close_is_kept)
{
    static const unsigned most[] = {2, 5, TOLD_MOST};
    struct lladd_txn *first;
    memset(&told, 0, sizeof told);
    told.most = most[_i / 2];
    begin(NO_HOLDER, 0);
    for (unsigned i = 1; i <= told.most; i++)
        fixture_set(&b.r, cell(i), 1);
    first = fixture_begin(&b.r);
    ok(first, lladd_txn_join(first, &writes_again, &b));
    ok(first, cell_put(first, cell(0), 20));
    done(lladd_commit_async(first, NULL));
    ck_assert_int_eq(lladd_close(b.r.db), 0);
    b.r.db = NULL;
    unsigned calls = told.calls < told.most ? told.calls : told.most;
    told.most = 0;
    if (_i & 1)
        fault_device_power_cycle(b.r.fd, &fault_power);
    fixture_open(&b.r);
    for (unsigned i = 0; i <= calls; i++)
        fixture_expect(&b.r, cell(i), 20 + i);
    fixture_free(&b.r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("log limit");
    TCase *tc = tcase_create("all");
    tcase_add_loop_test(tc, a_full_log_recovers_crash_after_crash, 0, HOLDERS * SEEDS);
    tcase_add_loop_test(tc, with_log_full_error_users_get_it_and_the_database_still_opens, 0,
                        HOLDERS * SEEDS);
    tcase_add_loop_test(tc, checkpoints_that_cannot_free_log_are_not_tried_again, 0, 2);
    tcase_add_test(tc, undo_that_fills_the_log_is_named);
    suite_add_tcase(s, tc);
    tc = tcase_create("callbacks");
    tcase_add_test(tc, a_callback_of_a_durable_commit_is_refused_at_the_limit);
    tcase_add_loop_test(tc, a_writer_with_a_mutex_runs_no_callback_at_the_limit, 0, 2);
    tcase_add_test(tc, a_class_that_commits_at_the_limit_runs_no_callback);
    tcase_add_test(tc, a_callback_of_a_commit_that_a_class_found_durable_is_refused_at_the_limit);
    tcase_add_loop_test(tc, a_system_commit_runs_no_callback, 0, 2);
    tcase_add_test(tc, a_log_that_fills_during_a_checkpoint_gets_another_checkpoint);
    tcase_add_test(tc, a_checkpoint_of_another_thread_is_enough_for_a_writer_at_the_limit);
    tcase_add_loop_test(tc, a_checkpoint_that_would_state_the_same_is_not_tried_for_ever, 0, 2);
    tcase_add_loop_test(tc, what_a_callback_commits_at_close_is_kept, 0, 6);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
