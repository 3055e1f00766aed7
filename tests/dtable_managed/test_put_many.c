/* SPDX-License-Identifier: BSD-2-Clause */
/* Many rows in one call, in logged and in unlogged tables. */
#include "managed_fixture.h"

#include <stdio.h>

static struct fixture b;
static struct lladd_managed *t;

static void at(struct lladd_txn *txn, uint64_t commit)
{
    struct lladd_managed_position p = {commit, 0};
    ok(txn, lladd_managed_position_set(txn, t, &p));
}

static void digest(void)
{
    ok_db(&b, lladd_managed_digest(t, &b.err));
}

/* ---- many rows ------------------------------------------------------------------------------- */

enum { MANY = 500 };

static void many(struct lladd_managed_row *rows)
{
    static char texts[MANY][8];
    for (uint32_t i = 0; i < MANY; i++) {
        int len = snprintf(texts[i], sizeof texts[i], "%u", (unsigned)i);
        rows[i].key = lladd_dtable_u32(i * 7919 % 300); /* some keys come twice */
        rows[i].value =
            i % 11 ? lladd_dtable_value_of(texts[i], (size_t)len) : lladd_dtable_tombstone();
    }
}

/* _i: the table is unlogged. */
START_TEST(put_many_is_many_puts)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    struct lladd_managed_row rows[MANY];
    size_t done = 0;
    many(rows);
    o.flags = _i ? LLADD_MANAGED_UNLOGGED : 0;
    t = managed_begin(&b, &o);
    struct lladd_managed *other = managed_table(&b, "other", NULL);
    struct lladd_txn *txn = fixture_begin(&b);
    if (_i)
        at(txn, 10);
    ok(txn, lladd_managed_put_many(txn, t, rows, 0, &done));
    ck_assert_uint_eq(done, 0);
    ok(txn, lladd_managed_put_many(txn, t, rows, MANY, &done));
    ck_assert_uint_eq(done, MANY);
    ok(txn, lladd_managed_put_many(txn, t, rows, 3, NULL));
    for (size_t i = 0; i < MANY + 3; i++)
        ok(txn, lladd_managed_put(txn, other, &rows[i % MANY].key, &rows[i % MANY].value));
    char *text = managed_text(txn, other);
    managed_sees(txn, t, text);
    commit(txn);
    managed_expect(&b, t, text);
    digest();
    managed_expect(&b, t, text);
    free(text);
    managed_close(&b, other);
    managed_done(&b, t);
}
END_TEST

/* The rows before the first one that cannot be put stay put. */
START_TEST(put_many_stops_at_an_error)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    struct lladd_managed_row rows[MANY];
    size_t done = 0;
    many(rows);
    o.config = o.combine_config = "class(dt) array_dtable config [ \"value_size\" int 1 ]";
    o.flags = _i ? LLADD_MANAGED_UNLOGGED : 0;
    t = managed_begin(&b, &o);
    for (uint32_t i = 0; i < MANY; i++)
        rows[i] = (struct lladd_managed_row){lladd_dtable_u32(i), lladd_dtable_value_of("x", 1)};
    static const size_t bad[] = {0, 63, 64, 65, 300, MANY - 1};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct lladd_txn *txn = fixture_begin(&b);
        if (_i)
            at(txn, 10 + i);
        rows[bad[i]].value.bytes.len = 2;
        rows[bad[i]].value.bytes.data = "xx";
        refuses(txn, LLADD_REJECTED, lladd_managed_put_many(txn, t, rows, MANY, &done));
        ck_assert_uint_eq(done, bad[i]);
        rows[bad[i]].value = lladd_dtable_value_of("x", 1);
        rows[bad[i]].key = lladd_dtable_u64(1);
        refuses(txn, LLADD_WRONG_TYPE, lladd_managed_put_many(txn, t, rows, MANY, &done));
        ck_assert_uint_eq(done, bad[i]);
        rows[bad[i]].key = lladd_dtable_u32((uint32_t)bad[i]);
        char *text = managed_text(txn, t);
        const char *last = strrchr(text, ' ');
        if (bad[i])
            ck_assert_uint_eq(strtoul(last ? last + 1 : text, NULL, 10), bad[i] - 1);
        else
            ck_assert_str_eq(text, "");
        free(text);
        abort_txn(txn);
    }
    managed_expect(&b, t, "");
    managed_done(&b, t);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("managed dTables: many rows");
    TCase *tc = tcase_create("all");
    tcase_add_loop_test(tc, put_many_is_many_puts, 0, 2);
    tcase_add_loop_test(tc, put_many_stops_at_an_error, 0, 2);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
