/* SPDX-License-Identifier: BSD-2-Clause */
/* Stored bytes: records in the log, rows in the catalogue (docs/disk-format.md).
 *
 * A record is u8 kind, then numbers, then bytes. A number takes as few bytes as possible: each byte
 * has seven bits of the number, lowest bits first, and the top bit is clear only in the last
 * byte. */
#include "operations/journal/table.h"

enum { NUMBER_MAX = 10, ROW_VERSION = 1, ROW_HEAD = 18 };

/* The members that each kind has, in the order in which they are stored. */
static const struct shape {
    bool tag, other, from, upto, bytes;
} shapes[LL_JOURNAL_KINDS] = {
    [LL_JOURNAL_ENTRY] = {.tag = true, .bytes = true},
    [LL_JOURNAL_MAKE] = {.bytes = true},
    [LL_JOURNAL_RELEASE] = {.tag = true},
    [LL_JOURNAL_DISCARD] = {.tag = true, .from = true, .upto = true},
    [LL_JOURNAL_ROLLOVER] = {.tag = true, .other = true, .from = true, .upto = true},
    [LL_JOURNAL_ANNUL] = {.from = true, .upto = true},
    [LL_JOURNAL_CLEAN] = {.tag = true, .from = true, .upto = true},
    [LL_JOURNAL_AGAIN] = {.tag = true, .from = true, .bytes = true},
};

static unsigned char *put_number(unsigned char *out, uint64_t v)
{
    while (v >= 0x80) {
        *out++ = (unsigned char)(v | 0x80);
        v >>= 7;
    }
    *out++ = (unsigned char)v;
    return out;
}

static bool get_number(struct lladd_span *s, uint64_t *out)
{
    const unsigned char *p = s->data;
    uint64_t v = 0;
    for (size_t i = 0; i < s->len && i < NUMBER_MAX; i++) {
        uint64_t bits = p[i] & 0x7f;
        if (i == NUMBER_MAX - 1 && bits > 1)
            return false;
        v |= bits << (7 * i);
        if (p[i] & 0x80)
            continue;
        if (i && !p[i])
            return false;
        *out = v;
        *s = lladd_span_of(p + i + 1, s->len - i - 1);
        return true;
    }
    return false;
}

size_t ll_operations__journal_put(const struct ll_journal_record *r,
                                  unsigned char out[LL_JOURNAL_RECORD_HEAD])
{
    const struct shape *has = &shapes[r->kind];
    unsigned char *p = out;
    *p++ = (unsigned char)r->kind;
    if (has->tag)
        p = put_number(p, r->tag);
    if (has->other)
        p = put_number(p, r->other);
    if (has->from)
        p = put_number(p, r->from);
    if (has->upto)
        p = put_number(p, r->upto);
    return (size_t)(p - out);
}

bool ll_operations__journal_get(struct lladd_span s, struct ll_journal_record *r)
{
    memset(r, 0, sizeof *r);
    if (s.len == 0)
        return false;
    r->kind = *(const unsigned char *)s.data;
    if (r->kind == 0 || r->kind >= LL_JOURNAL_KINDS)
        return false;
    const struct shape *has = &shapes[r->kind];
    s = lladd_span_of((const unsigned char *)s.data + 1, s.len - 1);
    if ((has->tag && !get_number(&s, &r->tag)) || (has->other && !get_number(&s, &r->other)) ||
        (has->from && !get_number(&s, &r->from)) || (has->upto && !get_number(&s, &r->upto)) ||
        (!has->bytes && s.len))
        return false;
    r->bytes = s;
    return !(has->from && has->upto) || r->from <= r->upto;
}

/* ---- rows of the catalogue ------------------------------------------------------------------- */

/* u8 version, u8 length of the owner, u64 tag, u64 discarded, owner */
size_t ll_operations__journal_row_put(const struct ll_journal_row *r,
                                      unsigned char out[LL_JOURNAL_ROW_MAX])
{
    size_t owner = strlen(r->owner);
    out[0] = ROW_VERSION;
    out[1] = (unsigned char)owner;
    lladd_put64(out + 2, r->tag);
    lladd_put64(out + 10, r->discarded);
    memcpy(out + ROW_HEAD, r->owner, owner);
    return ROW_HEAD + owner;
}

int ll_operations__journal_row_get(struct lladd_span s, struct ll_journal_row *r)
{
    const unsigned char *p = s.data;
    memset(r, 0, sizeof *r);
    if (s.len && p[0] > ROW_VERSION)
        return LLADD_NEWER_FORMAT;
    if (s.len < ROW_HEAD || p[0] != ROW_VERSION || p[1] > LLADD_JOURNAL_OWNER_MAX ||
        s.len != ROW_HEAD + (size_t)p[1] || memchr(p + ROW_HEAD, 0, p[1]))
        return LLADD_BAD_RECORD;
    r->tag = lladd_get64(p + 2);
    r->discarded = lladd_get64(p + 10);
    memcpy(r->owner, p + ROW_HEAD, p[1]);
    return r->tag ? 0 : LLADD_BAD_RECORD;
}
