/* SPDX-License-Identifier: BSD-2-Clause */
/* locked_table DIR: a hash table with serialisable transactions.
 *
 * The table keeps its pages consistent; locks isolate transactions. Each key has a lock name below
 * the table's name, whether the key exists or not. So a transaction that has looked up an absent
 * key keeps others from inserting the key. Four threads move money between accounts and open new
 * accounts, while the main thread repeatedly adds up all accounts; the sum never changes. */
#include <lladd/hash.h>
#include <lladd/lock.h>
#include <lladd/records.h>
#include <lladd/sync.h>

#include <stdio.h>
#include <string.h>

enum { ACCOUNTS = 20, THREADS = 4, MOVES = 100, START = 100 };

#define TRY(call) \
    do { \
        int try_rc = (call); \
        if (try_rc) \
            return try_rc; \
    } while (0)

struct bank {
    struct lladd_db *db;
    struct lladd_hash *table;
    uint64_t name; /* the table's lock name: the number of its root page */
};

/* [locked] Lock the key, then use the table. */
static int lock_key(struct lladd_txn *txn, const struct bank *b, uint64_t key,
                    enum lladd_lock_mode mode)
{
    return lladd_lock_acquire(txn, LLADD_LOCK_NAME(lladd_lock_id(b->name), lladd_lock_id(key)),
                              mode, LLADD_LOCK_WAIT);
}

/* U, not S: only one transaction at a time may read an account in order to change it. With S, two
 * transactions could read it, and would then deadlock when both wait for X. */
static int read_key(struct lladd_txn *txn, const struct bank *b, uint64_t key, int64_t *value)
{
    size_t len;
    TRY(lock_key(txn, b, key, LLADD_LOCK_U));
    int rc = lladd_hash_get(b->table, &key, sizeof key, value, sizeof *value, &len,
                            lladd_txn_error_out(txn));
    if (rc == LLADD_NOT_FOUND)
        *value = 0;
    return rc == LLADD_NOT_FOUND ? 0 : rc;
}

static int write_key(struct lladd_txn *txn, const struct bank *b, uint64_t key, int64_t value)
{
    TRY(lock_key(txn, b, key, LLADD_LOCK_X));
    return lladd_hash_put(txn, b->table, &key, sizeof key, &value, sizeof value);
}
/* [/locked] */

/* [protect] Takes the lock of a logged change again, for a transaction that a crash has
 * interrupted. */
static int protect(void *ctx, struct lladd_txn *txn, const struct lladd_log_entry *e)
{
    lladd_pageno root;
    struct lladd_span key;
    uint64_t account;
    (void)ctx;
    if (!lladd_hash_logged_key(e, &root, &key) || key.len != sizeof account)
        return LLADD_NOT_FOUND;
    memcpy(&account, key.data, sizeof account);
    return lladd_lock_acquire(txn, LLADD_LOCK_NAME(lladd_lock_id(root.v), lladd_lock_id(account)),
                      LLADD_LOCK_X, LLADD_LOCK_TRY);
}

static const struct lladd_participant accounts = {
    .struct_size = sizeof accounts,
    .name = "bank.accounts",
    .version = 1,
    .protect = protect,
};
/* [/protect] */

static int move(struct lladd_txn *txn, const struct bank *b, uint64_t from, uint64_t to)
{
    int64_t have, had;
    TRY(read_key(txn, b, from, &have));
    TRY(read_key(txn, b, to, &had));
    if (have < 1 || from == to)
        return 0;
    TRY(write_key(txn, b, from, have - 1));
    return write_key(txn, b, to, had + 1);
}

/* [retry] Retries a transaction after an error with the root RETRY, for example a deadlock or a
 * full log. */
static int move_until_done(const struct bank *b, uint64_t from, uint64_t to,
                           struct lladd_error *err)
{
    for (;;) {
        struct lladd_txn *txn;
        TRY(lladd_begin(b->db, NULL, &txn, err));
        int rc = move(txn, b, from, to);
        if (!rc)
            return lladd_commit(txn);
        *err = *lladd_txn_error(txn);
        TRY(lladd_abort(txn));
        if (lladd_code_root(rc) != LLADD_ROOT_RETRY)
            return rc;
    }
}
/* [/retry] */

/* [audit] To read the whole table, lock the table: S on the table includes S on every key, existing
 * or not. */
static int add_up(const struct bank *b, int64_t *money, struct lladd_error *err)
{
    struct lladd_txn_options o = LLADD_TXN_OPTIONS_INIT;
    struct lladd_hash_cursor walk = {0};
    struct lladd_span key, value;
    struct lladd_txn *txn;
    o.read_only = true;
    *money = 0;
    TRY(lladd_begin(b->db, &o, &txn, err));
    int rc = lladd_lock_acquire(txn, LLADD_LOCK_NAME(lladd_lock_id(b->name)), LLADD_LOCK_S,
                        LLADD_LOCK_WAIT);
    if (rc)
        *err = *lladd_txn_error(txn);
    while (!rc && !(rc = lladd_hash_cursor_next(b->table, &walk, &key, &value, err))) {
        int64_t one;
        memcpy(&one, value.data, sizeof one);
        *money += one;
    }
    lladd_hash_cursor_close(b->table, &walk);
    int ended = lladd_commit(txn);
    return rc == LLADD_END ? ended : rc;
}
/* [/audit] */

/* ---- the demonstration ----------------------------------------------------------------------- */

struct clerk {
    const struct bank *bank;
    uint64_t number;
    struct lladd_thread thread;
    struct lladd_error err;
    int rc;
};

static void *work(void *arg)
{
    struct clerk *c = arg;
    for (uint64_t i = 0; !c->rc && i < MOVES; i++) {
        uint64_t from = (i * 7 + c->number * 3) % ACCOUNTS, to = (i * 11 + c->number) % ACCOUNTS;
        c->rc = move_until_done(c->bank, from, to, &c->err);
    }
    return NULL;
}

static int make_table(struct lladd_db *db, lladd_pageno *root, struct lladd_error *err)
{
    struct lladd_hash_options o = LLADD_HASH_OPTIONS_INIT;
    struct lladd_root_value value;
    struct lladd_txn *txn;
    int rc = lladd_root_get(db, "accounts", &value, err);
    *root = lladd_page_of(rc ? 0 : value.a);
    if (rc != LLADD_NOT_FOUND)
        return rc;
    TRY(lladd_begin(db, NULL, &txn, err));
    o.key_size = o.value_size = 8;
    rc = lladd_hash_create(txn, &o, root);
    if (!rc)
        rc = lladd_root_set(txn, "accounts", (struct lladd_root_value){root->v, 0});
    if (!rc)
        return lladd_commit(txn);
    *err = *lladd_txn_error(txn);
    TRY(lladd_abort(txn));
    return rc;
}

/* Every second account has money; the others do not exist yet. */
static int fill(const struct bank *b, struct lladd_error *err)
{
    struct lladd_txn *txn;
    int rc = 0;
    TRY(lladd_begin(b->db, NULL, &txn, err));
    for (uint64_t key = 0; !rc && key < ACCOUNTS; key++)
        rc = write_key(txn, b, key, key % 2 ? 0 : START);
    for (uint64_t key = 1; !rc && key < ACCOUNTS; key += 2)
        rc = lladd_hash_delete(txn, b->table, &key, sizeof key);
    if (!rc)
        return lladd_commit(txn);
    *err = *lladd_txn_error(txn);
    TRY(lladd_abort(txn));
    return rc;
}

static int work_together(const struct bank *b, struct lladd_error *err)
{
    static struct clerk clerks[THREADS];
    int rc = 0;
    for (uint64_t i = 0; !rc && i < THREADS; i++) {
        clerks[i] = (struct clerk){.bank = b, .number = i};
        rc = lladd_thread_start(&clerks[i].thread, work, &clerks[i]);
    }
    for (int i = 0; !rc && i < 20; i++) {
        int64_t money;
        rc = add_up(b, &money, err);
        if (!rc && money != (int64_t)ACCOUNTS / 2 * START)
            rc = lladd_error_set(err, LLADD_BUG, "there are %lld", (long long)money);
    }
    for (int i = 0; i < THREADS; i++) {
        lladd_thread_join(&clerks[i].thread);
        if (clerks[i].rc && !rc) {
            rc = clerks[i].rc;
            *err = clerks[i].err;
        }
    }
    return rc;
}

static int run(struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_lock_stats stats = {.struct_size = sizeof stats};
    struct bank b = {.db = db};
    lladd_pageno root;
    int64_t before = 0, after = 0;
    TRY(make_table(db, &root, err));
    b.name = root.v;
    TRY(lladd_hash_open(db, root, LLADD_HASH_LOGICAL, &b.table, err));
    int rc = fill(&b, err);
    if (!rc)
        rc = add_up(&b, &before, err);
    if (!rc)
        rc = work_together(&b, err);
    if (!rc)
        rc = add_up(&b, &after, err);
    lladd_hash_close(b.table);
    if (rc)
        return rc;
    printf("before: %lld\nafter %d moves: %lld\n", (long long)before, THREADS * MOVES,
           (long long)after);
    TRY(lladd_lock_stats_get(db, &stats, err));
    printf("locked now: %llu\n", (unsigned long long)stats.holds);
    return 0;
}

int main(int argc, char **argv)
{
    struct lladd_options options = LLADD_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_db *db;
    options.durability = LLADD_DURABLE_OS;
    options.recovery = LLADD_RECOVER_INSTANT;
    int rc = lladd_lock_register(&options, &err);
    if (!rc)
        rc = lladd_register_participant(&options, &accounts, &err);
    if (!rc)
        rc = lladd_open(argc > 1 ? argv[1] : "locked_table.db", &options, &db, &err);
    if (!rc) {
        rc = run(db, &err);
        int closed = lladd_close(db);
        rc = rc ? rc : closed;
    }
    lladd_options_release(&options);
    if (rc)
        fprintf(stderr, "%s: %s\n", lladd_code_name(rc), err.message);
    return rc != 0;
}
