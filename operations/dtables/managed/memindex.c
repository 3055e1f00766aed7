/* SPDX-License-Identifier: BSD-2-Clause */
/* A sorted list of keys in memory, with an index.
 *
 * Each node is linked to the next; nodes are never removed. A search asks the index for a node
 * shortly before the key, and continues along the list. The index is a tree of blocks of 32 slots.
 * A slot contains
 *
 *   - the prefix: the first eight bytes of a key, so that the key itself is rarely read
 *   - the key's node
 *   - above the leaves, the child block that begins with this key
 *
 * In a block above the leaves, all keys before the second slot belong to the first slot, even keys
 * below the first slot's own.
 *
 * A key needs no slot if its node is close in memory to the node of the slot before it. Rows
 * inserted in order therefore take one slot for a few cache lines. Any other key has a slot,
 * because a step to a distant node is a cache miss. A reader without the mutex may miss a slot that
 * is being added. Such a reader still finds the key through the list, because the index only says
 * where to start.
 *
 *   LST-1  The slots of a block are in ascending order at any moment. To make room for a slot, the
 *          later slots are moved up, beginning with the last. Meanwhile one slot is there twice,
 *          and none is missing.
 *   LST-2  The contents of a slot are replaced only by smaller ones: those of the slot before or,
 *          in a block that was split, those of a smaller key. A slot's child is stored before its
 *          node, and its node before its prefix. Readers load the three in the opposite order. If a
 *          reader has seen a prefix below its key, the node and the child that it loads after the
 *          prefix are below the key too, even if all three have changed meanwhile.
 *   LST-3  A thread that adds a key splits each full block on the way down. The new block is
 *          complete, and is in its parent, before the old block is shortened.
 *   LST-4  All memory for a key is allocated before any part of the key becomes visible.
 *
 * In a plain skip list, which was measured here before, each comparison is a cache miss on a key.
 * These misses took two thirds of the time of a put. */
#include "operations/dtables/managed/memtable.h"

enum { SLOTS = 32, NEAR = 128 / LL_MEM_UNIT }; /* two cache lines */

struct block {
    uint32_t n;             /* atomic */
    uint32_t level;         /* 0: a leaf */
    uint64_t prefix[SLOTS]; /* atomic, as are the members below */
    uint32_t node[SLOTS];
    uint32_t below[]; /* SLOTS children; none in a leaf */
};

static inline struct block *block_at(const struct ll_memtable *m, uint32_t offset)
{
    return ll_managed__mem_at(m, offset);
}

static inline struct ll_mem_node *node_at(const struct ll_memtable *m, uint32_t offset)
{
    return ll_managed__mem_at(m, offset);
}

/* ---- keys ------------------------------------------------------------------------------------ */

int ll_managed__mem_compare(const struct ll_memtable *m, const struct ll_mem_node *n,
                            const struct lladd_dtable_key *key)
{
    if (m->order.type >= LLADD_DTABLE_STRING)
        return lladd_dtable_compare_bytes(&m->order, ll_managed__mem_bytes(n), key->bytes);
    uint64_t number = 0;
    if (m->order.type == LLADD_DTABLE_U32) {
        uint32_t small;
        memcpy(&small, n->key, sizeof small);
        number = small;
    } else {
        memcpy(&number, n->key, sizeof number);
    }
    return number < key->number ? -1 : number > key->number;
}

/* ---- searching ------------------------------------------------------------------------------- */

/* Returns how many slots are before the key (`here`: at or before it). The caller knows that at
 * least `low` are. */
static inline uint32_t slots_upto(const struct ll_memtable *m, const struct block *b, uint32_t low,
                                  const struct lladd_dtable_key *key, uint64_t prefix, bool here)
{
    uint32_t end = lladd_atomic_load32(&b->n), high = end;
    for (uint32_t n = low < high ? high - low : 0; n;) {
        uint32_t half = n / 2;
        bool before = lladd_atomic_load64(&b->prefix[low + half]) < prefix;
        low = before ? low + half + 1 : low;
        n = before ? n - half - 1 : half;
    }
    for (high = low; high < end && lladd_atomic_load64(&b->prefix[high]) == prefix;)
        high++;
    while (low < high) { /* keys with the same prefix */
        uint32_t middle = low + (high - low) / 2;
        uint32_t node = lladd_atomic_load32(&b->node[middle]);
        if (ll_managed__mem_compare(m, node_at(m, node), key) < here)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Prefetches a block: all its cache lines, so that the misses overlap. */
static struct block *enter(const struct ll_memtable *m, uint32_t offset)
{
    enum { LINE = 64 };
    struct block *b = block_at(m, offset);
    for (size_t i = 0; i < sizeof *b; i += LINE)
        __builtin_prefetch((const char *)b + i);
    return b;
}

/* Returns a node before the key (`here`: at or before it), or the list's first node, which is
 * before all keys. Key NULL: returns a node near the end. */
static uint32_t come_near(const struct ll_memtable *m, const struct ll_mem_list *l,
                          const struct lladd_dtable_key *key, bool here)
{
    const struct block *b = enter(m, lladd_atomic_load32(&l->root));
    uint64_t prefix = key ? lladd_dtable_prefix(&m->order, key) : 0;
    for (;;) {
        uint32_t low = b->level > 0;
        uint32_t i = key ? slots_upto(m, b, low, key, prefix, here) : lladd_atomic_load32(&b->n);
        if (b->level == 0)
            return i ? lladd_atomic_load32(&b->node[i - 1]) : l->first;
        b = enter(m, lladd_atomic_load32(&b->below[i - 1]));
    }
}

uint32_t ll_managed__list_not_before(const struct ll_memtable *m, const struct ll_mem_list *l,
                                     const struct lladd_dtable_key *key)
{
    uint32_t at = come_near(m, l, key, true);
    while (at == l->first || (at && ll_managed__mem_compare(m, node_at(m, at), key) < 0))
        at = lladd_atomic_load32(&node_at(m, at)->next);
    return at;
}

uint32_t ll_managed__list_not_after(const struct ll_memtable *m, const struct ll_mem_list *l,
                                    const struct lladd_dtable_key *key, bool here)
{
    uint32_t at = come_near(m, l, key, here);
    for (;;) {
        uint32_t next = lladd_atomic_load32(&node_at(m, at)->next);
        int c = !next ? 1 : key ? ll_managed__mem_compare(m, node_at(m, next), key) : -1;
        if (c > 0 || (c == 0 && !here))
            return at == l->first ? 0 : at;
        at = next;
    }
}

/* ---- adding ---------------------------------------------------------------------------------- */

static uint32_t new_block(struct ll_memtable *m, uint32_t level)
{
    size_t size = sizeof(struct block) + (level ? SLOTS * sizeof(uint32_t) : 0);
    uint32_t offset = ll_managed__mem_take(m, size, true);
    if (!offset)
        return 0;
    memset(block_at(m, offset), 0, size);
    block_at(m, offset)->level = level;
    return offset;
}

int ll_managed__list_begin(struct ll_memtable *m, struct ll_mem_list *l)
{
    uint32_t root = new_block(m, 0);
    uint32_t first = ll_managed__mem_take(m, sizeof(struct ll_mem_node), false);
    if (!first || !root)
        return LLADD_NO_MEMORY;
    *node_at(m, first) = (struct ll_mem_node){.newest = 0};
    lladd_atomic_store32(&l->root, root);
    lladd_atomic_store32(&l->first, first);
    return 0;
}

/* The order of the stores matters: LST-2. */
static void set(struct block *b, uint32_t i, uint64_t prefix, uint32_t node, uint32_t below)
{
    if (b->level)
        lladd_atomic_store32(&b->below[i], below);
    lladd_atomic_store32(&b->node[i], node);
    lladd_atomic_store64(&b->prefix[i], prefix);
}

/* Inserts a slot into a block that has room (LST-1). */
static void insert(struct block *b, uint32_t i, uint64_t prefix, uint32_t node, uint32_t below)
{
    for (uint32_t k = b->n; k > i; k--)
        set(b, k, b->prefix[k - 1], b->node[k - 1], b->level ? b->below[k - 1] : 0);
    set(b, i, prefix, node, below);
    lladd_atomic_store32(&b->n, b->n + 1);
}

/* Splits the full block below slot i of `above` (LST-3). `above` has room for a slot. The upper
 * half of the slots moves to a new block. With `at_end`, only the last slot moves: at the end of
 * the list, keys are probably added in ascending order. */
static bool split(struct ll_memtable *m, struct block *above, uint32_t i, bool at_end)
{
    struct block *b = block_at(m, above->below[i]);
    uint32_t offset = new_block(m, b->level), from = at_end ? SLOTS - 1 : SLOTS / 2;
    if (!offset)
        return false;
    struct block *right = block_at(m, offset);
    for (uint32_t k = from; k < SLOTS; k++)
        set(right, k - from, b->prefix[k], b->node[k], b->level ? b->below[k] : 0);
    right->n = SLOTS - from;
    insert(above, i + 1, b->prefix[from], b->node[from], offset);
    lladd_atomic_store32(&b->n, from);
    return true;
}

/* Puts a new root above a root that is full. */
static bool raise(struct ll_memtable *m, struct ll_mem_list *l)
{
    const struct block *b = block_at(m, l->root);
    if (b->n < SLOTS)
        return true;
    uint32_t offset = new_block(m, b->level + 1);
    if (!offset)
        return false;
    insert(block_at(m, offset), 0, b->prefix[0], b->node[0], l->root);
    lladd_atomic_store32(&l->root, offset);
    return true;
}

struct place {
    struct block *leaf;
    uint32_t slot;  /* how many of the leaf's slots are at or before the key */
    uint32_t after; /* the node of the next slot, which may be in the next leaf; 0: none */
};

/* Finds the place for a key, in a leaf that has room. Splits full blocks on the way. False: no
 * memory. */
static bool descend(struct ll_memtable *m, struct ll_mem_list *l,
                    const struct lladd_dtable_key *key, uint64_t prefix, struct place *p)
{
    if (!raise(m, l))
        return false;
    struct block *b = enter(m, l->root);
    p->after = 0; /* no slot after the key is known yet */
    while (b->level) {
        uint32_t i = slots_upto(m, b, 1, key, prefix, true);
        struct block *below = enter(m, b->below[i - 1]);
        uint32_t after = i < b->n ? b->node[i] : p->after;
        if (below->n == SLOTS) {
            bool at_end = !after && slots_upto(m, below, 0, key, prefix, true) == SLOTS;
            if (!split(m, b, i - 1, at_end))
                return false;
            continue; /* the key may belong to the new block */
        }
        p->after = after;
        b = below;
    }
    p->leaf = b;
    p->slot = slots_upto(m, b, 0, key, prefix, true);
    p->after = p->slot < b->n ? b->node[p->slot] : p->after;
    return true;
}

/* Searches the list from *before on. Returns the key's node, or 0 if the list does not have the
 * key; *before is then the node after which the key belongs. */
static uint32_t look_around(const struct ll_memtable *m, const struct place *p,
                            const struct lladd_dtable_key *key, uint64_t prefix, uint32_t *before)
{
    /* Usually the slot's prefix already differs. */
    if (p->slot && p->leaf->prefix[p->slot - 1] == prefix &&
        ll_managed__mem_compare(m, node_at(m, *before), key) == 0)
        return *before;
    for (uint32_t i; (i = node_at(m, *before)->next) != p->after; *before = i) {
        int c = ll_managed__mem_compare(m, node_at(m, i), key);
        if (c >= 0)
            return c ? 0 : i;
    }
    return 0;
}

uint32_t ll_managed__list_node(struct ll_memtable *m, struct ll_mem_list *l,
                               const struct lladd_dtable_key *key, bool inherits)
{
    struct place p;
    uint64_t prefix = lladd_dtable_prefix(&m->order, key);
    if (!descend(m, l, key, prefix, &p))
        return 0;
    uint32_t from = p.slot ? p.leaf->node[p.slot - 1] : l->first, at = from;
    uint32_t found = look_around(m, &p, key, prefix, &at);
    if (found)
        return found;
    uint32_t offset = ll_managed__mem_new_node(m, l, key);
    if (!offset)
        return 0;
    struct ll_mem_node *node = node_at(m, offset), *before = node_at(m, at);
    node->newest = inherits ? before->newest : 0;
    node->next = before->next;
    lladd_atomic_store32(&before->next, offset);
    if (offset - from >= NEAR)
        insert(p.leaf, p.slot, prefix, offset, 0);
    return offset;
}
