/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * damage: changes bytes of the files without the library's knowledge, and judges whether the
 * library notices the change.
 *
 * The files are those that the workload leaves: after a close, after a kill at the end of the
 * workload or at an earlier point, and after a loss of power at the same points. The simulator does
 * one damage to the files. Then it takes three steps:
 *
 *   inspect the files                        Which findings are new?
 *   open the database and read it            Is it refused? Are the contents right?
 *   go on with the database and close it     Is the damage still there?
 *
 * The result is one of these:
 *
 *   repaired       The contents are right, and no damage is left.
 *   detected       The library has refused the files, or inspection has found the damage.
 *   harmless       The damaged bytes mean nothing (damage_place.c).
 *   undetectable   Nothing has noticed the damage, and no other byte reveals it; with a reason.
 *   WRONG          None of the above.
 *
 * If the contents are wrong although the library refuses nothing, a finding of inspection is enough
 * for `detected` only if the damaged bytes are valid: an old version, or all zeros. A reader of
 * such a page cannot detect the damage. The library must repair most damage to a page with a base
 * image in the log, and a flipped bit in a copy of the control block (is_repairable). If the
 * library refuses these files, the result is WRONG.
 */
#include "sim/damage_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { POINTS = 4, SITUATIONS = 1 + 2 * POINTS };

/* ---- files ------------------------------------------------------------------------------- */

int ll_sim_damage_image(struct ll_sim_damaging *d, struct ll_sim_arena *a, uint32_t calls,
                        uint32_t skip, bool power, struct ll_sim_image *out)
{
    struct lladd_sim *sim = d->sim;
    struct ll_sim_world world;
    struct ll_sim_run run;
    int rc = ll_sim_run_world(&sim->workload, a, &world);
    for (uint32_t c = 0; !rc && c < calls; c++)
        if (c != skip)
            rc = ll_sim_step(sim, a, &world, &sim->workload.trace[c], c);
    if (!rc && power)
        world.n_ops = 0;
    if (!rc)
        rc = ll_sim_run_init(sim, &run, a, 1, &world, NULL);
    if (!rc)
        rc = ll_sim_image_copy(a, &run.live, out);
    return rc;
}

bool ll_sim_damage_next(struct ll_sim_damaging *d, enum lladd_sim_damage_kind kind, int *rc)
{
    uint64_t at = d->at[kind]++;
    if (d->counting) {
        d->count[kind]++;
        return false;
    }
    if (*rc || d->sim->stop)
        return false;
    if (d->one ? d->one_kind != (uint32_t)kind || d->one_at != at
               : (at + d->number) % d->stride[kind] != 0)
        return false;
    struct ll_sim_arena *a = &d->sim->level[1].worlds;
    ll_sim_rewind(a);
    d->kind = kind;
    d->n_regions = 0;
    d->misread = false;
    d->image = ll_sim_take(a, sizeof *d->image);
    *rc = d->image ? ll_sim_image_copy(a, d->now.image, d->image) : LLADD_NO_MEMORY;
    return *rc == 0;
}

void ll_sim_damage_region(struct ll_sim_damaging *d, uint32_t name, uint64_t off, uint64_t len)
{
    if (d->n_regions < LL_SIM_REGIONS)
        d->region[d->n_regions++] = (struct ll_sim_region){name, off, len};
}

int ll_sim_damage_put(struct ll_sim_damaging *d, uint32_t name, uint64_t off, const void *bytes,
                      size_t len)
{
    struct ll_sim_arena *a = &d->sim->level[1].worlds;
    const struct ll_sim_binding *b = ll_sim_find(d->image, name);
    struct ll_sim_inode *inode = b ? ll_sim_own(a, d->image, b->inode) : NULL;
    if (!inode)
        return LLADD_NO_MEMORY;
    ll_sim_damage_region(d, name, off, len);
    return ll_sim_put(a, inode, off, bytes, len, false, false);
}

int ll_sim_damage_size(struct ll_sim_damaging *d, uint32_t name, uint64_t size)
{
    struct ll_sim_arena *a = &d->sim->level[1].worlds;
    const struct ll_sim_binding *b = ll_sim_find(d->image, name);
    struct ll_sim_inode *inode = b ? ll_sim_own(a, d->image, b->inode) : NULL;
    if (!inode)
        return LLADD_NO_MEMORY;
    if (size < inode->size)
        ll_sim_damage_region(d, name, size, inode->size - size);
    return ll_sim_set_size(a, inode, size, false);
}

int ll_sim_damage_gone(struct ll_sim_damaging *d, uint32_t name)
{
    ll_sim_damage_region(d, name, 0, UINT64_MAX / 2);
    ll_sim_unbind(d->image, name);
    return 0;
}

/* ---- looking ----------------------------------------------------------------------------- */

/* Does the error code say that stored bytes are wrong? */
static bool is_refusal(int code)
{
    enum lladd_root root = lladd_code_root(code);
    return root == LLADD_ROOT_DATA || code == LLADD_UNDO_FAILED || code == LLADD_NOT_A_DATABASE ||
           code == LLADD_NEWER_FORMAT || code == LLADD_WRONG_TYPE;
}

/* Are the damaged bytes valid in themselves: an old version, or zeros as in a page that was never
 * used? */
static bool is_stale(const struct ll_sim_damaging *d, const struct ll_sim_meaning *m)
{
    return d->kind == LLADD_SIM_DAMAGE_LOST || d->kind == LLADD_SIM_DAMAGE_OLDER ||
           d->kind == LLADD_SIM_DAMAGE_MISDIRECTED || (m->one_page && m->zeros);
}

struct outcome {
    struct ll_sim_meaning meaning;
    struct ll_sim_verdict verdict;
    /* damage, repair: 1 if inspection has new findings of this kind. end: end of the log. */
    uint64_t damage, repair, end;
    char finding[300];
    bool lingers; /* inspection still reports damage after the database was closed */
    bool healed;  /* no file contains the damaged bytes any more */
    enum lladd_sim_reason reason;
    const char *why; /* why the result is WRONG */
};

/* Must the library be able to repair this damage? `by_open`: open has refused the files.
 * Otherwise a read of the open database has failed. */
static bool is_repairable(const struct ll_sim_damaging *d, const struct ll_sim_meaning *m,
                          bool by_open)
{
    const struct ll_sim_situation *s = &d->now;
    if (d->kind == LLADD_SIM_DAMAGE_LOST || d->kind == LLADD_SIM_DAMAGE_OLDER ||
        d->kind == LLADD_SIM_DAMAGE_TRUNCATED || !m->solid)
        return false;
    if (m->one_page && m->page < s->n_pages) {
        /* Open has the whole log, and so have reads after a clean close. After a crash, the
         * checkpoint at the end of recovery may truncate the log before the start of redo. A later
         * read then needs a base at or after that start. */
        uint64_t base = s->page[m->page].base;
        bool whole = s->clean || by_open;
        return base && base >= (whole ? s->info.log_oldest.v : s->info.redo.v) && !m->zeros;
    }
    return d->kind == LLADD_SIM_DAMAGE_FLIP && d->n_regions == 1 &&
           strcmp(d->sim->names.at[d->region[0].name].text, "control") == 0;
}

/* Is this a damage that nothing in the remaining files can reveal? */
static bool is_hidden(const struct ll_sim_damaging *d, struct outcome *o)
{
    const struct ll_sim_meaning *m = &o->meaning;
    if (!is_stale(d, &o->meaning))
        return false;
    if (m->page != UINT64_MAX && m->page_lsn < d->now.info.log_oldest.v) {
        o->reason = LLADD_SIM_REASON_UNPROVED;
        return true;
    }
    if (m->bulk) {
        o->reason = LLADD_SIM_REASON_BULK;
        return true;
    }
    if (d->misread && m->one_page && m->zeros) {
        o->reason = LLADD_SIM_REASON_ZEROS;
        return true;
    }
    if (d->kind == LLADD_SIM_DAMAGE_OLDER && m->page == UINT64_MAX &&
        ll_sim_damage_newest(d, d->image) < o->end) {
        o->reason = LLADD_SIM_REASON_WHOLE;
        return true;
    }
    return false;
}

static bool is_meaningless(struct outcome *o)
{
    const struct ll_sim_meaning *m = &o->meaning;
    for (unsigned r = 0; !m->solid && r < LLADD_SIM_REASONS; r++)
        if (m->reasons >> r & 1) {
            o->reason = (enum lladd_sim_reason)r;
            return true;
        }
    return false;
}

static enum lladd_sim_damage_end classify(struct ll_sim_damaging *d, struct outcome *o)
{
    struct lladd_sim_damage_report *r = d->report;
    bool told = o->damage || o->repair;
    o->reason = LLADD_SIM_REASONS;
    if (o->verdict.oracle == LLADD_SIM_O_NONE) {
        if (told && o->lingers) {
            r->by_inspection++;
            return LLADD_SIM_DETECTED;
        }
        if (told)
            return LLADD_SIM_REPAIRED;
        if (is_meaningless(o))
            return LLADD_SIM_HARMLESS;
        if (d->misread)
            return LLADD_SIM_REPAIRED;
        if (o->healed)
            return LLADD_SIM_REPAIRED;
        if (is_hidden(d, o))
            return LLADD_SIM_UNDETECTABLE;
        o->why = "nothing has detected it, and it is still there";
        return LLADD_SIM_WRONG;
    }
    if (is_refusal(o->verdict.code)) {
        o->why = "open refuses it, and inspection finds no damage";
        if (o->verdict.oracle == LLADD_SIM_O_OPEN && !o->damage && !d->misread)
            return LLADD_SIM_WRONG;
        o->why = "the library must be able to repair it, and has refused it";
        if (is_repairable(d, &o->meaning, o->verdict.oracle == LLADD_SIM_O_OPEN))
            return LLADD_SIM_WRONG;
        o->why = "a page in use has become zeros, and the error code blames the caller";
        if (o->verdict.code == LLADD_WRONG_TYPE && o->meaning.one_page && o->meaning.zeros)
            return LLADD_SIM_WRONG;
        if (o->verdict.oracle == LLADD_SIM_O_OPEN)
            r->by_open++;
        else
            r->by_read++;
        return LLADD_SIM_DETECTED;
    }
    if (told && is_stale(d, &o->meaning)) {
        r->by_inspection++;
        return LLADD_SIM_DETECTED;
    }
    if (is_hidden(d, o))
        return LLADD_SIM_UNDETECTABLE;
    o->why = told ? "only inspection has detected it" : "nothing has detected it";
    return LLADD_SIM_WRONG;
}

/* Compares bytes [from, to) of three states of a file: before the damage (`was`), just after it
 * (`bad`) and now (`is`). Returns true if `is` equals `bad` and differs from `was`. */
static bool is_as_damaged(const struct ll_sim_inode *bad, const struct ll_sim_inode *was,
                          const struct ll_sim_inode *is, uint64_t from, uint64_t to)
{
    unsigned char a[512], b[512], c[512];
    bool differs = false;
    for (uint64_t at = from; at < to; at += sizeof a) {
        size_t n = to - at < sizeof a ? (size_t)(to - at) : sizeof a;
        size_t x = ll_sim_get(bad, at, a, n), y = ll_sim_get(is, at, b, n);
        size_t z = ll_sim_get(was, at, c, n);
        if (x != y || memcmp(a, b, x) != 0)
            return false;
        differs |= x != z || memcmp(a, c, x) != 0;
    }
    return differs;
}

/* Do these files still contain damaged bytes? In the page file, compares whole pages: when recovery
 * changes a page, one of its sectors may rightly become equal to the damaged sector. */
static bool is_there_still(const struct ll_sim_damaging *d, const struct ll_sim_image *image)
{
    for (uint32_t i = 0; i < d->n_regions; i++) {
        const struct ll_sim_region *r = &d->region[i];
        const struct ll_sim_binding *is = ll_sim_find(image, r->name);
        const struct ll_sim_binding *bad = ll_sim_find(d->image, r->name);
        const struct ll_sim_binding *was = ll_sim_find(d->now.image, r->name);
        if (!is || !bad || !was || bad->inode == LL_SIM_DIRECTORY)
            continue;
        bool pages = d->sim->names.at[r->name].kind == LL_SIM_PAGES;
        uint64_t unit = pages ? d->sim->page_size : LL_SIM_SECTOR;
        uint64_t size = d->now.image->inode[was->inode]->size;
        uint64_t end = r->len < size - r->off ? r->off + r->len : size;
        for (uint64_t at = r->off - r->off % unit; r->off < size && at < end; at += unit)
            if (!(pages && ll_sim_damage_unused(&d->now, at / unit)) &&
                is_as_damaged(d->image->inode[bad->inode], d->now.image->inode[was->inode],
                              image->inode[is->inode], at, at + unit))
                return true;
    }
    return false;
}

static void wrong_read(void *ctx, struct ll_sim_run *run, uint32_t inode, uint64_t off,
                       unsigned char *bytes, size_t len)
{
    struct ll_sim_damaging *d = ctx;
    const struct ll_sim_binding *b = ll_sim_find(&run->live, d->read_name);
    if (!d->misread || !b || b->inode != inode || d->read_off < off || d->read_off >= off + len)
        return;
    size_t at = (size_t)(d->read_off - off);
    if (d->read_bit)
        bytes[at] ^= d->read_bit;
    else
        (void)ll_sim_get(run->live.inode[inode], d->read_from, bytes + at,
                         len - at < d->sim->page_size ? len - at : d->sim->page_size);
    d->sim->after_read = NULL; /* only one read goes wrong */
}

/* Opens the damaged files and runs the oracles. */
static int judge(struct ll_sim_damaging *d, struct outcome *o)
{
    struct lladd_sim *sim = d->sim;
    struct ll_sim_run run;
    struct ll_sim_claim claim = d->now.claim;
    uint32_t open_calls;
    bool ending;
    if (o->meaning.tail != UINT64_MAX) {
        uint32_t less = ll_sim_damage_decisions_from(&d->now, o->meaning.tail);
        claim.lo = claim.lo > less ? claim.lo - less : 0;
    }
    ll_sim_rewind(&sim->level[1].runs);
    int rc = ll_sim_run_on(sim, &sim->level[1].runs, d->image, &run);
    if (rc)
        return rc;
    sim->after_read = d->misread ? wrong_read : NULL;
    sim->read_ctx = d;
    ll_sim_set_free(&sim->endings); /* so that all oracles run */
    rc = ll_sim_judge(sim, &run, &claim, &o->verdict, &open_calls, &ending);
    bool fired = sim->after_read == NULL;
    sim->after_read = NULL;
    if (rc)
        return rc;
    if (d->misread && !fired)
        d->misread = false; /* no call has read these bytes, so no damage was done */
    o->healed = !is_there_still(d, &run.live);
    if (o->verdict.oracle == LLADD_SIM_O_NONE && d->image == d->now.image)
        return ll_sim_damage_learn_after(d, &run.live);
    if (o->verdict.oracle == LLADD_SIM_O_NONE && (o->damage || o->repair)) {
        struct ll_sim_found found;
        rc = ll_sim_inspect(sim, &run.live, &found, NULL);
        o->lingers = found.damage > 0;
    }
    return rc;
}

static int failed(struct ll_sim_damaging *d, struct outcome *o)
{
    struct ll_sim_verdict v = {0};
    struct ll_sim_vector vector = {.kind = LL_SIM_TOKEN_DAMAGE,
                                   .flags = d->sim->bounds.flags,
                                   .recording = d->sim->record.hash & 0xffffff,
                                   .seed = d->sim->bounds.seed,
                                   .count = 3,
                                   .value = {d->number, d->kind, (uint32_t)d->at[d->kind] - 1}};
    enum lladd_sim_oracle oracle = o->verdict.oracle ? o->verdict.oracle : LLADD_SIM_O_CONTENTS;
    (void)ll_sim_object(&v, oracle, "%s; %s: %s%s%s", d->now.what, d->what, o->why,
                        o->verdict.oracle ? "; " : "", o->verdict.oracle ? o->verdict.message : "");
    ll_sim_tell(d->sim, "%s objects: %s", lladd_sim_oracle_name(oracle), v.message);
    int rc = ll_sim_fail(d->sim, &v, 0, &vector);
    if (d->sim->report->n_failures >= d->sim->bounds.failures)
        d->sim->stop = true;
    return rc;
}

static void look_at_clock(struct lladd_sim *sim)
{
    if (sim->bounds.milliseconds &&
        ll_sim_now() - sim->started >= sim->bounds.milliseconds * 1000000)
        sim->stop = true;
}

int ll_sim_damage_try(struct ll_sim_damaging *d, const char *fmt, ...)
{
    struct outcome o = {.why = ""};
    struct ll_sim_found found;
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(d->what, sizeof d->what, fmt, args);
    va_end(args);
    ll_sim_damage_meaning(d, &o.meaning);
    look_at_clock(d->sim);
    if (!o.meaning.differs)
        return 0;
    int rc = 0;
    ll_sim_tell(d->sim, "Files %s, then %s:", d->now.what, d->what);
    if (!d->misread) {
        rc = ll_sim_inspect(d->sim, d->image, &found, NULL);
        o.damage = found.damage > d->now.damage;
        o.repair = found.repair > d->now.repair;
        o.end = found.end;
        memcpy(o.finding, found.text, sizeof o.finding);
    }
    if (!rc)
        rc = judge(d, &o);
    if (rc)
        return rc;
    enum lladd_sim_damage_end end = classify(d, &o);
    struct lladd_sim_damage_report *r = d->report;
    r->done++;
    r->counts[d->kind][end]++;
    if (o.reason != LLADD_SIM_REASONS)
        r->reasons[o.reason]++;
    ll_sim_tell(d->sim, "  %s", lladd_sim_damage_end_name(end));
    return end == LLADD_SIM_WRONG ? failed(d, &o) : 0;
}

/* ---- situations -------------------------------------------------------------------------- */

/* Sets d->now to situation number `number`. Returns false if the bounds exclude it. */
static bool situation(struct ll_sim_damaging *d, uint32_t number)
{
    struct lladd_sim *sim = d->sim;
    struct ll_sim_situation *s = &d->now;
    const struct ll_sim_record *r = &sim->record;
    *s = (struct ll_sim_situation){.what = "closed", .clean = true};
    d->number = number;
    memset(d->at, 0, sizeof d->at);
    if (number == 0) {
        s->calls = sim->workload.n_calls;
        s->claim.lo = s->claim.hi = r->n_decisions;
        return true;
    }
    uint32_t point = (number - 1) / 2, span = r->run_end - r->run_at;
    s->clean = false;
    s->power = number % 2 == 0;
    s->what = s->power ? "without power" : "killed";
    s->calls = r->run_end - (uint32_t)((uint64_t)span * point / POINTS);
    ll_sim_allowed(r, s->calls, !s->power, &s->claim.lo, &s->claim.hi);
    return !(sim->bounds.flags & (s->power ? LLADD_SIM_NO_POWER : LLADD_SIM_NO_KILL));
}

/* Runs all checks on the undamaged files. They must pass. Otherwise the results with damage would
 * mean nothing. */
static int undamaged(struct ll_sim_damaging *d)
{
    struct outcome o = {.why = "without any damage", .meaning.tail = UINT64_MAX};
    struct lladd_sink *history = d->sim->history;
    d->image = d->now.image;
    d->n_regions = 0;
    d->misread = false;
    d->sim->history = NULL;
    int rc = judge(d, &o);
    d->sim->history = history;
    if (!rc && d->now.damage)
        o.why = "inspection finds damage where there is none";
    if (rc || (o.verdict.oracle == LLADD_SIM_O_NONE && !d->now.damage))
        return rc;
    d->sim->stop = true;
    (void)snprintf(d->what, sizeof d->what, "as they are");
    return failed(d, &o);
}

static int pass(struct ll_sim_damaging *d)
{
    struct lladd_sim *sim = d->sim;
    int rc = 0;
    for (uint32_t i = 0; !rc && !sim->stop && i < SITUATIONS; i++) {
        look_at_clock(sim);
        if (!situation(d, i) || (d->one && d->one_situation != i))
            continue;
        struct ll_sim_arena *a = &sim->level[2].worlds;
        ll_sim_rewind(a);
        d->now.image = ll_sim_take(a, sizeof *d->now.image);
        rc = d->now.image
                 ? ll_sim_damage_image(d, a, d->now.calls, UINT32_MAX, d->now.power, d->now.image)
                 : LLADD_NO_MEMORY;
        if (!rc)
            rc = ll_sim_damage_learn(d);
        if (!rc)
            rc = undamaged(d);
        if (!rc && !sim->stop)
            rc = ll_sim_damage_all(d);
    }
    return rc;
}

/* Computes the strides. With a stride of n, only every n-th damage of a kind is tried, so that each
 * kind gets an equal share of the states. */
static void choose(struct ll_sim_damaging *d)
{
    uint64_t share = d->sim->bounds.states / LLADD_SIM_DAMAGE_KINDS + 1;
    for (unsigned k = 0; k < LLADD_SIM_DAMAGE_KINDS; k++) {
        d->report->possible += d->count[k];
        d->stride[k] = d->sim->bounds.states && d->count[k] > share ? d->count[k] / share : 1;
    }
}

/* Makes another database of the same subject, for foreign files. */
static int make_other(struct ll_sim_damaging *d, struct lladd_error *err)
{
    struct lladd_sim_bounds b = d->sim->bounds;
    struct lladd_error own;
    b.seed++;
    int rc = ll_sim_new(&d->sim->subject, &b, &d->other, err);
    if (rc)
        return rc;
    struct lladd_dst *before = lladd_dst_enter(&d->other->dst);
    rc = ll_sim_record_first(d->other, &own, err);
    (void)lladd_dst_enter(before); /* leaves the other simulator's environment */
    return rc;
}

static int damage_all(struct ll_sim_damaging *d, struct lladd_error *err)
{
    struct lladd_sim *sim = d->sim;
    struct lladd_error own;
    int rc = ll_sim_record_first(sim, &own, err);
    sim->dst.observe = NULL;
    if (!rc)
        rc = make_other(d, err);
    if (rc)
        return rc;
    d->counting = true;
    rc = pass(d);
    choose(d);
    d->counting = false;
    if (!rc)
        rc = pass(d);
    d->report->complete = !sim->stop;
    for (unsigned k = 0; k < LLADD_SIM_DAMAGE_KINDS; k++)
        d->report->complete &= d->stride[k] == 1;
    return rc ? lladd_error_set(err, rc, "damaging subject \"%s\" failed: %s", sim->subject.name,
                                lladd_code_text(rc))
              : 0;
}

int ll_sim_damage_replay(struct lladd_sim *sim, const struct ll_sim_vector *v,
                         struct lladd_sink *history, struct lladd_error *err)
{
    struct lladd_sim_damage_report report = {.struct_size = sizeof report};
    struct ll_sim_damaging *d = calloc(1, sizeof *d);
    struct lladd_error own;
    if (!d)
        return lladd_error_set(err, LLADD_NO_MEMORY, "no memory for the simulator");
    *d = (struct ll_sim_damaging){.sim = sim,
                                  .report = &report,
                                  .one = true,
                                  .one_situation = v->value[0],
                                  .one_kind = v->value[1],
                                  .one_at = v->value[2]};
    int rc = ll_sim_record_first(sim, &own, err);
    sim->dst.observe = NULL;
    if (!rc && (sim->record.hash & 0xffffff) != v->recording)
        rc = ll_sim_other_recording(err);
    if (!rc)
        rc = make_other(d, err);
    sim->history = history;
    if (!rc)
        rc = pass(d);
    sim->history = NULL;
    if (sim->report->n_failures && !ll_sim_token_encode(&sim->subject, v, sim->failures[0].token))
        sim->failures[0].token[0] = '\0';
    if (d->other)
        ll_sim_free(d->other);
    free(d);
    return rc;
}

/* ---- entry point ------------------------------------------------------------------------- */

/* Moves the failures to the report. */
static void hand_over(struct ll_sim_damaging *d)
{
    struct lladd_sim *sim = d->sim;
    struct lladd_sim_damage_report *r = d->report;
    for (uint32_t i = 0; i < sim->report->n_failures; i++)
        if (!ll_sim_token_encode(&sim->subject, &sim->vectors[i], sim->failures[i].token))
            sim->failures[i].token[0] = '\0';
    r->n_failures = sim->report->n_failures;
    r->failures = sim->failures;
    r->nanoseconds = ll_sim_now() - sim->started;
    sim->failures = NULL;
}

int lladd_sim_damage(const struct lladd_sim_subject *subject, const struct lladd_sim_bounds *bounds,
                     struct lladd_sim_damage_report **out, struct lladd_error *err)
{
    *out = NULL;
    struct ll_sim_damaging *d = calloc(1, sizeof *d);
    struct lladd_sim_damage_report *r = calloc(1, sizeof *r);
    int rc = d && r ? ll_sim_new(subject, bounds, &d->sim, err)
                    : lladd_error_set(err, LLADD_NO_MEMORY, "no memory for the simulator");
    if (!rc) {
        *r =
            (struct lladd_sim_damage_report){.struct_size = sizeof *r, .seed = d->sim->bounds.seed};
        memcpy(r->subject, d->sim->report->subject, sizeof r->subject);
        d->report = r;
        struct lladd_dst *before = lladd_dst_enter(&d->sim->dst);
        rc = damage_all(d, err);
        (void)lladd_dst_enter(before);
        if (!rc)
            hand_over(d);
        if (d->other)
            ll_sim_free(d->other);
        ll_sim_free(d->sim);
    }
    if (!rc)
        *out = r;
    else
        free(r);
    free(d);
    return rc;
}
