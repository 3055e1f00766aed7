/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SHIP_ARCHIVE_PRIVATE_H
#define SHIP_ARCHIVE_PRIVATE_H
/* The archive of an open database.
 *
 *   archive.c         the public calls, and the thread
 *   archive_step.c    a step, which stores the next object
 *   archive_bulk.c    a step's work on pages that were written in bulk
 *   archive_resume.c  finds where an archive goes on
 *
 * Of a database that no process has open:
 *
 *   archive_push.c    stores its log
 *   adopt.c           gives it a new timeline, if another copy has claimed the store
 *   same_log.c        finds the log that it has in common with the store
 *   archive_differs.c tells an object of another copy from a damaged one */
#include "ship/ship_private.h"

#include <lladd/extension.h>
#include <lladd/sync.h>

struct lladd_archive {
    struct lladd_extension ext;
    struct lladd_store *store; /* any thread may use it (store_locked.c) */
    struct lladd_archive_options opt;
    struct ll_ship_mem mem;
    /* Held during a step. Guards what follows. */
    struct lladd_mutex work;
    struct lladd_db *db; /* changed under `state`, while the database is opened or closed: no other
                            call on the archive may run then. NULL during lladd_archive_push */
    uint64_t closed_end; /* end of the log, during lladd_archive_push */
    struct lladd_device *dev;
    struct lladd_log_hold *hold;
    char pin[64];
    bool pinned; /* the pin was set; until then only the hold keeps the log */
    bool claimed, begun, detached;
    struct lladd_error diverged; /* code 0: the store and the log do not contradict each other */
    unsigned char uuid[16];
    uint32_t timeline, page_size;
    struct ll_ship_claim claim;
    uint64_t done;  /* the store has all log below, in whole segments; log is kept from here on */
    uint64_t pos;   /* the store has all log below. `pos` is `done`, or higher if the store has
                       pieces of the segment at `done` */
    uint64_t start; /* the first record that begins at or after `done` */
    uint64_t seen;  /* all records below this LSN were checked when pieces were stored */
    struct ll_ship_buf open; /* as `open` in the index of the segment before `done` */
    struct ll_ship_buf bytes, after, object, scratch;
    uint64_t fork;              /* the timeline begins at this LSN; transactions that began below
                                 * it belong to its origin */
    struct ll_ship_buf shipped; /* uint64_t: transactions that have a commit or prepare record at or
                                     after `done`, and a spool in the store */
    /* uint64_t: transactions that have a spool, and a commit or prepare record in the next piece */
    struct ll_ship_buf seen_bulk;
    /* The end of the durable log after the last time mark was logged; the time of that mark; the
     * time at which the last piece was stored. */
    uint64_t mark_end, marked_ns, piece_ns;
    /* Guards what follows; never held during a call that may wait. */
    struct lladd_mutex state;
    struct lladd_cond wake;
    struct lladd_thread thread;
    bool stop;
    bool spooling;               /* transactions that write in bulk get a spool */
    struct ll_ship_spool *spool; /* changed together with `db` */
    unsigned lookers;            /* threads that look at `db` and `spool` without `state` */
    struct lladd_archive_status status;
    uint64_t caught_up_ns; /* when the store had all durable log */
};

/* ---- archive.c ------------------------------------------------------------------------------ */

/* An archive without a database. `options` may be NULL. */
int ll_ship_archive_new(struct lladd_store *, const struct lladd_archive_options *,
                        struct lladd_archive **out, struct lladd_error *);
/* Notes in the status what a step has reached. */
void ll_ship_archive_say(struct lladd_archive *, int rc, const struct lladd_error *);

/* ---- page.c --------------------------------------------------------------------------------- */

/* lladd_extension.base_of. LLADD_NOT_FOUND: the archive cannot give the page, and says why. */
int ll_ship_page(struct lladd_archive *, struct lladd_db *, lladd_pageno, lladd_lsn since,
                 lladd_lsn writer, void *bytes, struct lladd_error *);

/* ---- archive_step.c ------------------------------------------------------------------------- */

/* The end of the durable log. */
uint64_t ll_ship_archive_end(const struct lladd_archive *);
/* Stores the next object. `all`: stores even a piece that is not due yet. */
int ll_ship_archive_step(struct lladd_archive *, bool all, bool *more, struct lladd_error *);
/* Reads uuid, page size and timeline from the control block. */
int ll_ship_archive_identify(struct lladd_archive *, struct lladd_error *);
/* Claims the store and finds where to go on, if that is not done yet. */
int ll_ship_archive_begin(struct lladd_archive *, struct lladd_error *);
/* Moves hold and pin to `done`: from there on they keep the log. */
void ll_ship_archive_keep(struct lladd_archive *);
/* Logs a mark in a transaction of its own. */
int ll_ship_archive_note(struct lladd_archive *, const char *name, lladd_lsn end, lladd_lsn *lsn,
                         struct lladd_error *);

/* Puts an object. LLADD_EXISTS: the name is taken by other bytes. */
int ll_ship_archive_put(struct lladd_archive *, const char *name, const struct ll_ship_buf *,
                        struct lladd_error *);

/* ---- archive_differs.c ---------------------------------------------------------------------- */

/* For an object that has other bytes than the database: LLADD_DIVERGED if it is whole, so that
 * another copy of the database has put it; LLADD_CORRUPT_BACKUP if it is damaged. Of a segment and
 * of a piece, `start` is the LSN of the first record in the database's log there. */
int ll_ship_differs_segment(struct lladd_archive *, const char *name, uint64_t first,
                            uint64_t start, struct lladd_error *);
/* `from`, `to`: as in the piece's name. */
int ll_ship_differs_piece(struct lladd_archive *, const char *name, const struct ll_ship_segment *,
                          uint64_t from, uint64_t to, uint64_t start, struct lladd_error *);
int ll_ship_differs_spool(struct lladd_archive *, const char *name, uint64_t txn, uint32_t part,
                          struct lladd_error *);

/* ---- archive_bulk.c ------------------------------------------------------------------------- */

/* Sets `fork`. */
int ll_ship_bulk_fork(struct lladd_archive *, struct lladd_error *);
/* Deletes the files of spools that the store has. lladd_archive_push leaves such files, and a crash
 * while a spool is deleted may leave some. */
int ll_ship_bulk_resume(struct lladd_archive *, struct lladd_error *);
/* Stores the spools of the transactions that the index names, and deletes the files of transactions
 * that were rolled back. Call it before the index is put. A missing spool is noted as a gap. */
int ll_ship_bulk_segment(struct lladd_archive *, const struct ll_ship_index *,
                         struct lladd_error *);
/* Callback for a walk over the log of a piece; ctx: the archive. Notes the transactions that have a
 * spool and that commit or prepare in the piece. */
int ll_ship_bulk_see(void *ctx, const struct ll_ship_record *, struct lladd_error *);
/* Stores the spools of these transactions. */
int ll_ship_bulk_piece(struct lladd_archive *, struct lladd_error *);
/* Deletes the files of transactions that began below the LSN and are not active in this run. */
int ll_ship_bulk_drop(struct lladd_archive *, uint64_t below, struct lladd_error *);

/* ---- archive_push.c ------------------------------------------------------------------------- */

struct lladd_inspect;
/* Takes a view of a database that no process has open. Sets where the log begins, and where
 * recovery would find the end of the log. `held`: the caller has the lock of the database.
 * LLADD_LOCKED; LLADD_CORRUPT_LOG: the log is damaged. Close the view. */
int ll_ship_archive_look(struct lladd_archive *, bool held, struct lladd_inspect **out,
                         struct lladd_error *);

/* ---- same_log.c ----------------------------------------------------------------------------- */

/* Finds the LSN up to which two things hold. The store's log of the archive's timeline is the log
 * of the database. The store's spools have what the database has written in bulk. 0: there is
 * no such log. */
int ll_ship_same_log(struct lladd_archive *, struct lladd_inspect *, uint64_t *out,
                     struct lladd_error *);

/* ---- archive_resume.c ----------------------------------------------------------------------- */

/* Finds what the store has already. `end`: the end of the durable log. */
int ll_ship_archive_resume(struct lladd_archive *, uint64_t end, struct lladd_error *);
/* Lets the archive go on at the segment that begins at `first`, as if no log preceded it. */
int ll_ship_archive_place(struct lladd_archive *, uint64_t first, struct lladd_error *);
/* Reads [from, to) of a segment's file into `out`. */
int ll_ship_archive_read(struct lladd_archive *, const struct ll_ship_segment *, uint64_t from,
                         uint64_t to, struct ll_ship_buf *out, struct lladd_error *);
void ll_ship_archive_gap(struct lladd_archive *, uint64_t from, uint64_t to);
int ll_ship_diverged(struct lladd_error *, const char *what);
void ll_ship_part_prefix(uint32_t timeline, uint64_t first, char out[LL_SHIP_NAME_MAX]);
void ll_ship_part_name(uint32_t timeline, uint64_t first, uint64_t from, uint64_t end,
                       char out[LL_SHIP_NAME_MAX]);
#endif
