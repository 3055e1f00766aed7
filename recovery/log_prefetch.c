/* SPDX-License-Identifier: BSD-2-Clause */
/* See log_prefetch.h. */
#include "recovery/log_prefetch.h"

#include <stdlib.h>

#define NOWHERE UINT64_MAX

void ll_log_prefetch_init(struct ll_log_prefetch *a, const struct ll_env *env)
{
    a->most = 0;
    a->payload = 0;
    ll_vec_init(&a->wanted, env, sizeof(struct ll_log_prefetch_wanted));
    ll_vec_init(&a->bytes, env, 1);
}

void ll_log_prefetch_free(struct ll_log_prefetch *a)
{
    ll_vec_free(&a->wanted);
    ll_vec_free(&a->bytes);
}

void ll_log_prefetch_clear(struct ll_log_prefetch *a)
{
    ll_vec_truncate(&a->wanted, 0);
    ll_vec_truncate(&a->bytes, 0);
}

uint64_t ll_log_prefetch_bytes(const struct ll_log_prefetch *a)
{
    return (uint64_t)a->wanted.capacity * a->wanted.element + a->bytes.capacity;
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

static size_t padded(size_t len)
{
    return (len + 7) & ~(size_t)7;
}

/* Accepts as many records as will fit if they have the estimated length and every array is half
 * full. */
bool ll_log_prefetch_want(struct ll_log_prefetch *a, lladd_lsn lsn)
{
    const struct ll_log_prefetch_wanted one = {lsn.v, NOWHERE};
    const size_t each =
        sizeof one + sizeof(struct ll_log_prefetch_record) + padded((size_t)a->payload);
    return a->wanted.len < a->most / 2 / each && has_room(a, &a->wanted, 1) &&
           ll_vec_append(&a->wanted, &one, 1) == 0;
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

void ll_log_prefetch_read_by(struct ll_log_prefetch *a, ll_log_prefetch_get *get, void *ctx)
{
    struct ll_record rec;
    struct ll_log_prefetch_wanted *wanted = a->wanted.data;
    if (a->wanted.len)
        qsort(wanted, a->wanted.len, sizeof *wanted, ll_by_key);
    for (size_t i = 0; i < a->wanted.len; i++) {
        if (get(ctx, lladd_lsn_of(wanted[i].lsn), &rec) != 0)
            continue;
        wanted[i].at = keep(a, &rec);
        if (wanted[i].at == NOWHERE) {
            a->payload += a->payload / 2 + 64; /* records were longer than estimated: accept fewer
                                                * next time */
            break;
        }
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

bool ll_log_prefetch_find(const struct ll_log_prefetch *a, lladd_lsn lsn, struct ll_record *rec)
{
    const struct ll_log_prefetch_wanted *wanted = a->wanted.data;
    size_t i = ll_lower_bound(wanted, a->wanted.len, sizeof *wanted, lsn.v);
    if (i == a->wanted.len || wanted[i].lsn != lsn.v || wanted[i].at == NOWHERE)
        return false;
    const struct ll_log_prefetch_record *r = ll_vec_at(&a->bytes, (size_t)wanted[i].at);
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
