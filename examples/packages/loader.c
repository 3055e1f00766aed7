/* SPDX-License-Identifier: BSD-2-Clause */
/* The loader: threads that keep many transactions open.
 *
 * Each thread has LANES transactions open at a time and works on one of them at random, so that
 * transactions overlap in every way: begin, put the stanza into the table, count it, then commit
 * or, one in ABORT_EVERY, abort. The caller is responsible for isolation, as the library's
 * documentation says. In this program, no two open transactions write one key, and additions to the
 * tally commute. Changes of several transactions may be on one page, and splits of the table's
 * buckets move stanzas; the library handles this.
 *
 * A commit does not wait. lladd_commit_async returns the LSN up to which the log must be durable.
 * When WINDOW transactions have ended, the thread waits for the older half of their commits: one
 * lladd_wait_durable for the newest of these is enough, because commits become durable in log
 * order. After the wait, the thread acknowledges these transactions to the parent. */
#include "loader.h"

#include "store.h"

#include <errno.h>
#include <limits.h>
#include <lladd/log_read.h>
#include <lladd/sync.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LANES 8u
#define WINDOW 256u

/* A pipe transfers a write of at most PIPE_BUF bytes completely or not at all, even if the writer
 * is killed meanwhile. */
#define ACKS_MAX (PIPE_BUF / sizeof(struct ack))

enum step { STEP_BEGIN, STEP_STORE, STEP_COUNT, STEP_END };

struct lane {
    enum step step;
    struct lladd_txn *txn;
    uint64_t sequence;
};

struct shared {
    const struct loader_job *job;
    struct store store;
    uint64_t next;   /**< atomic: the next sequence number to load; lower numbers have been taken */
    uint64_t failed; /**< atomic: a thread has got an error; all threads stop */
};

struct worker {
    struct shared *shared;
    struct lladd_thread thread;
    uint64_t random;
    struct lane lanes[LANES];
    bool dry; /**< no more transactions have to be begun */
    struct ack window[WINDOW];
    size_t n;
    struct ack last; /**< the acknowledged transaction with the highest commit LSN */
};

static bool failed(struct shared *s, const struct lladd_error *err, const char *what)
{
    if (lladd_atomic_add64(&s->failed, 1) == 0)
        fprintf(stderr, "loader: %s: %s: %s\n", what, lladd_code_name(err->code), err->message);
    return false;
}

static bool tell(struct shared *s, const struct ack *acks, size_t n)
{
    ssize_t written;
    do
        written = write(s->job->acks, acks, n * sizeof *acks);
    while (written < 0 && errno == EINTR);
    if (written == (ssize_t)(n * sizeof *acks))
        return true;
    lladd_atomic_add64(&s->failed, 1);
    perror("loader: the parent does not listen");
    return false;
}

/* Makes the n oldest transactions of the window durable and acknowledges them. */
static bool acknowledge(struct worker *w, size_t n)
{
    struct shared *s = w->shared;
    struct lladd_error err = LLADD_ERROR_INIT;
    uint64_t upto = 0;
    for (size_t i = 0; i < n; i++)
        if (w->window[i].commit > upto) {
            upto = w->window[i].commit;
            w->last = w->window[i];
        }
    if (upto && lladd_wait_durable(s->store.db, lladd_lsn_of(upto), &err))
        return failed(s, &err, "wait");
    for (size_t at = 0, some; at < n; at += some) {
        some = n - at < ACKS_MAX ? n - at : ACKS_MAX;
        if (!tell(s, w->window + at, some))
            return false;
    }
    w->n -= n;
    for (size_t i = 0; i < w->n; i++)
        w->window[i] = w->window[n + i];
    return true;
}

/* Takes the next sequence number to load; false if no number is left. */
static bool take(struct shared *s, uint64_t *sequence)
{
    const struct ledger *l = s->job->ledger;
    do
        *sequence = lladd_atomic_add64(&s->next, 1);
    while (*sequence < s->job->limit && l->state[*sequence] != LEDGER_OPEN);
    return *sequence < s->job->limit;
}

/* Aborts or commits; in both cases the handle is freed. */
static int end(struct worker *w, struct lane *lane)
{
    struct ack *ack = &w->window[w->n++];
    lladd_lsn commit = {0};
    *ack = (struct ack){.sequence = lane->sequence, .txn = lladd_txn_id(lane->txn).v};
    int rc = ledger_aborts(w->shared->job->ledger, lane->sequence)
                 ? lladd_abort(lane->txn)
                 : lladd_commit_async(lane->txn, &commit);
    ack->commit = commit.v;
    lane->step = STEP_BEGIN;
    return rc;
}

static bool advance(struct worker *w, struct lane *lane)
{
    struct shared *s = w->shared;
    struct lladd_error err = LLADD_ERROR_INIT;
    switch (lane->step) {
    case STEP_BEGIN:
        if (w->dry || !take(s, &lane->sequence)) {
            w->dry = true;
            return true;
        }
        if (lladd_begin(s->store.db, NULL, &lane->txn, &err))
            return failed(s, &err, "begin");
        break;
    case STEP_STORE:
        if (store_put(&s->store, lane->txn, s->job->stanzas, lane->sequence))
            return failed(s, lladd_txn_error(lane->txn), "insert");
        break;
    case STEP_COUNT:
        if (store_count(&s->store, lane->txn, s->job->stanzas, lane->sequence))
            return failed(s, lladd_txn_error(lane->txn), "packages.count");
        break;
    case STEP_END:
        if (end(w, lane)) {
            lladd_db_error(s->store.db, &err);
            return failed(s, &err, "commit or abort");
        }
        return w->n < WINDOW || acknowledge(w, WINDOW / 2);
    }
    lane->step++;
    return true;
}

static bool idle(const struct worker *w)
{
    for (unsigned i = 0; i < LANES; i++)
        if (w->lanes[i].step != STEP_BEGIN)
            return false;
    return w->dry;
}

/* Transactions that are still open at the end are aborted by lladd_close. */
static void *work(void *arg)
{
    struct worker *w = arg;
    while (!idle(w) && !lladd_atomic_load64(&w->shared->failed)) {
        w->random = mix(w->random);
        if (!advance(w, &w->lanes[w->random % LANES]))
            return NULL;
    }
    if (!lladd_atomic_load64(&w->shared->failed))
        acknowledge(w, w->n);
    return NULL;
}

/* Pins the log from the last transaction on, for `lladd log` after this process has ended. */
static bool pin_last(struct shared *s, const struct worker *workers)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct ack last = {0};
    for (unsigned i = 0; i < s->job->threads; i++)
        if (workers[i].last.commit > last.commit)
            last = workers[i].last;
    if (!last.commit)
        return true;
    int rc = lladd_pin_set(s->store.db, LAST_PIN, lladd_lsn_of(last.txn), &err);
    return !rc || rc == LLADD_OUT_OF_RANGE || failed(s, &err, "pin");
}

/* Waits until the parent closes its end of the pipe; before that, the parent may still kill this
 * process. */
static void await_leave(const struct loader_job *job)
{
    char byte;
    while (read(job->leave, &byte, 1) < 0 && errno == EINTR) {
    }
}

static void load(struct shared *s, struct worker *workers)
{
    const struct loader_job *job = s->job;
    struct ack ready = {.ready = 1};
    unsigned started = 0;
    if (!tell(s, &ready, 1))
        return;
    for (; started < job->threads; started++) {
        struct worker *w = &workers[started];
        w->shared = s;
        w->random = mix(job->seed + started);
        if (lladd_thread_start(&w->thread, work, w)) {
            lladd_atomic_add64(&s->failed, 1);
            fprintf(stderr, "loader: no more threads than %u\n", started);
            break;
        }
    }
    for (unsigned i = 0; i < started; i++)
        lladd_thread_join(&workers[i].thread);
    if (!lladd_atomic_load64(&s->failed) && pin_last(s, workers))
        await_leave(job);
}

int loader_run(const struct loader_job *job)
{
    struct shared s = {.job = job};
    struct lladd_error err = LLADD_ERROR_INIT;
    struct worker *workers = calloc(job->threads, sizeof *workers);
    if (!workers) {
        perror("loader");
        return 1;
    }
    if (store_open(&s.store, job->dir, NULL, NULL, &err)) {
        failed(&s, &err, "open");
    } else {
        load(&s, workers);
        if (store_close(&s.store)) {
            lladd_atomic_add64(&s.failed, 1);
            fprintf(stderr, "loader: the database could not be closed cleanly\n");
        }
    }
    free(workers);
    return s.failed ? 1 : 0;
}
