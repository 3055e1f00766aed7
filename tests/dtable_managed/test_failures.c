/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Managed dTables under failures. Each allocation, each read and each write of a workload fails in
 * turn. The disk is full. The power fails at each device call. The workload writes, digests,
 * combines, frees, and opens tables. No row, no page and no memory is lost.
 */
#include "managed_fixture.h"

static struct fixture b;
static struct lladd_managed *t;
static enum lladd_managed_schedule schedule; /* of the table */
static struct lladd_managed_snapshot *snapshot;

/* The rows before each step, and the other rows that may be there after a crash during the step. */
struct promise {
    const char *before, *after;
};
static const struct promise promises[] = {
    {"1=a 2=a", "1=b 2=a 4=b"},     {"1=b 2=a 4=b", "1=b 2=a 4=b"},
    {"1=b 2=a 4=b", "1=c 4=b 5=c"}, {"1=c 4=b 5=c", "1=c 4=b 5=c"},
    {"1=c 4=b 5=c", "1=c 4=b 5=c"}, {"1=c 4=b 5=c", "1=c 4=b 5=c"},
    {"1=c 4=b 5=c", "1=c 4=b 5=c"}, {"1=c 4=b 5=c", "1=c 4=b 5=c 6=d"}};
enum { STEPS = sizeof promises / sizeof *promises };
#define LAST "1=c 4=b 5=c 6=d"

static int rows(const char *const *row)
{
    struct lladd_txn *txn;
    int rc = lladd_begin(b.db, NULL, &txn, NULL);
    if (rc)
        return rc;
    for (; !rc && *row; row++) {
        struct lladd_dtable_key from = lladd_dtable_u32((uint32_t)(**row - '0')),
                                to = lladd_dtable_u32((uint32_t)((*row)[1] - '0'));
        bool range = (*row)[1] >= '0' && (*row)[1] <= '9'; /* "25": deletes the keys from 2 up to,
                                                            * but not including, 5 */
        rc = range ? lladd_managed_delete_range(txn, t, &from, &to)
                   : managed_try(txn, t, (uint32_t)from.number, (*row)[1] ? *row + 1 : NULL);
    }
    return fixture_end(txn, rc);
}

static int tidy(void)
{
    bool more = true;
    int rc = 0;
    while (!rc && more)
        rc = lladd_managed_maintain(t, &more, &b.err);
    return rc;
}

/* Changes the configuration: later runs have a filter. */
static int alter(void)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    o.config = "class(dt) bloom_dtable config [ \"base\" class(dt) linear_dtable ]";
    o.every = 9;
    return lladd_managed_alter(t, LLADD_MANAGED_CONFIG | LLADD_MANAGED_EVERY, &o, &b.err);
}

static int step(int i)
{
    static const char *const first[] = {"1b", "3x", "4b", "3", "69", NULL},
                             *const second[] = {"1c", "24", "5c", "79", NULL},
                             *const last[] = {"28", "4b", "5c", "6d", NULL};
    switch (i) {
    case 0:
        return rows(first);
    case 1:
    case 3:
        return lladd_managed_digest(t, &b.err);
    case 2:
        return rows(second);
    case 4:
        return lladd_managed_combine(t, 0, &b.err);
    case 5:
        return tidy();
    case 6:
        return alter();
    default:
        return rows(last);
    }
}

static void setup(void)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    o.schedule = schedule;
    managed_init(&b);
    fixture_open(&b);
    t = managed_table(&b, "rows", &o);
    managed_fill(&b, t, "1=a 2=a");
    ok_db(&b, lladd_managed_digest(t, &b.err));
}

static void restart(void)
{
    fixture_crash(&b);
    t = managed_open(&b, "rows");
}

static void expect_one_of(const struct promise *p)
{
    struct lladd_txn *txn = fixture_begin(&b);
    char *text = managed_text(txn, t);
    ck_assert_msg(strcmp(text, p->before) == 0 || strcmp(text, p->after) == 0,
                  "\"%s\" is neither \"%s\" nor \"%s\"", text, p->before, p->after);
    free(text);
    commit(txn);
}

/* Checks the rows, and that a digest and a combine change no row and lose no page. Closes the
 * database. */
static void done(const char *expected)
{
    if (expected)
        managed_expect(&b, t, expected);
    ok_db(&b, lladd_managed_digest(t, &b.err));
    ok_db(&b, lladd_managed_combine(t, 0, &b.err));
    managed_tidy(&b, t);
    ck_assert_uint_eq(managed_stats(&b, t).obsolete, 0);
    if (expected)
        managed_expect(&b, t, expected);
    managed_close(&b, t);
    managed_no_leaks(&b);
    fixture_free(&b);
}

static void unchanged(int i)
{
    managed_expect(&b, t, promises[i].before);
}

static void crashed(int i)
{
    restart();
    expect_one_of(&promises[i]);
    done(NULL);
}

static void all_done(uint64_t run)
{
    if (run % 8 == 0)
        restart();
    done(LAST);
}

/* With levels, digests absorb the run that there is. */
static enum lladd_managed_schedule of_loop(int i)
{
    return i ? LLADD_MANAGED_LEVELS : LLADD_MANAGED_RULER;
}

static const struct fixture_steps steps = {STEPS, setup, step, unchanged, crashed, all_done};

START_TEST(every_allocation_fails_once)
{
    schedule = of_loop(_i);
    ck_assert_uint_gt(fixture_each_fails_once(&b, &steps, false), 40);
}
END_TEST

/* The open of a table that has rows to be replayed, a transaction in doubt, a run, and runs to be
 * freed. */
START_TEST(every_allocation_of_an_open_fails_once)
{
    struct lladd_gid g = fixture_gid("x");
    uint64_t fired = 1;
    unsigned failures = 0;
    setup();
    managed_fill(&b, t, "3=c");
    ok_db(&b, lladd_managed_digest(t, &b.err));
    ok_db(&b, lladd_managed_combine(t, 0, &b.err));
    managed_fill(&b, t, "1 4=d");
    struct lladd_txn *txn = fixture_begin(&b);
    managed_fill_in(txn, t, "2 5=e");
    ok(txn, lladd_prepare(txn, &g));
    fixture_crash(&b);
    for (uint64_t n = 1; fired; n++) {
        fault_alloc_fail(&b.mem, n, false);
        int rc = lladd_managed_open(b.db, "rows", &t, &b.err);
        fired = fault_alloc_fired(&b.mem);
        fault_alloc_fail(&b.mem, 0, false);
        if (rc) {
            ck_assert_int_eq(rc, LLADD_NO_MEMORY);
            failures++;
        } else if (fired) { /* what failed was optional. The database has closed the table, so the
                             * next call opens it again */
            fixture_close(&b);
            fixture_open(&b);
        }
    }
    ck_assert_uint_gt(failures, 20);
    managed_expect(&b, t, "2=a 3=c 4=d");
    ok_db(&b, lladd_in_doubt_claim(b.db, &g, &txn, &b.err));
    commit(txn);
    done("3=c 4=d 5=e");
}
END_TEST

START_TEST(every_allocation_of_a_new_one_fails_once)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    uint64_t fired = 1;
    unsigned failures = 0;
    o.type = LLADD_DTABLE_U32;
    o.config = "class(dt) bloom_dtable config [ \"base\" class(dt) linear_dtable ]";
    for (uint64_t n = 1; fired; n++) {
        managed_init(&b);
        fixture_open(&b);
        struct lladd_txn *txn = fixture_begin(&b);
        fault_alloc_fail(&b.mem, n, false);
        int rc = lladd_managed_create(txn, "rows", &o);
        fired = fault_alloc_fired(&b.mem);
        fault_alloc_fail(&b.mem, 0, false);
        if (rc) {
            failures++;
            ck_assert_int_eq(rc, LLADD_NO_MEMORY);
            ck_assert_int_eq(lladd_txn_error(txn)->code, rc);
            ok(txn, lladd_managed_create(txn, "rows", &o));
        }
        commit(txn);
        t = managed_open(&b, "rows");
        managed_fill(&b, t, "1=a");
        done("1=a");
    }
    ck_assert_uint_gt(failures, 20);
}
END_TEST

/* ---- with an open snapshot ------------------------------------------------------------------- */

static const struct promise kept[] = {
    {"1=a 2=a", "1=a 2=a"},         {"1=a 2=a", "1=b 2=a 4=b"},     {"1=b 2=a 4=b", "1=b 2=a 4=b"},
    {"1=b 2=a 4=b", "1=b 2=a 4=b"}, {"1=b 2=a 4=b", "1=b 2=a 4=b"}, {"1=b 2=a 4=b", "1=b 2=a 4=b"},
    {"1=b 2=a 4=b", "1=b 2=a 4=b"}};
enum { KEPT_STEPS = sizeof kept / sizeof *kept };

static bool differences; /* merges build differences: there is a run, and no range is deleted */

/* Reads the two rows that the snapshot has. */
static int read_kept(void)
{
    const struct lladd_dtable *table;
    struct lladd_dtable_cursor *c;
    struct lladd_dtable_value v;
    struct lladd_dtable_key key = lladd_dtable_u32(2);
    char value;
    size_t len;
    int rc = lladd_managed_snapshot_table(snapshot, t, &table, &b.err);
    if (!rc)
        rc = lladd_dtable_get(table, &key, &value, 1, &len, &b.err);
    if (!rc)
        rc = lladd_dtable_cursor_open(table, 0, &c, &b.err);
    if (rc)
        return rc;
    for (uint32_t i = 1; i <= 2 && !rc; i++) {
        rc = lladd_dtable_next(c, &b.err);
        if (!rc)
            rc = lladd_dtable_row(c, &key, &v, &b.err);
        if (!rc)
            ck_assert(key.number == i && v.bytes.len == 1 && *(const char *)v.bytes.data == 'a');
    }
    if (!rc) {
        rc = lladd_dtable_next(c, &b.err);
        ck_assert_int_ne(rc, 0);
        rc = rc == LLADD_END ? 0 : rc;
    }
    lladd_dtable_cursor_close(c);
    return rc;
}

static int kept_step(int i)
{
    static const char *const first[] = {"1b", "3x", "4b", "3", NULL};
    static const char *const and_range[] = {"1b", "3x", "4b", "3", "69", NULL};
    switch (i) {
    case 0:
        return lladd_managed_snapshot_open(b.db, &snapshot, &b.err);
    case 1:
        return rows(differences ? first : and_range);
    case 2:
    case 4:
        return read_kept();
    case 3:
        return lladd_managed_digest(t, &b.err);
    case 5:
        return lladd_managed_combine(t, 0, &b.err);
    default:
        return tidy();
    }
}

static void kept_setup(void)
{
    setup();
    managed_fill(&b, t, "2=x 1=x");
    if (differences) /* a merge then replaces a run that the snapshot reads */
        ok_db(&b, lladd_managed_digest(t, &b.err));
    managed_fill(&b, t, "2=a 1=a"); /* the snapshot has rows in memory */
    snapshot = NULL;
}

static void kept_unchanged(int i)
{
    managed_expect(&b, t, kept[i].before);
    ck_assert_int_eq(snapshot ? read_kept() : 0, 0);
}

static void kept_crashed(int i)
{
    restart();
    expect_one_of(&kept[i]);
    done(NULL);
}

static void kept_done(uint64_t run)
{
    ck_assert_int_eq(read_kept(), 0);
    ck_assert_uint_gt(managed_stats(&b, t).held_pages, 0);
    if (run % 8 == 0)
        restart();
    else
        lladd_managed_snapshot_close(snapshot);
    done("1=b 2=a 4=b");
}

static const struct fixture_steps kept_steps = {KEPT_STEPS,     kept_setup,   kept_step,
                                                kept_unchanged, kept_crashed, kept_done};

START_TEST(every_allocation_with_a_snapshot_fails_once)
{
    schedule = of_loop(_i % 2);
    differences = _i / 2;
    ck_assert_uint_gt(fixture_each_fails_once(&b, &kept_steps, false), 40);
}
END_TEST

START_TEST(every_read_with_a_snapshot_fails_once)
{
    schedule = of_loop(_i % 2);
    differences = _i / 2;
    (void)fixture_each_fails_once(&b, &kept_steps, true); /* all may be in the cache */
}
END_TEST

START_TEST(every_write_with_a_snapshot_fails)
{
    schedule = of_loop(_i % 2);
    differences = _i / 2;
    ck_assert_uint_gt(fixture_each_write_fails(&b, &kept_steps), 5);
}
END_TEST

/* ---------------------------------------------------------------------------------------------- */

/* After a crash the acknowledged changes are there, and perhaps also the changes that were in
 * progress. */
START_TEST(every_write_fails)
{
    schedule = of_loop(_i);
    ck_assert_uint_gt(fixture_each_write_fails(&b, &steps), 5);
}
END_TEST

START_TEST(every_read_fails_once)
{
    schedule = of_loop(_i);
    ck_assert_uint_gt(fixture_each_fails_once(&b, &steps, true), 0);
}
END_TEST

START_TEST(power_fails)
{
    static const struct fault_crash power = {FAULT_POWER, 0, false};
    bool crashed = true;
    unsigned crashes = 0;
    schedule = of_loop(_i);
    for (uint64_t n = 1; crashed; n++) {
        int i = 0;
        setup();
        fault_device_crash_at(b.fd, n);
        while (i < STEPS && step(i) == 0)
            i++;
        crashed = fault_device_crashed(b.fd);
        if (!crashed) {
            fault_device_crash_at(b.fd, 0);
            done(LAST);
            continue;
        }
        crashes++;
        lladd_db_kill(b.db);
        b.db = NULL;
        fault_device_power_cycle(b.fd, &power);
        fixture_open(&b);
        t = managed_open(&b, "rows");
        if (i < STEPS)
            expect_one_of(&promises[i]);
        done(NULL);
    }
    ck_assert_uint_gt(crashes, 10);
}
END_TEST

/* Digests run out of space. When there is space again, one digest takes all rows. */
START_TEST(space_runs_out)
{
    unsigned failures = 0;
    char value[200];
    memset(value, 'v', sizeof value - 1);
    value[sizeof value - 1] = 0;
    schedule = LLADD_MANAGED_RULER;
    setup();
    struct lladd_txn *txn = fixture_begin(&b);
    for (uint32_t i = 10; i < 700; i++)
        managed_put(txn, t, i, value);
    for (uint32_t i = 1000; i < 4000; i += 10) {
        struct lladd_dtable_key from = lladd_dtable_u32(i), to = lladd_dtable_u32(i + 5);
        ok(txn, lladd_managed_delete_range(txn, t, &from, &to));
    }
    commit(txn);
    fault_device_capacity(b.fd, fault_device_bytes(b.fd));
    int rc = lladd_managed_digest(t, &b.err);
    for (int i = 0; i < 12 && rc; i++, failures++) {
        ck_assert_int_eq(rc, LLADD_NO_SPACE);
        ck_assert_int_eq(lladd_db_error(b.db, &b.err), 0);
        ck_assert_uint_le(managed_stats(&b, t).memtables, 9);
        rc = lladd_managed_digest(t, &b.err);
    }
    ck_assert_uint_eq(failures, 12);
    fault_device_capacity(b.fd, UINT64_MAX);
    ck_assert_int_eq(lladd_managed_digest(t, &b.err), 0);
    ck_assert_uint_eq(managed_stats(&b, t).memtables, 1);
    ck_assert_uint_eq(managed_stats(&b, t).run_rows, 692);
    ck_assert_uint_eq(managed_stats(&b, t).run_ranges, 300);
    done(NULL);
}
END_TEST

/* The configuration refuses a row of a run. So the digest discards the run, and puts the rows into
 * another one. If the discard fails, the digest must fail. Otherwise the first run's pages would
 * have no owner. */
START_TEST(every_allocation_of_a_refused_run_fails_once)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    char value[201];
    uint64_t fired = 1;
    unsigned failures = 0;
    memset(value, 'v', sizeof value - 1);
    value[sizeof value - 1] = 0;
    o.config = "class(dt) array_dtable config [ \"value_size\" int 200 ]";
    for (uint64_t n = 1; fired; n++) {
        t = managed_begin(&b, &o);
        struct lladd_txn *txn = fixture_begin(&b);
        for (uint32_t i = 1; i <= 1500; i++) /* more rows than are staged, so the run has pages */
            managed_put(txn, t, i, value);
        managed_put(txn, t, 4000000000, value); /* the configuration rejects this row */
        commit(txn);
        fault_alloc_fail(&b.mem, n, false);
        int rc = lladd_managed_digest(t, &b.err);
        fired = fault_alloc_fired(&b.mem);
        fault_alloc_fail(&b.mem, 0, false);
        if (rc) {
            ck_assert_int_eq(rc, LLADD_NO_MEMORY);
            ck_assert_int_eq(b.err.code, LLADD_NO_MEMORY);
            failures++;
            ok_db(&b, lladd_managed_digest(t, &b.err));
        }
        ck_assert_uint_eq(managed_stats(&b, t).run_rows, 1501);
        managed_done(&b, t);
    }
    ck_assert_uint_gt(failures, 40);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("managed dTables: failures");
    TCase *tc = tcase_create("all");
    tcase_add_loop_test(tc, every_allocation_fails_once, 0, 2);
    tcase_add_test(tc, every_allocation_of_a_refused_run_fails_once);
    tcase_add_test(tc, every_allocation_of_an_open_fails_once);
    tcase_add_test(tc, every_allocation_of_a_new_one_fails_once);
    tcase_add_loop_test(tc, every_allocation_with_a_snapshot_fails_once, 0, 4);
    tcase_add_loop_test(tc, every_read_with_a_snapshot_fails_once, 0, 4);
    tcase_add_loop_test(tc, every_write_with_a_snapshot_fails, 0, 4);
    tcase_add_loop_test(tc, every_write_fails, 0, 2);
    tcase_add_loop_test(tc, every_read_fails_once, 0, 2);
    tcase_add_loop_test(tc, power_fails, 0, 2);
    tcase_add_test(tc, space_runs_out);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
