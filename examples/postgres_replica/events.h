/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages of pgoutput into events of a replica.
 *
 * A slot sends whole transactions, in the order of their commit records. If the commit record of a
 * transaction is at the LSN F, BEGIN has the position F, its changes F + 1, and COMMIT F + 2. The
 * record has more than three bytes, so the next transaction has larger positions. A position P says
 * to the slot: the transactions with F < P are not needed any more. */
#ifndef EVENTS_H
#define EVENTS_H
#include "pgoutput.h"

enum { EVENTS = 512 }; /* that are applied at once */

struct events {
    const struct postgres *from;
    struct lladd_replica *to;
    struct lladd_replica_event list[EVENTS];
    void *memory[EVENTS]; /* the key and the value of each event */
    size_t n;
    uint64_t xid, lsn; /* of the transaction that is open; lsn 0: none is */
    uint64_t last;     /* position of the last event */
};

/* Applies the events that wait. */
int events_apply(struct events *, struct lladd_error *);
/* Takes a message of pgoutput. */
int events_take(struct events *, const char *message, size_t len, struct lladd_error *);
/* The server has sent all transactions with commit records before `lsn`. */
int events_reached(struct events *, uint64_t lsn, struct lladd_error *);
/* The same before the first event: the server has all transactions with commit records from `lsn`
 * on. */
int events_first(struct events *, uint64_t lsn, struct lladd_error *);
/* A transaction that deletes all rows of the tables and puts those that `p` copies; they have all
 * changes with commit records before `lsn`. */
int events_copy(struct events *, struct postgres *p, uint64_t lsn, struct lladd_error *);
/* Frees events that wait. */
void events_drop(struct events *);

#endif
