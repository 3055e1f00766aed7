/* SPDX-License-Identifier: BSD-2-Clause */
/* The indexes in the simulator. Rows of people have an email address, with a unique index, and a
 * city. Some changes are committed, some are rolled back (also to a savepoint), and some are
 * refused; the table is digested in between. */
#include "indexed.h"

#include <lladd/sim.h>
#include <lladd/sync.h>
#include <lladd/twophase.h>

#include <string.h>

enum { IDS = 8, CITY = 0, EMAIL = 1, COLUMNS = 2 };

#define TRY(call) \
    do { \
        int try_rc = (call); \
        if (try_rc) \
            return try_rc; \
    } while (0)

static const char *const columns[COLUMNS] = {"city", "email"};
static const char *const roots[COLUMNS] = {"people.city", "people.email"};

/* A row, with letters as values; 0: no value. If the row does not exist, both values are 0. */
struct note {
    uint32_t id;
    char value[COLUMNS];
};
struct model {
    char value[IDS][COLUMNS];
};

struct people {
    struct ix ix[COLUMNS];
    struct ix_table t;
};

static int configure(void *ctx, struct lladd_options *options, struct lladd_error *err)
{
    (void)ctx;
    options->log_segment_min = options->log_segment_max = 32u << 10;
    return ix_register(options, err);
}

static int open_all(struct people *p, struct lladd_db *db, struct lladd_error *err)
{
    *p = (struct people){.t = {.n = COLUMNS}};
    p->t.indexes = p->ix;
    TRY(lladd_ctable_open(db, "people", &p->t.rows, err));
    for (uint32_t i = 0; i < COLUMNS; i++) {
        TRY(ix_open(db, roots[i], &p->ix[i], err));
        p->ix[i].column = i;
    }
    return 0;
}

static int close_all(struct people *p, int rc, struct lladd_error *err)
{
    for (uint32_t i = 0; i < COLUMNS; i++)
        ix_close(&p->ix[i]);
    int closed = p->t.rows ? lladd_ctable_close(p->t.rows, rc ? NULL : err) : 0;
    return rc ? rc : closed;
}

static int change(struct lladd_txn *txn, const struct ix_table *t, const struct note *n)
{
    struct lladd_dtable_value values[COLUMNS];
    bool row = false;
    for (int i = 0; i < COLUMNS; i++) {
        values[i] = lladd_dtable_value_of(&n->value[i], 1);
        values[i].state = n->value[i] ? LLADD_DTABLE_FOUND : LLADD_DTABLE_ABSENT;
        row = row || n->value[i];
    }
    return ix_put(txn, t, n->id, row ? values : NULL);
}

static int put(struct lladd_sim *sim, struct lladd_txn *txn, const struct ix_table *t, uint32_t id,
               char email, char city)
{
    struct note n = {id, {city, email}};
    TRY(change(txn, t, &n));
    return lladd_sim_note(sim, txn, &n, sizeof n);
}

/* Rows that are there before the indexes are built. */
static const struct note first[] = {{0, {'x', 'a'}}, {1, {'x', 'b'}}, {2, {'y', 0}}};

static int make(struct lladd_db *db, struct lladd_ctable **rows, struct lladd_error *err)
{
    struct lladd_ctable_options o = LLADD_CTABLE_OPTIONS_INIT;
    o.columns = columns;
    o.n_columns = COLUMNS;
    o.managed.type = LLADD_DTABLE_U32;
    return lladd_ctable_create_open(db, "people", &o, rows, err);
}

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct ix_table bare = {.n = 0};
    struct lladd_txn *txn;
    int rc = 0;
    (void)ctx;
    TRY(make(db, &bare.rows, err));
    TRY(lladd_begin(db, NULL, &txn, err));
    for (int i = 0; i < 3 && !rc; i++)
        rc = change(txn, &bare, &first[i]);
    if (rc)
        *err = *lladd_txn_error(txn);
    TRY(rc ? rc : lladd_commit(txn));
    for (uint32_t i = 0; i < COLUMNS; i++)
        TRY(ix_build(db, bare.rows, roots[i], i, i == EMAIL, err));
    return lladd_ctable_close(bare.rows, err);
}

static int stays(struct lladd_sim *sim, struct lladd_txn *txn, const struct ix_table *t)
{
    lladd_savepoint_id here;
    TRY(put(sim, txn, t, 0, 'c', 'y')); /* a is free now */
    TRY(put(sim, txn, t, 3, 'a', 'y'));
    TRY(lladd_sim_savepoint(sim, txn, &here));
    TRY(put(sim, txn, t, 3, 'd', 0));
    TRY(put(sim, txn, t, 1, 0, 0));
    TRY(lladd_sim_rollback_to(sim, txn, here));
    if (put(sim, txn, t, 4, 'b', 'z') != LLADD_EXISTS)
        return lladd_error_set(lladd_txn_error_out(txn), LLADD_BUG, "b belongs to row 1");
    return lladd_sim_commit(sim, txn);
}

static int gives_up(struct lladd_sim *sim, struct lladd_txn *txn, const struct ix_table *t)
{
    TRY(put(sim, txn, t, 0, 0, 0));
    TRY(put(sim, txn, t, 1, 'e', 'x'));
    TRY(put(sim, txn, t, 5, 'c', 'x'));
    return lladd_sim_abort(sim, txn);
}

static int steps(struct lladd_sim *sim, struct lladd_db *db, const struct ix_table *t,
                 struct lladd_error *err)
{
    const struct lladd_gid gid = {.format = 7, .gtrid_length = 1, .bqual_length = 1};
    struct lladd_managed *below = lladd_ctable_managed(t->rows);
    struct lladd_txn *txn;
    TRY(lladd_sim_begin(sim, db, NULL, &txn, err));
    TRY(stays(sim, txn, t));
    TRY(lladd_sim_begin(sim, db, NULL, &txn, err));
    TRY(gives_up(sim, txn, t));
    TRY(lladd_managed_digest(below, err));
    TRY(lladd_sim_begin(sim, db, NULL, &txn, err));
    TRY(put(sim, txn, t, 1, 0, 'y'));
    TRY(put(sim, txn, t, 6, 'b', 0));
    TRY(lladd_sim_prepare(sim, txn, &gid)); /* then a crash may leave it in doubt */
    TRY(lladd_managed_digest(below, err));
    TRY(lladd_sim_commit(sim, txn));
    TRY(lladd_sim_begin(sim, db, NULL, &txn, err));
    TRY(put(sim, txn, t, 3, 0, 0));
    return put(sim, txn, t, 2, 'a', 'y');
}

/* The table and the last transaction stay open, as in a program that crashes. */
static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct people p;
    (void)ctx;
    int rc = open_all(&p, db, err);
    rc = rc ? rc : steps(sim, db, &p.t, err);
    for (int i = 0; i < COLUMNS; i++)
        ix_close(&p.ix[i]);
    return rc;
}

/* The first thread gives the address b up and rolls back; the other thread wants this address. Both
 * move rows between the same cities. A thread that is refused, or that a deadlock has chosen, rolls
 * back. */
static int thread_steps(struct lladd_sim *sim, struct lladd_txn *txn, const struct ix_table *t,
                        unsigned thread)
{
    int rc = put(sim, txn, t, thread ? 5 : 1, thread ? 'b' : 0, 'y');
    rc = rc ? rc : put(sim, txn, t, 2, 0, thread ? 'x' : 'z');
    if ((!rc && !thread) || rc == LLADD_EXISTS || lladd_code_root(rc) == LLADD_ROOT_RETRY)
        return lladd_sim_abort(sim, txn);
    return rc ? rc : lladd_sim_commit(sim, txn);
}

static int run_thread(void *ctx, struct lladd_sim *sim, struct lladd_db *db, unsigned thread,
                      struct lladd_error *err)
{
    struct lladd_txn *txn;
    struct people p;
    int rc;
    (void)ctx;
    while ((rc = open_all(&p, db, err)) == LLADD_BUSY) /* the other thread is opening the table */
        lladd_yield();
    rc = rc ? rc : lladd_sim_begin(sim, db, NULL, &txn, err);
    rc = rc ? rc : thread_steps(sim, txn, &p.t, thread);
    for (int i = 0; i < COLUMNS; i++)
        ix_close(&p.ix[i]);
    return rc;
}

/* ---- the expected contents ------------------------------------------------------------------- */

struct listing {
    struct lladd_sink *to;
};

static int tell(void *ctx, uint32_t id)
{
    const struct listing *l = ctx;
    return lladd_sink_printf(l->to, "%u ", id);
}

/* Writes the ids of the rows with a city from x to y, by the index. */
static int dump_range(struct people *p, struct lladd_txn *txn, struct listing *l)
{
    const struct lladd_span high = lladd_span_of("z", 1);
    TRY(lladd_sink_printf(l->to, "x to y: "));
    return ix_range(txn, &p->t, &p->ix[CITY], lladd_span_of("x", 1), &high, tell, l);
}

/* Writes the ids that each index finds, value by value. */
static int dump_open(struct people *p, struct lladd_db *db, struct lladd_sink *to,
                     struct lladd_error *err)
{
    struct listing l = {to};
    struct lladd_txn *txn;
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = 0;
    for (int i = 0; i < COLUMNS; i++)
        for (char value = 'a'; value <= 'z' && !rc; value++) {
            rc = lladd_sink_printf(to, "%c: ", value);
            rc = rc ? rc : ix_find(txn, &p->t, &p->ix[i], &value, 1, tell, &l);
        }
    rc = rc ? rc : dump_range(p, txn, &l);
    if (rc)
        *err = *lladd_txn_error(txn);
    int ended = lladd_commit(txn);
    return rc ? rc : ended;
}

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *to, struct lladd_error *err)
{
    struct people p;
    (void)ctx;
    int rc = open_all(&p, db, err);
    return close_all(&p, rc ? rc : dump_open(&p, db, to, err), err);
}

static int check(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct people p;
    (void)ctx;
    int rc = open_all(&p, db, err);
    for (int i = 0; i < COLUMNS && !rc; i++)
        rc = ix_check(db, &p.t, &p.ix[i], err);
    return close_all(&p, rc, err);
}

static void model_init(void *ctx, void *model)
{
    struct model *m = model;
    (void)ctx;
    for (int i = 0; i < 3; i++)
        memcpy(m->value[first[i].id], first[i].value, COLUMNS);
}

static void model_apply(void *ctx, void *model, struct lladd_span bytes)
{
    struct model *m = model;
    struct note n;
    (void)ctx;
    memcpy(&n, bytes.data, sizeof n);
    memcpy(m->value[n.id], n.value, COLUMNS);
}

static int model_dump(void *ctx, const void *model, struct lladd_sink *to)
{
    const struct model *m = model;
    struct listing l = {to};
    (void)ctx;
    for (int i = 0; i < COLUMNS; i++)
        for (char value = 'a'; value <= 'z'; value++) {
            TRY(lladd_sink_printf(to, "%c: ", value));
            for (uint32_t id = 0; id < IDS; id++)
                if (m->value[id][i] == value)
                    TRY(tell(&l, id));
        }
    TRY(lladd_sink_printf(to, "x to y: "));
    for (char value = 'x'; value < 'z'; value++)
        for (uint32_t id = 0; id < IDS; id++)
            if (m->value[id][CITY] == value)
                TRY(tell(&l, id));
    return 0;
}

static void describe(void *ctx, struct lladd_span bytes, struct lladd_sink *to)
{
    struct note n;
    (void)ctx;
    memcpy(&n, bytes.data, sizeof n);
    lladd_sink_printf(to, "row %u becomes %c, %c", n.id, n.value[0] ? n.value[0] : '-',
                      n.value[1] ? n.value[1] : '-');
}

static const char *const operations[] = {"lladd.btree.insert", "lladd.btree.remove", NULL};

#define SUBJECT(its_name, its_about, ...) \
    { \
        .struct_size = sizeof(struct lladd_sim_subject), .name = its_name, .about = its_about, \
        .configure = configure, .setup = setup, .dump = dump, .check = check, \
        .model_size = sizeof(struct model), .model_init = model_init, .model_apply = model_apply, \
        .model_dump = model_dump, .describe = describe, .operations = operations, __VA_ARGS__ \
    }

static const struct lladd_sim_subject one =
    SUBJECT("indexed", "a cTable with two secondary indexes", .run = run);
static const struct lladd_sim_subject two =
    SUBJECT("indexed.threads", "a cTable with two secondary indexes, used by two threads",
            .threads = 2, .run_thread = run_thread);

LLADD_API const struct lladd_sim_subject *const *lladd_sim_plugin(void);

const struct lladd_sim_subject *const *lladd_sim_plugin(void)
{
    static const struct lladd_sim_subject *const all[] = {&one, &two, NULL};
    return all;
}
