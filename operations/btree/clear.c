/* SPDX-License-Identifier: BSD-2-Clause */
/* Clearing drops ghosts (node.c) and unused room that no open transaction may need (BPT-3). A
 * transaction reserves a key before it latches the key's leaf. So if a thread holds the leaf's
 * latch and the key of a ghost has no reservation, the change that left the ghost is final: its
 * transaction has committed, or has undone the change. */
#include "operations/btree/tree.h"

struct clearing {
    uint16_t *slots;
    uint32_t n, gain;
};

static void plan(const struct ll_btree_tree *t, struct lladd_view v, struct clearing *c)
{
    c->n = c->gain = 0;
    for (uint32_t i = bt_get(v.bytes, BT_SLOTS); i-- > 0;) {
        struct bt_entry e = bt_entry_of(v.bytes, i);
        bool ghost = (e.key_len & BT_GHOST) != 0;
        uint32_t unused = e.cap - BT_LEN(e.value_len);
        if ((!ghost && unused < BT_ENTRY_HEAD) || ll_btree__held(t, bt_entry_key(&e)))
            continue;
        c->slots[c->n++] = (uint16_t)(i | (ghost ? 0 : BT_TRIM));
        c->gain += ghost ? BT_SLOT + bt_entry_size(BT_LEN(e.key_len), e.cap) : unused;
    }
}

static int clear_held(struct lladd_txn *txn, struct ll_btree_tree *t, struct lladd_page *leaf,
                      uint32_t need, struct clearing *c, bool *enough)
{
    uint32_t room = ll_btree__room(leaf->bytes, leaf->size);
    *enough = room >= need;
    if (*enough)
        return 0;
    plan(t, lladd_page_view(leaf), c);
    if (c->n == 0)
        return 0;
    struct bt_clear args = {c->slots, c->n};
    *enough = room + c->gain >= need;
    return lladd_update_page(txn, t->trees->clear, leaf, &args, sizeof args);
}

int ll_btree__make_clear(struct lladd_txn *txn, struct ll_btree_tree *t, struct bt_key key,
                         uint32_t need, bool *enough)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    uint32_t most = lladd_page_size(t->db) / (BT_SLOT + BT_ENTRY_HEAD);
    struct clearing c = {.slots = lladd_mem_alloc(t->db, most * sizeof *c.slots)};
    struct lladd_page *leaf;
    if (!c.slots)
        return ll_btree__no_memory(err, "a clearing");
    const struct lladd_log_need needs[] = {{t->trees->clear, 1}, {LLADD_PAGE_IMAGE, 1}};
    int rc = lladd_log_credit_all(txn, needs, 2);
    if (!rc)
        rc = ll_btree__fix(t, key, 0, LLADD_LATCH_EXCLUSIVE, &leaf, err);
    if (!rc) {
        rc = clear_held(txn, t, leaf, need, &c, enough);
        lladd_page_unfix(t->db, leaf, LLADD_LATCH_EXCLUSIVE);
    }
    lladd_mem_free(t->db, c.slots);
    return ll_btree__put_down(txn, t, rc);
}
