/* SPDX-License-Identifier: BSD-2-Clause */
/* indexed DIR: people, with a unique index on the email addresses and an index on the cities. */
#include "indexed.h"

#include <lladd/sync.h>

#include <stdio.h>
#include <string.h>

enum { CITY = 0, EMAIL = 1, COLUMNS = 2, THREADS = 4, TURNS = 50, ADDRESSES = 5 };

#define TRY(call) \
    do { \
        int try_rc = (call); \
        if (try_rc) \
            return try_rc; \
    } while (0)

static const char *const columns[COLUMNS] = {"city", "email"};
static const char *const roots[COLUMNS] = {"people.city", "people.email"};

static struct lladd_dtable_value text(const char *s)
{
    struct lladd_dtable_value v = lladd_dtable_value_of(s ? s : "", s ? strlen(s) : 0);
    v.state = s ? LLADD_DTABLE_FOUND : LLADD_DTABLE_ABSENT;
    return v;
}

static int put(struct lladd_txn *txn, const struct ix_table *t, uint32_t id, const char *email,
               const char *city)
{
    const struct lladd_dtable_value values[COLUMNS] = {text(city), text(email)};
    return ix_put(txn, t, id, values);
}

static int end(struct lladd_txn *txn, int rc, struct lladd_error *err)
{
    if (!rc)
        return lladd_commit(txn);
    *err = *lladd_txn_error(txn);
    TRY(lladd_abort(txn));
    return rc;
}

/* ---- several threads ------------------------------------------------------------------------- */

struct clerk {
    const struct ix_table *t;
    struct lladd_db *db;
    uint32_t number;
    struct lladd_thread thread;
    struct lladd_error err;
    int rc;
};

/* Gives the clerk's row another address, unless another row has this address. Every third change is
 * rolled back. */
static int move(struct clerk *c, uint32_t turn)
{
    char email[16];
    (void)snprintf(email, sizeof email, "box%u", (turn + c->number) % ADDRESSES);
    for (;;) {
        struct lladd_txn *txn;
        TRY(lladd_begin(c->db, NULL, &txn, &c->err));
        int rc = put(txn, c->t, 100 + c->number, email, turn % 2 ? "Delft" : "Oslo");
        if (rc == LLADD_EXISTS || (!rc && turn % 3 == 2))
            return lladd_abort(txn);
        rc = end(txn, rc, &c->err);
        if (lladd_code_root(rc) != LLADD_ROOT_RETRY)
            return rc;
    }
}

static void *work(void *arg)
{
    struct clerk *c = arg;
    for (uint32_t i = 0; i < TURNS && !c->rc; i++)
        c->rc = move(c, i);
    return NULL;
}

static int work_together(const struct ix_table *t, struct lladd_db *db, struct lladd_error *err)
{
    struct clerk clerks[THREADS];
    int rc = 0;
    for (uint32_t i = 0; i < THREADS; i++)
        clerks[i] = (struct clerk){.t = t, .db = db, .number = i};
    for (int i = 0; i < THREADS && !rc; i++)
        rc = lladd_thread_start(&clerks[i].thread, work, &clerks[i]);
    for (int i = 0; i < THREADS; i++) {
        lladd_thread_join(&clerks[i].thread);
        if (clerks[i].rc && !rc) {
            rc = clerks[i].rc;
            *err = clerks[i].err;
        }
    }
    return rc;
}

/* ---- the demonstration ----------------------------------------------------------------------- */

static int tell(void *ctx, uint32_t id)
{
    (void)ctx;
    return printf(" %u", id) < 0 ? LLADD_NO_SPACE : 0;
}

static int find(struct lladd_txn *txn, const struct ix_table *t, uint32_t column, const char *value)
{
    printf("%s %s:", columns[column], value);
    TRY(ix_find(txn, t, &t->indexes[column], value, strlen(value), tell, NULL));
    printf("\n");
    return 0;
}

static int find_range(struct lladd_txn *txn, const struct ix_table *t)
{
    const struct lladd_span high = lladd_span_of("Rome", 4);
    printf("cities from O to Rome:");
    TRY(ix_range(txn, t, &t->indexes[CITY], lladd_span_of("O", 1), &high, tell, NULL));
    printf("\n");
    return 0;
}

static int look(const struct ix_table *t, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_txn *txn;
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = find(txn, t, CITY, "Paris");
    rc = rc ? rc : find(txn, t, CITY, "Rome");
    rc = rc ? rc : find_range(txn, t);
    return end(txn, rc ? rc : find(txn, t, EMAIL, "ada"), err);
}

static int check(const struct ix_table *t, struct lladd_db *db, struct lladd_error *err)
{
    for (size_t i = 0; i < t->n; i++)
        TRY(ix_check(db, t, &t->indexes[i], err));
    printf("the indexes agree with the table\n");
    return 0;
}

static int changes(const struct ix_table *t, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_txn *txn;
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = put(txn, t, 4, "ada", "Rome");
    printf("a second ada: %s\n", lladd_code_name(rc));
    rc = put(txn, t, 2, "bob", "Rome");
    TRY(end(txn, rc, err));
    TRY(look(t, db, err));
    TRY(lladd_begin(db, NULL, &txn, err));
    rc = put(txn, t, 1, "eve", "Rome");
    rc = rc ? rc : ix_put(txn, t, 3, NULL);
    if (rc)
        return end(txn, rc, err);
    TRY(lladd_abort(txn));
    return look(t, db, err);
}

/* After the snapshot of `txn`, the transaction `other` changes row 1. The old index entry of row 1
 * is gone, but the snapshot still has the old row, so `txn` gets LLADD_CONFLICT. */
static int late(const struct ix_table *t, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_txn *txn, *other;
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = find(txn, t, CITY, "Rome");
    if (rc)
        return end(txn, rc, err);
    TRY(lladd_begin(db, NULL, &other, err));
    TRY(end(other, put(other, t, 1, "ada", "Oslo"), err));
    rc = put(txn, t, 1, "ada", "Lima");
    printf("a row that has changed since: %s\n", lladd_code_name(rc));
    return lladd_abort(txn);
}

/* Puts the first rows before it builds the indexes. */
static int make(struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_ctable_options o = LLADD_CTABLE_OPTIONS_INIT;
    struct ix_table t = {.n = 0};
    struct lladd_txn *txn;
    o.columns = columns;
    o.n_columns = COLUMNS;
    o.managed.type = LLADD_DTABLE_U32;
    TRY(lladd_ctable_create_open(db, "people", &o, &t.rows, err));
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = put(txn, &t, 1, "ada", "Paris");
    rc = rc ? rc : put(txn, &t, 2, "bob", "Paris");
    TRY(end(txn, rc ? rc : put(txn, &t, 3, NULL, "Paris"), err));
    for (uint32_t i = 0; i < COLUMNS; i++)
        TRY(ix_build(db, t.rows, roots[i], i, i == EMAIL, err));
    rc = ix_build(db, t.rows, "people.one_city", CITY, true, err);
    printf("a unique index on cities: %s\n", lladd_code_name(rc));
    return lladd_ctable_close(t.rows, err);
}

/* Drops all, so that the next run begins anew. */
static int drop(struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_txn *txn;
    int rc = 0;
    TRY(lladd_begin(db, NULL, &txn, err));
    for (int i = 0; i < COLUMNS && !rc; i++)
        rc = ix_destroy(txn, roots[i]);
    return end(txn, rc ? rc : lladd_ctable_destroy(txn, "people"), err);
}

static int run(struct lladd_db *db, struct lladd_error *err)
{
    struct ix ix[COLUMNS] = {{.column = CITY}, {.column = EMAIL}};
    struct ix_table t = {.indexes = ix, .n = COLUMNS};
    TRY(make(db, err));
    TRY(lladd_ctable_open(db, "people", &t.rows, err));
    int rc = ix_open(db, roots[EMAIL], &ix[EMAIL], err);
    rc = rc ? rc : ix_open(db, roots[CITY], &ix[CITY], err);
    rc = rc ? rc : changes(&t, db, err);
    rc = rc ? rc : late(&t, db, err);
    rc = rc ? rc : work_together(&t, db, err);
    rc = rc ? rc : lladd_managed_digest(lladd_ctable_managed(t.rows), err);
    rc = rc ? rc : check(&t, db, err);
    ix_close(&ix[EMAIL]);
    ix_close(&ix[CITY]);
    rc = rc ? rc : lladd_ctable_close(t.rows, err);
    return rc ? rc : drop(db, err);
}

int main(int argc, char **argv)
{
    struct lladd_options options = LLADD_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_db *db;
    int rc = ix_register(&options, &err);
    if (!rc)
        rc = lladd_open(argc > 1 ? argv[1] : "indexed.db", &options, &db, &err);
    lladd_options_release(&options);
    if (!rc) {
        rc = run(db, &err);
        int closed = lladd_close(db);
        rc = rc ? rc : closed;
    }
    if (rc)
        fprintf(stderr, "%s: %s\n", lladd_code_name(rc), err.message);
    return rc != 0;
}
