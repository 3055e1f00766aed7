/* SPDX-License-Identifier: BSD-2-Clause */
/* Files are missing, or are truncated at any place. If an open refuses such files, inspection must
 * report damage. */
#include "bench.h"

#include <check.h>
#include <lladd/device.h>
#include <stdlib.h>
#include <string.h>

static int look(struct lladd_device *dev, struct lladd_inspect **v)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    o.device = dev;
    return lladd_inspect_open(NULL, &o, v, &err);
}

/* Returns the result of an open. */
static int open_them(struct lladd_device *dev)
{
    struct lladd_options o = made_options(dev);
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_db *db;
    int rc = lladd_open(NULL, &o, &db, &err);
    if (!rc)
        lladd_db_kill(db);
    lladd_options_release(&o);
    return rc;
}

/* Asserts that inspection finds damage in these files if an open refuses them. */
static void check_refused(const struct image *im, const char *name, uint64_t size,
                          unsigned *refused)
{
    struct lladd_device *dev = bench_device(im);
    struct lladd_inspect *v;
    struct findings f = {.n = 0};
    if (size == UINT64_MAX)
        ck_assert_int_eq(dev->ops->unlink(dev, name), 0);
    else
        bench_truncate(dev, name, size);
    int rc = look(dev, &v);
    if (rc == 0) {
        ck_assert_int_eq(bench_verify(v, &f), 0);
        lladd_inspect_close(v);
    }
    int opened = open_them(dev);
    if (opened) {
        (*refused)++;
        ck_assert_msg(rc || f.count.damage > 0, "%s, cut to %lld: open says %s, inspection nothing",
                      name, (long long)size, lladd_code_name(opened));
    }
    lladd_device_close(dev);
}

/* Files are truncated or missing. If the next open refuses them, inspection reports damage. The
 * database was closed or not; inspection does not know the application's operations. */
START_TEST(refused_by_open)
{
    struct made m;
    struct lladd_device *dev = bench_make((enum made_kind)_i, &m);
    struct image im = bench_copy(dev);
    unsigned refused = 0;
    for (size_t k = 0; k < im.n; k++) {
        if (strcmp(im.files[k].name, "lock") == 0)
            continue;
        check_refused(&im, im.files[k].name, UINT64_MAX, &refused);
        for (unsigned part = 0; part < 8; part++)
            check_refused(&im, im.files[k].name, im.files[k].len * part / 8, &refused);
    }
    ck_assert_uint_gt(refused, 8);
    bench_free(&im);
    lladd_device_close(dev);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("refused");
    TCase *t = tcase_create("refused");
    tcase_add_loop_test(t, refused_by_open, 0, MADE_KINDS);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
