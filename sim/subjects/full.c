/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * full: a log at its limit. A transaction changes pages that cannot be compressed. A checkpoint
 * writes them back and moves the start of redo beyond their base images. Another transaction fills
 * the log to the last record. Then the first transaction is rolled back, and the log has no room
 * for new images. Redo of the rollback therefore has no base images: if a crash tears the first
 * write of such a page, only the double-write area can repair the page.
 *
 * A cell is a text on a page of its own. The page also contains noise.
 */
#include "sim/subjects/cells.h"

#include <lladd/bytes.h>
#include <lladd/stats.h>
#include <string.h>

enum { PAGES = 16, CELLS = 7, AT = 3200, LEN = 100, PIECE = 600 };

static int configure(void *ctx, struct lladd_options *o, struct lladd_error *err)
{
    (void)ctx;
    (void)err;
    o->flags |= LLADD_OPT_LOG_FULL_ERROR;
    o->log_limit_bytes = 24 * (8u << 10);
    o->log_segment_min = 8u << 10;
    o->log_segment_max = 16u << 10;
    o->checkpoint_bytes = 1u << 20;
    return 0;
}

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    lladd_pageno first;
    (void)ctx;
    TRY(ll_sim_pages_make(db, PAGES, &first, err));
    return ll_sim_pages_noise(db, 0, CELLS, err);
}

/* ---- the workload ------------------------------------------------------------------------ */

static int fill(struct ll_sim_work *w, struct lladd_txn *txn, char letter)
{
    unsigned char bytes[LEN];
    for (unsigned cell = 0; cell < CELLS; cell++) {
        ll_sim_fill(bytes, cell, letter, LEN);
        TRY(lladd_bytes_set(txn, lladd_page_of(w->first.v + cell), AT, bytes, LEN));
        TRY(ll_sim_cell_note(w, txn, cell, letter, LEN));
    }
    return 0;
}

/* Logs records, first long, then short ones, until the log has no room for another record. The
 * transaction stays open. */
static int fill_log(struct ll_sim_work *w, struct lladd_txn *txn)
{
    unsigned char bytes[PIECE];
    int rc = 0;
    memset(bytes, 'f', sizeof bytes);
    for (unsigned i = 0; !rc; i++)
        rc = lladd_bytes_set(txn, lladd_page_of(w->first.v + CELLS + i % (PAGES - CELLS - 1)),
                       i / PAGES % 4 * PIECE, bytes, PIECE);
    if (rc == LLADD_LOG_FULL) {
        do
            rc = lladd_counter_add(txn, lladd_page_of(w->first.v + PAGES - 1), 0, 1);
        while (rc == 0);
    }
    return rc == LLADD_LOG_FULL ? 0 : rc;
}

static int commits(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(fill(w, txn, 'a'));
    return lladd_sim_commit(w->sim, txn);
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.sim = sim, .db = db, .err = err};
    struct lladd_stats s = {.struct_size = sizeof s};
    struct lladd_txn *early;
    (void)ctx;
    TRY(ll_sim_pages_find(db, &w.first, err));
    TRY(ll_sim_in_txn(&w, commits));
    TRY(lladd_sim_begin(sim, db, NULL, &early, err));
    int rc = fill(&w, early, 'e');
    if (!rc)
        rc = lladd_checkpoint(db, err);
    if (!rc)
        rc = ll_sim_in_txn(&w, fill_log);
    if (rc)
        return ll_sim_give_up(sim, early, rc, err);
    TRY(lladd_sim_abort(sim, early));
    TRY(lladd_stats_get(db, &s));
    return lladd_wait_durable(db, lladd_lsn_of(s.log_tail - 1), err);
}

/* ---- dump and check ---------------------------------------------------------------------- */

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink, struct lladd_error *err)
{
    (void)ctx;
    return ll_sim_cells_dump_bytes(db, CELLS, AT, 0, LEN, sink, err);
}

/* With LLADD_OPT_LOG_FULL_ERROR the library does not take the checkpoint that makes room in the
 * log, so this function takes it. */
static int go_on(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_txn *txn;
    lladd_pageno first;
    (void)ctx;
    TRY(lladd_checkpoint(db, err));
    TRY(ll_sim_pages_find(db, &first, err));
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = lladd_bytes_set(txn, lladd_page_of(first.v + CELLS), 0, "on", 2);
    return rc ? ll_sim_give_up(NULL, txn, rc, err) : lladd_commit(txn);
}

/* While pages have pending redo, the log has no room for a record, so this function only reads. */
static int meanwhile(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    unsigned char byte;
    lladd_pageno first;
    (void)ctx;
    TRY(ll_sim_pages_find(db, &first, err));
    return lladd_bytes_get(db, first, AT, &byte, 1, err);
}

static const char *const operations[] = {"lladd.set", NULL};

const struct lladd_sim_subject ll_sim_subject_full = {
    .struct_size = sizeof ll_sim_subject_full,
    .name = "full",
    .about = "a log at its limit, and a rollback without room for page images",
    .configure = configure,
    .setup = setup,
    .run = run,
    .dump = dump,
    LL_SIM_CELLS_MODEL,
    .pages = ll_sim_pages_each,
    .operations = operations,
    .go_on = go_on,
    .meanwhile = meanwhile,
};
