/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * inspect: checks what inspection (lladd_inspect_verify) reports about the files that a run or a
 * crash has left.
 *
 * A crash damages nothing. For each crash state that is recovered, inspection must therefore find
 * no damage in the same files (O20). A unit that recovery has not read has no variant yet; in these
 * files, nothing of it has arrived. That is one of the states that the crash may leave.
 */
#include "sim/sim_private.h"

#include <stdio.h>

int ll_sim_run_on(struct lladd_sim *sim, struct ll_sim_arena *a, const struct ll_sim_image *image,
                  struct ll_sim_run *run)
{
    struct ll_sim_world *world = ll_sim_take(a, sizeof *world);
    if (!world)
        return LLADD_NO_MEMORY;
    memset(world, 0, sizeof *world);
    int rc = ll_sim_image_copy(a, image, &world->image);
    return rc ? rc : ll_sim_run_init(sim, run, a, 1, world, NULL);
}

static int see_finding(void *ctx, const struct lladd_finding *f)
{
    struct ll_sim_found *found = ctx;
    if (f->kind == LLADD_FINDING_NOTE)
        return 0;
    if (found->damage + found->repair == 0 ||
        (f->kind == LLADD_FINDING_DAMAGE && found->damage == 0))
        (void)snprintf(found->text, sizeof found->text, "%s: %s", f->file, f->message);
    found->damage += f->kind == LLADD_FINDING_DAMAGE;
    found->repair += f->kind == LLADD_FINDING_REPAIR;
    ll_sim_tell(found->sim, "    inspection: %s: %s", f->file, f->message);
    return 0;
}

int ll_sim_inspect(struct lladd_sim *sim, const struct ll_sim_image *image,
                   struct ll_sim_found *found, struct lladd_inspect **view)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_options options = sim->options;
    struct lladd_verified verified = {.struct_size = sizeof verified};
    struct lladd_inspect_info info = {.struct_size = sizeof info};
    struct lladd_inspect *v;
    struct ll_sim_arena *a = &sim->inspected;
    *found = (struct ll_sim_found){.sim = sim};
    ll_sim_rewind(a);
    ll_sim_heap_rewind(&sim->heap);
    struct ll_sim_run *run = ll_sim_take(a, sizeof *run); /* the view uses it until it is closed */
    int rc = run ? ll_sim_run_on(sim, a, image, run) : LLADD_NO_MEMORY;
    if (rc)
        return rc;
    run->looks = true;
    sim->running = run;
    options.device = &run->face;
    rc = lladd_inspect_open(NULL, &options, &v, &err);
    if (rc == LLADD_NO_MEMORY || (rc && view))
        return rc;
    if (rc) { /* inspection refuses to read the files */
        found->damage = 1;
        (void)snprintf(found->text, sizeof found->text, "%s", err.message);
        ll_sim_tell(sim, "    inspection refuses: %s", err.message);
        return 0;
    }
    rc = lladd_inspect_verify(v, see_finding, found, &verified, &err);
    if (!rc)
        rc = lladd_inspect_info_get(v, &info);
    found->end = info.log_end.v;
    if (!rc && view)
        *view = v;
    else
        lladd_inspect_close(v);
    return rc;
}

/* Builds the files that the crash before the run has left. */
static int left_by(struct ll_sim_run *run, struct ll_sim_world *world)
{
    struct lladd_sim *sim = run->sim;
    struct ll_sim_run killed;
    ll_sim_rewind(&sim->inspected_world);
    int rc = ll_sim_run_world(run, &sim->inspected_world, world);
    if (rc || run->units)
        return rc;
    rc = ll_sim_run_init(sim, &killed, &sim->inspected_world, run->level, run->from, NULL);
    if (!rc)
        world->image = killed.live; /* the death of a process loses nothing */
    return rc;
}

int ll_sim_object_damage(struct ll_sim_run *run, struct ll_sim_verdict *verdict)
{
    struct lladd_sim *sim = run->sim;
    struct ll_sim_world world;
    struct ll_sim_found found;
    /* O20 is the oracle for ACCUSE. If another bug is planted, a failing recovery says more. */
    uint64_t planted = sim->bounds.planted;
    bool elsewhere = planted && planted != LLADD_BUG_MASK(LLADD_BUG_ACCUSE);
    if (verdict->oracle || !run->from || elsewhere)
        return 0;
    int rc = left_by(run, &world);
    if (rc)
        return rc;
    int seen = ll_sim_set_put(&sim->inspections, ll_sim_world_hash(sim, &world));
    if (seen)
        return seen < 0 ? seen : 0;
    void (*observe)(void *, const struct lladd_dst_event *) = sim->dst.observe;
    struct ll_sim_run *running = sim->running;
    sim->dst.observe = NULL; /* Inspection redoes changes of the bitmaps in memory, which must not
                              * count as paths of a recovery. */
    rc = ll_sim_inspect(sim, &world.image, &found, NULL);
    sim->dst.observe = observe;
    sim->running = running;
    if (!rc && found.damage)
        (void)ll_sim_object(verdict, LLADD_SIM_O_INSPECT,
                            "inspection finds damage in what a crash has left: %s", found.text);
    return rc;
}
