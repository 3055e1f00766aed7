/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * interleave: explores schedules of a workload's threads, and the crashes in each schedule.
 *
 * The threads of a workload run as fibers (lladd/dst.h). Whenever a fiber locks, waits, wakes
 * another fiber or calls the device, a policy (schedule.h) answers which fiber runs next. The
 * answers form the *schedule*: runs with the same schedule are equal. The first schedule has only
 * ordinary answers, hence no preemption.
 *
 *     schedule ─► run ─► trace and record ─► all crashes (explore.c)
 *
 * Where crashes are needed. Between two calls of the device the disk does not change, so a crash at
 * any point between them leaves what a crash directly after the first call leaves. Between the
 * calls, promises may be made. explore.c uses the claim after the last of these promises, which is
 * the strictest. A call is an atomic step with a scheduling point before and after it. Something
 * that another thread could do during the call happens before or after the call in another
 * schedule.
 *
 * What is skipped. If a run has the same trace and promises as an earlier run, it has the same
 * crashes, and they are not explored again. All schedules share one set of the crash states seen. A
 * state is the disk and the contents that recovery must find. Decisions are compared by their
 * effects (`expect` in record.c), because their numbers differ between schedules.
 *
 * The schedule begins when all threads have started, and ends when the last thread has ended.
 * Before and after, only one thread works, and the library's own threads are idle. The thread that
 * waits for the workload's threads has no turns in the schedule.
 *
 * With random schedules the threads have priorities (PCT), and accesses to shared words are
 * scheduling points as well.
 *
 * A row of choices (choice.c) begins with 2 + n, where n is the number of answers that are not
 * ordinary. Two values follow for each of them: the number of ordinary answers since the previous
 * one, and the answer. A random schedule with more than ANSWERS_TOLD such answers is stored as
 * three values instead: 1, 1 + its number, the bound. The crashes follow, as in replay.c.
 */
#include "sim/schedule.h"
#include "sim/sim_private.h"

#include <lladd/sync.h>

#include <stdlib.h>

enum { ANSWERS_MAX = 100, ANSWERS_TOLD = 12, STEPS_MAX = 1000000 };

struct answer {
    uint32_t turn, value;
};

enum how { ORDINARY, BOUNDED, RANDOM, GIVEN };

struct thread {
    struct ll_sim_crossing *crossing;
    struct lladd_db *db;
    struct lladd_thread thread;
    unsigned number;
    int rc;
    struct lladd_error err;
};

struct ll_sim_crossing {
    struct lladd_sim *sim;
    struct lladd_dst_fibers *fibers;
    struct ll_schedule policy;
    struct ll_all_choices all;
    struct ll_seeded_choices seeded;
    uint32_t number;    /* number of the random schedule, from 0 */
    uint32_t bound;     /* the highest number of preemptions */
    uint32_t length;    /* number of turns of the ordinary schedule */
    uint32_t recording; /* the low bits of the hash of the run in the ordinary schedule */
    struct ll_sim_set recordings;
    enum how how;
    struct answer given[ANSWERS_MAX]; /* for GIVEN */
    uint32_t n_given;
    /* Of the current run: */
    struct answer answer[ANSWERS_MAX]; /* answers that are not the ordinary one */
    uint32_t n_answers;                /* includes answers for which the array had no room */
    uint32_t turns;
    bool open; /* the threads are running */
    uint32_t left, ended;
    struct thread thread[LLADD_SIM_THREADS_MAX];
    uint64_t fiber[LLADD_SIM_THREADS_MAX]; /* lladd_thread_self of each fiber; 0: not started */
    uint64_t last;                         /* the thread that the history named last */
    int rc;
    struct lladd_error err;
};

/* ---- schedules --------------------------------------------------------------------------- */

static unsigned given(const struct ll_sim_crossing *x, uint32_t turn, unsigned n)
{
    for (uint32_t i = 0; i < x->n_given; i++)
        if (x->given[i].turn == turn)
            return x->given[i].value < n ? x->given[i].value : 0;
    return 0;
}

/* For lladd_dst_schedule. Fiber 0 is the thread that waits for the others. */
static unsigned turn(void *ctx, const struct lladd_dst_turn *t)
{
    struct ll_sim_crossing *x = ctx;
    uint32_t at = x->turns++;
    bool mine = x->open && !(t->current && t->fibers[0] == 0);
    unsigned i = 0;
    if (x->how == GIVEN)
        i = given(x, at, t->n);
    else if (x->how != ORDINARY && mine)
        i = ll_schedule_turn(&x->policy, t);
    if (i > 0 && i < t->n) {
        if (x->n_answers < ANSWERS_MAX)
            x->answer[x->n_answers] = (struct answer){at, i};
        x->n_answers++;
    }
    return i;
}

/* `bound` is the highest number of preemptions. */
static void choose_how(struct ll_sim_crossing *x, enum how how, uint32_t number, uint32_t bound)
{
    const struct lladd_sim_bounds *b = &x->sim->bounds;
    const bool background = x->sim->subject.background;
    x->how = how;
    x->number = number;
    x->seeded.state = ll_sim_mix(b->seed, number + 1);
    x->bound = bound;
    if (how == RANDOM)
        ll_schedule_init(&x->policy, LL_SCHEDULE_PCT, bound + 1, x->length,
                         ll_seeded_choices_choose, &x->seeded);
    else
        ll_schedule_init(&x->policy, background ? LL_SCHEDULE_DELAYED : LL_SCHEDULE_BOUNDED, bound,
                         0, ll_all_choices_choose, &x->all);
}

/* ---- the history names the running thread ------------------------------------------------ */

int ll_sim_crossing_tell(struct lladd_sim *sim)
{
    /* Static, because the record stores the pointers. */
    static const char *const names[LLADD_SIM_THREADS_MAX] = {
        "[thread 1]",  "[thread 2]",  "[thread 3]",  "[thread 4]",  "[thread 5]",  "[thread 6]",
        "[thread 7]",  "[thread 8]",  "[thread 9]",  "[thread 10]", "[thread 11]", "[thread 12]",
        "[thread 13]", "[thread 14]", "[thread 15]", "[thread 16]"};
    struct ll_sim_crossing *x = sim->crossing;
    uint64_t self = lladd_thread_self();
    if (!x->open || x->last == self)
        return 0;
    x->last = self;
    for (unsigned i = 0; i < sim->subject.threads; i++)
        if (x->fiber[i] == self)
            return ll_sim_remark(sim, names[i]);
    return ll_sim_remark(sim, "[a thread of the library]");
}

/* ---- the device -------------------------------------------------------------------------- */

static void begin_call(struct lladd_device *dev, bool told)
{
    struct ll_sim_run *run = (struct ll_sim_run *)dev;
    lladd_dst_reach(LLADD_DST_DEVICE);
    if (told && ll_sim_crossing_tell(run->sim))
        run->failed = LLADD_NO_MEMORY;
}

/* Defines a call of the simulated device with a scheduling point before and after it. `told`: the
 * call may appear in the trace, so the history says which thread makes it. */
#define SCHEDULED(type, call, told, parameters, ...) \
    static type point_##call parameters \
    { \
        begin_call(dev, told); \
        type rc = ll_sim_device_ops.call(__VA_ARGS__); \
        lladd_dst_reach(LLADD_DST_DEVICE); \
        return rc; \
    }
SCHEDULED(int, open, false,
          (struct lladd_device * dev, const char *name, unsigned flags, struct lladd_file **out),
          dev, name, flags, out)
SCHEDULED(int64_t, pread, false,
          (struct lladd_device * dev, struct lladd_file *file, void *buf, size_t len, uint64_t off),
          dev, file, buf, len, off)
SCHEDULED(int, pwritev, true,
          (struct lladd_device * dev, struct lladd_file *file, const struct lladd_iovec *pieces,
           int n, uint64_t off),
          dev, file, pieces, n, off)
SCHEDULED(int, append, true,
          (struct lladd_device * dev, struct lladd_file *file, const void *buf, size_t len,
           uint64_t *off),
          dev, file, buf, len, off)
SCHEDULED(int, sync, true, (struct lladd_device * dev, struct lladd_file *file), dev, file)
SCHEDULED(int, truncate, true, (struct lladd_device * dev, struct lladd_file *file, uint64_t size),
          dev, file, size)
SCHEDULED(int, allocate, true, (struct lladd_device * dev, struct lladd_file *file, uint64_t size),
          dev, file, size)
SCHEDULED(int, rename, true, (struct lladd_device * dev, const char *from, const char *to), dev,
          from, to)
SCHEDULED(int, unlink, true, (struct lladd_device * dev, const char *name), dev, name)
SCHEDULED(int, sync_dir, true, (struct lladd_device * dev, const char *name), dev, name)
SCHEDULED(int, mkdir, true, (struct lladd_device * dev, const char *name), dev, name)
SCHEDULED(int, list, false,
          (struct lladd_device * dev, const char *name, lladd_list_fn *fn, void *ctx), dev, name,
          fn, ctx)
#undef SCHEDULED

static struct lladd_device_ops scheduled_ops(void)
{
    struct lladd_device_ops ops = ll_sim_device_ops;
    ops.open = point_open;
    ops.pread = point_pread;
    ops.pwritev = point_pwritev;
    ops.append = point_append;
    ops.sync = point_sync;
    ops.truncate = point_truncate;
    ops.allocate = point_allocate;
    ops.rename = point_rename;
    ops.unlink = point_unlink;
    ops.sync_dir = point_sync_dir;
    ops.mkdir = point_mkdir;
    ops.list = point_list;
    return ops;
}

/* ---- one run ----------------------------------------------------------------------------- */

static void *run_thread(void *arg)
{
    struct thread *t = arg;
    struct ll_sim_crossing *x = t->crossing;
    const struct lladd_sim_subject *s = &x->sim->subject;
    x->fiber[t->number] = lladd_thread_self();
    t->rc = s->run_thread(s->ctx, x->sim, t->db, t->number, &t->err);
    if (--x->left > 0)
        return NULL;
    x->ended = 1;
    lladd_word_wake(&x->ended, 1, 1);
    return NULL;
}

int ll_sim_cross(struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_crossing *x = sim->crossing;
    const uint32_t n = sim->subject.threads;
    int rc = 0;
    x->left = n;
    x->ended = 0;
    x->last = 0;
    lladd_yield(); /* lets the library's threads run until they are idle */
    for (unsigned i = 0; i < n; i++) {
        struct thread *t = &x->thread[i];
        *t = (struct thread){.crossing = x, .db = db, .number = i, .err = LLADD_ERROR_INIT};
        x->fiber[i] = 0;
        rc = lladd_thread_start(&t->thread, run_thread, t);
        if (rc)
            return lladd_error_set(err, LLADD_NO_MEMORY, "no memory for a thread");
    }
    x->open = true;
    while (!x->ended)
        lladd_word_wait_as("the end of the threads", &x->ended, 0, 1, 0);
    x->open = false;
    for (unsigned i = 0; i < n; i++) {
        lladd_thread_join(&x->thread[i].thread);
        if (!rc && x->thread[i].rc)
            rc = lladd_error_set(err, x->thread[i].rc, "thread %u: %s", i + 1,
                                 ll_sim_explain(sim, db, x->thread[i].rc, &x->thread[i].err));
    }
    return rc;
}

static void *live(void *arg)
{
    struct ll_sim_crossing *x = arg;
    x->rc = ll_sim_record_run(x->sim, &x->err);
    return NULL;
}

/* Judges the run, before its crashes are explored. */
static int judge_run(struct ll_sim_crossing *x, int rc, const struct lladd_error *err,
                     struct ll_sim_verdict *v)
{
    struct lladd_sim *sim = x->sim;
    const char *name;
    if (sim->workload.failed || x->all.no_memory || rc == LLADD_NO_MEMORY)
        return LLADD_NO_MEMORY;
    ll_sim_object_seen(sim, v);
    if (sim->workload.looping)
        return ll_sim_object(v, LLADD_SIM_O_LOOP, "the workload made more than %u device calls",
                             sim->bounds.calls_max);
    switch (rc) {
    case LLADD_DEADLOCK:
        return ll_sim_object(v, LLADD_SIM_O_DEADLOCK, "%s", err->message);
    case LLADD_TIMEOUT:
        return ll_sim_object(v, LLADD_SIM_O_LOOP, "the threads go on for more than %u turns",
                             (unsigned)STEPS_MAX);
    case LLADD_END:
        return ll_sim_object(v, LLADD_SIM_O_DETERMINISM,
                             "the workload is not deterministic: in the same schedule it did "
                             "different things");
    default:
        break;
    }
    if (!x->rc || x->rc == LLADD_NO_MEMORY)
        return x->rc;
    name = lladd_code_name(x->rc);
    return ll_sim_object(v, LLADD_SIM_O_WORKLOAD, "%s: %s", name ? name : "error", x->err.message);
}

/* Runs the workload in the chosen schedule. */
static int run(struct ll_sim_crossing *x, struct ll_sim_verdict *v)
{
    struct lladd_sim *sim = x->sim;
    struct lladd_error err = LLADD_ERROR_INIT;
    const struct lladd_device_ops ops = scheduled_ops();
    struct lladd_sink *history = sim->history;
    *v = (struct ll_sim_verdict){0};
    ll_schedule_begin(&x->policy);
    x->turns = x->n_answers = 0;
    x->open = false;
    x->rc = 0;
    x->err = (struct lladd_error)LLADD_ERROR_INIT;
    int rc = ll_sim_record_begin(sim);
    if (rc)
        return rc;
    sim->workload.face.ops = &ops;
    sim->history = NULL; /* the history is written later, up to the crash */
    if (sim->subject.background)
        sim->options.flags &= ~(uint32_t)LLADD_OPT_NO_THREADS;
    rc = lladd_dst_run(x->fibers, &sim->dst, live, x, &err);
    sim->options.flags |= LLADD_OPT_NO_THREADS; /* a recovery is not scheduled */
    sim->history = history;
    sim->workload.face.ops = &ll_sim_device_ops;
    rc = judge_run(x, rc, &err, v);
    return rc || v->oracle ? rc : ll_sim_expect(sim);
}

/* ---- rows of choices --------------------------------------------------------------------- */

static int push(struct ll_sim_crossing *x, uint32_t value)
{
    return ll_sim_choice_push(x->sim, LL_SIM_C_SCHEDULE, value);
}

/* Begins a row of choices with the schedule that has just run. */
static int push_schedule(struct ll_sim_crossing *x)
{
    uint32_t from = 0;
    x->sim->choices.count = x->sim->choices.pos = 0;
    if (x->how == RANDOM && x->n_answers > ANSWERS_TOLD)
        return push(x, 1) || push(x, x->number + 1) || push(x, x->bound) ? LLADD_NO_MEMORY : 0;
    uint32_t n = x->n_answers < ANSWERS_MAX ? x->n_answers : ANSWERS_MAX;
    int rc = push(x, n + 2);
    for (uint32_t i = 0; !rc && i < n; i++) {
        rc = push(x, x->answer[i].turn - from) || push(x, x->answer[i].value) ? LLADD_NO_MEMORY : 0;
        from = x->answer[i].turn + 1;
    }
    return rc;
}

uint32_t ll_sim_schedule_answers(const struct ll_sim_vector *v)
{
    uint32_t n = v->count && v->value[0] > 1 ? v->value[0] - 2 : 0;
    return n < ANSWERS_MAX ? n : ANSWERS_MAX;
}

uint32_t ll_sim_schedule_head(const struct ll_sim_vector *v)
{
    return v->value[0] == 1 ? 3 : 1 + 2 * ll_sim_schedule_answers(v);
}

void ll_sim_schedule_without(const struct ll_sim_vector *v, uint32_t i, struct ll_sim_vector *out)
{
    const uint32_t at = 1 + 2 * i;
    *out = *v;
    out->value[0]--;
    out->count -= 2;
    memmove(&out->value[at], &v->value[at + 2], (out->count - at) * sizeof *out->value);
    if (i + 1 < ll_sim_schedule_answers(v))
        out->value[at] += v->value[at] + 1;
}

/* Reads the schedule at the beginning of the row. */
static void take_schedule(struct ll_sim_crossing *x)
{
    struct lladd_sim *sim = x->sim;
    uint32_t head = ll_sim_choose(sim, LL_SIM_C_SCHEDULE, UINT32_MAX, 0, 1), at = 0;
    if (head == 1) {
        uint32_t number = ll_sim_choose(sim, LL_SIM_C_SCHEDULE, UINT32_MAX, 0, 1);
        uint32_t bound = ll_sim_choose(sim, LL_SIM_C_SCHEDULE, UINT32_MAX, 0, 1);
        choose_how(x, RANDOM, number - 1, bound);
        return;
    }
    choose_how(x, GIVEN, 0, 0);
    x->n_given = head < 2 ? 0 : head - 2 < ANSWERS_MAX ? head - 2 : ANSWERS_MAX;
    for (uint32_t i = 0; i < x->n_given; i++) {
        at += ll_sim_choose(sim, LL_SIM_C_SCHEDULE, UINT32_MAX, 0, 1);
        x->given[i].turn = at++;
        x->given[i].value = ll_sim_choose(sim, LL_SIM_C_SCHEDULE, UINT32_MAX, 0, 1);
    }
}

int ll_sim_crossing_replay(struct lladd_sim *sim, struct ll_sim_verdict *v)
{
    struct ll_sim_crossing *x = sim->crossing;
    take_schedule(x);
    int rc = run(x, v);
    if (rc || !v->oracle)
        return rc;
    ll_sim_tell_workload(sim, sim->workload.n_calls);
    ll_sim_tell(sim, "%s objects: %s", lladd_sim_oracle_name(v->oracle), v->message);
    return 0;
}

uint32_t ll_sim_crossing_recording(const struct lladd_sim *sim)
{
    return sim->crossing->recording;
}

bool ll_sim_crossing_told(const struct lladd_sim *sim)
{
    const struct ll_sim_crossing *x = sim->crossing;
    return x->how == RANDOM || x->n_answers <= ANSWERS_MAX;
}

/* ---- all schedules ----------------------------------------------------------------------- */

/* Hashes the trace and the promises of a run. Runs with equal hashes have the same crashes. */
static uint64_t recording_hash(const struct lladd_sim *sim)
{
    const struct ll_sim_record *r = &sim->record;
    uint64_t h = sim->workload.trace_hash;
    for (uint32_t i = 0; i < r->n_decisions; i++) {
        const struct ll_sim_decision *d = &r->decision[i];
        h = ll_sim_mix(h, (uint64_t)d->called << 32 | d->acked);
        h = ll_sim_mix(h, (uint64_t)d->acked_kill << 8 | d->kind);
        h = ll_sim_mix(h, sim->expected[i + 1].hash);
    }
    return h;
}

static void look_at_bounds(struct lladd_sim *sim)
{
    const struct lladd_sim_bounds *b = &sim->bounds;
    bool done = b->milliseconds && ll_sim_now() - sim->started >= b->milliseconds * 1000000;
    done |= b->schedules && sim->report->schedules >= b->schedules;
    done |= sim->report->n_failures >= b->failures;
    if (done)
        sim->stop = true;
}

/* Runs the chosen schedule and explores its crashes. */
static int one_schedule(struct ll_sim_crossing *x)
{
    struct lladd_sim *sim = x->sim;
    struct lladd_sim_report *r = sim->report;
    struct ll_sim_verdict v;
    int rc = run(x, &v);
    r->schedules++;
    r->turns = x->turns > r->turns ? x->turns : r->turns;
    r->calls = sim->workload.n_calls > r->calls ? sim->workload.n_calls : r->calls;
    if (rc)
        return rc;
    rc = push_schedule(x);
    if (!rc && v.oracle)
        return ll_sim_found(sim, &v, 0);
    int seen = rc ? rc : ll_sim_set_put(&x->recordings, recording_hash(sim));
    if (seen)
        return seen < 0 ? seen : 0;
    r->recordings++;
    return ll_sim_explore(sim);
}

static int at_random(struct ll_sim_crossing *x)
{
    struct lladd_sim *sim = x->sim;
    int rc = 0;
    for (uint32_t n = 0; !rc && !sim->stop; n++) {
        choose_how(x, RANDOM, n, sim->bounds.preemptions);
        rc = one_schedule(x);
        look_at_bounds(sim);
    }
    sim->cut = true;
    return rc;
}

/* Tries all schedules without a preemption, then all with at most one, and so on, so that a
 * violation is found with as few preemptions as possible. Each round repeats the schedules of the
 * round before; their crashes are not explored again. */
static int all_schedules(struct ll_sim_crossing *x)
{
    struct lladd_sim *sim = x->sim;
    int rc = 0;
    for (uint32_t bound = 0; !rc && !sim->stop && bound <= sim->bounds.preemptions; bound++) {
        bool more = true;
        ll_all_choices_free(&x->all);
        while (!rc && more && !sim->stop) {
            choose_how(x, BOUNDED, 0, bound);
            rc = one_schedule(x);
            more = ll_all_choices_next(&x->all);
            look_at_bounds(sim);
        }
        sim->cut |= more || (sim->stop && bound < sim->bounds.preemptions);
    }
    return rc;
}

/* Runs the ordinary schedule twice, to measure its length and to check that the workload is
 * deterministic. */
static int run_ordinary(struct ll_sim_crossing *x)
{
    struct lladd_sim *sim = x->sim;
    struct ll_sim_verdict v;
    uint64_t first = 0;
    for (unsigned again = 0; again < 2; again++) {
        choose_how(x, ORDINARY, 0, 0);
        int rc = run(x, &v);
        if (rc)
            return rc;
        uint64_t hash = ll_sim_mix(sim->record.hash, sim->workload.trace_hash);
        if (again && hash != first && !v.oracle) {
            (void)ll_sim_object(&v, LLADD_SIM_O_DETERMINISM,
                                "the workload is not deterministic: run twice in the same "
                                "schedule, it did different things");
            sim->stop = sim->cut = true;
            return ll_sim_fail(sim, &v, 0, NULL);
        }
        first = hash;
    }
    x->length = x->turns;
    x->recording = (uint32_t)(first & 0xffffff);
    return 0;
}

/* ---- creation and destruction ------------------------------------------------------------ */

static int crossing_new(struct lladd_sim *sim)
{
    struct ll_sim_crossing *x = calloc(1, sizeof *x);
    if (!x)
        return LLADD_NO_MEMORY;
    struct lladd_dst_schedule cfg = {.ctx = x, .turn = turn, .steps_max = STEPS_MAX};
    if (sim->bounds.flags & LLADD_SIM_RANDOM_SCHEDULES)
        cfg.points = UINT32_MAX;
    x->sim = sim;
    ll_all_choices_init(&x->all);
    if (lladd_dst_fibers_new(&cfg, &x->fibers)) {
        free(x);
        return LLADD_NO_MEMORY;
    }
    sim->crossing = x;
    return 0;
}

void ll_sim_crossing_free(struct lladd_sim *sim)
{
    struct ll_sim_crossing *x = sim->crossing;
    if (!x)
        return;
    lladd_dst_fibers_free(x->fibers);
    ll_all_choices_free(&x->all);
    ll_sim_set_free(&x->recordings);
    free(x);
    sim->crossing = NULL;
}

/* Runs the setup and the ordinary schedule. */
static int prepare(struct lladd_sim *sim, struct lladd_error *err)
{
    struct lladd_error own = LLADD_ERROR_INIT;
    if (sim->subject.threads < 2)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "subject \"%s\" has no threads",
                               sim->subject.name);
    int rc = ll_sim_set_up(sim, &own);
    if (rc) {
        rc = ll_sim_workload_failed(sim, rc, &own);
        sim->stop = true;
        return rc ? lladd_error_set(err, rc, "%s", own.message) : 0;
    }
    sim->dst.observe = ll_sim_observe;
    rc = crossing_new(sim);
    if (!rc)
        rc = run_ordinary(sim->crossing);
    return rc ? lladd_error_set(err, rc, "subject \"%s\": %s", sim->subject.name,
                                lladd_code_text(rc))
              : 0;
}

static int interleave(struct lladd_sim *sim, struct lladd_error *err)
{
    int rc = prepare(sim, err);
    if (rc || sim->stop)
        return rc;
    sim->report->preemptions = sim->bounds.preemptions;
    rc = sim->bounds.flags & LLADD_SIM_RANDOM_SCHEDULES ? at_random(sim->crossing)
                                                        : all_schedules(sim->crossing);
    if (!rc)
        rc = ll_sim_give_tokens(sim);
    return rc ? lladd_error_set(err, rc, "interleaving subject \"%s\": %s", sim->subject.name,
                                lladd_code_text(rc))
              : 0;
}

int lladd_sim_interleave(const struct lladd_sim_subject *subject,
                         const struct lladd_sim_bounds *bounds, struct lladd_sim_report **out,
                         struct lladd_error *err)
{
    return ll_sim_report_of(subject, bounds, interleave, out, err);
}

int ll_sim_interleave_replay(struct lladd_sim *sim, const struct ll_sim_vector *v,
                             struct lladd_sink *history, struct lladd_error *err)
{
    struct ll_sim_verdict verdict;
    uint32_t depth;
    int rc = prepare(sim, err);
    if (rc || sim->stop)
        return rc;
    if (sim->crossing->recording != v->recording)
        return ll_sim_other_recording(err);
    if (v->count == 0)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                               "invalid token: expected at least one choice");
    sim->history = history;
    rc = ll_sim_replay(sim, v, &verdict, &depth);
    sim->history = NULL;
    if (!rc && verdict.oracle)
        rc = ll_sim_fail(sim, &verdict, depth, v);
    if (!rc && verdict.oracle && !ll_sim_token_encode(&sim->subject, v, sim->failures[0].token))
        sim->failures[0].token[0] = '\0';
    return rc;
}
