/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that create a structure and return a handle of it: lladd_hash_create_open, and the similar
 * calls for arrays, lists and heaps. */
#include "op_fixture.h"

#include <lladd/array.h>
#include <lladd/hash.h>
#include <lladd/heap.h>
#include <lladd/list.h>

static struct fixture b;

static void setup(void)
{
    fixture_init(&b, 4096);
    fixture_open(&b);
}

static void teardown(void)
{
    fixture_check(&b);
    fixture_free(&b);
}

/* ---- the same calls for all structures ------------------------------------------------------- */

enum kind { HASH, HASH_PHYSICAL, ARRAY, LIST, HEAP, KINDS };

static struct lladd_hash *hash;
static struct lladd_array *array;
static struct lladd_list *list;
static struct lladd_heap *heap;
static struct lladd_rid rid; /* the record stored last */

static int make(struct lladd_txn *txn, enum kind kind, lladd_pageno *root)
{
    struct lladd_hash_options o = LLADD_HASH_OPTIONS_INIT;
    o.key_size = o.value_size = 8;
    switch (kind) {
    case HASH:
    case HASH_PHYSICAL:
        return lladd_hash_create_open(
            txn, &o, kind == HASH ? LLADD_HASH_LOGICAL : LLADD_HASH_PHYSICAL, root, &hash);
    case ARRAY:
        return lladd_array_create_open(txn, 8, 1, root, &array);
    case HEAP:
        return lladd_heap_create_open(txn, root, &heap);
    default:
        return lladd_list_create_open(txn, root, &list);
    }
}

static int put(struct lladd_txn *txn, enum kind kind, uint64_t value)
{
    struct lladd_item item;
    switch (kind) {
    case HASH:
    case HASH_PHYSICAL:
        return lladd_hash_put(txn, hash, &value, 8, &value, 8);
    case ARRAY:
        return lladd_array_set(txn, array, 0, &value);
    case HEAP:
        return lladd_heap_insert(txn, heap, &value, 8, &rid);
    default:
        return lladd_list_append(txn, list, &value, 8, &item);
    }
}

static int has(enum kind kind, uint64_t value)
{
    struct lladd_item item;
    uint64_t got = 0;
    size_t len;
    int rc;
    switch (kind) {
    case HASH:
    case HASH_PHYSICAL:
        rc = lladd_hash_get(hash, &value, 8, &got, 8, &len, &b.err);
        break;
    case ARRAY:
        rc = lladd_array_get(array, 0, &got, &b.err);
        break;
    case HEAP:
        rc = lladd_heap_get(heap, rid, &got, 8, &len, &b.err);
        break;
    default:
        rc = lladd_list_next(list, LLADD_ITEM_NONE, &item, &got, 8, &len, &b.err);
    }
    ck_assert(rc || got == value);
    return rc;
}

static void close_all(void)
{
    lladd_hash_close(hash);
    lladd_array_close(array);
    lladd_list_close(list);
    lladd_heap_close(heap);
    hash = NULL;
    array = NULL;
    list = NULL;
    heap = NULL;
}

static int reopen(enum kind kind, lladd_pageno root)
{
    switch (kind) {
    case HASH:
    case HASH_PHYSICAL:
        return lladd_hash_open(b.db, root, 0, &hash, &b.err);
    case ARRAY:
        return lladd_array_open(b.db, root, &array, &b.err);
    case HEAP:
        return lladd_heap_open(b.db, root, &heap, &b.err);
    default:
        return lladd_list_open(b.db, root, &list, &b.err);
    }
}

START_TEST(a_new_structure_can_be_used_at_once)
{
    enum kind kind = (enum kind)_i;
    lladd_pageno root = {0};
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, make(txn, kind, &root));
    ok(txn, put(txn, kind, 17));
    ok_db(&b, has(kind, 17));
    commit(txn);
    ok_db(&b, has(kind, 17));
    close_all();
    fixture_crash(&b);
    ok_db(&b, reopen(kind, root));
    ok_db(&b, has(kind, 17));
    close_all();
}
END_TEST

/* A structure is destroyed when its creation is rolled back, either by an abort, or by a rollback
 * to a savepoint in a transaction that then commits. */
START_TEST(a_rollback_of_the_creation_destroys_the_structure)
{
    enum kind kind = (enum kind)_i;
    const uint64_t used = fixture_pages_used(&b);
    lladd_pageno root, other;
    lladd_savepoint_id sp;
    for (int partly = 0; partly < 2; partly++) {
        struct lladd_txn *txn = fixture_begin(&b);
        ok(txn, lladd_savepoint(txn, &sp));
        ok(txn, make(txn, kind, &root));
        for (uint64_t i = 0; i < 500; i++)
            ok(txn, put(txn, kind, i));
        if (partly) {
            ok(txn, lladd_rollback_to(txn, sp));
            refuses(txn, LLADD_DESTROYED, put(txn, kind, 1));
            ck_assert_int_eq(has(kind, 1), LLADD_DESTROYED);
            commit(txn);
        } else {
            abort_txn(txn);
        }
        ck_assert_int_eq(has(kind, 1), LLADD_DESTROYED);
        txn = fixture_begin(&b);
        refuses(txn, LLADD_DESTROYED, put(txn, kind, 1));
        abort_txn(txn);
        close_all();
        ck_assert_uint_eq(fixture_pages_used(&b), used);
    }
    struct lladd_txn *txn = fixture_begin(&b); /* reuses the pages of the destroyed structure */
    ok(txn, make(txn, kind, &other));
    ok(txn, put(txn, kind, 5));
    commit(txn);
    ok_db(&b, has(kind, 5));
    close_all();
}
END_TEST

/* After the rollback, another transaction uses the former root page for something else. */
START_TEST(a_handle_is_refused_after_its_root_page_is_reused)
{
    enum kind kind = (enum kind)_i;
    lladd_pageno root, page;
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, make(txn, kind, &root));
    abort_txn(txn);
    txn = fixture_begin(&b);
    for (unsigned i = 0; i < 100; i++) {
        ok(txn, lladd_page_alloc(txn, &page));
        ok(txn, lladd_bytes_format(txn, page));
    }
    commit(txn);
    enum lladd_page_use use;
    ok_db(&b, lladd_page_use_get(b.db, root, &use, &b.err));
    ck_assert_int_eq(use, LLADD_USE_PAGED);
    ck_assert_int_eq(has(kind, 1), kind == LIST ? LLADD_WRONG_TYPE : LLADD_DESTROYED);
    close_all();
    ck_assert_int_eq(reopen(kind, root), LLADD_WRONG_TYPE);
}
END_TEST

/* The n-th memory allocation fails. The call must return either both a structure and a handle, or
 * neither. */
START_TEST(without_memory_there_is_neither_structure_nor_handle)
{
    enum kind kind = (enum kind)_i;
    uint64_t failures = 0;
    for (uint64_t nth = 1; nth < 40; nth++) {
        const uint64_t used = fixture_pages_used(&b);
        lladd_pageno root = {99};
        struct lladd_txn *txn = fixture_begin(&b);
        fault_alloc_fail(&b.mem, nth, false);
        int rc = make(txn, kind, &root);
        fault_alloc_fail(&b.mem, 0, false);
        ck_assert_msg(rc == 0 || rc == LLADD_NO_MEMORY, "%s", lladd_code_name(rc));
        ck_assert(!rc || (!hash && !array && !list && !heap && root.v == 99));
        if (rc)
            ck_assert_uint_eq(fixture_pages_used(&b), used);
        else
            ok(txn, put(txn, kind, nth));
        failures += rc != 0;
        commit(txn);
        close_all();
    }
    ck_assert_uint_gt(failures, 3);
}
END_TEST

START_TEST(wrong_arguments_make_nothing)
{
    struct lladd_hash_options o = LLADD_HASH_OPTIONS_INIT;
    lladd_pageno root = {99};
    struct lladd_txn *txn = fixture_begin(&b);
    const uint64_t used = fixture_pages_used(&b);
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_hash_create_open(txn, &o, 2, &root, &hash));
    o.key_size = 5000;
    refuses(txn, LLADD_KEY_SIZE, lladd_hash_create_open(txn, &o, 0, &root, &hash));
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_array_create_open(txn, 0, 1, &root, &array));
    commit(txn);
    ck_assert(!hash && !array && root.v == 99);
    ck_assert_uint_eq(fixture_pages_used(&b), used);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("create and open");
    TCase *t = tcase_create("create_open");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, a_new_structure_can_be_used_at_once, 0, KINDS);
    tcase_add_loop_test(t, a_rollback_of_the_creation_destroys_the_structure, 0, KINDS);
    tcase_add_loop_test(t, a_handle_is_refused_after_its_root_page_is_reused, 0, KINDS);
    tcase_add_loop_test(t, without_memory_there_is_neither_structure_nor_handle, 0, KINDS);
    tcase_add_test(t, wrong_arguments_make_nothing);
    suite_add_tcase(s, t);
    return fixture_run(s);
}
