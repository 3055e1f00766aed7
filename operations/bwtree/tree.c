/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bw-trees in memory (Levandoski, Lomet, Sengupta: "The Bw-Tree", 2013). docs/structures-bwtree.md
 * explains them and has the rules BWM-1 to BWM-8. The files:
 *
 *   map.c          page identifiers (PIDs) and their words
 *   page.c         pages: sorted rows; how a page is made from another one and deltas
 *   delta.c        deltas, and the slabs from which they are allocated
 *   search.c       searches in a chain of deltas and its page, and descents
 *   change.c       insertions, replacements and deletions of rows
 *   consolidate.c  a new page replaces a page and its chain
 *   split.c        splits, the root's splits, and index terms
 *   merge.c        merges of pages
 *   get.c          lookups
 *   scan.c         cursors
 *   check.c        statistics and the check
 *
 * This file opens and closes trees, and checks arguments.
 *
 * Threads. Any number; no thread waits for another one. Each call is in an epoch while it uses
 * states (lladd/epoch.h).
 */
#include "operations/bwtree/stored.h"

enum {
    PAGE_BYTES = 8192,
    PAGE_MIN = 64,
    PAGE_MAX = 1 << 20,
    CHAIN_MAX = 1000,
    SHORT_ROW = 32, /* rows of up to so many bytes get the longer chains */
    CHAIN_SHORT = 16,
    CHAIN_LONG = 8,
    CHAIN_INNER = 2
};

void *ll_bwtree__alloc(struct lladd_bwtree *t, size_t size)
{
    void *p = lladd_mem_alloc(t->db, size);
    if (p)
        lladd_atomic_count64(&t->memory, size);
    return p;
}

void ll_bwtree__free(struct lladd_bwtree *t, void *p, size_t size)
{
    lladd_mem_free(t->db, p);
    lladd_atomic_count64(&t->memory, 0 - (uint64_t)size);
}

int ll_bwtree__no_memory(struct lladd_error *err, const char *what)
{
    return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for %s of a Bw-tree", what);
}

int ll_bwtree__key(const struct lladd_bwtree *t, const void *key, size_t len, struct bw_key *out,
                   struct lladd_error *err)
{
    if (__builtin_expect(t->key_size && len != t->key_size, 0))
        return lladd_error_set(err, LLADD_KEY_SIZE, "the key has %zu bytes, the tree's have %u",
                               len, t->key_size);
    if (__builtin_expect(len > LLADD_BWTREE_KEY_MAX, 0))
        return lladd_error_set(err, LLADD_TOO_LARGE, "the key has %zu bytes, more than %u", len,
                               LLADD_BWTREE_KEY_MAX);
    *out = bw_key_of(key, len);
    return 0;
}

int ll_bwtree__enter(struct lladd_bwtree *t, struct bw_call *c, struct lladd_error *err)
{
    c->t = t;
    c->in = lladd_epoch_enter(t->epochs);
    if (__builtin_expect(!c->in, 0))
        return ll_bwtree__no_memory(err, "one more thread");
    c->n_todo = 0;
    c->counts = &t->counts[lladd_epoch_slot(c->in) % BW_STRIPES];
    return 0;
}

/* ---- open and close -------------------------------------------------------------------------- */

static int check_options(const struct lladd_bwtree_options *o, struct lladd_error *err)
{
    if (o->key_size > LLADD_BWTREE_KEY_MAX || o->value_size > LLADD_BWTREE_VALUE_MAX)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                               "keys of %u bytes and values of %u: at most %u and %u", o->key_size,
                               o->value_size, LLADD_BWTREE_KEY_MAX, LLADD_BWTREE_VALUE_MAX);
    if (o->page_bytes && (o->page_bytes < PAGE_MIN || o->page_bytes > PAGE_MAX))
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "pages of %u bytes: %u to %u are possible",
                               o->page_bytes, PAGE_MIN, PAGE_MAX);
    if (o->leaf_chain > CHAIN_MAX || o->inner_chain > CHAIN_MAX)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "chains of %u and %u deltas: at most %u",
                               o->leaf_chain, o->inner_chain, CHAIN_MAX);
    return 0;
}

static void set_options(struct lladd_bwtree *t, const struct lladd_bwtree_options *o)
{
    bool sized = o->key_size && o->value_size;
    bool short_rows = sized && o->key_size + o->value_size <= SHORT_ROW;
    t->key_size = o->key_size;
    t->value_size = o->value_size;
    t->small = sized && o->key_size <= 8;
    t->page_bytes = o->page_bytes ? o->page_bytes : PAGE_BYTES;
    t->leaf_chain = o->leaf_chain ? o->leaf_chain : short_rows ? CHAIN_SHORT : CHAIN_LONG;
    t->inner_chain = o->inner_chain ? o->inner_chain : CHAIN_INNER;
}

static int make_root(struct lladd_bwtree *t)
{
    uint32_t root;
    TRY(ll_bwtree__pid_take(t, &root)); /* the first PID is BW_ROOT */
    struct bw_page *p = ll_bwtree__page_empty(t);
    if (!p)
        return LLADD_NO_MEMORY;
    lladd_atomic_store64(bw_word(t, root), (uintptr_t)&p->s);
    return 0;
}

int ll_bwtree__options(const struct lladd_bwtree_options *options, struct lladd_bwtree_options *out,
                       struct lladd_error *err)
{
    *out = (struct lladd_bwtree_options)LLADD_BWTREE_OPTIONS_INIT;
    if (options)
        memcpy(out, options,
               options->struct_size < sizeof *out ? options->struct_size : sizeof *out);
    return check_options(out, err);
}

int ll_bwtree__make(struct lladd_db *db, const struct lladd_bwtree_options *o,
                    struct lladd_bwtree **out, struct lladd_error *err)
{
    struct lladd_bwtree *t = lladd_mem_alloc(db, sizeof *t);
    if (!t)
        return ll_bwtree__no_memory(err, "the handle");
    memset(t, 0, sizeof *t);
    t->db = db;
    t->memory = sizeof *t;
    set_options(t, o);
    int rc = lladd_epochs_create(db, &t->epochs, err);
    if (!rc && make_root(t) != 0) {
        rc = ll_bwtree__no_memory(err, "the root");
        ll_bwtree__map_free(t);
        lladd_epochs_destroy(t->epochs);
    }
    if (rc) {
        lladd_mem_free(db, t);
        return rc;
    }
    *out = t;
    return 0;
}

/* The remove delta of a merge that was left unfinished for want of memory; or NULL. */
static const struct bw_state *unfinished(struct lladd_bwtree *t)
{
    uint32_t pid = (uint32_t)lladd_atomic_load64(&t->shape);
    const struct bw_state *s = pid && pid != BW_INNER_SPLIT ? bw_load(t, pid) : NULL;
    return s && s->kind == BW_REMOVE ? s : NULL;
}

int lladd_bwtree_open_volatile(struct lladd_db *db, const struct lladd_bwtree_options *options,
                               struct lladd_bwtree **out, struct lladd_error *err)
{
    struct lladd_bwtree_options o;
    *out = NULL;
    TRY(ll_bwtree__options(options, &o, err));
    return ll_bwtree__make(db, &o, out, err);
}

/* Frees the chain of each page: level by level, each from left to right. */
static void free_pages(struct lladd_bwtree *t)
{
    uint32_t first = BW_ROOT, next_level;
    const struct bw_state *removed = unfinished(t);
    bool leaf;
    do {
        const struct bw_page *p = bw_bottom(bw_load(t, first));
        leaf = p->s.level == 0;
        next_level = leaf ? BW_NONE : bw_row_child(t, p, 0);
        for (uint32_t pid = first, right;; pid = right) {
            const struct bw_state *head = bw_load(t, pid);
            struct bw_key unused;
            if (head->kind == BW_REMOVE) /* it has no merge delta yet, so the rows are its own */
                head = head->next;
            right = ll_bwtree__right(t, head, &unused);
            ll_bwtree__chain_free(t, head);
            if (right == BW_NONE)
                break;
        }
        first = next_level;
    } while (!leaf);
    if (removed)
        ll_bwtree__removed_free(t, removed);
}

void ll_bwtree__free_tree(struct lladd_bwtree *t)
{
    lladd_epochs_destroy(t->epochs);
    free_pages(t);
    for (unsigned i = 0; i < BW_STRIPES; i++)
        lladd_mem_free(t->db, (void *)(uintptr_t)t->spares[i]);
    ll_bwtree__map_free(t);
    lladd_mem_free(t->db, t);
}

void lladd_bwtree_close(struct lladd_bwtree *t)
{
    if (t && t->stored)
        ll_bwtree__close_stored(t->stored);
    else if (t)
        ll_bwtree__free_tree(t);
}

uint64_t lladd_bwtree_id(const struct lladd_bwtree *t)
{
    return t->stored ? t->stored->id : 0;
}

uint32_t lladd_bwtree_key_size(const struct lladd_bwtree *t)
{
    return t->key_size;
}

uint32_t lladd_bwtree_value_size(const struct lladd_bwtree *t)
{
    return t->value_size;
}
