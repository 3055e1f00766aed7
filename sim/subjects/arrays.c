/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * arrays: one array grows into the chain of pages after its root page, shrinks, releases pages and
 * grows again. A transaction makes and fills another array, and rolls back a part of this work. A
 * third array is destroyed.
 *
 * An element fills a page. Its first LEN bytes are a cell (cells.h); one more cell of each array
 * holds the array's length.
 */
#include "sim/subjects/cells.h"

#include <lladd/array.h>
#include <lladd/pages.h>

#include <string.h>

enum {
    SIZE = 4000,
    LEN = 40 /* bytes of an element that are filled; zeros follow */,
    ARRAYS = 3,
    MAIN = 0,
    NEW = 1,
    DOOMED = 2,
    FULL = 32,
    HIGH = 28
};

/* The cells of each array. The first `cells` elements have the cells from number `cell` on. The
 * next cells belong to `high` elements, which begin with element HIGH. The last cell is that of the
 * array's length. */
static const struct {
    const char *name;
    unsigned cell, cells, high;
} arrays[ARRAYS] = {{"array.main", 0, 8, 8}, {"array.new", 20, 4, 0}, {"array.doomed", 28, 4, 0}};

static unsigned length_cell(unsigned which)
{
    return arrays[which].cell + arrays[which].cells + arrays[which].high;
}

/* Returns the cell of an element, or LL_SIM_CELLS if the element has no cell. An element without a
 * cell must be zeros after every recovery. */
static unsigned cell_of(unsigned which, uint64_t index)
{
    if (index < arrays[which].cells)
        return arrays[which].cell + (unsigned)index;
    if (index >= HIGH && index - HIGH < arrays[which].high)
        return arrays[which].cell + arrays[which].cells + (unsigned)(index - HIGH);
    return LL_SIM_CELLS;
}

/* Opens an array. Sets *out to NULL if the array does not exist. */
static int open_array(struct lladd_db *db, unsigned which, struct lladd_array **out,
                      struct lladd_error *err)
{
    struct lladd_root_value v;
    int rc = lladd_root_get(db, arrays[which].name, &v, err);
    *out = NULL;
    if (!rc)
        rc = lladd_array_open(db, lladd_page_of(v.a), out, err);
    return rc == LLADD_NOT_FOUND ? 0 : rc;
}

/* ---- the workload ------------------------------------------------------------------------ */

struct part {
    struct ll_sim_work *w;
    struct lladd_txn *txn;
    unsigned which;
};

static int fill(const struct part *p, struct lladd_array *a, uint64_t index, char letter)
{
    unsigned char bytes[SIZE] = {0};
    unsigned cell = cell_of(p->which, index);
    ll_sim_fill(bytes, cell, letter, LEN);
    TRY(lladd_array_set(p->txn, a, index, bytes));
    return p->w->sim ? ll_sim_cell_note(p->w, p->txn, cell, letter, LEN) : 0;
}

static int fill_three(const struct part *p, struct lladd_array *a, uint64_t first, char letter)
{
    unsigned char bytes[3 * SIZE] = {0};
    for (unsigned i = 0; i < 3; i++)
        ll_sim_fill(bytes + (size_t)i * SIZE, cell_of(p->which, first + i), letter, LEN);
    TRY(lladd_array_set_range(p->txn, a, first, 3, bytes));
    for (unsigned i = 0; i < 3; i++)
        TRY(ll_sim_cell_note(p->w, p->txn, cell_of(p->which, first + i), letter, LEN));
    return 0;
}

static int note_length(const struct part *p, struct lladd_array *a)
{
    uint64_t n;
    TRY(lladd_array_length(a, &n, lladd_txn_error_out(p->txn)));
    return p->w->sim ? ll_sim_cell_note(p->w, p->txn, length_cell(p->which), n ? 'n' : 0, n) : 0;
}

static int extend(const struct part *p, struct lladd_array *a, uint64_t n)
{
    TRY(lladd_array_extend(p->txn, a, n, NULL));
    return note_length(p, a);
}

static int cut(const struct part *p, struct lladd_array *a, uint64_t n)
{
    uint64_t was;
    TRY(lladd_array_length(a, &was, lladd_txn_error_out(p->txn)));
    TRY(lladd_array_shrink(p->txn, a, n));
    for (uint64_t i = was - n; i < was; i++)
        if (cell_of(p->which, i) < LL_SIM_CELLS)
            TRY(ll_sim_cell_note(p->w, p->txn, cell_of(p->which, i), 0, 0));
    return note_length(p, a);
}

/* Opens an array, calls `what` and closes the array. Fails if the array does not exist. */
static int with(struct ll_sim_work *w, struct lladd_txn *txn, unsigned which,
                int (*what)(const struct part *, struct lladd_array *))
{
    struct part p = {w, txn, which};
    struct lladd_array *a;
    struct lladd_error *err = lladd_txn_error_out(txn);
    TRY(open_array(w->db, which, &a, err));
    if (!a)
        return lladd_error_set(err, LLADD_BAD_STATE, "there is no %s", arrays[which].name);
    int rc = what(&p, a);
    lladd_array_close(a);
    return rc;
}

static int make(struct ll_sim_work *w, struct lladd_txn *txn, unsigned which, uint64_t length)
{
    struct lladd_array *a;
    lladd_pageno root;
    TRY(lladd_array_create_open(txn, SIZE, length, &root, &a));
    lladd_array_close(a);
    TRY(lladd_root_set(txn, arrays[which].name, (struct lladd_root_value){root.v, 0}));
    return w->sim ? ll_sim_cell_note(w, txn, length_cell(which), length ? 'n' : 0, length) : 0;
}

static int make_first(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(make(w, txn, MAIN, FULL));
    return make(w, txn, DOOMED, 4);
}

static int fill_first(const struct part *p, struct lladd_array *a)
{
    TRY(fill(p, a, 0, 'a'));
    return fill(p, a, FULL - 1, 'b'); /* allocates all pages that the root page can list */
}

static int fill_obsolete(const struct part *p, struct lladd_array *a)
{
    return fill(p, a, 3, 'd');
}

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.db = db, .err = err};
    struct lladd_txn *txn;
    (void)ctx;
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = make_first(&w, txn);
    if (rc)
        return ll_sim_give_up(NULL, txn, rc, err);
    TRY(lladd_commit(txn));
    TRY(lladd_begin(db, NULL, &txn, err));
    rc = with(&w, txn, MAIN, fill_first);
    if (!rc)
        rc = with(&w, txn, DOOMED, fill_obsolete);
    return rc ? ll_sim_give_up(NULL, txn, rc, err) : lladd_commit(txn);
}

static int grow_main(const struct part *p, struct lladd_array *a)
{
    TRY(extend(p, a, 2));
    return fill(p, a, FULL, 'c');
}

static int grows(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(with(w, txn, MAIN, grow_main));
    return lladd_sim_commit(w->sim, txn);
}

static int write_one(const struct part *p, struct lladd_array *a)
{
    return fill(p, a, 1, 'o');
}

static int stays_open(struct ll_sim_work *w, struct lladd_txn *txn)
{
    return with(w, txn, MAIN, write_one);
}

static int write_range(const struct part *p, struct lladd_array *a)
{
    TRY(fill(p, a, FULL, 'e'));
    return fill_three(p, a, 3, 'f');
}

static int writes(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(with(w, txn, MAIN, write_range));
    return lladd_sim_commit(w->sim, txn);
}

static int cut_and_grow(const struct part *p, struct lladd_array *a)
{
    TRY(cut(p, a, FULL));
    TRY(extend(p, a, 6));
    return fill(p, a, 4, 'x');
}

static int fill_new(const struct part *p, struct lladd_array *a)
{
    return fill(p, a, 3, 'n');
}

static int rolls_back(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(with(w, txn, MAIN, cut_and_grow));
    TRY(make(w, txn, NEW, 4));
    TRY(with(w, txn, NEW, fill_new));
    return lladd_sim_abort(w->sim, txn);
}

static int cut_most(const struct part *p, struct lladd_array *a)
{
    return cut(p, a, FULL - 4);
}

static int cuts(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(with(w, txn, MAIN, cut_most));
    return lladd_sim_commit(w->sim, txn);
}

static int grow_again(const struct part *p, struct lladd_array *a)
{
    TRY(extend(p, a, 3));
    return fill(p, a, 6, 'g');
}

/* The array releases pages before it grows. The rollback does not undo the release. */
static int grows_in_vain(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(with(w, txn, MAIN, grow_again));
    return lladd_sim_abort(w->sim, txn);
}

static int fill_in_vain(const struct part *p, struct lladd_array *a)
{
    TRY(extend(p, a, 20));
    unsigned char bytes[SIZE] = {'v'};
    return lladd_array_set(p->txn, a, 23, bytes);
}

/* Makes and fills an array, extends it and rolls back the extension, and destroys another array. */
static int makes_and_destroys(struct ll_sim_work *w, struct lladd_txn *txn)
{
    struct lladd_root_value v;
    lladd_savepoint_id sp;
    TRY(make(w, txn, NEW, 4));
    TRY(with(w, txn, NEW, fill_new));
    TRY(lladd_sim_savepoint(w->sim, txn, &sp));
    TRY(with(w, txn, NEW, fill_in_vain));
    TRY(lladd_sim_rollback_to(w->sim, txn, sp));
    TRY(lladd_root_get(w->db, arrays[DOOMED].name, &v, lladd_txn_error_out(txn)));
    TRY(lladd_array_destroy(txn, lladd_page_of(v.a)));
    TRY(lladd_root_delete(txn, arrays[DOOMED].name));
    TRY(ll_sim_cell_note(w, txn, cell_of(DOOMED, 3), 0, 0));
    TRY(ll_sim_cell_note(w, txn, length_cell(DOOMED), 0, 0));
    return lladd_sim_commit(w->sim, txn);
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.sim = sim, .db = db, .err = err};
    (void)ctx;
    TRY(ll_sim_in_txn(&w, grows));
    TRY(ll_sim_in_txn(&w, stays_open));
    TRY(lladd_checkpoint(db, err));
    TRY(ll_sim_in_txn(&w, writes));
    TRY(ll_sim_in_txn(&w, rolls_back));
    TRY(ll_sim_in_txn(&w, cuts));
    TRY(ll_sim_in_txn(&w, grows_in_vain));
    return ll_sim_in_txn(&w, makes_and_destroys);
}

/* ---- dump and check ---------------------------------------------------------------------- */

static int see(struct lladd_array *a, unsigned which, uint64_t index, struct ll_sim_cells *c,
               struct lladd_error *err)
{
    unsigned char bytes[SIZE];
    unsigned cell = cell_of(which, index);
    static const unsigned char zeros[SIZE];
    TRY(lladd_array_get(a, index, bytes, err));
    if (memcmp(bytes, zeros, SIZE) == 0)
        return 0;
    if (cell == LL_SIM_CELLS || bytes[0] != '0' + cell || !ll_sim_cells_see(c, bytes, LEN) ||
        memcmp(bytes + LEN, zeros, SIZE - LEN) != 0)
        return lladd_error_set(err, LLADD_BAD_STATE,
                               "element %llu of %s has contents that were never written to it",
                               (unsigned long long)index, arrays[which].name);
    return 0;
}

static int read_array(struct lladd_array *a, unsigned which, struct ll_sim_cells *c,
                      struct lladd_error *err)
{
    uint64_t n;
    int rc = lladd_array_length(a, &n, err);
    for (uint64_t i = 0; !rc && i < n; i++)
        rc = see(a, which, i, c, err);
    if (!rc && n)
        c->at[length_cell(which)] = (struct ll_sim_cell){'n', (uint32_t)n};
    return rc;
}

/* Calls `what` for each array that exists. */
static int each(struct lladd_db *db, void *arg,
                int (*what)(void *arg, struct lladd_array *, unsigned which, struct lladd_error *),
                struct lladd_error *err)
{
    for (unsigned which = 0; which < ARRAYS; which++) {
        struct lladd_array *a;
        TRY(open_array(db, which, &a, err));
        int rc = a ? what(arg, a, which, err) : 0;
        lladd_array_close(a);
        if (rc)
            return rc;
    }
    return 0;
}

static int read_one(void *arg, struct lladd_array *a, unsigned which, struct lladd_error *err)
{
    return read_array(a, which, arg, err);
}

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink, struct lladd_error *err)
{
    struct ll_sim_cells c;
    (void)ctx;
    memset(&c, 0, sizeof c);
    TRY(each(db, &c, read_one, err));
    return ll_sim_cells_write(&c, sink);
}

static void init(void *ctx, void *model)
{
    struct ll_sim_cells *c = model;
    (void)ctx;
    c->at[cell_of(MAIN, 0)] = (struct ll_sim_cell){'a', LEN};
    c->at[cell_of(MAIN, FULL - 1)] = (struct ll_sim_cell){'b', LEN};
    c->at[length_cell(MAIN)] = (struct ll_sim_cell){'n', FULL};
    c->at[cell_of(DOOMED, 3)] = (struct ll_sim_cell){'d', LEN};
    c->at[length_cell(DOOMED)] = (struct ll_sim_cell){'n', 4};
}

static int check_one(void *arg, struct lladd_array *a, unsigned which, struct lladd_error *err)
{
    (void)arg;
    (void)which;
    return lladd_array_check(a, err);
}

static int check(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    (void)ctx;
    return each(db, NULL, check_one, err);
}

struct listing {
    int (*fn)(void *, lladd_pageno);
    void *arg;
};

static int list_one(void *arg, struct lladd_array *a, unsigned which, struct lladd_error *err)
{
    const struct listing *l = arg;
    (void)which;
    return lladd_array_pages(a, l->fn, l->arg, err);
}

static int pages(void *ctx, struct lladd_db *db, int (*fn)(void *, lladd_pageno), void *arg,
                 struct lladd_error *err)
{
    struct listing l = {fn, arg};
    (void)ctx;
    return each(db, &l, list_one, err);
}

static const char *const operations[] = {"lladd.array.format", "lladd.array.put",
                                         "lladd.run.format",   "lladd.run.link",
                                         "lladd.run.put",      NULL};
static const struct lladd_sim_excuse excuses[] = {
    {"lladd.array.format", LL_SIM_NO_UNDO, "formatting is not undone: the page was free before"},
    {"lladd.run.format", LL_SIM_NO_UNDO, "formatting is not undone: the page was free before"},
    {NULL, 0, NULL}};

const struct lladd_sim_subject ll_sim_subject_arrays = {
    .struct_size = sizeof ll_sim_subject_arrays,
    .name = "arrays",
    .about = "arrays that grow, shrink, release pages, are made and destroyed",
    .setup = setup,
    .run = run,
    .check = check,
    .dump = dump,
    LL_SIM_CELLS_MODEL,
    .model_init = init,
    .pages = pages,
    .operations = operations,
    .excuses = excuses,
};
