/* [begin] SPDX-License-Identifier: BSD-2-Clause */
/* A sorted set of 64-bit keys: a chain of pages. docs/tutorial-tree.md builds it step by step. */
#include <lladd/bytes.h>
#include <lladd/extension.h>
#include <lladd/op.h>
#include <lladd/pages.h>
#include <lladd/sim.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODE_TYPE "example.sorted"
#define TRY(call) \
    do { \
        int try_rc = (call); \
        if (try_rc) \
            return try_rc; \
    } while (0)

/* A node: u16 number of entries, u64 right node or 0, u64 high key, then the entries in order: u64
 * key, u8 state. All zeros is an empty node, the last of its chain. */
enum { RIGHT = 2, HIGH = 10, HEAD = 18, ENTRY = 9, ROOM = 4, NODE_MAX = HEAD + ROOM * ENTRY };
enum { GHOST = 0, LIVE = 1 };

static unsigned entries(const unsigned char *body)
{
    return lladd_get16(body);
}

static const unsigned char *entry_at(const unsigned char *body, unsigned i)
{
    return body + HEAD + (size_t)i * ENTRY;
}

static uint64_t key_at(const unsigned char *body, unsigned i)
{
    return lladd_get64(entry_at(body, i));
}

/* The first slot with a key not below `key`. */
static unsigned slot_of(const unsigned char *body, uint64_t key, bool *there)
{
    unsigned i = 0;
    while (i < entries(body) && key_at(body, i) < key)
        i++;
    *there = i < entries(body) && key_at(body, i) == key;
    return i;
}
/* [/begin] */

/* [node] The conditions that all other functions need. A damaged page may violate them. */
static bool sound(const unsigned char *body)
{
    if (entries(body) > ROOM)
        return false;
    for (unsigned i = 1; i < entries(body); i++)
        if (key_at(body, i - 1) >= key_at(body, i))
            return false;
    return !lladd_get64(body + RIGHT) || !entries(body) ||
           key_at(body, entries(body) - 1) < lladd_get64(body + HIGH);
}

static bool node_check(struct lladd_view page)
{
    return sound(lladd_view_body(page));
}

static const struct lladd_page_type node_page = {
    .struct_size = sizeof(struct lladd_page_type),
    .name = NODE_TYPE,
    .version = 1,
    .check = node_check,
};

/* The format has no arguments: the library has zeroed the body. */
static bool format_validate(struct lladd_view page, enum lladd_span_kind kind,
                            struct lladd_span bytes)
{
    (void)page;
    return kind == LLADD_SPAN_REDO && bytes.len == 0;
}

static void format_redo(struct lladd_page *page, struct lladd_span redo)
{
    (void)page;
    (void)redo;
}

static const struct lladd_field no_fields[] = {{NULL, LLADD_FIELD_END}};
static const struct lladd_op format_op = {
    .struct_size = sizeof(struct lladd_op),
    .name = NODE_TYPE ".format",
    .version = 1,
    .page_type = NODE_TYPE,
    .formats = true,
    .redo_fields = no_fields,
    .undo_kind = LLADD_UNDO_NONE,
    .validate = format_validate,
    .redo = format_redo,
};
/* [/node] */

/* [redo] Sets an entry. Redo is physiological: the record names the page and the key, and redo
 * searches the page for the place of the key. */
static bool entry_fits(struct lladd_view page, struct lladd_span bytes)
{
    const unsigned char *body = lladd_view_body(page);
    bool there;
    if (bytes.len != ENTRY || ((const unsigned char *)bytes.data)[8] > LIVE || !sound(body))
        return false;
    uint64_t key = lladd_get64(bytes.data);
    (void)slot_of(body, key, &there);
    return there ||
           (entries(body) < ROOM && (!lladd_get64(body + RIGHT) || key < lladd_get64(body + HIGH)));
}

static void set_redo(struct lladd_page *page, struct lladd_span redo)
{
    unsigned char *body = lladd_page_body(page);
    bool there;
    unsigned i = slot_of(body, lladd_get64(redo.data), &there);
    unsigned char *at = body + HEAD + (size_t)i * ENTRY;
    if (!there) {
        memmove(at + ENTRY, at, (size_t)(entries(body) - i) * ENTRY);
        lladd_put16(body, (uint16_t)(entries(body) + 1));
    }
    memcpy(at, redo.data, ENTRY);
}

static const struct lladd_field entry_fields[] = {
    {"key", LLADD_FIELD_U64}, {"state", LLADD_FIELD_U8}, {NULL, LLADD_FIELD_END}};
/* [/redo] */

/* [by_slot] The first attempt at an undo: the slot gets its old state again, or is removed. */
enum { ABSENT = 2 };

static int by_slot_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                           struct lladd_draft *draft)
{
    const unsigned char *body = lladd_view_body(page);
    bool there;
    unsigned i = slot_of(body, lladd_get64((const char *)args.data + 8), &there);
    (void)ctx;
    memcpy(lladd_draft_redo(draft, ENTRY), (const char *)args.data + 8, ENTRY);
    unsigned char *undo = lladd_draft_undo(draft, 3);
    lladd_put16(undo, (uint16_t)i);
    undo[2] = there ? entry_at(body, i)[8] : ABSENT;
    return 0;
}

static bool by_slot_validate(struct lladd_view page, enum lladd_span_kind kind,
                             struct lladd_span bytes)
{
    const unsigned char *body = lladd_view_body(page), *b = bytes.data;
    return kind == LLADD_SPAN_REDO
               ? entry_fits(page, bytes)
               : bytes.len == 3 && sound(body) && lladd_get16(b) < entries(body) && b[2] <= ABSENT;
}

static void by_slot_undo(struct lladd_page *page, struct lladd_span undo)
{
    const unsigned char *b = undo.data;
    unsigned char *body = lladd_page_body(page);
    unsigned i = lladd_get16(b), n = entries(body);
    unsigned char *at = body + HEAD + (size_t)i * ENTRY;
    if (b[2] != ABSENT) {
        at[8] = b[2];
        return;
    }
    memmove(at, at + ENTRY, (size_t)(n - i - 1) * ENTRY);
    memset(body + HEAD + (size_t)(n - 1) * ENTRY, 0, ENTRY); /* as it was */
    lladd_put16(body, (uint16_t)(n - 1));
}

static const struct lladd_field by_slot_fields[] = {
    {"slot", LLADD_FIELD_U16}, {"state", LLADD_FIELD_U8}, {NULL, LLADD_FIELD_END}};
static const struct lladd_op by_slot = {
    .struct_size = sizeof(struct lladd_op),
    .name = "example.sorted.by_slot",
    .version = 1,
    .page_type = NODE_TYPE,
    .redo_fields = entry_fields,
    .undo_fields = by_slot_fields,
    .record_max = ENTRY + 3,
    .undo_kind = LLADD_UNDO_PAGE,
    .prepare = by_slot_prepare,
    .validate = by_slot_validate,
    .redo = set_redo,
    .undo = by_slot_undo,
};
/* [/by_slot] */

/* [by_key] The second attempt: the undo bytes are the first node, the key and its old state. */
static int by_key_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                          struct lladd_draft *draft)
{
    const unsigned char *body = lladd_view_body(page);
    bool there;
    unsigned i = slot_of(body, lladd_get64((const char *)args.data + 8), &there);
    (void)ctx;
    memcpy(lladd_draft_redo(draft, ENTRY), (const char *)args.data + 8, ENTRY);
    unsigned char *undo = lladd_draft_undo(draft, 8 + ENTRY);
    memcpy(undo, args.data, 8 + ENTRY);
    undo[16] = there ? entry_at(body, i)[8] : GHOST;
    return 0;
}

static bool by_key_validate(struct lladd_view page, enum lladd_span_kind kind,
                            struct lladd_span bytes)
{
    return kind == LLADD_SPAN_REDO ? entry_fits(page, bytes) : bytes.len == 8 + ENTRY;
}

static int by_key_undo(void *ctx, struct lladd_txn *, struct lladd_span undo);

static const struct lladd_field by_key_fields[] = {{"first", LLADD_FIELD_PAGE},
                                                   {"key", LLADD_FIELD_U64},
                                                   {"state", LLADD_FIELD_U8},
                                                   {NULL, LLADD_FIELD_END}};
static const struct lladd_op by_key = {
    .struct_size = sizeof(struct lladd_op),
    .name = "example.sorted.by_key",
    .version = 1,
    .page_type = NODE_TYPE,
    .redo_fields = entry_fields,
    .undo_fields = by_key_fields,
    .record_max = ENTRY + 8 + ENTRY,
    .undo_kind = LLADD_UNDO_LOGICAL,
    .prepare = by_key_prepare,
    .validate = by_key_validate,
    .redo = set_redo,
    .compensate = by_key_undo,
    .undo_log_max = ENTRY + 128, /* one record of put_back */
    .undo_pages_max = 1,
};

/* The compensation logs this operation. It is never undone, and may be repeated. */
static bool put_back_validate(struct lladd_view page, enum lladd_span_kind kind,
                              struct lladd_span bytes)
{
    bool there = false;
    if (kind == LLADD_SPAN_REDO && entry_fits(page, bytes))
        (void)slot_of(lladd_view_body(page), lladd_get64(bytes.data), &there);
    return there;
}

static const struct lladd_op put_back = {
    .struct_size = sizeof(struct lladd_op),
    .name = "example.sorted.put_back",
    .version = 1,
    .page_type = NODE_TYPE,
    .redo_fields = entry_fields,
    .record_max = ENTRY,
    .undo_kind = LLADD_UNDO_NONE,
    .validate = put_back_validate,
    .redo = set_redo,
};
/* [/by_key] */

/* [find] Latches a page, and checks that it is a node. */
static int fix(struct lladd_db *db, lladd_pageno number, enum lladd_latch latch,
               struct lladd_page **out, struct lladd_error *err)
{
    TRY(lladd_page_fix(db, number, latch, out, err));
    struct lladd_view view = lladd_page_view(*out);
    if (lladd_page_is(db, view, NODE_TYPE) && node_check(view))
        return 0;
    lladd_page_unfix(db, *out, latch);
    return lladd_error_set(err, LLADD_CORRUPT_PAGE, "page %llu is no node of a sorted set",
                           (unsigned long long)number.v);
}

/* Latches the node to which the key belongs. The search holds one latch at a time. It holds no
 * latch between two nodes, because keys move only to the right and a node never goes away. */
static int find(struct lladd_db *db, lladd_pageno first, uint64_t key, enum lladd_latch latch,
                struct lladd_page **node, struct lladd_error *err)
{
    for (lladd_pageno at = first;;) {
        TRY(fix(db, at, latch, node, err));
        const unsigned char *body = lladd_page_body(*node);
        at = lladd_page_of(lladd_get64(body + RIGHT));
        if (at.v == 0 || key < lladd_get64(body + HIGH))
            return 0;
        lladd_page_unfix(db, *node, latch);
    }
}
/* [/find] */

/* [undo] Finds the key, on whatever node it is by now, and gives it its old state. */
static int by_key_undo(void *ctx, struct lladd_txn *txn, struct lladd_span undo)
{
    const unsigned char *b = undo.data;
    struct lladd_db *db = lladd_txn_db(txn);
    struct lladd_page *node;
    lladd_op_id op;
    (void)ctx;
    TRY(lladd_op_lookup(db, put_back.name, put_back.version, &op));
    TRY(lladd_log_credit(txn, op, 1));
    int rc = find(db, lladd_page_of(lladd_get64(b)), lladd_get64(b + 8), LLADD_LATCH_EXCLUSIVE,
                  &node, lladd_txn_error_out(txn));
    if (!rc) {
        rc = lladd_update_page(txn, op, node, b + 8, ENTRY);
        lladd_page_unfix(db, node, LLADD_LATCH_EXCLUSIVE);
    }
    int rest = lladd_log_credit(txn, op, 0);
    return rc ? rc : rest;
}
/* [/undo] */

/* [contents] Replaces the body of a node from the number of entries on. Its undo is physical: it
 * restores the old contents. A physical undo is right only if nothing else changes the node until
 * the change cannot be undone any more. */
static size_t length(const unsigned char *body)
{
    return HEAD + (size_t)entries(body) * ENTRY;
}

static int contents_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                            struct lladd_draft *draft)
{
    const unsigned char *body = lladd_view_body(page);
    (void)ctx;
    memcpy(lladd_draft_redo(draft, args.len), args.data, args.len);
    memcpy(lladd_draft_undo(draft, length(body)), body, length(body));
    return 0;
}

static bool contents_validate(struct lladd_view page, enum lladd_span_kind kind,
                              struct lladd_span bytes)
{
    (void)page;
    (void)kind;
    return bytes.len >= HEAD && bytes.len <= NODE_MAX && bytes.len == length(bytes.data) &&
           sound(bytes.data);
}

static void contents_redo(struct lladd_page *page, struct lladd_span bytes)
{
    unsigned char *body = lladd_page_body(page);
    memset(body, 0, NODE_MAX);
    memcpy(body, bytes.data, bytes.len);
}

static const struct lladd_field contents_fields[] = {{"entries", LLADD_FIELD_U16},
                                                     {"right", LLADD_FIELD_PAGE},
                                                     {"high", LLADD_FIELD_U64},
                                                     {"rows", LLADD_FIELD_REST},
                                                     {NULL, LLADD_FIELD_END}};
static const struct lladd_op contents = {
    .struct_size = sizeof(struct lladd_op),
    .name = "example.sorted.contents",
    .version = 1,
    .page_type = NODE_TYPE,
    .redo_fields = contents_fields,
    .undo_fields = contents_fields,
    .record_max = 2 * NODE_MAX,
    .credit_max = 2,
    .undo_kind = LLADD_UNDO_PAGE,
    .prepare = contents_prepare,
    .validate = contents_validate,
    .redo = contents_redo,
    .undo = contents_redo,
};
/* [/contents] */

/* [split] Fills the right node first; then the left node leads to it. Both latches are held until
 * the action has ended, so that no other thread sees a split that may still be undone. */
static int split_held(struct lladd_txn *txn, lladd_op_id op, struct lladd_page *left,
                      struct lladd_page *fresh, struct lladd_action *action)
{
    unsigned char half[NODE_MAX];
    const unsigned char *body = lladd_page_body(left);
    unsigned keep = entries(body) / 2, rest = entries(body) - keep;
    memcpy(half, body, HEAD); /* the right link and the high key of the left node */
    lladd_put16(half, (uint16_t)rest);
    memcpy(half + HEAD, entry_at(body, keep), (size_t)rest * ENTRY);
    TRY(lladd_update_page(txn, op, fresh, half, length(half)));
    memcpy(half, body, HEAD + (size_t)keep * ENTRY);
    lladd_put16(half, (uint16_t)keep);
    lladd_put64(half + RIGHT, fresh->number.v);
    lladd_put64(half + HIGH, key_at(body, keep));
    TRY(lladd_update_page(txn, op, left, half, length(half)));
    return lladd_nta_end(txn, action, LLADD_NO_OP, NULL, 0);
}

/* *done: the action has ended. Otherwise another thread has made room meanwhile. */
static int split_into(struct lladd_txn *txn, lladd_pageno first, uint64_t key, lladd_pageno right,
                      struct lladd_action *action, bool *done)
{
    struct lladd_db *db = lladd_txn_db(txn);
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct lladd_page *left, *fresh;
    lladd_op_id op;
    TRY(lladd_op_lookup(db, contents.name, contents.version, &op));
    const struct lladd_log_need needs[] = {{op, 2}, {LLADD_NO_OP, 1}};
    TRY(lladd_log_credit_all(txn, needs, 2));
    int rc = find(db, first, key, LLADD_LATCH_EXCLUSIVE, &left, err);
    if (!rc && entries(lladd_page_body(left)) == ROOM) {
        rc = fix(db, right, LLADD_LATCH_EXCLUSIVE, &fresh, err);
        if (!rc) {
            rc = split_held(txn, op, left, fresh, action);
            *done = rc == 0;
            lladd_page_unfix(db, fresh, LLADD_LATCH_EXCLUSIVE);
        }
        lladd_page_unfix(db, left, LLADD_LATCH_EXCLUSIVE);
    } else if (!rc)
        lladd_page_unfix(db, left, LLADD_LATCH_EXCLUSIVE);
    int rest = lladd_log_credit(txn, op, 0);
    return rc ? rc : rest;
}

/* The new page is allocated before the nodes are latched, because the allocation may wait. If the
 * action is rolled back, the page is free again. */
static int split(struct lladd_txn *txn, lladd_pageno first, uint64_t key)
{
    struct lladd_action action;
    lladd_pageno right;
    bool done = false;
    TRY(lladd_nta_begin(txn, &action));
    int rc = lladd_page_alloc(txn, &right);
    if (!rc)
        rc = lladd_page_format(txn, right, NODE_TYPE);
    if (!rc)
        rc = split_into(txn, first, key, right, &action, &done);
    int end = done ? 0 : lladd_nta_abort(txn, &action);
    return rc ? rc : end;
}
/* [/split] */

/* [set] Puts a key in, or takes it out. A key that is taken out stays as a ghost. */
#ifdef BY_SLOT
static const struct lladd_op *const change_op = &by_slot;
#else
static const struct lladd_op *const change_op = &by_key;
#endif

static int change(struct lladd_txn *txn, lladd_pageno first, const unsigned char *args, bool *full)
{
    struct lladd_db *db = lladd_txn_db(txn);
    uint64_t key = lladd_get64(args + 8);
    struct lladd_page *node;
    lladd_op_id op;
    bool there;
    TRY(lladd_op_lookup(db, change_op->name, change_op->version, &op));
    TRY(lladd_log_credit(txn, op, 1));
    int rc = find(db, first, key, LLADD_LATCH_EXCLUSIVE, &node, lladd_txn_error_out(txn));
    if (!rc) {
        const unsigned char *body = lladd_page_body(node);
        (void)slot_of(body, key, &there);
        *full = !there && entries(body) == ROOM;
        if (!*full)
            rc = lladd_update_page(txn, op, node, args, 8 + ENTRY);
        lladd_page_unfix(db, node, LLADD_LATCH_EXCLUSIVE);
    }
    int rest = lladd_log_credit(txn, op, 0);
    return rc ? rc : rest;
}

static int sorted_set(struct lladd_txn *txn, lladd_pageno first, uint64_t key, bool live)
{
    unsigned char args[8 + ENTRY];
    lladd_put64(args, first.v);
    lladd_put64(args + 8, key);
    args[16] = live ? LIVE : GHOST;
    for (;;) {
        bool full = false;
        TRY(change(txn, first, args, &full));
        if (!full)
            return 0;
        TRY(split(txn, first, key));
    }
}

/* Calls fn for each key, in order. */
static int sorted_each(struct lladd_db *db, lladd_pageno first, int (*fn)(void *, uint64_t),
                       void *ctx, struct lladd_error *err)
{
    for (lladd_pageno at = first; at.v;) {
        struct lladd_page *node;
        TRY(fix(db, at, LLADD_LATCH_SHARED, &node, err));
        const unsigned char *body = lladd_page_body(node);
        int rc = 0;
        for (unsigned i = 0; !rc && i < entries(body); i++)
            rc = entry_at(body, i)[8] == LIVE ? fn(ctx, key_at(body, i)) : 0;
        at = lladd_page_of(lladd_get64(body + RIGHT));
        lladd_page_unfix(db, node, LLADD_LATCH_SHARED);
        TRY(rc);
    }
    return 0;
}
/* [/set] */

/* [make] Registers what the set consists of. A program calls this before it opens a database,
 * because recovery needs the operations. */
static int configure(void *ctx, struct lladd_options *options, struct lladd_error *err)
{
    static const struct lladd_op *const ops[] = {&format_op, &by_slot,  &by_key,
                                                 &put_back,  &contents, NULL};
    static const struct lladd_page_type *const types[] = {&node_page, NULL};
    static const struct lladd_extension all = {
        .struct_size = sizeof all,
        .name = "example.sorted",
        .version = 1,
        .ops = ops,
        .page_types = types,
    };
    (void)ctx;
    return lladd_register_extension(options, &all, err);
}

static int first_node(struct lladd_db *db, lladd_pageno *first, struct lladd_error *err)
{
    struct lladd_root_value root;
    TRY(lladd_root_get(db, "sorted", &root, err));
    *first = lladd_page_of(root.a);
    return 0;
}

/* Makes an empty set. Its name leads to the first node. */
static int make(struct lladd_txn *txn, lladd_pageno *first)
{
    TRY(lladd_page_alloc(txn, first));
    TRY(lladd_page_format(txn, *first, NODE_TYPE));
    return lladd_root_set(txn, "sorted", (struct lladd_root_value){first->v, 0});
}
/* [/make] */

/* [program] A program: sorted DIR CHANGE... Each change is a key to put in or, after a minus sign,
 * to take out. All changes are one transaction. */
#ifdef PROGRAM
static int change_all(struct lladd_txn *txn, lladd_pageno first, char **changes)
{
    for (; *changes; changes++) {
        bool live = **changes != '-';
        TRY(sorted_set(txn, first, strtoull(*changes + !live, NULL, 10), live));
    }
    return 0;
}

static int run_txn(struct lladd_db *db, char **changes, struct lladd_error *err)
{
    struct lladd_txn *txn;
    lladd_pageno first;
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = first_node(db, &first, lladd_txn_error_out(txn));
    if (rc == LLADD_NOT_FOUND)
        rc = make(txn, &first);
    if (!rc)
        rc = change_all(txn, first, changes);
    if (!rc)
        return lladd_commit(txn);
    *err = *lladd_txn_error(txn);
    TRY(lladd_abort(txn));
    return rc;
}

static int print(void *ctx, uint64_t key)
{
    (void)ctx;
    printf("%llu ", (unsigned long long)key);
    return 0;
}

static int use(const char *dir, char **changes, struct lladd_options *options,
               struct lladd_error *err)
{
    struct lladd_db *db;
    lladd_pageno first;
    TRY(configure(NULL, options, err));
    TRY(lladd_open(dir, options, &db, err));
    int rc = run_txn(db, changes, err);
    if (!rc)
        rc = first_node(db, &first, err);
    if (!rc)
        rc = sorted_each(db, first, print, NULL, err);
    int closed = lladd_close(db);
    return rc ? rc : closed;
}

int main(int argc, char **argv)
{
    struct lladd_options options = LLADD_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    if (argc < 2)
        return fprintf(stderr, "usage: sorted DIR CHANGE...\n"), 2;
    int rc = use(argv[1], argv + 2, &options, &err);
    lladd_options_release(&options);
    if (rc)
        fprintf(stderr, "%s: %s\n", lladd_code_name(rc), err.message);
    else
        printf("\n");
    return rc != 0;
}
#endif
/* [/program] */

/* [subject] What the simulator runs. */
#ifndef PROGRAM
/* The keys 10, 20 and 30. */
static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_txn *txn;
    lladd_pageno first;
    (void)ctx;
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = make(txn, &first);
    for (uint64_t key = 10; !rc && key <= 30; key += 10)
        rc = sorted_set(txn, first, key, true);
    if (rc)
        *err = *lladd_txn_error(txn);
    return rc ? rc : lladd_commit(txn);
}

/* A note for the model. */
struct note {
    uint64_t key;
    uint64_t live;
};

static int set(struct lladd_sim *sim, struct lladd_txn *txn, uint64_t key, bool live)
{
    struct note note = {key, live};
    lladd_pageno first;
    TRY(first_node(lladd_txn_db(txn), &first, lladd_txn_error_out(txn)));
    TRY(sorted_set(txn, first, key, live));
    return lladd_sim_note(sim, txn, &note, sizeof note);
}

/* The slow transaction takes 20 out and puts 25 in. The quick transaction then puts in keys
 * before 20, so that 20 and 25 move, first on their node and then to another node. The slow
 * transaction is rolled back; a third transaction is open when the process ends. */
static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_txn *slow, *quick, *last;
    (void)ctx;
    TRY(lladd_sim_begin(sim, db, NULL, &slow, err));
    TRY(lladd_sim_begin(sim, db, NULL, &quick, err));
    TRY(set(sim, slow, 20, false));
    TRY(set(sim, quick, 5, true));
    TRY(set(sim, slow, 25, true));
    TRY(set(sim, quick, 6, true));
    TRY(lladd_sim_commit(sim, quick));
    TRY(lladd_sim_abort(sim, slow));
    TRY(lladd_sim_begin(sim, db, NULL, &last, err));
    TRY(set(sim, last, 30, false));
    return set(sim, last, 7, true);
}

/* Two threads on one node: both need a split, and the split of one thread moves the keys of the
 * other. One thread rolls back. */
static int run_thread(void *ctx, struct lladd_sim *sim, struct lladd_db *db, unsigned thread,
                      struct lladd_error *err)
{
    struct lladd_txn *txn;
    (void)ctx;
    TRY(lladd_sim_begin(sim, db, NULL, &txn, err));
    TRY(set(sim, txn, 10 + 10 * thread, false));
    TRY(set(sim, txn, 11 + thread, true));
    TRY(set(sim, txn, 21 + thread, true));
    return thread ? lladd_sim_abort(sim, txn) : lladd_sim_commit(sim, txn);
}
/* [/subject] */

/* [model] The expected contents. */
enum { KEYS = 64 };

static void model_init(void *ctx, void *model)
{
    (void)ctx;
    for (unsigned key = 10; key <= 30; key += 10)
        ((unsigned char *)model)[key] = 1;
}

static void model_apply(void *ctx, void *model, struct lladd_span bytes)
{
    struct note note;
    (void)ctx;
    memcpy(&note, bytes.data, sizeof note);
    ((unsigned char *)model)[note.key] = note.live != 0;
}

static int tell(void *to, uint64_t key)
{
    return lladd_sink_printf(to, "%llu ", (unsigned long long)key);
}

static int model_dump(void *ctx, const void *model, struct lladd_sink *to)
{
    (void)ctx;
    for (unsigned key = 0; key < KEYS; key++)
        if (((const unsigned char *)model)[key])
            TRY(tell(to, key));
    return 0;
}

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *to, struct lladd_error *err)
{
    lladd_pageno first;
    (void)ctx;
    TRY(first_node(db, &first, err));
    return sorted_each(db, first, tell, to, err);
}

/* No key is below its node's range: a range begins where that of the node to the left ends. */
static int check(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    uint64_t low = 0;
    lladd_pageno at;
    (void)ctx;
    TRY(first_node(db, &at, err));
    while (at.v) {
        struct lladd_page *node;
        TRY(fix(db, at, LLADD_LATCH_SHARED, &node, err));
        const unsigned char *body = lladd_page_body(node);
        bool fine = !entries(body) || key_at(body, 0) >= low;
        low = lladd_get64(body + HIGH);
        at = lladd_page_of(lladd_get64(body + RIGHT));
        lladd_page_unfix(db, node, LLADD_LATCH_SHARED);
        if (!fine)
            return lladd_error_set(err, LLADD_CORRUPT_PAGE, "a key lies before its node");
    }
    return 0;
}

static int pages(void *ctx, struct lladd_db *db, int (*fn)(void *, lladd_pageno), void *arg,
                 struct lladd_error *err)
{
    lladd_pageno at;
    (void)ctx;
    TRY(first_node(db, &at, err));
    while (at.v) {
        struct lladd_page *node;
        TRY(fn(arg, at));
        TRY(fix(db, at, LLADD_LATCH_SHARED, &node, err));
        at = lladd_page_of(lladd_get64((const unsigned char *)lladd_page_body(node) + RIGHT));
        lladd_page_unfix(db, node, LLADD_LATCH_SHARED);
    }
    return 0;
}

static void describe(void *ctx, struct lladd_span bytes, struct lladd_sink *to)
{
    struct note note;
    (void)ctx;
    memcpy(&note, bytes.data, sizeof note);
    lladd_sink_printf(to, "%s %llu", note.live ? "puts in" : "takes out",
                      (unsigned long long)note.key);
}

#define SUBJECT(its_name, ...) \
    { \
        .struct_size = sizeof(struct lladd_sim_subject), .name = its_name, \
        .about = "a sorted set on a chain of pages", .configure = configure, .setup = setup, \
        .dump = dump, .check = check, .pages = pages, .model_size = KEYS, \
        .model_init = model_init, .model_apply = model_apply, .model_dump = model_dump, \
        .describe = describe, __VA_ARGS__ \
    }

static const struct lladd_sim_subject one = SUBJECT("sorted", .run = run);
static const struct lladd_sim_subject two =
    SUBJECT("sorted.threads", .threads = 2, .run_thread = run_thread);

LLADD_API const struct lladd_sim_subject *const *lladd_sim_plugin(void);

const struct lladd_sim_subject *const *lladd_sim_plugin(void)
{
    static const struct lladd_sim_subject *const all[] = {&one, &two, NULL};
    return all;
}
#endif
/* [/model] */
