/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Changes of rows in a transaction. A record says "the key has this value" or "the key has no row",
 * and its undo says the same of the row before. So redo and undo are one function, by key, and a
 * change can be repeated any number of times as long as the later ones follow (BWT-1).
 *
 *   redo, undo   u8 kind: 1 put, 2 delete   u16 length of key   key   value
 *
 * A writer reserves log space. Then it enters an epoch, finds the leaf, logs the change, and puts a
 * delta in front of the leaf's state. Once the record is in the log, nothing can prevent the
 * change: if the compare-and-swap fails, the writer looks for the key again, and the memory for the
 * delta is there. The memory for the undo is there, too, so a rollback needs none (REC-3). The undo
 * is that of the state in which the writer has found the row: no other transaction changes the row,
 * and the thread logs the row's changes in their order.
 */
#include "operations/bwtree/stored.h"

#include <lladd/log_read.h>

enum { FEW = 512, OLD_VALUE = 64, AGAIN = 1 };

/* ---- the bytes of a record ------------------------------------------------------------------- */

static size_t encode(unsigned char *to, enum bw_kind kind, struct bw_key key, const void *value,
                     uint32_t value_len)
{
    to[0] = kind == BW_PUT ? BW_CHANGE_PUT : BW_CHANGE_DELETE;
    lladd_put16(to + 1, (uint16_t)key.len);
    lladd_copy(to + BW_CHANGE_HEAD, key.bytes, key.len);
    lladd_copy(to + BW_CHANGE_HEAD + key.len, value, value_len);
    return BW_CHANGE_HEAD + key.len + value_len;
}

static bool decode(struct lladd_span s, bool *put, struct lladd_span *key, struct lladd_span *value)
{
    const unsigned char *p = s.data;
    if (s.len < BW_CHANGE_HEAD || (p[0] != BW_CHANGE_PUT && p[0] != BW_CHANGE_DELETE))
        return false;
    size_t key_len = lladd_get16(p + 1), rest = s.len - BW_CHANGE_HEAD;
    if (key_len > rest || (p[0] == BW_CHANGE_DELETE && key_len != rest))
        return false;
    *put = p[0] == BW_CHANGE_PUT;
    *key = lladd_span_of(p + BW_CHANGE_HEAD, key_len);
    *value = lladd_span_of(p + BW_CHANGE_HEAD + key_len, rest - key_len);
    return true;
}

bool lladd_bwtree_logged_key(const struct lladd_log_entry *e, uint64_t *tree,
                             struct lladd_span *key)
{
    struct lladd_span value;
    bool put;
    if (!e->op || strcmp(e->op, ll_bwtree__rows_class.name) != 0 ||
        !decode(e->undo, &put, key, &value))
        return false;
    *tree = e->page;
    return true;
}

void ll_bwtree__rows_describe(void *ctx, struct lladd_sink *sink, enum lladd_span_kind kind,
                              struct lladd_span s)
{
    struct lladd_span key, value;
    bool put;
    (void)ctx;
    (void)kind;
    if (decode(s, &put, &key, &value))
        (void)lladd_sink_printf(sink, "%s key of %zu bytes, value of %zu", put ? "put" : "delete",
                                key.len, value.len);
}

/* ---- redo and undo --------------------------------------------------------------------------- */

/* *spare: memory for the delta, or NULL. */
static int repeat(struct bw_call *c, lladd_lsn lsn, const struct bw_change *change, void **spare)
{
    const struct bw_aim aim = {.key = change->key};
    uint32_t pid;
    const struct bw_state *s = ll_bwtree__descend(c, &aim, 0, true, &pid);
    for (;;) {
        struct bw_seen seen;
        if (s->level > 0) {
            s = ll_bwtree__descend(c, &aim, 0, true, &pid);
            continue;
        }
        if (ll_bwtree__look(c->t, s, &aim, &seen) == BW_RIGHT) {
            ll_bwtree__post(c, 1, seen.from, seen.child, true);
            s = bw_load(c->t, pid = seen.child);
            continue;
        }
        if (lsn.v < bw_bottom(s)->bound || (change->kind == BW_DELETE && !seen.found))
            return 0; /* the page has this change, or a later one, already */
        struct bw_delta *d = ll_bwtree__delta_in(c->t, s, seen.at, change, spare);
        if (!d)
            return LLADD_NO_MEMORY;
        if (bw_replace(c->t, pid, s, &d->s)) {
            bw_count(&c->counts->updates);
            ll_bwtree__maintain(c, pid, d);
            return 0;
        }
        bw_count(&c->counts->updates_failed);
        if (d->s.alone)
            *spare = d;
        s = bw_load(c->t, pid);
    }
}

/* Enters an epoch. With `spare`, other threads may be in all slots, and there may be no memory for
 * more. A rollback waits then: a slot is free when a call of another thread ends (REC-3). */
static int enter(struct lladd_bwtree *t, struct bw_call *c, const void *spare)
{
    int rc;
    while ((rc = ll_bwtree__enter(t, c, NULL)) != 0 && spare)
        lladd_yield();
    return rc;
}

int ll_bwtree__repeat(struct bw_stored *s, struct lladd_txn *txn, lladd_lsn lsn,
                      struct lladd_span bytes)
{
    struct lladd_bwtree *t = s->tree;
    struct lladd_span key, value;
    struct bw_change change = {.kind = BW_PUT};
    struct bw_call c;
    bool put;
    if (!decode(bytes, &put, &key, &value) ||
        ll_bwtree__key(t, key.data, key.len, &change.key, NULL) ||
        (put && ll_bwtree__value(t, value.len, NULL)))
        return LLADD_BAD_RECORD;
    change.kind = put ? BW_PUT : BW_DELETE;
    change.value = value.data;
    change.value_len = (uint32_t)value.len;
    size_t size = ll_bwtree__delta_size(t, change.kind, change.key.len, 0, change.value_len);
    void *spare = ll_bwtree__undo_take(txn, t, size);
    int rc = enter(t, &c, spare);
    if (rc)
        return rc;
    rc = repeat(&c, lsn, &change, &spare);
    bw_leave(&c);
    if (spare)
        ll_bwtree__free(t, spare, size);
    return rc;
}

/* ---- memory that a change needs when it is logged -------------------------------------------- */

/* Each stripe keeps the memory of one delta, with its size in its first word. */
static uint64_t *spare_of(const struct bw_call *c)
{
    return &c->t->spares[lladd_epoch_slot(c->in) % BW_STRIPES];
}

static void *take_spare(const struct bw_call *c, size_t size)
{
    size_t *p = (size_t *)(uintptr_t)lladd_atomic_exchange64(spare_of(c), 0);
    if (p && *p == size)
        return p;
    if (p)
        ll_bwtree__free(c->t, p, *p);
    return ll_bwtree__alloc(c->t, size);
}

static void give_spare(const struct bw_call *c, void *spare, size_t size)
{
    uint64_t none = 0;
    if (!spare)
        return;
    *(size_t *)spare = size;
    if (!lladd_atomic_cas64(spare_of(c), &none, (uintptr_t)spare))
        ll_bwtree__free(c->t, spare, size);
}

/* ---- a change -------------------------------------------------------------------------------- */

struct writing {
    struct lladd_txn *txn;
    enum bw_verb verb;
    struct bw_change change;
    unsigned char *redo, *undo;
    size_t redo_len, undo_len;
    size_t old_room; /* longest old value for which there is room in `undo` */
    void *spare;
    struct bw_part *part;
    bool logged;
    struct lladd_token token;
    lladd_lsn lsn;
    struct lladd_error *err;
};

/* Logs the change of the row that was seen. AGAIN: there is no room for the old value. */
static int log_change(struct bw_call *c, struct writing *w, const struct bw_seen *seen)
{
    uint32_t old = seen->found ? seen->value_len : 0;
    TRY(ll_bwtree__allowed(w->verb, seen->found, w->err));
    if (old > w->old_room) {
        w->old_room = old;
        return AGAIN;
    }
    enum bw_kind kind = seen->found ? BW_PUT : BW_DELETE;
    size_t size = ll_bwtree__delta_size(c->t, kind, w->change.key.len, 0, old);
    struct bw_spare *undo = ll_bwtree__alloc(c->t, size);
    if (!undo)
        return ll_bwtree__no_memory(w->err, "the undo of a row");
    w->undo_len = encode(w->undo, kind, w->change.key, seen->value, old);
    int rc = lladd_log_object(w->txn, &ll_bwtree__rows_class, c->t->stored->id,
                              lladd_span_of(w->redo, w->redo_len),
                              lladd_span_of(w->undo, w->undo_len), &w->token, &w->lsn);
    if (rc) {
        ll_bwtree__free(c->t, undo, size);
        return rc;
    }
    *undo = (struct bw_spare){w->part->undo, c->t, size};
    w->part->undo = undo;
    w->logged = true;
    return 0;
}

static void installed(struct bw_call *c, struct writing *w, uint32_t pid, const struct bw_delta *d)
{
    bw_count(&c->counts->updates);
    lladd_object_applied(w->txn, &w->token);
    ll_bwtree__maintain(c, pid, d);
}

static int install(struct bw_call *c, struct writing *w)
{
    const struct bw_aim aim = {.key = w->change.key};
    uint32_t pid;
    const struct bw_state *s = ll_bwtree__descend(c, &aim, 0, true, &pid);
    for (;;) {
        struct bw_seen seen;
        if (__builtin_expect(s->level > 0, 0)) { /* the root is no leaf any more */
            s = ll_bwtree__descend(c, &aim, 0, true, &pid);
            continue;
        }
        if (ll_bwtree__look(c->t, s, &aim, &seen) == BW_RIGHT) {
            ll_bwtree__post(c, 1, seen.from, seen.child, true);
            s = bw_load(c->t, pid = seen.child);
            continue;
        }
        if (!w->logged)
            TRY(log_change(c, w, &seen));
        struct bw_delta *d = ll_bwtree__delta_in(c->t, s, seen.at, &w->change, &w->spare);
        if (bw_replace(c->t, pid, s, &d->s)) {
            installed(c, w, pid, d);
            return 0;
        }
        bw_count(&c->counts->updates_failed);
        if (d->s.alone)
            w->spare = d;
        s = bw_load(c->t, pid);
    }
}

static int try_once(struct lladd_bwtree *t, struct writing *w)
{
    size_t size = ll_bwtree__delta_size(t, w->change.kind, w->change.key.len, 0,
                                        w->change.value_len);
    struct bw_call c;
    TRY(ll_bwtree__enter(t, &c, w->err));
    w->spare = take_spare(&c, size);
    int rc = w->spare ? install(&c, w) : ll_bwtree__no_memory(w->err, "a row");
    give_spare(&c, w->spare, size);
    bw_leave(&c);
    return rc;
}

/* Log space is reserved outside of the epoch: a thread that waits for it keeps no memory. */
static int with_space(struct lladd_bwtree *t, struct writing *w)
{
    unsigned char few[FEW], *bytes = few;
    size_t key_len = w->change.key.len;
    size_t undo_max = BW_CHANGE_HEAD + key_len + w->old_room;
    w->redo_len = BW_CHANGE_HEAD + key_len + w->change.value_len;
    TRY(lladd_log_object_credit(w->txn, &ll_bwtree__rows_class, w->redo_len, undo_max));
    if (w->redo_len + undo_max > FEW)
        bytes = lladd_mem_alloc(t->db, w->redo_len + undo_max);
    if (!bytes)
        return ll_bwtree__no_memory(w->err, "a row");
    w->redo = bytes;
    w->undo = bytes + w->redo_len;
    (void)encode(w->redo, w->change.kind, w->change.key, w->change.value, w->change.value_len);
    int rc = try_once(t, w);
    if (bytes != few)
        lladd_mem_free(t->db, bytes);
    return rc;
}

/* Gives the log space back that a change has not used. Returns rc. */
static int release(struct lladd_txn *txn, int rc)
{
    struct lladd_error why = *lladd_txn_error_out(txn);
    lladd_op_id id;
    if (lladd_op_lookup(lladd_txn_db(txn), ll_bwtree__info_set.name, 1, &id) == 0 &&
        lladd_log_credit(txn, id, 0) == 0)
        *lladd_txn_error_out(txn) = why;
    return rc;
}

static int change_row(struct lladd_txn *txn, struct lladd_bwtree *t, enum bw_verb verb,
                      const struct lladd_bwtree_row *row)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct writing w = {.txn = txn, .verb = verb, .err = err};
    if (!t->stored)
        return lladd_error_set(err, LLADD_BAD_STATE,
                               "the tree is volatile: it has no transactions");
    if (lladd_txn_db(txn) != t->db)
        return lladd_error_set(err, LLADD_OTHER_DATABASE,
                               "the tree is of another database than the transaction");
    TRY(ll_bwtree__key(t, row->key, row->key_len, &w.change.key, err));
    w.change.kind = verb == BW_DO_DELETE ? BW_DELETE : BW_PUT;
    if (verb != BW_DO_DELETE)
        TRY(ll_bwtree__value(t, row->value_len, err));
    w.change.value = row->value;
    w.change.value_len = (uint32_t)row->value_len;
    w.old_room = t->value_size                  ? t->value_size
                 : row->value_len > OLD_VALUE ? row->value_len
                                              : OLD_VALUE;
    TRY(ll_bwtree__part_of(t->stored->store, txn, &w.part));
    int rc;
    do {
        rc = with_space(t, &w);
    } while (rc == AGAIN);
    if (rc)
        return release(txn, rc);
    ll_bwtree__flush_if_due(t->stored->store, w.lsn.v);
    return 0;
}

int lladd_bwtree_txn_insert(struct lladd_txn *txn, struct lladd_bwtree *t, const void *key,
                            size_t key_len, const void *value, size_t value_len)
{
    LLADD_USE(txn);
    const struct lladd_bwtree_row row = {key, key_len, value, value_len};
    return change_row(txn, t, BW_DO_INSERT, &row);
}

int lladd_bwtree_txn_put(struct lladd_txn *txn, struct lladd_bwtree *t, const void *key,
                         size_t key_len, const void *value, size_t value_len)
{
    LLADD_USE(txn);
    const struct lladd_bwtree_row row = {key, key_len, value, value_len};
    return change_row(txn, t, BW_DO_PUT, &row);
}

int lladd_bwtree_txn_delete(struct lladd_txn *txn, struct lladd_bwtree *t, const void *key,
                            size_t key_len)
{
    LLADD_USE(txn);
    const struct lladd_bwtree_row row = {.key = key, .key_len = key_len};
    return change_row(txn, t, BW_DO_DELETE, &row);
}
