/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The journal under failures. Each allocation and each write of a workload fails in turn, and after
 * each failed write there is a crash. Afterwards the acknowledged entries are there, and perhaps
 * also those of the commit that was in progress. No memory is lost.
 */
#include "operations/journal/table.h"
#include "journal_fixture.h"

#include <errno.h>

static struct fixture b;
static uint64_t tag, other;

/* The live entries before and after each step. If the device fails in a step, a crash leaves the
 * entries from before or those from after the step. */
struct promise {
    const char *before, *after;
};

static const struct promise promises[] = {
    {"a b", "a b c e"}, {"a b c e", "e f"}, {"e f", "e f"}, {"e f", "e f g"}};
enum { STEPS = sizeof promises / sizeof *promises };

static int add(struct lladd_txn *txn, const char *text)
{
    return lladd_journal_append(txn, tag, lladd_span_of(text, strlen(text)), NULL);
}

static int goes_back(struct lladd_txn *txn)
{
    lladd_savepoint_id sp;
    int rc = add(txn, "c");
    if (!rc)
        rc = lladd_savepoint(txn, &sp);
    if (!rc)
        rc = add(txn, "never");
    if (!rc)
        rc = lladd_rollback_to(txn, sp);
    return rc ? rc : add(txn, "e");
}

/* Discards all entries of the tag. Then appends the last of these entries to the other tag, and
 * rolls the other tag over to this one, so that the entry is in this tag again. */
static int moves(struct lladd_txn *txn)
{
    int rc = lladd_journal_discard(txn, tag, lladd_lsn_of(0));
    if (!rc)
        rc = lladd_journal_append(txn, other, lladd_span_of("e", 1), NULL);
    if (!rc)
        rc = lladd_journal_rollover(txn, other, tag);
    return rc ? rc : add(txn, "f");
}

static int goes_on(struct lladd_txn *txn)
{
    return add(txn, "g");
}

static int in_txn(int (*what)(struct lladd_txn *))
{
    struct lladd_txn *txn;
    int rc = lladd_begin(b.db, NULL, &txn, NULL);
    return rc ? rc : fixture_end(txn, what(txn));
}

static int step(int i)
{
    switch (i) {
    case 0:
        return in_txn(goes_back);
    case 1:
        return in_txn(moves);
    case 2: {
        int rc = lladd_journal_clean(b.db, tag, lladd_object_applied_lsn(b.db), NULL, &b.err);
        return rc ? rc : lladd_checkpoint(b.db, &b.err);
    }
    default:
        return in_txn(goes_on);
    }
}

static void setup(void)
{
    journal_init(&b);
    fixture_open(&b);
    tag = journal_tag(&b, "t");
    other = journal_tag(&b, "u");
    journal_put(&b, tag, "a b");
}

static void unchanged(int i)
{
    journal_expect(&b, tag, promises[i].before);
}

static void crashed(int i)
{
    fixture_crash(&b);
    char *text = journal_text(&b, tag);
    ck_assert_msg(strcmp(text, promises[i].before) == 0 || strcmp(text, promises[i].after) == 0,
                  "\"%s\" is neither \"%s\" nor \"%s\"", text, promises[i].before,
                  promises[i].after);
    free(text);
    fixture_free(&b);
}

static void done(uint64_t run)
{
    (void)run;
    journal_expect(&b, tag, "e f g");
    fixture_crash(&b);
    journal_expect(&b, tag, "e f g");
    fixture_free(&b);
}

static const struct fixture_steps steps = {STEPS, setup, step, unchanged, crashed, done};

START_TEST(every_allocation_fails_once)
{
    ck_assert_uint_gt(fixture_each_fails_once(&b, &steps, false), 10);
}
END_TEST

/* The open of a database with a transaction in doubt that has changed tags, and with entries that
 * must be read. */
START_TEST(every_allocation_of_an_open_fails_once)
{
    uint64_t fired = 1;
    unsigned failures = 0;
    setup();
    struct lladd_gid g = fixture_gid("x");
    struct lladd_txn *txn = fixture_begin(&b);
    journal_append(txn, tag, "doubt");
    ok(txn, lladd_journal_discard(txn, other, lladd_lsn_of(0)));
    uint64_t made;
    ok(txn, lladd_journal_acquire(txn, "made", "test", &made));
    ok(txn, lladd_prepare(txn, &g));
    for (uint64_t n = 1; fired; n++) {
        fixture_close(&b); /* the transaction stays in doubt */
        fault_alloc_fail(&b.mem, n, false);
        int rc = fixture_try_open(&b);
        fired = fault_alloc_fired(&b.mem);
        fault_alloc_fail(&b.mem, 0, false);
        if (rc) {
            ck_assert_int_eq(rc, LLADD_NO_MEMORY);
            failures++;
            fixture_open(&b);
        }
        journal_expect(&b, tag, "a b");
    }
    ck_assert_uint_gt(failures, 10);
    ok_db(&b, lladd_in_doubt_claim(b.db, &g, &txn, &b.err));
    commit(txn);
    journal_expect(&b, tag, "a b doubt");
    fixture_free(&b);
}
END_TEST

/* Either the handle is poisoned, or the step reports that there is no space. After a crash the
 * acknowledged entries are there, and perhaps also those that were in progress. */
START_TEST(every_write_fails)
{
    ck_assert_uint_gt(fixture_each_write_fails(&b, &steps), 5);
}
END_TEST

/* The catalogue is created in a transaction of its own. If an allocation of that transaction or its
 * commit fails, no catalogue is left, the call returns the reason, and the caller may try again. */
START_TEST(every_allocation_of_the_catalogue_fails_once)
{
    uint64_t fired = 1, made;
    unsigned failures = 0;
    for (uint64_t n = 1; fired; n++) {
        journal_init(&b);
        fixture_open(&b);
        fixture_close(&b);
        fixture_open(&b); /* the next commit marks the database as in use, which needs memory */
        struct lladd_txn *txn = fixture_begin(&b);
        fault_alloc_fail(&b.mem, n, false);
        int rc = lladd_journal_acquire(txn, "t", "test", &made);
        fired = fault_alloc_fired(&b.mem);
        fault_alloc_fail(&b.mem, 0, false);
        if (rc) {
            failures++;
            ck_assert_int_eq(rc, LLADD_NO_MEMORY);
            ck_assert_int_eq(lladd_txn_error(txn)->code, rc);
            ck_assert_uint_eq(journal_stats(&b).active, 1);
            ok(txn, lladd_journal_acquire(txn, "t", "test", &made));
        }
        commit(txn);
        fixture_crash(&b);
        ok_db(&b, lladd_journal_find(b.db, "t", &made, &b.err));
        fixture_free(&b);
    }
    ck_assert_uint_gt(failures, 5);
}
END_TEST

/* ---- a commit that is refused halfway -------------------------------------------------------- */

enum { TIMES = 4000 };

/* One entry of each round stays, and one is rolled back. At commit, records list the ranges that
 * were rolled back. */
static struct lladd_txn *takes_back_often(void)
{
    struct lladd_txn *txn = fixture_begin(&b);
    lladd_savepoint_id sp;
    for (unsigned i = 0; i < TIMES; i++) {
        journal_append(txn, tag, "k");
        ok(txn, lladd_savepoint(txn, &sp));
        journal_append(txn, tag, "never");
        ok(txn, lladd_rollback_to(txn, sp));
    }
    return txn;
}

/* Commits, or prepares if g is not NULL, while the log has room for some of the records that list
 * ranges, but not for all. Asserts that the call is refused. */
static void is_refused(struct lladd_txn *txn, const struct lladd_gid *g)
{
    uint64_t tail = journal_stats(&b).log_tail;
    fault_device_capacity(b.fd, fault_device_bytes(b.fd));
    refuses(txn, LLADD_NO_SPACE, g ? lladd_prepare(txn, g) : lladd_commit(txn));
    ck_assert_uint_gt(journal_stats(&b).log_tail, tail + 200);
    fault_device_capacity(b.fd, UINT64_MAX);
    ck_assert_int_eq(lladd_db_error(b.db, &b.err), 0);
}

static void expect_kept(unsigned entries)
{
    struct lladd_journal_info info;
    char *text = journal_text(&b, tag);
    ck_assert_ptr_null(strstr(text, "never"));
    free(text);
    ck_assert_int_eq(journal_info(&b, tag, &info), 0);
    ck_assert_uint_eq(info.entries, entries);
}

static void setup_small(void)
{
    setup();
    fixture_close(&b);
    b.options.log_segment_min = b.options.log_segment_max = 16u << 10;
    fixture_open(&b);
}

/* The second commit must not list ranges again that the first one has listed. (An earlier version
 * did so, and the log could not be opened.) */
START_TEST(a_commit_refused_halfway_succeeds_later)
{
    struct lladd_txn *txn;
    setup_small();
    txn = takes_back_often();
    is_refused(txn, NULL);
    commit(txn);
    expect_kept(2 + TIMES);
    fixture_crash(&b);
    expect_kept(2 + TIMES);
    fixture_free(&b);
}
END_TEST

/* After a second refusal the transaction appends an entry, and rolls back another range. */
START_TEST(a_transaction_goes_on_after_a_refused_commit)
{
    struct lladd_txn *txn;
    lladd_savepoint_id sp;
    setup_small();
    txn = takes_back_often();
    is_refused(txn, NULL);
    fault_device_capacity(b.fd, fault_device_bytes(b.fd));
    refuses(txn, LLADD_NO_SPACE, lladd_commit(txn)); /* the commit is refused at the same record as
                                                      * before */
    fault_device_capacity(b.fd, UINT64_MAX);
    journal_append(txn, tag, "more");
    ok(txn, lladd_savepoint(txn, &sp));
    journal_append(txn, tag, "never");
    ok(txn, lladd_rollback_to(txn, sp));
    commit(txn);
    expect_kept(3 + TIMES);
    fixture_crash(&b);
    expect_kept(3 + TIMES);
    fixture_free(&b);
}
END_TEST

/* The transaction rolls back a range after the refusal. Parts of that range were listed before. */
START_TEST(a_transaction_rolls_back_more_after_a_refused_commit)
{
    struct lladd_txn *txn;
    lladd_savepoint_id sp;
    setup_small();
    txn = fixture_begin(&b);
    journal_append(txn, tag, "stays");
    ok(txn, lladd_savepoint(txn, &sp));
    for (unsigned i = 0; i < TIMES; i++) {
        lladd_savepoint_id inner;
        journal_append(txn, tag, "never");
        ok(txn, lladd_savepoint(txn, &inner));
        journal_append(txn, tag, "never");
        ok(txn, lladd_rollback_to(txn, inner));
    }
    is_refused(txn, NULL);
    ok(txn, lladd_rollback_to(txn, sp));
    commit(txn);
    expect_kept(3);
    fixture_crash(&b);
    expect_kept(3);
    fixture_free(&b);
}
END_TEST

START_TEST(a_prepare_refused_halfway_succeeds_later)
{
    struct lladd_gid g = fixture_gid("x");
    struct lladd_txn *txn;
    setup_small();
    txn = takes_back_often();
    is_refused(txn, &g);
    ok(txn, lladd_prepare(txn, &g));
    fixture_crash(&b);
    expect_kept(2);
    ok_db(&b, lladd_in_doubt_claim(b.db, &g, &txn, &b.err));
    commit(txn);
    expect_kept(2 + TIMES);
    fixture_crash(&b);
    expect_kept(2 + TIMES);
    fixture_free(&b);
}
END_TEST

START_TEST(a_transaction_aborts_after_a_refused_commit)
{
    struct lladd_txn *txn;
    setup_small();
    txn = takes_back_often();
    is_refused(txn, NULL);
    abort_txn(txn);
    expect_kept(2);
    fixture_crash(&b);
    expect_kept(2);
    fixture_free(&b);
}
END_TEST

/* An earlier version wrote logs in which ranges are listed twice. They can be read nevertheless. */
START_TEST(ranges_that_were_listed_twice_are_read)
{
    struct ll_journal_txn *t;
    lladd_lsn lsn;
    setup();
    struct lladd_txn *txn = takes_back_often();
    ok(txn, ll_operations__journal_join(txn, &t));
    ck_assert_uint_eq(t->n_annuls, TIMES);
    for (size_t i = 1; i < 20; i++) {
        struct ll_journal_record r = {
            .kind = LL_JOURNAL_ANNUL, .from = t->annuls[i].since, .upto = t->annuls[i].upto};
        ok(txn, ll_operations__journal_log(txn, t, &r, &lsn));
    }
    commit(txn); /* the record lists all ranges: range 0, and then the ranges of the loop, which
                  * were listed before */
    expect_kept(2 + TIMES);
    fixture_crash(&b);
    expect_kept(2 + TIMES);
    fixture_free(&b);
}
END_TEST

/* ---- cleaning that neither commits nor rolls back -------------------------------------------- */

enum { LONG = 1000, MANY = 700 }; /* the entries are more than the log keeps in memory */

static void put_much(void)
{
    char entry[LONG];
    memset(entry, 'm', sizeof entry);
    struct lladd_txn *txn = fixture_begin(&b);
    for (unsigned i = 0; i < MANY; i++)
        ok(txn, lladd_journal_append(txn, tag, lladd_span_of(entry, sizeof entry), NULL));
    commit(txn);
}

/* The log's device fails for good while entries are copied. A thread that wants to change the tag
 * then gets the handle's error, and does not wait for a cleaning that never ends. */
START_TEST(cleaning_is_left_halfway)
{
    static const struct lladd_journal_owner idle = {.struct_size = sizeof idle};
    uint64_t fired = 1;
    unsigned left = 0;
    for (uint64_t n = 1; fired; n++) {
        setup();
        put_much();
        struct lladd_txn *txn = fixture_begin(&b);
        struct lladd_journal_attachment a = {tag, &idle, NULL};
        const struct ll_journal *j = lladd_extension_state(b.db, &ll_operations__journal_extension);
        const struct ll_journal_tag *t = ll_operations__journal_tag(j, tag);
        fault_device_fail(b.fd, n, FAULT_WRITES, EIO, true);
        int rc = lladd_journal_clean(b.db, tag, lladd_object_applied_lsn(b.db), NULL, &b.err);
        fired = fault_device_fired(b.fd);
        if (lladd_code_root(rc) == LLADD_ROOT_POISONED) {
            left += t->changing != NULL;
            ck_assert_int_eq(rc, lladd_db_error(b.db, &b.err));
            ck_assert_int_eq(lladd_journal_discard(txn, tag, lladd_lsn_of(0)), rc);
            ck_assert_int_eq(lladd_journal_attach(b.db, &a, 1, &b.err), rc);
            ck_assert_int_eq(b.err.code, rc);
        }
        fault_device_fail(b.fd, 0, FAULT_ANY, 0, false);
        fixture_crash(&b);
        struct lladd_journal_info info;
        ck_assert_int_eq(journal_info(&b, tag, &info), 0);
        ck_assert_uint_eq(info.entries, 2 + MANY);
        fixture_free(&b);
    }
    ck_assert_uint_gt(left, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("journal failures");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, every_allocation_fails_once);
    tcase_add_test(tc, every_write_fails);
    tcase_add_test(tc, every_allocation_of_an_open_fails_once);
    tcase_add_test(tc, every_allocation_of_the_catalogue_fails_once);
    tcase_add_test(tc, a_commit_refused_halfway_succeeds_later);
    tcase_add_test(tc, a_transaction_goes_on_after_a_refused_commit);
    tcase_add_test(tc, a_transaction_rolls_back_more_after_a_refused_commit);
    tcase_add_test(tc, ranges_that_were_listed_twice_are_read);
    tcase_add_test(tc, a_prepare_refused_halfway_succeeds_later);
    tcase_add_test(tc, a_transaction_aborts_after_a_refused_commit);
    tcase_add_test(tc, cleaning_is_left_halfway);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
