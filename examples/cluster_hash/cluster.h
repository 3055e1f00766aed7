/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLUSTER_HASH_CLUSTER_H
#define CLUSTER_HASH_CLUSTER_H
/**
 * @file
 * @brief The cluster hash table (paper, section 4.2) for programs: one table over several servers.
 *
 * Keys are dealt out to servers by their hash; each is kept by `replicas` servers. A transaction
 * may read and write any keys: it happens at all servers or at none, whoever dies when. Nobody sees
 * what another transaction has written and not yet committed, and what a transaction has read stays
 * as it is until its end (strict two-phase locking).
 *
 * The coordinator of its transactions is the program itself: cluster_open opens a database of the
 * program's own, in which its decisions stand until all servers have carried them out. When the
 * program dies, its transactions that were not decided are rolled back at once, apart from those
 * that were being committed at that moment: they keep their locks until the program opens the same
 * directory again. One directory is one coordinator: never copy it, and never give it up while
 * servers have something of it in doubt (`cluster-teller inspect` tells).
 *
 * Errors are LLADD's codes. After one other than LLADD_NOT_FOUND the transaction can only be rolled
 * back. Where lladd_code_root says LLADD_ROOT_RETRY, trying the whole transaction again may help,
 * after a pause that grows:
 *
 *  - LLADD_BUSY: a server that is needed cannot be reached, or has lost its connection meanwhile;
 *  - LLADD_TIMEOUT: a lock, or an answer, did not come in time; locks that transactions wait for in
 *    a circle over several servers end like this;
 *  - LLADD_DEADLOCK: such a circle at one server;
 *  - LLADD_CONFLICT: a server does not have all of the transaction (it was restarted).
 *
 * Threads: a cluster may be used by any number, a transaction by one at a time. No call waits for
 * ever: `call_ms`, and for commit that twice. A call may run the event loop, also for others; their
 * answers do not keep it.
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
/** Not 0: no further transaction will be committed (a database that is poisoned, or another
 *  coordinator with this id: LLADD_CONFLICT, LLADD_LOCKED). */
int cluster_error(struct cluster *, struct lladd_error *);
void cluster_count(struct cluster *, struct coordinator_counts *);

/** Sends nothing yet. LLADD_NO_MEMORY. */
int cluster_begin(struct cluster *, struct cluster_txn **out);
/** One of several keys to be read at a time. */
struct cluster_query {
    const void *key;
    size_t key_len; /**< 1 to WIRE_KEY_MAX */
    void *buf;      /**< gets as much of the value as `size` allows */
    size_t size;
    size_t len; /**< out: the value's length */
    int rc;     /**< out: 0, LLADD_NOT_FOUND, or another */
};
/** Reads n keys side by side. `update`: they will be written, so nobody else may read them for
 *  that. 0 if each query's rc is 0 or LLADD_NOT_FOUND; else the first other one. */
int cluster_get_many(struct cluster_txn *, struct cluster_query *, size_t n, bool update);
int cluster_get(struct cluster_txn *, const void *key, size_t key_len, bool update, void *buf,
                size_t size, size_t *len);
/** Gives a key a value of at most WIRE_VALUE_MAX bytes. Not waited for: whether it could be done,
 *  the commit says. Reads that follow see it. LLADD_KEY_SIZE, LLADD_TOO_LARGE, LLADD_NO_MEMORY: not
 *  done, and the transaction is as it was. */
int cluster_put(struct cluster_txn *, const void *key, size_t key_len, const void *value,
                size_t value_len);
/** Adds to the little-endian number in the first eight bytes of a value, without reading it. If
 *  there is no such key (LLADD_NOT_FOUND) or number, or the sum is none (LLADD_OUT_OF_RANGE), the
 *  commit says so, and nothing has happened. */
int cluster_add(struct cluster_txn *, const void *key, size_t key_len, int64_t delta);
/** The same for removing; a key that is not there is fine. */
int cluster_delete(struct cluster_txn *, const void *key, size_t key_len);
/** 0: it has happened, durably; CLUSTER_UNKNOWN; another: it has not happened anywhere. Frees the
 *  transaction in any case. */
int cluster_commit(struct cluster_txn *);
void cluster_abort(struct cluster_txn *);
#endif
