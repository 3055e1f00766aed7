/* SPDX-License-Identifier: BSD-2-Clause */
/* TDB: only one thread at a time can use a handle, so writers and readers take turns. It has no log
 * of changes: a commit writes a recovery area and the changed blocks. */
#include "engine.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <tdb.h>
#include <unistd.h>

#define HEADS_MAX 4000000u /* with more, starting a transaction takes milliseconds */

struct bench_db {
    struct tdb_context *tdb;
    pthread_mutex_t turn;
    struct bench_setup setup;
};

static const char *version(void)
{
    return BENCH_TDB;
}

static int failed(struct bench_db *b, const char *what, int rc)
{
    return rc ? bench_failed("tdb", what, b->tdb ? tdb_errorstr(b->tdb) : strerror(errno)) : 0;
}

static int open_it(const struct bench_setup *s, struct bench_db **out)
{
    struct bench_db *b = calloc(1, sizeof *b);
    char path[4096];
    if (!b || pthread_mutex_init(&b->turn, NULL))
        return BENCH_FAILED;
    *out = b;
    b->setup = *s;
    /* A transaction copies the heads of all hash chains, so small transactions get fewer heads. */
    uint64_t heads = s->expected < HEADS_MAX ? s->expected : HEADS_MAX;
    heads = s->txn_ops < BENCH_BULK ? heads / 10 : heads;
    snprintf(path, sizeof path, "%s/bench.tdb", s->dir);
    b->tdb = tdb_open_ex(path, (int)(heads < 100 ? 100 : heads),
                         s->level == BENCH_DISK ? TDB_DEFAULT : TDB_NOSYNC, O_RDWR | O_CREAT, 0600,
                         NULL, tdb_jenkins_hash);
    return failed(b, "open", b->tdb ? 0 : -1);
}

static int close_it(struct bench_db *b)
{
    int rc = b->setup.level == BENCH_DISK ? 0 : fsync(tdb_fd(b->tdb));
    rc = tdb_close(b->tdb) ? -1 : rc;
    pthread_mutex_destroy(&b->turn);
    free(b);
    return rc ? bench_failed("tdb", "close", strerror(errno)) : 0;
}

static int begin(struct bench_db *b, struct bench_thread *t, struct bench_txn **out)
{
    (void)t;
    *out = (struct bench_txn *)b;
    pthread_mutex_lock(&b->turn);
    int rc = failed(b, "begin", tdb_transaction_start(b->tdb));
    if (rc)
        pthread_mutex_unlock(&b->turn);
    return rc;
}

static int commit(struct bench_db *b, struct bench_txn *txn)
{
    (void)txn;
    int rc = failed(b, "commit", tdb_transaction_commit(b->tdb));
    pthread_mutex_unlock(&b->turn);
    return rc;
}

static int roll_back(struct bench_db *b, struct bench_txn *txn)
{
    (void)txn;
    int rc = failed(b, "cancel", tdb_transaction_cancel(b->tdb));
    pthread_mutex_unlock(&b->turn);
    return rc;
}

static TDB_DATA data(const void *bytes, size_t size)
{
    return (TDB_DATA){.dptr = (unsigned char *)(uintptr_t)bytes, .dsize = size};
}

static int insert(struct bench_db *b, struct bench_txn *txn, uint64_t key, const void *value)
{
    (void)txn;
    return failed(b, "store",
                  tdb_store(b->tdb, data(&key, b->setup.key_size),
                            data(value, b->setup.value_size), TDB_INSERT));
}

static int update(struct bench_db *b, struct bench_txn *txn, uint64_t key, const void *value)
{
    (void)txn;
    return failed(b, "store",
                  tdb_store(b->tdb, data(&key, b->setup.key_size),
                            data(value, b->setup.value_size), TDB_REPLACE));
}

static int copy(TDB_DATA key, TDB_DATA value, void *out)
{
    (void)key;
    memcpy(out, value.dptr, value.dsize);
    return 0;
}

static int lookup(struct bench_db *b, struct bench_thread *t, uint64_t key, void *value)
{
    (void)t;
    pthread_mutex_lock(&b->turn);
    int rc = tdb_parse_record(b->tdb, data(&key, b->setup.key_size), copy, value);
    if (rc)
        rc = tdb_error(b->tdb) == TDB_ERR_NOEXIST ? BENCH_ABSENT : failed(b, "fetch", rc);
    pthread_mutex_unlock(&b->turn);
    return rc;
}

const struct bench_engine bench_engine_tdb = {
    .name = "tdb",
    .version = version,
    .settings = "as many hash chains as records, at most 4 million (a tenth of that for small "
                "transactions); Jenkins hash; mmap; a mutex around all calls; at level OS: "
                "TDB_NOSYNC",
    .levels = BENCH_AT(BENCH_DISK) | BENCH_AT(BENCH_OS),
    .open = open_it,
    .close = close_it,
    .begin = begin,
    .commit = commit,
    .abort = roll_back,
    .insert = insert,
    .update = update,
    .lookup = lookup,
    .records = true,
};
