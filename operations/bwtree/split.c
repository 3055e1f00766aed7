/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Splits. A page P is split in two steps, each a compare-and-swap (BWM-3):
 *
 *   1. A new page Q gets the upper rows of P, in a PID that no other thread knows. A split delta on
 *      P says that the keys from Q's first on are in Q. Now the split has happened.
 *   2. The parent gets an index term for Q. Until then searches reach Q through P.
 *
 * The thread that splits does step 2. A writer that reaches Q through P does it before its own
 * change (BWM-4), so a parked thread delays no other. Each thread looks whether the term is there
 * before it adds it. The term may come after Q has been split again: what Q has lost is reached
 * through Q. It must not come after Q was merged into P (merge.c). That needs Q's term on the
 * parent. So a thread that sees the parent without the term, and then sees that Q is not being
 * removed, either adds the term in time, or its compare-and-swap fails because another thread has
 * added the term meanwhile.
 *
 * A term covers the keys up to the next term of the parent's present state. So each term, and each
 * index-term delete, tells the whole truth about its keys at the time of its compare-and-swap, and
 * what is older is never asked about these keys again. Otherwise an old term could lead to a page
 * that was merged into another one.
 *
 * Inner pages are split only with the tree's `shape`, because a merge relies on the parent: R's
 * index term must not become the first one of a new parent, in which no other term could take over
 * R's keys.
 *
 * The root keeps its PID. Its split gives both halves new PIDs, and replaces the root by an inner
 * page with two children, in one step.
 *
 * A split needs memory. Without it the page stays as it is, and a later consolidation tries again:
 * pages have no largest size.
 */
#include "operations/bwtree/bwtree.h"

/* The first row of the right half. Rows in ascending order would leave half-full pages, so the last
 * page of a level keeps most of its rows. Both halves of an inner page get two children at least.
 * With one child a level would not have fewer pages than the level below it. */
static uint32_t middle_of(const struct lladd_bwtree *t, const struct bw_page *p)
{
    uint32_t i = p->right == BW_NONE ? p->n - p->n / 8 : p->n / 2;
    if (!t->small && p->right != BW_NONE) {
        uint32_t half = bw_offset(p, p->n) / 2;
        for (i = 1; i + 1 < p->n && bw_offset(p, i) < half; i++) {
        }
    }
    uint32_t least = p->s.level ? 2 : 1; /* an inner page that is split has four rows */
    if (i < least)
        return least;
    return i < p->n - least ? i : p->n - least;
}

/* The key at which the right half begins: of a leaf, the shortest one after the left half. */
static struct bw_key divider(const struct lladd_bwtree *t, const struct bw_page *p, uint32_t middle)
{
    struct bw_key key = bw_row_key(t, p, middle);
    if (t->small || p->s.level)
        return key;
    struct bw_key before = bw_row_key(t, p, middle - 1);
    uint32_t i = 0;
    while (i < before.len && key.bytes[i] == before.bytes[i])
        i++;
    return bw_key_of(key.bytes, i + 1);
}

static struct bw_page *part(struct lladd_bwtree *t, const struct bw_page *p, struct bw_piece rows,
                            struct bw_key low, struct bw_key high, uint32_t right)
{
    const struct bw_plan plan = {p->s.level, &rows, 1, low, high, right, true, p->bound};
    return ll_bwtree__page_build(t, &plan);
}

/* The right half of a page in a PID of its own. */
static int make_right(struct lladd_bwtree *t, const struct bw_page *p, uint32_t middle,
                      struct bw_key low, uint32_t *pid)
{
    struct bw_key high = {0};
    TRY(ll_bwtree__pid_take(t, pid));
    if (p->right != BW_NONE)
        high = bw_high(t, p);
    struct bw_page *right =
        part(t, p, (struct bw_piece){p, middle, p->n, NULL}, low, high, p->right);
    if (!right) {
        ll_bwtree__pid_give(t, *pid);
        return LLADD_NO_MEMORY;
    }
    lladd_atomic_store64(bw_word(t, *pid), (uintptr_t)&right->s);
    return 0;
}

/* Frees a page that no other thread has seen, and its PID. */
static void drop(struct lladd_bwtree *t, uint32_t pid)
{
    ll_bwtree__page_free(t, bw_page_of(bw_load(t, pid)));
    ll_bwtree__pid_give(t, pid);
}

/* ---- the root -------------------------------------------------------------------------------- */

static int make_left(struct lladd_bwtree *t, const struct bw_page *p, uint32_t middle,
                     struct bw_key high, uint32_t right, uint32_t *pid)
{
    TRY(ll_bwtree__pid_take(t, pid));
    struct bw_page *left =
        part(t, p, (struct bw_piece){p, 0, middle, NULL}, bw_low(t, p), high, right);
    if (!left) {
        ll_bwtree__pid_give(t, *pid);
        return LLADD_NO_MEMORY;
    }
    lladd_atomic_store64(bw_word(t, *pid), (uintptr_t)&left->s);
    return 0;
}

static void split_root(struct bw_call *c, struct bw_page *p)
{
    struct lladd_bwtree *t = c->t;
    uint32_t middle = middle_of(t, p), left, right;
    struct bw_key key = divider(t, p, middle);
    if (p->s.level == UINT8_MAX || make_right(t, p, middle, key, &right))
        return;
    if (make_left(t, p, middle, key, right, &left)) {
        drop(t, right);
        return;
    }
    struct bw_page *root =
        ll_bwtree__page_root(t, (uint8_t)(p->s.level + 1), left, key, right);
    if (root) {
        root->s.number = p->s.number + 1;
        if (bw_replace(t, BW_ROOT, &p->s, &root->s)) {
            bw_count(&c->counts->splits);
            ll_bwtree__chain_retire(c, &p->s);
            return;
        }
        bw_count(&c->counts->splits_failed);
        ll_bwtree__page_free(t, root);
    }
    drop(t, left);
    drop(t, right);
}

/* ---- other pages ----------------------------------------------------------------------------- */

/* Puts the split delta on the page. */
static bool install(struct bw_call *c, uint32_t pid, struct bw_page *p, uint32_t middle,
                    struct bw_key key, uint32_t right)
{
    const struct bw_change change = {.kind = BW_SPLIT, .key = key, .child = right};
    struct bw_delta *d = ll_bwtree__delta(c->t, &p->s, middle, &change);
    if (!d)
        return false;
    if (bw_replace(c->t, pid, &p->s, &d->s)) {
        bw_count(&c->counts->splits);
        return true;
    }
    bw_count(&c->counts->splits_failed);
    ll_bwtree__delta_free(c->t, d);
    return false;
}

/* Splits a page that is not the root. */
static void split_page(struct bw_call *c, uint32_t pid, struct bw_page *p)
{
    struct lladd_bwtree *t = c->t;
    uint32_t middle = middle_of(t, p), right;
    struct bw_key key = divider(t, p, middle);
    if (p->right != BW_NONE) /* the page's split before this one may not be complete */
        ll_bwtree__post(c, p->s.level + 1u, bw_high(t, p), p->right, true);
    uint64_t shape = p->s.level ? ll_bwtree__shape_take(c, BW_INNER_SPLIT) : 0;
    if (p->s.level && !shape)
        return;
    bool made = make_right(t, p, middle, key, &right) == 0;
    bool done = made && install(c, pid, p, middle, key, right);
    if (shape)
        ll_bwtree__shape_give(t, shape);
    if (done)
        ll_bwtree__post(c, p->s.level + 1u, key, right, false);
    else if (made)
        drop(t, right);
}

void ll_bwtree__split(struct bw_call *c, uint32_t pid, struct bw_page *p)
{
    if (pid != BW_ROOT) {
        split_page(c, pid, p);
        return;
    }
    uint64_t shape = p->s.level ? ll_bwtree__shape_take(c, BW_INNER_SPLIT) : 0;
    if (p->s.level == 0 || shape)
        split_root(c, p);
    if (shape)
        ll_bwtree__shape_give(c->t, shape);
}

/* ---- index terms ----------------------------------------------------------------------------- */

/* Has a delta in front of `end` this key? */
static bool is_changed(const struct lladd_bwtree *t, const struct bw_state *s,
                       const struct bw_state *end, struct bw_key key)
{
    for (; s != end && s->kind != BW_PAGE; s = s->next)
        if (s->kind != BW_SPLIT && bw_compare(t, key, bw_delta_key(bw_delta_of(s))) == 0)
            return true;
    return false;
}

bool ll_bwtree__next_term(const struct lladd_bwtree *t, const struct bw_state *head,
                          struct bw_key key, struct bw_key *next)
{
    const struct bw_page *p = bw_bottom(head);
    bool found = ll_bwtree__right(t, head, next) != BW_NONE;
    for (const struct bw_state *s = head; s->kind != BW_PAGE; s = s->next) {
        struct bw_key other = bw_delta_key(bw_delta_of(s));
        if (s->kind == BW_TERM && bw_compare(t, other, key) > 0 &&
            (!found || bw_compare(t, other, *next) < 0) && !is_changed(t, head, s, other)) {
            *next = other;
            found = true;
        }
    }
    uint32_t i = ll_bwtree__lower(t, p, key, 0, p->n);
    for (i += ll_bwtree__row_is(t, p, i, key); i < p->n; i++) {
        struct bw_key other = bw_row_key(t, p, i);
        if (found && bw_compare(t, other, *next) >= 0)
            break;
        if (!is_changed(t, head, &p->s, other)) {
            *next = other;
            return true;
        }
    }
    return found;
}

/* Makes the term's delta. Its high key lets searches end at the delta. */
static struct bw_delta *make_term(struct bw_call *c, const struct bw_state *s, uint32_t at,
                                  struct bw_key from, uint32_t child)
{
    struct bw_change change = {.kind = BW_TERM, .key = from, .child = child};
    change.bounded = ll_bwtree__next_term(c->t, s, from, &change.high);
    return ll_bwtree__delta(c->t, s, at, &change);
}

void ll_bwtree__post(struct bw_call *c, uint32_t level, struct bw_key from, uint32_t child,
                     bool helps)
{
    const struct bw_aim aim = {.key = from};
    uint32_t pid;
    const struct bw_state *s = ll_bwtree__descend(c, &aim, level, true, &pid);
    while (s) {
        struct bw_seen seen;
        if (s->level != level || s->kind >= BW_MERGE) {
            if (s->kind >= BW_MERGE && !ll_bwtree__settle(c, pid, s))
                return;
            s = ll_bwtree__descend(c, &aim, level, true, &pid);
            continue;
        }
        if (ll_bwtree__look(c->t, s, &aim, &seen) == BW_RIGHT) {
            ll_bwtree__post(c, level + 1, seen.from, seen.child, true);
            s = bw_load(c->t, pid = seen.child);
            continue;
        }
        if (seen.found || bw_load(c->t, child)->kind == BW_REMOVE)
            return;
        struct bw_delta *d = make_term(c, s, seen.at, from, child);
        if (!d)
            return;
        if (bw_replace(c->t, pid, s, &d->s)) {
            bw_count(&c->counts->terms);
            if (helps)
                bw_count(&c->counts->helped);
            ll_bwtree__maintain(c, pid, d);
            return;
        }
        bw_count(&c->counts->terms_failed);
        ll_bwtree__delta_free(c->t, d);
        s = bw_load(c->t, pid);
    }
}
