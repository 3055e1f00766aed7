/* SPDX-License-Identifier: BSD-2-Clause */
/* A plug-in with a check of the root "ordered". The check makes the mistake that the environment
 * variable LLADD_TEST_MISTAKE names. */
#include <lladd/extension.h>
#include <lladd/inspect.h>
#include <lladd/pages.h>
#include <stdlib.h>
#include <string.h>

static bool makes(const char *mistake)
{
    const char *named = getenv("LLADD_TEST_MISTAKE");
    return named && strcmp(named, mistake) == 0;
}

static int change(struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_txn *txn;
    lladd_pageno page;
    int rc = lladd_begin(db, NULL, &txn, err);
    if (!rc)
        rc = lladd_page_alloc(txn, &page);
    return rc ? rc : lladd_commit(txn);
}

static int check(void *ctx, struct lladd_db *db, struct lladd_root_value root,
                 struct lladd_error *err)
{
    struct lladd_page *page;
    struct lladd_txn *txn;
    (void)ctx;
    if (makes("hold"))
        return lladd_page_fix(db, lladd_page_of(root.a), LLADD_LATCH_SHARED, &page, err);
    if (makes("change"))
        return change(db, err);
    if (makes("open"))
        return lladd_begin(db, NULL, &txn, err);
    if (makes("number"))
        return -7;
    if (makes("silent"))
        return LLADD_CORRUPT_PAGE;
    if (makes("memory"))
        return lladd_error_set(err, LLADD_NO_MEMORY, "no memory for the check");
    if (makes("config"))
        return lladd_error_set(err, LLADD_BAD_CONFIG, "its layers are not known");
    return 0;
}

static int pages(void *ctx, struct lladd_db *db, struct lladd_root_value root,
                 int (*fn)(void *, lladd_pageno), void *arg, struct lladd_error *err)
{
    int rc = fn(arg, lladd_page_of(root.a));
    (void)ctx;
    if (makes("beyond"))
        rc = fn(arg, lladd_page_of(lladd_page_count(db) + 5));
    if (makes("twice"))
        rc = fn(arg, lladd_page_of(root.a));
    if (makes("config"))
        rc = lladd_error_set(err, LLADD_BAD_CONFIG, "its layers are not known");
    if (makes("listing"))
        rc = lladd_error_set(err, LLADD_CORRUPT_PAGE, "its list is broken");
    return rc;
}

static const struct lladd_structure with_pages = {.struct_size = sizeof with_pages,
                                                  .name = "test.bad",
                                                  .version = 1,
                                                  .root = "ordered",
                                                  .check = check,
                                                  .pages = pages};
static const struct lladd_structure without = {.struct_size = sizeof without,
                                               .name = "test.bad",
                                               .version = 1,
                                               .root = "ordered",
                                               .check = check};
static const struct lladd_structure *structures[2];
static const struct lladd_extension extension = {.struct_size = sizeof extension,
                                                 .name = "test.bad",
                                                 .version = 1,
                                                 .structures = structures};

LLADD_API const struct lladd_extension *const *lladd_plugin(void);

const struct lladd_extension *const *lladd_plugin(void)
{
    static const struct lladd_extension *const all[] = {&extension, NULL};
    structures[0] = makes("unlisted") ? &without : &with_pages;
    return all;
}
