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
 * before it adds it. The term may come after Q has been split again, because ranges never grow.
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
    const struct bw_plan plan = {p, &rows, 1, low, high, right, true};
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
    struct bw_page *right = part(t, p, (struct bw_piece){middle, p->n, NULL}, low, high, p->right);
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
        part(t, p, (struct bw_piece){0, middle, NULL}, bw_low(t, p), high, right);
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

void ll_bwtree__split(struct bw_call *c, uint32_t pid, struct bw_page *p)
{
    struct lladd_bwtree *t = c->t;
    if (pid == BW_ROOT) {
        split_root(c, p);
        return;
    }
    uint32_t middle = middle_of(t, p), right;
    struct bw_key key = divider(t, p, middle);
    if (p->right != BW_NONE) /* the page's split before this one may not be complete */
        ll_bwtree__post(c, p->s.level + 1u, bw_high(t, p), p->right, true);
    if (make_right(t, p, middle, key, &right))
        return;
    if (install(c, pid, p, middle, key, right))
        ll_bwtree__post(c, p->s.level + 1u, key, right, false);
    else
        drop(t, right);
}

/* ---- index terms ----------------------------------------------------------------------------- */

/* Makes the term's delta. Its high key lets searches end at the delta. The child's present high key
 * serves, even if the child has been split since: what lies after it is reached through links. */
static struct bw_delta *make_term(struct bw_call *c, const struct bw_state *s, uint32_t at,
                                  struct bw_key from, uint32_t child)
{
    const struct bw_page *p = bw_bottom(bw_load(c->t, child));
    struct bw_change change = {.kind = BW_TERM, .key = from, .child = child};
    change.bounded = p->right != BW_NONE;
    if (change.bounded)
        change.high = bw_high(c->t, p);
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
        if (s->level != level) {
            s = ll_bwtree__descend(c, &aim, level, true, &pid);
            continue;
        }
        if (ll_bwtree__look(c->t, s, &aim, &seen) == BW_RIGHT) {
            ll_bwtree__post(c, level + 1, seen.from, seen.child, true);
            s = bw_load(c->t, pid = seen.child);
            continue;
        }
        struct bw_delta *d = seen.found ? NULL : make_term(c, s, seen.at, from, child);
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
