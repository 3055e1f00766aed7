/* SPDX-License-Identifier: BSD-2-Clause */
/* What flushes do for open snapshots (snapshot.c).
 *
 * An open snapshot at commit S holds nothing of a table until a flush with a cutoff above S: the
 * current version has all rows up to S, and the versions after S are told apart by their commits.
 * The run of that flush has only the newest rows up to its cutoff. So the flush also builds a run
 * of what the memtables have up to S, and the *held version* of S becomes this run, followed by the
 * runs that the table has then. A held version has no memtables. When a later merge replaces one of
 * these runs, another held version takes its place: see difference.c. There, too, is what a flush
 * builds instead of this run if it absorbs the newest run. If several snapshots need a run, their
 * runs are built in the order of the snapshots, each with what came after the snapshot before it.
 *
 *   HLD-1  A run that is built for an open snapshot is listed in the manifest as obsolete by the
 *          transaction that builds it. It is freed like all obsolete runs (DIG-5): when no version
 *          has it, or after a crash.
 *   HLD-2  Of each table that an open snapshot at S can read, either the current version has a
 *          cutoff up to S, or there is a held version of S. Both change in one step, under the
 *          table's mutex.
 *   HLD-3  A flush reads the list of open snapshots after its cutoff, and stores the cutoff in
 *          `flushed` in the same step. A snapshot that is not in the list by then is not listed
 *          below `flushed`: its opener takes a newer one. */
#include "operations/dtables/managed/change.h"

/* ---- which snapshots ------------------------------------------------------------------------- */

static bool has_rows(const struct lladd_managed *t, const struct lladd_managed_snapshot *s)
{
    return !t->unlogged || s->number >= t->first; /* an open loses rows of unlogged tables */
}

static struct ll_version *find(const struct lladd_managed *t, uint64_t snapshot)
{
    struct ll_version *v = t->view->cutoff <= snapshot ? t->view : t->held;
    while (v && v != t->view && v->cutoff != snapshot)
        v = v->next;
    return v;
}

struct ll_version *ll_managed__version_held(const struct lladd_managed *t,
                                            const struct lladd_managed_snapshot *s)
{
    return has_rows(t, s) ? find(t, s->snapshot) : NULL;
}

/* Inserts the snapshot in ascending order, once. There is room. */
static void insert(struct ll_managed_change *c, uint64_t snapshot)
{
    uint32_t i = c->n_holds;
    while (i > 0 && c->holds[i - 1].snapshot > snapshot)
        i--;
    if (i > 0 && c->holds[i - 1].snapshot == snapshot)
        return;
    memmove(c->holds + i + 1, c->holds + i, (c->n_holds - i) * sizeof *c->holds);
    c->holds[i] = (struct ll_managed_hold){.snapshot = snapshot};
    c->n_holds++;
}

/* The list can only lose snapshots below the cutoff between the two steps (HLD-3). */
int ll_managed__holds_begin(struct ll_managed_change *c, uint64_t cutoff, struct lladd_error *err)
{
    struct lladd_managed *t = c->t;
    struct ll_managed *all = t->all;
    const struct lladd_managed_snapshot *s;
    size_t n = 0;
    lladd_mutex_lock(&all->mutex);
    all->flushed = all->flushed < cutoff ? cutoff : all->flushed;
    for (s = all->snapshots; s; s = s->next)
        n += s->snapshot < cutoff;
    lladd_mutex_unlock(&all->mutex);
    if (n == 0)
        return 0;
    c->holds = lladd_mem_alloc(t->db, n * sizeof *c->holds);
    if (!c->holds)
        return ll_managed__no_memory(err);
    lladd_mutex_lock(&all->mutex);
    lladd_mutex_lock(&t->mutex);
    for (s = all->snapshots; s; s = s->next)
        if (s->snapshot < cutoff && t->view->cutoff <= s->snapshot && has_rows(t, s))
            insert(c, s->snapshot);
    lladd_mutex_unlock(&t->mutex);
    lladd_mutex_unlock(&all->mutex);
    return 0;
}

/* ---- during a flush -------------------------------------------------------------------------- */

int ll_managed__holds_build(struct ll_managed_change *c)
{
    uint64_t after = c->from->cutoff;
    bool oldest = c->from->n_runs == 0;
    for (uint32_t i = 0; i < c->n_holds; i++, c->read += c->keys) {
        struct ll_managed_hold *h = &c->holds[i];
        if (h->snapshot > after)
            TRY(ll_managed__build_rows(c, after, h->snapshot, 0, oldest, &h->made));
        after = h->snapshot;
        oldest = oldest && !h->made;
        if (!h->made)
            continue;
        h->made->age[0] = h->made->age[1];
        h->made->obsolete = true; /* no other thread has the run yet */
    }
    return 0;
}

int ll_managed__holds_prepare(struct ll_managed_change *c)
{
    for (uint32_t i = 0; i < c->n_holds; i++) {
        c->holds[i].view = ll_managed__version_new(c->t->db, 0, c->t->view->n_runs + c->n_holds);
        if (!c->holds[i].view)
            return LLADD_NO_MEMORY;
    }
    return 0;
}

void ll_managed__holds_store(struct ll_managed_change *c)
{
    for (uint32_t i = 0; i < c->n_holds; i++)
        if (c->holds[i].made)
            c->next.obsolete[c->next.n_obsolete++] = c->holds[i].made->info.root;
}

void ll_managed__holds_install(struct ll_managed_change *c)
{
    struct lladd_managed *t = c->t;
    for (uint32_t i = 0; i < c->n_holds; i++) {
        struct ll_version *v = c->holds[i].view;
        v->cutoff = c->holds[i].snapshot;
        for (uint32_t k = i + 1; k-- > 0;)
            if (c->holds[k].made && !LLADD_PLANTED(LLADD_BUG_VERSION_LOST))
                ll_managed__version_add_run(v, c->holds[k].made);
        for (uint32_t k = 0; k < t->view->n_runs; k++)
            ll_managed__version_add_run(v, t->view->runs[k]);
        v->next = t->held;
        t->held = v;
        c->holds[i].view = NULL;
    }
}

void ll_managed__holds_close(struct ll_managed_change *c)
{
    for (uint32_t i = 0; i < c->n_holds; i++) {
        ll_managed__run_discard(c->t, c->holds[i].made);
        c->holds[i].made = NULL;
    }
}

void ll_managed__holds_end(struct ll_managed_change *c)
{
    for (uint32_t i = 0; i < c->n_holds; i++) {
        ll_managed__version_release(c->t, c->holds[i].view);
        if (c->holds[i].made)
            ll_managed__run_drop(c->holds[i].made);
    }
    if (c->n_holds)
        ll_managed__unhold(c->t); /* of snapshots that were closed meanwhile */
    lladd_mem_free(c->t->db, c->holds);
}

/* ---- when snapshots are closed --------------------------------------------------------------- */

static bool is_open(const struct ll_managed *all, uint64_t snapshot)
{
    const struct lladd_managed_snapshot *s = all->snapshots;
    while (s && s->snapshot != snapshot)
        s = s->next;
    return s != NULL;
}

void ll_managed__unhold(struct lladd_managed *t)
{
    struct ll_version *gone = NULL, *v;
    lladd_mutex_lock(&t->all->mutex);
    lladd_mutex_lock(&t->mutex);
    for (struct ll_version **at = &t->held; (v = *at) != NULL;) {
        if (is_open(t->all, v->cutoff)) {
            at = &v->next;
            continue;
        }
        *at = v->next;
        v->next = gone;
        gone = v;
    }
    lladd_mutex_unlock(&t->mutex);
    lladd_mutex_unlock(&t->all->mutex);
    while ((v = gone) != NULL) {
        gone = v->next;
        ll_managed__version_release(t, v);
    }
}

/* ---- statistics ------------------------------------------------------------------------------ */

void ll_managed__held_stats(struct lladd_managed *t, uint64_t now, struct lladd_managed_stats *out)
{
    for (const struct lladd_managed_snapshot *s = t->all->snapshots; s; s = s->next) {
        if (!ll_managed__version_held(t, s))
            continue;
        uint64_t age = now > s->opened_ns ? now - s->opened_ns : 0;
        out->snapshots++;
        out->oldest_snapshot_ns = age > out->oldest_snapshot_ns ? age : out->oldest_snapshot_ns;
    }
    t->counts++;
    for (const struct ll_version *v = t->held; v; v = v->next)
        for (uint32_t i = 0; i < v->n_runs; i++) {
            struct ll_managed_run *r = v->runs[i];
            if (!r->obsolete || r->counted == t->counts)
                continue;
            r->counted = t->counts;
            out->held_runs++;
            out->held_pages += r->info.pages;
            out->held_versions += r->difference ? r->info.rows : 0;
        }
}
