/* SPDX-License-Identifier: BSD-2-Clause */
/* A server of the cluster hash table, without its sockets: one hash table with locks in one
 * database, and the participant's side of presumed-abort two-phase commit (README.md).
 *
 * A state machine: a shell calls it for each event (received bytes, time, a granted lock, a durable
 * log), and it answers through `struct participant_io`. It never waits, neither for locks nor for
 * the log. So the participant runs in server.c with libuv, and in the tests with simulated
 * connections and time.
 *
 * Threads: one at a time. A connection has a number, which the shell chooses and never reuses. */
#ifndef CLUSTER_HASH_PARTICIPANT_H
#define CLUSTER_HASH_PARTICIPANT_H
#include "wire.h"

#include <lladd/lock.h>

struct participant;

/** A lock request that must wait. The shell calls lock_wait_take, in another thread or repeatedly,
 *  and then participant_locked with the result. Until this call only the shell may use the
 *  transaction. The participant owns this struct. */
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
    uint64_t (*now_ms)(void *ctx); /**< milliseconds; never decreases */
    void (*send)(void *ctx, uint64_t conn, const void *bytes, size_t len);
    /** Closes a connection; frames that were sent before may still be delivered. The participant
     *  does not use the connection any more. */
    void (*drop)(void *ctx, uint64_t conn);
    void (*wait_for_lock)(void *ctx, struct lock_wait *);
};

/** Names that end in _ms are milliseconds. Zero means default. */
struct participant_options {
    uint64_t lock_ms;    /**< longest wait for a lock; default 1000 */
    uint64_t silent_ms;  /**< the connection of a coordinator that is silent for this time is
                              dropped; default 10000 */
    uint64_t inquire_ms; /**< interval of inquiries about an in-doubt transaction; default 1000 */
    uint64_t lazy_ms;    /**< longest time that an acknowledgement waits for a force that another
                              answer needs; default 20 */
    size_t txns_max;     /**< open transactions per coordinator; default 10000 */
    size_t waiting_max;  /**< bytes of queued messages per coordinator; default 4 MiB */
};

/** Registers the extensions that the database needs (locks). Call it before lladd_open. */
int participant_register(struct lladd_options *, struct lladd_error *);
/** Opens a participant over a database, which must outlive it: creates the table in a new database,
 *  and takes over the transactions in doubt. `io` is copied. */
int participant_open(struct lladd_db *, const struct participant_options *,
                     const struct participant_io *, struct participant **out,
                     struct lladd_error *);
/** Rolls back the unprepared transactions and frees the participant. No lock request may be
 *  waiting. */
void participant_close(struct participant *);
/** Frees the participant as if the process had died; the caller then kills the database. */
void participant_kill(struct participant *);

void participant_connected(struct participant *, uint64_t conn);
/** Handles a received frame, without its length field. */
void participant_receive(struct participant *, uint64_t conn, const unsigned char *frame,
                         size_t len);
void participant_disconnected(struct participant *, uint64_t conn);
void participant_locked(struct participant *, struct lock_wait *, int rc);
/** The LSN that must become durable so that all waiting answers can be sent; 0: no answer waits.
 *  `urgent`: considers only answers for which a coordinator waits. */
lladd_lsn participant_wants(const struct participant *, bool urgent);
/** True if the server has at most one transaction, so that a wait delays no other transaction. */
bool participant_alone(const struct participant *);
/** The log is durable up to `lsn`. */
void participant_durable(struct participant *, lladd_lsn lsn);
/** Call it about every ten milliseconds. */
void participant_tick(struct participant *);

/** If the result is not 0, the database is poisoned, and the participant sends no more answers. End
 *  the process and start it again, to recover. */
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
