/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * extents: extents of all three kinds are allocated and freed: ordinary pages, pages written in
 * bulk without logging, raw pages. Pages that are written in bulk are durable before the commit
 * that publishes them. The last of these pages gets its bytes by a logged write, and the record of
 * this write is durable before the bulk write is durable. Redo must not rely on a bulk write that
 * was not synced (BUF-5). A redo barrier protects the pages from the redo of records about their
 * earlier use. It is lladd_maintain that takes the checkpoint, so pages stay dirty, and redo begins
 * before the redo barriers.
 *
 * A cell is an extent with a name in the catalogue of roots.
 *
 * extents.scrubbed: the same in a database that archives. After each recovery a scrub must find
 * nothing, and then find three writes that the disk has lost. One more extent is covered by a redo
 * barrier, and only its first page is written.
 */
#include "sim/subjects/cells.h"
#include "sim/subjects/entries.h"
#include "sim/subjects/scrubs.h"

#include <lladd/bulk.h>
#include <lladd/extension.h>
#include <string.h>

enum { CELLS = 9, PART = CELLS, AT = 64, LEN = 700, LONG = 2 /* pages */ };
#define PREFIX "extent"

static int configure(void *ctx, struct lladd_options *o, struct lladd_error *err)
{
    (void)ctx;
    (void)err;
    o->checkpoint_bytes = 1; /* each call of lladd_maintain takes a checkpoint */
    return 0;
}

/* ---- the workload ------------------------------------------------------------------------ */

static int write_logged(struct lladd_txn *txn, lladd_pageno page, const unsigned char *bytes)
{
    TRY(lladd_bytes_format(txn, page));
    return lladd_bytes_set(txn, page, AT, bytes, LEN);
}

/* Sets the bytes of a page that was written in bulk, and makes the record of this change durable
 * before the bulk write is durable. */
static int change_early(struct lladd_txn *txn, lladd_pageno page, const unsigned char *bytes)
{
    lladd_lsn later;
    TRY(lladd_bytes_set(txn, page, AT, bytes, LEN));
    TRY(lladd_log_note(txn, "sim.note", (struct lladd_span){0}, &later));
    return lladd_log_force(lladd_txn_db(txn), later, lladd_txn_error_out(txn));
}

/* Writes all pages of an extent by one call, without logging. Unless they are raw, the last page
 * then gets its bytes by a logged write. Raw pages have no header, so every byte belongs to the
 * caller. */
static int write_bulk(struct lladd_txn *txn, lladd_pageno first, const unsigned char *bytes,
                      bool raw)
{
    struct lladd_db *db = lladd_txn_db(txn);
    size_t size = lladd_page_size(db);
    unsigned char *pages = lladd_mem_alloc(db, LONG * size);
    if (!pages)
        return lladd_error_set(lladd_txn_error_out(txn), LLADD_NO_MEMORY, "out of memory");
    memset(pages, 0, LONG * size);
    for (unsigned p = 0; p < (raw ? LONG : LONG - 1); p++)
        memcpy(pages + p * size + LLADD_PAGE_HEADER + AT, bytes, LEN);
    int rc = lladd_bulk_write(txn, first, LONG, raw ? NULL : "lladd.bytes", pages);
    lladd_mem_free(db, pages);
    if (!rc && !raw)
        rc = change_early(txn, lladd_page_of(first.v + LONG - 1), bytes);
    return rc ? rc : lladd_bulk_sync(txn);
}

static int make(struct ll_sim_work *w, struct lladd_txn *txn, unsigned cell, unsigned kind,
                char letter)
{
    unsigned char bytes[LEN];
    char name[LLADD_ROOT_NAME_MAX + 1];
    lladd_pageno first;
    ll_sim_fill(bytes, cell, letter, LEN);
    TRY(lladd_extent_alloc(txn, LONG, kind, &first));
    if (kind != LLADD_EXTENT_PAGED)
        TRY(write_bulk(txn, first, bytes, kind == LLADD_EXTENT_RAW));
    for (unsigned p = 0; kind == LLADD_EXTENT_PAGED && p < LONG; p++)
        TRY(write_logged(txn, lladd_page_of(first.v + p), bytes));
    TRY(lladd_root_set(txn, ll_sim_root_name(PREFIX, cell, name),
                       (struct lladd_root_value){first.v, kind}));
    return w->sim ? ll_sim_cell_note(w, txn, cell, letter, LEN) : 0;
}

static int drop(struct ll_sim_work *w, struct lladd_txn *txn, unsigned cell)
{
    struct lladd_root_value v;
    char name[LLADD_ROOT_NAME_MAX + 1];
    TRY(lladd_root_get(w->db, ll_sim_root_name(PREFIX, cell, name), &v, lladd_txn_error_out(txn)));
    TRY(lladd_extent_free(txn, lladd_page_of(v.a), LONG));
    TRY(lladd_root_delete(txn, name));
    return ll_sim_cell_note(w, txn, cell, 0, 0);
}

/* Changes all pages of an extent by logged writes. */
static int change(struct ll_sim_work *w, struct lladd_txn *txn, unsigned cell, char letter)
{
    struct lladd_root_value v;
    unsigned char bytes[LEN];
    char name[LLADD_ROOT_NAME_MAX + 1];
    ll_sim_fill(bytes, cell, letter, LEN);
    TRY(lladd_root_get(w->db, ll_sim_root_name(PREFIX, cell, name), &v, lladd_txn_error_out(txn)));
    for (unsigned p = 0; p < LONG; p++)
        TRY(lladd_bytes_set(txn, lladd_page_of(v.a + p), AT, bytes, LEN));
    return ll_sim_cell_note(w, txn, cell, letter, LEN);
}

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.db = db, .err = err};
    struct lladd_txn *txn;
    (void)ctx;
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = make(&w, txn, 0, LLADD_EXTENT_PAGED, 'a');
    if (!rc)
        rc = make(&w, txn, 1, LLADD_EXTENT_BULK, 'b');
    if (!rc)
        rc = make(&w, txn, 7, LLADD_EXTENT_PAGED, 'g');
    return rc ? ll_sim_give_up(NULL, txn, rc, err) : lladd_commit(txn);
}

static int setup_scrubbed(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    TRY(setup(ctx, db, err));
    return ll_sim_scrub_begin(db, err);
}

static int writes_and_frees(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(change(w, txn, 0, 'c')); /* a record about an earlier use of the pages */
    TRY(drop(w, txn, 0));
    TRY(change(w, txn, 7, 'h'));
    TRY(drop(w, txn, 7));
    return lladd_sim_commit(w->sim, txn);
}

/* Allocates the pages of the extents that the previous transaction has freed. */
static int writes_in_bulk(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(make(w, txn, 2, LLADD_EXTENT_BULK, 'd'));
    TRY(make(w, txn, 8, LLADD_EXTENT_RAW, 'i'));
    return lladd_sim_commit(w->sim, txn);
}

static int stays_open(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(drop(w, txn, 1));
    return make(w, txn, 3, LLADD_EXTENT_RAW, 'o');
}

static int changes(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(change(w, txn, 2, 'e'));
    TRY(make(w, txn, 4, LLADD_EXTENT_RAW, 'f'));
    return lladd_sim_commit(w->sim, txn);
}

static int rolls_back(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(drop(w, txn, 4));
    TRY(make(w, txn, 5, LLADD_EXTENT_PAGED, 'x'));
    TRY(make(w, txn, 6, LLADD_EXTENT_BULK, 'x'));
    return lladd_sim_abort(w->sim, txn);
}

/* Writes only the first page of an extent. The extent is no cell: the rest has no contents. It is
 * allocated before other extents are freed, because O7 compares all pages in use, and pages that
 * were used before would have their old bytes. */
static int writes_a_part(struct ll_sim_work *w, struct lladd_txn *txn)
{
    char name[LLADD_ROOT_NAME_MAX + 1];
    unsigned char *page = lladd_mem_alloc(w->db, lladd_page_size(w->db));
    lladd_pageno first;
    if (!page)
        return lladd_error_set(lladd_txn_error_out(txn), LLADD_NO_MEMORY, "out of memory");
    memset(page, 0, lladd_page_size(w->db));
    int rc = lladd_extent_alloc(txn, LONG, LLADD_EXTENT_BULK, &first);
    if (!rc)
        rc = lladd_redo_barrier(txn, first, LONG);
    if (!rc)
        rc = lladd_bulk_write(txn, first, 1, "lladd.bytes", page);
    lladd_mem_free(w->db, page);
    TRY(rc);
    TRY(lladd_bulk_sync(txn));
    TRY(lladd_root_set(txn, ll_sim_root_name(PREFIX, PART, name),
                       (struct lladd_root_value){first.v, LLADD_EXTENT_BULK}));
    return lladd_sim_commit(w->sim, txn);
}

static int run_scrubbed(void *ctx, struct lladd_sim *sim, struct lladd_db *db,
                        struct lladd_error *err)
{
    struct ll_sim_work w = {.sim = sim, .db = db, .err = err};
    (void)ctx;
    TRY(ll_sim_in_txn(&w, writes_a_part));
    TRY(ll_sim_in_txn(&w, writes_and_frees));
    TRY(ll_sim_in_txn(&w, writes_in_bulk));
    TRY(lladd_maintain(db, NULL, err));
    TRY(ll_sim_entries_store(lladd_sim_archive(), err));
    TRY(ll_sim_in_txn(&w, changes));
    return ll_sim_in_txn(&w, rolls_back);
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.sim = sim, .db = db, .err = err};
    (void)ctx;
    TRY(ll_sim_in_txn(&w, writes_and_frees));
    TRY(ll_sim_in_txn(&w, writes_in_bulk));
    TRY(ll_sim_in_txn(&w, stays_open));
    TRY(lladd_maintain(db, NULL, err));
    TRY(ll_sim_in_txn(&w, changes));
    return ll_sim_in_txn(&w, rolls_back);
}

/* ---- dump and check ---------------------------------------------------------------------- */

static int find(struct lladd_db *db, unsigned cell, struct lladd_root_value *v,
                struct lladd_error *err)
{
    char name[LLADD_ROOT_NAME_MAX + 1];
    int rc = lladd_root_get(db, ll_sim_root_name(PREFIX, cell, name), v, err);
    if (rc)
        *v = (struct lladd_root_value){LLADD_NO_PAGE, 0};
    return rc == LLADD_NOT_FOUND ? 0 : rc;
}

static int read_page(struct lladd_db *db, struct lladd_root_value v, unsigned p,
                     unsigned char bytes[LEN], struct lladd_error *err)
{
    lladd_pageno page = lladd_page_of(v.a + p);
    if (v.b != LLADD_EXTENT_RAW)
        return lladd_bytes_get(db, page, AT, bytes, LEN, err);
    unsigned char *all = lladd_mem_alloc(db, lladd_page_size(db));
    if (!all)
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory");
    int rc = lladd_bulk_read(db, page, 1, true, all, err);
    memcpy(bytes, all + LLADD_PAGE_HEADER + AT, LEN);
    lladd_mem_free(db, all);
    return rc;
}

static int read_extent(struct lladd_db *db, unsigned cell, struct ll_sim_cells *c,
                       struct lladd_error *err)
{
    struct lladd_root_value v;
    TRY(find(db, cell, &v, err));
    for (unsigned p = 0; v.a != LLADD_NO_PAGE && p < LONG; p++) {
        struct ll_sim_cells one;
        unsigned char bytes[LEN];
        memset(&one, 0, sizeof one);
        TRY(read_page(db, v, p, bytes, err));
        bool fine = ll_sim_cells_see(&one, bytes, LEN) && one.at[cell].letter;
        if (!fine || (p && one.at[cell].letter != c->at[cell].letter))
            return lladd_error_set(err, /* every byte of a raw page belongs to the subject */
                                   v.b == LLADD_EXTENT_RAW ? LLADD_CORRUPT_PAGE : LLADD_BAD_STATE,
                                   "page %u of extent %u does not have its cell's text", p, cell);
        c->at[cell] = one.at[cell];
    }
    return 0;
}

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink, struct lladd_error *err)
{
    struct ll_sim_cells c;
    (void)ctx;
    memset(&c, 0, sizeof c);
    for (unsigned cell = 0; cell < CELLS; cell++)
        TRY(read_extent(db, cell, &c, err));
    return ll_sim_cells_write(&c, sink);
}

static void init(void *ctx, void *model)
{
    struct ll_sim_cells *c = model;
    (void)ctx;
    c->at[0] = (struct ll_sim_cell){'a', LEN};
    c->at[1] = (struct ll_sim_cell){'b', LEN};
    c->at[7] = (struct ll_sim_cell){'g', LEN};
}

static int pages(void *ctx, struct lladd_db *db, int (*fn)(void *, lladd_pageno), void *arg,
                 struct lladd_error *err)
{
    (void)ctx;
    for (unsigned cell = 0; cell <= PART; cell++) {
        struct lladd_root_value v;
        TRY(find(db, cell, &v, err));
        for (unsigned p = 0; v.a != LLADD_NO_PAGE && p < LONG; p++)
            TRY(fn(arg, lladd_page_of(v.a + p)));
    }
    return 0;
}

static const char *const operations[] = {"lladd.map.take", "lladd.map.free", NULL};

#define MEMBERS \
    .configure = configure, .dump = dump, LL_SIM_CELLS_MODEL, .model_init = init, .pages = pages

const struct lladd_sim_subject ll_sim_subject_extents = {
    .struct_size = sizeof ll_sim_subject_extents,
    .name = "extents",
    .about = "extents of pages: ordinary, written in bulk, raw",
    .setup = setup,
    .run = run,
    MEMBERS,
    .operations = operations,
};

const struct lladd_sim_subject ll_sim_subject_extents_scrubbed = {
    .struct_size = sizeof ll_sim_subject_extents_scrubbed,
    .name = "extents.scrubbed",
    .about = "extents of a database that archives; a scrub finds lost writes only",
    .setup = setup_scrubbed,
    .run = run_scrubbed,
    MEMBERS,
    .go_on = ll_sim_scrub_go_on,
    .archives = true,
};
