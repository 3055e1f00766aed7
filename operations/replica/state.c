/* SPDX-License-Identifier: BSD-2-Clause */
/* Opening and closing replicas. */
#include "operations/replica/replica.h"

#include <lladd/blob.h>
#include <lladd/extension.h>
#include <stdio.h>

/* The replicas of a database handle. */
struct ll_replicas {
    struct lladd_db *db;
    struct lladd_mutex mutex; /* a leaf; protects the list */
    struct lladd_replica *first;
};

int ll_replica__no_memory(struct lladd_error *err)
{
    return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for a replica");
}

/* ---- the extension --------------------------------------------------------------------------- */

static void release(struct lladd_replica *r)
{
    ll_replica__forget(r, &r->open);
    ll_replica__forget(r, &r->ended);
    ll_operations__index_free(r->db, &r->index);
    for (size_t i = 0; i < r->n_tables; i++)
        lladd_mem_free(r->db, r->tables[i].name);
    lladd_mem_free(r->db, r->tables);
    lladd_mem_free(r->db, r->name);
    lladd_mem_free(r->db, r->source);
    lladd_cond_destroy(&r->passed);
    lladd_mutex_destroy(&r->mutex);
    lladd_mem_free(r->db, r);
}

static int attach(void *ctx, struct lladd_db *db, void **state, struct lladd_error *err)
{
    struct ll_replicas *all = lladd_mem_alloc(db, sizeof *all);
    (void)ctx;
    if (!all)
        return ll_replica__no_memory(err);
    *all = (struct ll_replicas){.db = db};
    if (lladd_mutex_init(&all->mutex, LL_REPLICA_RANK, "replicas")) {
        lladd_mem_free(db, all);
        return ll_replica__no_memory(err);
    }
    *state = all;
    return 0;
}

static void detach(void *ctx, struct lladd_db *db, void *state)
{
    struct ll_replicas *all = state;
    (void)ctx;
    for (struct lladd_replica *r = all->first, *next; r; r = next) {
        next = r->next;
        release(r);
    }
    lladd_mutex_destroy(&all->mutex);
    lladd_mem_free(db, all);
}

static const struct lladd_extension extension = {
    .struct_size = sizeof extension,
    .name = "lladd.replica",
    .version = 1,
    .attach = attach,
    .detach = detach,
};

int lladd_replica_register(struct lladd_options *o, struct lladd_error *err)
{
    TRY(lladd_managed_register(o, err));
    return lladd_register_extension(o, &extension, err);
}

static int replicas_of(struct lladd_db *db, struct ll_replicas **out, struct lladd_error *err)
{
    TRY(lladd_check_process(db, err));
    *out = lladd_extension_state(db, &extension);
    return *out ? 0
                : lladd_error_set(err, LLADD_BAD_STATE,
                                  "the database was opened without lladd_replica_register");
}

/* ---- transactions ---------------------------------------------------------------------------- */

static int commit(struct lladd_txn *txn, enum lladd_durability durability, lladd_lsn *at,
                  struct lladd_error *err)
{
    struct lladd_db *db = lladd_txn_db(txn);
    lladd_lsn lsn = {0};
    TRY(lladd_commit_async(txn, &lsn));
    if (at)
        *at = lsn;
    return durability == LLADD_DURABLE ? lladd_wait_durable(db, lsn, err) : 0;
}

int ll_replica__in_txn(struct lladd_replica *r, enum lladd_durability durability,
                       int (*what)(void *ctx, struct lladd_txn *), void *ctx, lladd_lsn *at,
                       struct lladd_error *err)
{
    struct lladd_txn_options o = LLADD_TXN_OPTIONS_INIT;
    struct lladd_txn *txn;
    o.durability = durability;
    TRY(lladd_begin(r->db, &o, &txn, err));
    int rc = what(ctx, txn);
    if (!rc) {
        rc = commit(txn, durability, at, err);
        if (!rc || lladd_code_root(rc) == LLADD_ROOT_POISONED) {
            if (rc)
                (void)lladd_db_error(r->db, err); /* the error of the handle is the cause of rc */
            return rc;
        }
    }
    if (err)
        *err = *lladd_txn_error(txn);
    int undone = lladd_abort(txn);
    return undone ? lladd_db_error(r->db, err) : rc;
}

int ll_replica__copy_text(struct lladd_db *db, const void *text, size_t len, char **out,
                          struct lladd_error *err)
{
    char *to = lladd_mem_alloc(db, len + 1);
    if (!to)
        return ll_replica__no_memory(err);
    if (len)
        memcpy(to, text, len);
    to[len] = 0;
    *out = to;
    return 0;
}

int ll_replica__make_tables(struct lladd_replica *r, size_t n, struct lladd_error *err)
{
    r->tables = lladd_mem_alloc(r->db, n * sizeof *r->tables);
    return r->tables ? 0 : ll_replica__no_memory(err);
}

int ll_replica__add_table(struct lladd_replica *r, const void *name, size_t len,
                          struct lladd_error *err)
{
    struct ll_replica_table *t = &r->tables[r->n_tables];
    *t = (struct ll_replica_table){0};
    TRY(ll_replica__copy_text(r->db, name, len, &t->name, err));
    r->n_tables++;
    return 0;
}

/* ---- opening --------------------------------------------------------------------------------- */

static int check_name(const char *name, struct lladd_error *err)
{
    size_t len = name ? strlen(name) : 0;
    if (!len || len > LLADD_REPLICA_NAME_MAX || strchr(name, ':'))
        return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                               "a replica's name has 1 to %u bytes, without ':'",
                               LLADD_REPLICA_NAME_MAX);
    return 0;
}

void ll_replica__root_name(const char *name, char out[LLADD_ROOT_NAME_MAX + 1])
{
    (void)snprintf(out, LLADD_ROOT_NAME_MAX + 1, LL_REPLICA_ROOT "%s", name);
}

static size_t count(const char *const *tables)
{
    size_t n = 0;
    while (tables[n])
        n++;
    return n;
}

static int named_once(const char *const *tables, size_t n, struct lladd_error *err)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(tables[i], tables[k]) == 0)
                return lladd_error_set(err, LLADD_BAD_ARGUMENT, "table \"%s\" is named twice",
                                       tables[i]);
    return 0;
}

/* A new replica: takes over tables and source from the options. */
static int take_options(struct lladd_replica *r, const struct lladd_replica_options *o,
                        struct lladd_error *err)
{
    size_t n = o->tables ? count(o->tables) : 0, source = o->source ? strlen(o->source) : 0;
    if (!n)
        return lladd_error_set(err, LLADD_NOT_FOUND,
                               "there is no replica \"%s\"; to make it, name its tables", r->name);
    if (source > LL_REPLICA_SOURCE_MAX)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "the source's name has %zu bytes", source);
    if (source)
        TRY(ll_replica__copy_text(r->db, o->source, source, &r->source, err));
    TRY(named_once(o->tables, n, err));
    TRY(ll_replica__make_tables(r, n, err));
    for (size_t i = 0; i < n; i++)
        TRY(ll_replica__add_table(r, o->tables[i], strlen(o->tables[i]), err));
    return ll_replica__check_size(r, err);
}

/* A stored replica: the options may only say what is stored. */
static int compare_options(const struct lladd_replica *r, const struct lladd_replica_options *o,
                           struct lladd_error *err)
{
    if (o->source && *o->source && (!r->source || strcmp(o->source, r->source) != 0))
        return lladd_error_set(err, LLADD_OTHER_DATABASE,
                               "replica \"%s\" follows the source \"%s\", not \"%s\"", r->name,
                               r->source ? r->source : "", o->source);
    size_t n = o->tables ? count(o->tables) : r->n_tables;
    if (o->tables)
        TRY(named_once(o->tables, n, err));
    for (size_t i = 0; o->tables && i < n; i++) {
        size_t k = 0;
        while (k < r->n_tables && strcmp(r->tables[k].name, o->tables[i]) != 0)
            k++;
        if (k == r->n_tables)
            return lladd_error_set(err, LLADD_BAD_ARGUMENT, "replica \"%s\" has no table \"%s\"",
                                   r->name, o->tables[i]);
    }
    return n == r->n_tables ? 0
                            : lladd_error_set(err, LLADD_BAD_ARGUMENT,
                                              "replica \"%s\" has %zu tables, not %zu", r->name,
                                              r->n_tables, n);
}

static int order_of(struct lladd_replica *r, struct ll_replica_table *t, struct lladd_error *err)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    char *strings;
    TRY(lladd_managed_settings(t->managed, &o, &strings, err));
    int rc = lladd_dtable_order_of(r->db, o.type, o.comparator, &t->order, err);
    lladd_mem_free(r->db, strings);
    return rc;
}

/* Digests all committed rows, also if another thread is digesting some of them now. */
static int digest(struct lladd_managed *t, struct lladd_error *err)
{
    struct lladd_error why;
    int rc;
    for (;;) {
        why = (struct lladd_error)LLADD_ERROR_INIT;
        rc = lladd_managed_digest(t, &why);
        if (rc != LLADD_BUSY)
            break;
        lladd_yield();
    }
    if (rc && err)
        *err = why;
    return rc;
}

/* Opens a table. Its rows in memory, if it was open, are digested: then the position of its runs
 * says all. */
static int open_table(struct lladd_replica *r, struct ll_replica_table *t, struct lladd_error *err)
{
    TRY(lladd_managed_open(r->db, t->name, &t->managed, err));
    TRY(order_of(r, t, err));
    TRY(lladd_managed_position_get(t->managed, false, &t->had, err)); /* LLADD_BAD_STATE: logged */
    TRY(digest(t->managed, err));
    TRY(lladd_managed_position_get(t->managed, false, &t->had, err));
    if (t->had.commit < r->stored.commit)
        t->had = r->stored;
    return 0;
}

static int open_tables(struct lladd_replica *r, struct lladd_error *err)
{
    r->restart = r->covered = UINT64_MAX;
    for (size_t i = 0; i < r->n_tables; i++) {
        struct ll_replica_table *t = &r->tables[i];
        TRY(open_table(r, t, err));
        if (t->had.from < r->restart)
            r->restart = t->had.from;
        if (t->had.commit < r->covered)
            r->covered = t->had.commit;
        if (t->had.commit > r->consistent)
            r->consistent = t->had.commit;
    }
    if (!r->restart)
        r->restart = 1; /* positions begin at 1 */
    r->applied = r->covered;
    return 0;
}

/* Closes the tables that are open. */
static int close_tables(struct lladd_replica *r, struct lladd_error *err)
{
    for (size_t i = 0; i < r->n_tables; i++) {
        if (!r->tables[i].managed)
            continue;
        TRY(lladd_managed_close(r->tables[i].managed, err));
        r->tables[i].managed = NULL;
    }
    return 0;
}

/* ---- blobs that a crash has left ------------------------------------------------------------- */

struct leftovers {
    const struct lladd_replica *r;
    uint32_t slots[16]; /* some of them; the others are found when these are gone */
    size_t n;
};

static int see_root(void *ctx, const char *name, struct lladd_root_value value)
{
    struct leftovers *f = ctx;
    char prefix[LLADD_ROOT_NAME_MAX + 1];
    unsigned slot;
    (void)value;
    ll_replica__root_name(f->r->name, prefix);
    size_t len = strlen(prefix);
    if (f->n < sizeof f->slots / sizeof f->slots[0] && strncmp(name, prefix, len) == 0 &&
        sscanf(name + len, ":%u", &slot) == 1)
        f->slots[f->n++] = slot;
    return 0;
}

static int remove_leftovers(void *ctx, struct lladd_txn *txn)
{
    struct leftovers *f = ctx;
    struct lladd_db *db = lladd_txn_db(txn);
    for (size_t i = 0; i < f->n; i++) {
        char name[LLADD_ROOT_NAME_MAX + 1];
        struct lladd_root_value value;
        ll_replica__slot_name(f->r, f->slots[i], name);
        TRY(lladd_root_get(db, name, &value, lladd_txn_error_out(txn)));
        TRY(lladd_blob_destroy(txn, lladd_page_of(value.a)));
        TRY(lladd_root_delete(txn, name));
    }
    return 0;
}

static int reclaim(struct lladd_replica *r, struct lladd_error *err)
{
    struct leftovers f;
    do {
        f = (struct leftovers){.r = r};
        TRY(lladd_root_each(r->db, see_root, &f, err));
        if (f.n)
            TRY(ll_replica__in_txn(r, LLADD_DURABLE_LATER, remove_leftovers, &f, NULL, err));
    } while (f.n);
    return 0;
}

/* ---- open and close -------------------------------------------------------------------------- */

static uint64_t or_default(uint64_t v, uint64_t otherwise)
{
    return v ? v : otherwise;
}

static int new_handle(struct ll_replicas *all, const char *name,
                      const struct lladd_replica_options *o, struct lladd_replica **out,
                      struct lladd_error *err)
{
    struct lladd_replica *r = lladd_mem_alloc(all->db, sizeof *r);
    if (!r)
        return ll_replica__no_memory(err);
    *r = (struct lladd_replica){.db = all->db,
                                .all = all,
                                .buffer_bytes = or_default(o->buffer_bytes, 16u << 20),
                                .batch = or_default(o->batch, 1000),
                                .batch_ns = o->batch_ns,
                                .unsettled = LLADD_ERROR_INIT,
                                .lag = or_default(o->lag_bytes, 64u << 20),
                                .check = (o->flags & LLADD_REPLICA_CHECK) != 0};
    if (lladd_mutex_init(&r->mutex, LL_REPLICA_RANK + 1, "replica"))
        goto no_mutex;
    if (lladd_cond_init(&r->passed))
        goto no_cond;
    if (ll_replica__copy_text(r->db, name, strlen(name), &r->name, err)) {
        release(r);
        return LLADD_NO_MEMORY;
    }
    *out = r;
    return 0;
no_cond:
    lladd_mutex_destroy(&r->mutex);
no_mutex:
    lladd_mem_free(all->db, r);
    return ll_replica__no_memory(err);
}

/* Lists the replica. LLADD_BUSY if one of that name is listed. */
static int list(struct lladd_replica *r, struct lladd_error *err)
{
    struct ll_replicas *all = r->all;
    bool open = false;
    lladd_mutex_lock(&all->mutex);
    for (const struct lladd_replica *o = all->first; o; o = o->next)
        open = open || strcmp(o->name, r->name) == 0;
    if (!open) {
        r->next = all->first;
        all->first = r;
    }
    lladd_mutex_unlock(&all->mutex);
    return open ? lladd_error_set(err, LLADD_BUSY, "replica \"%s\" is open", r->name) : 0;
}

static void unlist(struct lladd_replica *r)
{
    struct lladd_replica **at = &r->all->first;
    lladd_mutex_lock(&r->all->mutex);
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    lladd_mutex_unlock(&r->all->mutex);
}

static int fill_in(struct lladd_replica *r, const struct lladd_replica_options *o,
                   struct lladd_error *err)
{
    char root[LLADD_ROOT_NAME_MAX + 1];
    struct lladd_root_value value;
    struct lladd_error why = LLADD_ERROR_INIT;
    ll_replica__root_name(r->name, root);
    int rc = lladd_root_get(r->db, root, &value, &why);
    bool is_new = rc == LLADD_NOT_FOUND;
    if (rc && !is_new) {
        if (err)
            *err = why;
        return rc;
    }
    if (!is_new) {
        r->blob = lladd_page_of(value.a);
        TRY(ll_replica__read(r, err));
        TRY(compare_options(r, o, err));
    } else {
        TRY(take_options(r, o, err));
    }
    TRY(open_tables(r, err));
    TRY(reclaim(r, err));
    return is_new ? ll_replica__in_txn(r, LLADD_DURABLE, ll_replica__make, r, NULL, err) : 0;
}

int lladd_replica_open(struct lladd_db *db, const char *name,
                       const struct lladd_replica_options *options, struct lladd_replica **out,
                       struct lladd_error *err)
{
    struct lladd_replica_options o = LLADD_REPLICA_OPTIONS_INIT;
    struct ll_replicas *all;
    struct lladd_replica *r = NULL;
    *out = NULL;
    TRY(replicas_of(db, &all, err));
    TRY(check_name(name, err));
    if (options)
        memcpy(&o, options,
               options->struct_size < sizeof o ? options->struct_size : sizeof o);
    TRY(new_handle(all, name, &o, &r, err));
    int rc = list(r, err);
    if (rc) {
        release(r);
        return rc;
    }
    rc = fill_in(r, &o, err);
    if (rc) {
        (void)close_tables(r, NULL); /* a table that is busy stays open; rc is the cause */
        unlist(r);
        release(r);
        return rc;
    }
    *out = r;
    return 0;
}

/* Destroys the blobs of open and ended transactions; the source will send these again. */
static int drop_spilled(void *ctx, struct lladd_txn *txn)
{
    struct lladd_replica *r = ctx;
    for (const struct ll_replica_master *m = r->open.first; m; m = m->next)
        TRY(ll_replica__unspill(txn, r, m));
    for (const struct ll_replica_master *m = r->ended.first; m; m = m->next)
        TRY(ll_replica__unspill(txn, r, m));
    return 0;
}

/* Digests all rows, for the tables lose the others when they are closed, and one table might then
 * lack a transaction that another one has. */
static int settle(struct lladd_replica *r, struct lladd_error *err)
{
    for (size_t i = 0; i < r->n_tables; i++)
        TRY(digest(r->tables[i].managed, err));
    TRY(ll_replica__store(r, LLADD_DURABLE, err));
    if (!r->spilled)
        return 0;
    TRY(ll_replica__in_txn(r, LLADD_DURABLE_LATER, drop_spilled, r, NULL, err));
    ll_replica__forget(r, &r->open);
    ll_replica__forget(r, &r->ended);
    return 0;
}

int lladd_replica_close(struct lladd_replica *r, struct lladd_error *err)
{
    uint32_t none = 0;
    if (!r)
        return 0;
    TRY(lladd_check_process(r->db, err));
    if (!lladd_atomic_cas32(&r->busy, &none, 1))
        return lladd_error_set(err, LLADD_BUSY, "replica \"%s\": a thread applies events", r->name);
    if (!r->closing)
        r->unsettled.code = settle(r, &r->unsettled); /* the last call returns it */
    lladd_atomic_store32(&r->closing, 1); /* a table may be closed now */
    int closed = close_tables(r, err), rc = r->unsettled.code;
    if (closed == LLADD_BUSY) {
        lladd_atomic_store32(&r->busy, 0);
        return closed;
    }
    if (rc && err)
        *err = r->unsettled;
    unlist(r);
    release(r);
    return rc ? rc : closed;
}

/* ---- all replicas ---------------------------------------------------------------------------- */

int lladd_replica_destroy(struct lladd_txn *txn, const char *name)
{
    LLADD_USE(txn);
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct lladd_db *db = lladd_txn_db(txn);
    struct ll_replicas *all;
    struct lladd_root_value value;
    char root[LLADD_ROOT_NAME_MAX + 1];
    bool open = false;
    TRY(replicas_of(db, &all, err));
    TRY(check_name(name, err));
    lladd_mutex_lock(&all->mutex);
    for (const struct lladd_replica *r = all->first; r; r = r->next)
        open = open || strcmp(r->name, name) == 0;
    lladd_mutex_unlock(&all->mutex);
    if (open)
        return lladd_error_set(err, LLADD_BUSY, "replica \"%s\" is open", name);
    ll_replica__root_name(name, root);
    TRY(lladd_root_get(db, root, &value, err));
    struct lladd_replica unopened = {.name = (char *)(uintptr_t)name};
    struct leftovers f;
    do {
        f = (struct leftovers){.r = &unopened};
        TRY(lladd_root_each(db, see_root, &f, err));
        TRY(remove_leftovers(&f, txn));
    } while (f.n);
    TRY(lladd_blob_destroy(txn, lladd_page_of(value.a)));
    return lladd_root_delete(txn, root);
}

struct names {
    int (*fn)(void *ctx, const char *name);
    void *ctx;
};

static int see_name(void *ctx, const char *name, struct lladd_root_value value)
{
    const struct names *n = ctx;
    const size_t len = sizeof LL_REPLICA_ROOT - 1;
    (void)value;
    return strncmp(name, LL_REPLICA_ROOT, len) == 0 && !strchr(name + len, ':')
               ? n->fn(n->ctx, name + len)
               : 0;
}

int lladd_replica_each(struct lladd_db *db, int (*fn)(void *ctx, const char *name), void *ctx,
                       struct lladd_error *err)
{
    struct names n = {fn, ctx};
    return lladd_root_each(db, see_name, &n, err);
}
