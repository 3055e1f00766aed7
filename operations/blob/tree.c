/* SPDX-License-Identifier: BSD-2-Clause */
/* The tree that maps a blob's data page numbers to pages.
 *
 * The root page has entries for data pages 0 to 31 and for four trees of index pages, as in old
 * Unix file systems. An index page of level 1 has `fan` data pages below it; an index page of
 * level l has fan times as many as an index page of level l - 1. The root of tree l is an index
 * page of level l. The place of a data page's entry follows from the page's number, so no entry
 * moves when a blob grows. With pages of 4 KiB (fan is 674) the first tree ends at 2.9 MB, the
 * second at 1.8 GB, the third at 1.2 TB, the fourth beyond LLADD_BLOB_MAX.
 *
 * Each page below the root stores its blob and its role. A reader latches one page at a time, so a
 * transaction may change an entry after the reader has read the entry. If the reader then finds a
 * page of another blob or role, it starts again from the root. If it finds the replaced page
 * unchanged, the result is correct: the reader sees the blob as it was when the entry was read. */
#include "operations/blob/blob.h"

/* ---- fixing ---------------------------------------------------------------------------------- */

static int destroyed(struct lladd_error *err, lladd_pageno root)
{
    return ll_operations__on(err, root,
                             lladd_error_set(err, LLADD_DESTROYED,
                                             "the blob of page %llu has been destroyed",
                                             (unsigned long long)root.v));
}

int ll_operations__blob_root(struct lladd_db *db, lladd_pageno root, struct lladd_page **out,
                             struct lladd_error *err)
{
    enum lladd_page_use use;
    int rc = lladd_page_use_get(db, root, &use, err);
    if (!rc)
        rc = ll_operations__fix(db, root, ll_operations__blob_page.name, LLADD_LATCH_SHARED, out,
                                err);
    if (rc || use == LLADD_USE_PAGED)
        return rc;
    lladd_page_unfix(db, *out, LLADD_LATCH_SHARED);
    return destroyed(err, root);
}

int ll_operations__blob_version(struct lladd_db *db, lladd_pageno root, uint64_t *out,
                                struct lladd_error *err)
{
    struct lladd_page *page;
    TRY(ll_operations__blob_root(db, root, &page, err));
    *out = lladd_page_version(page);
    lladd_page_unfix(db, page, LLADD_LATCH_SHARED);
    return 0;
}

int ll_operations__blob_fix(struct lladd_db *db, lladd_pageno root, lladd_pageno page,
                            uint64_t where, struct lladd_page **out, struct lladd_error *err)
{
    const char *type =
        where >> 56 ? ll_operations__blob_index_page.name : ll_operations__blob_data_page.name;
    TRY(lladd_page_fix(db, page, LLADD_LATCH_SHARED, out, err));
    const unsigned char *p = (*out)->bytes;
    if (lladd_page_is(db, lladd_page_view(*out), type) && lladd_get64(p + BLOB_ROOT) == root.v &&
        lladd_get64(p + BLOB_WHERE) == where)
        return 0;
    lladd_page_unfix(db, *out, LLADD_LATCH_SHARED);
    return LLADD_CONFLICT;
}

int ll_operations__blob_broken(struct lladd_error *err, lladd_pageno root, lladd_pageno page)
{
    return ll_operations__on(
        err, page,
        lladd_error_set(err, LLADD_CORRUPT_PAGE,
                        "page %llu is not the page that the blob of page %llu expects",
                        (unsigned long long)page.v, (unsigned long long)root.v));
}

/* ---- path from the root ---------------------------------------------------------------------- */

/* A position on the path from the root to the entry of one data page i. */
struct path {
    lladd_pageno node;
    uint64_t where; /* role of the node; 0: the root */
    unsigned level; /* level of the node; 0: the root */
    uint32_t slot;
    uint32_t room;   /* number of entries of the same kind from this entry on */
    uint64_t span;   /* data pages below one entry */
    uint64_t beyond; /* data pages below this entry that precede page i */
};

static struct path path_to(uint32_t page_size, lladd_pageno root, uint64_t i)
{
    uint32_t fan = ll_blob_fan(page_size);
    struct path p = {.node = root, .slot = (uint32_t)i, .room = BLOB_DIRECT, .span = 1};
    if (i < BLOB_DIRECT) {
        p.room -= p.slot;
        return p;
    }
    p.beyond = i - BLOB_DIRECT;
    p.span = fan;
    p.room = 1;
    for (p.slot = BLOB_DIRECT; p.beyond >= p.span; p.slot++) {
        p.beyond -= p.span;
        p.span *= fan;
    }
    return p;
}

/* Level of the page that the path's entry names; 0: a data page. */
static unsigned below(const struct path *p)
{
    if (p->where)
        return p->level - 1;
    return p->slot < BLOB_DIRECT ? 0 : p->slot - BLOB_DIRECT + 1;
}

static uint64_t where_below(const struct path *p, uint64_t i)
{
    return ll_blob_where(below(p), i - p->beyond);
}

/* One step down, to page `node`, which the entry names. */
static void descend(struct path *p, uint32_t page_size, lladd_pageno node, uint64_t i)
{
    uint32_t fan = ll_blob_fan(page_size);
    uint64_t where = where_below(p, i);
    p->level = below(p);
    p->where = where;
    p->node = node;
    p->span /= fan;
    p->slot = (uint32_t)(p->beyond / p->span);
    p->beyond %= p->span;
    p->room = fan - p->slot;
}

static int fix_node(struct lladd_db *db, lladd_pageno root, lladd_pageno node, uint64_t where,
                    struct lladd_page **out, uint32_t *base, struct lladd_error *err)
{
    *base = where ? BLOB_REST : BLOB_ENTRIES;
    return where ? ll_operations__blob_fix(db, root, node, where, out, err)
                 : ll_operations__blob_root(db, root, out, err);
}

/* The run of entries at the path's slot, at most `max` long. */
static int look(struct lladd_db *db, lladd_pageno root, const struct path *p, uint64_t max,
                struct ll_blob_run *out, struct lladd_error *err)
{
    struct lladd_page *page;
    uint32_t base, most = max < p->room ? (uint32_t)max : p->room;
    TRY(fix_node(db, root, p->node, p->where, &page, &base, err));
    out->first = lladd_page_of(ll_blob_entry(page->bytes, base, p->slot));
    out->n = ll_operations__blob_run(page->bytes, base, p->slot, most);
    lladd_page_unfix(db, page, LLADD_LATCH_SHARED);
    return 0;
}

int ll_operations__blob_find(struct lladd_db *db, lladd_pageno root, uint64_t i, uint64_t max,
                             struct ll_blob_run *out, struct lladd_error *err)
{
    uint32_t page_size = lladd_page_size(db);
    struct path p = path_to(page_size, root, i);
    for (;;) {
        bool last = below(&p) == 0;
        int rc = look(db, root, &p, last ? max : 1, out, err);
        if (rc || last)
            return rc;
        if (out->first.v == 0) { /* nothing below */
            out->n = p.span - p.beyond < max ? p.span - p.beyond : max;
            return 0;
        }
        descend(&p, page_size, out->first, i);
    }
}

/* ---- writing --------------------------------------------------------------------------------- */

static int link_run(struct lladd_txn *txn, lladd_pageno root, lladd_pageno node, uint32_t slot,
                    uint32_t n, lladd_pageno first)
{
    struct ll_blob_link a = {slot, n, first.v};
    lladd_op_id op = ll_blob_op(txn, node.v == root.v ? LL_BLOB_LINK : LL_BLOB_INDEX_LINK);
    return lladd_update(txn, op, node, &a, sizeof a);
}

static int make_index(struct lladd_txn *txn, lladd_pageno root, const struct path *p, uint64_t i,
                      lladd_pageno *out)
{
    struct ll_blob_data a = {.root = root, .where = where_below(p, i)};
    TRY(lladd_page_alloc(txn, out));
    TRY(lladd_update(txn, ll_blob_op(txn, LL_BLOB_INDEX_FORMAT), *out, &a, sizeof a));
    return link_run(txn, root, p->node, p->slot, 1, *out);
}

/* For a writer a conflict means damage: isolation keeps other transactions from writing the
 * blob. */
static int no_conflict(struct lladd_error *err, lladd_pageno root, lladd_pageno page, int rc)
{
    return rc == LLADD_CONFLICT ? ll_operations__blob_broken(err, root, page) : rc;
}

int ll_operations__blob_place(struct lladd_txn *txn, lladd_pageno root, uint64_t i,
                              struct ll_blob_place *out)
{
    struct lladd_db *db = lladd_txn_db(txn);
    struct lladd_error *err = lladd_txn_error_out(txn);
    uint32_t page_size = lladd_page_size(db);
    struct path p = path_to(page_size, root, i);
    while (below(&p)) {
        struct ll_blob_run r = {{0}, 0};
        TRY(no_conflict(err, root, p.node, look(db, root, &p, 1, &r, err)));
        if (r.first.v == 0)
            TRY(make_index(txn, root, &p, i, &r.first));
        descend(&p, page_size, r.first, i);
    }
    *out = (struct ll_blob_place){p.node, p.where, p.slot, p.room};
    return 0;
}

int ll_operations__blob_at(struct lladd_db *db, lladd_pageno root, struct ll_blob_place at,
                           uint64_t max, struct ll_blob_run *out, struct lladd_error *err)
{
    struct path p = {.node = at.node, .where = at.where, .slot = at.slot, .room = at.room};
    return no_conflict(err, root, at.node, look(db, root, &p, max, out, err));
}

int ll_operations__blob_link(struct lladd_txn *txn, lladd_pageno root, uint64_t i,
                             lladd_pageno first, uint64_t n)
{
    while (n) {
        struct ll_blob_place at;
        struct ll_blob_run was = {{0}, 0};
        TRY(ll_operations__blob_place(txn, root, i, &at));
        TRY(ll_operations__blob_at(lladd_txn_db(txn), root, at, n, &was, lladd_txn_error_out(txn)));
        TRY(link_run(txn, root, at.node, at.slot, (uint32_t)was.n, first));
        if (was.first.v)
            TRY(lladd_extent_free(txn, was.first, was.n));
        i += was.n;
        first.v += was.n;
        n -= was.n;
    }
    return 0;
}

/* ---- freeing --------------------------------------------------------------------------------- */

/* Collects consecutive pages, to free them together. */
struct freeing {
    struct lladd_txn *txn;
    struct ll_blob_run pending;
};

static int free_flush(struct freeing *f)
{
    struct ll_blob_run r = f->pending;
    f->pending = (struct ll_blob_run){{0}, 0};
    return r.n ? lladd_extent_free(f->txn, r.first, r.n) : 0;
}

static int free_run(struct freeing *f, struct ll_blob_run r)
{
    if (f->pending.n && f->pending.first.v + f->pending.n == r.first.v) {
        f->pending.n += r.n;
        return 0;
    }
    int rc = free_flush(f);
    f->pending = r;
    return rc;
}

/* Reads the run of entries at *next, up to `end`. Sets *slot to the run's first entry, and *next to
 * the entry after the run. */
static int next_run(struct lladd_db *db, lladd_pageno root, lladd_pageno node, uint64_t where,
                    uint32_t *next, uint32_t *slot, uint32_t end, struct ll_blob_run *out,
                    struct lladd_error *err)
{
    struct path p = {.node = node, .where = where, .slot = *next, .room = end - *next};
    *out = (struct ll_blob_run){{0}, 0};
    int rc = no_conflict(err, root, node, look(db, root, &p, UINT64_MAX, out, err));
    *slot = *next;
    *next += rc ? 0 : (uint32_t)out->n;
    return rc;
}

/* Number of data pages below one entry of an index page of this level. */
static uint64_t span_of(uint32_t page_size, unsigned level)
{
    uint64_t span = 1;
    while (level-- > 1)
        span *= ll_blob_fan(page_size);
    return span;
}

/* Frees an index page and all pages below it. The freed pages keep their contents, for a
 * rollback. */
static int free_tree(struct freeing *f, lladd_pageno root, lladd_pageno node, uint64_t where)
{
    struct lladd_db *db = lladd_txn_db(f->txn);
    uint32_t page_size = lladd_page_size(db), fan = ll_blob_fan(page_size), slot, next = 0;
    unsigned level = (unsigned)(where >> 56);
    uint64_t span = span_of(page_size, level);
    int rc = 0;
    while (next < fan && !rc) {
        struct ll_blob_run r = {{0}, 0};
        rc = next_run(db, root, node, where, &next, &slot, fan, &r, lladd_txn_error_out(f->txn));
        if (rc || r.first.v == 0)
            continue;
        if (level == 1)
            rc = free_run(f, r);
        for (uint64_t k = 0; level > 1 && k < r.n && !rc; k++)
            rc = free_tree(
                f, root, lladd_page_of(r.first.v + k),
                ll_blob_where(level - 1, where - ll_blob_where(level, 0) + (slot + k) * span));
    }
    return rc ? rc : free_run(f, (struct ll_blob_run){node, 1});
}

/* Empties entries [from, end) of a node, and frees the pages that they name and all pages below
 * these. `level` is the level of the named pages, `span` the number of data pages below each entry,
 * `first` the first data page below entry 0. In the root page, `first` is calculated as if all
 * entries were of this tree, and may be negative (modulo 2^64). */
static int cut_entries(struct freeing *f, lladd_pageno root, lladd_pageno node, uint64_t where,
                       uint32_t from, uint32_t end, unsigned level, uint64_t first, uint64_t span)
{
    struct lladd_db *db = lladd_txn_db(f->txn);
    struct lladd_error *err = lladd_txn_error_out(f->txn);
    uint32_t slot, next = from;
    while (next < end) {
        struct ll_blob_run r = {{0}, 0};
        TRY(next_run(db, root, node, where, &next, &slot, end, &r, err));
        if (r.first.v == 0)
            continue;
        if (level == 0)
            TRY(free_run(f, r));
        for (uint64_t k = 0; level && k < r.n; k++)
            TRY(free_tree(f, root, lladd_page_of(r.first.v + k),
                          ll_blob_where(level, first + (slot + k) * span)));
        TRY(link_run(f->txn, root, node, slot, (uint32_t)r.n, lladd_page_of(0)));
    }
    return 0;
}

/* Keeps the first `keep` data pages below an index page and frees the others. The caller makes sure
 * that `keep` is above 0 and below the number of data pages that the index page can have. */
static int cut_index(struct freeing *f, lladd_pageno root, lladd_pageno node, uint64_t where,
                     uint64_t keep)
{
    struct lladd_db *db = lladd_txn_db(f->txn);
    uint32_t page_size = lladd_page_size(db), fan = ll_blob_fan(page_size);
    for (unsigned level = (unsigned)(where >> 56); node.v && keep; level--) {
        uint64_t span = span_of(page_size, level), first = where - ll_blob_where(level, 0);
        uint32_t whole = (uint32_t)(keep / span), next = whole, slot;
        keep %= span;
        int rc =
            cut_entries(f, root, node, where, whole + (keep ? 1 : 0), fan, level - 1, first, span);
        struct ll_blob_run r = {{0}, 0};
        if (!rc && keep)
            rc = next_run(db, root, node, where, &next, &slot, whole + 1, &r,
                          lladd_txn_error_out(f->txn));
        if (rc)
            return rc;
        where = ll_blob_where(level - 1, first + whole * span);
        node = r.first;
    }
    return 0;
}

int ll_operations__blob_cut(struct lladd_txn *txn, lladd_pageno root, uint64_t keep)
{
    struct freeing f = {.txn = txn};
    struct lladd_db *db = lladd_txn_db(txn);
    uint64_t first = BLOB_DIRECT, span = ll_blob_fan(lladd_page_size(db));
    int rc = 0;
    if (keep < BLOB_DIRECT)
        rc = cut_entries(&f, root, root, 0, (uint32_t)keep, BLOB_DIRECT, 0, 0, 1);
    for (uint32_t l = 1; l <= BLOB_LEVELS && !rc; l++) {
        uint32_t at = BLOB_DIRECT + l - 1, slot, next = at;
        struct ll_blob_run r = {{0}, 0};
        if (keep <= first) {
            rc = cut_entries(&f, root, root, 0, at, at + 1, l, first - at * span, span);
        } else if (keep < first + span) {
            rc = next_run(db, root, root, 0, &next, &slot, at + 1, &r, lladd_txn_error_out(txn));
            if (!rc)
                rc = cut_index(&f, root, r.first, ll_blob_where(l, first), keep - first);
        }
        first += span;
        span *= ll_blob_fan(lladd_page_size(db));
    }
    return rc ? rc : free_flush(&f);
}

/* ---- all pages ------------------------------------------------------------------------------- */

struct visit {
    struct lladd_db *db;
    lladd_pageno root;
    int (*fn)(void *ctx, lladd_pageno, uint64_t where, struct lladd_error *);
    void *ctx;
    struct lladd_error *err;
};

static int visit_entries(struct visit *v, lladd_pageno node, uint64_t where, uint32_t from,
                         uint32_t end, unsigned level, uint64_t first, uint64_t span)
{
    uint32_t slot, next = from;
    while (next < end) {
        struct ll_blob_run r = {{0}, 0};
        TRY(next_run(v->db, v->root, node, where, &next, &slot, end, &r, v->err));
        for (uint64_t k = 0; r.first.v && k < r.n; k++) {
            lladd_pageno page = lladd_page_of(r.first.v + k);
            uint64_t what = ll_blob_where(level, first + (slot + k) * span);
            TRY(v->fn(v->ctx, page, what, v->err));
            if (level)
                TRY(visit_entries(v, page, what, 0, ll_blob_fan(lladd_page_size(v->db)), level - 1,
                                  what - ll_blob_where(level, 0),
                                  span / ll_blob_fan(lladd_page_size(v->db))));
        }
    }
    return 0;
}

int ll_operations__blob_each(struct lladd_db *db, lladd_pageno root,
                             int (*fn)(void *ctx, lladd_pageno, uint64_t where,
                                       struct lladd_error *),
                             void *ctx, struct lladd_error *err)
{
    struct visit v = {db, root, fn, ctx, err};
    uint64_t first = BLOB_DIRECT, span = ll_blob_fan(lladd_page_size(db));
    int rc = visit_entries(&v, root, 0, 0, BLOB_DIRECT, 0, 0, 1);
    for (uint32_t l = 1; l <= BLOB_LEVELS && !rc; l++) {
        uint32_t at = BLOB_DIRECT + l - 1;
        rc = visit_entries(&v, root, 0, at, at + 1, l, first - at * span, span);
        first += span;
        span *= ll_blob_fan(lladd_page_size(db));
    }
    return rc;
}
