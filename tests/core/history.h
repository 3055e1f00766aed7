/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_CORE_HISTORY_H
#define TESTS_CORE_HISTORY_H
/*
 * A model of a few pages of cells. It says which contents the database may have after a crash. The
 * workload changes the model and the database together.
 *
 * Every attempt to commit makes a new *state* (all cells). `acked` is the number of the newest
 * state that the database has promised to keep. After a crash the cells must be one of the states
 * from `acked` to the newest, plus the effects of the transactions that are then in doubt. The
 * `fate` of a prepared transaction says whether it may be in doubt.
 *
 *     struct history h;
 *     history_init(&h, pages, n);          all cells 0 now
 *     struct step *t;
 *     rc = step_begin(&h, db, NULL, &t);   every call returns 0 or the database's error
 *     rc = step_add(t, 3, 10);
 *     rc = step_commit(t);
 *     ...
 *     history_check(&h, db);               after recovery: asserts, and resolves what is in doubt
 *
 * Several transactions may add to one cell at a time. Only one transaction at a time may use a cell
 * that it puts or pokes.
 */
#include "testops.h"

#include <check.h>
#include <lladd/extension.h>
#include <lladd/twophase.h>

enum { H_CELLS = 4, H_PREPARED = 4, H_MARKS = 4 };

enum fate {
    F_NONE,
    F_MAYBE_PREPARED,
    F_PREPARED,
    F_MAYBE_COMMITTED,
    F_COMMITTED,
    F_MAYBE_ABORTED, /* after a crash the transaction is in doubt, or its abort was durable */
};

struct prepared {
    enum fate fate;
    struct lladd_gid gid;
    uint64_t *effect;    /* what its commit adds to each cell */
    size_t commit_state; /* the state that its commit made */
};

struct history {
    lladd_pageno *pages;
    size_t n_cells;
    uint64_t **states;
    size_t n_states, acked;
    struct prepared prepared[H_PREPARED];
    unsigned n_prepared;
    const char *where; /* shown when an assertion fails */
};

/* A transaction, and the changes that its commit would make. */
struct step {
    struct history *h;
    struct lladd_db *db;
    struct lladd_txn *txn; /* NULL: ended */
    uint64_t *effect;          /* what the commit adds to each cell */
    uint64_t *marked[H_MARKS]; /* `effect` at each savepoint */
    lladd_savepoint_id marks[H_MARKS];
    unsigned n_marks;
    struct lladd_action actions[H_MARKS];
    uint64_t *before[H_MARKS]; /* `effect` at the moment when each action was opened */
    unsigned n_actions;
    struct prepared *prepared;
    struct lladd_error err; /* the error of the call that failed */
};

void history_init(struct history *, const lladd_pageno *pages, size_t n_pages);
void history_free(struct history *);
/* An independent copy. */
void history_copy(struct history *to, const struct history *from);
/* Returns cell i of the history: its page and its index on the page. */
struct cell history_cell(const struct history *, size_t i);
/* The value of a cell in the newest state. */
uint64_t history_value(const struct history *, size_t i);
/* Notes in the model that all commits attempted so far are durable. */
void history_all_acked(struct history *);
/* Asserts that the database holds one of the possible states. Commits each transaction in doubt
 * that has an even index in `prepared`, and aborts the others. The result becomes the only state of
 * the history. */
void history_check(struct history *, struct lladd_db *);
/* Asserts that new transactions work: commits one, aborts one. */
void history_go_on(struct history *, struct lladd_db *);

int step_begin(struct history *, struct lladd_db *, const struct lladd_txn_options *,
               struct step **out);
int step_add(struct step *, size_t cell, int64_t delta);
int step_bump(struct step *, size_t cell, int64_t delta);
int step_put(struct step *, size_t cell, uint64_t value);
int step_put_wide(struct step *, size_t cell, uint64_t value, size_t filling);
/* Logs an undo-only record, then a redo-only record (LLADD paper, section 2.4). */
int step_poke(struct step *, size_t cell, uint64_t value);
/* Moves an amount in a top action, which is then closed. */
int step_transfer(struct step *, size_t from, size_t to, int64_t amount);
int step_mark(struct step *);
/* Rolls back to mark i, counted from 0. */
int step_back_to(struct step *, unsigned i);
/* Opens a top action. step_action_abort or the end of the transaction rolls it back. While an
 * action is open, step_mark may not be called. */
int step_action_begin(struct step *);
int step_action_abort(struct step *);
int step_commit(struct step *);
int step_commit_async(struct step *, lladd_lsn *out);
int step_abort(struct step *);
int step_prepare(struct step *, const struct lladd_gid *);
/* Asserts that the cells are those of the newest state, plus the effects of these open
 * transactions. */
void history_check_live(const struct history *, struct lladd_db *, struct step *const *open,
                        size_t n_open);
/* Drops the transaction without ending it. Call it after a crash, or when the database was
 * closed. */
void step_drop(struct step *);

#endif
