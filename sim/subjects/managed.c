/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dtable.managed: transactions put rows into a managed dTable and delete them. Meanwhile the table
 * is flushed (Anvil: digested), also during an open transaction, and compacted (Anvil: combined),
 * and sorted runs are freed. The value of a row is a number and its complement. The table stays
 * open, as in a program that crashes.
 *
 * dtable.managed.ranges: the same, with range deletions. dtable.managed.settings: the same, while
 * the configuration and the flush settings are changed. dtable.managed.threads: one thread commits
 * a change of two rows. The other thread flushes and compacts the table, and must see both changes
 * or none. Each thread opens the table and closes it.
 *
 * dtable.managed.levels: the schedule of levels: flushes absorb the newest run, and compactions
 * leave the newest run alone. dtable.managed.levels.threads: one thread commits a change of two
 * rows, one flushes, and one compacts all runs.
 *
 * dtable.managed.snapshots: the same, with open snapshots. Their rows are compared after each flush
 * and compaction. One of them is never closed. dtable.managed.snapshots.threads: one thread commits
 * a change of two rows, one flushes and compacts, and one opens a snapshot and reads it twice.
 */
#include "sim/subjects/managed_tables.h"
#include "sim/subjects/subjects.h"

#include <lladd/bytes.h>
#include <lladd/dtable_managed.h>
#include <lladd/extension.h>
#include <lladd/sync.h>
#include <string.h>

enum { KEYS = 12 };
#define NAME "rows"

/* One log segment is large enough for the workload. Other subjects test several segments. */
static int configure(void *ctx, struct lladd_options *o, struct lladd_error *err)
{
    (void)ctx;
    o->log_segment_min = o->log_segment_max = 32u << 10;
    return lladd_managed_register(o, err);
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Deletes a range. If `key` is 0, the range has no lower bound; if `to` is KEYS, no upper bound. */
static int del_noted(struct lladd_sim *sim, struct lladd_txn *txn, struct lladd_managed *t,
                     uint32_t key, uint32_t to)
{
    struct ll_sim_managed_note n = {key, 0, to};
    struct lladd_dtable_key from = lladd_dtable_u32(key), end = lladd_dtable_u32(to);
    TRY(lladd_managed_delete_range(txn, t, key ? &from : NULL, to < KEYS ? &end : NULL));
    return lladd_sim_note(sim, txn, &n, sizeof n);
}

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_managed *t;
    struct lladd_txn *txn;
    int rc = 0;
    (void)ctx;
    TRY(ll_sim_managed_make(db, NAME, LLADD_MANAGED_RULER, 0, &t, err));
    TRY(lladd_begin(db, NULL, &txn, err));
    for (uint32_t i = 0; !rc && i < 4; i++)
        rc = ll_sim_managed_put(txn, t, i, i + 1);
    TRY(rc ? ll_sim_give_up(NULL, txn, rc, err) : lladd_commit(txn));
    TRY(lladd_managed_digest(t, err));
    return lladd_managed_close(t, err);
}

/* ---- transactions ---------------------------------------------------------------------------- */

static int changes(struct lladd_sim *sim, struct lladd_txn *txn, struct lladd_managed *t)
{
    lladd_savepoint_id here;
    TRY(ll_sim_managed_put_noted(sim, txn, t, 0, 10));
    TRY(ll_sim_managed_put_noted(sim, txn, t, 1, 0));
    TRY(lladd_sim_savepoint(sim, txn, &here));
    TRY(ll_sim_managed_put_noted(sim, txn, t, 2, 0));
    TRY(ll_sim_managed_put_noted(sim, txn, t, 4, 11));
    TRY(lladd_sim_rollback_to(sim, txn, here));
    TRY(ll_sim_managed_put_noted(sim, txn, t, 5, 12));
    return lladd_sim_commit(sim, txn);
}

/* The transaction never ends. Flushes follow. */
static int stays_open(struct lladd_sim *sim, struct lladd_txn *txn, struct lladd_managed *t)
{
    return ll_sim_managed_put_noted(sim, txn, t, 6, 13);
}

static int deletes(struct lladd_sim *sim, struct lladd_txn *txn, struct lladd_managed *t)
{
    TRY(ll_sim_managed_put_noted(sim, txn, t, 5, 0));
    TRY(ll_sim_managed_put_noted(sim, txn, t, 7, 14));
    return lladd_sim_commit(sim, txn);
}

static int gives_up(struct lladd_sim *sim, struct lladd_txn *txn, struct lladd_managed *t)
{
    TRY(ll_sim_managed_put_noted(sim, txn, t, 7, 0));
    TRY(ll_sim_managed_put_noted(sim, txn, t, 8, 15));
    return lladd_sim_abort(sim, txn);
}

static int comes_last(struct lladd_sim *sim, struct lladd_txn *txn, struct lladd_managed *t)
{
    TRY(ll_sim_managed_put_noted(sim, txn, t, 3, 0));
    return lladd_sim_commit(sim, txn);
}

static int in_txn(struct lladd_sim *sim, struct lladd_managed *t, struct lladd_db *db,
                  int (*what)(struct lladd_sim *, struct lladd_txn *, struct lladd_managed *),
                  struct lladd_error *err)
{
    struct lladd_txn *txn;
    TRY(lladd_sim_begin(sim, db, NULL, &txn, err));
    int rc = what(sim, txn, t);
    return rc ? ll_sim_give_up(sim, txn, rc, err) : 0;
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_managed *t;
    (void)ctx;
    TRY(lladd_managed_open(db, NAME, &t, err));
    TRY(in_txn(sim, t, db, changes, err));
    TRY(in_txn(sim, t, db, stays_open, err));
    TRY(lladd_managed_digest(t, err));
    TRY(lladd_checkpoint(db, err));
    TRY(in_txn(sim, t, db, deletes, err));
    TRY(in_txn(sim, t, db, gives_up, err));
    TRY(lladd_managed_digest(t, err));
    TRY(lladd_managed_combine(t, 0, err));
    TRY(ll_sim_managed_tidy(t, err));
    return in_txn(sim, t, db, comes_last, err);
}

/* ---- ranges ---------------------------------------------------------------------------------- */

static int changes_ranges(struct lladd_sim *sim, struct lladd_txn *txn, struct lladd_managed *t)
{
    lladd_savepoint_id here;
    TRY(ll_sim_managed_put_noted(sim, txn, t, 1, 10));
    TRY(del_noted(sim, txn, t, 1, 3));
    TRY(ll_sim_managed_put_noted(sim, txn, t, 2, 11));
    TRY(lladd_sim_savepoint(sim, txn, &here));
    TRY(del_noted(sim, txn, t, 0, KEYS));
    TRY(ll_sim_managed_put_noted(sim, txn, t, 5, 12));
    TRY(lladd_sim_rollback_to(sim, txn, here));
    return lladd_sim_commit(sim, txn);
}

static int range_stays_open(struct lladd_sim *sim, struct lladd_txn *txn, struct lladd_managed *t)
{
    return del_noted(sim, txn, t, 6, 8);
}

static int deletes_from_the_first(struct lladd_sim *sim, struct lladd_txn *txn,
                                  struct lladd_managed *t)
{
    TRY(del_noted(sim, txn, t, 0, 3));
    TRY(ll_sim_managed_put_noted(sim, txn, t, 0, 13));
    return lladd_sim_commit(sim, txn);
}

static int gives_up_all(struct lladd_sim *sim, struct lladd_txn *txn, struct lladd_managed *t)
{
    TRY(del_noted(sim, txn, t, 0, 6));
    return lladd_sim_abort(sim, txn);
}

static int deletes_to_the_last(struct lladd_sim *sim, struct lladd_txn *txn,
                               struct lladd_managed *t)
{
    TRY(del_noted(sim, txn, t, 8, KEYS)); /* keys 6 and 7 belong to the open transaction */
    TRY(del_noted(sim, txn, t, 3, 6));
    return lladd_sim_commit(sim, txn);
}

static int run_ranges(void *ctx, struct lladd_sim *sim, struct lladd_db *db,
                      struct lladd_error *err)
{
    struct lladd_managed *t;
    (void)ctx;
    TRY(lladd_managed_open(db, NAME, &t, err));
    TRY(in_txn(sim, t, db, changes_ranges, err));
    TRY(in_txn(sim, t, db, range_stays_open, err));
    TRY(lladd_managed_digest(t, err));
    TRY(lladd_checkpoint(db, err));
    TRY(in_txn(sim, t, db, deletes_from_the_first, err));
    TRY(in_txn(sim, t, db, gives_up_all, err));
    TRY(lladd_managed_digest(t, err));
    TRY(lladd_managed_combine(t, 2, err)); /* not the oldest run: range tombstones are kept */
    TRY(lladd_managed_combine(t, 0, err));
    TRY(ll_sim_managed_tidy(t, err));
    return in_txn(sim, t, db, deletes_to_the_last, err);
}

/* ---- settings -------------------------------------------------------------------------------- */

enum { MARK = KEYS - 2, EVERY = 4 };

/* Makes settings number n. Number 0 is the settings of a new table. */
static void settings_of(uint32_t n, struct lladd_managed_options *o)
{
    *o = (struct lladd_managed_options)LLADD_MANAGED_OPTIONS_INIT;
    o->config = n % 2 ? "class(dt) fixed_dtable config [ \"value_size\" int 8 ]" : NULL;
    o->combine_config =
        n ? "class(dt) bloom_dtable config [ \"base\" class(dt) linear_dtable ]" : NULL;
    o->every = EVERY + n;
    o->rows = 100 * n;
}

static int mark(struct lladd_sim *sim, struct lladd_txn *txn, struct lladd_managed *t, uint32_t n)
{
    TRY(ll_sim_managed_put_noted(sim, txn, t, MARK, n));
    return lladd_sim_commit(sim, txn);
}
static int marks_1(struct lladd_sim *sim, struct lladd_txn *txn, struct lladd_managed *t)
{
    return mark(sim, txn, t, 1);
}
static int marks_2(struct lladd_sim *sim, struct lladd_txn *txn, struct lladd_managed *t)
{
    return mark(sim, txn, t, 2);
}
static int marks_3(struct lladd_sim *sim, struct lladd_txn *txn, struct lladd_managed *t)
{
    return mark(sim, txn, t, 3);
}

/* Changes the settings to number n, then writes n to the row MARK. */
static int alters(struct lladd_sim *sim, struct lladd_managed *t, struct lladd_db *db, uint32_t n,
                  struct lladd_error *err)
{
    static int (*const marks[])(struct lladd_sim *, struct lladd_txn *,
                                struct lladd_managed *) = {NULL, marks_1, marks_2, marks_3};
    const unsigned which = LLADD_MANAGED_CONFIG | LLADD_MANAGED_COMBINE_CONFIG |
                           LLADD_MANAGED_EVERY | LLADD_MANAGED_ROWS;
    struct lladd_managed_options o;
    settings_of(n, &o);
    TRY(lladd_managed_alter(t, which, &o, err));
    return in_txn(sim, t, db, marks[n], err);
}

static int run_settings(void *ctx, struct lladd_sim *sim, struct lladd_db *db,
                        struct lladd_error *err)
{
    struct lladd_managed *t;
    (void)ctx;
    TRY(lladd_managed_open(db, NAME, &t, err));
    TRY(in_txn(sim, t, db, changes, err));
    TRY(alters(sim, t, db, 1, err));
    TRY(lladd_managed_digest(t, err));
    TRY(lladd_checkpoint(db, err));
    TRY(alters(sim, t, db, 2, err));
    TRY(in_txn(sim, t, db, deletes, err));
    TRY(lladd_managed_digest(t, err));
    TRY(lladd_managed_combine(t, 0, err));
    TRY(alters(sim, t, db, 3, err));
    TRY(ll_sim_managed_tidy(t, err));
    return in_txn(sim, t, db, comes_last, err);
}

static bool same_text(const char *text, const char *class_name)
{
    return class_name ? text && strstr(text, class_name) : !text;
}

/* All settings must be those of one number n: the number in the row MARK, or the next one. */
static int check_settings_of(struct lladd_txn *txn, struct lladd_managed *t,
                             const struct lladd_managed_options *o)
{
    struct lladd_dtable_key key = lladd_dtable_u32(MARK);
    struct lladd_error *err = lladd_txn_error_out(txn);
    uint32_t n = o->every - EVERY, marked = 0;
    unsigned char bytes[8];
    size_t len;
    int rc = lladd_managed_get(txn, t, &key, bytes, sizeof bytes, &len);
    if (rc && rc != LLADD_NOT_FOUND)
        return rc;
    marked = rc ? 0 : lladd_get32(bytes);
    if (o->rows != 100 * n || !same_text(o->config, n % 2 ? "fixed_dtable" : NULL) ||
        !same_text(o->combine_config, n ? "bloom_dtable" : NULL))
        return lladd_error_set(err, LLADD_BAD_STATE, "only some settings are of number %u", n);
    if (n < marked || n > marked + 1)
        return lladd_error_set(err, LLADD_BAD_STATE, "settings number %u, but the row says %u", n,
                               marked);
    return 0;
}

static int check_settings(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    struct lladd_managed *t;
    struct lladd_txn *txn;
    char *strings;
    (void)ctx;
    TRY(lladd_managed_open(db, NAME, &t, err));
    TRY(lladd_managed_settings(t, &o, &strings, err));
    int rc = lladd_begin(db, NULL, &txn, err);
    if (!rc) {
        rc = check_settings_of(txn, t, &o);
        rc = rc ? ll_sim_give_up(NULL, txn, rc, err) : lladd_commit(txn);
    }
    lladd_mem_free(db, strings);
    TRY(rc);
    return lladd_managed_close(t, err);
}

/* ---- two threads ----------------------------------------------------------------------------- */

static int open_anyhow(struct lladd_db *db, struct lladd_managed **t, struct lladd_error *err)
{
    int rc;
    while ((rc = lladd_managed_open(db, NAME, t, err)) == LLADD_BUSY)
        lladd_yield(); /* the other thread is opening or closing the table */
    return rc;
}

static int two_rows(struct lladd_sim *sim, struct lladd_txn *txn, struct lladd_managed *t)
{
    TRY(ll_sim_managed_put_noted(sim, txn, t, 0, 20));
    TRY(ll_sim_managed_put_noted(sim, txn, t, 1, 0));
    return lladd_sim_commit(sim, txn);
}

static int sees_whole(struct lladd_sim *sim, struct lladd_txn *txn, struct lladd_managed *t)
{
    struct lladd_dtable_key first = lladd_dtable_u32(0), second = lladd_dtable_u32(1);
    unsigned char bytes[8];
    size_t len;
    TRY(lladd_managed_get(txn, t, &first, bytes, sizeof bytes, &len));
    bool later = lladd_get32(bytes) == 20;
    int rc = lladd_managed_get(txn, t, &second, bytes, sizeof bytes, &len);
    if (rc && rc != LLADD_NOT_FOUND)
        return rc;
    if (later != (rc == LLADD_NOT_FOUND))
        return lladd_error_set(lladd_txn_error_out(txn), LLADD_BAD_STATE,
                               "one row of a transaction without the other");
    return lladd_sim_commit(sim, txn);
}

static int maintains(struct lladd_sim *sim, struct lladd_managed *t, struct lladd_db *db,
                     struct lladd_error *err)
{
    TRY(lladd_managed_digest(t, err));
    TRY(in_txn(sim, t, db, sees_whole, err));
    return lladd_managed_combine(t, 0, err);
}

static int run_thread(void *ctx, struct lladd_sim *sim, struct lladd_db *db, unsigned thread,
                      struct lladd_error *err)
{
    struct lladd_managed *t;
    (void)ctx;
    TRY(open_anyhow(db, &t, err));
    TRY(thread ? maintains(sim, t, db, err) : in_txn(sim, t, db, two_rows, err));
    return lladd_managed_close(t, err);
}

/* ---- levels ---------------------------------------------------------------------------------- */

/* With SMALL memory, the only run is C2, and C1 is large enough to be combined; with LARGE memory,
 * neither. */
enum { SMALL = 30, LARGE = 1000, OLDER = 8 };

/* Returns an error if the last flush has absorbed a run. That other flushes do absorb a run, the
 * planted bugs show: the simulator would not find them otherwise. */
static int expect_runs(struct lladd_managed *t, uint64_t least, struct lladd_error *err)
{
    struct lladd_managed_stats s = {.struct_size = sizeof s};
    TRY(lladd_managed_stats_get(t, &s, NULL, 0, err));
    return s.runs >= least ? 0
                           : lladd_error_set(err, LLADD_BAD_STATE, "only %u runs",
                                             (unsigned)s.runs);
}

static int put_all(struct lladd_db *db, struct lladd_managed *t, uint32_t from, uint32_t to,
                   struct lladd_error *err)
{
    struct lladd_txn *txn;
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = 0;
    for (uint32_t i = from; !rc && i < to; i++)
        rc = ll_sim_managed_put(txn, t, i, i + 1);
    TRY(rc ? ll_sim_give_up(NULL, txn, rc, err) : lladd_commit(txn));
    return lladd_managed_digest(t, err);
}

/* The only run has the first OLDER rows. */
static int setup_levels(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_managed *t;
    (void)ctx;
    TRY(ll_sim_managed_make(db, NAME, LLADD_MANAGED_LEVELS, 0, &t, err));
    TRY(put_all(db, t, 0, OLDER, err));
    return lladd_managed_close(t, err);
}

/* C2 has the first OLDER rows, and C1 two more. */
static int setup_two_runs(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_managed *t;
    TRY(setup_levels(ctx, db, err));
    TRY(lladd_managed_open(db, NAME, &t, err));
    TRY(ll_sim_managed_memory(t, SMALL, err));
    TRY(put_all(db, t, OLDER, OLDER + 2, err));
    TRY(expect_runs(t, 2, err));
    TRY(ll_sim_managed_memory(t, LARGE, err));
    return lladd_managed_close(t, err);
}

static void init_levels(void *ctx, void *model)
{
    struct ll_sim_managed_rows *r = model;
    (void)ctx;
    for (uint32_t i = 0; i < OLDER; i++)
        r->number[i] = i + 1;
}

static void init_two_runs(void *ctx, void *model)
{
    struct ll_sim_managed_rows *r = model;
    init_levels(ctx, model);
    for (uint32_t i = OLDER; i < OLDER + 2; i++)
        r->number[i] = i + 1;
}

static int deletes_first_and_last(struct lladd_sim *sim, struct lladd_txn *txn,
                                  struct lladd_managed *t)
{
    TRY(ll_sim_managed_put_noted(sim, txn, t, 0, 0));
    TRY(del_noted(sim, txn, t, 8, KEYS));
    return lladd_sim_commit(sim, txn);
}

static int run_levels(void *ctx, struct lladd_sim *sim, struct lladd_db *db,
                      struct lladd_error *err)
{
    struct lladd_managed *t;
    (void)ctx;
    TRY(lladd_managed_open(db, NAME, &t, err));
    TRY(in_txn(sim, t, db, changes, err));
    TRY(lladd_managed_digest(t, err)); /* absorbs the only run, and drops a tombstone */
    TRY(in_txn(sim, t, db, stays_open, err));
    TRY(ll_sim_managed_memory(t, SMALL, err));
    TRY(in_txn(sim, t, db, deletes, err));
    TRY(lladd_managed_digest(t, err)); /* begins C1 */
    TRY(expect_runs(t, 2, err));
    TRY(lladd_checkpoint(db, err));
    TRY(ll_sim_managed_memory(t, LARGE, err));
    TRY(in_txn(sim, t, db, gives_up, err));
    TRY(in_txn(sim, t, db, deletes_first_and_last, err));
    TRY(lladd_managed_digest(t, err)); /* absorbs C1, and keeps tombstones and a range */
    TRY(ll_sim_managed_memory(t, SMALL, err));
    TRY(in_txn(sim, t, db, two_rows, err));
    TRY(lladd_managed_digest(t, err)); /* begins another C1 */
    TRY(expect_runs(t, 3, err));
    TRY(ll_sim_managed_tidy(t, err)); /* combines the others */
    return in_txn(sim, t, db, comes_last, err);
}

static int combines(struct lladd_managed *t, struct lladd_error *err)
{
    int rc;
    while ((rc = lladd_managed_combine(t, 0, err)) == LLADD_BUSY)
        lladd_yield(); /* a flush absorbs one of the runs */
    return rc;
}

static int flushes(struct lladd_sim *sim, struct lladd_managed *t, struct lladd_db *db,
                   struct lladd_error *err)
{
    TRY(lladd_managed_digest(t, err));
    TRY(in_txn(sim, t, db, sees_whole, err));
    return lladd_managed_digest(t, err);
}

static int run_levels_thread(void *ctx, struct lladd_sim *sim, struct lladd_db *db, unsigned thread,
                             struct lladd_error *err)
{
    struct lladd_managed *t;
    (void)ctx;
    TRY(open_anyhow(db, &t, err));
    TRY(thread == 0   ? in_txn(sim, t, db, two_rows, err)
        : thread == 1 ? flushes(sim, t, db, err)
                      : combines(t, err));
    return lladd_managed_close(t, err);
}

/* ---- open snapshots -------------------------------------------------------------------------- */

static int wrong_rows(struct lladd_error *err)
{
    return lladd_error_set(err, LLADD_BAD_STATE, "an open snapshot has other rows");
}

static int has_by_keys(const struct lladd_dtable *t, const struct ll_sim_managed_rows *want,
                       struct lladd_error *err)
{
    uint32_t number;
    for (uint32_t i = 0; i < KEYS; i++) {
        TRY(ll_sim_dtable_number(t, i, &number, err));
        TRY(number == want->number[i] ? 0 : wrong_rows(err));
    }
    return 0;
}

/* Reads the rows by a cursor, backward. */
static int has_by_cursor(const struct lladd_dtable *t, const struct ll_sim_managed_rows *want,
                         struct lladd_error *err)
{
    struct ll_sim_managed_rows seen = {{0}};
    struct lladd_dtable_cursor *c;
    struct lladd_dtable_key key;
    struct lladd_dtable_value v;
    TRY(lladd_dtable_cursor_open(t, 0, &c, err));
    int rc = lladd_dtable_last(c, err);
    for (; !rc; rc = rc ? rc : lladd_dtable_prev(c, err)) {
        rc = lladd_dtable_row(c, &key, &v, err);
        if (!rc && key.number < KEYS && v.bytes.len == 8)
            seen.number[key.number] = lladd_get32(v.bytes.data);
    }
    lladd_dtable_cursor_close(c);
    if (rc != LLADD_END)
        return rc;
    return memcmp(&seen, want, sizeof seen) == 0 ? 0 : wrong_rows(err);
}

static int has(struct lladd_managed_snapshot *s, struct lladd_managed *t,
               const struct ll_sim_managed_rows *want, struct lladd_error *err)
{
    const struct lladd_dtable *table;
    TRY(lladd_managed_snapshot_table(s, t, &table, err));
    TRY(has_by_keys(table, want, err));
    return has_by_cursor(table, want, err);
}

/* The snapshots, and what they have. */
enum { SNAPSHOTS = 3 };
struct kept {
    struct lladd_managed_snapshot *s[SNAPSHOTS];
};
static const struct ll_sim_managed_rows kept[SNAPSHOTS] = {{{10, 0, 3, 4, 5, 12, 7, 8}},
                                            {{10, 0, 3, 4, 5, 0, 7, 14}},
                                            {{0, 0, 3, 4, 0, 0, 7, 16}}};

static int changes_two(struct lladd_sim *sim, struct lladd_txn *txn, struct lladd_managed *t)
{
    TRY(ll_sim_managed_put_noted(sim, txn, t, 4, 0));
    TRY(ll_sim_managed_put_noted(sim, txn, t, 7, 16));
    return lladd_sim_commit(sim, txn);
}

static int all_have(const struct kept *k, struct lladd_managed *t, struct lladd_error *err)
{
    for (int i = 0; i < SNAPSHOTS; i++)
        if (k->s[i])
            TRY(has(k->s[i], t, &kept[i], err));
    return 0;
}

static int opens(struct kept *k, int i, struct lladd_db *db, struct lladd_managed *t,
                 struct lladd_error *err)
{
    TRY(lladd_managed_snapshot_open(db, &k->s[i], err));
    return all_have(k, t, err);
}

static int flushes_and_has(const struct kept *k, struct lladd_managed *t, struct lladd_error *err)
{
    TRY(lladd_managed_digest(t, err));
    return all_have(k, t, err);
}

/* Opens the snapshots 0 to 2, and closes 0 and 2. */
static int run_kept(struct kept *k, struct lladd_sim *sim, struct lladd_db *db,
                    struct lladd_managed *t, struct lladd_error *err)
{
    TRY(in_txn(sim, t, db, changes, err));
    TRY(opens(k, 0, db, t, err));
    TRY(in_txn(sim, t, db, deletes, err));
    TRY(opens(k, 1, db, t, err));
    TRY(in_txn(sim, t, db, stays_open, err));
    TRY(in_txn(sim, t, db, deletes_first_and_last, err));
    TRY(flushes_and_has(k, t, err)); /* absorbs the only run; builds two runs for the snapshots */
    TRY(lladd_checkpoint(db, err));
    lladd_managed_snapshot_close(k->s[0]);
    k->s[0] = NULL;
    TRY(ll_sim_managed_tidy(t, err)); /* frees one of them */
    TRY(ll_sim_managed_memory(t, SMALL, err));
    TRY(in_txn(sim, t, db, changes_two, err));
    TRY(opens(k, 2, db, t, err));
    TRY(in_txn(sim, t, db, two_rows, err));
    TRY(flushes_and_has(k, t, err)); /* begins C1; builds a run for snapshot 2 */
    TRY(lladd_managed_combine(t, 0, err));
    TRY(all_have(k, t, err));
    lladd_managed_snapshot_close(k->s[2]);
    k->s[2] = NULL;
    TRY(ll_sim_managed_tidy(t, err));
    TRY(in_txn(sim, t, db, comes_last, err));
    return all_have(k, t, err);
}

static int run_snapshots(void *ctx, struct lladd_sim *sim, struct lladd_db *db,
                         struct lladd_error *err)
{
    struct kept k = {{NULL}};
    struct lladd_managed *t;
    (void)ctx;
    TRY(lladd_managed_open(db, NAME, &t, err));
    return run_kept(&k, sim, db, t, err);
}

/* Reads the two rows that another thread changes: both are old, or both are new. */
static int whole(const struct lladd_dtable *t, bool *later, struct lladd_error *err)
{
    uint32_t first, second;
    TRY(ll_sim_dtable_number(t, 0, &first, err));
    TRY(ll_sim_dtable_number(t, 1, &second, err));
    *later = first == 20;
    return *later == (second == 0) ? 0 : wrong_rows(err);
}

static int reads_twice(struct lladd_managed_snapshot *s, struct lladd_managed *t,
                       struct lladd_error *err)
{
    const struct lladd_dtable *table;
    bool before, after;
    TRY(lladd_managed_snapshot_table(s, t, &table, err));
    TRY(whole(table, &before, err));
    lladd_yield();
    TRY(whole(table, &after, err));
    return before == after ? 0 : wrong_rows(err);
}

static int looks(struct lladd_db *db, struct lladd_managed *t, struct lladd_error *err)
{
    struct lladd_managed_snapshot *s;
    TRY(lladd_managed_snapshot_open(db, &s, err));
    int rc = reads_twice(s, t, err);
    lladd_managed_snapshot_close(s);
    return rc;
}

static int run_snapshots_thread(void *ctx, struct lladd_sim *sim, struct lladd_db *db,
                                unsigned thread, struct lladd_error *err)
{
    struct lladd_managed *t;
    (void)ctx;
    TRY(open_anyhow(db, &t, err));
    TRY(thread == 0   ? in_txn(sim, t, db, two_rows, err)
        : thread == 1 ? maintains(sim, t, db, err)
                      : looks(db, t, err));
    return lladd_managed_close(t, err);
}

/* ---------------------------------------------------------------------------------------------- */

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

/* ---- the model ------------------------------------------------------------------------------- */

static void init(void *ctx, void *model)
{
    struct ll_sim_managed_rows *r = model;
    (void)ctx;
    for (uint32_t i = 0; i < 4; i++)
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

#define FOUR_ROWS .setup = setup, .model_init = init
#define ONE_RUN .setup = setup_levels, .model_init = init_levels
#define TWO_RUNS .setup = setup_two_runs, .model_init = init_two_runs

SUBJECT(ll_sim_subject_managed, "dtable.managed",
        "rows of a managed dTable: put, deleted, digested, combined", FOUR_ROWS, .run = run);
SUBJECT(ll_sim_subject_managed_ranges, "dtable.managed.ranges",
        "ranges of a managed dTable: deleted, digested, combined", FOUR_ROWS, .run = run_ranges);
SUBJECT(ll_sim_subject_managed_settings, "dtable.managed.settings",
        "a managed dTable gets other configurations and limits between digests and combines",
        FOUR_ROWS, .run = run_settings, .check = check_settings);
SUBJECT(ll_sim_subject_managed_threads, "dtable.managed.threads",
        "a managed dTable is written by one thread, digested and combined by another",
        FOUR_ROWS, .threads = 2, .run_thread = run_thread);
SUBJECT(ll_sim_subject_managed_levels, "dtable.managed.levels",
        "a managed dTable of three components: digests absorb the newest run, also with tombstones",
        ONE_RUN, .run = run_levels);
SUBJECT(ll_sim_subject_managed_levels_threads, "dtable.managed.levels.threads",
        "a managed dTable of three components is written, digested and combined by three threads",
        TWO_RUNS, .threads = 3, .run_thread = run_levels_thread);
SUBJECT(ll_sim_subject_managed_snapshots, "dtable.managed.snapshots",
        "open snapshots of a managed dTable, through digests and combines", ONE_RUN,
        .run = run_snapshots);
SUBJECT(ll_sim_subject_managed_snapshots_threads, "dtable.managed.snapshots.threads",
        "a managed dTable is written, digested, combined and seen by an open snapshot", FOUR_ROWS,
        .threads = 3, .run_thread = run_snapshots_thread);
