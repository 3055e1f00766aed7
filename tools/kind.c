/* SPDX-License-Identifier: BSD-2-Clause */
/* The kinds of structures that the tools know: how to recognize a structure by its root page, check
 * it, and list its pages. */
#include "tool.h"

#include <lladd/array.h>
#include <lladd/blob.h>
#include <lladd/btree.h>
#include <lladd/dtable.h>
#include <lladd/extension.h>
#include <lladd/hash.h>
#include <lladd/list.h>
#include <string.h>

static int array_check(struct lladd_db *db, lladd_pageno root, struct lladd_error *err)
{
    struct lladd_array *a;
    int rc = lladd_array_open(db, root, &a, err);
    if (rc)
        return rc;
    rc = lladd_array_check(a, err);
    lladd_array_close(a);
    return rc;
}

static int array_pages(struct lladd_db *db, lladd_pageno root, tool_page_fn *fn, void *ctx,
                       struct lladd_error *err)
{
    struct lladd_array *a;
    int rc = lladd_array_open(db, root, &a, err);
    if (rc)
        return rc;
    rc = lladd_array_pages(a, fn, ctx, err);
    lladd_array_close(a);
    return rc;
}

static int list_check(struct lladd_db *db, lladd_pageno root, struct lladd_error *err)
{
    struct lladd_list *l;
    int rc = lladd_list_open(db, root, &l, err);
    if (rc)
        return rc;
    rc = lladd_list_check(l, err);
    lladd_list_close(l);
    return rc;
}

static int list_pages(struct lladd_db *db, lladd_pageno root, tool_page_fn *fn, void *ctx,
                      struct lladd_error *err)
{
    struct lladd_list *l;
    int rc = lladd_list_open(db, root, &l, err);
    if (rc)
        return rc;
    rc = lladd_list_pages(l, fn, ctx, err);
    lladd_list_close(l);
    return rc;
}

static int any_page(void *ctx, lladd_pageno page)
{
    (void)ctx;
    (void)page;
    return 0;
}

/* If the table is partly destroyed, checks that its remaining pages can be found. */
static int hash_check(struct lladd_db *db, lladd_pageno root, struct lladd_error *err)
{
    struct lladd_hash *h;
    int rc = lladd_hash_open(db, root, 0, &h, err);
    if (rc == LLADD_DESTROYED)
        return lladd_hash_destroy_pages(db, root, any_page, NULL, err);
    if (rc)
        return rc;
    rc = lladd_hash_check(h, err);
    lladd_hash_close(h);
    return rc;
}

static int hash_pages(struct lladd_db *db, lladd_pageno root, tool_page_fn *fn, void *ctx,
                      struct lladd_error *err)
{
    struct lladd_hash *h;
    int rc = lladd_hash_open(db, root, 0, &h, err);
    if (rc == LLADD_DESTROYED)
        return lladd_hash_destroy_pages(db, root, fn, ctx, err);
    if (rc)
        return rc;
    rc = lladd_hash_pages(h, fn, ctx, err);
    lladd_hash_close(h);
    return rc;
}

static int btree_check(struct lladd_db *db, lladd_pageno root, struct lladd_error *err)
{
    struct lladd_btree *t;
    int rc = lladd_btree_open(db, root, &t, err);
    if (rc)
        return rc;
    rc = lladd_btree_check(t, err);
    lladd_btree_close(t);
    return rc;
}

static int btree_pages(struct lladd_db *db, lladd_pageno root, tool_page_fn *fn, void *ctx,
                       struct lladd_error *err)
{
    struct lladd_btree *t;
    int rc = lladd_btree_open(db, root, &t, err);
    if (rc)
        return rc;
    rc = lladd_btree_pages(t, fn, ctx, err);
    lladd_btree_close(t);
    return rc;
}

static int run_check(struct lladd_db *db, lladd_pageno root, struct lladd_error *err)
{
    struct lladd_dtable *t;
    int rc = lladd_dtable_run_open(db, root, &t, err);
    if (rc)
        return rc;
    rc = lladd_dtable_run_check(t, err);
    lladd_dtable_close(t);
    return rc;
}

static const struct tool_kind kinds[] = {
    {TOOL_ARRAY, "array", "lladd.array", array_check, array_pages, lladd_array_destroy},
    {TOOL_LIST, "list", "lladd.list", list_check, list_pages, lladd_list_destroy},
    {TOOL_BLOB, "blob", "lladd.blob", lladd_blob_check, lladd_blob_pages, lladd_blob_destroy},
    {TOOL_HASH, "hash", "lladd.hash", hash_check, hash_pages, lladd_hash_destroy},
    {TOOL_BTREE, "btree", "lladd.btree", btree_check, btree_pages, lladd_btree_destroy},
};

/* A sorted run is stored in a blob; the root page of the run is the root page of the blob. */
static const struct tool_kind run_kind = {
    TOOL_RUN, "run", "lladd.blob", run_check, lladd_dtable_run_pages, lladd_dtable_run_free};

const struct tool_kind *tool_kind_named(const char *name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    return NULL;
}

/* A root's first word may be any number. The word identifies a structure only if it is the number
 * of an allocated page of the right type. */
int tool_kind_of(struct lladd_db *db, uint64_t page, const struct tool_kind **out,
                 struct lladd_error *err)
{
    enum lladd_page_use use;
    struct lladd_page *p;
    *out = NULL;
    if (page >= lladd_page_count(db))
        return 0;
    int rc = lladd_page_use_get(db, lladd_page_of(page), &use, err);
    if (rc || use != LLADD_USE_PAGED)
        return rc;
    rc = lladd_page_fix(db, lladd_page_of(page), LLADD_LATCH_SHARED, &p, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (lladd_page_is(db, lladd_page_view(p), kinds[i].page_type))
            *out = &kinds[i];
    lladd_page_unfix(db, p, LLADD_LATCH_SHARED);
    if (!*out || (*out)->id != TOOL_BLOB)
        return 0;
    bool is_run = false;
    struct lladd_error broken = LLADD_ERROR_INIT; /* after an error the run is treated as a damaged
                                                   * blob */
    rc = lladd_dtable_run_there(db, lladd_page_of(page), &is_run, &broken);
    if (lladd_code_root(rc) == LLADD_ROOT_RESOURCE) {
        *err = broken;
        return rc;
    }
    if (is_run)
        *out = &run_kind;
    return 0;
}
