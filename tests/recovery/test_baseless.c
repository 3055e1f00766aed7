/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pages that recovery cannot rebuild, or can rebuild only in part (BUF-5). The library never writes
 * such a page as if it were whole, and undoes nothing on it. So each open returns the same error as
 * the previous open. When the reason of the error is removed, the page is rebuilt from the same
 * log.
 */
#include "db_fixture.h"

#include <lladd/bytes.h>
#include <lladd/log_read.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct fixture r;

enum { RESERVED = 1, INSTANT = 2, NO_MEMORY = 4, CASES = 8 }; /* bits of _i */
enum { MANY = 24 };
static lladd_pageno scratch, page[MANY];

static void begin_case(int i)
{
    fixture_init(&r, i & RESERVED ? FIXTURE_RESERVED : 0);
    r.options.recovery = i & INSTANT ? LLADD_RECOVER_INSTANT : LLADD_RECOVER_FULL;
    r.options.recovery_bytes = i & NO_MEMORY ? 64 : 0; /* too little for any table of recovery */
    r.options.log_segment_min = r.options.log_segment_max = 1u << 20;
}

static void damage(lladd_pageno n)
{
    unsigned char bytes[64];
    memset(bytes, 0xee, sizeof bytes);
    fixture_file_write(&r, "pages", bytes, sizeof bytes, n.v * 4096 + 1024);
}

static void damage_all(void)
{
    for (unsigned k = 0; k < MANY; k++)
        damage(page[k]);
}

struct place {
    lladd_lsn lsn;
    char name[64];
    uint64_t at; /* the offset of the LSN; 0: not found */
    unsigned char byte; /* the byte that is 8 bytes before it */
};

/* Looks for the record at p->lsn in a log file. */
static int look_into(void *ctx, const char *name)
{
    enum { HEAD = 64 };
    struct place *p = ctx;
    char path[64];
    size_t len = 0, at = HEAD;
    (void)snprintf(path, sizeof path, "log/%s", name);
    unsigned char *bytes = p->at ? NULL : fixture_file(&r, path, &len);
    while (bytes && at + 8 <= len && lladd_get64(bytes + at) != p->lsn.v)
        at += 8;
    if (bytes && at + 8 <= len) {
        p->at = at;
        p->byte = bytes[at - 8];
        memcpy(p->name, path, sizeof path);
    }
    free(bytes);
    return 0;
}

static struct place find(lladd_lsn lsn)
{
    struct place p = {.lsn = lsn};
    ck_assert_int_eq(r.base->ops->list(r.base, "log", look_into, &p), 0);
    ck_assert_msg(p.at != 0, "no record has the LSN %llu", (unsigned long long)lsn.v);
    return p;
}

/* Damages a byte of the record at this LSN. A second call restores it. */
static void rot(lladd_lsn lsn)
{
    struct place p = find(lsn);
    p.byte ^= 0x5a;
    fixture_file_write(&r, p.name, &p.byte, 1, p.at - 8);
}

/* From now on, reads of the record at this LSN fail; with LSN 0, all reads succeed again. */
static void make_unreadable(lladd_lsn lsn)
{
    struct place p = {{0}, "", 0, 0};
    if (lsn.v)
        p = find(lsn);
    fault_device_bad_sector(r.fd, lsn.v ? p.name : NULL, p.at);
}

/* The pages cannot be read. */
static void make_bad_sectors(void)
{
    for (unsigned k = 0; k < MANY; k++)
        fault_device_bad_sector(r.fd, "pages", page[k].v * 4096 + 1024);
}

/* Opens the database with a cache of a few pages, and reads all pages, because instant recovery
 * finds a bad page only when it is read. Returns the first error. */
static int try_all(const struct lladd_options *o)
{
    struct lladd_options small = *o;
    uint64_t value;
    small.cache_bytes = fixture_small_cache(r.kind);
    r.err = (struct lladd_error)LLADD_ERROR_INIT;
    int rc = lladd_open(NULL, &small, &r.db, &r.err);
    for (unsigned k = 0; !rc && k < MANY; k++)
        rc = cell_read(r.db, cell_of(page[k], 2), &value, &r.err);
    if (r.db)
        fixture_crash(&r, &fault_kill);
    return rc;
}

/* Opens the database three times, and asserts that each open fails with the same code. A later open
 * may name a page with a higher number than an earlier open. The reason: if all records of a page
 * are before the damage, the page is rebuilt completely, and the earlier open may have written
 * it. */
static void expect_the_same_answer(const struct lladd_options *o)
{
    struct lladd_error first;
    for (unsigned again = 0; again < 3; again++) {
        int rc = try_all(o);
        ck_assert_msg(rc == LLADD_CORRUPT_PAGE || rc == LLADD_UNDO_FAILED ||
                          rc == LLADD_CORRUPT_LOG || rc == LLADD_NO_OPERATION,
                      "open %u: %d: %s", again, rc, r.err.message);
        if (again) {
            ck_assert_msg(r.err.code == first.code, "%s, then %s", first.message, r.err.message);
            ck_assert_uint_ge(r.err.page.v, first.page.v);
        }
        first = r.err;
    }
    if (o->recovery == LLADD_RECOVER_FULL)
        ck_assert_int_eq(first.code, LLADD_CORRUPT_PAGE);
}

static void expect_all(void)
{
    fixture_open(&r);
    for (unsigned again = 0; again < 2; again++) {
        for (unsigned k = 0; k < MANY; k++) {
            fixture_expect(&r, cell_of(page[k], 1), k + 1);
            fixture_expect(&r, cell_of(page[k], 2), k + 2);
            fixture_expect(&r, cell_of(page[k], 3), 0);
        }
        fixture_reopen(&r);
    }
    fixture_close(&r);
    fixture_free(&r);
}

/* ---- pages that are rebuilt in part -------------------------------------------------------- */

static int write_extra(struct lladd_txn *txn, lladd_pageno n)
{
    lladd_op_id id;
    int rc = lladd_op_lookup(r.db, "test.extra", 1, &id);
    return rc ? rc : lladd_update(txn, id, n, "extra", 5);
}

enum {
    EXTRA = 1, /* after the base, half of the pages have a record of an operation of its own */
    AGAIN = 2, /* then the pages get another base */
    LOSES = 4, /* after redo's start, a loser has changed the pages, too */
    FREED = 8, /* at the end the pages are freed */
    UNREAD = 16 /* then the pages cannot be read; without this bit, they are damaged */
};

/* The pages have bases before redo's start, in log that a pin keeps. Returns the LSN of a change
 * between the first bases and redo's start. */
static lladd_lsn make_pages_with_older_bases(unsigned how)
{
    lladd_lsn middle = {0};
    fixture_open(&r);
    fixture_pages(&r, &scratch, 1);
    ok_db(&r, lladd_pin_set(r.db, "kept", lladd_lsn_of(fixture_stats(&r).log_tail), &r.err));
    fixture_pages(&r, page, MANY);
    for (unsigned k = 0; k < MANY; k++) {
        struct lladd_txn *txn = fixture_begin(&r);
        if (k == MANY / 2)
            middle = lladd_lsn_of(fixture_stats(&r).log_tail);
        ok(txn, cell_put(txn, cell_of(page[k], 1), k + 1));
        if (how & EXTRA && k % 2)
            ok(txn, write_extra(txn, page[k]));
        done(lladd_commit(txn));
    }
    fixture_fill_log(&r, scratch, 8u << 10); /* more than a sector */
    struct lladd_txn *txn = fixture_begin(&r);
    for (unsigned k = 0; how & AGAIN && k < MANY; k++) {
        ok(txn, cells_format(txn, page[k]));
        ok(txn, cell_put(txn, cell_of(page[k], 1), k + 1));
    }
    done(lladd_commit(txn));
    /* More than a block of the log: recovery itself reads other blocks. */
    fixture_fill_log(&r, scratch, 128u << 10);
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    struct lladd_txn *loser = fixture_begin(&r);
    for (unsigned k = 0; k < MANY; k++) {
        if (how & LOSES)
            ok(loser, cell_put(loser, cell_of(page[k], 3), 666));
        fixture_set(&r, cell_of(page[k], 2), k + 2);
    }
    txn = fixture_begin(&r);
    for (unsigned k = 0; how & FREED && k < MANY; k++)
        ok(txn, lladd_page_free(txn, page[k]));
    done(lladd_commit(txn));
    fixture_crash(&r, &fault_kill);
    if (how & UNREAD)
        make_bad_sectors();
    else
        damage_all();
    return middle;
}

/* The older log is damaged between the pages' bases and redo's start. */
START_TEST(a_page_rebuilt_up_to_a_damaged_record)
{
    for (unsigned loses = 0; loses < 2; loses++) {
        begin_case(_i);
        lladd_lsn middle = make_pages_with_older_bases(loses ? LOSES : 0);
        rot(middle);
        expect_the_same_answer(&r.options);
        rot(middle); /* restores the byte */
        expect_all();
    }
}
END_TEST

static bool is_extra(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)v, (void)kind;
    return s.len == 5;
}

static void redo_extra(struct lladd_page *p, struct lladd_span s)
{
    memcpy(p->bytes + LLADD_PAGE_HEADER + cell_offset(5), s.data, s.len);
}

static const struct lladd_op extra_op = {
    .struct_size = sizeof extra_op,
    .name = "test.extra",
    .version = 1,
    .page_type = "test.cells",
    .record_max = 8,
    .undo_kind = LLADD_UNDO_NONE,
    .validate = is_extra,
    .redo = redo_extra,
};

/* *without: the options of an open that does not know an operation of the older log. */
static lladd_lsn make_pages_with_unknown_records(int i, unsigned how, struct lladd_options *without)
{
    begin_case(i);
    *without = r.options;
    without->registry = NULL;
    ok_db(&r, lladd_register_extension(without, &test_extension, &r.err));
    ok_db(&r, lladd_register_op(&r.options, &extra_op, &r.err));
    lladd_lsn middle = make_pages_with_older_bases(EXTRA | how);
    without->device = r.options.device; /* damage() has replaced the device */
    return middle;
}

/* The older log has an operation that the first opens do not know. */
START_TEST(a_page_rebuilt_up_to_an_unknown_operation)
{
    for (unsigned loses = 0; loses < 2; loses++) {
        struct lladd_options without;
        (void)make_pages_with_unknown_records(_i, loses ? LOSES : 0, &without);
        expect_the_same_answer(&without);
        lladd_options_release(&without);
        expect_all();
    }
}
END_TEST

enum { UNKNOWN, ROTTEN, UNREADABLE, WAYS };

/* The older log has another base of each page, after a record that cannot be read or applied. */
START_TEST(a_base_after_a_bad_record_is_enough)
{
    for (unsigned way = 0; way < WAYS; way++)
        for (unsigned loses = 0; loses < 2; loses++) {
            struct lladd_options without;
            lladd_lsn middle =
                make_pages_with_unknown_records(_i, AGAIN | (loses ? LOSES : 0), &without);
            if (way == ROTTEN)
                rot(middle);
            if (way == UNREADABLE)
                make_unreadable(middle);
            without.device = r.options.device;
            ck_assert_msg(try_all(way ? &r.options : &without) == 0, "%s", r.err.message);
            lladd_options_release(&without);
            expect_all();
        }
}
END_TEST

/* The pages cannot be rebuilt, and are free. No open, checkpoint or close fails. */
START_TEST(free_pages_without_a_base_do_not_matter)
{
    for (unsigned way = 0; way < WAYS; way++) {
        struct lladd_options without;
        lladd_lsn middle = make_pages_with_unknown_records(_i, FREED, &without);
        if (way == ROTTEN)
            rot(middle);
        if (way == UNREADABLE)
            make_unreadable(middle);
        without.device = r.options.device;
        ok_db(&r, lladd_open(NULL, way ? &r.options : &without, &r.db, &r.err));
        ok_db(&r, lladd_checkpoint(r.db, &r.err));
        ck_assert_uint_eq(fixture_stats(&r).pages_pending, 0);
        fixture_close(&r);
        lladd_options_release(&without);
        fixture_free(&r);
    }
}
END_TEST

/* Pages that cannot be read are rebuilt from older log, and are readable when they were written. */
START_TEST(pages_that_cannot_be_read_are_rebuilt)
{
    for (unsigned way = 0; way < 4; way++) {
        begin_case(_i);
        r.options.flags |= way & 2 ? LLADD_OPT_ATOMIC_PAGES : 0;
        (void)make_pages_with_older_bases(UNREAD | (way & 1 ? LOSES : 0));
        expect_all();
    }
}
END_TEST

/* The disk loses the next n writes of one page, so the stored bytes stay damaged. While recovery
 * rebuilds pages from older log, it may write the page and read it again. It must not take what it
 * reads then for the rebuilt page. */
START_TEST(a_write_of_a_rebuilt_page_is_lost)
{
    enum { LOST = 3, MOST = 4 };
    for (unsigned loses = 0; loses < 2; loses++)
        for (uint64_t n = 1; n <= MOST; n++) {
            begin_case(_i);
            (void)make_pages_with_older_bases(loses ? LOSES : 0);
            fault_device_lose(r.fd, "pages", page[LOST].v * 4096, 4096, n < MOST ? n : UINT64_MAX);
            r.options.cache_bytes = fixture_small_cache(r.kind);
            fixture_open(&r);
            for (unsigned k = 0; k < MANY; k++) {
                fixture_expect(&r, cell_of(page[k], 1), k + 1);
                fixture_expect(&r, cell_of(page[k], 2), k + 2);
            }
            ok_db(&r, lladd_checkpoint(r.db, &r.err));
            fixture_crash(&r, &fault_kill);
            fault_device_lose(r.fd, "pages", 0, 0, 0);
            expect_all();
        }
}
END_TEST

/* The pages are intact, and the log has no base of them. */
static void make_pages_without_bases(bool loses)
{
    fixture_open(&r);
    fixture_pages(&r, &scratch, 1);
    fixture_pages(&r, page, MANY);
    for (unsigned k = 0; k < MANY; k++)
        fixture_set(&r, cell_of(page[k], 1), k + 1);
    fixture_forget_log(&r, scratch);
    struct lladd_txn *loser = fixture_begin(&r);
    for (unsigned k = 0; k < MANY; k++) {
        if (loses)
            ok(loser, cell_put(loser, cell_of(page[k], 3), 666));
        fixture_set(&r, cell_of(page[k], 2), k + 2);
    }
    fixture_crash(&r, &fault_kill);
}

/* There is no memory for the n-th read of a page. Is there one? *failed: the opens that failed. */
static bool read_without_memory(uint64_t n, bool loses, unsigned *failed)
{
    uint64_t before = test_world_passed(&r.world, "buffer.load");
    test_world_fail_at(&r.world, "buffer.load", n, ENOMEM);
    int rc = try_all(&r.options);
    bool fired = test_world_passed(&r.world, "buffer.load") - before >= n;
    test_world_fail_at(&r.world, "buffer.load", 0, 0);
    ck_assert_msg(rc == 0 || rc == LLADD_NO_MEMORY || (loses && rc == LLADD_UNDO_FAILED), "%d: %s",
                  rc, r.err.message);
    ck_assert(rc == 0 || fired);
    *failed += rc != 0;
    return fired;
}

/* A page that is not read for lack of memory does not count as damaged. */
START_TEST(a_lack_of_memory_is_not_damage)
{
    for (unsigned loses = 0; loses < 2; loses++) {
        unsigned failed = 0;
        begin_case(_i);
        make_pages_without_bases(loses);
        for (uint64_t n = 1; read_without_memory(n, loses, &failed);)
            n++;
        ck_assert_uint_gt(failed, 0);
        expect_all();
    }
}
END_TEST

/* The pages cannot be read, and the log has no base of them. So the error of the read is returned.
 * When they can be read again, nothing is lost. */
START_TEST(pages_that_cannot_be_read_or_rebuilt)
{
    for (unsigned loses = 0; loses < 2; loses++) {
        begin_case(_i);
        make_pages_without_bases(loses);
        make_bad_sectors();
        for (unsigned again = 0; again < 2; again++) {
            int rc = try_all(&r.options);
            ck_assert_msg(rc == LLADD_READ_FAILED || (loses && rc == LLADD_UNDO_FAILED), "%d: %s",
                          rc, r.err.message);
            ck_contains(r.err.message, "read");
        }
        fault_device_bad_sector(r.fd, NULL, 0);
        expect_all();
    }
}
END_TEST

/* The pages are intact but cannot be read, and the older log is damaged after their bases. Recovery
 * writes no page that it can rebuild only in part. So when the pages can be read again, nothing is
 * lost. */
START_TEST(a_page_that_cannot_be_read_is_not_replaced_in_part)
{
    for (unsigned loses = 0; loses < 2; loses++) {
        begin_case(_i);
        rot(make_pages_with_older_bases(UNREAD | (loses ? LOSES : 0)));
        make_bad_sectors();
        for (unsigned again = 0; again < 2; again++) {
            int rc = try_all(&r.options);
            ck_assert_msg(rc == LLADD_READ_FAILED || (loses && rc == LLADD_UNDO_FAILED), "%d: %s",
                          rc, r.err.message);
        }
        fault_device_bad_sector(r.fd, NULL, 0);
        expect_all();
    }
}
END_TEST

/* The older log cannot be read between the pages' bases and redo's start. */
START_TEST(an_unreadable_log_is_the_reason)
{
    for (unsigned loses = 0; loses < 2; loses++) {
        begin_case(_i);
        make_unreadable(make_pages_with_older_bases(loses ? LOSES : 0));
        int rc = try_all(&r.options);
        ck_assert_msg(rc == LLADD_READ_FAILED || (loses && rc == LLADD_UNDO_FAILED), "%d: %s", rc,
                      r.err.message);
        ck_contains(r.err.message, "cannot read \"log/");
        make_unreadable(lladd_lsn_of(0));
        expect_all();
    }
}
END_TEST

/* A page must be rebuilt before anything has listed the log's files, and the directory cannot be
 * read. */
START_TEST(the_log_cannot_be_listed)
{
    uint64_t value;
    begin_case(_i);
    r.options.log_segment_min = r.options.log_segment_max = 64u << 10;
    fixture_open(&r);
    fixture_pages(&r, &scratch, 1);
    ok_db(&r, lladd_pin_set(r.db, "kept", lladd_lsn_of(fixture_stats(&r).log_tail), &r.err));
    page[0] = fixture_page(&r);
    fixture_set(&r, cell_of(page[0], 1), 1);
    fixture_fill_log(&r, scratch, 128u << 10);
    fixture_close(&r);
    damage(page[0]);
    fixture_open(&r);
    fault_device_fail(r.fd, 1, FAULT_LIST, EIO, true);
    ck_assert_int_eq(cell_read(r.db, cell_of(page[0], 1), &value, &r.err), LLADD_READ_FAILED);
    ck_assert_uint_gt(fault_device_fired(r.fd), 0);
    fault_device_fail(r.fd, 0, 0, 0, false);
    fixture_expect(&r, cell_of(page[0], 1), 1);
    fixture_free(&r);
}
END_TEST

/* ---- undo of pages without any base -------------------------------------------------------- */

/* A loser has changed pages that the log cannot rebuild. Its changes are not undone on these pages.
 * If `logical` is true, the undo consists of ordinary updates. */
START_TEST(nothing_is_undone_on_a_page_without_a_base)
{
    for (unsigned logical = 0; logical < 2; logical++) {
        begin_case(_i);
        fixture_open(&r);
        fixture_pages(&r, &scratch, 1);
        fixture_pages(&r, page, MANY);
        fixture_forget_log(&r, scratch);
        struct lladd_txn *loser = fixture_begin(&r);
        for (unsigned k = 0; k < MANY; k++)
            ok(loser, logical ? cell_bump(loser, cell_of(page[k], 3), 7)
                              : cell_put(loser, cell_of(page[k], 3), 666));
        fixture_set(&r, cell_of(scratch, 2), 1); /* makes all earlier log durable */
        fixture_crash(&r, &fault_kill);
        damage_all();
        expect_the_same_answer(&r.options);
        fixture_free(&r);
    }
}
END_TEST

static bool is_reformat(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)v;
    return kind == LLADD_SPAN_UNDO && s.len == 8;
}

static int reformat(void *ctx, struct lladd_txn *txn, struct lladd_span undo)
{
    (void)ctx;
    lladd_pageno n = lladd_page_of(lladd_get64(undo.data));
    int rc = cells_format(txn, n);
    return rc ? rc : cell_put(txn, cell_of(n, 1), 9);
}

static const struct lladd_op reformat_op = {
    .struct_size = sizeof reformat_op,
    .name = "test.reformat",
    .version = 1,
    .record_max = 8,
    .undo_kind = LLADD_UNDO_LOGICAL,
    .validate = is_reformat,
    .compensate = reformat,
    .undo_log_max = 1024,
    .undo_pages_max = 1,
};

/* The log cannot rebuild the pages that a loser has changed. The loser's undo formats these pages
 * and then changes them. So open succeeds. */
START_TEST(a_format_in_an_undo_gives_a_base)
{
    begin_case(_i);
    ok_db(&r, lladd_register_op(&r.options, &reformat_op, &r.err));
    fixture_open(&r);
    fixture_pages(&r, &scratch, 1);
    fixture_pages(&r, page, MANY);
    fixture_forget_log(&r, scratch);
    struct lladd_txn *loser = fixture_begin(&r);
    for (unsigned k = 0; k < MANY; k++) {
        struct lladd_action action;
        unsigned char undo[8];
        lladd_op_id id;
        ok_db(&r, lladd_op_lookup(r.db, reformat_op.name, 1, &id));
        ok(loser, lladd_nta_begin(loser, &action));
        ok(loser, cell_put(loser, cell_of(page[k], 3), 666));
        lladd_put64(undo, page[k].v);
        ok(loser, lladd_nta_end(loser, &action, id, undo, sizeof undo));
    }
    fixture_set(&r, cell_of(scratch, 2), 1); /* makes all earlier log durable */
    fixture_crash(&r, &fault_kill);
    damage_all();
    r.options.cache_bytes = fixture_small_cache(r.kind);
    fixture_open(&r);
    for (unsigned again = 0; again < 2; again++) {
        for (unsigned k = 0; k < MANY; k++) {
            fixture_expect(&r, cell_of(page[k], 1), 9);
            fixture_expect(&r, cell_of(page[k], 3), 0);
        }
        fixture_reopen(&r);
    }
    fixture_close(&r);
    fixture_free(&r);
}
END_TEST

/* The page was freed with changes that are not on the disk, and is allocated again, so it needs no
 * base. Log from before redo's start, which only a pin needs, is damaged or cannot be read. That
 * must not matter. */
START_TEST(an_old_bad_record_does_not_matter_to_a_blank_page)
{
    for (unsigned unreadable = 0; unreadable < 2; unreadable++) {
        lladd_pageno freed, next;
        begin_case(_i);
        r.options.checkpoint_bytes = 16u << 10;
        fixture_open(&r);
        scratch = fixture_page(&r);
        freed = fixture_page(&r);
        fixture_forget_log(&r, scratch);
        lladd_lsn old = lladd_lsn_of(fixture_stats(&r).log_tail);
        ok_db(&r, lladd_pin_set(r.db, "kept", old, &r.err));
        fixture_set(&r, cell_of(freed, 0), 1);
        fixture_fuzzy_checkpoint(&r, scratch);
        fixture_set(&r, cell_of(freed, 1), 2);
        struct lladd_txn *txn = fixture_begin(&r);
        ok(txn, lladd_page_free(txn, freed));
        done(lladd_commit(txn));
        txn = fixture_begin(&r);
        ok(txn, lladd_page_alloc(txn, &next)); /* drops the page */
        ck_assert_uint_eq(next.v, freed.v);
        done(lladd_commit(txn));
        fixture_fuzzy_checkpoint(&r, scratch);
        fixture_set(&r, cell_of(scratch, 0), 6);
        fixture_crash(&r, &fault_power);
        if (unreadable)
            make_unreadable(old);
        else
            rot(old);
        fixture_open(&r);
        fixture_expect(&r, cell_of(scratch, 0), 6);
        ok_db(&r, lladd_checkpoint(r.db, &r.err));
        fixture_close(&r);
        fixture_free(&r);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("baseless");
    TCase *t = tcase_create("all");
    tcase_add_loop_test(t, a_page_rebuilt_up_to_a_damaged_record, 0, CASES);
    tcase_add_loop_test(t, a_page_rebuilt_up_to_an_unknown_operation, 0, CASES);
    tcase_add_loop_test(t, a_base_after_a_bad_record_is_enough, 0, CASES);
    tcase_add_loop_test(t, free_pages_without_a_base_do_not_matter, 0, CASES);
    tcase_add_loop_test(t, an_old_bad_record_does_not_matter_to_a_blank_page, 0, CASES);
    tcase_add_loop_test(t, pages_that_cannot_be_read_are_rebuilt, 0, CASES);
    tcase_add_loop_test(t, a_write_of_a_rebuilt_page_is_lost, 0, CASES);
    tcase_add_loop_test(t, pages_that_cannot_be_read_or_rebuilt, 0, CASES);
    tcase_add_loop_test(t, a_page_that_cannot_be_read_is_not_replaced_in_part, 0, CASES);
    tcase_add_loop_test(t, a_lack_of_memory_is_not_damage, 0, CASES);
    tcase_add_loop_test(t, an_unreadable_log_is_the_reason, 0, CASES);
    tcase_add_loop_test(t, the_log_cannot_be_listed, 0, CASES);
    tcase_add_loop_test(t, nothing_is_undone_on_a_page_without_a_base, 0, CASES);
    tcase_add_loop_test(t, a_format_in_an_undo_gives_a_base, 0, CASES);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
