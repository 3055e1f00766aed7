/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An application's threads may have stacks of only PTHREAD_STACK_MIN bytes (16 KiB). Calls of most
 * structures, locks, the journal, the end of transactions, checkpoints and recovery must work on
 * such a stack.
 */
#include "op_fixture.h"

#include <lladd/array.h>
#include <lladd/blob.h>
#include <lladd/dtable.h>
#include <lladd/dtable_managed.h>
#include <lladd/hash.h>
#include <lladd/heap.h>
#include <lladd/journal.h>
#include <lladd/list.h>
#include <lladd/lock.h>
#include <lladd/records.h>
#include <pthread.h>
#include <stdio.h>

#ifdef LL_TEST_SHORT
#define STACK (1u << 18) /* instrumented code has longer frames */
#else
#define STACK 16384u
#endif
#define BIG 300000u

static const uint32_t page_sizes[] = {4096, 65536};
enum { SIZES = sizeof page_sizes / sizeof *page_sizes };

static struct fixture b;
static unsigned char *big;

static void setup(int size)
{
    fixture_init(&b, page_sizes[size]);
    ok_db(&b, lladd_lock_register(&b.options, &b.err));
    ok_db(&b, lladd_journal_register(&b.options, &b.err));
    ok_db(&b, lladd_managed_register(&b.options, &b.err));
    big = malloc(BIG);
    ck_assert_ptr_nonnull(big);
    /* Half of the bytes can be compressed; the other half cannot. */
    for (uint32_t i = 0; i < BIG; i++)
        big[i] = i / 64 % 2 ? 'x' : (unsigned char)(i * 2654435761u >> 13);
}

static void teardown(void)
{
    fixture_free(&b); /* also checks all pages */
    free(big);
}

/* The work and the result of a thread with a short stack. It does not use Check's assertions, which
 * would need more stack. */
struct task {
    int (*run)(struct task *);
    const char *failed; /* the call */
    int rc;
};

#define STEP(call) \
    do { \
        t->rc = (call); \
        if (t->rc) { \
            t->failed = #call; \
            return t->rc; \
        } \
    } while (0)

static void *start(void *arg)
{
    struct task *t = arg;
    (void)t->run(t);
    return NULL;
}

static void on_short_stack(int (*run)(struct task *))
{
    struct task t = {run, "", 0};
    pthread_attr_t attr;
    pthread_t thread;
    ck_assert_int_eq(pthread_attr_init(&attr), 0);
    ck_assert_int_eq(pthread_attr_setstacksize(&attr, STACK), 0);
    ck_assert_int_eq(pthread_create(&thread, &attr, start, &t), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(pthread_attr_destroy(&attr), 0);
    ck_assert_msg(t.rc == 0, "%s: %s", t.failed, lladd_code_name(t.rc));
}

static int records(struct task *t, struct lladd_txn *txn)
{
    lladd_pageno root, blob, list, array;
    struct lladd_heap *heap;
    struct lladd_rid rid;
    struct lladd_item item;
    struct lladd_list *l;
    struct lladd_array *a;
    STEP(lladd_heap_create_open(txn, &root, &heap));
    for (int i = 0; i < 300; i++) {
        STEP(lladd_heap_insert(txn, heap, big, 100, &rid));
        if (i % 3 == 0)
            STEP(lladd_heap_delete(txn, heap, rid));
        else
            STEP(lladd_heap_set(txn, heap, rid, big, i % 7 ? 60 : 900));
    }
    lladd_heap_close(heap);
    STEP(lladd_blob_create(txn, big, 100000, &blob));
    STEP(lladd_blob_write(txn, blob, 5000, big, 40000));
    STEP(lladd_blob_replace(txn, blob, big, BIG));
    STEP(lladd_list_create(txn, &list));
    STEP(lladd_list_open(b.db, list, &l, &b.err));
    for (int i = 0; i < 300; i++)
        STEP(lladd_list_append(txn, l, big, 200, &item));
    lladd_list_close(l);
    STEP(lladd_array_create(txn, 8, 100000, &array));
    STEP(lladd_array_open(b.db, array, &a, &b.err));
    STEP(lladd_array_set_range(txn, a, 0, 20000, big));
    lladd_array_close(a);
    return 0;
}

static int hashes(struct task *t, struct lladd_txn *txn, const struct lladd_hash_options *options)
{
    struct lladd_hash *h;
    lladd_pageno root;
    bool fixed = options && options->key_size;
    STEP(lladd_hash_create(txn, options, &root));
    STEP(lladd_hash_open(b.db, root, 0, &h, &b.err));
    for (int i = 0; i < 2000; i++)
        STEP(lladd_hash_put(txn, h, &i, sizeof i, big, fixed || i % 400 ? 20 : 20000));
    for (int i = 0; i < 2000; i += 2)
        STEP(lladd_hash_delete(txn, h, &i, sizeof i));
    lladd_hash_close(h);
    return 0;
}

static int run_of_rows(struct task *t, struct lladd_txn *txn)
{
    struct lladd_dtable_run_options options = LLADD_DTABLE_RUN_OPTIONS_INIT;
    struct lladd_dtable_run_builder *builder;
    lladd_pageno root;
    options.type = LLADD_DTABLE_U32;
    options.text = "class(dt) compress_dtable config [ \"base\" class(dt) linear_dtable ]";
    STEP(lladd_dtable_run_begin(txn, &options, &builder));
    for (uint32_t i = 0; i < 500; i++) {
        struct lladd_dtable_key key = lladd_dtable_u32(i);
        struct lladd_dtable_value value = lladd_dtable_value_of(big, 100);
        STEP(lladd_dtable_run_add(builder, &key, &value));
    }
    STEP(lladd_dtable_run_finish(builder, &root));
    return 0;
}

static int locks(struct task *t, struct lladd_txn *txn)
{
    for (uint64_t i = 0; i < 50; i++) {
        struct lladd_lock_part path[] = {lladd_lock_id(7), lladd_lock_bytes(big, 2000),
                                         lladd_lock_id(i)};
        struct lladd_lock_name name = {path, 3};
        STEP(lladd_lock_acquire(txn, name, LLADD_LOCK_S, LLADD_LOCK_TRY));
        STEP(lladd_lock_acquire(txn, name, LLADD_LOCK_X, LLADD_LOCK_TRY));
    }
    return 0;
}

static int journal(struct task *t, struct lladd_txn *txn)
{
    uint64_t tag;
    STEP(lladd_journal_acquire(txn, "stack", "test", &tag));
    for (int i = 0; i < 100; i++)
        STEP(lladd_journal_append(txn, tag, lladd_span_of(big, 3000), NULL));
    STEP(lladd_journal_discard(txn, tag, lladd_lsn_of(0)));
    return 0;
}

static int see_entry(void *ctx, const struct lladd_journal_entry *entry, struct lladd_error *err)
{
    (void)err;
    *(uint64_t *)ctx += entry->bytes.len;
    return 0;
}

static int replay(struct task *t)
{
    uint64_t tag, bytes = 0;
    STEP(lladd_journal_find(b.db, "stack", &tag, &b.err));
    STEP(lladd_journal_replay(b.db, tag, see_entry, &bytes, &b.err));
    return 0;
}

static int regions(struct task *t, struct lladd_txn *txn)
{
    struct lladd_region region;
    lladd_pageno first, other;
    STEP(lladd_region_create(txn, 20, LLADD_EXTENT_PAGED, 1, &first));
    STEP(lladd_region_create(txn, 20, LLADD_EXTENT_RAW, 2, &other));
    STEP(lladd_region_get(b.db, first, &region, &b.err));
    STEP(lladd_region_destroy(txn, other));
    return 0;
}

static int rows(struct task *t, struct lladd_txn *txn, struct lladd_managed *table)
{
    unsigned char value[100];
    size_t len;
    for (uint32_t i = 0; i < 300; i++) {
        struct lladd_dtable_key key = lladd_dtable_bytes(big, 200 + i);
        struct lladd_dtable_value v = lladd_dtable_value_of(big, 100 + i);
        STEP(lladd_managed_put(txn, table, &key, &v));
        STEP(lladd_managed_get(txn, table, &key, value, sizeof value, &len));
    }
    struct lladd_dtable_key from = lladd_dtable_bytes("0", 1), to = lladd_dtable_bytes("5", 1);
    STEP(lladd_managed_delete_range(txn, table, &from, &to));
    STEP(lladd_managed_lock(txn, table, &from, LLADD_LOCK_X, LLADD_LOCK_TRY));
    return 0;
}

static int open_table(struct task *t, struct lladd_managed **table)
{
    struct lladd_managed_options options = LLADD_MANAGED_OPTIONS_INIT;
    options.type = LLADD_DTABLE_BYTES;
    STEP(lladd_managed_create_open(b.db, "rows", &options, table, &b.err));
    return 0;
}

/* Locks, journal entries, regions and rows, in one transaction. */
static int modules(struct task *t, struct lladd_txn *txn, struct lladd_managed *table)
{
    int rc = locks(t, txn);
    rc = rc ? rc : journal(t, txn);
    rc = rc ? rc : regions(t, txn);
    return rc ? rc : rows(t, txn, table);
}

static int all(struct task *t)
{
    struct lladd_managed *table;
    struct lladd_hash_options fixed = LLADD_HASH_OPTIONS_INIT;
    fixed.key_size = sizeof(int);
    fixed.value_size = 20;
    STEP(open_table(t, &table));
    for (int round = 0; round < 3; round++) {
        struct lladd_txn *txn;
        STEP(lladd_begin(b.db, NULL, &txn, &b.err));
        STEP(records(t, txn));
        STEP(hashes(t, txn, NULL));
        STEP(hashes(t, txn, &fixed));
        STEP(run_of_rows(t, txn));
        STEP(lladd_root_set(txn, "root", (struct lladd_root_value){1, 2}));
        STEP(modules(t, txn, table));
        if (round == 1) {
            struct lladd_gid gid = {.format = 1, .gtrid_length = 1};
            STEP(lladd_prepare(txn, &gid));
        }
        STEP(round == 2 ? lladd_abort(txn) : lladd_commit(txn));
        STEP(lladd_managed_digest(table, &b.err));
        STEP(lladd_checkpoint(b.db, &b.err)); /* so that the next change logs an image */
    }
    STEP(replay(t));
    STEP(lladd_managed_combine(table, 0, &b.err));
    STEP(lladd_managed_close(table, &b.err));
    return 0;
}

START_TEST(calls_on_a_stack_of_16_kib)
{
    setup(_i);
    fixture_open(&b);
    on_short_stack(all);
    teardown();
}
END_TEST

static int open_again(struct task *t)
{
    struct lladd_managed *table;
    STEP(lladd_open(NULL, &b.options, &b.db, &b.err));
    STEP(lladd_managed_open(b.db, "rows", &table, &b.err));
    STEP(lladd_managed_close(table, &b.err));
    STEP(replay(t));
    return 0;
}

/* Leaves committed changes after the last checkpoint, and a loser. */
static int to_be_recovered(struct task *t)
{
    struct lladd_txn *txn, *loser;
    struct lladd_managed *table;
    STEP(open_table(t, &table));
    STEP(lladd_begin(b.db, NULL, &txn, &b.err));
    STEP(records(t, txn));
    STEP(hashes(t, txn, NULL));
    STEP(lladd_begin(b.db, NULL, &loser, &b.err));
    STEP(hashes(t, loser, NULL));
    STEP(modules(t, txn, table));
    STEP(lladd_commit(txn));
    return 0;
}

START_TEST(recovery_on_a_stack_of_16_kib)
{
    setup(_i);
    fixture_open(&b);
    on_short_stack(to_be_recovered);
    fixture_kill(&b);
    on_short_stack(open_again);
    teardown();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("operations/stack");
    TCase *tc = tcase_create("stack");
    tcase_add_loop_test(tc, calls_on_a_stack_of_16_kib, 0, SIZES);
    tcase_add_loop_test(tc, recovery_on_a_stack_of_16_kib, 0, SIZES);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
