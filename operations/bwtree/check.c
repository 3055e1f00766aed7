/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Statistics, and the check of the invariants. Both walk through each level from left to right,
 * from key to key, with an epoch for each page.
 */
#include "operations/bwtree/stored.h"

/* A walk through a level. */
struct walk {
    struct lladd_bwtree *t;
    uint32_t level;
    struct bw_key from; /* where the next page begins */
    bool first;
    unsigned char bytes[LLADD_BWTREE_KEY_MAX];
};
typedef int visit_fn(void *ctx, const struct walk *, uint32_t pid, const struct bw_state *,
                     struct lladd_error *);

static void go_on_at(struct walk *w, struct bw_key key)
{
    if (!w->t->small)
        memmove(w->bytes, key.bytes, key.len);
    w->from = key;
    w->from.bytes = w->bytes;
}

/* Calls fn for each page of the level. *there gets false if the tree has no such level. */
static int walk_level(struct lladd_bwtree *t, uint32_t level, visit_fn *fn, void *ctx, bool *there,
                      struct lladd_error *err)
{
    struct walk w = {.t = t, .level = level, .first = true};
    struct bw_key next = {w.bytes, 0, 0};
    uint32_t right, pid;
    w.from = next;
    do {
        const struct bw_aim aim = {.key = w.from};
        struct bw_call c;
        TRY(ll_bwtree__enter(t, &c, err));
        const struct bw_state *s = ll_bwtree__find(&c, &aim, level, &pid);
        *there = s != NULL;
        int rc = s ? fn(ctx, &w, pid, s, err) : 0;
        right = s ? ll_bwtree__right(t, s, &next) : BW_NONE;
        if (right != BW_NONE)
            go_on_at(&w, next);
        w.first = false;
        bw_leave(&c);
        TRY(rc);
    } while (right != BW_NONE);
    return 0;
}

/* ---- statistics ------------------------------------------------------------------------------ */

static int count_page(void *ctx, const struct walk *w, uint32_t pid, const struct bw_state *s,
                      struct lladd_error *err)
{
    struct lladd_bwtree_stats *out = ctx;
    (void)pid;
    out->deltas += s->chain;
    if (w->level > 0) {
        out->inner++;
        return 0;
    }
    struct bw_page *p = ll_bwtree__fold(w->t, s, false);
    if (!p)
        return ll_bwtree__no_memory(err, "statistics");
    uint32_t longest = LLADD_BWTREE_CHAINS - 1;
    out->rows += p->n;
    out->leaves++;
    out->chains[s->chain < longest ? s->chain : longest]++;
    ll_bwtree__page_free(w->t, p);
    return 0;
}

static void add_counts(struct lladd_bwtree *t, struct lladd_bwtree_stats *out)
{
    for (unsigned i = 0; i < BW_STRIPES; i++) {
        const struct bw_counts *c = &t->counts[i];
        out->updates += lladd_atomic_load64_relaxed(&c->updates);
        out->updates_failed += lladd_atomic_load64_relaxed(&c->updates_failed);
        out->splits += lladd_atomic_load64_relaxed(&c->splits);
        out->splits_failed += lladd_atomic_load64_relaxed(&c->splits_failed);
        out->terms += lladd_atomic_load64_relaxed(&c->terms);
        out->terms_failed += lladd_atomic_load64_relaxed(&c->terms_failed);
        out->consolidations += lladd_atomic_load64_relaxed(&c->consolidations);
        out->consolidations_failed += lladd_atomic_load64_relaxed(&c->consolidations_failed);
        out->helped += lladd_atomic_load64_relaxed(&c->helped);
        out->merges += lladd_atomic_load64_relaxed(&c->merges);
        out->merges_failed += lladd_atomic_load64_relaxed(&c->merges_failed);
    }
}

int lladd_bwtree_stats_get(struct lladd_bwtree *t, struct lladd_bwtree_stats *out,
                           struct lladd_error *err)
{
    struct lladd_bwtree_stats s = {.struct_size = out->struct_size};
    bool there = true;
    while (there) {
        TRY(walk_level(t, s.levels, count_page, &s, &there, err));
        s.levels += there;
    }
    add_counts(t, &s);
    s.waiting = lladd_epochs_waiting(t->epochs);
    s.memory = lladd_atomic_load64_relaxed(&t->memory);
    if (t->stored)
        ll_bwtree__store_stats(t->stored->store, &s);
    memcpy(out, &s, s.struct_size < sizeof s ? s.struct_size : sizeof s);
    return 0;
}

/* ---- the check ------------------------------------------------------------------------------- */

static int wrong(struct lladd_error *err, const struct walk *w, uint32_t pid, const char *what)
{
    return lladd_error_set(err, LLADD_BUG, "page %u of level %u of a Bw-tree: %s", pid, w->level,
                           what);
}

/* Links, numbers and places of a chain (BWM-1). */
static int check_chain(const struct walk *w, uint32_t pid, const struct bw_state *s,
                       struct lladd_error *err)
{
    const struct bw_page *p = bw_bottom(s);
    const struct bw_state *head = s;
    for (; s->kind != BW_PAGE; s = s->next) {
        const struct bw_delta *d = bw_delta_of(s);
        if (s->chain != s->next->chain + 1 || s->number != s->next->number + 1)
            return wrong(err, w, pid, "a delta has a wrong number");
        if (d->page != p || s->level != w->level)
            return wrong(err, w, pid, "a delta belongs to another page");
        if (s->kind >= BW_MERGE && s != head)
            return wrong(err, w, pid, "there is a delta in front of a merge's");
        if (d->at != ll_bwtree__lower(w->t, p, bw_delta_key(d), 0, p->n))
            return wrong(err, w, pid, "a delta states a wrong place in the page");
    }
    if (s->chain || s->level != w->level || bw_page_of(s) != p)
        return wrong(err, w, pid, "the chain ends at another page");
    return 0;
}

/* The order of the rows of a page without deltas, and its bounds. */
static int check_rows(const struct walk *w, uint32_t pid, const struct bw_page *p,
                      struct lladd_error *err)
{
    const struct lladd_bwtree *t = w->t;
    if (bw_compare(t, bw_low(t, p), w->from) != 0 || bw_is_first(p) != w->first)
        return wrong(err, w, pid, "its low key is not the high key of its left neighbour");
    for (uint32_t i = 0; i < p->n; i++) {
        struct bw_key key = bw_row_key(t, p, i);
        if (i > 0 ? bw_compare(t, bw_row_key(t, p, i - 1), key) >= 0
                  : bw_compare(t, key, bw_low(t, p)) < 0)
            return wrong(err, w, pid, "its keys are not in order");
        if (p->right != BW_NONE && bw_compare(t, key, bw_high(t, p)) >= 0)
            return wrong(err, w, pid, "a key is not below its high key");
    }
    return 0;
}

/* The key at which a page begins in any state. */
static struct bw_key begins_at(const struct lladd_bwtree *t, const struct bw_state *s)
{
    return s->kind == BW_REMOVE ? bw_delta_key(bw_delta_of(s)) : bw_low(t, bw_bottom(s));
}

/* Each child begins where its term says, one level below (BWM-3). It was not removed, except in an
 * unfinished merge (BWM-6). */
static int check_children(const struct walk *w, uint32_t pid, const struct bw_page *p,
                          struct lladd_error *err)
{
    if (p->n == 0 || bw_compare(w->t, bw_row_key(w->t, p, 0), bw_low(w->t, p)) != 0)
        return wrong(err, w, pid, "it has no child for its low key");
    for (uint32_t i = 0; i < p->n; i++) {
        const struct bw_state *child = bw_load(w->t, bw_row_child(w->t, p, i));
        if (child->level + 1u != w->level)
            return wrong(err, w, pid, "a child is of another level");
        if (bw_compare(w->t, begins_at(w->t, child), bw_row_key(w->t, p, i)) != 0)
            return wrong(err, w, pid, "a child does not begin at its term");
        if (child->kind == BW_REMOVE && lladd_atomic_look64(&w->t->shape) != bw_ticket(child))
            return wrong(err, w, pid, "a child was merged into another page");
    }
    return 0;
}

static int check_page(void *ctx, const struct walk *w, uint32_t pid, const struct bw_state *s,
                      struct lladd_error *err)
{
    (void)ctx;
    TRY(check_chain(w, pid, s, err));
    struct bw_page *p = ll_bwtree__fold(w->t, s, false);
    if (!p)
        return ll_bwtree__no_memory(err, "the check");
    int rc = check_rows(w, pid, p, err);
    if (!rc && w->level > 0)
        rc = check_children(w, pid, p, err);
    ll_bwtree__page_free(w->t, p);
    return rc;
}

/* `shape` is free, or names a page in an unfinished merge. */
static int check_shape(struct lladd_bwtree *t, struct lladd_error *err)
{
    uint32_t pid = (uint32_t)lladd_atomic_look64(&t->shape);
    if (pid == BW_NONE || (pid != BW_INNER_SPLIT && bw_load(t, pid)->kind == BW_REMOVE))
        return 0;
    return lladd_error_set(err, LLADD_BUG, "a Bw-tree neither merges nor splits inner pages");
}

int lladd_bwtree_check(struct lladd_bwtree *t, struct lladd_error *err)
{
    bool there = true;
    TRY(check_shape(t, err));
    for (uint32_t level = 0; there; level++)
        TRY(walk_level(t, level, check_page, NULL, &there, err));
    return 0;
}
