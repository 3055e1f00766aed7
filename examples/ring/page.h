/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef EXAMPLE_RING_PAGE_H
#define EXAMPLE_RING_PAGE_H
/* The pages of a ring.
 * Head: u64 next number, u64 first number in use, u64 items, u16 item size, u16 slots per page, u16
 * pages, u16 0, then u64 page numbers. Item `number` is in slot `number` modulo the capacity.
 * Items: u16 item size, u16 slots, then the slots: u8 state, the item. */
#include <lladd/bytes.h>
#include <lladd/op.h>

#include "ring.h"

#define RING_HEAD "example.ring"
#define RING_ITEMS "example.ring.items"

enum { NEXT = 0, FIRST = 8, COUNT = 16, SIZE = 24, SLOTS = 26, PAGES = 28, LIST = 32, SLOT0 = 4 };
enum { UNUSED = 0, FILLED = 1, TAKEN = 2 };
enum { MOVE = 24, SET_HEAD = 3, UNDO = 16 };
/* Most log bytes of one record of each operation, with redo and undo bytes. */
enum { SET_LOG = 2 * (SET_HEAD + RING_ITEM_MAX) + 128, MOVE_LOG = 2 * MOVE + 128 };

static inline size_t slot_at(const unsigned char *body, unsigned slot)
{
    return SLOT0 + (size_t)slot * (1u + lladd_get16(body));
}
static inline uint64_t capacity(const unsigned char *head)
{
    return (uint64_t)lladd_get16(head + SLOTS) * lladd_get16(head + PAGES);
}
/* Writes the bytes of a move: the amounts to add to the numbers of the head page. */
static inline unsigned char *move_make(unsigned char *to, int64_t next, int64_t first,
                                       int64_t count)
{
    lladd_put64(to + NEXT, (uint64_t)next);
    lladd_put64(to + FIRST, (uint64_t)first);
    lladd_put64(to + COUNT, (uint64_t)count);
    return to;
}

/* True if the head page's numbers are valid, so that its list of pages may be read. */
bool head_sane(struct lladd_view);
bool items_sane(struct lladd_view);

extern const struct lladd_op ring_head_format, ring_items_format, ring_set, ring_move, ring_put_op;
extern const struct lladd_page_type ring_head_page, ring_items_page;
/* ring.c */
int ring_put_back(void *ctx, struct lladd_txn *, struct lladd_span undo);
#endif
