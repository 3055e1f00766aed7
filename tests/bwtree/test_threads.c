/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many threads use one Bw-tree with small pages. Each has keys of its own, which it changes and
 * finds as it left them; all walk past all keys. Of threads that insert or delete the same key one
 * wins. Leaves are split, and merged when the threads delete all rows of a range. Runs under TSan,
 * too, and in other builds ASan sees memory that is released too early.
 */
#include "op_fixture.h"

#include <lladd/bwtree.h>
#include <lladd/sync.h>

enum { THREADS = 4, KEYS = 4000, LONGEST = 60 };
#ifdef LL_TEST_SHORT
enum { STEPS = 8000 };
#else
enum { STEPS = 40000 };
#endif

static struct fixture b;
static struct lladd_bwtree *tree;
static struct lladd_error err;

struct job {
    struct lladd_thread thread;
    unsigned id;
    uint64_t seed;
    uint32_t versions[KEYS / THREADS]; /* of its keys; 0: no row */
    uint64_t won;
};
static struct job jobs[THREADS];

static const struct {
    uint32_t key, value, page, leaf, inner;
} kinds[] = {
    {8, 8, 128, 3, 1}, {8, 8, 1024, 0, 0}, {0, 0, 256, 4, 2}, {8, 8, 64, 1, 1}, {0, 16, 0, 0, 0}};
static int kind;

static void open_tree(int k)
{
    struct lladd_bwtree_options o = LLADD_BWTREE_OPTIONS_INIT;
    kind = k;
    o.key_size = kinds[k].key;
    o.value_size = kinds[k].value;
    o.page_bytes = kinds[k].page;
    o.leaf_chain = kinds[k].leaf;
    o.inner_chain = kinds[k].inner;
    fixture_init_threads(&b);
    fixture_open(&b);
    ck_assert_int_eq(lladd_bwtree_open_volatile(b.db, &o, &tree, &err), 0);
    memset(jobs, 0, sizeof jobs);
}

static void close_tree(void)
{
    ck_assert_msg(lladd_bwtree_check(tree, &err) == 0, "%s", err.message);
    lladd_bwtree_close(tree);
    fixture_free(&b);
}

static void run_all(void *(*fn)(void *))
{
    for (unsigned i = 0; i < THREADS; i++) {
        jobs[i].id = i;
        jobs[i].seed = i + 1;
        ck_assert_int_eq(lladd_thread_start(&jobs[i].thread, fn, &jobs[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        lladd_thread_join(&jobs[i].thread);
}

static size_t key_of(uint32_t k, unsigned char out[LONGEST])
{
    memset(out, 'k', LONGEST);
    out[0] = out[1] = out[2] = out[3] = 0;
    out[4] = (unsigned char)(k >> 24);
    out[5] = (unsigned char)(k >> 16);
    out[6] = (unsigned char)(k >> 8);
    out[7] = (unsigned char)k;
    return kinds[kind].key ? kinds[kind].key : 8 + k % (LONGEST - 8);
}

static size_t value_of(uint32_t k, uint32_t version, unsigned char out[LONGEST])
{
    memset(out, (int)(k + version), LONGEST);
    memcpy(out, &k, sizeof k);
    memcpy(out + 4, &version, sizeof version);
    return kinds[kind].value ? kinds[kind].value : 8 + version % (LONGEST - 8);
}

/* Asserts that the value is one of the key's, and returns its version. */
static uint32_t version_of(uint32_t k, const unsigned char *value, size_t len)
{
    unsigned char want[LONGEST];
    uint32_t version;
    sure(len >= 8, "a short value");
    memcpy(&version, value + 4, sizeof version);
    sure(value_of(k, version, want) == len && memcmp(want, value, len) == 0,
         "a value that was never put");
    return version;
}

static uint32_t look(uint32_t k)
{
    unsigned char key[LONGEST], value[LONGEST];
    size_t len = 0;
    int rc = lladd_bwtree_get(tree, key, key_of(k, key), value, sizeof value, &len, NULL);
    sure(rc == 0 || rc == LLADD_NOT_FOUND, "a lookup failed");
    return rc ? 0 : version_of(k, value, len);
}

static void change(struct job *j, uint32_t own, uint64_t random)
{
    unsigned char key[LONGEST], value[LONGEST];
    uint32_t k = own * THREADS + j->id, version = (uint32_t)(random >> 40) | 1;
    size_t key_len = key_of(k, key), len = value_of(k, version, value);
    uint32_t *was = &j->versions[own];
    int rc, want = 0;
    switch (random % 4) {
    case 0:
        rc = lladd_bwtree_delete(tree, key, key_len, NULL);
        want = *was ? 0 : LLADD_NOT_FOUND;
        version = 0;
        break;
    case 1:
        rc = lladd_bwtree_insert(tree, key, key_len, value, len, NULL);
        want = *was ? LLADD_EXISTS : 0;
        break;
    default:
        rc = lladd_bwtree_put(tree, key, key_len, value, len, NULL);
    }
    sure(rc == want, "a change has another result");
    if (rc == 0)
        *was = version;
    sure(look(k) == *was, "a thread does not find its own change");
}

/* Walks up or down. No other thread changes the rows of this thread meanwhile, so it meets each. */
static void walk(struct job *j, bool up)
{
    struct lladd_bwtree_cursor *c;
    struct lladd_span key, value;
    uint32_t mine = 0, before = up ? 0 : KEYS;
    bool first = true;
    int rc;
    sure(lladd_bwtree_cursor_open(tree, &c, NULL) == 0, "a cursor");
    while ((rc = up ? lladd_bwtree_cursor_next(c, NULL) : lladd_bwtree_cursor_prev(c, NULL)) == 0) {
        sure(lladd_bwtree_cursor_row(c, &key, &value, NULL) == 0, "a row");
        const unsigned char *bytes = key.data;
        uint32_t k = (uint32_t)bytes[6] << 8 | bytes[7];
        sure(first || (up ? k > before : k < before), "a cursor went back");
        first = false;
        before = k;
        uint32_t version = version_of(k, value.data, value.len);
        if (k % THREADS == j->id) {
            sure(j->versions[k / THREADS] == version, "a cursor shows an old row");
            mine++;
        }
    }
    sure(rc == LLADD_END, "a walk failed");
    for (uint32_t i = 0; i < KEYS / THREADS; i++)
        mine -= j->versions[i] != 0;
    sure(mine == 0, "a cursor left a row out");
    lladd_bwtree_cursor_close(c);
}

/* Deletes the thread's rows in one of some stretches of keys. All threads do so, more or less at
 * the same time. */
static void clear(struct job *j, unsigned stretch)
{
    enum { OWN = KEYS / THREADS, STRETCH = OWN / 8 };
    for (uint32_t own = stretch % 8 * STRETCH, end = own + STRETCH; own < end; own++) {
        unsigned char key[LONGEST];
        uint32_t k = own * THREADS + j->id;
        int rc = lladd_bwtree_delete(tree, key, key_of(k, key), NULL);
        sure(rc == (j->versions[own] ? 0 : LLADD_NOT_FOUND), "a deletion has another result");
        j->versions[own] = 0;
    }
}

static void *work(void *arg)
{
    struct job *j = arg;
    for (unsigned i = 0; i < STEPS; i++) {
        uint64_t random = seeded_next(&j->seed);
        if (i % (STEPS / 40) == 0)
            clear(j, i / (STEPS / 40));
        if (i % (STEPS / 8) == 7)
            walk(j, random & 1);
        else if (random % 5 == 0)
            (void)look((uint32_t)(random >> 8) % KEYS);
        else
            change(j, (uint32_t)(random >> 8) % (KEYS / THREADS), random >> 16);
    }
    walk(j, true);
    return NULL;
}

START_TEST(each_thread_finds_its_own_changes)
{
    struct lladd_bwtree_stats s = {.struct_size = sizeof s};
    open_tree(_i);
    run_all(work);
    for (uint32_t k = 0; k < KEYS; k++)
        ck_assert_uint_eq(look(k), jobs[k % THREADS].versions[k / THREADS]);
    ck_assert_int_eq(lladd_bwtree_stats_get(tree, &s, &err), 0);
    ck_assert_uint_gt(s.splits, 10);
    ck_assert_uint_gt(s.merges, kinds[_i].page ? 10 : 0);
    close_tree();
}
END_TEST

/* All threads insert the same keys in the same order, and then delete them. */
static void *race(void *arg)
{
    struct job *j = arg;
    unsigned char key[LONGEST], value[LONGEST];
    for (uint32_t k = 0; k < KEYS; k++) {
        int rc = lladd_bwtree_insert(tree, key, key_of(k, key), value,
                                     value_of(k, j->id + 1, value), NULL);
        sure(rc == 0 || rc == LLADD_EXISTS, "an insertion failed");
        j->won += rc == 0;
    }
    return NULL;
}

static void *race_back(void *arg)
{
    struct job *j = arg;
    unsigned char key[LONGEST];
    for (uint32_t k = KEYS; k > 0; k--) {
        int rc = lladd_bwtree_delete(tree, key, key_of(k - 1, key), NULL);
        sure(rc == 0 || rc == LLADD_NOT_FOUND, "a deletion failed");
        j->won += rc == 0;
    }
    return NULL;
}

static uint64_t winners(void)
{
    uint64_t won = 0;
    for (int i = 0; i < THREADS; i++) {
        won += jobs[i].won;
        jobs[i].won = 0;
    }
    return won;
}

START_TEST(one_thread_wins_each_key)
{
    open_tree(_i);
    run_all(race);
    ck_assert_uint_eq(winners(), KEYS);
    for (uint32_t k = 0; k < KEYS; k++)
        ck_assert_uint_ne(look(k), 0);
    run_all(race_back);
    ck_assert_uint_eq(winners(), KEYS);
    for (uint32_t k = 0; k < KEYS; k++)
        ck_assert_uint_eq(look(k), 0);
    struct lladd_bwtree_stats s = {.struct_size = sizeof s};
    ck_assert_int_eq(lladd_bwtree_stats_get(tree, &s, &err), 0);
    ck_assert_uint_gt(s.merges, 0);
    close_tree();
}
END_TEST

int main(void)
{
    enum { KINDS = sizeof kinds / sizeof *kinds };
    Suite *s = suite_create("Bw-trees and threads");
    TCase *c = tcase_create("threads");
    tcase_add_loop_test(c, each_thread_finds_its_own_changes, 0, KINDS);
    tcase_add_loop_test(c, one_thread_wins_each_key, 0, KINDS);
    suite_add_tcase(s, c);
    return fixture_run(s);
}
