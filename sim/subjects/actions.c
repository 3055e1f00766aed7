/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * actions: changes with logical undo. Nested top actions are closed, left open, rolled back, and
 * nested in another action. Changes with a logical undo are logged in two ways: as updates, or by
 * the lighter mechanism of the LLADD paper (section 2.4), which is an undo-only record followed by
 * redo-only records. The subject has four operations of its own:
 *
 *   sim.transfer  no page; closes an action. Undo bytes: page and offset of the counter that has
 *                 become smaller, page and offset of the counter that has become larger, amount
 *   sim.bump      adds to a counter; its undo subtracts in two steps
 *   sim.put       sets a counter; redo-only
 *   sim.restore   no page; logged before sim.put. Undo bytes: page, offset, old value
 *
 * The counters are on pages of bytes. Several open transactions may add to the same counter, so the
 * undo of an addition must subtract. The undo of sim.put restores the old value, so the workload
 * uses sim.put only on counters that one transaction at a time changes.
 */
#include "sim/subjects/amounts.h"

#include <lladd/bytes.h>
#include <lladd/extension.h>
#include <string.h>

enum { PAGES = 2, COUNTERS = 6, PLACE_BYTES = 10, SHARED = 4 /* counters with lower numbers are
                                                              * used by several transactions */ };

/* ---- places ------------------------------------------------------------------------------ */

static void put_place(unsigned char *out, struct ll_sim_place p)
{
    lladd_put64(out, p.page.v);
    lladd_put16(out + 8, (uint16_t)p.offset);
}

static struct ll_sim_place get_place(const unsigned char *p)
{
    return (struct ll_sim_place){lladd_page_of(lladd_get64(p)), lladd_get16(p + 8)};
}

static bool place_fine(uint32_t offset)
{
    return offset <= 4000; /* lies within a page of any size */
}

/* ---- sim.transfer ------------------------------------------------------------------------ */

enum { TRANSFER_BYTES = 2 * PLACE_BYTES + 8 };

static bool transfer_validate(struct lladd_view page, enum lladd_span_kind kind,
                              struct lladd_span s)
{
    const unsigned char *p = s.data;
    (void)page;
    return kind == LLADD_SPAN_UNDO && s.len == TRANSFER_BYTES && place_fine(lladd_get16(p + 8)) &&
           place_fine(lladd_get16(p + PLACE_BYTES + 8));
}

static int transfer_compensate(void *ctx, struct lladd_txn *txn, struct lladd_span undo)
{
    const unsigned char *p = undo.data;
    struct ll_sim_place from = get_place(p), to = get_place(p + PLACE_BYTES);
    int64_t amount = (int64_t)lladd_get64(p + 2 * PLACE_BYTES);
    (void)ctx;
    TRY(lladd_counter_add(txn, to.page, to.offset, -amount));
    return lladd_counter_add(txn, from.page, from.offset, amount);
}

static const struct lladd_op transfer_op = {
    .struct_size = sizeof transfer_op,
    .name = "sim.transfer",
    .version = 1,
    .record_max = TRANSFER_BYTES,
    .undo_kind = LLADD_UNDO_LOGICAL,
    .validate = transfer_validate,
    .compensate = transfer_compensate,
    .undo_log_max = 512,
    .undo_pages_max = 1,
};

/* ---- sim.bump ---------------------------------------------------------------------------- */

enum { BUMP_BYTES = PLACE_BYTES + 8 };

static int bump_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                        struct lladd_draft *d)
{
    const unsigned char *p = args.data; /* place, delta */
    unsigned char *redo = lladd_draft_redo(d, BUMP_BYTES);
    (void)ctx;
    (void)page;
    memcpy(redo, p, BUMP_BYTES);
    memcpy(lladd_draft_undo(d, BUMP_BYTES), p, BUMP_BYTES);
    return 0;
}

static bool bump_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)page;
    (void)kind;
    return s.len == BUMP_BYTES && place_fine(lladd_get16((const unsigned char *)s.data + 8));
}

static void bump_redo(struct lladd_page *page, struct lladd_span redo)
{
    const unsigned char *p = redo.data;
    unsigned char *at = lladd_page_body(page) + lladd_get16(p + 8);
    lladd_put64(at, lladd_get64(at) + lladd_get64(p + PLACE_BYTES));
}

/* Undoes in two steps. If a crash comes between them, recovery undoes the first step before it
 * calls this function again. */
static int bump_compensate(void *ctx, struct lladd_txn *txn, struct lladd_span undo)
{
    const unsigned char *p = undo.data;
    struct ll_sim_place at = get_place(p);
    int64_t delta = (int64_t)lladd_get64(p + PLACE_BYTES), half = delta / 2;
    (void)ctx;
    TRY(lladd_counter_add(txn, at.page, at.offset, -half));
    return lladd_counter_add(txn, at.page, at.offset, half - delta);
}

static const struct lladd_op bump_op = {
    .struct_size = sizeof bump_op,
    .name = "sim.bump",
    .version = 1,
    .page_type = "lladd.bytes",
    .record_max = 2 * BUMP_BYTES,
    .undo_kind = LLADD_UNDO_LOGICAL,
    .prepare = bump_prepare,
    .validate = bump_validate,
    .redo = bump_redo,
    .compensate = bump_compensate,
    .undo_log_max = 1024,
    .undo_pages_max = 1,
};

/* ---- sim.put, sim.restore ---------------------------------------------------------------- */

static void put_redo(struct lladd_page *page, struct lladd_span redo)
{
    const unsigned char *p = redo.data;
    memcpy(lladd_page_body(page) + lladd_get16(p + 8), p + PLACE_BYTES, 8);
}

static bool put_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    return kind == LLADD_SPAN_REDO && bump_validate(page, kind, s);
}

static const struct lladd_op put_op = {
    .struct_size = sizeof put_op,
    .name = "sim.put",
    .version = 1,
    .page_type = "lladd.bytes",
    .record_max = BUMP_BYTES,
    .undo_kind = LLADD_UNDO_NONE,
    .validate = put_validate,
    .redo = put_redo,
};

static bool restore_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    return kind == LLADD_SPAN_UNDO && bump_validate(page, kind, s);
}

/* Idempotent, as OP-5 requires of the undo of an undo-only record. */
static int restore_compensate(void *ctx, struct lladd_txn *txn, struct lladd_span undo)
{
    lladd_op_id put;
    (void)ctx;
    TRY(lladd_op_lookup(lladd_txn_db(txn), put_op.name, 1, &put));
    return lladd_update(txn, put, get_place(undo.data).page, undo.data, undo.len);
}

static const struct lladd_op restore_op = {
    .struct_size = sizeof restore_op,
    .name = "sim.restore",
    .version = 1,
    .record_max = BUMP_BYTES,
    .undo_kind = LLADD_UNDO_LOGICAL,
    .validate = restore_validate,
    .compensate = restore_compensate,
    .undo_log_max = 512,
    .undo_pages_max = 1,
};

static int configure(void *ctx, struct lladd_options *o, struct lladd_error *err)
{
    static const struct lladd_op *const ops[] = {&transfer_op, &bump_op, &put_op, &restore_op};
    (void)ctx;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        TRY(lladd_register_op(o, ops[i], err));
    return 0;
}

/* ---- the workload ------------------------------------------------------------------------ */

static struct ll_sim_place place_of(lladd_pageno first, uint32_t counter)
{
    return (struct ll_sim_place){lladd_page_of(first.v + counter % PAGES), counter / PAGES * 640};
}

static int add(struct ll_sim_work *w, struct lladd_txn *txn, uint32_t counter, int64_t delta)
{
    struct ll_sim_place p = place_of(w->first, counter);
    return lladd_counter_add(txn, p.page, p.offset, delta);
}

static int op_id(struct lladd_txn *txn, const struct lladd_op *op, lladd_op_id *id)
{
    return lladd_op_lookup(lladd_txn_db(txn), op->name, op->version, id);
}

/* Closes the action of a transfer. The logical undo of the action is a transfer in the other
 * direction. */
static int close_action(struct ll_sim_work *w, struct lladd_txn *txn, struct lladd_action *action,
                        uint32_t from, uint32_t to, int64_t amount)
{
    unsigned char undo[TRANSFER_BYTES];
    lladd_op_id id;
    TRY(op_id(txn, &transfer_op, &id));
    put_place(undo, place_of(w->first, from));
    put_place(undo + PLACE_BYTES, place_of(w->first, to));
    lladd_put64(undo + 2 * PLACE_BYTES, (uint64_t)amount);
    return lladd_nta_end(txn, action, id, undo, sizeof undo);
}

/* Makes both additions of a transfer in one action. */
static int transfer(struct ll_sim_work *w, struct lladd_txn *txn, uint32_t from, uint32_t to,
                    int64_t amount)
{
    struct lladd_action action;
    TRY(lladd_nta_begin(txn, &action));
    TRY(add(w, txn, from, -amount));
    TRY(add(w, txn, to, amount));
    return close_action(w, txn, &action, from, to, amount);
}

static int noted_transfer(struct ll_sim_work *w, struct lladd_txn *txn, uint32_t from, uint32_t to,
                          int64_t amount)
{
    TRY(transfer(w, txn, from, to, amount));
    TRY(ll_sim_amount_note(w, txn, from, -amount));
    return ll_sim_amount_note(w, txn, to, amount);
}

/* Transfers an amount by way of a third counter, in an action that contains two actions. */
static int detour(struct ll_sim_work *w, struct lladd_txn *txn, uint32_t from, uint32_t to,
                  int64_t amount)
{
    struct lladd_action action;
    uint32_t between = 6 - from - to; /* the third of the numbers 1, 2 and 3 */
    TRY(lladd_nta_begin(txn, &action));
    TRY(transfer(w, txn, from, between, amount));
    TRY(transfer(w, txn, between, to, amount));
    TRY(close_action(w, txn, &action, from, to, amount));
    TRY(ll_sim_amount_note(w, txn, from, -amount));
    return ll_sim_amount_note(w, txn, to, amount);
}

static int bump(struct ll_sim_work *w, struct lladd_txn *txn, uint32_t counter, int64_t delta)
{
    unsigned char bytes[BUMP_BYTES];
    struct ll_sim_place p = place_of(w->first, counter);
    lladd_op_id id;
    put_place(bytes, p);
    lladd_put64(bytes + PLACE_BYTES, (uint64_t)delta);
    TRY(op_id(txn, &bump_op, &id));
    TRY(lladd_update(txn, id, p.page, bytes, sizeof bytes));
    return ll_sim_amount_note(w, txn, counter, delta);
}

/* Logs the undo first, then makes the change. */
static int replace(struct ll_sim_work *w, struct lladd_txn *txn, uint32_t counter, int64_t value)
{
    unsigned char bytes[BUMP_BYTES];
    struct ll_sim_place p = place_of(w->first, counter);
    lladd_op_id id;
    int64_t old;
    TRY(lladd_counter_get(w->db, p.page, p.offset, &old, lladd_txn_error_out(txn)));
    put_place(bytes, p);
    lladd_put64(bytes + PLACE_BYTES, (uint64_t)old);
    TRY(op_id(txn, &restore_op, &id));
    TRY(lladd_log_undo_only(txn, id, bytes, sizeof bytes));
    lladd_put64(bytes + PLACE_BYTES, (uint64_t)value);
    TRY(op_id(txn, &put_op, &id));
    TRY(lladd_log_redo_only(txn, id, p.page, bytes, sizeof bytes));
    return ll_sim_amount_note(w, txn, counter, value - old);
}

static int commits(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(noted_transfer(w, txn, 0, 1, 10));
    TRY(bump(w, txn, 2, 7));
    TRY(replace(w, txn, SHARED, 1000));
    return lladd_sim_commit(w->sim, txn);
}

/* Leaves an action open that contains a closed action. */
static int stays_open(struct ll_sim_work *w, struct lladd_txn *txn)
{
    struct lladd_action action;
    TRY(noted_transfer(w, txn, 0, 2, 33));
    TRY(replace(w, txn, SHARED + 1, 77));
    TRY(bump(w, txn, 1, 5));
    TRY(lladd_nta_begin(txn, &action));
    TRY(add(w, txn, 3, 100));
    return transfer(w, txn, 1, 0, 50);
}

static int gives_up_in_part(struct ll_sim_work *w, struct lladd_txn *txn)
{
    lladd_savepoint_id here;
    struct lladd_action action;
    TRY(detour(w, txn, 1, 3, 4));
    TRY(lladd_nta_begin(txn, &action));
    TRY(add(w, txn, 0, 900));
    TRY(lladd_nta_abort(txn, &action));
    TRY(lladd_sim_savepoint(w->sim, txn, &here));
    TRY(noted_transfer(w, txn, 2, 0, 60));
    TRY(bump(w, txn, 3, 8));
    TRY(lladd_sim_rollback_to(w->sim, txn, here));
    return lladd_sim_commit(w->sim, txn);
}

static int rolls_back(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(detour(w, txn, 3, 2, 500));
    TRY(bump(w, txn, 0, 9));
    TRY(replace(w, txn, SHARED, 2000));
    return lladd_sim_abort(w->sim, txn);
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.sim = sim, .db = db, .err = err};
    (void)ctx;
    TRY(ll_sim_pages_find(db, &w.first, err));
    TRY(ll_sim_in_txn(&w, commits));
    TRY(ll_sim_in_txn(&w, stays_open));
    TRY(ll_sim_in_txn(&w, gives_up_in_part));
    TRY(lladd_checkpoint(db, err));
    return ll_sim_in_txn(&w, rolls_back);
}

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    lladd_pageno first;
    (void)ctx;
    return ll_sim_pages_make(db, PAGES, &first, err);
}

/* ---- dump and check ---------------------------------------------------------------------- */

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink, struct lladd_error *err)
{
    (void)ctx;
    return ll_sim_amounts_read(db, COUNTERS, place_of, sink, err);
}

static const char *const operations[] = {"sim.transfer", "sim.bump",          "sim.put",
                                         "sim.restore",  "lladd.counter.add", NULL};
static const struct lladd_sim_excuse excuses[] = {
    {"sim.put", 1u << LLADD_SIM_UNDO | 1u << LLADD_SIM_UNDO_PARTIAL,
     "it is redo-only: sim.restore undoes it"},
    {NULL, 0, NULL}};

const struct lladd_sim_subject ll_sim_subject_actions = {
    .struct_size = sizeof ll_sim_subject_actions,
    .name = "actions",
    .about = "nested top actions, logical undo, undo-only and redo-only records",
    .configure = configure,
    .setup = setup,
    .run = run,
    .dump = dump,
    LL_SIM_AMOUNTS_MODEL,
    .pages = ll_sim_pages_each,
    .operations = operations,
    .excuses = excuses,
};
