/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * inspect, verify: looks at everything, and says of each place that is wrong what will become of
 * it.
 *
 * Three verdicts. *Damage*: something is lost, or will make an open fail. *Repair*: damaged, and
 * the library puts it right by itself (the other copy of the control block; a page that the log or
 * the double-write area can rebuild). *Note*: no fault, as a torn tail after a crash.
 *
 * The log is read first, all of it, across damage. It tells of every page: where its newest base
 * is, which record changed it last, and what the first record that redo will read expects to find.
 * Against that the pages are held:
 *   - a page that is older than the last record about it, after a clean close: a write was lost
 *   - a page whose LSN is no record about it: it is from elsewhere
 *   - a page that redo will not find as its first record left it: recovery will refuse it
 *
 * While somebody has the database open, pages are read again before they are called damaged, and
 * one whose LSN lies beyond the end of the log as it was read is held against the end as it is by
 * then.
 */
#include "lladd/inspect_private.h"

#include "io/io.h"

#include <errno.h>
#include <lladd/bytes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How often a damaged page of a database in use is read before it is believed to be damaged. */
enum { READS = 16 };
#define CHUNK 65536u
#define NO_OFFSET UINT64_MAX

/* What the log says about a page. */
struct history {
    uint64_t base;  /* LSN of the newest image or format record; 0: none in the log */
    uint64_t last;  /* LSN of the newest record */
    uint64_t first; /* of the first one that redo reads; 0: none */
    uint64_t first_prev;
    bool first_is_base;
};

struct fence {
    uint64_t first, n, lsn, txn;
};

struct verify {
    struct lladd_inspect *v;
    lladd_finding_fn *fn;
    void *ctx;
    struct lladd_verified *out;
    struct lladd_error *err;
    struct ll_map pages; /* page -> index into histories */
    struct ll_vec histories;
    struct ll_map txns;     /* id -> LSN of its last record */
    struct ll_vec fences;   /* all that the log tells of, oldest first */
    struct ll_vec suspects; /* pages whose LSN is beyond the log's end */
    unsigned char *dwb;     /* first page of the double-write area; NULL: none to be had */
    uint32_t dwb_copies;
    struct ll_log_cursor *cursor; /* for single records */
    bool log_whole;               /* no damage was met in the log */
};

/* ---- findings
 * --------------------------------------------------------------------------------------- */

static int tell(struct verify *c, struct lladd_finding f)
{
    if (f.kind == LLADD_FINDING_DAMAGE)
        c->out->damage++;
    else if (f.kind == LLADD_FINDING_REPAIR)
        c->out->repair++;
    else
        c->out->notes++;
    return c->fn(c->ctx, &f);
}

static int tell_file(struct verify *c, enum lladd_finding_kind kind, int code, const char *file,
                     uint64_t offset, const char *message)
{
    return tell(c, (struct lladd_finding){.kind = kind,
                                          .code = code,
                                          .file = file,
                                          .offset = offset,
                                          .page = {LLADD_NO_PAGE},
                                          .message = message});
}

static int tell_lsn(struct verify *c, enum lladd_finding_kind kind, int code, uint64_t lsn,
                    const char *message)
{
    char name[32] = "log";
    uint64_t offset = NO_OFFSET;
    lladd_inspect_place(c->v, lladd_lsn_of(lsn), name, &offset);
    return tell(c, (struct lladd_finding){.kind = kind,
                                          .code = code,
                                          .file = name,
                                          .offset = offset,
                                          .lsn = {lsn},
                                          .page = {LLADD_NO_PAGE},
                                          .message = message});
}

static int tell_page(struct verify *c, enum lladd_finding_kind kind, int code, uint64_t page,
                     uint64_t lsn, const char *message)
{
    return tell(c, (struct lladd_finding){.kind = kind,
                                          .code = code,
                                          .file = "pages",
                                          .offset = page * c->v->core.page_size,
                                          .lsn = {lsn},
                                          .page = {page},
                                          .message = message});
}

static int no_memory(struct verify *c)
{
    return ll_fail(c->err, LLADD_NO_MEMORY, "out of memory");
}

/* ---- control
 * ------------------------------------------------------------------------------------------ */

/* Bytes of a file that should be zero, and are not. */
static int check_zeros(struct verify *c, const char *file, uint64_t from, uint64_t to,
                       const unsigned char *bytes)
{
    for (uint64_t i = from; i < to; i++)
        if (bytes[i])
            return tell_file(c, LLADD_FINDING_REPAIR, LLADD_CORRUPT_CONTROL, file, i,
                             "a byte that nobody uses is not zero");
    return 0;
}

static int verify_control(struct verify *c)
{
    struct lladd_inspect *v = c->v;
    unsigned char bytes[2 * LL_CONTROL_COPY];
    struct lladd_file *file;
    char text[400];
    int rc = 0;
    for (int i = 0; !rc && i < 2; i++) {
        if (!v->info.control_bad[i])
            continue;
        snprintf(text, sizeof text, "copy %d: %s; the other copy is good and is used", i + 1,
                 v->control_error[i].message);
        rc = tell_file(c, LLADD_FINDING_REPAIR, v->control_error[i].code, "control",
                       (uint64_t)i * LL_CONTROL_COPY, text);
    }
    if (rc || ll_io_open(v->core.dev, "control", LLADD_OPEN_READ_ONLY, &file))
        return rc;
    int64_t n = ll_io_pread(v->core.dev, file, bytes, sizeof bytes, 0);
    (void)ll_io_close(v->core.dev, file); /* only read */
    uint64_t have = n > 0 ? (uint64_t)n : 0;
    if (have > LL_CONTROL_COPY)
        rc = check_zeros(c, "control", LL_CONTROL_BYTES, LL_CONTROL_COPY, bytes);
    if (!rc && have > LL_CONTROL_COPY + LL_CONTROL_BYTES)
        rc = check_zeros(c, "control", LL_CONTROL_COPY + LL_CONTROL_BYTES, have, bytes);
    return rc;
}

/* ---- the log: single records
 * ------------------------------------------------------------------------------ */

static bool part_fits(unsigned kind, const unsigned char *b, size_t len)
{
    switch (kind) {
    case LL_CKPT_TXN:
        return len == 44;
    case LL_CKPT_NAME:
        return len >= 16 && lladd_get32(b) != 0;
    case LL_CKPT_FENCE:
        return len == 24;
    case LL_CKPT_PIN:
        return len >= 9 && len - 8 < 64;
    case LL_CKPT_PAGES:
        return len == 8;
    default:
        return false;
    }
}

static bool data_fit(struct lladd_span s)
{
    const unsigned char *p = s.data;
    size_t left = s.len;
    while (left) {
        if (left < 5 || lladd_get32(p + 1) > left - 5)
            return false;
        size_t len = lladd_get32(p + 1);
        if (!part_fits(p[0], p + 5, len))
            return false;
        p += 5 + len;
        left -= 5 + len;
    }
    return true;
}

static bool payload_fits(const struct ll_record *rec)
{
    struct ll_prepared p;
    switch (rec->kind) {
    case LL_REC_CHECKPOINT_DATA:
        return data_fit(rec->redo);
    case LL_REC_CHECKPOINT_END:
        return rec->redo.len == 16;
    case LL_REC_SEAL:
        return rec->redo.len == 8 && lladd_get64(rec->redo.data) <= rec->lsn.v;
    case LL_REC_FENCE:
        return rec->redo.len == 16;
    case LL_REC_PIN:
        return rec->redo.len >= 9 && rec->redo.len - 8 < 64;
    case LL_REC_PREPARE:
        return ll_prepare_decode(rec->redo, &p);
    case LL_REC_PREPARE_BLOB:
        return rec->redo.len >= 8;
    case LL_REC_IMAGE:
        return rec->redo.len >= 12;
    default:
        return true;
    }
}

/* Catalogue entries of the whole log; contradictory ones are damage. */
static int learn(struct verify *c, struct lladd_span payload, lladd_lsn lsn)
{
    struct lladd_error why = LLADD_ERROR_INIT;
    int rc = ll_catalogue_learn(&c->v->core, payload, lsn, &why);
    if (rc == LLADD_NO_MEMORY)
        return no_memory(c);
    return rc ? tell_lsn(c, LLADD_FINDING_DAMAGE, rc, lsn.v, why.message) : 0;
}

static int learn_data(struct verify *c, const struct ll_record *rec)
{
    const unsigned char *p = rec->redo.data, *end = p + rec->redo.len;
    int rc = 0;
    for (; !rc && p < end; p += 5 + lladd_get32(p + 1)) /* data_fit has looked */
        if (p[0] == LL_CKPT_NAME)
            rc = learn(c, lladd_span_of(p + 5, lladd_get32(p + 1)), rec->lsn);
    return rc;
}

static bool name_fits(const struct ll_record *rec, const struct ll_name *n)
{
    if (rec->kind == LL_REC_OBJECT || rec->kind == LL_REC_OBJECT_CLR)
        return n->kind == LL_NAME_CLASS;
    if (rec->kind == LL_REC_NOTE)
        return n->kind == LL_NAME_TAG;
    if (rec->kind == LL_REC_PREPARE_BLOB)
        return n->kind == LL_NAME_PARTICIPANT;
    return rec->kind == LL_REC_CATALOGUE || n->kind == LL_NAME_OP;
}

static int check_name(struct verify *c, const struct ll_record *rec)
{
    char text[200];
    if (rec->op == 0)
        return 0;
    const struct ll_name *n = ll_catalogue_by_number(&c->v->core, rec->op);
    if (n && name_fits(rec, n))
        return 0;
    if (!n && !c->log_whole)
        return 0; /* its entry may be what was damaged */
    if (n)
        snprintf(text, sizeof text, "a record of kind %s names %s \"%s\"",
                 ll_record_kind_name(rec->kind),
                 lladd_name_kind_text((enum lladd_name_kind)n->kind), n->name);
    else
        snprintf(text, sizeof text, "a record names number %u, which is in no catalogue", rec->op);
    return tell_lsn(c, LLADD_FINDING_DAMAGE, LLADD_CORRUPT_LOG, rec->lsn.v, text);
}

/* Each record of a transaction names the one before it. */
static int check_chain(struct verify *c, const struct ll_record *rec)
{
    char text[200];
    uint64_t before;
    int rc = 0;
    if (rec->txn.v == 0)
        return 0;
    bool known = ll_map_get(&c->txns, rec->txn.v, &before);
    uint64_t want = known ? before : rec->txn.v == rec->lsn.v ? 0 : rec->prev.v;
    if (rec->prev.v != want && c->log_whole) {
        snprintf(
            text, sizeof text,
            "a record of transaction %llu says that the one before it is at LSN %llu; it is at "
            "%llu",
            (unsigned long long)rec->txn.v, (unsigned long long)rec->prev.v,
            (unsigned long long)want);
        rc = tell_lsn(c, LLADD_FINDING_DAMAGE, LLADD_CORRUPT_LOG, rec->lsn.v, text);
    }
    if (rec->kind == LL_REC_COMMIT || rec->kind == LL_REC_END)
        ll_map_remove(&c->txns, rec->txn.v);
    else if (ll_map_put(&c->txns, rec->txn.v, rec->lsn.v))
        return no_memory(c);
    return rc;
}

/* ---- the log: pages
 * ------------------------------------------------------------------------------------------ */

static struct history *history_of(const struct verify *c, uint64_t page)
{
    uint64_t index;
    return ll_map_get(&c->pages, page, &index) ? ll_vec_at(&c->histories, (size_t)index) : NULL;
}

static struct history *want_history(struct verify *c, uint64_t page)
{
    struct history *h = history_of(c, page);
    if (h)
        return h;
    h = ll_vec_push(&c->histories);
    return h && !ll_map_put(&c->pages, page, c->histories.len - 1) ? h : NULL;
}

/* The newest fence around a page, at or below `to`; NULL. */
static const struct fence *fence_of(const struct verify *c, uint64_t page, uint64_t to)
{
    for (size_t i = c->fences.len; i-- > 0;) {
        const struct fence *f = ll_vec_at(&c->fences, i);
        if (f->lsn <= to && page >= f->first && page - f->first < f->n)
            return f;
    }
    return NULL;
}

static int check_page_record(struct verify *c, const struct ll_record *rec)
{
    char text[200];
    struct history *h = want_history(c, rec->page);
    if (!h)
        return no_memory(c);
    bool base = ll_inspect_is_base(rec);
    const struct fence *f = fence_of(c, rec->page, rec->lsn.v);
    uint64_t before = f && f->lsn > h->last ? f->lsn : h->last;
    int rc = 0;
    if (!base && before && rec->page_prev.v != before && c->log_whole) {
        snprintf(
            text, sizeof text,
            "a record about page %llu says that it was at LSN %llu; the record before it is at "
            "%llu",
            (unsigned long long)rec->page, (unsigned long long)rec->page_prev.v,
            (unsigned long long)before);
        rc = tell_lsn(c, LLADD_FINDING_DAMAGE, LLADD_CORRUPT_LOG, rec->lsn.v, text);
    }
    if (base)
        h->base = rec->lsn.v;
    if (!h->first && rec->lsn.v >= c->v->core.control.redo.v) {
        h->first = rec->lsn.v;
        h->first_prev = rec->page_prev.v;
        h->first_is_base = base;
    }
    h->last = rec->lsn.v;
    return rc;
}

static int take_fence(struct verify *c, const struct ll_record *rec)
{
    struct fence *f = ll_vec_push(&c->fences);
    if (!f)
        return no_memory(c);
    f->first = lladd_get64(rec->redo.data);
    f->n = lladd_get64((const unsigned char *)rec->redo.data + 8);
    f->lsn = rec->lsn.v;
    f->txn = rec->txn.v;
    return 0;
}

static int check_record(struct verify *c, const struct ll_record *rec)
{
    char text[200];
    c->out->records++;
    if (rec->lsn.v + rec->size > c->v->known_end)
        c->v->known_end = rec->lsn.v + rec->size;
    int rc = 0;
    if (!payload_fits(rec)) {
        snprintf(text, sizeof text, "the contents of a record of kind %s make no sense",
                 ll_record_kind_name(rec->kind));
        return tell_lsn(c, LLADD_FINDING_DAMAGE, LLADD_BAD_RECORD, rec->lsn.v, text);
    }
    if (rec->kind == LL_REC_CATALOGUE)
        rc = learn(c, rec->redo, rec->lsn);
    else if (rec->kind == LL_REC_CHECKPOINT_DATA)
        rc = learn_data(c, rec);
    else if (rec->kind == LL_REC_FENCE)
        rc = take_fence(c, rec);
    if (!rc)
        rc = check_name(c, rec);
    if (!rc)
        rc = check_chain(c, rec);
    return !rc && ll_inspect_about_page(rec) ? check_page_record(c, rec) : rc;
}

/* ---- the log: all of it
 * --------------------------------------------------------------------------------------- */

static int see_segment(void *ctx, const struct ll_log_file *f)
{
    struct verify *c = ctx;
    c->out->segments += f->in_use;
    if (!f->code)
        return 0;
    c->log_whole = false;
    return tell(c, (struct lladd_finding){.kind = LLADD_FINDING_DAMAGE,
                                          .code = f->code,
                                          .file = f->name,
                                          .offset = 0,
                                          .lsn = f->first,
                                          .page = {LLADD_NO_PAGE},
                                          .message = f->why});
}

/* Goes on behind a place that cannot be read. 0: *rec is the next good record; LLADD_END. */
static int pass_damage(struct verify *c, struct ll_log_cursor *cursor,
                       const struct lladd_error *what, uint64_t at, struct ll_record *rec, int code)
{
    struct lladd_error ignored = LLADD_ERROR_INIT;
    uint64_t lsn = what->lsn.v > at ? what->lsn.v : at;
    c->log_whole = false;
    int rc = tell_lsn(c, LLADD_FINDING_DAMAGE, code, lsn, what->message);
    if (rc)
        return rc;
    rc = ll_log_cursor_seek(cursor, lladd_lsn_of(lsn + 8), rec, &ignored);
    if (rc == LLADD_NO_MEMORY)
        return no_memory(c);
    return rc || rec->lsn.v <= lsn ? LLADD_END : 0;
}

static bool is_beyond(const struct lladd_inspect *v, const struct ll_record *rec)
{
    return v->info.clean && rec->lsn.v >= v->core.control.end.v;
}

/* Every record that can be read, also behind damage. */
static int walk_log(struct verify *c, struct ll_log_cursor *cursor)
{
    struct lladd_inspect *v = c->v;
    struct lladd_error what = LLADD_ERROR_INIT;
    struct ll_record rec;
    uint64_t at = v->info.log_oldest.v;
    /* Where the oldest segment goes on with the end of a record that is gone, the first good one is
     * where the log begins. */
    int rc = ll_log_begins_at_record(v->log)
                 ? ll_log_cursor_read(cursor, v->info.log_oldest, &rec, &what)
                 : ll_log_cursor_seek(cursor, v->info.log_oldest, &rec, &what);
    if (rc == LLADD_OUT_OF_RANGE && v->known_end <= at)
        rc = LLADD_END; /* there is nothing in it */
    for (;;) {
        bool told = false;
        if (rc == LLADD_NO_MEMORY)
            return no_memory(c);
        if (rc && rc != LLADD_END) {
            rc = pass_damage(c, cursor, &what, at, &rec, rc);
            told = rc && rc != LLADD_END;
        }
        if (rc == LLADD_END || (!rc && is_beyond(v, &rec)))
            return 0;
        if (!rc) {
            rc = check_record(c, &rec);
            told = rc != 0;
        }
        if (told)
            return rc;
        at = rec.lsn.v + rec.size;
        what = (struct lladd_error)LLADD_ERROR_INIT;
        rc = ll_log_cursor_next(cursor, &rec, &what);
    }
}

/* A record that recovery will look for under its LSN. */
static int need_record(struct verify *c, struct ll_log_cursor *cursor, uint64_t lsn,
                       const char *why)
{
    struct lladd_error what = LLADD_ERROR_INIT;
    struct ll_record rec;
    char text[400];
    if (lsn == 0)
        return 0;
    int rc = ll_log_cursor_read(cursor, lladd_lsn_of(lsn), &rec, &what);
    if (!rc)
        return 0;
    if (rc == LLADD_NO_MEMORY)
        return no_memory(c);
    snprintf(text, sizeof text, "%s: %s", why, what.message);
    return tell_lsn(c, LLADD_FINDING_DAMAGE, rc == LLADD_OUT_OF_RANGE ? LLADD_MISSING_FILE : rc,
                    lsn, text);
}

static int check_needs(struct verify *c, struct ll_log_cursor *cursor)
{
    struct lladd_inspect *v = c->v;
    struct ll_record rec;
    int rc = need_record(c, cursor, v->core.control.checkpoint.v, "the last checkpoint");
    for (size_t i = 0; !rc && i < v->txns.len; i++) {
        const struct lladd_inspect_txn *t =
            &((struct ll_inspect_txn *)ll_vec_at(&v->txns, i))->seen;
        rc = need_record(c, cursor, t->id.v, "the first record of a transaction that is not over");
        if (!rc && t->prepared)
            rc = need_record(c, cursor, t->prepare.v, "a prepare record");
    }
    if (rc || !v->info.clean)
        return rc;
    if (ll_log_cursor_read(cursor, v->core.control.end, &rec, NULL) == 0)
        rc = tell_lsn(
            c, LLADD_FINDING_DAMAGE, LLADD_CORRUPT_LOG, rec.lsn.v,
            "the log goes on where the control block says it was closed: \"control\" is older "
            "than the log");
    return rc;
}

static int verify_log(struct verify *c)
{
    struct lladd_inspect *v = c->v;
    if (!v->log) {
        c->log_whole = false;
        return tell_file(c, LLADD_FINDING_DAMAGE, v->log_error.code, "log", NO_OFFSET,
                         v->log_error.message);
    }
    uint64_t told = c->out->damage;
    int rc = ll_log_file_each(v->log, see_segment, c, c->err);
    if (!rc && ll_log_cursor_open(v->log, &c->cursor))
        rc = no_memory(c);
    if (!rc)
        rc = walk_log(c, c->cursor);
    if (!rc)
        rc = check_needs(c, c->cursor);
    if (rc)
        return rc;
    if (v->info.log_end_kind == LLADD_LOG_END_TORN)
        return tell_lsn(c, LLADD_FINDING_NOTE, 0, v->info.log_end.v, v->end_text);
    if (v->log_error.code && c->out->damage == told) /* whatever the survey met */
        return tell_lsn(c, LLADD_FINDING_DAMAGE, v->log_error.code, v->log_error.lsn.v,
                        v->log_error.message);
    return 0;
}

/* ---- the double-write area
 * --------------------------------------------------------------------------------------- */

static int verify_dwb(struct verify *c)
{
    struct lladd_inspect *v = c->v;
    struct lladd_device *dev = v->core.dev;
    uint32_t size = v->core.page_size;
    struct lladd_error why = LLADD_ERROR_INIT;
    struct lladd_file *file;
    int rc = ll_io_open(dev, "dwb", LLADD_OPEN_READ_ONLY, &file);
    if (rc == -ENOENT)
        return tell_file(c, LLADD_FINDING_DAMAGE, LLADD_MISSING_FILE, "dwb", NO_OFFSET,
                         "the double-write area is missing");
    if (rc)
        return tell_file(c, LLADD_FINDING_DAMAGE, ll_fail_io(&why, rc, false, "open", "dwb"), "dwb",
                         NO_OFFSET, why.message);
    c->dwb = ll_alloc(&v->core.env, size);
    rc = c->dwb ? ll_io_read_full(dev, file, c->dwb, size, 0) : -ENOMEM;
    (void)ll_io_close(dev, file); /* only read */
    if (rc == -ENOMEM)
        return no_memory(c);
    if (rc == -ENODATA)
        return tell_file(c, LLADD_FINDING_DAMAGE, LLADD_MISSING_FILE, "dwb", NO_OFFSET,
                         "the double-write area is shorter than a page");
    if (rc)
        return tell_file(c, LLADD_FINDING_DAMAGE, ll_fail_io(&why, rc, false, "read", "dwb"), "dwb",
                         0, why.message);
    rc = ll_dwb_look(c->dwb, size, v->core.salt, &c->dwb_copies, &why);
    if (rc == LLADD_CORRUPT_PAGE && !v->info.clean)
        return tell_file(c, LLADD_FINDING_NOTE, 0, "dwb", 0,
                         "the double-write area was being written: its pages were not touched yet");
    if (rc == LLADD_CORRUPT_PAGE)
        return tell_file(c, LLADD_FINDING_REPAIR, rc, "dwb", 0, why.message);
    if (rc && rc != LLADD_END)
        return tell_file(c, LLADD_FINDING_DAMAGE, rc, "dwb", 0, why.message);
    return 0;
}

/* Has the area a good copy of the page? */
static bool dwb_has(struct verify *c, uint64_t page, unsigned char *scratch)
{
    struct lladd_inspect *v = c->v;
    struct lladd_file *file;
    bool good = false;
    if (v->info.clean || !c->dwb_copies ||
        ll_io_open(v->core.dev, "dwb", LLADD_OPEN_READ_ONLY, &file))
        return false;
    uint32_t size = v->core.page_size;
    for (uint32_t i = 0; !good && i < c->dwb_copies; i++)
        good = ll_dwb_page(c->dwb, i).v == page &&
               ll_io_read_full(v->core.dev, file, scratch, size, (i + 1) * (uint64_t)size) == 0 &&
               ll_page_verify(v->core.salt, lladd_page_of(page), scratch, size, "dwb", NULL) == 0;
    (void)ll_io_close(v->core.dev, file); /* only read */
    return good;
}

/* ---- pages
 * ---------------------------------------------------------------------------------------------------------
 */

/* Why contents that are older than the log say are wrong; NULL: they are not. */
static const char *is_behind(struct verify *c, uint64_t page, const unsigned char *bytes,
                             const struct fence *f, uint64_t *lsn)
{
    const struct history *h = history_of(c, page);
    uint64_t at = ll_page_lsn(bytes).v, fence = f ? f->lsn : 0;
    if (!h || h->last < fence || !c->log_whole)
        return NULL;
    *lsn = h->last;
    if (c->v->info.clean && at < h->last)
        return "a write was lost: the log has a newer record about it";
    if (!c->v->info.clean && h->first && at < h->first && !h->first_is_base &&
        h->first_prev != at && h->first >= fence && (at || !h->base)) {
        *lsn = h->first;
        return "a write was lost: redo will not find it as the record expects";
    }
    return NULL;
}

/* Is the record at the page's LSN one about this page? */
static bool is_foreign(struct verify *c, uint64_t page, const unsigned char *bytes)
{
    struct ll_record rec;
    lladd_lsn at = ll_page_lsn(bytes);
    if (!c->cursor || !c->log_whole || at.v < c->v->info.log_oldest.v)
        return false;
    int rc = ll_log_cursor_read(c->cursor, at, &rec, NULL);
    if (rc == LLADD_OUT_OF_RANGE && at.v < c->v->core.control.checkpoint.v)
        return false; /* in the part of the oldest segment that is given up */
    if (rc)
        return true;
    if (rec.kind == LL_REC_FENCE && rec.redo.len == 16)
        return page - lladd_get64(rec.redo.data) >=
               lladd_get64((const unsigned char *)rec.redo.data + 8);
    return !ll_inspect_about_page(&rec) || rec.page != page;
}

/* A page that is no good: what will become of it? */
static int tell_damaged(struct verify *c, uint64_t page, const struct lladd_error *why,
                        const struct fence *f)
{
    struct lladd_inspect *v = c->v;
    char text[400];
    const struct history *h = history_of(c, page);
    uint64_t fence = f ? f->lsn : 0, base = h ? h->base : 0;
    bool torn = ll_page_verify(v->core.salt, lladd_page_of(page), v->page, v->core.page_size,
                               "pages", NULL) != 0;
    if (f && ll_inspect_txn_of(v, lladd_lsn_of(f->txn))) {
        snprintf(text, sizeof text,
                 "%s; it is being written in bulk by transaction %llu, which is not "
                 "over",
                 why->message, (unsigned long long)f->txn);
        return tell_page(c, LLADD_FINDING_NOTE, 0, page, f->lsn, text);
    }
    if (torn && base && base >= fence) {
        bool redo = !v->info.clean && base >= v->core.control.redo.v;
        snprintf(text, sizeof text, "%s; %s from its base at LSN %llu", why->message,
                 redo ? "redo will rebuild it" : "it will be rebuilt when it is read,",
                 (unsigned long long)base);
        return tell_page(c, LLADD_FINDING_REPAIR, why->code, page, base, text);
    }
    if (torn && dwb_has(c, page, v->page)) {
        snprintf(text, sizeof text, "%s; the double-write area has a good copy", why->message);
        return tell_page(c, LLADD_FINDING_REPAIR, why->code, page, 0, text);
    }
    snprintf(text, sizeof text, "%s%s", why->message,
             torn ? "; the log holds no base to rebuild it from" : "");
    return tell_page(c, LLADD_FINDING_DAMAGE, why->code, page, 0, text);
}

/* Reads the page until it is good or can be believed not to be. */
static int read_well(struct verify *c, uint64_t page, struct lladd_error *why)
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

static bool wrong_root(struct verify *c, uint64_t page)
{
    const struct ll_name *n = ll_catalogue_by_number(&c->v->core, ll_page_type(c->v->page));
    if (page > 1 || (!c->v->info.clean && ll_page_type(c->v->page) == 0))
        return false;
    return !n || strcmp(n->name, page == 0 ? "lladd.root" : "lladd.map") != 0;
}

static int check_contents(struct verify *c, uint64_t page, const struct fence *f)
{
    struct lladd_inspect *v = c->v;
    char text[300];
    uint64_t lsn = 0, at = ll_page_lsn(v->page).v;
    const char *wrong = is_behind(c, page, v->page, f, &lsn);
    if (wrong) {
        snprintf(text, sizeof text, "page %llu has page LSN %llu: %s (LSN %llu)",
                 (unsigned long long)page, (unsigned long long)at, wrong, (unsigned long long)lsn);
        return tell_page(c, LLADD_FINDING_DAMAGE, LLADD_CORRUPT_PAGE, page, lsn, text);
    }
    if (at && is_foreign(c, page, v->page)) {
        snprintf(text, sizeof text,
                 "page %llu has page LSN %llu, where the log has no record about it",
                 (unsigned long long)page, (unsigned long long)at);
        return tell_page(c, LLADD_FINDING_DAMAGE, LLADD_CORRUPT_PAGE, page, at, text);
    }
    if (wrong_root(c, page)) {
        snprintf(text, sizeof text, "page %llu is not what page %llu of every database is",
                 (unsigned long long)page, (unsigned long long)page);
        return tell_page(c, LLADD_FINDING_DAMAGE, LLADD_CORRUPT_PAGE, page, at, text);
    }
    return 0;
}

static int verify_page(struct verify *c, uint64_t page, bool again)
{
    struct lladd_inspect *v = c->v;
    struct lladd_error why = LLADD_ERROR_INIT;
    enum lladd_page_use use;
    bool known;
    int rc = ll_inspect_use(v, lladd_page_of(page), &use, &known, c->err);
    if (rc)
        return rc;
    if (!again)
        c->out->pages++;
    if (known && use == LLADD_USE_RAW) {
        c->out->raw_pages++;
        return 0;
    }
    bool is_free = known && (use == LLADD_USE_NONE || use == LLADD_USE_FREED);
    rc = read_well(c, page, &why);
    if (rc == LLADD_OUT_OF_RANGE && v->info.in_use)
        return 0; /* the file has become shorter; whoever did that is responsible */
    if (is_free) {
        c->out->free_pages += !again;
        return 0;
    }
    c->out->zero_pages += !again && !rc && ll_page_lsn(v->page).v == 0 && !ll_page_type(v->page);
    const struct fence *f = fence_of(c, page, UINT64_MAX);
    if (!rc)
        return check_contents(c, page, f);
    if (rc == LLADD_READ_FAILED)
        return tell_page(c, LLADD_FINDING_DAMAGE, rc, page, 0, why.message);
    if (v->info.in_use == 1 && !again) {
        uint64_t *s = ll_vec_push(&c->suspects);
        if (!s)
            return no_memory(c);
        *s = page;
        return 0;
    }
    return tell_damaged(c, page, &why, f);
}

/* Allocated pages that the file does not have (any more). */
static int check_length(struct verify *c)
{
    struct lladd_inspect *v = c->v;
    uint64_t have = v->info.pages, bytes = v->info.page_file_bytes;
    char text[200];
    int rc = 0;
    if (v->info.in_use == 1)
        return 0; /* it grows */
    if (bytes % v->core.page_size != 0) {
        snprintf(text, sizeof text, "the file has %llu bytes, no whole number of pages",
                 (unsigned long long)bytes);
        rc = tell_file(c, v->info.clean ? LLADD_FINDING_DAMAGE : LLADD_FINDING_NOTE,
                       v->info.clean ? LLADD_MISSING_FILE : 0, "pages", have * v->core.page_size,
                       text);
    }
    if (!rc && have < v->checkpoint_pages) {
        snprintf(text, sizeof text, "the file has %llu pages; it had %llu at the last checkpoint",
                 (unsigned long long)have, (unsigned long long)v->checkpoint_pages);
        rc = tell_file(c, v->info.clean ? LLADD_FINDING_DAMAGE : LLADD_FINDING_NOTE,
                       v->info.clean ? LLADD_MISSING_FILE : 0, "pages", have * v->core.page_size,
                       text);
    }
    return rc;
}

/* Those that looked wrong while somebody was at work: the log has grown meanwhile. */
static int see_new(void *ctx, const struct ll_record *rec)
{
    return check_record(ctx, rec);
}

static int verify_suspects(struct verify *c)
{
    struct lladd_inspect *v = c->v;
    struct lladd_error damage = LLADD_ERROR_INIT;
    if (c->suspects.len == 0)
        return 0;
    int rc = 0;
    if (v->log && c->log_whole) {
        bool scanned = v->scanned;
        v->scanned = false; /* read on where the log ended before */
        rc = ll_inspect_walk(v, lladd_lsn_of(v->known_end), see_new, c, &damage);
        v->scanned = scanned;
    }
    if (rc == LLADD_NO_MEMORY)
        return no_memory(c);
    rc = 0;
    for (size_t i = 0; !rc && i < c->suspects.len; i++)
        rc = verify_page(c, *(uint64_t *)ll_vec_at(&c->suspects, i), true);
    return rc;
}

static int verify_pages(struct verify *c)
{
    struct lladd_inspect *v = c->v;
    if (!v->page_file)
        return tell_file(c, LLADD_FINDING_DAMAGE, v->page_error.code, "pages", NO_OFFSET,
                         v->page_error.message);
    int rc = 0;
    for (uint64_t n = 0; !rc && n < v->info.pages; n++) {
        if (n % (CHUNK / v->core.page_size) == 0)
            ll_io_prefetch(v->core.dev, v->page_file, n * v->core.page_size, 4 * CHUNK);
        rc = verify_page(c, n, false);
    }
    if (!rc)
        rc = check_length(c);
    return rc ? rc : verify_suspects(c);
}

/* ---- all of it
 * -------------------------------------------------------------------------------------------------------
 */

int lladd_inspect_verify(struct lladd_inspect *v, lladd_finding_fn *fn, void *ctx,
                         struct lladd_verified *out, struct lladd_error *err)
{
    struct lladd_verified count = {.struct_size = sizeof count};
    if (!v || !fn || (out && (out->struct_size < sizeof(size_t) || out->struct_size > sizeof *out)))
        return ll_fail(err, LLADD_BAD_ARGUMENT,
                       "no view, nobody to tell, or a result without a size");
    struct verify c = {.v = v, .fn = fn, .ctx = ctx, .out = &count, .err = err, .log_whole = true};
    const struct ll_env *env = &v->core.env;
    ll_map_init(&c.pages, env);
    ll_map_init(&c.txns, env);
    ll_vec_init(&c.histories, env, sizeof(struct history));
    ll_vec_init(&c.fences, env, sizeof(struct fence));
    ll_vec_init(&c.suspects, env, sizeof(uint64_t));
    int rc = verify_control(&c);
    if (!rc)
        rc = verify_log(&c);
    if (!rc)
        rc = verify_dwb(&c);
    if (!rc)
        rc = verify_pages(&c);
    if (c.cursor)
        ll_log_cursor_close(c.cursor);
    ll_free(env, c.dwb);
    ll_vec_free(&c.suspects);
    ll_vec_free(&c.fences);
    ll_vec_free(&c.histories);
    ll_map_free(&c.txns);
    ll_map_free(&c.pages);
    if (out) {
        size_t size = out->struct_size;
        memcpy(out, &count, size);
        out->struct_size = size;
    }
    return rc;
}
