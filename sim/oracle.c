/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * oracle: recovers a database from what a crash has left, and judges it.
 *
 * Every recovery must succeed (O11), yield the right contents (O1, O2), satisfy the subject's check
 * (O3), know the prepared transactions (O9), and release its memory (O12). Recoveries with the same
 * calls, bytes and contents have the same *ending*. Three things are checked only once for each
 * ending: new transactions (O6), the pages (O10), and a clean close.
 */
#include "sim/sim_private.h"

#include <lladd/pages.h>
#include <lladd/records.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- buffers ----------------------------------------------------------------------------- */

static int buffer_write(void *ctx, const void *bytes, size_t len)
{
    struct ll_sim_buffer *b = ctx;
    if (len > b->size - b->len) {
        size_t size = b->size + len + 256;
        size += size / 2;
        unsigned char *more = realloc(b->bytes, size);
        if (!more)
            return LLADD_NO_MEMORY;
        b->bytes = more;
        b->size = size;
    }
    if (len)
        memcpy(b->bytes + b->len, bytes, len);
    b->len += len;
    return 0;
}

void ll_sim_buffer_init(struct ll_sim_buffer *b)
{
    memset(b, 0, sizeof *b);
    b->sink = (struct lladd_sink){b, buffer_write, 0};
}

void ll_sim_buffer_clear(struct ll_sim_buffer *b)
{
    b->len = 0;
    b->sink.failed = 0;
}

void ll_sim_buffer_free(struct ll_sim_buffer *b)
{
    free(b->bytes);
    b->bytes = NULL;
    b->len = b->size = 0;
}

/* ---- objections -------------------------------------------------------------------------- */

int ll_sim_object(struct ll_sim_verdict *v, enum lladd_sim_oracle oracle, const char *fmt, ...)
{
    if (v->oracle) /* the first violation is kept, since it says most */
        return 0;
    va_list args;
    v->oracle = oracle;
    va_start(args, fmt);
    (void)vsnprintf(v->message, sizeof v->message, fmt, args);
    va_end(args);
    return 0;
}

/* Returns the message of the handle, or of a transaction that has not ended; NULL: no message. */
static const char *told(const struct lladd_sim *sim, struct lladd_db *db, int rc,
                        struct lladd_error *own)
{
    if (db && lladd_db_error(db, own) && own->message[0])
        return own->message;
    /* After a crash the transaction handles are invalid: their memory was reused. */
    bool alive = sim->running == &sim->workload || !sim->running; /* NULL: contract_subject.c */
    uint32_t n = alive ? sim->record.n_txns : 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct lladd_txn *txn = sim->record.txn[i]->handle;
        if (txn && lladd_txn_error(txn)->code == rc && lladd_txn_error(txn)->message[0])
            return lladd_txn_error(txn)->message;
    }
    return NULL;
}

const char *ll_sim_explain(const struct lladd_sim *sim, struct lladd_db *db, int rc,
                           struct lladd_error *err)
{
    struct lladd_error own = LLADD_ERROR_INIT;
    const struct lladd_dst *d = &sim->dst;
    if (err->message[0] || !rc)
        return err->message;
    const char *text = told(sim, db, rc, &own);
    if (text) {
        (void)lladd_error_set(err, rc, "%s", text);
        return err->message;
    }
    text = lladd_code_text(rc);
    if (!text)
        text = "not an error code of the library";
    if (d->op && !sim->crossing) /* with threads, the last callback of a replay may differ */
        (void)lladd_error_set(err, rc,
                              "%s; no message was given, and the last callback was %s of \"%s\"",
                              text, d->callback, d->op);
    else
        (void)lladd_error_set(err, rc, "%s; no message was given", text);
    return err->message;
}

struct judging {
    struct lladd_sim *sim;
    struct lladd_db *db;
    const struct ll_sim_claim *claim;
    struct ll_sim_verdict *verdict;
    struct lladd_gid gid[16]; /* transactions in doubt, as the database reports them */
    uint32_t in_doubt;
    struct lladd_gid ended[16]; /* heuristic outcomes, as the database reports them */
    unsigned outcome[16];
    uint32_t n_ended;
    uint32_t resolved; /* 0: transactions in doubt were aborted, 1: they were committed */
};

static const char *why(const struct judging *j, int rc, struct lladd_error *err)
{
    return ll_sim_explain(j->sim, j->db, rc, err);
}

/* ---- transactions in doubt (O9) ---------------------------------------------------------- */

enum { GIDS = sizeof((struct judging *)0)->gid / sizeof((struct judging *)0)->gid[0] };

static bool same_gid(const struct lladd_gid *a, const struct lladd_gid *b)
{
    return a->format == b->format && a->gtrid_length == b->gtrid_length &&
           a->bqual_length == b->bqual_length &&
           memcmp(a->data, b->data, a->gtrid_length + a->bqual_length) == 0;
}

static int see_doubt(void *ctx, const struct lladd_in_doubt_info *info)
{
    struct judging *j = ctx;
    if (j->in_doubt < GIDS)
        j->gid[j->in_doubt] = info->gid;
    j->in_doubt++;
    return 0;
}

static int see_outcome(void *ctx, const struct lladd_heuristic_info *info)
{
    struct judging *j = ctx;
    if (j->n_ended < GIDS) {
        j->ended[j->n_ended] = info->gid;
        j->outcome[j->n_ended] = info->outcome;
    }
    j->n_ended++;
    return 0;
}

/* Does the database remember the right heuristic outcomes for the first k decisions? */
static bool outcomes_fit(const struct judging *j, uint32_t k)
{
    const struct ll_sim_record *r = &j->sim->record;
    if (j->n_ended != j->sim->expected[k].outcomes)
        return false;
    for (uint32_t t = 0; j->n_ended && j->n_ended <= GIDS && t < r->n_txns; t++) {
        unsigned outcome = ll_sim_outcome_after(r, t, k);
        bool there = !outcome;
        for (uint32_t i = 0; i < j->n_ended; i++)
            there |= j->outcome[i] == outcome && same_gid(&r->txn[t]->gid, &j->ended[i]);
        if (!there)
            return false;
    }
    return true;
}

/* Are the right transactions in doubt, and the right outcomes remembered, for the first k
 * decisions? */
static bool doubt_fits(const struct judging *j, uint32_t k)
{
    const struct ll_sim_record *r = &j->sim->record;
    if (j->in_doubt != j->sim->expected[k].in_doubt || !outcomes_fit(j, k))
        return false;
    for (uint32_t t = 0; j->in_doubt && t < r->n_txns; t++) {
        bool there = false;
        if (!ll_sim_in_doubt_after(r, t, k))
            continue;
        for (uint32_t i = 0; i < j->in_doubt && i < GIDS; i++)
            there |= same_gid(&r->txn[t]->gid, &j->gid[i]);
        if (!there && j->in_doubt <= GIDS)
            return false;
    }
    return true;
}

/* Commits or aborts all transactions in doubt. */
static int resolve(struct judging *j)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    if (j->in_doubt == 0 || j->in_doubt > GIDS)
        return 0;
    j->resolved = ll_sim_choose(j->sim, LL_SIM_C_RESOLVE, 2, 0, 2);
    for (uint32_t i = 0; i < j->in_doubt; i++) {
        struct lladd_txn *txn;
        int rc = j->verdict->code = lladd_in_doubt_claim(j->db, &j->gid[i], &txn, &err);
        if (rc)
            return ll_sim_object(j->verdict, LLADD_SIM_O_IN_DOUBT,
                                 "a transaction in doubt cannot be claimed: %s",
                                 why(j, rc, &err));
        rc = j->verdict->code = j->resolved ? lladd_commit(txn) : lladd_abort(txn);
        if (rc)
            return ll_sim_object(j->verdict, LLADD_SIM_O_IN_DOUBT,
                                 "a transaction in doubt cannot be %s: %s",
                                 j->resolved ? "committed" : "aborted", lladd_code_name(rc));
    }
    return 0;
}

/* ---- contents (O1, O2) ------------------------------------------------------------------- */

/* Computes the dump that is expected after the first k decisions, and after the transactions in
 * doubt have been committed or aborted. */
static int expected_dump(struct judging *j, uint32_t k, struct lladd_span *out)
{
    struct lladd_sim *sim = j->sim;
    const struct ll_sim_expected *e = &sim->expected[k];
    *out = lladd_span_of(e->dump, e->dump_len);
    if (e->in_doubt == 0 || !j->resolved)
        return 0;
    memcpy(sim->scratch_model, e->model, sim->subject.model_size);
    for (uint32_t t = 0; t < sim->record.n_txns; t++)
        if (ll_sim_in_doubt_after(&sim->record, t, k))
            ll_sim_model_apply(sim, sim->scratch_model, t);
    ll_sim_buffer_clear(&sim->text);
    int rc = sim->subject.model_dump(sim->subject.ctx, sim->scratch_model, &sim->text.sink);
    *out = lladd_span_of(sim->text.bytes, sim->text.len);
    return rc ? rc : sim->text.sink.failed;
}

static int fits(struct judging *j, uint32_t k, bool *out)
{
    *out = false;
    if (!doubt_fits(j, k))
        return 0;
    *out = true;
    if (!j->sim->subject.dump || !j->sim->subject.model_size)
        return 0;
    struct lladd_span want;
    int rc = expected_dump(j, k, &want);
    *out = !rc && want.len == j->sim->dump.len &&
           (want.len == 0 || memcmp(want.data, j->sim->dump.bytes, want.len) == 0);
    return rc;
}

/* Escapes bytes that cannot be printed. */
static void printable(struct lladd_span s, char *out, size_t size)
{
    const unsigned char *p = s.data;
    size_t n = 0;
    for (size_t i = 0; i < s.len && n + 5 < size; i++) {
        if (p[i] >= ' ' && p[i] < 127)
            out[n++] = (char)p[i];
        else
            n += (size_t)snprintf(out + n, 5, p[i] == '\n' ? " | " : "\\x%02x", p[i]);
    }
    out[n] = '\0';
}

/* Reports a violation: the contents are those after k decisions, and the claim does not allow k. */
static int wrong_number(struct judging *j, uint32_t k)
{
    const struct ll_sim_record *r = &j->sim->record;
    const struct ll_sim_claim *c = j->claim;
    if (c->again)
        return ll_sim_object(j->verdict, LLADD_SIM_O_AGAIN,
                             "the recovery before had found %u decisions of the workload in force, "
                             "this one finds %u",
                             c->lo, k);
    if (k < c->lo) {
        static const char *const names[] = {"commit", "prepare", "abort", "forgetting"};
        unsigned kind = r->decision[k].kind;
        bool commit = kind == LL_SIM_COMMIT;
        return ll_sim_object(j->verdict, commit ? LLADD_SIM_O_LOST : LLADD_SIM_O_IN_DOUBT,
                             "the %s of transaction %u (decision %u) was acknowledged and is lost",
                             names[kind], r->decision[k].txn + 1, k + 1);
    }
    return ll_sim_object(j->verdict, LLADD_SIM_O_CONTENTS,
                         "decision %u, of transaction %u, is in force before it was requested", k,
                         r->decision[k - 1].txn + 1);
}

static int contents_wrong(struct judging *j)
{
    const struct ll_sim_claim *c = j->claim;
    char have[130], want[130], undone[130];
    struct lladd_span expected;
    bool doubt = false;
    for (uint32_t k = 0; k <= j->sim->record.n_decisions; k++) {
        bool ok;
        int rc = fits(j, k, &ok);
        if (rc || ok)
            return rc ? rc : wrong_number(j, k);
        doubt |= k >= c->lo && k <= c->hi && doubt_fits(j, k);
    }
    if (!doubt)
        return ll_sim_object(j->verdict, LLADD_SIM_O_IN_DOUBT,
                             "%u transactions are in doubt and %u outcomes are remembered; after "
                             "%u decisions, %u and %u are expected",
                             j->in_doubt, j->n_ended, c->lo, j->sim->expected[c->lo].in_doubt,
                             j->sim->expected[c->lo].outcomes);
    int rc = expected_dump(j, c->lo, &expected);
    if (rc)
        return rc;
    ll_sim_cover_undone(&j->sim->cover, undone, sizeof undone);
    printable(expected, want, sizeof want);
    printable(lladd_span_of(j->sim->dump.bytes, j->sim->dump.len), have, sizeof have);
    return ll_sim_object(j->verdict, c->again ? LLADD_SIM_O_AGAIN : LLADD_SIM_O_CONTENTS,
                         "the contents are \"%s\"; allowed are those after %u to %u decisions, the "
                         "first being \"%s\"%s",
                         have, c->lo, c->hi, want, undone);
}

static int contents(struct judging *j)
{
    struct lladd_sim *sim = j->sim;
    struct lladd_error err = LLADD_ERROR_INIT;
    ll_sim_buffer_clear(&sim->dump);
    if (sim->subject.dump) {
        int rc = sim->subject.dump(sim->subject.ctx, j->db, &sim->dump.sink, &err);
        j->verdict->code = rc;
        if (sim->dump.sink.failed)
            return LLADD_NO_MEMORY;
        if (rc)
            return ll_sim_object(j->verdict, LLADD_SIM_O_CONTENTS,
                                 "the contents cannot be read: %s: %s", lladd_code_name(rc),
                                 why(j, rc, &err));
    }
    for (uint32_t k = j->claim->lo; k <= j->claim->hi; k++) {
        bool ok;
        int rc = fits(j, k, &ok);
        if (rc)
            return rc;
        if (ok) {
            j->verdict->k = k;
            return 0;
        }
    }
    return contents_wrong(j);
}

/* ---- once for each ending ---------------------------------------------------------------- */

int ll_sim_go_on(struct lladd_db *db, struct lladd_error *err)
{
    static const unsigned char bytes[] = "the database goes on";
    struct lladd_txn *txn;
    lladd_pageno page = {0};
    int rc = lladd_begin(db, NULL, &txn, err);
    if (rc)
        return rc;
    rc = lladd_page_alloc(txn, &page);
    if (!rc)
        rc = lladd_bytes_format(txn, page);
    if (!rc)
        rc = lladd_bytes_set(txn, page, 0, bytes, sizeof bytes);
    if (!rc)
        rc = lladd_page_free(txn, page);
    if (!rc)
        return lladd_commit(txn);
    *err = *lladd_txn_error(txn);
    (void)lladd_abort(txn); /* the first error is the one to report */
    return rc;
}

struct leak {
    struct judging *j;
    unsigned char *used; /* one byte per page */
    uint64_t pages;
};

static int see_page(void *ctx, lladd_pageno page)
{
    struct leak *l = ctx;
    if (page.v >= l->pages)
        return ll_sim_object(l->j->verdict, LLADD_SIM_O_LEAK,
                             "page %llu is used and lies beyond the end of the page file",
                             (unsigned long long)page.v);
    l->used[page.v] = 1;
    return 0;
}

/* O10: compares allocated pages with the subject's pages. */
static int look_for_leaks(struct judging *j)
{
    struct lladd_sim *sim = j->sim;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct leak l = {.j = j, .pages = lladd_page_count(j->db)};
    l.used = ll_sim_take(sim->running->arena, (size_t)l.pages);
    if (!l.used)
        return LLADD_NO_MEMORY;
    memset(l.used, 0, (size_t)l.pages);
    int rc = sim->subject.pages(sim->subject.ctx, j->db, see_page, &l, &err);
    j->verdict->code = rc;
    if (rc)
        return ll_sim_object(j->verdict, LLADD_SIM_O_LEAK, "the pages cannot be found: %s: %s",
                             lladd_code_name(rc), why(j, rc, &err));
    for (uint64_t p = 0; p < l.pages; p++) {
        enum lladd_page_use use;
        rc = j->verdict->code = lladd_page_use_get(j->db, lladd_page_of(p), &use, &err);
        if (rc)
            return ll_sim_object(j->verdict, LLADD_SIM_O_LEAK, "page %llu: %s",
                                 (unsigned long long)p, why(j, rc, &err));
        bool allocated = use == LLADD_USE_PAGED || use == LLADD_USE_RAW;
        if (allocated != (l.used[p] != 0))
            return ll_sim_object(j->verdict, LLADD_SIM_O_LEAK,
                                 allocated ? "page %llu is allocated and leaked"
                                           : "page %llu is used and not allocated",
                                 (unsigned long long)p);
    }
    return 0;
}

static int look_closely(struct judging *j)
{
    struct lladd_sim *sim = j->sim;
    struct lladd_error err = LLADD_ERROR_INIT;
    int rc = sim->subject.pages ? look_for_leaks(j) : 0;
    if (rc || j->verdict->oracle)
        return rc;
    rc = sim->subject.go_on ? sim->subject.go_on(sim->subject.ctx, j->db, &err)
                            : ll_sim_go_on(j->db, &err);
    j->verdict->code = rc;
    if (rc)
        return ll_sim_object(j->verdict, LLADD_SIM_O_PROGRESS,
                             "a transaction after the recovery fails: %s: %s", lladd_code_name(rc),
                             why(j, rc, &err));
    return 0;
}

/* ---- entry points ------------------------------------------------------------------------ */

static int look(struct judging *j)
{
    struct lladd_sim *sim = j->sim;
    struct lladd_error err = LLADD_ERROR_INIT;
    char undone[130];
    int rc = j->verdict->code = lladd_in_doubt_each(j->db, see_doubt, j, &err);
    if (!rc)
        rc = j->verdict->code = lladd_heuristic_each(j->db, see_outcome, j, &err);
    if (rc)
        return ll_sim_object(j->verdict, LLADD_SIM_O_IN_DOUBT, "%s: %s", lladd_code_name(rc),
                             why(j, rc, &err));
    rc = sim->subject.in_doubt ? sim->subject.in_doubt(sim->subject.ctx, j->db, &err) : 0;
    j->verdict->code = rc;
    if (rc)
        return ll_sim_object(j->verdict, LLADD_SIM_O_IN_DOUBT, "%s: %s", lladd_code_name(rc),
                             why(j, rc, &err));
    rc = resolve(j);
    if (rc || j->verdict->oracle)
        return rc;
    rc = contents(j);
    if (rc || j->verdict->oracle)
        return rc;
    rc = sim->subject.check ? sim->subject.check(sim->subject.ctx, j->db, &err) : 0;
    j->verdict->code = rc;
    if (!rc)
        return 0;
    ll_sim_cover_undone(&sim->cover, undone, sizeof undone);
    return ll_sim_object(j->verdict, LLADD_SIM_O_CHECK, "%s: %s%s", lladd_code_name(rc),
                         why(j, rc, &err), undone);
}

int ll_sim_judge_open(struct lladd_sim *sim, struct ll_sim_run *run, struct lladd_db *db,
                      const struct ll_sim_claim *claim, struct ll_sim_verdict *verdict,
                      bool *ending)
{
    struct judging j = {.sim = sim, .db = db, .claim = claim, .verdict = verdict};
    uint64_t hash = run->trace_hash;
    verdict->oracle = LLADD_SIM_O_NONE;
    verdict->k = claim->lo;
    verdict->code = 0;
    int rc = look(&j);
    ll_sim_object_seen(sim, verdict);
    /* Of the units that recovery has not read so far, nothing has arrived. So the following steps
     * make no choices. */
    run->undecided = 0;
    hash = ll_sim_mix(hash, sim->expected[verdict->k].hash * 2 + j.resolved);
    int seen = rc || verdict->oracle ? 1 : ll_sim_set_put(&sim->endings, hash + run->level);
    *ending = seen == 0;
    if (*ending)
        rc = look_closely(&j);
    if (*ending && !rc && !verdict->oracle) {
        int closed = verdict->code = lladd_close(j.db);
        if (closed)
            (void)ll_sim_object(verdict, LLADD_SIM_O_PROGRESS, "the database cannot be closed: %s",
                                lladd_code_name(closed));
    } else {
        lladd_db_kill(j.db);
    }
    if (rc || seen < 0)
        return rc ? rc : seen;
    ll_sim_object_ends(sim, run, verdict);
    return run->failed;
}

/* Instant recovery is not complete when open returns. While pages still have pending redo, the
 * simulator calls the subject's `meanwhile` or, if there is none, runs a small transaction. Then it
 * does one of three things: nothing, the remaining redo in steps, or a checkpoint. The hash of the
 * trace decides, so that a replay does the same. */
static int work_meanwhile(struct lladd_sim *sim, const struct ll_sim_run *run, struct lladd_db *db,
                          struct lladd_error *err)
{
    if (sim->options.recovery != LLADD_RECOVER_INSTANT || run->level == 0)
        return 0;
    enum { AS_IT_IS, IN_STEPS, CHECKPOINT, WAYS };
    unsigned way = (unsigned)(run->trace_hash % WAYS);
    bool more = way == IN_STEPS;
    int rc = sim->subject.meanwhile ? sim->subject.meanwhile(sim->subject.ctx, db, err)
                                    : ll_sim_go_on(db, err);
    while (!rc && more)
        rc = lladd_maintain(db, &more, err);
    return rc || way != CHECKPOINT ? rc : lladd_checkpoint(db, err);
}

int ll_sim_judge(struct lladd_sim *sim, struct ll_sim_run *run, const struct ll_sim_claim *claim,
                 struct ll_sim_verdict *verdict, uint32_t *open_calls, bool *ending)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_db *db;
    int rc = ll_sim_open(sim, run, &db, &err);
    int later = rc ? 0 : work_meanwhile(sim, run, db, &err);
    *open_calls = run->n_calls;
    if (later)
        lladd_db_kill(db);
    if (run->failed)
        return run->failed;
    if (!rc && !later)
        return ll_sim_judge_open(sim, run, db, claim, verdict, ending);
    *verdict = (struct ll_sim_verdict){.k = claim->lo, .code = rc ? rc : later};
    *ending = false;
    ll_sim_object_seen(sim, verdict);
    (void)ll_sim_object(verdict, rc ? LLADD_SIM_O_OPEN : LLADD_SIM_O_PROGRESS, "%s: %s",
                        lladd_code_name(verdict->code),
                        ll_sim_explain(sim, NULL, verdict->code, &err));
    ll_sim_object_ends(sim, run, verdict);
    return run->failed;
}

void ll_sim_object_ends(struct lladd_sim *sim, const struct ll_sim_run *run,
                        struct ll_sim_verdict *verdict)
{
    if (run->looping) {
        verdict->oracle = LLADD_SIM_O_NONE; /* this violation replaces any other */
        (void)ll_sim_object(verdict, LLADD_SIM_O_LOOP, "it took more than %u device calls",
                            sim->bounds.calls_max);
    }
    if (sim->heap.live)
        (void)ll_sim_object(verdict, LLADD_SIM_O_MEMORY, "%llu pieces of memory were not freed",
                            (unsigned long long)sim->heap.live);
    if (run->open_files)
        (void)ll_sim_object(verdict, LLADD_SIM_O_MEMORY, "%u files were not closed",
                            run->open_files);
}
