/* SPDX-License-Identifier: BSD-2-Clause */
/* See crash_model.h. */
#include "support/crash_model.h"

#include "support/fixtures.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SECTOR = 512 }; /* no disk tears a unit of this size */

struct buffer {
    unsigned char *data;
    size_t size;
    size_t capacity;
};

struct model_file {
    size_t refs; /* number of references: from names in either table, from pending operations and
                  * from open files */
    size_t live; /* number of references: from names that the program sees and from open files */
    uint64_t size;
    struct buffer durable;
};

/* A name and its file; NULL for a directory. */
struct binding {
    char *name;
    struct model_file *file;
};

struct table {
    struct binding *at;
    size_t count;
    size_t capacity;
};

enum kind { WRITE, TRUNCATE, CREATE, MKDIR, RENAME, UNLINK };

struct op {
    enum kind kind;
    bool lost;               /* a sync of this operation has failed, so no later sync makes it
                              * durable */
    struct model_file *file; /* WRITE, TRUNCATE, CREATE, RENAME */
    uint64_t off;            /* WRITE; TRUNCATE: the new size */
    size_t len;
    unsigned char *data;
    char *name; /* CREATE, MKDIR, UNLINK; RENAME: the new name */
    char *from; /* RENAME */
};

struct crash_model {
    struct table now;
    struct table durable;
    struct op *pending;
    size_t pending_count;
    size_t pending_capacity;
    uint64_t bytes;
};

/* ---- helpers --------- */

void model_fatal(const char *what, const char *name, int64_t rc)
{
    (void)fprintf(stderr, "fault_device: %s \"%s\": %s\n", what, name, strerror((int)-rc));
    abort();
}

void *model_alloc(size_t size)
{
    void *p = calloc(1, size ? size : 1);
    if (!p)
        model_fatal("allocate", "", -ENOMEM);
    return p;
}

char *model_strdup(const char *s)
{
    return strcpy(model_alloc(strlen(s) + 1), s);
}

/* Makes room for one more element in an array. */
static void *grown(void *array, size_t count, size_t *capacity, size_t element)
{
    if (count < *capacity)
        return array;
    *capacity = *capacity ? *capacity * 2 : 16;
    array = realloc(array, *capacity * element);
    if (!array)
        model_fatal("allocate", "", -ENOMEM);
    return array;
}

static void buffer_resize(struct buffer *b, uint64_t size)
{
    if (size > b->capacity) {
        b->capacity = size > 2 * b->capacity ? size : 2 * b->capacity;
        b->data = realloc(b->data, b->capacity);
        if (!b->data)
            model_fatal("allocate", "", -ENOMEM);
    }
    if (size > b->size)
        memset(b->data + b->size, 0, size - b->size);
    b->size = size;
}

static void buffer_write(struct buffer *b, uint64_t off, const void *data, size_t len)
{
    if (off + len > b->size)
        buffer_resize(b, off + len);
    if (len > 0)
        memcpy(b->data + off, data, len);
}

/* Returns true if the path `name` is directly in the directory `dir`. */
static bool lies_in(const char *name, const char *dir)
{
    const char *slash = strrchr(name, '/');
    size_t len = slash ? (size_t)(slash - name) : 0;
    return len == strlen(dir) && memcmp(name, dir, len) == 0;
}

/* ---- files and tables ---- */

static void unref(struct model_file *f)
{
    if (f && --f->refs == 0) {
        free(f->durable.data);
        free(f);
    }
}

void model_hold(struct model_file *f)
{
    f->refs++;
    f->live++;
}

void model_release(struct crash_model *m, struct model_file *f)
{
    if (--f->live == 0)
        m->bytes -= f->size;
    unref(f);
}

static struct binding *table_find(const struct table *t, const char *name)
{
    for (size_t i = 0; i < t->count; i++) {
        if (strcmp(t->at[i].name, name) == 0)
            return &t->at[i];
    }
    return NULL;
}

static void table_remove(struct table *t, const char *name)
{
    struct binding *b = table_find(t, name);
    if (!b)
        return;
    unref(b->file);
    free(b->name);
    *b = t->at[--t->count];
}

static void table_set(struct table *t, const char *name, struct model_file *file)
{
    if (file)
        file->refs++;
    struct binding *b = table_find(t, name);
    if (b) {
        unref(b->file);
        b->file = file;
        return;
    }
    t->at = grown(t->at, t->count, &t->capacity, sizeof *t->at);
    t->at[t->count++] = (struct binding){model_strdup(name), file};
}

static void table_clear(struct table *t)
{
    while (t->count > 0)
        table_remove(t, t->at[0].name);
    free(t->at);
    memset(t, 0, sizeof *t);
}

static void table_apply(struct table *t, const struct op *op)
{
    switch (op->kind) {
    case CREATE:
    case MKDIR:
        table_set(t, op->name, op->file);
        break;
    case UNLINK:
        table_remove(t, op->name);
        break;
    case RENAME: {
        const struct binding *from = table_find(t, op->from);
        if (from && from->file == op->file) { /* otherwise the creation of the file is not
                                               * durable */
            table_set(t, op->name, op->file);
            table_remove(t, op->from);
        }
        break;
    }
    case WRITE:
    case TRUNCATE:
        break;
    }
}

/* ---- pending operations ---- */

static struct op *pend(struct crash_model *m, enum kind kind, struct model_file *file,
                       const char *name)
{
    m->pending = grown(m->pending, m->pending_count, &m->pending_capacity, sizeof *m->pending);
    struct op *op = &m->pending[m->pending_count++];
    memset(op, 0, sizeof *op);
    op->kind = kind;
    op->file = file;
    op->name = name ? model_strdup(name) : NULL;
    if (file)
        file->refs++;
    return op;
}

static void op_free(struct op *op)
{
    unref(op->file);
    free(op->data);
    free(op->name);
    free(op->from);
}

static void file_apply(struct buffer *b, const struct op *op)
{
    if (op->kind == WRITE)
        buffer_write(b, op->off, op->data, op->len);
    else if (op->kind == TRUNCATE)
        buffer_resize(b, op->off);
}

static bool is_data(const struct op *op)
{
    return op->kind == WRITE || op->kind == TRUNCATE;
}

/* ---- creation and destruction ---- */

struct crash_model *model_new(void)
{
    return model_alloc(sizeof(struct crash_model));
}

void model_free(struct crash_model *m)
{
    for (size_t i = 0; i < m->pending_count; i++)
        op_free(&m->pending[i]);
    free(m->pending);
    table_clear(&m->now);
    table_clear(&m->durable);
    free(m);
}

struct loading {
    struct crash_model *model;
    struct lladd_device *dev;
    const char *dir;
};

/* Adds a durable file; takes ownership of the buffer. */
static void add_file(struct crash_model *m, const char *name, struct buffer content)
{
    struct model_file *f = model_alloc(sizeof *f);
    f->durable = content;
    f->size = content.size;
    f->live = 1;
    table_set(&m->now, name, f);
    table_set(&m->durable, name, f);
    m->bytes += f->size;
}

static void add_dir(struct crash_model *m, const char *name)
{
    table_set(&m->now, name, NULL);
    table_set(&m->durable, name, NULL);
}

static void load_file(struct crash_model *m, struct lladd_device *dev, const char *name,
                      struct lladd_file *from)
{
    struct buffer content = {0};
    uint64_t size;
    int rc = dev->ops->size(dev, from, &size);
    if (rc != 0)
        model_fatal("size", name, rc);
    buffer_resize(&content, size);
    int64_t n = dev->ops->pread(dev, from, content.data, size, 0);
    if (n != (int64_t)size)
        model_fatal("read", name, n < 0 ? n : -EIO);
    (void)dev->ops->close(dev, from);
    add_file(m, name, content);
}

static int load_one(void *ctx, const char *last)
{
    const struct loading *l = ctx;
    struct lladd_file *file;
    char *name;
    if (asprintf(&name, "%s%s%s", l->dir, *l->dir ? "/" : "", last) < 0)
        return -ENOMEM;
    int rc = l->dev->ops->open(l->dev, name, LLADD_OPEN_READ_ONLY, &file);
    if (rc == 0) {
        load_file(l->model, l->dev, name, file);
    } else if (rc == -EISDIR) {
        add_dir(l->model, name);
        struct loading below = {l->model, l->dev, name};
        rc = l->dev->ops->list(l->dev, name, load_one, &below);
    }
    free(name);
    return rc;
}

void model_load(struct crash_model *m, struct lladd_device *dev)
{
    struct loading all = {m, dev, ""};
    int rc = dev->ops->list(dev, "", load_one, &all);
    if (rc != 0)
        model_fatal("load", "", rc);
}

/* ---- as the program sees it ---- */

struct model_file *model_find(const struct crash_model *m, const char *name)
{
    const struct binding *b = table_find(&m->now, name);
    return b ? b->file : NULL;
}

bool model_is_dir(const struct crash_model *m, const char *name)
{
    const struct binding *b = table_find(&m->now, name);
    return *name == '\0' || (b && !b->file);
}

static bool has_parent(const struct table *t, const char *name)
{
    const char *slash = strrchr(name, '/');
    if (!slash)
        return true;
    char *dir = model_strdup(name);
    dir[slash - name] = '\0';
    const struct binding *b = table_find(t, dir);
    bool there = b && !b->file && has_parent(t, dir);
    free(dir);
    return there;
}

bool model_has_parent(const struct crash_model *m, const char *name)
{
    return has_parent(&m->now, name);
}

uint64_t model_file_size(const struct model_file *f)
{
    return f->size;
}

uint64_t model_bytes(const struct crash_model *m)
{
    return m->bytes;
}

uint64_t model_pending(const struct crash_model *m)
{
    return m->pending_count;
}

struct model_file *model_create(struct crash_model *m, const char *name)
{
    struct model_file *f = model_alloc(sizeof *f);
    f->live = 1;
    table_set(&m->now, name, f);
    pend(m, CREATE, f, name);
    return f;
}

void model_mkdir(struct crash_model *m, const char *name)
{
    table_set(&m->now, name, NULL);
    pend(m, MKDIR, NULL, name);
}

/* Removes the name from the program's view. */
static void lose_name(struct crash_model *m, struct model_file *f)
{
    if (--f->live == 0)
        m->bytes -= f->size;
}

void model_rename(struct crash_model *m, const char *from, const char *to)
{
    struct model_file *f = model_find(m, from);
    struct model_file *old = model_find(m, to);
    if (!f || f == old)
        return;
    if (old)
        lose_name(m, old);
    struct op *op = pend(m, RENAME, f, to);
    op->from = model_strdup(from);
    table_apply(&m->now, op);
}

void model_unlink(struct crash_model *m, const char *name)
{
    struct model_file *f = model_find(m, name);
    if (!f)
        return;
    lose_name(m, f);
    table_apply(&m->now, pend(m, UNLINK, NULL, name));
}

static void set_size(struct crash_model *m, struct model_file *f, uint64_t size)
{
    m->bytes = m->bytes - f->size + size;
    f->size = size;
}

void model_write(struct crash_model *m, struct model_file *f, const struct lladd_iovec *pieces,
                 int n, uint64_t off)
{
    size_t len = 0;
    for (int i = 0; i < n; i++)
        len += pieces[i].len;
    if (len == 0)
        return;
    struct op *op = pend(m, WRITE, f, NULL);
    op->off = off;
    op->len = len;
    op->data = model_alloc(len);
    unsigned char *to = op->data;
    for (int i = 0; i < n; i++) {
        if (pieces[i].len > 0)
            memcpy(to, pieces[i].data, pieces[i].len);
        to += pieces[i].len;
    }
    if (off + len > f->size)
        set_size(m, f, off + len);
}

void model_truncate(struct crash_model *m, struct model_file *f, uint64_t size)
{
    pend(m, TRUNCATE, f, NULL)->off = size;
    set_size(m, f, size);
}

/* Applies the operations that became durable, and removes them from the list. */
static void settle(struct crash_model *m, struct model_file *f, const char *dir)
{
    size_t kept = 0;
    for (size_t i = 0; i < m->pending_count; i++) {
        struct op *op = &m->pending[i];
        bool mine = is_data(op) ? op->file == f && !op->lost : dir && lies_in(op->name, dir);
        if (!mine) {
            m->pending[kept++] = *op;
            continue;
        }
        if (is_data(op))
            file_apply(&f->durable, op);
        else
            table_apply(&m->durable, op);
        op_free(op);
    }
    m->pending_count = kept;
}

void model_sync(struct crash_model *m, struct model_file *f)
{
    settle(m, f, NULL);
}

void model_sync_dir(struct crash_model *m, const char *name)
{
    settle(m, NULL, name);
}

void model_sync_failed(struct crash_model *m, const struct model_file *f)
{
    for (size_t i = 0; i < m->pending_count; i++) {
        if (is_data(&m->pending[i]) && m->pending[i].file == f)
            m->pending[i].lost = true;
    }
}

/* ---- after the crash ---- */

/* Chooses the pending operations that survive. */
static bool *choose(const struct crash_model *m, const struct fault_crash *how)
{
    bool *kept = model_alloc(m->pending_count);
    uint64_t state = how->seed;
    uint64_t share = how->mode == FAULT_SHARE ? seeded_next(&state) % 256 : 0;
    for (size_t i = 0; i < m->pending_count; i++) {
        switch (how->mode) {
        case FAULT_KILL:
            kept[i] = true;
            break;
        case FAULT_POWER:
            kept[i] = false;
            break;
        case FAULT_PREFIX:
            kept[i] = i < how->seed;
            break;
        case FAULT_SUBSET:
            kept[i] = seeded_next(&state) & 1;
            break;
        case FAULT_SHARE:
            kept[i] = seeded_next(&state) % 256 < share;
            break;
        }
    }
    return kept;
}

/* Applies a write of which only some sectors reached the disk. */
static void torn_apply(struct buffer *b, const struct op *op, uint64_t seed)
{
    for (size_t done = 0; done < op->len;) {
        size_t to_edge = SECTOR - (size_t)((op->off + done) % SECTOR);
        size_t part = op->len - done < to_edge ? op->len - done : to_edge;
        if (seeded_next(&seed) & 1)
            buffer_write(b, op->off + done, op->data + done, part);
        done += part;
    }
}

static struct buffer content_after(const struct crash_model *m, const struct fault_crash *how,
                                   const bool *kept, const struct model_file *f)
{
    struct buffer content = {0};
    buffer_write(&content, 0, f->durable.data, f->durable.size);
    for (size_t i = 0; i < m->pending_count; i++) {
        const struct op *op = &m->pending[i];
        if (!kept[i] || !is_data(op) || op->file != f)
            continue;
        bool tears = (how->mode == FAULT_SUBSET || how->mode == FAULT_SHARE) && how->torn;
        if (op->kind == WRITE && tears)
            torn_apply(&content, op, how->seed + i * 0x9e3779b97f4a7c15u);
        else
            file_apply(&content, op);
    }
    return content;
}

static void put_file(struct lladd_device *into, const char *name, const struct buffer *content)
{
    struct lladd_file *file;
    int rc = into->ops->open(into, name, LLADD_OPEN_CREATE, &file);
    if (rc != 0)
        model_fatal("create", name, rc);
    struct lladd_iovec piece = {content->data, content->size};
    rc = into->ops->pwritev(into, file, &piece, 1, 0);
    int closed = into->ops->close(into, file);
    if (rc != 0 || closed != 0)
        model_fatal("write", name, rc != 0 ? rc : closed);
}

static void put_dir(struct lladd_device *into, const char *name)
{
    int rc = into->ops->mkdir(into, name);
    if (rc != 0 && rc != -EEXIST)
        model_fatal("mkdir", name, rc);
}

static int by_length(const void *a, const void *b)
{
    size_t m = strlen(((const struct binding *)a)->name);
    size_t n = strlen(((const struct binding *)b)->name);
    return m < n ? -1 : m > n;
}

void model_crash(const struct crash_model *m, const struct fault_crash *how,
                 struct lladd_device *into, struct crash_model **after)
{
    bool *kept = choose(m, how);
    struct table names = {0};
    for (size_t i = 0; i < m->durable.count; i++)
        table_set(&names, m->durable.at[i].name, m->durable.at[i].file);
    for (size_t i = 0; i < m->pending_count; i++) {
        if (kept[i])
            table_apply(&names, &m->pending[i]);
    }
    if (after)
        *after = model_new();

    /* A directory is made before its contents. If a directory is lost, its contents are lost,
     * too. */
    if (names.count > 0)
        qsort(names.at, names.count, sizeof *names.at, by_length);
    for (size_t i = 0; i < names.count; i++) {
        const struct binding *b = &names.at[i];
        if (!has_parent(&names, b->name))
            continue;
        if (!b->file) {
            put_dir(into, b->name);
            if (after)
                add_dir(*after, b->name);
            continue;
        }
        struct buffer content = content_after(m, how, kept, b->file);
        put_file(into, b->name, &content);
        if (after)
            add_file(*after, b->name, content);
        else
            free(content.data);
    }
    table_clear(&names);
    free(kept);
}
