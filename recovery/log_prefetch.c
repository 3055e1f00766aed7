/* SPDX-License-Identifier: BSD-2-Clause */
/* See log_prefetch.h. */
#include "recovery/log_prefetch.h"

#include <stdlib.h>

#define NOWHERE UINT64_MAX

void ll_log_prefetch_init(struct ll_log_prefetch *a, const struct ll_env *env)
{
    a->most = 0;
    a->payload = 0;
    ll_vec_init(&a->pages, env, sizeof(struct ll_log_prefetch_page));
    ll_vec_init(&a->lsns, env, sizeof(uint64_t));
    ll_vec_init(&a->places, env, sizeof(uint64_t));
    ll_vec_init(&a->sorted, env, sizeof(struct ll_log_prefetch_lsn));
    ll_vec_init(&a->bytes, env, 1);
}

void ll_log_prefetch_free(struct ll_log_prefetch *a)
{
    ll_vec_free(&a->pages);
    ll_vec_free(&a->lsns);
    ll_vec_free(&a->places);
    ll_vec_free(&a->sorted);
    ll_vec_free(&a->bytes);
}

void ll_log_prefetch_clear(struct ll_log_prefetch *a)
{
    ll_vec_truncate(&a->pages, 0);
    ll_vec_truncate(&a->lsns, 0);
    ll_vec_truncate(&a->places, 0);
    ll_vec_truncate(&a->sorted, 0);
    ll_vec_truncate(&a->bytes, 0);
}

static uint64_t held(const struct ll_vec *v)
{
    return (uint64_t)v->capacity * v->element;
}

uint64_t ll_log_prefetch_bytes(const struct ll_log_prefetch *a)
{
    return held(&a->pages) + held(&a->lsns) + held(&a->places) + held(&a->sorted) + held(&a->bytes);
}

/* Is there room for `more` elements? While an array grows, its old and its new memory exist
 * together. */
static bool has_room(const struct ll_log_prefetch *a, const struct ll_vec *v, size_t more)
{
    size_t capacity = v->capacity ? v->capacity : 8;
    while (capacity < v->len + more)
        capacity *= 2;
    return capacity == v->capacity || ll_log_prefetch_bytes(a) + capacity * v->element <= a->most;
}

static int append(struct ll_log_prefetch *a, struct ll_vec *v, const void *element)
{
    return has_room(a, v, 1) ? ll_vec_append(v, element, 1) : LLADD_NO_MEMORY;
}

static size_t padded(size_t len)
{
    return (len + 7) & ~(size_t)7;
}

/* Accepts as many records as will fit if they have the estimated length and every array is half
 * full. */
bool ll_log_prefetch_want(struct ll_log_prefetch *a, uint64_t page, lladd_lsn lsn)
{
    const size_t each = sizeof(struct ll_log_prefetch_page) + 2 * sizeof(uint64_t) +
                        sizeof(struct ll_log_prefetch_lsn) + sizeof(struct ll_log_prefetch_record) +
                        padded((size_t)a->payload);
    const struct ll_log_prefetch_page *last =
        a->pages.len ? ll_vec_at(&a->pages, a->pages.len - 1) : NULL;
    struct ll_log_prefetch_page begun = {page, a->lsns.len};
    if (a->lsns.len >= a->most / 2 / each)
        return false;
    if ((!last || last->page != page) && append(a, &a->pages, &begun) != 0)
        return false;
    return append(a, &a->lsns, &lsn.v) == 0;
}

static int ascending(const void *a, const void *b)
{
    const struct ll_log_prefetch_lsn *x = a, *y = b;
    return x->lsn < y->lsn ? -1 : x->lsn > y->lsn;
}

/* Stores the record. Returns its offset in `bytes`, or NOWHERE: no room. */
static uint64_t keep(struct ll_log_prefetch *a, const struct ll_record *rec)
{
    static const unsigned char zeros[8];
    struct lladd_span s = ll_redo_index_payload(rec);
    size_t at = a->bytes.len, pad = padded(s.len) - s.len;
    struct ll_log_prefetch_record r = {.page_prev = rec->page_prev,
                                       .txn = rec->txn,
                                       .page = rec->page,
                                       .len = (uint32_t)s.len,
                                       .op = rec->op,
                                       .depth = rec->depth,
                                       .size = rec->size,
                                       .kind = rec->kind,
                                       .flags = rec->flags};
    size_t need = sizeof r + s.len + pad;
    if (!has_room(a, &a->bytes, need) || ll_vec_reserve(&a->bytes, at + need) != 0 ||
        ll_vec_append(&a->bytes, &r, sizeof r) != 0 ||
        ll_vec_append(&a->bytes, s.data, s.len) != 0 || ll_vec_append(&a->bytes, zeros, pad) != 0)
        return NOWHERE;
    return at;
}

/* Sorts the LSNs into the order of the log. False: no room. */
static bool sort(struct ll_log_prefetch *a)
{
    const uint64_t *lsns = a->lsns.data;
    const uint64_t nowhere = NOWHERE;
    size_t n = a->lsns.len;
    if (n == 0 || !has_room(a, &a->places, n) || ll_vec_reserve(&a->places, n) ||
        !has_room(a, &a->sorted, n) || ll_vec_reserve(&a->sorted, n))
        return false;
    for (size_t i = 0; i < n; i++) {
        struct ll_log_prefetch_lsn at = {lsns[i], i};
        if (ll_vec_append(&a->places, &nowhere, 1) || ll_vec_append(&a->sorted, &at, 1))
            return false;
    }
    qsort(a->sorted.data, n, sizeof(struct ll_log_prefetch_lsn), ascending);
    return true;
}

void ll_log_prefetch_read_by(struct ll_log_prefetch *a, ll_log_prefetch_get *get, void *ctx)
{
    struct ll_record rec;
    if (!sort(a))
        return;
    const struct ll_log_prefetch_lsn *sorted = a->sorted.data;
    uint64_t *places = a->places.data;
    for (size_t i = 0; i < a->sorted.len; i++) {
        if (get(ctx, lladd_lsn_of(sorted[i].lsn), &rec) != 0)
            continue;
        uint64_t at = keep(a, &rec);
        if (at == NOWHERE) {
            a->payload += a->payload / 2 + 64; /* records were longer than estimated: accept fewer
                                                * next time */
            break;
        }
        places[sorted[i].at] = at;
    }
}

static int get_from_log(void *ctx, lladd_lsn lsn, struct ll_record *rec)
{
    return ll_log_cursor_need(ctx, lsn, rec, NULL);
}

void ll_log_prefetch_read(struct ll_log_prefetch *a, struct ll_log_cursor *cursor)
{
    ll_log_prefetch_read_by(a, get_from_log, cursor);
    ll_log_cursor_rest(cursor);
}

/* The page's LSNs are lsns[*first..result). */
static size_t lsns_of(const struct ll_log_prefetch *a, uint64_t page, size_t *first)
{
    const struct ll_log_prefetch_page *pages = a->pages.data;
    size_t low = ll_lower_bound(pages, a->pages.len, sizeof *pages, page);
    if (low == a->pages.len || pages[low].page != page)
        return *first = 0;
    *first = pages[low].first;
    return low + 1 < a->pages.len ? pages[low + 1].first : a->lsns.len;
}

bool ll_log_prefetch_find(const struct ll_log_prefetch *a, uint64_t page, lladd_lsn lsn,
                          struct ll_record *rec)
{
    const uint64_t *lsns = a->lsns.data, *places = a->places.data;
    size_t first, end = lsns_of(a, page, &first);
    if (end > a->places.len) /* there was no room to sort the LSNs */
        return false;
    size_t at = first + (first < end ? ll_lower_bound(lsns + first, end - first, 8, lsn.v) : 0);
    if (at == end || lsns[at] != lsn.v || places[at] == NOWHERE)
        return false;
    const struct ll_log_prefetch_record *r = ll_vec_at(&a->bytes, (size_t)places[at]);
    struct lladd_span payload = {r + 1, r->len};
    *rec = (struct ll_record){.lsn = lsn,
                              .page_prev = r->page_prev,
                              .txn = r->txn,
                              .page = r->page,
                              .op = r->op,
                              .depth = r->depth,
                              .size = r->size,
                              .kind = r->kind,
                              .flags = r->flags};
    *(r->kind == LL_REC_CLR ? &rec->undo : &rec->redo) = payload;
    return true;
}
