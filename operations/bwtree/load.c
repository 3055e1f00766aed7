/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A tree is read into memory: all of its pages, when it is opened, or when recovery has a record of
 * it. Fragments and links are checked first, so that no bytes in the store can lead a search astray
 * or into a cycle: links go to pages of the same level that begin at the high key, and index terms
 * to pages of the level below that begin at the term's key.
 */
#include "operations/bwtree/stored.h"

#include <lladd/bulk.h>

/* Memory for reading fragments. */
struct buffer {
    unsigned char *page;  /* one page */
    unsigned char *bytes; /* the fragment */
    size_t cap;
};

static int wrong(const struct lladd_bwtree *t, uint64_t pid, const char *what,
                 struct lladd_error *err)
{
    return lladd_error_set(err, LLADD_CORRUPT_PAGE, "page %llu of Bw-tree %llu in the store: %s",
                           (unsigned long long)pid, (unsigned long long)t->stored->id, what);
}

/* Reads the fragment at the address: *len bytes. */
static int read_fragment(struct lladd_bwtree *t, uint64_t pid, uint64_t at, struct buffer *b,
                         uint32_t *len, struct lladd_error *err)
{
    uint32_t size = lladd_page_size(t->db), body = lladd_body_size(size);
    uint32_t offset = bw_address_offset(at), units = bw_address_units(at), have = 0;
    for (uint64_t n = bw_address_page(at);; n++, offset = 0) {
        TRY(lladd_bulk_read(t->db, lladd_page_of(n), 1, false, b->page, err));
        const unsigned char *from = b->page + LLADD_PAGE_HEADER + offset;
        if (have == 0) {
            *len = offset + BW_FRAGMENT_HEAD <= body ? lladd_get32(from) : 0;
            if (*len < BW_FRAGMENT_HEAD || (units != BW_LONG && (*len + 63) / 64 != units))
                return wrong(t, pid, "its address leads to no fragment", err);
            if (ll_operations__grow(t->db, &b->bytes, *len, &b->cap, 1))
                return ll_bwtree__no_memory(err, "a page that is read in");
        }
        uint32_t part = body - offset < *len - have ? body - offset : *len - have;
        memcpy(b->bytes + have, from, part);
        have += part;
        if (have == *len)
            return 0;
    }
}

/* ---- links ----------------------------------------------------------------------------------- */

/* The page of a PID, or NULL. No other thread uses the tree. */
static const struct bw_page *page_of(struct lladd_bwtree *t, uint64_t pid)
{
    const struct bw_state *s = pid < t->next ? bw_load(t, (uint32_t)pid) : NULL;
    return s ? bw_page_of(s) : NULL;
}

static int check_page(struct lladd_bwtree *t, uint32_t pid, const struct bw_page *p,
                      struct lladd_error *err)
{
    if (p->right != BW_NONE) {
        const struct bw_page *q = page_of(t, p->right);
        if (!q || q->s.level != p->s.level || bw_compare(t, bw_low(t, q), bw_high(t, p)) != 0)
            return wrong(t, pid, "its right neighbour does not begin at its high key", err);
    }
    for (uint32_t i = 0; p->s.level > 0 && i < p->n; i++) {
        const struct bw_page *q = page_of(t, bw_row_child(t, p, i));
        if (!q || q->s.level + 1u != p->s.level ||
            bw_compare(t, bw_low(t, q), bw_row_key(t, p, i)) != 0)
            return wrong(t, pid, "a child does not begin at its index term", err);
    }
    return 0;
}

static int check_pages(struct lladd_bwtree *t, struct lladd_error *err)
{
    const struct bw_page *root = page_of(t, BW_ROOT);
    if (root->right != BW_NONE || !bw_is_first(root))
        return wrong(t, BW_ROOT, "the root has bounds", err);
    for (uint64_t pid = 0; pid < t->next; pid++) {
        const struct bw_page *p = page_of(t, pid);
        if (p)
            TRY(check_page(t, (uint32_t)pid, p, err));
    }
    return 0;
}

/* ---- the whole tree -------------------------------------------------------------------------- */

static int read_page(struct lladd_bwtree *t, uint32_t pid, struct buffer *b,
                     struct lladd_error *err)
{
    struct bw_place *place = &t->stored->places[pid];
    struct bw_page *p;
    uint32_t len;
    TRY(read_fragment(t, pid, place->at, b, &len, err));
    TRY(ll_bwtree__fragment_read(t, pid, b->bytes, len, &p, err));
    p->s.number = place->number = 1;
    if (pid == BW_ROOT)
        ll_bwtree__page_free(t, bw_page_of(bw_load(t, pid)));
    lladd_atomic_store64(bw_word(t, pid), (uintptr_t)&p->s);
    return 0;
}

/* Gives out all PIDs of the tree's places. Their words are 0 until the pages are there. */
static int take_pids(struct lladd_bwtree *t)
{
    uint32_t pid = BW_ROOT;
    while (t->next < t->stored->n_places) {
        TRY(ll_bwtree__pid_take(t, &pid));
        lladd_atomic_store64(bw_word(t, pid), 0);
    }
    return 0;
}

static int read_pages(struct lladd_bwtree *t, struct buffer *b, struct lladd_error *err)
{
    struct bw_stored *s = t->stored;
    if (take_pids(t))
        return ll_bwtree__no_memory(err, "the mapping table");
    for (size_t pid = 0; pid < s->n_places; pid++)
        if (s->places[pid].at)
            TRY(read_page(t, (uint32_t)pid, b, err));
    TRY(check_pages(t, err));
    for (size_t pid = 1; pid < s->n_places; pid++)
        if (!s->places[pid].at)
            ll_bwtree__pid_give(t, (uint32_t)pid);
    return 0;
}

/* Frees a tree that was read in part: its pages may have wrong links. */
static void free_part(struct lladd_bwtree *t)
{
    lladd_epochs_destroy(t->epochs);
    for (uint64_t pid = 0; pid < t->next; pid++) {
        const struct bw_page *p = page_of(t, pid);
        if (p)
            ll_bwtree__page_free(t, (struct bw_page *)(uintptr_t)p);
    }
    ll_bwtree__map_free(t);
    lladd_mem_free(t->db, t);
}

int ll_bwtree__load(struct bw_stored *s, struct lladd_error *err)
{
    struct buffer b = {0};
    struct lladd_bwtree *t;
    if (s->tree)
        return 0;
    TRY(ll_bwtree__make(s->store->db, &s->options, &t, err));
    t->stored = s;
    bool empty = true;
    for (size_t pid = 0; pid < s->n_places; pid++)
        empty &= s->places[pid].at == 0;
    int rc = 0;
    if (!empty && !s->places[BW_ROOT].at)
        rc = wrong(t, BW_ROOT, "the store does not have the root", err);
    b.page = lladd_mem_alloc(s->store->db, lladd_page_size(s->store->db));
    if (!rc && !b.page)
        rc = ll_bwtree__no_memory(err, "a page that is read in");
    if (!rc && !empty)
        rc = read_pages(t, &b, err);
    lladd_mem_free(s->store->db, b.page);
    lladd_mem_free(s->store->db, b.bytes);
    if (rc) {
        free_part(t);
        return rc;
    }
    lladd_atomic_store_ptr(&s->tree, t);
    return 0;
}
