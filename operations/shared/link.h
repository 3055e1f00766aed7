/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_LINK_H
#define LL_OPERATIONS_LINK_H
/* The parts of an operation that sets the first eight bytes of a page's body, the number of the
 * next page of a chain. Redo and undo bytes are that number. */
#include <lladd/op.h>

extern const struct lladd_field ll_operations__link_fields[];
int ll_operations__link_prepare(void *ctx, struct lladd_view, struct lladd_span args,
                                struct lladd_draft *);
bool ll_operations__link_validate(struct lladd_view, enum lladd_span_kind, struct lladd_span);
void ll_operations__link_apply(struct lladd_page *, struct lladd_span);

#endif
