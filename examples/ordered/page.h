/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef EXAMPLE_ORDERED_PAGE_H
#define EXAMPLE_ORDERED_PAGE_H
/* A page of the structure: u16 number of entries, u16 room, then the entries, sorted by key. In the
 * index page an entry is the lowest key of a leaf and its page number. */
#include <lladd/bytes.h>
#include <lladd/op.h>

enum { HEAD = 4, ENTRY = 17, LIVE = 1, GHOST = 2, SET = 8 + ENTRY };

#define PAGE_TYPE "example.ordered"

static inline uint16_t entries(const unsigned char *body)
{
    return lladd_get16(body);
}
static inline uint16_t room_of(const unsigned char *body)
{
    return lladd_get16(body + 2);
}
static inline const unsigned char *entry_at(const unsigned char *body, unsigned i)
{
    return body + HEAD + (size_t)i * ENTRY;
}
static inline uint64_t key_of(const unsigned char *entry)
{
    return lladd_get64(entry);
}
static inline unsigned state_of(const unsigned char *entry)
{
    return entry[8];
}
static inline uint64_t value_of(const unsigned char *entry)
{
    return lladd_get64(entry + 9);
}
static inline void entry_make(unsigned char *entry, uint64_t key, unsigned state, uint64_t value)
{
    lladd_put64(entry, key);
    entry[8] = (unsigned char)state;
    lladd_put64(entry + 9, value);
}
static inline unsigned fit(uint32_t page_size)
{
    return (lladd_body_size(page_size) - HEAD) / ENTRY;
}

/* The index of the first entry with a key not below `key`; *there: the entry has this key. */
unsigned entry_find(const unsigned char *body, uint64_t key, bool *there);
/* True if the page's header is valid, so that its entries may be read. */
bool page_sane(struct lladd_view);

/* The arguments of a splice. `bytes` may be on another latched page. */
struct splice {
    uint16_t at, drop, n;
    const unsigned char *bytes;
};

extern const struct lladd_op ordered_format, ordered_set, ordered_put_back, ordered_splice;
extern const struct lladd_page_type ordered_page;
/* ordered.c */
int ordered_undo(void *ctx, struct lladd_txn *, struct lladd_span undo);
#endif
