/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_BTREE_NODE_H
#define LL_OPERATIONS_BTREE_NODE_H
/* The bytes of a node: see node.c. search.c finds keys in it. */
#include "operations/operations_private.h"

#include <string.h>

#define BT_PAGE_MAX 65536u /* the largest page */
#define BT_KEY_MAX 1000u   /* the longest key */

/* The header. Together with the common page header it fills the page's first cache line. */
enum {
    BT_ROOT = LLADD_PAGE_HEADER,        /* u48 the tree's root page */
    BT_LEVEL = LLADD_PAGE_HEADER + 6,   /* u8 0: leaf */
    BT_FLAGS = LLADD_PAGE_HEADER + 7,   /* u8 BT_CLOSED */
    BT_RIGHT = LLADD_PAGE_HEADER + 8,   /* u48 the next node of the level, 0: none */
    BT_SLOTS = LLADD_PAGE_HEADER + 14,  /* u16 slots */
    BT_GHOSTS = LLADD_PAGE_HEADER + 16, /* u16 slots with a ghost */
    BT_PREFIX = LLADD_PAGE_HEADER + 18, /* u16 bytes that all keys of the node have in common */
    BT_USED = LLADD_PAGE_HEADER + 20,   /* u16 bytes of entries, including dropped entries */
    BT_LOW = LLADD_PAGE_HEADER + 22,    /* u16 length of the low fence */
    BT_HIGH = LLADD_PAGE_HEADER + 24,   /* u16 length of the high fence; BT_OPEN_END: none */
    BT_SPARE = LLADD_PAGE_HEADER + 26,  /* u48 page for the next split, 0: none */
    BT_SLOT_AREA = LLADD_PAGE_HEADER + 32
};
#define BT_CLOSED 1u
#define BT_OPEN_END UINT16_MAX
#define BT_LEVEL_MAX 40u
#define BT_SLOT 6u       /* u32 head of the key, u16 offset of the entry */
#define BT_ENTRY_HEAD 6u /* u16 key length, u16 value length, u16 room for the value */
#define BT_CHILD 6u      /* bytes of the value in an inner node: u48 page */
#define BT_GHOST 0x8000u /* flag in the key length */
#define BT_BLOB 0x8000u  /* flag in the value length: the value is a reference to a blob */
#define BT_REF 16u       /* a reference: u64 length, u64 blob */
#define BT_LEN(x) ((x)&0x7fffu)
#define BT_ROOMY 0x4000u /* flag in the key length of the short form: the u16 room follows */

static inline uint32_t bt_get(const unsigned char *page, unsigned field)
{
    return lladd_get16(page + field);
}
static inline void bt_set(unsigned char *page, unsigned field, uint32_t v)
{
    lladd_put16(page + field, (uint16_t)v);
}

/* An entry; the pointers point into the page or the caller's memory. */
struct bt_entry {
    const unsigned char *key, *value;
    uint16_t key_len;   /* includes BT_GHOST */
    uint16_t value_len; /* includes BT_BLOB */
    uint16_t cap;       /* room for the value, in bytes */
};

/* A key to search for. */
struct bt_key {
    const unsigned char *bytes;
    uint32_t len;
};

/* The two fences of a node. */
struct bt_fences {
    struct bt_key low, high;
    bool open_end; /* no high fence: the node is the last one of its level */
};

static inline struct bt_fences bt_fences_of(const unsigned char *page, uint32_t size)
{
    uint32_t low = bt_get(page, BT_LOW), high = bt_get(page, BT_HIGH);
    bool open = high == BT_OPEN_END;
    return (struct bt_fences){
        {page + size - low, low}, {page + size - low - (open ? 0 : high), open ? 0 : high}, open};
}
/* The end of the entries. */
static inline uint32_t bt_end(const unsigned char *page, uint32_t size)
{
    uint32_t high = bt_get(page, BT_HIGH);
    return size - bt_get(page, BT_LOW) - (high == BT_OPEN_END ? 0 : high);
}
static inline unsigned char *bt_slot(unsigned char *page, uint32_t slot)
{
    return page + BT_SLOT_AREA + (size_t)BT_SLOT * slot;
}
static inline const unsigned char *bt_slot_at(const unsigned char *page, uint32_t slot)
{
    return page + BT_SLOT_AREA + (size_t)BT_SLOT * slot;
}
static inline uint32_t bt_entry_size(uint32_t key_len, uint32_t cap)
{
    return BT_ENTRY_HEAD + key_len + cap;
}
static inline struct bt_entry bt_entry_of(const unsigned char *page, uint32_t slot)
{
    const unsigned char *p = page + lladd_get16(bt_slot_at(page, slot) + 4);
    struct bt_entry e = {
        .key_len = lladd_get16(p), .value_len = lladd_get16(p + 2), .cap = lladd_get16(p + 4)};
    e.key = p + BT_ENTRY_HEAD;
    e.value = e.key + BT_LEN(e.key_len);
    return e;
}
static inline struct bt_key bt_entry_key(const struct bt_entry *e)
{
    return (struct bt_key){e->key, BT_LEN(e->key_len)};
}
static inline lladd_pageno bt_child(const struct bt_entry *e)
{
    return lladd_page_of(lladd_get48(e->value));
}

/* Order of two keys: negative, 0 or positive. */
static inline int bt_compare(struct bt_key a, struct bt_key b)
{
    uint32_t n = a.len < b.len ? a.len : b.len;
    int c = n ? memcmp(a.bytes, b.bytes, n) : 0;
    return c ? c : (a.len > b.len) - (a.len < b.len);
}
static inline bool bt_covers(const unsigned char *page, uint32_t size, struct bt_key key)
{
    struct bt_fences f = bt_fences_of(page, size);
    return bt_compare(key, f.low) >= 0 && (f.open_end || bt_compare(key, f.high) < 0);
}
/* The four bytes after the prefix, as a number; zeros after the key's end. */
static inline uint32_t bt_head(struct bt_key key, uint32_t prefix)
{
    if (prefix + 4 <= key.len)
        return __builtin_bswap32(lladd_get32(key.bytes + prefix));
    if (prefix >= key.len)
        return 0;
    if (key.len >= 4) /* loads the key's last four bytes, and shifts out those that belong to the
                       * prefix */
        return __builtin_bswap32(lladd_get32(key.bytes + key.len - 4))
               << 8 * (prefix + 4 - key.len);
    uint32_t head = 0;
    for (uint32_t i = 0; i < 4; i++)
        head = head << 8 | (prefix + i < key.len ? key.bytes[prefix + i] : 0);
    return head;
}
uint32_t ll_btree__common(struct bt_key a, struct bt_key b);
/* The shortest key that is greater than `before` and not greater than `key`; the bytes are those of
 * `key`. */
static inline struct bt_key bt_separator(struct bt_key before, struct bt_key key)
{
    return (struct bt_key){key.bytes, ll_btree__common(before, key) + 1};
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* The longest key, and the longest entry (head, key and value) without a blob: if an entry would be
 * longer, its value goes into a blob. Two of the longest entries fit into a leaf with the longest
 * fences, and three children into an inner node. So a full node can be split. */
static inline uint32_t ll_btree__key_max(uint32_t page_size)
{
    uint32_t most = (page_size - BT_SLOT_AREA) / 4 - 15;
    return most < BT_KEY_MAX ? most : BT_KEY_MAX;
}
static inline uint32_t ll_btree__entry_max(uint32_t page_size)
{
    uint32_t half = (page_size - BT_SLOT_AREA) / 2 - ll_btree__key_max(page_size) - BT_SLOT;
    return half < page_size / 4 ? half : page_size / 4;
}

/* ---- node.c ---------------------------------------------------------------------------------- */

/* May the page's bytes be read as a node of its level? If so, all other functions access only bytes
 * of the page. */
bool ll_btree__fine(struct lladd_view);
/* gap returns the bytes that are free between slots and entries, room those that are free after a
 * compaction. */
uint32_t ll_btree__gap(const unsigned char *page, uint32_t size);
uint32_t ll_btree__room(const unsigned char *page, uint32_t size);
/* Entries in records. pack_size returns the number of bytes of an entry in a record, and pack
 * writes the entry. unpack reads an entry and returns its length, or 0 if the entry is invalid or
 * longer than n bytes. */
size_t ll_btree__pack_size(const struct bt_entry *);
void ll_btree__pack(unsigned char *to, const struct bt_entry *);
size_t ll_btree__unpack(const unsigned char *p, size_t n, struct bt_entry *out);
/* Like pack and unpack, but in the short form, which leaves out the first `prefix` bytes of the
 * key. pack_short returns the length, which is not greater than that of the long form. */
size_t ll_btree__pack_short(unsigned char *to, const struct bt_entry *, uint32_t prefix);
size_t ll_btree__unpack_short(const unsigned char *p, size_t n, struct bt_entry *out);
/* The bytes that all keys between the fences have in common. */
uint32_t ll_btree__prefix(const struct bt_fences *);
/* Adds an entry in front of this slot; the caller has checked the room. */
void ll_btree__add(unsigned char *page, uint32_t size, uint32_t slot, const struct bt_entry *);
/* Gives the slot's entry another value, in place if its room is enough. Sets or clears the ghost
 * flag as the entry says. */
void ll_btree__change(unsigned char *page, uint32_t size, uint32_t slot, const struct bt_entry *);
void ll_btree__set_ghost(unsigned char *page, uint32_t slot, bool ghost);
/* Drops the slots in [from, to). */
void ll_btree__drop(unsigned char *page, uint32_t from, uint32_t to);
/* Cuts the room of the slot's entry to its value. */
void ll_btree__trim(unsigned char *page, uint32_t slot);
/* Closes the gaps between entries. */
void ll_btree__compact(unsigned char *page, uint32_t size);
/* Gives the node another high fence, after a compaction; the caller has checked the room. */
void ll_btree__set_high(unsigned char *page, uint32_t size, struct bt_key high, bool open_end);
/* Makes the page an empty node between the fences. Root, level, right link and spare stay. */
void ll_btree__clear(unsigned char *page, uint32_t size, const struct bt_fences *);

/* ---- search.c -------------------------------------------------------------------------------- */

/* The result of a search. */
struct bt_place {
    uint32_t slot; /* the first slot with a key that is not less than the search key */
    bool found;    /* the slot's key is equal to the search key */
};
/* Finds a key that the node covers. */
void ll_btree__find(const unsigned char *page, uint32_t size, struct bt_key, struct bt_place *);
/* The slot of the child for a key that the inner node covers. */
uint32_t ll_btree__child_slot(const unsigned char *page, uint32_t size, struct bt_key);

#endif
