/* SPDX-License-Identifier: BSD-2-Clause */
/* Sorts the entries of a page, for a split, a merge or a clearing, into those that move, stay, or
 * are dropped. */
#include "operations/hash/table.h"

#include <string.h>

static void set_bit(unsigned char *map, uint32_t i)
{
    map[i / 8] = (unsigned char)(map[i / 8] | 1u << i % 8);
}

struct hb_sorted *ll_hash__sorted_new(struct ll_hash_table *t, uint32_t page_size)
{
    size_t map = page_size / 8; /* a page has fewer slots than bytes */
    struct hb_sorted *s = lladd_mem_alloc(t->db, sizeof *s + 2 * map + 2 * (size_t)page_size);
    if (!s)
        return NULL;
    *s = (struct hb_sorted){.drop = (unsigned char *)(s + 1)};
    s->trim = s->drop + map;
    s->packed = s->trim + map;
    s->image = s->packed + page_size;
    return s;
}

/* The states of up to 64 slots: bit i for slot i. */
struct slots {
    uint64_t taken, ghosts, moves;
};

static inline __attribute__((always_inline)) uint64_t moving(const struct ll_hash_table *t,
                                                             const unsigned char *p, uint32_t n,
                                                             uint32_t size, uint32_t key_size,
                                                             uint64_t bit)
{
    uint64_t words[64], moves = 0;
    if (bit == 0)
        return 0;
    if (key_size > 8) {
        for (uint32_t i = 0; i < n; i++, p += size)
            moves |= (uint64_t)((ll_siphash(&t->seed, p + 2, key_size) & bit) != 0) << i;
        return moves;
    }
    for (uint32_t i = 0; i < n; i++, p += size)
        words[i] = key_size == 8 ? lladd_get64(p + 2) : lladd_get_few(p + 2, key_size);
    for (uint32_t i = n; i < 64; i++)
        words[i] = 0;
    return ll_siphash_bits(&t->seed, words, n, key_size, (unsigned)__builtin_ctzll(bit));
}

static inline struct slots look(const struct ll_hash_table *t, const unsigned char *p, uint32_t n,
                                uint64_t bit)
{
    uint32_t size = 2 + t->key_size + t->value_size;
    struct slots s = {0, 0, 0};
    const unsigned char *at = p + (size_t)n * size;
    for (uint32_t i = n; i-- > 0;) { /* backwards: the bit of the first slot is the lowest */
        at -= size;
        uint16_t tag = lladd_get16(at);
        s.taken = 2 * s.taken + ((tag & (HB_GHOST - 1)) != 0);
        s.ghosts = 2 * s.ghosts + (tag >> 15);
    }
    s.moves =
        t->key_size == 8 ? moving(t, p, n, size, 8, bit) : moving(t, p, n, size, t->key_size, bit);
    s.moves &= s.taken;
    return s;
}

/* The ghosts without a reservation. */
static uint64_t forgotten(const struct ll_hash_table *t, const unsigned char *p, uint64_t ghosts)
{
    const bool any_held = ll_hash__any_held(t);
    uint64_t gone = 0;
    for (; ghosts; ghosts &= ghosts - 1) {
        unsigned i = (unsigned)__builtin_ctzll(ghosts);
        const unsigned char *key = p + (size_t)i * (2 + t->key_size + t->value_size) + 2;
        bool held = any_held && ll_hash__held(t, ll_hash__of(t, key, (uint16_t)t->key_size));
        gone |= (uint64_t)!held << i;
    }
    return gone;
}

/* Copies slots as they are: in the fixed layout a slot and a packed entry have the same form.
 * Returns false if the page's counts of elements or ghosts are wrong, or an empty slot is marked as
 * a ghost. */
static bool sort_fixed(struct ll_hash_table *t, struct lladd_view v, uint64_t bit,
                       struct hb_sorted *s)
{
    uint32_t slots = hb_get(v.bytes, HB_SLOTS), size = 2 + t->key_size + t->value_size;
    const unsigned char *p = v.bytes + HB_ENTRIES;
    uint32_t taken = 0, ghosts = 0;
    for (uint32_t i = 0, n; i < slots; i += n, p += (size_t)n * size) {
        n = slots - i < 64 ? slots - i : 64;
        struct slots is = look(t, p, n, bit);
        if (is.ghosts & ~is.taken)
            return false;
        uint64_t gone = is.ghosts ? forgotten(t, p, is.ghosts) : 0, drop = gone | is.moves;
        for (uint64_t m = is.moves & ~gone; m; m &= m - 1) {
            lladd_copy(s->packed + s->len, p + (size_t)__builtin_ctzll(m) * size, size);
            s->len += size;
        }
        for (uint32_t b = 0; b < n; b += 8)
            s->drop[(i + b) / 8] = (unsigned char)(drop >> b);
        taken += (uint32_t)__builtin_popcountll(is.taken);
        ghosts += (uint32_t)__builtin_popcountll(is.ghosts);
        s->dropped += (uint32_t)__builtin_popcountll(gone);
        s->moved += (uint32_t)__builtin_popcountll(is.moves & ~gone);
    }
    s->kept = taken - s->dropped - s->moved;
    return ghosts == hb_get(v.bytes, HB_GHOSTS) && taken - ghosts == hb_get(v.bytes, HB_LIVE);
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
        uint32_t cap = e.cap;
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
            s->trimmed += e.cap < cap;
            s->kept++;
            s->kept_bytes += HB_VAR_HEAD + HB_VAR_DIR + HB_LEN(e.key_len) + e.cap;
        }
    }
}

int ll_hash__sort(struct ll_hash_table *t, struct lladd_view v, uint64_t bit, struct hb_sorted *s,
                  struct lladd_error *err)
{
    s->len = s->moved = s->dropped = s->trimmed = s->kept = 0;
    s->kept_bytes = 0;
    bool fine = t->fixed ? ll_hash__head_fine(v) && sort_fixed(t, v, bit, s) : ll_hash__fine(v);
    if (!fine) /* the entries of a damaged page might not fit on any page */
        return ll_hash__corrupt(err, v.number, "is not a valid bucket");
    if (t->fixed)
        return 0;
    memset(s->drop, 0, (hb_get(v.bytes, HB_SLOTS) + 7) / 8);
    sort_var(t, v, bit, s);
    return 0;
}
