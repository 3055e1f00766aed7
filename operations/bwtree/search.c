/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Searches. A search walks along the chain of deltas, and ends at the first delta that decides it;
 * else it searches the page. Each delta knows how many of the page's rows have lower keys, so the
 * deltas that it passes narrow the search in the page.
 *
 * A page that was split has its right link, and the key at which the neighbour begins, in a split
 * delta or in the page. A search for that key or a later one goes on in the neighbour (BWM-3). If
 * the head is a merge delta, keys from the delta's key on are in the page that was merged, and the
 * right link is that page's.
 *
 * While a thread is in an epoch, a PID leads to a page that begins where it did, or to a remove
 * delta (merge.c). Only the root's level rises.
 */
#include "operations/bwtree/bwtree.h"

int ll_bwtree__compare_rest(struct bw_key a, struct bw_key b)
{
    if (a.len == BW_END)
        return 1;
    uint32_t least = a.len < b.len ? a.len : b.len;
    int c = least > 8 ? memcmp(a.bytes + 8, b.bytes + 8, least - 8) : 0;
    return c ? c : a.len < b.len ? -1 : a.len > b.len;
}

/* ---- in a page ------------------------------------------------------------------------------- */

/* Keys are often spread evenly, so the key's place between low key and high key is a good guess. It
 * saves most of the cache misses of a binary search. */
static inline uint32_t guess(const struct bw_page *p, uint64_t head)
{
    uint64_t low = p->low_head, high = p->right == BW_NONE ? UINT64_MAX : p->high_head;
    return (uint32_t)((double)(head - low) / (double)(high - low) * (double)p->n);
}

enum { NEAR = 4 }; /* so many rows from the guess are tried first */

/* From the guess, goes on in steps that double, and then halves what is left. */
static inline uint32_t lower_head(const struct bw_page *p, uint64_t head, uint32_t lo, uint32_t hi)
{
    if (lo >= hi || head <= p->low_head)
        return lo;
    uint32_t at = guess(p, head);
    at = at < lo ? lo : at >= hi ? hi - 1 : at;
    if (p->heads[at] < head) {
        lo = at + 1;
        for (uint32_t step = NEAR; step <= hi - lo; step *= 2) {
            if (p->heads[lo + step - 1] >= head) {
                hi = lo + step - 1;
                break;
            }
            lo += step;
        }
    } else {
        hi = at;
        for (uint32_t step = NEAR; step <= hi - lo; step *= 2) {
            if (p->heads[hi - step] < head) {
                lo = hi - step + 1;
                break;
            }
            hi -= step;
        }
    }
    for (uint32_t n = hi - lo; n > 0;) {
        uint32_t half = (n + 1) / 2;
        lo += p->heads[lo + half - 1] < head ? half : 0;
        n -= half;
    }
    return lo;
}

static uint32_t lower_bytes(const struct lladd_bwtree *t, const struct bw_page *p,
                            struct bw_key key, uint32_t lo, uint32_t hi)
{
    uint64_t head = bw_head_of(key.bytes + p->prefix, key.len - p->prefix);
    while (lo < hi) {
        uint32_t middle = lo + (hi - lo) / 2;
        uint64_t other = p->heads[middle];
        bool less = other != head ? other < head
                                  : bw_compare(t, bw_row_key(t, p, middle), key) < 0;
        if (less)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo;
}

uint32_t ll_bwtree__lower(const struct lladd_bwtree *t, const struct bw_page *p, struct bw_key key,
                          uint32_t lo, uint32_t hi)
{
    if (key.len == BW_END)
        return hi;
    return t->small ? lower_head(p, key.head, lo, hi) : lower_bytes(t, p, key, lo, hi);
}

bool ll_bwtree__row_is(const struct lladd_bwtree *t, const struct bw_page *p, uint32_t i,
                       struct bw_key key)
{
    return i < p->n && key.len != BW_END && bw_compare(t, key, bw_row_key(t, p, i)) == 0;
}

/* ---- in a chain ------------------------------------------------------------------------------ */

/* The rows between which the place of a key is, as far as deltas have narrowed it. */
struct range {
    uint32_t lo, hi;
};

static inline void narrow(struct range *r, uint32_t at, bool from)
{
    if (from)
        r->lo = at > r->lo ? at : r->lo;
    else
        r->hi = at < r->hi ? at : r->hi;
}

static inline enum bw_step go_right(struct bw_seen *seen, struct bw_key from, uint32_t right)
{
    seen->from = from;
    seen->child = right;
    return BW_RIGHT;
}

static inline enum bw_step found_delta(const struct lladd_bwtree *t, const struct bw_delta *d,
                                       struct bw_seen *seen)
{
    seen->found = d->s.kind != BW_DELETE && d->s.kind != BW_DROP;
    seen->at = d->at;
    seen->child = d->child;
    seen->value_len = d->value_len;
    seen->value = bw_delta_value(t, d);
    return BW_HERE;
}

/* The part of a page with a merge delta that has the aim. */
static const struct bw_state *part_of(const struct lladd_bwtree *t, const struct bw_state *s,
                                      const struct bw_aim *aim)
{
    return bw_from(t, aim, bw_delta_key(bw_delta_of(s))) ? &bw_content(s)->s : s->next;
}

enum bw_step ll_bwtree__look(const struct lladd_bwtree *t, const struct bw_state *s,
                             const struct bw_aim *aim, struct bw_seen *seen)
{
    if (__builtin_expect(s->kind == BW_MERGE, 0))
        s = part_of(t, s, aim);
    const struct bw_page *p = bw_bottom(s);
    struct range r = {0, p->n};
    for (; s->kind != BW_PAGE; s = s->next) {
        const struct bw_delta *d = bw_delta_of(s);
        int c = bw_compare(t, aim->key, bw_delta_key(d));
        if (c == 0 && s->kind != BW_SPLIT)
            return found_delta(t, d, seen);
        if (c >= 0 && s->kind == BW_SPLIT)
            return go_right(seen, bw_delta_key(d), d->child);
        narrow(&r, d->at, c >= 0);
    }
    if (p->right != BW_NONE && bw_from(t, aim, bw_high(t, p)))
        return go_right(seen, bw_high(t, p), p->right);
    seen->at = ll_bwtree__lower(t, p, aim->key, r.lo, r.hi);
    seen->found = ll_bwtree__row_is(t, p, seen->at, aim->key);
    if (seen->found) {
        seen->value = bw_row_value(t, p, seen->at, &seen->value_len);
        seen->child = p->s.level ? lladd_get32(seen->value) : 0;
    }
    return BW_HERE;
}

/* Calls of this function and of go_down would add a quarter to the instructions of a descent. */
__attribute__((always_inline)) static inline enum bw_step
step(const struct lladd_bwtree *t, const struct bw_state *s, const struct bw_aim *aim,
     struct bw_seen *seen)
{
    if (__builtin_expect(s->kind == BW_MERGE, 0))
        s = part_of(t, s, aim);
    const struct bw_page *p = bw_bottom(s);
    struct range r = {0, p->n};
    for (; s->kind != BW_PAGE; s = s->next) {
        const struct bw_delta *d = bw_delta_of(s);
        bool from = bw_from(t, aim, bw_delta_key(d));
        if (from && s->kind == BW_SPLIT)
            return go_right(seen, bw_delta_key(d), d->child);
        if (from && !(s->bounded && bw_from(t, aim, bw_delta_high(d)))) {
            seen->child = d->child;
            return BW_HERE;
        }
        narrow(&r, d->at, from);
    }
    if (p->right != BW_NONE && bw_from(t, aim, bw_high(t, p)))
        return go_right(seen, bw_high(t, p), p->right);
    uint32_t i = ll_bwtree__lower(t, p, aim->key, r.lo, r.hi);
    if (i > 0 && (aim->below || !ll_bwtree__row_is(t, p, i, aim->key)))
        i--;
    seen->child = bw_row_child(t, p, i);
    return BW_HERE;
}

enum bw_step ll_bwtree__step(const struct lladd_bwtree *t, const struct bw_state *s,
                             const struct bw_aim *aim, struct bw_seen *seen)
{
    return step(t, s, aim, seen);
}

uint32_t ll_bwtree__right(const struct lladd_bwtree *t, const struct bw_state *s,
                          struct bw_key *from)
{
    if (s->kind == BW_MERGE)
        s = &bw_content(s)->s;
    for (; s->kind != BW_PAGE; s = s->next)
        if (s->kind == BW_SPLIT) {
            *from = bw_delta_key(bw_delta_of(s));
            return bw_delta_of(s)->child;
        }
    const struct bw_page *p = bw_page_of(s);
    if (p->right != BW_NONE)
        *from = bw_high(t, p);
    return p->right;
}

/* ---- descents -------------------------------------------------------------------------------- */

__attribute__((always_inline)) static inline const struct bw_state *
go_down(struct bw_call *c, const struct bw_state *s, const struct bw_aim *aim, uint32_t level,
        bool helps, uint32_t *pid)
{
    while (s->level > level && s->kind != BW_REMOVE) {
        struct bw_seen seen;
        if (step(c->t, s, aim, &seen) == BW_RIGHT && helps)
            ll_bwtree__post(c, s->level + 1u, seen.from, seen.child, true);
        s = bw_load(c->t, *pid = seen.child);
        if (__builtin_expect(s->kind == BW_MERGE, 0) && helps) {
            (void)ll_bwtree__settle(c, *pid, s);
            s = bw_load(c->t, *pid);
        }
    }
    return s;
}

const struct bw_state *ll_bwtree__go_down(struct bw_call *c, const struct bw_state *s,
                                          const struct bw_aim *aim, uint32_t level, bool helps,
                                          uint32_t *pid)
{
    return go_down(c, s, aim, level, helps, pid);
}

const struct bw_state *ll_bwtree__descend(struct bw_call *c, const struct bw_aim *aim,
                                          uint32_t level, bool helps, uint32_t *pid)
{
    const struct bw_state *s = bw_load(c->t, *pid = BW_ROOT);
    for (;;) {
        s = go_down(c, s, aim, level, helps, pid);
        if (__builtin_expect(s->kind != BW_REMOVE, 1))
            return s->level == level ? s : NULL;
        bool merged = helps && ll_bwtree__settle(c, *pid, s);
        s = merged ? bw_load(c->t, *pid = BW_ROOT) : s->next;
    }
}

const struct bw_state *ll_bwtree__find(struct bw_call *c, const struct bw_aim *aim, uint32_t level,
                                       uint32_t *pid)
{
    const struct bw_state *s = ll_bwtree__descend(c, aim, level, false, pid);
    for (struct bw_key from; s;) {
        uint32_t right = ll_bwtree__right(c->t, s, &from);
        if (right == BW_NONE || !bw_from(c->t, aim, from))
            break;
        s = bw_read(c->t, *pid = right);
    }
    return s;
}
