/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_CORE_HISTORY_H
#define TESTS_CORE_HISTORY_H
/*
 * The contents that a database must have after a crash: a model of a few pages of cells. The
 * workload changes model and database together.
 *
 * Every attempt to commit makes a new *state* (all cells). `acked` is the newest state that the
 * database has promised to keep. After a crash the cells must be one of the states acked ...
 * newest, plus the effects of the transactions that are then in doubt; their two-phase commit
 * determines which may be in doubt.
 *
 *     struct history h;
 *     history_init(&h, pages, n);          all cells 0 now
 *     struct step *t;
 *     rc = step_begin(&h, db, &t);         every call: 0 or the database's error
 *     rc = step_add(t, 3, 10);
 *     rc = step_commit(t);
 *     ...
 *     history_check(&h, db);               after recovery: asserts, and resolves what is in doubt
 *
 * Several transactions may add to one cell at a time; one that puts or pokes has the cell to
 * itself.
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
    F_MAYBE_ABORTED, /* an abort is not durable at once: in doubt again, or gone */
};

struct prepared {
    enum fate fate;
    struct lladd_gid gid;
    uint64_t *effect;    /* added to the cells */
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
    uint64_t *effect;
    uint64_t *marked[H_MARKS]; /* at savepoints */
    lladd_savepoint_id marks[H_MARKS];
    unsigned n_marks;
    struct lladd_action actions[H_MARKS];
    uint64_t *before[H_MARKS]; /* effects when they were opened */
    unsigned n_actions;
    struct prepared *prepared;
    struct lladd_error err; /* of the call that failed */
};

void history_init(struct history *, const lladd_pageno *pages, size_t n_pages);
void history_free(struct history *);
/* An independent copy. */
void history_copy(struct history *to, const struct history *from);
/* The page that the database knows as number i. */
struct cell history_cell(const struct history *, size_t i);
/* The value of a cell in the newest state. */
uint64_t history_value(const struct history *, size_t i);
/* All attempts so far are durable (after a wait or a force). */
void history_all_acked(struct history *);
/* Asserts that the database holds one of the possible states; commits transactions in doubt with
 * even numbers, aborts the others; then goes on from there: the history has one state. */
void history_check(struct history *, struct lladd_db *);
/* Asserts that new transactions work: commits one, aborts one. */
void history_go_on(struct history *, struct lladd_db *);

int step_begin(struct history *, struct lladd_db *, const struct lladd_txn_options *,
               struct step **out);
int step_add(struct step *, size_t cell, int64_t delta);
int step_bump(struct step *, size_t cell, int64_t delta);
int step_put(struct step *, size_t cell, uint64_t value);
int step_put_wide(struct step *, size_t cell, uint64_t value, size_t filling);
/* The lighter mechanism of the paper: undo-only, then redo-only. */
int step_poke(struct step *, size_t cell, uint64_t value);
/* A closed top action. */
int step_transfer(struct step *, size_t from, size_t to, int64_t amount);
int step_mark(struct step *);
/* Rolls back to mark i, counted from 0. */
int step_back_to(struct step *, unsigned i);
/* A top action that stays open: step_action_abort rolls it back, or the end of the transaction. No
 * marks are made while one is open. */
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
/* Drops the transaction without ending it: after a crash, or when the database was closed. */
void step_drop(struct step *);

#endif
