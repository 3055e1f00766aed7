/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_BYTE_RUNS_H
#define LL_OPERATIONS_BYTE_RUNS_H
/* The bytes in which two versions of a page differ, as redo and as undo: { u16 offset in the body,
 * u16 n, n bytes } ... What an operation whose undo must restore a page byte by byte is made of. */
#include <lladd/lladd.h>
#include <lladd/pages.h>

/* Two runs are eight bytes apart or more, so their heads never need more room than the equal bytes
 * they leave out; one head may come on top. */
#define LL_BYTE_RUNS_HEAD 4u

/* Redo and undo of making `n` bytes at `offset` of the page's body what `then` is. */
int ll_operations__runs_prepare(struct lladd_view page, uint32_t offset, const unsigned char *then,
                                size_t n, struct lladd_draft *);
bool ll_operations__runs_validate(struct lladd_view, enum lladd_span_kind, struct lladd_span);
void ll_operations__runs_apply(struct lladd_page *, struct lladd_span);
void ll_operations__runs_describe(void *ctx, struct lladd_sink *, enum lladd_span_kind,
                                  struct lladd_span);
extern const struct lladd_field ll_operations__runs_fields[];

/* Those of an operation that has such a redo and undo, but for `prepare`. */
#define LL_BYTE_RUNS_OP \
    .redo_fields = ll_operations__runs_fields, .undo_fields = ll_operations__runs_fields, \
    .undo_kind = LLADD_UNDO_PAGE, .validate = ll_operations__runs_validate, \
    .redo = ll_operations__runs_apply, .undo = ll_operations__runs_apply, \
    .describe = ll_operations__runs_describe, .offset_first = true

#endif
