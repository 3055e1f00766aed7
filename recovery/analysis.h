/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_RECOVERY_ANALYSIS_H
#define LL_RECOVERY_ANALYSIS_H
/* The first phase of recovery, and the bytes of prepare records. */
#include "recovery/core.h"
#include "recovery/redo_index.h"

struct ll_analysis {
    struct ll_core *core;
    struct ll_hashmap txns;  /* id -> struct lladd_txn *, while scanning */
    struct ll_hashmap ended; /* ids that ended before the checkpoint's data came */
    struct ll_hashmap known; /* ids of whom the scan knows, without a row, what their undo needs */
    lladd_lsn end;       /* after the last record */
    bool matters;        /* there are some that are neither a checkpoint's nor seals */
    uint64_t pages;      /* the page file had, at the checkpoint */
    bool early;      /* before the checkpoint's BEGIN: names only (recovery/checkpoint.c) */
    lladd_lsn begin; /* the LSN of that; 0: the log has no checkpoint yet */
    uint64_t begins;
    bool data_seen;
    uint64_t records, commits, losers, in_doubt;
    struct ll_redo_index
        behind; /* of the records that the scan has seen; lost if nobody wants it */
};

/* The page file has so many pages. `out->behind` is the caller's to free, whatever is returned. */
int ll_analysis(struct ll_core *, uint64_t file_pages, struct ll_analysis *out,
                struct lladd_error *);
/* Has the page file all the pages that it had at the checkpoint? */
int ll_analysis_check_pages(uint64_t file_pages, uint64_t had, struct lladd_error *);
/* 0 if the record's operation or class is known and registered. */
int ll_analysis_check_op(struct ll_core *, const struct ll_record *, struct lladd_error *);

#define LL_PREPARE_MAX (29u + 128u + 64u)
size_t ll_prepare_encode(const struct ll_prepared *, unsigned char out[LL_PREPARE_MAX]);
bool ll_prepare_decode(struct lladd_span, struct ll_prepared *);
#define LL_HEURISTIC_MAX (9u + LL_PREPARE_MAX)
size_t ll_heuristic_encode(const struct ll_heuristic *, unsigned char out[LL_HEURISTIC_MAX]);
bool ll_heuristic_decode(struct lladd_span, struct ll_heuristic *);

#endif
