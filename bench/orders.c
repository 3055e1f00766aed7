/* SPDX-License-Identifier: BSD-2-Clause */
/* Orders, as in the Rose paper ("TPC-C / H"): line items are inserted by order and sorted by
 * product and date, their status is changed within two weeks, and customers ask for it. Prints JSON
 * lines; see bench/README.md.
 *
 *   bench-orders [MILLIONS [MIB]] [case]...   default: a million orders, 64 MiB in all
 *
 *   load      no queries
 *   status    half of the orders are asked for, once to three times, while they are delivered
 *   old       as many queries, for orders of any age, so that all components must be asked
 *   scans     status, and ten scans of the whole table
 *   snapshot  status, while a slow scan of a snapshot goes on from the first quarter on: how many
 *             older versions are kept for it?
 *   btree     load, into a B+tree that reads each row before it changes it
 *
 * One in a hundred orders is cancelled at once. The others are delivered within up to 14 days, each
 * item at a time of its own. A day is a two-hundredth of all orders. The table is unlogged and has
 * pages of columns and the schedule of levels. The tree has its log in the operating system. */
#include "common.h"

#include <lladd/btree.h>
#include <lladd/bytes.h>
#include <lladd/dtable_managed.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BENCH "orders"
enum { KEY = 16, VALUE = 2, BATCH = 1000, ITEMS = 7, PARTS = 200000, TENTHS = 10, THREADS = 2 };
enum { DAYS = 200, DELIVERY = 14, QUERIES = 19 }; /* days; QUERIES: 1.3 times DELIVERY */
#define MILLION 1000000
#define MIB (UINT64_C(1) << 20)
#define CONFIG \
    "class(dt) multicolumn_dtable config [ " \
    "\"key\" words [ \"u32\" \"u16\" \"u8\" \"u8\" \"u64\" ] " \
    "\"columns\" words [ \"u8\" \"u8\" ] ]"

static uint32_t orders = MILLION;
static uint64_t memory = 64 * MIB;

static void *allocated(size_t size)
{
    void *p = calloc(1, size);
    bench_must(p ? 0 : -1, "memory");
    return p;
}

/* ---- items ----------------------------------------------------------------------------------- */

static uint64_t hash_of(uint64_t x)
{
    return bench_random(&x);
}

static uint32_t day(void)
{
    return orders / DAYS ? orders / DAYS : 1;
}

static unsigned items_of(uint32_t order)
{
    return 1 + (unsigned)(hash_of(UINT64_C(8) * order + 7) >> 8) % ITEMS;
}

static void put_be(unsigned char *to, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        to[i] = (unsigned char)(v >> 8 * (bytes - 1 - i));
}

/* Part and supplier, year, week, day of the week, order. */
static void key_of(uint32_t order, unsigned item, unsigned char key[KEY])
{
    uint32_t date = order / day();
    put_be(key, (hash_of(UINT64_C(8) * order + item) >> 8) % PARTS, 4);
    put_be(key + 4, 1995 + date / 365, 2);
    put_be(key + 6, date % 365 / 7, 1);
    put_be(key + 7, date % 7, 1);
    put_be(key + 8, order, 8);
}

/* ---- stores ---------------------------------------------------------------------------------- */

/* A table, or a tree. Changes are gathered, and made in transactions of BATCH rows. */
struct store {
    char dir[256];
    struct lladd_db *db;
    struct lladd_managed *t;
    struct lladd_btree *tree;
    struct lladd_txn *reader; /* sees the last batch */
    struct lladd_dtable_pin pin;
    struct lladd_managed_snapshot *snapshot;
    struct lladd_dtable_cursor *slow;
    struct lladd_managed_row rows[BATCH];
    unsigned char keys[BATCH][KEY], values[BATCH][VALUE];
    size_t n;
    uint64_t position, found, scanned, changed;
    uint32_t since; /* the first order after the snapshot was opened */
};

static void open_tree(struct store *s)
{
    struct lladd_btree_options o = LLADD_BTREE_OPTIONS_INIT;
    struct lladd_txn *txn;
    lladd_pageno root;
    o.key_size = KEY;
    o.value_size = VALUE;
    bench_must(lladd_begin(s->db, NULL, &txn, NULL), "begin");
    bench_must(lladd_btree_create_open(txn, &o, &root, &s->tree), "create a tree");
    bench_must(lladd_commit(txn), "commit");
}

static void open_table(struct store *s)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    o.type = LLADD_DTABLE_BYTES;
    o.config = CONFIG;
    o.block_bytes = 4096;
    o.schedule = LLADD_MANAGED_LEVELS;
    o.memory_bytes = memory / 4;
    o.flags = LLADD_MANAGED_UNLOGGED;
    bench_must(lladd_managed_create_open(s->db, "items", &o, &s->t, NULL), "create a table");
    lladd_dtable_cache_limit(s->db, memory / 4);
    bench_must(lladd_managed_threads(s->db, THREADS, NULL), "threads");
}

static struct store *open_store(bool tree)
{
    struct store *s = allocated(sizeof *s);
    struct lladd_options o = LLADD_OPTIONS_INIT;
    bench_make_dir(s->dir);
    o.cache_bytes = tree ? memory : memory / 16;
    o.durability = tree ? LLADD_DURABLE_OS : LLADD_DURABLE_LATER;
    bench_must(lladd_managed_register(&o, NULL), "register");
    bench_must(lladd_open(s->dir, &o, &s->db, NULL), "open");
    lladd_options_release(&o);
    if (tree)
        open_tree(s);
    else
        open_table(s);
    return s;
}

static void end_reader(struct store *s)
{
    lladd_dtable_unpin(&s->pin);
    if (s->reader)
        bench_must(lladd_commit(s->reader), "commit");
    s->reader = NULL;
}

static void close_store(struct store *s)
{
    end_reader(s);
    lladd_dtable_cursor_close(s->slow);
    lladd_managed_snapshot_close(s->snapshot);
    if (s->t) {
        bench_must(lladd_managed_threads(s->db, 0, NULL), "threads");
        bench_must(lladd_managed_close(s->t, NULL), "close a table");
    }
    lladd_btree_close(s->tree);
    bench_must(lladd_close(s->db), "close");
    bench_remove_dir(s->dir);
    free(s);
}

/* The tree reads the old row first, as a database must that checks what it changes. */
static void change_tree(struct store *s, struct lladd_txn *txn)
{
    unsigned char was[VALUE];
    for (size_t i = 0; i < s->n; i++) {
        bool put = s->rows[i].value.state == LLADD_DTABLE_FOUND;
        size_t len;
        int rc = lladd_btree_get(s->tree, s->keys[i], KEY, was, sizeof was, &len, NULL);
        bench_must(rc == LLADD_NOT_FOUND ? 0 : rc, "get");
        rc = put ? lladd_btree_put(txn, s->tree, s->keys[i], KEY, s->values[i], VALUE)
                 : lladd_btree_delete(txn, s->tree, s->keys[i], KEY);
        bench_must(rc == LLADD_NOT_FOUND ? 0 : rc, "change");
    }
}

static void flush(struct store *s)
{
    struct lladd_txn *txn;
    end_reader(s);
    if (s->n == 0)
        return;
    s->position++;
    bench_must(lladd_begin(s->db, NULL, &txn, NULL), "begin");
    if (s->tree) {
        change_tree(s, txn);
    } else {
        struct lladd_managed_position at = {s->position, s->position};
        bench_must(lladd_managed_position_set(txn, s->t, &at), "position");
        bench_must(lladd_managed_put_many(txn, s->t, s->rows, s->n, NULL), "put");
    }
    bench_must(lladd_commit(txn), "commit");
    s->n = 0;
}

enum { OPEN, DELIVERED, CANCELLED };

static void change(struct store *s, uint32_t order, unsigned item, unsigned status)
{
    unsigned char *key = s->keys[s->n], *value = s->values[s->n];
    key_of(order, item, key);
    value[0] = (unsigned char)(1 + hash_of(order + (uint64_t)item * orders) % 50);
    value[1] = (unsigned char)status;
    s->rows[s->n].key = lladd_dtable_bytes(key, KEY);
    s->rows[s->n].value = status == CANCELLED ? lladd_dtable_tombstone()
                                              : lladd_dtable_value_of(value, VALUE);
    s->changed += s->snapshot && (status == OPEN || order < s->since);
    if (++s->n == BATCH)
        flush(s);
}

static void ask(struct store *s, uint32_t order, unsigned item)
{
    unsigned char bytes[KEY];
    struct lladd_dtable_value v;
    key_of(order, item, bytes);
    struct lladd_dtable_key key = lladd_dtable_bytes(bytes, KEY);
    if (!s->reader)
        bench_must(lladd_begin(s->db, NULL, &s->reader, NULL), "begin");
    bench_must(lladd_managed_lookup(s->reader, s->t, &key, &s->pin, &v), "look up");
    s->found += v.state == LLADD_DTABLE_FOUND;
}

/* ---- scans ----------------------------------------------------------------------------------- */

static void scan(struct store *s)
{
    const struct lladd_dtable *t;
    struct lladd_dtable_cursor *c;
    struct lladd_dtable_batch b = {.n = 0};
    struct lladd_txn *txn;
    int rc;
    bench_must(lladd_begin(s->db, NULL, &txn, NULL), "begin");
    bench_must(lladd_managed_table(txn, s->t, &t), "table");
    bench_must(lladd_dtable_cursor_open(t, 0, &c, NULL), "cursor");
    while ((rc = lladd_dtable_next_n(c, BATCH, &b, NULL)) == 0)
        s->scanned += b.n;
    bench_must(rc == LLADD_END ? 0 : rc, "scan");
    lladd_dtable_batch_free(&b);
    lladd_dtable_cursor_close(c);
    bench_must(lladd_commit(txn), "commit");
}

static void begin_slow_scan(struct store *s, uint32_t order)
{
    const struct lladd_dtable *t;
    flush(s);
    s->since = order;
    bench_must(lladd_managed_snapshot_open(s->db, &s->snapshot, NULL), "snapshot");
    bench_must(lladd_managed_snapshot_table(s->snapshot, s->t, &t, NULL), "table");
    bench_must(lladd_dtable_cursor_open(t, 0, &s->slow, NULL), "cursor");
}

static void go_on_slowly(struct store *s)
{
    int rc = lladd_dtable_next(s->slow, NULL);
    s->scanned += rc == 0;
    bench_must(rc == LLADD_END ? 0 : rc, "slow scan");
}

/* ---- events ---------------------------------------------------------------------------------- */

enum kind { NO_QUERIES = 1, OLD = 2, SCANS = 4, SNAPSHOT = 8, TREE = 16 };

struct event {
    uint32_t next, order; /* next: 0 ends a list */
    uint8_t item, query;
};

/* What happens later: a list for each time, which counts orders. */
struct calendar {
    uint32_t *lists;
    uint32_t times, free, n, cap;
    struct event *events;
};

static void plan(struct calendar *c, uint32_t time, uint32_t order, unsigned item, bool query)
{
    uint32_t e = c->free;
    if (e) {
        c->free = c->events[e].next;
    } else {
        if (c->n + 1 >= c->cap) {
            c->cap = 2 * c->cap + 1024;
            c->events = realloc(c->events, c->cap * sizeof *c->events);
            bench_must(c->events ? 0 : -1, "memory");
        }
        e = ++c->n;
    }
    uint32_t *list = &c->lists[time % c->times];
    c->events[e] = (struct event){*list, order, (uint8_t)item, query};
    *list = e;
}

static void place(struct store *s, struct calendar *c, uint32_t order, unsigned kind,
                  uint64_t *seed)
{
    unsigned items = items_of(order);
    uint64_t drawn = bench_random(seed);
    uint32_t took = 1 + (uint32_t)(drawn >> 8) % (DELIVERY * day());
    for (unsigned i = 0; i < items; i++)
        change(s, order, i, OPEN);
    if (drawn % 100 == 0) {
        for (unsigned i = 0; i < items; i++)
            change(s, order, i, CANCELLED);
        return;
    }
    for (unsigned i = 0; i < items; i++)
        plan(c, order + 1 + (uint32_t)(bench_random(seed) >> 8) % took, order, i, false);
    if (kind & NO_QUERIES || drawn >> 40 & 1)
        return;
    for (uint64_t n = 1 + (drawn >> 41) % 3; n; n--) {
        uint64_t r = bench_random(seed);
        uint32_t within = took + took * 3 / 10;
        plan(c, order + 1 + (uint32_t)(r >> 8) % within, order, (unsigned)(r >> 40) % items, true);
    }
}

static void happen(struct store *s, struct calendar *c, uint32_t now, unsigned kind, uint64_t *seed)
{
    uint32_t *list = &c->lists[now % c->times], e;
    while ((e = *list) != 0) {
        struct event ev = c->events[e];
        *list = ev.next;
        c->events[e].next = c->free;
        c->free = e;
        if (!ev.query) {
            change(s, ev.order, ev.item, DELIVERED);
        } else if (kind & OLD) {
            uint32_t order = (uint32_t)(bench_random(seed) >> 8) % (now + 1);
            ask(s, order, ev.item % items_of(order));
        } else {
            ask(s, ev.order, ev.item);
        }
    }
}

/* ---- cases ----------------------------------------------------------------------------------- */

static void print(const char *name, const char *what, const char *unit, double value,
                  const char *target)
{
    struct bench_figure f = {.n = 0};
    char text[96];
    (void)snprintf(text, sizeof text, "%s: %s", name, what);
    bench_add(&f, value);
    bench_print(BENCH, text, unit, &f, target, NULL);
}

static void report(struct store *s, const char *name, unsigned kind, double seconds)
{
    struct lladd_managed_stats st = {.struct_size = sizeof st};
    print(name, "orders", "thousand/s", orders / seconds / 1e3, NULL);
    if (kind & TREE)
        return;
    bench_must(lladd_managed_stats_get(s->t, &st, NULL, 0, NULL), "stats");
    print(name, "digests", "", (double)st.digests, NULL);
    print(name, "combines", "", (double)st.combines, NULL);
    print(name, "on disk", "MB", (double)st.run_pages * lladd_page_size(s->db) / 1e6, NULL);
    if (!(kind & SNAPSHOT))
        return;
    bench_must(lladd_managed_threads(s->db, 0, NULL), "threads");
    bench_must(lladd_managed_digest(s->t, NULL), "digest");
    bench_must(lladd_managed_combine(s->t, 0, NULL), "combine");
    bench_must(lladd_managed_stats_get(s->t, &st, NULL, 0, NULL), "stats");
    print(name, "kept for the snapshot", "MB",
          (double)st.held_pages * lladd_page_size(s->db) / 1e6, NULL);
    print(name, "versions kept / rows changed", "x",
          (double)st.held_versions / (double)s->changed, "<= 1");
}

static void run(const char *name, unsigned kind)
{
    struct store *s = open_store(kind & TREE);
    struct calendar c = {.times = QUERIES * day() + 2};
    uint32_t slice = orders / TENTHS ? orders / TENTHS : 1;
    uint64_t seed = 3, begun = bench_now_ns(), since = begun;
    c.lists = allocated(c.times * sizeof *c.lists);
    printf("{\"bench\":\"" BENCH "\",\"series\":\"%s\",\"points\":[", name);
    for (uint32_t i = 0; i < orders; i++) {
        place(s, &c, i, kind, &seed);
        happen(s, &c, i, kind, &seed);
        if (kind & SNAPSHOT && i == orders / 4)
            begin_slow_scan(s, i + 1);
        if (s->slow)
            go_on_slowly(s);
        if ((i + 1) % slice)
            continue;
        if (kind & SCANS)
            scan(s);
        uint64_t now = bench_now_ns();
        printf("%s[%.3f,%.0f]", i + 1 == slice ? "" : ",", (double)(i + 1) / MILLION,
               slice / ((double)(now - since) / 1e9));
        since = now;
    }
    flush(s);
    printf("]}\n");
    double seconds = (double)(bench_now_ns() - begun) / 1e9;
    bench_must(kind & (NO_QUERIES | TREE) || s->found ? 0 : -1, "queries that find nothing");
    report(s, name, kind, seconds);
    close_store(s);
    free(c.lists);
    free(c.events);
}

static const struct {
    const char *name;
    unsigned kind;
} cases[] = {{"load", NO_QUERIES}, {"status", 0},          {"old", OLD},
             {"scans", SCANS},     {"snapshot", SNAPSHOT}, {"btree", NO_QUERIES | TREE}};

int main(int argc, char **argv)
{
    enum { CASES = sizeof cases / sizeof cases[0] };
    double numbers[2] = {1, 64};
    int first = 1;
    for (int i = 0; i < 2 && first < argc; i++) {
        char *end;
        double v = strtod(argv[first], &end);
        if (*end || v <= 0)
            break;
        numbers[i] = v;
        first++;
    }
    orders = (uint32_t)(numbers[0] * MILLION);
    memory = (uint64_t)(numbers[1] * (double)MIB);
    bench_must(orders ? 0 : -1, "MILLIONS");
    for (int k = 0; k < CASES; k++) {
        bool wanted = argc == first;
        for (int i = first; i < argc; i++)
            wanted = wanted || strcmp(argv[i], cases[k].name) == 0;
        if (wanted)
            run(cases[k].name, cases[k].kind);
    }
    return 0;
}
