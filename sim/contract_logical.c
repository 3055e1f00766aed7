/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * contract_logical: checks logical undo with undo-only records (LLADD paper, section 2.4; OP-5).
 *
 * An undo-only record is logged before the changes that it undoes. Recovery may therefore run the
 * undo when only some of the changes were made, or none. It may also run the undo again after a
 * crash has interrupted it. This check uses a database in memory. It runs the undo three times:
 * without the changes, once after the changes, and several times after the changes.
 */
#include "sim/contract_private.h"

#include <lladd/device.h>
#include <lladd/extension.h>
#include <stdlib.h>

enum { TIMES = 3 };

struct contents {
    unsigned char *bytes;
    size_t len, room;
};

struct logical {
    struct ll_sim__bench *b;
    const struct lladd_sim_undo *undo;
    struct lladd_sim_kept *k;
    struct lladd_device *device;
    struct lladd_options options;
    struct lladd_db *db;
    struct lladd_error err;
    struct contents before, after;
};

static int gather(void *ctx, const void *bytes, size_t len)
{
    struct contents *c = ctx;
    if (c->len + len > c->room) {
        size_t room = 2 * (c->len + len);
        unsigned char *p = realloc(c->bytes, room);
        if (!p)
            return LLADD_NO_MEMORY;
        c->bytes = p;
        c->room = room;
    }
    memcpy(c->bytes + c->len, bytes, len);
    c->len += len;
    return 0;
}

static int dump(struct logical *l, struct contents *to)
{
    struct lladd_sink sink = {.ctx = to, .write = gather};
    to->len = 0;
    ll_sim__clock(l->b, "dump", l->undo->op);
    int rc = l->b->in->dump(l->b->in->ctx, l->db, &sink, &l->err);
    ll_sim__clock_off();
    return rc ? rc : sink.failed;
}

/* Logs the undo-only record `times` times in a transaction, and aborts the transaction. */
static int undo_changes(struct logical *l, unsigned times)
{
    lladd_op_id id;
    struct lladd_txn *txn;
    int rc = lladd_op_lookup(l->db, l->undo->op, 0, &id);
    if (rc)
        return lladd_error_set(&l->err, rc, "it is not registered");
    rc = lladd_begin(l->db, NULL, &txn, &l->err);
    if (rc)
        return rc;
    for (unsigned i = 0; !rc && i < times; i++)
        rc = lladd_log_undo_only(txn, id, l->undo->undo.data, l->undo->undo.len);
    if (rc)
        l->err = *lladd_txn_error(txn);
    ll_sim__clock(l->b, "compensate", l->undo->op);
    int aborted = lladd_abort(txn);
    ll_sim__clock_off();
    if (!rc && aborted)
        (void)lladd_db_error(l->db, &l->err);
    return rc ? rc : aborted;
}

static int take_effect(struct logical *l)
{
    struct lladd_txn *txn;
    int rc = lladd_begin(l->db, NULL, &txn, &l->err);
    if (rc)
        return rc;
    ll_sim__clock(l->b, "effect", l->undo->op);
    rc = l->undo->effect(l->b->in->ctx, txn);
    ll_sim__clock_off();
    if (!rc)
        rc = lladd_commit(txn);
    if (!rc)
        return 0;
    l->err = *lladd_txn_error(txn);
    (void)lladd_abort(txn);
    return rc;
}

static int unchanged(struct logical *l, enum lladd_sim_check check, const char *what)
{
    int rc = dump(l, &l->after);
    if (rc)
        return rc;
    if (l->before.len == l->after.len &&
        (l->before.len == 0 || memcmp(l->before.bytes, l->after.bytes, l->before.len) == 0))
        ll_sim__kept(l->k, check);
    else
        ll_sim__broken(l->k, check, "%s, the contents are not as they were", what);
    return 0;
}

static int run(struct logical *l)
{
    int rc = dump(l, &l->before);
    if (!rc)
        rc = undo_changes(l, 1);
    if (!rc)
        rc = unchanged(l, LLADD_SIM_C_ABSENT, "after the undo of what was never done");
    if (!rc)
        rc = take_effect(l);
    if (!rc)
        rc = undo_changes(l, 1);
    if (!rc)
        rc = unchanged(l, LLADD_SIM_C_RESTORES, "after the undo of what was done");
    if (!rc)
        rc = take_effect(l);
    if (!rc)
        rc = undo_changes(l, TIMES);
    return rc ? rc : unchanged(l, LLADD_SIM_C_TWICE, "after the undo, repeated");
}

static int open(struct logical *l)
{
    const struct lladd_sim_contract *in = l->b->in;
    l->options = (struct lladd_options)LLADD_OPTIONS_INIT;
    l->options.page_size = l->b->size;
    l->options.frames = LLADD_FRAMES_HEAP;
    l->options.cache_bytes = 4u << 20;
    l->options.log_ring_bytes = 1u << 20;
    int rc = lladd_device_memory(&l->device);
    if (rc)
        return lladd_error_set(&l->err, rc, "no memory for a database");
    if (in->configure)
        rc = in->configure(in->ctx, &l->options, &l->err);
    l->options.device = l->device;
    l->options.flags |= LLADD_OPT_NO_THREADS;
    if (!rc)
        rc = lladd_open(NULL, &l->options, &l->db, &l->err);
    if (!rc && in->setup)
        rc = in->setup(in->ctx, l->db, &l->err);
    return rc;
}

void ll_sim__check_undo(struct ll_sim__bench *b, const struct lladd_sim_undo *undo,
                        struct lladd_sim_kept *k)
{
    struct logical l = {.b = b, .undo = undo, .k = k, .err = LLADD_ERROR_INIT};
    int rc = open(&l);
    if (!rc)
        rc = run(&l);
    if (rc)
        ll_sim__broken(k, LLADD_SIM_C_ACCEPTS, "%s: %.120s",
                       lladd_code_name(rc) ? lladd_code_name(rc) : "error", l.err.message);
    if (l.db)
        lladd_db_kill(l.db);
    lladd_options_release(&l.options);
    if (l.device)
        lladd_device_close(l.device);
    free(l.before.bytes);
    free(l.after.bytes);
}
