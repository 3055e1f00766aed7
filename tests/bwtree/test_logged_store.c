/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The store of logged Bw-trees, when a crash, a rollback or a bad sector comes at a bad moment.
 */
#include "db_fixture.h"
#include "operations/bwtree/stored.h"

#include <lladd/log_read.h>
#include <string.h>

static struct fixture r;
static struct lladd_bwtree *tree;
static struct lladd_bwtree_options small_rows;

static void create(struct lladd_txn *txn, const char *name)
{
    ok(txn, lladd_bwtree_create(txn, name, &small_rows));
}

static void begin_with(unsigned kind, const struct lladd_extension *more)
{
    fixture_init(&r, kind);
    ok_db(&r, lladd_bwtree_register(&r.options, &r.err));
    if (more)
        ok_db(&r, lladd_register_extension(&r.options, more, &r.err));
    fixture_open(&r);
    small_rows = (struct lladd_bwtree_options)LLADD_BWTREE_OPTIONS_INIT;
    small_rows.key_size = small_rows.value_size = 8;
    small_rows.page_bytes = 256;
    struct lladd_txn *txn = fixture_begin(&r);
    create(txn, "orders");
    done(lladd_commit(txn));
    ok_db(&r, lladd_bwtree_open(r.db, "orders", &tree, &r.err));
}

static void begin(unsigned kind)
{
    begin_with(kind, NULL);
}

static void crash(void)
{
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    ok_db(&r, lladd_bwtree_open(r.db, "orders", &tree, &r.err));
}

static void put_rows(struct lladd_bwtree *t, uint64_t n)
{
    struct lladd_txn *txn = fixture_begin(&r);
    for (uint64_t k = 0; k < n; k++) {
        uint64_t key = __builtin_bswap64(k);
        ok(txn, lladd_bwtree_txn_put(txn, t, &key, 8, &k, 8));
    }
    done(lladd_commit(txn));
}

static void expect_rows(struct lladd_bwtree *t, uint64_t n)
{
    for (uint64_t k = 0; k < n; k++) {
        uint64_t key = __builtin_bswap64(k), value = 0;
        ok_db(&r, lladd_bwtree_get(t, &key, 8, &value, 8, NULL, &r.err));
        ck_assert_uint_eq(value, k);
    }
    ok_db(&r, lladd_bwtree_check(t, &r.err));
}

/* ---- a tree that a transaction in doubt has made --------------------------------------------- */

/* Leaves a transaction in doubt that has made the tree "new"; recovery has found it. */
static struct lladd_txn *doubtful_tree(void)
{
    struct lladd_gid gid = gid_of("g");
    struct lladd_txn *txn = fixture_begin(&r);
    create(txn, "new");
    ok(txn, lladd_prepare(txn, &gid));
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    return fixture_claim(&r, "g");
}

/* A checkpoint does not write the tree, so the log has no record of a tree that is not there. */
START_TEST(a_tree_in_doubt_is_not_flushed)
{
    begin((unsigned)_i);
    put_rows(tree, 100);
    ok_db(&r, lladd_bwtree_flush(r.db, &r.err));
    struct lladd_txn *txn = doubtful_tree();
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    done(lladd_abort(txn));
    ok_db(&r, lladd_bwtree_open(r.db, "orders", &tree, &r.err));
    put_rows(tree, 1);
    crash();
    expect_rows(tree, 100);
    lladd_bwtree_close(tree);
    fixture_reopen(&r);
    ok_db(&r, lladd_bwtree_open(r.db, "orders", &tree, &r.err));
    expect_rows(tree, 100);
    lladd_bwtree_close(tree);
    fixture_free(&r);
}
END_TEST

/* The page of the tree that was rolled back becomes the page of another one. */
START_TEST(a_tree_that_was_rolled_back_leaves_others_alone)
{
    struct lladd_bwtree *other;
    begin((unsigned)_i);
    struct lladd_txn *txn = doubtful_tree();
    done(lladd_abort(txn));
    txn = fixture_begin(&r);
    create(txn, "other");
    done(lladd_commit(txn));
    ok_db(&r, lladd_bwtree_open(r.db, "other", &other, &r.err));
    put_rows(other, 100);
    ok_db(&r, lladd_bwtree_flush(r.db, &r.err));
    crash();
    ok_db(&r, lladd_bwtree_open(r.db, "other", &other, &r.err));
    expect_rows(other, 100);
    fixture_reopen(&r);
    ok_db(&r, lladd_bwtree_open(r.db, "other", &other, &r.err));
    expect_rows(other, 100);
    fixture_free(&r);
}
END_TEST

/* ---- an extension that keeps what is written in bulk ----------------------------------------- */

static bool no_room; /* the commit of a transaction that has written in bulk fails */

static int keep(void *ctx, void *state, struct lladd_txn *txn)
{
    (void)ctx, (void)state;
    return no_room ? lladd_error_set(lladd_txn_error_out(txn), LLADD_NO_SPACE, "no room") : 0;
}

static const struct lladd_participant keeper = {
    .struct_size = sizeof keeper, .name = "test.keeper", .version = 1, .committing = keep};
static const struct lladd_participant *const keepers[] = {&keeper, NULL};

static int bulk_written(void *ctx, struct lladd_db *db, void *state, struct lladd_txn *txn,
                        lladd_lsn barrier, lladd_pageno first, uint64_t n, bool typed,
                        const void *bytes)
{
    (void)ctx, (void)db, (void)state, (void)barrier, (void)first, (void)n, (void)typed, (void)bytes;
    return lladd_txn_joined(txn, &keeper) ? 0 : lladd_txn_join(txn, &keeper, &no_room);
}

static const struct lladd_extension keeping = {.struct_size = sizeof keeping,
                                               .name = "test.keeping",
                                               .version = 1,
                                               .participants = keepers,
                                               .bulk_written = bulk_written};

static unsigned store_records(void)
{
    struct lladd_log_cursor *c;
    struct lladd_log_entry e;
    unsigned n = 0;
    ok_db(&r, lladd_log_open(r.db, lladd_lsn_of(0), "lladd.bwtree.store", &c, &r.err));
    for (int rc; (rc = lladd_log_next(c, &e, &r.err)) != LLADD_END; n++)
        ck_assert_int_eq(rc, 0);
    lladd_log_close(c);
    return n;
}

/* A store record counts without a commit. So it is logged only if the extension has the pages. */
START_TEST(a_store_record_names_pages_that_extensions_have)
{
    begin_with((unsigned)_i, &keeping);
    put_rows(tree, 100);
    no_room = true;
    ck_assert_int_eq(lladd_bwtree_flush(r.db, &r.err), LLADD_NO_SPACE);
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    ck_assert_uint_eq(store_records(), 0);
    no_room = false;
    ok_db(&r, lladd_bwtree_flush(r.db, &r.err));
    ck_assert_uint_gt(store_records(), 0);
    crash();
    expect_rows(tree, 100);
    fixture_free(&r);
}
END_TEST

/* ---- the mark of store records --------------------------------------------------------------- */

static uint64_t since(void)
{
    unsigned char body[1 << 16];
    struct lladd_root_value root;
    ok_db(&r, lladd_root_get(r.db, BW_STORE_ROOT, &root, &r.err));
    ok_db(&r, ll_bwtree__info_get(r.db, lladd_page_of(root.a), BW_INFO_STORE, body, &r.err));
    return lladd_get64(body + BW_INFO_OWN + 16);
}

/* Logs a change of one row that is not applied yet. */
static struct lladd_txn *change_slowly(struct lladd_token *token)
{
    unsigned char put[19] = {BW_CHANGE_PUT, 8}, delete[11] = {BW_CHANGE_DELETE, 8};
    struct lladd_txn *txn = fixture_begin(&r);
    lladd_lsn lsn;
    memset(put + 3, 0xff, 8);
    memset(delete + 3, 0xff, 8);
    ok(txn, lladd_log_object(txn, &ll_bwtree__rows_class, lladd_bwtree_id(tree),
                             lladd_span_of(put, sizeof put), lladd_span_of(delete, sizeof delete),
                             token, &lsn));
    return txn;
}

/* A change that is applied late holds the bound of flushes back, but not this mark: it never goes
 * back into the records of a flush. */
START_TEST(the_mark_of_store_records_never_goes_back)
{
    struct lladd_token token;
    begin((unsigned)_i);
    struct lladd_txn *txn = change_slowly(&token);
    put_rows(tree, 100);
    ok_db(&r, lladd_bwtree_flush(r.db, &r.err));
    uint64_t before = since();
    ok_db(&r, lladd_bwtree_flush(r.db, &r.err));
    ck_assert_uint_eq(since(), before);
    lladd_object_applied(txn, &token);
    done(lladd_abort(txn));
    crash();
    expect_rows(tree, 100);
    fixture_free(&r);
}
END_TEST

/* Logs a store record that gives the page an address. */
static void log_address(unsigned char flags, uint32_t pid, uint64_t at)
{
    unsigned char bytes[BW_RECORD_HEAD + BW_RECORD_ENTRY] = {BW_VERSION, flags};
    struct lladd_span none = {NULL, 0};
    struct lladd_txn *txn = fixture_begin(&r);
    struct lladd_token token;
    lladd_lsn lsn;
    lladd_put32(bytes + 4, 1);
    lladd_put32(bytes + BW_RECORD_HEAD, pid);
    lladd_put64(bytes + BW_RECORD_HEAD + 4, at);
    ok(txn, lladd_log_object(txn, &ll_bwtree__store_class, lladd_bwtree_id(tree),
                             lladd_span_of(bytes, sizeof bytes), none, &token, &lsn));
    lladd_object_applied(txn, &token);
    done(lladd_commit(txn));
}

START_TEST(the_end_of_a_group_alone_is_left_out)
{
    begin((unsigned)_i);
    put_rows(tree, 100);
    ok_db(&r, lladd_bwtree_flush(r.db, &r.err));
    log_address(0, 0, bw_address(1, 0, 64));
    log_address(BW_RECORD_LAST, 1, bw_address(1, 0, 64));
    crash();
    expect_rows(tree, 100);
    fixture_free(&r);
}
END_TEST

/* ---- damage ---------------------------------------------------------------------------------- */

START_TEST(an_address_outside_of_the_file_is_damage)
{
    begin((unsigned)_i);
    put_rows(tree, 100);
    ok_db(&r, lladd_bwtree_flush(r.db, &r.err));
    log_address(BW_RECORD_FIRST | BW_RECORD_LAST, 0, bw_address(1 << 30, 0, 64));
    put_rows(tree, 10);
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    ck_assert_int_eq(lladd_bwtree_open(r.db, "orders", &tree, &r.err), LLADD_CORRUPT_PAGE);
    fixture_free(&r);
}
END_TEST

/* ---- map pages ------------------------------------------------------------------------------- */

static int find_segment(void *arg, lladd_pageno n)
{
    struct lladd_page *page;
    if (lladd_page_fix(r.db, n, LLADD_LATCH_SHARED, &page, NULL))
        return 0; /* never written */
    if (lladd_page_is(r.db, lladd_page_view(page), "lladd.bwtree.segment"))
        *(lladd_pageno *)arg = n;
    lladd_page_unfix(r.db, page, LLADD_LATCH_SHARED);
    return 0;
}

/* A tree that is not in memory has addresses that its map pages have no place for. */
START_TEST(a_flush_makes_map_pages_of_trees_that_are_not_in_memory)
{
    lladd_pageno segment = {0};
    begin((unsigned)_i);
    put_rows(tree, 100);
    ok_db(&r, lladd_bwtree_flush(r.db, &r.err));
    ok_db(&r, lladd_bwtree_pages(r.db, find_segment, &segment, &r.err));
    log_address(BW_RECORD_FIRST | BW_RECORD_LAST, 5000, bw_address(segment.v, 0, 64));
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    uint64_t before = since();
    ok_db(&r, lladd_bwtree_flush(r.db, &r.err));
    ck_assert_uint_gt(since(), before);
    fixture_free(&r);
}
END_TEST

/* ---- rollback -------------------------------------------------------------------------------- */

enum { SLOTS = 32 }; /* of the first block of epochs (db/epoch.c) */

struct calls {
    struct bw_call calls[SLOTS];
    uint32_t ended; /* atomic */
};

static void *leave_all(void *arg)
{
    struct calls *c = arg;
    while (!fault_alloc_fired(&r.mem) && !lladd_atomic_load32(&c->ended))
        lladd_yield();
    for (unsigned i = 0; i < SLOTS; i++)
        bw_leave(&c->calls[i]);
    return NULL;
}

/* Other calls are in all slots, and there is no memory for more: the rollback waits until they
 * end. */
START_TEST(a_rollback_waits_for_a_slot)
{
    struct lladd_thread thread = {0};
    struct calls c = {.ended = 0};
    uint64_t key = 77, value = 1;
    begin((unsigned)_i & ~(unsigned)FIXTURE_THREADS);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, lladd_bwtree_txn_put(txn, tree, &key, 8, &value, 8));
    for (unsigned i = 0; i < SLOTS; i++)
        ok_db(&r, ll_bwtree__enter(tree, &c.calls[i], &r.err));
    fault_alloc_fail(&r.mem, 1, true);
    ck_assert_int_eq(lladd_thread_start(&thread, leave_all, &c), 0);
    int rc = lladd_abort(txn);
    lladd_atomic_store32(&c.ended, 1);
    lladd_thread_join(&thread);
    ck_assert_uint_gt(fault_alloc_fired(&r.mem), 0);
    fault_alloc_fail(&r.mem, 0, false);
    ck_assert_int_eq(rc, 0);
    ck_assert_int_eq(lladd_bwtree_get(tree, &key, 8, &value, 8, NULL, NULL), LLADD_NOT_FOUND);
    fixture_free(&r);
}
END_TEST

/* ---- without memory -------------------------------------------------------------------------- */

/* Makes a tree while allocation n fails, and again. Returns whether an allocation has failed. The
 * store that the first call may have made is the one that stays. */
static bool create_without_memory(unsigned kind, uint64_t n)
{
    struct lladd_root_value first = {0}, last;
    fixture_init(&r, kind & ~(unsigned)FIXTURE_THREADS);
    ok_db(&r, lladd_bwtree_register(&r.options, &r.err));
    fixture_open(&r);
    struct lladd_txn *txn = fixture_begin(&r);
    fault_alloc_fail(&r.mem, n, false);
    int rc = lladd_bwtree_create(txn, "orders", NULL);
    bool failed = fault_alloc_fired(&r.mem) > 0;
    fault_alloc_fail(&r.mem, 0, false);
    int found = lladd_root_get(r.db, BW_STORE_ROOT, &first, &r.err);
    if (rc)
        ok(txn, lladd_bwtree_create(txn, "orders", NULL));
    done(lladd_commit(txn));
    ok_db(&r, lladd_root_get(r.db, BW_STORE_ROOT, &last, &r.err));
    ck_assert(found == LLADD_NOT_FOUND || last.a == first.a);
    fixture_free(&r);
    return failed;
}

START_TEST(the_store_is_made_once)
{
    uint64_t n = 1;
    while (create_without_memory((unsigned)_i, n))
        n++;
    ck_assert_uint_gt(n, 3);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("the store of logged Bw-trees");
    TCase *c = tcase_create("the store of logged Bw-trees");
    tcase_add_loop_test(c, a_tree_in_doubt_is_not_flushed, 0, FIXTURE_KINDS);
    tcase_add_loop_test(c, a_tree_that_was_rolled_back_leaves_others_alone, 0, FIXTURE_KINDS);
    tcase_add_loop_test(c, a_store_record_names_pages_that_extensions_have, 0, FIXTURE_KINDS);
    tcase_add_loop_test(c, the_mark_of_store_records_never_goes_back, 0, FIXTURE_KINDS);
    tcase_add_loop_test(c, the_end_of_a_group_alone_is_left_out, 0, FIXTURE_KINDS);
    tcase_add_loop_test(c, an_address_outside_of_the_file_is_damage, 0, FIXTURE_KINDS);
    tcase_add_loop_test(c, a_flush_makes_map_pages_of_trees_that_are_not_in_memory, 0,
                        FIXTURE_KINDS);
    tcase_add_loop_test(c, a_rollback_waits_for_a_slot, 0, FIXTURE_KINDS);
    tcase_add_loop_test(c, the_store_is_made_once, 0, 2);
    suite_add_tcase(s, c);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
