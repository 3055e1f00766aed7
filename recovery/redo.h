/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_RECOVERY_REDO_H
#define LL_RECOVERY_REDO_H
/* Redo, the second phase of recovery. */
#include "recovery/analysis.h"

/* Bits beside an LSN in `baseless`; LSNs are multiples of 8. */
enum {
    LL_REDO_UNREAD = 1, /* the page could not be read */
    LL_REDO_LOST = 2,   /* the page was rebuilt in part and written, and cannot be read back */
    LL_REDO_ALONE = LL_REDO_UNREAD | LL_REDO_LOST /* any bit: it is rebuilt alone (rebuild.c) */
};

struct ll_redo_worker {
    struct ll_core *core;
    struct lladd_thread thread;
    struct ll_log_share share;
    uint64_t *stop;                   /* atomic, shared: the lowest LSN at which a worker failed */
    const struct ll_redo_index *part; /* see struct ll_redo */
    const struct ll_hashmap *bases;
    unsigned together; /* pages are latched together for at most this many records */
    int rc;
    uint64_t at; /* LSN of the current record, or LSN of the failure */
    uint64_t seen, redone;
    /* page -> LSN of the first record that was skipped, | LL_REDO_ALONE */
    struct ll_hashmap baseless;
    struct lladd_error err;
};

struct ll_redo {
    const struct ll_redo_index *part; /* redo only the pages of ll_redo_index_in_pass; NULL: all
                                       * pages */
    const struct ll_hashmap *bases;   /* page -> LSN of its newest base, if it is known */
    uint64_t seen, redone;
    struct ll_hashmap baseless;
};

/* The caller initialises and frees `out->baseless`. */
int ll_redo(struct ll_core *, struct ll_redo *out, struct lladd_error *);
/* Rebuilds the `baseless` pages from the oldest log, and removes from the map the pages that then
 * have a base. Called before undo. */
int ll_redo_rebuild(struct ll_core *, struct ll_redo *, struct lladd_error *);
int ll_redo_baseless(struct ll_core *, const struct ll_redo *, struct lladd_error *);
/* Drops the page from the cache without a write. */
int ll_redo_drop(struct ll_core *, uint64_t page, struct lladd_error *);
/* Runs the page type's `check` on a page that was made from an image, if the type has `loaded`,
 * because `loaded` is not called for such a page. lsn: the LSN of the image. */
int ll_redo_check_image(struct ll_core *, lladd_lsn lsn, struct lladd_view, struct lladd_error *);
/* Returns LLADD_CORRUPT_PAGE for a page without a base, or LLADD_READ_FAILED if the page or a part
 * of the log could not be read. lsn: the page's value in `baseless`. */
int ll_redo_refuse(struct ll_core *, uint64_t page, uint64_t lsn, struct lladd_error *);

/* Redo uses no base below the page's redo barrier. So this function clears such a base, and
 * write-back does not rely on it (BUF-5): the next change logs an image. */
void ll_redo_forget_base(unsigned char *page, lladd_lsn barrier);
/* Redo has all changes of the page from this LSN on. barrier: the page's redo barrier, or 0. */
static inline lladd_lsn ll_redo_start_of(const struct ll_core *core, lladd_lsn barrier)
{
    return lladd_lsn_of(barrier.v < core->redo_start ? core->redo_start : barrier.v + 1);
}
/* Is the page, as it was read from the file, known to be durable? */
bool ll_redo_is_durable(const struct ll_core *, const unsigned char *page);

/* Reports to the simulator that ll_redo_record returned rc. */
static inline void ll_observe_redo(struct ll_core *core, const struct ll_record *rec, int rc)
{
#ifdef LLADD_DST
    const struct ll_name *op = ll_op_catalog_by_number(core, rec->op);
    bool base = ll_redo_is_base(rec);
    LLADD_OBSERVE(.what = rec->kind == LL_REC_IMAGE ? LLADD_DST_REDO_IMAGE
                          : rec->kind == LL_REC_CLR ? LLADD_DST_REDO_CLR
                                                    : LLADD_DST_REDO,
                  .detail = rc == LLADD_EXISTS      ? LLADD_DST_PRESENT
                            : rc == LLADD_NOT_FOUND ? LLADD_DST_BASELESS
                            : rc                    ? LLADD_DST_REFUSED
                            : base                  ? LLADD_DST_FRESH
                                                    : LLADD_DST_STALE,
                  .op = op ? op->name : NULL, .op_version = op ? op->version : 0, .lsn = rec->lsn,
                  .txn = rec->txn, .page = rec->page, .depth = rec->depth);
#else
    (void)core, (void)rec, (void)rc;
#endif
}

#endif
