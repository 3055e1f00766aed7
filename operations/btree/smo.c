/* SPDX-License-Identifier: BSD-2-Clause */
/* The operations that change the structure of a tree; shrink.c has those of merges. Only `spare`
 * has an undo. A nested top action gives the node the spare page or takes it away, and `spare` is
 * undone only together with this action: see spare.c and free.c.
 *
 *   node    redo u64 root, u64 right link, u8 level, u8 closed, fences, entries
 *   fill    the same: a node gets other contents. Version 2: the entries are in the short form
 *   spare   redo u64, undo u64: the page for the node's next split
 *   narrow  redo u16 slots that stay, u64 right link, high fence: the left half of a split
 *   index   redo u16 slot, u64 child, key: an inner node gets a child
 *   clear   redo u16 slots: unneeded ghosts and unused room go
 *
 * Fences: u16 length of the low one, u16 length of the high one (65535: none), their bytes. */
#include "operations/btree/tree.h"

#define FILL_HEAD 22u
#define NARROW_HEAD 10u
#define INDEX_HEAD 10u
#define CLEAR_MAX (2u * (BT_PAGE_MAX / (BT_SLOT + BT_ENTRY_HEAD)))

/* ---- node, fill ------------------------------------------------------------------------------ */

bool ll_btree__fill_read(struct lladd_view v, struct lladd_span s, bool brief, struct bt_fill *f)
{
    const unsigned char *p = s.data;
    if (s.len < FILL_HEAD)
        return false;
    uint32_t low = lladd_get16(p + 18), high = lladd_get16(p + 20);
    bool open_end = high == BT_OPEN_END;
    uint32_t most = ll_btree__key_max(v.size), fences = low + (open_end ? 0 : high);
    if (lladd_get64(p) >> 48 || lladd_get64(p + 8) >> 48 || p[16] > BT_LEVEL_MAX ||
        p[17] > BT_CLOSED || low > most || (!open_end && high > most) || s.len - FILL_HEAD < fences)
        return false;
    *f = (struct bt_fill){.root = lladd_page_of(lladd_get64(p)),
                          .right = lladd_page_of(lladd_get64(p + 8)),
                          .level = p[16],
                          .closed = p[17] != 0,
                          .brief = brief,
                          .packed = p + FILL_HEAD + fences,
                          .len = s.len - FILL_HEAD - fences};
    f->fences.low = (struct bt_key){p + FILL_HEAD, low};
    f->fences.high = (struct bt_key){p + FILL_HEAD + low, open_end ? 0 : high};
    f->fences.open_end = open_end;
    return true;
}

static size_t next_entry(const struct bt_fill *f, const unsigned char *p, size_t n,
                         struct bt_entry *out)
{
    return f->brief ? ll_btree__unpack_short(p, n, out) : ll_btree__unpack(p, n, out);
}

static struct bt_key rest_of(struct bt_key key, uint32_t from)
{
    return (struct bt_key){key.bytes + from, key.len - from};
}

/* Is the entry valid in a node of this level, as entry number `slot`, after the key `before`? The
 * entry's key and `before` lack the same bytes. */
static bool entry_fits(struct lladd_view v, const struct bt_fill *f, uint32_t slot,
                       struct bt_key before, const struct bt_entry *e)
{
    uint32_t left_out = bt_left_out(f), key_len = BT_LEN(e->key_len) + left_out;
    uint32_t size = bt_entry_size(key_len, e->cap);
    bool inner = f->level > 0;
    if (key_len > ll_btree__key_max(v.size) || size > ll_btree__entry_max(v.size) ||
        (e->value_len & BT_BLOB && BT_LEN(e->value_len) != BT_REF) ||
        (inner && (e->value_len != BT_CHILD || e->cap != BT_CHILD || e->key_len & BT_GHOST)))
        return false;
    if (inner && slot == 0)
        return e->key_len == 0;
    int c = bt_compare(before, bt_entry_key(e));
    return (slot == 0 ? c <= 0 : c < 0) &&
           (f->fences.open_end ||
            bt_compare(bt_entry_key(e), rest_of(f->fences.high, left_out)) < 0);
}

bool ll_btree__fill_fine(struct lladd_view v, struct lladd_span s, bool brief, struct bt_fill *f)
{
    if (!ll_btree__fill_read(v, s, brief, f) ||
        (!f->fences.open_end && bt_compare(f->fences.low, f->fences.high) >= 0))
        return false;
    uint64_t need = BT_SLOT_AREA + f->fences.low.len + f->fences.high.len;
    const unsigned char *p = f->packed;
    uint32_t slot = 0, left_out = bt_left_out(f);
    struct bt_key before = rest_of(f->fences.low, left_out);
    for (size_t left = f->len, n; left > 0; left -= n, p += n, slot++) {
        struct bt_entry e;
        n = next_entry(f, p, left, &e);
        if (n == 0 || !entry_fits(v, f, slot, before, &e))
            return false;
        if (f->level == 0 || slot > 0)
            before = bt_entry_key(&e);
        need += BT_SLOT + bt_entry_size(BT_LEN(e.key_len) + left_out, e.cap);
    }
    return need <= v.size;
}

static bool fill_validate(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    struct bt_fill f;
    return kind == LLADD_SPAN_REDO && ll_btree__fill_fine(v, s, true, &f);
}

static bool node_validate(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    struct bt_fill f;
    return kind == LLADD_SPAN_REDO && ll_btree__fill_fine(v, s, false, &f);
}

size_t ll_btree__fill_size(const struct bt_fill *f)
{
    const struct bt_fences *b = &f->fences;
    return FILL_HEAD + b->low.len + (b->open_end ? 0 : b->high.len) + f->len;
}

void ll_btree__fill_write(unsigned char *p, const struct bt_fill *f)
{
    const struct bt_fences *b = &f->fences;
    uint32_t high = b->open_end ? 0 : b->high.len;
    lladd_put64(p, f->root.v);
    lladd_put64(p + 8, f->right.v);
    p[16] = (unsigned char)f->level;
    p[17] = f->closed ? BT_CLOSED : 0;
    lladd_put16(p + 18, (uint16_t)b->low.len);
    lladd_put16(p + 20, (uint16_t)(b->open_end ? BT_OPEN_END : high));
    p += FILL_HEAD;
    lladd_copy(p, b->low.bytes, b->low.len);
    lladd_copy(p + b->low.len, b->high.bytes, high);
    lladd_copy(p + b->low.len + high, f->packed, f->len);
}

static int fill_prepare(void *ctx, struct lladd_view v, struct lladd_span args,
                        struct lladd_draft *d)
{
    (void)ctx;
    (void)v;
    const struct bt_fill *f = args.data;
    if (args.len != sizeof *f)
        return lladd_error_set(d->error, LLADD_BAD_ARGUMENT,
                               "a node can be formatted only by its tree");
    unsigned char *p = lladd_draft_redo(d, ll_btree__fill_size(f));
    if (!p)
        return lladd_error_set(d->error, LLADD_BUG, "%zu bytes for a node", f->len);
    ll_btree__fill_write(p, f);
    return 0;
}

static void fill_node(struct lladd_page *page, struct lladd_span redo, bool brief)
{
    struct bt_fill f;
    struct lladd_view v = {page->bytes, page->size, 0, page->number};
    unsigned char key[BT_KEY_MAX];
    if (!ll_btree__fill_read(v, redo, brief, &f))
        return;
    uint32_t left_out = bt_left_out(&f);
    memcpy(key, f.fences.low.bytes, left_out);
    lladd_put48(page->bytes + BT_ROOT, f.root.v);
    page->bytes[BT_LEVEL] = (unsigned char)f.level;
    page->bytes[BT_FLAGS] = f.closed ? BT_CLOSED : 0;
    lladd_put48(page->bytes + BT_RIGHT, f.right.v);
    lladd_put48(page->bytes + BT_SPARE, 0);
    ll_btree__clear(page->bytes, page->size, &f.fences);
    const unsigned char *p = f.packed;
    uint32_t slot = 0;
    for (size_t left = f.len, n; left > 0; left -= n, p += n) {
        struct bt_entry e;
        n = next_entry(&f, p, left, &e);
        if (left_out) {
            lladd_copy(key + left_out, e.key, BT_LEN(e.key_len));
            e.key = key;
            e.key_len = (uint16_t)(e.key_len + left_out);
        }
        ll_btree__add(page->bytes, page->size, slot++, &e);
    }
}

static void fill_redo(struct lladd_page *page, struct lladd_span redo)
{
    fill_node(page, redo, true);
}

static void node_redo(struct lladd_page *page, struct lladd_span redo)
{
    fill_node(page, redo, false);
}

/* ---- spare ----------------------------------------------------------------------------------- */

static int spare_prepare(void *ctx, struct lladd_view v, struct lladd_span args,
                         struct lladd_draft *d)
{
    (void)ctx;
    memcpy(lladd_draft_redo(d, 8), args.data, 8);
    lladd_put64(lladd_draft_undo(d, 8), lladd_get48(v.bytes + BT_SPARE));
    return 0;
}

static bool spare_validate(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)v;
    (void)kind;
    return s.len == 8 && !(lladd_get64(s.data) >> 48);
}

static void spare_apply(struct lladd_page *page, struct lladd_span bytes)
{
    lladd_put48(page->bytes + BT_SPARE, lladd_get64(bytes.data));
}

/* ---- narrow ---------------------------------------------------------------------------------- */

/* The node has been checked: when it was read (node_loaded), or by the caller. */
static bool narrow_fits(struct lladd_view v, struct lladd_span s)
{
    const unsigned char *p = s.data;
    if (s.len < NARROW_HEAD || lladd_get64(p + 2) >> 48)
        return false;
    uint32_t keep = lladd_get16(p), slots = bt_get(v.bytes, BT_SLOTS);
    struct bt_key high = {p + NARROW_HEAD, (uint32_t)(s.len - NARROW_HEAD)};
    if (keep > slots || (keep == 0 && v.bytes[BT_LEVEL] > 0) ||
        high.len > ll_btree__key_max(v.size))
        return false;
    struct bt_fences f = bt_fences_of(v.bytes, v.size);
    uint64_t need = BT_SLOT_AREA + f.low.len + high.len;
    for (uint32_t i = 0; i < keep; i++) {
        struct bt_entry e = bt_entry_of(v.bytes, i);
        need += BT_SLOT + bt_entry_size(BT_LEN(e.key_len), e.cap);
    }
    if (need > v.size || bt_compare(f.low, high) >= 0)
        return false;
    struct bt_entry last = {.key_len = 0};
    if (keep > 0)
        last = bt_entry_of(v.bytes, keep - 1);
    return last.key_len == 0 || bt_compare(bt_entry_key(&last), high) < 0;
}

static bool narrow_validate(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    return kind == LLADD_SPAN_REDO && ll_btree__fine(v) && narrow_fits(v, s);
}

static int narrow_prepare(void *ctx, struct lladd_view v, struct lladd_span args,
                          struct lladd_draft *d)
{
    (void)ctx;
    const struct bt_narrow *n = args.data;
    unsigned char *p = lladd_draft_redo(d, NARROW_HEAD + n->high.len);
    if (!p)
        return lladd_error_set(d->error, LLADD_BUG, "a fence of %u bytes", n->high.len);
    lladd_put16(p, (uint16_t)n->keep);
    lladd_put64(p + 2, n->right.v);
    lladd_copy(p + NARROW_HEAD, n->high.bytes, n->high.len);
    return narrow_fits(v, lladd_span_of(p, NARROW_HEAD + n->high.len))
               ? 0
               : lladd_error_set(d->error, LLADD_BUG, "a node cannot be split there");
}

static void narrow_redo(struct lladd_page *page, struct lladd_span redo)
{
    const unsigned char *p = redo.data;
    unsigned char *bytes = page->bytes;
    struct bt_key high = {p + NARROW_HEAD, (uint32_t)(redo.len - NARROW_HEAD)};
    lladd_put48(bytes + BT_RIGHT, lladd_get64(p + 2));
    lladd_put48(bytes + BT_SPARE, 0);
    ll_btree__drop(bytes, lladd_get16(p), bt_get(bytes, BT_SLOTS));
    ll_btree__set_high(bytes, page->size, high, false);
}

/* ---- index ----------------------------------------------------------------------------------- */

static struct bt_entry index_entry(const unsigned char *p, size_t len)
{
    return (struct bt_entry){.key = p + INDEX_HEAD,
                             .value = p + 2,
                             .key_len = (uint16_t)(len - INDEX_HEAD),
                             .value_len = BT_CHILD,
                             .cap = BT_CHILD};
}

/* The node has been checked, as for narrow_fits. */
static bool index_fits(struct lladd_view v, struct lladd_span s)
{
    const unsigned char *p = s.data;
    if (s.len < INDEX_HEAD || lladd_get64(p + 2) >> 48 ||
        s.len - INDEX_HEAD > ll_btree__key_max(v.size))
        return false;
    struct bt_key key = {p + INDEX_HEAD, (uint32_t)(s.len - INDEX_HEAD)};
    uint32_t slot = lladd_get16(p);
    struct bt_place place;
    if (v.bytes[BT_LEVEL] == 0 || slot == 0 || slot > bt_get(v.bytes, BT_SLOTS) ||
        !bt_covers(v.bytes, v.size, key) ||
        ll_btree__room(v.bytes, v.size) < BT_SLOT + bt_entry_size(key.len, BT_CHILD))
        return false;
    ll_btree__find(v.bytes, v.size, key, &place);
    return !place.found && place.slot == slot &&
           bt_compare(bt_fences_of(v.bytes, v.size).low, key) < 0;
}

static bool index_validate(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    return kind == LLADD_SPAN_REDO && ll_btree__fine(v) && index_fits(v, s);
}

static int index_prepare(void *ctx, struct lladd_view v, struct lladd_span args,
                         struct lladd_draft *d)
{
    (void)ctx;
    const struct bt_index *x = args.data;
    unsigned char *p = lladd_draft_redo(d, INDEX_HEAD + x->key.len);
    if (!p)
        return lladd_error_set(d->error, LLADD_BUG, "a key of %u bytes", x->key.len);
    lladd_put16(p, (uint16_t)x->slot);
    lladd_put64(p + 2, x->child.v);
    lladd_copy(p + INDEX_HEAD, x->key.bytes, x->key.len);
    return index_fits(v, lladd_span_of(p, INDEX_HEAD + x->key.len))
               ? 0
               : lladd_error_set(d->error, LLADD_BUG, "an inner node has no room for a child");
}

static void index_redo(struct lladd_page *page, struct lladd_span redo)
{
    struct bt_entry e = index_entry(redo.data, redo.len);
    ll_btree__add(page->bytes, page->size, lladd_get16(redo.data), &e);
}

/* ---- clear ----------------------------------------------------------------------------------- */

static bool clear_validate(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    const unsigned char *p = s.data;
    if (kind != LLADD_SPAN_REDO || s.len == 0 || s.len % 2 || !ll_btree__fine(v) ||
        v.bytes[BT_LEVEL] > 0)
        return false;
    uint32_t before = bt_get(v.bytes, BT_SLOTS);
    for (size_t i = 0; i < s.len; i += 2) {
        uint32_t slot = lladd_get16(p + i) & ~BT_TRIM;
        if (slot >= before)
            return false;
        before = slot;
    }
    return true;
}

static int clear_prepare(void *ctx, struct lladd_view v, struct lladd_span args,
                         struct lladd_draft *d)
{
    (void)ctx;
    (void)v;
    const struct bt_clear *c = args.data;
    unsigned char *p = lladd_draft_redo(d, 2 * (size_t)c->n);
    if (!p)
        return lladd_error_set(d->error, LLADD_BUG, "%u slots of a node", c->n);
    for (uint32_t i = 0; i < c->n; i++)
        lladd_put16(p + 2 * (size_t)i, c->slots[i]);
    return 0;
}

static void clear_redo(struct lladd_page *page, struct lladd_span redo)
{
    const unsigned char *p = redo.data;
    for (size_t i = 0; i < redo.len; i += 2) {
        uint32_t slot = lladd_get16(p + i);
        if (slot & BT_TRIM)
            ll_btree__trim(page->bytes, slot & ~BT_TRIM);
        else
            ll_btree__drop(page->bytes, slot, slot + 1);
    }
    ll_btree__compact(page->bytes, page->size);
}

/* ---- descriptors ----------------------------------------------------------------------------- */

static const struct lladd_field fill_fields[] = {BT_FILL_FIELDS};
static const struct lladd_field spare_fields[] = {{"page", LLADD_FIELD_PAGE},
                                                  {NULL, LLADD_FIELD_END}};
static const struct lladd_field narrow_fields[] = {{"slots", LLADD_FIELD_U16},
                                                   {"right", LLADD_FIELD_PAGE},
                                                   {"high", LLADD_FIELD_REST},
                                                   {NULL, LLADD_FIELD_END}};
static const struct lladd_field index_fields[] = {{"slot", LLADD_FIELD_U16},
                                                  {"child", LLADD_FIELD_PAGE},
                                                  {"key", LLADD_FIELD_REST},
                                                  {NULL, LLADD_FIELD_END}};
static const struct lladd_field clear_fields[] = {{"slots", LLADD_FIELD_REST},
                                                  {NULL, LLADD_FIELD_END}};

#define NODE_OP(most, how) \
    .struct_size = sizeof(struct lladd_op), .version = 1, .page_type = "lladd.btree.node", \
    .record_max = (most), .prepare = how##_prepare, .validate = how##_validate, \
    .redo_fields = how##_fields
#define WHOLE_NODE(number, how) \
    .struct_size = sizeof(struct lladd_op), .version = (number), .page_type = "lladd.btree.node", \
    .record_max = BT_PAGE_MAX, .record_pages = 1, .redo_fields = fill_fields, \
    .undo_kind = LLADD_UNDO_NONE, .prepare = fill_prepare, .validate = how##_validate, \
    .redo = how##_redo

const struct lladd_op ll_btree__node = {
    .name = "lladd.btree.node.format",
    WHOLE_NODE(1, node),
    .formats = true,
};
const struct lladd_op ll_btree__fill = {
    .name = "lladd.btree.fill",
    WHOLE_NODE(2, fill),
    .credit_max = 2, /* one for this record, one for `narrow` or `top`, which are shorter */
};
/* This version of `fill` is only in logs of earlier versions of the library. */
const struct lladd_op ll_btree__fill_1 = {
    .name = "lladd.btree.fill",
    WHOLE_NODE(1, node),
};
const struct lladd_op ll_btree__spare = {
    .name = "lladd.btree.spare",
    NODE_OP(16, spare),
    .undo_fields = spare_fields,
    .undo_kind = LLADD_UNDO_PAGE,
    .redo = spare_apply,
    .undo = spare_apply,
};
const struct lladd_op ll_btree__narrow = {
    .name = "lladd.btree.narrow",
    NODE_OP(NARROW_HEAD + BT_KEY_MAX, narrow),
    .undo_kind = LLADD_UNDO_NONE,
    .redo = narrow_redo,
};
const struct lladd_op ll_btree__index = {
    .name = "lladd.btree.index",
    NODE_OP(INDEX_HEAD + BT_KEY_MAX, index),
    .undo_kind = LLADD_UNDO_NONE,
    .redo = index_redo,
};
const struct lladd_op ll_btree__clear_op = {
    .name = "lladd.btree.clear",
    NODE_OP(CLEAR_MAX, clear),
    .record_pages = 1,
    .undo_kind = LLADD_UNDO_NONE,
    .redo = clear_redo,
};

/* ---- the page type --------------------------------------------------------------------------- */

static bool node_check(struct lladd_view v)
{
    return ll_btree__fine(v);
}

static void node_hole(struct lladd_view v, uint32_t *begin, uint32_t *end)
{
    uint32_t slots = bt_get(v.bytes, BT_SLOTS), used = bt_get(v.bytes, BT_USED);
    uint64_t last = (uint64_t)bt_get(v.bytes, BT_LOW) + used, high = bt_get(v.bytes, BT_HIGH);
    last += high == BT_OPEN_END ? 0 : high;
    *begin = BT_SLOT_AREA + BT_SLOT * slots;
    *end = last <= v.size ? v.size - (uint32_t)last : 0;
    if (*begin > *end)
        *begin = *end = v.size; /* a damaged page: nothing is left out */
}

static void print_key(struct lladd_sink *sink, struct bt_key key)
{
    lladd_sink_printf(sink, "%u", key.len);
    for (uint32_t i = 0; i < key.len && i < 16; i++)
        lladd_sink_printf(sink, "%s%02x", i ? "" : " ", key.bytes[i]);
    if (key.len > 16)
        lladd_sink_printf(sink, "...");
}

static void node_describe(void *ctx, struct lladd_sink *sink, struct lladd_view v)
{
    (void)ctx;
    const unsigned char *p = v.bytes;
    lladd_sink_printf(sink, "root %llu, level %u%s, right %llu, spare %llu\n",
                      (unsigned long long)lladd_get48(p + BT_ROOT), p[BT_LEVEL],
                      p[BT_FLAGS] & BT_CLOSED ? ", closed" : "",
                      (unsigned long long)lladd_get48(p + BT_RIGHT),
                      (unsigned long long)lladd_get48(p + BT_SPARE));
    lladd_sink_printf(sink, "%u slots, %u ghosts, common prefix %u\n", bt_get(p, BT_SLOTS),
                      bt_get(p, BT_GHOSTS), bt_get(p, BT_PREFIX));
    if (!ll_btree__fine(v))
        return;
    struct bt_fences f = bt_fences_of(p, v.size);
    lladd_sink_printf(sink, "from key ");
    print_key(sink, f.low);
    lladd_sink_printf(sink, f.open_end ? ", no end" : ", to key ");
    if (!f.open_end)
        print_key(sink, f.high);
    lladd_sink_printf(sink, "\n");
    for (uint32_t i = 0; i < bt_get(p, BT_SLOTS); i++) {
        struct bt_entry e = bt_entry_of(p, i);
        lladd_sink_printf(sink, "%u:%s key ", i, e.key_len & BT_GHOST ? " ghost" : "");
        print_key(sink, bt_entry_key(&e));
        if (p[BT_LEVEL] > 0)
            lladd_sink_printf(sink, ", child %llu\n", (unsigned long long)bt_child(&e).v);
        else
            lladd_sink_printf(sink, ", value %u%s\n", BT_LEN(e.value_len),
                              e.value_len & BT_BLOB ? " (blob)" : "");
    }
}

/* Searches and changes rely on a valid page, so a damaged one is refused before its first use
 * (OP-7). */
static int node_loaded(void *ctx, struct lladd_view v, void **private_, struct lladd_error *err)
{
    (void)ctx;
    (void)private_;
    return ll_btree__fine(v) ? 0
                             : ll_btree__corrupt(err, v.number, "is not a valid node of a B+tree");
}

const struct lladd_page_type ll_btree__node_page = {
    .struct_size = sizeof(struct lladd_page_type),
    .name = "lladd.btree.node",
    .version = 1,
    .hole = node_hole,
    .check = node_check,
    .describe = node_describe,
    .loaded = node_loaded,
};
