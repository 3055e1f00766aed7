/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inspection while an allocation or a device call fails. Either inspection reports the failure, or
 * the failure makes no difference. Uses the databases of made.c on the memory device.
 */
#include "bench.h"

#include "support/fault_alloc.h"
#include "support/fault_device.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>

/* Runs all of inspection on a database. Returns 0 without findings if no call fails. */
static int everything(struct lladd_device *dev, const struct lladd_allocator *mem, uint64_t *wrong,
                      uint64_t *looked)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_inspect *v;
    struct findings f = {.n = 0};
    struct bench_description d = {NULL, 0};
    *wrong = *looked = 0;
    o.device = dev;
    o.allocator = mem;
    int rc = lladd_inspect_open(NULL, &o, &v, &err);
    if (rc)
        return rc;
    struct lladd_inspect_info i = {.struct_size = sizeof i};
    ck_assert_int_eq(lladd_inspect_info_get(v, &i), 0);
    d.v = v;
    rc = bench_verify(v, &f);
    if (!rc)
        rc = lladd_inspect_log(v, lladd_lsn_of(0), bench_describe, &d, &err);
    *wrong = f.count.damage + f.count.repair + f.count.notes + (i.in_use != 0);
    *looked = f.count.records + f.count.pages + f.count.raw_pages + d.text;
    lladd_inspect_close(v);
    return rc;
}

/* The n-th allocation fails, once or for ever. Inspection returns LLADD_NO_MEMORY, or the failure
 * makes no difference. Nothing leaks. */
START_TEST(no_memory)
{
    struct made m;
    struct lladd_device *dev = bench_make(MADE_CRASHED, &m);
    uint64_t wrong, looked, all;
    ck_assert_int_eq(everything(dev, NULL, &wrong, &all), 0);
    for (int forever = 0; forever < 2; forever++) {
        for (uint64_t n = 1;; n++) {
            struct fault_alloc fa;
            fault_alloc_init(&fa);
            fault_alloc_fail(&fa, n, forever);
            int rc = everything(dev, &fa.mem, &wrong, &looked);
            ck_assert_uint_eq(fault_alloc_live(&fa), 0);
            if (fault_alloc_fired(&fa) == 0) {
                ck_assert_int_eq(rc, 0);
                ck_assert_uint_eq(wrong, 0);
                ck_assert_uint_gt(n, 20);
                break;
            }
            /* The log reader can work with less memory than is best. */
            ck_assert_msg(rc == LLADD_NO_MEMORY || (rc == 0 && wrong == 0 && looked == all),
                          "allocation %llu: %d, %llu findings", (unsigned long long)n, rc,
                          (unsigned long long)wrong);
        }
    }
    lladd_device_close(dev);
}
END_TEST

/* The n-th call of the device fails. The failure is reported, or makes no difference. */
START_TEST(bad_device)
{
    struct made m;
    struct lladd_device *dev = bench_make(_i ? MADE_CRASHED : MADE_CLEAN, &m);
    uint64_t wrong, looked, all;
    ck_assert_int_eq(everything(dev, NULL, &wrong, &all), 0);
    for (int forever = 0; forever < 2; forever++) {
        for (uint64_t n = 1;; n++) {
            struct fault_device *fd = fault_device_new(dev);
            fault_device_fail(fd, n, FAULT_ANY, EIO, forever);
            int rc = everything(fault_device_dev(fd), NULL, &wrong, &looked);
            bool fired = fault_device_fired(fd) != 0;
            ck_assert_uint_eq(fault_device_open_files(fd), 0);
            fault_device_free(fd);
            if (!fired) {
                ck_assert_int_eq(rc, 0);
                ck_assert_uint_eq(wrong, 0);
                ck_assert_uint_gt(n, 20);
                break;
            }
            ck_assert_msg(rc || wrong || looked == all, "call %llu failed: unnoticed",
                          (unsigned long long)n);
        }
    }
    lladd_device_close(dev);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("failures of inspection");
    TCase *t = tcase_create("world");
    tcase_add_test(t, no_memory);
    tcase_add_loop_test(t, bad_device, 0, 2);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
