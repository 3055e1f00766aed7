/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The page image of the last change is not the only source from which a torn, damaged or missing
 * page can be rebuilt (BUF-2, BUF-5). Other sources are the double-write area, which is used when
 * the page is written; the first image of a bulk-written page; and log that is older than redo's
 * start. The last group of tests has pages that prove that the log has lost its end.
 */
#include "db_fixture.h"

#include <errno.h>
#include <lladd/bulk.h>
#include <lladd/bytes.h>
#include <lladd/extension.h>
#include <lladd/inspect.h>
#include <lladd/log_read.h>
#include <lladd/records.h>
#include <lladd/sync.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

static struct fixture r;

enum { RESERVED = 1, INSTANT = 2, NO_IMAGES = 4, NO_INDEX = 8 }; /* bits of _i */

static void begin_case(int i)
{
    fixture_init(&r, i & RESERVED ? FIXTURE_RESERVED : 0);
    r.options.flags |= i & NO_IMAGES ? LLADD_OPT_ATOMIC_PAGES : 0;
    r.options.recovery = i & INSTANT ? LLADD_RECOVER_INSTANT : LLADD_RECOVER_FULL;
    r.options.recovery_bytes = i & NO_INDEX ? 64 : 0; /* too little for a redo index */
}

/* ---- torn pages that no image in reach protects -------------------------------------------- */

#ifdef LL_TEST_SHORT
enum { SEEDS = 2 };
#else
enum { SEEDS = 4 };
#endif
enum { VICTIMS = 4, FILLERS = 40, NOISE = 3000, SPOTS = 6 };
static lladd_pageno victim[VICTIMS], filler[FILLERS], counter;

/* Makes bytes that cannot be compressed. */
static void make_noise(unsigned char noise[NOISE])
{
    uint64_t x = 88172645463325252u;
    for (unsigned i = 0; i < NOISE; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        noise[i] = (unsigned char)x;
    }
}

static void make_pages(void)
{
    unsigned char noise[NOISE];
    make_noise(noise);
    struct lladd_txn *txn = fixture_begin(&r);
    for (unsigned v = 0; v < VICTIMS; v++) {
        ok(txn, lladd_page_alloc(txn, &victim[v]));
        ok(txn, lladd_bytes_format(txn, victim[v]));
        ok(txn, lladd_bytes_set(txn, victim[v], 0, noise, NOISE));
    }
    ok(txn, lladd_page_alloc(txn, &counter));
    ok(txn, lladd_bytes_format(txn, counter));
    done(lladd_commit(txn));
    fixture_pages(&r, filler, FILLERS);
}

/* Changes every sector but the first of each victim. */
static void change_victims(struct lladd_txn *txn)
{
    for (unsigned v = 0; v < VICTIMS; v++)
        for (unsigned k = 0; k < SPOTS; k++)
            ok(txn, lladd_bytes_set(txn, victim[v], 500 * k, "hello", 5));
}

static void expect_victims(bool changed)
{
    unsigned char noise[NOISE], found[NOISE];
    make_noise(noise);
    for (unsigned k = 0; changed && k < SPOTS; k++)
        memcpy(noise + 500 * k, "hello", 5);
    for (unsigned v = 0; v < VICTIMS; v++) {
        ok_db(&r, lladd_bytes_get(r.db, victim[v], 0, found, NOISE, &r.err));
        ck_assert_int_eq(memcmp(found, noise, NOISE), 0);
    }
}

static void wait_for_all(void)
{
    ok_db(&r, lladd_wait_durable(r.db, lladd_lsn_of(fixture_stats(&r).log_tail - 1), &r.err));
}

/* Fills the log to its limit, with a transaction that stays open. */
static void fill_log(void)
{
    struct lladd_txn *txn = fixture_begin(&r);
    int rc = 0;
    for (unsigned i = 0; !rc; i++)
        rc = cell_put_wide(txn, cell_of(filler[i % FILLERS], i / FILLERS % 50), i, 600);
    ck_assert_int_eq(rc, LLADD_LOG_FULL);
    while ((rc = lladd_counter_add(txn, counter, 0, 1)) == 0) {
    }
    ck_assert_int_eq(rc, LLADD_LOG_FULL);
}

/* A rollback at the log's limit changes pages with bases that are older than redo's start. It logs
 * no images, and the pages are not written before the crash. */
static void roll_back_without_images(int i)
{
    begin_case(i);
    r.options.flags |= LLADD_OPT_LOG_FULL_ERROR;
    r.options.page_size = 4096;
    r.options.cache_bytes = 4u << 20;
    r.options.log_ring_bytes = 128u << 10;
    r.options.log_segment_min = r.options.log_segment_max = 16u << 10;
    r.options.log_limit_bytes = 24u * (16u << 10);
    fixture_open(&r);
    make_pages();
    fixture_forget_log(&r, filler[0]);
    struct lladd_txn *early = fixture_begin(&r);
    change_victims(early);
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    fill_log();
    uint64_t images = fixture_stats(&r).page_images;
    done(lladd_abort(early));
    ck_assert_uint_lt(fixture_stats(&r).page_images - images, VICTIMS);
    wait_for_all();
}

/* Recovers and writes pages back until the n-th call. There the power fails, and tears the write in
 * progress. Returns true if the n-th call was reached. */
static bool recovery_is_cut_off(uint64_t n, uint64_t seed)
{
    fault_device_crash_at(r.fd, n);
    int rc = fixture_try_open(&r);
    bool more = true;
    while (!rc && more)
        rc = lladd_maintain(r.db, &more, &r.err);
    if (!rc)
        rc = lladd_checkpoint(r.db, &r.err);
    bool crashed = fault_device_crashed(r.fd);
    ck_assert_msg(rc == 0 || crashed, "%s", r.err.message);
    fault_device_crash_at(r.fd, 0);
    fixture_crash(&r, &(struct fault_crash){FAULT_SUBSET, seed, true});
    return crashed;
}

/* After a rollback without images, recovery redoes the changes of the pages, and a power failure
 * tears the next write of these pages. So that write needs the double-write area, too. Recovery
 * must see this from the page headers, because the memory of the earlier process is gone. */
START_TEST(a_rollback_without_images_is_protected_after_the_next_crash)
{
    bool crashed = true;
    for (uint64_t n = 1; crashed; n++) {
        crashed = false;
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            roll_back_without_images(_i);
            fixture_crash(&r, &fault_kill);
            crashed |= recovery_is_cut_off(n, seed * 1000003 + n);
            fixture_open(&r);
            expect_victims(false);
            fixture_close(&r);
            fixture_free(&r);
        }
        ck_assert_uint_lt(n, 1000);
    }
}
END_TEST

/* Changes were made without images, on a device that never tears pages, and are redone on a device
 * that tears pages. With an odd seed the device is exchanged twice more. */
START_TEST(images_and_no_images_take_turns)
{
    bool crashed = true;
    for (uint64_t n = 1; crashed; n++) {
        crashed = false;
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            begin_case(_i);
            r.options.flags |= LLADD_OPT_ATOMIC_PAGES;
            fixture_open(&r);
            make_pages();
            fixture_forget_log(&r, filler[0]);
            struct lladd_txn *txn = fixture_begin(&r);
            change_victims(txn);
            done(lladd_commit(txn));
            fixture_crash(&r, &fault_kill);
            r.options.flags &= ~(uint32_t)LLADD_OPT_ATOMIC_PAGES;
            crashed |= recovery_is_cut_off(n, seed * 1000003 + n);
            if (seed % 2) { /* again a device that never tears pages */
                r.options.flags |= LLADD_OPT_ATOMIC_PAGES;
                fixture_open(&r);
                expect_victims(true);
                fixture_crash(&r, &fault_kill);
                r.options.flags &= ~(uint32_t)LLADD_OPT_ATOMIC_PAGES;
                (void)recovery_is_cut_off(n, seed * 1000033 + n);
            }
            fixture_open(&r);
            expect_victims(true);
            fixture_close(&r);
            fixture_free(&r);
        }
        ck_assert_uint_lt(n, 1000);
    }
}
END_TEST

/* ---- bulk-written pages -------------------------------------------------------------------- */

/* A bulk-written page is not synced before a power failure, so its contents are lost. A later
 * logged change of the page is durable. */
START_TEST(a_bulk_page_that_changes_before_its_sync)
{
    enum { BULK = 40 };
    for (unsigned atomic = 0; atomic < 2; atomic++) {
        lladd_pageno page;
        begin_case(_i);
        r.options.flags |= atomic ? LLADD_OPT_ATOMIC_PAGES : 0;
        fixture_open(&r);
        fixture_pages(&r, &page, 1);
        ok_db(&r, lladd_pages_extend(r.db, BULK + 1, &r.err));
        struct lladd_txn *txn = fixture_begin(&r);
        unsigned char *bytes = calloc(1, 4096);
        ok(txn, lladd_redo_barrier(txn, lladd_page_of(BULK), 1));
        ok(txn, lladd_bulk_write(txn, lladd_page_of(BULK), 1, "test.cells", bytes));
        free(bytes);
        ok(txn, cell_put(txn, cell_of(lladd_page_of(BULK), 3), 9));
        fixture_set(&r, cell_of(page, 0), 1); /* makes all earlier log durable */
        fixture_crash(&r, &fault_power);
        fixture_open(&r);
        fixture_expect(&r, cell_of(page, 0), 1);
        fixture_expect(&r, cell_of(lladd_page_of(BULK), 3), 0);
        fixture_close(&r);
        fixture_free(&r);
    }
}
END_TEST

static struct cell barred; /* its page gets a redo barrier */

static bool any_undo(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)v, (void)s;
    return kind == LLADD_SPAN_UNDO;
}

/* A compensation that holds the page. */
static int put_held(void *ctx, struct lladd_txn *txn, struct lladd_span undo)
{
    struct {
        unsigned index;
        uint64_t value;
        size_t filling;
    } args = {barred.index, 5, 0};
    struct lladd_page *held;
    (void)ctx, (void)undo;
    int rc = lladd_log_credit(txn, r.ids.put, 1);
    if (!rc)
        rc = lladd_page_fix(r.db, barred.page, LLADD_LATCH_EXCLUSIVE, &held, &r.err);
    if (rc)
        return rc;
    rc = lladd_update_page(txn, r.ids.put, held, &args, sizeof args);
    lladd_page_unfix(r.db, held, LLADD_LATCH_EXCLUSIVE);
    return rc;
}

static const struct lladd_op put_held_op = {.struct_size = sizeof put_held_op,
                                            .name = "test.put_held",
                                            .version = 1,
                                            .record_max = 8,
                                            .undo_kind = LLADD_UNDO_LOGICAL,
                                            .validate = any_undo,
                                            .compensate = put_held,
                                            .undo_log_max = 1024,
                                            .undo_pages_max = 1};

/* Changes so many pages that the cache has to write the page, without a sync. */
static void evict_barred(void)
{
    enum { N = 512 };
    size_t len;
    struct lladd_txn *txn = fixture_begin(&r);
    for (uint64_t n = barred.page.v + 1; n <= barred.page.v + N; n++)
        ok(txn, cells_format(txn, lladd_page_of(n)));
    done(lladd_commit(txn));
    unsigned char *pages = fixture_file(&r, "pages", &len);
    ck_assert_uint_ne(lladd_get64(pages + barred.page.v * 4096 + 8), 0); /* page LSN */
    free(pages);
}

/* A page gets a redo barrier above its base, and is not written in bulk. Then a rollback changes
 * the page, without an image. The page's last write is not durable yet, so the rollback syncs it.
 * Otherwise a power failure could lose or tear that write, and the page would have no base. */
START_TEST(a_rollback_after_a_barrier_without_a_bulk_write)
{
    enum { UNDO, UPDATES, HELD, WAYS };
    for (unsigned way = UNDO; way < WAYS; way++) {
        lladd_op_id id;
        begin_case(_i);
        ok_db(&r, lladd_register_op(&r.options, &put_held_op, &r.err));
        fixture_open(&r);
        ck_assert_int_eq(lladd_op_lookup(r.db, put_held_op.name, 1, &id), 0);
        struct cell other = cell_of(fixture_page(&r), 0);
        barred = cell_of(fixture_page(&r), 2);
        ok_db(&r, lladd_pages_extend(r.db, 1024, &r.err));
        fixture_set(&r, barred, 4);
        struct lladd_txn *loser = fixture_begin(&r), *txn = fixture_begin(&r);
        ok(loser, way == UNDO      ? cell_put(loser, barred, 7)
                  : way == UPDATES ? cell_bump(loser, barred, 10)
                                   : lladd_log_undo_only(loser, id, "", 0));
        evict_barred();
        ok(txn, lladd_redo_barrier(txn, barred.page, 1));
        done(lladd_abort(txn));
        uint64_t images = fixture_stats(&r).page_images;
        done(lladd_abort(loser));
        ck_assert_uint_eq(fixture_stats(&r).page_images, images);
        fixture_set(&r, other, 1); /* makes all earlier log durable */
        fixture_crash(&r, &fault_power);
        fixture_open(&r);
        fixture_expect(&r, barred, way == HELD ? 5 : 4);
        fixture_free(&r);
    }
}
END_TEST

/* ---- older log ----------------------------------------------------------------------------- */

static void damage(lladd_pageno page)
{
    unsigned char bytes[64];
    memset(bytes, 0xee, sizeof bytes);
    fixture_file_write(&r, "pages", bytes, sizeof bytes, page.v * 4096 + 1024);
}

static int older_log_cases[] = {
    0, RESERVED, INSTANT, INSTANT | RESERVED, INSTANT | NO_INDEX, INSTANT | NO_INDEX | RESERVED};

/* A damaged page has a base before redo's start. If the log still has the base, full and instant
 * recovery rebuild the page, with a cache of any size. If not, both refuse the page. */
START_TEST(a_damaged_page_is_rebuilt_from_older_log)
{
    enum { MANY = 30, PUTS = 4 };
    for (unsigned kept = 0; kept < 2; kept++) {
        lladd_pageno page[MANY], scratch;
        begin_case(older_log_cases[_i]);
        r.options.checkpoint_bytes = 16u << 10;
        r.options.cache_bytes = fixture_small_cache(r.kind);
        fixture_open(&r);
        fixture_pages(&r, &scratch, 1);
        if (kept)
            ok_db(&r,
                  lladd_pin_set(r.db, "kept", lladd_lsn_of(fixture_stats(&r).log_tail), &r.err));
        fixture_pages(&r, page, MANY);
        fixture_fuzzy_checkpoint(&r, scratch);
        for (unsigned i = 0; i < MANY; i++)
            fixture_set(&r, cell_of(page[i], 1), i + 1);
        if (!kept)
            fixture_forget_log(&r, scratch);
        fixture_fuzzy_checkpoint(&r, scratch);
        r.options.flags |= LLADD_OPT_ATOMIC_PAGES; /* so that the last change logs no image */
        fixture_reopen(&r);
        struct lladd_txn *loser = fixture_begin(&r);
        for (unsigned i = 0; i < MANY; i++) {
            for (unsigned k = 0; k < PUTS; k++) /* so many that undo needs a pass over the log */
                ok(loser, cell_put(loser, cell_of(page[i], 3), 666 + k));
            fixture_set(&r, cell_of(page[i], 2), i + 2);
        }
        fixture_crash(&r, &fault_kill);
        for (unsigned i = 0; i < MANY; i += 2)
            damage(page[i]);
        int rc = fixture_try_open(&r);
        if (kept) {
            ck_assert_msg(rc == 0, "%s", r.err.message);
            for (unsigned i = 0; i < MANY; i++) {
                fixture_expect(&r, cell_of(page[i], 1), i + 1);
                fixture_expect(&r, cell_of(page[i], 2), i + 2);
                fixture_expect(&r, cell_of(page[i], 3), 0);
            }
            fixture_reopen(&r);
            for (unsigned i = 0; i < MANY; i++)
                fixture_expect(&r, cell_of(page[i], 2), i + 2);
            fixture_close(&r);
        } else {
            ck_assert_int_ne(rc, 0);
            ck_contains(r.err.message, "page");
        }
        fixture_free(&r);
    }
}
END_TEST

/* A page is changed, then written in bulk, changed again, and damaged. The older log has a base
 * from before the bulk write. What recovery rebuilds from that base is of an earlier use of the
 * page, so it must be dropped at the redo barrier of the bulk write. The image that was logged
 * after the bulk write is the base. */
START_TEST(a_page_of_an_earlier_use_is_no_base)
{
    lladd_pageno scratch, page;
    begin_case(_i);
    r.options.checkpoint_bytes = 16u << 10;
    fixture_open(&r);
    fixture_pages(&r, &scratch, 1);
    fixture_pages(&r, &page, 1);
    ok_db(&r, lladd_pin_set(r.db, "kept", lladd_lsn_of(fixture_stats(&r).log_tail), &r.err));
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, cells_format(txn, page));
    ok(txn, cell_put(txn, cell_of(page, 0), 666));
    done(lladd_commit(txn));
    unsigned char *bytes = calloc(1, 4096);
    txn = fixture_begin(&r);
    ok(txn, lladd_redo_barrier(txn, page, 1));
    ok(txn, lladd_bulk_write(txn, page, 1, "test.cells", bytes));
    ok(txn, lladd_bulk_sync(txn));
    done(lladd_commit(txn));
    free(bytes);
    fixture_set(&r, cell_of(page, 1), 5); /* logs an image */
    fixture_fuzzy_checkpoint(&r, scratch);
    fixture_fuzzy_checkpoint(&r, scratch);
    r.options.flags |= LLADD_OPT_ATOMIC_PAGES;
    fixture_reopen(&r);
    fixture_set(&r, cell_of(page, 2), 6);
    fixture_crash(&r, &fault_kill);
    damage(page);
    fixture_open(&r);
    fixture_expect(&r, cell_of(page, 0), 0);
    fixture_expect(&r, cell_of(page, 1), 5);
    fixture_expect(&r, cell_of(page, 2), 6);
    fixture_close(&r);
    fixture_free(&r);
}
END_TEST

/* A page was changed with atomic pages and written, and its sync failed: it can be read, but is not
 * durable (REC-4). The next run has no atomic pages, and takes a checkpoint that moves redo's start
 * past the page's base, but not past the change. So each later redo must write the page again. */
START_TEST(a_checkpoint_without_atomic_pages_trusts_no_older_write)
{
    lladd_pageno scratch, page;
    begin_case(_i);
    r.options.flags |= LLADD_OPT_ATOMIC_PAGES;
    r.options.checkpoint_bytes = 16u << 10;
    fixture_open(&r);
    fixture_pages(&r, &scratch, 1);
    fixture_pages(&r, &page, 1);
    fixture_forget_log(&r, scratch);
    fixture_set(&r, cell_of(page, 0), 7);
    fault_device_only(r.fd, "pages");
    fault_device_fail(r.fd, 1, FAULT_SYNC, EIO, false);
    ck_assert_int_eq(lladd_checkpoint(r.db, &r.err), LLADD_WRITE_FAILED);
    fault_device_only(r.fd, NULL);
    fixture_crash(&r, &fault_kill);
    r.options.flags &= ~(uint32_t)LLADD_OPT_ATOMIC_PAGES;
    test_world_fail_at(&r.world, "checkpoint.before_flush", 1, EIO); /* that of the recovery */
    fixture_open(&r);
    fixture_fuzzy_checkpoint(&r, scratch);
    fixture_crash(&r, &fault_kill);
    fixture_open(&r); /* takes a checkpoint after its recovery */
    fixture_expect(&r, cell_of(page, 0), 7);
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    fixture_expect(&r, cell_of(page, 0), 7);
    fixture_close(&r);
    fixture_free(&r);
}
END_TEST

/* A page was freed and dropped unwritten. So it lacks changes from before redo's start, and the log
 * has no base of it. The page is allocated again, before the crash or after it, and not formatted
 * yet. It need not have contents, so this is no damage. */
START_TEST(a_freed_page_that_is_allocated_again_is_no_damage)
{
    bool instant = _i & 1, late = _i & 2, crash_again = _i & 4;
    lladd_pageno next;
    begin_case(_i & 8 ? RESERVED : 0);
    r.options.checkpoint_bytes = 16u << 10;
    fixture_open(&r);
    lladd_pageno page = fixture_page(&r), freed = fixture_page(&r);
    fixture_forget_log(&r, page);
    fixture_set(&r, cell_of(freed, 0), 1);
    fixture_fuzzy_checkpoint(&r, page);
    fixture_set(&r, cell_of(freed, 1), 2);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, lladd_page_free(txn, freed));
    done(lladd_commit(txn));
    txn = fixture_begin(&r);
    ok(txn, lladd_page_alloc(txn, &next)); /* drops the page */
    ck_assert_uint_eq(next.v, freed.v);
    done(late ? lladd_abort(txn) : lladd_commit(txn));
    fixture_fuzzy_checkpoint(&r, page);
    fixture_set(&r, cell_of(page, 0), 6);
    fixture_crash(&r, &fault_power);
    r.options.recovery = instant ? LLADD_RECOVER_INSTANT : LLADD_RECOVER_FULL;
    fixture_open(&r);
    if (late) {
        txn = fixture_begin(&r);
        ok(txn, lladd_page_alloc(txn, &next));
        ck_assert_uint_eq(next.v, freed.v);
        done(lladd_commit_async(txn, NULL));
    }
    if (crash_again) {
        fixture_set(&r, cell_of(page, 0), 7);
        fixture_crash(&r, &fault_power);
        fixture_open(&r);
    }
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    fixture_expect(&r, cell_of(page, 0), crash_again ? 7 : 6);
    txn = fixture_begin(&r);
    ok(txn, cells_format(txn, next));
    ok(txn, cell_put(txn, cell_of(next, 0), 5));
    done(lladd_commit(txn));
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    fixture_expect(&r, cell_of(next, 0), 5);
    fixture_close(&r);
    fixture_free(&r);
}
END_TEST

/* Checkpoints that truncate the log while a page is repaired. */
static struct cut {
    lladd_pageno scratch;
    unsigned reads; /* of the log, until the checkpoints; 0: no checkpoints */
    unsigned done;
    struct lladd_thread thread;
} cut;

static void write_much(void)
{
    for (unsigned i = 0; i < 100; i++) {
        struct lladd_txn *txn = fixture_begin(&r);
        ok(txn, cell_put_wide(txn, cell_of(cut.scratch, 1), i, WIDE_MAX));
        done(lladd_commit_async(txn, NULL));
    }
    fixture_set(&r, cell_of(cut.scratch, 2), 1);
}

static void *cut_log(void *unused)
{
    enum { CUTS = 3 };
    ok_db(&r, lladd_pin_clear(r.db, "kept", &r.err));
    for (unsigned i = 0; i < CUTS; i++) {
        write_much();
        ok_db(&r, lladd_checkpoint(r.db, &r.err));
    }
    __atomic_store_n(&cut.done, 1, __ATOMIC_SEQ_CST);
    return unused;
}

/* Starts a thread that takes the checkpoints, and gives it time. It may have to wait until the page
 * is repaired. */
static void cut_meanwhile(void *ctx, uint64_t number, unsigned kind, const char *name)
{
    enum { TURNS = 20000 };
    (void)ctx;
    (void)number;
    if (kind != FAULT_PREAD || strncmp(name, "log/", 4) != 0 || cut.reads == 0 || --cut.reads > 0)
        return;
    ck_assert_int_eq(lladd_thread_start(&cut.thread, cut_log, NULL), 0);
    for (unsigned i = 0; i < TURNS && !__atomic_load_n(&cut.done, __ATOMIC_SEQ_CST); i++)
        ck_assert_int_eq(sched_yield(), 0);
}

/* While a damaged page is repaired, nothing else needs the log with its base. The base must stay
 * until the page is written, because changes after the repair need it. */
START_TEST(the_log_is_truncated_while_a_page_is_repaired)
{
    enum { READS = 4 };
    lladd_pageno page;
    begin_case(_i);
    r.options.log_segment_min = r.options.log_segment_max = 64u << 10;
    r.options.checkpoint_bytes = 1u << 30;
    fixture_open(&r);
    fixture_pages(&r, &cut.scratch, 1);
    ok_db(&r, lladd_pin_set(r.db, "kept", lladd_lsn_of(fixture_stats(&r).log_tail), &r.err));
    fixture_pages(&r, &page, 1);
    fixture_set(&r, cell_of(page, 2), 5);
    uint64_t changed = fixture_stats(&r).log_tail;
    write_much();
    fixture_close(&r);
    damage(page);
    fixture_open(&r);
    cut.done = 0;
    cut.reads = READS;
    fault_device_hook(r.fd, cut_meanwhile, NULL);
    fixture_expect(&r, cell_of(page, 2), 5);
    ck_assert_uint_eq(cut.reads, 0);
    lladd_thread_join(&cut.thread);
    fault_device_hook(r.fd, NULL, NULL);
    fixture_set(&r, cell_of(page, 3), 7);
    write_much(); /* would reuse the files that were cut off */
    fixture_crash(&r, &fault_kill);
    fixture_open(&r);
    fixture_expect(&r, cell_of(page, 2), 5);
    fixture_expect(&r, cell_of(page, 3), 7);
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    write_much();
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    ck_assert_uint_gt(fixture_stats(&r).log_oldest, changed);
    fixture_free(&r);
}
END_TEST

/* ---- a log that has lost its end ----------------------------------------------------------- */

#define SEGMENT "log/0000000000000008.seg"
enum { WITNESS_AT = 8192, WITNESS_BYTES = 64, OTHERS = 240 };

struct paid {
    lladd_pageno page;
    lladd_lsn update, commit;
};

static bool is_written(lladd_pageno page, lladd_lsn lsn)
{
    size_t len;
    unsigned char *bytes = fixture_file(&r, "pages", &len);
    bool is = len >= (page.v + 1) * 4096 && lladd_get64(bytes + page.v * 4096 + 8) == lsn.v;
    free(bytes);
    return is;
}

/* A page gets a base: its format record. Then a durable commit changes the page, the page is
 * evicted, and the process dies. */
static struct paid pay(int i)
{
    struct paid p;
    lladd_pageno other[OTHERS];
    begin_case(i);
    r.options.log_segment_min = r.options.log_segment_max = 1u << 20;
    r.options.cache_bytes = fixture_small_cache(r.kind);
    fixture_open(&r);
    /* The checkpoint comes before the pages are formatted, so that they need no image when they are
     * written; or after it (NO_IMAGES), so that redo reads them. */
    if (!(i & NO_IMAGES))
        ok_db(&r, lladd_checkpoint(r.db, &r.err));
    fixture_pages(&r, &p.page, 1);
    fixture_pages(&r, other, OTHERS);
    if (i & NO_IMAGES)
        ok_db(&r, lladd_checkpoint(r.db, &r.err));
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, cell_put(txn, cell_of(p.page, 2), 1));
    for (unsigned k = 0; k < OTHERS; k++)
        ok(txn, cell_put(txn, cell_of(other[k], 3), 1));
    done(lladd_commit(txn));
    txn = fixture_begin(&r);
    p.update = lladd_lsn_of(fixture_stats(&r).log_tail);
    ok(txn, cell_put(txn, cell_of(p.page, 2), 2));
    p.commit = lladd_lsn_of(fixture_stats(&r).log_tail);
    done(lladd_commit(txn));
    for (unsigned k = 0; !is_written(p.page, p.update); k++) {
        fixture_expect(&r, cell_of(other[k % OTHERS], 0), 0);
        ok_db(&r, lladd_maintain(r.db, NULL, &r.err));
        ck_assert_uint_lt(k, 100 * OTHERS);
    }
    fixture_crash(&r, &fault_kill);
    return p;
}

/* Damages a byte of the record at this LSN. A second call restores it. */
static void rot(lladd_lsn lsn)
{
    size_t len;
    unsigned char *bytes = fixture_file(&r, SEGMENT, &len);
    ck_assert_ptr_nonnull(bytes);
    size_t at = 64;
    while (at + 8 <= len && lladd_get64(bytes + at) != lsn.v)
        at += 8;
    ck_assert_uint_lt(at + 8, len);
    bytes[at - 8] ^= 0x5a;
    fixture_file_write(&r, SEGMENT, bytes + at - 8, 1, at - 8);
    free(bytes);
}

/* The record of the page's change is damaged, or the commit record. The log seems to end there, and
 * the acknowledged commit is lost. Redo of the page begins with its base, so it would not notice
 * the loss. Open must find it. */
START_TEST(a_page_that_is_newer_than_the_log_is_found_at_open)
{
    for (unsigned which = 0; which < 2; which++) {
        struct paid p = pay(_i);
        lladd_lsn gone = which ? p.commit : p.update;
        rot(gone);
        for (unsigned again = 0; again < 2; again++) {
            ck_assert_int_eq(fixture_try_open(&r), LLADD_LOG_LOST);
            ck_contains(r.err.message, "the log has lost its end");
            ck_assert_uint_eq(r.err.lsn.v, gone.v);
        }
        rot(gone); /* restores the byte; open has changed nothing */
        fixture_open(&r);
        fixture_expect(&r, cell_of(p.page, 2), 2);
        fixture_close(&r);
        fixture_free(&r);
    }
}
END_TEST

/* A power failure may lose the witness, which states how far the log was durable. Then the page
 * proves the loss when it is read. */
START_TEST(a_page_that_is_newer_than_the_log_is_found_when_it_is_read)
{
    static const unsigned char nothing[WITNESS_BYTES];
    struct paid p = pay(_i | NO_IMAGES);
    fixture_file_write(&r, "control", nothing, sizeof nothing, WITNESS_AT);
    rot(p.update);
    int rc = fixture_try_open(&r);
    if (_i & INSTANT) {
        uint64_t value;
        ck_assert_msg(rc == 0, "%s", r.err.message);
        rc = cell_read(r.db, cell_of(p.page, 2), &value, &r.err);
    }
    ck_assert_int_eq(rc, LLADD_LOG_LOST);
    ck_assert_uint_eq(r.err.page.v, p.page.v);
    fixture_crash(&r, &fault_kill);
    fixture_free(&r);
}
END_TEST

/* The log has a torn end, and no page is newer than it. So nothing is lost, and the end is cut off
 * as usual. */
START_TEST(a_log_that_ends_above_all_pages_has_lost_nothing)
{
    struct paid p = pay(_i);
    fixture_open(&r);
    struct lladd_txn *txn = fixture_begin(&r);
    lladd_lsn last = lladd_lsn_of(fixture_stats(&r).log_tail);
    ok(txn, cell_put(txn, cell_of(p.page, 2), 3));
    done(lladd_commit(txn));
    fixture_crash(&r, &fault_kill);
    size_t len;
    unsigned char *control = fixture_file(&r, "control", &len);
    ck_assert_uint_eq(len, WITNESS_AT + WITNESS_BYTES);
    ck_assert_uint_le(lladd_get64(control + WITNESS_AT + 8), last.v);
    free(control);
    fixture_open(&r);
    fixture_expect(&r, cell_of(p.page, 2), 3);
    fixture_close(&r);
    fixture_free(&r);
}
END_TEST

/* The control file of an older version is too short for a witness. Open makes it longer. If the
 * disk is full, open may return a resource error; the next open, with space, succeeds. */
START_TEST(a_control_file_without_room_for_a_witness)
{
    for (unsigned full = 0; full < 2; full++) {
        struct lladd_file *file;
        struct paid p = pay(_i);
        ck_assert_int_eq(r.base->ops->open(r.base, "control", 0, &file), 0);
        ck_assert_int_eq(r.base->ops->truncate(r.base, file, 4096 + 256), 0);
        ck_assert_int_eq(r.base->ops->close(r.base, file), 0);
        fixture_file_write(&r, "control", "", 0, 0);
        if (full)
            fault_device_capacity(r.fd, fault_device_bytes(r.fd));
        int rc = fixture_try_open(&r);
        ck_assert_msg(rc == 0 || (full && lladd_code_root(rc) == LLADD_ROOT_RESOURCE), "%s",
                      r.err.message);
        fault_device_capacity(r.fd, UINT64_MAX);
        if (rc == 0) {
            fixture_expect(&r, cell_of(p.page, 2), 2);
            fixture_close(&r);
        }
        fixture_open(&r);
        fixture_expect(&r, cell_of(p.page, 2), 2);
        size_t len;
        free(fixture_file(&r, "control", &len));
        ck_assert_uint_eq(len, WITNESS_AT + WITNESS_BYTES);
        fixture_close(&r);
        fixture_free(&r);
    }
}
END_TEST

/* A page that is rebuilt in a database that was closed cleanly is dirty, but nothing is logged. The
 * database must be marked "in use" before an eviction writes the page or logs an image of it.
 * Otherwise the next open would rely on the clean close. */
START_TEST(a_page_rebuilt_in_a_clean_database_is_written_in_use)
{
    enum { FLIPPED = 3000 };
    struct lladd_inspect_info info = {.struct_size = sizeof info};
    struct lladd_inspect *view;
    lladd_pageno page, other[OTHERS];
    size_t len;
    begin_case(_i);
    r.options.log_segment_min = r.options.log_segment_max = 1u
                                                            << 20; /* so that it keeps the base */
    r.options.cache_bytes = fixture_small_cache(r.kind);
    fixture_open(&r);
    fixture_pages(&r, &page, 1);
    fixture_pages(&r, other, OTHERS);
    fixture_set(&r, cell_of(page, 2), 5);
    fixture_close(&r);
    unsigned char *bytes = fixture_file(&r, "pages", &len);
    size_t at = page.v * 4096 + FLIPPED;
    unsigned char was = bytes[at];
    bytes[at] ^= 0x11;
    fixture_file_write(&r, "pages", bytes + at, 1, at);
    fixture_open(&r);
    fixture_expect(&r, cell_of(page, 2), 5);
    struct lladd_page *fixed[OTHERS];
    unsigned n = 0;
    for (unsigned char now = (unsigned char)~was; now != was;
         n++) { /* the pages stay fixed until the rebuilt page is evicted */
        ck_assert_uint_lt(n, OTHERS);
        ok_db(&r, lladd_page_fix(r.db, other[n], LLADD_LATCH_SHARED, &fixed[n], &r.err));
        free(bytes);
        bytes = fixture_file(&r, "pages", &len);
        now = bytes[at];
    }
    free(bytes);
    while (n > 0)
        lladd_page_unfix(r.db, fixed[--n], LLADD_LATCH_SHARED);
    fixture_crash(&r, &fault_kill);
    ok_db(&r, lladd_inspect_open(r.dir, &r.options, &view, &r.err));
    ok_db(&r, lladd_inspect_info_get(view, &info));
    ck_assert(!info.clean);
    lladd_inspect_close(view);
    fixture_open(&r);
    fixture_expect(&r, cell_of(page, 2), 5);
    fixture_free(&r);
}
END_TEST

/* A page is rebuilt in a database that was closed cleanly, and nothing else is changed. Close must
 * write the page, because later the log may no longer have the page's base. */
START_TEST(a_page_rebuilt_in_a_clean_database_is_written_at_close)
{
    lladd_pageno page;
    begin_case(_i);
    r.options.log_segment_min = r.options.log_segment_max = 1u
                                                            << 20; /* so that it keeps the base */
    fixture_open(&r);
    fixture_pages(&r, &page, 1);
    fixture_set(&r, cell_of(page, 2), 5);
    fixture_close(&r);
    damage(page);
    fixture_open(&r);
    fixture_expect(&r, cell_of(page, 2), 5);
    ck_assert_uint_eq(fixture_stats(&r).repairs, 1);
    fixture_reopen(&r);
    fixture_expect(&r, cell_of(page, 2), 5);
    ck_assert_uint_eq(fixture_stats(&r).repairs, 0);
    fixture_free(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("protection");
    TCase *t = tcase_create("torn pages");
    tcase_add_loop_test(t, a_rollback_without_images_is_protected_after_the_next_crash, 0, 4);
    tcase_add_loop_test(t, images_and_no_images_take_turns, 0, 4);
    tcase_add_loop_test(t, a_bulk_page_that_changes_before_its_sync, 0, 4);
    tcase_add_loop_test(t, a_rollback_after_a_barrier_without_a_bulk_write, 0, 4);
    suite_add_tcase(s, t);
    t = tcase_create("older log");
    tcase_add_loop_test(t, a_damaged_page_is_rebuilt_from_older_log, 0, 6);
    tcase_add_loop_test(t, a_page_of_an_earlier_use_is_no_base, 0, 4);
    tcase_add_loop_test(t, the_log_is_truncated_while_a_page_is_repaired, 0, 8);
    tcase_add_loop_test(t, a_checkpoint_without_atomic_pages_trusts_no_older_write, 0, 2);
    tcase_add_loop_test(t, a_freed_page_that_is_allocated_again_is_no_damage, 0, 16);
    suite_add_tcase(s, t);
    t = tcase_create("a log without its end");
    tcase_add_loop_test(t, a_page_that_is_newer_than_the_log_is_found_at_open, 0, 8);
    tcase_add_loop_test(t, a_page_that_is_newer_than_the_log_is_found_when_it_is_read, 0, 4);
    tcase_add_loop_test(t, a_log_that_ends_above_all_pages_has_lost_nothing, 0, 4);
    tcase_add_loop_test(t, a_control_file_without_room_for_a_witness, 0, 4);
    tcase_add_loop_test(t, a_page_rebuilt_in_a_clean_database_is_written_in_use, 0, 8);
    tcase_add_loop_test(t, a_page_rebuilt_in_a_clean_database_is_written_at_close, 0, 8);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
