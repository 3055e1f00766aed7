/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Open tells damage from a torn tail (LOG-3). Damage is any change below the newest watermark in
 * the log or the control file: flipped or zeroed bytes, or a file that is missing, truncated or of
 * another log. If there is damage, open fails with an error that names the LSN and the file, and
 * truncates nothing. The same change beyond the newest watermark is a torn tail. A reader for
 * inspection goes on after the damage.
 */
#include "log/log_private.h"
#include "log_fixture.h"

#include <string.h>

static struct fixture f;

static void setup(void)
{
    fixture_init(&f);
    f.cfg.segment_max = 4096;
}

static void teardown(void)
{
    fixture_free(&f);
}

/* ---- helpers ---- */

static void append_some(unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        put(&f, (i * 29) % 190);
}

static void check_names(const char *file)
{
    ck_assert_msg(strstr(f.err.message, file) != NULL, "\"%s\" does not name %s", f.err.message,
                  file);
    ck_assert_uint_ne(f.err.lsn.v, 0);
}

/* Makes a log of several segments; its last group begins at *last. */
static void make_log(uint64_t *last)
{
    fixture_create(&f);
    while (ll_log_tail(f.log).v < 3 * 4032) {
        append_some(8);
        force(&f);
    }
    *last = ll_log_durable(f.log).v;
    append_some(3);
    force(&f);
}

/* ---- every byte ---- */

/* _i 0 flips one bit, _i 1 flips all bits of a byte, and _i 2 writes eight bytes of zeros. The seal
 * of the last group has the only watermark that open knows. */
START_TEST(every_byte_below_the_watermark)
{
    uint64_t last;
    make_log(&last);
    uint64_t end = ll_log_durable(f.log).v;
    for (uint64_t first = 8; first < end; first += 4032) {
        char name[LL_LOG_NAME_SIZE];
        unsigned char bytes[4096], old[8], new[8];
        name_of(first, name);
        read_file(&f, name, 0, bytes, sizeof bytes);
        for (uint64_t off = 0; off < 4096; off += _i == 2 ? 8 : 1) {
            uint64_t lsn = off < 64 ? first : first + off - 64;
            size_t n = _i == 2 ? 8 : 1;
            if (lsn >= end)
                break;
            memcpy(old, bytes + off, n);
            for (size_t i = 0; i < n; i++)
                new[i] = _i == 2 ? 0 : (unsigned char)(old[i] ^ (_i ? 0xff : 1 << off % 8));
            if (memcmp(old, new, n) == 0)
                continue;
            write_file(&f, name, off, new, n);
            int rc = look(&f);
            if (lsn < last) {
                ck_assert_msg(rc == LLADD_CORRUPT_LOG, "%s, byte %u: %d", name, (unsigned)off, rc);
                /* The damaged record begins in this file or in the previous one. */
                ck_assert_uint_le(f.err.lsn.v, lsn);
                check_names("log/");
            } else if (rc) { /* the watermark does not cover the last group, so open finds only
                              * damage to a header in it */
                ck_assert_uint_lt(off, 64);
            }
            write_file(&f, name, off, old, n);
        }
    }
    must(&f, look(&f));
}
END_TEST

/* After a clean stop the watermark in the control file is the end of the log. So open finds damage
 * to any byte of the last segment before that end. */
START_TEST(every_byte_after_a_clean_stop)
{
    uint64_t last;
    make_log(&last);
    stop(&f);
    f.start.segment.v = 0;
    uint64_t end = f.start.end.v;
    uint64_t first = 8 + (end - 8) / 4032 * 4032;
    char name[LL_LOG_NAME_SIZE];
    name_of(first, name);
    for (uint64_t off = 0; off < 64 + end - first; off++) {
        flip_byte(&f, name, off, 4);
        f.start.clean = off % 2;
        ck_assert_int_eq(look(&f), LLADD_CORRUPT_LOG);
        flip_byte(&f, name, off, 4);
    }
    must(&f, look(&f));
}
END_TEST

/* An open that fails because of damage changes nothing. */
START_TEST(refusing_changes_nothing)
{
    char name[LL_LOG_NAME_SIZE];
    uint64_t last;
    make_log(&last);
    name_of(8, name);
    flip_byte(&f, name, 100, 1);
    fault_device_reset_calls(f.fd);
    must_fail(&f, LLADD_CORRUPT_LOG, look(&f));
    must_fail(&f, LLADD_BAD_STATE, ll_log_start(f.log, &f.err));
    ck_assert_uint_eq(fault_device_calls(f.fd, FAULT_WRITES), 0);
    flip_byte(&f, name, 100, 1);
    must(&f, reopen(&f));
    check_records(&f, 0, f.count);
}
END_TEST

/* The damage covers the end of one block and all records of the next. The seals in the blocks after
 * these prove the damage. */
START_TEST(proof_after_much_damage)
{
    unsigned char rubbish[4096];
    char name[LL_LOG_NAME_SIZE];
    uint64_t last;
    make_log(&last);
    seeded_fill(9, rubbish, sizeof rubbish);
    name_of(8, name);
    write_file(&f, name, 2000, rubbish, 2096);
    name_of(8 + 4032, name);
    write_file(&f, name, 64, rubbish, 4032); /* the header stays */
    must_fail(&f, LLADD_CORRUPT_LOG, look(&f));
    check_names("log/0000000000000008.seg");
}
END_TEST

/* A payload that looks like a seal proves nothing. */
START_TEST(payload_is_no_proof)
{
    unsigned char fake[512], lie[8];
    fixture_create(&f);
    append_some(3);
    force(&f);
    f.start.from = ll_log_tail(f.log);
    f.start.watermark = f.start.from;
    lladd_lsn torn = put(&f, 10);
    /* The payload of another record contains a seal that would be valid at its place. */
    struct ll_record rec = {
        .kind = LL_REC_NOTE, .page = LLADD_NO_PAGE, .redo = lladd_span_of(fake, sizeof fake)};
    memset(fake, 0, sizeof fake);
    uint64_t at = ll_log_tail(f.log).v + LL_RECORD_NARROW + 80;
    lladd_put64(lie, at - 8);
    struct ll_record seal = {.lsn = {at},
                             .kind = LL_REC_SEAL,
                             .page = LLADD_NO_PAGE,
                             .size = LL_LOG_SEAL_SIZE,
                             .redo = lladd_span_of(lie, 8)};
    ll_log__record_encode(&seal, ll_record_salt(f.cfg.uuid, 1), fake + 80);
    lladd_put64(fake + 80 + 8, at);
    put_record(&f, &rec);
    must(&f, ll_log_write(f.log, rec.lsn, &f.err));
    struct ll_log_place place;
    ck_assert(ll_log_place(f.log, torn, &place));
    f.count = 0;
    flip_byte(&f, place.name, place.offset, 1);
    must(&f, look(&f));
}
END_TEST

/* ---- whole files ---- */

/* A header that records follow is damaged, not torn. In each segment, each bit of the first header
 * is flipped in turn. The control file has no watermark. */
START_TEST(every_bit_of_first_headers)
{
    char name[LL_LOG_NAME_SIZE];
    uint64_t last;
    make_log(&last);
    for (uint64_t first = 8; first < last; first += 4032) {
        name_of(first, name);
        for (unsigned bit = 0; bit < 8 * LL_LOG_BLOCK_HEADER; bit++) {
            flip_byte(&f, name, bit / 8, (unsigned char)(1u << bit % 8));
            must_fail(&f, LLADD_CORRUPT_LOG, look(&f));
            ck_assert_msg(strstr(f.err.message, name) != NULL, "%s: %s", name, f.err.message);
            flip_byte(&f, name, bit / 8, (unsigned char)(1u << bit % 8));
        }
        must(&f, look(&f));
    }
}
END_TEST

START_TEST(missing_and_short_segments)
{
    char name[LL_LOG_NAME_SIZE], other[LL_LOG_NAME_SIZE];
    unsigned char bytes[4096];
    uint64_t last;
    make_log(&last);
    /* If the newest file is missing, its seals are missing, too. So the control file must prove the
     * loss. */
    f.start.watermark.v = last;
    for (uint64_t first = 8; first < last; first += 4032) {
        struct lladd_file *file;
        name_of(first, name);
        read_file(&f, name, 0, bytes, sizeof bytes);
        for (unsigned how = 0; how < 3; how++) {
            ck_assert_int_eq(f.memory->ops->unlink(f.memory, name), 0);
            if (how > 0) {
                ck_assert_int_eq(ll_io_open(f.memory, name, LLADD_OPEN_CREATE, &file), 0);
                ck_assert_int_eq(ll_io_pwrite(f.memory, file, bytes, how == 1 ? 0 : 1000, 0), 0);
                ck_assert_int_eq(ll_io_close(f.memory, file), 0);
            }
            int rc = look(&f);
            ck_assert(rc == LLADD_MISSING_FILE || rc == LLADD_CORRUPT_LOG);
            ck_assert_uint_ne(f.err.lsn.v, 0);
            /* Nothing names the first file if it is missing, so the message names the second. */
            name_of(first == 8 && how == 0 ? 8 + 4032 : first, other);
            ck_assert_msg(strstr(f.err.message, other) != NULL, "%s: %s", other, f.err.message);
            if (how > 0)
                ck_assert_int_eq(f.memory->ops->unlink(f.memory, name), 0);
            ck_assert_int_eq(ll_io_open(f.memory, name, LLADD_OPEN_CREATE, &file), 0);
            ck_assert_int_eq(ll_io_pwrite(f.memory, file, bytes, sizeof bytes, 0), 0);
            ck_assert_int_eq(ll_io_close(f.memory, file), 0);
        }
        must(&f, look(&f));
    }
    /* A segment has the name of another one. */
    name_of(8 + 4032, name);
    name_of(8 + 2 * 4032, other);
    read_file(&f, other, 0, bytes, sizeof bytes);
    write_file(&f, name, 0, bytes, sizeof bytes);
    must_fail(&f, LLADD_MISSING_FILE, look(&f));
}
END_TEST

START_TEST(a_log_of_another_database)
{
    uint64_t last;
    make_log(&last);
    f.cfg.uuid[3] ^= 1;
    must_fail(&f, LLADD_FOREIGN_FILE, look(&f));
    check_names("log/0000000000000008.seg");
    f.cfg.uuid[3] ^= 1;
    must(&f, reopen(&f));
    put(&f, 1);
    stop(&f);
    f.cfg.uuid[3] ^= 1;
    must_fail(&f, LLADD_FOREIGN_FILE, look(&f));
}
END_TEST

START_TEST(no_log_at_all)
{
    fixture_create(&f);
    char name[LL_LOG_NAME_SIZE];
    name_of(8, name);
    ll_log_close(f.log);
    f.log = NULL;
    ck_assert_int_eq(f.memory->ops->unlink(f.memory, name), 0);
    must_fail(&f, LLADD_MISSING_FILE, ll_log_open(&f.cfg, &f.start, &f.log, &f.err));
    f.start.clean = true;
    f.start.segment.v = 8;
    f.start.segment_bytes = 4096;
    must_fail(&f, LLADD_MISSING_FILE, ll_log_open(&f.cfg, &f.start, &f.log, &f.err));
    check_names(name);
}
END_TEST

/* Opening after a clean stop reads only the last segment's file, and checks it. */
START_TEST(a_clean_open_checks_the_last_segment)
{
    char name[LL_LOG_NAME_SIZE];
    fixture_create(&f);
    append_some(5);
    stop(&f);
    name_of(8, name);
    for (uint64_t off = 0; off < LL_LOG_BLOCK_HEADER; off++) {
        flip_byte(&f, name, off, 128);
        int rc = ll_log_open(&f.cfg, &f.start, &f.log, &f.err);
        ck_assert_int_eq(rc, LLADD_CORRUPT_LOG);
        check_names(name);
        flip_byte(&f, name, off, 128);
    }
    struct ll_log_start wrong = f.start;
    wrong.segment_bytes = 8192;
    must_fail(&f, LLADD_CORRUPT_LOG, ll_log_open(&f.cfg, &wrong, &f.log, &f.err));
    must(&f, ll_log_open(&f.cfg, &f.start, &f.log, &f.err));
    must(&f, ll_log_start(f.log, &f.err));
}
END_TEST

/* Files that are no segments do not disturb the log. They stay, except new.tmp, which is the name
 * of a segment that is being made. */
START_TEST(files_that_are_no_segments)
{
    const char *names[] = {"log/README", "log/0000000000000008.seg.bak", "log/new.tmp",
                           "log/ffffffffffffffff.seg"};
    fixture_create(&f);
    append_some(5);
    force(&f);
    for (unsigned i = 0; i < 4; i++) {
        struct lladd_file *file;
        ck_assert_int_eq(ll_io_open(f.memory, names[i], LLADD_OPEN_CREATE, &file), 0);
        ck_assert_int_eq(ll_io_pwrite(f.memory, file, "?", 1, 10000), 0);
        ck_assert_int_eq(ll_io_close(f.memory, file), 0);
    }
    must(&f, reopen(&f));
    append_some(50);
    check_records(&f, 0, f.count);
    for (unsigned i = 0; i < 4; i++) {
        struct lladd_file *file;
        uint64_t size;
        int rc = ll_io_open(f.memory, names[i], 0, &file);
        ck_assert_msg(rc == (i == 2 ? -ENOENT : 0), "%s", names[i]);
        if (rc)
            continue;
        ck_assert_int_eq(ll_io_size(f.memory, file, &size), 0);
        ck_assert_uint_eq(size, 10001);
        ck_assert_int_eq(ll_io_close(f.memory, file), 0);
    }
}
END_TEST

/* A cut proves that the log reached the cut, even if no seal proves this. */
START_TEST(a_cut_proves_the_log_before_it)
{
    fixture_create(&f);
    append_some(5);
    force(&f);
    append_some(5);
    must(&f, ll_log_write(f.log, f.list[f.count - 1].rec.lsn, &f.err));
    struct ll_log_place place;
    size_t last = f.count - 1;
    must(&f, reopen(&f)); /* this open accepts the records and cuts the log after them, and writes
                           * no seal */
    ck_assert_uint_eq(f.count, last + 1);
    ck_assert(ll_log_place(f.log, f.list[last].rec.lsn, &place));
    flip_byte(&f, place.name, place.offset + 30, 1);
    must_fail(&f, LLADD_CORRUPT_LOG, look(&f));
    ck_assert_uint_eq(f.err.lsn.v, f.list[last].rec.lsn.v);
    ck_assert_ptr_nonnull(strstr(f.err.message, "segment"));
}
END_TEST

/* If the control file contradicts the log, open fails. */
START_TEST(a_control_file_that_contradicts_the_log)
{
    fixture_create(&f);
    append_some(5);
    stop(&f);
    struct ll_log_start good = f.start;
    f.start.segment.v = 0;
    f.start.end.v -= 8; /* in the middle of the last seal */
    must_fail(&f, LLADD_CORRUPT_LOG, look(&f));
    f.start = good;
    f.start.segment.v = 0;
    f.start.end.v += 8; /* beyond the end */
    must_fail(&f, LLADD_CORRUPT_LOG, look(&f));
    f.start = good;
    f.start.clean = false;
    f.start.from.v = 16; /* no record begins there */
    must_fail(&f, LLADD_CORRUPT_LOG, look(&f));
    f.start.from.v = 1 << 20; /* beyond all files */
    f.start.watermark.v = 8;
    must_fail(&f, LLADD_MISSING_FILE, look(&f));
    f.start.from = good.from;
    f.start.watermark.v = (1 << 20) + 8;
    must_fail(&f, LLADD_CORRUPT_LOG, look(&f));
    f.start = good;
    f.start.from.v = 0; /* from the beginning */
    must(&f, look(&f));
}
END_TEST

/* Redo may begin below the record with which the scan begins. */
START_TEST(redo_begins_below_the_scan)
{
    static const uint64_t redo[] = {8, 8 + 4032, 8 + 2 * 4032};
    char name[LL_LOG_NAME_SIZE];
    unsigned char bytes[4096];
    struct lladd_file *file;
    uint64_t last;
    make_log(&last);
    f.start.from = f.list[f.count - 1].rec.lsn;
    for (unsigned gone = 0; gone < 3; gone++) {
        name_of(redo[gone], name);
        read_file(&f, name, 0, bytes, sizeof bytes);
        for (unsigned how = 0; how < 2; how++) {
            if (how == 0)
                flip_byte(&f, name, 12, 1);
            else
                ck_assert_int_eq(f.memory->ops->unlink(f.memory, name), 0);
            for (unsigned i = 0; i < 3; i++) {
                f.start.redo.v = redo[i] + 80;
                int code = i > gone ? 0 : how ? LLADD_MISSING_FILE : LLADD_CORRUPT_LOG;
                must_fail(&f, code, look(&f));
                if (code == LLADD_CORRUPT_LOG)
                    check_names(name);
                if (code)
                    ck_assert_uint_lt(f.err.lsn.v, redo[gone] + 4032);
            }
            f.start.redo.v = 0;
            must(&f, look(&f));
            ck_assert_int_eq(ll_io_open(f.memory, name, LLADD_OPEN_CREATE, &file), 0);
            ck_assert_int_eq(ll_io_pwrite(f.memory, file, bytes, sizeof bytes, 0), 0);
            ck_assert_int_eq(ll_io_close(f.memory, file), 0);
        }
    }
}
END_TEST

/* No record is in the gap that a cut left, so no record is missing if redo begins in it. A reader
 * that begins below the log gets an error, and is not led to the first record that is left. */
START_TEST(redo_begins_at_a_cut)
{
    struct ll_log_cursor *c;
    struct ll_record rec;
    uint64_t last;
    make_log(&last);
    f.start.from = f.list[0].rec.lsn;
    crash_and_reopen(&f, FAULT_KILL);
    uint64_t first = ll_log_tail(f.log).v;
    append_some(8);
    force(&f);
    f.start.watermark = f.start.from = f.list[f.count - 1].rec.lsn;
    for (uint64_t at = 8; at < first; at += 4032) {
        char name[LL_LOG_NAME_SIZE];
        name_of(at, name);
        int rc = f.memory->ops->unlink(f.memory, name);
        ck_assert(rc == 0 || rc == -ENOENT); /* the cut may have reused the last file */
    }
    must(&f, look(&f));
    ck_assert_uint_eq(ll_log_oldest(f.log).v, first);
    uint64_t cut = ll_log_whole_from(f.log).v;
    ck_assert_uint_lt(cut, first);
    for (uint64_t redo = cut - 16; redo <= first; redo += 8) {
        f.start.redo.v = redo;
        must_fail(&f, redo < cut ? LLADD_MISSING_FILE : 0, look(&f));
    }
    ck_assert_int_eq(ll_log_cursor_open(f.log, &c), 0);
    must(&f, ll_log_cursor_begin(c, lladd_lsn_of(cut), &rec, &f.err));
    ck_assert_uint_eq(rec.lsn.v, first);
    must_fail(&f, LLADD_MISSING_FILE,
              ll_log_cursor_begin(c, lladd_lsn_of(cut - 8), &rec, &f.err));
    ll_log_cursor_close(c);
}
END_TEST

/* A segment in the middle that recovery does not need may be gone; a reader that needs it gets an
 * error. */
START_TEST(hole_below)
{
    char name[LL_LOG_NAME_SIZE];
    uint64_t last;
    make_log(&last);
    struct ll_log_cursor *c;
    struct ll_record rec;
    f.start.from.v = 0;
    for (size_t i = 0; i < f.count && f.start.from.v == 0; i++) {
        if (f.list[i].rec.lsn.v >= 8 + 2 * 4032)
            f.start.from = f.list[i].rec.lsn;
    }
    f.start.watermark = f.start.from;
    for (unsigned how = 0; how < 2; how++) {
        name_of(8 + 4032, name);
        if (how == 0)
            flip_byte(&f, name, 12, 1);
        else
            ck_assert_int_eq(f.memory->ops->unlink(f.memory, name), 0);
        must(&f, look(&f));
        ck_assert_uint_eq(ll_log_oldest(f.log).v, 8 + 2 * 4032);
        ck_assert_int_eq(ll_log_cursor_open(f.log, &c), 0);
        must(&f, ll_log_cursor_read(c, lladd_lsn_of(8), &rec, &f.err)); /* below the hole */
        must_fail(&f, how ? LLADD_MISSING_FILE : LLADD_CORRUPT_LOG,
                  ll_log_cursor_read(c, lladd_lsn_of(8 + 4032 + 80), &rec, &f.err));
        ll_log_cursor_close(c);
        if (how == 0)
            flip_byte(&f, name, 12, 1);
    }
    must(&f, ll_log_start(f.log, &f.err));
    must(&f, ll_log_truncate(f.log, f.start.from, &f.err));
    f.cfg.dev->ops->unlink(f.cfg.dev, name);
}
END_TEST

/* ---- inspection ---- */

START_TEST(read_only)
{
    struct ll_log_cursor *c;
    struct ll_record rec;
    struct ll_log *log;
    uint64_t last;
    make_log(&last);
    /* f.log stays open for writing. */
    struct ll_log_config cfg = f.cfg;
    cfg.read_only = cfg.lenient = true;
    struct ll_log_start start = {.from = {8}};
    must(&f, ll_log_open(&cfg, &start, &log, &f.err));
    must_fail(&f, LLADD_READ_ONLY, ll_log_start(log, &f.err));
    must_fail(&f, LLADD_READ_ONLY, ll_log_truncate(log, lladd_lsn_of(9), &f.err));
    struct ll_credit credit = {0};
    must_fail(&f, LLADD_READ_ONLY, ll_log_credit(log, &credit, 8, &f.err));
    ck_assert_int_eq(ll_log_cursor_open(log, &c), 0);
    must(&f, ll_log_cursor_read(c, lladd_lsn_of(8), &rec, &f.err));
    for (size_t i = 0; i < f.count;) {
        if (rec.kind != LL_REC_SEAL)
            check_record(&f, &rec, i++);
        if (i < f.count)
            must(&f, ll_log_cursor_next(c, &rec, &f.err));
    }
    must(&f, ll_log_cursor_next(c, &rec, &f.err)); /* the last seal */
    must_fail(&f, LLADD_END, ll_log_cursor_next(c, &rec, &f.err));
    /* The log goes on, and the reader sees it. */
    put(&f, 50);
    force(&f);
    must(&f, ll_log_cursor_next(c, &rec, &f.err));
    check_record(&f, &rec, f.count - 1);
    ll_log_cursor_close(c);
    ll_log_close(log);
}
END_TEST

START_TEST(read_only_over_damage)
{
    struct ll_log_cursor *c;
    struct ll_record rec;
    struct ll_log_place place;
    uint64_t last;
    make_log(&last);
    size_t bad = f.count / 2;
    ck_assert(ll_log_place(f.log, f.list[bad].rec.lsn, &place));
    flip_byte(&f, place.name, place.offset + 18, 1);
    name_of(8 + 2 * 4032, place.name);
    flip_byte(&f, place.name, 30, 1); /* a header */
    ll_log_close(f.log);
    f.log = NULL;
    f.cfg.read_only = f.cfg.lenient = true;
    fault_device_reset_calls(f.fd);
    must(&f, ll_log_open(&f.cfg, &f.start, &f.log, &f.err));
    ck_assert_int_eq(ll_log_cursor_open(f.log, &c), 0);
    size_t seen = 0, damaged = 0;
    int rc = ll_log_cursor_seek(c, lladd_lsn_of(0), &rec, &f.err);
    while (rc != LLADD_END) {
        if (rc == 0) {
            while (rec.kind != LL_REC_SEAL && f.list[seen].rec.lsn.v < rec.lsn.v)
                seen++;
            if (rec.kind != LL_REC_SEAL)
                check_record(&f, &rec, seen++);
            rc = ll_log_cursor_next(c, &rec, &f.err);
            continue;
        }
        ck_assert_int_eq(rc, LLADD_CORRUPT_LOG);
        damaged++;
        ck_assert_uint_lt(damaged, 5);
        rc = ll_log_cursor_seek(c, lladd_lsn_of(f.err.lsn.v + 8), &rec, &f.err);
    }
    ck_assert_uint_eq(seen, f.count);
    ck_assert_uint_eq(damaged, 2);
    lladd_lsn from = {8};
    for (seen = 0; (rc = ll_log_cursor_walk(c, from, &rec, &f.err)) == 0; from.v = 0) {
        damaged -= f.err.code != 0;
        ck_assert(f.err.code == 0 || f.err.code == LLADD_CORRUPT_LOG);
        while (rec.kind != LL_REC_SEAL && f.list[seen].rec.lsn.v < rec.lsn.v)
            seen++;
        if (rec.kind != LL_REC_SEAL)
            check_record(&f, &rec, seen++);
    }
    ck_assert_int_eq(rc, LLADD_END);
    ck_assert_int_eq(f.err.code, 0);
    ck_assert_uint_eq(seen, f.count);
    ck_assert_uint_eq(damaged, 0);
    ck_assert_uint_eq(fault_device_calls(f.fd, FAULT_WRITES), 0);
    ll_log_cursor_close(c);
}
END_TEST

START_TEST(walking_over_a_segment_that_cannot_be_read)
{
    struct ll_log_cursor *c;
    struct ll_record rec;
    char name[32];
    uint64_t last;
    make_log(&last);
    ll_log_close(f.log);
    f.log = NULL;
    f.cfg.read_only = f.cfg.lenient = true;
    must(&f, ll_log_open(&f.cfg, &f.start, &f.log, &f.err));
    ck_assert_int_eq(ll_log_cursor_open(f.log, &c), 0);
    name_of(8, name);
    fault_device_only(f.fd, name);
    fault_device_fail(f.fd, 1, FAULT_PREAD, EIO, true);
    lladd_lsn from = {8};
    size_t seen = 0;
    int rc;
    for (; (rc = ll_log_cursor_walk(c, from, &rec, &f.err)) == 0; from.v = 0) {
        ck_assert_int_eq(f.err.code, from.v ? LLADD_READ_FAILED : 0);
        while (rec.kind != LL_REC_SEAL && f.list[seen].rec.lsn.v < rec.lsn.v)
            seen++;
        ck_assert(from.v == 0 || seen > 0);
        if (rec.kind != LL_REC_SEAL)
            check_record(&f, &rec, seen++);
    }
    ck_assert_int_eq(rc, LLADD_END);
    ck_assert_uint_eq(seen, f.count);
    ll_log_cursor_close(c);
}
END_TEST

/* Walks over the log, and asserts that these are the reasons of its gaps; 0 ends the list. */
static void walk_over_gaps(struct ll_log_cursor *c, const int *reason)
{
    struct ll_record rec;
    int rc = 0;
    for (lladd_lsn from = {8}; rc == 0; from.v = 0) {
        rc = ll_log_cursor_walk(c, from, &rec, &f.err);
        if (f.err.code)
            ck_assert_msg(f.err.code == *reason++, "%s", f.err.message);
    }
    ck_assert_int_eq(rc, LLADD_END);
    ck_assert_int_eq(*reason, 0);
}

enum { BLOCK = 64 << 10 };

static void append_until(uint64_t end)
{
    while (ll_log_tail(f.log).v < end) {
        put(&f, 100);
        force(&f);
    }
}

/* Starts a log of large blocks. A record may be longer than a sector. */
static void create_blocks(void)
{
    f.cfg.segment_min = f.cfg.segment_max = 4 * BLOCK;
    f.cfg.ring_bytes = BLOCK;
    fixture_create(&f);
}

static struct ll_log_cursor *stop_and_open_cursor(void)
{
    struct ll_log_cursor *c;
    append_until(3 * BLOCK);
    stop_and_reopen(&f);
    ck_assert_int_eq(ll_log_cursor_open(f.log, &c), 0);
    return c;
}

/* A walk buffers zeros for a bad sector. The next walk does not take them for damage. The sector is
 * the beginning of a block, so no record of the block can be read. */
START_TEST(each_walk_tries_bad_sectors_again)
{
    char name[LL_LOG_NAME_SIZE];
    create_blocks();
    struct ll_log_cursor *c = stop_and_open_cursor();
    name_of(8, name);
    fault_device_bad_sector(f.fd, name, BLOCK);
    walk_over_gaps(c, (const int[]){LLADD_READ_FAILED, 0});
    walk_over_gaps(c, (const int[]){LLADD_READ_FAILED, 0});
    fault_device_bad_sector(f.fd, NULL, 0);
    walk_over_gaps(c, (const int[]){0});
    ll_log_cursor_close(c);
}
END_TEST

/* One read meets both bad sectors. The second is in the middle of a record that ends in the next
 * block. */
START_TEST(each_gap_has_its_own_reason)
{
    enum { SECTOR = 4096, FIRST = 9 * SECTOR, SECOND = BLOCK - SECTOR };
    char name[LL_LOG_NAME_SIZE];
    struct ll_log_place place;
    create_blocks();
    append_until(SECOND - SECTOR / 2);
    put(&f, 2 * SECTOR);
    append_until(BLOCK + 2 * SECTOR);
    lladd_lsn damaged = put(&f, 100);
    struct ll_log_cursor *c = stop_and_open_cursor();
    ck_assert(ll_log_place(f.log, damaged, &place));
    flip_byte(&f, place.name, place.offset + 18, 1);
    name_of(8, name);
    fault_device_bad_sector(f.fd, name, FIRST);
    fault_device_bad_sector(f.fd, name, SECOND);
    walk_over_gaps(c, (const int[]){LLADD_READ_FAILED, LLADD_READ_FAILED, LLADD_CORRUPT_LOG, 0});
    ll_log_cursor_close(c);
}
END_TEST

static void seek_finds(struct ll_log_cursor *c, uint64_t goal, size_t i)
{
    struct ll_record rec;
    must(&f, ll_log_cursor_seek(c, lladd_lsn_of(goal), &rec, &f.err));
    ck_assert_uint_eq(rec.lsn.v, f.list[i].rec.lsn.v);
}

static void seek_tells(struct ll_log_cursor *c, uint64_t goal, size_t i)
{
    struct ll_record rec;
    must_fail(&f, LLADD_CORRUPT_LOG, ll_log_cursor_seek(c, lladd_lsn_of(goal), &rec, &f.err));
    ck_assert_uint_eq(f.err.lsn.v, f.list[i].rec.lsn.v);
}

/* A reader that begins at a damaged record gets an error; a reader that begins after it does
 * not. */
START_TEST(a_seek_tells_of_damage_at_its_goal)
{
    struct ll_log_cursor *c;
    struct ll_log_place place;
    uint64_t last;
    make_log(&last);
    ll_log_close(f.log);
    f.log = NULL;
    f.cfg.read_only = f.cfg.lenient = true;
    for (size_t i = 1; i + 1 < f.count; i += f.count / 7) {
        uint64_t at = f.list[i].rec.lsn.v, before = f.list[i - 1].rec.lsn.v;
        must(&f, ll_log_open(&f.cfg, &f.start, &f.log, &f.err));
        ck_assert(ll_log_place(f.log, f.list[i].rec.lsn, &place));
        flip_byte(&f, place.name, place.offset + 18, 1);
        ck_assert_int_eq(ll_log_cursor_open(f.log, &c), 0);
        seek_tells(c, at, i);
        if (f.list[i - 1].rec.lsn.v + f.list[i - 1].rec.size == at) { /* no seal between them */
            seek_finds(c, before, i - 1);
            seek_tells(c, before + 8, i);
        }
        struct ll_record rec;
        must(&f, ll_log_cursor_seek(c, lladd_lsn_of(at + 8), &rec, &f.err));
        ck_assert_uint_gt(rec.lsn.v, at);
        ck_assert_uint_le(rec.lsn.v, f.list[i + 1].rec.lsn.v);
        ll_log_cursor_close(c);
        flip_byte(&f, place.name, place.offset + 18, 1);
        ll_log_close(f.log);
        f.log = NULL;
    }
}
END_TEST

/* The first segment is damaged or missing, and recovery does not need it. A reader of that segment
 * gets an error that says so, not that the log was truncated. */
START_TEST(a_needed_record_in_a_damaged_segment)
{
    struct ll_log_cursor *c;
    struct ll_record rec;
    char name[LL_LOG_NAME_SIZE];
    uint64_t last;
    make_log(&last);
    name_of(8, name);
    f.start.from = lladd_lsn_of(8 + 4032);
    lladd_lsn first = f.list[0].rec.lsn;
    if (_i == 0)
        flip_byte(&f, name, 3, 1);
    else
        ck_assert_int_eq(f.memory->ops->unlink(f.memory, name), 0);
    ll_log_close(f.log);
    f.log = NULL;
    f.cfg.read_only = f.cfg.lenient = true;
    must(&f, ll_log_open(&f.cfg, &f.start, &f.log, &f.err));
    ck_assert_int_eq(ll_log_cursor_open(f.log, &c), 0);
    int code = _i == 0 ? LLADD_CORRUPT_LOG : LLADD_MISSING_FILE;
    must_fail(&f, code, ll_log_cursor_need(c, first, &rec, &f.err));
    ck_assert_ptr_nonnull(strstr(f.err.message, "log segment"));
    if (_i == 0) {
        must_fail(&f, code, ll_log_cursor_read(c, first, &rec, &f.err));
        must_fail(&f, code, ll_log_cursor_follow(c, first, &rec, &f.err));
    }
    must(&f, ll_log_cursor_seek(c, first, &rec, &f.err)); /* a seek may pass over damage */
    ck_assert_uint_gt(rec.lsn.v, first.v);
    ll_log_cursor_close(c);
}
END_TEST

/* When ll_log_cursor_follow comes to damage, it fails. It does not go on with the next good
 * record. */
START_TEST(following_is_not_led_past_damage)
{
    struct ll_log_cursor *c;
    struct ll_log_place place;
    struct ll_record rec;
    unsigned char zeros[256] = {0};
    uint64_t last;
    make_log(&last);
    ll_log_close(f.log);
    f.log = NULL;
    f.cfg.read_only = f.cfg.lenient = true;
    must(&f, ll_log_open(&f.cfg, &f.start, &f.log, &f.err));
    ck_assert_int_eq(ll_log_cursor_open(f.log, &c), 0);
    for (size_t i = 0; i < f.count; i++) {
        must(&f, ll_log_cursor_follow(c, f.list[i].rec.lsn, &rec, &f.err));
        check_record(&f, &rec, i);
    }
    size_t i = f.count / 2;
    ck_assert(ll_log_place(f.log, f.list[i].rec.lsn, &place));
    write_file(&f, place.name, place.offset - 8, zeros, sizeof zeros);
    ll_log_cursor_rest(c);
    must_fail(&f, LLADD_CORRUPT_LOG, ll_log_cursor_follow(c, f.list[i].rec.lsn, &rec, &f.err));
    must(&f, ll_log_cursor_seek(c, f.list[i].rec.lsn, &rec, &f.err));
    ck_assert_uint_gt(rec.lsn.v, f.list[i].rec.lsn.v);
    /* What follows the damage can be read from its beginning. */
    must(&f, ll_log_cursor_follow(c, rec.lsn, &rec, &f.err));
    ll_log_cursor_close(c);
}
END_TEST

/* The log ends in the first bytes of a segment, with a record that began before. To follow it from
 * the begin of the segment is no damage: there is no record yet. */
START_TEST(following_from_the_last_bytes_of_a_record)
{
    enum { ROOM = 4096 - 64 };
    struct ll_log_cursor *c;
    struct ll_record rec;
    uint64_t end = 0;
    f.cfg.segment_min = f.cfg.segment_max = 4096;
    fixture_create(&f);
    ck_assert_int_eq(ll_log_cursor_open(f.log, &c), 0);
    for (uint64_t over = 8; over <= 64; over += 8) {
        uint64_t segment = 0;
        while (end != segment + over) { /* the headers of records differ in length */
            end = ll_log_durable(f.log).v;
            segment = 8 + ((end + 1000 - 8) / ROOM + 1) * ROOM;
            put(&f, (size_t)(segment + over - end) - 8 * (6 + f.count % 8));
            force(&f);
            end = ll_log_durable(f.log).v;
        }
        int rc = ll_log_cursor_follow(c, lladd_lsn_of(segment), &rec, &f.err);
        ck_assert_msg(rc == LLADD_END || (rc == 0 && rec.lsn.v >= segment), "%d: %s", rc,
                      f.err.message);
        ck_assert(rc == 0 || over <= 40);
    }
    ll_log_cursor_close(c);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("damage");
    TCase *t = tcase_create("damage");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, every_byte_below_the_watermark, 0, 3);
    tcase_add_test(t, every_byte_after_a_clean_stop);
    tcase_add_test(t, refusing_changes_nothing);
    tcase_add_test(t, a_seek_tells_of_damage_at_its_goal);
    tcase_add_loop_test(t, a_needed_record_in_a_damaged_segment, 0, 2);
    tcase_add_test(t, following_is_not_led_past_damage);
    tcase_add_test(t, following_from_the_last_bytes_of_a_record);
    tcase_add_test(t, proof_after_much_damage);
    tcase_add_test(t, payload_is_no_proof);
    tcase_add_test(t, every_bit_of_first_headers);
    tcase_add_test(t, missing_and_short_segments);
    tcase_add_test(t, a_log_of_another_database);
    tcase_add_test(t, no_log_at_all);
    tcase_add_test(t, a_clean_open_checks_the_last_segment);
    tcase_add_test(t, files_that_are_no_segments);
    tcase_add_test(t, a_cut_proves_the_log_before_it);
    tcase_add_test(t, a_control_file_that_contradicts_the_log);
    tcase_add_test(t, redo_begins_below_the_scan);
    tcase_add_test(t, redo_begins_at_a_cut);
    tcase_add_test(t, hole_below);
    tcase_add_test(t, read_only);
    tcase_add_test(t, read_only_over_damage);
    tcase_add_test(t, walking_over_a_segment_that_cannot_be_read);
    tcase_add_test(t, each_walk_tries_bad_sectors_again);
    tcase_add_test(t, each_gap_has_its_own_reason);
    suite_add_tcase(s, t);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed == 0 ? 0 : 1;
}
