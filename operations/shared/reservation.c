/* SPDX-License-Identifier: BSD-2-Clause */
/* Reservations of what transactions have freed, so that they can roll back.
 *
 * A transaction that frees a page, a slot, a key or a record's bytes may still roll back, and
 * then needs the freed space again (REC-3). Freeing therefore only marks the space as freed, so
 * that undo needs no room. The space may be reused once no transaction reserves it. Reservations
 * are not on the page but in memory, in one table for each kind in a database:
 *
 *   - Before its update is logged, a transaction reserves what it frees (ll_operations__reserve).
 *   - A thread that looks for room on a page holds the page's latch, and skips space that is freed
 *     and reserved. A transaction reserves space before it latches the page and marks the space. So
 *     if a thread sees the mark and no reservation, the reservation has been released.
 *   - A transaction's end releases its reservations. Reservations of records and keys are released
 *     as soon as the commit record has its LSN. A transaction that reuses the space logs at a
 *     higher LSN, so a crash that keeps the reuse also keeps the commit. Reservations of pages are
 *     released when the commit is durable, because a page can be written without logging (alloc.c).
 *     The end of a rollback releases all kinds.
 *
 * After a crash the tables are empty. Losers need no reservations: until all losers are rolled
 * back, no freed space is reused (ll_operations__recovering), even if open has returned before.
 * The prepare record of a transaction in doubt has its reservations.
 *
 * After a rollback to a savepoint or a refused update, the reservations remain. They delay reuse
 * until the transaction ends, and do no other harm.
 *
 * Threads: any number; one thread at a time uses a transaction. */
#include "operations/shared/reservation.h"

#include <lladd/bytes.h>
#include <lladd/extension.h>

#define NODE_BYTES (8u + 8u * LL_RESERVATION_WORDS) /* bytes of a node in a prepare record */

static uint64_t key_of(lladd_pageno page, uint32_t chunk)
{
    return page.v << 16 | chunk;
}

int ll_operations__reservations_init(struct ll_reservations *h, struct lladd_db *db,
                                     const char *name)
{
    h->db = db;
    h->table = (struct ll_index){NULL, 0, 0};
    h->n_nodes = 0;
    return lladd_mutex_init(&h->mutex, LLADD_RANK_LEAF, name);
}

void ll_operations__reservations_free(struct ll_reservations *h)
{
    ll_operations__index_free(h->db, &h->table);
    lladd_mutex_destroy(&h->mutex);
}

void ll_operations__reserve_release(struct ll_reservation_txn *owner)
{
    struct ll_reservations *h = owner->holds;
    if (!owner->nodes)
        return;
    lladd_mutex_lock(&h->mutex);
    struct ll_reservation_node *first = owner->nodes;
    owner->nodes = NULL;
    for (struct ll_reservation_node *node = first; node; node = node->next_owned)
        ll_operations__index_drop(&h->table, &node->node);
    lladd_atomic_store64(&h->n_nodes, h->table.n);
    lladd_mutex_unlock(&h->mutex);
    for (struct ll_reservation_node *node = first, *next; node; node = next) {
        next = node->next_owned;
        lladd_mem_free(h->db, node);
    }
}

static struct ll_reservation_node *first_of(const struct ll_reservations *h, uint64_t key)
{
    return (struct ll_reservation_node *)ll_operations__index_find(&h->table, key);
}

static struct ll_reservation_node *next_of(const struct ll_reservation_node *node)
{
    return (struct ll_reservation_node *)node->node.next;
}

static struct ll_reservation_node *find(struct ll_reservations *h, uint64_t key,
                                        const struct ll_reservation_txn *owner)
{
    struct ll_reservation_node *node = first_of(h, key);
    while (node && (node->node.key != key || node->owner != owner))
        node = next_of(node);
    return node;
}

/* The owner's node for the key, created if necessary; NULL if there is no memory. */
static struct ll_reservation_node *node_for(struct ll_reservation_txn *owner, uint64_t key)
{
    struct ll_reservations *h = owner->holds;
    struct ll_reservation_node *node = find(h, key, owner);
    if (node)
        return node;
    node =
        ll_operations__index_room(h->db, &h->table) ? NULL : lladd_mem_alloc(h->db, sizeof *node);
    if (!node)
        return NULL;
    *node =
        (struct ll_reservation_node){.node.key = key, .owner = owner, .next_owned = owner->nodes};
    owner->nodes = node;
    ll_operations__index_add(&h->table, &node->node);
    lladd_atomic_store64(&h->n_nodes, h->table.n);
    return node;
}

static void set_bits(uint64_t *bits, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to;) {
        if (i % 64 == 0 && to - i >= 64) {
            bits[i / 64] = UINT64_MAX;
            i += 64;
        } else {
            bits[i / 64] |= UINT64_C(1) << i % 64;
            i++;
        }
    }
}

int ll_operations__reserve(struct ll_reservation_txn *owner, lladd_pageno page, uint32_t first,
                           uint32_t n)
{
    struct ll_reservations *h = owner->holds;
    int rc = 0;
    lladd_mutex_lock(&h->mutex);
    for (uint64_t at = first, end = (uint64_t)first + n; at < end && !rc;) {
        uint32_t chunk = (uint32_t)(at / LL_RESERVATION_CHUNK);
        uint64_t base = (uint64_t)chunk * LL_RESERVATION_CHUNK;
        uint64_t stop = end < base + LL_RESERVATION_CHUNK ? end : base + LL_RESERVATION_CHUNK;
        struct ll_reservation_node *node = node_for(owner, key_of(page, chunk));
        if (node)
            set_bits(node->bits, (uint32_t)(at - base), (uint32_t)(stop - base));
        else
            rc = LLADD_NO_MEMORY;
        at = stop;
    }
    lladd_mutex_unlock(&h->mutex);
    return rc;
}

bool ll_operations__reservations_own(struct ll_reservation_txn *owner, lladd_pageno page,
                                     uint32_t index)
{
    struct ll_reservations *h = owner->holds;
    lladd_mutex_lock(&h->mutex);
    const struct ll_reservation_node *node =
        find(h, key_of(page, index / LL_RESERVATION_CHUNK), owner);
    uint32_t i = index % LL_RESERVATION_CHUNK;
    bool own = node && node->bits[i / 64] >> i % 64 & 1;
    lladd_mutex_unlock(&h->mutex);
    return own;
}

uint64_t ll_operations__reserve_count(const struct ll_reservation_txn *owner)
{
    uint64_t n = 0;
    for (const struct ll_reservation_node *node = owner->nodes; node; node = node->next_owned)
        for (size_t i = 0; i < LL_RESERVATION_WORDS; i++)
            n += (uint64_t)__builtin_popcountll(node->bits[i]);
    return n;
}

void ll_operations__held(struct ll_reservations *h, lladd_pageno page, uint32_t chunk,
                         const struct ll_reservation_txn *except,
                         uint64_t out[LL_RESERVATION_WORDS])
{
    for (size_t i = 0; i < LL_RESERVATION_WORDS; i++)
        out[i] = 0;
    if (ll_operations__nothing_held(h))
        return;
    uint64_t key = key_of(page, chunk);
    lladd_mutex_lock(&h->mutex);
    for (const struct ll_reservation_node *node = first_of(h, key); node; node = next_of(node))
        for (size_t i = 0;
             node->node.key == key && node->owner != except && i < LL_RESERVATION_WORDS; i++)
            out[i] |= node->bits[i];
    lladd_mutex_unlock(&h->mutex);
}

int ll_operations__reserve_write(struct ll_reservation_txn *owner, struct lladd_sink *sink)
{
    int rc = 0;
    for (const struct ll_reservation_node *node = owner->nodes; node && !rc;
         node = node->next_owned) {
        unsigned char bytes[NODE_BYTES];
        lladd_put64(bytes, node->node.key);
        for (size_t i = 0; i < LL_RESERVATION_WORDS; i++)
            lladd_put64(bytes + 8 + 8 * i, node->bits[i]);
        rc = lladd_sink_write(sink, bytes, sizeof bytes);
    }
    return rc;
}

int ll_operations__reserve_restore(struct ll_reservation_txn *owner, struct lladd_span blob,
                                   struct lladd_error *err)
{
    struct ll_reservations *h = owner->holds;
    const unsigned char *p = blob.data;
    if (blob.len % NODE_BYTES)
        return lladd_error_set(
            err, LLADD_BAD_RECORD,
            "%s: invalid prepare record: expected a multiple of %u bytes, not %zu", h->mutex.name,
            (unsigned)NODE_BYTES, blob.len);
    int rc = 0;
    lladd_mutex_lock(&h->mutex);
    for (size_t at = 0; at < blob.len && !rc; at += NODE_BYTES) {
        struct ll_reservation_node *node = node_for(owner, lladd_get64(p + at));
        for (size_t i = 0; node && i < LL_RESERVATION_WORDS; i++)
            node->bits[i] |= lladd_get64(p + at + 8 + 8 * i);
        rc = node ? 0 : LLADD_NO_MEMORY;
    }
    lladd_mutex_unlock(&h->mutex);
    return rc ? lladd_error_set(err, rc, "%s: out of memory for a transaction in doubt",
                                h->mutex.name)
              : 0;
}
