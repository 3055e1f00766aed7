/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A forked process has the memory of a handle, but not its threads and files. When the parent
 * forked, a thread may have held any mutex. So in the child each call refuses the handle
 * (LLADD_FORKED) before it takes a mutex. Here the parent holds a mutex while it forks. So a call
 * of the child that takes this mutex aborts (debug builds) or never returns. dTables have their own
 * test (tests/dtable_managed/test_fork.c).
 */
#include "op_fixture.h"
#include "operations/array/array.h"
#include "operations/journal/table.h"
#include "operations/list/list.h"
#include "operations/lock/table.h"
#include "operations/pages/region.h"

#include <lladd/array.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static struct fixture b;
static struct lladd_txn *txn;
static struct lladd_array *array;
static struct lladd_list *list;
static int wrong; /* in the child: the number of wrong results */

#define FORKED(call) \
    do { \
        int forked_rc = (call); \
        if (forked_rc != LLADD_FORKED) { \
            fprintf(stderr, "%s: %s\n", #call, forked_rc ? lladd_code_name(forked_rc) : "done"); \
            wrong++; \
        } \
    } while (0)

static void setup(void)
{
    lladd_pageno root;
    fixture_init_threads(&b);
    ck_assert_int_eq(lladd_lock_register(&b.options, &b.err), 0);
    ck_assert_int_eq(lladd_journal_register(&b.options, &b.err), 0);
    fixture_open(&b);
    txn = fixture_begin(&b);
    ok(txn, lladd_array_create_open(txn, 8, 10, &root, &array));
    ok(txn, lladd_list_create_open(txn, &root, &list));
    commit(txn);
    txn = fixture_begin(&b);
}

static void teardown(void)
{
    abort_txn(txn);
    lladd_array_close(array);
    lladd_list_close(list);
    fixture_free(&b);
}

/* Forks while this thread holds the mutex, and makes the calls in the child. */
static void fork_with(struct lladd_mutex *held, void (*calls)(void))
{
    int status = 0;
    lladd_mutex_lock(held);
    pid_t child = fork();
    if (child == 0) {
        calls();
        _exit(wrong != 0);
    }
    lladd_mutex_unlock(held);
    ck_assert_int_gt(child, 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %d", status);
}

static int no_region(void *ctx, const struct lladd_region *r)
{
    (void)ctx;
    (void)r;
    return 0;
}

static void regions(void)
{
    struct lladd_region r;
    lladd_pageno first;
    FORKED(lladd_region_get(b.db, lladd_page_of(9), &r, &b.err));
    FORKED(lladd_region_each(b.db, no_region, NULL, NULL));
    FORKED(lladd_region_create(txn, 1, LLADD_EXTENT_PAGED, 0, &first));
    FORKED(lladd_region_destroy(txn, lladd_page_of(9)));
}

START_TEST(regions_refuse)
{
    struct ll_regions *all = lladd_extension_state(b.db, &ll_operations__region_extension);
    lladd_pageno first;
    fork_with(&all->create, regions);
    ok(txn, lladd_region_create(txn, 1, LLADD_EXTENT_PAGED, 0, &first)); /* the parent goes on */
}
END_TEST

static void arrays(void)
{
    uint64_t first;
    FORKED(lladd_array_extend(txn, array, 1, &first));
    FORKED(lladd_array_shrink(txn, array, 1));
    FORKED(lladd_array_set(txn, array, 3, "12345678"));
}

START_TEST(arrays_refuse)
{
    fork_with(&array->change, arrays);
}
END_TEST

static void lists(void)
{
    struct lladd_item item;
    FORKED(lladd_list_append(txn, list, "x", 1, &item));
    FORKED(lladd_list_insert(txn, list, LLADD_ITEM_NONE, "x", 1, &item));
}

START_TEST(lists_refuse)
{
    fork_with(&list->change, lists);
}
END_TEST

static int no_lock(void *ctx, const struct lladd_lock_info *info)
{
    (void)ctx;
    (void)info;
    return 0;
}

static int no_wait(void *ctx, const struct lladd_lock_event *event)
{
    (void)ctx;
    (void)event;
    return 0;
}

static void locks(void)
{
    struct lladd_lock_stats stats = {.struct_size = sizeof stats};
    struct lladd_lock_options options = LLADD_LOCK_OPTIONS_INIT;
    struct lladd_lock_part part = lladd_lock_id(1);
    struct lladd_lock_name name = {&part, 1};
    FORKED(lladd_lock_acquire(txn, name, LLADD_LOCK_X, 0));
    FORKED(lladd_lock_each(b.db, no_lock, NULL, &b.err));
    FORKED(lladd_lock_blockers(b.db, 1, no_lock, NULL, &b.err));
    FORKED(lladd_lock_history(b.db, no_wait, NULL, &b.err));
    FORKED(lladd_lock_stats_get(b.db, &stats, &b.err));
    FORKED(lladd_lock_configure(b.db, &options, &b.err));
}

START_TEST(locks_refuse)
{
    struct ll_locks *all = lladd_extension_state(b.db, &ll_operations__lock_extension);
    fork_with(&all->parts[0].mutex, locks);
}
END_TEST

static int no_tag(void *ctx, const struct lladd_journal_info *info)
{
    (void)ctx;
    (void)info;
    return 0;
}

static int no_entry(void *ctx, const struct lladd_journal_entry *entry, struct lladd_error *err)
{
    (void)ctx;
    (void)entry;
    (void)err;
    return 0;
}

static void journal(void)
{
    uint64_t tag;
    lladd_lsn newest;
    FORKED(lladd_journal_acquire(txn, "a", "b", &tag));
    FORKED(lladd_journal_append(txn, 1, lladd_span_of("x", 1), NULL));
    FORKED(lladd_journal_find(b.db, "a", &tag, &b.err));
    FORKED(lladd_journal_newest(b.db, 1, &newest, &b.err));
    FORKED(lladd_journal_replay(b.db, 1, no_entry, NULL, &b.err));
    FORKED(lladd_journal_detach(b.db, 1, &b.err));
    FORKED(lladd_journal_clean(b.db, 1, lladd_lsn_of(1), NULL, &b.err));
    FORKED(lladd_journal_each(b.db, no_tag, NULL, &b.err));
}

START_TEST(journal_refuses)
{
    struct ll_journal *j = lladd_extension_state(b.db, &ll_operations__journal_extension);
    fork_with(&j->mutex, journal);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("fork");
    TCase *tc = tcase_create("fork");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, regions_refuse);
    tcase_add_test(tc, arrays_refuse);
    tcase_add_test(tc, lists_refuse);
    tcase_add_test(tc, locks_refuse);
    tcase_add_test(tc, journal_refuses);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
