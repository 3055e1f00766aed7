/* SPDX-License-Identifier: BSD-2-Clause */
/* The operations on one page. */
#include "page.h"

unsigned entry_find(const unsigned char *body, uint64_t key, bool *there)
{
    unsigned low = 0, high = entries(body);
    while (low < high) {
        unsigned middle = (low + high) / 2;
        if (key_of(entry_at(body, middle)) < key)
            low = middle + 1;
        else
            high = middle;
    }
    *there = low < entries(body) && key_of(entry_at(body, low)) == key;
    return low;
}

bool page_sane(struct lladd_view page)
{
    const unsigned char *body = lladd_view_body(page);
    return room_of(body) >= 2 && room_of(body) <= fit(page.size) && entries(body) <= room_of(body);
}

static bool sorted(struct lladd_view page)
{
    const unsigned char *body = lladd_view_body(page);
    if (!page_sane(page))
        return false;
    for (unsigned i = 1; i < entries(body); i++)
        if (key_of(entry_at(body, i - 1)) >= key_of(entry_at(body, i)))
            return false;
    return true;
}

const struct lladd_page_type ordered_page = {
    .struct_size = sizeof(struct lladd_page_type),
    .name = PAGE_TYPE,
    .version = 1,
    .check = sorted,
};

/* Replaces `drop` entries at `at` by n others. */
static void exchange(struct lladd_page *page, unsigned at, unsigned drop, unsigned n,
                     const unsigned char *bytes)
{
    unsigned char *body = lladd_page_body(page), *place = body + HEAD + (size_t)at * ENTRY;
    unsigned after = entries(body) - at - drop;
    memmove(place + (size_t)n * ENTRY, place + (size_t)drop * ENTRY, (size_t)after * ENTRY);
    if (n)
        memcpy(place, bytes, (size_t)n * ENTRY);
    if (n < drop) /* bytes after the entries are 0, so that pages with equal entries have equal
                   * bytes */
        memset(place + (size_t)(n + after) * ENTRY, 0, (size_t)(drop - n) * ENTRY);
    lladd_put16(body, (uint16_t)(at + n + after));
}

/* ---- format: an empty page for `room` entries --------------------------------------------- */

static bool format_validate(struct lladd_view page, enum lladd_span_kind kind,
                            struct lladd_span bytes)
{
    (void)page;
    return kind == LLADD_SPAN_REDO && bytes.len == 2;
}

static void format_redo(struct lladd_page *page, struct lladd_span redo)
{
    lladd_put16(lladd_page_body(page) + 2, lladd_get16(redo.data));
}

static const struct lladd_field format_fields[] = {{"room", LLADD_FIELD_U16},
                                                   {NULL, LLADD_FIELD_END}};
const struct lladd_op ordered_format = {
    .struct_size = sizeof(struct lladd_op),
    .name = "example.ordered.format",
    .version = 1,
    .page_type = PAGE_TYPE,
    .formats = true,
    .redo_fields = format_fields,
    .record_max = 2,
    .undo_kind = LLADD_UNDO_NONE, /* the page was free before */
    .validate = format_validate,
    .redo = format_redo,
};

/* ---- set: one key; undone on whatever page it is by then ----------------------------------- */

/* [set] The arguments are a root and an entry. Redo needs only the entry, because it changes this
 * page. Undo needs the root, to find the key again, and the previous entry. For a new key, undo
 * replaces the entry by a ghost, which means that the key does not exist; this needs no room. */
static int set_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                       struct lladd_draft *draft)
{
    const unsigned char *body = lladd_view_body(page), *given = args.data;
    uint64_t key = key_of(given + 8);
    bool there;
    unsigned at = entry_find(body, key, &there);
    (void)ctx;
    if (!there && entries(body) == room_of(body))
        return lladd_error_set(draft->error, LLADD_NO_SPACE, "the leaf is full");
    memcpy(lladd_draft_redo(draft, ENTRY), given + 8, ENTRY);
    unsigned char *undo = lladd_draft_undo(draft, SET);
    memcpy(undo, given, 8);
    if (there)
        memcpy(undo + 8, entry_at(body, at), ENTRY);
    else
        entry_make(undo + 8, key, GHOST, 0);
    return 0;
}

static bool set_validate(struct lladd_view page, enum lladd_span_kind kind,
                         struct lladd_span bytes)
{
    bool there;
    if (kind == LLADD_SPAN_UNDO) /* a logical undo has no page yet */
        return bytes.len == SET;
    if (bytes.len != ENTRY || !page_sane(page))
        return false;
    const unsigned char *body = lladd_view_body(page);
    (void)entry_find(body, key_of(bytes.data), &there);
    return there || entries(body) < room_of(body);
}

static void set_redo(struct lladd_page *page, struct lladd_span redo)
{
    bool there;
    unsigned at = entry_find(lladd_page_body(page), key_of(redo.data), &there);
    exchange(page, at, there, 1, redo.data);
}
/* [/set] */

static const struct lladd_field set_fields[] = {{"key", LLADD_FIELD_U64},
                                                {"state", LLADD_FIELD_U8},
                                                {"value", LLADD_FIELD_U64},
                                                {NULL, LLADD_FIELD_END}};
static const struct lladd_field set_undo_fields[] = {{"root", LLADD_FIELD_PAGE},
                                                     {"key", LLADD_FIELD_U64},
                                                     {"state", LLADD_FIELD_U8},
                                                     {"value", LLADD_FIELD_U64},
                                                     {NULL, LLADD_FIELD_END}};
/* [op] An operation may have redo on one page and a logical undo. */
const struct lladd_op ordered_set = {
    .struct_size = sizeof(struct lladd_op),
    .name = "example.ordered.set",
    .version = 1,
    .page_type = PAGE_TYPE,
    .redo_fields = set_fields,
    .undo_fields = set_undo_fields,
    .record_max = ENTRY + SET,
    .undo_kind = LLADD_UNDO_LOGICAL,
    .prepare = set_prepare,
    .validate = set_validate,
    .redo = set_redo,
    .compensate = ordered_undo,
    .undo_log_max = ENTRY + 128, /* one record of put_back: its bytes, and 128 per record */
    .undo_pages_max = 2,         /* the index page and a leaf */
};
/* [/op] */

/* ---- put_back: logged by compensate ------------------------------------------------------- */

/* [put_back] Restores an entry. This operation is never undone, and it is idempotent: if a crash
 * interrupts the compensation, the compensation runs again. */
static bool put_back_validate(struct lladd_view page, enum lladd_span_kind kind,
                              struct lladd_span bytes)
{
    bool there = false;
    if (kind == LLADD_SPAN_REDO && bytes.len == ENTRY && page_sane(page))
        (void)entry_find(lladd_view_body(page), key_of(bytes.data), &there);
    return there;
}
/* [/put_back] */

const struct lladd_op ordered_put_back = {
    .struct_size = sizeof(struct lladd_op),
    .name = "example.ordered.put_back",
    .version = 1,
    .page_type = PAGE_TYPE,
    .redo_fields = set_fields,
    .record_max = ENTRY,
    .undo_kind = LLADD_UNDO_NONE,
    .validate = put_back_validate,
    .redo = set_redo,
};

/* ---- splice: replaces entries, undone on the page ------------------------------------------- */

/* [splice] The record has the position, the entries to remove, and the entries to insert. The undo
 * is a splice, too. A splice has a position, not a key, so no other change of the page may come
 * between a splice and its undo: splices are used only on new pages, and in top actions that end
 * before the page's latch is released. */
static unsigned char *splice_put(unsigned char *to, unsigned at, unsigned drop, unsigned n,
                                 const unsigned char *bytes)
{
    lladd_put16(to, (uint16_t)at);
    lladd_put16(to + 2, (uint16_t)drop);
    if (n)
        memcpy(to + 4, bytes, (size_t)n * ENTRY);
    return to;
}

static int splice_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                          struct lladd_draft *draft)
{
    const unsigned char *body = lladd_view_body(page);
    const struct splice *s = args.data;
    (void)ctx;
    unsigned char *redo = lladd_draft_redo(draft, 4 + (size_t)s->n * ENTRY);
    unsigned char *undo = redo ? lladd_draft_undo(draft, 4 + (size_t)s->drop * ENTRY) : NULL;
    if (!undo)
        return lladd_error_set(draft->error, LLADD_TOO_LARGE, "too many entries for a record");
    (void)splice_put(redo, s->at, s->drop, s->n, s->bytes);
    (void)splice_put(undo, s->at, s->n, s->drop, entry_at(body, s->at));
    return 0;
}

static bool splice_validate(struct lladd_view page, enum lladd_span_kind kind,
                            struct lladd_span bytes)
{
    (void)kind;
    if (bytes.len < 4 || (bytes.len - 4) % ENTRY != 0 || !page_sane(page))
        return false;
    const unsigned char *body = lladd_view_body(page);
    unsigned at = lladd_get16(bytes.data), drop = lladd_get16((const char *)bytes.data + 2);
    size_t n = (bytes.len - 4) / ENTRY;
    return at + drop <= entries(body) && entries(body) - drop + n <= room_of(body);
}

static void splice_redo(struct lladd_page *page, struct lladd_span redo)
{
    const unsigned char *b = redo.data;
    exchange(page, lladd_get16(b), lladd_get16(b + 2), (unsigned)((redo.len - 4) / ENTRY), b + 4);
}
/* [/splice] */

static const struct lladd_field splice_fields[] = {{"at", LLADD_FIELD_U16},
                                                   {"drop", LLADD_FIELD_U16},
                                                   {"entries", LLADD_FIELD_REST},
                                                   {NULL, LLADD_FIELD_END}};
const struct lladd_op ordered_splice = {
    .struct_size = sizeof(struct lladd_op),
    .name = "example.ordered.splice",
    .version = 1,
    .page_type = PAGE_TYPE,
    .redo_fields = splice_fields,
    .undo_fields = splice_fields,
    .record_max = 1u << 16,
    .record_pages = 1,
    .credit_max = 3,
    .undo_kind = LLADD_UNDO_PAGE,
    .prepare = splice_prepare,
    .validate = splice_validate,
    .redo = splice_redo,
    .undo = splice_redo,
};
