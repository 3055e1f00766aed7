/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_DTABLE_COMPOSE_H
#define TESTS_DTABLE_COMPOSE_H
/* Compositions of dTables, one after the other, as configurations: a table of templates in whose
 * holes (%) stand smaller ones. What cannot be is in there, too: parsing has to refuse it. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { COMPOSE_MAX = 8192 };

struct composer {
    unsigned depth;
    uint64_t at, n;
};
/* All of exactly this depth: 1 is a table of its own, 2 one layer above one. */
void compose_begin(struct composer *, unsigned depth);
bool compose_next(struct composer *, char text[COMPOSE_MAX]);

#endif
