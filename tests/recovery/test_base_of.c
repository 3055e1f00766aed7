/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An extension gives pages that neither the page file nor the log has (its callback base_of). The
 * library applies the records of the log to such a page, when a thread fetches the page and in
 * recovery.
 */
#include "db_fixture.h"

#include <lladd/bulk.h>
#include <lladd/bytes.h>
#include <lladd/log_read.h>
#include <lladd/sync.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096, BULK = 40 };

static struct fixture r;
static lladd_pageno page, scratch;

/* What the extension has: a copy of one page, and the bytes that were last written in bulk. */
static struct {
    unsigned char bytes[PAGE], bulk[PAGE];
    uint64_t number, barrier, writer;
    bool only_bulk; /* there is no `bytes` */
    int rc; /* if not 0, base_of returns this code instead of a page */
    unsigned asked;
    uint64_t since; /* `since` of the last call */
    uint64_t last; /* LSN of a change that `bytes` lacks and `later` has; 0: there is none */
    void (*meanwhile)(void); /* called in the first call of base_of. Later calls give `later` */
    unsigned char later[PAGE];
} copy;

static int base_of(void *ctx, struct lladd_db *db, void *state, lladd_pageno number,
                   lladd_lsn since, lladd_lsn writer, void *bytes, struct lladd_error *err)
{
    ck_assert_ptr_eq(ctx, &copy);
    ck_assert_ptr_nonnull(db);
    ck_assert_ptr_null(state);
    if (number.v != copy.number)
        return LLADD_NOT_FOUND;
    copy.asked++;
    copy.since = since.v;
    if (copy.meanwhile && copy.asked == 1)
        copy.meanwhile();
    if (copy.rc)
        return lladd_error_set(err, copy.rc, "the archive cannot be reached");
    ck_assert_uint_eq(writer.v, copy.barrier && since.v == copy.barrier ? copy.writer : 0);
    if (copy.only_bulk && !writer.v)
        return lladd_error_set(err, LLADD_NOT_FOUND, "there is no copy");
    bool later = (copy.asked > 1 && copy.meanwhile) || (copy.last && since.v > copy.last);
    const unsigned char *has = later ? copy.later : copy.bytes;
    memcpy(bytes, writer.v ? copy.bulk : has, PAGE);
    return 0;
}

static int bulk_written(void *ctx, struct lladd_db *db, void *state, struct lladd_txn *txn,
                        lladd_lsn barrier, lladd_pageno first, uint64_t n, bool typed,
                        const void *bytes)
{
    (void)ctx, (void)db, (void)state, (void)typed;
    ck_assert_uint_eq(n, 1);
    ck_assert_uint_eq(first.v, page.v);
    copy.barrier = barrier.v;
    copy.writer = lladd_txn_id(txn).v;
    memcpy(copy.bulk, bytes, PAGE);
    return 0;
}

/* This extension has no page, so the library asks the next extension. */
static int nothing(void *ctx, struct lladd_db *db, void *state, lladd_pageno number,
                   lladd_lsn since, lladd_lsn writer, void *bytes, struct lladd_error *err)
{
    (void)ctx, (void)db, (void)state, (void)number, (void)since, (void)writer;
    (void)bytes, (void)err;
    return LLADD_NOT_FOUND;
}

static const struct lladd_extension empty = {
    .struct_size = sizeof empty, .name = "test.empty", .version = 1, .base_of = nothing};
/* An extension as if compiled with an older header: its struct_size ends before base_of, so the
 * library never calls base_of. */
static const struct lladd_extension older = {.struct_size =
                                                 offsetof(struct lladd_extension, base_of),
                                             .name = "test.older",
                                             .version = 1,
                                             .base_of = base_of};
static const struct lladd_extension archive = {.struct_size = sizeof archive,
                                               .name = "test.archive",
                                               .version = 1,
                                               .ctx = &copy,
                                               .bulk_written = bulk_written,
                                               .base_of = base_of};

enum { INSTANT = 1, RESERVED = 2, NO_MEMORY = 4, CASES = 8 }; /* bits of _i */

/* Pages are written without images, so that the log has no other base. */
static void begin_case(int i, bool with_archive)
{
    memset(&copy, 0, sizeof copy);
    fixture_init(&r, i & RESERVED ? FIXTURE_RESERVED : 0);
    r.options.flags |= LLADD_OPT_ATOMIC_PAGES;
    r.options.recovery = i & INSTANT ? LLADD_RECOVER_INSTANT : LLADD_RECOVER_FULL;
    r.options.recovery_bytes = i & NO_MEMORY ? 64 : 0; /* too little for a redo index */
    ok_db(&r, lladd_register_extension(&r.options, &empty, &r.err));
    ok_db(&r, lladd_register_extension(&r.options, &older, &r.err));
    if (with_archive)
        ok_db(&r, lladd_register_extension(&r.options, &archive, &r.err));
    fixture_open(&r);
    scratch = fixture_page(&r);
}

static void read_page(lladd_pageno number, unsigned char out[PAGE])
{
    size_t len;
    unsigned char *bytes = fixture_file(&r, "pages", &len);
    ck_assert_uint_ge(len, (number.v + 1) * PAGE);
    memcpy(out, bytes + number.v * PAGE, PAGE);
    free(bytes);
}

/* Truncates the log, copies the page, and keeps the log from there on. So the log has no record of
 * any change that the copy includes. */
static void archive_page(lladd_pageno number)
{
    fixture_forget_log(&r, scratch);
    read_page(number, copy.bytes);
    copy.number = number.v;
    lladd_lsn tail = lladd_lsn_of(fixture_stats(&r).log_tail);
    ck_assert_uint_lt(lladd_get64(copy.bytes + 8), fixture_stats(&r).log_oldest);
    ok_db(&r, lladd_pin_set(r.db, "kept", tail, &r.err));
}

static void damage(lladd_pageno number)
{
    unsigned char bytes[64];
    memset(bytes, 0xee, sizeof bytes);
    fixture_file_write(&r, "pages", bytes, sizeof bytes, number.v * PAGE + 1024);
}

/* Like `damage`, but the database may be open. The write goes to the device below the crash model,
 * so the crash model does not notice the write. */
static void damage_below(lladd_pageno number)
{
    static unsigned char bytes[64];
    struct lladd_iovec piece = {bytes, sizeof bytes};
    struct lladd_file *file;
    memset(bytes, 0xee, sizeof bytes);
    ck_assert_int_eq(r.base->ops->open(r.base, "pages", LLADD_OPEN_CREATE, &file), 0);
    ck_assert_int_eq(r.base->ops->pwritev(r.base, file, &piece, 1, number.v * PAGE + 1024), 0);
    ck_assert_int_eq(r.base->ops->close(r.base, file), 0);
}

static void expect_cells(uint64_t one, uint64_t two, uint64_t three)
{
    fixture_expect(&r, cell_of(page, 1), one);
    fixture_expect(&r, cell_of(page, 2), two);
    fixture_expect(&r, cell_of(page, 3), three);
}

/* Makes a page. Only the copy has the value of its cell 1, and only the log has the value of its
 * cell 2. */
static void make_page(int i, bool with_archive)
{
    begin_case(i, with_archive);
    page = fixture_page(&r);
    fixture_set(&r, cell_of(page, 1), 1);
    archive_page(page);
    fixture_set(&r, cell_of(page, 2), 2);
}

START_TEST(a_damaged_page_comes_from_an_extension)
{
    make_page(_i, true);
    fixture_close(&r);
    damage(page);
    fixture_open(&r);
    expect_cells(1, 2, 0);
    ck_assert_uint_eq(copy.asked, 1);
    ck_assert_uint_ge(copy.since, fixture_stats(&r).log_oldest);
    ck_assert_uint_eq(fixture_stats(&r).repairs, 1);
    fixture_reopen(&r); /* the page was written back */
    expect_cells(1, 2, 0);
    ck_assert_uint_eq(copy.asked, 1);
    fixture_free(&r);
}
END_TEST

/* Damages the records that begin at the oldest log and up to this LSN, but no header of a block. */
static void rot_up_to(uint64_t last)
{
    enum { HEAD = 64, SEGMENT = 32, BLOCK = 28, LSN = 16 };
    uint64_t n = 0, oldest = fixture_stats(&r).log_oldest;
    fixture_close(&r);
    for (uint64_t first = oldest; first <= last; first = n) {
        char name[64];
        size_t len;
        (void)snprintf(name, sizeof name, "log/%016llx.seg", (unsigned long long)first);
        unsigned char *bytes = fixture_file(&r, name, &len);
        ck_assert_ptr_nonnull(bytes);
        size_t block = lladd_get32(bytes + BLOCK);
        ck_assert_uint_eq(lladd_get64(bytes + SEGMENT), first);
        for (size_t i = 0; i < len; i++) {
            uint64_t lsn = first + i / block * (block - HEAD) + i % block - HEAD;
            if (i % block >= HEAD && lsn < last + 16)
                bytes[i] ^= 0x5a;
        }
        n = first + len / block * (block - HEAD);
        fixture_file_write(&r, name, bytes, len, 0);
        free(bytes);
    }
}

/* It is not known where the first record of the oldest segment begins. Damage there hides the
 * newest change of the page. So the extension must give the page with that change. */
START_TEST(damage_hides_the_first_records_of_the_log)
{
    begin_case(_i, true);
    page = fixture_page(&r);
    fixture_set(&r, cell_of(page, 1), 1);
    archive_page(page);
    copy.last = fixture_stats(&r).log_tail;
    fixture_set(&r, cell_of(page, 2), 2);
    fixture_set(&r, cell_of(scratch, 2), 2);
    fixture_reopen(&r);
    read_page(page, copy.later);
    rot_up_to(copy.last);
    damage(page);
    fixture_open(&r);
    expect_cells(1, 2, 0);
    ck_assert_uint_eq(copy.asked, 1);
    fixture_free(&r);
}
END_TEST

/* Recovery gets a page from the extension, then redoes and undoes the change of a loser on it. If
 * `lost` is true, the stored page is not damaged, but older than the copy, as after a write that
 * the disk has lost. */
static void recover(int i, bool lost)
{
    unsigned char before[PAGE];
    begin_case(i, true);
    page = fixture_page(&r);
    fixture_reopen(&r);
    read_page(page, before);
    fixture_set(&r, cell_of(page, 1), 1);
    archive_page(page);
    fixture_set(&r, cell_of(page, 2), 2);
    struct lladd_txn *loser = fixture_begin(&r);
    ok(loser, cell_put(loser, cell_of(page, 3), 666));
    fixture_set(&r, cell_of(scratch, 3), 1); /* forces the log */
    fixture_crash(&r, &fault_kill);
    if (lost)
        fixture_file_write(&r, "pages", before, PAGE, page.v * PAGE);
    else
        damage(page);
    fixture_open(&r);
    fixture_maintain(&r);
    expect_cells(1, 2, 0);
    ck_assert_uint_eq(copy.asked, 1);
    fixture_crash(&r, &fault_kill);
    fixture_open(&r);
    expect_cells(1, 2, 0);
    fixture_reopen(&r);
    unsigned asked = copy.asked;
    expect_cells(1, 2, 0);
    ck_assert_uint_eq(copy.asked, asked); /* the page was written back */
    fixture_free(&r);
}

START_TEST(recovery_gets_a_damaged_page_from_an_extension)
{
    recover(_i, false);
}
END_TEST

START_TEST(recovery_gets_a_page_with_a_lost_write_from_an_extension)
{
    recover(_i, true);
}
END_TEST

/* Opens the database and reads the page. */
static int open_and_read(void)
{
    uint64_t value;
    int rc = fixture_try_open(&r);
    if (rc)
        return rc;
    rc = cell_read(r.db, cell_of(page, 1), &value, &r.err);
    fixture_crash(&r, &fault_kill);
    return rc;
}

/* The extension has a copy, but records that must be applied to it cannot be read. When they can be
 * read again, the next fetch succeeds. `redo`: recovery needs the page, too. */
START_TEST(an_unreadable_log_is_the_reason)
{
    enum { BLOCK = 64 << 10, ROOM = BLOCK - 64 };
    char name[64];
    bool redo = _i >= CASES;
    begin_case(_i % CASES, true);
    r.options.log_segment_min = r.options.log_segment_max = 2 * BLOCK;
    page = fixture_page(&r);
    fixture_reopen(&r);
    fixture_set(&r, cell_of(page, 1), 1);
    archive_page(page);
    fixture_set(&r, cell_of(page, 2), 2);
    fixture_reopen(&r);
    if (redo)
        fixture_set(&r, cell_of(page, 3), 3);
    /* The second block of the oldest file, which recovery itself does not read. The log is so short
     * that a cursor has all of it buffered. */
    struct lladd_stats stats = fixture_stats(&r);
    ck_assert_uint_gt(stats.log_tail, stats.log_oldest + 2 * ROOM);
    ck_assert_uint_lt(stats.log_tail, stats.log_oldest + 4 * ROOM);
    (void)snprintf(name, sizeof name, "log/%016llx.seg", (unsigned long long)stats.log_oldest);
    if (redo)
        fixture_crash(&r, &fault_kill);
    else
        fixture_close(&r);
    damage(page);
    fault_device_bad_sector(r.fd, name, BLOCK);
    for (unsigned again = 0; again < 2; again++) {
        ck_assert_int_eq(open_and_read(), LLADD_READ_FAILED);
        ck_contains(r.err.message, name);
    }
    bool opens = fixture_try_open(&r) == 0;
    ck_assert(opens || redo);
    if (opens) {
        uint64_t value;
        ck_assert_int_eq(cell_read(r.db, cell_of(page, 1), &value, &r.err), LLADD_READ_FAILED);
    }
    fault_device_bad_sector(r.fd, NULL, 0);
    if (!opens)
        fixture_open(&r);
    expect_cells(1, 2, redo ? 3 : 0);
    fixture_free(&r);
}
END_TEST

static void expect_refusal(const char *what, const char *message)
{
    ck_assert_msg(open_and_read() == LLADD_CORRUPT_PAGE, "%s", what);
    ck_assert_uint_eq(r.err.page.v, page.v);
    if (message)
        ck_contains(r.err.message, message);
}

static void seal(unsigned char bytes[PAGE])
{
    unsigned char uuid[16], seed[12];
    fixture_open(&r);
    lladd_db_uuid(r.db, uuid);
    fixture_crash(&r, &fault_kill);
    lladd_put32(seed, lladd_crc32c(0, uuid, 16));
    lladd_put64(seed + 4, lladd_get64(bytes + 24));
    lladd_put32(bytes, lladd_crc32c(lladd_crc32c(0, seed, sizeof seed), bytes + 4, PAGE - 4));
}

/* The extension gives several wrong pages, one for each open, and each is refused. The last open
 * gets the right copy and succeeds. `redo`: recovery needs the page. Otherwise only a fetch needs
 * it. */
START_TEST(a_wrong_page_of_an_extension_is_refused)
{
    unsigned char right[PAGE], old[PAGE];
    bool redo = _i >= CASES, later = (_i & INSTANT) && !(_i & NO_MEMORY);
    begin_case(_i % CASES, true);
    page = fixture_page(&r);
    fixture_reopen(&r);
    read_page(page, old);
    fixture_set(&r, cell_of(page, 1), 1);
    archive_page(page);
    memcpy(right, copy.bytes, PAGE);
    fixture_set(&r, cell_of(page, 2), 2);
    if (redo)
        fixture_crash(&r, &fault_kill);
    else
        fixture_close(&r);
    bool early = redo && !later; /* in this case recovery reports the page, with another message */
    unsigned char high[PAGE];
    memcpy(high, right, PAGE);
    lladd_put64(high + 8, UINT64_C(1) << 40);
    seal(high);
    damage(page);
    copy.bytes[2000] ^= 1;
    expect_refusal("a wrong checksum", early ? NULL : "checksum");
    memcpy(copy.bytes, high, PAGE);
    expect_refusal("a page of another history", early ? NULL : "history");
    memset(copy.bytes, 0, PAGE);
    expect_refusal("zeros", early ? NULL : "history");
    read_page(scratch, copy.bytes);
    expect_refusal("another page", early ? NULL : "holds page");
    memcpy(copy.bytes, old, PAGE);
    expect_refusal("a page that lacks a change", early ? NULL : "found the page at");
    copy.rc = LLADD_STORE_FAILED;
    ck_assert_int_eq(open_and_read(), LLADD_STORE_FAILED);
    ck_contains(r.err.message, "cannot be reached");
    copy.rc = LLADD_NOT_FOUND;
    expect_refusal("no page", "cannot be reached");
    copy.rc = 0;
    memcpy(copy.bytes, right, PAGE);
    fixture_open(&r);
    expect_cells(1, 2, 0);
    fixture_free(&r);
}
END_TEST

START_TEST(without_an_extension_such_a_page_is_refused)
{
    make_page(_i, false);
    fixture_crash(&r, &fault_kill);
    damage(page);
    expect_refusal("damaged", NULL);
    ck_assert_uint_eq(copy.asked, 0);
    fixture_free(&r);
}
END_TEST

/* Damage of a free page does not matter, so full recovery does not ask the extensions. */
START_TEST(a_free_page_is_not_asked_for)
{
    make_page(_i, true);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, lladd_page_free(txn, page));
    done(lladd_commit(txn));
    fixture_crash(&r, &fault_kill);
    damage(page);
    fixture_open(&r);
    fixture_maintain(&r);
    if (!(_i & INSTANT))
        ck_assert_uint_eq(copy.asked, 0);
    fixture_free(&r);
}
END_TEST

static void write_in_bulk(struct lladd_txn *txn, uint64_t value)
{
    unsigned char bytes[PAGE] = {0};
    lladd_put64(bytes + LLADD_PAGE_HEADER + cell_offset(1), value);
    ok(txn, lladd_bulk_write(txn, page, 1, "test.cells", bytes));
    ok(txn, lladd_bulk_sync(txn));
}

/* The log has the redo barrier of a bulk write, but not the bytes that were written. So at the
 * barrier the library asks the extension again, for the page with these bytes. */
START_TEST(a_page_that_was_written_in_bulk_comes_from_an_extension)
{
    unsigned char two[2 * PAGE];
    begin_case(_i, true);
    ok_db(&r, lladd_pages_extend(r.db, BULK + 1, &r.err));
    page = lladd_page_of(BULK);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, cells_format(txn, page)); /* an earlier use of the page */
    ok(txn, cell_put(txn, cell_of(page, 1), 666));
    done(lladd_commit(txn));
    archive_page(page);
    txn = fixture_begin(&r);
    write_in_bulk(txn, 7);
    done(lladd_commit(txn));
    ck_assert_uint_ne(copy.barrier, 0);
    fixture_close(&r);
    damage(page);
    fixture_open(&r);
    fixture_expect(&r, cell_of(page, 1), 7);
    ck_assert_uint_eq(copy.asked, 2);
    ck_assert_uint_eq(copy.since, copy.barrier);
    fixture_reopen(&r);
    fault_device_bad_sector(r.fd, "pages", page.v * PAGE);
    ok_db(&r, lladd_bulk_read(r.db, lladd_page_of(BULK - 1), 2, false, two, &r.err));
    ck_assert_uint_eq(lladd_get64(two + PAGE + LLADD_PAGE_HEADER + cell_offset(1)), 7);
    ck_assert_uint_eq(copy.asked, 4);
    fixture_close(&r);
    /* For the bulk write, the extension now gives the page as it was before the bulk write. */
    damage(page);
    memcpy(copy.bulk, copy.bytes, PAGE);
    expect_refusal("an earlier life", "in bulk");
    fixture_free(&r);
}
END_TEST

/* The extension does not have the page as it was where the log begins. The barrier in the log says
 * that this does not matter. */
START_TEST(a_page_that_only_a_bulk_write_gives)
{
    begin_case(_i, true);
    ok_db(&r, lladd_pages_extend(r.db, BULK + 1, &r.err));
    page = lladd_page_of(BULK);
    struct lladd_txn *txn = fixture_begin(&r);
    write_in_bulk(txn, 7);
    done(lladd_commit(txn));
    copy.number = BULK;
    copy.only_bulk = true;
    fixture_close(&r);
    damage(page);
    fixture_open(&r);
    fixture_expect(&r, cell_of(page, 1), 7);
    ck_assert_uint_eq(copy.asked, 2);
    ck_assert_uint_eq(copy.since, copy.barrier);
    fixture_close(&r);
    damage(page);
    copy.barrier = 0; /* nor does it have the bulk write */
    copy.rc = LLADD_NOT_FOUND;
    expect_refusal("nothing", "cannot be reached");
    fixture_free(&r);
}
END_TEST

static bool any_undo(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)v, (void)s;
    return kind == LLADD_SPAN_UNDO;
}

static int put_two(void *ctx, struct lladd_txn *txn, struct lladd_span undo)
{
    (void)ctx, (void)undo;
    return cell_put(txn, cell_of(page, 2), 2);
}

static const struct lladd_op put_two_op = {.struct_size = sizeof put_two_op,
                                           .name = "test.put_two",
                                           .version = 1,
                                           .record_max = 8,
                                           .undo_kind = LLADD_UNDO_LOGICAL,
                                           .validate = any_undo,
                                           .compensate = put_two,
                                           .undo_log_max = 1024,
                                           .undo_pages_max = 1};

/* A page is written in bulk after redo's start, and a rollback changes it without an image. The
 * disk loses the bulk write. So the page is whole, but of an earlier life, and redo needs a base
 * for the record of the rollback. */
START_TEST(a_bulk_write_before_a_rollback_is_lost)
{
    lladd_op_id id;
    begin_case(_i, true);
    fixture_close(&r);
    ok_db(&r, lladd_register_op(&r.options, &put_two_op, &r.err));
    fixture_open(&r);
    page = fixture_page(&r);
    fixture_set(&r, cell_of(page, 1), 666);
    archive_page(page);
    uint64_t images = fixture_stats(&r).page_images;
    struct lladd_txn *loser = fixture_begin(&r);
    ck_assert_int_eq(lladd_op_lookup(r.db, put_two_op.name, 1, &id), 0);
    ok(loser, lladd_log_undo_only(loser, id, "", 0));
    struct lladd_txn *txn = fixture_begin(&r);
    write_in_bulk(txn, 7);
    done(lladd_commit(txn));
    done(lladd_abort(loser));
    ck_assert_uint_eq(fixture_stats(&r).page_images, images);
    fixture_set(&r, cell_of(scratch, 3), 1); /* forces the log */
    fixture_crash(&r, &fault_kill);
    fixture_file_write(&r, "pages", copy.bytes, PAGE, page.v * PAGE);
    copy.rc = LLADD_NOT_FOUND;
    expect_refusal("no base", NULL);
    copy.rc = 0;
    copy.asked = 0;
    fixture_open(&r);
    expect_cells(7, 2, 0);
    ck_assert_uint_eq(copy.asked, 2);
    fixture_reopen(&r);
    expect_cells(7, 2, 0);
    fixture_free(&r);
}
END_TEST

/* Between two bulk writes of one transaction, the page is damaged, comes from the extension, and is
 * written back with an image. The second write needs a barrier after that image. Otherwise redo
 * would replace what the second write has written by the image. */
START_TEST(a_page_from_an_extension_is_written_in_bulk_again)
{
    unsigned char read[PAGE];
    begin_case(_i, true);
    fixture_close(&r);
    r.options.flags &= ~(unsigned)LLADD_OPT_ATOMIC_PAGES;
    fixture_open(&r);
    page = lladd_page_of(BULK);
    ok_db(&r, lladd_pages_extend(r.db, BULK + 1, &r.err));
    struct lladd_txn *txn = fixture_begin(&r);
    write_in_bulk(txn, 7);
    copy.number = BULK;
    memcpy(copy.bytes, copy.bulk, PAGE);
    damage_below(page);
    fixture_expect(&r, cell_of(page, 1), 7);
    ck_assert_uint_eq(copy.asked, 1);
    ok_db(&r, lladd_bulk_read(r.db, page, 1, false, read, &r.err)); /* writes the page back */
    write_in_bulk(txn, 8);
    done(lladd_commit(txn));
    fixture_crash(&r, &fault_kill);
    fixture_open(&r);
    fixture_expect(&r, cell_of(page, 1), 8);
    fixture_free(&r);
}
END_TEST

/* Truncates the log up to its present end. */
static void *truncate_log(void *unused)
{
    uint64_t end = fixture_stats(&r).log_tail;
    ok_db(&r, lladd_pin_clear(r.db, "kept", &r.err));
    while (fixture_stats(&r).log_oldest < end) {
        struct lladd_txn *txn = fixture_begin(&r);
        ok(txn, cell_put_wide(txn, cell_of(scratch, 1), 1, WIDE_MAX));
        done(lladd_commit(txn));
        ok_db(&r, lladd_checkpoint(r.db, &r.err));
    }
    return unused;
}

/* The thread that calls base_of holds the frame of the page, so another thread truncates the
 * log. */
static void truncate_meanwhile(void)
{
    struct lladd_thread thread = {0};
    ck_assert_int_eq(lladd_thread_start(&thread, truncate_log, NULL), 0);
    lladd_thread_join(&thread);
}

/* While base_of runs, the part of the log with the change of cell 2 is truncated. base_of returns a
 * copy without the change, because the log still had the change when the call began. So the library
 * must call base_of again. */
START_TEST(the_log_is_truncated_while_an_extension_is_asked)
{
    make_page(_i, true);
    fixture_reopen(&r);
    read_page(page, copy.later);
    fixture_close(&r);
    damage(page);
    copy.meanwhile = truncate_meanwhile;
    fixture_open(&r);
    expect_cells(1, 2, 0);
    ck_assert_uint_eq(copy.asked, 2);
    ck_assert_uint_ge(copy.since, fixture_stats(&r).log_oldest);
    fixture_free(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("base_of");
    TCase *t = tcase_create("all");
    tcase_add_loop_test(t, a_damaged_page_comes_from_an_extension, 0, CASES);
    tcase_add_loop_test(t, damage_hides_the_first_records_of_the_log, 0, CASES);
    tcase_add_loop_test(t, recovery_gets_a_damaged_page_from_an_extension, 0, CASES);
    tcase_add_loop_test(t, recovery_gets_a_page_with_a_lost_write_from_an_extension, 0, CASES);
    tcase_add_loop_test(t, a_wrong_page_of_an_extension_is_refused, 0, 2 * CASES);
    tcase_add_loop_test(t, an_unreadable_log_is_the_reason, 0, 2 * CASES);
    tcase_add_loop_test(t, without_an_extension_such_a_page_is_refused, 0, CASES);
    tcase_add_loop_test(t, a_free_page_is_not_asked_for, 0, CASES);
    tcase_add_loop_test(t, a_page_that_was_written_in_bulk_comes_from_an_extension, 0, CASES);
    tcase_add_loop_test(t, a_page_that_only_a_bulk_write_gives, 0, CASES);
    tcase_add_loop_test(t, a_bulk_write_before_a_rollback_is_lost, 0, CASES);
    tcase_add_loop_test(t, a_page_from_an_extension_is_written_in_bulk_again, 0, CASES);
    tcase_add_loop_test(t, the_log_is_truncated_while_an_extension_is_asked, 0, CASES);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
