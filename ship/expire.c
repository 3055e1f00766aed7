/* SPDX-License-Identifier: BSD-2-Clause */
/* Expiry: deletes backups, and the archived log that no kept backup needs.
 *
 * A backup has its own log up to its end. A restore from the backup needs the archived log from
 * that end on, and the spools of the transactions that were open at the end. These transactions
 * began at the backup's `from` or later. So no restore needs what lies wholly below the lowest
 * `from` of all backups that are kept, or that have begun and not ended. This holds on any
 * timeline, because LSNs go on over a fork.
 *
 * The order makes every crash harmless:
 *
 *   1. the backups that are not kept. Of a backup, "begun" is deleted first: no restore needs it,
 *      and a backup with "begun" and without a manifest would look like one that runs. The manifest
 *      is deleted next, so that no restore begins with the backup. The rest follows
 *   2. marks; then segments and pieces, the lowest first. Of a segment: first the spools of the
 *      transactions that commit or prepare in it; then the index, which names these spools; then
 *      the segment itself
 *
 * The next call deletes what a crash has left. Claims and histories stay. The highest whole segment
 * of each timeline stays, too, because the archive goes on after that segment. The archive looks
 * for the spools of a segment when it stores the segment, so the spools stay as long as the
 * segment. */
#include "ship/image_private.h"

#include <lladd/dst.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WEEK_US (INT64_C(7) * 24 * 3600 * 1000000)

struct object {
    char name[LL_SHIP_NAME_MAX];
    uint64_t size;
};

struct expire {
    struct lladd_store *store;
    struct lladd_keep keep;
    lladd_finding_fn *fn;
    void *ctx;
    struct ll_ship_past past;
    bool *kept;                 /* for each backup of `past` */
    struct ll_ship_buf objects; /* struct object, by name: of all backups; later of the timelines */
    uint64_t from;              /* log wholly below this LSN is not needed */
    struct lladd_expire_info info;
    struct lladd_error *err;
};

static const struct lladd_backup_info *base_at(const struct expire *e, size_t i)
{
    return (const struct lladd_backup_info *)(const void *)e->past.bases.data + i;
}

static size_t bases(const struct expire *e)
{
    return e->past.bases.len / sizeof(struct lladd_backup_info);
}

static const struct object *object_at(const struct expire *e, size_t i)
{
    return (const struct object *)(const void *)e->objects.data + i;
}

static size_t objects(const struct expire *e)
{
    return e->objects.len / sizeof(struct object);
}

static const struct ll_ship_stored *stored_at(const struct expire *e, size_t i)
{
    return (const struct ll_ship_stored *)(const void *)e->past.stored.data + i;
}

static size_t stored(const struct expire *e)
{
    return e->past.stored.len / sizeof(struct ll_ship_stored);
}

/* ---- what is kept --------------------------------------------------------------------------- */

/* The timeline and its ancestors. The store of a copy may lack the origin. */
static int path_of(struct expire *e, uint32_t timeline, struct ll_ship_buf *steps)
{
    struct ll_ship_step own = {timeline, UINT64_MAX};
    struct ll_ship_fork fork;
    steps->len = 0;
    int rc = timeline ? ll_ship_past_fork(&e->past, timeline, &fork, e->err) : 0;
    return rc == LLADD_NOT_FOUND ? ll_ship_append(steps, &own, sizeof own, e->err)
           : rc                  ? rc
                                 : ll_ship_past_path(&e->past, timeline, steps, e->err);
}

/* Of the backups of the path that ended before `before`, keeps the one that ended last. */
static void keep_last(struct expire *e, const struct ll_ship_buf *steps, int64_t before)
{
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < bases(e); i++) /* by the time of their end */
        if (base_at(e, i)->ended_us < before &&
            ll_ship_on_path(steps, base_at(e, i)->timeline, base_at(e, i)->end.v))
            best = i;
    if (best != SIZE_MAX)
        e->kept[best] = true;
}

/* For each kept backup, also keeps the last backup on its path that had ended before the time. With
 * that backup each state since the time can be restored. */
static int keep_since(struct expire *e, struct ll_ship_buf *steps)
{
    int rc = 0;
    for (size_t i = bases(e); i-- > 0 && !rc;) {
        if (!e->kept[i])
            continue;
        rc = path_of(e, base_at(e, i)->timeline, steps);
        if (!rc)
            keep_last(e, steps, e->keep.since_us);
    }
    return rc;
}

/* *serves: a kept backup is on the path of the timeline. *over: a kept backup is of this timeline
 * or of a descendant. */
static int look_for_kept(struct expire *e, uint32_t timeline, const struct ll_ship_buf *steps,
                         bool *serves, bool *over)
{
    struct ll_ship_buf other = {.mem = e->past.mem};
    int rc = 0;
    *serves = *over = false;
    for (size_t i = 0; i < bases(e) && !rc; i++) {
        const struct lladd_backup_info *b = base_at(e, i);
        if (!e->kept[i])
            continue;
        *serves = *serves || ll_ship_on_path(steps, b->timeline, b->end.v);
        rc = path_of(e, b->timeline, &other);
        *over = *over || (!rc && ll_ship_on_path(&other, timeline, 0));
    }
    ll_ship_buf_free(&other);
    return rc;
}

/* A copy that archives, and was not backed up yet, needs a backup of its origin. */
static int keep_for_copies(struct expire *e, struct ll_ship_buf *steps)
{
    int rc = 0;
    for (size_t i = 0; i < stored(e) && !rc; i++) {
        uint32_t timeline = stored_at(e, i)->timeline;
        bool serves = false, over = false;
        if (i && stored_at(e, i - 1)->timeline == timeline)
            continue;
        rc = path_of(e, timeline, steps);
        if (!rc)
            rc = look_for_kept(e, timeline, steps, &serves, &over);
        if (!rc && !serves && !over)
            keep_last(e, steps, INT64_MAX);
    }
    return rc;
}

static int choose(struct expire *e)
{
    struct ll_ship_buf steps = {.mem = e->past.mem};
    size_t n = bases(e);
    int rc = 0;
    for (size_t i = 0; i < n; i++)
        e->kept[i] = i == n - 1 || n - i <= e->keep.backups ||
                     (e->keep.since_us && base_at(e, i)->ended_us >= e->keep.since_us);
    if (e->keep.since_us)
        rc = keep_since(e, &steps);
    if (!rc)
        rc = keep_for_copies(e, &steps);
    ll_ship_buf_free(&steps);
    e->from = UINT64_MAX;
    for (size_t i = 0; i < n; i++) {
        e->info.kept += e->kept[i];
        e->info.expired += !e->kept[i];
        bool lower = base_at(e, i)->from.v < e->from || LLADD_PLANTED(LLADD_BUG_EXPIRE_KEPT);
        if (e->kept[i] && lower)
            e->from = base_at(e, i)->from.v;
    }
    return rc;
}

/* ---- deleting ------------------------------------------------------------------------------- */

static int drop(struct expire *e, const char *name, uint64_t size)
{
    struct lladd_finding f = {.kind = LLADD_FINDING_NOTE,
                              .file = name,
                              .offset = UINT64_MAX,
                              .page = {LLADD_NO_PAGE},
                              .message = e->keep.dry_run ? "would be deleted" : "is deleted"};
    int rc = e->fn ? e->fn(e->ctx, &f) : 0;
    if (rc)
        return lladd_error_set(e->err, rc, "the function for findings has stopped the expiry");
    if (!e->keep.dry_run)
        rc = e->store->ops->remove(e->store, name, e->err);
    if (rc == LLADD_NOT_FOUND) /* a reply was lost, or another process expires, too */
        return 0;
    e->info.objects += !rc;
    e->info.bytes += rc ? 0 : size;
    return rc;
}

static int see_object(void *ctx, const char *name, uint64_t size)
{
    struct expire *e = ctx;
    struct object o = {.size = size};
    size_t len = strlen(name);
    if (len >= sizeof o.name)
        return 0;
    memcpy(o.name, name, len);
    return ll_ship_append(&e->objects, &o, sizeof o, e->err);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct object *)a)->name, ((const struct object *)b)->name);
}

static int list(struct expire *e, const char *prefix)
{
    e->objects.len = 0;
    int rc = e->store->ops->list(e->store, prefix, see_object, e, e->err);
    if (!rc && objects(e) > 1)
        qsort(e->objects.data, objects(e), sizeof(struct object), by_name);
    return rc;
}

/* ---- backups -------------------------------------------------------------------------------- */

/* The objects of one backup. */
struct group {
    size_t i, to;
    char name[64];
    bool manifest, begun;
};

/* The length of "base/<name>/". */
static size_t prefix_of(const char *object)
{
    const char *slash = strchr(object + strlen("base/"), '/');
    return slash ? (size_t)(slash - object) + 1 : strlen(object);
}

static struct group group_at(const struct expire *e, size_t i)
{
    struct group g = {.i = i, .to = i};
    const char *first = object_at(e, i)->name;
    size_t prefix = prefix_of(first), len = prefix - strlen("base/") - 1;
    if (len < sizeof g.name)
        memcpy(g.name, first + strlen("base/"), len);
    for (; g.to < objects(e) && strncmp(object_at(e, g.to)->name, first, prefix) == 0; g.to++) {
        g.manifest = g.manifest || strcmp(object_at(e, g.to)->name + prefix, "manifest") == 0;
        g.begun = g.begun || strcmp(object_at(e, g.to)->name + prefix, "begun") == 0;
    }
    return g;
}

static int drop_named(struct expire *e, const struct group *g, const char *what)
{
    char name[LL_SHIP_NAME_MAX];
    ll_ship_base_name(g->name, what, name);
    for (size_t i = g->i; i < g->to; i++)
        if (strcmp(object_at(e, i)->name, name) == 0)
            return drop(e, name, object_at(e, i)->size);
    return 0;
}

static int drop_base(struct expire *e, const struct group *g)
{
    size_t prefix = prefix_of(object_at(e, g->i)->name);
    bool late = LLADD_PLANTED(LLADD_BUG_EXPIRE_ORDER);
    int rc = drop_named(e, g, "begun");
    if (!rc && !late)
        rc = drop_named(e, g, "manifest");
    for (size_t i = g->i; i < g->to && !rc; i++) {
        const char *what = object_at(e, i)->name + prefix;
        if (strcmp(what, "manifest") != 0 && strcmp(what, "begun") != 0)
            rc = drop(e, object_at(e, i)->name, object_at(e, i)->size);
    }
    return rc || !late ? rc : drop_named(e, g, "manifest");
}

/* Looks at a backup without a manifest. *gone: the backup does not run, because it began at least a
 * week ago, or has no "begun". The list of objects may be older than "begun", so the store is asked
 * again. */
static int look_at_unended(struct expire *e, const struct group *g, bool *gone)
{
    uint64_t from;
    int64_t when;
    int rc = ll_ship_begun_read(e->store, e->past.mem, g->name, &from, &when, e->err);
    *gone = rc == LLADD_NOT_FOUND || (!rc && ll_ship_wall_us(e->keep.world) - when >= WEEK_US);
    if (!rc && !*gone && from < e->from && !LLADD_PLANTED(LLADD_BUG_EXPIRE_RUNNING))
        e->from = from;
    return rc == LLADD_NOT_FOUND ? 0 : rc;
}

static bool is_kept(const struct expire *e, const char *name, bool *known)
{
    for (size_t i = 0; i < bases(e); i++)
        if (strcmp(base_at(e, i)->name, name) == 0) {
            *known = true;
            return e->kept[i];
        }
    *known = false;
    return false;
}

/* `dropping`: deletes backups. Otherwise only looks at the backups that have not ended. A backup
 * that ended after the manifests were read is kept. The other backups need all log that this backup
 * needs. */
static int each_base(struct expire *e, bool dropping)
{
    int rc = 0;
    for (size_t i = 0; i < objects(e) && !rc;) {
        struct group g = group_at(e, i);
        bool known, gone = false, kept = is_kept(e, g.name, &known);
        i = g.to;
        if (!*g.name || kept || (g.manifest && !known))
            continue;
        if (!known)
            rc = look_at_unended(e, &g, &gone);
        if (!rc && dropping && (known || gone))
            rc = drop_base(e, &g);
    }
    return rc;
}

/* ---- the log -------------------------------------------------------------------------------- */

/* First LSN of the next segment of the timeline that is stored whole; UINT64_MAX: there is none. */
static uint64_t next_whole(const struct expire *e, size_t i)
{
    const struct ll_ship_stored *s = stored_at(e, i);
    for (size_t k = i + 1; k < stored(e); k++)
        if (stored_at(e, k)->timeline == s->timeline && stored_at(e, k)->first > s->first &&
            stored_at(e, k)->source == LL_SHIP_IN_SEGMENT)
            return stored_at(e, k)->first;
    return UINT64_MAX;
}

/* *out: the LSN after the last one for which the segment has room. A damaged object does not say
 * how long its contents are; then it is the begin of the next segment, which is no lower. */
static int end_of(const struct expire *e, size_t i, uint64_t *out)
{
    const struct ll_ship_stored *s = stored_at(e, i);
    struct ll_ship_segment seg = {.first = s->first};
    *out = s->end;
    if (s->source == LL_SHIP_IN_PART)
        return 0;
    int rc = ll_ship_stored_contents(e->store, s, &seg.size, e->err);
    *out = next_whole(e, i);
    if (rc)
        return rc == LLADD_CORRUPT_BACKUP ? 0 : rc;
    seg.block = seg.size < LL_SHIP_BLOCK_MOST ? seg.size : LL_SHIP_BLOCK_MOST;
    *out = seg.block > LL_SHIP_BLOCK_HEADER ? ll_ship_segment_end(&seg) : s->first;
    return 0;
}

/* *old: the object is wholly below the log that is needed. The last whole segment is never old:
 * when the archive begins again, it goes on after this segment. */
static int is_old(const struct expire *e, size_t i, bool *old)
{
    uint64_t next = next_whole(e, i), end = UINT64_MAX;
    bool whole = stored_at(e, i)->source == LL_SHIP_IN_SEGMENT;
    *old = stored_at(e, i)->first < e->from && (whole ? next != UINT64_MAX : next <= e->from);
    int rc = *old ? end_of(e, i, &end) : 0;
    *old = *old && !rc && end <= e->from;
    return rc;
}

/* The number of the first object with this name or a higher one. */
static size_t lower_bound(const struct expire *e, const char *name)
{
    size_t low = 0, high = objects(e);
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (strcmp(object_at(e, mid)->name, name) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static int drop_spool(struct expire *e, uint32_t timeline, uint64_t txn)
{
    char prefix[LL_SHIP_NAME_MAX];
    int rc = 0;
    ll_ship_blk_name(timeline, txn, 0, prefix);
    *(strchr(prefix, '.') + 1) = 0; /* the number of the part follows */
    for (size_t i = lower_bound(e, prefix); i < objects(e) && !rc; i++) {
        if (strncmp(object_at(e, i)->name, prefix, strlen(prefix)) != 0)
            break;
        rc = drop(e, object_at(e, i)->name, object_at(e, i)->size);
    }
    return rc;
}

/* The spools of the transactions that have a commit or prepare record in the segment. */
static int drop_spools(struct expire *e, const struct ll_ship_stored *s)
{
    struct ll_ship_index ix;
    int rc = ll_ship_index_load(e->store, e->past.mem, s->timeline, lladd_lsn_of(s->first), &ix,
                                e->err);
    if (rc) /* the spools of a damaged segment are not known, and stay */
        return lladd_code_root(rc) == LLADD_ROOT_DATA || rc == LLADD_NOT_FOUND ? 0 : rc;
    const struct ll_ship_index_bulk *bulk = (const void *)ix.bulk.data;
    for (size_t i = 0; i < ix.bulk.len / sizeof *bulk && !rc; i++)
        rc = drop_spool(e, s->timeline, bulk[i].txn);
    ll_ship_index_free(&ix);
    return rc;
}

static int drop_segment(struct expire *e, const struct ll_ship_stored *s)
{
    char name[LL_SHIP_NAME_MAX];
    int rc = drop_spools(e, s);
    ll_ship_idx_name(s->timeline, s->first, name);
    size_t i = lower_bound(e, name);
    if (!rc && i < objects(e) && strcmp(object_at(e, i)->name, name) == 0)
        rc = drop(e, name, object_at(e, i)->size);
    return rc;
}

/* Segments and pieces of all timelines, the lowest first. */
static int drop_log(struct expire *e)
{
    char name[LL_SHIP_NAME_MAX];
    int rc = 0;
    for (size_t i = 0; i < stored(e) && !rc; i++) {
        const struct ll_ship_stored *s = stored_at(e, i);
        bool old;
        rc = is_old(e, i, &old);
        if (rc || !old)
            continue;
        if (s->source == LL_SHIP_IN_SEGMENT)
            rc = drop_segment(e, s);
        ll_ship_stored_name(s, name);
        if (!rc)
            rc = drop(e, name, s->size);
    }
    return rc;
}

/* No restore reaches a mark below the log that is kept. */
static int drop_marks(struct expire *e)
{
    int rc = 0;
    for (size_t i = 0; i < objects(e) && !rc; i++) {
        const struct object *o = object_at(e, i);
        uint64_t lsn = UINT64_MAX;
        int64_t when;
        if (strlen(o->name) < 15 || strncmp(o->name + 9, "/mark/", 6) != 0)
            continue;
        rc = ll_ship_past_mark(&e->past, o->name, &lsn, &when, e->err);
        if (rc == LLADD_CORRUPT_BACKUP || rc == LLADD_NOT_FOUND)
            rc = 0;
        else if (!rc && lsn < e->from)
            rc = drop(e, o->name, o->size);
    }
    return rc;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static int run(struct expire *e)
{
    if (!bases(e))
        return lladd_error_set(e->err, LLADD_NOT_FOUND,
                               "no complete backup is in the store, so nothing is deleted");
    e->kept = ll_ship_new(e->past.mem, bases(e) * sizeof *e->kept);
    if (!e->kept)
        return ll_ship_no_memory(e->err);
    int rc = choose(e);
    if (!rc)
        rc = list(e, "base/");
    if (!rc)
        rc = each_base(e, false);
    if (!rc)
        rc = each_base(e, true);
    e->info.log_from = lladd_lsn_of(e->from);
    if (!rc)
        rc = list(e, "t");
    if (!rc)
        rc = drop_marks(e);
    return rc ? rc : drop_log(e);
}

int lladd_archive_expire(struct lladd_store *store, const struct lladd_keep *keep,
                         lladd_finding_fn *fn, void *ctx, struct lladd_expire_info *info,
                         struct lladd_error *err)
{
    struct expire e = {.store = store, .keep = LLADD_KEEP_INIT, .fn = fn, .ctx = ctx, .err = err};
    if (!store || !keep)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "the store or what is kept is NULL");
    memcpy(&e.keep, keep, keep->struct_size < sizeof e.keep ? keep->struct_size : sizeof e.keep);
    if (!e.keep.backups && e.keep.since_us <= 0)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                               "at least one backup is kept: a number or a time is needed");
    struct ll_ship_mem mem = {e.keep.allocator};
    int rc = ll_ship_past_open(&e.past, store, mem, err);
    if (rc)
        return rc;
    e.objects.mem = mem;
    /* A backup with a damaged manifest may be one that is to be kept. */
    rc = e.past.broken.len ? ll_ship_broken_fail((const void *)e.past.broken.data, err) : run(&e);
    if (!rc && info) {
        e.info.struct_size = info->struct_size;
        memcpy(info, &e.info,
               info->struct_size < sizeof e.info ? info->struct_size : sizeof e.info);
    }
    ll_ship_buf_free(&e.objects);
    ll_ship_delete(mem, e.kept);
    ll_ship_past_free(&e.past);
    return rc;
}
