/* SPDX-License-Identifier: BSD-2-Clause */
/* The logical undo of a change of a row. The undo logs at most one record, which has no undo, and
 * does nothing if the change is undone already. So recovery can repeat the undo (OP-5). The undo
 * needs no room and splits nothing. It needs memory only if the tree is not in memory yet, as in an
 * undo after a crash. */
#include "operations/btree/tree.h"

#define FRAME_TRIES 100000

/* Latches the key's leaf, with credit for one record. Tries again if other threads use all
 * frames. */
static int fix_to_undo(struct lladd_txn *txn, struct ll_btree_tree *t, struct bt_key key,
                       lladd_op_id op, struct lladd_page **out)
{
    uint64_t top;
    int rc = LLADD_NO_FRAME;
    for (int i = 0; i < FRAME_TRIES && rc == LLADD_NO_FRAME; i++) {
        if (i)
            lladd_yield();
        rc = ll_btree__top(t, &top, lladd_txn_error_out(txn)); /* may wait (BUF-3) */
        if (rc)
            continue;
        TRY(lladd_log_credit(txn, op, 1));
        rc = ll_btree__fix(t, key, 0, LLADD_LATCH_EXCLUSIVE, out, lladd_txn_error_out(txn));
        if (rc) {
            struct lladd_error why = *lladd_txn_error(txn);
            (void)lladd_log_credit(txn, op, 0); /* fails only if the handle is poisoned */
            *lladd_txn_error_out(txn) = why;
        }
    }
    return rc;
}

static int undo_step(struct lladd_txn *txn, struct ll_btree_tree *t, struct lladd_page *leaf,
                     uint32_t slot, const struct bt_undo *u)
{
    struct bt_entry now = bt_entry_of(leaf->bytes, slot);
    bool ghost = (now.key_len & BT_GHOST) != 0;
    if (LLADD_PLANTED(LLADD_BUG_BT_UNDO) && u->what == BT_UNDO_INSERT &&
        bt_get(leaf->bytes, BT_HIGH) != BT_OPEN_END)
        return 0;
    if (u->what == BT_UNDO_REPLACE) {
        struct bt_restore r = {slot, now};
        r.entry.value = u->value;
        r.entry.value_len = u->value_len;
        r.entry.key = u->key.bytes; /* redo may move the entry that is there */
        r.entry.key_len = (uint16_t)(u->key.len | (u->ghost ? BT_GHOST : 0));
        if (r.entry.cap < BT_LEN(u->value_len))
            r.entry.cap = BT_LEN(u->value_len);
        return lladd_update_page(txn, t->trees->restore, leaf, &r, sizeof r);
    }
    struct bt_mark m = {slot, u->what == BT_UNDO_INSERT};
    return m.ghost == ghost ? 0 : lladd_update_page(txn, t->trees->mark, leaf, &m, sizeof m);
}

int ll_btree__undo(struct lladd_txn *txn, lladd_pageno root, const struct bt_undo *u)
{
    struct ll_btrees *b = ll_btrees_of(lladd_txn_db(txn));
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct ll_btree_tree *t;
    struct lladd_page *leaf;
    struct bt_place place;
    bool sparse = false;
    if (ll_btree__find_tree(b, root, &t))
        return ll_btree__no_memory(err, "a B+tree");
    /* No other transaction can have destroyed the tree. If this one has, the rollback has undone
     * that already. */
    if (lladd_atomic_load32(&t->destroyed))
        lladd_atomic_store32(&t->destroyed, 0);
    TRY(fix_to_undo(txn, t, u->key, u->what == BT_UNDO_REPLACE ? b->restore : b->mark, &leaf));
    ll_btree__find(leaf->bytes, leaf->size, u->key, &place);
    int rc = 0;
    if (place.found)
        rc = undo_step(txn, t, leaf, place.slot, u);
    else if (u->what != BT_UNDO_INSERT) /* an insertion may be undone already */
        rc = ll_btree__corrupt(err, leaf->number, "does not have the entry that undo restores");
    if (u->what == BT_UNDO_INSERT)
        sparse = bt_gets_sparse(bt_get(leaf->bytes, BT_SLOTS), bt_get(leaf->bytes, BT_GHOSTS));
    lladd_pageno page = leaf->number;
    lladd_page_unfix(t->db, leaf, LLADD_LATCH_EXCLUSIVE);
    int rest = lladd_log_credit(txn, b->restore, 0);
    if (sparse && !rc)
        ll_btree__note_sparse(t, page);
    return rc ? rc : rest;
}
