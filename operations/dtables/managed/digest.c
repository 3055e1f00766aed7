/* SPDX-License-Identifier: BSD-2-Clause */
/* Digests, combines, and freeing runs that are no longer read. Each is a system transaction that
 * ends with a new manifest and, if it commits, a new version. (In LSM terms, a digest is a flush of
 * memtables into a sorted run, and a combine is a compaction.)
 *
 *   DIG-1  The cutoff C is a visible commit, read before the memtable that is written to is
 *          replaced. So transactions that write to the new memtable commit after C, and the
 *          versions up to C in the older memtables no longer change.
 *   DIG-2  One transaction builds the run, discards the journal's entries up to C and stores the
 *          manifest: after a crash either the entries are there or the run is.
 *   DIG-3  A memtable leaves the version when no transaction writes to it and all was committed
 *          up to C.
 *   DIG-4  Inputs of a combine are neighbours in age. Tombstones and ranges are dropped if and only
 *          if the inputs include the oldest run.
 *   DIG-5  A replaced run is listed in the manifest as obsolete, and is freed when no version
 *          has it any more. So a crash loses no pages.
 *
 * Everything that can fail is done before the commit: when the transaction commits, the new run is
 * open and the memory for the version is allocated. */
#include "operations/dtables/managed/managed.h"

/* A change of a table in progress. */
struct change {
    struct lladd_managed *t;
    struct lladd_txn *txn;
    struct ll_manifest next;
    struct ll_version *view;
    struct ll_extents *made; /* NULL: there was nothing to store */
    struct ll_version *from; /* held: the input */
    uint32_t first, inputs;  /* of a combine: from->runs[first...] */
    bool ended;              /* the transaction has ended */
    lladd_lsn commit;
    struct lladd_error why; /* code not 0: it was aborted */
};

/* ---- building -------------------------------------------------------------------------------- */

static int add_rows(struct lladd_managed *t, struct lladd_dtable_run_builder *b,
                    struct lladd_dtable_cursor *c, bool drop, uint64_t *rows,
                    struct lladd_error *err)
{
    struct lladd_dtable_key key;
    struct lladd_dtable_value v;
    int rc = lladd_dtable_first(c, err);
    for (; !rc; rc = lladd_dtable_next(c, err)) {
        rc = lladd_dtable_row(c, &key, &v, err);
        if (rc)
            return rc;
        if (drop && v.state == LLADD_DTABLE_TOMBSTONE)
            continue;
        rc = lladd_dtable_run_add(b, &key, &v);
        if (rc)
            return rc;
        /* Every 1024 rows: closing the table need not wait for the whole run. */
        if ((++*rows & 1023) == 0 && lladd_atomic_load32(&t->hurry))
            return lladd_error_set(err, LLADD_BUSY, "table \"%s\" is being closed", t->name);
    }
    return rc == LLADD_END ? 0 : rc;
}

static int begin_run(struct change *c, const struct lladd_dtable_config *config,
                     struct lladd_dtable_run_builder **out)
{
    struct lladd_managed *t = c->t;
    struct lladd_dtable_run_options o = LLADD_DTABLE_RUN_OPTIONS_INIT;
    char name[64] = {0};
    size_t len = strlen(t->name);
    memcpy(name, t->name, len < sizeof name ? len : sizeof name - 1);
    o.type = t->order.type;
    o.comparator = t->order.comparator ? t->order.comparator->name : NULL;
    o.config = config;
    o.name = name;
    return lladd_dtable_run_begin(c->txn, &o, out);
}

/* Builds a run of all rows, and of all ranges if there are any. */
static int build_as(struct change *c, const struct lladd_dtable *from,
                    const struct lladd_dtable_config *config, bool drop, lladd_pageno *root)
{
    struct lladd_error *err = lladd_txn_error_out(c->txn);
    struct lladd_dtable_run_builder *b;
    struct lladd_dtable_cursor *rows;
    uint64_t n = 0;
    root->v = LLADD_NO_PAGE;
    int rc = lladd_dtable_cursor_open(from, LLADD_DTABLE_TOMBSTONES, &rows, err);
    if (rc)
        return rc;
    rc = begin_run(c, config, &b);
    if (!rc) {
        rc = add_rows(c->t, b, rows, drop, &n, err);
        if (!rc && !drop)
            rc = ll_managed__add_ranges(b, from, &n, err);
        if (!rc && n)
            rc = lladd_dtable_run_finish(b, root);
        if (rc || !n) {
            struct lladd_error why = *lladd_txn_error(c->txn);
            int discarded = lladd_dtable_run_discard(b);
            if (rc && !discarded)
                *err = why;
            rc = discarded ? discarded : rc; /* its pages are not free: this may not commit */
        }
    }
    lladd_dtable_cursor_close(rows);
    return rc;
}

/* Builds with the given configuration or, if there are ranges to store, with a ranges_dtable around
 * it. */
static int build_in(struct change *c, const struct lladd_dtable *from,
                    const struct lladd_dtable_config *config, bool drop, lladd_pageno *root)
{
    struct lladd_error *err = lladd_txn_error_out(c->txn);
    struct lladd_dtable_config *around = NULL;
    bool ranges = false;
    int rc = drop ? 0 : ll_managed__any_ranges(from, &ranges, err);
    if (!rc && ranges && !(config && lladd_dtable_caps_get(config)->ranges))
        rc = ll_managed__around(c->t, config, &around, err);
    if (!rc)
        rc = build_as(c, from, around ? around : config, drop, root);
    lladd_dtable_config_free(around);
    return rc;
}

/* True if the error is about the rows, not the table: the configuration rejects a value, keys are
 * too far apart, a placeholder does not fit. Or the configuration is so large or so deep that no
 * ranges_dtable fits around it. */
static bool is_refusal(int rc)
{
    return rc == LLADD_REJECTED || rc == LLADD_OUT_OF_RANGE || rc == LLADD_BAD_STATE ||
           rc == LLADD_BAD_CONFIG;
}

/* A configuration that refuses rows, although it was asked when they were put, does not stop
 * digests: the run is then built as a linear_dtable, which accepts everything, also within a
 * ranges_dtable. */
static int build(struct change *c, struct lladd_dtable *const *tables, size_t n,
                 const struct lladd_dtable_config *config, bool drop)
{
    struct lladd_managed *t = c->t;
    struct lladd_error *err = lladd_txn_error_out(c->txn);
    struct lladd_dtable_run_info info = {.struct_size = sizeof info};
    struct lladd_managed_run run = {.generation = 0};
    struct lladd_dtable *from;
    int rc = lladd_dtable_overlay(t->db, tables, n, &from, err);
    if (rc)
        return rc;
    rc = build_in(c, from, config, drop, &run.root);
    if (is_refusal(rc) && config)
        rc = build_in(c, from, NULL, drop, &run.root);
    lladd_dtable_close(from);
    if (rc || run.root.v == LLADD_NO_PAGE)
        return rc;
    rc = ll_managed__run_open(t, &run, &c->made, err);
    if (!rc)
        rc = lladd_dtable_run_info_get(c->made->table, &info, err);
    if (rc)
        return rc;
    c->made->info.rows = info.rows;
    c->made->info.tombstones = info.tombstones;
    c->made->info.bytes = info.bytes;
    c->made->info.pages = info.pages;
    return 0;
}

/* ---- from one manifest to the next ----------------------------------------------------------- */

static int begin(struct change *c, bool frees_log, struct lladd_error *err)
{
    struct lladd_txn_options o = LLADD_TXN_OPTIONS_INIT;
    o.system = true;
    o.frees_log = frees_log;
    o.durability = LLADD_DURABLE_LATER; /* the next commit makes both durable */
    return lladd_begin(c->t->db, &o, &c->txn, err);
}

/* Rolls the change back. The new run goes first: it must not be open when its pages are freed. */
static int give_up(struct change *c, int rc)
{
    struct lladd_managed *t = c->t;
    if (c->made) {
        lladd_dtable_close(c->made->table);
        lladd_mem_free(t->db, c->made);
        c->made = NULL;
    }
    if (c->ended)
        return lladd_db_error(t->db, &c->why); /* poisoned */
    c->why = *lladd_txn_error(c->txn);
    c->ended = true;
    return lladd_abort(c->txn) ? lladd_db_error(t->db, &c->why) : rc;
}

/* Releases everything; on an error rolls back first. */
static int end(struct change *c, int rc, struct lladd_error *err)
{
    struct lladd_managed *t = c->t;
    if (rc && !c->why.code)
        rc = give_up(c, rc);
    if (rc && err)
        *err = c->why;
    ll_managed__version_release(t, c->from);
    if (rc)
        ll_managed__version_release(t, c->view);
    ll_managed__manifest_free(&c->next);
    return rc;
}

/* Stores the next manifest and commits, or rolls back; both under `swap`. */
static int store(struct change *c)
{
    struct lladd_managed *t = c->t;
    int rc = ll_managed__row_write(c->txn, t->all, t->name, &c->next);
    if (!rc)
        rc = lladd_commit_async(c->txn, &c->commit);
    c->ended = rc == 0 || lladd_code_root(rc) == LLADD_ROOT_POISONED;
    if (rc)
        return give_up(c, rc);
    struct ll_manifest old = t->manifest;
    lladd_mutex_lock(&t->mutex); /* statistics read it */
    t->manifest = c->next;
    lladd_mutex_unlock(&t->mutex);
    lladd_atomic_store64(&t->fresh, c->next.fresh);
    c->next = old;
    return 0;
}

static void add_run(struct ll_version *v, struct ll_extents *r)
{
    lladd_atomic_add64(&r->refs, 1);
    v->runs[v->n_runs++] = r;
}

static void add_mem(struct ll_version *v, struct ll_memtable *m)
{
    lladd_atomic_add64(&m->refs, 1);
    v->mems[v->n_mems++] = m;
}

/* Fills the next version: the current one without the digested memtables, with replaced runs
 * exchanged. Under `swap` and the mutex. */
static void fill(struct change *c, bool digest)
{
    const struct ll_version *now = c->t->view;
    struct ll_version *v = c->view;
    uint32_t skipped = 0;
    v->cutoff = c->t->manifest.cutoff;
    for (uint32_t i = 0; i < now->n_mems; i++) {
        struct ll_memtable *m = now->mems[i];
        if (i == 0 || !digest || lladd_atomic_load64(&m->writers) ||
            lladd_atomic_load64(&m->newest) > v->cutoff)
            add_mem(v, m);
    }
    if (c->made && digest)
        add_run(v, c->made);
    for (uint32_t i = 0; i < now->n_runs; i++) {
        struct ll_extents *r = now->runs[i];
        bool input = false;
        for (uint32_t k = 0; k < c->inputs; k++)
            input = input || c->from->runs[c->first + k] == r;
        if (!input) {
            add_run(v, r);
            continue;
        }
        r->obsolete = true;
        if (skipped++ == 0 && c->made)
            add_run(v, c->made);
    }
}

/* Allocates the version, and copies the manifest to start from. Under `swap`. */
static int prepare(struct change *c, uint32_t obsolete)
{
    struct lladd_managed *t = c->t;
    c->view = ll_managed__version_new(t->db, t->view->n_mems + 1, t->view->n_runs + 1);
    if (!c->view || ll_managed__manifest_copy(&t->manifest, obsolete, &c->next))
        return ll_managed__no_memory(lladd_txn_error_out(c->txn));
    c->next.generation += c->made != NULL;
    if (c->made)
        c->made->info.generation = t->manifest.generation;
    return 0;
}

static void install(struct change *c, bool digest)
{
    struct lladd_managed *t = c->t;
    struct ll_version *gone;
    lladd_mutex_lock(&t->mutex);
    fill(c, digest);
    ll_managed__version_set(t, c->view, &gone);
    lladd_mutex_unlock(&t->mutex);
    ll_managed__version_release(t, gone);
    if (c->made)
        ll_managed__run_drop(c->made); /* the version holds it */
}

/* ---- digests --------------------------------------------------------------------------------- */

/* With this many memtables no new one is begun, so that a digest that keeps failing makes no
 * more. */
enum { MEMTABLES = 8 };

/* Starts a digest (DIG-1): afterwards, what the version has up to *cutoff is to be digested. */
static int freeze(struct change *c, uint64_t *cutoff, struct lladd_error *err)
{
    struct lladd_managed *t = c->t;
    struct ll_memtable *m = NULL;
    struct ll_version *v = NULL, *gone = NULL;
    lladd_lsn now;
    int rc = lladd_snapshot_acquire(t->db, &now, err);
    if (rc)
        return rc;
    (void)lladd_snapshot_release(t->db, now); /* cannot fail: the snapshot was just acquired */
    *cutoff = now.v;
    lladd_mutex_lock(&t->swap);
    if (t->view->n_mems < MEMTABLES) {
        v = ll_managed__version_new(t->db, t->view->n_mems + 1, t->view->n_runs);
        rc = v ? ll_managed__mem_new(t->db, &t->order, &m) : LLADD_NO_MEMORY;
    }
    lladd_mutex_lock(&t->mutex);
    if (m) {
        v->cutoff = t->view->cutoff;
        v->mems[v->n_mems++] = m;
        for (uint32_t i = 0; i < t->view->n_mems; i++)
            add_mem(v, t->view->mems[i]);
        for (uint32_t i = 0; i < t->view->n_runs; i++)
            add_run(v, t->view->runs[i]);
        ll_managed__version_set(t, v, &gone);
        v = NULL;
    }
    c->from = t->view;
    ll_managed__version_retain(c->from);
    lladd_mutex_unlock(&t->mutex);
    lladd_mutex_unlock(&t->swap);
    ll_managed__version_release(t, gone);
    ll_managed__version_release(t, v);
    return rc ? ll_managed__no_memory(err) : 0;
}

/* Done first: it fails if another transaction is changing the tag, and then no run was built in
 * vain. */
static int discard(struct change *c, uint64_t cutoff)
{
    lladd_lsn newest;
    int rc = lladd_journal_newest(c->t->db, c->t->tag, &newest, lladd_txn_error_out(c->txn));
    if (rc || newest.v == 0)
        return rc;
    return lladd_journal_discard(c->txn, c->t->tag,
                                 lladd_lsn_of(newest.v < cutoff ? newest.v : cutoff));
}

static int build_digest(struct change *c, uint64_t cutoff)
{
    struct lladd_managed *t = c->t;
    const struct ll_version *v = c->from;
    struct ll_snapshot_iter *slices = lladd_mem_alloc(t->db, v->n_mems * sizeof *slices);
    struct lladd_dtable **tables = lladd_mem_alloc(t->db, v->n_mems * sizeof *tables);
    int rc = slices && tables ? 0 : ll_managed__no_memory(lladd_txn_error_out(c->txn));
    for (uint32_t i = 0; !rc && i < v->n_mems; i++) {
        ll_managed__snapshot_iter(&slices[i], t, v->mems[i], v->cutoff, cutoff);
        tables[i] = &slices[i].base;
    }
    if (!rc)
        rc = build(c, tables, v->n_mems, t->config[0], v->n_runs == 0);
    lladd_mem_free(t->db, slices);
    lladd_mem_free(t->db, tables);
    return rc;
}

static int swap_digest(struct change *c, uint64_t cutoff)
{
    struct lladd_managed *t = c->t;
    lladd_mutex_lock(&t->swap);
    int rc = prepare(c, 0);
    if (!rc) {
        if (c->made) {
            memmove(c->next.runs + 1, c->next.runs, c->next.n_runs++ * sizeof *c->next.runs);
            c->next.runs[0] = c->made->info;
            c->next.fresh++;
        }
        c->next.cutoff = cutoff;
        c->next.digests++;
        rc = store(c);
    }
    if (!rc)
        install(c, true);
    lladd_mutex_unlock(&t->swap);
    return rc;
}

/* The journal asks only once, so a digest that failed sets the request again. */
static void ask_again(struct lladd_managed *t, uint32_t asked)
{
    if (asked)
        lladd_atomic_store32(&t->asked, 1);
}

int ll_managed__digest_now(struct lladd_managed *t, struct lladd_error *err)
{
    struct change c = {.t = t, .next.db = t->db};
    uint64_t cutoff, bytes = lladd_atomic_load64(&t->pending_bytes),
                     rows = lladd_atomic_load64(&t->pending_rows);
    lladd_mutex_lock(&t->mutex);
    bool any =
        lladd_atomic_load64(&t->newest) > t->view->cutoff || bytes >= t->manifest.memory_bytes;
    lladd_mutex_unlock(&t->mutex);
    uint32_t asked = lladd_atomic_load32(&t->asked);
    lladd_atomic_store32(&t->asked, 0);
    if (!any)
        return 0;
    int rc = freeze(&c, &cutoff, err);
    if (!rc)
        rc = begin(&c, true, err); /* it lets the journal release log space */
    if (rc) {
        ll_managed__version_release(t, c.from);
        ask_again(t, asked);
        return rc;
    }
    rc = discard(&c, cutoff);
    if (!rc)
        rc = build_digest(&c, cutoff);
    if (!rc)
        rc = swap_digest(&c, cutoff);
    rc = end(&c, rc, err);
    if (rc) {
        ask_again(t, asked);
        return rc;
    }
    lladd_atomic_sub64(&t->pending_bytes, bytes);
    lladd_atomic_sub64(&t->pending_rows, rows);
    ll_managed__retire(t);
    return 0;
}

/* ---- combines -------------------------------------------------------------------------------- */

/* Where the inputs begin now: digests may have added newer runs. */
static int place(const struct change *c, uint32_t *out)
{
    const struct ll_manifest *m = &c->next;
    uint32_t i = 0, k = 0;
    while (i < m->n_runs && m->runs[i].generation != c->from->runs[c->first]->info.generation)
        i++;
    *out = i;
    while (k < c->inputs && i + k < m->n_runs &&
           m->runs[i + k].generation == c->from->runs[c->first + k]->info.generation)
        k++;
    return k == c->inputs
               ? 0
               : lladd_error_set(lladd_txn_error_out(c->txn), LLADD_BAD_RECORD,
                                 "table \"%s\": two runs have one generation", c->t->name);
}

static int swap_combine(struct change *c, uint32_t fresh)
{
    struct lladd_managed *t = c->t;
    uint32_t i;
    lladd_mutex_lock(&t->swap);
    int rc = prepare(c, c->inputs);
    if (!rc)
        rc = place(c, &i);
    if (!rc) {
        struct ll_manifest *m = &c->next;
        uint32_t kept = c->made != NULL;
        for (uint32_t k = 0; k < c->inputs; k++)
            m->obsolete[m->n_obsolete++] = m->runs[i + k].root;
        memmove(m->runs + i + kept, m->runs + i + c->inputs,
                (m->n_runs - i - c->inputs) * sizeof *m->runs);
        m->n_runs -= c->inputs - kept;
        if (c->made)
            m->runs[i] = c->made->info;
        m->fresh -= fresh < m->fresh ? fresh : m->fresh;
        m->combines++;
        rc = store(c);
    }
    if (!rc)
        install(c, false);
    lladd_mutex_unlock(&t->swap);
    return rc;
}

int ll_managed__combine_now(struct lladd_managed *t, uint32_t first, uint32_t n,
                            struct lladd_error *err)
{
    struct change c = {.t = t, .next.db = t->db, .first = first, .inputs = n};
    uint32_t fresh;
    lladd_mutex_lock(&t->mutex);
    c.from = t->view;
    ll_managed__version_retain(c.from);
    fresh = (uint32_t)t->manifest.fresh;
    lladd_mutex_unlock(&t->mutex);
    if (n == 0 || first >= c.from->n_runs)
        c.inputs = n = 0;
    else if (n > c.from->n_runs - first)
        c.inputs = n = c.from->n_runs - first;
    int rc = n ? begin(&c, false, err) : 0;
    if (rc || !n) {
        ll_managed__version_release(t, c.from);
        return rc;
    }
    struct lladd_dtable **tables = lladd_mem_alloc(t->db, n * sizeof *tables);
    if (!tables)
        rc = ll_managed__no_memory(lladd_txn_error_out(c.txn));
    for (uint32_t i = 0; !rc && i < n; i++)
        tables[i] = c.from->runs[first + i]->table;
    if (!rc)
        rc = build(&c, tables, n, t->config[1] ? t->config[1] : t->config[0],
                   first + n == c.from->n_runs);
    lladd_mem_free(t->db, tables);
    if (!rc)
        rc = swap_combine(&c, fresh);
    return end(&c, rc, err);
}

/* ---- changing only the manifest -------------------------------------------------------------- */

int ll_managed__manifest_edit(struct lladd_managed *t,
                              int (*edit)(void *ctx, struct lladd_txn *, struct ll_manifest *),
                              void *ctx, lladd_lsn *commit, struct lladd_error *err)
{
    struct change c = {.t = t, .next.db = t->db};
    int rc = begin(&c, false, err);
    if (rc)
        return rc;
    lladd_mutex_lock(&t->swap);
    if (ll_managed__manifest_copy(&t->manifest, 0, &c.next))
        rc = ll_managed__no_memory(lladd_txn_error_out(c.txn));
    if (!rc)
        rc = edit(ctx, c.txn, &c.next);
    if (!rc)
        rc = store(&c);
    lladd_mutex_unlock(&t->swap);
    if (commit)
        *commit = c.commit;
    return end(&c, rc, err);
}

/* ---- freeing --------------------------------------------------------------------------------- */

static int free_run(void *ctx, struct lladd_txn *txn, struct ll_manifest *m)
{
    const struct ll_extents *r = ctx;
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->n_obsolete; i++)
        if (m->obsolete[i].v != r->info.root.v)
            m->obsolete[n++] = m->obsolete[i];
    m->n_obsolete = n;
    return lladd_dtable_run_free(txn, r->info.root);
}

/* Frees one run. Its pages are reused only when this commit is durable; then so is the commit that
 * replaced the run. */
int ll_managed__free_now(struct lladd_managed *t, struct lladd_error *err)
{
    lladd_mutex_lock(&t->mutex);
    struct ll_extents *r = t->ready;
    if (r)
        t->ready = r->next;
    lladd_mutex_unlock(&t->mutex);
    if (!r)
        return 0;
    int rc = ll_managed__manifest_edit(t, free_run, r, NULL, err);
    lladd_mutex_lock(&t->mutex);
    t->free_failed = rc != 0;
    if (rc) { /* to the end of the list: other runs have their turn before it is tried again */
        struct ll_extents **last = &t->ready;
        while (*last)
            last = &(*last)->next;
        r->next = NULL;
        *last = r;
    }
    lladd_mutex_unlock(&t->mutex);
    if (!rc)
        lladd_mem_free(t->db, r);
    return rc;
}
