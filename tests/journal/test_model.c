/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random histories of the journal, compared with a model in memory. Interleaved transactions append
 * entries, roll back to savepoints, end and abort top actions, discard, roll over, commit, abort
 * and prepare. In between there are cleanings, checkpoints, closes and crashes. The log is kept
 * small.
 *
 * The model keeps for each tag the list of live entries, and for each transaction the list of its
 * changes. At a crash the transactions that are not prepared are gone.
 *
 * A follower of three of the tags reads along, and goes on after each crash. The model has the list
 * of entries that the follower must give. In some histories a pin keeps the whole log, and after a
 * crash the follower begins at any earlier commit. In the others a pin keeps the log from the
 * follower's position on, and there are no rollovers, which may need older log.
 */
#include "journal_fixture.h"

#include <lladd/log_read.h>
#include <stdio.h>

enum { TAGS = 5, TXNS = 4, STEPS = 1500 };

/* A change that a transaction has made: entry `number` in a tag, a rollover, or a discard. */
struct deed {
    enum { ENTRY, ROLL, DISCARD } what;
    unsigned tag, to;
    uint64_t number;
    uint64_t upto; /* DISCARD and ROLL concern the entries that were committed up to this commit of
                    * the model */
};

struct deeds {
    struct deed *list;
    size_t n, cap;
};

struct txn {
    struct lladd_txn *txn;
    struct deeds deeds;
    lladd_savepoint_id sp;
    size_t at_sp; /* number of changes at the savepoint */
    bool has_sp, prepared;
    bool claimed; /* was in doubt */
    struct lladd_gid gid;
};

struct live {
    uint64_t number, commit; /* `commit`: the number of the entry's commit; the model counts
                              * commits */
};

/* An entry that the follower must give. */
struct given {
    unsigned tag;
    uint64_t number, commit;
};

struct model_tag {
    uint64_t tag;
    struct live *list;
    size_t n, cap;
    int changing; /* the open transaction that has discarded entries of the tag, or has rolled it
                   * over; -1: none */
};

static struct fixture b;
static struct model_tag tags[TAGS];
static struct txn txns[TXNS];
static uint64_t numbers, commits, state;
/* LSNs of the model's commits. */
static lladd_lsn *lsn_of;
static size_t cap_lsn;
static struct {
    struct lladd_journal_follower *f;
    struct given *list;
    size_t n, cap, next; /* `next`: the next entry to be given */
    bool whole;          /* a pin keeps the whole log */
    struct lladd_journal_position at;
} stream;
enum { FOLLOWED = 3 }; /* tags 0, 1 and 2 */

static uint64_t draw(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

/* ---- the model ------------------------------------------------------------------------------- */

static void push_live(struct model_tag *t, struct live l)
{
    if (t->n == t->cap) {
        t->cap = t->cap ? 2 * t->cap : 16;
        t->list = realloc(t->list, t->cap * sizeof l);
        ck_assert_ptr_nonnull(t->list);
    }
    t->list[t->n++] = l;
}

static void push_deed(struct deeds *d, struct deed x)
{
    if (d->n == d->cap) {
        d->cap = d->cap ? 2 * d->cap : 16;
        d->list = realloc(d->list, d->cap * sizeof x);
        ck_assert_ptr_nonnull(d->list);
    }
    d->list[d->n++] = x;
}

static void drop_upto(struct model_tag *t, uint64_t upto)
{
    size_t kept = 0;
    for (size_t i = 0; i < t->n; i++)
        if (t->list[i].commit > upto)
            t->list[kept++] = t->list[i];
    t->n = kept;
}

static void push_given(unsigned tag, uint64_t number, uint64_t commit)
{
    if (tag >= FOLLOWED)
        return;
    if (stream.n == stream.cap) {
        stream.cap = stream.cap ? 2 * stream.cap : 64;
        stream.list = realloc(stream.list, stream.cap * sizeof *stream.list);
        ck_assert_ptr_nonnull(stream.list);
    }
    stream.list[stream.n++] = (struct given){tag, number, commit};
}

/* Is entry i moved by a later rollover of its own transaction? */
static bool moves_on(const struct deeds *d, size_t i)
{
    for (size_t k = i + 1; k < d->n; k++)
        if (d->list[k].what == ROLL && d->list[k].tag == d->list[i].tag)
            return true;
    return false;
}

/* Moves the entries of the tag that were committed before the rollover, and those of this
 * transaction. */
static void model_roll(const struct deed *d, uint64_t commit)
{
    struct model_tag *from = &tags[d->tag], *to = &tags[d->to];
    size_t kept = 0;
    for (size_t i = 0; i < from->n; i++) {
        if (from->list[i].commit <= d->upto || from->list[i].commit == commit) {
            push_live(to, (struct live){from->list[i].number, commit});
            push_given(d->to, from->list[i].number, commit);
        } else {
            from->list[kept++] = from->list[i];
        }
    }
    from->n = kept;
}

static void model_commit(struct txn *t)
{
    commits++;
    for (size_t i = 0; i < t->deeds.n; i++) {
        const struct deed *d = &t->deeds.list[i];
        if (d->what == ENTRY) {
            push_live(&tags[d->tag], (struct live){d->number, commits});
            if (!moves_on(&t->deeds, i))
                push_given(d->tag, d->number, commits);
        } else if (d->what == ROLL)
            model_roll(d, commits);
        else
            drop_upto(&tags[d->tag], d->upto);
    }
}

static void forget_txn(int i)
{
    txns[i].txn = NULL;
    txns[i].deeds.n = 0;
    txns[i].has_sp = txns[i].prepared = txns[i].claimed = false;
    for (int k = 0; k < TAGS; k++)
        if (tags[k].changing == i)
            tags[k].changing = -1;
}

/* ---- the contents ---------------------------------------------------------------------------- */

struct compare {
    const struct model_tag *tag;
    size_t at;
    uint64_t bytes;
    lladd_lsn last;
};

/* An entry consists of its number, in 8 bytes, and of more bytes. The number determines how
 * many. */
static size_t length_of(uint64_t number)
{
    return 8 + number % 37 + (number % 50 == 0 ? 3000 : 0);
}

static void is_entry(const struct lladd_journal_entry *e, uint64_t expected, uint64_t commit)
{
    uint64_t number;
    ck_assert_uint_ge(e->bytes.len, 8);
    memcpy(&number, e->bytes.data, 8);
    ck_assert_uint_eq(number, expected);
    ck_assert_uint_eq(e->bytes.len, length_of(number));
    const unsigned char *p = e->bytes.data;
    for (size_t i = 8; i < e->bytes.len; i++)
        ck_assert_uint_eq(p[i], (unsigned char)number);
    ck_assert_uint_eq(e->commit.v, lsn_of[commit].v);
}

static int compare_entry(void *ctx, const struct lladd_journal_entry *e, struct lladd_error *err)
{
    struct compare *c = ctx;
    (void)err;
    ck_assert_uint_lt(c->at, c->tag->n);
    is_entry(e, c->tag->list[c->at].number, c->tag->list[c->at].commit);
    ck_assert_uint_ge(e->commit.v, c->last.v);
    c->last = e->commit;
    c->at++;
    c->bytes += e->bytes.len;
    return 0;
}

static void compare_all(void)
{
    for (int i = 0; i < TAGS; i++) {
        struct compare c = {.tag = &tags[i]};
        struct lladd_journal_info info;
        ok_db(&b, lladd_journal_replay(b.db, tags[i].tag, compare_entry, &c, &b.err));
        ck_assert_uint_eq(c.at, tags[i].n);
        ck_assert_int_eq(journal_info(&b, tags[i].tag, &info), 0);
        ck_assert_uint_eq(info.entries, c.at);
        ck_assert_uint_eq(info.bytes, c.bytes);
        ck_assert_int_eq(info.oldest.v != 0, c.at != 0);
    }
}

/* ---- the follower ---------------------------------------------------------------------------- */

static void follow(void)
{
    uint64_t followed[FOLLOWED] = {tags[0].tag, tags[1].tag, tags[2].tag};
    ok_db(&b, lladd_journal_follow_open(b.db, followed, FOLLOWED, stream.at, &stream.f, &b.err));
}

static void stop_following(void)
{
    lladd_journal_follow_close(stream.f);
    stream.f = NULL;
}

/* Compares up to n entries of a follower with the model, from entry *next on. */
static int compare_given(struct lladd_journal_follower *f, uint64_t n, size_t *next)
{
    struct lladd_journal_entry e;
    int rc = 0;
    for (; n && !(rc = lladd_journal_follow_next(f, &e, &b.err)); n--) {
        ck_assert_uint_lt(*next, stream.n);
        const struct given *g = &stream.list[(*next)++];
        ck_assert_uint_eq(e.tag, tags[g->tag].tag);
        is_entry(&e, g->number, g->commit);
    }
    ck_assert_msg(rc == 0 || rc == LLADD_END, "%s", b.err.message);
    if (rc == LLADD_END)
        ck_assert_uint_eq(*next, stream.n);
    return rc;
}

/* Index of the first entry that a follower gives which begins at a commit. */
static size_t first_given(lladd_lsn commit)
{
    size_t i = 0;
    while (i < stream.n && lsn_of[stream.list[i].commit].v < commit.v)
        i++;
    return i;
}

/* Another follower begins at a position that this one gives for an earlier commit. */
static void compare_position(void)
{
    uint64_t followed[FOLLOWED] = {tags[0].tag, tags[1].tag, tags[2].tag};
    uint64_t commit = commits ? 1 + draw(commits) : 0;
    if (!commit || lsn_of[commit].v < stream.at.commit.v)
        return;
    struct lladd_journal_follower *other;
    struct lladd_journal_position p = lladd_journal_follow_position(stream.f, lsn_of[commit]);
    size_t next = first_given(p.commit);
    ck_assert_uint_eq(p.commit.v, lsn_of[commit].v);
    ck_assert_uint_le(p.from.v, p.commit.v);
    ok_db(&b, lladd_journal_follow_open(b.db, followed, FOLLOWED, p, &other, &b.err));
    compare_given(other, 1 + draw(100), &next);
    lladd_journal_follow_close(other);
}

/* Compares the next n entries with the model, or all, and then the end. Moves the pin. */
static void compare_stream(uint64_t n)
{
    (void)compare_given(stream.f, n, &stream.next);
    if (stream.whole) {
        compare_position();
        return;
    }
    struct lladd_journal_position reached = lladd_journal_follow_position(stream.f, (lladd_lsn){0});
    ck_assert_uint_ge(reached.commit.v, stream.at.commit.v);
    ck_assert_uint_ge(reached.from.v, stream.at.from.v);
    stream.at = reached;
    ok_db(&b, lladd_pin_set(b.db, "follower", reached.from, &b.err));
}

/* The handle is new. The follower goes on at its position or, if the whole log is there, at any
 * commit. Its position may be in the middle of a transaction: then the transaction comes again. */
static void follow_again(void)
{
    uint64_t commit = draw(commits + 1);
    if (stream.whole)
        stream.at = (struct lladd_journal_position){commit ? lsn_of[commit] : (lladd_lsn){0}, {0}};
    stream.next = first_given(stream.at.commit);
    follow();
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void append(struct txn *t, unsigned tag)
{
    unsigned char bytes[4096];
    uint64_t number = ++numbers;
    memset(bytes, (int)(unsigned char)number, sizeof bytes);
    memcpy(bytes, &number, 8);
    ok(t->txn,
       lladd_journal_append(t->txn, tags[tag].tag, lladd_span_of(bytes, length_of(number)), NULL));
    push_deed(&t->deeds, (struct deed){.what = ENTRY, .tag = tag, .number = number});
}

static bool may_change(int i, unsigned tag)
{
    return tags[tag].changing == -1 || tags[tag].changing == i;
}

/* Is a change of the tag refused? It is not known if the transaction that changes the tag was in
 * doubt: perhaps it had rolled its change back, or had discarded nothing. */
static bool is_busy(unsigned tag)
{
    return tags[tag].changing != -1 && !txns[tags[tag].changing].claimed;
}

static void change(int i, unsigned tag, unsigned to)
{
    struct txn *t = &txns[i];
    struct deed d = {.what = tag == to || !stream.whole ? DISCARD : ROLL, .tag = tag, .to = to};
    if (!may_change(i, tag)) {
        if (is_busy(tag))
            refuses(t->txn, LLADD_BUSY,
                    lladd_journal_discard(t->txn, tags[tag].tag, lladd_lsn_of(0)));
        return;
    }
    d.upto = tags[tag].n ? tags[tag].list[tags[tag].n - 1].commit : 0;
    if (d.what == ROLL) {
        for (size_t k = 0; k < t->deeds.n; k++)
            if (t->deeds.list[k].what == ROLL && t->deeds.list[k].to == tag) {
                refuses(t->txn, LLADD_BAD_STATE,
                        lladd_journal_rollover(t->txn, tags[tag].tag, tags[to].tag));
                return;
            }
        ok(t->txn, lladd_journal_rollover(t->txn, tags[tag].tag, tags[to].tag));
    } else {
        uint64_t some = tags[tag].n ? tags[tag].list[draw(tags[tag].n)].commit : 0;
        d.upto = draw(2) ? d.upto : some;
        ok(t->txn, lladd_journal_discard(t->txn, tags[tag].tag, lsn_of[d.upto]));
    }
    tags[tag].changing = i;
    push_deed(&t->deeds, d);
}

static void detour(struct txn *t)
{
    struct lladd_action action;
    size_t before = t->deeds.n;
    ok(t->txn, lladd_nta_begin(t->txn, &action));
    append(t, (unsigned)draw(TAGS));
    if (draw(2)) {
        ok(t->txn, lladd_nta_abort(t->txn, &action));
        t->deeds.n = before;
    } else {
        ok(t->txn, lladd_nta_end(t->txn, &action, LLADD_NO_OP, NULL, 0));
    }
}

static void go_back(struct txn *t)
{
    if (!t->has_sp) {
        ok(t->txn, lladd_savepoint(t->txn, &t->sp));
        t->at_sp = t->deeds.n;
        t->has_sp = true;
        return;
    }
    ok(t->txn, lladd_rollback_to(t->txn, t->sp));
    t->deeds.n = t->at_sp;
}

static bool rolls(const struct txn *t)
{
    for (size_t i = 0; i < t->deeds.n; i++)
        if (t->deeds.list[i].what == ROLL)
            return true;
    return false;
}

static void prepare(int i)
{
    char text[32];
    struct txn *t = &txns[i];
    snprintf(text, sizeof text, "%llu", (unsigned long long)++numbers);
    t->gid = fixture_gid(text);
    if (rolls(t)) {
        refuses(t->txn, LLADD_BAD_STATE, lladd_prepare(t->txn, &t->gid));
        return;
    }
    ok(t->txn, lladd_prepare(t->txn, &t->gid));
    t->prepared = true;
    t->has_sp = false;
}

/* Ends transaction i. Notes the LSN of a commit in lsn_of. */
static void end(int i, bool commits_it)
{
    struct txn *t = &txns[i];
    if (!commits_it) {
        abort_txn(t->txn);
        forget_txn(i);
        return;
    }
    lladd_lsn at = {0};
    ck_assert_int_eq(lladd_commit_async(t->txn, &at), 0);
    ok_db(&b, lladd_wait_durable(b.db, at, &b.err));
    if (at.v) {
        model_commit(t);
        if (commits >= cap_lsn) {
            cap_lsn = 2 * commits + 16;
            lsn_of = realloc(lsn_of, cap_lsn * sizeof *lsn_of);
            ck_assert_ptr_nonnull(lsn_of);
        }
        lsn_of[0] = lladd_lsn_of(0);
        lsn_of[commits] = at;
    }
    forget_txn(i);
}

/* Finds a transaction in doubt that is not claimed. Its abort was not durable. */
static int note_doubt(void *ctx, const struct lladd_in_doubt_info *info)
{
    struct lladd_gid *gid = ctx;
    if (!info->claimed)
        *gid = info->gid;
    return info->claimed ? 0 : LLADD_EXISTS;
}

static void abort_others(void)
{
    struct lladd_gid gid;
    struct lladd_txn *txn;
    while (lladd_in_doubt_each(b.db, note_doubt, &gid, &b.err) == LLADD_EXISTS) {
        ok_db(&b, lladd_in_doubt_claim(b.db, &gid, &txn, &b.err));
        abort_txn(txn);
    }
}

static void claim_all(void)
{
    for (int i = 0; i < TXNS; i++)
        if (txns[i].prepared) {
            ok_db(&b, lladd_in_doubt_claim(b.db, &txns[i].gid, &txns[i].txn, &b.err));
            txns[i].claimed = true;
        } else {
            forget_txn(i);
        }
    abort_others();
}

static void restart(bool clean)
{
    for (int i = 0; i < TXNS; i++)
        if (txns[i].txn && !txns[i].prepared && clean)
            end(i, false);
    if (draw(2))
        compare_stream(draw(200));
    stop_following();
    if (clean) {
        fixture_close(&b);
        fixture_open(&b);
    } else {
        fixture_crash(&b);
    }
    compare_all();
    claim_all();
    follow_again();
}

static void clean_some(void)
{
    unsigned tag = (unsigned)draw(TAGS);
    bool more = true;
    lladd_lsn below = lladd_object_applied_lsn(b.db);
    while (more) {
        int rc = lladd_journal_clean(b.db, tags[tag].tag, below, &more, &b.err);
        if (rc || is_busy(tag))
            ck_assert_int_eq(rc, tags[tag].changing == -1 ? 0 : LLADD_BUSY);
    }
    if (tags[tag].changing == -1) {
        struct lladd_journal_info info;
        ck_assert_int_eq(journal_info(&b, tags[tag].tag, &info), 0);
        ck_assert(info.oldest.v == 0 || info.oldest.v >= below.v);
    }
}

static void step(void)
{
    int i = (int)draw(TXNS);
    struct txn *t = &txns[i];
    uint64_t what = draw(100);
    if (what < 2)
        restart(what == 0);
    else if (what < 4)
        ok_db(&b, lladd_checkpoint(b.db, &b.err));
    else if (what < 6)
        clean_some();
    else if (what < 8)
        compare_all();
    else if (what < 10)
        compare_stream(draw(3) ? UINT64_MAX : draw(50));
    else if (!t->txn)
        t->txn = fixture_begin(&b);
    else if (what < 25 || t->prepared)
        end(i, draw(3) != 0);
    else if (what < 30)
        prepare(i);
    else if (what < 40)
        go_back(t);
    else if (what < 48)
        detour(t);
    else if (what < 56)
        change(i, (unsigned)draw(TAGS), (unsigned)draw(TAGS));
    else
        append(t, (unsigned)draw(TAGS));
}

static void run(uint64_t seed)
{
    char name[16];
    state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    journal_init(&b);
    b.options.log_segment_min = 16u << 10;
    stream.whole = seed % 2 == 0;
    b.options.log_limit_bytes = stream.whole ? 256u << 20 : 8u << 20;
    b.options.checkpoint_bytes = 64u << 10;
    fixture_open(&b);
    lsn_of = calloc(16, sizeof *lsn_of);
    cap_lsn = 16;
    numbers = commits = 0;
    for (int i = 0; i < TAGS; i++) {
        snprintf(name, sizeof name, "tag %d", i);
        tags[i] = (struct model_tag){.tag = journal_tag(&b, name), .changing = -1};
    }
    stream.n = stream.next = 0;
    stream.at = (struct lladd_journal_position){{0}, {0}};
    follow();
    ok_db(&b, lladd_pin_set(b.db, "follower", lladd_lsn_of(tags[0].tag), &b.err));
    for (int k = 0; k < STEPS; k++)
        step();
    compare_all();
    compare_stream(UINT64_MAX);
    restart(false);
    for (int i = 0; i < TXNS; i++) {
        if (txns[i].txn)
            end(i, true);
        free(txns[i].deeds.list);
        txns[i] = (struct txn){.txn = NULL};
    }
    compare_all();
    compare_stream(UINT64_MAX);
    stop_following();
    free(stream.list);
    memset(&stream, 0, sizeof stream);
    ck_assert_uint_le(journal_stats(&b).log_disk_bytes, b.options.log_limit_bytes);
    for (int i = 0; i < TAGS; i++)
        free(tags[i].list);
    free(lsn_of);
    fixture_free(&b);
}

START_TEST(random_histories)
{
    run((uint64_t)_i + 1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("journal model");
    TCase *tc = tcase_create("all");
#ifdef LL_TEST_SHORT
    tcase_add_loop_test(tc, random_histories, 0, 8);
#else
    tcase_add_loop_test(tc, random_histories, 0, 40);
#endif
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
