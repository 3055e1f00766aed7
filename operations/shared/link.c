/* SPDX-License-Identifier: BSD-2-Clause */
/* See link.h. */
#include "operations/shared/link.h"

#include <string.h>

const struct lladd_field ll_operations__link_fields[] = {{"next", LLADD_FIELD_PAGE},
                                                         {NULL, LLADD_FIELD_END}};

int ll_operations__link_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                                struct lladd_draft *draft)
{
    (void)ctx;
    memcpy(lladd_draft_redo(draft, 8), args.data, 8);
    memcpy(lladd_draft_undo(draft, 8), lladd_view_body(page), 8);
    return 0;
}

bool ll_operations__link_validate(struct lladd_view page, enum lladd_span_kind kind,
                                  struct lladd_span s)
{
    (void)page;
    (void)kind;
    return s.len == 8;
}

void ll_operations__link_apply(struct lladd_page *page, struct lladd_span bytes)
{
    memcpy(lladd_page_body(page), bytes.data, 8);
}
