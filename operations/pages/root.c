/* SPDX-License-Identifier: BSD-2-Clause */
/* The root page and the catalogue of named roots: page type "lladd.root".
 *
 * Page 0 is the entry point of a database. It has the number of pages that an allocation bitmap
 * covers, and names with two words each. If a search finds no room for a name, another page is
 * linked to the last page of the chain. The chain never gets shorter.
 *
 *   32 u64 next page of the chain, 0: none
 *   40 u32 number of pages that one allocation bitmap covers
 *   44 u32 zero
 *   48     entries of 80 bytes:
 *            +0  u8 state: 0 unused, 1 the name has a value, 2 the value is deleted
 *            +1  u64 a
 *            +9  u64 b
 *            +17 name, 63 bytes, padded with zeros
 *
 * An entry belongs to its name for ever, unless the transaction that added the name rolls back. Two
 * transactions write the same entry only if they write the same name, so undo may restore the old
 * entry.
 *
 * The chain has no order. An index in memory has the page of each name (root_index.c). A search for
 * room begins at the page where the last search ended (struct ll_root_room). A rollback may have
 * removed a name from an earlier page. So a search that finds no room up to the end of the chain
 * begins again at page 0, if the chain has grown by an eighth since the last search from page 0.
 *
 * Threads: a thread that adds a name, or reads all names for the index, holds `roots`; page latches
 * protect the rest. */
#include "operations/operations_private.h"
#include "operations/shared/link.h"

#include <string.h>

#define ENTRY_BYTES 80u
#define ENTRIES_AT (LLADD_PAGE_HEADER + 16u)
#define PUT_BYTES 19u /* u16 entry, u64 a, u64 b, u8 state; the name follows */

enum { UNUSED = 0, SET = 1, REMOVED = 2 };

struct entry {
    uint8_t state;
    struct lladd_root_value value;
    char name[LLADD_ROOT_NAME_MAX + 1];
};

static uint32_t entries_of(uint32_t page_size)
{
    return (page_size - ENTRIES_AT) / ENTRY_BYTES;
}

static struct entry entry_at(struct lladd_view v, uint32_t i)
{
    const unsigned char *p = v.bytes + ENTRIES_AT + i * ENTRY_BYTES;
    struct entry e = {p[0], {lladd_get64(p + 1), lladd_get64(p + 9)}, {0}};
    memcpy(e.name, p + 17, LLADD_ROOT_NAME_MAX);
    return e;
}

/* The entry of the name (*found), or else the first unused entry. False: neither exists. */
static bool look(struct lladd_view v, const char *name, uint32_t *index, bool *found)
{
    bool room = false;
    *found = false;
    *index = 0;
    for (uint32_t i = 0; i < entries_of(v.size); i++) {
        struct entry e = entry_at(v, i);
        if (e.state != UNUSED && strcmp(e.name, name) == 0) {
            *index = i;
            *found = true;
            return true;
        }
        if (e.state == UNUSED && !room) {
            *index = i;
            room = true;
        }
    }
    return room;
}

static uint64_t next_of(struct lladd_view v)
{
    return lladd_get64(lladd_view_body(v));
}

/* ---- operations ------------------------------------------------------------------------------ */

static bool format_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)page;
    return kind == LLADD_SPAN_REDO && s.len == 0;
}

static void format_redo(struct lladd_page *page, struct lladd_span redo)
{
    (void)redo;
    memset(lladd_page_body(page), 0, lladd_body_size(page->size));
    lladd_put32(lladd_page_body(page) + 8, (page->size - 64) / 2 * 8);
}

const struct lladd_op ll_operations__root_format = {
    .struct_size = sizeof(struct lladd_op),
    .name = "lladd.root.format",
    .version = 1,
    .page_type = "lladd.root",
    .formats = true,
    .record_max = 0,
    .undo_kind = LLADD_UNDO_NONE,
    .validate = format_validate,
    .redo = format_redo,
};

static size_t put_bytes(unsigned char *out, uint32_t index, const struct entry *e)
{
    size_t len = strlen(e->name);
    lladd_put16(out, (uint16_t)index);
    lladd_put64(out + 2, e->value.a);
    lladd_put64(out + 10, e->value.b);
    out[18] = e->state;
    memcpy(out + PUT_BYTES, e->name, len);
    return PUT_BYTES + len;
}

/* The argument of the operation is the new entry. */
static int put_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                       struct lladd_draft *draft)
{
    (void)ctx;
    const struct entry *want = args.data;
    uint32_t index;
    bool found;
    if (!look(page, want->name, &index, &found))
        return LLADD_PAGE_FULL;
    struct entry old = entry_at(page, index);
    if (want->state == REMOVED && (!found || old.state != SET))
        return LLADD_NOT_FOUND;
    unsigned char *redo = lladd_draft_redo(draft, PUT_BYTES + strlen(want->name));
    unsigned char *undo = lladd_draft_undo(draft, PUT_BYTES + strlen(old.name));
    put_bytes(redo, index, want);
    put_bytes(undo, index, &old);
    return 0;
}

static bool put_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    const unsigned char *p = s.data;
    (void)kind;
    if (s.len < PUT_BYTES || s.len > PUT_BYTES + LLADD_ROOT_NAME_MAX ||
        lladd_get16(p) >= entries_of(page.size) || p[18] > REMOVED)
        return false;
    return (p[18] == UNUSED) == (s.len == PUT_BYTES) &&
           !memchr(p + PUT_BYTES, 0, s.len - PUT_BYTES);
}

static void put_apply(struct lladd_page *page, struct lladd_span bytes)
{
    const unsigned char *p = bytes.data;
    unsigned char *e = page->bytes + ENTRIES_AT + lladd_get16(p) * ENTRY_BYTES;
    memset(e, 0, ENTRY_BYTES);
    e[0] = p[18];
    memcpy(e + 1, p + 2, 16);
    memcpy(e + 17, p + PUT_BYTES, bytes.len - PUT_BYTES);
}

static const struct lladd_field put_fields[] = {
    {"entry", LLADD_FIELD_U16}, {"a", LLADD_FIELD_U64},     {"b", LLADD_FIELD_U64},
    {"state", LLADD_FIELD_U8},  {"name", LLADD_FIELD_TEXT}, {NULL, LLADD_FIELD_END}};

const struct lladd_op ll_operations__root_put = {
    .struct_size = sizeof(struct lladd_op),
    .name = "lladd.root.put",
    .version = 1,
    .page_type = "lladd.root",
    .redo_fields = put_fields,
    .undo_fields = put_fields,
    .record_max = 2 * (PUT_BYTES + LLADD_ROOT_NAME_MAX),
    .undo_kind = LLADD_UNDO_PAGE,
    .prepare = put_prepare,
    .validate = put_validate,
    .redo = put_apply,
    .undo = put_apply,
};

const struct lladd_op ll_operations__root_link = {
    .struct_size = sizeof(struct lladd_op),
    .name = "lladd.root.link",
    .version = 1,
    .page_type = "lladd.root",
    LL_LINK_OP,
};

static bool root_check(struct lladd_view v)
{
    if (lladd_get32(lladd_view_body(v) + 8) != (v.size - 64) / 2 * 8 ||
        lladd_get32(lladd_view_body(v) + 12) != 0)
        return false;
    for (uint32_t i = 0; i < entries_of(v.size); i++) {
        struct entry e = entry_at(v, i);
        if (e.state > REMOVED || (e.state == UNUSED) != (e.name[0] == 0))
            return false;
    }
    return true;
}

static void root_describe(void *ctx, struct lladd_sink *sink, struct lladd_view v)
{
    (void)ctx;
    lladd_sink_printf(sink, "next %llu\n", (unsigned long long)next_of(v));
    for (uint32_t i = 0; i < entries_of(v.size); i++) {
        struct entry e = entry_at(v, i);
        if (e.state != UNUSED)
            lladd_sink_printf(sink, "%u: \"%s\"%s %llu %llu\n", i, e.name,
                              e.state == REMOVED ? " (removed)" : "", (unsigned long long)e.value.a,
                              (unsigned long long)e.value.b);
    }
}

const struct lladd_page_type ll_operations__root_page = {
    .struct_size = sizeof(struct lladd_page_type),
    .name = "lladd.root",
    .version = 1,
    .check = root_check,
    .describe = root_describe,
};

/* ---- calls ----------------------------------------------------------------------------------- */

static int fix_root(struct lladd_db *db, lladd_pageno n, struct lladd_page **out,
                    struct lladd_error *err)
{
    return ll_operations__fix(db, n, ll_operations__root_page.name, LLADD_LATCH_SHARED, out, err);
}

/* Counts the steps of a walk: a damaged chain may have a cycle. */
static int step(struct lladd_db *db, uint64_t next, uint64_t *steps, struct lladd_error *err)
{
    if (++*steps <= lladd_page_count(db))
        return 0;
    return ll_operations__on(
        err, lladd_page_of(next),
        lladd_error_set(err, LLADD_CORRUPT_PAGE, "the chain of root pages does not end"));
}

/* Looks for the name's entry on one page. *found: the entry is there, and *e is a copy of it.
 * *next: the next page of the chain. */
static int ask_page(struct lladd_db *db, lladd_pageno at, const char *name, struct entry *e,
                    bool *found, uint64_t *next, struct lladd_error *err)
{
    struct lladd_page *page;
    TRY(fix_root(db, at, &page, err));
    struct lladd_view v = lladd_page_view(page);
    uint32_t index;
    look(v, name, &index, found);
    if (*found)
        *e = entry_at(v, index);
    *next = next_of(v);
    lladd_page_unfix(db, page, LLADD_LATCH_SHARED);
    return 0;
}

/* Walks along the chain to the page that has the name. LLADD_NOT_FOUND: no page has it. */
static int walk_to_name(struct lladd_db *db, const char *name, lladd_pageno *where, struct entry *e,
                        struct lladd_error *err)
{
    uint64_t steps = 0, next = 0;
    bool found = false;
    for (*where = lladd_page_of(0);; *where = lladd_page_of(next)) {
        int rc = ask_page(db, *where, name, e, &found, &next, err);
        if (rc || found)
            return rc;
        if (next == 0)
            return LLADD_NOT_FOUND;
        rc = step(db, next, &steps, err);
        if (rc)
            return rc;
    }
}

/* Adds the names of one page to the index. LLADD_NO_MEMORY: the index stays incomplete. */
static int index_page(struct ll_operations *ops, lladd_pageno at, uint64_t *next,
                      struct lladd_error *err)
{
    struct lladd_page *page;
    TRY(fix_root(ops->db, at, &page, err));
    struct lladd_view v = lladd_page_view(page);
    int rc = 0;
    for (uint32_t i = 0; i < entries_of(v.size) && !rc; i++) {
        struct entry e = entry_at(v, i);
        if (e.state != UNUSED)
            rc = ll_operations__root_index_put(&ops->root_index, ll_operations__root_hash(e.name),
                                               at);
    }
    *next = next_of(v);
    lladd_page_unfix(ops->db, page, LLADD_LATCH_SHARED);
    return rc;
}

/* Fills the index. Does nothing if another thread holds `roots`, because waiting for that thread
 * could be a deadlock: that thread may wait for a checkpoint, and the checkpoint may look up a name
 * here (the journal's mark). Without the index a lookup walks the chain. */
static int fill_index(struct ll_operations *ops, struct lladd_error *err)
{
    uint64_t steps = 0, next = 0;
    lladd_pageno at = lladd_page_of(0), ignored;
    int rc = 0;
    if (!lladd_mutex_trylock(&ops->roots))
        return 0;
    if (ll_operations__root_index_get(&ops->root_index, 0, &ignored) == LLADD_BUSY) {
        for (;; at = lladd_page_of(next)) {
            rc = index_page(ops, at, &next, err);
            if (!rc && next)
                rc = step(ops->db, next, &steps, err);
            if (rc || next == 0)
                break;
        }
        if (!rc)
            ll_operations__root_index_complete(&ops->root_index);
    }
    lladd_mutex_unlock(&ops->roots);
    return rc == LLADD_NO_MEMORY ? 0 : rc;
}

/* Fills the index if it is incomplete and `roots` is free. */
static int know_names(struct lladd_db *db, struct lladd_error *err)
{
    struct ll_operations *ops = ll_operations_of(db);
    lladd_pageno ignored;
    return ll_operations__root_index_get(&ops->root_index, 0, &ignored) == LLADD_BUSY
               ? fill_index(ops, err)
               : 0;
}

/* Does what walk_to_name does, but asks the index first. */
static int find_name(struct lladd_db *db, const char *name, lladd_pageno *where, struct entry *e,
                     struct lladd_error *err)
{
    struct ll_root_index *index = &ll_operations_of(db)->root_index;
    uint64_t hash = ll_operations__root_hash(name), next;
    bool found = false;
    int rc = ll_operations__root_index_get(index, hash, where);
    if (rc == LLADD_NOT_FOUND)
        return rc;
    if (!rc)
        rc = ask_page(db, *where, name, e, &found, &next, err);
    if (found || (rc && rc != LLADD_BUSY))
        return rc;
    return walk_to_name(db, name, where, e, err);
}

static int check_name(const char *name, struct lladd_error *err)
{
    size_t len = strnlen(name, LLADD_ROOT_NAME_MAX + 1);
    if (len >= 1 && len <= LLADD_ROOT_NAME_MAX)
        return 0;
    return lladd_error_set(err, LLADD_BAD_ARGUMENT, "a root's name has 1 to %u bytes",
                           LLADD_ROOT_NAME_MAX);
}

static int no_root(struct lladd_error *err, const char *name)
{
    return lladd_error_set(err, LLADD_NOT_FOUND, "there is no root named \"%s\"", name);
}

int lladd_root_get(struct lladd_db *db, const char *name, struct lladd_root_value *out,
                   struct lladd_error *err)
{
    lladd_pageno where;
    struct entry e;
    int rc = check_name(name, err);
    if (!rc)
        rc = know_names(db, err);
    if (!rc)
        rc = find_name(db, name, &where, &e, err);
    if (rc == LLADD_NOT_FOUND || (!rc && e.state != SET))
        return no_root(err, name);
    if (!rc)
        *out = e.value;
    return rc;
}

/* Chains an empty page to the last one, in a nested top action. Other transactions may use the new
 * page before this transaction ends, so the page stays even if this transaction rolls back. */
static int lengthen(struct lladd_txn *txn, lladd_pageno last)
{
    struct lladd_action action;
    lladd_pageno fresh;
    TRY(lladd_nta_begin(txn, &action));
    int rc = lladd_page_alloc(txn, &fresh);
    if (!rc)
        rc = lladd_update(txn, LL_OP_ROOT_FORMAT, fresh, NULL, 0);
    if (!rc) {
        unsigned char next[8];
        lladd_put64(next, fresh.v);
        rc = lladd_update(txn, LL_OP_ROOT_LINK, last, next, sizeof next);
    }
    return ll_operations__action_end(txn, &action, rc, LLADD_NO_OP, NULL, 0);
}

static int next_page(struct lladd_db *db, lladd_pageno at, uint64_t *next, struct lladd_error *err)
{
    struct lladd_page *page;
    TRY(fix_root(db, at, &page, err));
    *next = next_of(lladd_page_view(page));
    lladd_page_unfix(db, page, LLADD_LATCH_SHARED);
    return 0;
}

/* A search for room has reached the end of the chain. Begins again at page 0, or adds a page to the
 * chain. *at on return: the page where the search continues. */
static int go_beyond(struct lladd_txn *txn, struct ll_root_room *room, bool *walked,
                     lladd_pageno *at)
{
    uint64_t next = 0;
    if (!*walked && room->grown >= room->pages / 8) {
        *walked = true;
        *at = lladd_page_of(0);
        return 0;
    }
    int rc = lengthen(txn, *at);
    if (!rc)
        rc = next_page(lladd_txn_db(txn), *at, &next, lladd_txn_error_out(txn));
    if (!rc)
        *at = lladd_page_of(next);
    room->grown = *walked ? 0 : room->grown + 1;
    return rc;
}

/* Adds an entry for the name on a page with room, unless another thread has added the name
 * meanwhile. The caller holds `roots`. */
static int add_held(struct lladd_txn *txn, struct ll_operations *ops, struct entry *e)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct ll_root_room *room = &ops->root_room;
    lladd_pageno at = room->at;
    struct entry old;
    bool walked = false;
    uint64_t steps = 0, next = 0;
    int rc = find_name(ops->db, e->name, &at, &old, err);
    if (rc != LLADD_NOT_FOUND)
        return rc ? rc : lladd_update(txn, LL_OP_ROOT_PUT, at, e, sizeof *e);
    at = room->at;
    while ((rc = lladd_update(txn, LL_OP_ROOT_PUT, at, e, sizeof *e)) == LLADD_PAGE_FULL) {
        rc = next_page(ops->db, at, &next, err);
        if (!rc && next == 0) {
            room->pages = walked ? steps + 1 : room->pages;
            rc = go_beyond(txn, room, &walked, &at);
            steps = 0;
        } else if (!rc) {
            rc = step(ops->db, next, &steps, err);
            at = lladd_page_of(next);
        }
        if (rc)
            return rc;
    }
    if (rc)
        return rc;
    room->at = at;
    /* Without memory for the index, lookups walk the chain. */
    (void)ll_operations__root_index_put(&ops->root_index, ll_operations__root_hash(e->name), at);
    return 0;
}

static int add(struct lladd_txn *txn, struct entry *e)
{
    struct ll_operations *ops = ll_operations_of(lladd_txn_db(txn));
    lladd_mutex_lock(&ops->roots);
    int rc = add_held(txn, ops, e);
    lladd_mutex_unlock(&ops->roots);
    return rc;
}

static int put(struct lladd_txn *txn, const char *name, uint8_t state,
               struct lladd_root_value value)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct entry e = {state, value, {0}}, old;
    lladd_pageno where;
    TRY(check_name(name, err));
    memcpy(e.name, name, strlen(name));
    int rc = know_names(lladd_txn_db(txn), err);
    if (!rc)
        rc = find_name(lladd_txn_db(txn), name, &where, &old, err);
    if (!rc)
        rc = lladd_update(txn, LL_OP_ROOT_PUT, where, &e, sizeof e);
    else if (rc == LLADD_NOT_FOUND && state == SET)
        return add(txn, &e);
    return rc == LLADD_NOT_FOUND ? no_root(err, name) : rc;
}

int lladd_root_set(struct lladd_txn *txn, const char *name, struct lladd_root_value value)
{
    LLADD_USE(txn);
    return put(txn, name, SET, value);
}

int lladd_root_delete(struct lladd_txn *txn, const char *name)
{
    LLADD_USE(txn);
    return put(txn, name, REMOVED, (struct lladd_root_value){0, 0});
}

int lladd_root_each(struct lladd_db *db, lladd_root_fn *fn, void *ctx, struct lladd_error *err)
{
    lladd_pageno at = lladd_page_of(0);
    uint64_t steps = 0;
    for (;;) {
        uint64_t next = 0;
        for (uint32_t i = 0; i < entries_of(lladd_page_size(db)); i++) {
            struct lladd_page *page;
            TRY(fix_root(db, at, &page, err));
            struct entry e = entry_at(lladd_page_view(page), i);
            next = next_of(lladd_page_view(page));
            lladd_page_unfix(db, page, LLADD_LATCH_SHARED);
            if (e.state == SET)
                TRY(fn(ctx, e.name, e.value));
        }
        if (next == 0)
            return 0;
        TRY(step(db, next, &steps, err));
        at = lladd_page_of(next);
    }
}
