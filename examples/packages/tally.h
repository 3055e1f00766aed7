/* SPDX-License-Identifier: BSD-2-Clause */
/* packages.tally: a page type of our own, and the operation that counts on it. */
#ifndef PACKAGES_TALLY_H
#define PACKAGES_TALLY_H
#include <lladd/lladd.h>
#include <lladd/pages.h>

#define TALLY_TYPE "packages.tally"
/** Cells of the page: one for each letter, and one for everything else. */
#define TALLY_CELLS 27u

/** What there is of one letter. */
struct tally {
    int64_t stanzas, bytes;
};

/** What a caller of packages.count says. */
struct tally_count {
    uint32_t cell;
    struct tally add;
};

/** Makes page type and operation known; before lladd_open, which may need them to recover. */
int tally_register(struct lladd_options *, struct lladd_error *);
/** The id of "packages.count" on this handle. */
int tally_lookup(struct lladd_db *, lladd_op_id *count, struct lladd_error *);
/** Whose cell is a text that begins like this? */
uint32_t tally_cell(const char *text, size_t len);
/** Reads the whole page. */
int tally_read(struct lladd_db *, lladd_pageno, struct tally out[TALLY_CELLS],
               struct lladd_error *);
#endif
