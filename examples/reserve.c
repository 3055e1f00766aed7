/* SPDX-License-Identifier: BSD-2-Clause */
/* reserve DIR: a top action that is undone as a whole, by a logical undo.
 *
 * Seats of flights: one page has the numbers of free seats, another page the numbers of sold seats.
 * Both change in one top action, and are undone together. One transaction reserves seats; another
 * transaction reserves seats of the same flight and commits; then the first transaction is rolled
 * back. */
#include <lladd/bytes.h>
#include <lladd/extension.h>
#include <lladd/records.h>
#include <stdio.h>

enum { UNDO = 8 + 8 + 2 + 2, RECORD = 2 * 10 + 128, SEATS = 10, AT = 0 };

#define TRY(call) \
    do { \
        int try_rc = (call); \
        if (try_rc) \
            return try_rc; \
    } while (0)

/* [undo] The undo bytes: the pages, the flight, the number of seats. They come from the log, so
 * they are checked before they are used. The counters of a flight never move, so other transactions
 * cannot make the undo bytes wrong. */
static const struct lladd_field reserve_fields[] = {{"free", LLADD_FIELD_PAGE},
                                                    {"sold", LLADD_FIELD_PAGE},
                                                    {"flight", LLADD_FIELD_U16},
                                                    {"seats", LLADD_FIELD_U16},
                                                    {NULL, LLADD_FIELD_END}};

static bool reserve_validate(struct lladd_view page, enum lladd_span_kind kind,
                             struct lladd_span bytes)
{
    (void)page; /* a logical undo has no page */
    return kind == LLADD_SPAN_UNDO && bytes.len == UNDO;
}

/* Ordinary calls, on the current state of the pages. */
static int release_seats(void *ctx, struct lladd_txn *txn, struct lladd_span undo)
{
    const unsigned char *b = undo.data;
    uint32_t at = 8u * lladd_get16(b + 16);
    int64_t seats = lladd_get16(b + 18);
    (void)ctx;
    TRY(lladd_counter_add(txn, lladd_page_of(lladd_get64(b + 8)), at, -seats));
    return lladd_counter_add(txn, lladd_page_of(lladd_get64(b)), at, seats);
}

static const struct lladd_op reserve_op = {
    .struct_size = sizeof(struct lladd_op),
    .name = "example.reserve",
    .version = 1,
    .undo_fields = reserve_fields,
    .record_max = UNDO,
    .undo_kind = LLADD_UNDO_LOGICAL,
    .validate = reserve_validate,
    .compensate = release_seats,
    .undo_log_max = 2 * RECORD, /* two additions: redo and undo bytes, and 128 each */
    .undo_pages_max = 1,        /* each addition fixes one page */
};
/* [/undo] */

/* [reserve] Until the end of the action each addition has an undo on its page. From then on only
 * release_seats undoes the two additions, both together. If a call fails inside the action,
 * lladd_nta_abort rolls the action back, and the transaction goes on. */
static int both_pages(struct lladd_txn *txn, lladd_pageno free, lladd_pageno sold, uint16_t flight,
                      uint16_t seats)
{
    int64_t left;
    TRY(lladd_counter_get(lladd_txn_db(txn), free, 8u * flight, &left, lladd_txn_error_out(txn)));
    if (left < seats)
        return lladd_error_set(lladd_txn_error_out(txn), LLADD_NO_SPACE, "%lld seats are left",
                               (long long)left);
    TRY(lladd_counter_add(txn, free, 8u * flight, -(int64_t)seats));
    return lladd_counter_add(txn, sold, 8u * flight, seats);
}

static int reserve(struct lladd_txn *txn, lladd_pageno free, lladd_pageno sold, uint16_t flight,
                   uint16_t seats)
{
    struct lladd_action action;
    unsigned char undo[UNDO];
    lladd_op_id op;
    TRY(lladd_op_lookup(lladd_txn_db(txn), reserve_op.name, reserve_op.version, &op));
    lladd_put64(undo, free.v);
    lladd_put64(undo + 8, sold.v);
    lladd_put16(undo + 16, flight);
    lladd_put16(undo + 18, seats);
    TRY(lladd_nta_begin(txn, &action));
    int rc = both_pages(txn, free, sold, flight, seats);
    if (!rc)
        rc = lladd_nta_end(txn, &action, op, undo, sizeof undo);
    if (!rc)
        return 0;
    int back = lladd_nta_abort(txn, &action);
    return back ? back : rc;
}
/* [/reserve] */

static int new_page(struct lladd_txn *txn, lladd_pageno *page)
{
    TRY(lladd_page_alloc(txn, page));
    return lladd_bytes_format(txn, *page);
}

static int make(struct lladd_txn *txn, struct lladd_root_value *root)
{
    lladd_pageno free, sold;
    TRY(new_page(txn, &free));
    TRY(new_page(txn, &sold));
    TRY(lladd_counter_add(txn, free, AT, SEATS));
    *root = (struct lladd_root_value){free.v, sold.v};
    return lladd_root_set(txn, "seats", *root);
}

/* Ends the transaction: commits if rc is 0; otherwise aborts, with the error in *err. */
static int end(struct lladd_txn *txn, int rc, struct lladd_error *err)
{
    if (!rc)
        return lladd_commit(txn);
    *err = *lladd_txn_error(txn);
    int undone = lladd_abort(txn);
    return undone ? undone : rc;
}

static int show(struct lladd_db *db, struct lladd_root_value root, const char *when,
                struct lladd_error *err)
{
    int64_t free, sold;
    TRY(lladd_counter_get(db, lladd_page_of(root.a), AT, &free, err));
    TRY(lladd_counter_get(db, lladd_page_of(root.b), AT, &sold, err));
    printf("%s: %lld free, %lld sold\n", when, (long long)free, (long long)sold);
    return 0;
}

static int two_customers(struct lladd_db *db, struct lladd_root_value root,
                         struct lladd_error *err)
{
    lladd_pageno free = lladd_page_of(root.a), sold = lladd_page_of(root.b);
    struct lladd_txn *unsure, *quick;
    TRY(lladd_begin(db, NULL, &unsure, err));
    int rc = reserve(unsure, free, sold, 0, 3);
    if (!rc)
        rc = lladd_begin(db, NULL, &quick, lladd_txn_error_out(unsure));
    if (rc)
        return end(unsure, rc, err);
    rc = end(quick, reserve(quick, free, sold, 0, 2), err);
    if (!rc)
        rc = show(db, root, "both have reserved", err);
    if (reserve(unsure, free, sold, 0, 9))
        printf("refused: %s\n", lladd_txn_error(unsure)->message);
    int undone = lladd_abort(unsure);
    return rc ? rc : undone;
}

static int run(struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_root_value root;
    struct lladd_txn *txn;
    int rc = lladd_root_get(db, "seats", &root, err);
    if (rc == LLADD_NOT_FOUND) {
        TRY(lladd_begin(db, NULL, &txn, err));
        rc = end(txn, make(txn, &root), err);
    }
    if (!rc)
        rc = two_customers(db, root, err);
    return rc ? rc : show(db, root, "one is rolled back", err);
}

int main(int argc, char **argv)
{
    struct lladd_options options = LLADD_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_db *db;
    int rc = lladd_register_op(&options, &reserve_op, &err);
    if (!rc)
        rc = lladd_open(argc > 1 ? argv[1] : "reserve.db", &options, &db, &err);
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
