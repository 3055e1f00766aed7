/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLUSTER_HASH_CLUSTER_H
#define CLUSTER_HASH_CLUSTER_H
/**
 * @file
 * @brief The cluster hash table (LLADD paper, section 4.2) for programs: one table over several
 * servers.
 *
 * Keys are distributed over the servers by their hash; `replicas` servers store each key. A
 * transaction may read and write any keys. It commits at all servers or at none, whatever processes
 * die at any moment. Other transactions do not see its writes before it commits, and the values
 * that it has read do not change until it ends (strict two-phase locking).
 *
 * The program is the coordinator of its transactions: cluster_open opens a database of the program,
 * which stores each decision to commit until all servers have carried it out. If the program dies,
 * each server that loses the connection rolls back its part of the program's transactions, except
 * for transactions that are prepared there: these keep their locks until the program opens the
 * directory again. A directory is one coordinator: never copy it, and never delete it while
 * transactions of this coordinator are in doubt at servers (`cluster-teller inspect` shows them).
 *
 * Errors are LLADD's codes, and CLUSTER_UNKNOWN (coordinator.h). After an error of a read, except
 * LLADD_NOT_FOUND, the transaction can only be rolled back. If lladd_code_root returns
 * LLADD_ROOT_RETRY for the code, the program may retry the whole transaction, with growing pauses:
 *
 *  - LLADD_BUSY: a server that the transaction needs cannot be reached, or its connection was lost;
 *  - LLADD_TIMEOUT: a lock was not granted, or an answer did not come, in time; also the result of
 *    a deadlock over several servers;
 *  - LLADD_DEADLOCK: a deadlock at one server;
 *  - LLADD_CONFLICT: a server has lost reads or writes of the transaction, usually because the
 *    server was restarted.
 *
 * Threads: any number of threads may use a cluster; one at a time may use a transaction. A call
 * waits at most `call_ms` for the servers. The commit of a transaction that has written at several
 * servers also waits until the decision is durable in the program's database. A call may also run
 * the event loop for other callers, but returns as soon as it has its own answer.
 */
#include "coordinator.h"

struct cluster;
struct cluster_txn;

/** `dir`, `servers` and `n_servers` must be set. For the other members, zero means the default. */
struct cluster_options {
    const char *dir;            /**< directory of the coordinator's database, which is created if it
                                     does not exist */
    const char *const *servers; /**< addresses like "127.0.0.1:4711"; their order must never
                                     change */
    size_t n_servers;
    size_t replicas;  /**< number of servers that store each key; default 1; must never change */
    uint64_t call_ms; /**< longest wait for an answer; default 5000 */
};

/** Opens and recovers the coordinator's database, and begins to connect to the servers. The options
 *  are copied. LLADD_LOCKED: another process has the directory open. */
int cluster_open(const struct cluster_options *, struct cluster **out, struct lladd_error *);
/** Closes the cluster. All transactions must have ended. */
int cluster_close(struct cluster *);
/** Waits until all servers are connected. LLADD_TIMEOUT, or the code that cluster_error returns. */
int cluster_wait(struct cluster *, uint64_t ms);
/** If the result is not 0, the coordinator commits no more transactions: its database is poisoned,
 *  or a server has seen another coordinator with the same id, as after the directory was copied
 *  (LLADD_CONFLICT, LLADD_LOCKED). */
int cluster_error(struct cluster *, struct lladd_error *);
void cluster_count(struct cluster *, struct coordinator_counts *);

/** Begins a transaction, without a message to a server. LLADD_NO_MEMORY. */
int cluster_begin(struct cluster *, struct cluster_txn **out);
/** One of several keys that are read together. */
struct cluster_query {
    const void *key;
    size_t key_len; /**< 1 to WIRE_KEY_MAX */
    void *buf;      /**< gets as much of the value as `size` allows */
    size_t size;
    size_t len; /**< out: the value's length */
    int rc;     /**< out: 0, LLADD_NOT_FOUND, or another error */
};
/** Reads n keys in parallel. `update`: the keys will be written, so no other transaction may read
 *  them for update. Returns 0 if each query's rc is 0 or LLADD_NOT_FOUND; otherwise the first other
 *  rc. */
int cluster_get_many(struct cluster_txn *, struct cluster_query *, size_t n, bool update);
int cluster_get(struct cluster_txn *, const void *key, size_t key_len, bool update, void *buf,
                size_t size, size_t *len);
/** Gives a key a value of at most WIRE_VALUE_MAX bytes. Does not wait: the commit returns an error
 *  if the write failed. Later reads of the transaction see the value. LLADD_KEY_SIZE,
 *  LLADD_TOO_LARGE, LLADD_NO_MEMORY: the transaction is unchanged. */
int cluster_put(struct cluster_txn *, const void *key, size_t key_len, const void *value,
                size_t value_len);
/** Adds to the little-endian number in the first eight bytes of a value, without reading the value.
 *  The commit returns an error, and the transaction is rolled back, if the key does not exist
 *  (LLADD_NOT_FOUND), the value is too short, or the sum overflows (LLADD_OUT_OF_RANGE). */
int cluster_add(struct cluster_txn *, const void *key, size_t key_len, int64_t delta);
/** Removes a key; no error if the key does not exist. Does not wait, like cluster_put. */
int cluster_delete(struct cluster_txn *, const void *key, size_t key_len);
/** 0: the transaction is committed, durably; CLUSTER_UNKNOWN: see coordinator.h; any other code: it
 *  is not committed at any server. Frees the transaction in any case. */
int cluster_commit(struct cluster_txn *);
void cluster_abort(struct cluster_txn *);
#endif
