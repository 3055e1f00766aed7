/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * journal: entries are appended to tags, rolled back and discarded. A tag must have its committed
 * entries, in order, until they are discarded. journal.moves: the same, and also a rollover,
 * cleaning, and a transaction in doubt. In both, two followers read all that was ever committed in
 * the tags "b" and "c": the first one reads the first commit, the second one goes on after it.
 *
 * The tags are "a", "b" and "c". An entry is a number and its complement.
 */
#include "sim/subjects/subjects.h"

#include <lladd/bytes.h>
#include <lladd/extension.h>
#include <lladd/journal.h>
#include <lladd/log_read.h>
#include <string.h>

enum { TAGS = 3, ENTRIES = 24 };

static const char *const names[TAGS] = {"a", "b", "c"};

/* A step of a transaction. */
struct note {
    enum { APPENDS = 1, DISCARDS = 2, ROLLS = 3 } what;
    uint32_t tag, to, number;
};

struct shelf {
    uint32_t n[TAGS], number[TAGS][ENTRIES];
    uint32_t n_followed, followed[TAGS * ENTRIES];
};

static int configure(void *ctx, struct lladd_options *o, struct lladd_error *err)
{
    (void)ctx;
    return lladd_journal_register(o, err);
}

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_txn *txn;
    uint64_t tag;
    int rc = 0;
    (void)ctx;
    TRY(lladd_begin(db, NULL, &txn, err));
    for (int i = 0; !rc && i < TAGS; i++)
        rc = lladd_journal_acquire(txn, names[i], "sim", &tag);
    if (rc)
        return ll_sim_give_up(NULL, txn, rc, err);
    TRY(lladd_commit(txn));
    TRY(lladd_journal_find(db, names[0], &tag, err));
    return lladd_pin_set(db, "sim", lladd_lsn_of(tag), err);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static int append_unnoted(struct lladd_txn *txn, uint32_t tag, uint32_t number)
{
    unsigned char bytes[8];
    uint64_t t;
    lladd_put32(bytes, number);
    lladd_put32(bytes + 4, ~number);
    TRY(lladd_journal_find(lladd_txn_db(txn), names[tag], &t, lladd_txn_error_out(txn)));
    return lladd_journal_append(txn, t, lladd_span_of(bytes, sizeof bytes), NULL);
}

static int append(struct lladd_sim *sim, struct lladd_txn *txn, uint32_t tag, uint32_t number)
{
    struct note n = {.what = APPENDS, .tag = tag, .number = number};
    TRY(append_unnoted(txn, tag, number));
    return lladd_sim_note(sim, txn, &n, sizeof n);
}

static int discard(struct lladd_sim *sim, struct lladd_txn *txn, uint32_t tag)
{
    struct note n = {.what = DISCARDS, .tag = tag};
    uint64_t t;
    TRY(lladd_journal_find(lladd_txn_db(txn), names[tag], &t, lladd_txn_error_out(txn)));
    TRY(lladd_journal_discard(txn, t, lladd_lsn_of(0)));
    return lladd_sim_note(sim, txn, &n, sizeof n);
}

static int roll(struct lladd_sim *sim, struct lladd_txn *txn, uint32_t tag, uint32_t to)
{
    struct note n = {.what = ROLLS, .tag = tag, .to = to};
    struct lladd_error *err = lladd_txn_error_out(txn);
    uint64_t t, u;
    TRY(lladd_journal_find(lladd_txn_db(txn), names[tag], &t, err));
    TRY(lladd_journal_find(lladd_txn_db(txn), names[to], &u, err));
    TRY(lladd_journal_rollover(txn, t, u));
    return lladd_sim_note(sim, txn, &n, sizeof n);
}

/* ---- transactions ---------------------------------------------------------------------------- */

static int takes_back(struct lladd_sim *sim, struct lladd_txn *txn)
{
    lladd_savepoint_id here;
    TRY(append(sim, txn, 0, 4));
    TRY(append(sim, txn, 1, 3));
    TRY(lladd_sim_savepoint(sim, txn, &here));
    TRY(append(sim, txn, 0, 5));
    TRY(discard(sim, txn, 1));
    TRY(append(sim, txn, 2, 6));
    TRY(lladd_sim_rollback_to(sim, txn, here));
    TRY(append(sim, txn, 2, 7));
    return lladd_sim_commit(sim, txn);
}

static int gives_up(struct lladd_sim *sim, struct lladd_txn *txn)
{
    TRY(discard(sim, txn, 0));
    TRY(append(sim, txn, 1, 8));
    return lladd_sim_abort(sim, txn);
}

/* The transaction never ends. A checkpoint follows. */
static int stays_open(struct lladd_sim *sim, struct lladd_txn *txn)
{
    TRY(append(sim, txn, 2, 9));
    TRY(discard(sim, txn, 2));
    return append(sim, txn, 1, 10);
}

static int appends(struct lladd_sim *sim, struct lladd_txn *txn)
{
    TRY(append(sim, txn, 0, 17));
    return lladd_sim_commit(sim, txn);
}

static int rolls(struct lladd_sim *sim, struct lladd_txn *txn)
{
    TRY(append(sim, txn, 1, 11));
    TRY(append(sim, txn, 0, 12));
    TRY(roll(sim, txn, 0, 1));
    TRY(append(sim, txn, 1, 13));
    TRY(append(sim, txn, 0, 14));
    return lladd_sim_commit(sim, txn);
}

static int discards(struct lladd_sim *sim, struct lladd_txn *txn)
{
    TRY(discard(sim, txn, 0));
    TRY(append(sim, txn, 0, 15));
    return lladd_sim_commit(sim, txn);
}

static int is_prepared(struct lladd_sim *sim, struct lladd_txn *txn)
{
    struct lladd_gid gid = {.format = 7, .gtrid_length = 1};
    TRY(append(sim, txn, 2, 18));
    TRY(append(sim, txn, 0, 16));
    TRY(discard(sim, txn, 0));
    TRY(lladd_sim_prepare(sim, txn, &gid));
    return lladd_sim_commit(sim, txn);
}

static int in_txn(struct lladd_sim *sim, struct lladd_db *db,
                  int (*what)(struct lladd_sim *, struct lladd_txn *), struct lladd_error *err)
{
    struct lladd_txn *txn;
    TRY(lladd_sim_begin(sim, db, NULL, &txn, err));
    int rc = what(sim, txn);
    return rc ? ll_sim_give_up(sim, txn, rc, err) : 0;
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    (void)ctx;
    TRY(in_txn(sim, db, takes_back, err));
    TRY(in_txn(sim, db, stays_open, err));
    TRY(lladd_checkpoint(db, err));
    TRY(in_txn(sim, db, discards, err));
    return in_txn(sim, db, gives_up, err);
}

static int run_moves(void *ctx, struct lladd_sim *sim, struct lladd_db *db,
                     struct lladd_error *err)
{
    uint64_t b;
    (void)ctx;
    TRY(in_txn(sim, db, appends, err));
    TRY(in_txn(sim, db, rolls, err));
    TRY(lladd_journal_find(db, "b", &b, err));
    TRY(lladd_journal_clean(db, b, lladd_object_applied_lsn(db), NULL, err));
    TRY(lladd_checkpoint(db, err));
    return in_txn(sim, db, is_prepared, err);
}

static int go_on(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_txn *txn;
    (void)ctx;
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = append_unnoted(txn, 2, 99);
    return rc ? ll_sim_give_up(NULL, txn, rc, err) : lladd_commit(txn);
}

/* ---- the model ------------------------------------------------------------------------------- */

static void put(struct shelf *s, uint32_t tag, uint32_t number)
{
    s->number[tag][s->n[tag]++] = number;
    if (tag) /* the followed tags; no entry is rolled over out of them */
        s->followed[s->n_followed++] = number;
}

static void apply(void *ctx, void *model, struct lladd_span note)
{
    struct shelf *s = model;
    struct note n;
    (void)ctx;
    memcpy(&n, note.data, sizeof n);
    if (n.what == APPENDS) {
        put(s, n.tag, n.number);
        return;
    }
    for (uint32_t i = 0; n.what == ROLLS && i < s->n[n.tag]; i++)
        put(s, n.to, s->number[n.tag][i]);
    /* A discard keeps the transaction's own entries. Of the transactions that commit, only
     * is_prepared has one: it appends 16 before it discards. */
    uint32_t own = 0;
    if (n.what == DISCARDS && s->n[n.tag] && s->number[n.tag][s->n[n.tag] - 1] == 16)
        own = 1;
    if (own)
        s->number[n.tag][0] = 16;
    s->n[n.tag] = own;
}

static int model_dump(void *ctx, const void *model, struct lladd_sink *sink)
{
    const struct shelf *s = model;
    (void)ctx;
    for (uint32_t t = 0; t < TAGS; t++) {
        TRY(lladd_sink_printf(sink, "%s:", names[t]));
        for (uint32_t i = 0; i < s->n[t]; i++)
            TRY(lladd_sink_printf(sink, " %u", s->number[t][i]));
        TRY(lladd_sink_printf(sink, "\n"));
    }
    TRY(lladd_sink_printf(sink, "followed:"));
    for (uint32_t i = 0; i < s->n_followed; i++)
        TRY(lladd_sink_printf(sink, " %u", s->followed[i]));
    return lladd_sink_printf(sink, "\n");
}

static int dump_entry(void *ctx, const struct lladd_journal_entry *e, struct lladd_error *err)
{
    const unsigned char *p = e->bytes.data;
    if (e->bytes.len != 8 || lladd_get32(p) != ~lladd_get32(p + 4))
        return lladd_error_set(err, LLADD_BAD_STATE, "LSN %llu: an entry that was never appended",
                               (unsigned long long)e->lsn.v);
    return lladd_sink_printf(ctx, " %u", lladd_get32(p));
}

/* Writes entries: those of one commit, or all. *at gets the position after them. LLADD_END: there
 * are no more. */
static int dump_followed(struct lladd_db *db, struct lladd_journal_position *at, bool one,
                         struct lladd_sink *sink, struct lladd_error *err)
{
    struct lladd_journal_follower *f;
    struct lladd_journal_entry e;
    uint64_t tags[2];
    lladd_lsn commit = {0};
    TRY(lladd_journal_find(db, names[1], &tags[0], err));
    TRY(lladd_journal_find(db, names[2], &tags[1], err));
    TRY(lladd_journal_follow_open(db, tags, 2, *at, &f, err));
    int rc = 0;
    while (!rc && (rc = lladd_journal_follow_next(f, &e, err)) == 0) {
        if (one && commit.v && e.commit.v != commit.v)
            break;
        commit = e.commit;
        rc = dump_entry(sink, &e, err);
    }
    *at = lladd_journal_follow_position(f, lladd_lsn_of(commit.v + 1));
    lladd_journal_follow_close(f);
    return rc;
}

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink, struct lladd_error *err)
{
    struct lladd_journal_position at = {{0}, {0}};
    (void)ctx;
    for (uint32_t t = 0; t < TAGS; t++) {
        uint64_t tag;
        TRY(lladd_sink_printf(sink, "%s:", names[t]));
        TRY(lladd_journal_find(db, names[t], &tag, err));
        TRY(lladd_journal_replay(db, tag, dump_entry, sink, err));
        TRY(lladd_sink_printf(sink, "\n"));
    }
    TRY(lladd_sink_printf(sink, "followed:"));
    int rc = dump_followed(db, &at, true, sink, err);
    if (!rc)
        rc = dump_followed(db, &at, false, sink, err);
    return rc == LLADD_END ? lladd_sink_printf(sink, "\n") : rc;
}

static void describe(void *ctx, struct lladd_span note, struct lladd_sink *sink)
{
    struct note n;
    (void)ctx;
    memcpy(&n, note.data, sizeof n);
    if (n.what == APPENDS)
        (void)lladd_sink_printf(sink, "appends %u to %s", n.number, names[n.tag]);
    else if (n.what == DISCARDS)
        (void)lladd_sink_printf(sink, "discards %s", names[n.tag]);
    else
        (void)lladd_sink_printf(sink, "rolls %s over into %s", names[n.tag], names[n.to]);
}

static const char *const operations[] = {"journal", NULL};
static const struct lladd_sim_excuse excuses[] = {
    {"journal", (1u << LLADD_SIM_PATHS) - 1,
     "the class has no redo and no undo: its entries are read from the log"},
    {NULL, 0, NULL}};

const struct lladd_sim_subject ll_sim_subject_journal = {
    .struct_size = sizeof ll_sim_subject_journal,
    .name = "journal",
    .about = "entries with tags: appended, rolled back, discarded",
    .configure = configure,
    .setup = setup,
    .run = run,
    .dump = dump,
    .model_size = sizeof(struct shelf),
    .model_apply = apply,
    .model_dump = model_dump,
    .describe = describe,
    .go_on = go_on,
    .operations = operations,
    .excuses = excuses,
    .repeats = true,
};

const struct lladd_sim_subject ll_sim_subject_journal_moves = {
    .struct_size = sizeof ll_sim_subject_journal_moves,
    .name = "journal.moves",
    .about = "entries with tags: rolled over, cleaned, in doubt",
    .configure = configure,
    .setup = setup,
    .run = run_moves,
    .dump = dump,
    .model_size = sizeof(struct shelf),
    .model_apply = apply,
    .model_dump = model_dump,
    .describe = describe,
    .go_on = go_on,
    .operations = operations,
    .excuses = excuses,
    .repeats = true,
};
