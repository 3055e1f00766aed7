/* SPDX-License-Identifier: BSD-2-Clause */
/* What merges do for open snapshots: they store what the snapshots see and the new run has not.
 *
 * A merge is a flush that absorbs the newest run, or a compaction. The runs that it replaces may be
 * in held versions (hold.c). For each of these snapshots the merge also builds a *difference*: a
 * run of the class versions_dtable, with the rows of the snapshot that differ from those of the new
 * run. Then the held version becomes the difference, the new run, and the runs that the merge has
 * not read. So a snapshot keeps no run that was replaced, only the versions of rows that have
 * changed since.
 *
 * Several snapshots share rows: the difference of a snapshot is against what the next newer
 * snapshot sees, and only the difference of the newest one is against the new run. Each version of
 * a row is stored once, however many snapshots see it.
 *
 *   HLD-6  The runs of a version follow each other in age, newest first, without a gap. The runs of
 *          a held version with the ages of a merge's inputs have what its snapshot sees of these
 *          inputs.
 *   HLD-7  A difference is listed in the manifest as obsolete, like the runs of HLD-1.
 *   HLD-8  A held version is replaced in the step that installs the new run, if its runs are still
 *          those that the difference was built from. Otherwise it keeps its runs.
 *
 * No difference is built, and the held version keeps its runs, if an input or memtable has deleted
 * ranges, because then a difference cannot name the keys that differ. The same holds if the table
 * has a comparator, because the older version of a row may have had another of several equal
 * keys. */
#include "operations/dtables/managed/change.h"

/* ---- which runs ------------------------------------------------------------------------------ */

static bool is_input(const struct ll_managed_change *c, const struct ll_managed_run *r)
{
    for (uint32_t i = 0; i < c->inputs; i++)
        if (c->from->runs[c->first + i] == r)
            return true;
    return false;
}

/* Finds the runs of a held version with the ages of the inputs. False: no input is one of
 * them. */
static bool find_runs(const struct ll_managed_change *c, const struct ll_version *v,
                      uint32_t *first, uint32_t *n)
{
    bool any = false;
    *first = *n = 0;
    for (uint32_t i = 0; i < v->n_runs; i++) {
        const struct ll_managed_run *r = v->runs[i];
        if (r->age[0] < c->age[0] || r->age[1] > c->age[1])
            continue;
        *first = *n ? *first : i;
        *n += 1;
        any = any || is_input(c, r);
    }
    return any;
}

/* Does the held version have exactly the inputs? */
static bool has_inputs(const struct ll_managed_change *c, const struct ll_version *v,
                       uint32_t first, uint32_t n)
{
    return n == c->inputs && memcmp(v->runs + first, c->from->runs + c->first,
                                    n * sizeof *v->runs) == 0;
}

static bool drops(const struct ll_managed_change *c)
{
    return c->first + c->inputs == c->from->n_runs;
}

/* Can differences from the new run be stored? */
static bool possible(const struct ll_managed_change *c)
{
    bool plain = c->inputs && !c->t->order.comparator;
    for (uint32_t i = 0; i < c->inputs; i++)
        plain = plain && c->from->runs[c->first + i]->table->ranges == 0;
    for (uint32_t i = 0; c->flush && i < c->from->n_mems; i++)
        plain = plain && !lladd_atomic_load32(&c->from->mems[i]->has_ranges);
    return plain;
}

/* A new run without tombstones can only be the last one of a version. */
static bool may_follow(const struct ll_managed_change *c, const struct ll_version *v, uint32_t end)
{
    return !drops(c) || end == v->n_runs;
}

/* Does the snapshot of a held version need a difference? If a compaction has exactly the version's
 * runs as inputs, the new run has the same rows. */
static bool needs(const struct ll_managed_change *c, const struct ll_version *v, uint32_t first,
                  uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (v->runs[first + i]->table->ranges)
            return false;
    return (c->flush || !has_inputs(c, v, first, n)) && may_follow(c, v, first + n);
}

static void insert(struct ll_managed_change *c, struct ll_managed_older o)
{
    uint32_t i = c->n_older++;
    for (; i > 0 && c->older[i - 1].snapshot > o.snapshot; i--)
        c->older[i] = c->older[i - 1];
    c->older[i] = o;
}

static uint32_t count_held(struct lladd_managed *t)
{
    uint32_t n = 0;
    lladd_mutex_lock(&t->mutex);
    for (const struct ll_version *v = t->held; v; v = v->next)
        n++;
    lladd_mutex_unlock(&t->mutex);
    return n;
}

int ll_managed__older_begin(struct ll_managed_change *c, struct lladd_error *err)
{
    struct lladd_managed *t = c->t;
    uint32_t room = possible(c) ? count_held(t) + c->n_holds : 0, first, n;
    if (room == 0)
        return 0;
    c->older = lladd_mem_alloc(t->db, room * sizeof *c->older);
    if (!c->older)
        return ll_managed__no_memory(err);
    for (uint32_t i = 0; i < c->n_holds; i++)
        insert(c, (struct ll_managed_older){.snapshot = c->holds[i].snapshot});
    lladd_mutex_lock(&t->mutex);
    t->flush.rows -= c->keys * c->n_holds; /* those runs are not built */
    c->n_holds = 0;
    for (struct ll_version *v = t->held; v && c->n_older < room; v = v->next) {
        if (!find_runs(c, v, &first, &n) || !needs(c, v, first, n))
            continue;
        ll_managed__version_retain(v);
        insert(c, (struct ll_managed_older){
                      .snapshot = v->cutoff, .was = v, .first = first, .n = n});
    }
    lladd_mutex_unlock(&t->mutex);
    return 0;
}

/* ---- what a snapshot sees -------------------------------------------------------------------- */

/* The part of a version that a merge replaces, as one table. */
struct part {
    struct ll_managed_run *const *runs;
    uint32_t n_runs;
    bool mems;     /* with the memtables' rows up to ... */
    uint64_t upto; /* ... this commit */
    struct ll_snapshot_iter *slices;
    struct lladd_dtable **tables;
    struct ll_version_tables layered;
    struct lladd_dtable *all;
};

/* The part that the i-th snapshot sees; i == c->n_older: the part that the new run has. */
static struct part part_of(const struct ll_managed_change *c, uint32_t i)
{
    const struct ll_managed_older *o = i < c->n_older ? &c->older[i] : NULL;
    if (o && o->was)
        return (struct part){
            .runs = o->was->runs + o->first, .n_runs = o->n, .upto = c->from->cutoff};
    return (struct part){.runs = c->from->runs + c->first,
                         .n_runs = c->inputs,
                         .mems = c->flush,
                         .upto = o ? o->snapshot : c->cutoff};
}

static void part_close(struct lladd_db *db, struct part *p)
{
    lladd_dtable_close(p->all);
    ll_managed__tables_free(db, &p->layered);
    lladd_mem_free(db, p->slices);
    lladd_mem_free(db, p->tables);
}

static int part_open(const struct ll_managed_change *c, struct part *p, struct lladd_error *err)
{
    struct lladd_managed *t = c->t;
    uint32_t n = p->mems ? c->from->n_mems : 0;
    p->slices = lladd_mem_alloc(t->db, (n + 1) * sizeof *p->slices);
    p->tables = lladd_mem_alloc(t->db, ((size_t)n + p->n_runs) * sizeof *p->tables);
    int rc = p->slices && p->tables ? 0 : ll_managed__no_memory(err);
    if (!rc)
        rc = ll_managed__tables_make(t->db, p->runs, p->n_runs, &p->layered, err);
    for (uint32_t i = 0; !rc && i < n; i++) {
        ll_managed__snapshot_iter(&p->slices[i], t, c->from->mems[i], c->from->cutoff, p->upto);
        p->tables[i] = &p->slices[i].base;
    }
    for (uint32_t i = 0; !rc && i < p->layered.n; i++)
        p->tables[n + i] = p->layered.tables[i];
    if (!rc)
        rc = lladd_dtable_overlay(t->db, p->tables, n + p->layered.n, &p->all, err);
    if (rc)
        part_close(t->db, p);
    return rc;
}

/* ---- which keys may differ ------------------------------------------------------------------- */

/* The tables that have the keys of all rows that may differ between two parts. */
struct keys {
    struct ll_snapshot_iter *slices;
    struct lladd_dtable **tables;
    uint32_t n;
    struct lladd_dtable *all;
};

/* Adds the runs that only the first part has. */
static void add_runs(struct keys *k, const struct part *p, const struct part *other)
{
    for (uint32_t i = 0; i < p->n_runs; i++) {
        uint32_t same = 0;
        while (same < other->n_runs && other->runs[same] != p->runs[i])
            same++;
        if (same == other->n_runs)
            k->tables[k->n++] = p->runs[i]->table;
    }
}

static void keys_close(struct lladd_db *db, struct keys *k)
{
    lladd_dtable_close(k->all);
    lladd_mem_free(db, k->slices);
    lladd_mem_free(db, k->tables);
}

/* k->all remains NULL if the parts are equal. */
static int keys_open(const struct ll_managed_change *c, const struct part *p,
                     const struct part *newer, struct keys *k, struct lladd_error *err)
{
    struct lladd_managed *t = c->t;
    uint32_t n = newer->mems && newer->upto > p->upto ? c->from->n_mems : 0;
    *k = (struct keys){.slices = lladd_mem_alloc(t->db, (n + 1) * sizeof *k->slices)};
    k->tables = lladd_mem_alloc(t->db, ((size_t)n + p->n_runs + newer->n_runs) * sizeof *k->tables);
    int rc = k->slices && k->tables ? 0 : ll_managed__no_memory(err);
    for (; !rc && k->n < n; k->n++) {
        ll_managed__snapshot_iter(&k->slices[k->n], t, c->from->mems[k->n], p->upto, newer->upto);
        k->tables[k->n] = &k->slices[k->n].base;
    }
    if (!rc) {
        add_runs(k, p, newer);
        add_runs(k, newer, p);
    }
    if (!rc && k->n)
        rc = lladd_dtable_overlay(t->db, k->tables, k->n, &k->all, err);
    if (rc)
        keys_close(t->db, k);
    return rc;
}

/* ---- building -------------------------------------------------------------------------------- */

#define KEYS_A_STEP 1024u

/* Looks a key up in a part. If the new run has no tombstones, there is nothing that one could
 * hide. */
static int look_up(const struct ll_managed_change *c, const struct part *p,
                   const struct lladd_dtable_key *key, struct lladd_dtable_pin *pin,
                   struct lladd_dtable_value *out, struct lladd_error *err)
{
    int rc = lladd_dtable_ask(p->all, key, pin, out, err);
    if (!rc && out->state == LLADD_DTABLE_TOMBSTONE && drops(c))
        out->state = LLADD_DTABLE_ABSENT;
    return rc;
}

/* Adds the rows of `p` that differ from those of `newer`. */
static int add_rows(const struct ll_managed_change *c, struct lladd_dtable_cursor *keys,
                    const struct part *p, const struct part *newer,
                    struct lladd_dtable_run_builder *b, uint64_t *rows, struct lladd_error *err)
{
    struct lladd_dtable_pin pins[2] = {LLADD_DTABLE_PIN_INIT, LLADD_DTABLE_PIN_INIT};
    struct lladd_dtable_value was = {.state = LLADD_DTABLE_ABSENT}, is = was;
    struct lladd_dtable_key key;
    uint64_t read = 0;
    int rc = lladd_dtable_first(keys, err);
    for (; !rc; rc = rc ? rc : lladd_dtable_next(keys, err)) {
        if (++read % KEYS_A_STEP == 0 && lladd_atomic_load32(&c->t->hurry))
            rc = lladd_error_set(err, LLADD_BUSY, "table \"%s\" is being closed", c->t->name);
        rc = rc ? rc : lladd_dtable_row(keys, &key, NULL, err);
        rc = rc ? rc : look_up(c, p, &key, &pins[0], &was, err);
        rc = rc ? rc : look_up(c, newer, &key, &pins[1], &is, err);
        if (rc || (was.state == is.state && ll_managed__same(&was, &is)))
            continue;
        if (was.state == LLADD_DTABLE_ABSENT && LLADD_PLANTED(LLADD_BUG_ABSENT_LOST))
            continue;
        rc = lladd_dtable_run_add(b, &key, &was);
        *rows += rc == 0;
    }
    lladd_dtable_unpin(&pins[0]);
    lladd_dtable_unpin(&pins[1]);
    return rc == LLADD_END ? 0 : rc;
}

/* Builds the run with `base` as the configuration of its rows, and of the keys without a row; NULL:
 * a linear_dtable. The configurations of managed tables store tombstones. */
static int build_in(struct ll_managed_change *c, const struct lladd_dtable_config *base,
                    const struct lladd_dtable *all, const struct part *p, const struct part *newer,
                    lladd_pageno *root)
{
    struct lladd_error *err = lladd_txn_error_out(c->txn);
    struct lladd_dtable_config *config;
    struct lladd_dtable_run_builder *b;
    struct lladd_dtable_cursor *keys;
    uint64_t rows = 0;
    TRY(ll_managed__around(c->t, "versions_dtable", base, "absent", true, &config, err));
    int rc = lladd_dtable_cursor_open(all, LLADD_DTABLE_TOMBSTONES, &keys, err);
    if (!rc) {
        rc = ll_managed__run_begin(c, config, &b);
        if (!rc) {
            rc = add_rows(c, keys, p, newer, b, &rows, err);
            rc = ll_managed__run_end(c, b, rc, rows, root);
        }
        lladd_dtable_cursor_close(keys);
    }
    lladd_dtable_config_free(config);
    return rc;
}

static int build(struct ll_managed_change *c, struct part *p, struct part *newer,
                 struct ll_managed_run **made)
{
    struct lladd_managed *t = c->t;
    struct lladd_error *err = lladd_txn_error_out(c->txn);
    const struct lladd_dtable_config *config = ll_managed__config(t, c->flush);
    lladd_pageno root = lladd_page_of(LLADD_NO_PAGE);
    struct keys keys;
    TRY(keys_open(c, p, newer, &keys, err));
    int rc = keys.all ? part_open(c, p, err) : 0;
    if (keys.all && !rc) {
        rc = part_open(c, newer, err);
        if (!rc) {
            rc = build_in(c, config, keys.all, p, newer, &root);
            if (ll_managed__is_refusal(rc) && config)
                rc = build_in(c, NULL, keys.all, p, newer, &root);
            part_close(t->db, newer);
        }
        part_close(t->db, p);
    }
    keys_close(t->db, &keys);
    return rc || root.v == LLADD_NO_PAGE ? rc : ll_managed__run_made(c, root, made);
}

int ll_managed__older_build(struct ll_managed_change *c)
{
    bool over = c->made != NULL;
    for (uint32_t i = c->n_older; i-- > 0;) {
        struct ll_managed_older *o = &c->older[i];
        struct part p = part_of(c, i), newer = part_of(c, i + 1);
        TRY(build(c, &p, &newer, &o->made));
        if (!o->made)
            continue;
        o->made->obsolete = true; /* no other thread has the run yet */
        o->made->difference = true;
        o->made->over = over;
        over = true;
    }
    return 0;
}

/* ---- held versions --------------------------------------------------------------------------- */

/* Adds the differences from number `i` on, and the new run. */
static void add_newer(const struct ll_managed_change *c, uint32_t i, struct ll_version *v)
{
    for (; i < c->n_older; i++)
        if (c->older[i].made)
            ll_managed__version_add_run(v, c->older[i].made);
    if (c->made)
        ll_managed__version_add_run(v, c->made);
}

/* Returns the number of the held version's snapshot in c->older, if its difference can be used, or
 * c->n_older if the new run has its rows. UINT32_MAX: the version stays. */
static uint32_t succeeds(const struct ll_managed_change *c, const struct ll_version *v,
                         uint32_t *first, uint32_t *n)
{
    uint32_t i = 0;
    if (!c->inputs || !find_runs(c, v, first, n))
        return UINT32_MAX;
    while (i < c->n_older && (!c->older[i].was || c->older[i].snapshot != v->cutoff))
        i++;
    if (i < c->n_older) {
        const struct ll_managed_older *o = &c->older[i];
        bool same = o->n == *n && memcmp(o->was->runs + o->first, v->runs + *first,
                                         *n * sizeof *v->runs) == 0;
        return same ? i : UINT32_MAX;
    }
    bool same = !c->flush && has_inputs(c, v, *first, *n) && may_follow(c, v, *first + *n);
    return same ? c->n_older : UINT32_MAX;
}

/* Makes the next version of a held one. *out remains NULL if the version stays. */
static int succeed(const struct ll_managed_change *c, const struct ll_version *v,
                   struct ll_version **out)
{
    uint32_t first, n, i = succeeds(c, v, &first, &n);
    if (i == UINT32_MAX)
        return 0;
    struct ll_version *next =
        ll_managed__version_new(c->t->db, 0, v->n_runs + c->n_older + 1);
    if (!next)
        return LLADD_NO_MEMORY;
    *out = next;
    next->cutoff = v->cutoff;
    for (uint32_t k = 0; k < first; k++)
        ll_managed__version_add_run(next, v->runs[k]);
    add_newer(c, i, next);
    for (uint32_t k = first + n; k < v->n_runs; k++)
        ll_managed__version_add_run(next, v->runs[k]);
    return ll_managed__tables_make(c->t->db, next->runs, next->n_runs, &next->layered, NULL);
}

/* Makes the held version of a snapshot that has read the current version up to now. */
static int make(const struct ll_managed_change *c, uint32_t i, struct ll_version **out)
{
    const struct ll_version *now = c->t->view;
    struct ll_version *v = ll_managed__version_new(c->t->db, 0, now->n_runs + c->n_older + 1);
    if (!v)
        return LLADD_NO_MEMORY;
    *out = v;
    v->cutoff = c->older[i].snapshot;
    add_newer(c, i, v);
    for (uint32_t k = 0; k < now->n_runs; k++)
        if (!is_input(c, now->runs[k]))
            ll_managed__version_add_run(v, now->runs[k]);
    return ll_managed__tables_make(c->t->db, v->runs, v->n_runs, &v->layered, NULL);
}

/* Only flushes add held versions, under `swap`, so there is room for all. */
static int take_held(struct ll_managed_change *c)
{
    struct lladd_managed *t = c->t;
    uint32_t room = count_held(t);
    c->heirs = lladd_mem_alloc(t->db, ((size_t)room + c->n_older + 1) * sizeof *c->heirs);
    if (!c->heirs)
        return LLADD_NO_MEMORY;
    lladd_mutex_lock(&t->mutex);
    for (struct ll_version *v = t->held; v; v = v->next) {
        ll_managed__version_retain(v);
        c->heirs[c->n_heirs++] = (struct ll_managed_heir){.was = v};
    }
    lladd_mutex_unlock(&t->mutex);
    return 0;
}

int ll_managed__older_prepare(struct ll_managed_change *c)
{
    TRY(take_held(c));
    for (uint32_t i = 0; i < c->n_heirs; i++)
        TRY(succeed(c, c->heirs[i].was, &c->heirs[i].view));
    for (uint32_t i = 0; i < c->n_older; i++)
        if (!c->older[i].was) {
            struct ll_managed_heir *h = &c->heirs[c->n_heirs++];
            *h = (struct ll_managed_heir){.was = NULL};
            TRY(make(c, i, &h->view));
        }
    return 0;
}

void ll_managed__older_store(struct ll_managed_change *c)
{
    for (uint32_t i = 0; i < c->n_older; i++)
        if (c->older[i].made && !LLADD_PLANTED(LLADD_BUG_VERSION_LEAKS))
            c->next.obsolete[c->next.n_obsolete++] = c->older[i].made->info.root;
}

/* Puts the heir in the place of a held version that still is in the list. */
static void inherit(struct lladd_managed *t, struct ll_managed_heir *h)
{
    struct ll_version **at = &t->held;
    while (*at && *at != h->was)
        at = &(*at)->next;
    if (!*at)
        return;
    h->view->next = h->was->next;
    *at = h->view;
    h->view = h->was; /* the list's reference to it is dropped later */
    lladd_atomic_store64(&h->was->replaced, 1);
}

void ll_managed__older_install(struct ll_managed_change *c)
{
    struct lladd_managed *t = c->t;
    for (uint32_t i = 0; i < c->n_heirs; i++) {
        struct ll_managed_heir *h = &c->heirs[i];
        if (h->was && h->view)
            inherit(t, h);
        if (h->was)
            continue;
        h->view->next = t->held;
        t->held = h->view;
        h->view = NULL;
    }
}

/* ---- the end --------------------------------------------------------------------------------- */

static void drop_heirs(struct ll_managed_change *c)
{
    for (uint32_t i = 0; i < c->n_heirs; i++) {
        ll_managed__version_release(c->t, c->heirs[i].view);
        ll_managed__version_release(c->t, c->heirs[i].was);
    }
    lladd_mem_free(c->t->db, c->heirs);
    c->heirs = NULL;
    c->n_heirs = 0;
}

void ll_managed__older_close(struct ll_managed_change *c)
{
    drop_heirs(c);
    for (uint32_t i = 0; i < c->n_older; i++) {
        ll_managed__run_discard(c->t, c->older[i].made);
        c->older[i].made = NULL;
    }
}

void ll_managed__older_end(struct ll_managed_change *c)
{
    drop_heirs(c);
    for (uint32_t i = 0; i < c->n_older; i++) {
        ll_managed__version_release(c->t, c->older[i].was);
        if (c->older[i].made)
            ll_managed__run_drop(c->older[i].made);
    }
    if (c->n_older)
        ll_managed__unhold(c->t); /* of snapshots that were closed meanwhile */
    lladd_mem_free(c->t->db, c->older);
}
