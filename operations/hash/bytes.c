/* SPDX-License-Identifier: BSD-2-Clause */
/* Byte-by-byte updates of a hash table's pages, for undo that must restore the page exactly. The
 * records have the form of lladd.set_range: operations/shared/page_diff.h. */
#include "operations/hash/page.h"
#include "operations/shared/page_diff.h"

static int bytes_prepare(void *ctx, struct lladd_view v, struct lladd_span args,
                         struct lladd_draft *d)
{
    (void)ctx;
    const struct hb_bytes *want = args.data;
    return ll_operations__page_diff_prepare(v, 0, want->page + LLADD_PAGE_HEADER,
                                            lladd_body_size(v.size), d);
}

/* Redo and undo take less than a page each: at most a page's body and one run's head
 * (page_diff.h). */
#define BYTES_OP(op_name, how) \
    { \
        .struct_size = sizeof(struct lladd_op), .name = op_name, .version = 1, \
        .record_max = 2 * HB_PAGE_MAX, .record_pages = 2, .credit_max = 3, \
        .prepare = (how), LL_PAGE_DIFF_OP, \
    }

const struct lladd_op ll_hash__bytes = BYTES_OP("lladd.hash.bytes", bytes_prepare);
const struct lladd_op ll_hash__old_bytes[] = {BYTES_OP("lladd.hash.bytes.long", NULL)};
