/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_BUFFER_PRIVATE_H
#define LL_BUFFER_PRIVATE_H
/* Internal declarations of the buffer manager. The header comment of buffer.c defines the terms. */
#include <lladd/dst.h>
#include <lladd/sync.h>

#include "buffer/buffer.h"
#include "buffer/latch.h"
#include "io/io.h"
#include "util/vec.h"

#include <string.h>

/* Ranks of the latches of this layer, in the order in which a thread may take them. A thread that
 * holds a page latch does not take the first two. */
enum {
    BUFFER_RANK_FLUSH = LLADD_RANK_PAGE - 10,    /* one flush at a time; it asks for log credit */
    BUFFER_RANK_DISCARD = LLADD_RANK_BUFFER - 3, /* one drop at a time */
    BUFFER_RANK_DWB,                             /* one batch in the double-write area */
    BUFFER_RANK_GROW,                            /* one write beyond the end of the file */
    BUFFER_RANK_SLOTS,                           /* slots, hash table, directory, batches */
    BUFFER_RANK_DIRTY,                           /* dirty queue, in-flight set */
    BUFFER_RANK_SPACE,                           /* residency counters of address space */
    BUFFER_RANK_SYNC = LLADD_RANK_BUFFER_IO
};

enum {
    SEGMENTS = 29, /* segment k has FIRST_SEGMENT << k slots; their sum is above any slot_max */
    FIRST_SEGMENT = 8,
    FRAMES_MIN = 4,        /* a budget for fewer pages is refused */
    BATCH_BYTES = 1 << 20, /* maximum bytes of copies in one batch of write-back */
    BATCH_MAX = 256,
    RUN_MAX = 32,       /* maximum pages in one call of the device, and in one eviction's write */
    IN_FLIGHT_MIN = 32, /* bounds of the limit at which written entries are summed up (dirty.c) */
    IN_FLIGHT_MAX = 32768,
    DWB_LEAST = 17, /* pages of a new double-write area */
    SPACE_LATCHES = 16,
    HASH_INLINE = 16,         /* entries of a new buffer's hash table */
    CHUNK_BYTES = 1 << 30,    /* bytes of the file for which one step reserves address space */
    RESERVED_FROM = 256 << 20 /* smallest budget for reserved address space */
};

/* The right to have one page resident. With reserved address space a slot gets a new frame with
 * each page; in the heap a slot keeps one frame. */
struct ll_buffer__slot {
    uint64_t frame;  /* struct ll_frame *; 0: no frame */
    uint32_t next;   /* link of the dirty queue: slot number + 1 */
    uint32_t listed; /* 1 if the slot is in the stack or the queue of dirty slots, or is being
                      * added */
    uint32_t mark;   /* number of the flush that has to write the page */
    uint32_t free;   /* link of the free list: slot number + 1 */
};

/* A page copy that is being written, or that was written and is not known to be durable. */
struct ll_buffer__in_flight {
    uint64_t id; /* increasing; entries are in the order of their ids */
    uint64_t page, rec_lsn;
    uint64_t done; /* 0 while the copy is being written; then the number of the last sync that had
                    * begun when the write ended */
};

/* The sum of several written entries: their number, the smallest recLSN, the greatest `done`. */
struct ll_buffer__sum {
    uint64_t pages, rec_lsn, done;
};

/* A copy of a page that will be written. */
struct ll_buffer__copy {
    struct ll_frame *frame;
    uint64_t page, rec_lsn, id;
    unsigned char *bytes;
    void *private_;
    bool image, dwb; /* image: the copy is logged; dwb: the copy goes through the area */
};
struct ll_buffer__batch {
    struct ll_buffer__batch *next; /* link of the list of idle batches */
    size_t size;                   /* bytes charged for this batch */
    unsigned n, capacity;
    unsigned entered; /* number of copies taken since get_batch; n: the copies not yet written */
    struct ll_buffer__copy *copies;
    unsigned char *bytes;
};

struct ll_buffer__hash_entry {
    uint64_t page;  /* undefined if frame is 0 */
    uint64_t frame; /* struct ll_frame * */
};
struct ll_buffer__hash {
    struct ll_buffer__hash_entry *entries;
    struct ll_buffer__hash *retired; /* older tables; lookups may be reading them */
    uint64_t mask;                   /* entries - 1 */
    unsigned shift;                  /* 64 - log2(entries) */
};

/* Address space for one part of the file: chunk i begins with page i << chunk_shift. */
struct ll_buffer__chunk {
    unsigned char *map;
    size_t map_size;
    unsigned char *pages; /* CHUNK_BYTES of page contents; the frames follow */
    struct ll_frame *frames;
    uint16_t *groups;  /* frames in use on each OS page of `frames` */
    uint16_t *regions; /* groups in use in each region, with REGION_HUGE */
};
struct ll_buffer__directory {
    uint64_t n;
    struct ll_buffer__directory *retired;
    struct {
        uint64_t frames; /* struct ll_frame *, 0: not mapped yet */
        struct ll_buffer__chunk *chunk;
    } at[];
};

struct ll_buffer {
    /* Read by every hit, rarely written. */
    struct ll_poison *poison;
    bool reserved; /* frames are in reserved address space; false: in the heap */
    uint8_t page_shift, chunk_shift;
    uint64_t chunk_mask;   /* pages in a chunk - 1 */
    uint64_t first_frames; /* struct ll_frame * of page 0, reserved */
    uint64_t directory;    /* struct ll_buffer__directory *, reserved */
    uint64_t hash;         /* struct ll_buffer__hash *, heap */
    uint32_t page_size;
    uint64_t evictions; /* number of frames released, which optimistic reads check */

    struct ll_buffer_config cfg; /* its names are copies, stored after this struct */
    const struct ll_env *env;
    struct lladd_file *file;
    unsigned batch_capacity; /* pages */

    /* Slots. */
    struct lladd_mutex slots_latch;
    uint64_t segments[SEGMENTS];    /* struct ll_buffer__slot *; segment k has FIRST_SEGMENT << k */
    uint64_t heap_frames[SEGMENTS]; /* first struct ll_frame of each segment, heap */
    uint32_t slot_count;            /* slots made so far */
    uint32_t slot_max;
    uint32_t slot_free; /* free list: slot number + 1 */
    uint32_t slots_used;
    uint64_t bytes;       /* sum of all charges to the budget */
    uint64_t slot_bytes;  /* cost of one more resident page */
    uint64_t place_bytes; /* additional cost of a page alone in its group and region */
    uint64_t claim_bytes; /* maximum additional cost of a claim, which may map a chunk */
    struct ll_buffer__batch *batches; /* idle batches */
    uint32_t batch_count;             /* number of batches; the first is charged at open */
    struct ll_buffer__hash first_hash;
    struct ll_buffer__hash_entry first_entries[HASH_INLINE];

    /* Reserved address space. */
    size_t os_page;
    uint32_t group_shift, region_shift; /* log2 of the number of pages in a group, in a region */
    uint32_t region_tables;             /* page tables that map a region */
    struct lladd_mutex *space_latches;

    /* Eviction. */
    uint64_t hand;
    uint32_t in_transit; /* slots that are taken and not yet bound to a page, plus batches in use */
    uint32_t events;     /* futex: changes at each event that a thread may wait for: a copy is
                          * written, a slot becomes free, a bulk write ends, a write fails, ... */
    uint32_t event_sleepers;

    /* The dirty page table. */
    uint32_t dirty_head; /* stack of slots with pages that became dirty: slot number + 1 */
    uint64_t dirty_count;
    struct lladd_mutex dirty_latch;
    uint32_t queue_head, queue_tail; /* approximately in recLSN order: slot number + 1 */
    uint32_t flush_number;
    struct ll_vec in_flight;
    struct ll_buffer__sum sums[2]; /* written entries of in_flight, summed up (sum_up) */
    size_t in_flight_reserved;     /* elements reserved for pushes that cannot fail */
    uint64_t in_flight_id, sync_number, synced, written;
    uint64_t horizon; /* see ll_buffer_protect */

    /* The file. */
    uint64_t page_count; /* logical */
    uint64_t file_pages; /* physical, rounded up; grows under grow_latch */
    struct lladd_mutex flush_latch, discard_latch, grow_latch, sync_latch;
    struct lladd_mutex bulk_latch;
    struct ll_bulk_range *bulk; /* ranges that are being written in bulk */
    uint32_t bulk_count;        /* their number; atomic */

    /* The double-write area. */
    struct lladd_mutex dwb_latch;
    struct lladd_file *dwb;
    unsigned char *dwb_scratch; /* three pages: the two headers, a copy */
    uint32_t dwb_checked;       /* 1: the file is open, and no copy in it has to be restored */
    uint32_t dwb_pages;         /* number of copies for which the area has room */
    bool dwb_grown;             /* this handle has tried to grow the area */

    /* Page LSNs of the last writes (write_history.c). */
    uint64_t lines; /* address of the table; 0: not allocated yet */
    uint64_t line_count;

    /* The background writer. */
    struct lladd_thread writer;
    uint32_t writer_word; /* changes when pages may have to be written */
    uint32_t writer_asleep;
    uint32_t writer_stop;

    struct {
        uint64_t fixes, misses, reads, writes, pages_written, syncs, evictions, repairs;
        uint64_t lost_writes;
    } count;
};

/* ---- buffer.c ---- */

/* Poisons the database after a write or sync failed with the negative errno rc (LOG-4), and wakes
 * the sleepers on `events`. */
int ll_buffer__poison(struct ll_buffer *, int rc, const char *what, const char *name,
                      struct lladd_error *);
void ll_buffer__event(struct ll_buffer *);
void ll_buffer__await_event(struct ll_buffer *, uint32_t seen);
uint64_t ll_buffer__page_limit(const struct ll_buffer *);

static inline int ll_buffer__check(const struct ll_buffer *b, struct lladd_error *err)
{
    return ll_poison_check(b->poison, err);
}

/* ---- slots.c ---- */

/* Takes a slot. 1: no slot is free, and the budget or the memory does not allow another slot.
 * LLADD_NO_MEMORY: there is no memory for the first slot. After 0, the caller binds the slot or
 * puts it back, then calls ll_buffer__slot_released. */
int ll_buffer__slot_take(struct ll_buffer *, uint32_t *slot, struct lladd_error *);
void ll_buffer__slot_put(struct ll_buffer *, uint32_t slot);
/* A taken slot was bound or put back, or a batch was returned. */
void ll_buffer__slot_released(struct ll_buffer *);
void ll_buffer__slots_free(struct ll_buffer *);
static inline void ll_buffer__charge(struct ll_buffer *b, uint64_t bytes)
{
    lladd_atomic_add64(&b->bytes, bytes);
}
static inline void ll_buffer__refund(struct ll_buffer *b, uint64_t bytes)
{
    lladd_atomic_sub64(&b->bytes, bytes);
}

static inline unsigned ll_buffer__segment_of(uint32_t slot)
{
    return 31u - (unsigned)__builtin_clz(slot / FIRST_SEGMENT + 1);
}
static inline uint32_t ll_buffer__segment_start(unsigned k)
{
    return FIRST_SEGMENT * ((1u << k) - 1);
}
static inline struct ll_buffer__slot *ll_buffer__slot(const struct ll_buffer *b, uint32_t slot)
{
    unsigned k = ll_buffer__segment_of(slot);
    uint64_t base = lladd_atomic_load64(&b->segments[k]);
    return (struct ll_buffer__slot *)(uintptr_t)base + (slot - ll_buffer__segment_start(k));
}
static inline struct ll_frame *ll_buffer__page_of_slot(const struct ll_buffer *b, uint32_t slot)
{
    return (struct ll_frame *)(uintptr_t)lladd_atomic_load64(&ll_buffer__slot(b, slot)->frame);
}

/* ---- frames_reserved.c, frames_heap.c: the two providers ---- */

/* claim binds the slot to page n and leaves the frame LOADING, held exclusively by the caller. It
 * sets *out to NULL if the page already has a frame. release makes an EVICTING or LOADING frame
 * FREE, and puts the frame's slot back. */
int ll_reserved__open(struct ll_buffer *, struct lladd_error *);
void ll_reserved__close(struct ll_buffer *);
/* For pages 0 ... n - 1: see ll_buffer_want_address_space. */
int ll_reserved__want_pages(struct ll_buffer *, uint64_t n, struct lladd_error *);
int ll_reserved__claim(struct ll_buffer *, uint64_t n, uint32_t slot, struct ll_frame **out,
                       struct lladd_error *);
void ll_reserved__release(struct ll_buffer *, struct ll_frame *);
void ll_heap__open(struct ll_buffer *);
void ll_heap__close(struct ll_buffer *);
int ll_heap__claim(struct ll_buffer *, uint64_t n, uint32_t slot, struct ll_frame **out,
                   struct lladd_error *);
void ll_heap__release(struct ll_buffer *, struct ll_frame *);
struct ll_frame *ll_heap__find_exact(struct ll_buffer *, uint64_t n);
/* Distance between frames; a page follows each frame. */
static inline size_t ll_heap__stride(const struct ll_buffer *b)
{
    return sizeof(struct ll_frame) + b->page_size;
}

/* The first frame of the chunk that holds page n; 0 if the chunk is not mapped. Pages of the first
 * chunk need no directory. */
static inline uint64_t ll_reserved__frames(const struct ll_buffer *b, uint64_t n)
{
    if (LL_LIKELY(n <= b->chunk_mask))
        return b->first_frames;
    const struct ll_buffer__directory *d =
        (const struct ll_buffer__directory *)(uintptr_t)lladd_atomic_load64(&b->directory);
    uint64_t i = n >> b->chunk_shift;
    return i < d->n ? lladd_atomic_load64(&d->at[i].frames) : 0;
}

static inline unsigned char *ll_reserved__page(const struct ll_buffer *b, uint64_t frames,
                                               uint64_t n)
{
    return (unsigned char *)(uintptr_t)frames - CHUNK_BYTES +
           ((n & b->chunk_mask) << b->page_shift);
}

static inline struct ll_frame *ll_reserved__find(const struct ll_buffer *b, uint64_t n)
{
    uint64_t frames = ll_reserved__frames(b, n);
    if (LL_UNLIKELY(!frames))
        return NULL;
    /* The caller will read the page too. The page's address is known without reading the frame, so
     * the processor can fetch page and frame together. (If the page is not resident the prefetch
     * does nothing.) */
    __builtin_prefetch(ll_reserved__page(b, frames, n));
    return (struct ll_frame *)(uintptr_t)frames + (n & b->chunk_mask);
}

/* Fibonacci hashing spreads neighbouring pages, so a run of page numbers makes no long run of used
 * entries. */
static inline uint64_t ll_heap__home(const struct ll_buffer__hash *h, uint64_t n)
{
    return (n * UINT64_C(0x9e3779b97f4a7c15)) >> h->shift;
}

/* May miss a page while its entry is being moved. May return a frame that now holds another page: a
 * caller that latches the frame must check the frame's page number. */
static inline struct ll_frame *ll_heap__find(const struct ll_buffer *b, uint64_t n)
{
    const struct ll_buffer__hash *h =
        (const struct ll_buffer__hash *)(uintptr_t)lladd_atomic_load64(&b->hash);
    for (uint64_t i = ll_heap__home(h, n);; i++) {
        const struct ll_buffer__hash_entry *e = &h->entries[i & h->mask];
        uint64_t frame = lladd_atomic_load64(&e->frame);
        if (!frame)
            return NULL;
        if (lladd_atomic_load64_relaxed(&e->page) == n)
            return (struct ll_frame *)(uintptr_t)frame;
    }
}

static inline struct ll_frame *ll_buffer__find(const struct ll_buffer *b, uint64_t n)
{
    return b->reserved ? ll_reserved__find(b, n) : ll_heap__find(b, n);
}
/* Does the latched frame hold page n? */
static inline bool ll_buffer__is_page(const struct ll_buffer *b, const struct ll_frame *f,
                                      uint64_t n)
{
    return b->reserved || f->page.number.v == n;
}

/* Makes a free frame the frame of page n. The number is stored atomically: another thread may be
 * reading the number, in a lookup in an old table or on a visit of slots. */
static inline void ll_buffer__begin_load(struct ll_frame *f, uint64_t n)
{
    lladd_atomic_store64_relaxed(&f->page.number.v, n);
    f->flags = 0;
    f->private_ = NULL;
    f->image_lsn = 0;
    lladd_atomic_store64(&f->latch, LATCH_LOADING | LATCH_EXCLUSIVE);
}

static inline int ll_buffer__claim(struct ll_buffer *b, uint64_t n, uint32_t slot,
                                   struct ll_frame **out, struct lladd_error *err)
{
    return b->reserved ? ll_reserved__claim(b, n, slot, out, err)
                       : ll_heap__claim(b, n, slot, out, err);
}

/* ---- load.c: misses ---- */

/* ll_buffer_fix for all cases but an immediate hit. Not inlined, so that a hit needs no stack space
 * for these cases. */
int ll_buffer__fix_slow(struct ll_buffer *, uint64_t n, unsigned how, struct ll_frame **out,
                        struct lladd_error *) __attribute__((noinline, cold));

/* ---- evict.c: room for another page ---- */

/* 0: this call has freed a slot, or has written back dirty pages so that the next call may free
 * one. 1: no slot can be freed before the next event. LLADD_NO_FRAME: all pages are fixed. Other
 * results are errors of a write. */
int ll_buffer__make_room(struct ll_buffer *, struct lladd_error *);
/* Releases a frame that is EVICTING or LOADING, and the frame's slot. */
void ll_buffer__give_up(struct ll_buffer *, struct ll_frame *);

/* ---- dirty.c: the dirty page table ---- */

struct ll_buffer__todo {
    struct ll_frame *frame;
    uint64_t page;
};
static inline struct ll_buffer__todo ll_buffer__todo_of(struct ll_frame *f)
{
    return (struct ll_buffer__todo){f, lladd_atomic_load64_relaxed(&f->page.number.v)};
}

/* Marks the frame dirty with recLSN `lsn`. If the frame is dirty already, the older recLSN stays.
 * The caller holds the frame exclusively, or a copy of the frame is being written. */
void ll_buffer__enter(struct ll_buffer *, struct ll_frame *, uint64_t lsn);
void ll_buffer__dirty_init(struct ll_buffer *);
/* Reserves room for n entries; the caller returns unused room with unreserve. 1: memory is short,
 * and other threads hold entries or reserved room; the caller waits for an event. */
int ll_buffer__in_flight_reserve(struct ll_buffer *, unsigned n, struct lladd_error *);
void ll_buffer__in_flight_unreserve(struct ll_buffer *, unsigned n);
/* Moves a frame, which the caller has latched, from dirty to in flight, and decides how the copy is
 * protected. Does both in one step under dirty_latch. False: the copy needs protection, but
 * `images` is NULL; then nothing has changed. */
bool ll_buffer__in_flight_enter(struct ll_buffer *, struct ll_buffer__copy *, struct ll_images *);
/* Notes that the copies with this value of `dwb` are written. n: the number of all copies. */
void ll_buffer__in_flight_done(struct ll_buffer *, const struct ll_buffer__copy *, unsigned n,
                               bool dwb);
/* Undoes ll_buffer__in_flight_enter for copies of which no byte was written. */
void ll_buffer__in_flight_cancel(struct ll_buffer *, const struct ll_buffer__batch *);
/* Removes the written entries of these pages, because the pages need not become durable any more.
 * (Entries that are summed up stay until a sync makes them durable.) */
void ll_buffer__in_flight_forget(struct ll_buffer *, uint64_t first, uint64_t n);
/* Is a copy with the id *upto, or with an earlier id, being written? If *upto is 0, *upto first
 * becomes the newest id. */
bool ll_buffer__in_flight_pending(struct ll_buffer *, uint64_t *upto);
/* Sums up the written entries if the set has many entries. True: the set nevertheless has too many,
 * so the caller should sync. */
bool ll_buffer__in_flight_full(struct ll_buffer *);
uint64_t ll_buffer__in_flight_count(const struct ll_buffer *);
/* Notes a write of the file, so that the next sync is not omitted. */
void ll_buffer__note_write(struct ll_buffer *);
bool ll_buffer__sync_begin(struct ll_buffer *, uint64_t *number);
void ll_buffer__sync_end(struct ll_buffer *, uint64_t number);

/* Marks the pages that a flush must write: the dirty pages with recLSN <= *upto and recLSN <
 * rec_below. *n: their number. *upto becomes the greatest recLSN that is within these bounds, of
 * the pages and of the copies being written; 0: there is none. Returns the mark. */
uint32_t ll_buffer__mark(struct ll_buffer *, uint64_t rec_below, uint64_t *upto, uint64_t *n);
/* Takes up to `max` pages with this mark. Mark 0: takes dirty pages that are idle and not recently
 * used, oldest first. */
unsigned ll_buffer__take_marked(struct ll_buffer *, uint32_t mark, struct ll_buffer__todo *,
                                unsigned max);
/* Marks the frame clean without a write (drop). */
void ll_buffer__forget_dirty(struct ll_buffer *, struct ll_frame *);

/* ---- writeback.c ---- */

/* What the thread that writes a batch may wait for. */
enum ll_buffer__writer {
    LL_BUFFER__EVICTS,  /* may hold pages and log credit: waits for no latch and no credit */
    LL_BUFFER__SETTLES, /* may hold log credit, and must write all pages: waits for page latches */
    LL_BUFFER__STEPS,   /* holds no page and no credit, may skip pages: waits for log credit */
    LL_BUFFER__FLUSHES, /* like STEPS, but must write all pages, so it also waits for latches */
};
/* Writes the dirty pages among the n pages (at most BATCH_MAX). A writer that does not wait for
 * page latches skips the pages that it cannot latch. Changes the order of `todo`. */
int ll_buffer__write_back(struct ll_buffer *, struct ll_buffer__todo *, unsigned n,
                          enum ll_buffer__writer, unsigned *written, struct lladd_error *);
/* may_write of ll_page_recovery. */
int ll_buffer__force_log(struct ll_buffer *, uint64_t n, uint64_t lsn, lladd_lsn *durable,
                         struct lladd_error *);
/* Writes n pages from `first` on to the file. Each piece consists of whole pages. Returns 0 or a
 * negative errno. */
int ll_buffer__write_at(struct ll_buffer *, const struct lladd_iovec *, int pieces, uint64_t first,
                        uint64_t n);
/* ll_buffer__write_at that poisons the database on failure. */
int ll_buffer__write_run(struct ll_buffer *, const struct lladd_iovec *, int pieces, uint64_t first,
                         uint64_t n, struct lladd_error *);
/* Writes the copies with this value of `dwb` to the file. n: the number of all copies. */
int ll_buffer__write_copies(struct ll_buffer *, const struct ll_buffer__copy *, unsigned n,
                            bool dwb, struct lladd_error *);
void ll_buffer__batches_free(struct ll_buffer *);
size_t ll_buffer__batch_bytes(const struct ll_buffer *, unsigned capacity);

/* ---- flush.c ---- */

void ll_buffer__sort_by_page(struct ll_buffer__todo *, unsigned n);
/* Wakes the background writer. Eviction calls this when it has met dirty pages. */
void ll_buffer__wake_writer(struct ll_buffer *);
void ll_buffer__stop_writer(struct ll_buffer *);

/* ---- double_write.c ---- */

/* Creates and syncs the file. Its name is durable after the directory is synced. */
int ll_buffer__double_write_create(struct ll_buffer *, struct lladd_error *);
/* Writes the copies with `dwb` to the area, and then to their places. The copies have their
 * checksums. When the function returns 0, the pages are durable. */
int ll_buffer__double_write(struct ll_buffer *, const struct ll_buffer__copy *, unsigned n,
                            struct lladd_error *);
int ll_buffer__double_write_close(struct ll_buffer *);
/* Restores the copies that an earlier open left. Called before the first page is written. */
int ll_buffer__double_write_ready(struct ll_buffer *, struct lladd_error *);

/* ---- file.c ---- */

/* Is the page in a range that is being written in bulk? The end of the range is an event. */
bool ll_buffer__in_bulk(struct ll_buffer *, uint64_t page);
/* Extends a file: allocates the new part, or writes zeros. After a failure it cuts the file to its
 * old size, if the device can. Returns 0 or a negative errno. The caller syncs. */
int ll_buffer__grow(struct ll_buffer *, struct lladd_file *, uint64_t from, uint64_t to);

/* ---- write_history.c ---- */

uint64_t ll_buffer__history_bytes(const struct ll_buffer_config *);
void ll_buffer__history_init(struct ll_buffer *);
void ll_buffer__history_free(struct ll_buffer *);
/* Notes that page n was written with this page LSN (0: the bytes have no page LSN). */
void ll_buffer__history_note(struct ll_buffer *, uint64_t n, uint64_t lsn);
/* The page LSN with which page n was last written, or 0 if unknown. */
uint64_t ll_buffer__history_last(const struct ll_buffer *, uint64_t n);
/* Prefetches the table's line for page n, which is about to be read. */
void ll_buffer__expect_read(const struct ll_buffer *, uint64_t n);

/* ---- verify.c ---- */

/* Verifies a page read from the disk (BUF-2). ll_page_verify must accept the page, and the page
 * must be neither newer than the log nor older than its last write. */
int ll_buffer__verify(struct ll_buffer *, uint64_t n, const unsigned char *bytes,
                      struct lladd_error *);
/* Puts page number and checksum into a copy that will be written. A page of zeros is not
 * changed. */
void ll_buffer__seal(const struct ll_buffer *, uint64_t n, unsigned char *bytes);
/* Reads n pages; bytes beyond the end of the file are zeros. */
int ll_buffer__read_pages(struct ll_buffer *, uint64_t first, uint64_t n, unsigned char *bytes,
                          struct lladd_error *);

#endif
