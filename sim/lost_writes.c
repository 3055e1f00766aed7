/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lost_writes: page writes that the disk acknowledges while the database is open, but loses or
 * writes to another page (faults `page-lost` and `page-astray`).
 *
 * The workload runs, and one of its writes goes wrong in this way. A checkpoint then writes all
 * dirty pages. Then the simulator empties the cache, ends all transactions, and reads the whole
 * database through the same handle. The handle must show the right contents, or report that stored
 * bytes are wrong. It can always do one of the two: a workload writes so few pages that the handle
 * remembers the LSN of each (buffer/write_history.c). Raw extents are exempt, since they have no
 * page LSNs.
 *
 * Open transactions are rolled back. Prepared transactions are committed if their number is even,
 * else rolled back.
 */
#include "sim/errors.h"

#include <lladd/bulk.h>
#include <lladd/stats.h>

/* Does the error code say that stored bytes are wrong? */
static bool is_told(int code)
{
    return lladd_code_root(code) == LLADD_ROOT_DATA || code == LLADD_UNDO_FAILED;
}

/* Empties the cache, so that every page is read again. */
static int read_all_again(struct lladd_db *db)
{
    struct lladd_stats s = {.struct_size = sizeof s};
    int rc = lladd_stats_get(db, &s);
    return rc ? rc : lladd_pages_discard(db, (lladd_pageno){0}, s.pages);
}

/* Ends all transactions. Prepared ones are ended through the simulator, which updates the model. */
static int end_all(struct lladd_sim *sim)
{
    int rc = 0;
    for (uint32_t i = sim->record.n_txns; !rc && i-- > 0;) {
        struct ll_sim_txn *t = sim->record.txn[i];
        if (t->handle)
            rc = t->prepared && i % 2 ? lladd_sim_commit(sim, t->handle)
                 : t->prepared        ? lladd_sim_abort(sim, t->handle)
                                      : lladd_abort(t->handle);
        t->handle = NULL;
    }
    return rc;
}

/* Runs the workload, and judges what its handle shows afterwards. *told is true if a call has
 * reported that stored bytes are wrong. */
static int run_and_look(struct ll_sim_faults *f, struct ll_sim_verdict *v, bool *told)
{
    struct lladd_sim *sim = f->sim;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_db *db = NULL;
    bool ending;
    int rc = ll_sim_record_begin(sim);
    if (rc)
        return rc;
    *v = (struct ll_sim_verdict){0};
    ll_sim_arm(f);
    int failed = ll_sim_open(sim, &sim->workload, &db, &err);
    bool opened = failed == 0;
    f->phase = LL_SIM_RUNNING;
    if (opened)
        failed = ll_sim_subject_run(sim, db, &err);
    if (!failed)
        failed = lladd_checkpoint(db, &err);
    ll_sim_disarm(f);
    if (!failed)
        failed = read_all_again(db);
    if (!failed)
        failed = end_all(sim);
    if (!failed && !sim->workload.failed)
        rc = ll_sim_expect(sim);
    if (failed || rc || sim->workload.failed) {
        if (opened)
            lladd_db_kill(db);
        v->code = failed;
        *told = is_told(failed);
        if (failed && !*told)
            (void)ll_sim_object(v, LLADD_SIM_O_ERRORS, "%s: %s", lladd_code_name(failed),
                                err.message);
        return rc ? rc : sim->workload.failed;
    }
    uint32_t all = sim->record.n_decisions;
    struct ll_sim_claim claim = {.lo = all, .hi = all};
    rc = ll_sim_judge_open(sim, &sim->workload, db, &claim, v, &ending);
    *told = v->oracle && is_told(v->code);
    if (*told)
        v->oracle = LLADD_SIM_O_NONE;
    return rc;
}

int ll_sim_lose_write(struct ll_sim_faults *f, struct ll_sim_verdict *v)
{
    bool told = false;
    *v = (struct ll_sim_verdict){0};
    int rc = run_and_look(f, v, &told);
    if (f->fired && f->sim->raw_write)
        v->oracle = LLADD_SIM_O_NONE;
    if (rc || !f->report)
        return rc;
    struct lladd_sim_fault_counts *c = &f->report->faults[f->kind];
    if (!f->fired)
        c->chances += f->seen;
    f->report->runs += f->fired > 0;
    c->once += f->fired > 0;
    c->returned += f->fired && told;
    c->absorbed += f->fired && !told;
    return 0;
}
