/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The streams of a run share the extents of the run. So the number of syncs depends on the amount
 * written, and not on the number of streams. Every page is freed.
 */
#include "model.h"
#include "texts.h"

#include <stdio.h>

static struct fixture b;

enum { GROUPS = 16, LONG = 1200 };

/* Writes the value of a column of a row. Returns its length. */
static size_t value_of(uint32_t row, uint32_t column, unsigned char *out)
{
    size_t len = column % 4 == 3 ? row % 23 : 4;
    for (size_t i = 0; i < len; i++)
        out[i] = (unsigned char)(row * 31 + column * 7 + i + (row >> 8));
    return len;
}

static void config_of(char *text, size_t size, const char *around)
{
    size_t n = (size_t)snprintf(text, size,
                                "%sclass(dt) column_dtable %s config [ \"base\" "
                                "class(dt) linear_dtable \"groups\" layers [",
                                *around ? around : "", *around ? "\"base_config\"" : "");
    for (int i = 0; i < GROUPS; i++)
        n += (size_t)snprintf(text + n, size - n, " class(dt) linear_dtable");
    n += (size_t)snprintf(text + n, size - n, " ] \"columns\" words [");
    for (int i = 0; i < GROUPS; i++)
        n += (size_t)snprintf(text + n, size - n, " \"%d\"", i);
    n += (size_t)snprintf(text + n, size - n, " ] ]%s", *around ? " ]" : "");
    ck_assert_uint_lt(n, size);
}

static size_t pack(uint32_t row, unsigned char *out)
{
    unsigned char bytes[GROUPS][32];
    struct lladd_dtable_value values[GROUPS];
    size_t size;
    for (uint32_t i = 0; i < GROUPS; i++)
        values[i] = lladd_dtable_value_of(bytes[i], value_of(row, i, bytes[i]));
    ok_db(&b, lladd_dtable_row_size(values, GROUPS, &size, &b.err));
    lladd_dtable_row_pack(values, GROUPS, out);
    return size;
}

static struct lladd_dtable_run_builder *build(struct lladd_txn *txn, const char *text,
                                              uint32_t rows)
{
    struct lladd_dtable_run_options o = LLADD_DTABLE_RUN_OPTIONS_INIT;
    struct lladd_dtable_run_builder *run;
    unsigned char packed[GROUPS * 40];
    o.type = LLADD_DTABLE_U32;
    o.text = text;
    ok(txn, lladd_dtable_run_begin(txn, &o, &run));
    for (uint32_t i = 0; i < rows; i++) {
        struct lladd_dtable_key key = lladd_dtable_u32(i * 3 + i % 2);
        struct lladd_dtable_value v = lladd_dtable_value_of(packed, pack(i, packed));
        ok(txn, lladd_dtable_run_add(run, &key, &v));
    }
    return run;
}

static void has_rows(lladd_pageno root, uint32_t rows)
{
    struct lladd_dtable *t = open_run(&b, root);
    struct lladd_dtable_run_info info = {.struct_size = sizeof info};
    unsigned char want[GROUPS * 40], found[GROUPS * 40];
    ok_db(&b, lladd_dtable_run_check(t, &b.err));
    for (uint32_t i = 0; i < rows; i += rows / 50 + 1) {
        struct lladd_dtable_key key = lladd_dtable_u32(i * 3 + i % 2);
        size_t len = 0, size = pack(i, want);
        ok_db(&b, lladd_dtable_get(t, &key, found, sizeof found, &len, &b.err));
        ck_assert_uint_eq(len, size);
        ck_assert_int_eq(memcmp(want, found, len), 0);
    }
    ok_db(&b, lladd_dtable_run_info_get(t, &info, &b.err));
    ck_assert_uint_eq(info.rows, rows);
    /* All pages are full, except the last one of each stream. A layer has at most three streams. */
    ck_assert_uint_le(info.pages * 4064, info.bytes + 3 * (GROUPS + 1) * 4064);
    lladd_dtable_close(t);
}

static const struct {
    uint32_t rows;
    const char *around;
    unsigned syncs; /* the maximum */
} runs[] = {
    /* The whole run stays in memory until it is finished. Then there are three syncs: one for the
     * log of the extent, one for the contents of the extent, and one because this is the first
     * change after open. */
    {300, "", 3},
    {300, "class(dt) compress_dtable config [ \"base\" ", 3},
    {60000, "", 8}, /* 8 MiB */
};

START_TEST(more_streams_need_no_more_syncs)
{
    char text[GROUPS * 40 + 300];
    lladd_pageno root;
    config_of(text, sizeof text, runs[_i].around);
    fixture_init(&b, 4096);
    fixture_open(&b);
    lladd_dtable_cache_limit(b.db, 1u << 20);
    uint64_t before = fixture_pages_used(&b);
    struct lladd_txn *txn = fixture_begin(&b);
    fault_device_reset_calls(b.fd);
    struct lladd_dtable_run_builder *run = build(txn, text, runs[_i].rows);
    ok(txn, lladd_dtable_run_finish(run, &root));
    ck_assert_uint_ge(fault_device_calls(b.fd, FAULT_SYNC), 2);
    ck_assert_uint_le(fault_device_calls(b.fd, FAULT_SYNC), runs[_i].syncs);
    commit(txn);
    has_rows(root, runs[_i].rows);
    fixture_crash(&b);
    has_rows(root, runs[_i].rows);
    txn = fixture_begin(&b);
    ok(txn, lladd_dtable_run_free(txn, root));
    commit(txn);
    ck_assert_uint_eq(fixture_pages_used(&b), before);
    fixture_free(&b);
}
END_TEST

/* A run is discarded after any number of rows. The extents of all streams must be freed. */
START_TEST(a_discarded_run_leaves_nothing)
{
    char text[GROUPS * 40 + 300];
    config_of(text, sizeof text, "");
    fixture_init(&b, 4096);
    fixture_open(&b);
    uint64_t before = fixture_pages_used(&b);
    for (uint32_t rows = 0; rows <= 40000; rows = rows * 4 + 2500) {
        struct lladd_txn *txn = fixture_begin(&b);
        ok(txn, lladd_dtable_run_discard(build(txn, text, rows)));
        commit(txn);
        ck_assert_uint_eq(fixture_pages_used(&b), before);
    }
    fixture_free(&b);
}
END_TEST

/* On a nearly full disk the extents get smaller, and the run has the same rows. */
START_TEST(a_small_disk_has_small_extents)
{
    char text[GROUPS * 40 + 300];
    lladd_pageno root;
    config_of(text, sizeof text, "");
    fixture_init(&b, 4096);
    fixture_open(&b);
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_dtable_run_builder *run = build(txn, text, LONG);
    ok(txn, lladd_dtable_run_finish(run, &root));
    commit(txn);
    struct lladd_dtable_run_info info = {.struct_size = sizeof info};
    struct lladd_dtable *t = open_run(&b, root);
    ok_db(&b, lladd_dtable_run_info_get(t, &info, &b.err));
    lladd_dtable_close(t);
    fault_device_capacity(b.fd, fault_device_bytes(b.fd) + info.pages * 4096 + (3u << 20));
    unsigned built = 0;
    for (int rc = 0; !rc && built < 100; built += !rc) {
        struct lladd_dtable_run_options o = LLADD_DTABLE_RUN_OPTIONS_INIT;
        unsigned char packed[GROUPS * 40];
        lladd_pageno next;
        txn = fixture_begin(&b);
        o.type = LLADD_DTABLE_U32;
        o.text = text;
        ok(txn, lladd_dtable_run_begin(txn, &o, &run));
        for (uint32_t i = 0; i < LONG && !rc; i++) {
            struct lladd_dtable_key key = lladd_dtable_u32(i * 3 + i % 2);
            struct lladd_dtable_value v = lladd_dtable_value_of(packed, pack(i, packed));
            rc = lladd_dtable_run_add(run, &key, &v);
        }
        if (!rc)
            rc = lladd_dtable_run_finish(run, &next);
        ck_assert(rc == 0 || rc == LLADD_NO_SPACE || rc == LLADD_LOG_FULL);
        if (rc)
            ok(txn, lladd_dtable_run_discard(run));
        commit(txn);
        if (!rc)
            has_rows(next, LONG);
    }
    ck_assert_uint_ge(built, 1);
    ck_assert_uint_lt(built, 100);
    fault_device_capacity(b.fd, UINT64_MAX);
    has_rows(root, LONG);
    fixture_check(&b);
    fixture_free(&b);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("dtable.streams");
    TCase *tc = tcase_create("streams");
    tcase_add_loop_test(tc, more_streams_need_no_more_syncs, 0,
                        sizeof runs / sizeof runs[0]);
    tcase_add_test(tc, a_discarded_run_leaves_nothing);
    tcase_add_test(tc, a_small_disk_has_small_extents);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
