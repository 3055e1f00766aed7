/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lock manager with several threads that wait:
 * - the order in which locks are granted;
 * - the time limit;
 * - which cycles are found;
 * - the choice of the victim, and its error;
 * - the reports that say which transaction blocks which.
 * No thread sleeps: a test goes on when the statistics report a waiter.
 */
#include "op_fixture.h"

#include <lladd/lock.h>

#include <errno.h>
#include <stdio.h>

static struct fixture b;

static void setup(void)
{
    fixture_init_threads(&b);
    ok_db(&b, lladd_lock_register(&b.options, &b.err));
    fixture_open(&b);
}

static void teardown(void)
{
    fixture_free(&b);
}

#define NAME(i) LLADD_LOCK_NAME(lladd_lock_id(i))
#define ROW(t, r) LLADD_LOCK_NAME(lladd_lock_id(t), lladd_lock_id(r))

static const enum lladd_lock_mode IS = LLADD_LOCK_IS, IX = LLADD_LOCK_IX, S = LLADD_LOCK_S,
                                  U = LLADD_LOCK_U, X = LLADD_LOCK_X;

static void take(struct lladd_txn *txn, struct lladd_lock_name name, enum lladd_lock_mode mode)
{
    ok(txn, lladd_lock_acquire(txn, name, mode, LLADD_LOCK_TRY));
}

static struct lladd_txn *holder(struct lladd_lock_name name, enum lladd_lock_mode mode)
{
    struct lladd_txn *txn = fixture_begin(&b);
    take(txn, name, mode);
    return txn;
}

static struct lladd_lock_stats stats(void)
{
    struct lladd_lock_stats s = {.struct_size = sizeof s};
    ok_db(&b, lladd_lock_stats_get(b.db, &s, &b.err));
    return s;
}

/* ---- a waiter -------------------------------------------------------------------------------- */

struct waiter {
    struct lladd_thread thread;
    struct lladd_txn *txn;
    struct lladd_lock_part parts[2];
    size_t n;
    enum lladd_lock_mode mode;
    uint64_t timeout;
    uint32_t done; /* atomic */
    int rc;
};

static void *wait_for_it(void *arg)
{
    struct waiter *w = arg;
    struct lladd_lock_name name = {w->parts, w->n};
    w->rc = lladd_lock_acquire(w->txn, name, w->mode, w->timeout);
    lladd_atomic_store32(&w->done, 1);
    return NULL;
}

/* Starts a thread that requests the lock. Returns when `waiting` transactions wait, or immediately
 * if that is 0. */
static void start(struct waiter *w, struct lladd_txn *txn, struct lladd_lock_name name,
                  enum lladd_lock_mode mode, uint64_t timeout, uint64_t waiting)
{
    memset(w, 0, sizeof *w);
    w->txn = txn;
    memcpy(w->parts, name.parts, name.n * sizeof w->parts[0]);
    w->n = name.n;
    w->mode = mode;
    w->timeout = timeout;
    ck_assert_int_eq(lladd_thread_start(&w->thread, wait_for_it, w), 0);
    while (waiting && stats().waiting != waiting)
        lladd_yield();
}

static void start_new(struct waiter *w, struct lladd_lock_name name, enum lladd_lock_mode mode,
                      uint64_t waiting)
{
    start(w, fixture_begin(&b), name, mode, LLADD_LOCK_FOREVER, waiting);
}

static bool waits(struct waiter *w)
{
    return !lladd_atomic_load32(&w->done);
}

/* Waits until the request has ended, and returns its result. */
static int ended(struct waiter *w)
{
    lladd_thread_join(&w->thread);
    return w->rc;
}

static void got_it(struct waiter *w)
{
    ck_assert_msg(ended(w) == 0, "%s", lladd_txn_error(w->txn)->message);
}

/* ---- order ----------------------------------------------------------------------------------- */

START_TEST(readers_do_not_overtake_a_writer)
{
    struct waiter writer, reader;
    struct lladd_txn *one = holder(NAME(1), S), *two = fixture_begin(&b);
    start_new(&writer, NAME(1), X, 1);
    ck_assert_int_eq(lladd_lock_acquire(two, NAME(1), S, LLADD_LOCK_TRY), LLADD_BUSY);
    start_new(&reader, NAME(1), S, 2);
    commit(one);
    got_it(&writer);
    ck_assert(waits(&reader));
    commit(writer.txn);
    got_it(&reader);
    commit(reader.txn);
    commit(two);
}
END_TEST

/* A new request is granted at once if it is compatible with the holders and with all waiters. */
START_TEST(a_request_that_delays_no_waiter_need_not_wait)
{
    struct waiter ix;
    struct lladd_txn *one = holder(NAME(1), S);
    start_new(&ix, NAME(1), IX, 1);
    struct lladd_txn *is = holder(NAME(1), IS); /* compatible with S and with IX */
    commit(one);
    got_it(&ix);
    commit(is);
    commit(ix.txn);
}
END_TEST

/* Requests are granted in order, and adjacent ones with compatible modes together. */
START_TEST(first_come_first_served)
{
    enum { N = 12 };
    struct waiter w[N];
    struct lladd_txn *one = holder(NAME(1), X);
    for (unsigned i = 0; i < N; i++) /* X, S, S, X, S, S, ... */
        start_new(&w[i], NAME(1), i % 3 ? S : X, i + 1);
    commit(one);
    for (unsigned i = 0; i < N; i += 3) {
        got_it(&w[i]);
        ck_assert_uint_eq(stats().waiting, N - i - 1);
        commit(w[i].txn);
        got_it(&w[i + 1]);
        got_it(&w[i + 2]);
        ck_assert_uint_eq(stats().waiting, N - i - 3);
        commit(w[i + 1].txn);
        commit(w[i + 2].txn);
    }
    ck_assert_uint_eq(stats().names, 0);
}
END_TEST

START_TEST(an_upgrade_comes_before_new_requests)
{
    struct waiter stranger, upgrade;
    struct lladd_txn *one = holder(NAME(1), S), *two = holder(NAME(1), S);
    start_new(&stranger, NAME(1), X, 1);
    start(&upgrade, one, NAME(1), X, LLADD_LOCK_FOREVER, 2);
    commit(two);
    got_it(&upgrade);
    ck_assert(waits(&stranger));
    commit(one);
    got_it(&stranger);
    commit(stranger.txn);
}
END_TEST

/* An upgrade from U to X waits. A new S request would delay it, so the request waits too. */
START_TEST(no_readers_keep_an_upgrade_waiting)
{
    struct waiter upgrade, reader;
    struct lladd_txn *u = holder(NAME(1), U), *s = holder(NAME(1), S);
    start(&upgrade, u, NAME(1), X, LLADD_LOCK_FOREVER, 1);
    start_new(&reader, NAME(1), S, 2);
    commit(s);
    got_it(&upgrade);
    ck_assert(waits(&reader));
    commit(u);
    got_it(&reader);
    commit(reader.txn);
}
END_TEST

START_TEST(a_rollback_to_a_savepoint_wakes_waiters)
{
    struct waiter reader, writer;
    lladd_savepoint_id sp;
    struct lladd_txn *one = holder(NAME(1), S);
    ok(one, lladd_savepoint(one, &sp));
    take(one, NAME(1), X);
    take(one, NAME(2), X);
    start_new(&reader, NAME(1), S, 1);
    start_new(&writer, NAME(2), X, 2);
    ok(one, lladd_rollback_to(one, sp));
    got_it(&reader);
    got_it(&writer);
    commit(reader.txn);
    commit(writer.txn);
    commit(one);
}
END_TEST

/* ---- time ------------------------------------------------------------------------------------ */

START_TEST(a_wait_ends_after_its_time)
{
    struct lladd_lock_options o = LLADD_LOCK_OPTIONS_INIT;
    struct lladd_txn *one = holder(ROW(1, 1), X), *two = fixture_begin(&b);
    uint64_t before = lladd_now_ns(b.db);
    refuses(two, LLADD_TIMEOUT, lladd_lock_acquire(two, ROW(1, 1), S, 3000000));
    ck_assert_uint_ge(lladd_now_ns(b.db), before + 3000000);
    ck_assert_int_eq(lladd_lock_held(two, NAME(1)), LLADD_LOCK_NONE);
    const char *message = lladd_txn_error(two)->message;
    ck_assert_msg(strstr(message, "S on {1, 1}: in the way for ") == message, "%s", message);
    ck_assert_msg(strstr(message, " us is transaction #1 with X") != NULL, "%s", message);
    o.timeout_ns = 1000000;
    ok_db(&b, lladd_lock_configure(b.db, &o, &b.err));
    refuses(two, LLADD_TIMEOUT, lladd_lock_acquire(two, ROW(1, 1), S, LLADD_LOCK_WAIT));
    struct lladd_lock_stats s = stats();
    ck_assert_uint_eq(s.waiting, 0);
    ck_assert_uint_eq(s.timeouts, 2);
    ck_assert_uint_eq(s.waits, 2);
    ck_assert_uint_ge(s.wait_ns, 4000000);
    commit(one);
    commit(two);
}
END_TEST

/* Waits until this many transactions wait (true), or until a wait has timed out (false). */
static bool waits_in_time(uint64_t waiting, uint64_t timeouts)
{
    struct lladd_lock_stats s = stats();
    for (; s.waiting != waiting && s.timeouts == timeouts; s = stats())
        lladd_yield();
    return s.waiting == waiting;
}

/* A reader waits for a writer that waits. When the writer times out, the reader must get the lock
 * immediately. If the writer times out before the reader waits, the test tries again with twice the
 * time. */
START_TEST(a_timeout_wakes_later_requests)
{
    struct waiter writer, reader;
    struct lladd_txn *one = holder(NAME(1), S);
    bool both = false; /* true if the reader began to wait before the writer timed out */
    for (uint64_t timeout = 10000000; !both; timeout *= 2) {
        uint64_t timeouts = stats().timeouts;
        start(&writer, fixture_begin(&b), NAME(1), X, timeout, 0);
        (void)waits_in_time(1, timeouts);
        start_new(&reader, NAME(1), S, 0);
        both = waits_in_time(2, timeouts);
        ck_assert_int_eq(ended(&writer), LLADD_TIMEOUT);
        got_it(&reader);
        commit(reader.txn);
        abort_txn(writer.txn);
    }
    commit(one);
}
END_TEST

START_TEST(poison_ends_every_wait)
{
    struct waiter w;
    struct lladd_txn *one = holder(NAME(1), X), *other = fixture_begin(&b);
    lladd_pageno page;
    start_new(&w, NAME(1), X, 1);
    ok(other, lladd_page_alloc(other, &page));
    fault_device_fail(b.fd, 1, FAULT_ANY, EIO, true);
    ck_assert_int_eq(lladd_code_root(lladd_commit(other)), LLADD_ROOT_POISONED);
    ck_assert_int_eq(lladd_code_root(ended(&w)), LLADD_ROOT_POISONED);
    ck_assert_int_eq(lladd_code_root(lladd_lock_acquire(one, NAME(2), S, LLADD_LOCK_TRY)),
                     LLADD_ROOT_POISONED);
    fault_device_fail(b.fd, 0, 0, 0, false);
    lladd_db_kill(b.db);
    fixture_open(&b);
    ck_assert_uint_eq(stats().names, 0);
}
END_TEST

/* ---- deadlocks ------------------------------------------------------------------------------- */

struct cycle_seen {
    int deadlocks;
    char *text;
};

static int see_deadlock(void *ctx, const struct lladd_lock_event *e)
{
    struct cycle_seen *c = ctx;
    if (e->outcome != LLADD_DEADLOCK)
        return 0;
    c->deadlocks++;
    free(c->text);
    c->text = strdup(e->text);
    return 0;
}

static unsigned times(const char *text, const char *what)
{
    unsigned n = 0;
    for (; (text = strstr(text, what)) != NULL; text++)
        n++;
    return n;
}

/* Transaction i holds {i} and waits for {i + 1}; the last one closes the cycle. Transaction
 * `victim` is the youngest. */
static void cycle(unsigned n, unsigned victim)
{
    struct waiter *w = calloc(n, sizeof *w);
    struct lladd_txn **txn = calloc(n, sizeof(struct lladd_txn *));
    struct cycle_seen seen = {0, NULL};
    char begin[120];
    ck_assert(w && txn);
    for (unsigned i = 0; i < n; i++) { /* the victim begins last, so it is the youngest */
        unsigned k = (victim + 1 + i) % n;
        txn[k] = holder(NAME(k), X);
    }
    for (unsigned i = 0; i + 1 < n; i++)
        start(&w[i], txn[i], NAME(i + 1), X, LLADD_LOCK_FOREVER, i + 1);
    start(&w[n - 1], txn[n - 1], NAME(0), X, LLADD_LOCK_FOREVER, 0);
    ck_assert_int_eq(ended(&w[victim]), LLADD_DEADLOCK);
    (void)snprintf(begin, sizeof begin,
                   "deadlock of %u: #%llu waits for X on {%u}, blocked by #%llu with X", n,
                   (unsigned long long)lladd_lock_number(txn[victim]), (victim + 1) % n,
                   (unsigned long long)lladd_lock_number(txn[(victim + 1) % n]));
    ck_assert_msg(strncmp(lladd_txn_error(txn[victim])->message, begin, strlen(begin)) == 0, "%s",
                  lladd_txn_error(txn[victim])->message);
    ok_db(&b, lladd_lock_history(b.db, see_deadlock, &seen, &b.err));
    ck_assert_int_eq(seen.deadlocks, 1);
    ck_assert_uint_eq(times(seen.text, " waits for X on "), n);
    ck_assert_uint_eq(stats().waiting, n - 1);
    abort_txn(txn[victim]);
    for (unsigned i = 1; i < n; i++) { /* the transactions get their locks and end, one after the
                                        * other */
        unsigned k = (victim + n - i) % n;
        got_it(&w[k]);
        commit(txn[k]);
    }
    ck_assert_uint_eq(stats().names, 0);
    ck_assert_uint_eq(stats().deadlocks, 1);
    free(seen.text);
    free(w);
    free(txn);
}

START_TEST(cycles_of_two_and_three)
{
    static const unsigned of[] = {2, 2, 3, 3, 3}, victim[] = {0, 1, 0, 1, 2};
    cycle(of[_i], victim[_i]);
}
END_TEST

START_TEST(cycles_of_fifty)
{
    static const unsigned victim[] = {0, 23, 49};
    cycle(50, victim[_i]);
}
END_TEST

/* Two transactions have S locks and want X locks. The younger one is the victim, whether it asks
 * first or second. */
START_TEST(two_upgrades)
{
    struct waiter w[2];
    struct lladd_txn *txn[2];
    unsigned first = (unsigned)_i;
    for (unsigned i = 0; i < 2; i++)
        txn[i] = holder(ROW(1, 1), S);
    start(&w[first], txn[first], ROW(1, 1), X, LLADD_LOCK_FOREVER, 1);
    start(&w[!first], txn[!first], ROW(1, 1), X, LLADD_LOCK_FOREVER, 0);
    ck_assert_int_eq(ended(&w[1]), LLADD_DEADLOCK);
    ck_assert_msg(strstr(lladd_txn_error(txn[1])->message,
                         "#2 waits for X on {1, 1}, blocked by #1 with S; "
                         "#1 waits for X on {1, 1}, blocked by #2 with S"),
                  "%s", lladd_txn_error(txn[1])->message);
    ck_assert_int_eq(lladd_lock_held(txn[1], ROW(1, 1)), S);
    ck_assert(lladd_lock_held(txn[1], NAME(1)) != X);
    abort_txn(txn[1]);
    got_it(&w[0]);
    commit(txn[0]);
}
END_TEST

/* A cycle through queued requests: `three` waits for `two`, which has queued first; `two` waits for
 * `one`, and `one` waits for `three`. */
START_TEST(a_cycle_through_queued_requests)
{
    struct waiter two, three, one;
    struct lladd_txn *a = holder(NAME(1), S), *c = holder(NAME(2), X);
    start_new(&two, NAME(1), X, 1);
    start(&three, c, NAME(1), S, LLADD_LOCK_FOREVER, 2); /* compatible with the holder's S, but
                                                          * queued after `two` */
    start(&one, a, NAME(2), S, LLADD_LOCK_FOREVER, 0);
    ck_assert_int_eq(ended(&two), LLADD_DEADLOCK); /* the youngest */
    got_it(&three);
    commit(c);
    got_it(&one);
    commit(a);
    abort_txn(two.txn);
}
END_TEST

/* The victim rolls back to a savepoint, which ends the deadlock, and goes on. */
START_TEST(a_victim_can_go_back_to_a_savepoint)
{
    struct waiter w;
    lladd_savepoint_id sp;
    struct lladd_txn *one = holder(NAME(1), X), *two = holder(NAME(3), X);
    ok(two, lladd_savepoint(two, &sp));
    take(two, NAME(2), X);
    start(&w, one, NAME(2), X, LLADD_LOCK_FOREVER, 1);
    refuses(two, LLADD_DEADLOCK, lladd_lock_acquire(two, NAME(1), X, LLADD_LOCK_FOREVER));
    ok(two, lladd_rollback_to(two, sp));
    got_it(&w);
    commit(one);
    ok(two, lladd_lock_acquire(two, NAME(1), X, LLADD_LOCK_FOREVER));
    ck_assert_int_eq(lladd_lock_held(two, NAME(3)), X);
    commit(two);
}
END_TEST

/* If there is no memory for the description of the deadlock, a victim is chosen nevertheless. */
START_TEST(a_deadlock_without_memory)
{
    struct waiter w;
    struct lladd_txn *one = holder(NAME(1), X), *two = holder(NAME(2), X);
    start(&w, one, NAME(2), X, LLADD_LOCK_FOREVER, 1);
    take(two, NAME(3), S);
    ok(two, lladd_lock_release(two, NAME(3))); /* keeps memory for the next lock */
    fault_alloc_fail(&b.mem, 1, true);
    int rc = lladd_lock_acquire(two, NAME(1), X, LLADD_LOCK_FOREVER);
    fault_alloc_fail(&b.mem, 0, false);
    ck_assert_int_eq(rc, LLADD_DEADLOCK);
    ck_assert_msg(strstr(lladd_txn_error(two)->message, "no memory"), "%s",
                  lladd_txn_error(two)->message);
    abort_txn(two);
    got_it(&w);
    commit(one);
}
END_TEST

/* ---- blockers and waiters -------------------------------------------------------------------- */

struct seen {
    unsigned n, waiting;
    uint64_t numbers;
    struct lladd_lock_info last;
};

static int see(void *ctx, const struct lladd_lock_info *i)
{
    struct seen *s = ctx;
    s->n++;
    s->waiting += i->wanted != LLADD_LOCK_NONE;
    s->numbers += i->number;
    s->last = *i;
    return 0;
}

START_TEST(blockers_are_listed_during_a_wait)
{
    struct waiter writer, reader;
    struct seen s = {.n = 0};
    struct lladd_txn *one = holder(NAME(1), S), *two = holder(NAME(1), IS);
    start_new(&writer, NAME(1), X, 1);
    start_new(&reader, NAME(1), S, 2);
    ok_db(&b, lladd_lock_blockers(b.db, 3, see, &s, &b.err)); /* the two others block the writer */
    ck_assert_uint_eq(s.n, 2);
    ck_assert_uint_eq(s.numbers, 1 + 2);
    ck_assert_uint_eq(s.waiting, 0);
    s = (struct seen){.n = 0};
    ok_db(&b, lladd_lock_blockers(b.db, 4, see, &s, &b.err)); /* the writer blocks the reader */
    ck_assert_uint_eq(s.n, 1);
    ck_assert_uint_eq(s.last.number, 3);
    ck_assert_int_eq(s.last.wanted, X);
    ck_assert_int_eq(s.last.held, LLADD_LOCK_NONE);
    s = (struct seen){.n = 0};
    ok_db(&b, lladd_lock_blockers(b.db, 1, see, &s, &b.err));
    ck_assert_uint_eq(s.n, 0);
    ok_db(&b, lladd_lock_each(b.db, see, &s, &b.err));
    ck_assert_uint_eq(s.n, 4);
    ck_assert_uint_eq(s.waiting, 2);
    commit(one);
    commit(two);
    got_it(&writer);
    commit(writer.txn);
    got_it(&reader);
    commit(reader.txn);
}
END_TEST

struct history {
    unsigned n, granted;
    struct lladd_lock_event last;
    char name[32], text[300];
};

static int remember(void *ctx, const struct lladd_lock_event *e)
{
    struct history *h = ctx;
    h->n++;
    h->granted += e->outcome == 0;
    h->last = *e;
    (void)lladd_lock_name_text(e->name, h->name, sizeof h->name);
    (void)snprintf(h->text, sizeof h->text, "%s", e->text);
    return 0;
}

START_TEST(waits_are_remembered)
{
    struct lladd_lock_options o = LLADD_LOCK_OPTIONS_INIT;
    struct history h = {.n = 0};
    struct waiter w;
    struct lladd_txn *one = holder(NAME(1), S), *two = holder(NAME(1), S),
                     *late = fixture_begin(&b);
    start_new(&w, NAME(1), X, 1);
    commit(one);
    commit(two);
    got_it(&w);
    ok_db(&b, lladd_lock_history(b.db, remember, &h, &b.err));
    ck_assert_uint_eq(h.n, 1);
    ck_assert_int_eq(h.last.outcome, 0);
    ck_assert_uint_eq(h.last.number, 3);
    ck_assert_uint_eq(h.last.blockers, 2);
    ck_assert_int_eq(h.last.blocker_mode, S);
    ck_assert_int_eq(h.last.wanted, X);
    ck_assert_str_eq(h.name, "{1}");
    ck_assert_str_eq(h.text, "");
    for (unsigned i = 0; i < 100; i++)
        ck_assert_int_eq(lladd_lock_acquire(late, NAME(1), U, 1), LLADD_TIMEOUT);
    h.n = 0;
    ok_db(&b, lladd_lock_history(b.db, remember, &h, &b.err));
    ck_assert_uint_eq(h.n, 64);
    ck_assert_int_eq(h.last.outcome, LLADD_TIMEOUT);
    ck_assert_uint_eq(h.last.blocker, 3);
    ck_assert_str_eq(h.text, lladd_txn_error(late)->message);
    o.history = 200;
    ok_db(&b, lladd_lock_configure(b.db, &o, &b.err));
    for (unsigned i = 0; i < 200; i++)
        ck_assert_int_eq(lladd_lock_acquire(late, NAME(1), U, 1), LLADD_TIMEOUT);
    h.n = 0;
    ok_db(&b, lladd_lock_history(b.db, remember, &h, &b.err));
    ck_assert_uint_eq(h.n, 200);
    commit(w.txn);
    abort_txn(late);
}
END_TEST

/* ---- while undo runs ------------------------------------------------------------------------- */

/* What lladd_lock_acquire and lladd_lock_release have returned in the undo of the operation
 * `locking`. */
static struct {
    unsigned runs;
    int locked, unlocked;
    enum lladd_lock_mode held;
} undone;

static int locking_compensate(void *ctx, struct lladd_txn *txn, struct lladd_span undo)
{
    (void)ctx;
    (void)undo;
    undone.runs++;
    undone.locked = lladd_lock_acquire(txn, NAME(1), X, LLADD_LOCK_WAIT);
    undone.unlocked = lladd_lock_release(txn, NAME(2));
    undone.held = lladd_lock_held(txn, NAME(1));
    return 0;
}

static const struct lladd_op locking = {
    .struct_size = sizeof(struct lladd_op),
    .name = "test.locking",
    .version = 1,
    .record_max = 8,
    .undo_kind = LLADD_UNDO_LOGICAL,
    .compensate = locking_compensate,
    .undo_log_max = 256,
    .undo_pages_max = 1,
};

static void undo_has_run(unsigned runs)
{
    ck_assert_uint_eq(undone.runs, runs);
    ck_assert_int_eq(undone.locked, 0);
    ck_assert_int_eq(undone.unlocked, 0);
    ck_assert_int_eq(undone.held, LLADD_LOCK_NONE);
}

START_TEST(undo_acquires_and_releases_no_locks)
{
    lladd_op_id op;
    lladd_savepoint_id start;
    fixture_close(&b);
    ck_assert_int_eq(lladd_register_op(&b.options, &locking, &b.err), 0);
    fixture_open(&b);
    ck_assert_int_eq(lladd_op_lookup(b.db, locking.name, 1, &op), 0);
    struct lladd_txn *other = holder(NAME(1), X), *txn = fixture_begin(&b);
    memset(&undone, 0, sizeof undone);
    take(txn, NAME(2), S);
    ok(txn, lladd_savepoint(txn, &start));
    ok(txn, lladd_log_undo_only(txn, op, "x", 1));
    ok(txn, lladd_rollback_to(txn, start));
    undo_has_run(1);
    ck_assert_int_eq(lladd_lock_held(txn, NAME(2)), S);
    ok(txn, lladd_log_undo_only(txn, op, "x", 1));
    abort_txn(txn);
    undo_has_run(2);
    ck_assert_uint_eq(stats().waits, 0);
    txn = fixture_begin(&b);
    ok(txn, lladd_log_undo_only(txn, op, "x", 1));
    ok(other, lladd_log_undo_only(other, op, "x", 1));
    commit(other); /* makes the records of both transactions durable */
    fixture_crash(&b);
    undo_has_run(3);
    ck_assert_uint_eq(stats().holds, 0);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("locks: waiting");
    TCase *t = tcase_create("waiting");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, readers_do_not_overtake_a_writer);
    tcase_add_test(t, a_request_that_delays_no_waiter_need_not_wait);
    tcase_add_test(t, first_come_first_served);
    tcase_add_test(t, an_upgrade_comes_before_new_requests);
    tcase_add_test(t, no_readers_keep_an_upgrade_waiting);
    tcase_add_test(t, a_rollback_to_a_savepoint_wakes_waiters);
    tcase_add_test(t, a_wait_ends_after_its_time);
    tcase_add_test(t, a_timeout_wakes_later_requests);
    tcase_add_test(t, poison_ends_every_wait);
    tcase_add_loop_test(t, cycles_of_two_and_three, 0, 5);
    tcase_add_loop_test(t, cycles_of_fifty, 0, 3);
    tcase_add_loop_test(t, two_upgrades, 0, 2);
    tcase_add_test(t, a_cycle_through_queued_requests);
    tcase_add_test(t, a_victim_can_go_back_to_a_savepoint);
    tcase_add_test(t, a_deadlock_without_memory);
    tcase_add_test(t, blockers_are_listed_during_a_wait);
    tcase_add_test(t, waits_are_remembered);
    tcase_add_test(t, undo_acquires_and_releases_no_locks);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return fixture_run(suite());
}
