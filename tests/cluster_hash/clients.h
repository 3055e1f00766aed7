/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Clients of a cluster in a world (world.h). The clients move amounts between accounts, read all
 * accounts (an audit), or change one account. A check compares the accounts with the acknowledged
 * changes. An account is {i64 amount, u64 number of changes}.
 */
#ifndef CLUSTER_HASH_CLIENTS_H
#define CLUSTER_HASH_CLIENTS_H
#include "world.h"

enum { CLIENTS_ACCOUNTS = 12, CLIENTS_COUNT = 6, CLIENTS_EACH = 1000 };

/* What a client does with accounts.
 * - TRANSFER: moves an amount between two or three accounts.
 * - AUDIT: reads all accounts.
 * - ONE: changes one account.
 * - BLIND: a transfer that adds to accounts without reading them. The accounts do not count it as a
 *   change.
 * - GIVE_UP: a transfer that is aborted. */
enum errand { ERRAND_TRANSFER, ERRAND_AUDIT, ERRAND_ONE, ERRAND_BLIND, ERRAND_GIVE_UP };
enum client_state { CLIENT_IDLE, CLIENT_READING, CLIENT_ENDING };

struct client {
    struct clients *all;
    size_t coordinator;
    enum client_state state;
    enum errand errand;
    struct global *txn;
    unsigned n, waiting; /* number of accounts of the errand; number of gets without an answer */
    unsigned account[CLIENTS_ACCOUNTS];
    unsigned char value[CLIENTS_ACCOUNTS][16];
    struct call call[CLIENTS_ACCOUNTS], end;
    bool ended;
};

struct clients {
    struct world *world;
    struct client clients[CLIENTS_COUNT];
    uint64_t least[CLIENTS_ACCOUNTS];   /* number of acknowledged changes of the account */
    uint64_t perhaps[CLIENTS_ACCOUNTS]; /* number of changes with unknown outcome */
    uint64_t seen[CLIENTS_ACCOUNTS];    /* the largest number of changes that an acknowledged audit
                                         * has seen */
    uint64_t transfers, audits, ones, failures, unknown;
};

/* Creates the accounts. The world must not have faults yet. */
void clients_init(struct clients *, struct world *);
/* Lets a random client make its next step. */
void clients_step(struct clients *);
/* Tells the clients of a coordinator that it has crashed. They stop waiting for its answers. */
void clients_lose(struct clients *, size_t coordinator);
/* Checks the accounts: the sum, equal replicas, and the acknowledged changes. Call clients_finish
 * and world_settle before it. */
void clients_check(struct clients *);
void clients_finish(struct clients *);
size_t clients_key(unsigned account, unsigned char key[8]);
#endif
