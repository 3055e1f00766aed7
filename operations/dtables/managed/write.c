/* SPDX-License-Identifier: BSD-2-Clause */
/* Writing a row. The transaction first claims the key: it adds a version, which other transactions
 * do not read before the commit. Then it appends the entry to the journal. If the journal refuses
 * the entry, the version is removed.
 *
 * The first writer of a key wins. A write is refused if the key's newest version is of another
 * transaction in progress, or was committed after the snapshot. A digest may remove the memtable
 * that has the version. After a digest, the current row is therefore compared with the row that the
 * snapshot sees. If they differ, another transaction has changed the row. Locking a key in a mode
 * above LLADD_LOCK_IX makes these checks and writes nothing. */
#include "operations/dtables/managed/managed.h"

#include <stdio.h>

int ll_managed__conflict(struct lladd_txn *txn, struct lladd_managed *t, const char *how)
{
    lladd_atomic_count64(&t->conflicts, 1);
    return lladd_error_set(lladd_txn_error_out(txn), LLADD_CONFLICT,
                           "table \"%s\": another transaction %s", t->name, how);
}

/* ---- rows digested since the snapshot -------------------------------------------------------- */

bool ll_managed__same(const struct lladd_dtable_value *a, const struct lladd_dtable_value *b)
{
    if (a->state != LLADD_DTABLE_FOUND || b->state != LLADD_DTABLE_FOUND)
        return (a->state == LLADD_DTABLE_FOUND) == (b->state == LLADD_DTABLE_FOUND);
    return a->bytes.len == b->bytes.len &&
           (a->bytes.len == 0 || memcmp(a->bytes.data, b->bytes.data, a->bytes.len) == 0);
}

/* Returns LLADD_CONFLICT unless the row is the same in version `now` and in the snapshot. */
static int unchanged(struct lladd_txn *txn, struct ll_use *u, const struct ll_version *now,
                     const struct lladd_dtable_key *key)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct lladd_dtable_pin pins[2] = {LLADD_DTABLE_PIN_INIT, LLADD_DTABLE_PIN_INIT};
    struct lladd_dtable_value was, is;
    int rc = ll_managed__version_get(u->view, u->snapshot, key, &pins[0], &was, err);
    if (!rc)
        rc = ll_managed__version_get(now, LL_MANAGED_TAKEN_BACK - 1, key, &pins[1], &is, err);
    if (!rc && !ll_managed__same(&was, &is))
        rc = ll_managed__conflict(txn, u->t, "has changed the key");
    lladd_dtable_unpin(&pins[0]);
    lladd_dtable_unpin(&pins[1]);
    return rc;
}

/* ---- claiming -------------------------------------------------------------------------------- */

/* Returns LLADD_CONFLICT if another transaction has written the key. Called under the mutex. */
static int may_write(struct lladd_txn *txn, struct ll_use *u, const struct lladd_dtable_key *key)
{
    const struct ll_version *v = u->t->view;
    for (uint32_t i = 0; i < v->n_mems; i++) {
        const struct ll_memtable *m = v->mems[i];
        uint64_t commit = 0;
        uint32_t node = ll_managed__mem_find(m, key);
        int writer = node ? ll_managed__mem_writer(m, node, u->part, &commit) : LL_MEM_NO_WRITER;
        if (writer == LL_MEM_MINE)
            return 0;
        /* If the newest version was committed before the snapshot, older ones are no conflict. A
         * later deletion of a range may still have deleted the key. */
        bool last = writer == LL_MEM_COMMITTED && commit <= u->snapshot;
        if (writer == LL_MEM_NO_WRITER || last)
            writer = ll_managed__mem_range_writer(m, key, u->part, &commit);
        if (writer == LL_MEM_OTHER)
            return ll_managed__conflict(txn, u->t, "is writing the key");
        if (writer == LL_MEM_COMMITTED && commit > u->snapshot)
            return ll_managed__conflict(txn, u->t, "has changed the key");
        if (writer != LL_MEM_NO_WRITER || last)
            return 0;
    }
    return 0;
}

struct claim {
    const struct lladd_dtable_value *value; /* NULL: only check whether the key could be written */
    lladd_savepoint_id next;
    uint32_t node, before;
};

/* Called under the mutex. On 0 the version has been added, or the check has passed. */
static int claim(struct lladd_txn *txn, struct ll_use *u, const struct lladd_dtable_key *key,
                 struct claim *c)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct lladd_managed *t = u->t;
    const struct lladd_dtable_value *v = c->value;
    if (!v)
        return may_write(txn, u, key);
    for (int i = 0; i < 2; i++) {
        int no = t->config[i] ? lladd_dtable_accepts(t->config[i], v, err) : 0;
        if (no == LLADD_DTABLE_REJECT)
            return lladd_error_set(err, LLADD_REJECTED,
                                   "table \"%s\" cannot store a %s of %zu bytes", t->name,
                                   v->state == LLADD_DTABLE_FOUND ? "value" : "tombstone",
                                   v->state == LLADD_DTABLE_FOUND ? v->bytes.len : 0);
        if (no)
            return no;
    }
    if (!t->unlogged)
        TRY(may_write(txn, u, key));
    if (!ll_managed__mem_segment_is(u->part, c->next) && !ll_managed__mem_segment(u->part, c->next))
        return ll_managed__no_memory(err);
    c->node = ll_managed__mem_node(u->part, key);
    if (!c->node || ll_managed__mem_push(u->part, c->node, key, v, &c->before))
        return ll_managed__no_memory(err);
    return 0;
}

/* Claims a key. If there were digests since the snapshot, calls `unchanged` first, without the
 * mutex. A write to an unlogged table has no conflicts (UNL-1). */
static int claim_anyhow(struct lladd_txn *txn, struct ll_use *u, const struct lladd_dtable_key *key,
                        struct claim *c)
{
    struct lladd_managed *t = u->t;
    uint64_t looked = u->snapshot; /* the runs are compared up to this cutoff */
    for (;;) {
        struct lladd_dtable_value own;
        struct ll_version *later = NULL;
        int rc = 0;
        lladd_mutex_lock(&t->mutex);
        bool mine = (t->unlogged && c->value) ||
                    (u->target && u->snapshot < t->view->cutoff &&
                     ll_managed__mem_ask_own(u->part, key, &own));
        if (t->view->cutoff > looked && !mine) {
            later = t->view;
            ll_managed__version_retain(later);
        } else {
            rc = claim(txn, u, key, c);
        }
        lladd_mutex_unlock(&t->mutex);
        if (!later)
            return rc;
        looked = later->cutoff;
        rc = unchanged(txn, u, later, key);
        ll_managed__version_release(t, later);
        if (rc)
            return rc;
    }
}

/* ---- the row --------------------------------------------------------------------------------- */

/* The transaction writes to the memtable that is current now, until it ends (USE-1). */
int ll_managed__begin_writing(struct lladd_txn *txn, struct ll_use *u)
{
    struct lladd_managed *t = u->t;
    void **state;
    if (t->unlogged)
        return ll_managed__has_position(u)
                   ? 0
                   : lladd_error_set(lladd_txn_error_out(txn), LLADD_BAD_STATE,
                                     "table \"%s\" is unlogged: the transaction has to set its "
                                     "position first",
                                     t->name);
    if (!u->part) {
        lladd_mutex_lock(&t->mutex);
        struct ll_memtable *m = t->view->mems[0];
        u->part = ll_managed__mem_part(m);
        if (u->part) {
            lladd_atomic_add64(&m->refs, 1);
            u->target = m;
        }
        lladd_mutex_unlock(&t->mutex);
    }
    if (!u->part)
        return ll_managed__no_memory(lladd_txn_error_out(txn));
    TRY(u->told ? 0 : lladd_journal_state(txn, t->tag, &state));
    if (!u->told)
        *state = u->part;
    u->told = true;
    return 0;
}

size_t ll_managed__entry_most(const struct lladd_managed *t)
{
    size_t most = lladd_log_object_max(t->db);
    return most > LLADD_JOURNAL_HEAD_MAX ? most - LLADD_JOURNAL_HEAD_MAX : 0;
}

static int check(struct lladd_txn *txn, const struct lladd_managed *t,
                 const struct lladd_dtable_key *key, const struct lladd_dtable_value *v)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    size_t most = t->unlogged ? LLADD_DTABLE_VALUE_MAX : ll_managed__entry_most(t);
    TRY(lladd_dtable_check_key(&t->order, key, err));
    if (v->state != LLADD_DTABLE_FOUND && v->state != LLADD_DTABLE_TOMBSTONE)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "neither a value nor a tombstone");
    if (v->state == LLADD_DTABLE_FOUND &&
        (v->bytes.len > LLADD_DTABLE_VALUE_MAX || v->bytes.len > most))
        return lladd_error_set(err, LLADD_TOO_LARGE, "a value of %zu bytes", v->bytes.len);
    return 0;
}

/* Writes the row into the memtable and the journal. */
static int put_logged(struct lladd_txn *txn, struct ll_use *u, const struct lladd_dtable_key *key,
                      struct claim *c)
{
    struct lladd_managed *t = u->t;
    struct lladd_span entry;
    if (ll_managed__entry_put(u, key, c->value, &entry))
        return ll_managed__no_memory(lladd_txn_error_out(txn));
    if (entry.len > ll_managed__entry_most(t))
        return lladd_error_set(lladd_txn_error_out(txn), LLADD_TOO_LARGE,
                               "a row of %zu bytes: a record of the journal takes at most %zu",
                               entry.len, ll_managed__entry_most(t));
    TRY(claim_anyhow(txn, u, key, c));
    int rc = lladd_journal_append(txn, t->tag, entry, NULL);
    if (rc) {
        lladd_mutex_lock(&t->mutex);
        ll_managed__mem_unpush(u->part, c->node, c->before);
        lladd_mutex_unlock(&t->mutex);
    }
    return rc;
}

int lladd_managed_put(struct lladd_txn *txn, struct lladd_managed *t,
                      const struct lladd_dtable_key *key, const struct lladd_dtable_value *v)
{
    LLADD_USE(txn);
    struct lladd_txn_now now;
    struct ll_use *u;
    TRY(lladd_txn_now_get(txn, &now));
    TRY(ll_managed__use(txn, t, &u));
    TRY(check(txn, t, key, v));
    TRY(ll_managed__stall(t, lladd_txn_error_out(txn)));
    TRY(ll_managed__begin_writing(txn, u));
    struct claim c = {.value = v, .next = now.next};
    TRY(t->unlogged ? claim_anyhow(txn, u, key, &c) : put_logged(txn, u, key, &c));
    u->puts++;
    return 0;
}

/* Puts rows into an unlogged table, under the mutex once. Ends at the first error, and after many
 * bytes, because readers take the mutex too. */
static int put_together(struct lladd_txn *txn, struct ll_use *u, lladd_savepoint_id next,
                        const struct lladd_managed_row *rows, size_t n, size_t *done)
{
    enum { BYTES = 64 << 10 };
    struct lladd_managed *t = u->t;
    int rc = 0;
    lladd_mutex_lock(&t->mutex);
    uint64_t from = u->part->bytes;
    for (size_t i = 0; i < n && !rc && u->part->bytes - from < BYTES; i++) {
        struct claim c = {.value = &rows[i].value, .next = next};
        rc = check(txn, t, &rows[i].key, &rows[i].value);
        if (!rc)
            rc = claim(txn, u, &rows[i].key, &c);
        *done += rc == 0;
    }
    lladd_mutex_unlock(&t->mutex);
    return rc;
}

int lladd_managed_put_many(struct lladd_txn *txn, struct lladd_managed *t,
                           const struct lladd_managed_row *rows, size_t n, size_t *done)
{
    LLADD_USE(txn);
    enum { TOGETHER = 64 };
    struct lladd_txn_now now;
    struct ll_use *u;
    size_t i = 0;
    int rc = lladd_txn_now_get(txn, &now);
    if (!rc)
        rc = ll_managed__use(txn, t, &u);
    if (!rc && t->unlogged)
        rc = ll_managed__begin_writing(txn, u);
    while (!rc && i < n) {
        size_t some = n - i < TOGETHER ? n - i : TOGETHER;
        if (t->unlogged) {
            rc = ll_managed__stall(t, lladd_txn_error_out(txn));
            rc = rc ? rc : put_together(txn, u, now.next, rows + i, some, &i);
            u->puts++;
        } else {
            rc = lladd_managed_put(txn, t, &rows[i].key, &rows[i].value);
            i += rc == 0;
        }
    }
    if (done)
        *done = i;
    return rc;
}

/* ---- locking --------------------------------------------------------------------------------- */

/* Takes the lock of the key, or of the table if `key` is NULL. The name has the text of the table's
 * journal tag. Keys that compare equal have the same name. With a comparator, keys that differ may
 * also have the same name. */
static int lock(struct lladd_txn *txn, const struct lladd_managed *t,
                const struct lladd_dtable_key *key, enum lladd_lock_mode mode, uint64_t timeout_ns)
{
    char text[sizeof LL_MANAGED_TAG + LLADD_MANAGED_NAME_MAX];
    int len = snprintf(text, sizeof text, "%s%s", LL_MANAGED_TAG, t->name);
    struct lladd_lock_part parts[2] = {lladd_lock_bytes(text, len > 0 ? (size_t)len : 0)};
    struct lladd_lock_name name = {parts, key ? 2 : 1};
    if (key)
        parts[1] = t->order.comparator ? lladd_lock_id(lladd_dtable_hash(&t->order, key))
                   : key->type < LLADD_DTABLE_STRING
                       ? lladd_lock_id(key->number)
                       : lladd_lock_bytes(key->bytes.data, key->bytes.len);
    return lladd_lock_acquire(txn, name, mode, timeout_ns);
}

/* The previous holder of the lock released it after its commit was ordered. So the memtables, or
 * the runs, have that commit, even if this transaction's snapshot is older. */
int lladd_managed_lock(struct lladd_txn *txn, struct lladd_managed *t,
                       const struct lladd_dtable_key *key, enum lladd_lock_mode mode,
                       uint64_t timeout_ns)
{
    LLADD_USE(txn);
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct claim only = {.value = NULL};
    struct ll_use *u;
    int rc = lladd_check_process(t->db, err);
    if (!rc && key)
        rc = lladd_dtable_check_key(&t->order, key, err);
    if (!rc && lladd_txn_db(txn) != t->db)
        rc = lladd_error_set(err, LLADD_OTHER_DATABASE,
                             "the transaction is of another database than table \"%s\"", t->name);
    if (!rc)
        rc = lock(txn, t, key, mode, timeout_ns);
    if (!rc)
        rc = ll_managed__use(txn, t, &u); /* a snapshot that is acquired here is newer than the
                                           * lock */
    if (rc || mode <= LLADD_LOCK_IX)
        return rc;
    if (key)
        return claim_anyhow(txn, u, key, &only);
    bool changed = lladd_atomic_load64(&t->newest) > u->snapshot;
    return changed ? ll_managed__conflict(txn, t, "has changed a row") : 0;
}
