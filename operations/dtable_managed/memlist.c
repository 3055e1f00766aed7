/* SPDX-License-Identifier: BSD-2-Clause */
/* Keys in memory, in their order, and how one is found.
 *
 * The keys are a list: a link leads from each to the next one, and nothing ever leaves it. Whoever
 * looks for a key has to come from one that is not far before it. For that there is an index, a
 * tree of blocks of 32 slots. A slot has the first eight bytes of a key, so that mostly the key
 * itself is not looked at, its node, and, above the leaves, the block below whose first key that
 * is. What lies before the second slot of a block above the leaves is below its first one, whatever
 * key that has.
 *
 * A key has no slot if its node is just behind that of the slot before, in memory as in the list:
 * rows that come in order, wherever that is, need one for each few lines of the processor's cache.
 * Only those, for who steps to a node that is somewhere else waits for memory: without a slot for
 * every third key, wherever it is, a put took a tenth longer. Under the table's mutex that is all
 * that is missing. Who reads without it may miss what is just coming as well, and finds it in the
 * list: the index only says where to begin.
 *
 *   LST-1  The slots of a block ascend at any moment. To make room for a key, the others are moved
 *          from the last one on, so that one of them is there twice meanwhile, and none is missing.
 *   LST-2  What a slot has never ascends: moved up is what came before it, and a block that was
 *          split begins to be filled again with what is less. A slot's block is stored before its
 *          node, and that before its prefix; read, it is the other way round. So if the prefix was
 *          before a key, node and block are, too, though all three may have changed.
 *   LST-3  A block is split when somebody comes by who adds a key and finds it full. The new one is
 *          complete, and stands in the block above, before the old one is shortened.
 *   LST-4  Memory is taken before anything can be seen of the key.
 *
 * An ordinary skip list has a link for each level, and a key that has to come from memory for each
 * comparison: two thirds of what it took to write a row. */
#include "operations/dtable_managed/memtable.h"

enum { SLOTS = 32, NEAR = 128 / LL_MEM_UNIT }; /* two lines */

struct block {
    uint32_t n;     /* atomic */
    uint32_t level; /* 0: a leaf */
    uint64_t prefix[SLOTS]; /* atomic, as what follows */
    uint32_t node[SLOTS];
    uint32_t below[]; /* SLOTS, but of a leaf */
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

/* ---- looking --------------------------------------------------------------------------------- */

/* How many slots are before the key or, if that counts, at it; `low` are. */
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
    while (low < high) { /* keys that begin alike */
        uint32_t middle = low + (high - low) / 2;
        uint32_t node = lladd_atomic_load32(&b->node[middle]);
        if (ll_managed__mem_compare(m, node_at(m, node), key) < here)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* A block is several lines of the processor's cache, all of which are wanted at once. */
static struct block *enter(const struct ll_memtable *m, uint32_t offset)
{
    enum { LINE = 64 };
    struct block *b = block_at(m, offset);
    for (size_t i = 0; i < sizeof *b; i += LINE)
        __builtin_prefetch((const char *)b + i);
    return b;
}

/* One that is before the key or, if that may be, at it, or the one before all; without a key,
 * any. */
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

uint32_t ll_managed__list_not_behind(const struct ll_memtable *m, const struct ll_mem_list *l,
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

/* LST-2 */
static void set(struct block *b, uint32_t i, uint64_t prefix, uint32_t node, uint32_t below)
{
    if (b->level)
        lladd_atomic_store32(&b->below[i], below);
    lladd_atomic_store32(&b->node[i], node);
    lladd_atomic_store64(&b->prefix[i], prefix);
}

/* There is room. LST-1 */
static void insert(struct block *b, uint32_t i, uint64_t prefix, uint32_t node, uint32_t below)
{
    for (uint32_t k = b->n; k > i; k--)
        set(b, k, b->prefix[k - 1], b->node[k - 1], b->level ? b->below[k - 1] : 0);
    set(b, i, prefix, node, below);
    lladd_atomic_store32(&b->n, b->n + 1);
}

/* The block below slot i of one that has room is full: its upper half goes to a new one, or, where
 * keys come one behind the other, its last slot. LST-3 */
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

/* A full root gets one above it. */
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
    uint32_t slot;   /* so many of its slots are not behind the key */
    uint32_t behind; /* the node of the slot that comes then, be it in the next leaf; 0: none */
};

/* Where a key belongs: its leaf has room. False: no memory. */
static bool descend(struct ll_memtable *m, struct ll_mem_list *l,
                    const struct lladd_dtable_key *key, uint64_t prefix, struct place *p)
{
    if (!raise(m, l))
        return false;
    struct block *b = enter(m, l->root);
    p->behind = 0; /* so far it is the last one of its level */
    while (b->level) {
        uint32_t i = slots_upto(m, b, 1, key, prefix, true);
        struct block *below = enter(m, b->below[i - 1]);
        uint32_t behind = i < b->n ? b->node[i] : p->behind;
        if (below->n == SLOTS) {
            bool at_end = !behind && slots_upto(m, below, 0, key, prefix, true) == SLOTS;
            if (!split(m, b, i - 1, at_end))
                return false;
            continue; /* it may belong to the new one */
        }
        p->behind = behind;
        b = below;
    }
    p->leaf = b;
    p->slot = slots_upto(m, b, 0, key, prefix, true);
    p->behind = p->slot < b->n ? b->node[p->slot] : p->behind;
    return true;
}

/* The key's node. 0: there is none, and *before is to be the one before it. */
static uint32_t look_around(const struct ll_memtable *m, const struct place *p,
                            const struct lladd_dtable_key *key, uint64_t prefix, uint32_t *before)
{
    /* Mostly a slot's prefix says that it is not the key's. */
    if (p->slot && p->leaf->prefix[p->slot - 1] == prefix &&
        ll_managed__mem_compare(m, node_at(m, *before), key) == 0)
        return *before;
    for (uint32_t i; (i = node_at(m, *before)->next) != p->behind; *before = i) {
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
