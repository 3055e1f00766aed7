/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_SIM_CELLS_H
#define LL_SIM_CELLS_H
/* A model that suits most subjects: some numbered cells, each empty or filled with so many times
 * one letter. What a cell is, the subject says: a place on a page, a record, a page, a name. A cell
 * belongs to one transaction at a time. */
#include "sim/subjects/subjects.h"

struct ll_sim_cell {
    char letter; /* 0: empty */
    uint32_t len;
};

struct ll_sim_cells {
    struct ll_sim_cell at[LL_SIM_CELLS];
};

/* Fills a buffer: the cell's number as its first byte, if there is one, then the letter. */
void ll_sim_fill(unsigned char *out, unsigned cell, char letter, size_t len);
/* Is it what ll_sim_fill has made? Then the cell gets it. False also if it has something. */
bool ll_sim_cells_see(struct ll_sim_cells *, const unsigned char *bytes, size_t len);
/* The transaction has given the cell this contents; letter 0: made it empty. */
int ll_sim_cell_note(struct ll_sim_work *, struct lladd_txn *, unsigned cell, char letter,
                     size_t len);
/* Empties a cell that is a page, to which the root `prefix.cell` leads: gives both back. */
int ll_sim_cell_drop(struct ll_sim_work *, struct lladd_txn *, const char *prefix, unsigned cell);

int ll_sim_cells_write(const struct ll_sim_cells *, struct lladd_sink *);
void ll_sim_cells_apply(void *ctx, void *model, struct lladd_span note);
int ll_sim_cells_dump(void *ctx, const void *model, struct lladd_sink *);
void ll_sim_cells_describe(void *ctx, struct lladd_span note, struct lladd_sink *);

/* Members of a subject. */
#define LL_SIM_CELLS_MODEL \
    .model_size = sizeof(struct ll_sim_cells), .model_apply = ll_sim_cells_apply, \
    .model_dump = ll_sim_cells_dump, .describe = ll_sim_cells_describe

/* ---- cells that are records -------------------------------------------------------------- */

/* Sees each record of a page; false if one is nobody's. */
bool ll_sim_cells_see_slotted(struct ll_sim_cells *, struct lladd_view);

/* `dump` and `pages` of subjects whose records are on their first page, and on one to which the
 * root `other` (NULL: none) leads, once it does. */
int ll_sim_records_dump(struct lladd_db *, const char *other,
                        bool (*see_all)(struct ll_sim_cells *, struct lladd_view),
                        struct lladd_sink *, struct lladd_error *);
int ll_sim_records_each(struct lladd_db *, const char *other, int (*fn)(void *arg, lladd_pageno),
                        void *arg, struct lladd_error *);

/* Calls fn for each page of a heap. */
int ll_sim_heap_each(struct lladd_db *, lladd_pageno heap, int (*fn)(void *arg, lladd_pageno),
                     void *arg, struct lladd_error *);

#define LL_SIM_NO_UNDO \
    (1u << LLADD_SIM_UNDO | 1u << LLADD_SIM_UNDO_PARTIAL | 1u << LLADD_SIM_REDO_CLR)

#endif
