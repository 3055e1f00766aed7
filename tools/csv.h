/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_CSV_H
#define TOOLS_CSV_H
/* Reads and writes rows of comma-separated values as in RFC 4180. A field may be in quotation
 * marks: inside these, a quotation mark is doubled, and commas and line ends are text. Lines end
 * with LF or CR LF. */
#include <lladd/types.h>

#include <stdbool.h>
#include <stdio.h>

struct csv {
    FILE *in;
    size_t field_max;     /* most bytes of a field; longer fields are refused */
    uint64_t line;        /* number of the row's first line, from 1 */
    uint64_t next;        /* number of the first line after the row */
    unsigned char *bytes; /* the row's fields, concatenated */
    size_t len, size;
    size_t *end; /* end offset of each field */
    size_t n, cap;
    unsigned char *marked; /* for each field: 1 if it was in quotation marks */
    size_t cap_marked;
    const char *wrong; /* reason of CSV_WRONG */
};

enum csv_got { CSV_ROW = 0, CSV_END = 1, CSV_WRONG = 2 };

void csv_begin(struct csv *, FILE *in, size_t field_max);
/* Reads a row. After CSV_ROW the row has at least one field; the fields are valid until the next
 * call. After CSV_WRONG nothing more can be read. */
enum csv_got csv_read(struct csv *);
struct lladd_span csv_field(const struct csv *, size_t i);
/* Was the field in quotation marks? This distinguishes an empty value from no value. */
bool csv_quoted(const struct csv *, size_t i);
void csv_free(struct csv *);

/* Writes a field, in quotation marks if necessary. */
void csv_write(FILE *to, const void *bytes, size_t len);

#endif
