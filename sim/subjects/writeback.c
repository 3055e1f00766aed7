/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * writeback: the images that a page gets when it is written back (BUF-5), in caches of a few pages.
 *
 *  threads.writeback  a thread takes a checkpoint while another changes pages again and evicts them
 *  threads.ring       two threads evict pages while they have all the log credit
 *  writeback.redo     redo evicts pages between their records
 *  writeback.clean    a page is found damaged before anything else happens after a clean close
 *  writeback.limit    a checkpoint logs images until the log is nearly at its limit
 *
 * A cell is a text on a page. With threads, each page has two cells, one for each thread.
 */
#include "sim/subjects/cells.h"

#include <lladd/extension.h>
#include <lladd/records.h>
#include <lladd/stats.h>

enum { AT = 3200, LEN = 100, NOTE = 1500 };

static int tiny_cache(void *ctx, struct lladd_options *o, struct lladd_error *err)
{
    (void)ctx;
    (void)err;
    o->cache_bytes = 64 << 10;
    o->log_segment_min = o->log_segment_max = 4 << 10;
    return 0;
}

static int fill(struct ll_sim_work *w, struct lladd_txn *txn, unsigned page, uint32_t at,
                unsigned cell, char letter)
{
    unsigned char bytes[LEN];
    ll_sim_fill(bytes, cell, letter, LEN);
    TRY(lladd_bytes_set(txn, lladd_page_of(w->first.v + page), at, bytes, LEN));
    return ll_sim_cell_note(w, txn, cell, letter, LEN);
}

/* Reads pages, so that others are evicted from the cache. */
static int look_at(struct ll_sim_work *w, unsigned from, unsigned to)
{
    for (unsigned p = from; p < to; p++) {
        unsigned char byte;
        TRY(lladd_bytes_get(w->db, lladd_page_of(w->first.v + p), 0, &byte, 1, w->err));
    }
    return 0;
}

/* Fills log segments with notes. */
static int leave_log(struct ll_sim_work *w, unsigned notes)
{
    static const unsigned char bytes[NOTE];
    struct lladd_txn *txn;
    TRY(lladd_sim_begin(w->sim, w->db, NULL, &txn, w->err));
    for (unsigned i = 0; i < notes; i++) {
        int rc = lladd_log_note(txn, "sim.note", lladd_span_of(bytes, NOTE), NULL);
        if (rc)
            return ll_sim_give_up(w->sim, txn, rc, w->err);
    }
    return lladd_sim_commit(w->sim, txn);
}

static const char *const operations[] = {"lladd.set", NULL};

/* ---- threads.writeback ----------------------------------------------------------------------- */

enum { SHARED = 2, PAGES = 24 }; /* pages with cells; all pages */

static int setup_threads(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    lladd_pageno first;
    (void)ctx;
    return ll_sim_pages_make(db, PAGES, &first, err);
}

static int change(struct ll_sim_work *w, unsigned thread, unsigned pages,
                  enum lladd_durability durability, char letter)
{
    struct lladd_txn_options o = LLADD_TXN_OPTIONS_INIT;
    struct lladd_txn *txn;
    int rc = 0;
    o.durability = durability;
    TRY(lladd_sim_begin(w->sim, w->db, &o, &txn, w->err));
    for (unsigned p = 0; !rc && p < SHARED; p++)
        if (pages >> p & 1)
            rc = fill(w, txn, p, AT + thread * LEN, 2 * p + thread, letter);
    return rc ? ll_sim_give_up(w->sim, txn, rc, w->err) : lladd_sim_commit(w->sim, txn);
}

/* Before the checkpoint of thread 0, page 0 is clean and has an image after the start of redo; page
 * 1 is dirty and has no such image. The notes after the checkpoint make the log reuse the segments
 * that contain the old bases of both pages. As long as these bases exist, recovery rebuilds a torn
 * page from them, and the loss of an image does not show. */
static int run_thread(void *ctx, struct lladd_sim *sim, struct lladd_db *db, unsigned thread,
                      struct lladd_error *err)
{
    struct ll_sim_work w = {.sim = sim, .db = db, .err = err};
    (void)ctx;
    TRY(ll_sim_pages_find(db, &w.first, err));
    if (thread == 1) {
        TRY(change(&w, 1, 3, LLADD_DURABLE, 'd'));
        return look_at(&w, SHARED, PAGES);
    }
    TRY(change(&w, 0, 1, LLADD_DURABLE_LATER, 'a'));
    TRY(look_at(&w, SHARED, PAGES));
    TRY(leave_log(&w, 6));
    TRY(change(&w, 0, 2, LLADD_DURABLE_LATER, 'b'));
    TRY(lladd_checkpoint(db, err));
    return leave_log(&w, 14);
}

static int dump_threads(void *ctx, struct lladd_db *db, struct lladd_sink *sink,
                        struct lladd_error *err)
{
    struct ll_sim_cells c = {0};
    lladd_pageno first;
    (void)ctx;
    TRY(ll_sim_pages_find(db, &first, err));
    for (unsigned cell = 0; cell < 2 * SHARED; cell++) {
        unsigned char bytes[LEN];
        TRY(lladd_bytes_get(db, lladd_page_of(first.v + cell / 2), AT + cell % 2 * LEN, bytes, LEN,
                            err));
        if (bytes[0] != 0 && !(ll_sim_cells_see(&c, bytes, LEN) && c.at[cell].letter))
            return lladd_error_set(err, LLADD_BAD_STATE,
                                   "the bytes of cell %u are not a text of this cell", cell);
    }
    return ll_sim_cells_write(&c, sink);
}

const struct lladd_sim_subject ll_sim_subject_threads_writeback = {
    .struct_size = sizeof(struct lladd_sim_subject),
    .name = "threads.writeback",
    .about = "pages are changed and evicted while a checkpoint raises the image horizon",
    .configure = tiny_cache,
    .setup = setup_threads,
    .threads = 2,
    .run_thread = run_thread,
    .dump = dump_threads,
    LL_SIM_CELLS_MODEL,
    .pages = ll_sim_pages_each,
    .operations = operations,
};

/* ---- writeback.redo -------------------------------------------------------------------------- */

enum { CELLS = 18, OFTEN = 3 }; /* CELLS: number of pages; OFTEN: pages that are read again and
                                 * again */

static int setup_redo(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    lladd_pageno first;
    (void)ctx;
    return ll_sim_pages_make(db, CELLS, &first, err);
}

static int fills_a(struct ll_sim_work *w, struct lladd_txn *txn)
{
    for (unsigned cell = 0; cell < CELLS; cell++) {
        TRY(fill(w, txn, cell, AT, cell, 'a'));
        TRY(look_at(w, 0, cell < OFTEN ? cell : OFTEN));
    }
    return lladd_sim_commit(w->sim, txn);
}

static int fills_b(struct ll_sim_work *w, struct lladd_txn *txn)
{
    for (unsigned cell = 0; cell < OFTEN; cell++)
        TRY(fill(w, txn, cell, AT, cell, 'b'));
    return lladd_sim_commit(w->sim, txn);
}

static int run_redo(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.sim = sim, .db = db, .err = err};
    (void)ctx;
    TRY(ll_sim_pages_find(db, &w.first, err));
    TRY(ll_sim_in_txn(&w, fills_a));
    return ll_sim_in_txn(&w, fills_b);
}

static int dump_pages(void *ctx, struct lladd_db *db, struct lladd_sink *sink,
                      struct lladd_error *err)
{
    (void)ctx;
    return ll_sim_cells_dump_bytes(db, CELLS, AT, 0, LEN, sink, err);
}

const struct lladd_sim_subject ll_sim_subject_writeback_redo = {
    .struct_size = sizeof(struct lladd_sim_subject),
    .name = "writeback.redo",
    .about = "redo in a cache that is smaller than the pages that it redoes",
    .configure = tiny_cache,
    .setup = setup_redo,
    .run = run_redo,
    .dump = dump_pages,
    LL_SIM_CELLS_MODEL,
    .pages = ll_sim_pages_each,
    .operations = operations,
};

/* ---- threads.ring ---------------------------------------------------------------------------- */

enum { RING_THREADS = 2, RING_PAGES = 6 };

static int change_many(struct ll_sim_work *w, struct lladd_txn *txn, unsigned thread)
{
    uint64_t own = w->first.v + RING_THREADS + thread * RING_PAGES;
    for (unsigned i = 0; i < RING_PAGES; i++)
        TRY(lladd_bytes_set(txn, lladd_page_of(own + i), 0, "ring", 4));
    return fill(w, txn, thread, AT, thread, 'r');
}

/* Takes log credit, and keeps it while it reads pages. The log buffer has the smallest possible
 * size, and so has credit for 15 images. */
static int evict_with_credit(struct ll_sim_work *w, struct lladd_txn *txn, unsigned thread)
{
    struct lladd_log_need images = {LLADD_PAGE_IMAGE, thread ? 6 : 9}, none = {LLADD_PAGE_IMAGE, 0};
    int rc = lladd_log_credit_all(txn, &images, 1);
    if (!rc)
        rc = look_at(w, 0, PAGES);
    int rest = lladd_log_credit_all(txn, &none, 1);
    return rc ? rc : rest;
}

/* After the clean close every page needs an image when it is written first. Together the threads
 * take all the log credit, and then evict dirty pages. */
static int run_ring(void *ctx, struct lladd_sim *sim, struct lladd_db *db, unsigned thread,
                    struct lladd_error *err)
{
    struct lladd_txn_options o = LLADD_TXN_OPTIONS_INIT;
    struct ll_sim_work w = {.sim = sim, .db = db, .err = err};
    struct lladd_txn *txn;
    (void)ctx;
    o.durability = thread ? LLADD_DURABLE_LATER : LLADD_DURABLE;
    TRY(ll_sim_pages_find(db, &w.first, err));
    TRY(lladd_sim_begin(sim, db, &o, &txn, err));
    int rc = change_many(&w, txn, thread);
    if (!rc)
        rc = evict_with_credit(&w, txn, thread);
    return rc ? ll_sim_give_up(sim, txn, rc, err) : lladd_sim_commit(sim, txn);
}

static int dump_ring(void *ctx, struct lladd_db *db, struct lladd_sink *sink,
                     struct lladd_error *err)
{
    (void)ctx;
    return ll_sim_cells_dump_bytes(db, RING_THREADS, AT, 0, LEN, sink, err);
}

const struct lladd_sim_subject ll_sim_subject_threads_ring = {
    .struct_size = sizeof(struct lladd_sim_subject),
    .name = "threads.ring",
    .about = "pages are evicted by two threads that have all the log credit",
    .configure = tiny_cache,
    .setup = setup_threads,
    .threads = RING_THREADS,
    .run_thread = run_ring,
    .dump = dump_ring,
    LL_SIM_CELLS_MODEL,
    .pages = ll_sim_pages_each,
    .operations = operations,
};

/* ---- writeback.clean ------------------------------------------------------------------------- */

static int long_segments(void *ctx, struct lladd_options *o, struct lladd_error *err)
{
    (void)tiny_cache(ctx, o, err);
    o->log_segment_min = o->log_segment_max = 64 << 10; /* large, so that the log keeps the pages'
                                                         * bases */
    return 0;
}

static int fills_all(struct ll_sim_work *w, struct lladd_txn *txn)
{
    for (unsigned cell = 0; cell < CELLS; cell++) {
        unsigned char bytes[LEN];
        ll_sim_fill(bytes, cell, 's', LEN);
        TRY(lladd_bytes_set(txn, lladd_page_of(w->first.v + cell), AT, bytes, LEN));
    }
    return 0;
}

static int setup_clean(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.db = db, .err = err};
    struct lladd_txn *txn;
    (void)ctx;
    TRY(ll_sim_pages_make(db, CELLS, &w.first, err));
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = fills_all(&w, txn);
    return rc ? ll_sim_give_up(NULL, txn, rc, err) : lladd_commit(txn);
}

static void init_clean(void *ctx, void *model)
{
    struct ll_sim_cells *c = model;
    (void)ctx;
    for (unsigned cell = 0; cell < CELLS; cell++)
        c->at[cell] = (struct ll_sim_cell){'s', LEN};
}

/* Rebuilds the damaged page, which makes it dirty, and evicts it. Nothing else has been logged
 * since the clean close. */
static int run_clean(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.sim = sim, .db = db, .err = err};
    (void)ctx;
    TRY(ll_sim_pages_find(db, &w.first, err));
    lladd_sim_misread(sim, w.first);
    TRY(look_at(&w, 0, CELLS));
    return ll_sim_in_txn(&w, fills_b);
}

const struct lladd_sim_subject ll_sim_subject_writeback_clean = {
    .struct_size = sizeof(struct lladd_sim_subject),
    .name = "writeback.clean",
    .about = "a page is found damaged, rebuilt and evicted in a database that was closed cleanly",
    .configure = long_segments,
    .setup = setup_clean,
    .run = run_clean,
    .dump = dump_pages,
    LL_SIM_CELLS_MODEL,
    .model_init = init_clean,
    .pages = ll_sim_pages_each,
    .operations = operations,
};

/* ---- writeback.limit ------------------------------------------------------------------------- */

enum { LIMITED = 36, LIMIT = 1 << 20, NOTES = 440, REST = 25 };

static int limited(void *ctx, struct lladd_options *o, struct lladd_error *err)
{
    (void)ctx;
    (void)err;
    o->flags |= LLADD_OPT_LOG_FULL_ERROR;
    o->cache_bytes = 512 << 10;
    o->log_ring_bytes = 128 << 10;
    o->log_segment_min = o->log_segment_max = 4 << 10;
    o->log_limit_bytes = o->checkpoint_bytes = LIMIT;
    return 0;
}

static int setup_limit(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    lladd_pageno first;
    (void)ctx;
    TRY(ll_sim_pages_make(db, LIMITED, &first, err));
    return ll_sim_pages_noise(db, 0, LIMITED, err);
}

static int fills_limited(struct ll_sim_work *w, struct lladd_txn *txn)
{
    for (unsigned cell = 1; cell < LIMITED; cell++)
        TRY(fill(w, txn, cell, AT, cell, 'a'));
    return lladd_sim_commit(w->sim, txn);
}

static int stays_open(struct ll_sim_work *w, struct lladd_txn *txn)
{
    return fill(w, txn, 0, AT, 0, 'o');
}

/* The first checkpoint truncates the setup's log, unless a contract check has pinned it. Then an
 * open transaction keeps the log. A checkpoint logs images only up to seven eighths of the limit.
 * The images of all pages would need more, so the checkpoint leaves some out. The last notes need
 * the log that is left. */
static int run_limit(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.sim = sim, .db = db, .err = err};
    struct lladd_stats s = {.struct_size = sizeof s};
    (void)ctx;
    TRY(ll_sim_pages_find(db, &w.first, err));
    TRY(lladd_checkpoint(db, err));
    TRY(lladd_stats_get(db, &s));
    TRY(ll_sim_in_txn(&w, stays_open));
    TRY(leave_log(&w, s.log_tail - s.log_oldest < LIMIT / 8 ? NOTES : 0));
    TRY(ll_sim_in_txn(&w, fills_limited));
    TRY(lladd_checkpoint(db, err));
    return leave_log(&w, REST);
}

static int dump_limit(void *ctx, struct lladd_db *db, struct lladd_sink *sink,
                      struct lladd_error *err)
{
    (void)ctx;
    return ll_sim_cells_dump_bytes(db, LIMITED, AT, 0, LEN, sink, err);
}

/* With LLADD_OPT_LOG_FULL_ERROR the library does not take the checkpoint that makes room in the
 * log, so this function takes it. */
static int go_on_limit(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_txn *txn;
    lladd_pageno first;
    (void)ctx;
    TRY(lladd_checkpoint(db, err));
    TRY(ll_sim_pages_find(db, &first, err));
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = lladd_bytes_set(txn, first, AT + LEN, "on", 2);
    return rc ? ll_sim_give_up(NULL, txn, rc, err) : lladd_commit(txn);
}

/* While pages have pending redo, the log may have no room for a record. */
static int read_one(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.db = db, .err = err};
    (void)ctx;
    TRY(ll_sim_pages_find(db, &w.first, err));
    return look_at(&w, 0, 1);
}

const struct lladd_sim_subject ll_sim_subject_writeback_limit = {
    .struct_size = sizeof(struct lladd_sim_subject),
    .name = "writeback.limit",
    .about = "images leave the end of a log with a limit to transactions",
    .configure = limited,
    .setup = setup_limit,
    .run = run_limit,
    .dump = dump_limit,
    LL_SIM_CELLS_MODEL,
    .pages = ll_sim_pages_each,
    .operations = operations,
    .go_on = go_on_limit,
    .meanwhile = read_one,
};
