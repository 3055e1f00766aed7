/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cTables that are stored in pages of compressed columns. Rows are put, changed and deleted, in
 * memory, in several runs and in one run; they are compared with a model: whole rows, some columns,
 * many rows at once. Values that do not fit a column are kept by an exception_dtable.
 */
#include "managed_fixture.h"

#include <lladd/bytes.h>
#include <lladd/ctable.h>
#include <stdio.h>

enum { KEYS = 6000, COLUMNS = 4 };

static const char *const names[COLUMNS] = {"station", "temperature", "sky", "count"};
#define PARAMETERS \
    "config [ \"rows\" bool true \"columns\" words [ \"u16\" \"i32\" \"text12\" \"u64\" ] ]"
static const char *const configs[] = {
    "class(dt) exception_dtable config [ \"base\" class(dt) multicolumn_dtable \"base_config\" "
    PARAMETERS " \"alt\" class(dt) linear_dtable \"reject_value\" blob 010000 ]",
    "class(dt) multicolumn_dtable " PARAMETERS,
};
static bool exceptions; /* the configuration takes values that do not fit */

static struct fixture b;
static struct lladd_ctable *t;

/* What a row has: its columns follow from these numbers. */
static struct {
    bool there;
    uint32_t seed;
} rows[KEYS];

static void setup(void)
{
    managed_init(&b);
    fixture_open(&b);
}

static void teardown(void)
{
    fixture_free(&b);
}

/* The values of a row; their bytes are in `room`. */
static void values_of(uint32_t key, uint32_t seed, struct lladd_dtable_value v[COLUMNS],
                      unsigned char room[32])
{
    static const char *const skies[] = {"clear", "RAIN", "", "fog"};
    lladd_put16(room, (uint16_t)(key / 500));
    lladd_put32(room + 2, (uint32_t)(seed % 60) - 30);
    lladd_put64(room + 6, key * UINT64_C(100003) + seed);
    v[0] = lladd_dtable_value_of(room, 2);
    v[1] = lladd_dtable_value_of(room + 2, 4);
    v[2] = lladd_dtable_value_of(skies[seed % 4], strlen(skies[seed % 4]));
    v[3] = lladd_dtable_value_of(room + 6, 8);
    if (exceptions && seed % 50 == 3) /* does not fit: has another width */
        v[1] = lladd_dtable_value_of("warm", 3);
    if (seed % 20 == 7)
        v[2] = (struct lladd_dtable_value){.state = LLADD_DTABLE_ABSENT};
}

static void put(struct lladd_txn *txn, uint32_t k, uint32_t seed)
{
    struct lladd_dtable_key key = lladd_dtable_u32(k);
    struct lladd_dtable_value v[COLUMNS];
    unsigned char room[32];
    values_of(k, seed, v, room);
    ok(txn, lladd_ctable_put(txn, t, &key, v));
    rows[k].there = true;
    rows[k].seed = seed;
}

static void is_value(const struct lladd_dtable_value *got, const struct lladd_dtable_value *want)
{
    ck_assert_int_eq(got->state, want->state);
    if (want->state != LLADD_DTABLE_FOUND)
        return;
    ck_assert_uint_eq(got->bytes.len, want->bytes.len);
    ck_assert(want->bytes.len == 0 ||
              memcmp(got->bytes.data, want->bytes.data, want->bytes.len) == 0);
}

static void check_lookups(struct lladd_txn *txn)
{
    static const uint32_t some[] = {3, 1}, each[] = {0, 1, 2, 3};
    struct lladd_ctable_row all = {.n = 0}, two = {.n = 0};
    for (uint32_t k = 0; k < KEYS; k++) {
        struct lladd_dtable_key key = lladd_dtable_u32(k);
        struct lladd_dtable_value v[COLUMNS];
        unsigned char room[32];
        values_of(k, rows[k].seed, v, room);
        int rc = lladd_ctable_lookup(txn, t, &key, each, COLUMNS, &all);
        ck_assert_int_eq(rc, rows[k].there ? 0 : LLADD_NOT_FOUND);
        rc = lladd_ctable_lookup(txn, t, &key, some, 2, &two);
        ck_assert_int_eq(rc, rows[k].there ? 0 : LLADD_NOT_FOUND);
        for (unsigned c = 0; c < COLUMNS && rows[k].there; c++)
            is_value(&all.values[c], &v[c]);
        for (unsigned c = 0; c < 2 && rows[k].there; c++)
            is_value(&two.values[c], &v[some[c]]);
    }
    lladd_ctable_row_free(&all);
    lladd_ctable_row_free(&two);
}

/* Reads all rows in batches of some columns. */
static void check_batches(struct lladd_txn *txn)
{
    static const uint32_t some[] = {3, 1, 2};
    struct lladd_ctable_cursor *c;
    struct lladd_ctable_batch batch = {.n = 0};
    uint32_t k = 0;
    int rc;
    ok(txn, lladd_ctable_cursor_open(txn, t, some, 3, &c));
    while ((rc = lladd_ctable_next_n(c, 777, LLADD_CTABLE_KEYS, &batch, &b.err)) == 0)
        for (size_t i = 0; i < batch.n; i++, k++) {
            struct lladd_dtable_value v[COLUMNS], got;
            unsigned char room[32];
            while (!rows[k].there)
                k++;
            ck_assert_uint_eq(batch.numbers[i], k);
            values_of(k, rows[k].seed, v, room);
            for (unsigned column = 0; column < 3; column++) {
                const struct lladd_ctable_values *l = &batch.columns[column];
                size_t from = l->width ? i * l->width : i ? l->ends[i - 1] : 0;
                size_t to = l->width ? from + l->width : l->ends[i];
                got = lladd_dtable_value_of(l->bytes + from, to - from);
                if (!l->width)
                    got.state = (enum lladd_dtable_state)l->states[i];
                is_value(&got, &v[some[column]]);
            }
        }
    ck_assert_int_eq(rc, LLADD_END);
    while (k < KEYS)
        ck_assert(!rows[k++].there);
    lladd_ctable_batch_free(&batch);
    lladd_ctable_cursor_close(c);
}

static void check(void)
{
    struct lladd_txn *txn = fixture_begin(&b);
    check_lookups(txn);
    check_batches(txn);
    commit(txn);
}

static void digest(void)
{
    ok_db(&b, lladd_managed_digest(lladd_ctable_managed(t), &b.err));
}

START_TEST(rows_of_columns)
{
    struct lladd_ctable_options o = LLADD_CTABLE_OPTIONS_INIT;
    o.managed.type = LLADD_DTABLE_U32;
    o.managed.config = configs[_i];
    exceptions = _i == 0;
    o.columns = names;
    o.n_columns = COLUMNS;
    memset(rows, 0, sizeof rows);
    ok_db(&b, lladd_ctable_create_open(b.db, "weather", &o, &t, &b.err));
    for (uint32_t turn = 0; turn < 4; turn++) {
        struct lladd_txn *txn = fixture_begin(&b);
        for (uint32_t k = turn; k < KEYS; k += 1 + turn * 3) {
            struct lladd_dtable_key key = lladd_dtable_u32(k);
            if (turn && k % 11 == 5) {
                int rc = lladd_ctable_delete(txn, t, &key);
                ck_assert(rc == 0 || rc == LLADD_NOT_FOUND);
                rows[k].there = false;
            } else {
                put(txn, k, k * 7 + turn * 1001);
            }
        }
        commit(txn);
        if (turn == 2)
            check();
        digest();
    }
    check();
    ok_db(&b, lladd_managed_combine(lladd_ctable_managed(t), 0, &b.err));
    check();
    ok_db(&b, lladd_ctable_close(t, &b.err));
    fixture_crash(&b);
    ok_db(&b, lladd_ctable_open(b.db, "weather", &t, &b.err));
    check();
    if (!exceptions) {
        struct lladd_dtable_key key = lladd_dtable_u32(1);
        const struct lladd_ctable_change change = {1, lladd_dtable_value_of("warm", 3)};
        struct lladd_txn *txn = fixture_begin(&b);
        refuses(txn, LLADD_REJECTED, lladd_ctable_update(txn, t, &key, &change, 1));
        abort_txn(txn);
    }
    ok_db(&b, lladd_ctable_close(t, &b.err));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("ctable_multicolumn");
    TCase *tc = tcase_create("multicolumn");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, rows_of_columns, 0, 2);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
