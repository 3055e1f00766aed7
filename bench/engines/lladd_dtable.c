/* SPDX-License-Identifier: BSD-2-Clause */
/* An engine of this library: a managed dTable, each run of which is a bloom_dtable over a
 * linear_dtable. A thread reads in transactions of BENCH_READS lookups or scans. */
#include "lladd.h"

#include <lladd/dtable_managed.h>

#include <string.h>

#define NAME "bench"
#define MIB (UINT64_C(1) << 20)

static int of(struct bench_txn *txn, const char *what, int rc)
{
    return bench_lladd_failed(what, rc, rc ? lladd_txn_error((struct lladd_txn *)txn) : NULL);
}

static int create(struct bench_db *b, const struct bench_setup *s)
{
    struct lladd_managed_options m = LLADD_MANAGED_OPTIONS_INIT;
    struct bench_txn *txn;
    m.type = LLADD_DTABLE_BYTES;
    m.config = "class(dt) bloom_dtable config [ \"base\" class(dt) linear_dtable ]";
    m.schedule = LLADD_MANAGED_TIERED;
    m.memory_bytes = s->keep_log ? 1024 * MIB : s->cache_bytes < 256 * MIB ? 16 * MIB : 64 * MIB;
    int rc = bench_lladd_begin(b, NULL, &txn);
    if (!rc)
        rc = of(txn, "create", lladd_managed_create((struct lladd_txn *)txn, NAME, &m));
    return rc ? rc : bench_lladd_commit(b, txn);
}

/* A sixteenth of the cache is for pages, because the rows in runs have a cache of their own. */
static int open_as(const struct bench_setup *s, bool archived, struct bench_db **out)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct bench_archive a = {.store = NULL};
    o.cache_bytes = s->cache_bytes / 16;
    int rc = bench_lladd_failed("register", lladd_managed_register(&o, &err), &err);
    rc = rc || !archived ? rc : bench_lladd_archive(s, &o, &a);
    rc = rc ? rc : bench_lladd_open_with(s, &o, out);
    lladd_options_release(&o);
    if (rc)
        return rc;
    struct bench_db *b = *out;
    b->archive = a;
    lladd_dtable_cache_limit(b->db, s->cache_bytes - s->cache_bytes / 16);
    rc = lladd_managed_open(b->db, NAME, &b->managed, &err);
    if (rc == LLADD_NOT_FOUND) {
        rc = create(b, s);
        rc = rc ? rc : lladd_managed_open(b->db, NAME, &b->managed, &err);
    }
    rc = rc ? rc : lladd_managed_threads(b->db, 2, &err);
    return bench_lladd_failed("open", rc, &err);
}

static int open_it(const struct bench_setup *s, struct bench_db **out)
{
    return open_as(s, false, out);
}

static int open_archived(const struct bench_setup *s, struct bench_db **out)
{
    return open_as(s, true, out);
}

static int close_it(struct bench_db *b)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    int rc = lladd_managed_threads(b->db, 0, &err);
    rc = rc ? rc : lladd_managed_close(b->managed, &err);
    return rc ? bench_lladd_failed("close", rc, &err) : bench_lladd_close(b);
}

static struct lladd_dtable_key key_of(struct bench_db *b, uint64_t key, unsigned char *room)
{
    bench_digits(room, key, b->setup.key_size);
    return lladd_dtable_bytes(room, b->setup.key_size);
}

static int put(struct bench_db *b, struct bench_txn *txn, uint64_t key, const void *value)
{
    unsigned char room[BENCH_KEY_MAX];
    struct lladd_dtable_key k = key_of(b, key, room);
    struct lladd_dtable_value v = lladd_dtable_value_of(value, b->setup.value_size);
    return of(txn, "put", lladd_managed_put((struct lladd_txn *)txn, b->managed, &k, &v));
}

static int lookup(struct bench_db *b, struct bench_thread *t, uint64_t key, void *value)
{
    unsigned char room[BENCH_KEY_MAX];
    struct lladd_dtable_key k = key_of(b, key, room);
    int rc = bench_lladd_reading(b, t);
    return rc ? rc
              : of(t->txn, "get",
                   lladd_managed_get((struct lladd_txn *)t->txn, b->managed, &k, value,
                                     b->setup.value_size, NULL));
}

static int scan(struct bench_db *b, struct bench_thread *t, uint64_t key, uint32_t n, void *values,
                uint32_t *seen)
{
    unsigned char room[BENCH_KEY_MAX];
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_dtable_key k = key_of(b, key, room);
    struct lladd_dtable_value v;
    const struct lladd_dtable *table;
    struct lladd_dtable_cursor *c;
    const size_t size = b->setup.value_size;
    int rc = bench_lladd_reading(b, t);
    if (rc)
        return rc;
    rc = lladd_managed_table((struct lladd_txn *)t->txn, b->managed, &table);
    rc = rc ? rc : lladd_dtable_cursor_open(table, 0, &c, &err);
    if (rc)
        return bench_lladd_failed("cursor", rc, &err);
    rc = lladd_dtable_seek(c, &k, &err);
    for (*seen = 0; !rc && *seen < n; rc = ++*seen < n ? lladd_dtable_next(c, &err) : 0) {
        rc = lladd_dtable_row(c, NULL, &v, &err);
        if (rc)
            break;
        memcpy((char *)values + *seen * size, v.bytes.data, v.bytes.len);
    }
    lladd_dtable_cursor_close(c);
    return rc == LLADD_END ? 0 : bench_lladd_failed("scan", rc, &err);
}

#define DTABLE \
    BENCH_LLADD, .close = close_it, .join = bench_lladd_join, .leave = bench_lladd_leave, \
    .insert = put, .update = put, .lookup = lookup, .scan = scan, .records = true
const struct bench_engine bench_engine_lladd_dtable = {
    DTABLE, .name = "lladd-dtable", .open = open_it};
const struct bench_engine bench_engine_lladd_dtable_archived = {
    DTABLE, .name = "lladd-dtable-archived", .open = open_archived};
