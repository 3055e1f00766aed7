/* SPDX-License-Identifier: BSD-2-Clause */
/* RocksDB in bench-weather: LZ4, three write buffers, a block cache of the size of one, filters
 * with 10 bits a key, two background jobs. */
#include "store.h"

#include "common.h"
#include "engines/rocksdb_api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LZ4 = 4, BLOOM_BITS = 10, BUFFERS = 3, JOBS = 2 };

struct store {
    struct rocksdb_api api;
    void *db, *read, *write, *flush;
    char dir[256];
};

static void must(struct store *b, char *message, const char *what)
{
    if (!message)
        return;
    (void)fprintf(stderr, "rocksdb: %s\n", message);
    b->api.free(message);
    bench_must(-1, what);
}

static void *options(struct store *b, uint64_t memory, bool direct)
{
    struct rocksdb_api *r = &b->api;
    void *o = r->options_create(), *table = r->block_based_options_create();
    r->options_set_create_if_missing(o, 1);
    r->options_set_compression(o, LZ4);
    r->options_set_write_buffer_size(o, memory / 4);
    r->options_set_max_write_buffer_number(o, BUFFERS);
    r->options_set_max_background_jobs(o, JOBS);
    r->options_set_use_direct_reads(o, direct);
    r->options_set_use_direct_io_for_flush_and_compaction(o, direct);
    r->block_based_options_set_filter_policy(table, r->filterpolicy_create_bloom(BLOOM_BITS));
    r->block_based_options_set_block_cache(table, r->cache_create_lru(memory / 4));
    r->options_set_block_based_table_factory(o, table);
    return o;
}

static void *open_as(const char *dir, uint64_t memory, bool direct, bool log)
{
    struct store *b = calloc(1, sizeof *b);
    char *message = NULL;
    bench_must(b ? rocksdb_api_load(&b->api) : -1, "load RocksDB");
    (void)snprintf(b->dir, sizeof b->dir, "%s", dir);
    b->read = b->api.readoptions_create();
    b->write = b->api.writeoptions_create();
    b->flush = b->api.flushoptions_create();
    b->api.writeoptions_disable_WAL(b->write, !log);
    b->db = b->api.open(options(b, memory, direct), dir, &message);
    must(b, message, "open");
    return b;
}

static void *open_plain(const char *dir, uint64_t memory)
{
    return open_as(dir, memory, false, false);
}

static void *open_direct(const char *dir, uint64_t memory)
{
    return open_as(dir, memory, true, false);
}

static void *open_log(const char *dir, uint64_t memory)
{
    return open_as(dir, memory, false, true);
}

static void put(void *db, const struct weather_tuple *t, size_t n)
{
    struct store *b = db;
    char *message = NULL;
    void *batch = b->api.writebatch_create();
    for (size_t i = 0; i < n; i++)
        b->api.writebatch_put(batch, (const char *)t[i].key, WEATHER_KEY,
                              (const char *)t[i].value, WEATHER_VALUE);
    b->api.write(b->db, b->write, batch, &message);
    b->api.writebatch_destroy(batch);
    must(b, message, "write");
}

static void settle(void *db)
{
    struct store *b = db;
    char *message = NULL;
    b->api.flush(b->db, b->flush, &message);
    must(b, message, "flush");
    b->api.compact_range(b->db, NULL, 0, NULL, 0);
}

static uint64_t bytes(void *db)
{
    struct store *b = db;
    return weather_files(b->dir, ".sst");
}

static bool get(void *db, const struct weather_tuple *t)
{
    struct store *b = db;
    char *message = NULL;
    size_t len = 0;
    void *slice =
        b->api.get_pinned(b->db, b->read, (const char *)t->key, WEATHER_KEY, &message);
    must(b, message, "get");
    if (!slice)
        return false;
    const char *value = b->api.pinnableslice_value(slice, &len);
    bool same = len == WEATHER_VALUE && memcmp(value, t->value, len) == 0;
    b->api.pinnableslice_destroy(slice);
    return same;
}

static uint64_t scan(void *db, int64_t *sum)
{
    struct store *b = db;
    struct rocksdb_api *r = &b->api;
    char *message = NULL;
    void *i = r->create_iterator(b->db, b->read);
    uint64_t n = 0;
    for (r->iter_seek(i, "", 0); r->iter_valid(i); r->iter_next(i), n++) {
        size_t len;
        *sum += weather_temperature(r->iter_value(i, &len));
    }
    r->iter_get_error(i, &message);
    r->iter_destroy(i);
    must(b, message, "scan");
    return n;
}

static void close_it(void *db)
{
    struct store *b = db;
    b->api.close(b->db);
    free(b);
}

#define STORE(symbol, text, opens) \
    const struct weather_store symbol = {.name = text, \
                                         .open = opens, \
                                         .put = put, \
                                         .settle = settle, \
                                         .bytes = bytes, \
                                         .get = get, \
                                         .scan = scan, \
                                         .close = close_it}
STORE(weather_rocksdb, "rocksdb", open_plain);
STORE(weather_rocksdb_direct, "rocksdb-direct", open_direct);
STORE(weather_rocksdb_log, "rocksdb-log", open_log);
