/* SPDX-License-Identifier: BSD-2-Clause */
/* Inspection: tries the steps of the next open that change nothing.
 *
 * An open reads the control block, lists the log, and reads the log from the last checkpoint on,
 * before it changes anything. This file takes the same steps with the functions of lladd_open, on a
 * core of its own, so the results agree. Operations that are not registered are not an error here.
 * The log that is listed contains all that analysis and redo read, and verify_log.c has read it.
 * Undo may need older records, which are looked for here. verify.c checks the pages and the
 * witness. */
#include "inspect/inspect_private.h"

/* Undo reads the records of each transaction that has not ended. */
static int try_undo(struct ll_core *core, struct ll_log_cursor *cursor, struct lladd_error *err)
{
    uint64_t oldest = ll_log_oldest(core->log).v;
    for (struct lladd_txn *txn = ll_txns_first(&core->txns); txn; txn = ll_txns_next(txn)) {
        struct ll_record rec;
        for (lladd_lsn at = txn->last; at.v && txn->id.v < oldest; at = rec.prev) {
            int rc = ll_log_cursor_need(cursor, at, &rec, err);
            if (rc)
                return rc;
            if (rec.prev.v >= at.v)
                break; /* verify_log.c reports the wrong link */
        }
    }
    return 0;
}

static int try_core(struct lladd_inspect *v, struct ll_core *core, struct lladd_error *err)
{
    struct ll_analysis a;
    uint64_t size = core->page_size, bytes = v->info.page_file_bytes;
    int rc = ll_inspect_open_log(v, &core->control, false, &core->log, err);
    if (rc)
        return rc;
    rc = ll_op_catalog_init(core, &v->registry, err);
    if (rc)
        return rc;
    rc = ll_analysis(core, bytes / size + (bytes % size != 0), &a, err);
    ll_analysis_free(&a);
    struct ll_log_cursor *cursor = NULL;
    if (!rc && ll_log_cursor_open(core->log, &cursor))
        rc = ll_fail(err, LLADD_NO_MEMORY, "out of memory");
    if (!rc)
        rc = try_undo(core, cursor, err);
    ll_log_cursor_close(cursor);
    return rc;
}

int ll_inspect_try_open(struct lladd_inspect *v, struct lladd_error *err)
{
    struct ll_env env = v->core.env;
    struct ll_core *core = ll_alloc_zero(&env, sizeof *core);
    if (!core)
        return ll_fail(err, LLADD_NO_MEMORY, "out of memory");
    core->env = env;
    core->dev = v->core.dev;
    core->control = v->core.control;
    core->looks_only = true;
    core->progress = v->opening;
    core->callback_ctx = v->opening_ctx;
    ll_core_identify(core);
    int rc = lladd_mutex_init(&core->misc, LLADD_RANK_LEAF, "redo barriers and pins");
    if (!rc)
        rc = ll_txns_init(core);
    rc = rc ? ll_fail(err, LLADD_NO_MEMORY, "out of memory") : try_core(v, core, err);
    ll_txns_free(core);
    ll_log_close(core->log);
    ll_op_catalog_free(core);
    ll_free(&env, core->barriers);
    ll_free(&env, core->pins);
    ll_free(&env, core->heuristics);
    lladd_mutex_destroy(&core->misc);
    ll_free(&env, core);
    return rc;
}
