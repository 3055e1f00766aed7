/* SPDX-License-Identifier: BSD-2-Clause */
/* A trial of a cTable: the rows are stored either as packed rows, or column by column. */
#include "trial.h"

#include <stdio.h>
#include <string.h>

enum { ROWS_A_TXN = 1000, MEMORY = 4 << 20, LOOKUPS = 200000, BATCH = 4096 };

struct trying {
    struct lladd_db *db;
    const struct table *of;
    struct lladd_ctable *table;
    uint32_t at;
};

static bool row(const struct table *of, uint32_t key, struct lladd_dtable_value *values)
{
    for (size_t i = 0; i < of->n; i++) {
        struct lladd_span v;
        bool there = of->columns[i]->value(of->columns[i]->ctx, key, &v);
        if (!there && i == 0)
            return false;
        values[i] = lladd_dtable_value_of(v.data, v.len);
        values[i].state = there ? LLADD_DTABLE_FOUND : LLADD_DTABLE_ABSENT;
    }
    return true;
}

/* ---- loading --------------------------------------------------------------------------------- */

static int create(struct lladd_db *db, const struct table *of, const struct store *s,
                  struct lladd_error *err)
{
    struct lladd_ctable_options o = LLADD_CTABLE_OPTIONS_INIT;
    struct lladd_ctable_group groups[COLUMNS_MOST];
    struct lladd_txn *txn;
    for (size_t i = 0; i < of->n; i++)
        groups[i] = (struct lladd_ctable_group){&of->names[i], 1, s->columns[i]};
    o.columns = of->names;
    o.n_columns = of->n;
    o.managed.type = LLADD_DTABLE_U32;
    o.managed.memory_bytes = MEMORY;
    o.managed.config = s->rows;
    if (!s->rows) {
        o.groups = groups;
        o.n_groups = of->n;
        o.keys = s->keys;
    }
    TRY(lladd_begin(db, NULL, &txn, err));
    return end(txn, lladd_ctable_create(txn, "trial", &o), err);
}

static int put_some(struct lladd_txn *txn, struct trying *t)
{
    struct lladd_dtable_value values[COLUMNS_MOST];
    uint64_t keys = t->of->columns[0]->keys;
    for (unsigned i = 0; i < ROWS_A_TXN && t->at < keys; i++, t->at++) {
        struct lladd_dtable_key key = lladd_dtable_u32(t->at);
        if (row(t->of, t->at, values))
            TRY(lladd_ctable_put(txn, t->table, &key, values));
    }
    return 0;
}

static int load(struct trying *t, struct lladd_error *err)
{
    struct lladd_managed *below = lladd_ctable_managed(t->table);
    struct lladd_txn *txn;
    bool more = false;
    while (t->at < t->of->columns[0]->keys) {
        TRY(lladd_begin(t->db, NULL, &txn, err));
        TRY(end(txn, put_some(txn, t), err));
        TRY(lladd_managed_maintain(below, &more, err));
    }
    TRY(lladd_managed_digest(below, err));
    return lladd_managed_combine(below, 0, err);
}

/* ---- measuring ------------------------------------------------------------------------------- */

/* Looks up the last column of rows with pseudo-random keys from `from` on. *out: microseconds per
 * lookup. */
static int look_column_up(struct lladd_txn *txn, const struct trying *t, uint64_t from, double *out)
{
    struct lladd_dtable_value want[COLUMNS_MOST];
    unsigned char buf[64];
    uint32_t column = (uint32_t)t->of->n - 1;
    uint64_t keys = t->of->columns[0]->keys;
    double begin = seconds();
    for (uint64_t i = 0; i < LOOKUPS; i++) {
        uint32_t number = (uint32_t)(from + drawn(i, 2) % keys);
        struct lladd_dtable_key key = lladd_dtable_u32(number);
        size_t len = 0;
        int rc = lladd_ctable_get(txn, t->table, &key, column, buf, sizeof buf, &len);
        if (rc && rc != LLADD_NOT_FOUND)
            return rc;
        if (i % 64)
            continue; /* only every 64th value is compared */
        bool there = number < keys && row(t->of, number, want);
        if (there != (rc == 0) || (there && (len != want[column].bytes.len ||
                                            memcmp(buf, want[column].bytes.data, len) != 0)))
            return lladd_error_set(lladd_txn_error_out(txn), LLADD_BUG,
                                   "key %lu has another value", (unsigned long)number);
    }
    *out = (seconds() - begin) / LOOKUPS * 1e6;
    return 0;
}

/* Reads all of the last column; *out: nanoseconds per value. */
static int read_column(struct lladd_txn *txn, const struct trying *t, double *out)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct lladd_ctable_batch batch = {.n = 0};
    struct lladd_ctable_cursor *c;
    uint32_t column = (uint32_t)t->of->n - 1;
    uint64_t n = 0;
    double begin = seconds();
    TRY(lladd_ctable_cursor_open(txn, t->table, &column, 1, &c));
    int rc;
    while ((rc = lladd_ctable_next_n(c, BATCH, 0, &batch, err)) == 0)
        n += batch.n;
    lladd_ctable_batch_free(&batch);
    lladd_ctable_cursor_close(c);
    *out = (seconds() - begin) / (double)t->of->columns[0]->n * 1e9;
    if (rc == LLADD_END && n != t->of->columns[0]->n)
        return lladd_error_set(err, LLADD_BUG, "%llu rows", (unsigned long long)n);
    return rc == LLADD_END ? 0 : rc;
}

static int measure(struct lladd_txn *txn, const struct trying *t, const char *about)
{
    struct lladd_managed_stats s = {.struct_size = sizeof s};
    double there, absent, each;
    TRY(look_column_up(txn, t, 0, &there));
    TRY(look_column_up(txn, t, 0, &there)); /* again: now all blocks are in memory */
    TRY(look_column_up(txn, t, t->of->columns[0]->keys, &absent));
    TRY(read_column(txn, t, &each));
    TRY(lladd_managed_stats_get(lladd_ctable_managed(t->table), &s, NULL, 0,
                            lladd_txn_error_out(txn)));
    print_line(t->of->columns[0], about, s.run_bytes, there, absent);
    printf("    %s: %.1f ns a value when all are read\n", t->of->names[t->of->n - 1], each);
    return 0;
}

int trial_ctable(struct lladd_db *db, const struct table *of, const struct store *s,
                 struct lladd_error *err)
{
    struct trying t = {.db = db, .of = of};
    struct lladd_txn *txn;
    TRY(create(db, of, s, err));
    TRY(lladd_ctable_open(db, "trial", &t.table, err));
    int rc = load(&t, err);
    if (rc == LLADD_REJECTED) {
        print_refused(s->about, t.at);
        rc = 0;
    } else if (!rc) {
        TRY(lladd_begin(db, NULL, &txn, err));
        rc = end(txn, measure(txn, &t, s->about), err);
    }
    TRY(lladd_ctable_close(t.table, err));
    TRY(rc);
    TRY(lladd_begin(db, NULL, &txn, err));
    return end(txn, lladd_ctable_destroy(txn, "trial"), err);
}
