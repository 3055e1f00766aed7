/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_DTABLES_MULTICOLUMN_READ_H
#define LL_OPERATIONS_DTABLES_MULTICOLUMN_READ_H
/* The reader's callbacks of the class (see <lladd/dtable_class.h>), and what its files share. */
#include "operations/dtables/multicolumn/build.h"

/* Where the numbers of a row come from. */
struct ll_source {
    const struct ll_multicolumn_reader *r;
    struct ll_page p;
    struct ll_groups *groups; /* of a cursor; NULL: each number is read alone */
};
uint64_t ll_multicolumn__number(const struct ll_source *, uint32_t column, uint32_t row);
/* Assembles the value of a row that is no tombstone. The pin keeps it in memory. */
int ll_multicolumn__value(const struct ll_source *, uint32_t row, struct lladd_dtable_pin *,
                          struct lladd_dtable_value *, struct lladd_error *);
/* Reads columns of a packed row; with no columns, the state of any row. */
int ll_multicolumn__columns(const struct ll_source *, uint32_t row,
                            const struct lladd_dtable_columns *, enum lladd_dtable_state *,
                            struct lladd_error *);
/* Copies the values of at most LL_GROUP rows, if they are not packed rows; tombstones get any. */
void ll_multicolumn__values(const struct ll_multicolumn_reader *, const struct ll_page *,
                            uint32_t from, uint32_t n, unsigned char *out);
/* Pins the page with a place. */
int ll_multicolumn__hold(const struct ll_multicolumn_reader *, uint64_t place,
                         struct lladd_dtable_pin *, uint64_t *page, struct ll_page *,
                         uint32_t *row, struct lladd_error *);

int ll_multicolumn__find(const struct lladd_dtable *, const struct lladd_dtable_key *,
                         struct lladd_dtable_pin *, uint64_t *place, bool *exact,
                         struct lladd_error *);
int ll_multicolumn__at(const struct lladd_dtable *, uint64_t place, struct lladd_dtable_pin *,
                       struct lladd_dtable_key *, struct lladd_dtable_value *,
                       struct lladd_error *);
int ll_multicolumn__lookup(const struct lladd_dtable *, const struct lladd_dtable_key *,
                           struct lladd_dtable_pin *, struct lladd_dtable_value *,
                           struct lladd_error *);
int ll_multicolumn__columns_at(const struct lladd_dtable *, uint64_t place,
                               const struct lladd_dtable_columns *, enum lladd_dtable_state *,
                               struct lladd_error *);
int ll_multicolumn__lookup_columns(const struct lladd_dtable *, const struct lladd_dtable_key *,
                                   const struct lladd_dtable_columns *, enum lladd_dtable_state *,
                                   struct lladd_error *);
int ll_multicolumn__copy(const struct lladd_dtable *, uint64_t place, size_t n,
                         unsigned char *out, size_t room, size_t *width, size_t *got,
                         struct lladd_error *);
int ll_multicolumn__copy_column(const struct lladd_dtable *, uint32_t column, uint64_t place,
                                size_t n, unsigned char *out, size_t room, size_t *width,
                                size_t *got, struct lladd_error *);

/* ---- cursors: cursor.c ----------------------------------------------------------------------- */

/* A group of rows: numbers of columns; and whole keys and values, if they are bytes of one
 * length. */
struct ll_groups {
    unsigned char *memory; /* one allocation for all of this; NULL: no group is decoded */
    unsigned char **numbers, *keys, *values;
    uint32_t *group; /* for each column: the group that is decoded, plus 1; 0: none. After them that
                      * of the keys and that of the values */
};

struct ll_multicolumn_cursor {
    struct ll_source at; /* the page */
    struct lladd_dtable_pin pin;
    struct ll_groups groups;
    const unsigned char *tombstones;
    uint64_t page;
    uint32_t row, rows; /* the row in the page; rows of the page */
    struct lladd_dtable_key key;
    unsigned char room[LL_KEY_MAX]; /* bytes of the key */
};
void ll_multicolumn__cursor_close(const struct lladd_dtable *, void *cursor);
int ll_multicolumn__cursor_seek(const struct lladd_dtable *, void *cursor, enum lladd_dtable_where,
                                const struct lladd_dtable_key *, struct lladd_error *);
int ll_multicolumn__cursor_step(const struct lladd_dtable *, void *cursor, bool forward,
                                struct lladd_error *);
int ll_multicolumn__cursor_row(const struct lladd_dtable *, void *cursor,
                               struct lladd_dtable_key *, struct lladd_dtable_value *,
                               struct lladd_error *);
int ll_multicolumn__cursor_columns(const struct lladd_dtable *, void *cursor,
                                   const struct lladd_dtable_columns *, enum lladd_dtable_state *,
                                   struct lladd_error *);

#endif
