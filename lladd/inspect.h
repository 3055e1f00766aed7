/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_INSPECT_H
#define LLADD_INSPECT_H
/**
 * @file
 * @brief Reading a database without opening it. The `lladd` command uses these calls.
 *
 * Inspection takes no lock, runs no recovery, and writes and creates no file. Inspection works
 * while another process has the database open, after a crash, and on damaged files. Inspection does
 * not need the application's operations: names and layouts come from the catalogue in the log.
 * Damage is reported and does not end the inspection; but lladd_inspect_open returns an error for a
 * directory without a readable control block.
 *
 * A view shows the database as it was at lladd_inspect_open. If a process is using the database,
 * lladd_inspect_page_read and lladd_inspect_verify may take the view again. Threads: one thread at
 * a time uses a view. Errors: codes with root DATA or RESOURCE (error.h), and LLADD_NOT_A_DATABASE,
 * LLADD_NEWER_FORMAT, LLADD_BAD_ARGUMENT, LLADD_BAD_STATE, LLADD_OUT_OF_RANGE.
 * @ingroup lladd
 */
#include <lladd/lladd.h>
#include <lladd/log_read.h>
#include <lladd/pages.h>
#include <lladd/twophase.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lladd_sink;
struct lladd_structure;
struct lladd_inspect;

/** Reads the control block, the catalogue and the log from the last checkpoint on. Of `options`
 *  (nullable), the call uses only the members `device`, `allocator`, `world`, `registry`,
 *  `progress` and `recovery_bytes`. The view calls the callbacks `describe` and `check` of
 *  registered page types and operations; all others are described according to the layouts in the
 *  log. `progress` is called in the phase LLADD_PHASE_ANALYSIS.
 *
 *  `recovery_bytes` (default 32 MiB) bounds the memory for the index of changed pages: if the log
 *  changes more pages than fit, the log is read several times. In addition a view takes a few
 *  hundred KiB, one page for each allocation bitmap of the page file, and memory for each name, for
 *  each redo barrier in the log, and for each of the transactions that were open at the same
 *  time. */
LLADD_API int lladd_inspect_open(const char *dir, const struct lladd_options *options,
                                 struct lladd_inspect **out, struct lladd_error *err);
/** Closes the view; NULL does nothing. */
LLADD_API void lladd_inspect_close(struct lladd_inspect *);

/* ---- the whole ------------------------------------------------------------------------------ */

/** How the log ends. */
enum lladd_log_end {
    LLADD_LOG_END_UNKNOWN = 0, /**< the log cannot be read at all */
    LLADD_LOG_END_CLEAN = 1,   /**< at the end that a clean close left */
    LLADD_LOG_END_OPEN = 2,    /**< after a complete record: the database is in use, or has
                                    crashed */
    LLADD_LOG_END_TORN = 3,    /**< in a record of which only a part was written: normal after a
                                    crash */
    LLADD_LOG_END_DAMAGED = 4  /**< at a damaged place in a part of the log that was durable */
};

/** Numbers about a database. LSNs and amounts of log are in bytes of payload. */
struct lladd_inspect_info {
    size_t struct_size;
    /* the control block */
    uint32_t format;
    uint32_t page_size;
    unsigned char uuid[16];
    uint64_t compatible, read_only_compatible, incompatible; /**< feature bits */
    uint64_t incarnation;
    int64_t created_us;   /**< wall clock, microseconds since 1970 */
    bool clean;           /**< closed cleanly: nothing to recover */
    bool atomic_pages;    /**< LLADD_OPT_ATOMIC_PAGES */
    bool control_bad[2];  /**< for each copy of the control block: the copy is damaged or cannot be
                               read, and the other one was used */
    int in_use;           /**< 1: a process has the database open; 0: no process has; -1: the device
                               cannot tell */
    int64_t holder;       /**< process id of that process, 0 if not known */
    lladd_lsn checkpoint; /**< LSN of the first record of the last complete checkpoint */
    lladd_lsn redo;       /**< where redo from that checkpoint starts */
    lladd_lsn watermark;  /**< log below this LSN was durable when the control block was written */
    /* the log */
    lladd_lsn log_oldest; /**< first LSN that can still be read */
    lladd_lsn log_end;    /**< end of the last good record */
    enum lladd_log_end log_end_kind;
    uint64_t log_segments; /**< segment files of the log, without files kept for reuse */
    uint64_t log_file_bytes;
    /* pages */
    uint64_t pages;
    uint64_t page_file_bytes;
    /* what the next open would do */
    uint64_t analysis_records;         /**< records from the checkpoint to the log's end */
    uint64_t redo_records, redo_bytes; /**< log from the redo start to the log's end; 0 after a
                                            clean close */
    uint64_t redo_page_records;        /**< number of those of `redo_records` that change pages */
    uint64_t redo_pages;               /**< number of different pages that these records change */
    uint64_t commits;                  /**< commits from the checkpoint to the log's end */
    uint64_t losers;                   /**< transactions that the next open would roll back */
    uint64_t in_doubt;                 /**< prepared transactions */
    uint64_t undo_log_bytes; /**< an estimate of the undo work: bytes of the losers' records since
                                  the checkpoint, and the undo reserve that the checkpoint states
                                  for the losers */
    /* of the last lladd_inspect_log, on a database in use */
    uint64_t recycled_bytes; /**< bytes of log that were truncated and overwritten before the walk
                                  could read them, so that the walk skipped their records */
    lladd_lsn recycled_to;   /**< where the walk went on after the last skipped place; 0: nothing
                                  was skipped */
};
/** Fills as much as out->struct_size says. */
LLADD_API int lladd_inspect_info_get(const struct lladd_inspect *, struct lladd_inspect_info *out);

/** How the log ends, as text with file, byte and LSN if these are known. The text lives as long as
 *  the view. */
LLADD_API const char *lladd_inspect_log_end(const struct lladd_inspect *);

/** Called for each file. If a callback of this header does not return 0, the call that runs it
 *  stops and returns that value. */
typedef int lladd_inspect_file_fn(void *ctx, const char *name, uint64_t bytes);
/** Calls `fn` for every file of the database, with its size. */
LLADD_API int lladd_inspect_files(struct lladd_inspect *, lladd_inspect_file_fn *, void *ctx,
                                  struct lladd_error *);

/** A transaction that has written records and, according to the log, has neither committed nor been
 *  rolled back. */
struct lladd_inspect_txn {
    lladd_lsn id, last;
    bool system, prepared;
    uint64_t records;                 /**< number of its records since the checkpoint */
    lladd_lsn prepare;                /**< LSN of its prepare record */
    struct lladd_in_doubt_info doubt; /**< valid if the transaction is prepared */
};
typedef int lladd_inspect_txn_fn(void *ctx, const struct lladd_inspect_txn *);
/** Calls `fn` for every transaction that has not ended, the oldest first. */
LLADD_API int lladd_inspect_txns(struct lladd_inspect *, lladd_inspect_txn_fn *, void *ctx);

/** Calls `fn` for every remembered heuristic outcome (lladd_heuristic_end) that can be read in the
 *  log. */
LLADD_API int lladd_inspect_heuristics(struct lladd_inspect *, lladd_heuristic_fn *, void *ctx);
/** Called for each thing that keeps the log from being truncated. The name of a prepared
 *  transaction is its global id, format:gtrid:bqual in hexadecimal, truncated to the size of
 *  lladd_pinner.name. An object class is listed with lsn 0 and age 0, because only the running
 *  application knows how much log the class needs. */
typedef int lladd_inspect_pinner_fn(void *ctx, const struct lladd_pinner *);
/** Calls `fn` for everything that keeps the log, in the order of LSNs; object classes come last. */
LLADD_API int lladd_inspect_pinners(struct lladd_inspect *, lladd_inspect_pinner_fn *, void *ctx);

/** What a name in the catalogue stands for. */
enum lladd_name_kind {
    LLADD_NAME_OPERATION = 1,
    LLADD_NAME_PAGE_TYPE = 2,
    LLADD_NAME_CLASS = 3,
    LLADD_NAME_PARTICIPANT = 4,
    LLADD_NAME_TAG = 5
};
struct lladd_inspect_name {
    enum lladd_name_kind kind;
    uint32_t number, version;
    const char *name;
    bool registered;    /**< registered with this view: by the library, or in the options */
    lladd_lsn recorded; /**< LSN of the first record read that states the number */
    const struct lladd_field *redo_fields, *undo_fields; /**< NULL: unstructured */
    const char *page_type; /**< page type of an operation; NULL: none */
};
typedef int lladd_inspect_name_fn(void *ctx, const struct lladd_inspect_name *);
/** Calls `fn` for every name of the catalogue, in the order of the names' numbers. */
LLADD_API int lladd_inspect_names(struct lladd_inspect *, lladd_inspect_name_fn *, void *ctx);
/** Returns the kind as text, for example "operation"; a static string. */
LLADD_API const char *lladd_name_kind_text(enum lladd_name_kind);

/* ---- the log -------------------------------------------------------------------------------- */

enum lladd_record_flag {
    LLADD_RECORD_UNDO_PAGE = 1,
    LLADD_RECORD_UNDO_LOGICAL = 2,
    LLADD_RECORD_FORMATS = 4,
    LLADD_RECORD_COMPRESSED = 8,
    LLADD_RECORD_SYSTEM = 16
};

/** A record. Its spans live until the callback returns. */
struct lladd_inspect_record {
    struct lladd_log_entry entry;
    uint32_t size;   /**< number of bytes of log that the record takes */
    uint32_t number; /**< number of the operation, class or tag in the catalogue; 0: none */
    unsigned flags;  /**< enum lladd_record_flag */
    /** Layouts of the spans, from the operation or from the library's own record kind. NULL: no
     *  layout is known. */
    const struct lladd_field *redo_fields, *undo_fields;
};
typedef int lladd_inspect_record_fn(void *ctx, const struct lladd_inspect_record *);
/** Calls `fn` once for every record, from the first record at or after `from` (0: the oldest) to
 *  the end that the log had when the view was taken. Returns 0 at that end; an error names the
 *  first place that cannot be read. If a database in use truncates a part of the log before the
 *  walk has read it, the walk skips this part and goes on at the oldest record that is left;
 *  lladd_inspect_info.recycled_bytes says how much was skipped. */
LLADD_API int lladd_inspect_log(struct lladd_inspect *, lladd_lsn from, lladd_inspect_record_fn *,
                                void *ctx, struct lladd_error *);
/** Writes the record's contents as one line without newline. Without memory for the line it sets
 *  `failed` of the sink. */
LLADD_API void lladd_inspect_describe(struct lladd_inspect *, const struct lladd_inspect_record *,
                                      struct lladd_sink *);
/** Gets the file that holds the byte at an LSN, and the byte's offset in that file; returns
 *  false if no file holds it. `name` gets at most 31 characters. */
LLADD_API bool lladd_inspect_place(struct lladd_inspect *, lladd_lsn, char name[32],
                                   uint64_t *offset);

/* ---- pages ---------------------------------------------------------------------------------- */

/** A page with its contents in the page file. */
struct lladd_inspect_page {
    lladd_pageno number;
    uint64_t offset;             /**< byte offset in the page file */
    struct lladd_view view;      /**< lives until the next call on the view */
    bool zero;                   /**< never formatted */
    int code;                    /**< 0: the page itself shows no damage */
    char message[256];           /**< what is wrong */
    uint32_t checksum, computed; /**< the stored checksum; the checksum computed from the page */
    uint64_t stored_number;
    lladd_lsn lsn, base;
    const char *type; /**< name of the page type; NULL: not in the catalogue */
    uint32_t type_version;
    enum lladd_page_use use; /**< the page's use in the allocation bitmap as it will be after
                                  redo */
    bool use_known;          /**< false: the allocation bitmap cannot be read */
};
/** Reads a page. LLADD_OUT_OF_RANGE beyond the end of the file. A damaged page is not an error of
 *  the call: out->code says what is wrong. For a database in use the call may take the view again
 *  before it reports a page as damaged. */
LLADD_API int lladd_inspect_page_read(struct lladd_inspect *, lladd_pageno,
                                      struct lladd_inspect_page *out, struct lladd_error *);
/** Gets the use of a page as lladd_inspect_page_read does, but does not read the page itself.
 *  *known is false if the allocation bitmap cannot be read. For a database in use the call may take
 *  the view again before it says so. Errors are those of lladd_inspect_page_read. */
LLADD_API int lladd_inspect_page_use(struct lladd_inspect *, lladd_pageno,
                                     enum lladd_page_use *out, bool *known, struct lladd_error *);
/** Writes the text of the page type's `describe` callback; false if the type has no such callback,
 *  or the page is damaged. */
LLADD_API bool lladd_inspect_describe_page(struct lladd_inspect *,
                                           const struct lladd_inspect_page *, struct lladd_sink *);

/* ---- checking everything -------------------------------------------------------------------- */

enum lladd_finding_kind {
    LLADD_FINDING_DAMAGE = 1, /**< data is lost, or an open will fail */
    LLADD_FINDING_REPAIR = 2, /**< damage that the library will repair by itself */
    LLADD_FINDING_NOTE = 3    /**< no damage, but worth knowing */
};
struct lladd_finding {
    enum lladd_finding_kind kind;
    int code;            /**< enum lladd_code; 0 for a note */
    const char *file;    /**< name relative to the database directory */
    uint64_t offset;     /**< byte in the file; UINT64_MAX: the file as a whole */
    lladd_lsn lsn;       /**< 0: none */
    lladd_pageno page;   /**< LLADD_NO_PAGE: none */
    const char *message; /**< one line */
};
typedef int lladd_finding_fn(void *ctx, const struct lladd_finding *);
/** Reports progress: `done` of `all` units of `what` ("log", "pages") have been checked. `done`
 *  starts from 0 for each `what`, and may restart from 0. */
typedef void lladd_inspect_progress_fn(void *ctx, const char *what, uint64_t done, uint64_t all);
/** Sets the progress callback of lladd_inspect_verify; NULL: none. */
LLADD_API void lladd_inspect_progress(struct lladd_inspect *, lladd_inspect_progress_fn *,
                                      void *ctx);
/** The numbers of things that lladd_inspect_verify has checked, and of its findings of each
 *  kind. */
struct lladd_verified {
    size_t struct_size;
    uint64_t pages, zero_pages, raw_pages, free_pages, records, segments;
    uint64_t damage, repair, notes;
};
/** Checks both copies of the control block, the witness, every record of the log, every page and
 *  the double-write area. If these show no damage, the call also tries the first steps of
 *  lladd_open without changing a file, and reports an error of these steps as damage. It does not
 *  check whether all operations are registered, or what extensions do at an open. Returns 0 even if
 *  it has reported findings; an error means that the check could not go on (no memory). For a
 *  database in use the call takes the view several times, and reports only the findings that every
 *  check has made. */
LLADD_API int lladd_inspect_verify(struct lladd_inspect *, lladd_finding_fn *, void *ctx,
                                   struct lladd_verified *out, struct lladd_error *);

/* ---- structures of extensions --------------------------------------------------------------- */

/** Finds the kind of structure under a named root, among the kinds that this handle's extensions
 *  have registered (struct lladd_extension); *out NULL: no kind matches. Returns an error if the
 *  page of the root is needed and cannot be read. Latches a page shared during the call. */
LLADD_API int lladd_structure_find(struct lladd_db *, const char *root, struct lladd_root_value,
                                   const struct lladd_structure **out, struct lladd_error *);

/* ---- plug-ins ------------------------------------------------------------------------------- */

/** The type of a plug-in's function. A plug-in is a shared object that is given to the `lladd`
 *  command with --ops. It exports the function under the name LLADD_PLUGIN_SYMBOL. The function
 *  returns an array of extensions that ends with NULL; the command registers them in the order of
 *  the array. The plug-in need not link with the library, because the command exports the library's
 *  functions. */
typedef const struct lladd_extension *const *lladd_plugin_fn(void);
#define LLADD_PLUGIN_SYMBOL "lladd_plugin"

#ifdef __cplusplus
}
#endif
#endif
