/* SPDX-License-Identifier: BSD-2-Clause */
/* See history.h. */
#include "history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *must(void *p)
{
    ck_assert_ptr_nonnull(p);
    return p;
}

static uint64_t *cells_copy(const struct history *h, const uint64_t *from)
{
    uint64_t *p = must(calloc(h->n_cells, sizeof *p));
    if (from)
        memcpy(p, from, h->n_cells * sizeof *p);
    return p;
}

static void push_state(struct history *h, uint64_t *cells)
{
    h->states = must(realloc(h->states, (h->n_states + 1) * sizeof *h->states));
    h->states[h->n_states++] = cells;
}

void history_init(struct history *h, const lladd_pageno *pages, size_t n_pages)
{
    memset(h, 0, sizeof *h);
    h->n_cells = n_pages * H_CELLS;
    h->pages = must(calloc(n_pages, sizeof *h->pages));
    memcpy(h->pages, pages, n_pages * sizeof *h->pages);
    h->where = "";
    push_state(h, cells_copy(h, NULL));
}

void history_free(struct history *h)
{
    for (size_t i = 0; i < h->n_states; i++)
        free(h->states[i]);
    for (unsigned i = 0; i < h->n_prepared; i++)
        free(h->prepared[i].effect);
    free(h->states);
    free(h->pages);
    memset(h, 0, sizeof *h);
}

void history_copy(struct history *to, const struct history *from)
{
    history_init(to, from->pages, from->n_cells / H_CELLS);
    free(to->states[0]);
    to->n_states = 0;
    for (size_t i = 0; i < from->n_states; i++)
        push_state(to, cells_copy(from, from->states[i]));
    to->acked = from->acked;
    to->n_prepared = from->n_prepared;
    to->where = from->where;
    for (unsigned i = 0; i < from->n_prepared; i++) {
        to->prepared[i] = from->prepared[i];
        to->prepared[i].effect = cells_copy(from, from->prepared[i].effect);
    }
}

struct cell history_cell(const struct history *h, size_t i)
{
    /* Each cell of a page is in another sector. */
    return cell_of(h->pages[i / H_CELLS], (unsigned)(i % H_CELLS) * (CELLS / H_CELLS));
}

uint64_t history_value(const struct history *h, size_t i)
{
    return h->states[h->n_states - 1][i];
}

void history_all_acked(struct history *h)
{
    h->acked = h->n_states - 1;
}

/* ---- after a crash ----------------------------------------------------------------------- */

struct found {
    struct history *h;
    bool in_doubt[H_PREPARED];
    unsigned n;
};

static bool same_gid(const struct lladd_gid *a, const struct lladd_gid *b)
{
    return a->format == b->format && a->gtrid_length == b->gtrid_length &&
           a->bqual_length == b->bqual_length &&
           memcmp(a->data, b->data, a->gtrid_length + a->bqual_length) == 0;
}

static int see_in_doubt(void *ctx, const struct lladd_in_doubt_info *info)
{
    struct found *f = ctx;
    for (unsigned i = 0; i < f->h->n_prepared; i++) {
        if (same_gid(&f->h->prepared[i].gid, &info->gid)) {
            ck_assert_msg(!f->in_doubt[i], "%s: in doubt twice", f->h->where);
            f->in_doubt[i] = true;
            f->n++;
            return 0;
        }
    }
    ck_abort_msg("%s: a transaction in doubt that was not prepared", f->h->where);
    return 0;
}

/* Returns false if the cells cannot be those of state j, given that the transaction is, or is not,
 * in doubt. */
static bool fate_fits(const struct prepared *p, bool in_doubt, size_t j)
{
    switch (p->fate) {
    case F_NONE:
        return !in_doubt;
    case F_MAYBE_PREPARED:
        return true;
    case F_PREPARED:
        return in_doubt;
    case F_MAYBE_COMMITTED:
    case F_COMMITTED:
        return in_doubt ? j < p->commit_state : j >= p->commit_state;
    case F_MAYBE_ABORTED:
        return true;
    }
    return false;
}

static void expected(const struct history *h, const struct found *f, size_t j, uint64_t *out)
{
    memcpy(out, h->states[j], h->n_cells * sizeof *out);
    for (unsigned p = 0; p < h->n_prepared; p++)
        for (size_t i = 0; f->in_doubt[p] && i < h->n_cells; i++)
            out[i] += h->prepared[p].effect[i];
}

static bool state_fits(const struct history *h, const struct found *f, size_t j,
                       const uint64_t *actual, uint64_t *scratch)
{
    for (unsigned p = 0; p < h->n_prepared; p++)
        if (!fate_fits(&h->prepared[p], f->in_doubt[p], j))
            return false;
    expected(h, f, j, scratch);
    return memcmp(scratch, actual, h->n_cells * sizeof *actual) == 0;
}

static void complain(const struct history *h, const struct found *f, const uint64_t *actual,
                     uint64_t *scratch)
{
    fprintf(stderr, "%s: states %zu to %zu are possible; %u in doubt\n", h->where, h->acked,
            h->n_states - 1, f->n);
    for (unsigned p = 0; p < h->n_prepared; p++)
        fprintf(stderr, "  prepared %u: fate %d, in doubt %d\n", p, h->prepared[p].fate,
                f->in_doubt[p]);
    expected(h, f, h->acked, scratch);
    for (size_t i = 0; i < h->n_cells; i++)
        if (actual[i] != scratch[i])
            fprintf(stderr, "  cell %zu (page %llu): %lld, acknowledged %lld, newest %lld\n", i,
                    (unsigned long long)h->pages[i / H_CELLS].v, (long long)actual[i],
                    (long long)scratch[i], (long long)h->states[h->n_states - 1][i]);
    ck_abort_msg("%s: the database holds no possible state", h->where);
}

/* Commits or aborts every transaction in doubt, and adds what the commits add to `cells`. */
static void resolve(struct history *h, struct lladd_db *db, const struct found *f, uint64_t *cells)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    for (unsigned p = 0; p < h->n_prepared; p++) {
        struct lladd_txn *txn;
        if (!f->in_doubt[p])
            continue;
        int rc = lladd_in_doubt_claim(db, &h->prepared[p].gid, &txn, &err);
        ck_assert_msg(rc == 0, "%s: claim: %s", h->where, err.message);
        rc = p % 2 ? lladd_abort(txn) : lladd_commit(txn);
        ck_assert_msg(rc == 0, "%s: ending a claimed transaction: %d", h->where, rc);
        for (size_t i = 0; p % 2 == 0 && i < h->n_cells; i++)
            cells[i] += h->prepared[p].effect[i];
    }
}

static void read_all(const struct history *h, struct lladd_db *db, uint64_t *out)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    for (size_t i = 0; i < h->n_cells; i++) {
        int rc = cell_read(db, history_cell(h, i), &out[i], &err);
        ck_assert_msg(rc == 0, "%s: cell %zu: %s", h->where, i, err.message);
    }
}

void history_check(struct history *h, struct lladd_db *db)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct found f = {.h = h};
    uint64_t *actual = cells_copy(h, NULL), *scratch = cells_copy(h, NULL);
    int rc = lladd_in_doubt_each(db, see_in_doubt, &f, &err);
    ck_assert_msg(rc == 0, "%s: %s", h->where, err.message);
    read_all(h, db, actual);
    size_t j = h->acked;
    while (j < h->n_states && !state_fits(h, &f, j, actual, scratch))
        j++;
    if (j == h->n_states)
        complain(h, &f, actual, scratch);
    uint64_t *now = cells_copy(h, h->states[j]);
    resolve(h, db, &f, now);
    read_all(h, db, actual);
    ck_assert_msg(memcmp(actual, now, h->n_cells * sizeof *now) == 0,
                  "%s: after what was in doubt has been resolved", h->where);
    for (size_t i = 0; i < h->n_states; i++)
        free(h->states[i]);
    /* An abort does not sync, so an aborted transaction may be in doubt once more. */
    unsigned kept = 0;
    for (unsigned i = 0; i < h->n_prepared; i++) {
        if (f.in_doubt[i] && i % 2) {
            h->prepared[i].fate = F_MAYBE_ABORTED;
            h->prepared[kept++] = h->prepared[i];
        } else {
            free(h->prepared[i].effect);
        }
    }
    h->n_states = h->acked = 0;
    h->n_prepared = kept;
    push_state(h, now);
    free(actual);
    free(scratch);
}

void history_go_on(struct history *h, struct lladd_db *db)
{
    struct step *t, *u;
    int rc = step_begin(h, db, NULL, &t);
    ck_assert_msg(rc == 0, "%s: begin: %d", h->where, rc);
    for (size_t i = 0; !rc && i < h->n_cells; i += H_CELLS)
        rc = step_add(t, i, 1);
    ck_assert_msg(rc == 0, "%s: %s", h->where, t->err.message);
    rc = step_begin(h, db, NULL, &u);
    if (!rc)
        rc = step_bump(u, 1, 5);
    ck_assert_msg(rc == 0, "%s: %s", h->where, u->err.message);
    rc = step_abort(u);
    ck_assert_msg(rc == 0, "%s: abort: %d", h->where, rc);
    rc = step_commit(t);
    ck_assert_msg(rc == 0, "%s: commit: %d", h->where, rc);
    uint64_t *actual = cells_copy(h, NULL);
    read_all(h, db, actual);
    ck_assert_msg(memcmp(actual, h->states[h->n_states - 1], h->n_cells * sizeof *actual) == 0,
                  "%s: after new transactions", h->where);
    free(actual);
}

/* ---- transactions ------------------------------------------------------------------------ */

int step_begin(struct history *h, struct lladd_db *db, const struct lladd_txn_options *o,
               struct step **out)
{
    struct step *t = must(calloc(1, sizeof *t));
    t->h = h;
    t->db = db;
    t->effect = cells_copy(h, NULL);
    int rc = lladd_begin(db, o, &t->txn, &t->err);
    *out = rc ? NULL : t;
    if (rc)
        step_drop(t);
    return rc;
}

void step_drop(struct step *t)
{
    if (!t)
        return;
    for (unsigned i = 0; i < t->n_marks; i++)
        free(t->marked[i]);
    for (unsigned i = 0; i < t->n_actions; i++)
        free(t->before[i]);
    free(t->effect);
    free(t);
}

void history_check_live(const struct history *h, struct lladd_db *db, struct step *const *open,
                        size_t n_open)
{
    uint64_t *actual = cells_copy(h, NULL), *want = cells_copy(h, h->states[h->n_states - 1]);
    read_all(h, db, actual);
    for (size_t t = 0; t < n_open; t++)
        for (size_t i = 0; i < h->n_cells; i++)
            want[i] += open[t]->effect[i];
    for (size_t i = 0; i < h->n_cells; i++)
        ck_assert_msg(actual[i] == want[i], "%s: cell %zu is %lld instead of %lld", h->where, i,
                      (long long)actual[i], (long long)want[i]);
    free(actual);
    free(want);
}

static int noted(struct step *t, int rc)
{
    if (rc)
        t->err = *lladd_txn_error(t->txn);
    return rc;
}

int step_add(struct step *t, size_t cell, int64_t delta)
{
    int rc = noted(t, cell_add(t->txn, history_cell(t->h, cell), delta));
    if (!rc)
        t->effect[cell] += (uint64_t)delta;
    return rc;
}

int step_bump(struct step *t, size_t cell, int64_t delta)
{
    int rc = noted(t, cell_bump(t->txn, history_cell(t->h, cell), delta));
    if (!rc)
        t->effect[cell] += (uint64_t)delta;
    return rc;
}

int step_put_wide(struct step *t, size_t cell, uint64_t value, size_t filling)
{
    struct cell c = history_cell(t->h, cell);
    int rc =
        noted(t, filling ? cell_put_wide(t->txn, c, value, filling) : cell_put(t->txn, c, value));
    if (!rc)
        t->effect[cell] = value - history_value(t->h, cell);
    return rc;
}

int step_put(struct step *t, size_t cell, uint64_t value)
{
    return step_put_wide(t, cell, value, 0);
}

int step_poke(struct step *t, size_t cell, uint64_t value)
{
    struct cell c = history_cell(t->h, cell);
    unsigned char undo[RESTORE_BYTES];
    lladd_op_id id;
    restore_encode(undo, c, history_value(t->h, cell) + t->effect[cell]);
    int rc = lladd_op_lookup(t->db, test_restore.name, 1, &id);
    if (!rc)
        rc = noted(t, lladd_log_undo_only(t->txn, id, undo, sizeof undo));
    if (!rc)
        rc = noted(t, cell_poke(t->txn, c, value));
    if (!rc)
        t->effect[cell] = value - history_value(t->h, cell);
    return rc;
}

int step_transfer(struct step *t, size_t from, size_t to, int64_t amount)
{
    int rc =
        noted(t, cells_transfer(t->txn, history_cell(t->h, from), history_cell(t->h, to), amount));
    if (!rc) {
        t->effect[from] -= (uint64_t)amount;
        t->effect[to] += (uint64_t)amount;
    }
    return rc;
}

int step_mark(struct step *t)
{
    ck_assert_uint_lt(t->n_marks, H_MARKS);
    int rc = noted(t, lladd_savepoint(t->txn, &t->marks[t->n_marks]));
    if (!rc)
        t->marked[t->n_marks++] = cells_copy(t->h, t->effect);
    return rc;
}

int step_back_to(struct step *t, unsigned i)
{
    ck_assert_uint_lt(i, t->n_marks);
    int rc = noted(t, lladd_rollback_to(t->txn, t->marks[i]));
    if (!rc) {
        memcpy(t->effect, t->marked[i], t->h->n_cells * sizeof *t->effect);
        while (t->n_marks > i + 1)
            free(t->marked[--t->n_marks]);
        while (t->n_actions) /* savepoints are older than open actions */
            free(t->before[--t->n_actions]);
    }
    return rc;
}

int step_action_begin(struct step *t)
{
    ck_assert_uint_lt(t->n_actions, H_MARKS);
    int rc = noted(t, lladd_nta_begin(t->txn, &t->actions[t->n_actions]));
    if (!rc)
        t->before[t->n_actions++] = cells_copy(t->h, t->effect);
    return rc;
}

int step_action_abort(struct step *t)
{
    ck_assert_uint_gt(t->n_actions, 0);
    int rc = noted(t, lladd_nta_abort(t->txn, &t->actions[t->n_actions - 1]));
    if (!rc) {
        uint64_t *before = t->before[--t->n_actions];
        memcpy(t->effect, before, t->h->n_cells * sizeof *before);
        free(before);
    }
    return rc;
}

/* Adds a state, which is possible from now on. */
static void attempt(struct step *t)
{
    struct history *h = t->h;
    uint64_t *cells = cells_copy(h, h->states[h->n_states - 1]);
    for (size_t i = 0; i < h->n_cells; i++)
        cells[i] += t->effect[i];
    push_state(h, cells);
    if (t->prepared) {
        t->prepared->fate = F_MAYBE_COMMITTED;
        t->prepared->commit_state = h->n_states - 1;
    }
}

/* Removes the newest state. The commit was refused, and the transaction is as it was before. */
static void undo_changes(struct step *t)
{
    struct history *h = t->h;
    free(h->states[--h->n_states]);
    if (t->prepared)
        t->prepared->fate = F_PREPARED;
}

/* The handle is gone if the commit succeeded or the database is poisoned. */
static bool consumed(int rc)
{
    return rc == 0 || lladd_code_root(rc) == LLADD_ROOT_POISONED;
}

int step_commit_async(struct step *t, lladd_lsn *out)
{
    attempt(t);
    int rc = lladd_commit_async(t->txn, out);
    if (consumed(rc))
        step_drop(t);
    else
        undo_changes(t);
    return rc;
}

int step_commit(struct step *t)
{
    attempt(t);
    int rc = lladd_commit(t->txn);
    if (rc == 0) {
        history_all_acked(t->h);
        if (t->prepared)
            t->prepared->fate = F_COMMITTED;
    }
    if (consumed(rc)) {
        step_drop(t);
    } else {
        (void)noted(t, rc);
        undo_changes(t);
    }
    return rc;
}

int step_abort(struct step *t)
{
    if (t->prepared)
        t->prepared->fate = F_MAYBE_ABORTED;
    int rc = lladd_abort(t->txn);
    if (consumed(rc))
        step_drop(t);
    return rc;
}

int step_prepare(struct step *t, const struct lladd_gid *gid)
{
    struct history *h = t->h;
    ck_assert_uint_lt(h->n_prepared, H_PREPARED);
    struct prepared *p = &h->prepared[h->n_prepared++];
    p->fate = F_MAYBE_PREPARED;
    p->gid = *gid;
    p->effect = cells_copy(h, t->effect);
    int rc = noted(t, lladd_prepare(t->txn, gid));
    if (rc == 0) {
        p->fate = F_PREPARED;
        t->prepared = p;
        history_all_acked(h); /* the log is durable up to here */
    } else if (!consumed(rc)) {
        p->fate = F_NONE;
    }
    return rc;
}
