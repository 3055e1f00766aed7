/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The devices when the system below fails, or does less than it was asked to. The linker puts
 * functions of this file in place of malloc and of the system calls (see CMakeLists.txt). Each
 * allocation fails in turn. Then the call fails with ENOMEM, and has changed nothing. A read or
 * write is interrupted, or moves fewer bytes than requested, or none. If a sync, close or
 * truncation fails, the caller gets the error, and a failed sync is not tried again (LOG-4).
 */
#include "io/io.h"
#include "support/fixtures.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* ---- in place of the system ---- */

/* What the next calls do. With all members 0 they do what the system does. */
static struct {
    bool armed;        /* a call of the device is running; only then allocations fail, since Check
                        * allocates, too */
    uint64_t alloc_in; /* the n-th allocation from now fails */
    bool alloc_failed;
    int interrupted; /* this many reads and writes return EINTR first */
    size_t at_most;  /* the most bytes that one read or write moves; 0: no limit */
    bool nothing;    /* writes move nothing and return 0 */
    int ends;        /* this many reads return end of file, at `ends_at` */
    size_t ends_at;
    int error; /* errno of every call named in `kind` */
    const char *kind;
    int rc;
    int asked; /* how often the call named in `kind` was made */
} plan;

static bool alloc_fails(void)
{
    if (!plan.armed || plan.alloc_in == 0 || --plan.alloc_in > 0)
        return false;
    plan.alloc_failed = true;
    return true;
}

static bool call_fails(const char *name)
{
    if (!plan.kind || strcmp(plan.kind, name) != 0)
        return false;
    plan.asked++;
    errno = plan.error;
    return true;
}

static bool interrupted(void)
{
    if (plan.interrupted == 0)
        return false;
    plan.interrupted--;
    errno = EINTR;
    return true;
}

static size_t limited(size_t n)
{
    return plan.at_most > 0 && n > plan.at_most ? plan.at_most : n;
}

void *__real_malloc(size_t);
void *__real_calloc(size_t, size_t);
void *__real_realloc(void *, size_t);
ssize_t __real_pread(int, void *, size_t, off_t);
ssize_t __real_pwrite(int, const void *, size_t, off_t);
int __real_ftruncate(int, off_t);
int __real_fallocate(int, int, off_t, off_t);
int __real_fdatasync(int);
int __real_fsync(int);
int __real_close(int);
int __real_fstat(int, struct stat *);
DIR *__real_fdopendir(int);
struct dirent *__real_readdir(DIR *);

void *__wrap_malloc(size_t);
void *__wrap_calloc(size_t, size_t);
void *__wrap_realloc(void *, size_t);
ssize_t __wrap_pread(int, void *, size_t, off_t);
ssize_t __wrap_pwrite(int, const void *, size_t, off_t);
ssize_t __wrap_pwritev(int, const struct iovec *, int, off_t);
int __wrap_ftruncate(int, off_t);
int __wrap_fallocate(int, int, off_t, off_t);
int __wrap_fdatasync(int);
int __wrap_fsync(int);
int __wrap_close(int);
int __wrap_fstat(int, struct stat *);
DIR *__wrap_fdopendir(int);
struct dirent *__wrap_readdir(DIR *);

/* Sets errno as the C library does. Callers inside musl rely on errno. */
static void *no_memory(void)
{
    errno = ENOMEM;
    return NULL;
}

void *__wrap_malloc(size_t n)
{
    return alloc_fails() ? no_memory() : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t m)
{
    return alloc_fails() ? no_memory() : __real_calloc(n, m);
}

void *__wrap_realloc(void *p, size_t n)
{
    return alloc_fails() ? no_memory() : __real_realloc(p, n);
}

ssize_t __wrap_pread(int fd, void *buf, size_t n, off_t off)
{
    if (interrupted() || call_fails("pread"))
        return -1;
    if (plan.ends > 0 && (size_t)off >= plan.ends_at) {
        plan.ends--;
        return 0;
    }
    if (plan.ends > 0 && n > plan.ends_at - (size_t)off)
        n = plan.ends_at - (size_t)off;
    return __real_pread(fd, buf, limited(n), off);
}

ssize_t __wrap_pwrite(int fd, const void *buf, size_t n, off_t off)
{
    if (interrupted() || call_fails("pwrite"))
        return -1;
    return plan.nothing ? 0 : __real_pwrite(fd, buf, limited(n), off);
}

/* Moves as many bytes as the limit allows, so it may end in the middle of a piece. */
ssize_t __wrap_pwritev(int fd, const struct iovec *v, int n, off_t off)
{
    size_t left = plan.at_most > 0 ? plan.at_most : SIZE_MAX;
    ssize_t done = 0;
    if (interrupted() || call_fails("pwrite"))
        return -1;
    for (int i = 0; i < n && left > 0 && !plan.nothing; i++) {
        size_t part = v[i].iov_len < left ? v[i].iov_len : left;
        ssize_t moved = __real_pwrite(fd, v[i].iov_base, part, off + done);
        if (moved < 0)
            return moved;
        done += moved;
        left -= (size_t)moved;
    }
    return done;
}

int __wrap_fallocate(int fd, int mode, off_t off, off_t len)
{
    return call_fails("fallocate") ? -1 : __real_fallocate(fd, mode, off, len);
}

int __wrap_ftruncate(int fd, off_t size)
{
    return interrupted() || call_fails("ftruncate") ? -1 : __real_ftruncate(fd, size);
}

int __wrap_fdatasync(int fd)
{
    return call_fails("fdatasync") ? -1 : __real_fdatasync(fd);
}

int __wrap_fsync(int fd)
{
    return call_fails("fsync") ? -1 : __real_fsync(fd);
}

/* Closes the file even if the call fails, as Linux does. */
int __wrap_close(int fd)
{
    int rc = __real_close(fd);
    return call_fails("close") ? -1 : rc;
}

int __wrap_fstat(int fd, struct stat *st)
{
    return call_fails("fstat") ? -1 : __real_fstat(fd, st);
}

DIR *__wrap_fdopendir(int fd)
{
    return call_fails("fdopendir") ? NULL : __real_fdopendir(fd);
}

struct dirent *__wrap_readdir(DIR *dir)
{
    return call_fails("readdir") ? NULL : __real_readdir(dir);
}

/* ---- fixture ---- */

static struct lladd_device *dev, *below;
static char *dir;

static void fails_with(const char *kind, int error)
{
    plan.kind = kind;
    plan.error = error;
    plan.asked = 0;
}

static void setup_posix(void)
{
    memset(&plan, 0, sizeof plan);
    dir = temp_dir_new();
    ck_assert_int_eq(lladd_device_posix(dir, false, &dev, NULL), 0);
}

static void setup_memory(void)
{
    memset(&plan, 0, sizeof plan);
    dir = NULL;
    ck_assert_int_eq(lladd_device_memory(&dev), 0);
}

static void setup_overlay(void)
{
    setup_memory();
    below = dev;
    ck_assert_int_eq(lladd_device_overlay(below, &dev), 0);
}

static void teardown(void)
{
    memset(&plan, 0, sizeof plan);
    lladd_device_close(dev);
    lladd_device_close(below);
    below = NULL;
    temp_dir_remove(dir);
}

static struct lladd_file *create(const char *name)
{
    struct lladd_file *f;
    ck_assert_int_eq(ll_io_open(dev, name, LLADD_OPEN_CREATE, &f), 0);
    return f;
}

/* ---- no memory ---- */

static int count_name(void *ctx, const char *name)
{
    (void)name;
    ++*(int *)ctx;
    return 0;
}

static int names_in(const char *where)
{
    int n = 0;
    ck_assert_int_eq(ll_io_list(dev, where, count_name, &n), 0);
    return n;
}

/* Makes a call of the device in which allocations may fail. */
#define ARMED(call) (plan.armed = true, plan.rc = (call), plan.armed = false, plan.rc)

/* Returns true if the call has failed for lack of memory. Asserts that it has not failed for
 * another reason. */
static bool starved(int rc)
{
    ck_assert_msg(rc == 0 || rc == -ENOMEM, "%d", rc);
    ck_assert(rc == 0 || plan.alloc_failed);
    return rc != 0;
}

/* Makes many calls. If an allocation fails in one of them, that call is repeated and then works.
 * Returns whether an allocation has failed. */
static bool workload(void)
{
    char text[16];
    char big[3000];
    struct lladd_file *f, *l;
    int64_t owner;
    int n = 0;
    memset(big, 'x', sizeof big);
    while (starved(ARMED(ll_io_mkdir(dev, "d"))))
        ck_assert_int_eq(names_in(""), 0);
    for (int i = 0; i < 70; i++) {
        sprintf(text, "d/%d", i);
        while (starved(ARMED(ll_io_open(dev, text, LLADD_OPEN_CREATE, &f))))
            ck_assert_int_eq(names_in("d"), i);
        while (starved(ARMED(ll_io_pwrite(dev, f, big, sizeof big, 0)))) {
            uint64_t size;
            ck_assert_int_eq(ll_io_size(dev, f, &size), 0);
            ck_assert_uint_eq(size, 0);
        }
        while (starved(ARMED(ll_io_truncate(dev, f, 5000)))) {
        }
        ck_assert_int_eq(ll_io_close(dev, f), 0);
    }
    while (starved(ARMED(ll_io_rename(dev, "d/0", "d/new")))) {
    }
    n = 0;
    while (starved(ARMED(ll_io_list(dev, "d", count_name, &n))))
        n = 0;
    ck_assert_int_eq(n, 70);
    while (starved(ARMED(ll_io_lock(dev, "lock", &l, &owner)))) {
    }
    while (starved(ARMED(ll_io_lock(dev, "lock2", &f, &owner)))) {
    }
    ck_assert_int_eq(ll_io_close(dev, f), 0);
    ck_assert_int_eq(ll_io_close(dev, l), 0);
    return plan.alloc_failed;
}

START_TEST(every_allocation_fails_once)
{
    bool posix = dir != NULL, overlay = below != NULL;
    for (uint64_t n = 1;; n++) {
        plan.alloc_in = n;
        plan.alloc_failed = false;
        bool failed = workload();
        teardown();
        if (posix)
            setup_posix();
        else if (overlay)
            setup_overlay();
        else
            setup_memory();
        if (!failed)
            break;
        ck_assert_uint_lt(n, 100000);
    }
}
END_TEST

/* If a file also exists on the device below, a write to it through the overlay takes memory. A
 * write that fails for lack of memory has changed nothing, and the next write succeeds. */
START_TEST(an_overlay_s_write_to_a_file_below_takes_memory)
{
    unsigned char bytes[9000], got[9000];
    for (uint64_t n = 1; n < 40; n++) {
        char name[16];
        struct lladd_file *f;
        sprintf(name, "f%d", (int)n);
        memset(bytes, 'b', sizeof bytes);
        ck_assert_int_eq(ll_io_open(below, name, LLADD_OPEN_CREATE, &f), 0);
        ck_assert_int_eq(ll_io_pwrite(below, f, bytes, sizeof bytes, 0), 0);
        ck_assert_int_eq(ll_io_close(below, f), 0);
        plan.alloc_failed = false;
        plan.alloc_in = n;
        while (starved(ARMED(ll_io_open(dev, name, 0, &f)))) {
        }
        /* The parts of a block that are not written come from below. */
        while (starved(ARMED(ll_io_pwrite(dev, f, "new", 3, 4095)))) {
            ck_assert_int_eq(ll_io_pread(dev, f, got, sizeof got, 0), sizeof got);
            ck_assert(got[0] == 'b' && got[8999] == 'b');
        }
        memcpy(bytes + 4095, "new", 3);
        ck_assert_int_eq(ll_io_pread(dev, f, got, sizeof got, 0), sizeof got);
        ck_assert_mem_eq(got, bytes, sizeof got);
        ck_assert_int_eq(ll_io_close(dev, f), 0);
        while (starved(ARMED(ll_io_unlink(dev, name)))) {
        }
        ck_assert_int_eq(ll_io_open(dev, name, 0, &f), -ENOENT);
    }
}
END_TEST

START_TEST(devices_need_memory)
{
    struct lladd_device *other = NULL;
    struct lladd_error err;
    char *name = temp_dir_path(dir, "new");
    for (uint64_t n = 1;; n++) {
        plan.alloc_failed = false;
        plan.alloc_in = n;
        int rc = ARMED(lladd_device_memory(&other));
        if (rc == 0)
            break;
        ck_assert_int_eq(rc, LLADD_NO_MEMORY);
    }
    ck_assert(!plan.alloc_failed);
    lladd_device_close(other);

    plan.alloc_in = 1;
    ck_assert_int_eq(ARMED(lladd_device_overlay(dev, &other)), LLADD_NO_MEMORY);
    plan.alloc_in = 1;
    int rc = ARMED(lladd_device_posix(dir, false, &other, &err));
    ck_assert_int_eq(rc, LLADD_NO_MEMORY);
    ck_assert(plan.alloc_failed);
    plan.alloc_in = 0;
    fails_with("fsync", EIO);
    ck_assert_int_eq(lladd_device_posix(name, true, &other, &err), LLADD_WRITE_FAILED);
    ck_assert_ptr_nonnull(strstr(err.message, name));
    ck_assert_int_ne(access(name, F_OK), 0);
    free(name);
}
END_TEST

/* ---- short transfers ---- */

START_TEST(short_and_interrupted)
{
    enum { SIZE = 10000 };
    static unsigned char data[SIZE], got[SIZE + 1];
    struct lladd_iovec pieces[100];
    struct lladd_file *f = create("f");
    seeded_fill((uint64_t)_i, data, SIZE);
    for (int i = 0; i < 100; i++)
        pieces[i] = (struct lladd_iovec){data + 100 * i, 100};
    plan.at_most = (size_t[]){1, 7, 99, 100, 101, 250, 511, 512, 513, 4096, SIZE - 1}[_i];
    plan.interrupted = 3;
    ck_assert_int_eq(ll_io_pwritev(dev, f, pieces, 100, 0), 0);
    ck_assert_int_eq(plan.interrupted, 0);
    plan.interrupted = 2;
    ck_assert_int_eq(ll_io_pread(dev, f, got, SIZE + 1, 0), SIZE);
    ck_assert_int_eq(plan.interrupted, 0);
    ck_assert_mem_eq(got, data, SIZE);
    plan.interrupted = 1;
    ck_assert_int_eq(ll_io_truncate(dev, f, 10), 0);
    ck_assert_int_eq(ll_io_append(dev, f, data, 300, NULL), 0);
    ck_assert_int_eq(ll_io_read_full(dev, f, got, 310, 0), 0);
    ck_assert_mem_eq(got + 10, data, 300);
    ck_assert_int_eq(ll_io_close(dev, f), 0);
}
END_TEST

/* If a read returns end of file too early, the device repeats it once. If the second read ends too
 * early, too, the call fails. The caller never gets fewer bytes than the file has. */
START_TEST(a_read_that_ends_too_early)
{
    enum { SIZE = 5000 };
    static unsigned char data[SIZE], got[SIZE + 1];
    struct lladd_file *f = create("f");
    seeded_fill(7, data, SIZE);
    ck_assert_int_eq(ll_io_pwrite(dev, f, data, SIZE, 0), 0);
    plan.ends_at = (size_t[]){0, 1, 512, 4096, SIZE - 1}[_i];
    plan.ends = 1;
    memset(got, 0, sizeof got);
    ck_assert_int_eq(ll_io_pread(dev, f, got, SIZE + 1, 0), SIZE);
    ck_assert_int_eq(plan.ends, 0);
    ck_assert_mem_eq(got, data, SIZE);
    plan.ends = 1;
    ck_assert_int_eq(ll_io_read_full(dev, f, got, SIZE, 0), 0);
    plan.ends = 2;
    ck_assert_int_eq(ll_io_pread(dev, f, got, SIZE + 1, 0), -EIO);
    plan.ends = 2;
    ck_assert_int_eq(ll_io_read_full(dev, f, got, SIZE, 0), -EIO);
    /* At the real end of the file a read may return less. */
    plan.ends = 0;
    ck_assert_int_eq(ll_io_pread(dev, f, got, 10, SIZE), 0);
    ck_assert_int_eq(ll_io_pread(dev, f, got, 10, SIZE + 100), 0);
    ck_assert_int_eq(ll_io_read_full(dev, f, got, 10, SIZE - 5), -ENODATA);
    fails_with("fstat", EIO);
    ck_assert_int_eq(ll_io_pread(dev, f, got, 10, SIZE), -EIO);
    fails_with(NULL, 0);
    ck_assert_int_eq(ll_io_close(dev, f), 0);
}
END_TEST

START_TEST(no_progress_is_an_error)
{
    struct lladd_file *f = create("f");
    plan.nothing = true;
    ck_assert_int_eq(ll_io_pwrite(dev, f, "abc", 3, 0), -EIO);
    ck_assert_int_eq(ll_io_append(dev, f, "abc", 3, NULL), -EIO);
    plan.nothing = false;
    ck_assert_int_eq(ll_io_close(dev, f), 0);
}
END_TEST

/* ---- errors are passed on ---- */

START_TEST(errors_are_passed_on)
{
    char c;
    int n = 0;
    uint64_t size;
    int64_t owner;
    struct lladd_file *f = create("f"), *l;
    ck_assert_int_eq(ll_io_pwrite(dev, f, "x", 1, 0), 0);
    fails_with("pread", EIO);
    ck_assert_int_eq(ll_io_pread(dev, f, &c, 1, 0), -EIO);
    fails_with("pwrite", EDQUOT);
    ck_assert_int_eq(ll_io_pwrite(dev, f, "y", 1, 0), -EDQUOT);
    ck_assert_int_eq(ll_io_append(dev, f, "y", 1, NULL), -EDQUOT);
    fails_with("pwrite", EIO);
    ck_assert_int_eq(ll_io_lock(dev, "lock", &l, &owner), -EIO);
    fails_with("ftruncate", EIO);
    ck_assert_int_eq(ll_io_truncate(dev, f, 0), -EIO);
    fails_with("fallocate", EDQUOT);
    ck_assert_int_eq(ll_io_allocate(dev, f, 5), -EDQUOT);
    fails_with("fallocate", ENOSYS); /* after ENOSYS or EINVAL: the file system cannot allocate */
    ck_assert_int_eq(ll_io_allocate(dev, f, 5), -EOPNOTSUPP);
    fails_with("fallocate", EINVAL);
    ck_assert_int_eq(ll_io_allocate(dev, f, 5), -EOPNOTSUPP);
    fails_with("fstat", EIO);
    ck_assert_int_eq(ll_io_size(dev, f, &size), -EIO);
    ck_assert_int_eq(ll_io_append(dev, f, "y", 1, NULL), -EIO);
    ck_assert_int_eq(ll_io_open(dev, "f", LLADD_OPEN_READ_ONLY, &l), -EIO);
    fails_with("fdopendir", ENOMEM);
    ck_assert_int_eq(ll_io_list(dev, "", count_name, &n), -ENOMEM);
    fails_with("readdir", EIO);
    ck_assert_int_eq(ll_io_list(dev, "", count_name, &n), -EIO);
    ck_assert_int_eq(n, 0);
    fails_with(NULL, 0);

    ck_assert_int_eq(ll_io_read_full(dev, f, &c, 1, 0), 0);
    ck_assert_int_eq(c, 'x');
    ck_assert_int_eq(ll_io_lock(dev, "lock", &l, &owner), 0); /* the failed call has no lock */
    ck_assert_int_eq(ll_io_close(dev, l), 0);
    fails_with("close", EIO);
    ck_assert_int_eq(ll_io_close(dev, f), -EIO);
    fails_with(NULL, 0);
    f = create("f");
    fails_with("close", EINTR); /* the file is closed nevertheless */
    ck_assert_int_eq(ll_io_close(dev, f), 0);
}
END_TEST

/* The lock file of a database that lost power is empty, and the disk may be full by then. */
START_TEST(locking_works_on_a_full_disk)
{
    static const char *const left[] = {NULL, "", "4711                "};
    static const int errors[] = {ENOSPC, EDQUOT, EFBIG};
    const char *text = left[_i % 3];
    struct lladd_file *l, *other;
    int64_t owner = 1;
    if (text) {
        struct lladd_file *f = create("lock");
        ck_assert_int_eq(ll_io_pwrite(dev, f, text, strlen(text), 0), 0);
        ck_assert_int_eq(ll_io_close(dev, f), 0);
    }
    fails_with("pwrite", errors[_i / 3]);
    ck_assert_int_eq(ll_io_lock(dev, "lock", &l, &owner), 0);
    fails_with(NULL, 0);
    ck_assert_int_eq(ll_io_lock(dev, "lock", &other, &owner), -EAGAIN);
    ck_assert_int_eq(owner, 0); /* the owner is not known: the old pid in the file is not
                                 * reported */
    ck_assert_int_eq(ll_io_close(dev, l), 0);
    ck_assert_int_eq(ll_io_lock(dev, "lock", &l, &owner), 0);
    ck_assert_int_eq(ll_io_lock(dev, "lock", &other, &owner), -EAGAIN);
    ck_assert_int_eq(owner, getpid());
    ck_assert_int_eq(ll_io_close(dev, l), 0);
}
END_TEST

START_TEST(a_failed_sync_is_asked_for_once)
{
    static const int errors[] = {EIO, ENOSPC, EINTR, EDQUOT};
    struct lladd_file *f = create("f");
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        fails_with("fdatasync", errors[i]);
        ck_assert_int_eq(ll_io_sync(dev, f), -errors[i]);
        ck_assert_int_eq(plan.asked, 1);
        fails_with("fsync", errors[i]);
        ck_assert_int_eq(ll_io_sync_dir(dev, ""), -errors[i]);
        ck_assert_int_eq(plan.asked, 1);
    }
    fails_with(NULL, 0);
    ck_assert_int_eq(ll_io_close(dev, f), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_system");
    TCase *posix = tcase_create("posix");
    tcase_add_checked_fixture(posix, setup_posix, teardown);
    tcase_add_test(posix, every_allocation_fails_once);
    tcase_add_test(posix, devices_need_memory);
    tcase_add_loop_test(posix, short_and_interrupted, 0, 11);
    tcase_add_loop_test(posix, a_read_that_ends_too_early, 0, 5);
    tcase_add_test(posix, no_progress_is_an_error);
    tcase_add_test(posix, errors_are_passed_on);
    tcase_add_loop_test(posix, locking_works_on_a_full_disk, 0, 9);
    tcase_add_test(posix, a_failed_sync_is_asked_for_once);
    suite_add_tcase(suite, posix);
    TCase *memory = tcase_create("memory");
    tcase_add_checked_fixture(memory, setup_memory, teardown);
    tcase_add_test(memory, every_allocation_fails_once);
    suite_add_tcase(suite, memory);
    TCase *overlay = tcase_create("overlay");
    tcase_add_checked_fixture(overlay, setup_overlay, teardown);
    tcase_add_test(overlay, every_allocation_fails_once);
    tcase_add_test(overlay, an_overlay_s_write_to_a_file_below_takes_memory);
    suite_add_tcase(suite, overlay);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
