/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_JOURNAL_H
#define LLADD_JOURNAL_H
/**
 * @file
 * @brief The system journal: tagged entries in the log, kept until they are discarded.
 *
 * An extension acquires a tag and appends entries to it in transactions. After a restart a replay
 * returns the entries that are committed and not discarded, in commit order; entries of one
 * transaction come in the order in which they were appended (Anvil, section 4.3). An entry is
 * written once, as a log record. The log is kept from this record on until the entry is discarded,
 * or until the journal copies the entry to the end of the log, so that old log can be truncated
 * (lladd_journal_clean). docs/journal.md has the details.
 *
 *     lladd_journal_register(&options, err);             before lladd_open
 *     ...
 *     lladd_journal_acquire(txn, "orders", "shop", &tag);   a new tag, or the existing one
 *     lladd_journal_append(txn, tag, entry, NULL);
 *     lladd_commit(txn);
 *     ...
 *     lladd_journal_replay(db, tag, fn, ctx, err);       after a restart, or at any time
 *     lladd_journal_discard(txn, tag, upto);             when the entries are stored elsewhere
 *
 * A call on a transaction stores its error in the transaction (lladd_txn_error). A call that fails
 * with a misuse or resource error has changed nothing. Any thread may make any call. An entry is
 * undone when its transaction is rolled back to a point before the entry: to a savepoint, by a top
 * action's abort, or completely. This also holds for entries of closed top actions. A call that
 * appends entries in a compensation, or changes tags in a top action, returns LLADD_BAD_STATE.
 *
 * Other transactions see only the entries of committed transactions; the caller provides any
 * further isolation. One transaction at a time may change the catalogue entry of a tag (acquire a
 * new one, discard, roll over, release); a second one gets LLADD_BUSY until the first has ended.
 * Calls and checkpoints wait while a tag is being cleaned, which takes a short time.
 */
#include <lladd/lladd.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LLADD_JOURNAL_NAME_MAX 255u /**< bytes of a tag's name */
#define LLADD_JOURNAL_OWNER_MAX 63u /**< bytes of the name of a tag's owner */
/** The maximum number of bytes that a record has besides its entry. So an entry of
 *  lladd_log_object_max() - LLADD_JOURNAL_HEAD_MAX bytes always fits into a record. */
#define LLADD_JOURNAL_HEAD_MAX 21u

/** Registers the journal, before lladd_open. The journal may be registered several times. A
 *  database that has used the journal cannot be opened without the registration
 *  (LLADD_NO_OPERATION). */
LLADD_API int lladd_journal_register(struct lladd_options *, struct lladd_error *);

/* ---- tags ------------------------------------------------------------------------------------ */

/** Returns the tag of a name, a number that no other name ever gets. If the name has no tag, the
 *  transaction makes a tag, and an abort removes it. `owner` is the name of the tag's owner, for
 *  tools and to detect mistakes: LLADD_EXISTS if the tag has another owner. LLADD_BUSY while
 *  another transaction makes or releases a tag of this name. */
LLADD_API int lladd_journal_acquire(struct lladd_txn *, const char *name, const char *owner,
                                    uint64_t *tag);
/** Returns the tag of a name; LLADD_NOT_FOUND if the name has no tag. LLADD_BUSY while a
 *  transaction makes or releases a tag of this name. */
LLADD_API int lladd_journal_find(struct lladd_db *, const char *name, uint64_t *tag,
                                 struct lladd_error *);
/** Releases the tag with all its entries. LLADD_BUSY while other active transactions have entries
 *  of the tag, or an owner is attached to it. */
LLADD_API int lladd_journal_release(struct lladd_txn *, uint64_t tag);

/* ---- entries --------------------------------------------------------------------------------- */

/** Appends an entry; *lsn (nullable) gets its LSN. LLADD_TOO_LARGE if no record can be that long
 *  (LLADD_JOURNAL_HEAD_MAX). */
LLADD_API int lladd_journal_append(struct lladd_txn *, uint64_t tag, struct lladd_span entry,
                                   lladd_lsn *lsn);
/** The commit of this transaction will discard the entries of the tag that were committed up to and
 *  including `upto` (0: all entries that are committed at this call). So a transaction can
 *  atomically store the contents of entries elsewhere and discard the entries. The transaction's
 *  own entries stay. LLADD_OUT_OF_RANGE if `upto` is after the newest commit of the tag. */
LLADD_API int lladd_journal_discard(struct lladd_txn *, uint64_t tag, lladd_lsn upto);
/** The commit of this transaction will move entries of `from` to `to`: first the entries committed
 *  in `from` at this call, then the entries that this transaction has appended to `from`. In `to`
 *  the moved entries belong to this commit, after the entries that this transaction has appended to
 *  `to` before this call, and before the entries that it appends to `to` later. Uncommitted entries
 *  of other transactions stay in `from`. The callbacks of attached owners are not called.
 *  Afterwards the transaction cannot be prepared (LLADD_BAD_STATE). LLADD_BAD_STATE also if this
 *  transaction has moved entries into `from`. */
LLADD_API int lladd_journal_rollover(struct lladd_txn *, uint64_t from, uint64_t to);
/** Gets the newest commit with a live entry of the tag, for lladd_journal_discard; LSN 0 if the tag
 *  has no live entry. */
LLADD_API int lladd_journal_newest(struct lladd_db *, uint64_t tag, lladd_lsn *out,
                                   struct lladd_error *);

/** An entry during replay. */
struct lladd_journal_entry {
    uint64_t tag;
    lladd_lsn commit;        /**< commit LSN of its transaction, or of the transaction that moved
                                  the entry; 0 if that transaction is in doubt */
    lladd_lsn lsn;           /**< present LSN of the entry's record */
    struct lladd_span bytes; /**< live until the callback returns */
};
/** Called for each entry. If it does not return 0, the replay stops and returns that value, with
 *  the error that `fn` has stored in *err. */
typedef int lladd_journal_fn(void *ctx, const struct lladd_journal_entry *, struct lladd_error *);
/** Calls `fn` for all live entries of a tag that are committed when the call begins, in commit
 *  order. Waits until these entries are durable, and reads them from the log. Entries that are
 *  discarded during the call are still replayed. */
LLADD_API int lladd_journal_replay(struct lladd_db *, uint64_t tag, lladd_journal_fn *fn, void *ctx,
                                   struct lladd_error *);

/* ---- following ------------------------------------------------------------------------------- */

/** A reader of committed entries that goes on while transactions write, and after a restart. One
 *  thread at a time uses a follower. */
struct lladd_journal_follower;
/** A place in the order of commits. */
struct lladd_journal_position {
    lladd_lsn commit; /**< the transactions that commit at or after this LSN */
    lladd_lsn from;   /**< all records of these transactions are at or after this LSN; 0: not known,
                           so the log is read from its oldest record on */
};
/** Opens a follower of n tags: it gives the entries of the transactions that committed at or after
 *  at.commit, in the order of commits. `at` comes from lladd_journal_follow_position, or has an LSN
 *  of the caller and `from` 0. For at.commit 0 the follower gives all entries that the tags ever
 *  had. The tags may be released meanwhile. LLADD_OUT_OF_RANGE, with both LSNs: the log begins
 *  after the place where the follower has to begin. The follower does not keep the log; a pin at
 *  `from` does (lladd_pin_set). Close the follower before the database. Any thread. */
LLADD_API int lladd_journal_follow_open(struct lladd_db *, const uint64_t *tags, size_t n,
                                        struct lladd_journal_position at,
                                        struct lladd_journal_follower **out, struct lladd_error *);
/** Gets the next entry; its bytes are valid until the next call for this follower. To go on after
 *  all entries of a commit, open a follower at entry.commit + 1. Only durable commits are given.
 *  Entries that were discarded are given, and entries that were rolled back are not. Entries
 *  of a transaction in doubt come when it commits. A rollover gives the entries that it moves as
 *  entries of the tag to which it moves them, with its own commit; if they were committed earlier,
 *  they also came with their own tag and commit. Copies made by cleaning are not given.
 *
 *  LLADD_END: no more commits are durable yet; the call may be repeated later. LLADD_OUT_OF_RANGE,
 *  with both LSNs: log that the follower needs has been truncated, or the transaction that
 *  committed at err->lsn began before the log that the follower reads. LLADD_CORRUPT_LOG,
 *  LLADD_MISSING_FILE, LLADD_BAD_RECORD: the log is damaged. After any other error the call may be
 *  repeated, and no entry is left out. The follower keeps about 24 bytes in memory for each entry
 *  of an open transaction, but not the entry. */
LLADD_API int lladd_journal_follow_next(struct lladd_journal_follower *,
                                        struct lladd_journal_entry *, struct lladd_error *);
/** Gets the position at which another follower can begin, so as to give the transactions that
 *  commit at or after `commit`; not before the position at which this follower was opened. A pin at
 *  `from` keeps the log for the other follower. `from` is as high as this follower knows; it is
 *  more precise if `commit` is not lower than in earlier calls.
 *  Commit 0: the position that this follower has reached. The transactions that committed before
 *  it have been given; so it also ascends while no transaction has entries of the tags. */
LLADD_API struct lladd_journal_position
lladd_journal_follow_position(struct lladd_journal_follower *, lladd_lsn commit);
/** Closes the follower; NULL does nothing. */
LLADD_API void lladd_journal_follow_close(struct lladd_journal_follower *);

/* ---- owners ---------------------------------------------------------------------------------- */

/** Callbacks for an owner that keeps a tag's entries in memory (a memtable). Each may be NULL.
 *  `state` is a pointer that the owner has for each transaction and tag (lladd_journal_state), NULL
 *  until the owner sets it. After `logged` or `aborted` the journal does not use the pointer again.
 *  If the handle is poisoned or killed, neither `logged` nor `aborted` is called. */
struct lladd_journal_owner {
    size_t struct_size;
    /** Called in lladd_journal_attach for each committed entry. */
    lladd_journal_fn *replay;
    /** Called in lladd_journal_attach, after all committed entries, for each entry of a transaction
     *  in doubt. The entry must not become visible before the transaction commits. */
    int (*pending)(void *ctx, void **state, const struct lladd_journal_entry *,
                   struct lladd_error *);
    /** Called when the transaction's entries of the tag are committed, in commit order, for one
     *  commit at a time, under the mutex of the commit order. So the callback must be short, and
     *  must not call the library. */
    void (*logged)(void *ctx, void *state, uint64_t tag, lladd_lsn commit);
    /** Called when all of the transaction's entries are undone. */
    void (*aborted)(void *ctx, void *state, uint64_t tag);
    /** Called when the transaction's entries newer than `since` are undone, by a rollback to a
     *  savepoint or by a top action's abort. */
    void (*undone)(void *ctx, void *state, uint64_t tag, lladd_lsn since);
    /** Asks the owner to store the entries committed up to `upto` elsewhere and to discard them, so
     *  that old log can be truncated. Called in the thread that takes a checkpoint, so the callback
     *  should only wake another thread. Called once before the journal copies entries of the tag:
     *  if the owner has not discarded them by the next checkpoint, the journal copies them to the
     *  end of the log. */
    void (*digest)(void *ctx, uint64_t tag, lladd_lsn upto);
};

struct lladd_journal_attachment {
    uint64_t tag;
    const struct lladd_journal_owner *owner; /**< must live until the owner is detached */
    void *ctx;
};
/** Attaches n owners to their tags and replays the tags' entries; the log is read once for all
 *  tags. Attaches all owners or none. Waits while a tag is being cleaned. LLADD_BUSY if a tag
 *  already has an attached owner, if a tag is being changed, or if active transactions, except
 *  those in doubt, have entries of a tag. */
LLADD_API int lladd_journal_attach(struct lladd_db *, const struct lladd_journal_attachment *,
                                   size_t n, struct lladd_error *);
/** Detaches the owner of a tag. When the call has returned 0, the owner's callbacks are not called
 *  any more. LLADD_BUSY while active transactions have entries of the tag, and while a checkpoint
 *  runs the owner's `digest`, so also inside `digest`. */
LLADD_API int lladd_journal_detach(struct lladd_db *, uint64_t tag, struct lladd_error *);
/** Gets the address of the owner's state pointer for the transaction and tag; valid until the
 *  transaction ends. */
LLADD_API int lladd_journal_state(struct lladd_txn *, uint64_t tag, void ***state);

/* ---- upkeep ---------------------------------------------------------------------------------- */

/** Copies live entries of a tag that are older than `below` to the end of the log, so that older
 *  log can be truncated. Each call copies about a megabyte in a system transaction, the entries of
 *  the oldest commits first. *more (nullable) gets true if more entries remain. The entries keep
 *  their order and their commit LSNs. `tag` 0 means the tag with the oldest entry. If `below` is
 *  lladd_object_applied_lsn, all present entries are copied. Checkpoints copy entries in the same
 *  way if enough log can then be truncated (docs/journal.md). LLADD_BUSY while the tag is being
 *  changed. */
LLADD_API int lladd_journal_clean(struct lladd_db *, uint64_t tag, lladd_lsn below, bool *more,
                                  struct lladd_error *);

struct lladd_journal_info {
    uint64_t tag;
    const char *name, *owner;
    uint64_t entries, bytes; /**< number and bytes of live committed entries; if a tag has very many
                                  commits and a part of them is discarded, both can be 0.4 % too
                                  high */
    lladd_lsn oldest;        /**< the tag needs the log from this LSN on; 0: the tag needs no log */
    lladd_lsn newest;        /**< newest commit with a live entry; 0: the tag has no live entry */
    lladd_lsn discarded;     /**< entries committed up to this LSN are discarded */
    bool attached;           /**< an owner is attached */
    uint32_t transactions;   /**< active transactions with entries of the tag */
};
/** Receives the state of a tag, valid during the call. */
typedef int lladd_journal_info_fn(void *ctx, const struct lladd_journal_info *);
/** Calls `fn` for every tag, with its state at the beginning of the call; `fn` may call the
 *  library. If `fn` does not return 0, stops and returns that value. LLADD_NO_MEMORY. Any
 *  thread. */
LLADD_API int lladd_journal_each(struct lladd_db *, lladd_journal_info_fn *fn, void *ctx,
                                 struct lladd_error *);

#ifdef __cplusplus
}
#endif
#endif
