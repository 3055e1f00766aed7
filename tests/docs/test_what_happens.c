/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests lines of docs/what-happens-when.md as an application sees them, with real files and through
 * the public interface. Each test expects the code and the words that its line promises.
 * test_wrong_bytes.c tests more of the lines, and other programs test the rest. pages.py checks
 * that every line names a test.
 */
#include "fixture.h"

#include <lladd/bytes.h>
#include <lladd/extension.h>
#include <lladd/log_read.h>
#include <lladd/records.h>
#include <lladd/stats.h>
#include <lladd/twophase.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the process dies ------------------------------------------------------------------------ */

/* Counts for ever, and reports each commit. */
static void count_until_killed(int acks, lladd_pageno page)
{
    open_db();
    for (char byte = 0;; byte++) {
        count(page);
        if (write(acks, &byte, 1) != 1)
            _exit(1);
    }
}

START_TEST(a_process_that_is_killed)
{
    int64_t acknowledged = 0;
    open_db();
    lladd_pageno page = new_page();
    close_db();
    for (int kills = 1; kills <= 5; kills++) {
        int acks[2], status;
        char byte;
        ck_assert_int_eq(pipe(acks), 0);
        pid_t pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0)
            count_until_killed(acks[1], page);
        ck_assert_int_eq(close(acks[1]), 0);
        for (int i = 0; i < 7 * kills; i++, acknowledged++)
            ck_assert_int_eq(read(acks[0], &byte, 1), 1);
        ck_assert_int_eq(kill(pid, SIGKILL), 0);
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        while (read(acks[0], &byte, 1) == 1) /* reports from before the child died */
            acknowledged++;
        ck_assert_int_eq(close(acks[0]), 0);
        open_db();
        int64_t n = counted(page); /* the last commit may not have been reported */
        ck_assert_msg(n == acknowledged || n == acknowledged + 1, "%lld acknowledged, %lld there",
                      (long long)acknowledged, (long long)n);
        acknowledged = n;
        close_db();
    }
}
END_TEST

/* ---- the program ----------------------------------------------------------------------------- */

START_TEST(an_operation_is_missing)
{
    unsigned char one[8], before[PAGE], after[PAGE];
    char words[96];
    lladd_put64(one, 1);
    open_db();
    lladd_pageno page = new_page();
    OK(lladd_checkpoint(db, &err));
    struct lladd_txn *txn = begin();
    TXN_OK(lladd_update(txn, op_id(&word_add), page, one, sizeof one));
    TXN_OK(lladd_commit(txn));
    kill_db();
    file_read("pages", before, PAGE, (off_t)page.v * PAGE);
    struct lladd_registry *all = options.registry;
    options.registry = NULL;
    snprintf(words, sizeof words, "\"%s\" version %u, not registered, first used at LSN",
             word_add.name, word_add.version);
    refused(LLADD_NO_OPERATION, words);
    file_read("pages", after, PAGE, (off_t)page.v * PAGE);
    ck_assert_mem_eq(before, after, PAGE);
    options.registry = all;
    open_db();
    ck_assert_int_eq(counted(page), 1);
    close_db();
}
END_TEST

START_TEST(registrations_that_contradict)
{
    struct lladd_op other = word_add;
    ck_assert_int_eq(lladd_register_op(&options, &other, &err), LLADD_BAD_REGISTRATION);
    ck_assert_msg(strstr(err.message, "\"doc.word.add\" version 2") != NULL, "%s", err.message);
    other.name = "doc.other";
    other.validate = NULL;
    ck_assert_int_eq(lladd_register_op(&options, &other, &err), LLADD_BAD_REGISTRATION);
    ck_assert_msg(strstr(err.message, "validate") != NULL, "%s", err.message);
    OK(lladd_register_op(&options, &word_add, &err)); /* the same again is fine */
}
END_TEST

static int in_child(int (*fn)(void))
{
    int status;
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0)
        _exit(fn());
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int try_second_open(void)
{
    struct lladd_db *second = NULL;
    return lladd_open(dir, &options, &second, &err) == LLADD_LOCKED ? 0 : 1;
}

START_TEST(a_second_open)
{
    char pid[32];
    struct lladd_db *second = NULL;
    open_db();
    snprintf(pid, sizeof pid, "process %ld", (long)getpid());
    ck_assert_int_eq(lladd_open(dir, &options, &second, &err), LLADD_LOCKED);
    ck_assert_msg(strstr(err.message, pid) != NULL, "%s", err.message);
    ck_assert_int_eq(in_child(try_second_open), 0);
    close_db();
}
END_TEST

static int use_parents_handle(void)
{
    struct lladd_txn *txn = NULL;
    if (lladd_begin(db, NULL, &txn, &err) != LLADD_FORKED)
        return 1;
    if (lladd_checkpoint(db, &err) != LLADD_FORKED)
        return 2;
    return lladd_close(db) == LLADD_FORKED ? 0 : 3;
}

START_TEST(a_handle_in_a_forked_child)
{
    open_db();
    lladd_pageno page = new_page();
    ck_assert_int_eq(in_child(use_parents_handle), 0);
    count(page);
    close_db();
    open_db();
    ck_assert_int_eq(counted(page), 1);
    close_db();
}
END_TEST

START_TEST(a_clean_close_leaves_nothing_to_redo)
{
    struct lladd_stats s = {.struct_size = sizeof s};
    open_db();
    lladd_pageno page = new_page();
    for (int i = 0; i < 50; i++)
        count(page);
    struct lladd_txn *txn = begin();
    TXN_OK(lladd_counter_add(txn, page, 0, 1)); /* closing aborts it */
    close_db();
    open_db();
    ck_assert_int_eq(lladd_stats_get(db, &s), 0);
    ck_assert_uint_eq(s.recovered_records, 0);
    ck_assert_uint_eq(s.recovered_undone_txns, 0);
    ck_assert_int_eq(counted(page), 50);
    close_db();
}
END_TEST

START_TEST(recovery_reads_no_more_than_since_the_checkpoint)
{
    struct lladd_stats s = {.struct_size = sizeof s};
    options.durability = LLADD_DURABLE_LATER;
    open_db();
    lladd_pageno page = new_page();
    for (int i = 0; i < 3000; i++)
        count(page);
    OK(lladd_checkpoint(db, &err));
    for (int i = 0; i < 5; i++)
        count(page);
    OK(lladd_wait_durable(db, count(page), &err));
    kill_db();
    open_db();
    ck_assert_int_eq(counted(page), 3006);
    ck_assert_int_eq(lladd_stats_get(db, &s), 0);
    ck_assert_uint_gt(s.recovered_records, 10);
    ck_assert_uint_lt(s.recovered_records, 100);
    close_db();
}
END_TEST

START_TEST(a_directory_with_something_else)
{
    static const char text[] = "dear diary";
    char back[sizeof text];
    file_write("diary.txt", text, sizeof text, 0);
    refused(LLADD_NOT_A_DATABASE, "other files");
    file_read("diary.txt", back, sizeof back, 0);
    ck_assert_str_eq(back, text);
    options.flags |= LLADD_OPT_MUST_EXIST;
    file_remove("diary.txt");
    refused(LLADD_NOT_A_DATABASE, "no database");
}
END_TEST

START_TEST(the_end_with_an_open_action)
{
    struct lladd_gid gid = {.format = 1, .gtrid_length = 1};
    struct lladd_action action;
    open_db();
    lladd_pageno page = new_page();
    struct lladd_txn *txn = begin();
    TXN_OK(lladd_nta_begin(txn, &action));
    TXN_OK(lladd_counter_add(txn, page, 0, 1));
    ck_assert_int_eq(lladd_commit(txn), LLADD_OPEN_ACTION);
    ck_assert_int_eq(lladd_prepare(txn, &gid), LLADD_OPEN_ACTION);
    TXN_OK(lladd_nta_end(txn, &action, LLADD_NO_OP, NULL, 0));
    TXN_OK(lladd_commit(txn));
    ck_assert_int_eq(counted(page), 1);
    close_db();
}
END_TEST

static int seen;

static int see_doubt(void *ctx, const struct lladd_in_doubt_info *info)
{
    const struct lladd_gid *gid = ctx;
    seen++;
    ck_assert_mem_eq(&info->gid, gid, sizeof *gid);
    return 0;
}

START_TEST(a_prepared_transaction_is_in_doubt)
{
    struct lladd_gid gid = {.format = 4711, .gtrid_length = 3, .bqual_length = 2};
    memcpy(gid.data, "abcde", 5);
    open_db();
    lladd_pageno page = new_page();
    struct lladd_txn *txn = begin();
    TXN_OK(lladd_counter_add(txn, page, 0, 5));
    TXN_OK(lladd_prepare(txn, &gid));
    ck_assert_int_eq(lladd_counter_add(txn, page, 0, 5), LLADD_BAD_STATE);
    struct lladd_txn *twin = begin();
    ck_assert_int_eq(lladd_prepare(twin, &gid), LLADD_EXISTS);
    ck_assert_int_eq(lladd_abort(twin), 0);
    kill_db();
    for (int i = 0; i < 2; i++) { /* the transaction stays in doubt until it is decided */
        seen = 0;
        open_db();
        OK(lladd_in_doubt_each(db, see_doubt, &gid, &err));
        ck_assert_int_eq(seen, 1);
        ck_assert_int_eq(counted(page), 5);
        close_db();
    }
    open_db();
    OK(lladd_in_doubt_claim(db, &gid, &txn, &err));
    ck_assert_int_eq(lladd_in_doubt_claim(db, &gid, &twin, &err), LLADD_BUSY);
    TXN_OK(lladd_abort(txn));
    ck_assert_int_eq(lladd_in_doubt_claim(db, &gid, &twin, &err), LLADD_NOT_FOUND);
    ck_assert_int_eq(counted(page), 0);
    close_db();
}
END_TEST

START_TEST(a_rollback_that_cannot_be_carried_out)
{
    unsigned char where[8];
    char words[32];
    open_db();
    lladd_pageno page = new_page();
    struct lladd_action action;
    struct lladd_txn *txn = begin();
    lladd_put64(where, page.v);
    TXN_OK(lladd_nta_begin(txn, &action));
    TXN_OK(lladd_counter_add(txn, page, 0, 1));
    TXN_OK(lladd_nta_end(txn, &action, op_id(&logical_add), where, sizeof where));
    snprintf(words, sizeof words, "transaction %llu", (unsigned long long)lladd_txn_id(txn).v);
    count(new_page()); /* this commit makes the changes that must be undone durable, too */
    bad.fails = true;
    ck_assert_int_eq(lladd_abort(txn), LLADD_UNDO_FAILED);
    ck_assert_int_eq(lladd_begin(db, NULL, &txn, &err), LLADD_UNDO_FAILED);
    ck_assert_msg(strstr(err.message, words) && strstr(err.message, "out of order"), "%s",
                  err.message);
    ck_assert_int_ne(lladd_close(db), 0);
    db = NULL;
    refused(LLADD_UNDO_FAILED, words);
    bad.fails = false;
    open_db();
    ck_assert_int_eq(counted(page), 0);
    close_db();
}
END_TEST

START_TEST(the_log_reaches_its_limit)
{
    options.log_limit_bytes = 16 * SEGMENT;
    options.durability = LLADD_DURABLE_LATER;
    open_db();
    lladd_pageno page = new_page();
    int64_t n = 0;
    for (; n < 10000; n++) /* fills the limit several times: checkpoints make room */
        count(page);
    struct lladd_stats s = {.struct_size = sizeof s};
    ck_assert_int_eq(lladd_stats_get(db, &s), 0);
    ck_assert_uint_gt(s.log_tail, 4 * options.log_limit_bytes);
    ck_assert_uint_le(s.log_disk_bytes, options.log_limit_bytes);
    OK(lladd_pin_set(db, "backup", lladd_durable_lsn(db), &err));
    struct lladd_txn *txn = begin();
    int rc = 0;
    for (int i = 0; i < 10000 && rc == 0; i++) {
        rc = lladd_counter_add(txn, page, 0, 1);
        if (!rc)
            rc = lladd_commit(txn);
        if (!rc) {
            n++;
            txn = begin();
        }
    }
    ck_assert_int_eq(rc, LLADD_LOG_FULL);
    struct lladd_pinner pinner;
    OK(lladd_log_pinner(db, &pinner, &err));
    ck_assert_str_eq(pinner.kind, "pin");
    ck_assert_str_eq(pinner.name, "backup");
    ck_assert_int_eq(lladd_abort(txn), 0);
    OK(lladd_pin_clear(db, "backup", &err));
    count(page);
    ck_assert_int_eq(counted(page), n + 1);
    close_db();
}
END_TEST

#ifdef LLADD_DEBUG
START_TEST(an_operation_that_breaks_its_contract)
{
    unsigned char one[8];
    lladd_put64(one, 1);
    open_db();
    lladd_pageno page = new_page();
    struct lladd_txn *txn = begin();
    bad.forgets = true;
    ck_assert_int_eq(lladd_update(txn, op_id(&word_add), page, one, sizeof one), LLADD_BUG);
    ck_assert_msg(strstr(lladd_txn_error(txn)->message, "undo does not reverse redo") != NULL, "%s",
                  lladd_txn_error(txn)->message);
    bad.forgets = false;
    TXN_OK(lladd_commit(txn)); /* the transaction was not changed */
    ck_assert_int_eq(counted(page), 0);
    close_db();
}
END_TEST
#endif

static Suite *suite(void)
{
    Suite *s = suite_create("docs/what happens");
    TCase *tc = tcase_create("lines");
    tcase_add_checked_fixture(tc, fixture_init, fixture_finish);
    tcase_add_test(tc, a_process_that_is_killed);
    tcase_add_test(tc, an_operation_is_missing);
    tcase_add_test(tc, registrations_that_contradict);
    tcase_add_test(tc, a_second_open);
    tcase_add_test(tc, a_handle_in_a_forked_child);
    tcase_add_test(tc, a_clean_close_leaves_nothing_to_redo);
    tcase_add_test(tc, recovery_reads_no_more_than_since_the_checkpoint);
    tcase_add_test(tc, a_directory_with_something_else);
    tcase_add_test(tc, the_end_with_an_open_action);
    tcase_add_test(tc, a_prepared_transaction_is_in_doubt);
    tcase_add_test(tc, a_rollback_that_cannot_be_carried_out);
    tcase_add_test(tc, the_log_reaches_its_limit);
#ifdef LLADD_DEBUG
    tcase_add_test(tc, an_operation_that_breaks_its_contract);
#endif
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    SRunner *r = srunner_create(suite());
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
