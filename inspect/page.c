/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inspection of pages: a page's header, and the page's use.
 *
 * The allocation bitmap says whether a page must be valid: pages of a raw extent have neither
 * header nor checksum, and free pages may hold anything. A bitmap on disk may be older than the
 * log. So the bitmaps that the log changes are redone here in memory, with recovery's code. The
 * result is the state of these bitmaps in a recovery before undo.
 */
#include "inspect/inspect_private.h"

#include "io/io.h"
#include "operations/operations.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MAP_TYPE "lladd.map"
/* How often a page of a database in use is judged before it is reported as damaged. */
enum { LOOKS = 4 };

/* ---- reading -------------------------------------------------------------------------------- */

int ll_inspect_read_page(struct lladd_inspect *v, uint64_t n, unsigned char *bytes,
                         struct lladd_error *err)
{
    if (!v->page_file) {
        if (err)
            *err = v->page_error;
        return v->page_error.code;
    }
    uint32_t size = v->core.page_size;
    if (n > UINT64_MAX / size - 1)
        return ll_fail_page(err, LLADD_OUT_OF_RANGE, lladd_page_of(n), "there is no page %llu",
                            (unsigned long long)n);
    int rc = ll_io_read_full(v->core.dev, v->page_file, bytes, size, n * size);
    if (rc == -ENODATA)
        return ll_fail_page(err, LLADD_OUT_OF_RANGE, lladd_page_of(n),
                            "\"pages\" has %llu pages, there is no page %llu",
                            (unsigned long long)v->info.pages, (unsigned long long)n);
    if (!rc)
        return 0;
    char what[64];
    snprintf(what, sizeof what, "read page %llu of", (unsigned long long)n);
    rc = ll_fail_io(err, rc, false, what, "pages");
    if (err)
        err->page = lladd_page_of(n);
    return rc;
}

static const struct ll_name *type_of(const struct lladd_inspect *v, const unsigned char *bytes)
{
    uint16_t number = ll_page_type(bytes);
    const struct ll_name *n = number ? ll_op_catalog_by_number(&v->core, number) : NULL;
    return n && n->kind == LL_NAME_PAGE_TYPE ? n : NULL;
}

static int fail_header(struct lladd_inspect *v, lladd_pageno page, const unsigned char *bytes,
                       struct lladd_error *err)
{
    unsigned long long n = page.v, lsn = ll_page_lsn(bytes).v, base = ll_page_base(bytes).v;
    if (base > lsn)
        return ll_fail_page(err, LLADD_CORRUPT_PAGE, page,
                            "page %llu has base LSN %llu, which is above its page LSN %llu", n,
                            base, lsn);
    /* The log of a database in use may have grown since the view was taken. */
    if (v->known_end && lsn >= v->known_end && v->info.in_use != 1)
        return ll_fail_page(err, LLADD_LOG_LOST, page,
                            "page %llu has page LSN %llu, but the log ends at %llu", n, lsn,
                            (unsigned long long)v->known_end);
    if (ll_page_type(bytes) && !type_of(v, bytes) && v->scanned)
        return ll_fail_page(err, LLADD_CORRUPT_PAGE, page,
                            "page %llu has type %u, which is in no catalogue", n,
                            ll_page_type(bytes));
    return 0;
}

int ll_inspect_judge_page(struct lladd_inspect *v, lladd_pageno page, const unsigned char *bytes,
                          struct lladd_error *err)
{
    int rc = ll_page_verify(v->core.salt, page, bytes, v->core.page_size, "pages", err);
    if (rc || ll_page_is_zero(bytes, v->core.page_size))
        return rc;
    rc = fail_header(v, page, bytes, err);
    if (rc)
        return rc;
    const struct ll_name *n = type_of(v, bytes);
    const struct lladd_page_type *type = n ? n->desc : NULL;
    struct lladd_view view = {bytes, v->core.page_size, ll_page_type(bytes), page};
    if (type && type->check && !type->check(view))
        return ll_fail_page(
            err, LLADD_CORRUPT_PAGE, page,
            "page %llu has a good checksum, but contents that no page of type \"%s\" "
            "can have",
            (unsigned long long)page.v, n->name);
    return 0;
}

/* ---- the double-write area ------------------------------------------------------------------- */

bool ll_inspect_area_page(struct lladd_inspect *v, uint64_t n, unsigned char *bytes)
{
    struct lladd_device *dev = v->core.dev;
    uint32_t size = v->core.page_size;
    struct lladd_file *file;
    bool good = false;
    if (v->info.clean || ll_io_open(dev, "dwb", LLADD_OPEN_READ_ONLY, &file))
        return false;
    struct ll_double_write a = {.dev = dev,
                                .file = file,
                                .name = "dwb",
                                .page_size = size,
                                .salt = v->core.salt,
                                .header = ll_alloc(&v->core.env, 2 * (size_t)size)};
    if (!a.header || ll_double_write_look(&a, NULL))
        a.count = 0;
    for (uint32_t i = 0; !good && i < a.count; i++)
        good = ll_double_write_page(a.header, i).v == n &&
               ll_io_read_full(dev, file, bytes, size, (a.first + i) * (uint64_t)size) == 0 &&
               ll_page_verify(v->core.salt, lladd_page_of(n), bytes, size, "dwb", NULL) == 0;
    ll_free(&v->core.env, a.header);
    (void)ll_io_close(dev, file); /* the file was only read */
    return good;
}

/* ---- allocation bitmaps ---------------------------------------------------------------------- */

void ll_inspect_free_maps(struct lladd_inspect *v)
{
    size_t at = 0;
    uint64_t page, word;
    while (ll_hashmap_next(&v->maps, &at, &page, &word)) {
        struct ll_inspect_map *m = ll_hashmap_get_ptr(&v->maps, page);
        ll_free(&v->core.env, m->bytes);
        ll_free(&v->core.env, m);
    }
    ll_hashmap_free(&v->maps);
}

/* Reads the bitmap as redo will find it: from the file, or from the double-write area. Uses zeros
 * if both are damaged, because redo may rebuild the bitmap. */
static struct ll_inspect_map *want_map(struct lladd_inspect *v, uint64_t page)
{
    struct ll_inspect_map *m = ll_hashmap_get_ptr(&v->maps, page);
    if (m)
        return m;
    m = ll_alloc_zero(&v->core.env, sizeof *m);
    if (m)
        m->bytes = ll_alloc_zero(&v->core.env, v->core.page_size);
    if (!m || !m->bytes || ll_hashmap_put_ptr(&v->maps, page, m)) {
        if (m)
            ll_free(&v->core.env, m->bytes);
        ll_free(&v->core.env, m);
        return NULL;
    }
    int rc = ll_inspect_read_page(v, page, m->bytes, NULL);
    if (!rc)
        rc = ll_page_verify(v->core.salt, lladd_page_of(page), m->bytes, v->core.page_size, "pages",
                            NULL);
    if (rc && rc != LLADD_OUT_OF_RANGE && ll_inspect_area_page(v, page, m->bytes))
        rc = 0;
    if (rc)
        memset(m->bytes, 0, v->core.page_size);
    m->bad = rc && rc != LLADD_OUT_OF_RANGE; /* a bitmap beyond the end of the file does not exist
                                              * yet */
    return m;
}

struct redo_maps {
    struct lladd_inspect *v;
    int rc;
};

/* Redoes the records about bitmaps. A record that cannot be applied leaves its bitmap unchanged. */
static int redo_map(void *ctx, const struct ll_record *rec)
{
    struct redo_maps *r = ctx;
    struct lladd_inspect *v = r->v;
    uint32_t size = v->core.page_size;
    if (!ll_redo_index_counts(rec) ||
        ll_operations_bitmap_of(size, lladd_page_of(rec->page)).v != rec->page)
        return 0;
    struct ll_inspect_map *m = want_map(v, rec->page);
    if (!m)
        return r->rc = LLADD_NO_MEMORY;
    struct lladd_page page = {m->bytes, size, 0, lladd_page_of(rec->page)};
    int rc = ll_redo_record(&v->core, rec, &page, m->bad, lladd_lsn_of(v->core.redo_start), NULL);
    if (rc == 0)
        m->bad = false;
    return r->rc = rc == LLADD_NO_MEMORY ? rc : 0;
}

static int redo_all_maps(struct lladd_inspect *v, struct lladd_error *err)
{
    struct redo_maps r = {v, 0};
    struct lladd_error damage = LLADD_ERROR_INIT;
    if (v->maps_redone)
        return 0;
    int rc = v->log ? ll_inspect_walk(v, v->core.control.redo, redo_map, &r, &damage) : 0;
    if (r.rc || rc == LLADD_NO_MEMORY)
        return ll_fail(err, LLADD_NO_MEMORY, "out of memory");
    v->maps_redone = true; /* as far as the log is readable */
    return 0;
}

int ll_inspect_use(struct lladd_inspect *v, lladd_pageno page, enum lladd_page_use *use,
                   bool *known, struct lladd_error *err)
{
    uint32_t size = v->core.page_size;
    *use = LLADD_USE_NONE;
    *known = false;
    int rc = redo_all_maps(v, err);
    if (rc)
        return rc;
    lladd_pageno map = ll_operations_bitmap_of(size, page);
    struct ll_inspect_map *m = want_map(v, map.v);
    if (!m)
        return ll_fail(err, LLADD_NO_MEMORY, "out of memory");
    const struct ll_name *n = type_of(v, m->bytes);
    const struct lladd_page_type *type = n ? n->desc : NULL;
    struct lladd_view view = {m->bytes, size, ll_page_type(m->bytes), map};
    if (ll_page_is_zero(m->bytes, size)) {
        /* A group without a formatted bitmap has no allocated page; the first group's bitmap is
         * formatted at creation. */
        *known = map.v > 1 && !m->bad;
        return 0;
    }
    if (!type || strcmp(n->name, MAP_TYPE) != 0 || !type->check(view))
        return 0;
    *use = (enum lladd_page_use)ll_operations_use_of(view, page);
    *known = true;
    return 0;
}

/* ---- the public functions ------------------------------------------------------------------- */

/* Fills *out from v->page; `why` has the damage of the page. */
static int describe(struct lladd_inspect *v, lladd_pageno page, const struct lladd_error *why,
                    struct lladd_inspect_page *out, struct lladd_error *err)
{
    uint32_t size = v->core.page_size;
    memset(out, 0, sizeof *out);
    out->number = page;
    out->offset = page.v * size;
    out->view = (struct lladd_view){v->page, size, ll_page_type(v->page), page};
    out->zero = ll_page_is_zero(v->page, size);
    out->checksum = ll_page_checksum(v->page);
    out->computed = ll_page_crc(v->core.salt, page, v->page, size);
    out->stored_number = ll_page_number(v->page);
    out->lsn = ll_page_lsn(v->page);
    out->base = ll_page_base(v->page);
    const struct ll_name *type = type_of(v, v->page);
    out->type = type ? type->name : NULL;
    out->type_version = type ? type->version : 0;
    out->code = why->code;
    memcpy(out->message, why->message, sizeof out->message);
    return ll_inspect_use(v, page, &out->use, &out->use_known, err);
}

/* Judges again a page of a database in use that looks damaged; v->page has its bytes. The page may
 * be newer than the view, so the function takes the view again. The page may have been read while
 * it was being written, so the function reads the page again if the page looks damaged in the new
 * view, too. */
static int judge_again(struct lladd_inspect *v, lladd_pageno page, int *bad,
                       struct lladd_error *why, struct lladd_error *err)
{
    struct ll_env env = v->core.env;
    uint32_t size = v->core.page_size;
    unsigned char *seen = ll_alloc(&env, size);
    if (!seen)
        return ll_fail(err, LLADD_NO_MEMORY, "out of memory for a page");
    memcpy(seen, v->page, size);
    int rc = ll_inspect_again(v, err);
    *bad = LLADD_CORRUPT_PAGE;
    *why = (struct lladd_error)LLADD_ERROR_INIT;
    if (!rc && v->core.page_size == size) {
        memcpy(v->page, seen, size);
        *bad = ll_inspect_judge_page(v, page, v->page, why);
    }
    ll_free(&env, seen);
    if (rc || !*bad)
        return rc;
    *why = (struct lladd_error)LLADD_ERROR_INIT;
    rc = ll_inspect_read_page(v, page.v, v->page, err);
    *bad = rc ? 0 : ll_inspect_judge_page(v, page, v->page, why);
    return rc;
}

int lladd_inspect_page_read(struct lladd_inspect *v, lladd_pageno page,
                            struct lladd_inspect_page *out, struct lladd_error *err)
{
    struct lladd_error why = LLADD_ERROR_INIT;
    if (!v || !out)
        return ll_fail(err, LLADD_BAD_ARGUMENT, "view or result is NULL");
    if (!v->page)
        return ll_fail(err, LLADD_BAD_STATE,
                       "the view is invalid: an earlier call could not read it again");
    int rc = ll_inspect_read_page(v, page.v, v->page, err);
    int bad = rc ? 0 : ll_inspect_judge_page(v, page, v->page, &why);
    for (int i = 1; !rc && bad && v->info.in_use == 1 && i < LOOKS; i++)
        rc = judge_again(v, page, &bad, &why, err);
    return rc ? rc : describe(v, page, &why, out, err);
}

int lladd_inspect_page_use(struct lladd_inspect *v, lladd_pageno page, enum lladd_page_use *out,
                           bool *known, struct lladd_error *err)
{
    if (!v || !out || !known)
        return ll_fail(err, LLADD_BAD_ARGUMENT, "view or result is NULL");
    if (!v->page)
        return ll_fail(err, LLADD_BAD_STATE,
                       "the view is invalid: an earlier call could not read it again");
    if (page.v >= v->info.pages)
        return ll_fail(err, LLADD_OUT_OF_RANGE, "page %llu is beyond the end of the file",
                       (unsigned long long)page.v);
    int rc = ll_inspect_use(v, page, out, known, err);
    for (int i = 1; !rc && !*known && v->info.in_use == 1 && i < LOOKS; i++) {
        rc = ll_inspect_again(v, err);
        if (!rc)
            rc = ll_inspect_use(v, page, out, known, err);
    }
    return rc;
}

bool lladd_inspect_describe_page(struct lladd_inspect *v, const struct lladd_inspect_page *p,
                                 struct lladd_sink *sink)
{
    const struct ll_name *n = type_of(v, p->view.bytes);
    const struct lladd_page_type *type = n ? n->desc : NULL;
    /* A `describe` callback may rely on the invariants that `check` has verified, so a damaged page
     * is not described. */
    if (!type || !type->describe || p->code)
        return false;
    type->describe(type->ctx, sink, p->view);
    return true;
}
