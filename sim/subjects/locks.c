/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * locks: after recovery, exactly the locks of transactions in doubt are held.
 *
 *  locks          transactions lock what they read and write. They are prepared, committed, rolled
 *                 back, rolled back to a savepoint, or left in doubt
 *  threads.locks  two threads add to the same counters, in different order
 *
 * A transaction locks {1, counter} exclusively before it changes a counter. In `locks` each
 * transaction also locks {2, counter} shared for its first counter, as for a read. The global id of
 * a transaction says which counter it has changed, and whether it keeps its read locks while it is
 * in doubt.
 */
#include "sim/subjects/amounts.h"

#include <lladd/lock.h>

#include <string.h>

enum { COUNTERS = 5, WRITTEN = 1, READ = 2 };

static struct ll_sim_place place_of(lladd_pageno first, uint32_t counter)
{
    return (struct ll_sim_place){first, 16 + counter * 700};
}

static int configure(void *ctx, struct lladd_options *o, struct lladd_error *err)
{
    (void)ctx;
    return lladd_lock_register(o, err);
}

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    lladd_pageno first;
    (void)ctx;
    return ll_sim_pages_make(db, 1, &first, err);
}

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink, struct lladd_error *err)
{
    (void)ctx;
    return ll_sim_amounts_read(db, COUNTERS, place_of, sink, err);
}

static int lock(struct lladd_txn *txn, uint64_t table, uint64_t row, enum lladd_lock_mode mode)
{
    return lladd_lock_acquire(txn, LLADD_LOCK_NAME(lladd_lock_id(table), lladd_lock_id(row)), mode,
                      LLADD_LOCK_WAIT);
}

/* Reads the counter and then writes it. Without the lock, one of two concurrent additions would be
 * lost. */
static int add(struct ll_sim_work *w, struct lladd_txn *txn, uint32_t counter, int32_t delta)
{
    struct ll_sim_place p = place_of(w->first, counter);
    int64_t value = 0;
    TRY(lock(txn, WRITTEN, counter, LLADD_LOCK_X));
    TRY(lladd_counter_get(w->db, p.page, p.offset, &value, lladd_txn_error_out(txn)));
    value += delta;
    TRY(lladd_bytes_set(txn, p.page, p.offset, &value, sizeof value));
    return ll_sim_amount_note(w, txn, counter, delta);
}

/* ---- one thread ------------------------------------------------------------------------------ */

static int begin(struct ll_sim_work *w, uint32_t counter, int32_t delta, bool serialisable,
                 struct lladd_txn **txn)
{
    TRY(lladd_sim_begin(w->sim, w->db, NULL, txn, w->err));
    int rc = lladd_lock_serialisable(*txn, serialisable);
    if (!rc)
        rc = lock(*txn, READ, counter, LLADD_LOCK_S);
    if (!rc)
        rc = add(w, *txn, counter, delta);
    if (rc)
        *w->err = *lladd_txn_error(*txn);
    return rc;
}

static int detour(struct ll_sim_work *w, struct lladd_txn *txn, uint32_t counter)
{
    lladd_savepoint_id sp;
    int rc = lladd_sim_savepoint(w->sim, txn, &sp);
    if (!rc)
        rc = add(w, txn, counter, 7);
    if (!rc)
        rc = lladd_sim_rollback_to(w->sim, txn, sp);
    if (rc)
        *w->err = *lladd_txn_error(txn);
    return rc;
}

static int prepare(struct ll_sim_work *w, struct lladd_txn *txn, uint32_t counter,
                   bool serialisable)
{
    struct lladd_gid gid = {.format = 9, .gtrid_length = 2};
    gid.data[0] = (unsigned char)counter;
    gid.data[1] = serialisable;
    int rc = lladd_sim_prepare(w->sim, txn, &gid);
    if (rc)
        *w->err = *lladd_txn_error(txn);
    return rc;
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.sim = sim, .db = db, .err = err};
    struct lladd_txn *kept, *dropped, *doubtful, *other;
    (void)ctx;
    TRY(ll_sim_pages_find(db, &w.first, err));
    TRY(begin(&w, 0, 1000, false, &kept));
    TRY(begin(&w, 1, 2000, true, &dropped));
    TRY(begin(&w, 2, 3000, true, &doubtful));
    TRY(detour(&w, kept, 4));
    TRY(prepare(&w, kept, 0, false));
    TRY(prepare(&w, dropped, 1, true));
    TRY(begin(&w, 4, 40, false, &other)); /* `kept` no longer has counter 4 locked */
    TRY(lladd_sim_commit(sim, other));
    TRY(prepare(&w, doubtful, 2, true));
    TRY(lladd_checkpoint(db, err));
    TRY(lladd_sim_commit(sim, kept));
    TRY(begin(&w, 0, 50, false, &other));
    TRY(lladd_sim_abort(sim, dropped));
    TRY(lladd_sim_commit(sim, other));
    return 0;
}

/* ---- expected locks -------------------------------------------------------------------------- */

struct doubts {
    bool written[COUNTERS], read[COUNTERS];
};

static int note_doubt(void *ctx, const struct lladd_in_doubt_info *info)
{
    struct doubts *d = ctx;
    if (info->gid.format != 9 || info->gid.data[0] >= COUNTERS)
        return LLADD_BAD_STATE;
    d->written[info->gid.data[0]] = true;
    d->read[info->gid.data[0]] = info->gid.data[1] != 0;
    return 0;
}

/* Checks that the row is locked if `locked`, else not locked. */
static int look_at(struct lladd_db *db, uint64_t table, uint64_t row, bool locked,
                   struct lladd_error *err)
{
    struct lladd_txn *txn;
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = lladd_lock_acquire(txn, LLADD_LOCK_NAME(lladd_lock_id(table), lladd_lock_id(row)),
                        LLADD_LOCK_X, LLADD_LOCK_TRY);
    struct lladd_error why = *lladd_txn_error(txn);
    TRY(lladd_abort(txn));
    if (rc && rc != LLADD_BUSY) {
        *err = why;
        return rc;
    }
    if (locked != (rc == LLADD_BUSY))
        return lladd_error_set(err, LLADD_BAD_STATE, "{%u, %u} is %s", (unsigned)table,
                               (unsigned)row, locked ? "not locked" : why.message);
    return 0;
}

static int in_doubt(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct doubts d = {{false}, {false}};
    (void)ctx;
    TRY(lladd_in_doubt_each(db, note_doubt, &d, err));
    for (uint32_t i = 0; i < COUNTERS; i++) {
        TRY(look_at(db, WRITTEN, i, d.written[i], err));
        TRY(look_at(db, READ, i, d.read[i], err));
    }
    return 0;
}

/* ---- two threads ----------------------------------------------------------------------------- */

/* Adds to both counters. After a deadlock the transaction starts again. */
static int add_both(struct ll_sim_work *w, uint32_t first, uint32_t second, int32_t delta)
{
    for (;;) {
        struct lladd_txn *txn;
        TRY(lladd_sim_begin(w->sim, w->db, NULL, &txn, w->err));
        int rc = add(w, txn, first, delta);
        if (!rc)
            rc = add(w, txn, second, delta);
        if (!rc)
            return lladd_sim_commit(w->sim, txn);
        rc = ll_sim_give_up(w->sim, txn, rc, w->err);
        if (rc != LLADD_DEADLOCK)
            return rc;
    }
}

static int run_thread(void *ctx, struct lladd_sim *sim, struct lladd_db *db, unsigned thread,
                      struct lladd_error *err)
{
    struct ll_sim_work w = {.sim = sim, .db = db, .err = err};
    (void)ctx;
    TRY(ll_sim_pages_find(db, &w.first, err));
    return add_both(&w, thread, !thread, thread ? 10 : 1);
}

static const char *const operations[] = {"lladd.set", NULL};

const struct lladd_sim_subject ll_sim_subject_locks = {
    .struct_size = sizeof ll_sim_subject_locks,
    .name = "locks",
    .about = "after recovery, exactly the locks of transactions in doubt are held",
    .configure = configure,
    .setup = setup,
    .run = run,
    .check = in_doubt, /* no transaction is in doubt any more, so nothing may be locked */
    .dump = dump,
    LL_SIM_AMOUNTS_MODEL,
    .pages = ll_sim_pages_each,
    .operations = operations,
    .repeats = true,
    .in_doubt = in_doubt,
};

const struct lladd_sim_subject ll_sim_subject_threads_locks = {
    .struct_size = sizeof ll_sim_subject_threads_locks,
    .name = "threads.locks",
    .about = "two threads lock two rows in different order",
    .configure = configure,
    .setup = setup,
    .check = in_doubt,
    .dump = dump,
    LL_SIM_AMOUNTS_MODEL,
    .pages = ll_sim_pages_each,
    .operations = operations,
    .threads = 2,
    .run_thread = run_thread,
};
