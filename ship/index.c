/* SPDX-License-Identifier: BSD-2-Clause */
/* The index of an archived segment: the pages that its records change, the marks, and the
 * transactions that wrote in bulk (docs/backup.md). An index is derived from segments, so a missing
 * or damaged one is made again. */
#include "ship/ship_private.h"

#include <lladd/bytes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC "LLINDX1"
#define MARK_MAGIC "LLMARK1"
enum { HEAD = 112, PAGE = 24, BULK = 16, OPEN = 8, MARK = 25, CRC = 4, FEW_PAGES = 4096 };
enum { FORMATS = 4 }; /* a flag of records (docs/disk-format.md) */
#define INDEX_MOST (UINT64_C(1) << 31)
#define SEGMENT_MOST (UINT64_C(1) << 31)

void ll_ship_seg_name(uint32_t timeline, uint64_t first, char out[LL_SHIP_NAME_MAX])
{
    (void)snprintf(out, LL_SHIP_NAME_MAX, "t%08x/log/%016llx.seg", timeline,
                   (unsigned long long)first);
}

void ll_ship_idx_name(uint32_t timeline, uint64_t first, char out[LL_SHIP_NAME_MAX])
{
    (void)snprintf(out, LL_SHIP_NAME_MAX, "t%08x/idx/%016llx.idx", timeline,
                   (unsigned long long)first);
}

void ll_ship_index_init(struct ll_ship_index *ix, struct ll_ship_mem mem)
{
    memset(ix, 0, sizeof *ix);
    ix->marks.mem = ix->bulk.mem = ix->open.mem = ix->pages.mem = ix->ended.mem = mem;
}

void ll_ship_index_free(struct ll_ship_index *ix)
{
    ll_ship_buf_free(&ix->marks);
    ll_ship_buf_free(&ix->bulk);
    ll_ship_buf_free(&ix->open);
    ll_ship_buf_free(&ix->ended);
    ll_ship_buf_free(&ix->pages);
}

/* ---- made ----------------------------------------------------------------------------------- */

struct making {
    struct ll_ship_index *ix;
    size_t sorted; /* length of `pages` after the last join, with one entry for each page */
};

static int by_page(const void *a, const void *b)
{
    const struct ll_ship_index_page *x = a, *y = b;
    if (x->page != y->page)
        return x->page < y->page ? -1 : 1;
    return x->first < y->first ? -1 : x->first > y->first;
}

/* Sorts the entries, and joins those of one page. */
static void join(struct ll_ship_buf *pages)
{
    struct ll_ship_index_page *p = (void *)pages->data;
    size_t n = pages->len / sizeof *p, kept = 0;
    if (n > 1)
        qsort(p, n, sizeof *p, by_page);
    for (size_t i = 0; i < n; i++) {
        if (kept && p[kept - 1].page == p[i].page)
            p[kept - 1].last = p[i].last;
        else
            p[kept++] = p[i];
    }
    pages->len = kept * sizeof *p;
}

static int see_page(struct making *m, const struct ll_ship_record *r, struct lladd_error *err)
{
    struct ll_ship_buf *pages = &m->ix->pages;
    struct ll_ship_index_page one = {.page = r->page, .first = r->lsn, .last = r->lsn};
    one.flags = r->kind == LL_SHIP_REC_IMAGE || (r->flags & FORMATS) ? LL_SHIP_PAGE_BASE : 0;
    /* Joins now and then, so that memory depends on the number of pages, not on the number of
     * records. */
    if (pages->len > 2 * m->sorted + FEW_PAGES * sizeof one) {
        join(pages);
        m->sorted = pages->len;
    }
    return ll_ship_append(pages, &one, sizeof one, err);
}

static size_t place_of(const struct ll_ship_buf *open, uint64_t txn)
{
    const uint64_t *at = (const void *)open->data;
    size_t i = 0, n = open->len / sizeof *at;
    while (i < n && at[i] != txn)
        i++;
    return i;
}

/* Called when the transaction has ended, or is prepared. */
static int see_end(struct ll_ship_index *ix, const struct ll_ship_record *r,
                   struct lladd_error *err)
{
    uint64_t *open = (void *)ix->open.data;
    size_t n = ix->open.len / sizeof *open, i = place_of(&ix->open, r->txn);
    if (i == n)
        return 0;
    open[i] = open[n - 1];
    ix->open.len -= sizeof *open;
    struct ll_ship_index_bulk one = {r->txn, lladd_lsn_of(r->lsn)};
    return r->kind == LL_SHIP_REC_END ? ll_ship_append(&ix->ended, &r->txn, sizeof r->txn, err)
                                      : ll_ship_append(&ix->bulk, &one, sizeof one, err);
}

bool ll_ship_mark_is(struct lladd_span note)
{
    return note.len >= 24 && note.len < 24 + LL_SHIP_MARK_NAME &&
           memcmp(note.data, MARK_MAGIC, sizeof MARK_MAGIC) == 0;
}

static int see_note(struct ll_ship_index *ix, const struct ll_ship_record *r,
                    struct lladd_error *err)
{
    const unsigned char *p = r->redo.data;
    struct ll_ship_mark mark = {.lsn = lladd_lsn_of(r->lsn)};
    if (!ll_ship_mark_is(r->redo))
        return 0;
    uint64_t end = lladd_get64(p + 8);
    mark.end = lladd_lsn_of(end && end <= r->lsn ? end : r->end);
    mark.time_us = (int64_t)lladd_get64(p + 16);
    memcpy(mark.name, p + 24, r->redo.len - 24);
    return ll_ship_append(&ix->marks, &mark, sizeof mark, err);
}

static int see(void *ctx, const struct ll_ship_record *r, struct lladd_error *err)
{
    struct making *m = ctx;
    switch (r->kind) {
    case LL_SHIP_REC_UPDATE:
    case LL_SHIP_REC_CLR:
    case LL_SHIP_REC_IMAGE:
        return r->page == LLADD_NO_PAGE ? 0 : see_page(m, r, err);
    case LL_SHIP_REC_REDO_BARRIER:
        return place_of(&m->ix->open, r->txn) < m->ix->open.len / sizeof r->txn
                   ? 0
                   : ll_ship_append(&m->ix->open, &r->txn, sizeof r->txn, err);
    case LL_SHIP_REC_COMMIT:
    case LL_SHIP_REC_PREPARE:
    case LL_SHIP_REC_END:
        return see_end(m->ix, r, err);
    case LL_SHIP_REC_NOTE:
        return see_note(m->ix, r, err);
    default:
        return 0;
    }
}

size_t ll_ship_mark_encode(const char *name, lladd_lsn end, int64_t time_us,
                           unsigned char out[LL_SHIP_MARK_MAX])
{
    size_t len = strlen(name);
    memcpy(out, MARK_MAGIC, sizeof MARK_MAGIC);
    lladd_put64(out + 8, end.v);
    lladd_put64(out + 16, (uint64_t)time_us);
    memcpy(out + 24, name, len);
    return 24 + len;
}

int ll_ship_index_make(struct ll_ship_index *ix, struct ll_ship_walk *w, uint32_t timeline,
                       const struct ll_ship_buf *open, struct lladd_error *err)
{
    struct making m = {ix, 0};
    memcpy(ix->uuid, w->uuid, sizeof ix->uuid);
    ix->timeline = timeline;
    ix->first = lladd_lsn_of(w->seg.first);
    ix->end = lladd_lsn_of(ll_ship_segment_end(&w->seg));
    ix->cut = lladd_lsn_of(w->seg.cut);
    w->fn = see;
    w->ctx = &m;
    int rc = open ? ll_ship_append(&ix->open, open->data, open->len, err) : 0;
    return rc ? rc : ll_ship_walk(w, err);
}

int ll_ship_index_finish(struct ll_ship_index *ix, struct ll_ship_walk *w, struct lladd_error *err)
{
    struct making m = {ix, 0};
    w->ctx = &m;
    int rc = ll_ship_walk_rest(w, err);
    join(&ix->pages);
    ix->start = lladd_lsn_of(w->start);
    ix->stop = lladd_lsn_of(w->stop);
    ix->next = lladd_lsn_of(w->next);
    return rc;
}

/* ---- as bytes ------------------------------------------------------------------------------- */

static size_t count(const struct ll_ship_buf *b, size_t size)
{
    return b->len / size;
}

static int put_marks(const struct ll_ship_index *ix, struct ll_ship_buf *out,
                     struct lladd_error *err)
{
    const struct ll_ship_mark *mark = (const void *)ix->marks.data;
    int rc = 0;
    for (size_t i = 0; i < count(&ix->marks, sizeof *mark) && !rc; i++) {
        unsigned char one[MARK];
        size_t len = strlen(mark[i].name);
        lladd_put64(one, mark[i].lsn.v);
        lladd_put64(one + 8, mark[i].end.v);
        lladd_put64(one + 16, (uint64_t)mark[i].time_us);
        one[24] = (unsigned char)len;
        rc = ll_ship_append(out, one, sizeof one, err);
        if (!rc)
            rc = ll_ship_append(out, mark[i].name, len, err);
    }
    return rc;
}

static int put_rest(const struct ll_ship_index *ix, struct ll_ship_buf *out,
                    struct lladd_error *err)
{
    const struct ll_ship_index_bulk *bulk = (const void *)ix->bulk.data;
    const struct ll_ship_index_page *page = (const void *)ix->pages.data;
    const uint64_t *open = (const void *)ix->open.data;
    size_t bulks = count(&ix->bulk, sizeof *bulk), opens = count(&ix->open, sizeof *open);
    size_t pages = count(&ix->pages, sizeof *page);
    size_t len = bulks * BULK + opens * OPEN + pages * PAGE;
    unsigned char *at = ll_ship_room(out, len + CRC);
    if (!at)
        return ll_ship_no_memory(err);
    for (size_t i = 0; i < bulks; i++, at += BULK) {
        lladd_put64(at, bulk[i].txn);
        lladd_put64(at + 8, bulk[i].lsn.v);
    }
    for (size_t i = 0; i < opens; i++, at += OPEN)
        lladd_put64(at, open[i]);
    for (size_t i = 0; i < pages; i++, at += PAGE) {
        bool written = (page[i].flags & LL_SHIP_PAGE_BULK) != 0;
        lladd_put48(at, page[i].page);
        lladd_put16(at + 6, (uint16_t)page[i].flags);
        lladd_put64(at + 8, page[i].first);
        lladd_put64(at + 16, written ? page[i].crc : page[i].last);
    }
    out->len += len;
    lladd_put32(at, lladd_crc32c(0, out->data, out->len));
    out->len += CRC;
    return 0;
}

int ll_ship_index_encode(const struct ll_ship_index *ix, struct ll_ship_buf *out,
                         struct lladd_error *err)
{
    unsigned char head[HEAD] = {0};
    memcpy(head, MAGIC, sizeof MAGIC);
    memcpy(head + 8, ix->uuid, 16);
    lladd_put32(head + 24, ix->timeline);
    lladd_put64(head + 32, ix->first.v);
    lladd_put64(head + 40, ix->end.v);
    lladd_put64(head + 48, ix->cut.v);
    lladd_put64(head + 56, ix->stop.v);
    lladd_put64(head + 64, ix->start.v);
    lladd_put64(head + 72, ix->next.v);
    lladd_put64(head + 80, count(&ix->marks, sizeof(struct ll_ship_mark)));
    lladd_put64(head + 88, count(&ix->bulk, sizeof(struct ll_ship_index_bulk)));
    lladd_put64(head + 96, count(&ix->open, sizeof(uint64_t)));
    lladd_put64(head + 104, count(&ix->pages, sizeof(struct ll_ship_index_page)));
    out->len = 0;
    int rc = ll_ship_append(out, head, sizeof head, err);
    if (!rc)
        rc = put_marks(ix, out, err);
    return rc ? rc : put_rest(ix, out, err);
}

struct bytes {
    const unsigned char *at, *end;
    bool bad;
};

/* The next `len` bytes; NULL: there are fewer. */
static const unsigned char *take(struct bytes *b, size_t len)
{
    const unsigned char *p = b->at;
    b->bad = b->bad || (size_t)(b->end - p) < len;
    b->at += b->bad ? 0 : len;
    return b->bad ? NULL : p;
}

static int get_marks(struct ll_ship_index *ix, struct bytes *b, uint64_t n, struct lladd_error *err)
{
    int rc = 0;
    for (uint64_t i = 0; i < n && !rc; i++) {
        struct ll_ship_mark mark = {.name = ""};
        const unsigned char *p = take(b, MARK);
        const unsigned char *name = p ? take(b, p[24]) : NULL;
        if (!name || p[24] >= sizeof mark.name) {
            b->bad = true;
            return 0;
        }
        mark.lsn = lladd_lsn_of(lladd_get64(p));
        mark.end = lladd_lsn_of(lladd_get64(p + 8));
        mark.time_us = (int64_t)lladd_get64(p + 16);
        memcpy(mark.name, name, p[24]);
        rc = ll_ship_append(&ix->marks, &mark, sizeof mark, err);
    }
    return rc;
}

static int get_rest(struct ll_ship_index *ix, struct bytes *b, const unsigned char *head,
                    struct lladd_error *err)
{
    uint64_t bulks = lladd_get64(head + 88), opens = lladd_get64(head + 96);
    uint64_t pages = lladd_get64(head + 104), before = 0, left = (uint64_t)(b->end - b->at);
    int rc = 0;
    b->bad = b->bad || bulks > left || opens > left || pages > left ||
             bulks * BULK + opens * OPEN + pages * PAGE != left;
    for (uint64_t i = 0; i < bulks && !rc && !b->bad; i++, b->at += BULK) {
        struct ll_ship_index_bulk one = {lladd_get64(b->at), lladd_lsn_of(lladd_get64(b->at + 8))};
        rc = ll_ship_append(&ix->bulk, &one, sizeof one, err);
    }
    for (uint64_t i = 0; i < opens && !rc && !b->bad; i++, b->at += OPEN) {
        uint64_t txn = lladd_get64(b->at);
        rc = ll_ship_append(&ix->open, &txn, sizeof txn, err);
    }
    for (uint64_t i = 0; i < pages && !rc && !b->bad; i++, b->at += PAGE) {
        struct ll_ship_index_page one = {.page = lladd_get48(b->at),
                                         .flags = lladd_get16(b->at + 6),
                                         .first = lladd_get64(b->at + 8)};
        if (one.flags & LL_SHIP_PAGE_BULK)
            one.crc = lladd_get32(b->at + 16);
        else
            one.last = lladd_get64(b->at + 16);
        b->bad = one.page < before;
        before = one.page;
        rc = ll_ship_append(&ix->pages, &one, sizeof one, err);
    }
    return rc;
}

int ll_ship_index_decode(struct ll_ship_index *ix, struct ll_ship_mem mem, const char *name,
                         const void *data, size_t len, struct lladd_error *err)
{
    const unsigned char *head = data;
    ll_ship_index_init(ix, mem);
    if (len < HEAD + CRC || memcmp(head, MAGIC, 6) != 0 ||
        lladd_get32(head + len - CRC) != lladd_crc32c(0, head, len - CRC))
        return ll_ship_corrupt(err, name, "it is damaged");
    if (memcmp(head, MAGIC, sizeof MAGIC) != 0)
        return lladd_error_set(err, LLADD_NEWER_FORMAT,
                               "\"%.150s\" in the store is from a newer version", name);
    memcpy(ix->uuid, head + 8, 16);
    ix->timeline = lladd_get32(head + 24);
    ix->first = lladd_lsn_of(lladd_get64(head + 32));
    ix->end = lladd_lsn_of(lladd_get64(head + 40));
    ix->cut = lladd_lsn_of(lladd_get64(head + 48));
    ix->stop = lladd_lsn_of(lladd_get64(head + 56));
    ix->start = lladd_lsn_of(lladd_get64(head + 64));
    ix->next = lladd_lsn_of(lladd_get64(head + 72));
    struct bytes b = {head + HEAD, head + len - CRC, false};
    b.bad = ix->cut.v > ix->first.v || ix->first.v > ix->stop.v || ix->stop.v > ix->end.v ||
            ix->start.v < ix->first.v || ix->next.v < ix->start.v;
    int rc = b.bad ? 0 : get_marks(ix, &b, lladd_get64(head + 80), err);
    if (!rc && !b.bad)
        rc = get_rest(ix, &b, head, err);
    if (!rc && b.bad)
        rc = ll_ship_corrupt(err, name, "its parts do not fit together");
    if (rc)
        ll_ship_index_free(ix);
    return rc;
}

/* ---- loaded --------------------------------------------------------------------------------- */

struct listing {
    struct ll_ship_buf *firsts;
    uint32_t timeline;
    struct lladd_error *err;
};

static int see_object(void *ctx, const char *name, uint64_t size)
{
    struct listing *l = ctx;
    char want[LL_SHIP_NAME_MAX];
    const char *at = strrchr(name, '/');
    (void)size;
    uint64_t first = at ? strtoull(at + 1, NULL, 16) : 0;
    ll_ship_seg_name(l->timeline, first, want);
    return strcmp(want, name) == 0 ? ll_ship_append(l->firsts, &first, sizeof first, l->err) : 0;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

int ll_ship_archived(struct lladd_store *store, uint32_t timeline, struct ll_ship_buf *out,
                     struct lladd_error *err)
{
    char prefix[LL_SHIP_NAME_MAX];
    struct listing l = {out, timeline, err};
    (void)snprintf(prefix, sizeof prefix, "t%08x/log/", timeline);
    int rc = store->ops->list(store, prefix, see_object, &l, err);
    if (!rc && out->len)
        qsort(out->data, out->len / sizeof(uint64_t), sizeof(uint64_t), by_number);
    return rc;
}

struct loading {
    struct lladd_store *store;
    struct ll_ship_mem mem;
    uint32_t timeline;
    struct ll_ship_buf firsts;
};

static uint64_t first_of(const struct loading *l, size_t i)
{
    return ((const uint64_t *)(const void *)l->firsts.data)[i];
}

static size_t firsts(const struct loading *l)
{
    return l->firsts.len / sizeof(uint64_t);
}

int ll_ship_index_read(struct lladd_store *store, struct ll_ship_mem mem, uint32_t timeline,
                       lladd_lsn first, struct ll_ship_index *ix, struct lladd_error *err)
{
    char name[LL_SHIP_NAME_MAX];
    struct ll_ship_buf bytes = {.mem = mem};
    ll_ship_idx_name(timeline, first.v, name);
    int rc = ll_ship_get_all(store, name, INDEX_MOST, &bytes, err);
    if (!rc)
        rc = ll_ship_index_decode(ix, mem, name, bytes.data, bytes.len, err);
    ll_ship_buf_free(&bytes);
    if (!rc && (ix->first.v != first.v || ix->timeline != timeline)) {
        ll_ship_index_free(ix);
        rc = ll_ship_corrupt(err, name, "it is of another segment");
    }
    return rc;
}

static int get_head(const struct loading *l, uint64_t first, struct ll_ship_segment *out,
                    struct lladd_error *err)
{
    unsigned char head[LL_SHIP_BLOCK_HEADER];
    char name[LL_SHIP_NAME_MAX];
    ll_ship_seg_name(l->timeline, first, name);
    int rc = ll_ship_get(l->store, name, 0, head, sizeof head, err);
    const char *why = rc ? NULL : ll_ship_segment_head(head, first, out);
    return why ? ll_ship_corrupt(err, name, why) : rc;
}

struct piece {
    const char *prefix;
    char name[LL_SHIP_NAME_MAX];
};

static int see_piece(void *ctx, const char *name, uint64_t size)
{
    struct piece *p = ctx;
    (void)size;
    if (strncmp(name, p->prefix, strlen(p->prefix)) == 0 && strlen(name) < sizeof p->name)
        memcpy(p->name, name, strlen(name) + 1);
    return 0;
}

/* Gets payload of the segment that begins at `lsn`. Reads it from the first piece of the segment,
 * if the store has pieces of the segment. The caller wants the rest of a record that began in the
 * segment before. A piece ends after a record, so the first piece has all of that rest. */
static int get_piece(const struct loading *l, uint64_t lsn, uint64_t len, struct ll_ship_buf *out,
                     struct lladd_error *err)
{
    char prefix[LL_SHIP_NAME_MAX];
    struct piece p = {prefix, ""};
    struct ll_ship_buf file = {.mem = l->mem};
    struct ll_ship_segment s;
    (void)snprintf(prefix, sizeof prefix, "t%08x/log/%016llx.%016llx-", l->timeline,
                   (unsigned long long)lsn, (unsigned long long)lsn);
    int rc = l->store->ops->list(l->store, prefix, see_piece, &p, err);
    if (rc || !*p.name)
        return rc;
    rc = ll_ship_get_all(l->store, p.name, SEGMENT_MOST, &file, err);
    if (!rc && file.len >= LL_SHIP_BLOCK_HEADER && !ll_ship_segment_head(file.data, lsn, &s) &&
        s.cut == lsn && len <= ll_ship_segment_end(&s) - lsn &&
        ll_ship_segment_offset(&s, lsn + len) <= file.len) {
        unsigned char *room = ll_ship_room(out, len);
        rc = room ? 0 : ll_ship_no_memory(err);
        if (room)
            ll_ship_segment_payload(&s, file.data, 0, lsn, len, room);
        out->len += room ? len : 0;
    }
    ll_ship_buf_free(&file);
    return rc;
}

/* Gets `len` bytes of payload from the segments from number i on, as far as the store has them. */
static int get_after(const struct loading *l, size_t i, uint64_t lsn, uint64_t len,
                     struct ll_ship_buf *out, struct lladd_error *err)
{
    int rc = 0;
    for (; i < firsts(l) && out->len < len && !rc; i++) {
        struct ll_ship_segment s;
        struct ll_ship_buf file = {.mem = l->mem};
        char name[LL_SHIP_NAME_MAX];
        rc = get_head(l, first_of(l, i), &s, err);
        if (rc || s.first != lsn || s.cut != lsn)
            break;
        uint64_t here = ll_ship_segment_end(&s) - s.first;
        here = here < len - out->len ? here : len - out->len;
        ll_ship_seg_name(l->timeline, s.first, name);
        rc = ll_ship_get_all(l->store, name, SEGMENT_MOST, &file, err);
        unsigned char *room = rc ? NULL : ll_ship_room(out, here);
        if (!rc && !room)
            rc = ll_ship_no_memory(err);
        if (!rc && file.len != s.size)
            rc = ll_ship_corrupt(err, name, "its length is wrong");
        if (!rc) {
            ll_ship_segment_payload(&s, file.data, 0, lsn, here, room);
            out->len += here;
            lsn += here;
        }
        ll_ship_buf_free(&file);
    }
    return rc || out->len == len ? rc : get_piece(l, lsn, len - out->len, out, err);
}

/* Where the log in segment i ends, if the segment after it says so; else 0. */
static int stop_of(const struct loading *l, size_t i, const struct ll_ship_segment *s,
                   uint64_t *out, struct lladd_error *err)
{
    struct ll_ship_segment next;
    *out = 0;
    int rc = i + 1 < firsts(l) ? get_head(l, first_of(l, i + 1), &next, err) : 0;
    if (!rc && i + 1 < firsts(l) && next.cut > s->first && next.cut <= ll_ship_segment_end(s))
        *out = next.cut;
    return rc;
}

/* Makes the index of segment i. `before`: the index of segment i - 1; NULL: there is none. */
static int remake(const struct loading *l, size_t i, const struct ll_ship_index *before,
                  const unsigned char uuid[16], struct ll_ship_index *ix, struct lladd_error *err)
{
    char name[LL_SHIP_NAME_MAX];
    struct ll_ship_buf file = {.mem = l->mem}, after = {.mem = l->mem};
    struct ll_ship_walk w = {.name = name, .code = LLADD_CORRUPT_BACKUP, .scratch.mem = l->mem};
    uint64_t first = first_of(l, i);
    ll_ship_index_init(ix, l->mem);
    ll_ship_seg_name(l->timeline, first, name);
    memcpy(w.uuid, uuid, sizeof w.uuid);
    int rc = ll_ship_get_all(l->store, name, SEGMENT_MOST, &file, err);
    if (!rc) {
        const char *why = file.len < LL_SHIP_BLOCK_HEADER
                              ? "it is too short"
                              : ll_ship_segment_head(file.data, first, &w.seg);
        if (!why && file.len != w.seg.size)
            why = "its length is wrong";
        rc = why ? ll_ship_corrupt(err, name, why) : 0;
    }
    if (!rc)
        rc = stop_of(l, i, &w.seg, &w.stop, err);
    w.bytes = file.data;
    bool follows = before && before->stop.v == w.seg.cut;
    w.start = w.seg.start ? w.seg.start : follows ? before->next.v : 0;
    if (!rc && !w.start)
        (void)ll_ship_find_record(&w);
    if (!rc)
        rc = ll_ship_index_make(ix, &w, l->timeline, follows ? &before->open : NULL, err);
    if (!rc && w.partial_at)
        rc = get_after(l, i + 1, w.stop, w.next - w.stop, &after, err);
    w.after = after.data;
    w.after_len = after.len;
    if (!rc)
        rc = ll_ship_index_finish(ix, &w, err);
    ll_ship_buf_free(&file);
    ll_ship_buf_free(&after);
    ll_ship_buf_free(&w.scratch);
    if (rc)
        ll_ship_index_free(ix);
    return rc;
}

/* To make the index of a segment, the index of the segment before is needed. That index says where
 * the first record begins and which transactions are open. So this function looks downwards for a
 * good index, and makes the indexes from there up. If no index is good, it begins with the first
 * segment. */
static int remake_from(const struct loading *l, size_t want, struct ll_ship_index *ix,
                       struct lladd_error *err)
{
    struct ll_ship_index before;
    unsigned char uuid[16];
    size_t i = want;
    bool have = false;
    int rc = ll_ship_store_uuid(l->store, uuid, err);
    for (; !rc && i > 0 && !have; i -= !have) {
        rc = ll_ship_index_read(l->store, l->mem, l->timeline, lladd_lsn_of(first_of(l, i - 1)),
                                &before, err);
        have = rc == 0;
        if (rc == LLADD_NOT_FOUND || rc == LLADD_CORRUPT_BACKUP)
            rc = 0;
    }
    for (; !rc && i <= want; i++) {
        rc = remake(l, i, have ? &before : NULL, uuid, ix, err);
        if (have)
            ll_ship_index_free(&before);
        have = !rc && i < want;
        if (have)
            before = *ix;
    }
    if (have)
        ll_ship_index_free(&before);
    return rc;
}

int ll_ship_index_load(struct lladd_store *store, struct ll_ship_mem mem, uint32_t timeline,
                       lladd_lsn first, struct ll_ship_index *ix, struct lladd_error *err)
{
    struct loading l = {store, mem, timeline, {.mem = mem}};
    struct lladd_error local = LLADD_ERROR_INIT;
    if (!err)
        err = &local;
    int rc = ll_ship_index_read(store, mem, timeline, first, ix, err);
    if (rc != LLADD_NOT_FOUND && rc != LLADD_CORRUPT_BACKUP)
        return rc;
    rc = ll_ship_archived(store, timeline, &l.firsts, err);
    size_t i = 0;
    while (!rc && i < firsts(&l) && first_of(&l, i) != first.v)
        i++;
    if (!rc && i == firsts(&l))
        rc = lladd_error_set(err, LLADD_NOT_FOUND, "the archive has no segment that begins at %llu",
                             (unsigned long long)first.v);
    if (!rc)
        rc = remake_from(&l, i, ix, err);
    ll_ship_buf_free(&l.firsts);
    return rc;
}
