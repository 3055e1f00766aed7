/* SPDX-License-Identifier: BSD-2-Clause */
/* Lookups by optimistic reads (lladd/optimistic.h), in tables with fixed lengths and short slots.
 * The lookup copies the page's header, and the slots from the key's home on, word by word. It
 * returns a result only if the read validates. Other cases (a chain, long slots, a key far from its
 * home) return LLADD_BUSY, and the caller latches the page.
 *
 * Keys and values of up to a word stay in registers: a load that spans words just stored would wait
 * for the processor's store buffer. */
#include "operations/hash/table.h"

#include <lladd/optimistic.h>

#include <string.h>

enum {
    SLOT_BYTES = 144, /* longest slot */
    SHORT_BYTES = 40, /* a slot up to this length is copied at once */
    SLOTS = 12        /* slots to look at */
};

/* The number of aligned words that is enough for n consecutive bytes at any offset. */
static inline uint32_t words_of(uint32_t n)
{
    return (n + 14) / 8;
}

/* Copies n aligned words, beginning with the word that contains byte `from`, or the page's last n
 * words; returns a pointer to the copy of byte `from`. `n` is the same for every slot, so that the
 * processor can predict the loop. */
static inline const unsigned char *copy(const struct lladd_read *g, uint32_t from,
                                        uint64_t *words, uint32_t n)
{
    uint32_t first = from & ~7u, last = g->size - 8 * n;
    first = first < last ? first : last;
    lladd_read_copy(g, first, words, n);
    return (const unsigned char *)words + (from - first);
}

/* The word at `from`, a multiple of 8, as a number. Reads the page's last word instead if `from` is
 * not on the page; the caller then does not use the result. */
static inline uint64_t word(const struct lladd_read *g, uint32_t from)
{
    uint64_t w;
    lladd_read_copy(g, from < g->size ? from : g->size - 8, &w, 1);
    return LLADD_LE64(w);
}

/* Eight bytes of two words, from bit `shift` of the first. */
static inline uint64_t join(uint64_t low, uint64_t high, unsigned shift)
{
    return low >> shift | high << 1 << (63 - shift);
}

static inline uint64_t mask_of(uint32_t bytes)
{
    return UINT64_MAX >> (64 - 8 * bytes);
}

static inline bool is_bucket(const struct ll_hash_table *t, const struct lladd_read *g,
                             uint64_t hash)
{
    uint64_t type, w[4];
    lladd_read_copy(g, 0, &type, 1);
    lladd_read_copy(g, HB_ROOT, w, 4);
    struct hb_head head = {LLADD_LE64(w[0]), LLADD_LE64(w[1]), LLADD_LE64(w[2]), LLADD_LE64(w[3])};
    return ll_hash__is_whole_bucket(t, (uint16_t)(LLADD_LE64(type) >> 32), &head, hash);
}

static inline int ended(const struct lladd_read *g, int rc)
{
    return __builtin_expect(lladd_read_validate(g), 1) ? rc : LLADD_BUSY;
}

/* The lookup for keys and values of 1 to 8 bytes. */
static inline int look_short(const struct ll_hash_table *t, const struct lladd_read *g,
                             const struct hb_key *key, void *buf, size_t size)
{
    uint32_t slot = 2 + t->key_size + t->value_size, slots = t->fixed_slots;
    uint64_t mask = mask_of(t->key_size);
    uint64_t wanted =
        t->key_size == 8 ? lladd_get64(key->bytes) : lladd_get_few(key->bytes, t->key_size);
    uint32_t i = ll_hash__fixed_home(key->tag, slots);
    for (unsigned n = 0; n < SLOTS; n++) {
        uint32_t at = HB_ENTRIES + i * slot, first = at & ~7u;
        unsigned shift = 8 * (at & 7);
        uint64_t middle = word(g, first + 8), low = join(word(g, first), middle, shift);
        uint64_t high = join(middle, word(g, first + 16), shift);
        bool found = (low & (HB_GHOST - 1)) == key->tag &&
                     ((low >> 16 | high << 48) & mask) == wanted;
        if ((low & 0xffff) == 0 || (found && low & HB_GHOST))
            return ended(g, LLADD_NOT_FOUND);
        if (found) {
            at += 2 + t->key_size;
            first = at & ~7u;
            uint64_t v = join(word(g, first), word(g, first + 8), 8 * (at & 7));
            if (ended(g, 0))
                return LLADD_BUSY;
            unsigned char value[8];
            size_t len = t->value_size < size ? t->value_size : size;
            lladd_put64(value, v);
            lladd_copy(buf, value, len < sizeof value ? len : sizeof value);
            return 0;
        }
        i = i + 1 == slots ? 0 : i + 1;
    }
    return LLADD_BUSY;
}

/* The lookup for longer keys or values. */
static int look_long(const struct ll_hash_table *t, const struct lladd_read *g,
                     const struct hb_key *key, void *buf, size_t size)
{
    uint32_t slot = 2 + t->key_size + t->value_size, slots = t->fixed_slots;
    uint64_t words[SLOT_BYTES / 8 + 2];
    bool at_once = slot <= SHORT_BYTES;
    uint32_t n_words = words_of(at_once ? slot : 2 + t->key_size);
    uint32_t i = ll_hash__fixed_home(key->tag, slots);
    for (unsigned n = 0; n < SLOTS; n++) {
        const unsigned char *p = copy(g, HB_ENTRIES + i * slot, words, n_words);
        uint16_t tag = lladd_get16(p);
        bool found = (tag & (HB_GHOST - 1)) == key->tag &&
                     ll_hash__same_key(p + 2, key->bytes, t->key_size);
        if (tag == 0 || (found && tag & HB_GHOST))
            return ended(g, LLADD_NOT_FOUND);
        if (found) {
            p += 2 + t->key_size;
            if (!at_once)
                p = copy(g, HB_ENTRIES + i * slot + 2 + t->key_size, words,
                         words_of(t->value_size));
            if (ended(g, 0))
                return LLADD_BUSY;
            lladd_copy(buf, p, t->value_size < size ? t->value_size : size);
            return 0;
        }
        i = i + 1 == slots ? 0 : i + 1;
    }
    return LLADD_BUSY;
}

int ll_hash__read_optimistic(struct ll_hash_table *t, const struct hb_key *key, uint64_t hash,
                    lladd_pageno page, void *buf, size_t size, size_t *len)
{
    struct lladd_read g;
    if (!t->fixed || 2 + t->key_size + t->value_size > SLOT_BYTES ||
        !lladd_read_begin(t->db, page, &g) || !is_bucket(t, &g, hash))
        return LLADD_BUSY;
    int rc = t->key_size <= 8 && t->value_size <= 8 ? look_short(t, &g, key, buf, size)
                                                    : look_long(t, &g, key, buf, size);
    if (!rc && len)
        *len = t->value_size;
    return rc;
}
