/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_BWTREE_BWTREE_H
#define LL_OPERATIONS_BWTREE_BWTREE_H
/* Bw-trees: see tree.c. The rules BWM-1 to BWM-8 and BWT-1 to BWT-6 are in
 * docs/structures-bwtree.md. */
#include "operations/shared/try.h"

#include <lladd/bwtree.h>
#include <lladd/bytes.h>
#include <lladd/epoch.h>
#include <lladd/extension.h>
#include <lladd/sync.h>

#include <string.h>

/* Page identifiers (PIDs) are numbers below 2^32. The root's never changes; it is no page's right
 * neighbour, so as a right link it means "none". */
enum { BW_ROOT = 0, BW_NONE = 0 };
/* No PID. In the word `shape`: an inner page is being split. */
#define BW_INNER_SPLIT UINT32_MAX

/* The mapping table: chunk k has FIRST << k words, so a few chunks have words for all PIDs. */
enum { BW_CHUNK_BITS = 10, BW_CHUNKS = 33 - BW_CHUNK_BITS, BW_STRIPES = 32, BW_LINE = 64 };

enum bw_kind {
    BW_PAGE,   /* the page itself, the end of each chain */
    BW_PUT,    /* the key has this value */
    BW_DELETE, /* the key has no row */
    BW_SPLIT,  /* keys from `key` on are in the page `child` */
    BW_TERM,   /* of an inner page: keys from `key` on, up to `high`, are in the page `child` */
    BW_DROP,   /* of an inner page: `key` has no term any more. Keys from it on, up to `high`, are
                * in the page `child` or right of it */
    /* The next two take part in a merge (merge.c). They are only heads of chains. */
    BW_MERGE, /* keys from `key` on are in the page `content`, which was the state of `child` */
    BW_REMOVE /* the page is being merged into its left neighbour: `key` and `child` are its own low
               * key and PID. A thread that has come here reads the page that `next` leads to */
};

/* A state of a page: the head of a chain of deltas, or a page without deltas. Constant from the
 * moment at which other threads can reach it (BWM-1). */
struct bw_state {
    const struct bw_state *next; /* the state before; NULL: this is the page */
    uint64_t number;             /* one more than that of the state before; a page that replaces a
                                  * chain has one more than the chain's head */
    uint32_t chain;              /* number of deltas from here on */
    uint8_t kind, level;         /* level 0: a leaf */
    bool alone;                  /* a delta with a block of its own, not in the slab of its page */
    bool bounded;                /* BW_TERM, BW_DROP: there is a high key */
};

/* A key, or a place among keys. `head` has the first eight bytes as a number, the first byte
 * highest, so that heads have the order of the keys. Trees with small keys have no other bytes. */
struct bw_key {
    const unsigned char *bytes;
    uint32_t len; /* BW_END: after all keys */
    uint64_t head;
};
#define BW_END UINT32_MAX

/* What a search looks for: the place of `key` or, with `below`, the place just before it. */
struct bw_aim {
    struct bw_key key;
    bool below;
};

/* A page: sorted rows with low key, high key and right link. In memory its slab comes first, in
 * which deltas are allocated from the end to the beginning, then this struct, the heads of the
 * keys, and the rest. Small trees (below) then have the values. Other trees have n + 1 offsets of
 * entries, the entries (length of key, key, value), and the bytes of low and high key. The value of
 * a row of an inner page is the PID of the child that begins at the key.
 *
 * The struct begins with a cache line, so that a delta of small keys and values fills a line. A
 * search needs the line that begins with `s`, and not those before it. */
struct bw_page {
    uint64_t room;  /* atomic, signed: bytes that are left in the slab; negative: none */
    uint64_t reads; /* atomic: how often a reader met a long chain */
    struct lladd_retired retired;
    const struct bw_state *last; /* the head of the chain that was retired */
    void *block;                 /* as allocated */
    uint32_t slab, bytes;        /* sizes of the slab and of the whole block */
    uint64_t bound;              /* of a logged tree: all changes of its keys below this LSN are in
                                  * the page. Only recovery reads it */
    unsigned char unused[2 * BW_LINE - sizeof(struct lladd_retired) - 2 * sizeof(void *) - 32];
    struct bw_state s;
    uint32_t n, right; /* right neighbour; BW_NONE: the page has no high key */
    uint32_t used;     /* bytes of the rows */
    uint16_t prefix;   /* number of first bytes that all keys between low and high have in common;
                        * heads begin after them */
    uint16_t low_len, high_len;
    uint64_t low_head, high_head;
    uint64_t heads[];
};

_Static_assert(offsetof(struct bw_page, s) == 2 * BW_LINE, "what searches need is a line");

struct bw_delta {
    struct bw_state s;
    struct bw_page *page; /* the end of the chain */
    uint64_t head;
    uint32_t at; /* number of the page's rows with lower keys */
    uint32_t value_len; /* BW_MERGE, BW_REMOVE: the number of the merge */
    uint16_t key_len, high_len;
    uint32_t child;
    /* From BW_TERM on: the head of the high key; BW_MERGE: the address of `content`. Trees that are
     * not small: the key's bytes. BW_PUT: the value. BW_TERM and BW_DROP, in trees that are not
     * small: the high key's bytes. */
    unsigned char bytes[];
};

/* Counters of a few threads. */
struct bw_counts {
    uint64_t updates, updates_failed, splits, splits_failed, terms, terms_failed, consolidations,
        consolidations_failed; /* atomic */
    uint64_t helped, merges, merges_failed, unused[5];
};
_Static_assert(sizeof(struct bw_counts) == 2 * BW_LINE, "counters are whole lines");

struct lladd_bwtree {
    struct lladd_db *db;
    struct lladd_epochs *epochs;
    uint32_t key_size, value_size, page_bytes, leaf_chain, inner_chain;
    bool small; /* keys of 1 to 8 bytes, values of a fixed length */
    uint64_t chunks[BW_CHUNKS]; /* atomic: uint64_t * to the words, or 0. A word is atomic: struct
                                 * bw_state *; of a free PID: twice the next free PID, plus 1 */
    struct bw_counts counts[BW_STRIPES];
    uint64_t spares[BW_STRIPES]; /* atomic: memory for a delta of a logged change, or 0 */
    uint64_t next;   /* atomic: PIDs from here on were never used */
    uint64_t free;   /* atomic: a free PID, or 0; above it, the number of changes of this word */
    uint64_t memory; /* atomic: bytes */
    /* Atomic. The lower half: the PID of the page that is being merged, BW_INNER_SPLIT, or 0. The
     * upper half: how often it was not 0. */
    uint64_t shape;
    uint64_t removed; /* atomic: number of pages that were merged into others */
    struct bw_stored *stored; /* of a logged tree (stored.h); NULL: the tree is volatile */
};
_Static_assert(offsetof(struct lladd_bwtree, chunks) % 8 == 0, "atomic words are aligned");
_Static_assert(offsetof(struct lladd_bwtree, counts) % 8 == 0, "atomic words are aligned");
_Static_assert(offsetof(struct lladd_bwtree, spares) % 8 == 0, "atomic words are aligned");
_Static_assert(offsetof(struct lladd_bwtree, next) % 8 == 0, "atomic words are aligned");
_Static_assert(offsetof(struct lladd_bwtree, shape) % 8 == 0, "atomic words are aligned");

/* At the end of a call its thread looks after so many pages; it forgets others. */
enum { BW_TODO = 8 };

/* A call: the thread's stay in an epoch. */
struct bw_call {
    struct lladd_bwtree *t;
    struct lladd_epoch *in;
    struct bw_counts *counts;
    uint32_t todo[BW_TODO]; /* pages that may have to be merged or consolidated */
    uint32_t n_todo;
};

/* ---- keys ------------------------------------------------------------------------------------ */

static inline uint64_t bw_head_of(const unsigned char *p, size_t len)
{
    if (len >= 8)
        return __builtin_bswap64(lladd_get64(p));
    uint64_t head = 0;
    for (size_t i = 0; i < len; i++)
        head |= (uint64_t)p[i] << (56 - 8 * i);
    return head;
}
static inline struct bw_key bw_key_of(const unsigned char *p, size_t len)
{
    return (struct bw_key){p, (uint32_t)len, bw_head_of(p, len)};
}
/* Compares keys with equal heads, in trees that are not small. */
int ll_bwtree__compare_rest(struct bw_key, struct bw_key);
/* Compares a key or BW_END with a key. */
static inline int bw_compare(const struct lladd_bwtree *t, struct bw_key a, struct bw_key b)
{
    if (a.head != b.head)
        return a.head < b.head ? -1 : 1;
    return t->small ? a.len == BW_END : ll_bwtree__compare_rest(a, b);
}
/* Is the aim in what begins at `key`? */
static inline bool bw_from(const struct lladd_bwtree *t, const struct bw_aim *aim,
                           struct bw_key key)
{
    int c = bw_compare(t, aim->key, key);
    return aim->below ? c > 0 : c >= 0;
}

/* ---- pages and deltas ------------------------------------------------------------------------ */

static inline struct bw_page *bw_page_of(const struct bw_state *s)
{
    return (struct bw_page *)((uintptr_t)s - offsetof(struct bw_page, s));
}
static inline const struct bw_delta *bw_delta_of(const struct bw_state *s)
{
    return (const struct bw_delta *)s;
}
/* The page at the end of a chain. */
static inline struct bw_page *bw_bottom(const struct bw_state *s)
{
    return s->kind == BW_PAGE ? bw_page_of(s) : bw_delta_of(s)->page;
}
static inline struct bw_key bw_delta_key(const struct bw_delta *d)
{
    return (struct bw_key){d->bytes + (d->s.kind >= BW_TERM ? 8 : 0), d->key_len, d->head};
}
/* Only of a BW_TERM or BW_DROP that is bounded. */
static inline struct bw_key bw_delta_high(const struct bw_delta *d)
{
    return (struct bw_key){d->bytes + 8 + d->key_len, d->high_len, lladd_get64(d->bytes)};
}
/* Only of a BW_MERGE: the page that was merged. */
static inline struct bw_page *bw_content(const struct bw_state *s)
{
    return (struct bw_page *)(uintptr_t)lladd_get64(bw_delta_of(s)->bytes);
}
/* Only of a BW_MERGE or BW_REMOVE: the value that `shape` has while the merge is unfinished. */
static inline uint64_t bw_ticket(const struct bw_state *s)
{
    return (uint64_t)bw_delta_of(s)->value_len << 32 | bw_delta_of(s)->child;
}
/* Only of a BW_PUT. */
static inline const unsigned char *bw_delta_value(const struct lladd_bwtree *t,
                                                  const struct bw_delta *d)
{
    return d->bytes + (t->small ? 0 : d->key_len);
}
/* Length of the values of a page in a small tree. */
static inline uint32_t bw_width(const struct lladd_bwtree *t, uint32_t level)
{
    return level ? 4 : t->value_size;
}
static inline const unsigned char *bw_after_heads(const struct bw_page *p)
{
    return (const unsigned char *)(p->heads + p->n);
}
static inline uint32_t bw_offset(const struct bw_page *p, uint32_t i)
{
    return lladd_get32(bw_after_heads(p) + 4 * (size_t)i);
}
/* The entries, to which offsets are relative. */
static inline const unsigned char *bw_entries(const struct bw_page *p)
{
    return bw_after_heads(p) + 4 * ((size_t)p->n + 1);
}
static inline struct bw_key bw_row_key(const struct lladd_bwtree *t, const struct bw_page *p,
                                       uint32_t i)
{
    if (t->small)
        return (struct bw_key){NULL, t->key_size, p->heads[i]};
    const unsigned char *e = bw_entries(p) + bw_offset(p, i);
    return bw_key_of(e + 2, lladd_get16(e));
}
static inline const unsigned char *bw_row_value(const struct lladd_bwtree *t,
                                                const struct bw_page *p, uint32_t i, uint32_t *len)
{
    if (t->small) {
        *len = bw_width(t, p->s.level);
        return bw_after_heads(p) + (size_t)i * *len;
    }
    uint32_t from = bw_offset(p, i);
    const unsigned char *e = bw_entries(p) + from;
    uint32_t head = 2u + lladd_get16(e);
    *len = bw_offset(p, i + 1) - from - head;
    return e + head;
}
static inline uint32_t bw_row_child(const struct lladd_bwtree *t, const struct bw_page *p,
                                    uint32_t i)
{
    uint32_t len;
    return lladd_get32(bw_row_value(t, p, i, &len));
}
static inline struct bw_key bw_low(const struct lladd_bwtree *t, const struct bw_page *p)
{
    const unsigned char *bytes = t->small ? NULL : bw_entries(p) + bw_offset(p, p->n);
    return (struct bw_key){bytes, p->low_len, p->low_head};
}
/* Only if p->right != BW_NONE. */
static inline struct bw_key bw_high(const struct lladd_bwtree *t, const struct bw_page *p)
{
    const unsigned char *bytes = t->small ? NULL : bw_entries(p) + bw_offset(p, p->n) + p->low_len;
    return (struct bw_key){bytes, p->high_len, p->high_head};
}
/* Has the page the lowest keys of its level? */
static inline bool bw_is_first(const struct bw_page *p)
{
    return p->low_len == 0;
}

/* ---- map.c ----------------------------------------------------------------------------------- */

#ifdef LLADD_DST
extern const struct bw_page ll_bwtree__free_page;
#endif
/* The word of a PID that has been given out. */
static inline uint64_t *bw_word(struct lladd_bwtree *t, uint32_t pid)
{
    uint64_t place = (uint64_t)pid + (1u << BW_CHUNK_BITS);
    unsigned k = 63u - (unsigned)__builtin_clzll(place);
    const uint64_t *chunk = &t->chunks[k - BW_CHUNK_BITS];
    return (uint64_t *)(uintptr_t)lladd_atomic_load64(chunk) + (place - (UINT64_C(1) << k));
}
/* The present state of a page. Sequentially consistent, as epochs need (lladd/epoch.h). */
static inline const struct bw_state *bw_load(struct lladd_bwtree *t, uint32_t pid)
{
    uint64_t word = lladd_atomic_look64(bw_word(t, pid));
#ifdef LLADD_DST
    if (word & 1) /* with a planted bug a thread may come to a free PID: a page without rows */
        return &ll_bwtree__free_page.s;
#endif
    return (const struct bw_state *)(uintptr_t)word;
}
/* Replaces a page's state. Returns false if the present state is another one. */
static inline bool bw_replace(struct lladd_bwtree *t, uint32_t pid, const struct bw_state *old,
                              const struct bw_state *new_state)
{
    uint64_t expected = (uintptr_t)old;
    return lladd_atomic_cas64(bw_word(t, pid), &expected, (uintptr_t)new_state);
}
/* Gives a PID out. Its word must be stored before others can see the PID. LLADD_NO_MEMORY. */
int ll_bwtree__pid_take(struct lladd_bwtree *, uint32_t *pid);
/* Takes back a PID that no other thread has seen. */
void ll_bwtree__pid_give(struct lladd_bwtree *, uint32_t pid);
void ll_bwtree__map_free(struct lladd_bwtree *);

/* ---- tree.c ---------------------------------------------------------------------------------- */

/* Memory that lladd_bwtree_stats counts. */
void *ll_bwtree__alloc(struct lladd_bwtree *, size_t);
void ll_bwtree__free(struct lladd_bwtree *, void *, size_t);
int ll_bwtree__no_memory(struct lladd_error *, const char *what);
/* Copies the options, and checks them. */
int ll_bwtree__options(const struct lladd_bwtree_options *, struct lladd_bwtree_options *out,
                       struct lladd_error *);
/* Makes an empty tree with checked options. */
int ll_bwtree__make(struct lladd_db *, const struct lladd_bwtree_options *, struct lladd_bwtree **,
                    struct lladd_error *);
/* Frees a tree that no thread uses. */
void ll_bwtree__free_tree(struct lladd_bwtree *);
/* Checks a key's length, and makes the key. */
int ll_bwtree__key(const struct lladd_bwtree *, const void *key, size_t len, struct bw_key *,
                   struct lladd_error *);
/* merge.c: merges and consolidates the pages in c->todo. */
void ll_bwtree__look_after(struct bw_call *);
/* Enters an epoch. LLADD_NO_MEMORY. */
int ll_bwtree__enter(struct lladd_bwtree *, struct bw_call *, struct lladd_error *);
static inline void bw_leave(struct bw_call *c)
{
    if (__builtin_expect(c->n_todo > 0, 0))
        ll_bwtree__look_after(c);
    lladd_epoch_leave(c->t->epochs, c->in);
}

/* ---- page.c ---------------------------------------------------------------------------------- */

/* A part of a new page: rows from..to-1 of another page, then the row of a delta (nullable). */
struct bw_piece {
    const struct bw_page *page;
    uint32_t from, to;
    const struct bw_delta *delta;
};
/* What a new page is made of, except for a new root (ll_bwtree__page_root). */
struct bw_plan {
    uint8_t level;
    const struct bw_piece *pieces;
    size_t n_pieces;
    struct bw_key low, high;
    uint32_t right; /* BW_NONE: `high` is not used */
    bool slab;      /* with room for deltas */
    uint64_t bound; /* of the page that it replaces, or from which its rows come */
};
/* Makes a page; NULL: out of memory. Its state number is 0. */
struct bw_page *ll_bwtree__page_build(struct lladd_bwtree *, const struct bw_plan *);
/* Makes an empty leaf without bounds. */
struct bw_page *ll_bwtree__page_empty(struct lladd_bwtree *);
/* Makes an inner page without bounds, with two children; the second one begins at `middle`. */
struct bw_page *ll_bwtree__page_root(struct lladd_bwtree *, uint8_t level, uint32_t first,
                                     struct bw_key middle, uint32_t second);
/* Frees a page that no other thread has seen, without its chain. */
void ll_bwtree__page_free(struct lladd_bwtree *, struct bw_page *);
/* Frees a page and the chain that ends at it; of a merge delta, the merged page, too. */
void ll_bwtree__chain_free(struct lladd_bwtree *, const struct bw_state *head);
/* Retires a chain with its page. */
void ll_bwtree__chain_retire(struct bw_call *, const struct bw_state *head);

/* ---- delta.c --------------------------------------------------------------------------------- */

/* What a delta says; the members that its kind does not need are zero. */
struct bw_change {
    enum bw_kind kind;
    struct bw_key key;
    const void *value;
    uint32_t value_len;
    uint32_t child;
    struct bw_key high;
    bool bounded;
    const struct bw_page *content;
};
/* Makes a delta to be put in front of `head`; `at`: the number of the page's rows with lower keys.
 * NULL: out of memory. */
struct bw_delta *ll_bwtree__delta(struct lladd_bwtree *, const struct bw_state *head, uint32_t at,
                                  const struct bw_change *);
/* Writes a delta that has a block of its own (`alone`) or not. */
void ll_bwtree__delta_fill(const struct lladd_bwtree *, struct bw_delta *,
                           const struct bw_state *head, uint32_t at, const struct bw_change *,
                           bool alone);
/* As ll_bwtree__delta. If the slab has no room, uses the memory at *spare, of the delta's size, and
 * sets *spare to NULL. So it does not fail. */
struct bw_delta *ll_bwtree__delta_in(struct lladd_bwtree *, const struct bw_state *head,
                                     uint32_t at, const struct bw_change *, void **spare);
/* Frees a delta that no thread sees. */
void ll_bwtree__delta_free(struct lladd_bwtree *, const struct bw_delta *);
/* Bytes of a delta with keys and a value of these lengths. */
size_t ll_bwtree__delta_size(const struct lladd_bwtree *, enum bw_kind, uint32_t key_len,
                             uint32_t high_len, uint32_t value_len);

/* ---- change.c -------------------------------------------------------------------------------- */

enum bw_verb { BW_DO_INSERT, BW_DO_PUT, BW_DO_DELETE };
/* Is the change possible, when the key has a row or not? */
int ll_bwtree__allowed(enum bw_verb, bool found, struct lladd_error *);
/* Checks a value's length. */
int ll_bwtree__value(const struct lladd_bwtree *, size_t len, struct lladd_error *);

/* ---- search.c -------------------------------------------------------------------------------- */

enum bw_step { BW_HERE, BW_RIGHT };
/* What a search has seen in a page. */
struct bw_seen {
    bool found;                 /* in a leaf: the key has a row. In an inner page: it has a term */
    uint32_t at;                /* number of the page's rows with lower keys */
    uint32_t value_len;         /* of the row found */
    const unsigned char *value; /* of the row found */
    uint32_t child;             /* of the term found; with BW_RIGHT: the right neighbour */
    struct bw_key from;         /* with BW_RIGHT: the key at which the right neighbour begins */
};
/* The number of the page's rows with keys below the key, between lo and hi. The key is in the
 * page's range, or is its high key. */
uint32_t ll_bwtree__lower(const struct lladd_bwtree *, const struct bw_page *, struct bw_key,
                          uint32_t lo, uint32_t hi);
/* Does row i, which may be the end, have this key? */
bool ll_bwtree__row_is(const struct lladd_bwtree *, const struct bw_page *, uint32_t i,
                       struct bw_key);
/* Searches a leaf for a key, or an inner page for a key's own term. */
enum bw_step ll_bwtree__look(const struct lladd_bwtree *, const struct bw_state *,
                             const struct bw_aim *, struct bw_seen *);
/* Searches an inner page for the child that has the aim. Fills in `child` and `from`. */
enum bw_step ll_bwtree__step(const struct lladd_bwtree *, const struct bw_state *,
                             const struct bw_aim *, struct bw_seen *);
/* Goes down from state s of *pid to the page of this level that has the aim, but not beyond a page
 * that is being removed. With `helps`, terms that are missing on the way are added, and merges are
 * finished. Returns the page's state, and the PID. The page may be left of the right one. */
const struct bw_state *ll_bwtree__go_down(struct bw_call *, const struct bw_state *s,
                                          const struct bw_aim *, uint32_t level, bool helps,
                                          uint32_t *pid);
/* Goes down from the root to the page of this level that has the aim, or to one on its left. Of a
 * page that is being removed, returns the state from before. NULL: the tree has no such level. */
const struct bw_state *ll_bwtree__descend(struct bw_call *, const struct bw_aim *, uint32_t level,
                                          bool helps, uint32_t *pid);
/* Finds the page of this level that has the aim, without adding terms. NULL: the tree has no
 * such level. */
const struct bw_state *ll_bwtree__find(struct bw_call *, const struct bw_aim *, uint32_t level,
                                       uint32_t *pid);
/* The right neighbour in this state, and the key at which it begins; BW_NONE: there is none. */
uint32_t ll_bwtree__right(const struct lladd_bwtree *, const struct bw_state *, struct bw_key *);

/* The state of a page in which a reader that has come to it finds its keys (merge.c). */
static inline const struct bw_state *bw_read(struct lladd_bwtree *t, uint32_t pid)
{
    const struct bw_state *s = bw_load(t, pid);
    return __builtin_expect(s->kind == BW_REMOVE, 0) ? s->next : s;
}

/* ---- consolidate.c, split.c ------------------------------------------------------------------ */

/* Makes a page of a chain. NULL: out of memory. */
struct bw_page *ll_bwtree__fold(struct lladd_bwtree *, const struct bw_state *head, bool slab);
/* Consolidates a page with this state, and with the deltas that other threads put in front of it
 * meanwhile. May fail without harm. Returns the new page; NULL: it failed, or there were such
 * deltas. */
struct bw_page *ll_bwtree__renew(struct bw_call *, uint32_t pid, const struct bw_state *head);
/* Is the page so large, and has so many rows, that it is to be split? */
bool ll_bwtree__is_large(const struct lladd_bwtree *, uint32_t level, uint32_t n, uint32_t used);
/* Consolidates the page as ll_bwtree__renew does. Then splits it if it is large, or has it looked
 * after at the end of the call if it is small. */
void ll_bwtree__consolidate(struct bw_call *, uint32_t pid, const struct bw_state *head);
/* Consolidates the page if the chain of this delta, which was just installed, is long, and no newer
 * delta's thread is about to do it. */
void ll_bwtree__maintain(struct bw_call *, uint32_t pid, const struct bw_delta *);
/* Splits a page without deltas, if no other thread changes it meanwhile. */
void ll_bwtree__split(struct bw_call *, uint32_t pid, struct bw_page *);
/* The key after `key` at which the page's next term begins, or else the page's right neighbour.
 * false: there is none. */
bool ll_bwtree__next_term(const struct lladd_bwtree *, const struct bw_state *, struct bw_key key,
                          struct bw_key *next);
/* Adds the term of a page that was split off, if the parent lacks it: `child` is of this level, and
 * begins at `from`. Gives up if memory is lacking. */
void ll_bwtree__post(struct bw_call *, uint32_t level, struct bw_key from, uint32_t child,
                     bool helps);

/* ---- merge.c --------------------------------------------------------------------------------- */

/* Is a page without deltas, of which this is the number of rows and their bytes, to be merged into
 * another one? */
bool ll_bwtree__is_small(const struct lladd_bwtree *, uint32_t level, uint32_t n, uint32_t used);
/* Has the page looked after at the end of the call. */
void ll_bwtree__remember(struct bw_call *, uint32_t pid);
/* Before a change of page `pid`, which has this BW_MERGE or BW_REMOVE: finishes the merge, and
 * consolidates a page with a BW_MERGE. false: out of memory. */
bool ll_bwtree__settle(struct bw_call *, uint32_t pid, const struct bw_state *);
/* Finishes the merge of this BW_MERGE, so that it may be replaced. false: out of memory. */
bool ll_bwtree__finish_merge(struct bw_call *, const struct bw_state *merged);
/* Gets the right to merge page `pid` or, with BW_INNER_SPLIT, to split an inner page. Returns the
 * value that `shape` has until it is given back; 0: another thread has the right. */
uint64_t ll_bwtree__shape_take(struct bw_call *, uint32_t pid);
void ll_bwtree__shape_give(struct lladd_bwtree *, uint64_t taken);
/* Frees a BW_REMOVE. */
void ll_bwtree__removed_free(struct lladd_bwtree *, const struct bw_state *);

static inline void bw_count(uint64_t *counter)
{
    lladd_atomic_count64(counter, 1);
}

#endif
