/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory that rows take, for several orders of insertion. `pending_bytes`, which makes digests
 * due, counts the allocated memory.
 */
#include "managed_fixture.h"

enum { ROWS = 100000, ROW = 32, FILTER = 2, OWN = 10000 };

static struct fixture b;
static struct lladd_managed *t;

/* ---- orders ---------------------------------------------------------------------------------- */

static uint32_t ascending(uint32_t i)
{
    return i;
}

static uint32_t descending(uint32_t i)
{
    return ROWS - 1 - i;
}

/* Returns each row once, in a scattered order, because the factor has no divisor in common with
 * ROWS. */
static uint32_t scattered(uint32_t i)
{
    return (uint32_t)((uint64_t)i * 61803 % ROWS);
}

/* A hundred sequences that take turns. */
static uint32_t interleaved(uint32_t i)
{
    return i % 100 * (ROWS / 100) + i / 100;
}

/* A hundred sequences, one after the other. Each lies between two existing rows. */
static uint32_t nested(uint32_t i)
{
    uint32_t each = ROWS / 100, n = i - 100;
    return i < 100 ? i * each : n / (each - 1) * each + n % (each - 1) + 1;
}

static const struct {
    uint32_t (*key)(uint32_t);
    uint32_t index; /* the maximum number of bytes of the index per row */
} orders[] = {{ascending, 4}, {descending, 28}, {scattered, 22}, {interleaved, 26}, {nested, 8}};
enum { ORDERS = sizeof orders / sizeof *orders };

static void put_all(uint32_t (*key)(uint32_t), uint32_t a_transaction)
{
    for (uint32_t i = 0; i < ROWS;) {
        struct lladd_txn *txn = fixture_begin(&b);
        for (uint32_t n = 0; n < a_transaction && i < ROWS; n++)
            managed_put(txn, t, key(i++), "aoife");
        commit(txn);
    }
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* A row takes 32 bytes, two bytes of filters, and its share of the index. */
START_TEST(memory_of_rows)
{
    t = managed_begin(&b, NULL);
    put_all(orders[_i].key, ROWS);
    struct lladd_managed_stats s = managed_stats(&b, t);
    ck_assert_uint_eq(s.pending_rows, ROWS);
    ck_assert_uint_ge(s.memory_bytes, ROWS * ROW);
    ck_assert_uint_le(s.memory_bytes, ROWS * (ROW + FILTER + orders[_i].index));
    managed_done(&b, t);
}
END_TEST

/* Checks that no row is missing, by a cursor in both directions and by lookups. */
START_TEST(all_rows_are_found)
{
    struct lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT;
    const struct lladd_dtable *table;
    struct lladd_dtable_cursor *c;
    struct lladd_dtable_key key;
    t = managed_begin(&b, NULL);
    put_all(orders[_i].key, 1000);
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_managed_table(txn, t, &table));
    ok(txn, lladd_dtable_cursor_open(table, 0, &c, &b.err));
    for (uint32_t i = 0; i < ROWS; i++) {
        struct lladd_dtable_value v;
        struct lladd_dtable_key k = lladd_dtable_u32(i);
        ok(txn, lladd_dtable_next(c, &b.err));
        ok(txn, lladd_dtable_row(c, &key, NULL, &b.err));
        ck_assert_uint_eq(key.number, i);
        ok(txn, lladd_managed_lookup(txn, t, &k, &pin, &v));
        ck_assert_int_eq(v.state, LLADD_DTABLE_FOUND);
    }
    ck_assert_int_eq(lladd_dtable_next(c, &b.err), LLADD_END);
    for (uint32_t i = ROWS; i-- > 0;) {
        ok(txn, lladd_dtable_prev(c, &b.err));
        ok(txn, lladd_dtable_row(c, &key, NULL, &b.err));
        ck_assert_uint_eq(key.number, i);
    }
    ck_assert_int_eq(lladd_dtable_prev(c, &b.err), LLADD_END);
    lladd_dtable_cursor_close(c);
    lladd_dtable_unpin(&pin);
    commit(txn);
    managed_done(&b, t);
}
END_TEST

/* `pending_bytes` also counts the memory that transactions have in addition to their rows, the
 * memory of rows that were put again, and of rows that were rolled back. */
START_TEST(pending_bytes_count_all_memory)
{
    t = managed_begin(&b, NULL);
    put_all(orders[_i].key, _i ? 1000 : 1);
    struct lladd_txn *txn = fixture_begin(&b);
    for (uint32_t i = 0; i < 1000; i++)
        managed_put(txn, t, ROWS / 2 + 7 * i, i % 3 ? "a longer one than was there" : NULL);
    abort_txn(txn);
    struct lladd_managed_stats s = managed_stats(&b, t);
    ck_assert_uint_le(s.pending_bytes, s.memory_bytes);
    ck_assert_uint_le(s.memory_bytes, s.pending_bytes + OWN);
    ok_db(&b, lladd_managed_digest(t, &b.err));
    s = managed_stats(&b, t);
    ck_assert_uint_eq(s.pending_bytes, 0);
    ck_assert_uint_lt(s.memory_bytes, OWN);
    managed_done(&b, t);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("memory of managed dTables");
    TCase *tc = tcase_create("all");
    tcase_add_loop_test(tc, memory_of_rows, 0, ORDERS);
    tcase_add_loop_test(tc, all_rows_are_found, 0, ORDERS);
    tcase_add_loop_test(tc, pending_bytes_count_all_memory, 0, ORDERS);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
