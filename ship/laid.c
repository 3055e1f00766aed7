/* SPDX-License-Identifier: BSD-2-Clause */
/* Pages that transactions have written in bulk, laid over the pages of a backup.
 *
 * These pages are not in the log, but in the spools of the archive (docs/backup.md). A restore lays
 * the spools of the transactions that have committed or prepared between the end of the backup and
 * the target. It does not lay the pages of other transactions: at the target, their place may have
 * other contents. If several spools have a page, the one with the highest barrier counts.
 *
 * A transaction may have given up a page by a rollback to a savepoint, before it committed. Then
 * another transaction may have taken the page. So a page of a spool is not laid if another
 * transaction has logged a later redo barrier for the page. A page of a spool is also not laid if
 * the backup has the page undamaged, with a page LSN above the barrier. If the other
 * transaction has formatted the page after the start of redo, redo formats it again.
 *
 * Takes 32 bytes of memory for each page, and one window of bytes of one object. */
#include "ship/image_private.h"

#include <lladd/bytes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 1 << 20, PAGE_LSN = 8 };

struct object {
    uint64_t txn, bytes;
    uint32_t timeline, part;
};

struct page {
    uint64_t number, barrier;
    uint32_t object, offset, crc;
};

static const struct object *object_at(const struct ll_ship_laid *l, size_t i)
{
    return (const struct object *)(const void *)l->objects.data + i;
}

static size_t pages_of(const struct ll_ship_laid *l)
{
    return l->pages.len / sizeof(struct page);
}

void ll_ship_laid_init(struct ll_ship_laid *l, struct ll_ship_mem mem, struct lladd_store *store,
                       const unsigned char uuid[16], uint32_t page_size)
{
    memset(l, 0, sizeof *l);
    l->objects.mem = l->pages.mem = l->window.mem = mem;
    l->mem = mem;
    l->store = store;
    l->page_size = page_size;
    l->window_object = SIZE_MAX;
    memcpy(l->uuid, uuid, sizeof l->uuid);
}

void ll_ship_laid_free(struct ll_ship_laid *l)
{
    ll_ship_buf_free(&l->objects);
    ll_ship_buf_free(&l->pages);
    ll_ship_buf_free(&l->window);
}

/* ---- what the spools have ------------------------------------------------------------------- */

static int note_piece(struct ll_ship_laid *l, uint32_t object, const unsigned char *begin,
                      const struct ll_ship_blk_piece *p, struct lladd_error *err)
{
    int rc = 0;
    for (uint32_t i = 0; i < p->n && !rc; i++) {
        const unsigned char *bytes = p->bytes + (size_t)i * l->page_size;
        struct page page = {.number = p->page + i,
                            .barrier = p->barrier,
                            .object = object,
                            .offset = (uint32_t)(bytes - begin),
                            .crc = lladd_crc32c(0, bytes, l->page_size)};
        rc = ll_ship_append(&l->pages, &page, sizeof page, err);
    }
    return rc;
}

static int note_part(struct ll_ship_laid *l, const struct object *o, const char *name,
                     const struct ll_ship_buf *bytes, bool *last, struct lladd_error *err)
{
    struct ll_ship_blk blk, want = {.page_size = l->page_size, .txn = o->txn, .part = o->part};
    struct ll_ship_blk_piece piece;
    uint32_t object = (uint32_t)(l->objects.len / sizeof *o);
    memcpy(want.uuid, l->uuid, sizeof want.uuid);
    int rc = ll_ship_blk_open(&blk, name, bytes, &want, err);
    if (rc)
        return rc;
    rc = ll_ship_append(&l->objects, o, sizeof *o, err);
    while (!rc && (rc = ll_ship_blk_next(&blk, &piece, err)) == 0)
        rc = note_piece(l, object, bytes->data, &piece, err);
    *last = blk.last;
    return rc == LLADD_END ? 0 : rc;
}

uint32_t ll_ship_lay_timeline(const struct ll_ship_buf *steps, uint64_t txn)
{
    const struct ll_ship_step *step = (const void *)steps->data;
    uint32_t timeline = 0;
    for (size_t i = 0; i < steps->len / sizeof *step; i++)
        if (txn < step[i].top)
            timeline = step[i].timeline;
    return timeline;
}

static int get_part(struct ll_ship_laid *l, const struct ll_ship_buf *steps, struct object *o,
                    char name[LL_SHIP_NAME_MAX], struct ll_ship_buf *out, struct lladd_error *err)
{
    o->timeline = ll_ship_lay_timeline(steps, o->txn);
    ll_ship_blk_name(o->timeline, o->txn, o->part, name);
    int rc = ll_ship_get_all(l->store, name, LL_SHIP_OBJECT_MAX, out, err);
    o->bytes = out->len;
    return rc;
}

int ll_ship_lay(struct ll_ship_laid *l, const struct ll_ship_buf *steps, uint64_t txn,
                struct lladd_error *err)
{
    struct object o = {.txn = txn};
    struct ll_ship_buf bytes = {.mem = l->mem};
    char name[LL_SHIP_NAME_MAX];
    bool last = false;
    int rc = 0;
    while (!rc && !last) {
        bytes.len = 0;
        rc = get_part(l, steps, &o, name, &bytes, err);
        if (!rc)
            rc = note_part(l, &o, name, &bytes, &last, err);
        o.part++;
    }
    ll_ship_buf_free(&bytes);
    return rc;
}

static int compare(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

/* Orders by page and barrier. Writes of one page under one barrier keep the order in which they
 * were made. */
static int by_page(const void *a, const void *b)
{
    const struct page *x = a, *y = b;
    int by = compare(x->number, y->number);
    if (!by)
        by = compare(x->barrier, y->barrier);
    if (!by)
        by = compare(x->object, y->object);
    return by ? by : compare(x->offset, y->offset);
}

/* Index of the first page with this number or a higher one. */
static size_t lower_bound(const struct ll_ship_laid *l, uint64_t number)
{
    const struct page *p = (const void *)l->pages.data;
    size_t low = 0, high = pages_of(l);
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (p[mid].number < number)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Sets the barrier to 0 for the pages that another transaction has taken later. */
static void give_up(struct ll_ship_laid *l, const struct ll_ship_barrier *b)
{
    struct page *p = (void *)l->pages.data;
    size_t n = pages_of(l);
    for (size_t i = lower_bound(l, b->first); i < n && p[i].number - b->first < b->n; i++)
        if (p[i].barrier < b->lsn && object_at(l, p[i].object)->txn != b->txn)
            p[i].barrier = 0;
}

void ll_ship_laid_sort(struct ll_ship_laid *l, const struct ll_ship_buf *barriers)
{
    const struct ll_ship_barrier *b = (const void *)barriers->data;
    struct page *p = (void *)l->pages.data;
    size_t n = pages_of(l), kept = 0;
    if (n == 0)
        return;
    qsort(p, n, sizeof *p, by_page);
    for (size_t i = 0; i < barriers->len / sizeof *b; i++)
        give_up(l, &b[i]);
    for (size_t i = 0; i < n; i++)
        if (p[i].barrier)
            p[kept++] = p[i];
    l->pages.len = kept * sizeof *p;
}

/* ---- laid ----------------------------------------------------------------------------------- */

static const struct page *last_of(const struct ll_ship_laid *l, uint64_t number)
{
    const struct page *p = (const void *)l->pages.data;
    size_t after = number < UINT64_MAX ? lower_bound(l, number + 1) : pages_of(l);
    return after && p[after - 1].number == number ? &p[after - 1] : NULL;
}

int ll_ship_laid_each(const struct ll_ship_laid *l, ll_ship_laid_fn *fn, void *ctx)
{
    const struct page *p = (const void *)l->pages.data;
    size_t n = pages_of(l);
    int rc = 0;
    for (size_t i = 0; i < n && !rc; i++)
        if (i + 1 == n || p[i + 1].number != p[i].number)
            rc = fn(ctx, p[i].number, p[i].barrier);
    return rc;
}

bool ll_ship_laid_has(const struct ll_ship_laid *l, uint64_t number)
{
    return last_of(l, number) != NULL;
}

static int look(struct ll_ship_laid *l, const struct page *p, const unsigned char **out,
                char name[LL_SHIP_NAME_MAX], struct lladd_error *err)
{
    const struct object *o = object_at(l, p->object);
    ll_ship_blk_name(o->timeline, o->txn, o->part, name);
    if (l->window_object != p->object || p->offset < l->window_offset ||
        p->offset + l->page_size > l->window_offset + l->window.len) {
        uint64_t len = o->bytes - p->offset < WINDOW ? o->bytes - p->offset : WINDOW;
        l->window_object = SIZE_MAX;
        l->window.len = 0;
        unsigned char *room = ll_ship_room(&l->window, len);
        if (!room)
            return ll_ship_no_memory(err);
        int rc = ll_ship_get(l->store, name, p->offset, room, len, err);
        if (rc)
            return rc == LLADD_NOT_FOUND ? ll_ship_corrupt(err, name, "it is missing") : rc;
        l->window.len = len;
        l->window_object = p->object;
        l->window_offset = p->offset;
    }
    *out = l->window.data + (p->offset - l->window_offset);
    return 0;
}

int ll_ship_laid_page(struct ll_ship_laid *l, uint64_t number, unsigned char *bytes,
                      struct lladd_error *err)
{
    const struct page *p = last_of(l, number);
    const unsigned char *laid = NULL;
    char name[LL_SHIP_NAME_MAX], what[80];
    if (!p || (ll_ship_page_ok(l->uuid, number, bytes, l->page_size) &&
               lladd_get64(bytes + PAGE_LSN) > p->barrier))
        return 0;
    int rc = look(l, p, &laid, name, err);
    if (rc)
        return rc;
    if (lladd_crc32c(0, laid, l->page_size) != p->crc) {
        (void)snprintf(what, sizeof what, "page %llu at byte %u is damaged",
                       (unsigned long long)number, p->offset);
        return ll_ship_corrupt(err, name, what);
    }
    memcpy(bytes, laid, l->page_size);
    return 0;
}
