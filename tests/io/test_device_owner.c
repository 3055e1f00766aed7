/* SPDX-License-Identifier: BSD-2-Clause */
/* Files that belong to another user. Only root can make files of another user, so the program is
 * skipped for other users. */
#include "io/io.h"
#include "support/fixtures.h"
#include "util/env.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* In a directory of this user, a device opens another user's file only if the device's mode lets
 * the group or others write. */
START_TEST(a_file_of_another_user_is_refused)
{
    struct lladd_device *dev;
    struct lladd_file *f;
    struct lladd_error err = LLADD_ERROR_INIT, why = LLADD_ERROR_INIT;
    char *dir = temp_dir_new(), *path = temp_dir_path(dir, "f"), *log = temp_dir_path(dir, "log");
    ck_assert_int_eq(lladd_device_posix(dir, false, &dev, &err), 0);
    ck_assert_int_eq(ll_io_open(dev, "f", LLADD_OPEN_CREATE, &f), 0);
    ck_assert_int_eq(ll_io_close(dev, f), 0);
    ck_assert_int_eq(ll_io_mkdir(dev, "log"), 0);
    ck_assert_int_eq(chown(path, 65534, 65534), 0);
    ck_assert_int_eq(chown(log, 65534, 65534), 0);
    int rc = ll_io_open(dev, "f", 0, &f);
    ck_assert_int_eq(rc, -EPERM);
    ck_assert_int_eq(ll_fail_io(&why, rc, false, "open", "f"), LLADD_NO_ACCESS);
    ck_assert_ptr_nonnull(strstr(why.message, "owned by another user"));
    ck_assert_int_eq(ll_io_open(dev, "log/g", LLADD_OPEN_CREATE, &f), -EPERM);
    lladd_device_close(dev);
    ck_assert_int_eq(lladd_device_posix_mode(dir, false, 0660, &dev, &err), 0);
    ck_assert_int_eq(ll_io_open(dev, "f", 0, &f), 0);
    ck_assert_int_eq(ll_io_close(dev, f), 0);
    lladd_device_close(dev);
    ck_assert_int_eq(chown(dir, 65534, 65534), 0); /* now the owner of the file is the owner of the
                                                    * directory */
    ck_assert_int_eq(lladd_device_posix(dir, false, &dev, &err), 0);
    ck_assert_int_eq(ll_io_open(dev, "f", 0, &f), 0);
    ck_assert_int_eq(ll_io_close(dev, f), 0);
    lladd_device_close(dev);
    free(path);
    free(log);
    temp_dir_remove(dir);
}
END_TEST

int main(void)
{
    if (geteuid() != 0) {
        printf("skip: only root can change the owner of a file\n");
        return 77;
    }
    Suite *suite = suite_create("owner");
    TCase *tc = tcase_create("owner");
    tcase_add_test(tc, a_file_of_another_user_is_refused);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
