/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_TWOPHASE_H
#define LLADD_TWOPHASE_H
/**
 * @file
 * @brief Two-phase commit: preparing, transactions in doubt, heuristic outcomes.
 *
 * A prepared transaction survives a crash and waits for its coordinator's decision. After a restart
 * the transaction is in doubt until a program claims and ends it. An administrator can end it
 * without the coordinator; the outcome is then remembered until the coordinator has learned it
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

/** Prepares the transaction. After 0 the prepare record is durable, and the transaction can be
 *  committed or aborted even after a crash. From then on only commit, abort and lladd_heuristic_end
 *  are allowed. LLADD_EXISTS if the id is in use, also by a heuristic outcome that has not been
 *  forgotten; LLADD_OPEN_ACTION while a top action is open. After an error other than a poison code
 *  the transaction is unchanged. */
LLADD_API int lladd_prepare(struct lladd_txn *, const struct lladd_gid *);
/** Does the same as lladd_prepare, but without waiting, for a thread that prepares many
 *  transactions. The caller must not report the transaction as prepared before
 *  lladd_wait_durable(*out) has returned 0; until then a crash may roll the transaction back.
 *  Commit and abort are allowed immediately. The callback lladd_participant.prepared is not called,
 *  so locks that it would release stay until the transaction ends. */
LLADD_API int lladd_prepare_async(struct lladd_txn *, const struct lladd_gid *, lladd_lsn *out);

/** A prepared transaction that has not ended. */
struct lladd_in_doubt_info {
    struct lladd_gid gid;
    lladd_lsn txn;       /**< the transaction's id, the LSN of its first record */
    int64_t prepared_us; /**< wall clock, microseconds since 1970 */
    bool claimed;        /**< a caller has the transaction's handle */
    char owner[64];      /**< lladd_txn_options.owner */
};
/** Receives a transaction; the info is valid during the call. */
typedef int lladd_in_doubt_fn(void *ctx, const struct lladd_in_doubt_info *);
/** Calls `fn` for every transaction that is prepared and has not ended, in no order. If `fn` does
 *  not return 0, stops and returns that value. Any thread; `fn` may make any call on the
 *  database. */
LLADD_API int lladd_in_doubt_each(struct lladd_db *, lladd_in_doubt_fn *, void *ctx,
                                  struct lladd_error *);
/** Returns the handle of an in-doubt transaction that recovery has found; the caller commits or
 *  aborts it. LLADD_BUSY if the transaction was claimed before, or was prepared after lladd_open.
 *  LLADD_NOT_FOUND: no prepared transaction has the id. LLADD_HEUR_COMMITTED, LLADD_HEUR_ABORTED:
 *  an administrator has already ended the transaction (lladd_heuristic_end). */
LLADD_API int lladd_in_doubt_claim(struct lladd_db *, const struct lladd_gid *,
                                   struct lladd_txn **out, struct lladd_error *);

/** How a transaction ended. */
enum lladd_outcome { LLADD_OUTCOME_COMMIT = 1, LLADD_OUTCOME_ABORT = 2 };

/** Ends a prepared transaction by an administrator's decision, because its coordinator cannot be
 *  reached. When the call returns 0, the end and the outcome are durable. The outcome is remembered
 *  until lladd_heuristic_forget: lladd_in_doubt_claim returns it, and the global id stays in use.
 *  Consumes the handle as lladd_commit does; LLADD_BAD_STATE if the transaction is not prepared.
 *  After this call, versions of the library without heuristic outcomes cannot open the database. */
LLADD_API int lladd_heuristic_end(struct lladd_txn *, enum lladd_outcome);

/** A remembered heuristic outcome. */
struct lladd_heuristic_info {
    struct lladd_gid gid;
    enum lladd_outcome outcome;
    int64_t prepared_us, decided_us; /**< wall clock, microseconds since 1970 */
    char owner[64];                  /**< lladd_txn_options.owner */
};
/** Receives an outcome; the info is valid during the call. */
typedef int lladd_heuristic_fn(void *ctx, const struct lladd_heuristic_info *);
/** Calls `fn` for every remembered outcome. If `fn` does not return 0, stops and returns that
 *  value. Any thread; `fn` may make any call on the database. */
LLADD_API int lladd_heuristic_each(struct lladd_db *, lladd_heuristic_fn *, void *ctx,
                                   struct lladd_error *);
/** Forgets an outcome, because the coordinator has learned it; durable when the call returns 0.
 *  LLADD_NOT_FOUND if no outcome is remembered under this id. */
LLADD_API int lladd_heuristic_forget(struct lladd_db *, const struct lladd_gid *,
                                     struct lladd_error *);

#ifdef __cplusplus
}
#endif
#endif
