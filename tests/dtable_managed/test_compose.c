/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Compositions of dTables as configurations of managed tables. Rows are put, deleted, digested and
 * combined. Meanwhile cursors of older snapshots stay open, and move over the rows of their
 * snapshots.
 *
 * The test uses every composition of one layer. Of the compositions with two, three and four layers
 * it uses a selection, in which any two layers meet at any two levels, and each layer meets all
 * types of keys and all shapes of data (tests/dtable/pairs.h). With LLADD_NIGHTLY it uses all
 * compositions of three layers, and one in forty of those with four layers.
 */
#include "pairs.h"
#include "managed_fixture.h"

#include <stdio.h>

enum { ROUNDS = 4, READERS = 2, PATIENCE = 1000 };

#ifdef LL_TEST_SHORT
enum { EVERY = 8 };
#else
enum { EVERY = 1 };
#endif

static struct fixture b;

/* A transaction that began earlier, and sees the rows of that time. */
struct reader {
    struct lladd_txn *txn;
    struct model sees;
    struct walk walk;
};

struct scenario {
    const struct trial *trial;
    struct lladd_managed *table;
    struct model now;
    struct reader readers[READERS];
    uint64_t random, compared, rows, refused;
};

static void setup(void)
{
    managed_init(&b);
    fixture_open(&b);
}

static void teardown(void)
{
    managed_no_leaks(&b);
    fixture_free(&b);
}

/* ---- readers --------------------------------------------------------------------------------- */

static void leaves(struct scenario *s, struct reader *r)
{
    if (!r->txn)
        return;
    walk_close(&r->walk);
    s->compared += r->sees.compared;
    rows_free(&r->sees);
    commit(r->txn);
    r->txn = NULL;
}

static void comes(struct scenario *s, struct reader *r)
{
    const struct lladd_dtable *t;
    leaves(s, r);
    rows_copy(&r->sees, &s->now);
    r->txn = fixture_begin(&b);
    ok(r->txn, lladd_managed_table(r->txn, s->table, &t));
    walk_open(&r->walk, &r->sees, t);
    walk_moves(&r->walk, &s->random, 5);
}

static void read_on(struct scenario *s)
{
    for (int i = 0; i < READERS; i++)
        if (s->readers[i].txn)
            walk_moves(&s->readers[i].walk, &s->random, 12);
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Puts some of the shape's rows. The keys are the same in every round; the values differ. */
static void write_some(struct scenario *s)
{
    const struct shape *shape = &s->trial->shape;
    struct lladd_txn *txn = fixture_begin(&b);
    uint64_t keys = 7, number = shape->first;
    for (size_t i = 0; i < shape->rows; i++) {
        unsigned char key_room[64], room[SHAPE_ROOM];
        struct lladd_dtable_key key;
        shape_key(shape, &keys, &number, key_room, &key);
        struct lladd_dtable_value v = shape_value(shape, &s->random, room);
        if (seeded_next(&s->random) % 3)
            continue;
        int rc = lladd_managed_put(txn, s->table, &key, &v);
        if (rc == LLADD_REJECTED) {
            s->refused++;
            continue;
        }
        ok(txn, rc);
        if (v.state == LLADD_DTABLE_TOMBSTONE)
            v.state = LLADD_DTABLE_ABSENT;
        rows_put(&s->now, &key, &v);
        s->rows++;
    }
    commit(txn);
}

static void look_at_all(struct scenario *s, unsigned steps)
{
    struct lladd_txn *txn = fixture_begin(&b);
    const struct lladd_dtable *t;
    ok(txn, lladd_managed_table(txn, s->table, &t));
    rows_check_found(&s->now, t, s->random, steps);
    commit(txn);
}

/* The rows are in memory, then in one run, then in several runs, and then in one run again.
 * Meanwhile readers have earlier snapshots. */
static void live(struct scenario *s)
{
    for (int round = 0; round < ROUNDS; round++) {
        write_some(s);
        comes(s, &s->readers[round % READERS]);
        if (round == ROUNDS - 1)
            write_some(s); /* these rows stay in memory */
        else
            ok_db(&b, lladd_managed_digest(s->table, &b.err));
        read_on(s);
        if (round % 2 == 0)
            ok_db(&b, lladd_managed_combine(s->table, round == 0 ? 1 : 2, &b.err));
        read_on(s);
    }
    look_at_all(s, 30);
    ok_db(&b, lladd_managed_digest(s->table, &b.err));
    ok_db(&b, lladd_managed_combine(s->table, 0, &b.err));
    read_on(s);
    look_at_all(s, 30);
}

/* Returns the number of answers that were compared. */
static uint64_t try_one(const struct trial *trial, uint64_t seed, uint64_t *rows)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    struct scenario s = {.trial = trial, .random = seed};
    char text[COMPOSE_MAX];
    compose_text(&trial->what, text);
    o.type = trial->shape.type;
    o.config = text;
    o.schedule = LLADD_MANAGED_NEVER;
    s.table = managed_table(&b, "table", &o);
    rows_init(&s.now, o.type);
    s.now.packed = trial->shape.packed;
    s.now.vague = true;
    live(&s);
    for (int i = 0; i < READERS; i++)
        leaves(&s, &s.readers[i]);
    ck_assert_uint_ge(s.now.compared, 2 * (5 * s.now.n + 30));
    ck_assert_uint_ge(s.compared, 2 * (5 + 4 * 12));
    ck_assert_msg(s.rows || s.refused || trial->shape.rows < 2, "%s", text);
    *rows += s.rows;
    s.compared += s.now.compared;
    rows_free(&s.now);
    managed_close(&b, s.table);
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_managed_destroy(txn, "table"));
    commit(txn);
    return s.compared;
}

/* ---- compositions ---------------------------------------------------------------------------- */

START_TEST(compositions)
{
    static const size_t least[COMPOSE_DEPTH] = {30, 90, 200, 400};
    unsigned depth = (unsigned)_i;
    struct compositions below = {NULL, 0, 0};
    uint64_t compared = 0, rows = 0;
    size_t tried = 0;
    if (depth > 1)
        below = pairs_all(&b, depth - 1, true);
    struct trials t = pairs_select(&b, &below, false, PATIENCE);
    for (size_t i = (size_t)depth % EVERY; i < t.n; i += EVERY, tried++)
        compared += try_one(&t.all[i], i + 1, &rows);
    printf("depth %u: %zu of %zu compositions, %llu rows, %llu comparisons\n", depth, tried, t.n,
           (unsigned long long)rows, (unsigned long long)compared);
    ck_assert_uint_ge(t.n, least[depth - 1]);
    ck_assert_uint_ge(rows, 10 * tried);
    pairs_free(&t);
    compose_free(&below);
}
END_TEST

/* At night: all compositions of three layers, and a part of those of four layers. */
START_TEST(nightly_compositions)
{
    enum { PART = 40 };
    unsigned depth = (unsigned)_i;
    struct compositions below = pairs_all(&b, depth - 1, true);
    uint64_t n = compose_count(&below), random = depth, compared = 0, rows = 0, tried = 0;
    for (uint64_t i = 0; i < n; i += depth < COMPOSE_DEPTH ? 1 : PART) {
        struct composition c = compose_at(&below, i);
        struct trial t;
        if (!pairs_draw(&b, &c, false, &random, &t))
            continue;
        compared += try_one(&t, i, &rows);
        tried++;
    }
    printf("depth %u: %llu compositions, %llu rows, %llu comparisons\n", depth,
           (unsigned long long)tried, (unsigned long long)rows, (unsigned long long)compared);
    ck_assert_uint_gt(tried, 10000);
    compose_free(&below);
}
END_TEST

int main(void)
{
    bool night = getenv("LLADD_NIGHTLY") != NULL;
    Suite *s = suite_create("managed dTables: compositions");
    TCase *tc = tcase_create("all");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, compositions, 1, COMPOSE_DEPTH + 1);
    if (night)
        tcase_add_loop_test(tc, nightly_compositions, 3, COMPOSE_DEPTH + 1);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
