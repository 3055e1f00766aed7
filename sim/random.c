/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * random: crashes of workloads that are too large to explore.
 *
 *   workload w     a seed of its own: other numbers for `run`, `run` repeated, other sizes of the
 *                  cache, the log and checkpoints; in one of four an error happens
 *     point p      a place to crash at. Places are of sorts, the kind of call and file before it or
 *                  what the workload was doing, and each sort has the same chance: else nearly all
 *                  would be writes
 *       variant v  what was pending survives or does not, at random; the recovery is judged; or an
 *                  error happens in it, and it dies; and crashed in turn, like the workload
 *
 * Each w, (w, p) and (w, p, v) has a stream of its own, so a token is these three and the seed.
 */
#include "sim/sim_private.h"

#include <errno.h>
#include <stdlib.h>

enum {
    STATES_DEFAULT = 20000,
    POINTS = 40,   /* of a workload */
    VARIANTS = 12, /* of a point */
    REPEATS_MAX = 10,
    OFFERS = 400 /* that often without firing is a hole */
};

/* Faults, and places to crash at. */
#define FAULTS(X) \
    X(KILL, "the process dies") \
    X(POWER, "power fails") \
    X(NAME_LOST, "a name is lost") \
    X(SIZE_LOST, "a size is lost") \
    X(LOG_CUT, "the log is cut") \
    X(LOG_HOLE, "a hole in the log") \
    X(LOG_ALONE, "a part of the log alone") \
    X(WRITE_LOST, "a write has not arrived") \
    X(TORN, "a write is torn") \
    X(CRASH_2, "recovery is crashed") \
    X(CRASH_3, "recovery is crashed again") \
    X(ERROR_WORKLOAD, "an error in the workload") \
    X(ERROR_RECOVERY, "an error in recovery") \
    X(NO_SPACE, "no space") \
    X(SHORT, "a write does a part only") \
    X(SYNC_FAILED, "a sync fails") \
    X(AT_WRITE, "crash behind a write") \
    X(AT_WRITE_PAGES, "crash behind a write of pages") \
    X(AT_WRITE_LOG, "crash behind a write of the log") \
    X(AT_TRUNCATE, "crash behind truncate") \
    X(AT_CREATE, "crash behind create") \
    X(AT_RENAME, "crash behind rename") \
    X(AT_UNLINK, "crash behind unlink") \
    X(AT_SYNC, "crash behind a sync") \
    X(AT_SYNC_PAGES, "crash behind a sync of pages") \
    X(AT_SYNC_LOG, "crash behind a sync of the log") \
    X(AT_SYNC_DIR, "crash behind sync of a directory") \
    X(AT_BEGIN, "crash when a transaction begins") \
    X(AT_NOTE, "crash when one does something") \
    X(AT_COMMIT, "crash when one commits") \
    X(AT_ABORT, "crash when one rolls back") \
    X(AT_OTHER, "crash at savepoints and prepares")
enum fault {
#define FAULT_ENUM(name, text) F_##name,
    FAULTS(FAULT_ENUM)
#undef FAULT_ENUM
        FAULT_COUNT
};

struct random {
    struct lladd_sim *sim; /* of the workload */
    struct lladd_sim_random_report *report;
    struct lladd_sim_bounds bounds;
    struct lladd_sim_fired fired[FAULT_COUNT];
    struct lladd_sim_failure *failures;
    uint32_t workload, point, variant;
    uint64_t started;
    uint64_t stream;           /* of the faults */
    uint32_t error_at, errors; /* before which call; how many have happened */
    uint32_t calls, most;      /* of this run; of any recovery */
    bool one, stop;
    struct lladd_sink *history;
};

static uint32_t draw(struct random *r, uint32_t n)
{
    r->stream = ll_sim_mix(r->stream, n);
    return (uint32_t)((r->stream >> 20) % n);
}

static void offer(struct random *r, enum fault f, bool fired)
{
    r->fired[f].offered++;
    r->fired[f].fired += fired;
}

/* ---- where to crash ---------------------------------------------------------------------- */

static enum fault sort_of_call(const struct lladd_sim *sim, const struct ll_sim_call *call)
{
    unsigned kind = sim->names.at[call->name].kind;
    unsigned file = kind == LL_SIM_PAGES ? 1 : kind == LL_SIM_LOG ? 2 : 0;
    switch (call->kind) {
    case LL_SIM_WRITE:
        return (enum fault)(F_AT_WRITE + file);
    case LL_SIM_SYNC:
        return (enum fault)(F_AT_SYNC + file);
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

static enum fault sort_of_event(const struct ll_sim_event *e)
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
    enum fault want;
    uint32_t nth, at; /* that one of its sort is at this call */
};

static void see_place(struct places *p, enum fault sort, uint32_t at)
{
    if (sort == p->want && p->count[sort] == p->nth)
        p->at = at;
    p->count[sort]++;
}

static void see_places(const struct random *r, const struct ll_sim_run *run, uint32_t n_calls,
                       struct places *p)
{
    const struct ll_sim_record *record = &r->sim->record;
    memset(p->count, 0, sizeof p->count);
    for (uint32_t c = 0; c < n_calls; c++)
        see_place(p, sort_of_call(r->sim, &run->trace[c]), c + 1);
    for (uint32_t e = 0; run->level == 0 && e < record->n_events; e++)
        if (record->event[e].at <= n_calls)
            see_place(p, sort_of_event(&record->event[e]), record->event[e].at);
}

/* How many calls come before the crash. */
static uint32_t choose_place(struct random *r, const struct ll_sim_run *run, uint32_t n_calls)
{
    struct places p = {.want = FAULT_COUNT};
    unsigned sorts[FAULT_COUNT], n = 0;
    see_places(r, run, n_calls, &p);
    for (unsigned f = 0; f < FAULT_COUNT; f++)
        if (p.count[f])
            sorts[n++] = f;
    if (n == 0 || draw(r, 8) == 0)
        return draw(r, n_calls + 1); /* anywhere; also before the first one, and behind the last */
    p.want = (enum fault)sorts[draw(r, n)];
    p.nth = draw(r, p.count[p.want]);
    for (unsigned i = 0; i < n; i++)
        offer(r, (enum fault)sorts[i], sorts[i] == (unsigned)p.want);
    see_places(r, run, n_calls, &p);
    return p.at;
}

/* ---- errors ------------------------------------------------------------------------------ */

/* Before each call: the one that was chosen fails. Of a sync, anything may have arrived then. */
static int64_t fail_call(void *ctx, struct ll_sim_run *run, enum ll_sim_call_kind kind,
                         uint32_t name, uint64_t off, size_t len)
{
    struct random *r = ctx;
    (void)name;
    (void)run;
    r->calls += kind != LL_SIM_CLOSE; /* it is none of a run's calls_all */
    if (r->calls < r->error_at || !r->error_at || r->errors)
        return 0;
    r->errors++;
    /* A short read is the end of the file (device.h): it is the device that goes on reading. */
    bool writes = kind == LL_SIM_WRITE || kind == LL_SIM_APPEND, transfer = writes && len > 1;
    bool grows = writes || kind == LL_SIM_CREATE || kind == LL_SIM_MKDIR;
    uint32_t how = draw(r, 3);
    offer(r, F_NO_SPACE, grows && how == 1);
    offer(r, F_SHORT, transfer && how == 2);
    offer(r, F_SYNC_FAILED, kind == LL_SIM_SYNC);
    if (transfer && how == 2) {
        uint64_t part = draw(r, (uint32_t)len);
        uint64_t over = (off + part) % LL_SIM_SECTOR; /* no disk tears a sector */
        return 1 + (int64_t)(part > over ? part - over : 0);
    }
    return grows && how == 1 ? -ENOSPC : -EIO;
}

static void begin_errors(struct random *r, uint32_t at)
{
    r->calls = 0;
    r->errors = 0;
    r->error_at = at;
    r->sim->before_call = fail_call;
    r->sim->hook_ctx = r;
}

/* ---- failures ---------------------------------------------------------------------------- */

static int found(struct random *r, struct ll_sim_verdict *v, uint32_t depth)
{
    struct ll_sim_vector vector = {.kind = LL_SIM_TOKEN_RANDOM,
                                   .flags = r->bounds.flags,
                                   .seed = r->bounds.seed,
                                   .count = 4,
                                   .value = {r->workload, r->point, r->variant, r->bounds.depth}};
    struct lladd_sim_random_report *report = r->report;
    struct lladd_sim_failure *more =
        realloc(r->failures, (report->n_failures + 1) * sizeof *r->failures);
    if (!more)
        return LLADD_NO_MEMORY;
    r->failures = more;
    struct lladd_sim_failure *f = &more[report->n_failures++];
    *f = (struct lladd_sim_failure){.oracle = v->oracle, .depth = depth};
    memcpy(f->message, v->message, sizeof f->message);
    if (depth == UINT32_MAX || !ll_sim_token_encode(&r->sim->subject, &vector, f->token))
        f->token[0] = '\0';
    report->failures = more;
    r->stop |= report->n_failures >= r->bounds.failures;
    return 0;
}

/* ---- one row of crashes ------------------------------------------------------------------ */

/* What has survived, for the list of what fired. */
static void see_units(struct random *r, const struct ll_sim_run *run)
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
            if (u->variants[u->n - 1].kind == LL_SIM_V_TORN) /* tears differ from one another */
                offer(r, F_TORN, variant->kind == LL_SIM_V_TORN);
        }
    }
}

/* A recovery in which an error happens, and that dies of it, or of old age. */
static int disturb(struct random *r, struct ll_sim_run *run, struct ll_sim_verdict *v,
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
        lladd_kill(db);
    run->undecided = 0;
    *n_calls = run->n_calls;
    *v = (struct ll_sim_verdict){0};
    r->report->disturbed++;
    if (rc == LLADD_BUG)
        (void)ll_sim_object(v, LLADD_SIM_O_ERRORS, "an error in recovery, and then: %s",
                            err.message);
    if (sim->heap.live)
        (void)ll_sim_object(v, LLADD_SIM_O_MEMORY,
                            "%llu pieces of memory were not given back after an error in recovery",
                            (unsigned long long)sim->heap.live);
    return run->failed;
}

/* A recovery that must succeed. */
static int recover(struct random *r, struct ll_sim_run *run, const struct ll_sim_claims *claims,
                   struct ll_sim_verdict *v, uint32_t *n_calls)
{
    struct lladd_sim *sim = r->sim;
    struct ll_sim_claim claim = ll_sim_claim_of(claims, run->kill);
    bool ending;
    begin_errors(r, 0); /* only counts */
    int rc = ll_sim_judge(sim, run, &claim, v, n_calls, &ending);
    sim->before_call = NULL;
    r->most = r->calls > r->most ? r->calls : r->most;
    see_units(r, run);
    run->shown = v->k;
    r->report->states++;
    r->report->depth_states[run->level]++;
    if (v->oracle)
        ll_sim_tell(sim, "%s objects: %s", lladd_sim_oracle_name(v->oracle), v->message);
    return rc;
}

static int begin_run(struct random *r, uint32_t level, const struct ll_sim_world *world,
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
    int rc = kill ? 0 : ll_sim_units_of(sim, &l->units, world, level == 1, units);
    return rc ? rc : ll_sim_run_init(sim, run, &l->runs, level, world, kill ? NULL : units);
}

/* The world after some calls of a run. */
static int world_at(struct random *r, uint32_t level, struct ll_sim_run *before, uint32_t calls,
                    struct ll_sim_world *world)
{
    struct ll_sim_level *l = &r->sim->level[level];
    ll_sim_rewind(&l->worlds);
    int rc = ll_sim_run_world(before, &l->worlds, world);
    for (uint32_t c = 0; !rc && c < calls; c++)
        rc = ll_sim_step(r->sim, &l->worlds, world, &before->trace[c], c);
    return rc;
}

/* Crashes the recovery `before` in turn, or not. */
static bool goes_on(struct random *r, uint32_t level, bool disturbed)
{
    if (level > r->bounds.depth + 1) /* one more, if an error has spoilt the last one */
        return false;
    bool more = disturbed || (level <= r->bounds.depth && draw(r, 3) != 0);
    if (!disturbed && level == 2 && r->bounds.depth >= 2)
        offer(r, F_CRASH_2, more);
    if (!disturbed && level == 3 && r->bounds.depth >= 3)
        offer(r, F_CRASH_3, more);
    return more;
}

/* A crash of the workload in this world, and what follows. */
static int row(struct random *r, const struct ll_sim_world *first, uint32_t calls)
{
    struct lladd_sim *sim = r->sim;
    struct ll_sim_run runs[LLADD_SIM_DEPTH_MAX + 2];
    struct ll_sim_units units[LLADD_SIM_DEPTH_MAX + 2];
    struct ll_sim_world worlds[LLADD_SIM_DEPTH_MAX + 2];
    struct ll_sim_claims claims = {0};
    struct ll_sim_verdict v = {0};
    uint32_t n_calls = 0;
    bool disturbed = false;
    ll_sim_allowed(&sim->record, calls, true, &claims.lo_kill, &claims.hi);
    ll_sim_allowed(&sim->record, calls, false, &claims.lo_power, &claims.hi);
    worlds[1] = *first;
    int rc = begin_run(r, 1, &worlds[1], &units[1], &runs[1]);
    for (uint32_t level = 1; !rc; level++) {
        struct ll_sim_run *run = &runs[level];
        disturbed = level <= r->bounds.depth && draw(r, 6) == 0;
        rc = disturbed ? disturb(r, run, &v, &n_calls) : recover(r, run, &claims, &v, &n_calls);
        if (rc || v.oracle || !goes_on(r, level + 1, disturbed))
            break;
        claims.power |= !run->kill;
        claims.again = false;
        uint32_t at = choose_place(r, run, n_calls);
        if (!disturbed && at == n_calls) {
            claims.lo_power = claims.lo_kill = claims.hi = run->shown;
            claims.again = true;
        }
        rc = world_at(r, level + 1, run, at, &worlds[level + 1]);
        if (!rc)
            rc = begin_run(r, level + 1, &worlds[level + 1], &units[level + 1], &runs[level + 1]);
        disturbed = false;
        n_calls = 0;
        if (!rc && v.oracle)
            break;
    }
    return !rc && v.oracle ? found(r, &v, 0) : rc;
}

/* ---- workloads --------------------------------------------------------------------------- */

static bool is_used_up(struct random *r)
{
    const struct lladd_sim_bounds *b = &r->bounds;
    r->stop |= b->states && r->report->states >= b->states;
    r->stop |= b->milliseconds && ll_sim_now() - r->started >= b->milliseconds * 1000000;
    return r->stop;
}

static int crash_workload(struct random *r, uint64_t seed)
{
    struct lladd_sim *sim = r->sim;
    int rc = 0;
    for (uint32_t p = 0; !rc && p < POINTS && !is_used_up(r); p++) {
        if (r->one && r->point != p)
            continue;
        struct ll_sim_world world;
        r->stream = ll_sim_mix(seed, 1000 + p);
        uint32_t calls = choose_place(r, &sim->workload, sim->workload.n_calls);
        ll_sim_tell(sim, "The workload is crashed behind call %u of %u.", calls,
                    sim->workload.n_calls);
        rc = world_at(r, 1, &sim->workload, calls, &world);
        r->report->points++;
        for (uint32_t v = 0; !rc && v < VARIANTS && !is_used_up(r); v++) {
            if (r->one && r->variant != v)
                continue;
            if (!r->one) {
                r->point = p;
                r->variant = v;
            }
            r->stream = ll_sim_mix(ll_sim_mix(seed, 2000 + p), v);
            r->most = 0;
            ll_sim_set_free(&sim->endings); /* looked at closely, each: a token does the same */
            rc = row(r, &world, calls);
        }
    }
    return rc;
}

/* Other sizes, where the subject has not asked for some. */
static void swarm(struct random *r)
{
    static const uint32_t segments[] = {8 << 10, 16 << 10, 32 << 10};
    static const uint32_t caches[] = {128 << 10, 192 << 10, 256 << 10, 512 << 10};
    static const uint32_t checkpoints[] = {8 << 10, 16 << 10, 24 << 10, 64 << 10};
    struct lladd_options *o = &r->sim->options;
    if (o->log_segment_min == 8 << 10 && o->log_segment_max == 8 << 10)
        o->log_segment_min = o->log_segment_max = segments[draw(r, 3)];
    if (o->cache_bytes == 256 << 10)
        o->cache_bytes = caches[draw(r, 4)];
    if (o->log_ring_bytes == 32 << 10)
        o->log_ring_bytes = (uint64_t)(32 << 10) << draw(r, 2);
    if (o->checkpoint_bytes == 16 << 10)
        o->checkpoint_bytes = checkpoints[draw(r, 4)];
}

/* It has failed although nothing was wrong. */
static int workload_failed(struct random *r, int rc, const struct lladd_error *err)
{
    struct ll_sim_verdict v;
    ll_sim_object_recording(r->sim, &v, rc, err);
    ll_sim_tell(r->sim, "%s objects: %s", lladd_sim_oracle_name(v.oracle), v.message);
    r->point = r->variant = 0;
    return found(r, &v, 0);
}

static int record_workload(struct random *r, bool *good)
{
    struct lladd_sim *sim = r->sim;
    struct lladd_error err = LLADD_ERROR_INIT;
    uint64_t runs = 0;
    int failed = 0;
    int rc = ll_sim_record(sim, &err);
    *good = rc == 0;
    if (rc)
        return rc == LLADD_NO_MEMORY ? rc : workload_failed(r, rc, &err);
    bool errors = draw(r, 4) == 0;
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

/* Workload number `w`, from its beginning to the last crash. */
static int workload(struct random *r, const struct lladd_sim_subject *subject, uint32_t w,
                    struct lladd_error *err)
{
    struct lladd_sim_bounds b = r->bounds;
    uint64_t seed = ll_sim_mix(r->bounds.seed, w);
    bool good;
    b.seed = seed ? seed : 1;
    b.flags |= LLADD_SIM_FULL_PRODUCT | LLADD_SIM_NO_COVERAGE;
    int rc = ll_sim_new(subject, &b, &r->sim, err);
    if (rc)
        return rc;
    struct lladd_dst *before = lladd_dst_enter(&r->sim->dst);
    r->stream = ll_sim_mix(seed, 3);
    r->workload = w;
    r->sim->history = r->history;
    swarm(r);
    r->sim->repeats = r->sim->subject.repeats ? 1 + draw(r, REPEATS_MAX) : 1;
    ll_sim_tell(r->sim, "Workload %u: `run` %u times, cache %llu, segments %llu, checkpoints %llu.",
                w, r->sim->repeats, (unsigned long long)r->sim->options.cache_bytes,
                (unsigned long long)r->sim->options.log_segment_max,
                (unsigned long long)r->sim->options.checkpoint_bytes);
    r->sim->history = NULL; /* the recording would tell every call */
    rc = record_workload(r, &good);
    r->sim->history = r->history;
    r->report->workloads++;
    if (!rc && good)
        rc = crash_workload(r, seed);
    (void)lladd_dst_enter(before);
    ll_sim_free(r->sim);
    r->sim = NULL;
    return rc ? lladd_error_set(err, rc, "subject \"%s\" at random: %s", subject->name,
                                lladd_code_text(rc))
              : 0;
}

/* What was offered often and has never happened. */
static int look_for_holes(struct random *r)
{
    int rc = 0;
    for (unsigned f = 0; !rc && f < FAULT_COUNT; f++) {
        struct ll_sim_verdict v = {0};
        if (r->fired[f].fired || r->fired[f].offered < OFFERS ||
            r->bounds.flags & LLADD_SIM_NO_COVERAGE)
            continue;
        (void)ll_sim_object(&v, LLADD_SIM_O_COVERAGE, "\"%s\" never happened, of %llu occasions",
                            r->fired[f].name, (unsigned long long)r->fired[f].offered);
        rc = found(r, &v, UINT32_MAX);
        if (!rc)
            r->failures[r->report->n_failures - 1].depth = 0;
    }
    return rc;
}

static void name_faults(struct random *r)
{
#define FAULT_NAME(name, text) text,
    static const char *const names[] = {FAULTS(FAULT_NAME)};
#undef FAULT_NAME
    for (unsigned f = 0; f < FAULT_COUNT; f++)
        r->fired[f].name = names[f];
}

static int take_bounds(struct random *r, const struct lladd_sim_subject *subject,
                       const struct lladd_sim_bounds *bounds, struct lladd_error *err)
{
    struct lladd_sim *sim;
    int rc = ll_sim_new(subject, bounds, &sim, err); /* which looks at both */
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
    struct random r = {.started = ll_sim_now()};
    *out = NULL;
    r.report = calloc(1, sizeof *r.report);
    struct lladd_sim_fired *fired = calloc(FAULT_COUNT, sizeof *fired);
    int rc = r.report && fired ? take_bounds(&r, subject, bounds, err)
                               : lladd_error_set(err, LLADD_NO_MEMORY, "no memory");
    name_faults(&r);
    for (uint32_t w = 0; !rc && !is_used_up(&r); w++)
        rc = workload(&r, subject, w, err);
    if (!rc && look_for_holes(&r))
        rc = lladd_error_set(err, LLADD_NO_MEMORY, "no memory");
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

int ll_sim_random_replay(struct lladd_sim *sim, const struct ll_sim_vector *v,
                         struct lladd_sink *history, struct lladd_error *err)
{
    struct lladd_sim_random_report report = {.struct_size = sizeof report};
    struct random r = {.report = &report,
                       .bounds = sim->bounds,
                       .point = v->value[1],
                       .variant = v->value[2],
                       .one = true,
                       .history = history,
                       .started = ll_sim_now()};
    if (v->count < 4 || v->value[3] == 0 || v->value[3] > LLADD_SIM_DEPTH_MAX)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "the token makes no sense");
    r.bounds.depth = v->value[3];
    r.bounds.failures = 1;
    name_faults(&r);
    int rc = workload(&r, &sim->subject, v->value[0], err);
    if (!rc && report.n_failures) {
        struct ll_sim_verdict found_again = {.oracle = r.failures->oracle};
        memcpy(found_again.message, r.failures->message, sizeof found_again.message);
        rc = ll_sim_fail(sim, &found_again, r.failures->depth, v);
        if (!rc)
            memcpy(sim->failures[0].token, r.failures->token, sizeof sim->failures[0].token);
    }
    free(r.failures);
    return rc;
}

/* ---- reports ----------------------------------------------------------------------------- */

void lladd_sim_random_free(struct lladd_sim_random_report *r)
{
    if (!r)
        return;
    free((void *)(uintptr_t)r->failures);
    free((void *)(uintptr_t)r->fired);
    free(r);
}

int lladd_sim_random_text(const struct lladd_sim_random_report *r, struct lladd_sink *s)
{
    (void)lladd_sink_printf(s, "subject %s, at random: %s\n", r->subject,
                            r->n_failures ? "FAILED" : "passed so far");
    (void)lladd_sink_printf(
        s, "  seed %llu: %llu workloads of %llu runs (%llu refused), %llu device calls\n",
        (unsigned long long)r->seed, (unsigned long long)r->workloads, (unsigned long long)r->runs,
        (unsigned long long)r->refused, (unsigned long long)r->calls);
    (void)lladd_sink_printf(
        s, "  %llu places to crash at, %llu recoveries judged, %llu disturbed, in %.2f s\n",
        (unsigned long long)r->points, (unsigned long long)r->states,
        (unsigned long long)r->disturbed, (double)r->nanoseconds / 1e9);
    for (uint32_t i = 0; i < r->n_fired; i++)
        if (r->fired[i].offered)
            (void)lladd_sink_printf(s, "  %-36s %10llu of %10llu%s\n", r->fired[i].name,
                                    (unsigned long long)r->fired[i].fired,
                                    (unsigned long long)r->fired[i].offered,
                                    r->fired[i].fired ? "" : " !");
    for (uint32_t i = 0; i < r->n_failures; i++) {
        (void)lladd_sink_printf(s, "  %s objects: %s\n",
                                lladd_sim_oracle_name(r->failures[i].oracle),
                                r->failures[i].message);
        if (r->failures[i].token[0])
            (void)lladd_sink_printf(s, "    token %s\n", r->failures[i].token);
    }
    return s->failed;
}

int lladd_sim_random_json(const struct lladd_sim_random_report *r, struct lladd_sink *s)
{
    (void)lladd_sink_printf(s, "{\"subject\":\"%s\",\"mode\":\"random\",\"seed\":%llu", r->subject,
                            (unsigned long long)r->seed);
    (void)lladd_sink_printf(s, ",\"workloads\":%llu,\"runs\":%llu,\"refused\":%llu,\"calls\":%llu",
                            (unsigned long long)r->workloads, (unsigned long long)r->runs,
                            (unsigned long long)r->refused, (unsigned long long)r->calls);
    (void)lladd_sink_printf(
        s, ",\"points\":%llu,\"states\":%llu,\"disturbed\":%llu,\"nanoseconds\":%llu",
        (unsigned long long)r->points, (unsigned long long)r->states,
        (unsigned long long)r->disturbed, (unsigned long long)r->nanoseconds);
    (void)lladd_sink_printf(s, ",\"fired\":{");
    for (uint32_t i = 0; i < r->n_fired; i++)
        (void)lladd_sink_printf(s, "%s\"%s\":[%llu,%llu]", i ? "," : "", r->fired[i].name,
                                (unsigned long long)r->fired[i].fired,
                                (unsigned long long)r->fired[i].offered);
    (void)lladd_sink_printf(s, "}");
    ll_sim_json_failures(r->n_failures, r->failures, s);
    (void)lladd_sink_printf(s, "}\n");
    return s->failed;
}
