/* SPDX-License-Identifier: BSD-2-Clause */
/* The built-in operations, which every database has. They are packed in extensions, like the
 * operations of an application. The first extension, "lladd", has these operations:
 *
 *   page 0      lladd.root      named roots                       pages/root.c, root_index.c
 *   page 1, ... lladd.map       which pages are in use            pages/alloc_bitmap.c, alloc.c
 *               lladd.bytes     plain bytes, counters             pages/bytes.c, counter.c
 *               lladd.slotted   records of any length             records/slotted_page.c, slotted.c
 *               lladd.fixed     records of one length             records/fixed.c
 *               lladd.heap      many slotted pages                heap/
 *
 * Each other data structure is an extension of its own and builds on the first one. The folder
 * operations/ includes only the public headers <lladd/...> and its own. So an application's
 * extension can do everything that these extensions do, with one exception: "lladd" is registered
 * first, so the ids of its operations are constants (operations_private.h; a test checks them). */
#include "operations/operations.h"

#include "operations/blob/blob.h"
#include "operations/dtables/core/dtable.h"
#include "operations/btree/tree.h"
#include "operations/hash/table.h"
#include "operations/list/list.h"
#include "operations/operations_private.h"
#include "operations/pages/region.h"

#define LIST(id, name) &ll_operations__##name,
static const struct lladd_op *const ops[] = {LL_OPERATIONS(LIST) NULL};
#undef LIST

static const struct lladd_page_type *const page_types[] = {&ll_operations__root_page,
                                                           &ll_operations__map_page,
                                                           &ll_operations__bytes_page,
                                                           &ll_operations__slotted_page,
                                                           &ll_operations__fixed_page,
                                                           &ll_operations__heap_page,
                                                           NULL};

static const struct lladd_participant *const participants[] = {
    &ll_operations__pages_participant, &ll_operations__records_participant,
    &ll_operations__heap_participant, NULL};

/* ---- open and close -------------------------------------------------------------------------- */

static int attach(void *ctx, struct lladd_db *db, void **state, struct lladd_error *err)
{
    (void)ctx;
    struct ll_operations *o = lladd_mem_alloc(db, sizeof *o);
    if (!o)
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory");
    *o = (struct ll_operations){.db = db, .recovering = LL_UNDO_TO_COME};
    int rc = ll_operations__alloc_init(o, err);
    if (rc) {
        lladd_mem_free(db, o);
        return rc;
    }
    rc = ll_operations__records_init(o);
    if (!rc && (rc = lladd_mutex_init(&o->roots, LL_OPERATIONS_RANK_ROOTS, "roots")) != 0)
        ll_operations__records_free(o);
    if (!rc && (rc = ll_operations__root_index_init(&o->root_index, db)) != 0) {
        lladd_mutex_destroy(&o->roots);
        ll_operations__records_free(o);
    }
    if (!rc && (rc = ll_operations__heaps_init(o, err)) != 0) {
        ll_operations__root_index_free(&o->root_index);
        lladd_mutex_destroy(&o->roots);
        ll_operations__records_free(o);
    }
    if (rc) {
        ll_operations__alloc_free(o);
        lladd_mem_free(db, o);
        return lladd_error_set(err, rc, "out of memory");
    }
    *state = o;
    return 0;
}

static void detach(void *ctx, struct lladd_db *db, void *state)
{
    (void)ctx;
    struct ll_operations *o = state;
    ll_operations__heaps_free(o);
    ll_operations__root_index_free(&o->root_index);
    lladd_mutex_destroy(&o->roots);
    ll_operations__records_free(o);
    ll_operations__alloc_free(o);
    lladd_mem_free(db, o);
}

static int create(void *ctx, struct lladd_txn *txn, void *state)
{
    (void)ctx;
    (void)state;
    return ll_operations__alloc_create(txn);
}

static int recovered(void *ctx, struct lladd_db *db, void *state, struct lladd_error *err)
{
    (void)ctx;
    (void)err;
    lladd_atomic_store32(&((struct ll_operations *)state)->recovering,
                         lladd_losers_left(db) && !LLADD_PLANTED(LLADD_BUG_GIVEN_UP)
                             ? LL_UNDO_DEFERRED
                             : LL_UNDO_OVER);
    return 0;
}

bool ll_operations__undo_goes_on(struct ll_operations *o)
{
    if (lladd_atomic_load32(&o->recovering) == LL_UNDO_TO_COME || lladd_losers_left(o->db))
        return true;
    ll_operations__alloc_forget(o); /* The hints were computed while recovery allowed no reuse. */
    lladd_atomic_store32(&o->recovering, LL_UNDO_OVER);
    return false;
}

static int is_allocated(void *ctx, struct lladd_db *db, void *state, lladd_pageno page, bool *out,
                        struct lladd_error *err)
{
    (void)ctx;
    (void)db;
    return ll_operations__is_allocated(state, page, out, err);
}

const struct lladd_extension ll_operations__extension = {
    .struct_size = sizeof(struct lladd_extension),
    .name = "lladd",
    .version = 1,
    .ops = ops,
    .page_types = page_types,
    .participants = participants,
    .attach = attach,
    .create = create,
    .recovered = recovered,
    .detach = detach,
    .is_allocated = is_allocated,
};

const struct lladd_extension *const *ll_operations_builtin(void)
{
    static const struct lladd_extension *const all[] = {
        &ll_operations__extension,
        &ll_operations__extents_extension,
        &ll_operations__array_extension,
        &ll_operations__blob_extension,
        &ll_operations__list_extension,
        &ll_hash__extension,
        &ll_btree__extension,
        &ll_operations__region_extension,
        &ll_dtable__extension,
        NULL,
    };
    return all;
}

/* ---- helpers --------------------------------------------------------------------------------- */

int ll_operations_untyped(struct lladd_db *db, lladd_pageno n, int rc, struct lladd_error *err)
{
    struct lladd_error ignored = LLADD_ERROR_INIT;
    struct lladd_page *page;
    enum lladd_page_use use;
    if (lladd_page_fix(db, n, LLADD_LATCH_SHARED, &page, &ignored))
        return rc;
    bool typed = lladd_page_view(page).type != 0; /* the header's other fields prove nothing: an
                                                   * undo may have written them */
    lladd_page_unfix(db, page, LLADD_LATCH_SHARED);
    if (typed || lladd_page_use_get(db, n, &use, &ignored))
        return rc;
    /* Page n may be the place of an allocation bitmap that does not exist yet, because its group
     * was never used. The allocator reports a missing bitmap. */
    if (use != LLADD_USE_PAGED && n.v != 0)
        return rc;
    return ll_operations__on(
        err, n,
        lladd_error_set(err, LLADD_CORRUPT_PAGE,
                        "page %llu is in use and has no type: its contents were "
                        "lost, or it was never formatted",
                        (unsigned long long)n.v));
}

int ll_operations__ids(struct lladd_db *db, const struct lladd_op *first, lladd_op_id *const ids[],
                       size_t n)
{
    lladd_op_id id;
    int rc = lladd_op_lookup(db, first->name, first->version, &id);
    for (size_t i = 0; i < n && !rc; i++)
        *ids[i] = id + (lladd_op_id)i;
    return rc;
}

int ll_operations__fix(struct lladd_db *db, lladd_pageno n, const char *type,
                       enum lladd_latch latch, struct lladd_page **out, struct lladd_error *err)
{
    int rc = lladd_page_fix(db, n, latch, out, err);
    if (rc || lladd_page_is(db, lladd_page_view(*out), type))
        return rc;
    lladd_page_unfix(db, *out, latch);
    rc = lladd_error_set(err, LLADD_WRONG_TYPE, "page %llu is not of type \"%s\"",
                         (unsigned long long)n.v, type);
    return ll_operations_untyped(db, n, ll_operations__on(err, n, rc), err);
}

int ll_operations__action_all_or_nothing(struct lladd_txn *txn, struct lladd_action *action, int rc)
{
    if (!rc)
        return 0;
    struct lladd_error why = *lladd_txn_error(txn);
    int undone = lladd_nta_abort(txn, action);
    if (undone)
        return undone;
    *lladd_txn_error_out(txn) = why;
    return rc;
}

int ll_operations__action_end(struct lladd_txn *txn, struct lladd_action *action, int rc,
                              lladd_op_id op, const void *undo, size_t len)
{
    if (!rc)
        rc = lladd_nta_end(txn, action, op, undo, len);
    return ll_operations__action_all_or_nothing(txn, action, rc);
}

int ll_operations__step_end(struct lladd_txn *txn, lladd_savepoint_id before, int rc)
{
    if (!rc)
        return lladd_savepoint_release(txn, before);
    struct lladd_error why = *lladd_txn_error(txn);
    int undone = lladd_rollback_to(txn, before);
    if (undone)
        return undone;
    (void)lladd_savepoint_release(txn, before); /* cannot fail: the rollback has kept the
                                                 * savepoint */
    *lladd_txn_error_out(txn) = why;
    return rc;
}

int lladd_page_format(struct lladd_txn *txn, lladd_pageno page, const char *page_type)
{
    LLADD_USE(txn);
    static const char suffix[] = ".format";
    struct lladd_error *err = lladd_txn_error_out(txn);
    char name[64];
    lladd_op_id op;
    size_t len = 0;
    while (len < sizeof name && page_type[len])
        len++;
    int rc = len + sizeof suffix > sizeof name ? LLADD_NOT_FOUND : 0;
    if (!rc) {
        for (size_t i = 0; i < len; i++)
            name[i] = page_type[i];
        for (size_t i = 0; i < sizeof suffix; i++)
            name[len + i] = suffix[i];
        rc = lladd_op_lookup(lladd_txn_db(txn), name, 0, &op);
    }
    if (rc)
        return lladd_error_set(err, rc, "page type \"%s\" has no operation \"%s.format\"",
                               page_type, page_type);
    return lladd_update(txn, op, page, NULL, 0);
}
