/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory_store.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct memory_store *of(struct lladd_store *s)
{
    return (struct memory_store *)s;
}

/* Does this call fail? */
static bool fails(struct memory_store *m)
{
    m->calls++;
    bool now = m->fail_at && (m->calls == m->fail_at || (m->fail_on && m->calls > m->fail_at));
    m->fired += now;
    return now;
}

static int failed(struct lladd_error *err)
{
    return lladd_error_set(err, LLADD_STORE_FAILED, "the store was told to fail");
}

static struct memory_object *named(struct memory_store *m, const char *name)
{
    for (size_t i = 0; i < m->n; i++)
        if (strcmp(m->objects[i].name, name) == 0)
            return &m->objects[i];
    return NULL;
}

static int put(struct lladd_store *s, const char *name, const struct lladd_iovec *pieces, int n,
               struct lladd_error *err)
{
    struct memory_store *m = of(s);
    bool fail = fails(m);
    if (fail && !m->lost)
        return failed(err);
    if (named(m, name))
        return fail ? failed(err) : lladd_error_set(err, LLADD_EXISTS, "\"%s\" is taken", name);
    m->objects = realloc(m->objects, (m->n + 1) * sizeof *m->objects);
    ck_assert_ptr_nonnull(m->objects);
    struct memory_object *o = &m->objects[m->n++];
    *o = (struct memory_object){.len = 0};
    ck_assert_uint_lt(strlen(name), sizeof o->name);
    memcpy(o->name, name, strlen(name) + 1);
    for (int i = 0; i < n; i++)
        o->len += pieces[i].len;
    o->bytes = malloc(o->len + 1);
    ck_assert_ptr_nonnull(o->bytes);
    size_t at = 0;
    for (int i = 0; i < n; at += pieces[i++].len)
        if (pieces[i].len)
            memcpy(o->bytes + at, pieces[i].data, pieces[i].len);
    return fail ? failed(err) : 0;
}

static int get(struct lladd_store *s, const char *name, uint64_t offset, void *bytes, size_t len,
               struct lladd_error *err)
{
    struct memory_store *m = of(s);
    if (fails(m))
        return failed(err);
    const struct memory_object *o = named(m, name);
    if (!o)
        return lladd_error_set(err, LLADD_NOT_FOUND, "no \"%s\"", name);
    if (offset > o->len || len > o->len - offset)
        return lladd_error_set(err, LLADD_CORRUPT_BACKUP, "\"%s\" is too short", name);
    if (len)
        memcpy(bytes, o->bytes + offset, len);
    return 0;
}

static int list(struct lladd_store *s, const char *prefix, lladd_store_list_fn *fn, void *ctx,
                struct lladd_error *err)
{
    struct memory_store *m = of(s);
    int rc = 0;
    if (fails(m))
        return failed(err);
    for (size_t i = 0; i < m->n && !rc; i++)
        if (strncmp(m->objects[i].name, prefix, strlen(prefix)) == 0)
            rc = fn(ctx, m->objects[i].name, m->objects[i].len);
    return rc;
}

static int removed(struct lladd_store *s, const char *name, struct lladd_error *err)
{
    struct memory_store *m = of(s);
    bool fail = fails(m);
    struct memory_object *o = named(m, name);
    if (fail && !m->lost)
        return failed(err);
    if (o)
        memory_store_drop(m, o);
    return fail ? failed(err) : o ? 0 : lladd_error_set(err, LLADD_NOT_FOUND, "no \"%s\"", name);
}

static void closed(struct lladd_store *s)
{
    (void)s;
}

static const struct lladd_store_ops ops = {.struct_size = sizeof ops,
                                           .put = put,
                                           .get = get,
                                           .list = list,
                                           .remove = removed,
                                           .close = closed};

void memory_store_init(struct memory_store *m)
{
    *m = (struct memory_store){.base = {&ops}};
}

void memory_store_free(struct memory_store *m)
{
    for (size_t i = 0; i < m->n; i++)
        free(m->objects[i].bytes);
    free(m->objects);
    m->objects = NULL;
    m->n = 0;
}

void memory_store_copy(struct memory_store *m, const struct memory_store *from)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    memory_store_init(m);
    for (size_t i = 0; i < from->n; i++) {
        struct lladd_iovec piece = {from->objects[i].bytes, from->objects[i].len};
        ck_assert_int_eq(put(&m->base, from->objects[i].name, &piece, 1, &err), 0);
    }
    m->calls = 0;
}

struct memory_object *memory_store_find(struct memory_store *m, const char *part)
{
    for (size_t i = 0; i < m->n; i++)
        if (strstr(m->objects[i].name, part))
            return &m->objects[i];
    return NULL;
}

void memory_store_drop(struct memory_store *m, struct memory_object *o)
{
    free(o->bytes);
    *o = m->objects[--m->n];
}
