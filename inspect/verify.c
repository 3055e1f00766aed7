/* SPDX-License-Identifier: BSD-2-Clause */
/* Verification: checks everything, and reports the consequence of each damaged place.
 *
 * A finding has one of three kinds. *Damage*: data is lost, or an open will fail. *Repair*: the
 * library will repair the place by itself. Such a place is a copy of the control block, or a page
 * that the log or the double-write area can rebuild. *Note*: not a fault, for example a torn tail
 * after a crash.
 *
 * First the whole log is read, even after damage. If the log has records about more pages than fit
 * in memory, the log is read again for each further part of the pages (part.c). For each page the
 * log gives the newest base, the last record, and the page LSN that the first record of redo
 * expects. The checks find
 *   - a page that is older than the last record about it, after a clean close: a write was lost,
 *     unless the page was freed after that record
 *   - a page with an LSN at which the log has no record about the page: its contents belong to
 *     another page or database
 *   - a page that does not have the page LSN that the first record of redo expects: recovery will
 *     fail at this page, unless the log has a base of it
 *
 * The files of a database in use change while they are read: pages are written, log is truncated,
 * and log files are recycled. So a page that looks damaged is read again before it is reported, and
 * the whole check is repeated in several rounds. Only findings that every round has in the same
 * place are reported. */
#include "inspect/inspect_private.h"

#include "io/io.h"
#include "operations/operations.h"

#include <errno.h>
#include <lladd/bytes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* For a database in use: the number of rounds of checks before damage is reported, and the number
 * of reads of a damaged page in each round. */
enum { LOOKS = 4, READS = 16 };
#define CHUNK 65536u

/* ---- findings ------------------------------------------------------------------------------- */

int ll_verify_tell(struct ll_verify *c, struct lladd_finding f)
{
    if (f.kind == LLADD_FINDING_DAMAGE)
        c->out->damage++;
    else if (f.kind == LLADD_FINDING_REPAIR)
        c->out->repair++;
    else
        c->out->notes++;
    return c->fn(c->ctx, &f);
}

int ll_verify_tell_file(struct ll_verify *c, enum lladd_finding_kind kind, int code,
                        const char *file, uint64_t offset, const char *message)
{
    return ll_verify_tell(c, (struct lladd_finding){.kind = kind,
                                                    .code = code,
                                                    .file = file,
                                                    .offset = offset,
                                                    .page = {LLADD_NO_PAGE},
                                                    .message = message});
}

int ll_verify_tell_lsn(struct ll_verify *c, enum lladd_finding_kind kind, int code, uint64_t lsn,
                       const char *message)
{
    char name[32] = "log";
    uint64_t offset = LL_VERIFY_NO_OFFSET;
    lladd_inspect_place(c->v, lladd_lsn_of(lsn), name, &offset);
    return ll_verify_tell(c, (struct lladd_finding){.kind = kind,
                                                    .code = code,
                                                    .file = name,
                                                    .offset = offset,
                                                    .lsn = {lsn},
                                                    .page = {LLADD_NO_PAGE},
                                                    .message = message});
}

static int tell_page(struct ll_verify *c, enum lladd_finding_kind kind, int code, uint64_t page,
                     uint64_t lsn, const char *message)
{
    return ll_verify_tell(c, (struct lladd_finding){.kind = kind,
                                                    .code = code,
                                                    .file = "pages",
                                                    .offset = page * c->v->core.page_size,
                                                    .lsn = {lsn},
                                                    .page = {page},
                                                    .message = message});
}

int ll_verify_no_memory(struct ll_verify *c)
{
    return ll_fail(c->err, LLADD_NO_MEMORY, "out of memory");
}

/* ---- control -------------------------------------------------------------------------------- */

static int check_zeros(struct ll_verify *c, const char *file, uint64_t from, uint64_t to,
                       const unsigned char *bytes)
{
    for (uint64_t i = from; i < to; i++)
        if (bytes[i])
            return ll_verify_tell_file(c, LLADD_FINDING_REPAIR, LLADD_CORRUPT_CONTROL, file, i,
                                       "an unused byte is not zero");
    return 0;
}

/* Checks that the log reaches as far as the witness. Does nothing after a clean close. Does nothing
 * for a database in use either: its log and its witness grow between the two reads. */
static int verify_witness(struct ll_verify *c)
{
    struct lladd_inspect *v = c->v;
    struct lladd_error why = LLADD_ERROR_INIT;
    struct ll_witness w;
    struct lladd_file *file;
    if (v->info.clean || v->info.in_use == 1 || !v->log || v->log_error.code ||
        ll_io_open(v->core.dev, "control", LLADD_OPEN_READ_ONLY, &file))
        return 0;
    int rc = ll_witness_read(v->core.dev, file, v->core.salt, &w, &why);
    (void)ll_io_close(v->core.dev, file); /* the file was only read */
    if (!rc)
        rc = ll_witness_check(&w, ll_log_scan_end(v->log), &why);
    return rc ? ll_verify_tell_file(c, LLADD_FINDING_DAMAGE, rc, "control", 2 * LL_CONTROL_COPY,
                                    why.message)
              : 0;
}

/* bytes[0..have) are the control file. */
static int verify_witness_bytes(struct ll_verify *c, const unsigned char *bytes, uint64_t have)
{
    static const unsigned char nothing[LL_WITNESS_BYTES];
    struct ll_witness w;
    if (have == LL_CONTROL_COPY + LL_CONTROL_BYTES)
        return 0; /* created by an older version */
    bool whole = have >= LL_CONTROL_FILE_BYTES;
    if (whole && (memcmp(bytes + 2 * LL_CONTROL_COPY, nothing, sizeof nothing) == 0 ||
                  ll_witness_decode(bytes + 2 * LL_CONTROL_COPY, c->v->core.salt, &w)))
        return 0;
    return ll_verify_tell_file(
        c, LLADD_FINDING_REPAIR, LLADD_CORRUPT_CONTROL, "control", 2 * LL_CONTROL_COPY,
        whole ? "the witness has a wrong checksum" : "the file is cut off: the witness is missing");
}

/* Checks the bytes between and after the copies in the control file, which has `have` bytes. */
static int verify_control_rest(struct ll_verify *c, const unsigned char *bytes, uint64_t have)
{
    int rc = 0;
    if (have > LL_CONTROL_COPY)
        rc = check_zeros(c, "control", LL_CONTROL_BYTES, LL_CONTROL_COPY, bytes);
    uint64_t gap = have < 2 * LL_CONTROL_COPY ? have : 2 * LL_CONTROL_COPY;
    if (!rc && gap > LL_CONTROL_COPY + LL_CONTROL_BYTES)
        rc = check_zeros(c, "control", LL_CONTROL_COPY + LL_CONTROL_BYTES, gap, bytes);
    return rc || have == 0 ? rc : verify_witness_bytes(c, bytes, have);
}

static int verify_control(struct ll_verify *c)
{
    struct lladd_inspect *v = c->v;
    struct lladd_error why = LLADD_ERROR_INIT;
    struct lladd_file *file;
    char text[400];
    int rc = 0;
    for (int i = 0; !rc && i < 2; i++) {
        if (!v->info.control_bad[i])
            continue;
        snprintf(text, sizeof text, "copy %d: %s; the other copy is good and is used", i + 1,
                 v->control_error[i].message);
        rc = ll_verify_tell_file(c, LLADD_FINDING_REPAIR, v->control_error[i].code, "control",
                                 (uint64_t)i * LL_CONTROL_COPY, text);
    }
    if (rc || ll_io_open(v->core.dev, "control", LLADD_OPEN_READ_ONLY, &file))
        return rc;
    unsigned char *bytes = ll_alloc(&v->core.env, LL_CONTROL_FILE_BYTES);
    int64_t n = bytes ? ll_io_pread(v->core.dev, file, bytes, LL_CONTROL_FILE_BYTES, 0) : 0;
    (void)ll_io_close(v->core.dev, file); /* the file was only read */
    if (n >= 0)
        rc = bytes ? verify_control_rest(c, bytes, (uint64_t)n)
                   : ll_fail(c->err, LLADD_NO_MEMORY, "out of memory for the control file");
    else if (!v->info.control_bad[0] && !v->info.control_bad[1])
        rc = ll_verify_tell_file(c, LLADD_FINDING_REPAIR,
                                 ll_fail_io(&why, (int)n, false, "read", "control"), "control",
                                 2 * LL_CONTROL_COPY, why.message);
    ll_free(&v->core.env, bytes);
    return rc;
}

/* ---- the double-write area ------------------------------------------------------------------ */

static int verify_dwb(struct ll_verify *c)
{
    struct lladd_inspect *v = c->v;
    struct lladd_device *dev = v->core.dev;
    struct lladd_error why = LLADD_ERROR_INIT;
    struct lladd_file *file;
    int rc = ll_io_open(dev, "dwb", LLADD_OPEN_READ_ONLY, &file);
    if (rc == -ENOENT)
        return ll_verify_tell_file(c, LLADD_FINDING_DAMAGE, LLADD_MISSING_FILE, "dwb",
                                   LL_VERIFY_NO_OFFSET, "the double-write area is missing");
    if (rc)
        return ll_verify_tell_file(c, LLADD_FINDING_DAMAGE,
                                   ll_fail_io(&why, rc, false, "open", "dwb"), "dwb",
                                   LL_VERIFY_NO_OFFSET, why.message);
    struct ll_double_write a = {.dev = dev,
                                .file = file,
                                .name = "dwb",
                                .page_size = v->core.page_size,
                                .salt = v->core.salt,
                                .header = ll_alloc(&v->core.env, 2 * (size_t)v->core.page_size)};
    rc = a.header ? ll_double_write_look(&a, &why) : LLADD_NO_MEMORY;
    (void)ll_io_close(dev, file); /* the file was only read */
    ll_free(&v->core.env, a.header);
    if (rc == LLADD_NO_MEMORY)
        return ll_verify_no_memory(c);
    if (rc && rc != LLADD_END) { /* after a clean stop the next write repairs unreadable headers */
        bool needed = !v->info.clean || rc != LLADD_READ_FAILED;
        return ll_verify_tell_file(c, needed ? LLADD_FINDING_DAMAGE : LLADD_FINDING_REPAIR, rc,
                                   "dwb", rc == LLADD_MISSING_FILE ? LL_VERIFY_NO_OFFSET : 0,
                                   why.message);
    }
    if (a.flaw == LLADD_READ_FAILED)
        return ll_verify_tell_file(c, LLADD_FINDING_REPAIR, a.flaw, "dwb", 0, why.message);
    if (a.flaw && v->info.clean)
        return ll_verify_tell_file(c, LLADD_FINDING_REPAIR, a.flaw, "dwb", 0,
                                   "a header of the double-write area is neither empty nor valid");
    if (a.flaw)
        return ll_verify_tell_file(
            c, LLADD_FINDING_NOTE, 0, "dwb", 0,
            a.count ? "one header of the double-write area is damaged, the other one is whole"
                    : "the database stopped while it wrote the double-write area: the page file "
                      "was not changed yet, or was complete");
    return 0;
}

/* ---- pages ---------------------------------------------------------------------------------- */

/* For a page that is older than its last record in the log. Returns why the page is damaged; NULL:
 * the page is not damaged. *rebuilt: recovery will repair the page. */
static const char *why_outdated(struct ll_verify *c, uint64_t page, const unsigned char *bytes,
                                const struct ll_verify_barrier *f, uint64_t *lsn, bool *rebuilt)
{
    const struct ll_verify_history *h = ll_verify_history_of(c, page);
    uint64_t at = ll_page_lsn(bytes).v, barrier = f ? f->lsn : 0;
    *rebuilt = false;
    if (!h || h->last < barrier || h->given_up || !c->log_whole)
        return NULL;
    *lsn = h->last;
    bool clean = c->v->info.clean || LLADD_PLANTED(LLADD_BUG_ACCUSE);
    if (clean && at < h->last)
        return "a write was lost: the log has a newer record about it";
    if (!c->v->info.clean && h->first && at < h->first && !h->first_is_base &&
        h->first_prev != at && h->first >= barrier && (at || !h->base)) {
        *lsn = h->first;
        *rebuilt = h->base && h->base >= barrier; /* rebuilt from older log, like a torn page */
        return "a write was lost: redo will not find it as the first record expects";
    }
    /* Changes before redo's start were on disk when the checkpoint was taken, and redo does not
     * repeat them. */
    if (!c->v->info.clean && !h->first && at < h->last) {
        *lsn = h->last;
        return "a write was lost: the log has a newer record about it, before the start of redo";
    }
    return NULL;
}

/* True if the log has no record about this page at the page's LSN. *by: the operation of the record
 * at that LSN; NULL: the operation is not registered. */
static bool is_foreign(struct ll_verify *c, uint64_t page, const unsigned char *bytes,
                       const struct lladd_op **by)
{
    struct ll_record rec;
    lladd_lsn at = ll_page_lsn(bytes);
    if (!c->cursor || !c->log_whole || at.v < c->v->info.log_oldest.v)
        return false;
    if (c->v->info.in_use == 1 && at.v >= c->v->known_end)
        return false; /* the log has grown since it was read */
    int rc = ll_log_cursor_read(c->cursor, at, &rec, NULL);
    if (rc == LLADD_OUT_OF_RANGE && at.v < c->v->core.control.checkpoint.v)
        return false; /* The record is in the truncated part of the oldest segment. */
    if (rc)
        return true;
    uint64_t first, count;
    if (ll_redo_barrier_decode(&rec, &first, &count))
        return page - first >= count;
    bool foreign = !ll_redo_index_counts(&rec) || rec.page != page;
    /* An image has no operation of its own: the operation is that of the record before the
     * image. */
    if (!foreign && rec.kind == LL_REC_IMAGE &&
        (!rec.page_prev.v || ll_log_cursor_read(c->cursor, rec.page_prev, &rec, NULL)))
        return false;
    const struct ll_name *n = ll_op_catalog_by_number(&c->v->core, rec.op);
    *by = n && n->kind == LL_NAME_OP ? n->desc : NULL;
    return foreign;
}

static int tell_damaged(struct ll_verify *c, uint64_t page, const struct lladd_error *why,
                        const struct ll_verify_barrier *f)
{
    struct lladd_inspect *v = c->v;
    char text[400];
    const struct ll_verify_history *h = ll_verify_history_of(c, page);
    uint64_t barrier = f ? f->lsn : 0, base = h ? h->base : 0;
    bool torn = ll_page_verify(v->core.salt, lladd_page_of(page), v->page, v->core.page_size,
                               "pages", NULL) != 0;
    if (f && ll_inspect_txn_of(v, lladd_lsn_of(f->txn))) {
        snprintf(text, sizeof text,
                 "%s; it is being written in bulk by transaction %llu, which has not "
                 "ended",
                 why->message, (unsigned long long)f->txn);
        return tell_page(c, LLADD_FINDING_NOTE, 0, page, f->lsn, text);
    }
    if (torn && ll_verify_is_blank(c, page)) {
        snprintf(text, sizeof text, "%s; it was taken and not formatted since: it has no contents",
                 why->message);
        return tell_page(c, LLADD_FINDING_NOTE, 0, page, 0, text);
    }
    if (torn && base && base >= barrier) {
        bool redo = !v->info.clean && base >= v->core.control.redo.v;
        snprintf(text, sizeof text, "%s; %s from its base at LSN %llu", why->message,
                 redo ? "redo will rebuild it" : "it will be rebuilt when it is read,",
                 (unsigned long long)base);
        return tell_page(c, LLADD_FINDING_REPAIR, why->code, page, base, text);
    }
    if (torn && ll_inspect_area_page(v, page, v->page)) {
        snprintf(text, sizeof text, "%s; the double-write area has a good copy", why->message);
        return tell_page(c, LLADD_FINDING_REPAIR, why->code, page, 0, text);
    }
    snprintf(text, sizeof text, "%s%s", why->message,
             torn ? "; the log holds no base to rebuild it from" : "");
    return tell_page(c, LLADD_FINDING_DAMAGE, why->code, page, 0, text);
}

/* Reads the page repeatedly, until it is valid or its damage is certain. */
static int read_well(struct ll_verify *c, uint64_t page, struct lladd_error *why)
{
    struct lladd_inspect *v = c->v;
    for (int i = 1;; i++) {
        int rc = ll_inspect_read_page(v, page, v->page, why);
        if (rc)
            return rc;
        rc = ll_inspect_judge_page(v, lladd_page_of(page), v->page, why);
        if (!rc || v->info.in_use != 1 || i == READS)
            return rc;
        lladd_yield();
    }
}

static bool wrong_root(struct ll_verify *c, uint64_t page)
{
    const struct ll_name *n = ll_op_catalog_by_number(&c->v->core, ll_page_type(c->v->page));
    if (page > 1 || (!c->v->info.clean && ll_page_type(c->v->page) == 0))
        return false;
    if (!n && (!c->log_whole || c->v->log_error.code))
        return false; /* the type's name may be in the part of the log that cannot be read */
    return !n || strcmp(n->name, page == 0 ? "lladd.root" : "lladd.map") != 0;
}

static int check_contents(struct ll_verify *c, uint64_t page, const struct ll_verify_barrier *f)
{
    struct lladd_inspect *v = c->v;
    char text[300];
    uint64_t lsn = 0, at = ll_page_lsn(v->page).v;
    const struct lladd_op *by = NULL;
    bool rebuilt;
    const char *wrong = why_outdated(c, page, v->page, f, &lsn, &rebuilt);
    if (wrong) {
        snprintf(text, sizeof text, "page %llu has page LSN %llu: %s (LSN %llu)%s",
                 (unsigned long long)page, (unsigned long long)at, wrong, (unsigned long long)lsn,
                 rebuilt ? "; older log will rebuild it" : "");
        return tell_page(c, rebuilt ? LLADD_FINDING_REPAIR : LLADD_FINDING_DAMAGE,
                         LLADD_CORRUPT_PAGE, page, lsn, text);
    }
    if (at && is_foreign(c, page, v->page, &by)) {
        snprintf(text, sizeof text,
                 "page %llu has page LSN %llu, where the log has no record about it",
                 (unsigned long long)page, (unsigned long long)at);
        return tell_page(c, LLADD_FINDING_DAMAGE, LLADD_CORRUPT_PAGE, page, at, text);
    }
    struct lladd_view view = {v->page, v->core.page_size, ll_page_type(v->page), {page}};
    if (by && by->check && !by->check(view)) {
        snprintf(text, sizeof text,
                 "page %llu has contents that \"%s\", which has changed it last, does not allow",
                 (unsigned long long)page, by->name);
        return tell_page(c, LLADD_FINDING_DAMAGE, LLADD_CORRUPT_PAGE, page, at, text);
    }
    if (wrong_root(c, page)) {
        snprintf(text, sizeof text, "page %llu is not of the page type that page %llu must have",
                 (unsigned long long)page, (unsigned long long)page);
        return tell_page(c, LLADD_FINDING_DAMAGE, LLADD_CORRUPT_PAGE, page, at, text);
    }
    return 0;
}

/* A free page may hold anything. But no page is written before the log is durable up to the page's
 * LSN (BUF-1). So a page newer than the whole log proves that the log has lost its end. */
static int check_free(struct ll_verify *c, uint64_t page)
{
    const struct lladd_inspect *v = c->v;
    uint64_t at = ll_page_lsn(v->page).v, end = v->info.log_end.v;
    char text[200];
    if (!c->log_whole || v->log_error.code || v->info.in_use == 1 || at < end ||
        ll_page_verify(v->core.salt, lladd_page_of(page), v->page, v->core.page_size, "pages",
                       NULL))
        return 0;
    snprintf(text, sizeof text,
             "page %llu is free and has page LSN %llu; the log ends before that, at LSN %llu",
             (unsigned long long)page, (unsigned long long)at, (unsigned long long)end);
    return tell_page(c, LLADD_FINDING_DAMAGE, LLADD_LOG_LOST, page, at, text);
}

static int verify_page(struct ll_verify *c, uint64_t page)
{
    struct lladd_inspect *v = c->v;
    struct lladd_error why = LLADD_ERROR_INIT;
    enum lladd_page_use use;
    bool known;
    int rc = ll_inspect_use(v, lladd_page_of(page), &use, &known, c->err);
    if (rc)
        return rc;
    c->out->pages++;
    if (known && use == LLADD_USE_RAW) {
        c->out->raw_pages++;
        return 0;
    }
    /* Bitmaps are never freed: if the log changes a bitmap that is missing, a write was lost. A
     * bitmap may also be outdated: a page that the log changes and does not free afterwards is in
     * use, whatever the bitmap says. */
    bool is_map = ll_operations_bitmap_of(v->core.page_size, lladd_page_of(page)).v == page;
    const struct ll_verify_history *h = ll_verify_history_of(c, page);
    bool changed = h && h->last && !h->given_up && c->log_whole;
    bool is_free =
        known && !is_map && !changed && (use == LLADD_USE_NONE || use == LLADD_USE_FREED);
    rc = read_well(c, page, &why);
    if (rc == LLADD_OUT_OF_RANGE && v->info.in_use)
        return 0; /* a process that has the database open has shortened the file */
    if (is_free) {
        c->out->free_pages++;
        return rc == LLADD_READ_FAILED || rc == LLADD_OUT_OF_RANGE ? 0 : check_free(c, page);
    }
    c->out->zero_pages += !rc && ll_page_lsn(v->page).v == 0 && !ll_page_type(v->page);
    const struct ll_verify_barrier *f = ll_verify_barrier_of(c, page, UINT64_MAX);
    if (!rc)
        return check_contents(c, page, f);
    if (rc == LLADD_READ_FAILED)
        return tell_page(c, LLADD_FINDING_DAMAGE, rc, page, 0, why.message);
    return tell_damaged(c, page, &why, f);
}

/* Reports a page file that ends inside a page, or has fewer pages than at the last checkpoint. */
static int check_length(struct ll_verify *c)
{
    struct lladd_inspect *v = c->v;
    uint64_t have = v->info.pages, bytes = v->info.page_file_bytes;
    char text[200];
    int rc = 0;
    if (v->info.in_use == 1)
        return 0; /* the file of a database in use grows */
    if (bytes % v->core.page_size != 0) {
        snprintf(text, sizeof text, "the file has %llu bytes, which is not a whole number of pages",
                 (unsigned long long)bytes);
        rc = ll_verify_tell_file(c, v->info.clean ? LLADD_FINDING_DAMAGE : LLADD_FINDING_NOTE,
                                 v->info.clean ? LLADD_MISSING_FILE : 0, "pages",
                                 have * v->core.page_size, text);
    }
    struct lladd_error why = LLADD_ERROR_INIT;
    if (!rc &&
        ll_analysis_check_pages(have + (bytes % v->core.page_size != 0), v->checkpoint_pages, &why))
        rc = ll_verify_tell_file(c, LLADD_FINDING_DAMAGE, why.code, "pages",
                                 have * v->core.page_size, why.message);
    return rc;
}

static int verify_pages(struct ll_verify *c)
{
    struct lladd_inspect *v = c->v;
    uint64_t end = c->part.end < v->info.pages ? c->part.end : v->info.pages;
    int rc = 0;
    for (uint64_t n = c->part.first; !rc && n < end; n++) {
        if (n % (CHUNK / v->core.page_size) == 0) {
            ll_io_prefetch(v->core.dev, v->page_file, n * v->core.page_size, 4 * CHUNK);
            ll_verify_progress(c, "pages", n, v->info.pages);
        }
        rc = verify_page(c, n);
    }
    return rc;
}

static int verify_parts(struct ll_verify *c)
{
    struct lladd_inspect *v = c->v;
    int rc = v->page_file
                 ? verify_pages(c)
                 : ll_verify_tell_file(c, LLADD_FINDING_DAMAGE, v->page_error.code, "pages",
                                       LL_VERIFY_NO_OFFSET, v->page_error.message);
    while (!rc && ll_part_next(&c->part)) {
        rc = ll_verify_log_again(c);
        if (!rc && v->page_file)
            rc = verify_pages(c);
    }
    return !rc && v->page_file ? check_length(c) : rc;
}

void ll_verify_progress(const struct ll_verify *c, const char *what, uint64_t done, uint64_t all)
{
    if (c->v->progress)
        c->v->progress(c->v->progress_ctx, what, done < all ? done : all, all);
}

/* ---- all of it ------------------------------------------------------------------------------ */

/* An open can fail although no check has found damage, for example if a file is missing and no
 * other file refers to it. */
static int verify_open(struct ll_verify *c)
{
    struct lladd_error why = LLADD_ERROR_INIT;
    if (c->out->damage || c->v->info.in_use == 1 || LLADD_PLANTED(LLADD_BUG_TRUSTING))
        return 0;
    int rc = ll_inspect_try_open(c->v, &why);
    if (rc == LLADD_NO_MEMORY)
        return ll_verify_no_memory(c);
    if (!rc)
        return 0;
    return why.lsn.v ? ll_verify_tell_lsn(c, LLADD_FINDING_DAMAGE, rc, why.lsn.v, why.message)
                     : ll_verify_tell_file(c, LLADD_FINDING_DAMAGE, rc, "log", LL_VERIFY_NO_OFFSET,
                                           why.message);
}

static int verify_all(struct lladd_inspect *v, lladd_finding_fn *fn, void *ctx,
                      struct lladd_verified *out, struct lladd_error *err)
{
    struct ll_verify c = {.v = v, .fn = fn, .ctx = ctx, .out = out, .err = err, .log_whole = true};
    const struct ll_env *env = &v->core.env;
    ll_part_init(&c.part, env, v->memory, sizeof(struct ll_verify_history) + sizeof(size_t));
    ll_hashmap_init(&c.txns, env);
    ll_hashmap_init(&c.told, env);
    ll_vec_init(&c.histories, env, sizeof(struct ll_verify_history));
    ll_vec_init(&c.unused, env, sizeof(size_t));
    ll_vec_init(&c.barriers, env, sizeof(struct ll_verify_barrier));
    c.blank_pages = v->info.pages;
    c.blank = ll_alloc_zero(env, (size_t)(c.blank_pages / 8 + 1));
    int rc = c.blank ? verify_control(&c) : ll_verify_no_memory(&c);
    if (!rc)
        rc = ll_verify_log(&c);
    if (!rc)
        rc = verify_witness(&c);
    if (!rc)
        rc = verify_dwb(&c);
    if (!rc)
        rc = verify_parts(&c);
    if (!rc)
        rc = verify_open(&c);
    ll_log_cursor_close(c.cursor);
    ll_free(env, c.blank);
    ll_vec_free(&c.barriers);
    ll_vec_free(&c.histories);
    ll_vec_free(&c.unused);
    ll_hashmap_free(&c.told);
    ll_hashmap_free(&c.txns);
    ll_part_free(&c.part);
    return rc;
}

/* A kept finding; it owns its strings. */
struct kept {
    struct lladd_finding f;
    bool again; /* all earlier rounds had this finding, too */
};

struct keeper {
    struct ll_env env;
    struct ll_vec now, before; /* struct kept */
    bool first;
};

static void free_kept(struct keeper *k, struct ll_vec *list)
{
    for (size_t i = 0; i < list->len; i++) {
        struct kept *f = ll_vec_at(list, i);
        ll_free(&k->env, (void *)(uintptr_t)f->f.file);
        ll_free(&k->env, (void *)(uintptr_t)f->f.message);
    }
    ll_vec_truncate(list, 0);
}

/* Compares places, not texts: the text of a finding may change between rounds. */
static bool same_place(const struct lladd_finding *a, const struct lladd_finding *b)
{
    return strcmp(a->file, b->file) == 0 && a->page.v == b->page.v &&
           (a->page.v != LLADD_NO_PAGE || a->lsn.v == b->lsn.v) && a->offset == b->offset;
}

static int keep(void *ctx, const struct lladd_finding *f)
{
    struct keeper *k = ctx;
    struct kept *row = ll_vec_push(&k->now);
    if (!row)
        return LLADD_NO_MEMORY;
    row->f = *f;
    row->f.file = ll_strdup(&k->env, f->file);
    row->f.message = ll_strdup(&k->env, f->message);
    row->again = k->first;
    for (size_t i = 0; i < k->before.len && !row->again; i++) {
        const struct kept *b = ll_vec_at(&k->before, i);
        row->again = b->again && b->f.file && same_place(&b->f, f);
    }
    return row->f.file && row->f.message ? 0 : LLADD_NO_MEMORY;
}

static size_t count_again(const struct ll_vec *list)
{
    size_t n = 0;
    for (size_t i = 0; i < list->len; i++)
        n += ((const struct kept *)ll_vec_at(list, i))->again;
    return n;
}

/* For a database in use: repeats the check, and keeps the findings that every round has in the same
 * place. */
static int look_again(struct lladd_inspect *v, struct keeper *k, struct lladd_verified *out,
                      struct lladd_error *err)
{
    int rc = 0;
    for (int i = 1; !rc; i++) {
        *out = (struct lladd_verified){.struct_size = sizeof *out};
        k->first = i == 1;
        rc = verify_all(v, keep, k, out, err);
        if (rc == LLADD_NO_MEMORY)
            return ll_fail(err, rc, "out of memory");
        if (rc || i == LOOKS || v->info.in_use != 1 || count_again(&k->now) == 0)
            return rc;
        free_kept(k, &k->before);
        struct ll_vec swap = k->before;
        k->before = k->now;
        k->now = swap;
        rc = ll_inspect_again(v, err);
    }
    return rc;
}

static int report(const struct ll_vec *list, lladd_finding_fn *fn, void *ctx,
                  struct lladd_verified *out)
{
    int rc = 0;
    out->damage = out->repair = out->notes = 0;
    for (size_t i = 0; !rc && i < list->len; i++) {
        const struct kept *k = ll_vec_at(list, i);
        if (!k->again)
            continue;
        out->damage += k->f.kind == LLADD_FINDING_DAMAGE;
        out->repair += k->f.kind == LLADD_FINDING_REPAIR;
        out->notes += k->f.kind == LLADD_FINDING_NOTE;
        rc = fn(ctx, &k->f);
    }
    return rc;
}

int lladd_inspect_verify(struct lladd_inspect *v, lladd_finding_fn *fn, void *ctx,
                         struct lladd_verified *out, struct lladd_error *err)
{
    struct lladd_verified count = {.struct_size = sizeof count};
    int rc;
    if (!v || !fn || (out && (out->struct_size < sizeof(size_t) || out->struct_size > sizeof *out)))
        return ll_fail(err, LLADD_BAD_ARGUMENT,
                       "view or callback is NULL, or the result's struct_size is invalid");
    if (!v->page)
        return ll_fail(err, LLADD_BAD_STATE,
                       "the view is invalid: an earlier call could not read it again");
    if (v->info.in_use == 1) {
        struct keeper k = {.env = v->core.env};
        ll_vec_init(&k.now, &k.env, sizeof(struct kept));
        ll_vec_init(&k.before, &k.env, sizeof(struct kept));
        rc = look_again(v, &k, &count, err);
        if (!rc)
            rc = report(&k.now, fn, ctx, &count);
        free_kept(&k, &k.now);
        free_kept(&k, &k.before);
        ll_vec_free(&k.now);
        ll_vec_free(&k.before);
    } else {
        rc = verify_all(v, fn, ctx, &count, err);
    }
    if (out) {
        size_t size = out->struct_size;
        memcpy(out, &count, size);
        out->struct_size = size;
    }
    return rc;
}
