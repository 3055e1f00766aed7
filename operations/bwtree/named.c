/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Logged trees are made, opened and closed, and their pages are shown to tools. A tree has a named
 * root, "bw:" and its name: the page of kind BW_INFO_TREE, and the tree's number. The number is
 * never given out again, so a record of the log names one tree for ever (BWT-6).
 */
#include "operations/bwtree/stored.h"

#include <stdio.h>

/* ---- making a tree --------------------------------------------------------------------------- */

static int tree_name(const char *name, char out[LLADD_ROOT_NAME_MAX + 1], struct lladd_error *err)
{
    size_t len = name ? strlen(name) : 0;
    if (len == 0 || len > BW_NAME_MAX)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                               "a Bw-tree's name has 1 to %d bytes, not %zu", BW_NAME_MAX, len);
    snprintf(out, LLADD_ROOT_NAME_MAX + 1, BW_TREE_ROOT "%s", name);
    return 0;
}

static int make_store(struct bw_store *store, struct lladd_txn *txn, lladd_pageno *page)
{
    unsigned char own[BW_INFO_HEAD - BW_INFO_OWN] = {0};
    uint64_t here = lladd_object_applied_lsn(store->db).v;
    lladd_put64(own, 1);
    lladd_put64(own + 8, here);
    lladd_put64(own + 16, here);
    TRY(ll_bwtree__info_new(txn, BW_INFO_STORE, own, page));
    return lladd_root_set(txn, BW_STORE_ROOT, (struct lladd_root_value){page->v, BW_VERSION});
}

/* Makes the store of the database, with the first tree. No record of Bw-trees is in the log yet, so
 * the marks are the present LSN. The caller holds `make`. */
static int want_store(struct bw_store *store, struct lladd_error *err)
{
    struct lladd_txn *txn;
    lladd_pageno page;
    if (store->page.v != LLADD_NO_PAGE)
        return 0;
    uint64_t here = lladd_object_applied_lsn(store->db).v;
    if (ll_operations__grow(store->db, &store->lists, 1, &store->cap_lists, sizeof *store->lists))
        return ll_bwtree__no_memory(err, "the store");
    TRY(ll_bwtree__begin(store, &txn, err));
    TRY(ll_bwtree__end(txn, make_store(store, txn, &page), NULL, err));
    lladd_atomic_store64(&store->flushed, here);
    lladd_mutex_lock(&store->mutex);
    store->lists[store->n_lists++] = page;
    store->redo = store->since = here;
    store->page = page;
    lladd_mutex_unlock(&store->mutex);
    return 0;
}

/* The numbers are given out by transactions of their own, so a rollback gives none back. The caller
 * holds `make`. */
static int next_id(struct bw_store *store, uint64_t *id, struct lladd_error *err)
{
    unsigned char *body = lladd_mem_alloc(store->db, lladd_page_size(store->db)), word[8];
    struct lladd_txn *txn;
    if (!body)
        return ll_bwtree__no_memory(err, "the store");
    int rc = ll_bwtree__info_get(store->db, store->page, BW_INFO_STORE, body, err);
    *id = lladd_get64(body + BW_INFO_OWN);
    lladd_mem_free(store->db, body);
    TRY(rc);
    lladd_put64(word, *id + 1);
    TRY(ll_bwtree__begin(store, &txn, err));
    rc = ll_bwtree__info_put(txn, store->page, BW_INFO_OWN, word, sizeof word, false);
    return ll_bwtree__end(txn, rc, NULL, err);
}

static int make_tree(struct lladd_txn *txn, const char *root, uint64_t id,
                     const struct lladd_bwtree_options *o)
{
    unsigned char own[BW_INFO_HEAD - BW_INFO_OWN] = {0};
    lladd_pageno page;
    lladd_put64(own, id);
    lladd_put32(own + 8, o->key_size);
    lladd_put32(own + 12, o->value_size);
    lladd_put32(own + 16, o->page_bytes);
    lladd_put32(own + 20, o->leaf_chain);
    lladd_put32(own + 24, o->inner_chain);
    TRY(ll_bwtree__info_new(txn, BW_INFO_TREE, own, &page));
    return lladd_root_set(txn, root, (struct lladd_root_value){page.v, id});
}

/* In the transaction; if it fails, nothing of it stays. */
static int make_whole(struct lladd_txn *txn, struct bw_store *store, const char *root, uint64_t id,
                      const struct lladd_bwtree_options *o)
{
    lladd_savepoint_id here;
    TRY(lladd_savepoint(txn, &here));
    int rc = ll_bwtree__created_add(store, txn, id);
    if (!rc)
        rc = make_tree(txn, root, id, o);
    if (!rc)
        return lladd_savepoint_release(txn, here);
    struct lladd_error why = *lladd_txn_error_out(txn);
    int undone = lladd_rollback_to(txn, here);
    if (undone)
        return undone;
    *lladd_txn_error_out(txn) = why;
    return rc;
}

int lladd_bwtree_create(struct lladd_txn *txn, const char *name,
                        const struct lladd_bwtree_options *options)
{
    LLADD_USE(txn);
    struct lladd_error *err = lladd_txn_error_out(txn);
    char root[LLADD_ROOT_NAME_MAX + 1];
    struct lladd_bwtree_options o;
    struct lladd_root_value value;
    struct bw_store *store;
    uint64_t id = 0;
    TRY(ll_bwtree__store_of(lladd_txn_db(txn), &store, err));
    TRY(tree_name(name, root, err));
    TRY(ll_bwtree__options(options, &o, err));
    int rc = lladd_root_get(store->db, root, &value, err);
    if (rc != LLADD_NOT_FOUND)
        return rc ? rc : lladd_error_set(err, LLADD_EXISTS, "the Bw-tree \"%s\" exists", name);
    lladd_mutex_lock(&store->make);
    rc = want_store(store, err);
    if (!rc)
        rc = next_id(store, &id, err);
    lladd_mutex_unlock(&store->make);
    return rc ? rc : make_whole(txn, store, root, id, &o);
}

/* ---- opening and closing --------------------------------------------------------------------- */

static int open_tree(struct bw_store *store, struct lladd_root_value root, struct bw_stored **out,
                     struct lladd_error *err)
{
    struct bw_stored *s = ll_bwtree__stored_of(store, root.b);
    if (!s)
        TRY(ll_bwtree__stored_add(store, lladd_page_of(root.a), root.b, &s, err));
    if (s->damaged)
        return lladd_error_set(err, LLADD_CORRUPT_PAGE, "recovery has met damage: %.200s",
                               store->why.message);
    TRY(ll_bwtree__load(s, err));
    s->handles++;
    *out = s;
    return 0;
}

static int find_root(struct lladd_db *db, const char *name, const char *root_name,
                     struct lladd_root_value *root, struct lladd_error *err)
{
    int rc = lladd_root_get(db, root_name, root, err);
    return rc == LLADD_NOT_FOUND
               ? lladd_error_set(err, rc, "there is no Bw-tree \"%s\"", name)
               : rc;
}

/* The transaction that makes the tree may have been rolled back after the root was read, and before
 * the question whether this transaction has committed. A root that is still there stays. */
static int still_there(struct lladd_db *db, const char *name, const char *root_name, uint64_t id,
                       struct lladd_error *err)
{
    struct lladd_root_value now;
    TRY(find_root(db, name, root_name, &now, err));
    return now.b == id ? 0
                       : lladd_error_set(err, LLADD_BUSY,
                                         "the Bw-tree \"%s\" was rolled back, and is made again",
                                         name);
}

int lladd_bwtree_open(struct lladd_db *db, const char *name, struct lladd_bwtree **out,
                      struct lladd_error *err)
{
    char root_name[LLADD_ROOT_NAME_MAX + 1];
    struct lladd_root_value root;
    struct bw_store *store;
    struct bw_stored *s;
    *out = NULL;
    TRY(ll_bwtree__store_of(db, &store, err));
    TRY(tree_name(name, root_name, err));
    TRY(find_root(db, name, root_name, &root, err));
    if (ll_bwtree__is_fresh(store, root.b))
        return lladd_error_set(err, LLADD_BUSY,
                               "the transaction that makes the Bw-tree \"%s\" has not committed",
                               name);
    TRY(still_there(db, name, root_name, root.b, err));
    lladd_mutex_lock(&store->make);
    int rc = open_tree(store, root, &s, err);
    lladd_mutex_unlock(&store->make);
    if (rc)
        return rc;
    *out = s->tree;
    struct lladd_error why = LLADD_ERROR_INIT;
    (void)ll_bwtree__provide(store, &why); /* a full device must not prevent reading */
    return 0;
}

/* If the flush fails, the log keeps the changes. */
void ll_bwtree__close_stored(struct bw_stored *s)
{
    struct lladd_error why = LLADD_ERROR_INIT;
    lladd_mutex_lock(&s->store->make);
    bool last = --s->handles == 0;
    lladd_mutex_unlock(&s->store->make);
    if (last)
        (void)ll_bwtree__flush(s->store, BW_FLUSH_ALLOCATE | BW_FLUSH_WAIT, &why);
}

int lladd_bwtree_flush(struct lladd_db *db, struct lladd_error *err)
{
    struct bw_store *store;
    TRY(ll_bwtree__store_of(db, &store, err));
    return ll_bwtree__flush(store, BW_FLUSH_ALLOCATE | BW_FLUSH_WAIT | BW_FLUSH_FORCE, err);
}

/* ---- tools ----------------------------------------------------------------------------------- */

/* Calls fn for the pages of information of one chain, and for each entry of a list of segments. */
static int chain_pages(struct lladd_db *db, lladd_pageno first, enum bw_info_kind kind,
                       int (*fn)(void *, lladd_pageno), void *arg, struct lladd_error *err)
{
    bool segments = kind == BW_INFO_STORE;
    unsigned char *body = lladd_mem_alloc(db, lladd_page_size(db));
    int rc = body ? 0 : ll_bwtree__no_memory(err, "the check");
    uint64_t steps = 0;
    for (uint64_t next = first.v; next && !rc; next = lladd_get64(body + BW_INFO_NEXT)) {
        rc = ++steps > lladd_page_count(db)
                 ? lladd_error_set(err, LLADD_CORRUPT_PAGE, "a chain of Bw-tree pages does not end")
                 : ll_bwtree__info_get(db, lladd_page_of(next), kind, body, err);
        if (!rc)
            rc = fn(arg, lladd_page_of(next));
        for (uint32_t i = 0; segments && i < bw_entries_of(db) && !rc; i++) {
            const unsigned char *entry = body + BW_INFO_HEAD + (size_t)i * BW_ENTRY;
            uint64_t page = lladd_get64(entry), n = page ? lladd_get64(entry + 8) : 0;
            for (uint64_t k = 0; k < n && !rc; k++)
                rc = fn(arg, lladd_page_of(page + k));
        }
        kind = segments ? BW_INFO_SEGMENTS : BW_INFO_MAP;
    }
    lladd_mem_free(db, body);
    return rc;
}

static bool is_store(const struct bw_store *store, struct lladd_root_value root)
{
    return root.a == store->page.v;
}

static int structure_pages(void *ctx, struct lladd_db *db, struct lladd_root_value root,
                           int (*fn)(void *, lladd_pageno), void *arg, struct lladd_error *err)
{
    struct bw_store *store;
    (void)ctx;
    TRY(ll_bwtree__store_of(db, &store, err));
    return chain_pages(db, lladd_page_of(root.a),
                       is_store(store, root) ? BW_INFO_STORE : BW_INFO_TREE, fn, arg, err);
}

struct pages {
    struct lladd_db *db;
    int (*fn)(void *, lladd_pageno);
    void *arg;
    struct lladd_error *err;
};

static int root_pages(void *ctx, const char *name, struct lladd_root_value root)
{
    struct pages *p = ctx;
    if (strcmp(name, BW_STORE_ROOT) != 0 && strncmp(name, BW_TREE_ROOT, strlen(BW_TREE_ROOT)) != 0)
        return 0;
    return structure_pages(NULL, p->db, root, p->fn, p->arg, p->err);
}

int lladd_bwtree_pages(struct lladd_db *db, int (*fn)(void *, lladd_pageno), void *arg,
                       struct lladd_error *err)
{
    struct pages p = {db, fn, arg, err};
    return lladd_root_each(db, root_pages, &p, err);
}

/* Loading a tree checks its pages in the store. */
static int structure_check(void *ctx, struct lladd_db *db, struct lladd_root_value root,
                           struct lladd_error *err)
{
    struct bw_store *store;
    struct bw_stored *s;
    (void)ctx;
    TRY(ll_bwtree__store_of(db, &store, err));
    if (is_store(store, root) || ll_bwtree__is_fresh(store, root.b))
        return 0;
    lladd_mutex_lock(&store->make);
    int rc = open_tree(store, root, &s, err);
    if (!rc)
        s->handles--;
    lladd_mutex_unlock(&store->make);
    if (!rc)
        rc = lladd_bwtree_check(s->tree, err);
    if (rc == LLADD_BUG && err)
        err->code = rc = LLADD_CORRUPT_PAGE;
    return rc;
}

const struct lladd_structure ll_bwtree__structure = {
    .struct_size = sizeof(struct lladd_structure),
    .name = "lladd.bwtree",
    .version = 1,
    .page_type = "lladd.bwtree",
    .check = structure_check,
    .pages = structure_pages,
};
