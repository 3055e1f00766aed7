/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The contract of <lladd/device.h>, checked on every device of the library: POSIX files, memory, an
 * overlay over each, and a device that defers syncs. All behave alike. Names stay inside the
 * directory. Reads end at the end of the file. Writes are whole and fill gaps with zeros. An open
 * file can be used after its name is removed. A directory lists what is in it. The lock refuses a
 * second opener, and the error names the first one. Several threads may use one file.
 */
#include "io/io.h"
#include "support/fixtures.h"
#include "util/env.h"

#include <check.h>
#include <errno.h>
#include <lladd/sync.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct lladd_device *dev, *below;
static char *dir;

static void setup_posix(void)
{
    struct lladd_error err;
    dir = temp_dir_new();
    ck_assert_msg(lladd_device_posix(dir, false, &dev, &err) == 0, "%s", err.message);
}

static void setup_memory(void)
{
    dir = NULL;
    ck_assert_int_eq(lladd_device_memory(&dev), 0);
}

static void setup_overlay(void)
{
    below = dev;
    ck_assert_int_eq(lladd_device_overlay(below, &dev), 0);
}

/* The device is settled at once. Before that, a sync would return 0 and report its failure
 * later. */
static void setup_deferred_posix(void)
{
    static struct ll_env env;
    setup_posix();
    ll_env_init(&env, NULL, NULL, true);
    ck_assert_int_eq(ll_io_deferred_new(&env, dev, &dev), 0);
    ck_assert_int_eq(ll_io_settle(dev), 0);
}

static void setup_overlay_posix(void)
{
    setup_posix();
    setup_overlay();
}

static void setup_overlay_memory(void)
{
    setup_memory();
    setup_overlay();
}

static void teardown(void)
{
    dev = ll_io_deferred_free(dev);
    lladd_device_close(dev);
    lladd_device_close(below);
    below = NULL;
    temp_dir_remove(dir);
}

/* ---- helpers ---- */

static struct lladd_file *open_file(const char *name, unsigned flags)
{
    struct lladd_file *f = NULL;
    ck_assert_int_eq(ll_io_open(dev, name, flags, &f), 0);
    ck_assert_ptr_nonnull(f);
    return f;
}

static int try_open(const char *name, unsigned flags)
{
    struct lladd_file *f = NULL;
    int rc = ll_io_open(dev, name, flags, &f);
    if (rc == 0)
        ck_assert_int_eq(ll_io_close(dev, f), 0);
    return rc;
}

static void write_at(struct lladd_file *f, const char *text, uint64_t off)
{
    ck_assert_int_eq(ll_io_pwrite(dev, f, text, strlen(text), off), 0);
}

static void put(const char *name, const char *text)
{
    struct lladd_file *f = open_file(name, LLADD_OPEN_CREATE);
    write_at(f, text, 0);
    ck_assert_int_eq(ll_io_close(dev, f), 0);
}

static void expect_bytes(struct lladd_file *f, const void *bytes, size_t len)
{
    char got[256];
    uint64_t size;
    ck_assert_uint_lt(len, sizeof got);
    ck_assert_int_eq(ll_io_pread(dev, f, got, sizeof got, 0), (int64_t)len);
    ck_assert_mem_eq(got, bytes, len);
    ck_assert_int_eq(ll_io_size(dev, f, &size), 0);
    ck_assert_uint_eq(size, len);
}

static void expect_content(const char *name, const char *text)
{
    struct lladd_file *f = open_file(name, LLADD_OPEN_READ_ONLY);
    expect_bytes(f, text, strlen(text));
    ck_assert_int_eq(ll_io_close(dev, f), 0);
}

struct names {
    int count;
    char sorted[16][32];
};

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

static int note_name(void *ctx, const char *name)
{
    struct names *n = ctx;
    ck_assert_int_lt(n->count, 16);
    strcpy(n->sorted[n->count++], name);
    return 0;
}

static void expect_names(const char *in, const char *joined)
{
    struct names n = {0};
    char got[512] = "";
    ck_assert_int_eq(dev->ops->list(dev, in, note_name, &n), 0);
    qsort(n.sorted, (size_t)n.count, sizeof n.sorted[0], by_name);
    for (int i = 0; i < n.count; i++)
        strcat(strcat(got, i > 0 ? " " : ""), n.sorted[i]);
    ck_assert_str_eq(got, joined);
}

/* ---- names and flags ---- */

START_TEST(open_and_create)
{
    ck_assert_int_eq(try_open("a", 0), -ENOENT);
    ck_assert_int_eq(try_open("a", LLADD_OPEN_READ_ONLY), -ENOENT);
    ck_assert_int_eq(try_open("a", LLADD_OPEN_CREATE | LLADD_OPEN_EXCLUSIVE), 0);
    ck_assert_int_eq(try_open("a", LLADD_OPEN_CREATE | LLADD_OPEN_EXCLUSIVE), -EEXIST);
    ck_assert_int_eq(try_open("a", LLADD_OPEN_CREATE), 0);
    ck_assert_int_eq(try_open("a", 0), 0);
    ck_assert_int_eq(try_open("a", LLADD_OPEN_READ_ONLY), 0);
    ck_assert_int_eq(try_open("a", LLADD_OPEN_EXCLUSIVE), -EINVAL);
    ck_assert_int_eq(try_open("a", LLADD_OPEN_CREATE | LLADD_OPEN_READ_ONLY), -EINVAL);
    ck_assert_int_eq(try_open("a", 1u << 20), -EINVAL);
    expect_content("a", "");
}
END_TEST

static int visit_never(void *ctx, const char *name)
{
    (void)ctx;
    ck_abort_msg("visited %s", name);
    return 0;
}

START_TEST(names_stay_inside)
{
    static const char *bad[] = {"/etc/passwd", "..", "../x", "a/../b", "a/..", "a//b",
                                "a/",          ".",  "./a",  "a/./b",  "/",    "//"};
    const char *name = bad[_i % 12];
    put("good", "1");
    ck_assert_int_eq(try_open(name, 0), -EINVAL);
    ck_assert_int_eq(try_open(name, LLADD_OPEN_CREATE), -EINVAL);
    ck_assert_int_eq(dev->ops->unlink(dev, name), -EINVAL);
    ck_assert_int_eq(dev->ops->mkdir(dev, name), -EINVAL);
    ck_assert_int_eq(dev->ops->rename(dev, name, "x"), -EINVAL);
    ck_assert_int_eq(dev->ops->rename(dev, "good", name), -EINVAL);
    ck_assert_int_eq(ll_io_sync_dir(dev, name), -EINVAL);
    ck_assert_int_eq(dev->ops->list(dev, name, visit_never, NULL), -EINVAL);
    struct lladd_file *f;
    int64_t owner;
    ck_assert_int_eq(dev->ops->lock(dev, name, &f, &owner), -EINVAL);
    expect_names("", "good");
}
END_TEST

START_TEST(names_with_dots_are_names)
{
    static const char *good[] = {"...", ".a", "..a", "a.", "a..b", "0000000000000001.seg"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        put(good[i], "x");
        expect_content(good[i], "x");
    }
    ck_assert_int_eq(try_open("", LLADD_OPEN_CREATE), -EINVAL); /* a directory, not a file */
}
END_TEST

/* ---- contents ---- */

START_TEST(read_ends_at_the_end)
{
    char buf[8] = "........";
    struct lladd_file *f = open_file("f", LLADD_OPEN_CREATE);
    ck_assert_int_eq(ll_io_pread(dev, f, buf, 8, 0), 0);
    write_at(f, "abcde", 0);
    ck_assert_int_eq(ll_io_pread(dev, f, buf, 8, 2), 3);
    ck_assert_mem_eq(buf, "cde.....", 8);
    ck_assert_int_eq(ll_io_pread(dev, f, buf, 8, 5), 0);
    ck_assert_int_eq(ll_io_pread(dev, f, buf, 8, 1u << 30), 0);
    ck_assert_int_eq(ll_io_pread(dev, f, buf, 0, 0), 0);
    ck_assert_int_eq(ll_io_pread(dev, f, buf, 8, (uint64_t)INT64_MAX + 1), -EINVAL);
    ck_assert_int_eq(ll_io_read_full(dev, f, buf, 5, 0), 0);
    ck_assert_int_eq(ll_io_read_full(dev, f, buf, 6, 0), -ENODATA);
    ll_io_prefetch(dev, f, 0, 5);
    ll_io_prefetch(dev, f, UINT64_MAX, UINT64_MAX);
    ck_assert_int_eq(ll_io_close(dev, f), 0);
}
END_TEST

START_TEST(gaps_are_zeros)
{
    struct lladd_file *f = open_file("f", LLADD_OPEN_CREATE);
    write_at(f, "ab", 0);
    write_at(f, "z", 6);
    expect_bytes(f, "ab\0\0\0\0z", 7);
    write_at(f, "XY", 1);
    expect_bytes(f, "aXY\0\0\0z", 7);
    ck_assert_int_eq(ll_io_pwrite(dev, f, "", 0, 100), 0); /* does not extend the file */
    expect_bytes(f, "aXY\0\0\0z", 7);
    ck_assert_int_eq(ll_io_close(dev, f), 0);
}
END_TEST

START_TEST(truncate_cuts_and_extends)
{
    struct lladd_file *f = open_file("f", LLADD_OPEN_CREATE);
    write_at(f, "abcdef", 0);
    ck_assert_int_eq(ll_io_truncate(dev, f, 3), 0);
    expect_bytes(f, "abc", 3);
    ck_assert_int_eq(ll_io_truncate(dev, f, 6), 0);
    expect_bytes(f, "abc\0\0\0", 6); /* truncated bytes do not come back */
    ck_assert_int_eq(ll_io_truncate(dev, f, 0), 0);
    expect_bytes(f, "", 0);
    ck_assert_int_eq(ll_io_truncate(dev, f, 2), 0);
    expect_bytes(f, "\0\0", 2);
    ck_assert_int_eq(ll_io_truncate(dev, f, UINT64_MAX), -EFBIG);
    expect_bytes(f, "\0\0", 2);
    ck_assert_int_eq(ll_io_close(dev, f), 0);
}
END_TEST

START_TEST(allocate_extends_with_zeros)
{
    struct lladd_file *f = open_file("f", LLADD_OPEN_CREATE);
    ck_assert_int_eq(ll_io_allocate(dev, f, 5), 0);
    expect_bytes(f, "\0\0\0\0\0", 5);
    write_at(f, "abcdefg", 0);
    ck_assert_int_eq(ll_io_allocate(dev, f, 3), 0); /* never shorter */
    expect_bytes(f, "abcdefg", 7);
    ck_assert_int_eq(ll_io_allocate(dev, f, 9), 0);
    expect_bytes(f, "abcdefg\0\0", 9);
    ck_assert_int_eq(ll_io_truncate(dev, f, 2), 0);
    ck_assert_int_eq(ll_io_allocate(dev, f, 4), 0);
    expect_bytes(f, "ab\0\0", 4);
    ck_assert_int_eq(ll_io_allocate(dev, f, UINT64_MAX), -EFBIG);
    ll_io_start_writeback(dev, f, 0, 4); /* a hint; invalid ranges are accepted, too */
    ll_io_start_writeback(dev, f, UINT64_MAX - 5, 100);
    expect_bytes(f, "ab\0\0", 4);
    ck_assert_int_eq(ll_io_close(dev, f), 0);
    f = open_file("f", LLADD_OPEN_READ_ONLY);
    ck_assert_int_lt(ll_io_allocate(dev, f, 100), 0);
    expect_bytes(f, "ab\0\0", 4);
    ck_assert_int_eq(ll_io_close(dev, f), 0);
}
END_TEST

/* A device of an earlier version has an operations table that ends before these calls. */
START_TEST(calls_an_older_device_does_not_have)
{
    struct lladd_device_ops ops = *dev->ops;
    struct lladd_device older = {&ops};
    ops.struct_size = offsetof(struct lladd_device_ops, allocate);
    ck_assert_int_eq(ll_io_allocate(&older, NULL, 5), -EOPNOTSUPP);
    ll_io_start_writeback(&older, NULL, 0, 5);
    ops = *dev->ops;
    ops.allocate = NULL;
    ops.start_writeback = NULL;
    ck_assert_int_eq(ll_io_allocate(&older, NULL, 5), -EOPNOTSUPP);
    ll_io_start_writeback(&older, NULL, 0, 5);
}
END_TEST

/* There are more pieces than the kernel takes at once, and some are empty. The file holds them
 * without gaps. */
START_TEST(gathered_writes)
{
    enum { PIECES = 1500 };
    unsigned char *all = malloc(PIECES * 7), *got = malloc(PIECES * 7 + 1);
    struct lladd_iovec *pieces = calloc(PIECES, sizeof *pieces);
    struct lladd_file *f = open_file("f", LLADD_OPEN_CREATE);
    size_t total = 0;
    seeded_fill(9, all, PIECES * 7);
    for (int i = 0; i < PIECES; i++) {
        pieces[i].data = all + total;
        pieces[i].len = (size_t)i % 8;
        if (i % 8 == 0)
            pieces[i].data = NULL;
        total += pieces[i].len;
    }
    ck_assert_int_eq(ll_io_pwritev(dev, f, pieces, PIECES, 3), 0);
    ck_assert_int_eq(ll_io_pread(dev, f, got, total + 1, 3), (int64_t)total);
    ck_assert_mem_eq(got, all, total);
    ck_assert_int_eq(ll_io_pwritev(dev, f, pieces, 0, 0), 0);
    ck_assert_int_eq(ll_io_close(dev, f), 0);
    free(pieces);
    free(got);
    free(all);
}
END_TEST

START_TEST(offsets_that_overflow)
{
    struct lladd_file *f = open_file("f", LLADD_OPEN_CREATE);
    struct lladd_iovec two[2] = {{"a", 1}, {"b", 1}};
    write_at(f, "x", 0);
    ck_assert_int_eq(ll_io_pwritev(dev, f, two, 2, INT64_MAX - 1), -EFBIG);
    ck_assert_int_eq(ll_io_pwritev(dev, f, two, 2, UINT64_MAX), -EFBIG);
    expect_bytes(f, "x", 1);
    ck_assert_int_eq(ll_io_close(dev, f), 0);
}
END_TEST

START_TEST(append_returns_the_offset)
{
    uint64_t off = 99;
    struct lladd_file *f = open_file("f", LLADD_OPEN_CREATE);
    ck_assert_int_eq(dev->ops->append(dev, f, "one", 3, &off), 0);
    ck_assert_uint_eq(off, 0);
    ck_assert_int_eq(dev->ops->append(dev, f, "two", 3, NULL), 0);
    ck_assert_int_eq(dev->ops->append(dev, f, "", 0, &off), 0);
    ck_assert_uint_eq(off, 6);
    ck_assert_int_eq(dev->ops->append(dev, f, "three", 5, &off), 0);
    ck_assert_uint_eq(off, 6);
    expect_bytes(f, "onetwothree", 11);
    ck_assert_int_eq(ll_io_close(dev, f), 0);
}
END_TEST

START_TEST(read_only_files_cannot_be_changed)
{
    put("f", "abc");
    struct lladd_file *f = open_file("f", LLADD_OPEN_READ_ONLY);
    ck_assert_int_eq(ll_io_pwrite(dev, f, "x", 1, 0), -EBADF);
    ck_assert_int_eq(dev->ops->append(dev, f, "x", 1, NULL), -EBADF);
    ck_assert_int_eq(ll_io_truncate(dev, f, 0), -EINVAL);
    expect_bytes(f, "abc", 3);
    ck_assert_int_eq(ll_io_close(dev, f), 0);
}
END_TEST

START_TEST(two_opens_one_file)
{
    struct lladd_file *a = open_file("f", LLADD_OPEN_CREATE);
    struct lladd_file *b = open_file("f", 0);
    write_at(a, "from a", 0);
    expect_bytes(b, "from a", 6);
    ck_assert_int_eq(ll_io_close(dev, a), 0);
    write_at(b, "from b", 0);
    ck_assert_int_eq(ll_io_sync(dev, b), 0);
    expect_bytes(b, "from b", 6);
    ck_assert_int_eq(ll_io_close(dev, b), 0);
    expect_content("f", "from b");
}
END_TEST

/* A file grows in many small steps, and keeps its contents. */
START_TEST(big_files)
{
    enum { STEP = 5000, STEPS = 400 };
    static unsigned char block[STEP], got[STEP];
    struct lladd_file *f = open_file("f", LLADD_OPEN_CREATE);
    for (uint64_t i = 0; i < STEPS; i++) {
        seeded_fill(i, block, STEP);
        ck_assert_int_eq(ll_io_pwrite(dev, f, block, STEP, i * STEP), 0);
    }
    for (uint64_t i = 0; i < STEPS; i++) {
        seeded_fill(i, block, STEP);
        ck_assert_int_eq(ll_io_read_full(dev, f, got, STEP, i * STEP), 0);
        ck_assert_mem_eq(got, block, STEP);
    }
    ck_assert_int_eq(ll_io_close(dev, f), 0);
}
END_TEST

/* ---- names and files ---- */

START_TEST(unlinked_files_live_while_open)
{
    put("f", "old");
    struct lladd_file *f = open_file("f", 0);
    ck_assert_int_eq(dev->ops->unlink(dev, "f"), 0);
    ck_assert_int_eq(dev->ops->unlink(dev, "f"), -ENOENT);
    ck_assert_int_eq(try_open("f", 0), -ENOENT);
    put("f", "new");
    expect_bytes(f, "old", 3);
    write_at(f, "OLD", 0);
    expect_bytes(f, "OLD", 3);
    ck_assert_int_eq(ll_io_close(dev, f), 0);
    expect_content("f", "new");
}
END_TEST

START_TEST(rename_replaces)
{
    put("a", "A");
    put("b", "B");
    struct lladd_file *a = open_file("a", 0), *b = open_file("b", 0);
    ck_assert_int_eq(dev->ops->rename(dev, "a", "b"), 0);
    expect_content("b", "A");
    ck_assert_int_eq(try_open("a", 0), -ENOENT);
    expect_bytes(a, "A", 1);
    expect_bytes(b, "B", 1);
    ck_assert_int_eq(ll_io_close(dev, a), 0);
    ck_assert_int_eq(ll_io_close(dev, b), 0);
    ck_assert_int_eq(dev->ops->rename(dev, "a", "c"), -ENOENT);
    ck_assert_int_eq(dev->ops->rename(dev, "b", "b"), 0);
    ck_assert_int_eq(dev->ops->rename(dev, "b", "c"), 0);
    expect_content("c", "A");
    expect_names("", "c");
    ck_assert_int_eq(dev->ops->rename(dev, "c", "none/c"), -ENOENT);
    expect_content("c", "A");
}
END_TEST

START_TEST(directories)
{
    ck_assert_int_eq(try_open("log/0", LLADD_OPEN_CREATE), -ENOENT);
    ck_assert_int_eq(dev->ops->mkdir(dev, "log"), 0);
    ck_assert_int_eq(dev->ops->mkdir(dev, "log"), -EEXIST);
    ck_assert_int_eq(dev->ops->mkdir(dev, "a/b"), -ENOENT);
    put("log/0", "x");
    put("log/1", "y");
    put("logs", "z");
    ck_assert_int_eq(dev->ops->mkdir(dev, "logs"), -EEXIST);
    ck_assert_int_eq(dev->ops->mkdir(dev, "log/old"), 0);
    put("log/old/9", "w");
    expect_names("", "log logs");
    expect_names("log", "0 1 old");
    expect_names("log/old", "9");
    ck_assert_int_eq(dev->ops->rename(dev, "log/old/9", "log/2"), 0);
    expect_names("log", "0 1 2 old");
    expect_names("log/old", "");
    expect_content("log/2", "w");

    struct names none = {0};
    ck_assert_int_eq(dev->ops->list(dev, "nowhere", note_name, &none), -ENOENT);
    ck_assert_int_eq(dev->ops->list(dev, "logs", note_name, &none), -ENOTDIR);
    ck_assert_int_eq(ll_io_sync_dir(dev, ""), 0);
    ck_assert_int_eq(ll_io_sync_dir(dev, "log"), 0);
    ck_assert_int_eq(ll_io_sync_dir(dev, "nowhere"), -ENOENT);
    ck_assert_int_eq(ll_io_sync_dir(dev, "logs"), -ENOTDIR);
}
END_TEST

START_TEST(directories_are_no_files)
{
    struct lladd_file *f;
    int64_t owner;
    ck_assert_int_eq(dev->ops->mkdir(dev, "d"), 0);
    put("f", "x");
    ck_assert_int_eq(try_open("d", 0), -EISDIR);
    ck_assert_int_eq(try_open("d", LLADD_OPEN_CREATE), -EISDIR);
    ck_assert_int_eq(try_open("d", LLADD_OPEN_READ_ONLY), -EISDIR);
    ck_assert_int_eq(try_open("d", LLADD_OPEN_CREATE | LLADD_OPEN_EXCLUSIVE), -EEXIST);
    ck_assert_int_eq(dev->ops->lock(dev, "d", &f, &owner), -EISDIR);
    ck_assert_int_eq(dev->ops->unlink(dev, "d"), -EISDIR);
    ck_assert_int_eq(dev->ops->rename(dev, "f", "d"), -EISDIR);
    ck_assert_int_eq(try_open("f/x", 0), -ENOTDIR);
    ck_assert_int_eq(try_open("f/x", LLADD_OPEN_CREATE), -ENOTDIR);
    ck_assert_int_eq(dev->ops->mkdir(dev, "f/x"), -ENOTDIR);
    ck_assert_int_eq(dev->ops->unlink(dev, "f/x"), -ENOTDIR);
    ck_assert_int_eq(dev->ops->rename(dev, "f/x", "y"), -ENOTDIR);
}
END_TEST

static int stop_with_42(void *ctx, const char *name)
{
    (void)name;
    ++*(int *)ctx;
    return 42;
}

/* Unlinks every file that the listing passes to it. This shows that the callback of a listing may
 * call the device. */
static int unlink_it(void *ctx, const char *name)
{
    (void)ctx;
    return dev->ops->unlink(dev, name);
}

START_TEST(listing_can_be_stopped_and_can_change_things)
{
    int visited = 0;
    put("a", "");
    put("b", "");
    put("c", "");
    ck_assert_int_eq(dev->ops->list(dev, "", stop_with_42, &visited), 42);
    ck_assert_int_eq(visited, 1);
    ck_assert_int_eq(dev->ops->list(dev, "", unlink_it, NULL), 0);
    expect_names("", "");
}
END_TEST

START_TEST(many_names)
{
    enum { FILES = 300 };
    char name[32];
    for (int i = 0; i < FILES; i++) {
        sprintf(name, "file-%d", i);
        put(name, name);
    }
    for (int i = 0; i < FILES; i += 2) {
        sprintf(name, "file-%d", i);
        ck_assert_int_eq(dev->ops->unlink(dev, name), 0);
    }
    for (int i = 0; i < FILES; i++) {
        sprintf(name, "file-%d", i);
        if (i % 2 == 0)
            ck_assert_int_eq(try_open(name, 0), -ENOENT);
        else
            expect_content(name, name);
    }
}
END_TEST

/* ---- the lock ---- */

START_TEST(lock_refuses_a_second_opener)
{
    struct lladd_file *first, *second;
    int64_t owner = 1;
    for (int round = 0; round < 3; round++) {
        ck_assert_int_eq(dev->ops->lock(dev, "lock", &first, &owner), 0);
        ck_assert_int_eq(owner, 0);
        ck_assert_int_eq(dev->ops->lock(dev, "lock", &second, &owner), -EAGAIN);
        ck_assert_int_eq(owner, getpid());
        /* The lock stays when the file is opened and closed again. (A POSIX record lock would be
         * released.) */
        struct lladd_file *look = open_file("lock", LLADD_OPEN_READ_ONLY);
        char text[32] = "";
        ck_assert_int_gt(ll_io_pread(dev, look, text, sizeof text - 1, 0), 0);
        ck_assert_int_eq(atoll(text), getpid());
        ck_assert_int_eq(ll_io_close(dev, look), 0);
        ck_assert_int_eq(dev->ops->lock(dev, "lock", &second, &owner), -EAGAIN);
        ck_assert_int_eq(ll_io_close(dev, first), 0);
    }
    ck_assert_int_eq(dev->ops->lock(dev, "lock", &first, &owner), 0);
    ck_assert_int_eq(dev->ops->lock(dev, "another", &second, &owner), 0);
    ck_assert_int_eq(ll_io_close(dev, first), 0);
    ck_assert_int_eq(ll_io_close(dev, second), 0);
    ck_assert_int_eq(dev->ops->lock(dev, "nowhere/lock", &first, &owner), -ENOENT);
}
END_TEST

/* Asking for the lock neither takes it nor leaves a file. */
START_TEST(asking_for_the_holder_takes_no_lock)
{
    struct lladd_file *f;
    int64_t owner = 1;
    ck_assert_int_eq(dev->ops->holder(dev, "lock", &owner), 0);
    ck_assert_int_eq(owner, 0);
    ck_assert_int_eq(try_open("lock", 0), -ENOENT);
    ck_assert_int_eq(dev->ops->holder(dev, "../lock", &owner), -EINVAL);
    ck_assert_int_eq(dev->ops->lock(dev, "lock", &f, &owner), 0);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(dev->ops->holder(dev, "lock", &owner), -EAGAIN);
        ck_assert_int_eq(owner, getpid());
    }
    ck_assert_int_eq(ll_io_close(dev, f), 0);
    ck_assert_int_eq(dev->ops->holder(dev, "lock", &owner), 0);
    ck_assert_int_eq(owner, 0);
    ck_assert_int_eq(dev->ops->lock(dev, "lock", &f, &owner), 0);
    ck_assert_int_eq(ll_io_close(dev, f), 0);
}
END_TEST

/* ---- threads ---- */

enum { THREADS = 4, BLOCK = 64, BLOCKS = 300 };

struct worker {
    struct lladd_thread thread;
    struct lladd_file *file;
    unsigned char id;
    bool good;
};

/* Appends blocks with its own number to the shared file; creates, writes, reads, renames and
 * unlinks a file of its own. */
static void *work(void *arg)
{
    struct worker *w = arg;
    unsigned char block[BLOCK], got[BLOCK];
    char name[16], other[16];
    struct lladd_file *own = NULL;
    memset(block, w->id, sizeof block);
    sprintf(name, "own-%d", w->id);
    sprintf(other, "moved-%d", w->id);
    w->good = true;
    for (uint64_t i = 0; i < BLOCKS; i++) {
        uint64_t off = (i * THREADS + w->id) * BLOCK;
        w->good &= dev->ops->append(dev, w->file, block, BLOCK, NULL) == 0;
        w->good &= ll_io_open(dev, name, LLADD_OPEN_CREATE, &own) == 0;
        w->good &= ll_io_pwrite(dev, own, block, BLOCK, off) == 0;
        w->good &= ll_io_read_full(dev, own, got, BLOCK, off) == 0;
        w->good &= memcmp(got, block, BLOCK) == 0;
        w->good &= ll_io_close(dev, own) == 0;
        w->good &= dev->ops->rename(dev, name, other) == 0;
        w->good &= dev->ops->unlink(dev, other) == 0;
    }
    return NULL;
}

START_TEST(threads_share_a_file)
{
    static unsigned char all[THREADS * BLOCKS * BLOCK + 1];
    struct worker workers[THREADS];
    uint64_t count[THREADS] = {0};
    struct lladd_file *f = open_file("shared", LLADD_OPEN_CREATE);
    for (int i = 0; i < THREADS; i++) {
        workers[i].file = f;
        workers[i].id = (unsigned char)i;
        ck_assert_int_eq(lladd_thread_start(&workers[i].thread, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        lladd_thread_join(&workers[i].thread);
        ck_assert(workers[i].good);
    }
    ck_assert_int_eq(ll_io_pread(dev, f, all, sizeof all, 0), sizeof all - 1);
    for (size_t at = 0; at + 1 < sizeof all; at += BLOCK) {
        for (size_t i = 1; i < BLOCK; i++)
            ck_assert_uint_eq(all[at + i], all[at]);
        ck_assert_uint_lt(all[at], THREADS);
        count[all[at]]++;
    }
    for (int i = 0; i < THREADS; i++)
        ck_assert_uint_eq(count[i], BLOCKS);
    ck_assert_int_eq(ll_io_close(dev, f), 0);
    expect_names("", "shared");
}
END_TEST

static void add_cases(Suite *suite, const char *name, void (*setup)(void))
{
    TCase *tc = tcase_create(name);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, open_and_create);
    tcase_add_loop_test(tc, names_stay_inside, 0, 12);
    tcase_add_test(tc, names_with_dots_are_names);
    tcase_add_test(tc, read_ends_at_the_end);
    tcase_add_test(tc, gaps_are_zeros);
    tcase_add_test(tc, truncate_cuts_and_extends);
    tcase_add_test(tc, allocate_extends_with_zeros);
    tcase_add_test(tc, calls_an_older_device_does_not_have);
    tcase_add_test(tc, gathered_writes);
    tcase_add_test(tc, offsets_that_overflow);
    tcase_add_test(tc, append_returns_the_offset);
    tcase_add_test(tc, read_only_files_cannot_be_changed);
    tcase_add_test(tc, two_opens_one_file);
    tcase_add_test(tc, big_files);
    tcase_add_test(tc, unlinked_files_live_while_open);
    tcase_add_test(tc, rename_replaces);
    tcase_add_test(tc, directories);
    tcase_add_test(tc, directories_are_no_files);
    tcase_add_test(tc, listing_can_be_stopped_and_can_change_things);
    tcase_add_test(tc, many_names);
    tcase_add_test(tc, lock_refuses_a_second_opener);
    tcase_add_test(tc, asking_for_the_holder_takes_no_lock);
    tcase_add_test(tc, threads_share_a_file);
    suite_add_tcase(suite, tc);
}

int main(void)
{
    Suite *suite = suite_create("device");
    add_cases(suite, "posix", setup_posix);
    add_cases(suite, "memory", setup_memory);
    add_cases(suite, "overlay over posix", setup_overlay_posix);
    add_cases(suite, "overlay over memory", setup_overlay_memory);
    add_cases(suite, "deferred over posix", setup_deferred_posix);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
