/* SPDX-License-Identifier: BSD-2-Clause */
/* Measures managed dTables: writing rows in one large transaction and in many small ones, the
 * memory of the rows, digests, and the cost of reading through the layers. Prints JSON lines; see
 * docs/benchmarks.md.
 *
 *   bench-managed [case]...   cases: load small read schedules keys; default: all
 *
 * The tables have four million keys from 0 up and values of five bytes; `keys` has its own. The
 * database is on a memory device. */
#include "common_dtable.h"

#include <lladd/bytes.h>
#include <lladd/device.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BENCH "managed"
enum { ROWS = 4000000, LOOKUPS = 1000000, SMALL = 500000 };

struct fixture {
    struct lladd_device *dev;
    struct lladd_db *db;
    struct lladd_managed *t;
};

static void open_with(struct fixture *b, const struct lladd_managed_options *m)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_txn *txn;
    bench_dtable_open(&b->dev, &b->db);
    bench_must(lladd_begin(b->db, NULL, &txn, &err), "begin");
    bench_must(lladd_managed_create(txn, "rows", m), "create");
    bench_must(lladd_commit(txn), "commit");
    bench_must(lladd_managed_open(b->db, "rows", &b->t, &err), "open a table");
}

static void open_as(struct fixture *b, enum lladd_managed_schedule schedule, uint64_t memory)
{
    struct lladd_managed_options m = LLADD_MANAGED_OPTIONS_INIT;
    m.type = LLADD_DTABLE_U32;
    m.schedule = schedule;
    m.memory_bytes = memory;
    m.config = "class(dt) exception_dtable config [ \"base\" class(dt) array_dtable "
               "\"base_config\" config [ \"value_size\" int 5 ] "
               "\"alt\" class(dt) linear_dtable \"reject_value\" string \"_____\" ]";
    open_with(b, &m);
}

static void open_db(struct fixture *b)
{
    open_as(b, LLADD_MANAGED_RULER, 0);
}

static void close_db(struct fixture *b)
{
    bench_must(lladd_managed_close(b->t, NULL), "close a table");
    bench_must(lladd_close(b->db), "close");
    lladd_device_close(b->dev);
}

static void put(struct lladd_txn *txn, struct fixture *b, uint32_t key, const char *five)
{
    struct lladd_dtable_key k = lladd_dtable_u32(key);
    struct lladd_dtable_value v = lladd_dtable_value_of(five, 5);
    bench_must(lladd_managed_put(txn, b->t, &k, &v), "put");
}

/* Returns seconds. */
static double fill(struct fixture *b)
{
    struct lladd_txn *txn;
    uint64_t t0 = bench_now_ns();
    bench_must(lladd_begin(b->db, NULL, &txn, NULL), "begin");
    for (uint32_t i = 0; i < ROWS; i++)
        put(txn, b, i, "aoife");
    bench_must(lladd_commit(txn), "commit");
    return (double)(bench_now_ns() - t0) / 1e9;
}

static double digest(struct fixture *b)
{
    uint64_t t0 = bench_now_ns();
    bench_must(lladd_managed_digest(b->t, NULL), "digest");
    return (double)(bench_now_ns() - t0) / 1e9;
}

static void print(const char *what, const char *unit, struct bench_figure *f, const char *target)
{
    bench_print(BENCH, what, unit, f, target, NULL);
}

/* One transaction, in key order. */
static void load(void)
{
    struct bench_figure rows = {.n = 0}, memory = {.n = 0}, digests = {.n = 0};
    for (int run = 0; run < BENCH_RUNS; run++) {
        struct lladd_managed_stats s = {.struct_size = sizeof s};
        struct fixture b;
        open_db(&b);
        bench_add(&rows, ROWS / fill(&b) / 1e6);
        bench_must(lladd_managed_stats_get(b.t, &s, NULL, 0, NULL), "stats");
        bench_add(&memory, (double)s.memory_bytes / 1048576);
        bench_add(&digests, digest(&b));
        close_db(&b);
    }
    print("one transaction: rows written", "million/s", &rows, ">= 1.5");
    print("four million rows in memory", "MiB", &memory, "<= 160");
    print("digest of four million rows", "s", &digests, NULL);
}

/* Transactions of one row each that do not wait for the device. */
static void small(void)
{
    struct bench_figure later = {.n = 0}, reads = {.n = 0};
    for (int run = 0; run < BENCH_RUNS; run++) {
        char buf[8];
        size_t len;
        struct fixture b;
        open_db(&b);
        uint64_t t0 = bench_now_ns();
        for (uint32_t i = 0; i < SMALL; i++) {
            struct lladd_txn *txn;
            lladd_lsn lsn;
            bench_must(lladd_begin(b.db, NULL, &txn, NULL), "begin");
            put(txn, &b, i, "aoife");
            bench_must(lladd_commit_async(txn, &lsn), "commit");
        }
        bench_add(&later, SMALL / ((double)(bench_now_ns() - t0) / 1e9) / 1e6);
        t0 = bench_now_ns();
        for (uint32_t i = 0; i < SMALL; i++) {
            struct lladd_dtable_key key = lladd_dtable_u32(i);
            struct lladd_txn *txn;
            lladd_lsn lsn;
            bench_must(lladd_begin(b.db, NULL, &txn, NULL), "begin");
            bench_must(lladd_managed_get(txn, b.t, &key, buf, sizeof buf, &len), "get");
            bench_must(lladd_commit_async(txn, &lsn), "commit");
        }
        bench_add(&reads, SMALL / ((double)(bench_now_ns() - t0) / 1e9) / 1e6);
        close_db(&b);
    }
    print("transactions that write one row", "million/s", &later, ">= 1");
    print("transactions that read one row", "million/s", &reads, NULL);
}

/* Returns nanoseconds per lookup in `table`. NULL: the transaction looks up in the managed
 * table. */
static double look_up(struct lladd_txn *txn, struct fixture *b, const struct lladd_dtable *table,
                      uint64_t *seed)
{
    struct lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT;
    struct lladd_dtable_value v;
    uint64_t found = 0, t0 = bench_now_ns();
    for (int i = 0; i < LOOKUPS; i++) {
        struct lladd_dtable_key key = lladd_dtable_u32((uint32_t)(bench_random(seed) % ROWS));
        bench_must(table ? lladd_dtable_lookup(table, &key, &pin, &v, NULL)
                         : lladd_managed_lookup(txn, b->t, &key, &pin, &v),
                   "lookup");
        found += bench_dtable_seen(&v);
    }
    double took = (double)(bench_now_ns() - t0) / LOOKUPS;
    lladd_dtable_unpin(&pin);
    bench_must(found == LOOKUPS ? 0 : -1, "finding all");
    return took;
}

static void read_memory(struct fixture *b)
{
    struct bench_figure memory = {.n = 0};
    struct lladd_txn *txn;
    uint64_t seed = 1;
    bench_must(lladd_begin(b->db, NULL, &txn, NULL), "begin");
    for (int run = -1; run < BENCH_RUNS; run++) {
        double m = look_up(txn, b, NULL, &seed);
        if (run >= 0)
            bench_add(&memory, m);
    }
    bench_must(lladd_commit(txn), "commit");
    print("lookup, four million rows in memory", "ns", &memory, NULL);
}

static void print_reads(const char *what, struct bench_reads *r, bool targets)
{
    char text[80];
    (void)snprintf(text, sizeof text, "lookup, %s", what);
    print(text, "ns", &r->lookup, targets ? "<= the run alone + 5 %" : NULL);
    (void)snprintf(text, sizeof text, "scan, %s", what);
    print(text, "million rows/s", &r->forward, targets ? ">= the run alone - 10 %" : NULL);
    (void)snprintf(text, sizeof text, "scan backward, %s", what);
    print(text, "million rows/s", &r->backward, targets ? ">= the run alone - 10 %" : NULL);
}

/* Compares the managed table, which has a newer row besides the large run, with that run alone. */
static void compare(struct fixture *b, const char *what, const struct lladd_dtable *direct)
{
    struct bench_reads all = BENCH_NO_READS, alone = all;
    const struct lladd_dtable *table;
    struct lladd_txn *txn;
    uint64_t seed = 1;
    bench_must(lladd_begin(b->db, NULL, &txn, NULL), "begin");
    bench_must(lladd_managed_table(txn, b->t, &table), "table");
    for (int run = -1; run < BENCH_RUNS; run++) {
        bench_dtable_read(&all, table, ROWS, look_up(txn, b, NULL, &seed), run >= 0);
        bench_dtable_read(&alone, direct, ROWS, look_up(NULL, b, direct, &seed), run >= 0);
    }
    bench_must(lladd_commit(txn), "commit");
    print_reads(what, &all, true);
    char text[80];
    (void)snprintf(text, sizeof text, "the run alone, in turns with %s", what);
    print_reads(text, &alone, false);
}

/* Figure 12 of the Anvil paper: all rows in one run, and one newer row, first in memory, then in a
 * run of its own. */
static void read_rows(void)
{
    struct lladd_managed_stats s = {.struct_size = sizeof s};
    struct lladd_managed_run info;
    struct lladd_dtable *direct;
    struct lladd_txn *txn;
    struct fixture b;
    open_db(&b);
    (void)fill(&b);
    read_memory(&b);
    (void)digest(&b);
    bench_must(lladd_begin(b.db, NULL, &txn, NULL), "begin");
    put(txn, &b, ROWS / 2, "aoife");
    bench_must(lladd_commit(txn), "commit");
    bench_must(lladd_managed_stats_get(b.t, &s, &info, 1, NULL), "stats");
    bench_must(lladd_dtable_run_open(b.db, info.root, &direct, NULL), "open a run");
    compare(&b, "a run and one row in memory", direct);
    (void)digest(&b);
    compare(&b, "a run and a newer run of one row", direct);
    lladd_dtable_close(direct);
    close_db(&b);
}

/* ---- schedules ------------------------------------------------------------------------------- */

enum { MEMORY = 4 << 20, A_TIME = 100 };

/* Writes A_TIME rows in one transaction. The keys of all transactions together are a permutation of
 * the numbers below ROWS, which has no divisor but 2 and 5. */
static void write_some(struct fixture *b, uint32_t from)
{
    struct lladd_txn *txn;
    lladd_lsn lsn;
    bench_must(lladd_begin(b->db, NULL, &txn, NULL), "begin");
    for (uint32_t i = from; i < from + A_TIME; i++)
        put(txn, b, (uint32_t)((uint64_t)i * 2654435769u % ROWS), "aoife");
    bench_must(lladd_commit_async(txn, &lsn), "commit");
}

/* Does all work that is due; returns the bytes of the runs that it makes. *newest: the newest
 * generation of a run so far. */
static uint64_t maintain(struct fixture *b, uint64_t *newest)
{
    struct lladd_managed_stats s = {.struct_size = sizeof s};
    struct lladd_managed_run runs[64];
    uint64_t bytes = 0;
    bool more = true;
    while (more) {
        uint64_t before = *newest;
        bench_must(lladd_managed_maintain(b->t, &more, NULL), "maintain");
        bench_must(lladd_managed_stats_get(b->t, &s, runs, 64, NULL), "stats");
        for (uint64_t i = 0; i < s.runs && i < 64; i++) {
            bytes += runs[i].generation > before ? runs[i].bytes : 0;
            *newest = runs[i].generation > *newest ? runs[i].generation : *newest;
        }
    }
    return bytes;
}

/* The bytes of runs that are written for each row. */
static double written(enum lladd_managed_schedule schedule)
{
    struct fixture b;
    uint64_t bytes = 0, newest = 0;
    open_as(&b, schedule, MEMORY);
    for (uint32_t from = 0; from < ROWS; from += A_TIME) {
        write_some(&b, from);
        bytes += maintain(&b, &newest);
    }
    close_db(&b);
    return (double)bytes / ROWS;
}

/* Returns millions of rows per second, with two threads that digest and combine. *memory gets the
 * most MiB that memtables took. */
static double write_all(enum lladd_managed_schedule schedule, double *memory)
{
    struct lladd_managed_stats s = {.struct_size = sizeof s};
    struct fixture b;
    uint64_t most = 0;
    open_as(&b, schedule, MEMORY);
    bench_must(lladd_managed_threads(b.db, 2, NULL), "threads");
    uint64_t t0 = bench_now_ns();
    for (uint32_t from = 0; from < ROWS; from += A_TIME) {
        write_some(&b, from);
        if (from % (100 * A_TIME))
            continue;
        bench_must(lladd_managed_stats_get(b.t, &s, NULL, 0, NULL), "stats");
        most = s.pending_bytes > most ? s.pending_bytes : most;
    }
    double rate = ROWS / ((double)(bench_now_ns() - t0) / 1e9) / 1e6;
    bench_must(lladd_managed_threads(b.db, 0, NULL), "threads");
    close_db(&b);
    *memory = (double)most / 1048576;
    return rate;
}

/* Rows in random order, with two schedules. */
static void schedules(void)
{
    static const struct {
        const char *name;
        enum lladd_managed_schedule schedule;
    } all[] = {{"tiered", LLADD_MANAGED_TIERED}, {"levels", LLADD_MANAGED_LEVELS}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct bench_figure rate = {.n = 0}, bytes = {.n = 0}, memory = {.n = 0};
        char text[80];
        for (int run = 0; run < BENCH_RUNS; run++) {
            double most;
            bench_add(&rate, write_all(all[i].schedule, &most));
            bench_add(&memory, most);
        }
        bench_add(&bytes, written(all[i].schedule));
        (void)snprintf(text, sizeof text, "%s: rows written in random order", all[i].name);
        print(text, "million/s", &rate, NULL);
        (void)snprintf(text, sizeof text, "%s: rows in memory, at most", all[i].name);
        print(text, "MiB", &memory, NULL);
        (void)snprintf(text, sizeof text, "%s: written to runs for each row", all[i].name);
        print(text, "bytes", &bytes, NULL);
    }
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* Weather reports: the key is longitude, latitude and time, and the value has 32 bytes. They come
 * in random order. All keys of a station begin alike. */
enum { STATIONS = 5000, HOURS = 100, REPORTS = STATIONS * HOURS, BATCH = 1000, VALUE = 32 };
enum form { U64, TWELVE_BYTES, TEXT, FORMS };

struct report {
    uint32_t lon, lat, time;
    unsigned char bytes[40]; /* the key, unless it is a number */
};

static struct lladd_dtable_key report_key(struct report *r, enum form form)
{
    if (form == U64)
        return lladd_dtable_u64((uint64_t)r->lon << 48 | (uint64_t)r->lat << 32 | r->time);
    int len = 12;
    if (form == TEXT) {
        len = snprintf((char *)r->bytes, sizeof r->bytes, "report/%05u/%05u/%010u", r->lon, r->lat,
                       r->time);
    } else {
        lladd_put32(r->bytes, __builtin_bswap32(r->lon));
        lladd_put32(r->bytes + 4, __builtin_bswap32(r->lat));
        lladd_put32(r->bytes + 8, __builtin_bswap32(r->time));
    }
    return lladd_dtable_bytes(r->bytes, (size_t)len);
}

static struct report *make_reports(void)
{
    struct report *all = malloc(REPORTS * sizeof *all);
    uint64_t seed = 1;
    bench_must(all ? 0 : -1, "malloc");
    for (size_t s = 0, i = 0; s < STATIONS; s++) {
        uint32_t lon = (uint32_t)(bench_random(&seed) % 36000);
        uint32_t lat = (uint32_t)(bench_random(&seed) % 18000);
        uint32_t time = 1178000000u + (uint32_t)(bench_random(&seed) % 600);
        for (size_t h = 0; h < HOURS; h++, time += 3600)
            all[i++] = (struct report){.lon = lon, .lat = lat, .time = time};
    }
    for (size_t i = REPORTS - 1; i > 0; i--) {
        size_t j = bench_random(&seed) % (i + 1);
        struct report other = all[j];
        all[j] = all[i];
        all[i] = other;
    }
    return all;
}

static int by_key(const void *a, const void *b)
{
    const struct lladd_managed_row *x = a, *y = b;
    if (x->key.type == LLADD_DTABLE_U64)
        return x->key.number < y->key.number ? -1 : x->key.number > y->key.number;
    return memcmp(x->key.bytes.data, y->key.bytes.data, x->key.bytes.len);
}

static void put_batch(struct fixture *b, uint64_t number, const struct lladd_managed_row *rows,
                      bool unlogged)
{
    struct lladd_managed_position at = {number, 0};
    struct lladd_txn *txn;
    lladd_lsn lsn;
    bench_must(lladd_begin(b->db, NULL, &txn, NULL), "begin");
    if (unlogged)
        bench_must(lladd_managed_position_set(txn, b->t, &at), "position");
    bench_must(lladd_managed_put_many(txn, b->t, rows, BATCH, NULL), "put");
    bench_must(lladd_commit_async(txn, &lsn), "commit");
}

struct put_figures {
    struct bench_figure time, instructions, memory;
};

/* Puts all reports into one memtable, in transactions of BATCH rows. */
static void put_reports(struct report *all, enum form form, bool unlogged, bool sorted,
                        struct put_figures *f)
{
    static const char value[VALUE] = "31 degrees, and a west wind of 4";
    struct lladd_managed_options m = LLADD_MANAGED_OPTIONS_INIT;
    struct lladd_managed_stats s = {.struct_size = sizeof s};
    struct lladd_managed_row rows[BATCH];
    struct fixture b;
    m.type = form == U64 ? LLADD_DTABLE_U64 : LLADD_DTABLE_BYTES;
    m.schedule = LLADD_MANAGED_NEVER;
    m.flags = unlogged ? LLADD_MANAGED_UNLOGGED : 0;
    open_with(&b, &m);
    uint64_t took = 0, instructions = 0;
    for (size_t i = 0; i < REPORTS; i += BATCH) {
        for (size_t j = 0; j < BATCH; j++) {
            rows[j].key = report_key(&all[i + j], form);
            rows[j].value = lladd_dtable_value_of(value, sizeof value);
        }
        if (sorted)
            qsort(rows, BATCH, sizeof rows[0], by_key);
        uint64_t from = bench_instructions(), t0 = bench_cpu_ns();
        put_batch(&b, i + 1, rows, unlogged);
        took += bench_cpu_ns() - t0;
        instructions += bench_instructions() - from;
    }
    bench_must(lladd_managed_stats_get(b.t, &s, NULL, 0, NULL), "stats");
    bench_add(&f->time, (double)took / REPORTS);
    bench_add(&f->instructions, (double)instructions / REPORTS);
    bench_add(&f->memory, (double)s.memory_bytes / REPORTS);
    close_db(&b);
}

static void keys(void)
{
    static const char *const forms[FORMS] = {"u64", "12 bytes", "text"};
    static const struct {
        const char *name;
        bool unlogged, sorted;
    } ways[] = {{"logged", false, false}, {"unlogged", true, false},
                {"unlogged, batches sorted", true, true}};
    struct report *all = make_reports();
    for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
        struct put_figures figures[FORMS];
        memset(figures, 0, sizeof figures);
        for (int run = 0; run < BENCH_RUNS; run++) /* the forms in turns */
            for (int form = 0; form < FORMS; form++)
                put_reports(all, (enum form)form, ways[w].unlogged, ways[w].sorted, &figures[form]);
        for (int form = 0; form < FORMS; form++) {
            struct put_figures *f = &figures[form];
            char text[80];
            (void)snprintf(text, sizeof text, "%s keys, %s: a put", forms[form], ways[w].name);
            print(text, "ns", &f->time, form == TWELVE_BYTES ? "<= 1.25 times u64" : NULL);
            if (bench_median(&f->instructions) > 0)
                print(text, "instructions", &f->instructions, NULL);
            if (w == 0) {
                (void)snprintf(text, sizeof text, "%s keys: a row in memory", forms[form]);
                print(text, "bytes", &f->memory, NULL);
            }
        }
    }
    free(all);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"load", load}, {"small", small}, {"read", read_rows}, {"schedules", schedules},
                 {"keys", keys}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        bool wanted = argc == 1;
        for (int i = 1; i < argc; i++)
            wanted = wanted || strcmp(argv[i], cases[c].name) == 0;
        if (wanted)
            cases[c].run();
    }
    return 0;
}
