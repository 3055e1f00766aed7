/* SPDX-License-Identifier: BSD-2-Clause */
/* A text file of stanzas that are separated by blank lines, and what is to become of each. */
#ifndef PACKAGES_STANZAS_H
#define PACKAGES_STANZAS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stanza {
    const char *text; /**< in `bytes` of the file */
    size_t len;
};

struct stanzas {
    char *bytes;
    size_t size;
    struct stanza *list;
    size_t count;
};

/** Reads the file. On failure false, and a line for the user in `why`. */
bool stanzas_read(struct stanzas *, const char *path, char *why, size_t why_size);
void stanzas_free(struct stanzas *);
/** The stanza of a transaction: the file again and again. */
struct stanza stanzas_of(const struct stanzas *, uint64_t sequence);
/** Text bytes of transactions 0 to n - 1. */
double stanzas_bytes(const struct stanzas *, uint64_t n);
#endif
