/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * replay: runs a row of choices again and writes the history of the run; makes rows smaller.
 *
 * A row contains these choices for its first crash:
 *
 *   - 1 + the number of calls before the crash (0: no crash)
 *   - whether the power failed (0) or the process died (1)
 *   - the variant of each unit that has several, in the order in which recovery reads the units
 *   - if transactions are in doubt, whether all are aborted (0) or committed (1)
 *
 * Then come the same choices for the crash of that recovery, and so on.
 *
 * A row is made smaller in four ways: leave out a crash, leave out the last choices, set a choice
 * to 0, lower a choice. If the row begins with a schedule (interleave.c), answers are removed from
 * the schedule first.
 */
#include "sim/sim_private.h"

#include <stdarg.h>
#include <stdio.h>

/* ---- history ----------------------------------------------------------------------------- */

void ll_sim_tell(struct lladd_sim *sim, const char *fmt, ...)
{
    char line[600];
    if (!sim->history)
        return;
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    /* A failed sink ignores later output. The caller of the replay checks for the failure. */
    (void)lladd_sink_printf(sim->history, "%s\n", line);
}

void ll_sim_tell_unit(struct ll_sim_run *run, const struct ll_sim_unit *u, uint32_t variant)
{
    struct lladd_sim *sim = run->sim;
    ll_sim_buffer_clear(&sim->text);
    if (ll_sim_unit_describe(sim, run->units, u, variant, &sim->text.sink) == 0)
        ll_sim_tell(sim, "    survived: %.*s", (int)sim->text.len, (const char *)sim->text.bytes);
}

void ll_sim_tell_call(const struct ll_sim_run *run, const struct ll_sim_call *call, uint32_t number)
{
    struct lladd_sim *sim = run->sim;
    static const char *const verbs[] = {[LL_SIM_WRITE] = "write",
                                        [LL_SIM_TRUNCATE] = "truncate",
                                        [LL_SIM_CREATE] = "create",
                                        [LL_SIM_MKDIR] = "mkdir",
                                        [LL_SIM_RENAME] = "rename",
                                        [LL_SIM_UNLINK] = "unlink",
                                        [LL_SIM_SYNC] = "sync",
                                        [LL_SIM_SYNC_FAILED] = "sync, which fails,",
                                        [LL_SIM_SYNC_DIR] = "sync directory",
                                        [LL_SIM_SYNC_LOST] = "sync, which loses everything, of",
                                        [LL_SIM_SYNC_REVERTED] =
                                            "sync, which loses everything, also in the cache, of"};
    const char *name = sim->names.at[call->name].text;
    if (!sim->history)
        return;
    switch (call->kind) {
    case LL_SIM_WRITE:
        ll_sim_tell(sim, "    call %u: write %s, %u bytes at %llu", number, name, call->len,
                    (unsigned long long)call->off);
        break;
    case LL_SIM_TRUNCATE:
        ll_sim_tell(sim, "    call %u: truncate %s to %llu", number, name,
                    (unsigned long long)call->off);
        break;
    case LL_SIM_RENAME:
        ll_sim_tell(sim, "    call %u: rename %s to %s", number, name,
                    sim->names.at[call->to].text);
        break;
    default:
        ll_sim_tell(sim, "    call %u: %s %s", number, verbs[call->kind], *name ? name : "\"\"");
        break;
    }
}

static void tell_event(struct lladd_sim *sim, const struct ll_sim_event *e)
{
    if (!e->note) {
        if (e->txn)
            ll_sim_tell(sim, "  transaction %u: %s", e->txn, e->what);
        else
            ll_sim_tell(sim, "  %s", e->what);
        return;
    }
    ll_sim_buffer_clear(&sim->text);
    struct lladd_span bytes = lladd_span_of(e->note->bytes, e->note->len);
    const unsigned char *p = bytes.data;
    if (sim->subject.describe)
        sim->subject.describe(sim->subject.ctx, bytes, &sim->text.sink);
    for (size_t i = 0; !sim->subject.describe && i < bytes.len; i++)
        if (lladd_sink_printf(&sim->text.sink, "%02x", p[i]))
            break;
    ll_sim_tell(sim, "  transaction %u: %.*s", e->txn, (int)sim->text.len,
                sim->text.bytes ? (const char *)sim->text.bytes : "");
}

void ll_sim_tell_workload(struct lladd_sim *sim, uint32_t calls)
{
    const struct ll_sim_record *r = &sim->record;
    uint32_t e = 0;
    ll_sim_tell(sim, "The workload of subject \"%s\":", sim->subject.name);
    for (uint32_t c = 0; c <= calls; c++) {
        for (; e < r->n_events && r->event[e].at <= c; e++)
            if (r->event[e].at < calls || c == calls)
                tell_event(sim, &r->event[e]);
        if (c < calls)
            ll_sim_tell_call(&sim->workload, &sim->workload.trace[c], c + 1);
    }
}

/* ---- replaying --------------------------------------------------------------------------- */

void ll_sim_claims_at(struct lladd_sim *sim, const struct ll_sim_run *run, uint32_t level,
                      uint32_t calls, uint32_t n_calls, struct ll_sim_claims *claims)
{
    claims->again = false;
    if (level == 1) {
        ll_sim_allowed(&sim->record, calls, true, &claims->lo_kill, &claims->hi);
        ll_sim_allowed(&sim->record, calls, false, &claims->lo_power, &claims->hi);
    } else if (calls == n_calls) {
        claims->lo_power = claims->lo_kill = claims->hi = run->shown;
        claims->again = true;
    }
}

int ll_sim_replay_crash(struct lladd_sim *sim, struct ll_sim_run *before, uint32_t calls,
                        struct ll_sim_world *world, struct ll_sim_units *units,
                        struct ll_sim_run *run, uint32_t level)
{
    struct ll_sim_level *l = &sim->level[level];
    ll_sim_rewind(&l->worlds);
    ll_sim_rewind(&l->runs);
    ll_sim_rewind(&l->units);
    int rc = ll_sim_run_world(before, &l->worlds, world);
    for (uint32_t c = 0; !rc && c < calls; c++)
        rc = ll_sim_step(sim, &l->worlds, world, &before->trace[c], c);
    bool kill =
        ll_sim_choose(sim, LL_SIM_C_MODE, 2, 0, 1) == 1 || sim->bounds.flags & LLADD_SIM_NO_POWER;
    ll_sim_tell(sim, "Crash %u, before call %u: %s. %u operations are not durable.", level,
                calls + 1, kill ? "the process dies, what it has written stays" : "power fails",
                world->n_ops);
    ll_sim_tell(sim, "Recovery %u:", level);
    bool fine = ll_sim_cuts_records(sim, level);
    if (!rc && !kill)
        rc = ll_sim_units_of(sim, &l->units, world, fine, units);
    return rc ? rc : ll_sim_run_init(sim, run, &l->runs, level, world, kill ? NULL : units);
}

int ll_sim_take_row(struct lladd_sim *sim, const struct ll_sim_vector *v)
{
    struct ll_sim_choices *c = &sim->choices;
    int rc = 0;
    c->mode = LL_SIM_TAKE;
    c->count = 0;
    for (uint32_t i = 0; !rc && i < v->count; i++)
        rc = ll_sim_choice_push(sim, LL_SIM_C_FAULT, v->value[i]);
    c->pos = 0;
    return rc;
}

/* Replays the crashes of a workload, from the current position of the row. */
static int replay_crashes(struct lladd_sim *sim, const struct ll_sim_vector *v,
                          struct ll_sim_verdict *verdict, uint32_t *depth)
{
    struct ll_sim_run runs[LLADD_SIM_DEPTH_MAX + 1];
    struct ll_sim_world worlds[LLADD_SIM_DEPTH_MAX + 1];
    struct ll_sim_units units[LLADD_SIM_DEPTH_MAX + 1];
    struct ll_sim_claims claims = {0};
    struct ll_sim_run *before = &sim->workload;
    uint32_t n_calls = before->n_calls;
    struct ll_sim_choices *c = &sim->choices;
    int rc = 0;
    for (uint32_t level = 1; !rc && level <= LLADD_SIM_DEPTH_MAX && c->pos < v->count; level++) {
        uint32_t crash = ll_sim_choose(sim, LL_SIM_C_CRASH, n_calls + 2, 0, 1);
        uint32_t open_calls;
        bool ending;
        if (crash == 0)
            break;
        if (level == 1)
            ll_sim_tell_workload(sim, crash - 1);
        rc = ll_sim_replay_crash(sim, before, crash - 1, &worlds[level], &units[level],
                                 &runs[level], level);
        if (rc)
            return rc;
        ll_sim_claims_at(sim, before, level, crash - 1, n_calls, &claims);
        struct ll_sim_claim claim = ll_sim_claim_of(&claims, runs[level].kill);
        ll_sim_set_free(&sim->endings); /* empties the set, so that all oracles run */
        rc = ll_sim_judge(sim, &runs[level], &claim, verdict, &open_calls, &ending);
        if (!rc)
            rc = ll_sim_object_damage(&runs[level], verdict);
        *depth = level;
        if (verdict->oracle)
            ll_sim_tell(sim, "%s objects: %s", lladd_sim_oracle_name(verdict->oracle),
                        verdict->message);
        else
            ll_sim_tell(sim, "  The result is right: %u of %u decisions are in force.", verdict->k,
                        sim->record.n_decisions);
        if (verdict->oracle)
            return rc;
        before = &runs[level];
        before->shown = verdict->k;
        n_calls = open_calls;
        claims.power |= !before->kill;
    }
    return rc;
}

int ll_sim_replay(struct lladd_sim *sim, const struct ll_sim_vector *v,
                  struct ll_sim_verdict *verdict, uint32_t *depth)
{
    if (v->kind == LL_SIM_TOKEN_ERRORS)
        return ll_sim_errors_replay(sim, v, verdict, depth);
    *verdict = (struct ll_sim_verdict){0};
    *depth = 0;
    int rc = ll_sim_take_row(sim, v);
    if (!rc && v->kind == LL_SIM_TOKEN_INTERLEAVE)
        rc = ll_sim_crossing_replay(sim, verdict);
    return rc || verdict->oracle ? rc : replay_crashes(sim, v, verdict, depth);
}

/* ---- shrinking --------------------------------------------------------------------------- */

void ll_sim_vector_of(const struct lladd_sim *sim, struct ll_sim_vector *out)
{
    out->kind = sim->faults     ? LL_SIM_TOKEN_ERRORS
                : sim->crossing ? LL_SIM_TOKEN_INTERLEAVE
                                : LL_SIM_TOKEN_EXPLORE;
    out->flags = sim->bounds.flags;
    out->seed = sim->bounds.seed;
    out->recording =
        sim->crossing ? ll_sim_crossing_recording(sim) : (uint32_t)(sim->record.hash & 0xffffff);
    out->count = 0;
    for (uint32_t i = 0; i < sim->choices.count; i++) {
        uint32_t value = sim->choices.at[i].value;
        if (i < LL_SIM_VECTOR_MAX)
            out->value[i] = value;
        if (value)
            out->count = i + 1;
    }
    if (out->count > LL_SIM_VECTOR_MAX || (sim->crossing && !ll_sim_crossing_told(sim)))
        out->count = 0; /* the row does not fit into a token */
}

/* Replays the candidate. If the same oracle reports a violation, *v becomes the candidate. */
static int try(struct lladd_sim *sim, struct ll_sim_vector *v,
               const struct ll_sim_vector *candidate, struct ll_sim_verdict *verdict,
               uint32_t *depth, bool *kept)
{
    struct ll_sim_verdict now;
    uint32_t after;
    int rc = ll_sim_replay(sim, candidate, &now, &after);
    *kept = !rc && now.oracle == verdict->oracle;
    if (!*kept)
        return rc;
    *v = *candidate;
    *verdict = now;
    *depth = after;
    while (v->count > 0 && v->value[v->count - 1] == 0)
        v->count--;
    return 0;
}

enum { SMALLER_MAX = 400 }; /* highest number of replays, roughly */

/* Removes answers that are not ordinary from the schedule, beginning with the last. */
static int shrink_schedule(struct lladd_sim *sim, struct ll_sim_vector *v,
                           struct ll_sim_verdict *verdict, uint32_t *depth)
{
    int rc = 0;
    for (uint32_t i = ll_sim_schedule_answers(v); !rc && i-- > 0;) {
        struct ll_sim_vector fewer;
        bool kept;
        ll_sim_schedule_without(v, i, &fewer);
        rc = try(sim, v, &fewer, verdict, depth, &kept);
    }
    return rc;
}

/* Removes one of the crashes with its choices. */
static int without_a_crash(struct lladd_sim *sim, struct ll_sim_vector *v,
                           struct ll_sim_verdict *verdict, uint32_t *depth, bool *kept)
{
    uint32_t at[LLADD_SIM_DEPTH_MAX + 2], n = 0, after;
    struct ll_sim_verdict now;
    int rc = ll_sim_replay(sim, v, &now, &after); /* sets the kind of each choice */
    *kept = false;
    for (uint32_t i = 0; i < v->count && i < sim->choices.count && n <= LLADD_SIM_DEPTH_MAX; i++)
        if (sim->choices.at[i].kind == LL_SIM_C_CRASH)
            at[n++] = i;
    at[n] = v->count;
    for (uint32_t k = n; !rc && !*kept && n > 1 && k-- > 0;) {
        struct ll_sim_vector fewer = *v;
        memmove(fewer.value + at[k], v->value + at[k + 1],
                (v->count - at[k + 1]) * sizeof *v->value);
        fewer.count -= at[k + 1] - at[k];
        rc = try(sim, v, &fewer, verdict, depth, kept);
    }
    return rc;
}

/* Lowers a value by half or by one. The crash then comes earlier, or less has arrived. */
static int lower(struct lladd_sim *sim, struct ll_sim_vector *v, uint32_t i,
                 struct ll_sim_verdict *verdict, uint32_t *depth, bool *kept)
{
    uint32_t from = v->value[i];
    int rc = 0;
    *kept = false;
    for (uint32_t by = from / 2 + from % 2; !rc && !*kept && by > 0 && from > 1;
         by = by > 1 ? 1 : 0) {
        struct ll_sim_vector less = *v;
        less.value[i] = from - by;
        rc = try(sim, v, &less, verdict, depth, kept);
    }
    return rc;
}

int ll_sim_shrink(struct lladd_sim *sim, struct ll_sim_vector *v, struct ll_sim_verdict *verdict,
                  uint32_t *depth)
{
    unsigned tried = 0;
    bool kept, any = true;
    int rc = try(sim, v, v, verdict, depth, &kept);
    if (!rc && kept && v->kind == LL_SIM_TOKEN_INTERLEAVE)
        rc = shrink_schedule(sim, v, verdict, depth);
    if (rc || !kept)
        return rc;
    /* The values of the fault or the schedule, at the beginning of the row, are kept. */
    const uint32_t head = v->kind == LL_SIM_TOKEN_ERRORS       ? LL_SIM_ERRORS_HEAD
                          : v->kind == LL_SIM_TOKEN_INTERLEAVE ? ll_sim_schedule_head(v)
                                                               : 0;
    const uint32_t least = head ? head : 1;
    while (any && tried < SMALLER_MAX) {
        any = false;
        do
            rc = without_a_crash(sim, v, verdict, depth, &kept);
        while (!rc && kept);
        for (uint32_t n = least; !rc && n < v->count && tried < SMALLER_MAX; n++, tried++) {
            struct ll_sim_vector shorter = *v;
            shorter.count = n;
            rc = try(sim, v, &shorter, verdict, depth, &kept);
            any |= kept;
        }
        for (uint32_t i = least; !rc && i < v->count && tried < SMALLER_MAX; i++) {
            if (v->value[i] == 0)
                continue;
            struct ll_sim_vector fewer = *v;
            fewer.value[i] = 0;
            tried++;
            rc = try(sim, v, &fewer, verdict, depth, &kept);
            any |= kept;
        }
        for (uint32_t i = head; !rc && i < v->count && tried < SMALLER_MAX; i++) {
            rc = lower(sim, v, i, verdict, depth, &kept);
            tried++;
            any |= kept;
        }
    }
    return rc;
}
