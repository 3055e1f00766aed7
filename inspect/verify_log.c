/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Verification of the log: checks every record that can be read, even after damage, and collects
 * what verify.c needs about pages and transactions.
 *
 * Even a record with a good checksum can be wrong. Its contents may not fit its kind. The catalogue
 * may lack its number. Its link to the previous record may be wrong.
 */
#include "inspect/inspect_private.h"

#include <lladd/bytes.h>
#include <stdio.h>
#include <string.h>

/* ---- single records ---------------------------------------------------------------- */

static bool part_fits(unsigned kind, struct lladd_span s)
{
    struct ll_heuristic h;
    struct ll_pin pin;
    switch (kind) {
    case LL_CKPT_TXN:
        return s.len == 44;
    case LL_CKPT_NAME:
        return s.len >= 16 && lladd_get32(s.data) != 0;
    case LL_CKPT_REDO_BARRIER:
        return s.len == 24;
    case LL_CKPT_PIN:
        return ll_pin_decode(s, &pin);
    case LL_CKPT_PAGES:
        return s.len == 8;
    case LL_CKPT_HEURISTIC:
        return ll_heuristic_decode(s, &h);
    default:
        return false;
    }
}

static bool data_fit(struct lladd_span left)
{
    struct lladd_span part;
    unsigned kind;
    while (left.len)
        if (!ll_checkpoint_next(&left, &kind, &part) || !part_fits(kind, part))
            return false;
    return true;
}

static bool payload_fits(const struct ll_record *rec)
{
    struct ll_prepared p;
    struct ll_heuristic h;
    struct ll_pin pin;
    switch (rec->kind) {
    case LL_REC_CHECKPOINT_DATA:
        return data_fit(rec->redo);
    case LL_REC_CHECKPOINT_END:
        return rec->redo.len == 16;
    case LL_REC_SEAL:
        return rec->redo.len == 8 && lladd_get64(rec->redo.data) <= rec->lsn.v;
    case LL_REC_REDO_BARRIER:
        return rec->redo.len == 16;
    case LL_REC_PIN:
        return ll_pin_decode(rec->redo, &pin);
    case LL_REC_PREPARE:
        return ll_prepare_decode(rec->redo, &p);
    case LL_REC_COMMIT:
        return rec->redo.len == 0 || ll_heuristic_decode(rec->redo, &h);
    case LL_REC_HEURISTIC:
        return ll_heuristic_decode(rec->redo, &h);
    case LL_REC_PREPARE_BLOB:
        return rec->redo.len >= 8;
    case LL_REC_IMAGE:
        return rec->redo.len >= 12;
    default:
        return true;
    }
}

/* Learns a catalogue entry; an entry that contradicts an earlier one is damage. */
static int learn(struct ll_verify *c, struct lladd_span payload, lladd_lsn lsn)
{
    struct lladd_error why = LLADD_ERROR_INIT;
    int rc = ll_op_catalog_learn(&c->v->core, payload, lsn, &why);
    if (rc == LLADD_NO_MEMORY)
        return ll_verify_no_memory(c);
    return rc ? ll_verify_tell_lsn(c, LLADD_FINDING_DAMAGE, rc, lsn.v, why.message) : 0;
}

static int learn_data(struct ll_verify *c, const struct ll_record *rec)
{
    struct lladd_span left = rec->redo, part;
    unsigned kind;
    int rc = 0;
    while (!rc && ll_checkpoint_next(&left, &kind, &part))
        if (kind == LL_CKPT_NAME)
            rc = learn(c, part, rec->lsn);
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

static int check_name(struct ll_verify *c, const struct ll_record *rec)
{
    char text[200];
    if (rec->op == 0)
        return 0;
    const struct ll_name *n = ll_op_catalog_by_number(&c->v->core, rec->op);
    if (n && name_fits(rec, n))
        return 0;
    if (!n && !c->log_whole)
        return 0; /* the catalogue entry may be in the damaged part */
    if (n)
        snprintf(text, sizeof text, "a record of kind %s names %s \"%s\"",
                 ll_record_kind_name(rec->kind),
                 lladd_name_kind_text((enum lladd_name_kind)n->kind), n->name);
    else
        snprintf(text, sizeof text, "a record names number %u, which is in no catalogue", rec->op);
    return ll_verify_tell_lsn(c, LLADD_FINDING_DAMAGE, LLADD_CORRUPT_LOG, rec->lsn.v, text);
}

/* If the oldest segment begins inside a truncated record, the walk begins at the first good
 * record. The loss of records before it is noticed only if a later record contains their LSN. */
static void note_named(struct ll_verify *c, uint64_t lsn)
{
    if (lsn >= c->v->info.log_oldest.v && lsn < c->log_begins &&
        (c->hidden == 0 || lsn < c->hidden))
        c->hidden = lsn;
}

/* Checks the record's `prev`, the LSN of the previous record of its transaction. */
static int check_chain(struct ll_verify *c, const struct ll_record *rec)
{
    char text[200];
    uint64_t before;
    int rc = 0;
    if (rec->txn.v == 0)
        return 0;
    bool known = ll_hashmap_get(&c->txns, rec->txn.v, &before);
    uint64_t want = known ? before : rec->txn.v == rec->lsn.v ? 0 : rec->prev.v;
    if (rec->prev.v != want && c->log_whole) {
        snprintf(
            text, sizeof text,
            "a record of transaction %llu says that the transaction's previous record is at LSN "
            "%llu; that record is at %llu",
            (unsigned long long)rec->txn.v, (unsigned long long)rec->prev.v,
            (unsigned long long)want);
        rc = ll_verify_tell_lsn(c, LLADD_FINDING_DAMAGE, LLADD_CORRUPT_LOG, rec->lsn.v, text);
    }
    if (rec->kind == LL_REC_COMMIT || rec->kind == LL_REC_END)
        ll_hashmap_remove(&c->txns, rec->txn.v);
    else if (ll_hashmap_put(&c->txns, rec->txn.v, rec->lsn.v))
        return ll_verify_no_memory(c);
    return rc;
}

/* ---- pages ------------------------------------------------------------------------- */

struct ll_verify_history *ll_verify_history_of(const struct ll_verify *c, uint64_t page)
{
    uint64_t index;
    bool known = ll_hashmap_get(&c->part.pages, page, &index);
    return known ? ll_vec_at(&c->histories, (size_t)index) : NULL;
}

static void give_up(void *ctx, uint64_t index)
{
    struct ll_verify *c = ctx;
    size_t at = (size_t)index;
    int rc = ll_vec_append(&c->unused, &at, 1);
    LL_ASSERT(rc == 0); /* new_history has reserved the memory */
    (void)rc;
}

static int new_history(struct ll_verify *c, size_t *out)
{
    struct ll_verify_history *h;
    size_t quarter = c->part.most / 4;
    if (c->unused.len) {
        *out = *(size_t *)ll_vec_at(&c->unused, c->unused.len - 1);
        ll_vec_truncate(&c->unused, c->unused.len - 1);
        h = ll_vec_at(&c->histories, *out);
        memset(h, 0, sizeof *h);
        return 0;
    }
    /* The array grows to its final size in one step, because during growth it needs memory
     * twice. */
    if (c->histories.len == quarter &&
        (ll_vec_reserve(&c->histories, c->part.most) || ll_vec_reserve(&c->unused, c->part.most)))
        return LLADD_NO_MEMORY;
    *out = c->histories.len;
    return ll_vec_push(&c->histories) ? 0 : LLADD_NO_MEMORY;
}

/* Finds or makes the page's history; *out NULL: the page is not in this part. */
static int want_history(struct ll_verify *c, uint64_t page, struct ll_verify_history **out)
{
    size_t at;
    *out = ll_part_has(&c->part, page) ? ll_verify_history_of(c, page) : NULL;
    if (*out || !ll_part_has(&c->part, page) || !ll_part_make_room(&c->part, page, give_up, c))
        return 0;
    if (new_history(c, &at) || ll_hashmap_put(&c->part.pages, page, at))
        return ll_verify_no_memory(c);
    *out = ll_vec_at(&c->histories, at);
    return 0;
}

const struct ll_verify_barrier *ll_verify_barrier_of(const struct ll_verify *c, uint64_t page,
                                                     uint64_t to)
{
    for (size_t i = c->barriers.len; i-- > 0;) {
        const struct ll_verify_barrier *f = ll_vec_at(&c->barriers, i);
        if (f->lsn <= to && page >= f->first && page - f->first < f->n)
            return f;
    }
    return NULL;
}

/* When a free is durable, the freed page is dropped from the cache without being written. The page
 * may be allocated again and formatted much later. So its bytes on disk prove nothing until the
 * next record about the page (BUF-6). A free that is undone drops no page: pages stay in the cache
 * until the commit. */
static void note_given_up(struct ll_verify *c, const struct ll_record *rec)
{
    const struct ll_name *n = ll_op_catalog_by_number(&c->v->core, rec->op);
    bool undone = rec->kind == LL_REC_CLR;
    struct lladd_span range = undone ? rec->undo : rec->redo;
    if (!n || n->kind != LL_NAME_OP || range.len < 8)
        return;
    bool frees = strcmp(n->name, "lladd.map.free") == 0;
    if (!frees && (!undone || strcmp(n->name, "lladd.map.take") != 0))
        return;
    const unsigned char *p = range.data;
    uint64_t first = (rec->page == 1 ? 0 : rec->page) + lladd_get32(p);
    for (uint64_t i = 0; i < lladd_get32(p + 4); i++) {
        struct ll_verify_history *h = ll_verify_history_of(c, first + i);
        if (!h)
            continue;
        bool before = h->given_up;
        h->given_up = !frees || !undone || h->given_up_before;
        h->given_up_before = before;
    }
}

static void set_blank(struct ll_verify *c, uint64_t first, uint64_t n, bool blank)
{
    for (uint64_t i = first; i < c->blank_pages && i - first < n; i++)
        c->blank[i / 8] = (unsigned char)(blank ? c->blank[i / 8] | 1u << i % 8
                                                : c->blank[i / 8] & ~(1u << i % 8));
}

/* A page that is taken keeps the bytes of its earlier use until it is formatted, or until a redo
 * barrier says that it is written in bulk. */
static void note_blank(struct ll_verify *c, const struct ll_record *rec)
{
    uint64_t first, n;
    if (ll_redo_barrier_decode(rec, &first, &n))
        set_blank(c, first, n, false);
    if (!ll_redo_index_counts(rec))
        return;
    set_blank(c, rec->page, 1, false);
    const struct ll_name *op = ll_op_catalog_by_number(&c->v->core, rec->op);
    const unsigned char *p = rec->redo.data;
    if (rec->kind == LL_REC_UPDATE && op && op->kind == LL_NAME_OP && rec->redo.len >= 8 &&
        strcmp(op->name, "lladd.map.take") == 0)
        set_blank(c, (rec->page == 1 ? 0 : rec->page) + lladd_get32(p), lladd_get32(p + 4), true);
}

bool ll_verify_is_blank(const struct ll_verify *c, uint64_t page)
{
    return c->log_whole && page < c->blank_pages && (c->blank[page / 8] >> page % 8 & 1);
}

static int take_page_record(struct ll_verify *c, struct ll_verify_history *h,
                            const struct ll_record *rec)
{
    char text[200];
    int rc = 0;
    bool base = ll_redo_is_base(rec);
    const struct ll_verify_barrier *f = ll_verify_barrier_of(c, rec->page, rec->lsn.v);
    uint64_t before = f && f->lsn > h->last ? f->lsn : h->last;
    if (!base && before && rec->page_prev.v != before && c->log_whole &&
        !ll_hashmap_find(&c->told, rec->lsn.v)) {
        if (ll_hashmap_put(&c->told, rec->lsn.v, 1))
            return ll_verify_no_memory(c);
        snprintf(
            text, sizeof text,
            "a record about page %llu expects page LSN %llu; the record before it is at LSN "
            "%llu",
            (unsigned long long)rec->page, (unsigned long long)rec->page_prev.v,
            (unsigned long long)before);
        rc = ll_verify_tell_lsn(c, LLADD_FINDING_DAMAGE, LLADD_CORRUPT_LOG, rec->lsn.v, text);
    }
    if (base)
        h->base = rec->lsn.v;
    if (!h->first && rec->lsn.v >= c->v->core.control.redo.v) {
        h->first = rec->lsn.v;
        h->first_prev = rec->page_prev.v;
        h->first_is_base = base;
    }
    h->last = rec->lsn.v;
    h->given_up = h->given_up_before = false;
    return rc;
}

/* The pages that a record frees may be in this part, although their bitmap is in another one. */
static int check_page_record(struct ll_verify *c, const struct ll_record *rec)
{
    struct ll_verify_history *h;
    int rc = want_history(c, rec->page, &h);
    if (!rc && h)
        rc = take_page_record(c, h, rec);
    note_given_up(c, rec);
    return rc;
}

static int take_barrier(struct ll_verify *c, const struct ll_record *rec)
{
    struct ll_verify_barrier *f = ll_vec_push(&c->barriers);
    if (!f)
        return ll_verify_no_memory(c);
    (void)ll_redo_barrier_decode(rec, &f->first, &f->n);
    f->lsn = rec->lsn.v;
    f->txn = rec->txn.v;
    return 0;
}

static int check_record(struct ll_verify *c, const struct ll_record *rec)
{
    enum { TELL_EVERY = 0x1000 };
    char text[200];
    const struct lladd_inspect_info *i = &c->v->info;
    if (++c->seen % TELL_EVERY == 0 && i->log_end.v > i->log_oldest.v)
        ll_verify_progress(c, "log", rec->lsn.v - i->log_oldest.v, i->log_end.v - i->log_oldest.v);
    if (c->pass > 0)
        return ll_redo_index_counts(rec) && payload_fits(rec) ? check_page_record(c, rec) : 0;
    c->out->records++;
    if (rec->lsn.v + rec->size > c->v->known_end)
        c->v->known_end = rec->lsn.v + rec->size;
    int rc = 0;
    if (c->log_begins == 0)
        c->log_begins = rec->lsn.v;
    if (c->log_whole) {
        note_named(c, rec->txn.v);
        note_named(c, rec->prev.v);
        note_named(c, rec->page_prev.v);
        note_named(c, rec->undo_next.v);
    }
    if (!payload_fits(rec)) {
        snprintf(text, sizeof text, "invalid contents of a record of kind %s",
                 ll_record_kind_name(rec->kind));
        return ll_verify_tell_lsn(c, LLADD_FINDING_DAMAGE, LLADD_BAD_RECORD, rec->lsn.v, text);
    }
    if (rec->kind == LL_REC_CATALOGUE)
        rc = learn(c, rec->redo, rec->lsn);
    else if (rec->kind == LL_REC_CHECKPOINT_DATA)
        rc = learn_data(c, rec);
    else if (rec->kind == LL_REC_REDO_BARRIER)
        rc = take_barrier(c, rec);
    note_blank(c, rec);
    if (!rc)
        rc = check_name(c, rec);
    if (!rc)
        rc = check_chain(c, rec);
    return !rc && ll_redo_index_counts(rec) ? check_page_record(c, rec) : rc;
}

/* ---- all of it --------------------------------------------------------------------- */

static int see_segment(void *ctx, const struct ll_log_file *f)
{
    struct ll_verify *c = ctx;
    c->out->segments += f->in_use;
    if (!f->code)
        return 0;
    c->log_whole = false;
    return ll_verify_tell(c, (struct lladd_finding){.kind = LLADD_FINDING_DAMAGE,
                                                    .code = f->code,
                                                    .file = f->name,
                                                    .offset = 0,
                                                    .lsn = f->first,
                                                    .page = {LLADD_NO_PAGE},
                                                    .message = f->why});
}

/* Reports a place that cannot be read, and continues after this place. 0: *rec is the next good
 * record; LLADD_END: no good record follows. */
static int pass_damage(struct ll_verify *c, struct ll_log_cursor *cursor,
                       const struct lladd_error *first, uint64_t at, struct ll_record *rec,
                       int code)
{
    struct lladd_error what = *first;
    uint64_t lsn = what.lsn.v > at ? what.lsn.v : at;
    c->log_whole = false;
    for (;;) {
        int rc =
            c->pass > 0 ? 0 : ll_verify_tell_lsn(c, LLADD_FINDING_DAMAGE, code, lsn, what.message);
        if (rc)
            return rc;
        what = (struct lladd_error)LLADD_ERROR_INIT;
        code = ll_log_cursor_seek(cursor, lladd_lsn_of(lsn + 8), rec, &what);
        if (code == LLADD_NO_MEMORY)
            return ll_verify_no_memory(c);
        if (code == 0)
            return rec->lsn.v > lsn ? 0 : LLADD_END;
        if (code == LLADD_END || what.lsn.v <= lsn) /* nothing after it can be read */
            return LLADD_END;
        lsn = what.lsn.v;
    }
}

static bool is_beyond(const struct lladd_inspect *v, const struct ll_record *rec)
{
    return v->info.clean && rec->lsn.v >= v->core.control.end.v;
}

static int walk_log(struct ll_verify *c, struct ll_log_cursor *cursor)
{
    struct lladd_inspect *v = c->v;
    struct lladd_error what = LLADD_ERROR_INIT;
    struct ll_record rec;
    uint64_t at = v->info.log_oldest.v;
    /* If the oldest segment begins inside a truncated record, the log begins at the first good
     * record. */
    int rc = ll_log_begins_at_record(v->log)
                 ? ll_log_cursor_read(cursor, v->info.log_oldest, &rec, &what)
                 : ll_log_cursor_seek(cursor, v->info.log_oldest, &rec, &what);
    if (rc == LLADD_OUT_OF_RANGE && v->known_end <= at)
        rc = LLADD_END; /* the log is empty */
    for (;;) {
        bool told = false;
        if (rc == LLADD_NO_MEMORY)
            return ll_verify_no_memory(c);
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

/* Checks a record that recovery will read by its LSN. */
static int need_record(struct ll_verify *c, struct ll_log_cursor *cursor, uint64_t lsn,
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
        return ll_verify_no_memory(c);
    snprintf(text, sizeof text, "%s: %s", why, what.message);
    return ll_verify_tell_lsn(c, LLADD_FINDING_DAMAGE,
                              rc == LLADD_OUT_OF_RANGE ? LLADD_MISSING_FILE : rc, lsn, text);
}

static int check_pins(struct ll_verify *c)
{
    const struct ll_core *core = &c->v->core;
    char text[300];
    int rc = 0;
    for (size_t i = 0; !rc && i < core->n_pins; i++) {
        uint64_t lsn = core->pins[i].lsn.v;
        if (lsn >= ll_log_whole_from(c->v->log).v)
            continue;
        snprintf(text, sizeof text,
                 "pin \"%s\" keeps the log from LSN %llu on; the log begins at LSN %llu",
                 core->pins[i].name, (unsigned long long)lsn,
                 (unsigned long long)c->v->info.log_oldest.v);
        rc = ll_verify_tell_lsn(c, LLADD_FINDING_DAMAGE, LLADD_MISSING_FILE, lsn, text);
    }
    return rc;
}

static int check_needs(struct ll_verify *c, struct ll_log_cursor *cursor)
{
    struct lladd_inspect *v = c->v;
    struct ll_record rec;
    int rc = check_pins(c);
    if (!rc && c->hidden)
        rc = ll_verify_tell_lsn(c, LLADD_FINDING_DAMAGE, LLADD_CORRUPT_LOG, c->hidden,
                                "a later record names a record at this LSN, but none begins there");
    c->log_whole = c->log_whole && !c->hidden;
    if (!rc)
        rc = need_record(c, cursor, v->core.control.checkpoint.v, "the last checkpoint");
    for (size_t i = 0; !rc && i < v->txns.len; i++) {
        const struct lladd_inspect_txn *t =
            &((struct ll_inspect_txn *)ll_vec_at(&v->txns, i))->seen;
        rc =
            need_record(c, cursor, t->id.v, "the first record of a transaction that has not ended");
        if (!rc && t->prepared)
            rc = need_record(c, cursor, t->prepare.v, "a prepare record");
    }
    if (rc || !v->info.clean)
        return rc;
    if (ll_log_cursor_read(cursor, v->core.control.end, &rec, NULL) == 0)
        rc = ll_verify_tell_lsn(
            c, LLADD_FINDING_DAMAGE, LLADD_CORRUPT_LOG, rec.lsn.v,
            "the log goes on where the control block says it was closed: \"control\" is older "
            "than the log");
    return rc;
}

int ll_verify_log(struct ll_verify *c)
{
    struct lladd_inspect *v = c->v;
    if (!v->log) {
        c->log_whole = false;
        return ll_verify_tell_file(c, LLADD_FINDING_DAMAGE, v->log_error.code, "log",
                                   LL_VERIFY_NO_OFFSET, v->log_error.message);
    }
    uint64_t told = c->out->damage;
    int rc = ll_log_file_each(v->log, see_segment, c, c->err);
    if (!rc && ll_log_cursor_open(v->log, &c->cursor))
        rc = ll_verify_no_memory(c);
    c->log_whole_before = c->log_whole;
    if (!rc)
        rc = walk_log(c, c->cursor);
    if (!rc)
        rc = check_needs(c, c->cursor);
    if (rc)
        return rc;
    if (v->info.log_end_kind == LLADD_LOG_END_TORN)
        return ll_verify_tell_lsn(c, LLADD_FINDING_NOTE, 0, v->info.log_end.v, v->end_text);
    if (v->log_error.code && c->out->damage == told) /* reports the damage that the survey has
                                                      * found */
        return ll_verify_tell_lsn(c, LLADD_FINDING_DAMAGE, v->log_error.code, v->log_error.lsn.v,
                                  v->log_error.message);
    return 0;
}

int ll_verify_log_again(struct ll_verify *c)
{
    bool whole = c->log_whole;
    ll_vec_truncate(&c->histories, 0);
    ll_vec_truncate(&c->unused, 0);
    c->pass++;
    c->seen = 0;
    if (!c->v->log)
        return 0;
    c->log_whole = c->log_whole_before;
    int rc = walk_log(c, c->cursor);
    c->log_whole = whole;
    return rc;
}
