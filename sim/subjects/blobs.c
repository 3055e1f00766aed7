/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * blobs: small blobs, with all their bytes in the log. Transactions make blobs that outgrow their
 * root page, overwrite, replace and destroy blobs, and roll some of these changes back. One blob
 * begins with so many unwritten zeros that it needs index pages.
 *
 * A cell is a blob with a name in the catalogue of roots.
 */
#include "sim/subjects/blobs.h"

enum { FAR = LL_SIM_BLOB_FAR };

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.db = db, .err = err};
    struct lladd_txn *txn;
    (void)ctx;
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = ll_sim_blob_make(&w, txn, 0, 'a', 20);
    if (!rc)
        rc = ll_sim_blob_make(&w, txn, 1, 'b', 200);
    return rc ? ll_sim_give_up(NULL, txn, rc, err) : lladd_commit(txn);
}

/* The blob grows beyond its root page, into another page. */
static int grows(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(ll_sim_blob_append(w, txn, 0, 'a', 20, 150));
    return lladd_sim_commit(w->sim, txn);
}

static int stays_open(struct ll_sim_work *w, struct lladd_txn *txn)
{
    return ll_sim_blob_write(w, txn, 1, 'o', 200);
}

static int far(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(ll_sim_blob_make(w, txn, FAR, 'f', 50));
    return lladd_sim_commit(w->sim, txn);
}

static int replaces(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(ll_sim_blob_replace(w, txn, 0, 'c', 30));
    return lladd_sim_commit(w->sim, txn);
}

static int rolls_back(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(ll_sim_blob_write(w, txn, FAR, 'x', 50));
    TRY(ll_sim_blob_append(w, txn, FAR, 'x', 50, 4100)); /* adds a link to an index page */
    TRY(ll_sim_blob_drop(w, txn, FAR));
    TRY(ll_sim_blob_replace(w, txn, 0, 'x', 100));
    TRY(ll_sim_blob_make(w, txn, 2, 'x', 60));
    return lladd_sim_abort(w->sim, txn);
}

static int destroys(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(ll_sim_blob_drop(w, txn, FAR));
    return lladd_sim_commit(w->sim, txn);
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.sim = sim, .db = db, .err = err};
    (void)ctx;
    lladd_blob_bulk_from(db, UINT64_MAX);
    TRY(ll_sim_in_txn(&w, grows));
    TRY(ll_sim_in_txn(&w, stays_open));
    TRY(ll_sim_in_txn(&w, far));
    TRY(lladd_checkpoint(db, err));
    TRY(ll_sim_in_txn(&w, replaces));
    TRY(ll_sim_in_txn(&w, rolls_back));
    return ll_sim_in_txn(&w, destroys);
}

static void init(void *ctx, void *model)
{
    struct ll_sim_cells *c = model;
    (void)ctx;
    c->at[0] = (struct ll_sim_cell){'a', 20};
    c->at[1] = (struct ll_sim_cell){'b', 200};
}

static const char *const operations[] = {"lladd.blob.format",     "lladd.blob.write",
                                         "lladd.blob.link",       "lladd.blob.index.format",
                                         "lladd.blob.index.link", "lladd.blob.data.format",
                                         "lladd.blob.data.set",   NULL};
static const struct lladd_sim_excuse excuses[] = {
    {"lladd.blob.format", LL_SIM_NO_UNDO, "formatting is not undone: the page was free before"},
    {"lladd.blob.index.format", LL_SIM_NO_UNDO, "formatting is not undone"},
    {"lladd.blob.data.format", LL_SIM_NO_UNDO, "formatting is not undone"},
    {NULL, 0, NULL}};

const struct lladd_sim_subject ll_sim_subject_blobs = {
    .struct_size = sizeof ll_sim_subject_blobs,
    .name = "blobs",
    .about = "blobs that are logged: grown, overwritten, replaced, destroyed",
    .setup = setup,
    .run = run,
    .check = ll_sim_blobs_check,
    .dump = ll_sim_blobs_dump,
    LL_SIM_CELLS_MODEL,
    .model_init = init,
    .pages = ll_sim_blobs_pages,
    .operations = operations,
    .excuses = excuses,
};
