/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_INSPECT_H
#define LLADD_INSPECT_H
/**
 * @file
 * @brief Reading a database without opening it: what the `lladd` command is built on.
 *
 * Takes no lock, runs no recovery, and writes and creates nothing. It works while another process
 * has the database open, after a crash, on damaged files, and without the application's operations:
 * names and layouts come from the catalogue in the log. Damage is reported, not fatal: only a
 * directory without a readable control block is refused.
 *
 * A view shows the database as it was at lladd_inspect_open. Threads: one thread at a time uses a
 * view. Errors: the roots data and resource of error.h, and LLADD_NOT_A_DATABASE,
 * LLADD_NEWER_FORMAT, LLADD_BAD_ARGUMENT.
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
 *  (nullable) device, allocator, world and registry are used; registered page types and operations
 *  are described and checked by their callbacks, all others by the layouts in the log. `progress`
 *  is called in the phase LLADD_PHASE_ANALYSIS.
 *
 *  `recovery_bytes` (default 32 MiB) bounds the memory for what the log says about pages: if it
 *  changes more pages, it is read several times. In addition a view takes memory for each
 *  transaction that is open at the same time, each name and each redo barrier of the log, a page
 *  for each allocation bitmap of the page file, and a few hundred KiB. */
LLADD_API int lladd_inspect_open(const char *dir, const struct lladd_options *options,
                                 struct lladd_inspect **out, struct lladd_error *err);
/** Closes the view; NULL does nothing. */
LLADD_API void lladd_inspect_close(struct lladd_inspect *);

/* ---- the whole ------------------------------------------------------------------------------ */

/** How the log ends. */
enum lladd_log_end {
    LLADD_LOG_END_UNKNOWN = 0, /**< it cannot be read at all */
    LLADD_LOG_END_CLEAN = 1,   /**< where a clean close left it */
    LLADD_LOG_END_OPEN = 2,    /**< after a whole record: in use, or a crash */
    LLADD_LOG_END_TORN = 3,    /**< in a record that was cut short: normal after a crash */
    LLADD_LOG_END_DAMAGED = 4  /**< at a bad place in what is known to have been durable */
};

/** Numbers about a database. LSNs and bytes of log are payload bytes. */
struct lladd_inspect_info {
    size_t struct_size;
    /* the control block */
    uint32_t format;
    uint32_t page_size;
    unsigned char uuid[16];
    uint64_t compatible, read_only_compatible, incompatible; /**< feature bits */
    uint64_t incarnation;
    int64_t created_us;   /**< wall clock, microseconds since 1970 */
    bool clean;           /**< closed without anything left to recover */
    bool atomic_pages;    /**< LLADD_OPT_ATOMIC_PAGES */
    bool control_bad[2];  /**< this copy is damaged, the other one was used */
    int in_use;           /**< 1: a process has it open; 0: none has; -1: the device cannot tell */
    int64_t holder;       /**< that process' id, 0 if not known */
    lladd_lsn checkpoint; /**< of the last complete one's begin record */
    lladd_lsn redo;       /**< where its redo starts */
    lladd_lsn watermark;  /**< everything below was durable when the control block was written */
    /* the log */
    lladd_lsn log_oldest; /**< first LSN that can still be read */
    lladd_lsn log_end;    /**< end of the last good record */
    enum lladd_log_end log_end_kind;
    uint64_t log_segments; /**< files that hold log, or are ready to */
    uint64_t log_file_bytes;
    /* pages */
    uint64_t pages;
    uint64_t page_file_bytes;
    /* what the next open would do */
    uint64_t analysis_records;         /**< from the checkpoint to the end */
    uint64_t redo_records, redo_bytes; /**< from the redo start to the end; 0 after a clean close */
    uint64_t redo_page_records;        /**< of these, about pages */
    uint64_t redo_pages;               /**< different pages in them */
    uint64_t commits;                  /**< from the checkpoint to the end */
    uint64_t losers;                   /**< transactions that would be rolled back */
    uint64_t in_doubt;                 /**< prepared ones */
    uint64_t undo_log_bytes; /**< log written by the losers: an upper bound of the undo work */
    /* of the last lladd_inspect_log, on a database in use */
    uint64_t recycled_bytes; /**< log that was truncated, and its files used again, before it could
                                  be read: records that it passed over */
    lladd_lsn recycled_to;   /**< where it went on after the last such place; 0: none */
};
/** Fills as much as out->struct_size says. */
LLADD_API int lladd_inspect_info_get(const struct lladd_inspect *, struct lladd_inspect_info *out);

/** Why the log ends where it does, as text with file, byte and LSN; "" after a clean close. Lives
 *  as long as the view. */
LLADD_API const char *lladd_inspect_log_end(const struct lladd_inspect *);

/** Gets each file. Not 0 stops, and is returned by the call, here and below. */
typedef int lladd_inspect_file_fn(void *ctx, const char *name, uint64_t bytes);
/** Calls fn for every file of the database, with its size. */
LLADD_API int lladd_inspect_files(struct lladd_inspect *, lladd_inspect_file_fn *, void *ctx,
                                  struct lladd_error *);

/** A transaction that has written and neither committed nor rolled back, as the log says. */
struct lladd_inspect_txn {
    lladd_lsn id, last;
    bool system, prepared;
    uint64_t records;                 /**< seen, that is from the checkpoint on */
    lladd_lsn prepare;                /**< LSN of its prepare record */
    struct lladd_in_doubt_info doubt; /**< of a prepared one */
};
typedef int lladd_inspect_txn_fn(void *ctx, const struct lladd_inspect_txn *);
/** Calls fn for every transaction that has not ended, oldest first. */
LLADD_API int lladd_inspect_txns(struct lladd_inspect *, lladd_inspect_txn_fn *, void *ctx);

/** Calls fn for every remembered heuristic outcome (lladd_heuristic_end), as far as the log can
 *  be read. */
LLADD_API int lladd_inspect_heuristics(struct lladd_inspect *, lladd_heuristic_fn *, void *ctx);
/** Gets what keeps the log from being truncated. A prepared transaction's name is its global id,
 *  format:gtrid:bqual in hexadecimal, cut to the buffer. What an object class needs is known in the
 *  running application only: it is listed with lsn 0 and age 0. */
typedef int lladd_inspect_pinner_fn(void *ctx, const struct lladd_pinner *);
/** Calls fn for everything that keeps the log, the strongest first. */
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
    bool registered;    /**< with this view: built in, or in the options */
    lladd_lsn recorded; /**< of the record that defined its number */
    const struct lladd_field *redo_fields, *undo_fields; /**< NULL: unstructured */
    const char *page_type; /**< of an operation that wants one; NULL */
};
typedef int lladd_inspect_name_fn(void *ctx, const struct lladd_inspect_name *);
/** Calls fn for every name of the catalogue, by number. */
LLADD_API int lladd_inspect_names(struct lladd_inspect *, lladd_inspect_name_fn *, void *ctx);
/** The kind as text ("operation"), a static string. */
LLADD_API const char *lladd_name_kind_text(enum lladd_name_kind);

/* ---- the log -------------------------------------------------------------------------------- */

enum lladd_record_flag {
    LLADD_RECORD_UNDO_PAGE = 1,
    LLADD_RECORD_UNDO_LOGICAL = 2,
    LLADD_RECORD_FORMATS = 4,
    LLADD_RECORD_COMPRESSED = 8,
    LLADD_RECORD_SYSTEM = 16
};

/** A record. Spans live until the visitor returns. */
struct lladd_inspect_record {
    struct lladd_log_entry entry;
    uint32_t size;   /**< bytes of log it takes */
    uint32_t number; /**< of operation, class or tag in the catalogue; 0: none */
    unsigned flags;  /**< enum lladd_record_flag */
    /** Layouts of the spans: the operation's, or the library's own for its own records. NULL:
     *  none. */
    const struct lladd_field *redo_fields, *undo_fields;
};
typedef int lladd_inspect_record_fn(void *ctx, const struct lladd_inspect_record *);
/** Every record from the first one at or after `from` (0: the oldest) to the end, once. 0 at the
 *  end; an error names the first place that cannot be read. The end is where it was when the view
 *  was taken. Log that a database in use truncates before it could be read is skipped: the walk
 *  goes on at the oldest record that is left, and info.recycled_bytes says how much is missing,
 *  also if `from` itself has been truncated since the view was taken. */
LLADD_API int lladd_inspect_log(struct lladd_inspect *, lladd_lsn from, lladd_inspect_record_fn *,
                                void *ctx, struct lladd_error *);
/** Writes the record's contents as one line without newline. Without memory, `failed` of the sink
 *  is set. */
LLADD_API void lladd_inspect_describe(struct lladd_inspect *, const struct lladd_inspect_record *,
                                      struct lladd_sink *);
/** The file and the byte in it that hold the LSN; false if no file does. `name` gets at most 31
 *  characters. */
LLADD_API bool lladd_inspect_place(struct lladd_inspect *, lladd_lsn, char name[32],
                                   uint64_t *offset);

/* ---- pages ---------------------------------------------------------------------------------- */

/** A page as it stands in the page file. */
struct lladd_inspect_page {
    lladd_pageno number;
    uint64_t offset;             /**< in the page file */
    struct lladd_view view;      /**< lives until the next call on the view */
    bool zero;                   /**< never formatted */
    int code;                    /**< 0: no damage that the page itself shows */
    char message[256];           /**< what is wrong */
    uint32_t checksum, computed; /**< as stored; as it should be */
    uint64_t stored_number;
    lladd_lsn lsn, base;
    const char *type; /**< NULL: not in the catalogue */
    uint32_t type_version;
    enum lladd_page_use use; /**< by the allocation bitmap after redo */
    bool use_known;          /**< false: the map cannot be read */
};
/** Reads a page. LLADD_OUT_OF_RANGE beyond the end of the file. A damaged page is no error:
 *  out->code has it. For a database in use the view may be taken again before a page is reported as
 *  damaged. */
LLADD_API int lladd_inspect_page_read(struct lladd_inspect *, lladd_pageno,
                                      struct lladd_inspect_page *out, struct lladd_error *);
/** Writes what the type's describe callback says; false if there is none. */
LLADD_API bool lladd_inspect_describe_page(struct lladd_inspect *,
                                           const struct lladd_inspect_page *, struct lladd_sink *);

/* ---- checking everything -------------------------------------------------------------------- */

enum lladd_finding_kind {
    LLADD_FINDING_DAMAGE = 1, /**< data is lost, or an open will fail */
    LLADD_FINDING_REPAIR = 2, /**< damaged, and the library will repair it by itself */
    LLADD_FINDING_NOTE = 3    /**< no fault, worth knowing */
};
struct lladd_finding {
    enum lladd_finding_kind kind;
    int code;            /**< enum lladd_code; 0 of a note */
    const char *file;    /**< below the directory */
    uint64_t offset;     /**< byte in the file; UINT64_MAX: the file as a whole */
    lladd_lsn lsn;       /**< 0: none */
    lladd_pageno page;   /**< LLADD_NO_PAGE: none */
    const char *message; /**< one line */
};
typedef int lladd_finding_fn(void *ctx, const struct lladd_finding *);
/** Progress: `done` of `all` units of `what` ("log", "pages") have been checked. It starts from 0
 *  for each, and may do so more than once. */
typedef void lladd_inspect_progress_fn(void *ctx, const char *what, uint64_t done, uint64_t all);
/** Sets the progress callback of lladd_inspect_verify; NULL: none. */
LLADD_API void lladd_inspect_progress(struct lladd_inspect *, lladd_inspect_progress_fn *,
                                      void *ctx);
/** What lladd_inspect_verify has checked. */
struct lladd_verified {
    size_t struct_size;
    uint64_t pages, zero_pages, raw_pages, free_pages, records, segments;
    uint64_t damage, repair, notes;
};
/** Checks both copies of the control block, every record of the log, every page and the
 *  double-write area. If that finds no damage, it takes the first steps of lladd_open without
 *  changing anything: what an open would refuse is damage. It does not check operations that are
 *  not registered, or what extensions do at an open. Returns 0 also with findings; an error only if
 *  it cannot go on (no memory). For a database in use the view is taken several times, and only
 *  what every check finds is reported. */
LLADD_API int lladd_inspect_verify(struct lladd_inspect *, lladd_finding_fn *, void *ctx,
                                   struct lladd_verified *out, struct lladd_error *);

/* ---- structures of extensions --------------------------------------------------------------- */

/** The kind of structure under a root, among those that this handle's extensions have registered
 *  (struct lladd_extension); *out NULL: none. An error if the root's page is needed and cannot be
 *  read. Latches a page shared meanwhile. */
LLADD_API int lladd_structure_find(struct lladd_db *, const char *root, struct lladd_root_value,
                                   const struct lladd_structure **out, struct lladd_error *);

/* ---- plug-ins ------------------------------------------------------------------------------- */

/** What a shared object given to the `lladd` command with --ops exports under the name
 *  LLADD_PLUGIN_SYMBOL: a function that returns a NULL-terminated array of extensions. They are
 *  registered in that order. It calls the library's functions without linking with it: the command
 *  has them. */
typedef const struct lladd_extension *const *lladd_plugin_fn(void);
#define LLADD_PLUGIN_SYMBOL "lladd_plugin"

#ifdef __cplusplus
}
#endif
#endif
