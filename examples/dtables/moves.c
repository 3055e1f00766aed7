/* SPDX-License-Identifier: BSD-2-Clause */
/* Moves of customers (Anvil, section 5.5): a log of pairs of time and customer, with a table for
 * each of these two columns. Moves come in waves, so most times differ little from the previous
 * time; between two waves the differences are large. */
#include "trial.h"

#include <lladd/bytes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    WAVE = 500,          /* moves before a pause */
    PAUSE = 200000,      /* average number of seconds of a pause */
    CUSTOMERS = 4000000, /* customer numbers are below this */
    CELL = 4             /* bytes of a value, little-endian */
};

static bool cell(const void *ctx, uint32_t number, struct lladd_span *out)
{
    *out = lladd_span_of((const unsigned char *)ctx + (size_t)number * CELL, CELL);
    return true;
}

static void fill(unsigned char *times, unsigned char *customers, uint32_t n)
{
    uint32_t now = 1000000000;
    for (uint32_t i = 0; i < n; i++) {
        now += (uint32_t)(i % WAVE == 0 ? drawn(i, 8) % (2 * PAUSE) : drawn(i, 8) % 30);
        lladd_put32(times + (size_t)i * CELL, now);
        lladd_put32(customers + (size_t)i * CELL, (uint32_t)(drawn(i, 9) % CUSTOMERS));
    }
}

#define SMALL \
    "\"base\" class(dt) smallint_dtable \"base_config\" config [ \"bytes\" int 2 " \
    "\"base\" class(dt) array_dtable \"base_config\" config [ \"value_size\" int 2 " \
    "\"tag_byte\" bool false ] ]"
#define FOUR "config [ \"value_size\" int 4 ]"
#define ARRAY "class(dt) array_dtable config [ \"value_size\" int 4 \"tag_byte\" bool false ]"
#define DELTA(below) "class(dt) deltaint_dtable config [ " below " ]"

#define FIGURE_9 \
    DELTA("\"base\" class(dt) exception_dtable \"base_config\" config [ " SMALL \
          " \"alt\" class(dt) fixed_dtable \"alt_config\" " FOUR \
          " \"reject_value\" blob ffff0000 ]")

static const struct configuration times_tried[] = {
    {"time: fixed", "class(dt) fixed_dtable " FOUR},
    {"time: array", ARRAY},
    {"time: differences in two bytes, array", DELTA(SMALL)},
    {"time: differences, exceptions apart (figure 9)", FIGURE_9},
    {"time: automatic", "class(dt) auto_dtable"},
};
static const struct configuration customer_tried[] = {
    {"customer: array", ARRAY},
    {"customer: automatic", "class(dt) auto_dtable"},
};

/* A configuration for tables with deleted rows: the arrays below have neither state bytes nor a
 * tombstone_value, and cannot store tombstones. So an exist_dtable is the layer above. */
#define DELETED(base) \
    "class(dt) exist_dtable config [ \"tombstones\" class(dt) linear_dtable \"base\" " base " ]"
#define ARRAY_OF_FOUR \
    "class(dt) array_dtable \"base_config\" config [ \"value_size\" int 4 \"tag_byte\" bool false ]"

static const struct configuration times_managed[] = {
    {"time: fixed", "class(dt) fixed_dtable " FOUR},
    {"time: array", DELETED(ARRAY_OF_FOUR)},
    {"time: differences in two bytes, array",
     DELETED("class(dt) deltaint_dtable \"base_config\" config [ " SMALL " ]")},
    {"time: differences, exceptions apart (figure 9)", FIGURE_9},
    {"time: automatic", "class(dt) auto_dtable"},
};
static const struct configuration customer_managed[] = {
    {"customer: array", DELETED(ARRAY_OF_FOUR)},
    {"customer: automatic", "class(dt) auto_dtable"},
};

/* Time and customer as columns of a cTable, as in the Anvil paper. */
static const struct store stores[] = {
    {"row store, linear", "class(dt) linear_dtable", NULL, {NULL}},
    {"row store, automatic", "class(dt) auto_dtable", NULL, {NULL}},
    {"column store, arrays", NULL, NULL, {ARRAY, ARRAY}},
    {"column store, time as in figure 9", NULL, NULL, {ARRAY, FIGURE_9}},
    {"column store, automatic", NULL, NULL, {"class(dt) auto_dtable", "class(dt) auto_dtable"}},
};

static int try_all(struct lladd_db *db, const struct rows *rows, const struct configuration *c,
                   size_t n,
                   int (*how)(struct lladd_db *, const struct rows *, const struct configuration *,
                              struct lladd_error *),
                   struct lladd_error *err)
{
    for (size_t i = 0; i < n; i++)
        TRY(how(db, rows, &c[i], err));
    return 0;
}

static int all_of(struct lladd_db *db, const struct rows *time_of, const struct rows *customer_of,
                  struct lladd_error *err)
{
    enum { TIMES = sizeof times_tried / sizeof *times_tried,
           CUSTOMER = sizeof customer_tried / sizeof *customer_tried };
    struct table table = {{customer_of, time_of}, {"customer", "time"}, 2};
    printf("moves, %llu of them\n", (unsigned long long)time_of->n);
    TRY(try_all(db, time_of, times_tried, TIMES, trial, err));
    TRY(try_all(db, customer_of, customer_tried, CUSTOMER, trial, err));
    printf("in managed tables\n");
    TRY(try_all(db, time_of, times_managed, TIMES, trial_managed, err));
    TRY(try_all(db, customer_of, customer_managed, CUSTOMER, trial_managed, err));
    printf("in cTables\n");
    for (size_t i = 0; i < sizeof stores / sizeof stores[0]; i++)
        TRY(trial_ctable(db, &table, &stores[i], err));
    return 0;
}

int moves(struct lladd_db *db, uint32_t keys, struct lladd_error *err)
{
    unsigned char *times = malloc((size_t)keys * CELL), *customers = malloc((size_t)keys * CELL);
    struct rows time_of = {.keys = keys, .n = keys, .ctx = times, .value = cell};
    struct rows customer_of = {.keys = keys, .n = keys, .ctx = customers, .value = cell};
    int rc = times && customers ? 0 : lladd_error_set(err, LLADD_NO_MEMORY, "out of memory");
    if (!rc) {
        fill(times, customers, keys);
        rc = all_of(db, &time_of, &customer_of, err);
    }
    free(times);
    free(customers);
    return rc;
}
