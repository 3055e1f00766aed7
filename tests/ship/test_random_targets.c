/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Restores to random LSNs. A random workload commits, writes in bulk, crashes, closes, archives and
 * makes backups, on three timelines. The database at each target is as the run has left it there.
 * LLADD_NIGHTLY: 10,000 targets; LLADD_SEED: of the workload and the targets.
 */
#include "beside.h"
#include "calls.h"
#include "numbered.h"

#include "support/test_world.h"

#include <check.h>
#include <lladd/bulk.h>
#include <lladd/device.h>
#include <lladd/inspect.h>
#include <lladd/pages.h>
#include <stdlib.h>
#include <string.h>

enum { TIMELINES = 3, NUMBERS = 60, BULK_PAGES = 3, PAGE = 4096, COMMIT = 6 };

/* A timeline, and the end of the commit record of each of its transactions. */
struct history {
    struct run run;
    struct lladd_device *disk;
    uint32_t timeline;
    uint64_t done[RUN_MOST];    /* of numbered transactions */
    uint64_t written[RUN_MOST]; /* of those that write in bulk, by their stamp */
    uint32_t by[RUN_MOST];      /* the timeline that has written the stamp */
    uint64_t stamp;             /* of the last one */
    uint64_t first, last;       /* the targets */
    char base[64];              /* the backup that ends at `first` */
};

/* The ends of the commit records in the log, ascending. */
struct commits {
    uint64_t lsn[20 * RUN_MOST], end[20 * RUN_MOST];
    unsigned n;
};

static struct memory_store store;
static struct lladd_error err;
static struct test_world world;
static struct history histories[TIMELINES];
static struct commits commits;
static uint64_t state;

static uint64_t draw(uint64_t below)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (state >> 33) % below;
}

/* ---- the workload --------------------------------------------------------------------------- */

/* One transaction frees what was written in bulk before, and writes something else, perhaps to the
 * same pages. */
static void write_in_bulk(struct history *h)
{
    static unsigned char bytes[BULK_PAGES * PAGE];
    struct lladd_root_value root;
    struct lladd_txn *txn = run_begin(&h->run);
    lladd_pageno first;
    if (h->stamp) {
        OK(lladd_root_get(h->run.db, "bulk", &root, &err));
        TXN(lladd_extent_free(txn, lladd_page_of(root.a), BULK_PAGES));
    }
    h->stamp++;
    ck_assert_uint_lt(h->stamp, RUN_MOST);
    memset(bytes, (int)(h->stamp * 7 + h->timeline * 91), sizeof bytes);
    TXN(lladd_extent_alloc(txn, BULK_PAGES, LLADD_EXTENT_RAW, &first));
    TXN(lladd_bulk_write(txn, first, BULK_PAGES, NULL, bytes));
    TXN(lladd_bulk_sync(txn));
    TXN(lladd_root_set(txn, "bulk", (struct lladd_root_value){first.v, h->stamp}));
    ck_assert_int_eq(lladd_commit(txn), 0);
    h->written[h->stamp] = lladd_durable_lsn(h->run.db).v;
    h->by[h->stamp] = h->timeline;
}

static struct history *running;

static int goes_on(void *ctx, const char *what, uint64_t done, uint64_t all)
{
    (void)ctx, (void)done, (void)all;
    if (strcmp(what, "archive") == 0)
        run_archive(&running->run, running->timeline);
    return 0;
}

static void back_up(struct history *h, bool outside)
{
    struct lladd_backup_info info = {.struct_size = sizeof info};
    struct lladd_outside_options o = LLADD_OUTSIDE_OPTIONS_INIT;
    struct lladd_backup_options b = LLADD_BACKUP_OPTIONS_INIT;
    struct beside beside;
    beside_init(&beside, h->disk);
    running = h;
    run_archive(&h->run, h->timeline); /* the first step claims the store */
    b.progress = goes_on;
    o.backup = &b;
    if (outside)
        OK(lladd_backup_outside(&beside.base, &store.base, &o, &info, &err));
    else
        OK(lladd_backup(h->run.db, &store.base, NULL, &info, &err));
    ck_assert_uint_eq(info.damaged_pages + info.lost_pages, 0);
    if (!h->first) {
        h->first = info.end.v;
        memcpy(h->base, info.name, sizeof h->base);
    }
}

/* Ends the process, sometimes with a transaction that has not committed; begins another one. */
static void stop(struct history *h, bool crash)
{
    if (crash) {
        struct lladd_txn *loser = run_begin(&h->run);
        run_put(&h->run, loser, RUN_LOSER, draw(100));
        if (draw(2))
            run_work_to(&h->run, h->run.number + 1);
        run_kill(&h->run);
    } else {
        run_close(&h->run);
    }
    run_open(&h->run, h->disk, LLADD_OPT_MUST_EXIST);
}

static void one_thing(struct history *h)
{
    switch (draw(12)) {
    case 0:
    case 1:
        write_in_bulk(h);
        break;
    case 2:
    case 3:
        run_archive(&h->run, h->timeline);
        break;
    case 4:
        OK(lladd_checkpoint(h->run.db, &err));
        break;
    case 5:
        stop(h, draw(2));
        break;
    case 6:
        if (draw(3) == 0)
            back_up(h, draw(2));
        break;
    default:
        run_work_to(&h->run, h->run.number + 1 + draw(3));
    }
}

/* ---- when it committed ---------------------------------------------------------------------- */

static int see(void *ctx, const struct lladd_inspect_record *r)
{
    struct commits *c = ctx;
    if (r->entry.kind != COMMIT)
        return 0;
    ck_assert_uint_lt(c->n, 20 * RUN_MOST);
    c->lsn[c->n] = r->entry.lsn.v;
    c->end[c->n++] = r->entry.lsn.v + r->size;
    return 0;
}

/* The end of the last commit record below the LSN. */
static uint64_t commit_below(uint64_t lsn)
{
    uint64_t end = 0;
    for (unsigned i = 0; i < commits.n && commits.lsn[i] < lsn; i++)
        end = commits.end[i];
    ck_assert_uint_ne(end, 0);
    return end;
}

/* The log has a pin, so it has all records. After each commit no other one was logged before the
 * durable LSN was asked for. */
static void find_commits(struct history *h, uint64_t number, uint64_t stamp)
{
    struct lladd_options options = LLADD_OPTIONS_INIT;
    struct lladd_inspect *view;
    options.device = h->disk;
    commits.n = 0;
    OK(lladd_inspect_open(NULL, &options, &view, &err));
    OK(lladd_inspect_log(view, lladd_lsn_of(0), see, &commits, &err));
    lladd_inspect_close(view);
    for (uint64_t k = number + 1; k <= h->run.number; k++)
        h->done[k] = commit_below(h->run.end[k]);
    for (uint64_t k = stamp + 1; k <= h->stamp; k++)
        h->written[k] = commit_below(h->written[k]);
}

static uint64_t last_below(const uint64_t *ends, uint64_t n, uint64_t lsn)
{
    while (n && ends[n] > lsn)
        n--;
    return n;
}

/* Runs the timeline to a number of transactions. */
static void live(struct history *h, uint64_t to)
{
    uint64_t number = h->run.number, stamp = h->stamp;
    run_work_to(&h->run, number + 1);
    if (!h->first || draw(2))
        back_up(h, draw(2));
    while (h->run.number < to)
        one_thing(h);
    run_archive(&h->run, h->timeline);
    struct lladd_archive_status status = {.struct_size = sizeof status};
    OK(lladd_archive_status_get(h->run.archive, &status, &err));
    h->last = status.stored.v;
    find_commits(h, number, stamp);
    run_close(&h->run);
}

/* Timeline 0 of a target means the timeline of the last backup, or of the backup that is named. */
static struct lladd_restore_options to_lsn(struct lladd_restore_target *t,
                                           const struct history *h, uint64_t lsn)
{
    struct lladd_restore_options o = LLADD_RESTORE_OPTIONS_INIT;
    *t = (struct lladd_restore_target)LLADD_RESTORE_TARGET_INIT;
    t->kind = LLADD_TO_LSN;
    t->timeline = h->timeline;
    o.base = h->timeline ? NULL : h->base;
    t->lsn = lladd_lsn_of(lsn);
    o.target = t;
    return o;
}

static uint64_t random_target(const struct history *h)
{
    return h->first + draw(h->last - h->first + 1);
}

/* A copy at a random target goes on. */
static void leave(const struct history *parent, struct history *h, uint32_t timeline)
{
    struct lladd_restore_target t;
    uint64_t lsn = random_target(parent);
    struct lladd_restore_options o = to_lsn(&t, parent, lsn);
    *h = *parent;
    h->timeline = timeline;
    h->run.variant = timeline;
    h->run.number = last_below(h->done, parent->run.number, lsn);
    h->stamp = last_below(h->written, parent->stamp, lsn);
    ck_assert_int_eq(lladd_device_memory(&h->disk), 0);
    OK(lladd_restore(&store.base, &o, h->disk, NULL, &err));
    run_open(&h->run, h->disk, LLADD_OPT_MUST_EXIST);
    live(h, h->run.number + NUMBERS / 2);
}

/* ---- the targets ---------------------------------------------------------------------------- */

static void check_bulk(struct run *opened, const struct history *h, uint64_t stamp)
{
    static unsigned char bytes[BULK_PAGES * PAGE];
    struct lladd_root_value root;
    int rc = lladd_root_get(opened->db, "bulk", &root, &err);
    ck_assert_int_eq(rc, stamp ? 0 : LLADD_NOT_FOUND);
    if (!stamp)
        return;
    ck_assert_uint_eq(root.b, stamp);
    OK(lladd_bulk_read(opened->db, lladd_page_of(root.a), BULK_PAGES, true, bytes, &err));
    for (size_t i = 0; i < sizeof bytes; i++)
        ck_assert_uint_eq(bytes[i], (unsigned char)(stamp * 7 + h->by[stamp] * 91));
}

static void look(const struct history *h, uint64_t lsn)
{
    struct lladd_restore_target t;
    struct lladd_restore_options o = to_lsn(&t, h, lsn);
    struct lladd_device *device, *overlay;
    static struct run opened;
    opened = (struct run){.segment = h->run.segment};
    int rc = lladd_store_device(&store.base, &o, &device, &err);
    ck_assert_msg(rc == 0, "LSN %llu of timeline %u: %s", (unsigned long long)lsn, h->timeline,
                  err.message);
    ck_assert_int_eq(lladd_device_overlay(device, &overlay), 0);
    run_open(&opened, overlay, LLADD_OPT_MUST_EXIST);
    run_check(&opened, &h->run, last_below(h->done, h->run.number, lsn));
    check_bulk(&opened, h, last_below(h->written, h->stamp, lsn));
    run_kill(&opened);
    ck_assert_int_eq(lladd_store_device_error(device, NULL), 0);
    lladd_device_close(overlay);
    lladd_store_device_close(device);
}

START_TEST(random_targets)
{
    enum { A_WORKLOAD = 100 };
    const char *seed = getenv("LLADD_SEED");
    uint64_t targets = getenv("LLADD_NIGHTLY") ? 10000 : 200;
    for (uint64_t i = 0; i < targets / A_WORKLOAD; i++) {
        state = (seed ? strtoull(seed, NULL, 10) : 1) + i;
        err = (struct lladd_error)LLADD_ERROR_INIT;
        memory_store_init(&store);
        test_world_init(&world, 5);
        memset(histories, 0, sizeof histories);
        struct history *h = histories;
        h->run = (struct run){.store = &store, .segment = 1 << 13, .world = &world.world};
        ck_assert_int_eq(lladd_device_memory(&h->disk), 0);
        run_open(&h->run, h->disk, 0);
        live(h, NUMBERS);
        for (uint32_t t = 1; t < TIMELINES; t++)
            leave(&histories[draw(t)], &histories[t], t);
        for (unsigned k = 0; k < A_WORKLOAD; k++) {
            h = &histories[draw(TIMELINES)];
            look(h, random_target(h));
        }
        for (unsigned k = 0; k < TIMELINES; k++)
            lladd_device_close(histories[k].disk);
        memory_store_free(&store);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("random_targets");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, random_targets);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
