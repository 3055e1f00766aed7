/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Open strings and what they open. Malformed strings are refused with the reason. There may be
 * several rmids, and several databases, in one process. In one test a device fails.
 */
#include "xa_fixture.h"

#include <errno.h>
#include <lladd/sync.h>
#include <stdio.h>
#include <sys/stat.h>

static struct fixture b;

static int try_open(const char *info)
{
    char text[600];
    ck_assert_uint_lt(strlen(info), sizeof text);
    memcpy(text, info, strlen(info) + 1);
    return xa_open(text, RMID, TMNOFLAGS);
}

START_TEST(malformed_open_strings_are_refused_and_said_why)
{
    static const struct {
        const char *info, *why;
    } wrong[] = {
        {"dir", "key=value"},
        {"=", "not a key"},
        {"dir=", "dir: 1 to"},
        {"dir=db;dir=db", "twice"},
        {"dir=db;colour=red", "colour"},
        {"dir=db;create=maybe", "yes"},
        {"dir=db;cache=lots", "not a number"},
        {"dir=db;cache=0", "not a number"},
        {"dir=db;cache=12X", "not a number"},
        {"dir=db;cache=99999999999999999999", "not a number"},
        {"dir=db;log_limit=-1", "not a number"},
        {"dir=db;wait=100000", "seconds"},
        {"dir=db;mode=", "mode"},
        {"dir=db;mode=0400", "mode"},
        {"dir=db;mode=0700", "mode"},
        {"dir=db;mode=0640x", "mode"},
        {"dir=db;mode=01666", "mode"},
        {"dir=db;threads=some", "each or any"},
        {"dir=db;owner=", "owner"},
        {"dir=db;owner=123456789012345678901234567890123456789012345678901234567890abcd", "owner"},
        {"dir=db\\", "backslash"},
        {";;dir=db", "key=value"},
        {"dir=db;ops=/nowhere/plugin.so", "plug-in"},
    };
    char text[MAXINFOSIZE + 10];
    struct lladd_error err;
    fixture_init(&b);
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ck_assert_msg(try_open(wrong[i].info) == XAER_INVAL, "%s", wrong[i].info);
        ck_assert_int_ne(lladd_xa_error(RMID, &err), 0);
        ck_assert_msg(strstr(err.message, wrong[i].why), "%s: %s", wrong[i].info, err.message);
        ck_assert_ptr_null(lladd_xa_db(RMID));
        gives(XAER_PROTO, xa_start(&(XID){0}, RMID, TMNOFLAGS)); /* the rmid is still not open */
    }
    memset(text, 'x', sizeof text);
    memcpy(text, "dir=", 4);
    text[MAXINFOSIZE] = 0;
    gives(XAER_INVAL, xa_open(text, RMID, TMNOFLAGS));
    gives(XAER_INVAL, xa_open(NULL, RMID, TMNOFLAGS));
    gives(XAER_INVAL, xa_open("dir=db", RMID, TMJOIN));
    gives(XAER_ASYNC, xa_open("dir=db", RMID, (long)TMASYNC));
    gives(XA_OK, try_open("dir=a\\;b\\=c;cache=1M;owner=me;create=yes;threads=each;wait=0"));
    fixture_close(&b);
    fixture_free(&b);
}
END_TEST

/* A real directory in the file system that does not exist yet. */
START_TEST(directories_are_made_only_if_the_string_says_so)
{
    char info[MAXINFOSIZE], *dir = temp_dir_new(), *path = temp_dir_path(dir, "new");
    int rmid = RMID + 1;
    snprintf(info, sizeof info, "dir=%s", path);
    ck_assert_int_eq(xa_open(info, rmid, TMNOFLAGS), XAER_INVAL);
    snprintf(info, sizeof info, "dir=%s;create=yes;cache=1M", path);
    ck_assert_int_eq(xa_open(info, rmid, TMNOFLAGS), XA_OK);
    ck_assert_ptr_nonnull(lladd_xa_db(rmid));
    ck_assert_int_eq(xa_close("", rmid, TMNOFLAGS), XA_OK);
    ck_assert_ptr_null(lladd_xa_db(rmid));
    free(path);
    temp_dir_remove(dir);
}
END_TEST

START_TEST(the_string_gives_files_their_mode)
{
    char info[MAXINFOSIZE], *dir = temp_dir_new(), *path = temp_dir_path(dir, "new");
    int rmid = RMID + 1;
    mode_t mask = umask(0);
    snprintf(info, sizeof info, "dir=%s;create=yes;cache=1M;mode=0640", path);
    ck_assert_int_eq(xa_open(info, rmid, TMNOFLAGS), XA_OK);
    ck_assert_int_eq(xa_close("", rmid, TMNOFLAGS), XA_OK);
    ck_assert_uint_ge(temp_dir_modes(path, 0640, 0750), 5);
    umask(mask);
    free(path);
    temp_dir_remove(dir);
}
END_TEST

/* Another handle has the database open. */
START_TEST(a_database_in_use_is_not_available)
{
    struct lladd_db *db;
    struct lladd_error err;
    fixture_init(&b);
    ck_assert_int_eq(lladd_open("db", &b.options, &db, &b.err), 0);
    gives(XAER_RMERR, try_open("dir=db"));
    ck_assert_int_eq(lladd_xa_error(RMID, &err), LLADD_LOCKED);
    ck_assert_int_eq(lladd_close(db), 0);
    fixture_open(&b);
    fixture_free(&b);
}
END_TEST

/* Two rmids with one database, and a third with another. */
START_TEST(rmids_share_a_database_or_have_their_own)
{
    XID x = fixture_xid("a"), found;
    struct lladd_device *device;
    struct lladd_options own = LLADD_OPTIONS_INIT;
    ck_assert_int_eq(lladd_device_memory(&device), 0);
    fixture_init(&b);
    own.device = device;
    own.flags = LLADD_OPT_NO_THREADS;
    ck_assert_int_eq(lladd_xa_options(8, &b.options), 0);
    ck_assert_int_eq(lladd_xa_options(9, &own), 0);
    fixture_open(&b);
    ck_assert_int_eq(lladd_xa_options(RMID, NULL), LLADD_BAD_STATE);
    ck_assert_int_eq(xa_open("dir=db;owner=b", 8, TMNOFLAGS), XAER_INVAL);
    ck_assert_int_eq(xa_open("dir=db", 8, TMNOFLAGS), XA_OK);
    ck_assert_int_eq(xa_open("create=yes", 9, TMNOFLAGS), XA_OK);
    ck_assert_ptr_eq(lladd_xa_db(8), lladd_xa_db(RMID));
    ck_assert_ptr_ne(lladd_xa_db(9), lladd_xa_db(RMID));
    fixture_work(&b, &x, 0, 1);
    ck_assert_int_eq(xa_start(&x, 8, TMNOFLAGS), XAER_DUPID);
    ck_assert_int_eq(xa_start(&x, 9, TMNOFLAGS), XA_OK); /* the other database has its own branch of
                                                          * this XID */
    ck_assert_int_eq(xa_start(&x, 8, TMJOIN), XA_OK);
    ck_assert_ptr_ne(lladd_xa_txn(8), lladd_xa_txn(9));
    gives(XAER_PROTO, xa_start(&x, RMID, TMJOIN)); /* otherwise this thread would wait for itself */
    ck_assert_int_eq(xa_close("", 8, TMNOFLAGS), XAER_PROTO);
    ck_assert_int_eq(xa_end(&x, 8, TMSUCCESS), XA_OK);
    ck_assert_int_eq(xa_end(&x, 9, TMSUCCESS), XA_OK);
    ck_assert_int_eq(xa_prepare(&x, 8, TMNOFLAGS), XA_OK);
    ck_assert_int_eq(xa_prepare(&x, 9, TMNOFLAGS), XA_RDONLY);
    fixture_close(&b); /* rmid 8 keeps the database open */
    ck_assert_int_eq(xa_recover(&found, 1, 8, TMSTARTRSCAN), 1);
    ck_assert_int_eq(xa_recover(&found, 1, 9, TMSTARTRSCAN), 0);
    ck_assert_int_eq(xa_commit(&x, 8, TMNOFLAGS), XA_OK);
    ck_assert_int_eq(xa_close("", 8, TMNOFLAGS), XA_OK);
    ck_assert_int_eq(xa_close("", 9, TMNOFLAGS), XA_OK);
    ck_assert_int_eq(lladd_xa_options(8, NULL), 0);
    ck_assert_int_eq(lladd_xa_options(9, NULL), 0);
    fixture_open(&b);
    ck_assert_int_eq(fixture_get(&b, 0), 1);
    fixture_free(&b);
    lladd_device_close(device);
}
END_TEST

START_TEST(an_rmid_that_is_not_open_has_nothing)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    ck_assert_ptr_null(lladd_xa_db(1234));
    ck_assert_ptr_null(lladd_xa_txn(1234));
    ck_assert_int_eq(lladd_xa_error(1234, &err), 0);
    ck_assert_int_eq(err.code, 0);
    ck_assert_int_eq(xa_close("", 1234, TMNOFLAGS), XA_OK);
    ck_assert_int_eq(lladd_xa_options(1234, NULL), 0);
    ck_assert_str_eq(lladd_xa_switch.name, "LLADD");
    ck_assert_int_eq(lladd_xa_switch.flags, TMNOFLAGS); /* no TMREGISTER, no TMNOMIGRATE */
    ck_assert_int_eq(lladd_xa_switch.version, 0);
}
END_TEST

static void *succeeds(void *arg)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    /* This thread has made no call yet, so the error is that of the other thread. */
    ck_assert_int_eq(lladd_xa_error(RMID, &err), LLADD_NOT_FOUND);
    ck_assert_int_eq(xa_open(arg, RMID, TMNOFLAGS), XA_OK);
    ck_assert_int_eq(xa_close("", RMID, TMNOFLAGS), XA_OK);
    ck_assert_int_eq(lladd_xa_error(RMID, &err), 0);
    return NULL;
}

/* A successful call clears the earlier error of its thread. Calls of other threads do not change
 * that error. */
START_TEST(the_error_is_that_of_the_last_call)
{
    static char info[] = "dir=db";
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_thread thread;
    XID x = fixture_xid("a");
    fixture_init(&b);
    ck_assert_int_eq(xa_open("dir", RMID, TMNOFLAGS), XAER_INVAL);
    ck_assert_int_eq(lladd_xa_error(RMID, &err), LLADD_BAD_ARGUMENT);
    fixture_open_as(&b, RMID, info);
    err = (struct lladd_error)LLADD_ERROR_INIT;
    ck_assert_int_eq(lladd_xa_error(RMID, &err), 0);
    ck_assert_int_eq(err.code, 0);
    ck_assert_int_eq(xa_rollback(&x, RMID, TMNOFLAGS), XAER_NOTA);
    ck_assert_int_eq(lladd_thread_start(&thread, succeeds, info), 0);
    lladd_thread_join(&thread);
    ck_assert_int_eq(lladd_xa_error(RMID, &err), LLADD_NOT_FOUND);
    ck_assert_str_ne(err.message, "");
    fixture_work(&b, &x, 0, 1);
    ck_assert_int_eq(lladd_xa_error(RMID, &err), 0);
    gives(XA_OK, xa_rollback(&x, RMID, TMNOFLAGS));
    fixture_free(&b);
}
END_TEST

/* Runs a function in another thread, to its end. */
static void run_in_a_thread(void *(*run)(void *), void *arg)
{
    struct lladd_thread thread;
    ck_assert_int_eq(lladd_thread_start(&thread, run, arg), 0);
    lladd_thread_join(&thread);
}

static void *closes(void *arg)
{
    (void)arg;
    ck_assert_int_eq(xa_close("", RMID, TMNOFLAGS), XA_OK);
    return NULL;
}

static void is_closed(void)
{
    XID x = fixture_xid("a"), found;
    struct lladd_error err = LLADD_ERROR_INIT;
    ck_assert_ptr_null(lladd_xa_db(RMID));
    ck_assert_int_eq(xa_start(&x, RMID, TMNOFLAGS), XAER_PROTO);
    ck_assert_int_eq(xa_recover(&found, 1, RMID, TMSTARTRSCAN), XAER_PROTO);
    ck_assert_int_eq(xa_commit(&x, RMID, TMONEPHASE), XAER_PROTO);
    ck_assert_int_eq(lladd_xa_error(RMID, &err), LLADD_BAD_STATE);
    ck_assert_int_eq(xa_close("", RMID, TMNOFLAGS), XA_OK); /* in R0, a close is allowed and changes
                                                             * nothing */
}

static void *finds_it_closed_and_opens(void *arg)
{
    is_closed();
    ck_assert_int_eq(xa_open(arg, RMID, TMNOFLAGS), XA_OK);
    return NULL;
}

/* With `threads=any`, a close by one thread closes the resource manager for all threads. */
START_TEST(a_close_for_any_thread_is_one_for_all)
{
    static char info[] = "dir=db;threads=any";
    XID x = fixture_xid("a");
    fixture_init(&b);
    fixture_open_as(&b, RMID, info);
    run_in_a_thread(closes, NULL);
    is_closed();
    fixture_open_as(&b, RMID, info);
    fixture_close(&b);
    run_in_a_thread(finds_it_closed_and_opens, info);
    fixture_work(&b, &x, 0, 1);
    gives(XA_OK, xa_commit(&x, RMID, TMONEPHASE));
    ck_assert_int_eq(fixture_get(&b, 0), 1);
    fixture_free(&b);
}
END_TEST

/* A failed write is final for the handle. Each branch keeps the state of its last durable record.
 * When the resource manager has been opened again, it is usable again. */
START_TEST(a_failed_device_is_opened_again)
{
    XID kept = fixture_xid("kept"), idle = fixture_xid("idle"), busy = fixture_xid("busy"),
        found[3];
    fixture_init(&b);
    fixture_open(&b);
    fixture_prepared(&b, &kept, 0, 1);
    fixture_work(&b, &idle, 1, 1);
    gives(XA_OK, xa_start(&busy, RMID, TMNOFLAGS));
    fixture_add(&b, 2, 1);
    fault_device_fail(b.fd, 1, FAULT_WRITES, EIO, true);
    gives(XAER_RMFAIL, xa_commit(&kept, RMID, TMNOFLAGS));
    gives(XAER_RMFAIL, xa_commit(&kept, RMID, TMNOFLAGS));
    gives(XAER_RMFAIL, xa_prepare(&idle, RMID, TMNOFLAGS));
    gives(XAER_RMFAIL, xa_start(&idle, RMID, TMJOIN));
    gives(XAER_RMFAIL, xa_recover(found, 3, RMID, TMSTARTRSCAN));
    gives(XAER_RMFAIL, xa_open("dir=db", RMID, TMNOFLAGS)); /* `busy` is still associated */
    gives(XAER_RMFAIL, xa_end(&busy, RMID, TMSUCCESS));
    gives(XAER_RMFAIL, xa_open("dir=db", RMID, TMNOFLAGS)); /* the device still fails */
    gives(XAER_RMFAIL, xa_commit(&kept, RMID, TMNOFLAGS));
    fault_device_fail(b.fd, 0, 0, 0, false);
    gives(XA_OK, xa_open("dir=db", RMID, TMNOFLAGS));
    gives(XAER_NOTA, xa_rollback(&idle, RMID, TMNOFLAGS)); /* recovery has rolled the branch back */
    int n = xa_recover(found, 3, RMID, TMSTARTRSCAN | TMENDRSCAN);
    ck_assert_int_le(n, 1);
    gives(n ? XA_OK : XAER_NOTA, xa_commit(&kept, RMID, TMNOFLAGS));
    ck_assert_int_eq(fixture_get(&b, 0), 1);
    ck_assert_int_eq(fixture_get(&b, 1), 0);
    ck_assert_int_eq(fixture_get(&b, 2), 0);
    fixture_free(&b);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("open");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, malformed_open_strings_are_refused_and_said_why);
    tcase_add_test(tc, directories_are_made_only_if_the_string_says_so);
    tcase_add_test(tc, the_string_gives_files_their_mode);
    tcase_add_test(tc, a_database_in_use_is_not_available);
    tcase_add_test(tc, rmids_share_a_database_or_have_their_own);
    tcase_add_test(tc, an_rmid_that_is_not_open_has_nothing);
    tcase_add_test(tc, the_error_is_that_of_the_last_call);
    tcase_add_test(tc, a_close_for_any_thread_is_one_for_all);
    tcase_add_test(tc, a_failed_device_is_opened_again);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
