/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_CSV_H
#define TOOLS_CSV_H
/* Rows of comma-separated values, as RFC 4180 has them: fields may be in quotation marks, in which
 * a quotation mark is doubled, and commas and ends of lines are text. Lines end with LF or CR LF.
 * Knows no database. */
#include <lladd/types.h>

#include <stdbool.h>
#include <stdio.h>

struct csv {
    FILE *in;
    size_t field_max;     /* bytes; longer fields are refused */
    uint64_t line;        /* where the row begins, from 1 on */
    uint64_t next;        /* where what follows it begins */
    unsigned char *bytes; /* the row's fields, one behind the other */
    size_t len, size;
    size_t *end; /* where each ends */
    size_t n, cap;
    unsigned char *marked; /* which of them were in quotation marks */
    size_t cap_marked;
    const char *wrong; /* why CSV_WRONG */
};

enum csv_got { CSV_ROW = 0, CSV_END = 1, CSV_WRONG = 2 };

void csv_begin(struct csv *, FILE *in, size_t field_max);
/* CSV_ROW: at least one field; they live until the next call. After CSV_WRONG there is no going
 * on. */
enum csv_got csv_read(struct csv *);
struct lladd_span csv_field(const struct csv *, size_t i);
/* Was it in quotation marks? What tells a field of no bytes from none. */
bool csv_quoted(const struct csv *, size_t i);
void csv_free(struct csv *);

/* Writes a field, in quotation marks where it needs them. */
void csv_write(FILE *to, const void *bytes, size_t len);

#endif
