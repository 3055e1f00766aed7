/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random histories are compared with a model. The histories have several transactions at a time on
 * a few pages, savepoints, top actions, logical undo, prepares, checkpoints, and sometimes a crash
 * or a restart. After every few steps the test compares the cells with the model, and after every
 * crash it checks the history (history.h).
 *
 * Every history has a number, which is its seed. The number is shown if the history fails:
 *     LLADD_SEED=4711 CK_FORK=no .../test_model          runs history 4711
 *     LLADD_NIGHTLY=1 .../test_model                     runs many histories
 */
#include "support/fixtures.h"
#include "workload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPEN_MAX_TXNS = 6, M_PAGES = 8, M_CELLS = M_PAGES * H_CELLS };

struct model {
    struct fixture r;
    struct history h;
    struct step *open[OPEN_MAX_TXNS];
    size_t n_open;
    const struct step *owner[M_CELLS]; /* the transaction that puts or pokes the cell; NULL: none */
    lladd_lsn newest_async;
    uint64_t seed;
    unsigned gids;
    char where[64];
};

static uint64_t pick(struct model *m, uint64_t n)
{
    return seeded_next(&m->seed) % n;
}

/* Draws a cell for additions: one of the first two cells of a page. */
static size_t shared_cell(struct model *m)
{
    return pick(m, M_PAGES) * H_CELLS + pick(m, 2);
}

/* Draws a cell that only one transaction at a time uses: the third cell of a page for puts, the
 * fourth cell for pokes. Returns SIZE_MAX if another transaction uses it. */
static size_t own_cell(struct model *m, const struct step *t, unsigned which)
{
    size_t cell = pick(m, M_PAGES) * H_CELLS + 2 + which;
    if (m->owner[cell] && m->owner[cell] != t)
        return SIZE_MAX;
    m->owner[cell] = t;
    return cell;
}

static void must(struct model *m, const struct step *t, int rc, const char *what)
{
    ck_assert_msg(rc == 0, "%s: %s: %s: %s", m->where, what,
                  lladd_code_name(rc) ? lladd_code_name(rc) : "?", t ? t->err.message : "");
}

static void forget(struct model *m, size_t i)
{
    for (size_t c = 0; c < M_CELLS; c++)
        if (m->owner[c] == m->open[i])
            m->owner[c] = NULL;
    m->open[i] = m->open[--m->n_open];
}

static void forget_all(struct model *m)
{
    while (m->n_open) {
        struct step *t = m->open[0];
        forget(m, 0);
        step_drop(t);
    }
    memset(m->owner, 0, sizeof m->owner);
}

/* ---- what can happen --------------------------------------------------------------------- */

static void begin(struct model *m)
{
    if (m->n_open == OPEN_MAX_TXNS)
        return;
    int rc = step_begin(&m->h, m->r.db, NULL, &m->open[m->n_open]);
    must(m, NULL, rc, "begin");
    m->n_open++;
}

static void change(struct model *m, struct step *t)
{
    size_t cell;
    switch (pick(m, 8)) {
    case 0:
    case 1:
    case 2:
        must(m, t, step_add(t, shared_cell(m), (int64_t)pick(m, 1000)), "add");
        return;
    case 3:
        must(m, t, step_bump(t, shared_cell(m), (int64_t)pick(m, 1000)), "bump");
        return;
    case 4:
        must(m, t, step_transfer(t, shared_cell(m), shared_cell(m), (int64_t)pick(m, 50)),
             "transfer");
        return;
    case 5:
        cell = own_cell(m, t, 0);
        if (cell != SIZE_MAX)
            must(m, t, step_put(t, cell, pick(m, 1u << 30)), "put");
        return;
    case 6:
        cell = own_cell(m, t, 0);
        if (cell != SIZE_MAX)
            must(m, t, step_put_wide(t, cell, pick(m, 1u << 30), pick(m, 1500)), "put wide");
        return;
    default:
        cell = own_cell(m, t, 1);
        /* There is no poke inside an action, because the undo of a poke is not physical. */
        if (cell != SIZE_MAX && t->n_actions == 0)
            must(m, t, step_poke(t, cell, pick(m, 1u << 30)), "poke");
    }
}

static void structure(struct model *m, struct step *t)
{
    switch (pick(m, 4)) {
    case 0:
        if (t->n_marks < H_MARKS && t->n_actions == 0)
            must(m, t, step_mark(t), "savepoint");
        return;
    case 1:
        if (t->n_marks)
            must(m, t, step_back_to(t, (unsigned)pick(m, t->n_marks)), "rollback_to");
        return;
    case 2:
        if (t->n_actions < H_MARKS)
            must(m, t, step_action_begin(t), "nta_begin");
        return;
    default:
        if (t->n_actions)
            must(m, t, step_action_abort(t), "nta_abort");
    }
}

static void prepare(struct model *m, struct step *t)
{
    char name[32];
    unsigned live = 0;
    for (unsigned i = 0; i < m->h.n_prepared; i++)
        live += m->h.prepared[i].fate != F_NONE;
    if (t->n_actions || t->prepared || live == H_PREPARED || m->h.n_prepared == H_PREPARED)
        return;
    snprintf(name, sizeof name, "g%u", m->gids++);
    struct lladd_gid gid = gid_of(name);
    must(m, t, step_prepare(t, &gid), "prepare");
}

static void end(struct model *m, size_t i)
{
    struct step *t = m->open[i];
    uint64_t how = pick(m, 10);
    bool may_commit = t->n_actions == 0;
    forget(m, i);
    if (how < 4 && may_commit)
        must(m, NULL, step_commit(t), "commit");
    else if (how < 7 && may_commit && !t->prepared)
        must(m, NULL, step_commit_async(t, &m->newest_async), "commit_async");
    else
        must(m, NULL, step_abort(t), "abort");
}

static void restart(struct model *m)
{
    forget_all(m);
    m->newest_async = lladd_lsn_of(0);
    switch (pick(m, 5)) {
    case 0:
        history_all_acked(&m->h); /* closing makes every commit durable */
        fixture_close(&m->r);
        break;
    case 1:
        fixture_crash(&m->r, &fault_kill);
        break;
    case 2:
        fixture_crash(&m->r, &fault_power);
        break;
    default: {
        struct fault_crash some = {FAULT_SUBSET, seeded_next(&m->seed), pick(m, 2)};
        fixture_crash(&m->r, &some);
    }
    }
    int rc = fixture_try_open(&m->r);
    ck_assert_msg(rc == 0, "%s: open: %s", m->where, m->r.err.message);
    history_check(&m->h, m->r.db);
}

static void one_step(struct model *m)
{
    uint64_t what = pick(m, 100);
    size_t i = m->n_open ? pick(m, m->n_open) : 0;
    if (what < 12 || m->n_open == 0)
        begin(m);
    else if (what < 60 && !m->open[i]->prepared)
        change(m, m->open[i]);
    else if (what < 74 && !m->open[i]->prepared)
        structure(m, m->open[i]);
    else if (what < 78)
        prepare(m, m->open[i]);
    else if (what < 90)
        end(m, i);
    else if (what < 93)
        ok_db(&m->r, lladd_checkpoint(m->r.db, &m->r.err));
    else if (what < 95)
        fixture_maintain(&m->r);
    else if (what < 97) {
        ok_db(&m->r, lladd_wait_durable(m->r.db, m->newest_async, &m->r.err));
        if (m->newest_async.v)
            history_all_acked(&m->h);
    } else {
        restart(m);
    }
    if (what % 4 == 0)
        history_check_live(&m->h, m->r.db, m->open, m->n_open);
}

static void run_history(uint64_t seed, unsigned steps)
{
    struct model m = {.seed = seed};
    lladd_pageno pages[M_PAGES];
    fixture_init(&m.r, seed % 2 ? FIXTURE_RESERVED : 0);
    workload_options(&m.r);
    fixture_open(&m.r);
    fixture_pages(&m.r, pages, M_PAGES);
    history_init(&m.h, pages, M_PAGES);
    snprintf(m.where, sizeof m.where, "history %llu", (unsigned long long)seed);
    m.h.where = m.where;
    for (unsigned i = 0; i < steps; i++)
        one_step(&m);
    restart(&m);
    history_go_on(&m.h, m.r.db);
    fixture_close(&m.r);
    history_free(&m.h);
    fixture_free(&m.r);
}

START_TEST(random_histories_agree_with_the_model)
{
    const char *one = getenv("LLADD_SEED");
    if (one) {
        run_history(strtoull(one, NULL, 10), 400);
        return;
    }
    uint64_t n = getenv("LLADD_NIGHTLY") ? 20000 : 300;
    for (uint64_t seed = 1; seed <= n; seed++)
        run_history(seed, 400);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("model");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, random_histories_agree_with_the_model);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
