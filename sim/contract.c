/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * contract: checks that an operation keeps the promises on which recovery relies
 * (lladd/sim_contract.h).
 *
 * All samples go through the first check, then all through the second, and so on. The rest of an
 * operation's checks is skipped if one of its callbacks touches other memory, crashes or loops. The
 * bench has three slots for pages. Callbacks work on slot 0, and for some checks on slot 1. Slots 1
 * and 2 also hold pages that are compared with slot 0 or copied back to it.
 */
#include "sim/contract_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

enum {
    PAGE_SIZE = 4096,
    ROUNDS = 300,
    LIMIT_MS = 500,
    HISTORY_MAX = 24,
    OTHERS_MAX = 32, /* check_one_page compares the pages of at most this many samples */
    TYPE_AT = 4,     /* offsets in the page header, see docs/disk-format.md */
    NUMBER_AT = 24
};

static const char *const names[] = {
#define NAME(name, text, what) text,
    LLADD_SIM_CHECKS(NAME)
#undef NAME
};
static const char *const meanings[] = {
#define MEANING(name, text, what) what,
    LLADD_SIM_CHECKS(MEANING)
#undef MEANING
};

const char *lladd_sim_check_name(enum lladd_sim_check check)
{
    return (unsigned)check < LLADD_SIM_CHECKS_COUNT ? names[check] : "?";
}

void ll_sim__kept(struct lladd_sim_kept *k, enum lladd_sim_check check)
{
    k->runs[check]++;
    if (k->result[check] == LLADD_SIM_NOT_APPLICABLE)
        k->result[check] = LLADD_SIM_KEPT;
}

void ll_sim__broken(struct lladd_sim_kept *k, enum lladd_sim_check check, const char *fmt, ...)
{
    va_list ap;
    k->runs[check]++;
    if (k->result[check] == LLADD_SIM_BROKEN)
        return; /* only the first violation is reported */
    k->result[check] = LLADD_SIM_BROKEN;
    va_start(ap, fmt);
    vsnprintf(k->message[check], sizeof k->message[check], fmt, ap);
    va_end(ap);
}

/* ---- one sample ------------------------------------------------------------------------------ */

struct trial {
    struct ll_sim__bench *b;
    const struct lladd_sim_sample *s;
    const struct lladd_op *op;
    struct lladd_sim_kept *k;
    size_t index;
    struct lladd_span redo, undo;
};

static void load(const struct ll_sim__bench *b, unsigned slot, const struct lladd_sim_sample *s)
{
    unsigned char *p = b->slot[slot];
    if (s->page) {
        memcpy(p, s->page, b->size);
        return;
    }
    memset(p, 0, b->size);
    lladd_put16(p + TYPE_AT, 1);
    lladd_put64(p + NUMBER_AT, s->number);
}

static bool undoable(const struct trial *t)
{
    return t->op->undo_kind == LLADD_UNDO_PAGE && t->undo.data != NULL;
}

static void redo(const struct trial *t, unsigned slot)
{
    ll_sim__run(t->b, t->op, slot, t->s->number, LLADD_SPAN_REDO, t->redo);
}

static void undo(const struct trial *t, unsigned slot)
{
    ll_sim__run(t->b, t->op, slot, t->s->number, LLADD_SPAN_UNDO, t->undo);
}

static bool fits(const struct trial *t, unsigned slot, enum lladd_span_kind kind)
{
    return ll_sim__validate(t->b, t->op, slot, t->s->number, kind,
                            kind == LLADD_SPAN_REDO ? t->redo : t->undo);
}

static bool in_order(const struct trial *t, unsigned slot)
{
    struct lladd_view v = ll_sim__view(t->b, slot, t->s->number);
    t->b->inside = slot;
    ll_sim__clock(t->b, "check", t->op->name);
    bool fine = (!t->op->check || t->op->check(v)) &&
                (!t->s->type || !t->s->type->check || t->s->type->check(v));
    ll_sim__clock_off();
    return fine;
}

static void fill_hole(const struct trial *t, unsigned slot, int byte)
{
    uint32_t begin = 0, end = 0;
    if (!t->s->type || !t->s->type->hole)
        return;
    t->s->type->hole(ll_sim__view(t->b, slot, t->s->number), &begin, &end);
    if (begin >= LLADD_PAGE_HEADER && begin <= end && end <= t->b->size)
        memset(t->b->slot[slot] + begin, byte, end - begin);
}

/* Overwrites the bytes that need not be equal: what `mask` masks, and the hole. */
static void normalise(const struct trial *t, unsigned slot)
{
    struct lladd_page p = ll_sim__page(t->b, slot, t->s->number);
    ll_sim__clock(t->b, "mask", t->op->name);
    if (t->op->mask)
        t->op->mask(t->op->ctx, &p);
    else if (t->s->type && t->s->type->mask)
        t->s->type->mask(t->s->type->ctx, &p);
    ll_sim__clock_off();
    fill_hole(t, slot, 0);
}

/* Normalises slots 0 and 1, and compares them. This changes both pages. */
static bool same(const struct trial *t, enum lladd_sim_check check, const char *what)
{
    const struct ll_sim__bench *b = t->b;
    normalise(t, 0);
    normalise(t, 1);
    for (uint32_t i = 0; i < b->size; i++) {
        if (b->slot[0][i] == b->slot[1][i])
            continue;
        ll_sim__broken(t->k, check, "sample %zu: %s: byte %u is 0x%02x and not 0x%02x", t->index,
                       what, i, b->slot[0][i], b->slot[1][i]);
        return false;
    }
    ll_sim__kept(t->k, check);
    return true;
}

/* ---- the checks ------------------------------------------------------------------------------ */

/* Compares the pages of the samples with copies made earlier. If a page has changed, records a
 * violation and returns false. */
static bool others_untouched(const struct trial *t, const unsigned char *copies)
{
    const struct lladd_sim_contract *in = t->b->in;
    for (size_t i = 0; i < in->n_samples && i < OTHERS_MAX; i++) {
        const unsigned char *page = in->samples[i].page;
        if (!page || memcmp(page, copies + i * t->b->size, t->b->size) == 0)
            continue;
        ll_sim__broken(t->k, LLADD_SIM_C_ONE_PAGE, "sample %zu: writes to the page of sample %zu",
                       t->index, i);
        return false;
    }
    return true;
}

/* The callbacks run between guard pages: inaccessible system pages that end the child when they are
 * touched. A guard page follows the record's bytes, and another follows the page. One also comes
 * directly before the page, if the page's size is a multiple of the size of a system page. This
 * function also detects writes to the samples' pages. */
static void check_one_page(const struct trial *t)
{
    const struct lladd_sim_contract *in = t->b->in;
    unsigned char *copies = malloc((size_t)OTHERS_MAX * t->b->size);
    for (size_t i = 0; copies && i < in->n_samples && i < OTHERS_MAX; i++)
        if (in->samples[i].page)
            memcpy(copies + i * t->b->size, in->samples[i].page, t->b->size);
    (void)fits(t, 0, LLADD_SPAN_REDO);
    redo(t, 0);
    if (undoable(t)) {
        (void)fits(t, 0, LLADD_SPAN_UNDO);
        undo(t, 0);
    }
    if (!copies || others_untouched(t, copies))
        ll_sim__kept(t->k, LLADD_SIM_C_ONE_PAGE);
    free(copies);
}

static void check_accepts(const struct trial *t)
{
    if (!t->op->formats && !in_order(t, 0)) {
        ll_sim__broken(t->k, LLADD_SIM_C_ACCEPTS, "sample %zu: the page does not pass its check",
                       t->index);
        return;
    }
    if (!fits(t, 0, LLADD_SPAN_REDO)) {
        ll_sim__broken(t->k, LLADD_SIM_C_ACCEPTS, "sample %zu: validate refuses the redo bytes",
                       t->index);
        return;
    }
    redo(t, 0);
    if (undoable(t) && !fits(t, 0, LLADD_SPAN_UNDO)) {
        ll_sim__broken(t->k, LLADD_SIM_C_ACCEPTS,
                       "sample %zu: validate refuses the undo bytes after redo", t->index);
        return;
    }
    ll_sim__kept(t->k, LLADD_SIM_C_ACCEPTS);
}

/* Runs redo, and then undo, on two equal pages at different addresses. Two things differ: the
 * memory before the record's bytes, and the hole of the page. Before a redo that formats the page,
 * the holes do not differ. */
static void check_pure(const struct trial *t)
{
    load(t->b, 1, t->s);
    if (!t->op->formats)
        fill_hole(t, 1, 0xa5);
    redo(t, 0);
    redo(t, 1);
    memcpy(t->b->slot[2], t->b->slot[0], t->b->size);
    if (!same(t, LLADD_SIM_C_PURE, "redo on a copy of the page") || !undoable(t))
        return;
    memcpy(t->b->slot[0], t->b->slot[2], t->b->size);
    memcpy(t->b->slot[1], t->b->slot[2], t->b->size);
    fill_hole(t, 1, 0x5a);
    undo(t, 0);
    undo(t, 1);
    (void)same(t, LLADD_SIM_C_PURE, "undo on a copy of the page");
}

static bool header_kept(const struct trial *t, const char *callback)
{
    for (uint32_t i = 0; i < LLADD_PAGE_HEADER; i++) {
        if (t->b->slot[0][i] == t->b->slot[1][i])
            continue;
        ll_sim__broken(t->k, LLADD_SIM_C_HEADER, "sample %zu: %s changes byte %u of the header",
                       t->index, callback, i);
        return false;
    }
    return true;
}

static void check_header(const struct trial *t)
{
    load(t->b, 1, t->s);
    redo(t, 0);
    if (!header_kept(t, "redo"))
        return;
    if (undoable(t)) {
        undo(t, 0);
        if (!header_kept(t, "undo"))
            return;
    }
    ll_sim__kept(t->k, LLADD_SIM_C_HEADER);
}

static void check_invariant(const struct trial *t)
{
    if (!t->op->check && (!t->s->type || !t->s->type->check))
        return;
    redo(t, 0);
    bool fine = in_order(t, 0);
    if (!fine)
        ll_sim__broken(t->k, LLADD_SIM_C_INVARIANT, "sample %zu: check does not hold after redo",
                       t->index);
    if (fine && undoable(t)) {
        undo(t, 0);
        fine = in_order(t, 0);
        if (!fine)
            ll_sim__broken(t->k, LLADD_SIM_C_INVARIANT,
                           "sample %zu: check does not hold after undo", t->index);
    }
    if (fine)
        ll_sim__kept(t->k, LLADD_SIM_C_INVARIANT);
}

static void check_restores(const struct trial *t)
{
    if (!undoable(t))
        return;
    load(t->b, 1, t->s);
    redo(t, 0);
    undo(t, 0);
    (void)same(t, LLADD_SIM_C_RESTORES, "undo of redo");
}

/* ---- several records on one page ------------------------------------------------------------- */

static struct trial trial_of(struct ll_sim__bench *b, size_t i)
{
    const struct lladd_sim_sample *s = &b->in->samples[i];
    return (struct trial){.b = b,
                          .s = s,
                          .op = s->op,
                          .k = &b->kept[b->op_of[i]],
                          .index = i,
                          .redo = s->redo,
                          .undo = s->undo};
}

/* Is sample i + 1 the next record of the same page, and can it be undone on the page? Slot 0 must
 * contain the page as it is after sample i. */
static bool goes_on(const struct ll_sim__bench *b, size_t i)
{
    const struct lladd_sim_sample *s = &b->in->samples[i], *next = s + 1;
    return i + 1 < b->in->n_samples && next->page && next->number == s->number && next->redo.data &&
           next->undo.data && next->op->undo_kind == LLADD_UNDO_PAGE &&
           memcmp(b->slot[0], next->page, b->size) == 0;
}

/* The history is this sample and the samples after it that change the same page. For each prefix of
 * at least two records: redoes its records, and undoes them, newest first. */
static void check_prefixes(const struct trial *t)
{
    struct trial step[HISTORY_MAX];
    size_t n = 0;
    if (!undoable(t) || !t->s->redo.data)
        return;
    load(t->b, 0, t->s);
    do {
        step[n] = trial_of(t->b, t->index + n);
        redo(&step[n++], 0);
        memcpy(t->b->slot[2], t->b->slot[0], t->b->size);
        for (size_t k = n; n > 1 && k-- > 0;) {
            if (!fits(&step[k], 0, LLADD_SPAN_UNDO)) {
                ll_sim__broken(step[k].k, LLADD_SIM_C_PREFIXES,
                               "sample %zu: validate refuses its undo, %zu records later",
                               step[k].index, n - 1 - k);
                return;
            }
            undo(&step[k], 0);
        }
        load(t->b, 1, t->s);
        if (n > 1 && !same(t, LLADD_SIM_C_PREFIXES, "undo of the records from here on"))
            return;
        memcpy(t->b->slot[0], t->b->slot[2], t->b->size);
    } while (n < HISTORY_MAX && goes_on(t->b, t->index + n - 1));
}

static bool may_interleave(const struct ll_sim__bench *b, size_t i, size_t j)
{
    const struct lladd_sim_sample *a = &b->in->samples[i], *c = &b->in->samples[j];
    return a->owner && c->owner && a->owner != c->owner && (a->ended == 0 || a->ended > j);
}

/* Checks this record and the next one, if another transaction has written the next one. Redoes both
 * records, then undoes this one, then undoes the next. */
static void check_interleaved(const struct trial *t)
{
    if (!undoable(t) || !t->s->redo.data)
        return;
    redo(t, 0);
    if (!goes_on(t->b, t->index) || !may_interleave(t->b, t->index, t->index + 1))
        return;
    struct trial other = trial_of(t->b, t->index + 1);
    const struct trial *order[] = {t, &other};
    redo(&other, 0);
    for (size_t i = 0; i < 2; i++) {
        if (!fits(order[i], 0, LLADD_SPAN_UNDO)) {
            ll_sim__broken(order[i]->k, LLADD_SIM_C_INTERLEAVED,
                           "sample %zu: validate refuses its undo once sample %zu %s",
                           order[i]->index, order[1 - i]->index,
                           i ? "is undone" : "has changed the page");
            return;
        }
        undo(order[i], 0);
    }
    load(t->b, 1, t->s);
    if (same(t, LLADD_SIM_C_INTERLEAVED, "undone before a later change of another transaction"))
        ll_sim__kept(other.k, LLADD_SIM_C_INTERLEAVED);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static size_t width(enum lladd_field_type type)
{
    switch (type) {
    case LLADD_FIELD_U8:
        return 1;
    case LLADD_FIELD_U16:
    case LLADD_FIELD_BYTES16:
        return 2;
    case LLADD_FIELD_U32:
        return 4;
    case LLADD_FIELD_REST:
    case LLADD_FIELD_TEXT:
    case LLADD_FIELD_END:
        return 0;
    default:
        return 8;
    }
}

/* Decodes the bytes as the field list says, and encodes them again into `out`, which has room for
 * as many bytes as `s`. Returns the number of bytes encoded, or SIZE_MAX if `s` ends too early. */
static size_t through_fields(const struct lladd_field *f, struct lladd_span s, unsigned char *out)
{
    const unsigned char *in = s.data;
    size_t at = 0;
    for (; f->name; f++) {
        size_t n = width(f->type);
        if (n > s.len - at)
            return SIZE_MAX;
        if (n == 2)
            lladd_put16(out + at, lladd_get16(in + at));
        else if (n == 4)
            lladd_put32(out + at, lladd_get32(in + at));
        else if (n == 8)
            lladd_put64(out + at, lladd_get64(in + at));
        else if (n == 1)
            out[at] = in[at];
        size_t more = f->type == LLADD_FIELD_BYTES16 ? lladd_get16(in + at) : 0;
        at += n;
        if (f->type == LLADD_FIELD_REST || f->type == LLADD_FIELD_TEXT)
            more = s.len - at;
        if (more > s.len - at)
            return SIZE_MAX;
        if (more)
            memcpy(out + at, in + at, more);
        at += more;
    }
    return at;
}

static bool fields_cover(const struct trial *t, const struct lladd_field *f, struct lladd_span s,
                         const char *which)
{
    if (!f)
        return true;
    unsigned char *copy = malloc(s.len + 1);
    size_t n = copy ? through_fields(f, s, copy) : s.len;
    bool fine = n == s.len && (!copy || s.len == 0 || memcmp(copy, s.data, n) == 0);
    free(copy);
    if (fine)
        ll_sim__kept(t->k, LLADD_SIM_C_FIELDS);
    else if (n == SIZE_MAX)
        ll_sim__broken(t->k, LLADD_SIM_C_FIELDS,
                       "sample %zu: %s_fields need more than the %zu bytes there are", t->index,
                       which, s.len);
    else
        ll_sim__broken(t->k, LLADD_SIM_C_FIELDS, "sample %zu: %s_fields describe %zu of %zu bytes",
                       t->index, which, n, s.len);
    return fine;
}

static void check_fields(const struct trial *t)
{
    bool logical = t->op->undo_kind == LLADD_UNDO_LOGICAL && t->undo.data &&
                   (t->op->prepare || t->s->undo.data); /* otherwise t->undo is the arguments */
    if (fields_cover(t, t->op->redo_fields, t->redo, "redo") && (undoable(t) || logical))
        (void)fields_cover(t, t->op->undo_fields, t->undo, "undo");
}

static uint64_t random_of(struct ll_sim__bench *b)
{
    uint64_t x = b->random += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static uint64_t odd_number(struct ll_sim__bench *b)
{
    switch (random_of(b) % 6) {
    case 0:
        return 0;
    case 1:
        return UINT64_MAX;
    case 2:
        return b->size - random_of(b) % 80;
    case 3:
        return b->size + random_of(b) % 80;
    case 4:
        return random_of(b) % b->size;
    default:
        return random_of(b);
    }
}

/* Changes a bit, a number or the length, sometimes several times. Returns the new length. */
static size_t mangle(struct ll_sim__bench *b, unsigned char *p, size_t len, size_t max)
{
    do {
        size_t at = len ? random_of(b) % len : 0;
        uint64_t v = odd_number(b);
        switch (random_of(b) % 5) {
        case 0:
            if (len)
                p[at] ^= (unsigned char)(1u << random_of(b) % 8);
            break;
        case 1:
            if (len - at >= 2)
                lladd_put16(p + at, (uint16_t)v);
            break;
        case 2:
            if (len - at >= 4)
                lladd_put32(p + at, (uint32_t)v);
            break;
        case 3:
            len = at;
            break;
        default:
            for (size_t n = random_of(b) % 9; n && len < max; n--)
                p[len++] = (unsigned char)v;
        }
    } while (random_of(b) % 3 == 0);
    return len;
}

/* Changes bits and numbers in the body of the page, mostly near its beginning or its end. Sometimes
 * fills the whole body with one byte first. */
static void mangle_page(struct ll_sim__bench *b)
{
    enum { NEAR = 64 };
    unsigned char *body = b->slot[0] + LLADD_PAGE_HEADER;
    size_t len = b->size - LLADD_PAGE_HEADER;
    if (random_of(b) % 32 == 0)
        memset(body, (int)random_of(b), len);
    do {
        size_t at = random_of(b) % (random_of(b) % 4 ? NEAR : len);
        uint64_t v = odd_number(b);
        at = random_of(b) % 4 ? at : len - 1 - at;
        at = at > len - 4 ? len - 4 : at;
        switch (random_of(b) % 3) {
        case 0:
            body[at] ^= (unsigned char)(1u << random_of(b) % 8);
            break;
        case 1:
            lladd_put16(body + at, (uint16_t)v);
            break;
        default:
            lladd_put32(body + at, (uint32_t)v);
        }
    } while (random_of(b) % 3 == 0);
}

static bool header_untouched(const struct trial *t, const unsigned char *before)
{
    if (memcmp(t->b->slot[0], before, LLADD_PAGE_HEADER) == 0 ||
        t->k->result[LLADD_SIM_C_HEADER] == LLADD_SIM_BROKEN)
        return true;
    ll_sim__broken(t->k, LLADD_SIM_C_HOSTILE, "sample %zu: the page header is changed%s", t->index,
                   t->b->board->with);
    return false;
}

/* First runs mangled records on the intact page. Then mangles the page, and in some rounds also the
 * record. */
static void check_hostile(const struct trial *t)
{
    struct ll_sim__bench *b = t->b;
    uint32_t rounds = b->in->rounds, all = t->op->formats ? rounds : 2 * rounds;
    unsigned char header[LLADD_PAGE_HEADER];
    size_t max = b->bytes_room < t->op->record_max ? b->bytes_room : t->op->record_max;
    size_t longest = t->redo.len > t->undo.len ? t->redo.len : t->undo.len;
    if (max < longest)
        max = longest;
    unsigned char *bytes = malloc(max + 1);
    bool good = bytes != NULL;
    for (uint32_t round = 0; good && round < all; round++) {
        bool on_page = round >= rounds;
        bool back = undoable(t) && round % 3 == 2;
        struct lladd_span of = back ? t->undo : t->redo;
        enum lladd_span_kind kind = back ? LLADD_SPAN_UNDO : LLADD_SPAN_REDO;
        load(b, 0, t->s);
        if (back)
            redo(t, 0);
        if (of.len)
            memcpy(bytes, of.data, of.len);
        struct lladd_span s = {bytes, of.len};
        if (on_page)
            mangle_page(b);
        if (!on_page || random_of(b) % 4 == 0)
            s.len = mangle(b, bytes, of.len, max);
        b->board->with = on_page ? " on a mangled page" : " on mangled bytes";
        memcpy(header, b->slot[0], sizeof header);
        if (ll_sim__validate(b, t->op, 0, t->s->number, kind, s))
            ll_sim__run(b, t->op, 0, t->s->number, kind, s);
        good = header_untouched(t, header);
        if (good)
            ll_sim__kept(t->k, LLADD_SIM_C_HOSTILE);
    }
    free(bytes);
}

/* ---- units of work --------------------------------------------------------------------------- */

static void (*const checks[])(const struct trial *) = {
    check_one_page, check_accepts,  check_pure,        check_header, check_invariant,
    check_restores, check_prefixes, check_interleaved, check_fields, check_hostile};
static const enum lladd_sim_check judged[] = {
    LLADD_SIM_C_ONE_PAGE,  LLADD_SIM_C_ACCEPTS,  LLADD_SIM_C_PURE,     LLADD_SIM_C_HEADER,
    LLADD_SIM_C_INVARIANT, LLADD_SIM_C_RESTORES, LLADD_SIM_C_PREFIXES, LLADD_SIM_C_INTERLEAVED,
    LLADD_SIM_C_FIELDS,    LLADD_SIM_C_HOSTILE};
enum { CHECKS = sizeof checks / sizeof *checks };

static bool is_sample(const struct ll_sim__bench *b, size_t unit)
{
    return unit < CHECKS * b->in->n_samples;
}

static uint32_t op_of(const struct ll_sim__bench *b, size_t unit)
{
    size_t n = b->in->n_samples;
    return b->op_of[is_sample(b, unit) ? unit % n : unit - (CHECKS - 1) * n];
}

static void work_sample(struct ll_sim__bench *b, size_t unit)
{
    struct trial t = trial_of(b, unit % b->in->n_samples);
    size_t check = unit / b->in->n_samples;
    struct lladd_error err = LLADD_ERROR_INIT;
    if (t.k->result[judged[check]] == LLADD_SIM_BROKEN)
        return;
    load(b, 0, t.s);
    if (!t.s->redo.data && ll_sim__prepare(b, t.s, &t.redo, &t.undo, &err)) {
        ll_sim__broken(t.k, LLADD_SIM_C_ACCEPTS, "sample %zu: prepare refuses it: %.80s", t.index,
                       err.message);
        return;
    }
    checks[check](&t);
}

static void work(struct ll_sim__bench *b, size_t unit)
{
    uint32_t op = op_of(b, unit);
    b->random = b->in->seed + unit * 0x9e3779b97f4a7c15u;
    if (b->board->state[op].given_up)
        return;
    if (is_sample(b, unit))
        work_sample(b, unit);
    else
        ll_sim__check_undo(b, &b->in->undos[unit - CHECKS * b->in->n_samples], &b->kept[op]);
}

/* The child has died during this unit. Records which promise is broken. */
static void died(struct ll_sim__bench *b, size_t unit)
{
    struct ll_sim__board *board = b->board;
    struct lladd_sim_kept *k = &b->kept[op_of(b, unit)];
    bool hostile = is_sample(b, unit) && unit / b->in->n_samples == CHECKS - 1;
    const char *with = hostile ? board->with : "";
    board->state[op_of(b, unit)].given_up = true;
    if (board->late)
        ll_sim__broken(k, hostile ? LLADD_SIM_C_HOSTILE : LLADD_SIM_C_ENDS,
                       "%s does not return within %u ms%s", board->doing, b->in->limit_ms, with);
    else if (board->outside)
        ll_sim__broken(k, hostile ? LLADD_SIM_C_HOSTILE : LLADD_SIM_C_ONE_PAGE, "%s touches %s%s",
                       board->doing, board->where, with);
    else
        ll_sim__broken(k, hostile ? LLADD_SIM_C_HOSTILE : LLADD_SIM_C_SURVIVES,
                       "%s ends its process (signal %d)%s", board->doing, board->signal, with);
}

/* ---- entry points ---------------------------------------------------------------------------- */

static int take(const struct lladd_sim_contract *given, struct lladd_sim_contract *in,
                struct lladd_error *err)
{
    *in = (struct lladd_sim_contract)LLADD_SIM_CONTRACT_INIT;
    if (!given || given->struct_size != sizeof *in)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "contract: use LLADD_SIM_CONTRACT_INIT");
    *in = *given;
    in->page_size = in->page_size ? in->page_size : PAGE_SIZE;
    in->rounds = in->rounds ? in->rounds : ROUNDS;
    in->seed = in->seed ? in->seed : 1;
    in->limit_ms = in->limit_ms ? in->limit_ms : LIMIT_MS;
    if (in->n_samples + in->n_undos == 0)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "contract: there are no samples");
    if (in->page_size < 4096 || in->page_size > 65536 || in->page_size & (in->page_size - 1))
        return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                               "contract: page_size is %u, not a power of two from 4096 to 65536",
                               in->page_size);
    for (size_t i = 0; i < in->n_samples; i++) {
        const struct lladd_op *op = in->samples[i].op;
        if (!op || !op->name || !op->redo || !op->validate ||
            (op->undo_kind == LLADD_UNDO_PAGE && !op->undo))
            return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                                   "contract: sample %zu needs an operation with a name, redo, "
                                   "validate, and undo if the undo kind is PAGE",
                                   i);
    }
    for (size_t i = 0; i < in->n_undos; i++)
        if (!in->undos[i].op || !in->undos[i].effect || !in->dump)
            return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                                   "contract: undo %zu needs an operation, its effect, and dump",
                                   i);
    return 0;
}

static size_t longest_of(const struct lladd_sim_contract *in)
{
    size_t most = 0;
    for (size_t i = 0; i < in->n_samples; i++) {
        const struct lladd_sim_sample *s = &in->samples[i];
        const size_t all[] = {s->args.len, s->redo.len, s->undo.len, s->op->record_max};
        for (size_t k = 0; k < sizeof all / sizeof *all; k++)
            most = all[k] > most ? all[k] : most;
    }
    return most + 64; /* room for the bytes before the record, which differ between two runs
                       * (check_pure) */
}

static uint32_t op_index(struct lladd_sim_kept *kept, uint32_t *n, const char *name,
                         uint32_t version)
{
    uint32_t i = 0;
    while (i < *n && (kept[i].version != version || strcmp(kept[i].op, name) != 0))
        i++;
    if (i == *n) {
        snprintf(kept[i].op, sizeof kept[i].op, "%s", name);
        kept[i].version = version;
        ++*n;
    }
    return i;
}

static int explore(struct ll_sim__bench *b, struct lladd_error *err)
{
    int rc = ll_sim__bench_init(b, longest_of(b->in), err);
    if (!rc)
        rc = ll_sim__fork(b, CHECKS * b->in->n_samples + b->in->n_undos, work, died, err);
    ll_sim__bench_free(b);
    return rc;
}

static struct lladd_sim_contract_report *report_of(const struct lladd_sim_kept *kept, uint32_t n)
{
    struct lladd_sim_contract_report *r = malloc(sizeof *r + n * sizeof *kept);
    if (!r)
        return NULL;
    struct lladd_sim_kept *own = (struct lladd_sim_kept *)(r + 1);
    *r = (struct lladd_sim_contract_report){
        .struct_size = sizeof *r, .n_verdicts = n, .verdicts = own};
    memcpy(own, kept, n * sizeof *kept);
    for (uint32_t i = 0; i < n; i++)
        for (unsigned c = 0; c < LLADD_SIM_CHECKS_COUNT; c++)
            r->broken += own[i].result[c] == LLADD_SIM_BROKEN;
    return r;
}

static uint64_t now(void)
{
    struct timespec t;
    return clock_gettime(CLOCK_MONOTONIC, &t)
               ? 0
               : (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int lladd_sim_contract_check(const struct lladd_sim_contract *given,
                             struct lladd_sim_contract_report **out, struct lladd_error *err)
{
    struct lladd_sim_contract in;
    uint64_t started = now();
    *out = NULL;
    int rc = take(given, &in, err);
    if (rc)
        return rc;
    size_t n = in.n_samples + in.n_undos;
    size_t states =
        (sizeof(struct ll_sim__board) + n * sizeof(struct ll_sim__state) + 63) / 64 * 64;
    size_t shared = states + n * sizeof(struct lladd_sim_kept);
    uint32_t *index = calloc(n, sizeof *index), ops = 0;
    struct ll_sim__board *board =
        mmap(NULL, shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (index && board != MAP_FAILED) {
        struct ll_sim__bench b = {.in = &in, .board = board, .op_of = index, .size = in.page_size};
        b.kept = (struct lladd_sim_kept *)(void *)((unsigned char *)board + states);
        for (size_t i = 0; i < n; i++)
            index[i] = i < in.n_samples ? op_index(b.kept, &ops, in.samples[i].op->name,
                                                   in.samples[i].op->version)
                                        : op_index(b.kept, &ops, in.undos[i - in.n_samples].op, 0);
        rc = explore(&b, err);
        *out = rc ? NULL : report_of(b.kept, ops);
    }
    if (!rc && !*out)
        rc = lladd_error_set(err, LLADD_NO_MEMORY, "no memory for contract checks");
    if (*out)
        (*out)->nanoseconds = now() - started;
    if (board != MAP_FAILED)
        (void)munmap(board, shared);
    free(index);
    return rc;
}

void lladd_sim_contract_free(struct lladd_sim_contract_report *r)
{
    free(r);
}

/* ---- the report ------------------------------------------------------------------------------ */

static const char *word(enum lladd_sim_result r)
{
    return r == LLADD_SIM_KEPT ? "kept" : r == LLADD_SIM_BROKEN ? "BROKEN" : "-";
}

int lladd_sim_contract_text(const struct lladd_sim_contract_report *r, struct lladd_sink *to)
{
    for (uint32_t i = 0; i < r->n_verdicts; i++) {
        const struct lladd_sim_kept *k = &r->verdicts[i];
        lladd_sink_printf(to, "%s version %u\n", k->op, k->version);
        for (unsigned c = 0; c < LLADD_SIM_CHECKS_COUNT; c++) {
            if (k->result[c] == LLADD_SIM_NOT_APPLICABLE)
                continue;
            lladd_sink_printf(to, "  %-12s %-6s %8llu times\n", names[c], word(k->result[c]),
                              (unsigned long long)k->runs[c]);
            if (k->result[c] == LLADD_SIM_BROKEN)
                lladd_sink_printf(to, "      %s\n      %s\n", meanings[c], k->message[c]);
        }
    }
    return lladd_sink_printf(to, "%u operations, %u promises broken\n", r->n_verdicts, r->broken);
}

static void json_string(struct lladd_sink *to, const char *s)
{
    lladd_sink_write(to, "\"", 1);
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            lladd_sink_printf(to, "\\%c", *s);
        else if ((unsigned char)*s < 0x20)
            lladd_sink_printf(to, "\\u%04x", (unsigned char)*s);
        else
            lladd_sink_write(to, s, 1);
    }
    lladd_sink_write(to, "\"", 1);
}

int lladd_sim_contract_json(const struct lladd_sim_contract_report *r, struct lladd_sink *to)
{
    lladd_sink_printf(to, "{\"broken\":%u,\"nanoseconds\":%llu,\"operations\":[", r->broken,
                      (unsigned long long)r->nanoseconds);
    for (uint32_t i = 0; i < r->n_verdicts; i++) {
        const struct lladd_sim_kept *k = &r->verdicts[i];
        const char *comma = "";
        lladd_sink_printf(to, "%s{\"op\":", i ? "," : "");
        json_string(to, k->op);
        lladd_sink_printf(to, ",\"version\":%u,\"checks\":{", k->version);
        for (unsigned c = 0; c < LLADD_SIM_CHECKS_COUNT; c++) {
            if (k->result[c] == LLADD_SIM_NOT_APPLICABLE)
                continue;
            lladd_sink_printf(to, "%s\"%s\":{\"kept\":%s,\"runs\":%llu,\"message\":", comma,
                              names[c], k->result[c] == LLADD_SIM_KEPT ? "true" : "false",
                              (unsigned long long)k->runs[c]);
            json_string(to, k->message[c]);
            lladd_sink_write(to, "}", 1);
            comma = ",";
        }
        lladd_sink_write(to, "}}", 2);
    }
    return lladd_sink_write(to, "]}\n", 3);
}
