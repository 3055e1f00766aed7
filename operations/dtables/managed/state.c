/* SPDX-License-Identifier: BSD-2-Clause */
/* Managed dTables (Anvil, sections 3 and 5.3): LSM tables that transactions write to. In Anvil's
 * words, a digest is a flush of memtables into a run, and a combine is a compaction of runs.
 *
 *   table_catalog.c, manifest.c        which tables exist, and what is stored of each
 *   open.c                             opening and closing
 *   memtable.c, snapshot_iter.c        row versions in memory, and which of them are visible
 *   memindex.c, filter.c               finding keys in a memtable
 *   memrange.c, runrange.c             deleted ranges, in memory and in runs
 *   entry.c                            the format of journal entries
 *   version.c                          the memtables and runs of a table
 *   txn.c, write.c, delete.c, read.c   transactions
 *   unlogged.c                         unlogged tables, with no rows in the journal
 *   snapshot.c, snapshot_read.c        open snapshots, for readers without a transaction
 *   flush.c, compact.c                 memtables to a run, runs to one run
 *   hold.c, difference.c               what flushes and compactions do for open snapshots
 *   reclaim.c                          freeing replaced runs
 *   change.c                           changes of the manifest, for flush.c, compact.c, reclaim.c
 *                                      and alter.c
 *   run_build.c                        building a run, for flush.c and compact.c
 *   schedule.c, level.c, pool.c        when maintenance is due, and its threads
 *   alter.c                            changing a table's settings
 *
 * There are no log records and no recovery code here: the journal replays the entries that were not
 * digested, and ordinary transactions change runs and catalogue rows. */
#include "operations/dtables/managed/managed.h"

int ll_managed__no_memory(struct lladd_error *err)
{
    return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for a managed table");
}

int ll_managed__of(struct lladd_db *db, struct ll_managed **out, struct lladd_error *err)
{
    int rc = lladd_check_process(db, err);
    *out = rc ? NULL : lladd_extension_state(db, &ll_managed__extension);
    return rc || *out ? rc
                : lladd_error_set(err, LLADD_BAD_STATE,
                                  "the database was opened without lladd_managed_register");
}

static int attach(void *ctx, struct lladd_db *db, void **state, struct lladd_error *err)
{
    struct ll_managed *all = lladd_mem_alloc(db, sizeof *all);
    (void)ctx;
    if (!all)
        return ll_managed__no_memory(err);
    memset(all, 0, sizeof *all);
    all->db = db;
    if (lladd_mutex_init(&all->mutex, LL_MANAGED_RANK, "managed tables"))
        goto no_mutex;
    if (lladd_mutex_init(&all->create, LL_MANAGED_RANK_CREATE, "making the managed catalogue"))
        goto no_create;
    if (lladd_cond_init(&all->wake))
        goto no_wake;
    if (lladd_cond_init(&all->idle))
        goto no_idle;
    *state = all;
    return 0;
no_idle:
    lladd_cond_destroy(&all->wake);
no_wake:
    lladd_mutex_destroy(&all->create);
no_create:
    lladd_mutex_destroy(&all->mutex);
no_mutex:
    lladd_mem_free(db, all);
    return ll_managed__no_memory(err);
}

static int recovered(void *ctx, struct lladd_db *db, void *state, struct lladd_error *err)
{
    struct ll_managed *all = state;
    struct lladd_root_value root;
    (void)ctx;
    int rc = lladd_root_get(db, LL_MANAGED_ROOT, &root, err);
    if (rc)
        return rc == LLADD_NOT_FOUND ? 0 : rc;
    if (root.b > LL_MANAGED_VERSION)
        return lladd_error_set(err, LLADD_NEWER_FORMAT,
                               "managed tables were made by a newer version: format %llu; "
                               "%d is known",
                               (unsigned long long)root.b, LL_MANAGED_VERSION);
    return lladd_hash_open(db, lladd_page_of(root.a), LLADD_HASH_LOGICAL, &all->catalogue, err);
}

/* Called before the handle closes, also if it was killed or poisoned. */
static void stop(void *ctx, struct lladd_db *db, void *state)
{
    (void)ctx;
    (void)db;
    ll_managed__threads_stop(state);
}

static void detach(void *ctx, struct lladd_db *db, void *state)
{
    struct ll_managed *all = state;
    (void)ctx;
    while (all->txns)
        ll_managed__txn_forget(all, all->txns);
    for (struct ll_managed_txn *x = all->free_txns, *next; x; x = next) {
        next = x->next;
        lladd_mem_free(db, x);
    }
    ll_managed__snapshots_free(all);
    for (struct lladd_managed *t = all->tables, *next; t; t = next) {
        next = t->next;
        ll_managed__table_free(t);
    }
    lladd_hash_close(all->catalogue);
    lladd_cond_destroy(&all->idle);
    lladd_cond_destroy(&all->wake);
    lladd_mutex_destroy(&all->create);
    lladd_mutex_destroy(&all->mutex);
    lladd_mem_free(db, all);
}

static const struct lladd_participant *const participants[] = {&ll_managed__participant,
                                                               &ll_managed__unlogged, NULL};

const struct lladd_extension ll_managed__extension = {
    .struct_size = sizeof(struct lladd_extension),
    .name = "lladd.managed",
    .version = 1,
    .participants = participants,
    .attach = attach,
    .recovered = recovered,
    .detach = detach,
    .stop = stop,
};

int lladd_managed_register(struct lladd_options *o, struct lladd_error *err)
{
    int rc = lladd_journal_register(o, err);
    return rc ? rc : lladd_register_extension(o, &ll_managed__extension, err);
}
