/* SPDX-License-Identifier: BSD-2-Clause */
/* dTables: build time, lookups, scans and sizes for the configurations of figures 11 and 12 of
 * the Anvil paper, and for further ones. Prints JSON lines; see docs/benchmarks.md.
 *
 *   bench-dtable [case]...   cases: figure11 figure12 sparse auto texts stamps hot; default: all
 *
 * Figure 11: four million keys from 0 up; values have five bytes, but one in 500 has seven (in the
 * plain array none has). The tables are in memory, and cached before the measurement, so no I/O is
 * measured. */
#include "common_dtable.h"

#include <lladd/device.h>
#include <lladd/dtable.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BENCH "dtable"
#define ARRAY "\"base\" class(dt) array_dtable \"base_config\" config [ \"value_size\" int 5 ] "
#define FIXED "\"base\" class(dt) fixed_dtable \"base_config\" config [ \"value_size\" int 5 ] "
#define BESIDE "\"alt\" class(dt) linear_dtable \"reject_value\" string \"_____\" "

enum { ROWS = 4000000, LOOKUPS = 1000000 };

struct fixture {
    struct lladd_device *dev;
    struct lladd_db *db;
};

static void open_db(struct fixture *b)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    bench_must(lladd_device_memory(&b->dev), "device");
    o.device = b->dev;
    o.cache_bytes = 64u << 20;
    o.log_limit_bytes = UINT64_MAX;
    bench_must(lladd_open(NULL, &o, &b->db, &err), "open");
    lladd_dtable_cache_limit(b->db, UINT64_C(1) << 30);
}

static void close_db(struct fixture *b)
{
    bench_must(lladd_close(b->db), "close");
    lladd_device_close(b->dev);
}

/* The rows to build and look up. */
struct load {
    const char *name, *config;
    bool sevens;      /* one value in 500 has seven bytes */
    bool four;        /* values are the row's number, in four bytes */
    uint32_t spacing; /* distance of each key from the next */
    /* Makes the value of row i in `room` (64 bytes). NULL: the value has five bytes, unless
     * `sevens` or `four` says otherwise. */
    struct lladd_dtable_value (*value)(uint32_t i, unsigned char *room);
    uint32_t among; /* only the first `among` keys are looked up; 0: all */
};

static uint32_t is_seven(const struct load *l, uint32_t i)
{
    return l->sevens && (i * UINT32_C(2654435761)) % 500 == 7;
}

/* Returns seconds. */
static double build(struct fixture *b, const struct load *l, struct lladd_dtable **out)
{
    struct lladd_dtable_run_options o = LLADD_DTABLE_RUN_OPTIONS_INIT;
    struct lladd_dtable_run_builder *run;
    struct lladd_txn *txn;
    lladd_pageno root;
    uint64_t t0 = bench_now_ns();
    o.type = LLADD_DTABLE_U32;
    o.text = l->config;
    bench_must(lladd_begin(b->db, NULL, &txn, NULL), "begin");
    bench_must(lladd_dtable_run_begin(txn, &o, &run), "begin a run");
    for (uint32_t i = 0; i < ROWS; i++) {
        struct lladd_dtable_key key = lladd_dtable_u32(i * l->spacing);
        unsigned char room[64];
        struct lladd_dtable_value value = l->value         ? l->value(i, room)
                                          : is_seven(l, i) ? lladd_dtable_value_of("pandora", 7)
                                          : l->four        ? lladd_dtable_value_of(&i, 4)
                                                           : lladd_dtable_value_of("aoife", 5);
        bench_must(lladd_dtable_run_add(run, &key, &value), "add");
    }
    bench_must(lladd_dtable_run_finish(run, &root), "finish");
    bench_must(lladd_commit(txn), "commit");
    double took = (double)(bench_now_ns() - t0) / 1e9;
    bench_must(lladd_dtable_run_open(b->db, root, out, NULL), "open a run");
    return took;
}

/* Returns nanoseconds per lookup. `add` is added to existing keys, so unless it is 0 the keys
 * looked up are absent. */
static double look_up(const struct lladd_dtable *t, const struct load *l, uint32_t add,
                      uint64_t *seed)
{
    struct lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT;
    struct lladd_dtable_value v;
    uint64_t found = 0, t0 = bench_now_ns(), among = l->among ? l->among : ROWS;
    for (int i = 0; i < LOOKUPS; i++) {
        struct lladd_dtable_key key =
            lladd_dtable_u32((uint32_t)(bench_random(seed) % among) * l->spacing + add);
        bench_must(lladd_dtable_lookup(t, &key, &pin, &v, NULL), "lookup");
        found += bench_dtable_seen(&v);
    }
    double took = (double)(bench_now_ns() - t0) / LOOKUPS;
    lladd_dtable_unpin(&pin);
    bench_must(found == (add ? 0 : LOOKUPS) ? 0 : -1, "finding all");
    return took;
}

static void print(const char *name, const char *what, const char *unit, struct bench_figure *f,
                  const char *target)
{
    char text[120];
    (void)snprintf(text, sizeof text, "%s: %s", name, what);
    bench_print(BENCH, text, unit, f, target, NULL);
}

static void measure(const struct load *l, const char *lookup_target, const char *size_target)
{
    struct bench_figure built = {.n = 0}, looked = {.n = 0}, absent = {.n = 0}, scanned = {.n = 0},
                        size = {.n = 0};
    struct lladd_dtable_run_info info = {.struct_size = sizeof info};
    struct lladd_dtable *t;
    struct fixture b;
    uint64_t seed = 1;
    open_db(&b);
    bench_add(&built, build(&b, l, &t));
    bench_must(lladd_dtable_run_info_get(t, &info, NULL), "info");
    bench_add(&size, (double)info.pages * lladd_page_size(b.db) / 1048576);
    for (int run = -1; run < BENCH_RUNS; run++) {
        double s = bench_dtable_scan(t, ROWS), n = look_up(t, l, 0, &seed),
               a = l->spacing > 1 ? look_up(t, l, 1, &seed) : 0;
        if (run < 0) /* the first run fills the cache */
            continue;
        bench_add(&scanned, s);
        bench_add(&looked, n);
        bench_add(&absent, a);
    }
    lladd_dtable_close(t);
    close_db(&b);
    print(l->name, "build and commit", "s", &built, NULL);
    print(l->name, "lookup", "ns", &looked, lookup_target);
    if (l->spacing > 1)
        print(l->name, "lookup of an absent key", "ns", &absent, NULL);
    print(l->name, "scan", "million rows/s", &scanned, NULL);
    print(l->name, "size", "MiB", &size, size_target);
}

static void figure11(void)
{
    static const struct load loads[] = {
        {"linear", "class(dt) linear_dtable", true, false, 1, NULL, 0},
        {"btree over linear", "class(dt) btree_dtable config [ \"base\" class(dt) linear_dtable ]",
         true, false, 1, NULL, 0},
        {"array", "config [ " ARRAY "]", false, false, 1, NULL, 0},
        {"exception over array", "class(dt) exception_dtable config [ " ARRAY BESIDE "]", true,
         false, 1, NULL, 0},
        {"exception over fixed", "class(dt) exception_dtable config [ " FIXED BESIDE "]", true,
         false, 1, NULL, 0},
        {"exception over btree over fixed",
         "class(dt) exception_dtable config [ \"base\" class(dt) btree_dtable \"base_config\" "
         "config [ " FIXED "] " BESIDE "]",
         true, false, 1, NULL, 0}};
    static const char *const lookups[] = {"<= 600", "< linear", "<= 150", "<= 150", NULL, NULL};
    static const char *const sizes[] = {"<= 49.6 + 2 %", "<= 80.2 + 2 %", "<= 22.9 + 2 %",
                                        "<= 23.0 + 2 %", "<= 34.4 + 2 %", "<= 65.0 + 2 %"};
    for (size_t i = 0; i < sizeof loads / sizeof loads[0]; i++)
        measure(&loads[i], lookups[i], sizes[i]);
}

static void print_reads(const char *name, struct bench_reads *r, bool targets)
{
    const char *scan = targets ? ">= direct - 10 %" : NULL;
    print(name, "lookup", "ns", &r->lookup, targets ? "<= direct + 5 %" : NULL);
    print(name, "scan", "million rows/s", &r->forward, scan);
    print(name, "scan backward", "million rows/s", &r->backward, scan);
}

/* Compares a table of all rows with an overlay of one newer row and that table. */
static void figure12(void)
{
    struct load l = {"exception over array",
                     "class(dt) exception_dtable config [ " ARRAY BESIDE "]", true, false, 1,
                     NULL, 0};
    struct bench_reads direct = BENCH_NO_READS, both = direct;
    struct lladd_dtable *tables[2], *over;
    struct lladd_dtable_key key = lladd_dtable_u32(ROWS / 2);
    struct lladd_dtable_value value = lladd_dtable_value_of("aoife", 5);
    struct fixture b;
    uint64_t seed = 1;
    open_db(&b);
    (void)build(&b, &l, &tables[1]);
    bench_must(lladd_dtable_memory(b.db, LLADD_DTABLE_U32, NULL, &tables[0], NULL), "memory");
    bench_must(lladd_dtable_put(tables[0], &key, &value, NULL), "put");
    bench_must(lladd_dtable_overlay(b.db, tables, 2, &over, NULL), "overlay");
    for (int run = -1; run < BENCH_RUNS; run++) {
        bench_dtable_read(&direct, tables[1], ROWS, look_up(tables[1], &l, 0, &seed), run >= 0);
        bench_dtable_read(&both, over, ROWS, look_up(over, &l, 0, &seed), run >= 0);
    }
    lladd_dtable_close(over);
    lladd_dtable_close(tables[0]);
    lladd_dtable_close(tables[1]);
    close_db(&b);
    print_reads("direct", &direct, false);
    print_reads("overlay of that table and one row in memory", &both, true);
}

static void sparse(void)
{
    struct load linear = {"linear, keys 1000 apart", "class(dt) linear_dtable", false, true, 1000,
                          NULL, 0};
    struct load tree = {"btree over linear, keys 1000 apart",
                        "class(dt) btree_dtable config [ \"base\" class(dt) linear_dtable ]", false,
                        true, 1000, NULL, 0};
    measure(&linear, NULL, NULL);
    measure(&tree, NULL, NULL);
}

/* One of 1024 texts of about 50 bytes. */
static struct lladd_dtable_value text_of(uint32_t i, unsigned char *room)
{
    int n = snprintf((char *)room, 64, "Customer number %u, of the northern district, pays",
                     i * UINT32_C(2654435761) >> 22);
    return lladd_dtable_value_of(room, (size_t)n);
}

/* Makes times in seconds. Each time is 1 to 15 seconds later than the one before it; every 1000
 * rows a day is added. */
static struct lladd_dtable_value stamp_of(uint32_t i, unsigned char *room)
{
    uint32_t stamp = 1000000000 + i * 8 + (i * UINT32_C(2654435761) >> 29) + i / 1000 * 86400;
    memcpy(room, &stamp, sizeof stamp);
    return lladd_dtable_value_of(room, sizeof stamp);
}

static void measure_all(const char *const (*configs)[2], size_t n, bool sevens,
                        struct lladd_dtable_value (*value)(uint32_t, unsigned char *))
{
    for (size_t i = 0; i < n; i++) {
        struct load l = {configs[i][0], configs[i][1], sevens, false, 1, value, 0};
        measure(&l, NULL, NULL);
    }
}

static void automatic(void)
{
    static const char *const configs[][2] = {
        {"auto", "class(dt) auto_dtable"},
        {"cache over exception over array",
         "class(dt) cache_dtable config [ \"base\" class(dt) exception_dtable \"base_config\" "
         "config [ " ARRAY BESIDE "] ]"},
        {"keydiv of two exceptions over arrays",
         "class(dt) keydiv_dtable config [ \"divider\" int 2000000 \"below\" class(dt) "
         "exception_dtable \"below_config\" config [ " ARRAY BESIDE "] \"from\" class(dt) "
         "exception_dtable \"from_config\" config [ " ARRAY BESIDE "] ]"},
        {"exist over exception over array",
         "class(dt) exist_dtable config [ \"base\" class(dt) exception_dtable \"base_config\" "
         "config [ " ARRAY BESIDE "] \"tombstones\" class(dt) linear_dtable ]"}};
    measure_all(configs, sizeof configs / sizeof configs[0], true, NULL);
}

#define TEXTS "class(dt) ustring_dtable config [ \"base\" class(dt) linear_dtable \"bytes\" int 2 ]"

/* Lookups of 500 keys, without a cache_dtable and with one that keeps all 500. */
static void hot(void)
{
    static const struct load loads[] = {
        {"500 keys: ustring over linear", TEXTS, false, false, 1, text_of, 500},
        {"500 keys: cache over ustring over linear",
         "class(dt) cache_dtable config [ \"base\" class(dt) ustring_dtable \"base_config\" config "
         "[ \"base\" class(dt) linear_dtable \"bytes\" int 2 ] ]",
         false, false, 1, text_of, 500}};
    for (size_t i = 0; i < sizeof loads / sizeof loads[0]; i++)
        measure(&loads[i], NULL, NULL);
}

static void texts(void)
{
    static const char *const configs[][2] = {
        {"texts: linear", "class(dt) linear_dtable"},
        {"texts: ustring over linear", TEXTS},
        {"texts: ustring over array",
         "class(dt) ustring_dtable config [ \"base\" class(dt) array_dtable \"bytes\" int 2 ]"},
        {"texts: ustring over auto",
         "class(dt) ustring_dtable config [ \"base\" class(dt) auto_dtable \"bytes\" int 2 ]"},
        {"texts: compressed linear",
         "class(dt) compress_dtable config [ \"base\" class(dt) linear_dtable ]"},
        {"texts: auto", "class(dt) auto_dtable"}};
    measure_all(configs, sizeof configs / sizeof configs[0], false, text_of);
}

static void stamps(void)
{
    static const char *const configs[][2] = {
        {"stamps: array", "class(dt) array_dtable config [ \"value_size\" int 4 ]"},
        {"stamps: delta over exception over smallint over array",
         "class(dt) deltaint_dtable config [ \"base\" class(dt) exception_dtable \"base_config\" "
         "config [ \"base\" class(dt) smallint_dtable \"base_config\" config [ \"base\" class(dt) "
         "array_dtable \"base_config\" config [ \"value_size\" int 1 \"tag_byte\" bool false ] "
         "\"bytes\" int 1 ] \"alt\" class(dt) fixed_dtable \"reject_value\" blob ff000000 ] ]"},
        {"stamps: auto", "class(dt) auto_dtable"}};
    measure_all(configs, sizeof configs / sizeof configs[0], false, stamp_of);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {
        {"figure11", figure11}, {"figure12", figure12}, {"sparse", sparse}, {"auto", automatic},
        {"texts", texts},       {"stamps", stamps},     {"hot", hot}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        bool wanted = argc == 1;
        for (int i = 1; i < argc; i++)
            wanted = wanted || strcmp(argv[i], cases[c].name) == 0;
        if (wanted)
            cases[c].run();
    }
    return 0;
}
