/* SPDX-License-Identifier: BSD-2-Clause */
/* TPC-H's lineitem in cTables: figures 14, 15 and 16 of the Anvil paper (sections 6.3 and
 * 6.4). Prints JSON lines; see docs/benchmarks.md.
 *
 *   bench-tpch [SCALE] [case]...   cases: sizes columns rows figure15 figure16; default: all
 *
 * The paper's table has scale 1, the default: about six million rows, keys from 1 up. The table is
 * in files. Before a cold query the bench drops these files from the operating system's cache.
 * Commits do not wait for the device.
 *
 * Figure 14 (cases columns and rows): a query uses the first n of 16 columns, in the paper's order.
 * It needs the first column of every row, and the other columns of one row in ten. "by a cursor"
 * reads only these values, row by row. "in batches" reads the n columns of all rows, 4096 rows at a
 * time.
 *
 * Figures 15 and 16: rows are put, a thousand per transaction. After every 250,000 rows a digest is
 * due, and after every four digests a combine. In figure 15 a maintenance thread does both, in
 * figure 16 the writing thread. */
#include "common_dtable.h"
#include "common_lineitem.h"

#include <lladd/bytes.h>
#include <lladd/ctable.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BENCH "tpch"
enum {
    BATCH = 4096,
    TXN = 1000,
    DIGEST = 500000, /* rows between digests, figure 14 */
    ROUND = 250000,  /* rows between digests, figures 15 and 16 */
    SLICE = 10000,   /* rows of one slice; each slice's rate is one point */
    TENTH = 10
};

static double scale = 1;

/* Reduces a number of rows if the scale is below 1. */
static uint64_t share(uint64_t rows)
{
    return scale < 1 ? (uint64_t)((double)rows * scale) + 1 : rows;
}

struct fixture {
    char dir[256];
    struct lladd_db *db;
    struct lladd_ctable *t;
    uint64_t rows, sum; /* sum: of price times discount, both in hundredths */
};

static const enum lineitem_column order[LINEITEM_COLUMNS] = {
    L_PARTKEY,    L_ORDERKEY,   L_SUPPKEY,      L_LINENUMBER, L_QUANTITY, L_EXTENDEDPRICE,
    L_RETURNFLAG, L_LINESTATUS, L_SHIPINSTRUCT, L_SHIPMODE,   L_COMMENT,  L_DISCOUNT,
    L_TAX,        L_SHIPDATE,   L_COMMITDATE,   L_RECEIPTDATE};

/* ---- tables ---------------------------------------------------------------------------------- */

#define AUTO "class(dt) auto_dtable"

struct store {
    const char *name;
    const char *config;  /* of a row store; NULL: a column store */
    const char *column;  /* column store: configuration of each column but l_comment */
    const char *comment; /* column store: configuration of l_comment */
};
static const struct store row_store = {"row store", "class(dt) linear_dtable", NULL, NULL};
static const struct store column_store = {"column store", NULL, AUTO, AUTO};
static const struct store stores[] = {
    {"row store", "class(dt) linear_dtable", NULL, NULL},
    {"row store, compressed",
     "class(dt) compress_dtable config [ \"base\" class(dt) linear_dtable ]", NULL, NULL},
    {"column store, linear", NULL, "class(dt) linear_dtable", "class(dt) linear_dtable"},
    {"column store", NULL, AUTO, AUTO},
    {"column store, comments compressed", NULL, AUTO,
     "class(dt) compress_dtable config [ \"base\" " AUTO " ]"}};

static void open_db(struct fixture *b, uint64_t blocks)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    o.cache_bytes = 64u << 20;
    o.durability = LLADD_DURABLE_LATER;
    bench_must(lladd_managed_register(&o, &err), "register");
    bench_must(lladd_open(b->dir, &o, &b->db, &err), "open");
    lladd_options_release(&o);
    lladd_dtable_cache_limit(b->db, blocks);
}

static void close_db(struct fixture *b)
{
    bench_must(lladd_ctable_close(b->t, NULL), "close a table");
    bench_must(lladd_close(b->db), "close");
}

static void open_table(struct fixture *b)
{
    bench_must(lladd_ctable_open(b->db, "lineitem", &b->t, NULL), "open a table");
}

/* Creates and opens the table, with keys of 32 bits, the options `m` and the store's
 * configuration. */
static void create(struct fixture *b, const struct store *s, const struct lladd_managed_options *m)
{
    struct lladd_ctable_options c = LLADD_CTABLE_OPTIONS_INIT;
    struct lladd_ctable_group groups[LINEITEM_COLUMNS];
    const char *names[LINEITEM_COLUMNS];
    struct lladd_txn *txn;
    for (int i = 0; i < LINEITEM_COLUMNS; i++) {
        names[i] = lineitem_name((enum lineitem_column)i);
        groups[i] =
            (struct lladd_ctable_group){&names[i], 1, i == L_COMMENT ? s->comment : s->column};
    }
    c.columns = names;
    c.n_columns = LINEITEM_COLUMNS;
    c.managed = *m;
    c.managed.type = LLADD_DTABLE_U32;
    /* In a column store a digest makes packed rows, and the combine makes the columns. */
    c.managed.config = s->config ? s->config : "class(dt) linear_dtable";
    c.groups = s->config ? NULL : groups;
    c.n_groups = s->config ? 0 : LINEITEM_COLUMNS;
    bench_must(lladd_begin(b->db, NULL, &txn, NULL), "begin");
    bench_must(lladd_ctable_create(txn, "lineitem", &c), "create");
    bench_must(lladd_commit(txn), "commit");
    open_table(b);
}

static void put(struct lladd_txn *txn, struct fixture *b, uint32_t number,
                const struct lineitem_row *row)
{
    struct lladd_dtable_key key = lladd_dtable_u32(number);
    struct lladd_dtable_value v[LINEITEM_COLUMNS];
    unsigned char numbers[LINEITEM_NUMBERS][4];
    for (int i = 0; i < LINEITEM_NUMBERS; i++) {
        lladd_put32(numbers[i], row->number[i]);
        v[i] = lladd_dtable_value_of(numbers[i], 4);
    }
    for (int i = LINEITEM_NUMBERS; i < LINEITEM_COLUMNS; i++) {
        const struct lineitem_text *t = &row->text[i - LINEITEM_NUMBERS];
        v[i] = lladd_dtable_value_of(t->bytes, t->len);
    }
    bench_must(lladd_ctable_put(txn, b->t, &key, v), "put");
}

/* ---- figure 14: loading ---------------------------------------------------------------------- */

static void digest(struct fixture *b)
{
    bench_must(lladd_managed_digest(lladd_ctable_managed(b->t), NULL), "digest");
}

/* Loads the table: digests after every DIGEST rows, and combines all runs into one at the end.
 * Returns seconds. */
static double load(struct fixture *b, const struct store *s)
{
    struct lladd_managed_options m = LLADD_MANAGED_OPTIONS_INIT;
    struct lineitem *source = lineitem_new(scale, 1);
    struct lineitem_row row;
    struct lladd_txn *txn = NULL;
    m.schedule = LLADD_MANAGED_NEVER;
    m.memory_bytes = UINT64_C(1) << 40;
    bench_must(source ? 0 : -1, "the source of rows");
    bench_make_dir(b->dir);
    open_db(b, UINT64_C(2) << 30);
    create(b, s, &m);
    uint64_t t0 = bench_now_ns();
    for (b->rows = b->sum = 0; lineitem_next(source, &row);) {
        if (b->rows % TXN == 0)
            bench_must(lladd_begin(b->db, NULL, &txn, NULL), "begin");
        put(txn, b, (uint32_t)++b->rows, &row);
        b->sum += (uint64_t)row.number[L_EXTENDEDPRICE] * row.number[L_DISCOUNT];
        if (b->rows % TXN == 0)
            bench_must(lladd_commit(txn), "commit");
        if (b->rows % share(DIGEST) == 0)
            digest(b);
    }
    if (b->rows % TXN)
        bench_must(lladd_commit(txn), "commit");
    lineitem_free(source);
    digest(b);
    bench_must(lladd_managed_combine(lladd_ctable_managed(b->t), 0, NULL), "combine");
    return (double)(bench_now_ns() - t0) / 1e9;
}

static void remove_db(struct fixture *b)
{
    close_db(b);
    bench_remove_dir(b->dir);
}

static void print(const char *store, const char *what, const char *unit, double value,
                  const char *target)
{
    struct bench_figure one = {.n = 0};
    char name[120];
    bench_add(&one, value);
    (void)snprintf(name, sizeof name, "%s, %s", store, what);
    bench_print(BENCH, name, unit, &one, target, NULL);
}

static double mebibytes(struct fixture *b)
{
    struct lladd_managed_stats s = {.struct_size = sizeof s};
    bench_must(lladd_managed_stats_get(lladd_ctable_managed(b->t), &s, NULL, 0, NULL), "stats");
    bench_must(s.runs == 1 && s.run_rows == b->rows ? 0 : -1, "one run with all rows");
    return (double)s.run_pages * lladd_page_size(b->db) / 1048576;
}

static void print_made(struct fixture *b, const struct store *s, double took)
{
    char target[32];
    (void)snprintf(target, sizeof target, "<= %.4g", 300 * scale);
    bool automatic = s->column && strcmp(s->column, AUTO) == 0;
    print(s->name, "load, digests and combine", "s", took, NULL);
    print(s->name, "size", "MiB", mebibytes(b), automatic ? target : NULL);
}

/* ---- figure 14: queries ---------------------------------------------------------------------- */

static uint64_t look_at(const struct lladd_dtable_value *v)
{
    const unsigned char *p = v->bytes.data;
    return v->bytes.len + (v->bytes.len ? p[0] : 0);
}

/* Reads the first column of all rows, and the others of one row in ten. Returns seconds. */
static double by_cursor(struct fixture *b, const enum lineitem_column *columns, uint32_t n)
{
    struct lladd_dtable_pin pins[LINEITEM_COLUMNS + 1] = {LLADD_DTABLE_PIN_INIT};
    struct lladd_dtable_value values[LINEITEM_COLUMNS];
    uint32_t numbers[LINEITEM_COLUMNS];
    const struct lladd_dtable *table;
    struct lladd_dtable_cursor *c;
    enum lladd_dtable_state state;
    struct lladd_txn *txn;
    uint64_t seed = 1, rows = 0, sum = 0, t0 = bench_now_ns();
    for (uint32_t i = 0; i < n; i++)
        numbers[i] = columns[i];
    const struct lladd_dtable_columns first = {1, numbers, values, pins},
                                      others = {n - 1, numbers + 1, values + 1, pins};
    bench_must(lladd_begin(b->db, NULL, &txn, NULL), "begin");
    bench_must(lladd_managed_table(txn, lladd_ctable_managed(b->t), &table), "table");
    bench_must(lladd_dtable_cursor_open(table, 0, &c, NULL), "cursor");
    for (; lladd_dtable_next(c, NULL) == 0; rows++) {
        bench_must(lladd_dtable_row_columns(c, &first, &state, NULL), "a column");
        sum += look_at(&values[0]);
        if (n == 1 || bench_random(&seed) % TENTH)
            continue;
        bench_must(lladd_dtable_row_columns(c, &others, &state, NULL), "columns");
        for (uint32_t i = 1; i < n; i++)
            sum += look_at(&values[i]);
    }
    for (uint32_t i = 0; i <= n; i++)
        lladd_dtable_unpin(&pins[i]);
    lladd_dtable_cursor_close(c);
    bench_must(lladd_commit(txn), "commit");
    bench_must(rows == b->rows && sum > rows ? 0 : -1, "seeing all");
    return (double)(bench_now_ns() - t0) / 1e9;
}

static struct lladd_dtable_value value_in(const struct lladd_ctable_values *v, size_t i)
{
    if (v->width)
        return lladd_dtable_value_of(v->bytes + i * v->width, v->width);
    size_t from = i ? v->ends[i - 1] : 0;
    return lladd_dtable_value_of(v->bytes + from, v->ends[i] - from);
}

static uint64_t sum_of(const struct lladd_ctable_values *v, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n && v->width == 4; i++)
        sum += lladd_get32(v->bytes + 4 * i);
    for (size_t i = 0; i < n && v->width != 4; i++) {
        const struct lladd_dtable_value one = value_in(v, i);
        sum += look_at(&one);
    }
    return sum;
}

static uint64_t look_at_row(const struct lladd_ctable_batch *got, size_t row, uint32_t n)
{
    uint64_t sum = 0;
    for (uint32_t k = 1; k < n; k++) {
        const struct lladd_dtable_value v = value_in(&got->columns[k], row);
        sum += look_at(&v);
    }
    return sum;
}

/* Answers the query of by_cursor, but copies the n columns of all rows. Returns seconds. */
static double in_batches(struct fixture *b, const enum lineitem_column *columns, uint32_t n)
{
    struct lladd_ctable_batch got = {.n = 0};
    uint32_t numbers[LINEITEM_COLUMNS];
    struct lladd_ctable_cursor *c;
    struct lladd_txn *txn;
    uint64_t seed = 1, rows = 0, sum = 0, t0 = bench_now_ns();
    for (uint32_t i = 0; i < n; i++)
        numbers[i] = columns[i];
    bench_must(lladd_begin(b->db, NULL, &txn, NULL), "begin");
    bench_must(lladd_ctable_cursor_open(txn, b->t, numbers, n, &c), "cursor");
    for (; lladd_ctable_next_n(c, BATCH, 0, &got, NULL) == 0; rows += got.n) {
        sum += sum_of(&got.columns[0], got.n);
        for (size_t i = 0; n > 1 && i < got.n; i++)
            sum += bench_random(&seed) % TENTH ? 0 : look_at_row(&got, i, n);
    }
    lladd_ctable_batch_free(&got);
    lladd_ctable_cursor_close(c);
    bench_must(lladd_commit(txn), "commit");
    bench_must(rows == b->rows && sum > rows ? 0 : -1, "seeing all");
    return (double)(bench_now_ns() - t0) / 1e9;
}

/* Checks the sum of price times discount over all stored rows. */
static void check_sum(struct fixture *b)
{
    const uint32_t numbers[2] = {L_EXTENDEDPRICE, L_DISCOUNT};
    struct lladd_ctable_batch got = {.n = 0};
    struct lladd_ctable_cursor *c;
    struct lladd_txn *txn;
    uint64_t sum = 0;
    bench_must(lladd_begin(b->db, NULL, &txn, NULL), "begin");
    bench_must(lladd_ctable_cursor_open(txn, b->t, numbers, 2, &c), "cursor");
    while (lladd_ctable_next_n(c, BATCH, 0, &got, NULL) == 0)
        for (size_t i = 0; i < got.n; i++)
            sum += (uint64_t)lladd_get32(value_in(&got.columns[0], i).bytes.data) *
                   lladd_get32(value_in(&got.columns[1], i).bytes.data);
    lladd_ctable_batch_free(&got);
    lladd_ctable_cursor_close(c);
    bench_must(lladd_commit(txn), "commit");
    bench_must(sum == b->sum ? 0 : -1, "the sum of price times discount");
}

/* Opens the table again, with nothing of it in the library's and the operating system's caches. */
static void reopen_cold(struct fixture *b)
{
    close_db(b);
    bench_drop_cached(b->dir);
    open_db(b, UINT64_C(2) << 30);
    open_table(b);
}

typedef double query(struct fixture *, const enum lineitem_column *columns, uint32_t n);

/* Prints the median of `runs` queries, in seconds, and returns it. */
static double ask(struct fixture *b, const char *store, const char *how, query *q, uint32_t n,
                  bool cold, int runs)
{
    struct bench_figure f = {.n = 0};
    char name[120];
    if (!cold)
        (void)q(b, order, n);
    for (int run = 0; run < runs; run++) {
        if (cold)
            reopen_cold(b);
        bench_add(&f, q(b, order, n));
    }
    (void)snprintf(name, sizeof name, "figure 14: %s, %s, %s, %u of 16 columns", store, how,
                   cold ? "cold" : "warm", n);
    bench_print(BENCH, name, "s", &f, NULL, NULL);
    return bench_median(&f);
}

/* Prints millions of values per second, for each column of numbers. */
static void scan_numbers(struct fixture *b)
{
    for (int i = 0; i < LINEITEM_NUMBERS; i++) {
        const enum lineitem_column c = (enum lineitem_column)i;
        struct bench_figure f = {.n = 0};
        char name[80];
        (void)in_batches(b, &c, 1);
        for (int run = 0; run < BENCH_RUNS; run++)
            bench_add(&f, (double)b->rows / in_batches(b, &c, 1) / 1e6);
        (void)snprintf(name, sizeof name, "column store, scan of %s", lineitem_name(c));
        bench_print(BENCH, name, "M values/s", &f, ">= 500", NULL);
    }
}

static void ask_columns(struct fixture *b)
{
    for (int cold = 0; cold < 2; cold++) {
        double seconds[LINEITEM_COLUMNS + 1];
        for (uint32_t n = 1; n <= LINEITEM_COLUMNS; n++)
            seconds[n] = ask(b, "column store", "in batches", in_batches, n, cold,
                             cold     ? 1
                             : n <= 8 ? BENCH_RUNS
                                      : 3); /* texts take long */
        print("column store", cold ? "16 columns against 1, cold" : "16 columns against 1", "times",
              seconds[LINEITEM_COLUMNS] / seconds[1], ">= 10");
    }
    (void)ask(b, "column store", "by a cursor", by_cursor, 1, false, 3);
    (void)ask(b, "column store", "by a cursor", by_cursor, LINEITEM_COLUMNS, false, 3);
}

static void ask_rows(struct fixture *b)
{
    for (int cold = 0; cold < 2; cold++) {
        (void)ask(b, "row store", "by a cursor", by_cursor, 1, cold, cold ? 1 : 3);
        (void)ask(b, "row store", "by a cursor", by_cursor, LINEITEM_COLUMNS, cold, cold ? 1 : 3);
    }
}

static void columns(void)
{
    struct fixture b;
    print_made(&b, &column_store, load(&b, &column_store));
    check_sum(&b);
    scan_numbers(&b);
    ask_columns(&b);
    remove_db(&b);
}

static void rows(void)
{
    struct fixture b;
    print_made(&b, &row_store, load(&b, &row_store));
    check_sum(&b);
    ask_rows(&b);
    remove_db(&b);
}

static void sizes(void)
{
    for (size_t i = 0; i < sizeof stores / sizeof stores[0]; i++) {
        struct fixture b;
        print_made(&b, &stores[i], load(&b, &stores[i]));
        check_sum(&b);
        remove_db(&b);
    }
}

/* ---- figures 15 and 16 ----------------------------------------------------------------------- */

struct progress {
    uint64_t begun, slice, longest; /* nanoseconds */
    uint64_t slices, cap;           /* used and allocated elements of `seconds` */
    double *seconds;                /* duration of each slice */
};

static void note(struct progress *p, uint64_t t0)
{
    uint64_t took = bench_now_ns() - t0;
    p->longest = took > p->longest ? took : p->longest;
}

static void note_slice(struct progress *p)
{
    uint64_t now = bench_now_ns();
    if (p->slices == p->cap) {
        p->cap = p->cap * 2 + 64;
        p->seconds = realloc(p->seconds, p->cap * sizeof *p->seconds);
        bench_must(p->seconds ? 0 : -1, "memory");
    }
    p->seconds[p->slices++] = (double)(now - p->slice) / 1e9;
    p->slice = now;
}

/* Does all maintenance that is due, in the calling thread. */
static void maintain(struct fixture *b)
{
    bool more = true;
    while (more)
        bench_must(lladd_managed_maintain(lladd_ctable_managed(b->t), &more, NULL), "maintain");
}

static double rows_loaded(struct fixture *b, bool background, struct progress *p)
{
    struct lineitem *source = lineitem_new(scale, 1);
    struct lineitem_row row;
    struct lladd_txn *txn = NULL;
    bool any = source && lineitem_next(source, &row);
    bench_must(any ? 0 : -1, "the source of rows");
    p->begun = p->slice = bench_now_ns();
    for (b->rows = 0; any; any = lineitem_next(source, &row)) {
        if (b->rows % TXN == 0)
            bench_must(lladd_begin(b->db, NULL, &txn, NULL), "begin");
        uint64_t t0 = bench_now_ns();
        put(txn, b, (uint32_t)++b->rows, &row);
        if (b->rows % TXN == 0)
            bench_must(lladd_commit(txn), "commit");
        if (!background && b->rows % share(ROUND) == 0)
            maintain(b);
        note(p, t0);
        if (b->rows % share(SLICE) == 0)
            note_slice(p);
    }
    if (b->rows % TXN)
        bench_must(lladd_commit(txn), "commit");
    lineitem_free(source);
    return (double)(bench_now_ns() - p->begun) / 1e9;
}

static void print_series(const char *figure, const struct progress *p)
{
    double at = 0;
    printf("{\"bench\":\"" BENCH "\",\"series\":\"%s\",\"points\":[", figure);
    for (uint64_t i = 0; i < p->slices; i++) {
        at += p->seconds[i];
        printf("%s[%.3f,%.0f]", i ? "," : "", at, (double)share(SLICE) / p->seconds[i]);
    }
    printf("]}\n");
}

static void load_rows(bool background)
{
    static const struct store s = {
        "row store", "class(dt) bloom_dtable config [ \"base\" class(dt) linear_dtable ]", NULL,
        NULL};
    const char *figure = background ? "figure 15: background" : "figure 16: foreground";
    struct lladd_managed_options m = LLADD_MANAGED_OPTIONS_INIT;
    struct progress p = {.slices = 0};
    double slowest = 0;
    struct fixture b;
    m.rows = share(ROUND);
    m.memory_bytes = UINT64_C(1) << 40;
    bench_make_dir(b.dir);
    open_db(&b, UINT64_C(1) << 30);
    create(&b, &s, &m);
    bench_must(lladd_managed_threads(b.db, background ? 1 : 0, NULL), "threads");
    double took = rows_loaded(&b, background, &p);
    bench_must(lladd_managed_threads(b.db, 0, NULL), "threads");
    for (uint64_t i = 0; i < p.slices; i++)
        slowest = p.seconds[i] > slowest ? p.seconds[i] : slowest;
    print(figure, "load", "s", took, NULL);
    print(figure, "rows", "thousand/s", (double)b.rows / took / 1e3, NULL);
    print(figure, "longest stop", "ms", (double)p.longest / 1e6, background ? "<= 100" : NULL);
    print(figure, "slowest slice", "ms", slowest * 1e3, NULL);
    print_series(figure, &p);
    free(p.seconds);
    remove_db(&b);
}

static void figure15(void)
{
    load_rows(true);
}

static void figure16(void)
{
    load_rows(false);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"sizes", sizes},
                 {"columns", columns},
                 {"rows", rows},
                 {"figure15", figure15},
                 {"figure16", figure16}};
    double given = argc > 1 ? strtod(argv[1], NULL) : 0;
    int from = given > 0 ? 2 : 1;
    scale = given > 0 ? given : scale;
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        bool wanted = argc == from;
        for (int i = from; i < argc; i++)
            wanted = wanted || strcmp(argv[i], cases[c].name) == 0;
        if (wanted)
            cases[c].run();
    }
    return 0;
}
