/* SPDX-License-Identifier: BSD-2-Clause */
/* Lookups without a latch (lladd/glance.h), in tables of short keys and values of one length each:
 * the page's header, and the slots from the key's home on, are copied word by word, and believed
 * when they are known to have stood there. Whatever is less simple (a chain, long values, a long
 * way to the key) is left to those who hold the page. */
#include "operations/hash/table.h"

#include <lladd/glance.h>

#include <string.h>

enum {
    HEAD_WORDS = (HB_ENTRIES - LLADD_PAGE_HEADER) / 8, /* of the bucket's header */
    SLOT_BYTES = 144,                                  /* longest slot */
    SHORT_BYTES = 40,                                  /* a slot that is copied at once */
    SLOTS = 12                                         /* as far as one goes */
};

/* So many words hold any n bytes in a row. */
static inline uint32_t words_of(uint32_t n)
{
    return (n + 14) / 8;
}

/* The words that hold the bytes from `from` on. As many for every slot, for a loop whose length the
 * processor can foretell. Returns where the bytes begin among them. */
static inline const unsigned char *copy(const struct lladd_glance *g, uint32_t from,
                                        uint64_t *words, uint32_t n)
{
    uint32_t first = from & ~7u, last = g->size - 8 * n;
    first = first < last ? first : last;
    lladd_glance_copy(g, first, words, n);
    return (const unsigned char *)words + (from - first);
}

/* Is it this key's bucket, all of it on this page? */
static inline bool is_bucket(const struct ll_hash_table *t, const struct lladd_glance *g,
                             uint64_t hash)
{
    uint64_t words[1 + HEAD_WORDS + LLADD_PAGE_HEADER / 8];
    lladd_glance_copy(g, 0, words, 1);
    lladd_glance_copy(g, LLADD_PAGE_HEADER, words + LLADD_PAGE_HEADER / 8, HEAD_WORDS);
    const unsigned char *head = (const unsigned char *)words;
    struct lladd_view v = {head, g->size, lladd_view_type(head), t->root};
    return ll_hash__is_bucket(t, v, hash) && lladd_get48(head + HB_NEXT) == 0;
}

int ll_hash__glance(struct ll_hash_table *t, const struct hb_key *key, uint64_t hash,
                    lladd_pageno page, void *buf, size_t size, size_t *len)
{
    uint32_t slot = 2 + t->key_size + t->value_size, slots = t->fixed_slots;
    struct lladd_glance g;
    if (!t->fixed || slot > SLOT_BYTES || !lladd_glance_begin(t->db, page, &g) ||
        !is_bucket(t, &g, hash))
        return LLADD_BUSY;
    uint64_t words[SLOT_BYTES / 8 + 2];
    bool at_once = slot <= SHORT_BYTES;
    uint32_t n_words = words_of(at_once ? slot : 2 + t->key_size);
    uint32_t i = ll_hash__fixed_home(key->tag, slots);
    for (unsigned n = 0; n < SLOTS; n++) {
        const unsigned char *p = copy(&g, HB_ENTRIES + i * slot, words, n_words);
        uint16_t tag = lladd_get16(p);
        bool found = (tag & (HB_GHOST - 1)) == key->tag &&
                     ll_hash__same_key(p + 2, key->bytes, t->key_size);
        if (tag == 0 || (found && tag & HB_GHOST))
            return lladd_glance_end(&g) ? LLADD_NOT_FOUND : LLADD_BUSY;
        if (found) {
            p += 2 + t->key_size;
            if (!at_once)
                p = copy(&g, HB_ENTRIES + i * slot + 2 + t->key_size, words,
                         words_of(t->value_size));
            if (!lladd_glance_end(&g))
                return LLADD_BUSY;
            lladd_copy(buf, p, t->value_size < size ? t->value_size : size);
            if (len)
                *len = t->value_size;
            return 0;
        }
        i = i + 1 == slots ? 0 : i + 1;
    }
    return LLADD_BUSY;
}
