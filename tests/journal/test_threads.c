/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The journal and threads. 2 and 8 threads append to shared tags and to their own, roll back to
 * savepoints, abort, discard, clean and replay, while checkpoints are taken in the background. An
 * owner that is attached to a tag gets the commits in order, and counts as many entries as a replay
 * returns. A follower reads the shared tags meanwhile and moves its pin. Runs under TSan.
 */
#include "journal_fixture.h"

#include <errno.h>
#include <lladd/log_read.h>
#include <lladd/sync.h>
#include <stdio.h>

enum { MOST = 8, SHARED = 2 };

#ifdef LL_TEST_SHORT
enum { ROUNDS = 150 };
#else
enum { ROUNDS = 600 };
#endif

static struct fixture b;
static uint64_t shared[SHARED], own[MOST];

struct worker {
    struct lladd_thread thread;
    unsigned number;
    uint64_t seed;
};
static struct worker workers[MOST];

/* The owner of the first shared tag. The owner only counts entries. One thread at a time calls
 * `logged`. */
static struct {
    uint64_t last, entries, atomic_aborted;
} follower;

static uint64_t draw(struct worker *w, uint64_t below)
{
    w->seed ^= w->seed << 13;
    w->seed ^= w->seed >> 7;
    w->seed ^= w->seed << 17;
    return w->seed % below;
}

static void logged(void *ctx, void *state, uint64_t tag, lladd_lsn commit)
{
    (void)ctx;
    sure(tag == shared[0], "the tag");
    sure(commit.v > follower.last, "commits in order");
    follower.last = commit.v;
    follower.entries += (uint64_t)(uintptr_t)state;
}

static void aborted(void *ctx, void *state, uint64_t tag)
{
    (void)ctx;
    (void)state;
    (void)tag;
    lladd_atomic_add64(&follower.atomic_aborted, 1);
}

static void digest(void *ctx, uint64_t tag, lladd_lsn upto)
{
    (void)ctx;
    (void)tag;
    (void)upto;
}

static const struct lladd_journal_owner calls = {
    .struct_size = sizeof calls, .logged = logged, .aborted = aborted, .digest = digest};

/* ---- what a thread does ---------------------------------------------------------------------- */

struct order {
    uint64_t last, entries;
};

static int in_order(void *ctx, const struct lladd_journal_entry *e, struct lladd_error *err)
{
    struct order *o = ctx;
    (void)err;
    sure(e->commit.v >= o->last, "replayed in order");
    sure(e->bytes.len == 16, "an entry's length");
    o->last = e->commit.v;
    o->entries++;
    return 0;
}

static void put(struct worker *w, struct lladd_txn *txn, uint64_t tag)
{
    uint64_t bytes[2] = {w->number, ~(uint64_t)w->number};
    sure(lladd_journal_append(txn, tag, lladd_span_of(bytes, sizeof bytes), NULL) == 0, "append");
}

static void shelve(struct worker *w)
{
    struct lladd_txn *txn = NULL;
    lladd_savepoint_id sp;
    void **state;
    uint64_t n = draw(w, 4);
    sure(lladd_begin(b.db, NULL, &txn, NULL) == 0, "begin");
    sure(lladd_journal_state(txn, shared[0], &state) == 0, "state");
    for (uint64_t i = 0; i < n; i++)
        put(w, txn, shared[0]);
    put(w, txn, own[w->number]);
    sure(lladd_savepoint(txn, &sp) == 0, "savepoint");
    put(w, txn, shared[1]);
    put(w, txn, own[w->number]);
    if (draw(w, 2))
        sure(lladd_rollback_to(txn, sp) == 0, "rollback");
    *state = (void *)(uintptr_t)n; /* the number of entries put into shared[0] */
    lladd_lsn at;
    if (draw(w, 4) == 0)
        sure(lladd_abort(txn) == 0, "abort");
    else
        sure(lladd_commit_async(txn, &at) == 0, "commit");
}

/* Discards the entries of the thread's own tag. Only a checkpoint that cleans the tag can delay the
 * discard, which then waits for the checkpoint. */
static void tidy_up(struct worker *w)
{
    struct lladd_txn *txn = NULL;
    sure(lladd_begin(b.db, NULL, &txn, NULL) == 0, "begin");
    int rc = lladd_journal_discard(txn, own[w->number], lladd_lsn_of(0));
    put(w, txn, own[w->number]);
    sure(rc == 0, "discard");
    sure(lladd_commit(txn) == 0, "commit");
    struct order o = {0, 0};
    sure(lladd_journal_replay(b.db, own[w->number], in_order, &o, NULL) == 0, "replay");
    sure(o.entries == 1, "what was discarded is gone");
}

static void look(struct worker *w)
{
    struct order o = {0, 0};
    bool more;
    int rc = lladd_journal_clean(b.db, shared[draw(w, SHARED)], lladd_object_applied_lsn(b.db),
                                 &more, NULL);
    sure(rc == 0 || rc == LLADD_BUSY, "clean");
    sure(lladd_journal_replay(b.db, shared[draw(w, SHARED)], in_order, &o, NULL) == 0, "replay");
}

static void *work(void *arg)
{
    struct worker *w = arg;
    for (unsigned i = 0; i < ROUNDS; i++) {
        shelve(w);
        if (i % 40 == 7)
            tidy_up(w);
        if (i % 50 == 9)
            look(w);
        if (w->number == 0 && i % 60 == 5)
            sure(lladd_checkpoint(b.db, NULL) == 0, "checkpoint");
    }
    return NULL;
}

/* ---- the follower ---------------------------------------------------------------------------- */

static struct {
    struct lladd_thread thread;
    uint32_t over;    /* atomic: the workers have ended */
    uint64_t entries; /* of the first shared tag */
} reader;

/* Makes the log durable when it has read to its end, so there is something new to read. */
static void *read_along(void *arg)
{
    struct lladd_journal_follower *f;
    struct lladd_journal_position from = {{0}, {0}};
    struct lladd_journal_entry e;
    struct order o = {0, 0};
    int rc = 0;
    bool last = false;
    (void)arg;
    sure(lladd_journal_follow_open(b.db, shared, SHARED, from, &f, NULL) == 0, "follow");
    while (rc == 0 || !last) {
        if (rc) {
            last = lladd_atomic_load32(&reader.over);
            sure(lladd_log_force(b.db, lladd_lsn_of(lladd_object_applied_lsn(b.db).v - 1), NULL) ==
                     0,
                 "force");
            from = lladd_journal_follow_position(f, lladd_lsn_of(0));
            sure(lladd_pin_set(b.db, "reader", from.from, NULL) == 0, "move the pin");
        }
        rc = lladd_journal_follow_next(f, &e, NULL);
        sure(rc == 0 || rc == LLADD_END, "next");
        if (rc)
            continue;
        sure(e.tag == shared[0] || e.tag == shared[1], "a followed tag");
        sure(in_order(&o, &e, NULL) == 0, "in order");
        reader.entries += e.tag == shared[0];
    }
    lladd_journal_follow_close(f);
    return NULL;
}

static void begin_reading(void)
{
    memset(&reader, 0, sizeof reader);
    ok_db(&b, lladd_pin_set(b.db, "reader", lladd_lsn_of(shared[0]), &b.err));
    ck_assert_int_eq(lladd_thread_start(&reader.thread, read_along, NULL), 0);
}

static void end_reading(void)
{
    lladd_atomic_store32(&reader.over, 1);
    lladd_thread_join(&reader.thread);
    ck_assert_uint_eq(reader.entries, follower.entries);
}

static void run(unsigned n)
{
    char name[16];
    struct order o = {0, 0}, again = {0, 0};
    fixture_init_threads(&b);
    ok_db(&b, lladd_journal_register(&b.options, &b.err));
    b.options.durability = LLADD_DURABLE_LATER;
    b.options.checkpoint_bytes = 256u << 10;
    fixture_open(&b);
    memset(&follower, 0, sizeof follower);
    for (unsigned i = 0; i < SHARED + n; i++) {
        snprintf(name, sizeof name, "%u", i);
        *(i < SHARED ? &shared[i] : &own[i - SHARED]) = journal_tag(&b, name);
    }
    struct lladd_journal_attachment a = {shared[0], &calls, NULL};
    ok_db(&b, lladd_journal_attach(b.db, &a, 1, &b.err));
    begin_reading();
    for (unsigned i = 0; i < n; i++) {
        workers[i] = (struct worker){.number = i, .seed = i + 77};
        ck_assert_int_eq(lladd_thread_start(&workers[i].thread, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < n; i++)
        lladd_thread_join(&workers[i].thread);
    end_reading();
    ok_db(&b, lladd_journal_replay(b.db, shared[0], in_order, &o, &b.err));
    ck_assert_uint_eq(o.entries, follower.entries);
    ck_assert_uint_gt(o.entries, 0);
    ck_assert_uint_gt(follower.atomic_aborted, 0);
    fixture_close(&b);
    fixture_open(&b);
    ok_db(&b, lladd_journal_replay(b.db, shared[0], in_order, &again, &b.err));
    ck_assert_uint_eq(again.entries, follower.entries);
    fixture_free(&b);
}

START_TEST(two_threads)
{
    run(2);
}
END_TEST

START_TEST(eight_threads)
{
    run(8);
}
END_TEST

static struct {
    uint64_t tag;
    uint32_t over;    /* atomic */
    uint32_t cleaned; /* number of cleanings; atomic */
} cleaner;

static void *clean_on(void *arg)
{
    (void)arg;
    while (!lladd_atomic_load32(&cleaner.over)) {
        bool more;
        int rc =
            lladd_journal_clean(b.db, cleaner.tag, lladd_object_applied_lsn(b.db), &more, NULL);
        sure(rc == 0 || rc == LLADD_BUSY, "clean");
        lladd_atomic_add32(&cleaner.cleaned, rc == 0);
    }
    return NULL;
}

/* A checkpoint may begin to clean a tag at any time. So an attach waits for a cleaning and is not
 * refused. Here another thread cleans the tag again and again. */
START_TEST(attach_waits_for_cleaning)
{
    static const struct lladd_journal_owner idle = {.struct_size = sizeof idle};
    struct lladd_thread thread = {0};
    fixture_init_threads(&b);
    ok_db(&b, lladd_journal_register(&b.options, &b.err));
    fixture_open(&b);
    memset(&cleaner, 0, sizeof cleaner);
    cleaner.tag = journal_tag(&b, "cold");
    journal_put(&b, cleaner.tag, "a b c d e f");
    ck_assert_int_eq(lladd_thread_start(&thread, clean_on, NULL), 0);
    struct lladd_journal_attachment a = {cleaner.tag, &idle, NULL};
    for (unsigned i = 0; i < ROUNDS || lladd_atomic_load32(&cleaner.cleaned) < 20; i++) {
        ok_db(&b, lladd_journal_attach(b.db, &a, 1, &b.err));
        ok_db(&b, lladd_journal_detach(b.db, cleaner.tag, &b.err));
    }
    lladd_atomic_store32(&cleaner.over, 1);
    lladd_thread_join(&thread);
    journal_expect(&b, cleaner.tag, "a b c d e f");
    fixture_free(&b);
}
END_TEST

/* ---- a checkpoint that is cleaning ----------------------------------------------------------- */

/* The thread that cleans is stopped in a write. This write comes after the record that announces
 * the entries, and before the commit. If `fails` is set, the device fails when the thread goes
 * on. */
static struct {
    uint64_t tag, self;
    uint32_t held, asked; /* atomic */
    bool fails;
    int rc;
} halfway;

static void hold(void *ctx, uint64_t number, unsigned kind, const char *name)
{
    (void)ctx;
    (void)number;
    (void)name;
    if (!(kind & FAULT_WRITES) || lladd_thread_self() != halfway.self ||
        lladd_atomic_load32(&halfway.held))
        return;
    lladd_atomic_store32(&halfway.held, 1);
    while (!lladd_atomic_load32(&halfway.asked))
        lladd_yield();
    for (int i = 0; i < 1000; i++) /* the thread that set `asked` is probably waiting by now */
        lladd_yield();
    if (halfway.fails)
        fault_device_fail(b.fd, 1, FAULT_WRITES, EIO, true);
}

static void *clean_once(void *arg)
{
    (void)arg;
    halfway.self = lladd_thread_self();
    fault_device_hook(b.fd, hold, NULL);
    halfway.rc = lladd_journal_clean(b.db, halfway.tag, lladd_object_applied_lsn(b.db), NULL, NULL);
    return NULL;
}

static void begin_halfway(struct lladd_thread *thread, bool fails)
{
    enum { LONG = 1000, MANY = 700 }; /* more than the log keeps in memory */
    char entry[LONG];
    memset(entry, 'm', sizeof entry);
    journal_init(&b);
    fixture_open(&b);
    memset(&halfway, 0, sizeof halfway);
    halfway.tag = journal_tag(&b, "cold");
    halfway.fails = fails;
    struct lladd_txn *txn = fixture_begin(&b);
    for (unsigned i = 0; i < MANY; i++)
        ok(txn, lladd_journal_append(txn, halfway.tag, lladd_span_of(entry, sizeof entry), NULL));
    commit(txn);
    memset(thread, 0, sizeof *thread);
    ck_assert_int_eq(lladd_thread_start(thread, clean_once, NULL), 0);
    while (!lladd_atomic_load32(&halfway.held))
        lladd_yield();
}

/* rc: the result of the waiting call. */
static void end_halfway(struct lladd_thread *thread, int rc)
{
    lladd_thread_join(thread);
    fault_device_hook(b.fd, NULL, NULL);
    fault_device_fail(b.fd, 0, FAULT_ANY, 0, false);
    ck_assert_int_eq(rc, halfway.rc);
    ck_assert_int_eq(rc, lladd_db_error(b.db, &b.err));
    ck_assert_int_eq(lladd_code_root(rc), halfway.fails ? LLADD_ROOT_POISONED : 0);
    fixture_crash(&b);
    fixture_free(&b);
}

START_TEST(attach_during_cleaning)
{
    static const struct lladd_journal_owner idle = {.struct_size = sizeof idle};
    struct lladd_thread thread;
    begin_halfway(&thread, _i);
    struct lladd_journal_attachment a = {halfway.tag, &idle, NULL};
    lladd_atomic_store32(&halfway.asked, 1);
    end_halfway(&thread, lladd_journal_attach(b.db, &a, 1, &b.err));
}
END_TEST

/* A transaction that changes a tag waits for the cleaning, too. If it were refused, it would have
 * to be repeated. _i % 2: the device fails; _i / 2: the change is a release. */
START_TEST(change_during_cleaning)
{
    struct lladd_thread thread;
    begin_halfway(&thread, _i % 2);
    struct lladd_txn *txn = fixture_begin(&b);
    lladd_atomic_store32(&halfway.asked, 1);
    int rc = _i / 2 ? lladd_journal_release(txn, halfway.tag)
                    : lladd_journal_discard(txn, halfway.tag, lladd_lsn_of(0));
    if (!rc)
        commit(txn);
    end_halfway(&thread, rc);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("journal threads");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, two_threads);
    tcase_add_test(tc, eight_threads);
    tcase_add_test(tc, attach_waits_for_cleaning);
    tcase_add_loop_test(tc, attach_during_cleaning, 0, 2);
    tcase_add_loop_test(tc, change_during_cleaning, 0, 4);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
