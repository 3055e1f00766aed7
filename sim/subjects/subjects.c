/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of subjects, and their common helpers. */
#include "sim/subjects/subjects.h"

#include <lladd/hash.h>
#include <stdio.h>
#include <string.h>

#define ROOT "sim.pages"

#define LL_SIM_SUBJECT(name) &ll_sim_subject_##name,
static const struct lladd_sim_subject *const all[] = {LL_SIM_SUBJECTS(LL_SIM_SUBJECT) NULL};
#undef LL_SIM_SUBJECT

const struct lladd_sim_subject *const *lladd_sim_subjects(void)
{
    return all;
}

const struct lladd_sim_subject *lladd_sim_subject_find(const char *name)
{
    for (const struct lladd_sim_subject *const *s = all; *s; s++)
        if (strcmp((*s)->name, name) == 0)
            return *s;
    return NULL;
}

int ll_sim_pages_make(struct lladd_db *db, uint64_t n, lladd_pageno *first, struct lladd_error *err)
{
    struct lladd_txn *txn;
    int rc = lladd_begin(db, NULL, &txn, err);
    if (rc)
        return rc;
    rc = lladd_extent_alloc(txn, n, LLADD_EXTENT_PAGED, first);
    for (uint64_t i = 0; !rc && i < n; i++)
        rc = lladd_bytes_format(txn, lladd_page_of(first->v + i));
    if (!rc)
        rc = lladd_root_set(txn, ROOT, (struct lladd_root_value){first->v, n});
    return rc ? ll_sim_give_up(NULL, txn, rc, err) : lladd_commit(txn);
}

int ll_sim_pages_count(struct lladd_db *db, lladd_pageno *first, uint64_t *n,
                       struct lladd_error *err)
{
    struct lladd_root_value v;
    int rc = lladd_root_get(db, ROOT, &v, err);
    *first = lladd_page_of(rc ? 0 : v.a);
    *n = rc ? 0 : v.b;
    return rc;
}

int ll_sim_pages_find(struct lladd_db *db, lladd_pageno *first, struct lladd_error *err)
{
    uint64_t n;
    return ll_sim_pages_count(db, first, &n, err);
}

static int make_noise(struct lladd_txn *txn, lladd_pageno page)
{
    enum { NOISE = 3000 };
    unsigned char noise[NOISE];
    uint64_t x = 88172645463325252u + page.v;
    for (unsigned i = 0; i < NOISE; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        noise[i] = (unsigned char)x;
    }
    return lladd_bytes_set(txn, page, 0, noise, NOISE);
}

int ll_sim_pages_noise(struct lladd_db *db, uint64_t from, uint64_t to, struct lladd_error *err)
{
    struct lladd_txn *txn;
    lladd_pageno first;
    TRY(ll_sim_pages_find(db, &first, err));
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = 0;
    for (uint64_t i = from; !rc && i < to; i++)
        rc = make_noise(txn, lladd_page_of(first.v + i));
    return rc ? ll_sim_give_up(NULL, txn, rc, err) : lladd_commit(txn);
}

int ll_sim_give_up(struct lladd_sim *sim, struct lladd_txn *txn, int rc, struct lladd_error *err)
{
    /* A commit that fails with poison consumes the transaction, so it must not be used any more.
     * Close or recovery rolls it back. */
    if (lladd_code_root(rc) == LLADD_ROOT_POISONED)
        return lladd_error_set(err, rc, "%s", lladd_code_text(rc));
    *err = *lladd_txn_error(txn);
    int aborted = sim ? lladd_sim_abort(sim, txn) : lladd_abort(txn);
    return aborted ? aborted : rc;
}

int ll_sim_in_txn(struct ll_sim_work *w, int (*what)(struct ll_sim_work *, struct lladd_txn *))
{
    struct lladd_txn *txn;
    TRY(lladd_sim_begin(w->sim, w->db, NULL, &txn, w->err));
    int rc = what(w, txn);
    return rc ? ll_sim_give_up(w->sim, txn, rc, w->err) : 0;
}

int ll_sim_pages_each(void *ctx, struct lladd_db *db, int (*fn)(void *, lladd_pageno), void *arg,
                      struct lladd_error *err)
{
    lladd_pageno first;
    uint64_t n;
    (void)ctx;
    TRY(ll_sim_pages_count(db, &first, &n, err));
    for (uint64_t i = 0; i < n; i++)
        TRY(fn(arg, lladd_page_of(first.v + i)));
    return 0;
}

int ll_sim_root_page(struct lladd_db *db, const char *name, lladd_pageno *page,
                     struct lladd_error *err)
{
    struct lladd_root_value v;
    int rc = lladd_root_get(db, name, &v, err);
    *page = lladd_page_of(rc ? LLADD_NO_PAGE : v.a);
    return rc == LLADD_NOT_FOUND ? 0 : rc;
}

int ll_sim_journal_pages(struct lladd_db *db, int (*fn)(void *, lladd_pageno), void *arg,
                         struct lladd_error *err)
{
    lladd_pageno root;
    struct lladd_hash *journal;
    TRY(ll_sim_root_page(db, "journal", &root, err));
    TRY(lladd_hash_open(db, root, LLADD_HASH_LOGICAL, &journal, err));
    int rc = lladd_hash_pages(journal, fn, arg, err);
    lladd_hash_close(journal);
    return rc;
}

const char *ll_sim_root_name(const char *prefix, unsigned i, char out[LLADD_ROOT_NAME_MAX + 1])
{
    (void)snprintf(out, LLADD_ROOT_NAME_MAX + 1, "%s.%u", prefix, i);
    return out;
}

int ll_sim_ith_page(struct lladd_db *db, const char *prefix, unsigned i, lladd_pageno *page,
                    struct lladd_error *err)
{
    char name[LLADD_ROOT_NAME_MAX + 1];
    return ll_sim_root_page(db, ll_sim_root_name(prefix, i, name), page, err);
}

int ll_sim_ith_each(struct lladd_db *db, const char *prefix, unsigned n,
                    int (*fn)(void *, lladd_pageno), void *arg, struct lladd_error *err)
{
    for (unsigned i = 0; i < n; i++) {
        lladd_pageno page;
        TRY(ll_sim_ith_page(db, prefix, i, &page, err));
        if (page.v != LLADD_NO_PAGE)
            TRY(fn(arg, page));
    }
    return 0;
}
