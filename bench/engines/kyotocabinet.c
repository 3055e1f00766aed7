/* SPDX-License-Identifier: BSD-2-Clause */
/* Kyoto Cabinet: the file hash and the file tree. There is one transaction at a time, and other
 * threads see its changes before it commits. A hard transaction syncs for every record it changes,
 * so bulk loads use soft transactions, and sync at the end. */
#include "engine.h"

#include <kclangc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct bench_db {
    KCDB *kc;
    pthread_mutex_t turn;
    struct bench_setup setup;
};

static const char *version(void)
{
    return KCVERSION;
}

static int failed(struct bench_db *b, const char *what, int32_t done)
{
    if (done)
        return 0;
    return kcdbecode(b->kc) == KCENOREC ? BENCH_ABSENT
                                        : bench_failed("kyotocabinet", what, kcdbemsg(b->kc));
}

static int open_as(const struct bench_setup *s, const char *kind, struct bench_db **out)
{
    struct bench_db *b = calloc(1, sizeof *b);
    char path[4200];
    if (!b || pthread_mutex_init(&b->turn, NULL))
        return BENCH_FAILED;
    *out = b;
    b->setup = *s;
    b->kc = kcdbnew();
    unsigned long long cache = s->cache_bytes;
    int at = snprintf(path, sizeof path, "%s/bench.%s#bnum=%llu#msiz=%llu", s->dir, kind,
                      2 * (unsigned long long)s->expected, cache);
    if (kind[2] == 't')
        snprintf(path + at, sizeof path - (size_t)at, "#pccap=%llu", cache);
    return failed(b, "open", kcdbopen(b->kc, path, KCOWRITER | KCOCREATE));
}

static int open_hash(const struct bench_setup *s, struct bench_db **out)
{
    return open_as(s, "kch", out);
}

static int open_tree(const struct bench_setup *s, struct bench_db **out)
{
    return open_as(s, "kct", out);
}

static int close_it(struct bench_db *b)
{
    int rc = b->setup.level == BENCH_DISK
                 ? 0
                 : failed(b, "synchronize", kcdbsync(b->kc, 1, NULL, NULL));
    int closed = failed(b, "close", kcdbclose(b->kc));
    kcdbdel(b->kc);
    pthread_mutex_destroy(&b->turn);
    free(b);
    return rc ? rc : closed;
}

static bool bulk(const struct bench_db *b)
{
    return b->setup.txn_ops >= BENCH_BULK;
}

static int begin(struct bench_db *b, struct bench_thread *t, struct bench_txn **out)
{
    (void)t;
    *out = (struct bench_txn *)b;
    if (b->setup.level == BENCH_PROCESS)
        return 0;
    pthread_mutex_lock(&b->turn);
    int rc = failed(b, "begin", kcdbbegintran(b->kc, b->setup.level == BENCH_DISK && !bulk(b)));
    if (rc)
        pthread_mutex_unlock(&b->turn);
    return rc;
}

static int end(struct bench_db *b, bool done)
{
    if (b->setup.level == BENCH_PROCESS)
        return done ? 0 : bench_failed("kyotocabinet", "abort", "no transactions at this level");
    int rc = failed(b, "end of transaction", kcdbendtran(b->kc, done));
    if (!rc && done && b->setup.level == BENCH_DISK && bulk(b))
        rc = failed(b, "synchronize", kcdbsync(b->kc, 1, NULL, NULL));
    pthread_mutex_unlock(&b->turn);
    return rc;
}

static int commit(struct bench_db *b, struct bench_txn *txn)
{
    (void)txn;
    return end(b, true);
}

static int roll_back(struct bench_db *b, struct bench_txn *txn)
{
    (void)txn;
    return end(b, false);
}

static int put(struct bench_db *b, struct bench_txn *txn, uint64_t key, const void *value)
{
    unsigned char k[8];
    (void)txn;
    bench_key(k, key, b->setup.key_size);
    return failed(b, "set",
                  kcdbset(b->kc, (char *)k, b->setup.key_size, value, b->setup.value_size));
}

static int lookup(struct bench_db *b, struct bench_thread *t, uint64_t key, void *value)
{
    unsigned char k[8];
    (void)t;
    bench_key(k, key, b->setup.key_size);
    return failed(b, "get",
                  kcdbgetbuf(b->kc, (char *)k, b->setup.key_size, value, b->setup.value_size) >= 0);
}

static int checkpoint(struct bench_db *b)
{
    return failed(b, "synchronize", kcdbsync(b->kc, 1, NULL, NULL));
}

#define ENGINE(symbol, text, opens) \
    const struct bench_engine bench_engine_##symbol = { \
        .name = text, \
        .version = version, \
        .settings = "twice as many buckets as records; mapped memory = cache; a mutex around " \
                    "transactions; disk: hard transactions (bulk: soft, then a hard " \
                    "synchronisation); OS: soft; process: no transactions", \
        .log_files = ".wal", \
        .levels = BENCH_AT_ALL, \
        .open = opens, \
        .close = close_it, \
        .begin = begin, \
        .commit = commit, \
        .abort = roll_back, \
        .insert = put, \
        .update = put, \
        .lookup = lookup, \
        .records = true, \
        .checkpoint = checkpoint, \
    };
ENGINE(kyotocabinet_hash, "kyotocabinet-hash", open_hash)
ENGINE(kyotocabinet_tree, "kyotocabinet-tree", open_tree)
