/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fibers: a cooperative scheduler below <lladd/sync.h>, in instrumented builds (lladd/dst.h).
 *
 * In a run, one OS thread runs all threads as fibers. Each fiber has its own stack and runs until
 * it reaches a scheduling point, at which the `turn` callback chooses the fiber that runs next.
 * Every wait for another thread is in sync.c, which calls this scheduler, so the same choices give
 * the same execution.
 *
 * Terms. A fiber is READY, ASLEEP (on the address of a mutex, condition, word or fiber), or ENDED.
 * A *point* is a place where the scheduler may interrupt a READY fiber; `turn` is called only if
 * several fibers may run next, or be woken. A fiber that *yields* runs again only when every other
 * READY fiber has yielded, too. Otherwise a fiber that spins until another fiber acts would spin
 * for ever in a schedule that prefers the spinning fiber.
 *
 * Time is virtual. Each point takes a little time. When no fiber is READY, time jumps to the end of
 * the sleep that ends first. If no sleep has a time limit, no fiber can ever run again: this is a
 * deadlock, and the run ends with a message that says for what each fiber waits.
 *
 * The fibers of a run that ends early (deadlock, too many steps, lladd_dst_stop, or `turn` stops
 * it) do not continue. Their stacks are reused for the next run. Memory that they have allocated is
 * not freed, unless the caller of lladd_dst_run has supplied the allocator and frees its memory.
 *
 * Switching. The first switch to a new stack is a context switch of the C library, which calls the
 * kernel for the signal mask; later switches are jumps, which are fast. A fiber that has ended
 * waits in its loop to be reused. Two kinds of builds use context switches only. The
 * first is with AddressSanitizer, which must be told about each switch; there a stack that is used
 * again begins at its top. The second is with a fortified C library, which treats a jump to another
 * stack as an attack.
 *
 * Not simulated: spurious wake-ups and weak memory ordering. Execution is sequentially consistent.
 *
 * Threads. An OS thread has at most one run at a time; several OS threads can have a run each.
 */
#include "util/fibers.h"
#include "util/env.h"

#ifdef LLADD_DST

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#if defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#endif
#ifdef WITH_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(WITH_ASAN) || (defined(_FORTIFY_SOURCE) && _FORTIFY_SOURCE > 0)
#define WITH_CONTEXTS 1
#endif
#ifdef WITH_ASAN
#define ONE_LIFE true
#else
#define ONE_LIFE false
#endif

enum { FIBERS_MAX = 32, STACK_DEFAULT = 256 * 1024, STEP_DEFAULT_NS = 100, GUARD = 4096 };
#define STEPS_DEFAULT UINT64_C(10000000)
#define POINTS_DEFAULT (UINT32_MAX & ~(uint32_t)LLADD_DST_ATOMIC)

enum state { ENDED, READY, ASLEEP };

/* A stack, and the state from which execution on the stack continues. */
struct place {
    unsigned char *stack;
    size_t size;
    bool begun;
    ucontext_t context;
    jmp_buf jump;
#ifdef WITH_ASAN
    void *fake_stack;
#endif
};

struct fiber {
    struct place place;
    enum state state;
    uint64_t number; /* 0 is the first fiber of the run */
    void *(*fn)(void *);
    void *arg;
    bool yielded;
    struct ll_held held; /* valid while another fiber runs */
    /* ASLEEP: */
    enum lladd_dst_point why;
    const void *on;
    const char *name;
    uint32_t bits;
    uint64_t since, until; /* until: 0 means no limit */
    bool woken;
};

struct lladd_dst_fibers {
    struct ll_env env;
    struct lladd_dst_schedule cfg;
    struct lladd_dst *dst; /* NULL: no run */
    struct place outside;
    struct fiber fibers[FIBERS_MAX];
    unsigned n; /* number of fibers that have a stack */
    struct fiber *current;
    bool asking; /* `turn` is running: its calls are not scheduling points of the run */
    uint64_t next_number, sleeps;
    struct lladd_dst_run_stats stats;
    int rc;
    struct lladd_error *err;
};

static struct lladd_dst_fibers *running(void)
{
    return lladd_dst_entered->fibers;
}

/* ---- switching --------------------------------------------------------------------------- */

#ifdef WITH_ASAN
/* `for_good`: the fiber has ended and no longer needs its fake stack. */
static void depart(struct place *from, const struct place *to, bool for_good)
{
    __sanitizer_start_switch_fiber(for_good ? NULL : &from->fake_stack, to->stack, to->size);
}

static void arrive(struct place *here)
{
    __sanitizer_finish_switch_fiber(here->fake_stack, NULL, NULL);
}

/* Called at the first arrival on a stack. The first arrival of a run comes from the caller's stack
 * and records that stack as the outside stack. */
static void arrive_first(struct lladd_dst_fibers *s)
{
    const void *bottom;
    size_t size;
    __sanitizer_finish_switch_fiber(NULL, &bottom, &size);
    if (s->outside.stack == NULL) {
        s->outside.stack = (unsigned char *)(uintptr_t)bottom;
        s->outside.size = size;
    }
}

static void clean_stack(struct place *p)
{
    __asan_unpoison_memory_region(p->stack, p->size);
    p->fake_stack = NULL;
}
#else
static void depart(struct place *from, const struct place *to, bool for_good)
{
    (void)from;
    (void)to;
    (void)for_good;
}

static void arrive(struct place *here)
{
    (void)here;
}

static void arrive_first(struct lladd_dst_fibers *s)
{
    (void)s;
}

static void clean_stack(struct place *p)
{
    (void)p;
}
#endif

static void travel(struct place *from, struct place *to, bool for_good)
{
    depart(from, to, for_good);
#ifdef WITH_CONTEXTS
    to->begun = true;
    (void)swapcontext(&from->context, &to->context); /* returns an error only without memory for a
                                                      * stack; the stack exists already */
#else
    if (_setjmp(from->jump) == 0) {
        if (to->begun)
            _longjmp(to->jump, 1);
        to->begun = true;
        (void)setcontext(&to->context);
    }
#endif
    arrive(from);
}

static void leave_run(struct lladd_dst_fibers *s)
{
    travel(&s->current->place, &s->outside, s->current->state == ENDED);
}

static void switch_to(struct lladd_dst_fibers *s, struct fiber *to)
{
    struct fiber *from = s->current;
    to->yielded = false;
    if (to == from)
        return;
    s->stats.switches++;
    ll_sync_swap_held(&from->held, &to->held);
    s->current = to;
    travel(&from->place, &to->place, from->state == ENDED);
}

/* ---- ending early ------------------------------------------------------------------------ */

static const char *what_for(enum lladd_dst_point why)
{
    switch (why) {
    case LLADD_DST_LOCK:
        return "mutex";
    case LLADD_DST_WAIT:
        return "condition or word";
    case LLADD_DST_THREAD:
        return "end of fiber";
    default:
        return "nothing";
    }
}

static void say(char *out, size_t size, size_t *at, const char *fmt, ...) LLADD_PRINTF(4, 5);

static void say(char *out, size_t size, size_t *at, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = *at < size ? vsnprintf(out + *at, size - *at, fmt, ap) : 0;
    va_end(ap);
    *at += n > 0 ? (size_t)n : 0;
}

static bool same_sleep(const struct fiber *a, const struct fiber *b)
{
    return b->state == ASLEEP && a->why == b->why && a->on == b->on && a->name == b->name;
}

/* Describes fiber i and all fibers that wait for the same object. Does nothing if a fiber with a
 * smaller index waits for this object: the call for that fiber has described all of them. */
static void describe_sleep(const struct lladd_dst_fibers *s, unsigned i, char *out, size_t size,
                           size_t *at)
{
    const struct fiber *f = &s->fibers[i];
    unsigned n = 0;
    for (unsigned k = 0; k < i; k++)
        if (same_sleep(f, &s->fibers[k]))
            return;
    for (unsigned k = i; k < s->n; k++)
        n += same_sleep(f, &s->fibers[k]);
    say(out, size, at, "%sfiber%s %llu", *at ? "; " : "", n > 1 ? "s" : "",
        (unsigned long long)f->number);
    for (unsigned k = i + 1; k < s->n; k++)
        if (same_sleep(f, &s->fibers[k]))
            say(out, size, at, ", %llu", (unsigned long long)s->fibers[k].number);
    say(out, size, at, " wait%s for %s", n > 1 ? "" : "s", what_for(f->why));
    if (f->why == LLADD_DST_LOCK) {
        const struct lladd_mutex *m = f->on;
        if (m->owner)
            say(out, size, at, " \"%s\", which fiber %llu holds", m->name,
                (unsigned long long)m->owner - 1);
        else
            say(out, size, at, " \"%s\"", m->name);
    } else if (f->why == LLADD_DST_THREAD) {
        say(out, size, at, " %llu", (unsigned long long)((const struct fiber *)f->on)->number);
    } else {
        say(out, size, at, " \"%s\"", f->name ? f->name : "?");
    }
}

/* Does not return. */
static void end_run(struct lladd_dst_fibers *s, int code, const char *message)
{
    s->rc = ll_fail(s->err, code, "%s", message);
    leave_run(s);
}

static void end_deadlocked(struct lladd_dst_fibers *s)
{
    char text[sizeof s->err->message] = "";
    size_t at = 0;
    for (unsigned i = 0; i < s->n; i++)
        if (s->fibers[i].state == ASLEEP)
            describe_sleep(s, i, text, sizeof text, &at);
    end_run(s, LLADD_DEADLOCK, text);
}

/* ---- the choice of the next fiber -------------------------------------------------------- */

static void make_ready(struct fiber *f, bool woken)
{
    f->state = READY;
    f->woken = woken;
    f->yielded = false;
}

static void expire(struct lladd_dst_fibers *s)
{
    for (unsigned i = 0; i < s->n; i++) {
        struct fiber *f = &s->fibers[i];
        if (f->state == ASLEEP && f->until && f->until <= s->stats.now_ns)
            make_ready(f, false);
    }
}

/* Called when no fiber can run. Advances the time to the earliest end of a sleep; false if no sleep
 * has a time limit. */
static bool leap(struct lladd_dst_fibers *s)
{
    uint64_t first = UINT64_MAX;
    for (unsigned i = 0; i < s->n; i++)
        if (s->fibers[i].state == ASLEEP && s->fibers[i].until && s->fibers[i].until < first)
            first = s->fibers[i].until;
    if (first == UINT64_MAX)
        return false;
    s->stats.now_ns = first;
    expire(s);
    return true;
}

struct candidates {
    struct fiber *fibers[FIBERS_MAX];
    uint64_t numbers[FIBERS_MAX];
    unsigned n;
};

static void add(struct candidates *c, struct fiber *f)
{
    c->fibers[c->n] = f;
    c->numbers[c->n++] = f->number;
}

/* Adds the READY fibers other than the current fiber: those that have yielded if `yielded`, else
 * those that have not. The order is round-robin, from the fiber after the current fiber. */
static void add_others(struct lladd_dst_fibers *s, struct candidates *c, bool yielded)
{
    unsigned here = (unsigned)(s->current - s->fibers);
    for (unsigned i = 1; i < s->n; i++) {
        struct fiber *f = &s->fibers[(here + i) % s->n];
        if (f->state == READY && f->yielded == yielded)
            add(c, f);
    }
}

/* The current fiber is the first element if it may continue. */
static void collect(struct lladd_dst_fibers *s, struct candidates *c)
{
    c->n = 0;
    if (s->current->state == READY && !s->current->yielded)
        add(c, s->current);
    add_others(s, c, false);
    if (c->n > 0)
        return;
    /* All READY fibers have yielded. */
    add_others(s, c, true);
    if (c->n == 0 && s->current->state == READY)
        add(c, s->current);
    for (unsigned i = 0; i < s->n; i++)
        s->fibers[i].yielded = false;
}

static unsigned ask(struct lladd_dst_fibers *s, enum lladd_dst_point why,
                    const struct candidates *c, bool current)
{
    struct lladd_dst_turn turn = {why, c->n, c->numbers, current};
    s->asking = true;
    s->stats.choices++;
    unsigned i = s->cfg.turn ? s->cfg.turn(s->cfg.ctx, &turn) : 0;
    s->asking = false;
    if (i >= c->n)
        end_run(s, LLADD_END, "the schedule has stopped the run");
    return i;
}

/* Returns when the current fiber runs again. */
static void next(struct lladd_dst_fibers *s, enum lladd_dst_point why)
{
    struct candidates c;
    s->stats.now_ns += s->cfg.step_ns;
    if (++s->stats.steps > s->cfg.steps_max)
        end_run(s, LLADD_TIMEOUT, "the run did not end within its number of steps");
    expire(s);
    collect(s, &c);
    if (c.n == 0 && leap(s))
        collect(s, &c);
    if (c.n == 0)
        end_deadlocked(s);
    switch_to(s, c.n == 1 ? c.fibers[0] : c.fibers[ask(s, why, &c, c.fibers[0] == s->current)]);
}

void lladd_dst_reach(enum lladd_dst_point why)
{
    if (!LL_SCHEDULED)
        return;
    struct lladd_dst_fibers *s = running();
    if ((s->cfg.points & why) && !s->asking)
        next(s, why);
}

void lladd_dst_stop(void)
{
    if (LL_SCHEDULED)
        end_run(running(), LLADD_END, "a fiber has stopped the run");
}

/* ---- sleeping and waking ----------------------------------------------------------------- */

bool ll_fibers_sleep(enum lladd_dst_point why, const void *on, const char *name, uint32_t bits,
                     uint64_t ns)
{
    struct lladd_dst_fibers *s = running();
    struct fiber *f = s->current;
    f->state = ASLEEP;
    f->why = why;
    f->on = on;
    f->name = name;
    f->bits = bits;
    f->since = ++s->sleeps;
    f->until = ns ? s->stats.now_ns + ns : 0;
    if (f->until < s->stats.now_ns)
        f->until = 0; /* overflow: no limit */
    next(s, LLADD_DST_BLOCKED);
    return f->woken;
}

/* Collects the fibers that sleep on the address and share a bit with `bits`, the longest sleeper
 * first. */
static void sleepers(struct lladd_dst_fibers *s, const void *on, uint32_t bits,
                     struct candidates *c)
{
    c->n = 0;
    for (unsigned i = 0; i < s->n; i++) {
        struct fiber *f = &s->fibers[i];
        if (f->state != ASLEEP || f->on != on || !(f->bits & bits))
            continue;
        unsigned k = c->n++;
        for (; k > 0 && c->fibers[k - 1]->since > f->since; k--) {
            c->fibers[k] = c->fibers[k - 1];
            c->numbers[k] = c->numbers[k - 1];
        }
        c->fibers[k] = f;
        c->numbers[k] = f->number;
    }
}

void ll_fibers_wake(const void *on, int n, uint32_t bits)
{
    struct lladd_dst_fibers *s = running();
    for (; n > 0; n--) {
        struct candidates c;
        sleepers(s, on, bits, &c);
        if (c.n == 0)
            return;
        /* If all sleepers are woken, no choice is left. */
        unsigned i = c.n == 1 || (unsigned)n >= c.n ? 0 : ask(s, LLADD_DST_WAKE, &c, false);
        make_ready(c.fibers[i], true);
    }
}

void ll_fibers_yield(void)
{
    struct lladd_dst_fibers *s = running();
    if (s->asking)
        return;
    s->current->yielded = true;
    next(s, LLADD_DST_YIELD);
}

/* ---- fibers ------------------------------------------------------------------------------ */

static void entry(void)
{
    struct lladd_dst_fibers *s = running();
    arrive_first(s);
    for (;;) {
        struct fiber *f = s->current;
        (void)f->fn(f->arg);
        f->state = ENDED;
        ll_fibers_wake(f, INT_MAX, UINT32_MAX);
        unsigned left = 0;
        for (unsigned i = 0; i < s->n; i++)
            left += s->fibers[i].state != ENDED;
        if (left > 0)
            next(s, LLADD_DST_BLOCKED);
        else
            leave_run(s);
    }
}

/* Resets the place: the next switch to it enters at the top of the stack. */
static void rewind_place(struct place *p)
{
    clean_stack(p);
    p->begun = false;
    (void)getcontext(&p->context); /* cannot fail on Linux */
    p->context.uc_stack.ss_sp = p->stack;
    p->context.uc_stack.ss_size = p->size;
    p->context.uc_link = NULL;
    makecontext(&p->context, entry, 0);
}

static int make_stack(struct lladd_dst_fibers *s, struct place *p)
{
    size_t size = (s->cfg.stack_bytes + GUARD - 1) / GUARD * GUARD;
    unsigned char *m = mmap(NULL, size + GUARD, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (m == MAP_FAILED)
        return LLADD_NO_MEMORY;
    if (mprotect(m, GUARD, PROT_NONE) != 0) {
        (void)munmap(m, size + GUARD);
        return LLADD_NO_MEMORY;
    }
    p->stack = m + GUARD;
    p->size = size;
    rewind_place(p);
    return 0;
}

static struct fiber *free_fiber(struct lladd_dst_fibers *s)
{
    for (unsigned i = 0; i < s->n; i++)
        if (s->fibers[i].state == ENDED && &s->fibers[i] != s->current)
            return &s->fibers[i];
    if (s->n == FIBERS_MAX || make_stack(s, &s->fibers[s->n].place))
        return NULL;
    return &s->fibers[s->n++];
}

static struct fiber *begin_fiber(struct lladd_dst_fibers *s, void *(*fn)(void *), void *arg)
{
    struct fiber *f = free_fiber(s);
    if (!f)
        return NULL;
    if (ONE_LIFE)
        rewind_place(&f->place);
    f->state = READY;
    f->number = s->next_number++;
    f->fn = fn;
    f->arg = arg;
    f->yielded = false;
    f->held = (struct ll_held){0};
    s->stats.fibers++;
    return f;
}

int ll_fibers_start(void *(*fn)(void *), void *arg, uint64_t *number)
{
    const struct fiber *f = begin_fiber(running(), fn, arg);
    if (!f)
        return LLADD_NO_THREAD;
    *number = f->number;
    lladd_dst_reach(LLADD_DST_THREAD);
    return 0;
}

void ll_fibers_join(uint64_t number)
{
    struct lladd_dst_fibers *s = running();
    lladd_dst_reach(LLADD_DST_THREAD);
    for (unsigned i = 0; i < s->n; i++) {
        struct fiber *f = &s->fibers[i];
        if (f->number == number && f->state != ENDED)
            (void)ll_fibers_sleep(LLADD_DST_THREAD, f, NULL, UINT32_MAX, 0);
    }
}

uint64_t ll_fibers_self(void)
{
    return running()->current->number + 1;
}

/* ---- runs -------------------------------------------------------------------------------- */

int lladd_dst_fibers_new(const struct lladd_dst_schedule *cfg, struct lladd_dst_fibers **out)
{
    struct ll_env env;
    ll_env_init(&env, NULL, NULL, false);
    struct lladd_dst_fibers *s = ll_alloc_zero(&env, sizeof *s);
    if (!s)
        return LLADD_NO_MEMORY;
    s->env = env;
    s->cfg = *cfg;
    if (s->cfg.stack_bytes == 0)
        s->cfg.stack_bytes = STACK_DEFAULT;
    if (s->cfg.steps_max == 0)
        s->cfg.steps_max = STEPS_DEFAULT;
    if (s->cfg.step_ns == 0)
        s->cfg.step_ns = STEP_DEFAULT_NS;
    if (s->cfg.points == 0)
        s->cfg.points = POINTS_DEFAULT;
    *out = s;
    return 0;
}

void lladd_dst_fibers_free(struct lladd_dst_fibers *s)
{
    if (!s)
        return;
    for (unsigned i = 0; i < s->n; i++)
        (void)munmap(s->fibers[i].place.stack - GUARD, s->fibers[i].place.size + GUARD);
    ll_free(&s->env, s);
}

static void clear_away(struct lladd_dst_fibers *s)
{
    for (unsigned i = 0; i < s->n; i++) {
        if (s->fibers[i].state == ENDED)
            continue;
        s->fibers[i].state = ENDED;
        rewind_place(&s->fibers[i].place);
    }
}

int lladd_dst_run(struct lladd_dst_fibers *s, struct lladd_dst *dst, void *(*fn)(void *), void *arg,
                  struct lladd_error *err)
{
    struct lladd_error local = LLADD_ERROR_INIT;
    if (s->dst || dst->fibers || LL_SCHEDULED)
        return ll_fail(err, LLADD_BAD_STATE, "a run cannot begin inside a run");
    memset(&s->stats, 0, sizeof s->stats);
    s->rc = 0;
    s->err = err ? err : &local;
    s->next_number = 0;
    s->sleeps = 0;
    s->asking = false;
    s->current = NULL;
    s->outside.stack = NULL;
    s->outside.begun = true;
    struct fiber *first = begin_fiber(s, fn, arg);
    if (!first)
        return ll_fail(err, LLADD_NO_MEMORY, "no memory for a stack");
    struct lladd_dst *before = lladd_dst_enter(dst);
    const struct ll_held none = {0};
    struct ll_held held, last;
    ll_sync_swap_held(&held, &none);
    s->dst = dst;
    dst->fibers = s;
    dst->atomics = (s->cfg.points & LLADD_DST_ATOMIC) != 0;
    s->current = first;
    travel(&s->outside, &first->place, false);
    dst->fibers = NULL;
    dst->atomics = false;
    s->dst = NULL;
    ll_sync_swap_held(&last, &held);
    (void)lladd_dst_enter(before);
    clear_away(s);
    return s->rc;
}

void lladd_dst_run_stats_get(const struct lladd_dst_fibers *s, struct lladd_dst_run_stats *out)
{
    *out = s->stats;
}

uint64_t lladd_dst_now_ns(void)
{
    return LL_SCHEDULED ? running()->stats.now_ns : 0;
}

#endif
