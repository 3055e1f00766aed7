/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_LOG_PRIVATE_H
#define LL_LOG_PRIVATE_H
/* Internal declarations of the log layer. log.c describes how its files work together. */
#include "io/io.h"
#include "log/log.h"
#include "log/log_format.h"
#include "util/vec.h"

#include <lladd/dst.h>
#include <lladd/sync.h>

/* ---- segments (segment.c, directory.c) ---- */

enum ll_log__seg_state {
    LL_LOG__LIVE, /* holds log records, or is ready for them */
    LL_LOG__DEAD, /* truncated, in a gap, or left by an unfinished creation: the file may be
                   * reused, unless `size` is 0 */
    LL_LOG__BAD   /* its header is not valid, or could not be read (code LLADD_READ_FAILED); `code`
                   * and `why` say why */
};

/* A segment file. The struct lives until its file is removed or reused, or the log is closed. The
 * mutex of ll_log__segments, which comments call seg_mutex, guards the fields that are not
 * constant. */
struct ll_log__seg {
    uint64_t first; /* LSN of the first payload byte */
    uint64_t end;   /* LSN after its last payload byte */
    uint64_t cut;   /* end of the log before the segment; LSNs in [cut, until) do not exist */
    uint64_t until; /* end of the gap. Normally `first`; if the file is being reused for a later
                       * segment, that segment's first LSN (directory.c) */
    uint64_t name;  /* the LSN in its file name */
    enum ll_log__kind kind; /* kind of the file name */
    uint64_t incarnation;
    uint32_t size; /* size of the file; 0 in a dead segment: the file can only be removed */
    uint32_t step; /* `size`, or less if a larger file was reused; sets the next segment's size */
    uint32_t block_size;
    uint32_t room; /* payload bytes of a block */
    uint32_t salt; /* checksum salt of its records */
    uint32_t users;
    int code;
    int sys_errno; /* of the read, if `code` is LLADD_READ_FAILED */
    const char *why;
    enum ll_log__seg_state state;
    struct lladd_file *file; /* NULL: not open */
};

/* The list of segment files. `live` is sorted by `first` and holds the LIVE and BAD segments;
 * `dead` holds the DEAD ones. */
struct ll_log__segments {
    struct lladd_mutex mutex; /* LLADD_RANK_LOG_SEGMENTS */
    struct lladd_cond changed;
    struct lladd_thread thread;
    struct ll_vec live; /* struct ll_log__seg * */
    struct ll_vec dead;
    uint64_t chain;              /* first LSN of the oldest segment of the contiguous log */
    uint64_t highest_end;        /* no LSN from here on was handed out; exception: LOG-1 in log.c */
    uint64_t disk_bytes;         /* total size of the files */
    struct ll_log__seg *granted; /* the segment from which credit is granted */
    bool listed;                 /* the directory has been read */
    bool creating;               /* a thread is making a segment, without the mutex */
    bool gave_up;                /* an attempt to make a segment that was not needed failed */
    bool stop;
    uint32_t hurry;  /* a thread waits for the segment being made; atomic */
    uint32_t idle;   /* the log's thread exists and is asleep; atomic */
    uint64_t groups; /* number of groups when the last segment was made */
    uint64_t calls;  /* number of requests to the log's thread, also while it was busy */
    uint64_t wanted; /* the log's thread is asked to make every record below durable */
};

static inline struct ll_log__seg *ll_log__at(const struct ll_vec *v, size_t i)
{
    return *(struct ll_log__seg **)ll_vec_at(v, i);
}
static inline bool ll_log__unread(const struct ll_log__seg *seg)
{
    return seg->state == LL_LOG__BAD && seg->code == LLADD_READ_FAILED;
}
static inline struct ll_log__seg *ll_log__last(const struct ll_log__segments *segs)
{
    return ll_log__at(&segs->live, segs->live.len - 1);
}

/* ---- writing (writer.c) ---- */

struct ll_log__header {
    uint64_t lsn;
    unsigned char bytes[LL_LOG_BLOCK_HEADER];
};

/* Guarded by the write mutex. */
struct ll_log__writer {
    struct ll_log__seg *seg; /* segment of the next byte to write; counted as a user; may be NULL */
    struct ll_log__seg *ahead;      /* segment of `next_block`; counted as a user; may be NULL */
    uint64_t next_block;            /* first LSN of the first block that has no header yet */
    uint64_t walked;                /* end of the published prefix found so far */
    uint64_t writeback;             /* the device was asked for writeback up to this LSN */
    struct ll_log__header *headers; /* headers of the blocks that begin at or after `written` */
    uint32_t header_count, header_capacity;
    uint32_t header_used;
    struct lladd_iovec *pieces;
    uint32_t piece_capacity;
};

/* ---- commit delay (commit_delay.c) ---- */

struct ll_log__commit_delay {
    uint32_t arrivals; /* number of committers so far; the leader's futex */
    uint32_t goal;     /* the committer that raises `arrivals` to this number wakes the leader */
    uint32_t at_cut;   /* `arrivals` when the last group was closed */
    uint32_t members;  /* committers of that group */
    uint32_t expected; /* committers expected in the next group */
    uint32_t polite, polite_next;
    uint32_t pause, pause_next;
    uint64_t sync_ns; /* recent duration of a sync (moving average) */
};

/* ---- the log ---- */

enum ll_log__life { LL_LOG__OPENED, LL_LOG__SCANNED, LL_LOG__READY };

/* Phases in the two low bits of `word`; the group's number is above them (group.c). */
enum { LL_LOG__FREE = 0, LL_LOG__OPEN = 1, LL_LOG__FLIGHT = 2 };

struct ll_log {
    /* Constant when the log is in use. */
    struct ll_log_config cfg;
    const struct ll_env *env;
    struct lladd_device *dev;
    void *memory; /* the allocated block; the struct is aligned to a cache line inside it */
    uint64_t uuid_hash;
    uint64_t incarnation;
    uint32_t salt;
    uint64_t old_end; /* records that begin below it are in a segment with old_salt */
    uint32_t old_salt;
    enum ll_log__life life;
    struct ll_log_start start;
    uint64_t scan_end;   /* the end of the log that the scan found */
    uint64_t here;       /* where the log could continue without a cut; 0: only with a cut */
    uint64_t sealed;     /* highest watermark that the scan found in a seal */
    size_t ring_size;    /* at most LL_LOG_RING_MAX; the mask is one less */
    uint64_t ring_chunk; /* bytes zeroed in one step */
    size_t record_max;
    uint64_t seal_pool;  /* bytes at the end of a segment that only seals may use */
    unsigned char *ring; /* allocated under ring_mutex by the first credit or ll_log_make_ring */

    /* The fields are grouped in cache lines by their users: every append; requests for credit; the
     * group's leader and committers; the commit delay; the mutexes. */
    _Alignas(64) uint64_t tail; /* next LSN */

    _Alignas(64) uint64_t granted; /* tail <= granted <= limit */
    uint64_t limit;                /* the ring space below is zeroed */
    uint64_t disk_limit;           /* credit below it is granted without examining the segments */
    uint64_t undo_left;            /* signed: unreserved bytes in untouched segments, in eighths */
    uint64_t undo_floor;           /* while undo_left is below it, users get credit only after a
                                    * check that the slack stays free (undo_reserve.c) */
    uint64_t undo_low; /* while undo_left is below this, another segment is preallocated */
    uint32_t scarce;   /* more than half of the byte limit is in use */

    _Alignas(64) uint32_t word; /* futex: the group's number and the phase of its leader */
    uint64_t durable;
    uint64_t written;
    uint64_t cut;           /* end of the group in flight (not the `cut` of a segment) */
    uint64_t visible;       /* every record below is published */
    uint32_t space_waiters; /* number of threads that wait until credits are used or returned */
    uint32_t space_word;    /* the futex of these threads */

    _Alignas(64) struct ll_log__commit_delay gather;
    /* Number of threads asleep on `word`, by the parity of the group that they wait for. */
    uint32_t sleepers[2];

    /* Guarded by ring_mutex or the write mutex, or counted with relaxed atomics. */
    _Alignas(64) struct lladd_mutex ring_mutex; /* LLADD_RANK_LOG */
    struct lladd_mutex write_mutex; /* held while writing, not while syncing (group.c) */
    struct ll_log__writer writer;   /* guarded by the write mutex */
    uint64_t records, groups, syncs, writes, bytes_written, waits, unsealed, first_lsn;
    struct ll_log__segments *segs;
};

static inline uint32_t ll_log__salt(const struct ll_log *log, uint64_t lsn)
{
    return LL_UNLIKELY(lsn < log->old_end) ? log->old_salt : log->salt;
}

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
/* The LSN field of the record at lsn in the ring. */
static inline uint64_t *ll_log__ring_lsn(const struct ll_log *log, uint64_t lsn)
{
    return (uint64_t *)(void *)(ll_log__ring_at(log, lsn) + 8);
}
/* undo_left is counted in eighths of a byte: a free byte adds 8, a reserved byte takes 9. */
enum { LL_LOG__FREE_BYTE = 8, LL_LOG__UNDO_BYTE = 9 };

/* record.c */
/* Encodes all bytes of a record but its LSN, which the caller writes last, because the writer polls
 * it. rec->lsn and rec->size are set; the size determines the form. */
void ll_log__record_encode(const struct ll_record *, uint32_t salt, unsigned char *out);

/* reserve.c */
/* Reserves a seal after all records reserved so far; false if there is no space for it. */
bool ll_log__seal_reserve(struct ll_log *, struct ll_record *seal);
void ll_log__reserve_init(struct ll_log *, uint64_t tail);
/* Raises `granted` by `bytes` if ring and disk have the space. `checked`: the caller has checked
 * that the undo reserve allows it. */
enum ll_log__grant { LL_LOG__GRANTED, LL_LOG__NO_RING, LL_LOG__NO_DISK };
enum ll_log__grant ll_log__try_grant(struct ll_log *, uint64_t bytes, bool checked);
/* Copies [lsn, lsn+len), which must be published, out of the ring. False: the ring no longer holds
 * these bytes. */
bool ll_log__ring_read(struct ll_log *, uint64_t lsn, void *out, size_t len);
/* Does the ring hold a published record at lsn? */
bool ll_log__ring_published(struct ll_log *, uint64_t lsn, uint32_t *size);

static inline bool ll_log__poisoned(const struct ll_log *log)
{
    return ll_poisoned(log->cfg.poison);
}
static inline int ll_log__check(const struct ll_log *log, struct lladd_error *err)
{
    return ll_poison_check(log->cfg.poison, err);
}

/* group.c */
/* Poisons (LOG-4) and wakes all threads that wait in the log. */
void ll_log__poison(struct ll_log *, const struct lladd_error *);
/* Writes all published records; waits if another thread is writing. *progress: ring space may have
 * become free, so check again. */
int ll_log__make_room(struct ll_log *, bool *progress, struct lladd_error *);
/* Like ll_log__make_room, with the result in *rc. If another thread is writing, does nothing and
 * returns false. */
bool ll_log__write_unless_busy(struct ll_log *, bool *progress, struct lladd_error *, int *rc);

/* commit_delay.c */
/* arrive counts a committer that will wait for durability. The other functions are for the leader:
 * commit_delay waits for other committers; close counts the members of the closed group; done
 * records how long its sync took. */
void ll_log__arrive(struct ll_log *);
void ll_log__commit_delay(struct ll_log *);
void ll_log__commit_delay_close(struct ll_log *);
void ll_log__commit_delay_done(struct ll_log *, uint64_t sync_ns);

/* Does a sync take less time than it takes to put a thread to sleep and wake it? */
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
/* Moves `walked` over published records, to `end` or above. Stops early at a record that is not
 * published, or when the header buffer is full. */
int ll_log__walk(struct ll_log *, uint64_t end, struct lladd_error *);
/* Writes the ring up to `walked`, then raises `written`. */
int ll_log__write_walked(struct ll_log *, bool sync_comes, struct lladd_error *);
int ll_log__sync_range(struct ll_log *, uint64_t from, uint64_t to, struct lladd_error *);

/* segment.c */
int ll_log__segments_init(struct ll_log *);
void ll_log__segments_free(struct ll_log *);
uint64_t ll_log__segment_room(uint32_t size);
struct ll_log__seg *ll_log__seg_new(struct ll_log *, const struct ll_log__block *, uint64_t name);
void ll_log__seg_delete(struct ll_log *, struct ll_log__seg *);
int ll_log__seg_insert(struct ll_log *, struct ll_log__seg *);
/* Finds the segment of an LSN. *at is lsn or, if lsn is in a gap or below the oldest segment, the
 * next LSN that exists. LLADD_END: lsn is above all segments. The caller is a user of *out until it
 * calls seg_release. */
int ll_log__seg_find(struct ll_log *, uint64_t lsn, struct ll_log__seg **out, uint64_t *at,
                     struct lladd_error *);
void ll_log__seg_release(struct ll_log *, struct ll_log__seg *);
/* Marks the segment dead; the caller moves it to `dead`. */
void ll_log__seg_retire(struct ll_log *, struct ll_log__seg *);
static inline void ll_log__file_name(const struct ll_log__seg *seg, char out[LL_LOG_NAME_SIZE])
{
    ll_log__name(seg->kind, seg->name, out);
}
/* LSN at which the log ends in this segment: the segment's end, or the cut of the next segment. */
uint64_t ll_log__seg_stop(struct ll_log *, const struct ll_log__seg *);
int ll_log__open_file(struct ll_log *, struct ll_log__seg *, struct lladd_error *);
/* Returns LLADD_MISSING_FILE: no file holds lsn. The message names the missing file if the segment
 * before it is known. Under seg_mutex. */
int ll_log__fail_missing(const struct ll_log__segments *, uint64_t lsn, struct lladd_error *);
/* See ll_log_whole_from. Under seg_mutex, when the directory is listed. */
uint64_t ll_log__whole_from(const struct ll_log__segments *);
/* The name of the file that holds lsn; false if none does. */
bool ll_log__file_of(struct ll_log *, uint64_t lsn, char name[LL_LOG_NAME_SIZE]);
/* Is rc the error of a header that could not be read, that of the segment that holds lsn, and does
 * the search for a record go over this segment? Only inspection does. */
bool ll_log__goes_over(struct ll_log *, uint64_t lsn, int rc);
/* Is lsn below all segments, even damaged ones? */
bool ll_log__given_up(struct ll_log *, uint64_t lsn);
/* *first: the first LSN of the next segment above lsn. Returns 0, or LLADD_END if there is none. */
int ll_log__seg_after(struct ll_log *, uint64_t lsn, uint64_t *first);
/* The highest cut above lsn that a segment declares, or 0. */
uint64_t ll_log__cut_above(struct ll_log *, uint64_t lsn);

/* create.c; under seg_mutex */
/* Why a segment is made. */
enum ll_log__why {
    LL_LOG__NEEDED = 0,
    LL_LOG__AHEAD = 1,    /* preallocated */
    LL_LOG__FOR_UNDO = 2, /* for the undo reserve */
    LL_LOG__OWED = 4      /* for owed records: the byte limit does not refuse it */
};
/* Makes the segment that begins at `first`; `cut` is the end of the log before it. Releases the
 * mutex while it makes the file. If another thread is making a segment, waits for a change and
 * returns 0: the caller must check again. */
int ll_log__seg_create(struct ll_log *, uint64_t first, uint64_t cut, unsigned why,
                       struct lladd_error *);
/* The log ends at `lsn`, and all segments above are dead. Renames their files one by one to
 * <first>.new, durably, in such an order that after a crash at any step the log still ends at
 * `lsn`. */
int ll_log__disown_above(struct ll_log *, uint64_t lsn, struct lladd_error *);
/* Writes zeros to [off, size) of the file. `idly`: stops as soon as a thread waits for the segment.
 * Returns 0 or a negative errno. */
int ll_log__write_zeros(struct ll_log *, struct lladd_file *, uint64_t off, uint64_t size,
                        bool idly);
/* Removes one dead file. False: there is none (*rc is 0), or the removal failed with *rc. */
bool ll_log__remove_dead(struct ll_log *, int *rc, struct lladd_error *);
/* Is there a dead file that cannot be reused? */
bool ll_log__has_useless(const struct ll_log *);
/* The size of the next segment. `goes_on`: the segment follows the last one without a cut. */
uint32_t ll_log__next_size(const struct ll_log *, bool goes_on, unsigned why);
uint64_t ll_log__live_bytes(const struct ll_log__segments *);
/* Updates `scarce`. Under the mutex. */
void ll_log__note_scarce(struct ll_log *);
bool ll_log__over_limit(const struct ll_log *);

/* space.c */
/* Segments that the worker keeps ready: the next, and one more, so that the undo reserve has an
 * untouched segment after credit has moved on to the next. */
enum { LL_LOG__KEPT_AHEAD = 2 };
void ll_log__start_granting(struct ll_log *, struct ll_log__seg *);
int ll_log__add_segment(struct ll_log *, unsigned why, struct lladd_error *);
/* If credit reached up to `to` in the current segment, would the undo reserve and `rest` eighths
 * still have space? */
bool ll_log__beside_undo(const struct ll_log *, uint64_t to, uint64_t rest);
/* The kind of records that credit is for. */
enum ll_log__claim {
    LL_LOG__IMAGES_NOW, /* page images; makes no segment if the log's thread can make it */
    LL_LOG__IMAGES,     /* page images, which leave room for users (ll_log_credit_images) */
    LL_LOG__USERS,
    LL_LOG__OWING,   /* owed records (log.h) */
    LL_LOG__RESERVED /* owed records with reserved space */
};
/* Makes disk space for a credit of `bytes` and tries to grant it. Returns 0, with the result of
 * ll_log__try_grant in *grant; otherwise the reason why there is no space. */
int ll_log__disk_room(struct ll_log *, uint64_t bytes, enum ll_log__claim,
                      enum ll_log__grant *grant, struct lladd_error *);
/* May a seal end at `to`? Makes no segment. */
bool ll_log__disk_room_now(struct ll_log *, uint64_t to);
/* Reads the directory unless that was done; under seg_mutex. */
int ll_log__ensure_listed(struct ll_log *, struct lladd_error *);

/* The bytes of log that are reserved for undo; under seg_mutex. */
uint64_t ll_log__undo_reserved(const struct ll_log *);

/* undo_reserve.c */
uint64_t ll_log__slack(const struct ll_log *);
uint64_t ll_log__kept(const struct ll_log *); /* the part of the byte limit that users do not get */
void ll_log__set_undo_floor(struct ll_log *);
bool ll_log__take_undo(struct ll_log *, uint64_t eighths, uint64_t rest);
/* Is so little space left for the undo reserve that another segment will soon be needed? */
static inline bool ll_log__undo_is_low(const struct ll_log *log)
{
    return (int64_t)lladd_atomic_load64(&log->undo_left) <
           (int64_t)lladd_atomic_load64(&log->undo_low);
}

/* worker.c */
void ll_log__wake_worker(struct ll_log *);
/* Wakes the log's thread, which writes if much is unwritten. The caller does not hold the mutex. */
void ll_log__ask_worker(struct ll_log *);
void ll_log__stop_worker(struct ll_log *);
/* Removes the dead files that the worker would remove, and ignores errors: a later run removes what
 * is left. */
void ll_log__remove_excess(struct ll_log *);
enum { LL_LOG__MUCH = 1 << 20 };
static inline uint64_t ll_log__unwritten(const struct ll_log *log)
{
    return lladd_atomic_load64_relaxed(&log->tail) - lladd_atomic_load64_relaxed(&log->written);
}

/* directory.c; under seg_mutex */
/* Reads the directory and every header. */
int ll_log__list(struct ll_log *, struct lladd_error *);
/* Opens one segment by its first LSN. */
int ll_log__list_one(struct ll_log *, uint64_t first, uint64_t size, struct lladd_error *);
/* ll_fail_io that names the segment's file. */
int ll_log__fail_io(struct lladd_error *, int rc, bool writing, const char *what,
                    const struct ll_log__seg *);
int ll_log__fail_seg(struct lladd_error *, const struct ll_log__seg *);
/* If the header of live[i] could not be read, reads it again. Segments below live[i] may then turn
 * out to be in a gap; then i is the index of a later segment. LLADD_READ_FAILED: the header cannot
 * be read now either. */
int ll_log__header_again(struct ll_log *, size_t i, struct lladd_error *);
/* The same for all segments that may hold an LSN at or above lsn, from the highest on. *end: the
 * end of the last one tried; 0: all headers were known. Not under seg_mutex. */
int ll_log__headers_above(struct ll_log *, uint64_t lsn, uint64_t *end, struct lladd_error *);
/* Fails if such a segment has a header that could not be read. Reads nothing. */
int ll_log__fail_unread(const struct ll_log__segments *, uint64_t lsn, struct lladd_error *);
/* Makes the listed file names durable: a listing may show names that are not durable (REC-4). */
int ll_log__settle_names(struct ll_log *, struct lladd_error *);

/* reader.c: records read from files */

/* Raw bytes of one segment, from the beginning of a block. */
struct ll_log__window {
    struct ll_log__seg *seg;
    unsigned char *bytes;
    uint64_t block; /* index of the first block */
    uint64_t begin; /* LSN of its first payload byte */
    uint64_t stop;  /* LSN where the log ends in the segment */
    size_t have;    /* bytes read */
    size_t checked; /* bytes before the first block with an invalid header; at most `have` */
    uint32_t bad;   /* bit i: sector i of `bytes` could not be read, and is zeros */
    int why_bad;    /* the errno of such a read */
    uint64_t used;  /* clock value at the last use; the least recently used window is replaced */
};

#define LL_LOG__WINDOWS 4

struct ll_log__reader {
    struct ll_log *log;
    bool lenient; /* for the search after damage: block headers are not checked */
    /* NULL, or gets the first LLADD_READ_FAILED; then sectors that cannot be read count as zeros.
     * NULL: to need a byte of such a sector, or a block header in it, is LLADD_READ_FAILED. */
    struct lladd_error *failed;
    struct ll_log__window windows[LL_LOG__WINDOWS];
    unsigned char *scratch; /* for a record that is not contiguous in a window */
    size_t scratch_capacity;
    uint64_t clock;
    /* After LLADD_OUT_OF_RANGE: */
    uint64_t exists; /* the next LSN that exists, or 0 */
    uint64_t jump;   /* `exists` if the LSNs before it are in a gap; 0 if they were truncated */
    /* After a failed ll_log__reader_record: the first LSN after a block with an invalid header that
     * holds the record's first byte, or 0. */
    uint64_t skip;
    /* The end of the last record, and the bytes that follow it in its block. */
    uint64_t next;
    const unsigned char *bytes;
    size_t available;
    uint32_t salt;
};

void ll_log__reader_init(struct ll_log__reader *, struct ll_log *);
void ll_log__reader_free(struct ll_log__reader *);
void ll_log__reader_forget(struct ll_log__reader *);
/* See ll_log_cursor_prepare. */
int ll_log__reader_prepare(struct ll_log__reader *, size_t record, struct lladd_error *);
int ll_log__reader_scratch(struct ll_log__reader *, size_t size, struct lladd_error *);
/* Reads the record at lsn from the files; its spans are valid until the next call. LLADD_END: no
 * record was written there (zeros, stale bytes, or beyond `written`); LLADD_OUT_OF_RANGE: no file
 * holds that LSN; LLADD_CORRUPT_LOG: the record is damaged; or the error of a read. */
int ll_log__reader_record(struct ll_log__reader *, uint64_t lsn, struct ll_record *,
                          struct lladd_error *);
/* Is the whole record at lsn among the buffered bytes that follow the last record? */
static inline bool ll_log__reader_has(const struct ll_log__reader *r, uint64_t lsn)
{
    return lsn == r->next && r->available >= LL_RECORD_NARROW &&
           ll_log__peek_size(r->bytes) <= r->available;
}
/* Returns the payload at lsn as far as it is in one block: at least `need` bytes if the block has
 * them. The errors are those of ll_log__reader_record. */
int ll_log__reader_bytes(struct ll_log__reader *, uint64_t lsn, size_t need,
                         const unsigned char **bytes, size_t *len, struct ll_log__seg **,
                         struct lladd_error *);

/* scan.c */
/* Finds the first good record at or after lsn; skips damage. LLADD_END: there is none. */
int ll_log__find_record(struct ll_log__reader *lenient, uint64_t lsn, struct ll_record *,
                        struct lladd_error *);
/* Call when no good record is at lsn. 0: this may be the end of the log. LLADD_CORRUPT_LOG, with a
 * full message: a record at lsn is known to have been durable (LOG-3). */
int ll_log__judge(struct ll_log *, uint64_t lsn, const struct lladd_error *what,
                  struct lladd_error *err);

#endif
