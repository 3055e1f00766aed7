/* SPDX-License-Identifier: BSD-2-Clause */
/* The structure. Latches are taken in this order: the index page, a leaf, the new leaf of a
 * split. */
#include "ordered.h"

#include "page.h"

#include <lladd/extension.h>
#include <lladd/lock.h>
#include <lladd/pages.h>

#define TRY(call) \
    do { \
        int try_rc = (call); \
        if (try_rc) \
            return try_rc; \
    } while (0)

static int corrupt(struct lladd_error *err, lladd_pageno page, const char *why)
{
    (void)lladd_error_set(err, LLADD_CORRUPT_PAGE, "page %llu: %s", (unsigned long long)page.v,
                          why);
    if (err)
        err->page = page;
    return LLADD_CORRUPT_PAGE;
}

static int op_of(struct lladd_txn *txn, const struct lladd_op *op, lladd_op_id *out)
{
    int rc = lladd_op_lookup(lladd_txn_db(txn), op->name, op->version, out);
    return rc ? lladd_error_set(lladd_txn_error_out(txn), rc, "\"%s\" is not registered", op->name)
              : 0;
}

/* ---- lookups ------------------------------------------------------------------------------- */

static int fix(struct lladd_db *db, lladd_pageno number, enum lladd_latch latch,
               struct lladd_page **out, struct lladd_error *err)
{
    TRY(lladd_page_fix(db, number, latch, out, err));
    struct lladd_view view = lladd_page_view(*out);
    if (lladd_page_is(db, view, PAGE_TYPE) && page_sane(view))
        return 0;
    lladd_page_unfix(db, *out, latch);
    return corrupt(err, number, "is not a page of an ordered structure");
}

/* The entry of the index page that leads to the key. */
static int child_of(struct lladd_page *top, uint64_t key, unsigned *at, struct lladd_error *err)
{
    bool there;
    *at = entry_find(lladd_page_body(top), key, &there);
    if (!there && *at == 0)
        return corrupt(err, top->number, "leads to no leaf");
    *at -= !there;
    return 0;
}

/* [find_leaf] The index page is unlatched only after the leaf is latched: otherwise a split could
 * move the key to another leaf in between. */
static int find_leaf(struct lladd_db *db, lladd_pageno root, uint64_t key, enum lladd_latch latch,
                     struct lladd_page **leaf, struct lladd_error *err)
{
    struct lladd_page *top;
    unsigned at;
    TRY(fix(db, root, LLADD_LATCH_SHARED, &top, err));
    int rc = child_of(top, key, &at, err);
    if (!rc)
        rc = fix(db, lladd_page_of(value_of(entry_at(lladd_page_body(top), at))), latch, leaf, err);
    lladd_page_unfix(db, top, LLADD_LATCH_SHARED);
    return rc;
}
/* [/find_leaf] */

int ordered_get(struct lladd_db *db, lladd_pageno root, uint64_t key, uint64_t *value,
                struct lladd_error *err)
{
    struct lladd_page *leaf;
    bool there;
    TRY(find_leaf(db, root, key, LLADD_LATCH_SHARED, &leaf, err));
    unsigned at = entry_find(lladd_page_body(leaf), key, &there);
    const unsigned char *entry = entry_at(lladd_page_body(leaf), at);
    int rc = there && state_of(entry) == LIVE ? 0 : LLADD_NOT_FOUND;
    if (!rc)
        *value = value_of(entry);
    lladd_page_unfix(db, leaf, LLADD_LATCH_SHARED);
    return rc ? lladd_error_set(err, rc, "key %llu is not there", (unsigned long long)key) : 0;
}

/* ---- undo --------------------------------------------------------------------------------- */

/* [undo_changes] Finds the key, on whatever page it is by now, and restores its entry. The page has
 * room for it, because neither a live entry nor a ghost of an open transaction is ever purged. */
int ordered_undo(void *ctx, struct lladd_txn *txn, struct lladd_span undo)
{
    const unsigned char *b = undo.data;
    struct lladd_page *leaf;
    lladd_op_id put_back;
    (void)ctx;
    LLADD_USE(txn);
    struct lladd_db *db = lladd_txn_db(txn);
    TRY(op_of(txn, &ordered_put_back, &put_back));
    TRY(lladd_log_credit(txn, put_back, 1));
    int rc = find_leaf(db, lladd_page_of(lladd_get64(b)), key_of(b + 8), LLADD_LATCH_EXCLUSIVE,
                       &leaf, lladd_txn_error_out(txn));
    if (!rc) {
        rc = lladd_update_page(txn, put_back, leaf, b + 8, ENTRY);
        lladd_page_unfix(db, leaf, LLADD_LATCH_EXCLUSIVE);
    }
    int rest = lladd_log_credit(txn, put_back, 0);
    return rc ? rc : rest;
}
/* [/undo_changes] */

/* ---- updates ------------------------------------------------------------------------------- */

/* [change] Logs one record. The log space is reserved before the page is latched; unused space is
 * returned after the page is unlatched, also after an error. */
static int change(struct lladd_txn *txn, lladd_pageno root, const unsigned char *entry, bool *full)
{
    struct lladd_db *db = lladd_txn_db(txn);
    unsigned char args[SET];
    struct lladd_page *leaf;
    lladd_op_id set;
    bool there;
    lladd_put64(args, root.v);
    memcpy(args + 8, entry, ENTRY);
    TRY(op_of(txn, &ordered_set, &set));
    TRY(lladd_log_credit(txn, set, 1));
    int rc = find_leaf(db, root, key_of(entry), LLADD_LATCH_EXCLUSIVE, &leaf,
                       lladd_txn_error_out(txn));
    if (!rc) {
        const unsigned char *body = lladd_page_body(leaf);
        (void)entry_find(body, key_of(entry), &there);
        *full = !there && entries(body) == room_of(body);
        if (!*full)
            rc = lladd_update_page(txn, set, leaf, args, sizeof args);
        lladd_page_unfix(db, leaf, LLADD_LATCH_EXCLUSIVE);
    }
    int rest = lladd_log_credit(txn, set, 0);
    return rc ? rc : rest;
}
/* [/change] */

/* ---- ghosts ------------------------------------------------------------------------------- */

/* Finds the first ghost from `from` on, on the leaf to which `key` belongs. LLADD_NOT_FOUND: the
 * leaf has none. */
static int next_ghost(struct lladd_db *db, lladd_pageno root, uint64_t key, uint64_t from,
                      uint64_t *ghost, struct lladd_error *err)
{
    struct lladd_page *leaf;
    bool there;
    TRY(find_leaf(db, root, key, LLADD_LATCH_SHARED, &leaf, err));
    const unsigned char *body = lladd_page_body(leaf);
    unsigned at = entry_find(body, from, &there);
    while (at < entries(body) && state_of(entry_at(body, at)) != GHOST)
        at++;
    int rc = at < entries(body) ? 0 : LLADD_NOT_FOUND;
    if (!rc)
        *ghost = key_of(entry_at(body, at));
    lladd_page_unfix(db, leaf, LLADD_LATCH_SHARED);
    return rc;
}

/* Latches the leaf and removes the ghost. The log space is already reserved, so the thread waits
 * only for the latch. */
static int drop_ghost(struct lladd_txn *txn, lladd_pageno root, uint64_t ghost, lladd_op_id op,
                      struct lladd_action *action, bool *done)
{
    struct lladd_db *db = lladd_txn_db(txn);
    struct lladd_page *leaf;
    TRY(find_leaf(db, root, ghost, LLADD_LATCH_EXCLUSIVE, &leaf, lladd_txn_error_out(txn)));
    const unsigned char *body = lladd_page_body(leaf);
    unsigned at = entry_find(body, ghost, done);
    int rc = 0;
    *done = *done && state_of(entry_at(body, at)) == GHOST;
    if (*done) {
        struct splice s = {.at = (uint16_t)at, .drop = 1};
        rc = lladd_update_page(txn, op, leaf, &s, sizeof s);
        if (!rc)
            rc = lladd_nta_end(txn, action, LLADD_NO_OP, NULL, 0);
    }
    lladd_page_unfix(db, leaf, LLADD_LATCH_EXCLUSIVE);
    return rc;
}

static int purge(struct lladd_txn *txn, lladd_pageno root, uint64_t ghost, bool *done)
{
    struct lladd_action action;
    lladd_op_id op;
    TRY(op_of(txn, &ordered_splice, &op));
    const struct lladd_log_need needs[] = {{op, 1}, {LLADD_NO_OP, 1}};
    *done = false;
    TRY(lladd_nta_begin(txn, &action));
    int rc = lladd_log_credit_all(txn, needs, 2);
    if (!rc)
        rc = drop_ghost(txn, root, ghost, op, &action, done);
    int rest = lladd_log_credit(txn, op, 0);
    int end = rc || !*done ? lladd_nta_abort(txn, &action) : 0;
    return rc ? rc : rest ? rest : end;
}

/* [purge] A transaction that removes a key holds X on the key until its commit is logged or its
 * rollback is complete. So if another transaction gets S on the key, no undo will ever need the
 * ghost. */
static int purge_one(struct lladd_txn *txn, lladd_pageno root, uint64_t key, bool *done)
{
    struct lladd_db *db = lladd_txn_db(txn);
    uint64_t ghost, from = 0;
    int rc;
    *done = false;
    while ((rc = next_ghost(db, root, key, from, &ghost, lladd_txn_error_out(txn))) == 0) {
        struct lladd_lock_part path[] = {lladd_lock_id(root.v), lladd_lock_id(ghost)};
        struct lladd_lock_name name = {path, 2};
        enum lladd_lock_mode had = lladd_lock_held(txn, name);
        rc = had > LLADD_LOCK_S ? LLADD_BUSY /* this transaction's own ghost: its rollback may need
                                              * it */
                                : lladd_lock_acquire(txn, name, LLADD_LOCK_S, LLADD_LOCK_TRY);
        if (!rc) {
            rc = purge(txn, root, ghost, done);
            if (had == LLADD_LOCK_NONE)
                (void)lladd_lock_release(txn, name); /* a serialisable transaction keeps it */
        }
        if ((rc && rc != LLADD_BUSY) || *done || ghost == UINT64_MAX)
            break;
        from = ghost + 1;
    }
    return rc == LLADD_NOT_FOUND || rc == LLADD_BUSY ? 0 : rc;
}
/* [/purge] */

/* ---- splitting ---------------------------------------------------------------------------- */

struct split {
    struct lladd_page *top, *leaf, *fresh;
    unsigned at; /* index of the leaf's entry in the index page */
};

static int split_fix(struct lladd_db *db, lladd_pageno root, lladd_pageno fresh, uint64_t key,
                     struct split *s, struct lladd_error *err)
{
    TRY(fix(db, root, LLADD_LATCH_EXCLUSIVE, &s->top, err));
    TRY(child_of(s->top, key, &s->at, err));
    uint64_t leaf = value_of(entry_at(lladd_page_body(s->top), s->at));
    TRY(fix(db, lladd_page_of(leaf), LLADD_LATCH_EXCLUSIVE, &s->leaf, err));
    return fix(db, fresh, LLADD_LATCH_EXCLUSIVE, &s->fresh, err);
}

static void split_unfix(struct lladd_db *db, struct split *s)
{
    struct lladd_page *held[] = {s->fresh, s->leaf, s->top};
    for (int i = 0; i < 3; i++)
        if (held[i])
            lladd_page_unfix(db, held[i], LLADD_LATCH_EXCLUSIVE);
}

/* [move_half] Three records. After each record every key can be found: the first copies the upper
 * half of the entries to the new page, the second inserts the new page into the index, the third
 * removes the upper half from the old page. */
static int move_half(struct lladd_txn *txn, lladd_op_id op, const struct split *s)
{
    unsigned char child[ENTRY];
    const unsigned char *old = lladd_page_body(s->leaf);
    uint16_t keep = entries(old) / 2, rest = entries(old) - keep;
    const struct splice fill = {.n = rest, .bytes = entry_at(old, keep)};
    const struct splice lead = {.at = (uint16_t)(s->at + 1), .n = 1, .bytes = child};
    const struct splice cut = {.at = keep, .drop = rest};
    entry_make(child, key_of(fill.bytes), LIVE, s->fresh->number.v);
    TRY(lladd_update_page(txn, op, s->fresh, &fill, sizeof fill));
    TRY(lladd_update_page(txn, op, s->top, &lead, sizeof lead));
    return lladd_update_page(txn, op, s->leaf, &cut, sizeof cut);
}
/* [/move_half] */

/* [split_held] All conditions are checked before the first record: with the log space reserved and
 * the pages latched, only a poisoned database can refuse one of the three updates. The action ends
 * before the latches are released. */
static int split_held(struct lladd_txn *txn, lladd_op_id op, const struct split *s,
                      struct lladd_action *action, bool *done)
{
    const unsigned char *top = lladd_page_body(s->top), *leaf = lladd_page_body(s->leaf);
    if (entries(leaf) < room_of(leaf))
        return 0; /* another thread has split the leaf meanwhile */
    if (entries(top) == room_of(top))
        return lladd_error_set(lladd_txn_error_out(txn), LLADD_NO_SPACE, "the index page is full");
    TRY(move_half(txn, op, s));
    *done = true;
    return lladd_nta_end(txn, action, LLADD_NO_OP, NULL, 0);
}

static int split_with_credit(struct lladd_txn *txn, lladd_pageno root, uint64_t key,
                             lladd_pageno fresh, struct lladd_action *action, bool *done)
{
    struct lladd_db *db = lladd_txn_db(txn);
    struct split s = {NULL, NULL, NULL, 0};
    lladd_op_id op;
    TRY(op_of(txn, &ordered_splice, &op));
    const struct lladd_log_need needs[] = {{op, 3}, {LLADD_NO_OP, 1}};
    TRY(lladd_log_credit_all(txn, needs, 2));
    int rc = split_fix(db, root, fresh, key, &s, lladd_txn_error_out(txn));
    if (!rc)
        rc = split_held(txn, op, &s, action, done);
    split_unfix(db, &s);
    int rest = lladd_log_credit(txn, op, 0);
    return rc ? rc : rest;
}
/* [/split_held] */

static int new_page(struct lladd_txn *txn, uint16_t room, lladd_pageno *out)
{
    unsigned char args[2];
    lladd_op_id format;
    lladd_put16(args, room);
    TRY(op_of(txn, &ordered_format, &format));
    TRY(lladd_page_alloc(txn, out));
    return lladd_update(txn, format, *out, args, sizeof args);
}

/* [split] The page is allocated and formatted inside the action, before the latches, because both
 * may wait. If the page is not needed after all, the action is rolled back, which also frees the
 * page. */
static int split(struct lladd_txn *txn, lladd_pageno root, uint64_t key)
{
    struct lladd_db *db = lladd_txn_db(txn);
    struct lladd_page *top;
    struct lladd_action action;
    lladd_pageno fresh;
    bool done = false;
    TRY(fix(db, root, LLADD_LATCH_SHARED, &top, lladd_txn_error_out(txn)));
    uint16_t room = room_of(lladd_page_body(top));
    lladd_page_unfix(db, top, LLADD_LATCH_SHARED);
    TRY(lladd_nta_begin(txn, &action));
    int rc = new_page(txn, room, &fresh);
    if (!rc)
        rc = split_with_credit(txn, root, key, fresh, &action, &done);
    int end = rc || !done ? lladd_nta_abort(txn, &action) : 0;
    return rc ? rc : end;
}
/* [/split] */

/* ---- public functions ------------------------------------------------------------------------ */

static int lock_key(struct lladd_txn *txn, lladd_pageno root, uint64_t key)
{
    return lladd_lock_acquire(txn, LLADD_LOCK_NAME(lladd_lock_id(root.v), lladd_lock_id(key)),
                      LLADD_LOCK_X, LLADD_LOCK_WAIT);
}

/* [put] The lock is taken before every latch, and held until the transaction ends. */
int ordered_put(struct lladd_txn *txn, lladd_pageno root, uint64_t key, uint64_t value)
{
    unsigned char entry[ENTRY];
    bool full, purged;
    LLADD_USE(txn);
    TRY(lock_key(txn, root, key));
    entry_make(entry, key, LIVE, value);
    for (;;) {
        TRY(change(txn, root, entry, &full));
        if (!full)
            return 0;
        TRY(purge_one(txn, root, key, &purged));
        if (!purged)
            TRY(split(txn, root, key));
    }
}

int ordered_remove(struct lladd_txn *txn, lladd_pageno root, uint64_t key)
{
    unsigned char entry[ENTRY];
    uint64_t value;
    bool full;
    LLADD_USE(txn);
    TRY(lock_key(txn, root, key));
    TRY(ordered_get(lladd_txn_db(txn), root, key, &value, lladd_txn_error_out(txn)));
    entry_make(entry, key, GHOST, 0);
    return change(txn, root, entry, &full); /* the leaf has the key, so the entry needs no new
                                             * room */
}
/* [/put] */

int ordered_create(struct lladd_txn *txn, uint16_t room, lladd_pageno *root)
{
    unsigned most = fit(lladd_page_size(lladd_txn_db(txn)));
    unsigned char child[ENTRY];
    lladd_pageno leaf;
    lladd_op_id op;
    LLADD_USE(txn);
    if (room == 1 || room > most)
        return lladd_error_set(lladd_txn_error_out(txn), LLADD_BAD_ARGUMENT,
                               "a page has room for 2 to %u entries", most);
    room = (uint16_t)(room ? room : most);
    TRY(op_of(txn, &ordered_splice, &op));
    TRY(new_page(txn, room, root));
    TRY(new_page(txn, room, &leaf));
    entry_make(child, 0, LIVE, leaf.v);
    const struct splice first = {.n = 1, .bytes = child};
    return lladd_update(txn, op, *root, &first, sizeof first);
}

/* Calls fn(arg, leaf, lowest, next) for every leaf, with leaf and index page latched. The leaf's
 * keys are at least `lowest`, and below *next; NULL: it is the last leaf. */
static int each_leaf(struct lladd_db *db, lladd_pageno root,
                     int (*fn)(void *, struct lladd_page *, uint64_t, const uint64_t *), void *arg,
                     struct lladd_error *err)
{
    struct lladd_page *top, *leaf;
    int rc = 0;
    TRY(fix(db, root, LLADD_LATCH_SHARED, &top, err));
    const unsigned char *body = lladd_page_body(top);
    for (unsigned i = 0; !rc && i < entries(body); i++) {
        const unsigned char *e = entry_at(body, i);
        uint64_t next = i + 1 < entries(body) ? key_of(entry_at(body, i + 1)) : 0;
        rc = fix(db, lladd_page_of(value_of(e)), LLADD_LATCH_SHARED, &leaf, err);
        if (rc)
            break;
        rc = fn(arg, leaf, key_of(e), i + 1 < entries(body) ? &next : NULL);
        lladd_page_unfix(db, leaf, LLADD_LATCH_SHARED);
    }
    lladd_page_unfix(db, top, LLADD_LATCH_SHARED);
    return rc;
}

struct walk {
    ordered_fn *fn;
    int (*page)(void *, lladd_pageno);
    void *ctx;
    struct lladd_error *err;
};

static int tell_entries(void *arg, struct lladd_page *leaf, uint64_t lowest, const uint64_t *next)
{
    const unsigned char *body = lladd_page_body(leaf);
    const struct walk *w = arg;
    int rc = 0;
    (void)lowest;
    (void)next;
    for (unsigned i = 0; !rc && i < entries(body); i++) {
        const unsigned char *e = entry_at(body, i);
        if (state_of(e) == LIVE)
            rc = w->fn(w->ctx, key_of(e), value_of(e));
    }
    return rc;
}

int ordered_each(struct lladd_db *db, lladd_pageno root, ordered_fn *fn, void *ctx,
                 struct lladd_error *err)
{
    struct walk w = {.fn = fn, .ctx = ctx};
    return each_leaf(db, root, tell_entries, &w, err);
}

static int check_leaf(void *arg, struct lladd_page *leaf, uint64_t lowest, const uint64_t *next)
{
    const unsigned char *body = lladd_page_body(leaf);
    const struct walk *w = arg;
    for (unsigned i = 0; i < entries(body); i++) {
        uint64_t key = key_of(entry_at(body, i));
        if (key < lowest || (next && key >= *next) ||
            (i && key_of(entry_at(body, i - 1)) >= key))
            return corrupt(w->err, leaf->number, "has a key that does not belong there");
    }
    return 0;
}

int ordered_check(struct lladd_db *db, lladd_pageno root, struct lladd_error *err)
{
    struct walk w = {.err = err};
    return each_leaf(db, root, check_leaf, &w, err);
}

static int tell_page(void *arg, struct lladd_page *leaf, uint64_t lowest, const uint64_t *next)
{
    const struct walk *w = arg;
    (void)lowest;
    (void)next;
    return w->page(w->ctx, leaf->number);
}

int ordered_pages(struct lladd_db *db, lladd_pageno root, int (*fn)(void *, lladd_pageno),
                  void *arg, struct lladd_error *err)
{
    struct walk w = {.page = fn, .ctx = arg};
    int rc = fn(arg, root);
    return rc ? rc : each_leaf(db, root, tell_page, &w, err);
}

static const struct lladd_op *const ops[] = {&ordered_format, &ordered_set, &ordered_put_back,
                                             &ordered_splice, NULL};
static const struct lladd_page_type *const page_types[] = {&ordered_page, NULL};
/* [structure] lladd verify calls these. */
static int check_root(void *ctx, struct lladd_db *db, struct lladd_root_value root,
                      struct lladd_error *err)
{
    (void)ctx;
    return ordered_check(db, lladd_page_of(root.a), err);
}

static int root_pages(void *ctx, struct lladd_db *db, struct lladd_root_value root,
                      int (*fn)(void *, lladd_pageno), void *arg, struct lladd_error *err)
{
    (void)ctx;
    return ordered_pages(db, lladd_page_of(root.a), fn, arg, err);
}

static const struct lladd_structure structure = {
    .struct_size = sizeof structure,
    .name = "example.ordered",
    .version = 1,
    .page_type = PAGE_TYPE,
    .check = check_root,
    .pages = root_pages,
};
/* [/structure] */

static const struct lladd_structure *const structures[] = {&structure, NULL};
const struct lladd_extension ordered_extension = {
    .struct_size = sizeof ordered_extension,
    .name = "example.ordered",
    .version = 1,
    .ops = ops,
    .page_types = page_types,
    .structures = structures,
};

int ordered_register(struct lladd_options *options, struct lladd_error *err)
{
    TRY(lladd_lock_register(options, err));
    return lladd_register_extension(options, &ordered_extension, err);
}
