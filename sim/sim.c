/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sim: the public interface of the explorer; creates and frees simulators.
 */
#include "sim/sim_private.h"

#include <stdlib.h>
#include <time.h>

enum {
    DEPTH_DEFAULT = 4,
    CALLS_DEFAULT = 100000,
    POINTS_DEFAULT = 4,
    PREEMPTIONS_DEFAULT = 2,
    SCHEDULES_DEFAULT = 1000, /* number of random schedules */
    CACHE_BYTES = 256 << 10,
    RING_BYTES = 64 << 10,
    SEGMENT_BYTES = 8 << 10,
    CHECKPOINT_BYTES = 16 << 10
};

uint64_t ll_sim_now(void)
{
    struct timespec t;
    if (clock_gettime(CLOCK_MONOTONIC, &t))
        return 0;
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- environment of the databases: clock and random numbers --------------------------------- */

static uint64_t world_now(void *ctx)
{
    struct lladd_sim *sim = ctx;
    return sim->clock += 1000;
}

static int64_t world_wall(void *ctx)
{
    (void)ctx;
    return 1; /* an arbitrary time */
}

static int world_random(void *ctx, void *buf, size_t len)
{
    struct lladd_sim *sim = ctx;
    unsigned char *p = buf;
    for (size_t i = 0; i < len; i++) {
        sim->random = ll_sim_mix(sim->random, i);
        p[i] = (unsigned char)(sim->random >> 32);
    }
    return 0;
}

static void trace(void *ctx, const char *line)
{
    ll_sim_tell(ctx, "    recovery: %s", line);
}

/* ---- creation and destruction ------------------------------------------------------------ */

static int take_subject(struct lladd_sim *sim, const struct lladd_sim_subject *s,
                        struct lladd_error *err)
{
    if (s->struct_size < offsetof(struct lladd_sim_subject, check) || s->struct_size > 4096)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "subject: struct_size is not set");
    memcpy(&sim->subject, s,
           s->struct_size < sizeof sim->subject ? s->struct_size : sizeof sim->subject);
    s = &sim->subject;
    if (!s->name || strlen(s->name) == 0 || strlen(s->name) > 63 || (!s->run && !s->run_thread))
        return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                               "a subject needs a name of 1 to 63 bytes, and run or run_thread");
    if (s->threads > LLADD_SIM_THREADS_MAX || (s->threads > 1) != (s->run_thread != NULL))
        return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                               "subject \"%s\": run_thread needs 2 to %u threads, and 2 or more "
                               "threads need run_thread",
                               s->name, LLADD_SIM_THREADS_MAX);
    if (s->model_size && (!s->model_apply || !s->model_dump || !s->dump))
        return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                               "subject \"%s\": a model needs model_apply, model_dump and dump",
                               s->name);
    return 0;
}

static int take_bounds(struct lladd_sim *sim, const struct lladd_sim_bounds *b,
                       struct lladd_error *err)
{
    struct lladd_sim_bounds *own = &sim->bounds;
    const uint32_t flags = LLADD_SIM_FULL_PRODUCT | LLADD_SIM_NO_POWER | LLADD_SIM_NO_KILL |
                           LLADD_SIM_ATOMIC_PAGES | LLADD_SIM_NO_COVERAGE |
                           LLADD_SIM_RANDOM_SCHEDULES | LLADD_SIM_INSTANT | LLADD_SIM_TURNS;
    if (b && (b->struct_size < 8 || b->struct_size > 4096))
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "bounds: use LLADD_SIM_BOUNDS_INIT");
    if (b)
        memcpy(own, b, b->struct_size < sizeof *own ? b->struct_size : sizeof *own);
    sim->sampled_from = own->depth ? 0 : DEPTH_DEFAULT;
    own->depth = own->depth ? own->depth : DEPTH_DEFAULT;
    own->seed = own->seed ? own->seed : 1;
    own->failures = own->failures ? own->failures : 1;
    own->calls_max = own->calls_max ? own->calls_max : CALLS_DEFAULT;
    own->points = own->points ? own->points : POINTS_DEFAULT;
    own->samples = own->samples == UINT32_MAX ? 0 : own->samples ? own->samples : 1;
    own->every = own->every ? own->every : 1;
    own->preemptions = own->preemptions == UINT32_MAX ? 0
                       : own->preemptions             ? own->preemptions
                                                      : PREEMPTIONS_DEFAULT;
    if (own->flags & LLADD_SIM_RANDOM_SCHEDULES && !own->schedules)
        own->schedules = SCHEDULES_DEFAULT;
    if (own->depth > LLADD_SIM_DEPTH_MAX)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "bounds: depth is at most %u",
                               LLADD_SIM_DEPTH_MAX);
    if (own->flags & ~flags)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "bounds: unknown flag 0x%x",
                               own->flags & ~flags);
    if (own->flags & LLADD_SIM_TURNS && !(own->flags & LLADD_SIM_ATOMIC_PAGES))
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "bounds: TURNS needs ATOMIC_PAGES");
    return 0;
}

static int take_options(struct lladd_sim *sim, struct lladd_error *err)
{
    struct lladd_options *o = &sim->options;
    *o = (struct lladd_options)LLADD_OPTIONS_INIT;
    o->cache_bytes = CACHE_BYTES;
    o->log_ring_bytes = RING_BYTES;
    o->log_segment_min = o->log_segment_max = SEGMENT_BYTES;
    o->checkpoint_bytes = CHECKPOINT_BYTES;
    o->frames = LLADD_FRAMES_HEAP;
    o->redo_threads = 1;
    struct lladd_error own = LLADD_ERROR_INIT;
    int rc = sim->subject.configure ? sim->subject.configure(sim->subject.ctx, o, &own) : 0;
    if (rc)
        return lladd_error_set(err, rc, "subject \"%s\", configure: %s", sim->subject.name,
                               own.message);
    sim->extension = (struct lladd_extension){.struct_size = sizeof sim->extension,
                                              .name = "lladd.sim",
                                              .version = 1,
                                              .ctx = sim,
                                              .bulk_written = ll_sim_guard_bulk};
    rc = lladd_register_extension(o, &sim->extension, err);
    if (rc)
        return rc;
    rc = ll_sim_store_begin(sim, o, &sim->store.archive, err);
    if (rc)
        return rc;
    sim->world = (struct lladd_environment){sim, world_now, world_wall, world_random, NULL};
    o->world = &sim->world;
    o->allocator = &sim->heap.face;
    o->flags |= LLADD_OPT_NO_THREADS;
    if (sim->bounds.flags & LLADD_SIM_ATOMIC_PAGES)
        o->flags |= LLADD_OPT_ATOMIC_PAGES; /* see also ll_sim_open */
    if (sim->bounds.flags & LLADD_SIM_INSTANT)
        o->recovery = LLADD_RECOVER_INSTANT;
    sim->page_size = o->page_size ? o->page_size : LL_SIM_BLOCK;
    return 0;
}

static int make(struct lladd_sim *sim, const struct lladd_sim_subject *subject,
                const struct lladd_sim_bounds *bounds, struct lladd_error *err)
{
    int rc = take_subject(sim, subject, err);
    if (!rc)
        rc = take_bounds(sim, bounds, err);
    if (!rc)
        rc = take_options(sim, err);
    if (rc)
        return rc;
    sim->dst = (struct lladd_dst){
        .ctx = sim, .stuck = ll_sim_stuck, .planted = sim->bounds.planted, .scarce = true};
    sim->report = calloc(1, sizeof *sim->report);
    sim->scratch_model = malloc(sim->subject.model_size + 1);
    if (!sim->report || !sim->scratch_model || ll_sim_names_init(sim))
        return lladd_error_set(err, LLADD_NO_MEMORY, "no memory for the simulator");
    struct lladd_sim_report *r = sim->report;
    r->struct_size = sizeof *r;
    memcpy(r->subject, sim->subject.name, strlen(sim->subject.name) + 1);
    r->flags = sim->bounds.flags;
    r->depth = sim->bounds.depth;
    r->seed = sim->bounds.seed;
    return 0;
}

int ll_sim_new(const struct lladd_sim_subject *subject, const struct lladd_sim_bounds *bounds,
               struct lladd_sim **out, struct lladd_error *err)
{
    struct lladd_sim *sim = calloc(1, sizeof *sim);
    if (!sim)
        return lladd_error_set(err, LLADD_NO_MEMORY, "no memory for the simulator");
    ll_sim_heap_init(&sim->heap);
    ll_sim_buffer_init(&sim->dump);
    ll_sim_buffer_init(&sim->text);
    sim->started = ll_sim_now();
    int rc = make(sim, subject, bounds, err);
    if (rc) {
        ll_sim_free(sim);
        return rc;
    }
    *out = sim;
    return 0;
}

void ll_sim_free(struct lladd_sim *sim)
{
    lladd_options_release(&sim->options);
    lladd_archive_free(sim->store.archive);
    ll_sim_store_free(sim);
    for (unsigned i = 0; i < sizeof sim->level / sizeof *sim->level; i++) {
        ll_sim_arena_free(&sim->level[i].runs);
        ll_sim_arena_free(&sim->level[i].worlds);
        ll_sim_arena_free(&sim->level[i].units);
    }
    ll_sim_arena_free(&sim->inspected);
    ll_sim_arena_free(&sim->inspected_world);
    ll_sim_arena_free(&sim->base);
    ll_sim_arena_free(&sim->noted);
    ll_sim_arena_free(&sim->heap.arena);
    ll_sim_choices_free(&sim->choices);
    ll_sim_set_free(&sim->seen);
    ll_sim_set_free(&sim->endings);
    ll_sim_set_free(&sim->inspections);
    ll_sim_set_free(&sim->sorts);
    ll_sim_cover_free(&sim->cover);
    ll_sim_crossing_free(sim);
    ll_sim_buffer_free(&sim->dump);
    ll_sim_buffer_free(&sim->text);
    free(sim->scratch_model);
    free(sim->vectors);
    free(sim->failures);
    free(sim->report);
    free(sim->faults);
    free(sim);
}

int ll_sim_fail(struct lladd_sim *sim, const struct ll_sim_verdict *verdict, uint32_t depth,
                const struct ll_sim_vector *vector)
{
    struct lladd_sim_report *r = sim->report;
    if (r->n_failures == sim->failures_capacity) {
        uint32_t larger = sim->failures_capacity ? 2 * sim->failures_capacity : 8;
        struct lladd_sim_failure *f = realloc(sim->failures, larger * sizeof *f);
        if (f)
            sim->failures = f;
        struct ll_sim_vector *v = realloc(sim->vectors, larger * sizeof *v);
        if (v)
            sim->vectors = v;
        if (!f || !v)
            return LLADD_NO_MEMORY;
        sim->failures_capacity = larger;
    }
    struct lladd_sim_failure *f = &sim->failures[r->n_failures];
    *f = (struct lladd_sim_failure){.oracle = verdict->oracle, .depth = depth};
    memcpy(f->message, verdict->message, sizeof f->message);
    struct ll_sim_vector *v = &sim->vectors[r->n_failures];
    v->count = 0;
    if (vector)
        *v = *vector;
    r->n_failures++;
    r->failures = sim->failures;
    return 0;
}

/* ---- exploring --------------------------------------------------------------------------- */

/* Keeps only one of several failures with equal tokens. Failures may become equal when their rows
 * are made smaller. */
static void drop_twins(struct lladd_sim *sim)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < sim->report->n_failures; i++) {
        bool twin = false;
        for (uint32_t j = 0; j < kept && sim->failures[i].token[0]; j++)
            twin |= strcmp(sim->failures[j].token, sim->failures[i].token) == 0;
        if (!twin)
            sim->failures[kept++] = sim->failures[i];
    }
    sim->report->n_failures = kept;
}

int ll_sim_give_tokens(struct lladd_sim *sim)
{
    int rc = 0;
    for (uint32_t i = 0; !rc && i < sim->report->n_failures; i++) {
        struct lladd_sim_failure *f = &sim->failures[i];
        struct ll_sim_verdict verdict = {.oracle = f->oracle};
        if (sim->vectors[i].count == 0)
            continue;
        memcpy(verdict.message, f->message, sizeof verdict.message);
        rc = ll_sim_shrink(sim, &sim->vectors[i], &verdict, &f->depth);
        memcpy(f->message, verdict.message, sizeof f->message);
        if (!ll_sim_token_encode(&sim->subject, &sim->vectors[i], f->token))
            f->token[0] = '\0';
    }
    drop_twins(sim);
    return rc;
}

/* Detaches the report, with all it owns, from the simulator. */
static struct lladd_sim_report *hand_over(struct lladd_sim *sim)
{
    struct lladd_sim_report *r = sim->report;
    if (r->calls < sim->workload.n_calls)
        r->calls = sim->workload.n_calls;
    r->acks = sim->record.acks;
    r->choices = sim->choices.asked;
    r->complete = !sim->cut;
    r->n_coverage = sim->cover.count;
    r->coverage = sim->cover.at;
    r->nanoseconds = ll_sim_now() - sim->started;
    sim->report = NULL;
    sim->failures = NULL;
    sim->cover.at = NULL;
    sim->cover.count = 0;
    return r;
}

static bool is_ours(int rc)
{
    return rc == LLADD_NO_MEMORY || rc == LLADD_BAD_ARGUMENT;
}

void ll_sim_object_recording(struct lladd_sim *sim, struct ll_sim_verdict *v, int rc,
                             const struct lladd_error *err)
{
    const char *name = lladd_code_name(rc);
    *v = sim->violation;
    if (sim->running && sim->running->looping)
        (void)ll_sim_object(v, LLADD_SIM_O_LOOP, "the workload made more than %u device calls",
                            sim->bounds.calls_max);
    (void)ll_sim_object(v, rc == LLADD_BUG ? LLADD_SIM_O_DETERMINISM : LLADD_SIM_O_WORKLOAD,
                        "%s: %s", name ? name : "error", err->message);
}

int ll_sim_workload_failed(struct lladd_sim *sim, int rc, const struct lladd_error *err)
{
    struct ll_sim_verdict v;
    if (is_ours(rc))
        return rc;
    ll_sim_object_recording(sim, &v, rc, err);
    sim->cut = true;
    return ll_sim_fail(sim, &v, 0, NULL);
}

int ll_sim_record_first(struct lladd_sim *sim, struct lladd_error *own, struct lladd_error *err)
{
    *own = (struct lladd_error)LLADD_ERROR_INIT;
    int rc = ll_sim_record(sim, own);
    if (rc && own->message[0] == '\0')
        return lladd_error_set(err, rc, "subject \"%s\": %s", sim->subject.name,
                               lladd_code_text(rc) ? lladd_code_text(rc) : "an unknown error");
    if (rc && err)
        *err = *own;
    return rc;
}

static int explore_all(struct lladd_sim *sim, struct lladd_error *err)
{
    struct lladd_error own;
    int rc = ll_sim_record_first(sim, &own, err);
    if (rc)
        return ll_sim_workload_failed(sim, rc, &own);
    rc = ll_sim_explore(sim);
    if (!rc && sim->violation.oracle && sim->report->n_failures < sim->bounds.failures)
        rc = ll_sim_fail(sim, &sim->violation, 0, NULL);
    if (!rc && !sim->cut && !(sim->bounds.flags & LLADD_SIM_NO_COVERAGE))
        rc = ll_sim_cover_judge(sim);
    sim->dst.observe = ll_sim_observe_undone;
    if (!rc)
        rc = ll_sim_give_tokens(sim);
    if (rc)
        return lladd_error_set(err, rc, "exploring subject \"%s\": %s", sim->subject.name,
                               lladd_code_text(rc));
    return 0;
}

int ll_sim_report_of(const struct lladd_sim_subject *subject,
                     const struct lladd_sim_bounds *bounds,
                     int (*mode)(struct lladd_sim *, struct lladd_error *),
                     struct lladd_sim_report **out, struct lladd_error *err)
{
    struct lladd_sim *sim;
    *out = NULL;
    int rc = ll_sim_new(subject, bounds, &sim, err);
    if (rc)
        return rc;
    struct lladd_dst *before = lladd_dst_enter(&sim->dst);
    rc = mode(sim, err);
    (void)lladd_dst_enter(before);
    if (!rc)
        *out = hand_over(sim);
    ll_sim_free(sim);
    return rc;
}

int lladd_sim_explore(const struct lladd_sim_subject *subject,
                      const struct lladd_sim_bounds *bounds, struct lladd_sim_report **out,
                      struct lladd_error *err)
{
    return ll_sim_report_of(subject, bounds, explore_all, out, err);
}

int ll_sim_other_recording(struct lladd_error *err)
{
    return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                           "the token was made with another version of the subject or of the "
                           "library: the workload does other things now");
}

static int replay_row(struct lladd_sim *sim, const struct ll_sim_vector *v,
                      struct lladd_sink *history, struct lladd_error *err)
{
    struct ll_sim_verdict verdict;
    struct lladd_error own;
    uint32_t depth;
    int rc = ll_sim_record_first(sim, &own, err);
    if (rc)
        return rc;
    if ((sim->record.hash & 0xffffff) != v->recording)
        return ll_sim_other_recording(err);
    sim->history = history;
    rc = ll_sim_replay(sim, v, &verdict, &depth);
    if (!rc && verdict.oracle)
        rc = ll_sim_fail(sim, &verdict, depth, v);
    if (!rc && verdict.oracle && !ll_sim_token_encode(&sim->subject, v, sim->failures[0].token))
        sim->failures[0].token[0] = '\0';
    sim->history = NULL;
    return rc;
}

static int replay_any(struct lladd_sim *sim, const struct ll_sim_vector *v,
                      struct lladd_sink *history, struct lladd_error *err)
{
    switch (v->kind) {
    case LL_SIM_TOKEN_DAMAGE:
        return ll_sim_damage_replay(sim, v, history, err);
    case LL_SIM_TOKEN_RANDOM:
        return ll_sim_random_replay(sim, v, history, err);
    case LL_SIM_TOKEN_INTERLEAVE:
        return ll_sim_interleave_replay(sim, v, history, err);
    default:
        return replay_row(sim, v, history, err);
    }
}

int lladd_sim_replay(const struct lladd_sim_subject *subject, const struct lladd_sim_bounds *bounds,
                     const char *token, struct lladd_sink *history, struct lladd_sim_report **out,
                     struct lladd_error *err)
{
    struct ll_sim_vector v;
    struct lladd_sim *sim;
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    *out = NULL;
    int rc = ll_sim_token_decode(subject, token, &v, err);
    if (rc)
        return rc;
    if (bounds && bounds->struct_size >= offsetof(struct lladd_sim_bounds, points)) {
        b.calls_max = bounds->calls_max;
        b.planted = bounds->planted;
    }
    b.flags = v.flags;
    b.seed = v.seed;
    b.depth = LLADD_SIM_DEPTH_MAX;
    rc = ll_sim_new(subject, &b, &sim, err);
    if (rc)
        return rc;
    struct lladd_dst *before = lladd_dst_enter(&sim->dst);
    sim->options.trace = history ? trace : NULL;
    sim->options.callback_ctx = sim;
    rc = replay_any(sim, &v, history, err);
    (void)lladd_dst_enter(before);
    if (!rc)
        *out = hand_over(sim);
    ll_sim_free(sim);
    return rc;
}
