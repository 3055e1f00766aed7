/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_REPLICA_H
#define LL_REPLICA_H
/* Replicas: the declarations that the source files of operations/replica/ share. These files use
 * only the library's public headers and helpers of operations/shared/.
 *
 *   stream.c      events as bytes
 *   state.c       opening and closing
 *   stored.c      the stored state as bytes
 *   positions.c   what the replica has, needs, and no longer needs
 *   master.c      the open master transactions and their events
 *   apply.c       events into local transactions
 *
 *   REP-1  A row is put only when its master transaction has committed, in a local transaction of
 *          whole master transactions, in the order of their commits. So local commits have the
 *          order of the source's commits, and no reader sees a part of a master transaction.
 *   REP-2  Each table has a position {commit, from}: its runs have the master transactions up to
 *          `commit`, and every other one begins at or after `from`. The stored state of the replica
 *          has a position, too, which holds for all tables. It is stored only when each table has a
 *          position of its runs that is not lower, or has no row outside of its runs. So for each
 *          table the higher one of the two positions holds.
 *   REP-3  The restart position is the smallest `from` of the tables' positions. An event after it
 *          may belong to a master transaction that began before it. Such a transaction has
 *          committed up to the smallest `commit`, so all tables have it, and its events are
 *          dropped. At its COMMIT, a transaction is dropped for each table that has it.
 *   REP-4  Until the stream has passed the highest `commit` that a table had at the open, a
 *          transaction may be in one table and not yet in another. Readers wait until then.
 *   REP-5  lladd_replica_durable never exceeds what the durable positions give. */
#include "operations/shared/grow.h"
#include "operations/shared/index.h"
#include "operations/shared/try.h"

#include <lladd/bytes.h>
#include <lladd/dst.h>
#include <lladd/dtable_class.h>
#include <lladd/replica.h>
#include <lladd/sync.h>

struct ll_replicas;

enum {
    LL_REPLICA_VERSION = 1, /* of the stored state */
    LL_REPLICA_RANK = LLADD_RANK_LEAF + 70,
    LL_REPLICA_SOURCE_MAX = 255
};

#define LL_REPLICA_ROOT "replica:" /* before the replica's name; then perhaps ':' and a slot */

/* A master transaction. It is open, and in the index and the list of open ones; or it has ended and
 * waits for its local transaction. */
struct ll_replica_master {
    struct ll_index_node node; /* the key is the transaction's number */
    struct ll_replica_master *prev, *next;
    uint64_t begin;
    struct lladd_managed_position end; /* its COMMIT, and the `from` that was right at that time */
    bool aborted;
    unsigned char *bytes; /* its events as bytes; before them: those in the blob */
    size_t len, room;
    uint32_t slot; /* the blob's number among those of this replica; 0: there is no blob */
    lladd_pageno blob;
    uint64_t spilled; /* bytes in the blob */
};

struct ll_replica_masters {
    struct ll_replica_master *first, *last;
    uint64_t n;
};

struct ll_replica_table {
    char *name;
    struct lladd_managed *managed; /* NULL: closed */
    struct lladd_dtable_order order;
    struct lladd_managed_position had; /* what it had at the open (REP-2) */
    uint64_t put;                      /* the newest commit of which it got rows since; 0: none */
    bool positioned;                   /* the local transaction has put rows */
};

struct lladd_replica {
    struct lladd_db *db;
    struct ll_replicas *all;
    struct lladd_replica *next; /* in ll_replicas */
    char *name, *source;        /* source: NULL if there is none */
    struct ll_replica_table *tables;
    size_t n_tables;
    uint64_t buffer_bytes, batch, batch_ns, lag;
    bool check;

    uint64_t restart;      /* events before it are skipped */
    uint64_t covered;      /* all tables have the transactions that committed up to here (REP-3) */
    uint64_t consistent;   /* REP-4 */
    uint64_t seen;         /* atomic: position of the last event that was taken; 0: none */
    uint64_t tended;       /* `seen` at the last look for tables that lag */
    struct ll_index index; /* of open master transactions */
    struct ll_replica_masters open, ended;
    uint64_t ended_ns, ended_bytes; /* when the first one of `ended` did; bytes of their events */
    uint64_t buffered, spilled;
    uint64_t transactions, rows, dropped;

    uint32_t busy;            /* atomic: a thread is in lladd_replica_apply */
    uint32_t closing;         /* atomic: a close was tried, and tables may be closed */
    struct lladd_error unsettled; /* why that close could not store everything */
    struct lladd_mutex mutex; /* a leaf; protects the following members */
    struct lladd_cond passed;
    uint64_t applied; /* master transactions that ended up to here are visible, or were dropped */
    lladd_pageno blob;
    struct lladd_managed_position stored, stored_before; /* state: the newest one; the newest one
                                                          * that was durable before it */
    lladd_lsn stored_at;                                 /* the commit that stored `stored` */
};

/* ---- stream.c -------------------------------------------------------------------------------- */

/* Appends the bytes of a valid event to a buffer that has room for ll_replica__size of them. */
size_t ll_replica__size(const struct lladd_replica_event *);
void ll_replica__write(const struct lladd_replica_event *, unsigned char *to);
/* Does the kind have a table and keys? */
static inline bool ll_replica__changes(enum lladd_replica_kind kind)
{
    return kind >= LLADD_REPLICA_PUT && kind <= LLADD_REPLICA_DELETE_RANGE;
}
/* Returns LLADD_BAD_ARGUMENT, with the reason, unless the event can be written as bytes. */
int ll_replica__valid(const struct lladd_replica_event *, struct lladd_error *);

/* ---- state.c --------------------------------------------------------------------------------- */

int ll_replica__no_memory(struct lladd_error *);
/* Runs `what` in a transaction. *at (nullable) gets the commit's LSN. */
int ll_replica__in_txn(struct lladd_replica *, enum lladd_durability,
                       int (*what)(void *ctx, struct lladd_txn *), void *ctx, lladd_lsn *at,
                       struct lladd_error *);
/* Copies `len` bytes as a text. */
int ll_replica__copy_text(struct lladd_db *, const void *text, size_t len, char **out,
                          struct lladd_error *);
/* Makes room for n tables; adds one of them, which is not open yet. */
int ll_replica__make_tables(struct lladd_replica *, size_t n, struct lladd_error *);
int ll_replica__add_table(struct lladd_replica *, const void *name, size_t len,
                          struct lladd_error *);
/* The names of the roots of a replica and of a spilled transaction's blob. */
void ll_replica__root_name(const char *name, char out[LLADD_ROOT_NAME_MAX + 1]);
void ll_replica__slot_name(const struct lladd_replica *, uint32_t slot,
                           char out[LLADD_ROOT_NAME_MAX + 1]);

/* ---- stored.c -------------------------------------------------------------------------------- */

/* Reads the blob: tables, source, position. This state is durable then. */
int ll_replica__read(struct lladd_replica *, struct lladd_error *);
/* Returns LLADD_BAD_ARGUMENT if ll_replica__read would refuse the state as too long. */
int ll_replica__check_size(const struct lladd_replica *, struct lladd_error *);
/* Makes the blob and its root; ctx is the replica. */
int ll_replica__make(void *ctx, struct lladd_txn *);
/* Replaces the position in the blob; ctx is a struct ll_replica_storing. */
struct ll_replica_storing {
    struct lladd_replica *r;
    struct lladd_managed_position at;
};
int ll_replica__replace(void *ctx, struct lladd_txn *);

/* ---- positions.c ----------------------------------------------------------------------------- */

/* Returns 0 if calls may use the replica. */
int ll_replica__usable(struct lladd_replica *, struct lladd_error *);
/* Gets the position of the table's runs. Sets *rows to whether it has rows outside of them. */
int ll_replica__table_at(const struct ll_replica_table *, struct lladd_managed_position *,
                         bool *rows, struct lladd_error *);
/* The position of the next event that the replica needs. */
uint64_t ll_replica__next(struct lladd_replica *);
/* Stores the state if it has advanced. With LLADD_DURABLE, also the one that is stored becomes
 * durable. */
int ll_replica__store(struct lladd_replica *, enum lladd_durability, struct lladd_error *);

/* ---- master.c -------------------------------------------------------------------------------- */

struct ll_replica_master *ll_replica__open(struct lladd_replica *, uint64_t txn, uint64_t begin,
                                           struct lladd_error *);
/* Keeps an event of an open transaction; moves its events to a blob if they have become many. */
int ll_replica__keep(struct lladd_replica *, struct ll_replica_master *,
                     const struct lladd_replica_event *, struct lladd_error *);
/* Moves a transaction from the open ones to those that have ended. */
void ll_replica__end(struct lladd_replica *, struct ll_replica_master *, uint64_t at, bool aborted);
/* Calls `fn` for all events of a transaction. Their bytes live as long as the transaction; but the
 * bytes of events in its blob live only until `flush` is called. */
struct ll_replica_replay {
    int (*fn)(void *ctx, const struct lladd_replica_event *);
    int (*flush)(void *ctx);
    void *ctx;
};
int ll_replica__replay(struct lladd_replica *, const struct ll_replica_master *,
                       const struct ll_replica_replay *, struct lladd_error *);
/* Destroys the blob of an ended transaction. */
int ll_replica__unspill(struct lladd_txn *, struct lladd_replica *,
                        const struct ll_replica_master *);
/* Forgets all transactions of a list, which have no blob any more that must be destroyed. */
void ll_replica__forget(struct lladd_replica *, struct ll_replica_masters *);

#endif
