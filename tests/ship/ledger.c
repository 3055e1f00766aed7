/* SPDX-License-Identifier: BSD-2-Clause */
#include "ledger.h"

#include "calls.h"

#include <check.h>
#include <errno.h>
#include <lladd/bulk.h>
#include <lladd/extension.h>
#include <lladd/hash.h>
#include <lladd/pages.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ledger_init(struct ledger *l, struct lladd_device *dev, struct lladd_store *store,
                 uint64_t segment)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_archive_options archive = l->archive_options;
    *l = (struct ledger){.options = LLADD_OPTIONS_INIT, .archive_options = archive};
    if (!archive.struct_size)
        l->archive_options = (struct lladd_archive_options)LLADD_ARCHIVE_OPTIONS_INIT;
    l->options.device = dev;
    l->options.flags = archive.thread ? 0 : LLADD_OPT_NO_THREADS;
    l->options.log_segment_min = l->options.log_segment_max = segment;
    l->options.cache_bytes = 1u << 20;
    l->options.checkpoint_bytes = 1u << 20;
    OK(lladd_ship_register(&l->options, store, &l->archive_options, &l->archive, &err));
}

static void make(struct ledger *l)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_hash_options h = LLADD_HASH_OPTIONS_INIT;
    struct lladd_txn *txn;
    lladd_pageno table;
    h.key_size = 8;
    h.value_size = 8;
    OK(lladd_begin(l->db, NULL, &txn, &err));
    OK(lladd_hash_create(txn, &h, &table));
    OK(lladd_root_set(txn, "table", (struct lladd_root_value){table.v, 0}));
    OK(lladd_commit(txn));
}

void ledger_open(struct ledger *l)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_root_value root;
    l->n = 0;
    OK(lladd_open(NULL, &l->options, &l->db, &err));
    if (lladd_root_get(l->db, "table", &root, &err) == LLADD_NOT_FOUND)
        make(l);
}

static void release(struct ledger *l)
{
    l->db = NULL;
    lladd_options_release(&l->options);
    lladd_archive_free(l->archive);
    l->archive = NULL;
}

void ledger_close(struct ledger *l)
{
    ck_assert_int_eq(lladd_close(l->db), 0);
    release(l);
}

void ledger_kill(struct ledger *l)
{
    lladd_db_kill(l->db);
    release(l);
}

static int put(struct ledger *l, struct lladd_txn *txn)
{
    struct lladd_hash *table;
    struct lladd_root_value root;
    struct lladd_error err = LLADD_ERROR_INIT;
    OK(lladd_root_get(l->db, "table", &root, &err));
    OK(lladd_hash_open(l->db, lladd_page_of(root.a), LLADD_HASH_LOGICAL, &table, &err));
    int rc = 0;
    for (uint64_t i = 0; i < 8 && !rc; i++) {
        uint64_t key = (l->n * 7 + i * 31) % 2000;
        rc = lladd_hash_put(txn, table, &key, sizeof key, &l->n, sizeof l->n);
    }
    lladd_hash_close(table);
    return rc;
}

int ledger_try(struct ledger *l, size_t bytes)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_txn *txn;
    unsigned char *note = malloc(bytes + 1);
    ck_assert_ptr_nonnull(note);
    memset(note, (int)l->n + 1, bytes + 1);
    int rc = lladd_begin(l->db, NULL, &txn, &err);
    if (!rc) {
        rc = put(l, txn);
        if (!rc)
            rc = lladd_log_note(txn, "test.note", lladd_span_of(note, bytes), NULL);
        int end = rc ? lladd_abort(txn) : lladd_commit(txn);
        if (!rc && end && lladd_code_root(end) != LLADD_ROOT_POISONED)
            ck_assert_int_eq(lladd_abort(txn), 0);
        rc = rc ? rc : end;
    }
    free(note);
    l->n += rc == 0;
    return rc;
}

void ledger_write(struct ledger *l, size_t bytes)
{
    ck_assert_int_eq(ledger_try(l, bytes), 0);
}

void ledger_bulk(struct ledger *l)
{
    enum { PAGES = 4 };
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_txn *txn;
    lladd_pageno first;
    size_t size = (size_t)PAGES * lladd_page_size(l->db);
    void *bytes = calloc(1, size);
    ck_assert_ptr_nonnull(bytes);
    OK(lladd_begin(l->db, NULL, &txn, &err));
    OK(lladd_extent_alloc(txn, PAGES, LLADD_EXTENT_RAW, &first));
    OK(lladd_bulk_write(txn, first, PAGES, NULL, bytes));
    OK(lladd_bulk_sync(txn));
    OK(lladd_commit(txn));
    free(bytes);
}

void ledger_archive(struct ledger *l)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    bool more = true;
    while (more)
        OK(lladd_archive_step(l->archive, &more, &err));
}

struct lladd_archive_status ledger_status(struct ledger *l)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_archive_status s = {.struct_size = sizeof s};
    OK(lladd_archive_status_get(l->archive, &s, &err));
    return s;
}

/* ---- copied --------------------------------------------------------------------------------- */

struct copying {
    struct lladd_device *from, *to;
    const char *dir;
};

static void copy_file(struct lladd_device *from, struct lladd_device *to, const char *name)
{
    struct lladd_file *in, *out;
    uint64_t size;
    ck_assert_int_eq(from->ops->open(from, name, LLADD_OPEN_READ_ONLY, &in), 0);
    ck_assert_int_eq(from->ops->size(from, in, &size), 0);
    ck_assert_int_eq(to->ops->open(to, name, LLADD_OPEN_CREATE, &out), 0);
    unsigned char *bytes = malloc(size + 1);
    ck_assert_ptr_nonnull(bytes);
    ck_assert_int_eq(from->ops->pread(from, in, bytes, size, 0), (int64_t)size);
    struct lladd_iovec piece = {bytes, size};
    if (size)
        ck_assert_int_eq(to->ops->pwritev(to, out, &piece, 1, 0), 0);
    free(bytes);
    ck_assert_int_eq(from->ops->close(from, in), 0);
    ck_assert_int_eq(to->ops->close(to, out), 0);
}

static int see(void *ctx, const char *name)
{
    struct copying *c = ctx;
    static const char *const dirs[] = {"log", "files", "files/ship"};
    char path[200];
    (void)snprintf(path, sizeof path, "%s%s%s", c->dir, *c->dir ? "/" : "", name);
    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++)
        if (strcmp(path, dirs[i]) == 0) {
            struct copying below = {c->from, c->to, dirs[i]};
            ck_assert_int_eq(c->to->ops->mkdir(c->to, path), 0);
            return c->from->ops->list(c->from, path, see, &below);
        }
    if (strcmp(path, "lock") != 0)
        copy_file(c->from, c->to, path);
    return 0;
}

void ledger_copy(struct lladd_device *from, struct lladd_device *to)
{
    struct copying c = {from, to, ""};
    ck_assert_int_eq(from->ops->list(from, "", see, &c), 0);
}
