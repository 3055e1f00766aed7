/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds the page of a key's bucket, and follows the bucket's chain. The number of buckets in memory
 * gives the page of a key, and the contents of the page say whether it is the right page. If it is
 * not, the number of buckets in memory was wrong, or outdated because a split, a merge or a
 * rollback has changed it. Then the thread reads the number of buckets again. */
#include "operations/hash/table.h"

#include <string.h>

#define TRIES \
    1000 /* attempts before the thread reports that pages and memory contradict each
                    * other */

int ll_hash__again(struct ll_hash_table *t, uint64_t believed, unsigned *tries,
                   struct lladd_error *err)
{
    if (++*tries > TRIES)
        return ll_hash__corrupt(err, t->root, "hash table: its pages contradict its root");
    if (lladd_atomic_load64(&t->buckets) == believed && *tries > 2)
        ll_hash__forget(t);
    if (*tries > 10)
        lladd_yield();
    return 0;
}

/* Fixes the page that is the bucket's head if there are n buckets. LLADD_CONFLICT: the page is not
 * the bucket's head. */
static int fix_believed(struct ll_hash_table *t, uint64_t hash, uint64_t n, enum lladd_latch latch,
                        struct lladd_page **out, struct lladd_error *err)
{
    lladd_pageno page = ll_operations__extents_page(&t->run, ll_hash__bucket(hash, n));
    int rc = lladd_page_fix(t->db, page, latch, out, err);
    if (rc || __builtin_expect(ll_hash__is_bucket(t, lladd_page_view(*out), hash), 1))
        return rc;
    lladd_page_unfix(t->db, *out, latch);
    return LLADD_CONFLICT;
}

int ll_hash__fix_bucket(struct ll_hash_table *t, uint64_t hash, enum lladd_latch latch,
                        struct lladd_page **out, struct lladd_error *err)
{
    for (unsigned tries = 0;;) {
        uint64_t n;
        int rc = ll_hash__buckets(t, &n, err);
        if (!rc)
            rc = fix_believed(t, hash, n, latch, out, err);
        if (rc == LLADD_CONFLICT)
            rc = ll_hash__again(t, n, &tries, err);
        else
            return rc;
        if (rc)
            return rc;
    }
}

/* Reads the number of buckets before taking log credit, because reading may wait (BUF-3). */
int ll_hash__fix_to_change(struct lladd_txn *txn, struct ll_hash_table *t, uint64_t hash,
                           lladd_op_id op, struct lladd_page **out)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    for (unsigned tries = 0;;) {
        uint64_t n;
        TRY(ll_hash__buckets(t, &n, err));
        TRY(lladd_log_credit(txn, op, 1));
        int rc = fix_believed(t, hash, n, LLADD_LATCH_EXCLUSIVE, out, err);
        if (!rc)
            return 0;
        int rest = lladd_log_credit(txn, op, 0);
        rc = rc == LLADD_CONFLICT ? ll_hash__again(t, n, &tries, err) : rc;
        if (rc || rest)
            return rc ? rc : rest;
    }
}

int ll_hash__fix_next(struct ll_hash_table *t, const struct lladd_page *head,
                      const struct lladd_page *from, enum lladd_latch latch,
                      struct lladd_page **out, struct lladd_error *err)
{
    lladd_pageno next = lladd_page_of(lladd_get48(from->bytes + HB_NEXT));
    if (next.v == 0)
        return LLADD_END;
    if (next.v == head->number.v)
        return ll_hash__corrupt(err, next, "occurs twice in the chain of a bucket");
    TRY(lladd_page_fix(t->db, next, latch, out, err));
    struct lladd_view v = lladd_page_view(*out);
    if (v.type == t->type && v.bytes[HB_FLAGS] == HB_OVERFLOW &&
        memcmp(v.bytes + HB_BUCKET, head->bytes + HB_BUCKET, 8) == 0 &&
        lladd_get48(v.bytes + HB_ROOT) == t->root.v && ll_hash__head_fine(v) &&
        hb_get(v.bytes, HB_VALUE) == t->value_size)
        return 0;
    lladd_page_unfix(t->db, *out, latch);
    return ll_hash__corrupt(err, next, "is in the chain of a bucket, but does not belong to it");
}

int ll_hash__find_in_chain(struct ll_hash_table *t, struct ll_hash_found *f,
                           const struct hb_key *key, struct lladd_error *err)
{
    struct lladd_page *next = NULL;
    struct hb_place place;
    f->page = f->head;
    for (uint64_t steps = 0;; steps++) {
        struct lladd_view v = lladd_page_view(f->page);
        ll_hash__find(v, key, &place);
        if (place.slot != HB_NONE) {
            f->slot = place.slot;
            (void)ll_hash__entry(v, place.slot, &f->entry);
            return 0;
        }
        if (__builtin_expect(lladd_get48(v.bytes + HB_NEXT) == 0, 1))
            return LLADD_END;
        int rc = ll_hash__fix_next(t, f->head, f->page, f->latch, &next, err);
        if (!rc && steps > lladd_page_count(t->db)) {
            lladd_page_unfix(t->db, next, f->latch);
            rc = ll_hash__corrupt(err, f->head->number, "the chain of its bucket does not end");
        }
        if (f->page != f->head)
            lladd_page_unfix(t->db, f->page, f->latch);
        f->page = next;
        if (rc)
            return rc;
    }
}

int ll_hash__find_element(struct ll_hash_table *t, const struct hb_key *key, uint64_t hash,
                          struct ll_hash_found *f, struct lladd_error *err)
{
    f->latch = LLADD_LATCH_SHARED;
    TRY(ll_hash__fix_bucket(t, hash, LLADD_LATCH_SHARED, &f->head, err));
    int rc = ll_hash__find_in_chain(t, f, key, err);
    if (!rc && f->entry.tag & HB_GHOST)
        rc = LLADD_END;
    if (rc == LLADD_END) {
        ll_hash__let_go(t, f);
        return LLADD_NOT_FOUND;
    }
    if (rc)
        lladd_page_unfix(t->db, f->head, f->latch);
    return rc;
}
