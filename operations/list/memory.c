/* SPDX-License-Identifier: BSD-2-Clause */
/* The extension, and lists in memory: one for each root page that is open, or that an open
 * transaction has created or spliced. See list.c. */
#include "operations/list/list.h"

/* A transaction that has created or spliced these lists. */
struct ll_list_changer {
    struct ll_txn_part owner;
    struct ll_lists *lists;
    struct lladd_list **list;
    size_t n, cap;
};

/* ---- lists in memory ------------------------------------------------------------------------- */

void ll_operations__list_drop(struct ll_lists *ls, struct lladd_list *l)
{
    lladd_mutex_lock(&ls->mutex);
    bool last = --l->refs == 0;
    for (struct lladd_list **at = &ls->first; last && *at; at = &(*at)->next) {
        if (*at == l) {
            *at = l->next;
            break;
        }
    }
    lladd_mutex_unlock(&ls->mutex);
    if (last) {
        lladd_mutex_destroy(&l->change);
        lladd_mem_free(ls->db, l);
    }
}

int ll_operations__list_take(struct ll_lists *ls, lladd_pageno root, struct lladd_list **out,
                             struct lladd_error *err)
{
    struct lladd_list *fresh = lladd_mem_alloc(ls->db, sizeof *fresh), *l;
    if (!fresh)
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for a list");
    *fresh = (struct lladd_list){.lists = ls, .root = root, .refs = 1};
    int rc = lladd_mutex_init(&fresh->change, LL_OPERATIONS_RANK_LIST, "list");
    if (rc) {
        lladd_mem_free(ls->db, fresh);
        return lladd_error_set(err, rc, "out of memory for a list");
    }
    lladd_mutex_lock(&ls->mutex);
    for (l = ls->first; l && l->root.v != root.v; l = l->next) {
    }
    if (l) {
        l->refs++;
    } else {
        fresh->next = ls->first;
        ls->first = fresh;
    }
    lladd_mutex_unlock(&ls->mutex);
    if (l) {
        lladd_mutex_destroy(&fresh->change);
        lladd_mem_free(ls->db, fresh);
    }
    *out = l ? l : fresh;
    return 0;
}

/* ---- the transaction that has a list alone --------------------------------------------------- */

static void changer_drop(struct ll_txn_part *part)
{
    struct ll_list_changer *c = (struct ll_list_changer *)part;
    struct ll_lists *ls = c->lists;
    for (size_t i = 0; i < c->n; i++) {
        lladd_mutex_lock(&ls->mutex);
        if (c->list[i]->alone == c)
            c->list[i]->alone = NULL;
        lladd_mutex_unlock(&ls->mutex);
        ll_operations__list_drop(ls, c->list[i]);
    }
    lladd_mem_free(ls->db, c->list);
}

/* The commit record has its LSN, so transactions that change the list from now on log at higher
 * LSNs. */
static void changer_logged(void *ctx, void *state, lladd_lsn commit)
{
    struct ll_list_changer *c = state;
    (void)ctx;
    (void)commit;
    lladd_mutex_lock(&c->lists->mutex);
    for (size_t i = 0; i < c->n; i++)
        if (c->list[i]->alone == c)
            c->list[i]->alone = NULL;
    lladd_mutex_unlock(&c->lists->mutex);
}

const struct lladd_participant ll_operations__list_participant = {
    .struct_size = sizeof(struct lladd_participant),
    .name = "lladd.lists",
    .version = 1,
    .logged = changer_logged,
    .durable = ll_operations__owner_durable,
    .aborted = ll_operations__owner_aborted,
};

static int changer_of(struct lladd_txn *txn, struct ll_lists *ls, struct ll_list_changer **out)
{
    struct ll_txn_part *owner;
    TRY(ll_operations__owner_of(txn, &ll_operations__list_participant, &ls->changers,
                                sizeof(struct ll_list_changer), "a list", &owner));
    struct ll_list_changer *c = (struct ll_list_changer *)owner;
    c->lists = ls;
    if (ll_operations__grow(ls->db, &c->list, c->n + 1, &c->cap, sizeof(struct lladd_list *)))
        return lladd_error_set(lladd_txn_error_out(txn), LLADD_NO_MEMORY,
                               "out of memory for a list");
    *out = c;
    return 0;
}

bool ll_operations__list_is_alone(struct lladd_txn *txn, struct lladd_list *l)
{
    const void *c = lladd_txn_joined(txn, &ll_operations__list_participant);
    lladd_mutex_lock(&l->lists->mutex);
    bool is = c && l->alone == c;
    lladd_mutex_unlock(&l->lists->mutex);
    return is;
}

int ll_operations__list_stay_alone(struct lladd_txn *txn, struct ll_lists *ls, lladd_pageno root)
{
    struct ll_list_changer *c = NULL;
    struct lladd_list *l = NULL;
    TRY(changer_of(txn, ls, &c));
    TRY(ll_operations__list_take(ls, root, &l, lladd_txn_error_out(txn)));
    lladd_mutex_lock(&ls->mutex);
    bool was = l->alone == c;
    l->alone = c;
    lladd_mutex_unlock(&ls->mutex);
    if (was)
        ll_operations__list_drop(ls, l);
    else
        c->list[c->n++] = l;
    return 0;
}

void ll_operations__list_share(struct lladd_txn *txn, struct lladd_list *l)
{
    const void *c = lladd_txn_joined(txn, &ll_operations__list_participant);
    lladd_mutex_lock(&l->lists->mutex);
    if (c && l->alone == c)
        l->alone = NULL;
    lladd_mutex_unlock(&l->lists->mutex);
}

/* ---- open and close -------------------------------------------------------------------------- */

static const struct lladd_op *const ops[] = {
    [LL_LIST_FORMAT] = &ll_operations__list_format,
    [LL_LIST_ENDS] = &ll_operations__list_ends,
    [LL_LIST_HEAPS] = &ll_operations__list_heaps,
    [LL_LIST_LINK] = &ll_operations__list_link,
    [LL_LIST_MARK] = &ll_operations__list_mark,
    [LL_LIST_INSERT] = &ll_operations__list_insert,
    [LL_LIST_OPS] = NULL,
};
static const struct lladd_page_type *const page_types[] = {&ll_operations__list_page, NULL};
static const struct lladd_participant *const participants[] = {&ll_operations__list_participant,
                                                               NULL};

lladd_op_id ll_operations__list_id(struct ll_lists *ls, enum ll_list_op op)
{
    return ll_operations__nth_op(ls->db, &ls->first_op, ops[0], (unsigned)op);
}

static int attach(void *ctx, struct lladd_db *db, void **state, struct lladd_error *err)
{
    (void)ctx;
    int rc = ll_operations__state_new(db, sizeof(struct ll_lists), offsetof(struct ll_lists, mutex),
                                      offsetof(struct ll_lists, changers), changer_drop, "lists",
                                      state, err);
    if (!rc)
        ((struct ll_lists *)*state)->db = db;
    return rc;
}

static void detach(void *ctx, struct lladd_db *db, void *state)
{
    (void)ctx;
    struct ll_lists *ls = state;
    ll_operations__owners_end(&ls->changers);
    while (ls->first)
        ll_operations__list_drop(ls, ls->first);
    ll_operations__state_free(db, ls, offsetof(struct ll_lists, mutex));
}

const struct lladd_extension ll_operations__list_extension = {
    .struct_size = sizeof(struct lladd_extension),
    .name = "lladd.list",
    .version = 1,
    .ops = ops,
    .page_types = page_types,
    .participants = participants,
    .attach = attach,
    .detach = detach,
};
