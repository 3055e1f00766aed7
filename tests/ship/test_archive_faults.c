/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The archive of the log: with a store that fails at each of its calls, cannot be reached for long,
 * or belongs to another copy of the database; after crashes; and of a database that is not open.
 */
#include "archive_rig.h"

#include "support/fault_device.h"

#include <errno.h>
#include <lladd/extension.h>
#include <lladd/log_read.h>
#include <lladd/sync.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- failures ------------------------------------------------------------------------------- */

/* Asserts that no log is given up that the store does not have. After a checkpoint, redo needs no
 * old log; the log that is needed must begin at or below the end of the last stored segment. */
static void check_pin(uint64_t oldest)
{
    struct ll_ship_segment s;
    lladd_lsn needed;
    uint64_t stored = oldest;
    for (size_t i = 0; i < store.n; i++) {
        const char *name = store.objects[i].name;
        if (strncmp(name, "t00000000/log/", 14) != 0 || !strstr(name, ".seg"))
            continue;
        ck_assert_ptr_null(
            ll_ship_segment_head(store.objects[i].bytes, strtoull(name + 14, NULL, 16), &s));
        if (ll_ship_segment_end(&s) > stored)
            stored = ll_ship_segment_end(&s);
    }
    OK(lladd_checkpoint(ledger.db, &err));
    OK(lladd_log_needed(ledger.db, &needed, &err));
    ck_assert_uint_le(needed.v, stored);
}

/* A call of the store fails, each in turn, alone or with all later ones, before or after it has had
 * its effect. The step returns the error, no commit fails, and later steps store everything. */
START_TEST(the_store_fails_at_each_call)
{
    bool lost = _i & 1, on = _i & 2;
    bool fired = true;
    for (uint64_t n = 1; fired; n += 1 + n / 20) {
        memory_store_free(&store);
        memory_store_init(&store);
        lladd_device_close(disk);
        ck_assert_int_eq(lladd_device_memory(&disk), 0);
        begin(disk, 1u << 14);
        keep();
        store.fail_at = n;
        store.fail_on = on;
        store.lost = lost;
        for (unsigned i = 0; i < 15; i++) {
            bool more = true;
            ledger_write(&ledger, 2500);
            while (more && i % 3 == 1) {
                int rc = lladd_archive_step(ledger.archive, &more, &err);
                ck_assert(rc == 0 || (store.fired && rc == LLADD_STORE_FAILED));
                ck_assert_int_eq(ledger_status(&ledger).error.code, rc);
                if (rc && !on)
                    check_pin(lladd_log_hold_raise(hold, lladd_lsn_of(0)).v);
            }
        }
        fired = store.fired != 0;
        ck_assert(!fired || ledger_status(&ledger).failures != 0 || lost);
        store.fail_at = 0;
        ledger_archive(&ledger);
        ck_assert_int_eq(ledger_status(&ledger).error.code, 0);
        check_all(true);
        end();
    }
}
END_TEST

/* At each call of the store the process dies, or the power fails at each call of the device. The
 * next run recognises its claim and goes on. */
START_TEST(the_process_dies_at_each_call)
{
    bool power = _i != 0;
    bool fired = true;
    for (uint64_t n = 1; fired; n += 1 + n / 10) {
        memory_store_free(&store);
        memory_store_init(&store);
        lladd_device_close(disk);
        ck_assert_int_eq(lladd_device_memory(&disk), 0);
        struct fault_device *fd = fault_device_new(disk);
        begin(fault_device_dev(fd), 1u << 14);
        uint64_t calls = fault_device_calls(fd, FAULT_ANY);
        if (power)
            fault_device_crash_at(fd, calls + n);
        else
            store.fail_at = n, store.fail_on = true, store.lost = n % 2;
        for (unsigned i = 0; i < 12; i++) {
            bool more = true;
            int rc = ledger_try(&ledger, 2500);
            ck_assert(rc == 0 || power);
            while (more && i % 3 == 1 && lladd_archive_step(ledger.archive, &more, &err) == 0)
                continue;
        }
        fired = power ? fault_device_calls(fd, FAULT_ANY) >= calls + n : store.fired != 0;
        ledger_kill(&ledger);
        const struct fault_crash how = {.mode = power ? FAULT_POWER : FAULT_KILL};
        fault_device_power_cycle(fd, &how);
        fault_device_free(fd);
        store.fail_at = 0;
        begin(disk, 1u << 14);
        ledger_archive(&ledger);
        for (unsigned i = 0; i < 6; i++)
            ledger_write(&ledger, 2500);
        ledger_archive(&ledger);
        check_all(false);
        ledger_close(&ledger);
    }
}
END_TEST

/* The store fails until the log is full. lladd_log_pinner names the archive's pin. When the store
 * works again, so do commits and the archive. */
START_TEST(a_full_log_with_the_store_gone)
{
    struct lladd_pinner who;
    int rc = 0;
    ledger_init(&ledger, disk, &store.base, 1u << 14);
    ledger.options.log_ring_bytes = 1u << 17;
    ledger.options.log_limit_bytes = 1u << 20;
    ledger_open(&ledger);
    if (_i == 1)
        ledger_archive(&ledger);
    for (unsigned round = 0; round < 3; round++) {
        /* The archive begins when the log is full: there is no space for a pin. */
        bool late = _i == 2 && round == 0;
        bool more;
        store.fail_at = store.calls + 1;
        store.fail_on = true;
        for (unsigned i = 0; i < 1000 && !rc; i++) {
            rc = ledger_try(&ledger, 3000);
            if (i % 10 == 0 && !late)
                ck_assert_int_eq(lladd_archive_step(ledger.archive, &more, &err),
                                 LLADD_STORE_FAILED);
        }
        ck_assert_int_eq(rc, LLADD_LOG_FULL);
        OK(lladd_log_pinner(ledger.db, &who, &err));
        ck_assert_str_eq(who.kind, late ? "hold" : "pin");
        ck_assert_ptr_nonnull(strstr(who.name, "lladd.archive"));
        ck_assert_uint_gt(ledger_status(&ledger).unstored_bytes, 500000);
        store.fail_at = 0;
        ledger_archive(&ledger);
        ledger_write(&ledger, 3000);
        rc = 0;
    }
    ledger_archive(&ledger);
    check_all(false);
    ledger_close(&ledger);
}
END_TEST

/* With give_up_bytes the archive gives up log that it could not store. The status reports the gap,
 * and the cuts of the stored segments show it. */
START_TEST(an_archive_that_gives_up)
{
    bool more;
    ledger.archive_options = (struct lladd_archive_options)LLADD_ARCHIVE_OPTIONS_INIT;
    ledger.archive_options.give_up_bytes = 300000;
    begin(disk, 1u << 14);
    for (unsigned i = 0; i < 10 && _i; i++)
        ledger_write(&ledger, 3000);
    if (_i)
        ledger_archive(&ledger);
    store.fail_at = store.calls + 1;
    store.fail_on = true;
    for (unsigned i = 0; i < 200; i++) {
        ledger_write(&ledger, 5000);
        ck_assert_int_eq(lladd_archive_step(ledger.archive, &more, &err), LLADD_STORE_FAILED);
        OK(lladd_checkpoint(ledger.db, &err));
    }
    struct lladd_archive_status s = ledger_status(&ledger);
    ck_assert(s.gap);
    ck_assert_uint_lt(s.gap_from.v, s.gap_to.v);
    ck_assert_uint_le(lladd_durable_lsn(ledger.db).v - s.kept.v, 300000 + 20000);
    store.fail_at = 0;
    for (unsigned i = 0; i < 20; i++) {
        ledger_write(&ledger, 3000);
        ledger_archive(&ledger);
    }
    struct archived a = read_archive();
    unsigned gaps = 0;
    check_remade(&a);
    for (size_t i = 1; i < a.n; i++)
        gaps += a.ix[i].cut.v != a.ix[i - 1].stop.v;
    ck_assert_uint_eq(gaps, _i ? 1 : 0);
    ck_assert_uint_eq(a.ix[_i ? a.n - 1 : 0].first.v > s.gap_from.v, true);
    free_archive(&a);
    ledger_close(&ledger);
}
END_TEST

/* Damage in the log is not stored, and the log is kept. */
START_TEST(damage_is_never_stored)
{
    struct lladd_file *file;
    unsigned char byte;
    bool more = true;
    int rc = 0;
    begin(disk, 1u << 16);
    keep();
    for (unsigned i = 0; i < 40; i++)
        ledger_write(&ledger, 5000);
    ledger_archive(&ledger);
    struct lladd_archive_status before = ledger_status(&ledger);
    for (unsigned i = 0; i < 40; i++)
        ledger_write(&ledger, 5000);
    /* Damages a byte of the segment that is stored next: in its header, or in the middle. */
    struct ll_ship_buf list = {.mem = {NULL}};
    OK(ll_ship_segments(disk, before.kept.v, lladd_durable_lsn(ledger.db).v, &list, &err));
    uint64_t first = ((struct ll_ship_segment *)(void *)(list.data + list.len))[-1].first;
    ll_ship_buf_free(&list);
    OK(ll_ship_segment_open(disk, first, &file, &err));
    uint64_t at = _i ? 30000 : 20;
    ck_assert_int_eq(disk->ops->pread(disk, file, &byte, 1, at), 1);
    ck_assert_int_eq(disk->ops->close(disk, file), 0);
    char name[40];
    (void)snprintf(name, sizeof name, "log/%016llx.seg", (unsigned long long)first);
    byte ^= 4;
    for (unsigned k = 0; k < 2; k++, byte ^= 4) {
        struct lladd_iovec piece = {&byte, 1};
        ck_assert_int_eq(disk->ops->open(disk, name, 0, &file), 0);
        ck_assert_int_eq(disk->ops->pwritev(disk, file, &piece, 1, at), 0);
        ck_assert_int_eq(disk->ops->close(disk, file), 0);
        if (k)
            break;
        while (more && !rc)
            rc = lladd_archive_step(ledger.archive, &more, &err);
        ck_assert_int_eq(rc, LLADD_CORRUPT_LOG);
        ck_assert_ptr_null(object(SEG, first));
        ck_assert_uint_eq(ledger_status(&ledger).kept.v, before.kept.v);
    }
    ledger_archive(&ledger);
    check_all(true);
    end();
}
END_TEST

/* ---- another copy --------------------------------------------------------------------------- */

static void expect_diverged(struct ledger *l)
{
    bool more = true;
    int rc = 0;
    while (more && !rc)
        rc = lladd_archive_step(l->archive, &more, &err);
    ck_assert_msg(rc == LLADD_DIVERGED, "%d: %s", rc, err.message);
    ck_assert(ledger_status(l).diverged);
    ck_assert_int_eq(lladd_archive_step(l->archive, &more, &err), LLADD_DIVERGED);
}

/* Two copies of one database: the one that archives first goes on, the other one stops, and keeps
 * its log. */
START_TEST(of_two_copies_one_stops)
{
    struct ledger other = {.n = 0};
    begin(disk, 1u << 14);
    for (unsigned i = 0; i < 20; i++)
        ledger_write(&ledger, 3000);
    ledger_archive(&ledger);
    ledger_close(&ledger);
    ledger_copy(disk, copy);
    begin(disk, 1u << 14);
    if (_i)
        ledger_archive(&ledger);
    if (_i >= 2) { /* copied after the claim, so the copy may claim, and the running one stops */
        lladd_device_close(copy);
        ck_assert_int_eq(lladd_device_memory(&copy), 0);
        ledger_copy(disk, copy);
    }
    ledger_init(&other, copy, &store.base, 1u << 14);
    ledger_open(&other);
    for (unsigned i = 0; i < 20; i++) {
        ledger_write(&ledger, 3000);
        ledger_write(&other, 2000);
    }
    if (_i == 3) { /* another copy has put a claim and stored no log yet */
        struct lladd_iovec piece = {"0123456789abcdef", 16};
        OK(store.base.ops->put(&store.base, "t00000000/claim.3", &piece, 1, &err));
    }
    struct ledger *stops = _i == 1 ? &other : &ledger, *goes = _i == 1 ? &ledger : &other;
    if (_i != 3)
        ledger_archive(goes);
    size_t objects = store.n;
    expect_diverged(stops);
    ck_assert_uint_eq(store.n, objects);
    uint64_t kept = ledger_status(stops).kept.v;
    ck_assert_uint_lt(kept, lladd_durable_lsn(stops->db).v);
    for (unsigned i = 0; i < 20 && _i != 3; i++)
        ledger_write(goes, 3000);
    if (_i != 3)
        ledger_archive(goes);
    ledger_close(&other);
    ledger_close(&ledger);
    struct archived a = read_archive();
    check_remade(&a);
    for (size_t i = 1; i < a.n; i++)
        ck_assert_uint_eq(a.ix[i].cut.v, a.ix[i - 1].stop.v);
    free_archive(&a);
}
END_TEST

/* Writes into a copy of the database, without archiving. */
static void write_in_copy(void)
{
    struct ledger other = {.n = 0};
    ledger_init(&other, copy, &store.base, 1u << 14);
    ledger_open(&other);
    for (unsigned i = 0; i < 12; i++)
        ledger_write(&other, 2500);
    ledger_kill(&other);
}

/* The store has an object with the name of the next segment. If it has the same bytes, the archive
 * goes on, as after a lost reply. If it is the segment of another copy, the archive stops; if it is
 * damaged, the error says so, and the archive goes on when the object is removed. */
START_TEST(a_taken_name)
{
    enum { SAME, OTHER, DAMAGED };
    begin(disk, 1u << 14);
    for (unsigned i = 0; i < 10; i++)
        ledger_write(&ledger, 3000);
    ledger_archive(&ledger);
    ledger_close(&ledger);
    ledger_copy(disk, copy);
    begin(disk, 1u << 14);
    keep();
    ledger_archive(&ledger);
    uint64_t kept = ledger_status(&ledger).kept.v;
    for (unsigned i = 0; i < 10; i++)
        ledger_write(&ledger, 3000);
    write_in_copy();
    struct ll_ship_buf list = {.mem = {NULL}};
    OK(ll_ship_segments(disk, kept, lladd_durable_lsn(ledger.db).v, &list, &err));
    struct ll_ship_segment s = ((struct ll_ship_segment *)(void *)(list.data + list.len))[-1];
    ll_ship_buf_free(&list);
    unsigned char *bytes = malloc(s.size);
    struct lladd_device *from = _i == OTHER ? copy : disk;
    struct lladd_file *file;
    char name[LL_SHIP_NAME_MAX];
    OK(ll_ship_segment_open(from, s.first, &file, &err));
    OK(ll_ship_segment_read(from, file, s.first, 0, bytes, s.size, &err));
    ck_assert_int_eq(from->ops->close(from, file), 0);
    bytes[s.size / 2] ^= _i == DAMAGED ? 1 : 0;
    ll_ship_seg_name(0, s.first, name);
    struct lladd_iovec piece = {bytes, s.size};
    OK(store.base.ops->put(&store.base, name, &piece, 1, &err));
    bool more = true;
    if (_i == OTHER) {
        expect_diverged(&ledger);
    } else if (_i == DAMAGED) {
        int rc = 0;
        while (more && !rc)
            rc = lladd_archive_step(ledger.archive, &more, &err);
        ck_assert_int_eq(rc, LLADD_CORRUPT_BACKUP);
        ck_assert_ptr_nonnull(strstr(err.message, name));
        ck_assert(!ledger_status(&ledger).diverged);
    }
    if (_i != SAME) {
        ck_assert_int_eq(memcmp(object(SEG, s.first)->bytes, bytes, s.size), 0);
        ck_assert_uint_eq(ledger_status(&ledger).kept.v, kept);
        memory_store_drop(&store, object(SEG, s.first));
    }
    if (_i != OTHER) {
        ledger_archive(&ledger);
        check_all(false);
    }
    free(bytes);
    end();
}
END_TEST

/* A database that was put back from a copy of its files, without the log that it archived since,
 * does not continue its archive. */
START_TEST(an_older_copy_of_the_files)
{
    begin(disk, 1u << 14);
    for (unsigned i = 0; i < 10; i++)
        ledger_write(&ledger, 3000);
    ledger_archive(&ledger);
    ledger_close(&ledger);
    ledger_copy(disk, copy);
    begin(disk, 1u << 14);
    for (unsigned i = 0; i < 30; i++)
        ledger_write(&ledger, 3000);
    ledger_archive(&ledger);
    ledger_close(&ledger);
    begin(copy, 1u << 14);
    if (_i)
        for (unsigned i = 0; i < 60; i++)
            ledger_write(&ledger, 2500);
    /* Without pieces, the archive can compare only segments. */
    for (struct memory_object *o; _i == 2 && (o = memory_store_find(&store, ".part")) != NULL;)
        memory_store_drop(&store, o);
    /* Removes the claim that the copy does not know, so that only the log can tell. */
    for (struct memory_object *o; (o = memory_store_find(&store, "claim.2")) != NULL;)
        memory_store_drop(&store, o);
    expect_diverged(&ledger);
    ledger_close(&ledger);
}
END_TEST

/* A restored copy has a timeline of its own: it does not keep log for the archive of its origin,
 * and has another archive in the same store. */
START_TEST(a_restored_copy)
{
    struct lladd_options plain = LLADD_OPTIONS_INIT;
    struct lladd_pinner who;
    struct lladd_db *db;
    begin(disk, 1u << 14);
    for (unsigned i = 0; i < 20; i++)
        ledger_write(&ledger, 3000);
    ledger_archive(&ledger);
    if (_i)
        OK(lladd_checkpoint(ledger.db, &err));
    OK(lladd_backup(ledger.db, &store.base, NULL, NULL, &err));
    OK(lladd_restore(&store.base, NULL, copy, NULL, &err));
    plain.device = copy;
    plain.flags = LLADD_OPT_NO_THREADS;
    OK(lladd_open(NULL, &plain, &db, &err));
    OK(lladd_checkpoint(db, &err));
    OK(lladd_log_pinner(db, &who, &err));
    ck_assert_str_ne(who.kind, "pin");
    ck_assert_int_eq(lladd_close(db), 0);
    /* Both are archived. */
    struct ledger other = {.n = 0};
    ledger_init(&other, copy, &store.base, 1u << 14);
    ledger_open(&other);
    for (unsigned i = 0; i < 20; i++) {
        ledger_write(&ledger, 3000);
        ledger_write(&other, 2000);
        ledger_archive(&ledger);
        ledger_archive(&other);
    }
    ck_assert_ptr_nonnull(memory_store_find(&store, "t00000001/log/"));
    ledger_close(&other);
    check_all(false);
    ledger_close(&ledger);
}
END_TEST

/* ---- a database that is not open ------------------------------------------------------------ */

static struct lladd_archive_status pushed(struct lladd_device *dev)
{
    struct lladd_archive_status s = {.struct_size = sizeof s};
    OK(lladd_archive_push(dev, &store.base, NULL, &s, &err));
    return s;
}

/* lladd_archive_push stores the rest of the log after a crash or a clean close, and writes nothing
 * to the database's device. The next run continues the archive. Without an earlier archive, all log
 * that exists is stored. */
START_TEST(the_log_of_a_closed_database_is_pushed)
{
    enum { KILL = 1, ARCHIVED = 2 };
    struct lladd_archive_status s = {.struct_size = sizeof s};
    begin(disk, 1u << 14);
    ck_assert_int_eq(lladd_archive_push(disk, &store.base, NULL, NULL, &err), LLADD_LOCKED);
    for (unsigned i = 0; i < 20; i++)
        ledger_write(&ledger, 3000);
    if (_i & ARCHIVED)
        ledger_archive(&ledger);
    for (unsigned i = 0; i < 20; i++)
        ledger_write(&ledger, 3000);
    uint64_t durable = lladd_durable_lsn(ledger.db).v;
    if (_i & KILL)
        ledger_kill(&ledger);
    else
        ledger_close(&ledger);
    struct fault_device *fd = fault_device_new(disk);
    s = pushed(fault_device_dev(fd));
    ck_assert_uint_eq(fault_device_calls(fd, FAULT_WRITES), 0);
    ck_assert_uint_ge(s.stored.v, durable);
    ck_assert_uint_eq(s.unstored_bytes, 0);
    ck_assert(!s.gap);
    ck_assert_uint_eq(pushed(fault_device_dev(fd)).objects, 0);
    fault_device_free(fd);
    ledger_copy(disk, copy);
    begin(disk, 1u << 14);
    for (unsigned i = 0; i < 20; i++)
        ledger_write(&ledger, 3000);
    ledger_archive(&ledger);
    check_all(false);
    ledger_close(&ledger);
    ck_assert_int_eq(lladd_archive_push(copy, &store.base, NULL, NULL, &err), LLADD_DIVERGED);
    ck_assert_int_eq(lladd_archive_push(NULL, &store.base, NULL, NULL, &err), LLADD_BAD_ARGUMENT);
}
END_TEST

/* ---- a header of the log -------------------------------------------------------------------- */

/* Returns the first LSN of the second segment after `from`. */
static uint64_t second_after(uint64_t from)
{
    struct ll_ship_buf list = {.mem = {NULL}};
    OK(ll_ship_segments(disk, from, lladd_durable_lsn(ledger.db).v, &list, &err));
    size_t n = list.len / sizeof(struct ll_ship_segment);
    ck_assert_uint_gt(n, 4);
    uint64_t first = ((const struct ll_ship_segment *)(const void *)list.data)[n - 2].first;
    ll_ship_buf_free(&list);
    return first;
}

static void step_until(int code)
{
    bool more = true;
    int rc = 0;
    while (!rc && more)
        rc = lladd_archive_step(ledger.archive, &more, &err);
    ck_assert_msg(rc == code, "%d: %s", rc, err.message);
}

/* The archive needs a segment that recovery does not need, and its header cannot be read. The
 * archive waits until it can: it leaves no log out. A clean close or a crash makes no difference,
 * and neither does an archive of the closed database. */
START_TEST(an_archive_waits_for_a_header)
{
    char name[40];
    struct fault_device *fd = fault_device_new(disk);
    begin(fault_device_dev(fd), 1u << 14);
    ledger_archive(&ledger);
    uint64_t kept = ledger_status(&ledger).kept.v;
    for (unsigned i = 0; i < 40; i++)
        ledger_write(&ledger, 3000);
    OK(lladd_checkpoint(ledger.db, &err));
    (void)snprintf(name, sizeof name, "log/%016llx.seg", (unsigned long long)second_after(kept));
    for (unsigned i = 0; i < 3; i++) {
        if (_i)
            ledger_kill(&ledger);
        else
            ledger_close(&ledger);
        fault_device_bad_sector(fd, name, 10);
        ck_assert_int_eq(
            lladd_archive_push(fault_device_dev(fd), &store.base, NULL, NULL, &err),
            LLADD_STORE_FAILED);
        begin(fault_device_dev(fd), 1u << 14);
        step_until(LLADD_STORE_FAILED);
        ck_assert_msg(strstr(err.message, name) != NULL, "%s", err.message);
        ledger_write(&ledger, 3000);
        OK(lladd_checkpoint(ledger.db, &err));
        ck_assert(!ledger_status(&ledger).gap);
    }
    fault_device_bad_sector(fd, NULL, 0);
    ledger_archive(&ledger);
    check_all(false);
    ledger_close(&ledger);
    fault_device_free(fd);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("archive_faults");
    TCase *tc = tcase_create("all");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, the_store_fails_at_each_call, 0, 4);
    tcase_add_loop_test(tc, the_process_dies_at_each_call, 0, 2);
    tcase_add_loop_test(tc, a_full_log_with_the_store_gone, 0, 3);
    tcase_add_loop_test(tc, an_archive_that_gives_up, 0, 2);
    tcase_add_loop_test(tc, damage_is_never_stored, 0, 2);
    tcase_add_loop_test(tc, of_two_copies_one_stops, 0, 4);
    tcase_add_loop_test(tc, a_taken_name, 0, 3);
    tcase_add_loop_test(tc, an_older_copy_of_the_files, 0, 3);
    tcase_add_loop_test(tc, a_restored_copy, 0, 2);
    tcase_add_loop_test(tc, the_log_of_a_closed_database_is_pushed, 0, 4);
    tcase_add_loop_test(tc, an_archive_waits_for_a_header, 0, 2);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
