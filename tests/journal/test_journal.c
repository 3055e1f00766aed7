/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The journal. A replay returns exactly the committed entries that were not discarded, in the order
 * of commits. Most cases are checked at once and again after a power failure.
 */
#include "journal_fixture.h"

#include <lladd/log_read.h>
#include <stdio.h>

static struct fixture b;

static void begin(void)
{
    journal_init(&b);
    fixture_open(&b);
}

/* Expects these entries now, after a crash, and after a clean close. */
static void expect_for_good(uint64_t tag, const char *words)
{
    journal_expect(&b, tag, words);
    fixture_crash(&b);
    journal_expect(&b, tag, words);
    fixture_close(&b);
    fixture_open(&b);
    journal_expect(&b, tag, words);
}

/* ---- tags ------------------------------------------------------------------------------------ */

START_TEST(a_tag_is_found_again_by_its_name)
{
    uint64_t tag, again;
    begin();
    ck_assert_int_eq(lladd_journal_find(b.db, "orders", &tag, &b.err), LLADD_NOT_FOUND);
    tag = journal_tag(&b, "orders");
    ck_assert_uint_ne(journal_tag(&b, "returns"), tag);
    ck_assert_uint_eq(journal_tag(&b, "orders"), tag);
    fixture_crash(&b);
    ok_db(&b, lladd_journal_find(b.db, "orders", &again, &b.err));
    ck_assert_uint_eq(again, tag);
    struct lladd_txn *txn = fixture_begin(&b);
    refuses(txn, LLADD_EXISTS, lladd_journal_acquire(txn, "orders", "another owner", &again));
    abort_txn(txn);
    fixture_free(&b);
}
END_TEST

START_TEST(an_abort_removes_the_tag_that_the_transaction_has_made)
{
    uint64_t tag, other;
    begin();
    struct lladd_txn *txn = fixture_begin(&b), *second = fixture_begin(&b);
    ok(txn, lladd_journal_acquire(txn, "orders", "test", &tag));
    ok(txn, lladd_journal_acquire(txn, "orders", "test", &other));
    ck_assert_uint_eq(tag, other);
    journal_append(txn, tag, "a");
    refuses(second, LLADD_BUSY, lladd_journal_acquire(second, "orders", "test", &other));
    refuses(second, LLADD_BUSY, lladd_journal_append(second, tag, lladd_span_of("x", 1), NULL));
    abort_txn(txn);
    refuses(second, LLADD_NOT_FOUND,
            lladd_journal_append(second, tag, lladd_span_of("x", 1), NULL));
    ok(second, lladd_journal_acquire(second, "orders", "test", &other));
    ck_assert_uint_ne(other, tag);
    journal_append(second, other, "b");
    commit(second);
    expect_for_good(other, "b");
    fixture_free(&b);
}
END_TEST

START_TEST(a_rollback_to_a_savepoint_removes_a_new_tag)
{
    uint64_t tag, other;
    lladd_savepoint_id sp;
    begin();
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_savepoint(txn, &sp));
    ok(txn, lladd_journal_acquire(txn, "orders", "test", &tag));
    journal_append(txn, tag, "a");
    ok(txn, lladd_rollback_to(txn, sp));
    refuses(txn, LLADD_NOT_FOUND, lladd_journal_append(txn, tag, lladd_span_of("x", 1), NULL));
    ok(txn, lladd_journal_acquire(txn, "orders", "test", &other));
    journal_append(txn, other, "b");
    commit(txn);
    ck_assert_int_eq(lladd_journal_newest(b.db, tag, &(lladd_lsn){0}, &b.err), LLADD_NOT_FOUND);
    expect_for_good(other, "b");
    fixture_free(&b);
}
END_TEST

START_TEST(a_released_tag_is_gone_with_its_entries)
{
    struct lladd_journal_info info;
    uint64_t again;
    begin();
    uint64_t tag = journal_tag(&b, "orders");
    journal_put(&b, tag, "a b");
    struct lladd_txn *txn = fixture_begin(&b), *other = fixture_begin(&b);
    journal_append(txn, tag, "c");
    ok(txn, lladd_journal_release(txn, tag));
    refuses(txn, LLADD_NOT_FOUND, lladd_journal_append(txn, tag, lladd_span_of("x", 1), NULL));
    refuses(other, LLADD_BUSY, lladd_journal_append(other, tag, lladd_span_of("x", 1), NULL));
    refuses(other, LLADD_BUSY, lladd_journal_acquire(other, "orders", "test", &again));
    abort_txn(txn);
    journal_expect(&b, tag, "a b");
    txn = fixture_begin(&b);
    refuses(txn, LLADD_NOT_FOUND, lladd_journal_release(txn, tag + 1));
    journal_append(other, tag, "d");
    refuses(txn, LLADD_BUSY, lladd_journal_release(txn, tag));
    abort_txn(txn);
    commit(other);
    journal_expect(&b, tag, "a b d");
    /* A tag that is released and created again in one transaction is another tag. */
    txn = fixture_begin(&b);
    ok(txn, lladd_journal_release(txn, tag));
    ok(txn, lladd_journal_acquire(txn, "orders", "test", &again));
    ck_assert_uint_ne(again, tag);
    journal_append(txn, again, "new");
    commit(txn);
    ck_assert_int_eq(journal_info(&b, tag, &info), LLADD_NOT_FOUND);
    expect_for_good(again, "new");
    ck_assert_int_eq(journal_info(&b, tag, &info), LLADD_NOT_FOUND);
    fixture_free(&b);
}
END_TEST

/* ---- entries --------------------------------------------------------------------------------- */

START_TEST(entries_come_in_the_order_of_commits)
{
    begin();
    uint64_t tag = journal_tag(&b, "t"), other = journal_tag(&b, "u");
    struct lladd_txn *one = fixture_begin(&b), *two = fixture_begin(&b), *three = fixture_begin(&b);
    journal_append(one, tag, "a1");
    journal_append(two, tag, "b1");
    journal_append(two, other, "x");
    journal_append(one, tag, "a2");
    journal_append(three, tag, "never");
    journal_append(two, tag, "b2");
    journal_expect(&b, tag, "");
    commit(two);
    journal_expect(&b, tag, "b1 b2");
    commit(one);
    abort_txn(three);
    journal_expect(&b, other, "x");
    expect_for_good(tag, "b1 b2 a1 a2");
    journal_expect(&b, other, "x");
    fixture_free(&b);
}
END_TEST

START_TEST(what_was_not_committed_at_a_crash_never_appears)
{
    begin();
    uint64_t tag = journal_tag(&b, "t");
    struct lladd_txn *txn = fixture_begin(&b);
    journal_append(txn, tag, "never");
    journal_put(&b, tag, "a"); /* makes the record of `txn` durable */
    fixture_crash(&b);
    journal_expect(&b, tag, "a");
    journal_put(&b, tag, "b");
    expect_for_good(tag, "a b");
    fixture_free(&b);
}
END_TEST

START_TEST(empty_and_long_entries_are_entries)
{
    begin();
    uint64_t tag = journal_tag(&b, "t");
    struct lladd_txn *txn = fixture_begin(&b);
    size_t max = 50000; /* an entry that spans blocks of the log */
    char *big = malloc(max + 1);
    memset(big, 'x', max);
    big[max] = 0;
    ok(txn, lladd_journal_append(txn, tag, lladd_span_of(NULL, 0), NULL));
    journal_append(txn, tag, big);
    char *huge = calloc(1, 1u << 20);
    refuses(txn, LLADD_TOO_LARGE,
            lladd_journal_append(txn, tag, lladd_span_of(huge, 1u << 20), NULL));
    free(huge);
    journal_append(txn, tag, "end");
    commit(txn);
    for (int i = 0; i < 2; i++) {
        struct text_of t = {.bytes = NULL};
        ok_db(&b, lladd_journal_replay(b.db, tag, text_add, &t, &b.err));
        ck_assert_uint_eq(t.entries, 3);
        ck_assert_uint_eq(t.len, max + 4); /* the empty entry leaves nothing in the text */
        free(t.bytes);
        fixture_crash(&b);
    }
    free(big);
    fixture_free(&b);
}
END_TEST

START_TEST(rollbacks_to_savepoints_undo_entries)
{
    lladd_savepoint_id sp, inner;
    begin();
    uint64_t tag = journal_tag(&b, "t"), other = journal_tag(&b, "u");
    struct lladd_txn *txn = fixture_begin(&b);
    journal_append(txn, tag, "a");
    ok(txn, lladd_savepoint(txn, &sp));
    journal_append(txn, tag, "never1");
    journal_append(txn, other, "never2");
    ok(txn, lladd_savepoint(txn, &inner));
    journal_append(txn, tag, "never3");
    ok(txn, lladd_rollback_to(txn, inner));
    journal_append(txn, tag, "never4");
    ok(txn, lladd_rollback_to(txn, sp));
    ok(txn, lladd_rollback_to(txn, sp));
    journal_append(txn, tag, "b");
    ok(txn, lladd_rollback_to(txn, sp));
    journal_append(txn, tag, "c");
    ok(txn, lladd_savepoint(txn, &inner));
    journal_append(txn, tag, "d");
    ok(txn, lladd_savepoint_release(txn, inner));
    commit(txn);
    journal_expect(&b, other, "");
    expect_for_good(tag, "a c d");
    journal_expect(&b, other, "");
    fixture_free(&b);
}
END_TEST

START_TEST(top_actions_make_no_difference_unless_they_are_aborted)
{
    struct lladd_action action;
    lladd_savepoint_id sp;
    begin();
    uint64_t tag = journal_tag(&b, "t");
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_nta_begin(txn, &action));
    journal_append(txn, tag, "a");
    ok(txn, lladd_nta_end(txn, &action, LLADD_NO_OP, NULL, 0));
    ok(txn, lladd_nta_begin(txn, &action));
    journal_append(txn, tag, "never");
    ok(txn, lladd_nta_abort(txn, &action));
    ok(txn, lladd_savepoint(txn, &sp));
    ok(txn, lladd_nta_begin(txn, &action));
    journal_append(txn, tag, "never");
    ok(txn, lladd_nta_end(txn, &action, LLADD_NO_OP, NULL, 0));
    ok(txn, lladd_rollback_to(txn, sp));
    ok(txn, lladd_nta_begin(txn, &action));
    journal_append(txn, tag, "b");
    ok(txn, lladd_nta_end(txn, &action, LLADD_NO_OP, NULL, 0));
    commit(txn);
    txn = fixture_begin(&b);
    ok(txn, lladd_nta_begin(txn, &action));
    journal_append(txn, tag, "never");
    ok(txn, lladd_nta_end(txn, &action, LLADD_NO_OP, NULL, 0));
    abort_txn(txn);
    expect_for_good(tag, "a b");
    fixture_free(&b);
}
END_TEST

/* A rollback of the transaction would keep what a closed top action has changed in the catalogue.
 * So changes of tags are refused in a top action. */
START_TEST(tags_are_not_changed_in_top_actions)
{
    struct lladd_action action;
    uint64_t other;
    begin();
    uint64_t tag = journal_tag(&b, "t"), spare = journal_tag(&b, "spare");
    struct lladd_txn *txn = fixture_begin(&b);
    journal_append(txn, tag, "a");
    commit(txn);
    txn = fixture_begin(&b);
    ok(txn, lladd_nta_begin(txn, &action));
    ck_assert_int_eq(lladd_journal_discard(txn, tag, lladd_lsn_of(0)), LLADD_BAD_STATE);
    ck_assert_int_eq(lladd_journal_rollover(txn, tag, spare), LLADD_BAD_STATE);
    ck_assert_int_eq(lladd_journal_release(txn, spare), LLADD_BAD_STATE);
    ck_assert_int_eq(lladd_journal_acquire(txn, "new", "test", &other), LLADD_BAD_STATE);
    ck_assert_ptr_nonnull(strstr(lladd_txn_error(txn)->message, "in a top action"));
    journal_append(txn, tag, "b");
    ok(txn, lladd_nta_end(txn, &action, LLADD_NO_OP, NULL, 0));
    ok(txn, lladd_journal_release(txn, spare));
    commit(txn);
    expect_for_good(tag, "a b");
    fixture_free(&b);
}
END_TEST

/* ---- discarding ------------------------------------------------------------------------------ */

START_TEST(a_discard_takes_effect_when_it_commits)
{
    begin();
    uint64_t tag = journal_tag(&b, "t");
    journal_put(&b, tag, "a b");
    lladd_lsn upto = journal_put(&b, tag, "c");
    lladd_lsn later = journal_put(&b, tag, "d");
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_journal_discard(txn, tag, upto));
    journal_append(txn, tag, "never");
    abort_txn(txn);
    journal_expect(&b, tag, "a b c d");
    txn = fixture_begin(&b);
    journal_append(txn, tag, "e"); /* the transaction's own entries stay */
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_journal_discard(txn, tag, lladd_lsn_of(later.v + 1)));
    ok(txn, lladd_journal_discard(txn, tag, upto));
    ok(txn, lladd_journal_discard(txn, tag, upto));
    journal_expect(&b, tag, "a b c d"); /* the discard is not committed yet */
    commit(txn);
    expect_for_good(tag, "d e");
    txn = fixture_begin(&b);
    ok(txn, lladd_journal_discard(txn, tag, upto)); /* these entries are discarded already */
    ok(txn, lladd_journal_discard(txn, tag, lladd_lsn_of(0)));
    journal_append(txn, tag, "f");
    commit(txn);
    expect_for_good(tag, "f");
    fixture_free(&b);
}
END_TEST

START_TEST(a_crash_undoes_an_uncommitted_discard)
{
    begin();
    uint64_t tag = journal_tag(&b, "t"), other = journal_tag(&b, "u");
    journal_put(&b, tag, "a b");
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_journal_discard(txn, tag, lladd_lsn_of(0)));
    journal_put(&b, other, "x");
    ok_db(&b, lladd_checkpoint(b.db, &b.err)); /* writes the tag's row to the page file */
    journal_grow_log(&b, 300u << 10);
    ok_db(&b, lladd_checkpoint(b.db, &b.err));
    fixture_crash(&b);
    expect_for_good(tag, "a b");
    fixture_free(&b);
}
END_TEST

START_TEST(a_rollback_to_a_savepoint_undoes_a_discard)
{
    lladd_savepoint_id sp;
    begin();
    uint64_t tag = journal_tag(&b, "t");
    lladd_lsn first = journal_put(&b, tag, "a");
    journal_put(&b, tag, "b");
    struct lladd_txn *txn = fixture_begin(&b), *other = fixture_begin(&b);
    ok(txn, lladd_journal_discard(txn, tag, first));
    ok(txn, lladd_savepoint(txn, &sp));
    ok(txn, lladd_journal_discard(txn, tag, lladd_lsn_of(0)));
    refuses(other, LLADD_BUSY, lladd_journal_discard(other, tag, first));
    ok(txn, lladd_rollback_to(txn, sp));
    abort_txn(other);
    commit(txn);
    expect_for_good(tag, "b");
    fixture_free(&b);
}
END_TEST

/* ---- the log --------------------------------------------------------------------------------- */

START_TEST(live_entries_keep_the_log_and_their_tag_is_named)
{
    struct lladd_pinner who;
    begin();
    uint64_t tag = journal_tag(&b, "orders"), young = journal_tag(&b, "young");
    journal_put(&b, tag, "a");
    uint64_t oldest = journal_stats(&b).log_oldest;
    struct lladd_journal_info info;
    ck_assert_int_eq(journal_info(&b, tag, &info), 0);
    for (int i = 0; i < 3; i++) { /* too little log: cleaning is not worth its cost */
        journal_put(&b, young, "y");
        journal_grow_log(&b, 10000);
        ok_db(&b, lladd_checkpoint(b.db, &b.err));
    }
    ck_assert_uint_eq(journal_stats(&b).log_oldest, oldest);
    ok_db(&b, lladd_log_pinner(b.db, &who, &b.err));
    ck_assert_str_eq(who.kind, "class");
    ck_assert_str_eq(who.name, "journal tag \"orders\" of \"test\"");
    ck_assert_uint_le(who.lsn.v, info.oldest.v);
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_journal_discard(txn, tag, lladd_lsn_of(0)));
    commit(txn);
    ok_db(&b, lladd_log_pinner(b.db, &who, &b.err));
    ck_assert_str_eq(who.name, "journal tag \"young\" of \"test\"");
    txn = fixture_begin(&b);
    ok(txn, lladd_journal_discard(txn, young, lladd_lsn_of(0)));
    commit(txn);
    journal_grow_log(&b, 200u << 10);
    ok_db(&b, lladd_checkpoint(b.db, &b.err));
    ok_db(&b, lladd_checkpoint(b.db, &b.err));
    ck_assert_uint_gt(journal_stats(&b).log_oldest, oldest);
    fixture_crash(&b);
    journal_put(&b, tag, "b");
    expect_for_good(tag, "b");
    journal_expect(&b, young, "");
    fixture_free(&b);
}
END_TEST

/* ---- the mark -------------------------------------------------------------------------------- */

/* The mark is the LSN from which on the journal needs the log. It is stored under the name
 * "journal.mark", and checkpoints move it. */

static void more_roots(unsigned n)
{
    char name[32];
    struct lladd_txn *txn = fixture_begin(&b);
    for (unsigned i = 0; i < n; i++) {
        snprintf(name, sizeof name, "root %u", i);
        ok(txn, lladd_root_set(txn, name, (struct lladd_root_value){i, 0}));
    }
    commit(txn);
}

static void expect_mark_moves(uint64_t tag)
{
    struct lladd_root_value mark;
    for (int i = 0; i < 2; i++) {
        journal_put(&b, tag, "a");
        struct lladd_txn *txn = fixture_begin(&b);
        ok(txn, lladd_journal_discard(txn, tag, lladd_lsn_of(0)));
        commit(txn);
        journal_grow_log(&b, 100u << 10);
        ok_db(&b, lladd_checkpoint(b.db, &b.err));
    }
    ok_db(&b, lladd_root_get(b.db, "journal.mark", &mark, &b.err));
    ck_assert_uint_gt(mark.a, 0);
}

/* A checkpoint that moves the mark must not add a name. It would wait for a thread that adds a
 * name, and that thread may wait for the checkpoint. So the mark's name must exist before, even if
 * the pages of names are full. _i: the number of other names. */
START_TEST(checkpoints_add_no_name)
{
    begin();
    more_roots((unsigned)_i);
    expect_mark_moves(journal_tag(&b, "orders"));
    fixture_free(&b);
}
END_TEST

/* Earlier versions created the mark in the first checkpoint, so a journal may have none. */
START_TEST(a_journal_without_a_mark_gets_one_when_it_is_opened)
{
    begin();
    uint64_t tag = journal_tag(&b, "orders");
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_root_delete(txn, "journal.mark"));
    commit(txn);
    more_roots((unsigned)_i);
    fixture_close(&b);
    fixture_open(&b);
    expect_mark_moves(tag);
    fixture_free(&b);
}
END_TEST

static int first_name(void *ctx, const char *name)
{
    char *first = ctx;
    if (strstr(name, ".seg") && (!first[0] || strcmp(name, first) < 0))
        snprintf(first, 64, "%s", name);
    return 0;
}

/* Recovery does not need the oldest files of the log, but they have live entries. So open must
 * notice that they are missing. */
START_TEST(a_loss_of_the_oldest_files_of_the_log_is_noticed)
{
    char entry[20001];
    begin();
    uint64_t tag = journal_tag(&b, "t");
    journal_grow_log(&b, 100u << 10);
    ok_db(&b, lladd_checkpoint(b.db, &b.err)); /* moves the mark away from the log's beginning */
    ok_db(&b, lladd_checkpoint(b.db, &b.err));
    memset(entry, 'a', sizeof entry - 1);
    entry[sizeof entry - 1] = 0;
    journal_put(&b, tag, entry);
    journal_grow_log(&b, 200u << 10); /* too little for cleaning to pay */
    ok_db(&b, lladd_checkpoint(b.db, &b.err));
    ok_db(&b, lladd_checkpoint(b.db, &b.err));
    fixture_kill(&b);
    for (int i = 0; i < 2; i++) { /* removes the two oldest files; the mark is in the second one */
        char name[64] = "", path[80];
        ck_assert_int_eq(b.base->ops->list(b.base, "log", first_name, name), 0);
        snprintf(path, sizeof path, "log/%s", name);
        ck_assert_int_eq(b.base->ops->unlink(b.base, path), 0);
    }
    ck_assert_int_eq(fixture_try_open(&b), LLADD_MISSING_FILE);
    ck_assert_ptr_nonnull(strstr(b.err.message, "the journal needs the log from LSN"));
    fixture_free(&b);
}
END_TEST

/* The commit of a discard is lost in a crash, so the discarded entries must still be there. */
START_TEST(entries_of_a_lost_discard_are_in_the_log)
{
    begin();
    uint64_t tag = journal_tag(&b, "t");
    journal_put(&b, tag, "a b");
    journal_grow_log(&b, 20000); /* too little for cleaning to pay */
    struct lladd_txn_options later = LLADD_TXN_OPTIONS_INIT;
    later.durability = LLADD_DURABLE_LATER;
    ok_db(&b, lladd_checkpoint(b.db, &b.err));
    struct lladd_txn *txn;
    ok_db(&b, lladd_begin(b.db, &later, &txn, &b.err));
    ok(txn, lladd_journal_discard(txn, tag, lladd_lsn_of(0)));
    lladd_lsn at;
    uint64_t oldest = journal_stats(&b).log_oldest;
    ok(txn, lladd_commit(txn));
    struct lladd_pinner who;
    ok_db(&b, lladd_log_pinner(b.db, &who, &b.err));
    ck_assert_str_eq(who.kind, "class"); /* the journal's class keeps the log until the discard is
                                          * durable */
    ck_assert_uint_eq(journal_stats(&b).log_oldest, oldest);
    fixture_crash(&b);
    journal_expect(&b, tag, "a b");
    ok_db(&b, lladd_journal_newest(b.db, tag, &at, &b.err));
    fixture_free(&b);
}
END_TEST

START_TEST(entries_of_an_open_transaction_keep_the_log)
{
    begin();
    uint64_t tag = journal_tag(&b, "t");
    struct lladd_txn *txn = fixture_begin(&b);
    journal_append(txn, tag, "a");
    journal_grow_log(&b, 500u << 10);
    ok_db(&b, lladd_checkpoint(b.db, &b.err));
    ok_db(&b, lladd_checkpoint(b.db, &b.err));
    commit(txn);
    expect_for_good(tag, "a");
    fixture_free(&b);
}
END_TEST

START_TEST(wrong_arguments_are_refused)
{
    uint64_t tag = 0;
    char name[LLADD_JOURNAL_NAME_MAX + 2];
    begin();
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_span x = lladd_span_of("x", 1);
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_journal_acquire(txn, "", "o", &tag));
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_journal_acquire(txn, NULL, "o", &tag));
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_journal_acquire(txn, name, "o", &tag));
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_journal_acquire(txn, "n", name, &tag));
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_journal_acquire(txn, "n", "", &tag));
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_journal_acquire(txn, "n", "o", NULL));
    refuses(txn, LLADD_NOT_FOUND, lladd_journal_append(txn, 17, x, NULL));
    refuses(txn, LLADD_NOT_FOUND, lladd_journal_discard(txn, 17, lladd_lsn_of(0)));
    refuses(txn, LLADD_NOT_FOUND, lladd_journal_rollover(txn, 17, 18));
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_journal_rollover(txn, 17, 17));
    ck_assert_int_eq(lladd_journal_acquire(NULL, "", "o", &tag), LLADD_CLOSED);
    ck_assert_int_eq(lladd_journal_acquire(NULL, "n", "o", &tag), LLADD_CLOSED);
    ck_assert_int_eq(lladd_journal_append(NULL, 17, x, NULL), LLADD_CLOSED);
    ck_assert_int_eq(lladd_journal_discard(NULL, 17, lladd_lsn_of(0)), LLADD_CLOSED);
    ck_assert_int_eq(lladd_journal_rollover(NULL, 17, 17), LLADD_CLOSED);
    ck_assert_int_eq(lladd_journal_rollover(NULL, 17, 18), LLADD_CLOSED);
    commit(txn); /* the transaction has written nothing */
    ck_assert_int_eq(lladd_journal_newest(b.db, 17, &(lladd_lsn){0}, &b.err), LLADD_NOT_FOUND);
    ck_assert_int_eq(lladd_journal_replay(b.db, 17, text_add, NULL, &b.err), LLADD_NOT_FOUND);
    ck_assert_int_eq(lladd_journal_replay(b.db, 17, NULL, NULL, &b.err), LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(lladd_journal_detach(b.db, 17, &b.err), LLADD_NOT_FOUND);
    ck_assert_int_eq(lladd_journal_find(b.db, name, &tag, &b.err), LLADD_BAD_ARGUMENT);
    name[LLADD_JOURNAL_NAME_MAX] = 0;
    tag = journal_tag(&b, name);
    struct lladd_txn_options ro = LLADD_TXN_OPTIONS_INIT;
    ro.read_only = true;
    ok_db(&b, lladd_begin(b.db, &ro, &txn, &b.err));
    ck_assert_int_eq(lladd_journal_append(txn, tag, x, NULL), LLADD_READ_ONLY);
    commit(txn);
    fixture_free(&b);
}
END_TEST

START_TEST(the_journal_must_be_registered)
{
    uint64_t tag;
    fixture_init(&b, 4096);
    fixture_open(&b);
    struct lladd_txn *txn = fixture_begin(&b);
    refuses(txn, LLADD_BAD_STATE, lladd_journal_acquire(txn, "t", "o", &tag));
    abort_txn(txn);
    ck_assert_int_eq(lladd_journal_each(b.db, NULL, NULL, &b.err), LLADD_BAD_STATE);
    fixture_close(&b);
    ok_db(&b, lladd_journal_register(&b.options, &b.err)); /* now the database gets a journal */
    fixture_open(&b);
    tag = journal_tag(&b, "t");
    journal_put(&b, tag, "a");
    fixture_close(&b);
    lladd_options_release(&b.options);
    ck_assert_int_eq(fixture_try_open(&b), LLADD_NO_OPERATION);
    ck_assert_ptr_nonnull(strstr(b.err.message, "journal"));
    ok_db(&b, lladd_journal_register(&b.options, &b.err));
    fixture_open(&b);
    journal_expect(&b, tag, "a");
    fixture_free(&b);
}
END_TEST

START_TEST(a_newer_journal_is_refused)
{
    struct lladd_root_value root;
    begin();
    journal_tag(&b, "t");
    ok_db(&b, lladd_root_get(b.db, "journal", &root, &b.err));
    struct lladd_txn *txn = fixture_begin(&b);
    root.b++;
    ok(txn, lladd_root_set(txn, "journal", root));
    commit(txn);
    fixture_close(&b);
    ck_assert_int_eq(fixture_try_open(&b), LLADD_NEWER_FORMAT);
    ck_assert_ptr_nonnull(strstr(b.err.message, "journal"));
    fixture_free(&b);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("journal");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, a_tag_is_found_again_by_its_name);
    tcase_add_test(tc, an_abort_removes_the_tag_that_the_transaction_has_made);
    tcase_add_test(tc, a_rollback_to_a_savepoint_removes_a_new_tag);
    tcase_add_test(tc, a_released_tag_is_gone_with_its_entries);
    tcase_add_test(tc, entries_come_in_the_order_of_commits);
    tcase_add_test(tc, what_was_not_committed_at_a_crash_never_appears);
    tcase_add_test(tc, empty_and_long_entries_are_entries);
    tcase_add_test(tc, rollbacks_to_savepoints_undo_entries);
    tcase_add_test(tc, top_actions_make_no_difference_unless_they_are_aborted);
    tcase_add_test(tc, tags_are_not_changed_in_top_actions);
    tcase_add_test(tc, a_discard_takes_effect_when_it_commits);
    tcase_add_test(tc, a_crash_undoes_an_uncommitted_discard);
    tcase_add_test(tc, a_rollback_to_a_savepoint_undoes_a_discard);
    tcase_add_test(tc, live_entries_keep_the_log_and_their_tag_is_named);
    tcase_add_loop_test(tc, checkpoints_add_no_name, 0, 52);
    tcase_add_loop_test(tc, a_journal_without_a_mark_gets_one_when_it_is_opened, 0, 52);
    tcase_add_test(tc, a_loss_of_the_oldest_files_of_the_log_is_noticed);
    tcase_add_test(tc, entries_of_a_lost_discard_are_in_the_log);
    tcase_add_test(tc, entries_of_an_open_transaction_keep_the_log);
    tcase_add_test(tc, wrong_arguments_are_refused);
    tcase_add_test(tc, the_journal_must_be_registered);
    tcase_add_test(tc, a_newer_journal_is_refused);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
