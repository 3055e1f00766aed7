/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by coordinator.c (transactions), coordinator_peer.c (servers, timers) and
 * coordinator_store.c (decisions on disk). */
#ifndef CLUSTER_HASH_COORDINATOR_PRIVATE_H
#define CLUSTER_HASH_COORDINATOR_PRIVATE_H
#include "coordinator.h"

#include <lladd/hash.h>
#include <string.h>

/* The coordinator's state of a server. */
enum peer_state { PEER_DOWN, PEER_DIALLING, PEER_GREETED, PEER_UP };
struct peer {
    enum peer_state state;
    uint64_t conn;
    struct channel channel;
    uint64_t attempt; /* number of the last HELLO */
    bool known; /* `uuid` is set: the uuid that the first server with this number has sent */
    unsigned char uuid[16];
    uint32_t timeline; /* of the server's database, as the last WELCOME says */
    uint64_t heard_ms, pinged_ms, retry_ms;
};

/* One server's part of a transaction. */
enum vote { VOTE_NONE, VOTE_YES, VOTE_READ_ONLY };
struct part {
    bool touched, wrote;
    bool owes; /* the server must still acknowledge the commit */
    enum vote vote;
    uint32_t ops;
};

enum global_state {
    GLOBAL_ACTIVE,    /* its caller may still read and write */
    GLOBAL_VOTING,    /* PREPARE was sent */
    GLOBAL_ONE_PHASE, /* COMMIT_ONE was sent */
    GLOBAL_LOGGING,   /* decided; the decision is not durable yet */
    GLOBAL_COMMITTED  /* the decision is durable; some servers have not acknowledged it */
};

struct global {
    TAILQ_ENTRY(global) link;
    struct txn_id id;
    enum global_state state;
    int code; /* the first error */
    uint32_t requests;
    TAILQ_HEAD(, call) gets;
    struct call *ending; /* the commit call of the caller */
    uint64_t deadline_ms;
    lladd_lsn lsn; /* LSN of the decision */
    struct part parts[]; /* one per server */
};
TAILQ_HEAD(globals, global);

struct coordinator {
    struct lladd_db *db;
    struct lladd_hash *decisions;
    struct coordinator_options options;
    struct coordinator_io io;
    unsigned char uuid[16];
    uint64_t incarnation, instance, sequence, attempts;
    uint64_t since; /* first incarnation on the timeline of the coordinator's database */
    struct globals globals;
    void *index; /* index of the transactions (tsearch) */
    struct lladd_error error;
    struct coordinator_counts counts;
    unsigned char *buffer; /* buffer for one outgoing frame */
    struct peer peers[];   /* one per server */
};

void coordinator_fail(struct coordinator *, int rc, const char *text);
struct global *global_find(struct coordinator *, struct txn_id);
struct global *global_new(struct coordinator *, struct txn_id);
void global_free(struct coordinator *, struct global *);
/* The session with a server has ended. */
void globals_lose(struct coordinator *, size_t server);
void globals_tick(struct coordinator *, uint64_t now);
/* Completes all waiting calls. */
void globals_close(struct coordinator *);
void global_receive(struct coordinator *, size_t server, const struct message *);

/* Sends to a server if it is connected; otherwise does nothing. */
void peer_send(struct coordinator *, size_t server, struct message *);
void peer_commit(struct coordinator *, size_t server, const struct global *);
void peer_drop(struct coordinator *, struct peer *);

/* Logs the decision to commit; it is durable when the log is durable at g->lsn. */
int store_decide(struct coordinator *, struct global *);
/* Removes a decision that all servers have carried out. The removal need not be durable: if the
 * decision is found again after a crash, it is sent again. */
void store_forget(struct coordinator *, const struct global *);
/* Checks that the server with this number has the recorded uuid. Records the uuid the first
 * time. */
int store_server(struct coordinator *, size_t server, const unsigned char uuid[16]);
int store_open(struct coordinator *, struct lladd_error *);
#endif
