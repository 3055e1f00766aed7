/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_RECOVERY_ANALYSIS_H
#define LL_RECOVERY_ANALYSIS_H
/* Analysis, the first phase of recovery; and the encoding of prepare records. */
#include "recovery/core.h"
#include "recovery/redo_index.h"

struct ll_analysis {
    struct ll_core *core;
    struct ll_hashmap txns;  /* id -> struct lladd_txn *; during the scan */
    struct ll_hashmap ended; /* ids of transactions that ended before the checkpoint's END */
    struct ll_hashmap known; /* ids of transactions with an undo reserve that a record has stated */
    lladd_lsn end;           /* end of the last record */
    bool matters;            /* the scan has met a record other than checkpoint records and seals */
    uint64_t pages;          /* length of the page file at the checkpoint */
    bool early;              /* the scan is before BEGIN (checkpoint.c): it skips records of
                              * transactions */
    lladd_lsn begin;         /* LSN of BEGIN; 0: none yet */
    uint64_t begins;
    bool data_seen;
    uint64_t records, commits;
    struct ll_redo_index pending; /* index of the scanned records; `lost` if no index is wanted, or
                                   * for lack of memory */
    struct ll_hashmap bases;      /* page -> LSN of its newest base that the scan has met; only for
                                   * full redo, and only if there was memory for all bases */
    bool wants_bases;
};

/* ll_analysis: the page file has `file_pages` pages; the caller frees *out, also after a
 * failure. */
void ll_analysis_free(struct ll_analysis *);
int ll_analysis(struct ll_core *, uint64_t file_pages, struct ll_analysis *out,
                struct lladd_error *);
/* Fails if the page file has fewer pages than at the checkpoint. */
int ll_analysis_check_pages(uint64_t file_pages, uint64_t had, struct lladd_error *);
/* Takes the next part off checkpoint data. False: the data end inside a part, or are empty. */
bool ll_checkpoint_next(struct lladd_span *data, unsigned *kind, struct lladd_span *part);
/* Returns 0 if the record's operation or class is registered. */
int ll_analysis_check_op(struct ll_core *, const struct ll_record *, struct lladd_error *);
/* Returns 0 if the participant of a prepare blob is registered, or if its name is unknown. */
int ll_analysis_check_blob(const struct ll_core *, const struct ll_record *, struct lladd_error *);

#define LL_PREPARE_MAX (29u + 128u + 64u)
size_t ll_prepare_encode(const struct ll_prepared *, unsigned char out[LL_PREPARE_MAX]);
bool ll_prepare_decode(struct lladd_span, struct ll_prepared *);
#define LL_HEURISTIC_MAX (9u + LL_PREPARE_MAX)
size_t ll_heuristic_encode(const struct ll_heuristic *, unsigned char out[LL_HEURISTIC_MAX]);
bool ll_heuristic_decode(struct lladd_span, struct ll_heuristic *);

#endif
