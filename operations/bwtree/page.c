/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pages. A new page is made of pieces: stretches of rows of another page, which are copied in one
 * piece, and rows of deltas. Once other threads can reach a page, nothing of it changes but the
 * room in its slab and its count of reads (BWM-1).
 *
 * In small trees a key is its head, and a page has an array of heads and an array of values. In
 * other trees a head has the eight bytes of the key that follow the bytes that all keys in the
 * page's range have in common; if heads are equal, the keys' bytes decide.
 */
#include "operations/bwtree/bwtree.h"

/* ---- sizes ----------------------------------------------------------------------------------- */

static uint32_t delta_value(const struct bw_delta *d, uint32_t level)
{
    return level ? 4 : d->value_len;
}

/* Rows, and their bytes in the page. */
static void measure(const struct lladd_bwtree *t, const struct bw_plan *plan, uint32_t *n,
                    uint32_t *used)
{
    uint32_t rows = 0, entries = 0, level = plan->level;
    for (size_t i = 0; i < plan->n_pieces; i++) {
        const struct bw_piece *p = &plan->pieces[i];
        rows += p->to - p->from + (p->delta != NULL);
        if (t->small)
            continue;
        if (p->from < p->to)
            entries += bw_offset(p->page, p->to) - bw_offset(p->page, p->from);
        if (p->delta)
            entries += 2u + p->delta->key_len + delta_value(p->delta, level);
    }
    *n = rows;
    *used = t->small ? rows * (8 + bw_width(t, level)) : rows * 12 + entries;
}

/* Number of first bytes that all keys from `low` up to `high` have in common. */
static uint16_t common(struct bw_key low, struct bw_key high)
{
    uint32_t most = low.len < high.len ? low.len : high.len, i = 0;
    while (i < most && low.bytes[i] == high.bytes[i])
        i++;
    return (uint16_t)i;
}

static size_t lines(size_t bytes)
{
    return (bytes + BW_LINE - 1) / BW_LINE * BW_LINE;
}

/* Room for as many deltas as a chain has, of the size of the page's rows; at most half a page, but
 * room for two. */
static uint32_t slab_size(const struct lladd_bwtree *t, uint32_t level, uint32_t n, uint32_t used)
{
    uint32_t row = t->key_size && t->value_size ? t->key_size + t->value_size
                   : n                          ? used / n
                                                : 0;
    size_t one = level ? ll_bwtree__delta_size(t, BW_TERM, row, row, 0)
                       : ll_bwtree__delta_size(t, BW_PUT, row, 0, t->small ? t->value_size : 0);
    size_t all = one * ((level ? t->inner_chain : t->leaf_chain) + 1);
    size_t most = t->page_bytes / 2 > 2 * one ? t->page_bytes / 2 : 2 * one;
    return (uint32_t)lines(all < most ? all : most);
}

/* ---- making a page --------------------------------------------------------------------------- */

static struct bw_page *allocate(struct lladd_bwtree *t, uint8_t level, uint32_t n, uint32_t used,
                                size_t fences, bool with_slab)
{
    uint32_t slab = with_slab ? slab_size(t, level, n, used) : 0;
    size_t rest = t->small ? 0 : 4 + fences;
    size_t bytes = BW_LINE - 1 + slab + sizeof(struct bw_page) + used + rest;
    unsigned char *block = ll_bwtree__alloc(t, bytes);
    if (!block)
        return NULL;
    size_t skip = (BW_LINE - (uintptr_t)block % BW_LINE) % BW_LINE;
    struct bw_page *p = (struct bw_page *)(block + skip + slab);
    *p = (struct bw_page){.room = slab,
                          .block = block,
                          .slab = slab,
                          .bytes = (uint32_t)bytes,
                          .s = {.kind = BW_PAGE, .level = level},
                          .n = n,
                          .used = used};
    return p;
}

/* Where the next row goes. */
struct fill {
    struct bw_page *page;
    uint32_t row;
    unsigned char *values;  /* small trees */
    unsigned char *entries; /* other trees: the beginning of the entries */
    uint32_t offset;        /* and of the next one */
};

static void put_offset(struct fill *f, uint32_t row, uint32_t offset)
{
    lladd_put32((unsigned char *)(f->page->heads + f->page->n) + 4 * (size_t)row, offset);
}

static void copy_small(const struct lladd_bwtree *t, struct fill *f, const struct bw_piece *piece)
{
    const struct bw_page *from = piece->page;
    uint32_t n = piece->to - piece->from, width = bw_width(t, from->s.level);
    memcpy(f->page->heads + f->row, from->heads + piece->from, 8 * (size_t)n);
    memcpy(f->values, bw_after_heads(from) + (size_t)piece->from * width, (size_t)n * width);
    f->values += (size_t)n * width;
    f->row += n;
}

static void copy_rows(const struct lladd_bwtree *t, struct fill *f, const struct bw_piece *piece)
{
    const struct bw_page *from = piece->page;
    struct bw_page *to = f->page;
    if (piece->from == piece->to)
        return;
    if (t->small) {
        copy_small(t, f, piece);
        return;
    }
    uint32_t first = bw_offset(from, piece->from), end = bw_offset(from, piece->to);
    for (uint32_t i = piece->from; i < piece->to; i++, f->row++) {
        if (from->prefix == to->prefix) {
            to->heads[f->row] = from->heads[i];
        } else {
            struct bw_key key = bw_row_key(t, from, i);
            to->heads[f->row] = bw_head_of(key.bytes + to->prefix, key.len - to->prefix);
        }
        put_offset(f, f->row, f->offset + (bw_offset(from, i) - first));
    }
    memcpy(f->entries + f->offset, bw_entries(from) + first, end - first);
    f->offset += end - first;
}

static void copy_delta(const struct lladd_bwtree *t, struct fill *f, const struct bw_delta *d)
{
    struct bw_page *to = f->page;
    unsigned char pid[4];
    const unsigned char *value = pid;
    uint32_t len = delta_value(d, to->s.level);
    if (to->s.level)
        lladd_put32(pid, d->child);
    else
        value = bw_delta_value(t, d);
    if (t->small) {
        to->heads[f->row++] = d->head;
        lladd_copy(f->values, value, len);
        f->values += len;
        return;
    }
    struct bw_key key = bw_delta_key(d);
    unsigned char *e = f->entries + f->offset;
    to->heads[f->row] = bw_head_of(key.bytes + to->prefix, key.len - to->prefix);
    put_offset(f, f->row++, f->offset);
    lladd_put16(e, d->key_len);
    lladd_copy(e + 2, key.bytes, key.len);
    lladd_copy(e + 2 + key.len, value, len);
    f->offset += 2 + key.len + len;
}

static struct fill begin_rows(struct bw_page *p)
{
    struct fill f = {.page = p};
    f.values = (unsigned char *)(p->heads + p->n);
    f.entries = f.values + 4 * ((size_t)p->n + 1);
    return f;
}

/* Ends the rows, and stores the fences. `high` is used if the page has a right neighbour. */
static void end_rows(const struct lladd_bwtree *t, struct fill *f, struct bw_key low,
                     struct bw_key high)
{
    struct bw_page *p = f->page;
    bool bounded = p->right != BW_NONE;
    p->low_len = (uint16_t)low.len;
    p->low_head = low.head;
    p->high_len = bounded ? (uint16_t)high.len : 0;
    p->high_head = bounded ? high.head : 0;
    if (t->small)
        return;
    put_offset(f, p->n, f->offset);
    lladd_copy(f->entries + f->offset, low.bytes, low.len);
    if (bounded)
        lladd_copy(f->entries + f->offset + low.len, high.bytes, high.len);
}

struct bw_page *ll_bwtree__page_build(struct lladd_bwtree *t, const struct bw_plan *plan)
{
    bool bounded = plan->right != BW_NONE;
    uint32_t n, used;
    measure(t, plan, &n, &used);
    struct bw_page *p = allocate(t, plan->level, n, used,
                                 plan->low.len + (bounded ? plan->high.len : 0), plan->slab);
    if (!p)
        return NULL;
    p->right = plan->right;
    p->bound = plan->bound;
    p->prefix = bounded && !t->small ? common(plan->low, plan->high) : 0;
    struct fill f = begin_rows(p);
    for (size_t i = 0; i < plan->n_pieces; i++) {
        copy_rows(t, &f, &plan->pieces[i]);
        if (plan->pieces[i].delta)
            copy_delta(t, &f, plan->pieces[i].delta);
    }
    end_rows(t, &f, plan->low, plan->high);
    return p;
}

static const struct bw_key lowest = {(const unsigned char *)"", 0, 0};

struct bw_page *ll_bwtree__page_empty(struct lladd_bwtree *t)
{
    struct bw_page *p = allocate(t, 0, 0, 0, 0, true);
    if (!p)
        return NULL;
    struct fill f = begin_rows(p);
    end_rows(t, &f, lowest, lowest);
    return p;
}

static void add_child(const struct lladd_bwtree *t, struct fill *f, struct bw_key key,
                      uint32_t child)
{
    unsigned char *e = f->entries + f->offset;
    f->page->heads[f->row] = key.head;
    if (t->small) {
        lladd_put32(f->values + 4 * (size_t)f->row++, child);
        return;
    }
    put_offset(f, f->row++, f->offset);
    lladd_put16(e, (uint16_t)key.len);
    lladd_copy(e + 2, key.bytes, key.len);
    lladd_put32(e + 2 + key.len, child);
    f->offset += 2 + key.len + 4;
}

struct bw_page *ll_bwtree__page_root(struct lladd_bwtree *t, uint8_t level, uint32_t first,
                                     struct bw_key middle, uint32_t second)
{
    uint32_t used = t->small ? 2 * (8 + 4) : 2 * (12 + 2 + 4) + middle.len;
    struct bw_page *p = allocate(t, level, 2, used, 0, true);
    if (!p)
        return NULL;
    struct fill f = begin_rows(p);
    add_child(t, &f, lowest, first);
    add_child(t, &f, middle, second);
    end_rows(t, &f, lowest, lowest);
    return p;
}

/* ---- freeing --------------------------------------------------------------------------------- */

void ll_bwtree__page_free(struct lladd_bwtree *t, struct bw_page *p)
{
    ll_bwtree__free(t, p->block, p->bytes);
}

void ll_bwtree__chain_free(struct lladd_bwtree *t, const struct bw_state *head)
{
    const struct bw_state *s = head, *next;
    if (head->kind == BW_MERGE)
        ll_bwtree__page_free(t, bw_content(head));
    for (; s->kind != BW_PAGE; s = next) {
        next = s->next;
        ll_bwtree__delta_free(t, bw_delta_of(s));
    }
    ll_bwtree__page_free(t, bw_page_of(s));
}

static void release(void *ctx, struct lladd_retired *retired)
{
    struct bw_page *p =
        (struct bw_page *)((unsigned char *)retired - offsetof(struct bw_page, retired));
    ll_bwtree__chain_free(ctx, p->last);
}

void ll_bwtree__chain_retire(struct bw_call *c, const struct bw_state *head)
{
    struct bw_page *p = bw_bottom(head);
    size_t bytes = p->bytes;
    p->last = head;
    if (head->kind == BW_MERGE)
        bytes += bw_content(head)->bytes;
    for (const struct bw_state *s = head; s->kind != BW_PAGE; s = s->next) {
        const struct bw_delta *d = bw_delta_of(s);
        if (s->alone)
            bytes += ll_bwtree__delta_size(c->t, (enum bw_kind)s->kind, d->key_len, d->high_len,
                                           d->value_len);
    }
    lladd_epoch_retire(c->t->epochs, c->in, &p->retired, bytes, release, c->t);
}
