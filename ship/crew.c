/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads that share a piece of work: tickets 0, 1, 2, ...
 *
 * A thread takes the next ticket, and does `make` for it, beside the other threads. Then it waits
 * for the tickets below, and does `add`. So `add` is called for one ticket after the other, with
 * the mutex held, and gives the same result with any number of threads. The thread with the lowest
 * ticket never waits for another one, so there is no deadlock. `after` is done beside the other
 * threads again.
 *
 * After the first error no thread takes a ticket. With one thread there is no mutex: the caller's
 * functions run as in a loop. */
#include "ship/ship_private.h"

#include <lladd/sync.h>
#include <string.h>

/* The lowest with which a thread may call the library: `add` calls functions of the program. */
enum { RANK_CREW = LLADD_RANK_EXTENSION };

struct crew {
    const struct ll_ship_job *job;
    struct lladd_mutex mutex; /* guards what follows */
    struct lladd_cond turned;
    uint64_t next; /* the next ticket that a thread takes */
    uint64_t turn; /* the ticket that is added next */
    int rc;        /* of the first error */
    struct lladd_error error;
};

struct member {
    struct lladd_thread thread;
    struct crew *crew;
    unsigned number;
};

/* The mutex is held. */
static void fail(struct crew *c, int rc, const struct lladd_error *why)
{
    if (c->rc)
        return;
    c->rc = rc;
    c->error = *why;
    lladd_cond_broadcast(&c->turned);
}

static int add(struct crew *c, unsigned member, uint64_t ticket, int rc, struct lladd_error *why)
{
    while (!rc && !c->rc && c->turn != ticket)
        lladd_cond_wait(&c->turned, &c->mutex);
    if (rc || c->rc)
        return rc ? rc : c->rc;
    rc = c->job->add(c->job->ctx, member, ticket, why);
    c->turn++;
    lladd_cond_broadcast(&c->turned);
    return rc;
}

/* Does the work of one ticket; false: there is none, or a thread has failed. */
static bool step(struct crew *c, unsigned member)
{
    struct lladd_error why = LLADD_ERROR_INIT;
    lladd_mutex_lock(&c->mutex);
    bool more = !c->rc && c->next < c->job->tickets;
    uint64_t ticket = c->next;
    c->next += more;
    lladd_mutex_unlock(&c->mutex);
    if (!more)
        return false;
    int rc = c->job->make(c->job->ctx, member, ticket, &why);
    lladd_mutex_lock(&c->mutex);
    rc = add(c, member, ticket, rc, &why);
    if (rc)
        fail(c, rc, &why);
    lladd_mutex_unlock(&c->mutex);
    if (rc || !c->job->after)
        return rc == 0;
    rc = c->job->after(c->job->ctx, member, &why);
    if (rc) {
        lladd_mutex_lock(&c->mutex);
        fail(c, rc, &why);
        lladd_mutex_unlock(&c->mutex);
    }
    return rc == 0;
}

static void *work(void *arg)
{
    struct member *m = arg;
    while (step(m->crew, m->number)) {
    }
    return NULL;
}

/* The calling thread is the last member. */
static void run(struct crew *c, struct member *members, unsigned n)
{
    unsigned started = 0;
    int rc = 0;
    for (; started < n - 1 && !rc; started += rc == 0) {
        members[started].crew = c;
        members[started].number = started;
        rc = lladd_thread_start(&members[started].thread, work, &members[started]);
    }
    if (rc) {
        struct lladd_error why = LLADD_ERROR_INIT;
        (void)lladd_error_set(&why, rc, "thread %u of %u could not be started", started + 1, n);
        lladd_mutex_lock(&c->mutex);
        fail(c, rc, &why);
        lladd_mutex_unlock(&c->mutex);
    }
    members[n - 1].crew = c;
    members[n - 1].number = n - 1;
    (void)work(&members[n - 1]);
    for (unsigned i = 0; i < started; i++)
        lladd_thread_join(&members[i].thread);
}

static int alone(const struct ll_ship_job *job, struct lladd_error *err)
{
    int rc = 0;
    for (uint64_t i = 0; i < job->tickets && !rc; i++) {
        rc = job->make(job->ctx, 0, i, err);
        if (!rc)
            rc = job->add(job->ctx, 0, i, err);
        if (!rc && job->after)
            rc = job->after(job->ctx, 0, err);
    }
    return rc;
}

int ll_ship_crew(const struct ll_ship_job *job, unsigned threads, struct ll_ship_mem mem,
                 struct lladd_error *err)
{
    struct crew c = {.job = job, .error = LLADD_ERROR_INIT};
    if (threads <= 1)
        return alone(job, err);
    struct member *members = ll_ship_new(mem, threads * sizeof *members);
    if (!members)
        return ll_ship_no_memory(err);
    if (lladd_mutex_init(&c.mutex, RANK_CREW, "threads of a backup")) {
        ll_ship_delete(mem, members);
        return ll_ship_no_memory(err);
    }
    if (lladd_cond_init(&c.turned)) {
        lladd_mutex_destroy(&c.mutex);
        ll_ship_delete(mem, members);
        return ll_ship_no_memory(err);
    }
    run(&c, members, threads);
    if (c.rc && err)
        *err = c.error;
    lladd_cond_destroy(&c.turned);
    lladd_mutex_destroy(&c.mutex);
    ll_ship_delete(mem, members);
    return c.rc;
}

int ll_ship_threads(uint32_t wanted, unsigned *out, struct lladd_error *err)
{
    *out = wanted ? wanted : 1;
    return wanted <= LL_SHIP_THREADS ? 0
                                     : lladd_error_set(err, LLADD_BAD_ARGUMENT,
                                                       "%u threads are more than %u", wanted,
                                                       LL_SHIP_THREADS);
}
