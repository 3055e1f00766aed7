/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the library offers to extensions besides operations: object classes, snapshots, pins, the
 * public log cursor, notes, and the lifetime of an extension's state. A small extension uses each
 * of these. test_bulk.c tests bulk writing and page types.
 */
#include "db_fixture.h"

#include <lladd/bytes.h>
#include <lladd/inspect.h>
#include <lladd/snapshot.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct fixture r;
static lladd_pageno page;

static struct cell at(unsigned i)
{
    return cell_of(page, i);
}

/* ---- an object class: a ledger in memory ------------------------------------------------- */

/*
 * Eight counters in memory. Each addition is one object record. To bound recovery, one record saves
 * the ledger to a page, together with an LSN. The saved counters include every addition below this
 * LSN.
 */
enum { ACCOUNTS = 8 };

struct ledger {
    int64_t account[ACCOUNTS];
    lladd_pageno page; /* 0: not saved yet */
    lladd_lsn saved;   /* the page includes every addition below this LSN */
    unsigned redone, undone, checkpoints, asked;
    lladd_lsn asked_for;
    bool restarted; /* the counters must be loaded from the page */
};
static struct ledger ledger;

static lladd_lsn ledger_durable(void *ctx, struct lladd_db *db)
{
    struct ledger *l = ctx;
    struct lladd_page *p;
    if (l->restarted && l->page.v &&
        lladd_page_fix(db, l->page, LLADD_LATCH_SHARED, &p, NULL) == 0) {
        const unsigned char *body = lladd_view_body(lladd_page_view(p));
        l->saved = lladd_lsn_of(lladd_get64(body));
        for (unsigned i = 0; i < ACCOUNTS; i++)
            l->account[i] = (int64_t)lladd_get64(body + 8 + 8 * (size_t)i);
        lladd_page_unfix(db, p, LLADD_LATCH_SHARED);
    }
    l->restarted = false;
    return l->saved;
}

static int ledger_redo(void *ctx, struct lladd_db *db, lladd_lsn lsn, uint64_t object,
                       struct lladd_span redo)
{
    struct ledger *l = ctx;
    (void)db;
    (void)lsn;
    if (object >= ACCOUNTS || redo.len != 8)
        return LLADD_BAD_RECORD;
    l->account[object] += (int64_t)lladd_get64(redo.data);
    l->redone++;
    return 0;
}

static int ledger_undo(void *ctx, struct lladd_db *db, struct lladd_txn *txn,
                       lladd_lsn compensation, uint64_t object, struct lladd_span undo)
{
    struct ledger *l = ctx;
    ck_assert(!txn || lladd_txn_db(txn) == db); /* NULL while recovery redoes compensation
                                                 * records */
    ck_assert_uint_eq(lladd_page_size(db), lladd_page_size(r.db ? r.db : db));
    ck_assert_uint_ne(compensation.v, 0);
    l->account[object] -= (int64_t)lladd_get64(undo.data);
    l->undone++;
    return 0;
}

static int ledger_checkpoint(void *ctx, struct lladd_db *db)
{
    (void)db;
    ((struct ledger *)ctx)->checkpoints++;
    return 0;
}

static void ledger_advance(void *ctx, struct lladd_db *db, lladd_lsn lsn)
{
    struct ledger *l = ctx;
    (void)db;
    l->asked++;
    l->asked_for = lsn;
}

static const struct lladd_object_class ledger_class = {
    .struct_size = sizeof ledger_class,
    .name = "test.ledger",
    .version = 1,
    .ctx = &ledger,
    .durable_lsn = ledger_durable,
    .redo = ledger_redo,
    .undo = ledger_undo,
    .checkpoint = ledger_checkpoint,
    .advance = ledger_advance,
};

/* Saves the ledger by one record. So after a crash the page has either the whole new ledger or the
 * whole old one. */
enum { SAVE_BYTES = 8 + 8 * ACCOUNTS };

static int save_prepare(void *ctx, struct lladd_view view, struct lladd_span args,
                        struct lladd_draft *d)
{
    (void)ctx;
    memcpy(lladd_draft_redo(d, SAVE_BYTES), args.data, SAVE_BYTES);
    memcpy(lladd_draft_undo(d, SAVE_BYTES), lladd_view_body(view), SAVE_BYTES);
    return 0;
}

static bool save_validate(struct lladd_view view, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)view;
    (void)kind;
    return s.len == SAVE_BYTES;
}

static void save_apply(struct lladd_page *p, struct lladd_span bytes)
{
    memcpy(lladd_page_body(p), bytes.data, SAVE_BYTES);
}

static const struct lladd_op save_op = {
    .struct_size = sizeof save_op,
    .name = "test.ledger.save",
    .version = 1,
    .page_type = "test.cells",
    .record_max = 2 * SAVE_BYTES,
    .undo_kind = LLADD_UNDO_PAGE,
    .prepare = save_prepare,
    .validate = save_validate,
    .redo = save_apply,
    .undo = save_apply,
};

static void ledger_save(void)
{
    unsigned char bytes[SAVE_BYTES];
    lladd_op_id id = LLADD_NO_OP;
    lladd_lsn applied = lladd_object_applied_lsn(r.db);
    lladd_put64(bytes, applied.v);
    for (unsigned i = 0; i < ACCOUNTS; i++)
        lladd_put64(bytes + 8 + 8 * (size_t)i, (uint64_t)ledger.account[i]);
    ck_assert_int_eq(lladd_op_lookup(r.db, save_op.name, 1, &id), 0);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, lladd_update(txn, id, ledger.page, bytes, sizeof bytes));
    done(lladd_commit(txn));
    ledger.saved = applied;
}

static void ledger_begin(int kind)
{
    memset(&ledger, 0, sizeof ledger);
    fixture_init(&r, (unsigned)kind);
    ok_db(&r, lladd_register_class(&r.options, &ledger_class, &r.err));
    ok_db(&r, lladd_register_op(&r.options, &save_op, &r.err));
    fixture_open(&r);
    page = fixture_page(&r);
}

static void post(struct lladd_txn *txn, unsigned account, int64_t amount)
{
    unsigned char bytes[8];
    struct lladd_token token;
    lladd_lsn lsn;
    lladd_put64(bytes, (uint64_t)amount);
    struct lladd_span s = lladd_span_of(bytes, 8);
    ok(txn, lladd_log_object(txn, &ledger_class, account, s, s, &token, &lsn));
    ck_assert_uint_le(lladd_object_applied_lsn(r.db).v, lsn.v); /* the change is not applied in
                                                                 * memory yet */
    ledger.account[account] += amount;
    lladd_object_applied(txn, &token);
    ck_assert_uint_gt(lladd_object_applied_lsn(r.db).v, lsn.v);
}

/* Simulates a restart of the process: closes or crashes the database, clears the ledger in memory
 * except the page number, and opens the database again. */
static void ledger_restart(const struct fault_crash *how)
{
    lladd_pageno where = ledger.page;
    if (how)
        fixture_crash(&r, how);
    else
        fixture_close(&r);
    memset(&ledger, 0, sizeof ledger);
    ledger.page = where;
    ledger.restarted = true;
    fixture_open(&r);
}

START_TEST(objects_are_redone_and_undone_like_pages)
{
    ledger_begin(_i);
    struct lladd_txn *winner = fixture_begin(&r), *aborted = fixture_begin(&r),
                     *loser = fixture_begin(&r);
    post(winner, 0, 5);
    post(aborted, 0, 10);
    post(loser, 0, 100);
    post(loser, 1, 7);
    lladd_savepoint_id sp;
    ok(winner, lladd_savepoint(winner, &sp));
    post(winner, 2, 50);
    ok(winner, lladd_rollback_to(winner, sp));
    done(lladd_abort(aborted));
    ck_assert_int_eq(ledger.account[0], 105);
    ck_assert_int_eq(ledger.account[2], 0);
    post(winner, 3, 1);
    done(lladd_commit(winner));
    ledger_restart(&fault_power);
    ck_assert_int_eq(ledger.account[0], 5);
    ck_assert_int_eq(ledger.account[1], 0);
    ck_assert_int_eq(ledger.account[2], 0);
    ck_assert_int_eq(ledger.account[3], 1);
    ck_assert_uint_eq(ledger.redone, 6); /* all additions, including those that are undone
                                          * afterwards */
    ledger_restart(NULL);                /* the log is still needed after a clean stop */
    ck_assert_int_eq(ledger.account[0], 5);
    ck_assert_int_eq(ledger.account[3], 1);
    fixture_free(&r);
}
END_TEST

START_TEST(the_log_is_kept_for_a_class_and_it_is_named_until_it_has_saved)
{
    struct lladd_pinner who;
    ledger_begin(_i);
    ledger.page = fixture_page(&r);
    struct lladd_txn *txn = fixture_begin(&r);
    post(txn, 0, 5);
    done(lladd_commit(txn));
    for (unsigned i = 0; i < 20; i++) {
        txn = fixture_begin(&r);
        ok(txn, cell_put_wide(txn, at(1), i, 2000));
        done(lladd_commit(txn));
    }
    uint64_t oldest = fixture_stats(&r).log_oldest;
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    ck_assert_uint_eq(fixture_stats(&r).log_oldest, oldest);
    ok_db(&r, lladd_log_pinner(r.db, &who, &r.err));
    ck_assert_str_eq(who.kind, "class");
    ck_assert_str_eq(who.name, "test.ledger");
    ck_assert_uint_gt(ledger.checkpoints, 0);
    ck_assert_uint_gt(ledger.asked, 0); /* the library has asked the class to save */
    ck_assert_uint_gt(ledger.asked_for.v, 0);
    ledger_save();
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    ck_assert_uint_gt(fixture_stats(&r).log_oldest, oldest + 20 * 2000);
    txn = fixture_begin(&r);
    post(txn, 0, 6);
    done(lladd_commit(txn));
    ledger_restart(&fault_power);
    ck_assert_int_eq(ledger.account[0], 11);
    ck_assert_uint_eq(ledger.redone, 1); /* the page includes the older addition */
    fixture_free(&r);
}
END_TEST

/* Only the class itself knows which of its records it still needs. So while the class is not
 * registered, the log must not be truncated, and open must be refused. */
START_TEST(a_missing_class_is_named_though_its_records_are_older_than_the_checkpoint)
{
    ledger_begin(_i);
    struct lladd_txn *txn = fixture_begin(&r);
    post(txn, 0, 5);
    done(lladd_commit(txn));
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    if (_i & FIXTURE_RESERVED)
        fixture_crash(&r, &fault_kill);
    else
        fixture_close(&r);
    lladd_options_release(&r.options);
    ok_db(&r, lladd_register_extension(&r.options, &test_extension, &r.err));
    ck_assert_int_eq(fixture_try_open(&r), LLADD_NO_OPERATION);
    ck_contains(r.err.message, "test.ledger");
    ok_db(&r, lladd_register_class(&r.options, &ledger_class, &r.err));
    ok_db(&r, lladd_register_op(&r.options, &save_op, &r.err));
    memset(&ledger, 0, sizeof ledger);
    fixture_open(&r);
    ck_assert_int_eq(ledger.account[0], 5);
    fixture_free(&r);
}
END_TEST

START_TEST(wrong_object_records_are_refused)
{
    static const struct lladd_object_class unknown = {
        .struct_size = sizeof unknown, .name = "test.unknown", .version = 1, .redo = ledger_redo};
    static const struct lladd_object_class no_undo = {.struct_size = sizeof no_undo,
                                                      .name = "test.oneway",
                                                      .version = 1,
                                                      .ctx = &ledger,
                                                      .redo = ledger_redo};
    struct lladd_token token;
    struct lladd_span s = lladd_span_of("12345678", 8), none = {NULL, 0};
    memset(&ledger, 0, sizeof ledger);
    fixture_init(&r, (unsigned)_i);
    ok_db(&r, lladd_register_class(&r.options, &ledger_class, &r.err));
    ok_db(&r, lladd_register_class(&r.options, &no_undo, &r.err));
    fixture_open(&r);
    struct lladd_txn *txn = fixture_begin(&r);
    refused(txn, LLADD_BAD_ARGUMENT, lladd_log_object(txn, &unknown, 0, s, s, &token, NULL));
    refused(txn, LLADD_BAD_ARGUMENT, lladd_log_object(txn, &ledger_class, 0, s, s, NULL, NULL));
    refused(txn, LLADD_BAD_ARGUMENT,
            lladd_log_object(txn, &ledger_class, LLADD_NO_PAGE, s, s, &token, NULL));
    refused(txn, LLADD_BAD_ARGUMENT, lladd_log_object(txn, &no_undo, 0, s, s, &token, NULL));
    void *big = calloc(1, 32u << 10);
    refused(
        txn, LLADD_TOO_LARGE,
        lladd_log_object(txn, &ledger_class, 0, lladd_span_of(big, 32u << 10), none, &token, NULL));
    free(big);
    /* A change without undo stays when the transaction aborts. */
    ok(txn, lladd_log_object(txn, &no_undo, 3, s, none, &token, NULL));
    ledger.account[3] = 1;
    lladd_object_applied(txn, &token);
    done(lladd_abort(txn));
    ck_assert_int_eq(ledger.account[3], 1);
    fixture_free(&r);
}
END_TEST

/* A class rejects its record in redo. Recovery stops, and names the class and the LSN. */
START_TEST(a_class_that_cannot_redo_stops_recovery_with_its_name)
{
    struct lladd_token token;
    ledger_begin(_i);
    struct lladd_txn *txn = fixture_begin(&r);
    struct lladd_span s = lladd_span_of("short", 5), none = {NULL, 0};
    lladd_lsn lsn;
    ok(txn, lladd_log_object(txn, &ledger_class, 0, s, none, &token, &lsn));
    lladd_object_applied(txn, &token);
    done(lladd_commit(txn));
    fixture_crash(&r, &fault_power);
    ck_assert_int_eq(fixture_try_open(&r), LLADD_BAD_RECORD);
    ck_contains(r.err.message, "test.ledger");
    ck_assert_uint_eq(r.err.lsn.v, lsn.v);
    fixture_free(&r);
}
END_TEST

/* ---- snapshots --------------------------------------------------------------------------- */

START_TEST(snapshots_are_commit_lsns_and_the_oldest_is_known)
{
    lladd_lsn a, b, c, commit;
    fixture_init(&r, (unsigned)_i);
    fixture_open(&r);
    page = fixture_page(&r);
    ok_db(&r, lladd_snapshot_acquire(r.db, &a, &r.err));
    ok_db(&r, lladd_snapshot_acquire(r.db, &b, &r.err));
    ck_assert_uint_eq(a.v, b.v);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, cell_put(txn, at(0), 1));
    ok_db(&r, lladd_snapshot_acquire(r.db, &c, &r.err));
    ck_assert_uint_eq(c.v, a.v); /* a snapshot does not include an open transaction */
    ck_assert_int_eq(lladd_snapshot_release(r.db, c), 0);
    done(lladd_commit_async(txn, &commit));
    ok_db(&r, lladd_snapshot_acquire(r.db, &c, &r.err));
    ck_assert_uint_eq(c.v, commit.v); /* it includes a commit that has returned */
    ck_assert_uint_eq(lladd_snapshot_oldest(r.db).v, a.v);
    ck_assert_int_eq(lladd_snapshot_release(r.db, a), 0);
    ck_assert_uint_eq(lladd_snapshot_oldest(r.db).v, a.v); /* b is equal and still held */
    ck_assert_int_eq(lladd_snapshot_release(r.db, b), 0);
    ck_assert_uint_eq(lladd_snapshot_oldest(r.db).v, c.v);
    ck_assert_int_eq(lladd_snapshot_release(r.db, a), LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(lladd_snapshot_release(r.db, c), 0);
    fixture_set(&r, at(0), 2);
    ck_assert_uint_gt(lladd_snapshot_oldest(r.db).v, c.v); /* no snapshot is held, so this is the
                                                            * newest commit */
    for (unsigned i = 0; i < 40; i++) {                    /* any number of snapshots can be held */
        fixture_set(&r, at(0), i);
        ok_db(&r, lladd_snapshot_acquire(r.db, &b, &r.err));
    }
    fixture_free(&r);
}
END_TEST

/* ---- pins -------------------------------------------------------------------------------- */

static void much_log(void)
{
    for (unsigned i = 0; i < 20; i++) {
        struct lladd_txn *txn = fixture_begin(&r);
        ok(txn, cell_put_wide(txn, at(1), i, 2000));
        done(lladd_commit(txn));
    }
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
}

START_TEST(a_pin_holds_the_log_over_restarts_until_it_is_cleared)
{
    struct lladd_pinner who;
    fixture_init(&r, (unsigned)_i);
    fixture_open(&r);
    page = fixture_page(&r);
    lladd_lsn here = lladd_lsn_of(fixture_stats(&r).log_tail);
    ok_db(&r, lladd_pin_set(r.db, "archive", here, &r.err));
    ok_db(&r, lladd_pin_set(r.db, "standby", here, &r.err));
    fixture_crash(&r, &fault_power); /* the pin was durable when the call returned */
    fixture_open(&r);
    lladd_lsn got = {0};
    ok_db(&r, lladd_pin_get(r.db, "archive", &got, &r.err));
    ck_assert_uint_eq(got.v, here.v);
    much_log();
    ck_assert_uint_le(fixture_stats(&r).log_oldest, here.v);
    fixture_reopen(&r);
    ok_db(&r, lladd_log_pinner(r.db, &who, &r.err));
    ck_assert_str_eq(who.kind, "pin");
    ck_assert_uint_eq(who.lsn.v, here.v);
    ck_assert(strcmp(who.name, "archive") == 0 || strcmp(who.name, "standby") == 0);
    ck_assert_uint_gt(who.age_bytes, 40000);
    /* Setting a pin again moves it. */
    lladd_lsn later = lladd_lsn_of(fixture_stats(&r).log_tail);
    ok_db(&r, lladd_pin_set(r.db, "archive", later, &r.err));
    ok_db(&r, lladd_pin_get(r.db, "archive", &got, &r.err));
    ck_assert_uint_eq(got.v, later.v);
    much_log();
    ck_assert_uint_le(fixture_stats(&r).log_oldest, here.v); /* the other pin still keeps the log */
    ok_db(&r, lladd_pin_clear(r.db, "standby", &r.err));
    much_log();
    ck_assert_uint_gt(fixture_stats(&r).log_oldest, here.v);
    ck_assert_uint_le(fixture_stats(&r).log_oldest, later.v);
    ok_db(&r, lladd_pin_clear(r.db, "archive", &r.err));
    ck_assert_int_eq(lladd_pin_get(r.db, "archive", &got, &r.err), LLADD_NOT_FOUND);
    ck_assert_int_eq(lladd_pin_get(r.db, NULL, &got, &r.err), LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(lladd_pin_get(r.db, "archive", NULL, &r.err), LLADD_BAD_ARGUMENT);
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    much_log();
    ck_assert_uint_gt(fixture_stats(&r).log_oldest, later.v);
    fixture_free(&r);
}
END_TEST

static int ignore_finding(void *ctx, const struct lladd_finding *f)
{
    (void)ctx;
    (void)f;
    return 0;
}

static int first_at(lladd_lsn lsn)
{
    struct lladd_log_cursor *cursor;
    struct lladd_log_entry entry;
    ok_db(&r, lladd_log_open(r.db, lsn, "test.note", &cursor, &r.err));
    int rc = lladd_log_next(cursor, &entry, &r.err);
    ck_assert(rc != 0 || entry.lsn.v == lsn.v);
    lladd_log_close(cursor);
    return rc;
}

/* A reader begins at a pinned LSN. If the record there is damaged or missing, the reader gets an
 * error, and not the next readable record. Inspection reports the damage too. */
START_TEST(a_reader_reports_damage_to_pinned_log)
{
    static const int told[] = {LLADD_CORRUPT_LOG, LLADD_CORRUPT_LOG, LLADD_MISSING_FILE};
    struct lladd_inspect *view;
    struct lladd_verified verified = {.struct_size = sizeof verified};
    unsigned char bytes[512];
    char name[32];
    uint64_t offset;
    lladd_lsn lsn;
    fixture_init(&r, 0);
    r.options.log_segment_min = r.options.log_segment_max = 8192;
    fixture_open(&r);
    page = fixture_page(&r);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, lladd_log_note(txn, "test.note", lladd_span_of("here", 4), &lsn));
    ok_db(&r, lladd_pin_set(r.db, "reader", lsn, &r.err));
    done(lladd_commit(txn));
    much_log();
    ck_assert_int_eq(first_at(lsn), 0);
    fixture_close(&r);
    ok_db(&r, lladd_inspect_open(NULL, &r.options, &view, &r.err));
    ck_assert(lladd_inspect_place(view, lsn, name, &offset));
    lladd_inspect_close(view);
    memset(bytes, 0x5a, sizeof bytes);
    if (_i == 2)
        ck_assert_int_eq(r.base->ops->unlink(r.base, name), 0);
    else
        fixture_file_write(&r, name, bytes, _i ? sizeof bytes : 4, _i ? offset - 128 : offset + 24);
    ok_db(&r, lladd_inspect_open(NULL, &r.options, &view, &r.err));
    ok_db(&r, lladd_inspect_verify(view, ignore_finding, NULL, &verified, &r.err));
    ck_assert_uint_gt(verified.damage, 0);
    lladd_inspect_close(view);
    fixture_open(&r);
    ck_assert_int_eq(first_at(lsn), told[_i]);
    ck_assert(r.err.lsn.v != 0 && r.err.lsn.v <= lsn.v);
    fixture_free(&r);
}
END_TEST

START_TEST(wrong_pins_are_refused)
{
    char name[65];
    fixture_init(&r, (unsigned)_i);
    fixture_open(&r);
    page = fixture_page(&r);
    lladd_lsn here = lladd_lsn_of(fixture_stats(&r).log_tail);
    memset(name, 'p', 64);
    name[64] = 0;
    ck_assert_int_eq(lladd_pin_set(r.db, name, here, &r.err), LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(lladd_pin_set(r.db, "", here, &r.err), LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(lladd_pin_set(r.db, NULL, here, &r.err), LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(lladd_pin_clear(r.db, "unknown", &r.err), LLADD_NOT_FOUND);
    ck_assert_int_eq(lladd_pin_set(r.db, "future", lladd_lsn_of(here.v + 100), &r.err),
                     LLADD_OUT_OF_RANGE);
    much_log();
    much_log();
    ck_assert_int_eq(lladd_pin_set(r.db, "past", here, &r.err), LLADD_OUT_OF_RANGE);
    ck_assert_int_eq(lladd_pin_set(r.db, "none", lladd_lsn_of(0), &r.err), LLADD_OUT_OF_RANGE);
    fixture_free(&r);
}
END_TEST

/* API-1: a pin that could not be logged is not set, and a pin that was set before stays where it
 * was. The log space for clearing a pin is reserved when the pin is set, so the pin can be cleared
 * on a full disk. Raising a pin needs no space. */
START_TEST(a_pin_that_cannot_be_logged_has_changed_nothing)
{
    struct lladd_pinner pinner;
    int rc;
    fixture_init(&r, 0);
    fixture_open(&r);
    page = fixture_page(&r);
    lladd_lsn here = lladd_lsn_of(fixture_stats(&r).log_tail);
    ok_db(&r, lladd_pin_set(r.db, "cleared", here, &r.err));
    ok_db(&r, lladd_pin_set(r.db, "stays", here, &r.err));
    fault_device_capacity(r.fd, fault_device_bytes(r.fd));
    unsigned sets = 0;
    while ((rc = lladd_pin_set(r.db, "stays", here, &r.err)) == 0)
        sets++;
    ck_assert_int_eq(rc, LLADD_NO_SPACE);
    ck_assert_uint_gt(sets, 10);
    ck_assert_int_eq(lladd_pin_set(r.db, "another", here, &r.err), LLADD_NO_SPACE);
    ck_assert_int_eq(lladd_pin_clear(r.db, "another", &r.err), LLADD_NOT_FOUND);
    lladd_lsn later = lladd_lsn_of(fixture_stats(&r).log_tail);
    ok_db(&r, lladd_pin_clear(r.db, "cleared", &r.err));
    ck_assert_int_eq(lladd_pin_clear(r.db, "cleared", &r.err), LLADD_NOT_FOUND);
    ok_db(&r, lladd_log_pinner(r.db, &pinner, &r.err));
    ck_assert_uint_eq(pinner.lsn.v, here.v);
    ok_db(&r, lladd_pin_set(r.db, "stays", later, &r.err));
    fault_device_capacity(r.fd, UINT64_MAX);
    much_log();
    ok_db(&r, lladd_log_pinner(r.db, &pinner, &r.err));
    ck_assert_str_eq(pinner.name, "stays");
    ck_assert_uint_eq(pinner.lsn.v, later.v);
    fixture_free(&r);
}
END_TEST

/* ---- the log for readers ----------------------------------------------------------------- */

START_TEST(the_log_can_be_read_with_names_and_fields)
{
    struct lladd_log_cursor *cursor;
    struct lladd_log_entry e;
    fixture_init(&r, (unsigned)_i);
    fixture_open(&r);
    page = fixture_page(&r);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, cell_put(txn, at(3), 1));
    ok(txn, cell_put(txn, at(3), 2));
    ok(txn, cell_add(txn, at(3), 1));
    lladd_lsn id = lladd_txn_id(txn);
    done(lladd_commit(txn));
    ok_db(&r, lladd_log_open(r.db, id, NULL, &cursor, &r.err));
    ok_db(&r, lladd_log_next(cursor, &e, &r.err));
    ck_assert_uint_eq(e.lsn.v, id.v);
    ck_assert_uint_eq(e.txn.v, id.v);
    ck_assert_uint_eq(e.prev.v, 0);
    ck_assert_uint_eq(e.page, page.v);
    ck_assert_str_eq(e.op, "test.put");
    ck_assert_uint_eq(e.op_version, 1);
    ck_assert_str_eq(lladd_log_kind_name(e.kind), "update");
    ck_assert_uint_eq(e.redo.len, 10);
    ck_assert_uint_eq(lladd_get16(e.redo.data), 3);
    ck_assert_uint_eq(lladd_get64((const unsigned char *)e.redo.data + 2), 1);
    ck_assert_uint_eq(e.undo.len, 10);
    lladd_lsn first = e.lsn;
    ok_db(&r, lladd_log_next(cursor, &e, &r.err));
    ck_assert_uint_eq(e.prev.v, first.v);
    ck_assert_uint_eq(e.page_prev.v, first.v);
    ok_db(&r, lladd_log_read(cursor, first, &e, &r.err)); /* goes back to a known LSN */
    ck_assert_uint_eq(e.lsn.v, first.v);
    ok_db(&r, lladd_log_next(cursor, &e, &r.err)); /* continues after that record */
    ck_assert_uint_eq(e.prev.v, first.v);
    ck_assert_int_eq(lladd_log_read(cursor, lladd_lsn_of(first.v + 1), &e, &r.err),
                     LLADD_OUT_OF_RANGE);
    lladd_log_close(cursor);
    lladd_log_close(NULL);
    ck_assert_str_ne(lladd_log_kind_name(9999), "");
    fixture_free(&r);
}
END_TEST

/* A reader sees only durable records. After LLADD_END it goes on when more records are durable. */
START_TEST(a_reader_sees_durable_records_of_its_name_and_waits_at_the_end)
{
    struct lladd_log_cursor *cursor;
    struct lladd_log_entry e;
    lladd_lsn lsn, note;
    fixture_init(&r, (unsigned)_i & ~(unsigned)FIXTURE_THREADS);
    fixture_open(&r);
    page = fixture_page(&r);
    ok_db(&r, lladd_log_open(r.db, lladd_lsn_of(0), "test.journal", &cursor, &r.err));
    ck_assert_int_eq(lladd_log_next(cursor, &e, &r.err), LLADD_END);
    for (unsigned i = 0; i < 5; i++) {
        struct lladd_txn *txn = fixture_begin(&r);
        ok(txn, cell_put(txn, at(0), i));
        ok(txn, lladd_log_note(txn, "test.journal", lladd_span_of(&i, sizeof i), &note));
        ok(txn, lladd_log_note(txn, "test.other", lladd_span_of("x", 1), NULL));
        done(lladd_commit_async(txn, &lsn));
        ck_assert_int_eq(lladd_log_next(cursor, &e, &r.err), LLADD_END);
        ok_db(&r, lladd_wait_durable(r.db, lsn, &r.err));
        ok_db(&r, lladd_log_next(cursor, &e, &r.err));
        ck_assert_uint_eq(e.lsn.v, note.v);
        ck_assert_str_eq(e.op, "test.journal");
        ck_assert_str_eq(lladd_log_kind_name(e.kind), "note");
        ck_assert_uint_eq(e.redo.len, sizeof i);
        ck_assert_mem_eq(e.redo.data, &i, sizeof i);
        ck_assert_int_eq(lladd_log_next(cursor, &e, &r.err), LLADD_END);
    }
    lladd_log_close(cursor);
    fixture_reopen(&r);
    unsigned n = 0; /* after a restart, the tag can be used for reading too */
    ok_db(&r, lladd_log_open(r.db, lladd_lsn_of(0), "test.journal", &cursor, &r.err));
    while (lladd_log_next(cursor, &e, &r.err) == 0)
        n++;
    ck_assert_uint_le(n, 5);
    lladd_log_close(cursor);
    char name[65];
    memset(name, 'n', 64);
    name[64] = 0;
    ck_assert_int_eq(lladd_log_open(r.db, lladd_lsn_of(0), name, &cursor, &r.err),
                     LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(lladd_log_open(r.db, lladd_lsn_of(0), NULL, NULL, &r.err), LLADD_BAD_ARGUMENT);
    fixture_free(&r);
}
END_TEST

/* A tag is stored for ever. If a later open could not read a tag, the database would be useless. So
 * invalid tags are refused. */
START_TEST(invalid_tags_are_refused)
{
    static const char *const bad[] = {"", "two words", "Upper", "tab\t", "n\xc3\xa4h"};
    char long_tag[65];
    memset(long_tag, 't', 64);
    long_tag[64] = 0;
    fixture_init(&r, (unsigned)_i);
    fixture_open(&r);
    struct lladd_txn *txn = fixture_begin(&r);
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++)
        refused(txn, LLADD_BAD_ARGUMENT, lladd_log_note(txn, bad[i], lladd_span_of("", 0), NULL));
    refused(txn, LLADD_BAD_ARGUMENT, lladd_log_note(txn, long_tag, lladd_span_of("", 0), NULL));
    refused(txn, LLADD_BAD_ARGUMENT, lladd_log_note(txn, NULL, lladd_span_of("", 0), NULL));
    ok(txn, lladd_log_note(txn, long_tag + 1, lladd_span_of("", 0), NULL));
    done(lladd_commit(txn));
    fixture_crash(&r, &fault_kill);
    fixture_open(&r);
    fixture_free(&r);
}
END_TEST

/* ---- the lifetime of an extension -------------------------------------------------------- */

struct life {
    char said[32];
    unsigned n;
    int fails_at; /* the letter of the callback that fails; 0: no callback fails */
    bool crashed; /* every call of the device fails */
    lladd_pageno page;
};
static struct life life;

static int live(char what)
{
    life.said[life.n++] = what;
    life.said[life.n] = 0;
    return life.fails_at == what ? LLADD_NOT_FOUND : 0;
}

static int life_attach(void *ctx, struct lladd_db *db, void **state, struct lladd_error *err)
{
    (void)db;
    *state = ctx;
    int rc = live('a');
    return rc ? lladd_error_set(err, rc, "attach was told to fail") : 0;
}

static int life_create(void *ctx, struct lladd_txn *txn, void *state)
{
    ck_assert_ptr_eq(ctx, state);
    int rc = lladd_page_alloc(txn, &life.page);
    if (!rc)
        rc = cells_format(txn, life.page);
    if (!rc)
        rc = cell_put(txn, cell_of(life.page, 0), 77);
    int told = live('c');
    return told ? lladd_error_set(lladd_txn_error_out(txn), told, "create was told to fail") : rc;
}

static int life_recovered(void *ctx, struct lladd_db *db, void *state, struct lladd_error *err)
{
    uint64_t value = 0;
    ck_assert_ptr_eq(ctx, state);
    int rc = cell_read(db, cell_of(life.page, 0), &value, err); /* every call is allowed in this
                                                                 * callback */
    ck_assert_uint_eq(value, 77);
    int told = live('r');
    return told ? lladd_error_set(err, told, "recovered was told to fail") : rc;
}

static void life_detach(void *ctx, struct lladd_db *db, void *state)
{
    (void)db;
    ck_assert_ptr_eq(ctx, state);
    (void)live('d');
}

static void life_stop(void *ctx, struct lladd_db *db, void *state)
{
    uint64_t value = 0;
    struct lladd_error err = LLADD_ERROR_INIT;
    ck_assert_ptr_eq(ctx, state);
    if (!life.fails_at && !life.crashed) /* the handle can be used unless a callback has failed or
                                          * the database has crashed */
        ck_assert_int_eq(cell_read(db, cell_of(life.page, 0), &value, &err), 0);
    (void)live('s');
}

static const struct lladd_extension life_extension = {
    .struct_size = sizeof life_extension,
    .name = "test.life",
    .version = 1,
    .ctx = &life,
    .attach = life_attach,
    .create = life_create,
    .recovered = life_recovered,
    .detach = life_detach,
    .stop = life_stop,
};

START_TEST(an_extension_is_attached_created_recovered_and_detached)
{
    memset(&life, 0, sizeof life);
    fixture_init(&r, (unsigned)_i);
    ok_db(&r, lladd_register_extension(&r.options, &life_extension, &r.err));
    fixture_open(&r);
    ck_assert_str_eq(life.said, "acr");
    ck_assert_ptr_eq(lladd_extension_state(r.db, &life_extension), &life);
    static const struct lladd_extension stranger = {.struct_size = sizeof stranger};
    ck_assert_ptr_null(lladd_extension_state(r.db, &stranger));
    fixture_reopen(&r);
    ck_assert_str_eq(life.said, "acrsdar");
    life.crashed = true;
    fixture_crash(&r, &fault_kill);
    life.crashed = false;
    ck_assert_str_eq(life.said, "acrsdarsd");
    fixture_open(&r);
    fixture_close(&r);
    ck_assert_str_eq(life.said, "acrsdarsdarsd");
    fixture_free(&r);
}
END_TEST

START_TEST(an_extension_that_fails_stops_the_open_and_nothing_leaks)
{
    static const struct {
        int fails_at;
        const char *says;
    } cases[] = {{'a', "attach was told"}, {'c', "create was told"}, {'r', "recovered was told"}};
    memset(&life, 0, sizeof life);
    fixture_init(&r, (unsigned)_i);
    ok_db(&r, lladd_register_extension(&r.options, &life_extension, &r.err));
    for (unsigned i = 0; i < 3; i++) {
        life.n = 0;
        life.fails_at = cases[i].fails_at;
        ck_assert_int_eq(fixture_try_open(&r), LLADD_NOT_FOUND);
        ck_contains(r.err.message, cases[i].says);
        ck_assert((life.said[life.n - 1] == 'd') == (life.fails_at != 'a'));
    }
    life.fails_at = 0;
    life.n = 0;
    fixture_open(&r);
    fixture_expect(&r, cell_of(life.page, 0), 77);
    fixture_free(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("extensions");
    TCase *tc = tcase_create("all");
#define LOOP(test) tcase_add_loop_test(tc, test, 0, FIXTURE_KINDS)
    LOOP(objects_are_redone_and_undone_like_pages);
    LOOP(the_log_is_kept_for_a_class_and_it_is_named_until_it_has_saved);
    LOOP(a_missing_class_is_named_though_its_records_are_older_than_the_checkpoint);
    LOOP(wrong_object_records_are_refused);
    LOOP(a_class_that_cannot_redo_stops_recovery_with_its_name);
    LOOP(snapshots_are_commit_lsns_and_the_oldest_is_known);
    tcase_add_loop_test(tc, a_reader_reports_damage_to_pinned_log, 0, 3);
    LOOP(a_pin_holds_the_log_over_restarts_until_it_is_cleared);
    LOOP(wrong_pins_are_refused);
    tcase_add_test(tc, a_pin_that_cannot_be_logged_has_changed_nothing);
    LOOP(the_log_can_be_read_with_names_and_fields);
    LOOP(a_reader_sees_durable_records_of_its_name_and_waits_at_the_end);
    LOOP(invalid_tags_are_refused);
    LOOP(an_extension_is_attached_created_recovered_and_detached);
    LOOP(an_extension_that_fails_stops_the_open_and_nothing_leaks);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
