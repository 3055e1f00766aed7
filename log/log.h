/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_LOG_H
#define LL_LOG_H
/* The face of the log layer: an append-only sequence of records with LSNs, made durable in groups.
 * Knows nothing about pages or transactions beyond the fields it stores.
 *
 * "Durable up to D" means every byte with an LSN below D is on the device; a record at L is durable
 * iff D > L (D is always a record boundary). Published/applied are the caller's business. */
#include "log/record.h"
#include "util/env.h"

struct ll_log;

struct ll_log_config {
    const struct ll_env *env;
    struct lladd_device *dev;
    unsigned char uuid[16];
    uint64_t incarnation;    /* for what is written from now on (LOG-2) */
    uint64_t segment_min;    /* bytes; first segment; power of two >= LL_LOG_SEGMENT_MIN */
    uint64_t segment_max;    /* doubling stops here */
    uint64_t ring_bytes;     /* power of two; the longest record is a quarter of it */
    /* Most bytes of segments on disk; 0 = no limit. It refuses users, and a part of it is kept from
     * them for what is owed: see ll_log_credit_owed. */
    uint64_t limit_bytes;
    lladd_lsn first;         /* ll_log_create: where the log begins; 0 = LL_LOG_FIRST_LSN */
    bool read_only;          /* inspection: nothing is written, created or locked */
    /* Called once when a write or sync failed for good (LOG-4); from any thread. */
    void (*poisoned)(void *ctx, const struct lladd_error *);
    /* Called when somebody had to wait for log space because of limit_bytes, or when more than
     * half of it is in use: a checkpoint is wanted. Must return at once. Nullable. */
    void (*wants_checkpoint)(void *ctx);
    void *ctx;
};

/* What the control file knows about the log. */
struct ll_log_start {
    lladd_lsn from;       /* where the scan begins: a record boundary (the last checkpoint) */
    lladd_lsn watermark;  /* everything below was durable (LOG-3) */
    bool clean;           /* the log ends exactly at `end`, nothing to scan for */
    lladd_lsn end;
    /* The segment that holds `end`, as ll_log_newest_segment said before the clean stop: with it,
     * opening looks at that one file. 0: not known, the directory is listed. */
    lladd_lsn segment;
    uint64_t segment_bytes;
};

/* ---- life ---- */

/* A new, empty log: creates log/ and the first segment (durably). */
int ll_log_create(const struct ll_log_config *, struct ll_log **out, struct lladd_error *);
/* Reads the segment headers of an existing log; writes nothing. LLADD_MISSING_FILE,
 * LLADD_FOREIGN_FILE, LLADD_CORRUPT_LOG name file and LSN. */
int ll_log_open(const struct ll_log_config *, const struct ll_log_start *, struct ll_log **out,
                struct lladd_error *);

/* Sees each record once, in LSN order; not 0 stops the scan with that code. Spans point into the
 * reader's buffer and die when the visitor returns. */
typedef int ll_log_visit(void *ctx, const struct ll_record *, struct lladd_error *);
/* Reads from start.from to the end of the log, verifying everything, and finds the tail (LOG-3):
 * a bad record below a watermark stated by the control file or by any seal, also one found behind
 * the damage, is LLADD_CORRUPT_LOG; otherwise the tail is cut there. Nothing is written. */
int ll_log_scan(struct ll_log *, ll_log_visit *, void *ctx, struct lladd_error *);
/* Ready to append. After an unclean stop: rewrites and forces the accepted log beyond the newest
 * known watermark (REC-4) and goes on in a new segment that names the cut. After a clean one:
 * writes nothing until the first append is forced. */
int ll_log_start(struct ll_log *, struct lladd_error *);
/* After a scan, and an ll_log_start that found no space; then that is called again. Records at or
 * above `matters` need not be kept, and nothing at or below `keep` may be given up. If a cut lies
 * between, the log ends there, and the segments above are made anew. */
void ll_log_forget_cuts(struct ll_log *, lladd_lsn matters, lladd_lsn keep);
/* Stops background work, releases everything. Does not force. */
void ll_log_close(struct ll_log *);
/* For a clean close: waits for background work, forces, and says where the log ends (what goes into
 * the control file as ll_log_start.end). */
int ll_log_finish(struct ll_log *, lladd_lsn *end, struct lladd_error *);
/* After ll_log_finish: what goes into ll_log_start.segment and .segment_bytes. */
void ll_log_newest_segment(const struct ll_log *, lladd_lsn *first, uint64_t *bytes);

/* ---- appending ---- */

/* Permission to append so many bytes without waiting (BUF-3). Belongs to one transaction or
 * caller; zero-initialised. */
struct ll_credit {
    uint64_t bytes;
#ifdef LLADD_DEBUG
    uint64_t taker; /* the thread that has it in hand; 0: it rests (reserve.c) */
#endif
};

#define LL_LOG_RING_MIN 4096u
#define LL_LOG_RING_MAX (1u << 30)

/* Upper bound of what a record with these span lengths takes in the log. */
size_t ll_record_bound(size_t redo_len, size_t undo_len);
/* Longest record this log accepts (a quarter of the ring, at most LL_RECORD_SIZE_MAX). */
size_t ll_log_record_max(const struct ll_log *);
/* Most credit one caller can have with a ring of so many bytes: five eighths. Credits that wait in
 * their owners' hands take up to a quarter, so what is left is enough, once it is used up. */
size_t ll_log_credit_of_ring(uint64_t ring_bytes);
size_t ll_log_credit_most(const struct ll_log *);
/* The smallest ring in which a record of so many bytes (ll_record_bound), and so much credit, can
 * be had; it may be larger than rings can be (LL_LOG_RING_MAX). Neither is more than 2^60. */
uint64_t ll_log_ring_for(size_t record, size_t credit);

/* Debug builds: the credit is in the calling thread's hands, or rests. In hand it keeps the thread
 * from waiting for anything but pages (reserve.c). */
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

/* Makes sure the credit covers `bytes`; fast when it already does; it is in hand then. May wait for
 * the writer, or become the writer; so never under a page latch. LLADD_TOO_LARGE, LLADD_NO_SPACE,
 * LLADD_LOG_FULL (at the byte limit: retryable), or the poison. */
int ll_log_credit_slow(struct ll_log *, struct ll_credit *, size_t bytes, struct lladd_error *);
static inline int ll_log_credit(struct ll_log *log, struct ll_credit *c, size_t bytes,
                                struct lladd_error *err)
{
    if (LL_UNLIKELY(c->bytes < bytes))
        return ll_log_credit_slow(log, c, bytes, err);
    ll_log_credit_in_hand(c);
    return 0;
}
/* The same for what is owed: records that end what was begun, or after which log can be truncated.
 * The byte limit does not refuse them. They fit below it as long as they take no more than what is
 * kept from users; beyond that they go over it, by small segments, until truncation has given that
 * back. */
int ll_log_credit_owed(struct ll_log *, struct ll_credit *, size_t bytes, struct lladd_error *);
/* Gives back what is left. */
void ll_log_credit_return(struct ll_log *, struct ll_credit *);
/* Puts it down: the caller may wait again. Gives back what is left if so many credits are held that
 * they could starve others (cheap). */
void ll_log_credit_trim(struct ll_log *, struct ll_credit *);

/* Is it little enough that somebody may keep it who does not need it now? Nobody waits for it, but
 * who asks for more than there is on the disk does without it. */
bool ll_log_credit_may_rest(const struct ll_log *, struct ll_credit *);

/* Disk space for records that must be writable whatever happens (REC-3): after success, `bytes`
 * more of the log space in durable segments ahead are set aside. Waits like ll_log_credit. Records
 * that use such space are appended with credit got by ll_log_credit_reserved, which cannot fail for
 * want of space. */
int ll_log_undo_reserve(struct ll_log *, uint64_t bytes, struct lladd_error *);
/* The same for what is owed (ll_log_credit_owed). */
int ll_log_undo_reserve_owed(struct ll_log *, uint64_t bytes, struct lladd_error *);
/* The same for recovery, which must do with what the crash left: counts what is free in the current
 * segment as well. (A segment that was written to cannot be gone on with after the next crash,
 * LOG-1; so ll_log_undo_reserve counts untouched segments only, and repeated crashes use them up.)
 */
int ll_log_undo_reserve_recovery(struct ll_log *, uint64_t bytes, struct lladd_error *);
void ll_log_undo_release(struct ll_log *, uint64_t bytes);
int ll_log_credit_reserved(struct ll_log *, struct ll_credit *, size_t bytes, struct lladd_error *);

/* Takes an LSN and space for the record (kind, flags, op, depth, page, prevs, undo_next and span
 * lengths must be set; the spans' bytes may still change). Consumes credit, never waits, never
 * fails: the caller has the credit. Between reserve and publish the caller does nothing that can
 * fail or block. rec->lsn and rec->size are set; rec->txn is set to the LSN if it is 0 and
 * `starts` is true. */
void ll_log_reserve(struct ll_log *, struct ll_credit *, struct ll_record *rec, bool starts);
/* Copies the record into the reserved space, checksums it, makes it visible to the writer. */
void ll_log_publish(struct ll_log *, const struct ll_record *rec);

/* Both in one for a record of a transaction: fills in rec->txn and rec->prev, and moves the chain,
 * undo_next to the record itself or, if `undo_next` is not NULL, to that. */
void ll_log_append(struct ll_log *, struct ll_credit *, struct ll_record *rec, struct ll_chain *,
                   const lladd_lsn *undo_next);

/* The same for an update: gives its LSN, and in *size the bytes of LSN space it took. */
lladd_lsn ll_log_append_update(struct ll_log *, struct ll_credit *, const struct ll_update *,
                               struct ll_chain *, uint32_t *size);

/* ---- positions and forcing ---- */

lladd_lsn ll_log_tail(const struct ll_log *);     /* next LSN to be handed out (the frontier) */
/* After ll_log_scan: where the log ended. */
lladd_lsn ll_log_scan_end(const struct ll_log *);
lladd_lsn ll_log_durable(const struct ll_log *);  /* everything below is on the device */
/* Everything below is handed to the operating system. */
lladd_lsn ll_log_written(const struct ll_log *);
/* Waits until every record reserved before the call is published; very short. */
void ll_log_wait_published(struct ll_log *, lladd_lsn up_to);
/* Waits until the record at `lsn` is durable; the caller may become the group writer. One write and
 * one sync when alone. The poison if the log is poisoned, LLADD_BAD_ARGUMENT beyond the tail. */
int ll_log_force(struct ll_log *, lladd_lsn lsn, struct lladd_error *);
/* The same, up to "written" only: survives the process, not the machine. */
int ll_log_write(struct ll_log *, lladd_lsn lsn, struct lladd_error *);

/* What is reserved now shall become durable before long; does not wait. The log's thread sees to
 * it; false: there is none. */
bool ll_log_force_soon(struct ll_log *);

/* ---- reading ---- */

/* A reader with its own buffer; one thread at a time. Reads the ring where it still holds the
 * bytes, else the files. */
struct ll_log_cursor;
int ll_log_cursor_open(struct ll_log *, struct ll_log_cursor **out);
void ll_log_cursor_close(struct ll_log_cursor *);
/* Gets all the memory that reading records of up to so many bytes can need. */
int ll_log_cursor_prepare(struct ll_log_cursor *, size_t record_bytes);
/* Lets go of the files it has read, which cannot be used again before, and of the last record. */
void ll_log_cursor_rest(struct ll_log_cursor *);
/* The record at lsn; its spans live until the cursor's next call. LLADD_OUT_OF_RANGE (truncated or
 * beyond the published end), LLADD_CORRUPT_LOG, LLADD_READ_FAILED. Checksum verified. Sequential
 * reads forward are buffered in large chunks; a read backwards along a chain keeps recent chunks.
 */
int ll_log_cursor_read(struct ll_log_cursor *, lladd_lsn lsn, struct ll_record *,
                       struct lladd_error *);
/* The same for a record that must be there, for something that is kept names it: instead of
 * LLADD_OUT_OF_RANGE, LLADD_MISSING_FILE or LLADD_CORRUPT_LOG. */
int ll_log_cursor_need(struct ll_log_cursor *, lladd_lsn lsn, struct ll_record *,
                       struct lladd_error *);
/* The record after the last one read, across gaps left by cut tails; LLADD_END at the published
 * end. First call after open: give the position with read. */
int ll_log_cursor_next(struct ll_log_cursor *, struct ll_record *, struct lladd_error *);
/* Readers that share the work: of the records that change a page (UPDATE, CLR, IMAGE) each gets
 * those of its pages, all others fall to share 0. */
struct ll_log_share {
    uint32_t index, n; /* index < n */
};
bool ll_log_share_has(struct ll_log_share, const struct ll_record *);
#define LL_LOG_BATCH 32u
struct ll_log_batch {
    uint32_t n;
    uint64_t passed; /* records that the cursor went over, ours included */
    lladd_lsn end;   /* where the last of these ends */
    struct ll_record record[LL_LOG_BATCH];
};
/* Goes over some records, and hands out those of the share; `most` at most (up to LL_LOG_BATCH),
 * perhaps none. Their spans live until the cursor's next call. Like ll_log_cursor_next; but only
 * records that are handed out were verified, so what stands in damage is found by who has the share
 * it seems to fall to, or by who stumbles over its length. Whoever fails at the lowest LSN is
 * right. */
int ll_log_cursor_batch(struct ll_log_cursor *, struct ll_log_share, unsigned most,
                        struct ll_log_batch *out, struct lladd_error *);
/* First record boundary at or after lsn (lsn may be any position, also one in a gap). Damage before
 * that is passed over; a damaged record that is known to begin there is an error. */
int ll_log_cursor_seek(struct ll_log_cursor *, lladd_lsn lsn, struct ll_record *,
                       struct lladd_error *);
/* The same for who must not miss a record: damage that may hide one at or after lsn is an error.
 * Of the first records behind what was truncated, of which nobody knows where they begin, only
 * those can be told that are damaged and still say their own LSN. */
int ll_log_cursor_follow(struct ll_log_cursor *, lladd_lsn lsn, struct ll_record *,
                         struct lladd_error *);

/* ---- space ---- */

/* Segments that lie wholly below lsn may be recycled or removed. Never goes back. */
int ll_log_truncate(struct ll_log *, lladd_lsn lsn, struct lladd_error *);
lladd_lsn ll_log_oldest(struct ll_log *); /* first LSN that can still be read */
/* Is more than half of the byte limit in use? Then nothing is set aside that is not needed. */
bool ll_log_is_scarce(const struct ll_log *);
/* Would ll_log_truncate at lsn give up a segment, once that much is durable? */
bool ll_log_would_free(struct ll_log *, lladd_lsn lsn);
/* One step of background work (create and zero the next segment, remove recycled ones): for
 * callers without threads. *more is set if there is more to do. */
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

/* Decodes the record in bytes[0..len) at lsn: 0, LLADD_END if the place was never written
 * (zeros or stale bytes), LLADD_CORRUPT_LOG with what is wrong. Never reads outside. */
int ll_record_decode(const unsigned char *bytes, size_t len, lladd_lsn lsn, uint32_t salt,
                     struct ll_record *, struct lladd_error *);
/* The checksum salt of records: uuid and incarnation. */
uint32_t ll_record_salt(const unsigned char uuid[16], uint64_t incarnation);
const char *ll_record_kind_name(unsigned kind);

/* Does the LSN lie in a gap that a cut has left (LOG-2)? No record is there, nor will be. */
bool ll_log_lost(struct ll_log *, lladd_lsn);

/* A segment file. */
struct ll_log_file {
    char name[32];        /* below the database's directory */
    lladd_lsn first, end; /* the LSNs it stands for */
    lladd_lsn cut;        /* where the log before it ends */
    uint64_t incarnation;
    uint32_t size;        /* as its header says */
    bool in_use;          /* false: no part of the log, its file is kept to be used again */
    int code;             /* not 0: its header cannot be believed, `why` says why (static) */
    const char *why;
};
typedef int ll_log_file_fn(void *ctx, const struct ll_log_file *);
/* Every segment file, by first LSN, those that are not in use last; not 0 stops with that. */
int ll_log_file_each(struct ll_log *, ll_log_file_fn *, void *ctx, struct lladd_error *);

/* Does a record begin at ll_log_oldest? (Else the end of one that was truncated may stand there.)
 */
bool ll_log_begins_at_record(struct ll_log *);

/* Where the byte at an LSN lies. */
struct ll_log_place {
    char name[32];
    uint64_t offset;      /* in the file */
    lladd_lsn next_block; /* LSN of the first byte of the next block */
};
/* False if no file has it. */
bool ll_log_place(struct ll_log *, lladd_lsn, struct ll_log_place *);

#endif
