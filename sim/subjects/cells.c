/* SPDX-License-Identifier: BSD-2-Clause */
/* See cells.h. */
#include "sim/subjects/cells.h"

#include <lladd/extension.h>
#include <string.h>

/* What a transaction does to a cell. */
struct step {
    uint32_t cell;
    struct ll_sim_cell now;
};

/* Returns true if byte i of a text is the letter, and false if it is the cell's number.
 * (ll_sim_fill makes byte 0 the cell's number in any case.) The first 128 bytes are the letter, and
 * so are the first 32 bytes of every 2048. So some sectors of a long text are equal for all
 * letters. A longer text begins with the shorter texts of the same letter. */
static bool shows(size_t i)
{
    enum { BEGINNING = 128, EVERY = 2048, A_FEW = 32 };
    return i < BEGINNING || i % EVERY < A_FEW;
}

void ll_sim_fill(unsigned char *out, unsigned cell, char letter, size_t len)
{
    for (size_t i = 0; i < len; i++)
        out[i] = shows(i) ? (unsigned char)letter : (unsigned char)('0' + cell);
    if (len)
        out[0] = (unsigned char)('0' + cell);
}

bool ll_sim_cells_see(struct ll_sim_cells *c, const unsigned char *bytes, size_t len)
{
    unsigned cell = len ? (unsigned)bytes[0] - '0' : LL_SIM_CELLS;
    if (cell >= LL_SIM_CELLS || len < 2 || c->at[cell].letter || bytes[1] == 0)
        return false;
    for (size_t i = 2; i < len; i++)
        if (bytes[i] != bytes[shows(i) ? 1 : 0])
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

int ll_sim_cell_drop(struct ll_sim_work *w, struct lladd_txn *txn, const char *prefix,
                     unsigned cell)
{
    struct lladd_root_value v;
    char name[LLADD_ROOT_NAME_MAX + 1];
    TRY(lladd_root_get(w->db, ll_sim_root_name(prefix, cell, name), &v, lladd_txn_error_out(txn)));
    TRY(lladd_page_free(txn, lladd_page_of(v.a)));
    TRY(lladd_root_delete(txn, name));
    return ll_sim_cell_note(w, txn, cell, 0, 0);
}

int ll_sim_cells_write(const struct ll_sim_cells *c, struct lladd_sink *sink)
{
    int rc = 0;
    for (unsigned i = 0; !rc && i < LL_SIM_CELLS; i++)
        if (c->at[i].letter)
            rc = lladd_sink_printf(sink, "%u:%u%c ", i, c->at[i].len, c->at[i].letter);
    return rc;
}

int ll_sim_cells_dump_bytes(struct lladd_db *db, unsigned cells, uint32_t at, uint32_t stride,
                            size_t len, struct lladd_sink *sink, struct lladd_error *err)
{
    struct ll_sim_cells c = {0};
    unsigned char bytes[128];
    lladd_pageno first;
    uint64_t pages;
    TRY(ll_sim_pages_count(db, &first, &pages, err));
    for (unsigned cell = 0; cell < cells && (stride || cell < pages); cell++) {
        lladd_pageno page = lladd_page_of(stride ? first.v : first.v + cell);
        TRY(lladd_bytes_get(db, page, at + cell * stride, bytes, len, err));
        if (bytes[0] != 0 && !(ll_sim_cells_see(&c, bytes, len) && c.at[cell].letter))
            return lladd_error_set(err, LLADD_BAD_STATE,
                                   "the bytes of cell %u are not a text of this cell", cell);
    }
    return ll_sim_cells_write(&c, sink);
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
        (void)lladd_sink_printf(sink, "fills cell %u with %u bytes, letter '%c'", s.cell, s.now.len,
                                s.now.letter);
    else
        (void)lladd_sink_printf(sink, "empties cell %u", s.cell);
}

bool ll_sim_cells_see_slotted(struct ll_sim_cells *c, struct lladd_view v)
{
    struct lladd_record r;
    for (uint32_t slot = 0; slot < lladd_slotted_slots(v); slot++)
        if (lladd_slotted_record(v, slot, &r) && !ll_sim_cells_see(c, r.bytes, r.len))
            return false;
    return true;
}

static int read_page(struct lladd_db *db, lladd_pageno number,
                     bool (*see_all)(struct ll_sim_cells *, struct lladd_view),
                     struct ll_sim_cells *c, struct lladd_error *err)
{
    struct lladd_page *page;
    TRY(lladd_page_fix(db, number, LLADD_LATCH_SHARED, &page, err));
    bool ours = see_all(c, lladd_page_view(page));
    lladd_page_unfix(db, page, LLADD_LATCH_SHARED);
    return ours ? 0 : lladd_error_set(err, LLADD_BAD_STATE, "a record that was never stored");
}

int ll_sim_records_dump(struct lladd_db *db, const char *other,
                        bool (*see_all)(struct ll_sim_cells *, struct lladd_view),
                        struct lladd_sink *sink, struct lladd_error *err)
{
    struct ll_sim_cells c;
    lladd_pageno page;
    memset(&c, 0, sizeof c);
    TRY(ll_sim_pages_find(db, &page, err));
    TRY(read_page(db, page, see_all, &c, err));
    page = lladd_page_of(LLADD_NO_PAGE);
    if (other)
        TRY(ll_sim_root_page(db, other, &page, err));
    if (page.v != LLADD_NO_PAGE)
        TRY(read_page(db, page, see_all, &c, err));
    return ll_sim_cells_write(&c, sink);
}

int ll_sim_records_each(struct lladd_db *db, const char *other, int (*fn)(void *, lladd_pageno),
                        void *arg, struct lladd_error *err)
{
    lladd_pageno page;
    TRY(ll_sim_pages_each(NULL, db, fn, arg, err));
    TRY(ll_sim_root_page(db, other, &page, err));
    return page.v == LLADD_NO_PAGE ? 0 : fn(arg, page);
}
