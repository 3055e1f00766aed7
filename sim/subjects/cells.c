/* SPDX-License-Identifier: BSD-2-Clause */
/* See cells.h. */
#include "sim/subjects/cells.h"

#include <string.h>

/* What a transaction does to one cell. */
struct step {
    uint32_t cell;
    struct ll_sim_cell now;
};

void ll_sim_fill(unsigned char *out, unsigned cell, char letter, size_t len)
{
    memset(out, letter, len);
    if (len)
        out[0] = (unsigned char)('0' + cell);
}

bool ll_sim_cells_see(struct ll_sim_cells *c, const unsigned char *bytes, size_t len)
{
    unsigned cell = len ? (unsigned)bytes[0] - '0' : LL_SIM_CELLS;
    if (cell >= LL_SIM_CELLS || len < 2 || c->at[cell].letter || bytes[1] == 0)
        return false;
    for (size_t i = 2; i < len; i++)
        if (bytes[i] != bytes[1])
            return false;
    c->at[cell] = (struct ll_sim_cell){(char)bytes[1], (uint32_t)len};
    return true;
}

int ll_sim_cell_note(struct ll_sim_work *w, struct lladd_txn *txn, unsigned cell, char letter,
                     size_t len)
{
    struct step s;
    memset(&s, 0, sizeof s);
    s.cell = cell;
    s.now.letter = letter;
    s.now.len = (uint32_t)len;
    return lladd_sim_note(w->sim, txn, &s, sizeof s);
}

int ll_sim_in_txn(struct ll_sim_work *w, int (*what)(struct ll_sim_work *, struct lladd_txn *))
{
    struct lladd_txn *txn;
    TRY(lladd_sim_begin(w->sim, w->db, NULL, &txn, w->err));
    int rc = what(w, txn);
    return rc ? ll_sim_give_up(w->sim, txn, rc, w->err) : 0;
}

int ll_sim_cells_write(const struct ll_sim_cells *c, struct lladd_sink *sink)
{
    int rc = 0;
    for (unsigned i = 0; !rc && i < LL_SIM_CELLS; i++)
        if (c->at[i].letter)
            rc = lladd_sink_printf(sink, "%u:%u%c ", i, c->at[i].len, c->at[i].letter);
    return rc;
}

void ll_sim_cells_apply(void *ctx, void *model, struct lladd_span note)
{
    struct ll_sim_cells *c = model;
    struct step s;
    (void)ctx;
    memcpy(&s, note.data, sizeof s);
    c->at[s.cell] = s.now;
}

int ll_sim_cells_dump(void *ctx, const void *model, struct lladd_sink *sink)
{
    (void)ctx;
    return ll_sim_cells_write(model, sink);
}

void ll_sim_cells_describe(void *ctx, struct lladd_span note, struct lladd_sink *sink)
{
    struct step s;
    (void)ctx;
    memcpy(&s, note.data, sizeof s);
    if (s.now.letter)
        (void)lladd_sink_printf(sink, "fills cell %u with %u times '%c'", s.cell, s.now.len,
                                s.now.letter);
    else
        (void)lladd_sink_printf(sink, "empties cell %u", s.cell);
}

int ll_sim_pages_each(void *ctx, struct lladd_db *db, int (*fn)(void *, lladd_pageno), void *arg,
                      struct lladd_error *err)
{
    lladd_pageno first;
    (void)ctx;
    uint64_t n;
    TRY(ll_sim_pages_count(db, &first, &n, err));
    for (uint64_t i = 0; i < n; i++)
        TRY(fn(arg, lladd_page_of(first.v + i)));
    return 0;
}
