/* SPDX-License-Identifier: BSD-2-Clause */
/* Arrays in memory, and how the copies stay valid.
 *
 * All handles of an array share one struct lladd_array. It has copies of the length and the
 * number of formatted pages, so that a call on an element need not read the root page. Length 0
 * means "read the root page", which also says whether the array still exists. A change of the
 * length or state first changes the page, then sets the length in memory to 0 and increments
 * `looks`. A rollback that may undo such a change does the same. A thread that reads the page
 * stores what it has read only if `looks` is the same before and after the read. So once the
 * change's call has returned, the copy is not older than the page.
 *
 * A root page's number may be reused. So three numbers identify an array: its root page, the id of
 * the transaction that created it (stored with the extent sequence), and a serial number. The
 * arrays of one transaction have different serial numbers. */
#include "operations/array/array.h"

/* ---- the table ------------------------------------------------------------------------------- */

static int destroyed(struct lladd_error *err, lladd_pageno root)
{
    return ll_operations__on(err, root,
                             lladd_error_set(err, LLADD_DESTROYED, "array %llu has been destroyed",
                                             (unsigned long long)root.v));
}

static struct lladd_array *find(struct ll_arrays *all, lladd_pageno page,
                                const struct ll_array_root *root)
{
    struct lladd_array *a = (struct lladd_array *)ll_operations__index_find(&all->table, page.v);
    while (a &&
           (a->node.key != page.v || a->run.maker_id != root->maker || a->serial != root->serial))
        a = (struct lladd_array *)a->node.next;
    return a;
}

static void free_array(struct lladd_array *a)
{
    ll_operations__extents_close(&a->run);
    lladd_mutex_destroy(&a->change);
    lladd_mem_free(a->db, a);
}

void ll_operations__array_release(struct lladd_array *a)
{
    struct ll_arrays *all = a->all;
    lladd_mutex_lock(&all->mutex);
    bool last = --a->users == 0;
    if (last)
        ll_operations__index_drop(&all->table, &a->node);
    lladd_mutex_unlock(&all->mutex);
    if (last)
        free_array(a);
}

static int make_array(struct ll_arrays *all, lladd_pageno page, const struct ll_array_root *root,
                      struct lladd_array **out, struct lladd_error *err)
{
    struct lladd_array *a = lladd_mem_alloc(all->db, sizeof *a);
    if (!a)
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for an array");
    memset(a, 0, sizeof *a);
    a->node.key = page.v;
    a->db = all->db;
    a->all = all;
    a->users = 1;
    a->size = root->size;
    a->serial = root->serial;
    a->per_page = lladd_body_size(lladd_page_size(all->db)) / root->size;
    a->inverse = UINT64_MAX / a->per_page + 1;
    int rc = lladd_mutex_init(&a->change, LL_OPERATIONS_RANK_ARRAY, "array");
    if (rc) {
        lladd_mem_free(all->db, a);
        return lladd_error_set(err, rc, "out of memory for an array");
    }
    rc = ll_operations__extents_open(&a->run, all->db, page, LL_ARRAY_RUN, err);
    if (rc) {
        lladd_mutex_destroy(&a->change);
        lladd_mem_free(all->db, a);
        return rc;
    }
    *out = a;
    return 0;
}

int ll_operations__array_acquire(struct lladd_db *db, lladd_pageno page, struct lladd_array **out,
                                 struct lladd_error *err)
{
    struct ll_arrays *all = ll_arrays_of(db);
    struct lladd_array *fresh = NULL;
    struct ll_array_root root;
    TRY(ll_operations__array_read(db, page, &root, err));
    if (root.state == LL_ARRAY_NOTHING)
        return ll_operations__on(err, page,
                                 lladd_error_set(err, LLADD_WRONG_TYPE,
                                                 "page %llu is not the root page of an array",
                                                 (unsigned long long)page.v));
    if (root.state == LL_ARRAY_DESTROYED)
        return destroyed(err, page);
    lladd_mutex_lock(&all->mutex);
    struct lladd_array *a = find(all, page, &root);
    if (a)
        a->users++;
    lladd_mutex_unlock(&all->mutex);
    int rc = 0;
    if (!a && (rc = make_array(all, page, &root, &fresh, err)) != 0)
        return rc;
    if (fresh) {
        lladd_mutex_lock(&all->mutex);
        a = find(all, page, &root);
        if (a) {
            a->users++;
        } else if ((rc = ll_operations__index_room(db, &all->table)) == 0) {
            a = fresh;
            ll_operations__index_add(&all->table, &a->node);
        }
        lladd_mutex_unlock(&all->mutex);
        if (a != fresh)
            free_array(fresh);
    }
    *out = a;
    return rc ? lladd_error_set(err, rc, "out of memory for an array") : 0;
}

void ll_operations__array_forget(struct lladd_array *a, bool made)
{
    a->looks++;
    a->changes++;
    a->cut = false;
    lladd_atomic_store64(&a->length, 0);
    if (made) /* only the creating transaction can roll back formatting (A1 in array.c) */
        lladd_atomic_store64(&a->formatted, 0);
}

int ll_operations__array_look(struct lladd_array *a, struct ll_array_root *out,
                              struct lladd_error *err)
{
    struct ll_arrays *all = a->all;
    for (;;) {
        lladd_mutex_lock(&all->mutex);
        uint64_t looks = a->looks;
        bool gone = a->gone;
        lladd_mutex_unlock(&all->mutex);
        int rc = gone ? LLADD_DESTROYED : ll_operations__array_read(a->db, a->run.root, out, err);
        if (rc == LLADD_WRONG_TYPE || rc == LLADD_DESTROYED ||
            (!rc && (out->state != LL_ARRAY_ALIVE || out->maker != a->run.maker_id ||
                     out->serial != a->serial)))
            return destroyed(err, a->run.root);
        if (rc)
            return rc;
        lladd_mutex_lock(&all->mutex);
        bool still = a->looks == looks;
        if (still) {
            lladd_atomic_store64(&a->formatted, out->formatted);
            lladd_atomic_store64(&a->length, out->length);
        }
        lladd_mutex_unlock(&all->mutex);
        if (still)
            return 0;
    }
}

/* ---- what transactions have changed ---------------------------------------------------------- */

static void owner_drop(struct ll_txn_part *part)
{
    struct ll_array_owner *o = (struct ll_array_owner *)part;
    for (struct ll_array_note *n = o->notes, *next; n; n = next) {
        next = n->next;
        ll_operations__array_release(n->array);
        lladd_mem_free(o->all->db, n);
    }
}

static void array_undone(void *ctx, void *state, struct lladd_txn *txn, lladd_lsn since)
{
    (void)ctx;
    (void)since;
    struct ll_array_owner *o = state;
    struct lladd_txn_now now;
    if (lladd_txn_now_get(txn, &now))
        return; /* the handle is poisoned */
    lladd_mutex_lock(&o->all->mutex);
    for (struct ll_array_note *n = o->notes; n; n = n->next) {
        ll_operations__array_forget(n->array, n->made);
        n->cut = false; /* the shrink may have been undone */
        if (n->destroyed > now.undone)
            n->destroyed = 0;
    }
    lladd_mutex_unlock(&o->all->mutex);
}

static void array_aborted(void *ctx, void *state, struct lladd_db *db)
{
    (void)ctx;
    (void)db;
    struct ll_array_owner *o = state;
    lladd_mutex_lock(&o->all->mutex);
    for (struct ll_array_note *n = o->notes; n; n = n->next) {
        ll_operations__array_forget(n->array, n->made);
        n->array->gone |= n->made;
    }
    lladd_mutex_unlock(&o->all->mutex);
    ll_operations__owner_end(&o->owner);
}

static void array_durable(void *ctx, void *state, struct lladd_db *db, lladd_lsn commit)
{
    (void)ctx;
    (void)db;
    (void)commit;
    struct ll_array_owner *o = state;
    lladd_mutex_lock(&o->all->mutex);
    for (struct ll_array_note *n = o->notes; n; n = n->next) {
        struct lladd_array *a = n->array;
        a->gone |= n->destroyed != 0;
        if (n->cut && n->changes == a->changes) { /* A3 in array.c */
            a->cut = true;
            a->cut_to = n->cut_to;
        }
    }
    lladd_mutex_unlock(&o->all->mutex);
    ll_operations__owner_end(&o->owner);
}

static const struct lladd_participant array_participant = {
    .struct_size = sizeof(struct lladd_participant),
    .name = "lladd.array",
    .version = 1,
    .durable = array_durable,
    .aborted = array_aborted,
    .undone = array_undone,
};

static int owner_of(struct lladd_txn *txn, struct ll_arrays *all, struct ll_array_owner **out)
{
    struct ll_txn_part *o;
    TRY(ll_operations__owner_of(txn, &array_participant, &all->owners,
                                sizeof(struct ll_array_owner), "a note of an array", &o));
    *out = (struct ll_array_owner *)o;
    (*out)->all = all;
    return 0;
}

int ll_operations__array_note(struct lladd_txn *txn, struct lladd_array *a,
                              struct ll_array_note **out)
{
    struct ll_array_owner *o;
    struct ll_array_note *n;
    TRY(owner_of(txn, a->all, &o));
    for (n = o->notes; n && n->array != a;)
        n = n->next;
    if (!n) {
        n = lladd_mem_alloc(a->db, sizeof *n);
        if (!n)
            return lladd_error_set(lladd_txn_error_out(txn), LLADD_NO_MEMORY,
                                   "out of memory for a note of an array");
        *n = (struct ll_array_note){.next = o->notes, .array = a};
        lladd_mutex_lock(&a->all->mutex);
        a->users++;
        o->notes = n;
        lladd_mutex_unlock(&a->all->mutex);
    }
    *out = n;
    return 0;
}

/* ---- open and close -------------------------------------------------------------------------- */

static int attach(void *ctx, struct lladd_db *db, void **state, struct lladd_error *err)
{
    (void)ctx;
    int rc = ll_operations__state_new(
        db, sizeof(struct ll_arrays), offsetof(struct ll_arrays, mutex),
        offsetof(struct ll_arrays, owners), owner_drop, "arrays", state, err);
    if (!rc)
        ((struct ll_arrays *)*state)->db = db;
    return rc;
}

static void detach(void *ctx, struct lladd_db *db, void *state)
{
    (void)ctx;
    struct ll_arrays *all = state;
    ll_operations__owners_end(&all->owners);
    for (struct ll_index_node *n = ll_operations__index_next(&all->table, NULL), *next; n;
         n = next) {
        next = ll_operations__index_next(&all->table, n);
        free_array((struct lladd_array *)n); /* a handle that was not closed */
    }
    ll_operations__index_free(db, &all->table);
    ll_operations__state_free(db, all, offsetof(struct ll_arrays, mutex));
}

static const struct lladd_op *const ops[] = {&ll_operations__array_format,
                                             &ll_operations__array_put, NULL};
static const struct lladd_page_type *const page_types[] = {&ll_operations__array_page, NULL};
static const struct lladd_participant *const participants[] = {&array_participant, NULL};

const struct lladd_extension ll_operations__array_extension = {
    .struct_size = sizeof(struct lladd_extension),
    .name = "lladd.array",
    .version = 1,
    .ops = ops,
    .page_types = page_types,
    .participants = participants,
    .attach = attach,
    .detach = detach,
};
