/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_CTABLE_CTABLE_H
#define LL_OPERATIONS_CTABLE_CTABLE_H
/* cTables, the inside: see table.c, which alone knows what is inside a managed table. */
#include <lladd/bytes.h>
#include <lladd/ctable.h>

struct lladd_ctable {
    struct lladd_db *db;
    struct lladd_managed *below;
    char *name;
    uint32_t n;
    const char **columns; /* their names */
};

/* The configuration of a column store, complete, to be freed. The names have been checked. */
int ll_ctable__store(struct lladd_db *, const struct lladd_ctable_options *, char **out,
                     struct lladd_error *);
struct lladd_ctable_cursor {
    struct lladd_ctable *t;
    const struct lladd_dtable *table;
    struct lladd_dtable_cursor *rows;
    struct lladd_ctable_row row;
    uint32_t columns[]; /* that are wanted */
};

int ll_ctable__no_memory(struct lladd_error *);
/* Are they columns of the table? LLADD_NOT_FOUND. */
int ll_ctable__check(const struct lladd_ctable *, const uint32_t *columns, size_t n,
                     struct lladd_error *);
/* Room for so many columns. What is there lets go what it held. */
int ll_ctable__room(struct lladd_db *, size_t n, struct lladd_ctable_row *, struct lladd_error *);

#endif
