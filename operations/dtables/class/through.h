/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_DTABLE_CLASS_THROUGH_H
#define LL_OPERATIONS_DTABLE_CLASS_THROUGH_H
/* Cursors that are another table's cursor: callbacks of classes that show the rows of one table
 * inside, such as an overlay. */
#include <lladd/dtable_class.h>

struct ll_through {
    struct lladd_dtable_cursor *rows;
};

/* For `cursor_open`: also shows tombstones. */
int ll_dtable__through_open(const struct lladd_dtable *inside, void *cursor, struct lladd_error *);
void ll_dtable__through_close(const struct lladd_dtable *, void *cursor);
int ll_dtable__through_seek(const struct lladd_dtable *, void *cursor, enum lladd_dtable_where,
                            const struct lladd_dtable_key *, struct lladd_error *);
int ll_dtable__through_step(const struct lladd_dtable *, void *cursor, bool forward,
                            struct lladd_error *);
int ll_dtable__through_row(const struct lladd_dtable *, void *cursor, struct lladd_dtable_key *,
                           struct lladd_dtable_value *, struct lladd_error *);

#endif
