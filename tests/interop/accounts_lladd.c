/* SPDX-License-Identifier: BSD-2-Clause */
/* Accounts in a hash table of LLADD. LLADD's lock manager isolates the branches. */
#include "accounts.h"

#include <lladd/hash.h>
#include <lladd/lladd.h>
#include <lladd/lock.h>
#include <lladd/pages.h>
#include <lladd/xa.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xa.h>

struct accounts {
    int rmid;
    struct lladd_db *db;
    struct lladd_hash *table;
    lladd_pageno root;
};

static const char root_name[] = "accounts";

static int say(const char *what, int rc, const char *message)
{
    if (rc)
        (void)fprintf(stderr, "%s: %d: %s\n", what, rc, message);
    return rc;
}

const char *accounts_switch(void)
{
    return "lladd_xa_switch";
}

int accounts_register(int rmid, const char *info)
{
    (void)info;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_options *options = calloc(1, sizeof *options); /* never freed */
    if (!options)
        return LLADD_NO_MEMORY;
    *options = (struct lladd_options)LLADD_OPTIONS_INIT;
    int rc = lladd_lock_register(options, &err);
    if (!rc)
        rc = lladd_xa_options(rmid, options);
    return say("registering", rc, err.message);
}

static int put(struct lladd_txn *t, struct lladd_hash *table, int account, int64_t balance)
{
    return lladd_hash_put(t, table, &account, sizeof account, &balance, sizeof balance);
}

static int make(struct lladd_txn *t, struct accounts *a, int n, int64_t balance,
                struct lladd_error *err)
{
    struct lladd_hash_options o = LLADD_HASH_OPTIONS_INIT;
    o.key_size = sizeof(int);
    o.value_size = sizeof(int64_t);
    int rc = lladd_hash_create(t, &o, &a->root);
    struct lladd_root_value v = {.a = a->root.v};
    if (!rc)
        rc = lladd_root_set(t, root_name, v);
    if (!rc)
        rc = lladd_hash_open(a->db, a->root, LLADD_HASH_LOGICAL, &a->table, err);
    for (int i = 0; !rc && i < n; i++)
        rc = put(t, a->table, i, balance);
    return rc;
}

static int create(struct accounts *a, int n, int64_t balance, struct lladd_error *err)
{
    struct lladd_txn *t;
    int rc = lladd_begin(a->db, NULL, &t, err);
    if (rc)
        return rc;
    rc = make(t, a, n, balance, err);
    if (!rc)
        return lladd_commit(t);
    (void)lladd_abort(t); /* the caller gets the earlier error */
    return rc;
}

int accounts_open(int rmid, int n, int64_t balance, struct accounts **out)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_root_value v;
    struct accounts *a = calloc(1, sizeof *a);
    if (!a)
        return LLADD_NO_MEMORY;
    a->rmid = rmid;
    a->db = lladd_xa_db(rmid);
    int rc = lladd_root_get(a->db, root_name, &v, &err);
    if (!rc) {
        a->root = lladd_page_of(v.a);
        rc = lladd_hash_open(a->db, a->root, LLADD_HASH_LOGICAL, &a->table, &err);
    } else if (rc == LLADD_NOT_FOUND) {
        rc = create(a, n, balance, &err);
    }
    *out = a;
    return say("opening the accounts", rc, err.message);
}

static int lock(struct lladd_txn *t, const struct accounts *a, int account, uint64_t wait)
{
    struct lladd_lock_part row = lladd_lock_id((uint64_t)account);
    return lladd_lock_acquire(t, LLADD_LOCK_NAME(lladd_lock_id(a->root.v), row), LLADD_LOCK_X,
                              wait);
}

int accounts_add(struct accounts *a, int account, int64_t delta)
{
    struct lladd_txn *t = lladd_xa_txn(a->rmid);
    int64_t balance = 0;
    int rc = t ? 0 : LLADD_BAD_STATE;
    if (!rc)
        rc = lock(t, a, account, LLADD_LOCK_WAIT);
    if (!rc)
        rc = accounts_read(a, account, &balance);
    if (!rc)
        rc = put(t, a->table, account, balance + delta);
    return say("adding", rc, t ? lladd_txn_error(t)->message : "no branch");
}

int accounts_read(struct accounts *a, int account, int64_t *out)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    size_t len;
    int rc = lladd_hash_get(a->table, &account, sizeof account, out, sizeof *out, &len, &err);
    return say("reading", rc, err.message);
}

int accounts_locked(struct accounts *a, int account)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_txn *t;
    int rc = lladd_begin(a->db, NULL, &t, &err);
    if (rc)
        return say("beginning", rc, err.message);
    rc = lock(t, a, account, LLADD_LOCK_TRY);
    int end = lladd_abort(t);
    if (end)
        return say("ending", end, "");
    return rc == LLADD_BUSY ? 1 : say("locking", rc, "");
}

int accounts_decide(struct accounts *a, int format, int gtrid_length, const char *gtrid,
                    int bqual_length, const char *bqual, int commit)
{
    XID x = {.formatID = format, .gtrid_length = gtrid_length, .bqual_length = bqual_length};
    if (gtrid_length < 0 || gtrid_length > MAXGTRIDSIZE || bqual_length < 0 ||
        bqual_length > MAXBQUALSIZE)
        return XAER_INVAL;
    memcpy(x.data, gtrid, (size_t)gtrid_length);
    memcpy(x.data + gtrid_length, bqual, (size_t)bqual_length);
    return lladd_xa_heuristic(a->rmid, &x, commit ? LLADD_OUTCOME_COMMIT : LLADD_OUTCOME_ABORT);
}
