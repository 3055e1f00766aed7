/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * threads.bulk: one thread writes pages in bulk, while another thread uses these pages by outdated
 * page numbers.
 *
 * Thread 0 publishes one extent after the other. It allocates the pages, changes one of them by a
 * logged operation, writes all of them in bulk, publishes the extent under a name and frees the
 * extent that was published before. So the extents use the same pages by turns. After each
 * transaction, thread 0 reads the published pages through the cache.
 *
 * Thread 1 knows the numbers of all these pages from the beginning, like a reader that has found
 * a page number and has not noticed that the page was freed. Thread 1 reads some of the pages, and
 * ignores what it reads. It writes one page again, as a backup does (lladd_page_rewrite).
 *
 * Cell i is the text of page i of the published extent.
 */
#include "sim/subjects/cells.h"

#include <lladd/bulk.h>
#include <lladd/bytes.h>
#include <lladd/extension.h>
#include <string.h>

enum { AT = 64, LEN = 100, LONG = 2 /* pages of an extent */, EXTENTS = 2 };
#define ROOT "extent"
#define BOTH "extents"

static int write_all(struct lladd_txn *txn, lladd_pageno first, char letter)
{
    struct lladd_db *db = lladd_txn_db(txn);
    size_t size = lladd_page_size(db);
    unsigned char *pages = lladd_mem_alloc(db, LONG * size);
    if (!pages)
        return lladd_error_set(lladd_txn_error_out(txn), LLADD_NO_MEMORY, "out of memory");
    memset(pages, 0, LONG * size);
    for (unsigned p = 0; p < LONG; p++)
        ll_sim_fill(pages + p * size + LLADD_PAGE_HEADER + AT, p, letter, LEN);
    int rc = lladd_bulk_write(txn, first, LONG, "lladd.bytes", pages);
    lladd_mem_free(db, pages);
    return rc ? rc : lladd_bulk_sync(txn);
}

static int publish(struct lladd_txn *txn, lladd_pageno first, char letter)
{
    TRY(write_all(txn, first, letter));
    return lladd_root_set(txn, ROOT, (struct lladd_root_value){first.v, 0});
}

static int setup_in(struct lladd_txn *txn)
{
    lladd_pageno first[EXTENTS];
    for (unsigned i = 0; i < EXTENTS; i++)
        TRY(lladd_extent_alloc(txn, LONG, LLADD_EXTENT_BULK, &first[i]));
    TRY(publish(txn, first[0], 's'));
    TRY(lladd_root_set(txn, BOTH, (struct lladd_root_value){first[0].v, first[1].v}));
    return lladd_extent_free(txn, first[1], LONG);
}

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_txn *txn;
    (void)ctx;
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = setup_in(txn);
    return rc ? ll_sim_give_up(NULL, txn, rc, err) : lladd_commit(txn);
}

static void init(void *ctx, void *model)
{
    struct ll_sim_cells *c = model;
    (void)ctx;
    for (unsigned p = 0; p < LONG; p++)
        c->at[p] = (struct ll_sim_cell){'s', LEN};
}

/* Reads the published extent through the cache. */
static int read_cells(struct lladd_db *db, struct ll_sim_cells *c, struct lladd_error *err)
{
    lladd_pageno first;
    memset(c, 0, sizeof *c);
    TRY(ll_sim_root_page(db, ROOT, &first, err));
    for (unsigned p = 0; p < LONG; p++) {
        unsigned char bytes[LEN];
        TRY(lladd_bytes_get(db, lladd_page_of(first.v + p), AT, bytes, LEN, err));
        if (!ll_sim_cells_see(c, bytes, LEN) || !c->at[p].letter)
            return lladd_error_set(err, LLADD_BAD_STATE,
                                   "page %u of the published extent has no text of its cell", p);
    }
    return 0;
}

/* ---- thread 0 ---------------------------------------------------------------------------- */

static int replace(struct ll_sim_work *w, struct lladd_txn *txn, char letter)
{
    lladd_pageno old, first;
    TRY(ll_sim_root_page(w->db, ROOT, &old, w->err));
    TRY(lladd_extent_alloc(txn, LONG, LLADD_EXTENT_BULK, &first));
    TRY(lladd_bytes_format(txn, first));
    TRY(publish(txn, first, letter));
    TRY(lladd_extent_free(txn, old, LONG));
    for (unsigned p = 0; p < LONG; p++)
        TRY(ll_sim_cell_note(w, txn, p, letter, LEN));
    return lladd_sim_commit(w->sim, txn);
}

static int expect(struct ll_sim_work *w, char letter)
{
    struct ll_sim_cells c;
    TRY(read_cells(w->db, &c, w->err));
    for (unsigned p = 0; p < LONG; p++)
        if (c.at[p].letter != letter)
            return lladd_error_set(w->err, LLADD_BAD_STATE, "the cache has old bytes of page %u",
                                   p);
    return 0;
}

/* If thread 1 has a page fixed, the transaction gets LLADD_BUSY and is rolled back. Then the extent
 * that was published before stays. */
static int replace_and_look(struct ll_sim_work *w, char *now, char letter)
{
    struct lladd_txn *txn;
    TRY(lladd_sim_begin(w->sim, w->db, NULL, &txn, w->err));
    int rc = replace(w, txn, letter);
    if (rc)
        rc = ll_sim_give_up(w->sim, txn, rc, w->err);
    else
        *now = letter;
    return rc && rc != LLADD_BUSY ? rc : expect(w, *now);
}

static int write_extents(struct ll_sim_work *w)
{
    char now = 's';
    TRY(replace_and_look(w, &now, 'a'));
    TRY(replace_and_look(w, &now, 'b'));
    return replace_and_look(w, &now, 'c');
}

/* ---- thread 1 ---------------------------------------------------------------------------- */

/* A free page may have another type. A page that is allocated and not written yet has no type. */
static int use(struct ll_sim_work *w, uint64_t page, bool rewrite)
{
    unsigned char byte;
    int rc = rewrite ? lladd_page_rewrite(w->db, lladd_page_of(page), w->err)
                     : lladd_bytes_get(w->db, lladd_page_of(page), 0, &byte, 1, w->err);
    return rc == LLADD_WRONG_TYPE || rc == LLADD_CORRUPT_PAGE ? 0 : rc;
}

static int use_outdated(struct ll_sim_work *w)
{
    struct lladd_root_value both;
    TRY(lladd_root_get(w->db, BOTH, &both, w->err));
    TRY(use(w, both.b, false));
    TRY(use(w, both.b + LONG - 1, true));
    return use(w, both.a, false);
}

static int run_thread(void *ctx, struct lladd_sim *sim, struct lladd_db *db, unsigned thread,
                      struct lladd_error *err)
{
    struct ll_sim_work w = {.sim = sim, .db = db, .err = err};
    (void)ctx;
    return thread ? use_outdated(&w) : write_extents(&w);
}

/* ---- dump -------------------------------------------------------------------------------- */

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink, struct lladd_error *err)
{
    struct ll_sim_cells c;
    (void)ctx;
    TRY(read_cells(db, &c, err));
    return ll_sim_cells_write(&c, sink);
}

static int pages(void *ctx, struct lladd_db *db, int (*fn)(void *, lladd_pageno), void *arg,
                 struct lladd_error *err)
{
    lladd_pageno first;
    (void)ctx;
    TRY(ll_sim_root_page(db, ROOT, &first, err));
    for (unsigned p = 0; p < LONG; p++)
        TRY(fn(arg, lladd_page_of(first.v + p)));
    return 0;
}

static const char *const operations[] = {NULL};

const struct lladd_sim_subject ll_sim_subject_threads_bulk = {
    .struct_size = sizeof(struct lladd_sim_subject),
    .name = "threads.bulk",
    .about = "pages are written in bulk beside a thread that uses them by outdated numbers",
    .setup = setup,
    .threads = 2,
    .run_thread = run_thread,
    .dump = dump,
    LL_SIM_CELLS_MODEL,
    .model_init = init,
    .pages = pages,
    .operations = operations,
};
