/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_OPERATIONS_HISTORY_H
#define TESTS_OPERATIONS_HISTORY_H
/* Random histories: transactions that write records side by side, end either way, and die in
 * crashes, against a model that knows what each record is. A record is one transaction's business
 * at a time. What a record is, and where, is the test's affair. */
#include "bed.h"

enum { HISTORY_RECORDS = 500, HISTORY_TXNS = 4 };

struct version {
    bool there;
    char fill;
    uint32_t len;
};

struct history {
    uint32_t records; /* so many */
    int txns, steps;
    unsigned end_every, crash_every, look_every; /* steps; about, but for the last (0: never) */
    void (*write)(struct history *, int t, uint64_t random); /* as transaction t */
    void (*expect)(const struct history *);                  /* all of `now` is there */

    struct version base[HISTORY_RECORDS]; /* what an abort brings back */
    struct version now[HISTORY_RECORDS];
    int owner[HISTORY_RECORDS]; /* transaction, or -1 */
    struct lladd_txn *txn[HISTORY_TXNS];
    unsigned undone;
};

/* The transaction has made the record that. */
void history_wrote(struct history *, int t, uint32_t record, struct version);
/* Nobody else has anything to do with it. */
bool history_may_write(const struct history *, int t, uint32_t record);
void history_run(struct history *, struct bed *, uint64_t seed);

#endif
