/* SPDX-License-Identifier: BSD-2-Clause */
/* Structures that extensions register for tools. A structure claims a root by the root's name, by
 * the type of the root's page, or by both. The tests show which structure `lladd_structure_find`
 * returns for a root, and which structures a registration refuses. tools/test_extensions.py tests
 * how `lladd verify` uses the structures. */
#include "db_fixture.h"

#include <lladd/inspect.h>
#include <lladd/records.h>

static struct fixture r;

static int no_check(void *ctx, struct lladd_db *db, struct lladd_root_value root,
                    struct lladd_error *err)
{
    (void)ctx;
    (void)db;
    (void)root;
    return lladd_error_set(err, LLADD_CORRUPT_PAGE, "not called here");
}

static const struct lladd_structure by_name = {.struct_size = sizeof by_name,
                                               .name = "test.by_name",
                                               .version = 1,
                                               .root = "one",
                                               .check = no_check};
static const struct lladd_structure by_type = {.struct_size = sizeof by_type,
                                               .name = "test.by_type",
                                               .version = 1,
                                               .page_type = "lladd.bytes",
                                               .check = no_check};
static const struct lladd_structure by_both = {.struct_size = sizeof by_both,
                                               .name = "test.by_both",
                                               .version = 1,
                                               .page_type = "lladd.bytes",
                                               .root = "two",
                                               .check = no_check};
static const struct lladd_structure *const three[] = {&by_both, &by_name, &by_type, NULL};
static const struct lladd_extension structured = {
    .struct_size = sizeof structured, .name = "test.structured", .version = 1, .structures = three};

static const char *found(const char *root, uint64_t number)
{
    const struct lladd_structure *s = &by_name;
    ok_db(&r, lladd_structure_find(r.db, root, (struct lladd_root_value){number, 0}, &s, &r.err));
    return s ? s->name : "none";
}

START_TEST(a_structure_is_found_by_its_root)
{
    struct lladd_txn *txn;
    lladd_pageno bytes, plain;
    fixture_init(&r, (unsigned)_i);
    ok_db(&r, lladd_register_extension(&r.options, &structured, &r.err));
    fixture_open(&r);
    ok_db(&r, lladd_begin(r.db, NULL, &txn, &r.err));
    ok(txn, lladd_page_alloc(txn, &bytes));
    ok(txn, lladd_bytes_format(txn, bytes));
    ok(txn, lladd_page_alloc(txn, &plain));
    ok(txn, lladd_commit(txn));
    ck_assert_str_eq(found("one", bytes.v), "test.by_name");
    ck_assert_str_eq(found("one", UINT64_MAX), "test.by_name"); /* any value */
    ck_assert_str_eq(found("two", bytes.v), "test.by_both");    /* `by_type` claims this root, too,
                                                                 * but `by_both` comes first in the
                                                                 * list */
    ck_assert_str_eq(found("two", plain.v), "none");
    ck_assert_str_eq(found("three", bytes.v), "test.by_type");
    ck_assert_str_eq(found("three", plain.v + 1), "none"); /* the page is not allocated */
    ck_assert_str_eq(found("three", UINT64_MAX), "none");
    const struct lladd_structure *s;
    ck_assert_int_eq(lladd_structure_find(r.db, NULL, (struct lladd_root_value){0, 0}, &s, &r.err),
                     LLADD_BAD_ARGUMENT);
    fixture_free(&r);
}
END_TEST

/* Registers an extension with the structures *s and *next. The extension states `size` as its
 * struct_size. */
static int register_with(const struct lladd_structure *s, const struct lladd_structure *next,
                         size_t size)
{
    const struct lladd_structure *const list[] = {s, next, NULL};
    struct lladd_options o = LLADD_OPTIONS_INIT;
    const struct lladd_extension e = {
        .struct_size = size, .name = "test.tried", .version = 1, .structures = list};
    int rc = lladd_register_extension(&o, &e, &r.err);
    lladd_options_release(&o);
    return rc;
}

START_TEST(wrong_structures_are_refused)
{
    size_t size = sizeof(struct lladd_extension);
    struct lladd_structure s = by_name;
    s.check = NULL;
    ck_assert_int_eq(register_with(&s, NULL, size), LLADD_BAD_REGISTRATION);
    ck_contains(r.err.message, "structure \"test.by_name\": check is missing");
    /* A program that was compiled with an older header passes an extension that ends before the
     * member `structures`. Then the library must not read this member. */
    ck_assert_int_eq(register_with(&s, NULL, offsetof(struct lladd_extension, structures)), 0);
    ck_assert_int_eq(register_with(&s, NULL, offsetof(struct lladd_extension, structures) - 1),
                     LLADD_BAD_REGISTRATION);
    s = by_name;
    s.root = NULL;
    ck_assert_int_eq(register_with(&s, NULL, size), LLADD_BAD_REGISTRATION);
    ck_contains(r.err.message, "neither page_type nor root is given");
    s = by_name;
    s.name = "Not a name";
    ck_assert_int_eq(register_with(&s, NULL, size), LLADD_BAD_REGISTRATION);
    s = by_name;
    s.version = 0;
    ck_assert_int_eq(register_with(&s, NULL, size), LLADD_BAD_REGISTRATION);
    s = by_name;
    s.struct_size = 0;
    ck_assert_int_eq(register_with(&s, NULL, size), LLADD_BAD_REGISTRATION);
    ck_contains(r.err.message, "structure: struct_size is missing");
    ck_assert_int_eq(register_with(&by_type, &by_type, size), LLADD_BAD_REGISTRATION);
    ck_contains(r.err.message, "structure \"test.by_type\" version 1 is there twice");
    ck_assert_int_eq(register_with(&by_type, &by_name, size), 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("structures");
    TCase *tc = tcase_create("all");
    tcase_add_loop_test(tc, a_structure_is_found_by_its_root, 0, FIXTURE_KINDS);
    tcase_add_test(tc, wrong_structures_are_refused);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
