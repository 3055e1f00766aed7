/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests what only an overlay does. test_device.c tests that an overlay fulfils the contract of all
 * devices. An overlay begins with the files of the device below, and changes stay in the overlay.
 * Random steps give the same results on an overlay and on a plain memory device with a copy of the
 * file, for any limit of blocks in memory.
 */
#include "io/io.h"
#include "support/fixtures.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct lladd_device *below, *dev;

static void setup(void)
{
    ck_assert_int_eq(lladd_device_memory(&below), 0);
    ck_assert_int_eq(lladd_device_overlay(below, &dev), 0);
}

static void teardown(void)
{
    lladd_device_close(dev);
    lladd_device_close(below);
}

/* ---- helpers ---- */

static struct lladd_file *open_file(struct lladd_device *d, const char *name, unsigned flags)
{
    struct lladd_file *f = NULL;
    ck_assert_int_eq(ll_io_open(d, name, flags, &f), 0);
    return f;
}

static void put(struct lladd_device *d, const char *name, const void *bytes, size_t len)
{
    struct lladd_file *f = open_file(d, name, LLADD_OPEN_CREATE);
    ck_assert_int_eq(ll_io_pwrite(d, f, bytes, len, 0), 0);
    ck_assert_int_eq(ll_io_close(d, f), 0);
}

static void expect(struct lladd_device *d, const char *name, const void *bytes, size_t len)
{
    static unsigned char got[1 << 16];
    struct lladd_file *f = open_file(d, name, LLADD_OPEN_READ_ONLY);
    ck_assert_int_eq(ll_io_pread(d, f, got, sizeof got, 0), (int64_t)len);
    ck_assert(len == 0 || memcmp(got, bytes, len) == 0);
    ck_assert_int_eq(ll_io_close(d, f), 0);
}

static void expect_text(struct lladd_device *d, const char *name, const char *text)
{
    expect(d, name, text, strlen(text));
}

static int try_open(struct lladd_device *d, const char *name)
{
    struct lladd_file *f;
    int rc = ll_io_open(d, name, LLADD_OPEN_READ_ONLY, &f);
    if (rc == 0)
        ck_assert_int_eq(ll_io_close(d, f), 0);
    return rc;
}

static int count_name(void *ctx, const char *name)
{
    (void)name;
    ++*(int *)ctx;
    return 0;
}

static int count_names(struct lladd_device *d, const char *folder)
{
    int n = 0;
    ck_assert_int_eq(ll_io_list(d, folder, count_name, &n), 0);
    return n;
}

/* ---- cases ---- */

/* Changes a file in every possible way. The device below stays as it was. */
START_TEST(changes_do_not_reach_the_device_below)
{
    ck_assert_int_eq(ll_io_mkdir(below, "log"), 0);
    put(below, "log/1", "one", 3);
    put(below, "log/2", "two", 3);
    put(below, "a", "apple", 5);
    put(below, "b", "banana", 6);
    expect_text(dev, "log/1", "one");
    put(dev, "log/1", "ONE and more", 12);
    put(dev, "log/3", "three", 5);
    ck_assert_int_eq(ll_io_unlink(dev, "log/2"), 0);
    ck_assert_int_eq(ll_io_rename(dev, "a", "log/a"), 0);
    ck_assert_int_eq(ll_io_mkdir(dev, "new"), 0);
    struct lladd_file *f = open_file(dev, "b", 0);
    ck_assert_int_eq(ll_io_truncate(dev, f, 3), 0);
    ck_assert_int_eq(ll_io_append(dev, f, "d", 1, NULL), 0);
    ck_assert_int_eq(ll_io_sync(dev, f), 0);
    ck_assert_int_eq(ll_io_close(dev, f), 0);

    expect_text(dev, "log/1", "ONE and more");
    expect_text(dev, "log/a", "apple");
    expect_text(dev, "b", "band");
    ck_assert_int_eq(try_open(dev, "a"), -ENOENT);
    ck_assert_int_eq(try_open(dev, "log/2"), -ENOENT);
    ck_assert_int_eq(count_names(dev, ""), 3);    /* log, b, new */
    ck_assert_int_eq(count_names(dev, "log"), 3); /* 1, 3, a */
    ck_assert_int_eq(count_names(dev, "new"), 0);

    expect_text(below, "log/1", "one");
    expect_text(below, "log/2", "two");
    expect_text(below, "a", "apple");
    expect_text(below, "b", "banana");
    ck_assert_int_eq(count_names(below, ""), 3);
    ck_assert_int_eq(count_names(below, "log"), 2);
    ck_assert_int_eq(count_names(dev, "log"), 3);
}
END_TEST

/* A name that was unlinked can be used again. The new file has no bytes of the file below. */
START_TEST(unlinked_names_can_be_used_again)
{
    put(below, "f", "from below", 10);
    ck_assert_int_eq(ll_io_unlink(dev, "f"), 0);
    ck_assert_int_eq(ll_io_unlink(dev, "f"), -ENOENT);
    ck_assert_int_eq(ll_io_rename(dev, "f", "g"), -ENOENT);
    put(dev, "f", "", 0);
    expect_text(dev, "f", "");
    ck_assert_int_eq(ll_io_unlink(dev, "f"), 0);
    ck_assert_int_eq(ll_io_mkdir(dev, "f"), 0);
    put(dev, "f/x", "x", 1);
    ck_assert_int_eq(try_open(dev, "f"), -EISDIR);
    ck_assert_int_eq(ll_io_mkdir(dev, "f"), -EEXIST);
    expect_text(below, "f", "from below");
}
END_TEST

/* A file that was truncated and extended does not show the bytes below again. */
START_TEST(truncated_bytes_do_not_come_back)
{
    static unsigned char bytes[9000], want[9000];
    memset(bytes, 0xaa, sizeof bytes);
    put(below, "f", bytes, sizeof bytes);
    struct lladd_file *f = open_file(dev, "f", 0);
    ck_assert_int_eq(ll_io_pwrite(dev, f, "zz", 2, 4999), 0); /* a block in the middle */
    ck_assert_int_eq(ll_io_truncate(dev, f, 5000), 0);
    ck_assert_int_eq(ll_io_truncate(dev, f, 9000), 0);
    memset(want, 0xaa, 4999);
    want[4999] = 'z';
    expect(dev, "f", want, sizeof want);
    ck_assert_int_eq(ll_io_pwrite(dev, f, "q", 1, 8999), 0);
    want[8999] = 'q';
    expect(dev, "f", want, sizeof want);
    ck_assert_int_eq(ll_io_close(dev, f), 0);
}
END_TEST

START_TEST(an_overlay_respects_the_lock_below)
{
    struct lladd_file *held, *f;
    int64_t owner = 0;
    ck_assert_int_eq(ll_io_lock(below, "lock", &held, &owner), 0);
    ck_assert_int_eq(ll_io_lock(dev, "lock", &f, &owner), -EAGAIN);
    ck_assert_int_eq(owner, getpid());
    ck_assert_int_eq(dev->ops->holder(dev, "lock", &owner), -EAGAIN);
    ck_assert_int_eq(ll_io_close(below, held), 0);
    ck_assert_int_eq(dev->ops->holder(dev, "lock", &owner), 0);
    ck_assert_int_eq(ll_io_lock(dev, "lock", &f, &owner), 0);
    /* The lock of the device below is not taken. */
    ck_assert_int_eq(ll_io_lock(below, "lock", &held, &owner), 0);
    ck_assert_int_eq(ll_io_close(below, held), 0);
    ck_assert_int_eq(ll_io_close(dev, f), 0);
}
END_TEST

START_TEST(overlays_on_overlays)
{
    struct lladd_device *top;
    put(below, "f", "bottom", 6);
    put(dev, "g", "middle", 6);
    ck_assert_int_eq(lladd_device_overlay(dev, &top), 0);
    expect_text(top, "f", "bottom");
    expect_text(top, "g", "middle");
    put(top, "g", "TOP", 3);
    expect_text(top, "g", "TOPdle");
    expect_text(dev, "g", "middle");
    lladd_device_close(top);
    ck_assert_int_eq(lladd_device_overlay(NULL, &top), LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(lladd_device_overlay(dev, NULL), LLADD_BAD_ARGUMENT);
}
END_TEST

enum { STEPS = 3000, REACH = 40000 };

/* Limits for the bytes of blocks in memory: all blocks fit, none fits, some fit. */
static const uint64_t bounds[] = {UINT64_MAX, 0, 10000, 25000};
enum { BOUNDS = sizeof bounds / sizeof *bounds };

/* A file on the overlay, and a copy of it that is a plain file. Both get the same steps. */
START_TEST(an_overlay_behaves_like_a_copy)
{
    char *dir = temp_dir_new();
    lladd_device_close(dev);
    ck_assert_int_eq(lladd_device_overlay_bounded(below, bounds[_i % BOUNDS], dir, &dev), 0);
    static unsigned char bytes[REACH], got[REACH], want[REACH];
    static const uint64_t edges[] = {0, 1, 4095, 4096, 4097, 8192, 12287, 20000};
    struct lladd_device *plain;
    uint64_t seed = (uint64_t)_i + 1, a = 0, b = 0;
    ck_assert_int_eq(lladd_device_memory(&plain), 0);
    seeded_fill(seed, bytes, sizeof bytes);
    put(below, "f", bytes, 20000);
    put(plain, "f", bytes, 20000);
    struct lladd_file *f = open_file(dev, "f", 0), *copy = open_file(plain, "f", 0);
    srand((unsigned)seed);
    for (int step = 0; step < STEPS; step++) {
        uint64_t off = rand() % 2 ? (uint64_t)(rand() % 24000) : edges[rand() % 8];
        size_t len = (size_t)(rand() % 9000);
        const unsigned char *from = bytes + rand() % 20000;
        if (rand() % 4 == 0) {
            memset(want, 0, len);
            from = want;
        }
        struct lladd_iovec pieces[2] = {{from, len / 3}, {from + len / 3, len - len / 3}};
        switch (rand() % 4) {
        case 0:
            ck_assert_int_eq(ll_io_truncate(dev, f, off), 0);
            ck_assert_int_eq(ll_io_truncate(plain, copy, off), 0);
            break;
        case 1:
            ck_assert_int_eq(ll_io_pwritev(dev, f, pieces, 2, off), 0);
            ck_assert_int_eq(ll_io_pwritev(plain, copy, pieces, 2, off), 0);
            break;
        case 2:
            ck_assert_int_eq(ll_io_size(plain, copy, &b), 0);
            if (b + 100 > REACH)
                break;
            ck_assert_int_eq(ll_io_append(dev, f, from, 100, &a), 0);
            ck_assert_int_eq(ll_io_append(plain, copy, from, 100, &b), 0);
            ck_assert_uint_eq(a, b);
            break;
        default:
            ck_assert_int_eq(ll_io_pread(dev, f, got, len, off),
                             ll_io_pread(plain, copy, want, len, off));
        }
        int64_t n = ll_io_pread(plain, copy, want, sizeof want, 0);
        ck_assert_int_eq(ll_io_pread(dev, f, got, sizeof got, 0), n);
        ck_assert_msg(memcmp(got, want, (size_t)n) == 0, "step %d", step);
    }
    ck_assert_int_eq(ll_io_close(plain, copy), 0);
    ck_assert_int_eq(ll_io_close(dev, f), 0);
    expect(below, "f", bytes, 20000);
    lladd_device_close(plain);
    ck_assert_int_eq(rmdir(dir), 0); /* the files for blocks have no names, even while in use */
    free(dir);
}
END_TEST

/* Blocks go to files once memory is full; if a file cannot be made, the write fails. */
START_TEST(no_place_to_spill)
{
    static const unsigned char bytes[3 * 4096] = {1};
    struct lladd_device *tight;
    lladd_device_close(dev);
    ck_assert_int_eq(lladd_device_overlay_bounded(below, 1, NULL, &dev), LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(lladd_device_overlay_bounded(below, 10000, "/nowhere/at/all", &tight), 0);
    struct lladd_file *f = open_file(tight, "f", LLADD_OPEN_CREATE);
    ck_assert_int_eq(ll_io_pwrite(tight, f, bytes, 4096, 0), 0);
    ck_assert_int_eq(ll_io_pwrite(tight, f, bytes, 4096, 8192), 0);
    ck_assert_int_eq(ll_io_pwrite(tight, f, bytes, 4096, 4096 * 7), -ENOENT);
    ck_assert_int_eq(ll_io_truncate(tight, f, 0), 0);
    ck_assert_int_eq(ll_io_pwrite(tight, f, bytes, 4096, 4096 * 7), 0); /* there is space again */
    ck_assert_int_eq(ll_io_close(tight, f), 0);
    lladd_device_close(tight);
    ck_assert_int_eq(lladd_device_overlay(below, &dev), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_overlay");
    TCase *tc = tcase_create("all");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, changes_do_not_reach_the_device_below);
    tcase_add_test(tc, unlinked_names_can_be_used_again);
    tcase_add_test(tc, truncated_bytes_do_not_come_back);
    tcase_add_test(tc, an_overlay_respects_the_lock_below);
    tcase_add_test(tc, overlays_on_overlays);
    tcase_add_loop_test(tc, an_overlay_behaves_like_a_copy, 0, 2 * BOUNDS);
    tcase_add_test(tc, no_place_to_spill);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
