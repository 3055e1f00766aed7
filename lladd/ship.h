/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_SHIP_H
#define LLADD_SHIP_H
/**
 * @file
 * @brief Backups of running databases: stores, hot backup, archive of the log, looking at a backup,
 * restore. These functions are in a library of their own, liblladd_ship (docs/backup.md).
 *
 * An error of a store has the code of the operating system's error (LLADD_NO_SPACE,
 * LLADD_NO_ACCESS), or LLADD_STORE_FAILED if there is no such code. LLADD_CORRUPT_BACKUP names an
 * object of a backup that is damaged or missing. LLADD_OTHER_FILTER names an object that was stored
 * with another filter or key (struct lladd_store_filter).
 * @ingroup ship
 */
#include <lladd/device.h>
#include <lladd/error.h>
#include <lladd/inspect.h>
#include <lladd/twophase.h>
#include <lladd/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lladd_db;
struct lladd_options;
struct lladd_store;

/* ---- stores --------------------------------------------------------------------------------- */

/** Called by `list` for each object. If it does not return 0, `list` stops and returns that
 *  value. */
typedef int lladd_store_list_fn(void *ctx, const char *name, uint64_t size);

/** The functions of a store. Objects have names like "base/x/manifest": components of letters,
 *  digits and "._-", with '/' between them; no component begins with a dot. An object is never
 *  changed. Threads: only one thread at a time may use a store. All functions return 0 or a code
 *  and fill the error struct. */
struct lladd_store_ops {
    size_t struct_size;
    /** Stores the pieces, one after the other, as one object. After 0 the object is durable. After
     *  an error it exists whole or not at all. LLADD_EXISTS: the name is taken; the object of that
     *  name is durable. */
    int (*put)(struct lladd_store *, const char *name, const struct lladd_iovec *, int n,
               struct lladd_error *);
    /** Reads exactly `len` bytes from `offset` on. LLADD_NOT_FOUND: there is no such object;
     *  LLADD_CORRUPT_BACKUP: the object has fewer bytes. */
    int (*get)(struct lladd_store *, const char *name, uint64_t offset, void *bytes, size_t len,
               struct lladd_error *);
    /** Calls `fn` for each object with a name that begins with `prefix`, in no order. */
    int (*list)(struct lladd_store *, const char *prefix, lladd_store_list_fn *, void *ctx,
                struct lladd_error *);
    /** Deletes an object, durably. LLADD_NOT_FOUND. */
    int (*remove)(struct lladd_store *, const char *name, struct lladd_error *);
    void (*close)(struct lladd_store *);
    /** Gets the number of bytes that `get` can read of an object. LLADD_NOT_FOUND. NULL: it is the
     *  size that `list` tells. */
    int (*size)(struct lladd_store *, const char *name, uint64_t *out, struct lladd_error *);
};

/** A store. Implementations define a larger struct that begins with this one. */
struct lladd_store {
    const struct lladd_store_ops *ops;
};

/** Options of a store in S3. Zero means the default, for every member. Initialise with
 *  LLADD_S3_OPTIONS_INIT. lladd_store_open copies the strings. */
struct lladd_s3_options {
    size_t struct_size;
    const char *endpoint; /**< the server: HOST:PORT. A scheme may precede it: "https:" or "http:",
                               and two slashes. Without "http:" the connection is encrypted. NULL:
                               the environment variable AWS_ENDPOINT_URL_S3, or AWS_ENDPOINT_URL,
                               or Amazon's server for the region */
    const char *region;   /**< NULL: AWS_REGION, or AWS_DEFAULT_REGION, or "us-east-1" */
    bool host_style;      /**< true: the bucket is a part of the host's name at `endpoint`. false:
                               the bucket is a part of the path there. At Amazon the bucket is
                               always a part of the host's name, unless the bucket's name has a
                               dot */
    const char *access_key_id;     /**< NULL: all three come from AWS_ACCESS_KEY_ID, */
    const char *secret_access_key; /**< AWS_SECRET_ACCESS_KEY, and */
    const char *session_token;     /**< AWS_SESSION_TOKEN, if there is one */
    const char *ca_file; /**< file with the certificates of the authorities that may certify the
                               server. NULL: AWS_CA_BUNDLE, or those of the system */
    uint64_t timeout_ns; /**< a request fails if nothing is sent or received for this time, which is
                               rounded up to whole seconds. Default 60 s */
    uint32_t attempts;   /**< the maximum number of times that a request is sent, if the server
                               cannot be reached, does not answer, or is too busy. Default:
                               AWS_MAX_ATTEMPTS, or 5 */
};
#define LLADD_S3_OPTIONS_INIT_SIZE sizeof(struct lladd_s3_options)
#define LLADD_S3_OPTIONS_INIT LLADD_SIZED_INIT(lladd_s3_options)

/** The block of an object that a filter gets. If an encrypting filter authenticates these fields
 *  together with the block, it notices a block that was moved, and an object that was cut off. */
struct lladd_filter_block {
    const char *object; /**< name of the object in the store */
    uint64_t offset;    /**< of the block in the contents of the object; a multiple of
                             LLADD_FILTER_BLOCK */
    uint64_t size;      /**< bytes of the contents of the object */
};
/** All blocks of an object have this number of contents bytes, except the last one. */
#define LLADD_FILTER_BLOCK (UINT32_C(1) << 20)
/** Room for what `out` makes of `len` bytes. */
#define LLADD_FILTER_ROOM(len) ((len) + (len) / 128 + 1024)

/** Turns `len` bytes into others: writes at most `room` bytes to `to`, and sets *made to their
 *  number. If it does not return 0, the call on the store fails. LLADD_NO_MEMORY and other codes of
 *  LLADD_ROOT_RESOURCE are returned as they are; any other value of `in` becomes
 *  LLADD_OTHER_FILTER, and of `out` LLADD_STORE_FAILED. May fill the error struct. */
typedef int lladd_filter_fn(void *ctx, const struct lladd_filter_block *, const void *bytes,
                            size_t len, void *to, size_t room, size_t *made, struct lladd_error *);

/** A filter encrypts or compresses the contents of all objects of a store; names and sizes stay as
 *  they are (docs/backup.md). Two calls never run at the same time for one store handle. */
struct lladd_store_filter {
    size_t struct_size;
    const char *name; /**< 1 to 31 visible ASCII characters, the same for each handle of the store.
                           The name is stored, and not encrypted. It says with which filter an
                           object was stored */
    /** Called for each block of an object that is put. `len` is at most LLADD_FILTER_BLOCK + 4,
     *  since a checksum follows the contents; `room` is LLADD_FILTER_ROOM(len). */
    lladd_filter_fn *out;
    /** Called for each block of an object that is got, with the bytes that `out` has made. Gives
     *  back the bytes that `out` was given; `room` is their number. A filter that has another key
     *  than `out` had fails. If it does not notice that itself, the checksum shows it. */
    lladd_filter_fn *in;
    void *ctx;
};
#define LLADD_STORE_FILTER_INIT_SIZE sizeof(struct lladd_store_filter)
#define LLADD_STORE_FILTER_INIT LLADD_SIZED_INIT(lladd_store_filter)

/** Zero means the default, for every member. Initialise with LLADD_STORE_OPTIONS_INIT. */
struct lladd_store_options {
    size_t struct_size;
    const struct lladd_allocator *allocator; /**< NULL: malloc */
    const struct lladd_environment *world;   /**< NULL: random bytes of the operating system */
    uint32_t file_mode; /**< mode of new files of a directory store; default 0600. A new directory
                             can be searched by each class of users that may read new files */
    const struct lladd_s3_options *s3; /**< options of a store in S3; NULL: all defaults */
    const struct lladd_store_filter *filter; /**< NULL: the objects are stored as they are. The
                                                  struct is copied; `ctx` must live as long as the
                                                  store. A put needs as much memory again as the
                                                  object, a handle about 4 MiB */
};
#define LLADD_STORE_OPTIONS_INIT_SIZE sizeof(struct lladd_store_options)
#define LLADD_STORE_OPTIONS_INIT LLADD_SIZED_INIT(lladd_store_options)

/** Opens a store. "dir:PATH" is the directory PATH, which may be on NFS. The call creates the
 *  directory if it does not exist, but not its parent. "s3://BUCKET/PREFIX" are the objects of an
 *  S3 bucket with names that begin with "PREFIX/"; "s3://BUCKET" are all its objects. The bucket
 *  must exist, and the server must heed "If-None-Match: *": if the server does not heed it, the
 *  first `put` fails with LLADD_STORE_FAILED. Nothing is sent before the first call on the store.
 *  A call on a store in S3 repeats requests that fail, with pauses of up to 5 s, so it may take
 *  long. An object is durable when the server has said that it is stored. No thread may change the
 *  environment while a store in S3 is opened. With a filter, every object of the store must have
 *  been stored with a filter of the same name, and without one, none: any other object is refused
 *  when it is read (LLADD_OTHER_FILTER). `options` may be NULL.
 *  LLADD_BAD_ARGUMENT: a URL of another kind, a wrong option, or S3 with a library that was built
 *  without it. LLADD_NO_ACCESS: no credentials for S3. LLADD_STORE_FAILED: libcurl is missing, or
 *  too old. */
LLADD_API int lladd_store_open(const char *url, const struct lladd_store_options *options,
                               struct lladd_store **out, struct lladd_error *);
/** Puts a filter over a store of the program's own, as lladd_store_open does with options.filter.
 *  Then `inside` belongs to *out, which closes it; after an error it is still the caller's.
 *  `allocator` may be NULL. LLADD_BAD_ARGUMENT: the filter has no name, or lacks a function. */
LLADD_API int lladd_store_over(struct lladd_store *inside, const struct lladd_store_filter *,
                               const struct lladd_allocator *allocator, struct lladd_store **out,
                               struct lladd_error *);
/** Closes the store; NULL does nothing. */
LLADD_API void lladd_store_close(struct lladd_store *);

/* ---- backup --------------------------------------------------------------------------------- */

/** Reports progress: `done` of `all` bytes of `what` ("pages", "log", or "archive" while
 *  lladd_backup_outside waits for log in the store). If it does not return 0, the call stops and
 *  returns that value. Is called by one thread at a time, but with several threads (`threads` of
 *  the options) not always by the same one. */
typedef int lladd_ship_progress_fn(void *ctx, const char *what, uint64_t done, uint64_t all);

/** Zero means the default, for every member. Initialise with LLADD_BACKUP_OPTIONS_INIT. */
struct lladd_backup_options {
    size_t struct_size;
    const char *label;         /**< one line of text, at most 200 bytes; NULL: none */
    uint64_t bytes_per_second; /**< limit for reading the database's files; 0: no limit */
    lladd_ship_progress_fn *progress;
    void *progress_ctx;
    const struct lladd_allocator *allocator; /**< NULL: malloc */
    const struct lladd_environment *world;   /**< NULL: clock and random bytes of the system */
    uint32_t threads; /**< threads that read, check and compress pages; the calling thread is one of
                           them. Default 1, at most 256. Each needs 67 MiB of memory */
    lladd_finding_fn *finding; /**< is told each lost write (lladd_scrub), and each damaged page
                                    that was not repaired, with the reason; nullable. If it does
                                    not return 0, the call stops and returns that value */
    void *finding_ctx;
};
#define LLADD_BACKUP_OPTIONS_INIT_SIZE sizeof(struct lladd_backup_options)
#define LLADD_BACKUP_OPTIONS_INIT LLADD_SIZED_INIT(lladd_backup_options)

/** A complete backup. */
struct lladd_backup_info {
    size_t struct_size;
    char name[64];          /**< name of the backup: its objects are base/NAME/... */
    unsigned char uuid[16]; /**< UUID of the database */
    uint32_t page_size;
    uint32_t timeline;          /**< 0 for a database that was never restored */
    lladd_lsn from;             /**< the log of the backup begins here */
    lladd_lsn end;              /**< the backup has all commits below this LSN, and no others */
    uint64_t pages;             /**< pages of the page file */
    uint64_t stored_bytes;      /**< bytes in the store, without the manifest */
    uint64_t damaged_pages;     /**< pages in use that were damaged and could not be repaired */
    int64_t begun_us, ended_us; /**< wall clock, microseconds since 1970 */
    char label[201];
    /* Of the call that makes a backup; 0 in a list. */
    uint64_t lost_pages; /**< pages of which the disk has lost a write. Those that could not be
                              repaired are in damaged_pages, too */
    bool compared;       /**< the store has an older backup, so lost writes were looked for */
};

/** Makes a backup of an open database. Any number of transactions may run meanwhile; no transaction
 *  waits for the backup. The backup is the database at the LSN info->end. When the call returns 0,
 *  the backup is complete, and lladd_backup_each shows it. A call that fails deletes what it has
 *  stored. If the store refuses the deletion, the backup may stay. A backup that stays is complete
 *  if it has a manifest. The call takes checkpoints, so the thread must hold no page and no
 *  mutex that a callback of a commit may take. Until the end of the call the log is kept
 *  (lladd_log_keep). Takes 14 bytes of memory for each page, and 16 more if the store has a
 *  backup. A damaged page is repaired in the database, from the cache or from the log (BUF-2). A
 *  page that cannot be repaired is copied as it is, counted and reported. The reason may be that
 *  the store of an archive fails (lladd_ship_register); the next backup tries again. Every backup
 *  is a scrub: the pages are compared with the newest backup and the archive in the store, and lost
 *  writes are repaired and reported as by lladd_scrub. If an object of these is damaged, the pages
 *  are not compared.
 *  `options` and `info` may be NULL. LLADD_OTHER_DATABASE: the store has backups of another
 *  database. LLADD_BAD_STATE: files/ has files of an extension, which a backup would lack.
 *  LLADD_DIVERGED: another copy of the database archives into the store. LLADD_BUSY: pages that
 *  were written in bulk were written again each time they were copied. */
LLADD_API int lladd_backup(struct lladd_db *, struct lladd_store *,
                           const struct lladd_backup_options *options,
                           struct lladd_backup_info *info, struct lladd_error *);

/** Zero means the default, for every member. Initialise with LLADD_OUTSIDE_OPTIONS_INIT. */
struct lladd_outside_options {
    size_t struct_size;
    const struct lladd_backup_options *backup; /**< NULL: all defaults */
    uint64_t wait_ns; /**< the call fails if the store gets no log for this time while the call
                           waits for log. Default 600 s */
};
#define LLADD_OUTSIDE_OPTIONS_INIT_SIZE sizeof(struct lladd_outside_options)
#define LLADD_OUTSIDE_OPTIONS_INIT LLADD_SIZED_INIT(lladd_outside_options)

/** Makes a backup of a database that another process has open and archives into the same store.
 *  `files`: the files of the database, which are only read; the call takes no lock there. The other
 *  process takes no part, and none of its transactions waits. The backup begins at the last
 *  checkpoint. Its end is above all that the copied pages have. The call waits until the archive
 *  has stored the log up to there, and takes the log, and pages that were written in bulk
 *  meanwhile, out of the archive. When the call returns 0, the backup is complete, as with
 *  lladd_backup. A call that fails deletes what it has stored, as far as the store allows.
 *
 *  Takes 14 bytes of memory for each page, and 16 more if the store has a backup. Lost writes are
 *  looked for as in lladd_backup. Nothing is repaired: a page in use that stays unreadable, and
 *  that redo does not make, is copied as it is, counted and reported. The operations of the
 *  application are not needed. `options` and `info` may be NULL. LLADD_BAD_STATE: the other process
 *  does not archive the database into this store, it has ended, or no process has the database
 *  open; or files/ has files of an extension. LLADD_TIMEOUT: see wait_ns. LLADD_OUT_OF_RANGE: the
 *  archive lacks log, or pages written in bulk, that the backup needs. LLADD_DIVERGED: another copy
 *  of the database archives into the store. LLADD_OTHER_DATABASE: the store is of another
 *  database. */
LLADD_API int lladd_backup_outside(struct lladd_device *files, struct lladd_store *,
                                   const struct lladd_outside_options *options,
                                   struct lladd_backup_info *info, struct lladd_error *);

/** If it does not return 0, lladd_backup_each stops and returns that value. */
typedef int lladd_backup_fn(void *ctx, const struct lladd_backup_info *);
/** Calls `fn` for every complete backup in the store, oldest first. `allocator` may be NULL.
 *  LLADD_CORRUPT_BACKUP: a manifest is damaged; `fn` was called for all other backups. */
LLADD_API int lladd_backup_each(struct lladd_store *, const struct lladd_allocator *allocator,
                                lladd_backup_fn *, void *ctx, struct lladd_error *);

/* ---- archive of the log --------------------------------------------------------------------- */

/** Zero means the default, for every member. Initialise with LLADD_ARCHIVE_OPTIONS_INIT. */
struct lladd_archive_options {
    size_t struct_size;
    bool thread;          /**< a thread archives; else the program calls lladd_archive_step */
    uint64_t piece_ns;    /**< the thread stores the new bytes of the current segment after this
                               time. Default 10 s */
    uint64_t piece_bytes; /**< the thread also stores them when there are this many. Default
                               8 MiB */
    uint64_t mark_ns;     /**< time between two time marks, while there are commits. Default 1 s */
    uint64_t give_up_bytes; /**< if more log than this is not stored, the archive no longer keeps
                                 that log: the log may be recycled, and then the archive has a gap.
                                 0: the archive always keeps the log */
    const struct lladd_allocator *allocator; /**< NULL: malloc */
    const struct lladd_environment *world;   /**< NULL: clock and random bytes of the system */
};
#define LLADD_ARCHIVE_OPTIONS_INIT_SIZE sizeof(struct lladd_archive_options)
#define LLADD_ARCHIVE_OPTIONS_INIT LLADD_SIZED_INIT(lladd_archive_options)

/** Archives the log of one database into a store. */
struct lladd_archive;
/** Makes an archive, and registers it with the options, which the caller then gives to lladd_open.
 *  While the database is open, no log is recycled before it is stored. A pin
 *  "lladd.archive.<timeline>" keeps the log even when the database is closed, or open without the
 *  archive. Pages that are written in bulk are kept in files/ship until they are stored. If they
 *  cannot be written there, lladd_bulk_write or the commit fails. As long as the store fails, these
 *  files grow. The log grows, too, up to lladd_options.log_limit_bytes. A damaged page that the
 *  log cannot rebuild is rebuilt from the store, also in recovery; a thread that needs such a page
 *  waits for the store. Only one thread at a time may use a store, so the archive needs a handle
 *  for itself. Free the archive with lladd_archive_free, after lladd_close and
 *  lladd_options_release. `options` may be NULL. */
LLADD_API int lladd_ship_register(struct lladd_options *, struct lladd_store *,
                                  const struct lladd_archive_options *options,
                                  struct lladd_archive **out, struct lladd_error *);
/** Frees the archive; NULL does nothing. */
LLADD_API void lladd_archive_free(struct lladd_archive *);
/** Stores the next object: a segment of the log, or the new part of the segment that is being
 *  written. The pages that the segment's transactions have written in bulk are stored first. *more
 *  gets true if there is more to store. The thread must hold no page, as for lladd_checkpoint.
 *  LLADD_DIVERGED: another copy of the database archives into the store, or the store has other
 *  log. Then the archive keeps the log, and stores nothing until the database is opened again. Any
 *  other error leaves the archive as it was, and the next call tries again. LLADD_BAD_STATE: no
 *  database is open with this archive, or it was detached. */
LLADD_API int lladd_archive_step(struct lladd_archive *, bool *more, struct lladd_error *);
/** Logs a named mark, and makes it durable. A restore to the mark includes all transactions that
 *  committed before the call. A name has 1 to 64 letters, digits, '_', '-' and '.', and does not
 *  begin with '.'. *lsn (nullable) gets the LSN of the mark. The call asks the store whether the
 *  name is new. LLADD_EXISTS: the name was used before. */
LLADD_API int lladd_archive_mark(struct lladd_archive *, const char *name, lladd_lsn *lsn,
                                 struct lladd_error *);
/** Ends the archive for good. Removes the pin, so that log that is not stored may be recycled.
 *  Deletes the pages that are kept in files/ship, except those of open transactions. If
 *  the database is archived again later, the archive may have a gap. */
LLADD_API int lladd_archive_detach(struct lladd_archive *, struct lladd_error *);

/** How far the archive is. */
struct lladd_archive_status {
    size_t struct_size;
    bool attached; /**< a database is open with the archive, and it was not detached */
    bool diverged; /**< stopped: another copy of the database archives into the store */
    bool gap;      /**< log between `gap_from` and `gap_to` was recycled before it was stored, or a
                              transaction that committed there has written pages in bulk that are
                              not stored. Targets beyond the gap need a new backup */
    lladd_lsn gap_from, gap_to;
    lladd_lsn stored;               /**< all log below this LSN is in the store */
    lladd_lsn kept;                 /**< the log is kept from here on */
    uint64_t unstored_bytes;        /**< durable log that is not stored */
    uint64_t unstored_ns;           /**< time since the store last had all durable log */
    uint64_t objects, stored_bytes; /**< objects and bytes that this archive has stored since
                                         lladd_open */
    uint64_t failures;              /**< calls of lladd_archive_step that returned an error */
    struct lladd_error error;       /**< the error of the last step; code 0 if the step succeeded */
    uint64_t spool_bytes; /**< bytes of pages in files/ship that were written in bulk and are not
                               stored */
    uint64_t pages_given; /**< damaged pages for which the store had a copy, since lladd_open */
    uint64_t pages_refused; /**< damaged pages for which the store had no copy, or could not be
                                 read. A page counts at each request */
};
/** Fills as much as out->struct_size says. Does not wait for the store. Any thread. */
LLADD_API int lladd_archive_status_get(struct lladd_archive *, struct lladd_archive_status *out,
                                       struct lladd_error *);

/** Stores the log of a database that no process has open, up to its end, and the pages in
 *  files/ship. The call only reads from the device. Of the other files it needs only "control" and
 *  log/. Of the options, `thread` and `give_up_bytes` have no effect; `options` and `out` may be
 *  NULL. LLADD_LOCKED: a process has the database open. Other errors are those of
 *  lladd_archive_step. */
LLADD_API int lladd_archive_push(struct lladd_device *, struct lladd_store *,
                                 const struct lladd_archive_options *options,
                                 struct lladd_archive_status *out, struct lladd_error *);

/** Zero means the default, for every member. Initialise with LLADD_ADOPT_OPTIONS_INIT. */
struct lladd_adopt_options {
    size_t struct_size;
    /** Called for each transaction that is in doubt, before anything is written; nullable. If it
     *  does not return 0, the call stops and returns that value. */
    lladd_in_doubt_fn *in_doubt;
    void *in_doubt_ctx;
    const struct lladd_allocator *allocator; /**< NULL: malloc */
    const struct lladd_environment *world;   /**< NULL: clock and random bytes of the system */
};
#define LLADD_ADOPT_OPTIONS_INIT_SIZE sizeof(struct lladd_adopt_options)
#define LLADD_ADOPT_OPTIONS_INIT LLADD_SIZED_INIT(lladd_adopt_options)

/** What lladd_archive_adopt has done. */
struct lladd_adopt_info {
    size_t struct_size;
    bool adopted;      /**< this call has given the database a new timeline. false: the archive was
                            not refused, for example because an earlier call has done so */
    bool needs_backup; /**< the backups and the log in the store do not reach the end of the
                            timeline's log. The database can be restored to that end only after a
                            new backup of it */
    uint32_t timeline; /**< of the database */
    uint32_t parent;   /**< the timeline that it has left */
    lladd_lsn fork;    /**< LSN where `timeline` has left `parent`: the parent's log from here on
                            does not belong to the timeline. 0: no log of the parent belongs to the
                            timeline */
    lladd_lsn stored;  /**< the store has the timeline's log below this LSN */
};
/** Takes an archive over by hand. An archive stops with LLADD_DIVERGED in three cases: another copy
 *  of the database has claimed the store, the store has other log, or the database has lost its
 *  file "files/ship/claim". The call gives the database a new timeline in the store. No process may
 *  have the database open. The other copy goes on with the old timeline. Up to the timeline's fork,
 *  the log in the store and the log of the database are the same. Then the call stores the
 *  database's log, as lladd_archive_push does. A branch that is in doubt may have been decided in
 *  the other copy. So the coordinator may have no record of the branch; that is no reason to abort
 *  it. If the archive is not refused, the call only stores the log.
 *
 *  After an error or a crash the database has its old timeline or the new one, and can be opened.
 *  The next call completes what this call has begun, with the same new timeline. Durable when the
 *  call returns. `options` and `info` may be NULL. LLADD_LOCKED: a process has the database open.
 *  LLADD_NOT_FOUND: the store is empty. LLADD_OTHER_DATABASE: the store is of another database.
 *  LLADD_CORRUPT_LOG: the database's log is damaged. Other errors are those of
 *  lladd_archive_push. */
LLADD_API int lladd_archive_adopt(struct lladd_device *, struct lladd_store *,
                                  const struct lladd_adopt_options *options,
                                  struct lladd_adopt_info *info, struct lladd_error *);

/* ---- scrub ---------------------------------------------------------------------------------- */

/** Zero means the default, for every member. Initialise with LLADD_SCRUB_OPTIONS_INIT. */
struct lladd_scrub_options {
    size_t struct_size;
    uint64_t bytes_per_second; /**< limit for reading the page file; 0: as fast as possible */
    lladd_finding_fn *finding; /**< is told each finding. LLADD_FINDING_REPAIR: the call has
                                    repaired it; LLADD_FINDING_DAMAGE: it could not. If the function
                                    does not return 0, the call stops and returns that value */
    void *finding_ctx;
    lladd_ship_progress_fn *progress;
    void *progress_ctx;
};
#define LLADD_SCRUB_OPTIONS_INIT_SIZE sizeof(struct lladd_scrub_options)
#define LLADD_SCRUB_OPTIONS_INIT LLADD_SIZED_INIT(lladd_scrub_options)

/** What a scrub has found. */
struct lladd_scrub_info {
    size_t struct_size;
    uint64_t pages;    /**< number of pages that were read */
    uint64_t repaired; /**< number of damaged pages that were repaired */
    uint64_t damaged;  /**< number of damaged pages in use that cannot be repaired */
    uint64_t lost;     /**< number of pages in use of which the disk has lost a write, and of raw
                            pages that have other bytes than were written */
    bool compared;     /**< the store has a backup, so pages were compared with the archive. If
                            false, only the lost writes that the database's own log shows were
                            found */
    lladd_lsn from;    /**< the scrub has looked for every lost write with this LSN or a higher one.
                            Of older lost writes it finds only those that the page LSNs in the
                            backup show */
};
/** Reads every page of the page file of the open database, past the cache, while transactions run.
 *  A damaged page is repaired as when it is fetched: from the cache, the log or the archive. Then
 *  the scrub compares each page with the newest LSN that it finds for the page. It takes LSNs from
 *  the newest backup. For the time after the begin of that backup, it takes them from the indexes
 *  of the archived log, the spools, and the log that is not stored yet. If the page is older, the
 *  disk has lost a write, perhaps in an earlier run. The scrub writes the page again from the
 *  cache, or rebuilds it as lladd_page_rebuild does; if that fails, the scrub only reports the
 *  page. A page that was changed meanwhile is looked at again after a checkpoint. A raw page is
 *  compared with the bytes that were written to it last, and is only reported. Takes 16 bytes of
 *  memory for each page. The thread must hold no page, as for lladd_checkpoint. `options` and
 *  `info` may be NULL. Findings are no error. LLADD_BAD_STATE: no database is open with this
 *  archive. Any other error: the call could not go on. */
LLADD_API int lladd_scrub(struct lladd_archive *, const struct lladd_scrub_options *options,
                          struct lladd_scrub_info *info, struct lladd_error *);
/** Looks for lost writes as lladd_scrub does, in a database that no process has open, and changes
 *  nothing. `files`: the files of the database, which are only read. `db`: the same database,
 *  opened with LLADD_OPT_NO_THREADS over a lladd_device_overlay of these files, and without an
 *  archive. A lost write that the next open repairs is a LLADD_FINDING_REPAIR. Damaged pages are
 *  not reported; lladd_inspect_verify does that. `options` and `info` may be NULL.
 *  LLADD_OTHER_DATABASE: the store has backups of another database. */
LLADD_API int lladd_archive_verify(struct lladd_db *db, struct lladd_device *files,
                                   struct lladd_store *, const struct lladd_scrub_options *options,
                                   struct lladd_scrub_info *info, struct lladd_error *);
/** Fills `bytes` (of the page size) with what was written last to a raw page (LLADD_EXTENT_RAW) of
 *  the open database, maybe by a transaction that has not ended. The bytes come from a spool, or
 *  from the newest backup. The library cannot see that a raw page is damaged. An application that
 *  finds such a page writes these bytes to it with lladd_bulk_write. lladd_page_rebuild repairs a
 *  page with a header. LLADD_NOT_FOUND, LLADD_OUT_OF_RANGE: the archive cannot give the page.
 *  LLADD_CORRUPT_BACKUP. LLADD_BAD_STATE: no database is open with this archive. Any thread. */
LLADD_API int lladd_page_from_archive(struct lladd_archive *, lladd_pageno, void *bytes,
                                      struct lladd_error *);

/* ---- restore -------------------------------------------------------------------------------- */

/** What a target is. */
enum lladd_target_kind {
    LLADD_TO_BASE = 0, /**< the end of the backup; the backup's own log is enough */
    LLADD_TO_END = 1,  /**< the end of the log that is stored */
    LLADD_TO_LSN = 2,  /**< an LSN: all transactions with a commit record below it, and no others.
                            An LSN inside a record counts as the record's first byte */
    LLADD_TO_MARK = 3, /**< a named mark: all transactions that had committed when it was made */
    LLADD_TO_TIME = 4  /**< a time: all transactions that had committed at the last mark before the
                            first mark that is later than the time. So no transaction that
                            committed later than the time is included */
};
/** The state of the database that is wanted. Zero means the default, for every member. Initialise
 *  with LLADD_RESTORE_TARGET_INIT. */
struct lladd_restore_target {
    size_t struct_size;
    enum lladd_target_kind kind;
    uint32_t timeline; /**< the timeline of the target; 0: the timeline of the backup that
                            options.base names or, without a name, of the backup that ended last */
    lladd_lsn lsn;     /**< for LLADD_TO_LSN: the LSN */
    const char *mark;  /**< for LLADD_TO_MARK: the name of the mark */
    int64_t time_us;   /**< for LLADD_TO_TIME: the time, in microseconds since 1970 (wall clock) */
};
#define LLADD_RESTORE_TARGET_INIT_SIZE sizeof(struct lladd_restore_target)
#define LLADD_RESTORE_TARGET_INIT LLADD_SIZED_INIT(lladd_restore_target)

/** Zero means the default, for every member. Initialise with LLADD_RESTORE_OPTIONS_INIT. */
struct lladd_restore_options {
    size_t struct_size;
    const char *base; /**< name of the backup. NULL: with a target, the backup with the highest end
                           that is not above the target; else the backup that ended last */
    uint64_t bytes_per_second;        /**< limit for lladd_restore; 0: no limit */
    lladd_ship_progress_fn *progress; /**< lladd_restore only */
    void *progress_ctx;
    const struct lladd_allocator *allocator; /**< NULL: malloc */
    const struct lladd_environment *world;   /**< NULL: clock and random bytes of the system */
    const struct lladd_restore_target *target; /**< NULL: the end of the backup */
    /** Called for each transaction that is in doubt at the target, before anything is written;
     *  nullable. If it does not return 0, the call stops and returns that value. */
    lladd_in_doubt_fn *in_doubt;
    void *in_doubt_ctx;
    lladd_lsn expected; /**< an LSN that the caller expects in the store. If the LSNs that can be
                             restored on the target's timeline end below this LSN, the newest
                             objects are missing, and the call is refused. 0: no check */
    uint32_t threads;   /**< lladd_restore only: threads that decompress, check and write pages; the
                             calling thread is one of them. Default 1, at most 256. Each needs 4 MiB
                             of memory */
};
#define LLADD_RESTORE_OPTIONS_INIT_SIZE sizeof(struct lladd_restore_options)
#define LLADD_RESTORE_OPTIONS_INIT LLADD_SIZED_INIT(lladd_restore_options)

/** Makes a read-only device that shows the files of the database as a crash at the target would
 *  have left them. To open the database without a restore, put a lladd_device_overlay over this
 *  device. With a target other than the backup's end, the call reads and checks the log up to the
 *  target. The device checks what it reads: for a damaged object `pread` returns -EBADMSG, and
 *  lladd_store_device_error has the error. Close it with lladd_store_device_close, before the
 *  store. LLADD_NOT_FOUND: the store has no such backup. LLADD_OUT_OF_RANGE: either the target
 *  cannot be restored, and the message has the LSNs that can be restored; or the store does not
 *  reach options.expected, and the message has this LSN and the LSN that it reaches.
 *  LLADD_FOREIGN_FILE: an archived segment belongs to another database. */
LLADD_API int lladd_store_device(struct lladd_store *, const struct lladd_restore_options *,
                                 struct lladd_device **out, struct lladd_error *);
/** Describes the backup that the device shows; `end` and `timeline` are those of the target. Fills
 *  as much as out->struct_size says. */
LLADD_API void lladd_store_device_info(struct lladd_device *, struct lladd_backup_info *out);
/** Gets the first error of the device; returns its code, or 0 if there was no error. */
LLADD_API int lladd_store_device_error(struct lladd_device *, struct lladd_error *);
/** Closes the device; NULL does nothing. */
LLADD_API void lladd_store_device_close(struct lladd_device *);

/** The kinds of items that lladd_archive_each reports. */
enum lladd_archive_kind {
    LLADD_ARCHIVE_TIMELINE = 1, /**< a timeline: `parent`, and the LSN `from` where it left the
                                     parent, at `time_us` */
    LLADD_ARCHIVE_RANGE = 2,    /**< the LSNs `from` to `end` of the timeline can be restored; this
                                     is what the names and headers of the stored objects show */
    LLADD_ARCHIVE_GAP = 3,      /**< the log from `from` to `end` is missing between stored log */
    LLADD_ARCHIVE_MARK = 4      /**< a mark: its name, its LSN `from`, and `time_us` */
};
struct lladd_archive_item {
    enum lladd_archive_kind kind;
    uint32_t timeline, parent;
    lladd_lsn from, end;
    int64_t time_us; /**< wall clock, microseconds since 1970 */
    char name[65];
};
/** If it does not return 0, lladd_archive_each stops and returns that value. */
typedef int lladd_archive_fn(void *ctx, const struct lladd_archive_item *);
/** Calls `fn` for what the store has besides its backups (lladd_backup_each). Timelines come by
 *  number; after each timeline come its ranges, gaps and marks. Reads the first header of each
 *  segment. `allocator` may be NULL. LLADD_NOT_FOUND: the store is empty. LLADD_CORRUPT_BACKUP: an
 *  object is damaged; if it is a manifest, `fn` was called for everything else. */
LLADD_API int lladd_archive_each(struct lladd_store *, const struct lladd_allocator *allocator,
                                 lladd_archive_fn *, void *ctx, struct lladd_error *);

/** Writes the database at the target into `empty`, a device that has no files except "lock" and
 *  those of an interrupted restore. lladd_open then recovers the copy as after a crash. The copy
 *  has the transactions that had committed below the target, and those that were prepared are in
 *  doubt. The copy gets a timeline of its own, which is recorded in the store. So log that the
 *  original database writes later is never taken for log of the copy. The restore reads and checks
 *  every object that it needs, and writes "control" last. So after an error or a crash lladd_open
 *  refuses the directory, and the restore can be repeated. `info` (nullable) gets what
 *  lladd_store_device_info returns. Errors are those of lladd_store_device, and LLADD_EXISTS:
 *  `empty` has files; LLADD_LOCKED: a process uses `empty`. */
LLADD_API int lladd_restore(struct lladd_store *, const struct lladd_restore_options *,
                            struct lladd_device *empty, struct lladd_backup_info *info,
                            struct lladd_error *);

/* ---- check ---------------------------------------------------------------------------------- */

/** If it does not return 0, the call that runs it stops and returns that value. */
typedef int lladd_check_opened_fn(void *ctx, struct lladd_db *);

/** Zero means the default, for every member. Initialise with LLADD_CHECK_OPTIONS_INIT. */
struct lladd_check_options {
    size_t struct_size;
    const char *base;          /**< name of the backup; NULL: the one that ended last */
    uint64_t bytes_per_second; /**< limit for reading the store's objects; 0: no limit */
    lladd_finding_fn *finding; /**< is told each finding; nullable. If it does not return 0, the
                                    call stops and returns that value. With several threads not
                                    always called by the same one */
    void *finding_ctx;
    lladd_ship_progress_fn *progress; /**< reports "objects", "recovery", and what
                                           lladd_inspect_progress reports, which it cannot stop */
    void *progress_ctx;
    /** For lladd_open of the restored database: registrations, cache, threads. Not used: device,
     *  recovery. NULL: the built-in operations, without threads. */
    const struct lladd_options *database;
    uint64_t memory_bytes; /**< the maximum number of bytes that the restored database writes to
                                memory; the rest goes to unnamed files in `spill_dir`. Default
                                64 MiB */
    const char *spill_dir; /**< directory of the operating system; NULL: all stays in memory */
    lladd_check_opened_fn *opened; /**< called with the restored database, after its recovery;
                                        nullable. The function may read and change it */
    void *opened_ctx;
    const struct lladd_allocator *allocator; /**< NULL: malloc */
    const struct lladd_environment *world;   /**< NULL: clock of the system */
    uint32_t threads; /**< threads that check the objects of the backup; the calling thread is one
                           of them. Default 1, at most 256. Each needs 64 MiB of memory */
};
#define LLADD_CHECK_OPTIONS_INIT_SIZE sizeof(struct lladd_check_options)
#define LLADD_CHECK_OPTIONS_INIT LLADD_SIZED_INIT(lladd_check_options)

/** What a check has found. */
struct lladd_check_info {
    size_t struct_size;
    char name[64];           /**< name of the backup */
    uint32_t timeline;       /**< timeline of the backup */
    lladd_lsn end;           /**< end of the backup */
    lladd_lsn restored;      /**< the database was restored up to this LSN, and is undamaged; 0: it
                                  was not restored, and the findings say why */
    uint64_t objects, bytes; /**< numbers of objects of the store that were read one by one, and of
                                  their bytes */
    uint64_t pages, records; /**< numbers of pages and records of the restored database that were
                                  verified */
    uint64_t damage, repair, notes; /**< numbers of findings */
};
/** Proves that a backup can be restored. Reads each object that a restore of the backup needs, and
 *  the archived log above the backup on its timeline, up to the first gap. Then restores the
 *  database in memory, up to the end of that log: opens it, with full recovery, closes it, and
 *  verifies each page and record (lladd_inspect_verify). If an object of the archive is damaged or
 *  missing, the restore in memory goes to the end of the backup.
 *
 *  `file` of a finding is the name of an object of the store, or of a file of the restored
 *  database; "." is the database as a whole. LLADD_FINDING_DAMAGE: the object is damaged or
 *  missing, so a restore is refused; LLADD_FINDING_REPAIR: an index, which can be made again;
 *  LLADD_FINDING_NOTE: no restore needs the object, or the clock was set back between two marks. If
 *  the newest objects of the log are missing, the check cannot see that; `restored` says how far
 *  the log goes. Findings are no error. The call writes nothing to the store. `options` and `info`
 *  may be NULL. LLADD_NOT_FOUND: no such backup. Any other error: the check could not go on, e.g.
 *  LLADD_NO_OPERATION. */
LLADD_API int lladd_archive_check(struct lladd_store *, const struct lladd_check_options *options,
                                  struct lladd_check_info *info, struct lladd_error *);

/* ---- expiry --------------------------------------------------------------------------------- */

/** What lladd_archive_expire keeps: at least one of `backups` and `since_us` is set. If both are
 *  set, a backup is kept if at least one of them keeps it. Initialise with LLADD_KEEP_INIT. */
struct lladd_keep {
    size_t struct_size;
    uint64_t backups; /**< keep this number of backups, those that ended last; 0: see `since_us` */
    int64_t since_us; /**< keep what a restore to this time or a later one needs: the backups that
                           have ended since, and for each of their timelines the last backup that
                           had ended before this time. Wall clock, microseconds since 1970; 0: see
                           backups */
    bool dry_run;     /**< deletes nothing */
    const struct lladd_allocator *allocator; /**< NULL: malloc */
    const struct lladd_environment *world;   /**< NULL: clock of the system */
};
#define LLADD_KEEP_INIT_SIZE sizeof(struct lladd_keep)
#define LLADD_KEEP_INIT LLADD_SIZED_INIT(lladd_keep)

/** What an expiry has done. */
struct lladd_expire_info {
    size_t struct_size;
    uint64_t kept, expired; /**< numbers of complete backups */
    uint64_t objects;       /**< number of objects that were deleted, or with `dry_run` would be */
    uint64_t bytes;         /**< number of bytes of these objects */
    lladd_lsn log_from;     /**< log below this LSN is not needed */
};
/** Deletes the backups that are not kept, what interrupted backups have left, and the archived log
 *  that no kept backup needs. No kept backup needs log wholly below the lowest `from` of all kept
 *  backups. Always kept are:
 *  - the backup that ended last;
 *  - the log that an unfinished backup needs, if that backup began less than seven days ago;
 *  - the last backup with which an archived timeline can be restored, until a kept backup is of
 *    that timeline or of a timeline that left it;
 *  - the last whole segment of each timeline, after which the archive goes on.
 *
 *  The manifest of a backup is deleted before the objects that it names. The log is deleted last,
 *  the lowest segment first. So after an error or a crash each backup that lladd_backup_each shows
 *  is whole, and has the log above it. The next call deletes the rest. A restore that uses a backup
 *  which expires meanwhile fails.
 *
 *  `fn` (nullable) is told each object before it is deleted, as LLADD_FINDING_NOTE; if it does not
 *  return 0, the call stops and returns that value. `info` may be NULL. LLADD_BAD_ARGUMENT: nothing
 *  is to be kept. LLADD_NOT_FOUND: no complete backup is in the store, so nothing was deleted.
 *  LLADD_CORRUPT_BACKUP: nothing was deleted, because a manifest, a history or the object "begun"
 *  of a backup is damaged, and so it is unknown what that backup needs. */
LLADD_API int lladd_archive_expire(struct lladd_store *, const struct lladd_keep *,
                                   lladd_finding_fn *fn, void *ctx, struct lladd_expire_info *info,
                                   struct lladd_error *);

/* ---- roll ----------------------------------------------------------------------------------- */

/** Zero means the default, for every member. Initialise with LLADD_ROLL_OPTIONS_INIT. */
struct lladd_roll_options {
    size_t struct_size;
    const char *base;          /**< name of the backup to begin with; NULL: as for a restore to
                                    LLADD_TO_END */
    uint32_t timeline;         /**< timeline of the log's end; 0: the timeline of the last backup */
    const char *label;         /**< label of the new backup, as in lladd_backup_options */
    uint64_t bytes_per_second; /**< limit for reading pages and log; 0: no limit */
    lladd_ship_progress_fn *progress;
    void *progress_ctx;
    /** For lladd_open of the restored database: registrations and cache. Not used: device,
     *  recovery, threads. NULL: the built-in operations. */
    const struct lladd_options *database;
    uint64_t memory_bytes; /**< the maximum number of bytes of changed pages in memory; the rest
                                goes to unnamed files in `spill_dir`. Default 64 MiB */
    const char *spill_dir; /**< directory of the operating system; NULL: all stays in memory */
    const struct lladd_allocator *allocator; /**< NULL: malloc */
    const struct lladd_environment *world;   /**< NULL: clock and random bytes of the system */
    uint32_t threads;          /**< as in lladd_backup_options */
};
#define LLADD_ROLL_OPTIONS_INIT_SIZE sizeof(struct lladd_roll_options)
#define LLADD_ROLL_OPTIONS_INIT LLADD_SIZED_INIT(lladd_roll_options)

/** Makes a new backup out of the last one and the archived log above it, without the database. A
 *  restore from the new backup gives the same database as a restore from the old one to the end of
 *  that log, and needs less log. Log that is archived later can follow either backup. Transactions
 *  that are open or prepared at the end of the log are open or prepared in the new backup, too, and
 *  may commit in later log. The call opens the database in memory, so it also proves that the
 *  old backup and the log can be restored. If the archive has no log above the last backup, and
 *  this backup is of the wanted timeline, nothing is made, and *info describes the last backup. A
 *  call that fails deletes what it has stored, as lladd_backup does; the old backup and the log are
 *  not touched. `options` and `info` may be NULL. Errors are those of lladd_store_device,
 *  lladd_open and lladd_backup. */
LLADD_API int lladd_archive_roll(struct lladd_store *, const struct lladd_roll_options *options,
                                 struct lladd_backup_info *info, struct lladd_error *);

#ifdef __cplusplus
}
#endif
#endif
