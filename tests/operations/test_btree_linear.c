/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * B+trees are linearizable: each lookup sees the state of the key at one moment between its call
 * and its return. A tree is linearizable if this holds for each of its keys. One thread changes a
 * key, in transactions that commit or roll back. Other threads look the key up, and walk past it
 * with a cursor in both directions, while leaves split around the key. The threads note when each
 * call began and ended. Afterwards the notes are checked. Runs under TSan.
 */
#include "op_fixture.h"
#include "support/linear.h"

#include <lladd/btree.h>


enum { KEYS = 240, LONGEST = 2000, WRITERS_MOST = 40, READERS_MOST = 8, LOOKS = 20000, EACH = 5 };

static struct fixture b;
static lladd_pageno root;
static struct lladd_btree *tree;
static uint32_t writing, reading, readers_wanted;

static struct linear_history histories[KEYS];

struct worker {
    struct lladd_thread thread;
    uint64_t seed;
    uint32_t first, writers; /* the writer's keys begin with `first`; their distance is `writers` */
    unsigned txns;
    struct linear_look *looks;
    size_t n;
};
static struct worker workers[WRITERS_MOST + READERS_MOST];

/* ---- keys and values ------------------------------------------------------------------------- */

static size_t key_bytes(uint32_t k, unsigned char out[100])
{
    memset(out, (int)(k % 7), 100);
    out[0] = (unsigned char)(k >> 8);
    out[1] = (unsigned char)k;
    return 2 + k % 3 * 30;
}

/* Some values are in blobs. */
static size_t value_bytes(uint32_t k, uint32_t number, unsigned char out[LONGEST])
{
    size_t len = number % 17 == 0 ? 1200 + number % 500 : 4 + (number * 53 + k) % 500;
    memset(out, (int)(k + number), len);
    lladd_put32(out, number);
    return len;
}

static uint32_t number_of(uint32_t k, const unsigned char *value, size_t len)
{
    unsigned char want[LONGEST];
    uint32_t number = len >= 4 ? lladd_get32(value) : 0;
    sure(number != 0 && value_bytes(k, number, want) == len && memcmp(value, want, len) == 0,
         "a value that was never put");
    return number;
}

/* ---- writers --------------------------------------------------------------------------------- */

static uint32_t last_number(const struct linear_history *h)
{
    return h->states[h->n - 1].number;
}

static void change(struct lladd_txn *txn, uint32_t k, uint64_t random)
{
    struct linear_history *h = &histories[k];
    unsigned char key[100], value[LONGEST];
    size_t key_len = key_bytes(k, key);
    uint32_t was = last_number(h), number = was && random % 3 == 0 ? 0 : ++h->numbers;
    struct linear_state *s = linear_add(h, number, linear_moment());
    int rc;
    if (number == 0)
        rc = lladd_btree_delete(txn, tree, key, key_len);
    else if (was == 0 && random % 2)
        rc = lladd_btree_insert(txn, tree, key, key_len, value, value_bytes(k, number, value));
    else
        rc = lladd_btree_put(txn, tree, key, key_len, value, value_bytes(k, number, value));
    sure(rc == 0, lladd_txn_error(txn)->message);
    s->end = linear_moment();
}

/* Rolls back. Each of the keys gets its old state during the rollback. */
static void roll_back(struct lladd_txn *txn, const uint32_t *keys, const uint32_t *was, int n)
{
    struct linear_state *s[EACH];
    for (int i = 0; i < n; i++)
        s[i] = linear_add(&histories[keys[i]], was[i], linear_moment());
    sure(lladd_abort(txn) == 0, "abort");
    for (int i = 0; i < n; i++)
        s[i]->end = linear_moment();
}

static void *work(void *arg)
{
    struct worker *w = arg;
    while (lladd_atomic_load32(&reading) < lladd_atomic_load32(&readers_wanted))
        lladd_yield(); /* without readers the test would show nothing */
    uint32_t own = (KEYS - w->first + w->writers - 1) / w->writers;
    int n = own < EACH ? (int)own : EACH;
    for (unsigned i = 0; i < w->txns; i++) {
        uint32_t keys[EACH], was[EACH], from = (uint32_t)seeded_next(&w->seed) % own;
        struct lladd_txn *txn = fixture_begin(&b);
        for (int k = 0; k < n; k++) {
            keys[k] = w->first + (from + (uint32_t)k) % own * w->writers;
            was[k] = last_number(&histories[keys[k]]);
            change(txn, keys[k], seeded_next(&w->seed) >> 8);
        }
        if (seeded_next(&w->seed) % 4)
            sure(lladd_commit(txn) == 0, "commit");
        else
            roll_back(txn, keys, was, n);
    }
    (void)lladd_atomic_add32(&writing, UINT32_MAX);
    return NULL;
}

/* ---- readers --------------------------------------------------------------------------------- */

static void note(struct worker *w, uint32_t k, uint32_t number, uint64_t begin, uint64_t end)
{
    if (w->n < LOOKS)
        w->looks[w->n++] = (struct linear_look){k, number, begin, end};
}

static void look_up(struct worker *w, uint32_t k)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    unsigned char key[100], value[LONGEST];
    size_t len = 0;
    uint64_t begin = linear_moment();
    int rc = lladd_btree_get(tree, key, key_bytes(k, key), value, sizeof value, &len, &err);
    uint64_t end = linear_moment();
    sure(rc == 0 || rc == LLADD_NOT_FOUND, err.message);
    note(w, k, rc ? 0 : number_of(k, value, len), begin, end);
}

/* A move of a cursor from one key to another one has seen that no key between them has a row. */
static void note_missed(struct worker *w, int from, int to, uint64_t begin, uint64_t end)
{
    int step = from < to ? 1 : -1;
    for (int k = from + step; k != to; k += step)
        note(w, (uint32_t)k, 0, begin, end);
}

static void walk(struct worker *w, bool up)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_btree_cursor *c;
    struct lladd_span key, value;
    int at = up ? -1 : KEYS, rc = 0;
    sure(lladd_btree_cursor_open(tree, &c, &err) == 0, err.message);
    while (rc == 0) {
        uint64_t begin = linear_moment();
        rc = up ? lladd_btree_cursor_next(c, &err) : lladd_btree_cursor_prev(c, &err);
        int row = rc ? rc : lladd_btree_cursor_row(c, &key, &value, &err);
        uint64_t end = linear_moment();
        sure(rc == 0 || rc == LLADD_END, err.message);
        /* A blob is read after the move, so the row may have been removed meanwhile. */
        sure(row == rc || row == LLADD_NOT_FOUND, err.message);
        const unsigned char *bytes = key.data;
        int to = rc ? (up ? KEYS : -1) : bytes[0] << 8 | bytes[1];
        sure(up ? to > at : to < at, "a cursor went back");
        note_missed(w, at, to, begin, end);
        if (rc == 0)
            note(w, (uint32_t)to, row ? 0 : number_of((uint32_t)to, value.data, value.len), begin,
                 end);
        at = to;
        if (seeded_next(&w->seed) % 8 == 0)
            lladd_yield(); /* the leaf may change while the cursor is there */
    }
    lladd_btree_cursor_close(c);
}

static void *read_all(void *arg)
{
    struct worker *w = arg;
    for (unsigned round = 0; lladd_atomic_load32(&writing) && w->n < LOOKS; round++) {
        for (int i = 0; i < 60; i++)
            look_up(w, (uint32_t)(seeded_next(&w->seed) >> 8) % KEYS);
        walk(w, round % 2);
        if (round == 0)
            (void)lladd_atomic_add32(&reading, 1);
    }
    return NULL;
}

/* ---- the check ------------------------------------------------------------------------------- */

static void check(unsigned first_reader, unsigned readers)
{
    size_t n = 0;
    uint32_t key;
    struct linear_look *all = malloc((size_t)readers * LOOKS * sizeof *all);
    ck_assert_ptr_nonnull(all);
    for (unsigned i = 0; i < readers; i++) {
        const struct worker *w = &workers[first_reader + i];
        memcpy(all + n, w->looks, w->n * sizeof *all);
        n += w->n;
    }
    ck_assert_uint_gt(n, KEYS);
    ck_assert_msg(linear_check(histories, all, n, &key), "key %u", key);
    free(all);
}

/* ---- the tests ------------------------------------------------------------------------------- */

static void setup(void)
{
    fixture_init_threads(&b);
    b.options.cache_bytes = 8u << 20;
    b.options.log_ring_bytes = 4u << 20;
    fixture_open(&b);
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_btree_create(txn, NULL, &root));
    commit(txn);
    ok_db(&b, lladd_btree_open(b.db, root, &tree, &b.err));
    memset(workers, 0, sizeof workers);
    memset(histories, 0, sizeof histories);
    for (int k = 0; k < KEYS; k++)
        (void)linear_add(&histories[k], 0, 0);
}

static void teardown(void)
{
    for (int k = 0; k < KEYS; k++)
        free(histories[k].states);
    lladd_btree_close(tree);
    fixture_free(&b);
}

static void run(unsigned writers, unsigned readers, unsigned txns)
{
    struct lladd_btree_stats s = {.struct_size = sizeof s};
    lladd_atomic_store32(&writing, writers);
    lladd_atomic_store32(&reading, 0);
    lladd_atomic_store32(&readers_wanted, readers);
    for (unsigned i = 0; i < writers + readers; i++) {
        struct worker *w = &workers[i];
        w->seed = i * 77 + 1;
        w->first = i;
        w->writers = writers;
        w->txns = txns;
        w->looks = i < writers ? NULL : malloc(LOOKS * sizeof *w->looks);
        ck_assert(i < writers || w->looks);
        ck_assert_int_eq(lladd_thread_start(&w->thread, i < writers ? work : read_all, w), 0);
    }
    for (unsigned i = 0; i < writers + readers; i++)
        lladd_thread_join(&workers[i].thread);
    check(writers, readers);
    for (unsigned i = writers; i < writers + readers; i++)
        free(workers[i].looks);
    ok_db(&b, lladd_btree_check(tree, &b.err));
    ok_db(&b, lladd_btree_stats_get(tree, &s, &b.err));
    ck_assert_uint_gt(s.splits, 5);
}

START_TEST(two_writers)
{
    run(2, 2, 4000);
}
END_TEST

START_TEST(eight_writers)
{
    run(8, 4, 1000);
}
END_TEST

START_TEST(forty_writers)
{
    run(WRITERS_MOST, READERS_MOST, 80);
}
END_TEST

/* in_order refuses a look that has seen a state before that state began or after it was over. It
 * also refuses a look that has seen an older state than a look that had ended before it. */
START_TEST(a_wrong_history_is_found)
{
    struct linear_state states[] = {{0, 0, 0}, {1, 10, 20}, {2, 30, 40}, {1, 50, 60}};
    const struct linear_history h = {.states = states, .n = 4};
    const struct {
        struct linear_look a, b;
        bool fine;
    } cases[] = {
        {{0, 0, 11, 19}, {0, 0, 12, 13}, true},    {{0, 1, 11, 12}, {0, 1, 13, 14}, true},
        {{0, 0, 11, 12}, {0, 1, 13, 14}, true},    {{0, 1, 11, 12}, {0, 0, 13, 14}, false},
        {{0, 1, 11, 15}, {0, 0, 14, 16}, true},    {{0, 0, 21, 22}, {0, 1, 23, 24}, false},
        {{0, 2, 25, 29}, {0, 2, 35, 36}, false},   {{0, 2, 35, 36}, {0, 1, 37, 38}, false},
        {{0, 2, 51, 52}, {0, 1, 53, 54}, true},    {{0, 1, 51, 52}, {0, 2, 53, 54}, false},
        {{0, 3, 11, 100}, {0, 3, 11, 100}, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct linear_look looks[] = {cases[i].a, cases[i].b};
        ck_assert_msg(linear_in_order(&h, looks, 2) == cases[i].fine, "case %zu", i);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("B+trees are linearizable");
    TCase *c = tcase_create("histories");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, two_writers);
    tcase_add_test(c, eight_writers);
    tcase_add_test(c, forty_writers);
    tcase_add_test(c, a_wrong_history_is_found);
    suite_add_tcase(s, c);
    return fixture_run(s);
}
