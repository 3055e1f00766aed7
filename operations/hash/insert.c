/* SPDX-License-Identifier: BSD-2-Clause */
/* The fast path of insertion into a table with fixed lengths: the bucket is one page, the key is
 * not there, and no ghost is on the way to its slot. Anything else takes the general path in
 * page.c. */
#include "operations/hash/table.h"

/* The first empty slot from the key's home on. HB_NONE: no slot is empty, or the key or a ghost
 * comes first. */
static inline uint32_t vacancy(const unsigned char *page, const struct hb_key *key, uint32_t slots,
                               uint32_t key_size, uint32_t size)
{
    uint32_t i = ll_hash__fixed_home(key->tag, slots);
    const unsigned char *p = page + HB_ENTRIES + (size_t)i * size;
    for (uint32_t n = slots; n > 0; n--) {
        uint16_t tag = lladd_get16(p);
        if (tag == 0)
            return i;
        if (tag & HB_GHOST || (tag == key->tag && ll_hash__same_key(p + 2, key->bytes, key_size)))
            return HB_NONE;
        p += size;
        if (++i == slots) {
            i = 0;
            p = page + HB_ENTRIES;
        }
    }
    return HB_NONE;
}

bool ll_hash__insert_usual(struct hb_change *c, struct lladd_view v, struct lladd_draft *d)
{
    const struct ll_hash_table *t = c->table;
    uint32_t key_size = t->key_size, value_size = t->value_size;
    uint32_t slots = t->fixed_slots, size = 2 + key_size + value_size;
    struct hb_head head = hb_head_of(v.bytes);
    if (!t->fixed || !c->only || c->chain ||
        !ll_hash__is_whole_bucket(t, v.type, &head, c->hash))
        return false;
    uint32_t slot = vacancy(v.bytes, &c->key, slots, key_size, size);
    unsigned char *redo = lladd_draft_redo(d, 2 + size);
    unsigned char *undo = lladd_draft_undo(d, HB_PUT_UNDO_HEAD + key_size);
    if (slot == HB_NONE || !redo || !undo)
        return false;
    c->inserted = true;
    c->slot = slot;
    c->of = slots;
    c->full = hb_live_of(&head) + 1;
    c->empty = slots + 1 - c->full - hb_ghosts_of(&head);
    lladd_put32(redo, slot | (uint32_t)c->key.tag << 16);
    lladd_copy(redo + 4, c->key.bytes, key_size);
    lladd_copy(redo + 4 + key_size, c->value, value_size);
    lladd_put64(undo, t->root.v);
    undo[8] = HB_FLAG_NOTHING;
    lladd_put16(undo + HB_UNDO_HEAD, (uint16_t)key_size);
    lladd_copy(undo + HB_PUT_UNDO_HEAD, c->key.bytes, key_size);
    return true;
}
