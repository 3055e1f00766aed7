/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lookups. A reader sees the key's row as it was when the reader loaded the leaf's word or, if the
 * leaf is being merged, at a moment before (merge.c). It passes by unfinished splits and merges.
 * Leaves that no writer comes back to would keep their chains, and be slow to read; so now and then
 * a reader that has met a long chain consolidates it.
 */
#include "operations/bwtree/bwtree.h"

enum { LONG = 4, ONE_IN = 8 }; /* of ONE_IN readers that meet LONG deltas, one consolidates */

static void tidy(struct bw_call *c, uint32_t pid, const struct bw_state *s)
{
    struct bw_page *p = bw_bottom(s);
    uint64_t reads = lladd_atomic_load64_relaxed(&p->reads) + 1;
    lladd_atomic_store64_relaxed(&p->reads, reads);
    if (reads % ONE_IN == 0)
        ll_bwtree__consolidate(c, pid, s);
}

/* Finds the key's row. LLADD_NOT_FOUND. */
static int look_up(struct bw_call *c, struct bw_key key, struct bw_seen *seen)
{
    const struct bw_aim aim = {.key = key};
    uint32_t pid;
    const struct bw_state *s = ll_bwtree__descend(c, &aim, 0, false, &pid);
    while (ll_bwtree__look(c->t, s, &aim, seen) == BW_RIGHT)
        s = bw_read(c->t, pid = seen->child);
    if (s->chain >= LONG)
        tidy(c, pid, s);
    return seen->found ? 0 : LLADD_NOT_FOUND;
}

static int get(struct bw_call *c, struct lladd_bwtree_query *q, struct lladd_error *err)
{
    struct bw_key key;
    struct bw_seen seen;
    TRY(ll_bwtree__key(c->t, q->key, q->key_len, &key, err));
    TRY(look_up(c, key, &seen));
    q->len = seen.value_len;
    lladd_copy(q->buf, seen.value, q->len < q->size ? q->len : q->size);
    return 0;
}

int lladd_bwtree_get(struct lladd_bwtree *t, const void *key, size_t key_len, void *buf,
                     size_t size, size_t *len, struct lladd_error *err)
{
    struct lladd_bwtree_query q = {key, key_len, buf, size, 0, 0};
    struct bw_call c;
    TRY(ll_bwtree__enter(t, &c, err));
    int rc = get(&c, &q, err);
    bw_leave(&c);
    if (rc == LLADD_NOT_FOUND)
        return lladd_error_set(err, rc, "there is no such key");
    if (!rc && len)
        *len = q.len;
    return rc;
}

/* An epoch for a few queries, so that a call with many of them keeps little memory. */
enum { QUERIES = 32 };

int lladd_bwtree_get_many(struct lladd_bwtree *t, struct lladd_bwtree_query *q, size_t n,
                          struct lladd_error *err)
{
    struct lladd_error *first = err;
    int rc = 0;
    for (size_t i = 0; i < n;) {
        struct bw_call c;
        int entered = ll_bwtree__enter(t, &c, first);
        for (size_t end = n - i < QUERIES ? n : i + QUERIES; i < end; i++) {
            q[i].rc = entered ? entered : get(&c, &q[i], first);
            if (q[i].rc && q[i].rc != LLADD_NOT_FOUND && !rc) {
                rc = q[i].rc;
                first = NULL;
            }
        }
        if (!entered)
            bw_leave(&c);
    }
    return rc;
}
