/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_DUMP_TEXT_H
#define TOOLS_DUMP_TEXT_H
/* The text that `lladd dump` writes and `lladd load` reads: docs/dump-format.md. Knows no
 * database. */
#include <lladd/error.h>
#include <lladd/pages.h>

#include <stdio.h>

#define DUMP_VERSION 1u

/* What the first line of a structure says. */
struct dump_head {
    const char *kind;                   /* "array", "hash", "list", "blob" */
    char name[LLADD_ROOT_NAME_MAX + 1]; /* of the root */
    uint64_t element_size;              /* of an array */
    uint64_t key_size, value_size;      /* of a hash table; 0: any */
    uint64_t count;                     /* elements, items, or bytes of a blob */
};

/* ---- writing -------------------------------------------------------------------------------- */

/* What could not be written stdio remembers: ferror(to). */
struct dump_out {
    FILE *to;
    uint32_t crc;
    uint64_t count, structures;
    uint64_t zeros; /* elements or bytes that are zero, not yet written */
};
void dump_begin(struct dump_out *, FILE *to);
void dump_head(struct dump_out *, const struct dump_head *);
/* An element of an array. */
void dump_element(struct dump_out *, const void *bytes, size_t len);
void dump_pair(struct dump_out *, struct lladd_span key, struct lladd_span value);
/* An item of a list. */
void dump_item(struct dump_out *, struct lladd_span);
/* The next bytes of a blob. */
void dump_piece(struct dump_out *, struct lladd_span);
void dump_tail(struct dump_out *);
void dump_end(struct dump_out *);
/* A string in quotes, bytes that are not printable as \xHH. */
void dump_quoted(FILE *to, const void *bytes, size_t len);

/* ---- reading -------------------------------------------------------------------------------- */

/* What is read, as it is read. Spans live until the call returns. Not 0 stops; what the call has
 * put into *err is told with the line's number. Nothing is to be believed before `done`. */
struct dump_reader {
    void *ctx;
    int (*head)(void *ctx, const struct dump_head *, struct lladd_error *);
    /* One element, item, piece of a blob, or (hash) key and value. */
    int (*record)(void *ctx, struct lladd_span, struct lladd_span value, struct lladd_error *);
    /* n elements, or bytes of a blob, of zeros. */
    int (*zeros)(void *ctx, uint64_t n, struct lladd_error *);
    /* The structure is complete: as many as the head said, and the checksum is right. */
    int (*tail)(void *ctx, struct lladd_error *);
    int (*done)(void *ctx, struct lladd_error *);
};
/* 0, what a callback returned, LLADD_BAD_ARGUMENT with the line and what was expected there
 * (or why the file cannot be read), LLADD_NO_MEMORY. */
int dump_read(FILE *from, const struct dump_reader *, struct lladd_error *);

#endif
