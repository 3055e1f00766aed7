/* SPDX-License-Identifier: BSD-2-Clause */
/* Accounts in a B-tree of Berkeley DB. After a restart, xa_recover of Berkeley DB returns XIDs that
 * differ from the original ones (README.md). The harness must notice this. */
#include "accounts.h"

#include <db.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct accounts {
    DB_ENV *env;
    DB *plain; /* for transactions outside any branch */
    DB *xa;    /* for the calling thread's branch */
};

static const char file[] = "accounts.db";
static char home[4096]; /* the folder of the environment of the only resource manager in this
                         * process */

static int say(const char *what, int rc)
{
    if (rc)
        (void)fprintf(stderr, "%s: %s\n", what, db_strerror(rc));
    return rc;
}

const char *accounts_switch(void)
{
    return "db_xa_switch";
}

static int open_env(DB_ENV **out, uint32_t more)
{
    int rc = db_env_create(out, 0);
    if (!rc)
        rc = (*out)->open(*out, home,
                          DB_CREATE | DB_INIT_LOCK | DB_INIT_LOG | DB_INIT_MPOOL | DB_INIT_TXN |
                              DB_THREAD | more,
                          0600);
    return rc;
}

/* Runs recovery, as an administrator does before any process opens the environment. */
int accounts_register(int rmid, const char *info)
{
    (void)rmid;
    DB_ENV *env;
    if (snprintf(home, sizeof home, "%s", info) >= (int)sizeof home)
        return ENAMETOOLONG;
    int rc = open_env(&env, DB_RECOVER);
    if (!rc)
        rc = env->close(env, 0);
    return say("recovering", rc);
}

static void slice(DBT *t, void *data, uint32_t len)
{
    memset(t, 0, sizeof *t);
    t->data = data;
    t->size = t->ulen = len;
    t->flags = DB_DBT_USERMEM;
}

static int put(DB *db, DB_TXN *txn, int account, int64_t balance)
{
    DBT key, value;
    slice(&key, &account, sizeof account);
    slice(&value, &balance, sizeof balance);
    return db->put(db, txn, &key, &value, 0);
}

static int get(DB *db, DB_TXN *txn, int account, int64_t *out, uint32_t flags)
{
    DBT key, value;
    slice(&key, &account, sizeof account);
    slice(&value, out, sizeof *out);
    return db->get(db, txn, &key, &value, flags);
}

/* Makes the accounts, unless they exist. If account 0 is locked, the accounts exist: a branch in
 * doubt has changed account 0. */
static int fill(struct accounts *a, int n, int64_t balance)
{
    DB_TXN *txn;
    int64_t is;
    int rc = a->env->txn_begin(a->env, NULL, &txn, DB_TXN_NOWAIT);
    if (rc)
        return rc;
    if (get(a->plain, txn, 0, &is, 0) != DB_NOTFOUND)
        return txn->abort(txn);
    for (int i = 0; !rc && i < n; i++)
        rc = put(a->plain, txn, i, balance);
    return rc ? rc : txn->commit(txn, 0);
}

int accounts_open(int rmid, int n, int64_t balance, struct accounts **out)
{
    (void)rmid;
    struct accounts *a = calloc(1, sizeof *a);
    if (!a)
        return ENOMEM;
    int rc = open_env(&a->env, 0);
    if (!rc)
        rc = db_create(&a->plain, a->env, 0);
    if (!rc)
        rc = a->plain->open(a->plain, NULL, file, NULL, DB_BTREE,
                            DB_CREATE | DB_AUTO_COMMIT | DB_THREAD, 0600);
    if (!rc)
        rc = fill(a, n, balance);
    if (!rc)
        rc = db_create(&a->xa, NULL, DB_XA_CREATE);
    if (!rc)
        rc = a->xa->open(a->xa, NULL, file, NULL, DB_BTREE, DB_AUTO_COMMIT | DB_THREAD, 0600);
    *out = a;
    return say("opening the accounts", rc);
}

int accounts_add(struct accounts *a, int account, int64_t delta)
{
    int64_t balance;
    int rc = get(a->xa, NULL, account, &balance, DB_RMW);
    if (!rc)
        rc = put(a->xa, NULL, account, balance + delta);
    return say("adding", rc);
}

static int look(struct accounts *a, int account, int64_t *out, uint32_t flags)
{
    DB_TXN *txn;
    int rc = a->env->txn_begin(a->env, NULL, &txn, DB_TXN_NOWAIT);
    if (rc)
        return rc;
    rc = get(a->plain, txn, account, out, flags);
    int end = txn->abort(txn);
    return rc ? rc : end;
}

int accounts_read(struct accounts *a, int account, int64_t *out)
{
    return say("reading", look(a, account, out, 0));
}

int accounts_locked(struct accounts *a, int account)
{
    int64_t balance;
    int rc = look(a, account, &balance, DB_RMW);
    return rc == DB_LOCK_NOTGRANTED || rc == DB_LOCK_DEADLOCK ? 1 : say("locking", rc);
}

int accounts_decide(struct accounts *a, int format, int gtrid_length, const char *gtrid,
                    int bqual_length, const char *bqual, int commit)
{
    (void)a, (void)format, (void)gtrid_length, (void)gtrid, (void)bqual_length, (void)bqual;
    (void)commit;
    return ENOTSUP; /* Berkeley DB has no heuristic decisions */
}
