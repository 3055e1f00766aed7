/* SPDX-License-Identifier: BSD-2-Clause */
/* RocksDB, the official release build: write batches (atomic, no isolation), and pessimistic
 * transactions. The parameters are those that RocksDB's documentation gives for point lookups. */
#include "engine.h"
#include "rocksdb_api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOOM_BITS 10
#define HASH_INDEX 1 /* rocksdb_block_based_table_data_block_index_type_binary_search_and_hash */
#define MIB (UINT64_C(1) << 20)

struct bench_db {
    struct rocksdb_api api;
    void *db, *read, *write, *flush, *txn_options;
    struct bench_setup setup;
    bool transactions;
};

static const char *version(void)
{
    return BENCH_ROCKSDB_VERSION;
}

static int failed(struct bench_db *b, const char *what, char *message)
{
    if (!message)
        return 0;
    bool again = strstr(message, "Busy") || strstr(message, "TimedOut");
    int rc = again ? BENCH_AGAIN : bench_failed("rocksdb", what, message);
    b->api.free(message);
    return rc;
}

static void *options(struct bench_db *b)
{
    struct rocksdb_api *r = &b->api;
    const struct bench_setup *s = &b->setup;
    void *o = r->options_create(), *table = r->block_based_options_create();
    bool small = s->cache_bytes < 256 * MIB;
    r->options_set_create_if_missing(o, 1);
    r->options_set_compression(o, 0);
    r->options_set_write_buffer_size(o, s->keep_log ? 512 * MIB : small ? 16 * MIB : 64 * MIB);
    r->options_set_max_write_buffer_number(o, 3);
    r->options_set_max_background_jobs(o, 2);
    r->options_set_manual_wal_flush(o, s->level == BENCH_PROCESS);
    r->block_based_options_set_filter_policy(table, r->filterpolicy_create_bloom(BLOOM_BITS));
    r->block_based_options_set_block_cache(
        table, r->cache_create_lru(small ? s->cache_bytes / 2 : s->cache_bytes));
    r->block_based_options_set_data_block_index_type(table, HASH_INDEX);
    r->block_based_options_set_data_block_hash_ratio(table, 0.75);
    r->options_set_block_based_table_factory(o, table);
    return o;
}

static int open_as(const struct bench_setup *s, bool transactions, struct bench_db **out)
{
    struct bench_db *b = calloc(1, sizeof *b);
    char *message = NULL;
    if (!b || rocksdb_api_load(&b->api))
        return BENCH_FAILED;
    *out = b;
    b->setup = *s;
    b->transactions = transactions;
    struct rocksdb_api *r = &b->api;
    void *o = options(b);
    b->read = r->readoptions_create();
    b->write = r->writeoptions_create();
    b->flush = r->flushoptions_create();
    b->txn_options = r->transaction_options_create();
    r->writeoptions_set_sync(b->write, s->level == BENCH_DISK);
    b->db = transactions
                ? r->transactiondb_open(o, r->transactiondb_options_create(), s->dir, &message)
                : r->open(o, s->dir, &message);
    return failed(b, "open", message);
}

static int open_batch(const struct bench_setup *s, struct bench_db **out)
{
    return open_as(s, false, out);
}

static int open_txn(const struct bench_setup *s, struct bench_db **out)
{
    return open_as(s, true, out);
}

static int close_it(struct bench_db *b)
{
    char *message = NULL;
    (b->transactions ? b->api.transactiondb_flush_wal : b->api.flush_wal)(b->db, 1, &message);
    (b->transactions ? b->api.transactiondb_close : b->api.close)(b->db);
    int rc = failed(b, "close", message);
    free(b);
    return rc;
}

static int begin(struct bench_db *b, struct bench_thread *t, struct bench_txn **out)
{
    (void)t;
    *out = b->transactions
               ? b->api.transaction_begin(b->db, b->write, b->txn_options, NULL)
               : b->api.writebatch_create();
    return 0;
}

static int commit(struct bench_db *b, struct bench_txn *txn)
{
    char *message = NULL;
    if (b->transactions) {
        b->api.transaction_commit(txn, &message);
        b->api.transaction_destroy(txn);
    } else {
        b->api.write(b->db, b->write, txn, &message);
        b->api.writebatch_destroy(txn);
    }
    return failed(b, "commit", message);
}

static int roll_back(struct bench_db *b, struct bench_txn *txn)
{
    char *message = NULL;
    if (b->transactions) {
        b->api.transaction_rollback(txn, &message);
        b->api.transaction_destroy(txn);
    } else {
        b->api.writebatch_destroy(txn);
    }
    return failed(b, "rollback", message);
}

static int put(struct bench_db *b, struct bench_txn *txn, uint64_t key, const void *value)
{
    unsigned char k[BENCH_KEY_MAX];
    char *message = NULL;
    const size_t size = b->setup.key_size, length = b->setup.value_size;
    bench_digits(k, key, b->setup.key_size);
    if (b->transactions)
        b->api.transaction_put(txn, (char *)k, size, value, length, &message);
    else
        b->api.writebatch_put(txn, (char *)k, size, value, length);
    return failed(b, "put", message);
}

static int lookup(struct bench_db *b, struct bench_thread *t, uint64_t key, void *value)
{
    unsigned char k[BENCH_KEY_MAX];
    char *message = NULL;
    size_t len = 0;
    (void)t;
    bench_digits(k, key, b->setup.key_size);
    void *slice = (b->transactions ? b->api.transactiondb_get_pinned : b->api.get_pinned)(
        b->db, b->read, (char *)k, b->setup.key_size, &message);
    if (!slice)
        return message ? failed(b, "get", message) : BENCH_ABSENT;
    const char *bytes = b->api.pinnableslice_value(slice, &len);
    memcpy(value, bytes, len);
    b->api.pinnableslice_destroy(slice);
    return 0;
}

static int scan(struct bench_db *b, struct bench_thread *t, uint64_t key, uint32_t n, void *values,
                uint32_t *seen)
{
    unsigned char k[BENCH_KEY_MAX];
    char *message = NULL;
    struct rocksdb_api *r = &b->api;
    void *i = (b->transactions ? r->transactiondb_create_iterator : r->create_iterator)(b->db,
                                                                                       b->read);
    (void)t;
    bench_digits(k, key, b->setup.key_size);
    r->iter_seek(i, (char *)k, b->setup.key_size);
    for (*seen = 0; *seen < n && r->iter_valid(i); ++*seen, r->iter_next(i)) {
        size_t len;
        const char *found = r->iter_value(i, &len);
        memcpy((char *)values + (size_t)*seen * b->setup.value_size, found, len);
    }
    r->iter_get_error(i, &message);
    r->iter_destroy(i);
    return failed(b, "scan", message);
}

static int checkpoint(struct bench_db *b)
{
    char *message = NULL;
    (b->transactions ? b->api.transactiondb_flush : b->api.flush)(b->db, b->flush, &message);
    return failed(b, "flush", message);
}

#define ENGINE(symbol, text, kind, opens) \
    const struct bench_engine bench_engine_##symbol = { \
        .name = text, \
        .version = version, \
        .settings = kind "; no compression; a bloom filter with 10 bits for each key; a hash " \
                         "index in each block; 2 background jobs; 3 write buffers of 64 MiB (of " \
                         "512 MiB if the log is kept for recovery); the block cache has the " \
                         "size of the row's cache; if the row's cache is below 256 MiB, the " \
                         "block cache has half its size, and a write buffer has 16 MiB; OS: " \
                         "sync = false; process: manual_wal_flush", \
        .log_files = ".log", \
        .levels = BENCH_AT_ALL, \
        .open = opens, \
        .close = close_it, \
        .begin = begin, \
        .commit = commit, \
        .abort = roll_back, \
        .insert = put, \
        .update = put, \
        .lookup = lookup, \
        .scan = scan, \
        .records = true, \
        .checkpoint = checkpoint, \
    };
ENGINE(rocksdb_batch, "rocksdb-batch", "write batches: atomic, no isolation", open_batch)
ENGINE(rocksdb_txn, "rocksdb-txn", "pessimistic transactions", open_txn)
