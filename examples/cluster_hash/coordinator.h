/* SPDX-License-Identifier: BSD-2-Clause */
/* The client's side of the cluster hash table, without sockets and threads: which server has a key,
 * and the coordinator of presumed-abort two-phase commit (README.md). It has a database of its own,
 * in which stand its decisions to commit, until everybody has carried them out.
 *
 * A machine like participant.h: fed with events, it never waits. cluster.c runs it over libuv; the
 * tests run it in a world of their own. Threads: one at a time. */
#ifndef CLUSTER_HASH_COORDINATOR_H
#define CLUSTER_HASH_COORDINATOR_H
#include "wire.h"

#include <lladd/lladd.h>
#include <sys/queue.h>

/** What commit returns when it cannot be known: the transaction was at one server only, which has
 *  gone before it could say how it ended; or the coordinator's own log has failed. It is whole or
 *  not there at all. No code of LLADD's. */
#define CLUSTER_UNKNOWN 1

struct coordinator;
struct global; /* a transaction */

/** Something the caller waits for. Lives until `done` was called, which happens exactly once,
 *  possibly before the call that starts it returns. `done` must not call the machine. */
struct call {
    TAILQ_ENTRY(call) link; /* the machine's, as all up to here -> */
    struct global *txn;
    size_t server;
    uint32_t request;
    uint64_t deadline_ms; /* <- */
    void *buf;            /**< of a get: room for the value */
    size_t size;
    size_t len; /**< out: the value's length */
    int code;   /**< out: 0, LLADD_NOT_FOUND, or why the transaction has to be rolled back */
    void (*done)(struct call *);
    void *ctx;
};

struct coordinator_io {
    void *ctx;
    uint64_t (*now_ms)(void *ctx); /**< never goes back */
    /** Connect to a server; coordinator_connected or coordinator_unreachable follows. */
    void (*dial)(void *ctx, size_t server);
    void (*send)(void *ctx, uint64_t conn, const void *bytes, size_t len);
    void (*drop)(void *ctx, uint64_t conn);
};

/** Milliseconds; zero means default. */
struct coordinator_options {
    size_t servers;     /**< how many; their order is part of the data */
    size_t replicas;    /**< how many of them have each key, 1 to `servers`; default 1 */
    uint64_t call_ms;   /**< longest wait for an answer or for all votes; default 5000 */
    uint64_t ping_ms;   /**< how often to make sure that a quiet server is there; default 1000 */
    uint64_t silent_ms; /**< a server not heard of for so long has gone; default 5000 */
    uint64_t retry_ms;  /**< between two attempts to connect; default 100 */
};

/** Over an open database of its own, which must outlive it. Begins a new incarnation, durably.
 *  LLADD_BAD_ARGUMENT if the database is that of a cluster of another shape. `io` is copied. */
int coordinator_open(struct lladd_db *, const struct coordinator_options *,
                     const struct coordinator_io *, struct coordinator **out, struct lladd_error *);
/** Ends the calls that are waited for (LLADD_CLOSED) and frees all. What is decided stays so. */
void coordinator_close(struct coordinator *);
/** Frees all as the death of the process would. `done` is not called. */
void coordinator_kill(struct coordinator *);

/** The server, of those that have the key, with this number among them: 0 is the first one. */
size_t coordinator_place(size_t servers, const void *key, size_t len, size_t replica);

/* ---- transactions. One that has met a failure can only be rolled back; commit says so, too. -- */

/** NULL: no memory, or coordinator_error says why. */
struct global *coordinator_begin(struct coordinator *);
/** Reads a key: from the first of its servers that can be reached. `update`: it will be written,
 *  so nobody else may read it for that until the end. */
void coordinator_get(struct coordinator *, struct global *, struct call *, const void *key,
                     size_t len, bool update);
/** Writes go to all servers of the key and are not waited for: the vote says whether they went
 *  well. What is returned is what the transaction has met so far. */
int coordinator_put(struct coordinator *, struct global *, const void *key, size_t len,
                    const void *value, size_t value_len);
/** Adds to the little-endian number in the first eight bytes of a value, which stays as it is
 *  behind them. The vote is no if there is no such key (LLADD_NOT_FOUND), or no such number, or
 *  the sum is none (LLADD_OUT_OF_RANGE). */
int coordinator_add(struct coordinator *, struct global *, const void *key, size_t len,
                    int64_t delta);
/** Removing a key that is not there is fine. */
int coordinator_delete(struct coordinator *, struct global *, const void *key, size_t len);
/** call->code gets 0: committed, durably; CLUSTER_UNKNOWN; or another: rolled back. The transaction
 *  is the caller's no more when the call returns. */
void coordinator_commit(struct coordinator *, struct global *, struct call *);
/** Gives up, and with it every get that is waited for (LLADD_CLOSED). */
void coordinator_abort(struct coordinator *, struct global *);

/* ---- events ---------------------------------------------------------------------------------- */

void coordinator_connected(struct coordinator *, size_t server, uint64_t conn);
void coordinator_unreachable(struct coordinator *, size_t server);
/** A frame without its length. */
void coordinator_receive(struct coordinator *, uint64_t conn, const unsigned char *frame,
                         size_t len);
void coordinator_disconnected(struct coordinator *, uint64_t conn);
/** The LSN that must become durable so that a decision can be told; 0: none. */
lladd_lsn coordinator_wants(const struct coordinator *);
/** Is there at most one transaction that is not decided? */
bool coordinator_alone(const struct coordinator *);
void coordinator_durable(struct coordinator *, lladd_lsn);
/** The log has failed (what lladd_wait returned). */
void coordinator_poisoned(struct coordinator *, int rc);
/** Once every ten milliseconds or so. */
void coordinator_tick(struct coordinator *);

/** Not 0: no further transaction will be committed. Either the database is poisoned, or a server
 *  has seen another coordinator with the same id (LLADD_CONFLICT, LLADD_LOCKED). */
int coordinator_error(const struct coordinator *, struct lladd_error *);

struct coordinator_counts {
    size_t up, open, undelivered; /**< servers, transactions; decisions not carried out by all */
    uint64_t committed, read_only, one_phase, unknown, aborted, connections; /**< since open */
};
void coordinator_count(const struct coordinator *, struct coordinator_counts *);
#endif
