/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Clients of a cluster in a world (world.h): transfers, audits, changes of one account, and the
 * check of what must be true of them. An account is {i64 amount, u64 number of changes}.
 */
#ifndef CLUSTER_HASH_BANK_H
#define CLUSTER_HASH_BANK_H
#include "world.h"

enum { BANK_ACCOUNTS = 12, BANK_CLIENTS = 6, BANK_EACH = 1000 };

/* BLIND: a transfer that adds without reading, and does not count as a change. */
enum errand { ERRAND_TRANSFER, ERRAND_AUDIT, ERRAND_ONE, ERRAND_BLIND, ERRAND_GIVE_UP };
enum client_state { CLIENT_IDLE, CLIENT_READING, CLIENT_ENDING };

struct client {
    struct bank *bank;
    size_t coordinator;
    enum client_state state;
    enum errand errand;
    struct global *txn;
    unsigned n, waiting; /* accounts of the task, pending gets */
    unsigned account[BANK_ACCOUNTS];
    unsigned char value[BANK_ACCOUNTS][16];
    struct call call[BANK_ACCOUNTS], end;
    bool ended;
};

struct bank {
    struct world *world;
    struct client clients[BANK_CLIENTS];
    uint64_t least[BANK_ACCOUNTS];   /* acknowledged changes of the account */
    uint64_t perhaps[BANK_ACCOUNTS]; /* and those of unknown outcome */
    uint64_t seen[BANK_ACCOUNTS];    /* by audits acknowledged as committed */
    uint64_t transfers, audits, ones, failures, unknown;
};

/* Opens the accounts, without faults. */
void bank_init(struct bank *, struct world *);
/* One client makes its next step. */
void bank_step(struct bank *);
/* The coordinator has died: its clients will not get the answers they wait for. */
void bank_lose(struct bank *, size_t coordinator);
/* Lets all clients finish, and compares. The world must have settled. */
void bank_check(struct bank *);
void bank_finish(struct bank *);
size_t bank_key(unsigned account, unsigned char key[8]);
#endif
