/* SPDX-License-Identifier: BSD-2-Clause */
/* What hash tables keep for a transaction: the tables that it has alone, those that it has changed
 * by key, and its reservations (table.c). The prepare record has all three, so that recovery
 * restores them for a transaction in doubt. */
#include "operations/hash/table.h"
#include <string.h>

static void owner_release(struct ll_hash_owner *o)
{
    for (size_t i = 0; i < o->n_own; i++) {
        uint64_t mine = (uintptr_t)o;
        (void)lladd_atomic_cas64(&o->own[i].table->owner, &mine, 0);
    }
    for (size_t i = 0; i < o->n_changed; i++)
        (void)lladd_atomic_sub64(&o->changed[i]->changers, 1);
    o->n_changed = 0;
    if (o->untold)
        (void)lladd_atomic_sub64(o->untold, 1);
    o->untold = NULL;
}

/* Called after a rollback to a savepoint. Forgets the numbers of buckets of tables that the
 * transaction has alone, and releases the tables that it claimed after the savepoint. */
static void owner_forget(struct ll_hash_owner *o, lladd_savepoint_id to)
{
    size_t kept = 0;
    for (size_t i = 0; i < o->n_own; i++) {
        struct ll_hash_own *own = &o->own[i];
        if (own->destroyed > to) {
            own->destroyed = 0;
            lladd_atomic_store32(&own->table->destroyed, own->table->root.v == LLADD_NO_PAGE);
        }
        ll_hash__forget(own->table);
        uint64_t mine = (uintptr_t)o;
        if (own->claimed > to)
            (void)lladd_atomic_cas64(&own->table->owner, &mine, 0);
        else
            o->own[kept++] = *own;
    }
    o->n_own = kept;
}

void ll_hash__owner_drop(struct ll_txn_part *part)
{
    struct ll_hash_owner *o = (struct ll_hash_owner *)part;
    ll_operations__reserve_release(&o->hold);
    owner_release(o);
    lladd_mem_free(o->owner.all->db, o->own);
    if (o->changed != &o->one)
        lladd_mem_free(o->owner.all->db, o->changed);
}

/* The first word of the participant's bytes in a prepare record. Earlier versions began with the
 * number of tables that the transaction has alone, and did not name the tables it has changed. */
#define PREPARED_2 UINT64_MAX

static int write_word(struct lladd_sink *sink, uint64_t word)
{
    unsigned char bytes[8];
    lladd_put64(bytes, word);
    return lladd_sink_write(sink, bytes, sizeof bytes);
}

/* Has another table got this table's root page? Then the creation of this table was rolled back. */
static bool is_gone(const struct ll_hash_table *t)
{
    return t->root.v == LLADD_NO_PAGE;
}

/* Writes u64 PREPARED_2; u64 number of tables that the transaction has alone; u64 number of those
 * that it has changed; u64 root pages of both; the reservations. */
static int owner_prepare(void *ctx, void *state, struct lladd_txn *txn, struct lladd_sink *sink)
{
    struct ll_hash_owner *o = state;
    (void)ctx;
    (void)txn;
    uint64_t own = 0, changed = 0;
    for (size_t i = 0; i < o->n_own; i++)
        own += !is_gone(o->own[i].table);
    for (size_t i = 0; i < o->n_changed; i++)
        changed += !is_gone(o->changed[i]);
    int rc = write_word(sink, PREPARED_2);
    if (!rc)
        rc = write_word(sink, own);
    if (!rc)
        rc = write_word(sink, changed);
    for (size_t i = 0; i < o->n_own && !rc; i++)
        rc = is_gone(o->own[i].table) ? 0 : write_word(sink, o->own[i].table->root.v);
    for (size_t i = 0; i < o->n_changed && !rc; i++)
        rc = is_gone(o->changed[i]) ? 0 : write_word(sink, o->changed[i]->root.v);
    return rc ? rc : ll_operations__reserve_write(&o->hold, sink);
}

/* The contents of a prepare record. */
struct prepared {
    uint64_t own, changed; /* numbers of tables */
    bool tells_changed;
    const unsigned char *roots;
    struct lladd_span holds;
};

static bool read_prepared(struct lladd_span blob, struct prepared *p)
{
    const unsigned char *b = blob.data;
    size_t head = 8;
    *p = (struct prepared){.own = blob.len >= 8 ? lladd_get64(b) : 0};
    if (blob.len >= 8 && p->own == PREPARED_2) {
        head = 24;
        p->tells_changed = true;
        if (blob.len >= head) {
            p->own = lladd_get64(b + 8);
            p->changed = lladd_get64(b + 16);
        }
    }
    if (blob.len < head)
        return false;
    size_t most = (blob.len - head) / 8;
    if (p->own > most || p->changed > most - p->own)
        return false;
    size_t used = head + 8 * (size_t)(p->own + p->changed);
    p->roots = b + head;
    p->holds = lladd_span_of(b + used, blob.len - used);
    return true;
}

static int take_alone(struct lladd_txn *txn, struct ll_hash_owner *o, struct ll_hash_table *t);
static int note_change(struct lladd_txn *txn, struct ll_hash_owner *o, struct ll_hash_table *t);

/* Gives the table to the transaction in doubt alone, as before the crash. If another transaction in
 * doubt has it already, one of the two has rolled back its creation of a table, and the root page
 * was used again. Recovery cannot tell which, and changes nothing; undo does not need the claim. */
static int take_again(struct lladd_txn *txn, struct ll_hash_owner *o, struct ll_hash_table *t)
{
    if (lladd_atomic_load64(&t->owner) == (uintptr_t)o)
        return 0;
    int rc = take_alone(txn, o, t);
    return rc == LLADD_BUSY ? 0 : rc;
}

static int owner_in_doubt(void *ctx, struct lladd_txn *txn, struct lladd_span blob)
{
    struct ll_hashes *h = ll_hashes_of(lladd_txn_db(txn));
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct ll_hash_owner *o;
    struct prepared p;
    (void)ctx;
    if (!read_prepared(blob, &p))
        return lladd_error_set(
            err, LLADD_BAD_RECORD,
            "hash tables: invalid prepare record of %zu bytes: expected counts and roots",
            blob.len);
    int rc = ll_hash__owner(txn, h, &o);
    for (uint64_t i = 0; i < p.own + p.changed && !rc; i++) {
        struct ll_hash_table *t;
        lladd_pageno root = lladd_page_of(lladd_get64(p.roots + 8 * i));
        if (root.v == LLADD_NO_PAGE) /* earlier versions wrote tables that were gone, too */
            continue;
        rc = ll_hash__find_table(h, root, &t);
        if (rc)
            rc = lladd_error_set(err, rc, "out of memory for a transaction in doubt");
        else
            rc = i < p.own ? take_again(txn, o, t) : note_change(txn, o, t);
    }
    if (rc)
        return rc;
    if (!p.tells_changed) {
        o->untold = &h->untold;
        (void)lladd_atomic_add64(o->untold, 1);
    }
    o->hold.holds = &h->holds;
    return ll_operations__reserve_restore(&o->hold, p.holds, err);
}

static void owner_logged(void *ctx, void *state, lladd_lsn commit)
{
    (void)ctx;
    (void)commit;
    struct ll_hash_owner *o = state;
    ll_operations__reserve_release(&o->hold);
    owner_release(o);
}

static void owner_aborted(void *ctx, void *state, struct lladd_db *db)
{
    owner_forget(state, 0);
    ll_operations__owner_aborted(ctx, state, db);
}

static void owner_undone(void *ctx, void *state, struct lladd_txn *txn, lladd_lsn since)
{
    struct lladd_txn_now now;
    (void)ctx;
    (void)since;
    if (lladd_txn_now_get(txn, &now) == 0) /* fails only if the handle is poisoned */
        owner_forget(state, now.undone);
}

const struct lladd_participant ll_hash__participant = {
    .struct_size = sizeof(struct lladd_participant),
    .name = "lladd.hash",
    .version = 1,
    .prepare = owner_prepare,
    .in_doubt = owner_in_doubt,
    .logged = owner_logged,
    .durable = ll_operations__owner_durable,
    .aborted = owner_aborted,
    .undone = owner_undone,
};

int ll_hash__owner(struct lladd_txn *txn, struct ll_hashes *h, struct ll_hash_owner **out)
{
    struct ll_txn_part *owner;
    TRY(ll_operations__owner_of(txn, &ll_hash__participant, &h->owners,
                                sizeof(struct ll_hash_owner), "a transaction's hash tables",
                                &owner));
    *out = (struct ll_hash_owner *)owner;
    return 0;
}

static int no_memory(struct lladd_txn *txn)
{
    return lladd_error_set(lladd_txn_error_out(txn), LLADD_NO_MEMORY,
                           "out of memory for a transaction's hash tables");
}

static int in_use(struct lladd_txn *txn, const struct ll_hash_table *t)
{
    return lladd_error_set(lladd_txn_error_out(txn), LLADD_BUSY,
                           "the hash table of page %llu is in use by another transaction",
                           (unsigned long long)t->root.v);
}

/* LLADD_BUSY: another transaction has the table alone. */
static int take_alone(struct lladd_txn *txn, struct ll_hash_owner *o, struct ll_hash_table *t)
{
    uint64_t none = 0;
    if (ll_operations__grow(t->db, &o->own, o->n_own + 1, &o->cap_own, sizeof *o->own))
        return no_memory(txn);
    if (!lladd_atomic_cas64(&t->owner, &none, (uintptr_t)o))
        return in_use(txn, t);
    lladd_atomic_fence(); /* comes before the load of `changers`; see note_change */
    struct lladd_txn_now now;
    bool forward = lladd_txn_now_get(txn, &now) == 0 && !now.rolling_back;
    o->own[o->n_own++] = (struct ll_hash_own){.table = t, .claimed = forward ? now.next : 0};
    return 0;
}

/* Has the transaction noted that it changes the table? Moves a noted table to the front. */
static bool noted(struct ll_hash_owner *o, const struct ll_hash_table *t)
{
    for (size_t i = 0; i < o->n_changed; i++) {
        struct ll_hash_table *found = o->changed[i];
        if (found == t) {
            o->changed[i] = o->changed[0];
            o->changed[0] = found;
            return true;
        }
    }
    return false;
}

static int note_change(struct lladd_txn *txn, struct ll_hash_owner *o, struct ll_hash_table *t)
{
    if (noted(o, t))
        return 0;
    if (!o->changed) {
        o->changed = &o->one; /* most transactions change one table */
    } else if (o->n_changed >= (o->cap_changed ? o->cap_changed : 1)) {
        size_t cap = o->cap_changed ? 2 * o->cap_changed : 4;
        struct ll_hash_table **more = lladd_mem_alloc(t->db, cap * sizeof *more);
        if (!more)
            return no_memory(txn);
        memcpy(more, o->changed, o->n_changed * sizeof *more);
        if (o->changed != &o->one)
            lladd_mem_free(t->db, o->changed);
        o->changed = more;
        o->cap_changed = cap;
    }
    o->changed[o->n_changed++] = t;
    (void)lladd_atomic_add64(&t->changers, 1);
    lladd_atomic_fence(); /* comes before the load of `owner`: of two threads, at least one sees the
                           * other's store */
    return 0;
}

bool ll_hash__untold(struct lladd_txn *txn, struct ll_hashes *h)
{
    const struct ll_hash_owner *o = lladd_txn_joined(txn, &ll_hash__participant);
    return lladd_atomic_load64(&h->untold) != (o && o->untold != NULL);
}

int ll_hash__claim(struct lladd_txn *txn, struct ll_hash_table *t)
{
    struct ll_hash_owner *o;
    int rc = ll_hash__owner(txn, t->hashes, &o);
    if (rc || lladd_atomic_load64(&t->owner) == (uintptr_t)o)
        return rc;
    rc = take_alone(txn, o, t);
    if (rc || lladd_atomic_load64(&t->changers) == noted(o, t))
        return rc;
    o->n_own--;
    lladd_atomic_store64(&t->owner, 0);
    return in_use(txn, t);
}

/* A change of a table that is not first in `changed`. If another transaction claims the table at
 * the same moment, that transaction sees this one's note, or this transaction sees the claim (or
 * both). */
static int change_by_key(struct lladd_txn *txn, struct ll_hash_table *t, bool *physical)
{
    struct ll_hash_owner *o;
    int rc = ll_hash__owner(txn, t->hashes, &o);
    if (!rc)
        rc = note_change(txn, o, t);
    if (rc || lladd_atomic_load64(&t->owner) == 0)
        return rc;
    *physical = true;
    return ll_hash__claim(txn, t);
}

int ll_hash__how(struct lladd_txn *txn, struct ll_hash_table *t, bool *physical)
{
    uint64_t owner = lladd_atomic_load64(&t->owner);
    *physical = owner || t->physical || ll_extents_made_by(&t->run, txn);
    if (__builtin_expect(*physical, 0))
        return ll_hash__claim(txn, t);
    const struct ll_hash_owner *o = lladd_txn_joined(txn, &ll_hash__participant);
    if (__builtin_expect(o && o->n_changed && o->changed[0] == t, 1))
        return 0;
    return change_by_key(txn, t, physical);
}

void ll_hash__set_destroyed(struct lladd_txn *txn, struct ll_hash_table *t,
                            lladd_savepoint_id before)
{
    struct ll_hash_owner *o = lladd_txn_joined(txn, &ll_hash__participant);
    for (size_t i = 0; i < o->n_own; i++)
        if (o->own[i].table == t && !o->own[i].destroyed)
            o->own[i].destroyed = before + 1;
    lladd_atomic_store32(&t->destroyed, 1);
    ll_hash__forget(t);
}
