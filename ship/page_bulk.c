/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds what was written to a page in bulk. It looks in the spools in files/ship, which are not
 * stored yet, and in the spools in the store.
 *
 * Of a spool only the heads of its pieces are read, and then the page. It does not matter whether
 * the transaction has committed. What it has written stays in the page until a write under a later
 * barrier, or a later record that formats the page, replaces it. */
#include "ship/page_private.h"

#include <lladd/bytes.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE_LSN = 8 };

/* Where a page is in a spool. */
struct place {
    struct ll_ship_spooled spool;
    uint32_t part;
    uint64_t at, barrier; /* barrier 0: nowhere */
    bool typed;
};

/* ---- the spools ----------------------------------------------------------------------------- */

static int add(struct ll_ship_wanted *w, uint64_t txn, bool local)
{
    struct ll_ship_spooled one = {txn, local, false};
    return w->raw || txn < w->since ? ll_ship_append(&w->txns, &one, sizeof one, w->err) : 0;
}

static int see_local(void *ctx, uint64_t txn, bool live)
{
    (void)live;
    return add(ctx, txn, true);
}

/* Returns the timeline on which the transaction began: w's own, or one of its ancestors. */
static uint32_t timeline_of(const struct ll_ship_wanted *w, uint64_t txn)
{
    const struct ll_ship_step *step = (const void *)w->steps.data;
    uint32_t timeline = w->timeline;
    for (size_t i = 0; i < w->steps.len / sizeof *step; i++)
        if (txn < step[i].top)
            timeline = step[i].timeline;
    return timeline;
}

/* Called for each object in the store. Adds the spool if the object is the first part of one. */
static int see_stored(void *ctx, const char *name, uint64_t size)
{
    struct ll_ship_wanted *w = ctx;
    char want[LL_SHIP_NAME_MAX];
    const char *bulk = strstr(name, "/bulk/");
    uint64_t txn = bulk ? strtoull(bulk + strlen("/bulk/"), NULL, 16) : 0;
    (void)size;
    ll_ship_blk_name(timeline_of(w, txn), txn, 0, want);
    return bulk && strcmp(name, want) == 0 ? add(w, txn, false) : 0;
}

/* The archiver may move a spool from the disk to the store meanwhile. The disk is listed first, so
 * the spool is found. */
int ll_ship_wanted_spools(struct ll_ship_wanted *w)
{
    w->txns.len = 0;
    int rc = ll_ship_spool_each(w->a->spool, see_local, w, w->err);
    return rc ? rc : w->a->store->ops->list(w->a->store, "t", see_stored, w, w->err);
}

/* ---- a page in a spool ---------------------------------------------------------------------- */

static int get(struct ll_ship_wanted *w, const struct ll_ship_spooled *s, uint32_t part,
               uint64_t at, void *out, size_t len)
{
    char name[LL_SHIP_NAME_MAX];
    if (s->local)
        return ll_ship_spool_get(w->a->spool, s->txn, part, at, out, len, w->err);
    ll_ship_blk_name(timeline_of(w, s->txn), s->txn, part, name);
    return ll_ship_get(w->a->store, name, at, out, len, w->err);
}

/* Reads the head of a piece. LLADD_NOT_FOUND: a local spool ends there without a last piece. Its
 * transaction has not committed, or the spool was stored and deleted meanwhile. */
static int get_head(struct ll_ship_wanted *w, const struct ll_ship_spooled *s, uint32_t part,
                    uint64_t at, struct ll_ship_blk_piece *out, uint32_t *crc, bool *last)
{
    static const unsigned char zeros[LL_SHIP_BLK_PIECE];
    unsigned char head[LL_SHIP_BLK_PIECE];
    char name[LL_SHIP_NAME_MAX];
    int rc = get(w, s, part, at, head, sizeof head);
    if (rc)
        return s->local && rc == LLADD_CORRUPT_BACKUP ? LLADD_NOT_FOUND : rc;
    if (ll_ship_blk_head(head, out, crc, last))
        return 0;
    if (s->local && memcmp(head, zeros, sizeof head) == 0)
        return LLADD_NOT_FOUND;
    ll_ship_blk_name(timeline_of(w, s->txn), s->txn, part, name);
    return ll_ship_corrupt(w->err, name, "the header of a piece is damaged");
}

/* Looks at one part. The barrier of a later piece is not lower, and the pages of a later piece
 * replace those of an earlier piece. */
static int look_at_part(struct ll_ship_wanted *w, const struct ll_ship_spooled *s, uint32_t part,
                        uint64_t low, uint64_t high, struct place *out, bool *last)
{
    uint64_t at = LL_SHIP_BLK_HEADER;
    for (;;) {
        struct ll_ship_blk_piece p;
        uint32_t crc;
        int rc = get_head(w, s, part, at, &p, &crc, last);
        if (rc || p.n == 0)
            return rc;
        at += LL_SHIP_BLK_PIECE;
        if (p.barrier >= low && p.barrier < high && p.barrier >= out->barrier &&
            w->page >= p.page && w->page - p.page < p.n)
            *out = (struct place){*s, part, at + (w->page - p.page) * w->page_size, p.barrier,
                                  p.typed};
        at += (uint64_t)p.n * w->page_size;
    }
}

/* Looks for the page under barriers from `low` to below `high`. */
static int look(struct ll_ship_wanted *w, const struct ll_ship_spooled *s, uint64_t low,
                uint64_t high, struct place *out)
{
    struct ll_ship_spooled stored = {.txn = s->txn};
    bool last = false;
    int rc = 0;
    for (uint32_t part = 0; !rc && !last; part++)
        rc = look_at_part(w, s, part, low, high, out, &last);
    if (s->local && rc == LLADD_NOT_FOUND)
        return look(w, &stored, low, high, out);
    return rc == LLADD_NOT_FOUND ? 0 : rc;
}

/* A raw page counts as empty, because the page cache has no use for it. */
static int take(struct ll_ship_wanted *w, const struct place *p)
{
    int rc = get(w, &p->spool, p->part, p->at, w->bytes, w->page_size);
    if (rc)
        return rc;
    w->empty = !p->typed;
    w->barrier = p->barrier;
    if (p->typed && (!ll_ship_page_ok(w->uuid, w->page, w->bytes, w->page_size) ||
                     lladd_get64(w->bytes + PAGE_LSN) != p->barrier))
        rc = lladd_error_set(w->err, LLADD_CORRUPT_BACKUP,
                             "the spool of transaction %llu: page %llu is damaged",
                             (unsigned long long)p->spool.txn, (unsigned long long)w->page);
    return rc;
}

int ll_ship_wanted_bulk(struct ll_ship_wanted *w, uint64_t from)
{
    const struct ll_ship_spooled *s = (const void *)w->txns.data;
    uint64_t low = w->empty ? 1 : lladd_get64(w->bytes + PAGE_LSN) + 1;
    uint64_t high = w->raw ? UINT64_MAX : w->since;
    struct place place = {.barrier = 0};
    int rc = 0;
    for (size_t i = 0; i < w->txns.len / sizeof *s && !rc; i++)
        if (s[i].txn >= from)
            rc = look(w, &s[i], low, high, &place);
    return rc || !place.barrier ? rc : take(w, &place);
}

int ll_ship_wanted_under(struct ll_ship_wanted *w, uint64_t writer)
{
    struct ll_ship_spooled s = {.txn = writer, .local = true};
    struct place place = {.barrier = 0};
    int rc = look(w, &s, w->since, w->since + 1, &place);
    if (!rc && place.barrier)
        rc = take(w, &place);
    if (!rc && (!place.barrier || w->empty))
        rc = LLADD_NOT_FOUND;
    return rc != LLADD_NOT_FOUND
               ? rc
               : lladd_error_set(w->err, rc,
                                 "no spool of transaction %llu has page %llu under the barrier at "
                                 "LSN %llu",
                                 (unsigned long long)writer, (unsigned long long)w->page,
                                 (unsigned long long)w->since);
}

/* ---- all pieces ----------------------------------------------------------------------------- */

/* What ll_ship_wanted_pieces calls. */
struct each {
    ll_ship_piece_fn *fn;
    void *ctx;
    struct ll_ship_buf bytes; /* of a piece with raw pages */
};

static int read_raw(struct ll_ship_wanted *w, const struct ll_ship_spooled *s, uint32_t part,
                    uint64_t at, struct ll_ship_blk_piece *p, uint32_t crc, struct each *e)
{
    size_t len = (size_t)p->n * w->page_size;
    e->bytes.len = 0;
    unsigned char *room = ll_ship_room(&e->bytes, len);
    if (!room)
        return ll_ship_no_memory(w->err);
    int rc = get(w, s, part, at, room, len);
    if (!rc && lladd_crc32c(0, room, len) != crc)
        rc = lladd_error_set(w->err, LLADD_CORRUPT_BACKUP,
                             "the spool of transaction %llu: page %llu is damaged",
                             (unsigned long long)s->txn, (unsigned long long)p->page);
    p->bytes = room;
    return rc;
}

static int each_piece(struct ll_ship_wanted *w, const struct ll_ship_spooled *s, uint32_t part,
                      struct each *e, bool *last)
{
    uint64_t at = LL_SHIP_BLK_HEADER;
    for (;;) {
        struct ll_ship_blk_piece p;
        uint32_t crc;
        int rc = get_head(w, s, part, at, &p, &crc, last);
        at += LL_SHIP_BLK_PIECE;
        if (!rc && p.n && !p.typed)
            rc = read_raw(w, s, part, at, &p, crc, e);
        if (!rc && p.n)
            rc = e->fn(e->ctx, &p);
        if (rc || p.n == 0)
            return rc;
        at += (uint64_t)p.n * w->page_size;
    }
}

static int each_part(struct ll_ship_wanted *w, const struct ll_ship_spooled *s, struct each *e)
{
    struct ll_ship_spooled stored = {.txn = s->txn};
    bool last = false;
    int rc = 0;
    for (uint32_t part = 0; !rc && !last; part++)
        rc = each_piece(w, s, part, e, &last);
    if (rc == LLADD_NOT_FOUND && s->local) /* the part was stored and deleted meanwhile */
        return each_part(w, &stored, e);
    /* The store does not have all parts of the spool yet, so the transaction has not committed. */
    return rc == LLADD_NOT_FOUND ? 0 : rc;
}

int ll_ship_wanted_pieces(struct ll_ship_wanted *w, uint64_t from, ll_ship_piece_fn *fn, void *ctx)
{
    const struct ll_ship_spooled *s = (const void *)w->txns.data;
    struct each e = {fn, ctx, {.mem = w->a->mem}};
    int rc = 0;
    for (size_t i = 0; i < w->txns.len / sizeof *s && !rc; i++)
        if (s[i].txn >= from && (!s[i].local || s[i].ended))
            rc = each_part(w, &s[i], &e);
    ll_ship_buf_free(&e.bytes);
    return rc;
}
