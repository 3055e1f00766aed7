/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * coverage: counts the paths through each operation's callbacks, and checks the write-ahead rule.
 *
 * The instrumented library reports what it does (<lladd/dst.h>). A path that never ran is a hole in
 * the workload: its code was not tested. Some paths cannot run:
 *
 *   - An operation without a page has no redo.
 *   - An operation with logical undo has no compensation record to redo.
 *   - An operation with LLADD_UNDO_NONE is never undone.
 *   - The bounds may exclude crashes in recovery.
 *
 * If a subject names operations, each of these must have run on all paths that it can take.
 * Otherwise this holds for all operations of the workload, except the library's own.
 */
#include "sim/sim_private.h"

#include <stdio.h>
#include <stdlib.h>

enum { COMPENSATED = 1, UNDONE = 2, ON_PAGE = 4, NEVER_UNDONE = 8, UNDONE_HERE = 16 };

static const char LIBRARY[] = "lladd."; /* prefix of the names of the library's own operations */

static bool enlarge(struct ll_sim_cover *c)
{
    uint32_t larger = c->capacity ? 2 * c->capacity : 32;
    struct lladd_sim_coverage *at = realloc(c->at, larger * sizeof *at);
    if (at)
        c->at = at;
    const char **name = realloc(c->name, larger * sizeof(*name));
    if (name)
        c->name = name;
    unsigned char *logical = realloc(c->logical, larger);
    if (logical)
        c->logical = logical;
    if (!at || !name || !logical)
        return false;
    c->capacity = larger;
    return true;
}

static uint32_t entry_of(struct ll_sim_cover *c, const struct lladd_dst_event *e)
{
    for (uint32_t i = 0; i < c->count; i++)
        if (c->name[i] == e->op && c->at[i].version == e->op_version)
            return i;
    for (uint32_t i = 0; i < c->count; i++)
        if (strcmp(c->at[i].op, e->op) == 0 && c->at[i].version == e->op_version) {
            c->name[i] = e->op; /* another handle has another copy of the name */
            return i;
        }
    if (c->count == c->capacity && !enlarge(c))
        return UINT32_MAX;
    size_t len = strlen(e->op);
    char *copy = malloc(len + 1); /* the report outlives the database that owns the name */
    if (!copy)
        return UINT32_MAX;
    memcpy(copy, e->op, len + 1);
    c->name[c->count] = e->op;
    c->logical[c->count] = 0;
    c->at[c->count] = (struct lladd_sim_coverage){.op = copy, .version = e->op_version};
    return c->count++;
}

static void went(struct ll_sim_cover *c, uint32_t i, enum lladd_sim_path path)
{
    c->at[i].paths[path]++;
    if (c->level >= 2 && c->level <= 4)
        c->at[i].paths[LLADD_SIM_CRASH_1 + (c->level - 2)]++;
}

static void see_page_write(struct ll_sim_cover *c, const struct lladd_dst_event *e)
{
    /* Write-ahead rule: the page LSN must be below the durable end of the log. */
    if (e->lsn.v < e->durable.v || e->lsn.v == 0 || c->wal)
        return;
    c->wal = true;
    c->wal_page = e->page;
    c->wal_lsn = e->lsn.v;
    c->wal_durable = e->durable.v;
}

/* Where the observer records a violation: in `violation` for the workload, in `noticed` for a
 * recovery. `noticed` is separate from the verdict of the recovery, since the oracles of the
 * recovery may find a violation themselves. */
static struct ll_sim_verdict *seen(struct lladd_sim *sim)
{
    return sim->cover.level ? &sim->noticed : &sim->violation;
}

static void see_too_much(struct lladd_sim *sim, const struct lladd_dst_event *e)
{
    unsigned long long used = e->detail, most = e->page;
    if (e->what == LLADD_DST_UNDO_LOG)
        (void)ll_sim_object(seen(sim), LLADD_SIM_O_UNDO_MAX,
                            "compensate of \"%s\" has written %llu bytes of log; its undo_log_max "
                            "is %llu",
                            e->op, used, most);
    else
        (void)ll_sim_object(seen(sim), LLADD_SIM_O_UNDO_MAX,
                            "compensate of \"%s\" has had %llu pages fixed at a time; its "
                            "undo_pages_max is %llu",
                            e->op, used, most);
}

void ll_sim_stuck(void *ctx, const char *what)
{
    struct lladd_sim *sim = ctx;
    (void)ll_sim_object(seen(sim), LLADD_SIM_O_DEADLOCK,
                        "the only thread waits for ever for a lock: %s", what);
}

void ll_sim_observe(void *ctx, const struct lladd_dst_event *e)
{
    struct lladd_sim *sim = ctx;
    struct ll_sim_cover *c = &sim->cover;
    if (sim->guard)
        ll_sim_guard_see(sim, e);
    if (e->what == LLADD_DST_PAGE_WRITE) {
        see_page_write(c, e);
        return;
    }
    if (e->what == LLADD_DST_UNDO_LOG || e->what == LLADD_DST_UNDO_PAGES) {
        see_too_much(sim, e);
        return;
    }
    bool ends = e->what == LLADD_DST_COMMIT || e->what == LLADD_DST_END ||
                e->what == LLADD_DST_PREPARE || e->what == LLADD_DST_HEURISTIC;
    if (ends && c->level == 0)
        ll_sim_see_decided(sim, e->txn, e->lsn, e->what == LLADD_DST_PREPARE);
    if (!e->op)
        return;
    uint32_t i = entry_of(c, e);
    if (i == UINT32_MAX) {
        sim->running->failed = LLADD_NO_MEMORY;
        return;
    }
    bool applied = e->detail == LLADD_DST_STALE || e->detail == LLADD_DST_FRESH;
    switch (e->what) {
    case LLADD_DST_APPLY:
        c->at[i].runs += c->level == 0;
        c->logical[i] |= e->page != LLADD_NO_PAGE ? ON_PAGE : 0;
        break;
    case LLADD_DST_REDO:
        if (c->level > 0 && applied)
            went(c, i, LLADD_SIM_REDO);
        break;
    case LLADD_DST_REDO_CLR:
        if (c->level > 0 && applied)
            went(c, i, LLADD_SIM_REDO_CLR);
        break;
    case LLADD_DST_UNDO:
    case LLADD_DST_COMPENSATE_END:
        c->logical[i] |= (e->what == LLADD_DST_UNDO ? UNDONE : COMPENSATED) | UNDONE_HERE;
        went(c, i, LLADD_SIM_UNDO);
        if (c->level > 0)
            c->at[i].paths[LLADD_SIM_UNDO_PARTIAL]++;
        break;
    default:
        break;
    }
}

void ll_sim_observe_undone(void *ctx, const struct lladd_dst_event *e)
{
    struct lladd_sim *sim = ctx;
    struct ll_sim_cover *c = &sim->cover;
    if (e->what != LLADD_DST_UNDO && e->what != LLADD_DST_COMPENSATE_END)
        return;
    for (uint32_t i = 0; e->op && i < c->count; i++)
        if (strcmp(c->at[i].op, e->op) == 0 && c->at[i].version == e->op_version)
            c->logical[i] |= UNDONE_HERE;
}

static void object_wal(struct lladd_sim *sim, struct ll_sim_verdict *v)
{
    struct ll_sim_cover *c = &sim->cover;
    if (!c->wal)
        return;
    c->wal = false;
    v->oracle = LLADD_SIM_O_NONE; /* this violation takes precedence over all others */
    (void)ll_sim_object(v, LLADD_SIM_O_WAL,
                        "page %llu was written with LSN %llu while the log was durable up to %llu",
                        (unsigned long long)c->wal_page, (unsigned long long)c->wal_lsn,
                        (unsigned long long)c->wal_durable);
}

void ll_sim_object_seen(struct lladd_sim *sim, struct ll_sim_verdict *v)
{
    object_wal(sim, v);
    if (sim->noticed.oracle && v->oracle != LLADD_SIM_O_WAL) {
        v->oracle = LLADD_SIM_O_NONE; /* v's violation may be a consequence of the noticed one */
        (void)ll_sim_object(v, sim->noticed.oracle, "%s", sim->noticed.message);
    }
    sim->noticed.oracle = LLADD_SIM_O_NONE;
}

void ll_sim_cover_begin(struct ll_sim_cover *c, uint32_t level)
{
    c->level = level;
    for (uint32_t i = 0; i < c->count; i++)
        c->logical[i] &= (unsigned char)~UNDONE_HERE;
}

void ll_sim_cover_undone(const struct ll_sim_cover *c, char *out, size_t size)
{
    size_t len = 0;
    *out = '\0';
    for (uint32_t i = 0; i < c->count; i++) {
        if (!(c->logical[i] & UNDONE_HERE))
            continue;
        int n = snprintf(out + len, size - len, "%s%s", len ? ", " : "; undone: ", c->at[i].op);
        if (n < 0 || (size_t)n >= size - len) {
            out[len] = '\0'; /* whole names only */
            return;
        }
        len += (size_t)n;
    }
}

void ll_sim_cover_kinds(struct lladd_sim *sim, struct lladd_db *db)
{
    struct ll_sim_cover *c = &sim->cover;
    for (uint32_t i = 0; i < c->count; i++) {
        const struct lladd_op *op = lladd_op_descriptor(db, c->at[i].op, c->at[i].version);
        if (op && op->undo_kind == LLADD_UNDO_NONE)
            c->logical[i] |= NEVER_UNDONE;
    }
}

/* ---- missing paths ----------------------------------------------------------------------- */

static unsigned excused(const struct lladd_sim_subject *s, const char *op)
{
    unsigned paths = 0;
    for (const struct lladd_sim_excuse *x = s->excuses; x && x->op; x++)
        if (strcmp(x->op, "*") == 0 || strcmp(x->op, op) == 0)
            paths |= x->paths;
    return paths;
}

static bool wanted(const struct lladd_sim_subject *s, const struct lladd_sim_coverage *c)
{
    if (!s->operations)
        return c->runs > 0 && strncmp(c->op, LIBRARY, strlen(LIBRARY)) != 0;
    for (const char *const *op = s->operations; *op; op++)
        if (strcmp(*op, c->op) == 0)
            return true;
    return false;
}

static unsigned expected(const struct lladd_sim *sim, uint32_t i)
{
    unsigned all = (1u << LLADD_SIM_PATHS) - 1;
    unsigned logical = sim->cover.logical[i];
    if (!(logical & ON_PAGE))
        all &= ~(1u << LLADD_SIM_REDO);
    if (logical & NEVER_UNDONE)
        all &= ~(1u << LLADD_SIM_UNDO | 1u << LLADD_SIM_UNDO_PARTIAL);
    if (!(logical & UNDONE))
        all &= ~(1u << LLADD_SIM_REDO_CLR);
    for (unsigned d = 2; d <= 4; d++)
        if (sim->bounds.depth < d || (sim->sampled_from && d >= sim->sampled_from))
            all &= ~(1u << (LLADD_SIM_CRASH_1 + (d - 2)));
    return all & ~excused(&sim->subject, sim->cover.at[i].op);
}

static int object(struct lladd_sim *sim, const char *op, const char *what)
{
    struct ll_sim_verdict v = {0};
    (void)ll_sim_object(&v, LLADD_SIM_O_COVERAGE, "operation \"%s\": %s", op, what);
    return ll_sim_fail(sim, &v, 0, NULL);
}

static int judge_one(struct lladd_sim *sim, uint32_t i)
{
    struct lladd_sim_coverage *c = &sim->cover.at[i];
    char what[200] = "never reached:";
    size_t len = strlen(what);
    unsigned paths = expected(sim, i);
    for (unsigned p = 0; p < LLADD_SIM_PATHS; p++) {
        if (!(paths >> p & 1) || c->paths[p])
            continue;
        const char *name = lladd_sim_path_name((enum lladd_sim_path)p);
        c->missing |= 1u << p;
        what[len++] = ' ';
        memcpy(what + len, name, strlen(name) + 1);
        len += strlen(name);
    }
    return c->missing ? object(sim, c->op, what) : 0;
}

int ll_sim_cover_judge(struct lladd_sim *sim)
{
    const struct lladd_sim_subject *s = &sim->subject;
    int rc = 0;
    for (uint32_t i = 0; !rc && i < sim->cover.count; i++)
        if (wanted(s, &sim->cover.at[i]))
            rc = judge_one(sim, i);
    for (const char *const *op = s->operations; !rc && op && *op; op++) {
        bool met = false;
        for (uint32_t i = 0; i < sim->cover.count; i++)
            met |= strcmp(sim->cover.at[i].op, *op) == 0;
        if (!met)
            rc = object(sim, *op, "the workload never runs it");
    }
    return rc;
}

void ll_sim_cover_free(struct ll_sim_cover *c)
{
    for (uint32_t i = 0; i < c->count; i++)
        free((char *)(uintptr_t)c->at[i].op);
    free(c->at);
    free(c->name);
    free(c->logical);
    memset(c, 0, sizeof *c);
}
