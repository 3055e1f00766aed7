/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * record: runs the workload and records what the library has promised to it.
 *
 * *Decisions* are commits, prepares, rollbacks of prepared transactions, and the forgetting of
 * heuristic outcomes, in the order of the log. After a crash the first k decisions are in force and
 * the others are not. k is at least the number of the last decision that was acknowledged before
 * the crash, and at most the number of the last decision that was requested. For each k the model
 * computes the contents.
 */
#include "sim/sim_private.h"

enum { POWER = 2, PROCESS = 1, NEITHER = 0 }; /* what the promise survives */

static struct ll_sim_txn *txn_of(struct lladd_sim *sim, const struct lladd_txn *handle)
{
    for (uint32_t i = sim->record.n_txns; i-- > 0;)
        if (sim->record.txn[i]->handle == handle)
            return sim->record.txn[i];
    return NULL;
}

static uint32_t now(const struct lladd_sim *sim)
{
    return sim->workload.n_calls;
}

static int event(struct lladd_sim *sim, const struct ll_sim_txn *t, const char *what,
                 const struct ll_sim_note *note)
{
    struct ll_sim_record *r = &sim->record;
    if (sim->crossing && t && ll_sim_crossing_tell(sim))
        return LLADD_NO_MEMORY;
    struct ll_sim_event *e =
        ll_sim_grow(&sim->noted, r->event, r->n_events, &r->events_capacity, sizeof *e);
    if (!e)
        return LLADD_NO_MEMORY;
    r->event = e;
    e[r->n_events++] = (struct ll_sim_event){now(sim), t ? t->number : 0, what, note};
    uint64_t h = ll_sim_mix(r->hash, ll_sim_hash(what, strlen(what)) + now(sim));
    r->hash = ll_sim_mix(h, note ? ll_sim_hash(note->bytes, note->len) : t ? t->number : 0);
    return 0;
}

static struct ll_sim_decision *decision(struct lladd_sim *sim, const struct ll_sim_txn *t,
                                        enum ll_sim_decision_kind kind)
{
    struct ll_sim_record *r = &sim->record;
    if (t->handle)
        r->txn[t->number - 1]->id = lladd_txn_id(t->handle);
    struct ll_sim_decision *d =
        ll_sim_grow(&sim->noted, r->decision, r->n_decisions, &r->decisions_capacity, sizeof *d);
    if (!d)
        return NULL;
    r->decision = d;
    d = &d[r->n_decisions++];
    *d = (struct ll_sim_decision){.kind = (uint8_t)kind,
                                  .txn = t->number - 1,
                                  .called = now(sim),
                                  .acked = UINT32_MAX,
                                  .acked_kill = UINT32_MAX};
    return d;
}

/* Notes the LSN of a decision's record. Decisions are sorted by this LSN, because several threads
 * may make their calls in another order than the log has their records. */
void ll_sim_see_decided(struct lladd_sim *sim, lladd_lsn txn, lladd_lsn record, bool prepare)
{
    struct ll_sim_record *r = &sim->record;
    for (uint32_t i = r->n_decisions; i-- > 0;) {
        struct ll_sim_decision *d = &r->decision[i];
        bool fits = prepare ? d->kind == LL_SIM_PREPARE
                            : d->kind == LL_SIM_COMMIT || d->kind == LL_SIM_ROLLBACK;
        if (!fits || !txn.v || r->txn[d->txn]->id.v != txn.v)
            continue;
        /* For a heuristic abort, the order is that of the decision's record, not that of the
         * rollback's end. */
        if (!d->outcome || !d->order.v)
            d->order = record;
        return;
    }
}

/* A commit without a record has changed nothing, so its position among the commits of other threads
 * is arbitrary. Such commits are moved to the beginning. */
static void put_first(struct ll_sim_record *r)
{
    uint32_t first = 0;
    for (uint32_t i = 0; i < r->n_decisions; i++) {
        struct ll_sim_decision d = r->decision[i];
        if (d.kind != LL_SIM_COMMIT || d.order.v)
            continue;
        memmove(&r->decision[first + 1], &r->decision[first], (i - first) * sizeof d);
        r->decision[first++] = d;
    }
}

/* Sorts the decisions by the LSNs of their records, as far as these are known. */
static void put_in_order(struct ll_sim_record *r)
{
    for (uint32_t i = 1; i < r->n_decisions; i++) {
        struct ll_sim_decision d = r->decision[i];
        uint32_t at = i;
        while (at > 0 && d.order.v && d.order.v < r->decision[at - 1].order.v) {
            r->decision[at] = r->decision[at - 1];
            at--;
        }
        r->decision[at] = d;
    }
}

/* Returns the last decision about a transaction. The pointer is invalid after a call of the
 * library, because other threads may add decisions. */
static struct ll_sim_decision *decision_of(struct lladd_sim *sim, const struct ll_sim_txn *t)
{
    uint32_t i = sim->record.n_decisions - 1;
    while (sim->record.decision[i].txn != t->number - 1)
        i--;
    return &sim->record.decision[i];
}

static void acknowledge(struct lladd_sim *sim, struct ll_sim_decision *d, unsigned promise)
{
    if (promise >= POWER && sim->record.poisoned)
        sim->record.late_acks++;
    if (promise >= POWER && d->acked == UINT32_MAX)
        d->acked = now(sim);
    if (promise >= PROCESS && d->acked_kill == UINT32_MAX)
        d->acked_kill = now(sim);
    sim->record.acks += promise >= POWER;
}

/* Removes the transaction's last decision, because the call that requested it has failed. */
static void undo_changes(struct lladd_sim *sim, const struct ll_sim_txn *t)
{
    struct ll_sim_record *r = &sim->record;
    struct ll_sim_decision *d = decision_of(sim, t);
    r->n_decisions--;
    memmove(d, d + 1, (size_t)(&r->decision[r->n_decisions] - d) * sizeof *d);
}

static int misuse(struct lladd_sim *sim)
{
    sim->record.misuse = true;
    return LLADD_BAD_ARGUMENT;
}

static bool consumed(int rc)
{
    return rc == 0 || lladd_code_root(rc) == LLADD_ROOT_POISONED;
}

int ll_sim_remark(struct lladd_sim *sim, const char *what)
{
    return event(sim, NULL, what, NULL);
}

/* Records the result of a call on a transaction. */
static int noted(struct lladd_sim *sim, struct ll_sim_txn *t, const char *call, int rc)
{
    t->failed = rc;
    t->call = call;
    sim->record.errors += rc != 0;
    sim->record.poisoned |= lladd_code_root(rc) == LLADD_ROOT_POISONED;
    return rc;
}

/* ---- calls of the workload --------------------------------------------------------------- */

static unsigned promise_of(const struct lladd_sim *sim, const struct lladd_txn_options *o)
{
    enum lladd_durability d = o && o->durability ? o->durability : sim->options.durability;
    return d == LLADD_DURABLE_OS ? PROCESS : d == LLADD_DURABLE_LATER ? NEITHER : POWER;
}

int lladd_sim_begin(struct lladd_sim *sim, struct lladd_db *db,
                    const struct lladd_txn_options *options, struct lladd_txn **out,
                    struct lladd_error *err)
{
    struct ll_sim_record *r = &sim->record;
    int rc = lladd_begin(db, options, out, err);
    if (rc)
        return rc;
    /* Entries are allocated alone, so that none moves when another thread begins a transaction. */
    struct ll_sim_txn *t = ll_sim_take(&sim->noted, sizeof *t);
    struct ll_sim_txn **all =
        ll_sim_grow(&sim->noted, r->txn, r->n_txns, &r->txns_capacity, sizeof(*all));
    if (!t || !all) {
        (void)lladd_abort(*out); /* the transaction has changed nothing */
        return lladd_error_set(err, LLADD_NO_MEMORY, "no memory for the simulator's record");
    }
    r->txn = all;
    all[r->n_txns++] = t;
    *t = (struct ll_sim_txn){
        .handle = *out, .promise = (uint8_t)promise_of(sim, options), .number = r->n_txns};
    return event(sim, t, "begin", NULL);
}

int lladd_sim_note(struct lladd_sim *sim, struct lladd_txn *handle, const void *bytes, size_t len)
{
    struct ll_sim_txn *t = txn_of(sim, handle);
    if (!t)
        return misuse(sim);
    struct ll_sim_note *note = ll_sim_take(&sim->noted, sizeof *note + len);
    if (!note)
        return LLADD_NO_MEMORY;
    if (len)
        memcpy(note + 1, bytes, len);
    *note = (struct ll_sim_note){NULL, note + 1, len};
    if (t->last)
        t->last->next = note;
    else
        t->first = note;
    t->last = note;
    return event(sim, t, "does", note);
}

/* Called after a call that may have ended the transaction. */
static int ended(struct lladd_sim *sim, struct ll_sim_txn *t, int rc, const char *what)
{
    if (!consumed(rc))
        return rc;
    t->handle = NULL;
    int noted = event(sim, t, rc ? "is lost to a poisoned handle" : what, NULL);
    return rc ? rc : noted;
}

int lladd_sim_commit(struct lladd_sim *sim, struct lladd_txn *handle)
{
    struct ll_sim_txn *t = txn_of(sim, handle);
    if (!t)
        return misuse(sim);
    if (!decision(sim, t, LL_SIM_COMMIT) || event(sim, t, "commit", NULL))
        return LLADD_NO_MEMORY;
    int rc = noted(sim, t, "commit", lladd_commit(handle));
    if (rc == 0)
        acknowledge(sim, decision_of(sim, t), t->promise);
    else if (!consumed(rc))
        undo_changes(sim, t);
    return ended(sim, t, rc, "committed");
}

int lladd_sim_commit_async(struct lladd_sim *sim, struct lladd_txn *handle, lladd_lsn *out)
{
    struct ll_sim_txn *t = txn_of(sim, handle);
    if (!t)
        return misuse(sim);
    if (!decision(sim, t, LL_SIM_COMMIT) || event(sim, t, "commit without waiting", NULL))
        return LLADD_NO_MEMORY;
    int rc = noted(sim, t, "commit", lladd_commit_async(handle, out));
    if (rc == 0)
        decision_of(sim, t)->lsn = *out;
    else if (!consumed(rc))
        undo_changes(sim, t);
    if (rc == 0 && out->v == 0)
        acknowledge(sim, decision_of(sim, t), t->promise);
    return ended(sim, t, rc, "is ordered");
}

int lladd_sim_wait_durable(struct lladd_sim *sim, struct lladd_db *db, lladd_lsn lsn,
                   struct lladd_error *err)
{
    int rc = lladd_wait_durable(db, lsn, err);
    sim->record.errors += rc != 0;
    sim->record.poisoned |= lladd_code_root(rc) == LLADD_ROOT_POISONED;
    for (uint32_t i = 0; !rc && i < sim->record.n_decisions; i++) {
        struct ll_sim_decision *d = &sim->record.decision[i];
        struct ll_sim_txn *t = sim->record.txn[d->txn];
        if (d->lsn.v == 0 || d->lsn.v > lsn.v || d->acked != UINT32_MAX)
            continue;
        acknowledge(sim, d, t->promise == NEITHER ? POWER : t->promise);
        rc = event(sim, t, "committed", NULL);
    }
    return rc;
}

int lladd_sim_abort(struct lladd_sim *sim, struct lladd_txn *handle)
{
    struct ll_sim_txn *t = txn_of(sim, handle);
    if (!t)
        return misuse(sim);
    bool prepared = t->prepared;
    if (prepared && sim->crossing) /* the library does not report where the rollback begins in the
                                    * log, so its order among other decisions is unknown */
        return misuse(sim);
    if ((prepared && !decision(sim, t, LL_SIM_ROLLBACK)) || event(sim, t, "abort", NULL))
        return LLADD_NO_MEMORY;
    int rc = noted(sim, t, "abort", lladd_abort(handle));
    sim->record.abort_failed = rc ? rc : sim->record.abort_failed;
    if (prepared && !consumed(rc))
        undo_changes(sim, t);
    return ended(sim, t, rc, "aborted");
}

int lladd_sim_prepare(struct lladd_sim *sim, struct lladd_txn *handle, const struct lladd_gid *gid)
{
    struct ll_sim_txn *t = txn_of(sim, handle);
    if (!t)
        return misuse(sim);
    if (!decision(sim, t, LL_SIM_PREPARE) || event(sim, t, "prepare", NULL))
        return LLADD_NO_MEMORY;
    t->gid = *gid; /* the transaction may be in doubt even if the call fails */
    int rc = noted(sim, t, "prepare", lladd_prepare(handle, gid));
    if (rc) { /* The transaction handle is still valid. After poison the record may be on disk, so
               * the decision stays. */
        if (!consumed(rc))
            undo_changes(sim, t);
        return rc;
    }
    acknowledge(sim, decision_of(sim, t), POWER);
    t->prepared = true;
    return event(sim, t, "prepared", NULL);
}

int lladd_sim_heuristic_end(struct lladd_sim *sim, struct lladd_txn *handle,
                            enum lladd_outcome outcome)
{
    bool commit = outcome == LLADD_OUTCOME_COMMIT;
    struct ll_sim_txn *t = txn_of(sim, handle);
    if (!t || !t->prepared)
        return misuse(sim);
    struct ll_sim_decision *d = decision(sim, t, commit ? LL_SIM_COMMIT : LL_SIM_ROLLBACK);
    if (!d || event(sim, t, commit ? "is to be committed" : "is to be aborted", NULL))
        return LLADD_NO_MEMORY;
    d->outcome = (uint8_t)outcome;
    int rc = noted(sim, t, "heuristic", lladd_heuristic_end(handle, outcome));
    if (rc == 0)
        acknowledge(sim, decision_of(sim, t), POWER);
    else if (!consumed(rc))
        undo_changes(sim, t);
    return ended(sim, t, rc, commit ? "committed by decision" : "aborted by decision");
}

static struct ll_sim_txn *txn_with(struct lladd_sim *sim, const struct lladd_gid *gid)
{
    for (uint32_t i = sim->record.n_txns; i-- > 0;)
        if (sim->record.txn[i]->prepared &&
            memcmp(&sim->record.txn[i]->gid, gid, sizeof *gid) == 0)
            return sim->record.txn[i];
    return NULL;
}

int lladd_sim_heuristic_forget(struct lladd_sim *sim, struct lladd_db *db,
                               const struct lladd_gid *gid, struct lladd_error *err)
{
    struct ll_sim_txn *t = txn_with(sim, gid);
    if (!t)
        return misuse(sim);
    if (!decision(sim, t, LL_SIM_FORGET) || event(sim, t, "is to be forgotten", NULL))
        return LLADD_NO_MEMORY;
    int rc = noted(sim, t, "forget", lladd_heuristic_forget(db, gid, err));
    if (rc == 0)
        acknowledge(sim, decision_of(sim, t), POWER);
    else if (!consumed(rc))
        undo_changes(sim, t);
    return rc ? rc : event(sim, t, "forgotten", NULL);
}

int lladd_sim_savepoint(struct lladd_sim *sim, struct lladd_txn *handle, lladd_savepoint_id *out)
{
    struct ll_sim_txn *t = txn_of(sim, handle);
    if (!t)
        return misuse(sim);
    struct ll_sim_mark *marks =
        ll_sim_grow(&sim->noted, t->marks, t->n_marks, &t->marks_capacity, sizeof *marks);
    if (!marks)
        return LLADD_NO_MEMORY;
    t->marks = marks;
    int rc = lladd_savepoint(handle, out);
    if (rc)
        return rc;
    marks[t->n_marks++] = (struct ll_sim_mark){*out, t->last};
    return event(sim, t, "sets a savepoint", NULL);
}

int lladd_sim_rollback_to(struct lladd_sim *sim, struct lladd_txn *handle, lladd_savepoint_id id)
{
    struct ll_sim_txn *t = txn_of(sim, handle);
    if (!t)
        return misuse(sim);
    int rc = noted(sim, t, "rollback", lladd_rollback_to(handle, id));
    if (rc)
        return rc;
    while (t->n_marks > 0 && t->marks[t->n_marks - 1].id != id)
        t->n_marks--;
    if (t->n_marks == 0)
        return misuse(sim);
    t->last = t->marks[t->n_marks - 1].last;
    if (t->last)
        t->last->next = NULL;
    else
        t->first = NULL;
    return event(sim, t, "rolled back to a savepoint", NULL);
}

/* ---- running the workload ---------------------------------------------------------------- */

bool ll_sim_is_atomic(const struct lladd_sim *sim, uint32_t level)
{
    uint32_t flags = sim->bounds.flags;
    return flags & LLADD_SIM_ATOMIC_PAGES && !(flags & LLADD_SIM_TURNS && level % 2);
}

/* Opens a database on a run's device. */
int ll_sim_open(struct lladd_sim *sim, struct ll_sim_run *run, struct lladd_db **db,
                struct lladd_error *err)
{
    ll_sim_heap_rewind(&sim->heap);
    sim->running = run;
    sim->random = sim->bounds.seed;
    sim->clock = 0;
    sim->options.device = &run->face;
    ll_sim_store_place(sim, &run->face);
    ll_sim_cover_begin(&sim->cover, run->level);
    sim->options.flags &= ~(uint32_t)LLADD_OPT_ATOMIC_PAGES;
    if (ll_sim_is_atomic(sim, run->level))
        sim->options.flags |= LLADD_OPT_ATOMIC_PAGES;
    return lladd_open(NULL, &sim->options, db, err);
}

#define WORKLOAD "the workload"

/* With several threads, the workload ends when its threads end; the database is not closed. */
static int close_workload(struct lladd_sim *sim, struct lladd_db *db, const char *what,
                          struct lladd_error *err)
{
    struct lladd_error own = LLADD_ERROR_INIT;
    int rc = 0;
    (void)lladd_db_error(db, &own); /* the workload may have ignored this error */
    if (sim->crossing)
        lladd_db_kill(db);
    else
        rc = lladd_close(db);
    if (rc == LLADD_BAD_STATE)
        return lladd_error_set(err, rc, "%s has left a page fixed: closing is refused", what);
    if (rc)
        return lladd_error_set(err, rc, "closing after %s failed: %s", what,
                               own.message[0] ? own.message : lladd_code_text(rc));
    if (sim->heap.live)
        return lladd_error_set(err, LLADD_BUG, "%s: %llu pieces of memory were not freed", what,
                               (unsigned long long)sim->heap.live);
    return 0;
}

/* Adds the callback that ran last to the message of a failure. There are three exceptions: the
 * message names an operation; the last callback was an undo, because the subject has rolled back
 * after the failure; or there are several threads, since a replay may then have another last
 * callback. */
static const char *with_last(const struct lladd_sim *sim, int rc, struct lladd_error *err)
{
    const struct lladd_dst *d = &sim->dst;
    struct lladd_error own = *err;
    bool says = d->op && !sim->crossing && strcmp(d->callback, "undo") != 0 &&
                strcmp(d->callback, "compensate") != 0;
    if (says && !strstr(own.message, "operation \"") && !strstr(own.message, d->op))
        (void)lladd_error_set(err, rc, "%s; the last callback was %s of \"%s\"", own.message,
                              d->callback, d->op);
    return err->message;
}

static int run_set_up(struct lladd_sim *sim, struct lladd_error *err)
{
    struct ll_sim_run run;
    struct lladd_db *db;
    int rc = ll_sim_run_init(sim, &run, &sim->base, 0, NULL, NULL);
    if (!rc)
        rc = ll_sim_open(sim, &run, &db, err);
    if (rc)
        return rc;
    sim->page_size = lladd_page_size(db);
    if (sim->subject.setup)
        rc = sim->subject.setup(sim->subject.ctx, db, err);
    if (rc) {
        struct lladd_error own = *err;
        (void)ll_sim_explain(sim, db, rc, &own);
        (void)lladd_error_set(err, rc, "the subject's setup failed: %s",
                              with_last(sim, rc, &own));
        lladd_db_kill(db);
        return rc;
    }
    rc = close_workload(sim, db, "the subject's setup", err);
    if (rc)
        return rc;
    /* The database is closed, so everything is durable. */
    rc = ll_sim_image_copy(&sim->base, &run.live, &sim->start.image);
    for (uint32_t i = 0; !rc && i < sim->start.image.n_inodes; i++) {
        struct ll_sim_inode *inode = ll_sim_own(&sim->base, &sim->start.image, i);
        if (!inode)
            return LLADD_NO_MEMORY;
        inode->hash = 0;
        for (uint32_t b = 0; b < inode->n_blocks; b++)
            if (inode->block[b].bytes)
                inode->hash +=
                    ll_sim_hash_at(inode->block[b].bytes, LL_SIM_BLOCK, (uint64_t)b * LL_SIM_BLOCK);
    }
    if (sim->subject.disk_room)
        sim->capacity = ll_sim_image_bytes(&sim->start.image) + sim->subject.disk_room;
    return rc;
}

int ll_sim_set_up(struct lladd_sim *sim, struct lladd_error *err)
{
    struct ll_sim_crossing *crossing = sim->crossing;
    sim->crossing = NULL; /* setup has one thread */
    int rc = run_set_up(sim, err);
    sim->crossing = crossing;
    return rc;
}

int ll_sim_record_begin(struct lladd_sim *sim)
{
    sim->record = (struct ll_sim_record){0};
    sim->expected = NULL;
    sim->misread = 0;
    sim->misread_log = false;
    sim->work = ll_sim_mix(sim->bounds.seed, 0x776f726b);
    ll_sim_rewind(&sim->noted);
    ll_sim_rewind(&sim->level[0].runs);
    return ll_sim_run_init(sim, &sim->workload, &sim->level[0].runs, 0, &sim->start, NULL);
}

uint64_t lladd_sim_random_u64(struct lladd_sim *sim)
{
    return sim->work = ll_sim_mix(sim->work, 1);
}

/* Ends the transactions that the last repetition has left open, because the next repetition may
 * change the same data. */
static int finish_open(struct lladd_sim *sim)
{
    int rc = 0;
    for (uint32_t i = 0; !rc && i < sim->record.n_txns; i++) {
        struct ll_sim_txn *t = sim->record.txn[i];
        if (!t->handle)
            continue;
        bool commit = t->prepared && lladd_sim_random_u64(sim) >> 32 & 1;
        rc = commit ? lladd_sim_commit(sim, t->handle) : lladd_sim_abort(sim, t->handle);
    }
    return rc;
}

/* Called between two repetitions. May reopen the database, or take a checkpoint. *db is NULL while
 * the database is closed. */
static int in_between(struct lladd_sim *sim, struct lladd_db **db, struct lladd_error *err)
{
    enum { WAYS = 4, REOPEN = 0, CHECKPOINT = 1 };
    int rc = finish_open(sim);
    uint64_t way = (lladd_sim_random_u64(sim) >> 32) % WAYS;
    if (rc)
        return lladd_error_set(err, rc, "a transaction cannot be finished");
    if (way == CHECKPOINT)
        return lladd_checkpoint(*db, err);
    if (way != REOPEN)
        return 0;
    rc = close_workload(sim, *db, WORKLOAD, err);
    *db = NULL;
    return rc ? rc : ll_sim_open(sim, &sim->workload, db, err);
}

int ll_sim_subject_run(struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    const struct lladd_sim_subject *s = &sim->subject;
    int rc = 0;
    if (sim->crossing)
        return ll_sim_cross(sim, db, err);
    if (s->run)
        return s->run(s->ctx, sim, db, err);
    for (unsigned i = 0; !rc && i < s->threads; i++)
        rc = s->run_thread(s->ctx, sim, db, i, err);
    return rc;
}

/* Calls `run` repeatedly. A repetition starts from the data that the previous one has left. It may
 * therefore be refused, e.g. for lack of room. That is no failure, but the repetitions end. */
static int run_repeatedly(struct lladd_sim *sim, struct lladd_db **db, struct lladd_error *err)
{
    int rc = 0;
    for (uint32_t i = 0; !rc && i < (sim->repeats ? sim->repeats : 1); i++) {
        rc = i ? in_between(sim, db, err) : 0;
        if (rc)
            break;
        rc = ll_sim_subject_run(sim, *db, err);
        sim->runs++;
        enum lladd_root root = lladd_code_root(rc);
        if (rc && i && root != LLADD_ROOT_DATA && root != LLADD_ROOT_POISONED &&
            !sim->record.misuse) {
            sim->refused++;
            return 0;
        }
    }
    return rc;
}

int ll_sim_record_run(struct lladd_sim *sim, struct lladd_error *err)
{
    struct lladd_db *db;
    struct ll_sim_record *r = &sim->record;
    int rc = ll_sim_open(sim, &sim->workload, &db, err);
    if (rc)
        return rc;
    r->run_at = sim->workload.n_calls;
    rc = run_repeatedly(sim, &db, err);
    r->run_end = sim->workload.n_calls;
    if (!rc && r->misuse)
        rc = lladd_error_set(err, LLADD_BAD_ARGUMENT,
                             "the workload gave the simulator an unknown or ended transaction");
    if (rc || sim->workload.failed) {
        (void)ll_sim_explain(sim, db, rc, err);
        if (rc)
            (void)with_last(sim, rc, err);
        if (db)
            lladd_db_kill(db);
        return rc ? rc : sim->workload.failed;
    }
    ll_sim_cover_kinds(sim, db);
    rc = sim->guard ? ll_sim_guard_types(sim, db) : 0;
    if (rc) {
        lladd_db_kill(db);
        return rc;
    }
    rc = close_workload(sim, db, WORKLOAD, err);
    r->hash = ll_sim_mix(r->hash, sim->workload.trace_hash);
    return rc;
}

static int run_workload(struct lladd_sim *sim, struct lladd_error *err)
{
    int rc = ll_sim_record_begin(sim);
    return rc ? rc : ll_sim_record_run(sim, err);
}

/* ---- expectations ------------------------------------------------------------------------ */

bool ll_sim_in_doubt_after(const struct ll_sim_record *r, uint32_t txn, uint32_t k)
{
    bool in_doubt = false;
    for (uint32_t i = 0; i < k; i++)
        if (r->decision[i].txn == txn)
            in_doubt = r->decision[i].kind == LL_SIM_PREPARE;
    return in_doubt;
}

unsigned ll_sim_outcome_after(const struct ll_sim_record *r, uint32_t txn, uint32_t k)
{
    unsigned outcome = 0;
    for (uint32_t i = 0; i < k; i++)
        if (r->decision[i].txn == txn)
            outcome = r->decision[i].outcome;
    return outcome;
}

void ll_sim_model_apply(const struct lladd_sim *sim, void *model, uint32_t txn)
{
    for (const struct ll_sim_note *n = sim->record.txn[txn]->first; n; n = n->next)
        sim->subject.model_apply(sim->subject.ctx, model, lladd_span_of(n->bytes, n->len));
}

/* Hashes a transaction's global id, and the changes that it makes if it commits. */
static uint64_t hash_txn(uint64_t h, const struct ll_sim_txn *t)
{
    h = ll_sim_mix(h, ll_sim_hash(t->gid.data, t->gid.gtrid_length + t->gid.bqual_length));
    for (const struct ll_sim_note *n = t->first; n; n = n->next)
        h = ll_sim_mix(h, ll_sim_hash(n->bytes, n->len));
    return h;
}

static int expect(struct lladd_sim *sim, uint32_t k)
{
    struct ll_sim_record *r = &sim->record;
    struct ll_sim_expected *e = &sim->expected[k];
    size_t size = sim->subject.model_size;
    for (uint32_t t = 0; t < r->n_txns; t++)
        if (ll_sim_in_doubt_after(r, t, k)) {
            e->in_doubt++;
            e->hash = hash_txn(e->hash, r->txn[t]);
        } else if (ll_sim_outcome_after(r, t, k)) {
            e->outcomes++;
            e->hash = ll_sim_mix(hash_txn(e->hash, r->txn[t]), ll_sim_outcome_after(r, t, k));
        }
    if (size == 0) {
        e->hash = ll_sim_mix(e->hash, k + 1); /* without a model the contents are unknown */
        return 0;
    }
    e->model = ll_sim_take(&sim->noted, size);
    if (!e->model)
        return LLADD_NO_MEMORY;
    if (k > 0) {
        memcpy(e->model, e[-1].model, size);
        if (r->decision[k - 1].kind == LL_SIM_COMMIT)
            ll_sim_model_apply(sim, e->model, r->decision[k - 1].txn);
    } else {
        memset(e->model, 0, size);
        if (sim->subject.model_init)
            sim->subject.model_init(sim->subject.ctx, e->model);
    }
    ll_sim_buffer_clear(&sim->dump);
    int rc = sim->subject.model_dump(sim->subject.ctx, e->model, &sim->dump.sink);
    unsigned char *dump = ll_sim_take(&sim->noted, sim->dump.len);
    if (rc || sim->dump.sink.failed || !dump)
        return rc ? rc : LLADD_NO_MEMORY;
    if (sim->dump.len)
        memcpy(dump, sim->dump.bytes, sim->dump.len);
    e->dump = dump;
    e->dump_len = sim->dump.len;
    e->hash = ll_sim_mix(ll_sim_mix(e->hash, ll_sim_hash(e->model, size)),
                         ll_sim_hash(e->dump, e->dump_len));
    return 0;
}

void ll_sim_allowed(const struct ll_sim_record *r, uint32_t c, bool kill, uint32_t *lo,
                    uint32_t *hi)
{
    *lo = *hi = 0;
    for (uint32_t i = 0; i < r->n_decisions; i++) {
        const struct ll_sim_decision *d = &r->decision[i];
        if ((kill ? d->acked_kill : d->acked) <= c)
            *lo = i + 1;
        if (d->called < c)
            *hi = i + 1;
    }
    if (*hi < *lo)
        *hi = *lo;
}

int ll_sim_expect(struct lladd_sim *sim)
{
    uint32_t n = sim->record.n_decisions + 1;
    int rc = 0;
    if (sim->crossing)
        put_first(&sim->record);
    put_in_order(&sim->record);
    sim->expected = ll_sim_take(&sim->noted, n * sizeof *sim->expected);
    if (!sim->expected)
        return LLADD_NO_MEMORY;
    memset(sim->expected, 0, n * sizeof *sim->expected);
    for (uint32_t k = 0; !rc && k < n; k++)
        rc = expect(sim, k);
    return rc;
}

/* Runs the workload again under the guard. The second run must be equal to the first (O14). */
static int run_watched(struct lladd_sim *sim, uint64_t hash, struct lladd_error *err)
{
    int rc = ll_sim_guard_begin(sim, err);
    if (!rc)
        rc = run_workload(sim, err);
    if (!rc && sim->violation.oracle == LLADD_SIM_O_NONE && sim->record.hash == hash)
        rc = ll_sim_rebuild(sim);
    ll_sim_guard_end(sim);
    if (rc)
        return rc;
    if (sim->record.hash != hash && sim->violation.oracle == LLADD_SIM_O_NONE)
        return lladd_error_set(err, LLADD_BUG,
                               "the workload is not deterministic: run twice, it did different "
                               "things");
    /* With a planted bug, a failure after a crash says more than a violation of O7, so the
     * exploration goes on after O7. */
    if (sim->violation.oracle == LLADD_SIM_O_REBUILD && sim->bounds.planted)
        return 0;
    if (sim->violation.oracle)
        return lladd_error_set(err, LLADD_BUG, "%s", sim->violation.message);
    return 0;
}

int ll_sim_record(struct lladd_sim *sim, struct lladd_error *err)
{
    sim->dst.observe = NULL;
    int rc = ll_sim_set_up(sim, err);
    if (!rc)
        rc = run_workload(sim, err);
    uint64_t first = sim->record.hash;
    sim->dst.observe = ll_sim_observe;
    if (!rc)
        rc = run_watched(sim, first, err);
    return rc ? rc : ll_sim_expect(sim);
}

int ll_sim_record_again(struct lladd_sim *sim, int *failed)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    int rc = ll_sim_record_begin(sim);
    if (rc)
        return rc;
    *failed = ll_sim_record_run(sim, &err);
    return sim->workload.failed ? sim->workload.failed : ll_sim_expect(sim);
}
