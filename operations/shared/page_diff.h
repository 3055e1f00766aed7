/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_PAGE_DIFF_H
#define LL_OPERATIONS_PAGE_DIFF_H
/* The bytes in which two versions of a page differ, as redo and undo: any number of runs, each u16
 * offset in the body, u16 n, n bytes. For operations that need undo to restore every byte of a
 * page. */
#include <lladd/lladd.h>
#include <lladd/op.h>
#include <lladd/pages.h>

/* Bytes of a run's head: offset and n. At least eight equal bytes separate two runs, so redo is at
 * most one head longer than the compared bytes. */
#define LL_PAGE_DIFF_HEAD 4u

/* Drafts a change: the `n` bytes at `offset` of the page's body become `then`. */
int ll_operations__page_diff_prepare(struct lladd_view page, uint32_t offset,
                                     const unsigned char *then, size_t n, struct lladd_draft *);
bool ll_operations__page_diff_validate(struct lladd_view, enum lladd_span_kind, struct lladd_span);
void ll_operations__page_diff_apply(struct lladd_page *, struct lladd_span);
void ll_operations__page_diff_describe(void *ctx, struct lladd_sink *, enum lladd_span_kind,
                                       struct lladd_span);
extern const struct lladd_field ll_operations__page_diff_fields[];

/* The members that all operations with such a redo and undo have in common. */
#define LL_PAGE_DIFF_OP \
    .redo_fields = ll_operations__page_diff_fields, \
    .undo_fields = ll_operations__page_diff_fields, .undo_kind = LLADD_UNDO_PAGE, \
    .validate = ll_operations__page_diff_validate, .redo = ll_operations__page_diff_apply, \
    .undo = ll_operations__page_diff_apply, .describe = ll_operations__page_diff_describe, \
    .offset_first = true

#endif
