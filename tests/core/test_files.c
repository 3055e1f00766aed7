/* SPDX-License-Identifier: BSD-2-Clause */
/* The modes of a database's files and directories. Also tests which files in the directory of a
 * database make open refuse the database. */
#include "db_fixture.h"
#include "support/fixtures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct fixture r;
static char *path; /* the database's directory, which the first open makes */

static void begin_case(void)
{
    fixture_init(&r, FIXTURE_FILES);
    path = temp_dir_path(r.dir, "db");
}

static void end_case(void)
{
    free(path);
    fixture_free(&r);
}

static void open_it(void)
{
    ok_db(&r, lladd_open(path, &r.options, &r.db, &r.err));
}

/* Work that makes every kind of file, and several segments of the log. */
static void work(void)
{
    struct cell cell = cell_of(fixture_page(&r), 0);
    for (unsigned i = 0; i < 100; i++) {
        struct lladd_txn *txn = fixture_begin(&r);
        ok(txn, cell_put_wide(txn, cell, i, 1500));
        done(lladd_commit(txn));
    }
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
}

START_TEST(the_options_give_files_their_mode)
{
    static const struct {
        uint32_t asked, file, directory;
    } modes[] = {{0, 0600, 0700}, {0640, 0640, 0750}, {0666, 0666, 0777}};
    mode_t mask = umask(0);
    begin_case();
    r.options.file_mode = modes[_i].asked;
    for (int round = 0; round < 2; round++) {
        open_it();
        work();
        fixture_close(&r);
        ck_assert_uint_ge(temp_dir_modes(path, modes[_i].file, modes[_i].directory), 6);
    }
    end_case();
    umask(mask);
}
END_TEST

START_TEST(a_wrong_mode_makes_nothing)
{
    struct stat st;
    begin_case();
    r.options.file_mode = 0700;
    ck_assert_int_eq(lladd_open(path, &r.options, &r.db, &r.err), LLADD_BAD_ARGUMENT);
    ck_contains(r.err.message, "file_mode");
    ck_assert_int_ne(stat(path, &st), 0);
    end_case();
}
END_TEST

/* What is put in the place of a file: a link, a pipe, or a file of another user. */
enum change { LINK, PIPE, FOREIGN, CHANGES };

static void change(const char *name, enum change how)
{
    char *file = temp_dir_path(path, name), *moved = temp_dir_path(r.dir, "moved");
    if (how == FOREIGN) {
        ck_assert_int_eq(chown(file, 65534, 65534), 0);
    } else {
        ck_assert_int_eq(rename(file, moved), 0);
        ck_assert_int_eq(how == LINK ? symlink(moved, file) : mkfifo(file, 0600), 0);
    }
    free(file);
    free(moved);
}

/* An intruder has put something in the place of a database's file or directory. Open refuses it. */
START_TEST(links_pipes_and_files_of_others_are_refused)
{
    static const char *const names[] = {"control", "pages", "lock", "log"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        if (_i == PIPE && strcmp(names[i], "log") == 0)
            continue; /* `log` is a directory */
        begin_case();
        open_it();
        work();
        fixture_close(&r);
        change(names[i], (enum change)_i);
        int rc = lladd_open(path, &r.options, &r.db, &r.err);
        ck_assert_msg(rc == LLADD_NO_ACCESS, "%s, %d: %s: %s", names[i], _i, lladd_code_name(rc),
                      r.err.message);
        ck_contains(r.err.message, names[i]);
        end_case();
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("files");
    TCase *tc = tcase_create("all");
    tcase_add_loop_test(tc, the_options_give_files_their_mode, 0, 3);
    tcase_add_test(tc, a_wrong_mode_makes_nothing);
    /* Only root can give a file to another user. io/test_device_owner.c reports the skip. */
    tcase_add_loop_test(tc, links_pipes_and_files_of_others_are_refused, 0,
                        geteuid() == 0 ? CHANGES : FOREIGN);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
