/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SHIP_ARCHIVE_PRIVATE_H
#define SHIP_ARCHIVE_PRIVATE_H
/* The archive of an open database: archive.c has the calls and the thread, archive_step.c what a
 * step does, archive_bulk.c what it stores of bulk writes, archive_resume.c where the archive
 * begins. */
#include "ship/ship_private.h"

#include <lladd/extension.h>
#include <lladd/sync.h>

struct lladd_archive {
    struct lladd_extension ext;
    struct lladd_store *store;
    struct lladd_archive_options opt;
    struct ll_ship_mem mem;
    /* Held during a step. Guards what follows, and the store. */
    struct lladd_mutex work;
    struct lladd_db *db; /* changed under both mutexes. NULL during lladd_archive_push */
    uint64_t closed_end; /* end of the log, during lladd_archive_push */
    struct lladd_device *dev;
    struct lladd_log_hold *hold;
    char pin[64];
    bool pinned; /* the pin is in the log; until then only the hold keeps it */
    bool claimed, begun, detached;
    struct lladd_error diverged; /* code 0: no other copy archives */
    unsigned char uuid[16];
    uint32_t timeline, page_size;
    struct ll_ship_claim claim;
    uint64_t done;  /* below, the store has whole segments; the log is kept from here on */
    uint64_t pos;   /* below, the store has all; `done`, or higher by pieces of one segment */
    uint64_t start; /* the first record that begins at or after `done` */
    uint64_t seen;  /* records below were checked, for pieces */
    struct ll_ship_buf open; /* as in the index of the segment before `done` */
    struct ll_ship_buf bytes, after, object, scratch;
    uint64_t fork;              /* the timeline begins here; below are transactions of its origin */
    struct ll_ship_buf shipped; /* uint64_t: transactions with a commit or prepare record at or
                                     after `done`, of which the store has the spool */
    struct ll_ship_buf seen_bulk; /* uint64_t: those with such a record in the next piece */
    uint64_t mark_end, marked_ns, piece_ns;
    /* Guards what follows; never held during a call that may wait. */
    struct lladd_mutex state;
    struct lladd_cond wake;
    struct lladd_thread thread;
    bool stop;
    bool spooling;               /* transactions that write in bulk get a spool */
    struct ll_ship_spool *spool; /* changed under both mutexes */
    struct lladd_archive_status status;
    uint64_t caught_up_ns; /* when the store had all durable log */
};

/* ---- archive.c ------------------------------------------------------------------------------ */

/* An archive without a database. `options` may be NULL. */
int ll_ship_archive_new(struct lladd_store *, const struct lladd_archive_options *,
                        struct lladd_archive **out, struct lladd_error *);
/* Notes in the status what a step has reached. */
void ll_ship_archive_say(struct lladd_archive *, int rc, const struct lladd_error *);

/* ---- archive_step.c ------------------------------------------------------------------------- */

/* The end of the durable log. */
uint64_t ll_ship_archive_end(const struct lladd_archive *);
/* Stores the next object. `all`: also a piece that is not due yet. */
int ll_ship_archive_step(struct lladd_archive *, bool all, bool *more, struct lladd_error *);
/* Reads which database and timeline it is. */
int ll_ship_archive_identify(struct lladd_archive *, struct lladd_error *);
/* Claims the store and finds where to go on, if that is not done yet. */
int ll_ship_archive_begin(struct lladd_archive *, struct lladd_error *);
/* Keeps the log from `done` on, and no more. */
void ll_ship_archive_keep(struct lladd_archive *);
/* Logs a mark in a transaction of its own. */
int ll_ship_archive_note(struct lladd_archive *, const char *name, lladd_lsn end, lladd_lsn *lsn,
                         struct lladd_error *);

/* Puts an object. LLADD_DIVERGED: the name is taken by other bytes. */
int ll_ship_archive_put(struct lladd_archive *, const char *name, const struct ll_ship_buf *,
                        struct lladd_error *);

/* ---- archive_bulk.c ------------------------------------------------------------------------- */

/* Finds where the timeline begins. */
int ll_ship_bulk_fork(struct lladd_archive *, struct lladd_error *);
/* Frees the spools that the store has: those that lladd_archive_push has stored, and what a crash
 * has left of the files of a spool. */
int ll_ship_bulk_resume(struct lladd_archive *, struct lladd_error *);
/* Stores the spools of the transactions that the index names, which has not been put yet, and
 * frees those of transactions that were rolled back. A spool that is missing is a gap. */
int ll_ship_bulk_segment(struct lladd_archive *, const struct ll_ship_index *,
                         struct lladd_error *);
/* For a walk over the log of a piece (ctx: the archive): notes the transactions of which it needs
 * the spools. */
int ll_ship_bulk_see(void *ctx, const struct ll_ship_record *, struct lladd_error *);
/* Stores these spools. */
int ll_ship_bulk_piece(struct lladd_archive *, struct lladd_error *);
/* Frees the spools of earlier transactions that began below the LSN. */
int ll_ship_bulk_drop(struct lladd_archive *, uint64_t below, struct lladd_error *);

/* ---- archive_resume.c ----------------------------------------------------------------------- */

/* Finds what the store has already. `end`: of the durable log. */
int ll_ship_archive_resume(struct lladd_archive *, uint64_t end, struct lladd_error *);
/* Goes on at the segment that begins at `first`, without what was before. */
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
