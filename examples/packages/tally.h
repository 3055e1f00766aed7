/* SPDX-License-Identifier: BSD-2-Clause */
/* packages.tally: a custom page type, and packages.count, the operation that adds to such a
 * page. */
#ifndef PACKAGES_TALLY_H
#define PACKAGES_TALLY_H
#include <lladd/lladd.h>
#include <lladd/pages.h>

#define TALLY_TYPE "packages.tally"
/** Cells of the page: one for each letter, and one for everything else. */
#define TALLY_CELLS 27u

/** The tally of one letter. */
struct tally {
    int64_t stanzas, bytes;
};

/** The arguments of packages.count. */
struct tally_count {
    uint32_t cell;
    struct tally add;
};

/** Registers the page type and the operation; before lladd_open, because recovery may need them. */
int tally_register(struct lladd_options *, struct lladd_error *);
/** The id of "packages.count" on this handle. */
int tally_lookup(struct lladd_db *, lladd_op_id *count, struct lladd_error *);
/** The number of the cell for a text, by its first letter. */
uint32_t tally_cell(const char *text, size_t len);
/** Reads the whole page. */
int tally_read(struct lladd_db *, lladd_pageno, struct tally out[TALLY_CELLS],
               struct lladd_error *);
#endif
