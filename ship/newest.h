/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SHIP_NEWEST_H
#define SHIP_NEWEST_H
/* What the file of a database must have of each page (newest.c), for scrub.c. */
#include "ship/page_private.h"

/* What the file must have of a page. */
struct ll_ship_must {
    uint64_t lsn; /* at least this page LSN; of a raw page: LSN of the barrier under which it was
                   * written, or, if it was not written since the backup, an LSN below the backup's
                   * log */
    uint32_t crc; /* of the bytes of a raw page */
    bool raw;     /* the page had no header when it was written last */
};

struct ll_ship_newest {
    struct ll_ship_wanted w;   /* what the archive has */
    struct ll_ship_manifest m; /* of the newest backup */
    bool compared;             /* there is a backup */
    uint64_t redo;             /* start of redo of the last checkpoint */
    struct ll_ship_must *must; /* of each page */
    uint64_t pages;
    /* uint64_t: LSNs at which the archived segments have their first records, ascending in each
     * timeline */
    struct ll_ship_buf starts;
    struct lladd_error *err;
};

/* The caller allocates `must`; ll_ship_newest_free frees it. */
void ll_ship_newest_init(struct ll_ship_newest *, struct lladd_archive *, struct lladd_db *,
                         struct lladd_error *);
void ll_ship_newest_free(struct ll_ship_newest *);
/* Finds out what each page must have, by the newest backup, the archive and, from `oldest` on, the
 * log of the database. `redo`, `pages` and `must` must be set, and `must` zeroed. */
int ll_ship_newest_learn(struct ll_ship_newest *, uint64_t oldest);
/* The highest LSN at or below `lsn` at which an archived segment has its first record; if there is
 * none, the backup's `from`. */
uint64_t ll_ship_newest_start(const struct ll_ship_newest *, uint64_t lsn);
#endif
