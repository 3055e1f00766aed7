/* SPDX-License-Identifier: BSD-2-Clause */
/* Versions: the memtables and runs that a table consists of at one time, as in LevelDB.
 *
 * A version is immutable. A digest or a combine makes the next version; a reader keeps the version
 * that it began with. The run of a digest has only the newest row of each key up to its cutoff, but
 * an older snapshot may need older rows. Therefore the last version before the digest is retired. A
 * retired version is kept while a transaction has a snapshot from the version's own cutoff up to,
 * but not including, the digest's cutoff. It is also kept while any transaction is acquiring its
 * snapshot. Open snapshots keep no retired versions: see hold.c. */
#include "operations/dtables/managed/managed.h"

struct ll_version *ll_managed__version_new(struct lladd_db *db, uint32_t mems, uint32_t runs)
{
    size_t pointers = (size_t)mems * sizeof(struct ll_memtable *);
    struct ll_version *v =
        lladd_mem_alloc(db, sizeof *v + pointers + (size_t)runs * sizeof(struct ll_managed_run *));
    if (!v)
        return NULL;
    memset(v, 0, sizeof *v);
    v->refs = 1;
    v->mems = (struct ll_memtable **)(v + 1);
    v->runs = (struct ll_managed_run **)(v->mems + mems);
    return v;
}

void ll_managed__version_retain(struct ll_version *v)
{
    lladd_atomic_add64(&v->refs, 1);
}

void ll_managed__version_release(struct lladd_managed *t, struct ll_version *v)
{
    if (!v || lladd_atomic_sub64(&v->refs, 1) != 1)
        return;
    ll_managed__tables_free(t->db, &v->layered);
    for (uint32_t i = 0; i < v->n_mems; i++)
        ll_managed__mem_drop(v->mems[i]);
    for (uint32_t i = 0; i < v->n_runs; i++)
        ll_managed__run_drop(v->runs[i]);
    lladd_mem_free(t->db, v);
}

struct ll_version *ll_managed__version_for(struct lladd_managed *t, uint64_t snapshot)
{
    struct ll_version *v = t->view;
    if (snapshot < v->cutoff)
        for (v = t->retired; v && snapshot < v->cutoff;)
            v = v->next;
    if (v && v != t->view && snapshot >= v->until)
        v = NULL;
    if (v)
        ll_managed__version_retain(v);
    return v;
}

void ll_managed__version_set(struct lladd_managed *t, struct ll_version *v,
                             struct ll_version **gone)
{
    struct ll_version *old = t->view;
    *gone = old;
    t->view = v;
    lladd_atomic_store64(&t->cutoff, v->cutoff);
    if (!old || old->cutoff == v->cutoff)
        return;
    old->until = v->cutoff;
    old->next = t->retired;
    t->retired = old;
    if (!lladd_atomic_load32(&t->has_retired))
        lladd_atomic_add64(&t->all->retired, 1);
    lladd_atomic_store32(&t->has_retired, 1);
    *gone = NULL;
}

/* May a transaction in progress need the retired version? Called under the handle's mutex. */
static bool is_wanted(const struct ll_managed *all, const struct ll_version *v)
{
    if (all->joining)
        return true;
    for (const struct ll_managed_txn *x = all->txns; x; x = x->next)
        if (v->cutoff <= x->snapshot && x->snapshot < v->until)
            return true;
    return false;
}

/* A snapshot keeps only the version that it needs, not the versions that were retired later. */
void ll_managed__retire(struct lladd_managed *t)
{
    struct ll_version *gone = NULL, *v;
    if (!lladd_atomic_load32(&t->has_retired))
        return;
    lladd_mutex_lock(&t->all->mutex);
    lladd_mutex_lock(&t->mutex);
    for (struct ll_version **at = &t->retired; (v = *at) != NULL;) {
        if (is_wanted(t->all, v)) {
            at = &v->next;
            continue;
        }
        *at = v->next;
        v->next = gone;
        gone = v;
    }
    if (!t->retired && lladd_atomic_load32(&t->has_retired)) {
        lladd_atomic_store32(&t->has_retired, 0);
        lladd_atomic_sub64(&t->all->retired, 1);
    }
    lladd_mutex_unlock(&t->mutex);
    lladd_mutex_unlock(&t->all->mutex);
    while ((v = gone) != NULL) {
        gone = v->next;
        ll_managed__version_release(t, v);
    }
}

void ll_managed__retire_all(struct ll_managed *all)
{
    if (lladd_atomic_load64(&all->retired))
        ll_managed__each_table(all, false, ll_managed__retire);
}

void ll_managed__each_table(struct ll_managed *all, bool each, void (*what)(struct lladd_managed *))
{
    lladd_mutex_lock(&all->mutex);
    for (struct lladd_managed *t = all->tables; t; t = t->next) {
        if (t->opening || (!each && !lladd_atomic_load32(&t->has_retired)))
            continue;
        t->workers++; /* keeps the table from being closed meanwhile */
        lladd_mutex_unlock(&all->mutex);
        what(t);
        lladd_mutex_lock(&all->mutex);
        t->workers--;
        lladd_cond_broadcast(&all->idle);
    }
    lladd_mutex_unlock(&all->mutex);
}

/* ---- runs ------------------------------------------------------------------------------------ */

int ll_managed__run_open(struct lladd_managed *t, const struct lladd_managed_run *info,
                         struct ll_managed_run **out, struct lladd_error *err)
{
    struct ll_managed_run *r = lladd_mem_alloc(t->db, sizeof *r);
    if (!r)
        return ll_managed__no_memory(err);
    *r = (struct ll_managed_run){.t = t, .refs = 1, .info = *info};
    int rc = lladd_dtable_run_open(t->db, info->root, &r->table, err);
    if (!rc && (r->table->order.type != t->order.type ||
                r->table->order.comparator != t->order.comparator)) {
        rc = lladd_error_set(err, LLADD_CORRUPT_RUN,
                             "table \"%s\": the run of page %llu has keys of another type or "
                             "order",
                             t->name, (unsigned long long)info->root.v);
        lladd_dtable_close(r->table);
    }
    if (rc) {
        lladd_mem_free(t->db, r);
        return rc;
    }
    r->info.ranges = r->table->ranges;
    *out = r;
    return 0;
}

void ll_managed__run_drop(struct ll_managed_run *r)
{
    struct lladd_managed *t = r->t;
    if (lladd_atomic_sub64(&r->refs, 1) != 1)
        return;
    lladd_dtable_close(r->table);
    r->table = NULL;
    lladd_mutex_lock(&t->mutex);
    bool obsolete = r->obsolete;
    if (obsolete) {
        r->next = t->ready;
        t->ready = r;
    }
    lladd_mutex_unlock(&t->mutex);
    if (!obsolete)
        lladd_mem_free(t->db, r);
    else
        ll_managed__wake(t->all);
}

void ll_managed__run_discard(struct lladd_managed *t, struct ll_managed_run *r)
{
    if (r)
        lladd_dtable_close(r->table);
    lladd_mem_free(t->db, r);
}

/* ---- runs as tables -------------------------------------------------------------------------- */

void ll_managed__tables_free(struct lladd_db *db, struct ll_version_tables *x)
{
    while (x->n_made)
        lladd_dtable_close(x->made[--x->n_made]);
    lladd_mem_free(db, x->tables);
    *x = (struct ll_version_tables){.n = 0};
}

/* Begins with the oldest run. The tables made so far are at the end of the array. */
int ll_managed__tables_make(struct lladd_db *db, struct ll_managed_run *const *runs, uint32_t n,
                            struct ll_version_tables *x, struct lladd_error *err)
{
    uint32_t at = n;
    int rc = 0;
    *x = (struct ll_version_tables){
        .tables = lladd_mem_alloc(db, (2 * (size_t)n + 1) * sizeof *x->tables)};
    if (!x->tables)
        return ll_managed__no_memory(err);
    x->made = x->tables + n;
    for (uint32_t i = n; i-- > 0 && !rc;) {
        if (!runs[i]->over || at == n) {
            x->tables[--at] = runs[i]->table;
            continue;
        }
        rc = lladd_dtable_version(db, runs[i]->table, x->tables[at], &x->tables[at], err);
        if (!rc)
            x->made[x->n_made++] = x->tables[at];
    }
    x->n = n - at;
    memmove(x->tables, x->tables + at, x->n * sizeof *x->tables);
    if (rc)
        ll_managed__tables_free(db, x);
    return rc;
}

/* ---- lookups --------------------------------------------------------------------------------- */

static bool run_may_have(const struct ll_managed_run *r, const struct lladd_dtable_key *key)
{
    return lladd_dtable_key_range_has(&r->table->key_range,
                                      lladd_dtable_prefix(&r->table->order, key));
}

/* Asks the memtables, then the runs, from number `i` on in this order. Not inlined, so that the
 * caller saves no registers if only the last run can have the key. */
static __attribute__((noinline)) int ask_from(const struct ll_version *v, uint32_t i,
                                              uint64_t snapshot, const struct lladd_dtable_key *key,
                                              struct lladd_dtable_pin *pin,
                                              struct lladd_dtable_value *out,
                                              struct lladd_error *err)
{
    for (; i < v->n_mems; i++)
        if (!ll_managed__version_skips(v, v->mems[i], key) &&
            ll_managed__mem_ask(v->mems[i], key, v->cutoff, snapshot, out))
            return 0;
    int rc = 0;
    out->state = LLADD_DTABLE_ABSENT;
    for (i -= v->n_mems; i < v->n_runs && !rc && out->state == LLADD_DTABLE_ABSENT; i++)
        if (run_may_have(v->runs[i], key))
            rc = lladd_dtable_ask(v->runs[i]->table, key, pin, out, err);
    return rc;
}

static int ask_layered(const struct ll_version_tables *x, const struct lladd_dtable_key *key,
                       struct lladd_dtable_pin *pin, struct lladd_dtable_value *out,
                       struct lladd_error *err)
{
    int rc = 0;
    out->state = LLADD_DTABLE_ABSENT;
    for (uint32_t i = 0; i < x->n && !rc && out->state == LLADD_DTABLE_ABSENT; i++)
        rc = lladd_dtable_ask(x->tables[i], key, pin, out, err);
    return rc;
}

int ll_managed__version_get(const struct ll_version *v, uint64_t snapshot,
                            const struct lladd_dtable_key *key, struct lladd_dtable_pin *pin,
                            struct lladd_dtable_value *out, struct lladd_error *err)
{
    uint32_t i = 0;
    if (v->layered.tables)
        return ask_layered(&v->layered, key, pin, out, err);
    while (i < v->n_mems && ll_managed__version_skips(v, v->mems[i], key))
        i++;
    if (i < v->n_mems)
        return ask_from(v, i, snapshot, key, pin, out, err);
    i = 0;
    while (i < v->n_runs && !run_may_have(v->runs[i], key))
        i++;
    if (i + 1 == v->n_runs)
        return lladd_dtable_ask(v->runs[i]->table, key, pin, out, err);
    return ask_from(v, v->n_mems + i, snapshot, key, pin, out, err);
}

int ll_managed__version_columns(const struct ll_version *v, const struct lladd_dtable_key *key,
                                const struct lladd_dtable_columns *want,
                                enum lladd_dtable_state *state, struct lladd_error *err)
{
    int rc = 0;
    for (uint32_t i = 0; i < v->layered.n && !rc && *state == LLADD_DTABLE_ABSENT; i++)
        rc = lladd_dtable_lookup_columns(v->layered.tables[i], key, want, state, err);
    if (v->layered.tables)
        return rc;
    for (uint32_t i = 0; i < v->n_runs && !rc && *state == LLADD_DTABLE_ABSENT; i++)
        if (run_may_have(v->runs[i], key))
            rc = lladd_dtable_lookup_columns(v->runs[i]->table, key, want, state, err);
    return rc;
}
