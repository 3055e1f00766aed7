/* SPDX-License-Identifier: BSD-2-Clause */
/* Open snapshots: all tables as they were at one commit, for readers without a transaction. hold.c
 * says what is kept for them, and how long. Any number of threads may use one. */
#include "operations/dtables/managed/managed.h"

/* ---- opening --------------------------------------------------------------------------------- */

/* False: a flush has not found the snapshot in the list, and might not keep its rows (HLD-3). */
static bool list(struct lladd_managed_snapshot *s)
{
    struct ll_managed *all = s->all;
    lladd_mutex_lock(&all->mutex);
    bool listed = s->snapshot >= all->flushed;
    if (listed) {
        s->number = ++all->opened;
        s->next = all->snapshots;
        all->snapshots = s;
    }
    lladd_mutex_unlock(&all->mutex);
    return listed;
}

int lladd_managed_snapshot_open(struct lladd_db *db, struct lladd_managed_snapshot **out,
                                struct lladd_error *err)
{
    struct ll_managed *all;
    lladd_lsn now;
    TRY(ll_managed__of(db, &all, err));
    struct lladd_managed_snapshot *s = lladd_mem_alloc(db, sizeof *s);
    if (!s)
        return ll_managed__no_memory(err);
    *s = (struct lladd_managed_snapshot){.all = all, .refs = 1, .opened_ns = lladd_now_ns(db)};
    bool listed = false;
    int rc = 0;
    while (!listed && (rc = lladd_snapshot_acquire(db, &now, err)) == 0) {
        s->snapshot = now.v;
        listed = list(s);
        if (!listed)
            (void)lladd_snapshot_release(db, now); /* cannot fail: it was acquired above */
    }
    if (rc)
        lladd_mem_free(db, s);
    else
        *out = s;
    return rc;
}

/* ---- tables ---------------------------------------------------------------------------------- */

static struct ll_snapshot_table *find(const struct lladd_managed_snapshot *s,
                                      const struct lladd_managed *t)
{
    struct ll_snapshot_table *x = s->tables;
    while (x && x->t != t)
        x = x->next;
    return x;
}

/* Adds the table to those of the snapshot. The table cannot be closed from then on. */
static int use(struct ll_snapshot_table *x, struct lladd_error *err)
{
    struct lladd_managed *t = x->t;
    lladd_mutex_lock(&t->mutex);
    bool closing = t->closing, there = ll_managed__version_held(t, x->of) != NULL;
    t->users += !closing && there;
    lladd_mutex_unlock(&t->mutex);
    if (closing)
        return lladd_error_set(err, LLADD_BUSY, "table \"%s\" is being closed", t->name);
    if (!there)
        return lladd_error_set(err, LLADD_CONFLICT,
                               "table \"%s\" was opened after the snapshot, and has lost the rows "
                               "of that time",
                               t->name);
    x->next = x->of->tables;
    x->of->tables = x;
    return 0;
}

int lladd_managed_snapshot_table(struct lladd_managed_snapshot *s, struct lladd_managed *t,
                                 const struct lladd_dtable **out, struct lladd_error *err)
{
    TRY(lladd_check_process(t->db, err));
    if (s->all != t->all)
        return lladd_error_set(err, LLADD_OTHER_DATABASE,
                               "the snapshot is of another database than table \"%s\"", t->name);
    struct ll_snapshot_table *x = lladd_mem_alloc(t->db, sizeof *x);
    if (!x)
        return ll_managed__no_memory(err);
    *x = (struct ll_snapshot_table){.base = {.kind = &ll_managed__snapshot_class,
                                             .db = t->db,
                                             .order = t->order,
                                             .ranges = 1}, /* there may be deleted ranges */
                                    .t = t,
                                    .of = s};
    lladd_mutex_lock(&s->all->mutex);
    struct ll_snapshot_table *there = find(s, t);
    int rc = there ? 0 : use(x, err);
    lladd_mutex_unlock(&s->all->mutex);
    if (rc || there)
        lladd_mem_free(t->db, x);
    if (!rc)
        *out = there ? &there->base : &x->base;
    return rc;
}

/* ---- closing --------------------------------------------------------------------------------- */

static void free_tables(struct lladd_managed_snapshot *s)
{
    for (struct ll_snapshot_table *x = s->tables, *next; x; x = next) {
        next = x->next;
        lladd_mutex_lock(&x->t->mutex);
        x->t->users--;
        lladd_mutex_unlock(&x->t->mutex);
        lladd_mem_free(s->all->db, x);
    }
}

void ll_managed__snapshot_drop(struct lladd_managed_snapshot *s)
{
    struct ll_managed *all = s->all;
    if (lladd_atomic_sub64(&s->refs, 1) != 1)
        return;
    lladd_mutex_lock(&all->mutex);
    struct lladd_managed_snapshot **at = &all->snapshots;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    lladd_mutex_unlock(&all->mutex);
    (void)lladd_snapshot_release(all->db, lladd_lsn_of(s->snapshot)); /* cannot fail: only this
                                                                       * code releases it */
    free_tables(s);
    lladd_mem_free(all->db, s);
    ll_managed__each_table(all, true, ll_managed__unhold);
}

void lladd_managed_snapshot_close(struct lladd_managed_snapshot *s)
{
    if (s && !lladd_check_process(s->all->db, NULL))
        ll_managed__snapshot_drop(s);
}

void ll_managed__snapshots_free(struct ll_managed *all)
{
    for (struct lladd_managed_snapshot *s = all->snapshots, *next; s; s = next) {
        next = s->next;
        free_tables(s);
        lladd_mem_free(all->db, s);
    }
    all->snapshots = NULL;
}
