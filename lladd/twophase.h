/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_TWOPHASE_H
#define LLADD_TWOPHASE_H
/**
 * @file
 * @brief Two-phase commit: preparing, transactions in doubt, heuristic outcomes.
 *
 * A prepared transaction survives a crash and waits for its coordinator's decision. After a restart
 * it is in doubt until it is claimed and ended. An administrator can end it without the
 * coordinator; the outcome is then remembered until the coordinator has learnt it
 * (docs/two-phase-commit.md).
 * @ingroup lladd
 */
#include <lladd/error.h>
#include <lladd/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lladd_db;
struct lladd_txn;

/** A global transaction id; an X/Open XID fits. */
struct lladd_gid {
    int64_t format;          /**< not -1 */
    uint32_t gtrid_length;   /**< 1 to 64 */
    uint32_t bqual_length;   /**< 0 to 64 */
    unsigned char data[128]; /**< gtrid, then bqual */
};

/** Prepares: after 0 the transaction can be committed or aborted whatever happens, and the prepare
 *  record is durable. Then only commit, abort and lladd_heuristic_end are legal. LLADD_EXISTS if
 *  the id is in use, also by a heuristic outcome that has not been forgotten; LLADD_OPEN_ACTION
 *  inside a top action. After an error the transaction is as before. */
LLADD_API int lladd_prepare(struct lladd_txn *, const struct lladd_gid *);
/** The same without waiting, for a thread that prepares many transactions. The caller must not
 *  report the transaction as prepared before lladd_wait_durable(*out) has returned 0; until then a
 *  crash may roll it back. Commit and abort are legal at once. Participants are not told when the
 *  record is durable (`prepared`), so locks that could be released then stay until the end. */
LLADD_API int lladd_prepare_async(struct lladd_txn *, const struct lladd_gid *, lladd_lsn *out);

/** A prepared transaction that has not ended. */
struct lladd_in_doubt_info {
    struct lladd_gid gid;
    lladd_lsn txn;       /**< its id, the LSN of its first record */
    int64_t prepared_us; /**< wall clock, microseconds since 1970 */
    bool claimed;        /**< the program has its handle */
    char owner[64];      /**< lladd_txn_options.owner */
};
/** Gets each transaction; the info is valid during the call. Not 0 stops. */
typedef int lladd_in_doubt_fn(void *ctx, const struct lladd_in_doubt_info *);
/** Calls fn for every transaction that is prepared and not ended, in no order; the result of fn
 *  that is not 0 stops and is returned. Any thread; fn may make any call on the database. */
LLADD_API int lladd_in_doubt_each(struct lladd_db *, lladd_in_doubt_fn *, void *ctx,
                                  struct lladd_error *);
/** Hands out, once, an in-doubt transaction found by recovery (then LLADD_BUSY). The caller commits
 *  or aborts it. LLADD_NOT_FOUND: there is no such transaction. LLADD_HEUR_COMMITTED,
 *  LLADD_HEUR_ABORTED: an administrator has already ended it (lladd_heuristic_end). */
LLADD_API int lladd_in_doubt_claim(struct lladd_db *, const struct lladd_gid *,
                                   struct lladd_txn **out, struct lladd_error *);

/** How a transaction ended. */
enum lladd_outcome { LLADD_OUTCOME_COMMIT = 1, LLADD_OUTCOME_ABORT = 2 };

/** Ends a prepared transaction by an administrator's decision, because its coordinator cannot be
 *  asked. The outcome is remembered, durably when the call returns 0, until lladd_heuristic_forget:
 *  a call that claims the transaction gets the outcome, and its global id stays in use. Consumes
 *  the handle as lladd_commit does; LLADD_BAD_STATE if the transaction is not prepared. Older
 *  libraries cannot open a database in which this was used. */
LLADD_API int lladd_heuristic_end(struct lladd_txn *, enum lladd_outcome);

/** A remembered heuristic outcome. */
struct lladd_heuristic_info {
    struct lladd_gid gid;
    enum lladd_outcome outcome;
    int64_t prepared_us, decided_us; /**< wall clock, microseconds since 1970 */
    char owner[64];                  /**< lladd_txn_options.owner */
};
/** Gets each outcome; the info is valid during the call. Not 0 stops. */
typedef int lladd_heuristic_fn(void *ctx, const struct lladd_heuristic_info *);
/** Calls fn for every remembered outcome; the result of fn that is not 0 stops and is returned. Any
 *  thread; fn may make any call on the database. */
LLADD_API int lladd_heuristic_each(struct lladd_db *, lladd_heuristic_fn *, void *ctx,
                                   struct lladd_error *);
/** Forgets an outcome, durably, because its coordinator has learnt it. LLADD_NOT_FOUND if there is
 *  none. */
LLADD_API int lladd_heuristic_forget(struct lladd_db *, const struct lladd_gid *,
                                     struct lladd_error *);

#ifdef __cplusplus
}
#endif
#endif
