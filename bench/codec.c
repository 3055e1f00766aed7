/* SPDX-License-Identifier: BSD-2-Clause */
/* Tables 1 and 2 of the Rose paper: how fast columns are compressed and decompressed, and how
 * small they become. Peers: LZ4, and zstd if its library is there. Prints JSON lines; see
 * docs/benchmarks.md.
 *
 *   bench-codec [MILLIONS]   default: 10 million numbers
 *
 * The numbers are those of the paper: columns of u32; from row to row a number grows by 1 with a
 * probability of 1 in 100. A codec gets pages of as many rows as fit into 4 KiB (at most 16384).
 * "In" is planning and encoding, "out" is checking and decoding, both in bytes of numbers. Ten
 * columns begin and end as rows of 40 bytes, so they are transposed, too. Peers get blocks of
 * 64 KiB, column by column, which is in their favour. */
#include "common.h"

#include "operations/dtables/multicolumn/codec.h"

#include <dlfcn.h>
#include <lz4.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BENCH "codec"
enum { PAGE = 4064, ROWS_MOST = 16384, TEN = 10, BLOCK = 64 << 10 };
enum { STRIDE = ROWS_MOST + 336 }; /* between columns; a power of two would collide in the cache */

static size_t numbers = 10000000;

static void *allocated(size_t size)
{
    void *p = malloc(size);
    bench_must(p ? 0 : -1, "malloc");
    return p;
}

/* ---- numbers --------------------------------------------------------------------------------- */

enum data { PAPER, NOISE, DATA };
static const char *const data_names[DATA] = {"slowly growing", "12 random bits"};

/* Rows of `columns` numbers. */
static uint32_t *make(enum data data, size_t rows, size_t columns)
{
    uint32_t *v = allocated(rows * columns * sizeof *v), now[TEN] = {0};
    uint64_t seed = 1;
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < columns; c++) {
            uint64_t r = bench_random(&seed);
            now[c] = data == NOISE ? 1000 + (uint32_t)(r >> 52) : now[c] + (r % 100 == 0);
            v[i * columns + c] = now[c];
        }
    return v;
}

/* ---- codecs ---------------------------------------------------------------------------------- */

/* Stored columns: `per` rows a page. */
struct column {
    struct lladd_codec_segment *page;
    unsigned char *bytes;
    size_t n;
};

/* The number of rows of a page, for the first rows. */
static uint32_t rows_of_page(const struct lladd_codec *c, const uint32_t *v, size_t rows)
{
    uint64_t memory[LLADD_CODEC_MEMORY / 8];
    uint32_t low = 1, high = rows < ROWS_MOST ? (uint32_t)rows : ROWS_MOST;
    while (low < high) {
        uint32_t n = low + (high - low + 1) / 2;
        struct lladd_codec_plan plan = {.memory = memory};
        struct lladd_codec_input in = {v, n, 4, SIZE_MAX};
        if (c->plan(&in, &plan) <= PAGE)
            low = n;
        else
            high = n - 1;
    }
    return low > 512 ? low - low % 256 : low;
}

/* Stores one page. Returns the bytes it takes. */
static size_t encode(const struct lladd_codec *c, const uint32_t *v, uint32_t n,
                     unsigned char *out, struct lladd_codec_segment *s)
{
    uint64_t memory[LLADD_CODEC_MEMORY / 8];
    struct lladd_codec_plan plan = {.memory = memory};
    struct lladd_codec_input in = {v, n, 4, SIZE_MAX};
    size_t size = c->plan(&in, &plan);
    bench_must(size == LLADD_CODEC_CANNOT ? -1 : 0, "plan");
    c->encode(&in, &plan, out, out + plan.segment);
    *s = (struct lladd_codec_segment){out, plan.segment, out + plan.segment, plan.exceptions,
                                      n,   4,            c->version,         plan.own};
    return size;
}

static void decode(const struct lladd_codec *c, const struct lladd_codec_segment *s, uint32_t *out)
{
    bench_must(c->check(s) ? 0 : -1, "check");
    c->decode(s, 0, s->rows, out);
}

static void column_new(struct column *k, size_t rows, size_t columns, uint32_t per)
{
    k->n = (rows + per - 1) / per * columns;
    k->page = allocated(k->n * sizeof *k->page);
    size_t size = rows * columns * 8 + k->n * 64;
    k->bytes = allocated(size);
    memset(k->bytes, 0, size); /* its pages are touched before the clock starts */
}

static void column_free(struct column *k)
{
    free(k->page);
    free(k->bytes);
}

static double gigabytes(size_t rows, size_t columns, uint64_t since)
{
    return (double)(rows * columns * 4) / (double)(bench_now_ns() - since);
}

static void report(const char *what, const char *data, size_t columns, double ratio,
                   const struct bench_figure *in, const struct bench_figure *out,
                   const char *want_in, const char *want_out)
{
    struct bench_figure r = {.n = 0};
    char text[96];
    snprintf(text, sizeof text, "%s, %s, %zu column%s, ratio", what, data, columns,
             columns == 1 ? "" : "s");
    bench_add(&r, ratio);
    bench_print(BENCH, text, "x", &r, NULL, NULL);
    snprintf(text, sizeof text, "%s, %s, %zu column%s, in", what, data, columns,
             columns == 1 ? "" : "s");
    bench_print(BENCH, text, "GB/s", in, want_in, NULL);
    snprintf(text, sizeof text, "%s, %s, %zu column%s, out", what, data, columns,
             columns == 1 ? "" : "s");
    bench_print(BENCH, text, "GB/s", out, want_out, NULL);
}

static void one_column(const struct lladd_codec *c, enum data data)
{
    uint32_t *v = make(data, numbers, 1), *back = allocated(numbers * sizeof *back);
    uint32_t per = rows_of_page(c, v, numbers);
    struct bench_figure in = {.n = 0}, out = {.n = 0};
    struct column k;
    size_t used = 0;
    memset(back, 0, numbers * sizeof *back);
    column_new(&k, numbers, 1, per);
    for (int run = 0; run < BENCH_RUNS; run++) {
        uint64_t since = bench_now_ns();
        used = 0;
        for (size_t i = 0, at = 0; at < numbers; i++, at += per)
            used += encode(c, v + at, (uint32_t)(numbers - at < per ? numbers - at : per),
                           k.bytes + used, &k.page[i]);
        bench_add(&in, gigabytes(numbers, 1, since));
        since = bench_now_ns();
        for (size_t i = 0; i < k.n; i++)
            decode(c, &k.page[i], back + i * per);
        bench_add(&out, gigabytes(numbers, 1, since));
    }
    bench_must(memcmp(v, back, numbers * sizeof *v) ? -1 : 0, "compare");
    bool is_for = strcmp(c->name, "for") == 0;
    report(c->name, data_names[data], 1, (double)(numbers * 4) / (double)used, &in, &out,
           is_for ? ">= 15" : NULL, is_for ? ">= 12" : NULL);
    column_free(&k);
    free(v);
    free(back);
}

/* Rows to columns and back, `n` rows at a time. */
static void scatter(const uint32_t *rows, uint32_t n, uint32_t *columns)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t c = 0; c < TEN; c++)
            columns[c * STRIDE + i] = rows[i * TEN + c];
}
static void gather(const uint32_t *columns, uint32_t n, uint32_t *rows)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t c = 0; c < TEN; c++)
            rows[i * TEN + c] = columns[c * STRIDE + i];
}

static void ten_columns(const struct lladd_codec *c, enum data data)
{
    size_t rows = numbers / TEN, used = 0;
    uint32_t *v = make(data, rows, TEN), *back = allocated(rows * TEN * sizeof *back);
    uint32_t *columns = allocated((size_t)TEN * STRIDE * sizeof *columns);
    scatter(v, rows < ROWS_MOST ? (uint32_t)rows : ROWS_MOST, columns);
    uint32_t per = rows_of_page(c, columns, rows) / TEN;
    per = per > 256 ? per - per % 256 : per;
    struct bench_figure in = {.n = 0}, out = {.n = 0};
    struct column k;
    memset(back, 0, rows * TEN * sizeof *back);
    column_new(&k, rows, TEN, per);
    for (int run = 0; run < BENCH_RUNS; run++) {
        uint64_t since = bench_now_ns();
        size_t page = 0;
        used = 0;
        for (size_t at = 0; at < rows; at += per) {
            uint32_t n = (uint32_t)(rows - at < per ? rows - at : per);
            scatter(v + at * TEN, n, columns);
            for (uint32_t i = 0; i < TEN; i++)
                used += encode(c, columns + i * STRIDE, n, k.bytes + used, &k.page[page++]);
        }
        bench_add(&in, gigabytes(rows, TEN, since));
        since = bench_now_ns();
        page = 0;
        for (size_t at = 0; at < rows; at += per) {
            uint32_t n = k.page[page].rows;
            for (uint32_t i = 0; i < TEN; i++)
                decode(c, &k.page[page++], columns + i * STRIDE);
            gather(columns, n, back + at * TEN);
        }
        bench_add(&out, gigabytes(rows, TEN, since));
    }
    bench_must(memcmp(v, back, rows * TEN * sizeof *v) ? -1 : 0, "compare");
    bool is_for = strcmp(c->name, "for") == 0;
    report(c->name, data_names[data], TEN, (double)(rows * TEN * 4) / (double)used, &in, &out,
           is_for ? ">= 8" : NULL, is_for ? ">= 7" : NULL);
    column_free(&k);
    free(columns);
    free(v);
    free(back);
}

/* ---- peers ----------------------------------------------------------------------------------- */

/* Compress and decompress a block; return the size. */
struct peer {
    const char *name;
    size_t (*in)(const void *from, size_t n, void *to, size_t room);
    size_t (*out)(const void *from, size_t n, void *to, size_t room);
};

static size_t lz4_in(const void *from, size_t n, void *to, size_t room)
{
    return (size_t)LZ4_compress_default(from, to, (int)n, (int)room);
}
static size_t lz4_out(const void *from, size_t n, void *to, size_t room)
{
    return (size_t)LZ4_decompress_safe(from, to, (int)n, (int)room);
}

static size_t (*zstd_compress)(void *, size_t, const void *, size_t, int);
static size_t (*zstd_decompress)(void *, size_t, const void *, size_t);

static size_t zstd_1_in(const void *from, size_t n, void *to, size_t room)
{
    return zstd_compress(to, room, from, n, 1);
}
static size_t zstd_3_in(const void *from, size_t n, void *to, size_t room)
{
    return zstd_compress(to, room, from, n, 3);
}
static size_t zstd_out(const void *from, size_t n, void *to, size_t room)
{
    return zstd_decompress(to, room, from, n);
}

static bool load_zstd(void)
{
    void *library = dlopen("libzstd.so.1", RTLD_NOW);
    void *in = library ? dlsym(library, "ZSTD_compress") : NULL;
    void *out = library ? dlsym(library, "ZSTD_decompress") : NULL;
    memcpy(&zstd_compress, &in, sizeof in);
    memcpy(&zstd_decompress, &out, sizeof out);
    return in && out;
}

static void measure_peer(const struct peer *p, enum data data)
{
    uint32_t *v = make(data, numbers, 1), *back = allocated(numbers * sizeof *back);
    size_t all = numbers * sizeof *v, blocks = (all + BLOCK - 1) / BLOCK, used = 0;
    unsigned char *bytes = allocated(blocks * 2 * BLOCK);
    size_t *sizes = allocated(blocks * sizeof *sizes);
    struct bench_figure in = {.n = 0}, out = {.n = 0};
    memset(bytes, 0, blocks * 2 * BLOCK);
    memset(back, 0, all);
    for (int run = 0; run < BENCH_RUNS; run++) {
        uint64_t since = bench_now_ns();
        used = 0;
        for (size_t i = 0; i < blocks; i++) {
            size_t n = all - i * BLOCK < BLOCK ? all - i * BLOCK : BLOCK;
            sizes[i] = p->in((char *)v + i * BLOCK, n, bytes + used, 2 * BLOCK);
            used += sizes[i];
        }
        bench_add(&in, gigabytes(numbers, 1, since));
        since = bench_now_ns();
        size_t at = 0;
        for (size_t i = 0; i < blocks; at += sizes[i++]) {
            size_t n = all - i * BLOCK < BLOCK ? all - i * BLOCK : BLOCK;
            bench_must(p->out(bytes + at, sizes[i], (char *)back + i * BLOCK, n) == n ? 0 : -1,
                       "decompress");
        }
        bench_add(&out, gigabytes(numbers, 1, since));
    }
    bench_must(memcmp(v, back, all) ? -1 : 0, "compare");
    report(p->name, data_names[data], 1, (double)all / (double)used, &in, &out, NULL, NULL);
    free(sizes);
    free(bytes);
    free(v);
    free(back);
}

int main(int argc, char **argv)
{
#define ONE(name) &ll_codec_##name,
    static const struct lladd_codec *const codecs[] = {LL_CODECS(ONE)};
#undef ONE
    static const struct peer peers[] = {{"LZ4", lz4_in, lz4_out},
                                        {"zstd-1", zstd_1_in, zstd_out},
                                        {"zstd-3", zstd_3_in, zstd_out}};
    if (argc > 1)
        numbers = strtoull(argv[1], NULL, 10) * 1000000;
    bench_must(numbers ? 0 : -1, "MILLIONS");
    size_t n_peers = load_zstd() ? 3 : 1;
    for (unsigned data = 0; data < DATA; data++) {
        for (size_t i = 0; i < sizeof codecs / sizeof codecs[0]; i++) {
            if (codecs[i] == &ll_codec_dict && data == NOISE)
                continue; /* it has no form for so many numbers */
            one_column(codecs[i], (enum data)data);
            ten_columns(codecs[i], (enum data)data);
        }
        for (size_t i = 0; i < n_peers; i++)
            measure_peer(&peers[i], (enum data)data);
    }
    return 0;
}
