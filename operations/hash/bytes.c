/* SPDX-License-Identifier: BSD-2-Clause */
/* Pages of hash tables changed byte by byte: for whatever has undo that must restore a page as it
 * was. Redo and undo are the runs of bytes that differ, each u16 offset in the body, u16 length,
 * bytes. */
#include "operations/hash/page.h"

#include <string.h>

#define SMALL_PAGE 4096u
#define LARGE_PAGE 65536u
#define RUN_HEAD 4u
#define RUN_GAP 8u

/* Where the first run of bytes that differ at or after `from` begins and ends; runs with less than
 * RUN_GAP equal bytes between them are one. */
static bool next_run(const unsigned char *a, const unsigned char *b, size_t n, size_t from,
                     size_t *begin, size_t *end)
{
    while (n - from >= 8 && lladd_get64(a + from) == lladd_get64(b + from))
        from += 8;
    while (from < n && a[from] == b[from])
        from++;
    *begin = *end = from;
    for (size_t at = from; at < n && at - *end < RUN_GAP; at++)
        if (a[at] != b[at])
            *end = at + 1;
    return *end > *begin;
}

static int bytes_prepare(void *ctx, struct lladd_view v, struct lladd_span args,
                         struct lladd_draft *d)
{
    (void)ctx;
    const struct hb_bytes *want = args.data;
    const unsigned char *now = lladd_view_body(v), *then = want->page + LLADD_PAGE_HEADER;
    size_t body = lladd_body_size(v.size), begin, end = 0, len = 0;
    while (next_run(now, then, body, end, &begin, &end))
        len += RUN_HEAD + (end - begin);
    unsigned char *redo = lladd_draft_redo(d, len), *undo = redo ? lladd_draft_undo(d, len) : NULL;
    if (!undo)
        return lladd_error_set(d->error, LLADD_BUG, "a page is longer than its operation's record");
    for (end = 0; next_run(now, then, body, end, &begin, &end);) {
        size_t n = end - begin;
        lladd_put16(redo, (uint16_t)begin);
        lladd_put16(redo + 2, (uint16_t)n);
        memcpy(undo, redo, RUN_HEAD);
        memcpy(redo + RUN_HEAD, then + begin, n);
        memcpy(undo + RUN_HEAD, now + begin, n);
        redo += RUN_HEAD + n;
        undo += RUN_HEAD + n;
    }
    return 0;
}

static bool bytes_validate(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    const unsigned char *p = s.data;
    (void)kind;
    for (size_t at = 0; at < s.len;) {
        if (s.len - at < RUN_HEAD)
            return false;
        size_t offset = lladd_get16(p + at), n = lladd_get16(p + at + 2);
        if (offset + n > lladd_body_size(v.size) || n > s.len - at - RUN_HEAD)
            return false;
        at += RUN_HEAD + n;
    }
    return true;
}

static void bytes_apply(struct lladd_page *page, struct lladd_span bytes)
{
    const unsigned char *p = bytes.data, *end = p + bytes.len;
    while (p < end) {
        size_t n = lladd_get16(p + 2);
        memcpy(lladd_page_body(page) + lladd_get16(p), p + RUN_HEAD, n);
        p += RUN_HEAD + n;
    }
}

static const struct lladd_field bytes_fields[] = {{"runs", LLADD_FIELD_REST},
                                                  {NULL, LLADD_FIELD_END}};

/* Two runs are RUN_GAP bytes apart or more, so their heads take less than the equal bytes between
 * them would; one head may come on top. */
#define BYTES_OP(op_name, page) \
    { \
        .struct_size = sizeof(struct lladd_op), .name = op_name, .version = 1, \
        .redo_fields = bytes_fields, .undo_fields = bytes_fields, .record_max = 2 * (page), \
        .undo_kind = LLADD_UNDO_PAGE, .prepare = bytes_prepare, .validate = bytes_validate, \
        .redo = bytes_apply, .undo = bytes_apply, \
    }

const struct lladd_op ll_hash__bytes = BYTES_OP("lladd.hash.bytes", SMALL_PAGE);
const struct lladd_op ll_hash__bytes_long = BYTES_OP("lladd.hash.bytes.long", LARGE_PAGE);
