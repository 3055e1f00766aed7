/* SPDX-License-Identifier: BSD-2-Clause */
/* Bulk access: reads and writes whole pages without the log and the page cache (BUF-6). */
#include "db/db_private.h"
#include "util/vec.h"

#include <lladd/bulk.h>
#include <lladd/bytes.h>
#include <string.h>

static int check_range(struct lladd_txn *txn, lladd_pageno first, uint64_t n)
{
    if (n == 0 || first.v == 0 || first.v >= LL_PAGE_END || n > LL_PAGE_END - first.v)
        return ll_fail_page(&txn->err, LLADD_OUT_OF_RANGE, first,
                            "there are no %llu pages from page %llu on", (unsigned long long)n,
                            (unsigned long long)first.v);
    return 0;
}

/* Gives back what `begin` has set aside. */
static void release(struct lladd_txn *txn)
{
    struct ll_core *core = txn->core;
    lladd_mutex_lock(&core->misc);
    ll_redo_barrier_promise_end(core);
    lladd_mutex_unlock(&core->misc);
    ll_log_credit_trim(core->log, &txn->credit);
}

/* Begins the range: no page of it is cached, and a thread that fixes a page of it waits. First sets
 * aside the log space that log_barrier takes. So a thread that waits for the range does not wait
 * for log space. A call that fails has dropped no page. Pending redo of the range is dropped, too,
 * so that it cannot replace the new contents. */
static int begin(struct lladd_txn *txn, struct ll_bulk_range *range)
{
    struct ll_core *core = txn->core;
    int rc = ll_core_reserve_plain(txn, ll_record_bound(16, 0), 0);
    if (rc)
        return rc;
    lladd_mutex_lock(&core->misc);
    rc = ll_redo_barrier_promise(core, &txn->err);
    lladd_mutex_unlock(&core->misc);
    if (rc) {
        ll_log_credit_trim(core->log, &txn->credit);
        return rc;
    }
    rc = ll_buffer_bulk_begin(core->buffer, range, &txn->err);
    release(txn);
    if (!rc)
        ll_instant_forget(core, lladd_page_of(range->first), range->n);
    return rc;
}

/* Logs the redo barrier of the range, and returns its LSN. Called before the cached pages are
 * dropped: a checkpoint that does not find a dropped page must find the barrier. */
static lladd_lsn log_barrier(struct lladd_txn *txn, const struct ll_bulk_range *range)
{
    struct ll_core *core = txn->core;
    unsigned char bytes[16];
    lladd_put64(bytes, range->first);
    lladd_put64(bytes + 8, range->n);
    struct ll_record rec = {.kind = LL_REC_REDO_BARRIER,
                            .page = LLADD_NO_PAGE,
                            .redo = lladd_span_of(bytes, sizeof bytes)};
    /* Under the mutex, the record and the list change together. Either a checkpoint collects the
     * barrier from the list, or the barrier's record follows the record at which analysis will
     * start (A in recovery/checkpoint.c). Appending does not wait. */
    lladd_mutex_lock(&core->misc);
    ll_txn_append(txn, &rec, NULL);
    ll_redo_barrier_put(core, &(struct ll_redo_barrier){range->first, range->n, rec.lsn, txn->id});
    lladd_mutex_unlock(&core->misc);
    return rec.lsn;
}

struct barrier {
    struct lladd_txn *txn;
    struct ll_bulk_range range;
};

static void log_first(void *ctx)
{
    const struct barrier *b = ctx;
    (void)log_barrier(b->txn, &b->range);
}

int lladd_redo_barrier(struct lladd_txn *txn, lladd_pageno first, uint64_t n)
{
    LL_USE(txn);
    struct barrier b = {txn, {.first = first.v, .n = n, .before_drop = log_first, .ctx = &b}};
    int rc = ll_txn_enter_unlatched(txn, "lladd_redo_barrier");
    if (!rc)
        rc = check_range(txn, first, n);
    if (!rc)
        rc = begin(txn, &b.range);
    if (!rc)
        ll_buffer_bulk_end(txn->core->buffer, &b.range);
    return rc;
}

struct bulk_write {
    struct lladd_txn *txn;
    struct ll_bulk_range range;
    const struct ll_name *type; /* NULL: raw pages */
    unsigned char *bytes;
    struct ll_vec stretches; /* struct stretch; it has room for one stretch for each page */
};

/* Pages of one bulk write that have the same redo barrier. */
struct stretch {
    uint64_t from, n; /* counted from the first page of the write */
    lladd_lsn barrier;
};

/* Adds page i to the stretches, which have room for it. */
static void add_page(struct bulk_write *w, uint64_t i, lladd_lsn barrier)
{
    size_t len = w->stretches.len;
    struct stretch *s = len ? ll_vec_at(&w->stretches, len - 1) : NULL;
    if (!s || s->barrier.v != barrier.v) {
        s = ll_vec_push(&w->stretches);
        LL_ASSERT(s);
        *s = (struct stretch){i, 0, barrier};
    }
    s->n++;
}

static int tell_written(const struct bulk_write *w)
{
    const struct ll_core *core = w->txn->core;
    int rc = 0;
    for (size_t i = 0; !rc && ll_db_of(w->txn->core)->hears_bulk && i < w->stretches.len; i++) {
        const struct stretch *s = ll_vec_at(&w->stretches, i);
        if (s->n == 1 && LLADD_PLANTED(LLADD_BUG_BULK_TOLD))
            continue;
        rc = ll_extensions_bulk_written(w->txn, s->barrier,
                                        lladd_page_of(w->range.first + s->from), s->n,
                                        w->type != NULL, w->bytes + s->from * core->page_size);
    }
    return rc;
}

/* Finds for each page the redo barrier of this transaction that is newer than every record of the
 * page. Returns false if a page has no such barrier. This is so before the first write, after a
 * checkpoint has dropped a barrier below the start of redo, and after a change of the page was
 * logged. It is also so after a rollback to a savepoint, because other transactions may then have
 * used the pages. A barrier of another transaction is not enough. A reader of the log, such as a
 * backup, looks for the pages that a transaction has written in bulk. It finds these pages by the
 * transaction's own barriers. */
static bool find_barriers(struct bulk_write *w)
{
    struct ll_core *core = w->txn->core;
    for (uint64_t i = 0; i < w->range.n; i++) {
        (void)ll_point(&core->env, "bulk.barrier");
        lladd_lsn lsn = ll_redo_barrier_own(core, w->range.first + i, w->txn->id);
        if (lsn.v == 0)
            return false;
        add_page(w, i, lsn);
    }
    return true;
}

/* If a page has no barrier, logs one for all pages. Called before the pages are dropped. */
static void provide_barriers(void *ctx)
{
    struct bulk_write *w = ctx;
    if (find_barriers(w))
        return;
    lladd_lsn lsn = log_barrier(w->txn, &w->range);
    ll_vec_truncate(&w->stretches, 0);
    for (uint64_t i = 0; i < w->range.n; i++)
        add_page(w, i, lsn);
}

/* Gives typed pages their headers. The page LSN is the LSN of the page's barrier, so page LSNs
 * never go back (BUF-6). The base stays 0, so write-back logs an image of the page after its first
 * logged change. */
static void stamp(const struct bulk_write *w)
{
    const struct ll_core *core = w->txn->core;
    for (size_t k = 0; k < w->stretches.len; k++) {
        const struct stretch *s = ll_vec_at(&w->stretches, k);
        for (uint64_t i = s->from; i < s->from + s->n; i++) {
            unsigned char *p = w->bytes + i * core->page_size;
            memset(p, 0, LLADD_PAGE_HEADER);
            ll_page_set_type(p, (uint16_t)w->type->number);
            ll_page_set_number(p, w->range.first + i);
            ll_page_set_lsn(p, s->barrier);
        }
    }
}

/* Raw pages have no LSN for the buffer's WAL check (BUF-1), so the barriers are forced here. If a
 * barrier were lost in a crash, redo could apply older records to the new contents. The log before
 * the barrier may not be durable yet. For example, a transaction may have freed the pages in a
 * closed top action, and its later rollback does not force the log. This force makes that log
 * durable, too. */
static int force_barriers(const struct bulk_write *w)
{
    lladd_lsn newest = {0};
    for (size_t i = 0; i < w->stretches.len; i++) {
        const struct stretch *s = ll_vec_at(&w->stretches, i);
        newest = s->barrier.v > newest.v ? s->barrier : newest;
    }
    return ll_log_force(w->txn->core->log, newest, &w->txn->err);
}

static int write_pages(struct bulk_write *w)
{
    struct ll_buffer *buffer = w->txn->core->buffer;
    if (ll_vec_reserve(&w->stretches, w->range.n))
        return ll_fail(&w->txn->err, LLADD_NO_MEMORY, "out of memory for a bulk write");
    int rc = begin(w->txn, &w->range);
    if (rc)
        return rc;
    if (w->type)
        stamp(w);
    else
        rc = force_barriers(w);
    if (!rc)
        rc = ll_buffer_bulk_write(buffer, &w->range, w->bytes, w->type != NULL, &w->txn->err);
    ll_buffer_bulk_end(buffer, &w->range);
    return rc ? rc : tell_written(w);
}

int lladd_bulk_write(struct lladd_txn *txn, lladd_pageno first, uint64_t n, const char *page_type,
                     void *bytes)
{
    LL_USE(txn);
    struct ll_core *core = txn->core;
    struct ll_name *type = NULL;
    int rc = ll_txn_enter_unlatched(txn, "lladd_bulk_write");
    if (!rc)
        rc = check_range(txn, first, n);
    if (!rc && page_type) {
        type = ll_op_catalog_find(core, LL_NAME_PAGE_TYPE, page_type, 0);
        rc = type ? ll_op_catalog_number(core, type, &txn->err)
                  : ll_fail(&txn->err, LLADD_BAD_ARGUMENT, "page type \"%s\" is not registered",
                            page_type);
    }
    if (rc)
        return rc;
    struct bulk_write w = {.txn = txn,
                           .range = {first.v, n, provide_barriers, &w, NULL},
                           .type = type,
                           .bytes = bytes};
    ll_vec_init(&w.stretches, &core->env, sizeof(struct stretch));
    rc = write_pages(&w);
    ll_vec_free(&w.stretches);
    return rc;
}

int lladd_bulk_sync(struct lladd_txn *txn)
{
    LL_USE(txn);
    int rc = ll_txn_enter_unlatched(txn, "lladd_bulk_sync");
    if (LLADD_PLANTED(LLADD_BUG_BULK_SYNC))
        return rc;
    return rc ? rc : ll_buffer_sync(txn->core->buffer, &txn->err);
}

static int read_pages(struct lladd_db *db, lladd_pageno first, uint64_t n, bool raw, void *bytes,
                      struct lladd_error *err)
{
    int rc = ll_buffer_bulk_read(db->core.buffer, first, n, bytes, !raw, err);
    if (rc != LLADD_BAD_STATE || ll_held_pages(db))
        return rc;
    /* A page is dirty: after a logged change, after redo, or after a repair. */
    rc = ll_buffer_write_range(db->core.buffer, first, n, err);
    return rc ? rc : ll_buffer_bulk_read(db->core.buffer, first, n, bytes, !raw, err);
}

/* The log does not contain pages that were written in bulk. So only an extension that has a copy
 * can replace a page that is damaged or cannot be read. The replaced page is written back. */
static int read_and_repair(struct lladd_db *db, lladd_pageno first, uint64_t n, bool raw,
                           void *bytes, struct lladd_error *err)
{
    uint64_t repaired = LLADD_NO_PAGE;
    for (;;) {
        struct lladd_error why = LLADD_ERROR_INIT;
        int rc = read_pages(db, first, n, raw, bytes, &why);
        bool again = (rc == LLADD_CORRUPT_PAGE || rc == LLADD_READ_FAILED) && !raw &&
                     db->core.base_of && why.page.v != repaired && !ll_held_pages(db);
        if (again) {
            repaired = why.page.v;
            rc = lladd_page_rewrite(db, why.page, &why);
        }
        if (!rc && again)
            continue;
        if (rc && err)
            *err = why;
        return rc;
    }
}

int lladd_bulk_read(struct lladd_db *db, lladd_pageno first, uint64_t n, bool raw, void *bytes,
                    struct lladd_error *err)
{
    int rc = ll_db_enter(db, err);
    if (!rc)
        rc = ll_instant_settle(&db->core, first, n, err);
    return rc ? rc : read_and_repair(db, first, n, raw, bytes, err);
}

int lladd_pages_extend(struct lladd_db *db, uint64_t pages, struct lladd_error *err)
{
    int rc = ll_core_check(&db->core, err);
    if (!rc) /* only an open after a clean close may trust the length of the file */
        rc = ll_core_mark(&db->core, err);
    return rc ? rc : ll_buffer_extend(db->core.buffer, pages, err);
}

int lladd_pages_discard(struct lladd_db *db, lladd_pageno first, uint64_t n)
{
    int rc = ll_core_check(&db->core, NULL);
    if (rc)
        return rc;
    ll_instant_forget(&db->core, first, n);
    return ll_buffer_drop(db->core.buffer, first, n);
}

/* Writes the page of the frame, which is fixed exclusively, and unfixes it. */
static int write_fixed(struct lladd_db *db, struct ll_frame *f, lladd_pageno page,
                       struct lladd_error *err)
{
    ll_redo_barrier_disown_page(&db->core, page.v); /* write-back may log an image */
    /* The file may lack every change of the page, even the oldest change. */
    ll_buffer_dirty(db->core.buffer, f, ll_page_lsn(f->page.bytes));
    ll_buffer_unfix(db->core.buffer, f, LL_FIX_EXCLUSIVE);
    return ll_buffer_write_range(db->core.buffer, page, 1, err);
}

static int fix_alone(struct lladd_db *db, lladd_pageno page, const char *call, struct ll_frame **f,
                     struct lladd_error *err)
{
    int rc = ll_db_enter(db, err);
    if (!rc)
        rc = ll_db_no_page(db, err, call);
    return rc ? rc : ll_buffer_fix(db->core.buffer, page, LL_FIX_EXCLUSIVE, f, err);
}

int lladd_page_rewrite(struct lladd_db *db, lladd_pageno page, struct lladd_error *err)
{
    struct ll_frame *f;
    int rc = fix_alone(db, page, "lladd_page_rewrite", &f, err);
    return rc ? rc : write_fixed(db, f, page, err);
}

int lladd_page_rebuild(struct lladd_db *db, lladd_pageno page, struct lladd_error *err)
{
    struct ll_frame *f;
    bool newer = false;
    int rc = fix_alone(db, page, "lladd_page_rebuild", &f, err);
    if (rc)
        return rc;
    rc = ll_rebuild_frame(&db->core, f, &newer, err);
    if (newer)
        return write_fixed(db, f, page, err);
    ll_buffer_unfix(db->core.buffer, f, LL_FIX_EXCLUSIVE);
    return rc;
}
