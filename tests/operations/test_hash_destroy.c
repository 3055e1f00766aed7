/* SPDX-License-Identifier: BSD-2-Clause */
/* Hash tables that are destroyed in steps, by lladd_hash_destroy_some. */
#include "op_fixture.h"

#include "operations/hash/table.h"

#include <lladd/blob.h>
#include <lladd/bulk.h>
#include <lladd/hash.h>
#include <lladd/stats.h>

enum { KEYS = 3000 };

static struct fixture b;
static lladd_pageno root;
static uint64_t before; /* pages used before there was a table */

static void setup(void)
{
    fixture_init(&b, 4096);
    fixture_open(&b);
    before = fixture_pages_used(&b);
}

static void teardown(void)
{
    fixture_check(&b);
    fixture_free(&b);
}

/* ---- tables ---------------------------------------------------------------------------------- */

enum kind { FIXED, ANY, PHYSICAL, KINDS };

/* The length of the value of a key. In a table of the kind ANY lengths differ: one value in 50 is a
 * blob, and buckets have chains. Other tables have values of 8 bytes. */
static size_t len_of(enum kind kind, uint64_t key)
{
    return kind != ANY ? 8 : key % 50 == 3 ? 9000 + key : key % 7 ? key % 300 : 900;
}

static void fill(struct lladd_txn *txn, enum kind kind, struct lladd_hash *h)
{
    static unsigned char value[9000 + KEYS];
    for (uint64_t key = 0; key < KEYS; key++)
        ok(txn, lladd_hash_insert(txn, h, &key, 8, value, len_of(kind, key)));
}

static struct lladd_hash *make(enum kind kind)
{
    struct lladd_hash_options o = LLADD_HASH_OPTIONS_INIT;
    struct lladd_hash *h;
    o.key_size = 8;
    o.value_size = kind == ANY ? 0 : 8;
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_hash_create(txn, &o, &root));
    commit(txn);
    ok_db(&b, lladd_hash_open(b.db, root, kind == PHYSICAL, &h, &b.err));
    txn = fixture_begin(&b);
    fill(txn, kind, h);
    commit(txn);
    struct lladd_hash_stats s = {.struct_size = sizeof s};
    ok_db(&b, lladd_hash_stats_get(h, &s, &b.err));
    ck_assert(kind != ANY || (s.blobs > 10 && s.overflow_pages > 0));
    return h;
}

static uint64_t step(uint64_t pages)
{
    uint64_t left = 99;
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_hash_destroy_some(txn, root, pages, &left));
    commit(txn);
    return left;
}

static uint64_t used(void)
{
    return fixture_pages_used(&b) - before;
}

static int must_be_used(void *ctx, lladd_pageno page)
{
    enum lladd_page_use use;
    ok_db(&b, lladd_page_use_get(b.db, page, &use, &b.err));
    ck_assert_int_eq(use, LLADD_USE_PAGED);
    return fixture_count_page(ctx, page);
}

/* Asserts that the partly destroyed table lists all pages that are in use, and cannot be opened. */
static void only_destroyed(void)
{
    struct lladd_hash *h;
    uint64_t n = 0;
    ok_db(&b, lladd_hash_destroy_pages(b.db, root, must_be_used, &n, &b.err));
    ck_assert_uint_eq(n, used());
    ck_assert_int_eq(lladd_hash_open(b.db, root, 0, &h, &b.err), LLADD_DESTROYED);
}

static void all_gone(void)
{
    uint64_t left;
    ck_assert_uint_eq(used(), 0);
    struct lladd_txn *txn = fixture_begin(&b);
    refuses(txn, LLADD_DESTROYED, lladd_hash_destroy_some(txn, root, 1, &left));
    refuses(txn, LLADD_DESTROYED, lladd_hash_destroy(txn, root));
    abort_txn(txn);
    ck_assert_int_eq(lladd_hash_destroy_pages(b.db, root, fixture_count_page, &left, &b.err),
                     LLADD_DESTROYED);
}

/* ---- steps ----------------------------------------------------------------------------------- */

START_TEST(each_step_frees_about_so_many_pages)
{
    static const uint64_t sizes[] = {1, 7, 40};
    const uint64_t pages = sizes[_i / KINDS];
    struct lladd_hash *h = make((enum kind)(_i % KINDS));
    uint64_t all = used(), left = 1, last = UINT64_MAX, steps = 0, key = 1;
    ck_assert_uint_gt(all, 20);
    while (left) {
        uint64_t had = used();
        left = step(pages);
        ck_assert_uint_lt(used(), had);              /* the step has freed a page */
        ck_assert_uint_le(had - used(), pages + 30); /* 30 more pages for the blobs of a bucket */
        ck_assert(left == 0 || left <= last);
        last = left;
        steps++;
        ck_assert_int_eq(lladd_hash_get(h, &key, 8, NULL, 0, NULL, &b.err), LLADD_DESTROYED);
        if (left)
            only_destroyed();
    }
    ck_assert_uint_ge(steps, all / (pages + 30));
    ck_assert(pages == 1 || steps <= 2 * all / pages + 2);
    lladd_hash_close(h);
    all_gone();
}
END_TEST

/* In every three steps, the power fails after one, and the database is closed after another. */
START_TEST(what_is_left_is_destroyed_after_a_crash)
{
    lladd_hash_close(make((enum kind)(_i % KINDS)));
    for (uint64_t n = 0, left = 1; left; n++) {
        left = step(9);
        if (n % 3 == 1) {
            fixture_crash(&b);
        } else if (n % 3 == 2) {
            fixture_close(&b);
            fixture_open(&b);
        }
        if (left)
            only_destroyed();
    }
    fixture_crash(&b);
    ck_assert_uint_eq(used(), 0);
}
END_TEST

static void has_all(struct lladd_hash *h)
{
    uint64_t n = 0;
    ok_db(&b, lladd_hash_check(h, &b.err));
    ok_db(&b, lladd_hash_count(h, &n, &b.err));
    ck_assert_uint_eq(n, KEYS);
}

START_TEST(a_step_that_is_rolled_back_has_freed_nothing)
{
    struct lladd_hash *h = make((enum kind)(_i % KINDS));
    const uint64_t all = used();
    uint64_t left;
    lladd_savepoint_id sp;
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_hash_destroy_some(txn, root, 10, &left));
    ok(txn, lladd_hash_destroy_some(txn, root, 10, &left)); /* a second step of the transaction */
    ck_assert_uint_lt(used(), all - 10);
    abort_txn(txn);
    ck_assert_uint_eq(used(), all);
    has_all(h);
    txn = fixture_begin(&b);
    ok(txn, lladd_savepoint(txn, &sp));
    ok(txn, lladd_hash_destroy_some(txn, root, 10, &left));
    ok(txn, lladd_rollback_to(txn, sp));
    has_all(h);
    commit(txn);
    lladd_hash_close(h);
    step(10);
    const uint64_t some = used();
    for (int crash = 0; crash < 2; crash++) {
        txn = fixture_begin(&b);
        ok(txn, lladd_hash_destroy_some(txn, root, 10, &left));
        ck_assert_uint_lt(used(), some);
        if (crash) {
            lladd_lsn lsn = {0};
            ok_db(&b, lladd_log_force(b.db, lsn, &b.err));
            fixture_crash(&b);
        } else {
            abort_txn(txn);
        }
        ck_assert_uint_eq(used(), some);
        only_destroyed();
    }
    while (step(100))
        ;
    all_gone();
}
END_TEST

START_TEST(one_call_destroys_what_steps_have_left)
{
    lladd_hash_close(make((enum kind)(_i % KINDS)));
    step(25);
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_hash_destroy(txn, root));
    ck_assert_uint_eq(used(), 0);
    abort_txn(txn);
    only_destroyed();
    txn = fixture_begin(&b);
    ok(txn, lladd_hash_destroy(txn, root));
    commit(txn);
    all_gone();
}
END_TEST

/* ---- bounds ---------------------------------------------------------------------------------- */

/* Three values take almost all pages of the table. */
START_TEST(a_long_value_is_freed_in_steps)
{
    enum { LONG = 4000000, PAGES = 50 };
    struct lladd_hash_options o = LLADD_HASH_OPTIONS_INIT;
    struct lladd_stats s = {.struct_size = sizeof s};
    struct lladd_hash *h;
    unsigned char *value = calloc(LONG, 1);
    ck_assert_ptr_nonnull(value);
    struct lladd_txn *txn = fixture_begin(&b);
    if (_i) /* makes the blob of many small extents, not of one large one */
        lladd_blob_bulk_from(b.db, UINT64_MAX);
    ok(txn, lladd_hash_create(txn, &o, &root));
    commit(txn);
    ok_db(&b, lladd_hash_open(b.db, root, 0, &h, &b.err));
    txn = fixture_begin(&b);
    for (unsigned i = 0; i < 3; i++)
        ok(txn, lladd_hash_insert(txn, h, &i, sizeof i, value, LONG));
    ok(txn, lladd_hash_insert(txn, h, value, 2000, value, 100)); /* a long key */
    commit(txn);
    lladd_hash_close(h);
    const uint64_t all = used();
    ck_assert_uint_gt(all, 3 * (LONG / 4096));
    uint64_t steps = 0, left = 1, most = 0;
    while (left) {
        uint64_t had = used();
        ok_db(&b, lladd_stats_get(b.db, &s));
        uint64_t tail = s.log_tail;
        left = step(PAGES);
        ok_db(&b, lladd_stats_get(b.db, &s));
        most = s.log_tail - tail > most ? s.log_tail - tail : most;
        ck_assert_uint_le(had - used(), 2 * PAGES);
        ck_assert_uint_lt(used(), had);
        steps++;
        if (left && steps % 10 == 0)
            fixture_crash(&b);
        if (left)
            only_destroyed();
    }
    ck_assert_uint_ge(steps, all / (2 * PAGES));
    ck_assert_uint_lt(most, 65536); /* includes images of the pages that a step changes */
    all_gone();
    free(value);
}
END_TEST

/* The last step of a bucket frees more pages than the caller asked for, because some pages can be
 * freed only together with the bucket's first page. The long values must still be freed in several
 * steps. */
START_TEST(a_step_smaller_than_its_bucket)
{
    enum { LONG = 400000 };
    static const struct {
        uint64_t step;
        unsigned values;
    } cases[] = {{1, 1}, {10, 10}};
    const uint64_t pages = cases[_i].step, values = cases[_i].values;
    struct lladd_hash_options o = LLADD_HASH_OPTIONS_INIT;
    struct lladd_hash *h;
    unsigned char *value = calloc(LONG, 1);
    ck_assert_ptr_nonnull(value);
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_hash_create(txn, &o, &root));
    commit(txn);
    ok_db(&b, lladd_hash_open(b.db, root, 0, &h, &b.err));
    txn = fixture_begin(&b);
    for (unsigned i = 0; i < values; i++)
        ok(txn, lladd_hash_insert(txn, h, &i, sizeof i, value, LONG));
    commit(txn);
    lladd_hash_close(h);
    ck_assert_uint_gt(used(), values * (LONG / 4096));
    for (uint64_t left = 1; left;) {
        uint64_t had = used();
        left = step(pages);
        ck_assert_uint_lt(used(), had);
        ck_assert_uint_le(had - used(), pages + values + 5);
        if (left)
            only_destroyed();
    }
    all_gone();
    free(value);
}
END_TEST

START_TEST(wrong_calls_change_nothing)
{
    struct lladd_hash *h = make(FIXED);
    uint64_t left = 99;
    struct lladd_txn *txn = fixture_begin(&b), *other = fixture_begin(&b);
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_hash_destroy_some(txn, root, 0, &left));
    refuses(txn, LLADD_WRONG_TYPE, lladd_hash_destroy_some(txn, lladd_page_of(1), 5, &left));
    ck_assert_int_eq(
        lladd_hash_destroy_pages(b.db, lladd_page_of(1), fixture_count_page, &left, &b.err),
        LLADD_WRONG_TYPE);
    ck_assert_uint_eq(left, 99);
    has_all(h);
    ok(txn, lladd_hash_destroy_some(txn, root, 5, &left));
    refuses(other, LLADD_BUSY, lladd_hash_destroy_some(other, root, 5, &left));
    refuses(other, LLADD_BUSY, lladd_hash_destroy(other, root));
    abort_txn(txn);
    has_all(h);
    ok(other, lladd_hash_destroy_some(other, root, 5, &left));
    abort_txn(other);
    has_all(h);
    lladd_hash_close(h);
}
END_TEST

/* While a transaction may roll back changes of the table, no other transaction can destroy it. */
START_TEST(no_destruction_while_changes_may_be_rolled_back)
{
    struct lladd_gid gid = fixture_gid("changes");
    struct lladd_hash *h = make(_i % 2 ? ANY : FIXED);
    const bool doubt = _i / 2 % 2, by_commit = _i / 4;
    uint64_t left, n = 0, key = 1, fresh = KEYS + 1;
    struct lladd_txn *other = fixture_begin(&b), *txn;
    ok(other, lladd_hash_insert(other, h, &fresh, 8, &key, 8));
    ok(other, lladd_hash_delete(other, h, &key, 8));
    if (doubt) {
        ok(other, lladd_prepare(other, &gid));
        lladd_hash_close(h);
        fixture_crash(&b);
        ok_db(&b, lladd_hash_open(b.db, root, 0, &h, &b.err));
    }
    txn = fixture_begin(&b);
    refuses(txn, LLADD_BUSY, lladd_hash_destroy(txn, root));
    refuses(txn, LLADD_BUSY, lladd_hash_destroy_some(txn, root, 5, &left));
    key = 2; /* the refused calls have not claimed the table */
    ok(txn, lladd_hash_delete(txn, h, &key, 8));
    abort_txn(txn);
    if (doubt)
        ok_db(&b, lladd_in_doubt_claim(b.db, &gid, &other, &b.err));
    if (by_commit)
        commit(other);
    else
        abort_txn(other);
    ok_db(&b, lladd_hash_count(h, &n, &b.err));
    ck_assert_uint_eq(n, KEYS);
    step(5);
    lladd_hash_close(h);
}
END_TEST

/* Creates a table and rolls back to a savepoint, `times` times. */
static void create_in_vain(struct lladd_txn *txn, unsigned times)
{
    struct lladd_hash_options o = LLADD_HASH_OPTIONS_INIT;
    lladd_savepoint_id sp;
    for (unsigned i = 0; i < times; i++) {
        ok(txn, lladd_savepoint(txn, &sp));
        ok(txn, lladd_hash_create(txn, &o, &root));
        ok(txn, lladd_rollback_to(txn, sp));
    }
}

/* Two transactions are prepared. The first one has `_i` + 1 times created a table and undone this
 * by a rollback to a savepoint. The second one has done the same `_i` times, and has then created a
 * table. If `_i` is 2 or more, the first one has created a table, too. The new tables may have the
 * pages of earlier ones. */
START_TEST(tables_created_in_doubt)
{
    struct lladd_hash_options o = LLADD_HASH_OPTIONS_INIT;
    struct lladd_gid gid[2] = {fixture_gid("first"), fixture_gid("second")};
    lladd_pageno made = {LLADD_NO_PAGE};
    for (unsigned k = 0; k < 2; k++) {
        struct lladd_txn *txn = fixture_begin(&b);
        create_in_vain(txn, (unsigned)_i + (k == 0));
        if (k == 1 || _i > 1)
            ok(txn, lladd_hash_create(txn, &o, &made));
        ok(txn, lladd_prepare(txn, &gid[k]));
    }
    fixture_crash(&b);
    for (unsigned k = 0; k < 2; k++) {
        struct lladd_txn *txn;
        ok_db(&b, lladd_in_doubt_claim(b.db, &gid[k], &txn, &b.err));
        if (k == 0)
            abort_txn(txn);
        else
            commit(txn);
    }
    struct lladd_hash *h;
    uint64_t n = 1;
    ok_db(&b, lladd_hash_open(b.db, made, 0, &h, &b.err));
    ok_db(&b, lladd_hash_count(h, &n, &b.err));
    ck_assert_uint_eq(n, 0);
    lladd_hash_close(h);
}
END_TEST

/* The rollback first undoes the destruction, so the undo of the change finds the table. */
START_TEST(a_transaction_destroys_what_it_has_changed)
{
    struct lladd_hash *h = make(_i % 2 ? ANY : FIXED);
    uint64_t key = 2, left;
    lladd_savepoint_id sp;
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_savepoint(txn, &sp));
    ok(txn, lladd_hash_delete(txn, h, &key, 8));
    if (_i < 2)
        ok(txn, lladd_hash_destroy(txn, root));
    else
        ok(txn, lladd_hash_destroy_some(txn, root, 10, &left));
    ok(txn, lladd_rollback_to(txn, sp));
    has_all(h);
    ok(txn, lladd_hash_delete(txn, h, &key, 8));
    ok(txn, lladd_hash_destroy(txn, root));
    abort_txn(txn);
    has_all(h);
    lladd_hash_close(h);
}
END_TEST

START_TEST(a_transaction_that_has_changed_many_tables)
{
    enum { TABLES = 11 };
    struct lladd_hash *h[TABLES];
    lladd_pageno roots[TABLES];
    uint64_t key = 7;
    struct lladd_txn *txn = fixture_begin(&b), *other;
    for (unsigned i = 0; i < TABLES; i++)
        ok(txn, lladd_hash_create(txn, NULL, &roots[i]));
    commit(txn);
    txn = fixture_begin(&b);
    other = fixture_begin(&b);
    for (unsigned i = 0; i < TABLES; i++) {
        ok_db(&b, lladd_hash_open(b.db, roots[i], 0, &h[i], &b.err));
        ok(txn, lladd_hash_put(txn, h[i], &key, 8, &key, 8));
        ok(txn, lladd_hash_put(txn, h[i / 2], &key, 8, &i, sizeof i));
    }
    for (unsigned i = 0; i < TABLES; i++)
        refuses(other, LLADD_BUSY, lladd_hash_destroy(other, roots[i]));
    if (_i)
        commit(txn);
    else
        abort_txn(txn);
    for (unsigned i = 0; i < TABLES; i++) {
        ok(other, lladd_hash_destroy(other, roots[i]));
        lladd_hash_close(h[i]);
    }
    commit(other);
}
END_TEST

/* The transaction that has created the table destroys it, and rolls back to a savepoint. */
START_TEST(a_transaction_destroys_the_table_it_has_created)
{
    struct lladd_hash_options o = LLADD_HASH_OPTIONS_INIT;
    struct lladd_hash *h;
    uint64_t left = 1, n = 0;
    lladd_savepoint_id sp;
    struct lladd_txn *txn = fixture_begin(&b);
    o.key_size = o.value_size = 8;
    ok(txn, lladd_hash_create(txn, &o, &root));
    ok_db(&b, lladd_hash_open(b.db, root, 0, &h, &b.err));
    fill(txn, FIXED, h);
    ok(txn, lladd_savepoint(txn, &sp));
    while (left)
        ok(txn, lladd_hash_destroy_some(txn, root, 8, &left));
    ck_assert_uint_eq(used(), 0);
    ok(txn, lladd_rollback_to(txn, sp));
    ok_db(&b, lladd_hash_count(h, &n, &b.err));
    ck_assert_uint_eq(n, KEYS);
    left = 1;
    while (left)
        ok(txn, lladd_hash_destroy_some(txn, root, 8, &left));
    commit(txn);
    ck_assert_uint_eq(used(), 0);
    lladd_hash_close(h);
}
END_TEST

/* Allocates the page again, as a raw page without a header. */
static void reuse(lladd_pageno page)
{
    for (int i = 0; i < 5000; i++) {
        lladd_pageno got;
        struct lladd_txn *txn = fixture_begin(&b);
        unsigned char bytes[4096];
        memset(bytes, 0xa5, sizeof bytes);
        ok(txn, lladd_extent_alloc(txn, 1, LLADD_EXTENT_RAW, &got));
        ok(txn, lladd_bulk_write(txn, got, 1, NULL, bytes));
        commit(txn);
        if (got.v == page.v)
            return;
    }
    ck_abort_msg("the page does not come back");
}

/* A rollback to a savepoint that was set after the destruction does not undo the destruction. A
 * handle that was opened before the destruction must not read the former root page. With _i 1 some
 * steps of destruction come first. */
START_TEST(a_table_stays_destroyed_after_a_rollback_to_a_later_savepoint)
{
    const bool in_steps = _i;
    struct lladd_hash *h = make(FIXED);
    uint64_t key = 1, left = 1;
    lladd_savepoint_id first, second;
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_savepoint(txn, &first));
    ok(txn, lladd_hash_destroy_some(txn, root, 10, &left));
    ok(txn, lladd_rollback_to(txn, first));
    has_all(h);
    while (in_steps && left > 10)
        ok(txn, lladd_hash_destroy_some(txn, root, 10, &left));
    ok(txn, lladd_hash_destroy(txn, root));
    ok(txn, lladd_savepoint(txn, &second));
    ok(txn, lladd_rollback_to(txn, second));
    ck_assert_int_eq(lladd_hash_get(h, &key, 8, NULL, 0, NULL, &b.err), LLADD_DESTROYED);
    commit(txn);
    ok_db(&b, lladd_wait_durable(b.db, lladd_lsn_of(0), &b.err));
    reuse(root);
    ck_assert_int_eq(lladd_hash_get(h, &key, 8, NULL, 0, NULL, &b.err), LLADD_DESTROYED);
    lladd_hash_close(h);
}
END_TEST

/* A step of destruction claims the table for its transaction. A rollback to a savepoint ends a
 * claim that was made after the savepoint. */
START_TEST(a_rollback_to_a_savepoint_ends_the_claim)
{
    struct lladd_hash *h = make(FIXED);
    uint64_t key = KEYS + 1, left;
    lladd_savepoint_id first, second;
    struct lladd_txn *txn = fixture_begin(&b), *other = fixture_begin(&b);
    ok(txn, lladd_savepoint(txn, &first));
    ok(txn, lladd_hash_destroy_some(txn, root, 5, &left));
    ok(txn, lladd_savepoint(txn, &second));
    ok(txn, lladd_hash_destroy_some(txn, root, 5, &left));
    ok(txn, lladd_rollback_to(txn, second));
    refuses(other, LLADD_BUSY, lladd_hash_destroy_some(other, root, 5, &left));
    ok(txn, lladd_rollback_to(txn, first));
    ok(other, lladd_hash_insert(other, h, &key, 8, &key, 8));
    refuses(txn, LLADD_BUSY, lladd_hash_destroy(txn, root));
    commit(other);
    ok(txn, lladd_hash_delete(txn, h, &key, 8));
    commit(txn);
    has_all(h);
    lladd_hash_close(h);
}
END_TEST

/* ---- transactions in doubt ------------------------------------------------------------------- */

/* Invalid contents of a prepare record: the record is truncated, or states a larger number of
 * tables than it names. */
START_TEST(an_invalid_prepare_record_is_refused)
{
    const struct lladd_participant *p = ll_hash__extension.participants[0];
    for (size_t len = 0; len <= 20; len++) {
        struct lladd_txn *txn = fixture_begin(&b);
        unsigned char bytes[20] = {len < 16 ? 1 : 0};
        unsigned char *blob = exact(bytes, len);
        refuses(txn, LLADD_BAD_RECORD, p->in_doubt(p->ctx, txn, lladd_span_of(blob, len)));
        free(blob);
        abort_txn(txn);
    }
    for (size_t len = 8; len < 48; len++) {
        struct lladd_txn *txn = fixture_begin(&b);
        unsigned char bytes[48] = {0};
        lladd_put64(bytes, UINT64_MAX);
        lladd_put64(bytes + 8, 1);
        lladd_put64(bytes + 16, len % 2 ? UINT64_MAX : 2);
        unsigned char *blob = exact(bytes, len);
        refuses(txn, LLADD_BAD_RECORD, p->in_doubt(p->ctx, txn, lladd_span_of(blob, len)));
        free(blob);
        abort_txn(txn);
    }
}
END_TEST

/* A prepare record of an earlier version, which named only the tables that the transaction had
 * claimed for itself (operations/hash/table.c). */
START_TEST(an_older_prepare_record)
{
    const struct lladd_participant *p = ll_hash__extension.participants[0];
    unsigned char blob[16];
    struct lladd_hash *h = make(FIXED);
    uint64_t key = KEYS + 1;
    lladd_put64(blob, 1);
    lladd_put64(blob + 8, root.v);
    struct lladd_txn *txn = fixture_begin(&b), *other = fixture_begin(&b);
    ok(txn, p->in_doubt(p->ctx, txn, lladd_span_of(blob, sizeof blob)));
    refuses(other, LLADD_BUSY, lladd_hash_insert(other, h, &key, 8, &key, 8));
    abort_txn(txn);
    ok(other, lladd_hash_insert(other, h, &key, 8, &key, 8));
    commit(other);
    lladd_hash_close(h);
}
END_TEST

/* A transaction with a prepare record of an earlier version may have changed any table. So no table
 * can be destroyed until the transaction has ended. */
START_TEST(an_older_prepare_record_and_a_table_that_it_does_not_name)
{
    const struct lladd_participant *p = ll_hash__extension.participants[0];
    const unsigned char blob[8] = {0};
    struct lladd_hash *h = make(FIXED);
    uint64_t key = KEYS + 1, left;
    struct lladd_txn *txn = fixture_begin(&b), *other = fixture_begin(&b);
    ok(txn, p->in_doubt(p->ctx, txn, lladd_span_of(blob, sizeof blob)));
    refuses(other, LLADD_BUSY, lladd_hash_destroy(other, root));
    refuses(other, LLADD_BUSY, lladd_hash_destroy_some(other, root, 5, &left));
    ok(other, lladd_hash_insert(other, h, &key, 8, &key, 8));
    ok(other, lladd_hash_delete(other, h, &key, 8));
    commit(other);
    if (_i)
        abort_txn(txn);
    else
        commit(txn);
    step(5);
    lladd_hash_close(h);
}
END_TEST

/* The handle is killed while a transaction with a prepare record of an earlier version is in
 * doubt. */
START_TEST(an_older_prepare_record_and_a_killed_handle)
{
    const struct lladd_participant *p = ll_hash__extension.participants[0];
    const unsigned char blob[8] = {0};
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, p->in_doubt(p->ctx, txn, lladd_span_of(blob, sizeof blob)));
    fixture_kill(&b);
    fixture_open(&b);
}
END_TEST

/* ---- failures -------------------------------------------------------------------------------- */

static void another_may_destroy(void)
{
    uint64_t left;
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_hash_destroy_some(txn, root, 1, &left));
    ck_assert_int_eq(lladd_abort(txn), 0);
}

/* The n-th memory allocation of a step fails. Then the step has changed nothing, another
 * transaction may destroy the table, and the next step succeeds. */
START_TEST(a_step_that_fails_has_changed_nothing)
{
    lladd_hash_close(make(ANY));
    uint64_t failures = 0, left = 1;
    for (uint64_t nth = 1; left; nth++) {
        uint64_t had = used();
        struct lladd_txn *txn = fixture_begin(&b);
        fault_alloc_fail(&b.mem, nth % 40 + 1, false);
        int rc = lladd_hash_destroy_some(txn, root, 5, &left);
        fault_alloc_fail(&b.mem, 0, false);
        ck_assert_msg(rc == 0 || rc == LLADD_NO_MEMORY, "%s", lladd_code_name(rc));
        failures += rc != 0;
        if (rc) {
            ck_assert_uint_eq(used(), had);
            another_may_destroy();
        }
        commit(txn);
        if (nth % 50 == 49)
            left = step(5);
    }
    ck_assert_uint_gt(failures, 10);
    ck_assert_uint_eq(used(), 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("hash tables destroyed in steps");
    TCase *t = tcase_create("destroy");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, each_step_frees_about_so_many_pages, 0, 3 * KINDS);
    tcase_add_loop_test(t, what_is_left_is_destroyed_after_a_crash, 0, KINDS);
    tcase_add_loop_test(t, a_step_that_is_rolled_back_has_freed_nothing, 0, KINDS);
    tcase_add_loop_test(t, one_call_destroys_what_steps_have_left, 0, KINDS);
    tcase_add_loop_test(t, a_long_value_is_freed_in_steps, 0, 2);
    tcase_add_loop_test(t, a_step_smaller_than_its_bucket, 0, 2);
    tcase_add_test(t, wrong_calls_change_nothing);
    tcase_add_loop_test(t, no_destruction_while_changes_may_be_rolled_back, 0, 8);
    tcase_add_loop_test(t, tables_created_in_doubt, 0, 4);
    tcase_add_loop_test(t, a_transaction_destroys_what_it_has_changed, 0, 4);
    tcase_add_loop_test(t, a_transaction_that_has_changed_many_tables, 0, 2);
    tcase_add_test(t, a_transaction_destroys_the_table_it_has_created);
    tcase_add_loop_test(t, a_table_stays_destroyed_after_a_rollback_to_a_later_savepoint, 0, 2);
    tcase_add_test(t, an_invalid_prepare_record_is_refused);
    tcase_add_test(t, an_older_prepare_record);
    tcase_add_loop_test(t, an_older_prepare_record_and_a_table_that_it_does_not_name, 0, 2);
    tcase_add_test(t, a_rollback_to_a_savepoint_ends_the_claim);
    tcase_add_test(t, an_older_prepare_record_and_a_killed_handle);
    tcase_add_test(t, a_step_that_fails_has_changed_nothing);
    suite_add_tcase(s, t);
    return fixture_run(s);
}
