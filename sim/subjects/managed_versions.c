/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dtable.managed.versions: open snapshots of a managed dTable, with merges of its runs. Each merge
 * stores the versions of rows that only snapshots see, and frees the runs that it replaces (Anvil:
 * digests and combines). The snapshots' rows are compared after each merge. One snapshot is never
 * closed.
 *
 * dtable.managed.versions.threads: one thread commits a change of two rows. One flushes twice, and
 * each flush absorbs the only run. One opens a snapshot and reads it, also with a cursor that stays
 * open.
 */
#include "sim/subjects/managed_tables.h"
#include "sim/subjects/subjects.h"

#include <lladd/bytes.h>
#include <lladd/dtable_managed.h>
#include <lladd/sync.h>
#include <string.h>

enum { KEYS = 9, OLDER = 6 };
/* With SMALL memory the only run is C2; with LARGE memory flushes absorb it. */
enum { SMALL = 30, LARGE = 1000 };
#define NAME "rows"

/* Row `key` gets `number`; number 0 deletes the row. */
struct change {
    uint32_t key, number;
};

static int configure(void *ctx, struct lladd_options *o, struct lladd_error *err)
{
    (void)ctx;
    o->log_segment_min = o->log_segment_max = 32u << 10;
    return lladd_managed_register(o, err);
}

/* The only run has the first OLDER rows. */
static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_managed *t;
    struct lladd_txn *txn;
    int rc = 0;
    (void)ctx;
    TRY(ll_sim_managed_make(db, NAME, LLADD_MANAGED_LEVELS, 0, &t, err));
    TRY(ll_sim_managed_memory(t, LARGE, err));
    TRY(lladd_begin(db, NULL, &txn, err));
    for (uint32_t i = 0; !rc && i < OLDER; i++)
        rc = ll_sim_managed_put(txn, t, i, i + 1);
    TRY(rc ? ll_sim_give_up(NULL, txn, rc, err) : lladd_commit(txn));
    TRY(lladd_managed_digest(t, err));
    return lladd_managed_close(t, err);
}

/* Puts n rows in a transaction. */
static int put_all(struct lladd_sim *sim, struct lladd_txn *txn, struct lladd_managed *t,
                   const struct change *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        TRY(ll_sim_managed_put_noted(sim, txn, t, rows[i].key, rows[i].number));
    return lladd_sim_commit(sim, txn);
}

static int commits(struct lladd_sim *sim, struct lladd_db *db, struct lladd_managed *t,
                const struct change *notes, size_t n, struct lladd_error *err)
{
    struct lladd_txn *txn;
    TRY(lladd_sim_begin(sim, db, NULL, &txn, err));
    int rc = put_all(sim, txn, t, notes, n);
    return rc ? ll_sim_give_up(sim, txn, rc, err) : 0;
}

/* ---- what snapshots have --------------------------------------------------------------------- */

static int wrong_rows(struct lladd_error *err)
{
    return lladd_error_set(err, LLADD_BAD_STATE, "an open snapshot has other rows");
}

static int has(struct lladd_managed_snapshot *s, struct lladd_managed *t,
               const struct ll_sim_managed_rows *want, struct lladd_error *err)
{
    const struct lladd_dtable *table;
    struct lladd_dtable_cursor *c;
    struct lladd_dtable_key key;
    struct ll_sim_managed_rows seen = {{0}};
    uint32_t number;
    TRY(lladd_managed_snapshot_table(s, t, &table, err));
    for (uint32_t i = 0; i < KEYS; i++) {
        TRY(ll_sim_dtable_number(table, i, &number, err));
        TRY(number == want->number[i] ? 0 : wrong_rows(err));
    }
    TRY(lladd_dtable_cursor_open(table, 0, &c, err));
    int rc = lladd_dtable_last(c, err);
    for (; !rc; rc = rc ? rc : lladd_dtable_prev(c, err)) {
        rc = lladd_dtable_row(c, &key, NULL, err);
        if (!rc && key.number < KEYS)
            rc = ll_sim_dtable_number(table, (uint32_t)key.number, &seen.number[key.number], err);
    }
    lladd_dtable_cursor_close(c);
    if (rc != LLADD_END)
        return rc;
    return memcmp(&seen, want, sizeof seen) == 0 ? 0 : wrong_rows(err);
}

enum { SNAPSHOTS = 3 };
static const struct ll_sim_managed_rows kept[SNAPSHOTS] = {
    {{1, 2, 3, 4, 5, 6}}, {{10, 0, 3, 4, 5, 6, 11}}, {{10, 0, 12, 13, 0, 6, 0, 14}}};

static int all_have(struct lladd_managed_snapshot *const *s, struct lladd_managed *t,
                    struct lladd_error *err)
{
    for (int i = 0; i < SNAPSHOTS; i++)
        if (s[i])
            TRY(has(s[i], t, &kept[i], err));
    return 0;
}

static int flushes(struct lladd_managed_snapshot *const *s, struct lladd_managed *t,
                   struct lladd_error *err)
{
    TRY(lladd_managed_digest(t, err));
    return all_have(s, t, err);
}

/* ---- the workload ---------------------------------------------------------------------------- */

static const struct change first[] = {{0, 10}, {1, 0}, {6, 11}}, second[] = {{2, 12}, {6, 0}},
                         third[] = {{3, 13}, {7, 14}}, fourth[] = {{4, 0}},
                         fifth[] = {{5, 15}, {1, 16}}, last[] = {{0, 17}, {8, 18}};
#define PUTS(rows) commits(sim, db, t, rows, sizeof(rows) / sizeof(rows)[0], err)

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_managed_snapshot *s[SNAPSHOTS] = {NULL};
    struct lladd_managed *t;
    (void)ctx;
    TRY(lladd_managed_open(db, NAME, &t, err));
    TRY(lladd_managed_snapshot_open(db, &s[0], err));
    TRY(PUTS(first));
    TRY(lladd_managed_snapshot_open(db, &s[1], err));
    TRY(PUTS(second));
    TRY(flushes(s, t, err)); /* stores a difference for each snapshot */
    TRY(lladd_checkpoint(db, err));
    TRY(PUTS(third));
    TRY(flushes(s, t, err)); /* stores others, which take their place */
    TRY(ll_sim_managed_tidy(t, err));
    lladd_managed_snapshot_close(s[0]);
    s[0] = NULL;
    TRY(PUTS(fourth));
    TRY(lladd_managed_snapshot_open(db, &s[2], err));
    TRY(PUTS(fifth));
    TRY(ll_sim_managed_memory(t, SMALL, err));
    TRY(flushes(s, t, err)); /* begins C1; builds a run for the newest snapshot */
    TRY(lladd_managed_combine(t, 0, err));
    TRY(all_have(s, t, err));
    TRY(ll_sim_managed_tidy(t, err));
    lladd_managed_snapshot_close(s[2]);
    s[2] = NULL;
    TRY(ll_sim_managed_tidy(t, err));
    TRY(PUTS(last));
    return all_have(s, t, err);
}

/* ---- threads --------------------------------------------------------------------------------- */

static const struct change two[] = {{0, 20}, {1, 0}};

/* Both rows that another thread changes are old, or both are new. */
static int whole(const struct lladd_dtable *t, bool *later, struct lladd_error *err)
{
    uint32_t one, other;
    TRY(ll_sim_dtable_number(t, 0, &one, err));
    TRY(ll_sim_dtable_number(t, 1, &other, err));
    *later = one == 20;
    return *later == (other == 0) ? 0 : wrong_rows(err);
}

/* Reads all rows with a cursor, and the two rows before it and meanwhile. */
static int scans(const struct lladd_dtable *t, struct lladd_dtable_cursor *c,
                 struct lladd_error *err)
{
    struct lladd_dtable_key key;
    uint32_t n = 0;
    bool before, after;
    TRY(whole(t, &before, err));
    int rc;
    for (; (rc = lladd_dtable_next(c, err)) == 0; n++) {
        TRY(lladd_dtable_row(c, &key, NULL, err));
        TRY(key.number == 1 && before ? wrong_rows(err) : 0);
        if (n % 2 == 0)
            lladd_yield();
    }
    TRY(rc == LLADD_END ? 0 : rc);
    TRY(whole(t, &after, err));
    return before == after && n == (before ? OLDER - 1 : OLDER) ? 0 : wrong_rows(err);
}

static int looks(struct lladd_db *db, struct lladd_managed *t, struct lladd_error *err)
{
    struct lladd_managed_snapshot *s;
    const struct lladd_dtable *table;
    struct lladd_dtable_cursor *c;
    TRY(lladd_managed_snapshot_open(db, &s, err));
    int rc = lladd_managed_snapshot_table(s, t, &table, err);
    rc = rc ? rc : lladd_dtable_cursor_open(table, 0, &c, err);
    if (!rc) {
        rc = scans(table, c, err);
        lladd_dtable_cursor_close(c);
    }
    lladd_managed_snapshot_close(s);
    return rc;
}

static int run_thread(void *ctx, struct lladd_sim *sim, struct lladd_db *db, unsigned thread,
                      struct lladd_error *err)
{
    struct lladd_managed *t;
    int rc;
    (void)ctx;
    while ((rc = lladd_managed_open(db, NAME, &t, err)) == LLADD_BUSY)
        lladd_yield(); /* another thread is opening or closing the table */
    rc = rc            ? rc
         : thread == 0 ? PUTS(two)
         : thread == 1 ? lladd_managed_digest(t, err)
                       : looks(db, t, err);
    if (!rc && thread == 1)
        rc = lladd_managed_digest(t, err);
    return rc ? rc : lladd_managed_close(t, err);
}

/* ---- the model ------------------------------------------------------------------------------- */

static int go_on(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_managed *t;
    struct lladd_txn *txn;
    (void)ctx;
    TRY(lladd_managed_open(db, NAME, &t, err));
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = ll_sim_managed_put(txn, t, KEYS - 1, 99);
    TRY(rc ? ll_sim_give_up(NULL, txn, rc, err) : lladd_commit(txn));
    TRY(lladd_managed_digest(t, err));
    TRY(ll_sim_managed_tidy(t, err));
    return lladd_managed_close(t, err);
}

static void init(void *ctx, void *model)
{
    struct ll_sim_managed_rows *r = model;
    (void)ctx;
    for (uint32_t i = 0; i < OLDER; i++)
        r->number[i] = i + 1;
}

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink, struct lladd_error *err)
{
    (void)ctx;
    return ll_sim_managed_dump(db, NAME, sink, err);
}

static const char *const operations[] = {"journal", NULL};
static const struct lladd_sim_excuse excuses[] = {
    {"journal", (1u << LLADD_SIM_PATHS) - 1,
     "the class has no redo and no undo: its entries are read from the log"},
    {NULL, 0, NULL}};

#define SUBJECT(subject, text, how, ...) \
    const struct lladd_sim_subject subject = { \
        .struct_size = sizeof(struct lladd_sim_subject), \
        .name = text, \
        .about = how, \
        __VA_ARGS__, \
        .setup = setup, \
        .model_init = init, \
        .configure = configure, \
        .dump = dump, \
        .model_size = sizeof(struct ll_sim_managed_rows), \
        .model_apply = ll_sim_managed_apply, \
        .model_dump = ll_sim_managed_model_dump, \
        .describe = ll_sim_managed_describe, \
        .go_on = go_on, \
        .pages = ll_sim_managed_pages, \
        .operations = operations, \
        .excuses = excuses, \
    }

SUBJECT(ll_sim_subject_managed_versions, "dtable.managed.versions",
        "open snapshots of a managed dTable keep the versions of rows that only they see",
        .run = run);
SUBJECT(ll_sim_subject_managed_versions_threads, "dtable.managed.versions.threads",
        "a managed dTable is written, digested, and scanned by an open snapshot", .threads = 3,
        .run_thread = run_thread);
