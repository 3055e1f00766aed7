/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads the objects that the restore of a backup needs, one by one, and names each that is damaged
 * or missing.
 *
 * Of the archive a restore needs the objects that are on the path of the backup's timeline and have
 * log above the backup's end. First the header and the size of each object are checked. Then the
 * records up to the first gap are read; after a damaged record the reading goes on at the next
 * object. The commit and prepare records say which spools there must be. A missing object is
 * noticed by the log above it, or by its index. */
#include "ship/check_private.h"

#include <inttypes.h>
#include <lladd/bytes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int missing(struct ll_ship_check *c, const char *name)
{
    return ll_ship_check_tell(c, LLADD_FINDING_DAMAGE, LLADD_CORRUPT_BACKUP, name, "it is missing");
}

/* ---- the backup ----------------------------------------------------------------------------- */

/* An object of the backup, as the manifest says. */
struct object {
    char name[LL_SHIP_NAME_MAX];
    uint64_t bytes;
    uint32_t crc;
};

/* Reads the object whole, and compares it with the manifest. The buffer keeps its room. */
static int read_object(const struct ll_ship_check *c, const struct object *o,
                       struct ll_ship_buf *buf, struct lladd_error *why)
{
    buf->len = 0;
    int rc = ll_ship_get_all(c->store, o->name, o->bytes, buf, why);
    if (!rc && (buf->len != o->bytes || lladd_crc32c(0, buf->data, buf->len) != o->crc))
        rc = ll_ship_corrupt(why, o->name, "it is damaged");
    return rc;
}

static int tell_object(struct ll_ship_check *c, const struct object *o, int rc,
                       const struct lladd_error *why)
{
    if (rc == LLADD_NOT_FOUND)
        return missing(c, o->name);
    return rc ? ll_ship_check_blame(c, why, o->name) : ll_ship_check_read(c, o->bytes);
}

static int check_begun(struct ll_ship_check *c)
{
    char name[LL_SHIP_NAME_MAX];
    struct lladd_error why = LLADD_ERROR_INIT;
    uint64_t from;
    int64_t when;
    ll_ship_base_name(c->m.info.name, "begun", name);
    int rc = ll_ship_begun_read(c->store, c->mem, c->m.info.name, &from, &when, &why);
    if (rc == LLADD_NOT_FOUND || rc == LLADD_CORRUPT_BACKUP)
        return ll_ship_check_tell(c, LLADD_FINDING_NOTE, 0, name,
                                  "it is damaged or missing; a restore does not need it");
    return rc ? ll_ship_check_blame(c, &why, name) : 0;
}

static int check_pages_index(struct ll_ship_check *c, const char *name)
{
    struct lladd_error why = LLADD_ERROR_INIT;
    struct ll_ship_buf frames = {.mem = c->mem};
    int rc = ll_ship_base_frames(c->store, &c->m, &frames, &why);
    if (!rc)
        rc = ll_ship_base_check(c->store, &c->m, &why);
    ll_ship_buf_free(&frames);
    return rc ? ll_ship_check_blame(c, &why, name) : 0;
}

static int check_control(struct ll_ship_check *c)
{
    struct object o = {.bytes = LL_SHIP_CONTROL, .crc = c->m.control_crc};
    struct lladd_error why = LLADD_ERROR_INIT;
    ll_ship_base_name(c->m.info.name, "control", o.name);
    int rc = read_object(c, &o, &c->object, &why);
    return tell_object(c, &o, rc, &why);
}

/* Threads read the objects of pages and log. What they find is told in the order of the objects. */
struct reader {
    struct ll_ship_buf buf;
    struct object object; /* that was read last */
    int rc;
    struct lladd_error why;
};

struct reading {
    struct ll_ship_check *c;
    struct reader *readers; /* one for each thread */
};

static void name_object(const struct ll_ship_check *c, uint64_t i, struct object *o)
{
    const char *base = c->m.info.name;
    size_t pages = ll_ship_pages_parts(&c->m);
    if (i < pages) {
        const struct ll_ship_pages_part *p = ll_ship_pages_part(&c->m, i);
        ll_ship_pages_name(base, i, o->name);
        o->bytes = p->bytes;
        o->crc = p->crc;
    } else {
        const struct ll_ship_log_part *p = ll_ship_log_part(&c->m, i - pages);
        ll_ship_log_name(base, p, o->name);
        o->bytes = p->bytes;
        o->crc = p->crc;
    }
}

/* Damage is no error of the thread. */
static int read_next(void *ctx, unsigned thread, uint64_t ticket, struct lladd_error *err)
{
    const struct reading *all = ctx;
    struct reader *r = &all->readers[thread];
    (void)err;
    r->why = (struct lladd_error)LLADD_ERROR_INIT;
    name_object(all->c, ticket, &r->object);
    r->rc = read_object(all->c, &r->object, &r->buf, &r->why);
    return 0;
}

static int tell_next(void *ctx, unsigned thread, uint64_t ticket, struct lladd_error *err)
{
    const struct reading *all = ctx;
    const struct reader *r = &all->readers[thread];
    struct lladd_error *had = all->c->err;
    (void)ticket;
    all->c->err = err;
    int rc = tell_object(all->c, &r->object, r->rc, &r->why);
    all->c->err = had;
    return rc;
}

static int check_parts(struct ll_ship_check *c)
{
    struct reading all = {.c = c};
    struct ll_ship_job job = {&all, ll_ship_pages_parts(&c->m) + ll_ship_log_parts(&c->m),
                              read_next, tell_next, NULL};
    all.readers = ll_ship_new(c->mem, c->threads * sizeof *all.readers);
    if (!all.readers)
        return ll_ship_no_memory(c->err);
    for (unsigned i = 0; i < c->threads; i++)
        all.readers[i].buf.mem = c->mem;
    int rc = ll_ship_crew(&job, c->threads, c->mem, c->err);
    for (unsigned i = 0; i < c->threads; i++)
        ll_ship_buf_free(&all.readers[i].buf);
    ll_ship_delete(c->mem, all.readers);
    return rc;
}

int ll_ship_check_base(struct ll_ship_check *c)
{
    char name[LL_SHIP_NAME_MAX];
    int rc = check_begun(c);
    if (!rc)
        rc = check_control(c);
    ll_ship_base_name(c->m.info.name, "pages.idx", name);
    if (!rc)
        rc = check_pages_index(c, name);
    return rc ? rc : check_parts(c);
}

/* ---- what the archive has ------------------------------------------------------------------- */

struct archive {
    struct ll_ship_check *c;
    struct ll_ship_past past;
    struct ll_ship_buf steps;    /* struct ll_ship_step */
    struct ll_ship_buf segments; /* struct ll_ship_stored: that the restore needs; `size` is that
                                    of the contents */
    struct ll_ship_image log;
    struct ll_ship_facts facts;
    uint64_t reach;     /* the log goes on up to here without a gap */
    bool heads_damaged; /* a header or a size is wrong, or a piece is missing */
    struct ll_ship_mark mark; /* the last mark so far; LSN 0: none */
    struct lladd_error why;
};

static const struct ll_ship_stored *stored(const struct archive *a, size_t i)
{
    return (const struct ll_ship_stored *)(const void *)a->past.stored.data + i;
}

static size_t stored_n(const struct archive *a)
{
    return a->past.stored.len / sizeof(struct ll_ship_stored);
}

static int blame(struct archive *a, const char *object)
{
    int rc = ll_ship_check_blame(a->c, &a->why, object);
    a->why = (struct lladd_error)LLADD_ERROR_INIT;
    return rc;
}

/* The LSN below which the timeline's log is on the path; 0: no log of the timeline is. */
static uint64_t top_of(const struct archive *a, uint32_t timeline)
{
    const struct ll_ship_step *step = (const void *)a->steps.data;
    for (size_t i = 0; i < a->steps.len / sizeof *step; i++)
        if (step[i].timeline == timeline)
            return step[i].top;
    return 0;
}

/* The first LSN of the next segment of the same timeline. */
static uint64_t next_first(const struct archive *a, size_t i)
{
    const struct ll_ship_stored *s = stored(a, i);
    for (size_t k = i + 1; k < stored_n(a); k++)
        if (stored(a, k)->timeline == s->timeline && stored(a, k)->first > s->first)
            return stored(a, k)->first;
    return UINT64_MAX;
}

/* Does the restore need the object? Pieces of a segment that is stored whole are not needed. */
static bool wanted(const struct archive *a, size_t i)
{
    const struct ll_ship_stored *s = stored(a, i);
    if (s->first >= top_of(a, s->timeline) || next_first(a, i) <= a->c->m.info.end.v)
        return false;
    for (size_t k = i; s->source == LL_SHIP_IN_PART && k-- > 0;) {
        const struct ll_ship_stored *other = stored(a, k);
        if (other->first != s->first)
            break;
        if (other->timeline == s->timeline && other->source == LL_SHIP_IN_SEGMENT)
            return false;
    }
    return true;
}

static int note_wanted(struct archive *a)
{
    int rc = 0;
    for (size_t i = 0; i < stored_n(a) && !rc; i++) {
        struct ll_ship_stored s = *stored(a, i);
        char name[LL_SHIP_NAME_MAX];
        if (!wanted(a, i))
            continue;
        ll_ship_stored_name(&s, name);
        rc = ll_ship_stored_contents(a->c->store, stored(a, i), &s.size, &a->why);
        rc = rc ? blame(a, name) : 0;
        if (!rc)
            rc = ll_ship_append(&a->segments, &s, sizeof s, a->c->err);
    }
    return rc;
}

static const struct ll_ship_stored *wanted_at(const struct archive *a, size_t i)
{
    return (const struct ll_ship_stored *)(const void *)a->segments.data + i;
}

static size_t wanted_n(const struct archive *a)
{
    return a->segments.len / sizeof(struct ll_ship_stored);
}

/* ---- headers and sizes ---------------------------------------------------------------------- */

static int read_head(struct archive *a, const struct ll_ship_stored *s, const char *name,
                     struct ll_ship_segment *out, bool *good)
{
    unsigned char head[LL_SHIP_BLOCK_HEADER];
    const char *what = "it is too short";
    int rc = 0;
    if (s->size >= sizeof head)
        rc = ll_ship_get(a->c->store, name, 0, head, sizeof head, &a->why);
    if (rc == LLADD_NOT_FOUND)
        rc = ll_ship_corrupt(&a->why, name, "it is missing");
    if (!rc && s->size >= sizeof head)
        what = ll_ship_segment_head(head, s->first, out);
    if (!rc && !what && s->source == LL_SHIP_IN_SEGMENT && out->size != s->size)
        what = "its length is wrong";
    if (!rc && what)
        rc = ll_ship_corrupt(&a->why, name, what);
    *good = rc == 0;
    return rc ? blame(a, name) : ll_ship_check_read(a->c, s->size);
}

static int tell_lost(struct archive *a, const char *name, uint64_t from, uint64_t to)
{
    char what[120];
    (void)snprintf(what, sizeof what,
                   "it is missing: no object has the log from LSN %" PRIu64 " to %" PRIu64, from,
                   to);
    return ll_ship_check_tell(a->c, LLADD_FINDING_DAMAGE, LLADD_CORRUPT_BACKUP, name, what);
}

/* The piece must have the bytes of the segment's file between its two LSNs. */
static int check_size(struct archive *a, const struct ll_ship_stored *s,
                      const struct ll_ship_segment *seg)
{
    char name[LL_SHIP_NAME_MAX];
    uint64_t full = ll_ship_segment_end(seg);
    uint64_t begin = s->from > s->first ? ll_ship_segment_offset(seg, s->from) : 0;
    ll_ship_stored_name(s, name);
    if (s->end <= full && s->from < s->end &&
        s->size == ll_ship_segment_offset(seg, s->end) - begin)
        return ll_ship_check_read(a->c, s->size);
    (void)ll_ship_corrupt(&a->why, name, "its length is wrong");
    return blame(a, name);
}

/* Checks the pieces of one segment: numbers i to `to` of the wanted objects. */
static int check_pieces(struct archive *a, size_t i, size_t to)
{
    char name[LL_SHIP_NAME_MAX];
    struct ll_ship_segment seg;
    uint64_t pos = wanted_at(a, i)->first;
    bool good = false;
    int rc = 0;
    for (; i < to && !rc; i++) {
        const struct ll_ship_stored *s = wanted_at(a, i);
        struct ll_ship_stored lost = *s;
        lost.from = pos;
        lost.end = s->from;
        if (s->from < pos) /* a longer piece has these bytes, too */
            continue;
        if (s->from > pos) {
            ll_ship_stored_name(&lost, name);
            rc = tell_lost(a, name, pos, s->from);
        }
        ll_ship_stored_name(s, name);
        if (!rc && s->from == s->first)
            rc = read_head(a, s, name, &seg, &good);
        if (!rc && good)
            rc = check_size(a, s, &seg);
        pos = s->end;
    }
    return rc;
}

static int check_heads(struct archive *a)
{
    char name[LL_SHIP_NAME_MAX];
    struct ll_ship_segment seg;
    bool good;
    int rc = 0;
    for (size_t i = 0, to; i < wanted_n(a) && !rc; i = to) {
        const struct ll_ship_stored *s = wanted_at(a, i);
        for (to = i + 1; to < wanted_n(a) && s->source == LL_SHIP_IN_PART; to++)
            if (wanted_at(a, to)->first != s->first || wanted_at(a, to)->timeline != s->timeline)
                break;
        ll_ship_stored_name(s, name);
        rc = s->source == LL_SHIP_IN_PART ? check_pieces(a, i, to)
                                          : read_head(a, s, name, &seg, &good);
    }
    return rc;
}

/* ---- indexes and marks ---------------------------------------------------------------------- */

struct names {
    struct archive *a;
    const char *suffix;
    struct ll_ship_buf names; /* char[LL_SHIP_NAME_MAX] */
};

static int see_name(void *ctx, const char *name, uint64_t size)
{
    struct names *n = ctx;
    char padded[LL_SHIP_NAME_MAX] = "";
    size_t len = strlen(name), end = strlen(n->suffix);
    (void)size;
    if (len >= sizeof padded || len < end || strcmp(name + len - end, n->suffix) != 0)
        return 0;
    memcpy(padded, name, len);
    return ll_ship_append(&n->names, padded, sizeof padded, n->a->c->err);
}

/* Calls fn for each object of the path in a folder of its timeline. */
typedef int each_fn(struct archive *, const struct ll_ship_step *, const char *name);
static int each(struct archive *a, const char *folder, const char *suffix, each_fn *fn)
{
    const struct ll_ship_step *step = (const void *)a->steps.data;
    int rc = 0;
    for (size_t i = 0; i < a->steps.len / sizeof *step && !rc; i++) {
        struct names n = {a, suffix, {.mem = a->c->mem}};
        char prefix[LL_SHIP_NAME_MAX];
        (void)snprintf(prefix, sizeof prefix, "t%08x/%s/", step[i].timeline, folder);
        rc = a->c->store->ops->list(a->c->store, prefix, see_name, &n, a->c->err);
        for (size_t at = 0; at < n.names.len && !rc; at += LL_SHIP_NAME_MAX)
            rc = fn(a, &step[i], (const char *)n.names.data + at);
        ll_ship_buf_free(&n.names);
    }
    return rc;
}

static int check_mark(struct archive *a, const struct ll_ship_step *step, const char *name)
{
    uint64_t lsn;
    int64_t when;
    (void)step;
    int rc = ll_ship_past_mark(&a->past, name, &lsn, &when, &a->why);
    return rc ? blame(a, name) : ll_ship_check_read(a->c, 0);
}

static bool has_segment(const struct archive *a, uint32_t timeline, uint64_t first)
{
    for (size_t i = 0; i < stored_n(a); i++)
        if (stored(a, i)->source == LL_SHIP_IN_SEGMENT && stored(a, i)->timeline == timeline &&
            stored(a, i)->first == first)
            return true;
    return false;
}

/* A segment is put before its index. So where there is an index, there was a segment. */
static int check_index_alone(struct archive *a, const struct ll_ship_step *step, const char *name)
{
    char segment[LL_SHIP_NAME_MAX], want[LL_SHIP_NAME_MAX];
    struct ll_ship_index ix;
    uint64_t first = strtoull(strrchr(name, '/') + 1, NULL, 16);
    uint64_t end = a->c->m.info.end.v;
    ll_ship_idx_name(step->timeline, first, want);
    if (strcmp(want, name) != 0 || first >= step->top || has_segment(a, step->timeline, first))
        return 0;
    int rc = ll_ship_index_read(a->c->store, a->c->mem, step->timeline, lladd_lsn_of(first), &ix,
                                &a->why);
    if (rc && rc != LLADD_CORRUPT_BACKUP)
        return blame(a, name);
    bool needed = rc ? first >= end : ix.stop.v > end;
    if (!rc)
        ll_ship_index_free(&ix);
    ll_ship_seg_name(step->timeline, first, segment);
    return needed ? missing(a->c, segment) : 0;
}

/* Is this the last whole segment of its timeline? Its index may be missing, because the archive
 * puts an index a moment after the segment. */
static bool is_newest(const struct archive *a, const struct ll_ship_stored *s)
{
    for (size_t i = 0; i < stored_n(a); i++)
        if (stored(a, i)->timeline == s->timeline && stored(a, i)->first > s->first &&
            stored(a, i)->source == LL_SHIP_IN_SEGMENT)
            return false;
    return true;
}

/* The segments come in the order of the log, and so do their marks. */
static int check_clock(struct archive *a, const struct ll_ship_stored *s,
                       const struct ll_ship_index *ix, const char *name)
{
    const struct ll_ship_mark *mark = (const void *)ix->marks.data;
    char what[160] = "";
    for (size_t i = 0; i < ix->marks.len / sizeof *mark; i++) {
        if (mark[i].lsn.v >= top_of(a, s->timeline))
            break;
        if (a->mark.lsn.v && mark[i].time_us < a->mark.time_us)
            (void)snprintf(what, sizeof what,
                           "the clock was set back: the mark at LSN %" PRIu64
                           " has an earlier time than the mark at LSN %" PRIu64,
                           mark[i].lsn.v, a->mark.lsn.v);
        a->mark = mark[i];
    }
    return *what ? ll_ship_check_tell(a->c, LLADD_FINDING_NOTE, 0, name, what) : 0;
}

/* An index can be made again from its segment, so its damage does not refuse a restore. */
static int check_index(struct archive *a, const struct ll_ship_stored *s)
{
    char name[LL_SHIP_NAME_MAX];
    struct ll_ship_index ix;
    ll_ship_idx_name(s->timeline, s->first, name);
    int rc = ll_ship_index_read(a->c->store, a->c->mem, s->timeline, lladd_lsn_of(s->first), &ix,
                                &a->why);
    if (!rc) {
        rc = check_clock(a, s, &ix, name);
        ll_ship_index_free(&ix);
        return rc ? rc : ll_ship_check_read(a->c, 0);
    }
    if (rc == LLADD_NOT_FOUND && is_newest(a, s))
        return 0;
    if (rc != LLADD_NOT_FOUND && rc != LLADD_CORRUPT_BACKUP)
        return blame(a, name);
    return ll_ship_check_tell(a->c, LLADD_FINDING_REPAIR, LLADD_CORRUPT_BACKUP, name,
                              "it is damaged or missing; it is made again from the segment "
                              "each time it is needed");
}

/* No restore needs a claim. But if the last one is damaged, the archive cannot begin again. */
static int check_claim(struct archive *a)
{
    const struct ll_ship_step *own = (const void *)a->steps.data;
    int rc = ll_ship_claim_read(a->c->store, own->timeline, &a->why);
    return rc ? blame(a, "claim") : 0;
}

static int check_small(struct archive *a)
{
    int rc = check_claim(a);
    if (!rc)
        rc = each(a, "mark", "", check_mark);
    if (!rc)
        rc = each(a, "idx", ".idx", check_index_alone);
    for (size_t i = 0; i < wanted_n(a) && !rc; i++)
        if (wanted_at(a, i)->source == LL_SHIP_IN_SEGMENT)
            rc = check_index(a, wanted_at(a, i));
    return rc;
}

/* ---- the log -------------------------------------------------------------------------------- */

/* Tells the gap, after which the archive has log. The restore cannot reach that log. */
static int check_gap(struct archive *a)
{
    char name[LL_SHIP_NAME_MAX];
    for (size_t i = 0; i < wanted_n(a); i++) {
        const struct ll_ship_stored *s = wanted_at(a, i);
        uint64_t begin = s->source == LL_SHIP_IN_PART ? s->from : s->first;
        uint64_t cut = begin;
        int rc = 0;
        if (begin < a->reach || begin >= top_of(a, s->timeline) ||
            (s->source == LL_SHIP_IN_PART && s->end <= a->reach))
            continue;
        if (begin == s->first)
            rc = ll_ship_past_cut(&a->past, &a->steps, begin, &cut, &a->why);
        ll_ship_seg_name(s->timeline, a->reach, name);
        return rc ? blame(a, name) : cut > a->reach ? tell_lost(a, name, a->reach, cut) : 0;
    }
    return 0;
}

/* The lowest LSN above `lsn` at which an object begins. */
static uint64_t next_object(const struct ll_ship_image *im, uint64_t lsn)
{
    const struct ll_ship_piece *p = (const void *)im->pieces.data;
    uint64_t best = UINT64_MAX;
    for (size_t i = 0; i < im->pieces.len / sizeof *p; i++) {
        uint64_t begin = p[i].source == LL_SHIP_IN_PART ? p[i].from : p[i].first;
        if (begin > lsn && begin < best)
            best = begin;
    }
    return best;
}

/* Reads all records below the first gap. After a damaged one it goes on in the next object. */
static int check_records(struct archive *a)
{
    const struct lladd_backup_info *base = &a->c->m.info;
    uint64_t from = base->from.v;
    while (from < a->reach) {
        int rc = ll_ship_replay(&a->log, from, base->end.v, a->reach, NULL, &a->facts, &a->why);
        if (!rc)
            return 0;
        rc = blame(a, "log");
        if (rc)
            return rc;
        from = next_object(&a->log, a->facts.end > from ? a->facts.end : from);
    }
    return 0;
}

static int read_spool(struct archive *a, const char *name, uint64_t txn, uint32_t part, bool *last)
{
    struct ll_ship_buf bytes = {.mem = a->c->mem};
    struct ll_ship_blk blk, want = {.page_size = a->c->m.info.page_size, .txn = txn, .part = part};
    struct ll_ship_blk_piece piece;
    memcpy(want.uuid, a->c->m.info.uuid, sizeof want.uuid);
    int rc = ll_ship_get_all(a->c->store, name, LL_SHIP_OBJECT_MAX, &bytes, &a->why);
    if (!rc)
        rc = ll_ship_blk_open(&blk, name, &bytes, &want, &a->why);
    while (!rc)
        rc = ll_ship_blk_next(&blk, &piece, &a->why);
    *last = rc == LLADD_END && blk.last;
    if (rc == LLADD_END)
        rc = ll_ship_check_read(a->c, bytes.len);
    else if (rc != LLADD_NOT_FOUND)
        rc = blame(a, name);
    ll_ship_buf_free(&bytes);
    return rc;
}

static int check_spool(struct archive *a, const struct ll_ship_bulk *bulk)
{
    char name[LL_SHIP_NAME_MAX], what[160];
    uint64_t damage = a->c->info.damage;
    bool last = false;
    int rc = 0;
    for (uint32_t part = 0; !rc && !last && a->c->info.damage == damage; part++) {
        ll_ship_blk_name(ll_ship_lay_timeline(&a->steps, bulk->txn), bulk->txn, part, name);
        rc = read_spool(a, name, bulk->txn, part, &last);
    }
    if (rc != LLADD_NOT_FOUND)
        return rc;
    a->why = (struct lladd_error)LLADD_ERROR_INIT;
    (void)snprintf(what, sizeof what,
                   "it is missing: pages that transaction %" PRIu64 " wrote in bulk (commit or "
                   "prepare at LSN %" PRIu64 ")",
                   bulk->txn, bulk->lsn);
    return ll_ship_check_tell(a->c, LLADD_FINDING_DAMAGE, LLADD_CORRUPT_BACKUP, name, what);
}

static int check_log(struct archive *a)
{
    struct ll_ship_check *c = a->c;
    uint64_t damage = c->info.damage;
    int rc = ll_ship_past_reach(&a->past, &a->steps, c->m.info.end.v, &a->reach, &a->why);
    if (rc)
        return blame(a, "log");
    rc = a->heads_damaged ? 0 : check_gap(a);
    if (rc || a->reach <= c->m.info.end.v)
        return rc;
    rc = ll_ship_collect(&a->past, &a->steps, c->m.info.timeline, &c->m, a->reach, &a->log,
                         &a->why);
    if (rc)
        return blame(a, "log");
    rc = check_records(a);
    const struct ll_ship_bulk *bulk = (const void *)a->facts.bulk.data;
    for (size_t i = 0; i < a->facts.bulk.len / sizeof *bulk && !rc; i++)
        rc = check_spool(a, &bulk[i]);
    if (c->info.damage == damage && a->facts.end > c->m.info.end.v)
        c->target = a->facts.end;
    return rc;
}

static int check_all(struct archive *a)
{
    uint64_t damage = a->c->info.damage;
    int rc = note_wanted(a);
    if (!rc)
        rc = check_heads(a);
    a->heads_damaged = a->c->info.damage != damage;
    if (!rc)
        rc = check_small(a);
    return rc ? rc : check_log(a);
}

int ll_ship_check_archive(struct ll_ship_check *c)
{
    struct archive a = {.c = c, .why = LLADD_ERROR_INIT};
    a.steps.mem = a.segments.mem = c->mem;
    int rc = ll_ship_past_open(&a.past, c->store, c->mem, &a.why);
    if (rc) /* LLADD_NOT_FOUND: the object "archive" is missing */
        return rc == LLADD_NOT_FOUND ? missing(c, "archive") : blame(&a, "archive");
    ll_ship_image_init(&a.log, c->mem, c->store, c->m.info.uuid);
    rc = ll_ship_past_path(&a.past, c->m.info.timeline, &a.steps, &a.why);
    rc = rc ? blame(&a, "history") : check_all(&a);
    ll_ship_facts_free(&a.facts);
    ll_ship_image_free(&a.log);
    ll_ship_buf_free(&a.steps);
    ll_ship_buf_free(&a.segments);
    ll_ship_past_free(&a.past);
    return rc;
}
