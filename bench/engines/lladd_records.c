/* SPDX-License-Identifier: BSD-2-Clause */
/* Engines of this library: fixed-length records in the pages of a few extents, so that a record's
 * address follows from its number. The roots "bench.0", "bench.1" and so on lead to the extents. */
#include "lladd.h"

#include <lladd/extension.h>
#include <lladd/pages.h>
#include <lladd/records.h>
#include <stdio.h>
#include <stdlib.h>

static int of(struct bench_txn *txn, const char *what, int rc)
{
    return bench_lladd_failed(what, rc, rc ? lladd_txn_error((struct lladd_txn *)txn) : NULL);
}

/* Makes one extent of empty pages, in a transaction of its own. */
static int make_extent(struct bench_db *b, const char *name, uint64_t pages)
{
    struct bench_txn *txn;
    lladd_pageno first = {0};
    int rc = bench_lladd_begin(b, NULL, &txn);
    if (rc)
        return rc;
    struct lladd_txn *t = (struct lladd_txn *)txn;
    rc = of(txn, "extent", lladd_extent_alloc(t, pages, LLADD_EXTENT_PAGED, &first));
    for (uint64_t i = 0; !rc && i < pages; i++)
        rc = of(txn, "format", lladd_fixed_format(t, lladd_page_of(first.v + i),
                                                  b->setup.value_size));
    if (!rc)
        rc = of(txn, "root", lladd_root_set(t, name, (struct lladd_root_value){first.v, 0}));
    return rc ? rc : bench_lladd_commit(b, txn);
}

static int find_extent(struct bench_db *b, uint64_t i, uint64_t pages)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_root_value v = {0, 0};
    char name[32];
    snprintf(name, sizeof name, "bench.%llu", (unsigned long long)i);
    int rc = lladd_root_get(b->db, name, &v, &err);
    if (rc == LLADD_NOT_FOUND) {
        rc = make_extent(b, name, pages);
        if (rc)
            return rc;
        rc = lladd_root_get(b->db, name, &v, &err);
    }
    b->extents[i] = lladd_page_of(v.a);
    return bench_lladd_failed("root", rc, &err);
}

/* Reads from the first page how many records a page holds. */
static int count_slots(struct bench_db *b)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_page *page;
    int rc = lladd_page_fix(b->db, b->extents[0], LLADD_LATCH_SHARED, &page, &err);
    if (rc)
        return bench_lladd_failed("fix", rc, &err);
    b->per_page = lladd_fixed_slots(lladd_page_view(page));
    lladd_page_unfix(b->db, page, LLADD_LATCH_SHARED);
    return 0;
}

static int open_with(const struct bench_setup *s, uint32_t flags, struct bench_db **out)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    o.flags = flags;
    int rc = bench_lladd_open_with(s, &o, out);
    if (rc)
        return rc;
    struct bench_db *b = *out;
    /* A lower bound of the records per page: a record needs its value and two bits. */
    uint64_t least = (lladd_page_size(b->db) - 160) * 4 / (s->value_size * 4 + 1);
    uint64_t pages = s->expected / least + 1;
    b->per_extent = pages < lladd_extent_max(b->db) ? pages : lladd_extent_max(b->db);
    uint64_t extents = (pages + b->per_extent - 1) / b->per_extent;
    b->extents = calloc(extents, sizeof *b->extents);
    rc = b->extents ? 0 : BENCH_FAILED;
    for (uint64_t i = 0; !rc && i < extents; i++)
        rc = find_extent(b, i, b->per_extent);
    return rc ? rc : count_slots(b);
}

static int open_records(const struct bench_setup *s, struct bench_db **out)
{
    return open_with(s, 0, out);
}

static int open_atomic(const struct bench_setup *s, struct bench_db **out)
{
    return open_with(s, LLADD_OPT_ATOMIC_PAGES, out);
}

static struct lladd_rid record(const struct bench_db *b, uint64_t key)
{
    uint64_t page = key / b->per_page;
    return (struct lladd_rid){
        .page = lladd_page_of(b->extents[page / b->per_extent].v + page % b->per_extent),
        .slot = (uint32_t)(key % b->per_page),
        .size = b->setup.value_size};
}

static int insert(struct bench_db *b, struct bench_txn *txn, uint64_t key, const void *value)
{
    struct lladd_rid wanted = record(b, key), rid;
    int rc = lladd_fixed_alloc((struct lladd_txn *)txn, wanted.page, value, &rid);
    if (!rc && rid.slot != wanted.slot)
        return bench_failed("lladd-records", "insert", "records come in another order");
    return of(txn, "alloc", rc);
}

static int update(struct bench_db *b, struct bench_txn *txn, uint64_t key, const void *value)
{
    return of(txn, "set",
              lladd_fixed_set((struct lladd_txn *)txn, record(b, key), 0, value,
                              b->setup.value_size));
}

static int lookup(struct bench_db *b, struct bench_thread *t, uint64_t key, void *value)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    (void)t;
    return bench_lladd_failed(
        "read", lladd_fixed_read(b->db, record(b, key), value, b->setup.value_size, &err), &err);
}

#define RECORDS \
    BENCH_LLADD, .close = bench_lladd_close, .numbered = true, .insert = insert, \
    .update = update, .lookup = lookup, .records = true

const struct bench_engine bench_engine_lladd_records = {
    RECORDS, .name = "lladd-records", .open = open_records};

/* Logs no page images, and so shows their cost. It is not compared with peers, because its options
 * are not the default. */
const struct bench_engine bench_engine_lladd_records_atomic = {
    RECORDS, .name = "lladd-records-atomic", .open = open_atomic};
