/* SPDX-License-Identifier: BSD-2-Clause */
/* Pins and holds. A pin is a name that keeps the log from an LSN on. A hold also keeps the log from
 * an LSN on, but only in memory. lladd_log_pinner finds what keeps the log from being truncated. */
#include "db/db_private.h"

#include <string.h>

static int enter(struct lladd_db *db, const char *name, const char *call, struct lladd_error *err)
{
    size_t len = name ? strlen(name) : 0;
    int rc = ll_db_enter_checkpoint(db, err, call);
    if (!rc && (len == 0 || len > 63))
        rc = ll_fail(err, LLADD_BAD_ARGUMENT, "the name of a pin or a hold has 1 to 63 bytes");
    return rc;
}

static int check_lsn(struct ll_core *core, lladd_lsn lsn, struct lladd_error *err)
{
    if (lsn.v >= ll_log_whole_from(core->log).v && lsn.v <= ll_log_tail(core->log).v)
        return 0;
    return ll_fail_lsn(err, LLADD_OUT_OF_RANGE, lsn, "LSN %llu is not in the log (%llu to %llu)",
                       (unsigned long long)lsn.v, (unsigned long long)ll_log_oldest(core->log).v,
                       (unsigned long long)ll_log_tail(core->log).v);
}

/* Called with the checkpoint mutex. So each checkpoint either has the pin in its table, or has
 * truncated the log before the pin was set. */
static int log_pin(struct ll_core *core, const char *name, lladd_lsn lsn, struct lladd_error *err)
{
    unsigned char bytes[LL_PIN_MAX];
    struct ll_record rec = {.kind = LL_REC_PIN, .page = LLADD_NO_PAGE};
    rec.redo = lladd_span_of(bytes, ll_pin_encode(name, lsn, bytes));
    int rc = ll_core_append(core, &rec, lsn.v == 0, err);
    return rc ? rc : ll_log_force(core->log, rec.lsn, err);
}

/* Reserves log space for one more pin: in checkpoints, and for the record that clears the pin. */
static int want_space(struct ll_core *core, struct lladd_error *err)
{
    int rc = ll_core_mark(core, err);
    return rc ? rc : ll_core_set_aside(core, true, err);
}

/* lsn 0 clears the pin. If the change cannot be logged, it is undone in memory.
 *
 * Raising a pin is not logged: at the log's limit there may be no space for the record, and raising
 * the pin may be what frees log. The next checkpoint stores the pin. Until then a crash brings the
 * lower LSN back, and the pin then keeps more log than needed. A checkpoint truncates the log after
 * it has stored the pins, and the caller has the checkpoint mutex, so no pin on disk is below the
 * log. */
static int change_pin(struct ll_core *core, const char *name, lladd_lsn lsn,
                      struct lladd_error *err)
{
    lladd_lsn before;
    int rc = ll_pin_put(core, name, lsn, &before, err);
    if (rc)
        return rc;
    bool raise = before.v && lsn.v > before.v;
    if (raise && (rc = ll_core_mark(core, err)) == 0) {
        lladd_atomic_store64(&core->settled_tail, 0); /* a checkpoint has something new to state */
        return 0;
    }
    if (!rc && lsn.v)
        rc = want_space(core, err);
    if (!rc)
        rc = log_pin(core, name, lsn, err);
    if (rc)
        (void)ll_pin_put(core, name, before, NULL, NULL); /* cannot fail: the table has room */
    return rc;
}

int lladd_pin_set(struct lladd_db *db, const char *name, lladd_lsn lsn, struct lladd_error *err)
{
    struct ll_core *core = &db->core;
    int rc = enter(db, name, "lladd_pin_set", err);
    if (rc)
        return rc;
    ll_checkpoint_begin(core);
    rc = check_lsn(core, lsn, err);
    if (!rc)
        rc = change_pin(core, name, lsn, err);
    ll_checkpoint_end(core);
    return rc;
}

int lladd_pin_clear(struct lladd_db *db, const char *name, struct lladd_error *err)
{
    struct ll_core *core = &db->core;
    int rc = enter(db, name, "lladd_pin_clear", err);
    if (rc)
        return rc;
    ll_checkpoint_begin(core);
    rc = change_pin(core, name, lladd_lsn_of(0), err);
    ll_checkpoint_end(core);
    return rc;
}

int lladd_pin_get(struct lladd_db *db, const char *name, lladd_lsn *out, struct lladd_error *err)
{
    int rc = ll_db_enter(db, err);
    if (rc)
        return rc;
    if (!name || !out)
        return ll_fail(err, LLADD_BAD_ARGUMENT, "name or out is NULL");
    *out = ll_pin_get(&db->core, name);
    return out->v ? 0 : ll_fail(err, LLADD_NOT_FOUND, "no pin \"%.63s\"", name);
}

int lladd_log_pinner(struct lladd_db *db, struct lladd_pinner *out, struct lladd_error *err)
{
    int rc = ll_db_enter(db, err);
    return rc ? rc : ll_core_pinner(&db->core, out, err);
}

/* ---- holds -------------------------------------------------------------------------------- */

/* Takes the checkpoint mutex, so that no checkpoint truncates the log after the oldest LSN was read
 * and before the hold is set. */
int lladd_log_keep(struct lladd_db *db, const char *name, lladd_lsn lsn,
                   struct lladd_log_hold **out, struct lladd_error *err)
{
    struct ll_core *core = &db->core;
    int rc = enter(db, name, "lladd_log_keep", err);
    if (rc)
        return rc;
    struct lladd_log_hold *hold = ll_alloc_zero(&core->env, sizeof *hold);
    if (!hold)
        return ll_fail(err, LLADD_NO_MEMORY, "out of memory for a hold");
    hold->core = core;
    strncpy(hold->pin.name, name, sizeof hold->pin.name - 1);
    ll_checkpoint_begin(core);
    hold->pin.lsn = lsn.v ? lsn : ll_log_oldest(core->log);
    rc = check_lsn(core, hold->pin.lsn, err);
    if (!rc) {
        lladd_mutex_lock(&core->misc);
        hold->next = core->holds;
        core->holds = hold;
        lladd_mutex_unlock(&core->misc);
    }
    ll_checkpoint_end(core);
    if (rc)
        ll_free(&core->env, hold);
    else
        *out = hold;
    return rc;
}

lladd_lsn lladd_log_hold_raise(struct lladd_log_hold *hold, lladd_lsn lsn)
{
    lladd_mutex_lock(&hold->core->misc);
    if (lsn.v > hold->pin.lsn.v)
        hold->pin.lsn = lsn;
    lsn = hold->pin.lsn;
    lladd_mutex_unlock(&hold->core->misc);
    return lsn;
}

void lladd_log_release(struct lladd_log_hold *hold)
{
    if (!hold)
        return;
    struct ll_core *core = hold->core;
    lladd_mutex_lock(&core->misc);
    struct lladd_log_hold **at = &core->holds;
    while (*at != hold)
        at = &(*at)->next;
    *at = hold->next;
    lladd_mutex_unlock(&core->misc);
    ll_free(&core->env, hold);
}

int lladd_log_needed(struct lladd_db *db, lladd_lsn *out, struct lladd_error *err)
{
    int rc = ll_db_enter(db, err);
    if (!rc)
        *out = ll_core_needed(&db->core);
    return rc;
}
