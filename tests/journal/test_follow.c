/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Followers of the journal. A follower gives the committed entries of its tags in the order of
 * commits, each once, and goes on after a restart. It gives no part of a transaction of which the
 * log lacks the beginning.
 */
#include "journal_fixture.h"

#include <errno.h>
#include <lladd/log_read.h>
#include <stdio.h>

static struct fixture b;
static uint64_t t, u;
static struct lladd_journal_follower *f;
static lladd_lsn last; /* the commit of the newest entry that was given */

static void begin(void)
{
    journal_init(&b);
    b.options.log_segment_min = 16u << 10;
    fixture_open(&b);
    t = journal_tag(&b, "t");
    u = journal_tag(&b, "u");
}

/* Keeps the log from the first tag on. Otherwise a checkpoint may clean the entries, and the log
 * that followers read is truncated. */
static void begin_pinned(void)
{
    begin();
    ok_db(&b, lladd_pin_set(b.db, "reader", lladd_lsn_of(t), &b.err));
}

static struct lladd_journal_position position(uint64_t commit, uint64_t from)
{
    return (struct lladd_journal_position){lladd_lsn_of(commit), lladd_lsn_of(from)};
}

static int try_follow(struct lladd_journal_position at)
{
    uint64_t tags[2] = {u, t}; /* any order */
    return lladd_journal_follow_open(b.db, tags, 2, at, &f, &b.err);
}

static void follow_from(struct lladd_journal_position at)
{
    last = lladd_lsn_of(0);
    ok_db(&b, try_follow(at));
}

static void follow(void)
{
    follow_from(position(0, 0));
}

static void stop(void)
{
    lladd_journal_follow_close(f);
    f = NULL;
}

/* Adds "word" for an entry of t, and "u:word" for one of u. Returns the code that ended it. */
static int add_entries(struct text_of *text)
{
    struct lladd_journal_entry e;
    int rc;
    while ((rc = lladd_journal_follow_next(f, &e, &b.err)) == 0) {
        char word[64];
        ck_assert(e.tag == t || e.tag == u);
        ck_assert_uint_ge(e.commit.v, last.v);
        ck_assert_uint_lt(e.lsn.v, e.commit.v);
        ck_assert_uint_lt(e.bytes.len, 32);
        last = e.commit;
        int len = snprintf(word, sizeof word, "%s%.*s", e.tag == u ? "u:" : "", (int)e.bytes.len,
                           (const char *)e.bytes.data);
        e.bytes = lladd_span_of(word, (size_t)len);
        text_add(text, &e, NULL);
    }
    return rc;
}

/* Expects these entries next, and then the end for now. */
static void gives(const char *words)
{
    struct text_of text = {.bytes = calloc(1, 1), .cap = 1};
    ck_assert_int_eq(add_entries(&text), LLADD_END);
    ck_assert_str_eq(text.bytes, words);
    free(text.bytes);
}

static void fails_with(int code, const char *what)
{
    struct text_of text = {.bytes = calloc(1, 1), .cap = 1};
    ck_assert_int_eq(add_entries(&text), code);
    ck_assert_msg(strstr(b.err.message, what) != NULL, "\"%s\" not in \"%s\"", what,
                  b.err.message);
    free(text.bytes);
}

/* Expects these entries from a new follower, now and after a crash. */
static void gives_for_good(const char *words)
{
    follow();
    gives(words);
    stop();
    fixture_crash(&b);
    follow();
    gives(words);
    stop();
}

/* ---- which entries --------------------------------------------------------------------------- */

START_TEST(commits_come_in_order_as_soon_as_they_are_durable)
{
    begin_pinned();
    follow();
    gives("");
    struct lladd_txn *one = fixture_begin(&b), *two = fixture_begin(&b), *three = fixture_begin(&b);
    journal_append(one, t, "a1");
    journal_append(two, t, "b1");
    journal_append(three, t, "never");
    journal_append(one, u, "a2");
    gives("");
    commit(two);
    gives("b1");
    abort_txn(three);
    journal_append(one, t, "a3");
    gives("");
    commit(one);
    gives("a1 u:a2 a3");
    struct lladd_txn_options later = LLADD_TXN_OPTIONS_INIT;
    later.durability = LLADD_DURABLE_LATER;
    ok_db(&b, lladd_begin(b.db, &later, &one, &b.err));
    journal_append(one, t, "late");
    lladd_lsn at;
    ck_assert_int_eq(lladd_commit_async(one, &at), 0);
    gives("");
    ok_db(&b, lladd_wait_durable(b.db, at, &b.err));
    gives("late");
    stop();
    gives_for_good("b1 a1 u:a2 a3 late");
    fixture_free(&b);
}
END_TEST

START_TEST(entries_that_were_rolled_back_do_not_come)
{
    lladd_savepoint_id sp, inner;
    struct lladd_action action;
    begin_pinned();
    struct lladd_txn *txn = fixture_begin(&b);
    journal_append(txn, t, "a");
    ok(txn, lladd_savepoint(txn, &sp));
    journal_append(txn, t, "never");
    ok(txn, lladd_savepoint(txn, &inner));
    journal_append(txn, u, "never");
    ok(txn, lladd_rollback_to(txn, inner));
    journal_append(txn, t, "never");
    ok(txn, lladd_rollback_to(txn, sp));
    journal_append(txn, t, "b");
    ok(txn, lladd_nta_begin(txn, &action));
    journal_append(txn, t, "never");
    ok(txn, lladd_nta_abort(txn, &action));
    ok(txn, lladd_nta_begin(txn, &action));
    journal_append(txn, t, "c");
    ok(txn, lladd_nta_end(txn, &action, LLADD_NO_OP, NULL, 0));
    commit(txn);
    gives_for_good("a b c");
    fixture_free(&b);
}
END_TEST

START_TEST(discarded_cleaned_and_released_entries_come)
{
    begin_pinned();
    journal_put(&b, t, "a b");
    journal_put(&b, u, "c");
    ok_db(&b, lladd_journal_clean(b.db, t, lladd_object_applied_lsn(b.db), NULL, &b.err));
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_journal_discard(txn, t, lladd_lsn_of(0)));
    journal_append(txn, t, "d");
    commit(txn);
    txn = fixture_begin(&b);
    ok(txn, lladd_journal_release(txn, u));
    commit(txn);
    gives_for_good("a b u:c d");
    fixture_free(&b);
}
END_TEST

START_TEST(a_rollover_gives_the_entries_that_it_moves)
{
    begin_pinned();
    uint64_t x = journal_tag(&b, "x"), y = journal_tag(&b, "y");
    lladd_savepoint_id sp;
    journal_put(&b, x, "x1 x2");
    journal_put(&b, y, "y1");
    struct lladd_txn *txn = fixture_begin(&b), *other = fixture_begin(&b);
    journal_append(other, x, "stays");
    journal_append(txn, y, "y2");
    ok(txn, lladd_journal_rollover(txn, x, y)); /* y: y1, y2 x1 x2 */
    commit(txn);
    commit(other);
    txn = fixture_begin(&b);
    journal_append(txn, t, "a");
    journal_append(txn, y, "y3");
    ok(txn, lladd_savepoint(txn, &sp));
    ok(txn, lladd_journal_rollover(txn, y, u));
    ok(txn, lladd_rollback_to(txn, sp));
    ok(txn, lladd_journal_rollover(txn, y, t));
    journal_append(txn, y, "y4");
    journal_append(txn, t, "b");
    commit(txn);
    journal_expect(&b, t, "a y1 y2 x1 x2 y3 b");
    journal_expect(&b, x, "stays");
    gives_for_good("a y1 y2 x1 x2 y3 b");
    /* Entries that come with their own tag come again with the other one. */
    txn = fixture_begin(&b);
    journal_append(txn, t, "c");
    ok(txn, lladd_journal_rollover(txn, t, u));
    commit(txn);
    gives_for_good("a y1 y2 x1 x2 y3 b u:a u:y1 u:y2 u:x1 u:x2 u:y3 u:b u:c");
    fixture_free(&b);
}
END_TEST

START_TEST(a_rollover_of_discarded_entries_gives_nothing)
{
    begin_pinned();
    journal_put(&b, t, "a");
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_journal_discard(txn, t, lladd_lsn_of(0)));
    commit(txn);
    journal_put(&b, t, "b");
    txn = fixture_begin(&b);
    ok(txn, lladd_journal_rollover(txn, t, u));
    commit(txn);
    gives_for_good("a b u:b");
    fixture_free(&b);
}
END_TEST

START_TEST(entries_in_doubt_come_when_they_are_committed)
{
    struct lladd_gid g = fixture_gid("x"), h = fixture_gid("y");
    begin_pinned();
    struct lladd_txn *txn = fixture_begin(&b), *other = fixture_begin(&b);
    journal_append(txn, t, "doubt");
    journal_append(other, t, "never");
    ok(txn, lladd_prepare(txn, &g));
    ok(other, lladd_prepare(other, &h));
    journal_put(&b, t, "a");
    fixture_crash(&b);
    follow();
    gives("a");
    ok_db(&b, lladd_in_doubt_claim(b.db, &h, &other, &b.err));
    abort_txn(other);
    gives("");
    ok_db(&b, lladd_in_doubt_claim(b.db, &g, &txn, &b.err));
    commit(txn);
    gives("doubt");
    stop();
    gives_for_good("a doubt");
    fixture_free(&b);
}
END_TEST

START_TEST(long_and_empty_entries_come_whole)
{
    struct lladd_journal_entry e;
    begin();
    size_t len = lladd_log_object_max(b.db) - LLADD_JOURNAL_HEAD_MAX;
    unsigned char *bytes = malloc(len);
    ck_assert_ptr_nonnull(bytes);
    for (size_t i = 0; i < len; i++)
        bytes[i] = (unsigned char)(i * 31 >> 3);
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_journal_append(txn, t, lladd_span_of(bytes, len), NULL));
    ok(txn, lladd_journal_append(txn, t, lladd_span_of(NULL, 0), NULL));
    commit(txn);
    follow();
    ok_db(&b, lladd_journal_follow_next(f, &e, &b.err));
    ck_assert_uint_eq(e.bytes.len, len);
    ck_assert_int_eq(memcmp(e.bytes.data, bytes, len), 0);
    ok_db(&b, lladd_journal_follow_next(f, &e, &b.err));
    ck_assert_uint_eq(e.bytes.len, 0);
    ck_assert_int_eq(lladd_journal_follow_next(f, &e, &b.err), LLADD_END);
    stop();
    free(bytes);
    fixture_free(&b);
}
END_TEST

/* ---- positions ------------------------------------------------------------------------------- */

START_TEST(a_follower_goes_on_after_a_restart)
{
    begin_pinned();
    follow();
    struct lladd_txn *open = fixture_begin(&b);
    journal_append(open, t, "open");
    journal_put(&b, t, "a");
    journal_put(&b, t, "b c");
    gives("a b c");
    struct lladd_journal_position at = lladd_journal_follow_position(f, lladd_lsn_of(0));
    ck_assert_uint_gt(at.commit.v, last.v);
    ck_assert_uint_eq(at.from.v, lladd_txn_id(open).v);
    stop();
    journal_put(&b, t, "d");
    commit(open);
    fixture_crash(&b);
    follow_from(at);
    gives("d open");
    stop();
    follow_from(position(at.commit.v, 0));
    gives("d open");
    lladd_lsn newest = last;
    stop();
    follow_from(position(newest.v, 0)); /* at the commit, not after it */
    gives("open");
    stop();
    follow_from(position(newest.v + 1, 0));
    gives("");
    journal_put(&b, t, "e");
    gives("e");
    stop();
    fixture_free(&b);
}
END_TEST

START_TEST(transactions_that_ended_do_not_hold_a_position_back)
{
    begin();
    follow();
    struct lladd_txn *one = fixture_begin(&b), *two = fixture_begin(&b);
    journal_append(one, t, "never");
    journal_append(two, t, "a");
    gives("");
    ck_assert_uint_eq(lladd_journal_follow_position(f, lladd_lsn_of(0)).from.v,
                      lladd_txn_id(one).v);
    abort_txn(one);
    journal_put(&b, u, "b"); /* makes the abort durable */
    gives("u:b");
    ck_assert_uint_eq(lladd_journal_follow_position(f, lladd_lsn_of(0)).from.v,
                      lladd_txn_id(two).v);
    commit(two);
    gives("a");
    struct lladd_journal_position at = lladd_journal_follow_position(f, lladd_lsn_of(0));
    ck_assert_uint_eq(at.from.v, at.commit.v);
    ck_assert_uint_gt(at.commit.v, last.v);
    journal_grow_log(&b, 50000); /* no entries: the position ascends nevertheless */
    gives("");
    ck_assert_uint_gt(lladd_journal_follow_position(f, lladd_lsn_of(0)).from.v,
                      at.from.v + 40000);
    stop();
    fixture_free(&b);
}
END_TEST

/* A crash ends all transactions, also for a follower that reads about it in the log. */
START_TEST(transactions_that_a_crash_ended_do_not_hold_a_position_back)
{
    begin_pinned();
    struct lladd_txn *txn = fixture_begin(&b);
    journal_append(txn, t, "never");
    journal_put(&b, t, "a");
    fixture_crash(&b);
    journal_put(&b, t, "b");
    follow();
    gives("a b");
    struct lladd_journal_position at = lladd_journal_follow_position(f, lladd_lsn_of(0));
    ck_assert_uint_eq(at.from.v, at.commit.v);
    stop();
    fixture_free(&b);
}
END_TEST

/* Positions before the place that the follower has reached are known from marks. */
START_TEST(positions_of_older_commits_are_nearly_exact)
{
    enum { COMMITS = 40 };
    lladd_lsn at[COMMITS];
    begin_pinned();
    follow();
    for (int i = 0; i < COMMITS; i++) {
        at[i] = journal_put(&b, t, "a");
        journal_grow_log(&b, 20000);
    }
    struct text_of text = {.bytes = calloc(1, 1), .cap = 1};
    ck_assert_int_eq(add_entries(&text), LLADD_END);
    ck_assert_uint_eq(text.entries, COMMITS);
    free(text.bytes);
    for (int i = 0; i < COMMITS; i++) {
        struct lladd_journal_position p = lladd_journal_follow_position(f, at[i]);
        ck_assert_uint_eq(p.commit.v, at[i].v);
        ck_assert_uint_lt(p.from.v, at[i].v);
        if (i > 8)
            ck_assert_uint_gt(p.from.v + (100u << 10), at[i].v);
        struct lladd_journal_follower *g;
        struct lladd_journal_entry e;
        ok_db(&b, lladd_journal_follow_open(b.db, &t, 1, p, &g, &b.err));
        ok_db(&b, lladd_journal_follow_next(g, &e, &b.err));
        ck_assert_uint_eq(e.commit.v, at[i].v);
        lladd_journal_follow_close(g);
    }
    /* An earlier one is less exact. */
    struct lladd_journal_position p = lladd_journal_follow_position(f, at[0]);
    ck_assert_uint_le(p.from.v, p.commit.v);
    stop();
    fixture_free(&b);
}
END_TEST

/* ---- log that is gone ------------------------------------------------------------------------ */

static void recycle(void)
{
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_journal_discard(txn, t, lladd_lsn_of(0)));
    commit(txn);
    for (int i = 0; i < 3; i++) {
        journal_grow_log(&b, 300000);
        ok_db(&b, lladd_checkpoint(b.db, &b.err));
    }
}

/* Pins what a reader needs that goes on after what was given. */
static struct lladd_journal_position pin(void)
{
    struct lladd_journal_position at = lladd_journal_follow_position(f, lladd_lsn_of(0));
    ok_db(&b, lladd_pin_set(b.db, "reader", at.from, &b.err));
    return at;
}

START_TEST(a_pin_keeps_the_log_of_a_position)
{
    begin();
    follow();
    journal_put(&b, t, "a");
    gives("a");
    pin();
    recycle();
    gives("");
    struct lladd_txn *open = fixture_begin(&b);
    journal_append(open, t, "open");
    journal_put(&b, t, "b");
    gives("b");
    struct lladd_journal_position at = pin();
    ck_assert_uint_eq(at.from.v, lladd_txn_id(open).v);
    journal_put(&b, t, "c");
    commit(open);
    recycle();
    ck_assert_uint_gt(journal_stats(&b).log_oldest, t);
    gives("c open"); /* the follower that stayed open */
    stop();
    fixture_crash(&b);
    follow_from(at);
    gives("c open");
    at = pin();
    recycle();
    ck_assert_uint_le(journal_stats(&b).log_oldest, at.from.v);
    gives("");
    stop();
    ok_db(&b, lladd_pin_clear(b.db, "reader", &b.err));
    fixture_free(&b);
}
END_TEST

/* After a crash the log goes on at a higher LSN. A position at the end of the log before the crash
 * needs nothing of the log before the gap. */
START_TEST(a_position_may_be_in_a_gap_of_the_log)
{
    begin_pinned();
    journal_put(&b, t, "a");
    follow();
    gives("a");
    struct lladd_journal_position at = lladd_journal_follow_position(f, lladd_lsn_of(0));
    stop();
    fixture_crash(&b);
    ok_db(&b, lladd_pin_set(b.db, "reader", at.from, &b.err));
    recycle();
    ck_assert_uint_gt(journal_stats(&b).log_oldest, at.commit.v);
    follow_from(at);
    gives("");
    journal_put(&b, t, "b");
    gives("b");
    stop();
    ok_db(&b, lladd_pin_clear(b.db, "reader", &b.err));
    fixture_free(&b);
}
END_TEST

/* [hand_on] */
/* Hands on what was committed since the last call, then gives up the log before it. */
static int hand_on(struct lladd_db *db, struct lladd_journal_follower *reader,
                   lladd_journal_fn *take, void *ctx, struct lladd_error *err)
{
    struct lladd_journal_position reached;
    struct lladd_journal_entry e;
    int rc;
    while ((rc = lladd_journal_follow_next(reader, &e, err)) == 0 && (rc = take(ctx, &e, err)) == 0)
        continue;
    if (rc != LLADD_END)
        return rc;
    reached = lladd_journal_follow_position(reader, lladd_lsn_of(0)); /* for after a restart */
    return lladd_pin_set(db, "audit", reached.from, err);
}
/* [/hand_on] */

/* As in docs/journal.md. */
START_TEST(the_pin_moves_with_the_follower)
{
    struct text_of text = {.bytes = calloc(1, 1), .cap = 1};
    begin();
    ok_db(&b, lladd_pin_set(b.db, "audit", lladd_lsn_of(t), &b.err));
    follow();
    for (int i = 0; i < 5; i++) {
        uint64_t before = journal_stats(&b).log_oldest;
        journal_put(&b, t, "a b");
        recycle();
        ck_assert_uint_eq(journal_stats(&b).log_oldest, before);
        ok_db(&b, hand_on(b.db, f, text_add, &text, &b.err));
        ok_db(&b, lladd_checkpoint(b.db, &b.err));
        ck_assert_uint_gt(journal_stats(&b).log_oldest, before);
    }
    ck_assert_str_eq(text.bytes, "a b a b a b a b a b");
    free(text.bytes);
    stop();
    ok_db(&b, lladd_pin_clear(b.db, "audit", &b.err));
    fixture_free(&b);
}
END_TEST

static void tells(uint64_t needs, uint64_t oldest)
{
    char text[128];
    snprintf(text, sizeof text, "followed from LSN %llu on; the log begins at %llu",
             (unsigned long long)needs, (unsigned long long)oldest);
    ck_assert_msg(strstr(b.err.message, text) != NULL, "\"%s\" not in \"%s\"", text, b.err.message);
}

START_TEST(without_a_pin_the_follower_says_what_is_gone)
{
    begin();
    lladd_lsn a = journal_put(&b, t, "a");
    follow();
    gives("a"); /* waits at the end of the log */
    uint64_t end = lladd_journal_follow_position(f, lladd_lsn_of(0)).commit.v;
    struct lladd_journal_follower *waits = f;
    recycle();
    recycle();
    uint64_t oldest = journal_stats(&b).log_oldest;
    ck_assert_uint_gt(oldest, end);
    ck_assert_int_eq(try_follow(position(a.v, 0)), LLADD_OUT_OF_RANGE);
    tells(a.v, oldest);
    ck_assert_int_eq(try_follow(position(a.v, a.v - 8)), LLADD_OUT_OF_RANGE);
    tells(a.v - 8, oldest);
    ck_assert_int_eq(try_follow(position(0, 0)), LLADD_OUT_OF_RANGE);
    tells(t, oldest); /* no entry is older than its tag */
    f = waits;
    for (int i = 0; i < 2; i++) {
        fails_with(LLADD_OUT_OF_RANGE, "followed");
        tells(end, oldest);
    }
    stop();
    follow_from(position(lladd_durable_lsn(b.db).v, 0));
    gives("");
    journal_put(&b, t, "b");
    gives("b");
    stop();
    fixture_free(&b);
}
END_TEST

/* In the middle of a transaction: its first entries have been given, and the rest is gone. */
START_TEST(log_may_go_while_a_transaction_is_given)
{
    struct lladd_journal_entry e;
    begin();
    struct lladd_txn *txn = fixture_begin(&b);
    for (int i = 0; i < 40; i++) {
        journal_append(txn, t, "a");
        journal_grow_log(&b, 10000);
    }
    commit(txn);
    follow();
    ok_db(&b, lladd_journal_follow_next(f, &e, &b.err));
    recycle();
    recycle();
    ck_assert_uint_gt(journal_stats(&b).log_oldest, e.commit.v);
    fails_with(LLADD_OUT_OF_RANGE, "the log begins at");
    stop();
    fixture_free(&b);
}
END_TEST

START_TEST(a_part_of_a_transaction_is_not_given)
{
    char text[128];
    lladd_lsn a, at;
    begin();
    struct lladd_txn *txn = fixture_begin(&b), *other = fixture_begin(&b), *whole;
    journal_append(txn, t, "first");
    journal_append(other, t, "aborted");
    whole = fixture_begin(&b);
    journal_append(whole, t, "a");
    lladd_lsn id = lladd_txn_id(txn), from = lladd_txn_id(whole);
    ck_assert_int_eq(lladd_commit_async(whole, &a), 0);
    journal_append(txn, t, "second");
    journal_append(other, t, "aborted");
    abort_txn(other);
    ck_assert_int_eq(lladd_commit_async(txn, &at), 0);
    ok_db(&b, lladd_wait_durable(b.db, at, &b.err));
    snprintf(text, sizeof text, "at LSN %llu began at %llu; the journal is followed from LSN %llu",
             (unsigned long long)at.v, (unsigned long long)id.v, (unsigned long long)from.v);
    follow_from(position(a.v, from.v));
    fails_with(LLADD_OUT_OF_RANGE, text);
    ck_assert_uint_eq(b.err.lsn.v, at.v);
    ck_assert_uint_eq(last.v, a.v);
    stop();
    follow_from(position(at.v + 1, from.v)); /* that one is not wanted */
    gives("");
    stop();
    follow_from(position(a.v + 1, id.v));
    gives("first second");
    stop();
    fixture_free(&b);
}
END_TEST

START_TEST(a_rollover_of_entries_that_are_gone_is_refused)
{
    begin();
    uint64_t x = journal_tag(&b, "x");
    journal_put(&b, x, "old");
    for (int i = 0; i < 3; i++) {
        journal_grow_log(&b, 60000);
        ok_db(&b, lladd_journal_clean(b.db, x, lladd_object_applied_lsn(b.db), NULL, &b.err));
        ok_db(&b, lladd_checkpoint(b.db, &b.err));
    }
    uint64_t oldest = journal_stats(&b).log_oldest;
    ck_assert_uint_gt(oldest, x);
    follow_from(position(lladd_durable_lsn(b.db).v, 0));
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_journal_rollover(txn, x, t));
    commit(txn);
    journal_expect(&b, t, "old");
    fails_with(LLADD_OUT_OF_RANGE, "followed");
    tells(x, oldest);
    stop();
    fixture_free(&b);
}
END_TEST

/* ---- damage ---------------------------------------------------------------------------------- */

struct damage {
    const char *text;
    bool done;
};

/* Changes one byte of an entry in a file of the log. */
static int damage_file(void *ctx, const char *name)
{
    struct damage *d = ctx;
    char path[80];
    struct lladd_file *file;
    uint64_t size;
    snprintf(path, sizeof path, "log/%s", name);
    if (!strstr(name, ".seg"))
        return 0;
    ck_assert_int_eq(b.base->ops->open(b.base, path, 0, &file), 0);
    ck_assert_int_eq(b.base->ops->size(b.base, file, &size), 0);
    char *bytes = malloc(size + 1);
    ck_assert_ptr_nonnull(bytes);
    ck_assert_int_eq(b.base->ops->pread(b.base, file, bytes, size, 0), (int64_t)size);
    char *at = memmem(bytes, size, d->text, strlen(d->text));
    if (at) {
        struct lladd_iovec wrong = {"?", 1};
        ck_assert_int_eq(
            b.base->ops->pwritev(b.base, file, &wrong, 1, (uint64_t)(at - bytes)), 0);
        d->done = true;
    }
    free(bytes);
    b.base->ops->close(b.base, file);
    return 0;
}

START_TEST(damage_in_the_middle_is_reported)
{
    struct damage d = {.text = "middle of the log"};
    begin_pinned();
    journal_put(&b, t, "a");
    struct lladd_txn *txn = fixture_begin(&b);
    journal_append(txn, t, d.text);
    commit(txn);
    journal_put(&b, t, "b");
    txn = fixture_begin(&b);
    ok(txn, lladd_journal_discard(txn, t, lladd_lsn_of(0)));
    commit(txn);
    for (int i = 0; i < 2; i++) {
        journal_grow_log(&b, 60000);
        ok_db(&b, lladd_checkpoint(b.db, &b.err));
    }
    fixture_close(&b);
    fixture_open(&b);
    ck_assert_int_eq(b.base->ops->list(b.base, "log", damage_file, &d), 0);
    ck_assert(d.done);
    follow();
    for (int i = 0; i < 2; i++) {
        struct text_of text = {.bytes = calloc(1, 1), .cap = 1};
        ck_assert_int_eq(add_entries(&text), LLADD_CORRUPT_LOG);
        ck_assert_str_eq(text.bytes, i ? "" : "a");
        ck_assert_uint_gt(b.err.lsn.v, last.v);
        free(text.bytes);
    }
    stop();
    ok_db(&b, lladd_pin_clear(b.db, "reader", &b.err));
    fixture_free(&b);
}
END_TEST

/* A crash tears the tail of the log. What a follower gave before the crash, it gives again, and
 * then what a replay gives. */
START_TEST(a_torn_tail_takes_nothing_that_was_given)
{
    char word[16];
    begin_pinned();
    struct text_of given = {.bytes = calloc(1, 1), .cap = 1};
    follow();
    fault_device_crash_at(b.fd, 20 + (uint64_t)_i / 2);
    for (int i = 0;; i++) {
        struct lladd_txn *txn;
        if (lladd_begin(b.db, NULL, &txn, NULL))
            break;
        snprintf(word, sizeof word, "%d", i);
        if (lladd_journal_append(txn, t, lladd_span_of(word, strlen(word)), NULL) ||
            lladd_commit(txn))
            break;
        ck_assert_int_eq(add_entries(&given), LLADD_END);
    }
    (void)add_entries(&given);
    stop();
    lladd_db_kill(b.db);
    b.db = NULL;
    fault_device_power_cycle(b.fd, &(struct fault_crash){FAULT_SUBSET, (uint64_t)_i + 1, true});
    fixture_open(&b);
    char *live = journal_text(&b, t);
    ck_assert_uint_gt(given.len, 0);
    ck_assert_int_eq(strncmp(live, given.bytes, given.len), 0);
    follow();
    gives(live);
    stop();
    free(live);
    free(given.bytes);
    fixture_free(&b);
}
END_TEST

/* ---- failures and arguments ------------------------------------------------------------------ */

static void prepare_failures(void)
{
    begin_pinned();
    uint64_t x = journal_tag(&b, "x");
    lladd_savepoint_id sp;
    journal_put(&b, x, "a b");
    journal_grow_log(&b, 100000);
    struct lladd_txn *txn = fixture_begin(&b), *open = fixture_begin(&b);
    journal_append(open, t, "never");
    journal_append(txn, t, "c");
    ok(txn, lladd_savepoint(txn, &sp));
    journal_append(txn, t, "never");
    ok(txn, lladd_rollback_to(txn, sp));
    journal_append(txn, x, "d");
    ok(txn, lladd_journal_rollover(txn, x, u));
    commit(txn);
    journal_put(&b, t, "e");
    abort_txn(open);
    fixture_close(&b);
    fixture_open(&b); /* nothing of the log is in memory */
}

/* From now on nothing fails. *fired: something has failed before. */
static unsigned end_of_failures(bool *fired)
{
    *fired = *fired || fault_device_fired(b.fd) || fault_alloc_fired(&b.mem);
    fault_device_fail(b.fd, 0, FAULT_PREAD, EIO, false);
    fault_alloc_fail(&b.mem, 0, false);
    return 1;
}

/* _i 0: each allocation fails; 1: each read, until a call has failed: the log reads again what
 * fails once. The call is repeated, and no entry is left out. */
START_TEST(each_failure_can_be_repeated)
{
    unsigned failures = 0;
    bool fired = true;
    prepare_failures();
    for (uint64_t n = 1; fired; n++) {
        struct text_of text = {.bytes = calloc(1, 1), .cap = 1};
        int rc, want = _i ? LLADD_READ_FAILED : LLADD_NO_MEMORY;
        fixture_close(&b);
        fixture_open(&b);
        last = lladd_lsn_of(0);
        fired = false;
        if (_i)
            fault_device_fail(b.fd, n, FAULT_PREAD, EIO, true);
        else
            fault_alloc_fail(&b.mem, n, false);
        while ((rc = try_follow(position(0, 0))) == want)
            failures += end_of_failures(&fired);
        ok_db(&b, rc);
        while ((rc = add_entries(&text)) == want)
            failures += end_of_failures(&fired);
        ck_assert_int_eq(rc, LLADD_END);
        ck_assert_str_eq(text.bytes, "c u:a u:b u:d e");
        (void)end_of_failures(&fired);
        free(text.bytes);
        stop();
    }
    ck_assert_uint_gt(failures, _i ? 3 : 10);
    fixture_free(&b);
}
END_TEST

START_TEST(wrong_arguments_are_refused)
{
    begin();
    ck_assert_int_eq(lladd_journal_follow_open(b.db, NULL, 1, position(0, 0), &f, &b.err),
                     LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(lladd_journal_follow_open(b.db, &t, 0, position(0, 0), &f, &b.err),
                     LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(lladd_journal_follow_open(b.db, &t, 1, position(0, 0), NULL, &b.err),
                     LLADD_BAD_ARGUMENT);
    lladd_journal_follow_close(NULL);
    fixture_free(&b);
    fixture_init(&b, 4096);
    fixture_open(&b);
    ck_assert_int_eq(lladd_journal_follow_open(b.db, &t, 1, position(0, 0), &f, &b.err),
                     LLADD_BAD_STATE);
    fixture_free(&b);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("followers of the journal");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, commits_come_in_order_as_soon_as_they_are_durable);
    tcase_add_test(tc, entries_that_were_rolled_back_do_not_come);
    tcase_add_test(tc, discarded_cleaned_and_released_entries_come);
    tcase_add_test(tc, a_rollover_gives_the_entries_that_it_moves);
    tcase_add_test(tc, a_rollover_of_discarded_entries_gives_nothing);
    tcase_add_test(tc, entries_in_doubt_come_when_they_are_committed);
    tcase_add_test(tc, long_and_empty_entries_come_whole);
    tcase_add_test(tc, a_follower_goes_on_after_a_restart);
    tcase_add_test(tc, transactions_that_ended_do_not_hold_a_position_back);
    tcase_add_test(tc, transactions_that_a_crash_ended_do_not_hold_a_position_back);
    tcase_add_test(tc, positions_of_older_commits_are_nearly_exact);
    tcase_add_test(tc, a_pin_keeps_the_log_of_a_position);
    tcase_add_test(tc, a_position_may_be_in_a_gap_of_the_log);
    tcase_add_test(tc, the_pin_moves_with_the_follower);
    tcase_add_test(tc, without_a_pin_the_follower_says_what_is_gone);
    tcase_add_test(tc, log_may_go_while_a_transaction_is_given);
    tcase_add_test(tc, a_part_of_a_transaction_is_not_given);
    tcase_add_test(tc, a_rollover_of_entries_that_are_gone_is_refused);
    tcase_add_test(tc, damage_in_the_middle_is_reported);
    tcase_add_loop_test(tc, a_torn_tail_takes_nothing_that_was_given, 0, 20);
    tcase_add_loop_test(tc, each_failure_can_be_repeated, 0, 2);
    tcase_add_test(tc, wrong_arguments_are_refused);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
