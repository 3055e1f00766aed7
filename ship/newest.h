/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SHIP_NEWEST_H
#define SHIP_NEWEST_H
/* Finds out which version of each page the page file must have at least (newest.c). A page with an
 * older version shows that the disk has lost a write (scrub.c). */
#include "ship/page_private.h"

/* The version of one page that the page file must have. */
struct ll_ship_must {
    uint64_t lsn; /* the page LSN must be at least this LSN. For a raw page: the LSN of the redo
                   * barrier under which the page was written last. If the page was not written
                   * since the backup: an LSN below the backup's log */
    uint32_t crc; /* only for a raw page: the checksum that its bytes must have */
    bool raw;     /* the page had no header when it was written last */
};

struct ll_ship_newest {
    struct ll_ship_wanted w;   /* what the archive has */
    struct ll_ship_manifest m; /* the manifest of the newest backup */
    bool needs_base;           /* without a backup in the store nothing is learned */
    bool compared;             /* the store has a backup, so the pages can be compared */
    uint64_t redo;             /* the LSN at which redo from the last checkpoint starts */
    struct ll_ship_must *must; /* an array with one element for each page */
    uint64_t pages;            /* the number of elements of `must` */
    /* Elements are uint64_t: for each archived segment the LSN of its first record, ascending in
     * each timeline. */
    struct ll_ship_buf starts;
    struct lladd_error *err;
};

/* The caller allocates the array `must`; ll_ship_newest_free frees it. */
void ll_ship_newest_init(struct ll_ship_newest *, struct lladd_archive *, struct lladd_db *,
                         struct lladd_error *);
void ll_ship_newest_free(struct ll_ship_newest *);
/* Fills the array `must`. Reads the newest backup, the archive, and, if a database is open, that
 * part of its own log that is not archived and not below `oldest`. The caller has set `redo`,
 * `pages` and `must`, and has zeroed the array. */
int ll_ship_newest_learn(struct ll_ship_newest *, uint64_t oldest);
/* Notes a record that changes the page. */
void ll_ship_newest_record(struct ll_ship_newest *, uint64_t page, uint64_t lsn);
/* Forgets the bytes of raw pages. Call it if the page may have been written under a redo barrier
 * that is in no log any more. */
void ll_ship_newest_forget_raw(struct ll_ship_newest *);
/* Is the page older than it must be, or a raw page with other bytes? False for a damaged page, and
 * for a page that was raw and has a header now. `whole`: the page has a right checksum, or only
 * zeros. `lsn`: its page LSN; 0 if it is not whole. `crc`: of its bytes. */
bool ll_ship_is_older(const struct ll_ship_must *, bool whole, uint64_t lsn, uint32_t crc);
/* Returns the LSN of the first record of an archived segment: the highest such LSN at or below
 * `lsn`. If that LSN is not above the begin of the backup's log, returns the begin of the backup's
 * log. */
uint64_t ll_ship_newest_start(const struct ll_ship_newest *, uint64_t lsn);
#endif
