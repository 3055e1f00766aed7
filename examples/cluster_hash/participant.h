/* SPDX-License-Identifier: BSD-2-Clause */
/* A server of the cluster hash table, without its sockets: one hash table with locks in one
 * database, and the participant's part of presumed-abort two-phase commit (README.md).
 *
 * A machine: it is fed with what happens (bytes, time, a lock that came, a log that became durable)
 * and answers through `struct participant_io`. It never waits: neither for locks nor for the log.
 * So the same code runs in server.c over libuv and in the tests in a world of its own.
 *
 * Threads: one at a time. Connections are numbers that the shell chooses and never reuses. */
#ifndef CLUSTER_HASH_PARTICIPANT_H
#define CLUSTER_HASH_PARTICIPANT_H
#include "wire.h"

#include <lladd/lock.h>

struct participant;

/** A lock somebody has to wait for: whoever runs the machine calls lladd_lock with these, in
 *  another thread or again and again, and then participant_locked with what it returned. Until then
 *  the transaction is his. The machine's. */
struct lock_wait {
    struct participant *participant;
    struct lladd_txn *txn;
    enum lladd_lock_mode mode;
    const unsigned char *key;
    size_t key_len;
    uint64_t timeout_ns;
};
/** The lock call that a wait stands for; `timeout_ns` as for lladd_lock. */
int lock_wait_take(const struct lock_wait *, uint64_t timeout_ns);

struct participant_io {
    void *ctx;
    uint64_t (*now_ms)(void *ctx); /**< never goes back */
    void (*send)(void *ctx, uint64_t conn, const void *bytes, size_t len);
    /** The connection is of no use any more; what was sent may still go out. The machine has
     *  forgotten it. */
    void (*drop)(void *ctx, uint64_t conn);
    void (*wait_for_lock)(void *ctx, struct lock_wait *);
};

/** Milliseconds; zero means default. */
struct participant_options {
    uint64_t lock_ms;    /**< longest wait for a lock; default 1000 */
    uint64_t silent_ms;  /**< a coordinator not heard of for so long has gone; default 10000 */
    uint64_t inquire_ms; /**< how often to ask what became of a transaction; default 1000 */
    uint64_t lazy_ms;    /**< longest time an acknowledgement waits for company; default 20 */
    size_t txns_max;     /**< open transactions of one coordinator; default 10000 */
    size_t waiting_max;  /**< bytes of messages that wait for locks, of one; default 4 MiB */
};

/** Registers what the database needs (locks). Before lladd_open. */
int participant_register(struct lladd_options *, struct lladd_error *);
/** Over an open database, which must outlive it: makes the table in a new one, and takes over what
 *  is in doubt. `io` is copied. */
int participant_open(struct lladd_db *, const struct participant_options *,
                     const struct participant_io *, struct participant **out,
                     struct lladd_error *);
/** Aborts what is not prepared and frees all. No lock may be waited for any more. */
void participant_close(struct participant *);
/** Frees all as the death of the process would: the database is killed next. */
void participant_kill(struct participant *);

void participant_connected(struct participant *, uint64_t conn);
/** A frame without its length. */
void participant_receive(struct participant *, uint64_t conn, const unsigned char *frame,
                         size_t len);
void participant_disconnected(struct participant *, uint64_t conn);
void participant_locked(struct participant *, struct lock_wait *, int rc);
/** The LSN that must become durable so that an answer can leave; 0 if none waits. `urgent`: not
 *  counting those for which nobody waits. */
lladd_lsn participant_wants(const struct participant *, bool urgent);
/** Is there at most one transaction here, so that nobody else would be kept from anything? */
bool participant_alone(const struct participant *);
/** What was logged up to `lsn` is durable. */
void participant_durable(struct participant *, lladd_lsn lsn);
/** Once every ten milliseconds or so. */
void participant_tick(struct participant *);

/** Not 0: the database is poisoned, nothing will be answered any more; end the process, and
 *  recover. */
int participant_error(const struct participant *, struct lladd_error *);

struct participant_counts {
    size_t connections, active, prepared, waiting; /**< now */
    uint64_t begun, committed, aborted, one_phase, read_only, refused, inquiries; /**< since open */
};
void participant_count(const struct participant *, struct participant_counts *);

/** Calls fn for every element of the table in a database without a participant. */
typedef int table_fn(void *ctx, struct lladd_span key, struct lladd_span value);
int participant_table_each(struct lladd_db *, table_fn *, void *ctx, struct lladd_error *);
#endif
