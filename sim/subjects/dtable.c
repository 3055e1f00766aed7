/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dtable: sorted runs of dTables. Transactions build runs without logging, publish them under
 * names, replace them and free them. Later runs are built on the pages of freed runs. One run is
 * abandoned before it is finished. Transactions commit, roll back and stay open. A cell is a sorted
 * run: its text is the values of its rows, concatenated. A value has eight bytes. Only the last
 * value may be shorter. Then the run's exception_dtable stores this value as an exception.
 *
 * dtable.multicolumn does the same with runs of a multicolumn_dtable, so that pages of columns and
 * their nodes are torn and lost.
 */
#include "sim/subjects/cells.h"

#include <lladd/dtable.h>

#include <string.h>

enum { CELLS = 4, LONGEST = 9000, PIECE = 8 };
#define PREFIX "run"

static const char config[] =
    "class(dt) bloom_dtable config [ \"base\" class(dt) exception_dtable \"base_config\" config [ "
    "\"base\" class(dt) array_dtable \"base_config\" config [ \"value_size\" int 8 ] "
    "\"alt\" class(dt) linear_dtable \"reject_value\" string \"________\" ] ]";

/* Only "nop", so that a run has several pages although its values are alike. */
static const char columns[] =
    "class(dt) bloom_dtable config [ \"base\" class(dt) exception_dtable \"base_config\" config [ "
    "\"base\" class(dt) multicolumn_dtable \"base_config\" config [ \"key\" words [ \"12\" \"20\" "
    "] \"columns\" words [ \"u32\" \"u16\" \"i16\" ] \"codecs\" words [ \"nop\" ] ] "
    "\"alt\" class(dt) linear_dtable \"reject_value\" string \"________\" ] ]";

/* Begins a sorted run and adds its rows. */
static int add_rows(const struct ll_sim_work *w, struct lladd_txn *txn, unsigned cell, char letter,
                    size_t len, struct lladd_dtable_run_builder **run)
{
    struct lladd_dtable_run_options o = LLADD_DTABLE_RUN_OPTIONS_INIT;
    unsigned char bytes[LONGEST];
    o.type = LLADD_DTABLE_U32;
    o.text = w->ctx;
    o.block_bytes = lladd_page_size(lladd_txn_db(txn));
    ll_sim_fill(bytes, cell, letter, len);
    TRY(lladd_dtable_run_begin(txn, &o, run));
    for (size_t at = 0; at < len; at += PIECE) {
        size_t n = len - at < PIECE ? len - at : PIECE;
        struct lladd_dtable_key key = lladd_dtable_u32((uint32_t)(at / PIECE) + 5);
        struct lladd_dtable_value value = lladd_dtable_value_of(bytes + at, n);
        int rc = lladd_dtable_run_add(*run, &key, &value);
        if (rc) {
            struct lladd_error why = *lladd_txn_error(txn);
            (void)lladd_dtable_run_discard(*run);
            *lladd_txn_error_out(txn) = why;
            return rc;
        }
    }
    return 0;
}

static int make(struct ll_sim_work *w, struct lladd_txn *txn, unsigned cell, char letter,
                size_t len)
{
    char name[LLADD_ROOT_NAME_MAX + 1];
    struct lladd_dtable_run_builder *run;
    lladd_pageno root;
    TRY(add_rows(w, txn, cell, letter, len, &run));
    int rc = lladd_dtable_run_finish(run, &root);
    if (rc) {
        struct lladd_error why = *lladd_txn_error(txn);
        (void)lladd_dtable_run_discard(run);
        *lladd_txn_error_out(txn) = why;
        return rc;
    }
    TRY(lladd_root_set(txn, ll_sim_root_name(PREFIX, cell, name),
                       (struct lladd_root_value){root.v, 0}));
    return w->sim ? ll_sim_cell_note(w, txn, cell, letter, len) : 0;
}

static int drop(struct ll_sim_work *w, struct lladd_txn *txn, unsigned cell)
{
    char name[LLADD_ROOT_NAME_MAX + 1];
    lladd_pageno root;
    TRY(ll_sim_ith_page(w->db, PREFIX, cell, &root, lladd_txn_error_out(txn)));
    TRY(lladd_dtable_run_free(txn, root));
    TRY(lladd_root_delete(txn, ll_sim_root_name(PREFIX, cell, name)));
    return ll_sim_cell_note(w, txn, cell, 0, 0);
}

/* ---- the workload ------------------------------------------------------------------------ */

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.db = db, .err = err, .ctx = ctx};
    struct lladd_txn *txn;
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = make(&w, txn, 0, 'a', 100);
    return rc ? ll_sim_give_up(NULL, txn, rc, err) : lladd_commit(txn);
}

static int builds(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(make(w, txn, 1, 'b', 8500));
    return lladd_sim_commit(w->sim, txn);
}

static int stays_open(struct ll_sim_work *w, struct lladd_txn *txn)
{
    return make(w, txn, 2, 'o', 60);
}

static int replaces(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(drop(w, txn, 0));
    TRY(make(w, txn, 0, 'c', 203));
    return lladd_sim_commit(w->sim, txn);
}

static int gives_up(struct ll_sim_work *w, struct lladd_txn *txn)
{
    struct lladd_dtable_run_builder *run;
    TRY(add_rows(w, txn, 3, 'x', 8500, &run));
    TRY(lladd_dtable_run_discard(run));
    return lladd_sim_commit(w->sim, txn);
}

static int rolls_back(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(drop(w, txn, 1));
    TRY(make(w, txn, 3, 'y', 77));
    return lladd_sim_abort(w->sim, txn);
}

/* Allocates the pages of the freed run. */
static int frees_and_builds(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(drop(w, txn, 1));
    TRY(make(w, txn, 3, 'd', 50));
    return lladd_sim_commit(w->sim, txn);
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.sim = sim, .db = db, .err = err, .ctx = ctx};
    TRY(ll_sim_in_txn(&w, builds));
    TRY(ll_sim_in_txn(&w, stays_open));
    TRY(ll_sim_in_txn(&w, replaces));
    TRY(lladd_checkpoint(db, err));
    TRY(ll_sim_in_txn(&w, gives_up));
    TRY(ll_sim_in_txn(&w, rolls_back));
    return ll_sim_in_txn(&w, frees_and_builds);
}

/* ---- dump and check ---------------------------------------------------------------------- */

static int read_rows(struct lladd_dtable_cursor *c, unsigned char *out, size_t *len,
                     struct lladd_error *err)
{
    int rc;
    *len = 0;
    while ((rc = lladd_dtable_next(c, err)) == 0) {
        struct lladd_dtable_value v;
        TRY(lladd_dtable_row(c, NULL, &v, err));
        if (v.bytes.len > LONGEST - *len)
            return lladd_error_set(err, LLADD_BAD_STATE, "a run has too many bytes");
        memcpy(out + *len, v.bytes.data, v.bytes.len);
        *len += v.bytes.len;
    }
    return rc == LLADD_END ? 0 : rc;
}

/* Reads the values of a cell's sorted run in key order. If there is no run, *len is 0. */
static int read_cell(struct lladd_db *db, unsigned cell, unsigned char *out, size_t *len,
                     struct lladd_error *err)
{
    struct lladd_dtable_cursor *c;
    struct lladd_dtable *t;
    lladd_pageno root;
    *len = 0;
    TRY(ll_sim_ith_page(db, PREFIX, cell, &root, err));
    if (root.v == LLADD_NO_PAGE)
        return 0;
    TRY(lladd_dtable_run_open(db, root, &t, err));
    int rc = lladd_dtable_run_check(t, err);
    if (!rc)
        rc = lladd_dtable_cursor_open(t, 0, &c, err);
    if (!rc) {
        rc = read_rows(c, out, len, err);
        lladd_dtable_cursor_close(c);
    }
    lladd_dtable_close(t);
    return rc;
}

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink, struct lladd_error *err)
{
    struct ll_sim_cells c;
    unsigned char bytes[LONGEST];
    (void)ctx;
    memset(&c, 0, sizeof c);
    for (unsigned cell = 0; cell < CELLS; cell++) {
        size_t len;
        TRY(read_cell(db, cell, bytes, &len, err));
        if (len && (!ll_sim_cells_see(&c, bytes, len) || !c.at[cell].letter))
            return lladd_error_set(err, LLADD_BAD_STATE,
                                   "the rows of run %u are not those of its cell", cell);
    }
    return ll_sim_cells_write(&c, sink);
}

static int check(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    unsigned char bytes[LONGEST];
    (void)ctx;
    for (unsigned cell = 0; cell < CELLS; cell++) {
        size_t len;
        TRY(read_cell(db, cell, bytes, &len, err));
    }
    return 0;
}

static int pages(void *ctx, struct lladd_db *db, int (*fn)(void *, lladd_pageno), void *arg,
                 struct lladd_error *err)
{
    (void)ctx;
    for (unsigned cell = 0; cell < CELLS; cell++) {
        lladd_pageno root;
        TRY(ll_sim_ith_page(db, PREFIX, cell, &root, err));
        if (root.v != LLADD_NO_PAGE)
            TRY(lladd_dtable_run_pages(db, root, fn, arg, err));
    }
    return 0;
}

static void init(void *ctx, void *model)
{
    struct ll_sim_cells *c = model;
    (void)ctx;
    c->at[0] = (struct ll_sim_cell){'a', 100};
}

static const char *const operations[] = {"lladd.blob.format", NULL};
static const struct lladd_sim_excuse excuses[] = {
    {"lladd.blob.format", LL_SIM_NO_UNDO, "formatting is not undone: the page was free before"},
    {NULL, 0, NULL}};

#define SUBJECT(variable, subject_name, text, what) \
    const struct lladd_sim_subject variable = { \
        .struct_size = sizeof variable, \
        .name = subject_name, \
        .about = what, \
        .ctx = (void *)(text), \
        .setup = setup, \
        .run = run, \
        .check = check, \
        .dump = dump, \
        LL_SIM_CELLS_MODEL, \
        .model_init = init, \
        .pages = pages, \
        .operations = operations, \
        .excuses = excuses, \
    }

SUBJECT(ll_sim_subject_dtable, "dtable", config,
        "runs of dTables: built without logging, published, replaced, freed, abandoned");
SUBJECT(ll_sim_subject_dtable_columns, "dtable.multicolumn", columns,
        "the same with pages of compressed columns");
