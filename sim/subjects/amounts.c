/* SPDX-License-Identifier: BSD-2-Clause */
/* See amounts.h. */
#include "sim/subjects/amounts.h"

#include <string.h>

struct step {
    uint32_t counter;
    int32_t delta;
};

int ll_sim_amount_note(struct ll_sim_work *w, struct lladd_txn *txn, uint32_t counter,
                       int64_t delta)
{
    struct step s = {counter, (int32_t)delta};
    return lladd_sim_note(w->sim, txn, &s, sizeof s);
}

int ll_sim_amounts_read(struct lladd_db *db, uint32_t n,
                        struct ll_sim_place (*place_of)(lladd_pageno first, uint32_t counter),
                        struct lladd_sink *sink, struct lladd_error *err)
{
    struct ll_sim_amounts a = {{0}};
    lladd_pageno first;
    TRY(ll_sim_pages_find(db, &first, err));
    for (uint32_t i = 0; i < n; i++) {
        struct ll_sim_place p = place_of(first, i);
        TRY(lladd_counter_get(db, p.page, p.offset, &a.of[i], err));
    }
    return ll_sim_amounts_dump(NULL, &a, sink);
}

void ll_sim_amounts_apply(void *ctx, void *model, struct lladd_span note)
{
    struct ll_sim_amounts *a = model;
    struct step s;
    (void)ctx;
    memcpy(&s, note.data, sizeof s);
    a->of[s.counter] += s.delta;
}

int ll_sim_amounts_dump(void *ctx, const void *model, struct lladd_sink *sink)
{
    const struct ll_sim_amounts *a = model;
    int rc = 0;
    (void)ctx;
    for (uint32_t i = 0; !rc && i < LL_SIM_AMOUNTS; i++)
        rc = lladd_sink_printf(sink, "%lld ", (long long)a->of[i]);
    return rc;
}

void ll_sim_amounts_describe(void *ctx, struct lladd_span note, struct lladd_sink *sink)
{
    struct step s;
    (void)ctx;
    memcpy(&s, note.data, sizeof s);
    (void)lladd_sink_printf(sink, "adds %d to counter %u", s.delta, s.counter);
}
