/* SPDX-License-Identifier: BSD-2-Clause */
/* Waiting, and deadlock detection (LOCK-4).
 *
 * The waits-for graph has an edge from a waiter to each transaction that has an incompatible hold,
 * or an earlier incompatible request, on the same lock. An existing waiter gets a new edge only to
 * a transaction that has just been granted, and so does not wait, or to one that begins to wait (an
 * upgrade passes new requests). Every cycle is therefore closed by the beginning of a wait, and
 * contains the transaction that begins it. A breadth-first search from this transaction finds a
 * shortest cycle.
 *
 * The search needs the queues of all partitions at one moment, so it takes all their mutexes, in
 * order. If none of the blockers waits, there is no cycle and no search. A transaction sets its
 * `waits` before it reads those of its blockers, with a memory barrier in between. The last member
 * of a cycle that sets `waits` therefore sees that the next one waits, and searches.
 *
 * The victim is the youngest of the cycle, not necessarily the caller. It is removed from its
 * queue, gets its verdict, and is woken. A verdict is set once, under the mutex of the lock's
 * partition. The thread that sets it stores `word` when it no longer uses the locker; the waiting
 * thread continues only after that.
 *
 * Nothing wakes a waiter when the handle is poisoned, or when another thread takes the transaction
 * over (lladd_txn_take). A waiting thread polls for these two events. */
#include "operations/lock/table.h"

#include <lladd/dst.h>
#include <stdarg.h>
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

/* A string that grows; bytes is NULL if memory has run out. */
struct story {
    struct lladd_db *db;
    char *bytes;
    size_t len, size;
    bool lost;
};

static void tell(struct story *s, const char *fmt, ...) LLADD_PRINTF(2, 3);
static void tell(struct story *s, const char *fmt, ...)
{
    for (int tries = 0; !s->lost && tries < 2; tries++) {
        va_list args;
        va_start(args, fmt);
        int n = vsnprintf(s->bytes ? s->bytes + s->len : NULL, s->size - s->len, fmt, args);
        va_end(args);
        if (n >= 0 && s->bytes && (size_t)n < s->size - s->len) {
            s->len += (size_t)n;
            return;
        }
        size_t size = (s->size + (size_t)(n > 0 ? n : 0)) * 2 + 256;
        char *bytes = lladd_mem_resize(s->db, s->bytes, size);
        s->lost = n < 0 || !bytes;
        if (bytes) {
            s->bytes = bytes;
            s->size = size;
        }
    }
}

/* Finds the mode in which one locker blocks another. */
struct in_the_way {
    const struct ll_locker *locker;
    unsigned mode;
};

static bool find_mode(void *ctx, struct ll_locker *locker, unsigned mode)
{
    struct in_the_way *w = ctx;
    if (locker != w->locker)
        return true;
    w->mode = mode;
    return false;
}

/* Describes the cycle, beginning with the victim. */
static char *tell_cycle(struct ll_locks *all, struct ll_locker **cycle, size_t n, size_t victim)
{
    struct story s = {.db = all->db};
    for (size_t i = 0; i < n; i++) {
        struct ll_locker *l = cycle[(victim + i) % n];
        struct in_the_way next = {cycle[(victim + i + 1) % n], LLADD_LOCK_NONE};
        char name[TEXT_NAME];
        const struct ll_lock *lock = l->hold->lock;
        ll_operations__lock_each_blocker(l, find_mode, &next);
        ll_operations__lock_text(lock->name, lock->len, name, sizeof name);
        if (i == 0)
            tell(&s, "deadlock of %zu: ", n);
        tell(&s, "#%llu waits for %s on %s, blocked by #%llu with %s%s",
             (unsigned long long)l->number, lladd_lock_mode_name(l->want), name,
             (unsigned long long)next.locker->number, lladd_lock_mode_name(next.mode),
             i + 1 < n ? "; " : "");
    }
    if (!s.lost)
        return s.bytes;
    lladd_mem_free(all->db, s.bytes);
    return NULL;
}

/* ---- cycles ---------------------------------------------------------------------------------- */

void ll_operations__lock_stop(struct ll_locks *all)
{
    for (size_t i = 0; i < LL_LOCK_PARTITIONS; i++)
        lladd_mutex_lock(&all->parts[i].mutex);
}

void ll_operations__lock_go(struct ll_locks *all)
{
    for (size_t i = LL_LOCK_PARTITIONS; i-- > 0;)
        lladd_mutex_unlock(&all->parts[i].mutex);
}

struct search {
    struct ll_locker *start, *at; /* at: the locker that is visited now */
    struct ll_locker **end;       /* end of the queue of lockers to visit */
    bool closed;
};

static bool visit(void *ctx, struct ll_locker *locker, unsigned mode)
{
    struct search *s = ctx;
    (void)mode;
    if (locker == s->start) {
        s->closed = true;
        return false;
    }
    if (locker->seen == s->start->seen || !lladd_atomic_load32(&locker->waits))
        return true;
    locker->seen = s->start->seen;
    locker->from = s->at;
    locker->next_seen = NULL;
    *s->end = locker;
    s->end = &locker->next_seen;
    return true;
}

/* Returns the locker of a cycle that waits for `start`; its `from` leads back to `start`. NULL:
 * there is no cycle. */
static struct ll_locker *find_cycle(struct ll_locks *all, struct ll_locker *start)
{
    start->seen = ++all->epoch;
    start->from = NULL;
    start->next_seen = NULL;
    struct search s = {start, start, &start->next_seen, false};
    for (; s.at; s.at = s.at->next_seen) {
        ll_operations__lock_each_blocker(s.at, visit, &s);
        if (s.closed)
            return s.at;
    }
    return NULL;
}

static struct ll_locker *youngest_of(struct ll_locker *last)
{
    struct ll_locker *youngest = last;
    for (struct ll_locker *l = last; l; l = l->from)
        if (l->number > youngest->number)
            youngest = l;
    return youngest;
}

/* The text of the victim's error; NULL without memory. */
static char *story_of(struct ll_locks *all, struct ll_locker *last, const struct ll_locker *victim)
{
    size_t n = 0, at = 0;
    for (struct ll_locker *l = last; l; l = l->from)
        n++;
    struct ll_locker **cycle = lladd_mem_alloc(all->db, n * sizeof(struct ll_locker *));
    if (!cycle)
        return NULL;
    size_t i = n;
    for (struct ll_locker *l = last; l; l = l->from) {
        cycle[--i] = l;
        if (l == victim)
            at = i;
    }
    char *story = tell_cycle(all, cycle, n, at);
    lladd_mem_free(all->db, cycle);
    return story;
}

static void look_for_cycles(struct ll_locker *start)
{
    struct ll_locks *all = start->all;
    struct ll_locker *woken = NULL;
    ll_operations__lock_stop(all);
    while (!start->decided) {
        struct ll_locker *last = find_cycle(all, start);
        if (!last)
            break;
        struct ll_locker *victim = youngest_of(last);
        struct ll_lock *lock = victim->hold->lock;
        victim->story = story_of(all, last, victim);
        ll_operations__lock_leave_queue(victim);
        victim->decided = true;
        victim->verdict = LLADD_DEADLOCK;
        victim->next_woken = woken;
        woken = ll_operations__lock_let_in(all, lock, victim);
    }
    ll_operations__lock_go(all);
    ll_operations__lock_wake(woken);
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
            rc = LLADD_BUSY; /* Only this thread runs, so no other can release the lock. */
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
                               l->story ? l->story : "deadlock (no memory to tell the cycle)");
    if (rc == LLADD_TAKEN)
        return lladd_error_set(r->err, rc,
                               "another thread takes the transaction over: the wait "
                               "for a lock has ended");
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
        look_for_cycles(l);
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
