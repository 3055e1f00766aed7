/* SPDX-License-Identifier: BSD-2-Clause */
/* Deadlock detection (LOCK-4).
 *
 * The waits-for graph has an edge from a waiter to each transaction that has an incompatible hold,
 * or an incompatible request ahead in the queues, on the same lock. A transaction that already
 * waits gets a new edge in two cases. The first is an edge to a transaction that has just been
 * granted a lock; that transaction does not wait. The second is an edge to a transaction that
 * begins to wait for an upgrade, because upgrades come before new requests. Every cycle is
 * therefore closed by the beginning of a wait, and contains the transaction that begins the wait. A
 * breadth-first search from this transaction finds a shortest cycle.
 *
 * The search needs the queues of all partitions at one moment, so it takes all their mutexes, in
 * order. If none of the blockers waits, there is no cycle and no search. A transaction sets its own
 * `waits`, executes a memory barrier, and then reads `waits` of its blockers. The last member of a
 * cycle that sets `waits` therefore sees that the next member waits, and searches.
 *
 * The victim is the youngest transaction of the cycle, not necessarily the caller. The searching
 * thread removes the victim from its queue, sets its verdict, and wakes it. A verdict is set once
 * for a wait, under the mutex of the lock's partition. The thread that has set a verdict stores 1
 * in `word` as its last change of the locker. The waiting thread continues only after that. */
#include "operations/lock/table.h"

#include <stdarg.h>
#include <stdio.h>

#define TEXT_NAME 72

/* ---- the story of a cycle ------------------------------------------------------------------- */

/* A string that grows. lost: memory has run out, or formatting has failed. */
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

/* Finds the mode in which `locker` blocks a waiter. */
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

/* Returns the member of a cycle that waits for `start`; the chain of `from` leads from this member
 * back to `start`. NULL: `start` is in no cycle. */
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

/* The text of the victim's error; NULL: no memory. */
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

void ll_operations__lock_look_for_cycles(struct ll_locker *start)
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
