/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The store of logged Bw-trees, when a crash, a rollback or a bad sector comes at a bad moment.
 */
#include "db_fixture.h"
#include "operations/bwtree/stored.h"

#include <string.h>

static struct fixture r;
static struct lladd_bwtree *tree;
static struct lladd_bwtree_options small_rows;

static void create(struct lladd_txn *txn, const char *name)
{
    ok(txn, lladd_bwtree_create(txn, name, &small_rows));
}

static void begin(unsigned kind)
{
    fixture_init(&r, kind);
    ok_db(&r, lladd_bwtree_register(&r.options, &r.err));
    fixture_open(&r);
    small_rows = (struct lladd_bwtree_options)LLADD_BWTREE_OPTIONS_INIT;
    small_rows.key_size = small_rows.value_size = 8;
    small_rows.page_bytes = 256;
    struct lladd_txn *txn = fixture_begin(&r);
    create(txn, "orders");
    done(lladd_commit(txn));
    ok_db(&r, lladd_bwtree_open(r.db, "orders", &tree, &r.err));
}

static void crash(void)
{
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    ok_db(&r, lladd_bwtree_open(r.db, "orders", &tree, &r.err));
}

static void put_rows(struct lladd_bwtree *t, uint64_t n)
{
    struct lladd_txn *txn = fixture_begin(&r);
    for (uint64_t k = 0; k < n; k++) {
        uint64_t key = __builtin_bswap64(k);
        ok(txn, lladd_bwtree_txn_put(txn, t, &key, 8, &k, 8));
    }
    done(lladd_commit(txn));
}

static void expect_rows(struct lladd_bwtree *t, uint64_t n)
{
    for (uint64_t k = 0; k < n; k++) {
        uint64_t key = __builtin_bswap64(k), value = 0;
        ok_db(&r, lladd_bwtree_get(t, &key, 8, &value, 8, NULL, &r.err));
        ck_assert_uint_eq(value, k);
    }
    ok_db(&r, lladd_bwtree_check(t, &r.err));
}

/* ---- a tree that a transaction in doubt has made ---------------------------------------------- */

/* Leaves a transaction in doubt that has made the tree "new"; recovery has found it. */
static struct lladd_txn *doubtful_tree(void)
{
    struct lladd_gid gid = gid_of("g");
    struct lladd_txn *txn = fixture_begin(&r);
    create(txn, "new");
    ok(txn, lladd_prepare(txn, &gid));
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    return fixture_claim(&r, "g");
}

/* A checkpoint does not write the tree, so the log has no record of a tree that is not there. */
START_TEST(a_tree_in_doubt_is_not_flushed)
{
    begin((unsigned)_i);
    put_rows(tree, 100);
    ok_db(&r, lladd_bwtree_flush(r.db, &r.err));
    struct lladd_txn *txn = doubtful_tree();
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    done(lladd_abort(txn));
    ok_db(&r, lladd_bwtree_open(r.db, "orders", &tree, &r.err));
    put_rows(tree, 1);
    crash();
    expect_rows(tree, 100);
    lladd_bwtree_close(tree);
    fixture_reopen(&r);
    ok_db(&r, lladd_bwtree_open(r.db, "orders", &tree, &r.err));
    expect_rows(tree, 100);
    lladd_bwtree_close(tree);
    fixture_free(&r);
}
END_TEST

/* The page of the tree that was rolled back becomes the page of another one. */
START_TEST(a_tree_that_was_rolled_back_leaves_others_alone)
{
    struct lladd_bwtree *other;
    begin((unsigned)_i);
    struct lladd_txn *txn = doubtful_tree();
    done(lladd_abort(txn));
    txn = fixture_begin(&r);
    create(txn, "other");
    done(lladd_commit(txn));
    ok_db(&r, lladd_bwtree_open(r.db, "other", &other, &r.err));
    put_rows(other, 100);
    ok_db(&r, lladd_bwtree_flush(r.db, &r.err));
    crash();
    ok_db(&r, lladd_bwtree_open(r.db, "other", &other, &r.err));
    expect_rows(other, 100);
    fixture_reopen(&r);
    ok_db(&r, lladd_bwtree_open(r.db, "other", &other, &r.err));
    expect_rows(other, 100);
    fixture_free(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("the store of logged Bw-trees");
    TCase *c = tcase_create("the store of logged Bw-trees");
    tcase_add_loop_test(c, a_tree_in_doubt_is_not_flushed, 0, FIXTURE_KINDS);
    tcase_add_loop_test(c, a_tree_that_was_rolled_back_leaves_others_alone, 0, FIXTURE_KINDS);
    suite_add_tcase(s, c);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
