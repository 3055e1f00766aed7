/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * page_guard: checks that redo and undo touch only their page and their bytes.
 *
 * The reduction to one page at a time (sim/README.md) relies on this. While the workload is
 * recorded, every redo and undo therefore runs on copies of its page and its bytes, each between
 * inaccessible guard pages. Meanwhile all memory that the database has allocated is inaccessible,
 * including the page's own frame: a callback may know the frame's address from an earlier call. A
 * forbidden access is a violation (O18). The signal handler then jumps back here, and this file
 * makes the change in the real frame, so that the workload continues. `validate` and `check` run in
 * the same way, and so does the undo of each update, which recovery might need.
 *
 * Between two changes of a page its bytes must stay the same. The next change of the page checks
 * this first.
 *
 * Signal handlers belong to the whole process. These handlers are installed while at least one
 * thread records. They pass on every signal that does not come from a guarded call.
 */
#include "sim/page_guard.h"

#include <lladd/sync.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { LSN_AT = 8, TYPE_AT = 4, RING_DEFAULT = 8 << 20 };

/* ---- a touch ----------------------------------------------------------------------------- */

static const int signals[] = {SIGSEGV, SIGBUS};
enum { SIGNALS = sizeof signals / sizeof *signals };

static uint32_t installing; /* a latch, held while handlers are installed or removed */
static unsigned recording;  /* number of recordings in progress */
static struct sigaction before[SIGNALS];

/* The guard of the guarded call that this thread makes now; NULL: none. */
static __thread struct ll_sim_guard *guarding;

static void touched(int signal, siginfo_t *info, void *context)
{
    struct ll_sim_guard *g = guarding;
    (void)context;
    if (g) {
        guarding = NULL;
        g->touched = info->si_addr;
        siglongjmp(g->back, 1);
    }
    /* The signal does not come from a guarded call. The previous handler is restored. It gets the
     * signal when the access is repeated. */
    for (unsigned i = 0; i < SIGNALS; i++)
        if (signals[i] == signal)
            (void)sigaction(signal, &before[i], NULL);
}

static void install_begin(void)
{
    uint32_t none = 0;
    while (!lladd_atomic_cas32(&installing, &none, 1)) {
        none = 0;
        lladd_cpu_relax(); /* the holder of the latch makes only a few system calls */
    }
}

static void install_end(void)
{
    lladd_atomic_store32(&installing, 0);
}

/* If this function fails, it has changed nothing, and listen_end must not be called. */
static int listen_begin(void)
{
    struct sigaction a;
    int rc = 0;
    memset(&a, 0, sizeof a);
    a.sa_sigaction = touched;
    a.sa_flags = SA_SIGINFO | SA_ONSTACK;
    (void)sigemptyset(&a.sa_mask);
    install_begin();
    unsigned done = 0;
    while (!rc && recording == 0 && done < SIGNALS &&
           !(rc = sigaction(signals[done], &a, &before[done])))
        done++;
    while (rc && done-- > 0)
        (void)sigaction(signals[done], &before[done], NULL);
    recording += rc == 0;
    install_end();
    return rc;
}

static void listen_end(void)
{
    install_begin();
    recording--;
    for (unsigned i = 0; recording == 0 && i < SIGNALS; i++)
        (void)sigaction(signals[i], &before[i], NULL);
    install_end();
}

/* ---- one call ---------------------------------------------------------------------------- */

/* A guarded call: validate, then redo or undo, then check. */
struct call {
    const struct lladd_op *op;
    enum lladd_span_kind kind;
    uint64_t page;
    struct lladd_span bytes;
    const char *volatile doing; /* the callback that is running */
};

/* Makes the call on the page in slot 0. Returns false if validate or check fails. */
static bool make(const struct ll_sim__bench *b, struct call *c, struct lladd_span bytes)
{
    const struct lladd_op *op = c->op;
    struct lladd_page page = ll_sim__page(b, 0, c->page);
    c->doing = "validate";
    if (op->validate && !op->validate(ll_sim__view(b, 0, c->page), c->kind, bytes))
        return false;
    c->doing = c->kind == LLADD_SPAN_UNDO ? "undo" : "redo";
    (c->kind == LLADD_SPAN_UNDO ? op->undo : op->redo)(&page, bytes);
    c->doing = "check";
    return !op->check || op->check(ll_sim__view(b, 0, c->page));
}

enum outcome { FINE, REFUSED, TOUCHED, UNABLE };

static enum outcome alone(struct lladd_sim *sim, struct call *c)
{
    struct ll_sim_guard *g = sim->guard;
    struct lladd_span bytes = c->bytes;
    volatile enum outcome outcome = TOUCHED;
    bool able = bytes.len <= g->bench.bytes_room && ll_sim__lay(&g->bench, 0, &bytes);
    if (able && ll_sim_heap_allow(&sim->heap, false) && sigsetjmp(g->back, 1) == 0) {
        guarding = g;
        outcome = make(&g->bench, c, bytes) ? FINE : REFUSED;
        guarding = NULL;
    }
    able &= ll_sim_heap_allow(&sim->heap, true);
    able &= ll_sim__allow(&g->bench, 0);
    return able ? outcome : UNABLE;
}

static void say_what(const struct lladd_sim *sim, const struct call *c, char *out, size_t size)
{
    const struct ll_sim_guard *g = sim->guard;
    const unsigned char *at = g->touched;
    if (ll_sim__where(&g->bench, at, out, size))
        return;
    for (uint32_t i = 0; i < g->n_places; i++) {
        const struct ll_sim_place *p = &g->place[i];
        if (!p->bytes || at < p->bytes || at >= p->bytes + sim->page_size)
            continue;
        (void)snprintf(out, size,
                       p->page == c->page ? "its page %llu, byte %u, but not through the pointer "
                                            "that it is given"
                                          : "page %llu, byte %u",
                       (unsigned long long)p->page, (unsigned)(at - p->bytes));
        return;
    }
    if (ll_sim_heap_has(&sim->heap, at))
        (void)snprintf(out, size, "memory of the database outside of its pages");
    else
        (void)snprintf(out, size, "address %p", (const void *)at);
}

/* Makes a call. Returns false if a callback violates O18, which is recorded, or if memory is
 * short. */
static bool guarded(struct lladd_sim *sim, struct call *c)
{
    char what[160];
    switch (alone(sim, c)) {
    case FINE:
        return true;
    case UNABLE:
        sim->running->failed = LLADD_NO_MEMORY;
        break;
    case TOUCHED:
        say_what(sim, c, what, sizeof what);
        (void)ll_sim_object(&sim->violation, LLADD_SIM_O_ONE_PAGE,
                            "%s of \"%s\" on page %llu touches %s", c->doing, c->op->name,
                            (unsigned long long)c->page, what);
        break;
    case REFUSED:
        (void)ll_sim_object(&sim->violation, LLADD_SIM_O_ONE_PAGE,
                            "%s of \"%s\" refuses page %llu, or bytes that were logged for it",
                            c->doing, c->op->name, (unsigned long long)c->page);
        break;
    }
    return false;
}

/* ---- comparing pages --------------------------------------------------------------------- */

static void fill_hole(const struct lladd_page_type *type, const struct lladd_page *p)
{
    uint32_t begin = 0, end = 0;
    struct lladd_view v = {p->bytes, p->size, lladd_get16(p->bytes + TYPE_AT), p->number};
    if (type && type->hole)
        type->hole(v, &begin, &end);
    if (begin >= LLADD_PAGE_HEADER && begin < end && end <= p->size)
        memset(p->bytes + begin, 0, end - begin);
}

static void mask(const struct ll_sim_guard *g, const struct lladd_op *op, struct lladd_page p)
{
    const struct lladd_page_type *type = NULL;
    for (uint32_t i = 0; i < g->n_types; i++)
        if (g->type[i].number == lladd_get16(p.bytes + TYPE_AT))
            type = g->type[i].type;
    if (op && op->mask)
        op->mask(op->ctx, &p);
    else if (type && type->mask)
        type->mask(type->ctx, &p);
    fill_hole(type, &p);
}

bool ll_sim_guard_same(struct ll_sim_guard *g, const struct lladd_op *op, uint64_t number,
                       const unsigned char *a, const unsigned char *b, uint32_t *at)
{
    struct ll_sim__bench *bench = &g->bench;
    size_t len = bench->size - LLADD_PAGE_HEADER;
    if (memcmp(a + LLADD_PAGE_HEADER, b + LLADD_PAGE_HEADER, len) == 0)
        return true;
    memcpy(bench->slot[1], a, bench->size);
    memcpy(bench->slot[2], b, bench->size);
    mask(g, op, ll_sim__page(bench, 1, number));
    mask(g, op, ll_sim__page(bench, 2, number));
    for (uint32_t i = LLADD_PAGE_HEADER; i < bench->size; i++) {
        *at = i;
        if (bench->slot[1][i] != bench->slot[2][i])
            return false;
    }
    return true;
}

/* ---- known pages ------------------------------------------------------------------------- */

struct ll_sim_place *ll_sim_guard_place(struct lladd_sim *sim, uint64_t page)
{
    struct ll_sim_guard *g = sim->guard;
    for (uint32_t i = 0; i < g->n_places; i++)
        if (g->place[i].page == page)
            return &g->place[i];
    struct ll_sim_place *all =
        ll_sim_grow(&g->kept, g->place, g->n_places, &g->places_capacity, sizeof *all);
    if (!all) {
        sim->running->failed = LLADD_NO_MEMORY;
        return NULL;
    }
    g->place = all;
    all[g->n_places] = (struct ll_sim_place){.page = page};
    return &all[g->n_places++];
}

void ll_sim_guard_see(struct lladd_sim *sim, const struct lladd_dst_event *e)
{
    struct ll_sim_guard *g = sim->guard;
    if (e->what == LLADD_DST_CACHED) {
        const unsigned char *bytes = (const unsigned char *)(uintptr_t)e->detail;
        for (uint32_t i = 0; i < g->n_places; i++)
            if (g->place[i].bytes == bytes)
                g->place[i].bytes = NULL;
        struct ll_sim_place *p = ll_sim_guard_place(sim, e->page);
        if (p)
            p->bytes = bytes;
    } else if (e->what == LLADD_DST_PAGE_WRITE) {
        struct ll_sim_written *w =
            ll_sim_grow(&g->kept, g->written, g->n_written, &g->written_capacity, sizeof *w);
        if (!w) {
            sim->running->failed = LLADD_NO_MEMORY;
            return;
        }
        g->written = w;
        w[g->n_written++] = (struct ll_sim_written){.call = sim->workload.n_calls, .page = e->page};
    }
}

static bool tell(struct ll_sim_guard *g, uint64_t page, const unsigned char *bytes)
{
    struct ll_sim_told *t = ll_sim_grow(&g->kept, g->told, g->n_told, &g->told_capacity, sizeof *t);
    unsigned char *own = ll_sim_take(&g->kept, g->bench.size);
    if (!t || !own)
        return false;
    memcpy(own, bytes, g->bench.size);
    g->told = t;
    t[g->n_told++] = (struct ll_sim_told){.page = page, .bytes = own};
    return true;
}

int ll_sim_guard_bulk(void *ctx, struct lladd_db *db, void *state, struct lladd_txn *txn,
                      lladd_lsn barrier, lladd_pageno first, uint64_t n, bool typed,
                      const void *bytes)
{
    struct lladd_sim *sim = ctx;
    struct ll_sim_guard *g = sim->guard;
    const unsigned char *at = bytes;
    (void)db, (void)state, (void)txn, (void)barrier, (void)typed;
    if (!g || g->again)
        return 0;
    for (uint64_t i = 0; i < n; i++)
        if (!tell(g, first.v + i, at + i * g->bench.size))
            sim->running->failed = LLADD_NO_MEMORY;
    return 0;
}

int ll_sim_guard_types(struct lladd_sim *sim, struct lladd_db *db)
{
    struct ll_sim_guard *g = sim->guard;
    for (uint32_t i = 0; i < g->n_changes; i++) {
        const char *name = g->change[i].op->page_type;
        uint16_t number = name ? lladd_page_type_number(db, name) : 0;
        bool known = number == 0;
        for (uint32_t k = 0; k < g->n_types; k++)
            known |= g->type[k].number == number;
        if (known)
            continue;
        struct ll_sim_page_type *t =
            ll_sim_grow(&g->kept, g->type, g->n_types, &g->types_capacity, sizeof *t);
        if (!t)
            return LLADD_NO_MEMORY;
        g->type = t;
        t[g->n_types++] = (struct ll_sim_page_type){number, lladd_page_type_descriptor(db, name)};
    }
    return 0;
}

/* Checks that the page is still as its last recorded change has left it. There is no check if `c`
 * formats the page, or if the page's LSN is not the LSN of that change: then an image or a bulk
 * write came later. */
static void look_back(struct lladd_sim *sim, const struct ll_sim_place *p,
                      const struct lladd_dst_change *c)
{
    struct ll_sim_guard *g = sim->guard;
    uint32_t at;
    if (p->last == 0 || c->op->formats)
        return;
    const struct ll_sim_change *last = &g->change[p->last - 1];
    if (lladd_get64(c->page->bytes + LSN_AT) != last->lsn.v ||
        ll_sim_guard_same(g, last->op, p->page, c->page->bytes, last->after, &at))
        return;
    (void)ll_sim_object(&sim->violation, LLADD_SIM_O_ONE_PAGE,
                        "page %llu was changed outside of redo and undo: byte %u is 0x%02x, and "
                        "\"%s\" at LSN %llu had left 0x%02x; found before a change by \"%s\"",
                        (unsigned long long)p->page, (unsigned)at, c->page->bytes[at],
                        last->op->name, (unsigned long long)last->lsn.v, last->after[at],
                        c->op->name);
}

static void note(struct lladd_sim *sim, struct ll_sim_place *p, const struct lladd_dst_change *c)
{
    struct ll_sim_guard *g = sim->guard;
    struct ll_sim_change *all =
        ll_sim_grow(&g->kept, g->change, g->n_changes, &g->changes_capacity, sizeof *all);
    unsigned char *after = ll_sim_take(&g->kept, g->bench.size);
    if (!all || !after) {
        sim->running->failed = LLADD_NO_MEMORY;
        return;
    }
    memcpy(after, c->page->bytes, g->bench.size);
    g->change = all;
    all[g->n_changes++] = (struct ll_sim_change){c->lsn, p->page, c->op, c->undo, after};
    p->last = g->n_changes;
    g->newest = c->lsn.v > g->newest.v ? c->lsn : g->newest;
}

/* ---- a change ---------------------------------------------------------------------------- */

static void make_where_it_belongs(const struct lladd_dst_change *c)
{
    (c->undo ? c->op->undo : c->op->redo)(c->page, c->bytes);
}

static void change_alone(struct lladd_sim *sim, const struct lladd_dst_change *c)
{
    struct ll_sim__bench *b = &sim->guard->bench;
    struct call call = {.op = c->op,
                        .kind = c->undo ? LLADD_SPAN_UNDO : LLADD_SPAN_REDO,
                        .page = c->page->number.v,
                        .bytes = c->bytes};
    memcpy(b->slot[0], c->page->bytes, b->size);
    if (!guarded(sim, &call)) {
        make_where_it_belongs(c);
        return;
    }
    memcpy(c->page->bytes, b->slot[0], b->size);
    call.kind = LLADD_SPAN_UNDO;
    call.bytes = c->undo_bytes;
    if (c->undoable)
        (void)guarded(sim, &call); /* on the copy; only a violation matters */
}

static void change(void *ctx, const struct lladd_dst_change *c)
{
    struct lladd_sim *sim = ctx;
    if (sim->guard->again) {
        ll_sim_rebuild_change(sim, c);
        return;
    }
    struct ll_sim_place *p = ll_sim_guard_place(sim, c->page->number.v);
    if (p)
        look_back(sim, p, c);
    change_alone(sim, c);
    if (p)
        note(sim, p, c);
}

/* ---- begin and end ----------------------------------------------------------------------- */

int ll_sim_guard_begin(struct lladd_sim *sim, struct lladd_error *err)
{
    struct ll_sim_guard *g = calloc(1, sizeof *g);
    if (!g)
        return lladd_error_set(err, LLADD_NO_MEMORY, "no memory for the simulator");
    sim->guard = g;
    uint64_t ring = sim->options.log_ring_bytes ? sim->options.log_ring_bytes : RING_DEFAULT;
    g->bench.size = sim->page_size;
    int rc = ll_sim__bench_init(&g->bench, (size_t)ring / 4, err);
    /* The handler has its own stack, so that it can also report a stack overflow. */
    g->stack = mmap(NULL, LL_SIM__SIGNAL_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                    -1, 0);
    if (rc || g->stack == MAP_FAILED || listen_begin())
        return lladd_error_set(err, LLADD_NO_MEMORY, "no memory for the simulator");
    stack_t stack = {.ss_sp = g->stack, .ss_size = LL_SIM__SIGNAL_STACK};
    (void)sigaltstack(&stack, &g->stack_before);
    sim->dst.change = change;
    return 0;
}

void ll_sim_guard_end(struct lladd_sim *sim)
{
    struct ll_sim_guard *g = sim->guard;
    if (!g)
        return;
    if (sim->dst.change) {
        (void)sigaltstack(&g->stack_before, NULL);
        listen_end();
    }
    sim->dst.change = NULL;
    if (g->stack && g->stack != MAP_FAILED)
        (void)munmap(g->stack, LL_SIM__SIGNAL_STACK);
    ll_sim__bench_free(&g->bench);
    ll_sim_arena_free(&g->kept);
    free(g);
    sim->guard = NULL;
}
