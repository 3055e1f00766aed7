/* SPDX-License-Identifier: BSD-2-Clause */
/* A server of the cluster hash table, without its sockets: one hash table with locks in one
 * database, and the participant's side of presumed-abort two-phase commit (README.md).
 *
 * A state machine: it is fed events (bytes, time, a granted lock, a durable log) and answers
 * through `struct participant_io`. It never waits, neither for locks nor for the log. So the same
 * code runs in server.c over libuv, and in the tests in a simulated world.
 *
 * Threads: one at a time. Connections are numbers, which the shell chooses and never reuses. */
#ifndef CLUSTER_HASH_PARTICIPANT_H
#define CLUSTER_HASH_PARTICIPANT_H
#include "wire.h"

#include <lladd/lock.h>

struct participant;

/** A lock request that must wait. The shell calls lock_wait_take, in another thread or repeatedly,
 *  and then participant_locked with the result. Until then the shell owns the transaction. The
 *  machine owns this structure. */
struct lock_wait {
    struct participant *participant;
    struct lladd_txn *txn;
    enum lladd_lock_mode mode;
    const unsigned char *key;
    size_t key_len;
    uint64_t timeout_ns;
};
/** Calls lladd_lock_acquire for the request; `timeout_ns` as for lladd_lock_acquire. */
int lock_wait_take(const struct lock_wait *, uint64_t timeout_ns);

struct participant_io {
    void *ctx;
    uint64_t (*now_ms)(void *ctx); /**< never goes back */
    void (*send)(void *ctx, uint64_t conn, const void *bytes, size_t len);
    /** The connection is not needed any more; sent frames may still go out. The machine has already
     *  forgotten it. */
    void (*drop)(void *ctx, uint64_t conn);
    void (*wait_for_lock)(void *ctx, struct lock_wait *);
};

/** Milliseconds; zero means default. */
struct participant_options {
    uint64_t lock_ms;    /**< longest wait for a lock; default 1000 */
    uint64_t silent_ms;  /**< a coordinator that is silent this long is lost; default 10000 */
    uint64_t inquire_ms; /**< interval of inquiries about an in-doubt transaction; default 1000 */
    uint64_t lazy_ms;    /**< longest time an acknowledgement waits for another force; default 20 */
    size_t txns_max;     /**< open transactions per coordinator; default 10000 */
    size_t waiting_max;  /**< bytes of queued messages per coordinator; default 4 MiB */
};

/** Registers what the database needs (locks). Call it before lladd_open. */
int participant_register(struct lladd_options *, struct lladd_error *);
/** Opens a participant over a database, which must outlive it: creates the table in a new one, and
 *  takes over the transactions in doubt. `io` is copied. */
int participant_open(struct lladd_db *, const struct participant_options *,
                     const struct participant_io *, struct participant **out,
                     struct lladd_error *);
/** Rolls back what is not prepared and frees everything. No lock request may be waiting. */
void participant_close(struct participant *);
/** Frees everything, as the death of the process would; the database is killed next. */
void participant_kill(struct participant *);

void participant_connected(struct participant *, uint64_t conn);
/** A frame without its length. */
void participant_receive(struct participant *, uint64_t conn, const unsigned char *frame,
                         size_t len);
void participant_disconnected(struct participant *, uint64_t conn);
void participant_locked(struct participant *, struct lock_wait *, int rc);
/** The LSN that must become durable before an answer can be sent; 0 if none waits. `urgent`: only
 *  answers for which a coordinator waits. */
lladd_lsn participant_wants(const struct participant *, bool urgent);
/** True if there is at most one transaction, so that a wait delays no other. */
bool participant_alone(const struct participant *);
/** The log is durable up to `lsn`. */
void participant_durable(struct participant *, lladd_lsn lsn);
/** Call it about every ten milliseconds. */
void participant_tick(struct participant *);

/** Not 0: the database is poisoned, and nothing is answered any more. End the process and start it
 *  again, to recover. */
int participant_error(const struct participant *, struct lladd_error *);

struct participant_counts {
    size_t connections, active, prepared, waiting; /**< now */
    uint64_t begun, committed, aborted, one_phase, read_only, refused, inquiries; /**< since open */
};
void participant_count(const struct participant *, struct participant_counts *);

/** Calls fn for every element of the table, in a database without a participant. */
typedef int table_fn(void *ctx, struct lladd_span key, struct lladd_span value);
int participant_table_each(struct lladd_db *, table_fn *, void *ctx, struct lladd_error *);
#endif
