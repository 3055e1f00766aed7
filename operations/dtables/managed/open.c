/* SPDX-License-Identifier: BSD-2-Clause */
/* Opening a table and closing it. */
#include "operations/dtables/managed/managed.h"

struct lladd_managed *ll_managed__open_one(const struct ll_managed *all, const char *name)
{
    struct lladd_managed *t = all->tables;
    while (t && strcmp(t->name, name) != 0)
        t = t->next;
    return t;
}

static void forget(struct lladd_managed *t)
{
    struct ll_managed *all = t->all;
    lladd_mutex_lock(&all->mutex);
    struct lladd_managed **at = &all->tables;
    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    lladd_mutex_unlock(&all->mutex);
}

void ll_managed__table_free(struct lladd_managed *t)
{
    struct lladd_db *db = t->db;
    if (t->retired)
        lladd_atomic_sub64(&t->all->retired, 1);
    for (struct ll_version *v = t->retired, *next; v; v = next) {
        next = v->next;
        ll_managed__version_release(t, v);
    }
    for (struct ll_version *v = t->held, *next; v; v = next) {
        next = v->next;
        ll_managed__version_release(t, v);
    }
    ll_managed__version_release(t, t->view);
    for (struct ll_managed_run *r = t->ready, *next; r; r = next) {
        next = r->next;
        lladd_mem_free(db, r);
    }
    for (struct ll_use *u = t->free_uses, *next; u; u = next) {
        next = u->next;
        lladd_mem_free(db, u->scratch);
        lladd_mem_free(db, u);
    }
    lladd_mem_free(db, t->companion);
    lladd_dtable_config_free(t->config[0]);
    lladd_dtable_config_free(t->config[1]);
    ll_managed__manifest_free(&t->manifest);
    lladd_cond_destroy(&t->changed);
    lladd_mutex_destroy(&t->mutex);
    lladd_mutex_destroy(&t->swap);
    lladd_mem_free(db, t->name);
    lladd_mem_free(db, t);
}

static int new_table(struct ll_managed *all, const char *name, struct lladd_managed **out)
{
    struct lladd_managed *t = lladd_mem_alloc(all->db, sizeof *t);
    size_t len = strlen(name) + 1;
    if (!t)
        return LLADD_NO_MEMORY;
    memset(t, 0, sizeof *t);
    t->all = all;
    t->db = all->db;
    t->manifest.db = all->db;
    t->opening = true;
    t->name = lladd_mem_alloc(all->db, len);
    if (!t->name)
        goto no_name;
    memcpy(t->name, name, len);
    if (lladd_mutex_init(&t->swap, LL_MANAGED_RANK_SWAP, "managed runs"))
        goto no_swap;
    if (lladd_mutex_init(&t->mutex, LL_MANAGED_RANK_TABLE, "managed table"))
        goto no_mutex;
    if (lladd_cond_init(&t->changed))
        goto no_cond;
    *out = t;
    return 0;
no_cond:
    lladd_mutex_destroy(&t->mutex);
no_mutex:
    lladd_mutex_destroy(&t->swap);
no_swap:
    lladd_mem_free(all->db, t->name);
no_name:
    lladd_mem_free(all->db, t);
    return LLADD_NO_MEMORY;
}

int ll_managed__read_config(struct lladd_managed *t, const char *text,
                            struct lladd_dtable_config **out, struct lladd_error *err)
{
    *out = NULL;
    if (!*text)
        return 0;
    int rc = lladd_dtable_config_parse(t->db, text, out, err);
    return rc ? rc : lladd_dtable_config_check(*out, t->order.type, err);
}

void ll_managed__take_triggers(struct lladd_managed *t, const struct ll_manifest *m)
{
    lladd_atomic_store64(&t->memory_bytes, m->memory_bytes);
    lladd_atomic_store64(&t->max_rows, m->max_rows);
    lladd_atomic_store32(&t->every, m->every);
    lladd_atomic_store32(&t->schedule, (uint32_t)m->schedule);
}

/* Makes the first version: an empty memtable, and the table's runs. Lists the obsolete runs to be
 * freed. */
static int first_view(struct lladd_managed *t, struct lladd_error *err)
{
    const struct ll_manifest *m = &t->manifest;
    struct ll_memtable *mem;
    int rc = 0;
    t->view = ll_managed__version_new(t->db, 1, m->n_runs);
    if (!t->view || ll_managed__mem_new(t->db, &t->order, &mem))
        return ll_managed__no_memory(err);
    t->view->cutoff = t->cutoff = m->cutoff;
    t->view->mems[t->view->n_mems++] = mem;
    for (uint32_t i = 0; !rc && i < m->n_runs; i++) {
        rc = ll_managed__run_open(t, &m->runs[i], &t->view->runs[i], err);
        t->view->n_runs += rc == 0;
        if (rc)
            break;
        /* The manifest does not store the number of ranges. */
        t->manifest.runs[i].ranges = t->view->runs[i]->info.ranges;
        t->view->runs[i]->age[0] = t->view->runs[i]->age[1] = m->n_runs - i;
    }
    t->flushes = m->n_runs;
    for (uint32_t i = 0; !rc && i < m->n_obsolete; i++) {
        struct ll_managed_run *r = lladd_mem_alloc(t->db, sizeof *r);
        if (!r)
            return ll_managed__no_memory(err);
        *r = (struct ll_managed_run){
            .t = t, .info.root = m->obsolete[i], .obsolete = true, .next = t->ready};
        t->ready = r;
    }
    return rc;
}

/* Makes the manifest durable that was read: a flush before the table was closed does not wait for
 * its commit, and the position of an open table counts as durable. */
static int force_commits(struct lladd_db *db, struct lladd_error *err)
{
    lladd_lsn now;
    TRY(lladd_snapshot_acquire(db, &now, err));
    TRY(lladd_snapshot_release(db, now));
    return now.v ? lladd_log_force(db, now, err) : 0;
}

static int load(struct lladd_managed *t, struct lladd_error *err)
{
    struct ll_manifest *m = &t->manifest;
    TRY(ll_managed__row_read(t->all, t->name, m, err));
    t->tag = m->tag;
    t->unlogged = m->flags & LLADD_MANAGED_UNLOGGED;
    t->committed = t->durable = m->position;
    TRY(t->unlogged ? force_commits(t->db, err) : 0);
    ll_managed__take_triggers(t, m);
    t->fresh = m->fresh;
    t->digested_ns = lladd_now_ns(t->db);
    const char *comparator = m->texts[LL_MANIFEST_COMPARATOR];
    TRY(lladd_dtable_order_of(t->db, m->type, *comparator ? comparator : NULL, &t->order, err));
    TRY(ll_managed__read_config(t, m->texts[LL_MANIFEST_CONFIG], &t->config[0], err));
    TRY(ll_managed__read_config(t, m->texts[LL_MANIFEST_COMBINE], &t->config[1], err));
    TRY(first_view(t, err));
    struct lladd_journal_attachment a = {t->tag, &ll_managed__owner, t};
    int rc = lladd_journal_attach(t->db, &a, 1, err);
    t->replayed = NULL;
    return rc;
}

int lladd_managed_open(struct lladd_db *db, const char *name, struct lladd_managed **out,
                       struct lladd_error *err)
{
    struct lladd_managed *t = NULL, *there;
    struct ll_managed *all;
    TRY(ll_managed__of(db, &all, err));
    if (!name || strlen(name) > LLADD_MANAGED_NAME_MAX)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "no table has such a name");
    if (new_table(all, name, &t))
        return ll_managed__no_memory(err);
    lladd_mutex_lock(&all->mutex);
    there = ll_managed__open_one(all, name);
    bool busy = there && there->opening;
    if (there && !busy)
        there->opens++;
    if (!there) {
        t->first = all->opened + 1;
        t->next = all->tables;
        all->tables = t;
    }
    lladd_mutex_unlock(&all->mutex);
    if (there) {
        ll_managed__table_free(t);
        if (busy)
            return lladd_error_set(err, LLADD_BUSY, "table \"%s\" is being opened or closed", name);
        *out = there;
        return 0;
    }
    int rc = load(t, err);
    /* The catalogue shows uncommitted changes: a transaction that drops the table may already have
     * removed the table's row or runs. */
    if ((rc == LLADD_NOT_FOUND || rc == LLADD_DESTROYED) && ll_managed__is_changing(db, name))
        rc = lladd_error_set(err, LLADD_BUSY, "table \"%s\" is being made or dropped", name);
    if (rc) {
        forget(t);
        ll_managed__table_free(t);
        return rc;
    }
    lladd_mutex_lock(&all->mutex);
    t->opening = false;
    t->opens = 1;
    lladd_mutex_unlock(&all->mutex);
    ll_managed__wake(all);
    *out = t;
    return 0;
}

/* ---- closing --------------------------------------------------------------------------------- */

/* Keeps new work from starting, and waits for work in progress. LLADD_BUSY if transactions use the
 * table. */
static int quiet(struct lladd_managed *t, struct lladd_error *err)
{
    struct ll_managed *all = t->all;
    lladd_mutex_lock(&t->mutex);
    bool used = t->users != 0;
    t->closing = !used;
    lladd_mutex_unlock(&t->mutex);
    if (used)
        return lladd_error_set(err, LLADD_BUSY,
                               "table \"%s\" is used by transactions or open snapshots", t->name);
    lladd_atomic_store32(&t->hurry, 1);
    lladd_mutex_lock(&t->mutex);
    lladd_cond_broadcast(&t->changed); /* a flush may be waiting for a compaction (level.c) */
    lladd_mutex_unlock(&t->mutex);
    lladd_mutex_lock(&all->mutex);
    while (t->workers)
        lladd_cond_wait(&all->idle, &all->mutex);
    lladd_mutex_unlock(&all->mutex);
    lladd_mutex_lock(&t->mutex);
    while (t->digesting || t->combining || t->freeing)
        lladd_cond_wait(&t->changed, &t->mutex);
    lladd_mutex_unlock(&t->mutex);
    return 0;
}

int lladd_managed_close(struct lladd_managed *t, struct lladd_error *err)
{
    struct ll_managed *all = t->all;
    TRY(lladd_check_process(t->db, err));
    lladd_mutex_lock(&all->mutex);
    bool last = t->opens == 1;
    if (!last)
        t->opens--;
    else
        t->opening = true; /* an open that begins now returns LLADD_BUSY */
    lladd_mutex_unlock(&all->mutex);
    if (!last)
        return 0;
    int rc = quiet(t, err);
    if (!rc)
        rc = lladd_journal_detach(t->db, t->tag, err);
    if (!rc) {
        forget(t);
        ll_managed__table_free(t);
        return 0;
    }
    lladd_mutex_lock(&t->mutex);
    t->closing = false;
    lladd_mutex_unlock(&t->mutex);
    lladd_atomic_store32(&t->hurry, 0);
    lladd_mutex_lock(&all->mutex);
    t->opening = false;
    lladd_mutex_unlock(&all->mutex);
    ll_managed__unhold(t); /* of snapshots that were closed meanwhile */
    return rc;
}
