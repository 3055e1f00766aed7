/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Logged Bw-trees beside a model. Several transactions are open at a time, each with keys of its
 * own. They put, insert and delete, roll back in part, commit, abort and prepare, while the tree is
 * flushed, checkpoints are taken, and the process crashes or closes the database.
 */
#include "db_fixture.h"

#include <lladd/bwtree.h>
#include <lladd/bytes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TXNS = 3, KEYS = 240, GONE = -1, VALUE_MAX = 300 };

static struct fixture r;
static struct lladd_bwtree *tree;
static uint64_t state;

static unsigned dice(unsigned n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((state >> 33) % n);
}

/* The values of the keys: a number, or GONE. */
struct rows {
    int value[KEYS];
};
static struct rows committed;

static struct open_txn {
    struct lladd_txn *txn;
    struct rows now, saved;
    lladd_savepoint_id savepoint;
    bool has_savepoint, prepared;
} open_txns[TXNS];

static bool fixed;

static size_t key_of(unsigned k, unsigned char *out)
{
    if (fixed) {
        lladd_put64(out, __builtin_bswap64((uint64_t)k * 1000));
        return 8;
    }
    return (size_t)snprintf((char *)out, 64, "key %0*u", (int)(3 + k % 20), k);
}

static size_t value_of(int v, unsigned char *out)
{
    size_t len = fixed ? 8 : 4 + (size_t)v * 7 % (VALUE_MAX - 4);
    memset(out, v & 0xff, len);
    lladd_put32(out, (uint32_t)v);
    return len;
}

static bool is_mine(unsigned k, const struct open_txn *t)
{
    return &open_txns[k % TXNS] == t;
}

/* ---- the changes ----------------------------------------------------------------------------- */

static void want_txn(struct open_txn *t)
{
    if (t->txn)
        return;
    t->txn = fixture_begin(&r);
    t->now = committed;
    t->has_savepoint = false;
}

static void change(struct open_txn *t, unsigned k)
{
    unsigned char key[64], value[VALUE_MAX];
    int v = (int)dice(1000);
    size_t key_len = key_of(k, key), value_len = value_of(v, value);
    bool there = t->now.value[k] != GONE;
    int rc;
    switch (dice(4)) {
    case 0:
        rc = lladd_bwtree_txn_insert(t->txn, tree, key, key_len, value, value_len);
        ck_assert_int_eq(rc, there ? LLADD_EXISTS : 0);
        v = there ? t->now.value[k] : v;
        break;
    case 1:
        rc = lladd_bwtree_txn_delete(t->txn, tree, key, key_len);
        ck_assert_int_eq(rc, there ? 0 : LLADD_NOT_FOUND);
        v = GONE;
        break;
    default:
        ok(t->txn, lladd_bwtree_txn_put(t->txn, tree, key, key_len, value, value_len));
        break;
    }
    t->now.value[k] = v;
}

static void change_some(struct open_txn *t)
{
    unsigned from = dice(KEYS);
    want_txn(t);
    for (unsigned i = 0, n = 1 + dice(20); i < n; i++) {
        unsigned k = dice(2) ? (from + i) % KEYS : dice(KEYS);
        if (is_mine(k, t))
            change(t, k);
    }
}

static void save(struct open_txn *t)
{
    want_txn(t);
    if (t->has_savepoint) {
        ok(t->txn, lladd_rollback_to(t->txn, t->savepoint));
        t->now = t->saved;
    } else {
        ok(t->txn, lladd_savepoint(t->txn, &t->savepoint));
        t->saved = t->now;
        t->has_savepoint = true;
    }
}

/* Other transactions' keys keep their committed values. */
static void take_over(struct open_txn *t)
{
    for (unsigned k = 0; k < KEYS; k++)
        if (is_mine(k, t))
            committed.value[k] = t->now.value[k];
}

static void finish(struct open_txn *t)
{
    if (!t->txn)
        return;
    if (dice(3)) {
        done(lladd_commit(t->txn));
        take_over(t);
    } else {
        done(lladd_abort(t->txn));
    }
    t->txn = NULL;
    t->prepared = false;
}

static void prepare(struct open_txn *t)
{
    struct lladd_gid id = {.gtrid_length = 1, .data = {(unsigned char)(t - open_txns)}};
    if (!t->txn || t->prepared)
        return;
    ok(t->txn, lladd_prepare(t->txn, &id));
    t->prepared = true;
}

/* ---- the check ------------------------------------------------------------------------------- */

static int visible(unsigned k)
{
    const struct open_txn *t = &open_txns[k % TXNS];
    return t->txn ? t->now.value[k] : committed.value[k];
}

static void check_all(void)
{
    ok_db(&r, lladd_bwtree_check(tree, &r.err));
    for (unsigned k = 0; k < KEYS; k++) {
        unsigned char key[64], value[VALUE_MAX], want[VALUE_MAX];
        size_t len, key_len = key_of(k, key);
        int v = visible(k), rc = lladd_bwtree_get(tree, key, key_len, value, sizeof value, &len,
                                                  &r.err);
        ck_assert_msg(rc == (v == GONE ? LLADD_NOT_FOUND : 0), "key %u: %d", k, rc);
        if (v == GONE)
            continue;
        ck_assert_uint_eq(len, value_of(v, want));
        ck_assert_int_eq(memcmp(value, want, len), 0);
    }
}

/* ---- restarts -------------------------------------------------------------------------------- */

static int claim(void *ctx, const struct lladd_in_doubt_info *d)
{
    (void)ctx;
    struct open_txn *t = &open_txns[d->gid.data[0]];
    int rc = lladd_in_doubt_claim(r.db, &d->gid, &t->txn, &r.err);
    if (!rc && !t->prepared) { /* its abort was not durable */
        done(lladd_abort(t->txn));
        t->txn = NULL;
    }
    return rc;
}

static void restart(void)
{
    bool prepared = false;
    for (unsigned i = 0; i < TXNS; i++)
        prepared |= open_txns[i].prepared;
    if (dice(3) == 0 && !prepared) {
        for (unsigned i = 0; i < TXNS; i++)
            finish(&open_txns[i]);
        if (dice(2))
            lladd_bwtree_close(tree);
        fixture_close(&r);
    } else {
        fixture_crash(&r, dice(2) ? &fault_power : &fault_kill);
    }
    for (unsigned i = 0; i < TXNS; i++)
        open_txns[i].txn = NULL;
    r.options.recovery = dice(2) ? LLADD_RECOVER_FULL : LLADD_RECOVER_INSTANT;
    fixture_open(&r);
    ok_db(&r, lladd_bwtree_open(r.db, "model", &tree, &r.err));
    ok_db(&r, lladd_in_doubt_each(r.db, claim, NULL, &r.err));
    check_all();
}

static void begin(unsigned seed)
{
    struct lladd_bwtree_options o = LLADD_BWTREE_OPTIONS_INIT;
    state = seed * 7919u + 1;
    memset(open_txns, 0, sizeof open_txns);
    for (unsigned k = 0; k < KEYS; k++)
        committed.value[k] = GONE;
    fixture_init(&r, seed & (FIXTURE_RESERVED | FIXTURE_THREADS));
    if (dice(2))
        r.options.log_limit_bytes = 512 << 10;
    ok_db(&r, lladd_bwtree_register(&r.options, &r.err));
    fixture_open(&r);
    fixed = seed % 2;
    o.key_size = o.value_size = fixed ? 8 : 0;
    o.page_bytes = 64u << dice(6);
    o.leaf_chain = 1 + dice(8);
    o.inner_chain = 1 + dice(3);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, lladd_bwtree_create(txn, "model", &o));
    done(lladd_commit(txn));
    ok_db(&r, lladd_bwtree_open(r.db, "model", &tree, &r.err));
}

static void step(void)
{
    struct open_txn *t = &open_txns[dice(TXNS)];
    unsigned what = dice(40);
    if (what < 3)
        ok_db(&r, lladd_bwtree_flush(r.db, &r.err));
    else if (what < 5)
        ok_db(&r, lladd_checkpoint(r.db, &r.err));
    else if (what < 6)
        restart();
    else if (what < 10)
        finish(t);
    else if (what < 11)
        prepare(t);
    else if (what < 14 && !t->prepared)
        save(t);
    else if (!t->prepared)
        change_some(t);
}

START_TEST(a_tree_is_as_its_model)
{
    unsigned steps = getenv("LLADD_NIGHTLY") ? 6000 : 500;
    begin((unsigned)_i);
    for (unsigned i = 0; i < steps; i++)
        step();
    check_all();
    for (unsigned i = 0; i < TXNS; i++)
        finish(&open_txns[i]);
    check_all();
    lladd_bwtree_close(tree);
    fixture_free(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("logged Bw-trees beside a model");
    TCase *c = tcase_create("model");
    tcase_add_loop_test(c, a_tree_is_as_its_model, 0, 16);
    suite_add_tcase(s, c);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
