/* SPDX-License-Identifier: BSD-2-Clause */
/* The journal's state of a transaction, from its first call to its end.
 *
 * A rollback goes back to a savepoint or to the beginning of a nested top action. A part therefore
 * saves its state before the first entry after each such place, and a rollback restores that state.
 * The rollback logs nothing here and cannot fail. Before the commit or prepare record, the
 * transaction logs an ANNUL record for each range of records that a rollback has undone. */
#include "operations/journal/table.h"

void ll_operations__journal_wrong_tag(struct lladd_error *err, uint64_t tag)
{
    lladd_error_set(err, LLADD_NOT_FOUND, "there is no tag %llu", (unsigned long long)tag);
}

static int no_memory(struct lladd_txn *txn)
{
    return lladd_error_set(lladd_txn_error_out(txn), LLADD_NO_MEMORY,
                           "out of memory for the journal");
}

/* ---- creation and reuse ---------------------------------------------------------------------- */

static struct ll_journal_txn *txn_new(struct ll_journal *j)
{
    lladd_mutex_lock(&j->mutex);
    struct ll_journal_txn *t = j->free;
    if (t)
        j->free = t->next_free;
    lladd_mutex_unlock(&j->mutex);
    if (t)
        return t;
    t = lladd_mem_alloc(j->db, sizeof *t);
    if (!t)
        return NULL;
    memset(t, 0, sizeof *t);
    t->all = j;
    t->first = UINT64_MAX;
    lladd_mutex_lock(&j->mutex);
    t->next_all = j->all;
    j->all = t;
    lladd_mutex_unlock(&j->mutex);
    return t;
}

void ll_operations__journal_txn_free(struct ll_journal *j, struct ll_journal_txn *t)
{
    for (size_t i = 0; i < t->made_parts; i++) {
        lladd_mem_free(j->db, t->parts[i]->was);
        lladd_mem_free(j->db, t->parts[i]);
    }
    lladd_mem_free(j->db, t->parts);
    lladd_mem_free(j->db, t->changes);
    lladd_mem_free(j->db, t->annuls);
    lladd_mem_free(j->db, t->held);
    lladd_mem_free(j->db, t->scratch);
    ll_operations__journal_doubt_free(j, t->doubt);
    lladd_mem_free(j->db, t);
}

/* Keeps the transaction's memory for the next one. The caller holds the mutex. */
static void rest(struct ll_journal_txn *t)
{
    struct ll_journal *j = t->all;
    t->n_parts = t->n_changes = t->n_annuls = t->n_was = 0;
    t->recent = NULL;
    t->in_doubt = t->ending = false;
    ll_operations__journal_doubt_free(j, t->doubt); /* not NULL if the transaction ended before
                                                     * journal_tie */
    t->doubt = NULL;
    t->id = 0;
    lladd_atomic_store64(&t->first, UINT64_MAX);
    t->last = 0;
    t->next_free = j->free;
    j->free = t;
}

void ll_operations__journal_list(struct ll_journal_txn *t)
{
    struct ll_journal *j = t->all;
    if (t->listed)
        return;
    t->listed = true;
    t->newer = NULL;
    t->older = j->newest;
    if (j->newest)
        j->newest->newer = t;
    j->newest = t;
}

static void unlist(struct ll_journal_txn *t)
{
    struct ll_journal *j = t->all;
    if (!t->listed)
        return;
    t->listed = false;
    if (t->newer)
        t->newer->older = t->older;
    else
        j->newest = t->older;
    if (t->older)
        t->older->newer = t->newer;
}

int ll_operations__journal_join_new(struct ll_journal *j, struct lladd_txn *txn,
                                    struct ll_journal_txn **out)
{
    struct ll_journal_txn *t = txn_new(j);
    if (!t)
        return no_memory(txn);
    int rc = lladd_txn_join(txn, &ll_operations__journal_participant, t);
    if (rc) {
        lladd_mutex_lock(&j->mutex);
        rest(t);
        lladd_mutex_unlock(&j->mutex);
        return rc;
    }
    *out = t;
    return 0;
}

int ll_operations__journal_join(struct lladd_txn *txn, struct ll_journal_txn **out)
{
    struct lladd_txn_now now;
    struct ll_journal *j;
    TRY(lladd_txn_now_get(txn, &now));
    if (now.rolling_back)
        return lladd_error_set(lladd_txn_error_out(txn), LLADD_BAD_STATE,
                               "the journal cannot be changed during an undo");
    *out = lladd_txn_joined(txn, &ll_operations__journal_participant);
    if (*out)
        return 0;
    int rc = ll_operations__journal_of(lladd_txn_db(txn), &j, lladd_txn_error_out(txn));
    return rc ? rc : ll_operations__journal_join_new(j, txn, out);
}

/* ---- parts ----------------------------------------------------------------------------------- */

static struct ll_journal_part *find_part(const struct ll_journal_txn *t, uint64_t tag)
{
    if (t->recent && t->recent->id == tag)
        return t->recent;
    for (size_t i = 0; i < t->n_parts; i++)
        if (t->parts[i]->id == tag)
            return t->parts[i];
    return NULL;
}

int ll_operations__journal_part_room(struct ll_journal_txn *t)
{
    struct lladd_db *db = t->all->db;
    if (t->n_parts < t->made_parts)
        return 0;
    if (ll_operations__grow(db, &t->parts, t->made_parts + 1, &t->cap_parts,
                                    sizeof(struct ll_journal_part *)))
        return LLADD_NO_MEMORY;
    struct ll_journal_part *p = lladd_mem_alloc(db, sizeof *p);
    if (!p)
        return LLADD_NO_MEMORY;
    memset(p, 0, sizeof *p);
    t->parts[t->made_parts++] = p;
    return 0;
}

/* Adds a part for the tag. The caller holds the mutex. */
static int begin_part(struct lladd_txn *txn, struct ll_journal_txn *t, uint64_t number,
                      struct ll_journal_part **out)
{
    struct ll_journal *j = t->all;
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct ll_journal_tag *tag = ll_operations__journal_tag(j, number);
    if (!tag || (tag->state == LL_TAG_GOING && tag->changing == t)) {
        ll_operations__journal_wrong_tag(err, number);
        return LLADD_NOT_FOUND;
    }
    if (tag->attaching || (tag->state != LL_TAG_THERE && tag->changing != t))
        return lladd_error_set(err, LLADD_BUSY, "tag \"%s\" is being %s", tag->name,
                               tag->attaching                ? "attached to"
                               : tag->state == LL_TAG_MAKING ? "made"
                                                             : "released");
    tag->users++;
    if (ll_operations__journal_bucket_room(j, tag)) {
        tag->users--;
        return no_memory(txn);
    }
    struct ll_journal_part *p = t->parts[t->n_parts++];
    struct ll_journal_was *was = p->was;
    size_t cap = p->cap_was;
    *p = (struct ll_journal_part){
        .tag = tag, .id = number, .calls = tag->calls, .ctx = tag->ctx, .was = was, .cap_was = cap};
    p->first = UINT64_MAX;
    ll_operations__journal_list(t);
    *out = p;
    return 0;
}

int ll_operations__journal_part(struct lladd_txn *txn, struct ll_journal_txn *t, uint64_t tag,
                                struct ll_journal_part **out)
{
    struct ll_journal_part *p = find_part(t, tag);
    int rc = 0;
    if (!p) {
        if (ll_operations__journal_part_room(t))
            return no_memory(txn);
        lladd_mutex_lock(&t->all->mutex);
        rc = begin_part(txn, t, tag, &p);
        lladd_mutex_unlock(&t->all->mutex);
    } else if (p->tag->state == LL_TAG_GOING) { /* released by this transaction: the part keeps
                                                 * other transactions from releasing the tag */
        ll_operations__journal_wrong_tag(lladd_txn_error_out(txn), tag);
        rc = LLADD_NOT_FOUND;
    }
    t->recent = rc ? t->recent : p;
    *out = p;
    return rc;
}

int lladd_journal_state(struct lladd_txn *txn, uint64_t tag, void ***state)
{
    LLADD_USE(txn);
    struct ll_journal_txn *t;
    struct ll_journal_part *p;
    TRY(ll_operations__journal_join(txn, &t));
    TRY(ll_operations__journal_part(txn, t, tag, &p));
    *state = &p->state;
    return 0;
}

/* ---- appending ------------------------------------------------------------------------------- */

int ll_operations__journal_log(struct lladd_txn *txn, struct ll_journal_txn *t,
                               const struct ll_journal_record *r, lladd_lsn *lsn)
{
    struct lladd_token token;
    struct lladd_span none = {NULL, 0};
    size_t want = LL_JOURNAL_RECORD_HEAD + r->bytes.len;
    if (want < r->bytes.len)
        return lladd_error_set(lladd_txn_error_out(txn), LLADD_TOO_LARGE,
                               "%zu bytes are more than an entry may have", r->bytes.len);
    if (t->cap_scratch < want) {
        unsigned char *p = lladd_mem_resize(t->all->db, t->scratch, want < 256 ? 256 : want);
        if (!p)
            return no_memory(txn);
        t->scratch = p;
        t->cap_scratch = want < 256 ? 256 : want;
    }
    size_t head = ll_operations__journal_put(r, t->scratch);
    if (r->bytes.len)
        memcpy(t->scratch + head, r->bytes.data, r->bytes.len);
    TRY(lladd_log_object(txn, &ll_operations__journal_class, 0,
                         lladd_span_of(t->scratch, head + r->bytes.len), none, &token, lsn));
    /* `first` is set before the record counts as applied, so that ll_operations__journal_move_mark
     * sees it (JRN-2). */
    if (lladd_atomic_load64_relaxed(&t->first) == UINT64_MAX)
        lladd_atomic_store64(&t->first, lsn->v);
    t->last = lsn->v;
    lladd_object_applied(txn, &token);
    return 0;
}

/* *fresh: is this the part's first entry, or the first one after a savepoint or the beginning of a
 * nested top action? If it is, this function allocates room to save the part's state and to annul
 * the entry. */
static int want_was(struct ll_journal_txn *t, struct ll_journal_part *p, lladd_savepoint_id next,
                    bool *fresh)
{
    *fresh = p->n_was == 0 || p->was[p->n_was - 1].next != next;
    if (!*fresh)
        return 0;
    struct lladd_db *db = t->all->db;
    TRY(ll_operations__grow(db, &p->was, p->n_was + 1, &p->cap_was, sizeof *p->was));
    return ll_operations__grow(db, &t->annuls, t->n_annuls + t->n_was + t->n_changes + 1,
                               &t->cap_annuls, sizeof *t->annuls);
}

/* Is the entry short enough to be copied by cleaning? A copy has a longer head than an entry. */
static int may_have(struct lladd_txn *txn, const struct ll_journal_txn *t, size_t len)
{
    size_t most = lladd_log_object_max(t->all->db) - LLADD_JOURNAL_HEAD_MAX;
    return len > most ? lladd_error_set(lladd_txn_error_out(txn), LLADD_TOO_LARGE,
                                        "an entry of %zu bytes: it may have %zu", len, most)
                      : 0;
}

int lladd_journal_append(struct lladd_txn *txn, uint64_t tag, struct lladd_span entry,
                         lladd_lsn *lsn)
{
    LLADD_USE(txn);
    struct ll_journal_txn *t;
    struct ll_journal_part *p;
    struct lladd_txn_now now;
    lladd_lsn at;
    bool fresh;
    int rc = ll_operations__journal_join(txn, &t);
    if (!rc)
        rc = may_have(txn, t, entry.len);
    if (!rc)
        rc = ll_operations__journal_part(txn, t, tag, &p);
    if (!rc)
        rc = lladd_txn_now_get(txn, &now);
    if (!rc && want_was(t, p, now.next, &fresh))
        rc = no_memory(txn);
    struct ll_journal_record r = {.kind = LL_JOURNAL_ENTRY, .tag = tag, .bytes = entry};
    if (!rc)
        rc = ll_operations__journal_log(txn, t, &r, &at);
    if (rc)
        return rc;
    if (fresh) {
        p->was[p->n_was++] = (struct ll_journal_was){now.next, at.v, p->entries, p->bytes};
        t->n_was++;
    }
    if (p->entries++ == 0)
        p->first = at.v;
    p->last = at.v;
    p->bytes += entry.len;
    if (lsn)
        *lsn = at;
    return 0;
}

/* ---- changes --------------------------------------------------------------------------------- */

int ll_operations__journal_change_room(struct lladd_txn *txn, struct ll_journal_txn *t)
{
    struct lladd_db *db = t->all->db;
    int rc = ll_operations__grow(db, &t->changes, t->n_changes + 1, &t->cap_changes,
                                         sizeof *t->changes);
    if (!rc)
        rc = ll_operations__grow(db, &t->annuls, t->n_annuls + t->n_was + t->n_changes + 1,
                                 &t->cap_annuls, sizeof *t->annuls);
    if (!rc && !t->held) {
        t->held = lladd_mem_alloc(db, sizeof *t->held);
        rc = t->held ? 0 : LLADD_NO_MEMORY;
    }
    return rc ? no_memory(txn) : 0;
}

void ll_operations__journal_touch(struct ll_journal_txn *t, struct ll_journal_tag *tag)
{
    if (tag->changing == t)
        return;
    tag->changing = t;
    tag->next_touched = t->touched;
    t->touched = tag;
    ll_operations__journal_list(t);
}

void ll_operations__journal_untouch(struct ll_journal_txn *t, struct ll_journal_tag *tag)
{
    struct ll_journal_tag **at = &t->touched;
    while (*at != tag)
        at = &(*at)->next_touched;
    *at = tag->next_touched;
    tag->changing = NULL;
}

int ll_operations__journal_may_change(struct lladd_txn *txn, struct ll_journal_txn *t,
                                      struct ll_journal_tag *tag, uint64_t number)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    if (!tag || (tag->state == LL_TAG_GOING && tag->changing == t)) {
        ll_operations__journal_wrong_tag(err, number);
        return LLADD_NOT_FOUND;
    }
    if (tag->attaching || (tag->changing && tag->changing != t))
        return lladd_error_set(err, LLADD_BUSY,
                               "tag \"%s\" is being changed by another transaction", tag->name);
    ll_operations__journal_touch(t, tag);
    return 0;
}

/* ---- rollback -------------------------------------------------------------------------------- */

/* Restores the part's state at savepoint `to`. Lowers *first to the LSN of the first entry that is
 * rolled back. Returns true if an entry is rolled back. */
static bool part_back(struct ll_journal_txn *t, struct ll_journal_part *p, lladd_savepoint_id to,
                      uint64_t *first)
{
    bool any = false;
    while (p->n_was && p->was[p->n_was - 1].next > to) {
        const struct ll_journal_was *was = &p->was[--p->n_was];
        p->entries = was->entries;
        p->bytes = was->bytes;
        t->n_was--;
        *first = was->first < *first ? was->first : *first;
        any = true;
    }
    return any;
}

/* A release that was refused has not changed the tag's state. Its rollback must not store the state
 * either, because the other transactions that use the tag read this word without the mutex. */
static void change_back(const struct ll_journal_change *c)
{
    if (c->kind == LL_JOURNAL_RELEASE && c->tag->state == LL_TAG_GOING)
        c->tag->state = c->tag->made ? LL_TAG_MAKING : LL_TAG_THERE;
    if (c->kind == LL_JOURNAL_MAKE)
        c->tag->state = LL_TAG_GOING; /* the tag has no name now, and is freed when the transaction
                                       * ends */
}

/* Compares savepoint numbers, not LSNs: if a savepoint was set right after a nested top action,
 * `since` may be an LSN before that action, but entries that were appended in it stay. */
static void undone(void *ctx, void *state, struct lladd_txn *txn, lladd_lsn since)
{
    struct ll_journal_txn *t = state;
    struct lladd_txn_now now;
    uint64_t first = UINT64_MAX;
    (void)ctx;
    (void)since;
    if (lladd_txn_now_get(txn, &now))
        return; /* the handle is poisoned: the transaction does not end */
    lladd_mutex_lock(&t->all->mutex);
    while (t->n_changes && t->changes[t->n_changes - 1].next > now.undone) {
        const struct ll_journal_change *c = &t->changes[--t->n_changes];
        change_back(c);
        first = c->lsn < first ? c->lsn : first;
    }
    lladd_mutex_unlock(&t->all->mutex);
    for (size_t i = 0; i < t->n_parts; i++) {
        struct ll_journal_part *p = t->parts[i];
        uint64_t own = UINT64_MAX;
        if (!part_back(t, p, now.undone, &own))
            continue;
        first = own < first ? own : first;
        if (p->calls && p->calls->undone)
            p->calls->undone(p->ctx, p->state, p->id, lladd_lsn_of(own - 1));
    }
    if (first == UINT64_MAX)
        return;
    while (t->n_annuls && t->annuls[t->n_annuls - 1].since >= first - 1)
        t->n_annuls--;
    t->annuls[t->n_annuls++] = (struct ll_journal_annul){first - 1, t->last};
}

/* Logs the annulments, and drops those that are logged. So none is logged twice, even if this
 * function fails half-way, or if the commit is refused and the transaction continues. */
static int committing(void *ctx, void *state, struct lladd_txn *txn)
{
    struct ll_journal_txn *t = state;
    size_t said = 0;
    int rc = 0;
    (void)ctx;
    while (!rc && said < t->n_annuls) {
        const struct ll_journal_annul *a = &t->annuls[said];
        struct ll_journal_record r = {.kind = LL_JOURNAL_ANNUL, .from = a->since, .upto = a->upto};
        lladd_lsn lsn;
        rc = ll_operations__journal_log(txn, t, &r, &lsn);
        said += rc == 0;
    }
    t->n_annuls -= said;
    if (said && t->n_annuls)
        memmove(t->annuls, t->annuls + said, t->n_annuls * sizeof *t->annuls);
    return rc;
}

/* ---- the end --------------------------------------------------------------------------------- */

static void hold_back(const struct ll_journal_txn *t, uint64_t low)
{
    if (low < t->held->low)
        t->held->low = low;
}

static void roll_over(const struct ll_journal_change *c, uint64_t commit)
{
    struct ll_journal_bucket moved;
    ll_operations__journal_bucket_take(c->tag, c->from, c->upto, &moved);
    if (c->own.entries) {
        moved.entries += c->own.entries;
        moved.bytes += c->own.bytes;
        moved.first = c->own.first < moved.first ? c->own.first : moved.first;
    }
    moved.commit = moved.read_to = commit;
    if (moved.entries)
        ll_operations__journal_bucket_put(c->to, moved);
    c->tag->discarded = c->upto > c->tag->discarded ? c->upto : c->tag->discarded;
}

/* Applies a committed change to memory. All memory for it was allocated before. The caller holds
 * the mutex. */
static void carry_out(const struct ll_journal_txn *t, const struct ll_journal_change *c,
                      uint64_t commit)
{
    struct ll_journal_bucket gone;
    switch (c->kind) {
    case LL_JOURNAL_DISCARD:
        ll_operations__journal_bucket_take(c->tag, 0, c->upto, &gone);
        hold_back(t, gone.first);
        if (c->upto > c->tag->discarded)
            c->tag->discarded = c->upto;
        c->tag->asked = false;
        break;
    case LL_JOURNAL_ROLLOVER:
        roll_over(c, commit);
        break;
    case LL_JOURNAL_CLEAN:
        hold_back(t, c->tag->low);
        ll_operations__journal_bucket_move(c->tag, c->from, c->upto, &c->own, commit);
        break;
    case LL_JOURNAL_MAKE:
        if (c->tag->state == LL_TAG_MAKING)
            c->tag->state = LL_TAG_THERE;
        break;
    default: /* released: leave_tags frees the tag */
        hold_back(t, c->tag->low);
        break;
    }
}

/* The transaction has ended: releases its tags. The caller holds the mutex. */
static void leave_tags(struct ll_journal_txn *t, bool committed)
{
    struct ll_journal *j = t->all;
    for (size_t i = 0; i < t->n_parts; i++) {
        struct ll_journal_tag *tag = t->parts[i]->tag;
        if (tag) {
            tag->users--;
            tag->ends += t->in_doubt;
        }
    }
    for (struct ll_journal_tag *tag = t->touched, *next; tag; tag = next) {
        next = tag->next_touched;
        tag->changing = NULL;
        bool gone = committed ? tag->state == LL_TAG_GOING : tag->made;
        if (tag->state != LL_TAG_THERE) /* avoids a needless store, because other transactions read
                                         * this word without the mutex */
            tag->state = LL_TAG_THERE;
        tag->made = false;
        if (gone)
            ll_operations__journal_tag_free(j, tag);
    }
    t->touched = NULL;
    if (t->cleaning)
        lladd_cond_broadcast(&j->cleaned);
    t->cleaning = false;
    unlist(t);
}

static void tell_logged(const struct ll_journal_txn *t, uint64_t commit)
{
    for (size_t i = 0; i < t->n_parts; i++) {
        const struct ll_journal_part *p = t->parts[i];
        if (!p->calls || !p->calls->logged)
            continue;
        lladd_atomic_max64(&p->tag->logging, commit);
        p->calls->logged(p->ctx, p->state, p->id, lladd_lsn_of(commit));
    }
}

/* If the transaction is in doubt: from now on no owner can attach to tags with its entries. */
static void begin_end(struct ll_journal_txn *t)
{
    if (!t->in_doubt)
        return;
    lladd_mutex_lock(&t->all->mutex);
    t->ending = true;
    lladd_mutex_unlock(&t->all->mutex);
}

/* Calls the owners first: once a bucket has the commit, its entries can be discarded. */
static void logged(void *ctx, void *state, lladd_lsn commit)
{
    struct ll_journal_txn *t = state;
    struct ll_journal *j = t->all;
    (void)ctx;
    begin_end(t);
    tell_logged(t, commit.v);
    lladd_mutex_lock(&j->mutex);
    if (t->held)
        t->held->low = UINT64_MAX;
    for (size_t i = 0; i < t->n_changes; i++)
        carry_out(t, &t->changes[i], commit.v);
    for (size_t i = 0; i < t->n_parts; i++) {
        const struct ll_journal_part *p = t->parts[i];
        struct ll_journal_bucket b = {.commit = commit.v,
                                      .first = p->first,
                                      .read_to = commit.v,
                                      .entries = p->entries,
                                      .bytes = p->bytes};
        for (size_t k = 0; k < t->n_changes; k++)
            if (t->changes[k].kind == LL_JOURNAL_ROLLOVER && t->changes[k].tag == p->tag) {
                b.entries -= t->changes[k].own.entries;
                b.bytes -= t->changes[k].own.bytes;
            }
        if (b.entries && p->tag && p->tag->state != LL_TAG_GOING)
            ll_operations__journal_bucket_put(p->tag, b);
    }
    leave_tags(t, true);
    if (t->held && t->held->low != UINT64_MAX) {
        t->held->commit = commit.v;
        t->held->next = j->held;
        j->held = t->held;
        t->held = NULL;
    }
    lladd_mutex_unlock(&j->mutex);
}

static void committed(void *ctx, void *state, struct lladd_db *db, lladd_lsn commit)
{
    struct ll_journal_txn *t = state;
    (void)ctx;
    (void)db;
    (void)commit;
    lladd_mutex_lock(&t->all->mutex);
    rest(t);
    lladd_mutex_unlock(&t->all->mutex);
}

static void aborted(void *ctx, void *state, struct lladd_db *db)
{
    struct ll_journal_txn *t = state;
    (void)ctx;
    (void)db;
    begin_end(t);
    for (size_t i = 0; i < t->n_parts; i++) {
        const struct ll_journal_part *p = t->parts[i];
        if (p->calls && p->calls->aborted)
            p->calls->aborted(p->ctx, p->state, p->id);
    }
    lladd_mutex_lock(&t->all->mutex);
    leave_tags(t, false);
    rest(t);
    lladd_mutex_unlock(&t->all->mutex);
}

/* ---- two-phase commit ------------------------------------------------------------------------ */

static int prepare(void *ctx, void *state, struct lladd_txn *txn, struct lladd_sink *sink)
{
    const struct ll_journal_txn *t = state;
    (void)ctx;
    for (size_t i = 0; i < t->n_changes; i++)
        if (t->changes[i].kind == LL_JOURNAL_ROLLOVER)
            return lladd_error_set(lladd_txn_error_out(txn), LLADD_BAD_STATE,
                                   "a transaction that has rolled a tag over cannot be prepared");
    return ll_operations__journal_blob(t, sink);
}

static int in_doubt(void *ctx, struct lladd_txn *txn, struct lladd_span blob)
{
    (void)ctx;
    return ll_operations__journal_unblob(
        lladd_extension_state(lladd_txn_db(txn), &ll_operations__journal_extension), txn, blob);
}

const struct lladd_participant ll_operations__journal_participant = {
    .struct_size = sizeof(struct lladd_participant),
    .name = "journal",
    .version = 1,
    .prepare = prepare,
    .in_doubt = in_doubt,
    .logged = logged,
    .aborted = aborted,
    .undone = undone,
    .committing = committing,
    .committed = committed,
};
