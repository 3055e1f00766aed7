/* SPDX-License-Identifier: BSD-2-Clause */
/* What a split, a merge or clearing up takes along from a page, and what it leaves. */
#include "operations/hash/table.h"

#include <string.h>

static void set_bit(unsigned char *map, uint32_t i)
{
    map[i / 8] = (unsigned char)(map[i / 8] | 1u << i % 8);
}

struct hb_sorted *ll_hash__sorted_new(struct ll_hash_table *t, uint32_t page_size)
{
    size_t map = page_size / 8; /* no page has as many slots as bytes */
    struct hb_sorted *s = lladd_alloc(t->db, sizeof *s + 2 * map + 2 * (size_t)page_size);
    if (!s)
        return NULL;
    *s = (struct hb_sorted){.drop = (unsigned char *)(s + 1)};
    s->trim = s->drop + map;
    s->packed = s->trim + map;
    s->image = s->packed + page_size;
    return s;
}

/* A slot of the fixed layout is what a record has of it. */
static void sort_fixed(struct ll_hash_table *t, struct lladd_view v, uint64_t bit,
                       struct hb_sorted *s)
{
    uint32_t slots = hb_get(v.bytes, HB_SLOTS), size = 2 + t->key_size + t->value_size;
    const unsigned char *p = v.bytes + HB_ENTRIES;
    const bool any_held = ll_hash__any_held(t);
    for (uint32_t i = 0; i < slots; i++, p += size) {
        uint16_t tag = lladd_get16(p);
        if (tag == 0)
            continue;
        uint64_t hash = ll_hash__of(t, p + 2, (uint16_t)t->key_size);
        if (__builtin_expect(tag & HB_GHOST, 0) && !(any_held && ll_hash__held(t, hash))) {
            set_bit(s->drop, i);
            s->dropped++;
            continue;
        }
        /* One of two moves: nothing for a branch, which would be mispredicted as often. */
        const unsigned moves = (hash & bit) != 0;
        lladd_copy(s->packed + s->len, p, size);
        s->len += moves * size;
        s->drop[i / 8] = (unsigned char)(s->drop[i / 8] | moves << i % 8);
        s->moved += moves;
        s->kept += 1 - moves;
    }
}

static void sort_var(struct ll_hash_table *t, struct lladd_view v, uint64_t bit,
                     struct hb_sorted *s)
{
    uint32_t slots = hb_get(v.bytes, HB_SLOTS);
    const bool any_held = ll_hash__any_held(t);
    memset(s->trim, 0, (slots + 7) / 8);
    for (uint32_t i = 0; i < slots; i++) {
        struct hb_entry e;
        if (!ll_hash__entry(v, i, &e))
            continue;
        uint64_t hash = ll_hash__of(t, e.key, e.key_len);
        bool held = any_held && ll_hash__held(t, hash);
        if (!held)
            e.cap = HB_LEN(e.value_len);
        if (e.tag & HB_GHOST && !held) {
            set_bit(s->drop, i);
            s->dropped++;
        } else if (hash & bit) {
            set_bit(s->drop, i);
            ll_hash__pack(s->packed + s->len, false, &e);
            s->len += ll_hash__pack_size(false, &e);
            s->moved++;
        } else {
            if (!held)
                set_bit(s->trim, i);
            s->kept++;
            s->kept_bytes += HB_VAR_HEAD + HB_VAR_DIR + HB_LEN(e.key_len) + e.cap;
        }
    }
}

int ll_hash__sort(struct ll_hash_table *t, struct lladd_view v, uint64_t bit, struct hb_sorted *s,
                  struct lladd_error *err)
{
    if (!ll_hash__fine(v)) /* what is moved, and what it leaves, might not even fit into a page */
        return ll_hash__corrupt(err, v.number, "is no bucket that makes sense");
    memset(s->drop, 0, (hb_get(v.bytes, HB_SLOTS) + 7) / 8);
    s->len = s->moved = s->dropped = s->kept = 0;
    s->kept_bytes = 0;
    (t->fixed ? sort_fixed : sort_var)(t, v, bit, s);
    return 0;
}
