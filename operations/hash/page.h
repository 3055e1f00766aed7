/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_HASH_PAGE_H
#define LL_OPERATIONS_HASH_PAGE_H
/* The bytes of a bucket page: see page.c. fixed.c and var.c implement the two layouts. */
#include "operations/operations_private.h"

#include <string.h>

#define HB_PAGE_MAX 65536u       /* the largest page */
#define LL_HASH_INLINE_MAX 1000u /* longest key, and longest value, in a bucket page */

/* The header. Together with the common page header it fills the page's first cache line. */
enum {
    HB_ROOT = LLADD_PAGE_HEADER,        /* u48 the table's root page */
    HB_LEVEL = LLADD_PAGE_HEADER + 6,   /* u8 number of low hash bits that all keys share */
    HB_FLAGS = LLADD_PAGE_HEADER + 7,   /* u8 HB_OVERFLOW, HB_CLOSED */
    HB_BUCKET = LLADD_PAGE_HEADER + 8,  /* u48 the value of these bits */
    HB_KEY = LLADD_PAGE_HEADER + 14,    /* u16 length of every key, 0: any */
    HB_NEXT = LLADD_PAGE_HEADER + 16,   /* u48 overflow page, 0: none */
    HB_VALUE = LLADD_PAGE_HEADER + 22,  /* u16 length of every value, 0: any */
    HB_SLOTS = LLADD_PAGE_HEADER + 24,  /* u16 slots */
    HB_LIVE = LLADD_PAGE_HEADER + 26,   /* u16 slots with an element */
    HB_GHOSTS = LLADD_PAGE_HEADER + 28, /* u16 slots with a ghost */
    HB_AREA = LLADD_PAGE_HEADER + 30,   /* u16 var.c: end of the entries */
    HB_ENTRIES = LLADD_PAGE_HEADER + 32
};
#define HB_HEAD_BYTES 24u /* bytes of the header, from HB_ROOT on, in a format record */
#define HB_LEVEL_MAX 47u
#define HB_OVERFLOW 1u
#define HB_CLOSED 2u /* the page is no bucket yet, or no longer one */

/* A tag: 15 bits of the hash, never 0, and a bit for ghosts. */
#define HB_GHOST 0x8000u
/* Flag in key and value lengths (var.c): the bytes are a reference to a blob. */
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
/* The header as words, from HB_ROOT on. */
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

/* An entry; the pointers point into the page. Lengths include the flag HB_BLOB. */
struct hb_entry {
    const unsigned char *key, *value;
    uint16_t tag; /* includes HB_GHOST */
    uint16_t key_len, value_len;
    uint16_t cap; /* room for the value, in bytes */
};
#define HB_LEN(x) ((x) & (HB_BLOB - 1u))

/* References to blobs. Key: u64 hash, u64 another hash, u64 length, u64 blob. Long keys with the
 * same two hashes and the same length count as equal. Value: u64 length, u64 blob. */
#define HB_KEY_REF 32u
#define HB_KEY_REF_SAME 24u
#define HB_VALUE_REF 16u

/* A key to search for. */
struct hb_key {
    const unsigned char *bytes;
    uint16_t len; /* includes HB_BLOB */
    uint16_t tag;
    unsigned char ref[HB_KEY_REF]; /* for a long key: what `bytes` points at */
};

/* The result of a search: the key's slot, and where a new entry could go. */
struct hb_place {
    uint32_t slot;  /* the key's slot; HB_NONE: the key was not found */
    uint32_t ghost; /* first slot on the way with another key's ghost; HB_NONE: there is none */
    uint32_t free;  /* first free slot; HB_NONE: there is none */
};
#define HB_NONE UINT32_MAX

/* The home slot of a tag, in the fixed layout. */
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

/* The two layouts. If `head_fine` holds, `fine`, `find`, and `entry` of a slot < HB_SLOTS read only
 * bytes of the page, whatever the other bytes are. */
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
/* Length of the packed entry at p; 0: it is invalid, or longer than n bytes. */
size_t ll_hash__fixed_packed(const unsigned char *page, const unsigned char *p, size_t n);
size_t ll_hash__var_packed(const unsigned char *p, size_t n);
/* Stores the entry in a slot; an entry that is there is replaced. */
void ll_hash__fixed_store(unsigned char *page, uint32_t slot, const unsigned char *packed);
void ll_hash__fixed_empty(unsigned char *page, uint32_t slot);
void ll_hash__var_store(unsigned char *page, uint32_t size, uint32_t slot,
                        const unsigned char *packed);
/* Stores n bytes of packed entries, each in the first empty slot from its home on. */
void ll_hash__fixed_fill(unsigned char *page, const unsigned char *packed, size_t n);
/* Drops the entries in the slots of the bitmap `drop`; cuts the slack of the entries in the
 * slots of `trim` (nullable). */
void ll_hash__fixed_drop(unsigned char *page, const unsigned char *drop);
void ll_hash__var_drop(unsigned char *page, uint32_t size, const unsigned char *drop,
                       const unsigned char *trim);
/* live: bytes of the elements without slack, with their directory entries. taken: the bytes of
 * elements, ghosts, slack, and a directory entry for each slot, which stay in use after a
 * compaction. */
struct hb_use {
    uint32_t live, taken;
};
struct hb_use ll_hash__var_use(const unsigned char *page, uint32_t size);

/* The following functions are for either layout. */
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
/* Bytes that an entry takes in a record; writes the entry into a record. */
size_t ll_hash__pack_size(bool fixed, const struct hb_entry *);
void ll_hash__pack(unsigned char *to, bool fixed, const struct hb_entry *);
/* Slots of a page in the fixed layout; bytes for entries and directory in the variable layout. */
uint32_t ll_hash__fixed_slots(uint32_t page_size, uint32_t key_size, uint32_t value_size);
static inline uint32_t ll_hash__var_bytes(uint32_t page_size)
{
    return page_size - HB_ENTRIES;
}
#define HB_VAR_DIR 4u  /* u16 tag (0: unused), u16 offset of the entry */
#define HB_VAR_HEAD 8u /* u16 slot (UINT16_MAX: dropped), u16 key_len, u16 value_len, u16 cap */

/* ---- arguments of the operations ------------------------------------------------------------- */

struct ll_hash_table;

/* A change of one key. */
struct hb_change {
    struct ll_hash_table *table;
    struct lladd_txn *txn;
    const struct lladd_op *op; /* for the operation `slot`: the operation that it does, put or
                                * remove */
    struct hb_key key;
    uint64_t hash, buckets; /* hash of the key; assumed number of buckets */
    lladd_pageno page;      /* the bucket's page, if `buckets` is right */
    const unsigned char *value;
    uint16_t value_len;
    bool chain;  /* the whole chain has been searched: this page's answer is final */
    bool only;   /* put: do not replace an element */
    bool revive; /* put: the transaction has a reservation, so it may replace a reserved ghost */
    /* Results. The next three are in slots (fixed layout) or bytes. full: what elements without
     * slack take after the change. of: what the page has in total. empty: what was free before the
     * change. What is neither `full` nor `empty` is taken by ghosts and slack. */
    uint32_t full, of, empty;
    uint32_t slot;
    enum hb_answer {
        HB_DONE = 0,
        HB_MOVED,   /* the page is not the key's bucket any more */
        HB_CHAINED, /* there are overflow pages to search */
        HB_FULL,    /* no room */
        HB_PRESENT, /* put with `only`: the key has an element */
        HB_REVIVE,  /* put: the key has a ghost with a reservation */
        HB_KEYLESS, /* put: the key has no element, and the blob for a long key is missing */
        HB_ABSENT   /* remove: the key is not there */
    } answer;
    bool inserted; /* put: the key had no element */
    lladd_pageno gone_key, gone_value; /* blobs without an entry after the change, or 0 */
    unsigned char *old;                /* nullable: `only` copies the present value to it */
    size_t old_size, old_len;          /* room at `old`; length of the present value */
    bool old_blob;                     /* the present value is in a blob */
};

extern const struct lladd_op ll_hash__bucket_format, ll_hash__put, ll_hash__remove, ll_hash__mark,
    ll_hash__restore, ll_hash__narrow, ll_hash__widen, ll_hash__slot, ll_hash__bytes;
/* Operations that only earlier versions logged. */
extern const struct lladd_op ll_hash__old[7], ll_hash__old_bytes[1];
extern const struct lladd_page_type ll_hash__bucket_page;

/* Drafts the record of an insertion on the fast path; false: take the general path. insert.c */
bool ll_hash__insert_usual(struct hb_change *, struct lladd_view, struct lladd_draft *);
#define HB_UNDO_HEAD 9u      /* u64 root, u8 flags */
#define HB_PUT_UNDO_HEAD 11u /* undo bytes of put: u64 root, u8 flags, u16 key length */
/* Flags in undo bytes. HB_FLAG_KEY, HB_FLAG_VALUE: the key, or the value, is a reference.
 * HB_FLAG_GHOST: the key had a ghost. HB_FLAG_NOTHING: the key had no entry, or a ghost without a
 * reservation. */
enum { HB_FLAG_KEY = 1, HB_FLAG_VALUE = 2, HB_FLAG_GHOST = 4, HB_FLAG_NOTHING = 8 };

/* Arguments of mark, and of restore. */
struct hb_mark {
    uint32_t slot;
    bool ghost;
};
struct hb_restore {
    uint32_t slot;
    struct hb_entry entry;
};
/* Arguments of format and widen. */
struct hb_fill {
    unsigned char head[HB_HEAD_BYTES]; /* format */
    unsigned level;              /* widen */
    const unsigned char *packed; /* entries in the form that records have */
    size_t len;
};
/* Arguments of narrow. */
struct hb_narrow {
    unsigned level;
    bool close;
    const unsigned char *drop, *trim; /* bitmaps of HB_SLOTS bits; trim NULL: none */
};
/* Argument of bytes: the new contents of the page. */
struct hb_bytes {
    const unsigned char *page;
};

#endif
