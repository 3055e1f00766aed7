/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * threads: workloads of two or three threads, for lladd_sim_interleave.
 *
 *  threads.commit      two transactions commit; one sync or two make them durable
 *  threads.abort       three transactions at a time; one of them is rolled back
 *  threads.wait        commits that return before they are durable, and a wait for them
 *  threads.checkpoint  a transaction commits before, during or after a checkpoint
 *  threads.prepare     one transaction is prepared and committed, another is prepared and ended by
 *                      a heuristic abort; meanwhile a checkpoint is taken
 *  threads.background  the library's own threads write pages and take checkpoints
 *
 * A cell is a text on a page of its own. No two threads write the same page, because the subjects
 * test what threads share inside the library.
 */
#include "sim/subjects/cells.h"

#include <lladd/extension.h>
#include <lladd/records.h>

enum { CELLS = 8, LEN = 40, AT = 200 };

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    lladd_pageno first;
    const uint64_t *pages = ctx;
    return ll_sim_pages_make(db, *pages, &first, err);
}

/* ---- the threads ------------------------------------------------------------------------- */

static int begin(struct ll_sim_work *w, enum lladd_durability durability, struct lladd_txn **txn)
{
    struct lladd_txn_options o = LLADD_TXN_OPTIONS_INIT;
    o.durability = durability;
    return lladd_sim_begin(w->sim, w->db, &o, txn, w->err);
}

static int fill(struct ll_sim_work *w, struct lladd_txn *txn, unsigned cell, char letter)
{
    unsigned char bytes[LEN];
    ll_sim_fill(bytes, cell, letter, LEN);
    int rc = lladd_bytes_set(txn, lladd_page_of(w->first.v + cell), AT, bytes, LEN);
    return rc ? ll_sim_give_up(w->sim, txn, rc, w->err)
              : ll_sim_cell_note(w, txn, cell, letter, LEN);
}

static int change(struct ll_sim_work *w, enum lladd_durability durability, unsigned cell,
                  char letter, struct lladd_txn **txn)
{
    TRY(begin(w, durability, txn));
    return fill(w, *txn, cell, letter);
}

static int change_and_commit(struct ll_sim_work *w, enum lladd_durability durability, unsigned cell,
                             char letter)
{
    struct lladd_txn *txn;
    TRY(change(w, durability, cell, letter, &txn));
    return lladd_sim_commit(w->sim, txn);
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

static int start(struct ll_sim_work *w, struct lladd_sim *sim, struct lladd_db *db,
                 struct lladd_error *err)
{
    *w = (struct ll_sim_work){.sim = sim, .db = db, .err = err};
    return ll_sim_pages_find(db, &w->first, err);
}

static int commits(void *ctx, struct lladd_sim *sim, struct lladd_db *db, unsigned thread,
                   struct lladd_error *err)
{
    struct ll_sim_work w;
    (void)ctx;
    TRY(start(&w, sim, db, err));
    return change_and_commit(&w, LLADD_DURABLE, thread, (char)('a' + thread));
}

static int one_aborts(void *ctx, struct lladd_sim *sim, struct lladd_db *db, unsigned thread,
                      struct lladd_error *err)
{
    struct ll_sim_work w;
    struct lladd_txn *txn;
    (void)ctx;
    TRY(start(&w, sim, db, err));
    TRY(change(&w, LLADD_DURABLE, thread, (char)('a' + thread), &txn));
    return thread == 2 ? lladd_sim_abort(sim, txn) : lladd_sim_commit(sim, txn);
}

/* Thread 0 commits twice without waiting, then waits for both commits. Thread 1 makes a commit that
 * is durable later, then a commit that is durable when it returns. */
static int waits(void *ctx, struct lladd_sim *sim, struct lladd_db *db, unsigned thread,
                 struct lladd_error *err)
{
    struct ll_sim_work w;
    struct lladd_txn *txn;
    lladd_lsn ordered;
    (void)ctx;
    TRY(start(&w, sim, db, err));
    if (thread == 1) {
        TRY(change_and_commit(&w, LLADD_DURABLE_LATER, 1, 'l'));
        return change_and_commit(&w, LLADD_DURABLE, 2, 'd');
    }
    TRY(change(&w, LLADD_DURABLE, 0, 'p', &txn));
    TRY(lladd_sim_commit_async(sim, txn, &ordered));
    TRY(change(&w, LLADD_DURABLE, 0, 'q', &txn));
    TRY(lladd_sim_commit_async(sim, txn, &ordered));
    return lladd_sim_wait_durable(sim, db, ordered, err);
}

/* Fills the log with notes, which need no undo. */
static int leave_log(struct ll_sim_work *w, unsigned notes)
{
    enum { LONG = 1500 };
    static const unsigned char bytes[LONG];
    struct lladd_txn *txn;
    TRY(begin(w, LLADD_DURABLE_LATER, &txn));
    for (unsigned i = 0; i < notes; i++) {
        int rc = lladd_log_note(txn, "sim.note", lladd_span_of(bytes, LONG), NULL);
        if (rc)
            return ll_sim_give_up(w->sim, txn, rc, w->err);
    }
    return lladd_sim_commit(w->sim, txn);
}

/* Thread 0 commits without waiting. Thread 1 fills several log segments, takes a checkpoint, and
 * continues until the log reuses its first segments. */
static int takes_checkpoint(void *ctx, struct lladd_sim *sim, struct lladd_db *db, unsigned thread,
                            struct lladd_error *err)
{
    struct ll_sim_work w;
    bool more = true;
    (void)ctx;
    TRY(start(&w, sim, db, err));
    if (thread == 0)
        return change_and_commit(&w, LLADD_DURABLE_LATER, 0, 'l');
    TRY(leave_log(&w, 6));
    TRY(lladd_checkpoint(db, err));
    TRY(leave_log(&w, 14));
    while (more)
        TRY(lladd_maintain(db, &more, err));
    return 0;
}

static int prepares(void *ctx, struct lladd_sim *sim, struct lladd_db *db, unsigned thread,
                    struct lladd_error *err)
{
    struct lladd_gid gid = {.format = 2, .gtrid_length = 6, .data = "thread"};
    struct ll_sim_work w;
    struct lladd_txn *txn;
    (void)ctx;
    TRY(start(&w, sim, db, err));
    if (thread == 2)
        return lladd_checkpoint(db, err);
    gid.data[5] = (unsigned char)('0' + thread);
    TRY(change(&w, LLADD_DURABLE, thread, (char)('a' + thread), &txn));
    int rc = lladd_sim_prepare(sim, txn, &gid);
    if (rc)
        return ll_sim_give_up(sim, txn, rc, err);
    return thread == 0 ? lladd_sim_commit(sim, txn)
                       : lladd_sim_heuristic_end(sim, txn, LLADD_OUTCOME_ABORT);
}

enum { PAGES = 18 };

/* Together the threads use more pages than the cache holds, and enough log for a checkpoint. */
static int works(void *ctx, struct lladd_sim *sim, struct lladd_db *db, unsigned thread,
                 struct lladd_error *err)
{
    struct ll_sim_work w;
    (void)ctx;
    TRY(start(&w, sim, db, err));
    if (thread == 0) {
        TRY(change_and_commit(&w, LLADD_DURABLE, 0, 'a'));
        return change_and_commit(&w, LLADD_DURABLE_LATER, 1, 'b');
    }
    TRY(change_and_commit(&w, LLADD_DURABLE_LATER, 2, 'c'));
    return look_at(&w, CELLS, PAGES);
}

/* ---- dump and check ---------------------------------------------------------------------- */

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink, struct lladd_error *err)
{
    (void)ctx;
    return ll_sim_cells_dump_bytes(db, CELLS, AT, 0, LEN, sink, err);
}

static int small_segments(void *ctx, struct lladd_options *o, struct lladd_error *err)
{
    (void)ctx;
    (void)err;
    o->log_segment_min = o->log_segment_max = 4 << 10;
    return 0;
}

static int small_cache(void *ctx, struct lladd_options *o, struct lladd_error *err)
{
    (void)ctx;
    (void)err;
    o->cache_bytes = 64 << 10;
    o->checkpoint_bytes = 400;
    return 0;
}

static const char *const operations[] = {"lladd.set", NULL};
static const uint64_t few_pages = 3, many_pages = PAGES;

#define THREADS_SUBJECT(which, what) \
    .struct_size = sizeof(struct lladd_sim_subject), .name = "threads." which, .about = what, \
    .setup = setup, .dump = dump, LL_SIM_CELLS_MODEL, .pages = ll_sim_pages_each, \
    .operations = operations

const struct lladd_sim_subject ll_sim_subject_threads_commit = {
    THREADS_SUBJECT("commit", "two threads commit, in one group or in two"),
    .ctx = (void *)(uintptr_t)&few_pages,
    .threads = 2,
    .run_thread = commits,
};

const struct lladd_sim_subject ll_sim_subject_threads_abort = {
    THREADS_SUBJECT("abort", "three threads change pages, one rolls back"),
    .ctx = (void *)(uintptr_t)&few_pages,
    .threads = 3,
    .run_thread = one_aborts,
};

const struct lladd_sim_subject ll_sim_subject_threads_wait = {
    THREADS_SUBJECT("wait", "commits that are durable later, and a wait for them"),
    .ctx = (void *)(uintptr_t)&few_pages,
    .threads = 2,
    .run_thread = waits,
};

const struct lladd_sim_subject ll_sim_subject_threads_checkpoint = {
    THREADS_SUBJECT("checkpoint", "a commit while a checkpoint is taken and the log truncated"),
    .ctx = (void *)(uintptr_t)&few_pages,
    .configure = small_segments,
    .threads = 2,
    .run_thread = takes_checkpoint,
};

const struct lladd_sim_subject ll_sim_subject_threads_prepare = {
    THREADS_SUBJECT("prepare", "two-phase commit, and a heuristic abort, during a checkpoint"),
    .ctx = (void *)(uintptr_t)&few_pages,
    .threads = 3,
    .run_thread = prepares,
};

const struct lladd_sim_subject ll_sim_subject_threads_background = {
    THREADS_SUBJECT("background", "the library's threads write pages and take checkpoints"),
    .ctx = (void *)(uintptr_t)&many_pages,
    .configure = small_cache,
    .threads = 2,
    .run_thread = works,
    .background = true,
};
