/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An error has a code, a place in the source, and a message of any kind. The table of codes is
 * consistent. Each error of the operating system gets the root code that tells the caller what to
 * do. Memory, time and randomness come from the environment, or from the system.
 */
#include "support/fault_alloc.h"
#include "support/fixtures.h"
#include "support/test_world.h"
#include "util/poison.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- errors ---- */

START_TEST(the_first_error_is_the_poison)
{
    struct ll_poison p;
    struct lladd_error why = LLADD_ERROR_INIT, err = LLADD_ERROR_INIT;
    ll_poison_init(&p);
    ck_assert(!ll_poisoned(&p));
    ck_assert_int_eq(ll_poison_check(&p, &err), 0);
    ck_assert_int_eq(err.code, 0);
    ll_fail(&why, LLADD_CORRUPT_PAGE, "no rollback");
    ck_assert_int_eq(ll_poison_set(&p, LLADD_UNDO_FAILED, &why, NULL), LLADD_UNDO_FAILED);
    ck_assert(ll_poisoned(&p));
    ck_assert_int_eq(ll_poison_set_io(&p, -EIO, "sync", "log", &err), LLADD_UNDO_FAILED);
    ck_assert_str_eq(err.message, "no rollback");
    ck_assert_int_eq(ll_poison_check(&p, NULL), LLADD_UNDO_FAILED);

    ll_poison_init(&p);
    ck_assert_int_eq(ll_poison_set_io(&p, -ENOSPC, "write to", "log", &err), LLADD_WRITE_FAILED);
    ck_assert_int_eq(err.sys_errno, ENOSPC);

    ll_poison_init(&p);
    ll_fail(&why, LLADD_BUG, "a code of the poisoned root");
    ck_assert_int_eq(ll_poison_set(&p, LLADD_WRITE_FAILED, &why, &why), LLADD_BUG);

    /* In a forked child the poison has no error, because other checks refuse its calls
     * (util/poison.h). */
    memset(&p, 0, sizeof p);
    ck_assert(!ll_poisoned(&p));
    ck_assert_int_eq(ll_poison_check(&p, NULL), 0);
}
END_TEST

START_TEST(fail_fills_everything)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    err.sys_errno = 99;
    int line = __LINE__ + 1;
    int rc = ll_fail(&err, LLADD_BUSY, "page %d of %s", 7, "x");
    ck_assert_int_eq(rc, LLADD_BUSY);
    ck_assert_int_eq(err.code, LLADD_BUSY);
    ck_assert_int_eq(err.sys_errno, 0);
    ck_assert_int_eq(err.line, line);
    /* The name is relative to the source tree. If the compiler was called with relative paths, the
     * path to the source tree comes first. */
    const char *source = strstr(err.source, "tests/util/test_env.c");
    ck_assert_ptr_nonnull(source);
    ck_assert_str_eq(source, "tests/util/test_env.c");
    ck_assert_int_ne(err.source[0], '/');
    ck_assert_str_eq(err.message, "page 7 of x");
    ck_assert_uint_eq(err.lsn.v, 0);
    ck_assert_uint_eq(err.page.v, LLADD_NO_PAGE);
}
END_TEST

START_TEST(fail_with_page_and_lsn)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    ck_assert_int_eq(ll_fail_page(&err, LLADD_CORRUPT_PAGE, lladd_page_of(42), "page %d", 42),
                     LLADD_CORRUPT_PAGE);
    ck_assert_uint_eq(err.page.v, 42);
    ck_assert_uint_eq(err.lsn.v, 0);
    ck_assert_int_eq(ll_fail_lsn(&err, LLADD_CORRUPT_LOG, lladd_lsn_of(81234), "at %d", 81234),
                     LLADD_CORRUPT_LOG);
    ck_assert_uint_eq(err.lsn.v, 81234);
    ck_assert_uint_eq(err.page.v, LLADD_NO_PAGE);
    ck_assert_str_eq(err.message, "at 81234");
}
END_TEST

START_TEST(fail_without_a_struct)
{
    ck_assert_int_eq(ll_fail(NULL, LLADD_BUSY, "%s", "x"), LLADD_BUSY);
    ck_assert_int_eq(ll_fail_page(NULL, LLADD_BUSY, lladd_page_of(1), "x"), LLADD_BUSY);
    ck_assert_int_eq(ll_fail_lsn(NULL, LLADD_BUSY, lladd_lsn_of(1), "x"), LLADD_BUSY);
    ck_assert_int_eq(ll_fail_io(NULL, -EIO, true, "write", "f"), LLADD_WRITE_FAILED);
}
END_TEST

START_TEST(long_messages_are_cut)
{
    struct lladd_error err;
    char word[1000];
    memset(word, 'x', sizeof word - 1);
    word[sizeof word - 1] = '\0';
    ck_assert_int_eq(ll_fail(&err, LLADD_BUSY, "%s", word), LLADD_BUSY);
    ck_assert_uint_eq(strlen(err.message), sizeof err.message - 1);
}
END_TEST

START_TEST(io_errors_name_file_and_cause)
{
    char text[100]; /* the words for the cause are those of the C library */
    struct lladd_error err;
    ck_assert_int_eq(ll_fail_io(&err, -ENOSPC, true, "write", "log/0000.seg"), LLADD_NO_SPACE);
    snprintf(text, sizeof text, "cannot write \"log/0000.seg\": %s", strerror(ENOSPC));
    ck_assert_str_eq(err.message, text);
    ck_assert_int_eq(err.sys_errno, ENOSPC);
    ck_assert_int_eq(ll_fail_io(&err, -EIO, false, "read", "pages"), LLADD_READ_FAILED);
    snprintf(text, sizeof text, "cannot read \"pages\": %s", strerror(EIO));
    ck_assert_str_eq(err.message, text);
    ck_assert_int_eq(err.sys_errno, EIO);
}
END_TEST

static const struct {
    int rc;
    int reading;
    int writing;
} io_codes[] = {
    {-ENOSPC, LLADD_NO_SPACE, LLADD_NO_SPACE},     {-EDQUOT, LLADD_NO_SPACE, LLADD_NO_SPACE},
    {-EFBIG, LLADD_NO_SPACE, LLADD_NO_SPACE},      {-ENOMEM, LLADD_NO_MEMORY, LLADD_NO_MEMORY},
    {-EMFILE, LLADD_NO_FILES, LLADD_NO_FILES},     {-ENFILE, LLADD_NO_FILES, LLADD_NO_FILES},
    {-EACCES, LLADD_NO_ACCESS, LLADD_NO_ACCESS},   {-EPERM, LLADD_NO_ACCESS, LLADD_NO_ACCESS},
    {-EROFS, LLADD_NO_ACCESS, LLADD_NO_ACCESS},    {-ELOOP, LLADD_NO_ACCESS, LLADD_NO_ACCESS},
    {-EIO, LLADD_READ_FAILED, LLADD_WRITE_FAILED}, {-ENOENT, LLADD_READ_FAILED, LLADD_WRITE_FAILED},
};

START_TEST(io_errors_have_the_right_root)
{
    struct lladd_error err;
    ck_assert_int_eq(ll_io_code(io_codes[_i].rc, false), io_codes[_i].reading);
    ck_assert_int_eq(ll_io_code(io_codes[_i].rc, true), io_codes[_i].writing);
    ck_assert_int_eq(ll_fail_io(&err, io_codes[_i].rc, true, "sync", "f"), io_codes[_i].writing);
    ck_assert_int_eq(err.sys_errno, -io_codes[_i].rc);
}
END_TEST

/* ---- the table of codes ---- */

static const struct {
    int code;
    const char *name;
    const char *text;
    enum lladd_root root;
} codes[] = {
#define ROW(name, number, root, text) {number, #name, text, LLADD_ROOT_##root},
    LLADD_ERROR_LIST(ROW)
#undef ROW
};
enum { CODES = sizeof codes / sizeof *codes };

START_TEST(codes_belong_to_their_root)
{
    int code = codes[_i].code;
    ck_assert_str_eq(lladd_code_name(code), codes[_i].name);
    ck_assert_str_eq(lladd_code_text(code), codes[_i].text);
    ck_assert_int_eq(lladd_code_root(code), codes[_i].root);
    ck_assert_int_eq(-code / 100 * 100, codes[_i].root);
    ck_assert_int_ne(-code % 100, 0);
    for (int i = 0; i < _i; i++)
        ck_assert_int_ne(codes[i].code, code);
}
END_TEST

START_TEST(numbers_that_are_no_codes)
{
    ck_assert_str_eq(lladd_code_name(0), "LLADD_OK");
    ck_assert_str_eq(lladd_code_text(0), "success");
    ck_assert_int_eq(lladd_code_root(0), LLADD_ROOT_NONE);
    static const int none[] = {1, -1, -100, -199, -700, 402};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        ck_assert_ptr_null(lladd_code_name(none[i]));
        ck_assert_ptr_null(lladd_code_text(none[i]));
        ck_assert_int_eq(lladd_code_root(none[i]), LLADD_ROOT_NONE);
    }
}
END_TEST

/* ---- memory ---- */

START_TEST(system_memory)
{
    struct ll_env env;
    ll_env_init(&env, NULL, NULL, true);
    ck_assert(env.threads);
    void *none = ll_alloc(&env, 0);
    ck_assert_ptr_nonnull(none);
    ll_free(&env, none);
    unsigned char *p = ll_alloc_zero(&env, 100);
    for (int i = 0; i < 100; i++)
        ck_assert_uint_eq(p[i], 0);
    p[99] = 7;
    p = ll_resize(&env, p, 100000);
    ck_assert_uint_eq(p[99], 7);
    ll_free(&env, p);
    ll_free(&env, NULL);
    p = ll_resize(&env, NULL, 10);
    ck_assert_ptr_nonnull(p);
    ll_free(&env, p);
    char *s = ll_strdup(&env, "word");
    ck_assert_str_eq(s, "word");
    ll_free(&env, s);
}
END_TEST

START_TEST(callers_memory)
{
    struct fault_alloc fa;
    struct ll_env env;
    fault_alloc_init(&fa);
    ll_env_init(&env, &fa.mem, NULL, false);
    ck_assert(!env.threads);
    unsigned char *p = ll_alloc_zero(&env, 50);
    for (int i = 0; i < 50; i++)
        ck_assert_uint_eq(p[i], 0);
    p = ll_resize(&env, p, 60);
    char *s = ll_strdup(&env, "");
    ck_assert_uint_eq(fault_alloc_calls(&fa), 3);
    ck_assert_uint_eq(fault_alloc_live(&fa), 2);
    fault_alloc_fail(&fa, 1, true);
    ck_assert_ptr_null(ll_alloc(&env, 1));
    ck_assert_ptr_null(ll_alloc_zero(&env, 1));
    ck_assert_ptr_null(ll_resize(&env, p, 1000));
    ck_assert_ptr_null(ll_strdup(&env, "x"));
    ll_free(&env, p);
    ll_free(&env, s);
    ck_assert_uint_eq(fault_alloc_live(&fa), 0);
    ck_assert_uint_eq(fault_alloc_bytes(&fa), 0);
}
END_TEST

START_TEST(half_an_allocator_is_not_used)
{
    struct fault_alloc fa;
    struct ll_env env;
    fault_alloc_init(&fa);
    ck_assert(ll_allocator_is_whole(&fa.mem));
    fa.mem.release = NULL;
    ck_assert(!ll_allocator_is_whole(&fa.mem));
    ll_env_init(&env, &fa.mem, NULL, false);
    void *p = ll_alloc(&env, 10);
    ck_assert_ptr_nonnull(p);
    ll_free(&env, p);
    ck_assert_uint_eq(fault_alloc_calls(&fa), 0);
    struct lladd_allocator none = {0};
    ck_assert(ll_allocator_is_whole(&none));
}
END_TEST

/* ---- time, chance, points ---- */

START_TEST(system_world)
{
    struct ll_env env;
    unsigned char a[32] = {0}, b[32] = {0};
    ll_env_init(&env, NULL, NULL, false);
    uint64_t before = ll_now_ns(&env);
    ck_assert_uint_gt(before, 0);
    ck_assert_uint_ge(ll_now_ns(&env), before);
    ck_assert_int_gt(ll_wall_us(&env), 1600000000000000); /* later than August 2020 */
    ck_assert_int_eq(ll_random(&env, a, sizeof a), 0);
    ck_assert_int_eq(ll_random(&env, b, sizeof b), 0);
    ck_assert_int_ne(memcmp(a, b, sizeof a), 0);
    ck_assert_int_eq(ll_point(&env, "no.listener"), 0);
}
END_TEST

START_TEST(callers_world)
{
    struct test_world w;
    struct ll_env env;
    unsigned char a[12], b[12];
    test_world_init(&w, 5);
    ll_env_init(&env, NULL, &w.world, false);
    uint64_t now = ll_now_ns(&env);
    int64_t wall = ll_wall_us(&env);
    test_world_advance(&w, 3000);
    ck_assert_uint_eq(ll_now_ns(&env), now + 3000);
    ck_assert_int_eq(ll_wall_us(&env), wall + 3);
    ck_assert_int_eq(ll_random(&env, a, sizeof a), 0);
    test_world_free(&w);

    test_world_init(&w, 5);
    ck_assert_int_eq(ll_random(&env, b, sizeof b), 0);
    ck_assert_int_eq(memcmp(a, b, sizeof a), 0);

    test_world_fail_at(&w, "a.point", 2, ENOSPC);
    ck_assert_int_eq(ll_point(&env, "a.point"), 0);
    ck_assert_int_eq(ll_point(&env, "another"), 0);
    ck_assert_int_eq(ll_point(&env, "a.point"), -ENOSPC);
    ck_assert_int_eq(ll_point(&env, "a.point"), 0);
    ck_assert_uint_eq(test_world_passed(&w, "a.point"), 3);
    test_world_free(&w);
}
END_TEST

#ifdef LLADD_DEBUG
static void expect_the_impossible(void *arg)
{
    LL_ASSERT(arg == NULL);
}

START_TEST(assertions_stop_debug_builds)
{
    int x;
    ck_assert(!dies_saying(expect_the_impossible, NULL, ""));
    ck_assert(dies_saying(expect_the_impossible, &x, "test_env.c"));
    ck_assert(dies_saying(expect_the_impossible, &x, "expected: arg == NULL"));
}
END_TEST
#endif

int main(void)
{
    Suite *suite = suite_create("env");
    TCase *errors = tcase_create("errors");
    tcase_add_test(errors, fail_fills_everything);
    tcase_add_test(errors, fail_with_page_and_lsn);
    tcase_add_test(errors, fail_without_a_struct);
    tcase_add_test(errors, long_messages_are_cut);
    tcase_add_test(errors, io_errors_name_file_and_cause);
    tcase_add_loop_test(errors, io_errors_have_the_right_root, 0,
                        sizeof io_codes / sizeof *io_codes);
    tcase_add_loop_test(errors, codes_belong_to_their_root, 0, CODES);
    tcase_add_test(errors, numbers_that_are_no_codes);
    tcase_add_test(errors, the_first_error_is_the_poison);
    suite_add_tcase(suite, errors);
    TCase *world = tcase_create("memory and world");
    tcase_add_test(world, system_memory);
    tcase_add_test(world, callers_memory);
    tcase_add_test(world, half_an_allocator_is_not_used);
    tcase_add_test(world, system_world);
    tcase_add_test(world, callers_world);
#ifdef LLADD_DEBUG
    tcase_add_test(world, assertions_stop_debug_builds);
#endif
    suite_add_tcase(suite, world);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
