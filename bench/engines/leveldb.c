/* SPDX-License-Identifier: BSD-2-Clause */
/* LevelDB: a transaction is a batch of writes that the commit applies as a whole. There is no
 * isolation; a transaction does not see its own writes before the commit; rollback drops the
 * batch. */
#include "engine.h"

#include <leveldb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOOM_BITS 10

struct bench_db {
    leveldb_t *db;
    leveldb_options_t *options;
    leveldb_cache_t *cache;
    leveldb_filterpolicy_t *filter;
    leveldb_readoptions_t *read;
    leveldb_writeoptions_t *write;
    struct bench_setup setup;
};

static const char *version(void)
{
    static char text[32];
    snprintf(text, sizeof text, "%d.%d", leveldb_major_version(), leveldb_minor_version());
    return text;
}

static int failed(const char *what, char *message)
{
    if (!message)
        return 0;
    int rc = bench_failed("leveldb", what, message);
    leveldb_free(message);
    return rc;
}

static int open_it(const struct bench_setup *s, struct bench_db **out)
{
    struct bench_db *b = calloc(1, sizeof *b);
    char *message = NULL;
    if (!b)
        return BENCH_FAILED;
    *out = b;
    b->setup = *s;
    b->cache = leveldb_cache_create_lru(s->cache_bytes);
    b->filter = leveldb_filterpolicy_create_bloom(BLOOM_BITS);
    b->read = leveldb_readoptions_create();
    b->write = leveldb_writeoptions_create();
    leveldb_writeoptions_set_sync(b->write, s->level == BENCH_DISK);
    b->options = leveldb_options_create();
    leveldb_options_set_create_if_missing(b->options, 1);
    leveldb_options_set_cache(b->options, b->cache);
    leveldb_options_set_filter_policy(b->options, b->filter);
    leveldb_options_set_write_buffer_size(b->options, s->keep_log ? 1u << 30 : 64u << 20);
    leveldb_options_set_compression(b->options, leveldb_no_compression);
    b->db = leveldb_open(b->options, s->dir, &message);
    return failed("open", message);
}

/* If commits were not synced, first writes an empty batch synchronously, which makes the earlier
 * batches durable. */
static int close_it(struct bench_db *b)
{
    char *message = NULL;
    if (b->setup.level != BENCH_DISK) {
        leveldb_writebatch_t *empty = leveldb_writebatch_create();
        leveldb_writeoptions_set_sync(b->write, 1);
        leveldb_write(b->db, b->write, empty, &message);
        leveldb_writebatch_destroy(empty);
    }
    leveldb_close(b->db);
    leveldb_options_destroy(b->options);
    leveldb_writeoptions_destroy(b->write);
    leveldb_readoptions_destroy(b->read);
    leveldb_filterpolicy_destroy(b->filter);
    leveldb_cache_destroy(b->cache);
    free(b);
    return failed("close", message);
}

static int begin(struct bench_db *b, struct bench_thread *t, struct bench_txn **out)
{
    (void)b;
    (void)t;
    *out = (struct bench_txn *)leveldb_writebatch_create();
    return 0;
}

static int roll_back(struct bench_db *b, struct bench_txn *txn)
{
    (void)b;
    leveldb_writebatch_destroy((leveldb_writebatch_t *)txn);
    return 0;
}

static int commit(struct bench_db *b, struct bench_txn *txn)
{
    char *message = NULL;
    leveldb_write(b->db, b->write, (leveldb_writebatch_t *)txn, &message);
    roll_back(b, txn);
    return failed("write", message);
}

static int put(struct bench_db *b, struct bench_txn *txn, uint64_t key, const void *value)
{
    unsigned char k[BENCH_KEY_MAX];
    bench_digits(k, key, b->setup.key_size);
    leveldb_writebatch_put((leveldb_writebatch_t *)txn, (char *)k, b->setup.key_size, value,
                           b->setup.value_size);
    return 0;
}

static int lookup(struct bench_db *b, struct bench_thread *t, uint64_t key, void *value)
{
    unsigned char k[BENCH_KEY_MAX];
    char *message = NULL;
    size_t len = 0;
    (void)t;
    bench_digits(k, key, b->setup.key_size);
    char *found = leveldb_get(b->db, b->read, (char *)k, b->setup.key_size, &len, &message);
    if (!found)
        return message ? failed("get", message) : BENCH_ABSENT;
    memcpy(value, found, len);
    leveldb_free(found);
    return 0;
}

static int scan(struct bench_db *b, struct bench_thread *t, uint64_t key, uint32_t n, void *values,
                uint32_t *seen)
{
    unsigned char k[BENCH_KEY_MAX];
    char *message = NULL;
    leveldb_iterator_t *i = leveldb_create_iterator(b->db, b->read);
    (void)t;
    bench_digits(k, key, b->setup.key_size);
    leveldb_iter_seek(i, (char *)k, b->setup.key_size);
    for (*seen = 0; *seen < n && leveldb_iter_valid(i); ++*seen, leveldb_iter_next(i)) {
        size_t len;
        const char *found = leveldb_iter_value(i, &len);
        memcpy((char *)values + (size_t)*seen * b->setup.value_size, found, len);
    }
    leveldb_iter_get_error(i, &message);
    leveldb_iter_destroy(i);
    return failed("scan", message);
}

const struct bench_engine bench_engine_leveldb = {
    .name = "leveldb",
    .version = version,
    .settings = "write batches: atomic, no isolation; a write buffer of 64 MiB (of 1 GiB if the "
                "log is kept for recovery); a bloom filter with 10 bits for each key; no "
                "compression; OS: sync = false",
    .log_files = ".log",
    .levels = BENCH_AT(BENCH_DISK) | BENCH_AT(BENCH_OS),
    .open = open_it,
    .close = close_it,
    .begin = begin,
    .commit = commit,
    .abort = roll_back,
    .insert = put,
    .update = put,
    .lookup = lookup,
    .scan = scan,
    .records = true,
};
