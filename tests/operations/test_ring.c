/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * If the log buffer is too small, open refuses its size and names the size that is needed. If open
 * accepts the size, the buffer is large enough for the library's structures: none of their calls
 * returns LLADD_TOO_LARGE later. Tested for every page size and every power of two, and for
 * operations that are registered later.
 */
#include "op_fixture.h"

#include <lladd/array.h>
#include <lladd/blob.h>
#include <lladd/dtable_managed.h>
#include <lladd/hash.h>
#include <lladd/heap.h>
#include <lladd/journal.h>
#include <lladd/list.h>
#include <lladd/lock.h>
#include <lladd/pages.h>
#include <lladd/records.h>

#include <stdio.h>

static struct fixture b;
static unsigned char bytes[1u << 16];

static void register_all(void)
{
    ok_db(&b, lladd_lock_register(&b.options, &b.err));
    ok_db(&b, lladd_journal_register(&b.options, &b.err));
    ok_db(&b, lladd_managed_register(&b.options, &b.err));
}

static void init(uint32_t page_size, uint64_t ring)
{
    fixture_init(&b, page_size);
    b.options.log_ring_bytes = ring;
    register_all();
}

/* Asserts that open refuses the size, and returns the size that the message names. */
static uint64_t refused(void)
{
    unsigned long long need = 0;
    ck_assert_int_eq(fixture_try_open(&b), LLADD_BAD_ARGUMENT);
    const char *at = strstr(b.err.message, "log_ring_bytes: ");
    ck_assert_msg(at && sscanf(at, "log_ring_bytes: %llu are needed", &need) == 1, "%s",
                  b.err.message);
    ck_assert_uint_gt(need, b.options.log_ring_bytes);
    return need;
}

/* ---- all structures -------------------------------------------------------------------------- */

static lladd_pageno page_of(struct lladd_txn *txn)
{
    lladd_pageno page;
    ok(txn, lladd_page_alloc(txn, &page));
    return page;
}

/* Changes every byte of a page, before and after a checkpoint. Makes the largest records. */
static void pages(struct lladd_txn *txn, uint32_t size)
{
    uint32_t body = size - LLADD_PAGE_HEADER, most = lladd_slotted_max(size);
    uint32_t record = body < 2 * LLADD_FIXED_MAX ? body / 2 : LLADD_FIXED_MAX;
    lladd_pageno page = page_of(txn), raw;
    struct lladd_rid r;
    ok(txn, lladd_bytes_format(txn, page));
    for (int i = 0; i < 2; i++) {
        memset(bytes, 'a' + i, sizeof bytes);
        ok(txn, lladd_bytes_set(txn, page, 0, bytes, body));
        for (uint32_t at = 0; at < body; at += 10)
            bytes[at]++;
        ok(txn, lladd_bytes_set_range(txn, page, 0, bytes, body));
        ok(txn, lladd_counter_add(txn, page, 0, 1));
        ok_db(&b, lladd_checkpoint(b.db, &b.err));
    }
    page = page_of(txn);
    ok(txn, lladd_slotted_format(txn, page, 0));
    ok(txn, lladd_slotted_alloc(txn, page, bytes, most, 0, &r));
    memset(bytes, 'x', sizeof bytes);
    ok(txn, lladd_slotted_set(txn, r, bytes, most, 1));
    ok(txn, lladd_slotted_credit(txn, 1));
    ok(txn, lladd_slotted_resize(txn, r, 0));
    ok(txn, lladd_slotted_free(txn, r));
    page = page_of(txn);
    ok(txn, lladd_fixed_format(txn, page, record));
    ok(txn, lladd_fixed_alloc(txn, page, bytes, &r));
    memset(bytes, 'y', sizeof bytes);
    ok(txn, lladd_fixed_set(txn, r, 0, bytes, record));
    ok(txn, lladd_fixed_free(txn, r));
    ok(txn, lladd_extent_alloc(txn, 20, LLADD_EXTENT_RAW, &raw));
    ok(txn, lladd_extent_free(txn, raw, 20));
    ok(txn, lladd_root_set(txn, "a name", (struct lladd_root_value){1, 2}));
}

static void heap_array_list_blob(struct lladd_txn *txn, uint32_t size)
{
    struct lladd_rid r[3];
    struct lladd_heap *h;
    struct lladd_array *a;
    struct lladd_list *list[2];
    struct lladd_item at;
    lladd_pageno root, other;
    uint32_t most = lladd_heap_max(size), item = lladd_list_item_max(b.db);
    ok(txn, lladd_heap_create_open(txn, &root, &h));
    for (unsigned i = 0; i < 3; i++)
        ok(txn, lladd_heap_insert(txn, h, bytes, i ? most : 10, &r[i]));
    ok(txn, lladd_heap_set(txn, h, r[0], bytes, most));
    ok(txn, lladd_heap_delete(txn, h, r[1]));
    lladd_heap_close(h);
    uint32_t element = lladd_array_element_max(b.db);
    ok(txn, lladd_array_create(txn, element, 5, &root));
    ok_db(&b, lladd_array_open(b.db, root, &a, &b.err));
    for (unsigned i = 0; i < 5; i++)
        ok(txn, lladd_array_set(txn, a, i, bytes));
    ok(txn, lladd_array_extend(txn, a, 1000, NULL));
    ok(txn, lladd_array_shrink(txn, a, 1004));
    lladd_array_close(a);
    for (unsigned i = 0; i < 2; i++) {
        ok(txn, lladd_list_create(txn, &root));
        ok_db(&b, lladd_list_open(b.db, root, &list[i], &b.err));
        for (unsigned k = 0; k < 4; k++)
            ok(txn, lladd_list_append(txn, list[i], bytes, item, &at));
    }
    bytes[0]++;
    ok(txn, lladd_list_write(txn, list[1], at, 0, bytes, item));
    ok(txn, lladd_list_delete(txn, list[1], at));
    ok(txn, lladd_list_splice(txn, list[0], list[1]));
    lladd_list_close(list[0]);
    lladd_list_close(list[1]);
    ok(txn, lladd_blob_create(txn, bytes, 3 * size < sizeof bytes ? 3 * size : size, &other));
    for (unsigned i = 0; i < 5; i++)
        ok(txn, lladd_blob_append(txn, other, bytes, size));
    memset(bytes, 'z', sizeof bytes);
    ok(txn, lladd_blob_write(txn, other, 7, bytes, size));
    ok(txn, lladd_blob_truncate(txn, other, 3));
}

/* Makes a hash table split, chain and merge, with elements of every length, including the longest
 * that are stored on a page. */
static void hash(struct lladd_txn *txn, unsigned flags, uint32_t key, uint32_t value, unsigned n)
{
    struct lladd_hash_options o = LLADD_HASH_OPTIONS_INIT;
    struct lladd_hash *h;
    lladd_pageno root;
    unsigned char k[1000] = {0};
    o.key_size = key;
    o.value_size = value;
    ok(txn, lladd_hash_create(txn, &o, &root));
    ok_db(&b, lladd_hash_open(b.db, root, flags, &h, &b.err));
    for (unsigned i = 0; i < n; i++) {
        memcpy(k, &i, sizeof i);
        ok(txn, lladd_hash_insert(txn, h, k, key ? key : 4 + i % 500, bytes,
                                  value ? value : i * 7 % 1500));
    }
    for (unsigned i = 0; i < n; i++) {
        memcpy(k, &i, sizeof i);
        if (i % 3)
            ok(txn, lladd_hash_delete(txn, h, k, key ? key : 4 + i % 500));
        else
            ok(txn, lladd_hash_put(txn, h, k, key ? key : 4 + i % 500, bytes + 1,
                                   value ? value : i * 11 % 1500));
    }
    lladd_hash_close(h);
}

static void journal_and_rows(void)
{
    struct lladd_managed_options m = LLADD_MANAGED_OPTIONS_INIT;
    struct lladd_managed *rows;
    struct lladd_txn *txn = fixture_begin(&b);
    uint64_t tag;
    m.type = LLADD_DTABLE_U32;
    ok(txn, lladd_journal_acquire(txn, "log", "test", &tag));
    ok(txn, lladd_managed_create(txn, "rows", &m));
    commit(txn);
    ok_db(&b, lladd_managed_open(b.db, "rows", &rows, &b.err));
    txn = fixture_begin(&b);
    for (uint32_t i = 0; i < 50; i++) {
        struct lladd_dtable_key k = lladd_dtable_u32(i);
        struct lladd_dtable_value v = lladd_dtable_value_of(bytes, 1000);
        ok(txn, lladd_managed_put(txn, rows, &k, &v));
        ok(txn, lladd_journal_append(txn, tag, lladd_span_of(bytes, 1000), NULL));
    }
    commit(txn);
    ok_db(&b, lladd_managed_digest(rows, &b.err));
    txn = fixture_begin(&b);
    ok(txn, lladd_journal_discard(txn, tag, lladd_lsn_of(0)));
    commit(txn);
    ok_db(&b, lladd_managed_close(rows, &b.err));
}

static void everything(uint32_t size)
{
    unsigned n = 60 * (size / 4096 < 8 ? size / 4096 : 8);
    for (unsigned i = 0; i < 2; i++) { /* commits in one round, and rolls back in the other */
        struct lladd_txn *txn = fixture_begin(&b);
        pages(txn, size);
        heap_array_list_blob(txn, size);
        for (unsigned flags = LLADD_HASH_LOGICAL; flags <= LLADD_HASH_PHYSICAL; flags++) {
            hash(txn, flags, 0, 0, n);
            hash(txn, flags, 300, 900, n);
        }
        for (uint64_t k = 0; k < 20; k++)
            ok(txn, lladd_lock_acquire(txn, LLADD_LOCK_NAME(lladd_lock_id(k)), LLADD_LOCK_X,
                                       LLADD_LOCK_TRY));
        struct lladd_gid gid = fixture_gid(i ? "no" : "yes");
        ok(txn, lladd_prepare(txn, &gid));
        if (i)
            abort_txn(txn);
        else
            commit(txn);
    }
    journal_and_rows();
    struct lladd_txn *loser = fixture_begin(&b);
    hash(loser, LLADD_HASH_PHYSICAL, 300, 900, n);
    ok_db(&b, lladd_checkpoint(b.db, &b.err));
    fixture_crash(&b);
    fixture_close(&b);
}

/* ---- tests ----------------------------------------------------------------------------------- */

START_TEST(a_ring_is_refused_at_open_or_enough_for_everything)
{
    uint32_t size = 4096u << _i;
    unsigned refusals = 0, worked = 0;
    uint64_t need = 0;
    for (uint64_t ring = 1024; worked < 3 && ring <= 1u << 30; ring *= 2) {
        init(size, ring);
        if (fixture_try_open(&b) != 0) {
            uint64_t names = refused();
            ck_assert_msg(need == 0 || names == need, "with %llu it is %llu",
                          (unsigned long long)ring, (unsigned long long)names);
            need = names;
            refusals++;
            fixture_free(&b);
            continue;
        }
        ck_assert_msg(ring >= need, "%llu is taken, and %llu was asked for",
                      (unsigned long long)ring, (unsigned long long)need);
        ck_assert_uint_gt(refusals, 0);
        ck_assert_msg(ring == need || worked, "%llu is refused, and enough",
                      (unsigned long long)need);
        everything(size);
        worked++;
        fixture_free(&b);
    }
    ck_assert_uint_eq(need, 16 * (uint64_t)size); /* as lladd.h says */
}
END_TEST

/* ---- the application's operations ------------------------------------------------------------ */

static const struct lladd_op large = {.struct_size = sizeof large,
                                      .name = "test.large",
                                      .version = 1,
                                      .record_max = 100000,
                                      .undo_kind = LLADD_UNDO_NONE,
                                      .credit_max = 4,
                                      .validate = fixture_any,
                                      .redo = fixture_nothing};
static const struct lladd_op endless = {.struct_size = sizeof endless,
                                        .name = "test.endless",
                                        .version = 1,
                                        .record_max = 1u << 22,
                                        .undo_kind = LLADD_UNDO_NONE,
                                        .credit_max = 1000,
                                        .validate = fixture_any,
                                        .redo = fixture_nothing};

/* A database was opened with a small buffer. After a crash, an operation is registered that needs a
 * larger buffer. The next open returns an error that names the operation and the size. */
START_TEST(an_operation_registered_later_needs_a_larger_ring)
{
    lladd_op_id id;
    lladd_pageno page;
    init(4096, 64u << 10);
    fixture_open(&b);
    page = fixture_page(&b, "lladd.bytes");
    fixture_kill(&b);
    ok_db(&b, lladd_register_op(&b.options, &large, &b.err));
    uint64_t need = refused();
    ck_assert_ptr_nonnull(strstr(b.err.message, "test.large"));
    ck_assert_uint_eq(need, 1u << 20); /* credit for 4 records exceeds 5/8 of 512 KiB */
    b.options.log_ring_bytes = need / 2;
    ck_assert_uint_eq(refused(), need);
    b.options.log_ring_bytes = need;
    fixture_open(&b);
    ok_db(&b, lladd_op_lookup(b.db, "test.large", 1, &id));
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_log_credit(txn, id, 4));
    refuses(txn, LLADD_TOO_LARGE, lladd_log_credit(txn, id, 8));
    ck_assert_ptr_nonnull(strstr(lladd_txn_error(txn)->message, "five eighths"));
    ck_assert_ptr_nonnull(strstr(lladd_txn_error(txn)->message, "must be at least 2097152"));
    memset(bytes, 1, sizeof bytes);
    ok(txn, lladd_update(txn, id, page, bytes, 60000));
    commit(txn);
    fixture_crash(&b);
    fixture_close(&b);
    fixture_free(&b);
}
END_TEST

START_TEST(an_operation_too_large_for_any_ring_is_refused)
{
    init(4096, 1u << 20);
    ok_db(&b, lladd_register_op(&b.options, &endless, &b.err));
    ck_assert_int_eq(fixture_try_open(&b), LLADD_BAD_REGISTRATION);
    ck_assert_ptr_nonnull(strstr(b.err.message, "test.endless"));
    fixture_free(&b);
}
END_TEST

/* An open that is refused creates no file. */
START_TEST(a_refused_open_creates_no_file)
{
    init(4096, 4096);
    (void)refused();
    b.options.log_ring_bytes = 64u << 10;
    b.options.flags |= LLADD_OPT_MUST_EXIST;
    ck_assert_int_eq(fixture_try_open(&b), LLADD_NOT_A_DATABASE);
    struct lladd_file *f;
    struct lladd_device *dev = b.options.device;
    ck_assert_int_ne(dev->ops->open(dev, "creating", LLADD_OPEN_READ_ONLY, &f), 0);
    fixture_free(&b);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("ring");
    TCase *tc = tcase_create("ring");
    tcase_add_loop_test(tc, a_ring_is_refused_at_open_or_enough_for_everything, 0, 5);
    tcase_add_test(tc, an_operation_registered_later_needs_a_larger_ring);
    tcase_add_test(tc, an_operation_too_large_for_any_ring_is_refused);
    tcase_add_test(tc, a_refused_open_creates_no_file);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
