/* SPDX-License-Identifier: BSD-2-Clause */
/* Berkeley DB: a transactional environment in one process, with logging, set up as in Berkeley DB's
 * own tutorial. Its cache is as large as this library's. DB_HASH has native integers as keys;
 * DB_RECNO and DB_QUEUE count from 1. */
#include "engine.h"

#include <db.h>
#include <stdio.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct bench_db {
    DB_ENV *env;
    DB *db;
    struct bench_setup setup;
    DBTYPE type;
};

static const char *version(void)
{
    static char text[32];
    int major, minor, patch;
    db_version(&major, &minor, &patch);
    snprintf(text, sizeof text, "%d.%d.%d", major, minor, patch);
    return text;
}

static int failed(const char *what, int rc)
{
    if (rc == 0)
        return 0;
    if (rc == DB_LOCK_DEADLOCK)
        return BENCH_AGAIN;
    return bench_failed("bdb", what, db_strerror(rc));
}

static int open_env(struct bench_db *b, const struct bench_setup *s)
{
    /* Recovery rewrites the end of the log even after a clean close, so it runs only for workloads
     * that kill the process. */
    const u_int32_t flags = DB_CREATE | DB_INIT_LOCK | DB_INIT_LOG | DB_INIT_MPOOL | DB_INIT_TXN |
                            DB_PRIVATE | DB_THREAD | (s->keep_log ? DB_RECOVER : 0);
    static const u_int32_t levels[] = {0, DB_TXN_WRITE_NOSYNC, DB_TXN_NOSYNC};
    int rc = db_env_create(&b->env, 0);
    if (!rc)
        rc = b->env->set_cachesize(b->env, (u_int32_t)(s->cache_bytes >> 30),
                                   (u_int32_t)(s->cache_bytes & ((1u << 30) - 1)), 1);
    if (!rc)
        rc = b->env->set_lg_bsize(b->env, 16u << 20);
    if (!rc)
        rc = b->env->set_lg_max(b->env, 64u << 20);
    if (!rc)
        rc = b->env->set_lk_detect(b->env, DB_LOCK_DEFAULT);
    if (!rc)
        rc = b->env->set_lk_max_locks(b->env, 1000000);
    if (!rc)
        rc = b->env->set_lk_max_objects(b->env, 1000000);
    if (!rc)
        rc = b->env->set_lk_max_lockers(b->env, 10000);
    if (!rc)
        rc = b->env->set_tx_max(b->env, 1000);
    if (!rc)
        rc = b->env->log_set_config(b->env, DB_LOG_ZERO, s->txn_ops < BENCH_BULK);
    if (!rc)
        rc = b->env->set_flags(b->env, levels[s->level], levels[s->level] != 0);
    return rc ? rc : b->env->open(b->env, s->dir, flags, 0600);
}

static bool numbered(const struct bench_db *b)
{
    return b->type == DB_RECNO || b->type == DB_QUEUE;
}

static int open_db(struct bench_db *b, bool presized)
{
    const struct bench_setup *s = &b->setup;
    int rc = db_create(&b->db, b->env, 0);
    if (!rc)
        rc = b->db->set_pagesize(b->db, 4096);
    if (!rc && presized)
        rc = b->db->set_h_nelem(b->db, (u_int32_t)s->expected);
    if (!rc && presized)
        rc = b->db->set_h_ffactor(b->db, 4096 * 8 / 10 / (s->key_size + s->value_size + 6));
    if (!rc && numbered(b))
        rc = b->db->set_re_len(b->db, s->value_size);
    return rc ? rc
              : b->db->open(b->db, NULL, "bench.db", NULL, b->type,
                            DB_CREATE | DB_AUTO_COMMIT | DB_THREAD, 0600);
}

static int open_as(const struct bench_setup *s, DBTYPE type, bool presized, struct bench_db **out)
{
    struct bench_db *b = calloc(1, sizeof *b);
    if (!b)
        return BENCH_FAILED;
    b->setup = *s;
    b->type = type;
    int rc = open_env(b, s);
    if (!rc)
        rc = open_db(b, presized);
    *out = b;
    return failed("open", rc);
}

static int open_hash(const struct bench_setup *s, struct bench_db **out)
{
    return open_as(s, DB_HASH, false, out);
}

static int open_presized(const struct bench_setup *s, struct bench_db **out)
{
    return open_as(s, DB_HASH, true, out);
}

static int open_btree(const struct bench_setup *s, struct bench_db **out)
{
    return open_as(s, DB_BTREE, false, out);
}

static int open_recno(const struct bench_setup *s, struct bench_db **out)
{
    return open_as(s, DB_RECNO, false, out);
}

static int open_queue(const struct bench_setup *s, struct bench_db **out)
{
    return open_as(s, DB_QUEUE, false, out);
}

static int close_all(struct bench_db *b)
{
    int rc = b->env->txn_checkpoint(b->env, 0, 0, DB_FORCE);
    int closed = b->db->close(b->db, 0);
    rc = rc ? rc : closed;
    closed = b->env->close(b->env, 0);
    free(b);
    return failed("close", rc ? rc : closed);
}

static int begin(struct bench_db *b, struct bench_thread *t, struct bench_txn **out)
{
    DB_TXN *txn = NULL;
    (void)t;
    int rc = b->env->txn_begin(b->env, NULL, &txn, 0);
    *out = (struct bench_txn *)txn;
    return failed("begin", rc);
}

static int commit(struct bench_db *b, struct bench_txn *txn)
{
    (void)b;
    return failed("commit", ((DB_TXN *)txn)->commit((DB_TXN *)txn, 0));
}

static int roll_back(struct bench_db *b, struct bench_txn *txn)
{
    (void)b;
    return failed("abort", ((DB_TXN *)txn)->abort((DB_TXN *)txn));
}

/* Record numbers begin with 1. A tree compares bytes, so its keys are big-endian, or digits. `room`
 * has BENCH_KEY_MAX bytes. */
static DBT key_of(const struct bench_db *b, uint64_t key, unsigned char *room)
{
    DBT k;
    memset(&k, 0, sizeof k);
    k.data = room;
    k.size = numbered(b) ? (u_int32_t)sizeof(db_recno_t) : b->setup.key_size;
    k.ulen = BENCH_KEY_MAX;
    k.flags = DB_DBT_USERMEM;
    key += numbered(b);
    if (b->type == DB_BTREE || k.size > sizeof key)
        bench_digits(room, key, b->setup.key_size);
    else
        memcpy(room, &key, sizeof key);
    return k;
}

static DBT value_of(const struct bench_db *b, const void *value)
{
    DBT v;
    memset(&v, 0, sizeof v);
    v.data = (void *)(uintptr_t)value;
    v.size = v.ulen = b->setup.value_size;
    v.flags = DB_DBT_USERMEM;
    return v;
}

static int insert(struct bench_db *b, struct bench_txn *txn, uint64_t key, const void *value)
{
    unsigned char room[BENCH_KEY_MAX];
    DBT k = key_of(b, key, room), v = value_of(b, value);
    return failed("put", b->db->put(b->db, (DB_TXN *)txn, &k, &v, DB_NOOVERWRITE));
}

static int update(struct bench_db *b, struct bench_txn *txn, uint64_t key, const void *value)
{
    unsigned char room[BENCH_KEY_MAX];
    DBT k = key_of(b, key, room), v = value_of(b, value);
    return failed("put", b->db->put(b->db, (DB_TXN *)txn, &k, &v, 0));
}

static int lookup(struct bench_db *b, struct bench_thread *t, uint64_t key, void *value)
{
    (void)t;
    unsigned char room[BENCH_KEY_MAX];
    DBT k = key_of(b, key, room), v = value_of(b, value);
    int rc = b->db->get(b->db, NULL, &k, &v, 0);
    return rc == DB_NOTFOUND || rc == DB_KEYEMPTY ? BENCH_ABSENT : failed("get", rc);
}

static int scan(struct bench_db *b, struct bench_thread *t, uint64_t key, uint32_t n, void *values,
                uint32_t *seen)
{
    (void)t;
    unsigned char room[BENCH_KEY_MAX];
    DBC *c = NULL;
    DBT k = key_of(b, key, room);
    *seen = 0;
    int rc = b->db->cursor(b->db, NULL, &c, 0);
    if (rc)
        return failed("cursor", rc);
    while (!rc && *seen < n) {
        DBT v = value_of(b, (char *)values + (size_t)*seen * b->setup.value_size);
        rc = c->get(c, &k, &v, *seen ? DB_NEXT : DB_SET_RANGE);
        *seen += rc == 0;
    }
    int closed = c->close(c);
    return failed("scan", rc && rc != DB_NOTFOUND ? rc : closed);
}

static int fill(struct bench_db *b, struct bench_txn *txn, uint64_t first, uint64_t count,
                const void *values)
{
    int rc = 0;
    for (uint64_t i = 0; !rc && i < count; i++)
        rc = update(b, txn, first + i, (const char *)values + i * b->setup.value_size);
    return rc;
}

static int checkpoint(struct bench_db *b)
{
    return failed("checkpoint", b->env->txn_checkpoint(b->env, 0, 0, DB_FORCE));
}

static void io(struct bench_db *b, uint64_t *log_bytes, uint64_t *pages_read,
               uint64_t *pages_written)
{
    DB_LOG_STAT *log = NULL;
    DB_MPOOL_STAT *pool = NULL;
    if (b->env->log_stat(b->env, &log, 0) == 0 && log)
        *log_bytes = (uint64_t)log->st_w_mbytes << 20 | log->st_w_bytes;
    if (b->env->memp_stat(b->env, &pool, NULL, 0) == 0 && pool) {
        *pages_read = pool->st_page_in;
        *pages_written = pool->st_page_out;
    }
    free(log);
    free(pool);
}

static int backup(struct bench_db *b, const char *dir)
{
    return failed("backup", b->env->backup(b->env, dir, 0));
}

#define SETTINGS \
    "private environment; locks, log, transactions; pages of 4 KiB; log buffer 16 MiB, log files " \
    "of 64 MiB, zeroed ahead (DB_LOG_ZERO) for small transactions; reads without a transaction; " \
    "OS: DB_TXN_WRITE_NOSYNC; process: DB_TXN_NOSYNC"
#define ENGINE(symbol, text, opens, fills, scans, only_numbers) \
    const struct bench_engine bench_engine_##symbol = { \
        .name = text, \
        .version = version, \
        .settings = SETTINGS, \
        .levels = BENCH_AT_ALL, \
        .numbered = only_numbers, \
        .open = opens, \
        .close = close_all, \
        .begin = begin, \
        .commit = commit, \
        .abort = roll_back, \
        .insert = insert, \
        .update = update, \
        .lookup = lookup, \
        .scan = scans, \
        .records = only_numbers, \
        .fill = fills, \
        .checkpoint = checkpoint, \
        .backup = backup, \
        .io = io, \
    };
ENGINE(bdb_hash, "bdb-hash", open_hash, NULL, NULL, false)
ENGINE(bdb_hash_presized, "bdb-hash-presized", open_presized, NULL, NULL, false)
ENGINE(bdb_btree, "bdb-btree", open_btree, NULL, scan, false)
ENGINE(bdb_recno, "bdb-recno", open_recno, fill, NULL, true)
ENGINE(bdb_queue, "bdb-queue", open_queue, fill, NULL, true)
