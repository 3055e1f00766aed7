/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owners that are attached to tags, transactions in doubt, rollovers and cleaning. What an owner
 * keeps in memory must be what the journal would replay.
 */
#include "journal_fixture.h"

#include <lladd/log_read.h>
#include <stdio.h>

static struct fixture b;

/* ---- an owner with the committed entries as text, and with a text for each transaction
 * -------- */

struct write_set {
    struct text_of text;
    lladd_lsn lsn[16];
    unsigned n;
};

struct owner {
    struct text_of text;
    unsigned logged, aborted, undone, asked;
    int fail;    /* replay stops with this error */
    bool leaves; /* when the owner is asked to digest, it tries to detach, which is refused */
};

static void free_set(struct write_set *w)
{
    if (w)
        free(w->text.bytes);
    free(w);
}

static int owner_replay(void *ctx, const struct lladd_journal_entry *e, struct lladd_error *err)
{
    struct owner *o = ctx;
    if (o->fail)
        return lladd_error_set(err, o->fail, "as it was told");
    return text_add(&o->text, e, err);
}

static int owner_pending(void *ctx, void **state, const struct lladd_journal_entry *e,
                         struct lladd_error *err)
{
    struct write_set *w = *state ? *state : calloc(1, sizeof *w);
    (void)ctx;
    ck_assert_uint_eq(e->commit.v, 0);
    *state = w;
    return text_add(&w->text, e, err);
}

static void owner_logged(void *ctx, void *state, uint64_t tag, lladd_lsn commit)
{
    struct owner *o = ctx;
    struct write_set *w = state;
    o->logged++;
    if (w && w->text.len) {
        struct lladd_journal_entry e = {
            .tag = tag, .commit = commit, .bytes = lladd_span_of(w->text.bytes, w->text.len)};
        ck_assert_int_eq(text_add(&o->text, &e, NULL), 0);
    }
    free_set(w);
}

static void owner_aborted(void *ctx, void *state, uint64_t tag)
{
    (void)tag;
    ((struct owner *)ctx)->aborted++;
    free_set(state);
}

static void owner_undone(void *ctx, void *state, uint64_t tag, lladd_lsn since)
{
    struct write_set *w = state;
    (void)tag;
    ((struct owner *)ctx)->undone++;
    while (w && w->n && w->lsn[w->n - 1].v > since.v) {
        w->n--;
        char *space = strrchr(w->text.bytes, ' ');
        w->text.len = space ? (size_t)(space - w->text.bytes) : 0;
        w->text.bytes[w->text.len] = 0;
    }
}

static void owner_digest(void *ctx, uint64_t tag, lladd_lsn upto)
{
    ck_assert_uint_ne(upto.v, 0);
    if (((struct owner *)ctx)->leaves)
        ck_assert_int_eq(lladd_journal_detach(b.db, tag, NULL), LLADD_BUSY);
    ((struct owner *)ctx)->asked++;
}

static const struct lladd_journal_owner calls = {
    .struct_size = sizeof calls,
    .replay = owner_replay,
    .pending = owner_pending,
    .logged = owner_logged,
    .aborted = owner_aborted,
    .undone = owner_undone,
    .digest = owner_digest,
};

static void owner_append(struct lladd_txn *txn, uint64_t tag, const char *text)
{
    struct lladd_journal_entry e = {.tag = tag, .bytes = lladd_span_of(text, strlen(text))};
    void **state;
    ok(txn, lladd_journal_state(txn, tag, &state));
    struct write_set *w = *state ? *state : calloc(1, sizeof *w);
    *state = w;
    ok(txn, lladd_journal_append(txn, tag, e.bytes, &w->lsn[w->n++]));
    ck_assert_int_eq(text_add(&w->text, &e, NULL), 0);
}

static int try_attach(uint64_t tag, struct owner *o)
{
    struct lladd_journal_attachment a = {tag, &calls, o};
    return lladd_journal_attach(b.db, &a, 1, &b.err);
}

static void attach(uint64_t tag, struct owner *o)
{
    ok_db(&b, try_attach(tag, o));
}

static void expect_owner(const struct owner *o, const char *words)
{
    ck_assert_str_eq(o->text.len ? o->text.bytes : "", words);
}

static void forget(struct owner *o)
{
    free(o->text.bytes);
    *o = (struct owner){.fail = 0};
}

static void begin(void)
{
    journal_init(&b);
    fixture_open(&b);
}

/* ---- attached owners ------------------------------------------------------------------------- */

START_TEST(an_owner_has_what_the_journal_would_replay)
{
    struct owner o = {.fail = 0}, again = {.fail = 0};
    lladd_savepoint_id sp;
    begin();
    uint64_t tag = journal_tag(&b, "t");
    journal_put(&b, tag, "a b");
    attach(tag, &o);
    expect_owner(&o, "a b");
    struct lladd_txn *one = fixture_begin(&b), *two = fixture_begin(&b), *three = fixture_begin(&b);
    owner_append(one, tag, "c");
    owner_append(two, tag, "d");
    ok(one, lladd_savepoint(one, &sp));
    owner_append(one, tag, "never1");
    owner_append(one, tag, "never2");
    owner_append(three, tag, "never3");
    ok(one, lladd_rollback_to(one, sp));
    owner_append(one, tag, "e");
    commit(two);
    expect_owner(&o, "a b d");
    abort_txn(three);
    commit(one);
    expect_owner(&o, "a b d c e");
    ck_assert_uint_eq(o.logged, 2);
    ck_assert_uint_eq(o.aborted, 1);
    ck_assert_uint_eq(o.undone, 1);
    journal_expect(&b, tag, "a b d c e");
    fixture_crash(&b);
    attach(tag, &again);
    expect_owner(&again, "a b d c e");
    ck_assert_int_eq(try_attach(tag, &o), LLADD_BUSY);
    ok_db(&b, lladd_journal_detach(b.db, tag, &b.err));
    forget(&again);
    attach(tag, &again);
    expect_owner(&again, "a b d c e");
    forget(&o);
    forget(&again);
    fixture_free(&b);
}
END_TEST

START_TEST(attaching_is_all_or_nothing)
{
    struct owner o = {.fail = 0}, p = {.fail = LLADD_BAD_RECORD};
    begin();
    uint64_t tag = journal_tag(&b, "t"), other = journal_tag(&b, "u");
    journal_put(&b, tag, "a");
    journal_put(&b, other, "x");
    struct lladd_journal_attachment a[] = {{tag, &calls, &o}, {other, &calls, &p}};
    ck_assert_int_eq(lladd_journal_attach(b.db, a, 2, &b.err), LLADD_BAD_RECORD);
    ck_assert_str_eq(b.err.message, "as it was told");
    forget(&o);
    p.fail = 0;
    struct lladd_txn *txn = fixture_begin(&b);
    journal_append(txn, other, "y");
    ck_assert_int_eq(lladd_journal_attach(b.db, a, 2, &b.err), LLADD_BUSY);
    ck_assert_int_eq(lladd_journal_detach(b.db, other, &b.err), LLADD_BUSY);
    abort_txn(txn);
    a[1].tag = tag;
    ck_assert_int_eq(lladd_journal_attach(b.db, a, 2, &b.err), LLADD_BUSY);
    a[1].tag = 999;
    ck_assert_int_eq(lladd_journal_attach(b.db, a, 2, &b.err), LLADD_NOT_FOUND);
    a[1].tag = other;
    a[1].owner = NULL;
    ck_assert_int_eq(lladd_journal_attach(b.db, a, 2, &b.err), LLADD_BAD_ARGUMENT);
    a[1].owner = &calls;
    ok_db(&b, lladd_journal_attach(b.db, a, 2, &b.err));
    expect_owner(&o, "a");
    expect_owner(&p, "x");
    txn = fixture_begin(&b);
    refuses(txn, LLADD_BUSY, lladd_journal_release(txn, tag));
    abort_txn(txn);
    forget(&o);
    forget(&p);
    fixture_free(&b);
}
END_TEST

/* A discard empties the tag. A transaction in doubt has older entries in the tag. When these are
 * replayed, the discarded entries must not be replayed with them. */
START_TEST(discarded_entries_are_not_replayed_with_those_in_doubt)
{
    struct owner o = {.logged = 0};
    struct lladd_gid g = fixture_gid("x");
    journal_init(&b);
    fixture_open(&b);
    uint64_t tag = journal_tag(&b, "t");
    struct lladd_txn *txn = fixture_begin(&b), *other;
    journal_append(txn, tag, "dou");
    journal_put(&b, tag, "a b");
    journal_append(txn, tag, "bt");
    ok(txn, lladd_prepare(txn, &g));
    other = fixture_begin(&b);
    ok(other, lladd_journal_discard(other, tag, lladd_lsn_of(0)));
    commit(other);
    fixture_crash(&b);
    struct lladd_journal_attachment a = {tag, &calls, &o};
    ok_db(&b, lladd_journal_attach(b.db, &a, 1, &b.err));
    ck_assert_uint_eq(o.text.entries, 0);
    ok_db(&b, lladd_in_doubt_claim(b.db, &g, &txn, &b.err));
    commit(txn);
    ck_assert_str_eq(o.text.bytes, "dou bt");
    free(o.text.bytes);
    fixture_free(&b);
}
END_TEST

/* ---- in doubt -------------------------------------------------------------------------------- */

static struct lladd_txn *claim(const char *gid)
{
    struct lladd_gid g = fixture_gid(gid);
    struct lladd_txn *txn;
    ok_db(&b, lladd_in_doubt_claim(b.db, &g, &txn, &b.err));
    return txn;
}

START_TEST(entries_in_doubt_appear_when_they_are_committed)
{
    struct owner o = {.fail = 0};
    struct lladd_gid g = fixture_gid("x"), h = fixture_gid("y");
    lladd_savepoint_id sp;
    begin();
    uint64_t tag = journal_tag(&b, "t");
    struct lladd_txn *txn = fixture_begin(&b), *other = fixture_begin(&b);
    journal_append(txn, tag, "c");
    ok(txn, lladd_savepoint(txn, &sp));
    journal_append(txn, tag, "never");
    ok(txn, lladd_rollback_to(txn, sp));
    journal_append(txn, tag, "d");
    journal_append(other, tag, "never");
    ok(txn, lladd_prepare(txn, &g));
    ok(other, lladd_prepare(other, &h));
    journal_put(&b, tag, "a b");
    fixture_crash(&b);
    journal_expect(&b, tag, "a b");
    if (_i)
        attach(tag, &o);
    commit(claim("x"));
    abort_txn(claim("y"));
    journal_expect(&b, tag, "a b c d");
    if (_i == 0)
        attach(tag, &o);
    expect_owner(&o, "a b c d");
    ck_assert_uint_eq(o.aborted, (unsigned)_i);
    fixture_crash(&b);
    journal_expect(&b, tag, "a b c d");
    forget(&o);
    fixture_free(&b);
}
END_TEST

START_TEST(changes_in_doubt_are_made_when_they_are_committed)
{
    struct lladd_gid g = fixture_gid("x");
    uint64_t made, found;
    struct lladd_journal_info info;
    begin();
    uint64_t tag = journal_tag(&b, "t"), gone = journal_tag(&b, "gone");
    journal_put(&b, tag, "a b");
    journal_put(&b, gone, "x");
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_journal_discard(txn, tag, lladd_lsn_of(0)));
    journal_append(txn, tag, "c");
    ok(txn, lladd_journal_acquire(txn, "made", "test", &made));
    journal_append(txn, made, "m");
    ok(txn, lladd_journal_release(txn, gone));
    ok(txn, lladd_prepare(txn, &g));
    fixture_crash(&b);
    fixture_close(&b);
    fixture_open(&b);
    journal_expect(&b, tag, "a b");
    journal_expect(&b, gone, "x");
    ck_assert_int_eq(lladd_journal_find(b.db, "made", &found, &b.err), LLADD_BUSY);
    ck_assert_int_eq(lladd_journal_find(b.db, "gone", &found, &b.err), LLADD_BUSY);
    txn = fixture_begin(&b);
    refuses(txn, LLADD_BUSY, lladd_journal_discard(txn, tag, lladd_lsn_of(0)));
    abort_txn(txn);
    txn = claim("x");
    if (_i) {
        commit(txn);
        journal_expect(&b, tag, "c");
        journal_expect(&b, made, "m");
        ck_assert_int_eq(journal_info(&b, gone, &info), LLADD_NOT_FOUND);
        fixture_crash(&b);
        journal_expect(&b, tag, "c");
        journal_expect(&b, made, "m");
    } else {
        abort_txn(txn);
        journal_expect(&b, tag, "a b");
        journal_expect(&b, gone, "x");
        ck_assert_int_eq(journal_info(&b, made, &info), LLADD_NOT_FOUND);
        ck_assert_int_eq(lladd_journal_find(b.db, "made", &found, &b.err), LLADD_NOT_FOUND);
    }
    fixture_free(&b);
}
END_TEST

/* A transaction makes a tag and appends entries to it. It undoes both by a rollback to a savepoint,
 * and is prepared. After a crash, the open of the database must not look for the tag. */
START_TEST(a_tag_that_was_rolled_back_is_not_in_doubt)
{
    struct lladd_gid g = fixture_gid("x");
    struct lladd_journal_info info;
    lladd_savepoint_id sp;
    uint64_t made;
    begin();
    uint64_t tag = journal_tag(&b, "t");
    struct lladd_txn *txn = fixture_begin(&b);
    if (_i)
        journal_append(txn, tag, "a");
    ok(txn, lladd_savepoint(txn, &sp));
    ok(txn, lladd_journal_acquire(txn, "made", "test", &made));
    journal_append(txn, made, "never");
    journal_append(txn, tag, "never");
    ok(txn, lladd_rollback_to(txn, sp));
    ok(txn, lladd_prepare(txn, &g));
    fixture_crash(&b);
    ck_assert_int_eq(journal_info(&b, made, &info), LLADD_NOT_FOUND);
    commit(claim("x"));
    for (int i = 0; i < 2; i++) {
        journal_expect(&b, tag, _i ? "a" : "");
        ck_assert_int_eq(journal_info(&b, made, &info), LLADD_NOT_FOUND);
        fixture_crash(&b);
    }
    fixture_free(&b);
}
END_TEST

/* ---- rolling over ---------------------------------------------------------------------------- */

/* Among the entries of the target, those of a rollover have the place of the rollover's commit. */
START_TEST(a_rollover_has_the_place_of_its_commit)
{
    begin();
    uint64_t from = journal_tag(&b, "from"), to = journal_tag(&b, "to");
    journal_put(&b, from, "a b");
    struct lladd_txn *txn = fixture_begin(&b), *late = fixture_begin(&b);
    journal_append(late, from, "stays");
    journal_append(txn, from, "own");
    ok(txn, lladd_journal_rollover(txn, from, to));
    journal_append(txn, to, "after");
    journal_append(txn, from, "left");
    journal_put(&b, to, "earlier");
    /* The rollover does not take this entry, which was not committed when the rollover was made. */
    commit(late);
    commit(txn);
    journal_put(&b, to, "later");
    for (int i = 0; i < 2; i++) {
        journal_expect(&b, to, "earlier a b own after later");
        journal_expect(&b, from, "stays left");
        fixture_crash(&b);
    }
    txn = fixture_begin(&b);
    ok(txn, lladd_journal_release(txn, from)); /* the entries that were rolled over stay */
    commit(txn);
    fixture_crash(&b);
    journal_expect(&b, to, "earlier a b own after later");
    txn = fixture_begin(&b);
    ok(txn, lladd_journal_discard(txn, to, lladd_lsn_of(0)));
    commit(txn);
    fixture_crash(&b);
    journal_expect(&b, to, "");
    fixture_free(&b);
}
END_TEST

START_TEST(a_rollover_is_rolled_back)
{
    lladd_savepoint_id sp;
    begin();
    uint64_t from = journal_tag(&b, "from"), to = journal_tag(&b, "to");
    journal_put(&b, from, "a b");
    struct lladd_txn *txn = fixture_begin(&b), *other = fixture_begin(&b);
    journal_append(txn, from, "c");
    ok(txn, lladd_savepoint(txn, &sp));
    ok(txn, lladd_journal_rollover(txn, from, to));
    refuses(txn, LLADD_BAD_STATE, lladd_journal_rollover(txn, to, from));
    refuses(txn, LLADD_BAD_STATE, lladd_journal_release(txn, from));
    refuses(txn, LLADD_BAD_STATE, lladd_journal_release(txn, to));
    refuses(other, LLADD_BUSY, lladd_journal_rollover(other, from, to));
    ok(txn, lladd_rollback_to(txn, sp));
    commit(txn);
    journal_expect(&b, from, "a b c");
    ok(other, lladd_journal_rollover(other, from, to));
    abort_txn(other);
    fixture_crash(&b);
    journal_expect(&b, from, "a b c");
    journal_expect(&b, to, "");
    fixture_free(&b);
}
END_TEST

/* A change of a tag is refused. Other transactions can change the tag before the transaction that
 * got the refusal has ended. */
START_TEST(a_refused_change_leaves_the_tag_free)
{
    begin();
    uint64_t from = journal_tag(&b, "from"), to = journal_tag(&b, "to"),
             gone = journal_tag(&b, "gone");
    lladd_lsn newest = journal_put(&b, to, "a b");
    struct lladd_txn *txn = fixture_begin(&b), *other = fixture_begin(&b),
                     *third = fixture_begin(&b);
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_journal_discard(txn, to, lladd_lsn_of(newest.v + 1)));
    ok(other, lladd_journal_discard(other, to, lladd_lsn_of(0)));
    commit(other);
    other = fixture_begin(&b);
    ok(txn, lladd_journal_rollover(txn, from, to));
    refuses(txn, LLADD_BAD_STATE, lladd_journal_rollover(txn, to, gone));
    ok(other, lladd_journal_discard(other, to, lladd_lsn_of(0)));
    journal_append(third, gone, "x");
    refuses(other, LLADD_BUSY, lladd_journal_release(other, gone));
    ok(third, lladd_journal_discard(third, gone, lladd_lsn_of(0)));
    refuses(third, LLADD_OUT_OF_RANGE,
            lladd_journal_discard(third, gone, lladd_lsn_of(newest.v + 1000000)));
    refuses(other, LLADD_BUSY, lladd_journal_discard(other, gone, lladd_lsn_of(0)));
    commit(third);
    commit(other);
    commit(txn);
    for (int i = 0; i < 2; i++) {
        journal_expect(&b, to, "");
        journal_expect(&b, gone, "x");
        fixture_crash(&b);
    }
    fixture_free(&b);
}
END_TEST

/* ---- cleaning -------------------------------------------------------------------------------- */

static void clean_all(uint64_t tag)
{
    lladd_lsn below = lladd_object_applied_lsn(b.db);
    bool more = true;
    while (more)
        ok_db(&b, lladd_journal_clean(b.db, tag, below, &more, &b.err));
    struct lladd_journal_info info;
    ck_assert_int_eq(journal_info(&b, tag, &info), 0);
    ck_assert_uint_ge(info.oldest.v, below.v);
}

START_TEST(cleaning_changes_nothing_but_the_place)
{
    struct owner o = {.fail = 0};
    begin();
    uint64_t tag = journal_tag(&b, "t"), from = journal_tag(&b, "from");
    lladd_lsn first = journal_put(&b, tag, "a b");
    journal_put(&b, from, "x");
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_journal_rollover(txn, from, tag));
    commit(txn);
    lladd_lsn newest = journal_put(&b, tag, "c");
    attach(tag, &o);
    for (int i = 0; i < 3; i++) {
        clean_all(tag);
        lladd_lsn at;
        ok_db(&b, lladd_journal_newest(b.db, tag, &at, &b.err));
        ck_assert_uint_eq(at.v, newest.v);
        journal_expect(&b, tag, "a b x c");
        expect_owner(&o, "a b x c");
    }
    txn = fixture_begin(&b);
    ok(txn, lladd_journal_discard(txn, tag, first));
    ck_assert_int_eq(lladd_journal_clean(b.db, tag, lladd_object_applied_lsn(b.db), NULL, &b.err),
                     LLADD_BUSY);
    commit(txn);
    journal_expect(&b, tag, "x c");
    fixture_crash(&b);
    journal_expect(&b, tag, "x c");
    clean_all(tag);
    journal_put(&b, tag, "d");
    fixture_crash(&b);
    journal_expect(&b, tag, "x c d");
    ok_db(&b, lladd_journal_clean(b.db, 0, lladd_lsn_of(1), NULL, &b.err)); /* no log is so old */
    forget(&o);
    fixture_free(&b);
}
END_TEST

START_TEST(the_longest_entry_can_be_cleaned)
{
    struct text_of t = {.bytes = NULL};
    begin();
    uint64_t tag = journal_tag(&b, "t");
    size_t most = lladd_log_object_max(b.db) - LLADD_JOURNAL_HEAD_MAX;
    char *bytes = malloc(most + 1);
    memset(bytes, 'x', most + 1);
    struct lladd_txn *txn = fixture_begin(&b);
    refuses(txn, LLADD_TOO_LARGE,
            lladd_journal_append(txn, tag, lladd_span_of(bytes, most + 1), NULL));
    refuses(txn, LLADD_TOO_LARGE,
            lladd_journal_append(txn, tag, lladd_span_of(bytes, SIZE_MAX), NULL));
    ok(txn, lladd_journal_append(txn, tag, lladd_span_of(bytes, most), NULL));
    commit(txn);
    free(bytes);
    clean_all(tag);
    fixture_crash(&b);
    ok_db(&b, lladd_journal_replay(b.db, tag, text_add, &t, &b.err));
    ck_assert_uint_eq(t.len, most);
    free(t.bytes);
    fixture_free(&b);
}
END_TEST

/* The journal asks the owner for a digest only if a cleaning of the owner's tag would free enough
 * log. The journal asks once before each cleaning. */
START_TEST(an_owner_is_asked_once_before_each_cleaning)
{
    struct owner o = {.fail = 0};
    struct lladd_journal_info was, info;
    begin();
    uint64_t tag = journal_tag(&b, "t");
    journal_put(&b, tag, "a b c");
    attach(tag, &o);
    for (int i = 0; i < 3; i++) {
        journal_grow_log(&b, 10000); /* too little log: cleaning is not worth its cost */
        ok_db(&b, lladd_checkpoint(b.db, &b.err));
    }
    ck_assert_uint_eq(o.asked, 0);
    for (unsigned i = 1; i < 4; i++) {
        ck_assert_int_eq(journal_info(&b, tag, &was), 0);
        journal_grow_log(&b, 200u << 10);
        ok_db(&b, lladd_checkpoint(b.db, &b.err));
        ck_assert_uint_eq(o.asked, i);
        ck_assert_int_eq(journal_info(&b, tag, &info), 0);
        ck_assert_uint_eq(info.oldest.v, was.oldest.v); /* the tag is not cleaned yet */
        ok_db(&b, lladd_checkpoint(b.db, &b.err));
        ck_assert_uint_eq(o.asked, i);
        ck_assert_int_eq(journal_info(&b, tag, &info), 0);
        ck_assert_uint_gt(info.oldest.v, was.oldest.v);
    }
    journal_expect(&b, tag, "a b c");
    fixture_free(&b);
    forget(&o);
}
END_TEST

/* One checkpoint asks all owners that are due. The next one cleans their tags, and then releases
 * the log that was freed. */
START_TEST(owners_are_asked_together)
{
    struct owner o[3] = {{.fail = 0}};
    uint64_t tags[3];
    static const char *const names[] = {"s", "t", "u"};
    begin();
    for (int i = 0; i < 3; i++) {
        tags[i] = journal_tag(&b, names[i]);
        journal_put(&b, tags[i], "a b");
        attach(tags[i], &o[i]);
    }
    journal_grow_log(&b, 600u << 10);
    ok_db(&b, lladd_checkpoint(b.db, &b.err));
    for (int i = 0; i < 3; i++)
        ck_assert_uint_eq(o[i].asked, 1);
    uint64_t before = journal_stats(&b).log_oldest, tail = journal_stats(&b).log_tail;
    ok_db(&b, lladd_checkpoint(b.db, &b.err));
    for (int i = 0; i < 3; i++) {
        struct lladd_journal_info info;
        ck_assert_int_eq(journal_info(&b, tags[i], &info), 0);
        ck_assert_uint_ge(info.oldest.v, tail);
        ck_assert_uint_eq(o[i].asked, 1);
    }
    struct lladd_pinner p = {.kind = "none"};
    ok_db(&b, lladd_log_pinner(b.db, &p, &b.err));
    ck_assert_uint_ge(p.lsn.v, before);
    ck_assert_uint_gt(p.lsn.v, tail - (100u << 10));
    for (int i = 0; i < 3; i++)
        journal_expect(&b, tags[i], "a b");
    fixture_free(&b);
    for (int i = 0; i < 3; i++)
        forget(&o[i]);
}
END_TEST

/* The tag has more live entries than the journal would copy, so only the owner can free log. */
START_TEST(an_owner_is_asked_if_there_is_too_much_to_clean)
{
    struct owner o = {.fail = 0};
    char text[1001];
    journal_init(&b);
    b.options.log_limit_bytes = 2u << 20;
    b.options.checkpoint_bytes = 1u << 20;
    fixture_open(&b);
    uint64_t tag = journal_tag(&b, "t");
    attach(tag, &o);
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    for (int i = 0; i < 1200; i++) {
        struct lladd_txn *txn = fixture_begin(&b);
        journal_append(txn, tag, text);
        commit(txn);
    }
    ok_db(&b, lladd_checkpoint(b.db, &b.err));
    ck_assert_uint_eq(o.asked, 1);
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_journal_discard(txn, tag, lladd_lsn_of(0)));
    commit(txn);
    fixture_free(&b);
    forget(&o);
}
END_TEST

/* One tag has old entries, and much other log is written. The log stays within its limit. _i: an
 * owner is attached, and discards nothing when it is asked. */
START_TEST(a_cold_tag_does_not_fill_the_log)
{
    struct owner o = {.leaves = true};
    begin();
    fixture_close(&b);
    b.options.log_limit_bytes = 2u << 20;
    b.options.checkpoint_bytes = 256u << 10;
    fixture_open(&b);
    uint64_t tag = journal_tag(&b, "cold");
    journal_put(&b, tag, "a b c");
    if (_i)
        attach(tag, &o);
    uint64_t before = journal_stats(&b).log_oldest;
    for (int i = 0; i < 40; i++) {
        journal_grow_log(&b, 200u << 10);
        ok_db(&b, lladd_maintain(b.db, NULL, &b.err));
        ck_assert_uint_le(journal_stats(&b).log_disk_bytes, b.options.log_limit_bytes);
    }
    ck_assert_uint_gt(journal_stats(&b).log_oldest, before);
    ck_assert_int_eq(o.asked != 0, _i);
    if (_i)
        ok_db(&b, lladd_journal_detach(b.db, tag, &b.err));
    journal_expect(&b, tag, "a b c");
    fixture_crash(&b);
    journal_expect(&b, tag, "a b c");
    forget(&o);
    fixture_free(&b);
}
END_TEST

/* Live entries of several tags have a third of the log's limit, and stay. Other transactions must
 * not be refused. _i: the library's maintenance runs in between, so the limit holds exactly. */
START_TEST(many_live_entries_do_not_fill_the_log)
{
    enum { TAGS = 8, ENTRIES = 8, LIMIT = 1 << 20 };
    uint64_t tag[TAGS];
    char text[5001];
    journal_init(&b);
    b.options.log_limit_bytes = LIMIT;
    b.options.log_segment_min = 4u << 10;
    b.options.log_segment_max = 16u << 10;
    fixture_open(&b);
    for (unsigned i = 0; i < TAGS; i++)
        tag[i] = journal_tag(&b, (char[2]){(char)('a' + i), 0});
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    for (unsigned i = 0; i < TAGS * ENTRIES; i++) {
        struct lladd_txn *txn = fixture_begin(&b);
        journal_append(txn, tag[i % TAGS], text);
        commit(txn);
    }
    for (int i = 0; i < 200; i++) {
        journal_grow_log(&b, 30u << 10); /* asserts that no update is refused */
        if (_i)
            ok_db(&b, lladd_maintain(b.db, NULL, &b.err));
        ck_assert_uint_le(journal_stats(&b).log_disk_bytes, LIMIT + (_i ? 0 : LIMIT / 4));
    }
    fixture_crash(&b);
    for (unsigned i = 0; i < TAGS; i++) {
        struct lladd_journal_info info;
        ck_assert_int_eq(journal_info(&b, tag[i], &info), 0);
        ck_assert_uint_eq(info.entries, ENTRIES);
    }
    fixture_free(&b);
}
END_TEST

static int append_later(uint64_t tag, const char *text)
{
    struct lladd_txn_options later = LLADD_TXN_OPTIONS_INIT;
    struct lladd_txn *txn;
    later.durability = LLADD_DURABLE_LATER;
    ok_db(&b, lladd_begin(b.db, &later, &txn, &b.err));
    int rc = lladd_journal_append(txn, tag, lladd_span_of(text, strlen(text)), NULL);
    if (rc)
        ok(txn, lladd_abort(txn));
    else
        commit(txn);
    return rc;
}

/* A log that is full of entries is free again when the entries are discarded, even by a commit that
 * does not sync. _i 1: a call gets LLADD_LOG_FULL instead of a checkpoint, and the test takes the
 * checkpoints. */
START_TEST(a_log_full_of_entries_is_free_when_they_are_discarded)
{
    struct lladd_txn_options o = LLADD_TXN_OPTIONS_INIT;
    struct lladd_txn *txn;
    char text[5001];
    journal_init(&b);
    b.options.log_limit_bytes = 1u << 20;
    b.options.log_segment_min = 4u << 10;
    b.options.log_segment_max = 16u << 10;
    if (_i)
        b.options.flags |= LLADD_OPT_LOG_FULL_ERROR;
    fixture_open(&b);
    uint64_t tag = journal_tag(&b, "t");
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    o.frees_log = true;
    o.durability = LLADD_DURABLE_LATER;
    for (unsigned i = 0; i < 5; i++) {
        unsigned n = 0;
        while (append_later(tag, text) == 0)
            ck_assert_uint_lt(n++, 1000);
        ck_assert_uint_gt(n, 100); /* the discarded entries have left the log, so there is room
                                    * again */
        for (unsigned k = 0; k < 5; k++)
            ck_assert_int_eq(append_later(tag, text), LLADD_LOG_FULL);
        ok_db(&b, lladd_begin(b.db, &o, &txn, &b.err));
        ok(txn, lladd_journal_discard(txn, tag, lladd_lsn_of(0)));
        commit(txn);
        if (_i)
            ok_db(&b, lladd_checkpoint(b.db, &b.err));
        ck_assert_int_eq(append_later(tag, text), 0);
    }
    fixture_free(&b);
}
END_TEST

/* For a tag with many commits, the journal counts the entries of several commits together. A third
 * of the entries is discarded. Then the number of live entries that the journal states is exact, or
 * too high by at most 0.4 % of the number of commits. */
START_TEST(counts_of_many_commits_are_nearly_exact)
{
    enum { COMMITS = 3000 };
    struct lladd_journal_info info;
    struct text_of t = {.bytes = NULL};
    lladd_lsn at[COMMITS];
    begin();
    uint64_t tag = journal_tag(&b, "t");
    struct lladd_txn_options later = LLADD_TXN_OPTIONS_INIT;
    later.durability = LLADD_DURABLE_LATER;
    for (unsigned i = 0; i < COMMITS; i++) {
        struct lladd_txn *txn;
        ok_db(&b, lladd_begin(b.db, &later, &txn, &b.err));
        journal_append(txn, tag, "e");
        ok(txn, lladd_commit_async(txn, &at[i]));
    }
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_journal_discard(txn, tag, at[1000]));
    commit(txn);
    ok_db(&b, lladd_journal_replay(b.db, tag, text_add, &t, &b.err));
    ck_assert_uint_eq(t.entries, COMMITS - 1001);
    ck_assert_int_eq(journal_info(&b, tag, &info), 0);
    ck_assert_uint_ge(info.entries, t.entries);
    ck_assert_uint_le(info.entries, t.entries + COMMITS / 250);
    clean_all(tag);
    ck_assert_int_eq(journal_info(&b, tag, &info), 0);
    ck_assert_uint_eq(info.entries, t.entries); /* after cleaning the count is exact */
    fixture_crash(&b);
    ck_assert_int_eq(journal_info(&b, tag, &info), 0);
    ck_assert_uint_eq(info.entries, t.entries);
    free(t.bytes);
    fixture_free(&b);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("journal owners");
    TCase *tc = tcase_create("all");
    tcase_add_loop_test(tc, a_log_full_of_entries_is_free_when_they_are_discarded, 0, 2);
    tcase_add_test(tc, an_owner_has_what_the_journal_would_replay);
    tcase_add_test(tc, attaching_is_all_or_nothing);
    tcase_add_loop_test(tc, entries_in_doubt_appear_when_they_are_committed, 0, 2);
    tcase_add_test(tc, discarded_entries_are_not_replayed_with_those_in_doubt);
    tcase_add_loop_test(tc, changes_in_doubt_are_made_when_they_are_committed, 0, 2);
    tcase_add_loop_test(tc, a_tag_that_was_rolled_back_is_not_in_doubt, 0, 2);
    tcase_add_test(tc, a_rollover_has_the_place_of_its_commit);
    tcase_add_test(tc, a_rollover_is_rolled_back);
    tcase_add_test(tc, a_refused_change_leaves_the_tag_free);
    tcase_add_test(tc, cleaning_changes_nothing_but_the_place);
    tcase_add_test(tc, the_longest_entry_can_be_cleaned);
    tcase_add_test(tc, an_owner_is_asked_once_before_each_cleaning);
    tcase_add_test(tc, owners_are_asked_together);
    tcase_add_test(tc, an_owner_is_asked_if_there_is_too_much_to_clean);
    tcase_add_loop_test(tc, a_cold_tag_does_not_fill_the_log, 0, 2);
    tcase_add_loop_test(tc, many_live_entries_do_not_fill_the_log, 0, 2);
    tcase_add_test(tc, counts_of_many_commits_are_nearly_exact);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
