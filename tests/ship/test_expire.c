/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Expiry: every state that the kept backups and the log reach can be restored, also after a failure
 * of any call. The objects are deleted in the right order.
 */
#include "calls.h"
#include "numbered.h"
#include "shop.h"

#include "support/test_world.h"

#include "ship/archive_private.h"

#include <check.h>
#include <lladd/device.h>
#include <lladd/log_read.h>
#include <lladd/pages.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BACKUPS = 4, EACH = 35, LAST = BACKUPS * EACH + EACH };

static struct memory_store store;
static struct lladd_device *disk, *copy;
static struct run run;
static struct test_world world;
static struct lladd_backup_info backups[BACKUPS];
static struct lladd_error err;

static void setup(void)
{
    err = (struct lladd_error)LLADD_ERROR_INIT;
    memory_store_init(&store);
    test_world_init(&world, 7);
    run = (struct run){.store = &store, .segment = 1u << 14, .world = &world.world};
    ck_assert_int_eq(lladd_device_memory(&disk), 0);
    ck_assert_int_eq(lladd_device_memory(&copy), 0);
}

static void teardown(void)
{
    memory_store_free(&store);
    lladd_device_close(disk);
    lladd_device_close(copy);
}

static struct lladd_backup_info backed_up(struct lladd_db *db)
{
    struct lladd_backup_info info = {.struct_size = sizeof info};
    struct lladd_backup_options o = LLADD_BACKUP_OPTIONS_INIT;
    o.world = &world.world;
    OK(lladd_backup(db, &store.base, &o, &info, &err));
    return info;
}

/* A run with backups after each 35 transactions, an hour apart, and its archive. All transactions
 * of a backup had ended when the next one began, so only the log above its end is needed. */
static void make_store(void)
{
    run_open(&run, disk, 0);
    OK(lladd_pin_clear(run.db, "all the log", &err));
    for (unsigned i = 0; i < BACKUPS; i++) {
        run_work_to(&run, run.number + EACH);
        run_archive(&run, 0);
        backups[i] = backed_up(run.db);
        test_world_advance(&world, UINT64_C(3600) * 1000000000);
    }
    run_work_to(&run, LAST);
    run_archive(&run, 0);
}

static struct lladd_keep keeping(uint64_t n)
{
    struct lladd_keep keep = LLADD_KEEP_INIT;
    keep.backups = n;
    keep.world = &world.world;
    return keep;
}

static struct lladd_expire_info expired(const struct lladd_keep *keep)
{
    struct lladd_expire_info info = {.struct_size = sizeof info};
    OK(lladd_archive_expire(&store.base, keep, NULL, NULL, &info, &err));
    return info;
}

/* ---- what can be restored ------------------------------------------------------------------- */

/* Restores the state after transaction `number`, from the backup `base`; NULL: any. */
static int try_look(const char *base, uint32_t timeline, const struct run *r, uint64_t number)
{
    static struct run opened;
    struct lladd_restore_target t = LLADD_RESTORE_TARGET_INIT;
    struct lladd_restore_options o = LLADD_RESTORE_OPTIONS_INIT;
    struct lladd_device *device, *overlay;
    t.kind = LLADD_TO_LSN;
    t.lsn = lladd_lsn_of(r->end[number]);
    t.timeline = timeline;
    o.target = &t;
    o.base = base;
    int rc = lladd_store_device(&store.base, &o, &device, &err);
    if (rc)
        return rc;
    opened = (struct run){.segment = r->segment};
    ck_assert_int_eq(lladd_device_overlay(device, &overlay), 0);
    run_open(&opened, overlay, LLADD_OPT_MUST_EXIST);
    run_check(&opened, r, number);
    run_kill(&opened);
    lladd_device_close(overlay);
    lladd_store_device_close(device);
    return 0;
}

/* Every state from the end of the backup on can be restored, from each later backup, too. */
static void expect_from(unsigned first)
{
    for (unsigned i = first; i < BACKUPS; i++)
        for (uint64_t k = (i + 1) * EACH + 1; k <= LAST; k += 8)
            OK(try_look(backups[i].name, 0, &run, k));
    OK(try_look(NULL, 0, &run, LAST));
}

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

static int no_finding(void *ctx, const struct lladd_finding *f)
{
    (void)ctx;
    ck_assert_msg(f->kind == LLADD_FINDING_NOTE, "%s: %s", f->file, f->message);
    return 0;
}

/* Returns how far the newest backup with the log can be restored. */
static uint64_t check_whole(void)
{
    struct lladd_check_options o = LLADD_CHECK_OPTIONS_INIT;
    struct lladd_check_info info = {.struct_size = sizeof info};
    o.finding = no_finding;
    OK(lladd_archive_check(&store.base, &o, &info, &err));
    ck_assert_uint_ge(info.restored.v, info.end.v);
    return info.restored.v;
}

static unsigned objects(const char *part)
{
    unsigned n = 0;
    for (size_t i = 0; i < store.n; i++)
        n += strstr(store.objects[i].name, part) != NULL;
    return n;
}

/* Objects of the backups from this number on. */
static unsigned objects_from(unsigned first)
{
    unsigned n = 0;
    for (unsigned i = first; i < BACKUPS; i++)
        n += objects(backups[i].name);
    return n;
}

/* ---- numbers and times ---------------------------------------------------------------------- */

START_TEST(a_number_of_backups_is_kept)
{
    unsigned keep = (unsigned)_i + 1;
    struct lladd_keep k = keeping(keep);
    make_store();
    unsigned before = objects("/log/");
    struct lladd_expire_info info = expired(&k);
    unsigned kept = keep < BACKUPS ? keep : BACKUPS;
    ck_assert_uint_eq(complete(), kept);
    ck_assert_uint_eq(info.kept, kept);
    ck_assert_uint_eq(info.expired, BACKUPS - kept);
    ck_assert_uint_eq(info.log_from.v, backups[BACKUPS - kept].from.v);
    ck_assert(kept == BACKUPS || objects("/log/") < before);
    ck_assert_uint_eq(objects("base/"), objects_from(BACKUPS - kept));
    expect_from(BACKUPS - kept);
    ck_assert_uint_ge(check_whole(), run.end[LAST]);
    for (unsigned i = 0; i < BACKUPS - kept; i++) {
        ck_assert_int_eq(try_look(backups[i].name, 0, &run, LAST), LLADD_NOT_FOUND);
        ck_assert_int_eq(try_look(NULL, 0, &run, (i + 1) * EACH), LLADD_OUT_OF_RANGE);
    }
    /* The second time there is nothing to do, and the archive and backups go on. */
    ck_assert_uint_eq(expired(&k).objects, 0);
    run_close(&run);
    run_open(&run, disk, LLADD_OPT_MUST_EXIST);
    run_work_to(&run, LAST + 10);
    run_archive(&run, 0);
    backed_up(run.db);
    OK(try_look(NULL, 0, &run, LAST + 10));
    OK(try_look(backups[BACKUPS - 1].name, 0, &run, LAST + 5));
    run_close(&run);
}
END_TEST

/* Each state since the time can be restored: so the last backup before it is kept. */
START_TEST(what_there_was_since_a_time_is_kept)
{
    struct lladd_keep k = keeping(0);
    make_store();
    k.since_us = backups[2].ended_us;
    expired(&k);
    ck_assert_uint_eq(complete(), 3);
    expect_from(1);
    k.since_us = backups[3].ended_us + 1;
    k.backups = 2; /* what one of the two keeps is kept */
    expired(&k);
    ck_assert_uint_eq(complete(), 2);
    expect_from(2);
    k.backups = 0;
    expired(&k);
    ck_assert_uint_eq(complete(), 1);
    k.since_us = INT64_MAX; /* the last one stays */
    expired(&k);
    ck_assert_uint_eq(complete(), 1);
    expect_from(3);
    run_close(&run);
}
END_TEST

static int see(void *ctx, const struct lladd_finding *f)
{
    unsigned *n = ctx;
    ck_assert_int_eq(f->kind, LLADD_FINDING_NOTE);
    ck_assert_ptr_nonnull(memory_store_find(&store, f->file));
    ++*n;
    return 0;
}

static int stop(void *ctx, const struct lladd_finding *f)
{
    (void)ctx, (void)f;
    return LLADD_TAKEN;
}

START_TEST(a_dry_run_deletes_nothing)
{
    struct lladd_expire_info info = {.struct_size = sizeof info};
    struct lladd_keep k = keeping(2);
    unsigned told = 0;
    make_store();
    size_t n = store.n;
    k.dry_run = true;
    OK(lladd_archive_expire(&store.base, &k, see, &told, &info, &err));
    ck_assert_uint_eq(store.n, n);
    ck_assert_uint_eq(told, info.objects);
    ck_assert_uint_gt(told, 10);
    k.dry_run = false;
    ck_assert_int_eq(lladd_archive_expire(&store.base, &k, stop, NULL, NULL, &err), LLADD_TAKEN);
    ck_assert_uint_eq(store.n, n);
    ck_assert_uint_eq(expired(&k).objects, told);
    ck_assert_uint_eq(store.n, n - told);
    run_close(&run);
}
END_TEST

/* ---- what is needed ------------------------------------------------------------------------- */

/* A transaction is open while a backup is made: the log from its begin on stays, and what the
 * backup needs for its rollback, too. */
START_TEST(log_of_an_open_transaction_stays)
{
    struct lladd_keep k = keeping(1);
    run_open(&run, disk, 0);
    OK(lladd_pin_clear(run.db, "all the log", &err));
    run_work_to(&run, 20);
    struct lladd_txn *txn = run_begin(&run);
    run_put(&run, txn, RUN_LOSER, 1);
    uint64_t begun = lladd_txn_id(txn).v;
    run_work_to(&run, 60);
    run_archive(&run, 0);
    backed_up(run.db);
    backups[0] = backed_up(run.db);
    ck_assert_uint_le(backups[0].from.v, begun);
    run_work_to(&run, 80);
    run_archive(&run, 0);
    ck_assert_uint_eq(expired(&k).log_from.v, backups[0].from.v);
    for (uint64_t i = 61; i <= 80; i += 3)
        OK(try_look(NULL, 0, &run, i));
    ck_assert_int_eq(lladd_abort(txn), 0);
    run_close(&run);
}
END_TEST

/* A backup that has begun and not ended needs log from its `from` on, for a week. */
START_TEST(a_backup_that_runs_is_not_touched)
{
    struct lladd_keep k = keeping(1);
    char text[100];
    make_store();
    int n = snprintf(text, sizeof text, "from %llu\nbegun_us %lld\n",
                     (unsigned long long)backups[1].from.v,
                     (long long)world.world.wall_us(world.world.ctx));
    run_store_object(&run, "base/runs/begun", text, (size_t)n);
    run_store_object(&run, "base/runs/pages.0", text, 3);
    run_store_object(&run, "base/left/pages.0", text, 3); /* "begun" was deleted */
    ck_assert_uint_eq(expired(&k).log_from.v, backups[1].from.v);
    ck_assert_uint_eq(objects("base/runs/"), 2);
    ck_assert_uint_eq(objects("base/left/"), 0);
    expect_from(3);
    test_world_advance(&world, UINT64_C(8) * 24 * 3600 * 1000000000);
    ck_assert_uint_eq(expired(&k).log_from.v, backups[3].from.v);
    ck_assert_uint_eq(objects("base/runs/"), 0);
    expect_from(3);
    /* Nothing is known of a backup with a damaged text. */
    run_store_object(&run, "base/runs/begun", "x", 1);
    ck_assert_int_eq(lladd_archive_expire(&store.base, &k, NULL, NULL, NULL, &err),
                     LLADD_CORRUPT_BACKUP);
    run_close(&run);
}
END_TEST

START_TEST(wrong_calls_are_refused)
{
    struct lladd_keep k = keeping(0);
    ck_assert_int_eq(lladd_archive_expire(&store.base, NULL, NULL, NULL, NULL, &err),
                     LLADD_BAD_ARGUMENT);
    k.backups = 1;
    ck_assert_int_eq(lladd_archive_expire(&store.base, &k, NULL, NULL, NULL, &err),
                     LLADD_NOT_FOUND);
    make_store();
    size_t n = store.n;
    k.backups = 0; /* the last backup is never deleted */
    ck_assert_int_eq(lladd_archive_expire(&store.base, &k, NULL, NULL, NULL, &err),
                     LLADD_BAD_ARGUMENT);
    /* A damaged manifest may be that of a backup that is needed. */
    k.backups = 1;
    char name[100];
    (void)snprintf(name, sizeof name, "%s/manifest", backups[0].name);
    memory_store_find(&store, name)->bytes[20] ^= 1;
    ck_assert_int_eq(lladd_archive_expire(&store.base, &k, NULL, NULL, NULL, &err),
                     LLADD_CORRUPT_BACKUP);
    ck_assert_uint_eq(store.n, n);
    run_close(&run);
}
END_TEST

/* ---- timelines ------------------------------------------------------------------------------ */

/* A restored copy archives, and has no backup yet: the backup that it began with stays, and so does
 * the log up to where it left the origin. When the copy has a backup, they go. */
START_TEST(a_copy_without_a_backup_keeps_its_origin)
{
    static struct run second;
    struct lladd_restore_target t = LLADD_RESTORE_TARGET_INIT;
    struct lladd_restore_options o = LLADD_RESTORE_OPTIONS_INIT;
    struct lladd_keep k = keeping(1);
    make_store();
    run_close(&run);
    t.kind = LLADD_TO_LSN;
    t.lsn = lladd_lsn_of(run.end[2 * EACH + 5]); /* between backups 1 and 2 */
    o.target = &t;
    OK(lladd_restore(&store.base, &o, copy, NULL, &err));
    second = run;
    second.number = 2 * EACH + 5;
    second.variant = 1;
    run_open(&second, copy, LLADD_OPT_MUST_EXIST);
    run_work_to(&second, 80);
    run_archive(&second, 1);
    struct lladd_expire_info info = expired(&k);
    ck_assert_uint_eq(info.kept, 2);
    ck_assert_uint_eq(info.log_from.v, backups[1].from.v);
    for (uint64_t i = 2 * EACH + 1; i <= 80; i += 7)
        OK(try_look(NULL, 1, &second, i));
    expect_from(3);
    struct lladd_backup_info own = backed_up(second.db);
    ck_assert_uint_eq(own.timeline, 1);
    run_work_to(&second, 90);
    run_archive(&second, 1);
    info = expired(&k);
    ck_assert_uint_eq(info.kept, 1);
    ck_assert_uint_eq(complete(), 1);
    for (uint64_t i = 81; i <= 90; i += 3)
        OK(try_look(NULL, 1, &second, i));
    run_close(&second);
}
END_TEST

/* ---- failures ------------------------------------------------------------------------------- */

/* A call of the store fails, or the process dies there: what is kept can be restored, no backup is
 * shown that is not whole, and the next call deletes the rest. */
START_TEST(the_store_fails_at_each_call_of_an_expiry)
{
    bool on = _i & 1, lost = _i & 2;
    struct lladd_keep k = keeping(2);
    bool fired = true;
    for (uint64_t n = 1; fired; n += 1 + n / 25) {
        teardown();
        setup();
        make_store();
        store.fail_at = store.calls + n;
        store.fail_on = on;
        store.lost = lost;
        int rc = lladd_archive_expire(&store.base, &k, NULL, NULL, NULL, &err);
        fired = store.fired != 0;
        ck_assert_int_eq(rc, fired ? LLADD_STORE_FAILED : 0);
        store.fail_at = 0;
        unsigned shown = complete();
        ck_assert_uint_ge(shown, 2);
        /* Each backup that is shown can be restored, and each has the log above it. */
        expect_from(BACKUPS - shown);
        ck_assert_uint_ge(check_whole(), run.end[LAST]);
        expired(&k);
        ck_assert_uint_eq(complete(), 2);
        ck_assert_uint_eq(objects("base/"), objects_from(2));
        expect_from(2);
        ck_assert_uint_eq(expired(&k).objects, 0);
        run_close(&run);
    }
}
END_TEST

/* A backup that fails deletes what it has stored, and nothing else. */
START_TEST(a_backup_that_fails_deletes_only_its_own_objects)
{
    make_store();
    size_t n = store.n;
    unsigned old = objects_from(0);
    bool fired = true;
    store.lost = _i != 0;
    for (uint64_t at = 1; fired; at++) {
        store.fail_at = store.calls + at;
        store.fired = 0;
        (void)lladd_backup(run.db, &store.base, NULL, NULL, &err);
        fired = store.fired != 0;
        store.fail_at = 0;
        ck_assert_uint_ge(store.n, n);
        ck_assert_uint_eq(objects_from(0), old);
    }
    expect_from(0);
    run_close(&run);
}
END_TEST

/* ---- spools --------------------------------------------------------------------------------- */

static struct lladd_archive *archive;
static struct shop shop;

static void store_log(void)
{
    bool more = true;
    while (more)
        OK(lladd_archive_step(archive, &more, &err));
}

static void open_shop(void)
{
    OK(ll_ship_archive_new(&store.base, NULL, &archive, &err));
    shop_open_with(&shop, disk, LLADD_OPT_NO_THREADS, &archive->ext);
}

static void close_shop(void)
{
    shop_close(&shop);
    lladd_archive_free(archive);
}

/* Spools of the kept log stay, those below go. The archive finds no gap when it is opened again,
 * also if it has not stored the last log when the backups expire. */
START_TEST(spools_go_with_their_log)
{
    struct lladd_keep k = keeping(1);
    struct lladd_archive_status s = {.struct_size = sizeof s};
    unsigned works = 0;
    open_shop();
    for (unsigned i = 0; i < 6; i++) {
        for (unsigned n = 0; n < 4; n++, works++)
            shop_work(&shop, n);
        store_log();
        backed_up(shop.db);
        if (i == 2) { /* spools are stored with a piece, and the segment is not closed */
            shop_work(&shop, 0);
            store_log();
            works++;
        }
        expired(&k);
        close_shop();
        open_shop();
        store_log();
        OK(lladd_archive_status_get(archive, &s, &err));
        ck_assert(!s.gap);
        check_whole();
    }
    ck_assert_uint_lt(objects("/bulk/"), works);
    for (unsigned n = 0; n < 4; n++)
        shop_work(&shop, n);
    store_log();
    ck_assert_uint_ge(check_whole(), lladd_durable_lsn(shop.db).v);
    close_shop();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("expire");
    TCase *tc = tcase_create("all");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, a_number_of_backups_is_kept, 0, BACKUPS + 1);
    tcase_add_test(tc, what_there_was_since_a_time_is_kept);
    tcase_add_test(tc, a_dry_run_deletes_nothing);
    tcase_add_test(tc, log_of_an_open_transaction_stays);
    tcase_add_test(tc, a_backup_that_runs_is_not_touched);
    tcase_add_test(tc, wrong_calls_are_refused);
    tcase_add_test(tc, a_copy_without_a_backup_keeps_its_origin);
    tcase_add_loop_test(tc, the_store_fails_at_each_call_of_an_expiry, 0, 4);
    tcase_add_loop_test(tc, a_backup_that_fails_deletes_only_its_own_objects, 0, 2);
    tcase_add_test(tc, spools_go_with_their_log);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
