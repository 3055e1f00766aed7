/* SPDX-License-Identifier: BSD-2-Clause */
/* Unlogged tables: their rows are in no journal (Rose paper, section 3). A source sends the rows,
 * and can send them again. So the table only has to say where the source must go on after a crash:
 * the transaction gives its position in the source before its first row, and a flush stores the
 * newest position that its run has reached.
 *
 *   UNL-1  At most one transaction in progress writes to the table (`writing`). So there are no
 *          conflicts, and a write reads neither runs nor older memtables.
 *   UNL-2  The transaction logs a note with its position. So it has a commit LSN of its own, and
 *          `logged` is called in the order of the commits.
 *   UNL-3  Positions ascend with the commits. A flush with cutoff C stores the position of the
 *          newest commit up to C, in the transaction that stores the run. So the run and the
 *          position survive a crash together or not at all.
 *
 * The part of such a table has its newest position. A position belongs to the savepoint after which
 * it was set: a rollback to an earlier savepoint takes it back, together with the rows that were
 * put after it. Without a position the part has no rows that count. */
#include "operations/dtables/managed/memtable.h"

#include <lladd/log_read.h>

struct position {
    struct lladd_managed_position at;
    lladd_savepoint_id next; /* the number that the next savepoint had */
    uint32_t before;         /* the part's position before this one; 0: none */
};

struct placed {
    struct ll_mem_part part;
    uint32_t position; /* the newest struct position that was not rolled back; 0: none */
    uint32_t before;   /* the memtable's placed part before this one */
};

#define NOTE "managed.position"
enum { NOTE_BYTES = 24 }; /* u64 tag of the table, u64 commit, u64 from */

static const struct lladd_managed_position *position_of(const struct placed *p)
{
    const struct position *at = p->position ? ll_managed__mem_at(p->part.m, p->position) : NULL;
    return at ? &at->at : NULL;
}

bool ll_managed__has_position(const struct ll_use *u)
{
    return u->part && position_of((const struct placed *)u->part);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Adds a part to the memtable that is current now. Called under the mutex. */
static struct ll_mem_part *new_part(struct ll_use *u)
{
    struct ll_memtable *m = u->t->view->mems[0];
    struct ll_mem_part *part = ll_managed__mem_part_of_size(m, sizeof(struct placed));
    if (!part)
        return NULL;
    ((struct placed *)part)->before = m->placed;
    lladd_atomic_store32(&m->placed, part->self);
    lladd_atomic_add64(&m->refs, 1);
    u->target = m;
    return part;
}

static int add_position(struct lladd_txn *txn, struct ll_use *u,
                        const struct lladd_managed_position *where, lladd_savepoint_id next)
{
    struct lladd_managed *t = u->t;
    uint32_t offset = 0;
    lladd_mutex_lock(&t->mutex);
    if (!u->part)
        u->part = new_part(u);
    struct placed *p = (struct placed *)u->part;
    if (p)
        offset = ll_managed__mem_take(p->part.m, sizeof(struct position), true);
    if (offset) {
        struct position *to = ll_managed__mem_at(p->part.m, offset);
        *to = (struct position){*where, next, p->position};
        p->part.bytes += sizeof *to;
        p->position = offset;
    }
    lladd_mutex_unlock(&t->mutex);
    return offset ? 0 : ll_managed__no_memory(lladd_txn_error_out(txn));
}

/* Returns LLADD_OUT_OF_RANGE unless the position follows the newest one. */
static int check_order(struct lladd_txn *txn, const struct ll_use *u,
                       const struct lladd_managed_position *p)
{
    const struct lladd_managed *t = u->t;
    const struct lladd_managed_position *last =
        ll_managed__has_position(u) ? position_of((const struct placed *)u->part) : &t->committed;
    if (p->commit > last->commit && p->from >= last->from)
        return 0;
    return lladd_error_set(lladd_txn_error_out(txn), LLADD_OUT_OF_RANGE,
                           "table \"%s\": position %llu from %llu does not follow %llu from %llu",
                           t->name, (unsigned long long)p->commit, (unsigned long long)p->from,
                           (unsigned long long)last->commit, (unsigned long long)last->from);
}

static int note(struct lladd_txn *txn, const struct lladd_managed *t,
                const struct lladd_managed_position *p)
{
    unsigned char bytes[NOTE_BYTES];
    lladd_put64(bytes, t->tag);
    lladd_put64(bytes + 8, p->commit);
    lladd_put64(bytes + 16, p->from);
    return lladd_log_note(txn, NOTE, lladd_span_of(bytes, sizeof bytes), NULL);
}

/* Makes the transaction the table's writer (UNL-1). If another writer has committed since the
 * snapshot, this transaction may have read rows that the other one has changed. */
static int begin_writing(struct lladd_txn *txn, struct ll_use *u)
{
    struct lladd_managed *t = u->t;
    uint32_t none = 0;
    if (!lladd_atomic_cas32(&t->writing, &none, 1))
        return ll_managed__conflict(txn, t, "is writing to it, and it has one writer at a time");
    if (lladd_atomic_load64(&t->newest) <= u->snapshot)
        return 0;
    lladd_atomic_store32(&t->writing, 0);
    return ll_managed__conflict(txn, t, "has written to it");
}

static int set(struct lladd_txn *txn, struct ll_use *u, const struct lladd_managed_position *p,
               lladd_savepoint_id next)
{
    TRY(check_order(txn, u, p));
    TRY(note(txn, u->t, p));
    if (!lladd_txn_joined(txn, &ll_managed__unlogged))
        TRY(lladd_txn_join(txn, &ll_managed__unlogged,
                           lladd_txn_joined(txn, &ll_managed__participant)));
    return add_position(txn, u, p, next);
}

int lladd_managed_position_set(struct lladd_txn *txn, struct lladd_managed *t,
                               const struct lladd_managed_position *p)
{
    LLADD_USE(txn);
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct lladd_txn_now now;
    struct ll_use *u;
    TRY(lladd_txn_now_get(txn, &now));
    TRY(ll_managed__use(txn, t, &u));
    if (!t->unlogged || now.rolling_back)
        return lladd_error_set(err, LLADD_BAD_STATE,
                               t->unlogged ? "table \"%s\": a position in a compensation"
                                           : "table \"%s\" is logged: it has no positions",
                               t->name);
    if (!p)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "the position is NULL");
    TRY(u->part ? 0 : begin_writing(txn, u));
    int rc = set(txn, u, p, now.next);
    if (!u->part)
        lladd_atomic_store32(&t->writing, 0); /* it could not begin */
    return rc;
}

void ll_managed__position_undo(struct ll_use *u, lladd_savepoint_id to)
{
    struct placed *p = (struct placed *)u->part;
    while (p->position) {
        const struct position *at = ll_managed__mem_at(p->part.m, p->position);
        if (at->next <= to)
            break;
        p->position = at->before;
    }
}

/* ---- the end of the transaction -------------------------------------------------------------- */

void ll_managed__unlogged_end(struct ll_use *u, uint64_t commit)
{
    struct lladd_managed *t = u->t;
    const struct lladd_managed_position *at = position_of((const struct placed *)u->part);
    if (!at)
        commit = LL_MANAGED_TAKEN_BACK;
    if (commit != LL_MANAGED_TAKEN_BACK)
        t->committed = *at;
    ll_managed__mem_end(t, u->part, commit);
    lladd_atomic_store32(&t->writing, 0);
}

static void logged(void *ctx, void *state, lladd_lsn commit)
{
    const struct ll_managed_txn *x = state;
    (void)ctx;
    for (struct ll_use *u = x->uses; u; u = u->next)
        if (u->part && u->t->unlogged)
            ll_managed__unlogged_end(u, commit.v);
}

/* A prepared transaction would have to find its rows after a crash, and they are not logged. */
static int prepare(void *ctx, void *state, struct lladd_txn *txn, struct lladd_sink *sink)
{
    const struct ll_managed_txn *x = state;
    (void)ctx;
    (void)sink;
    for (const struct ll_use *u = x->uses; u; u = u->next)
        if (u->t->unlogged && ll_managed__has_position(u))
            return lladd_error_set(lladd_txn_error_out(txn), LLADD_BAD_STATE,
                                   "table \"%s\" is unlogged: a transaction that writes to it "
                                   "cannot be prepared",
                                   u->t->name);
    return lladd_error_set(lladd_txn_error_out(txn), LLADD_BAD_STATE,
                           "a transaction that has used unlogged tables cannot be prepared");
}

/* Its state is that of ll_managed__participant. That participant ends the parts of a transaction
 * that aborts. */
const struct lladd_participant ll_managed__unlogged = {
    .struct_size = sizeof(struct lladd_participant),
    .name = "lladd.managed.unlogged",
    .version = 1,
    .prepare = prepare,
    .logged = logged,
};

/* ---- positions ------------------------------------------------------------------------------- */

/* The newest commit up to the cutoff decides. Parts are in the order of their beginnings, which is
 * that of their commits (UNL-1). */
static bool newest_of(const struct ll_memtable *m, uint64_t cutoff,
                      struct lladd_managed_position *out)
{
    for (uint32_t i = lladd_atomic_load32(&m->placed); i;) {
        const struct placed *p = ll_managed__mem_at(m, i);
        uint64_t commit = lladd_atomic_load64(&p->part.commit);
        bool newest = LLADD_PLANTED(LLADD_BUG_POSITION_NEWEST) && position_of(p);
        if ((commit && commit != LL_MANAGED_TAKEN_BACK && commit <= cutoff) || newest) {
            *out = *position_of(p);
            return true;
        }
        i = p->before;
    }
    return false;
}

void ll_managed__position_upto(const struct ll_version *v, uint64_t cutoff,
                               struct lladd_managed_position *out)
{
    for (uint32_t i = 0; i < v->n_mems; i++)
        if (newest_of(v->mems[i], cutoff, out))
            return;
}

void ll_managed__position_stored(struct lladd_managed *t, lladd_lsn commit)
{
    if (lladd_durable_lsn(t->db).v > t->stored.v)
        t->durable = t->manifest.position;
    t->stored = commit;
}

int lladd_managed_position_get(struct lladd_managed *t, bool durable,
                               struct lladd_managed_position *out, struct lladd_error *err)
{
    TRY(lladd_check_process(t->db, err));
    if (!t->unlogged)
        return lladd_error_set(err, LLADD_BAD_STATE, "table \"%s\" is logged: it has no positions",
                               t->name);
    uint64_t end = lladd_durable_lsn(t->db).v;
    lladd_mutex_lock(&t->mutex);
    *out = !durable || end > t->stored.v ? t->manifest.position : t->durable;
    lladd_mutex_unlock(&t->mutex);
    return 0;
}
