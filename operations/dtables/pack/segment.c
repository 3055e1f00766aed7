/* SPDX-License-Identifier: BSD-2-Clause */
/* Chooses the form of a segment of an auto_dtable: see auto.h. Computes how many bytes each allowed
 * form needs, approximately for numbers, and writes the shortest form. If several forms are equally
 * short, the first of them in this order is written: plain, constant, dictionary, numbers, runs,
 * deltas. Deltas are written only if they save a tenth, because reading must add up differences. */
#include "operations/dtables/pack/auto.h"

#include <lladd/extension.h>

enum { NONE = 0xffff };

/* A form under consideration. */
struct plan {
    enum ll_auto_form form;
    size_t bytes;
    unsigned bits, width;
    uint32_t items; /* number of items */
    uint64_t base;
};

static unsigned bits_of(uint64_t v)
{
    return v ? 64u - (unsigned)__builtin_clzll(v) : 0;
}

/* ---- lists of items -------------------------------------------------------------------------- */

/* Returns how many bytes the stored end of an item takes; 0 if all items have the same length, so
 * that no ends are stored. *bytes: how many bytes the n items and their ends take. `item` has the
 * numbers of the values that are items; NULL: the first n values. */
static unsigned list_of(const struct ll_auto_values *v, const uint16_t *item, uint32_t n,
                        size_t *bytes)
{
    size_t all = 0, first = n ? ll_auto_value(v, item ? item[0] : 0).len : 0;
    bool same = true;
    for (uint32_t i = 0; i < n; i++) {
        size_t len = ll_auto_value(v, item ? item[i] : i).len;
        all += len;
        same = same && len == first;
    }
    unsigned width = same ? 0 : (bits_of(all) + 7) / 8;
    *bytes = all + (size_t)n * width;
    return width;
}

static void put_n(unsigned char *p, uint64_t v, unsigned width)
{
    for (unsigned i = 0; i < width; i++, v >>= 8)
        p[i] = (unsigned char)v;
}

static unsigned char *put_list(const struct ll_auto_values *v, const uint16_t *item, uint32_t n,
                               unsigned char *p)
{
    size_t bytes, end = 0;
    unsigned width = list_of(v, item, n, &bytes);
    unsigned char *head = v->out, *at = p + (size_t)n * width;
    for (uint32_t i = 0; i < n; i++) {
        struct lladd_span s = ll_auto_value(v, item ? item[i] : i);
        lladd_copy(at + end, s.data, s.len);
        end += s.len;
        put_n(p + (size_t)i * width, end, width);
    }
    head[3] = (unsigned char)width;
    lladd_put16(head + 6, (uint16_t)n);
    lladd_put32(head + 16, (uint32_t)(width || n == 0 ? end : end / n));
    return at + end;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* Returns the most frequent length from 1 to 8, or 0 if no value has such a length. *how_many: the
 * number of values with this length. */
static unsigned usual_width(const struct ll_auto_values *v, uint32_t *how_many)
{
    uint32_t count[9] = {0};
    unsigned best = 0;
    for (uint32_t i = 0; i < v->n; i++)
        count[ll_auto_value(v, i).len <= 8 ? ll_auto_value(v, i).len : 0]++;
    count[0] = 0;
    for (unsigned w = 1; w <= 8; w++)
        best = count[w] > count[best] ? w : best;
    *how_many = count[best];
    return best;
}

static uint64_t number_of(struct lladd_span s)
{
    return s.len == 8 ? lladd_get64(s.data) : lladd_get_few(s.data, s.len);
}

static void sort(uint64_t *s, uint32_t n)
{
    for (uint32_t begin = n / 2, end = n; end > 1;) {
        if (begin > 0) {
            begin--;
        } else {
            uint64_t top = s[0];
            s[0] = s[--end];
            s[end] = top;
        }
        for (uint32_t at = begin, child; (child = 2 * at + 1) < end; at = child) {
            child += child + 1 < end && s[child] < s[child + 1];
            if (s[at] >= s[child])
                break;
            uint64_t parent = s[at];
            s[at] = s[child];
            s[child] = parent;
        }
    }
}

/* Returns how many of the m sorted values, at most, can have codes of `bits` bits with one common
 * base. *base becomes such a base. */
static uint32_t most_within(const uint64_t *s, uint32_t m, unsigned bits, uint64_t *base)
{
    /* The greatest code is not for a number: it means an item. */
    uint64_t reach = bits ? (UINT64_C(1) << bits) - 2 : 0;
    uint32_t best = 0;
    for (uint32_t from = 0, to = 0; to < m; to++) {
        while (s[to] - s[from] > reach)
            from++;
        if (to - from + 1 > best) {
            best = to - from + 1;
            *base = s[from];
        }
    }
    return best;
}

/* Values of another length, or too far from the base, become items. */
static void plan_numbers(struct ll_auto_values *v, struct plan *best)
{
    uint32_t m, at = 0;
    unsigned width = usual_width(v, &m);
    if (width == 0)
        return;
    size_t others = v->len - (size_t)m * width;
    for (uint32_t i = 0; i < v->n; i++) {
        struct lladd_span s = ll_auto_value(v, i);
        if (s.len == width)
            v->sorted[at++] = v->number[i] = number_of(s);
    }
    sort(v->sorted, m);
    unsigned most = bits_of(v->sorted[m - 1] - v->sorted[0] + 1);
    for (unsigned bits = 1; bits <= most && bits <= LL_AUTO_BITS; bits++) {
        struct plan p = {LL_AUTO_NUMBERS, 0, bits, width, 0, 0};
        uint32_t within = most_within(v->sorted, m, bits, &p.base);
        p.items = v->n - within;
        size_t ends = p.items == v->n - m ? p.items * 2 : p.items * 3; /* approximately */
        p.bytes = (v->n * (size_t)bits + 7) / 8 + p.items * 2 + ends;
        p.bytes += others + (m - within) * width;
        if (p.bytes < best->bytes)
            *best = p;
    }
}

/* Extends the sign of a difference of `width` bytes. */
static int64_t signed_of(uint64_t d, unsigned width)
{
    unsigned shift = 64 - 8 * width;
    return (int64_t)(d << shift) >> shift;
}

static void plan_deltas(struct ll_auto_values *v, struct plan *best)
{
    uint32_t m;
    unsigned width = usual_width(v, &m);
    int64_t low = INT64_MAX, high = INT64_MIN;
    if (m != v->n || v->n < 2)
        return;
    for (uint32_t i = 0; i < v->n; i++)
        v->number[i] = number_of(ll_auto_value(v, i));
    for (uint32_t i = 1; i < v->n; i++) {
        int64_t d = signed_of(v->number[i] - v->number[i - 1], width);
        low = i % LL_AUTO_STRIDE && d < low ? d : low;
        high = i % LL_AUTO_STRIDE && d > high ? d : high;
    }
    struct plan p = {LL_AUTO_DELTAS, 0, bits_of((uint64_t)high - (uint64_t)low), width, 0,
                     (uint64_t)low};
    p.bytes = (v->n * (size_t)p.bits + 7) / 8 +
              (v->n + LL_AUTO_STRIDE - 1) / LL_AUTO_STRIDE * sizeof(uint64_t);
    if (p.bits <= LL_AUTO_BITS && p.bytes + p.bytes / 9 < best->bytes)
        *best = p;
}

/* ---- dictionary ------------------------------------------------------------------------------ */

/* Numbers the distinct values in the order in which they first occur. v->item[k] becomes the first
 * value that has number k, and v->code[i] the number of value i. Returns how many there are. */
static uint32_t distinct(struct ll_auto_values *v)
{
    static const struct lladd_dtable_order order = {LLADD_DTABLE_BYTES, NULL};
    enum { SLOTS = 2 * LL_AUTO_VALUES };
    uint32_t n = 0;
    memset(v->slot, 0xff, sizeof v->slot);
    for (uint32_t i = 0; i < v->n; i++) {
        struct lladd_span s = ll_auto_value(v, i);
        struct lladd_dtable_key key = {LLADD_DTABLE_BYTES, 0, s};
        uint32_t at = (uint32_t)lladd_dtable_hash(&order, &key) % SLOTS;
        for (; v->slot[at] != NONE; at = (at + 1) % SLOTS) {
            struct lladd_span other = ll_auto_value(v, v->item[v->slot[at]]);
            if (other.len == s.len && (s.len == 0 || memcmp(other.data, s.data, s.len) == 0))
                break;
        }
        if (v->slot[at] == NONE) {
            v->slot[at] = (uint16_t)n;
            v->item[n++] = (uint16_t)i;
        }
        v->code[i] = v->slot[at];
    }
    return n;
}

static void plan_words(struct ll_auto_values *v, unsigned allowed, struct plan *best)
{
    uint32_t n = distinct(v);
    size_t bytes;
    (void)list_of(v, v->item, n, &bytes);
    struct plan p = {LL_AUTO_CONSTANT, bytes, 0, 0, n, 0};
    if (n == 1 && allowed & 1u << LL_AUTO_CONSTANT && p.bytes < best->bytes)
        *best = p;
    p.form = LL_AUTO_DICTIONARY;
    p.bits = bits_of(n - 1);
    p.bytes = bytes + (v->n * (size_t)p.bits + 7) / 8;
    if (allowed & 1u << LL_AUTO_DICTIONARY && p.bytes < best->bytes)
        *best = p;
}

/* Makes the first value, and each value that differs from the value before it, an item. Returns the
 * number of items. */
static uint32_t find_runs(struct ll_auto_values *v)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < v->n; i++) {
        struct lladd_span s = ll_auto_value(v, i), last = ll_auto_value(v, i ? i - 1 : 0);
        if (i == 0 || s.len != last.len || (s.len && memcmp(s.data, last.data, s.len) != 0))
            v->item[n++] = (uint16_t)i;
    }
    return n;
}

static void plan_runs(struct ll_auto_values *v, struct plan *best)
{
    uint32_t n = find_runs(v);
    size_t bytes;
    (void)list_of(v, v->item, n, &bytes);
    struct plan p = {LL_AUTO_RUNS, bytes + 2 * (size_t)n, 0, 0, n, 0};
    if (p.bytes < best->bytes)
        *best = p;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Stores code i. The bits of its place must be 0, and eight bytes must be writable from its first
 * byte on. */
static void put_code(unsigned char *codes, uint32_t i, unsigned bits, uint64_t code)
{
    uint64_t at = (uint64_t)i * bits;
    unsigned char *p = codes + at / 8;
    lladd_put64(p, lladd_get64(p) | code << at % 8);
}

static unsigned char *write_numbers(struct ll_auto_values *v, const struct plan *p,
                                    unsigned char *codes)
{
    unsigned char *at = codes + (v->n * (size_t)p->bits + 7) / 8;
    uint64_t none = (UINT64_C(1) << p->bits) - 1;
    uint32_t items = 0;
    for (uint32_t i = 0; i < v->n; i++) {
        struct lladd_span s = ll_auto_value(v, i);
        uint64_t code = s.len == p->width ? number_of(s) - p->base : none;
        if (code >= none) {
            code = none;
            v->item[items++] = (uint16_t)i;
        }
        put_code(codes, i, p->bits, code);
    }
    for (uint32_t i = 0; i < items; i++, at += 2)
        lladd_put16(at, v->item[i]);
    return put_list(v, v->item, items, at);
}

static unsigned char *write_deltas(struct ll_auto_values *v, const struct plan *p,
                                   unsigned char *at)
{
    uint64_t mask = UINT64_MAX >> (64 - 8 * p->width);
    for (uint32_t i = 0; i < v->n; i += LL_AUTO_STRIDE, at += 8)
        lladd_put64(at, number_of(ll_auto_value(v, i)));
    for (uint32_t i = 1; i < v->n; i++) {
        uint64_t d = number_of(ll_auto_value(v, i)) - number_of(ll_auto_value(v, i - 1));
        if (i % LL_AUTO_STRIDE)
            put_code(at, i, p->bits, (uint64_t)signed_of(d & mask, p->width) - p->base);
    }
    return at + (v->n * (size_t)p->bits + 7) / 8;
}

static size_t write_segment(struct ll_auto_values *v, const struct plan *p)
{
    unsigned char *head = v->out, *at = head + LL_AUTO_HEAD;
    head[0] = (unsigned char)p->form;
    head[1] = (unsigned char)p->bits;
    head[2] = (unsigned char)p->width;
    lladd_put16(head + 4, (uint16_t)v->n);
    lladd_put64(head + 8, p->base);
    switch (p->form) {
    case LL_AUTO_NUMBERS:
        at = write_numbers(v, p, at);
        break;
    case LL_AUTO_DELTAS:
        at = write_deltas(v, p, at);
        break;
    case LL_AUTO_RUNS:
        (void)find_runs(v);
        for (uint32_t i = 0; i < p->items; i++, at += 2)
            lladd_put16(at, i + 1 < p->items ? v->item[i + 1] : (uint16_t)v->n);
        at = put_list(v, v->item, p->items, at);
        break;
    case LL_AUTO_CONSTANT:
    case LL_AUTO_DICTIONARY:
        (void)distinct(v);
        for (uint32_t i = 0; i < v->n && p->bits; i++)
            put_code(at, i, p->bits, v->code[i]);
        at = put_list(v, v->item, p->items, at + (v->n * (size_t)p->bits + 7) / 8);
        break;
    default:
        at = put_list(v, NULL, v->n, at);
    }
    return (size_t)(at - head);
}

int ll_auto_segment(struct lladd_db *db, struct ll_auto_values *v, unsigned allowed, size_t *len)
{
    struct plan best = {LL_AUTO_PLAIN, 0, 0, 0, v->n, 0};
    (void)list_of(v, NULL, v->n, &best.bytes);
    if (v->n > 1 && allowed & (1u << LL_AUTO_CONSTANT | 1u << LL_AUTO_DICTIONARY))
        plan_words(v, allowed, &best);
    if (v->n > 1 && best.form != LL_AUTO_CONSTANT) {
        if (allowed & 1u << LL_AUTO_NUMBERS)
            plan_numbers(v, &best);
        if (allowed & 1u << LL_AUTO_RUNS)
            plan_runs(v, &best);
        if (allowed & 1u << LL_AUTO_DELTAS)
            plan_deltas(v, &best);
    }
    /* Allocates more than the plan says: codes are stored eight bytes at a time, and a plan may be
     * a few bytes too small for each item. */
    size_t room = LL_AUTO_HEAD + v->len + 16 * (size_t)v->n + 64;
    if (room > v->out_cap) {
        unsigned char *out = lladd_mem_resize(db, v->out, room);
        if (!out)
            return LLADD_NO_MEMORY;
        v->out = out;
        v->out_cap = room;
    }
    memset(v->out, 0, room);
    *len = write_segment(v, &best);
    return 0;
}
