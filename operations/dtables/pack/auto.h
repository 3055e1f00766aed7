/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_DTABLE_PACK_AUTO_H
#define LL_OPERATIONS_DTABLE_PACK_AUTO_H
/* Segments of an auto_dtable: up to a thousand values, in the shortest of several forms. segment.c
 * chooses the form and writes, auto.c reads.
 *
 *     0    u8   form
 *     1    u8   b: bits of a code
 *     2    u8   w: bytes of a number
 *     3    u8   e: bytes of an item's end; 0: all items have the same length
 *     4    u16  values
 *     6    u16  items
 *     8    u64  base
 *     16   u32  bytes of an item if e is 0, else of all of them
 *     20   u32  0
 *     24        the form's own data; the items' ends, e bytes each; the items
 *
 *     constant    every value is item 0
 *     runs        u16 each: the number of the value after the last one of item i; a value is the
 *                 first item that has not ended before it
 *     numbers     codes; u16 each: which values are items instead, ascending. Values are base plus
 *                 the code, w bytes, little-endian; the code with all b bits set: it is an item
 *     deltas      u64 each: values 0, 32, 64 ...; codes: base plus the code is the difference to
 *                 the value before it, modulo 2^(8 w); of values 0, 32, 64 ... 0
 *     dictionary  codes, which are numbers of items
 *     plain       value i is item i
 *
 * Codes of b bits are stored without gaps, the lowest bits first, and padded to a whole byte. */
#include "operations/dtables/class/classes.h"

enum ll_auto_form {
    LL_AUTO_CONSTANT = 0,
    LL_AUTO_RUNS = 1,
    LL_AUTO_NUMBERS = 2,
    LL_AUTO_DELTAS = 3,
    LL_AUTO_DICTIONARY = 4,
    LL_AUTO_PLAIN = 5,
    LL_AUTO_FORMS = 6
};
enum {
    LL_AUTO_HEAD = 24,
    LL_AUTO_VALUES = 1024, /* in a segment */
    LL_AUTO_STRIDE = 32,
    LL_AUTO_BITS = 56 /* of a code, at most: eight bytes contain it wherever it begins */
};

/* The collected values, and memory to analyse them. */
struct ll_auto_values {
    uint32_t n;
    size_t end[LL_AUTO_VALUES]; /* of value i, as an offset in bytes */
    unsigned char *bytes;
    size_t len, cap;
    uint64_t number[LL_AUTO_VALUES], sorted[LL_AUTO_VALUES];
    uint16_t item[LL_AUTO_VALUES], code[LL_AUTO_VALUES], slot[2 * LL_AUTO_VALUES];
    unsigned char *out; /* the segment */
    size_t out_cap;
};
static inline struct lladd_span ll_auto_value(const struct ll_auto_values *v, uint32_t i)
{
    size_t from = i ? v->end[i - 1] : 0;
    return lladd_span_of(v->bytes + from, v->end[i] - from);
}
/* Writes all values, at least one, as a segment into v->out. The form is plain or one of those in
 * `allowed` (1u << form, or'ed). *len: the segment's length. LLADD_NO_MEMORY. */
int ll_auto_segment(struct lladd_db *, struct ll_auto_values *v, unsigned allowed, size_t *len);

#endif
