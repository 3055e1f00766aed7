/* SPDX-License-Identifier: BSD-2-Clause */
/* LevelDB in bench-weather: Snappy, filters with 10 bits a key. It has two write buffers, of three
 * eighths of the memory each. */
#include "store.h"

#include "common.h"

#include <leveldb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOOM_BITS = 10 };

struct store {
    leveldb_t *db;
    leveldb_options_t *options;
    leveldb_cache_t *cache;
    leveldb_filterpolicy_t *filter;
    leveldb_readoptions_t *read;
    leveldb_writeoptions_t *write;
    char dir[256];
};

static void must(char *message, const char *what)
{
    if (!message)
        return;
    (void)fprintf(stderr, "leveldb: %s\n", message);
    leveldb_free(message);
    bench_must(-1, what);
}

static void *open_it(const char *dir, uint64_t memory)
{
    struct store *b = calloc(1, sizeof *b);
    char *message = NULL;
    bench_must(b ? 0 : -1, "memory");
    (void)snprintf(b->dir, sizeof b->dir, "%s", dir);
    b->cache = leveldb_cache_create_lru(memory / 4);
    b->filter = leveldb_filterpolicy_create_bloom(BLOOM_BITS);
    b->read = leveldb_readoptions_create();
    b->write = leveldb_writeoptions_create();
    b->options = leveldb_options_create();
    leveldb_options_set_create_if_missing(b->options, 1);
    leveldb_options_set_cache(b->options, b->cache);
    leveldb_options_set_filter_policy(b->options, b->filter);
    leveldb_options_set_write_buffer_size(b->options, memory / 8 * 3);
    leveldb_options_set_compression(b->options, leveldb_snappy_compression);
    b->db = leveldb_open(b->options, dir, &message);
    must(message, "open");
    return b;
}

static void put(void *db, const struct weather_tuple *t, size_t n)
{
    struct store *b = db;
    char *message = NULL;
    leveldb_writebatch_t *batch = leveldb_writebatch_create();
    for (size_t i = 0; i < n; i++)
        leveldb_writebatch_put(batch, (const char *)t[i].key, WEATHER_KEY,
                               (const char *)t[i].value, WEATHER_VALUE);
    leveldb_write(b->db, b->write, batch, &message);
    leveldb_writebatch_destroy(batch);
    must(message, "write");
}

static void settle(void *db)
{
    struct store *b = db;
    leveldb_compact_range(b->db, NULL, 0, NULL, 0);
}

static uint64_t bytes(void *db)
{
    struct store *b = db;
    return weather_files(b->dir, ".ldb");
}

static bool get(void *db, const struct weather_tuple *t)
{
    struct store *b = db;
    char *message = NULL;
    size_t len = 0;
    char *value =
        leveldb_get(b->db, b->read, (const char *)t->key, WEATHER_KEY, &len, &message);
    must(message, "get");
    bool same = value && len == WEATHER_VALUE && memcmp(value, t->value, len) == 0;
    leveldb_free(value);
    return same;
}

static uint64_t scan(void *db, int64_t *sum)
{
    struct store *b = db;
    char *message = NULL;
    leveldb_iterator_t *i = leveldb_create_iterator(b->db, b->read);
    uint64_t n = 0;
    for (leveldb_iter_seek_to_first(i); leveldb_iter_valid(i); leveldb_iter_next(i), n++) {
        size_t len;
        *sum += weather_temperature(leveldb_iter_value(i, &len));
    }
    leveldb_iter_get_error(i, &message);
    leveldb_iter_destroy(i);
    must(message, "scan");
    return n;
}

static void close_it(void *db)
{
    struct store *b = db;
    leveldb_close(b->db);
    leveldb_options_destroy(b->options);
    leveldb_writeoptions_destroy(b->write);
    leveldb_readoptions_destroy(b->read);
    leveldb_filterpolicy_destroy(b->filter);
    leveldb_cache_destroy(b->cache);
    free(b);
}

const struct weather_store weather_leveldb = {.name = "leveldb",
                                              .open = open_it,
                                              .put = put,
                                              .settle = settle,
                                              .bytes = bytes,
                                              .get = get,
                                              .scan = scan,
                                              .close = close_it};
