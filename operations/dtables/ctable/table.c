/* SPDX-License-Identifier: BSD-2-Clause */
/* cTables: managed dTables of packed rows, with names for the columns.
 *
 *   table.c    create, open, drop; names
 *   store.c    the configuration of a column store
 *   rows.c     writing and looking up
 *   cursor.c   cursors
 *   batch.c    reading many rows at a time
 *
 * The column names are in a blob. The named root `ctable:` followed by the table's name points to
 * the blob.
 *
 *   CT-1  The transaction that creates the managed table also writes the blob: either all of a
 *         cTable is stored or nothing.
 *   CT-2  The blob never changes, so the names of an open table do not change.
 *
 * Two transactions cannot create or drop the same managed table at the same time, so they cannot
 * conflict on the blob. */
#include "operations/dtables/ctable/ctable.h"
#include "operations/dtables/managed/managed.h"
#include "operations/operations_private.h"

#include <lladd/blob.h>

#include <stdio.h>

enum { VERSION = 1, HEAD = 4 };

int ll_ctable__no_memory(struct lladd_error *err)
{
    return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for a cTable");
}

/* ---- stored form ----------------------------------------------------------------------------- */

struct root_name {
    char text[LLADD_ROOT_NAME_MAX + 1];
};

static int root_name(const char *name, struct root_name *out, struct lladd_error *err)
{
    size_t len = name ? strlen(name) : 0;
    if (len == 0 || len > LLADD_CTABLE_NAME_MAX)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "a cTable's name has 1 to %u bytes",
                               LLADD_CTABLE_NAME_MAX);
    (void)snprintf(out->text, sizeof out->text, "%s%s", LL_MANAGED_BESIDE, name);
    return 0;
}

static int check_columns(const struct lladd_ctable_options *o, size_t *bytes,
                         struct lladd_error *err)
{
    if (!o->columns || o->n_columns == 0)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "a cTable without columns");
    if (o->n_columns > LLADD_DTABLE_COLUMNS_MAX)
        return lladd_error_set(err, LLADD_TOO_LARGE, "%zu columns; %u are possible", o->n_columns,
                               LLADD_DTABLE_COLUMNS_MAX);
    *bytes = HEAD;
    for (size_t i = 0; i < o->n_columns; i++) {
        size_t len = o->columns[i] ? strlen(o->columns[i]) : 0;
        if (len == 0 || len > LLADD_CTABLE_COLUMN_NAME_MAX)
            return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                                   "column %zu: its name has 1 to %u bytes", i,
                                   LLADD_CTABLE_COLUMN_NAME_MAX);
        for (size_t k = 0; k < i; k++)
            if (strcmp(o->columns[i], o->columns[k]) == 0)
                return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                                       "columns %zu and %zu are both called \"%s\"", k, i,
                                       o->columns[i]);
        *bytes += 1 + len;
    }
    return 0;
}

static void describe(const struct lladd_ctable_options *o, unsigned char *p)
{
    p[0] = VERSION;
    p[1] = 0;
    lladd_put16(p + 2, (uint16_t)o->n_columns);
    p += HEAD;
    for (size_t i = 0; i < o->n_columns; i++) {
        size_t len = strlen(o->columns[i]);
        *p = (unsigned char)len;
        memcpy(p + 1, o->columns[i], len);
        p += 1 + len;
    }
}

static int damaged(const char *name, struct lladd_error *err)
{
    return lladd_error_set(err, LLADD_BAD_RECORD,
                           "cTable \"%s\": invalid description: expected the names of its columns",
                           name);
}

/* Parses the stored names. One allocation holds the table, the pointers to its column names, the
 * stored bytes with a zero byte after each name, and the table's own name. */
static int understand(struct lladd_managed *below, const char *name, const unsigned char *bytes,
                      size_t len, struct lladd_ctable **out, struct lladd_error *err)
{
    struct lladd_db *db = below->db;
    size_t n = len >= HEAD ? lladd_get16(bytes + 2) : 0, at = HEAD, name_len = strlen(name) + 1;
    if (len && bytes[0] > VERSION)
        return lladd_error_set(err, LLADD_NEWER_FORMAT,
                               "cTable \"%s\" was written by a newer version", name);
    if (len < HEAD || bytes[0] != VERSION || n == 0 || n > LLADD_DTABLE_COLUMNS_MAX)
        return damaged(name, err);
    struct lladd_ctable *t =
        lladd_mem_alloc(db, sizeof *t + n * sizeof *t->columns + len + 1 + name_len);
    if (!t)
        return ll_ctable__no_memory(err);
    *t = (struct lladd_ctable){.db = db, .below = below, .n = (uint32_t)n};
    t->columns = (const char **)(t + 1);
    char *to = (char *)(t->columns + n);
    memcpy(to, bytes, len);
    t->name = to + len + 1;
    memcpy(t->name, name, name_len);
    for (size_t i = 0; i < n && at < len; i++) {
        size_t some = bytes[at];
        if (some == 0 || some > len - at - 1 || memchr(bytes + at + 1, 0, some))
            break;
        to[at] = 0; /* ends the previous name */
        t->columns[i] = to + at + 1;
        at += 1 + some;
        n = i + 1 == t->n && at == len ? 0 : n; /* n 0: all names are there, without trailing
                                                 * bytes */
    }
    to[len] = 0;
    if (n) {
        lladd_mem_free(db, t);
        return damaged(name, err);
    }
    *out = t;
    return 0;
}

static int read_names(struct lladd_managed *below, const char *name, const struct root_name *root,
                      struct lladd_ctable **out, struct lladd_error *err)
{
    struct lladd_db *db = below->db;
    struct lladd_root_value at;
    uint64_t len = 0;
    int rc = lladd_root_get(db, root->text, &at, err);
    if (rc == LLADD_NOT_FOUND)
        return lladd_error_set(err, LLADD_WRONG_TYPE, "managed table \"%s\" is not a cTable", name);
    if (!rc)
        rc = lladd_blob_length(db, lladd_page_of(at.a), &len, err);
    if (!rc && len > HEAD + LLADD_DTABLE_COLUMNS_MAX * (LLADD_CTABLE_COLUMN_NAME_MAX + 1))
        rc = damaged(name, err);
    unsigned char *bytes = rc ? NULL : lladd_mem_alloc(db, (size_t)len + 1);
    if (!rc && !bytes)
        rc = ll_ctable__no_memory(err);
    if (!rc)
        rc = lladd_blob_read(db, lladd_page_of(at.a), 0, bytes, len, NULL, err);
    if (!rc)
        rc = understand(below, name, bytes, (size_t)len, out, err);
    lladd_mem_free(db, bytes);
    return rc;
}

/* ---- create and drop ------------------------------------------------------------------------- */

/* Makes the options of the managed table. *store: memory of their texts, which the caller frees. */
static int below(struct lladd_db *db, const struct lladd_ctable_options *o,
                 struct lladd_managed_options *m, char **store, struct lladd_error *err)
{
    size_t size = o->managed.struct_size;
    *m = (struct lladd_managed_options)LLADD_MANAGED_OPTIONS_INIT;
    *store = NULL;
    if (size < sizeof size)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                               "cTable options: managed.struct_size is missing");
    if (o->n_groups && !o->groups)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "%zu groups, but groups is NULL",
                               o->n_groups);
    memcpy(m, &o->managed, size < sizeof *m ? size : sizeof *m);
    int rc = o->groups || o->keys ? ll_ctable__store(db, o, store, err) : 0;
    if (!rc && *store && m->combine_config)
        rc = lladd_error_set(err, LLADD_BAD_ARGUMENT,
                             "a cTable with groups or keys takes no combine_config");
    if (*store) {
        m->combine_config = m->config ? *store : NULL;
        m->config = m->config ? m->config : *store;
    }
    return rc;
}

static int create_below(struct lladd_txn *txn, const char *name,
                        const struct lladd_ctable_options *o)
{
    struct lladd_managed_options m;
    struct lladd_db *db = lladd_txn_db(txn);
    char *store;
    int rc = below(db, o, &m, &store, lladd_txn_error_out(txn));
    if (!rc)
        rc = lladd_managed_create(txn, name, &m);
    lladd_mem_free(db, store);
    return rc;
}

static int create(struct lladd_txn *txn, const char *name, const struct lladd_ctable_options *o)
{
    struct lladd_db *db = lladd_txn_db(txn);
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct root_name root;
    lladd_pageno blob;
    size_t len = 0;
    TRY(check_columns(o, &len, err));
    TRY(root_name(name, &root, err));
    TRY(create_below(txn, name, o));
    unsigned char *bytes = lladd_mem_alloc(db, len);
    if (!bytes)
        return ll_ctable__no_memory(err);
    describe(o, bytes);
    int rc = lladd_blob_create(txn, bytes, len, &blob);
    lladd_mem_free(db, bytes);
    return rc ? rc : lladd_root_set(txn, root.text, (struct lladd_root_value){blob.v, VERSION});
}

/* Creates the table under a savepoint: either all of it or nothing. */
static int create_whole(struct lladd_txn *txn, const char *name,
                        const struct lladd_ctable_options *o)
{
    lladd_savepoint_id sp;
    int rc = lladd_savepoint(txn, &sp);
    return rc ? rc : ll_operations__step_end(txn, sp, create(txn, name, o));
}

int lladd_ctable_create(struct lladd_txn *txn, const char *name,
                        const struct lladd_ctable_options *options)
{
    LLADD_USE(txn);
    struct lladd_ctable_options o = LLADD_CTABLE_OPTIONS_INIT;
    if (!options || options->struct_size < sizeof options->struct_size)
        return lladd_error_set(lladd_txn_error_out(txn), LLADD_BAD_ARGUMENT,
                               "no cTable options, or struct_size is not set");
    memcpy(&o, options, options->struct_size < sizeof o ? options->struct_size : sizeof o);
    return create_whole(txn, name, &o);
}

int lladd_ctable_destroy(struct lladd_txn *txn, const char *name)
{
    LLADD_USE(txn);
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct root_name root;
    struct lladd_root_value at;
    int rc = root_name(name, &root, err);
    if (!rc)
        rc = lladd_root_get(lladd_txn_db(txn), root.text, &at, err);
    if (rc == LLADD_NOT_FOUND)
        return lladd_error_set(err, rc, "there is no cTable \"%s\"", name);
    return rc ? rc : lladd_managed_destroy(txn, name);
}

int lladd_ctable_pages(struct lladd_db *db, const char *name, int (*fn)(void *ctx, lladd_pageno),
                       void *ctx, struct lladd_error *err)
{
    struct root_name root;
    struct lladd_root_value at;
    TRY(lladd_check_process(db, err));
    TRY(root_name(name, &root, err));
    TRY(lladd_root_get(db, root.text, &at, err));
    return lladd_blob_pages(db, lladd_page_of(at.a), fn, ctx, err);
}

/* ---- open ------------------------------------------------------------------------------------ */

/* All openers of a table share one lladd_ctable. It is freed with the managed table. */
static int of_table(struct lladd_managed *below, const char *name, const struct root_name *root,
                    struct lladd_ctable **out, struct lladd_error *err)
{
    struct lladd_mutex *mutex = &below->all->mutex;
    struct lladd_ctable *mine = NULL;
    lladd_mutex_lock(mutex);
    *out = below->companion;
    lladd_mutex_unlock(mutex);
    if (*out)
        return 0;
    TRY(read_names(below, name, root, &mine, err));
    lladd_mutex_lock(mutex);
    if (!below->companion) {
        below->companion = mine;
        mine = NULL;
    }
    *out = below->companion;
    lladd_mutex_unlock(mutex);
    lladd_mem_free(below->db, mine); /* not NULL if another thread was faster */
    return 0;
}

int lladd_ctable_open(struct lladd_db *db, const char *name, struct lladd_ctable **out,
                      struct lladd_error *err)
{
    struct lladd_managed *below;
    struct root_name root;
    TRY(root_name(name, &root, err));
    TRY(lladd_managed_open(db, name, &below, err));
    int rc = of_table(below, name, &root, out, err);
    if (rc) /* if this close is refused, closing the database closes the table */
        (void)lladd_managed_close(below, NULL);
    return rc;
}

static int make_ctable(struct lladd_txn *txn, const char *name, const void *options)
{
    return lladd_ctable_create(txn, name, options);
}

int lladd_ctable_create_open(struct lladd_db *db, const char *name,
                             const struct lladd_ctable_options *options, struct lladd_ctable **out,
                             struct lladd_error *err)
{
    int rc = ll_managed__alone(db, make_ctable, name, options, err);
    return rc ? rc : lladd_ctable_open(db, name, out, err);
}

int lladd_ctable_close(struct lladd_ctable *t, struct lladd_error *err)
{
    return lladd_managed_close(t->below, err);
}

struct lladd_managed *lladd_ctable_managed(const struct lladd_ctable *t)
{
    return t->below;
}

/* ---- alter ----------------------------------------------------------------------------------- */

int lladd_ctable_alter(struct lladd_ctable *t, unsigned which,
                       const struct lladd_ctable_options *options, struct lladd_error *err)
{
    const unsigned configs = LLADD_MANAGED_CONFIG | LLADD_MANAGED_COMBINE_CONFIG;
    struct lladd_ctable_options o = LLADD_CTABLE_OPTIONS_INIT;
    struct lladd_managed_options m;
    char *store;
    TRY(lladd_check_process(t->db, err));
    if (!options || options->struct_size < sizeof options->struct_size)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                               "no cTable options, or struct_size is not set");
    memcpy(&o, options, options->struct_size < sizeof o ? options->struct_size : sizeof o);
    o.columns = t->columns;
    o.n_columns = t->n;
    o.managed.type = t->below->order.type;
    int rc = below(t->db, &o, &m, &store, err);
    if (!rc)
        rc = lladd_managed_alter(t->below, which | configs, &m, err);
    lladd_mem_free(t->db, store);
    return rc;
}

/* ---- names ----------------------------------------------------------------------------------- */

size_t lladd_ctable_columns(const struct lladd_ctable *t)
{
    return t->n;
}

const char *lladd_ctable_column_name(const struct lladd_ctable *t, uint32_t column)
{
    return column < t->n ? t->columns[column] : NULL;
}

int lladd_ctable_named(const struct lladd_ctable *t, const char *const *names, size_t n,
                       uint32_t *out, struct lladd_error *err)
{
    int rc = lladd_check_process(t->db, err);
    for (size_t i = 0; i < n && !rc; i++) {
        uint32_t c = 0;
        while (c < t->n && strcmp(t->columns[c], names[i]) != 0)
            c++;
        if (c == t->n)
            return lladd_error_set(err, LLADD_NOT_FOUND, "cTable \"%s\" has no column \"%.100s\"",
                                   t->name, names[i]);
        out[i] = c;
    }
    return rc;
}

int ll_ctable__check(const struct lladd_ctable *t, const uint32_t *columns, size_t n,
                     struct lladd_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (columns[i] >= t->n)
            return lladd_error_set(err, LLADD_NOT_FOUND,
                                   "cTable \"%s\" has no column %u: it has %u columns", t->name,
                                   columns[i], t->n);
    return 0;
}
