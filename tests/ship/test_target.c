/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Restores to a target: every commit of a run, targets that cannot be restored, and archives with
 * gaps, with damage and with two timelines.
 */
#include "calls.h"
#include "numbered.h"
#include "shop.h"

#include "support/test_world.h"

#include <check.h>
#include <lladd/bytes.h>
#include <lladd/device.h>
#include <lladd/extension.h>
#include <lladd/hash.h>
#include <lladd/log_read.h>
#include <lladd/twophase.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct memory_store store;
static struct lladd_device *disk, *copy;
static struct lladd_error err;
static struct run run;

static void setup(void)
{
    err = (struct lladd_error)LLADD_ERROR_INIT;
    memset(&run, 0, sizeof run);
    run.store = &store;
    run.segment = 1 << 13;
    memory_store_init(&store);
    ck_assert_int_eq(lladd_device_memory(&disk), 0);
    ck_assert_int_eq(lladd_device_memory(&copy), 0);
}

static void teardown(void)
{
    memory_store_free(&store);
    lladd_device_close(disk);
    lladd_device_close(copy);
}

static void new_copy(void)
{
    lladd_device_close(copy);
    ck_assert_int_eq(lladd_device_memory(&copy), 0);
}

static struct lladd_backup_info backed_up(struct run *r)
{
    struct lladd_backup_info info = {.struct_size = sizeof info};
    OK(lladd_backup(r->db, &store.base, NULL, &info, &err));
    return info;
}

/* ---- looking -------------------------------------------------------------------------------- */

static struct lladd_restore_options to_lsn(struct lladd_restore_target *t, uint32_t timeline,
                                           uint64_t lsn)
{
    struct lladd_restore_options o = LLADD_RESTORE_OPTIONS_INIT;
    *t = (struct lladd_restore_target)LLADD_RESTORE_TARGET_INIT;
    t->kind = lsn ? LLADD_TO_LSN : LLADD_TO_END;
    t->timeline = timeline;
    t->lsn = lladd_lsn_of(lsn);
    o.target = t;
    return o;
}

static int count_doubt(void *ctx, const struct lladd_in_doubt_info *info)
{
    unsigned *n = ctx;
    ck_assert_int_eq(info->gid.format, 7);
    ck_assert_str_eq(info->owner, "");
    (*n)++;
    return 0;
}

/* The database at the target (0: the end of the log), recovered over the store, is as transaction
 * `number` has left it. */
static void look(const struct run *r, uint32_t timeline, uint64_t lsn, uint64_t number,
                 unsigned doubt)
{
    struct lladd_restore_target t;
    struct lladd_restore_options o = to_lsn(&t, timeline, lsn);
    struct lladd_device *device, *overlay;
    struct lladd_backup_info info = {.struct_size = sizeof info};
    static struct run opened;
    opened.segment = r->segment;
    unsigned told = 0;
    o.in_doubt = count_doubt;
    o.in_doubt_ctx = &told;
    OK(lladd_store_device(&store.base, &o, &device, &err));
    ck_assert_uint_eq(told, doubt);
    lladd_store_device_info(device, &info);
    ck_assert(lsn == 0 || info.end.v <= lsn);
    shop_verify(device);
    ck_assert_int_eq(lladd_device_overlay(device, &overlay), 0);
    run_open(&opened, overlay, LLADD_OPT_MUST_EXIST);
    run_check(&opened, r, number);
    unsigned found = 0;
    OK(lladd_in_doubt_each(opened.db, count_doubt, &found, &err));
    ck_assert_uint_eq(found, doubt);
    run_kill(&opened);
    ck_assert_int_eq(lladd_store_device_error(device, NULL), 0);
    lladd_device_close(overlay);
    lladd_store_device_close(device);
}

static void restore(uint32_t timeline, uint64_t lsn, struct lladd_backup_info *info)
{
    struct lladd_restore_target t;
    struct lladd_restore_options o = to_lsn(&t, timeline, lsn);
    new_copy();
    OK(lladd_restore(&store.base, &o, copy, info, &err));
}

/* The target is refused with this code; the message has these texts. */
static void refused(uint32_t timeline, uint64_t lsn, int code, const char *text, const char *more)
{
    struct lladd_restore_target t;
    struct lladd_restore_options o = to_lsn(&t, timeline, lsn);
    new_copy();
    int rc = lladd_restore(&store.base, &o, copy, NULL, &err);
    ck_assert_msg(rc == code, "%d: %s", rc, err.message);
    ck_assert_msg(strstr(err.message, text) && strstr(err.message, more), "%s", err.message);
    struct lladd_file *file;
    ck_assert_int_ne(copy->ops->open(copy, "files/ship/restoring", LLADD_OPEN_READ_ONLY, &file), 0);
}

static const char *number_text(uint64_t v)
{
    static char text[24];
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)v);
    return text;
}

/* ---- every commit --------------------------------------------------------------------------- */

static struct lladd_txn *prepare(struct run *r, unsigned char id)
{
    struct lladd_gid gid = {.format = 7, .gtrid_length = 4, .data = {id}};
    struct lladd_txn *txn = run_begin(r);
    uint64_t row = 1000 + id;
    ck_assert_int_eq(lladd_hash_put(txn, r->table, &row, sizeof row, &row, sizeof row), 0);
    ck_assert_int_eq(lladd_prepare(txn, &gid), 0);
    return txn;
}

/* One transaction is open from before the backup to the end. Later, another one is prepared and
 * committed, and another one is rolled back. */
START_TEST(every_commit_is_a_target)
{
    uint64_t row = RUN_LOSER, prepared, committed;
    run.segment = (size_t)1 << (_i ? 17 : 13); /* two blocks, or one */
    run_open(&run, disk, 0);
    run_work_to(&run, 10);
    struct lladd_txn *open = run_begin(&run);
    ck_assert_int_eq(lladd_hash_put(open, run.table, &row, sizeof row, &row, sizeof row), 0);
    run_work_to(&run, 20);
    struct lladd_backup_info info = backed_up(&run);
    run_work_to(&run, 40);
    struct lladd_txn *doubt = prepare(&run, 1);
    prepared = lladd_durable_lsn(run.db).v;
    run_work_to(&run, 50);
    struct lladd_txn *lost = run_begin(&run);
    run_put(&run, lost, RUN_LOSER, 1);
    ck_assert_int_eq(lladd_abort(lost), 0);
    OK(lladd_checkpoint(run.db, &err));
    run_work_to(&run, 60);
    ck_assert_int_eq(lladd_commit(doubt), 0);
    committed = lladd_durable_lsn(run.db).v;
    run_work_to(&run, 90);
    run_archive(&run, 0);
    for (uint64_t k = 20; k <= 90; k++) {
        unsigned in_doubt = run.end[k] >= prepared && run.end[k] < committed;
        look(&run, 0, run.end[k] > info.end.v ? run.end[k] : info.end.v, k, in_doubt);
    }
    look(&run, 0, 0, 90, 0);
    ck_assert_int_eq(lladd_abort(open), 0);
    run_close(&run);
}
END_TEST

/* A target inside a record counts as the record's begin. */
START_TEST(a_target_in_a_record_is_rounded_down)
{
    run_open(&run, disk, 0);
    run_work_to(&run, 20);
    struct lladd_backup_info info = backed_up(&run);
    run_work_to(&run, 60);
    run_archive(&run, 0);
    for (uint64_t lsn = info.end.v; lsn <= run.end[60]; lsn += lsn % 7 ? 333 : 1) {
        uint64_t k = 20;
        while (k < 60 && run.end[k + 1] <= lsn)
            k++;
        /* The commit record may end before the LSN that was durable after the commit. */
        struct lladd_restore_target t;
        struct lladd_restore_options o = to_lsn(&t, 0, lsn);
        struct lladd_backup_info got = {.struct_size = sizeof got};
        struct lladd_device *device;
        OK(lladd_store_device(&store.base, &o, &device, &err));
        lladd_store_device_info(device, &got);
        lladd_store_device_close(device);
        ck_assert_uint_le(got.end.v, lsn);
        ck_assert_uint_ge(got.end.v, run.end[k] > info.end.v ? run.end[k] : info.end.v);
    }
    look(&run, 0, run.end[41] - 1, 41, 0); /* in the seal after the commit */
    look(&run, 0, run.end[40] + 1, 40, 0);
    run_close(&run);
}
END_TEST

/* The log goes on in new segments after crashes; their headers say where it was cut. */
START_TEST(targets_over_crashes)
{
    run_open(&run, disk, 0);
    run_work_to(&run, 5);
    backed_up(&run);
    for (uint64_t to = 10; to <= 60; to += 5) {
        run_work_to(&run, to);
        run_archive(&run, 0);
        if (to % 10)
            run_kill(&run);
        else
            run_close(&run);
        run_open(&run, disk, LLADD_OPT_MUST_EXIST);
        run_archive(&run, 0);
    }
    for (uint64_t k = 6; k <= 60; k++) {
        look(&run, 0, run.end[k], k, 0);
        look(&run, 0, run.end[k] + 8, k, 0); /* in a gap after a crash, or in a record */
    }
    look(&run, 0, 0, 60, 0);
    run_close(&run);
}
END_TEST

/* ---- marks and times ------------------------------------------------------------------------ */

/* Logs a mark as an archive does: the durable log existed at time_us. A named mark gets an object,
 * too. */
static void mark(struct run *r, const char *name, int64_t time_us)
{
    unsigned char note[100];
    char object[100], text[100];
    lladd_lsn lsn;
    size_t len = 24 + strlen(name);
    memcpy(note, "LLMARK1", 8);
    lladd_put64(note + 8, *name ? 0 : lladd_durable_lsn(r->db).v);
    lladd_put64(note + 16, (uint64_t)time_us);
    memcpy(note + 24, name, strlen(name));
    struct lladd_txn *txn = run_begin(r);
    ck_assert_int_eq(lladd_log_note(txn, "mark", lladd_span_of(note, len), &lsn), 0);
    ck_assert_int_eq(lladd_commit(txn), 0);
    if (!*name)
        return;
    (void)snprintf(object, sizeof object, "t00000000/mark/%s", name);
    int n = snprintf(text, sizeof text, "LLADD mark 1\nlsn %llu\ntime_us %lld\n",
                     (unsigned long long)lsn.v, (long long)time_us);
    run_store_object(r, object, text, (size_t)n);
}

static void look_at(const struct run *r, struct lladd_restore_target *t, uint64_t number)
{
    struct lladd_restore_options o = LLADD_RESTORE_OPTIONS_INIT;
    static struct run opened;
    opened.segment = r->segment;
    new_copy();
    o.target = t;
    OK(lladd_restore(&store.base, &o, copy, NULL, &err));
    run_open(&opened, copy, LLADD_OPT_MUST_EXIST);
    run_check(&opened, r, number);
    run_close(&opened);
}

static void refused_at(struct lladd_restore_target *t, int code, const char *text)
{
    struct lladd_restore_options o = LLADD_RESTORE_OPTIONS_INIT;
    new_copy();
    o.target = t;
    int rc = lladd_restore(&store.base, &o, copy, NULL, &err);
    ck_assert_msg(rc == code, "%d: %s", rc, err.message);
    ck_assert_msg(strstr(err.message, text), "%s", err.message);
}

/* Transactions commit once a second, and after transaction 40 nothing commits for a night. A target
 * in a second has what had committed at its begin; one in the night has nothing of the morning. */
START_TEST(a_time_is_met_early_and_never_late)
{
    enum { SECOND = 1000000 };
    const int64_t night = (int64_t)8 * 3600 * SECOND;
    struct lladd_restore_target t = LLADD_RESTORE_TARGET_INIT;
    int64_t when[RUN_MOST];
    run_open(&run, disk, 0);
    run_work_to(&run, 20);
    struct lladd_backup_info info = backed_up(&run);
    for (uint64_t k = 21; k <= 60; k++) {
        run_work_to(&run, k);
        when[k] = info.ended_us + (int64_t)(k - 20) * SECOND + (k > 40 ? night : 0);
        mark(&run, "", when[k]);
    }
    run_archive(&run, 0);
    t.kind = LLADD_TO_TIME;
    for (uint64_t k = 21; k < 60; k += 3) {
        t.time_us = when[k] - 1;
        look_at(&run, &t, k - 1);
        t.time_us = when[k];
        look_at(&run, &t, k);
        t.time_us = when[k] + SECOND / 2;
        look_at(&run, &t, k);
    }
    t.time_us = when[40] + night / 2;
    look_at(&run, &t, 40);
    t.time_us = when[60];
    refused_at(&t, LLADD_OUT_OF_RANGE, "no mark is later");
    t.time_us = info.ended_us - 1;
    refused_at(&t, LLADD_OUT_OF_RANGE, "no backup had ended");
    run_close(&run);
}
END_TEST

START_TEST(a_mark_has_what_had_committed)
{
    struct lladd_restore_target t = LLADD_RESTORE_TARGET_INIT;
    run_open(&run, disk, 0);
    run_work_to(&run, 20);
    mark(&run, "before", 1);
    backed_up(&run);
    run_work_to(&run, 40);
    mark(&run, "release-4", 2);
    run_work_to(&run, 60);
    mark(&run, "late", 3);
    run_archive(&run, 0);
    restore(0, run.end[50], NULL); /* timeline 1 */
    t.kind = LLADD_TO_MARK;
    t.mark = "release-4";
    look_at(&run, &t, 40);
    t.timeline = 1;
    look_at(&run, &t, 40);
    t.mark = "late"; /* it is after the fork */
    refused_at(&t, LLADD_NOT_FOUND, "late");
    t.timeline = 0;
    look_at(&run, &t, 60);
    t.mark = "before";
    refused_at(&t, LLADD_OUT_OF_RANGE, "no backup is complete");
    t.mark = "../../none";
    refused_at(&t, LLADD_NOT_FOUND, "no mark");
    struct memory_object *o = memory_store_find(&store, "mark/late");
    o->bytes[0] ^= 1;
    t.mark = "late";
    refused_at(&t, LLADD_CORRUPT_BACKUP, "mark/late");
    run_close(&run);
}
END_TEST

static int ignore(void *ctx, const struct lladd_archive_item *item)
{
    (void)ctx, (void)item;
    return 0;
}

/* The library archives, over two crashes; then a restored copy of the database does. Every commit,
 * a mark, and times are targets. */
START_TEST(what_the_library_archives_is_restored)
{
    struct lladd_backup_options b = LLADD_BACKUP_OPTIONS_INIT;
    struct lladd_restore_target t = LLADD_RESTORE_TARGET_INIT;
    static struct run second;
    struct test_world world;
    int64_t when[RUN_MOST] = {0};
    test_world_init(&world, 5);
    run.world = b.world = &world.world;
    run_open(&run, disk, 0);
    for (uint64_t k = 1; k <= 60; k++) {
        run_work_to(&run, k);
        when[k] = world.world.wall_us(world.world.ctx);
        test_world_advance(&world, 300000000); /* 300 ms */
        run_archive(&run, 0);
        if (k == 10)
            OK(lladd_backup(run.db, &store.base, &b, NULL, &err));
        if (k == 30)
            OK(lladd_archive_mark(run.archive, "half", NULL, &err));
        if (k == 25 || k == 45) {
            run_kill(&run);
            run_open(&run, disk, LLADD_OPT_MUST_EXIST);
        }
    }
    run_archive(&run, 0);
    for (uint64_t k = 11; k <= 60; k++)
        look(&run, 0, run.end[k], k, 0);
    t.kind = LLADD_TO_MARK;
    t.mark = "half";
    look_at(&run, &t, 30); /* makes timeline 1 */
    t.kind = LLADD_TO_TIME;
    t.mark = NULL;
    for (uint64_t k = 20; k < 55; k += 4) {
        struct lladd_restore_options o = LLADD_RESTORE_OPTIONS_INIT;
        struct lladd_backup_info info = {.struct_size = sizeof info};
        struct lladd_device *device;
        t.time_us = when[k] + 100000;
        o.target = &t;
        OK(lladd_store_device(&store.base, &o, &device, &err));
        lladd_store_device_info(device, &info);
        lladd_store_device_close(device);
        ck_assert_uint_lt(info.end.v, run.end[k + 1]);
        ck_assert_uint_ge(info.end.v, run.end[k - 5]); /* there is a mark each second */
    }
    run_close(&run);
    second = run;
    second.variant = 1;
    second.number = 50;
    struct lladd_backup_info info = {.struct_size = sizeof info};
    restore(0, run.end[50], &info);
    ck_assert_uint_eq(info.end.v, run.end[50]);
    run_open(&second, copy, LLADD_OPT_MUST_EXIST);
    uint32_t timeline = 0;
    for (uint64_t k = 55; k <= 80; k += 5) {
        run_work_to(&second, k);
        run_archive(&second, 0);
    }
    for (size_t i = 0; i < store.n; i++) {
        uint32_t n = (uint32_t)strtoul(store.objects[i].name + 1, NULL, 16);
        if (strstr(store.objects[i].name, "/log/") && n > timeline)
            timeline = n;
    }
    ck_assert_uint_gt(timeline, 0);
    for (uint64_t k = 11; k <= 80; k += 3)
        look(&second, timeline, second.end[k], k, 0);
    for (uint64_t k = 11; k <= 60; k += 7)
        look(&run, 0, run.end[k], k, 0);
    look(&second, timeline, 0, 80, 0);
    run_close(&second);
}
END_TEST

/* ---- restored ------------------------------------------------------------------------------- */

/* Each call of the store fails while a target is looked for, and while the log is listed. */
START_TEST(the_store_fails_at_each_call)
{
    struct lladd_restore_target t;
    struct lladd_restore_options o = to_lsn(&t, 0, 0);
    struct lladd_device *device;
    bool fired = true;
    run_open(&run, disk, 0);
    run_work_to(&run, 20);
    backed_up(&run);
    run_work_to(&run, 40);
    mark(&run, "here", 1);
    run_archive(&run, 0);
    run_close(&run);
    t.kind = _i == 0 ? LLADD_TO_END : LLADD_TO_MARK;
    t.mark = _i == 0 ? NULL : "here";
    for (uint64_t n = 1; fired; n++) {
        store.calls = store.fired = 0;
        store.fail_at = n;
        int rc = _i == 2 ? lladd_archive_each(&store.base, NULL, ignore, NULL, &err)
                         : lladd_store_device(&store.base, &o, &device, &err);
        fired = store.fired != 0;
        store.fail_at = 0;
        ck_assert_msg(rc == (fired ? LLADD_STORE_FAILED : 0), "call %u: %d %s", (unsigned)n, rc,
                      err.message);
        if (!rc && _i != 2)
            lladd_store_device_close(device);
    }
}
END_TEST

/* Two futures of one database: timeline 1 begins at transaction 40 of timeline 0. */
static void two_timelines(struct run *second)
{
    run_open(&run, disk, 0);
    run_work_to(&run, 20);
    backed_up(&run);
    run_work_to(&run, 70);
    run_archive(&run, 0);
    restore(0, run.end[40], NULL);
    *second = run;
    second->number = 40;
    second->variant = 1;
    run_open(second, copy, LLADD_OPT_MUST_EXIST);
    run_check(second, &run, 40);
    run_work_to(second, 80);
    run_archive(second, 1);
}

START_TEST(two_timelines_are_kept_apart)
{
    static struct run second;
    two_timelines(&second);
    for (uint64_t k = 21; k <= 70; k += 7)
        look(&run, 0, run.end[k], k, 0);
    for (uint64_t k = 21; k <= 80; k += 7) /* those up to 40 are of timeline 0 */
        look(&second, 1, second.end[k], k, 0);
    look(&run, 0, 0, 70, 0);
    look(&second, 1, 0, 80, 0);
    /* A backup of timeline 1 that ends above the fork does not belong to timeline 0. */
    struct lladd_backup_info info = backed_up(&second);
    ck_assert_uint_eq(info.timeline, 1);
    run_work_to(&second, 90);
    run_archive(&second, 1);
    look(&second, 1, 0, 90, 0);
    look(&second, 0, second.end[85], 85, 0); /* 0: the timeline of the newest backup */
    run_close(&run);
    struct lladd_device *first = copy;
    copy = NULL;
    restore(1, second.end[60], &info);
    ck_assert_uint_eq(info.end.v, second.end[60]);
    static struct run third;
    third = second;
    third.variant = 2;
    third.number = 60;
    run_open(&third, copy, LLADD_OPT_MUST_EXIST);
    run_check(&third, &second, 60);
    run_work_to(&third, 65);
    run_close(&third);
    run_close(&second);
    lladd_device_close(first);
}
END_TEST

/* Without archived log of its own, a timeline ends where it began. */
START_TEST(a_new_timeline_ends_at_its_fork)
{
    run_open(&run, disk, 0);
    run_work_to(&run, 20);
    backed_up(&run);
    run_work_to(&run, 70);
    run_archive(&run, 0);
    restore(0, run.end[40], NULL);
    look(&run, 1, 0, 40, 0);
    refused(1, run.end[41], LLADD_OUT_OF_RANGE, "not stored", number_text(run.end[40]));
    refused(2, 0, LLADD_NOT_FOUND, "no timeline 2", "");
    run_close(&run);
}
END_TEST

/* ---- refused -------------------------------------------------------------------------------- */

START_TEST(targets_that_are_not_covered)
{
    struct lladd_restore_target t = LLADD_RESTORE_TARGET_INIT;
    struct lladd_restore_options o = LLADD_RESTORE_OPTIONS_INIT;
    run_open(&run, disk, 0);
    run_work_to(&run, 20);
    struct lladd_backup_info first = backed_up(&run);
    run_work_to(&run, 40);
    struct lladd_backup_info second = backed_up(&run);
    run_work_to(&run, 60);
    run_archive(&run, 0);
    run_close(&run);
    refused(0, run.end[10], LLADD_OUT_OF_RANGE, "no backup is complete", number_text(first.end.v));
    refused(0, first.end.v - 1, LLADD_OUT_OF_RANGE, "no backup", number_text(run.end[60]));
    refused(0, run.end[60] + 8, LLADD_OUT_OF_RANGE, "is not stored", number_text(run.end[60]));
    look(&run, 0, run.end[30], 30, 0);
    look(&run, 0, run.end[50], 50, 0);
    o.target = &t;
    o.base = second.name;
    t.kind = LLADD_TO_LSN;
    t.lsn = lladd_lsn_of(run.end[30]);
    ck_assert_int_eq(lladd_restore(&store.base, &o, copy, NULL, &err), LLADD_OUT_OF_RANGE);
    ck_assert_ptr_nonnull(strstr(err.message, second.name));
    o.base = "nonsense";
    ck_assert_int_eq(lladd_restore(&store.base, &o, copy, NULL, &err), LLADD_NOT_FOUND);
    t.kind = (enum lladd_target_kind)9;
    ck_assert_int_eq(lladd_restore(&store.base, &o, copy, NULL, &err), LLADD_BAD_ARGUMENT);
    t.kind = LLADD_TO_END;
    ck_assert_int_eq(lladd_restore(&store.base, &o, copy, NULL, &err), LLADD_BAD_ARGUMENT);
    t.lsn.v = 0;
    t.kind = LLADD_TO_MARK;
    ck_assert_int_eq(lladd_restore(&store.base, &o, copy, NULL, &err), LLADD_BAD_ARGUMENT);
    t.timeline = 1;
    t.kind = LLADD_TO_BASE;
    ck_assert_int_eq(lladd_restore(&store.base, &o, copy, NULL, &err), LLADD_BAD_ARGUMENT);
    memory_store_free(&store);
    t.kind = LLADD_TO_END;
    o.base = NULL;
    ck_assert_int_eq(lladd_restore(&store.base, &o, copy, NULL, &err), LLADD_NOT_FOUND);
}
END_TEST

/* A missing segment is a gap: nothing above it can be had from the backup below it, and all above
 * the next backup can. */
START_TEST(a_missing_segment_is_a_gap)
{
    run_open(&run, disk, 0);
    run_work_to(&run, 20);
    backed_up(&run);
    run_work_to(&run, 70);
    run_archive(&run, 0);
    uint64_t first[RUN_MOST];
    unsigned n = 0;
    for (size_t i = 0; i < store.n; i++)
        if (strstr(store.objects[i].name, ".seg"))
            first[n++] = strtoull(strrchr(store.objects[i].name, '/') + 1, NULL, 16);
    qsort(first, n, sizeof first[0], run_by_number);
    ck_assert_uint_gt(n, 4);
    char name[40];
    (void)snprintf(name, sizeof name, "%016llx.seg", (unsigned long long)first[n - 2]);
    memory_store_drop(&store, memory_store_find(&store, name));
    refused(0, run.end[70], LLADD_OUT_OF_RANGE, "is not stored", number_text(first[n - 2]));
    refused(0, 0, LLADD_OUT_OF_RANGE, "is not stored", number_text(first[n - 1]));
    uint64_t k = 70;
    while (run.end[k] > first[n - 2])
        k--;
    look(&run, 0, run.end[k], k, 0);
    backed_up(&run);
    run_work_to(&run, 80);
    run_archive(&run, 0);
    memory_store_drop(&store, memory_store_find(&store, name));
    look(&run, 0, run.end[75], 75, 0);
    look(&run, 0, run.end[k], k, 0);
    refused(0, run.end[70], LLADD_OUT_OF_RANGE, "is not stored", number_text(first[n - 2]));
    run_close(&run);
}
END_TEST

struct listed {
    struct lladd_archive_item at[40];
    unsigned n;
};

static int see_item(void *ctx, const struct lladd_archive_item *item)
{
    struct listed *l = ctx;
    ck_assert_uint_lt(l->n, 40);
    l->at[l->n++] = *item;
    return 0;
}

static const struct lladd_archive_item *listed_item(const struct listed *l, unsigned i,
                                                    enum lladd_archive_kind kind, uint32_t timeline)
{
    ck_assert_uint_lt(i, l->n);
    ck_assert_int_eq(l->at[i].kind, kind);
    ck_assert_uint_eq(l->at[i].timeline, timeline);
    return &l->at[i];
}

/* A list has timelines, ranges, gaps and marks; all that it says can be restored can be. */
START_TEST(a_list_has_what_there_is)
{
    static struct run second;
    struct listed l = {.n = 0};
    ck_assert_int_eq(lladd_archive_each(&store.base, NULL, see_item, &l, &err), LLADD_NOT_FOUND);
    two_timelines(&second);
    mark(&run, "good", 77);
    run_close(&second);
    OK(lladd_archive_each(&store.base, NULL, see_item, &l, &err));
    ck_assert_uint_eq(l.n, 5);
    listed_item(&l, 0, LLADD_ARCHIVE_TIMELINE, 0);
    const struct lladd_archive_item *range = listed_item(&l, 1, LLADD_ARCHIVE_RANGE, 0);
    ck_assert_uint_eq(range->end.v, run.end[70]);
    const struct lladd_archive_item *good = listed_item(&l, 2, LLADD_ARCHIVE_MARK, 0);
    ck_assert_str_eq(good->name, "good");
    ck_assert_int_eq(good->time_us, 77);
    const struct lladd_archive_item *fork = listed_item(&l, 3, LLADD_ARCHIVE_TIMELINE, 1);
    ck_assert_uint_eq(fork->parent, 0);
    ck_assert_uint_eq(fork->from.v, run.end[40]);
    range = listed_item(&l, 4, LLADD_ARCHIVE_RANGE, 1);
    ck_assert_uint_eq(range->from.v, run.end[40]);
    ck_assert_uint_eq(range->end.v, second.end[80]);
    /* A segment of timeline 0 goes away: its range ends there, and begins again at a new backup. */
    uint64_t first[RUN_MOST];
    unsigned n = 0;
    for (size_t i = 0; i < store.n; i++)
        if (strstr(store.objects[i].name, "t00000000/log/") &&
            strstr(store.objects[i].name, ".seg"))
            first[n++] = strtoull(strrchr(store.objects[i].name, '/') + 1, NULL, 16);
    qsort(first, n, sizeof first[0], run_by_number);
    char name[60];
    (void)snprintf(name, sizeof name, "t00000000/log/%016llx.seg",
                   (unsigned long long)first[n - 2]);
    struct lladd_backup_info info = backed_up(&run);
    run_work_to(&run, 80);
    run_archive(&run, 0);
    memory_store_drop(&store, memory_store_find(&store, name));
    l.n = 0;
    OK(lladd_archive_each(&store.base, NULL, see_item, &l, &err));
    ck_assert_uint_eq(l.n, 7);
    range = listed_item(&l, 1, LLADD_ARCHIVE_RANGE, 0);
    ck_assert_uint_eq(range->end.v, first[n - 2]);
    range = listed_item(&l, 2, LLADD_ARCHIVE_RANGE, 0);
    ck_assert_uint_eq(range->from.v, info.end.v);
    ck_assert_uint_eq(range->end.v, run.end[80]);
    const struct lladd_archive_item *gap = listed_item(&l, 3, LLADD_ARCHIVE_GAP, 0);
    ck_assert_uint_eq(gap->from.v, first[n - 2]);
    ck_assert_uint_eq(gap->end.v, first[n - 1]);
    look(&run, 0, info.end.v, 70, 0);
    look(&run, 0, run.end[80], 80, 0);
    run_close(&run);
}
END_TEST

/* Bytes of archived segments are damaged, one at a time: the restore names the object and writes
 * nothing. With all bytes restored, the end of the log is a target again. */
START_TEST(a_damaged_segment_is_named)
{
    run_open(&run, disk, 0);
    run_work_to(&run, 20);
    struct lladd_backup_info info = backed_up(&run);
    run_work_to(&run, 70);
    run_archive(&run, 0);
    unsigned tried = 0;
    for (size_t i = 0; i < store.n; i++) {
        struct memory_object *o = &store.objects[i];
        const char *base = strrchr(o->name, '/') + 1;
        if (!strstr(o->name, "/log/"))
            continue;
        uint64_t begin = strtoull(base, NULL, 16);
        for (size_t at = run_segment_end(&run, begin) > info.end.v ? 3 : o->len; at < o->len;
             at += 700) {
            if (begin + at < info.from.v + 64 && at > 64)
                continue;
            o->bytes[at] ^= 0x10;
            refused(0, 0, LLADD_CORRUPT_BACKUP, "in the store", "");
            /* If a record goes over several objects, only the first and the last one are named. */
            ck_assert_msg(strstr(err.message, base) || strstr(err.message, "it goes on in"), "%s",
                          err.message);
            o->bytes[at] ^= 0x10;
            tried++;
        }
    }
    ck_assert_uint_gt(tried, 50);
    look(&run, 0, 0, 70, 0);
    run_close(&run);
}
END_TEST

START_TEST(a_segment_of_another_database)
{
    run_open(&run, disk, 0);
    run_work_to(&run, 20);
    backed_up(&run);
    run_work_to(&run, 70);
    run_archive(&run, 0);
    static struct run other;
    other.store = &store;
    other.segment = run.segment;
    run_open(&other, copy, 0);
    struct memory_object *o;
    while (!(o = memory_store_find(&store, ".part"))) { /* the last segment may be full */
        run_work_to(&run, run.number + 1);
        run_archive(&run, 0);
    }
    uint64_t first = strtoull(o->name + strlen("t00000000/log/"), NULL, 16);
    while (lladd_durable_lsn(other.db).v <= first)
        run_work_to(&other, other.number + 1);
    char name[200];
    memcpy(name, o->name, sizeof name);
    name[strlen("t00000000/log/0000000000000000")] = 0;
    for (size_t i = 0; i < store.n; i++)
        if (strstr(store.objects[i].name, name))
            memory_store_drop(&store, &store.objects[i--]);
    strcat(name, ".seg");
    static unsigned char bytes[RUN_SEGMENT_MOST];
    run_read_file(copy, name + strlen("t00000000/"), bytes, run.segment);
    run_store_object(&run, name, bytes, run.segment);
    run_close(&other);
    refused(0, run.end[run.number], LLADD_FOREIGN_FILE, name, "another database");
    run_close(&run);
}
END_TEST

/* The hash table takes pages of which the log has no record yet. The restored file has them. */
START_TEST(a_page_file_that_has_grown)
{
    run_open(&run, disk, 0);
    backed_up(&run);
    run_work_to(&run, 190);
    run_archive(&run, 0);
    for (uint64_t k = 1; k <= 190; k += 7)
        look(&run, 0, run.end[k], k, 0);
    run_close(&run);
}
END_TEST

/* The log of a backup begins inside a record that is full of what looks like long records. */
START_TEST(a_pin_inside_a_record)
{
    enum { WORDS = 1000 };
    static uint64_t words[2 * WORDS];
    run_open(&run, disk, 0);
    run_work_to(&run, 20);
    uint64_t at = 0;
    for (unsigned i = 0; i < 2; i++) { /* the first note also logs the name */
        at = lladd_durable_lsn(run.db).v + 40;
        for (unsigned k = 0; k < WORDS; k++) {
            lladd_put64((unsigned char *)&words[2 * k], UINT64_C(0x404040) << 32);
            lladd_put64((unsigned char *)&words[2 * k + 1], at + 16 * k);
        }
        struct lladd_txn *txn = run_begin(&run);
        struct lladd_span note = lladd_span_of(words, i ? sizeof words : 16);
        ck_assert_int_eq(lladd_log_note(txn, "words", note, NULL), 0);
        ck_assert_int_eq(lladd_commit(txn), 0);
    }
    OK(lladd_pin_set(run.db, "all the log", lladd_lsn_of(at + 7960), &err));
    run_work_to(&run, 30);
    OK(lladd_checkpoint(run.db, &err));
    backed_up(&run);
    run_work_to(&run, 40);
    run_archive(&run, 0);
    look(&run, 0, run.end[35], 35, 0);
    run_close(&run);
}
END_TEST

/* Without the first piece of the newest segment the end of the log is known, and not reached. */
START_TEST(a_missing_first_piece_is_a_gap)
{
    struct lladd_restore_target t = LLADD_RESTORE_TARGET_INIT;
    unsigned hidden = 0;
    run_open(&run, disk, 0);
    run_work_to(&run, 20);
    backed_up(&run);
    run_work_to(&run, 60);
    run_archive(&run, 0);
    for (size_t i = 0; i < store.n; i++) {
        char *name = store.objects[i].name, *first = strstr(name, "/log/");
        if (!first || !strstr(name, ".part") || memcmp(first + 5, first + 22, 16) != 0)
            continue;
        *name = '#';
        hidden++;
    }
    ck_assert_uint_eq(hidden, 1);
    t.kind = LLADD_TO_END;
    refused_at(&t, LLADD_OUT_OF_RANGE, "is not stored");
    run_close(&run);
}
END_TEST

/* Each byte of the object is damaged: no restore believes it. */
START_TEST(a_damaged_mark_or_history_is_refused)
{
    struct lladd_restore_target t = LLADD_RESTORE_TARGET_INIT;
    struct lladd_restore_options o = LLADD_RESTORE_OPTIONS_INIT;
    struct test_world world;
    test_world_init(&world, 5);
    run.world = &world.world;
    run_open(&run, disk, 0);
    run_work_to(&run, 10);
    backed_up(&run);
    run_work_to(&run, 20);
    OK(lladd_archive_mark(run.archive, "noon", NULL, &err));
    run_archive(&run, 0);
    new_copy();
    OK(lladd_restore(&store.base, NULL, copy, NULL, &err));
    o.target = &t;
    for (unsigned k = 0; k < 2; k++) {
        const char *name = k ? "t00000001/history" : "t00000000/mark/noon";
        t.kind = k ? LLADD_TO_END : LLADD_TO_MARK;
        t.mark = k ? NULL : "noon";
        t.timeline = k;
        new_copy();
        OK(lladd_restore(&store.base, &o, copy, NULL, &err));
        struct memory_object *object = memory_store_find(&store, name);
        for (size_t at = 0; at < object->len; at++) {
            object->bytes[at] ^= 1;
            refused_at(&t, LLADD_CORRUPT_BACKUP, name);
            object->bytes[at] ^= 1;
        }
    }
    run_close(&run);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("target");
    TCase *tc = tcase_create("all");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, every_commit_is_a_target, 0, 2);
    tcase_add_test(tc, a_target_in_a_record_is_rounded_down);
    tcase_add_test(tc, targets_over_crashes);
    tcase_add_test(tc, a_time_is_met_early_and_never_late);
    tcase_add_test(tc, what_the_library_archives_is_restored);
    tcase_add_test(tc, a_mark_has_what_had_committed);
    tcase_add_loop_test(tc, the_store_fails_at_each_call, 0, 3);
    tcase_add_test(tc, two_timelines_are_kept_apart);
    tcase_add_test(tc, a_new_timeline_ends_at_its_fork);
    tcase_add_test(tc, targets_that_are_not_covered);
    tcase_add_test(tc, a_missing_segment_is_a_gap);
    tcase_add_test(tc, a_list_has_what_there_is);
    tcase_add_test(tc, a_damaged_segment_is_named);
    tcase_add_test(tc, a_segment_of_another_database);
    tcase_add_test(tc, a_damaged_mark_or_history_is_refused);
    tcase_add_test(tc, a_missing_first_piece_is_a_gap);
    tcase_add_test(tc, a_page_file_that_has_grown);
    tcase_add_test(tc, a_pin_inside_a_record);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
