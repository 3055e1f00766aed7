/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef FUZZ_BACKUP_STORE_H
#define FUZZ_BACKUP_STORE_H
/* A store in memory with one backup of a small database, for the fuzzers of a store's objects. It
 * is made once, and is the same in each process. A fuzzer gives one object other bytes, and takes
 * them back. */
#include "fuzz.h"

#include <lladd/bytes.h>
#include <lladd/pages.h>
#include <lladd/records.h>
#include <lladd/ship.h>

struct object {
    char name[160];
    unsigned char *bytes;
    size_t len;
};

struct backup_store {
    struct lladd_store face; /* must be first */
    struct object *objects;
    size_t n;
};

static inline struct object *object_named(struct backup_store *s, const char *name)
{
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->objects[i].name, name) == 0)
            return &s->objects[i];
    return NULL;
}

/* The object that has a name with this end. */
static inline struct object *object_of(struct backup_store *s, const char *end)
{
    for (size_t i = 0; i < s->n; i++) {
        size_t len = strlen(s->objects[i].name), tail = strlen(end);
        if (len >= tail && strcmp(s->objects[i].name + len - tail, end) == 0)
            return &s->objects[i];
    }
    return NULL;
}

static inline int backup_put(struct lladd_store *store, const char *name,
                             const struct lladd_iovec *pieces, int n, struct lladd_error *err)
{
    struct backup_store *s = (struct backup_store *)store;
    if (object_named(s, name))
        return lladd_error_set(err, LLADD_EXISTS, "%s exists", name);
    struct object *more = realloc(s->objects, (s->n + 1) * sizeof *more);
    MUST(more && strlen(name) < sizeof more->name);
    s->objects = more;
    struct object *o = &s->objects[s->n++];
    *o = (struct object){.len = 0};
    memcpy(o->name, name, strlen(name) + 1);
    for (int i = 0; i < n; i++)
        o->len += pieces[i].len;
    MUST((o->bytes = malloc(o->len + 1)) != NULL);
    size_t at = 0;
    for (int i = 0; i < n; at += pieces[i++].len)
        if (pieces[i].len)
            memcpy(o->bytes + at, pieces[i].data, pieces[i].len);
    return 0;
}

static inline int backup_get(struct lladd_store *store, const char *name, uint64_t offset,
                             void *bytes, size_t len, struct lladd_error *err)
{
    const struct object *o = object_named((struct backup_store *)store, name);
    if (!o)
        return lladd_error_set(err, LLADD_NOT_FOUND, "no %s", name);
    if (offset > o->len || len > o->len - offset)
        return lladd_error_set(err, LLADD_CORRUPT_BACKUP, "%s is too short", name);
    if (len)
        memcpy(bytes, o->bytes + offset, len);
    return 0;
}

static inline int backup_list(struct lladd_store *store, const char *prefix,
                              lladd_store_list_fn *fn, void *ctx, struct lladd_error *err)
{
    const struct backup_store *s = (struct backup_store *)store;
    int rc = 0;
    (void)err;
    for (size_t i = 0; i < s->n && !rc; i++)
        if (strncmp(s->objects[i].name, prefix, strlen(prefix)) == 0)
            rc = fn(ctx, s->objects[i].name, s->objects[i].len);
    return rc;
}

static inline int backup_remove(struct lladd_store *store, const char *name,
                                struct lladd_error *err)
{
    (void)store, (void)name, (void)err;
    abort(); /* a backup that succeeds removes nothing, and a reader never does */
}

static inline void backup_close(struct lladd_store *store)
{
    (void)store;
}

static inline uint64_t backup_now(void *ctx)
{
    (void)ctx;
    return 1;
}

static inline int64_t backup_wall(void *ctx)
{
    (void)ctx;
    return 1764000000000000;
}

static inline int backup_random(void *ctx, void *buf, size_t len)
{
    (void)ctx;
    memset(buf, 0x42, len);
    return 0;
}

/* Writes pages with numbers, so that frames differ and compress. */
static inline void backup_fill(struct lladd_db *db)
{
    enum { PAGES = 40, WORDS = 300 };
    struct lladd_txn *txn;
    lladd_pageno first;
    MUST(lladd_begin(db, NULL, &txn, NULL) == 0);
    MUST(lladd_extent_alloc(txn, PAGES, LLADD_EXTENT_PAGED, &first) == 0);
    for (uint32_t p = 0; p < PAGES; p++) {
        unsigned char words[4 * WORDS];
        for (uint32_t i = 0; i < WORDS; i++)
            lladd_put32(words + 4 * i, p * 1000 + i);
        lladd_pageno page = lladd_page_of(first.v + p);
        MUST(lladd_bytes_format(txn, page) == 0);
        MUST(lladd_bytes_set(txn, page, 0, words, sizeof words) == 0);
    }
    MUST(lladd_commit(txn) == 0);
}

static inline const struct lladd_store_ops *backup_ops(void)
{
    static const struct lladd_store_ops ops = {.struct_size = sizeof ops,
                                               .put = backup_put,
                                               .get = backup_get,
                                               .list = backup_list,
                                               .remove = backup_remove,
                                               .close = backup_close};
    return &ops;
}

static inline const struct lladd_environment *backup_world(void)
{
    static const struct lladd_environment world = {
        .now_ns = backup_now, .wall_us = backup_wall, .random = backup_random};
    return &world;
}

static inline struct backup_store *backup_store(void)
{
    static struct backup_store store;
    struct lladd_options o = LLADD_OPTIONS_INIT;
    struct lladd_backup_options b = LLADD_BACKUP_OPTIONS_INIT;
    struct lladd_device *dev;
    struct lladd_db *db;
    if (store.n)
        return &store;
    store.face.ops = backup_ops();
    MUST(lladd_device_memory(&dev) == 0);
    o.device = dev;
    o.flags = LLADD_OPT_NO_THREADS;
    o.world = b.world = backup_world();
    o.log_segment_min = o.log_segment_max = 16 << 10;
    b.label = "fuzz";
    MUST(lladd_open(NULL, &o, &db, NULL) == 0);
    backup_fill(db);
    MUST(lladd_backup(db, &store.face, &b, NULL, NULL) == 0);
    MUST(lladd_close(db) == 0);
    lladd_device_close(dev);
    return &store;
}

/* Opens the backup, and reads its files. Only the first and the last bytes of a file are read, for
 * a forged size may be large. Returns the code of lladd_store_device. */
static inline int backup_read(struct backup_store *s)
{
    enum { SOME = 1 << 20 };
    static const char *const names[] = {"control", "pages", "dwb"};
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_device *dev;
    unsigned char *bytes = malloc(SOME);
    MUST(bytes);
    int rc = lladd_store_device(&s->face, NULL, &dev, &err);
    MUST(rc == err.code && (!rc || err.message[0]));
    for (unsigned i = 0; !rc && i < sizeof names / sizeof *names; i++) {
        struct lladd_file *file;
        uint64_t size;
        MUST(dev->ops->open(dev, names[i], LLADD_OPEN_READ_ONLY, &file) == 0);
        MUST(dev->ops->size(dev, file, &size) == 0);
        uint64_t last = size > SOME ? size - SOME : 0;
        for (unsigned k = 0; k < 2; k++) {
            int64_t got = dev->ops->pread(dev, file, bytes, SOME, k ? last : 0);
            MUST(got < 0 || got == (int64_t)(size < SOME ? size : SOME));
            MUST(got >= 0 || lladd_store_device_error(dev, &err));
        }
        MUST(dev->ops->close(dev, file) == 0);
    }
    free(bytes);
    if (!rc)
        lladd_store_device_close(dev);
    return rc;
}

#endif
