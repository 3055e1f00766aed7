/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_OP_H
#define LLADD_OP_H
/**
 * @file
 * @brief What an extension registers: operations, page types, object classes, transaction
 * participants.
 *
 * *Name and version* identify a descriptor. The library assigns a number to each name and version,
 * and stores it in the log. If the log needs a name that is not registered, lladd_open fails before
 * it touches any page. The library keeps pointers to descriptors, so they must live until the
 * database is closed.
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
    LLADD_FIELD_REST = 9,    /**< all remaining bytes; last field only */
    LLADD_FIELD_TEXT = 10    /**< like REST, shown as text where it is printable */
};

/** One field of an operation's redo or undo bytes. Arrays end with {NULL, LLADD_FIELD_END}. The
 *  layout is logged with the name, so that tools can print records without the application.
 *  lladd_open refuses another layout, in types or names, under the same name and version. */
struct lladd_field {
    const char *name;
    enum lladd_field_type type;
};

/** Which bytes of a record are meant. */
enum lladd_span_kind { LLADD_SPAN_REDO = 0, LLADD_SPAN_UNDO = 1 };

/** How an update is undone. The descriptor must say; 0 is refused. */
enum lladd_undo_kind {
    LLADD_UNDO_NONE = 1,   /**< never undone (redo-only; paper, section 2.4) */
    LLADD_UNDO_PAGE = 2,   /**< `undo` on the same page, physically or physiologically */
    LLADD_UNDO_LOGICAL = 3 /**< `compensate`: ordinary calls, which find the data wherever it is
                                now */
};

/** The record that `prepare` builds: first the redo bytes, then the undo bytes. */
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
/** Room for len undo bytes after the redo bytes. NULL if record_max does not allow it. */
static inline void *lladd_draft_undo(struct lladd_draft *d, size_t len)
{
    if (len > d->max - d->redo_len)
        return NULL;
    d->undo_len = len;
    return d->bytes + d->redo_len;
}

/** An operation: the unit of logging, redo and undo (paper, sections 2.1 to 2.4). */
struct lladd_op {
    size_t struct_size; /**< sizeof(struct lladd_op) */
    const char *name;   /**< "counter.add"; at most 63 bytes of [a-z0-9_.-] */
    uint32_t version;   /**< of the redo and undo bytes; from 1 */
    void *ctx;          /**< passed to every callback except validate, redo, undo and check */
    /** The records apply only to pages of this type; NULL: to any formatted page. With undo_kind
     *  LOGICAL or NONE and no redo, they apply to no page at all. */
    const char *page_type;
    /** The operation turns any page into a new one of page_type: redo starts from a zeroed body
     *  whatever the page held; undo_kind is NONE or LOGICAL. */
    bool formats;
    const struct lladd_field *redo_fields; /**< NULL: unstructured */
    const struct lladd_field *undo_fields;
    uint32_t record_max; /**< most redo plus undo bytes of one record */
    enum lladd_undo_kind undo_kind;
    /** Reads the latched page and builds the redo AND undo bytes (OP-3); may fail. NULL: the
     *  arguments are the redo bytes, and with LLADD_UNDO_PAGE also the undo bytes. `args` is what
     *  the caller of lladd_update passed; it is logged only if prepare copies it into the draft, so
     *  it may carry output pointers. page.bytes is NULL when the page is about to be formatted. */
    int (*prepare)(void *ctx, struct lladd_view page, struct lladd_span args,
                   struct lladd_draft *draft);
    /** Do these redo or undo bytes fit this page? Called before every redo and undo of stored bytes
     *  (OP-7). If it returns true, redo and undo must not read or write outside the page, whatever
     *  the bytes are. NULL only for operations without a page. For logical undo bytes `page.bytes`
     *  is NULL; for an operation that formats, the page's body is zeros. */
    bool (*validate)(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span bytes);
    /** Changes one page according to the logged bytes. Cannot fail, and depends only on the page
     *  and the bytes (OP-1, OP-4). The forward operation runs it too. */
    void (*redo)(struct lladd_page *page, struct lladd_span redo);
    /** LLADD_UNDO_PAGE: undoes `redo` on the page, by the rules of redo. */
    void (*undo)(struct lladd_page *page, struct lladd_span undo);
    /** LLADD_UNDO_LOGICAL: undoes the operation by ordinary calls on the transaction; then the
     *  library writes a CLR. If a crash interrupts the callback, its changes are rolled back and it
     *  runs again. Top actions that it closed with LLADD_NO_OP are not rolled back, so they must be
     *  idempotent. */
    int (*compensate)(void *ctx, struct lladd_txn *txn, struct lladd_span undo);
    uint32_t undo_log_max;   /**< LOGICAL: most log bytes that compensate writes: redo and undo
                                  bytes, and 128 bytes for each record; page images do not count */
    uint32_t undo_pages_max; /**< LOGICAL: most pages that compensate fixes at a time */
    /** True if the page satisfies the operation's invariant. Called in debug builds and by
     *  verification. Nullable */
    bool (*check)(struct lladd_view page);
    /** Zeroes the bytes of a scratch copy that may differ between a page after redo and the
     *  original page. */
    void (*mask)(void *ctx, struct lladd_page *scratch);
    /** Writes additional text for tools, which print the field layout in any case. Nullable */
    void (*describe)(void *ctx, struct lladd_sink *, enum lladd_span_kind, struct lladd_span);
    /** Redo and undo bytes begin with a little-endian 16-bit offset in the page's body: the place
     *  where they write. Calls that change many pages in turn prefetch that place. A wrong offset
     *  only costs time. */
    bool offset_first;
    /** LOGICAL; 0: not used. Compensate writes at most undo_log_base log bytes plus the length of
     *  its undo bytes, and at most undo_log_max. Once the undo bytes of a record are known, the
     *  library reserves the smaller of the two for the record's undo. */
    uint32_t undo_log_base;
    /** Not 0: redo and undo bytes of one record are together also no longer than this many pages.
     *  The library reserves the smaller of this limit and record_max for a record. So an operation
     *  for all page sizes reserves no more log space than the database's page size needs. */
    uint32_t record_pages;
    /** Most records requested in one call of lladd_log_credit; 0 means 1. lladd_open refuses a
     *  log_ring_bytes that cannot hold that many. */
    uint32_t credit_max;
};

/** A page format. The page header identifies it by number, the program by name. */
struct lladd_page_type {
    size_t struct_size;
    const char *name;
    uint32_t version;
    void *ctx;
    /** The unused bytes [*begin, *end) of a page, which images omit; must lie in the body.
     *  Nullable: then images omit the zeros at the page's end. */
    void (*hole)(struct lladd_view page, uint32_t *begin, uint32_t *end);
    bool (*check)(struct lladd_view page); /**< true if the page satisfies the type's invariant;
                                                called in debug builds and by verification.
                                                Nullable */
    void (*mask)(void *ctx, struct lladd_page *scratch);
    void (*describe)(void *ctx, struct lladd_sink *, struct lladd_view page);
    /** A page of the type was read from disk. *private_ is a pointer of the frame for the
     *  extension's use; it stays NULL if the page was formatted, or rebuilt from the log.
     *  Nullable */
    int (*loaded)(void *ctx, struct lladd_view page, void **private_, struct lladd_error *);
    /** Called on the writer's copy before it is checksummed; the thread holds no latch of the core.
     *  May change bytes of bulk-written pages only (OP-1). Nullable */
    void (*flushed)(void *ctx, struct lladd_page *copy, void *private_);
    /** The frame is being released, or the page is about to be formatted again; frees *private_.
     *  Nullable */
    void (*evicted)(void *ctx, lladd_pageno page, void **private_);
};

/** Recoverable data that is not kept in pages, for example a memtable or a mapping table. */
struct lladd_object_class {
    size_t struct_size;
    const char *name;
    uint32_t version;
    void *ctx;
    /** Called before any other callback of the class. Nullable */
    int (*attach)(void *ctx, struct lladd_db *, struct lladd_error *);
    /** The LSN below which all effects of the class's records are durable. Object redo, after page
     *  redo, starts there. At checkpoints the log is kept from the smallest LSN of all classes
     *  on. */
    lladd_lsn (*durable_lsn)(void *ctx, struct lladd_db *);
    /** Redoes a record; called in LSN order. NULL: the class reads the log itself (lladd_log_open)
     *  after recovery, because it has to know how transactions ended; then durable_lsn only keeps
     *  the log, and `undo` must be NULL. */
    int (*redo)(void *ctx, struct lladd_db *, lladd_lsn, uint64_t object, struct lladd_span redo);
    /** Undoes a record, at rollback and in recovery (txn is NULL while recovery redoes CLRs). May
     *  fail only for lack of memory. NULL: the class's records have no undo. */
    int (*undo)(void *ctx, struct lladd_db *, struct lladd_txn *, lladd_lsn compensation,
                uint64_t object, struct lladd_span undo);
    /** A checkpoint is being taken: the class may write state that shortens its redo. `checkpoint`
     *  and `advance` must not allocate pages or create named roots, because another thread may hold
     *  the latches for that while it waits for this checkpoint. Meanwhile the thread runs no
     *  `durable` callback (THR-2), and calls that take part in a checkpoint (lladd_checkpoint,
     *  lladd_maintain, lladd_pin_set, lladd_pin_clear, lladd_heuristic_end, lladd_heuristic_forget)
     *  return LLADD_BAD_STATE. Nullable */
    int (*checkpoint)(void *ctx, struct lladd_db *);
    /** Asks the class to make everything older than lsn durable, now or later. It runs in the
     *  thread that takes a checkpoint; transactions that it begins there have `frees_log`
     *  implicitly. Nullable */
    void (*advance)(void *ctx, struct lladd_db *, lladd_lsn);
    void (*describe)(void *ctx, struct lladd_sink *, enum lladd_span_kind, struct lladd_span);
    /** Writes what in the class needs the log from durable_lsn on: a short NUL-terminated string,
     *  at most `size` bytes, which lladd_log_pinner appends to the class's name. Nullable;
     *  descriptors of an older struct_size lack it. */
    void (*pins)(void *ctx, struct lladd_db *, char *text, size_t size);
};

/** An extension's state for each transaction: locks, memtables, deferred frees. `state`
 *  was set with lladd_txn_join. The library does not use it again after `aborted`, or after the
 *  transaction is committed and durable. If the handle is poisoned or killed, no callback is made,
 *  because the transaction's outcome is unknown: the extension's `detach` then releases the
 *  state. */
struct lladd_participant {
    size_t struct_size;
    const char *name;
    uint32_t version;
    void *ctx;
    /** Appends to the sink the bytes that the prepare record stores for the participant.
     *  Nullable */
    int (*prepare)(void *ctx, void *state, struct lladd_txn *, struct lladd_sink *);
    /** Recovery, before lladd_open returns: gets the bytes that `prepare` wrote for a transaction
     *  in doubt, and must join it again. */
    int (*in_doubt)(void *ctx, struct lladd_txn *, struct lladd_span blob);
    /** The commit record has its LSN. Called in commit-LSN order, one at a time; must be short. */
    void (*logged)(void *ctx, void *state, lladd_lsn commit);
    /** The commit is durable. Called once, in commit-LSN order, one at a time, under no latch, in
     *  any thread that commits or waits (THR-2). For a transaction that wrote nothing, `commit` is
     *  the newest commit that it may have seen. The callback may make any call that a thread
     *  without a page may make, and may get the same errors (LLADD_LOG_FULL). It must not wait for
     *  the callback of another commit. */
    void (*durable)(void *ctx, void *state, struct lladd_db *, lladd_lsn commit);
    /** The transaction is completely rolled back. */
    void (*aborted)(void *ctx, void *state, struct lladd_db *);
    void (*rolled_back_to)(void *ctx, void *state, struct lladd_txn *, lladd_savepoint_id);
    /** The transaction's undoable records newer than the record at `since` were undone, by
     *  lladd_rollback_to (then called after rolled_back_to) or by lladd_nta_abort. since 0: all its
     *  records. Nullable; descriptors of an older struct_size lack it. */
    void (*undone)(void *ctx, void *state, struct lladd_txn *, lladd_lsn since);
    /** The transaction is about to log its commit or prepare record. The participant now makes
     *  everything durable that must be durable before that record, for example pages written
     *  without logging (lladd_bulk_sync). An error refuses the commit, and the transaction is
     *  unchanged. Nullable; descriptors of an older struct_size lack it. */
    int (*committing)(void *ctx, void *state, struct lladd_txn *);
    /** The prepare record is durable: the participant may release what its prepare bytes do not
     *  name. Nullable; descriptors of an older struct_size lack it. */
    void (*prepared)(void *ctx, void *state, struct lladd_txn *);
    /** The commit record has its LSN, so every later commit follows this one. Called in the
     *  committing thread, after `logged`, under no latch, before the thread waits for durability.
     *  It may run at the same time as `durable` or after it, because another thread can find the
     *  commit durable first. If both callbacks are set, use a reference count; if this is the only
     *  one, free the state here. Nullable; descriptors of an older struct_size lack it. */
    void (*committed)(void *ctx, void *state, struct lladd_db *, lladd_lsn commit);
    /** Recovery with LLADD_RECOVER_INSTANT: may this change of a loser transaction be undone after
     *  lladd_open has returned? 0 means yes: the participant has now protected the changed data for
     *  `txn` until it is rolled back (lladd_lock_acquire with LLADD_LOCK_TRY, in the mode and under
     *  the name of the original change), and every reader or writer of the data asks for the same
     *  protection. Any other value means no, and the whole transaction is undone before lladd_open
     *  returns. Called once for each record that is to be undone, newest first. The record's bytes
     *  are as logged and valid during the call; `page` is the page it changed. The callback must
     *  not log or change anything. If several participants have it, one result of 0 is enough. Do
     *  not return 0 for a change of an allocation bitmap (lladd.map.*): until the undo, a page that
     *  the loser has freed counts as free. If another crash follows and the page is damaged beyond
     *  repair, that is not reported, and undo allocates the page again without its contents.
     *  Nullable; descriptors of an older struct_size lack it. */
    int (*protect)(void *ctx, struct lladd_txn *, const struct lladd_log_entry *);
};

struct lladd_root_value;

/** A kind of data structure that is found through named roots. `lladd verify --ops` checks each
 *  structure of the kind and counts its pages as owned. A named root belongs to the kind if its
 *  name is `root` (unless that is NULL) and its first word is the number of an allocated page of
 *  type `page_type` (unless that is NULL). At least one of the two must be set. If several kinds
 *  match a root, the kind registered first counts; the library's own kinds come last. The callbacks
 *  only read: they log nothing, and when they return they hold no page and have no transaction
 *  open. Nothing else uses the database meanwhile. */
struct lladd_structure {
    size_t struct_size;
    const char *name; /**< "example.ordered", as in findings; same letters as an operation's name */
    uint32_t version; /**< of this descriptor; from 1 */
    void *ctx;
    const char *page_type; /**< nullable, if `root` is not */
    const char *root;      /**< nullable, if `page_type` is not */
    /** Checks the structure. Returns 0 if it is in order; or an error with root DATA
     *  (LLADD_CORRUPT_PAGE), with a message that says what is wrong, and the number of the damaged
     *  page if known. LLADD_BAD_CONFIG and LLADD_NO_COMPARATOR: the structure cannot be checked in
     *  this process. Resource errors end the verification. The pages are as recovery left them; for
     *  a damaged page lladd_page_fix returns an error. */
    int (*check)(void *ctx, struct lladd_db *, struct lladd_root_value, struct lladd_error *);
    /** Calls fn(arg, page) once for each page of the structure, including pages of extents. If fn
     *  does not return 0, stops and returns that value. Nullable: then pages that no structure owns
     *  are not reported as leaks. */
    int (*pages)(void *ctx, struct lladd_db *, struct lladd_root_value,
                 int (*fn)(void *arg, lladd_pageno), void *arg, struct lladd_error *);
};

/** All descriptors of one extension, and the callbacks for its state on each database handle. */
struct lladd_extension {
    size_t struct_size;
    const char *name;
    uint32_t version;
    void *ctx;
    const struct lladd_op *const *ops; /**< NULL-terminated arrays; each may be NULL */
    const struct lladd_page_type *const *page_types;
    const struct lladd_object_class *const *classes;
    const struct lladd_participant *const *participants;
    /** Makes the extension's state for the handle. Called before recovery, when no page can be
     *  read. Nullable */
    int (*attach)(void *ctx, struct lladd_db *, void **state, struct lladd_error *);
    /** Called once, in the transaction that creates the database. Nullable */
    int (*create)(void *ctx, struct lladd_txn *, void *state);
    /** Recovery is over, except for the losers that lladd_losers_left counts; the in-doubt
     *  transactions are known. May run transactions. Nullable */
    int (*recovered)(void *ctx, struct lladd_db *, void *state, struct lladd_error *);
    /** The handle is being closed; all transactions have ended, and pages can no longer be used.
     *  Nullable */
    void (*detach)(void *ctx, struct lladd_db *, void *state);
    /** Is the page allocated? Only one extension, the allocator, may have this callback (BUF-5).
     *  Nullable */
    int (*is_allocated)(void *ctx, struct lladd_db *, void *state, lladd_pageno, bool *out,
                        struct lladd_error *);
    /** The structures that tools can check, NULL-terminated. Nullable; descriptors of an older
     *  struct_size lack it. */
    const struct lladd_structure *const *structures;
    /** The handle is about to be closed, by lladd_close, lladd_db_kill or a failed lladd_open. The
     *  extension must end its threads that use the handle; until the callback returns they can
     *  still use it. Called once, before the first `detach`, if `attach` has returned 0. Nullable;
     *  descriptors of an older struct_size lack it. */
    void (*stop)(void *ctx, struct lladd_db *, void *state);
};

/** Destination of the bytes that describe and prepare callbacks write. */
struct lladd_sink {
    void *ctx;
    /** 0 or an error code; after a failure the sink ignores all further bytes. */
    int (*write)(void *ctx, const void *bytes, size_t len);
    int failed;
};
/** Writes bytes to the sink. Returns 0 or the sink's first error. */
LLADD_API int lladd_sink_write(struct lladd_sink *, const void *bytes, size_t len);
/** Writes formatted text to the sink, as lladd_sink_write. */
LLADD_API int lladd_sink_printf(struct lladd_sink *, const char *fmt, ...) LLADD_PRINTF(2, 3);

/** Prints bytes in a field layout ("delta=3 key=\"a\""); false if they do not fit the layout. */
LLADD_API bool lladd_fields_print(const struct lladd_field *, struct lladd_span,
                                  struct lladd_sink *);

#ifdef __cplusplus
}
#endif
#endif
