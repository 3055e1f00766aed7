/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads the bytes of messages from PostgreSQL: "Logical Replication Message Formats" in its
 * documentation. */
#ifndef PGOUTPUT_H
#define PGOUTPUT_H
#include "postgres.h"

/* What is left of a message. A read beyond its end gives 0 and sets `cut`. */
struct reader {
    const char *at;
    size_t left;
    bool cut;
};

uint64_t read_number(struct reader *, unsigned bytes); /* big-endian */
const char *read_text(struct reader *); /* up to a zero byte; "" if there is none */

/* A field of a row that was changed; `same`: it is stored elsewhere, has not changed, and was not
 * sent. */
struct sent {
    struct field field;
    bool same;
};
/* Reads a row of n fields; false if it is cut off, or has another number of fields. */
bool read_row(struct reader *, struct sent *, unsigned n);

/* Is a relation message about this table as the catalogue has it? The reader is after the OID. */
bool same_relation(struct reader *, const struct table *);

#endif
