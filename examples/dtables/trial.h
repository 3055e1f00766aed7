/* SPDX-License-Identifier: BSD-2-Clause */
/* Rows, tried out as a dTable in one configuration after another: how much room they take, and how
 * long it takes to find one. */
#ifndef DTABLES_TRIAL_H
#define DTABLES_TRIAL_H
#include <lladd/dtable.h>

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

/* Prints a line. LLADD_REJECTED is no failure here: it is said which row was. */
int trial(struct lladd_db *, const struct rows *, const struct configuration *,
          struct lladd_error *);

/* A number that looks as if it were drawn, the same for the same two. */
uint64_t drawn(uint64_t what, uint64_t of);

int customers(struct lladd_db *, uint32_t keys, struct lladd_error *);
int moves(struct lladd_db *, uint32_t keys, struct lladd_error *);
#endif
