/* SPDX-License-Identifier: BSD-2-Clause */
/* What all parts of the core share: poison, the "in use" mark, log space, the transcript. */
#include "recovery/core.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "util/crc32c.h"

int ll_core_forked(const struct ll_core *core, struct lladd_error *err)
{
    return ll_fail(err, LLADD_FORKED, "the handle belongs to the parent process %llu",
                   (unsigned long long)core->pid);
}

int ll_core_check_slow(struct ll_core *core, struct lladd_error *err)
{
    if (core->pid != (uint64_t)getpid())
        return ll_core_forked(core, err);
    return ll_poison_check(core->poison, err);
}

int ll_core_put_control(struct ll_core *core, struct ll_control *c, struct lladd_error *err)
{
    struct lladd_error why = LLADD_ERROR_INIT;
    LL_ASSERT(lladd_mutex_mine(&core->control_mutex));
    int rc = ll_control_write(&core->env, core->dev, core->control_file, c, &why);
    if (rc) /* final for whatever reason, also on a full disk */
        return ll_poison_set(core->poison, LLADD_WRITE_FAILED, &why, err);
    core->control = *c;
    return 0;
}

int ll_core_mark_slow(struct ll_core *core, struct lladd_error *err)
{
    lladd_mutex_lock(&core->control_mutex);
    int rc = 0;
    if (!lladd_atomic_load32(&core->marked)) {
        struct ll_control c = core->control;
        c.clean = false;
        c.atomic_pages = core->no_images;
        c.segment = lladd_lsn_of(c.segment_bytes = 0);
        rc = ll_core_put_control(core, &c, err);
        if (!rc)
            lladd_atomic_store32(&core->marked, 1);
    }
    lladd_mutex_unlock(&core->control_mutex);
    return rc;
}

void ll_core_identify(struct ll_core *core)
{
    core->page_size = core->control.page_size;
    core->salt = ll_crc32c(0, core->control.uuid, sizeof core->control.uuid);
    memcpy(core->uuid, core->control.uuid, sizeof core->uuid);
}

int ll_core_witness(struct ll_core *core, lladd_pageno page, lladd_lsn lsn,
                    struct lladd_error *err)
{
    if (LL_LIKELY(lsn.v < lladd_atomic_load64(&core->witnessed)))
        return 0;
    int rc = 0;
    lladd_mutex_lock(&core->witness_mutex);
    if (lsn.v >= lladd_atomic_load64(&core->witnessed)) {
        struct ll_witness w = {.durable = ll_log_durable(core->log), .page = page, .page_lsn = lsn};
        /* Behind a cut the log begins with nothing, and the next crash may forget where. */
        if (w.durable.v <= core->began)
            w.durable.v = core->accepted;
        rc = ll_witness_write(&core->env, core->dev, core->control_file, core->salt, &w);
        if (!rc)
            lladd_atomic_store64(&core->witnessed, w.durable.v);
    }
    lladd_mutex_unlock(&core->witness_mutex);
    return rc ? ll_poison_set_io(core->poison, rc, "write to", "control", err) : 0;
}

int ll_core_hear_witness(struct ll_core *core, lladd_lsn end, struct lladd_error *err)
{
    struct ll_witness w;
    int rc = ll_witness_read(core->dev, core->control_file, core->salt, &w, err);
    if (!rc && !core->control.clean)
        rc = ll_witness_check(&w, end, err);
    if (rc)
        return rc;
    lladd_atomic_store64(&core->witnessed, w.durable.v);
    if (w.room)
        return 0;
    /* Made by an older version. On a full disk this run has to do without. */
    struct ll_witness none = {.room = true};
    int io = ll_witness_write(&core->env, core->dev, core->control_file, core->salt, &none);
    if (io && lladd_code_root(ll_io_code(io, true)) != LLADD_ROOT_RESOURCE)
        return ll_fail_io(err, io, true, "write to", "control");
    if (io)
        lladd_atomic_store64(&core->witnessed, UINT64_MAX);
    return 0;
}

lladd_lsn ll_core_redo(struct ll_core *core)
{
    lladd_mutex_lock(&core->control_mutex);
    lladd_lsn redo = core->control.redo;
    lladd_mutex_unlock(&core->control_mutex);
    return redo;
}

int ll_core_feature(struct ll_core *core, uint64_t feature, struct lladd_error *err)
{
    int rc = 0;
    lladd_mutex_lock(&core->control_mutex);
    if (!(core->control.incompatible & feature)) {
        struct ll_control c = core->control;
        c.incompatible |= feature;
        rc = ll_core_put_control(core, &c, err);
    }
    lladd_mutex_unlock(&core->control_mutex);
    return rc;
}

#define TXN_ROW 49u        /* in checkpoint data */
#define PIN_ROW 76u        /* the same, at most */
#define PIN_BYTES 71u      /* of its record, which is logged again when it goes */
#define HEURISTIC_ROW 235u
/* One that frees no log, and after it one that does. */
#define CHECKPOINTS 2u

uint64_t ll_core_aside_least(uint64_t names)
{
    return CHECKPOINTS * (LL_CHECKPOINT_RESERVE + names + TXN_ROW) + LL_CHECKPOINT_RESERVE / 8;
}

static uint64_t checkpoint_bytes(const struct ll_core *core)
{
    return LL_CHECKPOINT_RESERVE + lladd_atomic_load64(&core->cat.log_bytes) +
           TXN_ROW * lladd_atomic_load64(&core->txns.made) +
           PIN_ROW * lladd_atomic_load64(&core->n_pins) +
           HEURISTIC_ROW * lladd_atomic_load64(&core->n_heuristics);
}

/* What is missing of the space for so many checkpoints, and for a record that clears each pin. */
static uint64_t lacking(const struct ll_core *core, unsigned checkpoints)
{
    uint64_t want = checkpoints * checkpoint_bytes(core) +
                    ll_record_bound(PIN_BYTES, 0) * lladd_atomic_load64(&core->n_pins);
    uint64_t have = lladd_atomic_load64(&core->set_aside);
    return have < want ? want - have : 0;
}

bool ll_core_lacks_aside(const struct ll_core *core)
{
    return lacking(core, CHECKPOINTS) != 0;
}

/* Two at a time set aside more than is needed; no harm. Some more, so as not to come here for every
 * new transaction. */
static uint64_t some_more(uint64_t lacks)
{
    return lacks + LL_CHECKPOINT_RESERVE / 8;
}

int ll_core_set_aside(struct ll_core *core, bool owed, struct lladd_error *err)
{
    uint64_t more = lacking(core, CHECKPOINTS);
    if (LL_LIKELY(more == 0))
        return 0;
    more = some_more(more);
    int rc = owed ? ll_log_undo_reserve_owed(core->log, more, err)
                  : ll_log_undo_reserve(core->log, more, err);
    if (!rc)
        lladd_atomic_add64(&core->set_aside, more);
    return rc;
}

int ll_core_set_aside_again(struct ll_core *core, struct lladd_error *err)
{
    struct lladd_error *why = err;
    int rc = 0;
    for (unsigned checkpoints = CHECKPOINTS; checkpoints > 0; checkpoints--) {
        uint64_t more = lacking(core, checkpoints);
        if (more == 0)
            break;
        more = some_more(more);
        int again = ll_log_undo_reserve_recovery(core->log, more, false, why);
        if (!again) {
            lladd_atomic_add64(&core->set_aside, more);
            break;
        }
        rc = again;
        why = NULL;
    }
    return rc;
}

static bool take_aside(struct ll_core *core, uint64_t bytes)
{
    uint64_t have = lladd_atomic_load64(&core->set_aside);
    do {
        if (have < bytes)
            return false;
    } while (!lladd_atomic_cas64(&core->set_aside, &have, have - bytes));
    return true;
}

int ll_core_credit_aside(struct ll_core *core, struct ll_credit *credit, size_t bytes,
                         struct lladd_error *err)
{
    struct lladd_error ignored = LLADD_ERROR_INIT;
    if (!take_aside(core, bytes) &&
        (ll_core_set_aside_again(core, &ignored) || !take_aside(core, bytes)))
        return ll_log_credit_owed(core->log, credit, bytes, err);
    int rc = ll_log_credit_reserved(core->log, credit, bytes, err);
    if (rc)
        lladd_atomic_add64(&core->set_aside, bytes);
    else
        ll_log_undo_release(core->log, bytes);
    return rc;
}

void ll_core_put_down(struct ll_core *core, struct ll_credit *credit, size_t *bytes)
{
    size_t most = ll_log_credit_most(core->log);
    size_t had = credit->bytes < most ? (size_t)credit->bytes : most;
    if (*bytes < had)
        *bytes = had;
    ll_log_credit_trim(core->log, credit);
}

/* Space for the record, and for the checkpoint that must be possible after it. */
static int credit_and_aside(struct ll_core *core, struct ll_credit *credit, size_t bytes,
                            struct lladd_error *err)
{
    int rc = ll_core_set_aside(core, false, err);
    return rc ? rc : ll_log_credit(core->log, credit, bytes, err);
}

int ll_core_credit_slow(struct ll_core *core, struct ll_credit *credit, size_t bytes,
                        struct lladd_error *err)
{
    int rc = ll_core_check(core, err);
    if (!rc)
        rc = ll_core_mark(core, err);
    if (rc)
        return rc;
    rc = credit_and_aside(core, credit, bytes, err);
    if (rc && lladd_code_root(rc) != LLADD_ROOT_POISONED && ll_txns_release_credit(core))
        rc = credit_and_aside(core, credit, bytes, err);
    uint64_t oldest = UINT64_MAX;
    if (rc == LLADD_LOG_FULL)
        ll_core_put_down(core, credit, &bytes);
    while (rc == LLADD_LOG_FULL && (rc = ll_core_relieve_log(core, &oldest, err)) == 0)
        rc = credit_and_aside(core, credit, bytes, err);
    return rc;
}

int ll_core_credit_owed(struct ll_core *core, struct ll_credit *credit, size_t bytes,
                        struct lladd_error *err)
{
    int rc = ll_core_check(core, err);
    if (!rc)
        rc = ll_core_mark(core, err);
    if (!rc)
        rc = ll_core_set_aside(core, true, err);
    return rc ? rc : ll_log_credit_owed(core->log, credit, bytes, err);
}

static int append(struct ll_core *core, struct ll_record *rec, bool aside, struct lladd_error *err)
{
    struct ll_credit credit = {0};
    size_t bytes = ll_record_bound(rec->redo.len, rec->undo.len);
    int rc = ll_core_check(core, err);
    if (!rc)
        rc = ll_core_mark(core, err);
    if (!rc)
        rc = aside ? ll_core_credit_aside(core, &credit, bytes, err)
                   : ll_log_credit_owed(core->log, &credit, bytes, err);
    if (rc)
        return rc;
    ll_log_reserve(core->log, &credit, rec, false);
    ll_log_publish(core->log, rec);
    ll_log_credit_return(core->log, &credit);
    return 0;
}

int ll_core_append(struct ll_core *core, struct ll_record *rec, struct lladd_error *err)
{
    return append(core, rec, false, err);
}

int ll_core_append_aside(struct ll_core *core, struct ll_record *rec, struct lladd_error *err)
{
    return append(core, rec, true, err);
}

void ll_core_trace(struct ll_core *core, const char *fmt, ...)
{
    if (!core->trace)
        return;
    char line[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    core->trace(core->callback_ctx, line);
}

void ll_core_progress(struct ll_core *core, enum lladd_phase phase, lladd_lsn at, unsigned percent)
{
    if (core->progress)
        core->progress(core->callback_ctx, phase, at, percent);
}
