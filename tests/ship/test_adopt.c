/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Databases that take an archive over: copies of one database, lost claims, failures and crashes at
 * each call, and what is refused. The transactions of both copies are numbered, so the contents of
 * each restored database say which future it has.
 */
#include "calls.h"
#include "ledger.h"
#include "numbered.h"

#include "ship/ship_private.h"
#include "support/fault_device.h"
#include "support/test_world.h"

#include <check.h>
#include <errno.h>
#include <lladd/bulk.h>
#include <lladd/device.h>
#include <lladd/inspect.h>
#include <lladd/log_read.h>
#include <lladd/pages.h>
#include <lladd/twophase.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)

static struct memory_store store;
static struct lladd_device *disk, *copy;
static struct lladd_error err;
static struct run run, other; /* `run` is on `disk`, `other` on `copy` */
static struct test_world world;

static void setup(void)
{
    err = (struct lladd_error)LLADD_ERROR_INIT;
    memset(&run, 0, sizeof run);
    test_world_init(&world, 11);
    memory_store_init(&store);
    run.store = &store;
    run.world = &world.world;
    run.segment = 1 << 13;
    ck_assert_int_eq(lladd_device_memory(&disk), 0);
    ck_assert_int_eq(lladd_device_memory(&copy), 0);
}

static void teardown(void)
{
    memory_store_free(&store);
    lladd_device_close(disk);
    lladd_device_close(copy);
    test_world_free(&world);
}

/* ---- two copies ----------------------------------------------------------------------------- */

/* Does transactions up to this one, and archives from time to time. */
static void go(struct run *r, uint64_t number)
{
    while (r->number < number) {
        run_work_to(r, r->number + 5 < number ? r->number + 5 : number);
        test_world_advance(&world, 2 * SECOND);
        run_archive(r, 0);
    }
}

static void begin(void)
{
    run_open(&run, disk, 0);
    go(&run, 20);
    OK(lladd_backup(run.db, &store.base, NULL, NULL, &err));
    go(&run, 40);
}

static void diverges(struct run *r)
{
    bool more;
    test_world_advance(&world, 2 * SECOND);
    int rc = lladd_archive_step(r->archive, &more, &err);
    ck_assert_msg(rc == LLADD_DIVERGED, "%d: %s", rc, err.message);
}

static void end(struct run *r, bool kill)
{
    if (kill)
        run_kill(r);
    else
        run_close(r);
}

/* After transaction 40 the database is copied. `run` goes on to transaction 60 and archives; it
 * stays open. `other` goes on to transaction 70, and its archive is refused. */
static void two_copies(bool kill)
{
    begin();
    end(&run, kill);
    ledger_copy(disk, copy);
    other = run;
    other.variant = 1;
    run_open(&run, disk, LLADD_OPT_MUST_EXIST);
    go(&run, 60);
    run_open(&other, copy, LLADD_OPT_MUST_EXIST);
    run_work_to(&other, 70);
    diverges(&other);
    end(&other, kill);
}

/* ---- adopting and looking ------------------------------------------------------------------- */

static int adopt(struct lladd_device *dev, struct memory_store *in, struct lladd_adopt_info *info)
{
    struct lladd_adopt_options o = LLADD_ADOPT_OPTIONS_INIT;
    o.world = &world.world;
    *info = (struct lladd_adopt_info){.struct_size = sizeof *info};
    return lladd_archive_adopt(dev, &in->base, &o, info, &err);
}

static struct lladd_adopt_info adopted(struct lladd_device *dev, struct memory_store *in)
{
    struct lladd_adopt_info info;
    OK(adopt(dev, in, &info));
    return info;
}

/* The fork lies between the last transaction of both copies and the next one of each. */
static void check_place(const struct lladd_adopt_info *info)
{
    ck_assert(info->adopted);
    ck_assert(!info->needs_backup);
    ck_assert_uint_eq(info->timeline, 1);
    ck_assert_uint_eq(info->parent, 0);
    ck_assert_uint_ge(info->fork.v, run.end[40]);
    ck_assert_uint_lt(info->fork.v, run.end[41]);
    ck_assert_uint_lt(info->fork.v, other.end[41]);
    ck_assert_uint_ge(info->stored.v, other.end[70]);
}

/* The database at the target (0: the end of the log), recovered over the store, is as transaction
 * `number` of the run has left it. */
static void look(struct memory_store *in, uint32_t timeline, uint64_t lsn, const struct run *r,
                 uint64_t number)
{
    struct lladd_restore_target t = LLADD_RESTORE_TARGET_INIT;
    struct lladd_restore_options o = LLADD_RESTORE_OPTIONS_INIT;
    struct lladd_device *device, *overlay;
    static struct run opened;
    opened.segment = r->segment;
    t.kind = lsn ? LLADD_TO_LSN : LLADD_TO_END;
    t.timeline = timeline;
    t.lsn = lladd_lsn_of(lsn);
    o.target = &t;
    OK(lladd_store_device(&in->base, &o, &device, &err));
    ck_assert_int_eq(lladd_device_overlay(device, &overlay), 0);
    run_open(&opened, overlay, LLADD_OPT_MUST_EXIST);
    run_check(&opened, r, number);
    run_kill(&opened);
    ck_assert_int_eq(lladd_store_device_error(device, NULL), 0);
    lladd_device_close(overlay);
    lladd_store_device_close(device);
}

static void look_at_all(uint32_t timeline, const struct run *r, uint64_t last)
{
    for (uint64_t k = 21; k <= last; k += k < last && k + 3 > last ? last - k : 3)
        look(&store, timeline, r->end[k], r, k);
    look(&store, timeline, 0, r, last);
}

static unsigned histories(const struct memory_store *in)
{
    unsigned n = 0;
    for (size_t i = 0; i < in->n; i++)
        n += strstr(in->objects[i].name, "/history") != NULL;
    return n;
}

static bool exists(struct lladd_device *dev, const char *name)
{
    struct lladd_file *file;
    if (dev->ops->open(dev, name, LLADD_OPEN_READ_ONLY, &file))
        return false;
    ck_assert_int_eq(dev->ops->close(dev, file), 0);
    return true;
}

/* ---- copies --------------------------------------------------------------------------------- */

/* The log goes on in a segment of this timeline, which no other copy has. */
static void check_segment(struct run *r, uint32_t timeline)
{
    struct ll_ship_buf list = {.mem = {NULL}};
    uint64_t end_of_log = lladd_durable_lsn(r->db).v;
    OK(ll_ship_segments(r->options.device, end_of_log, end_of_log, &list, &err));
    const struct ll_ship_segment *last = (const void *)list.data;
    ck_assert_uint_eq(last->incarnation >> 32, timeline);
    ll_ship_buf_free(&list);
}

/* Each copy has its future in the store, and both archives go on. */
START_TEST(a_copy_takes_over)
{
    enum { KILL = 1, CLAIMS = 2 };
    two_copies(_i & KILL);
    /* Without the other copy's claim only the log tells. */
    for (struct memory_object *o; _i & CLAIMS && (o = memory_store_find(&store, "claim.2"));)
        memory_store_drop(&store, o);
    struct lladd_adopt_info info = adopted(copy, &store);
    check_place(&info);
    ck_assert(!exists(copy, "files/ship/adopt"));
    look_at_all(0, &run, 60);
    look_at_all(1, &other, 70);
    go(&run, 75);
    run_open(&other, copy, LLADD_OPT_MUST_EXIST);
    check_segment(&other, 1);
    run_check(&other, &other, 70);
    go(&other, 85);
    go(&run, 80);
    ck_assert_ptr_nonnull(memory_store_find(&store, "t00000001/claim.1"));
    run_close(&other);
    run_close(&run);
    look_at_all(0, &run, 80);
    look_at_all(1, &other, 85);
    /* A second call has nothing to do. */
    info = adopted(copy, &store);
    ck_assert(!info.adopted);
    ck_assert_uint_eq(info.timeline, 1);
    ck_assert_uint_eq(histories(&store), 1);
}
END_TEST

/* The copy that took over is copied again. */
START_TEST(a_copy_of_a_copy_takes_over)
{
    struct lladd_device *third;
    static struct run last;
    two_copies(false);
    run_close(&run);
    (void)adopted(copy, &store);
    run_open(&other, copy, LLADD_OPT_MUST_EXIST);
    go(&other, 75);
    run_close(&other);
    ck_assert_int_eq(lladd_device_memory(&third), 0);
    ledger_copy(copy, third);
    last = other;
    last.variant = 2;
    run_open(&other, copy, LLADD_OPT_MUST_EXIST);
    go(&other, 90);
    run_open(&last, third, LLADD_OPT_MUST_EXIST);
    run_work_to(&last, 80);
    diverges(&last);
    run_close(&last);
    struct lladd_adopt_info info = adopted(third, &store);
    ck_assert(info.adopted && !info.needs_backup);
    ck_assert_uint_eq(info.timeline, 2);
    ck_assert_uint_eq(info.parent, 1);
    ck_assert_uint_ge(info.fork.v, other.end[75]);
    ck_assert_uint_lt(info.fork.v, last.end[76]);
    look_at_all(0, &run, 60);
    look_at_all(1, &other, 90);
    look_at_all(2, &last, 80);
    run_close(&other);
    lladd_device_close(third);
}
END_TEST

/* The database loses its claim, or the claim is damaged. */
START_TEST(a_lost_claim)
{
    struct lladd_file *file;
    bool more;
    begin();
    run_close(&run);
    if (_i) {
        struct lladd_iovec piece = {"?", 1};
        ck_assert_int_eq(disk->ops->open(disk, "files/ship/claim", 0, &file), 0);
        ck_assert_int_eq(disk->ops->pwritev(disk, file, &piece, 1, 20), 0);
        ck_assert_int_eq(disk->ops->close(disk, file), 0);
    } else {
        ck_assert_int_eq(disk->ops->unlink(disk, "files/ship/claim"), 0);
    }
    run_open(&run, disk, LLADD_OPT_MUST_EXIST);
    run_work_to(&run, 45);
    ck_assert_int_eq(lladd_archive_step(run.archive, &more, &err),
                     _i ? LLADD_CORRUPT_BACKUP : LLADD_DIVERGED);
    run_close(&run);
    struct lladd_adopt_info info = adopted(disk, &store);
    ck_assert(info.adopted && !info.needs_backup);
    ck_assert_uint_ge(info.fork.v, run.end[40]);
    ck_assert_uint_lt(info.fork.v, run.end[41]);
    look_at_all(1, &run, 45);
    run_open(&run, disk, LLADD_OPT_MUST_EXIST);
    go(&run, 60);
    run_close(&run);
    look_at_all(1, &run, 60);
}
END_TEST

/* Another copy has stored a segment without a claim. So the archive is refused only when it stores
 * its own segment of that name. */
START_TEST(a_taken_name)
{
    static unsigned char bytes[RUN_SEGMENT_MOST];
    struct ll_ship_buf list = {.mem = {NULL}};
    struct lladd_archive_status s = {.struct_size = sizeof s};
    char name[LL_SHIP_NAME_MAX];
    begin();
    OK(lladd_archive_status_get(run.archive, &s, &err));
    run_close(&run);
    ledger_copy(disk, copy);
    other = run;
    other.variant = 1;
    run_open(&run, disk, LLADD_OPT_MUST_EXIST);
    run_open(&other, copy, LLADD_OPT_MUST_EXIST);
    run_work_to(&run, 90);
    run_work_to(&other, 90);
    OK(ll_ship_segments(disk, s.kept.v, lladd_durable_lsn(run.db).v, &list, &err));
    ck_assert_uint_gt(list.len / sizeof(struct ll_ship_segment), 2);
    uint64_t first = ((struct ll_ship_segment *)(void *)(list.data + list.len))[-2].first;
    ll_ship_buf_free(&list);
    (void)snprintf(name, sizeof name, "log/%016llx.seg", (unsigned long long)first);
    run_read_file(copy, name, bytes, run.segment);
    ll_ship_seg_name(0, first, name);
    run_store_object(&run, name, bytes, run.segment);
    run_close(&other);
    run_close(&run);
    int rc = lladd_archive_push(disk, &store.base, NULL, NULL, &err);
    ck_assert_msg(rc == LLADD_DIVERGED, "%d: %s", rc, err.message);
    struct lladd_adopt_info info = adopted(disk, &store);
    ck_assert(info.adopted && !info.needs_backup);
    look_at_all(1, &run, 90);
}
END_TEST

/* ---- what the common log does not prove ----------------------------------------------------- */

static lladd_pageno write_bulk(struct run *r, unsigned char fill)
{
    enum { PAGES = 3 };
    lladd_pageno first;
    size_t size = PAGES * (size_t)lladd_page_size(r->db);
    unsigned char *bytes = malloc(size);
    ck_assert_ptr_nonnull(bytes);
    memset(bytes, fill, size);
    struct lladd_txn *txn = run_begin(r);
    ck_assert_int_eq(lladd_extent_alloc(txn, PAGES, LLADD_EXTENT_RAW, &first), 0);
    ck_assert_int_eq(lladd_bulk_write(txn, first, PAGES, NULL, bytes), 0);
    ck_assert_int_eq(lladd_bulk_sync(txn), 0);
    ck_assert_int_eq(lladd_commit(txn), 0);
    free(bytes);
    return first;
}

/* The page at the end of the timeline has this byte. */
static void look_at_bulk(uint32_t timeline, lladd_pageno page, unsigned char fill)
{
    struct lladd_restore_target t = LLADD_RESTORE_TARGET_INIT;
    struct lladd_restore_options o = LLADD_RESTORE_OPTIONS_INIT;
    struct lladd_device *device, *overlay;
    static struct run opened;
    opened.segment = run.segment;
    t.kind = LLADD_TO_END;
    t.timeline = timeline;
    o.target = &t;
    OK(lladd_store_device(&store.base, &o, &device, &err));
    ck_assert_int_eq(lladd_device_overlay(device, &overlay), 0);
    run_open(&opened, overlay, LLADD_OPT_MUST_EXIST);
    unsigned char *bytes = malloc(lladd_page_size(opened.db));
    ck_assert_ptr_nonnull(bytes);
    OK(lladd_bulk_read(opened.db, page, 1, true, bytes, &err));
    ck_assert_uint_eq(bytes[0], fill);
    ck_assert_uint_eq(bytes[lladd_page_size(opened.db) - 1], fill);
    free(bytes);
    run_kill(&opened);
    lladd_device_close(overlay);
    lladd_store_device_close(device);
}

/* Two copies write different pages in bulk, and log the same records. Each keeps its own pages. If
 * a mark follows before the database is copied, the pages before it are common. */
START_TEST(equal_records_and_other_pages)
{
    bool shared = _i;
    lladd_pageno page = {0};
    begin();
    if (shared) {
        page = write_bulk(&run, 1);
        go(&run, 41);
    }
    run_close(&run);
    ledger_copy(disk, copy);
    other = run;
    other.variant = 1;
    uint64_t last = run.number;
    run_open(&run, disk, LLADD_OPT_MUST_EXIST);
    run_open(&other, copy, LLADD_OPT_MUST_EXIST);
    if (!shared) {
        page = write_bulk(&run, 1);
        ck_assert_uint_eq(write_bulk(&other, 2).v, page.v);
        ck_assert_uint_eq(lladd_durable_lsn(run.db).v, lladd_durable_lsn(other.db).v);
    }
    uint64_t same = lladd_durable_lsn(run.db).v;
    go(&run, last + 10);
    run_work_to(&other, last + 5);
    diverges(&other);
    run_close(&other);
    run_close(&run);
    struct lladd_adopt_info info = adopted(copy, &store);
    ck_assert(info.adopted && !info.needs_backup);
    if (shared)
        ck_assert_uint_ge(info.fork.v, run.end[last]);
    else
        ck_assert_uint_lt(info.fork.v, same);
    look_at_bulk(0, page, 1);
    look_at_bulk(1, page, shared ? 1 : 2);
    look(&store, 0, 0, &run, last + 10);
    look(&store, 1, 0, &other, last + 5);
}
END_TEST

static uint64_t oldest(struct run *r)
{
    struct lladd_log_hold *hold;
    OK(lladd_log_keep(r->db, "test", lladd_lsn_of(0), &hold, &err));
    uint64_t lsn = lladd_log_hold_raise(hold, lladd_lsn_of(0)).v;
    lladd_log_release(hold);
    return lsn;
}

/* The begin of the log as it is found when no process has the database open. It may be lower than
 * that of the open database: files of log that was given up stay until they are used again. */
static uint64_t oldest_in_files(struct run *r)
{
    struct lladd_inspect_info info = {.struct_size = sizeof info};
    struct lladd_options o = LLADD_OPTIONS_INIT;
    struct lladd_inspect *view;
    o.device = r->options.device;
    OK(lladd_inspect_open(NULL, &o, &view, &err));
    ck_assert_int_eq(lladd_inspect_info_get(view, &info), 0);
    lladd_inspect_close(view);
    return info.log_oldest.v;
}

/* Works until the files have no log below the LSN. */
static void forget(struct run *r, uint64_t below)
{
    while (oldest_in_files(r) < below) {
        run_work_to(r, r->number + 1);
        OK(lladd_checkpoint(r->db, &err));
    }
}

/* No archive has logged marks. The log is proven to be common only if the database still has all of
 * it: below the oldest record there may have been a difference. */
START_TEST(a_log_without_marks)
{
    struct lladd_archive_status s = {.struct_size = sizeof s};
    bool whole = _i == 0;
    run.world = NULL;
    run_open(&run, disk, 0);
    run_work_to(&run, 20);
    OK(lladd_backup(run.db, &store.base, NULL, NULL, &err));
    run_work_to(&run, 60);
    run_close(&run);
    OK(lladd_archive_push(disk, &store.base, NULL, &s, &err));
    run_open(&run, disk, LLADD_OPT_MUST_EXIST);
    if (!whole) { /* what is stored is recycled */
        OK(lladd_pin_set(run.db, "all the log", s.stored, &err));
        OK(lladd_checkpoint(run.db, &err));
        OK(lladd_checkpoint(run.db, &err));
        ck_assert_uint_gt(oldest(&run), 8);
        forget(&run, 9);
    }
    uint64_t last = run.number + 5;
    run_work_to(&run, last);
    run_close(&run);
    OK(lladd_archive_push(disk, &store.base, NULL, NULL, &err));
    look(&store, 0, 0, &run, last);
    run_store_object(&run, "t00000000/claim.1", "0123456789abcdef", 16);
    ck_assert_int_eq(lladd_archive_push(disk, &store.base, NULL, NULL, &err), LLADD_DIVERGED);
    struct lladd_adopt_info info = adopted(disk, &store);
    ck_assert(info.adopted);
    ck_assert(info.needs_backup == !whole);
    ck_assert(whole ? info.fork.v >= run.end[last] : info.fork.v == 0);
    if (whole)
        look_at_all(1, &run, last);
}
END_TEST

/* The database no longer has the log that it would share with the store. Nothing of the old
 * timeline is used, so it needs a new backup. The other copy has written much more meanwhile: so,
 * wherever segments end, the store has log above the oldest log that the database still has. */
START_TEST(a_log_without_a_common_part)
{
    begin();
    run_close(&run);
    ledger_copy(disk, copy);
    other = run;
    other.variant = 1;
    run_open(&run, disk, LLADD_OPT_MUST_EXIST);
    go(&run, 160);
    run_close(&run);
    run_open(&other, copy, LLADD_OPT_MUST_EXIST);
    run_work_to(&other, 70);
    OK(lladd_archive_detach(other.archive, &err));
    OK(lladd_pin_clear(other.db, "all the log", &err));
    for (uint64_t k = 75; k <= 110; k += 5) {
        OK(lladd_checkpoint(other.db, &err));
        run_work_to(&other, k);
    }
    forget(&other, other.end[45]);
    uint64_t last = other.number;
    ck_assert_uint_gt(oldest(&other), other.end[45]);
    ck_assert_uint_lt(oldest(&other), run.end[160]);
    run_close(&other);
    struct lladd_adopt_info info = adopted(copy, &store);
    ck_assert(info.adopted && info.needs_backup);
    ck_assert_uint_eq(info.timeline, 1);
    ck_assert_uint_eq(info.fork.v, 0);
    struct lladd_restore_target t = LLADD_RESTORE_TARGET_INIT;
    struct lladd_restore_options o = LLADD_RESTORE_OPTIONS_INIT;
    struct lladd_device *device;
    t.kind = LLADD_TO_END;
    t.timeline = 1;
    o.target = &t;
    ck_assert_int_eq(lladd_store_device(&store.base, &o, &device, &err), LLADD_OUT_OF_RANGE);
    look(&store, 0, 0, &run, 160);
    run_open(&other, copy, LLADD_OPT_MUST_EXIST);
    go(&other, last + 5);
    OK(lladd_backup(other.db, &store.base, NULL, NULL, &err));
    go(&other, last + 20);
    run_close(&other);
    info = adopted(copy, &store);
    ck_assert(!info.adopted && !info.needs_backup);
    look(&store, 1, 0, &other, last + 20);
}
END_TEST

/* ---- failures and crashes ------------------------------------------------------------------- */

/* The database can be opened, and has all of its transactions. */
static void open_and_check(struct lladd_device *dev)
{
    static struct run opened;
    opened = other;
    opened.world = NULL;
    run_open(&opened, dev, LLADD_OPT_MUST_EXIST);
    run_check(&opened, &other, 70);
    run_close(&opened);
}

/* A call was interrupted. The next one completes it: there is one new timeline, and both futures
 * are in the store. */
static void complete(struct lladd_device *dev, struct memory_store *in, bool opened)
{
    if (opened)
        open_and_check(dev);
    struct lladd_adopt_info info = adopted(dev, in);
    ck_assert(!info.needs_backup);
    ck_assert_uint_eq(info.timeline, 1);
    ck_assert_uint_eq(histories(in), 1);
    ck_assert_uint_ge(info.fork.v, run.end[40]);
    ck_assert_uint_lt(info.fork.v, other.end[41]);
    ck_assert(!exists(dev, "files/ship/adopt"));
    look(in, 0, 0, &run, 60);
    look(in, 1, 0, &other, 70);
    open_and_check(dev);
    info = adopted(dev, in);
    ck_assert(!info.adopted);
    ck_assert_uint_eq(histories(in), 1);
}

START_TEST(the_store_fails_at_each_call)
{
    bool fired = true;
    two_copies(false);
    run_close(&run);
    for (uint64_t n = 1; fired; n += 1 + n / 20) {
        struct memory_store in;
        struct lladd_device *dev;
        struct lladd_adopt_info info;
        memory_store_copy(&in, &store);
        ck_assert_int_eq(lladd_device_memory(&dev), 0);
        ledger_copy(copy, dev);
        in.fail_at = n;
        in.fail_on = _i & 1;
        in.lost = _i & 2;
        int rc = adopt(dev, &in, &info);
        fired = in.fired != 0;
        ck_assert_msg(rc == (fired ? LLADD_STORE_FAILED : 0), "call %u: %d %s", (unsigned)n, rc,
                      err.message);
        in.fail_at = 0;
        complete(dev, &in, n % 2);
        memory_store_free(&in);
        lladd_device_close(dev);
    }
}
END_TEST

/* The power fails at each call of the device, or one call fails. */
START_TEST(the_device_fails_at_each_call)
{
    enum { POWER, SUBSET, FAIL };
    bool fired = true;
    two_copies(false);
    run_close(&run);
    for (uint64_t n = 1; fired; n += 1 + n / 20) {
        const struct fault_crash how = {
            .mode = _i == POWER ? FAULT_POWER : FAULT_SUBSET, .seed = n, .torn = true};
        struct memory_store in;
        struct lladd_device *dev;
        struct lladd_adopt_info info;
        memory_store_copy(&in, &store);
        ck_assert_int_eq(lladd_device_memory(&dev), 0);
        ledger_copy(copy, dev);
        struct fault_device *fd = fault_device_new(dev);
        if (_i == FAIL)
            fault_device_fail(fd, n, FAULT_ANY, EIO, false);
        else
            fault_device_crash_at(fd, n);
        int rc = adopt(fault_device_dev(fd), &in, &info);
        fired = _i == FAIL ? fault_device_fired(fd) != 0 : fault_device_crashed(fd);
        ck_assert_msg(_i == FAIL ? rc == 0 || fired : (rc != 0) == fired, "call %u: %d %s",
                      (unsigned)n, rc, err.message);
        ck_assert_uint_eq(fault_device_open_files(fd), 0);
        if (_i != FAIL)
            fault_device_power_cycle(fd, &how);
        fault_device_free(fd);
        complete(dev, &in, n % 2);
        memory_store_free(&in);
        lladd_device_close(dev);
    }
}
END_TEST

/* After a call has failed, a restored copy takes the number that this call had chosen. The next
 * call takes another one. */
START_TEST(a_number_that_is_taken_meanwhile)
{
    struct memory_store in;
    struct lladd_device *dev = NULL, *restored;
    struct lladd_adopt_info info;
    bool chosen = false;
    two_copies(false);
    run_close(&run);
    for (uint64_t n = 1; !chosen; n++) {
        lladd_device_close(dev);
        memory_store_copy(&in, &store);
        ck_assert_int_eq(lladd_device_memory(&dev), 0);
        ledger_copy(copy, dev);
        in.fail_at = n;
        ck_assert_int_eq(adopt(dev, &in, &info), LLADD_STORE_FAILED);
        in.fail_at = 0;
        chosen = exists(dev, "files/ship/adopt");
        if (!chosen)
            memory_store_free(&in);
    }
    ck_assert_uint_eq(histories(&in), 0);
    ck_assert_int_eq(lladd_device_memory(&restored), 0);
    OK(lladd_restore(&in.base, NULL, restored, NULL, &err));
    info = adopted(dev, &in);
    ck_assert(info.adopted);
    ck_assert_uint_eq(info.timeline, 2);
    ck_assert_uint_eq(info.parent, 0);
    ck_assert_uint_ge(info.fork.v, run.end[40]);
    ck_assert_uint_eq(histories(&in), 2);
    look(&in, 0, 0, &run, 60);
    look(&in, 2, 0, &other, 70);
    lladd_device_close(restored);
    lladd_device_close(dev);
    memory_store_free(&in);
}
END_TEST

/* ---- backups -------------------------------------------------------------------------------- */

static int claim_meanwhile(void *ctx, const char *what, uint64_t done, uint64_t all)
{
    (void)what, (void)done, (void)all;
    run_store_object(ctx, "t00000000/claim.3", "0123456789abcdef", 16);
    return 0;
}

static unsigned manifests(void)
{
    unsigned n = 0;
    for (size_t i = 0; i < store.n; i++)
        n += strstr(store.objects[i].name, "/manifest") != NULL;
    return n;
}

/* If the archive of a copy is refused, the copy makes no backup on the timeline of the other copy
 * either; nor does a database of which a copy begins to archive during the backup. */
START_TEST(a_backup_of_another_copy)
{
    struct lladd_backup_options o = LLADD_BACKUP_OPTIONS_INIT;
    two_copies(false);
    run_open(&other, copy, LLADD_OPT_MUST_EXIST);
    size_t objects = store.n;
    ck_assert_int_eq(lladd_backup(other.db, &store.base, NULL, NULL, &err), LLADD_DIVERGED);
    ck_assert_uint_eq(store.n, objects);
    OK(lladd_backup(run.db, &store.base, NULL, NULL, &err));
    ck_assert_uint_eq(manifests(), 2);
    o.progress = claim_meanwhile;
    o.progress_ctx = &run;
    objects = store.n;
    ck_assert_int_eq(lladd_backup(run.db, &store.base, &o, NULL, &err), LLADD_DIVERGED);
    ck_assert_uint_eq(manifests(), 2);
    ck_assert_uint_eq(store.n, objects + 1);
    memory_store_drop(&store, memory_store_find(&store, "claim.3"));
    run_close(&other);
    run_close(&run);
    (void)adopted(copy, &store);
    run_open(&other, copy, LLADD_OPT_MUST_EXIST);
    look(&store, 0, 0, &run, 60);
    OK(lladd_backup(other.db, &store.base, NULL, NULL, &err));
    ck_assert_uint_eq(manifests(), 3);
    run_close(&other);
    look(&store, 1, 0, &other, 70);
}
END_TEST

/* ---- refused -------------------------------------------------------------------------------- */

static int see_name(void *ctx, const char *name)
{
    unsigned *n = ctx;
    (void)name;
    (*n)++;
    return 0;
}

START_TEST(what_cannot_be_adopted)
{
    struct lladd_adopt_info info;
    struct memory_store in;
    struct lladd_device *third;
    static struct run foreign;
    unsigned files = 0;
    two_copies(false);
    ck_assert_int_eq(lladd_archive_adopt(NULL, &store.base, NULL, NULL, &err), LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(lladd_archive_adopt(copy, NULL, NULL, NULL, &err), LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(adopt(disk, &store, &info), LLADD_LOCKED); /* `run` is open */
    run_close(&run);
    memory_store_init(&in);
    ck_assert_int_eq(adopt(copy, &in, &info), LLADD_NOT_FOUND);
    ck_assert_uint_eq(in.n, 0);
    ck_assert_int_eq(lladd_device_memory(&third), 0);
    ck_assert_int_eq(adopt(third, &store, &info), LLADD_MISSING_FILE);
    ck_assert_int_eq(third->ops->list(third, "", see_name, &files), 0);
    ck_assert_uint_eq(files, 0);
    /* The store of another database. */
    foreign.store = &in;
    foreign.segment = run.segment;
    run_open(&foreign, third, 0);
    run_work_to(&foreign, 5);
    OK(lladd_backup(foreign.db, &in.base, NULL, NULL, &err));
    run_close(&foreign);
    ck_assert_int_eq(adopt(copy, &in, &info), LLADD_OTHER_DATABASE);
    ck_assert_uint_eq(histories(&in) + histories(&store), 0);
    ck_assert(!exists(copy, "files/ship/adopt"));
    lladd_device_close(third);
    memory_store_free(&in);
}
END_TEST

/* If the archive is not refused, the log is stored, and nothing else happens. */
START_TEST(nothing_to_adopt)
{
    begin();
    run_work_to(&run, 45);
    run_close(&run);
    struct lladd_adopt_info info = adopted(disk, &store);
    ck_assert(!info.adopted && !info.needs_backup);
    ck_assert_uint_eq(info.timeline, 0);
    ck_assert_uint_ge(info.stored.v, run.end[45]);
    ck_assert_uint_eq(histories(&store), 0);
    look(&store, 0, 0, &run, 45);
    size_t objects = store.n;
    OK(lladd_archive_adopt(disk, &store.base, NULL, NULL, &err));
    ck_assert_uint_eq(store.n, objects);
    run_open(&run, disk, LLADD_OPT_MUST_EXIST);
    go(&run, 60);
    run_close(&run);
}
END_TEST

static int see_doubt(void *ctx, const struct lladd_in_doubt_info *info)
{
    int *stop = ctx;
    ck_assert_int_eq(info->gid.format, 7);
    return *stop ? 77 : ++*stop;
}

static int only_count(void *ctx, const struct lladd_in_doubt_info *info)
{
    unsigned *n = ctx;
    ck_assert_int_eq(info->gid.format, 7);
    (*n)++;
    return 0;
}

/* A prepared transaction is told before anything is written, and stays in doubt. */
START_TEST(a_transaction_in_doubt)
{
    struct lladd_adopt_options o = LLADD_ADOPT_OPTIONS_INIT;
    struct lladd_gid gid = {.format = 7, .gtrid_length = 4, .data = {1}};
    uint64_t row = 1000;
    unsigned told = 0;
    int stop = 1;
    begin();
    struct lladd_txn *txn = run_begin(&run);
    ck_assert_int_eq(lladd_hash_put(txn, run.table, &row, sizeof row, &row, sizeof row), 0);
    ck_assert_int_eq(lladd_prepare(txn, &gid), 0);
    run_close(&run);
    ck_assert_int_eq(disk->ops->unlink(disk, "files/ship/claim"), 0);
    o.world = &world.world;
    o.in_doubt = see_doubt;
    o.in_doubt_ctx = &stop;
    ck_assert_int_eq(lladd_archive_adopt(disk, &store.base, &o, NULL, &err), 77);
    ck_assert_uint_eq(histories(&store), 0);
    o.in_doubt = only_count;
    o.in_doubt_ctx = &told;
    struct lladd_adopt_info info = {.struct_size = sizeof info};
    OK(lladd_archive_adopt(disk, &store.base, &o, &info, &err));
    ck_assert(info.adopted);
    ck_assert_uint_eq(told, 1);
    told = 0;
    run_open(&run, disk, LLADD_OPT_MUST_EXIST);
    OK(lladd_in_doubt_each(run.db, only_count, &told, &err));
    ck_assert_uint_eq(told, 1);
    run_close(&run);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("adopt");
    TCase *tc = tcase_create("all");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, a_copy_takes_over, 0, 4);
    tcase_add_test(tc, a_copy_of_a_copy_takes_over);
    tcase_add_loop_test(tc, a_lost_claim, 0, 2);
    tcase_add_test(tc, a_taken_name);
    tcase_add_loop_test(tc, equal_records_and_other_pages, 0, 2);
    tcase_add_loop_test(tc, a_log_without_marks, 0, 2);
    tcase_add_test(tc, a_log_without_a_common_part);
    tcase_add_loop_test(tc, the_store_fails_at_each_call, 0, 4);
    tcase_add_loop_test(tc, the_device_fails_at_each_call, 0, 3);
    tcase_add_test(tc, a_number_that_is_taken_meanwhile);
    tcase_add_test(tc, a_backup_of_another_copy);
    tcase_add_test(tc, what_cannot_be_adopted);
    tcase_add_test(tc, nothing_to_adopt);
    tcase_add_test(tc, a_transaction_in_doubt);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
