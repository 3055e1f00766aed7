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

static uint32_t home_of(uint16_t tag, uint32_t slots)
{
    return (uint32_t)(tag & (HB_GHOST - 1)) * slots >> 15;
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

static inline bool same_key(const unsigned char *a, const unsigned char *b, uint32_t n)
{
    if (n == 8)
        return lladd_get64(a) == lladd_get64(b);
    if (n == 4)
        return lladd_get32(a) == lladd_get32(b);
    return memcmp(a, b, n) == 0;
}

void ll_hash__fixed_find(const unsigned char *page, const struct hb_key *key, struct hb_place *out)
{
    uint32_t slots = hb_get(page, HB_SLOTS), size = slot_size(page), len = key->len;
    uint32_t i = home_of(key->tag, slots);
    const unsigned char *p = page + HB_ENTRIES + (size_t)i * size;
    *out = (struct hb_place){HB_NONE, HB_NONE, HB_NONE};
    for (uint32_t n = slots; n > 0; n--) {
        uint16_t tag = lladd_get16(p);
        if (tag == 0) {
            out->free = i;
            return;
        }
        if ((tag & (HB_GHOST - 1)) == key->tag && same_key(p + 2, key->bytes, len)) {
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

static uint32_t empty_from(const unsigned char *page, uint32_t home, uint32_t slots, uint32_t size)
{
    for (uint32_t n = 0, i = home; n < slots; n++, i = i + 1 == slots ? 0 : i + 1)
        if (lladd_get16(page + HB_ENTRIES + (size_t)i * size) == 0)
            return i;
    return HB_NONE;
}

void ll_hash__fixed_place(unsigned char *page, const unsigned char *packed)
{
    uint32_t slots = hb_get(page, HB_SLOTS);
    uint32_t i = empty_from(page, home_of(lladd_get16(packed), slots), slots, slot_size(page));
    if (i != HB_NONE)
        ll_hash__fixed_store(page, i, packed);
}

/* Moves every entry to the first empty slot from its home on, if that lies before it. True if any
 * has moved. */
static bool move_up(unsigned char *page, uint32_t slots, uint32_t size, uint32_t from)
{
    bool moved = false;
    for (uint32_t n = 0, i = from; n < slots; n++, i = i + 1 == slots ? 0 : i + 1) {
        unsigned char *p = page + HB_ENTRIES + (size_t)i * size;
        uint16_t tag = lladd_get16(p);
        uint32_t home = home_of(tag, slots);
        if (tag == 0 || home == i || home >= slots)
            continue;
        uint32_t to = empty_from(page, home, slots, size);
        if (to == HB_NONE || (to + slots - home) % slots >= (i + slots - home) % slots)
            continue;
        memcpy(page + HB_ENTRIES + (size_t)to * size, p, size);
        memset(p, 0, size);
        moved = true;
    }
    return moved;
}

void ll_hash__fixed_drop(unsigned char *page, const unsigned char *drop)
{
    uint32_t slots = hb_get(page, HB_SLOTS), size = slot_size(page), first = HB_NONE;
    for (uint32_t i = 0; i < slots; i++) {
        unsigned char *p = page + HB_ENTRIES + (size_t)i * size;
        if (!(drop[i / 8] >> i % 8 & 1))
            continue;
        count(page, lladd_get16(p), -1);
        memset(p, 0, size);
        first = i;
    }
    /* Those that wrap around the end may have to move once more. */
    while (first != HB_NONE && move_up(page, slots, size, first)) {
    }
}
