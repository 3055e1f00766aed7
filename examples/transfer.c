/* SPDX-License-Identifier: BSD-2-Clause */
/* transfer DIR: savepoints and a nested top action.
 *
 * Accounts are counters; a transfer subtracts from one account and adds to another. A fee is
 * charged after a savepoint, and rolled back if the account cannot pay the fee. Every transfer also
 * gets a number that is never used twice, even if the transfer is rolled back: a top action draws
 * the number, and the changes of the closed top action stay. */
#include <lladd/extension.h>
#include <lladd/records.h>
#include <stdio.h>

/* Offsets on one page of bytes. NUMBERS has the last number drawn, AUDIT the sum of all numbers
 * drawn. */
enum { ALICE = 0, BOB = 8, BANK = 16, NUMBERS = 24, AUDIT = 32 };

#define TRY(call) \
    do { \
        int try_rc = (call); \
        if (try_rc) \
            return try_rc; \
    } while (0)

/* [action] Two words change together. The action is closed without an undo: even if the transfer is
 * rolled back later, the number is used up. Before the action is closed, both changes can be rolled
 * back. (With several threads, the program needs a mutex around the action, because other
 * transactions see the changes of an action immediately.) */
static int draw_number(struct lladd_txn *txn, lladd_pageno page, int64_t *number)
{
    struct lladd_action action;
    TRY(lladd_nta_begin(txn, &action));
    TRY(lladd_counter_add(txn, page, NUMBERS, 1));
    TRY(lladd_counter_get(lladd_txn_db(txn), page, NUMBERS, number, lladd_txn_error_out(txn)));
    TRY(lladd_counter_add(txn, page, AUDIT, *number));
    return lladd_nta_end(txn, &action, LLADD_NO_OP, NULL, 0);
}
/* [/action] */

static int balance(struct lladd_txn *txn, lladd_pageno page, uint32_t account, int64_t *out)
{
    return lladd_counter_get(lladd_txn_db(txn), page, account, out, lladd_txn_error_out(txn));
}

/* [savepoint] The fee is charged if Alice can pay it; otherwise the transfer goes on without it. */
static int transfer(struct lladd_txn *txn, lladd_pageno page, int64_t amount, int64_t fee)
{
    lladd_savepoint_id before_fee;
    int64_t left;
    TRY(lladd_counter_add(txn, page, ALICE, -amount));
    TRY(lladd_counter_add(txn, page, BOB, amount));
    TRY(lladd_savepoint(txn, &before_fee));
    TRY(lladd_counter_add(txn, page, ALICE, -fee));
    TRY(lladd_counter_add(txn, page, BANK, fee));
    TRY(balance(txn, page, ALICE, &left));
    return left < 0 ? lladd_rollback_to(txn, before_fee) : 0;
}
/* [/savepoint] */

static int open_bank(struct lladd_db *db, lladd_pageno *page, struct lladd_error *err)
{
    struct lladd_root_value root;
    struct lladd_txn *txn;
    int rc = lladd_root_get(db, "bank", &root, err);
    *page = lladd_page_of(rc ? 0 : root.a);
    if (rc != LLADD_NOT_FOUND)
        return rc;
    TRY(lladd_begin(db, NULL, &txn, err));
    rc = lladd_page_alloc(txn, page);
    if (!rc)
        rc = lladd_bytes_format(txn, *page);
    if (!rc)
        rc = lladd_counter_add(txn, *page, ALICE, 100);
    if (!rc)
        rc = lladd_root_set(txn, "bank", (struct lladd_root_value){page->v, 0});
    if (!rc)
        return lladd_commit(txn);
    *err = *lladd_txn_error(txn);
    int undone = lladd_abort(txn);
    return undone ? undone : rc;
}

/* Makes one transfer: commits if Alice has enough money, otherwise rolls back. */
static int one(struct lladd_db *db, lladd_pageno page, int64_t amount, struct lladd_error *err)
{
    struct lladd_txn *txn;
    int64_t number = 0, left = 0;
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = draw_number(txn, page, &number);
    if (!rc)
        rc = transfer(txn, page, amount, 3);
    if (!rc)
        rc = balance(txn, page, ALICE, &left);
    if (rc)
        *err = *lladd_txn_error(txn);
    bool keep = !rc && left >= 0;
    int ended = keep ? lladd_commit(txn) : lladd_abort(txn);
    printf("transfer %lld: %lld %s\n", (long long)number, (long long)amount,
           keep ? "done" : "refused");
    return rc ? rc : ended;
}

static int run(struct lladd_db *db, struct lladd_error *err)
{
    static const char *const names[] = {"alice", "bob", "bank", "numbers drawn"};
    static const uint32_t at[] = {ALICE, BOB, BANK, NUMBERS};
    lladd_pageno page;
    TRY(open_bank(db, &page, err));
    TRY(one(db, page, 60, err));
    TRY(one(db, page, 50, err)); /* more than Alice has left */
    TRY(one(db, page, 35, err)); /* no fee: only 2 are left */
    for (int i = 0; i < 4; i++) {
        int64_t value;
        TRY(lladd_counter_get(db, page, at[i], &value, err));
        printf("%s: %lld\n", names[i], (long long)value);
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_db *db;
    int rc = lladd_open(argc > 1 ? argv[1] : "transfer.db", NULL, &db, &err);
    if (!rc) {
        rc = run(db, &err);
        int closed = lladd_close(db);
        rc = rc ? rc : closed;
    }
    if (rc)
        fprintf(stderr, "%s: %s\n", lladd_code_name(rc), err.message);
    return rc != 0;
}
