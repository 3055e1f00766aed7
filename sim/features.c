/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * features: chooses the recoveries in which faults are injected.
 *
 * The *features* of a recovery are its phases, the states in which it finds records, and the kinds
 * of its calls. Two recoveries with the same features nearly always fail in the same ways.
 * (Pathfinder, OOPSLA 2025, shows this for crash states.) It is therefore enough to choose a few
 * recoveries that together have all features. If the caller wants more recoveries, another such
 * group is chosen from the rest.
 */
#include "sim/errors.h"

static unsigned adds(const struct ll_sim_point *p, const uint64_t *have)
{
    unsigned n = 0;
    for (unsigned i = 0; i < LL_SIM_FEATURE_WORDS; i++)
        n += (unsigned)__builtin_popcountll(p->features[i] & ~have[i]);
    return n;
}

uint32_t ll_sim_features_cover(struct ll_sim_point *p, uint32_t n, struct ll_sim_point *out,
                               uint32_t most)
{
    uint64_t have[LL_SIM_FEATURE_WORDS] = {0};
    uint32_t taken = 0, in_round = 0;
    while (taken < most) {
        uint32_t best = n;
        unsigned gain = 0;
        for (uint32_t i = 0; i < n; i++)
            if (!p[i].taken && adds(&p[i], have) > gain) {
                gain = adds(&p[i], have);
                best = i;
            }
        if (best == n && in_round == 0)
            break;
        if (best == n) {
            memset(have, 0, sizeof have);
            in_round = 0;
            continue;
        }
        p[best].taken = true;
        out[taken++] = p[best];
        in_round++;
        for (unsigned i = 0; i < LL_SIM_FEATURE_WORDS; i++)
            have[i] |= p[best].features[i];
    }
    return taken;
}
