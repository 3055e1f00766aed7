/* SPDX-License-Identifier: BSD-2-Clause */
#include "shop.h"

#include "calls.h"

#include <check.h>
#include <lladd/blob.h>
#include <lladd/btree.h>
#include <lladd/bulk.h>
#include <lladd/bytes.h>
#include <lladd/device.h>
#include <lladd/dtable.h>
#include <lladd/extension.h>
#include <lladd/inspect.h>
#include <lladd/pages.h>
#include <lladd/sync.h>
#include <lladd/twophase.h>
#include <stdlib.h>
#include <string.h>

enum { BLOB = 100000, RAW_PAGES = 5, ROWS = 300, PAGE = 4096 };

/* A row of the hash table: generation, root of the blob, first page of the raw extent, run. */
struct row {
    uint64_t gen, blob, raw, run;
};

static struct lladd_txn *begun(struct shop *s)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_txn *txn;
    OK(lladd_begin(s->db, NULL, &txn, &err));
    return txn;
}

static void make(struct shop *s)
{
    struct lladd_hash_options h = LLADD_HASH_OPTIONS_INIT;
    struct lladd_btree_options b = LLADD_BTREE_OPTIONS_INIT;
    lladd_pageno table, tree;
    h.key_size = 8;
    h.value_size = sizeof(struct row);
    b.key_size = 16;
    b.value_size = 8;
    struct lladd_txn *txn = begun(s);
    TXN(lladd_hash_create(txn, &h, &table));
    TXN(lladd_btree_create(txn, &b, &tree));
    TXN(lladd_root_set(txn, "table", (struct lladd_root_value){table.v, 0}));
    TXN(lladd_root_set(txn, "tree", (struct lladd_root_value){tree.v, 0}));
    ck_assert_int_eq(lladd_commit(txn), 0);
}

void shop_open(struct shop *s, struct lladd_device *dev, unsigned flags)
{
    shop_open_with(s, dev, flags, NULL);
}

void shop_open_with(struct shop *s, struct lladd_device *dev, unsigned flags,
                    const struct lladd_extension *extension)
{
    shop_open_as(s, dev, flags, extension, LLADD_RECOVER_FULL);
}

void shop_open_as(struct shop *s, struct lladd_device *dev, unsigned flags,
                  const struct lladd_extension *extension, enum lladd_recovery recovery)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_root_value root;
    *s = (struct shop){.options = LLADD_OPTIONS_INIT};
    s->options.device = dev;
    s->options.flags = flags;
    s->options.recovery = recovery;
    s->options.log_segment_min = s->options.log_segment_max = 1u << 16;
    s->options.cache_bytes = 2u << 20;
    s->options.checkpoint_bytes = 1u << 20;
    if (extension)
        OK(lladd_register_extension(&s->options, extension, &err));
    OK(lladd_open(NULL, &s->options, &s->db, &err));
    lladd_blob_bulk_from(s->db, 20000);
    if (lladd_root_get(s->db, "table", &root, &err) == LLADD_NOT_FOUND)
        make(s);
    OK(lladd_root_get(s->db, "table", &root, &err));
    OK(lladd_hash_open(s->db, lladd_page_of(root.a), LLADD_HASH_LOGICAL, &s->table, &err));
    OK(lladd_root_get(s->db, "tree", &root, &err));
    OK(lladd_btree_open(s->db, lladd_page_of(root.a), &s->tree, &err));
}

static void release(struct shop *s)
{
    lladd_hash_close(s->table);
    lladd_btree_close(s->tree);
}

void shop_close(struct shop *s)
{
    release(s);
    ck_assert_int_eq(lladd_close(s->db), 0);
    lladd_options_release(&s->options);
}

void shop_kill(struct shop *s)
{
    release(s);
    lladd_db_kill(s->db);
    lladd_options_release(&s->options);
}

/* ---- a generation --------------------------------------------------------------------------- */

static bool get_row(struct shop *s, uint64_t k, struct row *out)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    size_t len;
    *out = (struct row){0};
    int rc = lladd_hash_get(s->table, &k, sizeof k, out, sizeof *out, &len, &err);
    ck_assert_msg(rc == 0 || rc == LLADD_NOT_FOUND, "%s", err.message);
    return rc == 0;
}

static int make_run(struct lladd_txn *txn, uint64_t gen, uint64_t *out)
{
    struct lladd_dtable_run_options o = LLADD_DTABLE_RUN_OPTIONS_INIT;
    struct lladd_dtable_run_builder *run;
    lladd_pageno root = {0};
    o.type = LLADD_DTABLE_U64;
    int rc = lladd_dtable_run_begin(txn, &o, &run);
    if (rc)
        return rc;
    for (uint64_t i = 0; i < ROWS && !rc; i++) {
        struct lladd_dtable_key key = lladd_dtable_u64(i * (gen + 1));
        struct lladd_dtable_value value = lladd_dtable_value_of(&gen, sizeof gen);
        rc = lladd_dtable_run_add(run, &key, &value);
    }
    if (!rc)
        rc = lladd_dtable_run_finish(run, &root);
    if (rc)
        ck_assert_int_eq(lladd_dtable_run_discard(run), 0);
    *out = root.v;
    return rc;
}

/* Replaces what is written in bulk. LLADD_BUSY: a page that was allocated is still fixed by another
 * thread, so the transaction begins again. */
static int replace(struct lladd_txn *txn, bool there, struct row *row, const void *blob,
                   uint64_t blob_len, void *raw)
{
    lladd_pageno root = lladd_page_of(row->blob), first;
    int rc = there ? lladd_blob_replace(txn, root, blob, blob_len)
                   : lladd_blob_create(txn, blob, blob_len, &root);
    if (!rc && there)
        rc = lladd_extent_free(txn, lladd_page_of(row->raw), RAW_PAGES);
    if (!rc && there)
        rc = lladd_dtable_run_free(txn, lladd_page_of(row->run));
    if (!rc)
        rc = lladd_extent_alloc(txn, RAW_PAGES, LLADD_EXTENT_RAW, &first);
    if (rc)
        return rc;
    row->blob = root.v;
    row->raw = first.v;
    rc = lladd_bulk_write(txn, first, RAW_PAGES, NULL, raw);
    if (!rc)
        rc = lladd_bulk_sync(txn);
    return rc ? rc : make_run(txn, row->gen, &row->run);
}

static bool try_work(struct shop *s, unsigned k, unsigned char *blob, unsigned char *raw)
{
    struct row row;
    uint64_t key = k;
    unsigned char tree_key[16];
    bool there = get_row(s, key, &row);
    row.gen++;
    memset(blob, (int)(row.gen * 7 + k), BLOB);
    memset(raw, (int)(row.gen * 3 + k), (size_t)RAW_PAGES * PAGE);
    struct lladd_txn *txn = begun(s);
    int rc = replace(txn, there, &row, blob, BLOB - row.gen % 5000, raw);
    if (rc == LLADD_BUSY) {
        ck_assert_int_eq(lladd_abort(txn), 0);
        return false;
    }
    TXN(rc);
    lladd_put64(tree_key, k);
    lladd_put64(tree_key + 8, row.gen);
    TXN(lladd_btree_insert(txn, s->tree, tree_key, sizeof tree_key, &row.gen, 8));
    TXN(lladd_hash_put(txn, s->table, &key, sizeof key, &row, sizeof row));
    ck_assert_int_eq(lladd_commit(txn), 0);
    return true;
}

void shop_work(struct shop *s, unsigned k)
{
    unsigned char *blob = malloc(BLOB), *raw = malloc((size_t)RAW_PAGES * PAGE);
    ck_assert(blob && raw);
    while (!try_work(s, k, blob, raw))
        lladd_yield();
    free(blob);
    free(raw);
}

static struct lladd_gid gid_of(unsigned number)
{
    struct lladd_gid gid = {.format = 7, .gtrid_length = 4};
    lladd_put32(gid.data, number);
    return gid;
}

struct lladd_txn *shop_prepare(struct shop *s, unsigned number)
{
    struct row row = {.gen = 1};
    uint64_t key = number;
    struct lladd_gid gid = gid_of(number);
    struct lladd_txn *txn = begun(s);
    TXN(lladd_hash_put(txn, s->table, &key, sizeof key, &row, sizeof row));
    TXN(lladd_prepare(txn, &gid));
    return txn;
}

/* ---- checked -------------------------------------------------------------------------------- */

static void check_run(struct shop *s, const struct row *row)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_dtable *run;
    uint64_t gen;
    size_t len;
    OK(lladd_dtable_run_open(s->db, lladd_page_of(row->run), &run, &err));
    for (uint64_t i = 0; i < ROWS; i++) {
        struct lladd_dtable_key key = lladd_dtable_u64(i * (row->gen + 1));
        OK(lladd_dtable_get(run, &key, &gen, sizeof gen, &len, &err));
        ck_assert_uint_eq(gen, row->gen);
    }
    lladd_dtable_close(run);
}

static void check_worker(struct shop *s, unsigned k, const struct row *row)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    unsigned char *bytes = malloc(BLOB), tree_key[16];
    uint64_t len, value;
    size_t got;
    ck_assert_ptr_nonnull(bytes);
    OK(lladd_blob_check(s->db, lladd_page_of(row->blob), &err));
    OK(lladd_blob_length(s->db, lladd_page_of(row->blob), &len, &err));
    ck_assert_uint_eq(len, BLOB - row->gen % 5000);
    OK(lladd_blob_read(s->db, lladd_page_of(row->blob), 0, bytes, len, NULL, &err));
    for (uint64_t i = 0; i < len; i++)
        ck_assert_uint_eq(bytes[i], (unsigned char)(row->gen * 7 + k));
    OK(lladd_bulk_read(s->db, lladd_page_of(row->raw), RAW_PAGES, true, bytes, &err));
    for (uint64_t i = 0; i < (uint64_t)RAW_PAGES * PAGE; i++)
        ck_assert_uint_eq(bytes[i], (unsigned char)(row->gen * 3 + k));
    free(bytes);
    lladd_put64(tree_key, k);
    for (uint64_t gen = 1; gen <= row->gen + 1; gen++) {
        lladd_put64(tree_key + 8, gen);
        int rc = lladd_btree_get(s->tree, tree_key, sizeof tree_key, &value, 8, &got, &err);
        ck_assert_int_eq(rc, gen <= row->gen ? 0 : LLADD_NOT_FOUND);
    }
    check_run(s, row);
}

static int count_doubt(void *ctx, const struct lladd_in_doubt_info *info)
{
    unsigned *n = ctx;
    *n += info->gid.format == 7;
    return 0;
}

void shop_check(struct shop *s, unsigned doubt, uint64_t gen[SHOP_WORKERS])
{
    struct lladd_error err = LLADD_ERROR_INIT;
    unsigned found = 0;
    for (unsigned k = 0; k < SHOP_WORKERS; k++) {
        struct row row;
        if (get_row(s, k, &row))
            check_worker(s, k, &row);
        if (gen)
            gen[k] = row.gen;
    }
    OK(lladd_in_doubt_each(s->db, count_doubt, &found, &err));
    ck_assert_uint_eq(found, doubt);
}

void shop_resolve(struct shop *s, unsigned number)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_gid gid = gid_of(number);
    struct lladd_txn *txn;
    struct row row;
    OK(lladd_in_doubt_claim(s->db, &gid, &txn, &err));
    ck_assert_int_eq(lladd_commit(txn), 0);
    ck_assert(get_row(s, number, &row));
    ck_assert_uint_eq(row.gen, 1);
}

static int on_finding(void *ctx, const struct lladd_finding *f)
{
    (void)ctx;
    ck_assert_msg(f->kind != LLADD_FINDING_DAMAGE, "%s: %s", f->file, f->message);
    return 0;
}

void shop_verify(struct lladd_device *dev)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_options options = LLADD_OPTIONS_INIT;
    struct lladd_inspect *view;
    struct lladd_verified out = {.struct_size = sizeof out};
    options.device = dev;
    OK(lladd_inspect_open(NULL, &options, &view, &err));
    OK(lladd_inspect_verify(view, on_finding, NULL, &out, &err));
    ck_assert_uint_gt(out.pages, 10);
    lladd_inspect_close(view);
}
