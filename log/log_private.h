/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_LOG_PRIVATE_H
#define LL_LOG_PRIVATE_H
/* The inside of the log layer, shared by its files. log.c tells how they work together. */
#include "io/io.h"
#include "log/log.h"
#include "log/log_format.h"
#include "util/vec.h"

#include <lladd/dst.h>
#include <lladd/sync.h>

/* ---- segments (segment.c, directory.c) ---- */

enum ll_log__seg_state {
    LL_LOG__LIVE, /* holds log, or is ready to */
    LL_LOG__DEAD, /* truncated, skipped by a cut, or being made: the file may be used for another */
    LL_LOG__BAD   /* its header cannot be believed; `code` and `why` say what is wrong */
};

/* A segment file. The struct lives as long as the log; what is not constant is under seg_mutex. */
struct ll_log__seg {
    uint64_t first; /* LSN of its first payload byte */
    uint64_t end;   /* LSN behind its last one */
    uint64_t cut;   /* where the log before it ends; < until: a gap without LSNs lies between */
    uint64_t until; /* that gap ends here: `first`, but of a dead one that a later header was in */
    uint64_t name;  /* the LSN that its file is called after */
    enum ll_log__kind kind; /* and what else that name says */
    uint64_t incarnation;
    uint32_t size; /* 0 of a dead one: it is of no use, but to be removed */
    uint32_t step; /* in the row of growing sizes; less than `size` where a larger file was used */
    uint32_t block_size;
    uint32_t room; /* payload bytes of a block */
    uint32_t salt; /* of its records */
    uint32_t users;
    int code;
    const char *why;
    enum ll_log__seg_state state;
    struct lladd_file *file; /* NULL: not open */
};

/* Everything about files. The array is sorted by `first`; LIVE and BAD segments are in it, DEAD
 * ones in `dead`. */
struct ll_log__segments {
    struct lladd_mutex mutex; /* LLADD_RANK_LOG_SEGMENTS */
    struct lladd_cond changed;
    struct lladd_thread thread;
    struct ll_vec live; /* struct ll_log__seg * */
    struct ll_vec dead;
    uint64_t chain; /* first LSN of the oldest segment from which the log goes on without a hole */
    uint64_t highest_end; /* LOG-1: no LSN at or above this was handed out in former lives */
    uint64_t truncated;   /* nobody reads below this any more */
    uint64_t disk_bytes;  /* of all files */
    struct ll_log__seg *granted; /* the one that credits lie in now */
    bool listed;                 /* the directory has been read */
    bool creating;               /* somebody makes a segment, outside the mutex */
    bool gave_up;                /* preallocation failed; the next who needs space tries again */
    bool stop;
    uint32_t hurry;  /* somebody waits for what is being made; atomic */
    uint32_t idle;   /* the thread is there and sleeps; atomic */
    uint64_t groups; /* there were when the last one was made */
    uint64_t calls;  /* how often the log's thread was called; it may be busy then */
    uint64_t wanted; /* the thread shall make durable what is below */
};

static inline struct ll_log__seg *ll_log__at(const struct ll_vec *v, size_t i)
{
    return *(struct ll_log__seg **)ll_vec_at(v, i);
}
static inline struct ll_log__seg *ll_log__last(const struct ll_log__segments *segs)
{
    return ll_log__at(&segs->live, segs->live.len - 1);
}

/* ---- a gathered write (writer.c) ---- */

struct ll_log__header {
    uint64_t lsn;
    unsigned char bytes[LL_LOG_BLOCK_HEADER];
};

/* Belongs to whoever has the pen. */
struct ll_log__writer {
    struct ll_log__seg *seg; /* the segment the next byte goes to; used; may be NULL */
    struct ll_log__seg *ahead; /* the segment `next_block` lies in; used; may be NULL */
    uint64_t next_block;     /* LSN of the first block whose header was not made yet */
    uint64_t walked;         /* end of the published prefix as far as seen */
    uint64_t behind;         /* the device was asked to begin with what is below */
    struct ll_log__header *headers; /* of blocks begun since `written` */
    uint32_t header_count, header_capacity;
    uint32_t header_used;
    struct lladd_iovec *pieces;
    uint32_t piece_capacity;
};

/* ---- gathering a group (gather.c) ---- */

struct ll_log__gather {
    uint32_t arrivals; /* committers that ever came; futex for the leader */
    uint32_t goal;     /* who makes it so many wakes the leader */
    uint32_t at_cut;   /* how many had come when the last group was closed */
    uint32_t members;  /* of that group */
    uint32_t expected; /* for the next */
    uint32_t polite, polite_next;
    uint32_t pause, pause_next;
    uint64_t sync_ns; /* what a sync took of late */
};

/* ---- the log ---- */

enum ll_log__life { LL_LOG__OPENED, LL_LOG__SCANNED, LL_LOG__READY };

/* States of `word`, in its two low bits; the group's number stands above them (group.c). */
enum { LL_LOG__FREE = 0, LL_LOG__OPEN = 1, LL_LOG__FLIGHT = 2 };

struct ll_log {
    /* Constant once the log is in use. */
    struct ll_log_config cfg;
    const struct ll_env *env;
    struct lladd_device *dev;
    void *memory; /* what was allocated: the struct is aligned to a cache line inside it */
    uint64_t uuid_hash;
    uint64_t incarnation;
    uint32_t salt;
    enum ll_log__life life;
    struct ll_log_start start;
    uint64_t scan_end;  /* the tail that the scan found */
    uint64_t sealed;    /* newest watermark that the scan found */
    uint64_t ring_size; /* the mask is one less */
    uint64_t ring_chunk; /* what is zeroed at once */
    uint64_t record_max;
    uint64_t seal_pool; /* bytes at the end of the last segment that only seals may use */
    unsigned char *ring; /* made at the first credit, under ring_mutex; constant after that */

    /* One cache line each for what is written by everybody, by many, and by the leader. */
    _Alignas(64) uint64_t tail; /* next LSN */

    _Alignas(64) uint64_t granted; /* tail <= granted <= limit */
    uint64_t limit;      /* ring space is zeroed and free below */
    uint64_t disk_limit; /* credits go on below without looking at segments */
    uint64_t undo_left;  /* signed: eighths of bytes in untouched segments that are not set aside */
    uint64_t undo_low;   /* if there are fewer, another segment is made ahead */
    uint32_t scarce;     /* more than half of the byte limit is in use */

    _Alignas(64) uint32_t word; /* futex: number of the group and phase of its leader */
    uint32_t poisoned;
    uint64_t durable;
    uint64_t written;
    uint64_t cut;     /* what the group in flight will make durable */
    uint64_t visible; /* `walked` for others to see */
    uint32_t starving; /* somebody waits until credits are used or returned */
    uint32_t hunger;   /* futex for them */

    _Alignas(64) struct ll_log__gather gather;
    uint32_t sleepers[2]; /* on `word`, per bit they wait for */

    /* Under ring_mutex, or the pen, or counted with relaxed atomics. */
    _Alignas(64) struct lladd_mutex ring_mutex; /* LLADD_RANK_LOG */
    struct lladd_mutex pen; /* who writes has it; not while syncing (group.c) */
    struct ll_log__writer writer; /* under the pen */
    struct lladd_error poison; /* constant once poisoned is set */
    uint64_t records, groups, syncs, writes, bytes_written, waits, unsealed, first_lsn;
    struct ll_log__segments *segs;
};

static inline size_t ll_log__align(size_t n)
{
    return (n + LL_RECORD_ALIGN - 1) & ~(size_t)(LL_RECORD_ALIGN - 1);
}

/* Bytes of a record without padding. */
static inline uint32_t ll_log__raw_size(const struct ll_record *rec, bool wide)
{
    uint32_t payload = (uint32_t)(rec->redo.len + rec->undo.len);
    return payload + (wide ? LL_RECORD_WIDE : LL_RECORD_NARROW + (rec->undo_next.v ? 8u : 0u));
}
static inline uint32_t ll_log__narrow_size(const struct ll_record *rec)
{
    return (uint32_t)ll_log__align(ll_log__raw_size(rec, false));
}
static inline uint32_t ll_log__wide_size(const struct ll_record *rec)
{
    return (uint32_t)ll_log__align(ll_log__raw_size(rec, true));
}
static inline unsigned char *ll_log__ring_at(const struct ll_log *log, uint64_t lsn)
{
    return log->ring + (lsn & (log->ring_size - 1));
}
/* The word in the ring that says which record stands there. */
static inline uint64_t *ll_log__ring_lsn(const struct ll_log *log, uint64_t lsn)
{
    return (uint64_t *)(void *)(ll_log__ring_at(log, lsn) + 8);
}
/* undo_left counts in eighths of a byte: what a free byte is worth, what a byte set aside takes. */
enum { LL_LOG__FREE_BYTE = 8, LL_LOG__UNDO_BYTE = 9 };

/* reserve.c */
/* Puts a seal behind everything reserved; false if there is no space for one. */
bool ll_log__seal_reserve(struct ll_log *, struct ll_record *seal);
void ll_log__reserve_init(struct ll_log *, uint64_t tail);
/* Raises `granted` by so many bytes if ring and disk have them. `checked`: that undo is not in
 * the way was looked at. */
enum ll_log__grant { LL_LOG__GRANTED, LL_LOG__NO_RING, LL_LOG__NO_DISK };
enum ll_log__grant ll_log__try_grant(struct ll_log *, uint64_t bytes, bool checked);
/* Copies [lsn, lsn+len) out of the ring if it still holds that: the caller knows that it was
 * published. False if it is gone. */
bool ll_log__ring_read(struct ll_log *, uint64_t lsn, void *out, size_t len);
/* Is the record at lsn published, or was it? Looks at the ring. */
bool ll_log__ring_published(struct ll_log *, uint64_t lsn, uint32_t *size);

/* group.c */
/* Not by the leader. */
void ll_log__poison(struct ll_log *, const struct lladd_error *);
/* 0 or the poison. */
int ll_log__check(struct ll_log *, struct lladd_error *);
/* Hands everything published to the device; waits for the pen if somebody else is writing. 0: the
 * caller looks again. *progress says whether ring space may have come free. */
int ll_log__make_room(struct ll_log *, bool *progress, struct lladd_error *);
/* The same with *rc, unless somebody is writing: then it is false and nothing is done. */
bool ll_log__write_unless_busy(struct ll_log *, bool *progress, struct lladd_error *, int *rc);

/* gather.c */
/* A committer comes who will wait. */
void ll_log__arrive(struct ll_log *);
/* For the leader: waits for company; notes who is in the group; notes how long it was synced. */
void ll_log__gather(struct ll_log *);
void ll_log__gather_close(struct ll_log *);
void ll_log__gather_done(struct ll_log *, uint64_t sync_ns);

/* Does a sync take less than a thread's falling asleep and being woken? */
enum { LL_LOG__FAST_NS = 10000 };
static inline bool ll_log__syncs_fast(const struct ll_log *log)
{
    uint64_t ns = lladd_atomic_load64_relaxed(&log->gather.sync_ns);
    return ns != 0 && ns < LL_LOG__FAST_NS;
}

/* writer.c */
int ll_log__writer_alloc(struct ll_log *);
void ll_log__writer_free(struct ll_log *);
void ll_log__writer_init(struct ll_log *, struct ll_log__seg *, uint64_t lsn);
/* Moves `walked` over published records, at most to `end`. Stops early at the first that is not
 * published, or when so many blocks were begun that they must be written first. */
int ll_log__walk(struct ll_log *, uint64_t end, struct lladd_error *);
/* Writes what was walked, one gathered write per segment; raises `written` when all is done. */
int ll_log__write_walked(struct ll_log *, bool sync_comes, struct lladd_error *);
/* Syncs every segment that has bytes of [from, to). */
int ll_log__sync_range(struct ll_log *, uint64_t from, uint64_t to, struct lladd_error *);

/* segment.c */
int ll_log__segments_init(struct ll_log *);
void ll_log__segments_free(struct ll_log *);
uint64_t ll_log__segment_room(uint32_t size);
struct ll_log__seg *ll_log__seg_new(struct ll_log *, const struct ll_log__block *, uint64_t name);
void ll_log__seg_delete(struct ll_log *, struct ll_log__seg *);
int ll_log__seg_insert(struct ll_log *, struct ll_log__seg *);
/* Where an LSN lies: *at is the lsn, or, in a gap or below the oldest segment, the next LSN that
 * exists. LLADD_END: above all. With *out used by the caller until seg_release. */
int ll_log__seg_find(struct ll_log *, uint64_t lsn, struct ll_log__seg **out, uint64_t *at,
                     struct lladd_error *);
void ll_log__seg_release(struct ll_log *, struct ll_log__seg *);
/* Takes it out of use: its file may become another segment, or, if it is damaged, be removed. The
 * caller moves it to the dead. */
void ll_log__seg_retire(struct ll_log *, struct ll_log__seg *);
/* What its file is called. */
static inline void ll_log__file_name(const struct ll_log__seg *seg, char out[LL_LOG_NAME_SIZE])
{
    ll_log__name(seg->kind, seg->name, out);
}
/* LSN at which the log leaves the segment: its end, or where the next one cut it. */
uint64_t ll_log__seg_stop(struct ll_log *, const struct ll_log__seg *);
int ll_log__open_file(struct ll_log *, struct ll_log__seg *, struct lladd_error *);
/* No file holds lsn: says so, and which one is missing, as far as its neighbours tell. Under the
 * mutex. */
int ll_log__fail_missing(const struct ll_log__segments *, uint64_t lsn, struct lladd_error *);
/* The name of the file that holds lsn; false if none does. */
bool ll_log__file_of(struct ll_log *, uint64_t lsn, char name[LL_LOG_NAME_SIZE]);
/* Does lsn lie below all files, damaged ones included? */
bool ll_log__given_up(struct ll_log *, uint64_t lsn);
/* Where the next segment above lsn begins: 0 or LLADD_END. */
int ll_log__seg_after(struct ll_log *, uint64_t lsn, uint64_t *first);
/* The highest LSN above lsn where a cut says that the log had ended; 0 if there is none. */
uint64_t ll_log__cut_above(struct ll_log *, uint64_t lsn);

/* create.c; under seg_mutex */
/* Makes the segment that begins at `first`; `cut` is the end of the log before it. Releases the
 * mutex meanwhile; if somebody else is making one, waits for that and returns 0: the caller looks
 * whether it has what it wanted. */
enum ll_log__why {
    LL_LOG__NEEDED = 0,
    LL_LOG__AHEAD = 1,   /* nobody needs it yet */
    LL_LOG__FOR_UNDO = 2, /* to be set aside */
    LL_LOG__OWED = 4      /* the byte limit does not refuse it */
};
int ll_log__seg_create(struct ll_log *, uint64_t first, uint64_t cut, unsigned why,
                       struct lladd_error *);
/* Removes one dead file; false if there is none that can be, or *rc says why not. */
bool ll_log__remove_dead(struct ll_log *, int *rc, struct lladd_error *);
/* Is there one that cannot be used again? */
bool ll_log__has_useless(const struct ll_log *);
/* How big the next segment should be; `goes_on`: behind the last one, not behind a cut. */
uint32_t ll_log__next_size(const struct ll_log *, bool goes_on, unsigned why);
/* Bytes of the files that are in use. */
uint64_t ll_log__live_bytes(const struct ll_log__segments *);
/* Under the mutex, when that has changed: notes whether log is scarce. */
void ll_log__note_scarce(struct ll_log *);
/* Does the log take more than its limit? */
bool ll_log__over_limit(const struct ll_log *);

/* space.c */
/* Credits begin in this segment. */
void ll_log__start_granting(struct ll_log *, struct ll_log__seg *);
/* Whose records credit is for. */
enum ll_log__claim {
    LL_LOG__USERS,
    LL_LOG__OWING,   /* of what is owed (log.h) */
    LL_LOG__RESERVED /* likewise, and their space was set aside */
};
/* Makes disk space for a credit of so many bytes and tries to grant it: 0, and *grant says what
 * came of it, or why there is no space. */
int ll_log__disk_room(struct ll_log *, uint64_t bytes, enum ll_log__claim,
                      enum ll_log__grant *grant, struct lladd_error *);
/* May a seal end at `to`? As far as the segments that exist go; never makes one. */
bool ll_log__disk_room_now(struct ll_log *, uint64_t to);
/* Reads the directory if that was not done; under seg_mutex. */
int ll_log__ensure_listed(struct ll_log *, struct lladd_error *);
void ll_log__wake_worker(struct ll_log *);
/* By who does not hold the mutex, if there is a thread: it writes what is unwritten if that is
 * much. */
void ll_log__ask_worker(struct ll_log *);
/* A transaction that sets a lot aside for its undo will soon need another segment for that. */
static inline bool ll_log__undo_is_low(const struct ll_log *log)
{
    return (int64_t)lladd_atomic_load64(&log->undo_left) <
           (int64_t)lladd_atomic_load64(&log->undo_low);
}
enum { LL_LOG__MUCH = 1 << 20 };
static inline uint64_t ll_log__unwritten(const struct ll_log *log)
{
    return lladd_atomic_load64_relaxed(&log->tail) - lladd_atomic_load64_relaxed(&log->written);
}
void ll_log__stop_worker(struct ll_log *);

/* directory.c; under seg_mutex */
/* Reads the directory and every header. */
int ll_log__list(struct ll_log *, struct lladd_error *);
/* Opens one segment whose place is known. */
int ll_log__list_one(struct ll_log *, uint64_t first, uint64_t size, struct lladd_error *);
int ll_log__fail_seg(struct lladd_error *, const struct ll_log__seg *);
/* The names that were listed need not be durable (REC-4): makes them so. */
int ll_log__settle_names(struct ll_log *, struct lladd_error *);

/* reader.c: records out of files */

/* Raw bytes of one segment, from the beginning of a block. */
struct ll_log__window {
    struct ll_log__seg *seg;
    unsigned char *bytes;
    uint64_t block; /* index of the first block */
    uint64_t begin; /* LSN of its first payload byte */
    uint64_t stop;  /* LSN where the log leaves the segment */
    size_t have;    /* bytes read */
    size_t checked; /* bytes before the first block whose header is not right */
    uint64_t used;  /* for the choice of what is given up */
};

#define LL_LOG__WINDOWS 4

struct ll_log__reader {
    struct ll_log *log;
    bool lenient; /* block headers are not looked at: the search behind damage */
    struct ll_log__window windows[LL_LOG__WINDOWS];
    unsigned char *scratch; /* a record that is not in one piece */
    size_t scratch_capacity;
    uint64_t clock;
    /* After LLADD_OUT_OF_RANGE: */
    uint64_t exists; /* the next LSN that exists, or 0 */
    uint64_t jump;   /* that, if the log goes on there; 0 if what is between was truncated */
    /* Where the last record ended: the bytes that follow it, all in one block. */
    uint64_t next;
    const unsigned char *bytes;
    size_t available;
    uint32_t salt;
};

void ll_log__reader_init(struct ll_log__reader *, struct ll_log *);
void ll_log__reader_free(struct ll_log__reader *);
/* What was read is read again when it is wanted. */
void ll_log__reader_forget(struct ll_log__reader *);
/* All the memory that records of up to `record` bytes can need. */
int ll_log__reader_prepare(struct ll_log__reader *, size_t record, struct lladd_error *);
int ll_log__reader_scratch(struct ll_log__reader *, size_t size, struct lladd_error *);
/* The record at lsn out of the files; spans live until the next call. LLADD_END: there is none
 * (zeros, stale bytes, beyond what was written); LLADD_OUT_OF_RANGE: no file has that LSN;
 * LLADD_CORRUPT_LOG: bytes that were a record once; or a failed read. */
int ll_log__reader_record(struct ll_log__reader *, uint64_t lsn, struct ll_record *,
                          struct lladd_error *);
/* Is the record at lsn among the bytes that follow the last one? */
static inline bool ll_log__reader_has(const struct ll_log__reader *r, uint64_t lsn)
{
    return lsn == r->next && r->available >= LL_RECORD_NARROW &&
           ll_log__peek_size(r->bytes) <= r->available;
}
/* The payload at lsn, as far as it lies in one block and was read; `need` bytes of it if they are
 * there. The same errors. */
int ll_log__reader_bytes(struct ll_log__reader *, uint64_t lsn, size_t need,
                         const unsigned char **bytes, size_t *len, struct ll_log__seg **,
                         struct lladd_error *);

/* scan.c */
/* The first good record at or after lsn, whatever lies between. LLADD_END if there is none. */
int ll_log__find_record(struct ll_log__reader *lenient, uint64_t lsn, struct ll_record *,
                        struct lladd_error *);
/* Nothing readable stands at lsn: 0 if that may be the end of the log, LLADD_CORRUPT_LOG (with
 * everything said) if it is known that there was something (LOG-3). */
int ll_log__judge(struct ll_log *, uint64_t lsn, const struct lladd_error *what,
                  struct lladd_error *err);

#endif
