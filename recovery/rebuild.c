/* SPDX-License-Identifier: BSD-2-Clause */
/* Rebuilds pages from the whole log, not only from the start of redo (BUF-2). ll_rebuild_page
 * rebuilds one page that is found damaged when it is fetched. ll_redo_rebuild rebuilds, in one pass
 * over the log, the pages that redo has left without a base; then it rebuilds alone the pages that
 * the pass leaves out (BUF-5), each with a walk over the log of its own. A base is a record that
 * gives the whole page: an image, or a format record. Log before the start of redo may still be
 * there: pins, object classes and old transactions keep it, and truncation removes only whole
 * segments. From the base to the next redo barrier, the log has every change of the page: each
 * record must find the page as the previous record left it. At a redo barrier the page gets new
 * contents that are not in the log. After a record that cannot be applied, or damage in the log,
 * the page has no base until its next image or format record.
 *
 * If the log cannot rebuild a page, the extensions are asked for a copy of it (base_of), and the
 * records of the log are applied to that copy. */
#include "recovery/redo.h"
#include "recovery/redo_index.h"

#include <lladd/bytes.h>
#include <string.h>

/* Applies the page's next record. *baseless: the page has no base yet. */
static int rebuild_step(struct ll_core *core, const struct ll_record *rec, struct lladd_page *page,
                        bool *baseless, struct lladd_error *err)
{
    int rc = ll_redo_record(core, rec, page, *baseless, lladd_lsn_of(0), err);
    ll_observe_redo(core, rec, rc);
    *baseless = rc == LLADD_NOT_FOUND || (*baseless && rc != 0);
    return rc == LLADD_EXISTS || rc == LLADD_NOT_FOUND ? 0 : rc;
}

/* If the log's directory cannot be read, reading from the result on returns the error. */
static lladd_lsn oldest_of(struct ll_core *core)
{
    lladd_lsn oldest = ll_log_oldest(core->log);
    return oldest.v ? oldest : lladd_lsn_of(1);
}

/* Does the error concern only this page, so that other pages can still be rebuilt? */
static bool is_of_the_page(int rc)
{
    return lladd_code_root(rc) == LLADD_ROOT_DATA || rc == LLADD_NO_OPERATION;
}

/* ---- a page from an extension --------------------------------------------------------------- */

/* Fills f->bytes with a page that an extension gives. `writer`: see lladd_extension.base_of. */
static int ask(struct ll_core *core, struct ll_fetch *f, lladd_lsn since, lladd_lsn writer,
               struct lladd_error *err)
{
    int rc = core->base_of(core, f->page, since, writer, f->bytes, err);
    if (rc)
        return rc;
    lladd_lsn lsn = ll_page_lsn(f->bytes);
    rc = ll_page_verify(core->salt, f->page, f->bytes, core->page_size, "extension", err);
    if (!rc && (lsn.v == 0 || lsn.v >= ll_log_tail(core->log).v || ll_log_lost(core->log, lsn)))
        rc = ll_fail_page(err, LLADD_CORRUPT_PAGE, f->page,
                          "the page %llu that an extension has given has LSN %llu, which is not in "
                          "the history of this log",
                          (unsigned long long)f->page.v, (unsigned long long)lsn.v);
    if (!rc && writer.v && lsn.v < since.v)
        rc = ll_fail_page(err, LLADD_CORRUPT_PAGE, f->page,
                          "the page %llu that an extension has given has LSN %llu, but it was "
                          "written in bulk at LSN %llu",
                          (unsigned long long)f->page.v, (unsigned long long)lsn.v,
                          (unsigned long long)since.v);
    return rc;
}

/* Clears the page, which has no base from now on. *first: the first reason. */
static void lose_base(const struct ll_core *core, struct ll_fetch *f, bool *baseless,
                      const struct lladd_error *why, struct lladd_error *first)
{
    memset(f->bytes, 0, core->page_size);
    *baseless = true;
    if (first->code == 0)
        *first = *why;
}

/* Applies the page's records from `since` on. Every record must find the page as the one before has
 * left it. `baseless`: the page has no base at first. f->dirty_since becomes the LSN of a base that
 * it gets here. It stops at a redo barrier that is newer than the page: *barrier gets the barrier's
 * LSN, and *writer its transaction. If `barrier` is NULL, it goes on with a page of zeros instead.
 * If the page has no base at the end, it fails with the first reason after the last base. */
static int apply_from(struct ll_core *core, struct ll_log_cursor *cursor, struct ll_fetch *f,
                      lladd_lsn since, bool baseless, lladd_lsn *barrier, lladd_lsn *writer,
                      struct lladd_error *err)
{
    struct lladd_page page = {f->bytes, core->page_size, 0, f->page};
    struct lladd_error why = LLADD_ERROR_INIT;
    struct ll_record rec;
    uint64_t first, n;
    int rc;
    err->code = 0;
    for (; (rc = ll_log_cursor_walk(cursor, since, &rec, &why)) == 0; since.v = 0) {
        if (why.code)
            lose_base(core, f, &baseless, &why, err);
        bool had = !baseless;
        if (ll_redo_barrier_decode(&rec, &first, &n) && f->page.v >= first &&
            f->page.v - first < n && rec.lsn.v > ll_page_lsn(f->bytes).v) {
            if (barrier) {
                *barrier = rec.lsn;
                *writer = rec.txn;
                return 0;
            }
            why.code = err->code = 0;
            lose_base(core, f, &baseless, &why, err);
        } else if (ll_redo_index_counts(&rec) && rec.page == f->page.v) {
            if (rebuild_step(core, &rec, &page, &baseless, &why))
                lose_base(core, f, &baseless, &why, err);
            if (!had && !baseless) {
                f->dirty_since = rec.lsn;
                err->code = 0;
            }
        }
    }
    if (rc != LLADD_END)
        err->code = 0; /* a base may follow the place that cannot be read */
    if (why.code)
        lose_base(core, f, &baseless, &why, err);
    if (baseless && err->code == 0)
        (void)ll_fail_page(err, LLADD_CORRUPT_PAGE, f->page,
                           "the log holds no image to rebuild it from");
    return baseless ? err->code : 0;
}

/* Finds the first redo barrier of the page above `above`. LLADD_NOT_FOUND: there is none. */
static int next_barrier(const struct ll_fetch *f, struct ll_log_cursor *cursor, lladd_lsn since,
                        lladd_lsn above, lladd_lsn *barrier, lladd_lsn *writer)
{
    struct lladd_error why = LLADD_ERROR_INIT;
    struct ll_record rec;
    uint64_t first, n;
    int rc;
    for (; (rc = ll_log_cursor_walk(cursor, since, &rec, &why)) == 0; since.v = 0)
        if (rec.lsn.v > above.v && ll_redo_barrier_decode(&rec, &first, &n) &&
            f->page.v >= first && f->page.v - first < n) {
            *barrier = rec.lsn;
            *writer = rec.txn;
            return 0;
        }
    return rc == LLADD_NO_MEMORY ? rc : LLADD_NOT_FOUND;
}

/* The log must have all changes of the page from `since` on. If no extension has the page as it was
 * there, a bulk write under a later barrier may have replaced it. */
static int rebuild_since(struct ll_core *core, struct ll_log_cursor *cursor, struct ll_fetch *f,
                         lladd_lsn since, struct lladd_error *err)
{
    lladd_lsn barrier, above, writer = {0};
    int rc;
    do {
        above = writer.v ? since : (lladd_lsn){0};
        barrier.v = 0;
        rc = ask(core, f, since, writer, err);
        f->dirty_since = ll_page_lsn(f->bytes);
        if (!rc)
            rc = apply_from(core, cursor, f, since, false, &barrier, &writer, err);
        else if (rc == LLADD_NOT_FOUND)
            rc = next_barrier(f, cursor, since, above, &barrier, &writer);
        since = barrier;
    } while (!rc && barrier.v);
    return rc;
}

/* Rebuilds the page from what the extensions give. LLADD_NOT_FOUND: they cannot give it; *err may
 * say why. The copy must have all changes before the first record that can be read, because damage
 * may hide older records where the log begins. While an extension is asked, a checkpoint may
 * truncate log that must be applied to its copy. Then records are missing, and the extension is
 * asked again. */
static int rebuild_from_extension(struct ll_core *core, struct ll_log_cursor *cursor,
                                  struct ll_fetch *f, struct lladd_error *err)
{
    struct ll_record rec;
    lladd_lsn oldest;
    int rc;
    do {
        *err = (struct lladd_error)LLADD_ERROR_INIT;
        oldest = oldest_of(core);
        rc = ll_log_cursor_walk(cursor, oldest, &rec, err);
        if (rc == LLADD_END)
            rc = LLADD_NOT_FOUND;
        if (!rc)
            rc = rebuild_since(core, cursor, f, rec.lsn, err);
    } while (oldest_of(core).v != oldest.v);
    if (!rc)
        lladd_atomic_count64(&core->given, 1);
    return rc;
}

/* Rebuilds the page from the log alone. While this thread reads the log, no checkpoint truncates
 * it. */
static int rebuild_from_own_log(struct ll_core *core, struct ll_fetch *f,
                                struct ll_log_cursor *cursor, struct lladd_error *err)
{
    memset(f->bytes, 0, core->page_size);
    lladd_mutex_lock(&core->cut);
    int rc = apply_from(core, cursor, f, oldest_of(core), true, NULL, NULL, err);
    if (!rc && f->frame)
        ll_buffer_enter(core->buffer, f->frame, f->dirty_since);
    lladd_mutex_unlock(&core->cut);
    return rc;
}

/* ---- all pages that redo left without a base ----------------------------------------------- */

struct rebuild {
    struct ll_core *core;
    struct ll_hashmap *lost; /* struct ll_redo, baseless */
    struct ll_hashmap bases; /* page that has a base now -> LSN of the base */
    struct lladd_error *err;
};

/* Called at a redo barrier for n pages from `first` on. Contents that were rebuilt so far are of an
 * earlier use of these pages. They are dropped, so the pages are without a base again. */
static int end_lives(struct rebuild *r, uint64_t first, uint64_t n)
{
    size_t at = 0;
    uint64_t page, lsn;
    int rc = 0;
    while (!rc && ll_hashmap_next(r->lost, &at, &page, &lsn))
        if (page >= first && page - first < n && ll_hashmap_remove(&r->bases, page))
            rc = ll_redo_drop(r->core, page, r->err);
    return rc;
}

/* A page that has a base in r->bases may have been evicted. If its write was lost, or if it cannot
 * be read again, its frame has no base. Then the pass leaves out the page from now on. */
static int rebuild_record(struct rebuild *r, const struct ll_record *rec)
{
    struct ll_core *core = r->core;
    struct lladd_error why = LLADD_ERROR_INIT;
    bool known = ll_hashmap_find(&r->bases, rec->page) != NULL;
    struct ll_frame *f;
    if (!known && !ll_redo_is_base(rec))
        return 0;
    unsigned how = LL_FIX_EXCLUSIVE | LL_FIX_REDO | (known ? 0 : LL_FIX_BASE);
    int rc = ll_buffer_fix(core->buffer, lladd_page_of(rec->page), how, &f, r->err);
    if (rc)
        return rc;
    bool baseless = (f->flags & LL_FRAME_BASELESS) != 0;
    if (!known || !baseless)
        rc = rebuild_step(core, rec, &f->page, &baseless, &why);
    if (!rc && !baseless) {
        f->flags &= ~(uint32_t)LL_FRAME_BASELESS;
        if (lladd_atomic_load64_relaxed(&f->rec_lsn) == 0)
            ll_buffer_dirty(core->buffer, f, rec->lsn);
    }
    ll_buffer_unfix(core->buffer, f, LL_FIX_EXCLUSIVE);
    if (!rc && baseless)
        *ll_hashmap_find(r->lost, rec->page) |= LL_REDO_LOST;
    if (rc ? is_of_the_page(rc) : baseless) {
        (void)ll_hashmap_remove(&r->bases, rec->page);
        return ll_redo_drop(core, rec->page, r->err);
    }
    if (!rc && !known && (rc = ll_hashmap_put(&r->bases, rec->page, rec->lsn.v)) != 0)
        ll_fail(&why, rc, "out of memory in redo");
    if (rc && r->err)
        *r->err = why;
    return rc;
}

/* A page that was rebuilt before damage in the log may lack records, so it is dropped. Otherwise
 * its next image would be its newest base, and the next open would not see that records are
 * missing. */
static int read_all(struct rebuild *r, struct ll_log_cursor *cursor, lladd_lsn from)
{
    struct lladd_error gap = LLADD_ERROR_INIT;
    struct ll_record rec;
    uint64_t first, n, *lost;
    int rc = 0, read = 0;
    for (; !rc && !read; from.v = 0) {
        read = ll_log_cursor_walk(cursor, from, &rec, &gap);
        if (gap.code == LLADD_READ_FAILED && r->core->unread.code == 0)
            r->core->unread = gap;
        if (gap.code)
            rc = end_lives(r, 0, UINT64_MAX);
        if (rc || read)
            break;
        if (ll_redo_barrier_decode(&rec, &first, &n))
            rc = end_lives(r, first, n);
        else if (ll_redo_index_counts(&rec) && (lost = ll_hashmap_find(r->lost, rec.page)) &&
                 !(*lost & LL_REDO_ALONE))
            rc = rebuild_record(r, &rec);
    }
    if (rc || read == LLADD_END || lladd_code_root(read) == LLADD_ROOT_DATA)
        return rc;
    if (r->err)
        *r->err = gap;
    return read;
}

/* The page may be needed in three cases: it is in use; a loser that has freed it may be undone; or
 * the allocation bitmap, which may itself be one of the pages, cannot be read. */
static bool may_matter(struct ll_core *core, uint64_t page)
{
    struct lladd_error ignored = LLADD_ERROR_INIT;
    bool used = true;
    for (struct lladd_txn *txn = ll_txns_first(&core->txns); txn; txn = ll_txns_next(txn))
        if (lladd_atomic_load32(&txn->state) != LL_TXN_FREE)
            return true;
    return !core->is_allocated || core->is_allocated(core, lladd_page_of(page), &used, &ignored) ||
           used;
}

static bool is_worth_it(struct ll_core *core, const struct ll_hashmap *lost)
{
    size_t at = 0;
    uint64_t page, lsn;
    bool wanted = false;
    while (!wanted && ll_hashmap_next(lost, &at, &page, &lsn))
        wanted = !(lsn & LL_REDO_ALONE) && may_matter(core, page);
    return wanted;
}

static bool has_older_log(struct ll_core *core)
{
    return oldest_of(core).v < core->control.redo.v && !LLADD_PLANTED(LLADD_BUG_REBUILD);
}

static int rebuild_from_log(struct ll_core *core, struct ll_redo *redo, struct lladd_error *err)
{
    struct rebuild r = {.core = core, .lost = &redo->baseless, .err = err};
    struct ll_log_cursor *cursor;
    size_t at = 0, had = redo->baseless.count;
    uint64_t page, lsn;
    lladd_lsn oldest = oldest_of(core);
    if (!is_worth_it(core, &redo->baseless))
        return 0;
    int rc = ll_log_cursor_open(core->log, &cursor);
    if (rc)
        return ll_fail(err, rc, "out of memory in redo");
    ll_hashmap_init(&r.bases, &core->env);
    lladd_atomic_store32(&core->redoing, 1);
    core->baseless = NULL; /* while this is set, fetches of these pages fail */
    rc = read_all(&r, cursor, oldest);
    ll_log_cursor_close(cursor);
    while (!rc && ll_hashmap_next(&r.bases, &at, &page, &lsn))
        ll_hashmap_remove(&redo->baseless, page);
    lladd_atomic_store32(&core->redoing, 0);
    core->baseless = &redo->baseless;
    ll_hashmap_free(&r.bases);
    if (!rc)
        ll_core_trace(core, "redo: once more from %llu, %llu of %llu pages rebuilt",
                      (unsigned long long)oldest.v,
                      (unsigned long long)(had - redo->baseless.count), (unsigned long long)had);
    return rc;
}

static int put_rebuilt(struct ll_core *core, const struct ll_fetch *f, struct lladd_error *err)
{
    const struct lladd_page made = {f->bytes, core->page_size, 0, f->page};
    struct ll_frame *frame;
    unsigned how = LL_FIX_EXCLUSIVE | LL_FIX_REDO | LL_FIX_BASE;
    int rc = ll_redo_check_image(core, f->dirty_since, ll_view_of(&made), err);
    if (!rc)
        rc = ll_buffer_fix(core->buffer, f->page, how, &frame, err);
    if (rc)
        return rc;
    memcpy(frame->page.bytes, f->bytes, core->page_size);
    frame->flags &= ~(uint32_t)LL_FRAME_BASELESS;
    ll_buffer_dirty(core->buffer, frame, f->dirty_since);
    ll_buffer_unfix(core->buffer, frame, LL_FIX_EXCLUSIVE);
    return 0;
}

/* Rebuilds f->page, which has no base: from the log, if the pass has left the page out, or else
 * from an extension's copy. If the page gets a base, removes it from the map of such pages. */
static int redo_alone(struct ll_core *core, struct ll_redo *redo, struct ll_fetch *f,
                      struct ll_log_cursor *cursor, struct lladd_error *err)
{
    struct lladd_error why = LLADD_ERROR_INIT;
    bool left_out = *ll_hashmap_find(&redo->baseless, f->page.v) & LL_REDO_ALONE;
    int rc = LLADD_NOT_FOUND;
    left_out = left_out && has_older_log(core);
    if ((!left_out && !core->base_of) || !may_matter(core, f->page.v))
        return 0;
    if (left_out)
        rc = rebuild_from_own_log(core, f, cursor, &why);
    if (rc == LLADD_READ_FAILED && core->unread.code == 0)
        core->unread = why;
    if (core->base_of && (rc == LLADD_NOT_FOUND || is_of_the_page(rc)))
        rc = rebuild_from_extension(core, cursor, f, &why);
    if (rc == LLADD_NOT_FOUND || is_of_the_page(rc)) {
        ll_core_trace(core, "redo: page %llu: %s", (unsigned long long)f->page.v,
                      *why.message ? why.message : "no extension has it");
        if (core->base_of) {
            core->refused = why;
            core->refused.page = f->page;
        }
        return 0;
    }
    if (rc && err)
        *err = why;
    if (!rc)
        rc = put_rebuilt(core, f, err);
    if (!rc) {
        (void)ll_hashmap_remove(&redo->baseless, f->page.v);
        ll_core_trace(core, "redo: page %llu rebuilt alone", (unsigned long long)f->page.v);
    }
    return rc;
}

static int rebuild_alone(struct ll_core *core, struct ll_redo *redo, struct lladd_error *err)
{
    struct ll_log_cursor *cursor;
    struct ll_vec pages;
    size_t at = 0;
    uint64_t page, lsn;
    int rc = ll_log_cursor_open(core->log, &cursor);
    if (rc)
        return ll_fail(err, rc, "out of memory in redo");
    ll_vec_init(&pages, &core->env, sizeof page);
    struct ll_fetch f = {.bytes = ll_alloc(&core->env, core->page_size)};
    rc = f.bytes ? 0 : LLADD_NO_MEMORY;
    while (!rc && ll_hashmap_next(&redo->baseless, &at, &page, &lsn))
        rc = ll_vec_append(&pages, &page, 1);
    if (rc)
        ll_fail(err, rc, "out of memory in redo");
    for (size_t i = 0; !rc && i < pages.len; i++) {
        f.page.v = *(const uint64_t *)ll_vec_at(&pages, i);
        rc = redo_alone(core, redo, &f, cursor, err);
    }
    ll_free(&core->env, f.bytes);
    ll_vec_free(&pages);
    ll_log_cursor_close(cursor);
    return rc;
}

int ll_redo_rebuild(struct ll_core *core, struct ll_redo *redo, struct lladd_error *err)
{
    int rc = has_older_log(core) ? rebuild_from_log(core, redo, err) : 0;
    return rc || redo->baseless.count == 0 ? rc : rebuild_alone(core, redo, err);
}

/* ---- one page, online (BUF-2) ------------------------------------------------------------ */

int ll_rebuild_page(struct ll_core *core, struct ll_fetch *f, struct lladd_error *err)
{
    struct lladd_error why = LLADD_ERROR_INIT, reason = LLADD_ERROR_INIT;
    struct ll_log_cursor *cursor;
    int rc = ll_log_cursor_open(core->log, &cursor);
    if (rc)
        return ll_fail(err, rc, "out of memory for a repair");
    rc = rebuild_from_own_log(core, f, cursor, &why);
    int asked = LLADD_NOT_FOUND;
    if (core->base_of && is_of_the_page(rc))
        asked = rebuild_from_extension(core, cursor, f, &reason);
    if (asked == 0) /* the copy of an extension needs no base in the log */
        ll_buffer_enter(core->buffer, f->frame, f->dirty_since);
    ll_log_cursor_close(cursor);
    if (asked != LLADD_NOT_FOUND) {
        rc = asked;
        why = reason;
        reason.message[0] = 0;
    }
    if (rc && err)
        *err = why;
    if (!is_of_the_page(rc) || rc == LLADD_READ_FAILED)
        return rc;
    bool both = *reason.message;
    rc = ll_fail_page(err, f->damage.code, f->page, "%.100s; %.*s%s%s", f->damage.message,
                      both ? 60 : 150, why.message, both ? "; " : "", reason.message);
    if (err) {
        err->lsn = why.lsn;
        err->sys_errno = f->damage.sys_errno;
    }
    return rc;
}

/* *newer: the frame has the result. */
static int rebuild_frame(struct ll_core *core, struct ll_fetch *made, bool *newer,
                         struct lladd_error *err)
{
    const struct lladd_page page = {made->bytes, core->page_size, 0, made->page};
    unsigned char *bytes = made->frame->page.bytes;
    lladd_lsn had = ll_page_lsn(bytes), lsn;
    (void)ll_fail_page(&made->damage, LLADD_CORRUPT_PAGE, made->page, "page %llu is too old",
                       (unsigned long long)made->page.v);
    ll_log_wait_published(core->log, lladd_lsn_of(had.v + 1)); /* a cursor ends where it is not */
    int rc = ll_rebuild_page(core, made, err);
    if (!rc)
        rc = ll_redo_check_image(core, ll_page_lsn(made->bytes), ll_view_of(&page), err);
    if (rc)
        return rc;
    lsn = ll_page_lsn(made->bytes);
    *newer = lsn.v >= had.v;
    if (lsn.v > had.v) {
        ll_buffer_forget_private(core->buffer, made->frame);
        memcpy(bytes, made->bytes, core->page_size);
    }
    return 0;
}

int ll_rebuild_frame(struct ll_core *core, struct ll_frame *f, bool *newer,
                     struct lladd_error *err)
{
    struct ll_fetch made = {.page = f->page.number,
                            .frame = f,
                            .bytes = ll_alloc(&core->env, core->page_size)};
    *newer = false;
    int rc = made.bytes ? rebuild_frame(core, &made, newer, err)
                        : ll_fail(err, LLADD_NO_MEMORY, "out of memory for a page");
    ll_free(&core->env, made.bytes);
    return rc;
}

/* ---- one record of an archived log ---------------------------------------------------------- */

int ll_rebuild_with(struct ll_core *core, lladd_pageno number, const struct ll_record *rec,
                    unsigned char *bytes, bool *empty, struct lladd_error *err)
{
    struct lladd_page page = {bytes, core->page_size, 0, number};
    if (!ll_redo_index_counts(rec) || rec->page != number.v)
        return ll_fail_lsn(err, LLADD_CORRUPT_LOG, rec->lsn,
                           "the record at LSN %llu does not change page %llu",
                           (unsigned long long)rec->lsn.v, (unsigned long long)number.v);
    int rc = ll_redo_record(core, rec, &page, *empty, lladd_lsn_of(0), err);
    *empty = *empty && rc != 0;
    if (rc == LLADD_EXISTS || rc == LLADD_NOT_FOUND)
        return 0;
    if (!rc)
        lladd_put32(bytes, ll_page_crc(core->salt, number, bytes, core->page_size));
    return rc;
}
