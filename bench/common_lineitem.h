/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef BENCH_COMMON_LINEITEM_H
#define BENCH_COMMON_LINEITEM_H
/* The table `lineitem` of TPC-H, generated row by row from the benchmark's public specification
 * (sections 1.4 and 4.2): keys, quantities and dates as specified, prices calculated from part and
 * quantity, and comments cut out of a text that follows the specification's grammar. The random
 * numbers are not those of TPC-H's own program, so the rows differ from its rows, but have the same
 * distributions. A seed and a scale always give the same rows. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum lineitem_column {
    L_ORDERKEY,
    L_PARTKEY,
    L_SUPPKEY,
    L_LINENUMBER,
    L_QUANTITY,
    L_EXTENDEDPRICE, /* hundredths */
    L_DISCOUNT,      /* hundredths */
    L_TAX,           /* hundredths */
    L_SHIPDATE,      /* days since 1970 */
    L_COMMITDATE,    /* days since 1970 */
    L_RECEIPTDATE,   /* days since 1970 */
    L_RETURNFLAG,    /* texts from here on */
    L_LINESTATUS,
    L_SHIPINSTRUCT,
    L_SHIPMODE,
    L_COMMENT,
    LINEITEM_COLUMNS,
    LINEITEM_NUMBERS = L_RETURNFLAG
};

struct lineitem_text {
    const char *bytes;
    size_t len;
};

struct lineitem_row {
    uint32_t number[LINEITEM_NUMBERS];
    struct lineitem_text text[LINEITEM_COLUMNS - LINEITEM_NUMBERS]; /* valid until lineitem_free */
};

struct lineitem;

/* Scale 1 has 1.5 million orders, of one to seven rows each. NULL: no memory, or an invalid scale
 * (valid: 0.00001 to 100). */
struct lineitem *lineitem_new(double scale, uint64_t seed);
void lineitem_free(struct lineitem *);
/* Makes the next row; false if there are no more. */
bool lineitem_next(struct lineitem *, struct lineitem_row *);
/* "l_orderkey" and so on. */
const char *lineitem_name(enum lineitem_column);
/* Prints a column, dates as 1996-03-13, money as 12.30; returns its length. `out` has room for 64
 * bytes. */
size_t lineitem_print(const struct lineitem_row *, enum lineitem_column, char *out);

#endif
