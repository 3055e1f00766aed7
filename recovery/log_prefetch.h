/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_RECOVERY_AHEAD_H
#define LL_RECOVERY_AHEAD_H
/* What redo needs of records that will be wanted soon, page by page, while the log has them in
 * another order: what lies close together there is read once.
 *
 *     ll_log_prefetch_want ... ll_log_prefetch_want, ll_log_prefetch_read, ll_log_prefetch_find ...
 *     , ll_log_prefetch_clear
 *
 * Nothing depends on it: what could not be read, or had no room, is not there, and has to be read
 * by itself. Threads: none of its own. */
#include "recovery/redo_index.h"

struct ll_log_prefetch {
    uint64_t most;        /* bytes */
    uint64_t payload;     /* bytes of a record, about */
    struct ll_vec pages;  /* struct ll_log_prefetch_page, ascending */
    struct ll_vec lsns;   /* uint64_t: what is wanted, ascending within a page */
    struct ll_vec places; /* uint64_t: where the record of each begins in `bytes`, or UINT64_MAX */
    struct ll_vec sorted; /* struct ll_log_prefetch_lsn: while they are read */
    struct ll_vec bytes;  /* struct ll_log_prefetch_record and its payload, padded */
};

struct ll_log_prefetch_page {
    uint64_t page;
    size_t first; /* in `lsns` */
};

struct ll_log_prefetch_lsn {
    uint64_t lsn;
    size_t at; /* in `lsns` */
};

struct ll_log_prefetch_record {
    lladd_lsn page_prev, txn;
    uint64_t page;
    uint32_t len, op, depth, size;
    uint8_t kind, flags;
};

/* There is no room until `most` and `payload` are set. */
void ll_log_prefetch_init(struct ll_log_prefetch *, const struct ll_env *);
uint64_t ll_log_prefetch_bytes(const struct ll_log_prefetch *);
void ll_log_prefetch_free(struct ll_log_prefetch *); /* can be used again */
void ll_log_prefetch_clear(struct ll_log_prefetch *); /* keeps the memory */

/* Pages ascending, and the LSNs of a page. False: there is no room for more; it is not wanted. */
bool ll_log_prefetch_want(struct ll_log_prefetch *, uint64_t page, lladd_lsn) LLADD_MUST_CHECK;
void ll_log_prefetch_read(struct ll_log_prefetch *, struct ll_log_cursor *);
/* The same with a function in the place of a cursor: 0, or the record is not there. */
typedef int ll_log_prefetch_get(void *ctx, lladd_lsn, struct ll_record *);
void ll_log_prefetch_read_by(struct ll_log_prefetch *, ll_log_prefetch_get *, void *ctx);
/* False: it was not read. Of the rest of the record nothing is there. The span is good until the
 * next clear, want, read or free. */
bool ll_log_prefetch_find(const struct ll_log_prefetch *, uint64_t page, lladd_lsn,
                          struct ll_record *);

#endif
