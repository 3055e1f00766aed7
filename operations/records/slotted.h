/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_SLOTTED_H
#define LL_OPERATIONS_SLOTTED_H
/* The bytes of a slotted page, and the arguments of its operations. See slotted_page.c. */
#include "operations/operations_private.h"

#define SLOT_BYTES 6u
#define SLOT_DIR (LLADD_PAGE_HEADER + 24u)
#define SLOT_GHOST 0x8000u
#define SLOT_ALIGN 4u /* alignment of records; the two low bits of a slot's capacity are its tag */
#define SLOT_CAP_MIN 8u
#define SLOT_NONE UINT32_MAX
#define LL_SLOTTED_PURGE_MAX 512u /* slots in one purge record */

/* Fields of the page's own header. */
enum {
    SLOTTED_SLOTS = LLADD_PAGE_HEADER,      /* u16 entries in the directory */
    SLOTTED_UNUSED = LLADD_PAGE_HEADER + 2, /* u16 entries in the directory without a record */
    SLOTTED_AREA = LLADD_PAGE_HEADER + 4,   /* u16 bytes from the lowest record to the page's end */
    SLOTTED_HOLES = LLADD_PAGE_HEADER + 6,  /* u16 bytes of the area that belong to no slot */
    SLOTTED_GHOSTS = LLADD_PAGE_HEADER + 8, /* u16 slots with a ghost */
    SLOTTED_IDLE = LLADD_PAGE_HEADER + 10,  /* u16 bytes a purge could free: ghosts and slack */
    SLOTTED_OWNER = LLADD_PAGE_HEADER + 16  /* u64 chosen by the page's owner */
};

struct slot {
    uint32_t at;  /* offset in the page; 0: unused */
    uint32_t len; /* length of the contents */
    uint32_t cap; /* bytes that the record occupies, a multiple of SLOT_ALIGN */
    unsigned tag; /* 0 to 3 */
    bool ghost;   /* freed; the contents are kept for undo */
};

static inline uint32_t slotted_get(const unsigned char *page, unsigned field)
{
    return lladd_get16(page + field);
}

/* The entry of slot s, which must be below SLOTTED_SLOTS. */
static inline struct slot slot_get(const unsigned char *page, uint32_t s)
{
    const unsigned char *p = page + SLOT_DIR + s * SLOT_BYTES;
    uint32_t at = lladd_get16(p), cap = lladd_get16(p + 4);
    struct slot e = {(at & ~SLOT_GHOST) * SLOT_ALIGN, lladd_get16(p + 2), cap & ~(SLOT_ALIGN - 1),
                     cap & (SLOT_ALIGN - 1), (at & SLOT_GHOST) != 0};
    return e;
}

/* The least number of bytes that a record of this length occupies. */
static inline uint32_t slot_need(uint32_t len)
{
    uint32_t cap = (len + SLOT_ALIGN - 1) & ~(SLOT_ALIGN - 1);
    return cap < SLOT_CAP_MIN ? SLOT_CAP_MIN : cap;
}

/* slotted_gap returns the bytes between directory and records now, slotted_free those after a
 * compaction. */
static inline uint32_t slotted_gap(const unsigned char *page, uint32_t size)
{
    return size - slotted_get(page, SLOTTED_AREA) - SLOT_DIR -
           slotted_get(page, SLOTTED_SLOTS) * SLOT_BYTES;
}
static inline uint32_t slotted_free(const unsigned char *page, uint32_t size)
{
    return slotted_gap(page, size) + slotted_get(page, SLOTTED_HOLES);
}

/* head_fine returns whether the header is valid, so that the directory may be read; slot_fine
 * whether the header and the entry of the slot are valid, so that the record may be read. */
bool ll_operations__slotted_head_fine(struct lladd_view);
bool ll_operations__slot_fine(struct lladd_view, uint32_t slot);
/* Is every entry valid or unused, and do records and holes add up to the area? Needed before
 * records are moved. */
bool ll_operations__slotted_fine(struct lladd_view);

struct ll_slotted_state {
    uint64_t owner;
    uint32_t free; /* bytes for records and directory entries */
    uint32_t idle; /* bytes of ghosts and slack: a purge adds those without reservation to `free` */
};

/* Arguments of the operations, passed to lladd_update. */
struct ll_slotted_alloc {
    const unsigned char *bytes; /* NULL: zeros */
    uint32_t len; /* length of the record; the operation stores at most LLADD_SLOTTED_PIECE bytes */
    unsigned tag;
    uint32_t slot;                 /* out */
    uint32_t short_of;             /* out: the number of bytes missing, above 0 with
                                    * LLADD_PAGE_FULL */
    struct ll_slotted_state state; /* out: the state after the operation, or the present state with
                                    * LLADD_PAGE_FULL */
};

/* Replaces contents [from, from + cut) by `len` bytes; the contents after them move. */
struct ll_slotted_set {
    struct ll_reservation_txn *owner; /* the transaction's reservations; NULL: none */
    const unsigned char *bytes;       /* NULL: zeros */
    uint32_t slot;
    uint32_t from, cut, len;
    uint32_t new_tag;              /* SLOT_NONE: keeps the old tag */
    bool whole;                    /* replaces all contents: `from` and `cut` are ignored */
    bool wants_hold;               /* out, with LLADD_BUSY: the record shrinks, so the caller must
                                    * reserve its bytes first */
    uint32_t short_of;             /* out, with LLADD_PAGE_FULL: the number of bytes missing */
    struct ll_slotted_state state; /* out, if the record outgrows its bytes: the state before the
                                    * operation */
};

struct ll_slotted_free {
    uint32_t slot;
    struct ll_slotted_state state; /* out: after the operation */
};

/* record_store does what lladd_slotted_alloc does, without the checks of the arguments. record_drop
 * does what lladd_slotted_free does. Both have more results. */
int ll_operations__record_store(struct lladd_txn *, lladd_pageno, struct ll_slotted_alloc *);
int ll_operations__record_drop(struct lladd_txn *, lladd_pageno, struct ll_slotted_free *);

#endif
