/* SPDX-License-Identifier: BSD-2-Clause */
/* The index: bucket number = sequence number / entries of a bucket. Buckets lie in extents of
 * INDEX_EXTENT pages; where extent i begins is a named root, "packages.index.<i>".
 *
 * The index grows in a transaction of its own, not in the one that happens to need room: that one
 * may abort, and others use the new buckets by then. Nobody waits for the growth to be durable
 * either. It comes before its users in the log, so whenever one of them is durable, the growth
 * is. */
#include "index.h"

#include "bucket.h"

#include <lladd/bytes.h>
#include <lladd/pages.h>
#include <stdio.h>
#include <stdlib.h>

#define INDEX_EXTENT 64u

static void root_name(char name[LLADD_ROOT_NAME_MAX + 1], size_t extent)
{
    snprintf(name, LLADD_ROOT_NAME_MAX + 1, "packages.index.%zu", extent);
}

static int remember(struct index *ix, lladd_pageno first, struct lladd_error *err)
{
    lladd_pageno *more = realloc(ix->extents, (ix->n + 1) * sizeof *more);
    if (!more)
        return lladd_error_set(err, LLADD_NO_MEMORY, "no memory for the index");
    ix->extents = more;
    ix->extents[ix->n++] = first;
    return 0;
}

int index_open(struct index *ix, struct lladd_db *db, struct lladd_error *err)
{
    *ix = (struct index){.db = db, .per_bucket = bucket_capacity(lladd_page_size(db))};
    int rc = bucket_lookup(db, &ix->put, &ix->format, err);
    if (!rc && lladd_mutex_init(&ix->lock, LLADD_RANK_EXTENSION, "packages.index"))
        rc = lladd_error_set(err, LLADD_NO_MEMORY, "no memory for the index");
    if (rc)
        return rc;
    do {
        char name[LLADD_ROOT_NAME_MAX + 1];
        struct lladd_root_value value;
        root_name(name, ix->n);
        rc = lladd_root_get(db, name, &value, err);
        if (!rc)
            rc = remember(ix, lladd_page_of(value.a), err);
    } while (!rc);
    if (rc == LLADD_NOT_FOUND)
        return 0;
    index_close(ix);
    return rc;
}

void index_close(struct index *ix)
{
    lladd_mutex_destroy(&ix->lock);
    free(ix->extents);
    ix->extents = NULL;
}

/* Takes an extent, makes buckets of its pages and gives it a name: all of that or, if the process
 * dies on the way, nothing. */
static int grow_in(struct index *ix, struct lladd_txn *txn, lladd_pageno *first)
{
    int rc = lladd_extent_alloc(txn, INDEX_EXTENT, LLADD_EXTENT_PAGED, first);
    for (uint64_t i = 0; !rc && i < INDEX_EXTENT; i++) {
        unsigned char sequence[8];
        lladd_put64(sequence, (ix->n * INDEX_EXTENT + i) * ix->per_bucket);
        rc = lladd_update(txn, ix->format, lladd_page_of(first->v + i), sequence, sizeof sequence);
    }
    if (!rc) {
        char name[LLADD_ROOT_NAME_MAX + 1];
        root_name(name, ix->n);
        rc = lladd_root_set(txn, name, (struct lladd_root_value){first->v, INDEX_EXTENT});
    }
    return rc;
}

static int grow(struct index *ix, struct lladd_error *err)
{
    struct lladd_txn *txn;
    lladd_pageno first;
    lladd_lsn commit;
    int rc = lladd_begin(ix->db, NULL, &txn, err);
    if (rc)
        return rc;
    rc = grow_in(ix, txn, &first);
    if (rc) {
        *err = *lladd_txn_error(txn);
        int aborted = lladd_abort(txn);
        return aborted ? lladd_error_set(err, aborted, "the index cannot roll back") : rc;
    }
    rc = lladd_commit_async(txn, &commit);
    if (rc)
        return lladd_error_set(err, rc, "the index cannot commit");
    return remember(ix, first, err);
}

/* The bucket of a sequence number; makes it if there is a transaction that wants to use it. */
static int bucket_of(struct index *ix, uint64_t sequence, bool make, lladd_pageno *out,
                     struct lladd_error *err)
{
    uint64_t bucket = sequence / ix->per_bucket;
    int rc = 0;
    lladd_mutex_lock(&ix->lock);
    while (!rc && bucket / INDEX_EXTENT >= ix->n)
        rc = make ? grow(ix, err) : LLADD_NOT_FOUND;
    if (!rc)
        *out = lladd_page_of(ix->extents[bucket / INDEX_EXTENT].v + bucket % INDEX_EXTENT);
    lladd_mutex_unlock(&ix->lock);
    return rc;
}

int index_put(struct index *ix, struct lladd_txn *txn, uint64_t sequence, struct lladd_rid rid)
{
    struct bucket_put put = {sequence, rid};
    lladd_pageno page;
    int rc = bucket_of(ix, sequence, true, &page, lladd_txn_error_out(txn));
    return rc ? rc : lladd_update(txn, ix->put, page, &put, sizeof put);
}

int index_get(struct index *ix, uint64_t sequence, struct lladd_rid *out, struct lladd_error *err)
{
    struct lladd_page *held;
    lladd_pageno page;
    int rc = bucket_of(ix, sequence, false, &page, err);
    if (!rc)
        rc = lladd_fix(ix->db, page, LLADD_LATCH_SHARED, &held, err);
    if (rc)
        return rc;
    struct lladd_view view = lladd_page_view(held);
    if (!lladd_page_is(ix->db, view, BUCKET_TYPE))
        rc = lladd_error_set(err, LLADD_WRONG_TYPE, "page %llu is no bucket",
                             (unsigned long long)page.v);
    else if (!bucket_find(view, sequence, out))
        rc = LLADD_NOT_FOUND;
    lladd_unfix(ix->db, held, LLADD_LATCH_SHARED);
    return rc;
}
