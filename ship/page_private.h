/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SHIP_PAGE_PRIVATE_H
#define SHIP_PAGE_PRIVATE_H
/* One page from the archive: page.c has the answer to base_of, page_bulk.c finds pages that were
 * written in bulk. */
#include "ship/archive_private.h"
#include "ship/image_private.h"

/* A page that is wanted. */
struct ll_ship_wanted {
    struct lladd_archive *a;
    struct lladd_db *db;
    unsigned char uuid[16];
    uint32_t timeline, page_size;
    uint64_t page, since;
    bool raw; /* the page is raw: the bytes that were written last are wanted */
    struct ll_ship_past past;
    struct ll_ship_buf steps; /* struct ll_ship_step */
    struct ll_ship_buf txns;  /* struct ll_ship_spooled, of disk and store */
    struct ll_ship_buf open;  /* uint64_t: transactions with barriers that have neither ended nor
                                 prepared in the archived log that was looked at */
    uint64_t barrier;         /* records of the page below this LSN do not count (BUF-6) */
    unsigned char *bytes;     /* of the page */
    bool empty;               /* it has no contents yet */
    struct lladd_error *err;
};

/* A spool, in files/ship or in the store. */
struct ll_ship_spooled {
    uint64_t txn;
    bool local;
    bool ended; /* of a local spool: the transaction has a commit or prepare record */
};
/* Lists what the store has, and finds the timelines of the database. Free `past` and `steps` after
 * the last use. */
int ll_ship_wanted_open(struct ll_ship_wanted *);
/* The backup of these timelines with the highest end below `below`; NULL: there is none. */
const struct lladd_backup_info *ll_ship_wanted_base(const struct ll_ship_wanted *, uint64_t below);
/* Finds the spools of the transactions that began below `since`. For a raw page, finds all
 * spools. */
int ll_ship_wanted_spools(struct ll_ship_wanted *);
/* Looks for bulk writes of the page by transactions that began at `from` or later, under barriers
 * above the page LSN and below `since`. Replaces the page by the bytes of the last such write.
 * Without such a write the page stays as it is. */
int ll_ship_wanted_bulk(struct ll_ship_wanted *, uint64_t from);
/* If it does not return 0, ll_ship_wanted_pieces stops and returns that value. */
typedef int ll_ship_piece_fn(void *ctx, const struct ll_ship_blk_piece *);
/* Calls fn for each piece of the spools of transactions that began at `from` or later. These are
 * the stored spools, and the local spools that are marked as `ended`. Of pieces with typed pages
 * only the heads are read, so `bytes` is NULL. */
int ll_ship_wanted_pieces(struct ll_ship_wanted *, uint64_t from, ll_ship_piece_fn *, void *ctx);
/* Replaces the page by what the transaction `writer` has written to it in bulk under the barrier
 * `since`. LLADD_NOT_FOUND: no spool has this write. */
int ll_ship_wanted_under(struct ll_ship_wanted *, uint64_t writer);
#endif
