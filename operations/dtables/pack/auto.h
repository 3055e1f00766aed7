/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_DTABLE_PACK_AUTO_H
#define LL_OPERATIONS_DTABLE_PACK_AUTO_H
/* Segments of an auto_dtable: up to 1024 values in one of several forms. segment.c chooses the form
 * and writes, auto.c reads.
 *
 *     0    u8   form
 *     1    u8   b: bits of a code
 *     2    u8   w: bytes of a number
 *     3    u8   e: bytes of an item's end; 0: all items have the same length
 *     4    u16  values
 *     6    u16  items
 *     8    u64  base
 *     16   u32  e is 0: bytes of an item; otherwise bytes of all items
 *     20   u32  0
 *     24        the form's own data (see below); the items' ends, e bytes each; the items
 *
 *     constant    no data; every value is item 0
 *     runs        for each item a u16: the number of the first value after the item's run. Value i
 *                 is the first item with a u16 above i
 *     numbers     codes; for each item, the u16 number of its value, ascending. A value is base
 *                 plus its code, as w bytes, little-endian. If all b bits of the code are 1, the
 *                 value is an item
 *     deltas      every 32nd value, from value 0 on, as u64; then a code for each value. Base plus
 *                 a value's code is the value minus the value before it, modulo 2^(8 w). The codes
 *                 of every 32nd value are 0 and unused
 *     dictionary  codes; code i is the number of the item that is value i
 *     plain       no data; value i is item i
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
    LL_AUTO_VALUES = 1024, /* most values of a segment */
    LL_AUTO_STRIDE = 32,
    LL_AUTO_BITS = 56 /* most bits of a code: eight bytes have room for it at any bit offset */
};

/* The collected values, and memory to analyse them. */
struct ll_auto_values {
    uint32_t n;
    size_t end[LL_AUTO_VALUES]; /* where value i ends in `bytes` */
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
/* Writes all values, at least one, as a segment into v->out. The form is plain or one of the forms
 * in `allowed`, a set of bits 1u << form. *len: the segment's length. 0 or LLADD_NO_MEMORY. */
int ll_auto_segment(struct lladd_db *, struct ll_auto_values *v, unsigned allowed, size_t *len);

#endif
