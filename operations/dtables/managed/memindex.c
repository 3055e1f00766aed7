/* SPDX-License-Identifier: BSD-2-Clause */
/* A sorted list of keys in memory, with an index.
 *
 * Each node is linked to the next; nodes are never removed. A search asks the index for a node
 * shortly before the key, and continues along the list. The index is a tree of blocks of 32 slots.
 * A slot contains
 *
 *   - the prefix: eight bytes of a key, so that the key itself is rarely read
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
 * Keys often begin alike, and then their first eight bytes are equal. So the prefixes of a block
 * begin after the bytes that all its keys have in common (`skip`). A block has a lower bound, which
 * is the key of its slot in the parent, and an upper bound, which is the key of the parent's next
 * slot. All keys that are ever added to the block are between its bounds. So they begin with the
 * bytes that the two bounds have in common. The first and the last block of a level have only one
 * bound, and the root has none. These blocks skip the bytes that all keys of the list have in
 * common.
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
 *   LST-5  The `skip` of a block never changes. It stays correct, because bounds only move closer
 *          together. If a split lets the lower half skip more bytes, both halves become new blocks,
 *          and the parent gets the upper half first. The block that was split is not changed any
 *          more.
 *   LST-6  When a reader enters a block, its key is not below the block's lower bound (LST-2). If
 *          slots of the parent have moved meanwhile, the key may be above the upper bound. Then the
 *          key's prefix says nothing, but all keys of the block are below the key, and the search
 *          may start at each of them.
 *   LST-7  The first root is a leaf and skips nothing. Each later root skips as many bytes as the
 *          one before it, and the first and the last block of a level skip no more than the root.
 *          This changes if a key is to be added that does not begin with the bytes that the root
 *          skips. Before that, all these blocks are copied. The copies skip fewer bytes. The root
 *          is stored last, and makes the copies visible. The old blocks are not changed any more;
 *          in the blocks that both trees have, keys are added only between old keys. So all keys
 *          in a root's tree begin with the bytes that the root skips. A reader first compares its
 *          key with these bytes. If the key begins with smaller bytes, the search starts at the
 *          first node of the list. If it begins with greater bytes, the search starts at the last
 *          slot of the tree. The second root skips what the keys that are there have in common, and
 *          a key that is being added may lack it. So a full root gets another one above it before
 *          the new key is compared.
 *
 * In a plain skip list, which was measured here before, each comparison is a cache miss on a key.
 * These misses took two thirds of the time of a put. */
#include "operations/dtables/managed/memtable.h"

enum { SLOTS = 32, NEAR = 128 / LL_MEM_UNIT }; /* two cache lines */

struct block {
    uint32_t n;             /* atomic */
    uint16_t level;         /* 0: a leaf */
    uint16_t skip;          /* a prefix begins after this many bytes of the key (LST-5) */
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

/* Returns the prefix of a key in a block that skips `skip` bytes. A reader's key may be shorter
 * (LST-6). */
static inline uint64_t prefix_of(const struct ll_memtable *m, const struct lladd_dtable_key *key,
                                 uint32_t skip)
{
    struct lladd_dtable_key rest = *key;
    if (skip) {
        if (key->bytes.len <= skip)
            return 0;
        rest.bytes.data = (const unsigned char *)key->bytes.data + skip;
        rest.bytes.len -= skip;
    }
    return lladd_dtable_prefix(&m->order, &rest);
}

/* Returns the prefix of slot i in a block that skips `skip` bytes. */
static uint64_t prefix_at(const struct ll_memtable *m, const struct block *b, uint32_t i,
                          uint32_t skip)
{
    if (skip == b->skip)
        return b->prefix[i];
    struct lladd_dtable_key key = ll_managed__mem_key(m, b->node[i]);
    return prefix_of(m, &key, skip);
}

/* Returns how many bytes the beginnings of two keys have in common. With a comparator, and for
 * numbers, returns 0. */
static uint32_t shared(const struct ll_memtable *m, const struct lladd_dtable_key *a,
                       const struct lladd_dtable_key *b)
{
    const unsigned char *x = a->bytes.data, *y = b->bytes.data;
    uint32_t n = 0;
    if (m->order.type < LLADD_DTABLE_STRING || m->order.comparator)
        return 0;
    while (n < a->bytes.len && n < b->bytes.len && x[n] == y[n])
        n++;
    return n;
}

static uint32_t shared_by(const struct ll_memtable *m, uint32_t node, uint32_t other)
{
    struct lladd_dtable_key a = ll_managed__mem_key(m, node), b = ll_managed__mem_key(m, other);
    return shared(m, &a, &b);
}

/* Compares a key's beginning with the bytes that the root skips. Returns a negative number, 0 or a
 * positive number. */
static int beside(const struct ll_memtable *m, const struct block *root,
                  const struct lladd_dtable_key *key)
{
    uint32_t skip = root->skip;
    if (!skip)
        return 0;
    uint32_t any = lladd_atomic_load32(&root->node[0]);
    size_t n = key->bytes.len < skip ? key->bytes.len : skip;
    int c = n ? memcmp(key->bytes.data, ll_managed__mem_bytes(node_at(m, any)).data, n) : 0;
    return c ? c : n < skip ? -1 : 0;
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
    int side = key ? beside(m, b, key) : 1;
    if (side < 0)
        return l->first;
    if (side > 0)
        key = NULL;
    uint32_t skip = b->skip;
    uint64_t prefix = key ? prefix_of(m, key, skip) : 0;
    for (;;) {
        uint32_t low = b->level > 0;
        if (key && b->skip != skip)
            prefix = prefix_of(m, key, skip = b->skip);
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

static uint32_t new_block(struct ll_memtable *m, uint32_t level, uint32_t skip)
{
    size_t size = sizeof(struct block) + (level ? SLOTS * sizeof(uint32_t) : 0);
    uint32_t offset = ll_managed__mem_take(m, size, true);
    if (!offset)
        return 0;
    memset(block_at(m, offset), 0, size);
    block_at(m, offset)->level = (uint16_t)level;
    block_at(m, offset)->skip = (uint16_t)skip;
    return offset;
}

int ll_managed__list_begin(struct ll_memtable *m, struct ll_mem_list *l)
{
    uint32_t root = new_block(m, 0, 0);
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

/* Inserts a slot into a block that has room (LST-1). All children are moved up before the first
 * node (LST-2). */
static void insert(struct block *b, uint32_t i, uint64_t prefix, uint32_t node, uint32_t below)
{
    for (uint32_t k = b->n; b->level && k > i; k--)
        lladd_atomic_store32(&b->below[k], b->below[k - 1]);
    for (uint32_t k = b->n; k > i; k--) {
        lladd_atomic_store32(&b->node[k], b->node[k - 1]);
        lladd_atomic_store64(&b->prefix[k], b->prefix[k - 1]);
    }
    set(b, i, prefix, node, below);
    lladd_atomic_store32(&b->n, b->n + 1);
}

/* Makes a block of slots [from, to) of another one. 0: no memory. */
static uint32_t copy(struct ll_memtable *m, const struct block *b, uint32_t from, uint32_t to,
                     uint32_t skip)
{
    uint32_t offset = new_block(m, b->level, skip);
    if (!offset)
        return 0;
    struct block *c = block_at(m, offset);
    for (uint32_t k = from; k < to; k++)
        set(c, k - from, prefix_at(m, b, k, skip), b->node[k], b->level ? b->below[k] : 0);
    c->n = to - from;
    return offset;
}

/* The nodes of a block's lower and upper bound. 0: it has none. */
struct bounds {
    uint32_t low, high;
};

/* Returns how many bytes a block with these bounds may skip (LST-5, LST-7). */
static uint32_t may_skip(const struct ll_memtable *m, const struct ll_mem_list *l, struct bounds at)
{
    return at.low && at.high ? shared_by(m, at.low, at.high) : block_at(m, l->root)->skip;
}

/* Are there keys in the block that have to be compared in memory? */
static bool is_crowded(const struct block *b)
{
    for (uint32_t i = 1; i < SLOTS; i++)
        if (b->prefix[i] == b->prefix[i - 1])
            return true;
    return false;
}

/* Splits the full block below slot i of `above` (LST-3). `above` has room for a slot. The upper
 * half of the slots moves to a new block. With `at_end`, only the last slot moves: at the end of
 * the list, keys are probably added in ascending order. */
static bool split(struct ll_memtable *m, const struct ll_mem_list *l, struct block *above,
                  uint32_t i, struct bounds at, bool at_end)
{
    struct block *b = block_at(m, above->below[i]);
    uint32_t from = at_end ? SLOTS - 1 : SLOTS / 2, middle = b->node[from];
    uint32_t skip[2] = {b->skip, b->skip}, left = 0;
    if (is_crowded(b)) {
        skip[0] = may_skip(m, l, (struct bounds){at.low, middle});
        skip[1] = may_skip(m, l, (struct bounds){middle, at.high});
    }
    uint32_t right = copy(m, b, from, SLOTS, skip[1]);
    if (right && skip[0] != b->skip)
        left = copy(m, b, 0, from, skip[0]);
    if (!right || (skip[0] != b->skip && !left))
        return false;
    insert(above, i + 1, prefix_at(m, b, from, above->skip), middle, right);
    if (left)
        lladd_atomic_store32(&above->below[i], left); /* LST-5 */
    else
        lladd_atomic_store32(&b->n, from);
    return true;
}

/* Puts a new root above a root that is full. */
static bool raise(struct ll_memtable *m, struct ll_mem_list *l)
{
    const struct block *b = block_at(m, l->root);
    if (b->n < SLOTS)
        return true;
    uint32_t skip = b->skip;
    if (b->level == 0) /* the first time; from then on, roots skip the same bytes (LST-7) */
        skip = shared_by(m, node_at(m, l->first)->next,
                         ll_managed__list_not_after(m, l, NULL, true));
    uint32_t offset = new_block(m, b->level + 1u, skip);
    if (!offset)
        return false;
    insert(block_at(m, offset), 0, prefix_at(m, b, 0, skip), b->node[0], l->root);
    lladd_atomic_store32(&l->root, offset);
    return true;
}

/* Copies a block and, below it, the first block of each level (`first`) and the last one (`last`).
 * 0: no memory. */
static uint32_t copy_ends(struct ll_memtable *m, uint32_t offset, bool first, bool last,
                          uint32_t skip)
{
    const struct block *b = block_at(m, offset);
    uint32_t n = b->n, to = copy(m, b, 0, n, skip);
    for (uint32_t i = 0; to && b->level && i < n; i++) {
        bool is_first = first && i == 0, is_last = last && i == n - 1;
        uint32_t below = b->below[i];
        if (is_first || is_last)
            below = copy_ends(m, below, is_first, is_last, skip);
        if (!below)
            return 0;
        block_at(m, to)->below[i] = below;
    }
    return to;
}

/* Called before a key is added, which may not begin with the bytes that the root skips (LST-7).
 * False: no memory. */
static bool make_way(struct ll_memtable *m, struct ll_mem_list *l,
                     const struct lladd_dtable_key *key)
{
    const struct block *b = block_at(m, l->root);
    if (beside(m, b, key) == 0)
        return true;
    struct lladd_dtable_key any = ll_managed__mem_key(m, b->node[0]);
    uint32_t root = copy_ends(m, l->root, true, true, shared(m, key, &any));
    if (root)
        lladd_atomic_store32(&l->root, root);
    return root != 0;
}

struct place {
    struct block *leaf;
    uint32_t slot;  /* how many of the leaf's slots are at or before the key */
    uint32_t after; /* the node of the next slot, which may be in the next leaf; 0: none */
    uint64_t prefix; /* of the key, in the leaf */
};

/* Finds the place for a key, in a leaf that has room. Splits full blocks on the way. False: no
 * memory. */
static bool descend(struct ll_memtable *m, struct ll_mem_list *l,
                    const struct lladd_dtable_key *key, struct place *p)
{
    if (!raise(m, l) || !make_way(m, l, key)) /* in this order: LST-7 */
        return false;
    struct block *b = enter(m, l->root);
    struct bounds at = {0, 0};
    uint32_t skip = b->skip;
    p->prefix = prefix_of(m, key, skip);
    for (;;) {
        if (b->skip != skip)
            p->prefix = prefix_of(m, key, skip = b->skip);
        if (b->level == 0)
            break;
        uint32_t i = slots_upto(m, b, 1, key, p->prefix, true);
        struct block *below = enter(m, b->below[i - 1]);
        struct bounds next = {i > 1 ? b->node[i - 1] : at.low, i < b->n ? b->node[i] : at.high};
        if (below->n == SLOTS) {
            uint64_t prefix = prefix_of(m, key, below->skip);
            bool at_end = !next.high && slots_upto(m, below, 0, key, prefix, true) == SLOTS;
            if (!split(m, l, b, i - 1, next, at_end))
                return false;
            continue; /* the key may belong to the new block */
        }
        at = next;
        b = below;
    }
    p->leaf = b;
    p->slot = slots_upto(m, b, 0, key, p->prefix, true);
    p->after = p->slot < b->n ? b->node[p->slot] : at.high;
    return true;
}

/* Searches the list from *before on. Returns the key's node, or 0 if the list does not have the
 * key; *before is then the node after which the key belongs. */
static uint32_t look_around(const struct ll_memtable *m, const struct place *p,
                            const struct lladd_dtable_key *key, uint32_t *before)
{
    /* Usually the slot's prefix already differs. */
    if (p->slot && p->leaf->prefix[p->slot - 1] == p->prefix &&
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
    if (!descend(m, l, key, &p))
        return 0;
    uint32_t from = p.slot ? p.leaf->node[p.slot - 1] : l->first, at = from;
    uint32_t found = look_around(m, &p, key, &at);
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
        insert(p.leaf, p.slot, p.prefix, offset, 0);
    return offset;
}
