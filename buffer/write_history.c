/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * write_history: the page LSNs of the pages that this buffer manager has written.
 *
 * A disk may acknowledge a write and not do it, or write to the wrong place. Then the old page,
 * which is a valid page of this database, stays on disk. Only a record of the write can reveal the
 * loss. This table therefore keeps the page LSNs of written pages. Page LSNs never decrease
 * (BUF-6), so a page that is read with an LSN below the recorded LSN is damaged. Such a page is
 * rebuilt from the log if the log reaches back far enough; otherwise it is refused.
 *
 * The bound. The table has room for four times as many pages as the cache, at most LINES_MAX *
 * PLACES. Its memory belongs to the budget and is allocated when the first page is written. (If the
 * allocation fails, that write is not recorded, and the next write tries again.) If a line is full,
 * a new page replaces the page with the lowest LSN; a lost write of the replaced page is not
 * detected here. After open the table is empty. Pages of raw extents have no LSN; a bulk write
 * removes their entries.
 *
 * Threads. A line of the table fills one cache line of the processor. It holds PLACES pages and a
 * latch of one word, which a thread holds for a few instructions. Hits do not use the table. A
 * write of a cached page is recorded while the frame's COPIED bit is set. So the writes of one page
 * are recorded in their order, and before the page can be evicted and read again.
 */
#include "buffer/buffer_private.h"

enum {
    PLACES = 3,
    LINE = 64,
    PER_FRAME = 4,      /* pages recorded per page of the cache */
    LINES_MAX = 1 << 20 /* 64 MiB */
};

struct ll_buffer__line {
    uint32_t latch;
    uint32_t unused;
    uint64_t page[PLACES]; /* page number + 1; 0: empty */
    uint64_t lsn[PLACES];
    uint64_t spare;
};
_Static_assert(sizeof(struct ll_buffer__line) == LINE, "one line of the processor's cache");

uint64_t ll_buffer__history_bytes(const struct ll_buffer_config *cfg)
{
    uint64_t frames = cfg->budget / cfg->page_size;
    uint64_t lines = (frames * PER_FRAME + PLACES - 1) / PLACES;
    return (lines < LINES_MAX ? lines : LINES_MAX) * LINE + LINE; /* one more, to align them */
}

/* The table, or NULL. Takes no latch: another thread may set the address meanwhile. */
static struct ll_buffer__line *table(const struct ll_buffer *b)
{
    uintptr_t memory = (uintptr_t)lladd_atomic_load64(&b->lines);
    return (struct ll_buffer__line *)((memory + LINE - 1) & ~(uintptr_t)(LINE - 1));
}

static void make_table(struct ll_buffer *b)
{
    lladd_mutex_lock(&b->slots_latch);
    if (!table(b)) {
        void *memory = ll_alloc_zero(b->env, (size_t)ll_buffer__history_bytes(&b->cfg));
        lladd_atomic_store64(&b->lines, (uintptr_t)memory);
    }
    lladd_mutex_unlock(&b->slots_latch);
}

void ll_buffer__history_init(struct ll_buffer *b)
{
    b->line_count = ll_buffer__history_bytes(&b->cfg) / LINE - 1;
}

void ll_buffer__history_free(struct ll_buffer *b)
{
    ll_free(b->env, (void *)(uintptr_t)b->lines);
}

/* The table must exist. */
static struct ll_buffer__line *line_of(const struct ll_buffer *b, uint64_t n)
{
    uint64_t hash = n * UINT64_C(0x9e3779b97f4a7c15) >> 32;
    return &table(b)[hash * b->line_count >> 32];
}

/* NULL: the table does not exist. */
static struct ll_buffer__line *hold(const struct ll_buffer *b, uint64_t n)
{
    if (LL_UNLIKELY(!table(b)))
        return NULL;
    struct ll_buffer__line *line = line_of(b, n);
    uint32_t free = 0;
    while (!lladd_atomic_cas32(&line->latch, &free, 1)) {
        lladd_cpu_relax();
        free = 0;
    }
    return line;
}

static void let_go(struct ll_buffer__line *line)
{
    lladd_atomic_store32(&line->latch, 0);
}

static unsigned place_of(const struct ll_buffer__line *line, uint64_t n)
{
    unsigned i = 0;
    while (i < PLACES && line->page[i] != n + 1)
        i++;
    return i;
}

void ll_buffer__history_note(struct ll_buffer *b, uint64_t n, uint64_t lsn)
{
    if (LL_UNLIKELY(!table(b)) && lsn)
        make_table(b);
    struct ll_buffer__line *line = hold(b, n);
    if (!line)
        return;
    unsigned place = place_of(line, n);
    for (unsigned i = 0; place == PLACES && i < PLACES; i++)
        place = line->page[i] ? PLACES : i;
    if (place == PLACES && lsn) {
        place = 0;
        for (unsigned i = 1; i < PLACES; i++)
            place = line->lsn[i] < line->lsn[place] ? i : place;
    }
    if (place < PLACES) {
        line->page[place] = lsn ? n + 1 : 0;
        line->lsn[place] = lsn;
    }
    let_go(line);
}

void ll_buffer__expect_read(const struct ll_buffer *b, uint64_t n)
{
    if (table(b))
        __builtin_prefetch(line_of(b, n), 1);
}

uint64_t ll_buffer__history_last(const struct ll_buffer *b, uint64_t n)
{
    struct ll_buffer__line *line = hold(b, n);
    if (!line)
        return 0;
    unsigned place = place_of(line, n);
    uint64_t lsn = place < PLACES ? line->lsn[place] : 0;
    let_go(line);
    return lsn;
}
