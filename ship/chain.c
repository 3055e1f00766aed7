/* SPDX-License-Identifier: BSD-2-Clause */
/* The archived log of a store: segments, pieces of segments that were still being written, and
 * timelines.
 *
 * A segment says in `cut` where the log before it ends: at the end of another segment, or inside
 * another segment. So a chain is followed downwards, from a target to the end of a backup. If no
 * object has the bytes before a cut, the archive has a gap.
 *
 * A timeline begins at the LSN at which a restore has cut its parent. The parent's log from this
 * LSN on does not belong to the timeline, even if it lies in the same segment. */
#include "ship/image_private.h"

#include <lladd/bytes.h>
#include <lladd/dst.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ---------------------------------------------------------------------------------- */

void ll_ship_stored_name(const struct ll_ship_stored *s, char out[LL_SHIP_NAME_MAX])
{
    if (s->source == LL_SHIP_IN_SEGMENT)
        (void)snprintf(out, LL_SHIP_NAME_MAX, "t%08x/log/%016llx.seg", s->timeline,
                       (unsigned long long)s->first);
    else
        (void)snprintf(out, LL_SHIP_NAME_MAX, "t%08x/log/%016llx.%016llx-%016llx.part", s->timeline,
                       (unsigned long long)s->first, (unsigned long long)s->from,
                       (unsigned long long)s->end);
}

int ll_ship_stored_contents(struct lladd_store *store, const struct ll_ship_stored *s,
                            uint64_t *out, struct lladd_error *err)
{
    char name[LL_SHIP_NAME_MAX];
    *out = s->size;
    if (!ll_ship_has_sizes(store))
        return 0;
    ll_ship_stored_name(s, name);
    int rc = ll_ship_size(store, name, out, err);
    return rc == LLADD_NOT_FOUND ? ll_ship_corrupt(err, name, "it is missing") : rc;
}

/* Takes this number of hexadecimal digits. */
static bool hex(const char **at, unsigned digits, uint64_t *out)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < digits; i++, (*at)++) {
        char c = **at;
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
            return false;
        v = v << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    *out = v;
    return true;
}

static bool take(const char **at, const char *text)
{
    size_t len = strlen(text);
    if (strncmp(*at, text, len) != 0)
        return false;
    *at += len;
    return true;
}

static bool parse(const char *name, uint64_t size, struct ll_ship_stored *out)
{
    uint64_t timeline;
    *out = (struct ll_ship_stored){.source = LL_SHIP_IN_SEGMENT, .size = size};
    if (!take(&name, "t") || !hex(&name, 8, &timeline) || !take(&name, "/log/") ||
        !hex(&name, 16, &out->first))
        return false;
    out->timeline = (uint32_t)timeline;
    if (strcmp(name, ".seg") == 0)
        return true;
    out->source = LL_SHIP_IN_PART;
    return take(&name, ".") && hex(&name, 16, &out->from) && take(&name, "-") &&
           hex(&name, 16, &out->end) && strcmp(name, ".part") == 0;
}

/* ---- what there is -------------------------------------------------------------------------- */

struct listing {
    struct ll_ship_past *archive;
    struct lladd_error *err;
};

static int see_object(void *ctx, const char *name, uint64_t size)
{
    struct listing *l = ctx;
    struct ll_ship_stored s;
    return parse(name, size, &s) ? ll_ship_append(&l->archive->stored, &s, sizeof s, l->err) : 0;
}

static int compare(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

/* Orders by first LSN, timeline and source. Orders parts by their begin; of parts with the same
 * begin the longest comes first. */
static int by_first(const void *a, const void *b)
{
    const struct ll_ship_stored *x = a, *y = b;
    int by = compare(x->first, y->first);
    if (!by)
        by = compare(x->timeline, y->timeline);
    if (!by)
        by = (int)x->source - (int)y->source;
    if (!by)
        by = compare(x->from, y->from);
    return by ? by : compare(y->end, x->end);
}

int ll_ship_past_again(struct ll_ship_past *a, struct lladd_error *err)
{
    struct listing l = {a, err};
    a->stored.len = 0;
    int rc = a->store->ops->list(a->store, "t", see_object, &l, err);
    if (!rc && a->stored.len)
        qsort(a->stored.data, a->stored.len / sizeof(struct ll_ship_stored),
              sizeof(struct ll_ship_stored), by_first);
    return rc;
}

int ll_ship_past_open(struct ll_ship_past *a, struct lladd_store *store, struct ll_ship_mem mem,
                      struct lladd_error *err)
{
    memset(a, 0, sizeof *a);
    a->mem = a->stored.mem = a->bases.mem = a->broken.mem = mem;
    a->store = store;
    int rc = ll_ship_store_uuid(store, a->uuid, err);
    if (rc == LLADD_NOT_FOUND)
        return lladd_error_set(err, rc, "no complete backup is in the store");
    if (!rc)
        rc = ll_ship_past_again(a, err);
    if (!rc)
        rc = ll_ship_bases(store, mem, &a->bases, &a->broken, err);
    if (rc)
        ll_ship_past_free(a);
    return rc;
}

void ll_ship_past_free(struct ll_ship_past *a)
{
    ll_ship_buf_free(&a->stored);
    ll_ship_buf_free(&a->bases);
    ll_ship_buf_free(&a->broken);
}

static const struct ll_ship_stored *stored_at(const struct ll_ship_past *a, size_t i)
{
    return (const struct ll_ship_stored *)(const void *)a->stored.data + i;
}

static size_t stored(const struct ll_ship_past *a)
{
    return a->stored.len / sizeof(struct ll_ship_stored);
}

/* ---- timelines ------------------------------------------------------------------------------ */

int ll_ship_past_fork(const struct ll_ship_past *a, uint32_t timeline, struct ll_ship_fork *out,
                      struct lladd_error *err)
{
    struct ll_ship_buf text = {.mem = a->mem};
    char name[LL_SHIP_NAME_MAX];
    unsigned long long parent, lsn, when;
    *out = (struct ll_ship_fork){.timeline = timeline};
    (void)snprintf(name, sizeof name, "t%08x/history", timeline);
    int rc = ll_ship_text_get(a->store, name, 5, &text, err);
    if (rc) {
        ll_ship_buf_free(&text);
        return rc;
    }
    bool good = sscanf((const char *)text.data, "parent %llu\nfork %llu\nwhen_us %llu\n", &parent,
                       &lsn, &when) == 3 &&
                parent < timeline;
    ll_ship_buf_free(&text);
    if (!good)
        return ll_ship_corrupt(err, name, "it is damaged");
    out->parent = (uint32_t)parent;
    out->lsn = lsn;
    out->when_us = (int64_t)when;
    return 0;
}

int ll_ship_past_path(const struct ll_ship_past *a, uint32_t timeline, struct ll_ship_buf *steps,
                      struct lladd_error *err)
{
    struct ll_ship_step step = {timeline, UINT64_MAX};
    int rc = ll_ship_append(steps, &step, sizeof step, err);
    while (!rc && step.timeline) {
        struct ll_ship_fork fork;
        rc = ll_ship_past_fork(a, step.timeline, &fork, err);
        if (rc == LLADD_NOT_FOUND)
            rc = lladd_error_set(err, LLADD_CORRUPT_BACKUP,
                                 "\"t%08x/history\" in the store: it is missing", step.timeline);
        if (rc)
            break;
        step.timeline = fork.parent;
        if (!LLADD_PLANTED(LLADD_BUG_FORK_IGNORED))
            step.top = fork.lsn < step.top ? fork.lsn : step.top;
        rc = ll_ship_append(steps, &step, sizeof step, err);
    }
    return rc;
}

int ll_ship_past_mark(const struct ll_ship_past *a, const char *name, uint64_t *lsn,
                      int64_t *time_us, struct lladd_error *err)
{
    struct ll_ship_buf text = {.mem = a->mem};
    unsigned long long v, when;
    int rc = ll_ship_text_get(a->store, name, 3, &text, err);
    if (!rc) {
        if (sscanf((const char *)text.data, "LLADD mark 1\nlsn %llu\ntime_us %llu\n", &v, &when) !=
            2)
            rc = ll_ship_corrupt(err, name, "it is damaged");
    }
    ll_ship_buf_free(&text);
    if (!rc) {
        *lsn = v;
        *time_us = (int64_t)when;
    }
    return rc;
}

static const struct ll_ship_step *step_at(const struct ll_ship_buf *steps, size_t i)
{
    return (const struct ll_ship_step *)(const void *)steps->data + i;
}

static size_t steps_of(const struct ll_ship_buf *steps)
{
    return steps->len / sizeof(struct ll_ship_step);
}

bool ll_ship_on_path(const struct ll_ship_buf *steps, uint32_t timeline, uint64_t end)
{
    for (size_t i = 0; i < steps_of(steps); i++)
        if (step_at(steps, i)->timeline == timeline)
            return end <= step_at(steps, i)->top;
    return false;
}

/* ---- one segment ---------------------------------------------------------------------------- */

/* The archived objects with one first LSN. */
struct group {
    size_t from, to;
};

static struct group group_below(const struct ll_ship_past *a, size_t to)
{
    struct group g = {to, to};
    while (g.from > 0 && stored_at(a, g.from - 1)->first == stored_at(a, to - 1)->first)
        g.from--;
    return g;
}

/* The number of objects of segments that begin below the LSN. */
static size_t begin_below(const struct ll_ship_past *a, uint64_t lsn)
{
    size_t low = 0, high = stored(a);
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (stored_at(a, mid)->first < lsn)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static int add_whole(struct ll_ship_image *im, const struct ll_ship_stored *s,
                     struct lladd_error *err)
{
    char name[LL_SHIP_NAME_MAX];
    uint64_t size;
    int rc = ll_ship_stored_contents(im->store, s, &size, err);
    if (rc)
        return rc;
    ll_ship_stored_name(s, name);
    if (size < LL_SHIP_BLOCK_HEADER || size > UINT32_C(1) << 31)
        return ll_ship_corrupt(err, name, "it has not the size of a segment");
    struct ll_ship_image_segment seg = {.first = s->first,
                                        .size = (uint32_t)size,
                                        .block = LL_SHIP_BLOCK_MOST,
                                        .limit = UINT64_MAX};
    struct ll_ship_piece piece = {
        .source = s->source, .timeline = s->timeline, .first = s->first, .bytes = size};
    rc = ll_ship_image_add(im, &seg, err);
    return rc ? rc : ll_ship_image_piece(im, &piece, err);
}

/* Are these as many bytes as the file has between the two LSNs in the piece's name? */
static int check_length(const struct ll_ship_image *im, const struct ll_ship_stored *s,
                        uint64_t bytes, struct lladd_error *err)
{
    const struct ll_ship_image_segment *seg =
        ll_ship_image_at(im, ll_ship_image_segments(im) - 1);
    uint64_t begin = s->from > s->first ? ll_ship_image_offset(seg, s->from) : 0;
    char name[LL_SHIP_NAME_MAX];
    ll_ship_stored_name(s, name);
    return s->end > ll_ship_image_end(seg) || s->end <= s->from ||
                   bytes != ll_ship_image_offset(seg, s->end) - begin
               ? ll_ship_corrupt(err, name, "its length is wrong")
               : 0;
}

/* Adds the segment's parts, each of which begins where the one before ends. */
static int add_parts(struct ll_ship_past *a, struct ll_ship_image *im, struct group g,
                     uint32_t timeline, struct lladd_error *err)
{
    struct ll_ship_image_segment seg = {
        .first = stored_at(a, g.from)->first, .block = LL_SHIP_BLOCK_MOST, .limit = UINT64_MAX};
    uint64_t end = seg.first;
    int rc = ll_ship_image_add(im, &seg, err);
    for (size_t i = g.from; i < g.to && !rc; i++) {
        const struct ll_ship_stored *s = stored_at(a, i);
        size_t last = ll_ship_image_segments(im) - 1;
        if (s->source != LL_SHIP_IN_PART || s->timeline != timeline || s->from != end)
            continue;
        struct ll_ship_piece piece = {.source = s->source,
                                      .timeline = timeline,
                                      .first = s->first,
                                      .from = s->from,
                                      .end = s->end};
        rc = ll_ship_stored_contents(a->store, s, &piece.bytes, err);
        if (rc)
            break;
        if (end > seg.first)
            piece.offset = ll_ship_image_offset(ll_ship_image_at(im, last), end);
        rc = ll_ship_image_piece(im, &piece, err);
        if (!rc && end == seg.first)
            rc = ll_ship_image_head(im, last, err);
        if (!rc)
            rc = check_length(im, s, piece.bytes, err);
        end = s->end;
    }
    return rc;
}

/* Adds the segment to the image from one source of a timeline. *there: the source has it. */
static int add_source(struct ll_ship_past *a, struct ll_ship_image *im, struct group g,
                      uint32_t timeline, enum ll_ship_source source, bool *there,
                      struct lladd_error *err)
{
    size_t before = ll_ship_image_segments(im);
    int rc = 0;
    *there = false;
    for (size_t i = g.from; i < g.to && !*there && !rc; i++) {
        const struct ll_ship_stored *s = stored_at(a, i);
        if (s->timeline != timeline || s->source != source ||
            (source == LL_SHIP_IN_PART && s->from != s->first))
            continue;
        *there = true;
        rc = source == LL_SHIP_IN_SEGMENT ? add_whole(im, s, err)
                                          : add_parts(a, im, g, timeline, err);
        if (!rc)
            rc = ll_ship_image_head(im, before, err);
    }
    if (rc && ll_ship_image_segments(im) > before)
        ll_ship_image_drop(im);
    return rc;
}

/* What was found for an LSN. */
struct found {
    bool there;   /* the image's last segment has the byte below the LSN */
    uint64_t top; /* `top` of the timeline that has this byte */
};

/* Looks in the group for the segment that has the byte below `lsn`, and adds it to the image. A
 * damaged copy is passed over if there is another copy. *any: the group has the segment, but maybe
 * not up to `lsn`. */
static int add_group(struct ll_ship_past *a, const struct ll_ship_buf *steps, struct group g,
                     uint64_t lsn, struct ll_ship_image *im, struct found *out, bool *any,
                     struct lladd_error *err)
{
    static const enum ll_ship_source sources[] = {LL_SHIP_IN_SEGMENT, LL_SHIP_IN_PART};
    struct lladd_error why = LLADD_ERROR_INIT;
    for (size_t k = 0; k < 2 * steps_of(steps); k++) {
        const struct ll_ship_step *step = step_at(steps, k / 2);
        bool there;
        if (lsn > step->top)
            continue;
        int rc = add_source(a, im, g, step->timeline, sources[k % 2], &there, &why);
        *any = *any || there;
        if (rc && lladd_code_root(rc) != LLADD_ROOT_DATA) {
            if (err)
                *err = why;
            return rc;
        }
        if (rc || !there)
            continue;
        if (ll_ship_image_have(im, ll_ship_image_segments(im) - 1) >= lsn) {
            *out = (struct found){true, step->top};
            return 0;
        }
        ll_ship_image_drop(im);
    }
    if (why.code && err)
        *err = why;
    return why.code;
}

/* Adds to the image the segment with the byte below `lsn`. */
static int add_below(struct ll_ship_past *a, const struct ll_ship_buf *steps, uint64_t lsn,
                     struct ll_ship_image *im, struct found *out, struct lladd_error *err)
{
    bool any = false;
    int rc = 0;
    *out = (struct found){false, 0};
    for (size_t i = begin_below(a, lsn); i > 0 && !any && !rc;) {
        struct group g = group_below(a, i);
        rc = add_group(a, steps, g, lsn, im, out, &any, err);
        i = g.from;
    }
    return rc;
}

/* Reads the cut of a segment of the path: the lowest one that begins at `lsn` or above. If this
 * segment is damaged, *there is false. */
static int cut_above(struct ll_ship_past *a, const struct ll_ship_buf *steps, uint64_t lsn,
                     struct ll_ship_image_segment *out, bool *there, struct lladd_error *err)
{
    struct lladd_error why = LLADD_ERROR_INIT;
    struct ll_ship_image im;
    size_t n = stored(a), i = begin_below(a, lsn);
    int rc = 0;
    *there = false;
    ll_ship_image_init(&im, a->mem, a->store, a->uuid);
    while (i < n && !*there && !rc) {
        struct group g = {i, i + 1};
        struct found found = {false, 0};
        bool any = false;
        while (g.to < n && stored_at(a, g.to)->first == stored_at(a, i)->first)
            g.to++;
        rc = add_group(a, steps, g, stored_at(a, i)->first + 1, &im, &found, &any, &why);
        *there = !rc && found.there;
        if (*there)
            *out = *ll_ship_image_at(&im, 0);
        i = g.to;
        if (any && !*there)
            break;
    }
    ll_ship_image_free(&im);
    if (lladd_code_root(rc) == LLADD_ROOT_DATA) {
        a->damage = why;
        return 0;
    }
    if (rc && err)
        *err = why;
    return rc;
}

int ll_ship_past_cut(struct ll_ship_past *a, const struct ll_ship_buf *steps, uint64_t first,
                     uint64_t *out, struct lladd_error *err)
{
    struct ll_ship_image_segment segment;
    bool there;
    int rc = cut_above(a, steps, first, &segment, &there, err);
    *out = !rc && there && segment.first == first ? segment.cut : first;
    return rc;
}

/* ---- chains --------------------------------------------------------------------------------- */

/* If *lsn is in a gap that the cut of a later segment declares, lowers it to the cut, but not below
 * `least`. */
static int leave_gap(struct ll_ship_past *a, const struct ll_ship_buf *steps, uint64_t *lsn,
                     uint64_t least, struct lladd_error *err)
{
    struct ll_ship_image_segment above;
    bool there;
    int rc = cut_above(a, steps, *lsn, &above, &there, err);
    if (!rc && there && above.cut < *lsn)
        *lsn = above.cut > least ? above.cut : least;
    return rc;
}

int ll_ship_past_chain(struct ll_ship_past *a, const struct ll_ship_buf *steps, uint64_t from,
                       uint64_t *to, struct ll_ship_image *down, uint64_t *reached,
                       struct lladd_error *err)
{
    struct found found;
    int rc = leave_gap(a, steps, to, from, err);
    *reached = *to;
    while (!rc && *reached > from) {
        rc = add_below(a, steps, *reached, down, &found, err);
        if (!rc && !found.there && LLADD_PLANTED(LLADD_BUG_GAP_PASSED))
            *reached = from;
        if (rc || !found.there)
            return rc;
        struct ll_ship_image_segment *s = ll_ship_image_at(down, ll_ship_image_segments(down) - 1);
        s->limit = *reached;
        *reached = s->first <= from || s->cut <= from ? from : s->cut;
    }
    return rc;
}

int ll_ship_past_reach(struct ll_ship_past *a, const struct ll_ship_buf *steps, uint64_t from,
                       uint64_t *out, struct lladd_error *err)
{
    struct ll_ship_image im;
    int rc = 0;
    bool there = true;
    *out = from;
    a->damage = (struct lladd_error)LLADD_ERROR_INIT;
    ll_ship_image_init(&im, a->mem, a->store, a->uuid);
    while (!rc && there) {
        struct ll_ship_image_segment above;
        struct lladd_error why = LLADD_ERROR_INIT;
        struct found found;
        rc = add_below(a, steps, *out + 1, &im, &found, &why);
        there = !rc && found.there;
        if (there) {
            uint64_t have = ll_ship_image_have(&im, 0);
            *out = have < found.top ? have : found.top;
            ll_ship_image_drop(&im);
        } else if (!rc) {
            rc = cut_above(a, steps, *out, &above, &there, &why);
            there = there && above.cut <= *out && above.first > *out;
            if (there)
                *out = above.first;
        }
        if (lladd_code_root(rc) == LLADD_ROOT_DATA) {
            a->damage = why; /* the range ends before what is damaged */
            rc = 0;
        } else if (rc && err && why.code)
            *err = why;
    }
    ll_ship_image_free(&im);
    return rc;
}

int ll_ship_past_top(struct ll_ship_past *a, const struct ll_ship_buf *steps, uint64_t *out,
                     struct lladd_error *err)
{
    static const enum ll_ship_source sources[] = {LL_SHIP_IN_SEGMENT, LL_SHIP_IN_PART};
    bool planted = LLADD_PLANTED(LLADD_BUG_FORK_IGNORED) && steps_of(steps) > 1;
    uint32_t timeline = step_at(steps, planted ? 1 : 0)->timeline;
    struct ll_ship_image im;
    size_t i = stored(a);
    int rc = 0;
    *out = steps_of(steps) > 1 && !planted ? step_at(steps, 1)->top : 0;
    while (i > 0 && stored_at(a, i - 1)->timeline != timeline)
        i--;
    if (i == 0)
        return 0;
    size_t to = i;
    while (to < stored(a) && stored_at(a, to)->first == stored_at(a, i - 1)->first)
        to++;
    ll_ship_image_init(&im, a->mem, a->store, a->uuid);
    struct group g = group_below(a, to);
    for (unsigned k = 0; k < 2 && !rc; k++) {
        bool there;
        rc = add_source(a, &im, g, timeline, sources[k], &there, err);
        if (rc || !there)
            continue;
        uint64_t have = ll_ship_image_have(&im, 0);
        *out = *out < have ? have : *out;
        ll_ship_image_drop(&im);
    }
    /* If a piece is missing, those after it cannot be used: the log ends above a gap. */
    for (i = g.from; i < g.to && !rc; i++)
        if (stored_at(a, i)->timeline == timeline && stored_at(a, i)->end > *out)
            *out = stored_at(a, i)->end;
    ll_ship_image_free(&im);
    return rc;
}
