/* SPDX-License-Identifier: BSD-2-Clause */
/* What coordinator.c (transactions), coordinator_peer.c (servers, time) and coordinator_store.c
 * (decisions on disk) share. */
#ifndef CLUSTER_HASH_COORDINATOR_PRIVATE_H
#define CLUSTER_HASH_COORDINATOR_PRIVATE_H
#include "coordinator.h"

#include <lladd/hash.h>
#include <string.h>

/* A server as it looks from here. */
enum peer_state { PEER_DOWN, PEER_DIALLING, PEER_GREETED, PEER_UP };
struct peer {
    enum peer_state state;
    uint64_t conn;
    struct channel channel;
    uint64_t attempt; /* of the HELLO that is out */
    bool known; /* its uuid: the first that was ever met under this number */
    unsigned char uuid[16];
    uint64_t heard_ms, pinged_ms, retry_ms;
};

/* One server's part in a transaction. */
enum vote { VOTE_NONE, VOTE_YES, VOTE_READ_ONLY };
struct part {
    bool touched, wrote;
    bool owes; /* an acknowledgement of the decision to commit */
    enum vote vote;
    uint32_t ops;
};

enum global_state {
    GLOBAL_ACTIVE,    /* its caller has it */
    GLOBAL_VOTING,    /* PREPARE is out */
    GLOBAL_ONE_PHASE, /* COMMIT_ONE is out */
    GLOBAL_LOGGING,   /* decided; the log is on its way */
    GLOBAL_COMMITTED  /* decided, durably; some still owe their acknowledgement */
};

struct global {
    TAILQ_ENTRY(global) link;
    struct txn_id id;
    enum global_state state;
    int code; /* the first failure */
    uint32_t requests;
    TAILQ_HEAD(, call) gets;
    struct call *ending; /* of commit */
    uint64_t deadline_ms;
    lladd_lsn lsn; /* of the decision */
    struct part parts[]; /* one a server */
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
    unsigned char *buffer; /* one frame out */
    struct peer peers[];   /* one a server */
};

void coordinator_fail(struct coordinator *, int rc, const char *text);
struct global *global_find(struct coordinator *, struct txn_id);
struct global *global_new(struct coordinator *, struct txn_id);
void global_free(struct coordinator *, struct global *);
/* The session with a server is over. */
void globals_lose(struct coordinator *, size_t server);
void globals_tick(struct coordinator *, uint64_t now);
/* Ends what is waited for. */
void globals_close(struct coordinator *);
/* A message of a transaction. */
void global_receive(struct coordinator *, size_t server, const struct message *);

/* To a server that is up; to others nothing. */
void peer_send(struct coordinator *, size_t server, struct message *);
void peer_commit(struct coordinator *, size_t server, const struct global *);
void peer_drop(struct coordinator *, struct peer *);

/* Writes the decision to commit; g->lsn says when it is durable. */
int store_decide(struct coordinator *, struct global *);
/* Everybody has carried it out. Need not be durable: what is there after a crash is carried out
 * once more. */
void store_forget(struct coordinator *, const struct global *);
/* Is this the server that always had the number? The first time it is noted. */
int store_server(struct coordinator *, size_t server, const unsigned char uuid[16]);
int store_open(struct coordinator *, struct lladd_error *);
#endif
