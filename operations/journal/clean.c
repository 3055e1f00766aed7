/* SPDX-License-Identifier: BSD-2-Clause */
/* Cleaning: copies live entries to the end of the log, so that the log before them can be
 * truncated (Anvil, section 4.3; the cleaner of a log-structured file system).
 *
 * One step copies the entries of some neighbouring buckets (table.h) of one tag. It reads only the
 * log from `first` to `read_to` of these buckets (JRN-5). A system transaction logs a CLEAN record,
 * then the copies. Each copy has the LSN of the original's commit, so the order of the entries
 * stays. The log of the originals is kept until the system transaction is durable.
 *
 * A checkpoint cleans when the log that tags keep is many times larger than their live entries;
 * the copies are then a small part of all that is logged. Cleaning is urgent when a tag keeps
 * more than three eighths of the log's limit. The limit does not refuse the copies, because they
 * free more log than they take. An owner that can digest (flush) its entries is asked to do that
 * first. */
#include "operations/journal/table.h"

#include <lladd/log_read.h>
#include <lladd/stats.h>

enum {
    WORTH = 16,   /* cleans only if it frees this many bytes of log for each byte copied */
    WORTH_NOW = 2, /* the same if cleaning is urgent */
    SMALL = 4096  /* added to the live bytes of each tag */
};

struct step {
    struct ll_journal_tag *tag;
    uint64_t number;
    uint64_t from, upto; /* commits in (from, upto] */
    uint64_t first, read_to;
    bool more;
};

/* Chooses neighbouring buckets that keep log below `below`. The caller holds the mutex. */
static bool choose(const struct ll_journal_tag *tag, uint64_t below, struct step *s)
{
    uint64_t bytes = 0;
    size_t i = 0;
    while (i < tag->n_buckets && tag->buckets[i].first >= below)
        i++;
    if (i == tag->n_buckets)
        return false;
    s->from = i ? tag->buckets[i - 1].commit : tag->discarded;
    s->first = UINT64_MAX;
    s->read_to = 0;
    do {
        const struct ll_journal_bucket *b = &tag->buckets[i++];
        bytes += b->bytes;
        s->upto = b->commit;
        s->first = b->first < s->first ? b->first : s->first;
        s->read_to = b->read_to > s->read_to ? b->read_to : s->read_to;
    } while (i < tag->n_buckets && tag->buckets[i].first < below &&
             bytes + tag->buckets[i].bytes <= LL_JOURNAL_STEP);
    s->more = false;
    while (!s->more && i < tag->n_buckets)
        s->more = tag->buckets[i++].first < below;
    return true;
}

/* Of the tags that keep log below `below`, the tag that keeps the oldest log. `asking`: skips the
 * tags with owners that were asked to digest at this checkpoint. The caller holds the mutex. */
static struct ll_journal_tag *oldest(const struct ll_journal *j, uint64_t below, bool asking)
{
    struct ll_journal_tag *found = NULL;
    for (struct ll_index_node *n = NULL; (n = ll_operations__index_next(&j->tags, n)) != NULL;) {
        struct ll_journal_tag *t = (struct ll_journal_tag *)n;
        if (t->low < below && t->state == LL_TAG_THERE && (!found || t->low < found->low) &&
            !(asking && t->asked == LL_ASKED_NOW))
            found = t;
    }
    return found;
}

/* Chooses the work of the step. LLADD_END: there is nothing to do. */
static int begin(struct lladd_txn *txn, struct ll_journal_txn *t, uint64_t number, uint64_t below,
                 struct step *s)
{
    struct ll_journal *j = t->all;
    int rc = 0;
    lladd_mutex_lock(&j->mutex);
    struct ll_journal_tag *tag =
        number ? ll_operations__journal_tag(j, number) : oldest(j, below, false);
    memset(s, 0, sizeof *s);
    if (!tag && !number)
        rc = LLADD_END;
    if (!rc)
        rc = ll_operations__journal_may_change(txn, t, tag, number);
    t->cleaning = !rc;
    if (!rc && !choose(tag, below, s))
        rc = LLADD_END;
    s->tag = tag;
    s->number = tag ? tag->node.key : number;
    lladd_mutex_unlock(&j->mutex);
    return rc;
}

static int copy(struct lladd_txn *txn, struct ll_journal_txn *t, const struct step *s,
                const struct ll_journal_item *it, size_t n)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct lladd_log_cursor *c;
    struct ll_journal_change change = {
        .kind = LL_JOURNAL_CLEAN, .tag = s->tag, .from = s->from, .upto = s->upto};
    struct ll_journal_record head = {
        .kind = LL_JOURNAL_CLEAN, .tag = s->number, .from = s->from, .upto = s->upto};
    lladd_lsn lsn;
    TRY(lladd_log_open(t->all->db, lladd_lsn_of(s->first), NULL, &c, err));
    int rc = ll_operations__journal_log(txn, t, &head, &lsn);
    change.lsn = change.own.first = lsn.v;
    for (size_t i = 0; !rc && i < n; i++) {
        struct ll_journal_record r = {
            .kind = LL_JOURNAL_AGAIN, .tag = s->number, .from = it[i].commit};
        rc = ll_operations__journal_read(c, s->number, it[i].lsn, &r.bytes, err);
        if (!rc)
            rc = ll_operations__journal_log(txn, t, &r, &lsn);
        change.own.entries++;
        change.own.bytes += r.bytes.len;
    }
    lladd_log_close(c);
    if (!rc)
        t->changes[t->n_changes++] = change;
    return rc;
}

static int run(struct lladd_txn *txn, struct ll_journal_txn *t, const struct step *s)
{
    struct ll_journal *j = t->all;
    struct ll_journal_scan scan;
    struct lladd_error *err = lladd_txn_error_out(txn);
    size_t n;
    TRY(lladd_log_force(j->db, lladd_lsn_of(s->read_to), err));
    int rc = ll_operations__journal_scan(j->db, s->first, s->read_to, &scan, err);
    if (!rc) {
        const struct ll_journal_item *it =
            ll_operations__journal_items(&scan, s->number, s->from, s->upto, &n);
        rc = copy(txn, t, s, it, n);
    }
    ll_operations__journal_scan_free(&scan);
    return rc;
}

bool ll_operations__journal_is_cleaned(const struct ll_journal *j, uint64_t number)
{
    const struct ll_journal_tag *tag = ll_operations__journal_tag(j, number);
    return tag && tag->changing && tag->changing->cleaning;
}

int ll_operations__journal_wait(struct ll_journal *j, struct lladd_error *err)
{
    int rc = lladd_db_error(j->db, err);
    if (!rc)
        lladd_cond_wait(&j->cleaned, &j->mutex);
    return rc;
}

/* The handle is poisoned, so the cleaning transaction has no end and no callback (LOG-4). Wakes the
 * threads that wait for its end. */
static int poisoned(struct ll_journal *j, struct lladd_error *err)
{
    lladd_mutex_lock(&j->mutex);
    lladd_cond_broadcast(&j->cleaned);
    lladd_mutex_unlock(&j->mutex);
    return lladd_db_error(j->db, err);
}

/* All old entries of the tag have been copied, so the tag's owner is asked again only when the
 * copies are old. */
static void forget_asked(struct ll_journal *j, uint64_t number)
{
    lladd_mutex_lock(&j->mutex);
    struct ll_journal_tag *tag = ll_operations__journal_tag(j, number);
    if (tag)
        tag->asked = LL_ASKED_NOT;
    lladd_mutex_unlock(&j->mutex);
}

static int clean(struct ll_journal *j, uint64_t number, uint64_t below, bool *more,
                 struct lladd_error *err)
{
    struct lladd_txn_options o = LLADD_TXN_OPTIONS_INIT;
    struct ll_journal_txn *t;
    struct lladd_txn *txn;
    struct step s;
    o.system = o.frees_log = true;
    o.durability = LLADD_DURABLE;
    TRY(lladd_begin(j->db, &o, &txn, err));
    int rc = ll_operations__journal_join(txn, &t);
    if (!rc)
        rc = ll_operations__journal_change_room(txn, t);
    if (!rc)
        rc = begin(txn, t, number, below, &s);
    if (!rc)
        rc = run(txn, t, &s);
    if (!rc) {
        *more = s.more;
        rc = lladd_commit(txn);
        if (lladd_code_root(rc) == LLADD_ROOT_POISONED)
            return poisoned(j, err);
        if (!rc) {
            if (!s.more)
                forget_asked(j, s.number);
            return 0;
        }
    }
    if (err)
        *err = *lladd_txn_error(txn);
    return lladd_abort(txn) ? poisoned(j, err) : rc;
}

int lladd_journal_clean(struct lladd_db *db, uint64_t tag, lladd_lsn below, bool *more,
                        struct lladd_error *err)
{
    struct ll_journal *j;
    bool rest = false;
    int rc = ll_operations__journal_of(db, &j, err);
    if (!rc)
        rc = clean(j, tag, below.v, &rest, err);
    if (more)
        *more = rc == 0 && rest;
    return rc == LLADD_END ? 0 : rc;
}

/* ---- at checkpoints -------------------------------------------------------------------------- */

struct need {
    uint64_t tag, low, live; /* live: the bytes of the live entries of all tags that keep old log */
};

static bool look(struct ll_journal *j, uint64_t below, struct need *out)
{
    memset(out, 0, sizeof *out);
    lladd_mutex_lock(&j->mutex);
    const struct ll_journal_tag *tag = j->loaded ? oldest(j, below, true) : NULL;
    for (struct ll_index_node *n = NULL;
         tag && (n = ll_operations__index_next(&j->tags, n)) != NULL;) {
        const struct ll_journal_tag *t = (const struct ll_journal_tag *)n;
        out->live += t->low < below ? t->bytes + SMALL : 0;
    }
    if (tag) {
        out->tag = tag->node.key;
        out->low = tag->low;
    }
    lladd_mutex_unlock(&j->mutex);
    return tag != NULL;
}

/* Asks the tag's owner to digest. False: the tag has no owner that can, or the owner has been asked
 * already. */
static bool ask(struct ll_journal *j, uint64_t number)
{
    const struct lladd_journal_owner *calls = NULL;
    void *ctx = NULL;
    uint64_t upto = 0;
    lladd_mutex_lock(&j->mutex);
    struct ll_journal_tag *tag = ll_operations__journal_tag(j, number);
    if (tag && tag->calls && tag->calls->digest && tag->asked == LL_ASKED_NOT) {
        calls = tag->calls;
        ctx = tag->ctx;
        upto = ll_journal_newest(tag);
        tag->asked = LL_ASKED_NOW;
        tag->telling++; /* while above 0, the owner stays attached, and the tag is not released */
    }
    lladd_mutex_unlock(&j->mutex);
    if (!calls)
        return false;
    calls->digest(ctx, number, lladd_lsn_of(upto));
    lladd_mutex_lock(&j->mutex);
    tag->telling--;
    lladd_mutex_unlock(&j->mutex);
    return true;
}

/* Tags with owners that were asked at an earlier checkpoint may be cleaned at this one. */
static void let_time_pass(struct ll_journal *j)
{
    lladd_mutex_lock(&j->mutex);
    for (struct ll_index_node *n = NULL; (n = ll_operations__index_next(&j->tags, n)) != NULL;) {
        struct ll_journal_tag *t = (struct ll_journal_tag *)n;
        t->asked = t->asked == LL_ASKED_NOW ? LL_ASKED_BEFORE : t->asked;
    }
    lladd_mutex_unlock(&j->mutex);
}

/* Asks owners to digest, and cleans the tags that were not digested in time. Returns whether it has
 * cleaned a tag. A tag that is not cleaned keeps the log, so the live bytes of all tags that keep
 * old log count as the cost. */
static bool make_room(struct ll_journal *j, uint64_t below, uint64_t tail, uint64_t limit)
{
    struct need need;
    bool more, cleaned = false;
    while (look(j, below, &need)) {
        uint64_t age = tail - need.low;
        bool urgent = limit != UINT64_MAX && age > limit / 8 * 3;
        if (!urgent && age / WORTH < need.live)
            break;
        if (ask(j, need.tag))
            continue; /* the owner has time until the next checkpoint */
        if (age / WORTH_NOW < need.live)
            break;
        if (clean(j, need.tag, below, &more, NULL))
            break;
        cleaned = true;
    }
    return cleaned;
}

/* Runs in the thread that takes the checkpoint. Errors are not reported: if a resource is missing,
 * the next checkpoint tries again; if the log is damaged, the next read of it reports that. */
void ll_operations__journal_advance(void *ctx, struct lladd_db *db, lladd_lsn below)
{
    struct ll_journal *j = lladd_extension_state(db, &ll_operations__journal_extension);
    struct lladd_stats s = {.struct_size = sizeof s};
    (void)ctx;
    if (!j || lladd_stats_get(db, &s))
        return;
    let_time_pass(j);
    /* With a new durable mark, this checkpoint truncates the log that was cleaned; otherwise a
     * later one does. */
    if (make_room(j, below.v, s.log_tail, s.log_limit_bytes))
        (void)ll_operations__journal_move_mark(j, true);
}
