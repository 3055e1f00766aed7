/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_DUMP_TEXT_H
#define TOOLS_DUMP_TEXT_H
/* The text that `lladd dump` writes and `lladd load` reads (docs/dump-format.md). These functions
 * use no database. */
#include <lladd/error.h>
#include <lladd/pages.h>

#include <stdio.h>

#define DUMP_VERSION 1u

/* The contents of a structure's first line. */
struct dump_head {
    const char *kind;                   /* "array", "hash", "btree", "list", "blob" */
    char name[LLADD_ROOT_NAME_MAX + 1]; /* name of the root */
    uint64_t element_size;              /* of an array */
    uint64_t key_size, value_size;      /* fixed lengths in a hash table or B+tree; 0: any */
    uint64_t count;                     /* number of elements or items, or bytes of a blob */
};

/* ---- writing -------------------------------------------------------------------------------- */

/* Has the structure pairs of a key and a value? */
bool dump_has_pairs(const char *kind);

/* A dump that is being written. The stream `to` remembers a write error: check ferror(to). */
struct dump_out {
    FILE *to;
    uint32_t crc;
    uint64_t count, structures;
    uint64_t zeros; /* number of zero elements or bytes that have not been written yet */
};
void dump_begin(struct dump_out *, FILE *to);
void dump_head(struct dump_out *, const struct dump_head *);
/* Writes an element of an array. */
void dump_element(struct dump_out *, const void *bytes, size_t len);
void dump_pair(struct dump_out *, struct lladd_span key, struct lladd_span value);
/* Writes an item of a list. */
void dump_item(struct dump_out *, struct lladd_span);
/* Writes the next bytes of a blob. */
void dump_piece(struct dump_out *, struct lladd_span);
void dump_tail(struct dump_out *);
void dump_end(struct dump_out *);
/* Writes a string in quotation marks; bytes that are not printable become \xHH. */
void dump_quoted(FILE *to, const void *bytes, size_t len);

/* ---- reading -------------------------------------------------------------------------------- */

/* Callbacks for the parts of a dump, called in the order of the file. Spans are valid until the
 * callback returns. If a callback does not return 0, dump_read stops and returns that value, with
 * the line number in *err. A structure's count and checksum are verified before `tail`. */
struct dump_reader {
    void *ctx;
    int (*head)(void *ctx, const struct dump_head *, struct lladd_error *);
    /* An element, an item or a piece of a blob; for a hash table or B+tree a key and its value. */
    int (*record)(void *ctx, struct lladd_span, struct lladd_span value, struct lladd_error *);
    /* n zero elements, or n zero bytes of a blob. */
    int (*zeros)(void *ctx, uint64_t n, struct lladd_error *);
    /* Called when the structure is complete, and its count and checksum are right. */
    int (*tail)(void *ctx, struct lladd_error *);
    int (*done)(void *ctx, struct lladd_error *);
};
/* Reads a dump. Returns 0, the result of a callback, LLADD_NO_MEMORY or LLADD_BAD_ARGUMENT. The
 * message of LLADD_BAD_ARGUMENT has the line and the text that was expected there, or says why the
 * file cannot be read. */
int dump_read(FILE *from, const struct dump_reader *, struct lladd_error *);

#endif
