/* SPDX-License-Identifier: BSD-2-Clause */
/* The block cache of runs.
 *
 * Every block of an open run has a slot with one atomic word: the bits RESIDENT, LOADING and USED,
 * and the number of pins that hold the block. A hit increments the number with one atomic addition,
 * without a table lookup or a lock. If RESIDENT was set at that moment, the block stays until the
 * number is decremented. On a miss the thread decrements the number again. The first thread that
 * sets LOADING reads the block; the others sleep on the word.
 *
 *     0 (absent) -> LOADING (a thread reads it) -> RESIDENT -> LOADING (a thread evicts it) -> 0
 *
 *   CACHE-1  A RESIDENT block is not freed while a pin holds it.
 *   CACHE-2  `used` counts bytes of open runs: cached blocks, slots, maps, loaded streams, and what
 *            classes keep. A thread that is about to read a block adds the block's size to `used`,
 *            and then evicts blocks until `used` is within the limit (`fits`). If too few blocks
 *            can be evicted, the read fails with LLADD_NO_FRAME.
 *   CACHE-3  Every block handed out was verified when it was read: the checksum of each page, the
 *            checksum of the block, and by the class, if it asked for that. The block's checksum
 *            covers the run, the stream and the block number; for a compressed block see pack.c.
 *
 * Eviction is a clock over all blocks of all open runs, under the mutex. A hit sets USED; the clock
 * spares such a block once. No thread does I/O while it holds the mutex. */
#include "operations/dtables/core/dtable.h"

#include <lladd/bulk.h>

#define RESIDENT (1u << 31)
#define LOADING (1u << 30)
#define USED (1u << 29)
#define COUNT (USED - 1)
#define SLACK 8u /* zero bytes after a block, which readers may read */
#define LEAST_BLOCKS 4u

/* ---- the budget ------------------------------------------------------------------------------ */

void ll_dtable__cache_take(struct ll_dtables *d, uint64_t bytes)
{
    lladd_atomic_add64(&d->cache.fixed, bytes);
    lladd_atomic_add64(&d->cache.used, bytes);
}

void ll_dtable__cache_give(struct ll_dtables *d, uint64_t bytes)
{
    lladd_atomic_sub64(&d->cache.fixed, bytes);
    lladd_atomic_sub64(&d->cache.used, bytes);
}

/* Is `used` within the limit? LEAST_BLOCKS blocks are allowed even if the fixed memory of open runs
 * leaves no room for them: otherwise no lookup could read anything. */
static bool fits(const struct ll_dtable_cache *c, uint64_t block)
{
    uint64_t least = lladd_atomic_load64(&c->fixed) + LEAST_BLOCKS * block;
    uint64_t limit = lladd_atomic_load64(&c->limit);
    return lladd_atomic_load64(&c->used) <= (limit > least ? limit : least);
}

static uint64_t block_bytes(const struct lladd_dtable_source *s)
{
    return (uint64_t)s->run->d.block_pages * lladd_page_size(s->run->all->db) + SLACK;
}

void lladd_dtable_cache_limit(struct lladd_db *db, uint64_t bytes)
{
    lladd_atomic_store64(&ll_dtables_of(db)->cache.limit, bytes);
}

void lladd_dtable_cache_stats_get(struct lladd_db *db, struct lladd_dtable_cache_stats *out)
{
    struct ll_dtable_cache *c = &ll_dtables_of(db)->cache;
    struct lladd_dtable_cache_stats s = {.struct_size = out->struct_size,
                                         .limit = lladd_atomic_load64(&c->limit),
                                         .used = lladd_atomic_load64(&c->used),
                                         .reads = lladd_atomic_load64(&c->reads),
                                         .evictions = lladd_atomic_load64(&c->evictions)};
    memcpy(out, &s, s.struct_size < sizeof s ? s.struct_size : sizeof s);
}

/* ---- eviction -------------------------------------------------------------------------------- */

/* Evicts the block if no pin holds it. If USED is set and `must` is false, only clears USED.
 * Returns the block's memory, which the caller then owns, or NULL if the block stays. */
static unsigned char *evict(struct lladd_dtable_source *s, struct ll_dtable_slot *slot, bool must)
{
    uint32_t word = lladd_atomic_load32(&slot->word);
    if ((word & (RESIDENT | LOADING | COUNT)) != RESIDENT)
        return NULL;
    if (word & USED && !must) {
        (void)lladd_atomic_cas32(&slot->word, &word, word & ~USED);
        return NULL;
    }
    if (!lladd_atomic_cas32(&slot->word, &word, LOADING))
        return NULL;
    unsigned char *bytes = slot->bytes;
    slot->bytes = NULL;
    /* Subtracts instead of storing 0: other threads may have changed the count meanwhile. */
    lladd_atomic_add32(&slot->word, 0u - LOADING);
    lladd_word_wake(&slot->word, INT32_MAX, 1);
    lladd_atomic_sub64(&s->run->all->cache.used, block_bytes(s));
    lladd_atomic_add64(&s->run->all->cache.evictions, 1);
    return bytes;
}

/* Moves the clock hand to the next block of any open run; false if there are no blocks. Called
 * under the mutex. */
static bool advance(struct ll_dtables *d, struct lladd_dtable_source **s,
                    struct ll_dtable_slot **slot)
{
    struct ll_dtable_cache *c = &d->cache;
    for (unsigned wraps = 0; wraps < 2;) {
        if (!c->hand) {
            c->hand = d->runs;
            c->hand_source = 0;
            c->hand_block = 0;
            wraps++;
        }
        for (; c->hand; c->hand = c->hand->next, c->hand_source = 0) {
            for (; c->hand_source < c->hand->d.n_streams; c->hand_source++, c->hand_block = 0) {
                *s = &c->hand->sources[c->hand_source];
                if (c->hand_block < (*s)->n_blocks) {
                    *slot = &(*s)->slots[c->hand_block++];
                    return true;
                }
            }
        }
    }
    return false;
}

/* Adds `bytes`, the size of a block, to `used` and evicts blocks until `used` fits. Sets *memory to
 * the memory of an evicted block of the same size, for reuse, or to NULL. */
static int make_room(struct ll_dtables *d, uint64_t bytes, unsigned char **memory)
{
    struct ll_dtable_cache *c = &d->cache;
    struct lladd_dtable_source *s;
    struct ll_dtable_slot *slot;
    *memory = NULL;
    lladd_atomic_add64(&c->used, bytes);
    if (fits(c, bytes))
        return 0;
    lladd_mutex_lock(&c->mutex);
    uint64_t all = 0, looked = 0;
    for (const struct ll_dtable_run *r = d->runs; r; r = r->next)
        for (uint32_t i = 0; i < r->d.n_streams; i++)
            all += r->sources[i].n_blocks;
    /* The first two rounds evict blocks without USED, and clear USED on the others. Up to seven
     * more rounds evict every block that is not held; a single round could miss blocks that other
     * threads hold only for a moment. */
    bool enough = false;
    while (!enough && looked < 9 * all && advance(d, &s, &slot)) {
        unsigned char *gone = evict(s, slot, looked++ > 2 * all);
        if (!*memory && gone && block_bytes(s) == bytes)
            *memory = gone;
        else
            lladd_mem_free(d->db, gone);
        /* Another thread may add to `used` after this check; it then makes its own room. */
        enough = fits(c, bytes);
    }
    lladd_mutex_unlock(&c->mutex);
    if (enough)
        return 0;
    lladd_atomic_sub64(&c->used, bytes);
    lladd_mem_free(d->db, *memory);
    return LLADD_NO_FRAME;
}

void ll_dtable__cache_drop(struct ll_dtable_run *run)
{
    struct ll_dtables *d = run->all;
    lladd_mutex_lock(&d->cache.mutex);
    if (d->cache.hand == run)
        d->cache.hand = NULL;
    lladd_mutex_unlock(&d->cache.mutex);
    for (uint32_t i = 0; run->sources && i < run->d.n_streams; i++) {
        struct lladd_dtable_source *s = &run->sources[i];
        for (size_t b = 0; s->slots && b < s->n_blocks; b++) {
            if (!s->slots[b].bytes)
                continue;
            lladd_mem_free(d->db, s->slots[b].bytes);
            lladd_atomic_sub64(&d->cache.used, block_bytes(s));
        }
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

const struct ll_dtable_extent *ll_dtable__extent_of(const struct ll_dtable_stream *s,
                                                    uint64_t block)
{
    size_t low = 0, high = s->n_extents;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (s->extents[middle].block <= block)
            low = middle;
        else
            high = middle;
    }
    return &s->extents[low];
}

int ll_dtable__damaged(const struct lladd_dtable_source *s, uint64_t block, lladd_pageno page,
                       int code, const char *why, struct lladd_error *err)
{
    char where[160];
    ll_dtable__where(s->run, s->stream->layer, s->stream->name, where, sizeof where);
    if (code == LLADD_CORRUPT_PAGE || lladd_code_root(code) == LLADD_ROOT_MISUSE)
        code = LLADD_CORRUPT_RUN;
    int rc = lladd_error_set(err, code, "%s, block %llu: %.80s", where, (unsigned long long)block,
                             why);
    if (err)
        err->page = page;
    return rc;
}

int ll_dtable__fetch(const struct lladd_dtable_source *s, uint64_t block, unsigned char *buffer,
                     uint32_t *len, struct lladd_error *err)
{
    struct lladd_db *db = s->run->all->db;
    struct lladd_error why = LLADD_ERROR_INIT;
    uint32_t size = lladd_page_size(db), body = lladd_body_size(size);
    const struct ll_dtable_extent *e = ll_dtable__extent_of(s->stream, block);
    uint64_t left = s->stream->size - block * s->block_size;
    uint32_t n = left < s->block_size ? (uint32_t)left : s->block_size;
    uint32_t pages = (n + body - 1) / body;
    lladd_pageno first = lladd_page_of(e->first + (block - e->block) * s->run->d.block_pages);
    int rc = lladd_bulk_read(db, first, pages, false, buffer, &why);
    if (rc)
        return ll_dtable__damaged(s, block, first, rc, why.message, err);
    for (uint32_t i = 0; i < pages; i++)
        memmove(buffer + (size_t)i * body, buffer + (size_t)i * size + LLADD_PAGE_HEADER, body);
    uint32_t crc = ll_dtable__block_seed(s->run->d.id, s->number, block);
    if (lladd_crc32c(crc, buffer, n) != s->stream->crcs[block])
        return ll_dtable__damaged(s, block, first, LLADD_CORRUPT_RUN, "the checksum is wrong", err);
    *len = n;
    return 0;
}

int ll_dtable__read_block(const struct lladd_dtable_source *s, uint64_t block,
                          unsigned char *buffer, uint32_t *len, struct lladd_error *err)
{
    return s->packed ? ll_dtable__unpack(s, block, buffer, len, err)
                     : ll_dtable__fetch(s, block, buffer, len, err);
}

static int load(const struct lladd_dtable_source *s, struct ll_dtable_slot *slot, uint64_t block,
                struct lladd_error *err)
{
    struct ll_dtables *d = s->run->all;
    uint64_t bytes = block_bytes(s);
    unsigned char *buffer;
    int rc = make_room(d, bytes, &buffer);
    if (rc)
        return lladd_error_set(err, rc, "every block of the dTables' cache is in use");
    if (!buffer)
        buffer = lladd_mem_alloc(d->db, (size_t)bytes);
    if (!buffer)
        rc = ll_dtable__no_memory(err);
    if (!rc)
        rc = ll_dtable__read_block(s, block, buffer, &slot->len, err);
    if (!rc) {
        memset(buffer + slot->len, 0, (size_t)bytes - slot->len);
        rc = s->check ? s->check(s->checker, block, buffer, slot->len, err) : 0;
    }
    if (rc) {
        lladd_mem_free(d->db, buffer);
        lladd_atomic_sub64(&d->cache.used, bytes);
        return rc;
    }
    slot->bytes = buffer;
    lladd_atomic_add64(&d->cache.reads, 1);
    return 0;
}

/* Loads a block that was absent, or waits for the thread that loads or evicts it. On 0 the caller
 * holds the block. */
static int hold_slowly(const struct lladd_dtable_source *s, struct ll_dtable_slot *slot,
                       uint64_t block, struct lladd_error *err)
{
    for (;;) {
        uint32_t word = lladd_atomic_load32(&slot->word);
        if (word & LOADING) {
            lladd_word_wait_as("block of a run", &slot->word, word, 1, 0);
            continue;
        }
        if (word & RESIDENT) {
            if (lladd_atomic_cas32(&slot->word, &word, word + 1))
                return 0;
            continue;
        }
        if (!lladd_atomic_cas32(&slot->word, &word, word | LOADING))
            continue;
        int rc = load(s, slot, block, err);
        /* One addition clears LOADING and, on success, sets RESIDENT and increments the count. */
        lladd_atomic_add32(&slot->word, rc ? 0u - LOADING : RESIDENT - LOADING + 1);
        lladd_word_wake(&slot->word, INT32_MAX, 1);
        return rc;
    }
}

static void let_go(struct ll_dtable_slot *slot)
{
    lladd_atomic_add32(&slot->word, UINT32_MAX);
}

/* ---- pins ------------------------------------------------------------------------------------ */

int lladd_dtable_block(struct lladd_dtable_pin *pin, int which,
                       const struct lladd_dtable_source *s, uint64_t block,
                       const unsigned char **out, uint32_t *len, struct lladd_error *err)
{
    if (__builtin_expect(block >= s->n_blocks, 0))
        return ll_dtable__damaged(s, block, lladd_page_of(LLADD_NO_PAGE), LLADD_CORRUPT_RUN,
                                  "there is no such block", err);
    struct ll_dtable_slot *slot = &s->slots[block];
    if (pin->held_[which] != slot) {
        if (pin->held_[which]) {
            let_go(pin->held_[which]);
            pin->held_[which] = NULL;
        }
        pin->db_ = s->run->all->db;
        uint32_t word = lladd_atomic_add32(&slot->word, 1);
        if (__builtin_expect(!(word & RESIDENT), 0)) {
            let_go(slot);
            TRY(hold_slowly(s, slot, block, err));
        } else if (!(word & USED)) {
            uint32_t now = lladd_atomic_load32(&slot->word);
            (void)lladd_atomic_cas32(&slot->word, &now, now | USED);
        }
        pin->held_[which] = slot;
    }
    *out = slot->bytes;
    *len = slot->len;
    return 0;
}

/* Returns buffer i of the pin with room for `len` bytes, or NULL. lladd_dtable_unpin frees it. */
static unsigned char *room(struct lladd_db *db, struct lladd_dtable_pin *pin, unsigned i,
                           size_t len)
{
    pin->db_ = db;
    if (len > pin->room_size_[i]) {
        size_t size = len < 256 ? 256 : len + len / 4;
        lladd_mem_free(db, pin->room_[i]);
        pin->room_[i] = lladd_mem_alloc(db, size);
        pin->room_size_[i] = pin->room_[i] ? size : 0;
    }
    return pin->room_[i];
}

static int read_pieces(struct lladd_dtable_pin *pin, int which, const struct lladd_dtable_source *s,
                       uint64_t at, size_t len, const unsigned char **out, struct lladd_error *err)
{
    unsigned char *to = room(s->run->all->db, pin, 2 + (unsigned)which, len + SLACK);
    if (!to)
        return ll_dtable__no_memory(err);
    *out = to;
    while (len) {
        const unsigned char *bytes = NULL;
        uint32_t have = 0, from = (uint32_t)(at % s->block_size);
        TRY(lladd_dtable_block(pin, which, s, at / s->block_size, &bytes, &have, err));
        size_t n = have - from < len ? have - from : len;
        memcpy(to, bytes + from, n);
        to += n;
        at += n;
        len -= n;
    }
    memset(to, 0, SLACK);
    return 0;
}

int lladd_dtable_read(struct lladd_dtable_pin *pin, int which, const struct lladd_dtable_source *s,
                      uint64_t at, size_t len, const unsigned char **out, struct lladd_error *err)
{
    if (__builtin_expect(at > s->size || len > s->size - at, 0))
        return ll_dtable__damaged(s, at / s->block_size, lladd_page_of(LLADD_NO_PAGE),
                                  LLADD_CORRUPT_RUN, "bytes are missing", err);
    if (len == 0) {
        *out = (const unsigned char *)"\0\0\0\0\0\0\0";
        return 0;
    }
    uint64_t block = at <= UINT32_MAX ? (uint32_t)at / s->block_size : at / s->block_size;
    uint32_t from = (uint32_t)(at - block * s->block_size), have;
    if (len > s->block_size - from)
        return read_pieces(pin, which, s, at, len, out, err);
    int rc = lladd_dtable_block(pin, which, s, block, out, &have, err);
    if (!rc)
        *out += from;
    return rc;
}

bool lladd_dtable_held(const struct lladd_dtable_pin *pin, int which,
                       const struct lladd_dtable_source *s, uint64_t *block)
{
    uintptr_t slot = (uintptr_t)pin->held_[which], first = (uintptr_t)s->slots;
    if (slot < first || slot - first >= s->n_blocks * sizeof *s->slots)
        return false;
    *block = (slot - first) / sizeof *s->slots;
    return true;
}

void *lladd_dtable_key_room(struct lladd_db *db, struct lladd_dtable_pin *pin, size_t len)
{
    return room(db, pin, 2, len);
}

void *lladd_dtable_room(struct lladd_db *db, struct lladd_dtable_pin *pin, size_t len)
{
    unsigned turn = pin->turn_;
    pin->turn_ = !turn;
    pin->db_ = db;
    return len <= sizeof pin->small_[0] ? pin->small_[turn] : room(db, pin, turn, len);
}

void lladd_dtable_unpin(struct lladd_dtable_pin *pin)
{
    for (int i = 0; i < 2; i++) {
        if (pin->held_[i])
            let_go(pin->held_[i]);
        pin->held_[i] = NULL;
    }
    for (int i = 0; i < 4; i++) {
        if (pin->room_[i])
            lladd_mem_free(pin->db_, pin->room_[i]);
        pin->room_[i] = NULL;
        pin->room_size_[i] = 0;
    }
}
