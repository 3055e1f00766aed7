/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bw-trees are linearizable: each lookup sees the state of the key at one moment between its call
 * and its return. A tree is linearizable if this holds for each of its keys. One thread changes a
 * key; other threads look the key up, and walk past it with a cursor in both directions, while
 * leaves are split, merged and consolidated around the key. The threads note when each call began
 * and ended. Afterwards the notes are checked. Runs under TSan.
 */
#include "op_fixture.h"
#include "support/linear.h"

#include <lladd/bwtree.h>
#include <lladd/sync.h>

enum { KEYS = 160, WRITERS = 3, READERS = 3, LOOKS = 20000, LEN = 24, PHASE = 200 };
#ifdef LL_TEST_SHORT
enum { CHANGES = 4000 };
#else
enum { CHANGES = 20000 };
#endif

static struct fixture b;
static struct lladd_bwtree *tree;
static uint32_t writing, reading;

static struct linear_history histories[KEYS];

struct worker {
    struct lladd_thread thread;
    uint64_t seed;
    uint32_t first; /* a writer's keys begin with `first`; their distance is WRITERS */
    struct linear_look *looks;
    size_t n;
};
static struct worker workers[WRITERS + READERS];

static size_t key_of(uint32_t k, unsigned char out[LEN])
{
    memset(out, (int)(k % 7), LEN);
    out[0] = (unsigned char)(k >> 8);
    out[1] = (unsigned char)k;
    return 2 + k % 3 * 10;
}

static size_t value_of(uint32_t k, uint32_t number, unsigned char out[LEN])
{
    memset(out, (int)(k + number), LEN);
    memcpy(out, &number, sizeof number);
    return 4 + (number + k) % (LEN - 4);
}

static uint32_t number_of(uint32_t k, const unsigned char *value, size_t len)
{
    unsigned char want[LEN];
    uint32_t number = 0;
    sure(len >= 4, "a short value");
    memcpy(&number, value, sizeof number);
    sure(number != 0 && value_of(k, number, want) == len && memcmp(value, want, len) == 0,
         "a value that was never put");
    return number;
}

/* ---- writers --------------------------------------------------------------------------------- */

static void change(uint32_t k, bool shrinks, uint64_t random)
{
    struct linear_history *h = &histories[k];
    unsigned char key[LEN], value[LEN];
    size_t key_len = key_of(k, key), len;
    uint32_t was = h->states[h->n - 1].number;
    bool goes = random % 8 < (shrinks ? 7 : 1);
    uint32_t number = was && goes ? 0 : ++h->numbers;
    struct linear_state *s = linear_add(h, number, linear_moment());
    int rc;
    len = value_of(k, number, value);
    if (number == 0)
        rc = lladd_bwtree_delete(tree, key, key_len, NULL);
    else if (was == 0 && random % 2)
        rc = lladd_bwtree_insert(tree, key, key_len, value, len, NULL);
    else
        rc = lladd_bwtree_put(tree, key, key_len, value, len, NULL);
    sure(rc == 0, "a change failed");
    s->end = linear_moment();
}

static void *work(void *arg)
{
    struct worker *w = arg;
    while (lladd_atomic_load32(&reading) < READERS)
        lladd_yield(); /* without readers the test would show nothing */
    uint32_t own = (KEYS - w->first + WRITERS - 1) / WRITERS;
    for (unsigned i = 0; i < CHANGES; i++) {
        uint64_t random = seeded_next(&w->seed);
        bool shrinks = i / PHASE % 2; /* most rows are deleted, and leaves are merged */
        change(w->first + (uint32_t)(random >> 8) % own * WRITERS, shrinks, random >> 40);
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
    unsigned char key[LEN], value[LEN];
    size_t len = 0;
    uint64_t begin = linear_moment();
    int rc = lladd_bwtree_get(tree, key, key_of(k, key), value, sizeof value, &len, NULL);
    uint64_t end = linear_moment();
    sure(rc == 0 || rc == LLADD_NOT_FOUND, "a lookup failed");
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
    struct lladd_bwtree_cursor *c;
    struct lladd_span key, value;
    int at = up ? -1 : KEYS, rc = 0;
    sure(lladd_bwtree_cursor_open(tree, &c, NULL) == 0, "a cursor");
    while (rc == 0) {
        uint64_t begin = linear_moment();
        rc = up ? lladd_bwtree_cursor_next(c, NULL) : lladd_bwtree_cursor_prev(c, NULL);
        uint64_t end = linear_moment();
        sure(rc == 0 || rc == LLADD_END, "a move failed");
        int to = up ? KEYS : -1;
        if (rc == 0) {
            sure(lladd_bwtree_cursor_row(c, &key, &value, NULL) == 0, "a row");
            const unsigned char *bytes = key.data;
            to = bytes[0] << 8 | bytes[1];
        }
        sure(up ? to > at : to < at, "a cursor went back");
        note_missed(w, at, to, begin, end);
        if (rc == 0)
            note(w, (uint32_t)to, number_of((uint32_t)to, value.data, value.len), begin, end);
        at = to;
        if (seeded_next(&w->seed) % 8 == 0)
            lladd_yield(); /* the leaf may change while the cursor is there */
    }
    lladd_bwtree_cursor_close(c);
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

static void check(void)
{
    size_t n = 0;
    uint32_t key;
    struct linear_look *all = malloc((size_t)READERS * LOOKS * sizeof *all);
    ck_assert_ptr_nonnull(all);
    for (unsigned i = WRITERS; i < WRITERS + READERS; i++) {
        memcpy(all + n, workers[i].looks, workers[i].n * sizeof *all);
        n += workers[i].n;
    }
    ck_assert_uint_gt(n, KEYS);
    ck_assert_msg(linear_check(histories, all, n, &key), "key %u", key);
    free(all);
}

/* ---- the test -------------------------------------------------------------------------------- */

static void open_tree(void)
{
    struct lladd_bwtree_options o = LLADD_BWTREE_OPTIONS_INIT;
    o.page_bytes = 200;
    o.leaf_chain = 3;
    o.inner_chain = 1;
    fixture_init_threads(&b);
    fixture_open(&b);
    ck_assert_int_eq(lladd_bwtree_open_volatile(b.db, &o, &tree, &b.err), 0);
    memset(workers, 0, sizeof workers);
    memset(histories, 0, sizeof histories);
    for (int k = 0; k < KEYS; k++)
        (void)linear_add(&histories[k], 0, 0);
}

START_TEST(each_key_is_linearizable)
{
    open_tree();
    lladd_atomic_store32(&writing, WRITERS);
    lladd_atomic_store32(&reading, 0);
    for (unsigned i = 0; i < WRITERS + READERS; i++) {
        struct worker *w = &workers[i];
        w->seed = (unsigned)_i * 1000 + i * 77 + 1;
        w->first = i;
        w->looks = i < WRITERS ? NULL : malloc(LOOKS * sizeof *w->looks);
        ck_assert(i < WRITERS || w->looks);
        ck_assert_int_eq(lladd_thread_start(&w->thread, i < WRITERS ? work : read_all, w), 0);
    }
    for (unsigned i = 0; i < WRITERS + READERS; i++)
        lladd_thread_join(&workers[i].thread);
    check();
    for (unsigned i = 0; i < WRITERS + READERS; i++)
        free(workers[i].looks);
    for (int k = 0; k < KEYS; k++)
        free(histories[k].states);
    struct lladd_bwtree_stats s = {.struct_size = sizeof s};
    ck_assert_int_eq(lladd_bwtree_stats_get(tree, &s, &b.err), 0);
    ck_assert_uint_gt(s.merges, CHANGES / 100);
    ck_assert_msg(lladd_bwtree_check(tree, &b.err) == 0, "%s", b.err.message);
    lladd_bwtree_close(tree);
    fixture_free(&b);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("Bw-trees are linearizable");
    TCase *c = tcase_create("linear");
    tcase_add_loop_test(c, each_key_is_linearizable, 0, 3);
    suite_add_tcase(s, c);
    return fixture_run(s);
}
