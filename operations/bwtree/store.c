/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Logged Bw-trees. Each change of a row is an object record of class "lladd.bwtree", with redo and
 * undo by key; the pages of trees are not logged. A flush writes pages to the *store*, which all
 * trees of a database share, and then logs where they are: records of class "lladd.bwtree.store".
 * Recovery repeats these first, and then the changes that the pages in the store lack.
 *
 *   logged.c    the calls that change rows in a transaction; redo and undo; the classes
 *   store.c     the state of a handle, the trees of a database, recovery
 *   named.c     trees are made, opened and closed
 *   info.c      pages that say where the pages of trees are
 *   segment.c   segments: extents to which fragments are appended
 *   fragment.c  fragments: pages of trees as bytes
 *   flush.c     flushes, and the marks at which redo begins
 *   load.c      trees are read into memory
 *
 * The rules BWT-1 to BWT-6 are in docs/structures-bwtree.md.
 *
 * Threads. One thread at a time flushes, and owns the store's segments and each tree's places
 * meanwhile (bw_store.flushing). Recovery has only one thread. Two mutexes: `make` is held over
 * I/O, while a tree is made, opened or read in; `mutex` is a leaf. A thread in an epoch takes no
 * mutex.
 */
#include "operations/bwtree/stored.h"

#include <lladd/stats.h>

/* Log between two flushes by writers, and between two moves of the marks. With a small limit of the
 * log: parts of the limit. */
enum { DUE = 16 << 20, DUE_PARTS = 8, STEP = 64 << 10, STEP_PARTS = 16 };

int ll_bwtree__store_of(struct lladd_db *db, struct bw_store **out, struct lladd_error *err)
{
    *out = lladd_extension_state(db, &ll_bwtree__extension);
    if (!*out)
        return lladd_error_set(err, LLADD_BAD_STATE,
                               "the database was opened without lladd_bwtree_register");
    if ((*out)->unlisted)
        return lladd_error_set(err, LLADD_CORRUPT_PAGE, "no Bw-tree can be used: %.200s",
                               (*out)->why.message);
    return lladd_check_process(db, err);
}

int ll_bwtree__begin(struct bw_store *store, struct lladd_txn **txn, struct lladd_error *err)
{
    struct lladd_txn_options o = LLADD_TXN_OPTIONS_INIT;
    o.system = o.frees_log = true;
    o.durability = LLADD_DURABLE_LATER;
    return lladd_begin(store->db, &o, txn, err);
}

int ll_bwtree__end(struct lladd_txn *txn, int rc, lladd_lsn *commit, struct lladd_error *err)
{
    lladd_lsn ignored;
    if (!rc)
        rc = lladd_commit_async(txn, commit ? commit : &ignored);
    if (!rc)
        return 0;
    if (lladd_code_root(rc) == LLADD_ROOT_POISONED)
        return lladd_error_set(err, rc, "the handle is poisoned");
    struct lladd_error why = *lladd_txn_error_out(txn);
    int aborted = lladd_abort(txn);
    if (aborted)
        return lladd_error_set(err, aborted, "a rollback of the store of Bw-trees has failed");
    if (why.code == rc && err)
        *err = why;
    return rc;
}

/* ---- the trees of a database ----------------------------------------------------------------- */

struct bw_stored *ll_bwtree__stored_of(struct bw_store *store, uint64_t id)
{
    lladd_mutex_lock(&store->mutex);
    struct bw_stored *s = store->trees;
    while (s && s->id != id)
        s = s->next;
    lladd_mutex_unlock(&store->mutex);
    return s;
}

int ll_bwtree__places(struct bw_stored *s, uint64_t n)
{
    if (n <= s->n_places)
        return 0;
    if (ll_operations__grow(s->store->db, &s->places, (size_t)n, &s->cap_places,
                            sizeof *s->places))
        return LLADD_NO_MEMORY;
    while (s->n_places < n)
        s->places[s->n_places++] = (struct bw_place){.number = UINT64_MAX};
    return 0;
}

static int no_memory(struct lladd_error *err)
{
    return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for the store of Bw-trees");
}

/* Reads the addresses of one map page. With `settled_only`, `at` stays as it is. */
static int read_map(struct bw_stored *s, const unsigned char *body, bool settled_only,
                    struct lladd_error *err)
{
    uint32_t per = bw_entries_of(s->store->db);
    uint64_t first = (uint64_t)(s->n_maps - 1) * per;
    for (uint32_t i = 0; i < per; i++) {
        uint64_t at = lladd_get64(body + BW_INFO_HEAD + (size_t)i * BW_ENTRY);
        if (!at && first + i >= s->n_places)
            continue;
        if (first + i > UINT32_MAX || ll_bwtree__places(s, first + i + 1))
            return no_memory(err);
        struct bw_place *p = &s->places[first + i];
        p->settled = at;
        p->at = settled_only ? p->at : at;
    }
    return 0;
}

/* Reads the chain of map pages, from `next` on. `body` has room for a page. */
static int read_maps(struct bw_stored *s, uint64_t next, unsigned char *body, bool settled_only,
                     struct lladd_error *err)
{
    s->n_maps = 0;
    while (next) {
        if (s->n_maps > UINT32_MAX / bw_entries_of(s->store->db))
            return lladd_error_set(err, LLADD_CORRUPT_PAGE,
                                   "the chain of map pages of Bw-tree %llu does not end",
                                   (unsigned long long)s->id);
        TRY(ll_bwtree__info_get(s->store->db, lladd_page_of(next), BW_INFO_MAP, body, err));
        if (lladd_get64(body + BW_INFO_OWN) != s->id ||
            lladd_get64(body + BW_INFO_OWN + 8) != s->n_maps)
            return lladd_error_set(err, LLADD_CORRUPT_PAGE,
                                   "page %llu is not map page %zu of Bw-tree %llu",
                                   (unsigned long long)next, s->n_maps,
                                   (unsigned long long)s->id);
        if (ll_operations__grow(s->store->db, &s->maps, s->n_maps + 1, &s->cap_maps,
                                sizeof *s->maps))
            return no_memory(err);
        s->maps[s->n_maps++] = lladd_page_of(next);
        TRY(read_map(s, body, settled_only, err));
        next = lladd_get64(body + BW_INFO_NEXT);
    }
    return 0;
}

static int read_tree(struct bw_stored *s, unsigned char *body, struct lladd_error *err)
{
    TRY(ll_bwtree__info_get(s->store->db, s->root, BW_INFO_TREE, body, err));
    const unsigned char *own = body + BW_INFO_OWN;
    if (lladd_get64(own) != s->id)
        return lladd_error_set(err, LLADD_CORRUPT_PAGE, "page %llu is not the root of Bw-tree %llu",
                               (unsigned long long)s->root.v, (unsigned long long)s->id);
    struct lladd_bwtree_options o = LLADD_BWTREE_OPTIONS_INIT;
    o.key_size = lladd_get32(own + 8);
    o.value_size = lladd_get32(own + 12);
    o.page_bytes = lladd_get32(own + 16);
    o.leaf_chain = lladd_get32(own + 20);
    o.inner_chain = lladd_get32(own + 24);
    return ll_bwtree__options(&o, &s->options, err);
}

static void free_stored(struct bw_stored *s)
{
    struct lladd_db *db = s->store->db;
    if (s->tree)
        ll_bwtree__free_tree(s->tree);
    lladd_mem_free(db, s->places);
    lladd_mem_free(db, s->maps);
    lladd_mem_free(db, s->list.rows);
    lladd_mem_free(db, s);
}

/* Reads the tree's pages of information. */
static int read_info(struct bw_stored *s, bool settled_only, struct lladd_error *err)
{
    unsigned char *body = lladd_mem_alloc(s->store->db, lladd_page_size(s->store->db));
    if (!body)
        return no_memory(err);
    int rc = read_tree(s, body, err);
    if (!rc)
        rc = read_maps(s, lladd_get64(body + BW_INFO_NEXT), body, settled_only, err);
    lladd_mem_free(s->store->db, body);
    return rc;
}

int ll_bwtree__stored_add(struct bw_store *store, lladd_pageno root, uint64_t id,
                          struct bw_stored **out, struct lladd_error *err)
{
    struct bw_stored *s = lladd_mem_alloc(store->db, sizeof *s);
    if (!s)
        return no_memory(err);
    memset(s, 0, sizeof *s);
    s->store = store;
    s->root = root;
    s->id = id;
    s->there = true;
    int rc = read_info(s, false, err);
    if (rc) {
        free_stored(s);
        return rc;
    }
    lladd_mutex_lock(&store->mutex);
    s->next = store->trees;
    store->trees = s;
    lladd_mutex_unlock(&store->mutex);
    *out = s;
    return 0;
}

/* ---- recovery -------------------------------------------------------------------------------- */

struct listing {
    struct bw_store *store;
    struct lladd_error *err;
};

static int list_tree(void *ctx, const char *name, struct lladd_root_value value)
{
    struct listing *l = ctx;
    if (strncmp(name, BW_TREE_ROOT, strlen(BW_TREE_ROOT)) != 0)
        return 0;
    struct bw_stored *s = ll_bwtree__stored_of(l->store, value.b);
    if (!s)
        return ll_bwtree__stored_add(l->store, lladd_page_of(value.a), value.b, &s, l->err);
    s->there = true;
    s->root = lladd_page_of(value.a);
    return read_info(s, true, l->err);
}

/* Is the transaction that made the tree rolled back, or may it be? Then the tree has no rows: it is
 * opened when its transaction has committed. */
static bool may_go(struct bw_stored *s)
{
    bool rows = s->tree || s->n_places || s->damaged;
    return !s->there || !rows || ll_bwtree__is_fresh(s->store, s->id);
}

/* Forgets the trees that may go, so that no flush writes one, or changes a page that has become
 * another tree's. lladd_bwtree_open lists them again. */
static void forget_unmade(struct bw_store *store)
{
    for (struct bw_stored **at = &store->trees, *s; (s = *at) != NULL;) {
        if (!may_go(s)) {
            at = &s->next;
        } else {
            *at = s->next;
            free_stored(s);
        }
    }
}

static int read_marks(struct bw_store *store, struct lladd_error *err)
{
    struct lladd_root_value root;
    int rc = lladd_root_get(store->db, BW_STORE_ROOT, &root, err);
    store->page = lladd_page_of(LLADD_NO_PAGE);
    if (rc)
        return rc == LLADD_NOT_FOUND ? 0 : rc;
    unsigned char *body = lladd_mem_alloc(store->db, lladd_page_size(store->db));
    if (!body)
        return no_memory(err);
    rc = ll_bwtree__info_get(store->db, lladd_page_of(root.a), BW_INFO_STORE, body, err);
    if (!rc) {
        store->page = lladd_page_of(root.a);
        store->redo = lladd_get64(body + BW_INFO_OWN + 8);
        store->since = lladd_get64(body + BW_INFO_OWN + 16);
    }
    lladd_mem_free(store->db, body);
    return rc;
}

/* Lists the trees and reads the marks: when recovery has redone pages, and again when it has undone
 * transactions. What a loser has written to the addresses and marks is true, and stays. */
static int list_trees(struct bw_store *store, struct lladd_error *err)
{
    struct listing l = {store, err};
    for (struct bw_stored *s = store->trees; s; s = s->next) {
        s->there = s->group = false;
        s->list.n = 0;
    }
    TRY(read_marks(store, err));
    return lladd_root_each(store->db, list_tree, &l, err);
}

/* If a page is damaged, the database opens without its Bw-trees, and keeps their log. */
static void note_listed(struct bw_store *store, int rc)
{
    if (rc == LLADD_CORRUPT_PAGE)
        store->damaged = store->unlisted = true;
    else
        store->failed = rc;
}

/* The first question about a class's LSN comes when pages are redone. */
static void know(struct bw_store *store)
{
    if (store->known)
        return;
    store->known = true;
    note_listed(store, list_trees(store, &store->why));
}

static lladd_lsn mark_of(struct lladd_db *db, bool changes)
{
    struct bw_store *store = lladd_extension_state(db, &ll_bwtree__extension);
    if (!store)
        return lladd_lsn_of(0);
    if (!store->recovered) {
        know(store);
        return lladd_lsn_of(store->failed || store->unlisted ? 0
                            : changes                        ? store->redo
                                                             : store->since);
    }
    if (store->unlisted)
        return lladd_lsn_of(0);
    lladd_lsn applied = lladd_object_applied_lsn(db);
    lladd_mutex_lock(&store->mutex);
    ll_bwtree__marks_settle(store);
    uint64_t mark = changes ? store->redo : store->since;
    if (store->page.v == LLADD_NO_PAGE)
        mark = applied.v;
    lladd_mutex_unlock(&store->mutex);
    return lladd_lsn_of(mark);
}

static lladd_lsn rows_durable(void *ctx, struct lladd_db *db)
{
    (void)ctx;
    return mark_of(db, true);
}

static lladd_lsn store_durable(void *ctx, struct lladd_db *db)
{
    (void)ctx;
    return mark_of(db, false);
}

/* Reads a tree in recovery. If a page of it is damaged, the database opens without this tree: its
 * changes stay in the log, which no flush releases. */
static int load_or_leave(struct bw_stored *s)
{
    struct bw_store *store = s->store;
    int rc = s->damaged ? LLADD_CORRUPT_PAGE : ll_bwtree__load(s, &store->why);
    if (rc == LLADD_CORRUPT_PAGE || rc == LLADD_OUT_OF_RANGE)
        store->damaged = s->damaged = true;
    else if (rc)
        store->failed = rc;
    return s->damaged ? 0 : rc;
}

static int repeat(struct lladd_db *db, struct lladd_txn *txn, lladd_lsn lsn, uint64_t id,
                  struct lladd_span bytes)
{
    struct bw_store *store = lladd_extension_state(db, &ll_bwtree__extension);
    if (store->failed || store->unlisted)
        return store->failed;
    struct bw_stored *s = ll_bwtree__stored_of(store, id);
    if (!s)
        return LLADD_BAD_RECORD;
    int rc = load_or_leave(s);
    return rc || s->damaged ? rc : ll_bwtree__repeat(s, txn, lsn, bytes);
}

static int redo_rows(void *ctx, struct lladd_db *db, lladd_lsn lsn, uint64_t id,
                     struct lladd_span bytes)
{
    (void)ctx;
    return repeat(db, NULL, lsn, id, bytes);
}

/* A rollback, of a running transaction or in recovery. Only in recovery the tree may not be in
 * memory. */
static int undo_rows(void *ctx, struct lladd_db *db, struct lladd_txn *txn, lladd_lsn lsn,
                     uint64_t id, struct lladd_span bytes)
{
    (void)ctx;
    return repeat(db, txn, lsn, id, bytes);
}

static int list_put(struct bw_stored *s, struct bw_assigned row)
{
    struct bw_list *l = &s->list;
    if (ll_operations__grow(s->store->db, &l->rows, l->n + 1, &l->cap, sizeof *l->rows))
        return LLADD_NO_MEMORY;
    l->rows[l->n++] = row;
    return 0;
}

static int take_over(struct bw_stored *s)
{
    for (size_t i = 0; i < s->list.n; i++) {
        TRY(ll_bwtree__places(s, (uint64_t)s->list.rows[i].pid + 1));
        s->places[s->list.rows[i].pid].at = s->list.rows[i].at;
    }
    s->list.n = 0;
    s->group = false;
    return 0;
}

/* A group of pages that were flushed together counts when its last record is there. */
static int redo_store(void *ctx, struct lladd_db *db, lladd_lsn lsn, uint64_t id,
                      struct lladd_span bytes)
{
    struct bw_store *store = lladd_extension_state(db, &ll_bwtree__extension);
    const unsigned char *p = bytes.data;
    (void)ctx;
    (void)lsn;
    if (store->failed || store->unlisted)
        return store->failed;
    if (bytes.len < BW_RECORD_HEAD || p[0] != BW_VERSION)
        return bytes.len && p[0] > BW_VERSION ? LLADD_NEWER_FORMAT : LLADD_BAD_RECORD;
    uint32_t n = lladd_get32(p + 4);
    if ((bytes.len - BW_RECORD_HEAD) / BW_RECORD_ENTRY != n ||
        (bytes.len - BW_RECORD_HEAD) % BW_RECORD_ENTRY)
        return LLADD_BAD_RECORD;
    struct bw_stored *s = ll_bwtree__stored_of(store, id);
    if (!s)
        return 0; /* the transaction that made the tree was rolled back later */
    if (p[1] & BW_RECORD_FIRST) {
        s->list.n = 0;
        s->group = true;
    }
    if (!s->group)
        return 0; /* the group's beginning is not there: the map pages have its addresses, or the
                   * flush has failed in it */
    for (p += BW_RECORD_HEAD; n > 0; n--, p += BW_RECORD_ENTRY)
        TRY(list_put(s, (struct bw_assigned){lladd_get32(p), lladd_get64(p + 4), 0}));
    return ((const unsigned char *)bytes.data)[1] & BW_RECORD_LAST ? take_over(s) : 0;
}

static void store_describe(void *ctx, struct lladd_sink *sink, enum lladd_span_kind kind,
                           struct lladd_span s)
{
    const unsigned char *p = s.data;
    (void)ctx;
    (void)kind;
    if (s.len < BW_RECORD_HEAD || p[0] != BW_VERSION)
        return;
    (void)lladd_sink_printf(sink, "%u pages%s%s", lladd_get32(p + 4),
                            p[1] & BW_RECORD_FIRST ? " first" : "",
                            p[1] & BW_RECORD_LAST ? " last" : "");
}

const struct lladd_object_class ll_bwtree__rows_class = {
    .struct_size = sizeof(struct lladd_object_class),
    .name = "lladd.bwtree",
    .version = 1,
    .durable_lsn = rows_durable,
    .redo = redo_rows,
    .undo = undo_rows,
    .checkpoint = ll_bwtree__checkpoint,
    .advance = ll_bwtree__advance,
    .describe = ll_bwtree__rows_describe,
};

const struct lladd_object_class ll_bwtree__store_class = {
    .struct_size = sizeof(struct lladd_object_class),
    .name = "lladd.bwtree.store",
    .version = 1,
    .durable_lsn = store_durable,
    .redo = redo_store,
    .describe = store_describe,
    .first = true,
};

/* Reads all trees into memory if transactions may still be rolled back, so that a rollback does not
 * have to. */
static int load_for_undo(struct bw_store *store)
{
    struct lladd_stats stats = {.struct_size = sizeof stats};
    TRY(lladd_stats_get(store->db, &stats));
    if (stats.in_doubt == 0 && stats.losers_left == 0)
        return 0;
    for (struct bw_stored *s = store->trees; s; s = s->next)
        TRY(load_or_leave(s));
    return 0;
}

static int fail(const struct bw_store *store, struct lladd_error *err)
{
    if (err)
        *err = store->why;
    return store->failed;
}

/* Transactions are undone. */
static int list_all(struct bw_store *store)
{
    TRY(list_trees(store, &store->why));
    forget_unmade(store);
    TRY(load_for_undo(store));
    return ll_bwtree__segments_read(store, &store->why);
}

static int recovered(void *ctx, struct lladd_db *db, void *state, struct lladd_error *err)
{
    struct bw_store *store = state;
    struct lladd_stats stats = {.struct_size = sizeof stats};
    (void)ctx;
    (void)db;
    know(store);
    if (!store->failed && !store->unlisted)
        note_listed(store, list_all(store));
    if (store->failed)
        return fail(store, err);
    TRY(lladd_stats_get(store->db, &stats));
    store->due = stats.log_limit_bytes / DUE_PARTS < DUE ? stats.log_limit_bytes / DUE_PARTS : DUE;
    store->step =
        stats.log_limit_bytes / STEP_PARTS < STEP ? stats.log_limit_bytes / STEP_PARTS : STEP;
    lladd_atomic_store64(&store->flushed, store->redo);
    lladd_mutex_lock(&store->mutex);
    store->recovered = true;
    lladd_mutex_unlock(&store->mutex);
    return 0;
}

/* ---- parts of transactions ------------------------------------------------------------------- */

static void drop_part(struct ll_txn_part *part)
{
    struct bw_part *p = (struct bw_part *)part;
    lladd_mutex_lock(part->all->mutex);
    p->n = 0;
    lladd_mutex_unlock(part->all->mutex);
    lladd_mem_free(part->all->db, p->ids);
    for (struct bw_spare *s = p->undo, *next; s; s = next) {
        next = s->next;
        ll_bwtree__free(s->t, s, s->size);
    }
    p->undo = NULL;
}

/* Writes the numbers of the trees that the transaction has made. */
static int prepare_part(void *ctx, void *state, struct lladd_txn *txn, struct lladd_sink *sink)
{
    const struct bw_part *p = state;
    unsigned char word[8];
    int rc = 0;
    (void)ctx;
    (void)txn;
    for (size_t i = 0; i < p->n && !rc; i++) {
        lladd_put64(word, p->ids[i]);
        rc = lladd_sink_write(sink, word, sizeof word);
    }
    return rc;
}

static int in_doubt_part(void *ctx, struct lladd_txn *txn, struct lladd_span blob)
{
    struct bw_store *store = lladd_extension_state(lladd_txn_db(txn), &ll_bwtree__extension);
    (void)ctx;
    if (blob.len % 8)
        return LLADD_BAD_RECORD;
    for (size_t at = 0; at < blob.len; at += 8)
        TRY(ll_bwtree__created_add(store, txn,
                                   lladd_get64((const unsigned char *)blob.data + at)));
    return 0;
}

/* The commit has its place: the new trees can be opened. */
static void logged_part(void *ctx, void *state, lladd_lsn commit)
{
    struct bw_part *p = state;
    (void)ctx;
    (void)commit;
    lladd_mutex_lock(p->part.all->mutex);
    p->n = 0;
    lladd_mutex_unlock(p->part.all->mutex);
}

static const struct lladd_participant participant = {
    .struct_size = sizeof participant,
    .name = "lladd.bwtree",
    .version = 1,
    .prepare = prepare_part,
    .in_doubt = in_doubt_part,
    .logged = logged_part,
    .committed = ll_operations__owner_durable,
    .aborted = ll_operations__owner_aborted,
};

int ll_bwtree__part_of(struct bw_store *store, struct lladd_txn *txn, struct bw_part **out)
{
    struct ll_txn_part *part;
    TRY(ll_operations__owner_of(txn, &participant, &store->parts, sizeof(struct bw_part),
                                "a transaction's Bw-trees", &part));
    *out = (struct bw_part *)part;
    return 0;
}

void *ll_bwtree__undo_take(struct lladd_txn *txn, const struct lladd_bwtree *t, size_t size)
{
    struct bw_part *p = txn ? lladd_txn_joined(txn, &participant) : NULL;
    for (struct bw_spare **at = p ? &p->undo : NULL, *s; at && (s = *at) != NULL; at = &s->next)
        if (s->t == t && s->size == size) {
            *at = s->next;
            return s;
        }
    return NULL;
}

int ll_bwtree__created_add(struct bw_store *store, struct lladd_txn *txn, uint64_t id)
{
    struct bw_part *p;
    TRY(ll_bwtree__part_of(store, txn, &p));
    lladd_mutex_lock(&store->mutex);
    int rc = ll_operations__grow(store->db, &p->ids, p->n + 1, &p->cap, sizeof *p->ids);
    if (!rc)
        p->ids[p->n++] = id;
    lladd_mutex_unlock(&store->mutex);
    return rc ? no_memory(lladd_txn_error_out(txn)) : 0;
}

bool ll_bwtree__is_fresh(struct bw_store *store, uint64_t id)
{
    bool found = false;
    lladd_mutex_lock(&store->mutex);
    for (struct ll_txn_part *p = store->parts.first; p; p = p->next) {
        const struct bw_part *c = (const struct bw_part *)p;
        for (size_t i = 0; i < c->n; i++)
            found |= c->ids[i] == id;
    }
    lladd_mutex_unlock(&store->mutex);
    return found;
}

/* ---- attach, detach -------------------------------------------------------------------------- */

static int attach(void *ctx, struct lladd_db *db, void **state, struct lladd_error *err)
{
    (void)ctx;
    TRY(ll_operations__state_new(db, sizeof(struct bw_store), offsetof(struct bw_store, mutex),
                                 offsetof(struct bw_store, parts), drop_part, "logged trees", state,
                                 err));
    struct bw_store *store = *state;
    store->db = db;
    store->why = (struct lladd_error)LLADD_ERROR_INIT;
    store->page = lladd_page_of(LLADD_NO_PAGE);
    int rc = lladd_cond_init(&store->ended);
    if (!rc) {
        rc = lladd_mutex_init(&store->make, LLADD_RANK_EXTENSION - 95, "making logged trees");
        if (rc)
            lladd_cond_destroy(&store->ended);
    }
    if (rc) {
        ll_operations__state_free(db, store, offsetof(struct bw_store, mutex));
        return no_memory(err);
    }
    return 0;
}

static void detach(void *ctx, struct lladd_db *db, void *state)
{
    struct bw_store *store = state;
    (void)ctx;
    ll_operations__owners_end(&store->parts);
    for (struct bw_stored *s = store->trees, *next; s; s = next) {
        next = s->next;
        free_stored(s);
    }
    lladd_mem_free(db, store->segments);
    lladd_mem_free(db, store->lists);
    lladd_mem_free(db, store->fragment);
    lladd_mutex_destroy(&store->make);
    lladd_cond_destroy(&store->ended);
    ll_operations__state_free(db, store, offsetof(struct bw_store, mutex));
}

static const struct lladd_op *const ops[] = {&ll_bwtree__info_format, &ll_bwtree__info_set, NULL};
static const struct lladd_page_type *const page_types[] = {&ll_bwtree__info_page,
                                                           &ll_bwtree__segment_page, NULL};
static const struct lladd_object_class *const classes[] = {&ll_bwtree__rows_class,
                                                           &ll_bwtree__store_class, NULL};
static const struct lladd_participant *const participants[] = {&participant, NULL};
static const struct lladd_structure *const structures[] = {&ll_bwtree__structure, NULL};

const struct lladd_extension ll_bwtree__extension = {
    .struct_size = sizeof(struct lladd_extension),
    .name = "bwtree",
    .version = 1,
    .ops = ops,
    .page_types = page_types,
    .classes = classes,
    .participants = participants,
    .attach = attach,
    .recovered = recovered,
    .detach = detach,
    .structures = structures,
};

int lladd_bwtree_register(struct lladd_options *o, struct lladd_error *err)
{
    return lladd_register_extension(o, &ll_bwtree__extension, err);
}
