/* SPDX-License-Identifier: BSD-2-Clause */
/* The catalogue of managed tables: a hash table of manifests, under the named root `managed`. A
 * transaction that creates or drops a table holds the table's journal tag, so no other transaction
 * can create or drop it at the same time. The row of an open table is changed only under the
 * table's `swap` mutex. */
#include "operations/dtables/managed/managed.h"
#include "operations/operations_private.h"

#include <lladd/blob.h>

#include <stdio.h>

enum { MEMORY_BYTES = 32 << 20, EVERY = 4 };

/* ---- rows ------------------------------------------------------------------------------------ */

static int make_catalogue(struct ll_managed *all, struct lladd_error *err)
{
    struct lladd_txn_options o = LLADD_TXN_OPTIONS_INIT;
    struct lladd_hash *hash = NULL;
    struct lladd_txn *txn;
    lladd_pageno root;
    lladd_lsn lsn;
    o.system = true;
    o.durability = LLADD_DURABLE_LATER; /* a commit that uses the catalogue makes this one durable
                                         * too */
    TRY(lladd_begin(all->db, &o, &txn, err));
    int rc = lladd_hash_create(txn, NULL, &root);
    if (!rc)
        rc = lladd_root_set(txn, LL_MANAGED_ROOT,
                            (struct lladd_root_value){root.v, LL_MANAGED_VERSION});
    if (!rc)
        rc = lladd_hash_open(all->db, root, LLADD_HASH_LOGICAL, &hash, lladd_txn_error_out(txn));
    if (!rc)
        rc = lladd_commit_async(txn, &lsn);
    if (!rc) {
        lladd_atomic_store_ptr(&all->catalogue, hash);
        return 0;
    }
    lladd_hash_close(hash);
    if (lladd_code_root(rc) == LLADD_ROOT_POISONED)
        return lladd_db_error(all->db, err);
    *err = *lladd_txn_error(txn);
    return lladd_abort(txn) ? lladd_db_error(all->db, err) : rc;
}

static int want_catalogue(struct ll_managed *all, struct lladd_error *err)
{
    int rc = 0;
    if (lladd_atomic_load_ptr(&all->catalogue))
        return 0;
    lladd_mutex_lock(&all->create);
    if (!lladd_atomic_load_ptr(&all->catalogue))
        rc = make_catalogue(all, err);
    lladd_mutex_unlock(&all->create);
    return rc;
}

struct reading {
    struct lladd_db *db;
    struct ll_manifest *out;
    struct lladd_error *err;
};

static int read_row(void *ctx, struct lladd_span value)
{
    struct reading *r = ctx;
    return ll_managed__manifest_get(r->db, value, r->out, r->err);
}

int ll_managed__row_read(struct ll_managed *all, const char *name, struct ll_manifest *out,
                         struct lladd_error *err)
{
    struct reading r = {all->db, out, err};
    struct lladd_hash *hash = lladd_atomic_load_ptr(&all->catalogue);
    int rc = hash ? lladd_hash_get_in_place(hash, name, strlen(name), read_row, &r, err)
                  : LLADD_NOT_FOUND;
    return rc == LLADD_NOT_FOUND
               ? lladd_error_set(err, rc, "there is no managed table \"%s\"", name)
               : rc;
}

int ll_managed__row_write(struct lladd_txn *txn, struct ll_managed *all, const char *name,
                          const struct ll_manifest *m)
{
    unsigned char *bytes;
    size_t len;
    if (ll_managed__manifest_put(m, &bytes, &len))
        return ll_managed__no_memory(lladd_txn_error_out(txn));
    int rc =
        lladd_hash_put(txn, lladd_atomic_load_ptr(&all->catalogue), name, strlen(name), bytes, len);
    lladd_mem_free(all->db, bytes);
    return rc;
}

static int check_name(const char *name, struct lladd_error *err)
{
    size_t len = name ? strlen(name) : 0;
    return len == 0 || len > LLADD_MANAGED_NAME_MAX
               ? lladd_error_set(err, LLADD_BAD_ARGUMENT, "a table's name has 1 to %u bytes",
                                 LLADD_MANAGED_NAME_MAX)
               : 0;
}

/* ---- making ---------------------------------------------------------------------------------- */

/* Adds to the message that the error is in combine_config. */
static int of_combines(struct lladd_error *err)
{
    struct lladd_error was = *err;
    return lladd_error_set(err, was.code, "combine_config: %.200s", was.message);
}

/* Returns the text to store for a configuration: with all settings, or "" if there is no
 * configuration. The configuration must not take the size of values from the first value put: the
 * transaction that puts it may abort. */
int ll_managed__settle(struct lladd_db *db, const char *config, enum lladd_dtable_type type,
                       bool combines, char **out, struct lladd_error *err)
{
    struct lladd_dtable_config *c;
    *out = NULL;
    if (!config) {
        *out = ll_managed__string(db, "", 0);
        return *out ? 0 : ll_managed__no_memory(err);
    }
    int rc = lladd_dtable_config_parse(db, config, &c, err);
    if (rc)
        return combines && rc == LLADD_BAD_CONFIG ? of_combines(err) : rc;
    rc = lladd_dtable_config_check(c, type, err);
    if (!rc)
        rc = lladd_dtable_config_settled(c, err);
    if (!rc)
        rc = lladd_dtable_config_deletes(c, err);
    if (!rc)
        rc = lladd_dtable_config_text(c, out, err);
    lladd_dtable_config_free(c);
    return combines && rc == LLADD_BAD_CONFIG ? of_combines(err) : rc;
}

int ll_managed__set_triggers(const struct lladd_managed_options *o, unsigned which,
                             struct ll_manifest *m, struct lladd_error *err)
{
    if (which & LLADD_MANAGED_SCHEDULE)
        m->schedule = o->schedule;
    if (which & LLADD_MANAGED_EVERY)
        m->every = o->every ? o->every : EVERY;
    if (which & LLADD_MANAGED_MEMORY_BYTES)
        m->memory_bytes = o->memory_bytes ? o->memory_bytes : MEMORY_BYTES;
    if (which & LLADD_MANAGED_ROWS)
        m->max_rows = o->rows;
    if (which & LLADD_MANAGED_INTERVAL)
        m->interval_ns = o->interval_ns;
    if (which & LLADD_MANAGED_BLOCK_BYTES)
        m->block_bytes = o->block_bytes;
    if (!ll_managed__block_bytes_ok(m))
        return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                               "blocks of %u bytes: at most 1 MiB, and a multiple of the page size",
                               m->block_bytes);
    return m->schedule > LLADD_MANAGED_LEVELS || m->every < 2
               ? lladd_error_set(err, LLADD_BAD_ARGUMENT, "an unknown schedule, or every is 1")
               : 0;
}

static int first_manifest(struct lladd_txn *txn, const struct lladd_managed_options *o,
                          struct ll_manifest *m)
{
    struct lladd_db *db = lladd_txn_db(txn);
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct lladd_dtable_order order;
    const char *comparator = o->comparator ? o->comparator : "";
    *m = (struct ll_manifest){.db = db, .type = o->type, .generation = 1, .flags = o->flags};
    if (o->flags & ~(uint32_t)LLADD_MANAGED_UNLOGGED)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "a table has no flags %#x", o->flags);
    TRY(ll_managed__set_triggers(o, LLADD_MANAGED_ALL, m, err));
    int rc = lladd_dtable_order_of(db, o->type, o->comparator, &order, err);
    m->texts[LL_MANIFEST_COMPARATOR] =
        rc ? NULL : ll_managed__string(db, comparator, strlen(comparator));
    if (!rc && !m->texts[LL_MANIFEST_COMPARATOR])
        rc = ll_managed__no_memory(err);
    if (!rc)
        rc = ll_managed__settle(db, o->config, o->type, false, &m->texts[LL_MANIFEST_CONFIG], err);
    if (!rc)
        rc = ll_managed__settle(db, o->combine_config, o->type, true,
                                &m->texts[LL_MANIFEST_COMBINE], err);
    return rc;
}

static int tag_of(struct lladd_txn *txn, const char *name, uint64_t *tag)
{
    char text[sizeof LL_MANAGED_TAG + LLADD_MANAGED_NAME_MAX];
    (void)snprintf(text, sizeof text, "%s%s", LL_MANAGED_TAG, name);
    return lladd_journal_acquire(txn, text, LL_MANAGED_OWNER, tag);
}

bool ll_managed__is_changing(struct lladd_db *db, const char *name)
{
    char text[sizeof LL_MANAGED_TAG + LLADD_MANAGED_NAME_MAX];
    uint64_t tag;
    (void)snprintf(text, sizeof text, "%s%s", LL_MANAGED_TAG, name);
    return lladd_journal_find(db, text, &tag, NULL) == LLADD_BUSY;
}

/* Runs `what` under a savepoint: either all of it takes effect or nothing. */
static int
in_step(struct lladd_txn *txn, struct ll_managed *all, const char *name, struct ll_manifest *m,
        int (*what)(struct lladd_txn *, struct ll_managed *, const char *, struct ll_manifest *))
{
    lladd_savepoint_id sp;
    int rc = lladd_savepoint(txn, &sp);
    return rc ? rc : ll_operations__step_end(txn, sp, what(txn, all, name, m));
}

static int create(struct lladd_txn *txn, struct ll_managed *all, const char *name,
                  struct ll_manifest *m)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct ll_manifest there;
    TRY(tag_of(txn, name, &m->tag));
    int rc = ll_managed__row_read(all, name, &there, err);
    if (rc == LLADD_NOT_FOUND)
        return ll_managed__row_write(txn, all, name, m);
    if (rc)
        return rc;
    ll_managed__manifest_free(&there);
    return lladd_error_set(err, LLADD_EXISTS, "there is a managed table \"%s\"", name);
}

int lladd_managed_create(struct lladd_txn *txn, const char *name,
                         const struct lladd_managed_options *options)
{
    LLADD_USE(txn);
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    struct ll_manifest m;
    struct ll_managed *all;
    TRY(ll_managed__of(lladd_txn_db(txn), &all, err));
    TRY(check_name(name, err));
    if (!options || options->struct_size < sizeof options->struct_size)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                               "no table options, or struct_size is not set");
    memcpy(&o, options, options->struct_size < sizeof o ? options->struct_size : sizeof o);
    int rc = first_manifest(txn, &o, &m);
    if (!rc)
        rc = want_catalogue(all, err);
    if (!rc)
        rc = in_step(txn, all, name, &m, create);
    ll_managed__manifest_free(&m);
    return rc;
}

int ll_managed__alone(struct lladd_db *db, ll_managed_make_fn *make, const char *name,
                      const void *options, struct lladd_error *err)
{
    struct lladd_txn *txn;
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = make(txn, name, options);
    if (!rc)
        rc = lladd_commit(txn);
    if (!rc)
        return 0;
    if (lladd_code_root(rc) == LLADD_ROOT_POISONED)
        return lladd_db_error(db, err);
    if (err)
        *err = *lladd_txn_error(txn);
    return lladd_abort(txn) ? lladd_db_error(db, err) : rc;
}

static int make_managed(struct lladd_txn *txn, const char *name, const void *options)
{
    return lladd_managed_create(txn, name, options);
}

int lladd_managed_create_open(struct lladd_db *db, const char *name,
                              const struct lladd_managed_options *options,
                              struct lladd_managed **out, struct lladd_error *err)
{
    int rc = ll_managed__alone(db, make_managed, name, options, err);
    return rc ? rc : lladd_managed_open(db, name, out, err);
}

/* ---- dropping -------------------------------------------------------------------------------- */

static int free_runs(struct lladd_txn *txn, const struct ll_manifest *m)
{
    int rc = 0;
    for (uint32_t i = 0; !rc && i < m->n_runs; i++)
        rc = lladd_dtable_run_free(txn, m->runs[i].root);
    for (uint32_t i = 0; !rc && i < m->n_obsolete; i++)
        rc = lladd_dtable_run_free(txn, m->obsolete[i]);
    return rc;
}

/* Frees the blob that a cTable keeps with the table. Called even if the table is not dropped as a
 * cTable. */
static int free_beside(struct lladd_txn *txn, const char *name)
{
    char text[LLADD_ROOT_NAME_MAX + 1];
    struct lladd_root_value at;
    int len = snprintf(text, sizeof text, "%s%s", LL_MANAGED_BESIDE, name);
    if (len < 0 || (size_t)len >= sizeof text)
        return 0; /* no root has a name of this length */
    int rc = lladd_root_get(lladd_txn_db(txn), text, &at, lladd_txn_error_out(txn));
    if (rc)
        return rc == LLADD_NOT_FOUND ? 0 : rc;
    rc = lladd_blob_destroy(txn, lladd_page_of(at.a));
    return rc ? rc : lladd_root_delete(txn, text);
}

/* Drops the table. While this transaction has the tag, the table cannot be opened. Reads the
 * manifest again, because the table may have been opened since the first reading, and its runs
 * combined. */
static int drop(struct lladd_txn *txn, struct ll_managed *all, const char *name,
                struct ll_manifest *m)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct ll_manifest now;
    TRY(lladd_journal_release(txn, m->tag));
    TRY(ll_managed__row_read(all, name, &now, err));
    int rc = now.tag == m->tag
                 ? free_runs(txn, &now)
                 : lladd_error_set(err, LLADD_BUSY,
                                   "table \"%s\" has been replaced by another table", name);
    ll_managed__manifest_free(&now);
    if (!rc)
        rc = free_beside(txn, name);
    return rc ? rc
              : lladd_hash_delete(txn, lladd_atomic_load_ptr(&all->catalogue), name, strlen(name));
}

int lladd_managed_destroy(struct lladd_txn *txn, const char *name)
{
    LLADD_USE(txn);
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct ll_managed *all;
    struct ll_manifest m;
    TRY(ll_managed__of(lladd_txn_db(txn), &all, err));
    TRY(check_name(name, err));
    lladd_mutex_lock(&all->mutex);
    bool open = ll_managed__open_one(all, name) != NULL;
    lladd_mutex_unlock(&all->mutex);
    if (open)
        return lladd_error_set(err, LLADD_BUSY, "table \"%s\" is open", name);
    TRY(ll_managed__row_read(all, name, &m, err));
    int rc = in_step(txn, all, name, &m, drop);
    ll_managed__manifest_free(&m);
    return rc;
}

/* ---- enumeration ----------------------------------------------------------------------------- */

int lladd_managed_each(struct lladd_db *db, int (*fn)(void *ctx, const char *name), void *ctx,
                       struct lladd_error *err)
{
    struct lladd_hash_cursor walk = {.buffer = NULL};
    struct lladd_span key, value;
    struct ll_managed *all;
    char name[LLADD_MANAGED_NAME_MAX + 1];
    int rc = ll_managed__of(db, &all, err);
    struct lladd_hash *hash = rc ? NULL : lladd_atomic_load_ptr(&all->catalogue);
    while (!rc && hash && (rc = lladd_hash_cursor_next(hash, &walk, &key, &value, err)) == 0) {
        if (key.len == 0 || key.len >= sizeof name || memchr(key.data, 0, key.len)) {
            rc = lladd_error_set(err, LLADD_BAD_RECORD, "a managed table with an invalid name");
            break;
        }
        memcpy(name, key.data, key.len);
        name[key.len] = 0;
        rc = fn(ctx, name);
    }
    if (hash)
        lladd_hash_cursor_close(hash, &walk);
    return rc == LLADD_END ? 0 : rc;
}

struct paging {
    struct ll_managed *all;
    int (*fn)(void *ctx, lladd_pageno);
    void *ctx;
    struct lladd_error *err;
};

static int pages_of(void *ctx, const char *name)
{
    const struct paging *p = ctx;
    struct ll_manifest m;
    TRY(ll_managed__row_read(p->all, name, &m, p->err));
    int rc = 0;
    for (uint32_t i = 0; !rc && i < m.n_runs; i++)
        rc = lladd_dtable_run_pages(p->all->db, m.runs[i].root, p->fn, p->ctx, p->err);
    for (uint32_t i = 0; !rc && i < m.n_obsolete; i++)
        rc = lladd_dtable_run_pages(p->all->db, m.obsolete[i], p->fn, p->ctx, p->err);
    ll_managed__manifest_free(&m);
    return rc;
}

int lladd_managed_pages(struct lladd_db *db, int (*fn)(void *ctx, lladd_pageno), void *ctx,
                        struct lladd_error *err)
{
    struct paging p = {.fn = fn, .ctx = ctx, .err = err};
    int rc = ll_managed__of(db, &p.all, err);
    struct lladd_hash *hash = rc ? NULL : lladd_atomic_load_ptr(&p.all->catalogue);
    if (hash)
        rc = lladd_hash_pages(hash, fn, ctx, err);
    return rc ? rc : lladd_managed_each(db, pages_of, &p, err);
}
