/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A full disk and a `lock` file that has no space for the pid, with real files. The power failed
 * before the pid was written, and since then the disk has become full. lladd_open must succeed
 * nevertheless.
 *
 * The linker option --wrap replaces functions of the C library. While `full` is set, no file gets
 * longer.
 */
#include "db_fixture.h"
#include "support/fixtures.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PAGES = 10 };

static struct fixture r;
static lladd_pageno pages[PAGES];
static bool full;
static unsigned refused;

ssize_t __real_pwrite(int, const void *, size_t, off_t);
ssize_t __real_pwritev(int, const struct iovec *, int, off_t);
int __real_ftruncate(int, off_t);
int __real_fallocate(int, int, off_t, off_t);
ssize_t __wrap_pwrite(int, const void *, size_t, off_t);
ssize_t __wrap_pwritev(int, const struct iovec *, int, off_t);
int __wrap_ftruncate(int, off_t);
int __wrap_fallocate(int, int, off_t, off_t);

/* Returns true if the disk is full and a write up to `end` would make the file longer. */
static bool refuses(int fd, off_t end)
{
    struct stat st;
    if (!full || fstat(fd, &st) != 0 || end <= st.st_size)
        return false;
    refused++;
    errno = ENOSPC;
    return true;
}

ssize_t __wrap_pwrite(int fd, const void *buf, size_t n, off_t at)
{
    return refuses(fd, at + (off_t)n) ? -1 : __real_pwrite(fd, buf, n, at);
}

ssize_t __wrap_pwritev(int fd, const struct iovec *v, int n, off_t at)
{
    off_t end = at;
    for (int i = 0; i < n; i++)
        end += (off_t)v[i].iov_len;
    return refuses(fd, end) ? -1 : __real_pwritev(fd, v, n, at);
}

int __wrap_ftruncate(int fd, off_t size)
{
    return refuses(fd, size) ? -1 : __real_ftruncate(fd, size);
}

int __wrap_fallocate(int fd, int mode, off_t at, off_t n)
{
    return refuses(fd, at + n) ? -1 : __real_fallocate(fd, mode, at, n);
}

static off_t lock_size(void)
{
    struct stat st;
    char *lock = temp_dir_path(r.dir, "lock");
    ck_assert_int_eq(stat(lock, &st), 0);
    free(lock);
    return st.st_size;
}

/* Makes commits and an unfinished transaction, and ends like a process that dies. */
static void work_and_die(bool instant)
{
    fixture_init(&r, FIXTURE_FILES);
    r.options.recovery = instant ? LLADD_RECOVER_INSTANT : LLADD_RECOVER_FULL;
    fixture_open(&r);
    fixture_pages(&r, pages, PAGES);
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    struct lladd_txn *loser = fixture_begin(&r);
    for (unsigned i = 0; i < PAGES; i++) {
        ok(loser, cell_put(loser, cell_of(pages[i], 1), 666));
        fixture_set(&r, cell_of(pages[i], 0), 1 + i);
    }
    lladd_db_kill(r.db);
    r.db = NULL;
}

/* _i: bit 0, recovery is instant; bit 1, the lock file is missing, not empty. */
START_TEST(open_succeeds_with_an_empty_lock_file_on_a_full_disk)
{
    work_and_die(_i & 1);
    char *lock = temp_dir_path(r.dir, "lock");
    ck_assert_int_eq(_i & 2 ? unlink(lock) : truncate(lock, 0), 0);
    free(lock);
    refused = 0;
    full = true;
    for (int round = 0; round < 2; round++) {
        fixture_open(&r);
        ck_assert_uint_gt(refused, 0); /* at least the write of the pid was refused */
        ck_assert_int_eq(lock_size(), 0);
        for (unsigned i = 0; i < PAGES; i++) {
            fixture_expect(&r, cell_of(pages[i], 0), 1 + i);
            fixture_expect(&r, cell_of(pages[i], 1), 0);
        }
        fixture_close(&r);
    }
    full = false;
    fixture_open(&r);
    ck_assert_int_gt(lock_size(), 0);
    fixture_free(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("a lock on a full disk");
    TCase *t = tcase_create("lock");
    tcase_add_loop_test(t, open_succeeds_with_an_empty_lock_file_on_a_full_disk, 0, 4);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
