/* SPDX-License-Identifier: BSD-2-Clause */
/* Bucket pages whose keys and values all have one length: slots in a row, each
 *
 *   u16 tag (0: empty), key, value
 *
 * An entry lies in the slot that its tag's 15 bits of the hash point at, or in the first one behind
 * it (around the end) that was free when it came; no slot between its home and it is ever empty. So
 * a search ends at the first empty slot, after one or two cache lines. An entry that is removed
 * leaves a ghost, which keeps the way open; ghosts that nobody wants back are taken by new entries,
 * or dropped, and then what lies behind them moves up (drop). All of this follows from the page
 * alone, since the tags say where home is: redo needs no hash function. */
#include "operations/hash/page.h"

#include <string.h>

static uint32_t slot_size(const unsigned char *page)
{
    return 2 + hb_get(page, HB_KEY) + hb_get(page, HB_VALUE);
}

uint32_t ll_hash__fixed_slots(uint32_t page_size, uint32_t key_size, uint32_t value_size)
{
    uint32_t n = (page_size - HB_ENTRIES) / (2 + key_size + value_size);
    return n < UINT16_MAX ? n : UINT16_MAX - 1;
}

bool ll_hash__fixed_head_fine(struct lladd_view v)
{
    uint32_t slots = hb_get(v.bytes, HB_SLOTS);
    return slots && HB_ENTRIES + slots * slot_size(v.bytes) <= v.size;
}

bool ll_hash__fixed_fine(struct lladd_view v)
{
    uint32_t slots = hb_get(v.bytes, HB_SLOTS), size = slot_size(v.bytes), live = 0, ghosts = 0;
    for (uint32_t i = 0; i < slots; i++) {
        uint16_t tag = lladd_get16(v.bytes + HB_ENTRIES + (size_t)i * size);
        if (tag == HB_GHOST)
            return false;
        live += tag && !(tag & HB_GHOST);
        ghosts += tag & HB_GHOST ? 1 : 0;
    }
    return live == hb_get(v.bytes, HB_LIVE) && ghosts == hb_get(v.bytes, HB_GHOSTS);
}

bool ll_hash__fixed_entry(const unsigned char *page, uint32_t slot, struct hb_entry *out)
{
    const unsigned char *p = page + HB_ENTRIES + (size_t)slot * slot_size(page);
    out->tag = lladd_get16(p);
    out->key_len = (uint16_t)hb_get(page, HB_KEY);
    out->value_len = out->cap = (uint16_t)hb_get(page, HB_VALUE);
    out->key = p + 2;
    out->value = p + 2 + out->key_len;
    return out->tag != 0;
}

void ll_hash__fixed_find(const unsigned char *page, const struct hb_key *key, struct hb_place *out)
{
    uint32_t slots = hb_get(page, HB_SLOTS), size = slot_size(page), len = key->len;
    uint32_t i = ll_hash__fixed_home(key->tag, slots);
    const unsigned char *p = page + HB_ENTRIES + (size_t)i * size;
    *out = (struct hb_place){HB_NONE, HB_NONE, HB_NONE};
    for (uint32_t n = slots; n > 0; n--) {
        uint16_t tag = lladd_get16(p);
        if (tag == 0) {
            out->free = i;
            return;
        }
        if ((tag & (HB_GHOST - 1)) == key->tag && ll_hash__same_key(p + 2, key->bytes, len)) {
            out->slot = i;
            return;
        }
        if (tag & HB_GHOST && out->ghost == HB_NONE)
            out->ghost = i;
        p += size;
        if (++i == slots) {
            i = 0;
            p = page + HB_ENTRIES;
        }
    }
}

void ll_hash__fixed_clear(unsigned char *page, uint32_t size)
{
    hb_set(page, HB_SLOTS,
           ll_hash__fixed_slots(size, hb_get(page, HB_KEY), hb_get(page, HB_VALUE)));
}

size_t ll_hash__fixed_packed(const unsigned char *page, const unsigned char *p, size_t n)
{
    size_t size = slot_size(page);
    return n >= size && (lladd_get16(p) & (HB_GHOST - 1)) ? size : 0;
}

static void count(unsigned char *page, uint16_t tag, int by)
{
    unsigned field = tag & HB_GHOST ? HB_GHOSTS : HB_LIVE;
    if (tag)
        hb_set(page, field, hb_get(page, field) + (uint32_t)by);
}

void ll_hash__fixed_store(unsigned char *page, uint32_t slot, const unsigned char *packed)
{
    uint32_t size = slot_size(page);
    unsigned char *p = page + HB_ENTRIES + (size_t)slot * size;
    count(page, lladd_get16(p), -1);
    lladd_copy(p, packed, size);
    count(page, lladd_get16(p), 1);
}

void ll_hash__fixed_empty(unsigned char *page, uint32_t slot)
{
    uint32_t size = slot_size(page);
    unsigned char *p = page + HB_ENTRIES + (size_t)slot * size;
    count(page, lladd_get16(p), -1);
    memset(p, 0, size);
}

/* How the entries of a page lie. */
struct lay {
    unsigned char *first;
    uint32_t slots, size;
};

static inline struct lay lay_of(unsigned char *page)
{
    return (struct lay){page + HB_ENTRIES, hb_get(page, HB_SLOTS), slot_size(page)};
}
static inline unsigned char *at(const struct lay *l, uint32_t i)
{
    return l->first + (size_t)i * l->size;
}

/* The first empty slot from `home` on, but not beyond `end`, which is returned if there is none. */
static inline uint32_t empty_from(const struct lay *l, uint32_t home, uint32_t end)
{
    uint32_t i = home;
    while (i != end && lladd_get16(at(l, i)))
        i = i + 1 == l->slots ? 0 : i + 1;
    return i;
}

void ll_hash__fixed_fill(unsigned char *page, const unsigned char *p, size_t n)
{
    struct lay l = lay_of(page);
    uint32_t added[2] = {0, 0}; /* elements, ghosts */
    for (; n >= l.size; n -= l.size, p += l.size) {
        uint16_t tag = lladd_get16(p);
        uint32_t home = ll_hash__fixed_home(tag, l.slots), before = home ? home - 1 : l.slots - 1;
        uint32_t i = empty_from(&l, home, before);
        if (lladd_get16(at(&l, i)))
            break;
        lladd_copy(at(&l, i), p, l.size);
        added[tag >> 15]++;
    }
    hb_set(page, HB_LIVE, hb_get(page, HB_LIVE) + added[0]);
    hb_set(page, HB_GHOSTS, hb_get(page, HB_GHOSTS) + added[1]);
}

/* Moves every entry to the first empty slot from its home on, once around from `from`. True if any
 * has moved. */
static bool move_up(const struct lay *l, uint32_t from)
{
    bool moved = false;
    for (uint32_t n = 0, i = from; n < l->slots; n++, i = i + 1 == l->slots ? 0 : i + 1) {
        unsigned char *p = at(l, i);
        uint16_t tag = lladd_get16(p);
        uint32_t home = ll_hash__fixed_home(tag, l->slots);
        if (tag == 0 || home == i)
            continue;
        uint32_t to = empty_from(l, home, i);
        if (to == i)
            continue;
        memcpy(at(l, to), p, l->size);
        memset(p, 0, l->size);
        moved = true;
    }
    return moved;
}

void ll_hash__fixed_drop(unsigned char *page, const unsigned char *drop)
{
    struct lay l = lay_of(page);
    uint32_t gone[2] = {0, 0}, first = HB_NONE, empty = HB_NONE;
    for (uint32_t i = 0; i < l.slots; i++) {
        unsigned char *p = at(&l, i);
        uint16_t tag = lladd_get16(p);
        if (tag == 0)
            empty = i;
        if (tag == 0 || !(drop[i / 8] >> i % 8 & 1))
            continue;
        gone[tag >> 15]++;
        memset(p, 0, l.size);
        first = i;
    }
    if (first == HB_NONE)
        return;
    hb_set(page, HB_LIVE, hb_get(page, HB_LIVE) - gone[0]);
    hb_set(page, HB_GHOSTS, hb_get(page, HB_GHOSTS) - gone[1]);
    /* No entry lies behind a slot that was empty and has its home before it; so what comes behind
     * such a slot is in order after one round. On a page that was full some may have to move once
     * more. */
    while (move_up(&l, empty != HB_NONE ? empty : first) && empty == HB_NONE) {
    }
}
