/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The undo reserve of an open transaction is large enough for all that its rollback can log
 * (REC-3), and only a little larger. After one small change of a structure the reserve is at most
 * three times what the rollback logs. Each row of the table `cases` is one small change.
 */
#include "op_fixture.h"

#include <lladd/array.h>
#include <lladd/blob.h>
#include <lladd/btree.h>
#include <lladd/dtable_managed.h>
#include <lladd/hash.h>
#include <lladd/heap.h>
#include <lladd/journal.h>
#include <lladd/list.h>
#include <lladd/pages.h>
#include <lladd/records.h>
#include <lladd/stats.h>

enum { TIMES = 3 };

static struct fixture b;
static unsigned char bytes[100];
static lladd_pageno page;
static struct lladd_rid rid;
static struct lladd_heap *heap;
static struct lladd_array *array;
static struct lladd_list *list;
static struct lladd_hash *hash;
static struct lladd_btree *tree;
static struct lladd_managed *rows;
static uint64_t tag;

static struct lladd_stats stats(void)
{
    struct lladd_stats s = {.struct_size = sizeof s};
    ok_db(&b, lladd_stats_get(b.db, &s));
    return s;
}

/* ---- the structures -------------------------------------------------------------------------- */

static void make_page(struct lladd_txn *txn)
{
    ok(txn, lladd_page_alloc(txn, &page));
    ok(txn, lladd_bytes_format(txn, page));
}

static void set_bytes(struct lladd_txn *txn)
{
    bytes[0]++;
    ok(txn, lladd_bytes_set(txn, page, 0, bytes, 8));
}

static void add(struct lladd_txn *txn)
{
    ok(txn, lladd_counter_add(txn, page, 0, 1));
}

static void alloc_page(struct lladd_txn *txn)
{
    lladd_pageno another;
    ok(txn, lladd_page_alloc(txn, &another));
}

static void alloc_extent(struct lladd_txn *txn)
{
    lladd_pageno first;
    ok(txn, lladd_extent_alloc(txn, 20, LLADD_EXTENT_RAW, &first));
}

static void make_region(struct lladd_txn *txn)
{
    ok(txn, lladd_region_create(txn, 4, LLADD_EXTENT_PAGED, 1, &page));
}

static void another_region(struct lladd_txn *txn)
{
    lladd_pageno first;
    ok(txn, lladd_region_create(txn, 4, LLADD_EXTENT_PAGED, 2, &first));
}

static void set_root(struct lladd_txn *txn)
{
    ok(txn, lladd_root_set(txn, "a name", (struct lladd_root_value){bytes[0]++, 2}));
}

static void make_slotted(struct lladd_txn *txn)
{
    ok(txn, lladd_page_alloc(txn, &page));
    ok(txn, lladd_slotted_format(txn, page, 0));
    ok(txn, lladd_slotted_alloc(txn, page, bytes, 20, 0, &rid));
}

static void set_slotted(struct lladd_txn *txn)
{
    bytes[0]++;
    ok(txn, lladd_slotted_set(txn, rid, bytes, 20, 0));
}

static void alloc_slotted(struct lladd_txn *txn)
{
    struct lladd_rid r;
    ok(txn, lladd_slotted_alloc(txn, page, bytes, 20, 0, &r));
}

static void make_fixed(struct lladd_txn *txn)
{
    ok(txn, lladd_page_alloc(txn, &page));
    ok(txn, lladd_fixed_format(txn, page, 16));
    ok(txn, lladd_fixed_alloc(txn, page, bytes, &rid));
}

static void set_fixed(struct lladd_txn *txn)
{
    bytes[0]++;
    ok(txn, lladd_fixed_set(txn, rid, 0, bytes, 8));
}

static void make_heap(struct lladd_txn *txn)
{
    ok(txn, lladd_heap_create_open(txn, &page, &heap));
    ok(txn, lladd_heap_insert(txn, heap, bytes, 20, &rid));
}

static void insert_record(struct lladd_txn *txn)
{
    struct lladd_rid r;
    ok(txn, lladd_heap_insert(txn, heap, bytes, 20, &r));
}

static void delete_record(struct lladd_txn *txn)
{
    ok(txn, lladd_heap_delete(txn, heap, rid));
}

static void make_array(struct lladd_txn *txn)
{
    ok(txn, lladd_array_create_open(txn, 8, 100, &page, &array));
}

static void set_element(struct lladd_txn *txn)
{
    bytes[0]++;
    ok(txn, lladd_array_set(txn, array, 7, bytes));
}

static void extend_array(struct lladd_txn *txn)
{
    ok(txn, lladd_array_extend(txn, array, 1, NULL));
}

static void make_blob(struct lladd_txn *txn)
{
    ok(txn, lladd_blob_create(txn, bytes, sizeof bytes, &page));
}

static void write_blob(struct lladd_txn *txn)
{
    bytes[0]++;
    ok(txn, lladd_blob_write(txn, page, 10, bytes, 20));
}

static void append_blob(struct lladd_txn *txn)
{
    ok(txn, lladd_blob_append(txn, page, bytes, 20));
}

static void make_list(struct lladd_txn *txn)
{
    struct lladd_item at;
    ok(txn, lladd_list_create_open(txn, &page, &list));
    ok(txn, lladd_list_append(txn, list, bytes, 20, &at));
}

static void append_item(struct lladd_txn *txn)
{
    struct lladd_item at;
    ok(txn, lladd_list_append(txn, list, bytes, 20, &at));
}

static void make_hash(struct lladd_txn *txn)
{
    struct lladd_hash_options o = LLADD_HASH_OPTIONS_INIT;
    ok(txn, lladd_hash_create(txn, &o, &page));
}

static void open_hash(void)
{
    struct lladd_txn *txn = fixture_begin(&b);
    ok_db(&b, lladd_hash_open(b.db, page, 0, &hash, &b.err));
    ok(txn, lladd_hash_put(txn, hash, "key", 3, bytes, 8));
    commit(txn);
}

static void put_key(struct lladd_txn *txn)
{
    bytes[0]++;
    ok(txn, lladd_hash_put(txn, hash, "key", 3, bytes, 8));
}

static void insert_key(struct lladd_txn *txn)
{
    ok(txn, lladd_hash_insert(txn, hash, "another", 7, bytes, 8));
}

static void delete_key(struct lladd_txn *txn)
{
    ok(txn, lladd_hash_delete(txn, hash, "key", 3));
}

static void make_tree(struct lladd_txn *txn)
{
    struct lladd_btree_options o = LLADD_BTREE_OPTIONS_INIT;
    ok(txn, lladd_btree_create(txn, &o, &page));
}

static void open_tree(void)
{
    struct lladd_txn *txn = fixture_begin(&b);
    ok_db(&b, lladd_btree_open(b.db, page, &tree, &b.err));
    ok(txn, lladd_btree_put(txn, tree, "key", 3, bytes, 8));
    commit(txn);
}

static void put_row(struct lladd_txn *txn)
{
    bytes[0]++;
    ok(txn, lladd_btree_put(txn, tree, "key", 3, bytes, 8));
}

static void insert_row(struct lladd_txn *txn)
{
    ok(txn, lladd_btree_insert(txn, tree, "another", 7, bytes, 8));
}

static void delete_row(struct lladd_txn *txn)
{
    ok(txn, lladd_btree_delete(txn, tree, "key", 3));
}

static void make_journal(struct lladd_txn *txn)
{
    ok(txn, lladd_journal_acquire(txn, "log", "test", &tag));
}

static void append_entry(struct lladd_txn *txn)
{
    ok(txn, lladd_journal_append(txn, tag, lladd_span_of(bytes, 20), NULL));
}

static void make_rows(struct lladd_txn *txn)
{
    struct lladd_managed_options m = LLADD_MANAGED_OPTIONS_INIT;
    m.type = LLADD_DTABLE_U32;
    ok(txn, lladd_managed_create(txn, "rows", &m));
}

static void open_rows(void)
{
    ok_db(&b, lladd_managed_open(b.db, "rows", &rows, &b.err));
}

static void put_managed(struct lladd_txn *txn)
{
    struct lladd_dtable_key k = lladd_dtable_u32(7);
    struct lladd_dtable_value v = lladd_dtable_value_of(bytes, 20);
    ok(txn, lladd_managed_put(txn, rows, &k, &v));
}

static const struct {
    const char *name;
    void (*make)(struct lladd_txn *);
    void (*open)(void); /* called after the commit of `make`; may be NULL */
    void (*change)(struct lladd_txn *);
} cases[] = {
    {"bytes", make_page, NULL, set_bytes},
    {"counter", make_page, NULL, add},
    {"page", make_page, NULL, alloc_page},
    {"extent", make_page, NULL, alloc_extent},
    {"region", make_region, NULL, another_region},
    {"root", set_root, NULL, set_root},
    {"slotted: set", make_slotted, NULL, set_slotted},
    {"slotted: alloc", make_slotted, NULL, alloc_slotted},
    {"fixed", make_fixed, NULL, set_fixed},
    {"heap: insert", make_heap, NULL, insert_record},
    {"heap: delete", make_heap, NULL, delete_record},
    {"array: set", make_array, NULL, set_element},
    {"array: extend", make_array, NULL, extend_array},
    {"blob: write", make_blob, NULL, write_blob},
    {"blob: append", make_blob, NULL, append_blob},
    {"list", make_list, NULL, append_item},
    {"hash: put", make_hash, open_hash, put_key},
    {"hash: insert", make_hash, open_hash, insert_key},
    {"hash: delete", make_hash, open_hash, delete_key},
    {"btree: put", make_tree, open_tree, put_row},
    {"btree: insert", make_tree, open_tree, insert_row},
    {"btree: delete", make_tree, open_tree, delete_row},
    {"journal", make_journal, NULL, append_entry},
    {"managed", make_rows, open_rows, put_managed},
};
enum { CASES = sizeof cases / sizeof cases[0] };

static void close_handles(void)
{
    lladd_heap_close(heap);
    lladd_array_close(array);
    lladd_list_close(list);
    lladd_hash_close(hash);
    lladd_btree_close(tree);
    ok_db(&b, rows ? lladd_managed_close(rows, &b.err) : 0);
    heap = NULL; /* a case that opens no heap runs after this one in the same process */
    array = NULL;
    list = NULL;
    hash = NULL;
    tree = NULL;
    rows = NULL;
}

/* A larger transaction. The next transaction takes over its handle, with the undo reserve. */
static void larger(void)
{
    struct lladd_txn *txn = fixture_begin(&b);
    for (uint64_t i = 0; i < 50; i++)
        ok(txn, lladd_root_set(txn, "larger", (struct lladd_root_value){i, i}));
    abort_txn(txn);
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* Measures the change twice. The first transaction begins with no reserve. The second one takes
 * over the handle of a larger transaction that has ended, with its reserve. `keeper` is idle and
 * has taken over the reserve that earlier transactions have left. So the statistics change only by
 * the reserve of `txn`. */
START_TEST(a_small_transaction_has_a_small_undo_reserve)
{
    fixture_init(&b, 4096);
    ok_db(&b, lladd_journal_register(&b.options, &b.err));
    ok_db(&b, lladd_managed_register(&b.options, &b.err));
    fixture_open(&b);
    struct lladd_txn *txn = fixture_begin(&b);
    cases[_i].make(txn);
    commit(txn);
    if (cases[_i].open)
        cases[_i].open();
    /* The first change also does what only a first change needs, for instance it looks up the ids
     * of operations and reserves space for the next checkpoint. It is not measured. */
    struct lladd_txn *keeper = fixture_begin(&b), *other = fixture_begin(&b);
    txn = fixture_begin(&b);
    cases[_i].change(txn);
    abort_txn(txn);
    larger();
    abort_txn(keeper);
    keeper = fixture_begin(&b);
    uint64_t before = stats().undo_reserved;
    for (unsigned k = 0; k < 2; k++) {
        txn = fixture_begin(&b);
        cases[_i].change(txn);
        uint64_t aside = stats().undo_reserved - before, tail = stats().log_tail;
        abort_txn(txn);
        uint64_t logged = stats().log_tail - tail;
        ck_assert_uint_gt(logged, 0);
        ck_assert_msg(logged <= aside && aside <= TIMES * logged,
                      "%s: %llu bytes are set aside, the rollback has logged %llu", cases[_i].name,
                      (unsigned long long)aside, (unsigned long long)logged);
        larger();
    }
    abort_txn(keeper);
    abort_txn(other);
    close_handles();
    fixture_close(&b);
    fixture_free(&b);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("aside");
    TCase *tc = tcase_create("aside");
    tcase_add_loop_test(tc, a_small_transaction_has_a_small_undo_reserve, 0, CASES);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
