/* SPDX-License-Identifier: BSD-2-Clause */
/* A transaction's locks in its prepare record.
 *
 *   u8    1 if the transaction is serialisable, else 0
 *   for each hold, in the order of first grants (so ancestors come first):
 *         u8    mode
 *         u32   number of leading bytes that the name shares with the previous hold's name
 *         u32   number of the other bytes
 *         the other bytes; names are encoded (name.c)
 *
 * The record has the locks that the transaction keeps after prepare: all if it is serialisable,
 * else those that protect changes. Prepared transactions hold their locks at the same time, so
 * recovery refuses two records with incompatible locks as damage. Recovery also refuses a name
 * that occurs twice, or without its ancestors. */
#include "operations/lock/table.h"

enum { ENTRY_HEAD = 9 };

static size_t common(const struct ll_lock *a, const struct ll_lock *b)
{
    size_t n = 0;
    while (a && n < a->len && n < b->len && a->name[n] == b->name[n])
        n++;
    return n;
}

int ll_operations__lock_blob(const struct ll_locker *l, struct lladd_sink *sink)
{
    unsigned char head[ENTRY_HEAD] = {l->serialisable};
    TRY(lladd_sink_write(sink, head, 1));
    const struct ll_lock *before = NULL;
    for (const struct ll_lock_hold *h = l->oldest; h; h = h->newer) {
        unsigned mode = l->serialisable ? h->mode : ll_operations__lock_writing[h->mode];
        if (!mode)
            continue;
        size_t shared = common(before, h->lock);
        head[0] = (unsigned char)mode;
        lladd_put32(head + 1, (uint32_t)shared);
        lladd_put32(head + 5, (uint32_t)(h->lock->len - shared));
        TRY(lladd_sink_write(sink, head, sizeof head));
        TRY(lladd_sink_write(sink, h->lock->name + shared, h->lock->len - shared));
        before = h->lock;
    }
    return 0;
}

static int damaged(struct lladd_txn *txn, const char *how)
{
    return lladd_error_set(lladd_txn_error_out(txn), LLADD_BAD_RECORD,
                           "the locks of a transaction in doubt: %s", how);
}

/* Finds the hold on the name without its last component, and computes the hash of the full name. */
static int find_parent(struct ll_locker *l, struct lladd_txn *txn, size_t len, unsigned mode,
                       struct ll_lock_hold **parent, uint64_t *hash)
{
    size_t at = 0;
    *parent = NULL;
    *hash = 0;
    while (at < len) {
        size_t n = ll_operations__lock_part_size(l->name + at, len - at);
        if (!n)
            return damaged(txn, "a name is malformed");
        if (at) {
            *parent = ll_operations__lock_hold_find(l, *hash, l->name, at);
            if (!*parent ||
                !ll_lock_includes((*parent)->mode, ll_operations__lock_intent[mode]))
                return damaged(txn, "a name is locked without its ancestor");
        }
        *hash = ll_operations__lock_hash(l->all, *hash, l->name + at, n);
        at += n;
    }
    return at ? 0 : damaged(txn, "a name is empty");
}

/* Restores one hold; the entry's name is in l->name. */
static int take_entry(struct ll_locker *l, struct lladd_txn *txn, unsigned mode, size_t len)
{
    struct ll_lock_hold *parent, *h = NULL;
    struct ll_lock_request r = {.by = l,
                                .err = lladd_txn_error_out(txn),
                                .name = l->name,
                                .len = len,
                                .want = mode};
    int rc = find_parent(l, txn, len, mode, &parent, &r.hash);
    if (!rc && ll_operations__lock_hold_find(l, r.hash, l->name, len))
        rc = damaged(txn, "a name comes twice");
    if (!rc)
        rc = ll_operations__lock_take(&r, &h);
    if (rc == LLADD_BUSY)
        return damaged(txn, "they conflict with locks of another transaction in doubt");
    if (!rc)
        ll_operations__lock_hold_add(l, h, parent, 0);
    return rc;
}

static int take_entries(struct ll_locker *l, struct lladd_txn *txn, struct lladd_span blob)
{
    const unsigned char *p = blob.data;
    size_t left = blob.len, before = 0;
    while (left) {
        if (left < ENTRY_HEAD)
            return damaged(txn, "cut off");
        unsigned mode = p[0];
        size_t shared = lladd_get32(p + 1), rest = lladd_get32(p + 5), len = shared + rest;
        if (mode == LLADD_LOCK_NONE || mode >= LL_LOCK_MODES || shared > before ||
            rest > left - ENTRY_HEAD || len > LLADD_LOCK_NAME_MAX)
            return damaged(txn, "an entry is invalid");
        int rc = ll_operations__locker_name(l, len);
        if (rc)
            return lladd_error_set(lladd_txn_error_out(txn), rc, "out of memory for locks");
        if (rest)
            memcpy(l->name + shared, p + ENTRY_HEAD, rest);
        TRY(take_entry(l, txn, mode, len));
        before = len;
        p += ENTRY_HEAD + rest;
        left -= ENTRY_HEAD + rest;
    }
    return 0;
}

int ll_operations__lock_unblob(struct ll_locks *all, struct lladd_txn *txn, struct lladd_span blob)
{
    struct ll_locker *l;
    if (lladd_txn_joined(txn, &ll_operations__lock_participant))
        return damaged(txn, "they occur twice");
    if (blob.len == 0)
        return damaged(txn, "cut off");
    const unsigned char *p = blob.data;
    if (p[0] > 1)
        return damaged(txn, "an unknown flag");
    TRY(ll_operations__locker_join(all, txn, &l));
    l->serialisable = p[0] == 1;
    lladd_atomic_store32(&l->state, LL_LOCKER_PREPARED);
    return take_entries(l, txn, lladd_span_of(p + 1, blob.len - 1));
}
