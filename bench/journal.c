/* SPDX-License-Identifier: BSD-2-Clause */
/* Measures the journal: many entries in one transaction; many transactions of one entry, which do
 * not wait for the log; and reading the entries again after a restart. Prints JSON lines; see
 * docs/benchmarks.md.
 *
 *   bench-journal [case]...   cases: append single replay; default: all */
#include "common.h"

#include <lladd/device.h>
#include <lladd/journal.h>
#include <lladd/stats.h>
#include <stdio.h>
#include <string.h>

#define BENCH "journal"
#define ENTRIES 2000000u
#define TXNS 1000000u
/* The length of each entry. (The entries of a managed table may be shorter: an entry for a key of 4
 * bytes and a value of 5 bytes has 10 bytes.) */
#define ENTRY_BYTES 14u

struct fixture {
    struct lladd_device *dev;
    struct lladd_db *db;
    uint64_t tag;
};

static struct lladd_txn *begin(struct fixture *b)
{
    struct lladd_txn *txn;
    bench_must(lladd_begin(b->db, NULL, &txn, NULL), "begin");
    return txn;
}

static void open_db(struct fixture *b)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    o.device = b->dev;
    o.durability = LLADD_DURABLE_LATER; /* commits do not wait for a sync of the log */
    bench_must(lladd_journal_register(&o, &err), "register");
    bench_must(lladd_open(NULL, &o, &b->db, &err), "open");
    lladd_options_release(&o);
}

static void open_fixture(struct fixture *b)
{
    bench_must(lladd_device_memory(&b->dev), "device");
    open_db(b);
    struct lladd_txn *txn = begin(b);
    bench_must(lladd_journal_acquire(txn, "rows", "bench", &b->tag), "acquire");
    bench_must(lladd_commit(txn), "commit");
}

static void close_fixture(struct fixture *b)
{
    bench_must(lladd_close(b->db), "close");
    lladd_device_close(b->dev);
}

static void append(struct fixture *b, struct lladd_txn *txn, uint64_t i)
{
    unsigned char bytes[ENTRY_BYTES] = "aoife";
    memcpy(bytes + 6, &i, 8);
    bench_must(lladd_journal_append(txn, b->tag, lladd_span_of(bytes, sizeof bytes), NULL),
               "append");
}

/* Returns the number of entries appended in a second. */
static double append_many(struct fixture *b)
{
    uint64_t t0 = bench_now_ns();
    struct lladd_txn *txn = begin(b);
    for (uint64_t i = 0; i < ENTRIES; i++)
        append(b, txn, i);
    bench_must(lladd_commit(txn), "commit");
    return ENTRIES / ((double)(bench_now_ns() - t0) / 1e9);
}

static void bench_append(void)
{
    struct bench_figure rate = {.n = 0}, size = {.n = 0};
    for (int run = 0; run < BENCH_RUNS; run++) {
        struct fixture b;
        struct lladd_stats s = {.struct_size = sizeof s};
        open_fixture(&b);
        bench_must(lladd_stats_get(b.db, &s), "stats");
        uint64_t tail = s.log_tail;
        bench_add(&rate, append_many(&b));
        bench_must(lladd_stats_get(b.db, &s), "stats");
        bench_add(&size, (double)(s.log_tail - tail) / ENTRIES);
        close_fixture(&b);
    }
    bench_print(BENCH, "entries of 14 bytes in one transaction", "1/s", &rate, ">= 1500000", NULL);
    bench_print(BENCH, "log for an entry of 14 bytes", "bytes", &size, NULL, NULL);
}

static void bench_single(void)
{
    struct bench_figure rate = {.n = 0};
    for (int run = 0; run < BENCH_RUNS; run++) {
        struct fixture b;
        lladd_lsn at;
        open_fixture(&b);
        uint64_t t0 = bench_now_ns();
        for (uint64_t i = 0; i < TXNS; i++) {
            struct lladd_txn *txn = begin(&b);
            append(&b, txn, i);
            bench_must(lladd_commit(txn), "commit");
        }
        bench_add(&rate, TXNS / ((double)(bench_now_ns() - t0) / 1e9));
        bench_must(lladd_journal_newest(b.db, b.tag, &at, NULL), "newest");
        close_fixture(&b);
    }
    bench_print(BENCH, "transactions of one entry, not waited for", "1/s", &rate, ">= 1000000",
                NULL);
}

static int count(void *ctx, const struct lladd_journal_entry *e, struct lladd_error *err)
{
    (void)err;
    *(uint64_t *)ctx += e->bytes.len == ENTRY_BYTES;
    return 0;
}

static void bench_replay(void)
{
    struct bench_figure open = {.n = 0}, rate = {.n = 0};
    for (int run = 0; run < BENCH_RUNS; run++) {
        struct fixture b;
        uint64_t n = 0;
        open_fixture(&b);
        (void)append_many(&b);
        bench_must(lladd_close(b.db), "close");
        uint64_t t0 = bench_now_ns();
        open_db(&b);
        bench_add(&open, ENTRIES / ((double)(bench_now_ns() - t0) / 1e9));
        t0 = bench_now_ns();
        bench_must(lladd_journal_replay(b.db, b.tag, count, &n, NULL), "replay");
        bench_add(&rate, ENTRIES / ((double)(bench_now_ns() - t0) / 1e9));
        bench_must(n == ENTRIES ? 0 : LLADD_BAD_STATE, "finding all entries");
        close_fixture(&b);
    }
    bench_print(BENCH, "live entries found by an open", "1/s", &open, NULL, NULL);
    bench_print(BENCH, "live entries replayed", "1/s", &rate, NULL, NULL);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*fn)(void);
    } cases[] = {{"append", bench_append}, {"single", bench_single}, {"replay", bench_replay}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int a = argc > 1 ? 1 : 0; a < argc; a++)
            if (argc == 1 || strcmp(argv[a], cases[i].name) == 0)
                cases[i].fn();
    return 0;
}
