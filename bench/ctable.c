/* SPDX-License-Identifier: BSD-2-Clause */
/* cTables of one million rows and eight columns, as a row store and as a column store. Measures
 * writing, a digest, lookups of one column, and reading one column of all rows with a cursor and in
 * batches. Prints JSON lines; see docs/benchmarks.md.
 *
 *   bench-ctable [case]...   cases: row column; default: all
 *
 * A row has four columns of four bytes and four of twelve. The database is in memory. */
#include "common_dtable.h"

#include <lladd/bytes.h>
#include <lladd/ctable.h>
#include <lladd/device.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BENCH "ctable"
enum { ROWS = 1000000, LOOKUPS = 300000, COLUMNS = 8, NUMBERS = 4, TEXT = 12, BATCH = 4096 };

static const char *const names[COLUMNS] = {"a", "b", "c", "d", "e", "f", "g", "h"};

struct fixture {
    struct lladd_device *dev;
    struct lladd_db *db;
    struct lladd_ctable *t;
};

/* Four layers for numbers: an array without state bytes, an array with state bytes, small integers,
 * differences. */
static const struct lladd_ctable_group groups[] = {
    {names, 1, "class(dt) array_dtable config [ \"value_size\" int 4 \"tag_byte\" bool false ]"},
    {names + 1, 1, "class(dt) array_dtable config [ \"value_size\" int 4 ]"},
    {names + 2, 1,
     "class(dt) exception_dtable config [ \"base\" class(dt) smallint_dtable \"base_config\" "
     "config [ \"base\" class(dt) array_dtable \"base_config\" config [ \"value_size\" int 2 "
     "\"tag_byte\" bool false ] \"bytes\" int 2 ] \"alt\" class(dt) linear_dtable "
     "\"reject_value\" blob ffff0000 ]"},
    {names + 3, 1,
     "class(dt) deltaint_dtable config [ \"base\" class(dt) fixed_dtable \"base_config\" config [ "
     "\"value_size\" int 4 ] ]"},
};

static void open_db(struct fixture *b, bool columns)
{
    struct lladd_ctable_options c = LLADD_CTABLE_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_txn *txn;
    bench_dtable_open(&b->dev, &b->db);
    c.columns = names;
    c.n_columns = COLUMNS;
    c.managed.type = LLADD_DTABLE_U32;
    c.groups = columns ? groups : NULL;
    c.n_groups = columns ? NUMBERS : 0;
    bench_must(lladd_begin(b->db, NULL, &txn, &err), "begin");
    bench_must(lladd_ctable_create(txn, "rows", &c), "create");
    bench_must(lladd_commit(txn), "commit");
    bench_must(lladd_ctable_open(b->db, "rows", &b->t, &err), "open a table");
}

static void close_db(struct fixture *b)
{
    bench_must(lladd_ctable_close(b->t, NULL), "close a table");
    bench_must(lladd_close(b->db), "close");
    lladd_device_close(b->dev);
}

static double since(uint64_t t0)
{
    return (double)(bench_now_ns() - t0) / 1e9;
}

static double fill(struct fixture *b)
{
    struct lladd_dtable_value v[COLUMNS];
    unsigned char number[NUMBERS][4];
    struct lladd_txn *txn;
    uint64_t t0 = bench_now_ns();
    bench_must(lladd_begin(b->db, NULL, &txn, NULL), "begin");
    for (uint32_t i = 0; i < ROWS; i++) {
        struct lladd_dtable_key key = lladd_dtable_u32(i);
        for (uint32_t k = 0; k < COLUMNS; k++) {
            v[k] = lladd_dtable_value_of("twelve bytes", TEXT);
            if (k >= NUMBERS)
                continue;
            lladd_put32(number[k], k == 2 ? i % 50000 : 3 * i);
            v[k] = lladd_dtable_value_of(number[k], 4);
        }
        bench_must(lladd_ctable_put(txn, b->t, &key, v), "put");
    }
    bench_must(lladd_commit(txn), "commit");
    return since(t0);
}

static double digest(struct fixture *b)
{
    uint64_t t0 = bench_now_ns();
    bench_must(lladd_managed_digest(lladd_ctable_managed(b->t), NULL), "digest");
    return since(t0);
}

static double look_up(struct fixture *b)
{
    struct lladd_txn *txn;
    unsigned char buf[16];
    size_t len;
    uint32_t k = 1;
    uint64_t t0 = bench_now_ns();
    bench_must(lladd_begin(b->db, NULL, &txn, NULL), "begin");
    for (int i = 0; i < LOOKUPS; i++) {
        struct lladd_dtable_key key = lladd_dtable_u32(k);
        k = (uint32_t)((k * UINT64_C(7919) + 1) % ROWS);
        bench_must(lladd_ctable_get(txn, b->t, &key, 1, buf, sizeof buf, &len), "get");
    }
    bench_must(lladd_commit(txn), "commit");
    return since(t0) / LOOKUPS;
}

static double walk(struct fixture *b, uint32_t column)
{
    const struct lladd_dtable_value *v;
    struct lladd_ctable_cursor *c;
    struct lladd_txn *txn;
    uint64_t sum = 0, rows = 0, t0 = bench_now_ns();
    bench_must(lladd_begin(b->db, NULL, &txn, NULL), "begin");
    bench_must(lladd_ctable_cursor_open(txn, b->t, &column, 1, &c), "cursor");
    for (; lladd_ctable_next(c, NULL) == 0; rows++) {
        bench_must(lladd_ctable_row_read(c, NULL, &v, NULL), "row");
        sum += lladd_get32(v[0].bytes.data);
    }
    lladd_ctable_cursor_close(c);
    bench_must(lladd_commit(txn), "commit");
    bench_must(rows == ROWS && sum ? 0 : LLADD_BAD_STATE, "walk");
    return since(t0);
}

static double in_batches(struct fixture *b, uint32_t column)
{
    struct lladd_ctable_batch got = {.n = 0};
    struct lladd_ctable_cursor *c;
    struct lladd_txn *txn;
    uint64_t sum = 0, rows = 0, t0 = bench_now_ns();
    bench_must(lladd_begin(b->db, NULL, &txn, NULL), "begin");
    bench_must(lladd_ctable_cursor_open(txn, b->t, &column, 1, &c), "cursor");
    while (lladd_ctable_next_n(c, BATCH, 0, &got, NULL) == 0) {
        const struct lladd_ctable_values *v = &got.columns[0];
        bench_must(v->width == 4 ? 0 : LLADD_BAD_STATE, "a batch");
        for (size_t i = 0; i < got.n; i++)
            sum += lladd_get32(v->bytes + 4 * i);
        rows += got.n;
    }
    lladd_ctable_batch_free(&got);
    lladd_ctable_cursor_close(c);
    bench_must(lladd_commit(txn), "commit");
    bench_must(rows == ROWS && sum ? 0 : LLADD_BAD_STATE, "batches");
    return since(t0);
}

static void print(const char *store, const char *what, const char *unit, struct bench_figure *f)
{
    char name[80];
    (void)snprintf(name, sizeof name, "%s store, %s", store, what);
    bench_print(BENCH, name, unit, f, NULL, NULL);
}

static void store(bool columns)
{
    static const char *const kinds[NUMBERS] = {"plain array", "array", "small integers",
                                               "differences"};
    const char *name = columns ? "column" : "row";
    struct bench_figure puts = {.n = 0}, digests = {.n = 0}, lookups = {.n = 0}, walks = {.n = 0},
                        batches[NUMBERS] = {{.n = 0}};
    for (int run = 0; run < BENCH_RUNS; run++) {
        struct fixture b;
        open_db(&b, columns);
        bench_add(&puts, fill(&b) / ROWS * 1e6);
        bench_add(&digests, digest(&b));
        (void)in_batches(&b, 0); /* warms the cache */
        (void)walk(&b, 1);
        bench_add(&lookups, look_up(&b) * 1e6);
        bench_add(&walks, ROWS / walk(&b, 1) / 1e6);
        for (uint32_t k = 0; k < NUMBERS; k++) {
            (void)in_batches(&b, k);
            bench_add(&batches[k], ROWS / in_batches(&b, k) / 1e6);
        }
        close_db(&b);
    }
    print(name, "put a row of eight columns", "us", &puts);
    print(name, "digest 1M rows", "s", &digests);
    print(name, "look a column up", "us", &lookups);
    print(name, "one column by a cursor", "M rows/s", &walks);
    for (uint32_t k = 0; k < (columns ? NUMBERS : 1); k++) {
        char what[64];
        (void)snprintf(what, sizeof what, "one column in batches%s%s", columns ? ", " : "",
                       columns ? kinds[k] : "");
        print(name, what, "M rows/s", &batches[k]);
    }
}

int main(int argc, char **argv)
{
    bool row = argc == 1, column = argc == 1;
    for (int i = 1; i < argc; i++) {
        row = row || strcmp(argv[i], "row") == 0;
        column = column || strcmp(argv[i], "column") == 0;
    }
    if (row)
        store(false);
    if (column)
        store(true);
    return 0;
}
