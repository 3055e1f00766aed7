/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Segment files. Each file is larger than the previous one, up to a maximum. The space of a file is
 * allocated and synced before its use. After a truncation the files are used again or removed. A
 * segment that cannot be made is a resource error and changes nothing (LOG-4); the error at the
 * byte limit can be retried. No reader reads a segment that is being used again.
 */
#include "log_fixture.h"

#include <errno.h>

#include <string.h>

static struct fixture f;

static void setup(void)
{
    fixture_init(&f);
}

static void teardown(void)
{
    fixture_free(&f);
}

static struct ll_log_stats stats(void)
{
    struct ll_log_stats s;
    ll_log_stats(f.log, &s);
    return s;
}

static void maintain_all(void)
{
    bool more = true;
    for (unsigned i = 0; more; i++) {
        ck_assert_uint_lt(i, 100);
        must(&f, ll_log_maintain(f.log, &more, &f.err));
    }
}

static void fill_to(uint64_t lsn)
{
    while (ll_log_tail(f.log).v < lsn)
        put(&f, 300);
}

struct sizes {
    uint32_t size[64];
    uint64_t end;
    unsigned n;
};

static int note_size(void *ctx, const struct ll_log_file *file)
{
    struct sizes *s = ctx;
    ck_assert_uint_lt(s->n, 64);
    if (s->n > 0 && file->in_use)
        ck_assert_uint_eq(file->first.v, s->end);
    s->end = file->end.v;
    s->size[s->n++] = file->size;
    return 0;
}

/* The segments have 4, 8, 16, 16 ... KiB. */
START_TEST(sizes_double)
{
    struct sizes s = {.n = 0};
    fixture_create(&f);
    fill_to(60000);
    must(&f, ll_log_file_each(f.log, note_size, &s, &f.err));
    const uint32_t want[] = {4096, 8192, 16384, 16384, 16384, 16384}; /* the last is still unused */
    ck_assert_uint_eq(s.n, 6);
    for (unsigned i = 0; i < s.n; i++)
        ck_assert_uint_eq(s.size[i], want[i]);
    ck_assert_uint_eq(stats().segments, 6);
    ck_assert_uint_eq(stats().segment_bytes, 77824);
}
END_TEST

/* A file has its whole size, filled with zeros, before it gets its name. _i 0: the device can
 * allocate the space; 1: the device cannot, and the log has to write the zeros. */
START_TEST(a_file_is_zeroed_before_it_gets_its_name)
{
    char name[LL_LOG_NAME_SIZE];
    fault_device_can_allocate(f.fd, _i == 0);
    fixture_create(&f);
    unsigned char bytes[8192];
    fill_to(4100);
    name_of(8 + 4032, name);
    ck_assert_uint_eq(file_size(&f, name), 8192);
    read_file(&f, name, 0, bytes, sizeof bytes);
    for (unsigned i = LL_LOG_BLOCK_HEADER; i < sizeof bytes; i++)
        ck_assert_uint_eq(bytes[i], 0);
    /* The file survives a power failure although nothing was forced. */
    ll_log_close(f.log);
    f.log = NULL;
    fault_device_power_cycle(f.fd, &(struct fault_crash){.mode = FAULT_POWER});
    ck_assert_uint_eq(file_size(&f, name), 8192);
    f.count = 0;
    must(&f, reopen(&f));
    ck_assert_uint_ge(ll_log_tail(f.log).v, 8 + 4032 + 8128);
}
END_TEST

static uint64_t zeros_written(struct fixture *fix)
{
    struct ll_log_stats before = stats(), after;
    fault_device_reset_calls(fix->fd);
    for (unsigned i = 0; i < 20 && stats().segments == before.segments; i++) {
        bool more;
        must(fix, ll_log_maintain(fix->log, &more, &fix->err));
    }
    after = stats();
    ck_assert_uint_eq(after.segments, before.segments + 1);
    return fault_device_calls(fix->fd, FAULT_PWRITEV) - 1; /* all but the header's write */
}

/* The log writes zeros to segments made ahead only if it is synced often. */
START_TEST(zeros_ahead_for_frequent_syncs)
{
    fixture_create(&f);
    put(&f, 10);
    ck_assert_uint_eq(zeros_written(&f), 0);
    for (unsigned i = 0; i < 16; i++) {
        put(&f, 10);
        force(&f);
    }
    ck_assert_uint_gt(zeros_written(&f), 0);
    fill_to(8 + 4032 + 100);
    ck_assert_uint_eq(zeros_written(&f), 0);
    force(&f);
    check_records(&f, 0, f.count);
    crash_and_reopen(&f, FAULT_POWER);
}
END_TEST

/* A writer that waits for a segment does not wait until zeros are written, because the segment is
 * only allocated. */
START_TEST(no_zeros_for_a_waiting_writer)
{
    fixture_create(&f);
    for (unsigned i = 0; i < 40; i++) {
        put(&f, 10);
        force(&f);
    }
    fault_device_reset_calls(f.fd);
    struct ll_log_stats before = stats();
    fill_to(30000);
    uint64_t made = stats().segments - before.segments;
    ck_assert_uint_gt(made, 0);
    ck_assert_uint_eq(fault_device_calls(f.fd, FAULT_PWRITEV),
                      made /* headers */ + stats().writes - before.writes);
    force(&f);
    check_records(&f, 0, f.count);
}
END_TEST

/* Truncation releases files. Some are kept and used again, the others are removed. */
START_TEST(truncation)
{
    fixture_create(&f);
    fill_to(100000);
    force(&f);
    uint64_t before = stats().segments;
    ck_assert_uint_eq(ll_log_oldest(f.log).v, 8);
    size_t middle = f.count / 2;
    must(&f, ll_log_truncate(f.log, f.list[middle].rec.lsn, &f.err));
    ck_assert_uint_gt(ll_log_oldest(f.log).v, 8);
    ck_assert_uint_le(ll_log_oldest(f.log).v, f.list[middle].rec.lsn.v);
    check_records(&f, middle, f.count);
    /* Truncation never goes back. */
    uint64_t oldest = ll_log_oldest(f.log).v;
    must(&f, ll_log_truncate(f.log, lladd_lsn_of(8), &f.err));
    ck_assert_uint_eq(ll_log_oldest(f.log).v, oldest);
    /* Reading below is refused. */
    struct ll_log_cursor *c;
    struct ll_record rec;
    ck_assert_int_eq(ll_log_cursor_open(f.log, &c), 0);
    must_fail(&f, LLADD_OUT_OF_RANGE, ll_log_cursor_read(c, lladd_lsn_of(8), &rec, &f.err));
    ll_log_cursor_close(c);
    maintain_all();
    ck_assert_uint_le(stats().segments, before);
    /* After the tenth round the log does not grow. */
    uint64_t bytes = 0;
    for (unsigned round = 0; round < 30; round++) {
        fill_to(ll_log_tail(f.log).v + 16000);
        force(&f);
        must(&f, ll_log_truncate(f.log, f.list[f.count - 10].rec.lsn, &f.err));
        if (round == 10)
            bytes = stats().segment_bytes;
        maintain_all();
    }
    ck_assert_uint_eq(stats().segment_bytes, bytes);
    check_records(&f, f.count - 10, f.count);
    f.start.from = f.list[f.count - 10].rec.lsn;
    f.start.watermark = ll_log_durable(f.log);
    crash_and_reopen(&f, FAULT_POWER);
    check_records(&f, f.count - 10, f.count);
}
END_TEST

/* The first call has left log that was not durable yet. Meanwhile a pin may need this log. */
START_TEST(a_truncation_takes_no_more_than_it_is_asked_for)
{
    fixture_create(&f);
    fill_to(30000);
    must(&f, ll_log_truncate(f.log, ll_log_tail(f.log), &f.err));
    force(&f);
    must(&f, ll_log_truncate(f.log, lladd_lsn_of(8), &f.err));
    ck_assert_uint_eq(ll_log_oldest(f.log).v, 8);
    check_records(&f, 0, f.count);
}
END_TEST

/* A clean stop leaves two files for reuse, even if nothing else ran after the truncation: each run
 * of a program may be too short for other work. The two are the largest. */
START_TEST(a_clean_stop_removes_released_files)
{
    lladd_lsn end;
    fixture_create(&f);
    fill_to(100000);
    force(&f);
    must(&f, ll_log_truncate(f.log, ll_log_tail(f.log), &f.err));
    uint64_t files = stats().segments;
    must(&f, ll_log_finish(f.log, &end, &f.err));
    struct ll_log_stats s = stats();
    ck_assert_uint_lt(s.segments, files);
    ck_assert_uint_le(s.segments, 2 + 1 + 2); /* released, in use, preallocated */
    ck_assert_uint_eq(s.segment_bytes / s.segments, f.cfg.segment_max);
}
END_TEST

/* Truncation stops at the durable end, even if the caller passes a higher LSN. */
START_TEST(truncation_stops_at_durable)
{
    fixture_create(&f);
    fill_to(30000);
    must(&f, ll_log_truncate(f.log, ll_log_tail(f.log), &f.err));
    ck_assert_uint_eq(ll_log_oldest(f.log).v, 8);
    check_records(&f, 0, f.count);
    force(&f);
    must(&f, ll_log_truncate(f.log, ll_log_tail(f.log), &f.err));
    ck_assert_uint_gt(ll_log_oldest(f.log).v, 8);
    put(&f, 4);
    check_records(&f, f.count - 1, f.count);
}
END_TEST

/* Logs and truncates until every old file is reused, except one that a cursor reads. Returns
 * whether the first file still has its name. */
static bool first_file_survives(void)
{
    struct lladd_file *file;
    for (unsigned round = 0; round < 10; round++) {
        must(&f, ll_log_truncate(f.log, f.list[f.count - 3].rec.lsn, &f.err));
        maintain_all();
        fill_to(ll_log_tail(f.log).v + 12000);
        force(&f);
    }
    int rc = f.memory->ops->open(f.memory, "log/0000000000000008.seg", LLADD_OPEN_READ_ONLY, &file);
    if (rc == 0)
        rc = f.memory->ops->close(f.memory, file);
    ck_assert(rc == 0 || rc == -ENOENT);
    return rc == 0;
}

/* While a cursor reads a file, that file is not used again. A cursor at rest reads no file. */
START_TEST(reader_keeps_its_file)
{
    struct ll_log_cursor *c;
    struct ll_record rec;
    f.cfg.segment_max = 4096;
    f.cfg.ring_bytes = 4096;
    fixture_create(&f);
    fill_to(40000);
    force(&f);
    ck_assert_int_eq(ll_log_cursor_open(f.log, &c), 0);
    must(&f, ll_log_cursor_read(c, lladd_lsn_of(8), &rec, &f.err));
    ck_assert(first_file_survives());
    /* The record may be gone. If it is not, its own bytes are returned. */
    int rc = ll_log_cursor_read(c, f.list[1].rec.lsn, &rec, &f.err);
    ck_assert(rc == 0 || rc == LLADD_OUT_OF_RANGE);
    if (rc == 0)
        check_record(&f, &rec, 1);
    ll_log_cursor_rest(c);
    ck_assert(!first_file_survives());
    must(&f, ll_log_cursor_read(c, f.list[f.count - 1].rec.lsn, &rec, &f.err));
    check_record(&f, &rec, f.count - 1);
    ll_log_cursor_close(c);
}
END_TEST

/* ---- failures ---- */

/* Each device call in the creation of a segment fails in turn. An append either succeeds or returns
 * an error of the resource root. No record is lost, and the next attempt succeeds. _i: index of the
 * error. */
START_TEST(creation_fails)
{
    const int errors[] = {ENOSPC, EIO, EMFILE, EROFS};
    for (uint64_t n = 1;; n++) {
        fixture_free(&f);
        fixture_init(&f);
        f.cfg.ring_bytes = 65536;
        fixture_create(&f);
        lladd_lsn lsn;
        int rc = 0;
        fault_device_fail(f.fd, n, FAULT_ANY, errors[_i], false);
        /* The ring has room and nothing is forced, so all calls belong to the creation. */
        while (rc == 0 && ll_log_tail(f.log).v < 9000)
            rc = try_put(&f, 300, &lsn);
        bool fired = fault_device_fired(f.fd) > 0;
        ck_assert(rc == 0 || fired);
        if (rc)
            ck_assert_int_eq(lladd_code_root(rc), LLADD_ROOT_RESOURCE);
        fault_device_fail(f.fd, 0, 0, 0, false);
        fill_to(20000);
        force(&f);
        check_records(&f, 0, f.count);
        ck_assert(!ll_poisoned(&f.poison));
        size_t count = f.count;
        crash_and_reopen(&f, FAULT_POWER);
        ck_assert_uint_eq(f.count, count);
        if (!fired)
            break;
    }
}
END_TEST

/* Each device call in the reuse of a released file fails in turn. */
START_TEST(reuse_fails)
{
    for (uint64_t n = 1;; n++) {
        fixture_free(&f);
        fixture_init(&f);
        f.cfg.segment_max = 4096;
        f.cfg.ring_bytes = 65536;
        fixture_create(&f);
        fill_to(20000);
        force(&f);
        must(&f, ll_log_truncate(f.log, f.list[f.count - 2].rec.lsn, &f.err));
        f.start.from = f.list[f.count - 2].rec.lsn;
        f.start.watermark = ll_log_durable(f.log);
        int rc = 0;
        lladd_lsn lsn;
        fault_device_fail(f.fd, n, FAULT_ANY, EIO, false);
        uint64_t goal = ll_log_tail(f.log).v + 6000;
        while (rc == 0 && ll_log_tail(f.log).v < goal)
            rc = try_put(&f, 300, &lsn);
        bool fired = fault_device_fired(f.fd) > 0;
        if (rc)
            ck_assert_int_eq(lladd_code_root(rc), LLADD_ROOT_RESOURCE);
        fault_device_fail(f.fd, 0, 0, 0, false);
        fill_to(goal + 8000);
        force(&f);
        size_t count = f.count;
        crash_and_reopen(&f, n % 2 ? FAULT_POWER : FAULT_KILL);
        ck_assert_uint_eq(f.count, count);
        if (!fired)
            break;
    }
}
END_TEST

/* On a full disk no credit is given, but records that have credit are written. When there is space
 * again, the log goes on. */
START_TEST(disk_full)
{
    lladd_lsn lsn;
    int rc = 0;
    fixture_create(&f);
    fault_device_capacity(f.fd, 4096 + 8192 + 16384);
    while (rc == 0)
        rc = try_put(&f, 200, &lsn);
    ck_assert_int_eq(rc, LLADD_NO_SPACE);
    ck_assert_ptr_nonnull(strstr(f.err.message, "log"));
    ck_assert_uint_gt(ll_log_tail(f.log).v, 8 + 4032 + 8128 - 1000);
    must_fail(&f, LLADD_NO_SPACE, try_put(&f, 200, &lsn));
    force(&f);
    for (unsigned i = 0; i < 3; i++)
        must_fail(&f, LLADD_NO_SPACE, try_put(&f, 200, &lsn));
    check_records(&f, 0, f.count);
    fault_device_capacity(f.fd, UINT64_MAX);
    fill_to(40000);
    force(&f);
    check_records(&f, 0, f.count);
}
END_TEST

/* Many commits use the last credit on a full disk. Groups get seals as long as there is space for
 * seals, and no force fails. */
START_TEST(seals_on_a_full_disk)
{
    struct ll_credit credit = {0};
    fixture_create(&f);
    fault_device_capacity(f.fd, 4096);
    must(&f, ll_log_credit(f.log, &credit, 3500, &f.err));
    ll_log_credit_rests(&credit);
    for (unsigned i = 0; i < 40; i++) {
        struct ll_record rec = {.kind = LL_REC_COMMIT, .page = LLADD_NO_PAGE};
        ll_log_reserve(f.log, &credit, &rec, false);
        ll_log_publish(f.log, &rec);
        must(&f, ll_log_force(f.log, rec.lsn, &f.err));
    }
    ll_log_credit_return(f.log, &credit);
    must_fail(&f, LLADD_NO_SPACE, ll_log_credit(f.log, &credit, 2000, &f.err));
    fault_device_capacity(f.fd, UINT64_MAX);
    put(&f, 3);
    force(&f);
}
END_TEST

START_TEST(byte_limit)
{
    lladd_lsn lsn;
    int rc = 0;
    f.cfg.segment_max = 65536;
    f.cfg.limit_bytes = 65536;
    fixture_create(&f);
    while (rc == 0) {
        rc = try_put(&f, 200, &lsn);
        ck_assert_uint_le(stats().segment_bytes, 65536);
    }
    ck_assert_int_eq(rc, LLADD_LOG_FULL);
    ck_assert_int_eq(lladd_code_root(rc), LLADD_ROOT_RETRY);
    ck_assert_uint_gt(f.checkpoint_calls, 0);
    ck_assert_uint_gt(ll_log_tail(f.log).v, 50000);
    must_fail(&f, LLADD_LOG_FULL, try_put(&f, 200, &lsn));
    must_fail(&f, LLADD_LOG_FULL, ll_log_undo_reserve(f.log, 10000, &f.err));
    /* Owed reservations and owed credit are granted even above the limit. */
    struct ll_credit owed = {0};
    must(&f, ll_log_undo_reserve_owed(f.log, 5000, &f.err));
    ck_assert_uint_le(stats().segment_bytes, 65536);
    must(&f, ll_log_undo_reserve_owed(f.log, 20000, &f.err));
    must(&f, ll_log_credit_owed(f.log, &owed, 5000, &f.err));
    ck_assert_uint_gt(stats().segment_bytes, 65536);
    ck_assert_uint_lt(stats().segment_bytes, 65536 + 30000);
    ll_log_credit_return(f.log, &owed);
    ll_log_undo_release(f.log, 25000);
    must_fail(&f, LLADD_LOG_FULL, ll_log_undo_reserve(f.log, 50000, &f.err));
    /* Truncation, as a checkpoint does it, makes room below the limit. */
    force(&f);
    must(&f, ll_log_truncate(f.log, f.list[f.count / 2].rec.lsn, &f.err));
    for (unsigned i = 0; i < 60; i++)
        put(&f, 200);
    force(&f);
    must(&f, ll_log_truncate(f.log, f.list[f.count / 2].rec.lsn, &f.err));
    ck_assert_uint_le(stats().segment_bytes, 65536);
    check_records(&f, f.count / 2, f.count);
}
END_TEST

/* Any thread can make the next segments ahead of time. */
START_TEST(maintenance)
{
    fixture_create(&f);
    put(&f, 10);
    maintain_all();
    ck_assert_uint_eq(stats().segments, 3);
    fault_device_reset_calls(f.fd);
    fill_to(8 + 4032 + 2000);
    ck_assert_uint_eq(fault_device_calls(f.fd, FAULT_WRITES), 0); /* all in the ring */
    maintain_all();
    ck_assert_uint_eq(stats().segments, 4);
    /* Segments made ahead survive a clean stop and are found again. */
    stop_and_reopen(&f);
    fault_device_reset_calls(f.fd);
    fill_to(12000);
    ck_assert_uint_eq(fault_device_calls(f.fd, FAULT_RENAME), 0);
    ck_assert_uint_eq(fault_device_calls(f.fd, FAULT_SYNC_DIR), 1); /* makes the names durable */
    ck_assert_uint_eq(stats().segments, 4);
    force(&f);
    check_records(&f, 0, f.count);
}
END_TEST

/* Open lists the directory and finds segments that were made ahead. The header of such a segment
 * must have the LSN at which the segment before it ends, and the log's incarnation. */
START_TEST(segments_ahead_are_checked)
{
    char name[LL_LOG_NAME_SIZE];
    unsigned char old[LL_LOG_BLOCK_HEADER], header[LL_LOG_BLOCK_HEADER];
    fixture_create(&f);
    put(&f, 10);
    maintain_all();
    stop(&f);
    struct ll_log_start by_listing = f.start;
    by_listing.segment.v = 0;
    must(&f, ll_log_open(&f.cfg, &by_listing, &f.log, &f.err));
    must(&f, ll_log_start(f.log, &f.err));
    put(&f, 10);
    ck_assert_uint_eq(ll_log_incarnation(f.log), 1);
    fault_device_reset_calls(f.fd);
    fill_to(4100);
    ck_assert_uint_eq(fault_device_calls(f.fd, FAULT_RENAME), 0);
    stop(&f);
    /* The next segment gets a header of another incarnation. Open reads only the segment in which
     * the log ends, so the log notices the wrong header when it needs the next segment. */
    name_of(8 + 4032 + 8128, name);
    read_file(&f, name, 0, old, sizeof old);
    struct ll_log__block b;
    ck_assert(ll_log__block_decode(old, &b));
    b.incarnation = 7;
    ll_log__block_encode(&b, header);
    write_file(&f, name, 0, header, sizeof header);
    must(&f, ll_log_open(&f.cfg, &f.start, &f.log, &f.err));
    must(&f, ll_log_start(f.log, &f.err));
    must_fail(&f, LLADD_CORRUPT_LOG, ll_log_undo_reserve(f.log, 100, &f.err));
    ck_assert_ptr_nonnull(strstr(f.err.message, name));
    ll_log_close(f.log);
    flip_byte(&f, name, 0, 1); /* now the header is damaged */
    must(&f, ll_log_open(&f.cfg, &f.start, &f.log, &f.err));
    must(&f, ll_log_start(f.log, &f.err));
    must_fail(&f, LLADD_CORRUPT_LOG, ll_log_undo_reserve(f.log, 100, &f.err));
    ll_log_close(f.log);
    /* If open lists the directory and finds the segment, the log goes on after that segment. */
    flip_byte(&f, name, 0, 1);
    by_listing = f.start;
    by_listing.segment.v = 0;
    must(&f, ll_log_open(&f.cfg, &by_listing, &f.log, &f.err));
    must(&f, ll_log_start(f.log, &f.err));
    ck_assert_uint_ge(ll_log_tail(f.log).v, 8 + 4032 + 8128 + 16320);
    ck_assert_uint_eq(ll_log_incarnation(f.log), 8);
    check_records(&f, 0, f.count);
}
END_TEST

/* At the last LSNs the log has no space left; LSNs do not begin again at 0. */
START_TEST(last_lsns)
{
    lladd_lsn lsn;
    int rc = 0;
    f.cfg.first.v = LL_LOG_LSN_END / 8 * 8 - 65536;
    fixture_create(&f);
    while (rc == 0)
        rc = try_put(&f, 900, &lsn);
    ck_assert_int_eq(rc, LLADD_NO_SPACE);
    force(&f);
    check_records(&f, 0, f.count);
    must_fail(&f, LLADD_NO_SPACE, try_put(&f, 900, &lsn));
}
END_TEST

/* It does no harm if a released file was removed by hand. */
START_TEST(a_released_file_was_removed_by_hand)
{
    char name[LL_LOG_NAME_SIZE];
    f.cfg.segment_max = 4096;
    fixture_create(&f);
    fill_to(20000);
    force(&f);
    must(&f, ll_log_truncate(f.log, f.list[f.count - 2].rec.lsn, &f.err));
    for (uint64_t first = 8; first < 12000; first += 4032) {
        name_of(first, name);
        ck_assert_int_eq(f.cfg.dev->ops->unlink(f.cfg.dev, name), 0);
    }
    lladd_lsn lsn;
    for (unsigned i = 0; i < 60; i++)
        (void)try_put(&f, 300, &lsn); /* may fail, as a file is gone */
    fill_to(50000);
    force(&f);
    maintain_all();
    check_records(&f, f.count - 2, f.count);
}
END_TEST

/* The log's thread makes segments ahead. */
START_TEST(the_logs_thread_makes_segments)
{
    f.env.threads = true;
    f.cfg.segment_max = 4096;
    fixture_create(&f);
    for (unsigned round = 0; round < 20; round++) {
        fill_to(ll_log_tail(f.log).v + 10000);
        force(&f);
        must(&f, ll_log_truncate(f.log, f.list[f.count - 5].rec.lsn, &f.err));
    }
    check_records(&f, f.count - 5, f.count);
    stop(&f); /* waits for the thread */
    must(&f, ll_log_open(&f.cfg, &f.start, &f.log, &f.err));
    must(&f, ll_log_start(f.log, &f.err));
    check_records(&f, f.count - 5, f.count);
}
END_TEST

/* Each device call in the creation of a log fails in turn; the files that remain do not hinder the
 * next attempt. */
START_TEST(create_fails)
{
    for (uint64_t n = 1;; n++) {
        fault_device_fail(f.fd, n, FAULT_ANY, EIO, false);
        int rc = ll_log_create(&f.cfg, &f.log, &f.err);
        bool fired = fault_device_fired(f.fd) > 0;
        fault_device_fail(f.fd, 0, 0, 0, false);
        ck_assert((rc != 0) == fired);
        if (!fired)
            break;
        f.log = NULL;
        ck_assert_int_eq(f.err.code, rc);
    }
    f.start.from.v = 8;
    put(&f, 5);
    force(&f);
    crash_and_reopen(&f, FAULT_POWER);
    ck_assert_uint_eq(f.count, 1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("segment");
    TCase *t = tcase_create("segment");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, sizes_double);
    tcase_add_loop_test(t, a_file_is_zeroed_before_it_gets_its_name, 0, 2);
    tcase_add_test(t, zeros_ahead_for_frequent_syncs);
    tcase_add_test(t, no_zeros_for_a_waiting_writer);
    tcase_add_test(t, truncation);
    tcase_add_test(t, a_truncation_takes_no_more_than_it_is_asked_for);
    tcase_add_test(t, a_clean_stop_removes_released_files);
    tcase_add_test(t, truncation_stops_at_durable);
    tcase_add_test(t, reader_keeps_its_file);
    tcase_add_loop_test(t, creation_fails, 0, 4);
    tcase_add_test(t, reuse_fails);
    tcase_add_test(t, disk_full);
    tcase_add_test(t, seals_on_a_full_disk);
    tcase_add_test(t, byte_limit);
    tcase_add_test(t, maintenance);
    tcase_add_test(t, segments_ahead_are_checked);
    tcase_add_test(t, last_lsns);
    tcase_add_test(t, a_released_file_was_removed_by_hand);
    tcase_add_test(t, the_logs_thread_makes_segments);
    tcase_add_test(t, create_fails);
    suite_add_tcase(s, t);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed == 0 ? 0 : 1;
}
