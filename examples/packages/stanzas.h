/* SPDX-License-Identifier: BSD-2-Clause */
/* A text file of stanzas that are separated by blank lines, and their keys. */
#ifndef PACKAGES_STANZAS_H
#define PACKAGES_STANZAS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STANZA_FIELD_MAX 200u
#define STANZA_KEY_MAX (STANZA_FIELD_MAX + 24u)

struct stanza {
    const char *text; /**< points into stanzas.bytes */
    size_t len;
    const char *field; /**< value of the stanza's first field: "adduser" of "Package: adduser" */
    size_t field_len;
    size_t nth, same; /**< number of the stanza, from 0, among the `same` stanzas with this value */
};

struct stanzas {
    char *bytes;
    size_t size;
    struct stanza *list;
    size_t *by_field; /**< indexes of stanzas, sorted by field; equal fields in the order of the
                           file */
    size_t count;
};

/** Reads the file. After an error returns false, with a line for the user in `why`. */
bool stanzas_read(struct stanzas *, const char *path, char *why, size_t why_size);
void stanzas_free(struct stanzas *);
/** The stanza of a transaction. The stanzas of the file are used repeatedly. */
struct stanza stanzas_of(const struct stanzas *, uint64_t sequence);
/** The unique key of a transaction's stanza: the first field, a blank, and the number of earlier
 *  transactions with an equal first field. Returns the length of the key. */
size_t stanzas_key(const struct stanzas *, uint64_t sequence, char key[STANZA_KEY_MAX]);
/** Finds the transaction with this key; false: no transaction has the key. */
bool stanzas_find(const struct stanzas *, const char *key, size_t len, uint64_t *sequence);
/** Text bytes of transactions 0 to n - 1. */
double stanzas_bytes(const struct stanzas *, uint64_t n);
#endif
