/* SPDX-License-Identifier: BSD-2-Clause */
/* LMDB: native integer keys of 4 and 8 bytes, longer keys as digits; one writer at a time; each
 * reader has a snapshot, which it renews after BENCH_READS lookups or scans. LMDB has no log: a
 * transaction changes copies of pages, and its commit writes the copies. */
#include "engine.h"

#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAP_BYTES (UINT64_C(16) << 30)

struct bench_db {
    MDB_env *env;
    MDB_dbi dbi;
    struct bench_setup setup;
};

struct bench_thread {
    MDB_txn *reader;
    MDB_cursor *cursor; /* of `reader`, for scans */
    unsigned reads;
};

static const char *version(void)
{
    static char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", MDB_VERSION_MAJOR, MDB_VERSION_MINOR,
             MDB_VERSION_PATCH);
    return text;
}

static int failed(const char *what, int rc)
{
    if (rc == MDB_NOTFOUND)
        return BENCH_ABSENT;
    return rc ? bench_failed("lmdb", what, mdb_strerror(rc)) : 0;
}

static int open_it(const struct bench_setup *s, struct bench_db **out)
{
    static const unsigned sync[] = {0, MDB_NOSYNC, MDB_NOSYNC | MDB_WRITEMAP | MDB_MAPASYNC};
    struct bench_db *b = calloc(1, sizeof *b);
    MDB_txn *txn = NULL;
    if (!b)
        return BENCH_FAILED;
    *out = b;
    b->setup = *s;
    const unsigned keys = s->key_size <= sizeof(uint64_t) ? MDB_INTEGERKEY : 0;
    int rc = mdb_env_create(&b->env);
    if (!rc)
        rc = mdb_env_set_mapsize(b->env, MAP_BYTES);
    if (!rc)
        rc = mdb_env_set_maxreaders(b->env, s->threads + 8);
    if (!rc)
        rc = mdb_env_open(b->env, s->dir, MDB_NOTLS | MDB_NORDAHEAD | sync[s->level], 0600);
    if (!rc)
        rc = mdb_txn_begin(b->env, NULL, 0, &txn);
    if (!rc)
        rc = mdb_dbi_open(txn, NULL, MDB_CREATE | keys, &b->dbi);
    return failed("open", rc ? rc : mdb_txn_commit(txn));
}

static int close_it(struct bench_db *b)
{
    int rc = b->setup.level == BENCH_DISK ? 0 : mdb_env_sync(b->env, 1);
    mdb_env_close(b->env);
    free(b);
    return failed("close", rc);
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
    mdb_cursor_close(t->cursor);
    mdb_txn_abort(t->reader);
    free(t);
}

static int begin(struct bench_db *b, struct bench_thread *t, struct bench_txn **out)
{
    MDB_txn *txn = NULL;
    (void)t;
    int rc = mdb_txn_begin(b->env, NULL, 0, &txn);
    *out = (struct bench_txn *)txn;
    return failed("begin", rc);
}

static int commit(struct bench_db *b, struct bench_txn *txn)
{
    (void)b;
    return failed("commit", mdb_txn_commit((MDB_txn *)txn));
}

static int roll_back(struct bench_db *b, struct bench_txn *txn)
{
    (void)b;
    mdb_txn_abort((MDB_txn *)txn);
    return 0;
}

/* `room` has BENCH_KEY_MAX bytes. */
static MDB_val key_of(const struct bench_db *b, uint64_t key, unsigned char *room)
{
    if (b->setup.key_size <= sizeof key)
        memcpy(room, &key, sizeof key);
    else
        bench_digits(room, key, b->setup.key_size);
    return (MDB_val){b->setup.key_size, room};
}

static int put(struct bench_db *b, struct bench_txn *txn, uint64_t key, const void *value)
{
    unsigned char room[BENCH_KEY_MAX];
    MDB_val k = key_of(b, key, room);
    MDB_val v = {b->setup.value_size, (void *)(uintptr_t)value};
    return failed("put", mdb_put((MDB_txn *)txn, b->dbi, &k, &v, 0));
}

/* Makes sure that the thread has a snapshot that is not too old. */
static int want_reader(struct bench_db *b, struct bench_thread *t)
{
    if (!t->reader)
        return mdb_txn_begin(b->env, NULL, MDB_RDONLY, &t->reader);
    if (++t->reads % BENCH_READS != 0)
        return 0;
    mdb_txn_reset(t->reader);
    int rc = mdb_txn_renew(t->reader);
    return !rc && t->cursor ? mdb_cursor_renew(t->reader, t->cursor) : rc;
}

static int lookup(struct bench_db *b, struct bench_thread *t, uint64_t key, void *value)
{
    unsigned char room[BENCH_KEY_MAX];
    MDB_val k = key_of(b, key, room), v;
    int rc = want_reader(b, t);
    if (!rc)
        rc = mdb_get(t->reader, b->dbi, &k, &v);
    if (!rc)
        memcpy(value, v.mv_data, v.mv_size);
    return failed("get", rc);
}

static int scan(struct bench_db *b, struct bench_thread *t, uint64_t key, uint32_t n, void *values,
                uint32_t *seen)
{
    unsigned char room[BENCH_KEY_MAX];
    MDB_val k = key_of(b, key, room), v;
    *seen = 0;
    int rc = want_reader(b, t);
    if (!rc && !t->cursor)
        rc = mdb_cursor_open(t->reader, b->dbi, &t->cursor);
    if (!rc)
        rc = mdb_cursor_get(t->cursor, &k, &v, MDB_SET_RANGE);
    while (!rc) {
        memcpy((char *)values + (size_t)*seen * b->setup.value_size, v.mv_data, v.mv_size);
        if (++*seen == n)
            return 0;
        rc = mdb_cursor_get(t->cursor, &k, &v, MDB_NEXT);
    }
    return rc == MDB_NOTFOUND ? 0 : failed("scan", rc);
}

static int fill(struct bench_db *b, struct bench_txn *txn, uint64_t first, uint64_t count,
                const void *values)
{
    MDB_cursor *cursor;
    int rc = mdb_cursor_open((MDB_txn *)txn, b->dbi, &cursor);
    if (rc)
        return failed("cursor", rc);
    for (uint64_t i = 0; !rc && i < count; i++) {
        unsigned char room[BENCH_KEY_MAX];
        MDB_val k = key_of(b, first + i, room);
        MDB_val v = {b->setup.value_size,
                     (char *)(uintptr_t)values + i * b->setup.value_size};
        rc = mdb_cursor_put(cursor, &k, &v, MDB_APPEND);
    }
    mdb_cursor_close(cursor);
    return failed("append", rc);
}

/* mdb_env_copy writes past the operating system's cache, and does not sync. */
static int backup(struct bench_db *b, const char *dir)
{
    return failed("copy", mdb_env_copy(b->env, dir));
}

const struct bench_engine bench_engine_lmdb = {
    .name = "lmdb",
    .version = version,
    .settings = "integer keys, or 16 digits; no read-ahead; map of 16 GiB, no cache of its own; "
                "MDB_APPEND to fill; OS: MDB_NOSYNC; process: MDB_NOSYNC, MDB_WRITEMAP, "
                "MDB_MAPASYNC",
    .levels = BENCH_AT_ALL,
    .open = open_it,
    .close = close_it,
    .join = join,
    .leave = leave,
    .begin = begin,
    .commit = commit,
    .abort = roll_back,
    .insert = put,
    .update = put,
    .lookup = lookup,
    .scan = scan,
    .records = true,
    .fill = fill,
    .backup = backup,
};
