/* SPDX-License-Identifier: BSD-2-Clause */
/* Flags and block_bytes: bad values are refused at a creation, at an alteration, and in a stored
 * description. */
#include "managed_fixture.h"

#include <lladd/hash.h>

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

/* ---- options --------------------------------------------------------------------------------- */

START_TEST(options)
{
    static const uint32_t bad[] = {1, 4095, 4097, 6144, (1u << 20) + 4096, 1u << 21, UINT32_MAX};
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    char *strings;
    o.flags = LLADD_MANAGED_UNLOGGED;
    t = managed_begin(&b, &o);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct lladd_txn *txn = fixture_begin(&b);
        o.block_bytes = bad[i];
        refuses(txn, LLADD_BAD_ARGUMENT, lladd_managed_create(txn, "other", &o));
        commit(txn);
        ck_assert_int_eq(lladd_managed_alter(t, LLADD_MANAGED_BLOCK_BYTES, &o, &b.err),
                         LLADD_BAD_ARGUMENT);
    }
    o.block_bytes = 0;
    for (uint32_t flags = 2; flags; flags *= 2) {
        struct lladd_txn *txn = fixture_begin(&b);
        o.flags = flags | LLADD_MANAGED_UNLOGGED;
        refuses(txn, LLADD_BAD_ARGUMENT, lladd_managed_create(txn, "other", &o));
        commit(txn);
    }
    struct lladd_txn *txn = fixture_begin(&b);
    at(txn, 10);
    managed_fill_in(txn, t, "1=a");
    commit(txn);
    o.flags = 0;
    o.every = 5;
    ok_db(&b, lladd_managed_alter(t, LLADD_MANAGED_ALL, &o, &b.err)); /* not the flags */
    ok_db(&b, lladd_managed_settings(t, &o, &strings, &b.err));
    lladd_mem_free(b.db, strings);
    ck_assert_uint_eq(o.flags, LLADD_MANAGED_UNLOGGED);
    ck_assert_uint_eq(o.block_bytes, 0);
    digest();
    t = managed_restart(&b); /* the alteration was durable, and not the digest */
    managed_expect(&b, t, "");
    ok_db(&b, lladd_managed_settings(t, &o, &strings, &b.err));
    lladd_mem_free(b.db, strings);
    ck_assert_uint_eq(o.flags, LLADD_MANAGED_UNLOGGED);
    ck_assert_uint_eq(o.every, 5);
    managed_done(&b, t);
}
END_TEST

static uint32_t block_size(void)
{
    struct lladd_managed_stats s = {.struct_size = sizeof s};
    struct lladd_dtable_run_info info = {.struct_size = sizeof info};
    struct lladd_managed_run newest;
    struct lladd_dtable *run;
    ok_db(&b, lladd_managed_stats_get(t, &s, &newest, 1, &b.err));
    ok_db(&b, lladd_dtable_run_open(b.db, newest.root, &run, &b.err));
    ok_db(&b, lladd_dtable_run_info_get(run, &info, &b.err));
    lladd_dtable_close(run);
    return info.block_size;
}

/* The size applies to the runs that are built later. _i: the table is unlogged. */
START_TEST(block_bytes)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    char *strings;
    o.block_bytes = 4096;
    o.flags = _i ? LLADD_MANAGED_UNLOGGED : 0;
    t = managed_begin(&b, &o);
    static const uint32_t sizes[] = {4096, 1u << 20, 0, 65536};
    uint32_t found[4];
    for (uint32_t i = 0; i < 4; i++) {
        o.block_bytes = sizes[i];
        if (i)
            ok_db(&b, lladd_managed_alter(t, LLADD_MANAGED_BLOCK_BYTES, &o, &b.err));
        struct lladd_txn *txn = fixture_begin(&b);
        if (_i)
            at(txn, 10 + i);
        managed_put(txn, t, i, "a");
        commit(txn);
        digest();
        found[i] = block_size();
        managed_close(&b, t);
        t = managed_open(&b, "rows");
        ok_db(&b, lladd_managed_settings(t, &o, &strings, &b.err));
        lladd_mem_free(b.db, strings);
        ck_assert_uint_eq(o.block_bytes, sizes[i]);
    }
    ck_assert_uint_le(found[0], 4096);
    ck_assert_uint_gt(found[0], 2048);
    ck_assert_uint_gt(found[1], 1000000);
    ck_assert_uint_gt(found[3], 60000);
    ck_assert_uint_lt(found[3], found[1]);
    ok_db(&b, lladd_managed_combine(t, 0, &b.err));
    ck_assert_uint_eq(block_size(), found[3]);
    managed_expect(&b, t, "0=a 1=a 2=a 3=a");
    managed_tidy(&b, t);
    managed_done(&b, t);
}
END_TEST

/* ---- the stored description ------------------------------------------------------------------ */

/* Exchanges bytes of the table's row of the catalogue. */
static void forge(size_t offset, void *bytes, size_t len)
{
    struct lladd_root_value root;
    struct lladd_hash *h;
    unsigned char row[1000], old[8];
    size_t row_len;
    ok_db(&b, lladd_root_get(b.db, "managed", &root, &b.err));
    ok_db(&b, lladd_hash_open(b.db, lladd_page_of(root.a), LLADD_HASH_LOGICAL, &h, &b.err));
    ok_db(&b, lladd_hash_get(h, "rows", 4, row, sizeof row, &row_len, &b.err));
    ck_assert_uint_ge(row_len, 112);
    ck_assert_uint_eq(row[0], 2);
    memcpy(old, row + offset, len);
    memcpy(row + offset, bytes, len);
    memcpy(bytes, old, len);
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_hash_put(txn, h, "rows", 4, row, row_len));
    commit(txn);
    lladd_hash_close(h);
    fixture_close(&b);
    fixture_open(&b);
}

START_TEST(a_damaged_description)
{
    static const struct {
        size_t offset, len;
        unsigned char bytes[8];
    } bad[] = {
        {3, 1, {0}}, /* positions without the flag */     {3, 1, {2}},     {3, 1, {255}},
        {104, 4, {1}}, /* block_bytes */                  {104, 4, {255, 255, 255, 255}},
        {104, 4, {0, 16, 16, 0}}, /* 1 MiB and a page */  {108, 4, {1}},   {108, 4, {0, 0, 0, 1}},
        {0, 1, {1}}, /* flags in version 1 */
    };
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    o.flags = LLADD_MANAGED_UNLOGGED;
    t = managed_begin(&b, &o);
    struct lladd_txn *txn = fixture_begin(&b);
    at(txn, 10);
    managed_fill_in(txn, t, "1=a");
    commit(txn);
    digest();
    managed_close(&b, t);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        unsigned char bytes[8];
        memcpy(bytes, bad[i].bytes, sizeof bytes);
        forge(bad[i].offset, bytes, bad[i].len);
        ck_assert_int_eq(lladd_managed_open(b.db, "rows", &t, &b.err), LLADD_BAD_RECORD);
        if (bad[i].offset)
            forge(bad[i].offset, bytes, bad[i].len);
    }
    fixture_free(&b);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("managed dTables: options");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, options);
    tcase_add_loop_test(tc, block_bytes, 0, 2);
    tcase_add_test(tc, a_damaged_description);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
