/* SPDX-License-Identifier: BSD-2-Clause */
/* Searching a node: binary search over the heads of the keys; keys are compared as a whole only if
 * their heads are equal.
 *
 * The search works under a latch and in an optimistic read (lladd/optimistic.h). In an optimistic
 * read the bytes may be anything, so every offset is checked before it is used; the caller uses
 * the result only after lladd_read_validate. */
#include "operations/btree/tree.h"

struct any64 {
    uint64_t v;
} __attribute__((packed, may_alias));
struct any32 {
    uint32_t v;
} __attribute__((packed, may_alias));

/* Reads bytes at any address, although another thread may be writing them with plain stores;
 * lladd_atomic_copy64 reads words so. After the last read the caller calls
 * lladd_atomic_reads_end. */
LLADD_UNSEEN_ uint64_t peek64(const unsigned char *p)
{
    return LLADD_LE64(((const volatile struct any64 *)(const void *)p)->v);
}
LLADD_UNSEEN_ uint32_t peek32(const unsigned char *p)
{
    return LLADD_LE32(((const volatile struct any32 *)(const void *)p)->v);
}

/* Eight bytes from any offset on; bytes after the page are 0. */
static inline uint64_t load(const unsigned char *page, uint32_t size, uint32_t at)
{
    if (__builtin_expect(at + 8 <= size, 1)) /* offsets have 17 bits at most */
        return peek64(page + at);
    return at < size ? peek64(page + size - 8) >> 8 * (at + 8 - size) : 0;
}

/* Eight bytes of the key from byte i on, as a big-endian number; zeros after the key's end. */
static inline uint64_t key_word(struct bt_key key, uint32_t i)
{
    if (i + 8 <= key.len)
        return __builtin_bswap64(lladd_get64(key.bytes + i));
    if (key.len >= 8)
        return __builtin_bswap64(lladd_get64(key.bytes + key.len - 8)) << 8 * (i + 8 - key.len);
    return key.len ? __builtin_bswap64(lladd_get_few(key.bytes + i, key.len - i)) : 0;
}

/* The first eight of n bytes of the page, as key_word. */
static inline uint64_t page_word(const unsigned char *page, uint32_t size, uint32_t at, uint32_t n)
{
    uint64_t w = __builtin_bswap64(load(page, size, at));
    return n >= 8 ? w : n ? w & ~(UINT64_MAX >> 8 * n) : 0;
}

/* Compares n bytes of the page with the key, of which `word` is key_word(key, 0). Words that are
 * filled up with zeros have the order of their keys' bytes. Only keys that differ in nothing but
 * zeros at their end have equal words; such keys are ordered by their lengths. */
static inline int compare_with(const unsigned char *page, uint32_t size, uint32_t at, uint32_t n,
                               struct bt_key key, uint64_t word)
{
    uint64_t first = page_word(page, size, at, n);
    for (uint32_t i = 8; first == word && i < n && i < key.len; i += 8) {
        first = page_word(page, size, at + i, n - i);
        word = key_word(key, i);
    }
    return first != word ? (first < word ? -1 : 1) : (n > key.len) - (n < key.len);
}

static inline int compare(const unsigned char *page, uint32_t size, uint32_t at, uint32_t n,
                          struct bt_key key)
{
    return compare_with(page, size, at, n, key, key_word(key, 0));
}

/* A node's header. */
struct head {
    uint32_t slots, prefix, low, high;
    bool inner;
};

static inline int compare_low(const unsigned char *page, uint32_t size, const struct head *h,
                              struct bt_key key)
{
    return compare(page, size, size - h->low, h->low, key);
}

static inline int compare_high(const unsigned char *page, uint32_t size, const struct head *h,
                               struct bt_key key)
{
    return h->high == BT_OPEN_END ? 1 : compare(page, size, size - h->low - h->high, h->high, key);
}

/* The slot area is in the page: the caller has checked its length. */
static inline uint32_t slot_head(const unsigned char *page, uint32_t slot)
{
    return peek32(bt_slot_at(page, slot));
}

static inline uint32_t slot_offset(const unsigned char *page, uint32_t slot)
{
    return peek32(bt_slot_at(page, slot) + 2) >> 16;
}

/* Compares the key of the slot's entry from its first byte on, because the search key need not have
 * the bytes that the node's keys have in common. */
static inline int compare_entry(const unsigned char *page, uint32_t size, uint32_t slot,
                                struct bt_key key, uint64_t word)
{
    uint32_t offset = slot_offset(page, slot), len = (uint32_t)load(page, size, offset) & 0x7fff;
    return compare_with(page, size, offset + BT_ENTRY_HEAD, len, key, word);
}

/* The first of the n slots from `lo` on with a head that is not less than `head`, or lo + n. n > 0.
 * No branch depends on the heads, because the processor could not predict it. */
static inline uint32_t lower_head(const unsigned char *page, uint32_t lo, uint32_t n, uint32_t head)
{
    for (uint32_t half; n > 1; n -= half) {
        half = n / 2;
        lo += half & (0u - (slot_head(page, lo + half - 1) < head));
    }
    return lo + (slot_head(page, lo) < head);
}

/* Finds the key among the slots with heads that are not less than the head of the key. */
static inline void find_whole(const unsigned char *page, uint32_t size, const struct head *h,
                              struct bt_key key, uint64_t word, uint32_t head, uint32_t lo,
                              struct bt_place *out)
{
    for (uint32_t hi = h->slots, mid = lo; lo < hi; mid = (lo + hi) / 2) {
        int c = slot_head(page, mid) > head;
        if (c == 0)
            c = compare_entry(page, size, mid, key, word);
        if (c == 0) {
            *out = (struct bt_place){mid, true};
            return;
        }
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    *out = (struct bt_place){lo, false};
}

static inline void find(const unsigned char *page, uint32_t size, const struct head *h,
                        struct bt_key key, struct bt_place *out)
{
    uint32_t lo = h->inner ? 1 : 0, head = bt_head(key, h->prefix);
    uint64_t word = key_word(key, 0);
    *out = (struct bt_place){h->slots, false};
    if (h->slots <= lo)
        return;
    /* Rows are often added at the end of a level. */
    if (h->high == BT_OPEN_END) {
        uint32_t last = slot_head(page, h->slots - 1);
        if (last < head || (last == head && compare_entry(page, size, h->slots - 1, key, word) < 0))
            return;
    }
    lo = lower_head(page, lo, h->slots - lo, head);
    find_whole(page, size, h, key, word, head, lo, out);
}

static struct head head_of(const unsigned char *page)
{
    return (struct head){bt_get(page, BT_SLOTS), bt_get(page, BT_PREFIX), bt_get(page, BT_LOW),
                         bt_get(page, BT_HIGH), page[BT_LEVEL] > 0};
}

void ll_btree__find(const unsigned char *page, uint32_t size, struct bt_key key,
                    struct bt_place *out)
{
    struct head h = head_of(page);
    find(page, size, &h, key, out);
}

uint32_t ll_btree__child_slot(const unsigned char *page, uint32_t size, struct bt_key key)
{
    struct bt_place p;
    ll_btree__find(page, size, key, &p);
    return p.found || p.slot == 0 ? p.slot : p.slot - 1;
}

/* Does the key have the node's common prefix? -1: it is less than all keys that have it. */
static inline int prefix_order(const unsigned char *page, uint32_t size, const struct head *h,
                               struct bt_key key)
{
    uint32_t n = h->prefix < h->low ? h->prefix : h->low;
    struct bt_key begin = {key.bytes, key.len < n ? key.len : n};
    int c = compare(page, size, size - h->low, n, begin);
    return c > 0 ? -1 : c < 0;
}

/* Does the node cover the key? The node does not have the key, which belongs in front of this
 * slot. */
static inline enum bt_step place_of(const unsigned char *page, uint32_t size, const struct head *h,
                                    struct bt_key key, uint32_t slot)
{
    int order = h->prefix ? prefix_order(page, size, h, key) : 0;
    if (order)
        return order < 0 ? BT_AGAIN : BT_GO_RIGHT;
    /* A key between two keys of the node is between its fences. */
    if (slot >= h->slots && compare_high(page, size, h, key) <= 0)
        return BT_GO_RIGHT;
    return slot <= h->inner && compare_low(page, size, h, key) > 0 ? BT_AGAIN : BT_HERE;
}

static inline enum bt_step look(const struct ll_btree_tree *t, const unsigned char *page,
                                uint32_t size, struct bt_key key, uint32_t level,
                                struct bt_seen *out)
{
    uint64_t w0 = peek64(page), w4 = peek64(page + BT_ROOT);
    uint64_t w5 = peek64(page + BT_RIGHT), w6 = peek64(page + BT_GHOSTS);
    struct head h = {(uint32_t)(w5 >> 48), (uint32_t)(w6 >> 16) & 0xffff, (uint32_t)(w6 >> 48),
                     (uint32_t)peek64(page + BT_HIGH) & 0xffff, level > 0};
    bool ours = (uint16_t)(w0 >> 32) == t->type && (w4 & ((UINT64_C(1) << 48) - 1)) == t->root.v &&
                w4 >> 48 == level; /* the flags are 0 */
    if (!ours || BT_SLOT_AREA + BT_SLOT * h.slots > size || h.low > BT_KEY_MAX ||
        (h.high > BT_KEY_MAX && h.high != BT_OPEN_END) || (h.inner && h.slots == 0))
        return BT_AGAIN;
    out->right = lladd_page_of(w5 & ((UINT64_C(1) << 48) - 1));
    find(page, size, &h, key, &out->place);
    uint32_t slot = out->place.slot;
    if (!out->place.found) {
        enum bt_step step = place_of(page, size, &h, key, slot);
        if (step != BT_HERE || level == 0)
            return step;
        slot--;
    }
    uint32_t offset = slot_offset(page, slot);
    uint64_t lengths = load(page, size, offset);
    out->key_len = (uint16_t)lengths;
    out->value_len = (uint16_t)(lengths >> 16);
    out->value_at = offset + BT_ENTRY_HEAD + BT_LEN(out->key_len);
    if (h.inner)
        out->child = lladd_page_of(load(page, size, out->value_at) & ((UINT64_C(1) << 48) - 1));
    return BT_HERE;
}

enum bt_step ll_btree__look(const struct ll_btree_tree *t, const unsigned char *page, uint32_t size,
                            struct bt_key key, uint32_t level, struct bt_seen *out)
{
    enum bt_step step = look(t, page, size, key, level, out);
    lladd_atomic_reads_end();
    return step;
}

const unsigned char *ll_btree__copy(const unsigned char *page, uint32_t size, uint32_t at,
                                    uint32_t n, uint64_t *words)
{
    uint32_t first = at & ~7u, count = (at - first + n + 7) / 8;
    if (__builtin_expect(first + 8 * count > size, 0))
        return NULL;
    if (n <= 8) { /* a load across two words that were just stored would wait for the stores */
        lladd_put64(words, load(page, size, at));
        lladd_atomic_reads_end();
        return (const unsigned char *)words;
    }
    lladd_atomic_copy64((const uint64_t *)(const void *)(page + first), words, count);
    return (const unsigned char *)words + (at - first);
}
