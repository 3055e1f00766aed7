/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLUSTER_HASH_CLUSTER_H
#define CLUSTER_HASH_CLUSTER_H
/**
 * @file
 * @brief The cluster hash table (paper, section 4.2) for programs: one table over several servers.
 *
 * Keys are distributed over the servers by their hash; each key is kept by `replicas` servers. A
 * transaction may read and write any keys. It commits at all servers or at none, whichever process
 * dies at whatever moment. Other transactions do not see its writes before it commits, and what it
 * has read does not change until its end (strict two-phase locking).
 *
 * The coordinator of its transactions is the program itself: cluster_open opens a database of the
 * program's own, which stores a decision until all servers have carried it out. If the program
 * dies, its undecided transactions are rolled back at once, except for those that were being
 * committed at that moment: they keep their locks until the program opens the same directory again.
 * A directory is one coordinator: never copy it, and never delete it while servers have
 * transactions of it in doubt (`cluster-teller inspect` shows them).
 *
 * Errors are LLADD's codes. After any error but LLADD_NOT_FOUND the transaction can only be rolled
 * back. If lladd_code_root says LLADD_ROOT_RETRY, retrying the whole transaction may help, after a
 * pause that grows:
 *
 * - LLADD_BUSY: a server that is needed cannot be reached, or has lost its connection meanwhile; -
 * LLADD_TIMEOUT: a lock or an answer did not come in time; a deadlock over several servers ends
 *    like this;
 * - LLADD_DEADLOCK: a deadlock at one server; - LLADD_CONFLICT: a server does not have all of the
 * transaction (it was restarted).
 *
 * Threads: any number of threads may use a cluster; one at a time may use a transaction. No call
 * waits for ever: at most `call_ms`, a commit at most twice that. A call may run the event loop for
 * other callers too, but returns as soon as it has its own answer.
 */
#include "coordinator.h"

struct cluster;
struct cluster_txn;

/** Zero means default. */
struct cluster_options {
    const char *dir;            /**< the coordinator's database; created if absent */
    const char *const *servers; /**< "127.0.0.1:4711"; their order is part of the data */
    size_t n_servers;
    size_t replicas;  /**< servers that keep each key; default 1; part of the data, too */
    uint64_t call_ms; /**< longest wait for an answer; default 5000 */
};

/** Opens the coordinator's database, which recovers it, and begins to connect. Options are copied.
 *  LLADD_LOCKED: another process has the directory open. */
int cluster_open(const struct cluster_options *, struct cluster **out, struct lladd_error *);
/** All transactions must have ended. */
int cluster_close(struct cluster *);
/** Waits until all servers are connected; LLADD_TIMEOUT, or what cluster_error says. */
int cluster_wait(struct cluster *, uint64_t ms);
/** Not 0: no further transaction will be committed (the database is poisoned, or there is another
 *  coordinator with this id: LLADD_CONFLICT, LLADD_LOCKED). */
int cluster_error(struct cluster *, struct lladd_error *);
void cluster_count(struct cluster *, struct coordinator_counts *);

/** Sends nothing yet. LLADD_NO_MEMORY. */
int cluster_begin(struct cluster *, struct cluster_txn **out);
/** One of several keys to read at once. */
struct cluster_query {
    const void *key;
    size_t key_len; /**< 1 to WIRE_KEY_MAX */
    void *buf;      /**< gets as much of the value as `size` allows */
    size_t size;
    size_t len; /**< out: the value's length */
    int rc;     /**< out: 0, LLADD_NOT_FOUND, or another */
};
/** Reads n keys in parallel. `update`: the keys will be written, so no other transaction may read
 *  them for update. 0 if each query's rc is 0 or LLADD_NOT_FOUND; otherwise the first other one. */
int cluster_get_many(struct cluster_txn *, struct cluster_query *, size_t n, bool update);
int cluster_get(struct cluster_txn *, const void *key, size_t key_len, bool update, void *buf,
                size_t size, size_t *len);
/** Gives a key a value of at most WIRE_VALUE_MAX bytes. Does not wait: the commit reports whether
 *  it succeeded. Later reads of the transaction see it. LLADD_KEY_SIZE, LLADD_TOO_LARGE,
 *  LLADD_NO_MEMORY: not done, and the transaction is unchanged. */
int cluster_put(struct cluster_txn *, const void *key, size_t key_len, const void *value,
                size_t value_len);
/** Adds to the little-endian number in the first eight bytes of a value, without reading it. The
 *  commit fails, and nothing has happened, if there is no such key (LLADD_NOT_FOUND), no such
 *  number, or the sum overflows (LLADD_OUT_OF_RANGE). */
int cluster_add(struct cluster_txn *, const void *key, size_t key_len, int64_t delta);
/** Removes a key; an absent key is fine. Does not wait, like cluster_put. */
int cluster_delete(struct cluster_txn *, const void *key, size_t key_len);
/** 0: committed, durably; CLUSTER_UNKNOWN; any other code: not committed at any server. Frees the
 *  transaction in any case. */
int cluster_commit(struct cluster_txn *);
void cluster_abort(struct cluster_txn *);
#endif
