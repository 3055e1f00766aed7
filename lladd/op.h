/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_OP_H
#define LLADD_OP_H
/**
 * @file
 * @brief What an extension hands to the library: operations, page types, object classes,
 * transaction participants.
 *
 * Identity is always *name and version*. The library assigns numbers, remembers them in the log's
 * catalogue, and refuses to open a database whose log needs a name that is not registered, before
 * any page is touched. Descriptors are read when the database is opened and must live until it is
 * closed; the library keeps pointers to them.
 * @ingroup lladd
 */
#include <lladd/error.h>
#include <lladd/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lladd_db;
struct lladd_log_entry;
struct lladd_txn;
struct lladd_sink;

/** How a field is stored: little-endian, without padding, one after the other. */
enum lladd_field_type {
    LLADD_FIELD_END = 0,
    LLADD_FIELD_U8 = 1,
    LLADD_FIELD_U16 = 2,
    LLADD_FIELD_U32 = 3,
    LLADD_FIELD_U64 = 4,
    LLADD_FIELD_I64 = 5,
    LLADD_FIELD_PAGE = 6,    /**< page number, 8 bytes */
    LLADD_FIELD_LSN = 7,     /**< 8 bytes */
    LLADD_FIELD_BYTES16 = 8, /**< u16 length, then that many bytes */
    LLADD_FIELD_REST = 9,    /**< everything that is left; last field only */
    LLADD_FIELD_TEXT = 10    /**< like REST, shown as text where it is printable */
};

/** One field of an operation's redo or undo bytes. Arrays end with {NULL, LLADD_FIELD_END}. The
 *  layout is logged with the name, so that tools print records without the application. */
struct lladd_field {
    const char *name;
    enum lladd_field_type type;
};

/** Which bytes of a record are meant. */
enum lladd_span_kind { LLADD_SPAN_REDO = 0, LLADD_SPAN_UNDO = 1 };

/** How an update is taken back. Must be written out; 0 is refused. */
enum lladd_undo_kind {
    LLADD_UNDO_NONE = 1,   /**< never undone (redo-only; paper, section 2.4) */
    LLADD_UNDO_PAGE = 2,   /**< `undo` on the same page, physically or physiologically */
    LLADD_UNDO_LOGICAL = 3 /**< `compensate`: ordinary calls, wherever the data is by then */
};

/** Where `prepare` builds its record: first the redo bytes, then the undo bytes. */
struct lladd_draft {
    unsigned char *bytes;
    size_t max; /**< record_max of the operation */
    size_t redo_len, undo_len;
    struct lladd_error *error; /**< for lladd_error_set */
};

/** Room for len redo bytes; call before lladd_draft_undo. NULL if record_max does not allow it. */
static inline void *lladd_draft_redo(struct lladd_draft *d, size_t len)
{
    if (len > d->max)
        return NULL;
    d->redo_len = len;
    return d->bytes;
}
/** Room for len undo bytes behind the redo bytes. NULL if record_max does not allow it. */
static inline void *lladd_draft_undo(struct lladd_draft *d, size_t len)
{
    if (len > d->max - d->redo_len)
        return NULL;
    d->undo_len = len;
    return d->bytes + d->redo_len;
}

/** Fills *err (nullable) and returns code: how callbacks and extensions report. As a macro it notes
 *  the file and line it is used in as the error's birthplace; the function of the same name, for
 *  callers that cannot use a macro, notes none ("extension", line 0). */
LLADD_API int lladd_error_set(struct lladd_error *err, int code, const char *fmt, ...)
    LLADD_PRINTF(3, 4);
/** What the macro calls. `source` must live as long as the error is read: __FILE__ does. */
LLADD_API int lladd_error_set_at(struct lladd_error *err, const char *source, int line, int code,
                                 const char *fmt, ...) LLADD_PRINTF(5, 6);
#define lladd_error_set(err, ...) lladd_error_set_at(err, __FILE__, __LINE__, __VA_ARGS__)

/** An operation: the unit of logging, redo and undo (paper, sections 2.1 to 2.4). */
struct lladd_op {
    size_t struct_size; /**< sizeof(struct lladd_op) */
    const char *name;   /**< "counter.add"; at most 63 bytes of [a-z0-9_.-] */
    uint32_t version;   /**< of the redo and undo bytes; from 1 */
    void *ctx;          /**< given to every callback but validate, redo, undo and check */
    /** The record only goes to pages of this type; NULL: any formatted page. With undo_kind
     *  LOGICAL or NONE and no redo: no page at all. */
    const char *page_type;
    /** Turns any page into a fresh one of page_type: redo starts from a zeroed body whatever was
     *  there; undo_kind NONE or LOGICAL. */
    bool formats;
    const struct lladd_field *redo_fields; /**< NULL: unstructured */
    const struct lladd_field *undo_fields;
    uint32_t record_max; /**< most redo plus undo bytes of one record */
    enum lladd_undo_kind undo_kind;
    /** May fail; looks at the latched page, builds redo AND undo bytes (OP-3). NULL: the arguments
     *  are the redo bytes, and with LLADD_UNDO_PAGE the undo bytes too. `args` is what the caller
     * of lladd_update passed, not logged unless copied into the draft, and may carry out-pointers.
     * Of a page that is about to be formatted there is nothing to see: page.bytes is NULL. */
    int (*prepare)(void *ctx, struct lladd_view page, struct lladd_span args,
                   struct lladd_draft *draft);
    /** Do these redo or undo bytes fit this page? Runs before every redo and undo of stored bytes
     *  (OP-7); after true, redo and undo may not read or write outside the page whatever the bytes
     *  are. NULL only for operations without page. For logical undo bytes `page.bytes` is NULL. */
    bool (*validate)(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span bytes);
    /** Cannot fail; one page and logged bytes; pure (OP-1, OP-4). Also the forward operation. */
    void (*redo)(struct lladd_page *page, struct lladd_span redo);
    /** LLADD_UNDO_PAGE: as pure as redo. */
    void (*undo)(struct lladd_page *page, struct lladd_span undo);
    /** LLADD_UNDO_LOGICAL: ordinary calls on the transaction; the library closes them with a
     *  compensation record. Interrupted by a crash, it is rolled back and run again; a top action
     *  that it has closed with LLADD_NO_OP stays, so what is not idempotent has no place in one. */
    int (*compensate)(void *ctx, struct lladd_txn *txn, struct lladd_span undo);
    uint32_t undo_log_max;   /**< LOGICAL: most log bytes compensate writes (payload plus 128 a
                                  record) */
    uint32_t undo_pages_max; /**< LOGICAL: most pages it fixes at a time */
    /** Invariant; debug builds and verify. Nullable */
    bool (*check)(struct lladd_view page);
    /** Zeroes bytes of a scratch copy that may differ between redo and the page as it was. */
    void (*mask)(void *ctx, struct lladd_page *scratch);
    /** Extra text for tools. Nullable: the field layout is printed anyway. */
    void (*describe)(void *ctx, struct lladd_sink *, enum lladd_span_kind, struct lladd_span);
    /** Redo and undo bytes begin with a little-endian 16-bit offset in the page's body, where they
     *  write: what is done to many pages in a row has that place sent for ahead of time. Costs only
     *  time if it is wrong. */
    bool offset_first;
    /** LOGICAL, or 0: compensate writes at most so many log bytes besides as many as its undo bytes
     *  are, if that is less than undo_log_max. Then so much is set aside for a record when its undo
     *  bytes are known, and not the most there can be. */
    uint32_t undo_log_base;
    /** Not 0: redo and undo bytes together are no longer than so many pages of the database either.
     *  What is set aside for a record is then the smaller of this and record_max, so an operation
     *  for pages of all sizes takes no more log space than the pages at hand ask for. */
    uint32_t record_pages;
    /** Most records that lladd_log_credit is asked for at a time; 0 means 1. lladd_open refuses a
     *  log_ring_bytes that cannot give so many. */
    uint32_t credit_max;
};

/** A page format, known to the page header by number and to everybody else by name. */
struct lladd_page_type {
    size_t struct_size;
    const char *name;
    uint32_t version;
    void *ctx;
    /** The unused bytes [*begin, *end) of a page, left out of images; must lie in the body.
     *  Nullable; without it the zeros at the page's end are left out */
    void (*hole)(struct lladd_view page, uint32_t *begin, uint32_t *end);
    bool (*check)(struct lladd_view page); /**< invariant; debug builds and verify. Nullable */
    void (*mask)(void *ctx, struct lladd_page *scratch);
    void (*describe)(void *ctx, struct lladd_sink *, struct lladd_view page);
    /** A page of the type came from disk; *private_ is the frame's own pointer, which stays NULL
     *  where a page was formatted, or rebuilt from the log. Nullable */
    int (*loaded)(void *ctx, struct lladd_view page, void **private_, struct lladd_error *);
    /** On the writer's copy before it is checksummed; holds no latch of the core. May change bytes
     *  of bulk-written pages only (OP-1). Nullable */
    void (*flushed)(void *ctx, struct lladd_page *copy, void *private_);
    /** The frame is given up, or the page is about to be formatted anew; frees *private_.
     *  Nullable */
    void (*evicted)(void *ctx, lladd_pageno page, void **private_);
};

/** Things that are recoverable but are not pages (DESIGN 2a): a memtable, a mapping table. */
struct lladd_object_class {
    size_t struct_size;
    const char *name;
    uint32_t version;
    void *ctx;
    /** Called before recovery asks anything of the class. Nullable */
    int (*attach)(void *ctx, struct lladd_db *, struct lladd_error *);
    /** Answers, after page redo, below which LSN all effects are already durable: object redo
     * starts there. Also asked at checkpoints: the log is kept from the smallest answer on. */
    lladd_lsn (*durable_lsn)(void *ctx, struct lladd_db *);
    /** Repeats history, in LSN order. NULL: the class reads the log itself (lladd_log_open) when
     *  recovery is over, because it has to know how transactions have ended; durable_lsn then only
     *  holds the log, and there is no undo. */
    int (*redo)(void *ctx, struct lladd_db *, lladd_lsn, uint64_t object, struct lladd_span redo);
    /** Takes back a record, at rollback and recovery (txn NULL when recovery repeats history); must
     * not fail but for lack of memory. NULL: the class's records have no undo. */
    int (*undo)(void *ctx, struct lladd_db *, struct lladd_txn *, lladd_lsn compensation,
                uint64_t object, struct lladd_span undo);
    /** A checkpoint is being taken: write what bounds redo, if the class has any. Here and in
     *  advance, allocate no pages and make no named roots: others may wait for this checkpoint
     *  while they hold the latches of these. Nullable */
    int (*checkpoint)(void *ctx, struct lladd_db *);
    /** Please make everything older than lsn durable; may do it later, or here: it runs in the
     *  thread that takes a checkpoint, whose transactions then are as if they had `frees_log`.
     *  Nullable */
    void (*advance)(void *ctx, struct lladd_db *, lladd_lsn);
    void (*describe)(void *ctx, struct lladd_sink *, enum lladd_span_kind, struct lladd_span);
    /** What it is in the class that needs the log from durable_lsn on, in a few words and at most
     *  `size` bytes with the 0: lladd_log_pinner adds it to the class's name. Nullable; descriptors
     *  of an older struct_size lack it. */
    void (*pins)(void *ctx, struct lladd_db *, char *text, size_t size);
};

/** Per-transaction state of an extension: locks, memtables, deferred frees (DESIGN 2a). `state` is
 *  what lladd_join gave. After aborted, or durable and committed, the state is never used again. If
 *  the handle is poisoned or killed, none of them comes, for none would be true: what is left then,
 *  the extension's detach releases. */
struct lladd_participant {
    size_t struct_size;
    const char *name;
    uint32_t version;
    void *ctx;
    /** Writes what must survive in the prepare record: appends to the sink. Nullable */
    int (*prepare)(void *ctx, void *state, struct lladd_txn *, struct lladd_sink *);
    /** Recovery, before lladd_open returns: the blob of a transaction in doubt; join it again. */
    int (*in_doubt)(void *ctx, struct lladd_txn *, struct lladd_span blob);
    /** The commit record has its LSN. Called in commit-LSN order, one at a time; must be short. */
    void (*logged)(void *ctx, void *state, lladd_lsn commit);
    /** The commit is durable; called once, in commit-LSN order, one at a time, under no latch. It
     *  may use the library as any thread may that holds no page, and is refused what any is
     *  (LLADD_LOG_FULL); it must not wait for another commit's callback. */
    void (*durable)(void *ctx, void *state, struct lladd_db *, lladd_lsn commit);
    /** The transaction is completely rolled back. */
    void (*aborted)(void *ctx, void *state, struct lladd_db *);
    void (*rolled_back_to)(void *ctx, void *state, struct lladd_txn *, lladd_savepoint_id);
    /** A part of the transaction was taken back, by lladd_rollback_to (then behind rolled_back_to)
     *  or lladd_nta_abort: of what it has logged, whatever can be undone and is newer than the
     *  record at `since`; 0: all of it. Nullable; descriptors of an older struct_size lack it. */
    void (*taken_back)(void *ctx, void *state, struct lladd_txn *, lladd_lsn since);
    /** The transaction is about to log its commit or prepare record: what has to be durable before
     *  that (pages written past the log: lladd_bulk_sync) becomes so now, once for all that it
     *  did. An error refuses the commit, and the transaction is as it was. Nullable; descriptors of
     *  an older struct_size lack it. */
    int (*committing)(void *ctx, void *state, struct lladd_txn *);
    /** The prepare record is durable: what the blob does not name may go now. Nullable;
     *  descriptors of an older struct_size lack it. */
    void (*prepared)(void *ctx, void *state, struct lladd_txn *);
    /** The commit record has its LSN, and so nobody can commit before this transaction any more:
     *  called in the committing thread, behind `logged`, under no latch, before it waits for
     *  durability. It may be called beside or behind `durable` (another thread can find the commit
     *  durable first): who has both counts them, who has this alone may free its state in it.
     *  Nullable; descriptors of an older struct_size lack it. */
    void (*committed)(void *ctx, void *state, struct lladd_db *, lladd_lsn commit);
    /** Recovery, with LLADD_RECOVER_INSTANT: may this change of an unfinished transaction be taken
     *  back when lladd_open has returned? 0: what it changed is protected from now on by something
     *  that `txn` has got here (lladd_lock with LLADD_LOCK_TRY, in the mode and under the name it
     *  was changed under) and keeps until it is rolled back; whatever reads or changes it asks for
     *  that. Anything else: no, and all of the transaction is taken back before. Asked once for
     *  every record that is to be taken back, newest first; its bytes are as logged, and live
     *  while the call runs; `page` is where it was. Logs and changes nothing. Of several
     *  participants that have this the first that says yes is enough. Nullable; descriptors of an
     *  older struct_size lack it. */
    int (*protect)(void *ctx, struct lladd_txn *, const struct lladd_log_entry *);
};

/** Everything one extension brings, and its state on each database handle. */
struct lladd_extension {
    size_t struct_size;
    const char *name;
    uint32_t version;
    void *ctx;
    const struct lladd_op *const *ops; /**< NULL-terminated arrays; each may be NULL */
    const struct lladd_page_type *const *page_types;
    const struct lladd_object_class *const *classes;
    const struct lladd_participant *const *participants;
    /** Makes the per-handle state; before recovery, nothing can be read yet. Nullable */
    int (*attach)(void *ctx, struct lladd_db *, void **state, struct lladd_error *);
    /** Once, in the transaction that creates the database. Nullable */
    int (*create)(void *ctx, struct lladd_txn *, void *state);
    /** Recovery is over, but for the unfinished transactions that lladd_losers counts; those in
     *  doubt are known; may run transactions. Nullable */
    int (*recovered)(void *ctx, struct lladd_db *, void *state, struct lladd_error *);
    /** The handle is being closed, all transactions have ended. Nullable */
    void (*detach)(void *ctx, struct lladd_db *, void *state);
    /** Is the page in use? At most one extension answers: the allocator (BUF-5). Nullable */
    int (*is_allocated)(void *ctx, struct lladd_db *, void *state, lladd_pageno, bool *out,
                        struct lladd_error *);
};

/** Where describe callbacks and blobs go. */
/** @cond */
struct lladd_use {
    struct lladd_txn *txn;
};
/** @endcond */
/** The body of LLADD_USE: 0, or LLADD_TAKEN. NULL and transactions that are not guarded are 0. */
LLADD_API int lladd_use_begin(struct lladd_txn *, struct lladd_use *);
LLADD_API void lladd_use_end(struct lladd_use *);
/** Stands first in a function that returns a code and uses a transaction in more than one call of
 *  the library, or uses what lladd_joined gave: until it returns no other thread takes the
 *  transaction over (lladd_take), and if one has, it returns LLADD_TAKEN. They nest. */
#define LLADD_USE(transaction) \
    struct lladd_use lladd_use_ __attribute__((cleanup(lladd_use_end))) = {0}; \
    do { \
        int lladd_use_rc_ = lladd_use_begin((transaction), &lladd_use_); \
        if (lladd_use_rc_) \
            return lladd_use_rc_; \
    } while (0)
/** Is a thread waiting in lladd_take that asked for waits to end? Who waits for something that
 *  another transaction must do looks now and then. */
LLADD_API bool lladd_stopped(const struct lladd_txn *);

struct lladd_sink {
    void *ctx;
    /** 0 or an error code; after a failure the sink swallows everything. */
    int (*write)(void *ctx, const void *bytes, size_t len);
    int failed;
};
LLADD_API int lladd_sink_write(struct lladd_sink *, const void *bytes, size_t len);
LLADD_API int lladd_sink_printf(struct lladd_sink *, const char *fmt, ...) LLADD_PRINTF(2, 3);

/** Prints bytes laid out as fields ("delta=3 key=\"a\""); false if they do not fit the layout. */
LLADD_API bool lladd_fields_print(const struct lladd_field *, struct lladd_span,
                                  struct lladd_sink *);

#ifdef __cplusplus
}
#endif
#endif
