/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * explore: explores the crashes of a workload, and the crashes of the recoveries after them.
 *
 * After each recorded device call, a crash may leave states that it could not leave before. A sync
 * is different: it only makes some states impossible. Two rules therefore cover all states:
 *
 *   - After each call, visit the states in which a part of this call has arrived.
 *   - Where the claims (what recovery must show) have changed, visit all possible states once more.
 *
 *   in the world after call c of a trace:
 *     was an equal world, with equal claims, visited at this level?          ─► nothing to do
 *     the process dies here                                                  ─► one run
 *     power fails: for each unit that call c has added to, and each choice   ─► one run
 *     each run: recovery, oracles (oracle.c); then its own trace, one level deeper
 *
 * After the last call of a recovery the claim is the strictest: the next recovery must show the
 * same contents (O5, REC-4).
 *
 * The simulator also cuts the log inside a record, and judges the recovery. It explores crashes of
 * that recovery only if the recovery does something that no earlier recovery of its level has done.
 *
 * If the caller has not set the depth, the fourth crash is tried for only one recovery of each
 * sort, because there are millions of recoveries. Recoveries are of one sort if they follow the
 * same kind of crash (loss of power or death of the process) and make the same kinds of calls for
 * the same kinds of files in the same order.
 */
#include "sim/sim_private.h"

struct ll_sim_claim ll_sim_claim_of(const struct ll_sim_claims *c, bool kill)
{
    bool power = c->power || !kill;
    return (struct ll_sim_claim){power ? c->lo_power : c->lo_kill, c->hi, c->again};
}

/* Called after each crash state, and also after each crash point or run with nothing new, since
 * these take time as well. */
static void look_at_bounds(struct lladd_sim *sim)
{
    const struct lladd_sim_bounds *b = &sim->bounds;
    const struct lladd_sim_report *r = sim->report;
    bool done = b->states && (r->states >= b->states || sim->in_vain / LL_SIM_IN_VAIN >= b->states);
    done |= b->milliseconds && ll_sim_now() - sim->started >= b->milliseconds * 1000000;
    if (done || r->n_failures >= b->failures) {
        sim->stop = true;
        sim->cut = true;
    }
}

static void pass_over(struct lladd_sim *sim)
{
    sim->in_vain++;
    look_at_bounds(sim);
}

int ll_sim_found(struct lladd_sim *sim, const struct ll_sim_verdict *verdict, uint32_t depth)
{
    struct ll_sim_vector v;
    ll_sim_vector_of(sim, &v);
    return ll_sim_fail(sim, verdict, depth, &v);
}

static int explore_trace(struct lladd_sim *sim, uint32_t level, struct ll_sim_run *run,
                         uint32_t n_calls, const struct ll_sim_claims *claims);

/* Hashes the kind of crash, and the kinds of calls and files, but not offsets and bytes. */
static uint64_t sort_of(const struct lladd_sim *sim, const struct ll_sim_run *run, uint32_t n_calls)
{
    uint64_t sort = ll_sim_mix(run->level, run->kill);
    for (uint32_t c = 0; c < n_calls; c++)
        sort = ll_sim_mix(sort, (uint64_t)run->trace[c].kind << 8 |
                                    sim->names.at[run->trace[c].name].kind);
    return sort;
}

/* Runs and judges one recovery, and explores its crashes. */
static int explore_run(struct lladd_sim *sim, struct ll_sim_run *run,
                       const struct ll_sim_claims *claims)
{
    struct ll_sim_claim claim = ll_sim_claim_of(claims, run->kill);
    struct ll_sim_verdict verdict;
    uint32_t open_calls;
    bool ending;
    int rc = ll_sim_judge(sim, run, &claim, &verdict, &open_calls, &ending);
    if (!rc && (run->level == 1 || ending))
        rc = ll_sim_object_damage(run, &verdict);
    if (rc)
        return rc;
    if (run->pick != LL_SIM_NO_UNIT && run->variant[run->pick] == LL_SIM_UNDECIDED) {
        pass_over(sim); /* Recovery has not read unit `pick`, so to recovery this state equals
                         * another one: a state from before the last call, or one that is visited
                         * with another pick. */
        return 0;
    }
    struct lladd_sim_report *r = sim->report;
    r->states++;
    r->depth_states[run->level]++;
    r->kill_states += run->kill;
    r->endings += ending;
    if (verdict.oracle)
        rc = ll_sim_found(sim, &verdict, run->level);
    look_at_bounds(sim);
    bool fine =
        run->deviant != LL_SIM_NO_UNIT && run->units->at[run->deviant].kind == LL_SIM_UNIT_LOG;
    if (rc || verdict.oracle || sim->stop || run->level >= sim->bounds.depth || (fine && !ending))
        return rc;
    if (sim->sampled_from && run->level + 1 >= sim->sampled_from) {
        int met = ll_sim_set_put(&sim->sorts, sort_of(sim, run, open_calls));
        if (met)
            return met < 0 ? met : 0;
    }
    struct ll_sim_claims next = *claims;
    next.power |= !run->kill;
    next.again = false;
    run->shown = verdict.k;
    return explore_trace(sim, run->level + 1, run, open_calls, &next);
}

/* Explores the results of a loss of power in which a part of the last call has arrived in unit
 * `pick`. With LL_SIM_NO_UNIT, explores all results. */
static int explore_power(struct lladd_sim *sim, uint32_t level, const struct ll_sim_world *world,
                         struct ll_sim_units *units, uint32_t pick,
                         const struct ll_sim_claims *claims)
{
    uint32_t base = sim->choices.count;
    int rc = 0;
    do {
        struct ll_sim_run run;
        ll_sim_rewind(&sim->level[level].runs);
        rc = ll_sim_run_init(sim, &run, &sim->level[level].runs, level, world, units);
        run.pick = pick;
        if (!rc)
            rc = explore_run(sim, &run, claims);
    } while (!rc && !sim->stop && ll_sim_choices_next(&sim->choices, base));
    sim->choices.count = base;
    return rc;
}

static int explore_kill(struct lladd_sim *sim, uint32_t level, const struct ll_sim_world *world,
                        const struct ll_sim_claims *claims)
{
    uint32_t base = sim->choices.count;
    int rc = ll_sim_choice_push(sim, LL_SIM_C_MODE, 1);
    uint32_t begin = sim->choices.count;
    if (rc)
        return rc;
    do {
        struct ll_sim_run run;
        ll_sim_rewind(&sim->level[level].runs);
        rc = ll_sim_run_init(sim, &run, &sim->level[level].runs, level, world, NULL);
        if (!rc)
            rc = explore_run(sim, &run, claims);
    } while (!rc && !sim->stop && ll_sim_choices_next(&sim->choices, begin));
    sim->choices.count = base;
    return rc;
}

/* Hashes the contents that the claims allow, not the claims themselves. A claim is a number k,
 * which stands for the contents after the first k decisions. Another schedule may reach the same
 * world and the same contents with another k. */
static uint64_t claims_hash(const struct lladd_sim *sim, const struct ll_sim_claims *c)
{
    uint32_t lo = c->lo_power < c->lo_kill ? c->lo_power : c->lo_kill;
    uint64_t h = (uint64_t)(c->lo_power - lo) << 32 | (c->lo_kill - lo) << 1 | c->power;
    for (uint32_t k = lo; k <= c->hi || k <= c->lo_kill; k++)
        h = ll_sim_mix(h, sim->expected[k].hash + (k > c->hi));
    return h;
}

/* Explores crashes in this world. Without `all`, a loss of power leaves only states in which a part
 * of the last call has arrived. */
static int explore_world(struct lladd_sim *sim, uint32_t level, const struct ll_sim_world *world,
                         const struct ll_sim_claims *claims, bool all)
{
    uint64_t hash = ll_sim_mix(ll_sim_world_hash(sim, world), level * 4 + all * 2 + claims->again);
    hash = ll_sim_mix(hash, claims_hash(sim, claims));
    int seen = ll_sim_set_put(&sim->seen, hash);
    if (seen) {
        sim->report->worlds_seen += seen > 0;
        pass_over(sim);
        return seen < 0 ? seen : 0;
    }
    int rc = 0;
    if (!(sim->bounds.flags & LLADD_SIM_NO_KILL))
        rc = explore_kill(sim, level, world, claims);
    if (rc || sim->stop || sim->bounds.flags & LLADD_SIM_NO_POWER)
        return rc;
    struct ll_sim_units units;
    ll_sim_rewind(&sim->level[level].units);
    bool fine = ll_sim_cuts_records(sim, level);
    rc = ll_sim_units_of(sim, &sim->level[level].units, world, fine, &units);
    uint32_t base = sim->choices.count;
    if (!rc)
        rc = ll_sim_choice_push(sim, LL_SIM_C_MODE, 0);
    if (!rc && all)
        rc = explore_power(sim, level, world, &units, LL_SIM_NO_UNIT, claims);
    for (uint32_t i = 0; !rc && !all && !sim->stop && i < units.count; i++)
        if (units.at[i].newest)
            rc = explore_power(sim, level, world, &units, i, claims);
    sim->choices.count = base;
    return rc;
}

/* Explores crashes during the first n_calls calls of the run. */
static int explore_trace(struct lladd_sim *sim, uint32_t level, struct ll_sim_run *run,
                         uint32_t n_calls, const struct ll_sim_claims *before)
{
    struct ll_sim_level *l = &sim->level[level];
    struct ll_sim_world world;
    struct ll_sim_claims claims = *before;
    uint32_t base = sim->choices.count, lo = UINT32_MAX;
    ll_sim_rewind(&l->worlds);
    int rc = ll_sim_run_world(run, &l->worlds, &world);
    for (uint32_t c = 0; !rc && !sim->stop && c <= n_calls; c++) {
        if (c > 0)
            rc = ll_sim_step(sim, &l->worlds, &world, &run->trace[c - 1], c - 1);
        if (level == 1) {
            ll_sim_allowed(&sim->record, c, true, &claims.lo_kill, &claims.hi);
            ll_sim_allowed(&sim->record, c, false, &claims.lo_power, &claims.hi);
        } else if (c == n_calls) {
            claims.lo_power = claims.lo_kill = claims.hi = run->shown;
            claims.again = true;
        }
        uint32_t strict = claims.lo_power + claims.lo_kill;
        bool all = level == 1 ? strict != lo : c == n_calls;
        lo = strict;
        if (rc || (!all && world.fresh_ops == 0))
            continue;
        rc = ll_sim_choice_push(sim, LL_SIM_C_CRASH, c + 1);
        if (!rc)
            rc = explore_world(sim, level, &world, &claims, all);
        sim->choices.count = base;
    }
    return rc;
}

int ll_sim_explore(struct lladd_sim *sim)
{
    const struct ll_sim_claims none = {0};
    sim->choices.mode = LL_SIM_ENUMERATE;
    return explore_trace(sim, 1, &sim->workload, sim->workload.n_calls, &none);
}
