/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Consolidation: a new page with the rows of a page and its chain replaces both. The rows between
 * the keys of deltas are copied in stretches. Of several deltas for a key the newest counts.
 *
 * A thread that has made a chain long consolidates it after its own change. Another thread may
 * change the page meanwhile. If it has only put deltas in front of the chain, they are copied in
 * front of the new page, which then replaces the longer chain. So two threads that change one page
 * in turn do not keep each other from consolidating it.
 *
 * A page with a merge delta is replaced by a page with the rows of both pages, when the merge is
 * finished (BWM-6). A page with a remove delta is not consolidated.
 */
#include "operations/bwtree/bwtree.h"

/* USUAL: a chain of so many deltas needs no memory for its list. A leaf of fewer than ROWS rows and
 * an inner page of fewer than CHILDREN are not split: with long keys, too, each level must have
 * fewer pages than the level below it. */
enum { USUAL = 64, ROWS = 2, CHILDREN = 4 };

/* A new page takes along so many deltas of other threads. With more it would need a consolidation
 * itself. */
enum { ALONG = 16 };

/* The deltas of a chain that count, in the order of their keys. */
struct fold {
    const struct bw_delta **deltas;
    struct bw_piece *pieces;
    size_t n;
    const struct bw_delta *split; /* the newest split, which has the lowest key; or NULL */
    const struct bw_delta *usual_deltas[USUAL];
    struct bw_piece usual_pieces[USUAL + 1];
    void *memory;
    size_t memory_bytes;
};

static int fold_begin(struct lladd_bwtree *t, struct fold *f, size_t chain)
{
    f->n = 0;
    f->split = NULL;
    f->deltas = f->usual_deltas;
    f->pieces = f->usual_pieces;
    f->memory = NULL;
    if (chain <= USUAL)
        return 0;
    f->memory_bytes = chain * sizeof *f->deltas + (chain + 1) * sizeof *f->pieces;
    f->memory = ll_bwtree__alloc(t, f->memory_bytes);
    if (!f->memory)
        return LLADD_NO_MEMORY;
    f->pieces = f->memory;
    f->deltas = (const struct bw_delta **)(f->pieces + chain + 1);
    return 0;
}

static int order(const struct lladd_bwtree *t, const struct bw_delta *a, const struct bw_delta *b)
{
    if (a->at != b->at)
        return a->at < b->at ? -1 : 1;
    return bw_compare(t, bw_delta_key(a), bw_delta_key(b));
}

/* Adds a delta that is older than all that were added. */
static void fold_add(const struct lladd_bwtree *t, struct fold *f, const struct bw_delta *d)
{
    size_t i = f->n;
    int c = 1;
    if (f->split && order(t, d, f->split) >= 0)
        return;
    while (i > 0 && (c = order(t, d, f->deltas[i - 1])) < 0)
        i--;
    if (i > 0 && c == 0) /* a newer delta has the key */
        return;
    memmove(f->deltas + i + 1, f->deltas + i, (f->n - i) * sizeof *f->deltas);
    f->deltas[i] = d;
    f->n++;
}

static size_t make_pieces(const struct lladd_bwtree *t, struct fold *f, const struct bw_page *page)
{
    uint32_t from = 0, end = f->split ? f->split->at : page->n;
    for (size_t i = 0; i < f->n; i++) {
        const struct bw_delta *d = f->deltas[i];
        bool gone = d->s.kind == BW_DELETE || d->s.kind == BW_DROP;
        f->pieces[i] = (struct bw_piece){page, from, d->at, gone ? NULL : d};
        from = d->at + ll_bwtree__row_is(t, page, d->at, bw_delta_key(d));
    }
    f->pieces[f->n] = (struct bw_piece){page, from, end, NULL};
    return f->n + 1;
}

struct bw_page *ll_bwtree__fold(struct lladd_bwtree *t, const struct bw_state *head, bool slab)
{
    struct bw_page *page = bw_bottom(head), *made;
    struct bw_plan plan = {
        .level = head->level, .low = bw_low(t, page), .slab = slab, .bound = page->bound};
    struct fold f;
    if (fold_begin(t, &f, head->chain))
        return NULL;
    bool merged = head->kind == BW_MERGE;
    for (const struct bw_state *s = merged ? head->next : head; s->kind != BW_PAGE; s = s->next) {
        const struct bw_delta *d = bw_delta_of(s);
        if (s->kind != BW_SPLIT)
            fold_add(t, &f, d);
        else if (!f.split)
            f.split = d;
    }
    plan.n_pieces = make_pieces(t, &f, page);
    if (merged)
        f.pieces[plan.n_pieces++] =
            (struct bw_piece){bw_content(head), 0, bw_content(head)->n, NULL};
    plan.pieces = f.pieces;
    plan.right = ll_bwtree__right(t, head, &plan.high);
    made = ll_bwtree__page_build(t, &plan);
    if (made)
        made->s.number = head->number + 1;
    if (f.memory)
        ll_bwtree__free(t, f.memory, f.memory_bytes);
    return made;
}

/* Copies a delta in front of a state that no other thread sees. */
static const struct bw_state *copy_delta(struct lladd_bwtree *t, const struct bw_state *head,
                                         const struct bw_delta *d)
{
    struct bw_change change = {.kind = (enum bw_kind)d->s.kind,
                               .key = bw_delta_key(d),
                               .value_len = d->value_len,
                               .child = d->child,
                               .bounded = d->s.bounded};
    if (change.kind == BW_PUT)
        change.value = bw_delta_value(t, d);
    if (change.bounded)
        change.high = bw_delta_high(d);
    const struct bw_page *page = bw_bottom(head);
    uint32_t at = ll_bwtree__lower(t, page, change.key, 0, page->n);
    const struct bw_delta *copy = ll_bwtree__delta(t, head, at, &change);
    return copy ? &copy->s : NULL;
}

/* *made is to replace `head`, but `now` is the present state. Copies the deltas that were put in
 * front of `head` in front of *made. Returns false if there are other changes, or too many. */
static bool take_along(struct lladd_bwtree *t, const struct bw_state **made,
                       const struct bw_state *head, const struct bw_state *now)
{
    const struct bw_delta *late[ALONG];
    uint32_t n = 0;
    if (now->kind >= BW_MERGE)
        return false;
    if (bw_bottom(now) != bw_bottom(head) || now->chain - head->chain + (*made)->chain > ALONG)
        return false;
    for (const struct bw_state *s = now; s != head; s = s->next)
        late[n++] = bw_delta_of(s);
    while (n > 0) {
        const struct bw_state *copy = copy_delta(t, *made, late[--n]);
        if (!copy)
            return false;
        *made = copy;
    }
    return true;
}

struct bw_page *ll_bwtree__renew(struct bw_call *c, uint32_t pid, const struct bw_state *head)
{
    struct lladd_bwtree *t = c->t;
    if (head->kind == BW_REMOVE || (head->kind == BW_MERGE && !ll_bwtree__finish_merge(c, head)))
        return NULL;
    struct bw_page *p = ll_bwtree__fold(t, head, true);
    if (!p)
        return NULL;
    const struct bw_state *made = &p->s;
    while (!bw_replace(t, pid, head, made)) {
        const struct bw_state *now = bw_load(t, pid);
        bw_count(&c->counts->consolidations_failed);
        if (!take_along(t, &made, head, now)) {
            ll_bwtree__chain_free(t, made);
            return NULL;
        }
        head = now;
    }
    bw_count(&c->counts->consolidations);
    ll_bwtree__chain_retire(c, head);
    return made == &p->s ? p : NULL;
}

bool ll_bwtree__is_large(const struct lladd_bwtree *t, uint32_t level, uint32_t n, uint32_t used)
{
    return used > t->page_bytes && n >= (level ? CHILDREN : ROWS);
}

void ll_bwtree__consolidate(struct bw_call *c, uint32_t pid, const struct bw_state *head)
{
    const struct lladd_bwtree *t = c->t;
    struct bw_page *p = ll_bwtree__renew(c, pid, head);
    if (!p)
        return;
    if (ll_bwtree__is_large(t, p->s.level, p->n, p->used))
        ll_bwtree__split(c, pid, p);
    else if (ll_bwtree__is_small(t, p->s.level, p->n, p->used))
        ll_bwtree__remember(c, pid);
}

void ll_bwtree__maintain(struct bw_call *c, uint32_t pid, const struct bw_delta *d)
{
    uint32_t most = d->s.level ? c->t->inner_chain : c->t->leaf_chain;
    if (d->s.chain < most)
        return;
    const struct bw_state *now = bw_load(c->t, pid);
    /* The thread of a newer delta does it, unless threads have left it to one another before. */
    if (now == &d->s || now->chain >= 2 * most)
        ll_bwtree__consolidate(c, pid, now);
}
