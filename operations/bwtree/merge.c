/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Merges. A page R with few rows is merged into its left neighbour L, in three steps, each a
 * compare-and-swap (BWM-6):
 *
 *   1. A remove delta on R, which has no other deltas. From now on R's page is constant.
 *   2. A merge delta on L, which leads to R's page: keys from R's low key on are there. Now the
 *      merge has happened: L's range and its right link are those of both pages.
 *   3. An index-term delete on the parent: the keys of R's term lead to the child before it.
 *
 * Then R's PID is retired. When no thread can hold it any more, it is given out again (BWM-7).
 *
 * One merge at a time. The word `shape` names R from before step 1 until after step 3. A thread
 * that wants to merge or to split an inner page, and finds that the word is not free, gives up for
 * now. So between the steps the parent is neither split nor merged, and no second page is removed.
 *
 * Other threads may come between the steps, or be parked there themselves. From step 1 on any
 * thread can finish the merge: the remove delta says which step comes next, the present states say
 * which steps have been taken, and each step is taken once. A writer that meets a remove delta or a
 * merge delta finishes the merge before its own change, and starts again from the root. So R and L
 * stay as they are from step 1 or 2 on until step 3 has been taken. Then the next writer, or the
 * thread that took step 3, replaces L and its merge delta by one page. What can come in between:
 *
 *   - A change or a split of R: it replaces the state that step 1 replaces, so one of both fails.
 *   - A change or a consolidation of L before step 2: step 2 fails, and is tried again.
 *   - A split of L before step 2: R's left neighbour is the new page, even if it has no index term.
 *     Step 2 looks for the page that links to R.
 *   - A term of any page on the parent before step 3: step 3 fails, and is tried again. No term of
 *     R comes late (split.c).
 *   - A consolidation of the parent takes the index-term delete along, or fails.
 *   - A split of L between steps 2 and 3 could make a page that begins where R does. There is none,
 *     since L keeps its merge delta.
 *   - A reader that comes to R reads R's page. Its way to R led through a state of the parent that
 *     was the present one before step 3, or a state of L from before step 2. From step 1 on until
 *     step 3 the page has the present rows, since nothing changes them in L either. So there was a
 *     moment in the reader's call at which they were right. The page is freed after step 3, when L
 *     has been replaced and the reader has left its epoch.
 *   - A cursor with a copy of R or L: the numbers of their states have changed.
 *   - A merge of L into its own left neighbour: the word `shape` is not free.
 *
 * R is never the first child of its parent: no term of the parent could take over R's keys. R's
 * first child may be merged after R was, since it is not a first child any more.
 *
 * Nothing is undone. If memory is lacking, a merge stays unfinished until a thread meets it that
 * has memory; meanwhile changes of R's and L's rows fail, and no other page is merged.
 */
#include "operations/bwtree/bwtree.h"

#include <lladd/dst.h>

/* In front of a remove delta, in the same block. */
struct grave {
    struct lladd_retired retired;
    size_t bytes; /* of the block */
    uint32_t pid; /* BW_NONE: it has been given out */
};

static struct grave *grave_of(const struct bw_state *removed)
{
    return (struct grave *)(uintptr_t)removed - 1;
}

void ll_bwtree__removed_free(struct lladd_bwtree *t, const struct bw_state *removed)
{
    ll_bwtree__free(t, grave_of(removed), grave_of(removed)->bytes);
}

static void bury(void *ctx, struct lladd_retired *retired)
{
    struct grave *g = (struct grave *)retired;
    struct lladd_bwtree *t = ctx;
    if (g->pid != BW_NONE)
        ll_bwtree__pid_give(t, g->pid);
    ll_bwtree__free(t, g, g->bytes);
}
_Static_assert(offsetof(struct grave, retired) == 0, "bury finds the grave");

static struct bw_state *make_removed(struct lladd_bwtree *t, uint32_t pid, const struct bw_page *p,
                                     uint64_t ticket)
{
    const struct bw_change change = {.kind = BW_REMOVE,
                                     .key = bw_low(t, p),
                                     .child = pid,
                                     .value_len = (uint32_t)(ticket >> 32)};
    size_t bytes =
        sizeof(struct grave) + ll_bwtree__delta_size(t, BW_REMOVE, change.key.len, 0, 0);
    struct grave *g = ll_bwtree__alloc(t, bytes);
    if (!g)
        return NULL;
    g->bytes = bytes;
    g->pid = pid;
    struct bw_delta *d = (struct bw_delta *)(g + 1);
    ll_bwtree__delta_fill(t, d, &p->s, 0, &change, true);
    return &d->s;
}

/* ---- the word `shape` ------------------------------------------------------------------------ */

static bool finish(struct bw_call *, const struct bw_state *removed);

static bool is_unfinished(const struct lladd_bwtree *t, const struct bw_state *s)
{
    return lladd_atomic_look64(&t->shape) == bw_ticket(s);
}

/* Finishes the merge that `shape` names, if its page was removed already. */
static void help(struct bw_call *c, uint32_t pid)
{
    if (pid == BW_NONE || pid == BW_INNER_SPLIT)
        return;
    const struct bw_state *s = bw_load(c->t, pid);
    if (s->kind == BW_REMOVE)
        (void)finish(c, s);
}

uint64_t ll_bwtree__shape_take(struct bw_call *c, uint32_t pid)
{
    struct lladd_bwtree *t = c->t;
    help(c, (uint32_t)lladd_atomic_look64(&t->shape));
    uint64_t word = lladd_atomic_look64(&t->shape), mine = ((word >> 32) + 1) << 32 | pid;
    return (uint32_t)word == 0 && lladd_atomic_cas64(&t->shape, &word, mine) ? mine : 0;
}

void ll_bwtree__shape_give(struct lladd_bwtree *t, uint64_t taken)
{
    (void)lladd_atomic_cas64(&t->shape, &taken, taken >> 32 << 32);
}

/* ---- the page on the left -------------------------------------------------------------------- */

struct place {
    const struct bw_state *s;
    uint32_t pid;
    bool links; /* its right link is page R */
};

/* Finds the page that links to R or, if there is none, the page of R's level that has R's low key.
 * Returns false if another page is being removed on the way. */
static bool find_left(struct bw_call *c, uint32_t level, struct bw_key low, uint32_t r,
                      struct place *out)
{
    const struct bw_aim aim = {.key = low, .below = true};
    const struct bw_state *root = bw_load(c->t, out->pid = BW_ROOT);
    struct bw_key from;
    out->s = ll_bwtree__go_down(c, root, &aim, level, false, &out->pid);
    while (out->s->kind != BW_REMOVE) {
        uint32_t right = ll_bwtree__right(c->t, out->s, &from);
        out->links = right == r;
        if (out->links || right == BW_NONE || bw_compare(c->t, from, low) >= 0)
            return true;
        out->s = bw_load(c->t, out->pid = right);
    }
    return false;
}

/* ---- steps 2 and 3 --------------------------------------------------------------------------- */

/* Step 2, unless it was taken. *left gets the PID of L, if it is known. */
static bool put_merge(struct bw_call *c, const struct bw_state *removed, uint32_t *left)
{
    struct lladd_bwtree *t = c->t;
    const struct bw_delta *r = bw_delta_of(removed);
    struct bw_change change = {.kind = BW_MERGE,
                               .key = bw_delta_key(r),
                               .child = r->child,
                               .value_len = r->value_len,
                               .content = bw_page_of(removed->next)};
    while (is_unfinished(t, removed)) {
        struct place at;
        if (!find_left(c, removed->level, change.key, r->child, &at))
            continue;
        *left = at.pid;
        if (!at.links)
            return true;
        if (at.s->kind == BW_MERGE) { /* of an earlier merge */
            if (!ll_bwtree__settle(c, at.pid, at.s))
                return false;
            continue;
        }
        const struct bw_page *p = bw_bottom(at.s);
        uint32_t row = ll_bwtree__lower(t, p, change.key, 0, p->n);
        struct bw_delta *d = ll_bwtree__delta(t, at.s, row, &change);
        if (!d)
            return false;
        if (bw_replace(t, at.pid, at.s, &d->s))
            return true;
        ll_bwtree__delta_free(t, d);
    }
    return true;
}

/* Makes the index-term delete for the page that begins at `low`. Its range is that of the term, and
 * the child before it now has that range. */
static struct bw_delta *make_drop(struct bw_call *c, const struct bw_state *s, uint32_t at,
                                  struct bw_key low)
{
    const struct bw_aim before = {.key = low, .below = true};
    struct bw_change change = {.kind = BW_DROP, .key = low};
    struct bw_seen seen;
    /* R is not the first child, so the one before it is in this page. */
    (void)ll_bwtree__step(c->t, s, &before, &seen);
    change.child = seen.child;
    change.bounded = ll_bwtree__next_term(c->t, s, low, &change.high);
    return ll_bwtree__delta(c->t, s, at, &change);
}

/* Step 3, unless it was taken. *parent gets the PID of the parent if this thread takes it. */
static bool drop_term(struct bw_call *c, const struct bw_state *removed, uint32_t *parent,
                      bool *took)
{
    struct lladd_bwtree *t = c->t;
    const struct bw_delta *r = bw_delta_of(removed);
    const struct bw_aim aim = {.key = bw_delta_key(r)};
    while (is_unfinished(t, removed)) {
        struct bw_seen seen;
        const struct bw_state *s = ll_bwtree__find(c, &aim, removed->level + 1u, parent);
        if (s->kind == BW_MERGE) { /* of an earlier merge */
            if (!ll_bwtree__settle(c, *parent, s))
                return false;
            continue;
        }
        (void)ll_bwtree__look(t, s, &aim, &seen); /* the page has the key */
        if (!seen.found || seen.child != r->child)
            return true;
        struct bw_delta *d = make_drop(c, s, seen.at, aim.key);
        if (!d)
            return false;
        *took = bw_replace(t, *parent, s, &d->s);
        if (*took)
            return true;
        ll_bwtree__delta_free(t, d);
    }
    return true;
}

/* What the thread does that has taken step 3. No word leads to R any more, so no thread that enters
 * an epoch from now on can come to R: neither by its PID, nor by the delta that is there. */
static void retire(struct bw_call *c, const struct bw_state *removed)
{
    struct lladd_bwtree *t = c->t;
    struct grave *g = grave_of(removed);
    (void)lladd_atomic_add64(&t->removed, 1);
    if (LLADD_PLANTED(LLADD_BUG_BW_PID)) {
        ll_bwtree__pid_give(t, g->pid);
        g->pid = BW_NONE;
    }
    lladd_epoch_retire(t->epochs, c->in, &g->retired, g->bytes, bury, t);
}

/* Takes the steps that are left after step 1. false: out of memory. */
static bool finish(struct bw_call *c, const struct bw_state *removed)
{
    uint32_t left = BW_NONE, parent = BW_NONE;
    bool took = false;
    if (!put_merge(c, removed, &left) || !drop_term(c, removed, &parent, &took))
        return false;
    ll_bwtree__shape_give(c->t, bw_ticket(removed)); /* no other thread's, after the last step */
    if (!took)
        return true;
    bw_count(&c->counts->merges);
    if (removed->level > 0) /* it is no first child any more */
        ll_bwtree__remember(c, bw_row_child(c->t, bw_page_of(removed->next), 0));
    ll_bwtree__remember(c, parent);
    ll_bwtree__remember(c, left);
    retire(c, removed);
    return true;
}

bool ll_bwtree__finish_merge(struct bw_call *c, const struct bw_state *merged)
{
    if (!is_unfinished(c->t, merged))
        return true;
    /* The merge was unfinished in this epoch. So its page's PID is not given out yet. */
    const struct bw_state *s = bw_load(c->t, bw_delta_of(merged)->child);
    return s->kind == BW_REMOVE && finish(c, s);
}

bool ll_bwtree__settle(struct bw_call *c, uint32_t pid, const struct bw_state *s)
{
    if (s->kind == BW_REMOVE)
        return finish(c, s);
    (void)ll_bwtree__renew(c, pid, s);
    return bw_load(c->t, pid) != s; /* nothing but a consolidation replaces a merge delta */
}

/* ---- which pages, and step 1 ----------------------------------------------------------------- */

bool ll_bwtree__is_small(const struct lladd_bwtree *t, uint32_t level, uint32_t n, uint32_t used)
{
    return used <= t->page_bytes / 4 || (level > 0 && n == 1);
}

/* Pages that are merged leave room for rows, so that they are not split at once. */
static bool fit(const struct lladd_bwtree *t, const struct bw_page *a, const struct bw_page *b)
{
    uint64_t used = (uint64_t)a->used + b->used;
    return used <= t->page_bytes / 4 * 3 ||
           !ll_bwtree__is_large(t, a->s.level, a->n + b->n, UINT32_MAX);
}

/* Has the page a term that is not its parent's first one, and a left neighbour with room? */
static bool can_remove(struct bw_call *c, uint32_t pid, const struct bw_page *p)
{
    struct lladd_bwtree *t = c->t;
    const struct bw_aim aim = {.key = bw_low(t, p)};
    struct bw_seen seen;
    struct place left;
    uint32_t parent;
    const struct bw_state *s = ll_bwtree__find(c, &aim, p->s.level + 1u, &parent);
    if (!s || bw_compare(t, aim.key, bw_low(t, bw_bottom(s))) == 0)
        return false;
    (void)ll_bwtree__look(t, s, &aim, &seen);
    return seen.found && seen.child == pid && find_left(c, p->s.level, aim.key, pid, &left) &&
           left.links && left.s->kind != BW_MERGE && fit(t, bw_bottom(left.s), p);
}

/* Step 1. */
static bool put_remove(struct bw_call *c, uint32_t pid, const struct bw_page *p,
                       const struct bw_state *removed)
{
    uint32_t unused;
    if (!LLADD_PLANTED(LLADD_BUG_BW_MERGE))
        return bw_replace(c->t, pid, &p->s, removed);
    (void)put_merge(c, removed, &unused);
    while (!bw_replace(c->t, pid, bw_load(c->t, pid), removed)) {
    }
    return true;
}

/* Merges the page, which is p without deltas, into its left neighbour. Returns false if that cannot
 * be done, or not now. */
static bool merge(struct bw_call *c, uint32_t pid, const struct bw_page *p)
{
    struct lladd_bwtree *t = c->t;
    if (bw_is_first(p))
        return false;
    uint64_t ticket = ll_bwtree__shape_take(c, pid);
    if (!ticket) {
        bw_count(&c->counts->merges_failed);
        return false;
    }
    struct bw_state *removed =
        can_remove(c, pid, p) ? make_removed(t, pid, p, ticket) : NULL;
    if (removed && put_remove(c, pid, p, removed)) {
        (void)finish(c, removed);
        return true;
    }
    ll_bwtree__shape_give(t, ticket);
    if (removed) {
        bw_count(&c->counts->merges_failed);
        ll_bwtree__removed_free(t, removed);
    }
    return false;
}

/* ---- at the end of a call -------------------------------------------------------------------- */

void ll_bwtree__remember(struct bw_call *c, uint32_t pid)
{
    for (uint32_t i = 0; i < c->n_todo; i++)
        if (c->todo[i] == pid)
            return;
    if (pid != BW_ROOT && c->n_todo < BW_TODO)
        c->todo[c->n_todo++] = pid;
}

/* Merges a small page into its left neighbour or, if that has no room or another parent, merges the
 * right neighbour into the page. A logged tree has no merges: its flush relies on pages that stay
 * (flush.c). */
static void shrink(struct bw_call *c, uint32_t pid, const struct bw_page *p)
{
    if (c->t->stored || !ll_bwtree__is_small(c->t, p->s.level, p->n, p->used) || merge(c, pid, p) ||
        p->right == BW_NONE)
        return;
    const struct bw_state *s = bw_load(c->t, p->right);
    if (s->kind >= BW_MERGE)
        return;
    const struct bw_page *right =
        s->kind == BW_PAGE ? bw_page_of(s) : ll_bwtree__renew(c, p->right, s);
    if (right)
        (void)merge(c, p->right, right);
}

void ll_bwtree__look_after(struct bw_call *c)
{
    while (c->n_todo > 0) {
        uint32_t pid = c->todo[--c->n_todo];
        const struct bw_state *s = bw_load(c->t, pid);
        uint32_t most = s->level ? c->t->inner_chain : c->t->leaf_chain;
        if (s->kind == BW_PAGE)
            shrink(c, pid, bw_page_of(s));
        else if (s->kind == BW_MERGE || (s->kind != BW_REMOVE && s->chain >= most))
            ll_bwtree__consolidate(c, pid, s);
    }
}
