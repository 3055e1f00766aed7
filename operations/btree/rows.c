/* SPDX-License-Identifier: BSD-2-Clause */
/* The operations that change a row of a leaf.
 *
 *   put      redo u16 slot, entry           undo (logical) u64 root, u8 flags, u16 key length, key,
 *                                           old value (of a new row: none)
 *   remove   redo u16 slot, u8 1            undo (logical) u64 root, u8 flags, key
 *   mark     redo u16 slot, u8 is a ghost   no undo: compensates remove, and put of a new row
 *   restore  redo u16 slot, entry           no undo: compensates put over a row or reserved ghost
 *
 * If the key of a put has no entry yet, the record has the number of the slot plus 32768. Such a
 * put of a short row without a blob is logged in a shorter form, which is the most frequent record
 * of a growing tree:
 *
 *   insert   redo u16 slot, u16 key         undo (logical) u32 root, key
 *            length, key, value
 *
 * Several new rows of a leaf, in ascending order, are one record:
 *
 *   rows     redo, for each: u16 slot,      undo (logical) u32 root; for each: u16
 *            u16 key length, u16 value      key length, key
 *            length, key, value
 *
 * Undo finds the row by its key, even if the row has moved to another leaf. Undo needs no room
 * (REC-3, BPT-3): a removed row leaves a ghost that keeps the row's bytes, and a shorter value
 * leaves the room of the longer one. No other change gets these bytes while the transaction may
 * roll back (tree.c, reservations). */
#include "operations/btree/tree.h"

#include <lladd/log_read.h>

#define NEW_SLOT 0x8000u
#define UNDO_HEAD 9u      /* u64 root, u8 flags */
#define PUT_UNDO_HEAD 11u /* the undo bytes of put have a u16 key length, too */
/* Flags of undo bytes. FLAG_BLOB: the old value is a reference. FLAG_GHOST: the key had a ghost.
 * FLAG_NOTHING: the key had no entry, or a ghost that no undo needs. */
enum { FLAG_BLOB = 1, FLAG_GHOST = 2, FLAG_NOTHING = 4 };

#define INSERT_HEAD 4u      /* u16 slot, u16 key length */
#define INSERT_UNDO_HEAD 4u /* u32 root */
#define ROW_HEAD 6u         /* u16 slot, u16 key length, u16 value length */
#define ROW_UNDO_HEAD 2u    /* u16 key length */

_Static_assert(INSERT_HEAD + INSERT_UNDO_HEAD == BT_INSERT_HEADS, "the heads of insert");

/* The longest entry in a record. */
#define ENTRY_BYTES (BT_PAGE_MAX / 4)

/* ---- storing an entry ------------------------------------------------------------------------ */

/* May this entry go into that slot? The caller has checked the page. */
static bool store_fits(struct lladd_view v, uint32_t where, const struct bt_entry *e)
{
    const unsigned char *p = v.bytes;
    uint32_t slots = bt_get(p, BT_SLOTS), slot = where & ~NEW_SLOT;
    uint32_t need = bt_entry_size(BT_LEN(e->key_len), e->cap);
    if (p[BT_LEVEL] > 0 || need > ll_btree__entry_max(v.size) ||
        BT_LEN(e->key_len) > ll_btree__key_max(v.size))
        return false;
    if (where & NEW_SLOT)
        return slot <= slots && (ll_btree__gap(p, v.size) >= need + BT_SLOT ||
                                 ll_btree__room(p, v.size) >= need + BT_SLOT);
    if (slot >= slots)
        return false;
    struct bt_entry old = bt_entry_of(p, slot);
    return bt_compare(bt_entry_key(e), bt_entry_key(&old)) == 0 &&
           (BT_LEN(e->value_len) <= old.cap || ll_btree__gap(p, v.size) >= need + BT_SLOT ||
            ll_btree__room(p, v.size) + bt_entry_size(BT_LEN(old.key_len), old.cap) >= need);
}

/* Is the key in order between its neighbours? */
static bool place_fits(struct lladd_view v, uint32_t where, const struct bt_entry *e)
{
    struct bt_place p;
    struct bt_key key = bt_entry_key(e);
    if (!bt_covers(v.bytes, v.size, key))
        return false;
    ll_btree__find(v.bytes, v.size, key, &p);
    return p.found == !(where & NEW_SLOT) && p.slot == (where & ~NEW_SLOT);
}

static bool store_validate(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    const unsigned char *p = s.data;
    struct bt_entry e;
    return kind == LLADD_SPAN_REDO && s.len > 2 && ll_btree__fine(v) &&
           ll_btree__unpack(p + 2, s.len - 2, &e) == s.len - 2 &&
           (!(e.value_len & BT_BLOB) || BT_LEN(e.value_len) == BT_REF) &&
           store_fits(v, lladd_get16(p), &e) && place_fits(v, lladd_get16(p), &e);
}

static void store_redo(struct lladd_page *page, struct lladd_span redo)
{
    const unsigned char *p = redo.data;
    uint32_t where = lladd_get16(p);
    struct bt_entry e;
    if (!ll_btree__unpack(p + 2, redo.len - 2, &e))
        return;
    if (where & NEW_SLOT)
        ll_btree__add(page->bytes, page->size, where & ~NEW_SLOT, &e);
    else
        ll_btree__change(page->bytes, page->size, where, &e);
}

/* The entry that `insert` adds. */
static bool parse_insert(struct lladd_span s, struct bt_entry *out)
{
    const unsigned char *p = s.data;
    size_t rest = s.len - INSERT_HEAD;
    if (s.len < INSERT_HEAD || s.len > BT_INSERT_MAX || lladd_get16(p + 2) > rest)
        return false;
    uint16_t key = lladd_get16(p + 2), value = (uint16_t)(rest - key);
    *out = (struct bt_entry){p + INSERT_HEAD, p + INSERT_HEAD + key, key, value, value};
    return true;
}

static bool insert_redo_fine(struct lladd_view v, struct lladd_span s)
{
    struct bt_entry e;
    if (!parse_insert(s, &e) || lladd_get16(s.data) >= NEW_SLOT || !ll_btree__fine(v))
        return false;
    uint32_t where = lladd_get16(s.data) | NEW_SLOT;
    return store_fits(v, where, &e) && place_fits(v, where, &e);
}

static void insert_redo(struct lladd_page *page, struct lladd_span redo)
{
    struct bt_entry e;
    if (parse_insert(redo, &e))
        ll_btree__add(page->bytes, page->size, lladd_get16(redo.data), &e);
}

/* The next row of `rows`: its slot and entry. Returns its length, 0 if it is invalid. */
static size_t parse_row(const unsigned char *p, size_t n, uint32_t *slot, struct bt_entry *out)
{
    if (n < ROW_HEAD)
        return 0;
    uint16_t key = lladd_get16(p + 2), value = lladd_get16(p + 4);
    size_t len = ROW_HEAD + (size_t)key + value;
    *slot = lladd_get16(p);
    *out = (struct bt_entry){p + ROW_HEAD, p + ROW_HEAD + key, key, value, value};
    return len <= n && key < BT_GHOST && value < BT_BLOB ? len : 0;
}

/* Checks all rows against the page as it is before the first one is added. The slot of row n counts
 * the n rows that are added before it, so n is subtracted. `need` is the room for all rows. */
static bool rows_redo_fine(struct lladd_view v, struct lladd_span s)
{
    struct bt_key before = {.len = 0};
    uint32_t n = 0, need = 0;
    const unsigned char *p = s.data;
    if (s.len == 0 || s.len > BT_ROWS_BYTES || !ll_btree__fine(v) || v.bytes[BT_LEVEL] > 0)
        return false;
    for (size_t left = s.len, len; left > 0; left -= len, p += len, n++) {
        uint32_t slot;
        struct bt_entry e;
        len = parse_row(p, left, &slot, &e);
        if (len == 0 || slot < n || slot - n >= NEW_SLOT || e.key_len > ll_btree__key_max(v.size) ||
            bt_entry_size(e.key_len, e.cap) > ll_btree__entry_max(v.size) ||
            !place_fits(v, (slot - n) | NEW_SLOT, &e) ||
            (n > 0 && bt_compare(before, bt_entry_key(&e)) >= 0))
            return false;
        need += BT_SLOT + bt_entry_size(e.key_len, e.cap);
        before = bt_entry_key(&e);
    }
    return need <= ll_btree__room(v.bytes, v.size);
}

static void rows_redo(struct lladd_page *page, struct lladd_span redo)
{
    const unsigned char *p = redo.data;
    for (size_t left = redo.len, len; left > 0; left -= len, p += len) {
        uint32_t slot = 0;
        struct bt_entry e;
        len = parse_row(p, left, &slot, &e);
        ll_btree__add(page->bytes, page->size, slot, &e);
    }
}

static bool mark_validate(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    const unsigned char *p = s.data;
    return kind == LLADD_SPAN_REDO && s.len == 3 && p[2] <= 1 && ll_btree__fine(v) &&
           v.bytes[BT_LEVEL] == 0 && lladd_get16(p) < bt_get(v.bytes, BT_SLOTS);
}

static void mark_redo(struct lladd_page *page, struct lladd_span redo)
{
    const unsigned char *p = redo.data;
    ll_btree__set_ghost(page->bytes, lladd_get16(p), p[2] != 0);
}

/* ---- prepare --------------------------------------------------------------------------------- */

static int answer(struct bt_change *c, struct lladd_draft *d, enum bt_answer a)
{
    c->answer = a;
    d->error->code = LLADD_BUSY; /* the caller acts on the answer; no message is needed */
    return LLADD_BUSY;
}

static int too_long(struct lladd_draft *d)
{
    return lladd_error_set(d->error, LLADD_BUG, "a row is longer than its operation's record");
}

/* Checks that the page is the key's leaf, and finds the key in it. */
static inline enum bt_answer look(struct bt_change *c, struct lladd_view v, struct bt_seen *seen)
{
    c->answer = BT_DONE;
    c->right = lladd_page_of(0);
    c->gone = lladd_page_of(0);
    enum bt_step step = ll_btree__look(c->tree, v.bytes, v.size, c->key, 0, seen);
    if (__builtin_expect(step == BT_HERE, 1)) {
        c->at_end = bt_get(v.bytes, BT_HIGH) == BT_OPEN_END &&
                    seen->place.slot == bt_get(v.bytes, BT_SLOTS);
        return BT_DONE;
    }
    if (step == BT_GO_RIGHT)
        c->right = seen->right;
    return BT_MOVED;
}

static lladd_pageno blob_of(const struct bt_entry *e)
{
    return lladd_page_of(e->value_len & BT_BLOB ? lladd_get64(e->value + 8) : 0);
}

static int draft_store(struct lladd_draft *d, uint32_t where, const struct bt_entry *e)
{
    unsigned char *redo = lladd_draft_redo(d, 2 + ll_btree__pack_size(e));
    if (!redo)
        return too_long(d);
    lladd_put16(redo, (uint16_t)where);
    ll_btree__pack(redo + 2, e);
    return 0;
}

static int draft_put_undo(const struct bt_change *c, struct lladd_draft *d, unsigned flags,
                          struct lladd_span value)
{
    unsigned char *undo = lladd_draft_undo(d, PUT_UNDO_HEAD + c->key.len + value.len);
    if (!undo)
        return too_long(d);
    lladd_put64(undo, c->tree->root.v);
    undo[8] = (unsigned char)flags;
    lladd_put16(undo + UNDO_HEAD, (uint16_t)c->key.len);
    lladd_copy(undo + PUT_UNDO_HEAD, c->key.bytes, c->key.len);
    lladd_copy(undo + PUT_UNDO_HEAD + c->key.len, value.data, value.len);
    return 0;
}

/* A put of a key that has an entry. */
static int put_over(struct bt_change *c, struct lladd_view v, struct lladd_draft *d, uint32_t slot)
{
    struct bt_entry old = bt_entry_of(v.bytes, slot);
    bool ghost = (old.key_len & BT_GHOST) != 0;
    if (!ghost && c->only)
        return answer(c, d, BT_PRESENT);
    /* If another transaction has reserved the ghost, its reservation may end before this
     * transaction does. So this transaction reserves the key, too. */
    if (!c->reserved &&
        (ghost ? ll_btree__held(c->tree, c->key) : BT_LEN(c->value_len) < BT_LEN(old.value_len)))
        return answer(c, d, BT_RESERVE);
    uint16_t len = BT_LEN(c->value_len);
    struct bt_entry e = {c->key.bytes, c->value, (uint16_t)c->key.len, c->value_len,
                         len > old.cap ? len : old.cap};
    if (!store_fits(v, slot, &e))
        return answer(c, d, BT_FULL);
    c->inserted = ghost;
    if (!ghost)
        c->gone = blob_of(&old);
    TRY(draft_store(d, slot, &e));
    if (ghost && !c->reserved) /* undo need not restore a ghost that no transaction has reserved */
        return draft_put_undo(c, d, FLAG_NOTHING, lladd_span_of(NULL, 0));
    unsigned flags = (ghost ? FLAG_GHOST : 0u) | (old.value_len & BT_BLOB ? FLAG_BLOB : 0u);
    return draft_put_undo(c, d, flags, lladd_span_of(old.value, BT_LEN(old.value_len)));
}

static int put_prepare(void *ctx, struct lladd_view v, struct lladd_span args,
                       struct lladd_draft *d)
{
    (void)ctx;
    struct bt_change *c = *(struct bt_change *const *)args.data;
    struct bt_seen seen;
    enum bt_answer a = look(c, v, &seen);
    if (a != BT_DONE)
        return answer(c, d, a);
    if (seen.place.found)
        return put_over(c, v, d, seen.place.slot);
    struct bt_entry e = {c->key.bytes, c->value, (uint16_t)c->key.len, c->value_len,
                         BT_LEN(c->value_len)};
    uint32_t where = seen.place.slot | NEW_SLOT;
    if (!store_fits(v, where, &e))
        return answer(c, d, BT_FULL);
    c->inserted = true;
    TRY(draft_store(d, where, &e));
    return draft_put_undo(c, d, FLAG_NOTHING, lladd_span_of(NULL, 0));
}

static int insert_prepare(void *ctx, struct lladd_view v, struct lladd_span args,
                          struct lladd_draft *d)
{
    (void)ctx;
    struct bt_change *c = *(struct bt_change *const *)args.data;
    struct bt_seen seen;
    enum bt_answer a = look(c, v, &seen);
    if (a == BT_DONE && seen.place.found)
        a = seen.key_len & BT_GHOST ? BT_OVER_GHOST : BT_PRESENT;
    if (a != BT_DONE)
        return answer(c, d, a);
    uint16_t len = c->value_len;
    struct bt_entry e = {c->key.bytes, c->value, (uint16_t)c->key.len, len, len};
    if (!store_fits(v, seen.place.slot | NEW_SLOT, &e))
        return answer(c, d, BT_FULL);
    unsigned char *redo = lladd_draft_redo(d, INSERT_HEAD + c->key.len + len);
    unsigned char *undo = lladd_draft_undo(d, INSERT_UNDO_HEAD + c->key.len);
    if (!redo || !undo)
        return too_long(d);
    lladd_put16(redo, (uint16_t)seen.place.slot);
    lladd_put16(redo + 2, (uint16_t)c->key.len);
    lladd_copy(redo + INSERT_HEAD, c->key.bytes, c->key.len);
    lladd_copy(redo + INSERT_HEAD + c->key.len, c->value, len);
    lladd_put32(undo, (uint32_t)c->tree->root.v);
    lladd_copy(undo + INSERT_UNDO_HEAD, c->key.bytes, c->key.len);
    c->inserted = true;
    return 0;
}

static void set_row(struct bt_change *c, const struct lladd_btree_row *r)
{
    c->key = (struct bt_key){r->key, (uint32_t)r->key_len};
    c->value = r->value;
    c->value_len = (uint16_t)r->value_len;
}

/* Finds the slots of the first rows, as many as one record may have. Returns the length of their
 * redo bytes, and adds the length of their undo bytes to *undo_len. */
static size_t place_rows(struct bt_rows *r, struct lladd_view v, uint32_t *slots, size_t *undo_len)
{
    struct bt_change *c = r->change;
    uint32_t gap = ll_btree__gap(v.bytes, v.size), need = 0;
    size_t redo_len = 0;
    for (r->done = 0; r->done < r->n; r->done++) {
        struct bt_key before = c->key;
        struct bt_seen seen;
        set_row(c, &r->rows[r->done]);
        size_t redo = ROW_HEAD + c->key.len + c->value_len, undo = ROW_UNDO_HEAD + c->key.len;
        need += BT_SLOT + bt_entry_size(c->key.len, c->value_len);
        if ((r->done && bt_compare(before, c->key) >= 0) || need > gap ||
            redo_len + redo + *undo_len + undo > BT_ROWS_BYTES || look(c, v, &seen) != BT_DONE ||
            seen.place.found)
            break;
        slots[r->done] = seen.place.slot + r->done;
        redo_len += redo;
        *undo_len += undo;
    }
    return redo_len;
}

static int rows_prepare(void *ctx, struct lladd_view v, struct lladd_span args,
                        struct lladd_draft *d)
{
    (void)ctx;
    struct bt_rows *r = *(struct bt_rows *const *)args.data;
    struct bt_change *c = r->change;
    uint32_t slots[BT_ROWS_MAX];
    size_t undo_len = INSERT_UNDO_HEAD, redo_len = place_rows(r, v, slots, &undo_len);
    if (r->done < BT_ROWS_MIN)
        return answer(c, d, r->done == 0 && c->answer == BT_MOVED ? BT_MOVED : BT_FEW);
    unsigned char *redo = lladd_draft_redo(d, redo_len), *undo = lladd_draft_undo(d, undo_len);
    if (!redo || !undo)
        return too_long(d);
    c->answer = BT_DONE;
    lladd_put32(undo, (uint32_t)c->tree->root.v);
    undo += INSERT_UNDO_HEAD;
    for (uint32_t i = 0; i < r->done; i++) {
        set_row(c, &r->rows[i]);
        lladd_put16(redo, (uint16_t)slots[i]);
        lladd_put16(redo + 2, (uint16_t)c->key.len);
        lladd_put16(redo + 4, c->value_len);
        lladd_copy(redo + ROW_HEAD, c->key.bytes, c->key.len);
        lladd_copy(redo + ROW_HEAD + c->key.len, c->value, c->value_len);
        redo += ROW_HEAD + c->key.len + c->value_len;
        lladd_put16(undo, (uint16_t)c->key.len);
        lladd_copy(undo + ROW_UNDO_HEAD, c->key.bytes, c->key.len);
        undo += ROW_UNDO_HEAD + c->key.len;
    }
    return 0;
}

static int remove_prepare(void *ctx, struct lladd_view v, struct lladd_span args,
                          struct lladd_draft *d)
{
    (void)ctx;
    struct bt_change *c = *(struct bt_change *const *)args.data;
    struct bt_seen seen;
    enum bt_answer a = look(c, v, &seen);
    if (a == BT_DONE && (!seen.place.found || seen.key_len & BT_GHOST))
        a = BT_ABSENT;
    if (a != BT_DONE)
        return answer(c, d, a);
    struct bt_entry e = bt_entry_of(v.bytes, seen.place.slot);
    c->gone = blob_of(&e);
    c->sparse = bt_gets_sparse(bt_get(v.bytes, BT_SLOTS), bt_get(v.bytes, BT_GHOSTS) + 1);
    unsigned char *redo = lladd_draft_redo(d, 3);
    unsigned char *undo = lladd_draft_undo(d, UNDO_HEAD + c->key.len);
    if (!undo)
        return too_long(d);
    lladd_put16(redo, (uint16_t)seen.place.slot);
    redo[2] = 1;
    lladd_put64(undo, c->tree->root.v);
    undo[8] = 0;
    lladd_copy(undo + UNDO_HEAD, c->key.bytes, c->key.len);
    return 0;
}

static int mark_prepare(void *ctx, struct lladd_view v, struct lladd_span args,
                        struct lladd_draft *d)
{
    (void)ctx;
    (void)v;
    const struct bt_mark *m = args.data;
    unsigned char *redo = lladd_draft_redo(d, 3);
    lladd_put16(redo, (uint16_t)m->slot);
    redo[2] = m->ghost;
    return 0;
}

static int restore_prepare(void *ctx, struct lladd_view v, struct lladd_span args,
                           struct lladd_draft *d)
{
    (void)ctx;
    const struct bt_restore *r = args.data;
    if (!store_fits(v, r->slot, &r->entry))
        return lladd_error_set(d->error, LLADD_CORRUPT_PAGE,
                               "page %llu has no room for the row that undo restores",
                               (unsigned long long)v.number.v);
    return draft_store(d, r->slot, &r->entry);
}

/* ---- undo bytes ------------------------------------------------------------------------------ */

/* Parses undo bytes; false: they are invalid. */
static bool parse_undo(struct lladd_span s, bool put, lladd_pageno *root, struct bt_undo *out)
{
    const unsigned char *p = s.data;
    size_t head = put ? PUT_UNDO_HEAD : UNDO_HEAD;
    if (s.len < head || p[8] >= (put ? 2 * FLAG_NOTHING : 1))
        return false;
    unsigned flags = p[8];
    size_t n = s.len - head, key = put ? lladd_get16(p + UNDO_HEAD) : n;
    if (key > n || key > BT_KEY_MAX || n - key > ENTRY_BYTES || (flags & FLAG_NOTHING && key != n))
        return false;
    *root = lladd_page_of(lladd_get64(p));
    *out = (struct bt_undo){.what = !put                   ? BT_UNDO_REMOVE
                                    : flags & FLAG_NOTHING ? BT_UNDO_INSERT
                                                           : BT_UNDO_REPLACE,
                            .key = {p + head, (uint32_t)key},
                            .value = p + head + key,
                            .value_len = (uint16_t)((n - key) | (flags & FLAG_BLOB ? BT_BLOB : 0)),
                            .ghost = (flags & FLAG_GHOST) != 0};
    return !(flags & FLAG_BLOB) || n - key == BT_REF;
}

static bool parse_insert_undo(struct lladd_span s, lladd_pageno *root, struct bt_undo *out)
{
    const unsigned char *p = s.data;
    if (s.len < INSERT_UNDO_HEAD || s.len > INSERT_UNDO_HEAD + BT_KEY_MAX)
        return false;
    *root = lladd_page_of(lladd_get32(p));
    *out = (struct bt_undo){
        .what = BT_UNDO_INSERT,
        .key = {p + INSERT_UNDO_HEAD, (uint32_t)(s.len - INSERT_UNDO_HEAD)},
    };
    return true;
}

/* Takes the first key from *s, the rest of the keys in the undo bytes of `rows`. *out: the undo of
 * this key. */
static bool next_undo(struct lladd_span *s, struct bt_undo *out)
{
    const unsigned char *p = s->data;
    if (s->len < ROW_UNDO_HEAD || lladd_get16(p) > s->len - ROW_UNDO_HEAD ||
        lladd_get16(p) > BT_KEY_MAX)
        return false;
    size_t len = ROW_UNDO_HEAD + lladd_get16(p);
    *out = (struct bt_undo){.what = BT_UNDO_INSERT, .key = {p + ROW_UNDO_HEAD, lladd_get16(p)}};
    *s = lladd_span_of(p + len, s->len - len);
    return true;
}

/* The root page and the keys of the undo bytes of `rows`. */
static bool parse_rows_undo(struct lladd_span s, lladd_pageno *root, struct lladd_span *keys)
{
    struct bt_undo u;
    const unsigned char *p = s.data;
    if (s.len < INSERT_UNDO_HEAD || s.len > BT_ROWS_BYTES)
        return false;
    *root = lladd_page_of(lladd_get32(p));
    s = *keys = lladd_span_of(p + INSERT_UNDO_HEAD, s.len - INSERT_UNDO_HEAD);
    for (uint32_t i = 0; s.len > 0; i++)
        if (i == BT_ROWS_MAX || !next_undo(&s, &u))
            return false;
    return true;
}

static bool undo_fine(struct lladd_span s, bool put)
{
    lladd_pageno root;
    struct bt_undo u;
    return parse_undo(s, put, &root, &u);
}
static bool rows_validate(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    lladd_pageno root;
    struct lladd_span keys;
    return kind == LLADD_SPAN_REDO ? rows_redo_fine(v, s) : parse_rows_undo(s, &root, &keys);
}
static bool insert_validate(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    lladd_pageno root;
    struct bt_undo u;
    return kind == LLADD_SPAN_REDO ? insert_redo_fine(v, s) : parse_insert_undo(s, &root, &u);
}
static bool put_validate(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    return kind == LLADD_SPAN_REDO ? store_validate(v, kind, s) : undo_fine(s, true);
}
static bool remove_validate(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    return kind == LLADD_SPAN_REDO ? mark_validate(v, kind, s) : undo_fine(s, false);
}

static int invalid_undo(struct lladd_txn *txn)
{
    return lladd_error_set(lladd_txn_error_out(txn), LLADD_BAD_RECORD,
                           "B+tree: invalid undo record: expected a key and a value");
}

static int undo_change(struct lladd_txn *txn, struct lladd_span s, bool put)
{
    lladd_pageno root;
    struct bt_undo u;
    return parse_undo(s, put, &root, &u) ? ll_btree__undo(txn, root, &u) : invalid_undo(txn);
}
/* If a crash interrupts this call, recovery calls it again for all keys. The undo of a row that is
 * already undone changes nothing. */
static int rows_compensate(void *ctx, struct lladd_txn *txn, struct lladd_span undo)
{
    lladd_pageno root;
    struct lladd_span keys;
    struct bt_undo u;
    (void)ctx;
    if (!parse_rows_undo(undo, &root, &keys))
        return invalid_undo(txn);
    while (next_undo(&keys, &u))
        TRY(ll_btree__undo(txn, root, &u));
    return 0;
}
static int insert_compensate(void *ctx, struct lladd_txn *txn, struct lladd_span undo)
{
    lladd_pageno root;
    struct bt_undo u;
    (void)ctx;
    return parse_insert_undo(undo, &root, &u) ? ll_btree__undo(txn, root, &u) : invalid_undo(txn);
}
static int put_compensate(void *ctx, struct lladd_txn *txn, struct lladd_span undo)
{
    (void)ctx;
    return undo_change(txn, undo, true);
}
static int remove_compensate(void *ctx, struct lladd_txn *txn, struct lladd_span undo)
{
    (void)ctx;
    return undo_change(txn, undo, false);
}

/* ---- descriptors ----------------------------------------------------------------------------- */

static const struct lladd_field store_fields[] = {
    {"slot", LLADD_FIELD_U16}, {"entry", LLADD_FIELD_REST}, {NULL, LLADD_FIELD_END}};
static const struct lladd_field insert_fields[] = {{"slot", LLADD_FIELD_U16},
                                                   {"key", LLADD_FIELD_BYTES16},
                                                   {"value", LLADD_FIELD_REST},
                                                   {NULL, LLADD_FIELD_END}};
static const struct lladd_field insert_undo_fields[] = {
    {"root", LLADD_FIELD_U32}, {"key", LLADD_FIELD_REST}, {NULL, LLADD_FIELD_END}};
static const struct lladd_field rows_fields[] = {{"rows", LLADD_FIELD_REST},
                                                 {NULL, LLADD_FIELD_END}};
static const struct lladd_field rows_undo_fields[] = {
    {"root", LLADD_FIELD_U32}, {"keys", LLADD_FIELD_REST}, {NULL, LLADD_FIELD_END}};
static const struct lladd_field mark_fields[] = {
    {"slot", LLADD_FIELD_U16}, {"ghost", LLADD_FIELD_U8}, {NULL, LLADD_FIELD_END}};
static const struct lladd_field key_fields[] = {{"root", LLADD_FIELD_PAGE},
                                                {"flags", LLADD_FIELD_U8},
                                                {"key", LLADD_FIELD_REST},
                                                {NULL, LLADD_FIELD_END}};
static const struct lladd_field value_fields[] = {{"root", LLADD_FIELD_PAGE},
                                                  {"flags", LLADD_FIELD_U8},
                                                  {"key", LLADD_FIELD_BYTES16},
                                                  {"value", LLADD_FIELD_REST},
                                                  {NULL, LLADD_FIELD_END}};

#define ROW_OP(most) \
    .struct_size = sizeof(struct lladd_op), .version = 1, .page_type = "lladd.btree.node", \
    .record_max = (most)
/* A compensation logs at most one record. The longest is that of `restore`, which is no longer than
 * the undo bytes of `put`. */
_Static_assert(2 + BT_ENTRY_HEAD <= PUT_UNDO_HEAD, "undo bytes are as long as what restores them");
#define UNDO_LOG(bytes) (128 + (bytes))

const struct lladd_op ll_btree__put = {
    .name = "lladd.btree.put",
    ROW_OP(2 * (2 + ENTRY_BYTES + PUT_UNDO_HEAD)),
    .record_pages = 1,
    .redo_fields = store_fields,
    .undo_fields = value_fields,
    .undo_kind = LLADD_UNDO_LOGICAL,
    .prepare = put_prepare,
    .validate = put_validate,
    .redo = store_redo,
    .compensate = put_compensate,
    .undo_log_max = UNDO_LOG(2 + ENTRY_BYTES),
    .undo_log_base = UNDO_LOG(0),
    .undo_pages_max = 1,
};
const struct lladd_op ll_btree__insert = {
    .name = "lladd.btree.insert",
    ROW_OP(BT_INSERT_MAX),
    .redo_fields = insert_fields,
    .undo_fields = insert_undo_fields,
    .undo_kind = LLADD_UNDO_LOGICAL,
    .prepare = insert_prepare,
    .validate = insert_validate,
    .redo = insert_redo,
    .compensate = insert_compensate,
    .undo_log_max = UNDO_LOG(3),
    .undo_pages_max = 1,
};
const struct lladd_op ll_btree__rows = {
    .name = "lladd.btree.rows",
    ROW_OP(BT_ROWS_BYTES),
    .redo_fields = rows_fields,
    .undo_fields = rows_undo_fields,
    .undo_kind = LLADD_UNDO_LOGICAL,
    .prepare = rows_prepare,
    .validate = rows_validate,
    .redo = rows_redo,
    .compensate = rows_compensate,
    .undo_log_max = BT_ROWS_MAX * UNDO_LOG(3),
    .undo_pages_max = 1,
};
const struct lladd_op ll_btree__remove = {
    .name = "lladd.btree.remove",
    ROW_OP(3 + UNDO_HEAD + BT_KEY_MAX),
    .redo_fields = mark_fields,
    .undo_fields = key_fields,
    .undo_kind = LLADD_UNDO_LOGICAL,
    .prepare = remove_prepare,
    .validate = remove_validate,
    .redo = mark_redo,
    .compensate = remove_compensate,
    .undo_log_max = UNDO_LOG(3),
    .undo_pages_max = 1,
};
const struct lladd_op ll_btree__mark = {
    .name = "lladd.btree.mark",
    ROW_OP(3),
    .redo_fields = mark_fields,
    .undo_kind = LLADD_UNDO_NONE,
    .prepare = mark_prepare,
    .validate = mark_validate,
    .redo = mark_redo,
};
const struct lladd_op ll_btree__restore = {
    .name = "lladd.btree.restore",
    ROW_OP(2 + ENTRY_BYTES),
    .record_pages = 1,
    .redo_fields = store_fields,
    .undo_kind = LLADD_UNDO_NONE,
    .prepare = restore_prepare,
    .validate = store_validate,
    .redo = store_redo,
};

bool lladd_btree_logged_key(const struct lladd_log_entry *e, lladd_pageno *root,
                            struct lladd_span *key)
{
    return lladd_btree_logged_key_at(e, 0, root, key) &&
           !lladd_btree_logged_key_at(e, 1, root, &(struct lladd_span){0});
}

/* The undo of the record's change of one key. */
static bool logged_undo(const struct lladd_log_entry *e, size_t which, lladd_pageno *root,
                        struct bt_undo *u)
{
    struct lladd_span keys;
    if (!e->op || e->op_version != 1)
        return false;
    if (strcmp(e->op, ll_btree__rows.name) == 0) {
        bool there = parse_rows_undo(e->undo, root, &keys);
        for (size_t i = 0; there && i <= which; i++)
            there = next_undo(&keys, u);
        return there;
    }
    if (which > 0)
        return false;
    if (strcmp(e->op, ll_btree__insert.name) == 0)
        return parse_insert_undo(e->undo, root, u);
    bool put = strcmp(e->op, ll_btree__put.name) == 0;
    return (put || strcmp(e->op, ll_btree__remove.name) == 0) && parse_undo(e->undo, put, root, u);
}

bool lladd_btree_logged_key_at(const struct lladd_log_entry *e, size_t which, lladd_pageno *root,
                               struct lladd_span *key)
{
    struct bt_undo u;
    if (!logged_undo(e, which, root, &u))
        return false;
    *key = lladd_span_of(u.key.bytes, u.key.len);
    return true;
}
