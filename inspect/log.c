/* SPDX-License-Identifier: BSD-2-Clause */
/* Inspection of the log: transactions, records and their fields, without the application's code.
 *
 * The survey does the same as analysis (recovery/analysis.c), but operations need not be
 * registered. The survey skips a record if it cannot decode the record's contents; verify_log.c
 * reports such records. All other functions read record by record with a cursor.
 *
 * The library's own records have field layouts here, like those of operations. Checkpoint data,
 * catalogue entries and prepare records vary too much for a layout; functions print them. */
#include "inspect/inspect_private.h"

#include "io/io.h"

#include <lladd/bytes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TXN_ROW 44u
#define BARRIER_ROW 24u

/* Opening a view reports progress after this many records. */
enum { TELL_EVERY = 0x1000 };

/* `end` 0: unknown. */
static void tell_opening(const struct lladd_inspect *v, lladd_lsn at, uint64_t end)
{
    uint64_t from = v->core.control.redo.v < v->core.control.checkpoint.v
                        ? v->core.control.redo.v
                        : v->core.control.checkpoint.v;
    if (v->opening)
        v->opening(v->opening_ctx, LLADD_PHASE_ANALYSIS, at,
                   end > from && at.v > from ? (unsigned)((at.v - from) * 100 / (end - from)) : 0);
}

/* ---- the survey: what analysis would find --------------------------------------------------- */

struct survey {
    struct lladd_inspect *v;
    struct ll_hashmap txns;  /* id -> struct ll_inspect_txn *, which the survey frees */
    struct ll_hashmap ended; /* transactions that ended before the checkpoint's END */
    bool early;              /* the records that are read now precede the checkpoint's BEGIN:
                              * transaction records are ignored */
    uint64_t begins;
    bool data_seen;
    uint64_t end; /* end of the last record */
    int rc;       /* 0 or LLADD_NO_MEMORY */
};

static struct ll_inspect_txn *want_txn(struct survey *s, uint64_t id)
{
    struct ll_inspect_txn *t = ll_hashmap_get_ptr(&s->txns, id);
    if (t)
        return t;
    t = ll_alloc_zero(&s->v->core.env, sizeof *t);
    if (!t || ll_hashmap_put_ptr(&s->txns, id, t)) {
        ll_free(&s->v->core.env, t);
        s->rc = LLADD_NO_MEMORY;
        return NULL;
    }
    t->seen.id = lladd_lsn_of(id);
    return t;
}

static void see_prepare(struct ll_inspect_txn *t, const struct ll_record *rec)
{
    struct ll_prepared p;
    memset(&p, 0, sizeof p);
    if (!ll_prepare_decode(rec->redo, &p))
        return;
    t->seen.prepared = true;
    t->seen.prepare = rec->lsn;
    t->seen.doubt.gid = p.gid;
    t->seen.doubt.txn = t->seen.id;
    t->seen.doubt.prepared_us = p.prepared_us;
    memcpy(t->seen.doubt.owner, p.owner, sizeof t->seen.doubt.owner);
    t->doubt_known = true;
}

static void see_txn_record(struct survey *s, const struct ll_record *rec)
{
    struct lladd_inspect *v = s->v;
    if (rec->kind == LL_REC_COMMIT || rec->kind == LL_REC_END) {
        struct ll_inspect_txn *gone = ll_hashmap_get_ptr(&s->txns, rec->txn.v);
        if (gone)
            ll_hashmap_remove(&s->txns, rec->txn.v);
        ll_free(&v->core.env, gone);
        if (!s->data_seen && ll_hashmap_put(&s->ended, rec->txn.v, 1))
            s->rc = LLADD_NO_MEMORY;
        return;
    }
    struct ll_inspect_txn *t = want_txn(s, rec->txn.v);
    if (!t)
        return;
    t->seen.last = rec->lsn;
    t->seen.system = rec->flags & LL_REC_SYSTEM;
    t->seen.records++;
    t->log_bytes += rec->size;
    t->seen.prepared = false; /* a record after a prepare record belongs to an abort */
    if (rec->kind == LL_REC_PREPARE)
        see_prepare(t, rec);
}

static void see_txn_row(struct survey *s, const unsigned char *b)
{
    uint64_t id = lladd_get64(b), prepare = lladd_get64(b + 32);
    if (id == 0 || ll_hashmap_find(&s->ended, id))
        return;
    bool known = ll_hashmap_get_ptr(&s->txns, id) != NULL;
    struct ll_inspect_txn *t = want_txn(s, id);
    if (!t)
        return;
    if (!known)
        t->seen.last = lladd_lsn_of(lladd_get64(b + 8));
    t->row = true;
    t->log_bytes += lladd_get64(b + 24);
    t->seen.system = lladd_get32(b + 40) & 1;
    if (prepare && !t->seen.prepared && t->seen.last.v <= prepare) {
        t->seen.prepared = true;
        t->seen.prepare = lladd_lsn_of(prepare);
        t->seen.doubt.txn = t->seen.id;
    }
}

/* Contents that cannot be decoded are reported elsewhere (verify_log.c). */
static void take(struct survey *s, int rc)
{
    if (rc == LLADD_NO_MEMORY)
        s->rc = rc;
}

static void take_barrier(struct survey *s, uint64_t first, uint64_t n, lladd_lsn lsn)
{
    take(s, ll_redo_barrier_add(&s->v->core, first, n, lsn, NULL));
}

static void take_pin(struct survey *s, struct lladd_span payload)
{
    struct ll_pin pin;
    if (ll_pin_decode(payload, &pin))
        take(s, ll_pin_put(&s->v->core, pin.name, pin.lsn, NULL, NULL));
}

static void see_data(struct survey *s, const struct ll_record *rec)
{
    struct ll_core *core = &s->v->core;
    struct lladd_span left = rec->redo, part;
    unsigned kind;
    while (!s->rc && ll_checkpoint_next(&left, &kind, &part)) {
        const unsigned char *b = part.data;
        if (kind == LL_CKPT_TXN && part.len == TXN_ROW)
            see_txn_row(s, b);
        else if (kind == LL_CKPT_NAME)
            take(s, ll_op_catalog_learn(core, part, rec->lsn, NULL));
        else if (kind == LL_CKPT_REDO_BARRIER && part.len == BARRIER_ROW)
            take_barrier(s, lladd_get64(b), lladd_get64(b + 8), lladd_lsn_of(lladd_get64(b + 16)));
        else if (kind == LL_CKPT_PIN)
            take_pin(s, part);
        else if (kind == LL_CKPT_HEURISTIC)
            take(s, ll_heuristic_see(core, part, rec->lsn, NULL));
        else if (kind == LL_CKPT_PAGES && part.len == 8)
            s->v->checkpoint_pages = lladd_get64(b);
    }
}

static int see(void *ctx, const struct ll_record *rec, struct lladd_error *err)
{
    struct survey *s = ctx;
    uint64_t first, n;
    if (s->v->info.analysis_records++ == 0)
        s->early = rec->kind == LL_REC_CHECKPOINT_DATA;
    if (s->v->info.analysis_records % TELL_EVERY == 0)
        tell_opening(s->v, rec->lsn, 0);
    s->v->info.commits += rec->kind == LL_REC_COMMIT;
    s->end = rec->lsn.v + rec->size;
    switch (rec->kind) {
    case LL_REC_CHECKPOINT_BEGIN:
        s->begins++;
        s->early = false;
        break;
    case LL_REC_CHECKPOINT_DATA:
        if (s->early || s->begins == 1)
            see_data(s, rec);
        break;
    case LL_REC_CHECKPOINT_END:
        s->data_seen = s->data_seen || s->begins == 1;
        break;
    case LL_REC_CATALOGUE:
        take(s, ll_op_catalog_learn(&s->v->core, rec->redo, rec->lsn, NULL));
        break;
    case LL_REC_REDO_BARRIER:
        if (ll_redo_barrier_decode(rec, &first, &n))
            take_barrier(s, first, n, rec->lsn);
        break;
    case LL_REC_PIN:
        take_pin(s, rec->redo);
        break;
    case LL_REC_COMMIT:
    case LL_REC_HEURISTIC:
        if (rec->redo.len)
            take(s, ll_heuristic_see(&s->v->core, rec->redo, rec->lsn, NULL));
        break;
    default:
        break;
    }
    if (!s->rc && rec->txn.v && !s->early)
        see_txn_record(s, rec);
    return s->rc ? ll_fail(err, s->rc, "out of memory") : 0;
}

/* ---- reading -------------------------------------------------------------------------------- */

/* Finds the first record at or after `at`. If a record is known to begin at `at`, damage at `at` is
 * an error. Otherwise the first good record is taken. */
static int first_record(struct lladd_inspect *v, struct ll_log_cursor *cursor, lladd_lsn at,
                        struct ll_record *rec, struct lladd_error *err)
{
    bool known = at.v == v->core.control.checkpoint.v || at.v == v->core.control.redo.v ||
                 (at.v == v->info.log_oldest.v && ll_log_begins_at_record(v->log));
    return known ? ll_log_cursor_begin(cursor, at, rec, err)
                 : ll_log_cursor_seek(cursor, at, rec, err);
}

/* For a place that cannot be read: how often to check whether the database in use has truncated the
 * place. */
enum { ASKED = 4 };

/* Is `at` at or after the end that the log had when the view was taken? A log in use grows there,
 * and the view does not read the new part. */
static bool is_end(const struct lladd_inspect *v, lladd_lsn at)
{
    return v->scanned && at.v >= v->info.log_end.v;
}

/* Notes that the log from `at` to `to` was truncated, and its files recycled, before it was
 * read. */
static void note_recycled(struct lladd_inspect *v, uint64_t at, uint64_t to)
{
    v->info.recycled_bytes += to - at;
    v->info.recycled_to = lladd_lsn_of(to);
}

/* A walk that began at `at` found `rec` as its first record, or no record (LLADD_END). If the
 * database in use has truncated `at` since the view was taken, notes the log between `at` and the
 * record as missing. */
static void note_late_start(struct lladd_inspect *v, lladd_lsn at, int rc,
                            const struct ll_record *rec)
{
    uint64_t end = v->info.log_end.v;
    uint64_t to = rc || rec->lsn.v > end ? end : rec->lsn.v;
    if (v->scanned && to > at.v && ll_inspect_oldest_now(v).v > at.v)
        note_recycled(v, at.v, to);
}

/* Handles a record at `at` that cannot be read; `why` is the error. If the database in use has
 * truncated the record meanwhile and recycled its file, finds the oldest record that is left, and
 * returns 0. Otherwise returns `why`. The oldest record may be recycled before it is read, too. But
 * the oldest LSN grows each time, so the loop ends no later than at the view's end. */
static int pass_over(struct lladd_inspect *v, struct ll_log_cursor *cursor, lladd_lsn at, int why,
                     struct ll_record *rec, struct lladd_error *err)
{
    lladd_lsn tried = at;
    int rc = why;
    for (int asked = 0; rc && rc != LLADD_NO_MEMORY && asked < ASKED;) {
        struct lladd_error ignored = LLADD_ERROR_INIT;
        lladd_lsn oldest = ll_inspect_oldest_now(v);
        if (oldest.v <= tried.v) {
            asked++;
            continue;
        }
        asked = 0;
        tried = oldest;
        bool beyond = is_end(v, oldest);
        rc = beyond ? LLADD_END : ll_log_cursor_seek(cursor, oldest, rec, &ignored);
        uint64_t to = rc ? v->info.log_end.v : rec->lsn.v;
        if (rc == 0 || beyond) {
            note_recycled(v, at.v, to);
            return rc;
        }
        if (err)
            *err = ignored;
    }
    return rc;
}

/* Returns the error of a walk that stopped at `at`. The end of a walk is an error if the log ended
 * before the end that the view has recorded. */
static int judge_stop(struct lladd_inspect *v, lladd_lsn at, int rc, struct lladd_error *err)
{
    if (rc != LLADD_END || !v->scanned || is_end(v, at))
        return rc;
    return ll_fail_lsn(err, LLADD_CORRUPT_LOG, at,
                       "the log can no longer be read at LSN %llu; it went on to LSN %llu",
                       (unsigned long long)at.v, (unsigned long long)v->info.log_end.v);
}

int ll_inspect_walk(struct lladd_inspect *v, lladd_lsn from, ll_inspect_visit *fn, void *ctx,
                    struct lladd_error *err)
{
    struct ll_log_cursor *cursor;
    struct lladd_error what = LLADD_ERROR_INIT;
    struct ll_record rec;
    if (!v->log) {
        if (err)
            *err = v->log_error;
        return v->log_error.code;
    }
    int rc = ll_log_cursor_open(v->log, &cursor);
    if (rc)
        return ll_fail(err, rc, "out of memory for a cursor");
    bool told = false;                           /* fn has stopped the walk */
    bool exact = from.v <= v->info.log_oldest.v; /* a record is known to begin at `at` */
    lladd_lsn at = from.v > v->info.log_oldest.v ? from : v->info.log_oldest;
    rc = is_end(v, at) ? LLADD_END : first_record(v, cursor, at, &rec, &what);
    if (rc == 0 || (rc == LLADD_END && !exact))
        note_late_start(v, at, rc, &rec);
    while (!told) {
        if (exact)
            rc = judge_stop(v, at, rc, &what);
        exact = true;
        if (rc && rc != LLADD_END)
            rc = pass_over(v, cursor, at, rc, &rec, &what);
        if (!rc && is_end(v, rec.lsn))
            rc = LLADD_END;
        if (rc)
            break;
        rc = fn(ctx, &rec);
        told = rc != 0;
        at = lladd_lsn_of(rec.lsn.v + rec.size);
        if (!told)
            rc = is_end(v, at) ? LLADD_END : ll_log_cursor_next(cursor, &rec, &what);
    }
    ll_log_cursor_close(cursor);
    if (rc == LLADD_END && !told)
        return 0;
    if (rc && !told && err)
        *err = what;
    return rc;
}

struct tally {
    struct lladd_inspect *v;
    struct ll_inspect_part part;
    bool again; /* not the first pass over the log: records are already counted */
    uint64_t seen;
    int rc;
};

static int count_redo(void *ctx, const struct ll_record *rec)
{
    struct tally *t = ctx;
    struct lladd_inspect_info *i = &t->v->info;
    bool about = ll_redo_index_counts(rec);
    if (!t->again) {
        i->redo_records++;
        i->redo_bytes += rec->size;
        i->redo_page_records += about;
    }
    if (++t->seen % TELL_EVERY == 0)
        tell_opening(t->v, rec->lsn, i->log_end.v);
    if (!about || !ll_part_has(&t->part, rec->page) || ll_hashmap_find(&t->part.pages, rec->page) ||
        !ll_part_make_room(&t->part, rec->page, NULL, NULL))
        return 0;
    if (ll_hashmap_put(&t->part.pages, rec->page, 1))
        return t->rc = LLADD_NO_MEMORY;
    return 0;
}

/* Counts the records and pages that redo would read; 0 after a clean close. */
static int count_work(struct lladd_inspect *v, struct lladd_error *err)
{
    struct tally t = {.v = v};
    struct lladd_error damage = LLADD_ERROR_INIT;
    if (v->info.clean || !v->log)
        return 0;
    /* The walk begins with the oldest log if the first segments are missing. */
    if (!v->log_error.code &&
        ll_log_reaches(v->log, v->core.control.redo, &v->log_error) == LLADD_NO_MEMORY)
        return ll_fail(err, LLADD_NO_MEMORY, "out of memory");
    ll_part_init(&t.part, &v->core.env, v->memory, 0);
    int rc = 0;
    do {
        rc = ll_inspect_walk(v, v->core.control.redo, count_redo, &t, &damage);
        v->info.redo_pages += t.part.pages.count;
        t.again = true;
    } while (!t.rc && rc != LLADD_NO_MEMORY && ll_part_next(&t.part));
    ll_part_free(&t.part);
    if (t.rc || rc == LLADD_NO_MEMORY)
        return ll_fail(err, LLADD_NO_MEMORY, "out of memory");
    if (rc && !v->log_error.code)
        v->log_error = damage;
    return 0;
}

/* ---- after the scan ------------------------------------------------------------------------- */

static int by_id(const void *a, const void *b)
{
    const struct ll_inspect_txn *x = a, *y = b;
    return x->seen.id.v < y->seen.id.v ? -1 : x->seen.id.v > y->seen.id.v;
}

static void keep_txns(struct survey *s)
{
    struct lladd_inspect *v = s->v;
    size_t at = 0;
    uint64_t id, word;
    while (ll_hashmap_next(&s->txns, &at, &id, &word)) {
        struct ll_inspect_txn *t = ll_hashmap_get_ptr(&s->txns, id);
        if (!s->rc && ll_vec_append(&v->txns, t, 1))
            s->rc = LLADD_NO_MEMORY;
        ll_free(&v->core.env, t);
    }
    if (v->txns.len > 1)
        qsort(v->txns.data, v->txns.len, sizeof(struct ll_inspect_txn), by_id);
    for (size_t i = 0; i < v->txns.len; i++) {
        const struct ll_inspect_txn *t = ll_vec_at(&v->txns, i);
        v->info.in_doubt += t->seen.prepared;
        v->info.losers += !t->seen.prepared;
        v->info.undo_log_bytes += t->seen.prepared ? 0 : t->log_bytes;
    }
}

static int read_prepares(struct lladd_inspect *v)
{
    struct ll_log_cursor *cursor = NULL;
    int rc = 0;
    for (size_t i = 0; !rc && i < v->txns.len; i++) {
        struct ll_inspect_txn *t = ll_vec_at(&v->txns, i);
        struct ll_record rec;
        if (!t->seen.prepared || t->doubt_known)
            continue;
        if (!cursor)
            rc = ll_log_cursor_open(v->log, &cursor);
        if (!rc && ll_log_cursor_read(cursor, t->seen.prepare, &rec, NULL) == 0 &&
            rec.kind == LL_REC_PREPARE && rec.txn.v == t->seen.id.v)
            see_prepare(t, &rec);
    }
    ll_log_cursor_close(cursor);
    return rc;
}

static void put_place(struct lladd_inspect *v, uint64_t lsn, char *out, size_t size)
{
    char name[32];
    uint64_t offset;
    if (lladd_inspect_place(v, lladd_lsn_of(lsn), name, &offset))
        snprintf(out, size, "LSN %llu (\"%s\", byte %llu)", (unsigned long long)lsn, name,
                 (unsigned long long)offset);
    else
        snprintf(out, size, "LSN %llu", (unsigned long long)lsn);
}

/* Do the bytes at the log's end begin like a record? If so, that record is incomplete. */
static bool is_torn(struct lladd_inspect *v)
{
    unsigned char head[64];
    struct ll_record rec;
    struct ll_log_place place;
    struct lladd_file *file;
    lladd_lsn end = v->info.log_end;
    if (!ll_log_place(v->log, end, &place) ||
        ll_io_open(v->core.dev, place.name, LLADD_OPEN_READ_ONLY, &file))
        return false;
    int64_t n = ll_io_pread(v->core.dev, file, head, sizeof head, place.offset);
    (void)ll_io_close(v->core.dev, file); /* the file was only read */
    return n > 0 && ll_record_decode(head, (size_t)n, end, 0, &rec, NULL) == LLADD_CORRUPT_LOG;
}

static void judge_end(struct lladd_inspect *v, uint64_t end)
{
    struct lladd_inspect_info *i = &v->info;
    char place[96];
    i->log_end = lladd_lsn_of(end);
    v->known_end = end;
    if (v->log_error.code) {
        bool damaged = v->log_error.code == LLADD_CORRUPT_LOG;
        i->log_end_kind = damaged ? LLADD_LOG_END_DAMAGED : LLADD_LOG_END_UNKNOWN;
        snprintf(v->end_text, sizeof v->end_text, "%s", v->log_error.message);
        return;
    }
    v->scanned = true;
    put_place(v, end, place, sizeof place);
    if (i->clean) {
        i->log_end_kind = LLADD_LOG_END_CLEAN;
        snprintf(v->end_text, sizeof v->end_text, "closed cleanly at %s", place);
    } else if (i->in_use == 1) {
        i->log_end_kind = LLADD_LOG_END_OPEN;
        snprintf(v->end_text, sizeof v->end_text, "written up to %s", place);
    } else if (is_torn(v)) {
        i->log_end_kind = LLADD_LOG_END_TORN;
        snprintf(v->end_text, sizeof v->end_text,
                 "torn tail at %s: a record that was not written completely, normal after a crash",
                 place);
    } else {
        i->log_end_kind = LLADD_LOG_END_OPEN;
        snprintf(v->end_text, sizeof v->end_text, "nothing follows %s", place);
    }
}

int ll_inspect_survey(struct lladd_inspect *v, struct lladd_error *err)
{
    struct survey s = {.v = v, .end = v->core.control.checkpoint.v};
    if (!v->log) {
        judge_end(v, 0);
        return 0;
    }
    ll_hashmap_init(&s.txns, &v->core.env);
    ll_hashmap_init(&s.ended, &v->core.env);
    struct lladd_error damage = LLADD_ERROR_INIT;
    int rc = ll_log_scan(v->log, see, &s, &damage);
    keep_txns(&s);
    ll_hashmap_free(&s.txns);
    ll_hashmap_free(&s.ended);
    if (s.rc || rc == LLADD_NO_MEMORY)
        return ll_fail(err, LLADD_NO_MEMORY, "out of memory");
    if (rc && !v->log_error.code)
        v->log_error = damage;
    judge_end(v, !rc && v->info.clean ? v->core.control.end.v : s.end);
    rc = read_prepares(v);
    if (rc)
        return ll_fail(err, rc, "out of memory");
    return count_work(v, err);
}

const struct ll_inspect_txn *ll_inspect_txn_of(const struct lladd_inspect *v, lladd_lsn id)
{
    for (size_t i = 0; i < v->txns.len; i++) {
        const struct ll_inspect_txn *t = ll_vec_at(&v->txns, i);
        if (t->seen.id.v == id.v)
            return t;
    }
    return NULL;
}

bool lladd_inspect_place(struct lladd_inspect *v, lladd_lsn lsn, char name[32], uint64_t *offset)
{
    struct ll_log_place place;
    if (!v->log || !ll_log_place(v->log, lsn, &place))
        return false;
    memcpy(name, place.name, sizeof place.name);
    *offset = place.offset;
    return true;
}

/* ---- the public functions ------------------------------------------------------------------- */

static const struct lladd_field seal_fields[] = {{"durable", LLADD_FIELD_LSN},
                                                 {NULL, LLADD_FIELD_END}};
static const struct lladd_field barrier_fields[] = {
    {"first", LLADD_FIELD_PAGE}, {"pages", LLADD_FIELD_U64}, {NULL, LLADD_FIELD_END}};
static const struct lladd_field pin_fields[] = {
    {"lsn", LLADD_FIELD_LSN}, {"name", LLADD_FIELD_TEXT}, {NULL, LLADD_FIELD_END}};
static const struct lladd_field checkpoint_end_fields[] = {
    {"checkpoint", LLADD_FIELD_LSN}, {"redo", LLADD_FIELD_LSN}, {NULL, LLADD_FIELD_END}};
static const struct lladd_field image_fields[] = {
    {"type", LLADD_FIELD_U16}, {"page_flags", LLADD_FIELD_U16}, {"hole_at", LLADD_FIELD_U32},
    {"hole", LLADD_FIELD_U32}, {"body", LLADD_FIELD_REST},      {NULL, LLADD_FIELD_END}};
static const struct lladd_field action_fields[] = {{"undo_used", LLADD_FIELD_U64},
                                                   {NULL, LLADD_FIELD_END}};
static const struct lladd_field blob_fields[] = {{"total", LLADD_FIELD_U32},
                                                 {"at", LLADD_FIELD_U32},
                                                 {"bytes", LLADD_FIELD_REST},
                                                 {NULL, LLADD_FIELD_END}};
static const struct lladd_field note_fields[] = {{"bytes", LLADD_FIELD_TEXT},
                                                 {NULL, LLADD_FIELD_END}};

static const struct lladd_field *own_fields(unsigned kind)
{
    static const struct lladd_field *const fields[LL_REC_KINDS] = {
        [LL_REC_SEAL] = seal_fields,      [LL_REC_REDO_BARRIER] = barrier_fields,
        [LL_REC_PIN] = pin_fields,        [LL_REC_CHECKPOINT_END] = checkpoint_end_fields,
        [LL_REC_IMAGE] = image_fields,    [LL_REC_ACTION_END] = action_fields,
        [LL_REC_CLR_END] = action_fields, [LL_REC_PREPARE_BLOB] = blob_fields,
        [LL_REC_NOTE] = note_fields,
    };
    return kind < LL_REC_KINDS ? fields[kind] : NULL;
}

static void translate(struct lladd_inspect *v, const struct ll_record *rec,
                      struct lladd_inspect_record *out)
{
    const struct ll_name *n = ll_op_catalog_by_number(&v->core, rec->op);
    memset(out, 0, sizeof *out);
    out->entry = ll_log_entry_of(&v->core, rec);
    out->size = rec->size;
    out->number = rec->op;
    out->flags = rec->flags;
    out->redo_fields = own_fields(rec->kind);
    if (!out->redo_fields && n && rec->kind != LL_REC_CATALOGUE)
        out->redo_fields = ll_op_catalog_fields(n, false);
    out->undo_fields = n ? ll_op_catalog_fields(n, true) : NULL;
}

struct forward {
    struct lladd_inspect *v;
    lladd_inspect_record_fn *fn;
    void *ctx;
};

static int forward(void *ctx, const struct ll_record *rec)
{
    struct forward *f = ctx;
    struct lladd_inspect_record out;
    translate(f->v, rec, &out);
    return f->fn(f->ctx, &out);
}

int lladd_inspect_log(struct lladd_inspect *v, lladd_lsn from, lladd_inspect_record_fn *fn,
                      void *ctx, struct lladd_error *err)
{
    if (!v || !fn)
        return ll_fail(err, LLADD_BAD_ARGUMENT, "view or callback is NULL");
    struct forward f = {v, fn, ctx};
    v->info.recycled_bytes = 0;
    v->info.recycled_to = lladd_lsn_of(0);
    return ll_inspect_walk(v, from, forward, &f, err);
}

/* ---- in words ------------------------------------------------------------------------------- */

static void print_hex(struct lladd_sink *sink, const void *bytes, size_t len)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < len; i++)
        lladd_sink_printf(sink, "%02x", p[i]);
}

static void print_gid(const struct lladd_gid *gid, struct lladd_sink *sink)
{
    lladd_sink_printf(sink, "gid=%lld:", (long long)gid->format);
    print_hex(sink, gid->data, gid->gtrid_length);
    lladd_sink_printf(sink, ":");
    print_hex(sink, gid->data + gid->gtrid_length, gid->bqual_length);
}

static void describe_outcome(const struct ll_record *rec, struct lladd_sink *sink)
{
    static const char *const what[] = {"forgotten", "committed", "aborted"};
    struct ll_heuristic h;
    if (!ll_heuristic_decode(rec->redo, &h)) {
        lladd_sink_printf(sink, "invalid heuristic outcome");
        return;
    }
    lladd_sink_printf(sink, "%s by decision, ", what[h.outcome]);
    print_gid(&h.what.gid, sink);
    lladd_sink_printf(sink, " decided_us=%lld", (long long)h.decided_us);
}

static void describe_prepare(const struct ll_record *rec, struct lladd_sink *sink)
{
    struct ll_prepared p;
    memset(&p, 0, sizeof p);
    if (!ll_prepare_decode(rec->redo, &p)) {
        lladd_sink_printf(sink, "invalid prepare record");
        return;
    }
    print_gid(&p.gid, sink);
    lladd_sink_printf(sink, " prepared_us=%lld owner=\"%s\"", (long long)p.prepared_us, p.owner);
}

static void describe_name(struct lladd_inspect *v, struct lladd_span payload,
                          struct lladd_sink *sink)
{
    struct ll_name n;
    int rc = ll_op_catalog_decode(&v->core.env, payload, &n, NULL);
    if (rc == LLADD_NO_MEMORY)
        sink->failed = rc;
    else if (rc)
        lladd_sink_printf(sink, "invalid catalogue entry");
    if (rc)
        return;
    lladd_sink_printf(sink, "%s %u = %s@%u", lladd_name_kind_text((enum lladd_name_kind)n.kind),
                      n.number, n.name, n.version);
    const char *type = ll_inspect_page_type(v, &n);
    if (type)
        lladd_sink_printf(sink, " on %s", type);
    for (int u = 0; u < 2; u++) {
        const struct lladd_field *f = u ? n.undo_fields : n.redo_fields;
        for (bool first = true; f && f->name; f++, first = false)
            lladd_sink_printf(sink, "%s%s", first ? (u ? " undo: " : " redo: ") : ", ", f->name);
    }
    ll_op_catalog_drop(&v->core.env, &n);
}

static void describe_data(const struct ll_record *rec, struct lladd_sink *sink)
{
    static const char *const names[] = {"?",
                                        "transactions",
                                        "names",
                                        "redo barriers",
                                        "pins",
                                        "size of the page file",
                                        "heuristic outcomes"};
    enum { PARTS = sizeof names / sizeof *names };
    struct lladd_span left = rec->redo, part;
    size_t count[PARTS] = {0};
    unsigned kind;
    bool first = true;
    if (left.len == 0) {
        lladd_sink_printf(sink, "a checkpoint begins");
        return;
    }
    while (ll_checkpoint_next(&left, &kind, &part))
        count[kind < PARTS ? kind : 0]++;
    for (size_t i = 1; i < PARTS; i++) {
        if (count[i] == 0)
            continue;
        if (i == LL_CKPT_PAGES)
            lladd_sink_printf(sink, "%sthe %s", first ? "" : ", ", names[i]);
        else
            lladd_sink_printf(sink, "%s%zu %s", first ? "" : ", ", count[i], names[i]);
        first = false;
    }
    if (left.len || count[0])
        lladd_sink_printf(sink, "%sinvalid parts", first ? "" : ", ");
}

static void describe_span(const struct lladd_op *op, const struct lladd_field *fields,
                          enum lladd_span_kind kind, struct lladd_span s, struct lladd_sink *sink)
{
    if (fields) {
        if (!lladd_fields_print(fields, s, sink))
            lladd_sink_printf(sink, "%s", " (does not fit its layout)");
    } else if (s.len && !(op && op->describe)) {
        print_hex(sink, s.data, s.len < 32 ? s.len : 32);
        if (s.len > 32)
            lladd_sink_printf(sink, "... (%zu bytes)", s.len);
    }
    if (op && op->describe) {
        if (fields)
            lladd_sink_printf(sink, " ");
        op->describe(op->ctx, sink, kind, s);
    }
}

static void describe_class(const struct lladd_object_class *c, const struct lladd_inspect_record *r,
                           struct lladd_sink *sink)
{
    lladd_sink_printf(sink, "object=%llu", (unsigned long long)r->entry.page);
    for (int u = 0; u < 2; u++) {
        struct lladd_span s = u ? r->entry.undo : r->entry.redo;
        if (s.len == 0)
            continue;
        lladd_sink_printf(sink, u ? " | undo " : " ");
        if (c && c->describe)
            c->describe(c->ctx, sink, u ? LLADD_SPAN_UNDO : LLADD_SPAN_REDO, s);
        else
            describe_span(NULL, NULL, u ? LLADD_SPAN_UNDO : LLADD_SPAN_REDO, s, sink);
    }
}

static void describe_spans(struct lladd_inspect *v, const struct lladd_inspect_record *r,
                           struct lladd_sink *sink)
{
    const struct ll_name *n = ll_op_catalog_by_number(&v->core, r->number);
    const struct lladd_op *op = n && n->kind == LL_NAME_OP ? n->desc : NULL;
    bool own = own_fields(r->entry.kind) != NULL;
    bool first = true;
    if (r->entry.redo.len) {
        describe_span(own ? NULL : op, r->redo_fields, LLADD_SPAN_REDO, r->entry.redo, sink);
        first = false;
    }
    if (r->entry.undo.len) {
        lladd_sink_printf(sink, first ? "undo " : " | undo ");
        describe_span(op, r->undo_fields, LLADD_SPAN_UNDO, r->entry.undo, sink);
    }
}

static void describe_image(struct lladd_inspect *v, const struct lladd_inspect_record *r,
                           struct lladd_sink *sink)
{
    const unsigned char *p = r->entry.redo.data;
    if (r->entry.redo.len < 12) {
        lladd_sink_printf(sink, "invalid page image");
        return;
    }
    const struct ll_name *n = ll_op_catalog_by_number(&v->core, lladd_get16(p));
    lladd_sink_printf(sink, "page of type %s, %zu bytes%s", n ? n->name : "unknown",
                      r->entry.redo.len - 12, r->flags & LL_REC_COMPRESSED ? " compressed" : "");
    if (lladd_get32(p + 8))
        lladd_sink_printf(sink, ", hole of %u at %u", lladd_get32(p + 8), lladd_get32(p + 4));
}

void lladd_inspect_describe(struct lladd_inspect *v, const struct lladd_inspect_record *r,
                            struct lladd_sink *sink)
{
    struct ll_record rec = {.redo = r->entry.redo};
    const struct ll_name *n = ll_op_catalog_by_number(&v->core, r->number);
    switch (r->entry.kind) {
    case LL_REC_PREPARE:
        describe_prepare(&rec, sink);
        break;
    case LL_REC_HEURISTIC:
        describe_outcome(&rec, sink);
        break;
    case LL_REC_COMMIT:
        if (rec.redo.len)
            describe_outcome(&rec, sink);
        break;
    case LL_REC_CATALOGUE:
        describe_name(v, r->entry.redo, sink);
        break;
    case LL_REC_CHECKPOINT_DATA:
        describe_data(&rec, sink);
        break;
    case LL_REC_IMAGE:
        describe_image(v, r, sink);
        break;
    case LL_REC_OBJECT:
    case LL_REC_OBJECT_CLR:
        describe_class(n && n->kind == LL_NAME_CLASS ? n->desc : NULL, r, sink);
        break;
    default:
        describe_spans(v, r, sink);
    }
}
