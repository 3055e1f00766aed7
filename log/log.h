/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_LOG_H
#define LL_LOG_H
/* Interface of the log layer: an append-only sequence of records, each named by its LSN; group
 * commit makes records durable. The layer stores the fields that describe pages and transactions
 * and does not interpret them.
 *
 * "Durable up to D" means that every byte with an LSN below D is on the device. D is never inside a
 * record, so the record at L is durable if and only if D > L. */
#include "log/record.h"
#include "util/poison.h"

struct ll_log;

struct ll_log_config {
    const struct ll_env *env;
    struct lladd_device *dev;
    unsigned char uuid[16];
    uint64_t incarnation; /* stamped on the segments made from now on (LOG-2) */
    uint64_t segment_min; /* bytes of the smallest segment; power of two >= LL_LOG_SEGMENT_MIN */
    uint64_t segment_max; /* bytes of the largest segment; power of two */
    uint64_t ring_bytes;  /* power of two; the longest record takes a quarter of the ring */
    /* Upper bound of the bytes that segments take on disk; 0 = no limit. The limit refuses the
     * records of user transactions, but not owed records (ll_log_credit_owed). A part of the limit
     * is reserved for owed records. */
    uint64_t limit_bytes;
    lladd_lsn first;          /* ll_log_create: first LSN of the log; 0 = LL_LOG_FIRST_LSN */
    bool read_only;           /* inspection: the log writes, creates and locks nothing */
    bool lenient;             /* inspection: a part that recovery needs may be missing */
    struct ll_poison *poison; /* set when a write or sync fails; then nothing is written (LOG-4) */
    /* Requests a checkpoint. The log calls it when limit_bytes refuses a segment, and after each
     * attempt to make a segment if more than half of limit_bytes is in use. Must not wait.
     * Nullable. */
    void (*wants_checkpoint)(void *ctx);
    void *ctx;
};

/* What the control file knows about the log. */
struct ll_log_start {
    lladd_lsn from; /* LSN of the record with which the scan begins: the last checkpoint */
    /* After an unclean stop: where redo begins. If that is below `from`, the log must have every
     * record from there on. 0: nothing below `from` is needed. */
    lladd_lsn redo;
    lladd_lsn watermark; /* every record below was durable (LOG-3) */
    bool clean;          /* clean stop: the log ends exactly at `end` */
    lladd_lsn end;
    /* The segment that holds `end`, as ll_log_newest_segment returned it before the clean stop. If
     * it is known, open reads only that file, except for inspection. 0: unknown, so open lists the
     * directory. */
    lladd_lsn segment;
    uint64_t segment_bytes;
};

/* ---- create, open, start, close ---- */

/* Creates a new, empty log: log/ and the first segment, both durably. */
int ll_log_create(const struct ll_log_config *, struct ll_log **out, struct lladd_error *);
/* Reads the segment headers of an existing log; writes nothing. LLADD_MISSING_FILE,
 * LLADD_FOREIGN_FILE and LLADD_CORRUPT_LOG name the file and the LSN. The log must reach down to
 * start.from and start.redo (ll_log_reaches), unless the config is lenient. If the header of a
 * segment below them cannot be read, the segment stays a part of the log: a call that needs it
 * returns LLADD_READ_FAILED, with the file and the LSN, until the header can be read. */
int ll_log_open(const struct ll_log_config *, const struct ll_log_start *, struct ll_log **out,
                struct lladd_error *);

/* Called once for each record, in LSN order; a result other than 0 stops the scan with that code.
 * Spans point into the reader's buffer and are valid only during the call. */
typedef int ll_log_visit(void *ctx, const struct ll_record *, struct lladd_error *);
/* Reads and verifies the log from start.from and finds its end (LOG-3). The log ends at the first
 * bad record, unless that record is known to have been durable: then LLADD_CORRUPT_LOG. A record is
 * known to have been durable if one of three LSNs is above it: a watermark or clean end in the
 * control file; a watermark in a seal, even a seal after the damage; the cut of a later segment,
 * which is the end of the log before that segment. Writes nothing. */
int ll_log_scan(struct ll_log *, ll_log_visit *, void *ctx, struct lladd_error *);
/* Makes the log ready to append. After an unclean stop: rewrites and syncs the accepted records
 * above the newest known watermark (REC-4), then continues in a new segment with a header that
 * names the cut. After a clean stop: continues where the log ended and writes nothing. If no
 * segment covers the clean end, makes a new segment, as after an unclean stop. */
int ll_log_start(struct ll_log *, struct lladd_error *);
/* Call after ll_log_start, whatever it returned. Can ll_log_start_here undo that call and continue
 * the log in its last segment? False after a clean stop, or if the log ended below the
 * watermark. */
bool ll_log_could_stay(const struct ll_log *);
/* The alternative to ll_log_start, if ll_log_could_stay. Call it before anything is logged, when
 * ll_log_start found no space or left too little for the owed records. It needs no space: the log
 * continues where it ended, in the same segment, and the files of the segments above may be reused.
 * The remains of a torn tail are cleared first, because its LSNs are handed out again. */
int ll_log_start_here(struct ll_log *, struct lladd_error *);
/* Call after the last call of a start function: gives up what only ll_log_start_here would need. */
int ll_log_started(struct ll_log *, struct lladd_error *);
/* Allocates the ring now. Without this call the first credit allocates it. */
int ll_log_make_ring(struct ll_log *, struct lladd_error *);
/* Stops background work and frees all memory. Does not make the log durable. */
void ll_log_close(struct ll_log *);
/* For a clean close: stops background work, forces the log, removes dead files that it does not
 * keep for reuse, and returns the log's end, which the caller stores in the control file as
 * ll_log_start.end. */
int ll_log_finish(struct ll_log *, lladd_lsn *end, struct lladd_error *);
/* Call after ll_log_finish: returns the values for ll_log_start.segment and .segment_bytes. */
void ll_log_newest_segment(const struct ll_log *, lladd_lsn *first, uint64_t *bytes);

/* ---- appending ---- */

/* Permission to append up to `bytes` bytes without waiting (BUF-3). Belongs to one transaction or
 * caller. Initialise it with zeros. */
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
/* The longest record that this log accepts: a quarter of the ring, but at most
 * LL_RECORD_SIZE_MAX. */
size_t ll_log_record_max(const struct ll_log *);
/* Before ll_log_start: enlarges the ring if records of `bytes` bytes would not fit. */
void ll_log_want_record(struct ll_log *, size_t bytes);
/* The most credit that one caller can have with a ring of this size: five eighths of the ring. Idle
 * credits take about a quarter at most, so a request for the rest is granted once other threads
 * have used or returned their credits in hand. */
size_t ll_log_credit_of_ring(uint64_t ring_bytes);
size_t ll_log_credit_most(const struct ll_log *);
/* The smallest ring that allows both a record of `record` bytes (ll_record_bound) and `credit`
 * bytes of credit. The result may exceed LL_LOG_RING_MAX. Neither argument may exceed 2^60. */
uint64_t ll_log_ring_for(size_t record, size_t credit);

/* Debug builds: in_hand says that the calling thread has the credit in hand; rests says that the
 * credit is idle. A thread with credit in hand may wait only for pages and the log's writer
 * (reserve.c). */
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

/* Raises the credit to at least `bytes`. Fast if the credit is large enough already. On success the
 * credit is in hand. The call may wait for the writer, or write the log, so the caller must not
 * hold a page latch. Errors: LLADD_TOO_LARGE, LLADD_NO_MEMORY, LLADD_NO_SPACE, LLADD_LOG_FULL (at
 * the byte limit; retryable), or the poison. */
int ll_log_credit_slow(struct ll_log *, struct ll_credit *, size_t bytes, struct lladd_error *);
static inline int ll_log_credit(struct ll_log *log, struct ll_credit *c, size_t bytes,
                                struct lladd_error *err)
{
    if (LL_UNLIKELY(c->bytes < bytes))
        return ll_log_credit_slow(log, c, bytes, err);
    ll_log_credit_in_hand(c);
    return 0;
}
/* ll_log_credit for owed records: records that end work already begun, or that allow the log to be
 * truncated. The byte limit does not refuse them. While they take no more than the reserved part,
 * the log stays below its limit. Beyond that the log exceeds the limit, by small segments, until a
 * truncation frees the excess. */
int ll_log_credit_owed(struct ll_log *, struct ll_credit *, size_t bytes, struct lladd_error *);
/* Credit for n page images of at most `one` bytes, or for fewer if the ring is full for long. Pages
 * can do without images, so images get no log that users will need. Images leave free an eighth of
 * the users' part of the byte limit, and a further segment. If no credit is granted, the call
 * returns 0 and c->bytes stays 0; it fails only with the poison. Without `wait`, the caller may
 * hold pages and credit; the call waits only for writers and tries a few times, and if the log has
 * a thread, the call makes no segment itself. */
int ll_log_credit_images(struct ll_log *, struct ll_credit *c, size_t one, unsigned n, bool wait,
                         struct lladd_error *);
void ll_log_credit_return(struct ll_log *, struct ll_credit *);
/* The smallest limit_bytes, a multiple of segment_min, with which a caller can have `credit` bytes
 * of credit and `undo` bytes of undo reserve together, if nothing prevents truncation. Neither
 * amount may exceed 2^48. */
uint64_t ll_log_limit_for(uint64_t segment_min, uint64_t segment_max, uint64_t credit,
                          uint64_t undo);
/* Makes the credit idle: the caller may wait again. Returns the unused bytes to the log if more
 * than a quarter of the ring is credit. Cheap. */
void ll_log_credit_trim(struct ll_log *, struct ll_credit *);

/* Makes the credit idle. True: the credit is at most 1/64 of the ring, and an idle caller may keep
 * it. (Other threads cannot use the disk space of a credit that is kept.) */
bool ll_log_credit_may_rest(const struct ll_log *, struct ll_credit *);

/* Reserves `bytes` more bytes of untouched segments for records that must not fail for lack of disk
 * space (REC-3). Leaves a slack unreserved (undo_reserve.c): as much as a segment of the smallest
 * size holds, at most 16 KiB. May wait until a segment is made. The records are later appended with
 * credit from ll_log_credit_reserved, which does not fail for lack of space. */
int ll_log_undo_reserve(struct ll_log *, uint64_t bytes, struct lladd_error *);
/* ll_log_undo_reserve for owed records (ll_log_credit_owed). This call may also reserve the slack,
 * and free space of the current segment. */
int ll_log_undo_reserve_owed(struct ll_log *, uint64_t bytes, struct lladd_error *);
/* ll_log_undo_reserve for recovery, which must manage with the space that the crash has left. So
 * this call, too, may reserve the slack, and free space of the current segment. With `spare`, also
 * checks that more space is free now: as much as a segment of the current size holds or, if the
 * byte limit refuses another segment, about the slack. If there is too little space, returns an
 * error such as LLADD_NO_SPACE and reserves nothing. */
int ll_log_undo_reserve_recovery(struct ll_log *, uint64_t bytes, bool spare, struct lladd_error *);
/* For recovery when the disk has less space than rollbacks may need: counts `bytes` as reserved
 * although the space may not exist. Credit for reserved records may then fail with
 * LLADD_NO_SPACE. */
void ll_log_undo_reserve_short(struct ll_log *, uint64_t bytes);
void ll_log_undo_release(struct ll_log *, uint64_t bytes);
int ll_log_credit_reserved(struct ll_log *, struct ll_credit *, size_t bytes, struct lladd_error *);

/* Gives the record an LSN and space in the ring. Before the call the caller sets kind, flags, op,
 * depth, page, txn, prev, page_prev, undo_next and the lengths of the spans; the bytes of the spans
 * may still change. The caller must have enough credit, which the call consumes; it never waits and
 * never fails. Between reserve and publish the caller must do nothing that can fail or block. Sets
 * rec->lsn and rec->size. If rec->txn is 0 and `starts` is true, sets rec->txn to the LSN. */
void ll_log_reserve(struct ll_log *, struct ll_credit *, struct ll_record *rec, bool starts);
/* Copies the record into the reserved space, computes its checksum, and makes it visible to the
 * writer. */
void ll_log_publish(struct ll_log *, const struct ll_record *rec);

/* Reserves and publishes a record of a transaction: fills in rec->txn and rec->prev and updates the
 * chain. The chain's undo_next becomes *undo_next or, if `undo_next` is NULL, the LSN of the
 * record. */
void ll_log_append(struct ll_log *, struct ll_credit *, struct ll_record *rec, struct ll_chain *,
                   const lladd_lsn *undo_next);

/* ---- positions and forcing ---- */

lladd_lsn ll_log_tail(const struct ll_log *);     /* next LSN to be handed out */
lladd_lsn ll_log_scan_end(const struct ll_log *); /* after ll_log_scan: where the log ended */
lladd_lsn ll_log_durable(const struct ll_log *);  /* every byte below is on the device */
lladd_lsn ll_log_written(const struct ll_log *);  /* the operating system has every byte below */
/* Waits until every record reserved so far below `up_to` is published, or the log is poisoned: a
 * very short wait. */
void ll_log_wait_published(struct ll_log *, lladd_lsn up_to);
/* Waits until the record at `lsn` is durable. The caller may become the leader of a group
 * (group.c). Errors: the poison; LLADD_BAD_ARGUMENT if `lsn` is not below the tail. */
int ll_log_force(struct ll_log *, lladd_lsn lsn, struct lladd_error *);
/* Waits only until the record at `lsn` is written. The record then survives a crash of the process,
 * not of the machine. */
int ll_log_write(struct ll_log *, lladd_lsn lsn, struct lladd_error *);

/* Asks the log's thread to make all records reserved so far durable. False: it has no thread. */
bool ll_log_force_soon(struct ll_log *);

/* ---- reading ---- */

/* A reader with its own buffer, for one thread at a time. It reads a record from the ring while the
 * ring still holds it, else from the files. */
struct ll_log_cursor;
int ll_log_cursor_open(struct ll_log *, struct ll_log_cursor **out);
void ll_log_cursor_close(struct ll_log_cursor *);
/* Allocates all the memory that reading records of up to `record_bytes` bytes can need. */
int ll_log_cursor_prepare(struct ll_log_cursor *, size_t record_bytes);
/* Releases the segment files that the cursor holds, so that they can be reused. The spans of its
 * last record become invalid. */
void ll_log_cursor_rest(struct ll_log_cursor *);
/* Reads the record at lsn and verifies its checksum; its spans are valid until the cursor's next
 * call. Errors: LLADD_OUT_OF_RANGE (truncated, or beyond the published end), LLADD_CORRUPT_LOG,
 * LLADD_MISSING_FILE, LLADD_READ_FAILED, LLADD_NO_MEMORY. */
int ll_log_cursor_read(struct ll_log_cursor *, lladd_lsn lsn, struct ll_record *,
                       struct lladd_error *);
/* ll_log_cursor_read for a record that must exist, because data in the database refers to it. A
 * missing record is LLADD_MISSING_FILE or LLADD_CORRUPT_LOG, not LLADD_OUT_OF_RANGE. */
int ll_log_cursor_need(struct ll_log_cursor *, lladd_lsn lsn, struct ll_record *,
                       struct lladd_error *);
/* Reads the record at lsn or, if the log was cut there, so that no record begins at it, the next
 * record. A damaged record at lsn is an error, and so is an lsn below the log (ll_log_reaches); a
 * search (seek) would pass over both. */
int ll_log_cursor_begin(struct ll_log_cursor *, lladd_lsn lsn, struct ll_record *,
                        struct lladd_error *);
/* Reads the record after the last one read. Skips the gaps that cuts left. LLADD_END: the end of
 * the published records. A new cursor has no position: first call ll_log_cursor_read,
 * ll_log_cursor_seek or ll_log_cursor_follow. */
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
    lladd_lsn end;   /* end of the last record passed */
    struct ll_record record[LL_LOG_BATCH];
};
/* Passes some records and returns those of the share: at most `most`, at most LL_LOG_BATCH, perhaps
 * none. Their spans are valid until the cursor's next call. Treats the end of the log, gaps and
 * errors as ll_log_cursor_next does, with one exception: a damaged record that seems to belong to
 * another share may be passed. But the reader of that share reports the damage, and so does a
 * reader that finds the record's length wrong. If several readers fail, the error at the lowest LSN
 * is the right one. */
int ll_log_cursor_batch(struct ll_log_cursor *, struct ll_log_share, unsigned most,
                        struct ll_log_batch *out, struct lladd_error *);
/* Reads the first record that begins at or after lsn, which may be any position, even in a gap.
 * Skips damage before lsn. Fails if it meets a damaged record that is known to begin at or after
 * lsn. */
int ll_log_cursor_seek(struct ll_log_cursor *, lladd_lsn lsn, struct ll_record *,
                       struct lladd_error *);
/* Passes over damage and sectors that cannot be read. Reads the first record that begins at or
 * after `from` or, if `from` is 0, the record after the last one read. If records before *rec may
 * be missing, *gap has the reason; otherwise gap->code is 0. Also after LLADD_END. Any other error
 * that is returned is in *gap. Exception: if the log begins near `from`, records between `from` and
 * *rec may be missing without a reason (see ll_log_cursor_follow). The cursor may be used for
 * nothing else. */
int ll_log_cursor_walk(struct ll_log_cursor *, lladd_lsn from, struct ll_record *rec,
                       struct lladd_error *gap);
/* ll_log_cursor_seek for a caller that must not miss a record: it fails if damage may hide a record
 * at or after lsn. Exception: where the log begins after a truncation, the place of the first
 * record is unknown, and a damaged record is detected only if it still holds its own LSN. */
int ll_log_cursor_follow(struct ll_log_cursor *, lladd_lsn lsn, struct ll_record *,
                         struct lladd_error *);

/* ---- space ---- */

/* Truncates the log: segments that are wholly below lsn and durable may be reused or removed. An
 * earlier call with a higher lsn does not count: the log that it has left may be pinned since. */
int ll_log_truncate(struct ll_log *, lladd_lsn lsn, struct lladd_error *);
/* The first LSN of the contiguous log. 0: the directory could not be read. (After damage there may
 * be older segments, below a missing or damaged one: directory.c.) */
lladd_lsn ll_log_oldest(struct ll_log *);
/* The lowest LSN from which on the log has every record. A cut may have left a gap before
 * ll_log_oldest; then this is the start of the gap. */
lladd_lsn ll_log_whole_from(struct ll_log *);
/* Fails if the log lacks a record at or after lsn because a file is missing, or its header is
 * damaged or cannot be read: LLADD_MISSING_FILE or the error of the file, with the file and the
 * LSN. A gap that a cut left lacks none. Damage inside the files is not looked for. */
int ll_log_reaches(struct ll_log *, lladd_lsn lsn, struct lladd_error *);
/* True if more than half of the byte limit is in use. Callers that normally reserve more than they
 * need then reserve only what they need. */
bool ll_log_is_scarce(const struct ll_log *);
/* Would ll_log_truncate at lsn free a segment, once the log is durable up to lsn? */
bool ll_log_would_free(struct ll_log *, lladd_lsn lsn);
/* Does one step of background work: makes the next segment, or removes an old file. For programs
 * that allow the library no threads. *more: another step may have work to do. */
int ll_log_maintain(struct ll_log *, bool *more, struct lladd_error *);

struct ll_log_stats {
    uint64_t records, bytes; /* appended since open */
    uint64_t groups, syncs, writes, bytes_written;
    uint64_t waits_for_space;
    uint64_t segments, segment_bytes; /* on disk now, with dead files kept for reuse */
    uint64_t undo_reserved;
};
void ll_log_stats(struct ll_log *, struct ll_log_stats *);
uint64_t ll_log_incarnation(const struct ll_log *);

/* ---- damaged or foreign logs (tools) ---- */

/* Decodes the record in bytes[0..len) at lsn. Returns 0; LLADD_END if the bytes are no record of
 * this LSN (zeros or stale bytes); or LLADD_CORRUPT_LOG with the reason. Never reads beyond len. */
int ll_record_decode(const unsigned char *bytes, size_t len, lladd_lsn lsn, uint32_t salt,
                     struct ll_record *, struct lladd_error *);
/* The checksum salt of records: uuid and incarnation. */
uint32_t ll_record_salt(const unsigned char uuid[16], uint64_t incarnation);
const char *ll_record_kind_name(unsigned kind);

/* Is the LSN in a gap that a cut left (LOG-2)? No record is in a gap. */
bool ll_log_lost(struct ll_log *, lladd_lsn);

/* A segment file. */
struct ll_log_file {
    char name[32];        /* relative to the database's directory */
    lladd_lsn first, end; /* the LSNs it covers */
    lladd_lsn cut;        /* where the preceding log ends */
    uint64_t incarnation;
    uint32_t size; /* size of the file, as its header says */
    bool in_use;   /* false: not part of the log; kept for reuse or removal */
    int code;      /* not 0: the header is not valid; `why` says why */
    const char *why;
};
typedef int ll_log_file_fn(void *ctx, const struct ll_log_file *);
/* Visits every segment file: first those in use, by first LSN, then the others. A result of fn
 * other than 0 ends the visits and is returned. */
int ll_log_file_each(struct ll_log *, ll_log_file_fn *, void *ctx, struct lladd_error *);

/* Is it known that a record begins at ll_log_oldest? The end of a truncated record may be there. */
bool ll_log_begins_at_record(struct ll_log *);

/* Where the byte at an LSN is stored. */
struct ll_log_place {
    char name[32];
    uint64_t offset;      /* offset of the byte in the file */
    lladd_lsn next_block; /* LSN of the first byte of the next block */
};
/* False if no file holds the LSN. */
bool ll_log_place(struct ll_log *, lladd_lsn, struct ll_log_place *);

#endif
