/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_JOURNAL_H
#define LLADD_JOURNAL_H
/**
 * @file
 * @brief The system journal: tagged entries in the log, kept until they are discarded.
 *
 * An extension acquires a tag and appends entries to it in transactions. After a restart it gets
 * back the entries that are committed and not discarded, in commit order, and those of one
 * transaction in the order in which they were appended (Anvil, section 4.3). An entry is written
 * once, as a record of the log. The log is kept for it until the entry is discarded, or until the
 * journal writes the entry again so that old log can be truncated (lladd_journal_clean).
 * docs/journal.md has the details.
 *
 *     lladd_journal_register(&options, err);             before lladd_open
 *     ...
 *     lladd_journal_acquire(txn, "orders", "shop", &tag);   once; finds it again later
 *     lladd_journal_append(txn, tag, entry, NULL);
 *     lladd_commit(txn);
 *     ...
 *     lladd_journal_replay(db, tag, fn, ctx, err);       after a restart, or at any time
 *     lladd_journal_discard(txn, tag, upto);             when it is stored elsewhere
 *
 * Calls on a transaction store their error in it (lladd_txn_error); one that fails with a misuse or
 * resource error has changed nothing. Any number of threads may make any call.
 * Entries follow their transaction: an entry that is rolled back, to a savepoint, by a top action's
 * abort, or with the transaction, never appears; closing a top action makes no difference. A
 * compensation cannot append entries, and a top action cannot change tags (LLADD_BAD_STATE).
 *
 * The caller provides isolation: other transactions see only the entries of committed transactions.
 * One transaction at a time may change the catalogue entry of a tag (acquire a new one, discard,
 * roll over, release); a second one gets LLADD_BUSY until the first has ended. Calls wait while a
 * tag is being cleaned, as checkpoints do; that takes a short time.
 */
#include <lladd/lladd.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LLADD_JOURNAL_NAME_MAX 255u /**< bytes of a tag's name */
#define LLADD_JOURNAL_OWNER_MAX 63u /**< bytes of its owner's name */
/** Bytes of a record besides the entry: an entry may be this much shorter than
 *  lladd_log_object_max. */
#define LLADD_JOURNAL_HEAD_MAX 21u

/** Registers the journal, before lladd_open. Several registrations do no harm. A database in which
 *  it was used cannot be opened without it (LLADD_NO_OPERATION). */
LLADD_API int lladd_journal_register(struct lladd_options *, struct lladd_error *);

/* ---- tags ------------------------------------------------------------------------------------ */

/** The tag of a name: a number that is never given to another name. A new tag is made in the
 *  transaction, and disappears if that aborts. `owner` names the tag's owner, for tools and against
 *  mistakes: LLADD_EXISTS if the name has another owner. LLADD_BUSY while another transaction makes
 *  or releases a tag of this name. */
LLADD_API int lladd_journal_acquire(struct lladd_txn *, const char *name, const char *owner,
                                    uint64_t *tag);
/** The same without making a tag: LLADD_NOT_FOUND. */
LLADD_API int lladd_journal_find(struct lladd_db *, const char *name, uint64_t *tag,
                                 struct lladd_error *);
/** Releases the tag with all its entries. LLADD_BUSY while other active transactions have entries
 *  of it, or an owner is attached to it. */
LLADD_API int lladd_journal_release(struct lladd_txn *, uint64_t tag);

/* ---- entries --------------------------------------------------------------------------------- */

/** Appends an entry; *lsn (nullable) gets its LSN. LLADD_TOO_LARGE if no record can be that long
 *  (LLADD_JOURNAL_HEAD_MAX). */
LLADD_API int lladd_journal_append(struct lladd_txn *, uint64_t tag, struct lladd_span entry,
                                   lladd_lsn *lsn);
/** Discards the entries committed up to and including `upto` (0: all that are committed now), when
 *  and if this transaction commits: so it is atomic with what the transaction stored instead. The
 *  transaction's own entries stay. LLADD_OUT_OF_RANGE if `upto` is after the newest commit of the
 *  tag. */
LLADD_API int lladd_journal_discard(struct lladd_txn *, uint64_t tag, lladd_lsn upto);
/** Moves entries of `from` to `to`, when and if this transaction commits: those committed in `from`
 *  now, then those that this transaction has appended to it. They take their place at this commit:
 *  after what the transaction has appended to `to` before, and before what it appends later.
 *  Entries of other transactions in `from` that are not committed yet stay there. Attached owners
 *  are not notified; the caller knows. Such a transaction cannot be prepared (LLADD_BAD_STATE).
 *  LLADD_BAD_STATE also if this transaction has rolled something over into `from`. */
LLADD_API int lladd_journal_rollover(struct lladd_txn *, uint64_t from, uint64_t to);
/** The newest commit with a live entry of the tag, for lladd_journal_discard; LSN 0 if there is
 *  none. */
LLADD_API int lladd_journal_newest(struct lladd_db *, uint64_t tag, lladd_lsn *out,
                                   struct lladd_error *);

/** An entry during replay. */
struct lladd_journal_entry {
    uint64_t tag;
    lladd_lsn commit;        /**< of its transaction, or of the one that rolled it over; 0 if that
                                  is in doubt */
    lladd_lsn lsn;           /**< where it is in the log now */
    struct lladd_span bytes; /**< lives until the call returns */
};
/** Not 0 stops, and the call returns that value; what fn stores in *err is kept. */
typedef int lladd_journal_fn(void *ctx, const struct lladd_journal_entry *, struct lladd_error *);
/** Calls fn for all live entries of a tag that are committed when the call begins, in commit order.
 *  Waits until they are durable, and reads them from the log; entries that are discarded meanwhile
 *  are replayed all the same. */
LLADD_API int lladd_journal_replay(struct lladd_db *, uint64_t tag, lladd_journal_fn *fn, void *ctx,
                                   struct lladd_error *);

/* ---- owners ---------------------------------------------------------------------------------- */

/** Callbacks for an owner that keeps a tag's entries in memory (a memtable). Any may be NULL.
 *  `state` is the owner's, one pointer for each transaction and tag (lladd_journal_state), NULL
 *  until the owner sets it. After `logged` or `aborted` it is never used again. If the handle is
 *  poisoned or killed, neither is called. */
struct lladd_journal_owner {
    size_t struct_size;
    /** In lladd_journal_attach: a committed entry. */
    lladd_journal_fn *replay;
    /** In lladd_journal_attach, after all committed ones: an entry of a transaction in doubt. It
     *  must not become visible before that transaction commits. */
    int (*pending)(void *ctx, void **state, const struct lladd_journal_entry *,
                   struct lladd_error *);
    /** The transaction's entries of the tag are committed. Called in commit order, one at a time,
     *  under the latch of the commit order: must be short, and must not call the library. */
    void (*logged)(void *ctx, void *state, uint64_t tag, lladd_lsn commit);
    /** All of the transaction's entries are undone. */
    void (*aborted)(void *ctx, void *state, uint64_t tag);
    /** Its entries newer than `since` are undone: to a savepoint, or by a top action's abort. */
    void (*undone)(void *ctx, void *state, uint64_t tag, lladd_lsn since);
    /** Asks the owner to store what is committed up to `upto` elsewhere and to discard it, so that
     *  old log can be truncated. Called in the thread that takes a checkpoint, so it should only
     *  wake another thread. Called once; what is still there at the next checkpoint is written
     *  again by the journal. */
    void (*digest)(void *ctx, uint64_t tag, lladd_lsn upto);
};

struct lladd_journal_attachment {
    uint64_t tag;
    const struct lladd_journal_owner *owner; /**< must live while it is attached */
    void *ctx;
};
/** Attaches owners to their tags and replays the entries; the log is read once for all of them.
 *  All are attached or none. Waits while a tag is being cleaned. LLADD_BUSY if a tag has an owner
 *  attached already or is being changed, or if active transactions other than those in doubt have
 *  entries of it. */
LLADD_API int lladd_journal_attach(struct lladd_db *, const struct lladd_journal_attachment *,
                                   size_t n, struct lladd_error *);
/** When it returns 0, the owner is not called any more. LLADD_BUSY while active transactions have
 *  entries of the tag, and while a checkpoint is calling its `digest`; so also inside `digest`. */
LLADD_API int lladd_journal_detach(struct lladd_db *, uint64_t tag, struct lladd_error *);
/** The place of the owner's state for the transaction and tag; valid until the transaction ends. */
LLADD_API int lladd_journal_state(struct lladd_txn *, uint64_t tag, void ***state);

/* ---- upkeep ---------------------------------------------------------------------------------- */

/** Writes live entries of a tag that are older than `below` again, at the end of the log, so that
 *  the older log can be truncated: the oldest commits first, about a megabyte at a time, in a
 *  system transaction. *more (nullable): there are more to write. Order and commits stay the same.
 *  tag 0: the tag that holds the oldest log. Pass lladd_object_applied_lsn as `below` for all
 *  present entries. Checkpoints do the same by themselves when it pays, and when half of the log's
 *  limit is reached. LLADD_BUSY while the tag is being changed. */
LLADD_API int lladd_journal_clean(struct lladd_db *, uint64_t tag, lladd_lsn below, bool *more,
                                  struct lladd_error *);

struct lladd_journal_info {
    uint64_t tag;
    const char *name, *owner;
    uint64_t entries, bytes; /**< live and committed; up to 1 in 250 too many for a tag with very
                                  many commits of which a part was discarded */
    lladd_lsn oldest;        /**< the log is kept from here on for it; 0: not for this tag */
    lladd_lsn newest;        /**< newest commit; 0: none */
    lladd_lsn discarded;     /**< everything committed up to here is discarded */
    bool attached;           /**< an owner is attached */
    uint32_t transactions;   /**< active transactions with entries of it */
};
/** Calls fn for every tag, under no lock; not 0 stops. */
typedef int lladd_journal_info_fn(void *ctx, const struct lladd_journal_info *);
/** Calls fn for every tag, under no latch; the result of fn that is not 0 stops and is returned.
 *  Any thread. */
LLADD_API int lladd_journal_each(struct lladd_db *, lladd_journal_info_fn *fn, void *ctx,
                                 struct lladd_error *);

#ifdef __cplusplus
}
#endif
#endif
