/* SPDX-License-Identifier: BSD-2-Clause */
/* See page_diff.h. */
#include "operations/shared/page_diff.h"

#include <lladd/bytes.h>

#include <string.h>

#define HEAD LL_PAGE_DIFF_HEAD
#define GAP 8u /* runs of changed bytes are separated by at least this many equal bytes */

/* The next run of changed bytes at or after `from`: [*begin, *end). False: there is none. Runs with
 * fewer than GAP equal bytes between them count as one. */
static bool next_run(const unsigned char *a, const unsigned char *b, size_t n, size_t from,
                     size_t *begin, size_t *end)
{
    while (n - from >= 8 && lladd_get64(a + from) == lladd_get64(b + from))
        from += 8;
    while (from < n && a[from] == b[from])
        from++;
    *begin = *end = from;
    for (size_t at = from; at < n && at - *end < GAP; at++)
        if (a[at] != b[at])
            *end = at + 1;
    return *end > *begin;
}

int ll_operations__page_diff_prepare(struct lladd_view page, uint32_t offset,
                                     const unsigned char *then, size_t n, struct lladd_draft *draft)
{
    const unsigned char *now = lladd_view_body(page) + offset;
    size_t begin, end = 0, len = 0;
    while (next_run(now, then, n, end, &begin, &end))
        len += HEAD + (end - begin);
    unsigned char *redo = lladd_draft_redo(draft, len);
    unsigned char *undo = redo ? lladd_draft_undo(draft, len) : NULL;
    if (!undo)
        return lladd_error_set(draft->error, LLADD_BUG,
                               "a page is longer than its operation's record");
    for (end = 0; next_run(now, then, n, end, &begin, &end);) {
        size_t run = end - begin;
        lladd_put16(redo, (uint16_t)(offset + begin));
        lladd_put16(redo + 2, (uint16_t)run);
        memcpy(undo, redo, HEAD);
        memcpy(redo + HEAD, then + begin, run);
        memcpy(undo + HEAD, now + begin, run);
        redo += HEAD + run;
        undo += HEAD + run;
    }
    return 0;
}

bool ll_operations__page_diff_validate(struct lladd_view page, enum lladd_span_kind kind,
                                       struct lladd_span s)
{
    const unsigned char *p = s.data;
    (void)kind;
    for (size_t at = 0; at < s.len;) {
        if (s.len - at < HEAD)
            return false;
        size_t offset = lladd_get16(p + at), n = lladd_get16(p + at + 2);
        if (offset + n > lladd_body_size(page.size) || n > s.len - at - HEAD)
            return false;
        at += HEAD + n;
    }
    return true;
}

void ll_operations__page_diff_apply(struct lladd_page *page, struct lladd_span bytes)
{
    const unsigned char *p = bytes.data, *end = p + bytes.len;
    while (p < end) {
        size_t n = lladd_get16(p + 2);
        memcpy(lladd_page_body(page) + lladd_get16(p), p + HEAD, n);
        p += HEAD + n;
    }
}

void ll_operations__page_diff_describe(void *ctx, struct lladd_sink *sink,
                                       enum lladd_span_kind kind, struct lladd_span s)
{
    const unsigned char *p = s.data;
    (void)ctx;
    (void)kind;
    for (size_t at = 0; s.len - at >= HEAD;) {
        size_t n = lladd_get16(p + at + 2);
        lladd_sink_printf(sink, "%s%u+%zu", at ? " " : "", lladd_get16(p + at), n);
        if (n > s.len - at - HEAD)
            return;
        at += HEAD + n;
    }
}

const struct lladd_field ll_operations__page_diff_fields[] = {{"runs", LLADD_FIELD_REST},
                                                              {NULL, LLADD_FIELD_END}};
