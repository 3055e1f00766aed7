/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_RECOVERY_REDO_H
#define LL_RECOVERY_REDO_H
/* The second phase of recovery. */
#include "recovery/analysis.h"

struct ll_redo_worker {
    struct ll_core *core;
    struct lladd_thread thread;
    struct ll_log_share share;
    uint64_t *stop;    /* atomic, of all: the lowest LSN at which one of them failed */
    unsigned together; /* records of which the pages are held at once */
    int rc;
    uint64_t at; /* LSN of the record last looked at: where it failed, if it did */
    uint64_t seen, redone;
    struct ll_map baseless; /* page -> LSN of the last record that was skipped */
    struct lladd_error err;
};

struct ll_redo {
    uint64_t seen, redone;
    struct ll_map baseless;
};

/* `out->baseless` is initialised and freed by the caller. */
int ll_redo(struct ll_core *, struct ll_redo *out, struct lladd_error *);
int ll_redo_baseless(struct ll_core *, const struct ll_redo *, struct lladd_error *);

#endif
