/* SPDX-License-Identifier: BSD-2-Clause */
/* See workload.h. */
#include "workload.h"

#include <stdio.h>
#include <string.h>

enum { STEPS = 32, CELLS_ALL = W_PAGES * H_CELLS };

/* The transactions of a run; open ones are dropped at its end. */
struct run {
    struct fixture *r;
    struct history *h;
    struct step *t[STEPS];
    unsigned n;
    struct lladd_error err;
};

/* Cell c of page p. */
static size_t at(unsigned p, unsigned c)
{
    return p * H_CELLS + c;
}

void workload_options(struct fixture *r)
{
    r->options.cache_bytes = fixture_small_cache(r->kind);
    r->options.log_ring_bytes = 128u << 10;
    r->options.log_segment_min = 4096;
    r->options.log_segment_max = 4096;
    r->options.checkpoint_bytes = 12u << 10;
}

void workload_prepare(struct fixture *r, struct history *h)
{
    lladd_pageno pages[W_PAGES];
    fixture_pages(r, pages, W_PAGES);
    history_init(h, pages, W_PAGES);
}

static int begin(struct run *w, struct step **t)
{
    ck_assert_uint_lt(w->n, STEPS);
    int rc = step_begin(w->h, w->r->db, NULL, t);
    if (!rc)
        w->t[w->n++] = *t;
    return rc;
}

/* Forgets a transaction that has been committed or aborted. */
static void ended(struct run *w, const struct step *t)
{
    for (unsigned i = 0; i < w->n; i++) {
        if (w->t[i] == t) {
            w->t[i] = w->t[--w->n];
            return;
        }
    }
    ck_abort_msg("no such transaction");
}

/* Keeps the error of a call on a transaction. */
static int on(struct run *w, const struct step *t, int rc)
{
    if (rc)
        w->err = t->err;
    return rc;
}

static bool consumed(int rc)
{
    return rc == 0 || lladd_code_root(rc) == LLADD_ROOT_POISONED;
}

static int finish(struct run *w, struct step *t, int (*how)(struct step *))
{
    int rc = how(t);
    if (consumed(rc))
        ended(w, t);
    else
        w->err = t->err;
    return rc;
}

#define TRY(call) \
    do { \
        int try_rc = (call); \
        if (try_rc) \
            return try_rc; \
    } while (0)
#define ON(t, call) TRY(on(w, (t), (call)))

static int maintain(struct run *w)
{
    bool more = true;
    for (int i = 0; more && i < 100; i++)
        TRY(lladd_maintain(w->r->db, &more, &w->err));
    return 0;
}

static int checkpoint(struct run *w)
{
    return lladd_checkpoint(w->r->db, &w->err);
}

static int add_everywhere(struct run *w, struct step *t, unsigned cell, int64_t delta)
{
    for (unsigned p = 0; p < W_PAGES; p++)
        ON(t, step_add(t, at(p, cell), delta + (int64_t)p));
    return 0;
}

static int add_and_commit(struct run *w, unsigned p, int64_t delta)
{
    struct step *t;
    TRY(begin(w, &t));
    ON(t, step_add(t, at(p, 0), delta));
    ON(t, step_add(t, at(p + 1, 0), delta));
    return finish(w, t, step_commit);
}

/* ---- steps ------------------------------------------------------------------------------ */

static int savepoints(struct run *w)
{
    struct step *t;
    TRY(begin(w, &t));
    ON(t, step_add(t, at(1, 1), 5));
    ON(t, step_mark(t));
    ON(t, step_add(t, at(2, 1), 50));
    ON(t, step_bump(t, at(3, 1), 50));
    ON(t, step_mark(t));
    ON(t, step_transfer(t, at(4, 1), at(5, 1), 3));
    ON(t, step_back_to(t, 1));
    ON(t, step_add(t, at(6, 1), 6));
    ON(t, step_back_to(t, 0));
    ON(t, step_add(t, at(7, 1), 7));
    return finish(w, t, step_commit);
}

/* Makes an action that contains another one, and aborts it explicitly. */
static int nested(struct run *w, struct step *t)
{
    struct lladd_action outer;
    TRY(lladd_nta_begin(t->txn, &outer));
    TRY(cell_add(t->txn, history_cell(w->h, at(8, 1)), 1000));
    TRY(cells_transfer(t->txn, history_cell(w->h, at(9, 1)), history_cell(w->h, at(10, 1)), 9));
    return lladd_nta_abort(t->txn, &outer);
}

static int open_action(struct run *w, struct step *t)
{
    struct lladd_action left_open;
    TRY(lladd_nta_begin(t->txn, &left_open));
    TRY(cell_add(t->txn, history_cell(w->h, at(11, 1)), 77));
    return cell_add(t->txn, history_cell(w->h, at(12, 1)), 78);
}

/* Writes long records, so that the log goes on in new segments and old segments become free. */
static int many_bytes(struct run *w)
{
    for (unsigned i = 0; i < 6; i++) {
        struct step *t;
        TRY(begin(w, &t));
        ON(t, step_put_wide(t, at(i, 2), 100 + i, 700));
        ON(t, step_put_wide(t, at(i + 6, 2), 200 + i, 300));
        TRY(finish(w, t, step_commit));
    }
    return 0;
}

static int two_phases(struct run *w, const char *name, int (*how)(struct step *))
{
    struct step *t;
    struct lladd_gid gid = gid_of(name);
    TRY(begin(w, &t));
    ON(t, step_add(t, at(13, 0), 13));
    ON(t, step_transfer(t, at(14, 0), at(15, 0), 4));
    ON(t, step_prepare(t, &gid));
    TRY(add_and_commit(w, 13, 1)); /* other transactions go on meanwhile */
    return how ? finish(w, t, how) : 0;
}

static int lighter_mechanism(struct run *w)
{
    struct step *t;
    TRY(begin(w, &t));
    ON(t, step_poke(t, at(16, 3), 333));
    ON(t, step_add(t, at(16, 1), 1));
    TRY(finish(w, t, step_commit));
    TRY(begin(w, &t));
    ON(t, step_poke(t, at(16, 3), 444));
    ON(t, step_poke(t, at(17, 3), 555));
    return finish(w, t, step_abort);
}

static int commits_without_waiting(struct run *w)
{
    lladd_lsn lsn = {0};
    for (unsigned i = 0; i < 4; i++) {
        struct step *t;
        TRY(begin(w, &t));
        ON(t, step_add(t, at(18, 0), 1));
        ON(t, step_add(t, at(19 + i, 0), 1));
        int rc = step_commit_async(t, &lsn);
        if (consumed(rc))
            ended(w, t);
        TRY(rc);
    }
    TRY(lladd_wait_durable(w->r->db, lsn, &w->err));
    history_all_acked(w->h);
    return 0;
}

static int play(struct run *w)
{
    struct step *large, *actions, *open;
    TRY(add_and_commit(w, 0, 1));
    TRY(begin(w, &large));
    TRY(add_everywhere(w, large, 0, 1000)); /* more pages than the cache holds, so uncommitted
                                             * changes are written */
    TRY(savepoints(w));
    TRY(checkpoint(w));
    TRY(begin(w, &actions));
    ON(actions, step_transfer(actions, at(20, 1), at(21, 1), 2));
    ON(actions, step_bump(actions, at(22, 1), 2));
    TRY(nested(w, actions));
    TRY(add_and_commit(w, 2, 3));
    TRY(two_phases(w, "committed", step_commit));
    TRY(maintain(w));
    TRY(two_phases(w, "aborted", step_abort));
    TRY(many_bytes(w));
    TRY(maintain(w));
    TRY(finish(w, actions, step_abort));
    ON(large, step_bump(large, at(23, 1), 6));
    TRY(finish(w, large, step_abort));
    TRY(checkpoint(w));
    TRY(lighter_mechanism(w));
    TRY(commits_without_waiting(w));
    TRY(maintain(w));
    TRY(two_phases(w, "left", NULL));
    TRY(begin(w, &open));
    TRY(add_everywhere(w, open, 1, 5));
    TRY(open_action(w, open));
    TRY(add_and_commit(w, 5, 8));
    TRY(checkpoint(w));
    return add_and_commit(w, 6, 8);
}

int workload_run(struct fixture *r, struct history *h, struct lladd_error *err)
{
    struct run w = {.r = r, .h = h};
    int rc = play(&w);
    while (w.n)
        step_drop(w.t[--w.n]);
    if (err)
        *err = w.err;
    return rc;
}
