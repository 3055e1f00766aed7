/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_REPLICA_SOURCE_H
#define LLADD_REPLICA_SOURCE_H
/**
 * @file
 * @brief A database as the source of replicas: the changes of logged managed dTables as events.
 *
 * A source gives whole transactions, in the order of their commits, as soon as they are durable. It
 * reads them from the log, so they cost the transactions nothing. A pin keeps the log that a
 * replica may ask for after a crash.
 *
 *     lladd_replica_source_open(db, "shop", tables, 2, from, &s, err);
 *     ...
 *     while (lladd_replica_source_next(s, &event, err) == 0)
 *         send(&event);                                  LLADD_END: nothing more for now
 *     lladd_replica_source_acknowledge(s, durable, err);     from lladd_replica_durable
 *
 * The position of a COMMIT event is the LSN of the commit. The other events of its transaction have
 * positions just before it. A source begins with a whole transaction. So when the connection to a
 * replica breaks, close the replica, which drops a transaction that is not complete, and open it
 * again.
 * @ingroup operations
 */
#include <lladd/replica.h>

#ifdef __cplusplus
extern "C" {
#endif

/** One thread at a time uses a source. */
struct lladd_replica_source;

/** Opens a source of n logged managed tables, from a position of lladd_replica_from on; 0: all that
 *  the tables ever had. It opens the tables, and sets the pin "replica.<name>", which stays when
 *  the source is closed: the name has 1 to 55 bytes. After an error there is no new pin.
 *  LLADD_OUT_OF_RANGE, with both LSNs: the log from `from` on is gone, and the tables must be
 *  copied anew. LLADD_BAD_STATE: a table is unlogged. Other errors are those of lladd_managed_open
 *  and lladd_pin_set. */
LLADD_API int lladd_replica_source_open(struct lladd_db *, const char *name,
                                        const char *const *tables, size_t n, uint64_t from,
                                        struct lladd_replica_source **out, struct lladd_error *);
/** Gets the next event; what it points to lives until the next call for this source. BEGIN, PUT,
 *  DELETE and DELETE_RANGE, COMMIT of one transaction follow each other; transactions that abort do
 *  not appear. `before` is not sent. A MARK follows when all durable commits have been given.
 *  LLADD_END: there is nothing more for now. Errors are those of lladd_journal_follow_next;
 *  LLADD_BAD_RECORD for an entry that is no row of its table; LLADD_BAD_ARGUMENT if the position at
 *  which the source was opened is between the events of a transaction. */
LLADD_API int lladd_replica_source_next(struct lladd_replica_source *, struct lladd_replica_event *,
                                        struct lladd_error *);
/** The replica will not ask for events before this position again (lladd_replica_durable). Moves
 *  the pin if that frees a megabyte of log or more. The thread must hold no page, as for
 *  lladd_pin_set. */
LLADD_API int lladd_replica_source_acknowledge(struct lladd_replica_source *, uint64_t position,
                                               struct lladd_error *);
/** Closes the source and its tables; NULL does nothing. The pin stays, for the next time. To give
 *  the replica up, clear the pin. */
LLADD_API int lladd_replica_source_close(struct lladd_replica_source *, struct lladd_error *);

#ifdef __cplusplus
}
#endif
#endif
