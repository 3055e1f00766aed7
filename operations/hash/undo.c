/* SPDX-License-Identifier: BSD-2-Clause */
/* The logical undo of a change of a key. hash.c explains why one record is enough. */
#include "operations/hash/table.h"

#define FRAME_TRIES 100000

/* Latches the bucket's head and finds the key. Tries again if other threads use all frames. */
static int fix_to_undo(struct lladd_txn *txn, struct ll_hash_table *t, struct ll_hash_found *f,
                       const struct hb_key *key, uint64_t hash, lladd_op_id op)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    int rc = LLADD_NO_FRAME;
    f->latch = LLADD_LATCH_EXCLUSIVE;
    for (int i = 0; i < FRAME_TRIES && rc == LLADD_NO_FRAME; i++) {
        if (i)
            lladd_yield();
        rc = ll_hash__fix_to_change(txn, t, hash, op, &f->head);
        if (rc)
            continue;
        rc = ll_hash__find_in_chain(t, f, key, err);
        if (rc && rc != LLADD_END) {
            lladd_page_unfix(t->db, f->head, LLADD_LATCH_EXCLUSIVE);
            (void)lladd_log_credit(txn, op, 0);
        }
    }
    return rc;
}

static int undo_step(struct lladd_txn *txn, struct ll_hash_table *t, const struct ll_hash_found *f,
                     const struct hb_undo *u)
{
    bool ghost = (f->entry.tag & HB_GHOST) != 0;
    if (u->what == HB_UNDO_PUT) {
        struct hb_restore r = {f->slot, f->entry};
        r.entry.key = u->key; /* the present key may refer to another blob */
        r.entry.value = u->value;
        r.entry.value_len = u->value_len;
        r.entry.cap = t->fixed ? f->entry.cap : HB_LEN(u->value_len);
        r.entry.tag = (uint16_t)((f->entry.tag & (HB_GHOST - 1)) | (u->ghost ? HB_GHOST : 0));
        return lladd_update_page(txn, t->hashes->restore, f->page, &r, sizeof r);
    }
    struct hb_mark m = {f->slot, u->what == HB_UNDO_INSERT};
    return m.ghost == ghost ? 0 : lladd_update_page(txn, t->hashes->mark, f->page, &m, sizeof m);
}

/* Reads the table's sizes. Tries again if other threads use all frames. */
static int read_sizes(struct ll_hash_table *t, struct lladd_error *err)
{
    uint64_t n;
    int rc = ll_hash__buckets(t, &n, err);
    for (int i = 0; i < FRAME_TRIES && rc == LLADD_NO_FRAME; i++) {
        lladd_yield();
        rc = ll_hash__buckets(t, &n, err);
    }
    return rc;
}

int ll_hash__undo(struct lladd_txn *txn, lladd_pageno root, const struct hb_undo *u)
{
    struct ll_hashes *h = ll_hashes_of(lladd_txn_db(txn));
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct ll_hash_table *t;
    struct ll_hash_found f;
    int rc = ll_hash__find_table(h, root, &t);
    if (rc)
        return lladd_error_set(err, rc, "out of memory for a hash table");
    /* No other transaction can have destroyed the table. If this one has destroyed it, the rollback
     * has undone that already. */
    if (lladd_atomic_load32(&t->destroyed))
        lladd_atomic_store32(&t->destroyed, 0);
    TRY(read_sizes(t, err));
    uint64_t hash = ll_hash__of(t, u->key, u->key_len);
    struct hb_key key = {.bytes = u->key, .len = u->key_len, .tag = hb_tag(hash)};
    rc = fix_to_undo(txn, t, &f, &key, hash, u->what == HB_UNDO_PUT ? h->restore : h->mark);
    if (rc && rc != LLADD_END)
        return rc;
    if (rc == 0)
        rc = undo_step(txn, t, &f, u);
    else if (u->what == HB_UNDO_INSERT)
        rc = 0; /* the change was undone before a crash, and the ghost has been dropped since */
    else
        rc = ll_hash__corrupt(err, f.head->number, "does not have the entry that undo needs");
    ll_hash__let_go(t, &f);
    int rest = lladd_log_credit(txn, h->restore, 0);
    return rc ? rc : rest;
}
