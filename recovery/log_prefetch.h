/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_RECOVERY_LOG_PREFETCH_H
#define LL_RECOVERY_LOG_PREFETCH_H
/* Log prefetch: reads the records that redo of some pages will need, in the order of the log. To
 * read these records page by page would read blocks of the log several times.
 *
 *     ll_log_prefetch_want ..., ll_log_prefetch_read, ll_log_prefetch_find ...,
 *     ll_log_prefetch_clear
 *
 * Log prefetch is only an optimisation: if a record could not be read, or if there was no room for
 * the record, redo reads it from the log. Threads: the caller synchronises. */
#include "recovery/redo_index.h"

struct ll_log_prefetch {
    uint64_t most;        /* bytes that may be used */
    uint64_t payload;     /* estimated payload of a record */
    struct ll_vec wanted; /* struct ll_log_prefetch_wanted; after the read sorted by LSN */
    struct ll_vec bytes;  /* struct ll_log_prefetch_record and its payload, padded */
};

struct ll_log_prefetch_wanted {
    uint64_t lsn;
    uint64_t at; /* offset of the record in `bytes`, or UINT64_MAX */
};

struct ll_log_prefetch_record {
    lladd_lsn page_prev, txn;
    uint64_t page;
    uint32_t len, op, depth, size;
    uint8_t kind, flags;
};

/* The caller sets `most` and `payload`. */
void ll_log_prefetch_init(struct ll_log_prefetch *, const struct ll_env *);
uint64_t ll_log_prefetch_bytes(const struct ll_log_prefetch *);
void ll_log_prefetch_free(struct ll_log_prefetch *);  /* can be used again */
void ll_log_prefetch_clear(struct ll_log_prefetch *); /* keeps the memory */

/* Asks for a record. False: no room, so the record will not be read. */
bool ll_log_prefetch_want(struct ll_log_prefetch *, lladd_lsn) LLADD_MUST_CHECK;
void ll_log_prefetch_read(struct ll_log_prefetch *, struct ll_log_cursor *);
/* Like ll_log_prefetch_read, but reads each record with the caller's function. If this function
 * does not return 0, the record is skipped. */
typedef int ll_log_prefetch_get(void *ctx, lladd_lsn, struct ll_record *);
void ll_log_prefetch_read_by(struct ll_log_prefetch *, ll_log_prefetch_get *, void *ctx);
/* False: the record was not read. Sets only the fields that redo needs. The span is valid until the
 * next clear, want, read or free. */
bool ll_log_prefetch_find(const struct ll_log_prefetch *, lladd_lsn, struct ll_record *);

#endif
