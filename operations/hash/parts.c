/* SPDX-License-Identifier: BSD-2-Clause */
/* The pages of a bucket, overflow pages included, and the blobs of its elements. */
#include "operations/hash/table.h"

/* Is this a page of the table, with a valid header? Only if it is, its entries are read. */
static bool makes_sense(const struct ll_hash_table *t, struct lladd_view v)
{
    return ll_hash__head_fine(v) && lladd_get48(v.bytes + HB_ROOT) == t->root.v &&
           hb_get(v.bytes, HB_KEY) == t->key_size && hb_get(v.bytes, HB_VALUE) == t->value_size;
}

int ll_hash__each_in_bucket(struct ll_hash_table *t, struct ll_hash_place at, ll_hash_page_fn *fn,
                            void *ctx, struct lladd_error *err)
{
    struct lladd_page *head, *page, *next = NULL;
    TRY(ll_operations__fix(t->db, ll_operations__extents_page(&t->run, at.bucket),
                           ll_hash__bucket_page.name, LLADD_LATCH_SHARED, &head, err));
    page = head;
    int rc = 0;
    for (at.in_chain = 0; !rc; at.in_chain++) {
        struct lladd_view v = lladd_page_view(page);
        rc = makes_sense(t, v) ? fn(ctx, t, &at, v, err)
                               : ll_hash__corrupt(err, v.number, "is not a bucket of this table");
        if (!rc && at.in_chain > lladd_page_count(t->db))
            rc = ll_hash__corrupt(err, head->number, "the chain of its bucket does not end");
        if (!rc)
            rc = ll_hash__fix_next(t, head, page, LLADD_LATCH_SHARED, &next, err);
        if (page != head)
            lladd_page_unfix(t->db, page, LLADD_LATCH_SHARED);
        page = rc ? head : next;
    }
    lladd_page_unfix(t->db, head, LLADD_LATCH_SHARED);
    return rc == LLADD_END ? 0 : rc;
}

int ll_hash__each_page(struct ll_hash_table *t, ll_hash_page_fn *fn, void *ctx,
                       struct lladd_error *err)
{
    struct ll_hash_place at = {0};
    int rc = ll_hash__buckets(t, &at.n, err);
    for (; at.bucket < at.n && !rc; at.bucket++)
        rc = ll_hash__each_in_bucket(t, at, fn, ctx, err);
    return rc;
}

static int add_number(struct ll_hash_table *t, struct ll_hash_numbers *m, uint64_t number,
                      struct lladd_error *err)
{
    if (ll_operations__grow(t->db, &m->at, m->n + 1, &m->cap, sizeof *m->at))
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for a table's pages");
    m->at[m->n++] = number;
    return 0;
}

int ll_hash__list_parts(void *ctx, struct ll_hash_table *t, const struct ll_hash_place *at,
                        struct lladd_view v, struct lladd_error *err)
{
    struct ll_hash_parts *p = ctx;
    if (at->in_chain)
        TRY(add_number(t, &p->overflow, v.number.v, err));
    for (uint32_t i = 0; !t->fixed && i < hb_get(v.bytes, HB_SLOTS); i++) {
        struct hb_entry e;
        if (!ll_hash__entry(v, i, &e) || e.tag & HB_GHOST)
            continue;
        if (e.key_len & HB_BLOB)
            TRY(add_number(t, &p->blobs, lladd_get64(e.key + HB_KEY_REF - 8), err));
        if (e.value_len & HB_BLOB)
            TRY(add_number(t, &p->blobs, lladd_get64(e.value + HB_VALUE_REF - 8), err));
    }
    return 0;
}

void ll_hash__parts_free(struct ll_hash_table *t, struct ll_hash_parts *p)
{
    lladd_mem_free(t->db, p->overflow.at);
    lladd_mem_free(t->db, p->blobs.at);
    *p = (struct ll_hash_parts){.overflow = {.at = NULL}};
}
