/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Insertions, replacements and deletions in a volatile tree (logged.c has those in a logged one). A
 * writer finds the leaf, decides by what it sees in the leaf's state, and puts a delta in front of
 * that state with a compare-and-swap. If another thread was first, the writer looks at the new
 * state and decides again. So each change takes effect at its compare-and-swap, and was
 * decided on the state that it replaced (BWM-2).
 *
 * A writer that has to follow a right link has met a split without its index term, and adds the
 * term before it goes on (BWM-4). It finishes a merge in which the leaf takes part (BWM-6). After
 * its own change it consolidates a long chain.
 */
#include "operations/bwtree/bwtree.h"

int ll_bwtree__allowed(enum bw_verb verb, bool found, struct lladd_error *err)
{
    if (verb == BW_DO_INSERT && found)
        return lladd_error_set(err, LLADD_EXISTS, "the key exists");
    if (verb == BW_DO_DELETE && !found)
        return lladd_error_set(err, LLADD_NOT_FOUND, "there is no such key");
    return 0;
}

/* Installs the change in the tree. */
static int install(struct bw_call *c, enum bw_verb verb, const struct bw_change *change,
                   struct lladd_error *err)
{
    const struct bw_aim aim = {.key = change->key};
    uint32_t pid;
    const struct bw_state *s = ll_bwtree__descend(c, &aim, 0, true, &pid);
    for (;;) {
        struct bw_seen seen;
        /* The root is no leaf any more, or the page is being merged. */
        if (__builtin_expect(s->level > 0 || s->kind >= BW_MERGE, 0)) {
            if (s->kind >= BW_MERGE && !ll_bwtree__settle(c, pid, s))
                return ll_bwtree__no_memory(err, "a merge");
            s = ll_bwtree__descend(c, &aim, 0, true, &pid);
            continue;
        }
        if (ll_bwtree__look(c->t, s, &aim, &seen) == BW_RIGHT) {
            ll_bwtree__post(c, 1, seen.from, seen.child, true);
            s = bw_load(c->t, pid = seen.child);
            continue;
        }
        TRY(ll_bwtree__allowed(verb, seen.found, err));
        struct bw_delta *d = ll_bwtree__delta(c->t, s, seen.at, change);
        if (!d)
            return ll_bwtree__no_memory(err, "a row");
        if (bw_replace(c->t, pid, s, &d->s)) {
            bw_count(&c->counts->updates);
            ll_bwtree__maintain(c, pid, d);
            return 0;
        }
        bw_count(&c->counts->updates_failed);
        ll_bwtree__delta_free(c->t, d);
        s = bw_load(c->t, pid);
    }
}

int ll_bwtree__value(const struct lladd_bwtree *t, size_t len, struct lladd_error *err)
{
    if (__builtin_expect(t->value_size && len != t->value_size, 0))
        return lladd_error_set(err, LLADD_KEY_SIZE, "the value has %zu bytes, the tree's have %u",
                               len, t->value_size);
    if (__builtin_expect(len > LLADD_BWTREE_VALUE_MAX, 0))
        return lladd_error_set(err, LLADD_TOO_LARGE, "the value has %zu bytes, more than %u", len,
                               LLADD_BWTREE_VALUE_MAX);
    return 0;
}

static int change_row(struct lladd_bwtree *t, enum bw_verb verb, const struct lladd_bwtree_row *row,
                      struct lladd_error *err)
{
    struct bw_change change = {.kind = verb == BW_DO_DELETE ? BW_DELETE : BW_PUT,
                               .value = row->value,
                               .value_len = (uint32_t)row->value_len};
    struct bw_call c;
    if (__builtin_expect(t->stored != NULL, 0))
        return lladd_error_set(err, LLADD_BAD_STATE,
                               "the tree is logged: change it with lladd_bwtree_txn_...");
    TRY(ll_bwtree__key(t, row->key, row->key_len, &change.key, err));
    if (verb != BW_DO_DELETE)
        TRY(ll_bwtree__value(t, row->value_len, err));
    TRY(ll_bwtree__enter(t, &c, err));
    int rc = install(&c, verb, &change, err);
    bw_leave(&c);
    return rc;
}

int lladd_bwtree_insert(struct lladd_bwtree *t, const void *key, size_t key_len, const void *value,
                        size_t value_len, struct lladd_error *err)
{
    const struct lladd_bwtree_row row = {key, key_len, value, value_len};
    return change_row(t, BW_DO_INSERT, &row, err);
}

int lladd_bwtree_insert_many(struct lladd_bwtree *t, const struct lladd_bwtree_row *rows, size_t n,
                             size_t *done, struct lladd_error *err)
{
    size_t i = 0;
    int rc = 0;
    while (i < n && (rc = change_row(t, BW_DO_INSERT, &rows[i], err)) == 0)
        i++;
    if (done)
        *done = i;
    return rc;
}

int lladd_bwtree_put(struct lladd_bwtree *t, const void *key, size_t key_len, const void *value,
                     size_t value_len, struct lladd_error *err)
{
    const struct lladd_bwtree_row row = {key, key_len, value, value_len};
    return change_row(t, BW_DO_PUT, &row, err);
}

int lladd_bwtree_delete(struct lladd_bwtree *t, const void *key, size_t key_len,
                        struct lladd_error *err)
{
    const struct lladd_bwtree_row row = {.key = key, .key_len = key_len};
    return change_row(t, BW_DO_DELETE, &row, err);
}
