/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * random: crashes of workloads that are too large to explore.
 *
 * A *row of crashes* is a crash of the workload, followed by crashes of the recoveries from it.
 * Each row is drawn at random, in three steps:
 *
 *   workload w     These are drawn: the random numbers that the subject's `run` uses, the number of
 *                  calls of `run`, and the sizes of the cache, the log and the checkpoint interval.
 *                  In one workload of four, one device call fails.
 *     point p      The place at which the workload crashes is drawn. The places are of different
 *                  sorts, such as "after a write of pages" or "when a transaction commits"
 *                  (random.h). Nearly all places are after writes. First a sort is therefore drawn,
 *                  with the same chance for each sort that occurs, and then a place of this sort.
 *                  In one case of eight, the place is drawn from all places instead.
 *       variant v  The crash is drawn: the process dies, or the power fails. If the power fails, it
 *                  is also drawn which pending bytes have arrived. Then recovery runs. Either the
 *                  oracles judge it, or one of its device calls fails and the simulator kills it.
 *                  Then the recovery may be crashed too, at a place that is drawn in the same way.
 *
 * Each w, each pair (w, p) and each triple (w, p, v) has its own random stream. The seed and these
 * three numbers are therefore enough to repeat a row of crashes.
 */
#include "sim/random.h"

#include <errno.h>
#include <stdlib.h>

enum {
    STATES_DEFAULT = 20000,
    POINTS = 40,   /* places at which each workload is crashed */
    VARIANTS = 12, /* rows of crashes at each point */
    OFFERS = 400,  /* a fault that was possible this often must have happened */
};

static uint32_t draw(struct ll_sim_random *r, uint32_t n)
{
    r->stream = ll_sim_mix(r->stream, n);
    return (uint32_t)((r->stream >> 20) % n);
}

static void offer(struct ll_sim_random *r, enum ll_sim_random_fault f, bool fired)
{
    r->fired[f].offered++;
    r->fired[f].fired += fired;
}

/* ---- where to crash ---------------------------------------------------------------------- */

static enum ll_sim_random_fault sort_of_call(const struct lladd_sim *sim,
                                             const struct ll_sim_call *call)
{
    unsigned kind = sim->names.at[call->name].kind;
    unsigned file = kind == LL_SIM_PAGES ? 1 : kind == LL_SIM_LOG ? 2 : 0;
    switch (call->kind) {
    case LL_SIM_WRITE:
        return (enum ll_sim_random_fault)(F_AT_WRITE + file);
    case LL_SIM_SYNC:
        return (enum ll_sim_random_fault)(F_AT_SYNC + file);
    case LL_SIM_TRUNCATE:
        return F_AT_TRUNCATE;
    case LL_SIM_RENAME:
        return F_AT_RENAME;
    case LL_SIM_UNLINK:
        return F_AT_UNLINK;
    case LL_SIM_SYNC_DIR:
        return F_AT_SYNC_DIR;
    default:
        return F_AT_CREATE;
    }
}

static enum ll_sim_random_fault sort_of_event(const struct ll_sim_event *e)
{
    if (e->note)
        return F_AT_NOTE;
    if (strcmp(e->what, "begin") == 0)
        return F_AT_BEGIN;
    if (strncmp(e->what, "commit", 6) == 0 || strcmp(e->what, "is ordered") == 0)
        return F_AT_COMMIT;
    return strncmp(e->what, "abort", 5) == 0 ? F_AT_ABORT : F_AT_OTHER;
}

struct places {
    uint32_t count[FAULT_COUNT];
    enum ll_sim_random_fault want;
    uint32_t nth, at; /* `at`: number of calls before place number `nth` (from 0) of the sort
                       * `want` */
};

static void see_place(struct places *p, enum ll_sim_random_fault sort, uint32_t at)
{
    if (sort == p->want && p->count[sort] == p->nth)
        p->at = at;
    p->count[sort]++;
}

static void see_places(const struct ll_sim_random *r, const struct ll_sim_run *run,
                       uint32_t n_calls, struct places *p)
{
    const struct ll_sim_record *record = &r->sim->record;
    memset(p->count, 0, sizeof p->count);
    for (uint32_t c = 0; c < n_calls; c++)
        see_place(p, sort_of_call(r->sim, &run->trace[c]), c + 1);
    for (uint32_t e = 0; run->level == 0 && e < record->n_events; e++)
        if (record->event[e].at <= n_calls)
            see_place(p, sort_of_event(&record->event[e]), record->event[e].at);
}

/* Draws the place of the next crash. Returns how many calls the run makes before the crash. */
static uint32_t choose_place(struct ll_sim_random *r, const struct ll_sim_run *run,
                             uint32_t n_calls)
{
    struct places p = {.want = FAULT_COUNT};
    unsigned sorts[FAULT_COUNT], n = 0;
    see_places(r, run, n_calls, &p);
    for (unsigned f = 0; f < FAULT_COUNT; f++)
        if (p.count[f])
            sorts[n++] = f;
    if (n == 0 || draw(r, 8) == 0)
        return draw(r, n_calls + 1); /* anywhere, also before the first call or after the last */
    p.want = (enum ll_sim_random_fault)sorts[draw(r, n)];
    p.nth = draw(r, p.count[p.want]);
    for (unsigned i = 0; i < n; i++)
        offer(r, (enum ll_sim_random_fault)sorts[i], sorts[i] == (unsigned)p.want);
    see_places(r, run, n_calls, &p);
    return p.at;
}

/* ---- errors ------------------------------------------------------------------------------ */

/* The simulator calls this before each device call. Makes call number r->error_at fail. */
static int64_t fail_call(void *ctx, struct ll_sim_run *run, enum ll_sim_call_kind kind,
                         uint32_t name, uint64_t off, size_t len)
{
    struct ll_sim_random *r = ctx;
    (void)name;
    (void)run;
    r->calls += kind != LL_SIM_CLOSE; /* a close is not counted, as in `calls_all` */
    if (r->calls < r->error_at || !r->error_at || r->errors)
        return 0;
    r->errors++;
    /* Reads are not cut short, because a read that returns fewer bytes means that the file ends
     * there (lladd/device.h). */
    bool writes = kind == LL_SIM_WRITE || kind == LL_SIM_APPEND, transfer = writes && len > 1;
    bool grows = writes || kind == LL_SIM_CREATE || kind == LL_SIM_MKDIR;
    uint32_t how = draw(r, 3);
    offer(r, F_NO_SPACE, grows && how == 1);
    offer(r, F_SHORT, transfer && how == 2);
    offer(r, F_SYNC_FAILED, kind == LL_SIM_SYNC);
    if (transfer && how == 2) {
        uint64_t part = draw(r, (uint32_t)len);
        uint64_t over = (off + part) % LL_SIM_SECTOR; /* the write ends between two sectors */
        return 1 + (int64_t)(part > over ? part - over : 0);
    }
    return grows && how == 1 ? -ENOSPC : -EIO;
}

static void begin_errors(struct ll_sim_random *r, uint32_t at)
{
    r->calls = 0;
    r->errors = 0;
    r->error_at = at;
    r->sim->before_call = fail_call;
    r->sim->hook_ctx = r;
}

/* ---- failures ---------------------------------------------------------------------------- */

static void token_of(const struct ll_sim_random *r, struct ll_sim_vector *v)
{
    const struct ll_sim_which *w = &r->at;
    *v = (struct ll_sim_vector){
        .kind = LL_SIM_TOKEN_RANDOM,
        .flags = r->bounds.flags,
        .seed = r->bounds.seed,
        .recording = r->sim->record.hash & 0xffffff,
        .count = WHICH_VALUES,
        .value = {w->workload, w->repeats, w->without, r->bounds.depth, w->point, w->variant}};
}

/* Adds a failure. `token` is NULL if the failure belongs to no single row of crashes. */
static int found(struct ll_sim_random *r, const struct ll_sim_verdict *v, uint32_t depth,
                 const struct ll_sim_vector *token)
{
    struct lladd_sim_random_report *report = r->report;
    if (r->wanted && v->oracle != r->wanted)
        return 0;
    size_t n = report->n_failures + 1;
    struct lladd_sim_failure *more = realloc(r->failures, n * sizeof *more);
    r->failures = more ? more : r->failures;
    struct ll_sim_vector *tokens = realloc(r->tokens, n * sizeof *tokens);
    r->tokens = tokens ? tokens : r->tokens;
    if (!more || !tokens)
        return LLADD_NO_MEMORY;
    struct lladd_sim_failure *f = &more[n - 1];
    *f = (struct lladd_sim_failure){.oracle = v->oracle, .depth = depth};
    memcpy(f->message, v->message, sizeof f->message);
    tokens[n - 1] = token ? *token : (struct ll_sim_vector){.count = 0};
    report->n_failures++;
    report->failures = more;
    r->stop |= report->n_failures >= r->bounds.failures;
    return 0;
}

/* ---- one row of crashes ------------------------------------------------------------------ */

/* Counts the faults of a loss of power. The variant of a crash unit says what has happened to the
 * unit: for example, a write has not arrived, or is torn. For each unit with a variant that was
 * drawn, counts the faults that were possible and those that happened. */
static void see_units(struct ll_sim_random *r, const struct ll_sim_run *run)
{
    for (uint32_t i = 0; run->units && i < run->units->count; i++) {
        const struct ll_sim_unit *u = &run->units->at[i];
        uint32_t v = run->variant[i];
        if (v == LL_SIM_UNDECIDED || !u->made || v >= u->n)
            continue;
        const struct ll_sim_variant *variant = &u->variants[v];
        if (u->kind == LL_SIM_UNIT_NAMES)
            offer(r, F_NAME_LOST, v == 0);
        if (u->kind == LL_SIM_UNIT_SIZE)
            offer(r, F_SIZE_LOST, variant->count < u->n_ops);
        if (u->kind == LL_SIM_UNIT_LOG) {
            offer(r, F_LOG_CUT, variant->kind == LL_SIM_V_CUT);
            offer(r, F_LOG_HOLE, variant->kind == LL_SIM_V_HOLE);
            offer(r, F_LOG_ALONE, variant->kind == LL_SIM_V_SURVIVOR);
        }
        if (u->kind == LL_SIM_UNIT_DATA) {
            offer(r, F_WRITE_LOST, variant->kind == LL_SIM_V_PREFIX && variant->count < u->n_ops);
            if (u->variants[u->n - 1].kind == LL_SIM_V_TORN) /* the unit has torn variants */
                offer(r, F_TORN, variant->kind == LL_SIM_V_TORN);
        }
    }
}

/* Opens the database while one device call of the recovery fails. If the open succeeds, kills the
 * database. LLADD_BUG is a violation, and so is memory that is not freed. Nothing else is
 * judged. */
static int disturb(struct ll_sim_random *r, struct ll_sim_run *run, struct ll_sim_verdict *v,
                   uint32_t *n_calls)
{
    struct lladd_sim *sim = r->sim;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_db *db = NULL;
    begin_errors(r, 1 + draw(r, r->most ? r->most : 60));
    int rc = ll_sim_open(sim, run, &db, &err);
    sim->before_call = NULL;
    offer(r, F_ERROR_RECOVERY, r->errors > 0);
    ll_sim_tell(sim, "  An error in the recovery, in its call %u: open returns %s.", r->error_at,
                lladd_code_name(rc));
    if (!rc)
        lladd_db_kill(db);
    run->undecided = 0;
    *n_calls = run->n_calls;
    *v = (struct ll_sim_verdict){0};
    r->report->disturbed++;
    if (rc == LLADD_BUG)
        (void)ll_sim_object(v, LLADD_SIM_O_ERRORS, "an error in recovery, and then: %s",
                            err.message);
    if (sim->heap.live)
        (void)ll_sim_object(v, LLADD_SIM_O_MEMORY,
                            "%llu pieces of memory were not freed after an error in recovery",
                            (unsigned long long)sim->heap.live);
    return run->failed;
}

/* Runs a recovery in which no call fails on purpose. It must succeed, and the oracles judge it. */
static int recover(struct ll_sim_random *r, struct ll_sim_run *run,
                   const struct ll_sim_claims *claims, struct ll_sim_verdict *v, uint32_t *n_calls)
{
    struct lladd_sim *sim = r->sim;
    struct ll_sim_claim claim = ll_sim_claim_of(claims, run->kill);
    bool ending;
    begin_errors(r, 0); /* only counts the calls */
    int rc = ll_sim_judge(sim, run, &claim, v, n_calls, &ending);
    sim->before_call = NULL;
    if (!rc && (run->level == 1 || ending))
        rc = ll_sim_object_damage(run, v);
    r->most = r->calls > r->most ? r->calls : r->most;
    see_units(r, run);
    run->shown = v->k;
    r->report->states++;
    r->report->depth_states[run->level]++;
    if (v->oracle)
        ll_sim_tell(sim, "%s objects: %s", lladd_sim_oracle_name(v->oracle), v->message);
    return rc;
}

static int begin_run(struct ll_sim_random *r, uint32_t level, const struct ll_sim_world *world,
                     struct ll_sim_units *units, struct ll_sim_run *run)
{
    struct lladd_sim *sim = r->sim;
    struct ll_sim_level *l = &sim->level[level];
    bool kill = sim->bounds.flags & LLADD_SIM_NO_POWER ||
                (!(sim->bounds.flags & LLADD_SIM_NO_KILL) && draw(r, 5) == 0);
    ll_sim_rewind(&l->runs);
    ll_sim_rewind(&l->units);
    sim->choices.mode = LL_SIM_DRAW;
    sim->choices.count = sim->choices.pos = 0;
    sim->choices.drawn = ll_sim_mix(r->stream, level);
    sim->choices.plain = draw(r, 4);
    offer(r, F_KILL, kill);
    offer(r, F_POWER, !kill);
    ll_sim_tell(sim, "Crash %u: %s. %u operations are not durable.", level,
                kill ? "the process dies" : "power fails", world->n_ops);
    int rc =
        kill ? 0 : ll_sim_units_of(sim, &l->units, world, ll_sim_cuts_records(sim, level), units);
    return rc ? rc : ll_sim_run_init(sim, run, &l->runs, level, world, kill ? NULL : units);
}

/* Builds the world as it is after the first `calls` calls of a run. */
static int world_at(struct ll_sim_random *r, uint32_t level, struct ll_sim_run *before,
                    uint32_t calls, struct ll_sim_world *world)
{
    struct ll_sim_level *l = &r->sim->level[level];
    ll_sim_rewind(&l->worlds);
    int rc = ll_sim_run_world(before, &l->worlds, world);
    for (uint32_t c = 0; !rc && c < calls; c++)
        rc = ll_sim_step(r->sim, &l->worlds, world, &before->trace[c], c);
    return rc;
}

/* Appends to r->row the choices of this crash: how many calls were made before the crash, whether
 * the process died, and what has arrived. r->row cannot describe a recovery in which a call fails,
 * and has limited room. If the choices do not fit, r->whole becomes false, and later choices are
 * not appended either. */
static void remember(struct ll_sim_random *r, uint32_t calls, const struct ll_sim_run *run,
                     bool disturbed)
{
    const struct ll_sim_choices *c = &r->sim->choices;
    struct ll_sim_vector *row = &r->row;
    r->whole &= !disturbed && run->level <= LLADD_SIM_DEPTH_MAX &&
                row->count + c->count + 2 <= LL_SIM_VECTOR_MAX;
    if (!r->whole)
        return;
    row->value[row->count++] = calls + 1;
    row->value[row->count++] = run->kill;
    for (uint32_t i = 0; i < c->count; i++)
        row->value[row->count++] = c->at[i].value;
}

/* Decides whether crash number `level` follows. It would interrupt the recovery from crash number
 * `level` - 1. `disturbed`: a call of that recovery has failed. */
static bool goes_on(struct ll_sim_random *r, uint32_t level, bool disturbed)
{
    if (level > r->bounds.depth + 1) /* after a recovery in which a call failed, one more crash is
                                      * allowed */
        return false;
    bool more = disturbed || (level <= r->bounds.depth && draw(r, 3) != 0);
    if (!disturbed && level == 2 && r->bounds.depth >= 2)
        offer(r, F_CRASH_2, more);
    if (!disturbed && level == 3 && r->bounds.depth >= 3)
        offer(r, F_CRASH_3, more);
    return more;
}

/* Runs one row of crashes. The workload crashes after its first `calls` calls, which have left the
 * world `first`. */
static int row(struct ll_sim_random *r, const struct ll_sim_world *first, uint32_t calls)
{
    struct lladd_sim *sim = r->sim;
    struct ll_sim_run runs[LLADD_SIM_DEPTH_MAX + 2];
    struct ll_sim_units units[LLADD_SIM_DEPTH_MAX + 2];
    struct ll_sim_world worlds[LLADD_SIM_DEPTH_MAX + 2];
    struct ll_sim_claims claims = {0};
    struct ll_sim_verdict v = {0};
    uint32_t n_calls = 0, depth = 0;
    bool disturbed = false;
    ll_sim_allowed(&sim->record, calls, true, &claims.lo_kill, &claims.hi);
    ll_sim_allowed(&sim->record, calls, false, &claims.lo_power, &claims.hi);
    worlds[1] = *first;
    r->row.count = 0;
    r->whole = true;
    int rc = begin_run(r, 1, &worlds[1], &units[1], &runs[1]);
    for (uint32_t level = 1; !rc; level++) {
        struct ll_sim_run *run = &runs[level];
        disturbed = level <= r->bounds.depth && draw(r, 6) == 0;
        disturbed &= !(r->at.without & NO_DISTURBANCE);
        rc = disturbed ? disturb(r, run, &v, &n_calls) : recover(r, run, &claims, &v, &n_calls);
        remember(r, calls, run, disturbed);
        depth = level;
        if (rc || v.oracle || !goes_on(r, level + 1, disturbed))
            break;
        claims.power |= !run->kill;
        claims.again = false;
        calls = choose_place(r, run, n_calls);
        if (!disturbed && calls == n_calls) {
            claims.lo_power = claims.lo_kill = claims.hi = run->shown;
            claims.again = true;
        }
        rc = world_at(r, level + 1, run, calls, &worlds[level + 1]);
        if (!rc)
            rc = begin_run(r, level + 1, &worlds[level + 1], &units[level + 1], &runs[level + 1]);
        disturbed = false;
        n_calls = 0;
        if (!rc && v.oracle)
            break;
    }
    if (rc || !v.oracle)
        return rc;
    struct ll_sim_vector token;
    token_of(r, &token);
    return found(r, &v, depth, &token);
}

/* ---- workloads --------------------------------------------------------------------------- */

/* Are the bounds reached? The bound on crash states also limits the number of workloads. Without
 * that limit, a subject that always fails while it is recorded would be tried for ever, since it
 * adds no crash states. */
static bool is_used_up(struct ll_sim_random *r)
{
    const struct lladd_sim_bounds *b = &r->bounds;
    r->stop |= b->states && (r->report->states >= b->states || r->report->workloads > b->states);
    r->stop |= b->milliseconds && ll_sim_now() - r->started >= b->milliseconds * 1000000;
    return r->stop;
}

static int crash_at(struct ll_sim_random *r, uint64_t seed, uint32_t p)
{
    struct lladd_sim *sim = r->sim;
    struct ll_sim_world world;
    r->stream = ll_sim_mix(seed, 1000 + p);
    uint32_t calls = choose_place(r, &sim->workload, sim->workload.n_calls);
    ll_sim_tell(sim, "The workload is crashed after call %u of %u.", calls, sim->workload.n_calls);
    int rc = world_at(r, 1, &sim->workload, calls, &world);
    r->report->points++;
    for (uint32_t v = 0; !rc && v < VARIANTS && !is_used_up(r); v++) {
        if (r->scope == THERE && r->at.variant != v)
            continue;
        r->at.point = p;
        r->at.variant = v;
        r->stream = ll_sim_mix(ll_sim_mix(seed, 2000 + p), v);
        r->most = 0;
        ll_sim_set_free(&sim->endings); /* so that all oracles run, as in a replay */
        rc = row(r, &world, calls);
    }
    return rc;
}

static int crash_workload(struct ll_sim_random *r, uint64_t seed)
{
    uint32_t first = r->scope == ALL ? 0 : r->at.point;
    int rc = 0;
    for (uint32_t p = 0; !rc && p < (r->scope == THERE ? 1 : POINTS) && !is_used_up(r); p++)
        rc = crash_at(r, seed, (first + p) % POINTS);
    return rc;
}

/* Draws a size for each option that the subject has left at the simulator's default. */
static void swarm(struct ll_sim_random *r)
{
    static const uint32_t segments[] = {8 << 10, 16 << 10, 32 << 10};
    static const uint32_t caches[] = {128 << 10, 192 << 10, 256 << 10, 512 << 10};
    static const uint32_t checkpoints[] = {8 << 10, 16 << 10, 24 << 10, 64 << 10};
    struct lladd_options *o = &r->sim->options;
    if (o->log_segment_min == 8 << 10 && o->log_segment_max == 8 << 10)
        o->log_segment_min = o->log_segment_max = segments[draw(r, 3)];
    if (o->cache_bytes == 256 << 10)
        o->cache_bytes = caches[draw(r, 4)];
    if (o->log_ring_bytes == 64 << 10)
        o->log_ring_bytes = (uint64_t)(64 << 10) << draw(r, 2);
    if (o->checkpoint_bytes == 16 << 10)
        o->checkpoint_bytes = checkpoints[draw(r, 4)];
}

/* Adds a failure for a workload that has failed. There are two cases: no call was made to fail, or
 * a call was made to fail and the workload returned LLADD_BUG. */
static int workload_failed(struct ll_sim_random *r, int rc, const struct lladd_error *err)
{
    struct ll_sim_verdict v;
    struct ll_sim_vector token;
    ll_sim_object_recording(r->sim, &v, rc, err);
    ll_sim_tell(r->sim, "%s objects: %s", lladd_sim_oracle_name(v.oracle), v.message);
    r->at.point = r->at.variant = 0;
    token_of(r, &token);
    token.recording = 0; /* there is no recording */
    return found(r, &v, 0, &token);
}

static int record_workload(struct ll_sim_random *r, bool *good)
{
    struct lladd_sim *sim = r->sim;
    struct lladd_error err = LLADD_ERROR_INIT;
    uint64_t runs = 0;
    int failed = 0;
    int rc = ll_sim_record(sim, &err);
    *good = rc == 0;
    if (rc)
        return rc == LLADD_NO_MEMORY ? rc : workload_failed(r, rc, &err);
    bool errors = draw(r, 4) == 0 && !(r->at.without & NO_ERROR);
    offer(r, F_ERROR_WORKLOAD, errors);
    if (errors) {
        begin_errors(r, 1 + draw(r, (uint32_t)sim->workload.calls_all));
        rc = ll_sim_record_again(sim, &failed);
        sim->before_call = NULL;
    }
    runs = sim->runs;
    r->report->runs += runs;
    r->report->refused += sim->refused;
    r->report->calls += sim->workload.n_calls;
    if (!rc && failed == LLADD_BUG) {
        *good = false;
        (void)lladd_error_set(&err, failed, "after an error in call %u", r->error_at);
        return workload_failed(r, failed, &err);
    }
    return rc;
}

/* Replays r->row, which was read from a token. */
static int crash_by_row(struct ll_sim_random *r)
{
    struct ll_sim_verdict v;
    uint32_t depth;
    int rc = ll_sim_replay(r->sim, &r->row, &v, &depth);
    return rc || !v.oracle ? rc : found(r, &v, depth, &r->row);
}

/* Replays r->row. If the same oracle reports a violation again, makes the row smaller. */
static int shrink_row(struct ll_sim_random *r)
{
    struct lladd_sim_failure *f = &r->failures[0];
    struct ll_sim_verdict v;
    uint32_t depth;
    r->whole_failure = *f;
    r->row.kind = LL_SIM_TOKEN_RANDOM;
    r->row.flags = r->bounds.flags;
    int rc = ll_sim_replay(r->sim, &r->row, &v, &depth);
    r->whole = !rc && v.oracle == f->oracle;
    if (!r->whole)
        return rc;
    rc = ll_sim_shrink(r->sim, &r->row, &v, &depth);
    memcpy(f->message, v.message, sizeof f->message);
    f->depth = depth;
    return rc;
}

static int crash_recorded(struct ll_sim_random *r, uint64_t seed, struct lladd_error *err)
{
    if (r->recording && (r->sim->record.hash & 0xffffff) != r->recording)
        return ll_sim_other_recording(err);
    int rc = r->scope == ROW ? crash_by_row(r) : crash_workload(r, seed);
    if (!rc && r->wanted && r->scope == THERE && r->report->n_failures && r->whole)
        rc = shrink_row(r);
    return rc;
}

/* Draws the sizes and the number of calls of `run`. They are drawn even if they are not used, so
 * that all later draws stay the same. */
static void vary(struct ll_sim_random *r)
{
    struct lladd_sim *sim = r->sim;
    const struct lladd_options o = sim->options;
    swarm(r);
    if (r->at.without & OWN_SIZES)
        sim->options = o;
    r->drawn = sim->subject.repeats ? 1 + draw(r, REPEATS_MAX) : 1;
    sim->repeats = r->at.repeats ? r->at.repeats : r->drawn;
    ll_sim_tell(sim, "Workload %u: `run` %u times, cache %llu, segments %llu, checkpoints %llu.",
                r->at.workload, sim->repeats, (unsigned long long)sim->options.cache_bytes,
                (unsigned long long)sim->options.log_segment_max,
                (unsigned long long)sim->options.checkpoint_bytes);
}

int ll_sim_random_workload(struct ll_sim_random *r, const struct lladd_sim_subject *subject,
                           struct lladd_error *err)
{
    struct lladd_sim_bounds b = r->bounds;
    uint64_t seed = ll_sim_mix(r->bounds.seed, r->at.workload);
    bool good;
    b.seed = seed ? seed : 1;
    b.flags |= LLADD_SIM_FULL_PRODUCT | LLADD_SIM_NO_COVERAGE;
    int rc = ll_sim_new(subject, &b, &r->sim, err);
    if (rc)
        return rc;
    struct lladd_dst *before = lladd_dst_enter(&r->sim->dst);
    r->stream = ll_sim_mix(seed, 3);
    if (r->trace) {
        r->sim->options.trace = r->trace;
        r->sim->options.callback_ctx = r->sim;
    }
    r->sim->history = r->history;
    vary(r);
    r->sim->history = NULL; /* the calls of the recording do not belong to the history */
    rc = record_workload(r, &good);
    r->sim->history = r->history;
    r->report->workloads++;
    if (!rc && good)
        rc = crash_recorded(r, seed, err);
    (void)lladd_dst_enter(before);
    ll_sim_free(r->sim);
    r->sim = NULL;
    return rc && rc != LLADD_BAD_ARGUMENT ? lladd_error_set(err, rc, "subject \"%s\" at random: %s",
                                                            subject->name, lladd_code_text(rc))
                                          : rc;
}

/* ---- entry points ------------------------------------------------------------------------ */

/* Adds a failure for each fault that was possible OFFERS times or more and never happened. */
static int look_for_holes(struct ll_sim_random *r)
{
    int rc = 0;
    for (unsigned f = 0; !rc && f < FAULT_COUNT; f++) {
        struct ll_sim_verdict v = {0};
        if (r->fired[f].fired || r->fired[f].offered < OFFERS ||
            r->bounds.flags & LLADD_SIM_NO_COVERAGE)
            continue;
        (void)ll_sim_object(&v, LLADD_SIM_O_COVERAGE,
                            "\"%s\" never happened, and was possible %llu times",
                            r->fired[f].name, (unsigned long long)r->fired[f].offered);
        rc = found(r, &v, 0, NULL);
    }
    return rc;
}

static void name_faults(struct ll_sim_random *r)
{
#define FAULT_NAME(name, text) text,
    static const char *const names[] = {FAULTS(FAULT_NAME)};
#undef FAULT_NAME
    for (unsigned f = 0; f < FAULT_COUNT; f++)
        r->fired[f].name = names[f];
}

static int take_bounds(struct ll_sim_random *r, const struct lladd_sim_subject *subject,
                       const struct lladd_sim_bounds *bounds, struct lladd_error *err)
{
    struct lladd_sim *sim;
    int rc = ll_sim_new(subject, bounds, &sim, err); /* checks the subject and the bounds */
    if (rc)
        return rc;
    r->bounds = sim->bounds;
    memcpy(r->report->subject, sim->report->subject, sizeof r->report->subject);
    ll_sim_free(sim);
    if (!r->bounds.states && !r->bounds.milliseconds)
        r->bounds.states = STATES_DEFAULT;
    r->report->seed = r->bounds.seed;
    return 0;
}

int lladd_sim_random(const struct lladd_sim_subject *subject, const struct lladd_sim_bounds *bounds,
                     struct lladd_sim_random_report **out, struct lladd_error *err)
{
    struct ll_sim_random r = {.started = ll_sim_now()};
    *out = NULL;
    r.report = calloc(1, sizeof *r.report);
    struct lladd_sim_fired *fired = calloc(FAULT_COUNT, sizeof *fired);
    int rc = r.report && fired ? take_bounds(&r, subject, bounds, err)
                               : lladd_error_set(err, LLADD_NO_MEMORY, "no memory");
    name_faults(&r);
    for (uint32_t w = 0; !rc && !is_used_up(&r); w++) {
        r.at = (struct ll_sim_which){.workload = w};
        rc = ll_sim_random_workload(&r, subject, err);
    }
    if (!rc && look_for_holes(&r))
        rc = lladd_error_set(err, LLADD_NO_MEMORY, "no memory");
    if (!rc)
        rc = ll_sim_random_give_tokens(&r, subject, err);
    free(r.tokens);
    if (rc) {
        free(fired);
        free(r.failures);
        free(r.report);
        return rc;
    }
    memcpy(fired, r.fired, sizeof r.fired);
    r.report->struct_size = sizeof *r.report;
    r.report->fired = fired;
    r.report->n_fired = FAULT_COUNT;
    r.report->nanoseconds = ll_sim_now() - r.started;
    *out = r.report;
    return 0;
}

/* Takes from a token's values which row of crashes to run. Returns false if the values are
 * invalid. */
static bool is_of_a_row(const struct ll_sim_vector *v, struct ll_sim_random *r)
{
    const uint32_t *value = v->value;
    bool row = value[2] & A_ROW;
    r->at = (struct ll_sim_which){value[0], value[1], value[2] & WITHOUT_ALL, 0, 0, 0};
    if (value[1] > REPEATS_MAX || value[2] > (WITHOUT_ALL | A_ROW) ||
        (row ? v->count <= ROW_AT : v->count > WHICH_VALUES || value[3] == 0))
        return false;
    r->scope = row ? ROW : THERE;
    r->recording = v->recording;
    if (row) {
        r->row = *v;
        r->row.count = v->count - ROW_AT;
        memmove(r->row.value, v->value + ROW_AT, r->row.count * sizeof *v->value);
        return true;
    }
    r->bounds.depth = value[3];
    r->at.point = value[4];
    r->at.variant = value[5];
    return value[3] <= LLADD_SIM_DEPTH_MAX && value[4] < POINTS && value[5] < VARIANTS;
}

int ll_sim_random_replay(struct lladd_sim *sim, const struct ll_sim_vector *v,
                         struct lladd_sink *history, struct lladd_error *err)
{
    struct lladd_sim_random_report report = {.struct_size = sizeof report};
    struct ll_sim_random r = {.report = &report,
                              .bounds = sim->bounds,
                              .trace = sim->options.trace,
                              .history = history,
                              .started = ll_sim_now()};
    if (!is_of_a_row(v, &r))
        return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                               "invalid token: expected a random run or a row of crashes");
    r.bounds.failures = 1;
    name_faults(&r);
    int rc = ll_sim_random_workload(&r, &sim->subject, err);
    if (!rc && report.n_failures) {
        struct ll_sim_verdict again = {.oracle = r.failures->oracle};
        memcpy(again.message, r.failures->message, sizeof again.message);
        rc = ll_sim_fail(sim, &again, r.failures->depth, v);
        if (!rc && !ll_sim_token_encode(&sim->subject, v, sim->failures[0].token))
            sim->failures[0].token[0] = '\0';
    }
    free(r.failures);
    free(r.tokens);
    return rc;
}
