/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests what only real files can show:
 * - opening and creating the directory;
 * - errors of the operating system (limits on open files and on file size, no permission), which
 *   the device passes on unchanged;
 * - the lock against another process, even after that process was killed;
 * - short writes, which a limit on the size of files forces.
 */
#include "io/io.h"
#include "support/fixtures.h"
#include "util/env.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char *dir;
static struct lladd_error err;

static void setup(void)
{
    dir = temp_dir_new();
    memset(&err, 0, sizeof err);
}

static void teardown(void)
{
    temp_dir_remove(dir);
}

static struct lladd_device *device(void)
{
    struct lladd_device *dev = NULL;
    ck_assert_msg(lladd_device_posix(dir, false, &dev, &err) == 0, "%s", err.message);
    return dev;
}

/* ---- opening the directory ---- */

START_TEST(directory_is_created_on_demand)
{
    struct lladd_device *dev;
    char *path = temp_dir_path(dir, "db"), *slashed = temp_dir_path(dir, "db2/");
    ck_assert_int_eq(lladd_device_posix(path, false, &dev, &err), LLADD_NOT_A_DATABASE);
    ck_assert_ptr_nonnull(strstr(err.message, path));
    ck_assert_int_eq(lladd_device_posix(path, true, &dev, &err), 0);
    lladd_device_close(dev);
    ck_assert_int_eq(lladd_device_posix(path, true, &dev, NULL), 0);
    lladd_device_close(dev);
    ck_assert_int_eq(lladd_device_posix(path, false, &dev, NULL), 0);
    lladd_device_close(dev);
    ck_assert_int_eq(lladd_device_posix(slashed, true, &dev, NULL), 0);
    lladd_device_close(dev);
    free(path);
    free(slashed);
}
END_TEST

START_TEST(directories_that_cannot_be_opened)
{
    struct lladd_device *dev;
    char *file = temp_dir_path(dir, "file"), *below = temp_dir_path(dir, "file/db");
    char *deep = temp_dir_path(dir, "no/db");
    char name[5000];
    close(open(file, O_CREAT | O_WRONLY, 0666));
    ck_assert_int_eq(lladd_device_posix(file, true, &dev, &err), LLADD_NOT_A_DATABASE);
    ck_assert_int_eq(lladd_device_posix(below, true, &dev, &err), LLADD_BAD_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(err.message, below));
    ck_assert_int_eq(lladd_device_posix(deep, true, &dev, &err), LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(lladd_device_posix(NULL, true, &dev, &err), LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(lladd_device_posix("", true, &dev, &err), LLADD_BAD_ARGUMENT);
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    ck_assert_int_eq(lladd_device_posix(name, true, &dev, &err), LLADD_BAD_ARGUMENT);
    free(file);
    free(below);
    free(deep);
    lladd_device_close(NULL);
}
END_TEST

START_TEST(the_device_keeps_its_directory_when_it_is_renamed)
{
    char before[4096], *moved = temp_dir_path(dir, "moved"), *db = temp_dir_path(dir, "db");
    struct lladd_device *dev;
    struct lladd_file *f;
    ck_assert_ptr_nonnull(getcwd(before, sizeof before));
    ck_assert_int_eq(chdir(dir), 0);
    ck_assert_int_eq(lladd_device_posix("db", true, &dev, &err), 0);
    ck_assert_int_eq(chdir("/"), 0);
    ck_assert_int_eq(rename(db, moved), 0);
    ck_assert_int_eq(ll_io_open(dev, "f", LLADD_OPEN_CREATE, &f), 0);
    ck_assert_int_eq(ll_io_close(dev, f), 0);
    lladd_device_close(dev);
    char *path = temp_dir_path(moved, "f");
    ck_assert_int_eq(access(path, F_OK), 0);
    ck_assert_int_eq(chdir(before), 0);
    free(path);
    free(moved);
    free(db);
}
END_TEST

/* ---- errors of the operating system ---- */

/* Runs fn in a child process, which may set limits for itself; true if the child exits with 0. */
static bool in_child(bool (*fn)(struct lladd_device *))
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        struct lladd_device *dev;
        if (lladd_device_posix(dir, false, &dev, NULL) != 0)
            _exit(2);
        _exit(fn(dev) ? 0 : 1);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* The kernel writes the bytes that fit and returns their number. The second attempt, for the rest,
 * fails. */
static bool file_size_limit(struct lladd_device *dev)
{
    static unsigned char block[8192], got[8192];
    struct rlimit limit = {10000, 10000};
    struct lladd_iovec pieces[3] = {{block, 3000}, {block + 3000, 3000}, {block + 6000, 2192}};
    struct lladd_file *f;
    uint64_t size;
    seeded_fill(1, block, sizeof block);
    signal(SIGXFSZ, SIG_IGN);
    return setrlimit(RLIMIT_FSIZE, &limit) == 0 &&
           ll_io_open(dev, "f", LLADD_OPEN_CREATE, &f) == 0 &&
           ll_io_pwritev(dev, f, pieces, 3, 0) == 0 &&
           ll_io_pwritev(dev, f, pieces, 3, 8192) == -EFBIG &&
           ll_io_pwrite(dev, f, block, sizeof block, 8192) == -EFBIG &&
           ll_io_size(dev, f, &size) == 0 && size == 10000 &&
           ll_io_truncate(dev, f, 20000) == -EFBIG &&
           dev->ops->append(dev, f, block, 1, NULL) == -EFBIG &&
           ll_io_read_full(dev, f, got, sizeof got, 0) == 0 &&
           memcmp(got, block, sizeof got) == 0 && ll_io_close(dev, f) == 0;
}

START_TEST(short_writes_end_in_an_error)
{
    ck_assert(in_child(file_size_limit));
}
END_TEST

static int visit(void *ctx, const char *name)
{
    (void)name;
    ++*(int *)ctx;
    return 0;
}

static bool no_more_files(struct lladd_device *dev)
{
    struct rlimit limit = {3, 3};
    struct lladd_file *f;
    int64_t owner;
    int seen = 0;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0 &&
           ll_io_open(dev, "f", LLADD_OPEN_CREATE, &f) == -EMFILE &&
           dev->ops->lock(dev, "lock", &f, &owner) == -EMFILE &&
           dev->ops->list(dev, "", visit, &seen) == -EMFILE && ll_io_sync_dir(dev, "") == -EMFILE &&
           seen == 0;
}

START_TEST(no_more_descriptors)
{
    struct lladd_device *dev = device();
    struct lladd_file *f;
    ck_assert_int_eq(ll_io_open(dev, "f", LLADD_OPEN_CREATE, &f), 0);
    ck_assert_int_eq(ll_io_close(dev, f), 0);
    ck_assert(in_child(no_more_files));
    lladd_device_close(dev);
}
END_TEST

/* The device cannot even be opened. */
static bool no_device(struct lladd_device *dev)
{
    struct rlimit limit = {3, 3};
    struct lladd_device *other;
    struct lladd_error e;
    char *path = temp_dir_path(dir, "new");
    (void)dev;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0 &&
           lladd_device_posix(dir, false, &other, &e) == LLADD_NO_FILES && e.sys_errno == EMFILE &&
           strstr(e.message, dir) != NULL &&
           lladd_device_posix(path, true, &other, &e) == LLADD_NO_FILES &&
           access(path, F_OK) != 0; /* and the directory that was made for the device is gone */
}

START_TEST(no_descriptor_for_the_directory)
{
    ck_assert(in_child(no_device));
}
END_TEST

static bool without_rights(struct lladd_device *dev)
{
    struct lladd_file *f;
    struct lladd_device *other;
    struct lladd_error e;
    int64_t owner;
    char *path = temp_dir_path(dir, "new");
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
        return false;
    return ll_io_open(dev, "f", 0, &f) == -EACCES &&
           ll_io_open(dev, "new", LLADD_OPEN_CREATE, &f) == -EACCES &&
           dev->ops->lock(dev, "f", &f, &owner) == -EACCES &&
           dev->ops->mkdir(dev, "d") == -EACCES && dev->ops->unlink(dev, "f") == -EACCES &&
           dev->ops->rename(dev, "f", "g") == -EACCES &&
           lladd_device_posix(path, true, &other, &e) == LLADD_NO_ACCESS &&
           strstr(e.message, path) != NULL;
}

START_TEST(no_permission)
{
    struct lladd_device *dev = device();
    struct lladd_file *f;
    ck_assert_int_eq(ll_io_open(dev, "f", LLADD_OPEN_CREATE, &f), 0);
    ck_assert_int_eq(ll_io_close(dev, f), 0);
    char *path = temp_dir_path(dir, "f");
    ck_assert_int_eq(chmod(path, 0), 0);
    ck_assert_int_eq(chmod(dir, 0555), 0);
    bool right = in_child(without_rights);
    ck_assert_int_eq(chmod(dir, 0755), 0);
    ck_assert(right);
    free(path);
    lladd_device_close(dev);
}
END_TEST

/* ---- ownership and links ---- */

static mode_t mode_of(const char *name)
{
    struct stat st;
    char *path = temp_dir_path(dir, name);
    ck_assert_int_eq(lstat(path, &st), 0);
    free(path);
    return st.st_mode & 07777;
}

START_TEST(files_are_the_users_own_unless_said_otherwise)
{
    static const struct {
        uint32_t asked, file, directory;
    } modes[] = {{0, 0600, 0700}, {0600, 0600, 0700}, {0640, 0640, 0750}, {0666, 0666, 0777}};
    uint32_t wrong[] = {0400, 0200, 0700, 04600, 01000000};
    mode_t mask = umask(0);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        struct lladd_device *dev;
        struct lladd_file *f;
        int64_t owner;
        char *path = temp_dir_path(dir, "db");
        ck_assert_int_eq(lladd_device_posix_mode(path, true, modes[i].asked, &dev, &err), 0);
        ck_assert_int_eq(ll_io_open(dev, "f", LLADD_OPEN_CREATE, &f), 0);
        ck_assert_int_eq(ll_io_close(dev, f), 0);
        ck_assert_int_eq(ll_io_lock(dev, "lock", &f, &owner), 0);
        ck_assert_int_eq(ll_io_close(dev, f), 0);
        ck_assert_int_eq(ll_io_mkdir(dev, "log"), 0);
        ck_assert_uint_eq(mode_of("db"), modes[i].directory);
        ck_assert_uint_eq(mode_of("db/log"), modes[i].directory);
        ck_assert_uint_eq(mode_of("db/f"), modes[i].file);
        ck_assert_uint_eq(mode_of("db/lock"), modes[i].file);
        lladd_device_close(dev);
        temp_dir_remove(path);
    }
    umask(mask);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct lladd_device *dev;
        ck_assert_int_eq(lladd_device_posix_mode(dir, true, wrong[i], &dev, &err),
                         LLADD_BAD_ARGUMENT);
        ck_assert_ptr_nonnull(strstr(err.message, "file_mode"));
    }
}
END_TEST

static int ignore(void *ctx, const char *name)
{
    (void)ctx;
    (void)name;
    return 0;
}

/* The target of the link is neither read, nor written, nor created. */
START_TEST(no_symbolic_link_is_followed)
{
    static const char *const targets[] = {"other", "nothing", "sub"};
    struct lladd_device *dev = device();
    struct lladd_file *f;
    int64_t owner;
    char *link = temp_dir_path(dir, "link"), *below = temp_dir_path(dir, "log");
    ck_assert_int_eq(ll_io_open(dev, "other", LLADD_OPEN_CREATE, &f), 0);
    ck_assert_int_eq(ll_io_close(dev, f), 0);
    ck_assert_int_eq(ll_io_mkdir(dev, "sub"), 0);
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        ck_assert_int_eq(symlink(targets[i], link), 0);
        ck_assert_int_eq(ll_io_open(dev, "link", 0, &f), -ELOOP);
        ck_assert_int_eq(ll_io_open(dev, "link", LLADD_OPEN_CREATE, &f), -ELOOP);
        ck_assert_int_eq(ll_io_open(dev, "link", LLADD_OPEN_READ_ONLY, &f), -ELOOP);
        ck_assert_int_eq(ll_io_lock(dev, "link", &f, &owner), -ELOOP);
        ck_assert_int_eq(dev->ops->holder(dev, "link", &owner), -ELOOP);
        ck_assert_int_eq(unlink(link), 0);
    }
    ck_assert_int_eq(ll_io_open(dev, "nothing", 0, &f), -ENOENT);
    ck_assert_int_eq(symlink("sub", below), 0);
    ck_assert_int_eq(ll_io_open(dev, "log/f", LLADD_OPEN_CREATE, &f), -ELOOP);
    ck_assert_int_eq(ll_io_mkdir(dev, "log/d"), -ELOOP);
    ck_assert_int_eq(ll_io_rename(dev, "other", "log/f"), -ELOOP);
    ck_assert_int_eq(ll_io_rename(dev, "log/f", "other"), -ELOOP);
    ck_assert_int_eq(ll_io_unlink(dev, "log/f"), -ELOOP);
    ck_assert_int_eq(ll_io_list(dev, "log", ignore, NULL), -ELOOP);
    ck_assert_int_eq(ll_io_sync_dir(dev, "log"), -ELOOP);
    free(link);
    free(below);
    lladd_device_close(dev);
}
END_TEST

/* Opening a pipe would wait for its other end. */
START_TEST(what_is_no_plain_file_is_refused)
{
    struct lladd_device *dev = device();
    struct lladd_file *f;
    char *pipe_ = temp_dir_path(dir, "pipe");
    ck_assert_int_eq(mkfifo(pipe_, 0600), 0);
    ck_assert_int_eq(ll_io_open(dev, "pipe", 0, &f), -EPERM);
    ck_assert_int_eq(ll_io_open(dev, "pipe", LLADD_OPEN_READ_ONLY, &f), -EPERM);
    free(pipe_);
    lladd_device_close(dev);
}
END_TEST

/* ---- the lock and other processes ---- */

/* A child that holds the lock until it is killed. */
static pid_t start_holder(void)
{
    int ready[2];
    char c;
    ck_assert_int_eq(pipe(ready), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        struct lladd_device *dev;
        struct lladd_file *f;
        int64_t owner;
        if (lladd_device_posix(dir, false, &dev, NULL) != 0 ||
            dev->ops->lock(dev, "lock", &f, &owner) != 0 || write(ready[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(ready[1]);
    ck_assert_int_eq(read(ready[0], &c, 1), 1);
    close(ready[0]);
    return pid;
}

START_TEST(lock_of_another_process)
{
    struct lladd_device *dev = device();
    struct lladd_file *f;
    int64_t owner;
    int status;
    pid_t holder = start_holder();
    ck_assert_int_eq(dev->ops->lock(dev, "lock", &f, &owner), -EAGAIN);
    ck_assert_int_eq(owner, holder);
    ck_assert_int_eq(kill(holder, SIGKILL), 0);
    ck_assert_int_eq(waitpid(holder, &status, 0), holder);
    ck_assert_int_eq(dev->ops->lock(dev, "lock", &f, &owner), 0);
    ck_assert_int_eq(ll_io_close(dev, f), 0);
    lladd_device_close(dev);
}
END_TEST

/* Other text in the lock file is not taken for a pid. */
START_TEST(owner_unknown)
{
    struct lladd_device *dev = device();
    struct lladd_file *f, *again, *content;
    int64_t owner;
    static const char *texts[] = {"", "nonsense", "-5", "99999999999999999999999999"};
    ck_assert_int_eq(dev->ops->lock(dev, "lock", &f, &owner), 0);
    ck_assert_int_eq(ll_io_open(dev, "lock", 0, &content), 0);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        ck_assert_int_eq(ll_io_truncate(dev, content, 0), 0);
        ck_assert_int_eq(ll_io_pwrite(dev, content, texts[i], strlen(texts[i]), 0), 0);
        ck_assert_int_eq(dev->ops->lock(dev, "lock", &again, &owner), -EAGAIN);
        ck_assert_int_eq(owner, 0);
    }
    ck_assert_int_eq(ll_io_close(dev, content), 0);
    ck_assert_int_eq(ll_io_close(dev, f), 0);
    lladd_device_close(dev);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_posix");
    TCase *tc = tcase_create("device_posix");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, directory_is_created_on_demand);
    tcase_add_test(tc, directories_that_cannot_be_opened);
    tcase_add_test(tc, the_device_keeps_its_directory_when_it_is_renamed);
    tcase_add_test(tc, short_writes_end_in_an_error);
    tcase_add_test(tc, no_more_descriptors);
    tcase_add_test(tc, no_descriptor_for_the_directory);
    tcase_add_test(tc, no_permission);
    tcase_add_test(tc, files_are_the_users_own_unless_said_otherwise);
    tcase_add_test(tc, no_symbolic_link_is_followed);
    tcase_add_test(tc, what_is_no_plain_file_is_refused);
    tcase_add_test(tc, lock_of_another_process);
    tcase_add_test(tc, owner_unknown);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
