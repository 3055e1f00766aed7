/* SPDX-License-Identifier: BSD-2-Clause */
/* Waiting for a lock.
 *
 * Nothing wakes a waiter when the handle is poisoned, or when another thread takes the transaction
 * over (lladd_txn_take). A waiting thread polls for these two events. */
#include "operations/lock/table.h"

#include <lladd/dst.h>
#include <stdio.h>

#define LOOK_NS UINT64_C(100000000)
#define TEXT_NAME 72

/* ---- errors and events ----------------------------------------------------------------------- */

static bool note_blocker(void *ctx, struct ll_locker *locker, unsigned mode)
{
    struct lladd_lock_event *e = ctx;
    if (e->blockers++ == 0) {
        e->blocker = lladd_atomic_load64(&locker->number);
        e->blocker_txn = lladd_lsn_of(lladd_atomic_load64(&locker->txn));
        e->blocker_mode = mode;
        e->blocker_prepared = lladd_atomic_load32(&locker->state) == LL_LOCKER_PREPARED;
    }
    return true;
}

/* Fills in the event's members about the blockers of a waiting locker. */
static void event_fill(const struct ll_locker *l, struct lladd_lock_event *e)
{
    memset(e, 0, sizeof *e);
    ll_operations__lock_each_blocker(l, note_blocker, e);
}

/* For example "#12 (LSN 4711, prepared)". */
static void name_locker(char *out, size_t size, uint64_t number, lladd_lsn txn, bool prepared)
{
    char lsn[32] = "";
    if (txn.v)
        snprintf(lsn, sizeof lsn, "LSN %llu", (unsigned long long)txn.v);
    snprintf(out, size, "#%llu%s%s%s%s%s", (unsigned long long)number,
             txn.v || prepared ? " (" : "", lsn, txn.v && prepared ? ", " : "",
             prepared ? "prepared" : "", txn.v || prepared ? ")" : "");
}

static int refuse(const struct ll_lock_request *r, const struct lladd_lock_event *e, int code)
{
    char name[TEXT_NAME], blocker[80], more[32] = "", time[40] = "";
    ll_operations__lock_text(r->name, r->len, name, sizeof name);
    name_locker(blocker, sizeof blocker, e->blocker, e->blocker_txn, e->blocker_prepared);
    if (e->blockers > 1)
        snprintf(more, sizeof more, " and %u more", e->blockers - 1);
    if (code == LLADD_TIMEOUT)
        snprintf(time, sizeof time, " for %llu us", (unsigned long long)(e->waited_ns / 1000));
    return lladd_error_set(r->err, code, "%s on %s: in the way%s is transaction %s with %s%s",
                           lladd_lock_mode_name(r->want), name, time, blocker,
                           lladd_lock_mode_name(e->blocker_mode), more);
}

/* ---- waiting --------------------------------------------------------------------------------- */

static bool is_waiting(void *ctx, struct ll_locker *locker, unsigned mode)
{
    bool *waits = ctx;
    (void)mode;
    *waits = lladd_atomic_load32(&locker->waits) != 0;
    return !*waits;
}

/* Ends the wait with `code`, unless a verdict has been set already. */
static void give_up(struct ll_locker *l, struct ll_lock_partition *part, int code,
                    struct lladd_lock_event *event)
{
    struct ll_locker *woken = NULL;
    lladd_mutex_lock(&part->mutex);
    if (!l->decided) {
        struct ll_lock *lock = l->hold->lock;
        event_fill(l, event);
        ll_operations__lock_leave_queue(l);
        l->decided = true;
        l->verdict = code;
        l->next_woken = NULL;
        woken = ll_operations__lock_let_in(l->all, lock, l);
    }
    lladd_mutex_unlock(&part->mutex);
    ll_operations__lock_wake(woken);
}

static void sleep_until_decided(const struct ll_lock_request *r, struct ll_lock_partition *part,
                                struct lladd_lock_event *event)
{
    struct ll_locker *l = r->by;
    struct lladd_db *db = l->all->db;
    while (!lladd_atomic_load32(&l->word)) {
        uint64_t ns = LOOK_NS, now = lladd_now_ns(db);
        int rc = lladd_db_error(db, NULL);
        if (!rc && lladd_txn_stopped(r->txn))
            rc = LLADD_TAKEN;
        if (!rc && (now >= r->deadline || (LLADD_ALONE() && r->deadline != UINT64_MAX)))
            rc = LLADD_TIMEOUT;
        if (!rc && LLADD_ALONE())
            rc = LLADD_BUSY; /* only this thread runs, so no other one can release the lock */
        if (rc)
            give_up(l, part, rc, event);
        else if (r->deadline - now < ns)
            ns = r->deadline - now;
        lladd_word_wait_as("lock", &l->word, 0, UINT32_MAX, ns);
    }
}

static int report(const struct ll_lock_request *r, struct lladd_lock_event *event)
{
    struct ll_locker *l = r->by;
    int rc = l->verdict;
    if (rc == LLADD_DEADLOCK)
        return lladd_error_set(r->err, rc, "%s",
                               l->story ? l->story : "deadlock (no memory to describe it)");
    if (rc == LLADD_TAKEN)
        return lladd_error_set(r->err, rc,
                               "the wait for a lock has ended: another thread takes the "
                               "transaction over");
    if (rc == LLADD_BUSY || rc == LLADD_TIMEOUT)
        return refuse(r, event, rc);
    return rc ? lladd_db_error(l->all->db, r->err) : 0;
}

static void count(struct ll_lock_partition *part, int rc, uint64_t ns)
{
    lladd_mutex_lock(&part->mutex);
    part->waits++;
    part->wait_ns += ns;
    part->timeouts += rc == LLADD_TIMEOUT;
    part->deadlocks += rc == LLADD_DEADLOCK;
    lladd_mutex_unlock(&part->mutex);
}

int ll_operations__lock_wait(const struct ll_lock_request *r, struct ll_lock_partition *part)
{
    struct ll_locker *l = r->by;
    struct lladd_lock_event event;
    bool look = false;
    event_fill(l, &event);
    if (r->deadline == 0) {
        part->busy++;
        ll_operations__lock_leave_queue(l);
        lladd_mutex_unlock(&part->mutex);
        return refuse(r, &event, LLADD_BUSY);
    }
    unsigned want = l->want;
    uint64_t since = lladd_now_ns(l->all->db);
    lladd_atomic_store64(&l->waits_since, since);
    lladd_atomic_fence();
    ll_operations__lock_each_blocker(l, is_waiting, &look);
    lladd_mutex_unlock(&part->mutex);
    if (look)
        ll_operations__lock_look_for_cycles(l);
    sleep_until_decided(r, part, &event);
    event.at_ns = lladd_now_ns(l->all->db);
    event.waited_ns = event.at_ns - since;
    int rc = report(r, &event);
    if (rc == LLADD_BUSY && LLADD_ALONE())
        LLADD_STUCK(r->err->message);
    count(part, rc, event.waited_ns);
    event.outcome = rc;
    event.number = l->number;
    event.txn = lladd_lsn_of(l->txn);
    event.wanted = want;
    ll_operations__lock_remember(l->all, &event, r->name, r->len,
                                 rc == 0                            ? ""
                                 : rc == LLADD_DEADLOCK && l->story ? l->story
                                                                    : r->err->message);
    lladd_mem_free(l->all->db, l->story);
    l->story = NULL;
    return rc;
}
