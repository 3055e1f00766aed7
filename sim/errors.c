/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * errors: the n-th call fails, for every n.
 *
 * A *fault* has a kind and a number n, and may last for ever. The kind says which calls the fault
 * can hit: device calls of one sort, or allocations. The fault hits the n-th of these calls: the
 * call fails. If the fault lasts for ever, it also hits all later ones. n is increased until a run
 * has no n-th call. The fault happens in one of three stages:
 *
 *   - in the workload, including its open and close
 *   - in the recovery from a crash of a workload that succeeded
 *   - in the creation of a database
 *
 * After this stage the device works, with one exception: a disk that is full for ever is still full
 * when a recovery first opens the database.
 *
 *   fault in creation                        trace ─► crash ─► open, which finishes the creation
 *   fault in the workload                    trace ─► crash ─► recovery, judged
 *   trace ─► crash ─► fault in its recovery  trace ─► crash ─► recovery, judged
 *
 * O8 judges the run with the fault: was the error reported, and was nothing promised after it? A
 * failed write or sync of the log, the page file, the control file or the double-write area must
 * poison the handle (LOG-4). A lack of memory, space or file handles must not poison the handle,
 * and must not keep a transaction from rolling back (REC-3). There is one exception: a rollback
 * that cannot open an older log segment may fail and poison the handle. All other oracles judge the
 * recovered database. What the calls had acknowledged (the promises) decides what the database must
 * contain (the claims).
 *
 * Which states. Most faults change little of what the run does. It is therefore enough to crash at
 * the fault, at later points where the claims have changed, and at the end. At each of these points
 * three sorts of states are tried:
 *
 *   - The power fails, and no pending operation has arrived.
 *   - The process dies, so all pending operations have arrived.
 *   - The power fails, and a random part of the pending operations has arrived.
 *
 * After the fault SYNC_LOST, the kernel's cache contains data that it will never write. If the
 * process then dies, the power fails after the recovery. This shows whether recovery has trusted
 * the cache (REC-4).
 *
 * Which recoveries. A recovery is described by a set of features: phases, paths of redo and undo,
 * kinds of device calls on kinds of files. A greedy algorithm chooses bounds.points crashes, so
 * that their recoveries together have as many features as possible (features.c).
 *
 * Lies. If a sync has returned 0 and lost everything, the library cannot know what is missing.
 * After a loss of power it is enough that recovery ends, releases its memory and files, and writes
 * no page before its log. After the death of the process nothing is lost, so the usual claims hold.
 *
 * A row of choices begins with three values: 1 + kind; n; 2 * stage + (1 if the fault lasts for
 * ever). If the fault is in recovery, the crash before this recovery follows. The other crashes
 * come last, as in replay.c.
 */
#include "sim/errors.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- O8 ---------------------------------------------------------------------------------- */

/* What a run with a fault has returned. */
struct outcome {
    int opened, ran, closed; /* return codes of open, workload and close */
    bool poisoned;           /* the handle was poisoned before it was closed */
    struct lladd_error why;
};

static int object_error(struct ll_sim_verdict *v, const struct ll_sim_faults *f, const char *what)
{
    return ll_sim_object(v, LLADD_SIM_O_ERRORS, "%s (%s): %s", lladd_sim_fault_name(f->kind),
                         f->for_ever ? "for ever" : "once", what);
}

/* Returns a transaction for which the last call has failed; NULL: none. An answer, such as "not
 * found", is no failure. */
static const struct ll_sim_txn *unheeded(const struct ll_sim_record *r)
{
    for (uint32_t i = 0; i < r->n_txns; i++)
        if (r->txn[i]->failed && lladd_code_root(r->txn[i]->failed) != LLADD_ROOT_ANSWER)
            return r->txn[i];
    return NULL;
}

static void look_at_promises(const struct ll_sim_faults *f, const struct outcome *o,
                             struct ll_sim_verdict *v)
{
    const struct ll_sim_record *r = &f->sim->record;
    const struct ll_sim_txn *t = unheeded(r);
    char text[200];
    if (f->again != LL_SIM_NONE) {
        (void)snprintf(text, sizeof text, "the sync of %s failed and was repeated",
                       f->sim->names.at[f->again].text);
        (void)object_error(v, f, text);
    }
    if (r->late_acks)
        (void)object_error(v, f, "durability was promised after a call had returned poison");
    if (r->misuse)
        (void)object_error(v, f, "the workload then used a transaction that had ended");
    if (f->grave && r->acks > f->acks)
        (void)object_error(v, f, "durability was promised after the fault");
    if (o->ran == 0 && o->opened == 0 && t) {
        (void)snprintf(text, sizeof text,
                       "the workload returned 0 although the %s of transaction %u had returned %s",
                       t->call, t->number, lladd_code_name(t->failed));
        (void)object_error(v, f, text);
    }
}

static void look_at_poison(const struct ll_sim_faults *f, const struct outcome *o,
                           struct ll_sim_verdict *v)
{
    char text[300];
    bool want = ll_sim_fault_flags(f->kind) & LL_SIM_FAULT_RESOURCE;
    /* A rollback may have to open a log segment to read it. If opening the segment fails, the
     * rollback fails as after a failed read, and the next open of the database rolls back again
     * (docs/durability.md). */
    if (f->kind == LLADD_SIM_FAULT_FILES && o->poisoned && o->why.code == LLADD_UNDO_FAILED)
        return;
    if (f->grave && f->graved != LL_SIM_CLOSING && o->opened == 0 && !o->poisoned)
        (void)object_error(v, f, "the handle is not poisoned (LOG-4)");
    if (f->grave && f->graved == LL_SIM_CLOSING && o->closed == 0)
        (void)object_error(v, f, "lladd_close returned 0 (LOG-4)");
    if (want && o->poisoned) {
        (void)snprintf(text, sizeof text, "the fault has poisoned the handle: %s: %.200s",
                       lladd_code_name(o->why.code), o->why.message);
        (void)object_error(v, f, text);
    }
    if (want && f->sim->record.abort_failed) {
        (void)snprintf(text, sizeof text, "an abort returned %s (REC-3)",
                       lladd_code_name(f->sim->record.abort_failed));
        (void)object_error(v, f, text);
    }
    if (f->kind == LLADD_SIM_FAULT_SPACE && o->opened == 0 && o->closed) {
        (void)snprintf(text, sizeof text, "lladd_close returned %s (REC-3)",
                       lladd_code_name(o->closed));
        (void)object_error(v, f, text);
    }
}

/* Judges the run, but not the files that it has left. The recoveries judge the files. */
static void look_at_run(struct ll_sim_faults *f, const struct outcome *o, struct ll_sim_verdict *v)
{
    struct lladd_sim *sim = f->sim;
    const struct ll_sim_run *run = sim->running;
    ll_sim_object_seen(sim, v);
    look_at_promises(f, o, v);
    look_at_poison(f, o, v);
    ll_sim_object_ends(sim, run, v);
}

static void count_run(struct ll_sim_faults *f, const struct outcome *o, bool recovery)
{
    struct lladd_sim_errors_report *r = f->report;
    if (!r)
        return;
    struct lladd_sim_fault_counts *c = &r->faults[f->kind];
    if (!f->fired) {
        c->chances += f->for_ever ? 0 : f->seen;
        return;
    }
    r->runs++;
    c->once += !f->for_ever;
    c->for_ever += f->for_ever;
    c->recovery += recovery;
    c->close += !recovery && f->hit == LL_SIM_CLOSING;
    bool returned = o->opened || o->ran || o->closed || f->sim->record.errors;
    c->returned += returned;
    c->absorbed += !returned;
    c->poisoned += o->poisoned;
}

/* ---- the workload, or creation, with a fault --------------------------------------------- */

/* Runs from open to close. In creation, the database is closed without a workload, and the only
 * promise is that the next open succeeds. */
static int faulty_life(struct ll_sim_faults *f, struct ll_sim_verdict *v)
{
    struct lladd_sim *sim = f->sim;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct outcome o = {0};
    struct lladd_db *db;
    bool creation = f->stage == LL_SIM_CREATION;
    int rc = ll_sim_record_begin(sim);
    if (!rc && creation)
        rc = ll_sim_run_init(sim, &sim->workload, &sim->level[0].runs, 0, NULL, NULL);
    if (rc)
        return rc;
    ll_sim_arm(f);
    o.opened = ll_sim_open(sim, &sim->workload, &db, &err);
    if (o.opened == 0) {
        f->phase = LL_SIM_RUNNING;
        o.ran = creation ? 0 : ll_sim_subject_run(sim, db, &err);
        o.poisoned = lladd_db_error(db, &o.why) != 0;
        f->phase = LL_SIM_CLOSING;
        o.closed = lladd_close(db);
    }
    ll_sim_disarm(f);
    if (sim->workload.failed)
        return sim->workload.failed;
    *v = (struct ll_sim_verdict){.code = creation ? o.opened : o.ran};
    look_at_run(f, &o, v);
    count_run(f, &o, false);
    return ll_sim_expect(sim);
}

/* ---- rows of crashes ---------------------------------------------------------------------- */

/* A row of runs, including the run with the fault, and the claims that follow from them. */
struct row {
    struct ll_sim_run runs[LLADD_SIM_DEPTH_MAX + 1];
    struct ll_sim_world worlds[LLADD_SIM_DEPTH_MAX + 1];
    struct ll_sim_units units[LLADD_SIM_DEPTH_MAX + 1];
    struct ll_sim_claims claims;
    struct ll_sim_run *last; /* the run that crashes next */
    uint32_t settled;        /* after this many calls the last run's result is final;
                              * LL_SIM_NONE: never */
    uint32_t level;          /* the level of the next crash */
};

/* ---- crashes of creation ------------------------------------------------------------------- */

/* The next open must finish the creation or find the database, and the database must work. */
static int judge_creation(struct ll_sim_faults *f, struct row *r, struct ll_sim_verdict *v)
{
    struct lladd_sim *sim = f->sim;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_db *db;
    *v = (struct ll_sim_verdict){0};
    int rc = v->code = ll_sim_open(sim, r->last, &db, &err);
    r->settled = LL_SIM_NONE;
    if (r->last->failed)
        return r->last->failed;
    if (rc) {
        (void)ll_sim_object(v, LLADD_SIM_O_OPEN, "creation cannot be finished: %s: %s",
                            lladd_code_name(rc), err.message);
    } else {
        rc = ll_sim_go_on(db, &err);
        r->last->undecided = 0;
        int closed = lladd_close(db);
        if (rc || closed)
            (void)ll_sim_object(v, LLADD_SIM_O_PROGRESS, "a created database does not work: %s",
                                lladd_code_name(rc ? rc : closed));
    }
    ll_sim_object_seen(sim, v);
    ll_sim_object_ends(sim, r->last, v);
    return r->last->failed;
}

/* ---- a recovery, with a fault ------------------------------------------------------------ */

/* Does the row contain another crash? The value 0 ends the row. */
static bool more_crashes(const struct ll_sim_choices *c)
{
    return c->pos < c->count && c->at[c->pos].value > 0;
}

/* Makes the next crash of the row. */
static int next_crash(struct lladd_sim *sim, struct row *r)
{
    uint32_t crash = ll_sim_choose(sim, LL_SIM_C_CRASH, r->last->n_calls + 2, 0, 1);
    uint32_t level = r->level, calls = crash - 1;
    struct ll_sim_run *before = r->last;
    int rc = ll_sim_replay_crash(sim, before, calls, &r->worlds[level], &r->units[level],
                                 &r->runs[level], level);
    ll_sim_claims_at(sim, before, level, calls, r->settled, &r->claims);
    r->last = &r->runs[level];
    r->settled = LL_SIM_NONE;
    r->level++;
    return rc;
}

/* Adds to the claims whether the last run began after a loss of power. */
static void pass(struct row *r)
{
    r->claims.power |= !r->last->kill;
}

/* The workload succeeds and crashes, and the fault happens in the recovery. */
static int faulty_recovery(struct ll_sim_faults *f, struct row *r, struct ll_sim_verdict *v)
{
    struct lladd_sim *sim = f->sim;
    struct outcome o = {0};
    struct lladd_db *db;
    int rc = next_crash(sim, r);
    if (rc)
        return rc;
    struct ll_sim_run *run = r->last;
    struct ll_sim_claim claim = ll_sim_claim_of(&r->claims, run->kill);
    sim->record.errors = 0;
    ll_sim_arm(f);
    o.opened = ll_sim_open(sim, run, &db, &o.why);
    ll_sim_disarm(f);
    if (run->failed)
        return run->failed;
    *v = (struct ll_sim_verdict){.code = o.opened};
    if (o.opened == 0)
        o.poisoned = lladd_db_error(db, &o.why) != 0;
    if (f->sim->history)
        ll_sim_tell(sim, "  lladd_open returned %s%s%s", o.opened ? lladd_code_name(o.opened) : "0",
                    o.opened ? ": " : "", o.opened ? o.why.message : "");
    count_run(f, &o, true);
    if (ll_sim_fault_flags(f->kind) & LL_SIM_FAULT_RESOURCE && o.opened &&
        o.opened != LLADD_UNDO_FAILED && lladd_code_root(o.opened) != LLADD_ROOT_RESOURCE) {
        (void)object_error(v, f, "lladd_open returned an error that is no resource error: ");
        size_t len = strlen(v->message);
        (void)snprintf(v->message + len, sizeof v->message - len, "%s: %.200s",
                       lladd_code_name(o.opened), o.why.message);
    }
    if (o.opened || o.poisoned) {
        if (o.opened == 0)
            lladd_db_kill(db);
        look_at_run(f, &o, v);
        pass(r);
        return 0;
    }
    look_at_promises(f, &o, v);
    look_at_poison(f, &o, v);
    uint32_t calls = run->n_calls;
    bool ending, lost = ll_sim_fault_flags(f->kind) & LL_SIM_FAULT_LIE && !run->kill;
    struct ll_sim_verdict found = {0};
    rc = ll_sim_judge_open(sim, run, db, &claim, &found, &ending);
    if (!v->oracle && !lost)
        *v = found;
    run->shown = found.k;
    r->settled = calls;
    pass(r);
    return rc;
}

/* ---- crashes after the fault -------------------------------------------------------------- */

/* May the violation be a consequence of a sync that lied, which the library cannot notice? */
static bool excusable(const struct ll_sim_faults *f, const struct row *r,
                      const struct ll_sim_verdict *v)
{
    bool lie =
        ll_sim_fault_flags(f->kind) & LL_SIM_FAULT_LIE && (r->claims.power || !r->last->kill);
    return lie && v->oracle != LLADD_SIM_O_MEMORY && v->oracle != LLADD_SIM_O_LOOP &&
           v->oracle != LLADD_SIM_O_WAL;
}

/* Recovers while the disk is still full. Recovery must succeed, or fail with a resource error. If
 * it fails, the next recovery, with space, must succeed. */
static int judge_on_full_disk(struct ll_sim_faults *f, struct row *r,
                              const struct ll_sim_claim *claim, struct ll_sim_verdict *v)
{
    struct lladd_sim *sim = f->sim;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_db *db;
    bool ending;
    uint32_t at = f->at, fired = f->fired, calls = f->calls;
    f->at = 1;
    ll_sim_arm(f);
    int rc = ll_sim_open(sim, r->last, &db, &err);
    ll_sim_disarm(f);
    f->at = at;
    f->fired = fired;
    f->calls = calls;
    if (r->last->failed)
        return r->last->failed;
    if (rc && lladd_code_root(rc) == LLADD_ROOT_RESOURCE) {
        if (f->report)
            f->report->full_refused++;
        ll_sim_tell(sim, "  refused on a full disk: %s", err.message);
        rc = ll_sim_open(sim, r->last, &db, &err);
    }
    r->settled = r->last->n_calls;
    if (rc == 0)
        return ll_sim_judge_open(sim, r->last, db, claim, v, &ending);
    *v = (struct ll_sim_verdict){.k = claim->lo, .code = rc};
    return ll_sim_object(v, LLADD_SIM_O_OPEN, "on a full disk: %s: %s", lladd_code_name(rc),
                         err.message);
}

static int judge(struct ll_sim_faults *f, struct row *r, struct ll_sim_verdict *v)
{
    struct lladd_sim *sim = f->sim;
    struct ll_sim_run *run = r->last;
    /* If a sync has put the old bytes back into the cache, data are lost even if only the process
     * dies. */
    struct ll_sim_claims claims = r->claims;
    claims.power |= f->kind == LLADD_SIM_FAULT_SYNC_REVERTED;
    struct ll_sim_claim claim = ll_sim_claim_of(&claims, run->kill);
    bool ending;
    int rc;
    if (f->stage == LL_SIM_CREATION)
        rc = judge_creation(f, r, v);
    else if (f->kind == LLADD_SIM_FAULT_SPACE && f->for_ever)
        rc = judge_on_full_disk(f, r, &claim, v);
    else
        rc = ll_sim_judge(sim, run, &claim, v, &r->settled, &ending);
    if (f->report)
        f->report->states++;
    run->shown = v->k;
    if (v->oracle && excusable(f, r, v)) {
        v->oracle = LLADD_SIM_O_NONE;
        r->settled = LL_SIM_NONE;
    }
    if (v->oracle)
        ll_sim_tell(sim, "%s objects: %s", lladd_sim_oracle_name(v->oracle), v->message);
    pass(r);
    return rc;
}

/* Makes crashes until the row of choices ends. */
static int follow(struct ll_sim_faults *f, struct row *r, struct ll_sim_verdict *v)
{
    struct ll_sim_choices *c = &f->sim->choices;
    int rc = 0;
    while (!rc && !v->oracle && more_crashes(c) && r->level <= LLADD_SIM_DEPTH_MAX) {
        rc = next_crash(f->sim, r);
        if (!rc)
            rc = judge(f, r, v);
    }
    return rc;
}

/* ---- replaying --------------------------------------------------------------------------- */

static void begin_row(struct lladd_sim *sim, struct row *r)
{
    r->claims = (struct ll_sim_claims){0};
    r->last = &sim->workload;
    r->settled = sim->workload.n_calls;
    r->level = 1;
}

/* Records the workload again, without a fault. */
static int go_back(struct lladd_sim *sim)
{
    int failed = 0;
    struct lladd_sink *history = sim->history;
    sim->history = NULL;
    int rc = ll_sim_record_again(sim, &failed);
    sim->history = history;
    return rc ? rc : failed;
}

static int faulty_run(struct ll_sim_faults *f, struct row *r, struct ll_sim_verdict *v)
{
    struct lladd_sim *sim = f->sim;
    *v = (struct ll_sim_verdict){0};
    if (f->stage == LL_SIM_RECOVERY) {
        if (!more_crashes(&sim->choices))
            return 0; /* without a crash there is no recovery */
        begin_row(sim, r);
        if (sim->history)
            ll_sim_tell_workload(sim, sim->choices.at[sim->choices.pos].value - 1);
        return faulty_recovery(f, r, v);
    }
    struct lladd_sink *history = sim->history;
    sim->history = NULL; /* the history is written later, from the record */
    const bool lost = f->stage != LL_SIM_CREATION &&
                      (ll_sim_fault_flags(f->kind) & LL_SIM_FAULT_DISK) != 0;
    int rc = lost ? ll_sim_lose_write(f, v) : faulty_life(f, v);
    sim->history = history;
    begin_row(sim, r);
    if (!rc && history)
        ll_sim_tell_workload(sim, sim->workload.n_calls);
    return rc;
}

int ll_sim_errors_replay(struct lladd_sim *sim, const struct ll_sim_vector *vector,
                         struct ll_sim_verdict *v, uint32_t *depth)
{
    struct row r;
    int rc = sim->faults ? 0 : ll_sim_faults_new(sim);
    if (!rc)
        rc = go_back(sim);
    if (!rc)
        rc = ll_sim_take_row(sim, vector);
    if (rc)
        return rc;
    struct ll_sim_faults *f = sim->faults;
    uint32_t kind = ll_sim_choose(sim, LL_SIM_C_FAULT, LLADD_SIM_FAULTS + 1, 0, 1);
    f->at = ll_sim_choose(sim, LL_SIM_C_FAULT, UINT32_MAX, 0, 1);
    uint32_t how = ll_sim_choose(sim, LL_SIM_C_FAULT, 2 * LL_SIM_STAGES, 0, 1);
    *v = (struct ll_sim_verdict){0};
    *depth = 0;
    if (kind == 0)
        return 0;
    f->kind = (enum lladd_sim_fault)(kind - 1);
    f->for_ever = how & 1;
    f->stage = (enum ll_sim_stage)(how >> 1);
    struct lladd_sim_errors_report *report = f->report;
    f->report = NULL;
    ll_sim_tell(sim, "The fault hits call %u of its kind%s: %s.", f->at,
                f->for_ever ? ", and all later" : "", ll_sim_fault_what(f->kind));
    ll_sim_set_free(&sim->endings); /* empties the set, so that all oracles run */
    rc = faulty_run(f, &r, v);
    if (v->oracle)
        ll_sim_tell(sim, "%s objects: %s", lladd_sim_oracle_name(v->oracle), v->message);
    ll_sim_set_free(&sim->endings);
    if (!rc)
        rc = follow(f, &r, v);
    if (!rc && !v->oracle)
        ll_sim_tell(sim, "  The result is right.");
    *depth = r.level - 1;
    f->report = report;
    return rc;
}

/* ---- enumerating ------------------------------------------------------------------------- */

static int found(struct ll_sim_faults *f, const struct ll_sim_verdict *v, uint32_t depth)
{
    struct ll_sim_vector vector;
    ll_sim_vector_of(f->sim, &vector);
    vector.recording = f->recording;
    return ll_sim_fail(f->sim, v, depth, &vector);
}

static void look_at_bounds(struct lladd_sim *sim, const struct ll_sim_faults *f)
{
    const struct lladd_sim_bounds *b = &sim->bounds;
    const struct lladd_sim_errors_report *r = f->report;
    bool done = b->states && (r->states >= b->states || r->runs / LL_SIM_IN_VAIN >= b->states);
    done |= b->milliseconds && ll_sim_now() - sim->started >= b->milliseconds * 1000000;
    if (done || sim->report->n_failures >= b->failures)
        sim->stop = sim->cut = true;
}

/* Tries one crash. If the process dies after SYNC_LOST, the power fails after the recovery. */
static int one_state(struct ll_sim_faults *f, const struct row *from, uint32_t calls, bool kill,
                     uint64_t draw)
{
    struct lladd_sim *sim = f->sim;
    struct ll_sim_verdict v = {0};
    struct row r = *from;
    uint32_t base = sim->choices.count;
    int rc = ll_sim_choice_push(sim, LL_SIM_C_CRASH, calls + 1);
    if (!rc)
        rc = ll_sim_choice_push(sim, LL_SIM_C_MODE, kill);
    sim->choices.pos = base;
    sim->choices.mode = draw ? LL_SIM_DRAW : LL_SIM_TAKE;
    sim->choices.drawn = draw;
    sim->choices.plain = 2; /* at least half of the answers are 0 */
    if (!rc)
        rc = follow(f, &r, &v);
    sim->choices.mode = LL_SIM_TAKE;
    bool lost = f->kind == LLADD_SIM_FAULT_SYNC_LOST && kill && r.settled != LL_SIM_NONE;
    if (!rc && !v.oracle && lost && !(sim->bounds.flags & LLADD_SIM_NO_POWER)) {
        uint32_t here = sim->choices.count;
        rc = ll_sim_choice_push(sim, LL_SIM_C_CRASH, r.settled + 1);
        if (!rc)
            rc = ll_sim_choice_push(sim, LL_SIM_C_MODE, 0);
        sim->choices.pos = here;
        if (!rc)
            rc = follow(f, &r, &v);
    }
    if (!rc && v.oracle)
        rc = found(f, &v, r.level - 1);
    sim->choices.count = base;
    look_at_bounds(sim, f);
    return rc;
}

static int states_of(struct ll_sim_faults *f, const struct row *r, uint32_t calls, uint64_t hash)
{
    struct lladd_sim *sim = f->sim;
    int rc = 0;
    if (!(sim->bounds.flags & LLADD_SIM_NO_KILL))
        rc = one_state(f, r, calls, true, 0);
    if (rc || sim->stop || sim->bounds.flags & LLADD_SIM_NO_POWER)
        return rc;
    rc = one_state(f, r, calls, false, 0);
    for (uint32_t i = 0; !rc && !sim->stop && i < sim->bounds.samples; i++)
        rc = one_state(f, r, calls, false, ll_sim_mix(sim->bounds.seed + i, hash) | 1);
    return rc;
}

/* Crashes at the fault, at later points where the claims have changed, and at the end. */
static int crash_everywhere(struct ll_sim_faults *f, const struct row *r)
{
    struct lladd_sim *sim = f->sim;
    struct ll_sim_arena *a = &sim->level[LLADD_SIM_DEPTH_MAX + 1].worlds;
    struct ll_sim_claims claims = r->claims;
    const struct ll_sim_run *run = r->last;
    struct ll_sim_world world = {0};
    uint32_t strict = UINT32_MAX;
    /* Excludes calls that the oracles have made on the recovered database. */
    uint32_t end = r->settled < run->n_calls ? r->settled : run->n_calls;
    ll_sim_rewind(a);
    int rc = ll_sim_run_world(r->last, a, &world);
    for (uint32_t c = 0; !rc && !sim->stop && c <= end; c++) {
        if (c > 0)
            rc = ll_sim_step(sim, a, &world, &run->trace[c - 1], c - 1);
        if (rc || c < f->calls)
            continue;
        ll_sim_claims_at(sim, run, r->level, c, r->settled, &claims);
        uint32_t now = claims.lo_power + claims.lo_kill + claims.again;
        bool matters = c == f->calls || c == end || now != strict;
        strict = now;
        if (!matters)
            continue;
        uint64_t hash = ll_sim_mix(ll_sim_world_hash(sim, &world), r->level * 2 + claims.again);
        hash = ll_sim_mix(hash, (uint64_t)claims.lo_power << 32 | claims.hi);
        hash = ll_sim_mix(hash, (uint64_t)claims.lo_kill << 1 | claims.power);
        /* Two runs may expect different contents after the same number of decisions. */
        for (uint32_t k = claims.lo_power; k <= claims.hi && sim->subject.model_size; k++)
            hash = ll_sim_mix(hash, ll_sim_hash(sim->expected[k].dump, sim->expected[k].dump_len));
        bool full = f->kind == LLADD_SIM_FAULT_SPACE && f->for_ever;
        bool created = f->stage == LL_SIM_CREATION;
        bool twice = f->kind == LLADD_SIM_FAULT_SYNC_LOST;
        bool lie = ll_sim_fault_flags(f->kind) & LL_SIM_FAULT_LIE;
        int seen = ll_sim_set_put(&sim->seen,
                                  ll_sim_mix(hash, full + 2u * twice + 4u * lie + 8u * created));
        if (seen)
            rc = seen < 0 ? seen : 0;
        else
            rc = states_of(f, r, c, hash);
    }
    return rc;
}

/* Tries one fault in one run. If the fault is in a recovery, `point` is the crash before it, else
 * NULL. */
static int one_fault(struct ll_sim_faults *f, const struct ll_sim_point *point)
{
    struct lladd_sim *sim = f->sim;
    struct ll_sim_verdict v;
    struct row r;
    sim->choices.count = 0;
    int rc = ll_sim_choice_push(sim, LL_SIM_C_FAULT, (uint32_t)f->kind + 1);
    if (!rc)
        rc = ll_sim_choice_push(sim, LL_SIM_C_FAULT, f->at);
    if (!rc)
        rc = ll_sim_choice_push(sim, LL_SIM_C_FAULT, (uint32_t)f->stage * 2 + f->for_ever);
    if (!rc && point)
        rc = ll_sim_choice_push(sim, LL_SIM_C_CRASH, point->calls + 1);
    if (!rc && point)
        rc = ll_sim_choice_push(sim, LL_SIM_C_MODE, point->kill);
    sim->choices.pos = LL_SIM_ERRORS_HEAD;
    sim->choices.mode = LL_SIM_TAKE;
    if (!rc)
        rc = faulty_run(f, &r, &v);
    if (!rc && v.oracle)
        rc = found(f, &v, f->stage == LL_SIM_RECOVERY);
    else if (!rc && f->fired && !(ll_sim_fault_flags(f->kind) & LL_SIM_FAULT_DISK))
        rc = crash_everywhere(f, &r);
    look_at_bounds(sim, f);
    return rc;
}

/* Tries n = 1, 1 + bounds.every, 1 + 2 * bounds.every and so on, until the fault hits no call. */
static int every_n(struct ll_sim_faults *f, const struct ll_sim_point *point)
{
    int rc = 0;
    f->at = 1;
    do {
        rc = one_fault(f, point);
        f->at += f->sim->bounds.every;
    } while (!rc && f->fired && !f->sim->stop);
    return rc;
}

static int every_kind(struct ll_sim_faults *f, enum ll_sim_stage stage,
                      const struct ll_sim_point *point)
{
    int rc = 0;
    f->stage = stage;
    for (unsigned k = 0; !rc && k < LLADD_SIM_FAULTS; k++) {
        f->kind = (enum lladd_sim_fault)k;
        if (stage != LL_SIM_WORKLOAD && ll_sim_fault_flags(f->kind) & LL_SIM_FAULT_DISK)
            continue;
        for (unsigned ever = 0; !rc && !f->sim->stop && ever < 2; ever++) {
            f->for_ever = ever;
            if (ever == 0 || !(ll_sim_fault_flags(f->kind) & LL_SIM_FAULT_ONCE))
                rc = every_n(f, point);
        }
    }
    return rc;
}

/* ---- choosing recoveries ----------------------------------------------------------------- */

static void gather(void *ctx, const struct lladd_dst_event *e)
{
    struct lladd_sim *sim = ctx;
    ll_sim_feature_put(sim->faults->features,
                       ((unsigned)e->what * 11u + (unsigned)e->detail) % 128);
    ll_sim_observe(ctx, e);
}

/* Collects the features of the recovery from a crash. */
static int features_of(struct ll_sim_faults *f, struct ll_sim_point *p)
{
    struct lladd_sim *sim = f->sim;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_db *db;
    struct row r;
    sim->choices.count = 0;
    int rc = ll_sim_choice_push(sim, LL_SIM_C_CRASH, p->calls + 1);
    if (!rc)
        rc = ll_sim_choice_push(sim, LL_SIM_C_MODE, p->kill);
    sim->choices.pos = 0;
    sim->choices.mode = LL_SIM_TAKE;
    begin_row(sim, &r);
    if (!rc)
        rc = next_crash(sim, &r);
    if (rc)
        return rc;
    memset(f->features, 0, sizeof f->features);
    f->gathering = true;
    sim->dst.observe = gather;
    if (ll_sim_open(sim, r.last, &db, &err) == 0) /* lladd_sim_explore reports a failure to open */
        lladd_db_kill(db);
    sim->dst.observe = ll_sim_observe;
    f->gathering = false;
    memcpy(p->features, f->features, sizeof p->features);
    return r.last->failed;
}

static int choose_points(struct ll_sim_faults *f, struct ll_sim_point *out, uint32_t *n)
{
    struct lladd_sim *sim = f->sim;
    uint32_t calls = sim->workload.n_calls, all = 0;
    struct ll_sim_point *p = calloc(2 * (calls + 1), sizeof *p);
    int rc = p ? 0 : LLADD_NO_MEMORY;
    for (uint32_t c = 0; !rc && !sim->stop && c <= calls; c++)
        for (unsigned kill = 0; !rc && kill < 2; kill++) {
            if (sim->bounds.flags & (kill ? LLADD_SIM_NO_KILL : LLADD_SIM_NO_POWER))
                continue;
            p[all] = (struct ll_sim_point){.calls = c, .kill = kill};
            rc = features_of(f, &p[all++]);
            look_at_bounds(sim, f);
        }
    *n = rc ? 0 : ll_sim_features_cover(p, all, out, sim->bounds.points);
    free(p);
    return rc;
}

/* ---- entry points ------------------------------------------------------------------------ */

static int look_for_holes(struct ll_sim_faults *f)
{
    struct lladd_sim *sim = f->sim;
    int rc = 0;
    for (unsigned k = 0; !rc && k < LLADD_SIM_FAULTS; k++) {
        struct lladd_sim_fault_counts *c = &f->report->faults[k];
        struct ll_sim_verdict v = {0};
        c->hole = c->chances > 0 && c->once + c->for_ever == 0;
        if (!c->hole || sim->cut || sim->bounds.flags & LLADD_SIM_NO_COVERAGE)
            continue;
        (void)ll_sim_object(&v, LLADD_SIM_O_COVERAGE,
                            "fault \"%s\" was possible, but never happened",
                            lladd_sim_fault_name((enum lladd_sim_fault)k));
        rc = ll_sim_fail(sim, &v, 0, NULL);
    }
    return rc;
}

static int errors_all(struct lladd_sim *sim, struct lladd_sim_errors_report *report,
                      struct lladd_error *err)
{
    struct lladd_error own;
    uint32_t points = 0;
    int rc = ll_sim_record_first(sim, &own, err);
    if (rc)
        return ll_sim_workload_failed(sim, rc, &own);
    struct ll_sim_point *point = calloc(sim->bounds.points, sizeof *point);
    rc = point ? ll_sim_faults_new(sim) : LLADD_NO_MEMORY;
    if (rc) {
        free(point);
        return lladd_error_set(err, rc, "no memory for the simulator");
    }
    struct ll_sim_faults *f = sim->faults;
    f->report = report;
    f->recording = sim->record.hash & 0xffffff;
    rc = choose_points(f, point, &points);
    report->points = points;
    for (uint32_t i = 0; !rc && !sim->stop && i < points; i++)
        rc = every_kind(f, LL_SIM_RECOVERY, &point[i]);
    if (!rc && !sim->stop)
        rc = every_kind(f, LL_SIM_WORKLOAD, NULL);
    if (!rc && !sim->stop)
        rc = every_kind(f, LL_SIM_CREATION, NULL);
    free(point);
    if (!rc)
        rc = look_for_holes(f);
    f->report = NULL;
    if (!rc)
        rc = ll_sim_give_tokens(sim);
    if (rc)
        return lladd_error_set(err, rc, "errors in subject \"%s\": %s", sim->subject.name,
                               lladd_code_text(rc));
    return 0;
}

static void hand_over(struct lladd_sim *sim, struct lladd_sim_errors_report *r)
{
    r->struct_size = sizeof *r;
    memcpy(r->subject, sim->report->subject, sizeof r->subject);
    r->seed = sim->bounds.seed;
    r->complete = !sim->cut;
    r->n_failures = sim->report->n_failures;
    r->failures = sim->failures;
    r->nanoseconds = ll_sim_now() - sim->started;
    sim->failures = NULL;
}

int lladd_sim_errors(const struct lladd_sim_subject *subject, const struct lladd_sim_bounds *bounds,
                     struct lladd_sim_errors_report **out, struct lladd_error *err)
{
    struct lladd_sim *sim;
    *out = NULL;
    struct lladd_sim_errors_report *report = calloc(1, sizeof *report);
    if (!report)
        return lladd_error_set(err, LLADD_NO_MEMORY, "no memory for the simulator");
    int rc = ll_sim_new(subject, bounds, &sim, err);
    if (rc) {
        free(report);
        return rc;
    }
    struct lladd_dst *before = lladd_dst_enter(&sim->dst);
    rc = errors_all(sim, report, err);
    (void)lladd_dst_enter(before);
    if (rc) {
        free(report);
    } else {
        hand_over(sim, report);
        *out = report;
    }
    ll_sim_free(sim);
    return rc;
}

void lladd_sim_errors_free(struct lladd_sim_errors_report *r)
{
    if (!r)
        return;
    free((void *)(uintptr_t)r->failures);
    free(r);
}
