/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Deltas. A page has a slab in front of it, in which its deltas are allocated by an atomic
 * subtraction, from the page towards the beginning. So a delta lies beside its page, and a chain is
 * freed in one piece. A delta for which the slab has no room gets a block of its own (`alone`). If
 * the compare-and-swap of a delta fails, its room in the slab stays unused.
 *
 * A thread takes room from the slab of the page that is at the end of the chain it has read, in the
 * epoch in which it does the compare-and-swap. So the slab is still there, and the delta is used
 * only if the page is still the end of the chain.
 */
#include "operations/bwtree/bwtree.h"

size_t ll_bwtree__delta_size(const struct lladd_bwtree *t, enum bw_kind kind, uint32_t key_len,
                             uint32_t high_len, uint32_t value_len)
{
    size_t size = sizeof(struct bw_delta);
    size += kind >= BW_TERM ? 8 : kind == BW_PUT ? value_len : 0;
    size += t->small ? 0 : (size_t)key_len + high_len;
    return (size + 7) & ~(size_t)7;
}

/* Room in the page's slab, or NULL. */
static void *room_in(struct bw_page *page, size_t size)
{
    int64_t left = (int64_t)lladd_atomic_load64_relaxed(&page->room);
    if (left < (int64_t)size)
        return NULL;
    left = (int64_t)lladd_atomic_sub64(&page->room, size);
    if (left < (int64_t)size)
        return NULL;
    return (unsigned char *)page - page->slab + (left - (int64_t)size);
}

static void copy_bytes(const struct lladd_bwtree *t, struct bw_delta *d, const struct bw_change *c)
{
    unsigned char *to = d->bytes;
    if (c->kind >= BW_TERM) {
        lladd_put64(to, c->kind == BW_MERGE ? (uintptr_t)c->content : c->high.head);
        to += 8;
    }
    if (!t->small) {
        lladd_copy(to, c->key.bytes, c->key.len);
        to += c->key.len;
    }
    if (c->kind == BW_PUT)
        lladd_copy(to, c->value, c->value_len);
    else if (c->bounded && !t->small)
        lladd_copy(to, c->high.bytes, c->high.len);
}

void ll_bwtree__delta_fill(const struct lladd_bwtree *t, struct bw_delta *d,
                           const struct bw_state *head, uint32_t at, const struct bw_change *c,
                           bool alone)
{
    d->s = (struct bw_state){.next = head,
                             .number = head->number + 1,
                             .chain = head->chain + 1,
                             .kind = (uint8_t)c->kind,
                             .level = head->level,
                             .alone = alone,
                             .bounded = c->bounded};
    d->page = bw_bottom(head);
    d->head = c->key.head;
    d->at = at;
    d->value_len = c->value_len;
    d->key_len = (uint16_t)c->key.len;
    d->high_len = c->bounded ? (uint16_t)c->high.len : 0;
    d->child = c->child;
    copy_bytes(t, d, c);
}

struct bw_delta *ll_bwtree__delta_in(struct lladd_bwtree *t, const struct bw_state *head,
                                     uint32_t at, const struct bw_change *c, void **spare)
{
    uint32_t high_len = c->bounded ? c->high.len : 0;
    size_t size = ll_bwtree__delta_size(t, c->kind, c->key.len, high_len, c->value_len);
    struct bw_delta *d = room_in(bw_bottom(head), size);
    bool alone = d == NULL;
    if (alone) {
        d = *spare ? *spare : ll_bwtree__alloc(t, size);
        *spare = NULL;
    }
    if (d)
        ll_bwtree__delta_fill(t, d, head, at, c, alone);
    return d;
}

struct bw_delta *ll_bwtree__delta(struct lladd_bwtree *t, const struct bw_state *head, uint32_t at,
                                  const struct bw_change *c)
{
    void *none = NULL;
    return ll_bwtree__delta_in(t, head, at, c, &none);
}

void ll_bwtree__delta_free(struct lladd_bwtree *t, const struct bw_delta *d)
{
    if (d->s.alone)
        ll_bwtree__free(t, (void *)(uintptr_t)d,
                        ll_bwtree__delta_size(t, (enum bw_kind)d->s.kind, d->key_len, d->high_len,
                                              d->value_len));
}
