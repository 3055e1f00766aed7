/* SPDX-License-Identifier: BSD-2-Clause */
/* Stores rows in a dTable with one configuration after another, and measures the size of the table
 * and the time of a lookup. */
#ifndef DTABLES_TRIAL_H
#define DTABLES_TRIAL_H
#include <lladd/ctable.h>

#define TRY(call) \
    do { \
        int rc_ = (call); \
        if (rc_) \
            return rc_; \
    } while (0)

/* Rows to store. `value` generates a row whenever it is needed, always with the same result. */
struct rows {
    uint64_t keys; /* some of the keys below this have rows */
    uint64_t n;    /* number of rows */
    const void *ctx;
    /* The value of a key, 0 to keys - 1; false: the key has no row. */
    bool (*value)(const void *ctx, uint32_t key, struct lladd_span *);
};

struct configuration {
    const char *about, *text;
};

/* Each trial function prints its results; trial_ctable prints a second line. If a row is rejected
 * (LLADD_REJECTED), the function returns 0, and the line names the row. */

/* As a run: built once. */
int trial(struct lladd_db *, const struct rows *, const struct configuration *,
          struct lladd_error *);
/* As a managed table: loaded in transactions, digested, combined. */
int trial_managed(struct lladd_db *, const struct rows *, const struct configuration *,
                  struct lladd_error *);

/* A table with several columns. `columns` has the values of each column; a key has a row if the
 * first column has a value for it. */
enum { COLUMNS_MOST = 4 };
struct table {
    const struct rows *columns[COLUMNS_MOST];
    const char *names[COLUMNS_MOST];
    size_t n;
};
struct store {
    const char *about;
    const char *rows; /* configuration of a row store; NULL: a column store */
    const char *keys; /* for a column store: configuration of the layer that stores the keys */
    const char *columns[COLUMNS_MOST];
};
/* As a cTable: measures lookups of values of the last column, then a scan of that column. */
int trial_ctable(struct lladd_db *, const struct table *, const struct store *,
                 struct lladd_error *);

/* ---- shared functions ------------------------------------------------------------------------ */

/* Looks up pseudo-random keys, and compares with the rows. LLADD_BUG if a value differs, or a key
 * is found that has no row. */
int look_up(const struct lladd_dtable *, const struct rows *, struct lladd_error *);
/* Looks up pseudo-random keys from `from` to `from + keys - 1`, present or not. *out: microseconds
 * per lookup. */
int time_lookups(const struct lladd_dtable *, uint64_t from, uint64_t keys, double *out,
                 struct lladd_error *);
double seconds(void);
/* Ends a transaction: commits if rc is 0, otherwise aborts. */
int end(struct lladd_txn *, int rc, struct lladd_error *);
void print_line(const struct rows *, const char *about, uint64_t bytes, double there,
                double absent);
void print_refused(const char *about, uint32_t key);

/* A pseudo-random number, a function of both arguments. */
uint64_t drawn(uint64_t what, uint64_t of);

int customers(struct lladd_db *, uint32_t keys, struct lladd_error *);
int moves(struct lladd_db *, uint32_t keys, struct lladd_error *);
#endif
