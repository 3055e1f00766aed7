/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * losers: databases that open before all losers are rolled back. Until a loser is rolled back, the
 * rows that it has changed stay locked, and the space that it has freed stays reserved. New
 * transactions give up if they find a lock, or work on other rows. Then there is another crash.
 *
 * The lock {1, row} protects a row on a page of bytes. The lock {2, slot} protects a record on a
 * full page. The last row has no lock, so a loser that has changed it is rolled back before open
 * returns.
 */
#include "sim/subjects/subjects.h"

#include <lladd/extension.h>
#include <lladd/lock.h>
#include <string.h>

enum { ROWS = 6, OPEN_TO_ALL = ROWS - 1, ROW_AT = 16, ROW_BYTES = 600 };
enum { RECORDS = 3, RECORD_BYTES = 1200 };
enum { ROW = 1, RECORD = 2 }; /* tables */

#define ROOT "sim.records"

struct contents {
    int64_t row[ROWS];
    int64_t record[RECORDS];
};

struct step {
    uint32_t table, index;
    int64_t value;
};

static int lock(struct lladd_txn *txn, uint64_t table, uint64_t index, enum lladd_lock_mode mode)
{
    return lladd_lock_acquire(txn, LLADD_LOCK_NAME(lladd_lock_id(table), lladd_lock_id(index)),
                              mode, LLADD_LOCK_TRY);
}

/* Locks the names again that the workload had locked for this change. */
static int protect(void *ctx, struct lladd_txn *txn, const struct lladd_log_entry *e)
{
    uint32_t at, len;
    (void)ctx;
    if (lladd_logged_slot(e, &at))
        return lock(txn, RECORD, at, LLADD_LOCK_X);
    if (!lladd_logged_bytes(e, &at, &len) || at / ROW_BYTES >= OPEN_TO_ALL)
        return LLADD_NOT_FOUND;
    return lock(txn, ROW, at / ROW_BYTES, LLADD_LOCK_X);
}

static const struct lladd_participant protector = {
    .struct_size = sizeof protector,
    .name = "sim.losers",
    .version = 1,
    .protect = protect,
};

static int configure(void *ctx, struct lladd_options *o, struct lladd_error *err)
{
    (void)ctx;
    o->recovery = LLADD_RECOVER_INSTANT;
    TRY(lladd_lock_register(o, err));
    return lladd_register_participant(o, &protector, err);
}

/* ---- setup ------------------------------------------------------------------------------- */

static struct lladd_rid record_at(lladd_pageno page, uint32_t slot)
{
    return (struct lladd_rid){page, slot, RECORD_BYTES};
}

static void fill(unsigned char bytes[RECORD_BYTES], int64_t value)
{
    memset(bytes, (int)value, RECORD_BYTES);
}

static int make_records(struct lladd_txn *txn)
{
    unsigned char bytes[RECORD_BYTES];
    struct lladd_rid rid;
    lladd_pageno page;
    TRY(lladd_page_alloc(txn, &page));
    TRY(lladd_slotted_format(txn, page, 0));
    for (uint32_t i = 0; i < RECORDS; i++) {
        fill(bytes, i + 1);
        TRY(lladd_slotted_alloc(txn, page, bytes, sizeof bytes, 0, &rid));
    }
    return lladd_root_set(txn, ROOT, (struct lladd_root_value){page.v, 0});
}

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_txn *txn;
    lladd_pageno first;
    (void)ctx;
    TRY(ll_sim_pages_make(db, 1, &first, err));
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = make_records(txn);
    return rc ? ll_sim_give_up(NULL, txn, rc, err) : lladd_commit(txn);
}

/* ---- the workload ------------------------------------------------------------------------ */

static int note(struct ll_sim_work *w, struct lladd_txn *txn, uint32_t table, uint32_t index,
                int64_t value)
{
    struct step s;
    memset(&s, 0, sizeof s);
    s.table = table;
    s.index = index;
    s.value = value;
    return lladd_sim_note(w->sim, txn, &s, sizeof s);
}

static int set_row(struct ll_sim_work *w, struct lladd_txn *txn, uint32_t row, int64_t value)
{
    if (row != OPEN_TO_ALL)
        TRY(lock(txn, ROW, row, LLADD_LOCK_X));
    TRY(lladd_bytes_set(txn, w->first, ROW_AT + row * ROW_BYTES, &value, sizeof value));
    return note(w, txn, ROW, row, value);
}

/* A value of 0 deletes the record. */
static int set_record(struct ll_sim_work *w, struct lladd_txn *txn, uint32_t slot, int64_t value)
{
    unsigned char bytes[RECORD_BYTES];
    lladd_pageno page;
    TRY(ll_sim_root_page(w->db, ROOT, &page, lladd_txn_error_out(txn)));
    TRY(lock(txn, RECORD, slot, LLADD_LOCK_X));
    fill(bytes, value);
    TRY(value ? lladd_slotted_set(txn, record_at(page, slot), bytes, sizeof bytes, 0)
              : lladd_slotted_free(txn, record_at(page, slot)));
    return note(w, txn, RECORD, slot, value);
}

static int begins(struct ll_sim_work *w, struct lladd_txn *txn)
{
    for (uint32_t row = 0; row < ROWS; row++)
        TRY(set_row(w, txn, row, 10 + row));
    return lladd_sim_commit(w->sim, txn);
}

static int stays_open(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(set_row(w, txn, 1, 1000));
    TRY(set_record(w, txn, 1, 0));
    TRY(set_record(w, txn, 0, 77));
    TRY(set_row(w, txn, 2, 2000));
    return set_row(w, txn, 1, 3000);
}

static int stays_open_unprotected(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(set_row(w, txn, 3, 4000));
    return set_row(w, txn, OPEN_TO_ALL, 5000);
}

static int ends(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(set_row(w, txn, 4, 44));
    TRY(set_record(w, txn, 2, 9));
    return lladd_sim_commit(w->sim, txn);
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.sim = sim, .db = db, .err = err};
    (void)ctx;
    TRY(ll_sim_pages_find(db, &w.first, err));
    TRY(ll_sim_in_txn(&w, begins));
    TRY(lladd_checkpoint(db, err));
    TRY(ll_sim_in_txn(&w, stays_open));
    TRY(ll_sim_in_txn(&w, stays_open_unprotected));
    return ll_sim_in_txn(&w, ends);
}

/* ---- while losers have pending undo ------------------------------------------------------- */

/* Changes a row and changes it back. */
static int touch_row(struct lladd_db *db, struct lladd_txn *txn, uint32_t row)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    lladd_pageno first;
    int64_t value, other;
    TRY(lock(txn, ROW, row, LLADD_LOCK_X));
    TRY(ll_sim_pages_find(db, &first, err));
    TRY(lladd_bytes_get(db, first, ROW_AT + row * ROW_BYTES, &value, sizeof value, err));
    other = value + 100000;
    TRY(lladd_bytes_set(txn, first, ROW_AT + row * ROW_BYTES, &other, sizeof other));
    return lladd_bytes_set(txn, first, ROW_AT + row * ROW_BYTES, &value, sizeof value);
}

/* The page has room for another record only where a loser has deleted one. */
static int touch_records(struct lladd_db *db, struct lladd_txn *txn)
{
    unsigned char bytes[RECORD_BYTES];
    struct lladd_rid rid;
    lladd_pageno page;
    fill(bytes, 123);
    TRY(ll_sim_root_page(db, ROOT, &page, lladd_txn_error_out(txn)));
    TRY(lladd_slotted_alloc(txn, page, bytes, sizeof bytes, 0, &rid));
    return lladd_slotted_free(txn, rid);
}

static int meanwhile(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    (void)ctx;
    for (uint32_t i = 0; i <= OPEN_TO_ALL; i++) {
        struct lladd_txn *txn;
        TRY(lladd_begin(db, NULL, &txn, err));
        int rc = i < OPEN_TO_ALL ? touch_row(db, txn, i) : touch_records(db, txn);
        if (rc == LLADD_BUSY || rc == LLADD_PAGE_FULL) {
            TRY(lladd_abort(txn));
            continue;
        }
        if (rc)
            return ll_sim_give_up(NULL, txn, rc, err);
        TRY(lladd_commit(txn));
    }
    return 0;
}

/* ---- the model --------------------------------------------------------------------------- */

static void init(void *ctx, void *model)
{
    struct contents *c = model;
    (void)ctx;
    for (uint32_t i = 0; i < RECORDS; i++)
        c->record[i] = i + 1;
}

static void apply(void *ctx, void *model, struct lladd_span bytes)
{
    struct contents *c = model;
    struct step s;
    (void)ctx;
    memcpy(&s, bytes.data, sizeof s);
    if (s.table == ROW)
        c->row[s.index] = s.value;
    else
        c->record[s.index] = s.value;
}

static int write_down(const struct contents *c, struct lladd_sink *sink)
{
    for (uint32_t i = 0; i < ROWS; i++)
        TRY(lladd_sink_printf(sink, "%lld ", (long long)c->row[i]));
    for (uint32_t i = 0; i < RECORDS; i++)
        TRY(lladd_sink_printf(sink, "r%lld ", (long long)c->record[i]));
    return 0;
}

static int model_dump(void *ctx, const void *model, struct lladd_sink *sink)
{
    (void)ctx;
    return write_down(model, sink);
}

/* If a loser has locked the name, takes steps of its rollback until the lock is free. */
static int lock_to_read(struct lladd_db *db, struct lladd_txn *txn, uint32_t table, uint32_t index)
{
    for (;;) {
        bool more;
        int rc = lock(txn, table, index, LLADD_LOCK_S);
        if (rc != LLADD_BUSY || lladd_losers_left(db) == 0)
            return rc;
        TRY(lladd_maintain(db, &more, lladd_txn_error_out(txn)));
    }
}

static int read_all(struct lladd_db *db, struct lladd_txn *txn, struct contents *c)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    lladd_pageno first, page;
    TRY(ll_sim_pages_find(db, &first, err));
    TRY(ll_sim_root_page(db, ROOT, &page, err));
    for (uint32_t i = 0; i < ROWS; i++) {
        TRY(i == OPEN_TO_ALL ? 0 : lock_to_read(db, txn, ROW, i));
        TRY(lladd_bytes_get(db, first, ROW_AT + i * ROW_BYTES, &c->row[i], sizeof c->row[i], err));
    }
    for (uint32_t i = 0; i < RECORDS; i++) {
        unsigned char value = 0;
        size_t len = 0;
        TRY(lock_to_read(db, txn, RECORD, i));
        int rc = lladd_slotted_read(db, record_at(page, i), &value, 1, &len, NULL, err);
        c->record[i] = rc ? 0 : value;
        if (rc && rc != LLADD_OUT_OF_RANGE)
            return rc;
    }
    return 0;
}

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink, struct lladd_error *err)
{
    struct lladd_txn_options o = LLADD_TXN_OPTIONS_INIT;
    struct lladd_txn *txn;
    struct contents c;
    (void)ctx;
    memset(&c, 0, sizeof c);
    o.read_only = true;
    TRY(lladd_begin(db, &o, &txn, err));
    int rc = read_all(db, txn, &c);
    if (rc)
        return ll_sim_give_up(NULL, txn, rc, err);
    TRY(lladd_abort(txn));
    return write_down(&c, sink);
}

static int pages(void *ctx, struct lladd_db *db, int (*fn)(void *, lladd_pageno), void *arg,
                 struct lladd_error *err)
{
    lladd_pageno page;
    TRY(ll_sim_pages_each(ctx, db, fn, arg, err));
    TRY(ll_sim_root_page(db, ROOT, &page, err));
    return fn(arg, page);
}

static void describe(void *ctx, struct lladd_span bytes, struct lladd_sink *sink)
{
    struct step s;
    (void)ctx;
    memcpy(&s, bytes.data, sizeof s);
    (void)lladd_sink_printf(sink, "sets %s %u to %lld", s.table == ROW ? "row" : "record", s.index,
                            (long long)s.value);
}

static const char *const operations[] = {"lladd.set", "lladd.slotted.free", NULL};

const struct lladd_sim_subject ll_sim_subject_losers = {
    .struct_size = sizeof ll_sim_subject_losers,
    .name = "losers",
    .about = "databases that open before all losers are rolled back",
    .configure = configure,
    .setup = setup,
    .run = run,
    .dump = dump,
    .model_size = sizeof(struct contents),
    .model_init = init,
    .model_apply = apply,
    .model_dump = model_dump,
    .describe = describe,
    .pages = pages,
    .operations = operations,
    .meanwhile = meanwhile,
};
