/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Appending and reading back. Every record is read back as it was appended. It may be read from the
 * ring or from the files, forward or along a chain. It may have any length, and may lie across the
 * ends of blocks, of segments and of the ring. Clean stops change nothing. LSNs increase without a
 * hole. No reader sees an unpublished record.
 */
#include "log/log_private.h"
#include "log_fixture.h"

static struct fixture f;

static void setup(void)
{
    fixture_init(&f);
}

static void teardown(void)
{
    fixture_free(&f);
}

/* The first record of a database has LSN 8 and is the first of its transaction. */
START_TEST(first_record)
{
    fixture_create(&f);
    ck_assert_uint_eq(put(&f, 20).v, 8);
    ck_assert_uint_eq(f.list[0].rec.txn.v, 8);
    ck_assert_uint_eq(ll_log_tail(f.log).v, 8 + f.list[0].rec.size);
    ck_assert_uint_eq(ll_log_written(f.log).v, 8);
    check_records(&f, 0, 1);
}
END_TEST

/* An update that sets eight bytes, with undo bytes, takes no more than 64 bytes of log. */
START_TEST(a_small_update_takes_at_most_64_bytes)
{
    unsigned char redo[10] = {1}, undo[10] = {2};
    fixture_create(&f);
    put(&f, 1);
    struct ll_record rec = {.kind = LL_REC_UPDATE,
                            .flags = LL_REC_UNDO_PAGE,
                            .op = 3,
                            .page = 123456,
                            .prev = f.list[0].rec.lsn,
                            .txn = f.list[0].rec.lsn,
                            .page_prev = f.list[0].rec.lsn,
                            .redo = lladd_span_of(redo, sizeof redo),
                            .undo = lladd_span_of(undo, sizeof undo)};
    put_record(&f, &rec);
    ck_assert_uint_le(rec.size, 64);
}
END_TEST

/* Records with payloads of 0 to 1499 bytes are read from the ring before any of them is written to
 * a file. */
START_TEST(lengths_in_ring)
{
    f.cfg.ring_bytes = 1 << 22;
    f.cfg.segment_max = 1 << 20;
    fixture_create(&f);
    for (size_t len = 0; len < 1500; len++)
        put(&f, len);
    ck_assert_uint_eq(ll_log_written(f.log).v, 8);
    check_records(&f, 0, f.count);
}
END_TEST

/* Records with payloads of 0 to 1499 bytes are read from the files: the ring has 16 KiB, the
 * segments have 4 to 16 KiB. */
START_TEST(lengths_in_files)
{
    fixture_create(&f);
    for (size_t len = 0; len < 1500; len++)
        put(&f, len);
    force(&f);
    ck_assert_uint_eq(ll_log_durable(f.log).v, ll_log_tail(f.log).v);
    check_records(&f, 0, f.count);
}
END_TEST

/* The longest record is a quarter of the ring; it spans several segments. */
START_TEST(longest_record)
{
    f.cfg.ring_bytes = 65536;
    f.cfg.segment_max = 4096;
    fixture_create(&f);
    size_t max = ll_log_record_max(f.log);
    ck_assert_uint_eq(max, 16384);
    for (unsigned i = 0; i < 40; i++) {
        put(&f, max - LL_RECORD_WIDE);
        put(&f, i);
    }
    force(&f);
    check_records(&f, 0, f.count);
    must_fail(&f, LLADD_TOO_LARGE, ll_log_credit_slow(f.log, &f.credit, 65536, &f.err));
}
END_TEST

/* Records of many lengths wrap around the end of the ring. */
START_TEST(records_wrap_around_the_ring)
{
    f.cfg.ring_bytes = 4096;
    fixture_create(&f);
    for (unsigned round = 0; round < 600; round++)
        put(&f, (round * 40) % 953);
    check_records(&f, f.count - 1, f.count);
    force(&f);
    check_records(&f, 0, f.count);
}
END_TEST

/* As long as the ring holds written records, they are read from the ring and not from a file. */
START_TEST(written_records_are_read_from_the_ring)
{
    fixture_create(&f);
    for (unsigned i = 0; i < 50; i++)
        put(&f, 60);
    force(&f);
    fault_device_fail(f.fd, 1, FAULT_PREAD, EIO, true);
    check_records(&f, 0, f.count);
    ck_assert_uint_eq(fault_device_fired(f.fd), 0);
    fault_device_fail(f.fd, 0, 0, 0, false);
}
END_TEST

/* A log may begin at any LSN. If the distance to an earlier record does not fit the narrow form,
 * the record gets the wide form. */
START_TEST(high_lsns)
{
    const uint64_t starts[] = {UINT64_C(1) << 32, UINT64_C(1) << 35, UINT64_C(1) << 40,
                               UINT64_C(1) << 61};
    for (unsigned i = 0; i < 4; i++) {
        f.cfg.first = lladd_lsn_of(starts[i]);
        fixture_create(&f);
        unsigned char payload[16] = {7};
        for (unsigned k = 0; k < 6; k++) {
            struct ll_record rec = {
                .kind = LL_REC_UPDATE, .page = 9, .op = 1, .redo = lladd_span_of(payload, 10 + k)};
            uint64_t far = starts[i] > (UINT64_C(1) << 36) ? UINT64_C(1) << 36 : starts[i] - 8;
            uint64_t reach = UINT64_C(8) * UINT32_MAX;
            uint64_t back[] = {8, far, reach - 16, reach - 8, reach, reach + 8};
            uint64_t to = back[k] < starts[i] ? ll_log_tail(f.log).v - back[k] : 8;
            rec.prev.v = to;
            rec.txn.v = to;
            rec.page_prev.v = to;
            lladd_lsn lsn = put_record(&f, &rec);
            struct ll_log_cursor *c;
            struct ll_record got;
            ck_assert_int_eq(ll_log_cursor_open(f.log, &c), 0);
            must(&f, ll_log_cursor_read(c, lsn, &got, &f.err));
            ck_assert_uint_eq(got.prev.v, to);
            ck_assert_uint_eq(got.txn.v, to);
            ck_assert_uint_eq(got.page_prev.v, to);
            ck_assert_uint_eq(got.redo.len, 10 + k);
            ll_log_cursor_close(c);
        }
        must(&f, ll_log_force(f.log, lladd_lsn_of(ll_log_tail(f.log).v - 8), &f.err));
        ll_log_credit_return(f.log, &f.credit);
        ll_log_close(f.log);
        f.log = NULL;
        fault_device_power_cycle(f.fd, &(struct fault_crash){FAULT_POWER, 0, false});
        char name[LL_LOG_NAME_SIZE];
        name_of(starts[i], name);
        ck_assert(file_exists(&f, name));
        fault_device_free(f.fd);
        lladd_device_close(f.memory);
        ck_assert_int_eq(lladd_device_memory(&f.memory), 0);
        f.fd = fault_device_new(f.memory);
        f.cfg.dev = fault_device_dev(f.fd);
    }
}
END_TEST

/* What ll_log_append appends is read back. The records have payloads of 0 to 300 bytes, lie around
 * the ring's end, are the first or later records of a transaction and of a page, or have values
 * that only the wide form can express. */
START_TEST(updates)
{
    static const lladd_lsn page_prevs[] = {{0}, {8}, {12}, {56}};
    struct ll_log_cursor *c;
    unsigned char bytes[400];
    fixture_create(&f);
    put(&f, 200); /* the LSNs in page_prevs are smaller than those of the updates */
    ck_assert_int_eq(ll_log_cursor_open(f.log, &c), 0);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 7 + 1);
    struct ll_chain chain = {.id = {0}};
    for (unsigned n = 0; n <= 300; n++) {
        unsigned depth = n % 10, redo = n % 3 == 0 ? 0 : n % 3 == 1 ? n : n / 2;
        const unsigned char *from = bytes + n % 8;
        struct ll_record u = {.kind = LL_REC_UPDATE,
                              .page = n % 11 ? n : LLADD_NO_PAGE - 1 - (UINT64_C(0xffff) << 48),
                              .page_prev = page_prevs[n % 4],
                              .redo = lladd_span_of(from, redo),
                              .undo = lladd_span_of(from + redo, n - redo),
                              .op = 0xfffe - n,
                              .depth = depth,
                              .flags = LL_REC_UNDO_PAGE | LL_REC_SYSTEM};
        struct ll_chain before = chain;
        struct ll_record got;
        must(&f, ll_log_credit(f.log, &f.credit, ll_record_bound(n, 0), &f.err));
        ll_log_credit_rests(&f.credit);
        uint64_t credit = f.credit.bytes;
        ll_log_append(f.log, &f.credit, &u, &chain, NULL);
        lladd_lsn lsn = u.lsn;
        ck_assert_uint_eq(credit - f.credit.bytes, u.size);
        ck_assert_uint_eq(chain.last.v, lsn.v);
        ck_assert_uint_eq(chain.undo_next.v, lsn.v);
        ck_assert_uint_eq(chain.id.v, before.id.v ? before.id.v : lsn.v);
        must(&f, ll_log_cursor_read(c, lsn, &got, &f.err));
        ck_assert_uint_eq(got.kind, LL_REC_UPDATE);
        ck_assert_uint_eq(got.flags, u.flags);
        ck_assert_uint_eq(got.size, u.size);
        ck_assert_uint_eq(got.prev.v, before.last.v);
        ck_assert_uint_eq(got.txn.v, chain.id.v);
        ck_assert_uint_eq(got.page_prev.v, u.page_prev.v);
        ck_assert_uint_eq(got.undo_next.v, 0);
        ck_assert_uint_eq(got.page, u.page);
        ck_assert_uint_eq(got.op, u.op);
        ck_assert_uint_eq(got.depth, depth);
        ck_assert_uint_eq(got.redo.len, redo);
        ck_assert_uint_eq(got.undo.len, n - redo);
        if (n) {
            ck_assert_mem_eq(got.redo.data, from, n);
        }
        if (n % 50 == 49)
            chain = (struct ll_chain){.id = {0}};
    }
    ll_log_cursor_close(c);
}
END_TEST

/* A reserved record that is not published yet hides the later ones, and cannot be read. */
START_TEST(an_unpublished_record_hides_later_ones)
{
    struct ll_record first = {.kind = LL_REC_NOTE, .page = LLADD_NO_PAGE}, got;
    struct ll_credit credit = {0};
    struct ll_log_cursor *c;
    fixture_create(&f);
    put(&f, 10);
    must(&f, ll_log_credit(f.log, &credit, ll_record_bound(0, 0), &f.err));
    ll_log_credit_rests(&credit);
    ll_log_reserve(f.log, &credit, &first, false);
    struct ll_record second = {.kind = LL_REC_NOTE, .page = LLADD_NO_PAGE};
    put_record(&f, &second);
    ck_assert_int_eq(ll_log_cursor_open(f.log, &c), 0);
    must_fail(&f, LLADD_OUT_OF_RANGE, ll_log_cursor_read(c, first.lsn, &got, &f.err));
    must(&f, ll_log_cursor_read(c, f.list[0].rec.lsn, &got, &f.err));
    must_fail(&f, LLADD_END, ll_log_cursor_next(c, &got, &f.err));
    /* A thread can read its own record before earlier ones are published. */
    must(&f, ll_log_cursor_read(c, second.lsn, &got, &f.err));
    ll_log_publish(f.log, &first);
    ll_log_wait_published(f.log, ll_log_tail(f.log));
    must(&f, ll_log_cursor_read(c, f.list[0].rec.lsn, &got, &f.err));
    must(&f, ll_log_cursor_next(c, &got, &f.err));
    ck_assert_uint_eq(got.lsn.v, first.lsn.v);
    must(&f, ll_log_cursor_next(c, &got, &f.err));
    ck_assert_uint_eq(got.lsn.v, second.lsn.v);
    ll_log_credit_return(f.log, &credit);
    ll_log_cursor_close(c);
}
END_TEST

/* Ring space that is used again may still hold payload that looks like records. While a record is
 * reserved there and not yet published, neither a reader nor the writer takes that payload for a
 * record. */
START_TEST(payload_that_looks_like_records)
{
    const uint64_t ring = f.cfg.ring_bytes = 4096;
    /* The payload below consists of LSNs with 64 in their upper 32 bits. A reader that took one of
     * them for the first word of a record would take these bits for the length of the record. */
    f.cfg.first.v = (UINT64_C(64) << 32) + 8;
    fixture_create(&f);
    unsigned char bytes[800];
    bool last_words = false;
    for (unsigned round = 0; round < 6000; round++) {
        struct ll_credit credit = {0};
        struct ll_log_cursor *c;
        struct ll_record got;
        /* Each word of the payload is an LSN. One turn of the ring later, a record may begin eight
         * bytes before that word. Then the LSN in the word is the LSN of this record. */
        uint64_t at = ll_log_tail(f.log).v + LL_RECORD_NARROW;
        for (unsigned i = 0; i + 8 <= sizeof bytes; i += 8)
            lladd_put64(bytes + i, at + i - 8 + ring);
        struct ll_record rec = {.kind = LL_REC_NOTE,
                                .page = LLADD_NO_PAGE,
                                .redo = lladd_span_of(bytes, 8 * (round % 97))};
        put_record(&f, &rec);
        must(&f, ll_log_write(f.log, rec.lsn, &f.err));
        struct ll_record late = {.kind = LL_REC_COMMIT, .page = LLADD_NO_PAGE};
        must(&f, ll_log_credit(f.log, &credit, ll_record_bound(0, 0), &f.err));
        ll_log_credit_rests(&credit);
        ll_log_reserve(f.log, &credit, &late, false);
        last_words = last_words || late.lsn.v % ring == ring - 8;
        uint32_t size;
        lladd_mutex_lock(&f.log->ring_mutex);
        ck_assert(!ll_log__ring_published(f.log, late.lsn.v, &size));
        lladd_mutex_unlock(&f.log->ring_mutex);
        ck_assert_int_eq(ll_log_cursor_open(f.log, &c), 0);
        must(&f, ll_log_cursor_read(c, rec.lsn, &got, &f.err));
        must_fail(&f, LLADD_END, ll_log_cursor_next(c, &got, &f.err));
        must_fail(&f, LLADD_OUT_OF_RANGE, ll_log_cursor_read(c, late.lsn, &got, &f.err));
        ll_log_cursor_close(c);
        ll_log_publish(f.log, &late);
        ll_log_credit_return(f.log, &credit);
        must(&f, ll_log_write(f.log, late.lsn, &f.err));
        ck_assert_uint_eq(ll_log_written(f.log).v, ll_log_tail(f.log).v);
    }
    ck_assert(last_words); /* a record began in the last eight bytes of the ring at least once */
}
END_TEST

/* After a clean stop the log goes on where it stopped, in the middle of a block. */
START_TEST(the_log_goes_on_after_a_clean_stop)
{
    fixture_create(&f);
    for (unsigned i = 0; i < 200; i++) {
        put(&f, (i * 37) % 500);
        uint64_t tail = ll_log_tail(f.log).v;
        stop_and_reopen(&f);
        ck_assert_uint_eq(ll_log_durable(f.log).v, ll_log_tail(f.log).v);
        ck_assert_uint_ge(ll_log_tail(f.log).v, tail);
        if (i % 50 == 49)
            check_records(&f, 0, f.count);
    }
    crash_and_reopen(&f, FAULT_POWER);
    ck_assert_uint_eq(f.count, 200);
    check_records(&f, 0, f.count);
}
END_TEST

/* Opening and closing without an append only reads files, and does not list the directory. */
START_TEST(a_clean_open_only_reads)
{
    fixture_create(&f);
    put(&f, 100);
    stop(&f);
    fault_device_reset_calls(f.fd);
    must(&f, ll_log_open(&f.cfg, &f.start, &f.log, &f.err));
    must(&f, ll_log_start(f.log, &f.err));
    lladd_lsn end;
    must(&f, ll_log_finish(f.log, &end, &f.err));
    ck_assert_uint_eq(end.v, f.start.end.v);
    ck_assert_uint_eq(fault_device_calls(f.fd, FAULT_WRITES | FAULT_LIST), 0);
    ck_assert_uint_eq(fault_device_calls(f.fd, FAULT_OPEN), 1);
}
END_TEST

/* A seek to any position finds the first record that begins there or later. */
START_TEST(seeking)
{
    struct ll_log_cursor *c;
    struct ll_record got;
    f.cfg.segment_max = 4096;
    fixture_create(&f);
    for (unsigned i = 0; i < 120; i++)
        put(&f, i % 10 == 3 ? 4000 : 50);
    force(&f);
    for (unsigned i = 0; i < 20; i++)
        put(&f, 50); /* in the ring only */
    ck_assert_int_eq(ll_log_cursor_open(f.log, &c), 0);
    for (size_t i = 0; i < f.count; i++) {
        uint64_t lsn = f.list[i].rec.lsn.v;
        for (uint64_t back = 0; back < 24 && lsn - back >= 8; back += 5) {
            must(&f, ll_log_cursor_seek(c, lladd_lsn_of(lsn - back), &got, &f.err));
            if (got.kind != LL_REC_SEAL) /* a seal may lie between the LSN and record i */
                check_record(&f, &got, i);
        }
    }
    must_fail(&f, LLADD_END, ll_log_cursor_seek(c, ll_log_tail(f.log), &got, &f.err));
    must(&f, ll_log_cursor_seek(c, lladd_lsn_of(0), &got, &f.err));
    check_record(&f, &got, 0);
    must_fail(&f, LLADD_OUT_OF_RANGE, ll_log_cursor_read(c, lladd_lsn_of(9), &got, &f.err));
    must_fail(&f, LLADD_OUT_OF_RANGE,
              ll_log_cursor_read(c, lladd_lsn_of(UINT64_MAX - 7), &got, &f.err));
    ll_log_cursor_close(c);
}
END_TEST

/* Appends use credit, and unused credit is returned. Credit is refused if the log is not ready or
 * is read-only. */
START_TEST(credit)
{
    struct ll_credit a = {0}, b = {0};
    fixture_create(&f);
    must(&f, ll_log_credit(f.log, &a, 100, &f.err));
    ll_log_credit_rests(&a);
    ck_assert_uint_ge(a.bytes, 100);
    uint64_t before = a.bytes;
    struct ll_record rec = {.kind = LL_REC_COMMIT, .page = LLADD_NO_PAGE};
    ll_log_reserve(f.log, &a, &rec, false);
    ll_log_publish(f.log, &rec);
    ck_assert_uint_eq(a.bytes, before - rec.size);
    ll_log_credit_trim(f.log, &a);
    ck_assert_uint_eq(a.bytes, before - rec.size); /* the credit is not returned, because all
                                                    * threads together hold little */
    /* `b` takes 8 KiB, half of the ring. Now trimming returns the unused credit of `a`. */
    must(&f, ll_log_credit(f.log, &b, 8192, &f.err));
    ll_log_credit_rests(&b);
    ll_log_credit_trim(f.log, &a);
    ck_assert_uint_eq(a.bytes, 0);
    ll_log_credit_return(f.log, &b);
    ck_assert_uint_eq(b.bytes, 0);
    stop(&f);
    f.start.clean = false;
    must(&f, ll_log_open(&f.cfg, &f.start, &f.log, &f.err));
    must_fail(&f, LLADD_BAD_STATE, ll_log_credit(f.log, &a, 100, &f.err));
    must_fail(&f, LLADD_BAD_STATE, ll_log_undo_reserve(f.log, 100, &f.err));
    must_fail(&f, LLADD_BAD_STATE, ll_log_start(f.log, &f.err));
}
END_TEST

START_TEST(bad_config)
{
    struct ll_log_config good = f.cfg;
    struct ll_log *log;
    for (unsigned i = 0; i < 8; i++) {
        f.cfg = good;
        switch (i) {
        case 0:
            f.cfg.segment_min = 2048;
            break;
        case 1:
            f.cfg.segment_min = 5000;
            break;
        case 2:
            f.cfg.segment_max = 2048;
            break;
        case 3:
            f.cfg.segment_max = UINT64_C(1) << 32;
            break;
        case 4:
            f.cfg.ring_bytes = 2048;
            break;
        case 5:
            f.cfg.ring_bytes = 10000;
            break;
        case 6:
            f.cfg.limit_bytes = 4096;
            break;
        case 7:
            f.cfg.first.v = 12;
            break;
        }
        must_fail(&f, LLADD_BAD_ARGUMENT, ll_log_create(&f.cfg, &log, &f.err));
    }
    f.cfg = good;
    f.cfg.read_only = f.cfg.lenient = true;
    must_fail(&f, LLADD_READ_ONLY, ll_log_create(&f.cfg, &log, &f.err));
    f.cfg = good;
    fixture_create(&f);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("append");
    TCase *t = tcase_create("append");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, first_record);
    tcase_add_test(t, a_small_update_takes_at_most_64_bytes);
    tcase_add_test(t, lengths_in_ring);
    tcase_add_test(t, lengths_in_files);
    tcase_add_test(t, longest_record);
    tcase_add_test(t, records_wrap_around_the_ring);
    tcase_add_test(t, written_records_are_read_from_the_ring);
    tcase_add_test(t, high_lsns);
    tcase_add_test(t, updates);
    tcase_add_test(t, an_unpublished_record_hides_later_ones);
    tcase_add_test(t, payload_that_looks_like_records);
    tcase_add_test(t, the_log_goes_on_after_a_clean_stop);
    tcase_add_test(t, a_clean_open_only_reads);
    tcase_add_test(t, seeking);
    tcase_add_test(t, credit);
    tcase_add_test(t, bad_config);
    suite_add_tcase(s, t);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed == 0 ? 0 : 1;
}
