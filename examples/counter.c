/* SPDX-License-Identifier: BSD-2-Clause */
/* counter DIR: an operation of your own, a logical increment.
 *
 * Two transactions add to the same counter at the same time; one commits, one aborts. Undo must not
 * restore the old value, because that would lose the other transaction's addition: undo subtracts.
 * To subtract twice would be wrong, and so would adding twice after a crash. The library applies
 * each redo and each undo exactly once. docs/writing-an-operation.md walks through this file. */
#include <lladd/bytes.h>
#include <lladd/extension.h>
#include <lladd/lladd.h>
#include <lladd/pages.h>
#include <stdio.h>

/* [prepare] Checks the arguments, and builds the log record. The page may be read, not changed. */
static int add_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                       struct lladd_draft *draft)
{
    (void)ctx;
    int64_t delta = (int64_t)lladd_get64(args.data), sum;
    int64_t now = (int64_t)lladd_get64(lladd_view_body(page));
    if (__builtin_add_overflow(now, delta, &sum))
        return lladd_error_set(draft->error, LLADD_BAD_ARGUMENT, "the counter would overflow");
    lladd_put64(lladd_draft_redo(draft, 8), (uint64_t)delta);
    lladd_put64(lladd_draft_undo(draft, 8), (uint64_t)delta);
    return 0;
}
/* [/prepare] */

/* [validate] Are these bytes from the log safe for redo and undo? */
static bool add_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span bytes)
{
    (void)page;
    (void)kind;
    return bytes.len == 8;
}
/* [/validate] */

/* [redo] Changes the page: in the forward operation, and again in recovery after a crash. Redo and
 * undo cannot fail. */
static void add_redo(struct lladd_page *page, struct lladd_span redo)
{
    unsigned char *counter = lladd_page_body(page);
    lladd_put64(counter, lladd_get64(counter) + lladd_get64(redo.data));
}

static void add_undo(struct lladd_page *page, struct lladd_span undo)
{
    unsigned char *counter = lladd_page_body(page);
    lladd_put64(counter, lladd_get64(counter) - lladd_get64(undo.data));
}
/* [/redo] */

/* [op] The log refers to the operation by its name; `lladd log` prints the fields. */
static const struct lladd_field add_fields[] = {{"delta", LLADD_FIELD_I64},
                                                {NULL, LLADD_FIELD_END}};

static const struct lladd_op counter_add = {
    .struct_size = sizeof(struct lladd_op),
    .name = "example.counter.add",
    .version = 1,
    .page_type = "lladd.bytes",
    .redo_fields = add_fields,
    .undo_fields = add_fields,
    .record_max = 16,
    .undo_kind = LLADD_UNDO_PAGE,
    .prepare = add_prepare,
    .validate = add_validate,
    .redo = add_redo,
    .undo = add_undo,
};
/* [/op] */

/* [use] The rest of the program does not deal with the log. */
static int add(struct lladd_txn *txn, lladd_op_id op, lladd_pageno page, int64_t delta)
{
    unsigned char args[8];
    lladd_put64(args, (uint64_t)delta);
    return lladd_update(txn, op, page, args, sizeof args);
}

static int two_at_a_time(struct lladd_db *db, lladd_op_id op, lladd_pageno page,
                         struct lladd_error *err)
{
    struct lladd_txn *good, *bad;
    int rc = lladd_begin(db, NULL, &good, err);
    if (!rc)
        rc = lladd_begin(db, NULL, &bad, err);
    if (!rc && (rc = add(bad, op, page, 1000)) != 0)
        *err = *lladd_txn_error(bad);
    if (!rc && (rc = add(good, op, page, 1)) != 0)
        *err = *lladd_txn_error(good);
    if (!rc)
        rc = lladd_commit(good); /* this sync may also have written the log records of `bad` */
    return rc ? rc : lladd_abort(bad);
}
/* [/use] */

static int new_counter(struct lladd_db *db, lladd_pageno *page, struct lladd_error *err)
{
    struct lladd_txn *txn;
    int rc = lladd_begin(db, NULL, &txn, err);
    if (rc)
        return rc;
    rc = lladd_page_alloc(txn, page);
    if (!rc)
        rc = lladd_page_format(txn, *page, "lladd.bytes");
    if (!rc)
        rc = lladd_root_set(txn, "counter", (struct lladd_root_value){page->v, 0});
    if (!rc)
        return lladd_commit(txn);
    *err = *lladd_txn_error(txn);
    return rc;
}

/* [main] Register before opening: recovery may need the operation. */
static int run(const char *dir, int64_t *value, struct lladd_error *err)
{
    struct lladd_options options = LLADD_OPTIONS_INIT;
    struct lladd_root_value root;
    struct lladd_db *db;
    struct lladd_page *held;
    lladd_op_id op;
    int rc = lladd_register_op(&options, &counter_add, err);
    if (!rc)
        rc = lladd_open(dir, &options, &db, err);
    lladd_options_release(&options);
    if (rc)
        return rc;
    rc = lladd_op_lookup(db, counter_add.name, counter_add.version, &op);
    if (!rc)
        rc = lladd_root_get(db, "counter", &root, err);
    lladd_pageno page = lladd_page_of(rc ? 0 : root.a);
    if (rc == LLADD_NOT_FOUND)
        rc = new_counter(db, &page, err);
    if (!rc)
        rc = two_at_a_time(db, op, page, err);
    if (!rc && (rc = lladd_page_fix(db, page, LLADD_LATCH_SHARED, &held, err)) == 0) {
        *value = (int64_t)lladd_get64(lladd_page_body(held));
        lladd_page_unfix(db, held, LLADD_LATCH_SHARED);
    }
    int closed = lladd_close(db); /* aborts the transactions that are still open */
    return rc ? rc : closed;
}
/* [/main] */

int main(int argc, char **argv)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    int64_t value = 0;
    int rc = run(argc > 1 ? argv[1] : "counter.db", &value, &err);
    if (rc)
        fprintf(stderr, "%s: %s\n", lladd_code_name(rc), err.message);
    else
        printf("this is run number %lld\n", (long long)value);
    return rc != 0;
}
