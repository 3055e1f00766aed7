/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * If a limit of the log is too small, open refuses the limit and names the size that is needed. If
 * open accepts the limit, it is large enough for each registered operation, however often the
 * operation runs. This means that a transaction that runs one operation does not get LLADD_LOG_FULL
 * for ever. Tested for three page sizes and several sizes of segments.
 */
#include "op_fixture.h"

#include "operations/operations.h"

#include <lladd/hash.h>
#include <lladd/pages.h>
#include <lladd/records.h>
#include <lladd/stats.h>
#include <stdio.h>

static struct fixture b;
static unsigned char bytes[1u << 16];

static void init(uint32_t page_size, uint64_t least, uint64_t most, uint64_t limit)
{
    fixture_init(&b, page_size);
    b.options.log_segment_min = least;
    b.options.log_segment_max = most;
    b.options.log_limit_bytes = limit;
}

static struct lladd_stats stats(void)
{
    struct lladd_stats s = {.struct_size = sizeof s};
    ok_db(&b, lladd_stats_get(b.db, &s));
    return s;
}

/* Asserts that open refuses the limit, and returns the size that the message names. */
static uint64_t refused(void)
{
    unsigned long long need = 0;
    ck_assert_int_eq(fixture_try_open(&b), LLADD_BAD_ARGUMENT);
    const char *at = strstr(b.err.message, "log_limit_bytes: ");
    ck_assert_msg(at && sscanf(at, "log_limit_bytes: %llu are needed", &need) == 1, "%s",
                  b.err.message);
    ck_assert_uint_gt(need, b.options.log_limit_bytes);
    return need;
}

/* Takes log credit for each built-in operation: as many records as it may use at a time. */
static void ask_for_each(void)
{
    const struct lladd_extension *const *list = ll_operations_builtin();
    unsigned n = 0;
    for (; *list; list++) {
        for (size_t i = 0; (*list)->ops && (*list)->ops[i]; i++, n++) {
            const struct lladd_op *op = (*list)->ops[i];
            struct lladd_txn *txn = fixture_begin(&b);
            lladd_op_id id;
            ok_db(&b, lladd_op_lookup(b.db, op->name, op->version, &id));
            ok(txn, lladd_log_credit(txn, id, op->credit_max ? op->credit_max : 1));
            abort_txn(txn);
        }
    }
    ck_assert_uint_gt(n, 40);
}

/* Writes the largest possible records until the log has grown by three times the limit. Each is in
 * a transaction of its own, and every third of these transactions is rolled back. Small records in
 * between move the end of the log. */
static void write_large(uint32_t size, uint64_t limit)
{
    struct lladd_hash_options o = LLADD_HASH_OPTIONS_INIT;
    lladd_pageno page = fixture_page(&b, "lladd.bytes"), root;
    struct lladd_hash *h;
    struct lladd_txn *txn = fixture_begin(&b);
    o.key_size = 300;
    o.value_size = 900;
    ok(txn, lladd_hash_create(txn, &o, &root));
    commit(txn);
    ok_db(&b, lladd_hash_open(b.db, root, LLADD_HASH_PHYSICAL, &h, &b.err));
    uint64_t begin = stats().log_tail;
    for (unsigned i = 0; stats().log_tail < begin + 3 * limit; i++) {
        txn = fixture_begin(&b);
        memset(bytes, (int)(i & 0xff), sizeof bytes);
        ok(txn, lladd_bytes_set(txn, page, 0, bytes, size - LLADD_PAGE_HEADER));
        if (i % 3 == 0)
            abort_txn(txn);
        else
            commit(txn);
        txn = fixture_begin(&b);
        memcpy(bytes, &i, sizeof i);
        ok(txn, lladd_hash_put(txn, h, bytes, 300, bytes, 900)); /* sometimes splits the table */
        commit(txn);
        for (unsigned k = 0; k < i % 5; k++) {
            txn = fixture_begin(&b);
            ok(txn, lladd_counter_add(txn, page, 0, 1));
            commit(txn);
        }
        if (i % 16 == 0)
            ask_for_each();
    }
    lladd_hash_close(h);
}

/* ---- tests --------------------------------------------------------------------------------- */

static const struct {
    uint64_t least, most;
} segments[] = {{4096, 4096},      {4096, 65536},     {16384, 16384},
                {16384, 1u << 20}, {65536, 1u << 20}, {1u << 20, 64u << 20}};
enum { SEGMENTS = sizeof segments / sizeof segments[0] };

START_TEST(a_limit_is_refused_at_open_or_enough_for_each_operation)
{
    uint32_t size = 4096u << (_i / SEGMENTS) * 2;
    uint64_t least = segments[_i % SEGMENTS].least, most = segments[_i % SEGMENTS].most;
    init(size, least, most, 4 * least);
    uint64_t need = refused();
    ck_assert_uint_eq(need % least, 0);
    b.options.log_limit_bytes = need - 1;
    ck_assert_uint_eq(refused(), need);
    b.options.log_limit_bytes = need;
    fixture_open(&b);
    write_large(size, need);
    fixture_crash(&b);
    write_large(size, need); /* does the same again, after a recovery and its checkpoint */
    ck_assert_uint_le(stats().log_disk_bytes, need);
    fixture_close(&b);
    fixture_free(&b);
}
END_TEST

/* Open never refuses a limit above the size that is needed. */
START_TEST(a_larger_limit_is_never_refused)
{
    init(4096, 4096, 64u << 20, 4096);
    uint64_t need = refused();
    for (uint64_t limit = need; limit < 1u << 30; limit += limit / 16) {
        b.options.log_limit_bytes = limit;
        fixture_open(&b);
        fixture_close(&b);
    }
    b.options.log_limit_bytes = UINT64_MAX;
    fixture_open(&b);
    fixture_close(&b);
    fixture_free(&b);
}
END_TEST

static int no_undo(void *ctx, struct lladd_txn *txn, struct lladd_span undo)
{
    (void)ctx;
    (void)txn;
    (void)undo;
    return 0;
}

/* The size that is needed includes the log that the compensation of this operation may need. */
static const struct lladd_op large = {.struct_size = sizeof large,
                                      .name = "test.large",
                                      .version = 1,
                                      .record_max = 10000,
                                      .undo_kind = LLADD_UNDO_LOGICAL,
                                      .undo_log_max = 300000,
                                      .undo_pages_max = 1,
                                      .validate = fixture_any,
                                      .redo = fixture_nothing,
                                      .compensate = no_undo};

START_TEST(an_operation_registered_later_needs_a_larger_limit)
{
    lladd_op_id id;
    init(4096, 4096, 4096, 1u << 18);
    fixture_open(&b);
    lladd_pageno page = fixture_page(&b, "lladd.bytes");
    fixture_kill(&b);
    ok_db(&b, lladd_register_op(&b.options, &large, &b.err));
    uint64_t need = refused();
    ck_assert_ptr_nonnull(strstr(b.err.message, "operation \"test.large\""));
    ck_assert_uint_gt(need, 300000);
    ck_assert_uint_lt(need, 600000);
    b.options.log_limit_bytes = need;
    fixture_open(&b);
    ok_db(&b, lladd_op_lookup(b.db, "test.large", 1, &id));
    for (unsigned i = 0; i < 300; i++) {
        struct lladd_txn *txn = fixture_begin(&b);
        ok(txn, lladd_update(txn, id, page, bytes, 4000));
        if (i % 2)
            commit(txn);
        else
            abort_txn(txn);
    }
    fixture_close(&b);
    fixture_free(&b);
}
END_TEST

/* An open that is refused creates no file. */
START_TEST(a_refused_open_creates_no_file)
{
    init(4096, 4096, 4096, 16384);
    (void)refused();
    b.options.log_limit_bytes = 0;
    b.options.flags |= LLADD_OPT_MUST_EXIST;
    ck_assert_int_eq(fixture_try_open(&b), LLADD_NOT_A_DATABASE);
    fixture_free(&b);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("limit");
    TCase *tc = tcase_create("limit");
    tcase_add_loop_test(tc, a_limit_is_refused_at_open_or_enough_for_each_operation, 0,
                        3 * SEGMENTS);
    tcase_add_test(tc, a_larger_limit_is_never_refused);
    tcase_add_test(tc, an_operation_registered_later_needs_a_larger_limit);
    tcase_add_test(tc, a_refused_open_creates_no_file);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
