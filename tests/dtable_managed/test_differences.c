/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Merges replace the runs that open snapshots read. They store exactly the versions of rows that
 * the snapshots see and the new run has not, and each of them once.
 */
#include "managed_fixture.h"

#include <lladd/bytes.h>
#include <lladd/dtable_row.h>
#include <stdio.h>
#include <string.h>

static struct fixture b;
static struct lladd_managed *t;

static struct lladd_managed *begin(enum lladd_managed_schedule schedule, const char *config)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    o.schedule = schedule;
    o.config = config;
    return managed_begin(&b, &o);
}

static void fill(const char *rows)
{
    managed_fill(&b, t, rows);
}

static void digest(void)
{
    ok_db(&b, lladd_managed_digest(t, &b.err));
}

static void combine(uint32_t runs)
{
    ok_db(&b, lladd_managed_combine(t, runs, &b.err));
}

static struct lladd_managed_snapshot *snap(void)
{
    return managed_snapshot(&b);
}

static void sees(struct lladd_managed_snapshot *s, const char *rows)
{
    managed_snapshot_sees(&b, s, t, rows);
}

/* How many versions are kept, and in how many runs, after all other obsolete runs are freed. */
static void keeps(uint64_t versions, uint64_t runs)
{
    managed_tidy(&b, t);
    struct lladd_managed_stats s = managed_stats(&b, t);
    ck_assert_uint_eq(s.held_versions, versions);
    ck_assert_uint_eq(s.held_runs, runs);
    ck_assert_uint_eq(s.obsolete, runs);
}

/* Puts rows from `first` to `end`, each in `step`. */
static void many(uint32_t first, uint32_t end, uint32_t step, const char *text)
{
    struct lladd_txn *txn = fixture_begin(&b);
    for (uint32_t i = first; i < end; i += step)
        managed_put(txn, t, i, text);
    commit(txn);
}

/* ---- what is kept ---------------------------------------------------------------------------- */

/* A digest absorbs the only run. The snapshot keeps the old version of the changed and deleted
 * rows, and the knowledge that it had no row 5. Row 3 was put again as it was. */
START_TEST(a_digest_keeps_what_changed)
{
    t = begin(LLADD_MANAGED_LEVELS, NULL);
    fill("1=a 2=b 3=c 4=d");
    digest();
    struct lladd_managed_snapshot *s = snap();
    fill("1=x 2 3=c 5=e");
    digest();
    sees(s, "1=a 2=b 3=c 4=d");
    managed_expect(&b, t, "1=x 3=c 4=d 5=e");
    keeps(3, 1);
    fill("4=y");
    digest(); /* the difference from the newest run takes the place of the first one */
    sees(s, "1=a 2=b 3=c 4=d");
    keeps(4, 1);
    fill("1=a 2=b 4=d 5");
    digest(); /* all is as it was */
    sees(s, "1=a 2=b 3=c 4=d");
    managed_expect(&b, t, "1=a 2=b 3=c 4=d");
    keeps(0, 0);
    fill("1=z");
    digest();
    sees(s, "1=a 2=b 3=c 4=d");
    keeps(1, 1);
    lladd_managed_snapshot_close(s);
    managed_nothing_held(&b, t);
    managed_done(&b, t);
}
END_TEST

/* The run of a snapshot's rows in memory goes into the difference when it is combined. */
START_TEST(a_combine_keeps_what_changed)
{
    t = begin(LLADD_MANAGED_NEVER, NULL);
    fill("1=a 2=b 3=c");
    digest();
    fill("2=B 4=d");
    struct lladd_managed_snapshot *s = snap();
    fill("1 4=D 5=e");
    digest();
    keeps(0, 1);
    sees(s, "1=a 2=B 3=c 4=d");
    combine(0);
    sees(s, "1=a 2=B 3=c 4=d");
    keeps(3, 1); /* row 1, row 4, and that there was no row 5 */
    fill("6=f");
    digest();
    keeps(3, 1);
    combine(0);
    keeps(4, 1);
    sees(s, "1=a 2=B 3=c 4=d");
    managed_expect(&b, t, "2=B 3=c 4=D 5=e 6=f");
    lladd_managed_snapshot_close(s);
    managed_nothing_held(&b, t);
    managed_done(&b, t);
}
END_TEST

/* A combine of runs that are all older than the snapshot, or all newer, stores nothing for it. */
START_TEST(other_combines_store_nothing)
{
    t = begin(LLADD_MANAGED_NEVER, NULL);
    fill("1=a 2=b");
    digest();
    fill("2=c");
    digest();
    struct lladd_managed_snapshot *s = snap();
    sees(s, "1=a 2=c");
    fill("3=d");
    digest();
    fill("3=e 1");
    digest();
    keeps(0, 0);
    combine(2); /* the newer ones */
    sees(s, "1=a 2=c");
    keeps(0, 0);
    fill("4=f");
    digest();
    sees(s, "1=a 2=c");
    combine(0);
    sees(s, "1=a 2=c");
    keeps(3, 1); /* row 1, and that there were no rows 3 and 4 */
    lladd_managed_snapshot_close(s);
    managed_nothing_held(&b, t);
    managed_done(&b, t);
}
END_TEST

/* A tombstone that the new run keeps is another thing than no row: an older run has the key. */
START_TEST(tombstones_of_newer_runs)
{
    t = begin(LLADD_MANAGED_NEVER, NULL);
    fill("1=a 2=b 3=c");
    digest();
    fill("1 4=d");
    digest();
    struct lladd_managed_snapshot *s = snap();
    fill("1=x 2");
    digest();
    fill("3");
    digest();
    combine(3); /* without the oldest run */
    sees(s, "2=b 3=c 4=d");
    managed_expect(&b, t, "1=x 4=d");
    keeps(3, 1); /* a tombstone of 1, and that the newer runs had no rows 2 and 3 */
    combine(0);
    sees(s, "2=b 3=c 4=d");
    keeps(3, 1); /* rows 2 and 3, and that there was no row 1 */
    lladd_managed_snapshot_close(s);
    managed_nothing_held(&b, t);
    managed_done(&b, t);
}
END_TEST

/* Each snapshot's difference is from the next newer one, so that a version is stored once. A closed
 * snapshot's versions go with it, unless an older snapshot sees them, too. */
START_TEST(snapshots_share_versions)
{
    enum { SNAPSHOTS = 4 };
    struct lladd_managed_snapshot *s[SNAPSHOTS];
    static const char *const rows[SNAPSHOTS] = {"1=a 2=b 3=c 9=z", "1=a 2=B 3=c 9=z",
                                                "1=a 2=B 3=c 4=d 9=z", "2=B 4=d 9=z"};
    t = begin(_i / 2 ? LLADD_MANAGED_LEVELS : LLADD_MANAGED_NEVER, NULL);
    fill(rows[0]);
    digest();
    s[0] = snap();
    fill("2=B");
    s[1] = snap();
    if (_i % 2)
        digest();
    fill("4=d");
    s[2] = snap();
    fill("1 3");
    s[3] = snap();
    fill("9=y");
    digest();
    combine(0);
    for (int i = 0; i < SNAPSHOTS; i++)
        sees(s[i], rows[i]);
    managed_expect(&b, t, "2=B 4=d 9=y");
    keeps(5, 4); /* 2=b; no row 4; 1=a and 3=c; 9=z */
    lladd_managed_snapshot_close(s[2]);
    keeps(5, 4); /* the first two see 1=a and 3=c */
    lladd_managed_snapshot_close(s[0]);
    keeps(4, 3);
    sees(s[1], rows[1]);
    fill("8=h");
    digest();
    combine(0); /* leaves out what only the closed ones saw */
    sees(s[1], rows[1]);
    sees(s[3], rows[3]);
    keeps(5, 2); /* 1=a, 3=c and no row 4; 9=z and no row 8 */
    lladd_managed_snapshot_close(s[1]);
    keeps(2, 1);
    sees(s[3], rows[3]);
    lladd_managed_snapshot_close(s[3]);
    managed_nothing_held(&b, t);
    managed_done(&b, t);
}
END_TEST

/* While a snapshot is open, all rows are replaced many times. It keeps one version of each; and a
 * snapshot of a table in which little changes keeps little. */
START_TEST(at_most_one_version_of_a_row)
{
    enum { ROWS = 3000, FEW = 30 };
    t = begin((enum lladd_managed_schedule)_i, NULL);
    many(0, ROWS, 1, "first version of a row");
    digest();
    managed_tidy(&b, t);
    uint64_t all = managed_stats(&b, t).run_pages;
    struct lladd_managed_snapshot *s = snap();
    for (int i = 0; i < 5; i++) {
        many(0, FEW, 1, i % 2 ? "odd" : "even");
        digest();
    }
    combine(0);
    keeps(FEW, 1);
    ck_assert_uint_lt(managed_stats(&b, t).held_pages, all / 4);
    for (int i = 0; i < 4; i++) {
        many(0, ROWS + 10, 1, i % 2 ? "odd" : "even");
        digest();
    }
    combine(0);
    keeps(ROWS + 10, 1);
    const struct lladd_dtable *table = managed_snapshot_table(&b, s, t);
    for (uint32_t i = 0; i < ROWS + 10; i++) {
        struct lladd_dtable_key key = lladd_dtable_u32(i);
        char value[32] = {0};
        size_t len;
        int rc = lladd_dtable_get(table, &key, value, sizeof value, &len, &b.err);
        ck_assert_int_eq(rc, i < ROWS ? 0 : LLADD_NOT_FOUND);
        ck_assert_str_eq(value, i < ROWS ? "first version of a row" : "");
    }
    lladd_managed_snapshot_close(s);
    managed_nothing_held(&b, t);
    managed_done(&b, t);
}
END_TEST

/* ---- when no difference is built ------------------------------------------------------------- */

/* With deleted ranges the snapshot keeps its runs, until it is closed. */
START_TEST(ranges_keep_runs)
{
    struct lladd_dtable_key from = lladd_dtable_u32(2), to = lladd_dtable_u32(4);
    t = begin(_i ? LLADD_MANAGED_LEVELS : LLADD_MANAGED_NEVER, NULL);
    fill("1=a 2=b 3=c");
    digest();
    struct lladd_managed_snapshot *s = snap();
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_managed_delete_range(txn, t, &from, &to));
    commit(txn);
    digest();
    combine(0);
    sees(s, "1=a 2=b 3=c");
    keeps(0, 1);
    fill("1=x 5=e");
    digest();
    combine(0);
    sees(s, "1=a 2=b 3=c");
    managed_expect(&b, t, "1=x 5=e");
    keeps(0, 1);
    lladd_managed_snapshot_close(s);
    managed_nothing_held(&b, t);
    managed_done(&b, t);
}
END_TEST

static int no_case(void *ctx, struct lladd_span x, struct lladd_span y)
{
    const char *a = x.data, *c = y.data;
    (void)ctx;
    ck_assert(x.len == 1 && y.len == 1);
    return (*a | 32) - (*c | 32);
}
static uint64_t no_case_hash(void *ctx, struct lladd_span x)
{
    (void)ctx;
    return *(const unsigned char *)x.data | 32u;
}
static const struct lladd_dtable_comparator comparator = {.struct_size = sizeof comparator,
                                                          .name = "no-case",
                                                          .compare = no_case,
                                                          .hash = no_case_hash};

/* Equal keys may differ in their bytes, and the snapshot has the bytes of its time. */
START_TEST(a_comparator_keeps_runs)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    struct lladd_dtable_cursor *c = NULL;
    managed_init(&b);
    fixture_open(&b);
    ok_db(&b, lladd_dtable_comparator_add(b.db, &comparator, &b.err));
    o.type = LLADD_DTABLE_BYTES;
    o.comparator = comparator.name;
    o.schedule = LLADD_MANAGED_LEVELS;
    t = managed_table(&b, "rows", &o);
    struct lladd_managed_snapshot *s = NULL;
    for (int i = 0; i < 2; i++) {
        struct lladd_dtable_key key = lladd_dtable_bytes(i ? "A" : "a", 1);
        struct lladd_dtable_value v = lladd_dtable_value_of("value", 5);
        struct lladd_txn *txn = fixture_begin(&b);
        ok(txn, lladd_managed_put(txn, t, &key, &v));
        commit(txn);
        digest();
        s = s ? s : snap();
    }
    keeps(0, 1);
    struct lladd_dtable_key key;
    ok_db(&b, lladd_dtable_cursor_open(managed_snapshot_table(&b, s, t), 0, &c, &b.err));
    ok_db(&b, lladd_dtable_next(c, &b.err));
    ok_db(&b, lladd_dtable_row(c, &key, NULL, &b.err));
    ck_assert_int_eq(*(const char *)key.bytes.data, 'a');
    lladd_dtable_cursor_close(c);
    lladd_managed_snapshot_close(s);
    managed_nothing_held(&b, t);
    managed_done(&b, t);
}
END_TEST

/* ---- configurations -------------------------------------------------------------------------- */

static struct lladd_dtable_value packed(uint32_t a, uint32_t c, unsigned char *room)
{
    unsigned char bytes[8];
    size_t len;
    lladd_put32(bytes, a);
    lladd_put32(bytes + 4, c);
    const struct lladd_dtable_value columns[2] = {lladd_dtable_value_of(bytes, 4),
                                                  lladd_dtable_value_of(bytes + 4, 4)};
    ok_db(&b, lladd_dtable_row_size(columns, 2, &len, &b.err));
    lladd_dtable_row_pack(columns, 2, room);
    return lladd_dtable_value_of(room, len);
}

static void put_packed(uint32_t rows, uint32_t step, uint32_t c)
{
    unsigned char room[64];
    struct lladd_txn *txn = fixture_begin(&b);
    for (uint32_t i = 0; i < rows; i += step) {
        struct lladd_dtable_key key = lladd_dtable_u32(i);
        struct lladd_dtable_value v = packed(i, c, room);
        ok(txn, lladd_managed_put(txn, t, &key, &v));
    }
    commit(txn);
}

#define COLUMNS \
    "class(dt) multicolumn_dtable config [ \"columns\" words [ \"u32\" \"u32\" ] \"rows\" bool " \
    "true ]"

/* The differences are stored like the table's rows. A cursor on the snapshot, which reads one
 * column, goes over to the new version, and the replaced runs are freed while it is open. Values
 * that were read before stay in their pins. */
START_TEST(columns_of_a_cursor_that_stays_open)
{
    enum { ROWS = 2000 };
    static const uint32_t second[1] = {1};
    struct lladd_dtable_pin pins[2][2] = {{LLADD_DTABLE_PIN_INIT, LLADD_DTABLE_PIN_INIT},
                                          {LLADD_DTABLE_PIN_INIT, LLADD_DTABLE_PIN_INIT}};
    struct lladd_dtable_value v[2] = {{.state = LLADD_DTABLE_ABSENT}};
    struct lladd_dtable_columns want[2] = {{1, second, &v[0], pins[0]},
                                           {1, second, &v[1], pins[1]}};
    enum lladd_dtable_state state;
    struct lladd_dtable_cursor *c = NULL;
    struct lladd_dtable_key key = lladd_dtable_u32(7);
    t = begin(LLADD_MANAGED_LEVELS, COLUMNS);
    put_packed(ROWS, 1, 1);
    digest();
    struct lladd_managed_snapshot *s = snap();
    put_packed(ROWS, 10, 2);
    digest();
    const struct lladd_dtable *table = managed_snapshot_table(&b, s, t);
    ok_db(&b, lladd_dtable_lookup_columns(table, &key, &want[1], &state, &b.err));
    ok_db(&b, lladd_dtable_cursor_open(table, 0, &c, &b.err));
    for (uint32_t i = 0; i < ROWS; i++) {
        ok_db(&b, lladd_dtable_next(c, &b.err));
        ok_db(&b, lladd_dtable_row_columns(c, &want[0], &state, &b.err));
        ck_assert_int_eq(state, LLADD_DTABLE_FOUND);
        ck_assert_uint_eq(lladd_get32(v[0].bytes.data), 1);
        ok_db(&b, lladd_dtable_row(c, &key, NULL, &b.err));
        ck_assert_uint_eq(key.number, i);
        if (i % 300 == 299) {
            put_packed(ROWS + 5, 7 + i % 4, 3);
            digest();
            ok_db(&b, lladd_dtable_next(c, &b.err)); /* goes over */
            ok_db(&b, lladd_dtable_prev(c, &b.err));
            managed_tidy(&b, t);
            ck_assert_uint_eq(managed_stats(&b, t).obsolete, 1);
        }
    }
    ck_assert_int_eq(lladd_dtable_next(c, &b.err), LLADD_END);
    ck_assert_uint_eq(lladd_get32(v[1].bytes.data), 1);
    for (int i = 0; i < 4; i++)
        lladd_dtable_unpin(&pins[i / 2][i % 2]);
    lladd_dtable_cursor_close(c);
    lladd_managed_snapshot_close(s);
    managed_nothing_held(&b, t);
    managed_done(&b, t);
}
END_TEST

/* A configuration that refuses the older rows: the difference is stored otherwise. */
START_TEST(a_configuration_that_refuses)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    t = begin(LLADD_MANAGED_LEVELS, NULL);
    fill("1=abc 2=long");
    digest();
    struct lladd_managed_snapshot *s = snap();
    o.config = "class(dt) fixed_dtable config [ \"value_size\" int 3 ]";
    ok_db(&b, lladd_managed_alter(t, LLADD_MANAGED_CONFIG, &o, &b.err));
    fill("2=new");
    digest();
    sees(s, "1=abc 2=long");
    keeps(1, 1);
    managed_expect(&b, t, "1=abc 2=new");
    lladd_managed_snapshot_close(s);
    managed_nothing_held(&b, t);
    managed_done(&b, t);
}
END_TEST

/* ---- crashes --------------------------------------------------------------------------------- */

START_TEST(a_crash_frees_differences)
{
    t = begin(LLADD_MANAGED_LEVELS, NULL);
    fill("1=a 2=b 3=c");
    digest();
    struct lladd_managed_snapshot *s = snap();
    fill("1=x 4=d");
    digest();
    keeps(2, 1);
    fill("5=e");
    ok_db(&b, lladd_checkpoint(b.db, &b.err));
    sees(s, "1=a 2=b 3=c");
    t = managed_restart(&b);
    managed_expect(&b, t, "1=x 2=b 3=c 4=d 5=e");
    ck_assert_uint_eq(managed_stats(&b, t).obsolete, 1);
    managed_nothing_held(&b, t);
    managed_done(&b, t);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("managed dTables: what merges keep for open snapshots");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, a_digest_keeps_what_changed);
    tcase_add_test(tc, a_combine_keeps_what_changed);
    tcase_add_test(tc, other_combines_store_nothing);
    tcase_add_test(tc, tombstones_of_newer_runs);
    tcase_add_loop_test(tc, snapshots_share_versions, 0, 4);
    tcase_add_loop_test(tc, at_most_one_version_of_a_row, 0, 4);
    tcase_add_loop_test(tc, ranges_keep_runs, 0, 2);
    tcase_add_test(tc, a_comparator_keeps_runs);
    tcase_add_test(tc, columns_of_a_cursor_that_stays_open);
    tcase_add_test(tc, a_configuration_that_refuses);
    tcase_add_test(tc, a_crash_frees_differences);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
