/* SPDX-License-Identifier: BSD-2-Clause */
/* Outcomes that an administrator has decided, kept until they are forgotten
 * (docs/decisions/heuristic-outcomes.md). Threads: the list is under core->misc. After recovery, a
 * thread holds core->checkpointing while it logs an outcome and changes the list, so that a
 * checkpoint cannot miss the outcome. */
#include "recovery/analysis.h"

#include <lladd/bytes.h>
#include <string.h>

#define HEAD 9u /* u8 outcome, i64 decided */

bool ll_gid_same(const struct lladd_gid *a, const struct lladd_gid *b)
{
    return a->format == b->format && a->gtrid_length == b->gtrid_length &&
           a->bqual_length == b->bqual_length &&
           memcmp(a->data, b->data, (size_t)a->gtrid_length + a->bqual_length) == 0;
}

size_t ll_heuristic_encode(const struct ll_heuristic *h, unsigned char out[LL_HEURISTIC_MAX])
{
    out[0] = h->outcome;
    lladd_put64(out + 1, (uint64_t)h->decided_us);
    return HEAD + ll_prepare_encode(&h->what, out + HEAD);
}

bool ll_heuristic_decode(struct lladd_span s, struct ll_heuristic *h)
{
    const unsigned char *b = s.data;
    memset(h, 0, sizeof *h);
    if (s.len < HEAD || b[0] > LLADD_OUTCOME_ABORT)
        return false;
    h->outcome = b[0];
    h->decided_us = (int64_t)lladd_get64(b + 1);
    return ll_prepare_decode(lladd_span_of(b + HEAD, s.len - HEAD), &h->what);
}

static size_t place_of(const struct ll_core *core, const struct lladd_gid *gid)
{
    size_t i = 0;
    while (i < core->n_heuristics && !ll_gid_same(&core->heuristics[i].what.gid, gid))
        i++;
    return i;
}

int ll_heuristic_put(struct ll_core *core, const struct ll_heuristic *h, struct lladd_error *err)
{
    lladd_mutex_lock(&core->misc);
    size_t i = place_of(core, &h->what.gid);
    int rc = ll_grow(&core->env, &core->heuristics, &core->cap_heuristics, i + 1, sizeof *h);
    if (!rc) {
        core->heuristics[i] = *h;
        if (i == core->n_heuristics)
            lladd_atomic_store64(&core->n_heuristics, i + 1);
    }
    lladd_mutex_unlock(&core->misc);
    return rc ? ll_fail(err, rc, "out of memory for a heuristic outcome") : 0;
}

bool ll_heuristic_remove(struct ll_core *core, const struct lladd_gid *gid)
{
    lladd_mutex_lock(&core->misc);
    size_t i = place_of(core, gid);
    bool there = i < core->n_heuristics;
    if (there) {
        lladd_atomic_store64(&core->n_heuristics, core->n_heuristics - 1);
        core->heuristics[i] = core->heuristics[core->n_heuristics];
    }
    lladd_mutex_unlock(&core->misc);
    return there;
}

bool ll_heuristic_find(struct ll_core *core, const struct lladd_gid *gid, struct ll_heuristic *out)
{
    if (lladd_atomic_load64(&core->n_heuristics) == 0)
        return false;
    lladd_mutex_lock(&core->misc);
    size_t i = place_of(core, gid);
    bool there = i < core->n_heuristics;
    if (there)
        *out = core->heuristics[i];
    lladd_mutex_unlock(&core->misc);
    return there;
}

int ll_heuristic_see(struct ll_core *core, struct lladd_span payload, lladd_lsn lsn,
                     struct lladd_error *err)
{
    struct ll_heuristic h;
    if (!ll_heuristic_decode(payload, &h))
        return ll_fail_lsn(err, LLADD_BAD_RECORD, lsn,
                           "LSN %llu: invalid heuristic outcome: expected an outcome and a gid",
                           (unsigned long long)lsn.v);
    if (h.outcome)
        return ll_heuristic_put(core, &h, err);
    (void)ll_heuristic_remove(core, &h.what.gid); /* the outcome may already be gone from the
                                                   * checkpoint */
    return 0;
}

void ll_heuristic_describe(const struct ll_heuristic *h, struct lladd_heuristic_info *info)
{
    memset(info, 0, sizeof *info);
    info->gid = h->what.gid;
    info->outcome = (enum lladd_outcome)h->outcome;
    info->prepared_us = h->what.prepared_us;
    info->decided_us = h->decided_us;
    memcpy(info->owner, h->what.owner, sizeof info->owner);
}
