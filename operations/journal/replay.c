/* SPDX-License-Identifier: BSD-2-Clause */
/* Replays entries: to a caller's function, and to owners that attach. */
#include "operations/journal/table.h"

#include <lladd/log_read.h>

/* The range of the log to read for some tags. */
struct range {
    uint64_t first, read_to; /* {UINT64_MAX, 0}: nothing to read */
};

static void widen(struct range *r, const struct ll_journal_tag *tag)
{
    for (size_t i = 0; i < tag->n_buckets; i++) {
        const struct ll_journal_bucket *b = &tag->buckets[i];
        r->first = b->first < r->first ? b->first : r->first;
        r->read_to = b->read_to > r->read_to ? b->read_to : r->read_to;
    }
}

static int replay_items(struct ll_journal *j, const struct ll_journal_scan *scan, uint64_t tag,
                        uint64_t from, uint64_t upto, lladd_journal_fn *fn, void *ctx,
                        struct lladd_error *err)
{
    struct lladd_log_cursor *c;
    size_t n;
    const struct ll_journal_item *it = ll_operations__journal_items(scan, tag, from, upto, &n);
    if (!n || !fn)
        return 0;
    TRY(lladd_log_open(j->db, lladd_lsn_of(it[0].lsn), NULL, &c, err));
    int rc = 0;
    for (size_t i = 0; !rc && i < n; i++) {
        struct lladd_journal_entry e = {
            .tag = tag, .commit = lladd_lsn_of(it[i].commit), .lsn = lladd_lsn_of(it[i].lsn)};
        rc = ll_operations__journal_read(c, tag, it[i].lsn, &e.bytes, err);
        if (!rc)
            rc = fn(ctx, &e, err);
    }
    lladd_log_close(c);
    return rc;
}

/* Forces the log up to the end of the range, then reads the range. The caller keeps that log
 * (ll_operations__journal_keep_log). */
static int read_range(struct ll_journal *j, const struct range *r, struct ll_journal_scan *scan,
                      struct lladd_error *err)
{
    memset(scan, 0, sizeof *scan);
    scan->db = j->db;
    if (r->first == UINT64_MAX)
        return 0;
    int rc = lladd_log_force(j->db, lladd_lsn_of(r->read_to), err);
    return rc ? rc : ll_operations__journal_scan(j->db, r->first, r->read_to, scan, err);
}

int lladd_journal_replay(struct lladd_db *db, uint64_t number, lladd_journal_fn *fn, void *ctx,
                         struct lladd_error *err)
{
    struct ll_journal *j;
    struct ll_journal_keep hold;
    struct ll_journal_scan scan;
    struct range r = {UINT64_MAX, 0};
    uint64_t from = 0, upto = 0;
    TRY(ll_operations__journal_of(db, &j, err));
    if (!fn)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "no function to replay entries to");
    lladd_mutex_lock(&j->mutex);
    const struct ll_journal_tag *tag = ll_operations__journal_tag(j, number);
    if (tag) {
        widen(&r, tag);
        from = tag->discarded;
        upto = ll_journal_newest(tag);
        ll_operations__journal_keep_log(j, &hold, r.first);
    }
    lladd_mutex_unlock(&j->mutex);
    if (!tag) {
        ll_operations__journal_wrong_tag(err, number);
        return LLADD_NOT_FOUND;
    }
    int rc = read_range(j, &r, &scan, err);
    if (!rc)
        rc = replay_items(j, &scan, number, from, upto, fn, ctx, err);
    ll_operations__journal_scan_free(&scan);
    ll_operations__journal_end_keep(j, &hold);
    return rc;
}

/* ---- attaching ------------------------------------------------------------------------------- */

/* A transaction in doubt with entries of one tag. */
struct told {
    struct ll_journal_txn *txn;
    size_t which; /* index of the attachment */
    uint64_t id;  /* id of the transaction */
    void *state; /* the state that the tag's owner has for this transaction */
};

struct attaching {
    struct ll_journal *j;
    const struct lladd_journal_attachment *a;
    size_t n;
    uint64_t *ends; /* each tag's `ends` when attaching began */
    struct told *told;
    size_t n_told, cap_told;
    struct range range;
    struct ll_journal_keep hold;
};

static int busy(struct lladd_error *err, const struct ll_journal_tag *tag, const char *why)
{
    return lladd_error_set(err, LLADD_BUSY, "tag \"%s\" %s", tag->name, why);
}

/* The transaction's part of the tag, if the transaction is in doubt. */
static struct ll_journal_part *doubtful_part(const struct ll_journal_txn *t,
                                             const struct ll_journal_tag *tag)
{
    for (size_t i = 0; t->in_doubt && i < t->n_parts; i++)
        if (t->parts[i]->tag == tag)
            return t->parts[i];
    return NULL;
}

/* Collects the transactions in doubt with entries of the tag. LLADD_BUSY: other open transactions
 * have entries of the tag, or a transaction in doubt is just ending. The caller holds the mutex. */
static int note_doubts(struct attaching *at, size_t which, const struct ll_journal_tag *tag,
                       struct lladd_error *err)
{
    uint32_t doubtful = 0;
    for (struct ll_journal_txn *t = at->j->newest; t; t = t->older) {
        const struct ll_journal_part *p = doubtful_part(t, tag);
        if (!p)
            continue;
        if (t->ending)
            return busy(err, tag, "has a transaction in doubt that is just ending");
        if (ll_operations__grow(at->j->db, &at->told, at->n_told + 1, &at->cap_told,
                                        sizeof *at->told))
            return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory to attach to a tag");
        at->told[at->n_told++] = (struct told){.txn = t, .which = which, .id = t->id};
        at->range.first = p->first < at->range.first ? p->first : at->range.first;
        at->range.read_to = p->last > at->range.read_to ? p->last : at->range.read_to;
        /* Annulments of the transaction may follow its last entry. */
        at->range.read_to = t->last > at->range.read_to ? t->last : at->range.read_to;
        doubtful++;
    }
    return tag->users > doubtful ? busy(err, tag, "has entries of open transactions") : 0;
}

/* Checks a tag and marks it as being attached to. The caller holds the mutex. */
static int reserve(struct attaching *at, size_t i, struct lladd_error *err)
{
    struct ll_journal_tag *tag = ll_operations__journal_tag(at->j, at->a[i].tag);
    if (!tag) {
        ll_operations__journal_wrong_tag(err, at->a[i].tag);
        return LLADD_NOT_FOUND;
    }
    if (tag->calls || tag->attaching)
        return busy(err, tag, "has an owner, or an owner is attaching");
    if (tag->changing && !(tag->changing->in_doubt && tag->state == LL_TAG_THERE))
        return busy(err, tag, "is being changed");
    TRY(note_doubts(at, i, tag, err));
    tag->attaching = true;
    at->ends[i] = tag->ends;
    widen(&at->range, tag);
    return 0;
}

static void unreserve(struct attaching *at, size_t n)
{
    while (n-- > 0) {
        struct ll_journal_tag *tag = ll_operations__journal_tag(at->j, at->a[n].tag);
        tag->attaching = false;
    }
}

/* Is one of the tags being cleaned? The caller holds the mutex. */
static bool is_cleaned(const struct attaching *at)
{
    for (size_t i = 0; i < at->n; i++)
        if (ll_operations__journal_is_cleaned(at->j, at->a[i].tag))
            return true;
    return false;
}

static int begin(struct attaching *at, struct lladd_error *err)
{
    struct ll_journal *j = at->j;
    int rc = 0;
    lladd_mutex_lock(&j->mutex);
    while (!rc && is_cleaned(at))
        rc = ll_operations__journal_wait(j, err);
    for (size_t i = 0; !rc && i < at->n; i++) {
        rc = reserve(at, i, err);
        if (rc)
            unreserve(at, i);
    }
    if (!rc)
        ll_operations__journal_keep_log(j, &at->hold, at->range.first);
    lladd_mutex_unlock(&j->mutex);
    return rc;
}

/* Calls the owner's `pending` for each entry of a transaction in doubt. */
static int show_doubtful(struct attaching *at, struct told *told,
                         const struct ll_journal_scan *scan, struct lladd_log_cursor *c,
                         struct lladd_error *err)
{
    const struct lladd_journal_attachment *a = &at->a[told->which];
    const struct ll_journal_open *o =
        (const struct ll_journal_open *)ll_operations__index_find(&scan->open, told->id);
    for (size_t i = 0; o && a->owner->pending && i < o->n_steps; i++) {
        const struct ll_journal_step *step = &o->steps[i];
        if (step->more || step->tag != a->tag || ll_operations__journal_annulled(o, step->lsn))
            continue;
        struct lladd_journal_entry e = {.tag = a->tag, .lsn = lladd_lsn_of(step->lsn)};
        TRY(ll_operations__journal_read(c, a->tag, step->lsn, &e.bytes, err));
        TRY(a->owner->pending(a->ctx, &told->state, &e, err));
    }
    return 0;
}

static int show(struct attaching *at, const struct ll_journal_scan *scan, struct lladd_error *err)
{
    struct ll_journal *j = at->j;
    struct lladd_log_cursor *c;
    int rc = 0;
    for (size_t i = 0; !rc && i < at->n; i++) {
        lladd_mutex_lock(&j->mutex);
        const struct ll_journal_tag *tag = ll_operations__journal_tag(j, at->a[i].tag);
        uint64_t from = tag->discarded, upto = ll_journal_newest(tag);
        lladd_mutex_unlock(&j->mutex);
        rc = replay_items(j, scan, at->a[i].tag, from, upto, at->a[i].owner->replay, at->a[i].ctx,
                          err);
    }
    if (rc || !at->n_told)
        return rc;
    TRY(lladd_log_open(j->db, lladd_lsn_of(0), NULL, &c, err));
    for (size_t i = 0; !rc && i < at->n_told; i++)
        rc = show_doubtful(at, &at->told[i], scan, c, err);
    lladd_log_close(c);
    return rc;
}

/* Checks that no transaction in doubt has ended meanwhile, and attaches the owners: they get the
 * callbacks for the ends of these transactions. The caller holds the mutex. */
static int settle(struct attaching *at, struct lladd_error *err)
{
    struct ll_journal *j = at->j;
    for (size_t i = 0; i < at->n; i++) {
        const struct ll_journal_tag *tag = ll_operations__journal_tag(j, at->a[i].tag);
        if (tag->ends != at->ends[i])
            return busy(err, tag, "had a transaction in doubt that has just ended");
    }
    for (size_t i = 0; i < at->n_told; i++)
        if (at->told[i].txn->ending)
            return lladd_error_set(err, LLADD_BUSY, "a transaction in doubt is just ending");
    for (size_t i = 0; i < at->n_told; i++) {
        const struct lladd_journal_attachment *a = &at->a[at->told[i].which];
        struct ll_journal_part *p =
            doubtful_part(at->told[i].txn, ll_operations__journal_tag(j, a->tag));
        p->calls = a->owner;
        p->ctx = a->ctx;
        p->state = at->told[i].state;
    }
    for (size_t i = 0; i < at->n; i++) {
        struct ll_journal_tag *tag = ll_operations__journal_tag(j, at->a[i].tag);
        tag->calls = at->a[i].owner;
        tag->ctx = at->a[i].ctx;
        tag->asked = LL_ASKED_NOT;
    }
    return 0;
}

static int attach(struct attaching *at, struct lladd_error *err)
{
    struct ll_journal *j = at->j;
    struct ll_journal_scan scan;
    TRY(begin(at, err));
    int rc = read_range(j, &at->range, &scan, err);
    if (!rc)
        rc = show(at, &scan, err);
    ll_operations__journal_scan_free(&scan);
    lladd_mutex_lock(&j->mutex);
    if (!rc)
        rc = settle(at, err);
    unreserve(at, at->n);
    lladd_mutex_unlock(&j->mutex);
    ll_operations__journal_end_keep(j, &at->hold);
    for (size_t i = 0; rc && i < at->n_told; i++) {
        const struct lladd_journal_attachment *a = &at->a[at->told[i].which];
        if (at->told[i].state && a->owner->aborted)
            a->owner->aborted(a->ctx, at->told[i].state, a->tag);
    }
    return rc;
}

int lladd_journal_attach(struct lladd_db *db, const struct lladd_journal_attachment *a, size_t n,
                         struct lladd_error *err)
{
    struct attaching at = {.a = a, .n = n, .range = {UINT64_MAX, 0}};
    int rc = ll_operations__journal_of(db, &at.j, err);
    for (size_t i = 0; !rc && i < n; i++)
        if (!a[i].owner || a[i].owner->struct_size < sizeof *a[i].owner)
            rc = lladd_error_set(err, LLADD_BAD_ARGUMENT,
                                 "an owner is NULL, or its struct_size is too small");
    if (rc || n == 0)
        return rc;
    at.ends = lladd_mem_alloc(db, n * sizeof *at.ends);
    rc = at.ends ? attach(&at, err)
                 : lladd_error_set(err, LLADD_NO_MEMORY, "out of memory to attach to tags");
    lladd_mem_free(db, at.ends);
    lladd_mem_free(db, at.told);
    return rc;
}

int lladd_journal_detach(struct lladd_db *db, uint64_t number, struct lladd_error *err)
{
    struct ll_journal *j;
    TRY(ll_operations__journal_of(db, &j, err));
    lladd_mutex_lock(&j->mutex);
    struct ll_journal_tag *tag = ll_operations__journal_tag(j, number);
    int rc = 0;
    if (!tag) {
        ll_operations__journal_wrong_tag(err, number);
        rc = LLADD_NOT_FOUND;
    } else if (tag->users) {
        rc = busy(err, tag, "has entries of open transactions");
    } else if (tag->telling) {
        rc = busy(err, tag, "has an owner that is being asked to digest");
    } else {
        tag->calls = NULL;
        tag->ctx = NULL;
    }
    lladd_mutex_unlock(&j->mutex);
    return rc;
}
