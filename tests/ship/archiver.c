/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * archiver DIRECTORY STORE COUNT: commits COUNT transactions to a database that a thread archives,
 * says "done" when the store has all, and closes. test_archiver.py kills it.
 */
#include "ledger.h"

#include <check.h>
#include <lladd/device.h>
#include <lladd/log_read.h>
#include <lladd/sync.h>
#include <stdio.h>
#include <stdlib.h>

static const char *dir, *url;
static long transactions;

/* A test case only because ck_assert needs one. It runs without a fork, so that a kill of this
 * process ends the test. */
START_TEST(archive)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct ledger ledger = {.n = 0};
    struct lladd_device *disk;
    struct lladd_store *store;
    ck_assert_int_eq(lladd_device_posix(dir, true, &disk, &err), 0);
    ck_assert_int_eq(lladd_store_open(url, NULL, &store, &err), 0);
    ledger.archive_options = (struct lladd_archive_options)LLADD_ARCHIVE_OPTIONS_INIT;
    ledger.archive_options.thread = true;
    ledger.archive_options.piece_ns = ledger.archive_options.mark_ns = 1000000;
    ledger_init(&ledger, disk, store, 1u << 14);
    ledger_open(&ledger);
    for (long i = 0; i < transactions; i++)
        ledger_write(&ledger, 2000);
    uint64_t want = lladd_durable_lsn(ledger.db).v;
    struct lladd_archive_status s = ledger_status(&ledger);
    while (s.stored.v < want && !s.diverged) {
        lladd_yield();
        s = ledger_status(&ledger);
    }
    ck_assert_msg(!s.diverged, "%s", s.error.message);
    ledger_close(&ledger);
    lladd_store_close(store);
    lladd_device_close(disk);
    puts("done");
}
END_TEST

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    dir = argv[1];
    url = argv[2];
    transactions = strtol(argv[3], NULL, 10);
    Suite *s = suite_create("archiver");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, archive);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
