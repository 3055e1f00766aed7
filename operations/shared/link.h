/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_LINK_H
#define LL_OPERATIONS_LINK_H
/* The parts of an operation that sets the number of the next page of a chain: the first eight bytes
 * of a page's body. The redo and undo bytes are the new and the old number. */
#include <lladd/op.h>

extern const struct lladd_field ll_operations__link_fields[];
int ll_operations__link_prepare(void *ctx, struct lladd_view, struct lladd_span args,
                                struct lladd_draft *);
bool ll_operations__link_validate(struct lladd_view, enum lladd_span_kind, struct lladd_span);
void ll_operations__link_apply(struct lladd_page *, struct lladd_span);

/* The members of such an operation, except its name and page type. */
#define LL_LINK_OP \
    .redo_fields = ll_operations__link_fields, .undo_fields = ll_operations__link_fields, \
    .record_max = 16, .undo_kind = LLADD_UNDO_PAGE, .prepare = ll_operations__link_prepare, \
    .validate = ll_operations__link_validate, .redo = ll_operations__link_apply, \
    .undo = ll_operations__link_apply

#endif
