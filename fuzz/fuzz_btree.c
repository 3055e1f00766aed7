/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Nodes of B+trees. The input is a byte of flags, then records. A record is a byte for the
 * operation, two bytes for the length, and the redo bytes. A length of 65535, or one that exceeds
 * the input, ends the records. The rest is the page, from the end of the page header on; with EMPTY
 * the page is an empty leaf instead.
 *
 * If the check of pages accepts the page, no code that reads the node may read outside the page,
 * and the library's search must give the same result as a search slot by slot. A record that
 * `validate` accepts must leave a page that the check accepts. The compiler's sanitizers see
 * accesses out of bounds.
 */
#include "fuzz.h"
#include "operations/btree/tree.h"

enum { PAGE = 4096, NUMBER = 9, EMPTY = 1, KEYS = 8 };

static bool refused; /* the check of the page or the validation of a record has refused bytes */

static const struct lladd_op *const ops[] = {
    &ll_btree__fill_1, &ll_btree__narrow,  &ll_btree__index,    &ll_btree__put,   &ll_btree__remove,
    &ll_btree__mark,   &ll_btree__restore, &ll_btree__clear_op, &ll_btree__spare, &ll_btree__node,
    &ll_btree__fill,   &ll_btree__insert,  &ll_btree__rows};
enum { N_OPS = sizeof ops / sizeof ops[0] };

static struct lladd_view view_of(const struct lladd_page *p)
{
    return (struct lladd_view){p->bytes, p->size, 0, p->number};
}

static int swallow(void *ctx, const void *bytes, size_t len)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < len; i++)
        *(unsigned *)ctx += p[i];
    return 0;
}

/* Searches for the key without the library's search. */
static struct bt_place slow_find(const unsigned char *page, struct bt_key key)
{
    uint32_t slot = page[BT_LEVEL] > 0 ? 1 : 0;
    for (; slot < bt_get(page, BT_SLOTS); slot++) {
        struct bt_entry e = bt_entry_of(page, slot);
        int c = bt_compare(bt_entry_key(&e), key);
        if (c >= 0)
            return (struct bt_place){slot, c == 0};
    }
    return (struct bt_place){slot, false};
}

static void search(const struct lladd_page *p, struct bt_key key)
{
    uint32_t slots = bt_get(p->bytes, BT_SLOTS);
    struct bt_place got, want;
    if (slots == 0 || !bt_covers(p->bytes, p->size, key))
        return;
    want = slow_find(p->bytes, key);
    ll_btree__find(p->bytes, p->size, key, &got);
    MUST(got.slot == want.slot && got.found == want.found);
    if (p->bytes[BT_LEVEL] > 0)
        MUST(ll_btree__child_slot(p->bytes, p->size, key) == want.slot - !want.found);
}

static void read_node(const struct lladd_page *p, const uint8_t *data, size_t size)
{
    unsigned sum = 0;
    struct lladd_sink sink = {.ctx = &sum, .write = swallow};
    uint32_t begin, end;
    ll_btree__node_page.describe(NULL, &sink, view_of(p));
    ll_btree__node_page.hole(view_of(p), &begin, &end);
    MUST(begin <= end && end <= p->size);
    MUST(ll_btree__room(p->bytes, p->size) >= ll_btree__gap(p->bytes, p->size));
    for (uint32_t i = 0; i < KEYS && i < size; i++)
        search(p, (struct bt_key){data + i, (uint32_t)(size - i < 20 ? size - i : 20)});
    for (uint32_t i = 0; i < bt_get(p->bytes, BT_SLOTS); i++) {
        struct bt_entry e = bt_entry_of(p->bytes, i);
        search(p, bt_entry_key(&e));
    }
}

static void apply(struct lladd_page *p, const struct lladd_op *op, struct lladd_span redo)
{
    if (redo.len > op->record_max || !op->validate(view_of(p), LLADD_SPAN_REDO, redo)) {
        refused = true;
        return;
    }
    op->redo(p, redo);
    MUST(ll_btree__node_page.check(view_of(p)));
}

bool fuzz_refused(void)
{
    return refused;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lladd_page page = {malloc(PAGE), PAGE, 0, lladd_page_of(NUMBER)};
    const uint8_t *at = data + 1, *end = data + size, *rest = data + size;
    if (size < 1 || !page.bytes) {
        free(page.bytes);
        return 0;
    }
    for (const uint8_t *p = at; end - p >= 3; p += 3 + lladd_get16(p + 1)) {
        rest = end;
        if (lladd_get16(p + 1) == UINT16_MAX || lladd_get16(p + 1) > end - p - 3) {
            rest = p + 3;
            break;
        }
    }
    size_t n = (size_t)(end - rest) < PAGE - LLADD_PAGE_HEADER ? (size_t)(end - rest)
                                                               : PAGE - LLADD_PAGE_HEADER;
    memset(page.bytes, 0, PAGE);
    lladd_put64(page.bytes + 24, NUMBER);
    bt_set(page.bytes, BT_HIGH, BT_OPEN_END);
    if (!(data[0] & EMPTY))
        memcpy(page.bytes + LLADD_PAGE_HEADER, rest, n);
    refused = !ll_btree__node_page.check(view_of(&page));
    if (!refused) {
        read_node(&page, data, size);
        for (; rest - at >= 3 && lladd_get16(at + 1) <= rest - at - 3;
             at += 3 + lladd_get16(at + 1)) {
            apply(&page, ops[at[0] % N_OPS], lladd_span_of(at + 3, lladd_get16(at + 1)));
            read_node(&page, data, size);
        }
    }
    free(page.bytes);
    return 0;
}
