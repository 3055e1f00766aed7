/* SPDX-License-Identifier: BSD-2-Clause */
/* Rows, tried out as a dTable in one configuration after another: how much room they take, and how
 * long it takes to find one. */
#ifndef DTABLES_TRIAL_H
#define DTABLES_TRIAL_H
#include <lladd/ctable.h>

#define TRY(call) \
    do { \
        int rc_ = (call); \
        if (rc_) \
            return rc_; \
    } while (0)

/* Made anew whenever they are needed: the same each time. */
struct rows {
    uint64_t keys; /* there are rows for some of the keys below */
    uint64_t n;    /* so many */
    const void *ctx;
    /* The value of a key, 0 to keys - 1; false: there is no row. */
    bool (*value)(const void *ctx, uint32_t key, struct lladd_span *);
};

struct configuration {
    const char *about, *text;
};

/* Each prints a line. LLADD_REJECTED is no failure here: it is said which row was. */

/* As a run: built once. */
int trial(struct lladd_db *, const struct rows *, const struct configuration *,
          struct lladd_error *);
/* As what a managed table is made of: loaded in transactions, digested, combined. */
int trial_managed(struct lladd_db *, const struct rows *, const struct configuration *,
                  struct lladd_error *);

/* The same keys with several columns, each of them rows as above: a row is there if the first one
 * has it. */
enum { COLUMNS_MOST = 4 };
struct table {
    const struct rows *columns[COLUMNS_MOST];
    const char *names[COLUMNS_MOST];
    size_t n;
};
struct store {
    const char *about;
    const char *rows; /* configuration of a row store; NULL: a column store */
    const char *keys; /* of a column store: what knows which rows there are */
    const char *columns[COLUMNS_MOST];
};
/* As a cTable, whose last column is looked up, and then all of that column read. */
int trial_ctable(struct lladd_db *, const struct table *, const struct store *,
                 struct lladd_error *);

/* ---- what they share ------------------------------------------------------------------------- */

/* LLADD_BUG if the table has other values, or other keys. */
int look_up(const struct lladd_dtable *, const struct rows *, struct lladd_error *);
/* Microseconds a lookup, of keys from `from` on. */
int time_lookups(const struct lladd_dtable *, uint64_t from, uint64_t keys, double *out,
                 struct lladd_error *);
double seconds(void);
/* Of a transaction that has done all it should if rc is 0. */
int end(struct lladd_txn *, int rc, struct lladd_error *);
void print_line(const struct rows *, const char *about, uint64_t bytes, double there,
                double absent);
void print_refused(const char *about, uint32_t key);

/* A number that looks as if it were drawn, the same for the same two. */
uint64_t drawn(uint64_t what, uint64_t of);

int customers(struct lladd_db *, uint32_t keys, struct lladd_error *);
int moves(struct lladd_db *, uint32_t keys, struct lladd_error *);
#endif
