/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Epochs (lladd/epoch.h).
 *
 * `now` is the number of the present epoch. A thread enters by a compare-and-swap of a free slot's
 * word from 0 to that number. An object's number is that of the epoch in which it was retired, that
 * is, after the last word that leads to it was removed. A sweep raises `now`, and releases the
 * objects with numbers below the new one and below all words of slots.
 *
 * Why this is safe. All accesses to `now`, to slots' words (but the store at the end of a stay) and
 * to the structure's words are sequentially consistent, so there is one order of them. Take a
 * thread that may use an object: it has loaded the word before the word was changed. Its slot had a
 * number before that, loaded from `now` still earlier. So this number is not above the object's,
 * and a sweep that comes after the retirement sees the slot and leaves the object, until the stay
 * ends. The number may be old by the time it is in the slot; that only delays releases.
 *
 * Slots are found by a hash of the thread's number, so a thread mostly gets the same one, and no
 * thread-local state is needed. What is in a slot besides its word belongs to the thread that is
 * in the slot. `bytes` is also read by others. A sweeping thread has SWEEPING in its slot: the slot
 * is taken, and delays nothing.
 *
 * Blocks of slots are only added, each by a compare-and-swap of the link of the last one, so no
 * slot is freed before the epochs are.
 *
 * Threads. Any; nothing here waits.
 */
#include "util/env.h"

#include <lladd/epoch.h>
#include <lladd/extension.h>
#include <lladd/sync.h>

#include <string.h>

/* MUCH: so many bytes seldom wait in a slot, unless a thread stayed while the slot was swept. */
enum { LINE = 64, SLOTS = 32, SWEEP_OBJECTS = 64, SWEEP_BYTES = 256 << 10, MUCH = 2 * SWEEP_BYTES };
#define SWEEPING UINT64_MAX

struct lladd_epoch {
    uint64_t word;  /* atomic: 0: free; the number of the epoch; SWEEPING */
    uint64_t bytes; /* atomic: of all objects that wait here; changed by the thread in the slot */
    struct lladd_retired *first, *last; /* their numbers ascend */
    uint64_t new_bytes;                 /* retired since the last sweep */
    uint32_t new_objects;
    uint32_t number;
    unsigned char unused[LINE - 4 * sizeof(uint64_t) - 2 * sizeof(void *)];
};
_Static_assert(sizeof(struct lladd_epoch) == LINE, "a slot is a cache line");

struct block {
    struct lladd_epoch slots[SLOTS];
    uint64_t next; /* atomic: struct block *, or 0 */
    uint32_t first;
    void *memory; /* as allocated */
};

struct lladd_epochs {
    struct lladd_db *db;
    struct block *blocks;
    unsigned char apart[LINE]; /* `now` changes, the members above do not */
    uint64_t now;              /* atomic */
};
_Static_assert(offsetof(struct lladd_epochs, now) % 8 == 0, "an atomic word is aligned");

static struct block *next_of(struct block *b)
{
    return (struct block *)(uintptr_t)lladd_atomic_look64(&b->next);
}

static struct block *new_block(struct lladd_db *db, uint32_t first)
{
    void *memory = lladd_mem_alloc(db, sizeof(struct block) + LINE - 1);
    if (!memory)
        return NULL;
    uintptr_t skip = (LINE - (uintptr_t)memory % LINE) % LINE;
    struct block *b = (struct block *)((unsigned char *)memory + skip);
    memset(b, 0, sizeof *b);
    b->memory = memory;
    b->first = first;
    for (uint32_t i = 0; i < SLOTS; i++)
        b->slots[i].number = first + i;
    return b;
}

int lladd_epochs_create(struct lladd_db *db, struct lladd_epochs **out, struct lladd_error *err)
{
    struct lladd_epochs *e = lladd_mem_alloc(db, sizeof *e);
    struct block *b = e ? new_block(db, 0) : NULL;
    *out = NULL;
    if (!b) {
        lladd_mem_free(db, e);
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for epochs");
    }
    *e = (struct lladd_epochs){.db = db, .blocks = b, .now = 1};
    *out = e;
    return 0;
}

/* ---- entering and leaving -------------------------------------------------------------------- */

/* A new block after `last`, in which the thread has slot 0; or NULL. *last becomes the block that
 * another thread has added meanwhile. */
static struct lladd_epoch *extend(struct lladd_epochs *e, struct block **last)
{
    uint64_t none = 0;
    struct block *b = new_block(e->db, (*last)->first + SLOTS);
    if (!b)
        return NULL;
    b->slots[0].word = lladd_atomic_look64(&e->now);
    if (lladd_atomic_cas64(&(*last)->next, &none, (uintptr_t)b))
        return &b->slots[0];
    lladd_mem_free(e->db, b->memory);
    *last = (struct block *)(uintptr_t)none;
    return NULL;
}

/* Takes a free slot of the block, beginning with the thread's own. */
static struct lladd_epoch *take(struct lladd_epochs *e, struct block *b, uint32_t own)
{
    for (uint32_t i = 0; i < SLOTS; i++) {
        struct lladd_epoch *s = &b->slots[(own + i) % SLOTS];
        uint64_t none = 0;
        if (i > 0 && lladd_atomic_load64_relaxed(&s->word))
            continue;
        if (lladd_atomic_cas64(&s->word, &none, lladd_atomic_look64(&e->now)))
            return s;
    }
    return NULL;
}

struct lladd_epoch *lladd_epoch_enter(struct lladd_epochs *e)
{
    uint32_t own = (uint32_t)((lladd_thread_self() * UINT64_C(0x9e3779b97f4a7c15)) >> 59);
    struct block *b = e->blocks;
    for (;;) {
        struct lladd_epoch *s = take(e, b, own);
        if (s)
            return s;
        struct block *next = next_of(b), *last = b;
        if (!next) {
            s = extend(e, &last);
            if (s || last == b)
                return s;
            next = last;
        }
        b = next;
    }
}

unsigned lladd_epoch_slot(const struct lladd_epoch *s)
{
    return s->number;
}

/* ---- sweeping -------------------------------------------------------------------------------- */

/* Begins a new epoch. Objects with numbers below the result can be released: they were retired
 * before this call, and before any epoch began in which a thread is. */
static uint64_t begin_epoch(struct lladd_epochs *e)
{
    uint64_t least = lladd_atomic_add64(&e->now, 1) + 1;
    for (struct block *b = e->blocks; b; b = next_of(b))
        for (uint32_t i = 0; i < SLOTS; i++) {
            uint64_t word = lladd_atomic_look64(&b->slots[i].word);
            least = word && word < least ? word : least;
        }
    return least;
}

/* Releases what waits in the slot and was retired before epoch `until`. The slot is the thread's,
 * and the thread is in no epoch there. */
static void release_until(struct lladd_epoch *s, uint64_t until)
{
    s->new_bytes = s->new_objects = 0;
    while (s->first && s->first->epoch < until) {
        struct lladd_retired *r = s->first;
        s->first = r->next;
        lladd_atomic_store64_relaxed(&s->bytes, s->bytes - r->bytes);
        r->release(r->ctx, r);
    }
}

/* Releases the same in the free slots in which `least` bytes or more wait. */
static void release_free(struct lladd_epochs *e, uint64_t least, uint64_t until)
{
    for (struct block *b = e->blocks; b; b = next_of(b))
        for (uint32_t i = 0; i < SLOTS; i++) {
            struct lladd_epoch *s = &b->slots[i];
            uint64_t none = 0;
            if (lladd_atomic_load64_relaxed(&s->bytes) < least ||
                !lladd_atomic_cas64(&s->word, &none, SWEEPING))
                continue;
            release_until(s, until);
            lladd_atomic_store64(&s->word, 0);
        }
}

void lladd_epoch_leave(struct lladd_epochs *e, struct lladd_epoch *s)
{
    if (s->new_objects >= SWEEP_OBJECTS || s->new_bytes >= SWEEP_BYTES) {
        lladd_atomic_store64(&s->word, SWEEPING);
        uint64_t until = begin_epoch(e);
        release_until(s, until);
        release_free(e, MUCH, until); /* their threads may never come again */
    }
    lladd_atomic_store64(&s->word, 0);
}

void lladd_epoch_retire(struct lladd_epochs *e, struct lladd_epoch *s, struct lladd_retired *r,
                        size_t bytes, void (*release)(void *ctx, struct lladd_retired *),
                        void *ctx)
{
    *r = (struct lladd_retired){.epoch = lladd_atomic_look64(&e->now),
                                .bytes = bytes,
                                .release = release,
                                .ctx = ctx};
    if (s->first)
        s->last->next = r;
    else
        s->first = r;
    s->last = r;
    s->new_objects++;
    s->new_bytes += bytes;
    lladd_atomic_store64_relaxed(&s->bytes, s->bytes + bytes);
}

void lladd_epochs_sweep(struct lladd_epochs *e)
{
    release_free(e, 0, begin_epoch(e));
}

uint64_t lladd_epochs_waiting(struct lladd_epochs *e)
{
    uint64_t bytes = 0;
    for (struct block *b = e->blocks; b; b = next_of(b))
        for (uint32_t i = 0; i < SLOTS; i++)
            bytes += lladd_atomic_load64_relaxed(&b->slots[i].bytes);
    return bytes;
}

void lladd_epochs_destroy(struct lladd_epochs *e)
{
    if (!e)
        return;
    lladd_epochs_sweep(e);
    struct lladd_db *db = e->db;
    for (struct block *b = e->blocks, *next; b; b = next) {
        next = next_of(b);
        for (uint32_t i = 0; i < SLOTS; i++)
            LL_MISUSE(lladd_atomic_look64(&b->slots[i].word) == 0,
                      "epochs are destroyed before all stays were left", "epochs");
        lladd_mem_free(db, b->memory);
    }
    lladd_mem_free(db, e);
}
