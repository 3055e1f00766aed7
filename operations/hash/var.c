/* SPDX-License-Identifier: BSD-2-Clause */
/* Bucket pages for keys or values of any length. Entries grow from the front, a directory of slots
 * from the end:
 *
 *   entry      u16 slot (UINT16_MAX: dropped), u16 key length, u16 value length, u16 cap,
 *              the key, then `cap` bytes: the value, then zeros
 *   directory  of slot i, 4 * (i + 1) bytes before the page's end:
 *              u16 tag (0: unused), u16 offset of the entry on the page
 *
 * When a value gets shorter, its entry keeps its length, so that undo finds the room again. The
 * unused part of `cap` is slack. ll_hash__var_drop cuts the slack of the entries in `trim`; the
 * caller names only entries that no transaction has reserved. Dropped entries leave gaps. compact()
 * closes the gaps when a store needs room, and after every ll_hash__var_drop. The bytes between the
 * entries and the directory are always zero, so free space holds nothing of earlier contents. */
#include "operations/hash/page.h"

#include <string.h>

static unsigned char *dir(unsigned char *page, uint32_t size, uint32_t slot)
{
    return page + size - (size_t)HB_VAR_DIR * (slot + 1);
}
static const unsigned char *dir_at(const unsigned char *page, uint32_t size, uint32_t slot)
{
    return page + size - (size_t)HB_VAR_DIR * (slot + 1);
}

/* Bytes of an entry on the page, without its directory entry. */
static uint32_t entry_size(const unsigned char *e)
{
    return HB_VAR_HEAD + HB_LEN(lladd_get16(e + 2)) + lladd_get16(e + 6);
}

static bool refs_fine(uint32_t key_len, uint32_t value_len)
{
    return (!(key_len & HB_BLOB) || HB_LEN(key_len) == HB_KEY_REF) &&
           (!(value_len & HB_BLOB) || HB_LEN(value_len) == HB_VALUE_REF);
}

bool ll_hash__var_head_fine(struct lladd_view v)
{
    uint32_t slots = hb_get(v.bytes, HB_SLOTS), area = hb_get(v.bytes, HB_AREA);
    return area >= HB_ENTRIES && area + HB_VAR_DIR * slots <= v.size;
}

/* Checks that entries, live or dropped, fill the area exactly, that each live entry is where its
 * slot says, and that every slot in use has an entry. */
bool ll_hash__var_fine(struct lladd_view v)
{
    uint32_t slots = hb_get(v.bytes, HB_SLOTS), area = hb_get(v.bytes, HB_AREA);
    uint32_t live = 0, ghosts = 0, used = 0;
    for (uint32_t i = 0; i < slots; i++) {
        uint16_t tag = lladd_get16(dir_at(v.bytes, v.size, i));
        if (tag == HB_GHOST)
            return false;
        live += tag && !(tag & HB_GHOST);
        ghosts += tag & HB_GHOST ? 1 : 0;
    }
    for (uint32_t at = HB_ENTRIES; at < area;) {
        const unsigned char *e = v.bytes + at;
        if (area - at < HB_VAR_HEAD || entry_size(e) > area - at ||
            HB_LEN(lladd_get16(e + 4)) > lladd_get16(e + 6) ||
            !refs_fine(lladd_get16(e + 2), lladd_get16(e + 4)))
            return false;
        uint32_t slot = lladd_get16(e);
        if (slot != UINT16_MAX) {
            if (slot >= slots)
                return false;
            const unsigned char *d = dir_at(v.bytes, v.size, slot);
            if (lladd_get16(d) == 0 || lladd_get16(d + 2) != at)
                return false;
            used++;
        }
        at += entry_size(e);
    }
    return used == live + ghosts && live == hb_get(v.bytes, HB_LIVE) &&
           ghosts == hb_get(v.bytes, HB_GHOSTS);
}

/* If ll_hash__var_head_fine holds and slot < HB_SLOTS, the entry lies within the page, whatever the
 * other bytes are. */
bool ll_hash__var_entry(const unsigned char *page, uint32_t size, uint32_t slot,
                        struct hb_entry *out)
{
    const unsigned char *d = dir_at(page, size, slot);
    uint32_t at = lladd_get16(d + 2), area = hb_get(page, HB_AREA);
    out->tag = lladd_get16(d);
    if (out->tag == 0 || at < HB_ENTRIES || at > area || area - at < HB_VAR_HEAD)
        return false;
    const unsigned char *e = page + at;
    out->key_len = lladd_get16(e + 2);
    out->value_len = lladd_get16(e + 4);
    out->cap = lladd_get16(e + 6);
    out->key = e + HB_VAR_HEAD;
    out->value = out->key + HB_LEN(out->key_len);
    return entry_size(e) <= area - at && HB_LEN(out->value_len) <= out->cap &&
           refs_fine(out->key_len, out->value_len);
}

void ll_hash__var_find(const unsigned char *page, uint32_t size, const struct hb_key *key,
                       struct hb_place *out)
{
    uint32_t slots = hb_get(page, HB_SLOTS);
    /* The number of a long key's blob is not compared. */
    size_t same = key->len & HB_BLOB ? HB_KEY_REF_SAME : key->len;
    *out = (struct hb_place){HB_NONE, HB_NONE, HB_NONE};
    for (uint32_t i = 0; i < slots; i++) {
        uint16_t tag = lladd_get16(dir_at(page, size, i));
        struct hb_entry e;
        if (tag == 0 && out->free == HB_NONE)
            out->free = i;
        if (tag & HB_GHOST && out->ghost == HB_NONE)
            out->ghost = i;
        if ((tag & (HB_GHOST - 1)) != key->tag || !ll_hash__var_entry(page, size, i, &e))
            continue;
        if (e.key_len == key->len && memcmp(e.key, key->bytes, same) == 0) {
            out->slot = i;
            return;
        }
    }
    if (out->free == HB_NONE && slots < UINT16_MAX - 1)
        out->free = slots;
}

void ll_hash__var_clear(unsigned char *page, uint32_t size)
{
    (void)size;
    hb_set(page, HB_AREA, HB_ENTRIES);
}

size_t ll_hash__var_packed(const unsigned char *p, size_t n)
{
    if (n < HB_VAR_HEAD)
        return 0;
    uint32_t key = HB_LEN(lladd_get16(p + 2)), value = HB_LEN(lladd_get16(p + 4));
    return (lladd_get16(p) & (HB_GHOST - 1)) && refs_fine(lladd_get16(p + 2), lladd_get16(p + 4)) &&
                   value <= lladd_get16(p + 6) && n - HB_VAR_HEAD >= (size_t)key + value
               ? HB_VAR_HEAD + key + value
               : 0;
}

struct hb_use ll_hash__var_use(const unsigned char *page, uint32_t size)
{
    uint32_t slots = hb_get(page, HB_SLOTS);
    struct hb_use use = {0, HB_VAR_DIR * slots};
    for (uint32_t i = 0; i < slots; i++) {
        struct hb_entry e;
        if (!ll_hash__var_entry(page, size, i, &e))
            continue;
        uint32_t key = HB_VAR_HEAD + HB_LEN(e.key_len);
        use.taken += key + e.cap;
        if (!(e.tag & HB_GHOST))
            use.live += HB_VAR_DIR + key + HB_LEN(e.value_len);
    }
    return use;
}

static void count(unsigned char *page, uint16_t tag, int by)
{
    unsigned field = tag & HB_GHOST ? HB_GHOSTS : HB_LIVE;
    if (tag)
        hb_set(page, field, hb_get(page, field) + (uint32_t)by);
}

static void drop_slot(unsigned char *page, uint32_t size, uint32_t slot)
{
    unsigned char *d = dir(page, size, slot);
    uint16_t tag = lladd_get16(d);
    if (tag == 0)
        return;
    count(page, tag, -1);
    lladd_put16(page + lladd_get16(d + 2), UINT16_MAX);
    memset(d, 0, HB_VAR_DIR);
}

/* Closes the gaps between entries; with `trim`, also cuts the slack of those entries. Fills the
 * space that becomes free with zeros. */
static void compact(unsigned char *page, uint32_t size, const unsigned char *trim)
{
    uint32_t to = HB_ENTRIES, area = hb_get(page, HB_AREA);
    for (uint32_t at = HB_ENTRIES, n; at < area; at += n) {
        uint32_t slot = lladd_get16(page + at);
        n = entry_size(page + at);
        if (slot == UINT16_MAX)
            continue;
        uint32_t kept = n;
        if (trim && trim[slot / 8] >> slot % 8 & 1) {
            uint32_t value = HB_LEN(lladd_get16(page + at + 4));
            kept = n - lladd_get16(page + at + 6) + value;
            lladd_put16(page + at + 6, (uint16_t)value);
        }
        memmove(page + to, page + at, kept);
        lladd_put16(dir(page, size, slot) + 2, (uint16_t)to);
        to += kept;
    }
    memset(page + to, 0, area - to);
    hb_set(page, HB_AREA, to);
}

void ll_hash__var_store(unsigned char *page, uint32_t size, uint32_t slot,
                        const unsigned char *packed)
{
    uint16_t tag = lladd_get16(packed), key_len = lladd_get16(packed + 2);
    uint16_t value_len = lladd_get16(packed + 4), cap = lladd_get16(packed + 6);
    const unsigned char *key = packed + HB_VAR_HEAD, *value = key + HB_LEN(key_len);
    /* An entry of the same key with enough room is overwritten in place, so it keeps its room. A
     * long key may have another blob than before. */
    size_t same = key_len & HB_BLOB ? HB_KEY_REF_SAME : HB_LEN(key_len);
    struct hb_entry e;
    if (slot < hb_get(page, HB_SLOTS) && ll_hash__var_entry(page, size, slot, &e) &&
        e.key_len == key_len && e.cap >= cap && memcmp(e.key, key, same) == 0) {
        unsigned char *at = page + (e.key - HB_VAR_HEAD - page), *to = page + (e.value - page);
        count(page, e.tag, -1);
        lladd_put16(dir(page, size, slot), tag);
        lladd_put16(at + 4, value_len);
        memcpy(at + HB_VAR_HEAD, key, HB_LEN(key_len));
        memcpy(to, value, HB_LEN(value_len));
        memset(to + HB_LEN(value_len), 0, e.cap - HB_LEN(value_len));
        count(page, tag, 1);
        return;
    }
    if (slot < hb_get(page, HB_SLOTS))
        drop_slot(page, size, slot);
    uint32_t need = HB_VAR_HEAD + HB_LEN(key_len) + cap;
    uint32_t slots = slot < hb_get(page, HB_SLOTS) ? hb_get(page, HB_SLOTS) : slot + 1;
    if (hb_get(page, HB_AREA) + need + HB_VAR_DIR * slots > size)
        compact(page, size, NULL);
    uint32_t at = hb_get(page, HB_AREA);
    hb_set(page, HB_SLOTS, slots);
    lladd_put16(page + at, (uint16_t)slot);
    memcpy(page + at + 2, packed + 2, 6);
    memcpy(page + at + HB_VAR_HEAD, key, HB_LEN(key_len) + HB_LEN(value_len));
    memset(page + at + HB_VAR_HEAD + HB_LEN(key_len) + HB_LEN(value_len), 0,
           cap - HB_LEN(value_len));
    lladd_put16(dir(page, size, slot), tag);
    lladd_put16(dir(page, size, slot) + 2, (uint16_t)at);
    hb_set(page, HB_AREA, at + need);
    count(page, tag, 1);
}

void ll_hash__var_drop(unsigned char *page, uint32_t size, const unsigned char *drop,
                       const unsigned char *trim)
{
    uint32_t slots = hb_get(page, HB_SLOTS);
    for (uint32_t i = 0; i < slots; i++)
        if (drop[i / 8] >> i % 8 & 1)
            drop_slot(page, size, i);
    compact(page, size, trim);
    while (slots && lladd_get16(dir(page, size, slots - 1)) == 0)
        slots--;
    hb_set(page, HB_SLOTS, slots);
}
