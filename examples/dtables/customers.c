/* SPDX-License-Identifier: BSD-2-Clause */
/* Customers by state (Anvil, section 5.5). Customer numbers are mostly consecutive. Nearly all
 * values are the two letters of a state of the USA; some are the name of another country. */
#include "trial.h"

#include <stdio.h>
#include <string.h>

static const char states[][3] = {"CA", "TX", "FL", "NY", "PA", "IL", "OH", "GA", "NC", "MI",
                                 "NJ", "VA", "WA", "AZ", "MA", "TN", "IN", "MO", "MD", "WI",
                                 "CO", "MN", "SC", "AL", "LA", "KY", "OR", "OK", "CT", "UT",
                                 "IA", "NV", "AR", "MS", "KS", "NM", "NE", "ID", "WV", "HI",
                                 "NH", "ME", "MT", "RI", "DE", "SD", "ND", "AK", "DC", "VT",
                                 "WY", "PR"};
static const char *const countries[] = {"Canada", "Mexico", "Germany", "United Kingdom",
                                        "Japan",  "Brazil", "France",  "India"};
enum {
    STATES = sizeof states / sizeof states[0],
    COUNTRIES = sizeof countries / sizeof countries[0],
    LEFT = 30,  /* one customer of 30 has left: the number is not used */
    ABROAD = 40 /* one customer of 40 lives in another country */
};

static bool customer(const void *ctx, uint32_t number, struct lladd_span *out)
{
    (void)ctx;
    if (drawn(number, 3) % LEFT == 0)
        return false;
    /* The smaller of two random numbers, so that the first states are more frequent. */
    uint64_t a = drawn(number, 4) % STATES, b = drawn(number, 5) % STATES;
    const char *where = states[a < b ? a : b];
    if (drawn(number, 6) % ABROAD == 0)
        where = countries[drawn(number, 7) % COUNTRIES];
    *out = lladd_span_of(where, strlen(where));
    return true;
}

/* Parts of configurations: all but BLOOM are a child "base" with its configuration. */
#define BTREE "\"base\" class(dt) btree_dtable \"base_config\" config [ " \
              "\"base\" class(dt) linear_dtable ]"
#define BLOOM(below) "class(dt) bloom_dtable config [ " below " ]"
#define STATE_OR_ELSE(store) \
    "\"base\" class(dt) exception_dtable \"base_config\" config [ " \
    "\"base\" class(dt) usstate_dtable \"base_config\" config [ " store \
    " \"passthrough_value\" blob fd ] " \
    "\"alt\" class(dt) btree_dtable \"alt_config\" config [ \"base\" class(dt) linear_dtable ] " \
    "\"reject_value\" blob fd ]"
#define FIXED "\"base\" class(dt) fixed_dtable"
#define ARRAY \
    "\"base\" class(dt) array_dtable \"base_config\" config [ \"tag_byte\" bool false " \
    "\"hole_value\" blob fe \"tombstone_value\" blob ff ]"

static const struct configuration tried[] = {
    {"linear", "class(dt) linear_dtable"},
    {"Bloom filter, B-tree, linear (figure 7)", BLOOM(BTREE)},
    {"Bloom filter, states in one byte", BLOOM(STATE_OR_ELSE(FIXED))},
    {"Bloom filter, states in an array (figure 8)", BLOOM(STATE_OR_ELSE(ARRAY))},
    {"automatic", "class(dt) auto_dtable"},
};

/* The second column of the cTable: the year, in two bytes, in which the customer has moved to the
 * state or country. */
static bool since(const void *ctx, uint32_t number, struct lladd_span *out)
{
    static const unsigned char years[] = {0xd0, 7, 0xd1, 7, 0xd2, 7, 0xd3, 7, 0xd4, 7, 0xd5, 7};
    if (!customer(ctx, number, out))
        return false;
    *out = lladd_span_of(years + drawn(number, 10) % (sizeof years / 2) * 2, 2);
    return true;
}

static const struct store stores[] = {
    {"row store, linear", "class(dt) linear_dtable", NULL, {NULL}},
    {"row store, automatic", "class(dt) auto_dtable", NULL, {NULL}},
    {"column store, linear", NULL, NULL, {"class(dt) linear_dtable", "class(dt) linear_dtable"}},
    {"column store, states as in figure 8",
     NULL,
     NULL,
     {"class(dt) array_dtable config [ \"value_size\" int 2 ]",
      "config [ " STATE_OR_ELSE(ARRAY) " ]"}},
    {"column store, automatic", NULL, NULL, {"class(dt) auto_dtable", "class(dt) auto_dtable"}},
};

int customers(struct lladd_db *db, uint32_t keys, struct lladd_error *err)
{
    struct rows rows = {.keys = keys, .value = customer};
    struct lladd_span v;
    for (uint32_t i = 0; i < keys; i++)
        rows.n += customer(NULL, i, &v);
    printf("customers by state, %llu of them\n", (unsigned long long)rows.n);
    for (size_t i = 0; i < sizeof tried / sizeof tried[0]; i++)
        TRY(trial(db, &rows, &tried[i], err));
    printf("in managed tables\n");
    for (size_t i = 0; i < sizeof tried / sizeof tried[0]; i++)
        TRY(trial_managed(db, &rows, &tried[i], err));
    printf("in cTables, with a column for the year of the last move\n");
    struct rows years = {.keys = keys, .n = rows.n, .value = since};
    struct table table = {{&years, &rows}, {"since", "state"}, 2};
    for (size_t i = 0; i < sizeof stores / sizeof stores[0]; i++)
        TRY(trial_ctable(db, &table, &stores[i], err));
    return 0;
}
