/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The fault device, a device for tests. A crash test proves something only if the crash can lose
 * bytes, so the device itself is tested. Synced bytes survive, and the crash mode decides about the
 * others. Names and contents become durable by different calls. Bytes that a failed sync did not
 * write are lost in a power failure, even if a later sync succeeds. Exactly the planned calls fail.
 * There is no space beyond the capacity.
 */
#include "io/io.h"
#include "support/fault_device.h"
#include "support/fixtures.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct lladd_device *memory, *after, *dev;
static struct fault_device *fd;

static void setup(void)
{
    ck_assert_int_eq(lladd_device_memory(&memory), 0);
    ck_assert_int_eq(lladd_device_memory(&after), 0);
    fd = fault_device_new(memory);
    dev = fault_device_dev(fd);
}

static void teardown(void)
{
    fault_device_free(fd);
    lladd_device_close(memory);
    lladd_device_close(after);
}

/* ---- helpers ---- */

static const struct fault_crash power = {FAULT_POWER, 0, false};
static const struct fault_crash kill9 = {FAULT_KILL, 0, false};

static struct lladd_file *open_file(const char *name, unsigned flags)
{
    struct lladd_file *f = NULL;
    ck_assert_int_eq(ll_io_open(dev, name, flags, &f), 0);
    return f;
}

static void write_at(struct lladd_file *f, const char *text, uint64_t off)
{
    ck_assert_int_eq(ll_io_pwrite(dev, f, text, strlen(text), off), 0);
}

static struct lladd_file *durable_file(const char *name, const char *text)
{
    struct lladd_file *f = open_file(name, LLADD_OPEN_CREATE);
    write_at(f, text, 0);
    ck_assert_int_eq(ll_io_sync(dev, f), 0);
    ck_assert_int_eq(ll_io_sync_dir(dev, ""), 0);
    return f;
}

/* The contents of a file on some device, or NULL if there is no such file. */
static char *content(struct lladd_device *d, const char *name)
{
    struct lladd_file *f;
    uint64_t size;
    int rc = ll_io_open(d, name, LLADD_OPEN_READ_ONLY, &f);
    if (rc == -ENOENT)
        return NULL;
    ck_assert_int_eq(rc, 0);
    ck_assert_int_eq(ll_io_size(d, f, &size), 0);
    char *text = calloc(1, size + 1);
    ck_assert_int_eq(ll_io_read_full(d, f, text, size, 0), 0);
    ck_assert_int_eq(ll_io_close(d, f), 0);
    return text;
}

static void expect(struct lladd_device *d, const char *name, const char *text)
{
    char *got = content(d, name);
    if (!text)
        ck_assert_msg(!got, "%s is there", name);
    else
        ck_assert_msg(got && strcmp(got, text) == 0, "%s is %s, not %s", name,
                      got ? got : "not there", text);
    free(got);
}

static void close_file(struct lladd_file *f)
{
    ck_assert_int_eq(ll_io_close(dev, f), 0);
}

/* ---- what is durable ---- */

START_TEST(synced_survives_unsynced_does_not)
{
    struct lladd_file *f = durable_file("f", "durable");
    write_at(f, "DUR", 0);
    write_at(f, " and more", 7);
    expect(dev, "f", "DURable and more");
    fault_device_crash(fd, &power, after);
    expect(after, "f", "durable");
    ck_assert_uint_eq(fault_device_pending(fd), 2);
    ck_assert_int_eq(ll_io_sync(dev, f), 0);
    ck_assert_uint_eq(fault_device_pending(fd), 0);
    fault_device_crash(fd, &power, after);
    expect(after, "f", "DURable and more");
    close_file(f);
}
END_TEST

START_TEST(kill_keeps_all_that_was_written)
{
    struct lladd_file *f = durable_file("f", "durable");
    write_at(f, "DUR", 0);
    struct lladd_file *g = open_file("g", LLADD_OPEN_CREATE);
    write_at(g, "new", 0);
    ck_assert_int_eq(ll_io_truncate(dev, g, 1), 0);
    fault_device_crash(fd, &kill9, after);
    expect(after, "f", "DURable");
    expect(after, "g", "n");
    close_file(f);
    close_file(g);
}
END_TEST

START_TEST(a_name_needs_sync_dir)
{
    struct lladd_file *f = open_file("f", LLADD_OPEN_CREATE);
    write_at(f, "abc", 0);
    ck_assert_int_eq(ll_io_sync(dev, f), 0);
    fault_device_crash(fd, &power, after);
    expect(after, "f", NULL);
    ck_assert_int_eq(ll_io_sync_dir(dev, ""), 0);
    fault_device_crash(fd, &power, after);
    expect(after, "f", "abc");
    close_file(f);
}
END_TEST

START_TEST(contents_need_sync)
{
    struct lladd_file *f = open_file("f", LLADD_OPEN_CREATE);
    write_at(f, "abc", 0);
    ck_assert_int_eq(ll_io_sync_dir(dev, ""), 0);
    fault_device_crash(fd, &power, after);
    expect(after, "f", "");
    close_file(f);
}
END_TEST

START_TEST(directories_hold_their_own_names)
{
    ck_assert_int_eq(dev->ops->mkdir(dev, "log"), 0);
    struct lladd_file *f = open_file("log/0", LLADD_OPEN_CREATE);
    write_at(f, "abc", 0);
    ck_assert_int_eq(ll_io_sync(dev, f), 0);
    ck_assert_int_eq(ll_io_sync_dir(dev, "log"), 0);
    fault_device_crash(fd, &power, after);
    expect(after, "log/0", NULL); /* its directory is lost */
    ck_assert_int_eq(ll_io_sync_dir(dev, ""), 0);
    fault_device_crash(fd, &power, after);
    expect(after, "log/0", "abc");
    close_file(f);
}
END_TEST

START_TEST(rename_and_unlink_are_pending)
{
    close_file(durable_file("a", "A"));
    close_file(durable_file("b", "B"));
    close_file(durable_file("c", "C"));
    ck_assert_int_eq(dev->ops->rename(dev, "a", "b"), 0);
    ck_assert_int_eq(dev->ops->unlink(dev, "c"), 0);
    expect(dev, "b", "A");
    expect(dev, "c", NULL);
    fault_device_crash(fd, &power, after);
    expect(after, "a", "A");
    expect(after, "b", "B");
    expect(after, "c", "C");
    ck_assert_int_eq(ll_io_sync_dir(dev, ""), 0);
    fault_device_power_cycle(fd, &power);
    expect(dev, "a", NULL);
    expect(dev, "b", "A");
    expect(dev, "c", NULL);
}
END_TEST

START_TEST(what_was_there_before_is_durable)
{
    struct lladd_device *base;
    struct lladd_file *f;
    ck_assert_int_eq(lladd_device_memory(&base), 0);
    ck_assert_int_eq(base->ops->mkdir(base, "d"), 0);
    ck_assert_int_eq(ll_io_open(base, "d/f", LLADD_OPEN_CREATE, &f), 0);
    ck_assert_int_eq(ll_io_pwrite(base, f, "old", 3, 0), 0);
    ck_assert_int_eq(ll_io_close(base, f), 0);
    struct fault_device *other = fault_device_new(base);
    ck_assert_uint_eq(fault_device_bytes(other), 3);
    fault_device_crash(other, &power, after);
    expect(after, "d/f", "old");
    fault_device_free(other);
    lladd_device_close(base);
}
END_TEST

/* ---- which pending changes survive ---- */

/* The first 0, 1, 2 or 3 of three unsynced writes survive. The seed decides how many. */
START_TEST(prefixes)
{
    static const char *states[] = {"....", "A...", "AB..", "ABC."};
    close_file(durable_file("f", "...."));
    struct lladd_file *f = open_file("f", 0);
    write_at(f, "A", 0);
    write_at(f, "B", 1);
    write_at(f, "C", 2);
    ck_assert_uint_eq(fault_device_pending(fd), 3);
    for (uint64_t keep = 0; keep <= 3; keep++) {
        fault_device_crash(fd, &(struct fault_crash){FAULT_PREFIX, keep, false}, after);
        expect(after, "f", states[keep]);
    }
    close_file(f);
}
END_TEST

/* Each subset of three writes occurs, and the same seed gives the same subset. _i 0: FAULT_SUBSET;
 * 1: FAULT_SHARE. */
START_TEST(subsets)
{
    bool seen[8] = {false};
    close_file(durable_file("f", "..."));
    struct lladd_file *f = open_file("f", 0);
    write_at(f, "X", 0);
    write_at(f, "X", 1);
    write_at(f, "X", 2);
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct fault_crash how = {_i ? FAULT_SHARE : FAULT_SUBSET, seed, false};
        fault_device_crash(fd, &how, after);
        char *got = content(after, "f");
        fault_device_crash(fd, &how, after);
        expect(after, "f", got);
        int which = 0;
        for (int i = 0; i < 3; i++) {
            ck_assert(got[i] == 'X' || got[i] == '.');
            which |= (got[i] == 'X') << i;
        }
        seen[which] = true;
        free(got);
    }
    for (int i = 0; i < 8; i++)
        ck_assert_msg(seen[i], "subset %d did not occur", i);
    close_file(f);
}
END_TEST

/* With FAULT_SHARE, sometimes nearly none or nearly all of many writes survive. With FAULT_SUBSET
 * this does not occur, because each write survives with probability 1/2. */
START_TEST(shares)
{
    enum { SIZE = 64 };
    char text[SIZE + 1];
    unsigned most[2] = {0}, least[2] = {SIZE, SIZE};
    memset(text, '.', SIZE);
    text[SIZE] = '\0';
    close_file(durable_file("f", text));
    struct lladd_file *f = open_file("f", 0);
    for (uint64_t i = 0; i < SIZE; i++)
        write_at(f, "X", i);
    for (uint64_t seed = 0; seed < 400; seed++) {
        struct fault_crash how = {seed % 2 ? FAULT_SHARE : FAULT_SUBSET, seed, false};
        fault_device_crash(fd, &how, after);
        char *got = content(after, "f");
        unsigned kept = 0;
        for (int i = 0; i < SIZE; i++)
            kept += got[i] == 'X';
        most[seed % 2] = kept > most[seed % 2] ? kept : most[seed % 2];
        least[seed % 2] = kept < least[seed % 2] ? kept : least[seed % 2];
        free(got);
    }
    ck_assert_uint_gt(most[1], SIZE - 4);
    ck_assert_uint_lt(least[1], 4);
    ck_assert_uint_lt(most[0], SIZE - 4);
    ck_assert_uint_gt(least[0], 4);
    close_file(f);
}
END_TEST

/* Each sector of a torn write is the old one or the new one, never a mixture. */
START_TEST(torn_writes)
{
    enum { SIZE = 4 * 512 };
    char text[SIZE + 1];
    bool whole = false, torn = false;
    memset(text, 'o', SIZE);
    text[SIZE] = '\0';
    struct lladd_file *f = durable_file("f", text);
    memset(text, 'n', SIZE);
    write_at(f, text, 0);
    for (uint64_t seed = 0; seed < 200; seed++) {
        enum fault_crash_mode mode = seed % 2 ? FAULT_SHARE : FAULT_SUBSET;
        fault_device_crash(fd, &(struct fault_crash){mode, seed, true}, after);
        char *got = content(after, "f");
        int fresh = 0;
        for (int sector = 0; sector < 4; sector++) {
            for (int i = 1; i < 512; i++)
                ck_assert_int_eq(got[sector * 512 + i], got[sector * 512]);
            fresh += got[sector * 512] == 'n';
        }
        whole |= fresh == 0 || fresh == 4;
        torn |= fresh > 0 && fresh < 4;
        free(got);
    }
    ck_assert(whole && torn);
    close_file(f);
}
END_TEST

/* ---- crash and go on ---- */

START_TEST(crash_at_a_call)
{
    char buf[4];
    uint64_t size;
    struct lladd_file *f = durable_file("f", "...."), *other;
    fault_device_crash_at(fd, 2);
    write_at(f, "A", 0);
    ck_assert(!fault_device_crashed(fd));
    ck_assert_int_eq(ll_io_pwrite(dev, f, "B", 1, 1), -EIO);
    ck_assert(fault_device_crashed(fd));
    ck_assert_int_eq(ll_io_sync(dev, f), -EIO);
    ck_assert_int_eq(ll_io_pread(dev, f, buf, 4, 0), -EIO);
    ck_assert_int_eq(ll_io_size(dev, f, &size), -EIO);
    ck_assert_int_eq(ll_io_open(dev, "f", 0, &other), -EIO);
    ck_assert_int_eq(dev->ops->unlink(dev, "f"), -EIO);
    fault_device_crash(fd, &power, after);
    expect(after, "f", "....");
    fault_device_crash(fd, &kill9, after);
    expect(after, "f", "AB.."); /* the write in progress may have happened */
    fault_device_power_cycle(fd, &(struct fault_crash){FAULT_PREFIX, 1, false});
    ck_assert(!fault_device_crashed(fd));
    ck_assert_int_eq(ll_io_pread(dev, f, buf, 4, 0), -EIO); /* opened before the crash */
    ck_assert_uint_eq(fault_device_open_files(fd), 1);
    close_file(f);
    ck_assert_uint_eq(fault_device_open_files(fd), 0);
    expect(dev, "f", "A...");
}
END_TEST

/* A sync in progress promises nothing: neither that the data is safe nor that it is lost. */
START_TEST(crash_in_a_sync)
{
    struct lladd_file *f = durable_file("f", "....");
    write_at(f, "A", 0);
    fault_device_crash_at(fd, 1);
    ck_assert_int_eq(ll_io_sync(dev, f), -EIO);
    fault_device_crash(fd, &power, after);
    expect(after, "f", "....");
    fault_device_crash(fd, &kill9, after);
    expect(after, "f", "A...");
    close_file(f);
}
END_TEST

START_TEST(crash_in_a_creation)
{
    struct lladd_file *f;
    ck_assert_int_eq(dev->ops->mkdir(dev, "d"), 0);
    ck_assert_int_eq(ll_io_sync_dir(dev, ""), 0);
    fault_device_crash_at(fd, 1);
    ck_assert_int_eq(ll_io_open(dev, "d/f", LLADD_OPEN_CREATE, &f), -EIO);
    fault_device_crash(fd, &kill9, after);
    expect(after, "d/f", "");
    fault_device_power_cycle(fd, &power);
    expect(dev, "d/f", NULL);
}
END_TEST

/* The death of a process makes nothing durable (REC-4). If the power fails afterwards, what the
 * process wrote may be lost. */
START_TEST(kill_then_power_failure)
{
    struct lladd_file *f = durable_file("f", "....");
    write_at(f, "A", 0);
    fault_device_power_cycle(fd, &kill9);
    close_file(f);
    expect(dev, "f", "A...");
    fault_device_power_cycle(fd, &power);
    expect(dev, "f", "....");
}
END_TEST

START_TEST(after_a_power_failure_all_is_durable)
{
    struct lladd_file *f = durable_file("f", "....");
    write_at(f, "A", 0);
    fault_device_power_cycle(fd, &(struct fault_crash){FAULT_PREFIX, 9, false});
    close_file(f);
    ck_assert_uint_eq(fault_device_pending(fd), 0);
    fault_device_power_cycle(fd, &power);
    expect(dev, "f", "A...");
}
END_TEST

START_TEST(lost_directories_are_not_seen)
{
    struct lladd_file *f;
    ck_assert_int_eq(dev->ops->mkdir(dev, "d"), 0);
    close_file(open_file("d/f", LLADD_OPEN_CREATE));
    fault_device_power_cycle(fd, &power);
    ck_assert_int_eq(ll_io_open(dev, "d/f", LLADD_OPEN_CREATE, &f), -ENOENT);
    ck_assert_int_eq(ll_io_sync_dir(dev, "d"), -ENOENT);
    ck_assert_int_eq(dev->ops->mkdir(dev, "d"), 0);
    ck_assert_int_eq(dev->ops->mkdir(dev, "d"), -EEXIST);
    close_file(open_file("d/f", LLADD_OPEN_CREATE));
}
END_TEST

START_TEST(locks_die_with_the_process)
{
    struct lladd_file *first, *second;
    int64_t owner;
    ck_assert_int_eq(dev->ops->lock(dev, "lock", &first, &owner), 0);
    ck_assert_int_eq(dev->ops->lock(dev, "lock", &second, &owner), -EAGAIN);
    fault_device_power_cycle(fd, &kill9);
    ck_assert_int_eq(dev->ops->lock(dev, "lock", &second, &owner), 0);
    close_file(first);
    ck_assert_int_eq(dev->ops->lock(dev, "lock", &first, &owner), -EAGAIN);
    ck_assert_int_eq(dev->ops->holder(dev, "lock", &owner), -EAGAIN);
    close_file(second);
    ck_assert_int_eq(dev->ops->holder(dev, "lock", &owner), 0);
}
END_TEST

/* ---- failures ---- */

START_TEST(the_nth_call_fails)
{
    struct lladd_file *f = durable_file("f", "....");
    fault_device_fail(fd, 2, FAULT_PWRITEV, ENOSPC, false);
    write_at(f, "A", 0);
    ck_assert_int_eq(ll_io_sync(dev, f), 0);
    ck_assert_int_eq(ll_io_pwrite(dev, f, "B", 1, 1), -ENOSPC);
    ck_assert_uint_eq(fault_device_fired(fd), 1);
    write_at(f, "C", 2);
    expect(dev, "f", "A.C.");

    fault_device_fail(fd, 1, FAULT_PREAD | FAULT_SIZE, EIO, true);
    uint64_t size;
    char c;
    ck_assert_uint_eq(fault_device_fired(fd), 0);
    ck_assert_int_eq(ll_io_pread(dev, f, &c, 1, 0), -EIO);
    ck_assert_int_eq(ll_io_size(dev, f, &size), -EIO);
    ck_assert_int_eq(ll_io_pread(dev, f, &c, 1, 0), -EIO);
    ck_assert_uint_eq(fault_device_fired(fd), 3);
    fault_device_fail(fd, 0, 0, 0, false);
    ck_assert_int_eq(ll_io_pread(dev, f, &c, 1, 0), 1);
    close_file(f);
}
END_TEST

/* Calls of every kind can be made to fail; a failed call has changed nothing. */
START_TEST(all_kinds_fail)
{
    struct lladd_file *f = durable_file("f", "abc"), *g;
    struct lladd_device *d = dev;
    int64_t owner;
    char c;
    uint64_t size;
    close_file(durable_file("g", "g"));
    fault_device_fail(fd, 1, FAULT_ANY, EIO, true);
    ck_assert_int_eq(ll_io_open(d, "h", LLADD_OPEN_CREATE, &g), -EIO);
    ck_assert_int_eq(ll_io_pread(d, f, &c, 1, 0), -EIO);
    ck_assert_int_eq(ll_io_pwrite(d, f, "x", 1, 0), -EIO);
    ck_assert_int_eq(d->ops->append(d, f, "x", 1, NULL), -EIO);
    ck_assert_int_eq(ll_io_sync(d, f), -EIO);
    ck_assert_int_eq(ll_io_truncate(d, f, 0), -EIO);
    ck_assert_int_eq(ll_io_size(d, f, &size), -EIO);
    ck_assert_int_eq(d->ops->rename(d, "g", "h"), -EIO);
    ck_assert_int_eq(d->ops->unlink(d, "g"), -EIO);
    ck_assert_int_eq(ll_io_sync_dir(d, ""), -EIO);
    ck_assert_int_eq(d->ops->mkdir(d, "dir"), -EIO);
    ck_assert_int_eq(d->ops->list(d, "", NULL, NULL), -EIO);
    ck_assert_int_eq(d->ops->lock(d, "lock", &g, &owner), -EIO);
    ck_assert_int_eq(d->ops->holder(d, "lock", &owner), -EIO);
    ck_assert_uint_eq(fault_device_fired(fd), 14);
    fault_device_fail(fd, 1, FAULT_CLOSE, EIO, false);
    ck_assert_int_eq(ll_io_close(d, f), -EIO);
    ck_assert_uint_eq(fault_device_open_files(fd), 0);
    expect(d, "f", "abc");
    expect(d, "g", "g");
    expect(d, "h", NULL);
    expect(d, "lock", NULL);
    ck_assert_int_eq(d->ops->mkdir(d, "dir"), 0);
}
END_TEST

START_TEST(failures_by_name_and_counts)
{
    ck_assert_int_eq(dev->ops->mkdir(dev, "log"), 0);
    struct lladd_file *pages = durable_file("pages", "p"), *seg = durable_file("log/0", "s");
    fault_device_reset_calls(fd);
    fault_device_only(fd, "log/");
    fault_device_fail(fd, 1, FAULT_SYNC, EIO, false);
    ck_assert_int_eq(ll_io_sync(dev, pages), 0);
    ck_assert_int_eq(ll_io_sync(dev, seg), -EIO);
    ck_assert_int_eq(ll_io_sync(dev, pages), 0);
    ck_assert_uint_eq(fault_device_calls(fd, FAULT_SYNC), 1);
    fault_device_only(fd, NULL);
    ck_assert_int_eq(ll_io_sync(dev, pages), 0);
    ck_assert_uint_eq(fault_device_calls(fd, FAULT_SYNC), 2);
    ck_assert_uint_eq(fault_device_calls(fd, FAULT_ANY & ~FAULT_SYNC), 0);
    close_file(pages);
    close_file(seg);
}
END_TEST

/* After a failed sync the kernel marks the pages clean. So the next sync succeeds, and does not
 * write these pages. */
START_TEST(a_failed_sync_is_not_made_good)
{
    struct lladd_file *f = durable_file("f", "....");
    write_at(f, "A", 0);
    fault_device_fail(fd, 1, FAULT_SYNC, EIO, false);
    ck_assert_int_eq(ll_io_sync(dev, f), -EIO);
    expect(dev, "f", "A...");
    write_at(f, "B", 1);
    ck_assert_int_eq(ll_io_sync(dev, f), 0);
    expect(dev, "f", "AB..");
    fault_device_crash(fd, &power, after);
    expect(after, "f", ".B..");
    close_file(f);
}
END_TEST

START_TEST(capacity)
{
    struct lladd_file *f = durable_file("f", "1234567890"), *g = open_file("g", LLADD_OPEN_CREATE);
    ck_assert_uint_eq(fault_device_bytes(fd), 10);
    fault_device_capacity(fd, 15);
    write_at(g, "abcd", 0);
    ck_assert_int_eq(ll_io_pwrite(dev, g, "ef", 2, 4), -ENOSPC);
    ck_assert_int_eq(dev->ops->append(dev, g, "ef", 2, NULL), -ENOSPC);
    ck_assert_int_eq(ll_io_truncate(dev, g, 6), -ENOSPC);
    ck_assert_uint_eq(fault_device_fired(fd), 3);
    write_at(f, "overwrite", 0); /* needs no room */
    write_at(g, "e", 4);
    ck_assert_uint_eq(fault_device_bytes(fd), 15);
    ck_assert_int_eq(dev->ops->unlink(dev, "f"), 0);
    ck_assert_int_eq(ll_io_pwrite(dev, g, "f", 1, 5), -ENOSPC); /* the unlinked file is still open
                                                                 * and needs its space */
    close_file(f);
    ck_assert_uint_eq(fault_device_bytes(fd), 5);
    write_at(g, "fghij", 5);
    expect(dev, "g", "abcdefghij");
    close_file(g);
}
END_TEST

struct seen {
    uint64_t calls;
    uint64_t last;
    unsigned kinds;
};

static void look(void *ctx, uint64_t number, unsigned kind, const char *name)
{
    struct seen *s = ctx;
    ck_assert_str_eq(name, "f");
    ck_assert(s->calls == 0 || number == s->last + 1);
    s->last = number;
    s->calls++;
    s->kinds |= kind;
    if (kind == FAULT_SYNC) { /* a crash just before it */
        fault_device_crash(fd, &power, after);
        expect(after, "f", "....");
    }
}

START_TEST(the_hook_sees_every_call)
{
    struct lladd_file *f = durable_file("f", "....");
    struct seen seen = {0};
    fault_device_hook(fd, look, &seen);
    write_at(f, "A", 0);
    ck_assert_int_eq(ll_io_sync(dev, f), 0);
    close_file(f);
    fault_device_hook(fd, NULL, NULL);
    ck_assert_uint_eq(seen.calls, 3);
    ck_assert_uint_eq(seen.kinds, FAULT_PWRITEV | FAULT_SYNC | FAULT_CLOSE);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fault_device");
    TCase *crash = tcase_create("crashes");
    tcase_add_checked_fixture(crash, setup, teardown);
    tcase_add_test(crash, synced_survives_unsynced_does_not);
    tcase_add_test(crash, kill_keeps_all_that_was_written);
    tcase_add_test(crash, a_name_needs_sync_dir);
    tcase_add_test(crash, contents_need_sync);
    tcase_add_test(crash, directories_hold_their_own_names);
    tcase_add_test(crash, rename_and_unlink_are_pending);
    tcase_add_test(crash, what_was_there_before_is_durable);
    tcase_add_test(crash, prefixes);
    tcase_add_loop_test(crash, subsets, 0, 2);
    tcase_add_test(crash, shares);
    tcase_add_test(crash, torn_writes);
    tcase_add_test(crash, crash_at_a_call);
    tcase_add_test(crash, crash_in_a_sync);
    tcase_add_test(crash, crash_in_a_creation);
    tcase_add_test(crash, kill_then_power_failure);
    tcase_add_test(crash, after_a_power_failure_all_is_durable);
    tcase_add_test(crash, lost_directories_are_not_seen);
    tcase_add_test(crash, locks_die_with_the_process);
    suite_add_tcase(suite, crash);
    TCase *failures = tcase_create("failures");
    tcase_add_checked_fixture(failures, setup, teardown);
    tcase_add_test(failures, the_nth_call_fails);
    tcase_add_test(failures, all_kinds_fail);
    tcase_add_test(failures, failures_by_name_and_counts);
    tcase_add_test(failures, a_failed_sync_is_not_made_good);
    tcase_add_test(failures, capacity);
    tcase_add_test(failures, the_hook_sees_every_call);
    suite_add_tcase(suite, failures);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
