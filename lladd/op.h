/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_OP_H
#define LLADD_OP_H
/**
 * @file
 * @brief What an extension registers: operations, page types, object classes, transaction
 * participants.
 *
 * *Name and version* identify a descriptor. The library assigns a number to each name and version,
 * and stores it in the log. If recovery needs a name that is not registered, lladd_open returns
 * LLADD_NO_OPERATION before it touches any page. The library keeps pointers to the descriptors, so
 * a descriptor must live until the database is closed.
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

/** How a field is stored. Numbers are little-endian; fields follow each other without padding. */
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
    LLADD_FIELD_TEXT = 10    /**< like REST; tools print its printable bytes as text */
};

/** One field of an operation's redo or undo bytes. Arrays end with {NULL, LLADD_FIELD_END}. The
 *  layout is logged with the name, so that tools can print records without the application. If an
 *  operation is registered with other field types or field names than the log has for its name and
 *  version, lladd_open returns LLADD_BAD_REGISTRATION; a layout without fields matches any
 *  layout. */
struct lladd_field {
    const char *name;
    enum lladd_field_type type;
};

/** Selects the redo bytes or the undo bytes of a record. */
enum lladd_span_kind { LLADD_SPAN_REDO = 0, LLADD_SPAN_UNDO = 1 };

/** How an update is undone. A descriptor with the value 0 is refused. */
enum lladd_undo_kind {
    LLADD_UNDO_NONE = 1,   /**< never undone (redo-only; LLADD paper, section 2.4) */
    LLADD_UNDO_PAGE = 2,   /**< `undo` on the same page, physically or physiologically */
    LLADD_UNDO_LOGICAL = 3 /**< `compensate`: ordinary calls, which find the data wherever it is
                                now */
};

/** The record that `prepare` builds: first the redo bytes, then the undo bytes. */
struct lladd_draft {
    unsigned char *bytes;
    size_t max; /**< `record_max` of the operation */
    size_t redo_len, undo_len;
    struct lladd_error *error; /**< for lladd_error_set */
};

/** Returns room for `len` redo bytes; NULL if `record_max` is too small. Call it before
 *  lladd_draft_undo. */
static inline void *lladd_draft_redo(struct lladd_draft *d, size_t len)
{
    if (len > d->max)
        return NULL;
    d->redo_len = len;
    return d->bytes;
}
/** Returns room for `len` undo bytes after the redo bytes; NULL if `record_max` is too small. */
static inline void *lladd_draft_undo(struct lladd_draft *d, size_t len)
{
    if (len > d->max - d->redo_len)
        return NULL;
    d->undo_len = len;
    return d->bytes + d->redo_len;
}

/** An operation: the unit of logging, redo and undo (LLADD paper, sections 2.1 to 2.4). */
struct lladd_op {
    size_t struct_size; /**< sizeof(struct lladd_op) */
    const char *name;   /**< "counter.add"; at most 63 bytes of [a-z0-9_.-] */
    uint32_t version;   /**< version of the redo and undo bytes; from 1 */
    void *ctx;          /**< passed to all callbacks but `validate`, `redo`, `undo`, `check` */
    /** The records apply only to pages of this type; NULL: to any formatted page. The records of an
     *  operation without `redo` apply to no page at all; only `undo_kind` LOGICAL allows such an
     *  operation. */
    const char *page_type;
    /** If true, the operation turns any page into a new page of `page_type`: `redo` starts from a
     *  zeroed body, whatever the page contained. `undo_kind` must then be NONE or LOGICAL. */
    bool formats;
    const struct lladd_field *redo_fields; /**< NULL: unstructured */
    const struct lladd_field *undo_fields;
    uint32_t record_max; /**< the maximum number of bytes, redo plus undo, of one record */
    enum lladd_undo_kind undo_kind;
    /** Reads the latched page and builds the redo AND undo bytes (OP-3); may fail. If the member is
     *  NULL, the arguments are the redo bytes, and with LLADD_UNDO_PAGE also the undo bytes. `args`
     *  are the arguments of lladd_update. They are logged only if `prepare` copies them into the
     *  draft, so they may contain pointers to outputs. `page.bytes` is NULL if the page is about to
     *  be formatted. */
    int (*prepare)(void *ctx, struct lladd_view page, struct lladd_span args,
                   struct lladd_draft *draft);
    /** Returns true if these redo or undo bytes fit this page. Called before every redo and undo of
     *  stored bytes (OP-7). If the callback returns true, redo and undo must not read or write
     *  outside the page, whatever the bytes are. NULL only for operations without a page. For
     *  logical undo bytes `page.bytes` is NULL; for an operation that formats, the page's body is
     *  zeros. */
    bool (*validate)(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span bytes);
    /** Changes one page according to the logged bytes. Cannot fail, and depends only on the page
     *  and the bytes (OP-1, OP-4). Not only recovery runs `redo`: lladd_update does, too. */
    void (*redo)(struct lladd_page *page, struct lladd_span redo);
    /** LLADD_UNDO_PAGE: undoes on the page what `redo` has done. The rules of `redo` apply. */
    void (*undo)(struct lladd_page *page, struct lladd_span undo);
    /** LLADD_UNDO_LOGICAL: undoes the operation with ordinary calls on the transaction; then the
     *  library writes a CLR. If a crash interrupts the callback, recovery rolls back the changes
     *  that the callback has made, and calls it again. Top actions that the callback has closed
     *  with LLADD_NO_OP are not rolled back, so they must be idempotent. */
    int (*compensate)(void *ctx, struct lladd_txn *txn, struct lladd_span undo);
    uint32_t undo_log_max;   /**< LOGICAL: the maximum number of log bytes that `compensate` writes.
                                  Count the redo and undo bytes of its records, and 128 bytes for
                                  each record, but no page images */
    uint32_t undo_pages_max; /**< LOGICAL: the maximum number of pages that `compensate` fixes at a
                                  time */
    /** Returns true if the page satisfies the operation's invariant. Called in debug builds, and
     *  when a database is verified. Nullable */
    bool (*check)(struct lladd_view page);
    /** Zeroes those bytes of a scratch copy that need not be the same in the original page and in a
     *  page that redo has rebuilt. Nullable: then the page type's `mask` is used */
    void (*mask)(void *ctx, struct lladd_page *scratch);
    /** Writes additional text for tools, which print the field layout in any case. Nullable */
    void (*describe)(void *ctx, struct lladd_sink *, enum lladd_span_kind, struct lladd_span);
    /** True if the redo and undo bytes begin with a little-endian 16-bit number: the offset in the
     *  page's body at which `redo` and `undo` write. Library calls that change many pages in turn
     *  prefetch this place. A wrong offset only costs time. */
    bool offset_first;
    /** LOGICAL: a second limit for `compensate`; 0: there is no second limit. `compensate` writes
     *  at most `undo_log_base` plus the length of its undo bytes, counted as for `undo_log_max`.
     *  For the undo of a record with known undo bytes, the library reserves the smaller of the two
     *  limits. */
    uint32_t undo_log_base;
    /** If not 0, the bytes of this many pages are a second limit for the redo plus undo bytes of
     *  one record. The library reserves the smaller of this limit and `record_max` for a record. So
     *  an operation for all page sizes reserves no more log space than the database's page size
     *  needs. */
    uint32_t record_pages;
    /** The maximum number of records that the extension requests in one call of lladd_log_credit; 0
     *  means 1. lladd_open refuses a `log_ring_bytes` or a `log_limit_bytes` in which so many
     *  records cannot be reserved. */
    uint32_t credit_max;
};

/** A page format. The header of a page contains the number of the page type; programs use its
 *  name. */
struct lladd_page_type {
    size_t struct_size;
    const char *name;
    uint32_t version;
    void *ctx;
    /** Gets the unused bytes [*begin, *end) of a page, which images omit; they must lie in the
     *  body. Nullable: then images omit the zeros at the page's end. */
    void (*hole)(struct lladd_view page, uint32_t *begin, uint32_t *end);
    bool (*check)(struct lladd_view page); /**< returns true if the page satisfies the type's
                                                invariant. Called in debug builds, and when a
                                                database is verified. Nullable */
    void (*mask)(void *ctx, struct lladd_page *scratch); /**< as lladd_op.mask. Nullable */
    /** Writes the page's contents as text, for tools. Nullable */
    void (*describe)(void *ctx, struct lladd_sink *, struct lladd_view page);
    /** Called when a page of the type has been read from disk. *private_ is a pointer in the page's
     *  frame for the extension's use. Not called for a page that is formatted, nor if redo of the
     *  page begins with an image: then the pointer stays NULL, and recovery fails with
     *  LLADD_BAD_RECORD if `check` refuses the image. For a page that full recovery reads for redo
     *  the pointer is given to `evicted` at once; lladd_page_rebuild gives it, too. Nullable */
    int (*loaded)(void *ctx, struct lladd_view page, void **private_, struct lladd_error *);
    /** Called with the copy that is about to be written, before its checksum is computed; the
     *  thread holds no latch of the library. May change bytes of bulk-written pages only (OP-1).
     *  Nullable */
    void (*flushed)(void *ctx, struct lladd_page *copy, void *private_);
    /** Frees *private_. Called when the frame is released, or the page is about to be formatted
     *  again; not while a call of `flushed` has the pointer. Nullable */
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
    /** Returns the LSN below which all effects of the class's records are durable. Object redo,
     *  after page redo, starts at this LSN. A checkpoint keeps the log from the smallest of these
     *  LSNs on. If files are missing so that the log begins above this LSN, and the log has
     *  records of the class but not its first use, lladd_open fails with LLADD_MISSING_FILE; 0:
     *  this is not checked. Nullable if `redo` is given: then all records of the class that the log
     *  still has are redone, and no checkpoint keeps log for the class. */
    lladd_lsn (*durable_lsn)(void *ctx, struct lladd_db *);
    /** Redoes a record; called in LSN order. NULL: the class reads the log after recovery
     *  (lladd_log_open), because it has to know how transactions ended; then `durable_lsn` is only
     *  used to keep the log, and `undo` must be NULL. */
    int (*redo)(void *ctx, struct lladd_db *, lladd_lsn, uint64_t object, struct lladd_span redo);
    /** Undoes a record, at rollback and in recovery (`txn` is NULL while recovery redoes CLRs). The
     *  only error that it may return is LLADD_NO_MEMORY. NULL: the class's records have no undo. */
    int (*undo)(void *ctx, struct lladd_db *, struct lladd_txn *, lladd_lsn compensation,
                uint64_t object, struct lladd_span undo);
    /** Called during a checkpoint: the class may write state that shortens its redo. `checkpoint`
     *  and `advance` must not allocate pages or create named roots, because another thread may hold
     *  the mutexes that these calls need while it waits for this checkpoint. During `checkpoint`
     *  and `advance` the thread runs no `durable` callback (THR-2), and calls that take part in a
     *  checkpoint (lladd_checkpoint, lladd_maintain, lladd_pin_set, lladd_pin_clear,
     *  lladd_heuristic_end, lladd_heuristic_forget) return LLADD_BAD_STATE. Nullable */
    int (*checkpoint)(void *ctx, struct lladd_db *);
    /** Asks the class to make the effects of its records below lsn durable, now or later. Called in
     *  the thread that takes a checkpoint; transactions that the callback begins in this thread
     *  have `frees_log` implicitly. Nullable */
    void (*advance)(void *ctx, struct lladd_db *, lladd_lsn);
    /** Writes the redo or undo bytes of a record as text, for tools. Nullable */
    void (*describe)(void *ctx, struct lladd_sink *, enum lladd_span_kind, struct lladd_span);
    /** Writes into `text` which data of the class need the log from `durable_lsn` on: a short
     *  NUL-terminated string, at most `size` bytes, which lladd_log_pinner appends to the class's
     *  name. Nullable; descriptors with a smaller `struct_size` lack it. */
    void (*pins)(void *ctx, struct lladd_db *, char *text, size_t size);
    /** True: recovery redoes the class's records, up to the end of the log, before it redoes any
     *  record of the classes without `first`, and calls their `durable_lsn` in between. So these
     *  classes can rely in redo on what the records of this class say. Such a class has `redo`, but
     *  no `undo`. Descriptors with a smaller `struct_size` lack the member. */
    bool first;
};

/** Callbacks for an extension that keeps state for each transaction: locks, memtables, deferred
 *  frees. `state` is the pointer that was set with lladd_txn_join. The library does not use the
 *  pointer after `aborted`, or after both `durable` and `committed`. If the handle is poisoned or
 *  killed, the library calls none of these callbacks, because the transaction's outcome is unknown:
 *  the extension's `detach` then releases the state. All callbacks are nullable. */
struct lladd_participant {
    size_t struct_size;
    const char *name;
    uint32_t version;
    void *ctx;
    /** Appends to the sink the bytes that the prepare record stores for the participant.
     *  Nullable */
    int (*prepare)(void *ctx, void *state, struct lladd_txn *, struct lladd_sink *);
    /** Called by recovery, before lladd_open returns, for a transaction in doubt, with the bytes
     *  that `prepare` wrote. The participant must join the transaction again. */
    int (*in_doubt)(void *ctx, struct lladd_txn *, struct lladd_span blob);
    /** Called when the commit record has its LSN, in the order of commit LSNs, for one commit at a
     *  time; must be short. Also called for a transaction that wrote nothing: `commit` is then the
     *  newest commit that the transaction may have seen. */
    void (*logged)(void *ctx, void *state, lladd_lsn commit);
    /** Called once when the commit is durable, in the order of commit LSNs, for one commit at a
     *  time. The thread is any one that commits, waits for a commit, takes a checkpoint or does
     *  maintenance; it holds no page latch, and no mutex that the callback may need (THR-2). For a
     *  transaction that wrote nothing, `commit` is the newest commit that the transaction may have
     *  seen. The callback may make any call that a thread without a page may make, and such a call
     *  may return any of its errors (LLADD_LOG_FULL). The callback must not wait for the callback
     *  of another commit. */
    void (*durable)(void *ctx, void *state, struct lladd_db *, lladd_lsn commit);
    /** Called when the transaction is completely rolled back. */
    void (*aborted)(void *ctx, void *state, struct lladd_db *);
    /** Called by lladd_rollback_to when the changes since the savepoint have been undone. */
    void (*rolled_back_to)(void *ctx, void *state, struct lladd_txn *, lladd_savepoint_id);
    /** Called when the transaction's undoable records newer than the record at `since` have been
     *  undone, by lladd_rollback_to (then after `rolled_back_to`) or by lladd_nta_abort. `since` 0:
     *  all records of the transaction have been undone. Nullable; descriptors with a smaller
     *  `struct_size` lack it. */
    void (*undone)(void *ctx, void *state, struct lladd_txn *, lladd_lsn since);
    /** Called when the transaction is about to log its commit or prepare record. The participant
     *  makes everything durable that must be durable before that record, for example pages written
     *  without logging (lladd_bulk_sync). If the callback returns an error, the commit or prepare
     *  returns this error, and the transaction is unchanged. The participants are called in the
     *  order in which they have joined; those of an extension with `bulk_written` come last.
     *  Nullable; descriptors with a smaller `struct_size` lack it. */
    int (*committing)(void *ctx, void *state, struct lladd_txn *);
    /** Called by lladd_prepare when the prepare record is durable: the participant may release
     *  state that its prepare bytes do not describe. lladd_prepare_async does not call it.
     *  Nullable; descriptors with a smaller `struct_size` lack it. */
    void (*prepared)(void *ctx, void *state, struct lladd_txn *);
    /** Called after `logged`, when the commit record has its LSN, so that every later commit
     *  follows this one. Called in the committing thread, which holds no page latch, before this
     *  thread waits for durability. `committed` may run at the same time as `durable` or after it,
     *  because another thread may find first that the commit is durable. If both callbacks are set,
     *  use a reference count; if only `committed` is set, free the state in it. Nullable;
     *  descriptors with a smaller `struct_size` lack it. */
    void (*committed)(void *ctx, void *state, struct lladd_db *, lladd_lsn commit);
    /** Recovery with LLADD_RECOVER_INSTANT: may this change of a loser be undone after lladd_open
     *  has returned? 0 means yes: the participant has now protected the changed data for `txn`
     *  until `txn` is rolled back (lladd_lock_acquire with LLADD_LOCK_TRY, in the mode and under
     *  the name of the original change), and every reader or writer of the data asks for the same
     *  protection. Any other value means no, and the whole loser is undone before lladd_open
     *  returns. Called once for each record that is to be undone, newest first. The record's bytes
     *  are as logged, and valid during the call; the record's `page` is the page that it changed.
     *  The callback must not log or change anything. If several participants have this callback,
     *  one result of 0 is enough. A loser that has changed an allocation bitmap (lladd.map.*) is
     *  always undone before lladd_open returns: until the undo, a page that it has freed would
     *  count as free. Nullable; descriptors with a smaller `struct_size` lack it. */
    int (*protect)(void *ctx, struct lladd_txn *, const struct lladd_log_entry *);
};

struct lladd_root_value;

/** A kind of data structure that is found through named roots. `lladd verify --ops` checks each
 *  structure of the kind and counts its pages as owned. A named root belongs to the kind if its
 *  name is `root` (if `root` is not NULL) and its first word is the number of an allocated page of
 *  type `page_type` (if `page_type` is not NULL). `root` or `page_type` must be set. If several
 *  kinds match a root, the kind registered first counts; the library's own kinds come last. The
 *  callbacks only read. They log nothing, and must release all pages and end all transactions
 *  before they return. No other thread uses the database meanwhile. */
struct lladd_structure {
    size_t struct_size;
    const char *name; /**< "example.ordered", for findings; with the characters of an operation's
                           name */
    uint32_t version; /**< of this descriptor; from 1 */
    void *ctx;
    const char *page_type; /**< nullable, if `root` is not */
    const char *root;      /**< nullable, if `page_type` is not */
    /** Checks the structure. Returns 0 if the structure is in order. Otherwise returns an error
     *  with root DATA (LLADD_CORRUPT_PAGE): its message says what is wrong, and it has the number
     *  of the damaged page if known. LLADD_BAD_CONFIG and LLADD_NO_COMPARATOR: the structure cannot
     *  be checked in this process. A resource error ends the verification. The pages are as
     *  recovery has left them; for a damaged page lladd_page_fix returns an error. */
    int (*check)(void *ctx, struct lladd_db *, struct lladd_root_value, struct lladd_error *);
    /** Calls fn(arg, page) once for each page of the structure, including pages of extents. If `fn`
     *  does not return 0, stops and returns that value. Nullable: then pages that no structure owns
     *  are not reported as leaks. */
    int (*pages)(void *ctx, struct lladd_db *, struct lladd_root_value,
                 int (*fn)(void *arg, lladd_pageno), void *arg, struct lladd_error *);
};

/** All descriptors of one extension, and the callbacks for the extension's state in each database
 *  handle. */
struct lladd_extension {
    size_t struct_size;
    const char *name;
    uint32_t version;
    void *ctx;
    const struct lladd_op *const *ops; /**< NULL-terminated arrays; each may be NULL */
    const struct lladd_page_type *const *page_types;
    const struct lladd_object_class *const *classes;
    const struct lladd_participant *const *participants;
    /** Makes the extension's state for the handle. Called before recovery; no page can be read yet.
     *  Nullable */
    int (*attach)(void *ctx, struct lladd_db *, void **state, struct lladd_error *);
    /** Called once, in the transaction that creates the database. Nullable */
    int (*create)(void *ctx, struct lladd_txn *, void *state);
    /** Called when recovery is over, except for the losers that lladd_losers_left counts; the
     *  transactions in doubt are known. May run transactions. Nullable */
    int (*recovered)(void *ctx, struct lladd_db *, void *state, struct lladd_error *);
    /** Frees the extension's state when the handle is released. Pages can no longer be used. The
     *  extension's state may still contain the state of transactions: of transactions in doubt and,
     *  if the handle is poisoned or killed, of all transactions. Nullable */
    void (*detach)(void *ctx, struct lladd_db *, void *state);
    /** Is the page allocated, and was it formatted or changed since? Recovery asks about pages that
     *  it cannot rebuild, one at a time. Only the first extension with this callback is asked: the
     *  built-in allocator (BUF-5). Nullable */
    int (*is_allocated)(void *ctx, struct lladd_db *, void *state, lladd_pageno, bool *out,
                        struct lladd_error *);
    /** The structures that tools can check, NULL-terminated. Nullable; descriptors with a smaller
     *  `struct_size` lack it. */
    const struct lladd_structure *const *structures;
    /** Called when the handle is about to be closed, by lladd_close, lladd_db_kill or an lladd_open
     *  that returns an error. The extension must end its threads that use the handle; until the
     *  callback returns, these threads can still use the handle. Called once, before the first
     *  `detach`, if `attach` has returned 0. Nullable; descriptors with a smaller `struct_size`
     *  lack it. */
    void (*stop)(void *ctx, struct lladd_db *, void *state);
    /** For an extension that keeps what the log lacks, such as an archive. Called before
     *  lladd_bulk_write returns, when it has written `n` pages from `first` on: once for each
     *  stretch of pages under one redo barrier of the transaction. `barrier`: the LSN of this
     *  barrier, which is durable. The n pages at `bytes` are as in the page file; `typed`: they
     *  have page headers, with `barrier` as page LSN. Other extensions write in bulk under mutexes
     *  of their own, so the callback may wait for files, but for nothing else. lladd_bulk_write
     *  returns the callback's error. The participants of an extension with this callback get
     *  `committing` last, since the other participants may write in bulk in their `committing`.
     *  Nullable; descriptors with a smaller `struct_size` lack it. */
    int (*bulk_written)(void *ctx, struct lladd_db *, void *state, struct lladd_txn *,
                        lladd_lsn barrier, lladd_pageno first, uint64_t n, bool typed,
                        const void *bytes);
    /** For an extension that has copies of pages, such as an archive. Called for a page that
     *  neither the page file nor the log can give (BUF-2), before its fetch fails, and in recovery
     *  before transactions are undone. The callback fills `bytes`, of the page size, with the page
     *  as it was after all its changes below `since`, or later (lladd_page_redo helps). If `writer`
     *  is not 0, `since` is the LSN of a redo barrier of that transaction, and the page is wanted
     *  as it was written in bulk under this barrier. The library then applies the records of its
     *  own log. It checks that `bytes` are a page with this number and a right checksum, and that
     *  each record finds the page as the record before has left it. LLADD_NOT_FOUND: the extension
     *  cannot give the page, and the next extension is asked; if the callback fills the error
     *  struct with a reason, the message of the fetch's error includes the reason. If the log has a
     *  later redo barrier of the page, the library asks for the page under this barrier before the
     *  fetch fails. The fetch returns any other error of the callback. If the log is truncated
     *  meanwhile, the callback is called again, with a higher `since`. Called in any thread, and in
     *  several threads at a time. The thread may hold latches of pages, so the callback may wait
     *  for files, but must not use pages or transactions of this handle. Nullable; descriptors with
     *  a smaller `struct_size` lack it. */
    int (*base_of)(void *ctx, struct lladd_db *, void *state, lladd_pageno, lladd_lsn since,
                   lladd_lsn writer, void *bytes, struct lladd_error *);
};

/** Destination of the bytes that describe and prepare callbacks write. */
struct lladd_sink {
    void *ctx;
    /** Returns 0 or an error code; after an error the sink ignores all further bytes. */
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
