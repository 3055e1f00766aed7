/* SPDX-License-Identifier: BSD-2-Clause */
/* A call fails while a database is created. The next open completes the creation. Everything that
 * this open and later calls acknowledge stays, even after a power failure. */
#include "db_fixture.h"

#include <errno.h>
#include <stdlib.h>

static struct fixture r;

/* The n-th call of these kinds fails during creation. Returns false if the creation makes fewer
 * calls of these kinds. */
static bool made_in_spite_of(uint64_t n, unsigned kinds, bool power_fails_first)
{
    fixture_init(&r, 0);
    fault_device_fail(r.fd, n, kinds, EIO, false);
    bool failed = fixture_try_open(&r) != 0;
    bool fired = fault_device_fired(r.fd) != 0;
    fault_device_fail(r.fd, 0, 0, 0, false);
    if (!failed)
        fixture_close(&r);
    fixture_open(&r);
    if (power_fails_first) { /* the power fails before any transaction; the database must exist
                              * nevertheless */
        fixture_crash(&r, &fault_power);
        r.options.flags |= LLADD_OPT_MUST_EXIST;
        fixture_open(&r);
    }
    struct cell c = cell_of(fixture_page(&r), 3);
    fixture_set(&r, c, 4711);
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    fixture_expect(&r, c, 4711);
    fixture_free(&r);
    return fired;
}

/* The n-th sync fails during creation, and the power fails at the k-th call of the next open.
 * Returns false if the open makes fewer calls. */
static bool made_after(uint64_t n, uint64_t k, bool *fired)
{
    fixture_init(&r, 0);
    fault_device_fail(r.fd, n, FAULT_SYNC, EIO, false);
    int rc = fixture_try_open(&r);
    *fired = fault_device_fired(r.fd) != 0;
    fault_device_fail(r.fd, 0, 0, 0, false);
    if (rc == 0)
        fixture_close(&r);
    fault_device_crash_at(r.fd, k);
    if (fixture_try_open(&r) == 0)
        lladd_db_kill(r.db);
    r.db = NULL;
    bool crashed = fault_device_crashed(r.fd);
    fault_device_power_cycle(r.fd, &fault_power);
    fixture_open(&r);
    struct cell c = cell_of(fixture_page(&r), 3);
    fixture_set(&r, c, 4711);
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    fixture_expect(&r, c, 4711);
    fixture_free(&r);
    return crashed;
}

/* The bytes of a failed sync can be read, but are not on the device. A second sync reports success
 * without writing them (LOG-4). So the next open must not trust them. */
START_TEST(a_sync_that_failed_is_not_trusted_by_the_next_open)
{
    uint64_t n, k = 1;
    bool fired = true;
    for (n = 1; fired; n++) {
        for (k = 1; made_after(n, k, &fired); k++)
            continue;
        ck_assert_uint_gt(k, 4);
    }
    ck_assert_uint_gt(n, 4); /* syncs of log, pages, double-write area, control */
}
END_TEST

START_TEST(any_call_fails_while_a_database_is_made)
{
    uint64_t n = 1;
    while (made_in_spite_of(n, FAULT_WRITES, _i))
        n++;
    ck_assert_uint_gt(n, 20);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("creation");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, a_sync_that_failed_is_not_trusted_by_the_next_open);
    tcase_add_loop_test(tc, any_call_fails_while_a_database_is_made, 0, 2);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
