/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_SIM_GUARD_H
#define LL_SIM_GUARD_H
/* What guard.c, which watches the changes of pages while the workload is recorded, and rebuild.c,
 * which makes them again from the log, share. */
#include "sim/contract_private.h"
#include "sim/sim_private.h"

#include <setjmp.h>
#include <signal.h>

/* A redo or undo of the recording. */
struct ll_sim_change {
    lladd_lsn lsn;
    uint64_t page;
    const struct lladd_op *op;
    bool undo;
    const unsigned char *after; /* the page */
};

/* A page that was in the cache. */
struct ll_sim_place {
    uint64_t page;
    const unsigned char *bytes; /* NULL: another page is there now */
    uint32_t last;              /* number of its last change, from 1; 0: none */
    bool moved;                 /* rebuild.c: recovery has changed it on its own account */
};

struct ll_sim_page_type {
    uint16_t number;
    const struct lladd_page_type *type;
};

/* A page that goes from the cache to the page file. */
struct ll_sim_written {
    uint64_t page;
    uint32_t call; /* not before that one */
    bool met;      /* the write was found in the trace */
};

struct ll_sim_guard {
    struct ll_sim__bench bench;
    struct ll_sim_arena kept;
    struct ll_sim_change *change; /* in the order of calls */
    struct ll_sim_place *place;
    struct ll_sim_page_type *type;
    uint32_t n_changes, changes_capacity, n_places, places_capacity, n_types, types_capacity;
    struct ll_sim_written *written;
    uint32_t n_written, written_capacity;
    uint32_t next;                /* rebuild.c: the change after the one that was made again last */
    sigjmp_buf back;              /* where a forbidden touch leads */
    const unsigned char *touched; /* what it was */
    stack_t stack_before;
    void *stack;
    lladd_lsn newest;             /* of all changes */
    struct ll_sim_archive *again; /* rebuild.c: NULL while the workload runs */
};

/* Are the bodies of two versions of a page the same, apart from what the operation or the page type
 * say does not count? *at: the first byte that differs. */
bool ll_sim_guard_same(struct ll_sim_guard *, const struct lladd_op *, uint64_t number,
                       const unsigned char *, const unsigned char *, uint32_t *at);
struct ll_sim_place *ll_sim_guard_place(struct lladd_sim *, uint64_t page); /* NULL: no memory */
/* Makes the change, perhaps again. */
void ll_sim_rebuild_change(struct lladd_sim *, const struct lladd_dst_change *);

#endif
