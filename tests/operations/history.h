/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_OPERATIONS_HISTORY_H
#define TESTS_OPERATIONS_HISTORY_H
/* Random histories: interleaved transactions that write records, commit, roll back, and are open at
 * crashes, against a model of every record. Only one transaction at a time uses a record. The test
 * defines what a record is and where it is stored. */
#include "op_fixture.h"

enum { HISTORY_RECORDS = 500, HISTORY_TXNS = 4 };

struct version {
    bool there;
    char fill;
    uint32_t len;
};

struct history {
    uint32_t records; /* how many */
    int txns, steps;
    unsigned end_every, crash_every, look_every; /* approximate number of steps between crashes (0:
                                                  * never) */
    void (*write)(struct history *, int t, uint64_t random); /* as transaction t */
    void (*expect)(const struct history *);                  /* checks that all of `now` is there */
    void (*reopen)(void);                                    /* handles, after a crash; nullable */

    struct version base[HISTORY_RECORDS]; /* the value after an abort */
    struct version now[HISTORY_RECORDS];
    int owner[HISTORY_RECORDS]; /* transaction, or -1 */
    struct lladd_txn *txn[HISTORY_TXNS];
    unsigned undone;
};

/* The transaction has created the record `that`. */
void history_wrote(struct history *, int t, uint32_t record, struct version);
/* No other transaction uses the record. */
bool history_may_write(const struct history *, int t, uint32_t record);
void history_run(struct history *, struct fixture *, uint64_t seed);

#endif
