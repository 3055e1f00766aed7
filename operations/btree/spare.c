/* SPDX-License-Identifier: BSD-2-Clause */
/* Spare pages. A split takes a free page of the tree (free.c). If there is none, a nested top
 * action allocates a page; the allocation may wait. The page is entered in the node that will be
 * split. So if the split does not follow, because of a crash or an error, the page is not lost: the
 * node's next split takes it.
 *
 * The action is closed under the latch of the page that gets the spare page. So no other thread
 * sees the spare page before the record that ends the action. Otherwise another transaction could
 * fill the page, and a crash could free it. */
#include "operations/btree/tree.h"

int ll_btree__put_down(struct lladd_txn *txn, const struct ll_btree_tree *t, int rc)
{
    struct lladd_error why = *lladd_txn_error(txn);
    int rest = lladd_log_credit(txn, t->trees->fill, 0);
    if (rc)
        *lladd_txn_error_out(txn) = why;
    return rc ? rc : rest;
}

/* Allocates a page and formats it as a closed node. */
static int closed_page(struct lladd_txn *txn, struct ll_btree_tree *t, lladd_pageno *out)
{
    struct bt_fill f = {.root = t->root, .closed = true};
    f.fences.open_end = true;
    TRY(lladd_page_alloc(txn, out));
    return lladd_update(txn, t->trees->node, *out, &f, sizeof f);
}

/* Enters the spare page and closes the action, under the page's latch. `at`: the field in the page.
 * LLADD_END: there is a spare page. */
static int enter(struct lladd_txn *txn, struct lladd_page *held, unsigned at, lladd_op_id op,
                 lladd_pageno spare, struct lladd_action *action)
{
    unsigned char number[8];
    if (lladd_get48(held->bytes + at))
        return LLADD_END;
    lladd_put64(number, spare.v);
    TRY(lladd_update_page(txn, op, held, number, sizeof number));
    return LLADD_PLANTED(LLADD_BUG_BT_SPARE) ? 0 : lladd_nta_end(txn, action, LLADD_NO_OP, NULL, 0);
}

static int has_spare(struct lladd_page *p, unsigned at)
{
    return lladd_get48(p->bytes + at) ? LLADD_END : 0;
}

/* Names the page that gets a spare page: the root page, or the key's node of this level. */
struct place {
    struct ll_btree_tree *t;
    bool root;
    struct bt_key key;
    uint32_t level;
};

static int fix_place(const struct place *p, enum lladd_latch latch, struct lladd_page **out,
                     struct lladd_error *err)
{
    return p->root
               ? ll_operations__fix(p->t->db, p->t->root, ll_btree__root_page.name, latch, out, err)
               : ll_btree__fix(p->t, p->key, p->level, latch, out, err);
}

/* Does the work of the action, and closes it: then the spare page belongs to the node. */
static int allocate(struct lladd_txn *txn, const struct place *p, struct lladd_action *action)
{
    struct ll_btree_tree *t = p->t;
    struct lladd_page *held;
    lladd_pageno spare;
    lladd_op_id op = p->root ? t->trees->root_spare : t->trees->spare;
    const struct lladd_log_need needs[] = {{op, 1}, {LLADD_NO_OP, 1}, {LLADD_PAGE_IMAGE, 1}};
    TRY(closed_page(txn, t, &spare));
    TRY(lladd_log_credit_all(txn, needs, 3));
    int rc = fix_place(p, LLADD_LATCH_EXCLUSIVE, &held, lladd_txn_error_out(txn));
    if (!rc) {
        rc = enter(txn, held, p->root ? BR_SPARE : BT_SPARE, op, spare, action);
        lladd_page_unfix(t->db, held, LLADD_LATCH_EXCLUSIVE);
    }
    rc = ll_btree__put_down(txn, t, rc);
    return LLADD_PLANTED(LLADD_BUG_BT_SPARE) && !rc
               ? lladd_nta_end(txn, action, LLADD_NO_OP, NULL, 0)
               : rc;
}

static int want(struct lladd_txn *txn, const struct place *p)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct lladd_page *page;
    struct lladd_action action;
    TRY(fix_place(p, LLADD_LATCH_SHARED, &page, err));
    int rc = has_spare(page, p->root ? BR_SPARE : BT_SPARE);
    lladd_page_unfix(p->t->db, page, LLADD_LATCH_SHARED);
    if (rc)
        return rc == LLADD_END ? 0 : rc;
    TRY(lladd_nta_begin(txn, &action));
    rc = allocate(txn, p, &action);
    if (!rc)
        return 0;
    rc = ll_operations__action_all_or_nothing(txn, &action, rc);
    return rc == LLADD_END ? 0 : rc;
}

int ll_btree__want_spare(struct lladd_txn *txn, struct ll_btree_tree *t, struct bt_key key,
                         uint32_t level)
{
    const struct place p = {.t = t, .key = key, .level = level};
    bool has = false;
    TRY(ll_btree__take(txn, t, key, level, &has));
    return has ? 0 : want(txn, &p);
}

int ll_btree__want_root_spare(struct lladd_txn *txn, struct ll_btree_tree *t)
{
    const struct place p = {.t = t, .root = true};
    return want(txn, &p);
}
