/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A database as the source of a replica. The events are the committed changes, in whole
 * transactions and in the order of commits; a replica that applies them has the rows of the source,
 * through digests, restarts and crashes of both; and acknowledgements move the pin.
 */
#include "replica_fixture.h"

#include <errno.h>
#include <lladd/log_read.h>
#include <lladd/replica_source.h>
#include <lladd/stats.h>
#include <stdio.h>

static struct fixture a, b; /* the source's database, and the replica's */
static struct lladd_managed *rows, *more;
static struct lladd_replica_source *s;
static const char *const names[] = {"rows", "more"};

static void begin_source(void)
{
    managed_init(&a);
    a.options.log_segment_min = 16u << 10;
    ok_db(&a, lladd_replica_register(&a.options, &a.err));
    fixture_open(&a);
    rows = managed_table(&a, "rows", NULL);
    more = managed_table(&a, "more", NULL);
}

static void open_source(uint64_t from)
{
    ok_db(&a, lladd_replica_source_open(a.db, "r", names, 2, from, &s, &a.err));
}

static void close_source(void)
{
    ok_db(&a, lladd_replica_source_close(s, &a.err));
    s = NULL;
}

static void end_source(void)
{
    managed_close(&a, rows);
    managed_close(&a, more);
    fixture_free(&a);
}

static void restart_source(void)
{
    fixture_crash(&a);
    rows = managed_open(&a, "rows");
    more = managed_open(&a, "more");
}

/* Closes and opens the database: nothing of the log is in memory. */
static void reopen_source(void)
{
    managed_close(&a, rows);
    managed_close(&a, more);
    fixture_close(&a);
    fixture_open(&a);
    rows = managed_open(&a, "rows");
    more = managed_open(&a, "more");
}

/* The next events as text: "B rows:1=x rows:2 more:[1,3) C", up to the end for now. Checks the
 * positions. Marks are not in the text. *code: what ended the events. */
static char *events(int *code)
{
    struct text_of_events {
        char bytes[4096];
        size_t n;
    } t = {.n = 0};
    struct lladd_replica_event e;
    static uint64_t seen;
    int rc;
    seen = 0;
    while ((rc = lladd_replica_source_next(s, &e, &a.err)) == 0) {
        bool change = e.table != NULL;
        char *to = t.bytes + t.n;
        size_t room = sizeof t.bytes - t.n;
        ck_assert_uint_ge(e.position, seen + !change);
        seen = e.position;
        int n = 0;
        if (e.kind == LLADD_REPLICA_BEGIN || e.kind == LLADD_REPLICA_COMMIT)
            n = snprintf(to, room, "%s", e.kind == LLADD_REPLICA_BEGIN ? " B" : " C");
        else if (e.kind == LLADD_REPLICA_PUT)
            n = snprintf(to, room, " %s:%u=%.*s", e.table, (unsigned)e.key.number,
                         (int)e.after.bytes.len, (const char *)e.after.bytes.data);
        else if (e.kind == LLADD_REPLICA_DELETE)
            n = snprintf(to, room, " %s:%u", e.table, (unsigned)e.key.number);
        else if (e.kind == LLADD_REPLICA_DELETE_RANGE)
            n = snprintf(to, room, " %s:[%d,%d)", e.table, e.key.type ? (int)e.key.number : -1,
                         e.to.type ? (int)e.to.number : -1);
        else
            ck_assert_int_eq(e.kind, LLADD_REPLICA_MARK);
        t.n += (size_t)n;
        ck_assert_uint_lt(t.n, sizeof t.bytes);
    }
    t.bytes[t.n] = 0;
    *code = rc;
    return strdup(t.n ? t.bytes + 1 : "");
}

static void gives(const char *words)
{
    int rc;
    char *text = events(&rc);
    ck_assert_int_eq(rc, LLADD_END);
    ck_assert_str_eq(text, words);
    free(text);
}

/* ---- events ---------------------------------------------------------------------------------- */

START_TEST(changes_become_events)
{
    lladd_savepoint_id sp;
    struct lladd_dtable_key low = lladd_dtable_u32(1), high = lladd_dtable_u32(3);
    begin_source();
    open_source(0);
    struct lladd_txn *one = fixture_begin(&a), *two = fixture_begin(&a), *three = fixture_begin(&a);
    managed_put(one, rows, 1, "x");
    managed_put(two, more, 1, "y");
    managed_put(three, rows, 9, "never");
    managed_put(one, more, 2, "z");
    ok(one, lladd_savepoint(one, &sp));
    managed_put(one, rows, 7, "never");
    ok(one, lladd_rollback_to(one, sp));
    gives("");
    commit(two);
    gives("B more:1=y C");
    abort_txn(three);
    managed_put(one, rows, 2, NULL);
    commit(one);
    gives("B rows:1=x more:2=z rows:2 C");
    one = fixture_begin(&a);
    ok(one, lladd_managed_delete_range(one, rows, &low, &high));
    ok(one, lladd_managed_delete_range(one, more, NULL, &high));
    ok(one, lladd_managed_delete_range(one, more, &low, NULL));
    commit(one);
    gives("B rows:[1,3) more:[-1,3) more:[1,-1) C");
    close_source();
    ok_db(&a, lladd_managed_digest(rows, &a.err)); /* the journal's entries are discarded */
    restart_source();
    open_source(0);
    gives("B more:1=y C B rows:1=x more:2=z rows:2 C B rows:[1,3) more:[-1,3) more:[1,-1) C");
    close_source();
    end_source();
}
END_TEST

START_TEST(a_source_goes_on_after_a_commit)
{
    struct lladd_replica_event e;
    uint64_t last = 0;
    begin_source();
    managed_fill(&a, rows, "1=a 2=b");
    managed_fill(&a, rows, "3=c");
    open_source(0);
    while (!last) {
        ok_db(&a, lladd_replica_source_next(s, &e, &a.err));
        last = e.kind == LLADD_REPLICA_COMMIT ? e.position : 0;
    }
    close_source();
    open_source(last + 1);
    ok_db(&a, lladd_replica_source_next(s, &e, &a.err)); /* what it has */
    ck_assert_int_eq(e.kind, LLADD_REPLICA_MARK);
    ck_assert_uint_eq(e.position, last);
    ck_assert_uint_eq(e.txn, last + 1);
    gives("B rows:3=c C");
    close_source();
    open_source(last); /* between the events of a transaction */
    ok_db(&a, lladd_replica_source_next(s, &e, &a.err));
    ck_assert_int_eq(lladd_replica_source_next(s, &e, &a.err), LLADD_BAD_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(a.err.message, "within the transaction"));
    close_source();
    end_source();
}
END_TEST

static struct lladd_stats stats(void)
{
    struct lladd_stats now = {.struct_size = sizeof now};
    ck_assert_int_eq(lladd_stats_get(a.db, &now), 0);
    return now;
}

static void fill_log(void)
{
    char value[2001];
    memset(value, 'v', sizeof value - 1);
    value[sizeof value - 1] = 0;
    for (unsigned i = 0; i < 1500; i++) {
        struct lladd_txn *txn = fixture_begin(&a);
        managed_put(txn, rows, i % 10, value);
        commit(txn);
    }
    ok_db(&a, lladd_managed_digest(rows, &a.err));
    for (int i = 0; i < 2; i++)
        ok_db(&a, lladd_checkpoint(a.db, &a.err));
}

START_TEST(acknowledgements_move_the_pin)
{
    struct lladd_replica_event e;
    struct lladd_pinner who;
    uint64_t last = 0;
    begin_source();
    open_source(0);
    uint64_t oldest = stats().log_oldest;
    fill_log();
    ck_assert_uint_eq(stats().log_oldest, oldest);
    ok_db(&a, lladd_log_pinner(a.db, &who, &a.err));
    ck_assert_str_eq(who.name, "replica.r");
    while (lladd_replica_source_next(s, &e, &a.err) == 0)
        last = e.position;
    ok_db(&a, lladd_replica_source_acknowledge(s, last + 1, &a.err));
    for (int i = 0; i < 2; i++)
        ok_db(&a, lladd_checkpoint(a.db, &a.err));
    ck_assert_uint_gt(stats().log_oldest, oldest + (1u << 20));
    close_source();
    ck_assert_int_eq(lladd_replica_source_open(a.db, "r", names, 2, 0, &s, &a.err),
                     LLADD_OUT_OF_RANGE);
    ck_assert_ptr_nonnull(strstr(a.err.message, "the log begins at"));
    open_source(last + 1);
    gives("");
    managed_fill(&a, rows, "1=a");
    gives("B rows:1=a C");
    close_source();
    ok_db(&a, lladd_pin_clear(a.db, "replica.r", &a.err));
    end_source();
}
END_TEST

/* An open that fails removes a pin that it has made, because nothing would move it. A pin that was
 * there stays. */
START_TEST(a_failed_open_leaves_no_pin)
{
    lladd_lsn at;
    begin_source();
    fill_log();
    ck_assert_int_eq(lladd_replica_source_open(a.db, "r", names, 2, 0, &s, &a.err),
                     LLADD_OUT_OF_RANGE);
    ck_assert_ptr_nonnull(strstr(a.err.message, "the log begins at"));
    ck_assert_int_eq(lladd_pin_get(a.db, "replica.r", &at, &a.err), LLADD_NOT_FOUND);
    open_source(stats().log_oldest);
    close_source();
    ck_assert_int_eq(lladd_replica_source_open(a.db, "r", names, 2, 0, &s, &a.err),
                     LLADD_OUT_OF_RANGE);
    ok_db(&a, lladd_pin_get(a.db, "replica.r", &at, &a.err));
    ok_db(&a, lladd_pin_clear(a.db, "replica.r", &a.err));
    end_source();
}
END_TEST

/* The log is full, because the pin keeps it. A new source can be opened and moves the pin. */
START_TEST(a_full_log_does_not_keep_the_source_away)
{
    struct lladd_replica_event e;
    char value[2001];
    uint64_t last = 0;
    int rc = 0;
    begin_source();
    a.options.log_limit_bytes = 8u << 20;
    reopen_source();
    open_source(0);
    close_source();
    memset(value, 'v', sizeof value - 1);
    value[sizeof value - 1] = 0;
    for (unsigned i = 0; !rc; i++) {
        struct lladd_txn *txn = fixture_begin(&a);
        rc = managed_try(txn, rows, i % 10, value);
        if (rc)
            abort_txn(txn);
        else
            commit(txn);
    }
    ck_assert_int_eq(rc, LLADD_LOG_FULL);
    open_source(1);
    while (lladd_replica_source_next(s, &e, &a.err) == 0)
        last = e.position;
    ok_db(&a, lladd_replica_source_acknowledge(s, last + 1, &a.err));
    close_source();
    ok_db(&a, lladd_managed_digest(rows, &a.err));
    ok_db(&a, lladd_checkpoint(a.db, &a.err));
    managed_fill(&a, rows, "1=a");
    open_source(last + 1);
    gives("B rows:1=a C");
    close_source();
    end_source();
}
END_TEST

/* ---- a replica ------------------------------------------------------------------------------- */

/* Sends all that there is to the replica. */
static void catch_up(struct lladd_replica *r)
{
    struct lladd_replica_event e;
    int rc;
    while ((rc = lladd_replica_source_next(s, &e, &a.err)) == 0)
        ok_db(&b, lladd_replica_apply(r, &e, 1, NULL, &b.err));
    ck_assert_int_eq(rc, LLADD_END);
    ok_db(&a, lladd_replica_source_acknowledge(s, replica_durable(&b, r), &a.err));
}

static void same_rows(void)
{
    struct lladd_txn *txn = fixture_begin(&a);
    struct lladd_managed *tables[2] = {rows, more};
    for (int i = 0; i < 2; i++) {
        char *text = managed_text(txn, tables[i]);
        replica_table_has(&b, names[i], text);
        free(text);
    }
    abort_txn(txn);
}

/* Writes some rows: commits, aborts, ranges. */
static void write_some(uint64_t *rng)
{
    struct lladd_txn *txn = fixture_begin(&a);
    for (uint64_t n = 1 + seeded_next(rng) % 5; n > 0; n--) {
        struct lladd_managed *t = seeded_next(rng) % 2 ? rows : more;
        uint32_t key = (uint32_t)(seeded_next(rng) % 20);
        char value[16];
        snprintf(value, sizeof value, "%u", (unsigned)(seeded_next(rng) % 1000));
        struct lladd_dtable_key low = lladd_dtable_u32(key), high = lladd_dtable_u32(key + 3);
        if (seeded_next(rng) % 8 == 0)
            ok(txn, lladd_managed_delete_range(txn, t, &low, &high));
        else
            managed_put(txn, t, key, seeded_next(rng) % 4 ? value : NULL);
    }
    if (seeded_next(rng) % 5)
        commit(txn);
    else
        abort_txn(txn);
}

START_TEST(a_replica_has_the_rows_of_its_source)
{
    uint64_t rng = (uint64_t)_i + 1;
    begin_source();
    replica_begin(&b);
    struct lladd_replica *r = replica_open(&b, NULL);
    open_source(replica_from(r));
    for (int round = 0; round < 60; round++) {
        for (int i = 0; i < 5; i++)
            write_some(&rng);
        uint64_t what = seeded_next(&rng) % 8;
        if (what < 2)
            ok_db(&a, lladd_managed_digest(what ? rows : more, &a.err));
        if (what == 2)
            ok_db(&a, lladd_checkpoint(a.db, &a.err));
        if (what == 3)
            replica_digest(&b, names[seeded_next(&rng) % 2]);
        if (what == 4) { /* the replica dies */
            close_source();
            fixture_crash(&b);
            r = replica_open(&b, NULL);
            open_source(replica_from(r));
        }
        if (what == 5) { /* the source dies: the connection breaks, and the replica begins anew */
            replica_close(&b, r);
            lladd_replica_source_close(s, NULL);
            restart_source();
            r = replica_open(&b, NULL);
            open_source(replica_from(r));
        }
        catch_up(r);
        same_rows();
    }
    close_source();
    end_source();
    replica_done(&b, r);
}
END_TEST

/* ---- failures -------------------------------------------------------------------------------- */

/* From now on nothing fails. *fired: something has failed before. */
static unsigned end_of_failures(bool *fired)
{
    *fired = *fired || fault_device_fired(a.fd) || fault_alloc_fired(&a.mem);
    fault_device_fail(a.fd, 0, FAULT_PREAD, EIO, false);
    fault_alloc_fail(&a.mem, 0, false);
    return 1;
}

/* Opens a source, and reads two transactions with three changes. Calls that fail with this code are
 * repeated; returns how many do. */
static unsigned failures_of(int code, bool *fired)
{
    struct lladd_replica_event e;
    unsigned commits = 0, changes = 0, failures = 0;
    int rc;
    while ((rc = lladd_replica_source_open(a.db, "r", names, 2, 0, &s, &a.err)) == code)
        failures += end_of_failures(fired);
    ok_db(&a, rc);
    while ((rc = lladd_replica_source_next(s, &e, &a.err)) == 0 || rc == code) {
        failures += rc ? end_of_failures(fired) : 0;
        commits += !rc && e.kind == LLADD_REPLICA_COMMIT;
        changes += !rc && e.kind == LLADD_REPLICA_PUT;
    }
    ck_assert_int_eq(rc, LLADD_END);
    ck_assert_uint_eq(commits, 2);
    ck_assert_uint_eq(changes, 3);
    return failures;
}

/* _i 0: each allocation fails; 1: each read, when nothing is in memory, until a call has failed.
 * No event is left out. */
START_TEST(each_failure_can_be_repeated)
{
    unsigned failures = 0;
    bool fired = true;
    begin_source();
    managed_fill(&a, rows, "1=a 2=b");
    managed_fill(&a, more, "3=c");
    for (uint64_t n = 1; fired; n++) {
        fired = false;
        if (_i) {
            reopen_source();
            fault_device_fail(a.fd, n, FAULT_PREAD, EIO, true);
        } else {
            fault_alloc_fail(&a.mem, n, false);
        }
        failures += failures_of(_i ? LLADD_READ_FAILED : LLADD_NO_MEMORY, &fired);
        (void)end_of_failures(&fired);
        close_source();
    }
    ck_assert_uint_gt(failures, _i ? 3 : 5);
    end_source();
}
END_TEST

START_TEST(wrong_arguments_are_refused)
{
    const char *nothing[] = {"rows", "nothing"};
    const char *unlogged[] = {"rows", "unlogged"};
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    char name[57];
    begin_source();
    o.flags = LLADD_MANAGED_UNLOGGED;
    managed_close(&a, managed_table(&a, "unlogged", &o));
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    ck_assert_int_eq(lladd_replica_source_open(a.db, name, names, 2, 0, &s, &a.err),
                     LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(lladd_replica_source_open(a.db, "", names, 2, 0, &s, &a.err),
                     LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(lladd_replica_source_open(a.db, "r", names, 0, 0, &s, &a.err),
                     LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(lladd_replica_source_open(a.db, "r", nothing, 2, 0, &s, &a.err),
                     LLADD_NOT_FOUND);
    ck_assert_int_eq(lladd_replica_source_open(a.db, "r", unlogged, 2, 0, &s, &a.err),
                     LLADD_BAD_STATE);
    ck_assert_int_eq(lladd_replica_source_close(NULL, &a.err), 0);
    end_source();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("the source of a replica");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, changes_become_events);
    tcase_add_test(tc, a_source_goes_on_after_a_commit);
    tcase_add_test(tc, acknowledgements_move_the_pin);
    tcase_add_test(tc, a_failed_open_leaves_no_pin);
    tcase_add_test(tc, a_full_log_does_not_keep_the_source_away);
    tcase_add_loop_test(tc, a_replica_has_the_rows_of_its_source, 0, 10);
    tcase_add_loop_test(tc, each_failure_can_be_repeated, 0, 2);
    tcase_add_test(tc, wrong_arguments_are_refused);
    suite_add_tcase(suite, tc);
    return fixture_run(suite);
}
