/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A full disk, and repeated crashes during recovery (REC-3). No file can grow. Each recovery has
 * only the log space that the previous recovery had. So after any number of crashes, the next
 * recovery must succeed.
 */
#include "db_fixture.h"
#include "support/fixtures.h"

#include <errno.h>
#include <lladd/bulk.h>
#include <lladd/bytes.h>
#include <lladd/extension.h>
#include <lladd/log_read.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGES = 40, IN_A_ROW = 6 };

#ifdef LL_TEST_SHORT
#define ROWS 40
#else
#define ROWS 100
#endif

static struct fixture r;
static lladd_pageno pages[PAGES];
static struct fault_crash how;

/* Commits some transactions, and leaves a loser with `loses` updates. Then the process dies, and
 * the disk is full. */
static void load_with(bool instant, unsigned loses, uint64_t segment_max)
{
    how.seed = 1;
    fixture_init(&r, 0);
    r.options.log_segment_min = 4096;
    r.options.log_segment_max = segment_max;
    r.options.cache_bytes = 80u << 10;
    r.options.recovery = instant ? LLADD_RECOVER_INSTANT : LLADD_RECOVER_FULL;
    fixture_open(&r);
    fixture_pages(&r, pages, PAGES);
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    struct lladd_txn *loser = loses ? fixture_begin(&r) : NULL;
    for (unsigned i = 0; i < loses; i++)
        ok(loser, cell_put(loser, cell_of(pages[i % PAGES], 1 + i / PAGES % 30), 666 + i));
    for (unsigned i = 0; i < PAGES; i++)
        fixture_set(&r, cell_of(pages[i], 0), 1 + i);
    fixture_crash(&r, &fault_kill);
    fault_device_capacity(r.fd, fault_device_bytes(r.fd));
}

static void load(bool instant, unsigned loses)
{
    load_with(instant, loses, 16u << 10);
}

/* Opens the database and takes a checkpoint, with a crash at the n-th device call. Returns false if
 * there are fewer calls. If `may_refuse` is true, also returns false if the disk has no space. */
static bool recovery_dies(uint64_t n, bool may_refuse)
{
    fault_device_crash_at(r.fd, n);
    int rc = fixture_try_open(&r);
    if (!rc)
        rc = lladd_checkpoint(r.db, &r.err);
    bool crashed = fault_device_crashed(r.fd);
    ck_assert_msg(crashed || rc == 0 || (may_refuse && rc == LLADD_NO_SPACE), "call %llu: %s: %s",
                  (unsigned long long)n, lladd_code_name(rc), r.err.message);
    fault_device_crash_at(r.fd, 0);
    how.seed += n;
    if (r.db)
        fixture_crash(&r, &how);
    else
        fault_device_power_cycle(r.fd, &how);
    return crashed;
}

static void expect_commits(void)
{
    for (unsigned i = 0; i < PAGES; i++) {
        fixture_expect(&r, cell_of(pages[i], 0), 1 + i);
        for (unsigned k = 1; k <= 30; k++)
            fixture_expect(&r, cell_of(pages[i], k), 0);
    }
}

/* The bits of _i:
 * - bit 0: recovery is instant;
 * - bit 1: each recovery crashes one call later than the previous one;
 * - the other bits: what a crash leaves. */
START_TEST(any_number_of_recoveries_may_crash)
{
    static const enum fault_crash_mode modes[] = {FAULT_KILL, FAULT_POWER, FAULT_SUBSET};
    bool crashed = true;
    uint64_t tried = 0;
    how.mode = modes[_i / 4];
    for (uint64_t n = 1; crashed; n++) {
        load(_i & 1, 0);
        crashed = false;
        for (unsigned k = 0; k < IN_A_ROW; k++)
            crashed |= recovery_dies(n + (_i & 2 ? k : 0), false);
        int rc = fixture_try_open(&r);
        ck_assert_msg(rc == 0, "after calls %llu: %s: %s", (unsigned long long)n,
                      lladd_code_name(rc), r.err.message);
        expect_commits();
        fixture_close(&r);
        fixture_free(&r);
        tried++;
    }
    ck_assert_uint_gt(tried, 20);
}
END_TEST

/* ---- a class that keeps its state on a page -------------------------------------------------- */

static bool early;

/* A real class would read the oldest LSN that it needs from its page. */
static lladd_lsn class_durable_lsn(void *ctx, struct lladd_db *db)
{
    (void)ctx;
    (void)db;
    if (r.db == NULL && (!r.trace || !strstr(r.trace, "redo: from")))
        early = true;
    return lladd_lsn_of(UINT64_MAX);
}

static const struct lladd_object_class state_class = {
    .struct_size = sizeof state_class,
    .name = "test.state",
    .version = 1,
    .durable_lsn = class_durable_lsn,
};

static void log_object(void)
{
    struct lladd_token token;
    lladd_lsn lsn;
    struct lladd_txn *txn = fixture_begin(&r);
    const struct lladd_span none = {NULL, 0};
    ok(txn, lladd_log_object(txn, &state_class, 1, none, none, &token, &lsn));
    lladd_object_applied(txn, &token);
    done(lladd_commit(txn));
}

/* Writes until a transaction is refused for lack of space. */
static void use_up_log(void)
{
    int rc = 0;
    for (unsigned i = 0; !rc; i++) {
        struct lladd_txn *txn = fixture_begin(&r);
        rc = cell_put_wide(txn, cell_of(pages[1], 1), i, 1500);
        done(rc ? lladd_abort(txn) : lladd_commit(txn));
    }
    ck_assert_int_eq(rc, LLADD_NO_SPACE);
}

/* A class stores on its page the oldest LSN that it still needs. So recovery must redo the pages
 * before it asks the class, even if it lacks log space. */
START_TEST(a_class_is_not_asked_before_its_pages_are_redone)
{
    bool crashed = true;
    for (uint64_t n = 1; crashed; n++) {
        how = (struct fault_crash){.mode = FAULT_KILL};
        fixture_init(&r, 0);
        r.options.log_segment_min = 4096;
        r.options.log_segment_max = 16u << 10;
        r.options.recovery = _i ? LLADD_RECOVER_INSTANT : LLADD_RECOVER_FULL;
        ok_db(&r, lladd_register_class(&r.options, &state_class, &r.err));
        fixture_want_trace(&r);
        fixture_open(&r);
        fixture_pages(&r, pages, PAGES);
        log_object();
        ok_db(&r, lladd_checkpoint(r.db, &r.err));
        fixture_set(&r, cell_of(pages[0], 0), 1);
        fault_device_capacity(r.fd, fault_device_bytes(r.fd));
        use_up_log();
        fixture_crash(&r, &fault_kill);
        early = crashed = false;
        for (unsigned k = 0; k < IN_A_ROW; k++)
            crashed |= recovery_dies(n, true);
        ck_assert_msg(!early, "call %llu", (unsigned long long)n);
        fault_device_capacity(r.fd, UINT64_MAX);
        fixture_open(&r);
        fixture_expect(&r, cell_of(pages[0], 0), 1);
        fixture_close(&r);
        fixture_free(&r);
    }
}
END_TEST

/* A transaction in doubt keeps the log from being truncated. Each recovery gets as far as its
 * checkpoint, and then crashes. */
START_TEST(any_number_of_crashes_after_recovery)
{
    struct lladd_gid gid = gid_of("doubt");
    load(_i & 1, 0);
    fault_device_capacity(r.fd, UINT64_MAX);
    fixture_open(&r);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, cell_put(txn, cell_of(pages[1], 7), 7));
    done(lladd_prepare(txn, &gid));
    fixture_crash(&r, &fault_kill);
    fault_device_capacity(r.fd, fault_device_bytes(r.fd));
    for (unsigned k = 0; k < 4 * IN_A_ROW; k++) {
        int rc = fixture_try_open(&r);
        ck_assert_msg(rc == 0, "open %u: %s: %s", k, lladd_code_name(rc), r.err.message);
        ok_db(&r, lladd_checkpoint(r.db, &r.err));
        fixture_crash(&r, &fault_kill);
    }
    fixture_open(&r);
    done(lladd_abort(fixture_claim(&r, "doubt")));
    expect_commits();
    fixture_close(&r);
    fixture_free(&r);
}
END_TEST

/* A loser has changed more pages than the cache holds. So parts of its undo are durable when a
 * recovery crashes, and the next recovery goes on after them. */
START_TEST(an_undo_that_a_crash_interrupts_goes_on)
{
    enum { LOSES = 1200 };
    bool crashed = true;
    uint64_t tried = 0;
    how.mode = _i & 2 ? FAULT_SUBSET : FAULT_KILL;
    for (uint64_t n = 1; crashed; n++) {
        load(_i & 1, LOSES);
        crashed = false;
        for (unsigned k = 0; k < 2 * IN_A_ROW; k++)
            crashed |= recovery_dies(n, false);
        fixture_open(&r);
        expect_commits();
        fixture_close(&r);
        fixture_free(&r);
        tried++;
        n += n / 7;
    }
    ck_assert_uint_gt(tried, 20);
}
END_TEST

/* Recoveries crash at random calls. Some crash after they have begun a new segment, when no space
 * is left for what rollbacks may need. */
START_TEST(recoveries_crash_at_random_calls)
{
    static const enum fault_crash_mode modes[] = {FAULT_KILL, FAULT_POWER, FAULT_SUBSET};
    uint64_t seed = 77 + (uint64_t)_i;
    for (unsigned row = 0; row < ROWS; row++) {
        load_with(_i & 1, 20 + (unsigned)seeded_next(&seed) % 1200, 4096u << row % 5);
        for (unsigned k = 0; k < 8; k++) {
            how.mode = modes[seeded_next(&seed) % 3];
            (void)recovery_dies(1 + seeded_next(&seed) % (k % 3 == 1 ? 400 : 40), false);
        }
        int rc = fixture_try_open(&r);
        ck_assert_msg(rc == 0, "row %u: %s: %s", row, lladd_code_name(rc), r.err.message);
        expect_commits();
        fault_device_capacity(r.fd, UINT64_MAX);
        fixture_close(&r);
        fixture_free(&r);
    }
}
END_TEST

/* At a clean close, the log's end was the beginning of an empty segment. If the next recovery
 * cannot make a segment of its own, it must not set the log's end to an earlier LSN. */
START_TEST(the_log_end_of_a_clean_close_does_not_go_back)
{
    load(_i & 1, 0);
    fault_device_capacity(r.fd, UINT64_MAX);
    fixture_open(&r);
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    fixture_crash(&r, &fault_kill);
    fixture_open(&r);
    lladd_lsn told = lladd_durable_lsn(r.db);
    fixture_close(&r);
    fixture_open(&r);
    struct lladd_txn *loser = fixture_begin(&r);
    ok(loser, cell_put(loser, cell_of(pages[1], 7), 7));
    fixture_crash(&r, &fault_power);
    fault_device_only(r.fd, "log/");
    fault_device_fail(r.fd, 1, FAULT_RENAME, ENOSPC, false);
    int rc = fixture_try_open(&r);
    ck_assert(rc == 0 || rc == LLADD_NO_SPACE);
    fault_device_fail(r.fd, 0, FAULT_RENAME, ENOSPC, false);
    if (!rc)
        fixture_crash(&r, &fault_kill);
    fixture_open(&r);
    ck_assert_uint_ge(lladd_durable_lsn(r.db).v, told.v);
    expect_commits();
    fixture_close(&r);
    fixture_free(&r);
}
END_TEST

/* Takes a checkpoint. It may be refused if it frees no log, and only reserved space is left. */
static int checkpoint_or_no_space(void)
{
    int rc = lladd_checkpoint(r.db, &r.err);
    ck_assert_msg(rc == 0 || rc == LLADD_NO_SPACE, "%s: %s", lladd_code_name(rc), r.err.message);
    return rc;
}

/* A checkpoint logs all pins again. The space for this is reserved when the pins are set. */
START_TEST(pins_leave_space_for_a_checkpoint)
{
    enum { PINS = 400 };
    char name[64];
    load(false, 0);
    fault_device_capacity(r.fd, UINT64_MAX);
    fixture_open(&r);
    for (unsigned i = 0; i < PINS; i++) {
        snprintf(name, sizeof name, "%063u", i);
        ok_db(&r, lladd_pin_set(r.db, name, lladd_durable_lsn(r.db), &r.err));
    }
    fault_device_capacity(r.fd, fault_device_bytes(r.fd));
    use_up_log();
    if (_i)
        checkpoint_or_no_space();
    fixture_close(&r);
    fixture_open(&r);
    fault_device_capacity(r.fd, UINT64_MAX);
    for (unsigned i = 0; i < PINS; i++) {
        snprintf(name, sizeof name, "%063u", i);
        ok_db(&r, lladd_pin_clear(r.db, name, &r.err));
    }
    fixture_close(&r);
    fixture_free(&r);
}
END_TEST

/* A pin can be cleared on a full disk, because the space for this was reserved when it was set. */
START_TEST(pins_can_be_cleared_on_a_full_disk)
{
    enum { PINS = 400 };
    char name[64];
    load(false, 0);
    fault_device_capacity(r.fd, UINT64_MAX);
    fixture_open(&r);
    for (unsigned i = 0; i < PINS; i++) {
        snprintf(name, sizeof name, "%063u", i);
        ok_db(&r, lladd_pin_set(r.db, name, lladd_durable_lsn(r.db), &r.err));
    }
    fault_device_capacity(r.fd, fault_device_bytes(r.fd));
    use_up_log();
    if (_i & 1)
        checkpoint_or_no_space();
    if (_i & 2) {
        fixture_close(&r);
        fixture_open(&r);
    }
    for (unsigned i = 0; i < PINS; i++) {
        snprintf(name, sizeof name, "%063u", i);
        ok_db(&r, lladd_pin_clear(r.db, name, &r.err));
    }
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    fixture_set(&r, cell_of(pages[0], 0), 1);
    fixture_close(&r);
    fixture_free(&r);
}
END_TEST

static void set_pins(unsigned n)
{
    char name[64];
    for (unsigned i = 0; i < n; i++) {
        snprintf(name, sizeof name, "%063u", i);
        ok_db(&r, lladd_pin_set(r.db, name, lladd_durable_lsn(r.db), &r.err));
    }
}

static void clear_pins(unsigned n)
{
    char name[64];
    for (unsigned i = 0; i < n; i++) {
        snprintf(name, sizeof name, "%063u", i);
        ok_db(&r, lladd_pin_clear(r.db, name, &r.err));
    }
}

/* Users have used up the log, the disk is full, and the process is killed. The next open cannot
 * reserve space. But the space that was reserved before the kill must be enough for a checkpoint,
 * for the clearing of pins, and for a clean close, in any order. The bits of _i:
 * - bit 0: recovery is instant;
 * - bit 1: the first recovery is killed, too;
 * - the other bits: which of the checkpoint, the clearing and the close comes first. */
START_TEST(reserved_space_is_there_after_a_kill)
{
    for (unsigned pins = 4; pins < 100; pins += 5) {
        load_with(_i & 1, 0, 64u << 10);
        fault_device_capacity(r.fd, UINT64_MAX);
        fixture_open(&r);
        set_pins(pins);
        struct lladd_txn *loser = fixture_begin(&r);
        ok(loser, cell_put(loser, cell_of(pages[2], 5), 666));
        fault_device_capacity(r.fd, fault_device_bytes(r.fd));
        use_up_log();
        fixture_crash(&r, &fault_kill);
        fixture_open(&r);
        if (_i & 2) {
            fixture_crash(&r, &fault_power);
            fixture_open(&r);
        }
        if (_i / 4 == 0)
            ok_db(&r, lladd_checkpoint(r.db, &r.err));
        if (_i / 4 == 1)
            clear_pins(pins);
        fixture_close(&r);
        fixture_open(&r);
        if (_i / 4 == 2)
            clear_pins(pins);
        ok_db(&r, lladd_checkpoint(r.db, &r.err));
        fixture_expect(&r, cell_of(pages[2], 5), 0);
        fixture_close(&r);
        fixture_free(&r);
    }
}
END_TEST

/* A checkpoint that frees no log is refused if it would use space that is reserved for a checkpoint
 * that frees log, or for the clearing of pins. So pins can always be cleared, after any number of
 * checkpoints, closes and kills. When the last pin is cleared, log becomes free. The bits of _i:
 * - bit 0: recovery is instant;
 * - the other bits: what comes between two checkpoints, which is nothing, a clean close, or a
 *   kill. */
START_TEST(checkpoints_that_free_nothing_leave_space)
{
    enum { PINS = 400, EACH = 4 };
    char name[64];
    load(_i & 1, 0);
    fault_device_capacity(r.fd, UINT64_MAX);
    fixture_open(&r);
    set_pins(PINS);
    fault_device_capacity(r.fd, fault_device_bytes(r.fd));
    use_up_log();
    unsigned refused = 0;
    for (unsigned i = 0; i < PINS; i++) {
        snprintf(name, sizeof name, "%063u", i);
        ok_db(&r, lladd_pin_clear(r.db, name, &r.err));
        if (i % EACH)
            continue;
        refused += checkpoint_or_no_space() != 0;
        if (_i / 2 == 1)
            fixture_close(&r);
        if (_i / 2 == 2)
            fixture_crash(&r, &fault_kill);
        if (_i / 2)
            fixture_open(&r);
    }
    ck_assert_uint_gt(refused, 0);
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    fixture_set(&r, cell_of(pages[0], 0), 1);
    fixture_close(&r);
    fixture_free(&r);
}
END_TEST

/* After checkpoints that have freed no log, enough space is left for a transaction that frees
 * log. */
START_TEST(a_transaction_that_frees_log_may_begin)
{
    enum { PINS = 60 };
    struct lladd_txn_options o = LLADD_TXN_OPTIONS_INIT;
    char name[64];
    o.frees_log = true;
    load(false, 0);
    fault_device_capacity(r.fd, UINT64_MAX);
    fixture_open(&r);
    set_pins(PINS);
    fault_device_capacity(r.fd, fault_device_bytes(r.fd));
    use_up_log();
    for (unsigned i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "%063u", i);
        ok_db(&r, lladd_pin_clear(r.db, name, &r.err));
        if (checkpoint_or_no_space())
            break;
    }
    struct lladd_txn *txn = fixture_begin_with(&r, &o);
    ok(txn, cell_put(txn, cell_of(pages[0], 1), 7));
    done(lladd_abort(txn));
    fixture_close(&r);
    fixture_free(&r);
}
END_TEST

/* A checkpoint that maintenance takes does not write back all pages. It logs again the redo
 * barriers that were logged since the previous checkpoint. If the barriers need more space than is
 * reserved on a full disk, the checkpoint writes back all pages, and logs no barriers. The bits of
 * _i:
 * - bit 0: maintenance takes such a checkpoint before the application takes its own;
 * - bit 1: the device never tears pages. */
START_TEST(redo_barriers_leave_space_for_a_checkpoint)
{
    enum { BARRIERS = 3331, ROUNDS = 60 };
    fixture_init(&r, 0);
    r.options.log_segment_min = 8192;
    r.options.log_segment_max = 32u << 10;
    r.options.checkpoint_bytes = 64u << 10;
    r.options.flags |= _i & 2 ? LLADD_OPT_ATOMIC_PAGES : 0;
    fixture_open(&r);
    fixture_pages(&r, pages, PAGES);
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    fixture_set(&r, cell_of(pages[0], 0), 5);
    for (unsigned i = 0; i < BARRIERS; i++) {
        struct lladd_txn *txn = fixture_begin(&r);
        ok(txn, lladd_redo_barrier(txn, lladd_page_of(1000 + 2 * i), 1));
        done(lladd_commit(txn));
    }
    fault_device_capacity(r.fd, fault_device_bytes(r.fd));
    use_up_log();
    for (unsigned i = 0; _i & 1 && i < ROUNDS; i++) {
        bool more;
        int rc = lladd_maintain(r.db, &more, &r.err);
        ck_assert_msg(rc == 0 || rc == LLADD_NO_SPACE, "%s", r.err.message);
    }
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    fixture_set(&r, cell_of(pages[0], 0), 1);
    fixture_crash(&r, &fault_kill);
    fixture_open(&r);
    fixture_expect(&r, cell_of(pages[0], 0), 1);
    fixture_close(&r);
    fixture_free(&r);
}
END_TEST

static bool holds;

static lladd_lsn holder_durable_lsn(void *ctx, struct lladd_db *db)
{
    (void)ctx;
    (void)db;
    return lladd_lsn_of(holds ? 1 : UINT64_MAX);
}

static const struct lladd_object_class holder_class = {
    .struct_size = sizeof holder_class,
    .name = "test.holder",
    .version = 1,
    .durable_lsn = holder_durable_lsn,
};

/* A class keeps the log. The test opens the database again and again, after a close or (bit 1 of
 * _i) after a kill. Each time it takes a checkpoint, because a checkpoint might make the class
 * release log. These checkpoints free nothing, and must not use up the reserved space. */
START_TEST(checkpoints_in_vain_do_not_use_up_the_reserved_space)
{
    enum { PINS = 40, ROUNDS = 30 };
    struct lladd_token token;
    lladd_lsn lsn;
    const struct lladd_span none = {NULL, 0};
    fixture_init(&r, 0);
    r.options.log_segment_min = 4096;
    r.options.log_segment_max = 16u << 10;
    r.options.recovery = _i & 1 ? LLADD_RECOVER_INSTANT : LLADD_RECOVER_FULL;
    ok_db(&r, lladd_register_class(&r.options, &holder_class, &r.err));
    holds = true;
    fixture_open(&r);
    fixture_pages(&r, pages, PAGES);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, lladd_log_object(txn, &holder_class, 1, none, none, &token, &lsn));
    lladd_object_applied(txn, &token);
    done(lladd_commit(txn));
    for (unsigned i = 0; i < 60; i++)
        fixture_set(&r, cell_of(pages[i % PAGES], 3), i);
    set_pins(PINS);
    fault_device_capacity(r.fd, fault_device_bytes(r.fd));
    use_up_log();
    unsigned refused = 0;
    for (unsigned i = 0; i < ROUNDS; i++) {
        if (_i & 2)
            fixture_crash(&r, &fault_kill);
        else
            fixture_close(&r);
        fixture_open(&r);
        refused += checkpoint_or_no_space() != 0;
    }
    ck_assert(refused > 0 || _i & 2); /* after a kill a checkpoint may need no space */
    clear_pins(PINS);
    holds = false;
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    fixture_set(&r, cell_of(pages[0], 0), 1);
    fixture_close(&r);
    fixture_free(&r);
}
END_TEST

/* If its checkpoint is refused, maintenance still does its other work, and then says that nothing
 * is left to do. */
START_TEST(maintenance_goes_on_without_its_checkpoint)
{
    load(true, 0);
    fault_device_capacity(r.fd, UINT64_MAX);
    fixture_open(&r);
    set_pins(200);
    fault_device_capacity(r.fd, fault_device_bytes(r.fd));
    use_up_log();
    for (unsigned i = 0; i < 8; i++) {
        fixture_crash(&r, &fault_kill);
        fixture_open(&r);
        bool more = true;
        for (unsigned n = 0; n < 1000 && more; n++) {
            int rc = lladd_maintain(r.db, &more, &r.err);
            ck_assert_msg(rc == 0 || rc == LLADD_NO_SPACE, "%s", r.err.message);
        }
        ck_assert(!more);
    }
    clear_pins(200);
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    fixture_close(&r);
    fixture_free(&r);
}
END_TEST

/* ---- many rollbacks that one kill interrupts ------------------------------------------------- */

enum { ROLLBACKS = 80, PARTS = 15, PART = 400, DECLARED = 48 << 10 };

static struct lladd_txn *rolling[ROLLBACKS];
static unsigned n_rolling, in_progress;
static bool stop_half_way;

static int log_parts(struct lladd_txn *txn, lladd_pageno where, uint64_t value)
{
    int rc = 0;
    for (unsigned i = 0; !rc && i < PARTS; i++)
        rc = cell_put_wide(txn, cell_of(where, 2), value, PART);
    return rc;
}

/* The undo bytes are the page's number. The compensation logs half of its records, and then starts
 * the rollback of the next transaction. The compensation of that transaction does the same. */
static int half_compensate(void *ctx, struct lladd_txn *txn, struct lladd_span undo)
{
    (void)ctx;
    lladd_pageno where = lladd_page_of(lladd_get64(undo.data));
    int rc = log_parts(txn, where, 1);
    if (!rc && stop_half_way) {
        if (++in_progress < n_rolling)
            return lladd_abort(rolling[in_progress]);
        rc = lladd_log_force(r.db, lladd_lsn_of(fixture_stats(&r).log_tail - 1), &r.err);
        return rc ? rc : LLADD_BUSY;
    }
    return rc ? rc : log_parts(txn, where, 0);
}

static const struct lladd_op half = {
    .struct_size = sizeof half,
    .name = "test.half",
    .version = 1,
    .record_max = 8,
    .undo_kind = LLADD_UNDO_LOGICAL,
    .compensate = half_compensate,
    .undo_log_max = DECLARED,
    .undo_pages_max = 1,
};

/* A kill comes when each of many rollbacks has logged a part of a compensation. Recovery undoes the
 * parts and runs the compensations again. The compensations may need more space than is reserved.
 * Open does not fail for this reason: compensations seldom need all that they may need. */
START_TEST(one_kill_interrupts_many_rollbacks)
{
    how.seed = 1;
    fixture_init(&r, 0);
    r.options.log_segment_min = 4096;
    r.options.log_segment_max = 16u << 10;
    r.options.recovery = _i & 1 ? LLADD_RECOVER_INSTANT : LLADD_RECOVER_FULL;
    ok_db(&r, lladd_register_op(&r.options, &half, &r.err));
    fixture_want_trace(&r);
    fixture_open(&r);
    fixture_pages(&r, pages, PAGES);
    for (unsigned i = 0; i < PAGES; i++)
        fixture_set(&r, cell_of(pages[i], 0), 1 + i);
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    lladd_op_id id;
    ok_db(&r, lladd_op_lookup(r.db, half.name, half.version, &id));
    for (n_rolling = 0; n_rolling < ROLLBACKS; n_rolling++) {
        unsigned char undo[8];
        lladd_put64(undo, pages[n_rolling % PAGES].v);
        rolling[n_rolling] = fixture_begin(&r);
        ok(rolling[n_rolling], lladd_log_undo_only(rolling[n_rolling], id, undo, sizeof undo));
    }
    fault_device_capacity(r.fd, fault_device_bytes(r.fd));
    use_up_log();
    in_progress = 0;
    stop_half_way = true;
    ck_assert_int_eq(lladd_abort(rolling[0]), LLADD_UNDO_FAILED);
    stop_half_way = false;
    ck_assert_uint_eq(in_progress, n_rolling);
    fixture_crash(&r, &fault_kill);
    int rc = fixture_try_open(&r);
    ck_assert_msg(rc == 0, "%s: %s", lladd_code_name(rc), r.err.message);
    ck_contains(r.trace, "undo: less log space");
    expect_commits();
    fixture_close(&r);
    fixture_free(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("a full disk");
    TCase *t = tcase_create("recovery");
    tcase_add_loop_test(t, any_number_of_recoveries_may_crash, 0, 12);
    tcase_add_loop_test(t, pins_leave_space_for_a_checkpoint, 0, 2);
    tcase_add_loop_test(t, pins_can_be_cleared_on_a_full_disk, 0, 4);
    tcase_add_loop_test(t, any_number_of_crashes_after_recovery, 0, 2);
    tcase_add_loop_test(t, a_class_is_not_asked_before_its_pages_are_redone, 0, 2);
    tcase_add_loop_test(t, an_undo_that_a_crash_interrupts_goes_on, 0, 4);
    tcase_add_loop_test(t, recoveries_crash_at_random_calls, 0, 4);
    tcase_add_loop_test(t, the_log_end_of_a_clean_close_does_not_go_back, 0, 2);
    suite_add_tcase(s, t);
    t = tcase_create("aside");
    tcase_add_loop_test(t, reserved_space_is_there_after_a_kill, 0, 12);
    tcase_add_loop_test(t, checkpoints_that_free_nothing_leave_space, 0, 6);
    tcase_add_loop_test(t, redo_barriers_leave_space_for_a_checkpoint, 0, 4);
    tcase_add_loop_test(t, checkpoints_in_vain_do_not_use_up_the_reserved_space, 0, 4);
    tcase_add_test(t, maintenance_goes_on_without_its_checkpoint);
    tcase_add_test(t, a_transaction_that_frees_log_may_begin);
    tcase_add_loop_test(t, one_kill_interrupts_many_rollbacks, 0, 2);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
