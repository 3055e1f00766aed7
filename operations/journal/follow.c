/* SPDX-License-Identifier: BSD-2-Clause */
/* Followers: committed entries in the order of commits, for readers that go on after a restart.
 *
 * A follower reads the log record by record. Of an open transaction it keeps the LSNs of the
 * journal's records. When it reads the commit record, it reads the entries again and gives them.
 *
 * A transaction's id is the LSN of its first record. A follower therefore notices a transaction
 * that began before the log that it reads, and returns an error instead of a part of the entries
 * (JRN-6).
 *
 * If a rollover moves entries that other transactions have committed, a second follower, `inner`,
 * reads these entries from the log. An inner follower may need one, too.
 *
 * For lladd_journal_follow_position the follower keeps marks. For all positions at or after
 * mark.at, the log from mark.low on has all records of the transactions that commit at or after the
 * position: mark.low is the smallest id of the transactions that were open at mark.at. Transactions
 * without entries count, too. Otherwise a follower that begins at the position could not tell them
 * from transactions of which the log lacks entries. */
#include "operations/journal/table.h"

#include <lladd/stats.h>
#include <stdlib.h>

enum {
    MARK_STEP = 4096, /* least distance of two marks, in bytes of log */
    MARKS = 4096      /* with so many marks, every second one is dropped */
};

struct mark {
    uint64_t at, low;
};

struct lladd_journal_follower {
    struct lladd_db *db;
    struct ll_journal_scan scan; /* only `open` is used: it has all open transactions */
    struct ll_journal_kinds kinds;
    struct lladd_log_cursor *log, *entries;
    uint64_t *tags; /* ascending */
    size_t n_tags;
    uint64_t commit, start; /* gives commits at or after `commit`; reads from `start` on */
    uint64_t upto;          /* gives no commits above it */
    uint64_t at;    /* what the log has below this LSN has been read and given */
    uint64_t again; /* LSN of a record that was read but could not be processed, or 0 */
    bool fresh;     /* log from `at` on may have been truncated before the next record is read */

    struct ll_journal_open *now; /* its entries are given now; NULL: no transaction's */
    uint64_t committed;          /* its commit */
    size_t step;                 /* the step to give next */
    size_t own;     /* if that is a rollover: the step to look at next, of those that may move */
    bool moved;     /* if it is a rollover: the entries of other commits have been given */
    size_t *rolls;  /* indexes of the steps of `now` that are rollovers and are not annulled */
    size_t n_rolls, cap_rolls;
    struct lladd_journal_follower *inner;

    struct mark *marks; /* ascending */
    size_t n_marks, cap_marks;
};

/* ---- opening --------------------------------------------------------------------------------- */

static int no_memory(struct lladd_error *err)
{
    return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory to follow the journal");
}

static int begins_later(struct lladd_error *err, uint64_t needs, uint64_t oldest)
{
    int rc = lladd_error_set(err, LLADD_OUT_OF_RANGE,
                             "the journal is followed from LSN %llu on; the log begins at %llu",
                             (unsigned long long)needs, (unsigned long long)oldest);
    if (err)
        err->lsn = lladd_lsn_of(needs);
    return rc;
}

/* Does the log have all records from this LSN on? The LSN may be below the oldest record: then the
 * log may have a gap from the LSN, or from before it, to this record. The log has such a gap where
 * it goes on after a crash. lladd_log_keep knows gaps, but waits for checkpoints. */
static int reaches(struct lladd_db *db, uint64_t lsn, uint64_t *oldest, struct lladd_error *err)
{
    struct lladd_stats s = {.struct_size = sizeof s};
    struct lladd_log_hold *hold;
    int rc = lladd_stats_get(db, &s);
    if (rc)
        return lladd_error_set(err, rc, "the oldest LSN of the log is unknown");
    *oldest = s.log_oldest;
    if (lsn >= s.log_oldest)
        return 0;
    rc = lladd_log_keep(db, "journal follower", lladd_lsn_of(lsn), &hold, err);
    if (rc)
        return rc == LLADD_OUT_OF_RANGE ? begins_later(err, lsn, s.log_oldest) : rc;
    lladd_log_release(hold);
    return 0;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static bool follows(const struct lladd_journal_follower *f, uint64_t tag)
{
    return bsearch(&tag, f->tags, f->n_tags, sizeof tag, by_number) != NULL;
}

static void free_follower(struct lladd_journal_follower *f)
{
    ll_operations__journal_scan_free(&f->scan);
    lladd_log_close(f->log);
    lladd_log_close(f->entries);
    lladd_mem_free(f->db, f->tags);
    lladd_mem_free(f->db, f->rolls);
    lladd_mem_free(f->db, f->marks);
    lladd_mem_free(f->db, f);
}

/* A tag is the LSN of its MAKE record, so no transaction that committed before it has entries. */
static int open_at(struct lladd_journal_follower *f, struct lladd_journal_position at,
                   struct lladd_error *err)
{
    uint64_t oldest;
    f->commit = at.commit.v > f->tags[0] ? at.commit.v : f->tags[0];
    uint64_t from = at.from.v < f->commit ? at.from.v : f->commit;
    TRY(reaches(f->db, from ? from : f->commit, &oldest, err));
    f->start = f->at = from ? from : oldest;
    f->fresh = true;
    TRY(lladd_log_open(f->db, lladd_lsn_of(f->start), NULL, &f->log, err));
    return lladd_log_open(f->db, lladd_lsn_of(0), NULL, &f->entries, err);
}

static int open_follower(struct lladd_db *db, const uint64_t *tags, size_t n,
                         struct lladd_journal_position at, uint64_t upto,
                         struct lladd_journal_follower **out, struct lladd_error *err)
{
    struct lladd_journal_follower *f = lladd_mem_alloc(db, sizeof *f);
    if (!f)
        return no_memory(err);
    memset(f, 0, sizeof *f);
    f->db = f->scan.db = db;
    f->upto = upto;
    ll_operations__journal_kinds(&f->kinds);
    f->tags = lladd_mem_alloc(db, n * sizeof *tags);
    int rc = f->tags ? 0 : no_memory(err);
    if (!rc) {
        memcpy(f->tags, tags, n * sizeof *tags);
        f->n_tags = n;
        qsort(f->tags, n, sizeof *tags, by_number);
        rc = open_at(f, at, err);
    }
    if (rc)
        free_follower(f);
    else
        *out = f;
    return rc;
}

int lladd_journal_follow_open(struct lladd_db *db, const uint64_t *tags, size_t n,
                              struct lladd_journal_position at, struct lladd_journal_follower **out,
                              struct lladd_error *err)
{
    struct ll_journal *j;
    TRY(ll_operations__journal_of(db, &j, err));
    if (!out || !tags || !n || n > SIZE_MAX / sizeof *tags)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "out is NULL, or there are no tags");
    return open_follower(db, tags, n, at, UINT64_MAX, out, err);
}

void lladd_journal_follow_close(struct lladd_journal_follower *f)
{
    for (struct lladd_journal_follower *inner; f; f = inner) {
        inner = f->inner;
        free_follower(f);
    }
}

/* ---- positions ------------------------------------------------------------------------------- */

/* The smallest id of the transactions that are open at f->at, or f->at. A transaction that began
 * before the log that is read does not count: its entries are never given. */
static uint64_t lowest(const struct lladd_journal_follower *f)
{
    uint64_t low = f->at;
    for (struct ll_index_node *n = NULL;
         (n = ll_operations__index_next(&f->scan.open, n)) != NULL;)
        low = n->key < low ? n->key : low;
    return low > f->start ? low : f->start;
}

/* Adds a mark at f->at, if the last one is far enough from it. The distance grows with the log that
 * the marks cover, so their number is bounded. If there is no memory, the mark is left out, and
 * positions are less precise. */
static void set_mark(struct lladd_journal_follower *f)
{
    size_t n = f->n_marks;
    uint64_t step = n ? (f->marks[n - 1].at - f->marks[0].at) / (MARKS / 2) : 0;
    step = step > MARK_STEP ? step : MARK_STEP;
    if (f->at < (n ? f->marks[n - 1].at : f->start) + step)
        return;
    if (n == MARKS) {
        for (size_t i = 0; i < MARKS / 2; i++)
            f->marks[i] = f->marks[2 * i];
        f->n_marks = n = MARKS / 2;
    }
    if (ll_operations__grow(f->db, &f->marks, n + 1, &f->cap_marks, sizeof *f->marks))
        return;
    f->marks[f->n_marks++] = (struct mark){f->at, lowest(f)};
}

struct lladd_journal_position lladd_journal_follow_position(struct lladd_journal_follower *f,
                                                            lladd_lsn commit)
{
    if (commit.v == 0) /* the follower may still be reading the log before `commit` */
        commit.v = f->at > f->commit ? f->at : f->commit;
    if (commit.v >= f->at)
        return (struct lladd_journal_position){commit, lladd_lsn_of(lowest(f))};
    size_t n = 0;
    while (n < f->n_marks && f->marks[n].at <= commit.v)
        n++;
    if (n > 1) { /* later calls need no mark before the last one of these */
        memmove(f->marks, f->marks + n - 1, (f->n_marks - (n - 1)) * sizeof *f->marks);
        f->n_marks -= n - 1;
    }
    uint64_t low = n ? f->marks[0].low : f->start;
    return (struct lladd_journal_position){commit, lladd_lsn_of(low < commit.v ? low : commit.v)};
}

/* ---- reading --------------------------------------------------------------------------------- */

static int not_whole(const struct lladd_journal_follower *f, const struct lladd_log_entry *e,
                     struct lladd_error *err)
{
    int rc = lladd_error_set(err, LLADD_OUT_OF_RANGE,
                             "the transaction that committed at LSN %llu began at %llu; the "
                             "journal is followed from LSN %llu on",
                             (unsigned long long)e->lsn.v, (unsigned long long)e->txn.v,
                             (unsigned long long)f->start);
    if (err)
        err->lsn = e->lsn;
    return rc;
}

/* Checks the rollovers of a transaction that committed, and lists them. */
static int list_rolls(struct lladd_journal_follower *f, const struct ll_journal_open *o,
                      lladd_lsn commit, struct lladd_error *err)
{
    f->n_rolls = 0;
    for (size_t i = 0; o->n_records && i < o->n_steps; i++) {
        const struct ll_journal_step *s = &o->steps[i];
        const struct ll_journal_record *r = s->more ? &o->records[s->more - 1] : NULL;
        if (!r || r->kind != LL_JOURNAL_ROLLOVER || ll_operations__journal_annulled(o, s->lsn))
            continue;
        if (r->upto >= commit.v || r->tag == r->other)
            return ll_operations__journal_bad(err, commit, "commits invalid records");
        if (ll_operations__grow(f->db, &f->rolls, f->n_rolls + 1, &f->cap_rolls, sizeof *f->rolls))
            return no_memory(err);
        f->rolls[f->n_rolls++] = i;
    }
    return 0;
}

static int see_end(struct lladd_journal_follower *f, const struct lladd_log_entry *e,
                   struct lladd_error *err)
{
    struct ll_journal_open *o =
        (struct ll_journal_open *)ll_operations__index_find(&f->scan.open, e->txn.v);
    bool counts = e->kind == f->kinds.commit && e->lsn.v >= f->commit;
    if (counts && e->txn.v < f->start)
        return not_whole(f, e, err);
    if (!o)
        return 0;
    if (!counts || !o->n_steps) {
        ll_operations__journal_forget(&f->scan, o);
        return 0;
    }
    TRY(list_rolls(f, o, e->lsn, err));
    f->now = o;
    f->committed = e->lsn.v;
    f->step = f->own = 0;
    f->moved = false;
    return 0;
}

static int see(struct lladd_journal_follower *f, const struct lladd_log_entry *e,
               struct lladd_error *err)
{
    if (e->kind == f->kinds.commit || e->kind == f->kinds.end)
        return see_end(f, e, err);
    if (e->txn.v == e->lsn.v && !ll_operations__journal_open_of(&f->scan, e->txn.v))
        return no_memory(err);
    if (ll_operations__journal_has(&f->kinds, e))
        return ll_operations__journal_see(&f->scan, e, err);
    return 0;
}

/* Log that is missing is reported with the LSN that was needed and with the oldest LSN. */
static int explain(const struct lladd_journal_follower *f, int rc, uint64_t lsn,
                   struct lladd_error *err)
{
    uint64_t oldest;
    int why = rc == LLADD_OUT_OF_RANGE ? reaches(f->db, lsn, &oldest, err) : 0;
    return why ? why : rc;
}

/* Reads one record. LLADD_END: there is none yet, or the follower has read to `upto`. */
static int read_one(struct lladd_journal_follower *f, struct lladd_error *err)
{
    struct lladd_log_entry e;
    uint64_t oldest, durable = lladd_durable_lsn(f->db).v;
    int rc = f->again ? lladd_log_read(f->log, lladd_lsn_of(f->again), &e, err)
                      : lladd_log_next(f->log, &e, err);
    if (rc == LLADD_END) {
        f->at = durable > f->at ? durable : f->at;
        f->fresh = true;
        return rc;
    }
    if (rc)
        return explain(f, rc, f->at, err);
    f->again = e.lsn.v;
    if (f->fresh)
        TRY(reaches(f->db, f->at, &oldest, err));
    f->fresh = false;
    if (e.lsn.v > f->upto)
        return LLADD_END;
    f->at = e.lsn.v;
    set_mark(f);
    TRY(see(f, &e, err));
    f->again = 0;
    if (!f->now)
        f->at++;
    return 0;
}

/* ---- giving ---------------------------------------------------------------------------------- */

/* Index of the rollover that moves an entry of the transaction itself, or SIZE_MAX. */
static size_t moved_by(const struct lladd_journal_follower *f, size_t step)
{
    const struct ll_journal_open *o = f->now;
    for (size_t i = 0; i < f->n_rolls; i++)
        if (f->rolls[i] > step &&
            o->records[o->steps[f->rolls[i]].more - 1].tag == o->steps[step].tag)
            return f->rolls[i];
    return SIZE_MAX;
}

static bool is_entry(const struct lladd_journal_follower *f, size_t step)
{
    const struct ll_journal_step *s = &f->now->steps[step];
    return !s->more && !ll_operations__journal_annulled(f->now, s->lsn);
}

static int give_entry(const struct lladd_journal_follower *f, size_t step, uint64_t tag,
                      struct lladd_journal_entry *out, struct lladd_error *err)
{
    uint64_t lsn = f->now->steps[step].lsn;
    *out = (struct lladd_journal_entry){
        .tag = tag, .commit = lladd_lsn_of(f->committed), .lsn = lladd_lsn_of(lsn)};
    int rc = ll_operations__journal_read(f->entries, tag, lsn, &out->bytes, err);
    return rc ? explain(f, rc, lsn, err) : 0;
}

/* The rollover that is the next step, if its entries are wanted; otherwise NULL. */
static const struct ll_journal_record *rollover(const struct lladd_journal_follower *f)
{
    const struct ll_journal_step *s = &f->now->steps[f->step];
    const struct ll_journal_record *r = s->more ? &f->now->records[s->more - 1] : NULL;
    bool wanted = r && r->kind == LL_JOURNAL_ROLLOVER && follows(f, r->other) &&
                  !ll_operations__journal_annulled(f->now, s->lsn);
    return wanted ? r : NULL;
}

/* Gives one entry of a rollover, or opens the inner follower for the entries of other commits. */
static int give_moved(struct lladd_journal_follower *f, const struct ll_journal_record *r,
                      struct lladd_journal_entry *out, bool *given, struct lladd_error *err)
{
    struct lladd_journal_position after = {.commit = lladd_lsn_of(r->from + 1)};
    if (!f->moved && r->upto > r->from)
        return open_follower(f->db, &r->tag, 1, after, r->upto, &f->inner, err);
    while (f->own < f->step) {
        size_t i = f->own;
        if (is_entry(f, i) && moved_by(f, i) == f->step) {
            TRY(give_entry(f, i, r->other, out, err));
            *given = true;
        }
        f->own++;
        if (*given)
            return 0;
    }
    f->own = 0;
    f->moved = false;
    f->step++;
    return 0;
}

/* Gives at most one entry of the transaction `now`. */
static int give(struct lladd_journal_follower *f, struct lladd_journal_entry *out, bool *given,
                struct lladd_error *err)
{
    const struct ll_journal_open *o = f->now;
    while (f->step < o->n_steps) {
        const struct ll_journal_record *r = rollover(f);
        if (r)
            return give_moved(f, r, out, given, err);
        uint64_t tag = o->steps[f->step].tag;
        if (is_entry(f, f->step) && follows(f, tag) && moved_by(f, f->step) == SIZE_MAX) {
            TRY(give_entry(f, f->step, tag, out, err));
            *given = true;
        }
        f->step++;
        if (*given)
            return 0;
    }
    ll_operations__journal_forget(&f->scan, f->now);
    f->now = NULL;
    f->at = f->committed + 1;
    return 0;
}

static struct lladd_journal_follower *innermost(struct lladd_journal_follower *f)
{
    while (f->inner)
        f = f->inner;
    return f;
}

/* The innermost follower has given all that a rollover moves. */
static void end_inner(struct lladd_journal_follower *f)
{
    while (f->inner->inner)
        f = f->inner;
    free_follower(f->inner);
    f->inner = NULL;
    f->moved = true;
}

int lladd_journal_follow_next(struct lladd_journal_follower *f, struct lladd_journal_entry *out,
                              struct lladd_error *err)
{
    TRY(lladd_check_process(f->db, err));
    for (;;) {
        struct lladd_journal_follower *in = innermost(f);
        bool given = false;
        int rc = in->now ? give(in, out, &given, err) : read_one(in, err);
        if (rc == LLADD_END && in != f)
            end_inner(f);
        else if (rc)
            return rc;
        if (given && in != f) {
            out->tag = rollover(f)->other;
            out->commit = lladd_lsn_of(f->committed);
        }
        if (given)
            return 0;
    }
}
