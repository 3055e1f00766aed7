/* SPDX-License-Identifier: BSD-2-Clause */
/* The client's side of the cluster hash table, without sockets and threads: the coordinator maps
 * keys to servers and coordinates presumed-abort two-phase commit (README.md). Its database stores
 * each decision to commit until all servers have carried it out.
 *
 * A state machine, like the participant (participant.h): a shell calls it for each event, and it
 * never waits. cluster.c runs it with libuv; the tests run it with simulated connections and time.
 * Threads: one at a time. */
#ifndef CLUSTER_HASH_COORDINATOR_H
#define CLUSTER_HASH_COORDINATOR_H
#include "wire.h"

#include <lladd/lladd.h>
#include <sys/queue.h>

/** The result of a commit with an unknown outcome: the only server of the transaction did not
 *  report the outcome, or the log failed or the coordinator was closed before the decision was
 *  durable. The transaction is committed or rolled back as a whole. Not one of LLADD's codes. */
#define CLUSTER_UNKNOWN 1

struct coordinator;
struct global; /* a transaction */

/** A request of the caller. The struct must exist until `done` is called. `done` is called exactly
 *  once (not after coordinator_kill), possibly before the function that starts the request returns.
 *  `done` must not call the coordinator. */
struct call {
    TAILQ_ENTRY(call) link; /* members of the coordinator, from here */
    struct global *txn;
    size_t server;
    uint32_t request;
    uint64_t deadline_ms; /* to here */
    void *buf;            /**< for a get: buffer for the value */
    size_t size;
    size_t len; /**< out: the value's length */
    int code;   /**< out: 0, LLADD_NOT_FOUND, or the error for which the transaction must be rolled
                     back */
    void (*done)(struct call *);
    void *ctx;
};

struct coordinator_io {
    void *ctx;
    uint64_t (*now_ms)(void *ctx); /**< never goes back */
    /** Connects to a server; afterwards the shell calls coordinator_connected or
     *  coordinator_unreachable. */
    void (*dial)(void *ctx, size_t server);
    void (*send)(void *ctx, uint64_t conn, const void *bytes, size_t len);
    void (*drop)(void *ctx, uint64_t conn);
};

/** Names that end in _ms are milliseconds. Zero means default, except for `servers`. */
struct coordinator_options {
    size_t servers;     /**< number of servers; the order of the servers must never change */
    size_t replicas;    /**< number of servers that store each key, 1 to `servers`; default 1 */
    uint64_t call_ms;   /**< longest wait for an answer or for all votes; default 5000 */
    uint64_t ping_ms;   /**< interval of pings to a quiet server; default 1000 */
    uint64_t silent_ms; /**< the connection to a server that is silent for this time is dropped;
                             default 5000 */
    uint64_t retry_ms;  /**< pause between two attempts to connect; default 100 */
};

/** Opens a coordinator over its database, which must outlive it. Begins a new incarnation, durably.
 *  LLADD_BAD_ARGUMENT if the database belongs to a cluster with another number of servers or
 *  replicas. `io` is copied. */
int coordinator_open(struct lladd_db *, const struct coordinator_options *,
                     const struct coordinator_io *, struct coordinator **out, struct lladd_error *);
/** Completes all waiting calls (LLADD_CLOSED or CLUSTER_UNKNOWN) and frees the coordinator. Stored
 *  decisions remain. */
void coordinator_close(struct coordinator *);
/** Frees the coordinator as if the process had died: does not call `done`. */
void coordinator_kill(struct coordinator *);

/** The server with replica number `replica` of the key, from 0. */
size_t coordinator_place(size_t servers, const void *key, size_t len, size_t replica);

/* ---- transactions: after a failure, one can only be rolled back, and its commit fails -------- */

/** Begins a transaction. NULL: no memory, or the error of coordinator_error. */
struct global *coordinator_begin(struct coordinator *);
/** Reads a key from the first of its servers that is connected. `update`: the transaction will
 *  write the key, so no other transaction may read the key for update until this transaction
 *  ends. */
void coordinator_get(struct coordinator *, struct global *, struct call *, const void *key,
                     size_t len, bool update);
/** Sends the write to all servers of the key and does not wait: a server at which the write fails
 *  votes no. Returns the transaction's first error so far. */
int coordinator_put(struct coordinator *, struct global *, const void *key, size_t len,
                    const void *value, size_t value_len);
/** Adds to the little-endian number in the first eight bytes of a value; the other bytes stay. The
 *  server votes no if the key does not exist (LLADD_NOT_FOUND), the value is too short, or the sum
 *  overflows (LLADD_OUT_OF_RANGE). */
int coordinator_add(struct coordinator *, struct global *, const void *key, size_t len,
                    int64_t delta);
/** Removes a key; no error if the key does not exist. */
int coordinator_delete(struct coordinator *, struct global *, const void *key, size_t len);
/** Commits. call->code becomes 0 (committed, durably), CLUSTER_UNKNOWN, or another code (rolled
 *  back). When this function returns, the caller must not use the transaction any more. */
void coordinator_commit(struct coordinator *, struct global *, struct call *);
/** Rolls back. Waiting reads end with LLADD_CLOSED. */
void coordinator_abort(struct coordinator *, struct global *);

/* ---- events ---------------------------------------------------------------------------------- */

void coordinator_connected(struct coordinator *, size_t server, uint64_t conn);
void coordinator_unreachable(struct coordinator *, size_t server);
/** Handles a received frame, without its length field. */
void coordinator_receive(struct coordinator *, uint64_t conn, const unsigned char *frame,
                         size_t len);
void coordinator_disconnected(struct coordinator *, uint64_t conn);
/** The LSN up to which the log must be durable before all logged decisions can be sent; 0: none. */
lladd_lsn coordinator_wants(const struct coordinator *);
/** True if at most one transaction is without a durable decision. */
bool coordinator_alone(const struct coordinator *);
void coordinator_durable(struct coordinator *, lladd_lsn);
/** Call it if lladd_wait_durable has returned an error, which is rc. */
void coordinator_poisoned(struct coordinator *, int rc);
/** Call it about every ten milliseconds. */
void coordinator_tick(struct coordinator *);

/** If the result is not 0, the coordinator commits no more transactions: its database is poisoned,
 *  or a server has seen another coordinator with this id (LLADD_CONFLICT, LLADD_LOCKED). */
int coordinator_error(const struct coordinator *, struct lladd_error *);

struct coordinator_counts {
    size_t up, open, undelivered; /**< connected servers; transactions without a durable decision;
                                       decisions that some server has not acknowledged */
    uint64_t committed, read_only, one_phase, unknown, aborted, connections; /**< since open */
    uint64_t unanswered; /**< since open: inquiries about unknown transactions of other timelines */
};
void coordinator_count(const struct coordinator *, struct coordinator_counts *);
#endif
