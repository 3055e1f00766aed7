/* SPDX-License-Identifier: BSD-2-Clause */
/* See bench.h. */
#include "bench.h"

#include <check.h>
#include <lladd/bytes.h>
#include <lladd/device.h>
#include <lladd/records.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lladd_device *bench_make(enum made_kind kind, struct made *m)
{
    struct lladd_device *dev;
    struct lladd_error err = LLADD_ERROR_INIT;
    ck_assert_int_eq(lladd_device_memory(&dev), 0);
    int rc = made_make(NULL, dev, kind, m, &err);
    ck_assert_msg(rc == 0, "%s (%s:%d)", err.message, err.source, err.line);
    return dev;
}

/* ---- files ---------------------------------------------------------------------------------- */

struct copier {
    struct lladd_device *dev;
    struct image *image;
    const char *dir;
};

static int copy_file(void *ctx, const char *name)
{
    struct copier *c = ctx;
    const struct lladd_device_ops *ops = c->dev->ops;
    struct lladd_file *f;
    char path[300];
    snprintf(path, sizeof path, "%s%s%s", c->dir, *c->dir ? "/" : "", name);
    if (strcmp(path, "log") == 0) {
        struct copier inner = {c->dev, c->image, path};
        return ops->list(c->dev, path, copy_file, &inner);
    }
    uint64_t size;
    ck_assert_int_eq(ops->open(c->dev, path, LLADD_OPEN_READ_ONLY, &f), 0);
    ck_assert_int_eq(ops->size(c->dev, f, &size), 0);
    struct image *im = c->image;
    im->files = realloc(im->files, (im->n + 1) * sizeof *im->files);
    ck_assert_ptr_nonnull(im->files);
    struct image_file *out = &im->files[im->n++];
    out->name = strdup(path);
    out->len = (size_t)size;
    out->bytes = malloc(out->len ? out->len : 1);
    ck_assert(out->name && out->bytes);
    ck_assert_int_eq(ops->pread(c->dev, f, out->bytes, out->len, 0), (int64_t)size);
    ck_assert_int_eq(ops->close(c->dev, f), 0);
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct image_file *)a)->name, ((const struct image_file *)b)->name);
}

struct image bench_copy(struct lladd_device *dev)
{
    struct image im = {NULL, 0};
    struct copier c = {dev, &im, ""};
    ck_assert_int_eq(dev->ops->list(dev, "", copy_file, &c), 0);
    ck_assert_uint_gt(im.n, 0);
    qsort(im.files, im.n, sizeof *im.files, by_name);
    return im;
}

void bench_free(struct image *im)
{
    for (size_t i = 0; i < im->n; i++) {
        free(im->files[i].name);
        free(im->files[i].bytes);
    }
    free(im->files);
    im->n = 0;
}

bool bench_same(const struct image *a, const struct image *b)
{
    bool same = a->n == b->n;
    for (size_t i = 0; same && i < a->n; i++)
        same = strcmp(a->files[i].name, b->files[i].name) == 0 &&
               a->files[i].len == b->files[i].len &&
               memcmp(a->files[i].bytes, b->files[i].bytes, a->files[i].len) == 0;
    return same;
}

struct image_file *bench_file(struct image *im, const char *name)
{
    for (size_t i = 0; i < im->n; i++)
        if (strcmp(im->files[i].name, name) == 0)
            return &im->files[i];
    ck_abort_msg("no file \"%s\"", name);
    return NULL;
}

struct lladd_device *bench_device(const struct image *im)
{
    struct lladd_device *dev;
    ck_assert_int_eq(lladd_device_memory(&dev), 0);
    ck_assert_int_eq(dev->ops->mkdir(dev, "log"), 0);
    for (size_t i = 0; i < im->n; i++) {
        struct lladd_file *f;
        struct lladd_iovec piece = {im->files[i].bytes, im->files[i].len};
        ck_assert_int_eq(dev->ops->open(dev, im->files[i].name, LLADD_OPEN_CREATE, &f), 0);
        ck_assert_int_eq(dev->ops->pwritev(dev, f, &piece, 1, 0), 0);
        ck_assert_int_eq(dev->ops->close(dev, f), 0);
    }
    return dev;
}

void bench_write(struct lladd_device *dev, const char *name, uint64_t at, const void *bytes,
                 size_t len)
{
    struct lladd_iovec piece = {bytes, len};
    struct lladd_file *f;
    ck_assert_int_eq(dev->ops->open(dev, name, 0, &f), 0);
    ck_assert_int_eq(dev->ops->pwritev(dev, f, &piece, 1, at), 0);
    ck_assert_int_eq(dev->ops->close(dev, f), 0);
}

void bench_read(struct lladd_device *dev, const char *name, uint64_t at, void *bytes, size_t len)
{
    struct lladd_file *f;
    ck_assert_int_eq(dev->ops->open(dev, name, LLADD_OPEN_READ_ONLY, &f), 0);
    ck_assert_int_eq(dev->ops->pread(dev, f, bytes, len, at), (int64_t)len);
    ck_assert_int_eq(dev->ops->close(dev, f), 0);
}

void bench_flip(struct lladd_device *dev, const char *name, uint64_t at, unsigned char mask)
{
    unsigned char byte;
    bench_read(dev, name, at, &byte, 1);
    byte ^= mask;
    bench_write(dev, name, at, &byte, 1);
}

void bench_truncate(struct lladd_device *dev, const char *name, uint64_t size)
{
    struct lladd_file *f;
    ck_assert_int_eq(dev->ops->open(dev, name, 0, &f), 0);
    ck_assert_int_eq(dev->ops->truncate(dev, f, size), 0);
    ck_assert_int_eq(dev->ops->close(dev, f), 0);
}

/* ---- inspecting ----------------------------------------------------------------------------- */

struct lladd_inspect *bench_look(struct lladd_device *dev, bool known)
{
    struct lladd_options with = made_options(dev), without = LLADD_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_inspect *v;
    without.device = dev;
    int rc = lladd_inspect_open(NULL, known ? &with : &without, &v, &err);
    lladd_options_release(&with);
    ck_assert_msg(rc == 0, "%s", err.message);
    return v;
}

struct lladd_inspect_info bench_info(const struct lladd_inspect *v)
{
    struct lladd_inspect_info i = {.struct_size = sizeof i};
    ck_assert_int_eq(lladd_inspect_info_get(v, &i), 0);
    return i;
}

int bench_ignore(void *ctx, const struct lladd_inspect_record *r)
{
    (void)ctx;
    (void)r;
    return 0;
}

void bench_commits(struct lladd_db *db, lladd_pageno page, unsigned txns)
{
    struct lladd_txn *txn;
    unsigned char bytes[256];
    for (unsigned i = 0; i < txns; i++) {
        memset(bytes, (int)i, sizeof bytes);
        ck_assert_int_eq(lladd_begin(db, NULL, &txn, NULL), 0);
        ck_assert_int_eq(lladd_bytes_set(txn, page, 256, bytes, sizeof bytes), 0);
        ck_assert_int_eq(lladd_commit(txn), 0);
    }
}

static int gather(void *ctx, const struct lladd_finding *f)
{
    struct findings *all = ctx;
    if (all->n < FINDINGS_MAX) {
        all->at[all->n].kind = f->kind;
        all->at[all->n].code = f->code;
        all->at[all->n].offset = f->offset;
        all->at[all->n].lsn = f->lsn.v;
        all->at[all->n].page = f->page.v;
        snprintf(all->at[all->n].file, sizeof all->at[0].file, "%s", f->file);
        snprintf(all->at[all->n].message, sizeof all->at[0].message, "%s", f->message);
    }
    all->n++;
    return 0;
}

int bench_verify(struct lladd_inspect *v, struct findings *out)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    memset(out, 0, sizeof *out);
    out->count.struct_size = sizeof out->count;
    return lladd_inspect_verify(v, gather, out, &out->count, &err);
}

size_t bench_find(const struct findings *f, enum lladd_finding_kind kind, const char *file)
{
    for (size_t i = 0; i < f->n && i < FINDINGS_MAX; i++)
        if (f->at[i].kind == kind && strcmp(f->at[i].file, file) == 0)
            return i;
    return SIZE_MAX;
}

void bench_no_page_accused(const struct findings *f)
{
    for (size_t i = 0; i < f->n && i < FINDINGS_MAX; i++)
        ck_assert_msg(f->at[i].kind != LLADD_FINDING_DAMAGE ||
                          !strstr(f->at[i].message, "is not of the page type that page"),
                      "%s", f->at[i].message);
}

struct findings bench_verify_files(struct lladd_device *dev)
{
    struct lladd_inspect *v = bench_look(dev, false);
    struct findings f;
    ck_assert_int_eq(bench_verify(v, &f), 0);
    lladd_inspect_close(v);
    return f;
}

void bench_change(struct lladd_db *db, lladd_pageno page, const char *text)
{
    struct lladd_txn *txn;
    ck_assert_int_eq(lladd_begin(db, NULL, &txn, NULL), 0);
    ck_assert_int_eq(lladd_bytes_set(txn, page, 300, text, strlen(text)), 0);
    ck_assert_int_eq(lladd_commit(txn), 0);
}

int bench_swallow(void *ctx, const void *bytes, size_t len)
{
    (void)bytes;
    *(size_t *)ctx += len;
    return 0;
}

int bench_describe(void *ctx, const struct lladd_inspect_record *r)
{
    struct bench_description *d = ctx;
    struct lladd_sink sink = {.ctx = &d->text, .write = bench_swallow};
    lladd_inspect_describe(d->v, r, &sink);
    return sink.failed;
}
