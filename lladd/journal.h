/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_JOURNAL_H
#define LLADD_JOURNAL_H
/**
 * @file
 * @brief The system journal: tagged entries in the log, which stay until their owner gives them up.
 *
 * Any extension acquires a tag, appends entries to it in transactions, and after a restart gets
 * those back that are committed and not discarded: in the order of their commits, and those of one
 * transaction in the order in which they were appended (Anvil, section 4.3). An entry is written
 * once: it is a record of the log. It stays there, and the log is kept for it, until it is
 * discarded, or the journal writes it again because it is old and the log behind it is needed
 * (lladd_journal_clean). docs/journal.md tells all of it.
 *
 *     lladd_journal_register(&options, err);             before lladd_open
 *     ...
 *     lladd_journal_acquire(txn, "orders", "shop", &tag);   once; finds it again later
 *     lladd_journal_append(txn, tag, entry, NULL);
 *     lladd_commit(txn);
 *     ...
 *     lladd_journal_replay(db, tag, fn, ctx, err);       after a restart, or whenever
 *     lladd_journal_discard(txn, tag, upto);             when it is stored elsewhere
 *
 * Calls on a transaction leave their error with it (lladd_txn_error); those that fail with a misuse
 * or resource error have changed nothing. Everything may be called by any number of threads.
 * Entries follow their transaction: what is rolled back, to a savepoint, out of a top action, or
 * altogether, never appears; a closed top action makes no difference to them. They cannot be
 * appended in a compensation, and tags cannot be changed in a top action (LLADD_BAD_STATE).
 *
 * Isolation is the caller's: who wants to read what others append looks at the entries of committed
 * transactions only. One transaction at a time may change what the catalogue says of a tag
 * (acquire a new one, discard, roll over, release); a second one gets LLADD_BUSY until the first
 * has ended. Who cleans a tag, as checkpoints do, is waited for: that is over soon.
 * @ingroup lladd
 */
#include <lladd/lladd.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LLADD_JOURNAL_NAME_MAX 255u  /**< bytes of a tag's name */
#define LLADD_JOURNAL_OWNER_MAX 63u  /**< bytes of its owner's */
/** What a record has besides the entry: an entry may have so many bytes less than
 *  lladd_log_object_max. */
#define LLADD_JOURNAL_HEAD_MAX 21u

/** Before lladd_open: adds the journal. Registered once is enough, whoever needs it. A database in
 *  which it was used cannot be opened without it (LLADD_NO_OPERATION). */
LLADD_API int lladd_journal_register(struct lladd_options *, struct lladd_error *);

/* ---- tags ------------------------------------------------------------------------------------ */

/** The tag of a name, for good: a number that is never given to another. A new one is made in the
 *  transaction, and goes if that aborts. `owner` says whose it is, for tools and against mistakes:
 *  LLADD_EXISTS if the name is somebody else's. LLADD_BUSY while another transaction makes or
 *  releases a tag of this name. */
LLADD_API int lladd_journal_acquire(struct lladd_txn *, const char *name, const char *owner,
                                    uint64_t *tag);
/** The same without making one: LLADD_NOT_FOUND. */
LLADD_API int lladd_journal_find(struct lladd_db *, const char *name, uint64_t *tag,
                                 struct lladd_error *);
/** Gives the tag back, with all its entries. LLADD_BUSY while other transactions have entries of it
 *  on the way, or somebody is attached to it. */
LLADD_API int lladd_journal_release(struct lladd_txn *, uint64_t tag);

/* ---- entries --------------------------------------------------------------------------------- */

/** Appends an entry; *lsn (nullable) gets its place in the log. LLADD_TOO_LARGE if no record
 *  can be that long (LLADD_JOURNAL_HEAD_MAX). */
LLADD_API int lladd_journal_append(struct lladd_txn *, uint64_t tag, struct lladd_span entry,
                                   lladd_lsn *lsn);
/** Gives up what is committed up to and with `upto` (0: everything that is committed now), when and
 *  if this transaction commits: so that it is atomic with what the transaction has stored instead.
 *  The transaction's own entries stay. LLADD_OUT_OF_RANGE if `upto` lies behind the newest commit
 *  of the tag. */
LLADD_API int lladd_journal_discard(struct lladd_txn *, uint64_t tag, lladd_lsn upto);
/** Makes the entries of `from` those of `to`, when and if this transaction commits: what is
 *  committed in `from` now, and behind it what this transaction has appended to it. Their place is
 *  that of this commit, behind what the transaction has appended to `to` before, and in front of
 *  what it appends later. Entries in `from` of other transactions that are not committed yet stay
 *  there. Owners that are attached are not told: who rolls over knows. A transaction that has done
 *  it cannot be prepared (LLADD_BAD_STATE). LLADD_BAD_STATE also if this transaction has rolled
 *  something over into `from`. */
LLADD_API int lladd_journal_rollover(struct lladd_txn *, uint64_t from, uint64_t to);
/** The newest commit with an entry of the tag that is live, as lladd_journal_discard takes it;
 *  LSN 0 if there is none. */
LLADD_API int lladd_journal_newest(struct lladd_db *, uint64_t tag, lladd_lsn *out,
                                   struct lladd_error *);

/** An entry as it is replayed. */
struct lladd_journal_entry {
    uint64_t tag;
    lladd_lsn commit;        /**< of its transaction, or of the one that rolled it over; of one in
                                  doubt: 0 */
    lladd_lsn lsn;           /**< where it is in the log now */
    struct lladd_span bytes; /**< lives until the call returns */
};
/** Not 0 stops, and is what the call returns; what it puts into *err is kept. */
typedef int lladd_journal_fn(void *ctx, const struct lladd_journal_entry *, struct lladd_error *);
/** Calls fn for all live entries of a tag that are committed when it begins, in the order of their
 *  commits. Waits until they are durable, and reads them from the log; what is discarded meanwhile
 *  is replayed all the same. */
LLADD_API int lladd_journal_replay(struct lladd_db *, uint64_t tag, lladd_journal_fn *fn, void *ctx,
                                   struct lladd_error *);

/* ---- owners ---------------------------------------------------------------------------------- */

/** Who follows a tag: somebody who keeps in memory what the entries say (a memtable). All of it
 *  may be NULL. `state` is the owner's, one pointer for each transaction and tag
 *  (lladd_journal_state); it is NULL until he sets it. After logged or aborted it is never used
 *  again. If the handle is poisoned or killed, neither comes. */
struct lladd_journal_owner {
    size_t struct_size;
    /** In lladd_journal_attach: a committed entry. */
    lladd_journal_fn *replay;
    /** In lladd_journal_attach, behind all that: an entry of a transaction in doubt, which is not
     *  to be seen before that is committed. */
    int (*pending)(void *ctx, void **state, const struct lladd_journal_entry *,
                   struct lladd_error *);
    /** The transaction's entries of the tag are committed. In commit order, one at a time, under
     *  the latch of the commit order: must be short, and calls nothing of the library. */
    void (*logged)(void *ctx, void *state, uint64_t tag, lladd_lsn commit);
    /** All of them are taken back. */
    void (*aborted)(void *ctx, void *state, uint64_t tag);
    /** Those newer than `since` are: to a savepoint, or out of a top action. */
    void (*taken_back)(void *ctx, void *state, uint64_t tag, lladd_lsn since);
    /** Please store what is committed up to `upto` elsewhere and discard it: the log behind it is
     *  needed. In the thread that takes a checkpoint, so no more than a wake-up: what is still
     *  there at the next checkpoint is written again by the journal. Comes once before that. */
    void (*digest)(void *ctx, uint64_t tag, lladd_lsn upto);
};

struct lladd_journal_attachment {
    uint64_t tag;
    const struct lladd_journal_owner *owner; /**< lives as long as it is attached */
    void *ctx;
};
/** Attaches owners to their tags, and replays what is there: the log is read once for all of them.
 *  All or none are attached. Waits while a tag is being cleaned. LLADD_BUSY if a tag has somebody
 *  attached already, is being changed, or transactions other than those in doubt have entries of it
 *  on the way. */
LLADD_API int lladd_journal_attach(struct lladd_db *, const struct lladd_journal_attachment *,
                                   size_t n, struct lladd_error *);
/** When it returns 0 the owner is not called any more. LLADD_BUSY while transactions have entries
 *  of it on the way, and while a checkpoint is calling its `digest`: so in that, too. */
LLADD_API int lladd_journal_detach(struct lladd_db *, uint64_t tag, struct lladd_error *);
/** Where the owner's state of the transaction and tag is; good until the transaction ends. */
LLADD_API int lladd_journal_state(struct lladd_txn *, uint64_t tag, void ***state);

/* ---- upkeep ---------------------------------------------------------------------------------- */

/** Writes live entries of a tag that are older than `below` again, at the end of the log, so that
 *  the log before them is needed no more: the oldest commits first, about a megabyte at a time, in
 *  a system transaction. *more (nullable) says that there are others. Order and commits stay what
 *  they were. tag 0: of the tag that holds the log. `below`: lladd_applied_lsn for all that is
 *  there now. Checkpoints do the same by themselves when it pays, and when half of the log's
 *  limit is reached. LLADD_BUSY while the tag is being changed. */
LLADD_API int lladd_journal_clean(struct lladd_db *, uint64_t tag, lladd_lsn below, bool *more,
                                  struct lladd_error *);

struct lladd_journal_info {
    uint64_t tag;
    const char *name, *owner;
    uint64_t entries, bytes; /**< live and committed. Of a tag with very many commits that was
                                  discarded in part: up to 1 in 250 more */
    lladd_lsn oldest;        /**< the log is kept from here on for it; 0: not for this tag */
    lladd_lsn newest;        /**< newest commit; 0: none */
    lladd_lsn discarded;     /**< everything committed up to here is given up */
    bool attached;           /**< somebody follows it */
    uint32_t transactions;   /**< that have entries of it on the way */
};
/** Calls fn for every tag, unlocked; not 0 stops. */
typedef int lladd_journal_info_fn(void *ctx, const struct lladd_journal_info *);
LLADD_API int lladd_journal_each(struct lladd_db *, lladd_journal_info_fn *fn, void *ctx,
                                 struct lladd_error *);

#ifdef __cplusplus
}
#endif
#endif
