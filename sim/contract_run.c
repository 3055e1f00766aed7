/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * contract_run: runs an operation's callbacks in a child process, between guard pages.
 *
 * Pages and record bytes lie in one mapping, each between inaccessible guard pages. While redo,
 * undo or validate runs on one page, the other pages are inaccessible too. The record's bytes end
 * where a guard page begins, so reading one byte too many is detected. A timer of processor time
 * ends a child in which a callback loops. A timer of real time ends a child in which a callback
 * sleeps. (page_guard.c uses the mapping without a child.)
 */
#include "sim/contract_private.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { GUARD = 64 << 10, ASLEEP = 40, NOISE = 8 << 10, NEAR = 64 };

/* ---- the arena ------------------------------------------------------------------------------- */

int ll_sim__bench_init(struct ll_sim__bench *b, size_t longest, struct lladd_error *err)
{
    long page = sysconf(_SC_PAGESIZE);
    size_t unit = page > 0 ? (size_t)page : 4096;
    b->page_room = (b->size + unit - 1) / unit * unit;
    b->bytes_room = (longest + unit) / unit * unit;
    size_t guard = (GUARD + unit - 1) / unit * unit;
    b->map_len = (LL_SIM__SLOTS + 2) * guard + LL_SIM__SLOTS * b->page_room + b->bytes_room;
    b->map = mmap(NULL, b->map_len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (b->map == MAP_FAILED) {
        b->map = NULL;
        return lladd_error_set(err, LLADD_NO_MEMORY, "no memory for the pages of samples");
    }
    unsigned char *at = b->map + guard;
    int rc = 0;
    for (unsigned i = 0; i < LL_SIM__SLOTS; i++) {
        /* The page ends where its guard begins, even if it is smaller than a system page. */
        b->slot[i] = at + b->page_room - b->size;
        rc |= mprotect(at, b->page_room, PROT_READ | PROT_WRITE);
        at += b->page_room + guard;
    }
    b->bytes = at;
    rc |= mprotect(at, b->bytes_room, PROT_READ | PROT_WRITE);
    b->kept_redo = malloc(longest ? longest : 1);
    b->kept_undo = malloc(longest ? longest : 1);
    if (rc || !b->kept_redo || !b->kept_undo)
        return lladd_error_set(err, LLADD_NO_MEMORY, "no memory for the pages of samples");
    return 0;
}

void ll_sim__bench_free(struct ll_sim__bench *b)
{
    if (b->map)
        (void)munmap(b->map, b->map_len);
    free(b->kept_redo);
    free(b->kept_undo);
}

struct lladd_page ll_sim__page(const struct ll_sim__bench *b, unsigned slot, uint64_t number)
{
    return (struct lladd_page){b->slot[slot], b->size, 0, lladd_page_of(number)};
}

struct lladd_view ll_sim__view(const struct ll_sim__bench *b, unsigned slot, uint64_t number)
{
    return (struct lladd_view){b->slot[slot], b->size, lladd_get16(b->slot[slot] + 4),
                               lladd_page_of(number)};
}

/* ---- fatal signals --------------------------------------------------------------------------- */

/* The bench of this process, for the signal handler. */
static struct ll_sim__bench *watched;

bool ll_sim__where(const struct ll_sim__bench *b, const unsigned char *at, char *out, size_t size)
{
    if (at < b->map || at >= b->map + b->map_len)
        return false;
    if (at < b->bytes - GUARD / 2)
        (void)snprintf(out, size, "byte %td of its page of %u bytes", at - b->slot[b->inside],
                       b->size);
    else
        (void)snprintf(out, size, "byte %td of its %zu bytes of arguments",
                       at - (b->bytes + b->bytes_room - b->len), b->len);
    return true;
}

static void dies(int signal, siginfo_t *info, void *context)
{
    struct ll_sim__bench *b = watched;
    (void)context;
    b->board->signal = signal;
    b->board->late = signal == SIGPROF || signal == SIGALRM;
    if (signal == SIGSEGV || signal == SIGBUS)
        b->board->outside =
            ll_sim__where(b, info->si_addr, b->board->where, sizeof b->board->where);
    (void)kill(getpid(), SIGKILL);
}

void ll_sim__watch(struct ll_sim__bench *b)
{
    static const int deadly[] = {SIGSEGV, SIGBUS,  SIGFPE,  SIGILL,
                                 SIGABRT, SIGTRAP, SIGPROF, SIGALRM};
    stack_t stack = {.ss_size = LL_SIM__SIGNAL_STACK};
    watched = b;
    /* The handler has its own stack, so that it can also report a stack overflow. */
    stack.ss_sp = mmap(NULL, LL_SIM__SIGNAL_STACK, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack.ss_sp != MAP_FAILED)
        (void)sigaltstack(&stack, NULL);
    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++) {
        struct sigaction a;
        memset(&a, 0, sizeof a);
        a.sa_sigaction = dies;
        a.sa_flags = SA_SIGINFO | SA_ONSTACK;
        (void)sigemptyset(&a.sa_mask);
        (void)sigaction(deadly[i], &a, NULL);
    }
}

/* 0 turns the timers off. */
static void set_timers(uint64_t us)
{
    uint64_t real = us * ASLEEP;
    struct itimerval busy = {{0, 0}, {(time_t)(us / 1000000), (suseconds_t)(us % 1000000)}};
    struct itimerval asleep = {{0, 0}, {(time_t)(real / 1000000), (suseconds_t)(real % 1000000)}};
    (void)setitimer(ITIMER_PROF, &busy, NULL);
    (void)setitimer(ITIMER_REAL, &asleep, NULL);
}

void ll_sim__clock(struct ll_sim__bench *b, const char *doing, const char *op)
{
    snprintf(b->board->doing, sizeof b->board->doing, "%s of %s", doing, op);
    set_timers((uint64_t)b->in->limit_ms * 1000);
}

void ll_sim__clock_off(void)
{
    set_timers(0);
}

/* ---- calling --------------------------------------------------------------------------------- */

/* Before each call, fills some unused stack and heap with other bytes than before the last call. A
 * callback that relies on what earlier calls have left there then gives other results. */
static __attribute__((noinline)) void scatter(struct ll_sim__bench *b)
{
    volatile unsigned char noise[NOISE];
    unsigned char fill = (unsigned char)(b->random = b->random * 6364136223846793005u + 1);
    fill ^= (unsigned char)(b->random >> 56);
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = fill;
    void *block[8];
    for (size_t i = 0; i < sizeof block / sizeof *block; i++)
        if ((block[i] = malloc((size_t)16 << i)) != NULL)
            memset(block[i], fill, (size_t)16 << i);
    for (size_t i = 0; i < sizeof block / sizeof *block; i++)
        free(block[i]);
}

static bool allow(struct ll_sim__bench *b, unsigned slot, int others)
{
    bool done = true;
    for (unsigned i = 0; i < LL_SIM__SLOTS; i++) {
        if (i == slot)
            continue;
        unsigned char *start = b->slot[i] + b->size - b->page_room;
        done &= mprotect(start, b->page_room, others) == 0;
    }
    return done;
}

bool ll_sim__lay(struct ll_sim__bench *b, unsigned slot, struct lladd_span *bytes)
{
    unsigned char *at = b->bytes + b->bytes_room - bytes->len;
    if (bytes->len && at != bytes->data)
        memmove(at, bytes->data, bytes->len);
    b->inside = slot;
    b->len = bytes->len;
    scatter(b);
    size_t before = (size_t)(at - b->bytes);
    memset(before < NEAR ? b->bytes : at - NEAR, (int)(b->random >> 40),
           before < NEAR ? before : NEAR);
    bytes->data = at;
    return allow(b, slot, PROT_NONE);
}

bool ll_sim__allow(struct ll_sim__bench *b, unsigned slot)
{
    return allow(b, slot, PROT_READ | PROT_WRITE);
}

/* As ll_sim__lay, but called in the child. If access cannot be forbidden, the child ends itself. */
static struct lladd_span lay(struct ll_sim__bench *b, unsigned slot, struct lladd_span bytes)
{
    if (!ll_sim__lay(b, slot, &bytes))
        (void)kill(getpid(), SIGABRT);
    return bytes;
}

static void done(struct ll_sim__bench *b, unsigned slot)
{
    ll_sim__clock_off();
    if (!ll_sim__allow(b, slot))
        (void)kill(getpid(), SIGABRT);
}

bool ll_sim__validate(struct ll_sim__bench *b, const struct lladd_op *op, unsigned slot,
                      uint64_t number, enum lladd_span_kind kind, struct lladd_span bytes)
{
    struct lladd_span s = lay(b, slot, bytes);
    ll_sim__clock(b, "validate", op->name);
    bool fine = op->validate(ll_sim__view(b, slot, number), kind, s);
    done(b, slot);
    return fine;
}

void ll_sim__run(struct ll_sim__bench *b, const struct lladd_op *op, unsigned slot, uint64_t number,
                 enum lladd_span_kind kind, struct lladd_span bytes)
{
    struct lladd_page page = ll_sim__page(b, slot, number);
    if (op->formats && kind == LLADD_SPAN_REDO)
        memset(page.bytes + LLADD_PAGE_HEADER, 0, b->size - LLADD_PAGE_HEADER);
    struct lladd_span s = lay(b, slot, bytes);
    ll_sim__clock(b, kind == LLADD_SPAN_REDO ? "redo" : "undo", op->name);
    (kind == LLADD_SPAN_REDO ? op->redo : op->undo)(&page, s);
    done(b, slot);
}

int ll_sim__prepare(struct ll_sim__bench *b, const struct lladd_sim_sample *s,
                    struct lladd_span *redo, struct lladd_span *undo, struct lladd_error *err)
{
    const struct lladd_op *op = s->op;
    *redo = s->redo.data ? s->redo : s->args;
    *undo = s->undo.data ? s->undo : s->redo.data ? lladd_span_of(NULL, 0) : s->args;
    if (s->redo.data || !op->prepare)
        return 0;
    struct lladd_view page = ll_sim__view(b, 0, s->number);
    if (op->formats)
        page = (struct lladd_view){NULL, b->size, 0, page.number};
    unsigned char *room = malloc(op->record_max ? op->record_max : 1);
    struct lladd_draft draft = {.bytes = room, .max = op->record_max, .error = err};
    if (!room)
        return lladd_error_set(err, LLADD_NO_MEMORY, "no memory for a record");
    b->inside = 0;
    b->len = 0;
    ll_sim__clock(b, "prepare", op->name);
    int rc = op->prepare(op->ctx, page, s->args, &draft);
    ll_sim__clock_off();
    memcpy(b->kept_redo, room, draft.redo_len);
    memcpy(b->kept_undo, room + draft.redo_len, draft.undo_len);
    *redo = lladd_span_of(b->kept_redo, draft.redo_len);
    *undo = lladd_span_of(b->kept_undo, draft.undo_len);
    free(room);
    return rc;
}

/* ---- processes ------------------------------------------------------------------------------- */

static void child(struct ll_sim__bench *b, size_t units,
                  void (*work)(struct ll_sim__bench *, size_t))
{
    ll_sim__watch(b);
    for (size_t i = b->board->next; i < units; i++) {
        b->board->unit = i;
        work(b, i);
        b->board->next = i + 1;
    }
    b->board->done = true;
    /* SIGKILL, so that the child neither flushes the parent's streams nor runs exit handlers. */
    (void)kill(getpid(), SIGKILL);
}

int ll_sim__fork(struct ll_sim__bench *b, size_t units,
                 void (*work)(struct ll_sim__bench *, size_t),
                 void (*died)(struct ll_sim__bench *, size_t), struct lladd_error *err)
{
    while (!b->board->done && b->board->next < units) {
        int status;
        b->board->signal = 0;
        b->board->late = b->board->outside = false;
        b->board->where[0] = '\0';
        b->board->unit = b->board->next;
        pid_t pid = fork();
        if (pid < 0)
            return lladd_error_set(err, LLADD_NO_THREAD, "no process for contract checks: %s",
                                   strerror(errno));
        if (pid == 0)
            child(b, units, work);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            continue;
        if (!b->board->done) {
            died(b, b->board->unit);
            b->board->next = b->board->unit + 1;
        }
    }
    return 0;
}
