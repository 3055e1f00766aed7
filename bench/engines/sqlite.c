/* SPDX-License-Identifier: BSD-2-Clause */
/* SQLite in WAL mode: a table of integers and blobs, with or without its hidden row id; keys of
 * more than 8 bytes are blobs. All writers share one connection, because only one of them can write
 * at a time; each reader has a connection of its own. */
#include "engine.h"

#include "litestream.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_NAME "bench.sqlite"
#define MMAP_BYTES (UINT64_C(2) << 30)
#define BUSY_MS 60000

struct connection {
    sqlite3 *db;
    sqlite3_stmt *begin, *commit, *abort, *insert, *update, *get, *scan;
};

struct bench_db {
    struct connection writer;
    pthread_mutex_t turn;
    struct bench_setup setup;
    struct bench_litestream *litestream; /* NULL: none */
};

struct bench_thread {
    struct connection c;
    unsigned reads;
};

static int failed(const struct connection *c, const char *what, int rc)
{
    bool fine = rc == SQLITE_OK || rc == SQLITE_DONE || rc == SQLITE_ROW;
    return fine ? 0 : bench_failed("sqlite", what, c->db ? sqlite3_errmsg(c->db) : "no memory");
}

static int step(const struct connection *c, const char *what, sqlite3_stmt *s)
{
    int rc = sqlite3_step(s);
    sqlite3_reset(s);
    return failed(c, what, rc);
}

static int prepare(struct connection *c)
{
    const struct {
        sqlite3_stmt **out;
        const char *text;
    } all[] = {{&c->begin, "begin immediate"},
               {&c->commit, "commit"},
               {&c->abort, "rollback"},
               {&c->insert, "insert into kv values (?, ?)"},
               {&c->update, "update kv set v = ?2 where k = ?1"},
               {&c->get, "select v from kv where k = ?"},
               {&c->scan, "select v from kv where k >= ? order by k limit ?"}};
    int rc = SQLITE_OK;
    for (size_t i = 0; rc == SQLITE_OK && i < sizeof all / sizeof *all; i++)
        rc = sqlite3_prepare_v2(c->db, all[i].text, -1, all[i].out, NULL);
    return rc;
}

static int connect_to(const struct bench_setup *s, bool rowid, struct connection *c)
{
    static const char *const sync[] = {"full", "off", "off"};
    char text[4200];
    uint64_t cache = s->threads > 8 ? UINT64_C(32) << 20 : s->cache_bytes;
    bool cached = s->expected * (s->key_size + s->value_size) < s->cache_bytes;
    snprintf(text, sizeof text, "%s/" FILE_NAME, s->dir);
    int rc = sqlite3_open_v2(text, &c->db,
                             SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                             NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_busy_timeout(c->db, BUSY_MS); /* another connection may lock while it opens */
    snprintf(text, sizeof text,
             "pragma page_size = 4096; pragma journal_mode = wal; pragma synchronous = %s; "
             "pragma cache_size = -%llu; pragma mmap_size = %llu; pragma wal_autocheckpoint = %d; "
             "create table if not exists kv (k %s primary key, v blob)%s",
             sync[s->level], (unsigned long long)cache >> 10,
             cached ? (unsigned long long)MMAP_BYTES : 0, s->keep_log ? 0 : 1000,
             s->key_size > 8 ? "blob" : "integer", rowid ? "" : " without rowid");
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(c->db, text, NULL, NULL, NULL);
    return failed(c, "open", rc == SQLITE_OK ? prepare(c) : rc);
}

static int disconnect(struct connection *c)
{
    sqlite3_stmt *all[] = {c->begin, c->commit, c->abort, c->insert, c->update, c->get, c->scan};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        sqlite3_finalize(all[i]);
    return failed(c, "close", sqlite3_close(c->db));
}

static int open_as(const struct bench_setup *s, bool rowid, struct bench_db **out)
{
    struct bench_db *b = calloc(1, sizeof *b);
    if (!b || pthread_mutex_init(&b->turn, NULL))
        return BENCH_FAILED;
    *out = b;
    b->setup = *s;
    return connect_to(s, rowid, &b->writer);
}

static int open_table(const struct bench_setup *s, struct bench_db **out)
{
    return open_as(s, false, out);
}

static int open_rowid(const struct bench_setup *s, struct bench_db **out)
{
    return open_as(s, true, out);
}

static int checkpoint(struct bench_db *b)
{
    pthread_mutex_lock(&b->turn);
    int rc = sqlite3_wal_checkpoint_v2(b->writer.db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    pthread_mutex_unlock(&b->turn);
    return failed(&b->writer, "checkpoint", rc);
}

/* Without `synchronous = full` the checkpoint would not wait for the disk. */
static int close_it(struct bench_db *b)
{
    int rc = failed(&b->writer, "synchronous",
                    sqlite3_exec(b->writer.db, "pragma synchronous = full", NULL, NULL, NULL));
    rc = rc ? rc : checkpoint(b);
    int closed = disconnect(&b->writer);
    pthread_mutex_destroy(&b->turn);
    free(b);
    return rc ? rc : closed;
}

static int join(struct bench_db *b, struct bench_thread **out)
{
    *out = calloc(1, sizeof **out);
    (void)b;
    return *out ? 0 : BENCH_FAILED;
}

static void leave(struct bench_db *b, struct bench_thread *t)
{
    (void)b;
    if (t->c.db)
        disconnect(&t->c);
    free(t);
}

static int begin(struct bench_db *b, struct bench_thread *t, struct bench_txn **out)
{
    (void)t;
    *out = (struct bench_txn *)b;
    pthread_mutex_lock(&b->turn);
    int rc = step(&b->writer, "begin", b->writer.begin);
    if (rc)
        pthread_mutex_unlock(&b->turn);
    return rc;
}

static int commit(struct bench_db *b, struct bench_txn *txn)
{
    (void)txn;
    int rc = step(&b->writer, "commit", b->writer.commit);
    pthread_mutex_unlock(&b->turn);
    return rc;
}

static int roll_back(struct bench_db *b, struct bench_txn *txn)
{
    (void)txn;
    int rc = step(&b->writer, "rollback", b->writer.abort);
    pthread_mutex_unlock(&b->turn);
    return rc;
}

static void bind_key(const struct bench_db *b, sqlite3_stmt *s, uint64_t key)
{
    unsigned char room[BENCH_KEY_MAX];
    if (b->setup.key_size <= sizeof key) {
        sqlite3_bind_int64(s, 1, (sqlite3_int64)key);
        return;
    }
    bench_digits(room, key, b->setup.key_size);
    sqlite3_bind_blob(s, 1, room, (int)b->setup.key_size, SQLITE_TRANSIENT);
}

static int store(struct bench_db *b, sqlite3_stmt *s, uint64_t key, const void *value)
{
    bind_key(b, s, key);
    sqlite3_bind_blob(s, 2, value, (int)b->setup.value_size, SQLITE_STATIC);
    return step(&b->writer, "put", s);
}

static int insert(struct bench_db *b, struct bench_txn *txn, uint64_t key, const void *value)
{
    (void)txn;
    return store(b, b->writer.insert, key, value);
}

static int update(struct bench_db *b, struct bench_txn *txn, uint64_t key, const void *value)
{
    (void)txn;
    return store(b, b->writer.update, key, value);
}

/* Makes sure that the thread has a connection, in a transaction that is not too old. */
static int want_reader(struct bench_db *b, struct bench_thread *t)
{
    struct connection *c = &t->c;
    int rc = c->db ? 0 : connect_to(&b->setup, true, c);
    if (!rc && t->reads % BENCH_READS == 0 && t->reads > 0)
        rc = step(c, "end of reads", c->commit);
    if (!rc && t->reads++ % BENCH_READS == 0)
        rc = failed(c, "begin reads", sqlite3_exec(c->db, "begin", NULL, NULL, NULL));
    return rc;
}

static int lookup(struct bench_db *b, struct bench_thread *t, uint64_t key, void *value)
{
    const struct connection *c = &t->c;
    int rc = want_reader(b, t);
    if (rc)
        return rc;
    bind_key(b, c->get, key);
    int found = sqlite3_step(c->get);
    if (found == SQLITE_ROW)
        memcpy(value, sqlite3_column_blob(c->get, 0), (size_t)sqlite3_column_bytes(c->get, 0));
    sqlite3_reset(c->get);
    return found == SQLITE_DONE ? BENCH_ABSENT : failed(c, "get", found);
}

static int scan(struct bench_db *b, struct bench_thread *t, uint64_t key, uint32_t n, void *values,
                uint32_t *seen)
{
    const struct connection *c = &t->c;
    *seen = 0;
    int found = 0, rc = want_reader(b, t);
    if (rc)
        return rc;
    bind_key(b, c->scan, key);
    sqlite3_bind_int64(c->scan, 2, n);
    for (; (found = sqlite3_step(c->scan)) == SQLITE_ROW; ++*seen)
        memcpy((char *)values + (size_t)*seen * b->setup.value_size,
               sqlite3_column_blob(c->scan, 0), (size_t)sqlite3_column_bytes(c->scan, 0));
    sqlite3_reset(c->scan);
    return failed(c, "scan", found);
}

/* One step, so that the copy is one snapshot: with several steps, each change by another connection
 * makes the backup begin again. */
static int backup(struct bench_db *b, const char *dir)
{
    struct connection from = {.db = NULL}, to = {.db = NULL};
    char path[4200];
    snprintf(path, sizeof path, "%s/" FILE_NAME, b->setup.dir);
    int rc = sqlite3_open_v2(path, &from.db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    snprintf(path, sizeof path, "%s/" FILE_NAME, dir);
    if (rc == SQLITE_OK)
        rc = sqlite3_open_v2(path, &to.db,
                             SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                             NULL);
    sqlite3_backup *copy =
        rc == SQLITE_OK ? sqlite3_backup_init(to.db, "main", from.db, "main") : NULL;
    if (copy) {
        rc = sqlite3_backup_step(copy, -1);
        int end = sqlite3_backup_finish(copy);
        rc = rc == SQLITE_DONE ? end : rc;
    } else if (rc == SQLITE_OK) {
        rc = sqlite3_errcode(to.db);
    }
    rc = failed(&to, "backup", rc);
    sqlite3_close(to.db);
    sqlite3_close(from.db);
    return rc;
}

/* ---- with Litestream ------------------------------------------------------------------------- */

#ifdef BENCH_LITESTREAM
/* No replication while loading. Otherwise Litestream takes the checkpoints, as its manual
 * recommends for many writes. */
static int open_replicated(const struct bench_setup *s, struct bench_db **out)
{
    int rc = open_as(s, false, out);
    if (rc || s->level != BENCH_DISK)
        return rc;
    struct bench_db *b = *out;
    rc = failed(&b->writer, "autocheckpoint",
                sqlite3_exec(b->writer.db, "pragma wal_autocheckpoint = 0", NULL, NULL, NULL));
    return rc ? rc : bench_litestream_start(s->dir, FILE_NAME, &b->litestream);
}

static int close_replicated(struct bench_db *b)
{
    int rc = b->litestream ? bench_litestream_stop(b->litestream) : 0;
    int closed = close_it(b);
    return rc ? rc : closed;
}

static int snapshot(struct bench_db *b, const char *dir)
{
    (void)dir; /* a snapshot belongs to the replica */
    return bench_litestream_snapshot(b->litestream);
}

static const char *version_replicated(void)
{
    return SQLITE_VERSION ", Litestream " BENCH_LITESTREAM_VERSION;
}
#endif

/* ---- the engines ----------------------------------------------------------------------------- */

#define SETTINGS \
    "WAL; pages of 4 KiB; prepared statements; one connection for all writers, under a mutex, " \
    "one for each reader; a cache of 32 MiB a connection if there are more than 8 threads; mmap " \
    "2 GiB if all records fit the cache; checkpoints after 1000 pages; disk: synchronous = full; " \
    "OS: synchronous = off"
#define SQLITE \
    .log_files = "-wal", .levels = BENCH_AT(BENCH_DISK) | BENCH_AT(BENCH_OS), .join = join, \
    .leave = leave, .begin = begin, .commit = commit, .abort = roll_back, .insert = insert, \
    .update = update, .lookup = lookup, .scan = scan, .records = true, .checkpoint = checkpoint

const struct bench_engine bench_engine_sqlite = {
    SQLITE, .name = "sqlite", .version = sqlite3_libversion, .settings = "without rowid; " SETTINGS,
    .open = open_table, .close = close_it, .backup = backup};
const struct bench_engine bench_engine_sqlite_rowid = {
    SQLITE, .name = "sqlite-rowid", .version = sqlite3_libversion,
    .settings = "with rowid; " SETTINGS, .open = open_rowid, .close = close_it, .backup = backup};
#ifdef BENCH_LITESTREAM
const struct bench_engine bench_engine_sqlite_litestream = {
    SQLITE, .name = "sqlite-litestream", .version = version_replicated,
    .settings = "as sqlite, but Litestream replicates the open database into a directory beside "
                "it, and takes the checkpoints; a backup is a snapshot in the replica; "
                "Litestream's defaults, except busy-timeout: 60s",
    .backups_only = true, .apart = true, .open = open_replicated, .close = close_replicated,
    .backup = snapshot};
#endif
