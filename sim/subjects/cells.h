/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_SIM_CELLS_H
#define LL_SIM_CELLS_H
/* A model for most subjects: numbered cells. A cell is empty, or has a letter and a length. The
 * subject defines what a cell is: a place on a page, a record, a page, a name. One transaction at a
 * time may change a cell. */
#include "sim/subjects/subjects.h"

struct ll_sim_cell {
    char letter; /* 0: empty */
    uint32_t len;
};

struct ll_sim_cells {
    struct ll_sim_cell at[LL_SIM_CELLS];
};

/* Fills a buffer with the text for this cell, letter and length. Its first byte is the cell's
 * number. */
void ll_sim_fill(unsigned char *out, unsigned cell, char letter, size_t len);
/* Adds a text to the cell that it belongs to. Returns false if ll_sim_fill has not made the text,
 * or if the cell is already filled. */
bool ll_sim_cells_see(struct ll_sim_cells *, const unsigned char *bytes, size_t len);
/* Records that the transaction has filled the cell; if the letter is 0, that it has emptied the
 * cell. */
int ll_sim_cell_note(struct ll_sim_work *, struct lladd_txn *, unsigned cell, char letter,
                     size_t len);
/* Empties a cell that is a page named `prefix.cell`: frees the page and removes the root. */
int ll_sim_cell_drop(struct ll_sim_work *, struct lladd_txn *, const char *prefix, unsigned cell);

int ll_sim_cells_write(const struct ll_sim_cells *, struct lladd_sink *);
void ll_sim_cells_apply(void *ctx, void *model, struct lladd_span note);
int ll_sim_cells_dump(void *ctx, const void *model, struct lladd_sink *);
void ll_sim_cells_describe(void *ctx, struct lladd_span note, struct lladd_sink *);

/* For the member `dump`. If the stride is 0, cell i is `len` bytes at offset `at` of the subject's
 * page i. Otherwise cell i is `len` bytes at offset at + i * stride of the first page. */
int ll_sim_cells_dump_bytes(struct lladd_db *, unsigned cells, uint32_t at, uint32_t stride,
                            size_t len, struct lladd_sink *, struct lladd_error *);

/* Initializers for members of a subject. */
#define LL_SIM_CELLS_MODEL \
    .model_size = sizeof(struct ll_sim_cells), .model_apply = ll_sim_cells_apply, \
    .model_dump = ll_sim_cells_dump, .describe = ll_sim_cells_describe

/* ---- cells that are records -------------------------------------------------------------- */

/* Adds each record of a page to its cell. Returns false if a record belongs to no cell. */
bool ll_sim_cells_see_slotted(struct ll_sim_cells *, struct lladd_view);

/* For the members `dump` and `pages` of subjects with records on their first page and on the page
 * with the name `other`. That page may not exist yet. In ll_sim_records_dump, `other` may be NULL.
 */
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
