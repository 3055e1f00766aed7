/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The schedule of levels: three components. The sizes of the runs follow the rules of
 * operations/dtables/managed/level.c, and a table has at most three runs. A digest absorbs C1, and
 * keeps tombstones and deleted ranges as long as there is an older run. Tables change to this
 * schedule and from it, and are reopened. Here nothing runs at the same time; test_pace.c has the
 * threads.
 */
#include "managed_fixture.h"

#include <lladd/hash.h>

enum { KEYS = 4000, LONG = 100, SMALL = 8000, MANY = 3000 };

static struct fixture b;
static struct lladd_managed *t;
static uint64_t seed;
static char letters[KEYS]; /* the letter that the key's value consists of; 0: no row */

static struct lladd_managed *begin(uint64_t memory_bytes)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    o.schedule = LLADD_MANAGED_LEVELS;
    o.memory_bytes = memory_bytes;
    seed = 1;
    memset(letters, 0, sizeof letters);
    return managed_begin(&b, &o);
}

static void put(struct lladd_txn *txn, uint32_t key, char letter)
{
    char value[LONG + 1] = {0};
    memset(value, letter, LONG);
    managed_put(txn, t, key, letter ? value : NULL);
    letters[key] = letter;
}

/* Puts n random rows; one in eight is deleted instead. */
static void load(unsigned n)
{
    struct lladd_txn *txn = fixture_begin(&b);
    while (n--) {
        uint64_t drawn = seeded_next(&seed);
        put(txn, (uint32_t)(drawn % KEYS), drawn >> 32 & 7 ? (char)('a' + (drawn >> 35) % 26) : 0);
    }
    commit(txn);
}

/* Puts the rows 0 to n - 1. */
static void load_first(uint32_t n)
{
    struct lladd_txn *txn = fixture_begin(&b);
    for (uint32_t i = 0; i < n; i++)
        put(txn, i, 'a');
    commit(txn);
}

static void digest(void)
{
    ok_db(&b, lladd_managed_digest(t, &b.err));
}

/* Asserts that the table has the rows of `letters` and no others. */
static void expect_rows(void)
{
    struct lladd_txn *txn = fixture_begin(&b);
    const struct lladd_dtable *table = NULL;
    struct lladd_dtable_cursor *c = NULL;
    struct lladd_dtable_key key;
    struct lladd_dtable_value v;
    uint32_t next = 0;
    ok(txn, lladd_managed_table(txn, t, &table));
    ok(txn, lladd_dtable_cursor_open(table, 0, &c, &b.err));
    int rc;
    while ((rc = lladd_dtable_next(c, &b.err)) == 0) {
        ok_db(&b, lladd_dtable_row(c, &key, &v, &b.err));
        while (next < KEYS && !letters[next])
            next++;
        ck_assert_uint_eq(key.number, next);
        ck_assert_uint_eq(v.bytes.len, LONG);
        ck_assert_int_eq(*(const char *)v.bytes.data, letters[next]);
        next++;
    }
    ck_assert_int_eq(rc, LLADD_END);
    while (next < KEYS && !letters[next])
        next++;
    ck_assert_uint_eq(next, KEYS);
    lladd_dtable_cursor_close(c);
    commit(txn);
}

struct shape {
    struct lladd_managed_stats s;
    struct lladd_managed_run runs[16]; /* the newest first */
};

static struct shape shape(void)
{
    struct shape out = {.s = {.struct_size = sizeof out.s}};
    ok_db(&b, lladd_managed_stats_get(t, &out.s, out.runs, 16, &b.err));
    ck_assert_uint_le(out.s.runs, 16);
    return out;
}

static void alter(enum lladd_managed_schedule schedule)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    o.schedule = schedule;
    o.every = 100;
    ok_db(&b, lladd_managed_alter(t, LLADD_MANAGED_SCHEDULE | LLADD_MANAGED_EVERY, &o, &b.err));
}

/* ---- shape ----------------------------------------------------------------------------------- */

/* R is the square root of |C2| / |C0|: so the square of the bytes at which C1 is combined, divided
 * by all bytes, is |C0|. */
static double c0_of(const struct shape *h)
{
    double target = (double)h->s.level_bytes;
    return target * target / (double)h->s.run_bytes;
}

/* Does one piece of work that is due. */
static bool work(void)
{
    bool more = false;
    ok_db(&b, lladd_managed_maintain(t, &more, &b.err));
    return more;
}

START_TEST(at_most_three_runs)
{
    enum { DIGESTS = 400 };
    unsigned most = 0;
    t = begin(SMALL);
    for (unsigned i = 1; i <= DIGESTS; i++) {
        while (shape().s.pending_bytes < SMALL)
            load(10);
        do {
            struct shape h = shape();
            most = most < h.s.runs ? (unsigned)h.s.runs : most;
        } while (work());
        if (i % 50)
            continue;
        struct shape h = shape();
        if (i > 100) { /* a full C0 has about 45 keys, with 95 stored bytes each */
            ck_assert_double_gt(c0_of(&h), 0.35 * SMALL);
            ck_assert_double_lt(c0_of(&h), 0.9 * SMALL);
        }
        expect_rows();
        t = managed_restart(&b);
        expect_rows();
        h = shape(); /* how much memory a row takes is not known yet */
        ck_assert_double_gt(c0_of(&h), 0.99 * SMALL);
        ck_assert_double_lt(c0_of(&h), 1.01 * SMALL);
    }
    struct shape h = shape();
    ck_assert_uint_le(most, 3);
    ck_assert_uint_ge(h.s.digests, DIGESTS);
    ck_assert_uint_gt(h.s.combines, DIGESTS / 20); /* R is about 8 at the end */
    ck_assert_uint_lt(h.s.combines, DIGESTS / 3);
    managed_done(&b, t);
}
END_TEST

/* A lone run is absorbed until it has more than twice the bytes at which C1 is combined: then it is
 * C2. */
START_TEST(a_lone_run_grows)
{
    unsigned digests = 0;
    struct shape h, before = {.s = {.runs = 0}};
    t = begin(SMALL);
    for (;; before = h) {
        load(40);
        digest();
        digests++;
        h = shape();
        if (h.s.runs > 1)
            break;
        ck_assert_uint_eq(h.s.combines, 0);
        ck_assert(digests < 2 || h.runs[0].generation > before.runs[0].generation);
    }
    ck_assert_uint_gt(digests, 4);
    ck_assert_uint_gt(before.runs[0].bytes, 2 * before.s.level_bytes);
    ck_assert_uint_eq(h.runs[1].generation, before.runs[0].generation);
    expect_rows();
    managed_tidy(&b, t);
    managed_done(&b, t);
}
END_TEST

/* Digests absorb C1 until it is large enough. Then a combine is due, before further digests. If the
 * program digests nevertheless, this makes another C1, which the next digest absorbs. The combine
 * leaves this one alone. */
START_TEST(c1_is_combined_when_it_is_large)
{
    t = begin(SMALL);
    load_first(MANY);
    digest();
    struct shape h = shape(), was = h;
    uint64_t c2 = h.runs[0].generation;
    ck_assert_uint_eq(h.s.runs, 1);
    for (unsigned i = 0; h.s.runs < 2 || h.runs[0].bytes < h.s.level_bytes; i++) {
        load(40);
        digest();
        managed_tidy(&b, t);
        was = h;
        h = shape();
        ck_assert_uint_eq(h.s.runs, h.s.combines ? 1 : 2);
        if (h.s.combines)
            break;
        ck_assert_uint_eq(h.runs[1].generation, c2);
        ck_assert_uint_lt(h.runs[0].bytes, h.s.level_bytes);
        ck_assert_uint_lt(i, 100);
    }
    ck_assert_uint_eq(h.s.combines, 1);
    ck_assert_uint_gt(was.runs[0].bytes, was.s.level_bytes / 2);
    expect_rows();
    while (h.s.runs < 2 || h.runs[0].bytes < h.s.level_bytes) {
        load(40);
        digest();
        h = shape();
    }
    was = h;
    for (int i = 0; i < 2; i++) {
        load(40);
        digest();
        h = shape();
        ck_assert_uint_eq(h.s.runs, 3);
        ck_assert_uint_eq(h.runs[1].generation, was.runs[0].generation);
        ck_assert_uint_eq(h.runs[2].generation, was.runs[1].generation);
    }
    was = h;
    while (shape().s.pending_bytes < SMALL)
        load(10);
    while (shape().s.obsolete)
        (void)work();
    (void)work(); /* not a digest, although one is due too */
    h = shape();
    ck_assert_uint_eq(h.s.combines, 2);
    ck_assert_uint_eq(h.s.runs, 2);
    ck_assert_uint_eq(h.runs[0].generation, was.runs[0].generation);
    t = managed_restart(&b);
    expect_rows();
    managed_tidy(&b, t);
    managed_done(&b, t);
}
END_TEST

/* Aborted transactions have filled the memory. The digest only frees it. */
START_TEST(nothing_to_store_absorbs_nothing)
{
    t = begin(SMALL);
    load(40);
    digest();
    uint64_t generation = shape().runs[0].generation;
    while (shape().s.pending_bytes < SMALL) {
        struct lladd_txn *txn = fixture_begin(&b);
        for (uint32_t i = 0; i < 20; i++)
            managed_put(txn, t, i, "x");
        abort_txn(txn);
    }
    managed_tidy(&b, t);
    struct shape h = shape();
    ck_assert_uint_lt(h.s.pending_bytes, SMALL);
    ck_assert_uint_eq(h.s.digests, 2);
    ck_assert_uint_eq(h.s.runs, 1);
    ck_assert_uint_eq(h.runs[0].generation, generation);
    expect_rows();
    managed_done(&b, t);
}
END_TEST

/* ---- other schedules ------------------------------------------------------------------------- */

/* All runs of another schedule but the newest one become C2. The newest one is C1, unless it is
 * large. */
START_TEST(runs_of_another_schedule)
{
    enum { RUNS = 8 };
    unsigned large = (unsigned)_i;
    t = begin(SMALL);
    alter(LLADD_MANAGED_NEVER);
    ck_assert_uint_eq(shape().s.level_bytes, 0);
    for (int i = 0; i < RUNS; i++) {
        load(400);
        digest();
    }
    if (large) {
        load_first(MANY);
        digest();
    }
    struct shape h = shape(), was = h;
    ck_assert_uint_eq(h.s.runs, RUNS + large);
    alter(LLADD_MANAGED_LEVELS);
    ck_assert_uint_gt(shape().s.level_bytes, 0);
    load(20);
    digest();
    h = shape();
    ck_assert_uint_eq(h.s.runs, RUNS + 2 * large);
    ck_assert_uint_eq(h.runs[1].generation, was.runs[!large].generation);
    while (shape().s.combines == 0)
        (void)work();
    struct shape after = shape();
    ck_assert_uint_eq(after.s.runs, 2);
    ck_assert_uint_eq(after.runs[0].generation, h.runs[0].generation);
    ck_assert_uint_eq(after.runs[1].tombstones, 0);
    expect_rows();
    managed_tidy(&b, t);
    t = managed_restart(&b);
    expect_rows();
    managed_done(&b, t);
}
END_TEST

/* With another schedule, a digest adds a run again. */
START_TEST(back_to_another_schedule)
{
    static const enum lladd_managed_schedule all[] = {LLADD_MANAGED_RULER, LLADD_MANAGED_TIERED,
                                                      LLADD_MANAGED_NEVER};
    t = begin(SMALL);
    load_first(MANY);
    digest();
    load(40);
    digest();
    struct shape h = shape();
    ck_assert_uint_eq(h.s.runs, 2);
    alter(all[_i]);
    t = managed_restart(&b);
    for (unsigned i = 1; i <= 3; i++) {
        load(40);
        digest();
        ck_assert_uint_eq(shape().s.runs, 2 + i);
    }
    expect_rows();
    alter(LLADD_MANAGED_LEVELS);
    t = managed_restart(&b);
    managed_tidy(&b, t);
    ck_assert_uint_eq(shape().s.runs, 2);
    load(40);
    digest();
    ck_assert_uint_le(shape().s.runs, 3);
    expect_rows();
    managed_tidy(&b, t);
    managed_done(&b, t);
}
END_TEST

/* ---- tombstones ------------------------------------------------------------------------------ */

static void del(uint32_t key, uint32_t to)
{
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_dtable_key from = lladd_dtable_u32(key), end = lladd_dtable_u32(to);
    if (to)
        ok(txn, lladd_managed_delete_range(txn, t, &from, &end));
    else
        managed_put(txn, t, key, NULL);
    commit(txn);
    memset(letters + key, 0, to ? to - key : 1);
}

/* C1 keeps tombstones and ranges, also when it is absorbed, and after a crash. They are dropped
 * with the oldest run. */
START_TEST(tombstones_stay_above_c2)
{
    t = begin(SMALL);
    load_first(MANY);
    digest();
    del(7, 0);
    del(100, 200);
    digest();
    for (int i = 0; i < 3; i++) {
        struct shape h = shape();
        ck_assert_uint_eq(h.s.runs, 2);
        ck_assert_uint_eq(h.runs[0].tombstones, 1);
        ck_assert_uint_eq(h.runs[0].ranges, 1);
        expect_rows();
        t = managed_restart(&b);
        expect_rows();
        struct lladd_txn *txn = fixture_begin(&b);
        put(txn, 150 + (uint32_t)i, 'z'); /* inside of the range */
        commit(txn);
        digest();
    }
    ck_assert_uint_eq(shape().runs[0].rows, 1 + 3);
    ok_db(&b, lladd_managed_combine(t, 0, &b.err));
    struct shape h = shape();
    ck_assert_uint_eq(h.s.runs, 1);
    ck_assert_uint_eq(h.s.run_tombstones, 0);
    ck_assert_uint_eq(h.s.run_ranges, 0);
    ck_assert_uint_eq(h.s.run_rows, MANY - 1 - 100 + 3);
    expect_rows();
    managed_tidy(&b, t);
    managed_done(&b, t);
}
END_TEST

/* A digest that absorbs the only run drops tombstones and ranges, and a run without rows. */
START_TEST(tombstones_go_with_a_lone_run)
{
    t = begin(0);
    managed_fill(&b, t, "1=a 2=b 3=c 4=d");
    digest();
    struct lladd_txn *old = fixture_begin(&b);
    managed_sees(old, t, "1=a 2=b 3=c 4=d");
    del(1, 0);
    del(3, 4);
    digest();
    struct shape h = shape();
    ck_assert_uint_eq(h.s.runs, 1);
    ck_assert_uint_eq(h.s.run_rows, 2);
    ck_assert_uint_eq(h.s.run_tombstones, 0);
    ck_assert_uint_eq(h.s.run_ranges, 0);
    managed_expect(&b, t, "2=b 4=d");
    managed_sees(old, t, "1=a 2=b 3=c 4=d"); /* an older snapshot keeps the absorbed run */
    managed_tidy(&b, t);
    ck_assert_uint_eq(shape().s.obsolete, 1);
    del(0, 9);
    digest();
    ck_assert_uint_eq(shape().s.runs, 0);
    managed_expect(&b, t, "");
    managed_sees(old, t, "1=a 2=b 3=c 4=d");
    commit(old);
    managed_tidy(&b, t);
    ck_assert_uint_eq(shape().s.obsolete, 0);
    t = managed_restart(&b);
    managed_expect(&b, t, "");
    managed_fill(&b, t, "5=e");
    digest();
    managed_expect(&b, t, "5=e");
    managed_tidy(&b, t);
    managed_done(&b, t);
}
END_TEST

/* ---- the stored description ------------------------------------------------------------------ */

static unsigned char row[1000];
static size_t row_len;

/* Gives the row the layout of version 2, which has 16 more bytes before the texts, or of version
 * 1. */
static void set_layout(bool second)
{
    enum { HEAD = 96, MORE = 16 };
    bool is = row[0] > 1;
    size_t rest = row_len - HEAD - (is ? MORE : 0);
    if (is == second)
        return;
    memmove(row + HEAD + (second ? MORE : 0), row + HEAD + (is ? MORE : 0), rest);
    if (second)
        memset(row + HEAD, 0, MORE);
    row_len = HEAD + rest + (second ? MORE : 0);
}

/* Reads the table's row of the catalogue and, if `version` is not 0, writes it with this version
 * and this schedule, in the layout of the version. The database is reopened. */
static void forge(unsigned char version, unsigned char schedule)
{
    struct lladd_root_value root;
    struct lladd_hash *h;
    ok_db(&b, lladd_root_get(b.db, "managed", &root, &b.err));
    ok_db(&b, lladd_hash_open(b.db, lladd_page_of(root.a), LLADD_HASH_LOGICAL, &h, &b.err));
    ok_db(&b, lladd_hash_get(h, "rows", 4, row, sizeof row, &row_len, &b.err));
    if (version) {
        struct lladd_txn *txn = fixture_begin(&b);
        set_layout(version > 1);
        row[0] = version;
        row[2] = schedule;
        ok(txn, lladd_hash_put(txn, h, "rows", 4, row, row_len));
        commit(txn);
    }
    lladd_hash_close(h);
    fixture_close(&b);
    fixture_open(&b);
}

/* Without flags and block_bytes, the version is 2 for this schedule and 1 for the others. Other
 * combinations are damage. A version above 2 is of a later library. */
START_TEST(versions_of_the_description)
{
    static const struct {
        unsigned char version, schedule;
        int rc;
    } rows[] = {{2, 0, LLADD_BAD_RECORD}, {2, 1, LLADD_BAD_RECORD},    {2, 2, LLADD_BAD_RECORD},
                {1, 3, LLADD_BAD_RECORD}, {2, 4, LLADD_BAD_RECORD},    {1, 4, LLADD_BAD_RECORD},
                {3, 3, LLADD_NEWER_FORMAT}, {255, 0, LLADD_NEWER_FORMAT}, {1, 0, 0}, {1, 1, 0},
                {1, 2, 0}, {2, 3, 0}};
    t = begin(0);
    managed_fill(&b, t, "1=a");
    digest();
    managed_close(&b, t);
    forge(0, 0);
    ck_assert_uint_eq(row[0], 2);
    ck_assert_uint_eq(row[2], LLADD_MANAGED_LEVELS);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        forge(rows[i].version, rows[i].schedule);
        int rc = lladd_managed_open(b.db, "rows", &t, &b.err);
        ck_assert_int_eq(rc, rows[i].rc);
        if (rc)
            continue;
        managed_expect(&b, t, "1=a");
        managed_close(&b, t);
    }
    t = managed_open(&b, "rows");
    alter(LLADD_MANAGED_TIERED);
    managed_close(&b, t);
    forge(0, 0);
    ck_assert_uint_eq(row[0], 1);
    ck_assert_uint_eq(row[2], LLADD_MANAGED_TIERED);
    t = managed_open(&b, "rows");
    managed_expect(&b, t, "1=a");
    managed_done(&b, t);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("managed dTables: levels");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, at_most_three_runs);
    tcase_add_test(tc, a_lone_run_grows);
    tcase_add_test(tc, c1_is_combined_when_it_is_large);
    tcase_add_test(tc, nothing_to_store_absorbs_nothing);
    tcase_add_loop_test(tc, runs_of_another_schedule, 0, 2);
    tcase_add_loop_test(tc, back_to_another_schedule, 0, 3);
    tcase_add_test(tc, tombstones_stay_above_c2);
    tcase_add_test(tc, tombstones_go_with_a_lone_run);
    tcase_add_test(tc, versions_of_the_description);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
