/* SPDX-License-Identifier: BSD-2-Clause */
/* A trial of a managed table: rows are put in transactions and digested (flushed to runs) as in
 * normal use; finally all runs are combined into one. */
#include "trial.h"

#include <stdio.h>

enum { ROWS_A_TXN = 1000, MEMORY = 4 << 20 };

struct trying {
    struct lladd_db *db;
    const struct rows *rows;
    struct lladd_managed *table;
    uint32_t at;
};

static int put_some(struct lladd_txn *txn, struct trying *t)
{
    for (unsigned i = 0; i < ROWS_A_TXN && t->at < t->rows->keys; i++, t->at++) {
        struct lladd_dtable_key key = lladd_dtable_u32(t->at);
        struct lladd_span v;
        if (!t->rows->value(t->rows->ctx, t->at, &v))
            continue;
        struct lladd_dtable_value value = lladd_dtable_value_of(v.data, v.len);
        TRY(lladd_managed_put(txn, t->table, &key, &value));
    }
    return 0;
}

static int load(struct trying *t, struct lladd_error *err)
{
    struct lladd_txn *txn;
    bool more = false;
    while (t->at < t->rows->keys) {
        TRY(lladd_begin(t->db, NULL, &txn, err));
        TRY(end(txn, put_some(txn, t), err));
        TRY(lladd_managed_maintain(t->table, &more, err));
    }
    TRY(lladd_managed_digest(t->table, err));
    return lladd_managed_combine(t->table, 0, err);
}

static int measure(struct lladd_txn *txn, const struct trying *t, const char *about)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct lladd_managed_stats s = {.struct_size = sizeof s};
    const struct lladd_dtable *table;
    double there, absent;
    TRY(lladd_managed_table(txn, t->table, &table));
    TRY(look_up(table, t->rows, err));
    TRY(time_lookups(table, 0, t->rows->keys, &there, err));
    TRY(time_lookups(table, t->rows->keys, t->rows->keys, &absent, err));
    TRY(lladd_managed_stats_get(t->table, &s, NULL, 0, err));
    print_line(t->rows, about, s.run_bytes, there, absent);
    return 0;
}

static int create(struct lladd_db *db, const char *config, struct lladd_error *err)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    struct lladd_txn *txn;
    o.type = LLADD_DTABLE_U32;
    o.config = config;
    o.memory_bytes = MEMORY;
    TRY(lladd_begin(db, NULL, &txn, err));
    return end(txn, lladd_managed_create(txn, "trial", &o), err);
}

int trial_managed(struct lladd_db *db, const struct rows *rows, const struct configuration *c,
                  struct lladd_error *err)
{
    struct trying t = {.db = db, .rows = rows};
    struct lladd_txn *txn;
    TRY(create(db, c->text, err));
    TRY(lladd_managed_open(db, "trial", &t.table, err));
    int rc = load(&t, err);
    if (rc == LLADD_REJECTED) {
        print_refused(c->about, t.at);
        rc = 0;
    } else if (!rc) {
        TRY(lladd_begin(db, NULL, &txn, err));
        rc = end(txn, measure(txn, &t, c->about), err);
    }
    TRY(lladd_managed_close(t.table, err));
    TRY(rc);
    TRY(lladd_begin(db, NULL, &txn, err));
    return end(txn, lladd_managed_destroy(txn, "trial"), err);
}
