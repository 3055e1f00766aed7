/* SPDX-License-Identifier: BSD-2-Clause */
/* Log space: credit, and the space that is set aside for the next checkpoints. */
#include "recovery/core.h"

#define TXN_ROW 49u /* bytes in checkpoint data */
#define PIN_ROW 76u /* bytes in checkpoint data, for the longest name */
#define HEURISTIC_ROW 235u
#define BARRIER_ROW 33u /* includes a share of the headers of checkpoint records */

uint64_t ll_core_aside_least(uint64_t names)
{
    return LL_CHECKPOINT_RESERVE + LL_CHECKPOINT_RESERVE / 8 + names + TXN_ROW;
}

static uint64_t checkpoint_bytes(const struct ll_core *core)
{
    return LL_CHECKPOINT_RESERVE + lladd_atomic_load64(&core->cat.log_bytes) +
           TXN_ROW * lladd_atomic_load64(&core->txns.made) +
           PIN_ROW * lladd_atomic_load64(&core->n_pins) +
           HEURISTIC_ROW * lladd_atomic_load64(&core->n_heuristics);
}

/* The space that is missing for this number of checkpoints, for records that clear all pins, and
 * for `more` bytes. */
static uint64_t lacking(const struct ll_core *core, unsigned checkpoints, uint64_t more)
{
    uint64_t want = checkpoints * checkpoint_bytes(core) + more +
                    ll_record_bound(LL_PIN_MAX, 0) * lladd_atomic_load64(&core->n_pins);
    uint64_t have = lladd_atomic_load64(&core->set_aside);
    return have < want ? want - have : 0;
}

bool ll_core_lacks_aside(const struct ll_core *core)
{
    return lacking(core, core->checkpoints_aside, 0) != 0;
}

/* Adds a little, so that not every new transaction must set space aside. If two threads do this
 * together, they may set aside more than is needed, which is harmless. */
static uint64_t some_more(uint64_t lacks)
{
    return lacks + LL_CHECKPOINT_RESERVE / 8;
}

int ll_core_set_aside(struct ll_core *core, bool owed, struct lladd_error *err)
{
    uint64_t more = lacking(core, core->checkpoints_aside, 0);
    if (LL_LIKELY(more == 0))
        return 0;
    more = some_more(more);
    struct lladd_error why = LLADD_ERROR_INIT;
    int rc = owed ? ll_log_undo_reserve_owed(core->log, more, &why)
                  : ll_log_undo_reserve(core->log, more, &why);
    if (!rc)
        lladd_atomic_add64(&core->set_aside, more);
    if (!rc || (owed && rc == LLADD_NO_SPACE && lacking(core, 1, 0) == 0))
        return 0; /* an owed record may allow truncation, which needs only one checkpoint */
    if (err)
        *err = why;
    return rc;
}

int ll_core_set_aside_again(struct ll_core *core, struct lladd_error *err)
{
    struct lladd_error *why = err;
    int rc = 0;
    for (unsigned checkpoints = core->checkpoints_aside; checkpoints > 0; checkpoints--) {
        uint64_t more = lacking(core, checkpoints, 0);
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

bool ll_core_set_aside_barriers(struct ll_core *core, size_t n)
{
    struct lladd_error ignored = LLADD_ERROR_INIT;
    uint64_t more = lacking(core, core->checkpoints_aside, n * BARRIER_ROW);
    if (more && ll_log_undo_reserve(core->log, more, &ignored))
        return false;
    lladd_atomic_add64(&core->set_aside, more);
    return true;
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
    if (!take_aside(core, bytes)) {
        (void)ll_core_set_aside_again(core, &ignored); /* space for one checkpoint is enough */
        if (!take_aside(core, bytes))
            return ll_log_credit_owed(core->log, credit, bytes, err);
    }
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

int ll_core_append(struct ll_core *core, struct ll_record *rec, bool aside, struct lladd_error *err)
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
