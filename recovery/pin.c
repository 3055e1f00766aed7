/* SPDX-License-Identifier: BSD-2-Clause */
/* Named pins and holds: each keeps the log from an LSN on. Threads: under core->misc. */
#include "recovery/core.h"

#include <lladd/bytes.h>
#include <string.h>

size_t ll_pin_encode(const char *name, lladd_lsn lsn, unsigned char out[LL_PIN_MAX])
{
    size_t len = strlen(name);
    lladd_put64(out, lsn.v);
    memcpy(out + 8, name, len);
    return 8 + len;
}

bool ll_pin_decode(struct lladd_span s, struct ll_pin *pin)
{
    memset(pin, 0, sizeof *pin);
    if (s.len <= 8 || s.len > LL_PIN_MAX)
        return false;
    pin->lsn = lladd_lsn_of(lladd_get64(s.data));
    memcpy(pin->name, (const unsigned char *)s.data + 8, s.len - 8);
    return true;
}

static lladd_lsn lower(const struct ll_pin *pin, const char *kind, lladd_lsn low,
                       struct lladd_pinner *pinner)
{
    if (pin->lsn.v >= low.v)
        return low;
    if (pinner) {
        pinner->kind = kind;
        memcpy(pinner->name, pin->name, sizeof pinner->name);
    }
    return pin->lsn;
}

lladd_lsn ll_pin_lowest(struct ll_core *core, lladd_lsn low, bool holds,
                        struct lladd_pinner *pinner)
{
    lladd_mutex_lock(&core->misc);
    for (size_t i = 0; i < core->n_pins; i++)
        low = lower(&core->pins[i], "pin", low, pinner);
    for (const struct lladd_log_hold *h = holds ? core->holds : NULL; h; h = h->next)
        low = lower(&h->pin, "hold", low, pinner);
    lladd_mutex_unlock(&core->misc);
    return low;
}

/* Under the mutex. */
static int put(struct ll_core *core, size_t i, const char *name, lladd_lsn lsn,
               struct lladd_error *err)
{
    size_t n = core->n_pins;
    if (lsn.v == 0 && i == n)
        return ll_fail(err, LLADD_NOT_FOUND, "no pin \"%s\"", name);
    if (lsn.v == 0) {
        core->pins[i] = core->pins[n - 1];
        lladd_atomic_store64(&core->n_pins, n - 1);
        return 0;
    }
    if (ll_grow(&core->env, &core->pins, &core->cap_pins, i + 1, sizeof *core->pins))
        return ll_fail(err, LLADD_NO_MEMORY, "out of memory for a pin");
    if (i == n) {
        memset(&core->pins[i], 0, sizeof core->pins[i]);
        strncpy(core->pins[i].name, name, sizeof core->pins[i].name - 1);
        lladd_atomic_store64(&core->n_pins, n + 1);
    }
    core->pins[i].lsn = lsn;
    return 0;
}

/* Index of the pin, or n_pins. Under the mutex. */
static size_t find(const struct ll_core *core, const char *name)
{
    size_t i = 0;
    while (i < core->n_pins && strcmp(core->pins[i].name, name) != 0)
        i++;
    return i;
}

lladd_lsn ll_pin_get(struct ll_core *core, const char *name)
{
    lladd_mutex_lock(&core->misc);
    size_t i = find(core, name);
    lladd_lsn lsn = i < core->n_pins ? core->pins[i].lsn : lladd_lsn_of(0);
    lladd_mutex_unlock(&core->misc);
    return lsn;
}

int ll_pin_put(struct ll_core *core, const char *name, lladd_lsn lsn, lladd_lsn *before,
               struct lladd_error *err)
{
    lladd_mutex_lock(&core->misc);
    size_t i = find(core, name);
    if (before)
        *before = i < core->n_pins ? core->pins[i].lsn : lladd_lsn_of(0);
    int rc = put(core, i, name, lsn, err);
    lladd_mutex_unlock(&core->misc);
    return rc;
}
