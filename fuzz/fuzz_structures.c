/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Arrays, lists, hash tables and blobs on hostile pages. When the fuzzer starts, it makes a
 * database in memory that contains some of each, with chains of pages, keys in blobs, and index
 * pages. The input is a byte of flags, then changes of five bytes each: page, offset (two bytes),
 * action, value. The fuzzer corrects the pages' checksums afterwards, so only the structures' own
 * checks can detect the changes.
 *
 * Seven transactions use one structure each (REVERSED: in reverse order). A transaction reads,
 * checks and changes its structure; with DESTROY it also destroys the structure. Tables have
 * physical undo if PHYSICAL, and blobs are written past the log if BULK. Then the transaction
 * commits (COMMIT) or rolls back. There must be no crash, access out of bounds, leak or endless
 * loop. Each call must succeed or give a reason. No call may report a bug of the library, except as
 * said() allows.
 */
#include "buffer/buffer.h"
#include "limited_device.h"
#include "util/crc32c.h"

#include <errno.h>
#include <lladd/array.h>
#include <lladd/blob.h>
#include <lladd/bytes.h>
#include <lladd/hash.h>
#include <lladd/inspect.h>
#include <lladd/list.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

enum { COMMIT = 1, PHYSICAL = 2, DESTROY = 4, REVERSED = 8, BULK = 16 };
enum { CHANGE = 5, CHANGES_MAX = 32, PAGE = 4096, FILES_MAX = 16 };
enum { ELEMENTS = 4000, FIXED_KEYS = 900, VAR_KEYS = 120, ITEMS = 60, STEPS_MAX = 20000 };

static struct {
    struct file files[FILES_MAX];
    size_t n;
    uint32_t salt;
    lladd_pageno array, list, spliced, blob, sparse, fixed, var;
} base;

static unsigned char bytes_of[16 * PAGE];

/* ---- the environment ------------------------------------------------------------------------- */

/* A forged length must not take all memory. */
static void *alloc(void *ctx, size_t size)
{
    (void)ctx;
    return size > DEVICE_MAX ? NULL : malloc(size ? size : 1);
}

static void *resize(void *ctx, void *p, size_t size)
{
    (void)ctx;
    return size > DEVICE_MAX ? NULL : realloc(p, size ? size : 1);
}

static void release(void *ctx, void *p)
{
    (void)ctx;
    free(p);
}

static struct lladd_options options(struct lladd_device *dev)
{
    static const struct lladd_allocator limited = {NULL, alloc, resize, release};
    struct lladd_options o = LLADD_OPTIONS_INIT;
    o.flags = LLADD_OPT_NO_THREADS;
    o.page_size = PAGE;
    o.cache_bytes = 2u << 20;
    o.log_ring_bytes = 1u << 18;
    o.log_segment_min = 1u << 16;
    o.log_segment_max = 1u << 20;
    o.frames = LLADD_FRAMES_HEAP;
    o.redo_threads = 1;
    o.device = dev;
    o.world = &fuzz_world;
    o.allocator = &limited;
    return o;
}

/* ---- the database ---------------------------------------------------------------------------- */

static size_t var_key(unsigned i, unsigned char *out)
{
    size_t len = i % 17 == 3 ? 1000 + i : 4 + i % 5;
    memset(out, (int)i, len);
    lladd_put32(out, i);
    return len;
}

static size_t var_len(unsigned i)
{
    return i % 13 == 5 ? 1001 + 97 * (size_t)i : (size_t)i * 331 % 990;
}

static void fill_tables(struct lladd_db *db, struct lladd_txn *txn)
{
    struct lladd_hash_options o = LLADD_HASH_OPTIONS_INIT;
    struct lladd_hash *h;
    unsigned char key[2000];
    MUST(lladd_hash_create(txn, &o, &base.var) == 0);
    MUST(lladd_hash_open(db, base.var, LLADD_HASH_LOGICAL, &h, NULL) == 0);
    for (unsigned i = 0; i < VAR_KEYS; i++)
        MUST(lladd_hash_put(txn, h, key, var_key(i, key), bytes_of, var_len(i)) == 0);
    MUST(lladd_hash_delete(txn, h, key, var_key(7, key)) == 0);
    lladd_hash_close(h);
    o.key_size = 4;
    o.value_size = 12;
    MUST(lladd_hash_create(txn, &o, &base.fixed) == 0);
    MUST(lladd_hash_open(db, base.fixed, LLADD_HASH_LOGICAL, &h, NULL) == 0);
    for (uint32_t i = 0; i < FIXED_KEYS; i++)
        MUST(lladd_hash_put(txn, h, &i, 4, bytes_of, 12) == 0);
    lladd_hash_close(h);
}

static void fill_lists(struct lladd_db *db, struct lladd_txn *txn)
{
    struct lladd_list *to, *from;
    struct lladd_item item;
    MUST(lladd_list_create(txn, &base.list) == 0 && lladd_list_create(txn, &base.spliced) == 0);
    MUST(lladd_list_open(db, base.list, &to, NULL) == 0);
    MUST(lladd_list_open(db, base.spliced, &from, NULL) == 0);
    for (unsigned i = 0; i < ITEMS; i++) {
        MUST(lladd_list_append(txn, to, bytes_of, 7 * (size_t)i, &item) == 0);
        MUST(lladd_list_append(txn, from, bytes_of, 5 * (size_t)i, &item) == 0);
    }
    MUST(lladd_list_splice(txn, to, from) == 0);
    MUST(lladd_list_delete(txn, to, item) == 0);
    MUST(lladd_list_append(txn, from, "alone", 5, &item) == 0);
    lladd_list_close(from);
    lladd_list_close(to);
}

static void fill(struct lladd_db *db)
{
    struct lladd_txn *txn;
    struct lladd_array *a;
    uint64_t v = 5;
    MUST(lladd_begin(db, NULL, &txn, NULL) == 0);
    MUST(lladd_array_create(txn, 8, ELEMENTS, &base.array) == 0);
    MUST(lladd_array_open(db, base.array, &a, NULL) == 0);
    for (uint64_t i = 0; i < ELEMENTS; i += 300)
        MUST(lladd_array_set(txn, a, i, &v) == 0);
    lladd_array_close(a);
    fill_lists(db, txn);
    fill_tables(db, txn);
    MUST(lladd_blob_create(txn, bytes_of, sizeof bytes_of, &base.blob) == 0);
    /* A blob with a deep tree and few pages. */
    MUST(lladd_blob_create(txn, NULL, UINT64_C(1) << 34, &base.sparse) == 0);
    MUST(lladd_blob_write(txn, base.sparse, UINT64_C(1) << 33, bytes_of, 9000) == 0);
    MUST(lladd_commit(txn) == 0);
}

static int keep_file(void *ctx, const char *name, uint64_t bytes)
{
    struct lladd_device *dev = ctx;
    struct lladd_file *file;
    struct file *f = &base.files[base.n++];
    MUST(base.n <= FILES_MAX);
    (void)snprintf(f->name, sizeof f->name, "%s", name);
    f->len = (size_t)bytes;
    f->bytes = malloc(f->len + 1);
    MUST(f->bytes && ll_io_open(dev, name, LLADD_OPEN_READ_ONLY, &file) == 0);
    MUST(ll_io_read_full(dev, file, f->bytes, f->len, 0) == 0);
    MUST(ll_io_close(dev, file) == 0);
    return 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    struct lladd_device *dev;
    struct lladd_db *db;
    struct lladd_inspect *view;
    struct lladd_inspect_info info = {.struct_size = sizeof info};
    (void)argc;
    (void)argv;
    for (size_t i = 0; i < sizeof bytes_of; i++)
        bytes_of[i] = (unsigned char)(i % 251 + 1);
    MUST(lladd_device_memory(&dev) == 0);
    struct lladd_options o = options(dev);
    MUST(lladd_open(NULL, &o, &db, NULL) == 0);
    fill(db);
    MUST(lladd_close(db) == 0);
    MUST(lladd_inspect_open(NULL, &o, &view, NULL) == 0 &&
         lladd_inspect_info_get(view, &info) == 0);
    base.salt = ll_crc32c(0, info.uuid, 16);
    MUST(lladd_inspect_files(view, keep_file, dev, NULL) == 0);
    lladd_inspect_close(view);
    lladd_device_close(dev);
    return 0;
}

/* ---- changes --------------------------------------------------------------------------------- */

/* c[0] is the number of the page, modulo the number of pages. */
static void apply(struct file *f, const uint8_t *c)
{
    size_t pages = f->len / PAGE, at = c[1] | (size_t)(c[2] & 15) << 8;
    unsigned char *page = f->bytes + c[0] % pages * PAGE;
    if (c[2] & 64) /* only in the page header or the header of the page type */
        at = 4 + at % (LLADD_PAGE_HEADER + 96);
    at = at < 4 ? 4 : at;
    switch (c[3] % 8) {
    case 0:
        page[at] ^= (unsigned char)(1u << c[4] % 8);
        break;
    case 1:
        page[at] = c[4];
        break;
    case 2:
        memset(page + at, 0, PAGE - at < c[4] ? PAGE - at : c[4]);
        break;
    case 3:
        memset(page + at, 0xff, PAGE - at < c[4] % 16u ? PAGE - at : c[4] % 16u);
        break;
    case 4: /* copy another page, but keep the page number */
        memcpy(page, f->bytes + c[4] % pages * PAGE, 24);
        memcpy(page + 32, f->bytes + c[4] % pages * PAGE + 32, PAGE - 32);
        break;
    case 5: /* write a page number */
        if (at + 8 <= PAGE)
            lladd_put64(page + (at & ~(size_t)7), c[4] % (pages + 2));
        break;
    case 6:
        if (at + 6 <= PAGE)
            lladd_put48(page + at, c[4] % (pages + 2));
        break;
    case 7:
        if (at + 2 <= PAGE)
            lladd_put16(page + at, (uint16_t)(c[4] * 257u));
        break;
    }
}

static void change(struct file *pages, const uint8_t *data, size_t n)
{
    for (size_t i = 0; i < n && i < CHANGES_MAX; i++)
        apply(pages, data + i * CHANGE);
    for (size_t at = 0; at + PAGE <= pages->len; at += PAGE)
        lladd_put32(pages->bytes + at,
                    ll_page_crc(base.salt, lladd_page_of(at / PAGE), pages->bytes + at, PAGE));
}

/* ---- use ------------------------------------------------------------------------------------- */

struct use {
    struct lladd_db *db;
    struct lladd_txn *txn;
    struct lladd_error err;
    unsigned flags;
};

/* Checks a call's result: success, LLADD_END, or an error with a message. LLADD_BUG is allowed only
 * if the message names an operation. With LLADD_DEBUG, the library reports such a bug if an invalid
 * page refuses a change that the operation has prepared. */
static int said(int rc, const struct lladd_error *err)
{
    bool fine = rc == 0 || rc == LLADD_END || (rc == err->code && err->message[0]);
    if (rc == LLADD_BUG)
        fine = fine && strncmp(err->message, "operation \"", 11) == 0;
    if (!fine)
        (void)fprintf(stderr, "%d, %d: %s\n", rc, err->code, err->message);
    MUST(fine);
    return rc;
}

static int heard(struct use *u, int rc)
{
    return said(rc, &u->err);
}

static int did(struct use *u, int rc)
{
    return said(rc, lladd_txn_error(u->txn));
}

static int count_page(void *ctx, lladd_pageno page)
{
    (void)page;
    return ++*(uint64_t *)ctx > STEPS_MAX ? LLADD_END : 0;
}

static int sum_value(void *ctx, struct lladd_span value)
{
    const unsigned char *p = value.data;
    for (size_t i = 0; i < value.len; i++)
        *(unsigned *)ctx += p[i]; /* reads the bytes, so that a sanitizer checks them */
    return 0;
}

static void use_array(struct use *u)
{
    struct lladd_array *a;
    uint64_t n, pages = 0, v[64];
    if (heard(u, lladd_array_open(u->db, base.array, &a, &u->err)))
        return;
    (void)heard(u, lladd_array_length(a, &n, &u->err));
    for (uint64_t i = 0; i < ELEMENTS; i += 399)
        (void)heard(u, lladd_array_get(a, i, v, &u->err));
    (void)heard(u, lladd_array_get_range(a, 480, 64, v, &u->err));
    (void)heard(u, lladd_array_check(a, &u->err));
    (void)heard(u, lladd_array_pages(a, count_page, &pages, &u->err));
    (void)did(u, lladd_array_set(u->txn, a, ELEMENTS - 1, v));
    (void)did(u, lladd_array_set_range(u->txn, a, 490, 64, v));
    (void)did(u, lladd_array_shrink(u->txn, a, 3000));
    (void)did(u, lladd_array_extend(u->txn, a, 9000, NULL));
    (void)did(u, lladd_array_set(u->txn, a, 9999, v));
    lladd_array_close(a);
    if (u->flags & DESTROY)
        (void)did(u, lladd_array_destroy(u->txn, base.array));
}

static bool is_alone(void *ctx, struct lladd_span item)
{
    (void)sum_value(ctx, item);
    return item.len == 5 && memcmp(item.data, "alone", 5) == 0;
}

static void use_list(struct use *u, lladd_pageno root)
{
    struct lladd_list *l;
    struct lladd_item at = LLADD_ITEM_NONE, found, third = LLADD_ITEM_NONE;
    uint64_t n, pages = 0;
    unsigned sum = 0;
    size_t len;
    unsigned char buf[500];
    if (heard(u, lladd_list_open(u->db, root, &l, &u->err)))
        return;
    /* The loop has a limit: changed links may form a ring, which lladd_list_next does not
     * detect. */
    for (unsigned i = 0; i < 3 * ITEMS; i++) {
        if (heard(u, lladd_list_next(l, at, &at, buf, sizeof buf, &len, &u->err)))
            break;
        if (i == 3)
            third = at;
    }
    (void)heard(u, lladd_list_count(l, &n, &u->err));
    (void)heard(u, lladd_list_find(l, LLADD_ITEM_NONE, is_alone, &sum, &found, &u->err));
    (void)heard(u, lladd_list_check(l, &u->err));
    (void)heard(u, lladd_list_pages(l, count_page, &pages, &u->err));
    (void)did(u, lladd_list_write(u->txn, l, third, 2, "xyz", 3));
    (void)did(u, lladd_list_insert(u->txn, l, third, bytes_of, 300, &found));
    (void)did(u, lladd_list_delete(u->txn, l, third));
    (void)did(u, lladd_list_append(u->txn, l, bytes_of, 30, &found));
    lladd_list_close(l);
    if (u->flags & DESTROY)
        (void)did(u, lladd_list_destroy(u->txn, root));
}

static void use_blob(struct use *u, lladd_pageno root, uint64_t at)
{
    static unsigned char buf[5 * PAGE];
    uint64_t n, pages = 0;
    (void)heard(u, lladd_blob_length(u->db, root, &n, &u->err));
    (void)heard(u, lladd_blob_read(u->db, root, at, buf, sizeof buf, &n, &u->err));
    (void)heard(u, lladd_blob_read(u->db, root, 0, buf, 100, NULL, &u->err));
    (void)heard(u, lladd_blob_check(u->db, root, &u->err));
    (void)heard(u, lladd_blob_pages(u->db, root, count_page, &pages, &u->err));
    (void)did(u, lladd_blob_write(u->txn, root, at + 100, bytes_of, 2 * PAGE));
    (void)did(u, lladd_blob_append(u->txn, root, bytes_of, 100));
    (void)did(u, lladd_blob_truncate(u->txn, root, at + 50));
    (void)did(u, lladd_blob_replace(u->txn, root, bytes_of, 3 * PAGE));
    if (u->flags & DESTROY)
        (void)did(u, lladd_blob_destroy(u->txn, root));
}

static void walk_table(struct use *u, struct lladd_hash *h)
{
    struct lladd_hash_cursor w = {{0}, NULL, 0};
    struct lladd_span key, value;
    unsigned sum = 0;
    int rc = 0;
    for (unsigned steps = 0; !rc; steps++) {
        MUST(steps < STEPS_MAX);
        rc = heard(u, lladd_hash_cursor_next(h, &w, &key, &value, &u->err));
        if (!rc)
            MUST(sum_value(&sum, key) == 0 && sum_value(&sum, value) == 0);
    }
    lladd_hash_cursor_close(h, &w);
}

static void look_at_table(struct use *u, struct lladd_hash *h)
{
    struct lladd_hash_stats stats = {.struct_size = sizeof stats};
    uint64_t n, pages = 0;
    (void)heard(u, lladd_hash_count(h, &n, &u->err));
    (void)heard(u, lladd_hash_stats_get(h, &stats, &u->err));
    (void)heard(u, lladd_hash_pages(h, count_page, &pages, &u->err));
    (void)heard(u, lladd_hash_check(h, &u->err));
    walk_table(u, h);
}

static void use_fixed(struct use *u)
{
    struct lladd_hash *h;
    unsigned char got[16];
    size_t len;
    if (heard(u, lladd_hash_open(u->db, base.fixed, u->flags & PHYSICAL ? 1 : 0, &h, &u->err)))
        return;
    if (lladd_hash_key_size(h) == 4 && lladd_hash_value_size(h) == 12) {
        for (uint32_t i = 0; i < FIXED_KEYS; i += 7)
            (void)heard(u, lladd_hash_get(h, &i, 4, got, sizeof got, &len, &u->err));
        look_at_table(u, h);
        for (uint32_t i = FIXED_KEYS; i < FIXED_KEYS + 300; i++)
            (void)did(u, lladd_hash_insert(u->txn, h, &i, 4, bytes_of, 12));
        for (uint32_t i = 0; i < FIXED_KEYS + 300; i++)
            (void)did(u, lladd_hash_delete(u->txn, h, &i, 4));
    }
    lladd_hash_close(h);
    if (u->flags & DESTROY)
        (void)did(u, lladd_hash_destroy(u->txn, base.fixed));
}

static void use_var(struct use *u)
{
    struct lladd_hash *h;
    unsigned char key[2000], got[300];
    struct lladd_hash_query q[2] = {{"no", 2, got, 10, 0, 0}, {key, 4, got, 10, 0, 0}};
    unsigned sum = 0;
    size_t len;
    if (heard(u, lladd_hash_open(u->db, base.var, u->flags & PHYSICAL ? 1 : 0, &h, &u->err)))
        return;
    for (unsigned i = 0; i < VAR_KEYS; i++) {
        size_t n = var_key(i, key);
        int rc = i % 2 ? lladd_hash_get(h, key, n, got, sizeof got, &len, &u->err)
                       : lladd_hash_get_in_place(h, key, n, sum_value, &sum, &u->err);
        (void)heard(u, rc);
    }
    (void)heard(u, lladd_hash_get_many(h, q, 2, &u->err));
    look_at_table(u, h);
    for (unsigned i = 0; i < VAR_KEYS; i += 4) {
        size_t n = var_key(i, key);
        (void)did(u, lladd_hash_put(u->txn, h, key, n, bytes_of, var_len(i + 1)));
    }
    for (unsigned i = VAR_KEYS; i < VAR_KEYS + 20; i++)
        (void)did(u, lladd_hash_insert(u->txn, h, key, var_key(i, key), bytes_of, 800));
    for (unsigned i = 0; i < VAR_KEYS; i++)
        (void)did(u, lladd_hash_delete(u->txn, h, key, var_key(i, key)));
    lladd_hash_close(h);
    if (u->flags & DESTROY)
        (void)did(u, lladd_hash_destroy(u->txn, base.var));
}

static void use_one(struct use *u, unsigned which)
{
    switch (which) {
    case 0:
        use_array(u);
        break;
    case 1:
        use_list(u, base.list);
        break;
    case 2:
        use_list(u, base.spliced);
        break;
    case 3:
        use_blob(u, base.blob, 5000);
        break;
    case 4:
        use_blob(u, base.sparse, UINT64_C(1) << 33);
        break;
    case 5:
        use_fixed(u);
        break;
    default:
        use_var(u);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct file files[FILES_MAX];
    struct use u = {.err = LLADD_ERROR_INIT};
    if (size < 1)
        return 0;
    u.flags = data[0];
    for (size_t i = 0; i < base.n; i++) {
        files[i] = base.files[i];
        if (strcmp(files[i].name, "pages") != 0)
            continue;
        files[i].bytes = malloc(files[i].len + 1);
        MUST(files[i].bytes);
        memcpy(files[i].bytes, base.files[i].bytes, files[i].len);
        change(&files[i], data + 1, (size - 1) / CHANGE);
    }
    struct lladd_device *dev = limited_device(files, base.n);
    struct lladd_options o = options(dev);
    bool open = lladd_open(NULL, &o, &u.db, &u.err) == 0;
    if (open && (u.flags & BULK))
        lladd_blob_bulk_from(u.db, PAGE);
    for (unsigned i = 0; open && i < 7; i++) {
        if (heard(&u, lladd_begin(u.db, NULL, &u.txn, &u.err)))
            break;
        use_one(&u, u.flags & REVERSED ? 6 - i : i);
        if (!(u.flags & COMMIT) || lladd_commit(u.txn) != 0)
            (void)lladd_abort(u.txn); /* may fail, because it needs pages that are damaged */
    }
    if (open)
        (void)lladd_close(u.db); /* may fail, because it needs pages that are damaged */
    limited_device_close(dev);
    for (size_t i = 0; i < base.n; i++)
        if (files[i].bytes != base.files[i].bytes)
            free(files[i].bytes);
    return 0;
}
