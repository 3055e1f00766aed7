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
    const char *text; /**< points into `bytes` of the file */
    size_t len;
    const char *field; /**< value of its first field: "adduser" of "Package: adduser" */
    size_t field_len;
    size_t nth, same; /**< its number, from 0, among the `same` stanzas with this value */
};

struct stanzas {
    char *bytes;
    size_t size;
    struct stanza *list;
    size_t *by_field; /**< numbers of stanzas, in the order of their fields, then of the file */
    size_t count;
};

/** Reads the file. On failure false, and a line for the user in `why`. */
bool stanzas_read(struct stanzas *, const char *path, char *why, size_t why_size);
void stanzas_free(struct stanzas *);
/** The stanza of a transaction: the file's stanzas, repeated. */
struct stanza stanzas_of(const struct stanzas *, uint64_t sequence);
/** Its unique key: the first field, a blank, and the number of earlier stanzas with the same field.
 *  Returns its length. */
size_t stanzas_key(const struct stanzas *, uint64_t sequence, char key[STANZA_KEY_MAX]);
/** Finds the transaction with this key; false: there is none. */
bool stanzas_find(const struct stanzas *, const char *key, size_t len, uint64_t *sequence);
/** Text bytes of transactions 0 to n - 1. */
double stanzas_bytes(const struct stanzas *, uint64_t n);
#endif
