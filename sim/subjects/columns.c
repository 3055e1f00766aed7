/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ctable: rows with columns in a column store. Rows are put, changed, deleted, flushed (Anvil:
 * digested) and compacted (Anvil: combined). A transaction makes another table, and a later one
 * drops it. The subject checks that each change of a row is recovered whole or not at all, and that
 * a table and its column names exist together. The subject dtable.managed tests the managed table
 * on which a ctable is built.
 */
#include "sim/subjects/subjects.h"

#include <lladd/bytes.h>
#include <lladd/ctable.h>

#include <string.h>

enum { KEYS = 8, COLUMNS = 3, NONE = 0 };
#define NAME "parts"

static const char *const names[COLUMNS] = {"number", "size", "other"};
static const struct lladd_ctable_group groups[] = {
    {names, 1, "class(dt) array_dtable config [ \"value_size\" int 4 ]"}};

/* A step of a transaction: sets the columns in the bit mask `which`; 0 deletes the row. */
struct note {
    uint32_t key, which, value[COLUMNS];
};
struct rows {
    uint32_t there[KEYS], value[KEYS][COLUMNS];
};
enum { ALL = (1 << COLUMNS) - 1 };

static int configure(void *ctx, struct lladd_options *o, struct lladd_error *err)
{
    (void)ctx;
    o->log_segment_min = o->log_segment_max = 32u << 10;
    return lladd_managed_register(o, err);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static int change(struct lladd_txn *txn, struct lladd_ctable *t, const struct note *n)
{
    struct lladd_dtable_key key = lladd_dtable_u32(n->key);
    struct lladd_dtable_value all[COLUMNS];
    struct lladd_ctable_change some[COLUMNS];
    unsigned char bytes[COLUMNS][4];
    size_t changes = 0;
    for (uint32_t i = 0; i < COLUMNS; i++) {
        lladd_put32(bytes[i], n->value[i]);
        all[i] = lladd_dtable_value_of(bytes[i], 4);
        all[i].state = n->value[i] == NONE ? LLADD_DTABLE_ABSENT : LLADD_DTABLE_FOUND;
        if (n->which >> i & 1)
            some[changes++] = (struct lladd_ctable_change){i, all[i]};
    }
    return n->which == 0     ? lladd_ctable_delete(txn, t, &key)
           : n->which == ALL ? lladd_ctable_put(txn, t, &key, all)
                             : lladd_ctable_update(txn, t, &key, some, changes);
}

static int change_noted(struct lladd_sim *sim, struct lladd_txn *txn, struct lladd_ctable *t,
                        struct note n)
{
    TRY(change(txn, t, &n));
    return lladd_sim_note(sim, txn, &n, sizeof n);
}

static int make(struct lladd_txn *txn, const char *name)
{
    struct lladd_ctable_options o = LLADD_CTABLE_OPTIONS_INIT;
    o.columns = names;
    o.n_columns = COLUMNS;
    o.managed.type = LLADD_DTABLE_U32;
    o.groups = groups;
    o.n_groups = 1;
    return lladd_ctable_create(txn, name, &o);
}

static const struct note first[] = {{0, ALL, {1, 2, 3}}, {1, ALL, {4, NONE, 5}}};

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_ctable *t;
    struct lladd_txn *txn;
    (void)ctx;
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = make(txn, NAME);
    TRY(rc ? ll_sim_give_up(NULL, txn, rc, err) : lladd_commit(txn));
    TRY(lladd_ctable_open(db, NAME, &t, err));
    TRY(lladd_begin(db, NULL, &txn, err));
    for (int i = 0; i < 2 && !rc; i++)
        rc = change(txn, t, &first[i]);
    TRY(rc ? ll_sim_give_up(NULL, txn, rc, err) : lladd_commit(txn));
    TRY(lladd_managed_digest(lladd_ctable_managed(t), err));
    return lladd_ctable_close(t, err);
}

/* ---- transactions ---------------------------------------------------------------------------- */

static int changes(struct lladd_sim *sim, struct lladd_txn *txn, struct lladd_ctable *t)
{
    lladd_savepoint_id here;
    TRY(change_noted(sim, txn, t, (struct note){0, 2, {NONE, 20, NONE}}));
    TRY(change_noted(sim, txn, t, (struct note){2, ALL, {7, 8, NONE}}));
    TRY(lladd_sim_savepoint(sim, txn, &here));
    TRY(change_noted(sim, txn, t, (struct note){0, 1, {99, NONE, NONE}}));
    TRY(change_noted(sim, txn, t, (struct note){1, 0, {NONE}}));
    TRY(make(txn, "other"));
    TRY(lladd_sim_rollback_to(sim, txn, here));
    TRY(change_noted(sim, txn, t, (struct note){3, 4, {NONE, NONE, 11}}));
    return lladd_sim_commit(sim, txn);
}

static int deletes(struct lladd_sim *sim, struct lladd_txn *txn, struct lladd_ctable *t)
{
    TRY(change_noted(sim, txn, t, (struct note){1, 0, {NONE}}));
    TRY(change_noted(sim, txn, t, (struct note){0, 5, {NONE, NONE, 30}}));
    TRY(make(txn, "other"));
    return lladd_sim_commit(sim, txn);
}

static int gives_up(struct lladd_sim *sim, struct lladd_txn *txn, struct lladd_ctable *t)
{
    TRY(change_noted(sim, txn, t, (struct note){0, ALL, {1, 1, 1}}));
    TRY(lladd_ctable_destroy(txn, "other"));
    return lladd_sim_abort(sim, txn);
}

static int comes_last(struct lladd_sim *sim, struct lladd_txn *txn, struct lladd_ctable *t)
{
    TRY(lladd_ctable_destroy(txn, "other"));
    TRY(change_noted(sim, txn, t, (struct note){4, 2, {NONE, 12, NONE}}));
    return lladd_sim_commit(sim, txn);
}

static int in_txn(struct lladd_sim *sim, struct lladd_ctable *t, struct lladd_db *db,
                  int (*what)(struct lladd_sim *, struct lladd_txn *, struct lladd_ctable *),
                  struct lladd_error *err)
{
    struct lladd_txn *txn;
    TRY(lladd_sim_begin(sim, db, NULL, &txn, err));
    int rc = what(sim, txn, t);
    return rc ? ll_sim_give_up(sim, txn, rc, err) : 0;
}

static int tidy_up(struct lladd_ctable *t, struct lladd_error *err)
{
    bool more = true;
    while (more)
        TRY(lladd_managed_maintain(lladd_ctable_managed(t), &more, err));
    return 0;
}

static int steps(struct lladd_sim *sim, struct lladd_ctable *t, struct lladd_db *db,
                 struct lladd_error *err)
{
    struct lladd_managed *below = lladd_ctable_managed(t);
    TRY(in_txn(sim, t, db, changes, err));
    TRY(lladd_managed_digest(below, err));
    TRY(in_txn(sim, t, db, deletes, err));
    TRY(in_txn(sim, t, db, gives_up, err));
    TRY(lladd_managed_digest(below, err));
    TRY(lladd_managed_combine(below, 0, err));
    TRY(tidy_up(t, err));
    return in_txn(sim, t, db, comes_last, err);
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_ctable *t;
    (void)ctx;
    TRY(lladd_ctable_open(db, NAME, &t, err));
    return steps(sim, t, db, err); /* the table stays open, as in a program that crashes */
}

static int go_on(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct note last = {KEYS - 1, ALL, {1, 2, 3}};
    struct lladd_ctable *t;
    struct lladd_txn *txn;
    (void)ctx;
    TRY(lladd_ctable_open(db, NAME, &t, err));
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = change(txn, t, &last);
    TRY(rc ? ll_sim_give_up(NULL, txn, rc, err) : lladd_commit(txn));
    TRY(lladd_managed_digest(lladd_ctable_managed(t), err));
    TRY(tidy_up(t, err));
    return lladd_ctable_close(t, err);
}

/* ---- the model ------------------------------------------------------------------------------- */

static void apply_note(struct rows *r, const struct note *n)
{
    if (n->which == 0 || !r->there[n->key])
        memset(r->value[n->key], 0, sizeof r->value[n->key]);
    r->there[n->key] = n->which != 0;
    for (uint32_t i = 0; i < COLUMNS; i++)
        if (n->which >> i & 1)
            r->value[n->key][i] = n->value[i];
}

static void init(void *ctx, void *model)
{
    (void)ctx;
    for (int i = 0; i < 2; i++)
        apply_note(model, &first[i]);
}

static void apply(void *ctx, void *model, struct lladd_span note)
{
    struct note n;
    (void)ctx;
    memcpy(&n, note.data, sizeof n);
    apply_note(model, &n);
}

static int model_dump(void *ctx, const void *model, struct lladd_sink *sink)
{
    const struct rows *r = model;
    (void)ctx;
    for (uint32_t i = 0; i < KEYS; i++)
        if (r->there[i])
            TRY(lladd_sink_printf(sink, "%u: %u %u %u\n", i, r->value[i][0], r->value[i][1],
                                  r->value[i][2]));
    return 0;
}

static int dump_rows(struct lladd_ctable_cursor *c, struct lladd_sink *sink,
                     struct lladd_error *err)
{
    int rc;
    while ((rc = lladd_ctable_next(c, err)) == 0) {
        const struct lladd_dtable_value *v;
        struct lladd_dtable_key key;
        uint32_t value[COLUMNS];
        TRY(lladd_ctable_row_read(c, &key, &v, err));
        for (int i = 0; i < COLUMNS; i++) {
            value[i] = v[i].state == LLADD_DTABLE_FOUND ? lladd_get32(v[i].bytes.data) : NONE;
            if (v[i].state == LLADD_DTABLE_FOUND && v[i].bytes.len != 4)
                return lladd_error_set(err, LLADD_BAD_STATE, "a value that was never put there");
        }
        TRY(lladd_sink_printf(sink, "%u: %u %u %u\n", (unsigned)key.number, value[0], value[1],
                              value[2]));
    }
    return rc == LLADD_END ? 0 : rc;
}

static int dump_table(struct lladd_txn *txn, struct lladd_ctable *t, struct lladd_sink *sink)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct lladd_ctable_cursor *c;
    uint32_t columns[COLUMNS];
    TRY(lladd_ctable_named(t, names, COLUMNS, columns, err));
    TRY(lladd_ctable_cursor_open(txn, t, columns, COLUMNS, &c));
    int rc = dump_rows(c, sink, err);
    lladd_ctable_cursor_close(c);
    return rc;
}

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink, struct lladd_error *err)
{
    struct lladd_ctable *t;
    struct lladd_txn *txn;
    (void)ctx;
    TRY(lladd_ctable_open(db, NAME, &t, err));
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = dump_table(txn, t, sink);
    TRY(rc ? ll_sim_give_up(NULL, txn, rc, err) : lladd_commit(txn));
    return lladd_ctable_close(t, err);
}

static int pages(void *ctx, struct lladd_db *db, int (*fn)(void *, lladd_pageno), void *arg,
                 struct lladd_error *err)
{
    (void)ctx;
    TRY(lladd_managed_pages(db, fn, arg, err));
    TRY(lladd_ctable_pages(db, NAME, fn, arg, err));
    int other = lladd_ctable_pages(db, "other", fn, arg, err);
    TRY(other == LLADD_NOT_FOUND ? 0 : other);
    return ll_sim_journal_pages(db, fn, arg, err);
}

static void describe(void *ctx, struct lladd_span note, struct lladd_sink *sink)
{
    struct note n;
    (void)ctx;
    memcpy(&n, note.data, sizeof n);
    (void)lladd_sink_printf(sink, "row %u, columns %#x: %u %u %u", n.key, n.which, n.value[0],
                            n.value[1], n.value[2]);
}

static const char *const operations[] = {"journal", NULL};
static const struct lladd_sim_excuse excuses[] = {
    {"journal", (1u << LLADD_SIM_PATHS) - 1,
     "the class has no redo and no undo: its entries are read from the log"},
    {NULL, 0, NULL}};

const struct lladd_sim_subject ll_sim_subject_columns = {
    .struct_size = sizeof ll_sim_subject_columns,
    .name = "ctable",
    .about = "rows with columns in a column store: put, changed, deleted, digested, combined",
    .configure = configure,
    .setup = setup,
    .run = run,
    .dump = dump,
    .model_size = sizeof(struct rows),
    .model_init = init,
    .model_apply = apply,
    .model_dump = model_dump,
    .describe = describe,
    .go_on = go_on,
    .pages = pages,
    .operations = operations,
    .excuses = excuses,
};
