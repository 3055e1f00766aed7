/* SPDX-License-Identifier: BSD-2-Clause */
/* A step of the archive. It stores the lowest segment that the store lacks, if that segment is
 * complete. Otherwise it stores a piece of that segment. All records are decoded before they are
 * stored, so that damage is never stored. The order of a segment's objects is
 *
 *     t<timeline>/bulk/...             the spools of transactions with a commit or prepare record
 *                                      in the segment
 *     t<timeline>/log/<first>.seg      the segment, with zeros after the end of the log in it
 *     t<timeline>/idx/<first>.idx      its index
 *
 * Then its pieces are deleted, and the pin is raised. So after a crash at any place the next step
 * finds the log that it needs, and an object that it puts again has the same bytes. */
#include "ship/archive_private.h"

#include <lladd/bytes.h>
#include <lladd/dst.h>
#include <lladd/lladd.h>
#include <lladd/log_read.h>
#include <stdio.h>
#include <string.h>

static uint64_t now(const struct lladd_archive *a)
{
    return ll_ship_now_ns(a->opt.world);
}

uint64_t ll_ship_archive_end(const struct lladd_archive *a)
{
    return a->db ? lladd_durable_lsn(a->db).v : a->closed_end;
}

void ll_ship_archive_keep(struct lladd_archive *a)
{
    a->pinned = true;
    if (!a->db)
        return;
    (void)lladd_log_hold_raise(a->hold, lladd_lsn_of(a->done));
    /* At the log's limit there may be no space for a new pin. The hold keeps the log meanwhile. */
    a->pinned = lladd_pin_set(a->db, a->pin, lladd_lsn_of(a->done), NULL) == 0;
}

/* ---- begin ---------------------------------------------------------------------------------- */

int ll_ship_archive_identify(struct lladd_archive *a, struct lladd_error *err)
{
    unsigned char control[LL_SHIP_CONTROL];
    int rc = ll_ship_control_read(a->dev, control, err);
    if (rc)
        return rc;
    ll_ship_control_uuid(control, a->uuid);
    a->page_size = ll_ship_control_page_size(control);
    a->timeline = ll_ship_control_timeline(control);
    (void)snprintf(a->pin, sizeof a->pin, "lladd.archive.%u", a->timeline);
    return 0;
}

int ll_ship_archive_begin(struct lladd_archive *a, struct lladd_error *err)
{
    if (a->begun)
        return 0;
    int rc = ll_ship_archive_identify(a, err);
    /* The pin is set before the store is used. The pin keeps the log as long as the store cannot be
     * reached, even if the process ends meanwhile. */
    if (!rc && !a->pinned)
        ll_ship_archive_keep(a);
    if (!rc)
        rc = ll_ship_claim_store(a->store, a->mem, a->uuid, a->page_size, err);
    if (!rc)
        rc = ll_ship_bulk_fork(a, err);
    if (!rc && !a->claimed) {
        rc = a->db ? ll_ship_claim(a->store, a->mem, a->opt.world, a->dev, a->timeline, &a->claim,
                                   err)
                   : ll_ship_claim_own(a->store, a->dev, a->timeline, &a->claim, err);
        a->claimed = rc == 0;
    }
    if (!rc)
        rc = ll_ship_archive_resume(a, ll_ship_archive_end(a), err);
    if (!rc)
        rc = ll_ship_bulk_resume(a, err);
    if (rc)
        return rc;
    a->begun = true;
    ll_ship_archive_keep(a);
    return 0;
}

/* ---- marks ---------------------------------------------------------------------------------- */

int ll_ship_archive_note(struct lladd_archive *a, const char *name, lladd_lsn end, lladd_lsn *lsn,
                         struct lladd_error *err)
{
    unsigned char bytes[LL_SHIP_MARK_MAX];
    struct lladd_txn *txn;
    size_t len = ll_ship_mark_encode(name, end, ll_ship_wall_us(a->opt.world), bytes);
    int rc = lladd_begin(a->db, NULL, &txn, err);
    if (rc)
        return rc;
    rc = lladd_log_note(txn, *name ? "lladd.mark" : "lladd.time", lladd_span_of(bytes, len), lsn);
    if (rc) {
        if (err)
            *err = *lladd_txn_error(txn);
        (void)lladd_abort(txn); /* the transaction has changed no page */
        return rc;
    }
    rc = lladd_commit(txn);
    return rc ? lladd_error_set(err, rc, "the mark could not be committed") : 0;
}

/* A time mark says which log was durable before the clock was read. So a restore to a time never
 * has a transaction that committed later. If the log has no space for the mark, the step goes on
 * without it. */
static void mark_time(struct lladd_archive *a)
{
    lladd_lsn durable = lladd_lsn_of(ll_ship_archive_end(a)), lsn;
    uint64_t ns = now(a);
    if (!a->db || durable.v <= a->mark_end || (a->marked_ns && ns - a->marked_ns < a->opt.mark_ns))
        return;
    a->marked_ns = ns;
    if (ll_ship_archive_note(a, "", durable, &lsn, NULL) == 0 &&
        lladd_log_force(a->db, lsn, NULL) == 0)
        a->mark_end = ll_ship_archive_end(a);
}

/* ---- objects -------------------------------------------------------------------------------- */

static void count(struct lladd_archive *a, uint64_t bytes)
{
    lladd_mutex_lock(&a->state);
    a->status.objects++;
    a->status.stored_bytes += bytes;
    lladd_mutex_unlock(&a->state);
}

int ll_ship_archive_put(struct lladd_archive *a, const char *name, const struct ll_ship_buf *bytes,
                        struct lladd_error *err)
{
    struct lladd_iovec piece = {bytes->data, bytes->len};
    int rc = ll_ship_put(a->store, a->mem, name, &piece, 1, err);
    if (!rc)
        count(a, bytes->len);
    return rc;
}

/* Reads `len` bytes of payload from `lsn` on. The list has the highest segment first, so the
 * segments are read from number n - 1 down to 0. */
static int read_after(struct lladd_archive *a, const struct ll_ship_segment *list, size_t n,
                      uint64_t lsn, uint64_t len, struct lladd_error *err)
{
    int rc = 0;
    a->after.len = 0;
    unsigned char *room = ll_ship_room(&a->after, len);
    if (!room)
        return ll_ship_no_memory(err);
    while (n-- > 0 && a->after.len < len && !rc) {
        const struct ll_ship_segment *s = &list[n];
        uint64_t here = ll_ship_segment_end(s) - s->first;
        here = here < len - a->after.len ? here : len - a->after.len;
        if (s->first != lsn || s->cut != lsn)
            break;
        rc = ll_ship_archive_read(a, s, 0, ll_ship_segment_offset(s, lsn + here), &a->object, err);
        if (!rc)
            ll_ship_segment_payload(s, a->object.data, 0, lsn, here, room + a->after.len);
        a->after.len += here;
        lsn += here;
    }
    return rc                   ? rc
           : a->after.len < len ? ll_ship_segment_fail(lsn, "the rest of a record is missing", err)
                                : 0;
}

static void walk_of(struct lladd_archive *a, const struct ll_ship_segment *s,
                    char name[LL_SHIP_NAME_MAX], struct ll_ship_walk *w)
{
    (void)snprintf(name, LL_SHIP_NAME_MAX, "log segment %016llx.seg", (unsigned long long)s->first);
    *w = (struct ll_ship_walk){.seg = *s, .name = name, .code = LLADD_CORRUPT_LOG};
    memcpy(w->uuid, a->uuid, sizeof w->uuid);
    w->scratch = a->scratch;
    w->scratch.len = 0;
}

/* Reads and checks the segment, and makes its index. */
static int index_segment(struct lladd_archive *a, const struct ll_ship_segment *list, size_t n,
                         uint64_t stop, struct ll_ship_index *ix, struct lladd_error *err)
{
    const struct ll_ship_segment *s = &list[n];
    char name[LL_SHIP_NAME_MAX];
    struct ll_ship_walk w;
    uint64_t have = ll_ship_segment_offset(s, stop);
    int rc = ll_ship_archive_read(a, s, 0, have, &a->bytes, err);
    unsigned char *rest = rc ? NULL : ll_ship_room(&a->bytes, s->size - have);
    if (!rc && !rest)
        rc = ll_ship_no_memory(err);
    if (rc)
        return rc;
    memset(rest, 0, s->size - have);
    a->bytes.len = s->size;
    walk_of(a, s, name, &w);
    w.bytes = a->bytes.data;
    w.start = a->start;
    w.stop = stop;
    rc = ll_ship_index_make(ix, &w, a->timeline, &a->open, err);
    if (rc == LLADD_CORRUPT_LOG && LLADD_PLANTED(LLADD_BUG_UNDECODED))
        rc = 0;
    if (!rc && w.partial_at)
        rc = read_after(a, list, n, stop, w.next - stop, err);
    w.after = a->after.data;
    w.after_len = a->after.len;
    if (!rc)
        rc = ll_ship_index_finish(ix, &w, err);
    a->scratch = w.scratch;
    return rc;
}

struct doomed {
    struct ll_ship_buf names; /* char[LL_SHIP_NAME_MAX] each */
    struct lladd_error *err;
};

static int see_part(void *ctx, const char *name, uint64_t size)
{
    struct doomed *d = ctx;
    char padded[LL_SHIP_NAME_MAX] = "";
    size_t len = strlen(name);
    (void)size;
    if (len < 5 || len >= sizeof padded || strcmp(name + len - 5, ".part") != 0)
        return 0;
    memcpy(padded, name, len);
    return ll_ship_append(&d->names, padded, sizeof padded, d->err);
}

/* The segment is stored, so its pieces are not needed. */
static int remove_parts(struct lladd_archive *a, uint64_t first, struct lladd_error *err)
{
    char prefix[LL_SHIP_NAME_MAX];
    struct doomed d = {{.mem = a->mem}, err};
    ll_ship_part_prefix(a->timeline, first, prefix);
    int rc = a->store->ops->list(a->store, prefix, see_part, &d, err);
    for (size_t at = 0; at < d.names.len && !rc; at += LL_SHIP_NAME_MAX) {
        rc = a->store->ops->remove(a->store, (const char *)d.names.data + at, err);
        rc = rc == LLADD_NOT_FOUND ? 0 : rc;
    }
    ll_ship_buf_free(&d.names);
    return rc;
}

/* The store may have an index from an earlier attempt, or from another version of the library. The
 * index is derived from the segment alone, so it is replaced. */
static int put_index(struct lladd_archive *a, const struct ll_ship_index *ix,
                     struct lladd_error *err)
{
    char name[LL_SHIP_NAME_MAX];
    ll_ship_idx_name(a->timeline, ix->first.v, name);
    int rc = ll_ship_index_encode(ix, &a->object, err);
    struct lladd_iovec piece = {a->object.data, a->object.len};
    if (!rc)
        rc = ll_ship_put(a->store, a->mem, name, &piece, 1, err);
    if (rc == LLADD_EXISTS) {
        rc = a->store->ops->remove(a->store, name, err);
        if (!rc || rc == LLADD_NOT_FOUND)
            rc = ll_ship_put(a->store, a->mem, name, &piece, 1, err);
    }
    if (!rc)
        count(a, a->object.len);
    return rc;
}

static int store_segment(struct lladd_archive *a, const struct ll_ship_segment *list, size_t n,
                         uint64_t stop, struct lladd_error *err)
{
    char name[LL_SHIP_NAME_MAX];
    struct ll_ship_index ix;
    uint64_t first = list[n].first;
    ll_ship_index_init(&ix, a->mem);
    int rc = index_segment(a, list, n, stop, &ix, err);
    ll_ship_seg_name(a->timeline, first, name);
    if (!rc && LLADD_PLANTED(LLADD_BUG_PIN_EARLY)) {
        a->done = a->pos = stop;
        a->start = a->seen = ix.next.v;
        ll_ship_archive_keep(a);
    }
    if (!rc)
        rc = ll_ship_bulk_segment(a, &ix, err);
    if (!rc)
        rc = ll_ship_archive_put(a, name, &a->bytes, err);
    if (rc == LLADD_EXISTS)
        rc = ll_ship_differs_segment(a, name, first, a->start, err);
    if (!rc)
        rc = put_index(a, &ix, err);
    if (!rc)
        rc = remove_parts(a, first, err);
    a->open.len = rc ? a->open.len : 0;
    if (!rc)
        rc = ll_ship_append(&a->open, ix.open.data, ix.open.len, err);
    if (!rc) {
        a->done = a->pos = stop;
        a->start = a->seen = ix.next.v;
        a->shipped.len = 0;
        ll_ship_archive_keep(a);
    }
    ll_ship_index_free(&ix);
    return rc;
}

static int store_piece(struct lladd_archive *a, const struct ll_ship_segment *s, uint64_t end,
                       struct lladd_error *err)
{
    char name[LL_SHIP_NAME_MAX];
    struct ll_ship_walk w;
    uint64_t from = ll_ship_segment_offset(s, a->pos), to = ll_ship_segment_offset(s, end);
    uint64_t skip = from / s->block * s->block;
    int rc = ll_ship_archive_read(a, s, skip, to, &a->bytes, err);
    if (rc)
        return rc;
    walk_of(a, s, name, &w);
    w.bytes = a->bytes.data;
    w.skip = skip;
    w.start = a->seen;
    w.stop = end;
    w.fn = ll_ship_bulk_see;
    w.ctx = a;
    a->seen_bulk.len = 0;
    rc = ll_ship_walk(&w, err);
    if (rc == LLADD_CORRUPT_LOG && LLADD_PLANTED(LLADD_BUG_UNDECODED))
        rc = 0;
    a->scratch = w.scratch;
    if (!rc && w.partial_at)
        rc = ll_ship_segment_fail(s->first, "the rest of a record is missing", err);
    if (!rc)
        rc = ll_ship_bulk_piece(a, err);
    if (rc)
        return rc;
    struct ll_ship_buf piece = {.data = a->bytes.data + (from - skip), .len = to - from};
    ll_ship_part_name(a->timeline, s->first, a->pos, end, name);
    rc = ll_ship_archive_put(a, name, &piece, err);
    if (rc == LLADD_EXISTS)
        rc = ll_ship_differs_piece(a, name, s, a->pos, end, a->seen, err);
    if (!rc) {
        a->pos = end;
        a->seen = w.next;
        a->piece_ns = now(a);
    }
    return rc;
}

/* ---- a step --------------------------------------------------------------------------------- */

/* Gives up all segments but the current one, so that their log may be recycled. The store is not
 * used. */
static int give_up(struct lladd_archive *a, uint64_t end, struct lladd_error *err)
{
    struct ll_ship_buf list = {.mem = a->mem};
    int rc = ll_ship_segments(a->dev, end, end, &list, err);
    uint64_t first = rc ? 0 : ((const struct ll_ship_segment *)(const void *)list.data)->first;
    ll_ship_buf_free(&list);
    if (rc || first <= a->done)
        return rc;
    uint64_t from = a->pos;
    rc = ll_ship_archive_place(a, first, err);
    if (!rc)
        ll_ship_archive_gap(a, from, first);
    if (!rc)
        rc = ll_ship_bulk_drop(a, first, err);
    if (!rc && (a->begun || (rc = ll_ship_archive_identify(a, err)) == 0))
        ll_ship_archive_keep(a);
    return rc;
}

static int store_next(struct lladd_archive *a, bool all, uint64_t end, bool *more,
                      struct lladd_error *err)
{
    struct ll_ship_buf list = {.mem = a->mem};
    *more = false;
    if (end <= a->done)
        return 0;
    int rc = ll_ship_segments(a->dev, a->done, end, &list, err);
    const struct ll_ship_segment *at = (const void *)list.data;
    size_t n = list.len / sizeof *at;
    if (!rc && at[n - 1].cut != a->done && at[n - 1].first != a->done)
        rc = ll_ship_segment_fail(at[n - 1].first, "the log before it is missing", err);
    if (!rc) {
        const struct ll_ship_segment *s = &at[n - 1];
        uint64_t full = ll_ship_segment_end(s), stop = n > 1 ? at[n - 2].cut : end;
        stop = stop < full ? stop : full;
        if (s->first > a->pos) /* the log before this segment was cut */
            a->pos = s->first;
        if (a->start < s->first)
            a->start = s->first;
        if (a->seen < s->first)
            a->seen = s->first;
        bool due =
            all || stop - a->pos >= a->opt.piece_bytes || now(a) - a->piece_ns >= a->opt.piece_ns;
        if (n > 1 || stop == full) {
            rc = store_segment(a, at, n - 1, stop, err);
            *more = !rc && end > stop;
        } else if (stop > a->pos && due) {
            rc = store_piece(a, s, stop, err);
        }
    }
    ll_ship_buf_free(&list);
    return rc;
}

int ll_ship_archive_step(struct lladd_archive *a, bool all, bool *more, struct lladd_error *err)
{
    int rc = a->db ? lladd_db_error(a->db, err) : 0;
    if (!rc && a->diverged.code) {
        *err = a->diverged;
        return err->code;
    }
    uint64_t end = ll_ship_archive_end(a);
    if (!rc && a->opt.give_up_bytes && end > a->done && end - a->done > a->opt.give_up_bytes)
        rc = give_up(a, end, err);
    if (!rc)
        rc = ll_ship_archive_begin(a, err);
    if (!rc && !a->pinned)
        ll_ship_archive_keep(a);
    if (!rc) {
        mark_time(a);
        end = ll_ship_archive_end(a);
        rc = ll_ship_claim_check(a->store, a->timeline, &a->claim, err);
    }
    if (!rc)
        rc = store_next(a, all, end, more, err);
    if (rc == LLADD_DIVERGED)
        a->diverged = *err;
    return rc;
}
