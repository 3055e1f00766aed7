/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Managed dTables are compared with a model. Several transactions are open and use two tables, with
 * savepoints, cursors that stay open, and range deletions. Some get conflicts, and some are in
 * doubt. Meanwhile tables are digested, combined, closed and opened, and the power fails. Many of
 * the steps are reads: a lookup, a move of a cursor, or a scan of both tables.
 *
 * A second test has one transaction in a longer table. There the cursor of one run leads the
 * transaction's cursor (operations/dtables/core/cursor.c).
 */
#include "managed_fixture.h"

#include <stdio.h>

enum { TXNS = 5, TABLES = 2, KEYS = 40, VALUES = 12, DEPTH = 3 };

#ifdef LL_TEST_SHORT
enum { SEEDS = 6, STEPS = 600 };
#else
enum { SEEDS = 40, STEPS = 1500 };
#endif

/* Values are numbers; 0 means that there is no row. */
struct rows {
    uint8_t value[TABLES][KEYS];
};
/* What a transaction has written to a key: 0 for nothing, otherwise 1 + the value. */
struct own {
    uint8_t wrote[TABLES][KEYS];
};
enum place { BEFORE, AT, AFTER };
/* A transaction, and what it must see. */
struct buyer {
    struct lladd_txn *txn;
    bool looked, prepared;
    struct lladd_gid gid;
    uint64_t snapshot;
    struct rows sees;
    struct own own, saved[DEPTH];
    lladd_savepoint_id savepoint[DEPTH];
    unsigned depth;
    struct lladd_dtable_cursor *cursor[TABLES];
    enum place place[TABLES];
    unsigned at[TABLES];
};

static struct fixture b;
static struct lladd_managed *tables[TABLES];
static struct buyer buyers[TXNS];
static struct rows now;
static uint64_t changed[TABLES][KEYS], clock_, seed, gids;
static struct {
    uint64_t conflicts, again, crashes, doubts, moves, ranges, refused;
} seen;

static unsigned draw(unsigned below)
{
    return (unsigned)(seeded_next(&seed) % below);
}

/* Returns key i of the model. Between two keys of the model there are other keys. */
static struct lladd_dtable_key key_of(unsigned table, unsigned i, char text[16])
{
    if (table == 0)
        return lladd_dtable_u32(i * 3 + 1);
    snprintf(text, 16, "k%03u", i * 3 + 1);
    return lladd_dtable_string(text);
}

/* Every fourth value has a length that the second table's configuration stores separately. */
static struct lladd_dtable_value value_of(unsigned v, char text[16])
{
    if (v == 0)
        return lladd_dtable_tombstone();
    snprintf(text, 16, v % 4 == 0 ? "%05u--" : "%05u", v);
    return lladd_dtable_value_of(text, strlen(text));
}

static void compare(unsigned v, const struct lladd_dtable_value *got)
{
    char text[16];
    struct lladd_dtable_value want = value_of(v, text);
    ck_assert_int_eq(got->state == LLADD_DTABLE_FOUND, v != 0);
    if (v == 0)
        return;
    ck_assert_uint_eq(got->bytes.len, want.bytes.len);
    ck_assert_int_eq(memcmp(got->bytes.data, want.bytes.data, want.bytes.len), 0);
}

/* ---- what a transaction sees ----------------------------------------------------------------- */

static void looks(struct buyer *y)
{
    if (y->looked)
        return;
    y->looked = true;
    y->snapshot = clock_;
    y->sees = now;
}

static unsigned visible(const struct buyer *y, unsigned table, unsigned i)
{
    unsigned own = y->own.wrote[table][i];
    return own ? own - 1 : y->sees.value[table][i];
}

static void look_up(struct buyer *y)
{
    struct lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT;
    struct lladd_dtable_value v;
    unsigned table = draw(TABLES), i = draw(KEYS);
    char text[16];
    struct lladd_dtable_key key = key_of(table, i, text);
    looks(y);
    ok(y->txn, lladd_managed_lookup(y->txn, tables[table], &key, &pin, &v));
    compare(visible(y, table, i), &v);
    lladd_dtable_unpin(&pin);
}

/* Returns the first visible row from i on, in steps of `by`, or -1. */
static int seek_seen(const struct buyer *y, unsigned table, int i, int by)
{
    while (i >= 0 && i < KEYS && !visible(y, table, (unsigned)i))
        i += by;
    return i >= 0 && i < KEYS ? i : -1;
}

static void arrive(struct buyer *y, unsigned table, int rc, int want, bool forward)
{
    struct lladd_dtable_key key;
    struct lladd_dtable_value v;
    char text[16];
    seen.moves++;
    if (want < 0) {
        ck_assert_int_eq(rc, LLADD_END);
        y->place[table] = forward ? AFTER : BEFORE;
        return;
    }
    ck_assert_msg(rc == 0, "%s: %s", lladd_code_name(rc), b.err.message);
    y->place[table] = AT;
    y->at[table] = (unsigned)want;
    ok_db(&b, lladd_dtable_row(y->cursor[table], &key, &v, &b.err));
    struct lladd_dtable_key expected = key_of(table, (unsigned)want, text);
    ck_assert_uint_eq(key.number, expected.number);
    ck_assert_uint_eq(key.bytes.len, expected.bytes.len);
    if (key.bytes.len)
        ck_assert_int_eq(memcmp(key.bytes.data, expected.bytes.data, key.bytes.len), 0);
    compare(visible(y, table, (unsigned)want), &v);
}

static void move(struct buyer *y)
{
    unsigned table = draw(TABLES), i = draw(KEYS), off = draw(3);
    char text[16];
    const struct lladd_dtable *t = NULL;
    looks(y);
    if (!y->cursor[table]) {
        ok(y->txn, lladd_managed_table(y->txn, tables[table], &t));
        ok(y->txn, lladd_dtable_cursor_open(t, 0, &y->cursor[table], &b.err));
        y->place[table] = BEFORE;
    }
    struct lladd_dtable_cursor *c = y->cursor[table];
    struct lladd_dtable_key key = key_of(table, i, text);
    int at = (int)y->at[table], from;
    switch (draw(9)) {
    case 0:
        arrive(y, table, lladd_dtable_first(c, &b.err), seek_seen(y, table, 0, 1), true);
        break;
    case 1:
        arrive(y, table, lladd_dtable_last(c, &b.err), seek_seen(y, table, KEYS - 1, -1), false);
        break;
    case 2:
        if (table == 0)
            key.number -= key.number < off ? 0 : off; /* seeks keys without a row, too */
        arrive(y, table, lladd_dtable_seek(c, &key, &b.err), seek_seen(y, table, (int)i, 1), true);
        break;
    case 3:
        if (table == 0)
            key.number += off;
        arrive(y, table, lladd_dtable_seek_for_prev(c, &key, &b.err),
               seek_seen(y, table, (int)i, -1), false);
        break;
    case 4:
    case 5:
    case 6:
        from = y->place[table] == AT ? at + 1 : y->place[table] == BEFORE ? 0 : KEYS;
        arrive(y, table, lladd_dtable_next(c, &b.err), seek_seen(y, table, from, 1), true);
        break;
    default:
        from = y->place[table] == AT ? at - 1 : y->place[table] == AFTER ? KEYS - 1 : -1;
        arrive(y, table, lladd_dtable_prev(c, &b.err), seek_seen(y, table, from, -1), false);
        break;
    }
}

static void look_at_all(struct buyer *y)
{
    looks(y);
    for (unsigned table = 0; table < TABLES; table++) {
        struct lladd_dtable_cursor *kept = y->cursor[table];
        const struct lladd_dtable *t = NULL;
        ok(y->txn, lladd_managed_table(y->txn, tables[table], &t));
        ok(y->txn, lladd_dtable_cursor_open(t, 0, &y->cursor[table], &b.err));
        enum place place = y->place[table];
        unsigned at = y->at[table];
        for (int i = seek_seen(y, table, 0, 1); i >= 0; i = seek_seen(y, table, i + 1, 1))
            arrive(y, table, lladd_dtable_next(y->cursor[table], &b.err), i, true);
        ck_assert_int_eq(lladd_dtable_next(y->cursor[table], &b.err), LLADD_END);
        lladd_dtable_cursor_close(y->cursor[table]);
        y->cursor[table] = kept;
        y->place[table] = place;
        y->at[table] = at;
    }
}

/* ---- changes --------------------------------------------------------------------------------- */

static void put(struct buyer *y)
{
    unsigned table = draw(TABLES), i = draw(KEYS), v = draw(3) ? draw(VALUES) + 1 : 0;
    char key_text[16], text[16];
    struct lladd_dtable_key key = key_of(table, i, key_text);
    struct lladd_dtable_value value = value_of(v, text);
    bool taken = false, mine = y->own.wrote[table][i] != 0;
    looks(y);
    for (struct buyer *o = buyers; o < buyers + TXNS; o++)
        taken = taken || (o != y && o->txn && o->own.wrote[table][i]);
    bool later = changed[table][i] > y->snapshot;
    int rc = lladd_managed_put(y->txn, tables[table], &key, &value);
    if (taken || (later && !mine)) {
        /* `same` is true if the row has the value that the transaction sees. Then the put may
         * succeed, even if the row was changed, changed back and digested since the snapshot. */
        bool same = !taken && y->sees.value[table][i] == now.value[table][i];
        seen.again += same && rc == 0;
        if (same && rc == 0) {
            y->own.wrote[table][i] = (uint8_t)(v + 1);
            return;
        }
        ck_assert_int_eq(rc, LLADD_CONFLICT);
        ck_assert_str_ne(lladd_txn_error(y->txn)->message, "");
        seen.conflicts++;
        return;
    }
    ck_assert_msg(rc == 0, "%s: %s", lladd_code_name(rc), lladd_txn_error(y->txn)->message);
    y->own.wrote[table][i] = (uint8_t)(v + 1);
}

/* Deletes a range, which may be open at an end. This counts as a write of every key in it. */
static void del_range(struct buyer *y)
{
    unsigned table = draw(TABLES), i = draw(KEYS), j = i + 1 + draw(draw(4) ? 6 : KEYS);
    char begin[16], end[16];
    struct lladd_dtable_key from = key_of(table, i, begin), to = key_of(table, j, end);
    bool taken = false, later = false, same = true;
    unsigned upto = j < KEYS ? j : KEYS;
    looks(y);
    for (unsigned k = i; k < upto; k++) {
        for (struct buyer *o = buyers; o < buyers + TXNS; o++)
            taken = taken || (o != y && o->txn && o->own.wrote[table][k]);
        if (changed[table][k] <= y->snapshot || y->own.wrote[table][k])
            continue;
        later = true;
        same = same && y->sees.value[table][k] == now.value[table][k];
    }
    int rc = lladd_managed_delete_range(y->txn, tables[table], i || draw(2) ? &from : NULL,
                                        j < KEYS || draw(2) ? &to : NULL);
    if (taken || (later && !(same && rc == 0))) {
        ck_assert_int_eq(rc, LLADD_CONFLICT);
        ck_assert_str_ne(lladd_txn_error(y->txn)->message, "");
        seen.refused++;
        return;
    }
    ck_assert_msg(rc == 0, "%s: %s", lladd_code_name(rc), lladd_txn_error(y->txn)->message);
    for (unsigned k = i; k < upto; k++)
        y->own.wrote[table][k] = 1;
    seen.ranges++;
}

static void saves(struct buyer *y)
{
    if (y->depth < DEPTH && draw(2)) {
        ok(y->txn, lladd_savepoint(y->txn, &y->savepoint[y->depth]));
        y->saved[y->depth++] = y->own;
    } else if (y->depth) {
        unsigned to = draw(y->depth);
        ok(y->txn, lladd_rollback_to(y->txn, y->savepoint[to]));
        y->own = y->saved[to];
        y->depth = to + 1;
    }
}

static void let_go(struct buyer *y)
{
    for (unsigned i = 0; i < TABLES; i++) {
        lladd_dtable_cursor_close(y->cursor[i]);
        y->cursor[i] = NULL;
    }
}

static void is_committed(struct buyer *y)
{
    clock_++;
    for (unsigned table = 0; table < TABLES; table++)
        for (unsigned i = 0; i < KEYS; i++)
            if (y->own.wrote[table][i]) {
                now.value[table][i] = (uint8_t)(y->own.wrote[table][i] - 1);
                changed[table][i] = clock_;
            }
    memset(y, 0, sizeof *y);
}

static void ends(struct buyer *y)
{
    if (draw(2))
        let_go(y);
    struct lladd_dtable_cursor *rest[TABLES];
    memcpy(rest, y->cursor, sizeof rest);
    if (draw(4)) {
        commit(y->txn);
        is_committed(y);
    } else {
        abort_txn(y->txn);
        if (y->prepared) /* makes the abort durable; otherwise a crash could undo it */
            ok_db(&b, lladd_checkpoint(b.db, &b.err));
        memset(y, 0, sizeof *y);
    }
    for (unsigned i = 0; i < TABLES; i++) /* cursors may outlive the transaction */
        lladd_dtable_cursor_close(rest[i]);
}

static void prepares(struct buyer *y)
{
    char name[24];
    snprintf(name, sizeof name, "%llu", (unsigned long long)++gids);
    y->gid = fixture_gid(name);
    let_go(y);
    ok(y->txn, lladd_prepare(y->txn, &y->gid));
    y->prepared = true;
    seen.doubts++;
}

/* ---- maintenance ----------------------------------------------------------------------------- */

static void open_tables(void)
{
    tables[0] = managed_open(&b, "one");
    tables[1] = managed_open(&b, "two");
}

static bool wrote(const struct buyer *y)
{
    for (unsigned i = 0; i < TABLES * KEYS; i++)
        if (y->own.wrote[i / KEYS][i % KEYS])
            return true;
    return false;
}

/* After the crash, prepared transactions with changes are in doubt and keep their keys. The other
 * transactions are gone. */
static void crash(void)
{
    for (struct buyer *y = buyers; y < buyers + TXNS; y++)
        if (y->txn)
            let_go(y);
    fixture_crash(&b);
    seen.crashes++;
    open_tables();
    for (struct buyer *y = buyers; y < buyers + TXNS; y++) {
        if (y->prepared && wrote(y))
            ok_db(&b, lladd_in_doubt_claim(b.db, &y->gid, &y->txn, &b.err));
        else
            memset(y, 0, sizeof *y);
    }
}

static void reopen(void)
{
    for (struct buyer *y = buyers; y < buyers + TXNS; y++)
        if (y->txn)
            return;
    managed_close(&b, tables[0]);
    managed_close(&b, tables[1]);
    managed_no_leaks(&b);
    open_tables();
}

static void maintenance(void)
{
    struct lladd_managed *t = tables[draw(TABLES)];
    bool more;
    switch (draw(6)) {
    case 0:
    case 1:
    case 2:
        ok_db(&b, lladd_managed_digest(t, &b.err));
        break;
    case 3:
        ok_db(&b, lladd_managed_combine(t, draw(4), &b.err));
        break;
    case 4:
        ok_db(&b, lladd_managed_maintain(t, &more, &b.err));
        break;
    default:
        ok_db(&b, lladd_checkpoint(b.db, &b.err));
        break;
    }
}

static void step(void)
{
    struct buyer *y = &buyers[draw(TXNS)];
    unsigned what = draw(100);
    if (what >= 94) {
        maintenance();
    } else if (what == 93 && draw(4) == 0) {
        crash();
    } else if (what == 92) {
        reopen();
    } else if (!y->txn) {
        y->txn = fixture_begin(&b);
    } else if (y->prepared) {
        if (what < 20)
            ends(y);
    } else if (what < 30) {
        look_up(y);
    } else if (what < 50) {
        move(y);
    } else if (what < 72) {
        put(y);
    } else if (what < 75) {
        del_range(y);
    } else if (what < 82) {
        saves(y);
    } else if (what < 85) {
        look_at_all(y);
    } else if (what < 90) {
        ends(y);
    } else {
        prepares(y);
    }
}

static void history(uint64_t number)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    seed = number;
    clock_ = 1;
    memset(buyers, 0, sizeof buyers);
    memset(&now, 0, sizeof now);
    memset(changed, 0, sizeof changed);
    managed_init(&b);
    fixture_open(&b);
    o.type = LLADD_DTABLE_U32;
    o.rows = 10;
    o.every = 2;
    managed_close(&b, managed_table(&b, "one", &o));
    o.type = LLADD_DTABLE_STRING;
    o.schedule = number % 2 ? LLADD_MANAGED_TIERED : LLADD_MANAGED_LEVELS;
    o.memory_bytes = number % 2 ? 0 : 600; /* so that levels have more than one run */
    o.config = "class(dt) exception_dtable config [ \"base\" class(dt) fixed_dtable "
               "\"base_config\" config [ \"value_size\" int 5 ] "
               "\"alt\" class(dt) linear_dtable \"reject_value\" string \"_____\" ]";
    o.combine_config = "class(dt) bloom_dtable config [ \"base\" class(dt) linear_dtable ]";
    managed_close(&b, managed_table(&b, "two", &o));
    open_tables();
    for (unsigned i = 0; i < STEPS; i++)
        step();
    for (struct buyer *y = buyers; y < buyers + TXNS; y++) {
        if (y->txn && !y->prepared)
            look_at_all(y);
        if (y->txn)
            ends(y);
    }
    buyers[0].txn = fixture_begin(&b);
    look_at_all(&buyers[0]);
    commit(buyers[0].txn);
    managed_tidy(&b, tables[0]);
    managed_tidy(&b, tables[1]);
    managed_close(&b, tables[0]);
    managed_close(&b, tables[1]);
    managed_no_leaks(&b);
    fixture_free(&b);
}

START_TEST(histories)
{
    memset(&seen, 0, sizeof seen);
    for (uint64_t i = 1; i <= SEEDS; i++)
        history(i);
    ck_assert_uint_gt(seen.conflicts, 50);
    ck_assert_uint_gt(seen.crashes, 5);
    ck_assert_uint_gt(seen.doubts, 20);
    ck_assert_uint_gt(seen.moves, 1000);
    ck_assert_uint_gt(seen.ranges, 20);
    ck_assert_uint_gt(seen.refused, 5);
}
END_TEST

/* ---- a long table ---------------------------------------------------------------------------- */

enum { MANY = 700, WAYS = 400 };

/* One run has most rows. Another run, the memtable and the transaction have a few. */
struct long_table {
    struct lladd_managed *t;
    struct lladd_txn *txn;
    struct lladd_dtable_cursor *c;
    lladd_savepoint_id savepoint;
    uint8_t value[MANY], saved[MANY], committed[MANY];
    int at; /* -1 and MANY: at no row */
    uint64_t looked, wrote;
};

static void put_long(struct long_table *l, struct lladd_txn *txn, unsigned i, unsigned v)
{
    char text[16];
    struct lladd_dtable_key key = key_of(0, i, text);
    struct lladd_dtable_value value = value_of(v, text);
    ok(txn, lladd_managed_put(txn, l->t, &key, &value));
    l->value[i] = (uint8_t)v;
}

static void fill_long(struct long_table *l)
{
    for (int layer = 0; layer < 3; layer++) {
        struct lladd_txn *txn = fixture_begin(&b);
        for (unsigned i = layer ? draw(MANY / 2) : 0; i < MANY; i += layer ? 100 + draw(200) : 1)
            put_long(l, txn, i, draw(8) ? 1 + draw(VALUES) : 0);
        commit(txn);
        if (layer < 2)
            ok_db(&b, lladd_managed_digest(l->t, &b.err));
    }
    memcpy(l->committed, l->value, sizeof l->value);
}

static void begin_long(struct long_table *l)
{
    const struct lladd_dtable *t = NULL;
    l->txn = fixture_begin(&b);
    ok(l->txn, lladd_savepoint(l->txn, &l->savepoint));
    memcpy(l->value, l->committed, sizeof l->value);
    memcpy(l->saved, l->committed, sizeof l->value);
    ok(l->txn, lladd_managed_table(l->txn, l->t, &t));
    ok(l->txn, lladd_dtable_cursor_open(t, 0, &l->c, &b.err));
    l->at = -1;
}

static void step_long(struct long_table *l, bool forward, bool looks)
{
    struct lladd_dtable_key key;
    struct lladd_dtable_value v;
    int by = forward ? 1 : -1, end = forward ? MANY : -1;
    int rc = forward ? lladd_dtable_next(l->c, &b.err) : lladd_dtable_prev(l->c, &b.err);
    l->at += l->at == end ? 0 : by;
    while (l->at != end && !l->value[l->at])
        l->at += by;
    ck_assert_int_eq(rc, l->at == end ? LLADD_END : 0);
    if (rc || !looks)
        return;
    ok_db(&b, lladd_dtable_row(l->c, &key, &v, &b.err));
    ck_assert_uint_eq(key.number, (uint64_t)l->at * 3 + 1);
    compare(l->value[l->at], &v);
    l->looked++;
}

/* The transaction writes at its cursor, or near it, or rolls its writes back. */
static void write_long(struct long_table *l)
{
    int i = l->at + (int)draw(21) - 10;
    if (draw(8) == 0) {
        ok(l->txn, lladd_rollback_to(l->txn, l->savepoint));
        memcpy(l->value, l->saved, sizeof l->value);
    } else if (draw(8) == 0) {
        ok(l->txn, lladd_savepoint(l->txn, &l->savepoint));
        memcpy(l->saved, l->value, sizeof l->value);
    } else if (i >= 0 && i < MANY) {
        put_long(l, l->txn, (unsigned)i, draw(3) ? 1 + draw(VALUES) : 0);
        l->wrote++;
    }
}

START_TEST(long_cursor_moves)
{
    struct long_table l = {.at = -1};
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    bool forward = true;
    seed = 4711 + (uint64_t)_i;
    managed_init(&b);
    fixture_open(&b);
    o.type = LLADD_DTABLE_U32;
    o.config = _i ? NULL
                  : "class(dt) exception_dtable config [ \"base\" class(dt) array_dtable "
                    "\"base_config\" config [ \"value_size\" int 5 ] "
                    "\"alt\" class(dt) linear_dtable \"reject_value\" string \"_____\" ]";
    l.t = managed_table(&b, "long", &o);
    fill_long(&l);
    begin_long(&l);
    for (unsigned i = 1; i <= WAYS; i++) {
        unsigned looks = 1 + draw(4);
        for (unsigned steps = draw(draw(3) ? 150 : 8); steps > 0; steps--)
            step_long(&l, forward, steps % looks == 0);
        if (draw(2))
            write_long(&l);
        forward = draw(4) ? !forward : forward;
        if (i % 20 && i != WAYS)
            continue;
        lladd_dtable_cursor_close(l.c);
        abort_txn(l.txn);
        if (i != WAYS)
            begin_long(&l);
    }
    ck_assert_uint_gt(l.looked, WAYS * 10);
    ck_assert_uint_gt(l.wrote, WAYS / 8);
    managed_done(&b, l.t);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("managed dTables: histories");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, histories);
    tcase_add_loop_test(tc, long_cursor_moves, 0, 2);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
