/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_HASH_PAGE_H
#define LL_OPERATIONS_HASH_PAGE_H
/* The bytes of a bucket page: see page.c. The two layouts, fixed.c and var.c, are used through the
 * functions declared here by whoever need not know which it is. */
#include "operations/operations_private.h"

#include <string.h>

#define LL_HASH_INLINE_MAX 1000u /* longest key, and longest value, in a bucket page */

/* The header, behind that of every page; it ends with the page's first cache line. */
enum {
    HB_ROOT = LLADD_PAGE_HEADER,        /* u48 the table's root page */
    HB_LEVEL = LLADD_PAGE_HEADER + 6,   /* u8 low bits of the hash that all keys have in common */
    HB_FLAGS = LLADD_PAGE_HEADER + 7,   /* u8 HB_OVERFLOW, HB_CLOSED */
    HB_BUCKET = LLADD_PAGE_HEADER + 8,  /* u48 these bits */
    HB_KEY = LLADD_PAGE_HEADER + 14,    /* u16 length of every key, 0: any */
    HB_NEXT = LLADD_PAGE_HEADER + 16,   /* u48 overflow page, 0: none */
    HB_VALUE = LLADD_PAGE_HEADER + 22,  /* u16 length of every value, 0: any */
    HB_SLOTS = LLADD_PAGE_HEADER + 24,  /* u16 slots */
    HB_LIVE = LLADD_PAGE_HEADER + 26,   /* u16 of these with an element */
    HB_GHOSTS = LLADD_PAGE_HEADER + 28, /* u16 of these with a ghost */
    HB_AREA = LLADD_PAGE_HEADER + 30,   /* u16 var.c: where the entries end */
    HB_ENTRIES = LLADD_PAGE_HEADER + 32
};
#define HB_HEAD_BYTES 24u /* of it, which a format record brings */
#define HB_LEVEL_MAX 47u
#define HB_OVERFLOW 1u
#define HB_CLOSED 2u /* no bucket: not yet, or not any more */

/* A tag: 15 bits of the hash, never 0, and whether the entry is a ghost. */
#define HB_GHOST 0x8000u
/* Key and value lengths in var.c: the bytes are a reference to a blob. */
#define HB_BLOB 0x8000u

static inline uint32_t hb_get(const unsigned char *page, unsigned field)
{
    return lladd_get16(page + field);
}
static inline void hb_set(unsigned char *page, unsigned field, uint32_t v)
{
    lladd_put16(page + field, (uint16_t)v);
}
static inline bool hb_is_fixed(const unsigned char *page)
{
    return hb_get(page, HB_KEY) && hb_get(page, HB_VALUE);
}
/* The header's words, from HB_ROOT on. */
struct hb_head {
    uint64_t root, bucket, next, slots;
};
static inline struct hb_head hb_head_of(const unsigned char *page)
{
    return (struct hb_head){lladd_get64(page + HB_ROOT), lladd_get64(page + HB_BUCKET),
                            lladd_get64(page + HB_NEXT), lladd_get64(page + HB_SLOTS)};
}
static inline uint32_t hb_live_of(const struct hb_head *h)
{
    return h->slots >> 16 & 0xffff;
}
static inline uint32_t hb_ghosts_of(const struct hb_head *h)
{
    return h->slots >> 32 & 0xffff;
}
static inline uint16_t hb_tag(uint64_t hash)
{
    uint16_t tag = (uint16_t)(hash >> 49);
    return tag ? tag : 1;
}
/* Does a page of this level and bucket hold keys with that hash? */
static inline bool hb_covers(const unsigned char *page, uint64_t hash)
{
    unsigned level = page[HB_LEVEL];
    return level <= HB_LEVEL_MAX &&
           (hash & ((UINT64_C(1) << level) - 1)) == lladd_get48(page + HB_BUCKET);
}

/* An entry; the spans point into the page. Lengths carry HB_BLOB. */
struct hb_entry {
    const unsigned char *key, *value;
    uint16_t tag; /* with HB_GHOST */
    uint16_t key_len, value_len;
    uint16_t cap; /* bytes its value may take where it is */
};
#define HB_LEN(x) ((x) & (HB_BLOB - 1u))

/* What stands for a long key or value in an entry. Two keyed hashes and the length say whether two
 * long keys are the same: u64 hash, u64 another hash, u64 length, u64 blob. Of a value: u64 length,
 * u64 blob. */
#define HB_KEY_REF 32u
#define HB_KEY_REF_SAME 24u
#define HB_VALUE_REF 16u

/* What is looked for. */
struct hb_key {
    const unsigned char *bytes;
    uint16_t len; /* with HB_BLOB */
    uint16_t tag;
    unsigned char ref[HB_KEY_REF]; /* what `bytes` points at, if the key is long */
};

/* Where it is, and where something new could go: a slot with its ghost, or with nothing. */
struct hb_place {
    uint32_t slot;  /* of the key; HB_NONE */
    uint32_t ghost; /* first one with another key's ghost on the way; HB_NONE */
    uint32_t free;  /* HB_NONE: none */
};
#define HB_NONE UINT32_MAX

/* The slot where the search for a tag begins, in the fixed layout. */
static inline uint32_t ll_hash__fixed_home(uint16_t tag, uint32_t slots)
{
    return (uint32_t)(tag & (HB_GHOST - 1)) * slots >> 15;
}
static inline bool ll_hash__same_key(const unsigned char *a, const unsigned char *b, uint32_t n)
{
    if (n == 8)
        return lladd_get64(a) == lladd_get64(b);
    if (n == 4)
        return lladd_get32(a) == lladd_get32(b);
    return memcmp(a, b, n) == 0;
}

/* The two layouts. Offsets stay inside the page whatever the bytes are, if `head_fine` says so. */
bool ll_hash__fixed_head_fine(struct lladd_view);
bool ll_hash__var_head_fine(struct lladd_view);
bool ll_hash__fixed_fine(struct lladd_view);
bool ll_hash__var_fine(struct lladd_view);
bool ll_hash__fixed_entry(const unsigned char *page, uint32_t slot, struct hb_entry *out);
bool ll_hash__var_entry(const unsigned char *page, uint32_t size, uint32_t slot,
                        struct hb_entry *out);
void ll_hash__fixed_find(const unsigned char *page, const struct hb_key *, struct hb_place *out);
void ll_hash__var_find(const unsigned char *page, uint32_t size, const struct hb_key *,
                       struct hb_place *out);
void ll_hash__fixed_clear(unsigned char *page, uint32_t size);
void ll_hash__var_clear(unsigned char *page, uint32_t size);
/* An entry as records have it: how long it is at p; 0: it does not fit into n bytes or the page. */
size_t ll_hash__fixed_packed(const unsigned char *page, const unsigned char *p, size_t n);
size_t ll_hash__var_packed(const unsigned char *p, size_t n);
/* Puts it into a slot in place of what is there. */
void ll_hash__fixed_store(unsigned char *page, uint32_t slot, const unsigned char *packed);
void ll_hash__fixed_empty(unsigned char *page, uint32_t slot);
void ll_hash__var_store(unsigned char *page, uint32_t size, uint32_t slot,
                        const unsigned char *packed);
/* Puts n bytes of entries where their hashes say. */
void ll_hash__fixed_fill(unsigned char *page, const unsigned char *packed, size_t n);
/* Takes the slots of a bitmap away; those of the other give up what their values do not need. */
void ll_hash__fixed_drop(unsigned char *page, const unsigned char *drop);
void ll_hash__var_drop(unsigned char *page, uint32_t size, const unsigned char *drop,
                       const unsigned char *trim);
/* Bytes of the elements, their directory entries included; and all bytes that are not free once
 * everything is moved together: ghosts, slack, and a directory entry for each slot, too. */
struct hb_use {
    uint32_t live, taken;
};
struct hb_use ll_hash__var_use(const unsigned char *page, uint32_t size);

/* Whichever it is. */
bool ll_hash__head_fine(struct lladd_view);
bool ll_hash__fine(struct lladd_view);
static inline bool ll_hash__entry(struct lladd_view v, uint32_t slot, struct hb_entry *out)
{
    return hb_is_fixed(v.bytes) ? ll_hash__fixed_entry(v.bytes, slot, out)
                                : ll_hash__var_entry(v.bytes, v.size, slot, out);
}
static inline void ll_hash__find(struct lladd_view v, const struct hb_key *key,
                                 struct hb_place *out)
{
    if (hb_is_fixed(v.bytes))
        ll_hash__fixed_find(v.bytes, key, out);
    else
        ll_hash__var_find(v.bytes, v.size, key, out);
}
/* Bytes an entry takes in a record; writes it there. */
size_t ll_hash__pack_size(bool fixed, const struct hb_entry *);
void ll_hash__pack(unsigned char *to, bool fixed, const struct hb_entry *);
void ll_hash__unpack(const unsigned char *head, const unsigned char *p, struct hb_entry *out);
/* Entries of the fixed layout a page takes; bytes for entries of the other one. */
uint32_t ll_hash__fixed_slots(uint32_t page_size, uint32_t key_size, uint32_t value_size);
static inline uint32_t ll_hash__var_bytes(uint32_t page_size)
{
    return page_size - HB_ENTRIES;
}
#define HB_VAR_DIR 4u  /* u16 tag (0: unused), u16 where the entry is */
#define HB_VAR_HEAD 8u /* u16 slot (UINT16_MAX: dropped), u16 key_len, u16 value_len, u16 cap */

/* ---- what the operations are asked with ------------------------------------------------------ */

struct ll_hash_table;

/* A change of one key. */
struct hb_change {
    struct ll_hash_table *table;
    struct lladd_txn *txn;
    const struct lladd_op *op; /* slot: whose change it is to be */
    struct hb_key key;
    uint64_t hash, buckets; /* among so many */
    lladd_pageno page;      /* its bucket is this one */
    const unsigned char *value;
    uint16_t value_len;
    bool chain;  /* the whole chain has been looked at: this page's answer counts */
    bool revive; /* replace: a ghost is as good as an element */
    bool inserted; /* out, of a put: there was no value */
    bool brief;  /* replace: nothing but short values, please */
    /* out */
    /* How much of the page elements take once the change is made, in slots (fixed) or bytes, and
     * how much was free. The rest are ghosts and slack, which come back without a split. */
    uint32_t full, of, empty;
    uint32_t slot;
    enum hb_answer {
        HB_DONE = 0,
        HB_MOVED,   /* not its bucket any more */
        HB_CHAINED, /* there are overflow pages to look at */
        HB_FULL,    /* no room */
        HB_PRESENT, /* insert: it is there */
        HB_REVIVE,  /* insert: it is there as a ghost that somebody may want back */
        HB_ABSENT   /* replace, remove: it is not there */
    } answer;
    lladd_pageno gone_key, gone_value; /* blobs that the change has left without an entry, or 0 */
    unsigned char *old;                /* nullable: insert copies the value it finds there to it */
    size_t old_size, old_len;
    bool old_blob;
};

/* The lengths that have to do with how much log an undo may need. */
#define LL_HASH_SHORT 64u /* key, and value, of a short replacement */

extern const struct lladd_op ll_hash__bucket_format, ll_hash__bucket_format_long;
extern const struct lladd_op ll_hash__insert, ll_hash__remove;
extern const struct lladd_op ll_hash__replace, ll_hash__replace_short;
extern const struct lladd_op ll_hash__mark, ll_hash__restore, ll_hash__restore_short;
extern const struct lladd_op ll_hash__narrow, ll_hash__narrow_long, ll_hash__widen,
    ll_hash__widen_long;
extern const struct lladd_op ll_hash__slot, ll_hash__bytes, ll_hash__bytes_long;
extern const struct lladd_page_type ll_hash__bucket_page;

/* Builds the record of an insertion that is as most are, which is all it does; false: it is not.
 * insert.c */
bool ll_hash__insert_usual(struct hb_change *, struct lladd_view, struct lladd_draft *);
#define HB_UNDO_HEAD 9u /* of undo bytes: root, flags */

/* Arguments of mark, and of restore. */
struct hb_mark {
    uint32_t slot;
    bool ghost;
};
struct hb_restore {
    uint32_t slot;
    struct hb_entry entry;
};
/* Of format and widen: a head (format only), and entries out of pages one holds. */
struct hb_fill {
    unsigned char head[HB_HEAD_BYTES];
    unsigned level;              /* widen */
    const unsigned char *packed; /* entries as records have them */
    size_t len;
};
/* Of narrow. */
struct hb_narrow {
    unsigned level;
    bool close;
    const unsigned char *drop, *trim; /* bitmaps of HB_SLOTS bits; trim NULL: none */
};
/* Of bytes: what the page shall be. */
struct hb_bytes {
    const unsigned char *page;
};

#endif
