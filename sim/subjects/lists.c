/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lists: transactions that commit, roll back and stay open insert items next to each other, at the
 * front, in the middle and at the end. Transactions also remove items, sweep removed items, and
 * overwrite items. A transaction makes and fills one list, and rolls back. A second list is
 * appended to another list, and a third one is destroyed.
 *
 * An item is a letter, repeated. The order of items is part of the contents: the dump and the model
 * contain the letters of each list in order.
 */
#include "sim/subjects/cells.h"

#include <lladd/list.h>
#include <lladd/pages.h>

#include <stdio.h>
#include <string.h>

enum { LISTS = 3, LONGEST = 40, ITEM = 300 };
static const char *const names[LISTS] = {"list.old", "list.other", "list.new"};

struct contents {
    char list[LISTS][LONGEST];
};

/* A step of a transaction. INSERT: item `what` is inserted after item `after` (0: at the front).
 * WRITE: item `what` is overwritten with `after`. SPLICE: list `what` is appended to the list. */
enum kind { INSERT, REMOVE, WRITE, SPLICE, DESTROY };
struct step {
    unsigned char kind, list, what, after;
};

struct work {
    struct lladd_sim *sim;
    struct lladd_db *db;
    struct lladd_error *err;
    struct lladd_list *list[LISTS];
    struct lladd_item item[128]; /* indexed by letter */
};

static int note(struct work *w, struct lladd_txn *txn, enum kind kind, unsigned list, int what,
                int after)
{
    struct step s = {(unsigned char)kind, (unsigned char)list, (unsigned char)what,
                     (unsigned char)after};
    return w->sim ? lladd_sim_note(w->sim, txn, &s, sizeof s) : 0;
}

/* Sets *root to LLADD_NO_PAGE if the list does not exist. */
static int find(struct lladd_db *db, unsigned which, lladd_pageno *root, struct lladd_error *err)
{
    struct lladd_root_value v;
    int rc = lladd_root_get(db, names[which], &v, err);
    *root = lladd_page_of(rc ? LLADD_NO_PAGE : v.a);
    return rc == LLADD_NOT_FOUND ? 0 : rc;
}

/* ---- the workload ------------------------------------------------------------------------ */

static int make(struct work *w, struct lladd_txn *txn, unsigned which)
{
    lladd_pageno root;
    TRY(lladd_list_create_open(txn, &root, &w->list[which]));
    return lladd_root_set(txn, names[which], (struct lladd_root_value){root.v, 0});
}

/* Inserts an item after `after`, which may be an item of an open transaction. `seen` is the item
 * before the new one in the model, which has no items of open transactions. */
static int insert_at(struct work *w, struct lladd_txn *txn, unsigned list, char what, char after,
                     char seen)
{
    unsigned char bytes[ITEM];
    memset(bytes, what, sizeof bytes);
    TRY(lladd_list_insert(txn, w->list[list],
                          after ? w->item[(unsigned char)after] : LLADD_ITEM_NONE, bytes,
                          sizeof bytes, &w->item[(unsigned char)what]));
    return note(w, txn, INSERT, list, what, seen);
}

static int insert(struct work *w, struct lladd_txn *txn, unsigned list, char what, char after)
{
    return insert_at(w, txn, list, what, after, after);
}

static int drop(struct work *w, struct lladd_txn *txn, unsigned list, char what)
{
    TRY(lladd_list_delete(txn, w->list[list], w->item[(unsigned char)what]));
    return note(w, txn, REMOVE, list, what, 0);
}

static int overwrite(struct work *w, struct lladd_txn *txn, unsigned list, char what, char by)
{
    unsigned char bytes[ITEM];
    memset(bytes, by, sizeof bytes);
    TRY(lladd_list_write(txn, w->list[list], w->item[(unsigned char)what], 0, bytes, sizeof bytes));
    w->item[(unsigned char)by] = w->item[(unsigned char)what];
    return note(w, txn, WRITE, list, what, by);
}

static int fill(struct work *w, struct lladd_txn *txn)
{
    TRY(make(w, txn, 0));
    TRY(make(w, txn, 1));
    TRY(insert(w, txn, 0, 'a', 0));
    TRY(insert(w, txn, 0, 'b', 'a'));
    TRY(insert(w, txn, 0, 'c', 'b'));
    return insert(w, txn, 1, 'p', 0);
}

static void close_all(struct work *w)
{
    for (unsigned i = 0; i < LISTS; i++)
        lladd_list_close(w->list[i]);
}

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct work w = {.db = db, .err = err};
    struct lladd_txn *txn;
    (void)ctx;
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = fill(&w, txn);
    close_all(&w);
    return rc ? ll_sim_give_up(NULL, txn, rc, err) : lladd_commit(txn);
}

/* While this transaction is open, other transactions insert items after the item that it has
 * inserted, and remove items next to it. */
static int stays_open(struct work *w, struct lladd_txn *txn)
{
    TRY(insert(w, txn, 0, 'o', 'b'));
    return drop(w, txn, 0, 'a');
}

static int inserts(struct work *w, struct lladd_txn *txn)
{
    TRY(insert_at(w, txn, 0, 'd', 'o', 'b'));
    TRY(insert(w, txn, 0, 'e', 0));
    TRY(drop(w, txn, 0, 'b'));
    return lladd_sim_commit(w->sim, txn);
}

/* Removes items next to items that were removed before. Then the list sweeps the items that were
 * removed earlier. */
static int sweeps(struct work *w, struct lladd_txn *txn)
{
    TRY(overwrite(w, txn, 0, 'c', 'k'));
    TRY(drop(w, txn, 0, 'd'));
    TRY(drop(w, txn, 0, 'e'));
    return lladd_sim_commit(w->sim, txn);
}

static int rolls_back(struct work *w, struct lladd_txn *txn)
{
    TRY(insert(w, txn, 0, 'x', 0));
    TRY(insert(w, txn, 0, 'y', 'k'));
    TRY(drop(w, txn, 0, 'k'));
    TRY(make(w, txn, 2));
    TRY(insert(w, txn, 2, 'z', 0));
    return lladd_sim_abort(w->sim, txn);
}

/* Inserts at the front, where 'x' was before its insertion was rolled back. */
static int goes_on(struct work *w, struct lladd_txn *txn)
{
    TRY(insert(w, txn, 0, 'f', 0));
    return lladd_sim_commit(w->sim, txn);
}

static int rolls_back_splice(struct work *w, struct lladd_txn *txn)
{
    TRY(insert(w, txn, 1, 'u', 'p'));
    TRY(lladd_list_splice(txn, w->list[1], w->list[2]));
    TRY(insert(w, txn, 1, 'v', 'u'));
    return lladd_sim_abort(w->sim, txn);
}

static int makes(struct work *w, struct lladd_txn *txn)
{
    TRY(make(w, txn, 2));
    TRY(insert(w, txn, 2, 'q', 0));
    return lladd_sim_commit(w->sim, txn);
}

static int splices(struct work *w, struct lladd_txn *txn)
{
    TRY(lladd_list_splice(txn, w->list[1], w->list[2]));
    TRY(note(w, txn, SPLICE, 1, 2, 0));
    TRY(insert(w, txn, 1, 'r', 'q'));
    return lladd_sim_commit(w->sim, txn);
}

static int destroys(struct work *w, struct lladd_txn *txn)
{
    lladd_pageno root;
    TRY(find(w->db, 2, &root, lladd_txn_error_out(txn)));
    TRY(lladd_list_destroy(txn, root));
    TRY(lladd_root_delete(txn, names[2]));
    TRY(note(w, txn, DESTROY, 2, 0, 0));
    return lladd_sim_commit(w->sim, txn);
}

static int in_txn(struct work *w, int (*what)(struct work *, struct lladd_txn *))
{
    struct lladd_txn *txn;
    TRY(lladd_sim_begin(w->sim, w->db, NULL, &txn, w->err));
    int rc = what(w, txn);
    return rc ? ll_sim_give_up(w->sim, txn, rc, w->err) : 0;
}

/* Sets w->item for the items that the list has now. */
static int look(struct work *w, unsigned which)
{
    struct lladd_item at = LLADD_ITEM_NONE;
    unsigned char letter;
    int rc;
    while ((rc = lladd_list_next(w->list[which], at, &at, &letter, 1, NULL, w->err)) == 0)
        w->item[letter & 127] = at;
    return rc == LLADD_END ? 0 : rc;
}

static int run_all(struct work *w)
{
    for (unsigned i = 0; i < 2; i++) {
        lladd_pageno root;
        TRY(find(w->db, i, &root, w->err));
        TRY(lladd_list_open(w->db, root, &w->list[i], w->err));
        TRY(look(w, i));
    }
    TRY(in_txn(w, stays_open));
    TRY(in_txn(w, inserts));
    TRY(in_txn(w, sweeps));
    TRY(lladd_checkpoint(w->db, w->err));
    TRY(in_txn(w, rolls_back));
    lladd_list_close(w->list[2]);
    w->list[2] = NULL;
    TRY(in_txn(w, goes_on));
    TRY(in_txn(w, makes));
    TRY(in_txn(w, rolls_back_splice));
    TRY(in_txn(w, splices));
    return in_txn(w, destroys);
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct work w = {.sim = sim, .db = db, .err = err};
    (void)ctx;
    int rc = run_all(&w);
    close_all(&w);
    return rc;
}

/* ---- dump and check ---------------------------------------------------------------------- */

static int each(struct lladd_db *db, int (*fn)(struct lladd_list *, void *, struct lladd_error *),
                void *arg, struct lladd_error *err)
{
    int rc = 0;
    for (unsigned i = 0; i < LISTS && !rc; i++) {
        struct lladd_list *list;
        lladd_pageno root;
        TRY(find(db, i, &root, err));
        if (root.v == LLADD_NO_PAGE)
            continue;
        TRY(lladd_list_open(db, root, &list, err));
        rc = fn(list, arg, err);
        lladd_list_close(list);
    }
    return rc;
}

/* Writes each item as its letter, and a dot after each list. */
static int write_list(struct lladd_list *list, void *arg, struct lladd_error *err)
{
    struct lladd_item at = LLADD_ITEM_NONE;
    unsigned char bytes[ITEM];
    size_t len;
    int rc;
    while ((rc = lladd_list_next(list, at, &at, bytes, sizeof bytes, &len, err)) == 0) {
        for (size_t i = 0; i < ITEM; i++)
            if (len != ITEM || bytes[i] != bytes[0])
                return lladd_error_set(err, LLADD_BAD_STATE, "an item that was never inserted");
        TRY(lladd_sink_printf(arg, "%c", bytes[0]));
    }
    return rc == LLADD_END ? lladd_sink_printf(arg, ".") : rc;
}

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink, struct lladd_error *err)
{
    (void)ctx;
    return each(db, write_list, sink, err);
}

static int check_list(struct lladd_list *list, void *arg, struct lladd_error *err)
{
    (void)arg;
    return lladd_list_check(list, err);
}

static int check(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    (void)ctx;
    return each(db, check_list, NULL, err);
}

struct give {
    int (*fn)(void *arg, lladd_pageno);
    void *arg;
};

static int give_pages(struct lladd_list *list, void *arg, struct lladd_error *err)
{
    struct give *g = arg;
    return lladd_list_pages(list, g->fn, g->arg, err);
}

static int pages(void *ctx, struct lladd_db *db, int (*fn)(void *, lladd_pageno), void *arg,
                 struct lladd_error *err)
{
    struct give g = {fn, arg};
    (void)ctx;
    return each(db, give_pages, &g, err);
}

/* ---- the model --------------------------------------------------------------------------- */

static void init(void *ctx, void *model)
{
    struct contents *c = model;
    (void)ctx;
    memcpy(c->list[0], "abc.", 5);
    memcpy(c->list[1], "p.", 3);
}

/* In the model, a list that exists ends with a dot. */
static void apply(void *ctx, void *model, struct lladd_span bytes)
{
    struct contents *c = model;
    struct step s;
    (void)ctx;
    memcpy(&s, bytes.data, sizeof s);
    char *l = c->list[s.list], *at;
    if (l[0] == 0)
        memcpy(l, ".", 2);
    switch (s.kind) {
    case INSERT:
        at = s.after ? strchr(l, s.after) + 1 : l;
        memmove(at + 1, at, strlen(at) + 1);
        *at = (char)s.what;
        break;
    case REMOVE:
        at = strchr(l, s.what);
        memmove(at, at + 1, strlen(at));
        break;
    case WRITE:
        *strchr(l, s.what) = (char)s.after;
        break;
    case SPLICE:
        memmove(strchr(l, '.'), c->list[s.what], strlen(c->list[s.what]) + 1);
        memcpy(c->list[s.what], ".", 2);
        break;
    default:
        l[0] = 0;
    }
}

static int model_dump(void *ctx, const void *model, struct lladd_sink *sink)
{
    const struct contents *c = model;
    (void)ctx;
    for (unsigned i = 0; i < LISTS; i++)
        TRY(lladd_sink_printf(sink, "%s", c->list[i]));
    return 0;
}

static void describe(void *ctx, struct lladd_span bytes, struct lladd_sink *sink)
{
    static const char *const kinds[] = {"inserts", "removes", "writes", "splices", "destroys"};
    struct step s;
    (void)ctx;
    memcpy(&s, bytes.data, sizeof s);
    (void)lladd_sink_printf(sink, "%s in list %u: %u, %u", kinds[s.kind % 5], s.list, s.what,
                            s.after);
}

static const char *const operations[] = {"lladd.list.format",
                                         "lladd.list.ends",
                                         "lladd.list.heaps",
                                         "lladd.list.link",
                                         "lladd.list.mark",
                                         "lladd.list.insert",
                                         NULL};
static const struct lladd_sim_excuse excuses[] = {
    {"lladd.list.format", LL_SIM_NO_UNDO, "formatting is not undone: the page was free before"},
    {NULL, 0, NULL}};

const struct lladd_sim_subject ll_sim_subject_lists = {
    .struct_size = sizeof ll_sim_subject_lists,
    .name = "lists",
    .about = "lists: insertions and removals next to each other, splices",
    .setup = setup,
    .run = run,
    .check = check,
    .dump = dump,
    .model_size = sizeof(struct contents),
    .model_init = init,
    .model_apply = apply,
    .model_dump = model_dump,
    .describe = describe,
    .pages = pages,
    .operations = operations,
    .excuses = excuses,
};
