/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inspection finds damage and names the right file, and goes on after the damage, except after
 * damage to `control`. What verify predicts comes true: if verify says that redo will rebuild a
 * page, redo rebuilds it.
 *
 * Uses the databases of made.c on the memory device. A byte may change unnoticed only where it
 * means nothing: in `lock`, in free pages and raw extents, in unused log, and in the copies of an
 * empty double-write area.
 */
#include "bench.h"

#include "buffer/buffer.h"
#include "log/log.h"
#include "util/crc32c.h"

#include <check.h>
#include <lladd/bytes.h>
#include <lladd/extension.h>
#include <lladd/records.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int look(struct lladd_device *dev, struct lladd_inspect **v)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    o.device = dev;
    return lladd_inspect_open(NULL, &o, v, &err);
}

static int ignore_record(void *ctx, const struct lladd_inspect_record *r)
{
    (void)ctx;
    (void)r;
    return 0;
}

/* Does with a view everything that the tools do. */
static void use_all(struct lladd_inspect *v, struct findings *f)
{
    struct lladd_inspect_info i = {.struct_size = sizeof i};
    struct bench_description d = {v, 0};
    struct lladd_error err = LLADD_ERROR_INIT;
    ck_assert_int_eq(lladd_inspect_info_get(v, &i), 0);
    ck_assert_int_eq(bench_verify(v, f), 0);
    int rc = lladd_inspect_log(v, lladd_lsn_of(0), bench_describe, &d, &err);
    ck_assert_int_eq(rc, rc ? err.code : 0);
    for (uint64_t n = 0; n < i.pages; n++) {
        struct lladd_inspect_page p;
        struct lladd_sink sink = {.ctx = &d.text, .write = bench_swallow};
        ck_assert_int_eq(lladd_inspect_page_read(v, lladd_page_of(n), &p, &err), 0);
        if (lladd_inspect_describe_page(v, &p, &sink))
            ck_assert_int_eq(p.code, 0);
    }
}

/* ---- flipped bits --------------------------------------------------------------------------- */

/* Places where a changed byte need not be noticed. */
struct quiet {
    uint64_t log_end;          /* offset of the end of the last record, in the first segment */
    const unsigned char *free; /* by page */
};

static bool may_pass(const char *file, uint64_t at, const struct quiet *q)
{
    if (strcmp(file, "lock") == 0)
        return true;
    if (strcmp(file, "pages") == 0)
        return q->free[at / 4096];
    if (strcmp(file, "dwb") == 0)
        return at >= 4096;
    if (strncmp(file, "log/", 4) == 0)
        /* In the first segment, everything after the end of the log may change. In segments that
         * were made in advance, everything but the header may change. */
        return strcmp(file, "log/0000000000000008.seg") == 0 ? at >= q->log_end : at >= 64;
    return false;
}

static void check_flip(struct lladd_device *dev, const char *file, uint64_t at, unsigned char mask,
                       const struct quiet *q, uint64_t *found)
{
    struct lladd_inspect *v;
    struct findings f = {.n = 0};
    bench_flip(dev, file, at, mask);
    int rc = look(dev, &v);
    bool control = strcmp(file, "control") == 0;
    ck_assert_msg(rc == 0 || control, "%s, byte %llu: %d", file, (unsigned long long)at, rc);
    if (rc == 0) {
        use_all(v, &f);
        lladd_inspect_close(v);
        bool here = bench_find(&f, LLADD_FINDING_DAMAGE, file) != SIZE_MAX ||
                    bench_find(&f, LLADD_FINDING_REPAIR, file) != SIZE_MAX;
        ck_assert_msg(here || may_pass(file, at, q), "%s, byte %llu, mask %02x: not found", file,
                      (unsigned long long)at, mask);
        *found += here;
    }
    bench_flip(dev, file, at, mask);
}

/* Flips bits in all files of a database that was closed. */
START_TEST(flips)
{
    struct made m;
    struct lladd_device *dev = bench_make(MADE_CLEAN, &m);
    struct image im = bench_copy(dev);
    struct lladd_inspect *v = bench_look(dev, false);
    struct lladd_inspect_info i = {.struct_size = sizeof i};
    unsigned char free_pages[64] = {0};
    struct quiet q = {0, free_pages};
    char name[32];
    uint64_t found = 0, tried = 0;
    ck_assert_int_eq(lladd_inspect_info_get(v, &i), 0);
    ck_assert(lladd_inspect_place(v, i.log_end, name, &q.log_end));
    ck_assert_str_eq(name, "log/0000000000000008.seg");
    for (uint64_t n = 0; n < i.pages; n++) {
        struct lladd_inspect_page p;
        ck_assert_int_eq(lladd_inspect_page_read(v, lladd_page_of(n), &p, NULL), 0);
        free_pages[n] =
            p.use == LLADD_USE_NONE || p.use == LLADD_USE_FREED || p.use == LLADD_USE_RAW;
    }
    lladd_inspect_close(v);
    /* With each _i the test flips bits in other bytes: in one of 49 bytes of `control` and the
     * first segment, and in one of 343 bytes of the other files. */
    for (size_t k = 0; k < im.n; k++) {
        bool dense = strcmp(im.files[k].name, "control") == 0 ||
                     strcmp(im.files[k].name, "log/0000000000000008.seg") == 0;
        uint64_t step = dense ? 49 : 343;
        for (uint64_t at = (uint64_t)_i * (step / 7); at < im.files[k].len; at += step) {
            check_flip(dev, im.files[k].name, at, (unsigned char)(1u << at % 8), &q, &found);
            tried++;
        }
    }
    ck_assert_uint_gt(found, tried / 8);
    bench_free(&im);
    lladd_device_close(dev);
}
END_TEST

/* After a crash, a changed byte of `pages` or `dwb` is not reported as damage of another file. */
START_TEST(crashed_flips)
{
    struct made m;
    struct lladd_device *dev = bench_make(MADE_CRASHED, &m);
    struct image im = bench_copy(dev);
    for (size_t k = 0; k < im.n; k++) {
        for (uint64_t at = (uint64_t)_i * 61; at < im.files[k].len; at += 427) {
            struct lladd_inspect *v;
            struct findings f = {.n = 0};
            const char *file = im.files[k].name;
            bench_flip(dev, file, at, (unsigned char)(1u << at % 8));
            if (look(dev, &v) == 0) {
                use_all(v, &f);
                lladd_inspect_close(v);
                for (size_t n = 0; n < f.n && n < FINDINGS_MAX; n++)
                    ck_assert_msg(f.at[n].kind == LLADD_FINDING_NOTE ||
                                      strcmp(f.at[n].file, file) == 0 ||
                                      strcmp(file, "control") == 0 || strncmp(file, "log", 3) == 0,
                                  "%s was changed, but %s is blamed: %s", file, f.at[n].file,
                                  f.at[n].message);
            }
            bench_flip(dev, file, at, (unsigned char)(1u << at % 8));
        }
    }
    bench_free(&im);
    lladd_device_close(dev);
}
END_TEST

/* Each file is truncated at eight places. */
START_TEST(truncated)
{
    struct made m;
    struct lladd_device *dev = bench_make(MADE_CLEAN, &m);
    struct image im = bench_copy(dev);
    for (size_t k = 0; k < im.n; k++) {
        if (strcmp(im.files[k].name, "lock") == 0)
            continue;
        for (unsigned part = 0; part < 8; part++) {
            struct lladd_device *cut = bench_device(&im);
            struct lladd_inspect *v;
            struct findings f = {.n = 0};
            uint64_t size = im.files[k].len * part / 8 + part;
            bench_truncate(cut, im.files[k].name, size);
            if (look(cut, &v) == 0) {
                use_all(v, &f);
                lladd_inspect_close(v);
                bool quiet = strcmp(im.files[k].name, "dwb") == 0 && size >= 4096;
                ck_assert_msg(f.count.damage + f.count.repair > 0 || quiet, "%s cut to %llu",
                              im.files[k].name, (unsigned long long)size);
                ck_assert(quiet ||
                          bench_find(&f, LLADD_FINDING_DAMAGE, im.files[k].name) != SIZE_MAX ||
                          bench_find(&f, LLADD_FINDING_REPAIR, im.files[k].name) != SIZE_MAX);
            } else {
                ck_assert_str_eq(im.files[k].name, "control");
            }
            lladd_device_close(cut);
        }
    }
    bench_free(&im);
    lladd_device_close(dev);
}
END_TEST

START_TEST(missing)
{
    struct made m;
    struct lladd_device *dev = bench_make(MADE_CLEAN, &m);
    struct image im = bench_copy(dev);
    static const char *const names[] = {"pages", "dwb", "log/0000000000000008.seg"};
    for (size_t k = 0; k < 3; k++) {
        struct lladd_device *cut = bench_device(&im);
        struct lladd_inspect *v;
        struct findings f;
        ck_assert_int_eq(cut->ops->unlink(cut, names[k]), 0);
        ck_assert_int_eq(look(cut, &v), 0);
        ck_assert_int_eq(bench_verify(v, &f), 0);
        ck_assert_uint_gt(f.count.damage, 0);
        ck_assert_int_eq(f.at[0].code, LLADD_MISSING_FILE);
        bench_no_page_accused(&f);
        lladd_inspect_close(v);
        lladd_device_close(cut);
    }
    bench_free(&im);
    lladd_device_close(dev);
}
END_TEST

/* ---- predictions of verify ------------------------------------------------------------------ */

static uint32_t salt_of(struct lladd_device *dev)
{
    struct lladd_inspect *v = bench_look(dev, false);
    struct lladd_inspect_info i = {.struct_size = sizeof i};
    ck_assert_int_eq(lladd_inspect_info_get(v, &i), 0);
    lladd_inspect_close(v);
    return ll_crc32c(0, i.uuid, 16);
}

/* Writes a page with a valid checksum to the file. */
static void put_page(struct lladd_device *dev, uint64_t n, unsigned char bytes[4096])
{
    lladd_put32(bytes, ll_page_crc(salt_of(dev), lladd_page_of(n), bytes, 4096));
    bench_write(dev, "pages", n * 4096, bytes, 4096);
}

static bool is_about(const struct findings *f, uint64_t page, enum lladd_finding_kind kind,
                     const char *words)
{
    for (size_t i = 0; i < f->n; i++)
        if (f->at[i].page == page && f->at[i].kind == kind && strstr(f->at[i].message, words))
            return true;
    return false;
}

static struct lladd_db *made_again(struct lladd_device *dev)
{
    struct lladd_options o = made_options(dev);
    struct lladd_db *db;
    ck_assert_int_eq(lladd_open(NULL, &o, &db, NULL), 0);
    lladd_options_release(&o);
    return db;
}

/* Checks that there is no damage. Then restores the old version of the page, and returns the
 * findings after that. */
static struct findings lose_write(struct lladd_device *dev, lladd_pageno page,
                                  const unsigned char old[4096])
{
    struct findings f = bench_verify_files(dev);
    ck_assert_uint_eq(f.n, 0);
    bench_write(dev, "pages", page.v * 4096, old, 4096);
    return bench_verify_files(dev);
}

/* A torn page has its base image in the log. Verify says that redo will rebuild it, and redo
 * does. */
START_TEST(redo_repairs)
{
    struct made m;
    struct lladd_device *dev = bench_make(MADE_CLEAN, &m);
    struct lladd_db *db = made_again(dev);
    bench_change(db, m.bytes, "new");
    ck_assert_int_eq(lladd_checkpoint(db, NULL), 0); /* logs the image and writes the page */
    lladd_db_kill(db);
    static const unsigned char junk[512] = {1, 2, 3};
    bench_write(dev, "pages", m.bytes.v * 4096 + 1024, junk, sizeof junk);
    struct findings f = bench_verify_files(dev);
    ck_assert_uint_eq(f.count.damage, 0);
    ck_assert_uint_eq(f.count.repair, 1);
    ck_assert(is_about(&f, m.bytes.v, LLADD_FINDING_REPAIR, "redo will rebuild it"));
    db = made_again(dev);
    char text[4];
    ck_assert_int_eq(lladd_bytes_get(db, m.bytes, 300, text, 3, NULL), 0);
    ck_assert_mem_eq(text, "new", 3);
    ck_assert_int_eq(lladd_close(db), 0);
    f = bench_verify_files(dev);
    ck_assert_uint_eq(f.n, 0);
    lladd_device_close(dev);
}
END_TEST

/* A page is torn after a clean close. The first read rebuilds it. */
START_TEST(reading_repairs)
{
    struct made m;
    struct lladd_device *dev = bench_make(MADE_CLEAN, &m);
    bench_flip(dev, "pages", m.slotted.v * 4096 + 4000, 0x10);
    struct findings f = bench_verify_files(dev);
    ck_assert_uint_eq(f.count.damage, 0);
    ck_assert(
        is_about(&f, m.slotted.v, LLADD_FINDING_REPAIR, "it will be rebuilt when it is read"));
    struct lladd_db *db = made_again(dev);
    struct lladd_page *page;
    ck_assert_int_eq(lladd_page_fix(db, m.slotted, LLADD_LATCH_SHARED, &page, NULL), 0);
    lladd_page_unfix(db, page, LLADD_LATCH_SHARED);
    ck_assert_int_eq(lladd_close(db), 0);
    lladd_device_close(dev);
}
END_TEST

/* Pages of bulk extents have no base image. Verify reports that their damage cannot be repaired,
 * and this is true. */
START_TEST(nothing_repairs)
{
    struct made m;
    struct lladd_device *dev = bench_make(MADE_CLEAN, &m);
    bench_flip(dev, "pages", m.bulk.v * 4096 + 100, 1);
    struct findings f = bench_verify_files(dev);
    ck_assert_uint_eq(f.count.damage, 1);
    ck_assert(is_about(&f, m.bulk.v, LLADD_FINDING_DAMAGE, "no base to rebuild it from"));
    struct lladd_db *db = made_again(dev);
    struct lladd_page *page;
    ck_assert_int_eq(lladd_page_fix(db, m.bulk, LLADD_LATCH_SHARED, &page, NULL),
                     LLADD_CORRUPT_PAGE);
    ck_assert_int_eq(lladd_close(db), 0);
    lladd_device_close(dev);
}
END_TEST

/* A write was lost: the page is valid, but older than the log. With _i 1 there was a crash, and
 * redo repairs the page. */
START_TEST(lost_write)
{
    struct made m;
    struct lladd_device *dev = bench_make(MADE_CLEAN, &m);
    unsigned char old[4096];
    bench_read(dev, "pages", m.bytes.v * 4096, old, sizeof old);
    struct lladd_db *db = made_again(dev);
    bench_change(db, m.bytes, "new");
    if (_i)
        lladd_db_kill(db);
    else
        ck_assert_int_eq(lladd_close(db), 0);
    struct findings f = lose_write(dev, m.bytes, old);
    ck_assert_uint_eq(f.count.damage, _i ? 0 : 1);
    ck_assert(_i || is_about(&f, m.bytes.v, LLADD_FINDING_DAMAGE, "a write was lost"));
    lladd_device_close(dev);
}
END_TEST

/* A note is logged after the checkpoint, because a checkpoint without new log does nothing. */
static void checkpoint_and_note(struct lladd_db *db)
{
    struct lladd_txn *txn;
    ck_assert_int_eq(lladd_checkpoint(db, NULL), 0);
    ck_assert_int_eq(lladd_begin(db, NULL, &txn, NULL), 0);
    ck_assert_int_eq(lladd_log_note(txn, "bench", (struct lladd_span){"x", 1}, NULL), 0);
    ck_assert_int_eq(lladd_commit(txn), 0);
}

enum { OLD_BASE, NEW_BASE, ATOMIC, LOST_CASES };

/* Redo begins after a checkpoint, so it does not repair a page that the checkpoint recorded as
 * written. The log still has the record that proves the loss. If the checkpoint has logged an image
 * of the page, redo begins at the image, and the write is lost after a second checkpoint only. The
 * checkpoint logs no image of a page that has a base since the checkpoint before, and none with
 * LLADD_OPT_ATOMIC_PAGES. */
START_TEST(lost_write_before_a_checkpoint_and_a_crash)
{
    struct made m;
    struct lladd_device *dev = bench_make(MADE_CLEAN, &m);
    struct lladd_options o = made_options(dev);
    struct lladd_db *db;
    unsigned char old[4096], now[4096];
    o.flags |= _i == ATOMIC ? LLADD_OPT_ATOMIC_PAGES : 0;
    for (unsigned checkpoints = 1; checkpoints <= 2; checkpoints++) {
        bool lost = checkpoints == 2 || _i != OLD_BASE;
        ck_assert_int_eq(lladd_open(NULL, &o, &db, NULL), 0);
        if (_i == NEW_BASE) {
            bench_change(db, m.bytes, "base");
            checkpoint_and_note(db);
        }
        bench_read(dev, "pages", m.bytes.v * 4096, old, sizeof old);
        bench_change(db, m.bytes, checkpoints == 1 ? "one" : "two");
        for (unsigned i = 0; i < checkpoints; i++)
            checkpoint_and_note(db);
        bench_read(dev, "pages", m.bytes.v * 4096, now, sizeof now);
        lladd_db_kill(db);
        struct findings f = lose_write(dev, m.bytes, old);
        ck_assert_uint_eq(f.count.damage, lost);
        ck_assert(!lost || is_about(&f, m.bytes.v, LLADD_FINDING_DAMAGE, "a write was lost"));
        ck_assert_int_eq(lladd_open(NULL, &o, &db, NULL), 0); /* the open does not notice */
        ck_assert_int_eq(lladd_close(db), 0);
        bench_read(dev, "pages", m.bytes.v * 4096, old, sizeof old);
        ck_assert_int_eq(memcmp(old + 64, now + 64, sizeof now - 64) != 0, lost);
        bench_write(dev, "pages", m.bytes.v * 4096, now, sizeof now);
    }
    lladd_options_release(&o);
    lladd_device_close(dev);
}
END_TEST

/* If the log has no image of a page, redo needs the page as it was at the first record after the
 * checkpoint. If the page is older, recovery rebuilds it from the log before the checkpoint. */
START_TEST(lost_write_before_redo)
{
    struct made m;
    struct lladd_device *dev = bench_make(MADE_CLEAN, &m);
    unsigned char old[4096];
    bench_read(dev, "pages", m.bytes.v * 4096, old, sizeof old);
    struct lladd_options o = made_options(dev);
    struct lladd_db *db;
    o.flags |= LLADD_OPT_ATOMIC_PAGES;
    ck_assert_int_eq(lladd_open(NULL, &o, &db, NULL), 0);
    for (int i = 0; i < 2; i++) {
        bench_change(db, m.bytes, i ? "two" : "one");
        if (i == 0)
            ck_assert_int_eq(lladd_checkpoint(db, NULL), 0);
    }
    lladd_db_kill(db);
    struct findings f = lose_write(dev, m.bytes, old);
    ck_assert_uint_eq(f.count.damage, 0);
    ck_assert(is_about(&f, m.bytes.v, LLADD_FINDING_REPAIR, "redo will not find it"));
    ck_assert_int_eq(lladd_open(NULL, &o, &db, NULL), 0);
    ck_assert_int_eq(lladd_close(db), 0);
    ck_assert_uint_eq(bench_verify_files(dev).n, 0);
    lladd_options_release(&o);
    lladd_device_close(dev);
}
END_TEST

/* Damage of a database that is in use is reported once. */
START_TEST(damaged_in_use)
{
    struct lladd_device *dev;
    struct made m;
    struct lladd_db *db;
    ck_assert_int_eq(lladd_device_memory(&dev), 0);
    ck_assert_int_eq(made_open(NULL, dev, MADE_CRASHED, &m, &db, NULL), 0);
    bench_flip(dev, "pages", m.bulk.v * 4096 + 100, 1);
    struct findings f = bench_verify_files(dev);
    ck_assert_uint_eq(f.n, 1);
    ck_assert_uint_eq(f.count.damage, 1);
    ck_assert(is_about(&f, m.bulk.v, LLADD_FINDING_DAMAGE, "no base"));
    bench_flip(dev, "pages", m.bulk.v * 4096 + 100, 1);
    f = bench_verify_files(dev);
    ck_assert_uint_eq(f.n, 0);
    lladd_db_kill(db);
    lladd_device_close(dev);
}
END_TEST

/* Pages with a right checksum, but with a wrong number, LSN, base LSN, type or contents. */
START_TEST(pages_that_contradict_the_log_or_their_type)
{
    struct made m;
    struct lladd_device *dev = bench_make(MADE_CLEAN, &m);
    unsigned char good[4096], bad[4096];
    struct findings f;
    bench_read(dev, "pages", m.slotted.v * 4096, good, sizeof good);

    bench_write(dev, "pages", m.bulk.v * 4096, good, sizeof good);
    f = bench_verify_files(dev);
    ck_assert(is_about(&f, m.bulk.v, LLADD_FINDING_DAMAGE, "holds page 3"));

    memcpy(bad, good, sizeof bad);
    lladd_put64(bad + 8, 1u << 30); /* page LSN */
    put_page(dev, m.slotted.v, bad);
    f = bench_verify_files(dev);
    ck_assert(is_about(&f, m.slotted.v, LLADD_FINDING_DAMAGE, "but the log ends at"));

    memcpy(bad, good, sizeof bad);
    lladd_put64(bad + 16, lladd_get64(bad + 8) + 8); /* base LSN */
    put_page(dev, m.slotted.v, bad);
    f = bench_verify_files(dev);
    ck_assert(is_about(&f, m.slotted.v, LLADD_FINDING_DAMAGE, "above its page LSN"));

    memcpy(bad, good, sizeof bad);
    lladd_put64(bad + 8, lladd_get64(bad + 8) + 8); /* no record begins there */
    put_page(dev, m.slotted.v, bad);
    f = bench_verify_files(dev);
    ck_assert(is_about(&f, m.slotted.v, LLADD_FINDING_DAMAGE, "the log has no record about it"));

    memcpy(bad, good, sizeof bad);
    lladd_put16(bad + 4, 999);
    put_page(dev, m.slotted.v, bad);
    f = bench_verify_files(dev);
    ck_assert(is_about(&f, m.slotted.v, LLADD_FINDING_DAMAGE, "in no catalogue"));

    memcpy(bad, good, sizeof bad);
    lladd_put16(bad + LLADD_PAGE_HEADER, 5000); /* slots */
    put_page(dev, m.slotted.v, bad);
    f = bench_verify_files(dev);
    ck_assert(is_about(&f, m.slotted.v, LLADD_FINDING_DAMAGE, "\"lladd.slotted\" can have"));

    memset(bad, 0, sizeof bad);
    bench_write(dev, "pages", 0, bad, sizeof bad);
    f = bench_verify_files(dev);
    ck_assert(is_about(&f, 0, LLADD_FINDING_DAMAGE, ""));
    lladd_device_close(dev);
}
END_TEST

/* Only the application's check can detect this damage. It is reported if the application's plug-in
 * is loaded. */
START_TEST(damage_that_only_a_plug_in_detects)
{
    struct made m;
    struct lladd_device *dev = bench_make(MADE_LONG, &m); /* the tally has changed the page last */
    unsigned char bad[4096];
    bench_read(dev, "pages", m.bytes.v * 4096, bad, sizeof bad);
    bad[LLADD_PAGE_HEADER + 6] = 1;
    put_page(dev, m.bytes.v, bad);
    for (int known = 0; known < 2; known++) {
        struct lladd_inspect *v = bench_look(dev, known);
        struct findings f;
        ck_assert_int_eq(bench_verify(v, &f), 0);
        ck_assert_uint_eq(f.count.damage, known ? 1 : 0);
        ck_assert(!known || is_about(&f, m.bytes.v, LLADD_FINDING_DAMAGE, "\"test.tally\""));
        lladd_inspect_close(v);
    }
    lladd_device_close(dev);
}
END_TEST

/* An old control block together with a newer log. */
START_TEST(old_control_block_with_a_newer_log)
{
    struct made m;
    struct lladd_device *dev = bench_make(MADE_CLEAN, &m);
    struct image im = bench_copy(dev);
    struct lladd_db *db = made_again(dev);
    bench_change(db, m.bytes, "new");
    ck_assert_int_eq(lladd_close(db), 0);
    struct image_file *control = bench_file(&im, "control");
    bench_write(dev, "control", 0, control->bytes, control->len);
    struct findings f = bench_verify_files(dev);
    ck_assert_uint_gt(f.count.damage, 0);
    ck_assert_ptr_nonnull(strstr(f.at[0].message, "is older than the log"));
    bench_free(&im);
    lladd_device_close(dev);
}
END_TEST

/* For damage below a watermark, verify reports the segment, the byte and the LSN, and then checks
 * the rest. */
START_TEST(verify_goes_on_after_damage)
{
    struct made m;
    struct lladd_device *dev = bench_make(MADE_CLEAN, &m);
    struct findings whole = bench_verify_files(dev);
    char name[32];
    uint64_t at;
    struct lladd_inspect *v = bench_look(dev, false);
    ck_assert(lladd_inspect_place(v, m.aborted, name, &at));
    lladd_inspect_close(v);
    bench_flip(dev, name, at + 24, 4);
    v = bench_look(dev, false);
    struct findings f;
    struct lladd_error err = LLADD_ERROR_INIT;
    ck_assert_int_eq(bench_verify(v, &f), 0);
    ck_assert_uint_eq(f.count.damage, 1);
    ck_assert_int_eq(f.at[0].code, LLADD_CORRUPT_LOG);
    ck_assert_str_eq(f.at[0].file, name);
    ck_assert_uint_eq(f.at[0].offset, at);
    ck_assert_uint_eq(f.at[0].lsn, m.aborted.v);
    ck_assert_uint_eq(f.count.records, whole.count.records - 1);
    /* A tool that lists records stops at the damage. */
    ck_assert_int_eq(lladd_inspect_log(v, lladd_lsn_of(0), ignore_record, NULL, &err),
                     LLADD_CORRUPT_LOG);
    ck_assert_uint_eq(err.lsn.v, m.aborted.v);
    lladd_inspect_close(v);
    lladd_device_close(dev);
}
END_TEST

/* ---- forged: records with valid checksums --------------------------------------------------- */

/* Changes a record of one database and recomputes its checksum. */
static void forge(struct lladd_device *dev, struct lladd_inspect *v, lladd_lsn lsn, size_t at,
                  const void *bytes, size_t len)
{
    struct lladd_inspect_info i = {.struct_size = sizeof i};
    unsigned char rec[2048];
    char name[32];
    uint64_t off;
    ck_assert_int_eq(lladd_inspect_info_get(v, &i), 0);
    ck_assert(lladd_inspect_place(v, lsn, name, &off));
    bench_read(dev, name, off, rec, sizeof rec);
    uint32_t size = lladd_get32(rec + 4) & 0xffffff;
    ck_assert_uint_le(size, sizeof rec);
    memcpy(rec + at, bytes, len);
    lladd_put32(rec, ll_crc32c(ll_record_salt(i.uuid, 1), rec + 4, size - 4));
    bench_write(dev, name, off, rec, size);
}

struct nth {
    const char *kind;
    unsigned n;
    lladd_lsn lsn;
};

static int find_nth(void *ctx, const struct lladd_inspect_record *r)
{
    struct nth *w = ctx;
    if (strcmp(lladd_log_kind_name(r->entry.kind), w->kind) != 0 || w->n-- != 0)
        return 0;
    w->lsn = r->entry.lsn;
    return 1;
}

/* Changes of records of MADE_CLEAN. The offsets are those of the narrow form in log_format.h. */
static const struct {
    const char *kind;
    unsigned n;
    size_t at, len;
    unsigned char bytes[4];
    const char *words;
} forgeries[] = {
    {"update", 5, 20, 4, {1, 0, 0, 0}, "says that the transaction's previous record is at LSN"},
    {"update", 5, 28, 4, {1, 0, 0, 0}, "a record about page"},
    {"update", 5, 18, 2, {0xff, 0x7f}, "which is in no catalogue"},
    {"update", 5, 18, 2, {1, 0}, "names page type \"lladd.root\""},
    {"redo-barrier", 0, 38, 2, {3, 0}, "invalid contents of a record of kind redo-barrier"},
    {"seal", 0, 38, 2, {3, 0}, "invalid contents of a record of kind seal"},
    {"catalogue", 6, 40, 4, {1, 0, 0, 0}, "is given twice"},
    {"catalogue", 6, 48, 1, {77}, "invalid catalogue record"},
    {"checkpoint-data", 1, 40, 1, {99}, "invalid contents of a record of kind checkpoint-data"},
    {"checkpoint-data", 1, 41, 4, {0xff, 0xff, 0xff, 0}, "invalid contents"},
    {"checkpoint-end", 0, 38, 2, {1, 0}, "invalid contents of a record of kind checkpoint-end"},
};

/* Each changed record is reported as damage, with its LSN and the reason. */
START_TEST(forged_records)
{
    struct made m;
    struct lladd_device *dev = bench_make(MADE_CLEAN, &m);
    struct lladd_inspect *v = bench_look(dev, false);
    struct nth w = {.kind = forgeries[_i].kind, .n = forgeries[_i].n};
    ck_assert_int_eq(lladd_inspect_log(v, lladd_lsn_of(0), find_nth, &w, NULL), 1);
    forge(dev, v, w.lsn, forgeries[_i].at, forgeries[_i].bytes, forgeries[_i].len);
    lladd_inspect_close(v);
    v = bench_look(dev, false);
    struct findings f;
    use_all(v, &f);
    lladd_inspect_close(v);
    bool found = false;
    for (size_t i = 0; i < f.n && i < FINDINGS_MAX; i++)
        found = found || (f.at[i].lsn == w.lsn.v && strstr(f.at[i].message, forgeries[_i].words) &&
                          f.at[i].kind == LLADD_FINDING_DAMAGE);
    ck_assert_msg(found, "\"%s\": %s", forgeries[_i].words, f.n ? f.at[0].message : "no finding");
    lladd_device_close(dev);
}
END_TEST

/* ---- the double-write area ------------------------------------------------------------------ */

/* The offsets are those of docs/disk-format.md. */
static void put_area(struct lladd_device *dev, uint64_t page, const unsigned char copy[4096])
{
    unsigned char head[4096] = "LLADDdwb";
    lladd_put32(head + 8, 3);
    lladd_put32(head + 12, salt_of(dev));
    lladd_put32(head + 16, 4096);
    lladd_put32(head + 20, 1);
    lladd_put64(head + 24, page);
    lladd_put32(head + 32, lladd_get32(copy));
    lladd_put32(head + 4092, ll_crc32c(0, head, 4092));
    for (unsigned i = 0; i < 2; i++)
        bench_write(dev, "dwb", i * 4096, head, sizeof head);
    bench_write(dev, "dwb", 8192, copy, 4096);
}

/* Only the double-write area can restore a torn page. Verify says so, and recovery does so. */
START_TEST(area_repairs)
{
    struct made m;
    struct lladd_device *dev = bench_make(MADE_CRASHED, &m);
    unsigned char good[4096], now[4096];
    bench_read(dev, "pages", m.bulk.v * 4096, good, sizeof good);
    bench_flip(dev, "pages", m.bulk.v * 4096 + 3000, 1);
    struct findings f = bench_verify_files(dev);
    ck_assert(is_about(&f, m.bulk.v, LLADD_FINDING_DAMAGE, "no base"));
    put_area(dev, m.bulk.v, good);
    f = bench_verify_files(dev);
    ck_assert_uint_eq(f.count.damage, 0);
    ck_assert(
        is_about(&f, m.bulk.v, LLADD_FINDING_REPAIR, "the double-write area has a good copy"));
    bench_flip(dev, "dwb", 9000, 1); /* the copy is damaged, too */
    f = bench_verify_files(dev);
    ck_assert_uint_eq(f.count.damage, 1);
    bench_flip(dev, "dwb", 9000, 1);
    struct lladd_db *db = made_again(dev);
    ck_assert_int_eq(lladd_close(db), 0);
    bench_read(dev, "pages", m.bulk.v * 4096, now, sizeof now);
    ck_assert_mem_eq(now, good, sizeof now);
    lladd_device_close(dev);
}
END_TEST

static enum lladd_page_use use_of(struct lladd_device *dev, lladd_pageno page, bool *known)
{
    struct lladd_inspect *v = bench_look(dev, false);
    struct lladd_inspect_page p;
    ck_assert_int_eq(lladd_inspect_page_read(v, page, &p, NULL), 0);
    *known = p.use_known;
    lladd_inspect_close(v);
    return p.use;
}

/* The double-write area also restores an allocation bitmap. */
START_TEST(area_restores_the_bitmap)
{
    struct made m;
    struct lladd_device *dev = bench_make(MADE_CLEAN, &m);
    unsigned char good[4096];
    bool known;
    struct lladd_db *db = made_again(dev);
    bench_change(db, m.bytes, "new");
    ck_assert_int_eq(lladd_checkpoint(db, NULL), 0); /* redo begins after the bitmap's image */
    lladd_db_kill(db);
    enum lladd_page_use use = use_of(dev, m.bulk, &known);
    bench_read(dev, "pages", 4096, good, sizeof good);
    bench_flip(dev, "pages", 4096 + 3000, 1);
    (void)use_of(dev, m.bulk, &known);
    ck_assert(!known);
    put_area(dev, 1, good);
    ck_assert_int_eq(use_of(dev, m.bulk, &known), use);
    ck_assert(known);
    lladd_device_close(dev);
}
END_TEST

/* A good double-write area gives no finding. An area with one or two torn headers gives a note. The
 * area of another database gives a finding of damage. */
START_TEST(findings_about_the_area)
{
    struct made m;
    struct lladd_device *dev = bench_make(MADE_CRASHED, &m);
    unsigned char page[4096], head[4096];
    bench_read(dev, "pages", m.bulk.v * 4096, page, sizeof page);
    put_area(dev, m.bulk.v, page);
    bench_read(dev, "dwb", 0, head, sizeof head);
    struct findings f = bench_verify_files(dev);
    ck_assert_uint_eq(f.n, 0);
    for (unsigned i = 0; i < 2; i++) {
        bench_flip(dev, "dwb", i * 4096 + 100, 1);
        f = bench_verify_files(dev);
        ck_assert_uint_eq(f.count.notes, 1); /* as after a crash while the area was being written */
        ck_assert_str_eq(f.at[0].file, "dwb");
    }
    lladd_put32(head + 12, 0);
    lladd_put32(head + 4092, ll_crc32c(0, head, 4092));
    bench_write(dev, "dwb", 0, head, sizeof head);
    f = bench_verify_files(dev);
    ck_assert_uint_eq(f.count.damage, 1);
    ck_assert_int_eq(f.at[0].code, LLADD_FOREIGN_FILE);
    lladd_device_close(dev);
}
END_TEST

/* Pages that an unfinished transaction writes in bulk may have any contents. */
START_TEST(pages_of_an_unfinished_bulk_write)
{
    struct made m;
    struct lladd_device *dev = bench_make(MADE_CLEAN, &m);
    struct lladd_options o = made_options(dev);
    struct lladd_db *db;
    struct lladd_txn *txn, *other;
    lladd_pageno extent;
    static unsigned char junk[2 * 4096];
    memset(junk, 0x77, sizeof junk);
    ck_assert_int_eq(lladd_open(NULL, &o, &db, NULL), 0);
    lladd_options_release(&o);
    ck_assert_int_eq(lladd_begin(db, NULL, &txn, NULL), 0);
    ck_assert_int_eq(lladd_extent_alloc(txn, 2, LLADD_EXTENT_BULK, &extent), 0);
    ck_assert_int_eq(lladd_begin(db, NULL, &other, NULL), 0);
    ck_assert_int_eq(lladd_bytes_set(other, m.bytes, 400, "x", 1), 0);
    ck_assert_int_eq(lladd_commit(other), 0);
    lladd_db_kill(db);
    bench_write(dev, "pages", extent.v * 4096, junk, sizeof junk);
    struct findings f = bench_verify_files(dev);
    ck_assert_uint_eq(f.count.damage + f.count.repair, 0);
    ck_assert(is_about(&f, extent.v, LLADD_FINDING_NOTE, "it is being written in bulk"));
    lladd_device_close(dev);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("damage");
    TCase *t = tcase_create("bits");
    tcase_add_loop_test(t, flips, 0, 7);
    tcase_add_loop_test(t, crashed_flips, 0, 7);
    tcase_add_test(t, truncated);
    tcase_add_test(t, missing);
    suite_add_tcase(s, t);
    t = tcase_create("fate");
    tcase_add_test(t, redo_repairs);
    tcase_add_test(t, reading_repairs);
    tcase_add_test(t, nothing_repairs);
    tcase_add_loop_test(t, lost_write, 0, 2);
    tcase_add_loop_test(t, lost_write_before_a_checkpoint_and_a_crash, 0, LOST_CASES);
    tcase_add_test(t, lost_write_before_redo);
    tcase_add_test(t, damaged_in_use);
    tcase_add_test(t, pages_that_contradict_the_log_or_their_type);
    tcase_add_test(t, damage_that_only_a_plug_in_detects);
    tcase_add_test(t, old_control_block_with_a_newer_log);
    tcase_add_test(t, verify_goes_on_after_damage);
    suite_add_tcase(s, t);
    t = tcase_create("forged");
    tcase_add_loop_test(t, forged_records, 0, sizeof forgeries / sizeof forgeries[0]);
    tcase_add_test(t, area_repairs);
    tcase_add_test(t, area_restores_the_bitmap);
    tcase_add_test(t, findings_about_the_area);
    tcase_add_test(t, pages_of_an_unfinished_bulk_write);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
