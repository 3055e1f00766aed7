/* SPDX-License-Identifier: BSD-2-Clause */
/* Slotted pages, for records of different lengths: page type "lladd.slotted" and its operations.
 * (lladd.slotted.add is in increment.c.)
 *
 *   32 header (slotted.h)
 *   56 directory: 6 bytes a slot, growing upwards
 *        +0 u16 bits 0-13: offset of the record / 4, 0 if unused; bit 15: ghost
 *        +2 u16 length of the contents
 *        +4 u16 bytes that the record occupies, a multiple of 4 and at least 8; the two low bits
 *               are its tag
 *      the gap
 *      records, growing downwards from the page's end, with holes between them
 *
 * Rule: *undo never needs room* (REC-3). What undo may need stays on the page:
 *
 *   - A freed record becomes a *ghost*: its slot and its bytes stay; undo clears the mark.
 *   - A record that shrinks keeps the bytes that it occupied, as slack; undo uses them again. A
 *     record that outgrows its bytes moves to a larger place; undo writes the old contents there
 *     and frees the rest.
 *   - Only `purge` frees ghosts and slack. It is never undone, and frees nothing that a transaction
 *     still reserves. No purge runs until all losers are rolled back.
 *
 * Log records name a record by its slot ("physiological" logging), never by its place on the page,
 * so compaction needs no log record. Redo of alloc and of set compacts the page if the gap is too
 * small but gap and holes together are large enough. This depends only on the page's bytes, so
 * recovery compacts at the same log records.
 *
 * Invariants (slotted_check): the last slot is in use; records lie within the area, do not overlap,
 * and fill it together with the holes; the header's counts are right.
 *
 *   lladd.slotted.format redo u64 owner
 *                        no undo
 *   lladd.slotted.alloc  redo u16 slot, u8 tag, u16 length, bytes (the rest is zeros)
 *                        undo u16 slot
 *   lladd.slotted.free   redo u16 slot
 *                        undo u16 slot
 *   lladd.slotted.set    redo u16 slot, u8 tag, u16 length, u16 from, bytes
 *                        undo u16 slot, u8 tag, u16 length, u16 from, u16 occupied, bytes
 *                        The new contents of `length` bytes are: the old ones before `from`, then
 *                        `bytes`, then the end of the old ones. Undo has the same form.
 *   lladd.slotted.purge  redo any number of u16 slot
 *                        no undo */
#include "operations/records/slotted.h"

#include <string.h>

#define ALLOC_HEAD 5u
#define SET_HEAD 7u
#define SET_UNDO_HEAD 9u

static void put(unsigned char *page, unsigned field, uint32_t v)
{
    lladd_put16(page + field, (uint16_t)v);
}

static void add(unsigned char *page, unsigned field, int32_t delta)
{
    put(page, field, slotted_get(page, field) + (uint32_t)delta);
}

static void slot_put(unsigned char *page, uint32_t s, struct slot e)
{
    unsigned char *p = page + SLOT_DIR + s * SLOT_BYTES;
    lladd_put16(p, (uint16_t)(e.at / SLOT_ALIGN | (e.ghost ? SLOT_GHOST : 0)));
    lladd_put16(p + 2, (uint16_t)e.len);
    lladd_put16(p + 4, (uint16_t)(e.cap | e.tag));
}

static uint32_t slack_of(struct slot e)
{
    return e.ghost ? e.cap : e.cap - slot_need(e.len);
}

uint32_t lladd_slotted_max(uint32_t page_size)
{
    return (page_size - SLOT_DIR - SLOT_BYTES) & ~(SLOT_ALIGN - 1);
}

/* ---- checks of slots and space --------------------------------------------------------------- */

bool ll_operations__slotted_head_fine(struct lladd_view v)
{
    uint32_t slots = slotted_get(v.bytes, SLOTTED_SLOTS), area = slotted_get(v.bytes, SLOTTED_AREA);
    return area % SLOT_ALIGN == 0 && area <= v.size - SLOT_DIR &&
           slots * SLOT_BYTES <= v.size - SLOT_DIR - area &&
           slotted_get(v.bytes, SLOTTED_HOLES) <= area;
}

bool ll_operations__slot_fine(struct lladd_view v, uint32_t s)
{
    if (!ll_operations__slotted_head_fine(v) || s >= slotted_get(v.bytes, SLOTTED_SLOTS))
        return false;
    struct slot e = slot_get(v.bytes, s);
    return e.at != 0 && e.at >= v.size - slotted_get(v.bytes, SLOTTED_AREA) &&
           e.at + e.cap <= v.size && e.len <= e.cap && e.cap >= SLOT_CAP_MIN;
}

bool ll_operations__slotted_fine(struct lladd_view v)
{
    uint32_t sum = slotted_get(v.bytes, SLOTTED_HOLES);
    if (!ll_operations__slotted_head_fine(v))
        return false;
    for (uint32_t s = 0; s < slotted_get(v.bytes, SLOTTED_SLOTS); s++) {
        struct slot e = slot_get(v.bytes, s);
        if (e.at == 0)
            continue;
        if (!ll_operations__slot_fine(v, s))
            return false;
        sum += e.cap;
    }
    return sum == slotted_get(v.bytes, SLOTTED_AREA);
}

/* Does the page have `free_needed` free bytes? If its gap is shorter than `gap_needed`, the page
 * must also be fit for compaction. */
static bool room_fine(struct lladd_view v, uint32_t gap_needed, uint32_t free_needed)
{
    if (!ll_operations__slotted_head_fine(v) || free_needed > slotted_free(v.bytes, v.size))
        return false;
    return gap_needed <= slotted_gap(v.bytes, v.size) || ll_operations__slotted_fine(v);
}

/* ---- moving records -------------------------------------------------------------------------- */

/* Compaction works on one window after another, from the page's end downwards: redo has no memory
 * but the stack, which may be small. WINDOW_SLOTS is the largest number of records that begin in a
 * window. */
enum { WINDOW = 4096, WINDOW_SLOTS = WINDOW / SLOT_CAP_MIN };

/* The offset of the page's highest window; the others follow down to 0. */
static uint32_t last_window(uint32_t page_size)
{
    return (page_size - 1) / WINDOW * WINDOW;
}

/* The slots of the records that begin in the window, in descending order of offset (Shellsort).
 * Returns WINDOW_SLOTS + 1 if there are more: then records overlap, and `order` is incomplete. */
static uint32_t slots_by_place(const unsigned char *page, uint32_t window,
                               uint16_t order[WINDOW_SLOTS])
{
    uint32_t n = 0;
    for (uint32_t s = 0; s < slotted_get(page, SLOTTED_SLOTS); s++) {
        uint32_t at = slot_get(page, s).at;
        if (at == 0 || at < window || at - window >= WINDOW)
            continue;
        if (n == WINDOW_SLOTS)
            return WINDOW_SLOTS + 1;
        order[n++] = (uint16_t)s;
    }
    for (uint32_t h = n / 2; h > 0; h = h == 2 ? 1 : h * 5 / 11) {
        for (uint32_t i = h; i < n; i++) {
            uint16_t moving = order[i];
            uint32_t at = slot_get(page, moving).at, j = i;
            for (; j >= h && slot_get(page, order[j - h]).at < at; j -= h)
                order[j] = order[j - h];
            order[j] = moving;
        }
    }
    return n;
}

/* Moves the records of one window up, so that they end at `low`; returns the new `low`. */
static uint32_t compact_window(struct lladd_page *page, uint32_t window, uint32_t low)
{
    uint16_t order[WINDOW_SLOTS];
    unsigned char *p = page->bytes;
    uint32_t n = slots_by_place(p, window, order);
    for (uint32_t i = 0; i < n && i < WINDOW_SLOTS; i++) {
        struct slot e = slot_get(p, order[i]);
        low -= e.cap;
        memmove(p + low, p + e.at, e.cap);
        e.at = low;
        slot_put(p, order[i], e);
    }
    return low;
}

/* Moves all records to the page's end and keeps their order; the holes join the gap. */
static void compact(struct lladd_page *page)
{
    unsigned char *p = page->bytes;
    uint32_t low = page->size;
    for (uint32_t w = last_window(page->size);; w -= WINDOW) {
        low = compact_window(page, w, low);
        if (w == 0)
            break;
    }
    put(p, SLOTTED_AREA, page->size - low);
    put(p, SLOTTED_HOLES, 0);
}

static void reverse(unsigned char *from, unsigned char *to)
{
    while (from < to) {
        unsigned char c = *from;
        *from++ = *--to;
        *to = c;
    }
}

/* Makes a record of a compacted page the lowest record, so that it can grow into the gap. */
static void sink_record(struct lladd_page *page, uint32_t s)
{
    unsigned char *p = page->bytes;
    struct slot e = slot_get(p, s);
    uint32_t low = page->size - slotted_get(p, SLOTTED_AREA);
    /* Rotates [low, end of the record) by its length: reverses both parts, then the whole. */
    reverse(p + low, p + e.at);
    reverse(p + e.at, p + e.at + e.cap);
    reverse(p + low, p + e.at + e.cap);
    for (uint32_t i = 0; i < slotted_get(p, SLOTTED_SLOTS); i++) {
        struct slot other = slot_get(p, i);
        if (other.at && other.at < e.at) {
            other.at += e.cap;
            slot_put(p, i, other);
        }
    }
    e.at = low;
    slot_put(p, s, e);
}

/* Makes a record's bytes a hole, or part of the gap if the record is the lowest. */
static void release_bytes(struct lladd_page *page, uint32_t at, uint32_t n)
{
    if (at == page->size - slotted_get(page->bytes, SLOTTED_AREA))
        add(page->bytes, SLOTTED_AREA, -(int32_t)n);
    else
        add(page->bytes, SLOTTED_HOLES, (int32_t)n);
}

static void clear_slot(struct lladd_page *page, uint32_t s)
{
    unsigned char *p = page->bytes;
    struct slot e = slot_get(p, s);
    add(p, SLOTTED_IDLE, -(int32_t)slack_of(e));
    if (e.ghost)
        add(p, SLOTTED_GHOSTS, -1);
    release_bytes(page, e.at, e.cap);
    slot_put(p, s, (struct slot){0});
    add(p, SLOTTED_UNUSED, 1);
}

/* Shortens the directory to the last slot in use; a page without records becomes empty. */
static void trim_slots(struct lladd_page *page)
{
    unsigned char *p = page->bytes;
    uint32_t n = slotted_get(p, SLOTTED_SLOTS);
    for (; n > 0 && slot_get(p, n - 1).at == 0; n--)
        add(p, SLOTTED_UNUSED, -1);
    put(p, SLOTTED_SLOTS, n);
    if (n == 0) {
        put(p, SLOTTED_AREA, 0);
        put(p, SLOTTED_HOLES, 0);
        put(p, SLOTTED_IDLE, 0);
    }
}

/* ---- format ---------------------------------------------------------------------------------- */

static int format_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                          struct lladd_draft *draft)
{
    (void)ctx;
    (void)page;
    unsigned char *owner = lladd_draft_redo(draft, 8);
    memset(owner, 0, 8); /* lladd_page_format passes no owner */
    if (args.len)
        memcpy(owner, args.data, 8);
    return 0;
}

static bool format_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)page;
    return kind == LLADD_SPAN_REDO && s.len == 8;
}

static void format_redo(struct lladd_page *page, struct lladd_span redo)
{
    memset(lladd_page_body(page), 0, lladd_body_size(page->size));
    memcpy(page->bytes + SLOTTED_OWNER, redo.data, 8);
}

static const struct lladd_field format_fields[] = {{"owner", LLADD_FIELD_U64},
                                                   {NULL, LLADD_FIELD_END}};

const struct lladd_op ll_operations__slotted_format = {
    .struct_size = sizeof(struct lladd_op),
    .name = "lladd.slotted.format",
    .version = 1,
    .page_type = "lladd.slotted",
    .formats = true,
    .redo_fields = format_fields,
    .record_max = 8,
    .undo_kind = LLADD_UNDO_NONE,
    .prepare = format_prepare,
    .validate = format_validate,
    .redo = format_redo,
};

/* ---- alloc ----------------------------------------------------------------------------------- */

static struct ll_slotted_state state_of(struct lladd_view page)
{
    struct ll_slotted_state s = {lladd_get64(page.bytes + SLOTTED_OWNER),
                                 slotted_free(page.bytes, page.size),
                                 slotted_get(page.bytes, SLOTTED_IDLE)};
    return s;
}

static int damaged(struct lladd_draft *draft, struct lladd_view page)
{
    return ll_operations__on(
        draft->error, page.number,
        lladd_error_set(draft->error, LLADD_CORRUPT_PAGE,
                        "page %llu: invalid slots: expected slots and records within the page",
                        (unsigned long long)page.number.v));
}

static int alloc_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                         struct lladd_draft *draft)
{
    (void)ctx;
    struct ll_slotted_alloc *a = (struct ll_slotted_alloc *)(uintptr_t)args.data;
    if (!ll_operations__slotted_head_fine(page))
        return damaged(draft, page);
    uint32_t slots = slotted_get(page.bytes, SLOTTED_SLOTS), s = slots;
    if (slotted_get(page.bytes, SLOTTED_UNUSED))
        for (s = 0; s < slots && slot_get(page.bytes, s).at; s++) {
        }
    uint32_t need = slot_need(a->len) + (s == slots ? SLOT_BYTES : 0);
    uint32_t have = slotted_free(page.bytes, page.size);
    a->short_of = need > have ? need - have : 0;
    a->state = state_of(page);
    if (a->short_of)
        return LLADD_PAGE_FULL;
    if (!room_fine(page, need, need))
        return damaged(draft, page);
    a->state.free -= need;
    a->slot = s;
    uint32_t n = !a->bytes ? 0 : a->len < LLADD_SLOTTED_PIECE ? a->len : LLADD_SLOTTED_PIECE;
    unsigned char *redo = lladd_draft_redo(draft, ALLOC_HEAD + n);
    lladd_put16(redo, (uint16_t)s);
    redo[2] = (unsigned char)a->tag;
    lladd_put16(redo + 3, (uint16_t)a->len);
    if (n)
        memcpy(redo + ALLOC_HEAD, a->bytes, n);
    lladd_put16(lladd_draft_undo(draft, 2), (uint16_t)s);
    return 0;
}

static bool alloc_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span b)
{
    const unsigned char *p = b.data;
    if (kind == LLADD_SPAN_UNDO)
        return b.len == 2 && ll_operations__slot_fine(page, lladd_get16(p));
    if (b.len < ALLOC_HEAD || p[2] >= SLOT_ALIGN)
        return false;
    uint32_t s = lladd_get16(p), len = lladd_get16(p + 3);
    if (b.len - ALLOC_HEAD > len || len > lladd_slotted_max(page.size) ||
        !ll_operations__slotted_head_fine(page))
        return false;
    uint32_t slots = slotted_get(page.bytes, SLOTTED_SLOTS);
    if (s > slots || (s < slots && slot_get(page.bytes, s).at))
        return false;
    uint32_t need = slot_need(len) + (s == slots ? SLOT_BYTES : 0);
    return room_fine(page, need, need);
}

static void alloc_redo(struct lladd_page *page, struct lladd_span redo)
{
    const unsigned char *r = redo.data;
    unsigned char *p = page->bytes;
    uint32_t s = lladd_get16(r), len = lladd_get16(r + 3), n = (uint32_t)redo.len - ALLOC_HEAD;
    uint32_t cap = slot_need(len);
    bool fresh = s == slotted_get(p, SLOTTED_SLOTS);
    if (slotted_gap(p, page->size) < cap + (fresh ? SLOT_BYTES : 0))
        compact(page);
    add(p, fresh ? SLOTTED_SLOTS : SLOTTED_UNUSED, fresh ? 1 : -1);
    add(p, SLOTTED_AREA, (int32_t)cap);
    struct slot e = {page->size - slotted_get(p, SLOTTED_AREA), len, cap, r[2], false};
    slot_put(p, s, e);
    memcpy(p + e.at, r + ALLOC_HEAD, n);
    memset(p + e.at + n, 0, cap - n);
}

static void alloc_undo(struct lladd_page *page, struct lladd_span undo)
{
    clear_slot(page, lladd_get16(undo.data));
    trim_slots(page);
}

static const struct lladd_field slot_fields[] = {{"slot", LLADD_FIELD_U16},
                                                 {NULL, LLADD_FIELD_END}};
static const struct lladd_field alloc_fields[] = {{"slot", LLADD_FIELD_U16},
                                                  {"tag", LLADD_FIELD_U8},
                                                  {"length", LLADD_FIELD_U16},
                                                  {"bytes", LLADD_FIELD_TEXT},
                                                  {NULL, LLADD_FIELD_END}};

const struct lladd_op ll_operations__slotted_alloc = {
    .struct_size = sizeof(struct lladd_op),
    .name = "lladd.slotted.alloc",
    .version = 1,
    .page_type = "lladd.slotted",
    .redo_fields = alloc_fields,
    .undo_fields = slot_fields,
    .record_max = ALLOC_HEAD + LLADD_SLOTTED_PIECE + 2,
    .undo_kind = LLADD_UNDO_PAGE,
    .prepare = alloc_prepare,
    .validate = alloc_validate,
    .redo = alloc_redo,
    .undo = alloc_undo,
};

/* ---- free ------------------------------------------------------------------------------------ */

static int no_record(struct lladd_draft *draft, struct lladd_view page, uint32_t slot)
{
    return ll_operations__on(draft->error, page.number,
                             lladd_error_set(draft->error, LLADD_OUT_OF_RANGE,
                                             "there is no record in slot %u of page %llu", slot,
                                             (unsigned long long)page.number.v));
}

static bool live(struct lladd_view page, uint32_t s)
{
    return ll_operations__slot_fine(page, s) && !slot_get(page.bytes, s).ghost;
}

static int free_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                        struct lladd_draft *draft)
{
    (void)ctx;
    struct ll_slotted_free *f = (struct ll_slotted_free *)(uintptr_t)args.data;
    if (!live(page, f->slot))
        return no_record(draft, page, f->slot);
    f->state = state_of(page);
    /* `idle` already includes the record's slack */
    f->state.idle += slot_need(slot_get(page.bytes, f->slot).len);
    lladd_put16(lladd_draft_redo(draft, 2), (uint16_t)f->slot);
    lladd_put16(lladd_draft_undo(draft, 2), (uint16_t)f->slot);
    return 0;
}

static bool free_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span b)
{
    return b.len == 2 && ll_operations__slot_fine(page, lladd_get16(b.data)) &&
           slot_get(page.bytes, lladd_get16(b.data)).ghost == (kind == LLADD_SPAN_UNDO);
}

static void set_ghost(struct lladd_page *page, uint32_t s, bool ghost)
{
    struct slot e = slot_get(page->bytes, s);
    int32_t was = (int32_t)slack_of(e);
    e.ghost = ghost;
    slot_put(page->bytes, s, e);
    add(page->bytes, SLOTTED_IDLE, (int32_t)slack_of(e) - was);
    add(page->bytes, SLOTTED_GHOSTS, ghost ? 1 : -1);
}

static void free_redo(struct lladd_page *page, struct lladd_span redo)
{
    set_ghost(page, lladd_get16(redo.data), true);
}

static void free_undo(struct lladd_page *page, struct lladd_span undo)
{
    set_ghost(page, lladd_get16(undo.data), false);
}

const struct lladd_op ll_operations__slotted_free = {
    .struct_size = sizeof(struct lladd_op),
    .name = "lladd.slotted.free",
    .version = 1,
    .page_type = "lladd.slotted",
    .redo_fields = slot_fields,
    .undo_fields = slot_fields,
    .record_max = 4,
    .undo_kind = LLADD_UNDO_PAGE,
    .prepare = free_prepare,
    .validate = free_validate,
    .redo = free_redo,
    .undo = free_undo,
};

/* ---- set ------------------------------------------------------------------------------------- */

/* same_front and same_back count the equal bytes at one end of the old and the new bytes, which the
 * log record leaves out. */
static uint32_t same_front(const unsigned char *a, const unsigned char *b, uint32_t n)
{
    uint32_t i = 0;
    while (n - i >= 8 && lladd_get64(a + i) == lladd_get64(b + i))
        i += 8;
    while (i < n && a[i] == b[i])
        i++;
    return i;
}
static uint32_t same_back(const unsigned char *a_end, const unsigned char *b_end, uint32_t n)
{
    uint32_t i = 0;
    while (n - i >= 8 && lladd_get64(a_end - i - 8) == lladd_get64(b_end - i - 8))
        i += 8;
    while (i < n && a_end[-1 - (int64_t)i] == b_end[-1 - (int64_t)i])
        i++;
    return i;
}

static void trim_same(struct ll_slotted_set *t, const unsigned char *old)
{
    uint32_t least = t->cut < t->len ? t->cut : t->len;
    uint32_t front = same_front(old + t->from, t->bytes, least);
    uint32_t back = same_back(old + t->from + t->cut, t->bytes + t->len, least - front);
    t->from += front;
    t->bytes += front;
    t->cut -= front + back;
    t->len -= front + back;
}

static int set_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                       struct lladd_draft *draft)
{
    (void)ctx;
    struct ll_slotted_set *a = (struct ll_slotted_set *)(uintptr_t)args.data;
    if (!live(page, a->slot))
        return no_record(draft, page, a->slot);
    struct slot e = slot_get(page.bytes, a->slot);
    struct ll_slotted_set t = *a;
    if (t.whole) {
        t.from = 0;
        t.cut = e.len;
    } else if (t.from > e.len || t.cut > e.len - t.from) {
        return ll_operations__on(draft->error, page.number,
                                 lladd_error_set(draft->error, LLADD_OUT_OF_RANGE,
                                                 "bytes %u to %llu of a record of %u bytes", t.from,
                                                 (unsigned long long)t.from + t.cut, e.len));
    }
    uint32_t len = e.len - t.cut + t.len;
    if (len > lladd_slotted_max(page.size))
        return LLADD_TOO_LARGE;
    if (slot_need(len) < slot_need(e.len) &&
        !(t.owner && ll_operations__reservations_own(t.owner, page.number, t.slot))) {
        a->wants_hold = true;
        return LLADD_BUSY;
    }
    if (len > e.cap) {
        uint32_t need = slot_need(len), have = slotted_free(page.bytes, page.size) + e.cap;
        a->short_of = need > have ? need - have : 0;
        a->state = state_of(page);
        if (a->short_of)
            return LLADD_PAGE_FULL;
        if (!room_fine(page, need, need - e.cap))
            return damaged(draft, page);
    }
    if (t.bytes)
        trim_same(&t, page.bytes + e.at);
    if (t.len > LLADD_SLOTTED_PIECE || t.cut > LLADD_SLOTTED_PIECE)
        return LLADD_TOO_LARGE;
    unsigned char *redo = lladd_draft_redo(draft, SET_HEAD + t.len);
    unsigned char *undo = lladd_draft_undo(draft, SET_UNDO_HEAD + t.cut);
    lladd_put16(redo, (uint16_t)t.slot);
    redo[2] = (unsigned char)(t.new_tag == SLOT_NONE ? e.tag : t.new_tag);
    lladd_put16(redo + 3, (uint16_t)len);
    lladd_put16(redo + 5, (uint16_t)t.from);
    if (t.bytes && t.len)
        memcpy(redo + SET_HEAD, t.bytes, t.len);
    else
        memset(redo + SET_HEAD, 0, t.len);
    lladd_put16(undo, (uint16_t)t.slot);
    undo[2] = (unsigned char)e.tag;
    lladd_put16(undo + 3, (uint16_t)e.len);
    lladd_put16(undo + 5, (uint16_t)t.from);
    lladd_put16(undo + 7, (uint16_t)e.cap);
    memcpy(undo + SET_UNDO_HEAD, page.bytes + e.at + t.from, t.cut);
    return 0;
}

/* Is the change possible? The new contents of `want` bytes are the first `from` of the old `len`
 * bytes, then the `n` bytes of the log record, then the end of the old contents. */
static bool splice_fine(uint32_t len, uint32_t want, uint32_t from, uint32_t n)
{
    return from <= want && n <= want - from && from + (want - from - n) <= len;
}

static bool set_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span b)
{
    const unsigned char *p = b.data;
    uint32_t head = kind == LLADD_SPAN_REDO ? SET_HEAD : SET_UNDO_HEAD;
    if (b.len < head || p[2] >= SLOT_ALIGN || !live(page, lladd_get16(p)))
        return false;
    struct slot e = slot_get(page.bytes, lladd_get16(p));
    uint32_t len = lladd_get16(p + 3);
    if (!splice_fine(e.len, len, lladd_get16(p + 5), (uint32_t)b.len - head) ||
        b.len - head > LLADD_SLOTTED_PIECE)
        return false;
    if (kind == LLADD_SPAN_UNDO)
        return len <= e.cap && lladd_get16(p + 7) % SLOT_ALIGN == 0;
    return len <= e.cap || (len <= lladd_slotted_max(page.size) &&
                            room_fine(page, slot_need(len), slot_need(len) - e.cap));
}

static void splice(unsigned char *contents, uint32_t len, uint32_t want, uint32_t from,
                   const unsigned char *bytes, uint32_t n)
{
    uint32_t rest = want - from - n;
    memmove(contents + from + n, contents + len - rest, rest);
    memcpy(contents + from, bytes, n);
}

/* Gives the record a larger place, of `cap` bytes. */
static struct slot grow(struct lladd_page *page, uint32_t s, uint32_t cap)
{
    unsigned char *p = page->bytes;
    struct slot e = slot_get(p, s);
    if (slotted_gap(p, page->size) >= cap) {
        add(p, SLOTTED_AREA, (int32_t)cap);
        uint32_t at = page->size - slotted_get(p, SLOTTED_AREA);
        memcpy(p + at, p + e.at, e.len);
        add(p, SLOTTED_HOLES, (int32_t)e.cap);
        e.at = at;
    } else {
        compact(page);
        sink_record(page, s);
        e = slot_get(p, s);
        add(p, SLOTTED_AREA, (int32_t)(cap - e.cap));
        memmove(p + e.at - (cap - e.cap), p + e.at, e.len);
        e.at -= cap - e.cap;
    }
    e.cap = cap;
    memset(p + e.at + e.len, 0, cap - e.len);
    return e;
}

static void set_redo(struct lladd_page *page, struct lladd_span redo)
{
    const unsigned char *r = redo.data;
    unsigned char *p = page->bytes;
    uint32_t s = lladd_get16(r), len = lladd_get16(r + 3);
    struct slot e = slot_get(p, s);
    int32_t was = (int32_t)slack_of(e);
    if (len > e.cap)
        e = grow(page, s, slot_need(len));
    splice(p + e.at, e.len, len, lladd_get16(r + 5), r + SET_HEAD, (uint32_t)redo.len - SET_HEAD);
    e.len = len;
    e.tag = r[2];
    slot_put(p, s, e);
    add(p, SLOTTED_IDLE, (int32_t)slack_of(e) - was);
}

static void set_undo(struct lladd_page *page, struct lladd_span undo)
{
    const unsigned char *u = undo.data;
    unsigned char *p = page->bytes;
    uint32_t s = lladd_get16(u), len = lladd_get16(u + 3), cap = lladd_get16(u + 7);
    struct slot e = slot_get(p, s);
    int32_t was = (int32_t)slack_of(e);
    splice(p + e.at, e.len, len, lladd_get16(u + 5), u + SET_UNDO_HEAD,
           (uint32_t)undo.len - SET_UNDO_HEAD);
    e.len = len;
    e.tag = u[2];
    /* The record gets back the size that it had before the change; if a purge has freed slack
     * since, it keeps the smaller size. Damaged undo bytes may say less than the contents need. */
    cap = cap < slot_need(len) ? slot_need(len) : cap;
    if (cap < e.cap) {
        add(p, SLOTTED_HOLES, (int32_t)(e.cap - cap));
        e.cap = cap;
    }
    slot_put(p, s, e);
    add(p, SLOTTED_IDLE, (int32_t)slack_of(e) - was);
}

static const struct lladd_field set_fields[] = {
    {"slot", LLADD_FIELD_U16}, {"tag", LLADD_FIELD_U8},     {"length", LLADD_FIELD_U16},
    {"from", LLADD_FIELD_U16}, {"bytes", LLADD_FIELD_TEXT}, {NULL, LLADD_FIELD_END}};
static const struct lladd_field set_undo_fields[] = {
    {"slot", LLADD_FIELD_U16}, {"tag", LLADD_FIELD_U8},       {"length", LLADD_FIELD_U16},
    {"from", LLADD_FIELD_U16}, {"occupied", LLADD_FIELD_U16}, {"bytes", LLADD_FIELD_TEXT},
    {NULL, LLADD_FIELD_END}};

const struct lladd_op ll_operations__slotted_set = {
    .struct_size = sizeof(struct lladd_op),
    .name = "lladd.slotted.set",
    .version = 1,
    .page_type = "lladd.slotted",
    .redo_fields = set_fields,
    .undo_fields = set_undo_fields,
    .record_max = SET_HEAD + SET_UNDO_HEAD + 2 * LLADD_SLOTTED_PIECE,
    .credit_max = 2, /* lladd_slotted_credit with count 1 takes credit for 2 */
    .undo_kind = LLADD_UNDO_PAGE,
    .prepare = set_prepare,
    .validate = set_validate,
    .redo = set_redo,
    .undo = set_undo,
};

/* ---- purge ----------------------------------------------------------------------------------- */

static bool purge_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span b)
{
    const unsigned char *p = b.data;
    if (kind != LLADD_SPAN_REDO || b.len % 2 || !ll_operations__slotted_head_fine(page))
        return false;
    for (size_t i = 0; i < b.len; i += 2)
        if (!ll_operations__slot_fine(page, lladd_get16(p + i)))
            return false;
    return true;
}

static void purge_redo(struct lladd_page *page, struct lladd_span redo)
{
    const unsigned char *r = redo.data;
    unsigned char *p = page->bytes;
    for (size_t i = 0; i < redo.len; i += 2) {
        uint32_t s = lladd_get16(r + i);
        struct slot e = slot_get(p, s);
        uint32_t keep = slot_need(e.len);
        if (e.at == 0)
            continue; /* the log record names the slot twice */
        if (e.ghost) {
            clear_slot(page, s);
        } else if (e.cap > keep) {
            add(p, SLOTTED_IDLE, -(int32_t)(e.cap - keep));
            add(p, SLOTTED_HOLES, (int32_t)(e.cap - keep));
            e.cap = keep;
            slot_put(p, s, e);
        }
    }
    trim_slots(page);
}

static const struct lladd_field purge_fields[] = {{"slots", LLADD_FIELD_REST},
                                                  {NULL, LLADD_FIELD_END}};

static void purge_describe(void *ctx, struct lladd_sink *sink, enum lladd_span_kind kind,
                           struct lladd_span b)
{
    (void)ctx;
    (void)kind;
    for (size_t i = 0; i + 1 < b.len; i += 2)
        lladd_sink_printf(sink, "%s%u", i ? " " : "",
                          lladd_get16((const unsigned char *)b.data + i));
}

const struct lladd_op ll_operations__slotted_purge = {
    .struct_size = sizeof(struct lladd_op),
    .name = "lladd.slotted.purge",
    .version = 1,
    .page_type = "lladd.slotted",
    .redo_fields = purge_fields,
    .record_max = LL_SLOTTED_PURGE_MAX * 2,
    .undo_kind = LLADD_UNDO_NONE,
    .validate = purge_validate,
    .redo = purge_redo,
    .describe = purge_describe,
};

/* ---- the page type --------------------------------------------------------------------------- */

static void slotted_hole(struct lladd_view v, uint32_t *begin, uint32_t *end)
{
    *begin = *end = v.size;
    if (!ll_operations__slotted_head_fine(v))
        return;
    *begin = SLOT_DIR + slotted_get(v.bytes, SLOTTED_SLOTS) * SLOT_BYTES;
    *end = v.size - slotted_get(v.bytes, SLOTTED_AREA);
}

/* Do the records that begin in a window end at or below *low without overlaps? Lowers *low to the
 * lowest of them. */
static bool window_check(struct lladd_view v, uint32_t window, uint32_t *low)
{
    uint16_t order[WINDOW_SLOTS];
    uint32_t n = slots_by_place(v.bytes, window, order);
    for (uint32_t i = 0; i < n && n <= WINDOW_SLOTS; i++) {
        struct slot e = slot_get(v.bytes, order[i]);
        if (e.at + e.cap > *low)
            return false;
        *low = e.at;
    }
    return n <= WINDOW_SLOTS;
}

static bool slotted_check(struct lladd_view v)
{
    uint32_t unused = 0, ghosts = 0, idle = 0;
    uint32_t slots = slotted_get(v.bytes, SLOTTED_SLOTS);
    if (!ll_operations__slotted_fine(v) || (slots && slot_get(v.bytes, slots - 1).at == 0))
        return false;
    for (uint32_t s = 0; s < slots; s++) {
        struct slot e = slot_get(v.bytes, s);
        unused += e.at == 0;
        ghosts += e.at != 0 && e.ghost;
        idle += e.at ? slack_of(e) : 0;
        if (e.at == 0 && (e.len || e.cap || e.tag || e.ghost))
            return false;
    }
    if (unused != slotted_get(v.bytes, SLOTTED_UNUSED) ||
        ghosts != slotted_get(v.bytes, SLOTTED_GHOSTS) ||
        idle != slotted_get(v.bytes, SLOTTED_IDLE))
        return false;
    uint32_t low = v.size, w = last_window(v.size);
    for (; w > 0; w -= WINDOW)
        if (!window_check(v, w, &low))
            return false;
    return window_check(v, 0, &low);
}

/* Masks the places of records, and the bytes of slack, holes and gap. In the directory, a
 * checksum of each record's bytes replaces the record's offset. One checksum of all records
 * replaces the bytes of the records: a copy of the largest page would not fit on a small stack. */
static void slotted_mask(void *ctx, struct lladd_page *page)
{
    unsigned char *p = page->bytes;
    uint32_t all = 0, sum = 0, slots = slotted_get(p, SLOTTED_SLOTS);
    (void)ctx;
    if (!ll_operations__slotted_fine((struct lladd_view){p, page->size, 0, page->number}))
        return;
    for (uint32_t s = 0; s < slots; s++) {
        struct slot e = slot_get(p, s);
        if (e.at == 0)
            continue;
        uint32_t crc = lladd_crc32c(0, p + e.at, e.len);
        all = lladd_crc32c(all, &crc, sizeof crc);
        sum += e.cap;
        e.at = (crc % 0x3fff + 1) * SLOT_ALIGN;
        slot_put(p, s, e);
    }
    uint32_t dir_end = SLOT_DIR + slots * SLOT_BYTES;
    memset(p + dir_end, 0, page->size - dir_end);
    if (sum)
        lladd_put32(p + page->size - 4, all);
    put(p, SLOTTED_AREA, sum);
    put(p, SLOTTED_HOLES, 0);
}

static void slotted_describe(void *ctx, struct lladd_sink *sink, struct lladd_view v)
{
    (void)ctx;
    if (!ll_operations__slotted_head_fine(v))
        return;
    lladd_sink_printf(sink,
                      "owner %llu, %u slots, %u unused, %u ghosts, %u bytes free, %u in ghosts "
                      "and slack\n",
                      (unsigned long long)lladd_slotted_owner(v), lladd_slotted_slots(v),
                      slotted_get(v.bytes, SLOTTED_UNUSED), slotted_get(v.bytes, SLOTTED_GHOSTS),
                      slotted_free(v.bytes, v.size), slotted_get(v.bytes, SLOTTED_IDLE));
    for (uint32_t s = 0; s < lladd_slotted_slots(v); s++) {
        struct slot e = slot_get(v.bytes, s);
        if (e.at)
            lladd_sink_printf(sink, "  %u: %u bytes at %u, occupies %u, tag %u%s\n", s, e.len, e.at,
                              e.cap, e.tag, e.ghost ? ", ghost" : "");
    }
}

const struct lladd_page_type ll_operations__slotted_page = {
    .struct_size = sizeof(struct lladd_page_type),
    .name = "lladd.slotted",
    .version = 1,
    .hole = slotted_hole,
    .check = slotted_check,
    .mask = slotted_mask,
    .describe = slotted_describe,
};
