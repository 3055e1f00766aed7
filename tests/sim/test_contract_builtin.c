/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The operations on bytes, records, heaps, roots, pages and arrays keep every promise of the
 * contract. The samples are from the log of a database. Transactions, some of them concurrent, have
 * used the operations there, and have committed or rolled back.
 */
#include "operations/operations.h"

#include <check.h>
#include <lladd/array.h>
#include <lladd/device.h>
#include <lladd/extension.h>
#include <lladd/pages.h>
#include <lladd/heap.h>
#include <lladd/records.h>
#include <lladd/sim.h>
#include <stdio.h>
#include <string.h>

static void print_broken(const struct lladd_sim_contract_report *r)
{
    for (uint32_t i = 0; i < r->n_verdicts; i++)
        for (unsigned c = 0; c < LLADD_SIM_CHECKS_COUNT; c++)
            if (r->verdicts[i].result[c] == LLADD_SIM_BROKEN)
                printf("%s: %s: %s\n", r->verdicts[i].op, lladd_sim_check_name(c),
                       r->verdicts[i].message[c]);
    fflush(stdout);
}

#define must(call) ck_assert_int_eq((call), 0)

struct fixture {
    struct lladd_device *device;
    struct lladd_options options;
    struct lladd_db *db;
    struct lladd_error err;
};

static void fixture_open(struct fixture *b)
{
    *b = (struct fixture){.options = LLADD_OPTIONS_INIT, .err = LLADD_ERROR_INIT};
    must(lladd_device_memory(&b->device));
    b->options.device = b->device;
    b->options.flags = LLADD_OPT_NO_THREADS | LLADD_OPT_ATOMIC_PAGES;
    b->options.frames = LLADD_FRAMES_HEAP;
    int rc = lladd_open(NULL, &b->options, &b->db, &b->err);
    ck_assert_msg(rc == 0, "%s", b->err.message);
}

static struct lladd_txn *begin(struct fixture *b)
{
    struct lladd_txn *txn;
    must(lladd_begin(b->db, NULL, &txn, &b->err));
    return txn;
}

static lladd_pageno make_page(struct lladd_txn *txn, const char *type)
{
    lladd_pageno p;
    must(lladd_page_alloc(txn, &p));
    if (type)
        must(lladd_page_format(txn, p, type));
    return p;
}

/* Two transactions that change the same pages and do not conflict. */
static void use_bytes(struct fixture *b)
{
    unsigned char text[600];
    memset(text, 'a', sizeof text);
    struct lladd_txn *t = begin(b);
    lladd_pageno p = make_page(t, "lladd.bytes");
    must(lladd_commit(t));
    t = begin(b);
    struct lladd_txn *u = begin(b);
    must(lladd_bytes_set(t, p, 0, "hello", 5));
    must(lladd_counter_add(u, p, 1000, 5));
    must(lladd_counter_add(t, p, 1000, 7));
    must(lladd_bytes_set(u, p, 2000, text, sizeof text));
    memset(text + 100, 'b', 20);
    memset(text + 300, 'c', 20);
    must(lladd_bytes_set_range(t, p, 3000, text, 400));
    must(lladd_counter_add(u, p, 1008, -1));
    must(lladd_commit(t));
    must(lladd_abort(u));
}

static void use_slotted(struct fixture *b)
{
    struct lladd_txn *t = begin(b);
    lladd_pageno p = make_page(t, "lladd.slotted");
    struct lladd_rid r[6];
    for (unsigned i = 0; i < 5; i++)
        must(lladd_slotted_alloc(t, p, "a record of some length", 12 + 2 * i, 1, &r[i]));
    must(lladd_commit(t));
    t = begin(b);
    struct lladd_txn *u = begin(b);
    must(lladd_slotted_set(t, r[0], "longer than it was before", 25, 1));
    must(lladd_slotted_set(u, r[1], "short", 5, 2));
    must(lladd_slotted_free(t, r[2]));
    must(lladd_slotted_alloc(u, p, "new", 3, 1, &r[5]));
    must(lladd_slotted_write(u, r[3], 2, "RECORD", 6));
    must(lladd_slotted_resize(t, r[4], 3));
    must(lladd_slotted_add(t, r[3], 8, 1000));
    must(lladd_slotted_add(u, r[3], 8, -1));
    must(lladd_commit(u));
    must(lladd_abort(t));
}

static void use_fixed(struct fixture *b)
{
    struct lladd_txn *t = begin(b);
    lladd_pageno p = make_page(t, NULL);
    struct lladd_rid r[4];
    must(lladd_fixed_format(t, p, 16));
    for (unsigned i = 0; i < 3; i++)
        must(lladd_fixed_alloc(t, p, "sixteen letters.", &r[i]));
    must(lladd_commit(t));
    t = begin(b);
    struct lladd_txn *u = begin(b);
    must(lladd_fixed_set(t, r[0], 3, "TEEN", 4));
    must(lladd_fixed_free(u, r[1]));
    must(lladd_fixed_set(t, r[2], 0, "s1xteen n", 9));
    must(lladd_fixed_alloc(u, p, "another sixteen.", &r[3]));
    must(lladd_fixed_add(u, r[0], 8, 5));
    must(lladd_fixed_add(t, r[0], 8, 6));
    must(lladd_commit(t));
    must(lladd_abort(u));
}

static void use_heap(struct fixture *b)
{
    static unsigned char record[1500];
    struct lladd_txn *t = begin(b);
    struct lladd_heap *heap;
    lladd_pageno root;
    struct lladd_rid r[12];
    memset(record, 'h', sizeof record);
    must(lladd_heap_create_open(t, &root, &heap));
    for (unsigned i = 0; i < 12; i++)
        must(lladd_heap_insert(t, heap, record, 200 + 100 * i, &r[i]));
    must(lladd_commit(t));
    t = begin(b);
    must(lladd_heap_set(t, heap, r[0], record, sizeof record));
    must(lladd_heap_delete(t, heap, r[1]));
    must(lladd_heap_delete(t, heap, r[7]));
    must(lladd_abort(t));
    t = begin(b);
    for (unsigned i = 2; i < 12; i++)
        must(lladd_heap_delete(t, heap, r[i]));
    must(lladd_commit(t));
    t = begin(b);
    must(lladd_heap_insert(t, heap, record, 900, &r[2]));
    must(lladd_commit(t));
    /* Makes changes as if the heap had more pages than its first inventory page can list, and rolls
     * them back. */
    lladd_op_id link;
    must(lladd_op_lookup(b->db, "lladd.heap.link", 0, &link));
    t = begin(b);
    must(lladd_update(t, link, root, "\5\0\0\0\0\0\0", 8));
    must(lladd_abort(t));
    lladd_heap_close(heap);
}

/* The slot of a deleted record is purged by the next transaction that finds no other room. */
static void use_purge(struct fixture *b)
{
    static unsigned char record[700];
    struct lladd_txn *t = begin(b);
    lladd_pageno p = make_page(t, "lladd.slotted");
    struct lladd_rid r[5], n;
    for (unsigned i = 0; i < 5; i++)
        must(lladd_slotted_alloc(t, p, record, sizeof record, 1, &r[i]));
    must(lladd_commit(t));
    t = begin(b);
    for (unsigned i = 0; i < 5; i++)
        must(lladd_slotted_free(t, r[i]));
    must(lladd_commit(t));
    t = begin(b);
    for (unsigned i = 0; i < 5; i++)
        must(lladd_slotted_alloc(t, p, record, sizeof record - i, 1, &n));
    must(lladd_commit(t));
}

static void use_roots_and_pages(struct fixture *b)
{
    struct lladd_txn *t = begin(b);
    char name[64];
    lladd_pageno first;
    /* More names than fit on one catalogue page. */
    for (unsigned i = 0; i < 120; i++) {
        snprintf(name, sizeof name, "a name of some length, so that few fit a page: %u", i);
        must(lladd_root_set(t, name, (struct lladd_root_value){i, i}));
    }
    lladd_pageno page_of_its_own = make_page(t, NULL);
    must(lladd_extent_alloc(t, 8, LLADD_EXTENT_PAGED, &first));
    must(lladd_commit(t));
    t = begin(b);
    must(lladd_page_free(t, page_of_its_own));
    must(lladd_root_set(t, name, (struct lladd_root_value){5, 5}));
    must(lladd_root_delete(t, "a name of some length, so that few fit a page: 3"));
    must(lladd_extent_free(t, lladd_page_of(first.v + 2), 3));
    must(lladd_abort(t));
    t = begin(b); /* makes the records durable, so that the log can be read */
    must(lladd_root_set(t, name, (struct lladd_root_value){6, 6}));
    must(lladd_commit(t));
}

/* An array that is so long that its root page cannot list all its pages. */
static void use_array(struct fixture *b)
{
    struct lladd_array *a;
    lladd_pageno root;
    struct lladd_txn *t = begin(b);
    static unsigned char element[4000] = "array";
    must(lladd_array_create(t, sizeof element, 40, &root));
    must(lladd_commit(t));
    must(lladd_array_open(b->db, root, &a, &b->err));
    t = begin(b);
    must(lladd_array_set(t, a, 39, element));
    must(lladd_array_shrink(t, a, 20));
    must(lladd_commit(t));
    t = begin(b);
    must(lladd_array_extend(t, a, 1, NULL));
    must(lladd_array_destroy(t, root));
    must(lladd_abort(t));
    lladd_array_close(a);
    t = begin(b);
    must(lladd_root_set(t, "array", (struct lladd_root_value){root.v, 0}));
    must(lladd_commit(t));
}

static const struct lladd_sim_kept *find(const struct lladd_sim_contract_report *r, const char *op)
{
    for (uint32_t i = 0; i < r->n_verdicts; i++)
        if (strcmp(r->verdicts[i].op, op) == 0)
            return &r->verdicts[i];
    return NULL;
}

static void check_kept(const struct lladd_sim_contract_report *r, const struct lladd_op *const *ops)
{
    for (size_t i = 0; ops[i]; i++) {
        const struct lladd_sim_kept *k = find(r, ops[i]->name);
        ck_assert_msg(k != NULL, "%s was not used", ops[i]->name);
        ck_assert_int_eq(k->result[LLADD_SIM_C_PURE], LLADD_SIM_KEPT);
        ck_assert_int_eq(k->result[LLADD_SIM_C_HOSTILE], LLADD_SIM_KEPT);
        if (ops[i]->undo)
            ck_assert_int_eq(k->result[LLADD_SIM_C_RESTORES], LLADD_SIM_KEPT);
    }
}

START_TEST(the_built_in_operations_keep_every_promise)
{
    struct lladd_sim_samples samples;
    struct fixture b;
    fixture_open(&b);
    use_bytes(&b);
    use_slotted(&b);
    use_fixed(&b);
    use_heap(&b);
    use_purge(&b);
    use_roots_and_pages(&b);
    use_array(&b);
    int rc = lladd_sim_collect(b.db, &samples, &b.err);
    ck_assert_msg(rc == 0, "%s", b.err.message);
    struct lladd_sim_contract in = LLADD_SIM_CONTRACT_INIT;
    struct lladd_sim_contract_report *r;
    in.samples = samples.at;
    in.n_samples = samples.count;
    in.rounds = 30;
    rc = lladd_sim_contract_check(&in, &r, &b.err);
    ck_assert_msg(rc == 0, "%s", b.err.message);
    print_broken(r);
    ck_assert_uint_eq(r->broken, 0);
    /* The operations of blobs, lists and hash tables are collected from their subjects:
     * contract_all. */
    enum { BASE_RUNS_ARRAYS = 3 };
    for (unsigned e = 0; e < BASE_RUNS_ARRAYS; e++)
        check_kept(r, ll_operations_builtin()[e]->ops);
    ck_assert_int_eq(find(r, "lladd.counter.add")->result[LLADD_SIM_C_INTERLEAVED], LLADD_SIM_KEPT);
    ck_assert_int_eq(find(r, "lladd.slotted.set")->result[LLADD_SIM_C_INTERLEAVED], LLADD_SIM_KEPT);
    ck_assert_int_eq(find(r, "lladd.slotted.add")->result[LLADD_SIM_C_INTERLEAVED], LLADD_SIM_KEPT);
    ck_assert_int_eq(find(r, "lladd.fixed.add")->result[LLADD_SIM_C_INTERLEAVED], LLADD_SIM_KEPT);
    lladd_sim_contract_free(r);
    lladd_sim_samples_free(&samples);
    lladd_db_kill(b.db);
    lladd_device_close(b.device);
}
END_TEST

/* Checks the operations in the same way, with samples from a subject's workload. */
static struct lladd_sim_contract_report *check_subject(const char *name)
{
    const struct lladd_sim_subject *s = lladd_sim_subject_find(name);
    struct lladd_sim_contract_report *r;
    struct lladd_error err = LLADD_ERROR_INIT;
    ck_assert_ptr_nonnull(s);
    int rc = lladd_sim_contract_subject(s, NULL, &r, &err);
    ck_assert_msg(rc == 0, "%s", err.message);
    print_broken(r);
    ck_assert_uint_eq(r->broken, 0);
    return r;
}

/* The workload takes checkpoints. */
START_TEST(a_subject_is_checked_by_its_workload)
{
    struct lladd_sim_contract_report *r = check_subject("counters");
    ck_assert_ptr_nonnull(find(r, "lladd.counter.add"));
    ck_assert_ptr_nonnull(find(r, "lladd.set"));
    lladd_sim_contract_free(r);
}
END_TEST

/* No read of the log goes wrong, and the workload notices that. */
START_TEST(a_workload_that_misreads_its_log_is_checked)
{
    struct lladd_sim_contract_report *r = check_subject("archive");
    ck_assert_ptr_nonnull(find(r, "lladd.set"));
    lladd_sim_contract_free(r);
}
END_TEST

/* The workload needs that a checkpoint frees log, but the checks keep the log. They take the
 * samples of the log that has become full. */
START_TEST(a_workload_with_a_log_limit_is_checked)
{
    struct lladd_sim_contract_report *r = check_subject("limit");
    const struct lladd_sim_kept *k = find(r, "lladd.counter.add");
    ck_assert_ptr_nonnull(k);
    ck_assert_uint_gt(k->runs[LLADD_SIM_C_RESTORES], 50);
    lladd_sim_contract_free(r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("contract checks of the built-in operations");
    TCase *c = tcase_create("contract");
    tcase_add_test(c, the_built_in_operations_keep_every_promise);
    tcase_add_test(c, a_subject_is_checked_by_its_workload);
    tcase_add_test(c, a_workload_that_misreads_its_log_is_checked);
    tcase_add_test(c, a_workload_with_a_log_limit_is_checked);
    suite_add_tcase(s, c);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
