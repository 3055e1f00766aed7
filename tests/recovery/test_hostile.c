/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hostile bytes with good checksums (OP-7, ERR-1): records with invalid contents, broken chains,
 * contradictory catalogues, and control blocks that are of a newer version or have wrong values.
 * Open must not crash. It must return an error that names the LSN, the page or the file, and return
 * the same error when it is repeated. In the tests with random records, open may also succeed.
 */
#include "forged_log.h"
#include "support/fixtures.h"

#include "io/io.h"

#include <lladd/bytes.h>
#include <lladd/inspect.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct fixture r;
static struct forged_log f;
static lladd_pageno page;
static uint32_t put, add, format, transfer, cells_type, cls;
static lladd_lsn page_lsn;

static int any_object(void *ctx, struct lladd_db *db, lladd_lsn lsn, uint64_t object,
                      struct lladd_span redo)
{
    (void)ctx;
    (void)db;
    (void)lsn;
    (void)object;
    (void)redo;
    return 0;
}

static const struct lladd_object_class object_class = {
    .struct_size = sizeof object_class,
    .name = "test.class",
    .version = 1,
    .redo = any_object,
};

static void begin_case(void)
{
    struct lladd_token token;
    fixture_init(&r, 0);
    ok_db(&r, lladd_register_class(&r.options, &object_class, &r.err));
    fixture_open(&r);
    page = fixture_page(&r);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, cell_put(txn, cell_of(page, 0), 5));
    ok(txn, cell_add(txn, cell_of(page, 1), 5));
    ok(txn, cells_transfer(txn, cell_of(page, 2), cell_of(page, 3), 5));
    ok(txn, lladd_log_object(txn, &object_class, 1, lladd_span_of("", 0), lladd_span_of("", 0),
                             &token, NULL));
    lladd_object_applied(txn, &token);
    done(lladd_commit(txn));
    fixture_close(&r);
    forged_open(&f, &r);
    put = forged_number(&f, "test.put");
    add = forged_number(&f, "test.add");
    format = forged_number(&f, "test.cells.format");
    transfer = forged_number(&f, "test.transfer");
    cells_type = forged_number(&f, "test.cells");
    cls = forged_number(&f, "test.class");
    page_lsn = forged_page_lsn(&f, page);
}

/* Opens twice. Asserts that both calls return this error, with a message that contains `what` and,
 * if lsn is not 0, the LSN. */
static void expect_refusal(int code, lladd_lsn lsn, const char *what)
{
    char text[64];
    forged_close(&f);
    snprintf(text, sizeof text, "LSN %llu", (unsigned long long)lsn.v);
    for (int again = 0; again < 2; again++) {
        int rc = fixture_try_open(&r);
        ck_assert_msg(rc == code, "%s: %s: %s", what, rc ? lladd_code_name(rc) : "it was opened",
                      r.err.message);
        if (lsn.v)
            ck_contains(r.err.message, text);
        ck_contains(r.err.message, what);
    }
    fixture_free(&r);
}

/* Appends one record, and asserts that open returns this error. */
static void expect_record(struct ll_record rec, int code, const char *what)
{
    expect_refusal(code, forged_append(&f, &rec, true), what);
}

static struct lladd_span bytes_of(const char *text)
{
    return lladd_span_of(text, strlen(text));
}

/* u16 cell, u64 value */
static struct lladd_span cell_bytes(unsigned cell)
{
    static unsigned char b[10];
    lladd_put16(b, (uint16_t)cell);
    lladd_put64(b + 2, 77);
    return lladd_span_of(b, sizeof b);
}

/* ---- single records ---------------------------------------------------------------------- */

START_TEST(numbers_that_no_catalogue_gives)
{
    begin_case();
    expect_record((struct ll_record){.kind = LL_REC_UPDATE, .op = 60000, .page = page.v},
                  LLADD_CORRUPT_LOG, "in no catalogue");
    begin_case();
    expect_record((struct ll_record){.kind = LL_REC_UPDATE, .op = cells_type, .page = page.v},
                  LLADD_CORRUPT_LOG, "is not an operation");
    begin_case();
    expect_record((struct ll_record){.kind = LL_REC_OBJECT, .op = put, .page = 3},
                  LLADD_CORRUPT_LOG, "test.put");
    static const uint8_t kinds[] = {LL_REC_UPDATE,    LL_REC_CLR,    LL_REC_CLR_END,
                                    LL_REC_UNDO_ONLY, LL_REC_OBJECT, LL_REC_OBJECT_CLR};
    for (unsigned i = 0; i < sizeof kinds; i++) {
        begin_case();
        expect_record((struct ll_record){.kind = kinds[i], .page = page.v}, LLADD_CORRUPT_LOG,
                      "in no catalogue");
    }
    begin_case();
    expect_record((struct ll_record){.kind = LL_REC_OBJECT_CLR, .op = cls, .page = 3},
                  LLADD_BAD_RECORD, "has no undo");
}
END_TEST

START_TEST(redo_bytes_that_validate_refuses)
{
    begin_case();
    expect_record((struct ll_record){.kind = LL_REC_UPDATE,
                                     .op = put,
                                     .page = page.v,
                                     .page_prev = page_lsn,
                                     .redo = cell_bytes(CELLS)},
                  LLADD_BAD_RECORD, "test.put");
    begin_case();
    expect_record((struct ll_record){.kind = LL_REC_UPDATE,
                                     .op = put,
                                     .page = page.v,
                                     .page_prev = page_lsn,
                                     .redo = bytes_of("x")},
                  LLADD_BAD_RECORD, "do not fit page");
    begin_case(); /* a page of another type */
    expect_record((struct ll_record){.kind = LL_REC_UPDATE,
                                     .op = put,
                                     .page = 0,
                                     .page_prev = forged_page_lsn(&f, lladd_page_of(0)),
                                     .redo = cell_bytes(0)},
                  LLADD_BAD_RECORD, "do not fit page 0");
    begin_case(); /* an operation without redo */
    expect_record(
        (struct ll_record){
            .kind = LL_REC_UPDATE, .op = transfer, .page = page.v, .page_prev = page_lsn},
        LLADD_BAD_RECORD, "test.transfer");
    begin_case(); /* an operation without undo */
    expect_record(
        (struct ll_record){.kind = LL_REC_CLR, .op = format, .page = page.v, .page_prev = page_lsn},
        LLADD_BAD_RECORD, "test.cells.format");
}
END_TEST

/* BUF-6: the page does not have the LSN that the record expects. */
START_TEST(a_page_that_has_lost_a_write)
{
    char text[32];
    begin_case();
    snprintf(text, sizeof text, "page %llu", (unsigned long long)page.v);
    expect_record((struct ll_record){.kind = LL_REC_UPDATE,
                                     .op = put,
                                     .page = page.v,
                                     .page_prev = lladd_lsn_of(page_lsn.v + 8),
                                     .redo = cell_bytes(0)},
                  LLADD_CORRUPT_PAGE, text);
}
END_TEST

/* BUF-2. In the page's chain of records, one after the base is missing. Redo does not need that
 * part of the log. */
START_TEST(a_page_with_a_hole_in_its_chain_is_not_repaired)
{
    struct lladd_page *held;
    size_t len, at;
    begin_case();
    struct ll_record base = {
        .kind = LL_REC_UPDATE, .flags = LL_REC_FORMATS, .op = format, .page = page.v};
    lladd_lsn missing = lladd_lsn_of(forged_append(&f, &base, true).v + 8);
    struct ll_record hole = {.kind = LL_REC_UPDATE,
                             .op = put,
                             .page = page.v,
                             .page_prev = missing,
                             .redo = cell_bytes(0)};
    lladd_lsn lsn = forged_append(&f, &hole, true);
    (void)forged_checkpoint(&f);
    struct ll_record begin = {.kind = LL_REC_CHECKPOINT_BEGIN, .page = LLADD_NO_PAGE};
    struct ll_record end = {.kind = LL_REC_CHECKPOINT_END, .page = LLADD_NO_PAGE};
    unsigned char keep[12];
    lladd_put64(keep, base.lsn.v);
    memcpy(keep + 8, "keep", 4);
    struct ll_record pin = {
        .kind = LL_REC_PIN, .page = LLADD_NO_PAGE, .redo = lladd_span_of(keep, sizeof keep)};
    (void)forged_append(&f, &begin, false);
    (void)forged_append(&f, &end, false);
    (void)forged_append(&f, &pin, false);
    forged_close(&f);
    at = page.v * 4096 + 2000;
    unsigned char *bytes = fixture_file(&r, "pages", &len);
    ck_assert_uint_gt(len, at);
    bytes[at] ^= 1;
    fixture_file_write(&r, "pages", bytes + at, 1, at);
    free(bytes);
    fixture_open(&r);
    ck_assert_int_eq(lladd_page_fix(r.db, page, LLADD_LATCH_SHARED, &held, &r.err),
                     LLADD_CORRUPT_PAGE);
    ck_assert_uint_eq(r.err.lsn.v, lsn.v);
    ck_assert_uint_eq(fixture_stats(&r).repairs, 0);
    fixture_free(&r);
}
END_TEST

START_TEST(page_images_that_make_no_sense)
{
    unsigned char b[64] = {0};
    begin_case();
    expect_record((struct ll_record){.kind = LL_REC_IMAGE, .page = page.v, .redo = bytes_of("x")},
                  LLADD_BAD_RECORD, "page image");
    lladd_put32(b + 4, 4); /* the hole begins in the header */
    begin_case();
    expect_record((struct ll_record){.kind = LL_REC_IMAGE,
                                     .page = page.v,
                                     .redo = lladd_span_of(b, sizeof b)},
                  LLADD_BAD_RECORD, "page image");
    lladd_put32(b + 4, 100);
    lladd_put32(b + 8, 4000); /* the hole ends beyond the page */
    begin_case();
    expect_record((struct ll_record){.kind = LL_REC_IMAGE,
                                     .page = page.v,
                                     .redo = lladd_span_of(b, sizeof b)},
                  LLADD_BAD_RECORD, "page image");
    lladd_put32(b + 8, 3000); /* the image has too few bytes, unpacked and packed */
    for (uint8_t flags = 0; flags <= LL_REC_COMPRESSED; flags += LL_REC_COMPRESSED) {
        begin_case();
        expect_record((struct ll_record){.kind = LL_REC_IMAGE,
                                         .flags = flags,
                                         .page = page.v,
                                         .redo = lladd_span_of(b, sizeof b)},
                      LLADD_BAD_RECORD, "page image");
    }
}
END_TEST

START_TEST(catalogue_records_that_make_no_sense)
{
    unsigned char b[40] = {0};
    memset(b, 'x', sizeof b);
    begin_case();
    expect_record((struct ll_record){.kind = LL_REC_CATALOGUE, .redo = bytes_of("short")},
                  LLADD_BAD_RECORD, "catalogue");
    begin_case();
    expect_record((struct ll_record){.kind = LL_REC_CATALOGUE, .redo = lladd_span_of(b, sizeof b)},
                  LLADD_BAD_RECORD, "catalogue");
    /* The name is valid, but its number is that of another name. */
    lladd_put32(b + 4, 1);
    b[8] = LL_NAME_OP;
    b[9] = 4;
    b[10] = b[11] = 0;
    memcpy(b + 12, "name", 4);
    lladd_put32(b + 16, 0);
    begin_case();
    lladd_put32(b, put);
    expect_record((struct ll_record){.kind = LL_REC_CATALOGUE, .redo = lladd_span_of(b, 20)},
                  LLADD_CORRUPT_LOG, "given twice");
    begin_case();
    lladd_put32(b, 0);
    expect_record((struct ll_record){.kind = LL_REC_CATALOGUE, .redo = lladd_span_of(b, 20)},
                  LLADD_BAD_RECORD, "catalogue");
    /* Missing fields, or fields of unknown types. */
    begin_case();
    lladd_put32(b, 5000);
    b[10] = 3;
    expect_record((struct ll_record){.kind = LL_REC_CATALOGUE, .redo = lladd_span_of(b, 20)},
                  LLADD_BAD_RECORD, "catalogue");
    begin_case();
    b[11] = 1;
    b[10] = 0;
    b[16] = 99;
    b[17] = 1;
    expect_record((struct ll_record){.kind = LL_REC_CATALOGUE, .redo = lladd_span_of(b, 24)},
                  LLADD_BAD_RECORD, "catalogue");
    /* The name of a field is too long. */
    unsigned char c[96];
    memset(c, 'x', sizeof c);
    memcpy(c, b, 16);
    c[16] = LLADD_FIELD_U8;
    c[17] = 64;
    lladd_put32(c + 18 + 64, 0);
    begin_case();
    expect_record((struct ll_record){.kind = LL_REC_CATALOGUE, .redo = lladd_span_of(c, 86)},
                  LLADD_BAD_RECORD, "catalogue");
}
END_TEST

static void expect_part(unsigned kind, size_t len, int code, const char *what)
{
    unsigned char b[128] = {0};
    b[0] = (unsigned char)kind;
    lladd_put32(b + 1, (uint32_t)len);
    memset(b + 5, 0xff, 60);
    begin_case();
    struct ll_record rec = {.kind = LL_REC_CHECKPOINT_DATA,
                            .redo = lladd_span_of(b, 5 + (len < 60 ? len : 60))};
    lladd_lsn lsn = forged_append(&f, &rec, false);
    expect_refusal(code, code == LLADD_BAD_RECORD ? lsn : lladd_lsn_of(0), what);
}

START_TEST(checkpoint_data_that_make_no_sense)
{
    expect_part(99, 8, LLADD_BAD_RECORD, "checkpoint data");
    expect_part(LL_CKPT_TXN, 43, LLADD_BAD_RECORD, "checkpoint data");
    expect_part(LL_CKPT_TXN, 1000, LLADD_BAD_RECORD, "checkpoint data");
    expect_part(LL_CKPT_NAME, 5, LLADD_BAD_RECORD, "catalogue");
    expect_part(LL_CKPT_REDO_BARRIER, 23, LLADD_BAD_RECORD, "checkpoint data");
    expect_part(LL_CKPT_REDO_BARRIER, 24, LLADD_BAD_RECORD, "redo barrier");
    expect_part(LL_CKPT_PIN, 8, LLADD_BAD_RECORD, "checkpoint data");
    expect_part(LL_CKPT_HEURISTIC, 8, LLADD_BAD_RECORD, "heuristic outcome");
    expect_part(LL_CKPT_HEURISTIC, 50, LLADD_BAD_RECORD, "heuristic outcome");
    expect_part(LL_CKPT_PAGES, 7, LLADD_BAD_RECORD, "checkpoint data");
    expect_part(LL_CKPT_PAGES, 8, LLADD_MISSING_FILE, "pages");
}
END_TEST

START_TEST(barriers_pins_and_prepares_that_make_no_sense)
{
    unsigned char b[64] = {0};
    begin_case();
    expect_record((struct ll_record){.kind = LL_REC_REDO_BARRIER, .redo = bytes_of("barrier")},
                  LLADD_BAD_RECORD, "redo barrier");
    lladd_put64(b, UINT64_C(1) << 60);
    lladd_put64(b + 8, UINT64_MAX);
    begin_case();
    struct ll_record rec = {.kind = LL_REC_REDO_BARRIER, .redo = lladd_span_of(b, 16)};
    (void)forged_append(&f, &rec, true);
    expect_refusal(LLADD_BAD_RECORD, lladd_lsn_of(0), "redo barrier");
    begin_case();
    expect_record((struct ll_record){.kind = LL_REC_PIN, .redo = bytes_of("pin")}, LLADD_BAD_RECORD,
                  "pin");
    begin_case();
    expect_record((struct ll_record){.kind = LL_REC_PREPARE, .redo = bytes_of("prepare")},
                  LLADD_BAD_RECORD, "prepare");
    memset(b, 0xff, sizeof b);
    begin_case();
    expect_record((struct ll_record){.kind = LL_REC_PREPARE, .redo = lladd_span_of(b, 64)},
                  LLADD_BAD_RECORD, "prepare");
    begin_case();
    expect_record((struct ll_record){.kind = LL_REC_HEURISTIC, .redo = lladd_span_of(b, 64)},
                  LLADD_BAD_RECORD, "heuristic outcome");
    begin_case();
    b[0] = LLADD_OUTCOME_COMMIT;
    expect_record((struct ll_record){.kind = LL_REC_COMMIT, .redo = lladd_span_of(b, 64)},
                  LLADD_BAD_RECORD, "heuristic outcome");
}
END_TEST

/* The record states that records with its blobs precede it, but there are none. */
START_TEST(a_prepare_record_without_its_blobs)
{
    unsigned char b[30] = {0};
    lladd_put64(b, 1);
    lladd_put32(b + 8, 1); /* the length of gtrid */
    lladd_put32(b + 24, 3);
    b[29] = 'g';
    begin_case();
    struct ll_record rec = {.kind = LL_REC_PREPARE, .redo = lladd_span_of(b, sizeof b)};
    (void)forged_append(&f, &rec, true);
    forged_close(&f);
    int rc = fixture_try_open(&r);
    ck_assert_int_eq(lladd_code_root(rc), LLADD_ROOT_MISUSE == lladd_code_root(rc)
                                              ? LLADD_ROOT_MISUSE
                                              : LLADD_ROOT_DATA);
    fixture_free(&r);
}
END_TEST

/* ---- losers ------------------------------------------------------------------------------ */

START_TEST(undo_bytes_that_validate_refuses)
{
    begin_case();
    struct ll_record rec = {.kind = LL_REC_UPDATE,
                            .flags = LL_REC_UNDO_PAGE,
                            .op = put,
                            .page = page.v,
                            .page_prev = page_lsn,
                            .redo = cell_bytes(0),
                            .undo = bytes_of("what?")};
    expect_record(rec, LLADD_UNDO_FAILED, "test.put");
    begin_case();
    rec = (struct ll_record){.kind = LL_REC_UNDO_ONLY,
                             .flags = LL_REC_UNDO_LOGICAL,
                             .op = transfer,
                             .page = LLADD_NO_PAGE,
                             .undo = bytes_of("what?")};
    expect_record(rec, LLADD_UNDO_FAILED, "test.transfer");
    begin_case(); /* an operation without logical undo */
    rec.op = put;
    expect_record(rec, LLADD_UNDO_FAILED, "test.put");
}
END_TEST

/* `prev` and `undo_next` must name earlier records of the same transaction. Here they do not. */
START_TEST(chains_that_lead_out_of_the_transaction)
{
    static const int64_t offsets[] = {8, 1000000, -8, -16, 0};
    for (unsigned i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        begin_case();
        struct ll_record first = {.kind = LL_REC_NOTE, .page = LLADD_NO_PAGE};
        lladd_lsn start = forged_append(&f, &first, true);
        struct ll_record second = {.kind = LL_REC_CLR_END,
                                   .op = transfer,
                                   .page = LLADD_NO_PAGE,
                                   .txn = start,
                                   .prev = start};
        second.undo_next = lladd_lsn_of(forged_tail(&f).v + (uint64_t)offsets[i]);
        (void)forged_append(&f, &second, false);
        forged_close(&f);
        int rc = fixture_try_open(&r);
        ck_assert_msg(rc && (lladd_code_root(rc) == LLADD_ROOT_DATA || rc == LLADD_OUT_OF_RANGE ||
                             rc == LLADD_UNDO_FAILED),
                      "offset %lld: %d %s", (long long)offsets[i], rc, r.err.message);
        fixture_free(&r);
    }
}
END_TEST

/* ---- random records ---------------------------------------------------------------------- */

static uint64_t seed;

static uint64_t any(uint64_t n)
{
    return seeded_next(&seed) % n;
}

static lladd_lsn any_lsn(lladd_lsn about)
{
    switch (any(5)) {
    case 0:
        return lladd_lsn_of(0);
    case 1:
        return page_lsn;
    case 2:
        return about;
    case 3:
        return lladd_lsn_of(about.v - 8 * any(200));
    default:
        return lladd_lsn_of(any(UINT64_C(1) << 40) * 8);
    }
}

/* Makes random bytes. Some contain a valid piece, but maybe at a wrong place. */
static struct lladd_span any_bytes(unsigned char *buf, size_t max)
{
    size_t len = any(4) ? any(60) : any(max);
    seeded_fill(any(1000), buf, len);
    if (any(2) && len >= 10)
        lladd_put16(buf, (uint16_t)any(CELLS + 2));
    if (any(3) == 0 && len >= 16) {
        lladd_put32(buf, (uint32_t)any(40));
        lladd_put32(buf + 4, (uint32_t)any(3));
    }
    if (any(3) == 0 && len >= 5) {
        buf[0] = (unsigned char)(1 + any(6));
        lladd_put32(buf + 1, (uint32_t)len - 5);
    }
    return lladd_span_of(buf, len);
}

static void append_anything(lladd_lsn *txn, lladd_lsn *last)
{
    static unsigned char redo[2048], undo[2048];
    uint32_t ops[] = {put, add, format, transfer, cells_type, cls, 60000, 0};
    lladd_lsn tail = forged_tail(&f);
    struct ll_record rec = {.kind = (uint8_t)(1 + any(LL_REC_KINDS - 1)),
                            .flags = (uint8_t)any(32),
                            .op = ops[any(8)],
                            .depth = (uint32_t)any(4),
                            .page = any(4)   ? page.v
                                    : any(5) ? any(20)
                                             : LLADD_NO_PAGE};
    if (rec.kind == LL_REC_SEAL)
        return; /* a record that the log writes for itself; the tests in tests/log forge such
                 * records */
    rec.prev = any(2) ? *last : any_lsn(tail);
    rec.txn = any(3) ? *txn : any_lsn(tail);
    rec.page_prev = any_lsn(tail);
    rec.undo_next = any(2) ? *last : any_lsn(tail);
    rec.redo = any_bytes(redo, sizeof redo);
    rec.undo = any_bytes(undo, sizeof undo);
    *last = forged_append(&f, &rec, any(2));
    if (rec.txn.v == rec.lsn.v)
        *txn = rec.lsn;
}

START_TEST(records_of_any_sort_in_any_order_are_survived)
{
    unsigned opened = 0, refused_ = 0;
    uint64_t n = getenv("LLADD_NIGHTLY") ? 200000 : 1500;
    for (uint64_t i = 1; i <= n; i++) {
        lladd_lsn txn = {0}, last = {0};
        seed = i;
        begin_case();
        for (uint64_t k = 1 + any(4); k > 0; k--)
            append_anything(&txn, &last);
        forged_close(&f);
        int rc = fixture_try_open(&r);
        if (rc == 0) {
            opened++;
            struct lladd_db *db = r.db;
            r.db = NULL;
            (void)lladd_close(db); /* a page may have become unreadable */
        } else {
            refused_++;
            enum lladd_root root = lladd_code_root(rc);
            ck_assert_msg(root == LLADD_ROOT_DATA || root == LLADD_ROOT_POISONED ||
                              root == LLADD_ROOT_RESOURCE || rc == LLADD_NO_OPERATION ||
                              rc == LLADD_OUT_OF_RANGE,
                          "seed %llu: %s: %s", (unsigned long long)i, lladd_code_name(rc),
                          r.err.message);
        }
        fixture_free(&r);
    }
    ck_assert_uint_gt(opened, n / 20);
    ck_assert_uint_gt(refused_, n / 20);
}
END_TEST

/* ---- the control block ------------------------------------------------------------------- */

static void write_control(void (*change)(struct ll_control *))
{
    unsigned char b[LL_CONTROL_BYTES];
    begin_case();
    forged_close(&f);
    struct ll_control c = f.control;
    change(&c);
    ll_control_encode(&c, b);
    fixture_file_write(&r, "control", b, sizeof b, 0);
    fixture_file_write(&r, "control", b, sizeof b, LL_CONTROL_COPY);
}

static void expect_control(void (*change)(struct ll_control *), int code, const char *what)
{
    write_control(change);
    ck_assert_int_eq(fixture_try_open(&r), code);
    ck_contains(r.err.message, what);
    fixture_free(&r);
}

static void newer(struct ll_control *c)
{
    c->format = LL_FORMAT_VERSION + 1;
}
static void unknown_feature(struct ll_control *c)
{
    c->incompatible = 1u << 30;
}
static void unknown_feature_of_writers(struct ll_control *c)
{
    c->read_only_compatible = 1u << 30;
}
static void unknown_features_that_may_be_ignored(struct ll_control *c)
{
    c->compatible = UINT64_MAX;
}
static void odd_page_size(struct ll_control *c)
{
    c->page_size = 5000;
}
static void no_format(struct ll_control *c)
{
    c->format = 0;
}
static void checkpoint_elsewhere(struct ll_control *c)
{
    c->checkpoint = lladd_lsn_of(c->checkpoint.v + 8);
}
static void checkpoint_far_away(struct ll_control *c)
{
    c->checkpoint = lladd_lsn_of(UINT64_C(1) << 50);
}
static void watermark_far_away(struct ll_control *c)
{
    c->watermark = lladd_lsn_of(UINT64_C(1) << 50);
}

START_TEST(control_blocks_of_newer_versions_or_with_wrong_values)
{
    expect_control(newer, LLADD_NEWER_FORMAT, "format version");
    expect_control(unknown_feature, LLADD_NEWER_FORMAT, "features");
    expect_control(odd_page_size, LLADD_CORRUPT_CONTROL, "page size");
    expect_control(no_format, LLADD_CORRUPT_CONTROL, "control");
    expect_control(checkpoint_elsewhere, LLADD_CORRUPT_LOG, "LSN");
    expect_control(checkpoint_far_away, LLADD_MISSING_FILE, "LSN");
    expect_control(watermark_far_away, LLADD_CORRUPT_LOG, "LSN");
}
END_TEST

/* Some feature flags concern only writing. If a library does not know such a flag, it can inspect
 * the database, but open refuses the database and changes nothing. Other flags concern neither
 * reading nor writing. A library that does not know these can open the database. */
START_TEST(features_that_need_not_be_known)
{
    struct lladd_inspect_info info = {.struct_size = sizeof info};
    struct lladd_inspect *view;
    struct lladd_file *file;
    struct ll_control after;
    expect_control(unknown_feature_of_writers, LLADD_NEWER_FORMAT, "0x40000000");
    write_control(unknown_feature_of_writers);
    uint64_t seq = f.control.seq;
    ck_assert_int_eq(fixture_try_open(&r), LLADD_NEWER_FORMAT);
    ok_db(&r, lladd_inspect_open(r.dir, &r.options, &view, &r.err));
    ck_assert_int_eq(lladd_inspect_info_get(view, &info), 0);
    ck_assert_uint_eq(info.read_only_compatible, 1u << 30);
    lladd_inspect_close(view);
    ck_assert_int_eq(ll_io_open(r.options.device, "control", 0, &file), 0);
    ck_assert_int_eq(ll_control_read(r.options.device, file, &after, &r.err), 0);
    ck_assert_int_eq(ll_io_close(r.options.device, file), 0);
    ck_assert_uint_eq(after.seq, seq);
    fixture_free(&r);
    write_control(unknown_features_that_may_be_ignored);
    fixture_open(&r);
    fixture_expect(&r, cell_of(page, 0), 5);
    fixture_free(&r);
}
END_TEST

/* One good copy of the control block is enough. If both are good, the newer copy is used. */
START_TEST(one_good_copy_of_the_control_block_is_enough)
{
    unsigned char rot[LL_CONTROL_BYTES];
    memset(rot, 0x5a, sizeof rot);
    for (unsigned copy = 0; copy < 2; copy++) {
        begin_case();
        forged_close(&f);
        fixture_file_write(&r, "control", rot, sizeof rot, copy * LL_CONTROL_COPY);
        fixture_open(&r);
        fixture_expect(&r, cell_of(page, 0), 5);
        fixture_free(&r);
        /* The other copy is from an earlier write. */
        begin_case();
        forged_close(&f);
        struct ll_control c = f.control;
        c.seq -= 1;
        c.checkpoint = lladd_lsn_of(UINT64_C(1) << 50);
        ll_control_encode(&c, rot);
        fixture_file_write(&r, "control", rot, sizeof rot, copy * LL_CONTROL_COPY);
        fixture_open(&r);
        fixture_expect(&r, cell_of(page, 0), 5);
        fixture_free(&r);
    }
    begin_case();
    forged_close(&f);
    memset(rot, 0x5a, sizeof rot);
    lladd_put32(rot + 4, 0x42444c4c); /* the magic number of a control block */
    fixture_file_write(&r, "control", rot, sizeof rot, 0);
    fixture_file_write(&r, "control", rot, sizeof rot, LL_CONTROL_COPY);
    ck_assert_int_ne(fixture_try_open(&r), 0);
    ck_contains(r.err.message, "control");
    fixture_free(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("hostile");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, numbers_that_no_catalogue_gives);
    tcase_add_test(tc, redo_bytes_that_validate_refuses);
    tcase_add_test(tc, a_page_that_has_lost_a_write);
    tcase_add_test(tc, a_page_with_a_hole_in_its_chain_is_not_repaired);
    tcase_add_test(tc, page_images_that_make_no_sense);
    tcase_add_test(tc, catalogue_records_that_make_no_sense);
    tcase_add_test(tc, checkpoint_data_that_make_no_sense);
    tcase_add_test(tc, barriers_pins_and_prepares_that_make_no_sense);
    tcase_add_test(tc, a_prepare_record_without_its_blobs);
    tcase_add_test(tc, undo_bytes_that_validate_refuses);
    tcase_add_test(tc, chains_that_lead_out_of_the_transaction);
    tcase_add_test(tc, records_of_any_sort_in_any_order_are_survived);
    tcase_add_test(tc, control_blocks_of_newer_versions_or_with_wrong_values);
    tcase_add_test(tc, features_that_need_not_be_known);
    tcase_add_test(tc, one_good_copy_of_the_control_block_is_enough);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
