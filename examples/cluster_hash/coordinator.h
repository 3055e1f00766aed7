/* SPDX-License-Identifier: BSD-2-Clause */
/* The client's side of the cluster hash table, without sockets and threads: it maps keys to servers
 * and coordinates presumed-abort two-phase commit (README.md). It has a database of its own, which
 * stores each decision to commit until all servers have carried it out.
 *
 * A state machine like participant.h: it is fed events and never waits. cluster.c runs it over
 * libuv; the tests run it in a simulated world. Threads: one at a time. */
#ifndef CLUSTER_HASH_COORDINATOR_H
#define CLUSTER_HASH_COORDINATOR_H
#include "wire.h"

#include <lladd/lladd.h>
#include <sys/queue.h>

/** What commit returns if the outcome cannot be known: the transaction was at one server only, and
 *  the server was lost before it could report the outcome; or the coordinator's own log has failed.
 *  The transaction is either complete or absent. This is not one of LLADD's codes. */
#define CLUSTER_UNKNOWN 1

struct coordinator;
struct global; /* a transaction */

/** A request of the caller. It must exist until `done` is called, which happens exactly once,
 *  possibly before the call that starts it returns. `done` must not call the machine. */
struct call {
    TAILQ_ENTRY(call) link; /* from here to -> the machine's own members */
    struct global *txn;
    size_t server;
    uint32_t request;
    uint64_t deadline_ms; /* <- */
    void *buf;            /**< of a get: room for the value */
    size_t size;
    size_t len; /**< out: the value's length */
    int code;   /**< out: 0, LLADD_NOT_FOUND, or why the transaction must be rolled back */
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
    size_t replicas;    /**< servers that keep each key, 1 to `servers`; default 1 */
    uint64_t call_ms;   /**< longest wait for an answer or for all votes; default 5000 */
    uint64_t ping_ms;   /**< interval of pings to a quiet server; default 1000 */
    uint64_t silent_ms; /**< a server that is silent this long is lost; default 5000 */
    uint64_t retry_ms;  /**< between two attempts to connect; default 100 */
};

/** Opens a coordinator over a database of its own, which must outlive it. Begins a new incarnation,
 *  durably. LLADD_BAD_ARGUMENT if the database is of a cluster with other servers or replicas. `io`
 *  is copied. */
int coordinator_open(struct lladd_db *, const struct coordinator_options *,
                     const struct coordinator_io *, struct coordinator **out, struct lladd_error *);
/** Completes all waiting calls (LLADD_CLOSED) and frees everything. Decisions stay decided. */
void coordinator_close(struct coordinator *);
/** Frees everything, as the death of the process would. `done` is not called. */
void coordinator_kill(struct coordinator *);

/** The server with replica number `replica` of the key; 0 is the first one. */
size_t coordinator_place(size_t servers, const void *key, size_t len, size_t replica);

/* ---- transactions. After a failure, one can only be rolled back; a commit then fails. -------- */

/** NULL: no memory, or the reason that coordinator_error gives. */
struct global *coordinator_begin(struct coordinator *);
/** Reads a key from the first of its servers that is up. `update`: the key will be written, so no
 *  other transaction may read it for update until the end of this one. */
void coordinator_get(struct coordinator *, struct global *, struct call *, const void *key,
                     size_t len, bool update);
/** Sends the write to all servers of the key and does not wait: their votes tell whether it
 *  succeeded. Returns the transaction's first failure so far. */
int coordinator_put(struct coordinator *, struct global *, const void *key, size_t len,
                    const void *value, size_t value_len);
/** Adds to the little-endian number in the first eight bytes of a value; the bytes after them stay.
 *  The vote is no if there is no such key (LLADD_NOT_FOUND), no such number, or the sum overflows
 *  (LLADD_OUT_OF_RANGE). */
int coordinator_add(struct coordinator *, struct global *, const void *key, size_t len,
                    int64_t delta);
/** Removes a key; a key that is not there is fine. */
int coordinator_delete(struct coordinator *, struct global *, const void *key, size_t len);
/** call->code becomes 0: committed, durably; CLUSTER_UNKNOWN; or another code: rolled back. The
 *  caller no longer owns the transaction when this returns. */
void coordinator_commit(struct coordinator *, struct global *, struct call *);
/** Rolls back. Gets that still wait end with LLADD_CLOSED. */
void coordinator_abort(struct coordinator *, struct global *);

/* ---- events ---------------------------------------------------------------------------------- */

void coordinator_connected(struct coordinator *, size_t server, uint64_t conn);
void coordinator_unreachable(struct coordinator *, size_t server);
/** A frame without its length. */
void coordinator_receive(struct coordinator *, uint64_t conn, const unsigned char *frame,
                         size_t len);
void coordinator_disconnected(struct coordinator *, uint64_t conn);
/** The LSN that must become durable before a decision can be sent; 0: none. */
lladd_lsn coordinator_wants(const struct coordinator *);
/** True if at most one transaction is undecided. */
bool coordinator_alone(const struct coordinator *);
void coordinator_durable(struct coordinator *, lladd_lsn);
/** The log has failed, with the code that lladd_wait_durable returned. */
void coordinator_poisoned(struct coordinator *, int rc);
/** Call it about every ten milliseconds. */
void coordinator_tick(struct coordinator *);

/** Not 0: no further transaction will be committed. Either the database is poisoned, or a server
 *  has seen another coordinator with the same id (LLADD_CONFLICT, LLADD_LOCKED). */
int coordinator_error(const struct coordinator *, struct lladd_error *);

struct coordinator_counts {
    size_t up, open, undelivered; /**< servers; transactions; decisions not carried out yet */
    uint64_t committed, read_only, one_phase, unknown, aborted, connections; /**< since open */
};
void coordinator_count(const struct coordinator *, struct coordinator_counts *);
#endif
