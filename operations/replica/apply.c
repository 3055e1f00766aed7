/* SPDX-License-Identifier: BSD-2-Clause */
/* Events into local transactions. An event is first taken: it is checked against the stream, and
 * kept with its master transaction. Nothing can be wrong with the stream after that. Then the
 * master transactions that have ended are applied, in one local transaction. If that fails, the
 * local transaction is rolled back, and they wait for the next call. */
#include "operations/replica/replica.h"

#include <lladd/extension.h>
#include <stdio.h>

enum { ROWS = 64 }; /* rows that are put at once */

/* ---- taking an event ------------------------------------------------------------------------- */

static int broken(struct lladd_error *err, const struct lladd_replica_event *e, const char *what)
{
    return lladd_error_set(err, LLADD_BAD_RECORD, "the stream is broken at position %llu: %s",
                           (unsigned long long)e->position, what);
}

static struct ll_replica_table *table_of(struct lladd_replica *r, const char *name)
{
    for (size_t i = 0; i < r->n_tables; i++)
        if (strcmp(r->tables[i].name, name) == 0)
            return &r->tables[i];
    return NULL;
}

/* The table of an event, and whether its keys fit it. */
static int check_change(struct lladd_replica *r, const struct lladd_replica_event *e,
                        struct lladd_error *err)
{
    const struct ll_replica_table *t = table_of(r, e->table);
    if (!t)
        return lladd_error_set(err, LLADD_BAD_RECORD,
                               "the stream is broken at position %llu: replica \"%s\" has no table "
                               "\"%s\"",
                               (unsigned long long)e->position, r->name, e->table);
    if ((e->key.type && e->key.type != t->order.type) ||
        (e->to.type && e->to.type != t->order.type))
        return lladd_error_set(err, LLADD_BAD_RECORD,
                               "the stream is broken at position %llu: a key of another type than "
                               "those of table \"%s\"",
                               (unsigned long long)e->position, e->table);
    if (e->key.type && e->to.type && lladd_dtable_compare(&t->order, &e->key, &e->to) > 0)
        return broken(err, e, "a range that ends before it begins");
    return 0;
}

/* Returns LLADD_OUT_OF_RANGE if the source says that it lacks events before this mark that are
 * needed. */
static int check_mark(struct lladd_replica *r, const struct lladd_replica_event *e,
                      struct lladd_error *err)
{
    uint64_t next = ll_replica__next(r);
    if (e->txn <= next)
        return 0;
    return lladd_error_set(err, LLADD_OUT_OF_RANGE,
                           "replica \"%s\" needs the events from position %llu on, and the source "
                           "has only those from %llu on: copy the tables anew",
                           r->name, (unsigned long long)next, (unsigned long long)e->txn);
}

/* An event of a transaction that is not open. */
static int take_unknown(struct lladd_replica *r, const struct lladd_replica_event *e,
                        struct lladd_error *err)
{
    if (e->position > r->covered)
        return broken(err, e, "the transaction is not open");
    r->dropped++; /* REP-3 */
    return 0;
}

static int take_known(struct lladd_replica *r, const struct lladd_replica_event *e,
                      struct lladd_error *err)
{
    struct ll_replica_master *m =
        (struct ll_replica_master *)ll_operations__index_find(&r->index, e->txn);
    if (e->kind == LLADD_REPLICA_BEGIN) {
        if (m)
            return broken(err, e, "the transaction is open already");
        return ll_replica__open(r, e->txn, e->position, err) ? 0 : LLADD_NO_MEMORY;
    }
    if (ll_replica__changes(e->kind))
        TRY(check_change(r, e, err));
    if (!m)
        return take_unknown(r, e, err);
    if (ll_replica__changes(e->kind))
        return ll_replica__keep(r, m, e, err);
    ll_replica__end(r, m, e->position, e->kind == LLADD_REPLICA_ABORT);
    return 0;
}

static int take(struct lladd_replica *r, const struct lladd_replica_event *e,
                struct lladd_error *err)
{
    struct lladd_error why = LLADD_ERROR_INIT;
    if (ll_replica__valid(e, &why))
        return broken(err, e, why.message);
    if (e->position < lladd_atomic_load64(&r->seen) + !ll_replica__changes(e->kind))
        return broken(err, e, "the position does not ascend");
    if (e->kind == LLADD_REPLICA_MARK)
        TRY(check_mark(r, e, err));
    else if (e->position >= r->restart)
        TRY(take_known(r, e, err));
    lladd_atomic_store64(&r->seen, e->position);
    return 0;
}

/* ---- the local transaction ------------------------------------------------------------------- */

struct local {
    struct lladd_replica *r;
    struct lladd_txn *txn;
    struct lladd_managed_position at;     /* of the last member that has committed */
    const struct ll_replica_master *m;    /* the member that is being put */
    struct ll_replica_table *t;           /* the table of the rows that wait */
    struct lladd_managed_row rows[ROWS];
    uint64_t positions[ROWS];             /* positions of their events */
    size_t n;
    uint64_t put, dropped;
};

/* Says at which event a row could not be put. */
static int at_event(struct local *l, uint64_t position, int rc)
{
    struct lladd_error why = *lladd_txn_error(l->txn);
    if (lladd_code_root(rc) == LLADD_ROOT_POISONED)
        return rc;
    return lladd_error_set(lladd_txn_error_out(l->txn), rc, "event at position %llu: %.200s",
                           (unsigned long long)position, why.message);
}

static int put_waiting(void *ctx)
{
    struct local *l = ctx;
    size_t done = 0;
    if (!l->n)
        return 0;
    int rc = lladd_managed_put_many(l->txn, l->t->managed, l->rows, l->n, &done);
    if (rc)
        return at_event(l, l->positions[done < l->n ? done : l->n - 1], rc);
    l->put += l->n;
    l->n = 0;
    return 0;
}

/* "17", or the beginning of the key's bytes as text or hexadecimal. */
static void name_key(const struct lladd_dtable_key *key, char out[72])
{
    const unsigned char *p = key->bytes.data;
    size_t at = 0;
    if (key->type == LLADD_DTABLE_DOUBLE)
        (void)snprintf(out, 72, "%.17g", lladd_dtable_as_double(key));
    else if (key->type < LLADD_DTABLE_STRING)
        (void)snprintf(out, 72, "%llu", (unsigned long long)key->number);
    else if (key->type == LLADD_DTABLE_STRING)
        (void)snprintf(out, 72, "\"%.*s\"", (int)(key->bytes.len < 64 ? key->bytes.len : 64),
                       key->bytes.len ? (const char *)p : "");
    else
        for (out[0] = 0; at < key->bytes.len && at < 32; at++)
            (void)snprintf(out + 2 * at, 3, "%02x", p[at]);
}

static bool same(const struct lladd_dtable_value *before, const struct lladd_dtable_value *here)
{
    if (before->state != LLADD_DTABLE_FOUND || here->state != LLADD_DTABLE_FOUND)
        return (before->state == LLADD_DTABLE_FOUND) == (here->state == LLADD_DTABLE_FOUND);
    return before->bytes.len == here->bytes.len &&
           (!here->bytes.len ||
            memcmp(before->bytes.data, here->bytes.data, here->bytes.len) == 0);
}

/* Compares the row with what the source had before the change. */
static int compare(struct local *l, const struct ll_replica_table *t,
                   const struct lladd_replica_event *e)
{
    struct lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT;
    struct lladd_dtable_value here;
    char key[72];
    TRY(put_waiting(l));
    int rc = lladd_managed_lookup(l->txn, t->managed, &e->key, &pin, &here);
    if (!rc && !same(&e->before, &here)) {
        name_key(&e->key, key);
        rc = lladd_error_set(lladd_txn_error_out(l->txn), LLADD_DIVERGED,
                             "table \"%s\" differs from its source at position %llu: key %s has "
                             "%s; the source had %s",
                             t->name, (unsigned long long)e->position, key,
                             here.state == LLADD_DTABLE_FOUND ? "another value" : "no row",
                             e->before.state == LLADD_DTABLE_FOUND ? "a row" : "none");
    }
    lladd_dtable_unpin(&pin);
    return rc;
}

static int position(struct local *l, struct ll_replica_table *t)
{
    if (t->positioned)
        return 0;
    TRY(lladd_managed_position_set(l->txn, t->managed, &l->at));
    t->positioned = true;
    return 0;
}

static int put_event(void *ctx, const struct lladd_replica_event *e)
{
    struct local *l = ctx;
    struct ll_replica_table *t = table_of(l->r, e->table);
    if (l->m->end.commit <= t->had.commit) { /* REP-3 */
        l->dropped++;
        return 0;
    }
    if ((l->n && l->t != t) || l->n == ROWS)
        TRY(put_waiting(l));
    TRY(position(l, t));
    if (e->before.state)
        TRY(compare(l, t, e));
    if (e->kind == LLADD_REPLICA_DELETE_RANGE) {
        TRY(put_waiting(l));
        int rc = lladd_managed_delete_range(l->txn, t->managed, e->key.type ? &e->key : NULL,
                                            e->to.type ? &e->to : NULL);
        l->put += !rc;
        return rc ? at_event(l, e->position, rc) : 0;
    }
    l->t = t;
    l->positions[l->n] = e->position;
    l->rows[l->n++] = (struct lladd_managed_row){
        e->key, e->kind == LLADD_REPLICA_PUT ? e->after : lladd_dtable_tombstone()};
    return 0;
}

/* Runs in the local transaction. */
static int put_members(void *ctx, struct lladd_txn *txn)
{
    struct local *l = ctx;
    const struct ll_replica_replay to = {put_event, put_waiting, l};
    l->txn = txn;
    for (l->m = l->r->ended.first; l->m; l->m = l->m->next) {
        if (!l->m->aborted)
            TRY(ll_replica__replay(l->r, l->m, &to, lladd_txn_error_out(txn)));
        TRY(ll_replica__unspill(txn, l->r, l->m));
    }
    return put_waiting(l);
}

/* Notes that all master transactions that have ended up to the position are visible, and tells the
 * threads that wait. */
static void pass(struct lladd_replica *r, uint64_t position)
{
    lladd_mutex_lock(&r->mutex);
    if (position > r->applied) {
        r->applied = position;
        lladd_cond_broadcast(&r->passed);
    }
    lladd_mutex_unlock(&r->mutex);
}

/* Notes that the members of the local transaction are visible. */
static void note_applied(struct lladd_replica *r, const struct local *l)
{
    for (size_t i = 0; i < r->n_tables; i++)
        if (r->tables[i].positioned)
            r->tables[i].put = l->at.commit;
    for (const struct ll_replica_master *m = r->ended.first; m; m = m->next)
        r->transactions += !m->aborted;
    r->rows += l->put;
    r->dropped += l->dropped;
    ll_replica__forget(r, &r->ended);
    pass(r, l->at.commit);
}

/* Applies the master transactions that have ended (REP-1). */
static int apply_ended(struct lladd_replica *r, struct lladd_error *err)
{
    if (!r->ended.first)
        return 0;
    struct local *l = lladd_mem_alloc(r->db, sizeof *l);
    if (!l)
        return ll_replica__no_memory(err);
    *l = (struct local){.r = r};
    for (const struct ll_replica_master *m = r->ended.first; m; m = m->next)
        if (!m->aborted)
            l->at = m->end;
    for (size_t i = 0; i < r->n_tables; i++)
        r->tables[i].positioned = false;
    /* a crash takes the rows anyway, so the commit need not wait for the log */
    int rc = ll_replica__in_txn(r, LLADD_DURABLE_LATER, put_members, l, NULL, err);
    if (!rc)
        note_applied(r, l);
    lladd_mem_free(r->db, l);
    return rc;
}

/* ---- what is due afterwards ------------------------------------------------------------------ */

/* Digests the tables that hold the restart position back by too much. */
static int digest_lagging(struct lladd_replica *r, struct lladd_error *err)
{
    uint64_t now = r->open.first ? r->open.first->begin : lladd_atomic_load64(&r->seen) + 1;
    for (size_t i = 0; i < r->n_tables; i++) {
        struct lladd_managed_position at;
        bool rows;
        TRY(ll_replica__table_at(&r->tables[i], &at, &rows, err));
        if (at.commit < r->stored.commit)
            at = r->stored; /* REP-2 */
        if (!rows || now <= at.from || now - at.from <= r->lag)
            continue;
        struct lladd_error why = LLADD_ERROR_INIT;
        int rc = lladd_managed_digest(r->tables[i].managed, &why);
        if (rc && rc != LLADD_BUSY) { /* a digest that is running serves as well */
            if (err)
                *err = why;
            return rc;
        }
    }
    return 0;
}

/* Looks after the restart position: at a mark, and when the stream has advanced. */
static int tend(struct lladd_replica *r, bool mark, struct lladd_error *err)
{
    uint64_t seen = lladd_atomic_load64(&r->seen);
    if (!mark && seen - r->tended <= r->lag / 8)
        return 0;
    TRY(digest_lagging(r, err));
    TRY(ll_replica__store(r, LLADD_DURABLE_LATER, err));
    r->tended = seen;
    return 0;
}

/* ---- the call -------------------------------------------------------------------------------- */

static bool is_due(const struct lladd_replica *r)
{
    return r->ended.n >= r->batch || r->ended_bytes >= r->buffer_bytes ||
           (r->batch_ns && r->ended.first && lladd_now_ns(r->db) - r->ended_ns >= r->batch_ns);
}

static int take_all(struct lladd_replica *r, const struct lladd_replica_event *events, size_t n,
                    size_t *done, bool *mark, struct lladd_error *err)
{
    for (; *done < n; ++*done) {
        if (is_due(r))
            TRY(apply_ended(r, err));
        TRY(take(r, &events[*done], err));
        *mark = *mark || events[*done].kind == LLADD_REPLICA_MARK;
    }
    return 0;
}

static int apply(struct lladd_replica *r, const struct lladd_replica_event *events, size_t n,
                 size_t *done, struct lladd_error *err)
{
    bool mark = n == 0;
    struct lladd_error second = LLADD_ERROR_INIT;
    TRY(apply_ended(r, err)); /* what an earlier call could not apply */
    int rc = take_all(r, events, n, done, &mark, err);
    int applied = apply_ended(r, rc ? &second : err); /* also what comes before a wrong event */
    if (!applied)
        pass(r, lladd_atomic_load64(&r->seen));
    if (!rc && !applied)
        rc = tend(r, mark, err);
    return rc ? rc : applied;
}

int lladd_replica_apply(struct lladd_replica *r, const struct lladd_replica_event *events, size_t n,
                        size_t *done, struct lladd_error *err)
{
    size_t taken = 0;
    uint32_t none = 0;
    TRY(ll_replica__usable(r, err));
    if (n && !events)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "the events are NULL");
    if (!lladd_atomic_cas32(&r->busy, &none, 1))
        return lladd_error_set(err, LLADD_BUSY, "replica \"%s\": another thread applies events",
                               r->name);
    int rc = ll_replica__usable(r, err); /* a close may have ended since the first check */
    if (!rc)
        rc = apply(r, events, n, &taken, err);
    lladd_atomic_store32(&r->busy, 0);
    if (done)
        *done = taken;
    return rc;
}
