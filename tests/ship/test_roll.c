/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Roll: a restore from the rolled backup equals one from the old backup and the log, page by page;
 * the log above the rolled backup follows it; a store that fails at any call stays whole.
 */
#include "page_rig.h"
#include "numbered.h"

#include "support/test_world.h"

#include <lladd/blob.h>
#include <lladd/bulk.h>
#include <lladd/bytes.h>
#include <lladd/log_read.h>
#include <lladd/pages.h>
#include <lladd/records.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct lladd_backup_info rolled(void)
{
    struct lladd_backup_info info = {.struct_size = sizeof info};
    OK(lladd_archive_roll(&store.base, NULL, &info, &err));
    return info;
}

/* ---- compared ------------------------------------------------------------------------------- */

/* The database that the backup and the log up to `lsn` give, recovered and closed. */
struct state {
    struct lladd_device *shown, *overlay;
    unsigned char *pages, uuid[16];
    uint64_t n;
    uint64_t gens[SHOP_WORKERS];
};

static void recover(struct state *s, const char *base, uint64_t lsn, unsigned doubt)
{
    struct lladd_restore_target t = LLADD_RESTORE_TARGET_INIT;
    struct lladd_restore_options o = LLADD_RESTORE_OPTIONS_INIT;
    struct shop opened;
    t.kind = lsn ? LLADD_TO_LSN : LLADD_TO_BASE;
    t.lsn = lladd_lsn_of(lsn);
    o.target = &t;
    o.base = base;
    OK(lladd_store_device(&store.base, &o, &s->shown, &err));
    ck_assert_int_eq(lladd_device_overlay(s->shown, &s->overlay), 0);
    shop_open(&opened, s->overlay, LLADD_OPT_MUST_EXIST | LLADD_OPT_NO_THREADS);
    shop_check(&opened, doubt, s->gens);
    shop_close(&opened);
    shop_verify(s->overlay);
    s->pages = read_pages(s->overlay, &s->n);
    uuid_of(s->overlay, s->uuid);
}

static void release(struct state *s)
{
    free(s->pages);
    lladd_device_close(s->overlay);
    lladd_store_device_close(s->shown);
}

/* Every page with a header in both has the same contents and the same LSN; and a page that has a
 * header in one of them and not in the other one is free. */
static void compare(const struct state *a, const struct state *b)
{
    unsigned same = 0;
    ck_assert_uint_eq(a->n, b->n);
    for (unsigned k = 0; k < SHOP_WORKERS; k++)
        ck_assert_uint_eq(a->gens[k], b->gens[k]);
    for (uint64_t i = 0; i < a->n; i++) {
        const unsigned char *x = a->pages + i * PAGE, *y = b->pages + i * PAGE;
        if (!is_typed(a->uuid, a->pages, i) || !is_typed(b->uuid, b->pages, i))
            continue;
        ck_assert_msg(memcmp(x + 32, y + 32, PAGE - 32) == 0, "page %u", (unsigned)i);
        same++;
    }
    ck_assert_uint_gt(same, 20);
}

/* The states that the two backups give at the LSN; 0: at the end of the new one. */
static void expect_same(const char *old, const struct lladd_backup_info *new, uint64_t lsn,
                        unsigned doubt)
{
    struct state a, b;
    recover(&a, old, lsn ? lsn : new->end.v, doubt);
    recover(&b, new->name, lsn, doubt);
    compare(&a, &b);
    release(&a);
    release(&b);
}

static void expect_whole(const char *base)
{
    struct lladd_check_options o = LLADD_CHECK_OPTIONS_INIT;
    struct lladd_check_info info = {.struct_size = sizeof info};
    o.base = base;
    OK(lladd_archive_check(&store.base, &o, &info, &err));
    ck_assert_uint_eq(info.damage + info.repair, 0);
    ck_assert_uint_ge(info.restored.v, info.end.v);
}

static struct lladd_backup_info backup(void)
{
    struct lladd_backup_info info = {.struct_size = sizeof info};
    OK(lladd_backup(shop.db, &store.base, NULL, &info, &err));
    return info;
}

/* ---- one roll ------------------------------------------------------------------------------- */

/* A transaction that writes a page and pages in bulk, and is open. */
static struct lladd_txn *open_writer(lladd_pageno *first)
{
    static unsigned char bytes[5 * PAGE];
    struct lladd_txn *txn;
    uint64_t value = 99;
    lladd_pageno page;
    memset(bytes, 0xee, sizeof bytes);
    OK(lladd_begin(shop.db, NULL, &txn, &err));
    TXN(lladd_page_alloc(txn, &page));
    TXN(lladd_bytes_format(txn, page));
    TXN(lladd_bytes_set(txn, page, 100, &value, sizeof value));
    TXN(lladd_extent_alloc(txn, 5, LLADD_EXTENT_RAW, first));
    TXN(lladd_bulk_write(txn, *first, 5, NULL, bytes));
    return txn;
}

/* With transactions that are open, prepared and rolled back at the end of the log, before and after
 * checkpoints, and pages written in bulk. What is open there commits later. */
START_TEST(a_rolled_backup_equals_backup_and_log)
{
    lladd_pageno first;
    open_shop(disk, false);
    store_log();
    work(5);
    shop_prepare(&shop, 100);
    struct lladd_backup_info old = backup();
    work(8);
    struct lladd_txn *txn = open_writer(&first);
    uint64_t id = lladd_txn_id(txn).v;
    OK(lladd_checkpoint(shop.db, &err));
    shop_prepare(&shop, 101);
    work(4);
    lladd_pageno other;
    ck_assert_int_eq(lladd_abort(open_writer(&other)), 0);
    if (_i)
        OK(lladd_checkpoint(shop.db, &err));
    work(2);
    store_log();
    size_t n = store.n;
    struct lladd_backup_info new = rolled();
    ck_assert_uint_gt(new.end.v, old.end.v);
    ck_assert_uint_le(new.from.v, id);
    ck_assert_uint_eq(new.damaged_pages, 0);
    ck_assert_uint_eq(new.timeline, 0);
    ck_assert_uint_gt(store.n, n);
    expect_same(old.name, &new, 0, 2);
    expect_whole(new.name);
    /* The log goes on from it. */
    TXN(lladd_bulk_sync(txn));
    ck_assert_int_eq(lladd_commit(txn), 0);
    work(6);
    uint64_t end = lladd_durable_lsn(shop.db).v;
    store_log();
    close_shop(true);
    expect_same(old.name, &new, end, 2);
    expect_whole(new.name);
    struct state s;
    recover(&s, new.name, end, 2);
    for (unsigned i = 0; i < 5 * PAGE; i++)
        ck_assert_uint_eq(s.pages[first.v * PAGE + i], 0xee);
    release(&s);
}
END_TEST

/* A transaction that is open at the end of the log began long before the last checkpoint, and no
 * pin keeps its log: the rolled backup has it, for the rollback, and for the commit later. */
START_TEST(an_open_transaction_keeps_its_log)
{
    lladd_pageno first;
    open_shop(disk, false);
    store_log();
    work(3);
    struct lladd_backup_info old = backup();
    struct lladd_txn *txn = open_writer(&first);
    uint64_t id = lladd_txn_id(txn).v;
    for (unsigned i = 0; i < 3; i++) {
        work(6);
        forget_log();
    }
    store_log();
    ck_assert_uint_gt(status().kept.v, id);
    struct lladd_backup_info new = rolled();
    ck_assert_uint_le(new.from.v, id);
    expect_same(old.name, &new, 0, 0);
    TXN(lladd_bulk_sync(txn));
    ck_assert_int_eq(lladd_commit(txn), 0);
    work(2);
    uint64_t end = lladd_durable_lsn(shop.db).v;
    store_log();
    close_shop(true);
    expect_same(old.name, &new, end, 0);
}
END_TEST

/* Rolls of rolled backups; the database is killed and opened again meanwhile. The old backups and
 * the log below expire. */
START_TEST(a_rolled_backup_is_rolled)
{
    struct lladd_keep keep = LLADD_KEEP_INIT;
    keep.backups = 2;
    open_shop(disk, false);
    store_log();
    work(3);
    struct lladd_backup_info old = backup(), new;
    for (unsigned i = 0; i < 5; i++) {
        work(5);
        if (i % 2) {
            close_shop(i == 3);
            open_shop(disk, false);
        }
        work(2);
        forget_log();
        store_log();
        new = rolled();
        ck_assert_uint_gt(new.end.v, old.end.v);
        ck_assert_uint_gt(new.from.v, old.from.v);
        expect_same(old.name, &new, 0, 0);
        if (i) {
            OK(lladd_archive_expire(&store.base, &keep, NULL, NULL, NULL, &err));
            expect_whole(old.name);
        }
        expect_whole(new.name);
        old = new;
    }
    close_shop(false);
}
END_TEST

START_TEST(without_new_log_nothing_is_rolled)
{
    open_shop(disk, false);
    store_log();
    work(3);
    store_log();
    struct lladd_backup_info old = backup();
    store_log();
    close_shop(true);
    struct lladd_backup_info first = rolled(); /* of the log's last records, if there are any */
    size_t n = store.n;
    struct lladd_backup_info second = rolled();
    ck_assert_str_eq(first.name, second.name);
    ck_assert_uint_eq(store.n, n);
    ck_assert_uint_ge(first.end.v, old.end.v);
}
END_TEST

/* ---- every commit --------------------------------------------------------------------------- */

/* A run is rolled over crashes. Each later commit is a target from each rolled backup. */
START_TEST(every_later_commit_is_a_target)
{
    static struct run run, opened;
    struct test_world world;
    struct lladd_backup_info made[4] = {{.struct_size = sizeof made[0]}};
    uint64_t number[4];
    test_world_init(&world, 3);
    run = (struct run){.store = &store, .segment = 1u << 14, .world = &world.world};
    run_open(&run, disk, 0);
    OK(lladd_pin_clear(run.db, "all the log", &err));
    run_work_to(&run, 10);
    OK(lladd_backup(run.db, &store.base, NULL, &made[0], &err));
    number[0] = run.number;
    for (unsigned i = 1; i < 4; i++) {
        struct lladd_txn *loser = run_begin(&run);
        run_put(&run, loser, RUN_LOSER, i);
        run_work_to(&run, 10 + i * 20);
        if (i == 2) {
            run_archive(&run, 0);
            run_kill(&run);
            run_open(&run, disk, LLADD_OPT_MUST_EXIST);
            run_work_to(&run, run.number + 5);
        } else {
            OK(lladd_checkpoint(run.db, &err));
            run_work_to(&run, run.number + 5);
        }
        run_archive(&run, 0);
        made[i].struct_size = sizeof made[i];
        number[i] = run.number;
        OK(lladd_archive_roll(&store.base, NULL, &made[i], &err));
        if (i != 2)
            ck_assert_int_eq(lladd_abort(loser), 0);
    }
    run_work_to(&run, 100);
    run_archive(&run, 0);
    run_kill(&run);
    for (unsigned i = 0; i < 4; i++)
        for (uint64_t k = number[i] + 1; k <= 100; k += 9) {
            struct lladd_restore_target t = LLADD_RESTORE_TARGET_INIT;
            struct lladd_restore_options o = LLADD_RESTORE_OPTIONS_INIT;
            struct lladd_device *shown, *overlay;
            t.kind = LLADD_TO_LSN;
            t.lsn = lladd_lsn_of(run.end[k]);
            o.target = &t;
            o.base = made[i].name;
            opened = (struct run){.segment = run.segment};
            OK(lladd_store_device(&store.base, &o, &shown, &err));
            ck_assert_int_eq(lladd_device_overlay(shown, &overlay), 0);
            run_open(&opened, overlay, LLADD_OPT_MUST_EXIST);
            run_check(&opened, &run, k);
            run_kill(&opened);
            lladd_device_close(overlay);
            lladd_store_device_close(shown);
        }
}
END_TEST

/* A restored copy archives, and gets its first backup by a roll of that of its origin. */
START_TEST(a_copy_is_rolled)
{
    struct lladd_roll_options o = LLADD_ROLL_OPTIONS_INIT;
    struct lladd_backup_info new = {.struct_size = sizeof new};
    open_shop(disk, false);
    store_log();
    work(4);
    struct lladd_backup_info old = backup();
    work(4);
    store_log();
    close_shop(true);
    struct lladd_restore_target t = LLADD_RESTORE_TARGET_INIT;
    struct lladd_restore_options r = LLADD_RESTORE_OPTIONS_INIT;
    t.kind = LLADD_TO_END;
    r.target = &t;
    OK(lladd_restore(&store.base, &r, copy, NULL, &err));
    open_shop(copy, false);
    store_log();
    work(5);
    store_log();
    close_shop(true);
    o.timeline = 1;
    o.label = "copy";
    OK(lladd_archive_roll(&store.base, &o, &new, &err));
    ck_assert_uint_eq(new.timeline, 1);
    ck_assert_str_eq(new.label, "copy");
    ck_assert_uint_gt(new.end.v, old.end.v);
    expect_whole(new.name);
    struct state s;
    recover(&s, new.name, 0, 0);
    ck_assert_uint_eq(s.gens[0], 4);
    release(&s);
}
END_TEST

/* ---- refused and failed --------------------------------------------------------------------- */

static int stop_at(void *ctx, const char *what, uint64_t done, uint64_t all)
{
    unsigned *left = ctx;
    (void)what, (void)done, (void)all;
    return (*left)-- == 0 ? LLADD_TAKEN : 0;
}

START_TEST(wrong_calls_are_refused)
{
    struct lladd_roll_options o = LLADD_ROLL_OPTIONS_INIT;
    unsigned left = 1;
    ck_assert_int_eq(lladd_archive_roll(NULL, NULL, NULL, &err), LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(lladd_archive_roll(&store.base, NULL, NULL, &err), LLADD_NOT_FOUND);
    open_with_pages();
    close_shop(true);
    size_t n = store.n;
    o.memory_bytes = 1;
    ck_assert_int_eq(lladd_archive_roll(&store.base, &o, NULL, &err), LLADD_BAD_ARGUMENT);
    o.spill_dir = "/tmp";
    o.label = "two\nlines";
    ck_assert_int_eq(lladd_archive_roll(&store.base, &o, NULL, &err), LLADD_BAD_ARGUMENT);
    o.label = NULL;
    o.base = "none";
    ck_assert_int_eq(lladd_archive_roll(&store.base, &o, NULL, &err), LLADD_NOT_FOUND);
    o.base = NULL;
    o.progress = stop_at;
    o.progress_ctx = &left;
    ck_assert_int_eq(lladd_archive_roll(&store.base, &o, NULL, &err), LLADD_TAKEN);
    ck_assert_uint_eq(store.n, n);
    /* Damage in the archive is named, and nothing is stored. */
    struct memory_object *spool = last_object("/bulk/");
    spool->bytes[spool->len / 2] ^= 1;
    o.progress = NULL;
    ck_assert_int_eq(lladd_archive_roll(&store.base, &o, NULL, &err), LLADD_CORRUPT_BACKUP);
    ck_assert_ptr_nonnull(strstr(err.message, spool->name));
    ck_assert_uint_eq(store.n, n);
    spool->bytes[spool->len / 2] ^= 1;
    struct memory_object *pages = last_object("/pages.0");
    pages->bytes[pages->len / 2] ^= 1;
    ck_assert_int_eq(lladd_archive_roll(&store.base, &o, NULL, &err), LLADD_CORRUPT_BACKUP);
    ck_assert_ptr_nonnull(strstr(err.message, pages->name));
    ck_assert_uint_eq(store.n, n);
    pages->bytes[pages->len / 2] ^= 1;
    OK(lladd_archive_roll(&store.base, &o, NULL, &err));
    expect_whole(NULL);
}
END_TEST

static int count(void *ctx, const struct lladd_backup_info *info)
{
    unsigned *n = ctx;
    (void)info;
    ++*n;
    return 0;
}

static unsigned complete(void)
{
    unsigned n = 0;
    OK(lladd_backup_each(&store.base, NULL, count, &n, &err));
    return n;
}

static void remove_new(const char *old)
{
    for (size_t i = 0; i < store.n; i++)
        if (strncmp(store.objects[i].name, "base/", 5) == 0 && !strstr(store.objects[i].name, old))
            memory_store_drop(&store, &store.objects[i--]);
}

/* A call of the store fails, or the process dies there. The old backup and the archive stay; the
 * new backup is whole, or not shown. */
START_TEST(the_store_fails_at_each_call_of_a_roll)
{
    struct lladd_backup_info info = {.struct_size = sizeof info};
    open_shop(disk, false);
    store_log();
    work(2);
    struct lladd_backup_info old = backup();
    work(4);
    store_log();
    close_shop(true);
    store.fail_on = _i & 1;
    store.lost = _i & 2;
    bool fired = true;
    for (uint64_t n = 1; fired; n += 1 + n / 20) {
        store.fail_at = store.calls + n;
        store.fired = 0;
        int rc = lladd_archive_roll(&store.base, NULL, &info, &err);
        fired = store.fired != 0;
        store.fail_at = 0;
        ck_assert(rc == 0 || (fired && rc == LLADD_STORE_FAILED));
        ck_assert_uint_le(complete(), 2);
        expect_whole(NULL);
        expect_whole(old.name);
        if (!rc)
            expect_same(old.name, &info, 0, 0);
        remove_new(old.name);
    }
    OK(lladd_archive_roll(&store.base, NULL, &info, &err));
    expect_same(old.name, &info, 0, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("roll");
    TCase *tc = tcase_create("all");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, a_rolled_backup_equals_backup_and_log, 0, 2);
    tcase_add_test(tc, an_open_transaction_keeps_its_log);
    tcase_add_test(tc, a_rolled_backup_is_rolled);
    tcase_add_test(tc, without_new_log_nothing_is_rolled);
    tcase_add_test(tc, every_later_commit_is_a_target);
    tcase_add_test(tc, a_copy_is_rolled);
    tcase_add_test(tc, wrong_calls_are_refused);
    tcase_add_loop_test(tc, the_store_fails_at_each_call_of_a_roll, 0, 4);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
