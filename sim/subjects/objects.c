/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * objects: an object class, with accounts that are in memory only and still recoverable. An
 * addition is one object record. To bound recovery, each checkpoint writes the accounts to one
 * page, together with an LSN. The accounts on the page include all additions below this LSN. The
 * update of the page is never undone, so it is valid even if its transaction does not commit.
 *
 * The undo of an addition is not idempotent, so a compensation that is lost or repeated shows in an
 * account.
 */
#include "sim/subjects/subjects.h"

#include <lladd/bytes.h>
#include <lladd/extension.h>
#include <string.h>

enum { ACCOUNTS = 3, SAVED = 8 + 8 * ACCOUNTS };

#define TRY(call) \
    do { \
        int try_rc = (call); \
        if (try_rc) \
            return try_rc; \
    } while (0)

static const struct lladd_extension ledger_extension;

/* The state of a handle. */
struct ledger {
    int64_t account[ACCOUNTS];
    lladd_lsn saved; /* the page includes all additions below this LSN */
    bool loaded;
    int failed; /* why the page cannot be loaded */
};

static struct ledger *ledger_of(struct lladd_db *db)
{
    return lladd_extension_state(db, &ledger_extension);
}

/* ---- the page ---------------------------------------------------------------------------- */

static bool save_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)page;
    return kind == LLADD_SPAN_REDO && s.len == SAVED;
}

static void save_redo(struct lladd_page *page, struct lladd_span s)
{
    memcpy(lladd_page_body(page), s.data, SAVED);
}

static const struct lladd_field save_fields[] = {{"below", LLADD_FIELD_LSN},
                                                 {"account0", LLADD_FIELD_I64},
                                                 {"account1", LLADD_FIELD_I64},
                                                 {"account2", LLADD_FIELD_I64},
                                                 {NULL, LLADD_FIELD_END}};

static const struct lladd_op save_op = {
    .struct_size = sizeof save_op,
    .name = "sim.ledger.save",
    .version = 1,
    .page_type = "lladd.bytes",
    .redo_fields = save_fields,
    .record_max = SAVED,
    .undo_kind = LLADD_UNDO_NONE,
    .validate = save_validate,
    .redo = save_redo,
};

static int load(struct lladd_db *db, struct ledger *l)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_page *page;
    lladd_pageno at;
    int rc = ll_sim_pages_find(db, &at, &err);
    if (rc == LLADD_NOT_FOUND)
        return 0; /* setup has not made the page yet */
    if (!rc)
        rc = lladd_page_fix(db, at, LLADD_LATCH_SHARED, &page, &err);
    if (rc)
        return rc;
    const unsigned char *body = lladd_view_body(lladd_page_view(page));
    l->saved = lladd_lsn_of(lladd_get64(body));
    for (unsigned i = 0; i < ACCOUNTS; i++)
        l->account[i] = (int64_t)lladd_get64(body + 8 + 8 * (size_t)i);
    lladd_page_unfix(db, page, LLADD_LATCH_SHARED);
    return 0;
}

static int save(struct lladd_db *db, struct ledger *l, lladd_pageno page)
{
    unsigned char bytes[SAVED];
    struct lladd_txn *txn;
    lladd_op_id op = LLADD_NO_OP;
    lladd_lsn below = lladd_object_applied_lsn(db);
    lladd_put64(bytes, below.v);
    for (unsigned i = 0; i < ACCOUNTS; i++)
        lladd_put64(bytes + 8 + 8 * (size_t)i, (uint64_t)l->account[i]);
    TRY(lladd_op_lookup(db, save_op.name, save_op.version, &op));
    TRY(lladd_begin(db, NULL, &txn, NULL));
    int rc = lladd_update(txn, op, page, bytes, SAVED);
    if (rc) {
        int aborted = lladd_abort(txn);
        return aborted ? aborted : rc;
    }
    l->saved = below; /* a record that relies on this LSN follows the update in the log */
    return lladd_commit(txn);
}

/* ---- the class --------------------------------------------------------------------------- */

static lladd_lsn durable_lsn(void *ctx, struct lladd_db *db)
{
    struct ledger *l = ledger_of(db);
    (void)ctx;
    if (!l->loaded)
        l->failed = load(db, l);
    l->loaded = true;
    return l->saved;
}

static int add(struct lladd_db *db, uint64_t account, struct lladd_span amount, bool back)
{
    struct ledger *l = ledger_of(db);
    if (account >= ACCOUNTS || amount.len != 8)
        return LLADD_BAD_RECORD;
    int64_t n = (int64_t)lladd_get64(amount.data);
    l->account[account] += back ? -n : n;
    return l->failed;
}

static int redo(void *ctx, struct lladd_db *db, lladd_lsn lsn, uint64_t account,
                struct lladd_span amount)
{
    (void)ctx;
    (void)lsn;
    return add(db, account, amount, false);
}

static int undo(void *ctx, struct lladd_db *db, struct lladd_txn *txn, lladd_lsn compensation,
                uint64_t account, struct lladd_span amount)
{
    (void)ctx;
    (void)txn;
    (void)compensation;
    return add(db, account, amount, true);
}

static int checkpoint(void *ctx, struct lladd_db *db)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    lladd_pageno page;
    (void)ctx;
    int rc = ll_sim_pages_find(db, &page, &err);
    return rc == LLADD_NOT_FOUND ? 0 : rc ? rc : save(db, ledger_of(db), page);
}

static const struct lladd_object_class ledger_class = {
    .struct_size = sizeof ledger_class,
    .name = "sim.ledger",
    .version = 1,
    .durable_lsn = durable_lsn,
    .redo = redo,
    .undo = undo,
    .checkpoint = checkpoint,
};

/* ---- its state --------------------------------------------------------------------------- */

static int attach(void *ctx, struct lladd_db *db, void **state, struct lladd_error *err)
{
    (void)ctx;
    struct ledger *l = lladd_mem_alloc(db, sizeof *l);
    if (!l)
        return lladd_error_set(err, LLADD_NO_MEMORY, "no memory for a ledger");
    memset(l, 0, sizeof *l);
    *state = l;
    return 0;
}

static int recovered(void *ctx, struct lladd_db *db, void *state, struct lladd_error *err)
{
    const struct ledger *l = state;
    (void)ctx;
    (void)db;
    return l->failed ? lladd_error_set(err, l->failed, "the ledger cannot be read") : 0;
}

static void detach(void *ctx, struct lladd_db *db, void *state)
{
    (void)ctx;
    lladd_mem_free(db, state);
}

static const struct lladd_op *const ops[] = {&save_op, NULL};
static const struct lladd_object_class *const classes[] = {&ledger_class, NULL};
static const struct lladd_extension ledger_extension = {
    .struct_size = sizeof ledger_extension,
    .name = "sim.ledger",
    .version = 1,
    .ops = ops,
    .classes = classes,
    .attach = attach,
    .recovered = recovered,
    .detach = detach,
};

static int configure(void *ctx, struct lladd_options *o, struct lladd_error *err)
{
    (void)ctx;
    return lladd_register_extension(o, &ledger_extension, err);
}

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    lladd_pageno page;
    (void)ctx;
    return ll_sim_pages_make(db, 1, &page, err);
}

/* ---- the workload ------------------------------------------------------------------------ */

/* A step of a transaction. */
struct step {
    uint64_t account;
    int64_t amount;
};

static int post_unnoted(struct lladd_txn *txn, uint64_t account, int64_t amount)
{
    unsigned char bytes[8];
    struct lladd_token token;
    struct lladd_db *db = lladd_txn_db(txn);
    lladd_put64(bytes, (uint64_t)amount);
    struct lladd_span s = lladd_span_of(bytes, sizeof bytes);
    TRY(lladd_log_object(txn, &ledger_class, account, s, s, &token, NULL));
    TRY(add(db, account, s, false));
    lladd_object_applied(txn, &token);
    return 0;
}

static int post(struct lladd_sim *sim, struct lladd_txn *txn, uint64_t account, int64_t amount)
{
    struct step s = {account, amount};
    TRY(post_unnoted(txn, account, amount));
    return lladd_sim_note(sim, txn, &s, sizeof s);
}

static int commits(struct lladd_sim *sim, struct lladd_txn *txn)
{
    TRY(post(sim, txn, 0, 5));
    TRY(post(sim, txn, 1, -7));
    return lladd_sim_commit(sim, txn);
}

static int rolls_back_in_part(struct lladd_sim *sim, struct lladd_txn *txn)
{
    lladd_savepoint_id here;
    TRY(post(sim, txn, 2, 100));
    TRY(lladd_sim_savepoint(sim, txn, &here));
    TRY(post(sim, txn, 0, 40));
    TRY(post(sim, txn, 0, 2));
    TRY(lladd_sim_rollback_to(sim, txn, here));
    TRY(post(sim, txn, 1, 3));
    return lladd_sim_commit(sim, txn);
}

static int rolls_back(struct lladd_sim *sim, struct lladd_txn *txn)
{
    TRY(post(sim, txn, 0, 1000));
    TRY(post(sim, txn, 2, -1000));
    return lladd_sim_abort(sim, txn);
}

/* A checkpoint saves the changes of this open transaction. After a crash they must be undone. */
static int stays_open(struct lladd_sim *sim, struct lladd_txn *txn)
{
    TRY(post(sim, txn, 1, 77));
    return post(sim, txn, 2, 78);
}

static int in_txn(struct lladd_sim *sim, struct lladd_db *db,
                  int (*what)(struct lladd_sim *, struct lladd_txn *), struct lladd_error *err)
{
    struct lladd_txn *txn;
    TRY(lladd_sim_begin(sim, db, NULL, &txn, err));
    int rc = what(sim, txn);
    return rc ? ll_sim_give_up(sim, txn, rc, err) : 0;
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    (void)ctx;
    TRY(in_txn(sim, db, commits, err));
    TRY(in_txn(sim, db, stays_open, err));
    TRY(lladd_checkpoint(db, err));
    TRY(in_txn(sim, db, rolls_back_in_part, err));
    TRY(in_txn(sim, db, rolls_back, err));
    TRY(lladd_checkpoint(db, err));
    return in_txn(sim, db, commits, err);
}

static int go_on(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_txn *txn;
    (void)ctx;
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = post_unnoted(txn, 0, 1);
    return rc ? ll_sim_give_up(NULL, txn, rc, err) : lladd_commit(txn);
}

/* ---- the model --------------------------------------------------------------------------- */

static void apply(void *ctx, void *model, struct lladd_span note)
{
    int64_t *account = model;
    struct step s;
    (void)ctx;
    memcpy(&s, note.data, sizeof s);
    account[s.account] += s.amount;
}

static int model_dump(void *ctx, const void *model, struct lladd_sink *sink)
{
    const int64_t *account = model;
    (void)ctx;
    for (unsigned i = 0; i < ACCOUNTS; i++)
        TRY(lladd_sink_printf(sink, "%lld ", (long long)account[i]));
    return 0;
}

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink, struct lladd_error *err)
{
    (void)err;
    return model_dump(ctx, ledger_of(db)->account, sink);
}

static void describe(void *ctx, struct lladd_span note, struct lladd_sink *sink)
{
    struct step s;
    (void)ctx;
    memcpy(&s, note.data, sizeof s);
    (void)lladd_sink_printf(sink, "adds %lld to account %llu", (long long)s.amount,
                            (unsigned long long)s.account);
}

static int pages(void *ctx, struct lladd_db *db, int (*fn)(void *, lladd_pageno), void *arg,
                 struct lladd_error *err)
{
    lladd_pageno page;
    (void)ctx;
    TRY(ll_sim_pages_find(db, &page, err));
    return fn(arg, page);
}

static const char *const operations[] = {"sim.ledger", "sim.ledger.save", NULL};
static const struct lladd_sim_excuse excuses[] = {
    {"sim.ledger.save",
     1u << LLADD_SIM_UNDO | 1u << LLADD_SIM_UNDO_PARTIAL | 1u << LLADD_SIM_REDO_CLR,
     "a saved state is never undone"},
    {NULL, 0, NULL}};

const struct lladd_sim_subject ll_sim_subject_objects = {
    .struct_size = sizeof ll_sim_subject_objects,
    .name = "objects",
    .about = "an object class: accounts in memory, saved by checkpoints",
    .configure = configure,
    .setup = setup,
    .run = run,
    .dump = dump,
    .model_size = ACCOUNTS * sizeof(int64_t),
    .model_apply = apply,
    .model_dump = model_dump,
    .describe = describe,
    .go_on = go_on,
    .pages = pages,
    .operations = operations,
    .excuses = excuses,
    .repeats = true,
};
