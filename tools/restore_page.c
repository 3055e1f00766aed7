/* SPDX-License-Identifier: BSD-2-Clause */
/* lladd restore --page: restores one page of a database that no process has open, or shows one page
 * of a past state.
 *
 * In the database, the page becomes what it was after its newest change, because an older state of
 * one page would not fit the other pages. */
#include "tool.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <lladd/bulk.h>
#include <lladd/bytes.h>
#include <lladd/extension.h>
#include <lladd/pages.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAGE_LSN = 8 };

struct job {
    struct tool *tool;
    lladd_pageno page;
    enum lladd_page_use use;
    lladd_lsn before, after; /* page LSNs in the file; 0: raw, or damaged */
    bool damaged, changed;
    struct tool_archived a;
};

static int find_use(struct job *j, struct lladd_db *db, struct lladd_error *err)
{
    int rc = lladd_page_use_get(db, j->page, &j->use, err);
    if (!rc && (j->use == LLADD_USE_NONE || j->use == LLADD_USE_FREED))
        rc = lladd_error_set(err, LLADD_OUT_OF_RANGE, "page %" PRIu64 " is not in use", j->page.v);
    return rc;
}

/* ---- into the database ---------------------------------------------------------------------- */

/* Reads the state of the page in the page file. */
static int look(struct job *j, struct lladd_error *err)
{
    struct lladd_inspect *view;
    struct lladd_inspect_page page;
    struct lladd_options o = tool_inspect_options(j->tool);
    int rc = lladd_inspect_open(j->tool->dir, &o, &view, err);
    if (rc)
        return rc;
    rc = lladd_inspect_page_read(view, j->page, &page, err);
    j->damaged = !rc && page.code != 0;
    j->before.v = rc || page.code || page.use == LLADD_USE_RAW ? 0 : page.lsn.v;
    lladd_inspect_close(view);
    return rc;
}

static int rebuild(struct job *j, struct lladd_error *err)
{
    struct lladd_page *page;
    int rc = lladd_page_rebuild(j->a.db, j->page, err);
    if (!rc)
        rc = lladd_page_fix(j->a.db, j->page, LLADD_LATCH_SHARED, &page, err);
    if (rc)
        return rc;
    j->after.v = lladd_get64(lladd_page_view(page).bytes + PAGE_LSN);
    lladd_page_unfix(j->a.db, page, LLADD_LATCH_SHARED);
    j->changed = j->damaged || j->after.v != j->before.v;
    return 0;
}

struct raw {
    lladd_pageno page;
    void *bytes;
    struct lladd_error *err;
};

/* Writes the page in bulk, as the lost write did. */
static int write_raw(void *ctx, struct lladd_txn *txn)
{
    const struct raw *raw = ctx;
    int rc = lladd_bulk_write(txn, raw->page, 1, NULL, raw->bytes);
    if (!rc)
        rc = lladd_bulk_sync(txn);
    if (rc)
        *raw->err = *lladd_txn_error(txn);
    return rc;
}

static int restore_raw(struct job *j, struct lladd_error *err)
{
    size_t size = lladd_page_size(j->a.db);
    unsigned char *bytes = malloc(2 * size);
    int rc = bytes ? lladd_page_from_archive(j->a.archive, j->page, bytes, err)
                   : lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for a page");
    if (!rc)
        rc = lladd_bulk_read(j->a.db, j->page, 1, true, bytes + size, err);
    j->changed = !rc && memcmp(bytes, bytes + size, size) != 0;
    if (j->changed)
        rc = tool_change(j->a.db, write_raw, &(struct raw){j->page, bytes, err}, err);
    free(bytes);
    return rc;
}

static void print(const struct job *j)
{
    bool raw = j->use == LLADD_USE_RAW;
    if (j->tool->json) {
        json_t *o = json_pack("{s:o, s:b, s:b, s:b}", "page", tool_json_u64(j->page.v), "raw", raw,
                              "damaged", j->damaged, "changed", j->changed);
        tool_json_lsn(o, "before", j->before);
        tool_json_lsn(o, "lsn", j->after);
        tool_json_print(o, true);
    } else if (!j->changed) {
        printf("page %" PRIu64 " is as the log and the archive say\n", j->page.v);
    } else if (j->damaged && !raw) {
        printf("page %" PRIu64 " was damaged: restored, LSN %" PRIu64 "\n", j->page.v, j->after.v);
    } else if (raw) {
        printf("raw page %" PRIu64 ": restored\n", j->page.v);
    } else {
        printf("page %" PRIu64 ": restored, LSN %" PRIu64 " instead of %" PRIu64 "\n", j->page.v,
               j->after.v, j->before.v);
    }
}

static int restore(struct job *j)
{
    struct tool *t = j->tool;
    struct lladd_error err = LLADD_ERROR_INIT;
    const char *url = t->dir;
    t->dir = t->argv[0]; /* messages are about the database */
    int rc = look(j, &err);
    if (!rc)
        rc = tool_open_archived(t, t->dir, url, &j->a, &err);
    if (rc)
        return tool_failed(t, &err);
    rc = find_use(j, j->a.db, &err);
    if (!rc)
        rc = j->use == LLADD_USE_RAW ? restore_raw(j, &err) : rebuild(j, &err);
    rc = tool_close_archived(&j->a, rc, &err);
    tool_progress_end(t);
    if (rc)
        return tool_failed(t, &err);
    print(j);
    return TOOL_FINE;
}

/* ---- into a file ---------------------------------------------------------------------------- */

static int write_all(int fd, const unsigned char *bytes, size_t len)
{
    while (len) {
        ssize_t n = write(fd, bytes, len);
        if (n < 0 && errno != EINTR)
            return -1;
        bytes += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    return fsync(fd);
}

static int write_file(const char *name, const void *bytes, size_t len, struct lladd_error *err)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int rc = fd < 0 ? -1 : write_all(fd, bytes, len), why = errno;
    if (fd >= 0 && close(fd) && !rc) {
        rc = -1;
        why = errno;
    }
    if (!rc)
        return 0;
    if (fd >= 0)
        (void)unlink(name); /* the first error is reported */
    return lladd_error_set(err,
                           why == EEXIST   ? LLADD_EXISTS
                           : why == ENOSPC ? LLADD_NO_SPACE
                                           : LLADD_NO_ACCESS,
                           "\"%s\": %s", name, strerror(why));
}

static int read_page(struct job *j, struct lladd_db *db, const char *out, struct lladd_error *err)
{
    size_t size = lladd_page_size(db);
    int rc = find_use(j, db, err);
    if (rc)
        return rc;
    unsigned char *bytes = malloc(size);
    rc = bytes ? lladd_bulk_read(db, j->page, 1, j->use == LLADD_USE_RAW, bytes, err)
               : lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for a page");
    if (!rc)
        rc = write_file(out, bytes, size, err);
    free(bytes);
    return rc;
}

static int show(struct job *j, const char *out)
{
    struct tool *t = j->tool;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct tool_peek peek;
    t->from = t->dir;
    int rc = tool_peek(t, &peek, &err);
    if (!rc) {
        rc = read_page(j, peek.db, out, &err);
        if (rc)
            tool_blame_store(t, &err);
        tool_peek_end(&peek);
    }
    return rc ? tool_failed(t, &err) : TOOL_FINE;
}

int tool_restore_page(struct tool *t, uint64_t page, const char *out)
{
    struct job j = {.tool = t, .page = lladd_page_of(page)};
    int code = tool_end(t, out ? show(&j, out) : restore(&j));
    tool_free_archived(&j.a);
    return code;
}
