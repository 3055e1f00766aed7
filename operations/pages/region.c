/* SPDX-License-Identifier: BSD-2-Clause */
/* Regions: extents with an identity (lladd/pages.h).
 *
 * An allocation bitmap says which pages are in use, not where an extent begins: its two bits for
 * each page have no value left for that. Regions are therefore listed in a catalogue: a hash
 * table under the named root LLADD_REGIONS_ROOT, created with the first region.
 *
 *   key    u64 first page
 *   value  u64 pages, u32 kind (LLADD_EXTENT_), u32 zero, u64 the owner's tag
 *
 * The transaction that allocates a region's pages adds its row; the transaction that frees them
 * removes the row. No page begins two regions: the allocator reuses a page only after the
 * transaction that freed it, and removed the row, has committed.
 *
 * Threads: any number. A thread that opens or creates the catalogue holds `create`. */
#include "operations/pages/region.h"

#include <lladd/hash.h>

#define VERSION 1u
#define KEY_BYTES 8u
#define ROW_BYTES 24u

/* The rank of `create`. A thread takes `create` before all mutexes and latches that it needs to
 * create the catalogue. */
enum { LL_REGION_RANK_CREATE = LLADD_RANK_EXTENSION - 130 };

/* ---- the catalogue --------------------------------------------------------------------------- */

static int open_catalogue(struct ll_regions *r, struct lladd_root_value root,
                          struct lladd_hash **out, struct lladd_error *err)
{
    if (root.b != VERSION)
        return lladd_error_set(err, LLADD_NEWER_FORMAT,
                               "the catalogue of regions has version %llu, this library knows %u",
                               (unsigned long long)root.b, VERSION);
    int rc = lladd_hash_open(r->db, lladd_page_of(root.a), LLADD_HASH_LOGICAL, out, err);
    if (rc || (lladd_hash_key_size(*out) == KEY_BYTES && lladd_hash_value_size(*out) == ROW_BYTES))
        return rc;
    lladd_hash_close(*out);
    return ll_operations__on(err, lladd_page_of(root.a),
                             lladd_error_set(err, LLADD_CORRUPT_PAGE,
                                             "the catalogue of regions has rows of other lengths"));
}

static int fill(struct lladd_txn *txn, struct ll_regions *r, struct lladd_hash **out)
{
    struct lladd_hash_options o = LLADD_HASH_OPTIONS_INIT;
    struct lladd_root_value root = {0, VERSION};
    lladd_pageno page;
    o.key_size = KEY_BYTES;
    o.value_size = ROW_BYTES;
    int rc = lladd_hash_create(txn, &o, &page);
    root.a = page.v;
    if (!rc)
        rc = lladd_root_set(txn, LLADD_REGIONS_ROOT, root);
    return rc ? rc : open_catalogue(r, root, out, lladd_txn_error_out(txn));
}

/* Creates the catalogue in a transaction of its own, because other transactions may use the
 * catalogue before the transaction with the first region has ended. */
static int make_catalogue(struct ll_regions *r, struct lladd_hash **out, struct lladd_error *err)
{
    struct lladd_txn_options o = LLADD_TXN_OPTIONS_INIT;
    struct lladd_hash *hash = NULL;
    struct lladd_txn *txn;
    lladd_lsn lsn;
    o.system = true;
    o.durability = LLADD_DURABLE_LATER; /* a transaction that uses the catalogue commits later */
    TRY(lladd_begin(r->db, &o, &txn, err));
    int rc = fill(txn, r, &hash);
    if (!rc)
        rc = lladd_commit_async(txn, &lsn);
    if (!rc) {
        *out = hash;
        return 0;
    }
    lladd_hash_close(hash);
    if (lladd_code_root(rc) == LLADD_ROOT_POISONED)
        return lladd_db_error(r->db, err);
    *err = *lladd_txn_error(txn);
    return lladd_abort(txn) ? lladd_db_error(r->db, err) : rc;
}

static int find_catalogue(struct ll_regions *r, bool make, struct lladd_hash **out,
                          struct lladd_error *err)
{
    struct lladd_root_value root;
    int rc = lladd_root_get(r->db, LLADD_REGIONS_ROOT, &root, err);
    if (!rc)
        return open_catalogue(r, root, out, err);
    return rc == LLADD_NOT_FOUND && make ? make_catalogue(r, out, err) : rc;
}

/* The catalogue. LLADD_NOT_FOUND: the catalogue does not exist, and `make` is false. */
static int catalogue(struct lladd_db *db, bool make, struct lladd_hash **out,
                     struct lladd_error *err)
{
    struct lladd_error ignored = LLADD_ERROR_INIT; /* used if the caller passes NULL */
    struct ll_regions *r = lladd_extension_state(db, &ll_operations__region_extension);
    int rc = 0;
    *out = lladd_atomic_load_ptr(&r->catalogue);
    if (*out)
        return 0;
    rc = lladd_check_process(db, err);
    if (rc)
        return rc;
    lladd_mutex_lock(&r->create);
    *out = lladd_atomic_load_ptr(&r->catalogue);
    if (!*out)
        rc = find_catalogue(r, make, out, err ? err : &ignored);
    if (!rc)
        lladd_atomic_store_ptr(&r->catalogue, *out);
    lladd_mutex_unlock(&r->create);
    return rc;
}

/* ---- rows of the catalogue ------------------------------------------------------------------- */

static void put_row(unsigned char row[ROW_BYTES], const struct lladd_region *r)
{
    lladd_put64(row, r->pages);
    lladd_put32(row + 8, r->kind);
    lladd_put32(row + 12, 0);
    lladd_put64(row + 16, r->tag);
}

static int get_row(struct lladd_db *db, lladd_pageno first, const unsigned char *row,
                   struct lladd_region *out, struct lladd_error *err)
{
    *out = (struct lladd_region){first, lladd_get64(row), lladd_get32(row + 8),
                                 lladd_get64(row + 16)};
    uint64_t all = lladd_page_count(db);
    if (out->pages && out->kind <= LLADD_EXTENT_RAW && lladd_get32(row + 12) == 0 &&
        first.v < all && out->pages <= all - first.v)
        return 0;
    return ll_operations__on(
        err, first,
        lladd_error_set(err, LLADD_CORRUPT_PAGE,
                        "invalid region of page %llu: expected a known kind and existing pages",
                        (unsigned long long)first.v));
}

static int no_region(lladd_pageno first, struct lladd_error *err)
{
    return ll_operations__on(err, first,
                             lladd_error_set(err, LLADD_NOT_FOUND, "page %llu begins no region",
                                             (unsigned long long)first.v));
}

/* Looks up the row of a region; *hash gets the catalogue. */
static int look(struct lladd_db *db, lladd_pageno first, struct lladd_hash **hash,
                struct lladd_region *out, struct lladd_error *err)
{
    unsigned char key[KEY_BYTES], row[ROW_BYTES];
    lladd_put64(key, first.v);
    int rc = catalogue(db, false, hash, err);
    if (!rc)
        rc = lladd_hash_get(*hash, key, sizeof key, row, sizeof row, NULL, err);
    if (rc)
        return rc == LLADD_NOT_FOUND ? no_region(first, err) : rc;
    return get_row(db, first, row, out, err);
}

/* Planted bug: writes the row in a transaction of its own. */
static int list_apart(struct lladd_db *db, struct lladd_hash *hash, const unsigned char *key,
                      const unsigned char *row, struct lladd_error *err)
{
    struct lladd_txn_options o = LLADD_TXN_OPTIONS_INIT;
    struct lladd_txn *txn;
    o.system = true;
    TRY(lladd_begin(db, &o, &txn, err));
    TRY(lladd_hash_put(txn, hash, key, KEY_BYTES, row, ROW_BYTES));
    return lladd_commit(txn);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static int create(struct lladd_txn *txn, struct lladd_hash *hash, struct lladd_region *r)
{
    unsigned char key[KEY_BYTES], row[ROW_BYTES];
    TRY(lladd_extent_alloc(txn, r->pages, r->kind, &r->first));
    lladd_put64(key, r->first.v);
    put_row(row, r);
    if (LLADD_PLANTED(LLADD_BUG_LISTED_APART))
        return list_apart(lladd_txn_db(txn), hash, key, row, lladd_txn_error_out(txn));
    return lladd_hash_put(txn, hash, key, sizeof key, row, sizeof row);
}

int lladd_region_create(struct lladd_txn *txn, uint64_t pages, unsigned kind, uint64_t tag,
                        lladd_pageno *first)
{
    LLADD_USE(txn);
    struct lladd_region r = {.pages = pages, .kind = kind, .tag = tag};
    struct lladd_hash *hash;
    lladd_savepoint_id before;
    if (kind > LLADD_EXTENT_RAW)
        return lladd_error_set(lladd_txn_error_out(txn), LLADD_BAD_ARGUMENT,
                               "a region is of kind 0, 1 or 2, not %u", kind);
    TRY(catalogue(lladd_txn_db(txn), true, &hash, lladd_txn_error_out(txn)));
    TRY(lladd_savepoint(txn, &before));
    int rc = ll_operations__step_end(txn, before, create(txn, hash, &r));
    if (!rc)
        *first = r.first;
    return rc;
}

static int destroy(struct lladd_txn *txn, struct lladd_hash *hash, const struct lladd_region *r)
{
    unsigned char key[KEY_BYTES];
    lladd_put64(key, r->first.v);
    int rc = lladd_hash_delete(txn, hash, key, sizeof key);
    return rc ? rc : lladd_extent_free(txn, r->first, r->pages);
}

int lladd_region_destroy(struct lladd_txn *txn, lladd_pageno first)
{
    LLADD_USE(txn);
    struct lladd_region r = {.pages = 0};
    struct lladd_hash *hash;
    lladd_savepoint_id before;
    TRY(look(lladd_txn_db(txn), first, &hash, &r, lladd_txn_error_out(txn)));
    TRY(lladd_savepoint(txn, &before));
    return ll_operations__step_end(txn, before, destroy(txn, hash, &r));
}

int lladd_region_get(struct lladd_db *db, lladd_pageno first, struct lladd_region *out,
                     struct lladd_error *err)
{
    struct lladd_hash *hash;
    return look(db, first, &hash, out, err);
}

int lladd_region_each(struct lladd_db *db, lladd_region_fn *fn, void *ctx, struct lladd_error *err)
{
    struct lladd_hash_cursor walk = {{0}, NULL, 0};
    struct lladd_span key, row;
    struct lladd_hash *hash;
    struct lladd_region r;
    int rc = catalogue(db, false, &hash, err);
    if (rc)
        return rc == LLADD_NOT_FOUND ? 0 : rc;
    while ((rc = lladd_hash_cursor_next(hash, &walk, &key, &row, err)) == 0) {
        rc = get_row(db, lladd_page_of(lladd_get64(key.data)), row.data, &r, err);
        if (!rc)
            rc = fn(ctx, &r);
        if (rc)
            break;
    }
    lladd_hash_cursor_close(hash, &walk);
    return rc == LLADD_END ? 0 : rc;
}

/* ---- the extension --------------------------------------------------------------------------- */

static int attach(void *ctx, struct lladd_db *db, void **state, struct lladd_error *err)
{
    (void)ctx;
    struct ll_regions *r = lladd_mem_alloc(db, sizeof *r);
    if (!r)
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory");
    *r = (struct ll_regions){.db = db};
    int rc = lladd_mutex_init(&r->create, LL_REGION_RANK_CREATE, "making the catalogue of regions");
    if (rc) {
        lladd_mem_free(db, r);
        return lladd_error_set(err, rc, "out of memory");
    }
    *state = r;
    return 0;
}

static void detach(void *ctx, struct lladd_db *db, void *state)
{
    (void)ctx;
    struct ll_regions *r = state;
    lladd_hash_close(r->catalogue);
    lladd_mutex_destroy(&r->create);
    lladd_mem_free(db, r);
}

const struct lladd_extension ll_operations__region_extension = {
    .struct_size = sizeof(struct lladd_extension),
    .name = "lladd.regions",
    .version = 1,
    .attach = attach,
    .detach = detach,
};
