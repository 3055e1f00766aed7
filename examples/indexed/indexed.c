/* SPDX-License-Identifier: BSD-2-Clause */
/* Secondary indexes of a cTable.
 *
 * The key of an entry is the column's value (lladd/keys.h), followed by the row's number if the
 * index is not unique. In a unique index the row's number is the value of the entry. A row without
 * a value in the column has no entry.
 *
 * The two parts of a change are undone in different ways. The tree undoes the change of an entry by
 * its key; a row's journal entry counts only if its transaction commits. Both belong to the same
 * transaction, so a rollback, also one to a savepoint, and a crash take back both. A digest of the
 * table moves committed rows only, and does not concern the index.
 *
 * Locks, each held until the transaction ends:
 *   - X on a row before it is changed, S before it is read (lladd_managed_lock). The call returns
 *     LLADD_CONFLICT if the row has changed since the snapshot. So the row that is read is the
 *     newest one, and the entry that is removed is the one in the index.
 *   - X on a value of an index before an entry with it is inserted or removed, S before the value
 *     is looked up; S on the whole index before a range is scanned. Without the lock a unique index
 *     could get a value twice: an entry that another transaction has removed may come back. */
#include "indexed.h"

#include <lladd/extension.h>
#include <lladd/keys.h>
#include <lladd/lock.h>

#include <string.h>

enum { KEY_MAX = 1000, ID = 4, BUILT = 1, UNIQUE = 2 };

#define TRY(call) \
    do { \
        int try_rc = (call); \
        if (try_rc) \
            return try_rc; \
    } while (0)

int ix_register(struct lladd_options *options, struct lladd_error *err)
{
    TRY(lladd_lock_register(options, err));
    return lladd_managed_register(options, err);
}

/* ---- entries --------------------------------------------------------------------------------- */

struct entry {
    unsigned char key[KEY_MAX], id[ID];
    /* Bytes of the encoded value, which begins the key; bytes of the whole key. */
    size_t value_len, len;
};

static int entry_make(const struct ix *ix, const void *value, size_t len, uint32_t id,
                      struct entry *e, struct lladd_error *err)
{
    struct lladd_key k = lladd_key_into(e->key, sizeof e->key);
    struct lladd_key number = lladd_key_into(e->id, sizeof e->id);
    lladd_key_string(&k, value, len);
    e->value_len = k.len;
    lladd_key_u32(&number, id);
    if (!ix->unique)
        lladd_key_u32(&k, id);
    e->len = k.len;
    return lladd_key_fits(&k)
               ? 0
               : lladd_error_set(err, LLADD_TOO_LARGE,
                                 "a value of %zu bytes is too long to be indexed", len);
}

static int lock_value(struct lladd_txn *txn, const struct ix *ix, const void *value, size_t len,
                      enum lladd_lock_mode mode)
{
    return lladd_lock_acquire(
        txn, LLADD_LOCK_NAME(lladd_lock_id(ix->lock), lladd_lock_bytes(value, len)), mode,
        LLADD_LOCK_WAIT);
}

static int entry_insert(struct lladd_txn *txn, const struct ix *ix, struct lladd_span value,
                        uint32_t id)
{
    struct entry e;
    TRY(entry_make(ix, value.data, value.len, id, &e, lladd_txn_error_out(txn)));
    TRY(lock_value(txn, ix, value.data, value.len, LLADD_LOCK_X));
    return lladd_btree_insert(txn, ix->tree, e.key, e.len, e.id, ix->unique ? ID : 0);
}

static int entry_remove(struct lladd_txn *txn, const struct ix *ix, struct lladd_span value,
                        uint32_t id)
{
    struct entry e;
    TRY(entry_make(ix, value.data, value.len, id, &e, lladd_txn_error_out(txn)));
    TRY(lock_value(txn, ix, value.data, value.len, LLADD_LOCK_X));
    return lladd_btree_delete(txn, ix->tree, e.key, e.len);
}

/* ---- changes --------------------------------------------------------------------------------- */

static bool same(const struct lladd_dtable_value *a, const struct lladd_dtable_value *b)
{
    bool is = a->state == LLADD_DTABLE_FOUND, has = b->state == LLADD_DTABLE_FOUND;
    return is == has && (!is || (a->bytes.len == b->bytes.len &&
                                 memcmp(a->bytes.data, b->bytes.data, a->bytes.len) == 0));
}

/* Moves the row's entry from the old value to the new one. */
static int move_entry(struct lladd_txn *txn, const struct ix *ix, uint32_t id,
                      const struct lladd_dtable_value *was, const struct lladd_dtable_value *is)
{
    if (same(was, is))
        return 0;
    bool stays = false;
#ifdef STALE /* a bug that the simulator must find */
    stays = !ix->unique;
#endif
    if (was->state == LLADD_DTABLE_FOUND && !stays)
        TRY(entry_remove(txn, ix, was->bytes, id));
    return is->state == LLADD_DTABLE_FOUND ? entry_insert(txn, ix, is->bytes, id) : 0;
}

static int change(struct lladd_txn *txn, const struct ix_table *t, uint32_t id,
                  const struct lladd_dtable_value *values, const struct lladd_dtable_value *old)
{
    static const struct lladd_dtable_value none = {.state = LLADD_DTABLE_ABSENT};
    struct lladd_dtable_key key = lladd_dtable_u32(id);
    for (size_t i = 0; i < t->n; i++) {
        uint32_t column = t->indexes[i].column;
        TRY(move_entry(txn, &t->indexes[i], id, old ? &old[i] : &none,
                       values ? &values[column] : &none));
    }
    return values ? lladd_ctable_put(txn, t->rows, &key, values)
                  : lladd_ctable_delete(txn, t->rows, &key);
}

/* Reads the indexed columns of the row. */
static int read_old(struct lladd_txn *txn, const struct ix_table *t, uint32_t id,
                    struct lladd_ctable_row *row)
{
    struct lladd_dtable_key key = lladd_dtable_u32(id);
    struct lladd_db *db = lladd_txn_db(txn);
    uint32_t *columns = lladd_mem_alloc(db, (t->n + 1) * sizeof *columns);
    if (!columns)
        return lladd_error_set(lladd_txn_error_out(txn), LLADD_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < t->n; i++)
        columns[i] = t->indexes[i].column;
    int rc = lladd_ctable_lookup(txn, t->rows, &key, columns, t->n, row);
    lladd_mem_free(db, columns);
    return rc;
}

/* [put] The savepoint makes the call atomic: if the second index refuses the row, the change of the
 * first index is rolled back. */
int ix_put(struct lladd_txn *txn, const struct ix_table *t, uint32_t id,
           const struct lladd_dtable_value *values)
{
    struct lladd_dtable_key key = lladd_dtable_u32(id);
    struct lladd_ctable_row row = {.n = 0};
    lladd_savepoint_id before;
    TRY(lladd_savepoint(txn, &before));
    int rc =
        lladd_managed_lock(txn, lladd_ctable_managed(t->rows), &key, LLADD_LOCK_X, LLADD_LOCK_WAIT);
    if (!rc) {
        rc = read_old(txn, t, id, &row);
        bool there = rc == 0;
        if (!rc || rc == LLADD_NOT_FOUND)
            rc = change(txn, t, id, values, there ? row.values : NULL);
        lladd_ctable_row_free(&row);
    }
    int undone = rc ? lladd_rollback_to(txn, before) : 0;
    return undone ? undone : rc;
}
/* [/put] */

/* ---- lookups --------------------------------------------------------------------------------- */

/* The row of an entry. The last bytes of the key, or the value, are the row's number. */
static int id_of(struct lladd_txn *txn, const struct ix *ix, const unsigned char *key, size_t len,
                 uint32_t *id)
{
    unsigned char bytes[ID];
    size_t n = len < ID ? len : ID;
    if (ix->unique)
        TRY(lladd_btree_get(ix->tree, key, len, bytes, sizeof bytes, &n, lladd_txn_error_out(txn)));
    else
        memcpy(bytes, key + len - n, n);
    struct lladd_key_reader r = lladd_key_from(bytes, n == ID ? ID : 0);
    return lladd_key_read_u32(&r, id)
               ? 0
               : lladd_error_set(lladd_txn_error_out(txn), LLADD_CORRUPT_PAGE,
                                 "an entry of the index is not valid");
}

static int compare(const unsigned char *a, size_t a_len, const unsigned char *b, size_t b_len)
{
    int c = memcmp(a, b, a_len < b_len ? a_len : b_len);
    return c ? c : (a_len > b_len) - (a_len < b_len);
}

/* Calls fn for the rows of the entries from `low` on, before `high` (NULL: to the end). */
static int each_entry(struct lladd_txn *txn, const struct ix_table *t, const struct ix *ix,
                      const struct entry *low, const struct entry *high, ix_fn *fn, void *ctx)
{
    unsigned char at[KEY_MAX];
    size_t len = low->value_len, next;
    memcpy(at, low->key, len);
    for (bool after = false;; after = true, len = next) {
        int rc = lladd_btree_next_key(ix->tree, at, len, after, at, sizeof at, &next,
                                      lladd_txn_error_out(txn));
        if (rc == LLADD_END || (!rc && high && compare(at, next, high->key, high->value_len) >= 0))
            return 0;
        TRY(rc);
        struct lladd_dtable_key key = lladd_dtable_u32(0);
        uint32_t id;
        TRY(id_of(txn, ix, at, next, &id));
        key.number = id;
        TRY(lladd_managed_lock(txn, lladd_ctable_managed(t->rows), &key, LLADD_LOCK_S,
                               LLADD_LOCK_WAIT));
        TRY(fn(ctx, id));
    }
}

/* All entries with the value are between its encoding, which ends with 0, 1, and the same bytes
 * with 0, 2. */
int ix_find(struct lladd_txn *txn, const struct ix_table *t, const struct ix *ix, const void *value,
            size_t len, ix_fn *fn, void *ctx)
{
    struct entry low, high;
    TRY(entry_make(ix, value, len, 0, &low, lladd_txn_error_out(txn)));
    TRY(lock_value(txn, ix, value, len, LLADD_LOCK_S));
    high = low;
    high.key[high.value_len - 1] = 2;
    return each_entry(txn, t, ix, &low, &high, fn, ctx);
}

/* S on the index includes S on every value, existing or not. */
int ix_range(struct lladd_txn *txn, const struct ix_table *t, const struct ix *ix,
             struct lladd_span low, const struct lladd_span *high, ix_fn *fn, void *ctx)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct entry from, to;
    TRY(entry_make(ix, low.data, low.len, 0, &from, err));
    if (high)
        TRY(entry_make(ix, high->data, high->len, 0, &to, err));
    TRY(lladd_lock_acquire(txn, LLADD_LOCK_NAME(lladd_lock_id(ix->lock)), LLADD_LOCK_S,
                           LLADD_LOCK_WAIT));
    return each_entry(txn, t, ix, &from, high ? &to : NULL, fn, ctx);
}

/* ---- the whole index ------------------------------------------------------------------------- */

/* Calls fn(ctx, value, id) for each row that has a value in the column. */
static int each_row(struct lladd_txn *txn, struct lladd_ctable *rows, uint32_t column,
                    int (*fn)(void *, struct lladd_span, uint32_t), void *ctx)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    const struct lladd_dtable_value *value;
    struct lladd_ctable_cursor *cursor;
    struct lladd_dtable_key key;
    TRY(lladd_ctable_cursor_open(txn, rows, &column, 1, &cursor));
    int rc;
    while ((rc = lladd_ctable_next(cursor, err)) == 0) {
        rc = lladd_ctable_row_read(cursor, &key, &value, err);
        if (!rc && value[0].state == LLADD_DTABLE_FOUND)
            rc = fn(ctx, value[0].bytes, (uint32_t)key.number);
        if (rc)
            break;
    }
    lladd_ctable_cursor_close(cursor);
    return rc == LLADD_END ? 0 : rc;
}

struct walk {
    struct lladd_txn *txn;
    const struct ix *ix;
    uint64_t rows;
    struct lladd_error *err;
};

static int add_row(void *ctx, struct lladd_span value, uint32_t id)
{
    const struct walk *w = ctx;
    return entry_insert(w->txn, w->ix, value, id);
}

/* Ends a transaction: commits it, or rolls it back after an error. */
static int end(struct lladd_txn *txn, int rc, struct lladd_error *err)
{
    if (!rc)
        return lladd_commit(txn);
    *err = *lladd_txn_error(txn);
    TRY(lladd_abort(txn));
    return rc;
}

/* The tree of an index that is not built yet. A crash may have interrupted an earlier attempt: then
 * the tree is there, and empty. */
static int new_tree(struct lladd_db *db, const char *root, bool unique, lladd_pageno *page,
                    struct lladd_error *err)
{
    struct lladd_root_value value = {0, 0};
    struct lladd_txn *txn;
    int rc = lladd_root_get(db, root, &value, err);
    *page = lladd_page_of(value.a);
    if (!rc && value.b & BUILT)
        return lladd_error_set(err, LLADD_EXISTS, "there is an index \"%s\"", root);
    if (rc != LLADD_NOT_FOUND)
        return rc;
    TRY(lladd_begin(db, NULL, &txn, err));
    rc = lladd_btree_create(txn, NULL, page);
    if (!rc)
        rc = lladd_root_set(txn, root, (struct lladd_root_value){page->v, unique ? UNIQUE : 0});
    return end(txn, rc, err);
}

static int destroy(struct lladd_txn *txn, const char *root, lladd_pageno page)
{
    TRY(lladd_btree_destroy(txn, page));
    return lladd_root_delete(txn, root);
}

/* [build] A tree can be used when its creation has committed. So the index is made in one
 * transaction and filled in another, which also sets the flag BUILT under the root's name. */
int ix_build(struct lladd_db *db, struct lladd_ctable *rows, const char *root, uint32_t column,
             bool unique, struct lladd_error *err)
{
    struct ix ix = {.column = column, .unique = unique};
    struct lladd_txn *txn;
    lladd_pageno page;
    TRY(new_tree(db, root, unique, &page, err));
    TRY(lladd_btree_open(db, page, &ix.tree, err));
    ix.lock = page.v;
    int rc = lladd_begin(db, NULL, &txn, err);
    if (!rc) {
        struct walk w = {.txn = txn, .ix = &ix};
        rc = lladd_managed_lock(txn, lladd_ctable_managed(rows), NULL, LLADD_LOCK_S,
                                LLADD_LOCK_WAIT);
        if (!rc)
            rc = each_row(txn, rows, column, add_row, &w);
        if (!rc)
            rc = lladd_root_set(txn, root,
                                (struct lladd_root_value){page.v, BUILT | (unique ? UNIQUE : 0)});
        rc = end(txn, rc, err);
    }
    lladd_btree_close(ix.tree);
    if (rc && lladd_begin(db, NULL, &txn, NULL) == 0)
        (void)end(txn, destroy(txn, root, page), &(struct lladd_error)LLADD_ERROR_INIT);
    return rc; /* if the destruction failed, the next attempt uses the tree */
}
/* [/build] */

int ix_open(struct lladd_db *db, const char *root, struct ix *ix, struct lladd_error *err)
{
    struct lladd_root_value value;
    TRY(lladd_root_get(db, root, &value, err));
    if (!(value.b & BUILT))
        return lladd_error_set(err, LLADD_NOT_FOUND, "index \"%s\" is not built", root);
    ix->unique = value.b & UNIQUE;
    ix->lock = value.a;
    return lladd_btree_open(db, lladd_page_of(value.a), &ix->tree, err);
}

void ix_close(struct ix *ix)
{
    lladd_btree_close(ix->tree);
    ix->tree = NULL;
}

int ix_destroy(struct lladd_txn *txn, const char *root)
{
    struct lladd_root_value value;
    TRY(lladd_root_get(lladd_txn_db(txn), root, &value, lladd_txn_error_out(txn)));
    return destroy(txn, root, lladd_page_of(value.a));
}

static int check_row(void *ctx, struct lladd_span value, uint32_t id)
{
    struct walk *w = ctx;
    unsigned char stored[ID] = {0};
    struct entry e;
    size_t len;
    w->rows++;
    TRY(entry_make(w->ix, value.data, value.len, id, &e, w->err));
    int rc = lladd_btree_get(w->ix->tree, e.key, e.len, stored, sizeof stored, &len, w->err);
    if (rc == LLADD_NOT_FOUND || (!rc && w->ix->unique && memcmp(stored, e.id, ID) != 0))
        return lladd_error_set(w->err, LLADD_CORRUPT_PAGE, "the index lacks row %u", id);
    return rc;
}

/* Checks that each row has its entry, and that there are as many entries as rows: then there are no
 * other entries. */
int ix_check(struct lladd_db *db, const struct ix_table *t, const struct ix *ix,
             struct lladd_error *err)
{
    struct lladd_btree_stats stats = {.struct_size = sizeof stats};
    struct walk w = {.ix = ix, .err = err};
    struct lladd_txn *txn;
    TRY(lladd_btree_check(ix->tree, err));
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = each_row(txn, t->rows, ix->column, check_row, &w);
    int ended = lladd_abort(txn);
    TRY(rc ? rc : ended);
    TRY(lladd_btree_stats_get(ix->tree, &stats, err));
    return stats.rows == w.rows
               ? 0
               : lladd_error_set(err, LLADD_CORRUPT_PAGE,
                                 "the index has %llu entries for %llu rows",
                                 (unsigned long long)stats.rows, (unsigned long long)w.rows);
}
