/* SPDX-License-Identifier: BSD-2-Clause */
#include "operations/dtables/class/through.h"

static struct lladd_dtable_cursor *rows_of(void *cursor)
{
    return ((struct ll_through *)cursor)->rows;
}

int ll_dtable__through_open(const struct lladd_dtable *inside, void *cursor,
                            struct lladd_error *err)
{
    return lladd_dtable_cursor_open(inside, LLADD_DTABLE_TOMBSTONES,
                                    &((struct ll_through *)cursor)->rows, err);
}

void ll_dtable__through_close(const struct lladd_dtable *base, void *cursor)
{
    (void)base;
    lladd_dtable_cursor_close(rows_of(cursor));
}

int ll_dtable__through_seek(const struct lladd_dtable *base, void *cursor,
                            enum lladd_dtable_where where, const struct lladd_dtable_key *key,
                            struct lladd_error *err)
{
    (void)base;
    return lladd_dtable_go(rows_of(cursor), where, key, err);
}

int ll_dtable__through_step(const struct lladd_dtable *base, void *cursor, bool forward,
                            struct lladd_error *err)
{
    (void)base;
    return forward ? lladd_dtable_next(rows_of(cursor), err)
                   : lladd_dtable_prev(rows_of(cursor), err);
}

int ll_dtable__through_row(const struct lladd_dtable *base, void *cursor,
                           struct lladd_dtable_key *key, struct lladd_dtable_value *value,
                           struct lladd_error *err)
{
    (void)base;
    return lladd_dtable_row(rows_of(cursor), key, value, err);
}
