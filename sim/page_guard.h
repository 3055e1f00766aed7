/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_SIM_GUARD_H
#define LL_SIM_GUARD_H
/* Shared by page_guard.c and rebuild.c. page_guard.c checks each change of a page while the
 * workload is recorded. rebuild.c repeats these changes from the log. */
#include "sim/contract_private.h"
#include "sim/sim_private.h"

#include <setjmp.h>
#include <signal.h>

/* A redo or undo in the recording. */
struct ll_sim_change {
    lladd_lsn lsn;
    uint64_t page;
    const struct lladd_op *op;
    bool undo;
    const unsigned char *after; /* the page after the change */
};

/* A page that is or was in the cache. */
struct ll_sim_place {
    uint64_t page;
    const unsigned char *bytes; /* the page's frame; NULL: not in the cache */
    uint32_t last;              /* number of the page's last change, from 1; 0: none */
    bool moved;                 /* rebuild.c: the checkpoint that ends recovery has changed the page
                                 * (let_go) */
};

struct ll_sim_page_type {
    uint16_t number;
    const struct lladd_page_type *type;
};

/* A page write from the cache to the page file. */
struct ll_sim_written {
    uint64_t page;
    uint32_t call; /* the write is this call of the trace, or a later one */
    bool met;      /* the write was found in the trace */
};

/* A page of a bulk write that was reported to extensions. */
struct ll_sim_told {
    uint64_t page;
    const unsigned char *bytes;
    bool met; /* the write was found in the trace */
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
    struct ll_sim_told *told;
    uint32_t n_told, told_capacity;
    uint32_t next;                /* rebuild.c: index of the next change to repeat */
    sigjmp_buf back;              /* target of the jump after a forbidden access */
    const unsigned char *touched; /* address of the forbidden access */
    stack_t stack_before;
    void *stack;
    lladd_lsn newest;             /* highest LSN of all changes */
    struct ll_sim_archive *again; /* the archive while rebuild.c recovers it; otherwise NULL */
};

/* Are the bodies of two versions of a page equal, apart from the hole and the bytes that the
 * operation or the page type masks? If not, *at is the offset of the first difference. */
bool ll_sim_guard_same(struct ll_sim_guard *, const struct lladd_op *, uint64_t number,
                       const unsigned char *, const unsigned char *, uint32_t *at);
struct ll_sim_place *ll_sim_guard_place(struct lladd_sim *, uint64_t page); /* NULL: no memory */
/* Makes a change again while rebuild.c recovers the archive, and compares the page with the
 * recorded result. */
void ll_sim_rebuild_change(struct lladd_sim *, const struct lladd_dst_change *);

#endif
