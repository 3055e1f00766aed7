/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_LOG_H
#define LL_LOG_H
/* Interface of the log layer: an append-only sequence of records, each named by its LSN (log
 * sequence number) and made durable by group commit. The layer knows nothing of pages and
 * transactions beyond the record fields it stores.
 *
 * "Durable up to D" means that every byte with an LSN below D is on the device. D is always a
 * record boundary, so a record at L is durable iff D > L. */
#include "log/record.h"
#include "util/poison.h"

struct ll_log;

struct ll_log_config {
    const struct ll_env *env;
    struct lladd_device *dev;
    unsigned char uuid[16];
    uint64_t incarnation;    /* stamped on the segments made from now on (LOG-2) */
    uint64_t segment_min;    /* bytes; first segment; power of two >= LL_LOG_SEGMENT_MIN */
    uint64_t segment_max;    /* doubling stops here */
    uint64_t ring_bytes;     /* power of two; the longest record is a quarter of it */
    /* Upper bound of the bytes that segments take on disk; 0 = no limit. It applies to user
     * transactions. A part of it is reserved for owed records: see ll_log_credit_owed. */
    uint64_t limit_bytes;
    lladd_lsn first;         /* ll_log_create: first LSN of the log; 0 = LL_LOG_FIRST_LSN */
    bool read_only;          /* inspection: nothing is written, created or locked */
    bool lenient;            /* inspection: open succeeds even if log that recovery needs is
                              * missing */
    struct ll_poison *poison; /* set when a write or sync fails; then nothing is written (LOG-4) */
    /* Requests a checkpoint. Called when an append ran into limit_bytes, or when more than half of
     * limit_bytes is in use. Must return at once. Nullable. */
    void (*wants_checkpoint)(void *ctx);
    void *ctx;
};

/* What the control file knows about the log. */
struct ll_log_start {
    lladd_lsn from;       /* a record boundary (the last checkpoint): the scan begins with this
                           * record */
    lladd_lsn watermark;  /* everything below was durable (LOG-3) */
    bool clean;           /* clean stop: the log ends exactly at `end`, so no scan for the tail
                           * is needed */
    lladd_lsn end;
    /* The segment that holds `end`, as ll_log_newest_segment returned it before the clean stop.
     * With it, open reads only that file. 0: unknown, so open lists the directory. */
    lladd_lsn segment;
    uint64_t segment_bytes;
};

/* ---- create, open, start, close ---- */

/* A new, empty log: creates log/ and the first segment (durably). */
int ll_log_create(const struct ll_log_config *, struct ll_log **out, struct lladd_error *);
/* Reads the segment headers of an existing log; writes nothing. LLADD_MISSING_FILE,
 * LLADD_FOREIGN_FILE and LLADD_CORRUPT_LOG name the file and the LSN. */
int ll_log_open(const struct ll_log_config *, const struct ll_log_start *, struct ll_log **out,
                struct lladd_error *);

/* Called once for each record, in LSN order; a result other than 0 stops the scan with that code.
 * Spans point into the reader's buffer and are valid only during the call. */
typedef int ll_log_visit(void *ctx, const struct ll_record *, struct lladd_error *);
/* Reads and verifies the log from start.from and finds its end (LOG-3). A bad record below a
 * watermark is LLADD_CORRUPT_LOG; a watermark may be stated by the control file or by any seal,
 * also by a seal found after the damage. Otherwise the log ends at the bad record. Writes
 * nothing. */
int ll_log_scan(struct ll_log *, ll_log_visit *, void *ctx, struct lladd_error *);
/* Makes the log ready to append. After an unclean stop: rewrites and forces the accepted log above
 * the newest known watermark (REC-4), then continues in a new segment with a header that names the
 * cut. After a clean stop: writes nothing until the first append is forced. */
int ll_log_start(struct ll_log *, struct lladd_error *);
/* Call after ll_log_start, successful or not: can the log continue in the segment in which it
 * ended, instead? Not after a clean stop, nor if that place is below the watermark. */
bool ll_log_could_stay(const struct ll_log *);
/* The alternative to ll_log_start, if ll_log_could_stay: call it when ll_log_start found no space
 * or left too little for the owed records, before anything is logged. It needs no space: the log
 * continues where it ended, in the same segment, and the files of the segments above become free
 * for reuse. The LSNs of a torn tail are handed out again; the remains of that tail are cleared
 * first. */
int ll_log_start_here(struct ll_log *, struct lladd_error *);
/* Call after either start function, once ll_log_start_here can no longer be needed. */
int ll_log_started(struct ll_log *, struct lladd_error *);
/* Allocates the ring now; otherwise the first credit does. Without the ring the log uses little
 * memory. */
int ll_log_make_ring(struct ll_log *, struct lladd_error *);
/* Stops background work, releases everything. Does not force. */
void ll_log_close(struct ll_log *);
/* For a clean close: stops background work, forces the log, and returns its end, which the caller
 * stores in the control file as ll_log_start.end. */
int ll_log_finish(struct ll_log *, lladd_lsn *end, struct lladd_error *);
/* Call after ll_log_finish: returns the values for ll_log_start.segment and .segment_bytes. */
void ll_log_newest_segment(const struct ll_log *, lladd_lsn *first, uint64_t *bytes);

/* ---- appending ---- */

/* Permission to append up to `bytes` bytes without waiting (BUF-3). Belongs to one transaction or
 * caller; zero-initialised. */
struct ll_credit {
    uint64_t bytes;
#ifdef LLADD_DEBUG
    uint64_t taker; /* the thread that has this credit in hand; 0: idle (reserve.c) */
#endif
};

#define LL_LOG_RING_MIN 4096u
#define LL_LOG_RING_MAX (1u << 30)

/* Upper bound of the bytes that a record with these span lengths takes in the log. */
size_t ll_record_bound(size_t redo_len, size_t undo_len);
/* Longest record this log accepts (a quarter of the ring, at most LL_RECORD_SIZE_MAX). */
size_t ll_log_record_max(const struct ll_log *);
/* Call before ll_log_start: enlarges the ring, if necessary, so that records of `bytes` bytes
 * fit. */
void ll_log_want_record(struct ll_log *, size_t bytes);
/* The most credit one caller can have with a ring of this size: five eighths of it. Idle credits
 * take up to a quarter of the ring, so the rest suffices once the credits in hand are used. */
size_t ll_log_credit_of_ring(uint64_t ring_bytes);
size_t ll_log_credit_most(const struct ll_log *);
/* The smallest ring that allows both a record of `record` bytes (ll_record_bound) and `credit`
 * bytes of credit. The result may exceed LL_LOG_RING_MAX. Neither argument may exceed 2^60. */
uint64_t ll_log_ring_for(size_t record, size_t credit);

/* Debug builds: mark the credit as in hand of the calling thread, or as idle. While a thread has
 * credit in hand it may wait for nothing but pages (reserve.c). */
#ifdef LLADD_DEBUG
void ll_log_credit_in_hand(struct ll_credit *);
void ll_log_credit_rests(struct ll_credit *);
#else
static inline void ll_log_credit_in_hand(struct ll_credit *c)
{
    (void)c;
}
static inline void ll_log_credit_rests(struct ll_credit *c)
{
    (void)c;
}
#endif

/* Makes sure that the credit covers `bytes`; fast when it already does. On success the credit is in
 * hand. May wait for the writer or write itself, so the caller must not hold a page latch. Errors:
 * LLADD_TOO_LARGE, LLADD_NO_SPACE, LLADD_LOG_FULL (at the byte limit; retryable), or the poison. */
int ll_log_credit_slow(struct ll_log *, struct ll_credit *, size_t bytes, struct lladd_error *);
static inline int ll_log_credit(struct ll_log *log, struct ll_credit *c, size_t bytes,
                                struct lladd_error *err)
{
    if (LL_UNLIKELY(c->bytes < bytes))
        return ll_log_credit_slow(log, c, bytes, err);
    ll_log_credit_in_hand(c);
    return 0;
}
/* ll_log_credit for owed records: those that end work already begun, or that allow the log to be
 * truncated. The byte limit does not refuse them. They fit below it as long as they take no more
 * than the reserved part; beyond that the log exceeds the limit, by small segments, until
 * truncation frees the excess. */
int ll_log_credit_owed(struct ll_log *, struct ll_credit *, size_t bytes, struct lladd_error *);
/* Returns the unused credit. */
void ll_log_credit_return(struct ll_log *, struct ll_credit *);
/* The smallest limit_bytes, in whole segments of segment_min bytes, under which a caller can have
 * `credit` bytes of credit and `undo` bytes of undo reserve at once, provided that nothing prevents
 * truncation. Neither amount may exceed 2^48. */
uint64_t ll_log_limit_for(uint64_t segment_min, uint64_t segment_max, uint64_t credit,
                          uint64_t undo);
/* Makes the credit idle: the caller may wait again. Returns the unused bytes if the credit
 * outstanding is so much that other callers could starve (cheap). */
void ll_log_credit_trim(struct ll_log *, struct ll_credit *);

/* Makes the credit idle. True if it is small enough for an idle caller to keep: so little credit
 * makes no other thread wait for ring space. On a full disk, though, other threads cannot use these
 * bytes. */
bool ll_log_credit_may_rest(const struct ll_log *, struct ll_credit *);

/* Reserves disk space for records that must be writable in any case (REC-3). After success, `bytes`
 * more bytes of durable, untouched segments are reserved, and a slack remains (undo_reserve.c): as
 * much as a segment of the smallest size holds, at most 16 KiB. Waits like ll_log_credit. The
 * records are appended with credit from ll_log_credit_reserved, which cannot fail for lack of
 * space. */
int ll_log_undo_reserve(struct ll_log *, uint64_t bytes, struct lladd_error *);
/* ll_log_undo_reserve for owed records (ll_log_credit_owed); they may use the slack. */
int ll_log_undo_reserve_owed(struct ll_log *, uint64_t bytes, struct lladd_error *);
/* ll_log_undo_reserve for recovery, which must manage with the space the crash left: it also counts
 * the free space of the current segment. `spare`: in addition, as much free space as that segment
 * holds must remain, or the slack if the byte limit refuses more; otherwise LLADD_NO_SPACE, and
 * nothing is reserved. */
int ll_log_undo_reserve_recovery(struct ll_log *, uint64_t bytes, bool spare,
                                 struct lladd_error *);
/* For recovery when the disk has less space than rollbacks may need: counts `bytes` as reserved
 * although the space may not be there. Credit for reserved records may then fail with
 * LLADD_NO_SPACE. */
void ll_log_undo_reserve_short(struct ll_log *, uint64_t bytes);
void ll_log_undo_release(struct ll_log *, uint64_t bytes);
int ll_log_credit_reserved(struct ll_log *, struct ll_credit *, size_t bytes, struct lladd_error *);

/* Takes an LSN and space for the record. The caller has set kind, flags, op, depth, page, prevs,
 * undo_next and the span lengths; the bytes of the spans may still change. Consumes credit, never
 * waits, never fails: the caller has enough credit. Between reserve and publish the caller does
 * nothing that can fail or block. Sets rec->lsn and rec->size; if rec->txn is 0 and `starts` is
 * true, sets rec->txn to the LSN. */
void ll_log_reserve(struct ll_log *, struct ll_credit *, struct ll_record *rec, bool starts);
/* Copies the record into the reserved space, computes its checksum, and makes it visible to the
 * writer. */
void ll_log_publish(struct ll_log *, const struct ll_record *rec);

/* Reserves and publishes a record of a transaction: fills in rec->txn and rec->prev and updates the
 * chain. The chain's undo_next becomes *undo_next or, if `undo_next` is NULL, the record itself. */
void ll_log_append(struct ll_log *, struct ll_credit *, struct ll_record *rec, struct ll_chain *,
                   const lladd_lsn *undo_next);

/* ---- positions and forcing ---- */

lladd_lsn ll_log_tail(const struct ll_log *);     /* next LSN to be handed out */
/* After ll_log_scan: where the log ended. */
lladd_lsn ll_log_scan_end(const struct ll_log *);
lladd_lsn ll_log_durable(const struct ll_log *);  /* everything below is on the device */
/* Everything below was handed to the operating system. */
lladd_lsn ll_log_written(const struct ll_log *);
/* Waits until every record reserved below `up_to` before the call is published; very short. */
void ll_log_wait_published(struct ll_log *, lladd_lsn up_to);
/* Waits until the record at `lsn` is durable; the caller may become the leader of the group. A lone
 * caller pays one write and one sync. Errors: the poison if the log is poisoned; LLADD_BAD_ARGUMENT
 * if `lsn` is not below the tail. */
int ll_log_force(struct ll_log *, lladd_lsn lsn, struct lladd_error *);
/* ll_log_force, but only up to "written": the record survives a crash of the process, not of the
 * machine. */
int ll_log_write(struct ll_log *, lladd_lsn lsn, struct lladd_error *);

/* Asks the log's thread to make everything reserved so far durable soon; does not wait. False: the
 * log has no thread. */
bool ll_log_force_soon(struct ll_log *);

/* ---- reading ---- */

/* A reader with its own buffer, for one thread at a time. It reads from the ring while the ring
 * still holds the bytes, else from the files. */
struct ll_log_cursor;
int ll_log_cursor_open(struct ll_log *, struct ll_log_cursor **out);
void ll_log_cursor_close(struct ll_log_cursor *);
/* Allocates all the memory that reading records of up to `record_bytes` bytes can need. */
int ll_log_cursor_prepare(struct ll_log_cursor *, size_t record_bytes);
/* Releases the segment files the cursor holds, so that they can be recycled, and its last
 * record. */
void ll_log_cursor_rest(struct ll_log_cursor *);
/* Reads the record at lsn; its spans are valid until the cursor's next call. Errors:
 * LLADD_OUT_OF_RANGE (truncated, or beyond the published end), LLADD_CORRUPT_LOG,
 * LLADD_READ_FAILED. The checksum is verified. Forward reads are buffered in large chunks; a
 * backward read along a chain keeps recent chunks. */
int ll_log_cursor_read(struct ll_log_cursor *, lladd_lsn lsn, struct ll_record *,
                       struct lladd_error *);
/* ll_log_cursor_read for a record that must exist because data the database keeps refers to it:
 * instead of LLADD_OUT_OF_RANGE it returns LLADD_MISSING_FILE or LLADD_CORRUPT_LOG. */
int ll_log_cursor_need(struct ll_log_cursor *, lladd_lsn lsn, struct ll_record *,
                       struct lladd_error *);
/* Reads the record after the last one read, across the gaps that cuts left; LLADD_END at the
 * published end. After open, set the position with ll_log_cursor_read first. */
int ll_log_cursor_next(struct ll_log_cursor *, struct ll_record *, struct lladd_error *);
/* One of n readers that divide the records among them. A record that changes a page (UPDATE, CLR,
 * IMAGE) belongs to the share that its page selects; all other records belong to share 0. */
struct ll_log_share {
    uint32_t index, n; /* index < n */
};
bool ll_log_share_has(struct ll_log_share, const struct ll_record *);
#define LL_LOG_BATCH 32u
struct ll_log_batch {
    uint32_t n;
    uint64_t passed; /* records that the cursor has passed, including those returned */
    lladd_lsn end;   /* where the last record passed ends */
    struct ll_record record[LL_LOG_BATCH];
};
/* Passes some records and returns those of the share, at most `most` (up to LL_LOG_BATCH) and
 * perhaps none. Their spans are valid until the cursor's next call. Otherwise like
 * ll_log_cursor_next, except that only the returned records are verified. A damaged record is
 * therefore detected either by the reader of the share that its bytes select, or by a reader that
 * finds its length wrong. If several readers fail, the error at the lowest LSN is the right one. */
int ll_log_cursor_batch(struct ll_log_cursor *, struct ll_log_share, unsigned most,
                        struct ll_log_batch *out, struct lladd_error *);
/* Reads the first record that begins at or after lsn (lsn may be any position, also one in a
 * gap). Damage before that record is skipped; a damaged record that is known to begin there is
 * an error. */
int ll_log_cursor_seek(struct ll_log_cursor *, lladd_lsn lsn, struct ll_record *,
                       struct lladd_error *);
/* ll_log_cursor_seek for a caller that must not miss a record: damage that may hide a record at or
 * after lsn is an error. Just above the truncation LSN it is unknown where the first records begin;
 * there a damaged record is detected only if it still holds its own LSN. */
int ll_log_cursor_follow(struct ll_log_cursor *, lladd_lsn lsn, struct ll_record *,
                         struct lladd_error *);

/* ---- space ---- */

/* Truncates the log: segments that are wholly below lsn may be recycled or removed. A lower lsn
 * than before has no effect. */
int ll_log_truncate(struct ll_log *, lladd_lsn lsn, struct lladd_error *);
lladd_lsn ll_log_oldest(struct ll_log *); /* first LSN that can still be read */
/* Is more than half of the byte limit in use? Then callers should reserve only the space they
 * need. */
bool ll_log_is_scarce(const struct ll_log *);
/* Would ll_log_truncate at lsn free a segment, once the log is durable up to lsn? */
bool ll_log_would_free(struct ll_log *, lladd_lsn lsn);
/* Does one step of background work (creates and zeroes the next segment, or removes an old one),
 * for callers without threads. *more is set if there may be more to do. */
int ll_log_maintain(struct ll_log *, bool *more, struct lladd_error *);

struct ll_log_stats {
    uint64_t records, bytes;             /* appended since open */
    uint64_t groups, syncs, writes, bytes_written;
    uint64_t waits_for_space;
    uint64_t segments, segment_bytes;    /* on disk now, spares included */
    uint64_t undo_reserved;
};
void ll_log_stats(struct ll_log *, struct ll_log_stats *);
uint64_t ll_log_incarnation(const struct ll_log *);

/* ---- damaged or foreign logs (tools) ---- */

/* Decodes the record in bytes[0..len) at lsn. 0; LLADD_END if no record was ever written there
 * (zeros or stale bytes); LLADD_CORRUPT_LOG with the reason. Never reads beyond len. */
int ll_record_decode(const unsigned char *bytes, size_t len, lladd_lsn lsn, uint32_t salt,
                     struct ll_record *, struct lladd_error *);
/* The checksum salt of records: uuid and incarnation. */
uint32_t ll_record_salt(const unsigned char uuid[16], uint64_t incarnation);
const char *ll_record_kind_name(unsigned kind);

/* Is the LSN in a gap that a cut left (LOG-2)? No record is or ever will be there. */
bool ll_log_lost(struct ll_log *, lladd_lsn);

/* A segment file. */
struct ll_log_file {
    char name[32];        /* relative to the database's directory */
    lladd_lsn first, end; /* the LSNs it covers */
    lladd_lsn cut;        /* where the preceding log ends */
    uint64_t incarnation;
    uint32_t size;        /* as its header says */
    bool in_use;          /* false: not part of the log; the file is kept for reuse */
    int code;             /* not 0: the header is not valid; `why` says why (static string) */
    const char *why;
};
typedef int ll_log_file_fn(void *ctx, const struct ll_log_file *);
/* Visits every segment file by first LSN, those not in use last; a result other than 0 stops with
 * that code. */
int ll_log_file_each(struct ll_log *, ll_log_file_fn *, void *ctx, struct lladd_error *);

/* Does a record begin at ll_log_oldest? Otherwise the end of a truncated record may be there. */
bool ll_log_begins_at_record(struct ll_log *);

/* Where the byte at an LSN is stored. */
struct ll_log_place {
    char name[32];
    uint64_t offset;      /* in the file */
    lladd_lsn next_block; /* LSN of the first byte of the next block */
};
/* False if no file holds the LSN. */
bool ll_log_place(struct ll_log *, lladd_lsn, struct ll_log_place *);

#endif
