/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lladd_bwtree_check finds states that break the rules of Bw-trees, and says what is wrong. Each
 * case breaks one of them in memory, and repairs it afterwards.
 */
#include "op_fixture.h"
#include "operations/bwtree/bwtree.h"

static struct fixture b;
static struct lladd_bwtree *tree;
static struct lladd_error err;

static void setup(void)
{
    struct lladd_bwtree_options o = LLADD_BWTREE_OPTIONS_INIT;
    unsigned char key[8];
    fixture_init(&b, 4096);
    fixture_open(&b);
    o.key_size = o.value_size = 8;
    o.page_bytes = 256;
    o.leaf_chain = 4;
    ck_assert_int_eq(lladd_bwtree_open_volatile(b.db, &o, &tree, &err), 0);
    for (uint64_t i = 100; i > 0; i--) {
        lladd_put64(key, __builtin_bswap64(10 * i));
        ck_assert_int_eq(lladd_bwtree_insert(tree, key, 8, &i, 8, &err), 0);
    }
    ck_assert_int_eq(lladd_bwtree_put(tree, key, 8, key, 8, &err), 0); /* a delta of leaf 0 */
    ck_assert_int_eq(lladd_bwtree_check(tree, &err), 0);
}

static void teardown(void)
{
    ck_assert_int_eq(lladd_bwtree_check(tree, &err), 0);
    lladd_bwtree_close(tree);
    fixture_free(&b);
}

static void finds(const char *what)
{
    ck_assert_int_eq(lladd_bwtree_check(tree, &err), LLADD_BUG);
    ck_assert_msg(strstr(err.message, what) != NULL, "%s", err.message);
}

static struct bw_page *root(void)
{
    return bw_bottom(bw_load(tree, BW_ROOT));
}

static struct bw_page *leaf(uint32_t i)
{
    return bw_bottom(bw_load(tree, bw_row_child(tree, root(), i)));
}

static struct bw_delta *delta(void)
{
    const struct bw_state *s = bw_load(tree, bw_row_child(tree, root(), 0));
    ck_assert_int_eq(s->kind, BW_PUT);
    return (struct bw_delta *)(uintptr_t)s;
}

START_TEST(rows_out_of_order)
{
    struct bw_page *p = leaf(1);
    uint64_t head = p->heads[1];
    p->heads[1] = p->heads[0];
    finds("not in order");
    p->heads[1] = head;
    p->heads[1] = p->high_head;
    finds("not below its high key");
    p->heads[1] = head;
}
END_TEST

START_TEST(ranges_that_do_not_meet)
{
    struct bw_page *p = leaf(1);
    p->low_head--;
    finds("not the high key of its left neighbour");
    p->low_head++;
}
END_TEST

START_TEST(terms_that_lead_astray)
{
    struct bw_page *p = root();
    ck_assert_uint_gt(p->n, 3);
    p->heads[2]--;
    finds("does not begin at its term");
    p->heads[2]++;
    p->heads[0]++;
    finds("no child for its low key");
    p->heads[0]--;
}
END_TEST

START_TEST(chains_that_are_linked_wrongly)
{
    struct bw_delta *d = delta();
    d->s.number++;
    finds("wrong number");
    d->s.number--;
    d->s.chain++;
    finds("wrong number");
    d->s.chain--;
    d->at++;
    finds("wrong place");
    d->at--;
}
END_TEST

/* A merge that no thread will finish. */
START_TEST(merges_that_are_left)
{
    uint32_t pid = bw_row_child(tree, root(), 1);
    const struct bw_state *s = bw_load(tree, pid);
    struct bw_change change = {.kind = BW_REMOVE, .key = bw_low(tree, bw_bottom(s)), .child = pid};
    uint64_t memory[(sizeof(struct bw_delta) + 8) / 8]; /* small keys have no bytes of their own */
    struct bw_delta *removed = (struct bw_delta *)memory;
    ll_bwtree__delta_fill(tree, removed, s, 0, &change, true);
    lladd_atomic_store64(bw_word(tree, pid), (uintptr_t)removed);
    finds("a child was merged into another page");
    tree->shape = pid;
    ck_assert_int_eq(lladd_bwtree_check(tree, &err), 0); /* for want of memory */
    tree->shape = BW_INNER_SPLIT;
    lladd_atomic_store64(bw_word(tree, pid), (uintptr_t)s);
    finds("neither merges nor splits");
    tree->shape = 0;
}
END_TEST

int main(void)
{
    Suite *s = suite_create("the check of Bw-trees");
    TCase *c = tcase_create("check");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, rows_out_of_order);
    tcase_add_test(c, ranges_that_do_not_meet);
    tcase_add_test(c, terms_that_lead_astray);
    tcase_add_test(c, chains_that_are_linked_wrongly);
    tcase_add_test(c, merges_that_are_left);
    suite_add_tcase(s, c);
    return fixture_run(s);
}
