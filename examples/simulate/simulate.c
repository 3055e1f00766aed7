/* SPDX-License-Identifier: BSD-2-Clause */
/* simulate broken|right: runs an operation through the recovery simulator.
 *
 * The operation adds to a counter. The broken operation has a wrong undo, which restores the old
 * value, and so loses the amounts that other transactions have added since. docs/simulator.md walks
 * through this file and the simulator's output. */
#include <lladd/bytes.h>
#include <lladd/extension.h>
#include <lladd/pages.h>
#include <lladd/records.h>
#include <lladd/sim.h>
#include <stdio.h>
#include <string.h>

/* [broken] Logged for redo: the added amount. Logged for undo: the previous value. */
static int add_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                       struct lladd_draft *draft)
{
    (void)ctx;
    lladd_put64(lladd_draft_redo(draft, 8), lladd_get64(args.data));
    lladd_put64(lladd_draft_undo(draft, 8), lladd_get64(lladd_view_body(page)));
    return 0;
}

static void add_redo(struct lladd_page *page, struct lladd_span redo)
{
    unsigned char *counter = lladd_page_body(page);
    lladd_put64(counter, lladd_get64(counter) + lladd_get64(redo.data));
}

static void put_back(struct lladd_page *page, struct lladd_span undo)
{
    lladd_put64(lladd_page_body(page), lladd_get64(undo.data));
}
/* [/broken] */

/* [right] Logged for undo: the amount to subtract. */
static int add_prepare_right(void *ctx, struct lladd_view page, struct lladd_span args,
                             struct lladd_draft *draft)
{
    (void)ctx;
    (void)page;
    lladd_put64(lladd_draft_redo(draft, 8), lladd_get64(args.data));
    lladd_put64(lladd_draft_undo(draft, 8), lladd_get64(args.data));
    return 0;
}

static void subtract(struct lladd_page *page, struct lladd_span undo)
{
    unsigned char *counter = lladd_page_body(page);
    lladd_put64(counter, lladd_get64(counter) - lladd_get64(undo.data));
}
/* [/right] */

static bool add_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span bytes)
{
    (void)page;
    (void)kind;
    return bytes.len == 8;
}

static const struct lladd_field add_redo_fields[] = {{"delta", LLADD_FIELD_I64},
                                                     {NULL, LLADD_FIELD_END}};
static const struct lladd_field add_undo_fields[] = {{"value", LLADD_FIELD_I64},
                                                     {NULL, LLADD_FIELD_END}};

static const struct lladd_op broken = {
    .struct_size = sizeof(struct lladd_op),
    .name = "example.add",
    .version = 1,
    .page_type = "lladd.bytes",
    .redo_fields = add_redo_fields,
    .undo_fields = add_undo_fields,
    .record_max = 16,
    .undo_kind = LLADD_UNDO_PAGE,
    .prepare = add_prepare,
    .validate = add_validate,
    .redo = add_redo,
    .undo = put_back,
};

static const struct lladd_op right = {
    .struct_size = sizeof(struct lladd_op),
    .name = "example.add",
    .version = 2,
    .page_type = "lladd.bytes",
    .redo_fields = add_redo_fields,
    .undo_fields = add_redo_fields,
    .record_max = 16,
    .undo_kind = LLADD_UNDO_PAGE,
    .prepare = add_prepare_right,
    .validate = add_validate,
    .redo = add_redo,
    .undo = subtract,
};

/* [setup] The subject's ctx is the operation under test. */
static int configure(void *ctx, struct lladd_options *options, struct lladd_error *err)
{
    return lladd_register_op(options, ctx, err);
}

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    (void)ctx;
    struct lladd_txn *txn;
    lladd_pageno page;
    int rc = lladd_begin(db, NULL, &txn, err);
    if (!rc)
        rc = lladd_page_alloc(txn, &page);
    if (!rc)
        rc = lladd_page_format(txn, page, "lladd.bytes");
    if (!rc)
        rc = lladd_root_set(txn, "counter", (struct lladd_root_value){page.v, 0});
    return rc ? rc : lladd_commit(txn);
}
/* [/setup] */

/* [run] Adds, and notes the addition for the model. */
static int add(struct lladd_sim *sim, struct lladd_txn *txn, const struct lladd_op *op,
               int64_t delta)
{
    struct lladd_db *db = lladd_txn_db(txn);
    struct lladd_root_value root;
    unsigned char args[8];
    lladd_op_id id;
    lladd_put64(args, (uint64_t)delta);
    int rc = lladd_op_lookup(db, op->name, op->version, &id);
    if (!rc)
        rc = lladd_root_get(db, "counter", &root, lladd_txn_error_out(txn));
    if (!rc)
        rc = lladd_update(txn, id, lladd_page_of(root.a), args, sizeof args);
    return rc ? rc : lladd_sim_note(sim, txn, &delta, sizeof delta);
}

/* One transaction stays open while another transaction commits; then the first is rolled back. */
static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_txn *open, *quick;
    int rc = lladd_sim_begin(sim, db, NULL, &open, err);
    if (!rc)
        rc = lladd_sim_begin(sim, db, NULL, &quick, err);
    if (!rc)
        rc = add(sim, open, ctx, 1000);
    if (!rc)
        rc = add(sim, quick, ctx, 1);
    if (!rc)
        rc = lladd_sim_commit(sim, quick);
    return rc ? rc : lladd_sim_abort(sim, open);
}
/* [/run] */

/* [model] The expected contents: the sum of the committed amounts. */
static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *to, struct lladd_error *err)
{
    (void)ctx;
    struct lladd_root_value root;
    int64_t sum = 0;
    int rc = lladd_root_get(db, "counter", &root, err);
    if (!rc)
        rc = lladd_counter_get(db, lladd_page_of(root.a), 0, &sum, err);
    return rc ? rc : lladd_sink_printf(to, "the counter is %lld", (long long)sum);
}

static void model_apply(void *ctx, void *model, struct lladd_span note)
{
    (void)ctx;
    int64_t delta;
    memcpy(&delta, note.data, sizeof delta);
    *(int64_t *)model += delta;
}

static int model_dump(void *ctx, const void *model, struct lladd_sink *to)
{
    (void)ctx;
    return lladd_sink_printf(to, "the counter is %lld", (long long)*(const int64_t *)model);
}

static void describe(void *ctx, struct lladd_span note, struct lladd_sink *to)
{
    (void)ctx;
    int64_t delta;
    memcpy(&delta, note.data, sizeof delta);
    lladd_sink_printf(to, "adds %lld", (long long)delta);
}
/* [/model] */

static int to_stdout(void *ctx, const void *bytes, size_t len)
{
    (void)ctx;
    return fwrite(bytes, 1, len, stdout) == len ? 0 : LLADD_NO_SPACE;
}

/* [main] First checks the operation's contract; then explores every crash, and every crash in the
 * recoveries. */
static int simulate(const struct lladd_sim_subject *subject, int *found, struct lladd_error *err)
{
    struct lladd_sink out = {NULL, to_stdout, 0};
    struct lladd_sim_contract_report *promises;
    struct lladd_sim_report *crashes, *again;
    struct lladd_sim_bounds bounds = LLADD_SIM_BOUNDS_INIT;
    bounds.depth = 2;
    int rc = lladd_sim_contract_subject(subject, NULL, &promises, err);
    if (rc)
        return rc;
    rc = lladd_sim_contract_text(promises, &out);
    *found = promises->broken != 0;
    lladd_sim_contract_free(promises);
    if (!rc)
        rc = lladd_sim_explore(subject, &bounds, &crashes, err);
    if (rc)
        return rc;
    rc = lladd_sim_report_text(crashes, &out);
    if (!rc && crashes->n_failures && crashes->failures[0].token[0]) {
        *found = 1;
        rc = lladd_sim_replay(subject, NULL, crashes->failures[0].token, &out, &again, err);
        if (!rc)
            lladd_sim_report_free(again);
    }
    lladd_sim_report_free(crashes);
    return rc;
}
/* [/main] */

int main(int argc, char **argv)
{
    const char *which = argc > 1 ? argv[1] : "broken";
    /* [subject] The subject: a struct with the functions above. */
    const struct lladd_sim_subject subject = {
        .struct_size = sizeof subject,
        .name = "example.add",
        .about = "two transactions add to one counter; one is rolled back",
        .ctx = (void *)(strcmp(which, "right") == 0 ? &right : &broken),
        .configure = configure,
        .setup = setup,
        .run = run,
        .dump = dump,
        .model_size = sizeof(int64_t),
        .model_apply = model_apply,
        .model_dump = model_dump,
        .describe = describe,
    };
    /* [/subject] */
    struct lladd_error err = LLADD_ERROR_INIT;
    int found = 0;
    int rc = simulate(&subject, &found, &err);
    if (rc)
        fprintf(stderr, "%s: %s\n", lladd_code_name(rc), err.message);
    return rc ? 2 : found;
}
