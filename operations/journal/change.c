/* SPDX-License-Identifier: BSD-2-Clause */
/* Changes of the catalogue: create a tag, release it, discard, roll over. For each change the
 * caller's transaction logs a record, then writes or deletes the tag's row if the row changes. */
#include "operations/journal/table.h"

static int bad_text(struct lladd_error *err, const char *what, const char *text, size_t max)
{
    size_t len = text ? strlen(text) : 0;
    return len == 0 || len > max ? lladd_error_set(err, LLADD_BAD_ARGUMENT,
                                                   "a tag's %s has 1 to %zu bytes", what, max)
                                 : 0;
}

/* ---- the catalogue --------------------------------------------------------------------------- */

static int make_catalogue(struct lladd_txn *txn, struct ll_journal *j, struct lladd_hash **hash)
{
    lladd_pageno root;
    int rc = lladd_hash_create(txn, NULL, &root);
    if (!rc)
        rc = lladd_root_set(txn, LL_JOURNAL_ROOT,
                            (struct lladd_root_value){root.v, LL_JOURNAL_VERSION});
    return rc ? rc
              : lladd_hash_open(j->db, root, LLADD_HASH_LOGICAL, hash, lladd_txn_error_out(txn));
}

/* Creates the catalogue and the mark, if they are missing, in a transaction of its own. */
static int make_names(struct ll_journal *j, struct lladd_error *err)
{
    struct lladd_txn_options o = LLADD_TXN_OPTIONS_INIT;
    struct lladd_hash *hash = NULL;
    struct lladd_txn *txn;
    o.system = o.frees_log = true;
    o.durability = LLADD_DURABLE_LATER; /* a later commit that uses the names makes them durable */
    TRY(lladd_begin(j->db, &o, &txn, err));
    int rc = 0;
    if (!lladd_atomic_load_ptr(&j->catalogue))
        rc = make_catalogue(txn, j, &hash);
    if (!rc && !lladd_atomic_load32(&j->named))
        rc = lladd_root_set(txn, LL_JOURNAL_MARK, (struct lladd_root_value){0, 0});
    bool gone = false; /* has the transaction ended? */
    if (!rc) {
        rc = lladd_commit(txn);
        gone = rc == 0 || lladd_code_root(rc) == LLADD_ROOT_POISONED;
    }
    if (!gone) {
        if (err)
            *err = *lladd_txn_error(txn);
        (void)lladd_abort(txn); /* a failure poisons the handle */
    } else if (rc) {
        (void)lladd_db_error(j->db, err); /* the message of the error that poisoned the handle */
    }
    if (rc) {
        lladd_hash_close(hash);
        return rc;
    }
    lladd_atomic_store32(&j->named, 1);
    if (hash)
        lladd_atomic_store_ptr(&j->catalogue, hash);
    return 0;
}

static bool has_names(struct ll_journal *j)
{
    return lladd_atomic_load_ptr(&j->catalogue) && lladd_atomic_load32(&j->named);
}

int ll_operations__journal_want_names(struct ll_journal *j, struct lladd_error *err)
{
    int rc = 0;
    if (has_names(j))
        return 0;
    lladd_mutex_lock(&j->create);
    if (!has_names(j))
        rc = make_names(j, err);
    lladd_mutex_unlock(&j->create);
    return rc;
}

static int row_write(struct lladd_txn *txn, struct ll_journal *j, const struct ll_journal_tag *tag,
                     uint64_t discarded)
{
    unsigned char bytes[LL_JOURNAL_ROW_MAX];
    struct ll_journal_row row = {.tag = tag->node.key, .discarded = discarded};
    memcpy(row.owner, tag->owner, sizeof row.owner);
    size_t len = ll_operations__journal_row_put(&row, bytes);
    return lladd_hash_put(txn, lladd_atomic_load_ptr(&j->catalogue), tag->name, strlen(tag->name),
                          bytes, len);
}

/* ---- all of a change or none ----------------------------------------------------------------- */

/* Rolls back a change that has failed half-way. False: the rollback has failed too. */
static bool undo_half(struct lladd_txn *txn, lladd_savepoint_id sp)
{
    struct lladd_error why = *lladd_txn_error(txn);
    if (lladd_rollback_to(txn, sp))
        return false;
    (void)lladd_savepoint_release(txn, sp); /* cannot fail: the caller has set the savepoint */
    *lladd_txn_error_out(txn) = why;
    return true;
}

/* Refuses a change in a nested top action, because a rollback of the transaction would not undo
 * such a change. */
static int may_change(struct lladd_txn *txn, struct lladd_txn_now *now)
{
    int rc = lladd_txn_now_get(txn, now);
    return rc || !now->actions ? rc
                               : lladd_error_set(lladd_txn_error_out(txn), LLADD_BAD_STATE,
                                                 "a journal tag cannot be changed in a top action");
}

/* Logs the record and notes the change in the transaction's state. `own` (nullable): the
 * transaction's own entries that a rollover moves. */
static int note(struct lladd_txn *txn, struct ll_journal_txn *t, const struct ll_journal_record *r,
                struct ll_journal_tag *tag, struct ll_journal_tag *to,
                const struct ll_journal_bucket *own)
{
    struct lladd_txn_now now;
    lladd_lsn lsn;
    TRY(may_change(txn, &now));
    TRY(ll_operations__journal_log(txn, t, r, &lsn));
    struct ll_journal_change *c = &t->changes[t->n_changes++];
    memset(c, 0, sizeof *c);
    c->next = now.next;
    c->kind = (uint8_t)r->kind;
    c->tag = tag;
    c->to = to;
    c->lsn = lsn.v;
    c->from = r->from;
    c->upto = r->upto;
    if (own)
        c->own = *own;
    return 0;
}

/* ---- creating -------------------------------------------------------------------------------- */

/* Finds a tag by its name; *tag becomes the tag's number. LLADD_NOT_FOUND, without a message: no
 * tag has this name, and no transaction is creating one. */
static int find(struct ll_journal *j, const struct ll_journal_txn *t, const char *name,
                const char *owner, uint64_t *tag, struct lladd_error *err)
{
    int rc = LLADD_NOT_FOUND;
    lladd_mutex_lock(&j->mutex);
    const struct ll_journal_tag *found = ll_operations__journal_named(j, name, t);
    if (found && found->state != LL_TAG_THERE && found->changing != t)
        rc = lladd_error_set(err, LLADD_BUSY, "tag \"%s\" is being %s by another transaction", name,
                             found->state == LL_TAG_MAKING ? "made" : "released");
    else if (found && owner && strcmp(found->owner, owner) != 0)
        rc = lladd_error_set(err, LLADD_EXISTS, "tag \"%s\" belongs to \"%s\"", name, found->owner);
    else if (found) {
        *tag = found->node.key;
        rc = 0;
    }
    lladd_mutex_unlock(&j->mutex);
    return rc;
}

/* Creates a tag; its number is the LSN of its MAKE record. The tag is added to memory before the
 * catalogue, so that no other transaction creates a tag of this name meanwhile. */
static int make(struct lladd_txn *txn, struct ll_journal_txn *t, const char *name,
                const char *owner, uint64_t *number)
{
    struct ll_journal *j = t->all;
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct ll_journal_record r = {.kind = LL_JOURNAL_MAKE,
                                  .bytes = lladd_span_of(name, strlen(name))};
    struct lladd_txn_now now;
    lladd_lsn lsn;
    TRY(may_change(txn, &now));
    TRY(ll_operations__journal_log(txn, t, &r, &lsn));
    lladd_mutex_lock(&j->mutex);
    struct ll_journal_tag *tag = NULL;
    int rc = 0;
    if (ll_operations__journal_named(j, name, t))
        rc = lladd_error_set(err, LLADD_BUSY, "tag \"%s\" is being made by another transaction",
                             name);
    else
        tag = ll_operations__journal_tag_new(j, lsn.v, name);
    if (tag) {
        memcpy(tag->owner, owner, strlen(owner) + 1);
        tag->state = LL_TAG_MAKING;
        tag->made = true;
        ll_operations__journal_touch(t, tag);
        t->changes[t->n_changes++] = (struct ll_journal_change){
            .kind = LL_JOURNAL_MAKE, .tag = tag, .next = now.next, .lsn = lsn.v};
    } else if (!rc) {
        rc = lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for a tag");
    }
    lladd_mutex_unlock(&j->mutex);
    if (!rc)
        rc = row_write(txn, j, tag, 0);
    *number = lsn.v;
    return rc;
}

int lladd_journal_acquire(struct lladd_txn *txn, const char *name, const char *owner, uint64_t *tag)
{
    LLADD_USE(txn);
    struct ll_journal_txn *t;
    lladd_savepoint_id sp;
    int rc = ll_operations__journal_join(txn, &t);
    if (rc) /* txn may be invalid, so no error is stored in it */
        return rc;
    struct lladd_error *err = lladd_txn_error_out(txn);
    TRY(bad_text(err, "name", name, LLADD_JOURNAL_NAME_MAX));
    TRY(bad_text(err, "owner", owner, LLADD_JOURNAL_OWNER_MAX));
    if (!tag)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "tag is NULL");
    rc = find(t->all, t, name, owner, tag, err);
    if (rc != LLADD_NOT_FOUND)
        return rc;
    TRY(ll_operations__journal_want_names(t->all, err));
    TRY(ll_operations__journal_change_room(txn, t));
    TRY(lladd_savepoint(txn, &sp));
    rc = make(txn, t, name, owner, tag);
    if (!rc)
        return lladd_savepoint_release(txn, sp);
    (void)undo_half(txn, sp); /* if this fails, the handle is poisoned; the next call says so */
    return rc;
}

int lladd_journal_find(struct lladd_db *db, const char *name, uint64_t *tag,
                       struct lladd_error *err)
{
    struct ll_journal *j;
    TRY(ll_operations__journal_of(db, &j, err));
    TRY(bad_text(err, "name", name, LLADD_JOURNAL_NAME_MAX));
    if (!tag)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "tag is NULL");
    int rc = find(j, NULL, name, NULL, tag, err);
    return rc == LLADD_NOT_FOUND ? lladd_error_set(err, rc, "there is no tag \"%s\"", name) : rc;
}

/* ---- releasing, discarding ------------------------------------------------------------------- */

/* The newest discarded commit of the tag, after the discards and rollovers of this transaction. */
static uint64_t discarded_by(const struct ll_journal_txn *t, const struct ll_journal_tag *tag)
{
    uint64_t upto = tag->discarded;
    for (size_t i = 0; i < t->n_changes; i++)
        if (t->changes[i].tag == tag && t->changes[i].kind != LL_JOURNAL_CLEAN &&
            t->changes[i].upto > upto)
            upto = t->changes[i].upto;
    return upto;
}

static int may_release(struct ll_journal_txn *t, struct ll_journal_tag *tag,
                       struct lladd_error *err)
{
    uint32_t own = 0;
    for (size_t i = 0; i < t->n_parts; i++)
        own += t->parts[i]->tag == tag;
    for (size_t i = 0; i < t->n_changes; i++)
        if (t->changes[i].kind == LL_JOURNAL_ROLLOVER &&
            (t->changes[i].to == tag || t->changes[i].tag == tag))
            return lladd_error_set(err, LLADD_BAD_STATE,
                                   "tag \"%s\" is part of a rollover of this transaction",
                                   tag->name);
    if (tag->calls || tag->users > own)
        return lladd_error_set(err, LLADD_BUSY, "tag \"%s\" %s", tag->name,
                               tag->calls ? "has an owner attached"
                                          : "has entries of other open transactions");
    return 0;
}

static int release(struct lladd_txn *txn, struct ll_journal_txn *t, struct ll_journal_tag *tag)
{
    struct ll_journal *j = t->all;
    struct ll_journal_record r = {.kind = LL_JOURNAL_RELEASE, .tag = tag->node.key};
    TRY(note(txn, t, &r, tag, NULL, NULL));
    lladd_mutex_lock(&j->mutex);
    int rc = may_release(t, tag, lladd_txn_error_out(txn));
    if (!rc)
        tag->state = LL_TAG_GOING;
    lladd_mutex_unlock(&j->mutex);
    return rc ? rc
              : lladd_hash_delete(txn, lladd_atomic_load_ptr(&j->catalogue), tag->name,
                                  strlen(tag->name));
}

static int discard(struct lladd_txn *txn, struct ll_journal_txn *t, struct ll_journal_tag *tag,
                   uint64_t upto)
{
    struct ll_journal_record r = {.kind = LL_JOURNAL_DISCARD,
                                  .tag = tag->node.key,
                                  .from = discarded_by(t, tag),
                                  .upto = upto};
    if (upto <= r.from)
        return 0;
    int rc = note(txn, t, &r, tag, NULL, NULL);
    return rc ? rc : row_write(txn, t->all, tag, upto);
}

/* A change of one tag. begin_change reserves the tag for the transaction (JRN-3), and sets a
 * savepoint for a failure. */
struct one_change {
    struct ll_journal_txn *t;
    struct ll_journal_tag *tag;
    uint64_t newest;
    lladd_savepoint_id sp;
    bool first; /* the transaction had not changed the tag before */
};

static void let_others(const struct one_change *c)
{
    if (!c->first)
        return;
    lladd_mutex_lock(&c->t->all->mutex);
    ll_operations__journal_untouch(c->t, c->tag);
    lladd_mutex_unlock(&c->t->all->mutex);
}

static int begin_change(struct lladd_txn *txn, uint64_t number, struct one_change *c)
{
    TRY(ll_operations__journal_join(txn, &c->t));
    TRY(ll_operations__journal_change_room(txn, c->t));
    struct ll_journal *j = c->t->all;
    lladd_mutex_lock(&j->mutex);
    int rc = 0;
    while (!rc && ll_operations__journal_is_cleaned(j, number))
        rc = ll_operations__journal_wait(j, lladd_txn_error_out(txn));
    c->tag = ll_operations__journal_tag(j, number);
    c->first = c->tag && c->tag->changing != c->t;
    if (!rc)
        rc = ll_operations__journal_may_change(txn, c->t, c->tag, number);
    if (!rc)
        c->newest = ll_journal_newest(c->tag);
    lladd_mutex_unlock(&j->mutex);
    if (rc)
        return rc;
    rc = lladd_savepoint(txn, &c->sp);
    if (rc)
        let_others(c);
    return rc;
}

static int end_change(struct lladd_txn *txn, const struct one_change *c, int rc)
{
    if (!rc)
        return lladd_savepoint_release(txn, c->sp);
    if (undo_half(txn, c->sp))
        let_others(c);
    return rc;
}

int lladd_journal_release(struct lladd_txn *txn, uint64_t number)
{
    LLADD_USE(txn);
    struct one_change c;
    int rc = begin_change(txn, number, &c);
    return rc ? rc : end_change(txn, &c, release(txn, c.t, c.tag));
}

int lladd_journal_discard(struct lladd_txn *txn, uint64_t number, lladd_lsn upto)
{
    LLADD_USE(txn);
    struct one_change c;
    TRY(begin_change(txn, number, &c));
    uint64_t known = lladd_atomic_load64(&c.tag->logging);
    known = c.newest > known ? c.newest : known;
    int rc = 0;
    if (upto.v > known && upto.v > c.tag->discarded)
        rc = lladd_error_set(lladd_txn_error_out(txn), LLADD_OUT_OF_RANGE,
                             "tag \"%s\" has no commit at or after LSN %llu", c.tag->name,
                             (unsigned long long)upto.v);
    if (!rc)
        rc = discard(txn, c.t, c.tag, upto.v ? upto.v : c.newest);
    return end_change(txn, &c, rc);
}

/* ---- rolling over ---------------------------------------------------------------------------- */

static struct ll_journal_part *part_of(const struct ll_journal_txn *t,
                                       const struct ll_journal_tag *tag)
{
    for (size_t i = 0; i < t->n_parts; i++)
        if (t->parts[i]->tag == tag)
            return t->parts[i];
    return NULL;
}

/* The entries that the transaction has appended to the tag and has not rolled over. */
static struct ll_journal_bucket own_entries(const struct ll_journal_txn *t,
                                            const struct ll_journal_tag *tag)
{
    const struct ll_journal_part *p = part_of(t, tag);
    struct ll_journal_bucket own = {.first = UINT64_MAX};
    if (!p)
        return own;
    own.first = p->first;
    own.entries = p->entries;
    own.bytes = p->bytes;
    for (size_t i = 0; i < t->n_changes; i++)
        if (t->changes[i].kind == LL_JOURNAL_ROLLOVER && t->changes[i].tag == tag) {
            own.entries -= t->changes[i].own.entries;
            own.bytes -= t->changes[i].own.bytes;
        }
    return own;
}

static int may_roll(const struct ll_journal_txn *t, const struct ll_journal_tag *from,
                    struct lladd_error *err)
{
    for (size_t i = 0; i < t->n_changes; i++)
        if (t->changes[i].kind == LL_JOURNAL_ROLLOVER && t->changes[i].to == from)
            return lladd_error_set(err, LLADD_BAD_STATE,
                                   "this transaction has rolled another tag over into \"%s\"",
                                   from->name);
    return 0;
}

static int roll(struct lladd_txn *txn, struct ll_journal_txn *t, struct ll_journal_tag *from,
                struct ll_journal_tag *to, uint64_t newest)
{
    struct ll_journal_bucket own = own_entries(t, from);
    struct ll_journal_record r = {.kind = LL_JOURNAL_ROLLOVER,
                                  .tag = from->node.key,
                                  .other = to->node.key,
                                  .from = discarded_by(t, from)};
    r.upto = newest > r.from ? newest : r.from;
    TRY(may_roll(t, from, lladd_txn_error_out(txn)));
    TRY(note(txn, t, &r, from, to, &own));
    if (r.upto > r.from)
        return row_write(txn, t->all, from, r.upto);
    return 0;
}

int lladd_journal_rollover(struct lladd_txn *txn, uint64_t from, uint64_t to)
{
    LLADD_USE(txn);
    struct ll_journal_txn *t;
    struct ll_journal_part *into; /* keeps `to` from being released */
    struct one_change c;
    TRY(ll_operations__journal_join(txn, &t));
    if (from == to)
        return lladd_error_set(lladd_txn_error_out(txn), LLADD_BAD_ARGUMENT,
                               "a tag cannot be rolled over into itself");
    TRY(ll_operations__journal_part(txn, t, to, &into));
    TRY(begin_change(txn, from, &c));
    return end_change(txn, &c, roll(txn, t, c.tag, into->tag, c.newest));
}
