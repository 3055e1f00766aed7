/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_JOURNAL_TABLE_H
#define LL_OPERATIONS_JOURNAL_TABLE_H
/* The journal of one database handle: the declarations that the source files of operations/journal/
 * share. These files use only the library's public headers and helpers of operations/shared/.
 *
 * An entry is an object record of the class "journal"; the entry is committed if its transaction's
 * commit record is in the log. Memory has only the places of entries in the log. Each tag has a
 * sequence of *buckets*; a bucket describes the entries of one commit or of several consecutive
 * ones. The catalogue is a hash table with a row for each tag. The row has `discarded`, the LSN of
 * a commit: the tag's entries of that commit and of all older ones are discarded.
 *
 *   JRN-1  An entry belongs to the tag to which it was appended, with the LSN of its transaction's
 *          commit record. A committed ROLLOVER moves it to another tag, with the LSN of the
 *          ROLLOVER's commit record. An entry is live if this LSN is above its tag's `discarded`,
 *          and no ANNUL record of its transaction covers it (kinds: below). Each live entry is
 *          covered by a bucket of its tag.
 *   JRN-2  The log is kept from the lowest of these LSNs on: `first` of every bucket; the first
 *          journal record of every open transaction; `low` of every reader; and, while a commit
 *          that has discarded or copied entries is not durable, the first of those entries.
 *   JRN-3  At most one transaction at a time changes a tag's row in the catalogue.
 *   JRN-4  After a restart, reading begins at the mark (a named root), not earlier: a crash may
 *          bring back log files that were removed, with gaps between them. The mark is never above
 *          the LSN of JRN-2. The log is kept from the durable mark on; this may be more log than
 *          JRN-2 needs.
 *   JRN-5  To find the live entries of a bucket, it is enough to read the log from the bucket's
 *          `first` to its `read_to`.
 *   JRN-6  A follower gives the entries of a transaction only if it has read the log from the
 *          transaction's first record on (follow.c). */
#include "operations/shared/grow.h"
#include "operations/shared/index.h"
#include "operations/shared/try.h"

#include <lladd/bytes.h>
#include <lladd/extension.h>
#include <lladd/hash.h>
#include <lladd/journal.h>
#include <lladd/log_read.h>
#include <lladd/sync.h>
#include <string.h>

enum {
    LL_JOURNAL_VERSION = 1,
    LL_JOURNAL_RANK = LLADD_RANK_LEAF + 90,
    /* the rank of ll_journal.create */
    LL_JOURNAL_RANK_CREATE = LLADD_RANK_EXTENSION - 100,
    LL_JOURNAL_MANY_BUCKETS = 1024, /* a tag with this many buckets merges neighbours */
    LL_JOURNAL_STEP = 1u << 20      /* a step copies at most this many bytes, or one bucket */
};

#define LL_JOURNAL_ROOT "journal"      /* a: root page of the catalogue, b: version */
#define LL_JOURNAL_MARK "journal.mark" /* a: the mark (JRN-4) */

struct ll_journal;
struct ll_journal_txn;

/* ---- bytes.c: stored bytes ------------------------------------------------------------------- */

enum ll_journal_kind {
    LL_JOURNAL_ENTRY = 1,    /* tag, bytes */
    LL_JOURNAL_MAKE = 2,     /* name; the record's LSN is the tag */
    LL_JOURNAL_RELEASE = 3,  /* tag */
    LL_JOURNAL_DISCARD = 4,  /* tag, from, upto */
    LL_JOURNAL_ROLLOVER = 5, /* tag, other, from, upto: moves entries from `tag` to `other`, first
                              * those of commits in (from, upto], then those that this transaction
                              * appended to `tag` before this record */
    LL_JOURNAL_ANNUL = 6,    /* from, upto: the transaction has rolled back its records in (from,
                              * upto] */
    LL_JOURNAL_CLEAN = 7,    /* tag, from, upto: the AGAIN records after this one replace the tag's
                              * entries of commits in (from, upto] */
    LL_JOURNAL_AGAIN = 8,    /* tag, from (the original's commit), bytes */
    LL_JOURNAL_KINDS
};

struct ll_journal_record {
    unsigned kind;
    uint64_t tag, other, from, upto;
    struct lladd_span bytes; /* bytes of ENTRY, AGAIN and MAKE */
};

enum { LL_JOURNAL_RECORD_HEAD = 1 + 4 * 10 };

/* Encodes all members except `bytes`. Returns the length. */
size_t ll_operations__journal_put(const struct ll_journal_record *,
                                  unsigned char out[LL_JOURNAL_RECORD_HEAD]);
bool ll_operations__journal_get(struct lladd_span, struct ll_journal_record *);

/* A tag's row in the catalogue; its key is the tag's name. */
struct ll_journal_row {
    uint64_t tag, discarded;
    char owner[LLADD_JOURNAL_OWNER_MAX + 1];
};
enum { LL_JOURNAL_ROW_MAX = 18 + LLADD_JOURNAL_OWNER_MAX };
size_t ll_operations__journal_row_put(const struct ll_journal_row *,
                                      unsigned char out[LL_JOURNAL_ROW_MAX]);
/* 0, LLADD_BAD_RECORD, or LLADD_NEWER_FORMAT. */
int ll_operations__journal_row_get(struct lladd_span, struct ll_journal_row *);

/* ---- tags.c ---------------------------------------------------------------------------------- */

struct ll_journal_bucket {
    uint64_t commit;  /* the newest commit in the bucket */
    uint64_t first;   /* LSN of the oldest log record needed to read its entries */
    uint64_t read_to; /* the newest commit that added, moved or copied an entry of the bucket */
    uint64_t entries, bytes;
};

enum ll_journal_tag_state {
    LL_TAG_MAKING = 1, /* being created by `changing` */
    LL_TAG_THERE = 2,
    LL_TAG_GOING = 3 /* being released by `changing` */
};

enum ll_journal_asked {
    LL_ASKED_NOT = 0,
    LL_ASKED_NOW = 1,   /* asked at this checkpoint */
    LL_ASKED_BEFORE = 2 /* asked at an earlier checkpoint: the tag may be cleaned */
};

struct ll_journal_tag {
    struct ll_index_node node; /* key: the tag's number */
    char *name;
    char owner[LLADD_JOURNAL_OWNER_MAX + 1];
    uint64_t discarded;
    uint64_t logging; /* atomic: the newest commit for which the owner's `logged` is or was
                       * called */
    struct ll_journal_txn *changing;
    uint8_t state;
    bool made; /* created by `changing` */
    bool attaching;
    uint8_t asked; /* was the owner asked to digest? enum ll_journal_asked */
    struct ll_journal_tag *next_touched; /* the next tag in the list of tags that `changing`
                                          * changes */
    uint32_t telling; /* running calls of `digest`; while above 0, the owner stays attached */
    uint32_t users;   /* open transactions that have a part for this tag */
    uint64_t ends;    /* transactions in doubt with entries of this tag that have ended */
    const struct lladd_journal_owner *calls;
    void *ctx;
    struct ll_journal_bucket *buckets;
    size_t n_buckets, cap_buckets;
    uint64_t low; /* smallest `first`; UINT64_MAX: there is no bucket */
    uint64_t entries, bytes;
};

/* The functions of tags.c run under the journal's mutex. */
struct ll_journal_tag *ll_operations__journal_tag(const struct ll_journal *, uint64_t tag);
/* The tag of this name that `txn` sees, or that another transaction creates or releases. */
struct ll_journal_tag *ll_operations__journal_named(const struct ll_journal *, const char *name,
                                                    const struct ll_journal_txn *txn);
/* Creates a tag; NULL: no memory. */
struct ll_journal_tag *ll_operations__journal_tag_new(struct ll_journal *, uint64_t tag,
                                                      const char *name);
void ll_operations__journal_tag_free(struct ll_journal *, struct ll_journal_tag *);
/* Allocates room for one bucket of each open transaction that uses the tag, and for two more. */
int ll_operations__journal_bucket_room(struct ll_journal *, struct ll_journal_tag *);
/* Adds a bucket. The new bucket's commit is not below that of the last bucket; if the two commits
 * are equal, merges the buckets. The caller has made room. */
void ll_operations__journal_bucket_put(struct ll_journal_tag *, struct ll_journal_bucket);
/* Removes the buckets with commits in (from, upto]. *sum: all of them, merged. */
void ll_operations__journal_bucket_take(struct ll_journal_tag *, uint64_t from, uint64_t upto,
                                        struct ll_journal_bucket *sum);
/* Updates the buckets with commits in (from, upto] after their live entries were copied by the
 * transaction that committed at `commit`. The copies are in the log from own->first on:
 * own->entries entries with own->bytes bytes. */
void ll_operations__journal_bucket_move(struct ll_journal_tag *, uint64_t from, uint64_t upto,
                                        const struct ll_journal_bucket *own, uint64_t commit);
static inline uint64_t ll_journal_newest(const struct ll_journal_tag *t)
{
    return t->n_buckets ? t->buckets[t->n_buckets - 1].commit : 0;
}

/* ---- txn.c ----------------------------------------------------------------------------------- */

/* The state of a part before the first entry that follows a savepoint or the beginning of a nested
 * top action. `next`: lladd_txn_now.next at that entry; `first`: the entry's LSN. */
struct ll_journal_was {
    lladd_savepoint_id next;
    uint64_t first, entries, bytes;
};

/* The entries of one transaction in one tag. */
struct ll_journal_part {
    struct ll_journal_tag *tag; /* NULL: in doubt, and not connected to the tag yet */
    uint64_t id;
    const struct lladd_journal_owner *calls;
    void *ctx, *state;
    uint64_t first, last, entries, bytes;
    struct ll_journal_was *was;
    size_t n_was, cap_was;
};

struct ll_journal_change {
    uint8_t kind;
    struct ll_journal_tag *tag, *to;
    lladd_savepoint_id next; /* lladd_txn_now.next when the change was made */
    uint64_t lsn;
    uint64_t from, upto;
    struct ll_journal_bucket own; /* rollover: the transaction's own entries that move with it */
};

/* Keeps the log from `low` on until `commit` is durable: `commit` has discarded or copied entries
 * that begin at `low`. If a crash loses `commit`, these entries are live again. */
struct ll_journal_held {
    struct ll_journal_held *next;
    uint64_t commit, low;
};

struct ll_journal_annul {
    uint64_t since, upto;
};

struct ll_journal_txn {
    struct ll_journal *all;
    struct ll_journal_txn *next_all, *next_free;
    struct ll_journal_txn *newer, *older; /* in the list of open transactions; under the mutex */
    bool listed, in_doubt, ending;
    bool cleaning; /* a cleaning transaction: other transactions may wait for its end (clean.c) */
    uint64_t id;    /* id of a transaction in doubt */
    uint64_t first; /* atomic: LSN of its first journal record, or UINT64_MAX if there is none
                     * yet */
    uint64_t last;
    struct ll_journal_part **parts, *recent;
    size_t n_parts, made_parts, cap_parts; /* number of parts in use; number allocated; size of the
                                            * array */
    struct ll_journal_tag *touched; /* the tags that the transaction changes; under the mutex */
    struct ll_journal_change *changes;
    size_t n_changes, cap_changes;
    struct ll_journal_annul *annuls;
    size_t n_annuls, cap_annuls;
    size_t n_was; /* the sum of n_was of the transaction's parts: rollbacks may make as many
                   * annulments */
    struct ll_journal_held *held;
    struct ll_journal_in_doubt *doubt; /* changes of its prepare record, until the catalogue is
                                        * loaded */
    unsigned char *scratch;
    size_t cap_scratch;
};

/* A reader's request to keep the log from `low` on. */
struct ll_journal_keep {
    struct ll_journal_keep *next, **at;
    uint64_t low;
};

struct ll_journal {
    struct lladd_db *db;
    struct lladd_mutex mutex;  /* a leaf; protects the members that are not atomic */
    struct lladd_cond cleaned; /* a cleaning transaction has ended, or the handle is poisoned */
    struct lladd_mutex create; /* held while the catalogue or the mark is created */
    bool loaded;
    struct lladd_hash *catalogue; /* atomic; NULL: it does not exist yet */
    struct ll_index tags;
    struct ll_journal_txn *all, *free, *newest;
    struct ll_journal_held *held;
    struct ll_journal_keep *holds;
    uint64_t mark;                   /* the durable value of the named root */
    uint64_t next_mark, mark_commit; /* the next value, and the commit that makes it durable;
                                      * mark_commit 0: there is no next value */
    uint32_t named;                  /* atomic: the named root exists */
};

extern const struct lladd_extension ll_operations__journal_extension;
extern const struct lladd_participant ll_operations__journal_participant;
extern const struct lladd_object_class ll_operations__journal_class;

int ll_operations__journal_of(struct lladd_db *, struct ll_journal **, struct lladd_error *);
/* The transaction's state; the first call creates it and joins the transaction. Errors are
 * stored in the transaction. */
int ll_operations__journal_join(struct lladd_txn *, struct ll_journal_txn **);
int ll_operations__journal_join_new(struct ll_journal *, struct lladd_txn *,
                                    struct ll_journal_txn **);
int ll_operations__journal_part(struct lladd_txn *, struct ll_journal_txn *, uint64_t tag,
                                struct ll_journal_part **);
int ll_operations__journal_log(struct lladd_txn *, struct ll_journal_txn *,
                               const struct ll_journal_record *, lladd_lsn *);
/* Allocates what the transaction needs to note one more change, and `held`. */
int ll_operations__journal_change_room(struct lladd_txn *, struct ll_journal_txn *);
/* From now until the transaction ends, no other transaction may change the tag. The caller holds
 * the mutex. */
void ll_operations__journal_touch(struct ll_journal_txn *, struct ll_journal_tag *);
/* Reverses ll_operations__journal_touch, if no change of the tag is left. The caller holds the
 * mutex. */
void ll_operations__journal_untouch(struct ll_journal_txn *, struct ll_journal_tag *);
/* Adds the transaction to the list of open transactions. The caller holds the mutex. */
void ll_operations__journal_list(struct ll_journal_txn *);
/* Allocates one more part. */
int ll_operations__journal_part_room(struct ll_journal_txn *);
int ll_operations__journal_may_change(struct lladd_txn *, struct ll_journal_txn *,
                                      struct ll_journal_tag *, uint64_t number);
void ll_operations__journal_txn_free(struct ll_journal *, struct ll_journal_txn *);
void ll_operations__journal_wrong_tag(struct lladd_error *, uint64_t tag);

/* ---- in_doubt.c ------------------------------------------------------------------------------ */

int ll_operations__journal_blob(const struct ll_journal_txn *, struct lladd_sink *);
int ll_operations__journal_unblob(struct ll_journal *, struct lladd_txn *, struct lladd_span);
/* Called when the catalogue is loaded: connects the transactions in doubt with their tags. */
int ll_operations__journal_tie(struct ll_journal *, struct lladd_error *);
void ll_operations__journal_doubt_free(struct ll_journal *, struct ll_journal_in_doubt *);

/* ---- clean.c --------------------------------------------------------------------------------- */

/* A checkpoint may clean a tag at any time. A call that attaches to the tag or changes its row
 * waits until the cleaning has ended. There is no deadlock, because a cleaning transaction does
 * not wait for the transactions of these calls. Both functions run under the mutex. */
bool ll_operations__journal_is_cleaned(const struct ll_journal *, uint64_t tag);
/* Waits until a cleaning transaction has ended. Fails if the handle is poisoned: then no
 * transaction ends. */
int ll_operations__journal_wait(struct ll_journal *, struct lladd_error *);

/* ---- scan.c ---------------------------------------------------------------------------------- */

/* A committed entry. */
struct ll_journal_item {
    uint64_t commit, lsn;
    uint64_t begin;  /* to find the entry again, read the log from here to `placed` */
    uint64_t placed; /* the last commit that added, moved or copied the entry */
    uint64_t len;
};

struct ll_journal_list {
    struct ll_index_node node; /* key: the tag */
    struct ll_journal_item *items;
    size_t n, cap;
};

/* One ENTRY, ROLLOVER, CLEAN or AGAIN record of a transaction. */
struct ll_journal_step {
    uint64_t lsn, tag;
    uint32_t len;
    uint32_t more; /* index in `records`, plus one; 0: an ENTRY record */
};

struct ll_journal_open { /* a transaction of which no commit or end was read yet */
    struct ll_index_node node; /* key: the transaction's id */
    struct ll_journal_step *steps;
    size_t n_steps, cap_steps;
    struct ll_journal_record *records;
    size_t n_records, cap_records;
    struct ll_journal_annul *annuls;
    size_t n_annuls, cap_annuls;
};

struct ll_journal_scan {
    struct lladd_db *db;
    struct ll_index lists, open;
};

/* Kinds of log records. They are looked up by name, because their numbers are not public. */
struct ll_journal_kinds {
    unsigned commit, end, object;
};
void ll_operations__journal_kinds(struct ll_journal_kinds *);
/* Is this a record of the journal? */
bool ll_operations__journal_has(const struct ll_journal_kinds *, const struct lladd_log_entry *);
/* Adds a record of the journal to its transaction in scan->open. After an error the call may be
 * repeated. */
int ll_operations__journal_see(struct ll_journal_scan *, const struct lladd_log_entry *,
                               struct lladd_error *);
/* Finds the transaction in scan->open, or adds it; NULL: no memory. */
struct ll_journal_open *ll_operations__journal_open_of(struct ll_journal_scan *, uint64_t txn);
/* Removes the transaction from scan->open. */
void ll_operations__journal_forget(struct ll_journal_scan *, struct ll_journal_open *);
int ll_operations__journal_bad(struct lladd_error *, lladd_lsn, const char *how);

/* Reads the log from `from` up to and including `to` (UINT64_MAX: to its end). On success
 * `lists` has the committed items, and `open` the transactions without a commit or end record.
 * The caller frees *scan, also after an error. */
int ll_operations__journal_scan(struct lladd_db *, uint64_t from, uint64_t to,
                                struct ll_journal_scan *, struct lladd_error *);
void ll_operations__journal_scan_free(struct ll_journal_scan *);
bool ll_operations__journal_annulled(const struct ll_journal_open *, uint64_t lsn);
/* The items of a tag with commits in (from, upto]. */
struct ll_journal_item *ll_operations__journal_items(const struct ll_journal_scan *, uint64_t tag,
                                                     uint64_t from, uint64_t upto, size_t *n);
/* Reads an entry; the span is valid until the cursor's next call. */
int ll_operations__journal_read(struct lladd_log_cursor *, uint64_t tag, uint64_t lsn,
                                struct lladd_span *, struct lladd_error *);

/* ---- state.c --------------------------------------------------------------------------------- */

/* Moves the mark (JRN-4), if the new place is far enough from the old one. If `force`, a new
 * mark is durable on return; otherwise it is durable as soon as the present end of the log is. */
int ll_operations__journal_move_mark(struct ll_journal *, bool force);
/* Creates the catalogue and the named root of the mark, if they are missing. Every tag needs
 * both. A checkpoint writes the mark, but must not create the name: creating a name takes mutexes
 * and latches, and the threads that hold these may wait for the checkpoint. */
int ll_operations__journal_want_names(struct ll_journal *, struct lladd_error *);
void ll_operations__journal_keep_log(struct ll_journal *, struct ll_journal_keep *, uint64_t low);
void ll_operations__journal_end_keep(struct ll_journal *, struct ll_journal_keep *);

/* ---- clean.c --------------------------------------------------------------------------------- */

void ll_operations__journal_advance(void *ctx, struct lladd_db *, lladd_lsn below);

#endif
