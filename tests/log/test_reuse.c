/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Three recoveries in a row make segments, accept no record, and crash: the first recovery at each
 * of its device calls in turn, and the next two at many of their calls. After each crash the log
 * opens, ends where it ended before, and hands out no LSN twice (LOG-1). A log that is opened for
 * inspection ends there, too.
 *
 * Also opens files of earlier versions, which wrote a segment's header before they renamed its
 * file.
 */
#include "log_fixture.h"

#include <stdlib.h>

static struct fixture f;

enum { RECORDS = 10 };

static void setup(void)
{
    fixture_init(&f);
}

static void teardown(void)
{
    fixture_free(&f);
}

static void append_some(unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        put(&f, 100 + i % 50);
}

/* ---- crashes in recovery ----------------------------------------------------------------- */

/* The circumstances of a log. */
struct circumstances {
    const char *name;
    uint64_t segment_max, limit;
    bool full;      /* there is no space for another file */
    bool truncates; /* recovery truncates the log, too */
    enum fault_crash_mode how;
};

static const struct circumstances circumstances[] = {
    {"killed", 16384, 0, false, false, FAULT_KILL},
    {"without power", 16384, 0, false, false, FAULT_POWER},
    {"in parts", 16384, 0, false, false, FAULT_SUBSET},
    {"of one size", 4096, 0, false, false, FAULT_KILL},
    {"of one size, in parts", 4096, 0, false, false, FAULT_SUBSET},
    {"at the limit", 4096, 4 * 4096, false, false, FAULT_KILL},
    {"at the limit, in parts", 4096, 4 * 4096, false, false, FAULT_SUBSET},
    {"on a full disk", 16384, 0, true, false, FAULT_KILL},
    {"on a full disk, in parts", 16384, 0, true, false, FAULT_SUBSET},
    {"truncating", 4096, 0, false, true, FAULT_KILL},
    {"truncating, in parts", 4096, 0, false, true, FAULT_SUBSET},
};
enum { CIRCUMSTANCES = sizeof circumstances / sizeof *circumstances };

/* The lowest LSN that no run of the log can have handed out. */
static uint64_t untouched;

static void note_tail(void)
{
    uint64_t tail = ll_log_tail(f.log).v;
    untouched = tail > untouched ? tail : untouched;
}

static void crash(const struct circumstances *c, uint64_t seed)
{
    uint64_t capacity = c->full ? fault_device_bytes(f.fd) : UINT64_MAX;
    if (f.log)
        ll_log_close(f.log);
    f.log = NULL;
    struct fault_crash how = {c->how, seed, true};
    fault_device_power_cycle(f.fd, &how);
    fault_device_capacity(f.fd, capacity);
}

/* The log writes a ring that is half full. So that records can be lost, each ring is more than
 * twice as large as these records. */
static const size_t rings[] = {65536, 16384, 32768, 262144};

/* Makes a log with ten durable records in its last segments, or in its only one. After these,
 * segments were made and not written to; some LSNs in them were handed out and lost. */
static void make(const struct circumstances *c, uint64_t ring)
{
    fixture_free(&f);
    fixture_init(&f);
    f.cfg.segment_max = c->segment_max;
    f.cfg.limit_bytes = c->limit;
    f.cfg.ring_bytes = rings[ring % (sizeof rings / sizeof *rings)];
    fixture_create(&f);
    while (c->truncates && ll_log_tail(f.log).v < 3 * 4032)
        append_some(1);
    append_some(RECORDS);
    force(&f);
    if (c->truncates) {
        f.start.from = f.list[f.count - RECORDS].rec.lsn;
        f.start.watermark = ll_log_durable(f.log);
    }
    bool more = true;
    while (more)
        must(&f, ll_log_maintain(f.log, &more, &f.err));
    untouched = 0;
    lladd_lsn lsn;
    size_t durable = f.count;
    for (unsigned i = 0; i < 20; i++)
        if (try_put(&f, 200, &lsn))
            break;
    note_tail();
    f.count = durable;
    crash(c, 1);
}

/* Runs recovery up to the n-th call that changes something, or all of it if n is 0. Recovery
 * reserves so much that new segments are made. It forces nothing. True if recovery was crashed. */
static bool recover(const struct circumstances *c, uint64_t n, uint64_t seed)
{
    size_t count = f.count;
    bool more = true;
    struct ll_credit credit = {0};
    fault_device_crash_at(f.fd, n);
    int rc = reopen(&f);
    ck_assert_msg(rc == 0 || fault_device_crashed(f.fd), "%s, call %llu: %s", c->name,
                  (unsigned long long)n, f.err.message);
    if (!rc) {
        ck_assert_uint_eq(f.count, count);
        ck_assert_msg(ll_log_tail(f.log).v >= untouched, "%s: LSN %llu twice", c->name,
                      (unsigned long long)ll_log_tail(f.log).v);
        /* There may be no space for 6000 bytes; then nothing is reserved. */
        bool aside = ll_log_undo_reserve_recovery(f.log, 6000, false, &f.err) == 0;
        if (aside)
            (void)ll_log_credit_reserved(f.log, &credit, 5000, &f.err);
        ll_log_credit_return(f.log, &credit);
        if (aside) /* as if all losers were rolled back */
            ll_log_undo_release(f.log, 6000);
        note_tail();
        if (c->truncates)
            (void)ll_log_truncate(f.log, f.list[f.count - RECORDS].rec.lsn, &f.err);
        for (unsigned i = 0; i < 4 && more; i++)
            if (ll_log_maintain(f.log, &more, &f.err))
                break;
    }
    bool crashed = fault_device_crashed(f.fd);
    fault_device_crash_at(f.fd, 0);
    if (crashed || n)
        crash(c, seed);
    f.count = count;
    return crashed;
}

static int count_one(void *ctx, const struct ll_record *rec, struct lladd_error *err)
{
    size_t *count = ctx;
    (void)err;
    *count += rec->kind != LL_REC_SEAL;
    return 0;
}

/* A log opened for inspection after a crash has the records that it had before. */
static void look_only(const struct circumstances *c)
{
    struct ll_log *log = NULL;
    size_t seen = 0, expected = 0;
    f.cfg.read_only = f.cfg.lenient = true;
    int rc = ll_log_open(&f.cfg, &f.start, &log, &f.err);
    if (!rc)
        rc = ll_log_scan(log, count_one, &seen, &f.err);
    ll_log_close(log);
    f.cfg.read_only = f.cfg.lenient = false;
    ck_assert_msg(rc == 0, "%s, read only: %s", c->name, f.err.message);
    for (size_t i = 0; i < f.count; i++)
        expected += f.list[i].rec.lsn.v >= f.start.from.v;
    ck_assert_uint_eq(seen, expected);
}

static void finish(const struct circumstances *c)
{
    size_t count = f.count;
    look_only(c);
    ck_assert(!recover(c, 0, 0));
    fault_device_capacity(f.fd, UINT64_MAX);
    f.cfg.limit_bytes = 0;
    check_records(&f, f.count - RECORDS, f.count);
    append_some(5);
    force(&f);
    crash_and_reopen(&f, FAULT_POWER);
    ck_assert_uint_eq(f.count, count + 5);
}

/* The first recovery is crashed at every call, the second at one in SECOND_ONE_IN calls, the third
 * at one in nine. With LLADD_NIGHTLY the second and the third are crashed at every call, too. */
#ifdef LL_TEST_SHORT
#define SECOND_ONE_IN 4
#define ROWS 25
#else
#define SECOND_ONE_IN 1
#define ROWS 100
#endif

/* _i: an index of circumstances[]. */
START_TEST(each_call_of_recoveries_in_a_row)
{
    const struct circumstances *c = &circumstances[_i];
    unsigned tried = 0;
    bool night = getenv("LLADD_NIGHTLY") != NULL;
    uint64_t by = night ? 1 : 9, second_by = night ? 1 : SECOND_ONE_IN;
    bool first = true, second, third;
    for (uint64_t a = 1; first; a++) {
        second = true;
        for (uint64_t b = 1 + a % second_by; second; b += second_by) {
            third = true;
            for (uint64_t d = 1 + (a + b) % by; third; d += by) {
                make(c, a + b + d);
                first = recover(c, a, a);
                second = recover(c, b, a + b);
                third = recover(c, d, a + b + d);
                finish(c);
                tried++;
            }
        }
    }
    ck_assert_uint_gt(tried, 100);
}
END_TEST

/* Longer series of crashes at random calls. A segment that a cut has skipped is ignored only while
 * the segment that names the cut exists. So after several crashes it matters which of the two files
 * is reused first. */
START_TEST(recoveries_at_random)
{
    const struct circumstances *c = &circumstances[_i];
    unsigned rows = getenv("LLADD_NIGHTLY") ? 20000 : ROWS;
    uint64_t seed = 77 + (uint64_t)_i;
    for (unsigned row = 0; row < rows; row++) {
        make(c, row);
        unsigned crashes = 4 + (unsigned)(seeded_next(&seed) % 8);
        for (unsigned i = 0; i < crashes; i++) {
            uint64_t most = seeded_next(&seed) % 4 ? 12 : 40;
            (void)recover(c, 1 + seeded_next(&seed) % most, seeded_next(&seed));
        }
        finish(c);
    }
}
END_TEST

/* ---- what earlier versions have left ----------------------------------------------------- */

/* Makes a log of ten durable records, and after them segments that a recovery has made and not
 * used: one that names the cut of the log, and `ahead` more. Returns where the first of these
 * segments begins. */
static uint64_t leave_stale(unsigned ahead, uint64_t *cut)
{
    bool more = true;
    fixture_free(&f);
    fixture_init(&f);
    f.cfg.segment_max = 4096;
    f.cfg.ring_bytes = 65536;
    fixture_create(&f);
    append_some(RECORDS);
    force(&f);
    *cut = ll_log_tail(f.log).v;
    crash(&circumstances[0], 1);
    must(&f, reopen(&f));
    uint64_t first = ll_log_tail(f.log).v;
    must(&f, ll_log_undo_reserve_recovery(f.log, ahead * 3500, false, &f.err));
    while (more)
        must(&f, ll_log_maintain(f.log, &more, &f.err));
    crash(&circumstances[0], 1);
    return first;
}

/* Writes a header to the file of segment `name`, as earlier versions did before they renamed that
 * file. The header is that of the segment that begins at `first`, and names `cut`. */
static void begin_to_reuse(uint64_t name, uint64_t first, uint64_t cut)
{
    unsigned char header[LL_LOG_BLOCK_HEADER];
    char path[LL_LOG_NAME_SIZE];
    struct ll_log__block b = {.incarnation = 9,
                              .lsn = first,
                              .block_size = 4096,
                              .segment_first = first,
                              .cut = cut,
                              .segment_size = 4096,
                              .uuid_hash = ll_log__uuid_hash(f.cfg.uuid)};
    ll_log__block_encode(&b, header);
    name_of(name, path);
    ck_assert(file_exists(&f, path));
    write_file(&f, path, 0, header, sizeof header);
}

/* The header in a file is for another segment than the file's name says. _i / 2: which of the stale
 * segments has that file (0: the one that names the cut). _i % 2: the disk is full. */
START_TEST(a_header_before_its_name)
{
    char path[LL_LOG_NAME_SIZE];
    const struct circumstances *c = &circumstances[_i % 2 ? 7 : 0];
    bool fired = true;
    for (uint64_t n = 1; fired; n++) {
        uint64_t cut, first = leave_stale(2, &cut), highest = first;
        for (name_of(highest, path); file_exists(&f, path); name_of(highest, path))
            highest += 4032;
        ck_assert_uint_ge(highest, first + 3 * 4032);
        begin_to_reuse(first + 4032 * (uint64_t)(_i / 2), highest, cut);
        untouched = highest;
        if (_i % 2)
            fault_device_capacity(f.fd, fault_device_bytes(f.fd));
        fired = recover(c, n, n);
        (void)recover(c, n / 2 + 1, n);
        finish(c);
    }
}
END_TEST

static bool is_there(const char *name)
{
    struct lladd_file *file;
    int rc = ll_io_open(f.cfg.dev, name, LLADD_OPEN_READ_ONLY, &file);
    if (rc == 0)
        ck_assert_int_eq(ll_io_close(f.cfg.dev, file), 0);
    return rc == 0;
}

/* A file that was being made at the crash is used or removed, whatever its size. */
START_TEST(unfinished_files_of_a_crash)
{
    static const char *const names[] = {"log/new.tmp", "log/0000000000000010.new",
                                        "log/0000000000000018.new"};
    static const uint64_t sizes[] = {0, 5000, 4096};
    fixture_create(&f);
    append_some(RECORDS);
    force(&f);
    crash(&circumstances[0], 1);
    for (unsigned i = 0; i < 3; i++) {
        struct lladd_file *file;
        ck_assert_int_eq(ll_io_open(f.cfg.dev, names[i], LLADD_OPEN_CREATE, &file), 0);
        ck_assert_int_eq(ll_io_truncate(f.cfg.dev, file, sizes[i]), 0);
        ck_assert_int_eq(ll_io_close(f.cfg.dev, file), 0);
    }
    must(&f, reopen(&f));
    bool more = true;
    while (more)
        must(&f, ll_log_maintain(f.log, &more, &f.err));
    append_some(20);
    force(&f);
    for (unsigned i = 0; i < 3; i++)
        ck_assert_msg(!is_there(names[i]), "%s is there", names[i]);
    crash_and_reopen(&f, FAULT_POWER);
    ck_assert_uint_eq(f.count, RECORDS + 20);
    check_records(&f, 0, f.count);
}
END_TEST

/* If a crash interrupts the creation of a segment, only the name of its file proves this. The LSNs
 * below that segment may have been handed out. */
START_TEST(the_name_keeps_the_highest_lsn)
{
    struct lladd_file *file;
    char name[LL_LOG_NAME_SIZE];
    fixture_create(&f);
    append_some(RECORDS);
    force(&f);
    crash(&circumstances[0], 1);
    ll_log__name(LL_LOG__NEW, 80008, name);
    ck_assert_int_eq(ll_io_open(f.cfg.dev, name, LLADD_OPEN_CREATE, &file), 0);
    ck_assert_int_eq(ll_io_close(f.cfg.dev, file), 0);
    ck_assert_int_eq(ll_io_sync_dir(f.cfg.dev, "log"), 0);
    must(&f, reopen(&f));
    ck_assert_uint_eq(ll_log_tail(f.log).v, 80008);
    append_some(5);
    force(&f);
    crash_and_reopen(&f, FAULT_POWER);
    check_records(&f, 0, RECORDS + 5);
}
END_TEST

/* A damaged file in a gap (the LSNs from a cut to the segment that names it) does no harm, not even
 * while that segment is reused. _i 1: the file in the gap is missing. */
START_TEST(damage_in_a_gap)
{
    bool fired = true;
    for (uint64_t n = 1; fired; n++) {
        char path[LL_LOG_NAME_SIZE];
        uint64_t cut, first = leave_stale(0, &cut);
        must(&f, reopen(&f)); /* cuts again: the former segment lies in the gap */
        untouched = ll_log_tail(f.log).v;
        crash(&circumstances[0], 1);
        name_of(first, path);
        ck_assert(file_exists(&f, path));
        if (_i)
            ck_assert_int_eq(f.memory->ops->unlink(f.memory, path), 0);
        else
            flip_byte(&f, path, 3, 1);
        crash(&circumstances[1], 1);
        fired = recover(&circumstances[0], n, n);
        (void)recover(&circumstances[0], n / 2 + 1, n);
        finish(&circumstances[0]);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("reuse");
    TCase *t = tcase_create("reuse");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, each_call_of_recoveries_in_a_row, 0, CIRCUMSTANCES);
    tcase_add_loop_test(t, recoveries_at_random, 0, CIRCUMSTANCES);
    tcase_add_loop_test(t, a_header_before_its_name, 0, 6);
    tcase_add_test(t, unfinished_files_of_a_crash);
    tcase_add_test(t, the_name_keeps_the_highest_lsn);
    tcase_add_loop_test(t, damage_in_a_gap, 0, 2);
    suite_add_tcase(s, t);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_ENV);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed == 0 ? 0 : 1;
}
