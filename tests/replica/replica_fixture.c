/* SPDX-License-Identifier: BSD-2-Clause */
/* See replica_fixture.h. */
#include "replica_fixture.h"

#include <lladd/blob.h>
#include <lladd/hash.h>

void replica_begin(struct fixture *b)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    o.flags = LLADD_MANAGED_UNLOGGED;
    o.schedule = LLADD_MANAGED_LEVELS;
    fixture_init(b, 4096);
    ok_db(b, lladd_replica_register(&b->options, &b->err));
    fixture_open(b);
    for (unsigned i = 0; i < SOURCE_TABLES; i++)
        managed_close(b, managed_table(b, source_tables[i], &o));
}

int replica_try_open(struct fixture *b, const struct lladd_replica_options *options,
                     struct lladd_replica **out)
{
    struct lladd_replica_options o = LLADD_REPLICA_OPTIONS_INIT;
    if (options)
        o = *options;
    if (!o.tables)
        o.tables = source_tables;
    return lladd_replica_open(b->db, "r", &o, out, &b->err);
}

struct lladd_replica *replica_open(struct fixture *b, const struct lladd_replica_options *o)
{
    struct lladd_replica *r = NULL;
    ok_db(b, replica_try_open(b, o, &r));
    return r;
}

void replica_close(struct fixture *b, struct lladd_replica *r)
{
    ok_db(b, lladd_replica_close(r, &b->err));
}

uint64_t replica_from(struct lladd_replica *r)
{
    uint64_t from = 0;
    ck_assert_int_eq(lladd_replica_from(r, &from), 0);
    return from;
}

uint64_t replica_durable(struct fixture *b, struct lladd_replica *r)
{
    uint64_t durable = 0;
    ok_db(b, lladd_replica_durable(r, &durable, &b->err));
    return durable;
}

struct lladd_replica_info replica_info(struct fixture *b, struct lladd_replica *r)
{
    struct lladd_replica_info i = {.struct_size = sizeof i};
    ok_db(b, lladd_replica_info_get(r, &i, NULL, 0, &b->err));
    return i;
}

void replica_send(struct fixture *b, struct lladd_replica *r, const struct source *s, uint64_t from,
                  uint64_t to, size_t step)
{
    size_t i = source_find(s, from), end = source_find(s, to), done;
    for (; i < end; i += done) {
        size_t n = end - i < step ? end - i : step;
        ok_db(b, lladd_replica_apply(r, s->events + i, n, &done, &b->err));
        ck_assert_uint_eq(done, n);
    }
}

void replica_take(struct fixture *b, struct lladd_replica *r, struct lladd_replica_event e)
{
    size_t done = 0;
    ok_db(b, lladd_replica_apply(r, &e, 1, &done, &b->err));
    ck_assert_uint_eq(done, 1);
}

void replica_table_has(struct fixture *b, const char *table, const char *rows)
{
    struct lladd_managed *t = managed_open(b, table);
    managed_expect(b, t, rows);
    managed_close(b, t);
}

void replica_expect(struct fixture *b, const struct source *s, uint64_t position)
{
    for (unsigned i = 0; i < SOURCE_TABLES; i++) {
        char *rows = source_rows(s, source_tables[i], position);
        replica_table_has(b, source_tables[i], rows);
        free(rows);
    }
}

void replica_digest(struct fixture *b, const char *table)
{
    struct lladd_managed *t = managed_open(b, table);
    ok_db(b, lladd_managed_digest(t, &b->err));
    managed_tidy(b, t);
    managed_close(b, t);
}

struct counting {
    struct fixture *b;
    uint64_t n;
};

static int count_blob(void *ctx, const char *name, struct lladd_root_value value)
{
    struct counting *c = ctx;
    if (strncmp(name, "replica:", 8) == 0)
        ok_db(c->b, lladd_blob_pages(c->b->db, lladd_page_of(value.a), fixture_count_page, &c->n,
                                     &c->b->err));
    return 0;
}

void replica_no_leaks(struct fixture *b)
{
    struct counting c = {b, 0};
    struct lladd_root_value root;
    struct lladd_hash *journal;
    ok_db(b, lladd_managed_pages(b->db, fixture_count_page, &c.n, &b->err));
    ok_db(b, lladd_root_get(b->db, "journal", &root, &b->err));
    ok_db(b, lladd_hash_open(b->db, lladd_page_of(root.a), 0, &journal, &b->err));
    ok_db(b, lladd_hash_pages(journal, fixture_count_page, &c.n, &b->err));
    lladd_hash_close(journal);
    ok_db(b, lladd_root_each(b->db, count_blob, &c, &b->err));
    ck_assert_uint_eq(c.n, fixture_pages_used(b));
}

void replica_done(struct fixture *b, struct lladd_replica *r)
{
    replica_close(b, r);
    replica_no_leaks(b);
    fixture_free(b);
}

struct lladd_replica_event event_of(enum lladd_replica_kind kind, uint64_t position, uint64_t txn)
{
    return (struct lladd_replica_event){.kind = kind, .position = position, .txn = txn};
}

struct lladd_replica_event event_put(uint64_t position, uint64_t txn, const char *table,
                                     uint32_t key, const char *value)
{
    struct lladd_replica_event e = event_of(LLADD_REPLICA_PUT, position, txn);
    e.table = table;
    e.key = lladd_dtable_u32(key);
    e.after = lladd_dtable_value_of(value, strlen(value));
    return e;
}
