/* SPDX-License-Identifier: BSD-2-Clause */
/* This library's tables in bench-weather: managed tables with the schedule of levels. */
#include "lladd.h"

#include "common.h"

#include <lladd/bytes.h>
#include <stdlib.h>
#include <string.h>

enum { READS = 1000, READ_ROWS = 65536, TEMPERATURE = 3, THREADS = 2 };
#define MIB (UINT64_C(1) << 20)

#define FIELDS \
    "\"key\" words [ \"i32\" \"i32\" \"u32\" ] " \
    "\"columns\" words [ \"u64\" \"i32\" \"i32\" \"i32\" \"i32\" \"i32\" \"i32\" ] "
/* No tuple has a value of 32 bytes 0xff. */
const char weather_pages[] =
    "class(dt) exception_dtable config [ "
    "\"base\" class(dt) multicolumn_dtable \"base_config\" config [ " FIELDS "] "
    "\"alt\" class(dt) linear_dtable \"reject_value\" blob "
    "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff ]";
static const char packed_pages[] =
    "class(dt) multicolumn_dtable config [ \"rows\" bool true " FIELDS "]";

/* ---- opening --------------------------------------------------------------------------------- */

static void create(struct weather_table *b, const struct weather_table_setup *s)
{
    static const char *const names[WEATHER_COLUMNS] = {
        "conditions", "station", "elevation", "temperature", "direction", "speed", "gust"};
    struct lladd_ctable_options c = LLADD_CTABLE_OPTIONS_INIT;
    struct lladd_managed_options *m = &c.managed;
    m->type = LLADD_DTABLE_BYTES;
    m->config = s->config;
    m->schedule = s->schedule;
    m->memory_bytes = s->memory_bytes;
    m->flags = s->unlogged ? LLADD_MANAGED_UNLOGGED : 0;
    c.columns = names;
    c.n_columns = WEATHER_COLUMNS;
    if (!s->packed) {
        bench_must(lladd_managed_create_open(b->db, "weather", m, &b->t, NULL), "create a table");
        return;
    }
    bench_must(lladd_ctable_create_open(b->db, "weather", &c, &b->columns, NULL), "create");
    b->t = lladd_ctable_managed(b->columns);
}

struct weather_table *weather_table_open(const char *dir, const struct weather_table_setup *s)
{
    struct weather_table *b = calloc(1, sizeof *b);
    struct lladd_options o = LLADD_OPTIONS_INIT;
    bench_must(b ? 0 : -1, "memory");
    b->unlogged = s->unlogged;
    o.cache_bytes = s->page_bytes > MIB ? s->page_bytes : MIB;
    o.durability = s->unlogged ? LLADD_DURABLE_LATER : LLADD_DURABLE_OS;
    bench_must(lladd_managed_register(&o, NULL), "register");
    bench_must(lladd_open(dir, &o, &b->db, NULL), "open");
    lladd_options_release(&o);
    lladd_dtable_cache_limit(b->db, s->block_bytes);
    create(b, s);
    bench_must(lladd_managed_threads(b->db, s->threads, NULL), "threads");
    return b;
}

static void *open_with(const char *dir, uint64_t memory, bool unlogged, bool packed,
                       const char *config)
{
    struct weather_table_setup s = {.unlogged = unlogged,
                                    .packed = packed,
                                    .config = config,
                                    .schedule = LLADD_MANAGED_LEVELS,
                                    .memory_bytes = memory / 4,
                                    .page_bytes = memory / 16,
                                    .block_bytes = memory / 4,
                                    .threads = THREADS};
    return weather_table_open(dir, &s);
}

static void *open_unlogged(const char *dir, uint64_t memory)
{
    return open_with(dir, memory, true, false, weather_pages);
}

static void *open_journal(const char *dir, uint64_t memory)
{
    return open_with(dir, memory, false, false, weather_pages);
}

static void *open_rows(const char *dir, uint64_t memory)
{
    return open_with(dir, memory, true, false, NULL);
}

static void *open_columns(const char *dir, uint64_t memory)
{
    return open_with(dir, memory, true, true, packed_pages);
}

static void end_reader(struct weather_table *b)
{
    lladd_dtable_unpin(&b->pin);
    if (b->reader)
        bench_must(lladd_commit(b->reader), "commit");
    b->reader = NULL;
    b->reads = 0;
}

void weather_table_close(void *db)
{
    struct weather_table *b = db;
    end_reader(b);
    bench_must(lladd_managed_threads(b->db, 0, NULL), "threads");
    bench_must(b->columns ? lladd_ctable_close(b->columns, NULL)
                          : lladd_managed_close(b->t, NULL),
               "close a table");
    bench_must(lladd_close(b->db), "close");
    free(b);
}

/* ---- writing --------------------------------------------------------------------------------- */

enum { PACKED_MAX = 64 };

static struct lladd_dtable_value packed(const struct weather_tuple *t, unsigned char *room)
{
    struct lladd_dtable_value v[WEATHER_COLUMNS];
    size_t len;
    for (int i = 0; i < WEATHER_COLUMNS; i++)
        v[i] = i ? lladd_dtable_value_of(t->value + 4 + 4 * i, 4)
                 : lladd_dtable_value_of(t->value, 8);
    bench_must(lladd_dtable_row_size(v, WEATHER_COLUMNS, &len, NULL), "size of a row");
    bench_must(len <= PACKED_MAX ? 0 : -1, "room for a row");
    lladd_dtable_row_pack(v, WEATHER_COLUMNS, room);
    return lladd_dtable_value_of(room, len);
}

void weather_table_put(void *db, const struct weather_tuple *t, size_t n)
{
    struct weather_table *b = db;
    struct lladd_managed_row rows[WEATHER_BATCH];
    unsigned char room[WEATHER_BATCH][PACKED_MAX];
    struct lladd_txn *txn;
    for (size_t i = 0; i < n; i++) {
        rows[i].key = lladd_dtable_bytes(t[i].key, WEATHER_KEY);
        rows[i].value = b->columns ? packed(&t[i], room[i])
                                   : lladd_dtable_value_of(t[i].value, WEATHER_VALUE);
    }
    b->put += n;
    bench_must(lladd_begin(b->db, NULL, &txn, NULL), "begin");
    if (b->unlogged)
        bench_must(lladd_managed_position_set(
                       txn, b->t, &(struct lladd_managed_position){b->put, b->put}),
                   "position");
    bench_must(lladd_managed_put_many(txn, b->t, rows, n, NULL), "put");
    bench_must(lladd_commit(txn), "commit");
}

static struct lladd_managed_stats stats(struct weather_table *b)
{
    struct lladd_managed_stats s = {.struct_size = sizeof s};
    bench_must(lladd_managed_stats_get(b->t, &s, NULL, 0, NULL), "stats");
    return s;
}

static void settle(void *db)
{
    struct weather_table *b = db;
    bool more = true;
    end_reader(b);
    bench_must(lladd_managed_threads(b->db, 0, NULL), "threads");
    bench_must(lladd_managed_digest(b->t, NULL), "digest");
    if (stats(b).runs > 1)
        bench_must(lladd_managed_combine(b->t, 0, NULL), "combine");
    while (more)
        bench_must(lladd_managed_maintain(b->t, &more, NULL), "maintain");
}

static uint64_t bytes(void *db)
{
    struct weather_table *b = db;
    return stats(b).run_pages * lladd_page_size(b->db);
}

static void report(void *db, const char *name)
{
    struct lladd_managed_stats s = stats(db);
    weather_print(name, "digests", "", (double)s.digests, NULL);
    weather_print(name, "combines", "", (double)s.combines, NULL);
    weather_print(name, "waits of the writer", "", (double)s.waits, NULL);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void reading(struct weather_table *b)
{
    if (b->reads == READS)
        end_reader(b);
    if (!b->reader)
        bench_must(lladd_begin(b->db, NULL, &b->reader, NULL), "begin");
    b->reads++;
}

static bool get(void *db, const struct weather_tuple *t)
{
    struct weather_table *b = db;
    struct lladd_dtable_key key = lladd_dtable_bytes(t->key, WEATHER_KEY);
    struct lladd_dtable_value v;
    reading(b);
    bench_must(lladd_managed_lookup(b->reader, b->t, &key, &b->pin, &v), "lookup");
    return v.state == LLADD_DTABLE_FOUND && v.bytes.len == WEATHER_VALUE &&
           memcmp(v.bytes.data, t->value, WEATHER_VALUE) == 0;
}

static uint64_t scan(void *db, int64_t *sum)
{
    struct weather_table *b = db;
    const struct lladd_dtable *table;
    struct lladd_dtable_cursor *c;
    struct lladd_dtable_key key;
    struct lladd_dtable_value v;
    uint64_t n = 0;
    reading(b);
    bench_must(lladd_managed_table(b->reader, b->t, &table), "table");
    bench_must(lladd_dtable_cursor_open(table, 0, &c, NULL), "cursor");
    int rc = lladd_dtable_first(c, NULL);
    for (; rc == 0; rc = lladd_dtable_next(c, NULL), n++) {
        bench_must(lladd_dtable_row(c, &key, &v, NULL), "row");
        *sum += weather_temperature(v.bytes.data);
    }
    bench_must(rc == LLADD_END ? 0 : rc, "next");
    lladd_dtable_cursor_close(c);
    end_reader(b);
    return n;
}

static int64_t sum_of(const unsigned char *numbers, size_t n)
{
    int64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (int32_t)lladd_get32(numbers + 4 * i);
    return sum;
}

static uint64_t column(void *db, int64_t *sum)
{
    static const uint32_t temperature = TEMPERATURE;
    struct weather_table *b = db;
    struct lladd_ctable_batch batch = {.n = 0};
    struct lladd_ctable_cursor *c;
    uint64_t n = 0;
    int rc;
    reading(b);
    bench_must(lladd_ctable_cursor_open(b->reader, b->columns, &temperature, 1, &c), "cursor");
    while ((rc = lladd_ctable_next_n(c, READ_ROWS, 0, &batch, NULL)) == 0) {
        bench_must(batch.columns[0].width == 4 ? 0 : -1, "numbers of four bytes");
        *sum += sum_of(batch.columns[0].bytes, batch.n);
        n += batch.n;
    }
    bench_must(rc == LLADD_END ? 0 : rc, "next rows");
    lladd_ctable_batch_free(&batch);
    lladd_ctable_cursor_close(c);
    end_reader(b);
    return n;
}

#define TABLE \
    .put = weather_table_put, .settle = settle, .bytes = bytes, .report = report, \
    .close = weather_table_close
const struct weather_store weather_lladd_unlogged = {
    TABLE, .name = "lladd-unlogged", .open = open_unlogged, .get = get, .scan = scan};
const struct weather_store weather_lladd_journal = {
    TABLE, .name = "lladd-journal", .open = open_journal, .get = get, .scan = scan};
const struct weather_store weather_lladd_rows = {
    TABLE, .name = "lladd-rows", .open = open_rows, .get = get, .scan = scan};
const struct weather_store weather_lladd_columns = {
    TABLE, .name = "lladd-columns", .open = open_columns, .column = column};
