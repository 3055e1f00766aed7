/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests the shared object as an application gets it. A program that is not linked with the library
 * loads the shared object and keeps its symbols local, as a Java virtual machine does. The open
 * string names a plug-in.
 */
#include "support/fixtures.h"
#include "xa/xa.h"

#include <check.h>
#include <dlfcn.h>
#include <lladd/lladd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *so;

/* ISO C has no other way from void * to a function. */
#define FUNCTION(name, fn) \
    do { \
        void *address = dlsym(so, name); \
        ck_assert_ptr_nonnull(address); \
        memcpy(&(fn), &address, sizeof(fn)); \
    } while (0)

START_TEST(a_plugin_brings_operations)
{
    struct lladd_db *(*db_of)(int);
    int (*lookup)(struct lladd_db *, const char *, uint32_t, lladd_op_id *);
    int (*why)(int, struct lladd_error *);
    struct lladd_error err = LLADD_ERROR_INIT;
    char info[MAXINFOSIZE], *dir = temp_dir_new(), *path = temp_dir_path(dir, "db");
    lladd_op_id id;
    so = dlopen(LLADD_XA_SO, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(so != NULL, "%s", so ? "" : dlerror());
    const struct xa_switch_t *xa = dlsym(so, "lladd_xa_switch");
    ck_assert_ptr_nonnull(xa);
    FUNCTION("lladd_xa_db", db_of);
    FUNCTION("lladd_op_lookup", lookup); /* a symbol of the library, which is a part of the shared
                                          * object */
    FUNCTION("lladd_xa_error", why);
    int n = snprintf(info, sizeof info, "dir=%s;create=yes;cache=1M;ops=%s", path, LLADD_XA_PLUGIN);
    ck_assert_msg(n > 0 && n < MAXINFOSIZE, "the build folder's name is too long");
    int rc = xa->xa_open_entry(info, 1, TMNOFLAGS);
    (void)why(1, &err);
    ck_assert_msg(rc == XA_OK, "%d: %s", rc, err.message);
    ck_assert_int_eq(lookup(db_of(1), LLADD_XA_PLUGIN_OP, 3, &id), 0);
    ck_assert_int_eq(xa->xa_close_entry(info, 1, TMNOFLAGS), XA_OK);
    snprintf(info, sizeof info, "dir=%s;ops=%s", path, LLADD_XA_SO); /* this is no plug-in */
    ck_assert_int_eq(xa->xa_open_entry(info, 1, TMNOFLAGS), XAER_INVAL);
    ck_assert_int_ne(why(1, &err), 0);
    ck_assert_ptr_nonnull(strstr(err.message, "does not export"));
    free(path);
    temp_dir_remove(dir);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("plugin");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, a_plugin_brings_operations);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
