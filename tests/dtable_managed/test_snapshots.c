/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Open snapshots of managed dTables. They show all tables as these were, through digests and
 * combines of every schedule. After the next digest they keep no memory. What they keep on the disk
 * is freed when they are closed, and after a crash.
 */
#include "managed_fixture.h"

#include <lladd/ctable.h>

static struct fixture b;
static struct lladd_managed *t;

/* ---- steps ----------------------------------------------------------------------------------- */

static uint64_t position; /* of an unlogged table */
static bool unlogged;

static struct lladd_managed *begin(enum lladd_managed_schedule schedule, bool is_unlogged)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    o.schedule = schedule;
    o.flags = is_unlogged ? LLADD_MANAGED_UNLOGGED : 0;
    unlogged = is_unlogged;
    position = 0;
    return managed_begin(&b, &o);
}

/* Begins a transaction that may put rows. */
static struct lladd_txn *begin_txn(void)
{
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_managed_position p = {position + 1, 0};
    if (unlogged)
        ok(txn, lladd_managed_position_set(txn, t, &p));
    position++;
    return txn;
}

static void fill(const char *rows)
{
    struct lladd_txn *txn = begin_txn();
    managed_fill_in(txn, t, rows);
    commit(txn);
}

static void del(uint32_t from, uint32_t to)
{
    struct lladd_txn *txn = begin_txn();
    struct lladd_dtable_key first = lladd_dtable_u32(from), end = lladd_dtable_u32(to);
    ok(txn, lladd_managed_delete_range(txn, t, &first, to ? &end : NULL));
    commit(txn);
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

static const struct lladd_dtable *table_of(struct lladd_managed_snapshot *s)
{
    return managed_snapshot_table(&b, s, t);
}

static void expect_free(void)
{
    managed_nothing_held(&b, t);
}

/* ---- contents -------------------------------------------------------------------------------- */

/* Each schedule, and each both logged and unlogged. */
enum { LOOPS = 8 };

START_TEST(contents_stay)
{
    t = begin((enum lladd_managed_schedule)(_i / 2), _i % 2);
    struct lladd_managed_snapshot *none = snap();
    fill("1=a 2=b 3=c 4=d");
    struct lladd_managed_snapshot *first = snap();
    fill("1=x 2 5=e");
    struct lladd_managed_snapshot *second = snap(), *same = snap();
    fill("1=y 6=f");
    for (int i = 0; i < 7; i++) {
        static const char *const now[] = {
            "1=y 3=c 4=d 5=e 6=f", "1=y 3=c 4=d 5=e 6=f", "5=e 6=f", "5=e 6=f",
            "5=e 6=f 7=g", "5=e 6=f 7=g", ""};
        if (i == 1 || i == 3 || i == 5)
            digest();
        if (i == 2)
            del(0, 5);
        if (i == 4)
            fill("7=g");
        if (i == 6) {
            combine(2);
            del(0, 0);
            digest();
            combine(0);
            managed_tidy(&b, t);
        }
        managed_expect(&b, t, now[i]);
        sees(none, "");
        sees(first, "1=a 2=b 3=c 4=d");
        sees(second, "1=x 3=c 4=d 5=e");
        sees(same, "1=x 3=c 4=d 5=e");
    }
    ck_assert_uint_eq(managed_stats(&b, t).snapshots, 4);
    lladd_managed_snapshot_close(none);
    lladd_managed_snapshot_close(second);
    managed_tidy(&b, t);
    sees(first, "1=a 2=b 3=c 4=d");
    sees(same, "1=x 3=c 4=d 5=e");
    lladd_managed_snapshot_close(first);
    managed_tidy(&b, t);
    sees(same, "1=x 3=c 4=d 5=e");
    lladd_managed_snapshot_close(same);
    lladd_managed_snapshot_close(NULL);
    expect_free();
    managed_done(&b, t);
}
END_TEST

/* Rows of transactions that had not ended when the snapshot was opened, and of those that are taken
 * back, are not seen. */
START_TEST(transactions_in_progress_are_not_seen)
{
    lladd_savepoint_id here;
    t = begin(LLADD_MANAGED_RULER, false);
    fill("1=a 2=b");
    struct lladd_txn *later = fixture_begin(&b), *never = fixture_begin(&b);
    managed_fill_in(later, t, "1=l");
    managed_fill_in(never, t, "2=n");
    ok(later, lladd_savepoint(later, &here));
    struct lladd_managed_snapshot *s = snap();
    managed_fill_in(later, t, "3=l");
    sees(s, "1=a 2=b");
    digest();
    sees(s, "1=a 2=b");
    ok(later, lladd_rollback_to(later, here));
    commit(later);
    abort_txn(never);
    digest();
    sees(s, "1=a 2=b");
    managed_expect(&b, t, "1=l 2=b");
    lladd_managed_snapshot_close(s);
    expect_free();
    managed_done(&b, t);
}
END_TEST

/* The snapshot is of all tables. */
START_TEST(tables_are_seen_together)
{
    t = begin(LLADD_MANAGED_RULER, false);
    struct lladd_managed *other = managed_table(&b, "other", NULL);
    struct lladd_txn *txn = fixture_begin(&b);
    managed_fill_in(txn, t, "1=a");
    managed_fill_in(txn, other, "1=a");
    commit(txn);
    struct lladd_managed_snapshot *s = snap();
    txn = fixture_begin(&b);
    managed_fill_in(txn, t, "1=b");
    managed_fill_in(txn, other, "1=b");
    commit(txn);
    digest();
    managed_snapshot_sees(&b, s, other, "1=a");
    ok_db(&b, lladd_managed_digest(other, &b.err));
    managed_snapshot_sees(&b, s, t, "1=a");
    managed_snapshot_sees(&b, s, other, "1=a");
    lladd_managed_snapshot_close(s);
    managed_tidy(&b, other);
    managed_close(&b, other);
    expect_free();
    managed_done(&b, t);
}
END_TEST

/* ---- what is kept ---------------------------------------------------------------------------- */

/* After the next digest there is one memtable, the new one. The snapshot's rows are in a run. A
 * cursor keeps the old memtable until it moves. */
START_TEST(the_next_digest_frees_the_memory)
{
    enum { ROWS = 5000, TWICE = 1000, KILOBYTE = 1024 };
    t = begin((enum lladd_managed_schedule)_i, false);
    struct lladd_txn *txn = fixture_begin(&b);
    for (uint32_t i = 0; i < ROWS; i++)
        managed_put(txn, t, i, "first");
    commit(txn);
    struct lladd_managed_snapshot *s = snap();
    txn = fixture_begin(&b);
    for (uint32_t i = 0; i < TWICE; i++)
        managed_put(txn, t, i, "second");
    commit(txn);
    const struct lladd_dtable *table = table_of(s);
    struct lladd_dtable_cursor *c = NULL;
    ok_db(&b, lladd_dtable_cursor_open(table, 0, &c, &b.err));
    ok_db(&b, lladd_dtable_next(c, &b.err));
    struct lladd_managed_stats before = managed_stats(&b, t);
    ck_assert_uint_gt(before.memory_bytes, 100 * KILOBYTE);
    ck_assert_uint_eq(before.held_runs, 0);
    digest();
    struct lladd_managed_stats after = managed_stats(&b, t);
    ck_assert_uint_eq(after.memtables, 1);
    ck_assert_uint_lt(after.memory_bytes, 20 * KILOBYTE);
    ck_assert_uint_eq(after.snapshots, 1);
    ck_assert_uint_eq(after.held_runs, 1);
    ck_assert_uint_gt(after.held_pages, 5);
    ck_assert_uint_eq(after.runs, 1);
    ck_assert_uint_eq(after.obsolete, 1);
    for (uint32_t i = 0; i < ROWS; i += 7) {
        char value[8] = {0};
        size_t len;
        struct lladd_dtable_key key = lladd_dtable_u32(i);
        ok_db(&b, lladd_dtable_get(table, &key, value, sizeof value, &len, &b.err));
        ck_assert_str_eq(value, "first");
    }
    struct lladd_dtable_batch batch = {.n = 0};
    uint64_t n = 1, bytes = fault_alloc_bytes(&b.mem);
    int rc = lladd_dtable_next(c, &b.err);
    ck_assert_uint_lt(fault_alloc_bytes(&b.mem), bytes - 100 * KILOBYTE);
    rc = rc ? rc : lladd_dtable_prev(c, &b.err);
    ck_assert_int_eq(rc, 0);
    for (; (rc = lladd_dtable_next_n(c, 100, &batch, &b.err)) == 0; n += batch.n)
        for (size_t i = 0; i < batch.n; i++)
            ck_assert_uint_eq(batch.numbers[i], n + i);
    ck_assert_int_eq(rc, LLADD_END);
    ck_assert_uint_eq(n, ROWS);
    lladd_dtable_batch_free(&batch);
    lladd_dtable_cursor_close(c);
    lladd_managed_snapshot_close(s);
    expect_free();
    managed_done(&b, t);
}
END_TEST

/* A digest builds a run for a snapshot only if the memtables have rows for it. Snapshots that are
 * equal share it; a later one has a run of what came in between. */
START_TEST(runs_are_shared)
{
    t = begin(LLADD_MANAGED_NEVER, false);
    fill("1=a");
    digest();
    struct lladd_managed_snapshot *all[5] = {snap()}; /* at the commit of the digest or before it */
    fill("2=b");
    all[1] = snap();
    all[2] = snap();
    fill("3=c 1");
    all[3] = snap();
    fill("4=d");
    all[4] = snap();
    digest(); /* its cutoff is the last snapshot */
    struct lladd_managed_stats s = managed_stats(&b, t);
    ck_assert_uint_eq(s.snapshots, 5);
    ck_assert_uint_eq(s.held_runs, 2);
    ck_assert_uint_eq(s.obsolete, 2);
    combine(0);
    s = managed_stats(&b, t);
    ck_assert_uint_eq(s.held_runs, 3); /* differences; these replace the runs */
    ck_assert_uint_eq(s.obsolete, 7);
    managed_tidy(&b, t);
    ck_assert_uint_eq(managed_stats(&b, t).obsolete, 3);
    for (int i = 0; i < 5; i++) {
        static const char *const rows[] = {"1=a", "1=a 2=b", "1=a 2=b", "2=b 3=c", "2=b 3=c 4=d"};
        static const unsigned held[] = {2, 2, 1, 0, 0};
        for (int k = i; k < 5; k++)
            sees(all[k], rows[k]);
        lladd_managed_snapshot_close(all[i]);
        ck_assert_uint_eq(managed_stats(&b, t).held_runs, held[i]);
    }
    expect_free();
    managed_done(&b, t);
}
END_TEST

/* A digest with nothing to do leaves the snapshot with the current version. */
START_TEST(a_quiet_table_costs_nothing)
{
    t = begin(_i ? LLADD_MANAGED_LEVELS : LLADD_MANAGED_RULER, false);
    fill("1=a 2=b");
    digest();
    managed_tidy(&b, t);
    uint64_t pages = fixture_pages_used(&b);
    struct lladd_managed_snapshot *s = snap();
    for (int i = 0; i < 3; i++) {
        digest();
        managed_tidy(&b, t);
        sees(s, "1=a 2=b");
    }
    ck_assert_uint_eq(managed_stats(&b, t).obsolete, 0);
    ck_assert_uint_eq(fixture_pages_used(&b), pages);
    lladd_managed_snapshot_close(s);
    expect_free();
    managed_done(&b, t);
}
END_TEST

/* Before the next digest the snapshot keeps no run that a combine replaces. */
START_TEST(a_combine_replaces_runs_of_an_idle_snapshot)
{
    t = begin(LLADD_MANAGED_NEVER, false);
    fill("1=a 2=b");
    digest();
    fill("2=c");
    digest();
    struct lladd_managed_snapshot *s = snap();
    sees(s, "1=a 2=c");
    combine(0);
    managed_tidy(&b, t);
    ck_assert_uint_eq(managed_stats(&b, t).obsolete, 0);
    sees(s, "1=a 2=c");
    lladd_managed_snapshot_close(s);
    managed_done(&b, t);
}
END_TEST

/* ---- cursors and pins ------------------------------------------------------------------------ */

static struct lladd_dtable_cursor *cursor_on(struct lladd_managed_snapshot *s)
{
    struct lladd_dtable_cursor *c = NULL;
    ok_db(&b, lladd_dtable_cursor_open(table_of(s), 0, &c, &b.err));
    return c;
}

static void is_at(struct lladd_dtable_cursor *c, int rc, uint32_t number, const char *text)
{
    struct lladd_dtable_key key;
    struct lladd_dtable_value v;
    ck_assert_msg(rc == 0, "%s: %s", lladd_code_name(rc), b.err.message);
    ok_db(&b, lladd_dtable_row(c, &key, &v, &b.err));
    ck_assert_uint_eq(key.number, number);
    ck_assert_uint_eq(v.bytes.len, strlen(text));
    ck_assert_int_eq(memcmp(v.bytes.data, text, v.bytes.len), 0);
}

/* Cursors that stand at a row, before the first one and after the last one go on where they were,
 * in both directions. Their rows stay in memory until they move. */
START_TEST(cursors_go_on_after_a_digest)
{
    t = begin((enum lladd_managed_schedule)(_i / 2), _i % 2);
    fill("1=a 2=b 3=c 4=d 5=e");
    if (_i % 3 == 0)
        digest();
    fill("2=B 4");
    struct lladd_managed_snapshot *s = snap();
    struct lladd_dtable_cursor *c[6];
    struct lladd_dtable_key three = lladd_dtable_u32(3);
    for (int i = 0; i < 6; i++)
        c[i] = cursor_on(s);
    for (int i = 0; i < 4; i++) {
        int rc = lladd_dtable_seek(c[i], &three, &b.err);
        is_at(c[i], rc, 3, "c");
    }
    while (lladd_dtable_next(c[4], &b.err) == 0)
        ;
    fill("2 3=x 4=x 6=f");
    digest();
    fill("3=y");
    digest();
    combine(0);
    managed_tidy(&b, t);
    for (int i = 0; i < 4; i++)
        is_at(c[i], 0, 3, "c");
    is_at(c[0], lladd_dtable_next(c[0], &b.err), 5, "e");
    is_at(c[0], lladd_dtable_prev(c[0], &b.err), 3, "c");
    is_at(c[1], lladd_dtable_prev(c[1], &b.err), 2, "B");
    is_at(c[1], lladd_dtable_prev(c[1], &b.err), 1, "a");
    ck_assert_int_eq(lladd_dtable_prev(c[1], &b.err), LLADD_END);
    is_at(c[2], lladd_dtable_first(c[2], &b.err), 1, "a");
    is_at(c[3], lladd_dtable_last(c[3], &b.err), 5, "e");
    ck_assert_int_eq(lladd_dtable_next(c[3], &b.err), LLADD_END);
    is_at(c[4], lladd_dtable_prev(c[4], &b.err), 5, "e");
    is_at(c[5], lladd_dtable_next(c[5], &b.err), 1, "a");
    for (int i = 0; i < 6; i++)
        lladd_dtable_cursor_close(c[i]);
    lladd_managed_snapshot_close(s);
    expect_free();
    managed_done(&b, t);
}
END_TEST

/* A cursor is moved to the key of its own row. The memory of this row is about to be released. */
START_TEST(a_cursor_seeks_its_own_key)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    struct lladd_dtable_key key = lladd_dtable_string("a key of more bytes than a number");
    struct lladd_dtable_value v = lladd_dtable_value_of("v", 1);
    o.type = LLADD_DTABLE_STRING;
    t = managed_begin(&b, &o);
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_managed_put(txn, t, &key, &v));
    commit(txn);
    struct lladd_managed_snapshot *s = snap();
    struct lladd_dtable_cursor *c = cursor_on(s);
    txn = fixture_begin(&b);
    ok(txn, lladd_managed_delete_range(txn, t, NULL, NULL));
    commit(txn);
    ok_db(&b, lladd_dtable_next(c, &b.err));
    ok_db(&b, lladd_dtable_row(c, &key, NULL, &b.err));
    digest();
    ok_db(&b, lladd_dtable_seek(c, &key, &b.err));
    ok_db(&b, lladd_dtable_row(c, &key, &v, &b.err));
    ck_assert_uint_eq(v.bytes.len, 1);
    lladd_dtable_cursor_close(c);
    lladd_managed_snapshot_close(s);
    expect_free();
    managed_done(&b, t);
}
END_TEST

/* A cursor may be closed after its snapshot. */
START_TEST(a_cursor_outlives_its_snapshot)
{
    t = begin(LLADD_MANAGED_RULER, false);
    fill("1=a 2=b");
    struct lladd_managed_snapshot *s = snap();
    struct lladd_dtable_cursor *c = cursor_on(s);
    is_at(c, lladd_dtable_next(c, &b.err), 1, "a");
    lladd_managed_snapshot_close(s);
    fill("2=x");
    digest();
    is_at(c, lladd_dtable_next(c, &b.err), 2, "b");
    ck_assert_int_eq(lladd_managed_close(t, &b.err), LLADD_BUSY);
    lladd_dtable_cursor_close(c);
    expect_free();
    managed_done(&b, t);
}
END_TEST

/* A value that a lookup has returned stays, although its memtable and its run are gone. */
START_TEST(pins_keep_values)
{
    struct lladd_dtable_pin pins[2] = {LLADD_DTABLE_PIN_INIT, LLADD_DTABLE_PIN_INIT};
    struct lladd_dtable_value v[2];
    t = begin(LLADD_MANAGED_NEVER, false);
    fill("1=a-value-that-is-in-a-run");
    digest();
    fill("2=a-value-that-is-in-memory");
    struct lladd_managed_snapshot *s = snap();
    for (uint32_t i = 0; i < 2; i++) {
        struct lladd_dtable_key key = lladd_dtable_u32(i + 1);
        ok_db(&b, lladd_dtable_lookup(table_of(s), &key, &pins[i], &v[i], &b.err));
    }
    combine(0);
    del(0, 0);
    digest();
    lladd_managed_snapshot_close(s);
    expect_free();
    ck_assert_int_eq(memcmp(v[0].bytes.data, "a-value-that-is-in-a-run", v[0].bytes.len), 0);
    ck_assert_int_eq(memcmp(v[1].bytes.data, "a-value-that-is-in-memory", v[1].bytes.len), 0);
    lladd_dtable_unpin(&pins[0]);
    lladd_dtable_unpin(&pins[1]);
    managed_done(&b, t);
}
END_TEST

static void is_deleted(const struct lladd_dtable *table, uint32_t number, bool deleted)
{
    struct lladd_dtable_pin pins[2] = {LLADD_DTABLE_PIN_INIT, LLADD_DTABLE_PIN_INIT};
    struct lladd_dtable_interval i;
    struct lladd_dtable_key key = lladd_dtable_u32(number);
    ok_db(&b, lladd_dtable_interval_at(table, &key, pins, &i, &b.err));
    ck_assert_int_eq(i.deleted, deleted);
    lladd_dtable_unpin(&pins[0]);
    lladd_dtable_unpin(&pins[1]);
}

/* Deleted ranges of the snapshot hide rows of older runs. */
START_TEST(ranges_are_seen)
{
    t = begin(LLADD_MANAGED_NEVER, false);
    fill("1=a 5=b 9=c");
    digest();
    del(4, 7);
    struct lladd_managed_snapshot *s = snap();
    const struct lladd_dtable *table = table_of(s);
    fill("6=z");
    for (int i = 0; i < 2; i++) {
        is_deleted(table, 3, false);
        is_deleted(table, 5, true);
        is_deleted(table, 6, true);
        sees(s, "1=a 9=c");
        digest();
    }
    lladd_managed_snapshot_close(s);
    expect_free();
    managed_done(&b, t);
}
END_TEST

/* ---- columns --------------------------------------------------------------------------------- */

static void put_row(struct lladd_ctable *people, uint32_t number, const char *first,
                    const char *second)
{
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_dtable_key key = lladd_dtable_u32(number);
    const struct lladd_dtable_value v[2] = {lladd_dtable_value_of(first, strlen(first)),
                                            lladd_dtable_value_of(second, strlen(second))};
    ok(txn, lladd_ctable_put(txn, people, &key, v));
    commit(txn);
}

static void column_is(const struct lladd_dtable_columns *c, enum lladd_dtable_state state,
                      const char *text)
{
    ck_assert_int_eq(state, LLADD_DTABLE_FOUND);
    ck_assert_uint_eq(c->values[0].bytes.len, strlen(text));
    ck_assert_int_eq(memcmp(c->values[0].bytes.data, text, strlen(text)), 0);
}

/* The second column of a cTable's rows, by a lookup and by a cursor. The rows are in a run, in
 * memory, and then all in runs. The pins hold values until after the runs are replaced. */
START_TEST(columns_are_read)
{
    static const char *const names[] = {"name", "city"};
    static const uint32_t second[] = {1};
    struct lladd_ctable_options o = LLADD_CTABLE_OPTIONS_INIT;
    struct lladd_dtable_pin pins[2][2] = {{LLADD_DTABLE_PIN_INIT, LLADD_DTABLE_PIN_INIT},
                                          {LLADD_DTABLE_PIN_INIT, LLADD_DTABLE_PIN_INIT}};
    struct lladd_dtable_value values[2];
    const struct lladd_dtable_columns want[2] = {{1, second, &values[0], pins[0]},
                                                 {1, second, &values[1], pins[1]}};
    struct lladd_ctable_group groups[2] = {{.columns = &names[0], .n = 1},
                                           {.columns = &names[1], .n = 1}};
    struct lladd_ctable *people = NULL;
    enum lladd_dtable_state state;
    o.managed.type = LLADD_DTABLE_U32;
    o.columns = names;
    o.n_columns = 2;
    o.groups = _i ? groups : NULL;
    o.n_groups = _i ? 2 : 0;
    managed_init(&b);
    fixture_open(&b);
    ok_db(&b, lladd_ctable_create_open(b.db, "people", &o, &people, &b.err));
    t = lladd_ctable_managed(people);
    put_row(people, 1, "Ada", "London, in the run of the first digest");
    digest();
    put_row(people, 2, "Grace", "Arlington, in the memory of the table");
    struct lladd_managed_snapshot *s = snap();
    const struct lladd_dtable *table = table_of(s);
    put_row(people, 1, "-", "-");
    put_row(people, 2, "-", "-");
    for (int i = 0; i < 2; i++) {
        struct lladd_dtable_cursor *c = NULL;
        struct lladd_dtable_key one = lladd_dtable_u32(1), two = lladd_dtable_u32(2);
        ok_db(&b, lladd_dtable_cursor_open(table, 0, &c, &b.err));
        ok_db(&b, lladd_dtable_lookup_columns(table, &one, &want[0], &state, &b.err));
        column_is(&want[0], state, "London, in the run of the first digest");
        ok_db(&b, lladd_dtable_lookup_columns(table, &two, &want[1], &state, &b.err));
        column_is(&want[1], state, "Arlington, in the memory of the table");
        digest();
        ok_db(&b, lladd_managed_combine(t, 0, &b.err));
        managed_tidy(&b, t);
        column_is(&want[0], state, "London, in the run of the first digest");
        column_is(&want[1], state, "Arlington, in the memory of the table");
        for (int k = 0; k < 2; k++) {
            ok_db(&b, lladd_dtable_next(c, &b.err));
            ok_db(&b, lladd_dtable_row_columns(c, &want[k], &state, &b.err));
        }
        column_is(&want[1], state, "Arlington, in the memory of the table");
        lladd_dtable_cursor_close(c);
        two.number = 3;
        ok_db(&b, lladd_dtable_lookup_columns(table, &two, &want[1], &state, &b.err));
        ck_assert_int_eq(state, LLADD_DTABLE_ABSENT);
    }
    for (int i = 0; i < 4; i++)
        lladd_dtable_unpin(&pins[i / 2][i % 2]);
    lladd_managed_snapshot_close(s);
    expect_free();
    ok_db(&b, lladd_ctable_close(people, &b.err));
    fixture_free(&b);
}
END_TEST

/* ---- tables that are closed, dropped and made ------------------------------------------------ */

static int try_table(struct lladd_managed_snapshot *s)
{
    const struct lladd_dtable *table;
    return lladd_managed_snapshot_table(s, t, &table, &b.err);
}

static void drop(const char *name)
{
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_managed_destroy(txn, name));
    commit(txn);
}

START_TEST(a_table_in_use_stays_open)
{
    t = begin(LLADD_MANAGED_RULER, false);
    fill("1=a");
    struct lladd_managed_snapshot *s = snap();
    sees(s, "1=a");
    ck_assert_int_eq(lladd_managed_close(t, &b.err), LLADD_BUSY);
    struct lladd_txn *txn = fixture_begin(&b);
    refuses(txn, LLADD_BUSY, lladd_managed_destroy(txn, "rows"));
    abort_txn(txn);
    fill("1=b");
    digest();
    sees(s, "1=a");
    lladd_managed_snapshot_close(s);
    expect_free();
    managed_done(&b, t);
}
END_TEST

/* If the snapshot does not use the table, the table may be closed. It is found again if it is
 * logged and was not digested. What a digest kept for the snapshot is freed after the next open. */
START_TEST(a_table_that_was_closed)
{
    bool digested = _i & 1;
    t = begin(LLADD_MANAGED_RULER, _i & 2);
    fill("1=a");
    struct lladd_managed_snapshot *s = snap();
    fill("1=b");
    if (digested) {
        digest();
        ck_assert_uint_eq(managed_stats(&b, t).held_runs, 1);
    }
    managed_close(&b, t);
    t = managed_open(&b, "rows");
    if (digested || unlogged) {
        ck_assert_int_eq(try_table(s), LLADD_CONFLICT);
        ck_assert_uint_eq(managed_stats(&b, t).snapshots, 0);
    } else {
        sees(s, "1=a");
        fill("2=c");
        digest();
        sees(s, "1=a");
    }
    if (unlogged) {
        position = 100;
        fill("3=d");
        digest(); /* builds no run for the snapshot */
        ck_assert_uint_eq(managed_stats(&b, t).held_runs, 0);
        ck_assert_int_eq(try_table(s), LLADD_CONFLICT);
    }
    lladd_managed_snapshot_close(s);
    expect_free();
    managed_done(&b, t);
}
END_TEST

/* A table that was made after the snapshot is empty in it, also under the name of a dropped one. */
START_TEST(tables_that_are_dropped_and_made)
{
    t = begin(LLADD_MANAGED_RULER, false);
    fill("1=a");
    struct lladd_managed_snapshot *s = snap();
    managed_close(&b, t);
    drop("rows");
    t = managed_table(&b, "rows", NULL);
    fill("1=b");
    sees(s, "");
    digest();
    sees(s, "");
    fill("2=c");
    digest();
    sees(s, "");
    ck_assert_uint_eq(managed_stats(&b, t).held_runs, 0);
    lladd_managed_snapshot_close(s);
    expect_free();
    managed_done(&b, t);
}
END_TEST

START_TEST(another_database)
{
    static struct fixture other;
    t = begin(LLADD_MANAGED_RULER, false);
    managed_init(&other);
    fixture_open(&other);
    struct lladd_managed_snapshot *s = NULL;
    ok_db(&other, lladd_managed_snapshot_open(other.db, &s, &other.err));
    ck_assert_int_eq(try_table(s), LLADD_OTHER_DATABASE);
    lladd_managed_snapshot_close(s);
    fixture_free(&other);
    managed_done(&b, t);
}
END_TEST

/* ---- the end of the database ----------------------------------------------------------------- */

/* Some work with a snapshot, or without. */
static struct lladd_managed_snapshot *some_work(bool with)
{
    fill("1=a 2=b 3=c");
    struct lladd_managed_snapshot *s = with ? snap() : NULL;
    fill("1=x 4=d");
    digest();
    if (with)
        sees(s, "1=a 2=b 3=c");
    del(2, 4);
    digest();
    combine(0);
    managed_tidy(&b, t);
    if (with)
        sees(s, "1=a 2=b 3=c");
    return s;
}

START_TEST(the_database_closes_snapshots)
{
    t = begin(LLADD_MANAGED_RULER, false);
    ck_assert_ptr_nonnull(some_work(true));
    fixture_close(&b);
    fixture_open(&b);
    t = managed_open(&b, "rows");
    ck_assert_uint_gt(managed_stats(&b, t).obsolete, 0);
    managed_expect(&b, t, "1=x 4=d");
    expect_free();
    managed_done(&b, t);
}
END_TEST

/* After a crash as many pages are in use as if there had never been a snapshot. */
START_TEST(a_crash_frees_everything)
{
    uint64_t pages[2];
    for (int with = 0; with < 2; with++) {
        t = begin((enum lladd_managed_schedule)(_i / 2), _i % 2);
        some_work(with);
        if (with)
            ck_assert_uint_gt(managed_stats(&b, t).held_pages, 0);
        struct lladd_txn *txn = fixture_begin(&b); /* makes what was committed durable */
        commit(txn);
        ok_db(&b, lladd_checkpoint(b.db, &b.err));
        t = managed_restart(&b);
        managed_expect(&b, t, "1=x 4=d");
        ck_assert_int_eq(managed_stats(&b, t).obsolete != 0, with);
        expect_free();
        managed_expect(&b, t, "1=x 4=d");
        pages[with] = fixture_pages_used(&b);
        managed_done(&b, t);
    }
    ck_assert_uint_eq(pages[0], pages[1]);
}
END_TEST

/* The age of the oldest snapshot. */
START_TEST(statistics)
{
    t = begin(LLADD_MANAGED_RULER, false);
    fill("1=a");
    struct lladd_managed_stats s = managed_stats(&b, t);
    ck_assert_uint_eq(s.snapshots, 0);
    ck_assert_uint_eq(s.oldest_snapshot_ns, 0);
    struct lladd_managed_snapshot *older = snap(), *newer = snap();
    for (s = managed_stats(&b, t); s.oldest_snapshot_ns == 0; s = managed_stats(&b, t))
        ;
    ck_assert_uint_eq(s.snapshots, 2);
    lladd_managed_snapshot_close(older);
    struct lladd_managed_stats after = managed_stats(&b, t);
    ck_assert_uint_eq(after.snapshots, 1);
    ck_assert_uint_eq(after.held_runs, 0);
    lladd_managed_snapshot_close(newer);
    expect_free();
    managed_done(&b, t);
}
END_TEST

/* ---- during a digest ------------------------------------------------------------------------- */

/* Compares keys as bytes. One call, which must be a digest's, closes a snapshot and opens another
 * one. */
static struct lladd_managed_snapshot *to_close, *was_opened;
static int closing(void *ctx, struct lladd_span x, struct lladd_span y)
{
    struct lladd_managed_snapshot *s = to_close;
    (void)ctx;
    to_close = NULL;
    if (s) {
        lladd_managed_snapshot_close(s);
        was_opened = snap();
    }
    size_t n = x.len < y.len ? x.len : y.len;
    int c = n ? memcmp(x.data, y.data, n) : 0;
    return c ? c : x.len < y.len ? -1 : x.len > y.len;
}
static const struct lladd_dtable_comparator closer = {
    .struct_size = sizeof closer, .name = "closing", .compare = closing};

static void put_letters(const char *keys, const char *text)
{
    struct lladd_txn *txn = fixture_begin(&b);
    for (; *keys; keys++) {
        struct lladd_dtable_key key = lladd_dtable_bytes(keys, 1);
        struct lladd_dtable_value v = lladd_dtable_value_of(text, strlen(text));
        ok(txn, lladd_managed_put(txn, t, &key, &v));
    }
    commit(txn);
}

static void letter_is(struct lladd_managed_snapshot *s, const char *letter, const char *text)
{
    char value[8] = {0};
    size_t len;
    struct lladd_dtable_key key = lladd_dtable_bytes(letter, 1);
    ok_db(&b, lladd_dtable_get(table_of(s), &key, value, sizeof value, &len, &b.err));
    ck_assert_str_eq(value, text);
}

/* A digest does not keep what it has built for a snapshot that was closed meanwhile. One that was
 * opened meanwhile needs nothing from it. */
START_TEST(closed_and_opened_during_a_digest)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    managed_init(&b);
    fixture_open(&b);
    ok_db(&b, lladd_dtable_comparator_add(b.db, &closer, &b.err));
    o.type = LLADD_DTABLE_BYTES;
    o.comparator = closer.name;
    t = managed_table(&b, "rows", &o);
    put_letters("abc", "old");
    struct lladd_managed_snapshot *s = snap(), *stays = snap();
    letter_is(s, "b", "old");
    put_letters("bc", "new");
    to_close = s;
    digest();
    ck_assert_ptr_null(to_close);
    letter_is(stays, "b", "old");
    letter_is(was_opened, "b", "new");
    ck_assert_uint_eq(managed_stats(&b, t).snapshots, 2);
    ck_assert_uint_eq(managed_stats(&b, t).held_runs, 1);
    put_letters("b", "newer");
    to_close = stays;
    stays = was_opened;
    digest();
    letter_is(stays, "b", "new");
    letter_is(was_opened, "b", "newer");
    lladd_managed_snapshot_close(stays);
    managed_tidy(&b, t);
    ck_assert_uint_eq(managed_stats(&b, t).obsolete, 0);
    letter_is(was_opened, "b", "newer");
    lladd_managed_snapshot_close(was_opened);
    put_letters("b", "kept");
    s = snap(); /* the only one */
    put_letters("b", "last");
    to_close = s;
    digest();
    ck_assert_uint_eq(managed_stats(&b, t).obsolete, 1);
    ck_assert_uint_eq(managed_stats(&b, t).held_runs, 0);
    managed_tidy(&b, t);
    ck_assert_uint_eq(managed_stats(&b, t).obsolete, 0);
    letter_is(was_opened, "b", "last");
    lladd_managed_snapshot_close(was_opened);
    expect_free();
    managed_done(&b, t);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("managed dTables: open snapshots");
    TCase *tc = tcase_create("all");
    tcase_add_loop_test(tc, contents_stay, 0, LOOPS);
    tcase_add_test(tc, transactions_in_progress_are_not_seen);
    tcase_add_test(tc, tables_are_seen_together);
    tcase_add_loop_test(tc, the_next_digest_frees_the_memory, 0, LOOPS / 2);
    tcase_add_test(tc, runs_are_shared);
    tcase_add_loop_test(tc, a_quiet_table_costs_nothing, 0, 2);
    tcase_add_test(tc, a_combine_replaces_runs_of_an_idle_snapshot);
    tcase_add_loop_test(tc, cursors_go_on_after_a_digest, 0, LOOPS);
    tcase_add_test(tc, a_cursor_seeks_its_own_key);
    tcase_add_test(tc, a_cursor_outlives_its_snapshot);
    tcase_add_test(tc, pins_keep_values);
    tcase_add_test(tc, ranges_are_seen);
    tcase_add_loop_test(tc, columns_are_read, 0, 2);
    tcase_add_test(tc, a_table_in_use_stays_open);
    tcase_add_loop_test(tc, a_table_that_was_closed, 0, 4);
    tcase_add_test(tc, tables_that_are_dropped_and_made);
    tcase_add_test(tc, another_database);
    tcase_add_test(tc, the_database_closes_snapshots);
    tcase_add_loop_test(tc, a_crash_frees_everything, 0, LOOPS);
    tcase_add_test(tc, statistics);
    tcase_add_test(tc, closed_and_opened_during_a_digest);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
