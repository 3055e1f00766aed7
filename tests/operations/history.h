/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_OPERATIONS_HISTORY_H
#define TESTS_OPERATIONS_HISTORY_H
/* Random histories. Transactions take turns: they write records, commit, or roll back. Some are
 * open when a crash occurs. A model has the expected version of each record. Only one transaction
 * at a time uses a record. The test defines what a record is and where it is stored. */
#include "op_fixture.h"

enum { HISTORY_RECORDS = 500, HISTORY_TXNS = 4 };

struct version {
    bool there;
    char fill;
    uint32_t len;
};

struct history {
    uint32_t records; /* number of records */
    int txns, steps;  /* number of transactions at a time; number of steps */
    /* On average, one step in `end_every` ends the transaction of the step, if this transaction is
     * open, and one step in `crash_every` is a crash. `expect` is called after each crash and at
     * the end. Unless `look_every` is 0, `expect` is also called in one step of every
     * `look_every`. */
    unsigned end_every, crash_every, look_every;
    void (*write)(struct history *, int t, uint64_t random); /* makes a change as transaction t */
    void (*expect)(const struct history *); /* checks that the records are those in `now` */
    void (*reopen)(void);                   /* called after a crash, to open handles again; may be
                                             * NULL */

    struct version base[HISTORY_RECORDS]; /* the version without the changes of open transactions */
    struct version now[HISTORY_RECORDS];
    int owner[HISTORY_RECORDS]; /* the open transaction that has changed the record, or -1 */
    struct lladd_txn *txn[HISTORY_TXNS];
    unsigned undone; /* number of changed records that an abort or a crash has rolled back */
};

/* Notes in the model that transaction t has written this version of the record. */
void history_wrote(struct history *, int t, uint32_t record, struct version);
/* Returns true if no other transaction uses the record. */
bool history_may_write(const struct history *, int t, uint32_t record);
void history_run(struct history *, struct fixture *, uint64_t seed);

#endif
