/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by participant.c (transactions) and participant_session.c (coordinators, timers). */
#ifndef CLUSTER_HASH_PARTICIPANT_PRIVATE_H
#define CLUSTER_HASH_PARTICIPANT_PRIVATE_H
#include "participant.h"

#include <lladd/hash.h>
#include <string.h>
#include <sys/queue.h>

/* The gid of a prepared transaction: the coordinator's uuid, incarnation, sequence. The branch
 * qualifier is the timeline of the database that has prepared it; no qualifier: timeline 0. */
#define CLUSTER_GID_FORMAT INT64_C(0x48434c4c) /* "LLCH" */
#define CLUSTER_GID_LENGTH 32u
#define CLUSTER_BQUAL_LENGTH 4u

/* A connection; from HELLO on, the session of a coordinator. */
struct session {
    TAILQ_ENTRY(session) link;
    uint64_t conn;
    bool welcome;         /* HELLO was accepted */
    struct channel channel;
    unsigned char uuid[16]; /* of the coordinator */
    uint64_t incarnation, instance;
    uint64_t heard_ms;
    size_t txns, waiting; /* open transactions, and bytes of their queued messages */
};

/* A queued message: an earlier message of the branch waits for a lock. */
struct waiting {
    STAILQ_ENTRY(waiting) link;
    size_t len;
    unsigned char frame[];
};

/* A transaction from its first message, or from recovery, to its end. */
struct branch {
    TAILQ_ENTRY(branch) link;
    unsigned char uuid[16]; /* of the coordinator; identifies the transaction together with `id` */
    struct txn_id id;
    uint32_t timeline; /* of the database that prepares it, or has prepared it */
    struct lladd_txn *txn;
    struct session *session; /* NULL: the session has ended (and the branch is prepared) */
    bool prepared, wrote, counted;
    bool locking;  /* only the shell may use the transaction, until `lock` is granted or refused */
    bool orphaned; /* to be aborted when the lock wait ends */
    uint32_t ops;
    int code; /* the first error; not 0: the branch can only be rolled back */
    uint64_t asked_ms;
    struct lock_wait lock;
    unsigned char key[WIRE_KEY_MAX];
    STAILQ_HEAD(, waiting) queue;
};

/* An answer that waits until the log is durable. */
struct answer {
    STAILQ_ENTRY(answer) link;
    lladd_lsn after;
    bool urgent;
    uint64_t since_ms;
    uint64_t conn;
    struct message message; /* without spans */
};

TAILQ_HEAD(sessions, session);
TAILQ_HEAD(branches, branch);
STAILQ_HEAD(answers, answer);

struct participant {
    struct lladd_db *db;
    struct lladd_hash *table, *coordinators;
    struct participant_options options;
    struct participant_io io;
    struct sessions sessions;
    struct branches branches;
    void *index; /* index of the branches (tsearch) */
    struct answers answers;
    lladd_lsn ended; /* LSN of the last logged end of a transaction */
    struct lladd_error error;
    struct participant_counts counts;
    unsigned char *buffer; /* one outgoing frame */
    unsigned char *value;  /* one value */
};

struct session *session_find(struct participant *, uint64_t conn);
/* Sends to the coordinator immediately. */
void session_send(struct participant *, struct session *, struct message *);
/* Sends the answer when the log is durable up to `after`. */
void session_answer(struct participant *, struct session *, const struct message *,
                    lladd_lsn after, bool urgent);
/* Ends the session and its unprepared transactions. */
void session_drop(struct participant *, struct session *);

void branch_receive(struct participant *, struct session *, const struct message *,
                    const unsigned char *frame, size_t len);
/* The session has ended. */
void branches_orphan(struct participant *, struct session *);
void branch_inquire(struct participant *, struct session *, struct branch *);
struct branch *branch_new(struct participant *, const unsigned char uuid[16], struct txn_id);
void branch_free(struct participant *, struct branch *);
/* Stops the machine. */
void participant_fail(struct participant *, int rc, const struct lladd_error *);
#endif
