/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_JOURNAL_TABLE_H
#define LL_OPERATIONS_JOURNAL_TABLE_H
/* The journal of one database handle, as its files share it. Includes nothing of the library but
 * <lladd/...>.
 *
 * An entry is an object record of the class "journal"; whether it counts is decided by its
 * transaction's commit record. So memory keeps no entries, only where they are: each tag has a row
 * of *buckets*, each of which stands for the entries of some consecutive commits. The catalogue, a
 * hash table in recoverable pages, says of each tag up to which commit everything is given up.
 *
 *   JRN-1  An entry of tag t is live if its transaction committed at c > t.discarded, it was not
 *          annulled, and no rollover that committed took it away. A bucket of t covers it.
 *   JRN-2  The log is kept from the first entry of every bucket, of every transaction that is
 *          under way, and of what a commit that is not durable yet has dropped.
 *   JRN-3  At most one transaction changes what the catalogue says of a tag.
 *   JRN-4  The mark (a named root) is never above what JRN-2 keeps: reading begins there. The log
 *          is kept from the mark on that is durable: a crash may bring back files of the log that
 *          were removed before, and leave holes between them, so reading must begin there.
 *   JRN-5  A bucket can be read by looking at the log between its `first` and its `read_to`. */
#include <lladd/bytes.h>
#include <lladd/hash.h>
#include <lladd/journal.h>
#include <lladd/sync.h>
#include <string.h>

enum {
    LL_JOURNAL_VERSION = 1,
    LL_JOURNAL_RANK = LLADD_RANK_LEAF + 90,
    LL_JOURNAL_RANK_CREATE = LLADD_RANK_EXTENSION - 100, /* held while structures are made */
    LL_JOURNAL_MANY_BUCKETS = 1024, /* from so many on, neighbours become one */
    LL_JOURNAL_STEP = 1u << 20      /* so much is cleaned at a time */
};

#define LL_JOURNAL_ROOT "journal"      /* a: root page of the catalogue, b: version */
#define LL_JOURNAL_MARK "journal.mark" /* a: no live entry lies below */

struct ll_journal;
struct ll_journal_txn;

/* ---- map.c: numbers and what they stand for -------------------------------------------------- */

struct ll_journal_node {
    uint64_t key;
    struct ll_journal_node *next;
};

struct ll_journal_map {
    struct ll_journal_node **heads; /* a power of two of them */
    size_t n_heads, n;
};

struct ll_journal_node *ll_operations__journal_map_find(const struct ll_journal_map *, uint64_t);
/* Room for one more: 0 or LLADD_NO_MEMORY. */
int ll_operations__journal_map_room(struct lladd_db *, struct ll_journal_map *);
void ll_operations__journal_map_add(struct ll_journal_map *, struct ll_journal_node *);
void ll_operations__journal_map_drop(struct ll_journal_map *, struct ll_journal_node *);
/* In no order; NULL begins, and is what comes behind the last. */
struct ll_journal_node *ll_operations__journal_map_next(const struct ll_journal_map *,
                                                        const struct ll_journal_node *);
void ll_operations__journal_map_free(struct lladd_db *, struct ll_journal_map *);
/* Room for one more element in an array: 0 or LLADD_NO_MEMORY. */
int ll_operations__journal_grow(struct lladd_db *, void *array, size_t n, size_t *cap,
                                size_t element);

/* ---- bytes.c: what is stored ----------------------------------------------------------------- */

enum ll_journal_kind {
    LL_JOURNAL_ENTRY = 1,    /* tag, bytes */
    LL_JOURNAL_MAKE = 2,     /* name; the record's LSN is the tag */
    LL_JOURNAL_RELEASE = 3,  /* tag */
    LL_JOURNAL_DISCARD = 4,  /* tag, from, upto */
    LL_JOURNAL_ROLLOVER = 5, /* tag, other, from, upto: commits in (from, upto], and its own */
    LL_JOURNAL_ANNUL = 6,    /* from, upto: the transaction's own records in (from, upto] */
    LL_JOURNAL_CLEAN = 7,    /* tag, from, upto: the next ones replace commits in (from, upto] */
    LL_JOURNAL_AGAIN = 8,    /* tag, from: the entry's commit, bytes */
    LL_JOURNAL_KINDS
};

struct ll_journal_record {
    unsigned kind;
    uint64_t tag, other, from, upto;
    struct lladd_span bytes; /* of ENTRY, AGAIN and MAKE */
};

enum { LL_JOURNAL_RECORD_HEAD = 1 + 4 * 10 };

/* Everything but the bytes; returns how many. */
size_t ll_operations__journal_put(const struct ll_journal_record *,
                                  unsigned char out[LL_JOURNAL_RECORD_HEAD]);
bool ll_operations__journal_get(struct lladd_span, struct ll_journal_record *);

/* What the catalogue says of a tag, under its name. */
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
    uint64_t commit;  /* the newest one in it */
    uint64_t first;   /* its oldest entry */
    uint64_t read_to; /* newest commit that has to do with it */
    uint64_t entries, bytes;
};

enum ll_journal_tag_state {
    LL_TAG_MAKING = 1, /* by `changing` */
    LL_TAG_THERE = 2,
    LL_TAG_GOING = 3 /* likewise */
};

enum ll_journal_asked {
    LL_ASKED_NOT = 0,
    LL_ASKED_NOW = 1,   /* at this checkpoint */
    LL_ASKED_BEFORE = 2 /* at an earlier one: he has had his time */
};

struct ll_journal_tag {
    struct ll_journal_node node; /* key: the tag's number */
    char *name;
    char owner[LLADD_JOURNAL_OWNER_MAX + 1];
    uint64_t discarded;
    uint64_t logging; /* atomic: a commit its owner is being told of */
    struct ll_journal_txn *changing;
    uint8_t state;
    bool made; /* by `changing` */
    bool attaching;
    uint8_t asked; /* to digest: enum ll_journal_asked */
    struct ll_journal_tag *next_touched; /* by `changing` */
    uint32_t telling; /* calls of `digest` under way: its owner stays attached */
    uint32_t users;   /* transactions that have a part of it */
    uint64_t ends;    /* ... and how many of those in doubt have ended */
    const struct lladd_journal_owner *calls;
    void *ctx;
    struct ll_journal_bucket *buckets;
    size_t n_buckets, cap_buckets;
    uint64_t low; /* smallest `first`; UINT64_MAX: no bucket */
    uint64_t entries, bytes;
};

/* All under the journal's mutex. */
struct ll_journal_tag *ll_operations__journal_tag(const struct ll_journal *, uint64_t tag);
/* The one of this name that `txn` can see, or that is in its way. */
struct ll_journal_tag *ll_operations__journal_named(const struct ll_journal *, const char *name,
                                                    const struct ll_journal_txn *txn);
/* A new tag; NULL: no memory. */
struct ll_journal_tag *ll_operations__journal_tag_new(struct ll_journal *, uint64_t tag,
                                                      const char *name);
void ll_operations__journal_tag_free(struct ll_journal *, struct ll_journal_tag *);
/* Room for the buckets of all transactions that may commit now, and one more. */
int ll_operations__journal_bucket_room(struct ll_journal *, struct ll_journal_tag *);
/* At the end, by commit; there is room. */
void ll_operations__journal_bucket_put(struct ll_journal_tag *, struct ll_journal_bucket);
/* Takes out those in (from, upto]: *sum gets them together. */
void ll_operations__journal_bucket_take(struct ll_journal_tag *, uint64_t from, uint64_t upto,
                                        struct ll_journal_bucket *sum);
/* What is in those in (from, upto] was written again, from own->first on, by this commit; it was
 * own->entries, own->bytes. */
void ll_operations__journal_bucket_move(struct ll_journal_tag *, uint64_t from, uint64_t upto,
                                        const struct ll_journal_bucket *own, uint64_t commit);
static inline uint64_t ll_journal_newest(const struct ll_journal_tag *t)
{
    return t->n_buckets ? t->buckets[t->n_buckets - 1].commit : 0;
}

/* ---- txn.c ----------------------------------------------------------------------------------- */

/* What was there when the first entry behind a savepoint (or top action's beginning) came. */
struct ll_journal_was {
    lladd_savepoint_id next;
    uint64_t first, entries, bytes;
};

/* A transaction's entries of one tag. */
struct ll_journal_part {
    struct ll_journal_tag *tag; /* NULL while a part of one in doubt is not tied to it yet */
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
    lladd_savepoint_id next; /* lladd_txn_now when it was made */
    uint64_t lsn;
    uint64_t from, upto;
    struct ll_journal_bucket own; /* of a rollover: the transaction's entries it takes along */
};

/* What a commit has dropped is kept until it is durable. */
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
    struct ll_journal_txn *newer, *older; /* of those under way; under the mutex */
    bool listed, in_doubt, ending;
    bool cleaning; /* what it changes is soon changed: who needs the tag waits (clean.c) */
    uint64_t id;    /* of one in doubt */
    uint64_t first; /* atomic: its first record here; UINT64_MAX: none yet */
    uint64_t last;
    struct ll_journal_part **parts, *recent;
    size_t n_parts, made_parts, cap_parts; /* in use, in memory, pointers */
    struct ll_journal_tag *touched; /* under the mutex */
    struct ll_journal_change *changes;
    size_t n_changes, cap_changes;
    struct ll_journal_annul *annuls;
    size_t n_annuls, cap_annuls;
    size_t n_was; /* of all parts: each may become an annulment */
    struct ll_journal_held *held;
    struct ll_journal_in_doubt *doubt; /* until the catalogue is loaded */
    unsigned char *scratch;
    size_t cap_scratch;
};

/* Somebody reads: the log is kept for him. */
struct ll_journal_hold {
    struct ll_journal_hold *next, **at;
    uint64_t low;
};

struct ll_journal {
    struct lladd_db *db;
    struct lladd_mutex mutex;  /* everything here; a leaf */
    struct lladd_cond cleaned; /* a transaction that was cleaning has ended, or never will */
    struct lladd_mutex create; /* the catalogue is made, or the name of the mark */
    bool loaded;
    struct lladd_hash *catalogue; /* atomic; NULL: there is none yet */
    struct ll_journal_map tags;
    struct ll_journal_txn *all, *free, *newest;
    struct ll_journal_held *held;
    struct ll_journal_hold *holds;
    uint64_t mark;                  /* as the named root says, durably */
    uint64_t next_mark, mark_commit; /* what it says when this commit is durable; 0: nothing new */
    uint32_t named;                  /* atomic: that root is there */
};

extern const struct lladd_extension ll_operations__journal_extension;
extern const struct lladd_participant ll_operations__journal_participant;
extern const struct lladd_object_class ll_operations__journal_class;

int ll_operations__journal_of(struct lladd_db *, struct ll_journal **, struct lladd_error *);
/* The transaction's state, joined; its error tells what is wrong. */
int ll_operations__journal_join(struct lladd_txn *, struct ll_journal_txn **);
int ll_operations__journal_join_new(struct ll_journal *, struct lladd_txn *,
                                    struct ll_journal_txn **);
int ll_operations__journal_part(struct lladd_txn *, struct ll_journal_txn *, uint64_t tag,
                                struct ll_journal_part **);
/* Logs a record of the journal; `bytes` are copied behind its head. */
int ll_operations__journal_log(struct lladd_txn *, struct ll_journal_txn *,
                               const struct ll_journal_record *, lladd_lsn *);
/* Room for a change, and what has to be held for it. */
int ll_operations__journal_change_room(struct lladd_txn *, struct ll_journal_txn *);
/* Nobody but the transaction changes the tag from now on until it has ended. Under the mutex. */
void ll_operations__journal_touch(struct ll_journal_txn *, struct ll_journal_tag *);
/* It has changed nothing of it after all. Under the mutex. */
void ll_operations__journal_untouch(struct ll_journal_txn *, struct ll_journal_tag *);
/* The transaction is under way. Under the mutex. */
void ll_operations__journal_list(struct ll_journal_txn *);
/* Memory for one more part. */
int ll_operations__journal_part_room(struct ll_journal_txn *);
int ll_operations__journal_may_change(struct lladd_txn *, struct ll_journal_txn *,
                                      struct ll_journal_tag *, uint64_t number);
void ll_operations__journal_txn_free(struct ll_journal *, struct ll_journal_txn *);
void ll_operations__journal_wrong_tag(struct lladd_error *, uint64_t tag);

/* ---- doubt.c --------------------------------------------------------------------------------- */

int ll_operations__journal_blob(const struct ll_journal_txn *, struct lladd_sink *);
int ll_operations__journal_unblob(struct ll_journal *, struct lladd_txn *, struct lladd_span);
/* The catalogue is loaded: ties the transactions in doubt to their tags. */
int ll_operations__journal_tie(struct ll_journal *, struct lladd_error *);
void ll_operations__journal_doubt_free(struct ll_journal *, struct ll_journal_in_doubt *);

/* ---- clean.c --------------------------------------------------------------------------------- */

/* Checkpoints clean by themselves, whenever they like: that is no reason to refuse anybody. He
 * waits as long as the tag is being cleaned; who does that waits for nobody who could wait for him.
 * Both under the mutex. */
bool ll_operations__journal_is_cleaned(const struct ll_journal *, uint64_t tag);
/* Until something has been cleaned. An error if the handle is poisoned: nothing will be, then. */
int ll_operations__journal_wait(struct ll_journal *, struct lladd_error *);

/* ---- scan.c ---------------------------------------------------------------------------------- */

/* A committed entry. */
struct ll_journal_item {
    uint64_t commit, lsn;
    uint64_t begin;  /* who wants to find it again begins to read here */
    uint64_t placed; /* ... and reads up to this commit, which put it where it is */
    uint64_t len;
};

struct ll_journal_list {
    struct ll_journal_node node; /* key: the tag */
    struct ll_journal_item *items;
    size_t n, cap;
};

/* Something a transaction has logged. */
struct ll_journal_step {
    uint64_t lsn, tag;
    uint32_t len;
    uint32_t more; /* index in `records`, plus one; 0: an entry */
};

struct ll_journal_open {
    struct ll_journal_node node; /* key: its id */
    struct ll_journal_step *steps;
    size_t n_steps, cap_steps;
    struct ll_journal_record *records;
    size_t n_records, cap_records;
    struct ll_journal_annul *annuls;
    size_t n_annuls, cap_annuls;
};

struct ll_journal_scan {
    struct lladd_db *db;
    struct ll_journal_map lists, open;
};

/* Reads the log from `from` up to and with `to` (UINT64_MAX: to its end). What was committed is in
 * `lists` then, what was not in `open`. */
int ll_operations__journal_scan(struct lladd_db *, uint64_t from, uint64_t to,
                                struct ll_journal_scan *, struct lladd_error *);
void ll_operations__journal_scan_free(struct ll_journal_scan *);
bool ll_operations__journal_annulled(const struct ll_journal_open *, uint64_t lsn);
/* The items of a tag with commits in (from, upto]. */
struct ll_journal_item *ll_operations__journal_items(const struct ll_journal_scan *, uint64_t tag,
                                                     uint64_t from, uint64_t upto, size_t *n);
/* Reads an entry; the span lives until the cursor's next call. */
int ll_operations__journal_read(struct lladd_log_cursor *, uint64_t tag, uint64_t lsn,
                                struct lladd_span *, struct lladd_error *);

/* ---- state.c --------------------------------------------------------------------------------- */

int ll_operations__journal_row_write(struct lladd_txn *, struct ll_journal *,
                                     const struct ll_journal_tag *, uint64_t discarded);
/* The log is kept from `low` on. */
/* Says where reading begins after the next restart, if that has moved far enough. With `force` it
 * holds when this returns; without, when what is logged now is durable. */
int ll_operations__journal_move_mark(struct ll_journal *, bool force);
/* What all tags stand on: the catalogue, and the name of the mark. A checkpoint writes the mark,
 * and a new name may take latches whose holders wait for checkpoints; so it is made before. */
int ll_operations__journal_want_names(struct ll_journal *, struct lladd_error *);
void ll_operations__journal_hold(struct ll_journal *, struct ll_journal_hold *, uint64_t low);
void ll_operations__journal_let_go(struct ll_journal *, struct ll_journal_hold *);

/* ---- clean.c --------------------------------------------------------------------------------- */

void ll_operations__journal_advance(void *ctx, struct lladd_db *, lladd_lsn below);

#endif
