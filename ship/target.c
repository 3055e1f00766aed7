/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds the backup and the log for a target. The backup is the one with the highest end that is not
 * above the target. The log is that from the backup to the target, on the target's timeline and its
 * ancestors.
 *
 * The log is read once, record by record, before anything is written. So a restore that begins to
 * write has all that it needs, except for bytes that the store loses meanwhile. */
#include "ship/image_private.h"

#include <lladd/dst.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct search {
    struct ll_ship_past archive;
    struct lladd_restore_target to;
    uint32_t timeline;
    struct ll_ship_buf steps;  /* elements are struct ll_ship_step */
    uint64_t lsn;              /* LSN of the target. If the target is a time, find_time sets it */
    struct ll_ship_image base; /* the log that is stored in the backup */
    struct lladd_error *err;
};

void ll_ship_goal_free(struct ll_ship_goal *g)
{
    ll_ship_facts_free(&g->facts);
    ll_ship_laid_free(&g->laid);
}

/* ---- what can be restored ------------------------------------------------------------------- */

static const struct lladd_backup_info *base_at(const struct ll_ship_past *a, size_t i)
{
    return (const struct lladd_backup_info *)(const void *)a->bases.data + i;
}

static size_t bases(const struct ll_ship_past *a)
{
    return a->bases.len / sizeof(struct lladd_backup_info);
}

/* Returns the backup with the lowest end above `above` on the path `steps` (the timeline of the
 * target and its ancestors); NULL if there is none. */
static const struct lladd_backup_info *next_base(const struct ll_ship_past *a,
                                                 const struct ll_ship_buf *steps, uint64_t above)
{
    const struct lladd_backup_info *best = NULL;
    for (size_t i = 0; i < bases(a); i++) {
        const struct lladd_backup_info *b = base_at(a, i);
        if (b->end.v > above && ll_ship_on_path(steps, b->timeline, b->end.v) &&
            (!best || b->end.v < best->end.v))
            best = b;
    }
    return best;
}

int ll_ship_ranges(struct ll_ship_past *a, const struct ll_ship_buf *steps, struct ll_ship_buf *out,
                   struct lladd_error *err)
{
    const struct lladd_backup_info *b;
    struct ll_ship_reach r = {0, 0};
    int rc = 0;
    while (!rc && (b = next_base(a, steps, r.end)) != NULL) {
        r.from = b->end.v;
        rc = ll_ship_past_reach(a, steps, r.from, &r.end, err);
        if (!rc)
            rc = ll_ship_append(out, &r, sizeof r, err);
    }
    return rc;
}

/* Writes the ranges as text to `out`. If `size` is too small for all of them, writes "..." and the
 * last ranges. */
static void write_ranges(const struct ll_ship_buf *ranges, char *out, size_t size)
{
    const struct ll_ship_reach *r = (const void *)ranges->data;
    size_t n = ranges->len / sizeof *r, first = n, used = 0;
    char one[64];
    while (first > 0) {
        int len = snprintf(one, sizeof one, ", %llu-%llu", (unsigned long long)r[first - 1].from,
                           (unsigned long long)r[first - 1].end);
        if (used + (size_t)len + sizeof "... " > size)
            break;
        used += (size_t)len;
        first--;
    }
    used = (size_t)snprintf(out, size, "%s", first ? "..." : n ? "" : "nothing");
    for (size_t i = first; i < n; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%llu-%llu", used ? ", " : "",
                                 (unsigned long long)r[i].from, (unsigned long long)r[i].end);
}

static int fail_damage(struct search *s)
{
    if (s->err)
        *s->err = s->archive.damage;
    return s->archive.damage.code;
}

static int refuse(struct search *s, const char *fmt, ...) LLADD_PRINTF(2, 3);
static int refuse(struct search *s, const char *fmt, ...)
{
    struct ll_ship_buf ranges = {.mem = s->archive.mem};
    char why[120], can[100];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    int rc = ll_ship_ranges(&s->archive, &s->steps, &ranges, s->err);
    if (!rc)
        write_ranges(&ranges, can, sizeof can);
    ll_ship_buf_free(&ranges);
    return rc ? rc
              : lladd_error_set(s->err, LLADD_OUT_OF_RANGE, "%s; LSNs that can be restored: %s",
                                why, can);
}

/* ---- the backup ----------------------------------------------------------------------------- */

/* Returns a backup that cannot be used, and that may be complete above the LSN and at the target;
 * NULL: there is none. */
static const struct ll_ship_broken *might_serve(const struct search *s, uint64_t above)
{
    const struct ll_ship_broken *b = (const void *)s->archive.broken.data;
    for (size_t i = 0; i < s->archive.broken.len / sizeof *b; i++)
        if (b[i].timeline == UINT32_MAX ||
            (b[i].redo >= above && (s->to.kind == LLADD_TO_TIME || b[i].redo <= s->lsn) &&
             ll_ship_on_path(&s->steps, b[i].timeline, b[i].redo)))
            return &b[i];
    return NULL;
}

/* Finds the backup of this name. Without a name, finds the one that ended last: it says on which
 * timeline the target is, if the caller does not say it. */
static int named_base(struct search *s, const char *name, const struct lladd_backup_info **out)
{
    const struct ll_ship_past *a = &s->archive;
    const struct ll_ship_broken *b = (const void *)a->broken.data;
    *out = bases(a) ? base_at(a, bases(a) - 1) : NULL;
    for (size_t i = 0; name && i < bases(a); i++) {
        *out = base_at(a, i);
        if (strcmp((*out)->name, name) == 0)
            return 0;
    }
    for (size_t i = 0; name && i < a->broken.len / sizeof *b; i++)
        if (strcmp(b[i].name, name) == 0)
            return ll_ship_broken_fail(&b[i], s->err);
    const struct ll_ship_broken *later = ll_ship_broken_newest(&a->bases, &a->broken);
    if (!name && later && (!*out || (!s->to.timeline && later->timeline != (*out)->timeline)))
        return ll_ship_broken_fail(later, s->err);
    if (name || !*out)
        return lladd_error_set(s->err, LLADD_NOT_FOUND, "no complete backup%s%.100s%s",
                               name ? " is called \"" : "", name ? name : " is in the store",
                               name ? "\"" : "");
    return 0;
}

/* Finds the LSN of the target's mark. */
static int find_mark(struct search *s)
{
    char name[LL_SHIP_NAME_MAX];
    uint64_t lsn;
    int64_t when;
    int rc = LLADD_NOT_FOUND;
    for (size_t i = 0; rc == LLADD_NOT_FOUND && i < s->steps.len / sizeof(struct ll_ship_step);
         i++) {
        const struct ll_ship_step *step = (const struct ll_ship_step *)(void *)s->steps.data + i;
        (void)snprintf(name, sizeof name, "t%08x/mark/%.65s", step->timeline, s->to.mark);
        rc = ll_ship_name_ok(name) ? ll_ship_past_mark(&s->archive, name, &lsn, &when, s->err)
                                   : LLADD_NOT_FOUND;
        if (!rc && lsn > step->top) /* the mark was made after the fork */
            rc = LLADD_NOT_FOUND;
        else if (!rc)
            s->lsn = lsn;
    }
    return rc == LLADD_NOT_FOUND ? lladd_error_set(s->err, rc, "timeline %u has no mark \"%.65s\"",
                                                   s->timeline, s->to.mark)
                                 : rc;
}

/* Refuses the end of the log if a backup that cannot be used may have a higher end than all that is
 * left. */
static int check_end(const struct search *s)
{
    const struct ll_ship_broken *b = (const void *)s->archive.broken.data;
    for (size_t i = 0; i < s->archive.broken.len / sizeof *b; i++)
        if (b[i].timeline == s->timeline && b[i].redo >= s->lsn)
            return ll_ship_broken_fail(&b[i], s->err);
    return 0;
}

/* `any`: the caller has not named a backup, and `named` is the one that ended last. */
static int place_target(struct search *s, const struct lladd_backup_info *named, bool any)
{
    int rc = 0;
    s->timeline = s->to.timeline ? s->to.timeline : named->timeline;
    struct ll_ship_fork fork;
    if (s->to.timeline)
        rc = ll_ship_past_fork(&s->archive, s->timeline, &fork, s->err);
    if (rc == LLADD_NOT_FOUND)
        return lladd_error_set(s->err, rc, "the store has no timeline %u", s->timeline);
    if (!rc)
        rc = ll_ship_past_path(&s->archive, s->timeline, &s->steps, s->err);
    s->lsn = s->to.lsn.v;
    if (!rc && s->to.kind == LLADD_TO_MARK)
        rc = find_mark(s);
    if (rc || s->to.kind != LLADD_TO_END)
        return rc;
    rc = ll_ship_past_top(&s->archive, &s->steps, &s->lsn, s->err);
    for (size_t i = 0; i < bases(&s->archive); i++) {
        const struct lladd_backup_info *b = base_at(&s->archive, i);
        if (b->timeline == s->timeline && b->end.v > s->lsn)
            s->lsn = b->end.v;
    }
    return rc || !any ? rc : check_end(s);
}

static int choose_base(struct search *s, const char *name, const struct lladd_backup_info **out)
{
    const struct lladd_backup_info *named = *out;
    const struct ll_ship_past *a = &s->archive;
    *out = NULL;
    for (size_t i = 0; i < bases(a); i++) {
        const struct lladd_backup_info *b = base_at(a, i);
        bool then = s->to.kind == LLADD_TO_TIME ? b->ended_us <= s->to.time_us : b->end.v <= s->lsn;
        if (then && ll_ship_on_path(&s->steps, b->timeline, b->end.v) && (!name || b == named) &&
            (!*out || b->end.v >= (*out)->end.v))
            *out = b;
    }
    if (*out)
        return 0;
    const struct ll_ship_broken *broken = name ? NULL : might_serve(s, 0);
    if (broken)
        return ll_ship_broken_fail(broken, s->err);
    if (s->to.kind == LLADD_TO_TIME)
        return refuse(s, "%s%.63s%s ended at that time", name ? "backup \"" : "no backup",
                      name ? name : "", name ? "\" had not" : " had");
    if (name)
        return refuse(s, "backup \"%.63s\" is not complete at LSN %llu of timeline %u", name,
                      (unsigned long long)s->lsn, s->timeline);
    return refuse(s, "no backup is complete at LSN %llu of timeline %u", (unsigned long long)s->lsn,
                  s->timeline);
}

/* ---- the log -------------------------------------------------------------------------------- */

/* Puts segments into `out`: first those of the backup that precede the archived segments, then the
 * archived segments (`down`, in descending order). */
static int assemble(struct search *s, const struct ll_ship_image *down, struct ll_ship_image *out)
{
    size_t n = ll_ship_image_segments(down);
    uint64_t cut = n ? ll_ship_image_at(down, n - 1)->cut : UINT64_MAX;
    int rc = 0;
    for (size_t i = 0; i < ll_ship_image_segments(&s->base) && !rc; i++)
        if (ll_ship_image_at(&s->base, i)->first < cut)
            rc = ll_ship_image_take(out, &s->base, i, s->err);
    for (size_t i = n; i > 0 && !rc; i--)
        rc = ll_ship_image_take(out, down, i - 1, s->err);
    return rc;
}

/* Sets the limit of each segment to the next segment's cut. Sets the limit of the last segment to
 * the end of its bytes. */
static int set_limits(struct ll_ship_image *im, struct lladd_error *err)
{
    size_t n = ll_ship_image_segments(im);
    char name[LL_SHIP_NAME_MAX];
    for (size_t i = 0; i < n; i++) {
        struct ll_ship_image_segment *at = ll_ship_image_at(im, i);
        uint64_t have = ll_ship_image_have(im, i);
        at->limit = i + 1 < n ? ll_ship_image_at(im, i + 1)->cut : have;
        if (at->limit > have && LLADD_PLANTED(LLADD_BUG_GAP_PASSED))
            at->limit = have;
        if (at->limit >= at->first && at->limit <= have)
            continue;
        ll_ship_image_name(im, i, at->first, name);
        return ll_ship_corrupt(err, name, "its log does not end where the next segment says");
    }
    return 0;
}

/* Removes the log above the target. */
static void cut_image(struct ll_ship_image *im, uint64_t end)
{
    while (ll_ship_image_segments(im) > 1 &&
           ll_ship_image_at(im, ll_ship_image_segments(im) - 1)->first > end)
        ll_ship_image_drop(im);
    ll_ship_image_at(im, ll_ship_image_segments(im) - 1)->limit = end;
}

static int read_heads(struct ll_ship_image *im, struct lladd_error *err)
{
    int rc = 0;
    for (size_t i = 0; i < ll_ship_image_segments(im) && !rc; i++)
        rc = ll_ship_image_head(im, i, err);
    return rc;
}

static const struct ll_ship_piece *piece_of(const struct ll_ship_image *im, size_t segment)
{
    return (const struct ll_ship_piece *)(void *)im->pieces.data +
           ll_ship_image_at(im, segment)->piece;
}

/* Notes what the index of an archived segment says, if there is one: no restore needs it. */
static int take_index(struct search *s, struct ll_ship_image *im, size_t segment, bool first)
{
    struct lladd_error why = LLADD_ERROR_INIT;
    struct ll_ship_index ix;
    struct ll_ship_image_segment *seg = ll_ship_image_at(im, segment);
    int rc = ll_ship_index_read(im->store, im->mem, piece_of(im, segment)->timeline,
                                lladd_lsn_of(seg->first), &ix, &why);
    if (ll_ship_unusable(rc))
        return 0;
    if (rc && s->err)
        *s->err = why;
    if (rc)
        return rc;
    if (first)
        seg->start = ix.start.v;
    else
        seg->next = ix.next.v;
    ll_ship_index_free(&ix);
    return 0;
}

/* Notes where the first record of the image begins and where the last one ends. No other object
 * shows that damage has removed them. A piece ends after a record. */
static int know_ends(struct search *s, struct ll_ship_image *im)
{
    size_t last = ll_ship_image_segments(im) - 1;
    int rc = 0;
    if (piece_of(im, 0)->source == LL_SHIP_IN_SEGMENT)
        rc = take_index(s, im, 0, true);
    if (piece_of(im, last)->source == LL_SHIP_IN_PART)
        ll_ship_image_at(im, last)->next = ll_ship_image_have(im, last);
    else if (!rc && piece_of(im, last)->source == LL_SHIP_IN_SEGMENT)
        rc = take_index(s, im, last, false);
    return rc;
}

/* Assembles the log from the backup's begin to the target. */
static int collect(struct search *s, const struct ll_ship_manifest *m, struct ll_ship_image *im)
{
    uint64_t reached = m->info.end.v;
    struct ll_ship_image down = {.store = NULL};
    int rc = 0;
    ll_ship_image_free(im);
    ll_ship_image_init(im, s->archive.mem, s->archive.store, m->info.uuid);
    ll_ship_image_init(&down, s->archive.mem, s->archive.store, m->info.uuid);
    if (s->lsn > reached)
        rc = ll_ship_past_chain(&s->archive, &s->steps, m->info.end.v, &s->lsn, &down, &reached,
                                s->err);
    const struct ll_ship_broken *broken = rc ? NULL : might_serve(s, m->info.end.v);
    if (!rc && reached > m->info.end.v && broken)
        rc = ll_ship_broken_fail(broken, s->err);
    else if (!rc && reached > m->info.end.v)
        rc = refuse(s, "the log before LSN %llu of timeline %u is not stored",
                    (unsigned long long)reached, s->timeline);
    memcpy(im->base, m->info.name, sizeof im->base);
    if (!rc)
        rc = assemble(s, &down, im);
    ll_ship_image_free(&down);
    if (!rc)
        rc = set_limits(im, s->err);
    return rc || !ll_ship_image_segments(im) ? rc : know_ends(s, im);
}

int ll_ship_collect(const struct ll_ship_past *past, const struct ll_ship_buf *steps,
                    uint32_t timeline, const struct ll_ship_manifest *m, uint64_t to,
                    struct ll_ship_image *im, struct lladd_error *err)
{
    struct search s = {
        .archive = *past, .steps = *steps, .timeline = timeline, .lsn = to, .err = err};
    ll_ship_image_init(&s.base, past->mem, past->store, m->info.uuid);
    int rc = ll_ship_image_of_base(&s.base, m, err);
    if (!rc)
        rc = read_heads(&s.base, err);
    if (!rc)
        rc = collect(&s, m, im);
    ll_ship_image_free(&s.base);
    return rc;
}

/* Finds the LSN of the target time. */
static int find_time(struct search *s, const struct ll_ship_manifest *m, struct ll_ship_image *im)
{
    struct ll_ship_clock clock = {.target_us = s->to.time_us};
    struct ll_ship_facts facts = {.end = 0};
    char text[40] = "none";
    struct tm tm;
    int rc = ll_ship_past_reach(&s->archive, &s->steps, m->info.end.v, &s->lsn, s->err);
    if (!rc)
        rc = collect(s, m, im);
    if (!rc)
        rc = ll_ship_replay(im, m->info.from.v, m->info.end.v, s->lsn, &clock, &facts, s->err);
    ll_ship_facts_free(&facts);
    if (rc)
        return rc;
    time_t last = (time_t)(clock.last_us / 1000000);
    if (clock.last_us && gmtime_r(&last, &tm))
        (void)strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &tm);
    if (!clock.later && s->archive.damage.code) /* a later mark may be in what is damaged */
        return fail_damage(s);
    if (!clock.later)
        return refuse(s, "no mark is later than that time; the last one: %s", text);
    s->lsn = clock.lsn > m->info.end.v ? clock.lsn : m->info.end.v;
    return 0;
}

struct stored {
    struct search *s;
    struct ll_ship_laid *laid;
};

static int see_spool(void *ctx, const char *name, uint64_t size)
{
    const struct stored *f = ctx;
    const char *spool = strstr(name, "/bulk/");
    (void)size;
    return spool && strstr(spool, ".0000.blk")
               ? ll_ship_lay(f->laid, &f->s->steps, strtoull(spool + strlen("/bulk/"), NULL, 16),
                             f->s->err)
               : 0;
}

/* For a planted bug: lays each spool in the store, whether its transaction has committed or not. */
static int lay_stored(struct search *s, struct ll_ship_laid *laid)
{
    struct stored f = {s, laid};
    struct lladd_store *store = s->archive.store;
    return store->ops->list(store, "t", see_spool, &f, s->err);
}

/* Lays the pages that transactions have written in bulk over the pages of the backup (laid.c). Only
 * transactions that have committed or prepared between the backup's end and the target count. */
static int lay(struct search *s, const struct ll_ship_manifest *m, struct ll_ship_goal *g)
{
    const struct ll_ship_bulk *bulk = (const void *)g->facts.bulk.data;
    int rc = 0;
    ll_ship_laid_init(&g->laid, s->archive.mem, s->archive.store, m->info.uuid, m->info.page_size);
    for (size_t i = 0; i < g->facts.bulk.len / sizeof *bulk && !rc; i++) {
        rc = ll_ship_lay(&g->laid, &s->steps, bulk[i].txn, s->err);
        const struct ll_ship_broken *broken = might_serve(s, m->info.end.v);
        if (rc == LLADD_NOT_FOUND && broken)
            return ll_ship_broken_fail(broken, s->err);
        if (rc == LLADD_NOT_FOUND)
            return refuse(s,
                          "the archive lacks pages that transaction %llu wrote in bulk (commit or "
                          "prepare at LSN %llu)",
                          (unsigned long long)bulk[i].txn, (unsigned long long)bulk[i].lsn);
    }
    if (!rc && LLADD_PLANTED(LLADD_BUG_SPOOL_OPEN))
        rc = lay_stored(s, &g->laid);
    ll_ship_laid_sort(&g->laid, &g->facts.barriers);
    return rc;
}

/* Reads the log from the backup's begin to the target. */
static int replay(struct search *s, const struct ll_ship_manifest *m, struct ll_ship_image *im,
                  struct ll_ship_goal *g)
{
    char name[LL_SHIP_NAME_MAX];
    struct ll_ship_facts *f = &g->facts;
    f->page_size = m->info.page_size;
    int rc = ll_ship_replay(im, m->info.from.v, m->info.end.v, s->lsn, NULL, f, s->err);
    if (rc)
        return rc;
    if (f->end < m->info.end.v) {
        ll_ship_base_name(m->info.name, "manifest", name);
        return ll_ship_corrupt(s->err, name, "its log ends too early");
    }
    if (f->end < s->lsn && !f->more && s->to.kind != LLADD_TO_END)
        return refuse(s, "the stored log ends at LSN %llu", (unsigned long long)f->end);
    cut_image(im, f->end);
    return lay(s, m, g);
}

static int build(struct search *s, const struct ll_ship_manifest *m, struct ll_ship_image *im,
                 struct ll_ship_goal *g)
{
    int rc = ll_ship_image_of_base(&s->base, m, s->err);
    if (!rc)
        rc = read_heads(&s->base, s->err);
    if (!rc && s->to.kind == LLADD_TO_TIME)
        rc = find_time(s, m, im);
    if (!rc)
        rc = collect(s, m, im);
    g->timeline = s->timeline;
    g->archived = true;
    return rc ? rc : replay(s, m, im, g);
}

int ll_ship_gather(const struct ll_ship_past *past, const struct ll_ship_buf *steps,
                   const struct ll_ship_manifest *m, uint64_t since, uint64_t to,
                   struct ll_ship_image *im, struct ll_ship_goal *g, struct lladd_error *err)
{
    struct search s = {.archive = *past,
                       .steps = *steps,
                       .timeline = m->info.timeline,
                       .lsn = to,
                       .err = err};
    s.archive.broken = (struct ll_ship_buf){.mem = past->mem}; /* no other backup can serve */
    struct ll_ship_manifest from = *m; /* as if the backup ended where its log begins */
    from.info.end = m->info.from;
    int rc = collect(&s, &from, im);
    g->timeline = m->info.timeline;
    g->archived = true;
    g->facts.page_size = m->info.page_size;
    if (!rc && ll_ship_image_segments(im) == 0)
        rc = refuse(&s, "no log above LSN %llu of timeline %u is stored",
                    (unsigned long long)m->info.from.v, s.timeline);
    if (!rc)
        rc = ll_ship_replay(im, m->info.from.v, since, s.lsn, NULL, &g->facts, err);
    if (rc)
        return rc;
    cut_image(im, g->facts.end);
    return lay(&s, m, g);
}

/* ---- the end that is expected --------------------------------------------------------------- */

/* Refuses a store that does not reach the expected LSN, because its newest objects are missing. The
 * names and headers of the objects say which LSNs can be restored. */
static int check_expected(struct search *s, uint64_t expected)
{
    struct ll_ship_buf ranges = {.mem = s->archive.mem};
    int rc = expected ? ll_ship_ranges(&s->archive, &s->steps, &ranges, s->err) : 0;
    const struct ll_ship_reach *r = (const void *)ranges.data;
    uint64_t end = ranges.len ? r[ranges.len / sizeof *r - 1].end : 0;
    ll_ship_buf_free(&ranges);
    if (rc || end >= expected)
        return rc;
    if (s->archive.damage.code)
        return fail_damage(s);
    return lladd_error_set(s->err, LLADD_OUT_OF_RANGE,
                           "timeline %u can be restored up to LSN %llu, and LSN %llu is expected: "
                           "the newest log is not in the store",
                           s->timeline, (unsigned long long)end, (unsigned long long)expected);
}

/* ---- the whole ------------------------------------------------------------------------------ */

static int of_archive(struct search *s, const struct lladd_restore_options *o,
                      struct ll_ship_manifest *m, struct ll_ship_image *im, struct ll_ship_goal *g)
{
    const struct lladd_backup_info *base;
    int rc = named_base(s, o->base, &base);
    if (!rc)
        rc = place_target(s, base, !o->base);
    if (!rc)
        rc = check_expected(s, o->expected.v);
    if (!rc)
        rc = choose_base(s, o->base, &base);
    if (!rc)
        rc = ll_ship_manifest_find(s->archive.store, base->name, m, s->err);
    if (rc)
        return rc;
    ll_ship_image_init(&s->base, s->archive.mem, s->archive.store, m->info.uuid);
    ll_ship_image_init(im, s->archive.mem, s->archive.store, m->info.uuid);
    rc = build(s, m, im, g);
    ll_ship_image_free(&s->base);
    return rc;
}

static int expect_of_base(struct lladd_store *store, const struct ll_ship_manifest *m,
                          uint64_t expected, struct lladd_error *err)
{
    struct search s = {.timeline = m->info.timeline, .err = err};
    int rc = expected ? ll_ship_past_open(&s.archive, store, m->pages.mem, err) : 0;
    if (rc || !expected)
        return rc;
    s.steps.mem = m->pages.mem;
    rc = ll_ship_past_path(&s.archive, s.timeline, &s.steps, err);
    if (!rc)
        rc = check_expected(&s, expected);
    ll_ship_buf_free(&s.steps);
    ll_ship_past_free(&s.archive);
    return rc;
}

/* Sets the goal to the end of the backup (LLADD_TO_BASE). Reads the backup's log only if the caller
 * has set `in_doubt`, which is called for each transaction in doubt. */
static int of_base(struct lladd_store *store, const struct lladd_restore_options *o,
                   struct ll_ship_manifest *m, struct ll_ship_image *im, struct ll_ship_goal *g,
                   struct lladd_error *err)
{
    int rc = ll_ship_manifest_find(store, o->base, m, err);
    if (rc)
        return rc;
    ll_ship_image_init(im, m->pages.mem, store, m->info.uuid);
    rc = expect_of_base(store, m, o->expected.v, err);
    if (!rc)
        rc = ll_ship_image_of_base(im, m, err);
    g->timeline = m->info.timeline;
    g->facts.end = m->info.end.v;
    if (rc || !o->in_doubt)
        return rc;
    rc = read_heads(im, err);
    if (!rc)
        rc = set_limits(im, err);
    return rc ? rc
              : ll_ship_replay(im, m->info.from.v, m->info.end.v, m->info.end.v, NULL, &g->facts,
                               err);
}

static int tell_in_doubt(const struct lladd_restore_options *o, const struct ll_ship_facts *f,
                         struct lladd_error *err)
{
    const struct lladd_in_doubt_info *i = (const void *)f->prepared.data;
    int rc = 0;
    for (size_t k = 0; k < f->prepared.len / sizeof *i && !rc && o->in_doubt; k++)
        rc = o->in_doubt(o->in_doubt_ctx, &i[k]);
    return rc ? lladd_error_set(err, rc,
                                "the function for transactions in doubt has stopped the "
                                "restore")
              : 0;
}

static int take_target(const struct lladd_restore_target *t, struct lladd_restore_target *out,
                       struct lladd_error *err)
{
    *out = (struct lladd_restore_target)LLADD_RESTORE_TARGET_INIT;
    if (t)
        memcpy(out, t, t->struct_size < sizeof *out ? t->struct_size : sizeof *out);
    if (out->kind > LLADD_TO_TIME)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "there is no kind %d of targets",
                               (int)out->kind);
    if ((out->kind != LLADD_TO_LSN && out->lsn.v) || (out->kind != LLADD_TO_MARK && out->mark) ||
        (out->kind != LLADD_TO_TIME && out->time_us))
        return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                               "the target's kind does not allow the LSN, mark or time given");
    if (out->kind == LLADD_TO_MARK && !out->mark)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "the target is a mark, and has no name");
    if (out->kind == LLADD_TO_BASE && out->timeline)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                               "a backup's own end is on the backup's timeline");
    return 0;
}

int ll_ship_target(struct lladd_store *store, const struct lladd_restore_options *o,
                   struct ll_ship_manifest *m, struct ll_ship_image *im, struct ll_ship_goal *g,
                   struct lladd_error *err)
{
    struct search s = {.err = err};
    int rc = take_target(o->target, &s.to, err);
    if (rc)
        return rc;
    if (s.to.kind == LLADD_TO_BASE) {
        rc = of_base(store, o, m, im, g, err);
    } else {
        rc = ll_ship_past_open(&s.archive, store, m->pages.mem, err);
        s.steps.mem = m->pages.mem;
        if (!rc) {
            rc = of_archive(&s, o, m, im, g);
            ll_ship_buf_free(&s.steps);
            ll_ship_past_free(&s.archive);
        }
    }
    return rc ? rc : tell_in_doubt(o, &g->facts, err);
}
