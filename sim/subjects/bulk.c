/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bulk: blobs with bytes that are not logged. Bulk writes make blobs, replace them, append to them,
 * and overwrite a part of them, which keeps some bytes of the first and of the last page. Logged
 * writes change the blobs, too. New blobs get the pages of blobs that were destroyed. Transactions
 * roll back to a savepoint or completely.
 *
 * bulk.scrubbed: the same in a database that archives. After each recovery a scrub must find
 * nothing, and then find three writes that the disk has lost.
 */
#include "sim/subjects/blobs.h"
#include "sim/subjects/entries.h"
#include "sim/subjects/scrubs.h"

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.db = db, .err = err};
    struct lladd_txn *txn;
    (void)ctx;
    lladd_blob_bulk_from(db, 1);
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = ll_sim_blob_make(&w, txn, 0, 'a', 5000);
    if (!rc)
        rc = ll_sim_blob_make(&w, txn, 1, 'b', 5000);
    return rc ? ll_sim_give_up(NULL, txn, rc, err) : lladd_commit(txn);
}

static int setup_scrubbed(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    TRY(setup(ctx, db, err));
    return ll_sim_scrub_begin(db, err);
}

/* Makes two bulk writes, which one sync makes durable. */
static int makes_and_grows(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(ll_sim_blob_make(w, txn, 2, 'c', 300));
    TRY(ll_sim_blob_append(w, txn, 0, 'a', 5000, 9000));
    return lladd_sim_commit(w->sim, txn);
}

/* Logs changes of pages that were written in bulk. When the pages are allocated again, these
 * records are about an earlier use of the pages. */
static int changes(struct ll_sim_work *w, struct lladd_txn *txn)
{
    lladd_blob_bulk_from(w->db, UINT64_MAX);
    TRY(ll_sim_blob_write(w, txn, 2, 'd', 300));
    lladd_blob_bulk_from(w->db, 1);
    return lladd_sim_commit(w->sim, txn);
}

static int stays_open(struct ll_sim_work *w, struct lladd_txn *txn)
{
    return ll_sim_blob_replace(w, txn, 1, 'o', 4500);
}

static int destroys(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(ll_sim_blob_drop(w, txn, 2));
    return lladd_sim_commit(w->sim, txn);
}

/* Allocates the pages of the blob that the previous transaction has destroyed. */
static int replaces(struct ll_sim_work *w, struct lladd_txn *txn)
{
    lladd_savepoint_id before;
    TRY(lladd_sim_savepoint(w->sim, txn, &before));
    TRY(ll_sim_blob_replace(w, txn, 0, 'x', 4500));
    TRY(lladd_sim_rollback_to(w->sim, txn, before));
    TRY(ll_sim_blob_write(w, txn, 0, 'e', 9000));
    return lladd_sim_commit(w->sim, txn);
}

static int rolls_back(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(ll_sim_blob_replace(w, txn, 0, 'y', 4500));
    TRY(ll_sim_blob_make(w, txn, 3, 'y', 4500));
    return lladd_sim_abort(w->sim, txn);
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.sim = sim, .db = db, .err = err};
    (void)ctx;
    lladd_blob_bulk_from(db, 1);
    TRY(ll_sim_in_txn(&w, makes_and_grows));
    TRY(ll_sim_in_txn(&w, changes));
    TRY(ll_sim_in_txn(&w, stays_open));
    TRY(lladd_checkpoint(db, err));
    TRY(ll_sim_in_txn(&w, destroys));
    TRY(ll_sim_in_txn(&w, replaces));
    return ll_sim_in_txn(&w, rolls_back);
}

static int run_scrubbed(void *ctx, struct lladd_sim *sim, struct lladd_db *db,
                        struct lladd_error *err)
{
    struct ll_sim_work w = {.sim = sim, .db = db, .err = err};
    (void)ctx;
    lladd_blob_bulk_from(db, 1);
    TRY(ll_sim_in_txn(&w, makes_and_grows));
    TRY(ll_sim_in_txn(&w, changes));
    TRY(lladd_checkpoint(db, err));
    TRY(ll_sim_entries_store(lladd_sim_archive(), err));
    TRY(ll_sim_in_txn(&w, destroys));
    TRY(ll_sim_in_txn(&w, replaces));
    return ll_sim_in_txn(&w, rolls_back);
}

static void init(void *ctx, void *model)
{
    struct ll_sim_cells *c = model;
    (void)ctx;
    c->at[0] = (struct ll_sim_cell){'a', 5000};
    c->at[1] = (struct ll_sim_cell){'b', 5000};
}

static const char *const operations[] = {"lladd.blob.write", "lladd.blob.link", NULL};

#define MEMBERS \
    .check = ll_sim_blobs_check, .dump = ll_sim_blobs_dump, LL_SIM_CELLS_MODEL, \
    .model_init = init, .pages = ll_sim_blobs_pages

const struct lladd_sim_subject ll_sim_subject_bulk = {
    .struct_size = sizeof ll_sim_subject_bulk,
    .name = "bulk",
    .about = "blobs that are written in bulk, without logging",
    .setup = setup,
    .run = run,
    MEMBERS,
    .operations = operations,
};

const struct lladd_sim_subject ll_sim_subject_bulk_scrubbed = {
    .struct_size = sizeof ll_sim_subject_bulk_scrubbed,
    .name = "bulk.scrubbed",
    .about = "such blobs in a database that archives; a scrub finds lost writes only",
    .setup = setup_scrubbed,
    .run = run_scrubbed,
    MEMBERS,
    .go_on = ll_sim_scrub_go_on,
    .archives = true,
};
