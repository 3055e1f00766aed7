/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_TOOLS_MADE_H
#define TESTS_TOOLS_MADE_H
/*
 * Databases for inspection tests, with pages and records of many kinds. Each run makes the same
 * bytes, including the uuid and all times.
 *
 *  MADE_CLEAN    closed; no transaction is in doubt
 *  MADE_CRASHED  killed: two open transactions, one prepared, some pages not written
 *  MADE_PREPARED closed with two prepared transactions
 *  MADE_PINNED   closed; a pin keeps the log
 *  MADE_LONG     closed; the log was truncated several times
 *  MADE_NEGATIVE closed with one prepared transaction; the format of its global id is negative
 */
#include <lladd/lladd.h>
#include <lladd/op.h>
#include <lladd/pages.h>

enum made_kind {
    MADE_CLEAN,
    MADE_CRASHED,
    MADE_PREPARED,
    MADE_PINNED,
    MADE_LONG,
    MADE_NEGATIVE,
    MADE_KINDS
};

extern const char *const made_names[MADE_KINDS];

/* What was made, and where. */
struct made {
    lladd_pageno bytes, slotted, freed, raw, bulk, heap, tree;
    lladd_lsn active, prepared, aborted; /* ids of transactions */
};

/* An application's operation with fields, and the extension that contains this operation, as a
 * plug-in exports the extension. */
extern const struct lladd_op made_tally;
extern const struct lladd_extension made_extension;

#define MADE_SEGMENT (1u << 14) /* bytes of each log segment */
/* Returns options that make and open one of these databases on a device; if the device is NULL, in
 * a directory. Registers the extension. Release the options with lladd_options_release. */
struct lladd_options made_options(struct lladd_device *);
/* Makes a database. Returns 0, or the error of the step that failed in *err. */
int made_make(const char *dir, struct lladd_device *, enum made_kind, struct made *,
              struct lladd_error *err);
/* Makes a database, as made_make does, but returns the open handle: the database is neither closed
 * nor killed. */
int made_open(const char *dir, struct lladd_device *, enum made_kind, struct made *,
              struct lladd_db **out, struct lladd_error *err);

#endif
