/* SPDX-License-Identifier: BSD-2-Clause */
/* See ahead.h. */
#include "recovery/ahead.h"

#include <stdlib.h>

/* A wanted record is one of that size until it is known. */
enum { PAYLOAD = 256 };

void ll_ahead_init(struct ll_ahead *a, const struct ll_env *env, size_t most)
{
    a->most = most;
    ll_vec_init(&a->wanted, env, sizeof(uint64_t));
    ll_vec_init(&a->records, env, sizeof(struct ll_ahead_record));
    ll_vec_init(&a->bytes, env, 1);
}

void ll_ahead_free(struct ll_ahead *a)
{
    ll_vec_free(&a->wanted);
    ll_vec_free(&a->records);
    ll_vec_free(&a->bytes);
}

void ll_ahead_clear(struct ll_ahead *a)
{
    ll_vec_truncate(&a->wanted, 0);
    ll_vec_truncate(&a->records, 0);
    ll_vec_truncate(&a->bytes, 0);
}

bool ll_ahead_want(struct ll_ahead *a, lladd_lsn lsn)
{
    const size_t each = sizeof(uint64_t) + sizeof(struct ll_ahead_record) + PAYLOAD;
    return a->wanted.len < a->most / each && ll_vec_append(&a->wanted, &lsn.v, 1) == 0;
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* False: no room. */
static bool keep(struct ll_ahead *a, const struct ll_record *rec)
{
    struct ll_ahead_record r = {*rec, a->bytes.len, a->bytes.len + rec->redo.len};
    size_t used = a->wanted.capacity * sizeof(uint64_t) + a->records.len * sizeof r + a->bytes.len;
    return used + sizeof r + rec->redo.len + rec->undo.len <= a->most &&
           ll_vec_append(&a->bytes, rec->redo.data, rec->redo.len) == 0 &&
           ll_vec_append(&a->bytes, rec->undo.data, rec->undo.len) == 0 &&
           ll_vec_append(&a->records, &r, 1) == 0;
}

void ll_ahead_read(struct ll_ahead *a, struct ll_log_cursor *cursor)
{
    uint64_t *wanted = a->wanted.data;
    struct ll_record rec;
    if (a->wanted.len)
        qsort(wanted, a->wanted.len, sizeof *wanted, ascending);
    for (size_t i = 0; i < a->wanted.len; i++)
        if (ll_log_cursor_need(cursor, lladd_lsn_of(wanted[i]), &rec, NULL) == 0 &&
            !keep(a, &rec))
            break;
    ll_log_cursor_rest(cursor);
}

static int by_lsn(const void *key, const void *element)
{
    const struct ll_ahead_record *r = element;
    uint64_t lsn = *(const uint64_t *)key;
    return lsn < r->rec.lsn.v ? -1 : lsn > r->rec.lsn.v;
}

bool ll_ahead_find(const struct ll_ahead *a, lladd_lsn lsn, struct ll_record *rec)
{
    const unsigned char *bytes = a->bytes.data;
    const struct ll_ahead_record *r =
        a->records.len ? bsearch(&lsn.v, a->records.data, a->records.len, sizeof *r, by_lsn) : NULL;
    if (!r)
        return false;
    *rec = r->rec;
    rec->redo.data = bytes + r->redo;
    rec->undo.data = bytes + r->undo;
    return true;
}
