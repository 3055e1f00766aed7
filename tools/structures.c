/* SPDX-License-Identifier: BSD-2-Clause */
/* For lladd verify: checks every structure that a root points to, and that every allocated page has
 * an owner. Works on a database recovered in memory (peek.c). */
#include "tool.h"

#include "util/held.h"
#include "util/vec.h"

#include <inttypes.h>
#include <lladd/bytes.h>
#include <lladd/dtable_managed.h>
#include <lladd/extension.h>
#include <lladd/stats.h>
#include <stdlib.h>
#include <string.h>

#define RANGES_SHOWN 8u

struct root {
    char name[LLADD_MANAGED_NAME_MAX + 1]; /* name of the root or of a managed table */
    uint64_t page, second; /* the two words of the root's value */
};

struct walk {
    struct tool *tool;
    struct lladd_db *db;
    lladd_finding_fn *found;
    void *ctx;
    struct tool_structures *out;
    struct lladd_error *err;
    struct ll_vec roots;  /* struct root */
    unsigned char *owned; /* one bit per page */
    uint64_t pages, found_pages;
    const struct root *at;        /* the root of the current structure */
    const struct tool_kind *kind; /* the kind of the current structure */
    int stopped;                  /* the result of `own`, if it was not 0 */
};

/* ---- reporting ------------------------------------------------------------------------------ */

static int report(struct walk *w, int kind, int code, uint64_t page, const char *message)
{
    struct lladd_finding f = {.kind = (enum lladd_finding_kind)kind,
                              .code = code,
                              .file = "pages",
                              .offset = UINT64_MAX,
                              .page = lladd_page_of(page),
                              .message = message};
    if (kind == LLADD_FINDING_DAMAGE)
        w->out->damage++;
    return w->found(w->ctx, &f);
}

/* Reports an error in the current structure. Two kinds of errors are not damage. If a resource ran
 * out, the whole check ends with this error. If the structure needs the application's class or
 * comparator, or a transaction in doubt has locked it, the structure is noted as not checked. (The
 * program has one thread, so only a transaction in doubt can hold a lock.) */
static int broken(struct walk *w, const struct lladd_error *err)
{
    char text[600];
    if (tool_ran_out(err->code)) {
        *w->err = *err;
        return err->code;
    }
    bool unknown = err->code == LLADD_BAD_CONFIG || err->code == LLADD_NO_COMPARATOR ||
                   err->code == LLADD_OTHER_ORDER ||
                   lladd_code_root(err->code) == LLADD_ROOT_RETRY;
    snprintf(text, sizeof text, "%s \"%s\"%s: %s", w->kind->name, w->at->name,
             unknown ? " cannot be checked here" : "", err->message);
    w->out->unchecked += unknown;
    return report(w, unknown ? LLADD_FINDING_NOTE : LLADD_FINDING_DAMAGE, err->code,
                  err->page.v == LLADD_NO_PAGE ? w->at->page : err->page.v, text);
}

bool tool_ran_out(int code)
{
    enum lladd_root root = lladd_code_root(code);
    return root == LLADD_ROOT_RESOURCE ||
           (root == LLADD_ROOT_POISONED && code != LLADD_UNDO_FAILED);
}

static int broken_page(struct walk *w, uint64_t page, const char *what)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    err.page = lladd_page_of(page);
    lladd_error_set(&err, LLADD_CORRUPT_PAGE, "page %" PRIu64 " %s", page, what);
    return broken(w, &err);
}

/* ---- owners --------------------------------------------------------------------------------- */

static bool is_owned(const struct walk *w, uint64_t page)
{
    return w->owned[page / 8] >> (page % 8) & 1;
}

static void set_owned(struct walk *w, uint64_t page)
{
    w->owned[page / 8] = (unsigned char)(w->owned[page / 8] | 1u << (page % 8));
}

/* Called after a page of the current structure was found: shows the progress. */
static void tell_page(struct walk *w)
{
    enum { TELL_EVERY = 0x400 };
    if (++w->found_pages % TELL_EVERY == 0)
        tool_progress(w->tool, "pages of structures", w->found_pages, w->pages);
}

static int own_page(struct walk *w, lladd_pageno page)
{
    enum lladd_page_use use;
    tell_page(w);
    if (page.v >= w->pages)
        return broken_page(w, page.v, "belongs to it, but is beyond the end of the page file");
    int rc = lladd_page_use_get(w->db, page, &use, w->err);
    if (rc)
        return rc;
    if (use != LLADD_USE_PAGED && use != LLADD_USE_RAW)
        return broken_page(w, page.v, "belongs to it, but is not allocated");
    if (is_owned(w, page.v))
        return broken_page(w, page.v, "belongs to it and to something else");
    set_owned(w, page.v);
    return 0;
}

/* Marks a page as owned. Also stores a result other than 0 in w->stopped, because an extension's
 * function may return another value. */
static int own(void *ctx, lladd_pageno page)
{
    struct walk *w = ctx;
    int rc = w->stopped ? w->stopped : own_page(w, page);
    w->stopped = rc;
    return rc;
}

/* Marks the pages of the catalogue of roots: a chain that begins with the root page. */
static int own_catalogue(struct walk *w)
{
    struct lladd_page *p;
    for (uint64_t page = 0, n = 0; n == 0 || (page && page < w->pages && n < w->pages); n++) {
        int rc = lladd_page_fix(w->db, lladd_page_of(page), LLADD_LATCH_SHARED, &p, w->err);
        if (rc)
            return rc;
        set_owned(w, page);
        page = lladd_get64(lladd_view_body(lladd_page_view(p)));
        lladd_page_unfix(w->db, p, LLADD_LATCH_SHARED);
    }
    return 0;
}

/* ---- roots ---------------------------------------------------------------------------------- */

static int gather(void *ctx, const char *name, struct lladd_root_value value)
{
    struct root *r = ll_vec_push(ctx);
    if (!r)
        return LLADD_NO_MEMORY;
    snprintf(r->name, sizeof r->name, "%s", name);
    r->page = value.a;
    r->second = value.b;
    return 0;
}

/* The root of the catalogue of managed dTables; lladd_managed_pages lists the pages of the
 * catalogue together with the pages of the runs. */
#define MANAGED "managed"

/* Notes a root as not checked if it points to an allocated page of an unknown type, or to a page
 * that cannot be read. A value that is not the number of an allocated page may be any number of the
 * application. */
static int not_checked(struct walk *w)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    enum lladd_page_use use = LLADD_USE_NONE;
    char text[400];
    int rc = w->at->page < w->pages
                 ? lladd_page_use_get(w->db, lladd_page_of(w->at->page), &use, &err)
                 : 0;
    if (lladd_code_root(rc) == LLADD_ROOT_RESOURCE) {
        *w->err = err;
        return rc;
    }
    if (rc || (use != LLADD_USE_PAGED && use != LLADD_USE_RAW))
        return 0; /* another check reports an unreadable bitmap */
    w->out->unchecked++;
    snprintf(text, sizeof text,
             "root \"%s\" does not lead to one of the library's structures: "
             "it was not checked",
             w->at->name);
    return report(w, LLADD_FINDING_NOTE, 0, w->at->page, text);
}

static void tell_root(struct walk *w, size_t i)
{
    char text[64];
    snprintf(text, sizeof text, "%s %.40s", w->kind->name, w->at->name);
    tool_progress(w->tool, text, i, w->roots.len);
}

/* ---- structures of extensions ---------------------------------------------------------------- */

static const struct tool_kind nothing = {.name = "root"};

static int count_extended(struct walk *w, const char *name)
{
    struct tool_structures *out = w->out;
    if (!out->extended && !(out->extended = json_object()))
        return LLADD_NO_MEMORY;
    json_int_t n = json_integer_value(json_object_get(out->extended, name));
    return json_object_set_new(out->extended, name, json_integer(n + 1)) ? LLADD_NO_MEMORY : 0;
}

/* Checks that the extension's callback has only read. If it has written, its results and all later
 * findings are unreliable. */
static int has_read_only(struct walk *w, const char *call, const struct lladd_stats *before)
{
    struct lladd_stats now = {.struct_size = sizeof now};
    bool held = ll_held_pages(w->db);
    int rc = held ? 0 : lladd_stats_get(w->db, &now); /* lladd_stats_get would wait for latches that
                                                       * the callback still holds */
    if (rc)
        return lladd_error_set(w->err, rc, "the statistics cannot be read");
    const char *fault = held                                ? "holds a page when it returns"
                        : now.log_tail != before->log_tail ? "has changed the database"
                        : now.active != before->active     ? "has left a transaction open"
                                                           : NULL;
    return fault ? lladd_error_set(w->err, LLADD_BAD_STATE, "%s of \"%s\", for root \"%s\", %s",
                                   call, w->kind->name, w->at->name, fault)
                 : 0;
}

/* Called if a callback has returned an error rc; the callback may not have set *err. */
static int failed(struct walk *w, const char *call, int rc, struct lladd_error *err)
{
    if (lladd_code_root(rc) == LLADD_ROOT_NONE)
        lladd_error_set(err, LLADD_CORRUPT_PAGE, "%s has returned %d", call, rc);
    else if (err->code != rc)
        lladd_error_set(err, rc, "%s: %s", call, lladd_code_text(rc));
    return broken(w, err);
}

static uint64_t said_of(const struct walk *w)
{
    return w->out->damage + w->out->unchecked;
}

/* Marks the pages of the structure as owned. If the pages cannot be listed, reports the error,
 * unless a finding about the structure was already reported. */
static int list_extended(struct walk *w, const struct lladd_structure *s,
                         struct lladd_root_value value, const struct lladd_stats *before,
                         uint64_t said)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    if (!s->pages) {
        w->out->unlisted = true;
        return 0;
    }
    w->stopped = 0;
    int rc = s->pages(s->ctx, w->db, value, own, w, &err);
    int misuse = has_read_only(w, "pages", before);
    if (misuse || w->stopped)
        return misuse ? misuse : w->stopped;
    if (!rc)
        return 0;
    w->out->unlisted = true;
    return said_of(w) > said ? 0 : failed(w, "pages", rc, &err);
}

static int check_extended(struct walk *w, const struct lladd_structure *s)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_root_value value = {w->at->page, w->at->second};
    struct lladd_stats before = {.struct_size = sizeof before};
    const struct tool_kind kind = {.name = s->name};
    uint64_t said_before = said_of(w);
    w->kind = &kind;
    int rc = count_extended(w, s->name);
    if (!rc)
        rc = lladd_stats_get(w->db, &before);
    if (!rc) {
        int said = s->check(s->ctx, w->db, value, &err);
        rc = has_read_only(w, "check", &before);
        if (!rc && said)
            rc = failed(w, "check", said, &err);
    }
    if (!rc)
        rc = list_extended(w, s, value, &before, said_before);
    w->kind = &nothing;
    return rc;
}

/* ---- every root ----------------------------------------------------------------------------- */

/* Does root i point to a structure that was already checked under another name? */
static bool is_alias(const struct walk *w, size_t i, const struct lladd_structure *s)
{
    for (size_t k = 0; k < i; k++) {
        const struct root *r = ll_vec_at((struct ll_vec *)(uintptr_t)&w->roots, k);
        if (r->page == w->at->page && (!s || r->second == w->at->second))
            return true;
    }
    return false;
}

/* Checks the structure of a root. Also lists the pages of a damaged structure, because these pages
 * have an owner. */
static int check_root(struct walk *w, size_t i)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    const struct lladd_structure *s = NULL;
    w->at = ll_vec_at(&w->roots, i);
    struct lladd_root_value value = {w->at->page, w->at->second};
    int rc = lladd_structure_find(w->db, w->at->name, value, &s, &err);
    if (is_alias(w, i, s))
        return 0;
    if (!rc && s)
        return check_extended(w, s);
    err = (struct lladd_error)LLADD_ERROR_INIT;
    rc = tool_kind_of(w->db, w->at->page, &w->kind, &err);
    if (rc || !w->kind) {
        w->out->others++;
        *w->err = err;
        return lladd_code_root(rc) == LLADD_ROOT_RESOURCE ? rc : not_checked(w);
    }
    w->out->checked[w->kind->id]++;
    tell_root(w, i);
    rc = w->kind->check(w->db, lladd_page_of(w->at->page), &err);
    if (rc && (rc = broken(w, &err)) != 0)
        return rc;
    if (strcmp(w->at->name, MANAGED) == 0 && w->kind->id == TOOL_HASH)
        return 0;
    uint64_t damage = w->out->damage;
    err = (struct lladd_error)LLADD_ERROR_INIT;
    rc = w->kind->pages(w->db, lladd_page_of(w->at->page), own, w, &err);
    if (!rc || !err.code || w->out->damage > damage)
        return rc;
    w->out->unlisted = true;
    return broken(w, &err);
}

/* ---- managed dTables ------------------------------------------------------------------------ */

static const struct tool_kind managed_kind = {.name = "managed dTable"};

/* Checks every sorted run of the open table. */
static int check_runs(struct walk *w, struct lladd_managed *table)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_managed_stats s = {.struct_size = sizeof s};
    struct lladd_managed_run *runs = NULL;
    int rc = lladd_managed_stats_get(table, &s, NULL, 0, w->err);
    if (!rc && s.runs && !(runs = calloc((size_t)s.runs, sizeof *runs)))
        rc = LLADD_NO_MEMORY;
    if (!rc && s.runs)
        rc = lladd_managed_stats_get(table, &s, runs, (size_t)s.runs, w->err);
    for (uint64_t i = 0; !rc && i < s.runs; i++) {
        struct lladd_dtable *t;
        w->out->checked[TOOL_RUN]++;
        rc = lladd_dtable_run_open(w->db, runs[i].root, &t, &err);
        if (!rc) {
            rc = lladd_dtable_run_check(t, &err);
            lladd_dtable_close(t);
        }
        if (rc)
            rc = broken(w, &err);
    }
    free(runs);
    return rc;
}

static int check_managed(void *ctx, const char *name)
{
    struct walk *w = ctx;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_managed *table;
    struct root root = {.page = 0};
    snprintf(root.name, sizeof root.name, "%s", name);
    w->at = &root;
    int rc = lladd_managed_open(w->db, name, &table, &err);
    if (rc)
        return broken(w, &err);
    rc = check_runs(w, table);
    /* If a transaction in doubt has written to the table, the table cannot be closed; closing the
     * database frees it. */
    struct lladd_error busy = LLADD_ERROR_INIT;
    int closed = lladd_managed_close(table, &busy);
    if (rc || closed == 0 || closed == LLADD_BUSY)
        return rc;
    *w->err = busy;
    return closed;
}

/* Checks all managed dTables, and lists their pages. */
static int check_all_managed(struct walk *w)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct root root = {.name = MANAGED};
    w->kind = &managed_kind;
    int rc = lladd_managed_each(w->db, check_managed, w, &err);
    w->at = &root;
    uint64_t damage = w->out->damage;
    if (!rc)
        rc = lladd_managed_pages(w->db, own, w, &err);
    if (!rc || !err.code || w->out->damage > damage)
        return rc;
    w->out->unlisted = true;
    return broken(w, &err);
}

/* ---- regions -------------------------------------------------------------------------------- */

static const struct tool_kind region_kind = {.name = "region"};

static int own_region(void *ctx, const struct lladd_region *r)
{
    int rc = 0;
    for (uint64_t i = 0; i < r->pages && !rc; i++)
        rc = own(ctx, lladd_page_of(r->first.v + i));
    return rc;
}

/* The catalogue of regions is a hash table with a named root, and is checked as such; this function
 * handles the pages of the regions. */
static int check_regions(struct walk *w)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct root root = {.name = LLADD_REGIONS_ROOT};
    w->kind = &region_kind;
    w->at = &root;
    uint64_t damage = w->out->damage;
    int rc = lladd_region_each(w->db, own_region, w, &err);
    if (!rc || !err.code || w->out->damage > damage)
        return rc;
    w->out->unlisted = true;
    return broken(w, &err);
}

/* ---- pages without an owner ----------------------------------------------------------------- */

struct ranges {
    char text[256];
    size_t len;
    uint64_t n;
};

static void add_range(struct ranges *r, uint64_t first, uint64_t last)
{
    int n = 0;
    if (++r->n > RANGES_SHOWN)
        n = r->n == RANGES_SHOWN + 1 ? snprintf(r->text + r->len, sizeof r->text - r->len, ", ...")
                                     : 0;
    else if (first == last)
        n = snprintf(r->text + r->len, sizeof r->text - r->len, "%s%" PRIu64, r->n > 1 ? ", " : "",
                     first);
    else
        n = snprintf(r->text + r->len, sizeof r->text - r->len, "%s%" PRIu64 " to %" PRIu64,
                     r->n > 1 ? ", " : "", first, last);
    r->len += n > 0 && (size_t)n < sizeof r->text - r->len ? (size_t)n : 0;
}

static int is_lost(const struct walk *w, uint64_t page, bool *out)
{
    enum lladd_page_use use;
    int rc = lladd_page_use_get(w->db, lladd_page_of(page), &use, w->err);
    *out = !rc && (use == LLADD_USE_PAGED || use == LLADD_USE_RAW) && !is_owned(w, page);
    return rc;
}

static int look_for_lost(struct walk *w, struct ranges *r, uint64_t *first)
{
    uint64_t begin = 0;
    bool inside = false;
    for (uint64_t page = 0; page <= w->pages; page++) {
        bool lost = false;
        int rc = page < w->pages ? is_lost(w, page, &lost) : 0;
        if (rc)
            return rc;
        if (lost && !inside)
            begin = page;
        if (!lost && inside)
            add_range(r, begin, page - 1);
        if (lost && w->out->unowned++ == 0)
            *first = page;
        inside = lost;
    }
    return 0;
}

/* Reports allocated pages without an owner. They are certainly leaks only if neither an
 * application's own structure nor a transaction in doubt can own them. */
static int judge(struct walk *w)
{
    struct lladd_stats s = {.struct_size = sizeof s};
    struct ranges r = {{0}, 0, 0};
    char text[400];
    uint64_t first = 0, known = 0;
    int rc = look_for_lost(w, &r, &first);
    if (!rc)
        rc = lladd_stats_get(w->db, &s);
    for (int i = 0; i < TOOL_KINDS; i++)
        known += w->out->checked[i];
    known += json_object_size(w->out->extended);
    if (rc || !w->out->unowned || !known || w->out->others || w->out->unlisted || s.in_doubt)
        return rc;
    w->out->leaked = w->out->unowned;
    snprintf(text, sizeof text,
             "%" PRIu64
             " allocated page%s (%s): every root leads to a structure, but none contains %s",
             w->out->unowned, w->out->unowned == 1 ? "" : "s", r.text,
             w->out->unowned == 1 ? "it" : "them");
    return report(w, TOOL_LEAK, 0, first, text);
}

int tool_structures_check(struct tool *t, struct lladd_db *db, lladd_finding_fn *found, void *ctx,
                          struct tool_structures *out, struct lladd_error *err)
{
    struct walk w = {.tool = t, .db = db, .found = found, .ctx = ctx, .out = out, .err = err};
    struct ll_env env;
    ll_env_init(&env, NULL, NULL, false);
    ll_vec_init(&w.roots, &env, sizeof(struct root));
    w.pages = lladd_page_count(db);
    w.owned = calloc((size_t)(w.pages / 8 + 1), 1);
    int rc = w.owned ? own_catalogue(&w) : LLADD_NO_MEMORY;
    if (!rc)
        rc = lladd_root_each(db, gather, &w.roots, err);
    for (size_t i = 0; i < w.roots.len && !rc; i++)
        rc = check_root(&w, i);
    if (!rc)
        rc = check_all_managed(&w);
    if (!rc)
        rc = check_regions(&w);
    if (!rc)
        rc = judge(&w);
    if (rc == LLADD_NO_MEMORY && err->code != rc)
        lladd_error_set(err, rc, "out of memory to check the structures");
    free(w.owned);
    ll_vec_free(&w.roots);
    return rc;
}
