/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_CTABLE_CTABLE_H
#define LL_OPERATIONS_CTABLE_CTABLE_H
/* cTables: the internal interface; table.c has an overview. Only table.c uses the internals of
 * managed tables. */
#include "operations/shared/try.h"

#include <lladd/bytes.h>
#include <lladd/ctable.h>

struct lladd_ctable {
    struct lladd_db *db;
    struct lladd_managed *below;
    char *name;
    uint32_t n;
    const char **columns; /* names of the columns */
};

/* Makes the configuration of a column store, as text that the caller frees. The column names have
 * been checked. */
int ll_ctable__store(struct lladd_db *, const struct lladd_ctable_options *, char **out,
                     struct lladd_error *);
struct lladd_ctable_cursor {
    struct lladd_ctable *t;
    const struct lladd_dtable *table;
    struct lladd_dtable_cursor *rows;
    struct lladd_ctable_row row;
    uint32_t columns[]; /* the columns to be read */
};

int ll_ctable__no_memory(struct lladd_error *);
/* Returns LLADD_NOT_FOUND unless all are columns of the table. */
int ll_ctable__check(const struct lladd_ctable *, const uint32_t *columns, size_t n,
                     struct lladd_error *);
/* Prepares a row for n columns. What it held before is no longer valid. */
int ll_ctable__room(struct lladd_db *, size_t n, struct lladd_ctable_row *, struct lladd_error *);

#endif
