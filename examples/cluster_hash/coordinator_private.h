/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by coordinator.c (transactions), coordinator_peer.c (servers, timers) and
 * coordinator_store.c (decisions on disk). */
#ifndef CLUSTER_HASH_COORDINATOR_PRIVATE_H
#define CLUSTER_HASH_COORDINATOR_PRIVATE_H
#include "coordinator.h"

#include <lladd/hash.h>
#include <string.h>

/* A server, as the coordinator sees it. */
enum peer_state { PEER_DOWN, PEER_DIALLING, PEER_GREETED, PEER_UP };
struct peer {
    enum peer_state state;
    uint64_t conn;
    struct channel channel;
    uint64_t attempt; /* of the HELLO that was sent */
    bool known; /* `uuid` is set: the first one ever met under this number */
    unsigned char uuid[16];
    uint64_t heard_ms, pinged_ms, retry_ms;
};

/* One server's part of a transaction. */
enum vote { VOTE_NONE, VOTE_YES, VOTE_READ_ONLY };
struct part {
    bool touched, wrote;
    bool owes; /* it has not acknowledged the commit yet */
    enum vote vote;
    uint32_t ops;
};

enum global_state {
    GLOBAL_ACTIVE,    /* in use by its caller */
    GLOBAL_VOTING,    /* PREPARE was sent */
    GLOBAL_ONE_PHASE, /* COMMIT_ONE was sent */
    GLOBAL_LOGGING,   /* decided; the log is not durable yet */
    GLOBAL_COMMITTED  /* decided, durably; some servers have not acknowledged */
};

struct global {
    TAILQ_ENTRY(global) link;
    struct txn_id id;
    enum global_state state;
    int code; /* the first failure */
    uint32_t requests;
    TAILQ_HEAD(, call) gets;
    struct call *ending; /* the caller's commit */
    uint64_t deadline_ms;
    lladd_lsn lsn; /* of the decision */
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
    struct globals globals;
    void *index; /* of the globals (tsearch) */
    struct lladd_error error;
    struct coordinator_counts counts;
    unsigned char *buffer; /* one outgoing frame */
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
/* Handles a message about a transaction. */
void global_receive(struct coordinator *, size_t server, const struct message *);

/* Sends to a server if it is up; otherwise does nothing. */
void peer_send(struct coordinator *, size_t server, struct message *);
void peer_commit(struct coordinator *, size_t server, const struct global *);
void peer_drop(struct coordinator *, struct peer *);

/* Writes the decision to commit; it is durable when g->lsn is. */
int store_decide(struct coordinator *, struct global *);
/* Removes a decision that all servers have carried out. The removal need not be durable: a decision
 * found after a crash is sent once more. */
void store_forget(struct coordinator *, const struct global *);
/* Checks that this is the server that always had the number. Records its uuid the first time. */
int store_server(struct coordinator *, size_t server, const unsigned char uuid[16]);
int store_open(struct coordinator *, struct lladd_error *);
#endif
