/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SHIP_SHIP_PRIVATE_H
#define SHIP_SHIP_PRIVATE_H
/* What the files of ship/ share: memory, text, the formats of the objects in a store
 * (docs/backup.md), and calls on a store. */
#include <lladd/extension.h>
#include <lladd/ship.h>

/* ---- memory.c ------------------------------------------------------------------------------- */

/* The allocator of the options, or malloc. */
struct ll_ship_mem {
    const struct lladd_allocator *allocator;
};
void *ll_ship_new(struct ll_ship_mem, size_t size); /* zeroed; NULL: out of memory */
void ll_ship_delete(struct ll_ship_mem, void *);    /* NULL does nothing */
/* A growing block of bytes. */
struct ll_ship_buf {
    struct ll_ship_mem mem;
    unsigned char *data;
    size_t len, cap;
};
/* Makes room for `len` more bytes and returns its place; NULL: out of memory. Does not change
 * `len`. */
void *ll_ship_room(struct ll_ship_buf *, size_t len);
int ll_ship_append(struct ll_ship_buf *, const void *, size_t len, struct lladd_error *);
int ll_ship_print(struct ll_ship_buf *, struct lladd_error *, const char *fmt, ...)
    LLADD_PRINTF(3, 4);
void ll_ship_buf_free(struct ll_ship_buf *);
int ll_ship_no_memory(struct lladd_error *);

/* Wall clock, monotonic clock and random bytes; `world` may be NULL or lack them. */
int64_t ll_ship_wall_us(const struct lladd_environment *world);
uint64_t ll_ship_now_ns(const struct lladd_environment *world);
int ll_ship_random(const struct lladd_environment *world, void *, size_t len, struct lladd_error *);

/* Copies the options of a caller over the defaults in *out, which has `size` bytes. `options` may
 * be NULL. It begins with a size_t, its size: a caller of an earlier version has a smaller
 * struct. */
void ll_ship_take_options(void *out, size_t size, const void *options);

/* Does the code say that an object cannot be used, since it is missing, damaged or foreign? */
static inline bool ll_ship_unusable(int code)
{
    return code == LLADD_NOT_FOUND || lladd_code_root(code) == LLADD_ROOT_DATA;
}

/* The error of a device's call that has returned the negative errno `rc`. */
int ll_ship_fail_io(struct lladd_error *, int rc, const char *what, const char *name);

/* Waits for the whole time: nothing wakes the thread earlier. */
int ll_ship_pause(uint64_t ns, struct lladd_error *);

/* The rate of a copy. ll_ship_pace waits until `bytes` more bytes may be copied. */
struct ll_ship_pace {
    uint64_t bytes_per_second, began_ns, passed;
    const struct lladd_environment *world;
};
int ll_ship_pace(struct ll_ship_pace *, uint64_t bytes, struct lladd_error *);

/* ---- crew.c --------------------------------------------------------------------------------- */

#define LL_SHIP_THREADS 256u /* most threads of a call */
/* Work that threads share. Each function gets the number of its thread, below the number of
 * threads. */
struct ll_ship_job {
    void *ctx;
    uint64_t tickets; /* the work is divided into tickets 0 to tickets - 1 */
    /* Called by several threads at the same time. */
    int (*make)(void *ctx, unsigned thread, uint64_t ticket, struct lladd_error *);
    /* Called for one ticket at a time, in their order, by the thread that has made the ticket. */
    int (*add)(void *ctx, unsigned thread, uint64_t ticket, struct lladd_error *);
    /* Called by the same thread afterwards, by several threads at the same time; nullable. */
    int (*after)(void *ctx, unsigned thread, struct lladd_error *);
};
/* Does the work in the calling thread and `threads` - 1 others. The first error stops all of them,
 * and is returned. */
int ll_ship_crew(const struct ll_ship_job *, unsigned threads, struct ll_ship_mem,
                 struct lladd_error *);
/* The number of threads that the options say. */
int ll_ship_threads(uint32_t wanted, unsigned *out, struct lladd_error *);

/* ---- objects.c ------------------------------------------------------------------------------ */

#define LL_SHIP_NAME_MAX 160u
#define LL_SHIP_OBJECT_MAX (64u << 20) /* maximum size of an object of pages or log, in bytes */
#define LL_SHIP_FRAME 16u              /* maximum number of pages of a frame */
#define LL_SHIP_FRAME_ENTRY 32u
#define LL_SHIP_PAGE_ENTRY 12u
#define LL_SHIP_PARTS_MAX 65536u

/* Puts an object. Returns 0, too, if the store has an object of this name with the same bytes: the
 * reply to an earlier put may have been lost. LLADD_EXISTS: that object has other bytes. */
int ll_ship_put(struct lladd_store *, struct ll_ship_mem, const char *name,
                const struct lladd_iovec *, int n, struct lladd_error *);
/* Appends a whole object to *out, where room for one more byte is left. LLADD_CORRUPT_BACKUP if the
 * object has more than `most` bytes. */
int ll_ship_get_all(struct lladd_store *, const char *name, uint64_t most, struct ll_ship_buf *out,
                    struct lladd_error *);
/* Appends the last line of a small text, its CRC. */
int ll_ship_text_end(struct ll_ship_buf *text, struct lladd_error *);
/* Reads a small text: `lines` lines, and a line with the CRC. Texts of earlier development versions
 * lack the line with the CRC. *out gets the text without this line, and then a NUL. */
int ll_ship_text_get(struct lladd_store *, const char *name, unsigned lines,
                     struct ll_ship_buf *out, struct lladd_error *);
/* Gets bytes of an object, as the store does. LLADD_OTHER_FILTER: the object was stored with a
 * filter, and the store has none. */
int ll_ship_get(struct lladd_store *, const char *name, uint64_t offset, void *out, size_t len,
                struct lladd_error *);
/* Number of bytes of an object's contents, or LLADD_NOT_FOUND. */
int ll_ship_size(struct lladd_store *, const char *name, uint64_t *out, struct lladd_error *);
/* Number of bytes that the object takes in the store, as `list` tells it; or LLADD_NOT_FOUND. It is
 * the size of the contents, unless ll_ship_has_sizes. */
int ll_ship_stored_size(struct lladd_store *, const char *name, uint64_t *out,
                        struct lladd_error *);
/* Has the store sizes of its own for the contents of objects, for example because of a filter? */
bool ll_ship_has_sizes(const struct lladd_store *);
/* May an object have this name? */
bool ll_ship_name_ok(const char *name);
int ll_ship_corrupt(struct lladd_error *, const char *name, const char *what);

/* Puts the object "archive", which says to which database the store belongs, or checks it if it
 * exists. LLADD_OTHER_DATABASE: the store belongs to another database. */
int ll_ship_claim_store(struct lladd_store *, struct ll_ship_mem, const unsigned char uuid[16],
                        uint32_t page_size, struct lladd_error *);
/* The uuid in the object "archive". */
int ll_ship_store_uuid(struct lladd_store *, unsigned char uuid[16], struct lladd_error *);

/* Reads the object "begun" of a backup. LLADD_NOT_FOUND; LLADD_CORRUPT_BACKUP. */
int ll_ship_begun_read(struct lladd_store *, struct ll_ship_mem, const char *base, uint64_t *from,
                       int64_t *begun_us, struct lladd_error *);

/* An object with a part of the log: the bytes of a segment's file from `offset` on. */
struct ll_ship_log_part {
    uint64_t first;        /* first LSN of the segment: its name */
    uint64_t segment_size; /* size of the segment's file, which has zeros after its last part */
    uint64_t offset, bytes;
    uint32_t crc;
};
/* An object with frames of pages. */
struct ll_ship_pages_part {
    uint64_t bytes;
    uint32_t crc;
};
/* The contents of a manifest. */
struct ll_ship_manifest {
    struct lladd_backup_info info;
    lladd_lsn redo;
    /* "pages.idx" has entries of frames, and then entries of pages. Backups of earlier versions
     * have no entries of pages: `page_entries` is 0. */
    uint64_t index_bytes, page_entries; /* bytes of the two parts of "pages.idx"; their CRCs */
    uint32_t index_crc, page_entries_crc, control_crc;
    bool heuristic;           /* the log has heuristic records */
    struct ll_ship_buf pages; /* struct ll_ship_pages_part */
    struct ll_ship_buf log;   /* struct ll_ship_log_part, in the order of LSNs */
};
void ll_ship_manifest_init(struct ll_ship_manifest *, struct ll_ship_mem);
void ll_ship_manifest_free(struct ll_ship_manifest *);
int ll_ship_manifest_write(const struct ll_ship_manifest *, struct ll_ship_buf *out,
                           struct lladd_error *);
/* Reads and checks a manifest. `name`: name of the object, which the manifest must fit. */
int ll_ship_manifest_read(struct ll_ship_manifest *, const char *name, const void *bytes,
                          size_t len, struct lladd_error *);
/* A backup with a manifest that is damaged, or of a newer version of the format. */
struct ll_ship_broken {
    char name[64];
    struct lladd_error why;
    uint32_t timeline; /* as in its name; UINT32_MAX: not known */
    uint64_t redo;     /* as in its name; 0: not known. Its end is above this LSN */
    int64_t begun_us;  /* INT64_MAX: not known */
};
/* Appends to `infos` each complete backup (struct lladd_backup_info), by the time of its end, and
 * to `broken` those that cannot be used (struct ll_ship_broken). */
int ll_ship_bases(struct lladd_store *, struct ll_ship_mem, struct ll_ship_buf *infos,
                  struct ll_ship_buf *broken, struct lladd_error *);
/* The broken backup that began last, if it began after the last one of `infos`: it may have ended
 * last. NULL: none did. */
const struct ll_ship_broken *ll_ship_broken_newest(const struct ll_ship_buf *infos,
                                                   const struct ll_ship_buf *broken);
/* Sets the error of the backup's manifest, and returns its code. */
int ll_ship_broken_fail(const struct ll_ship_broken *, struct lladd_error *);
/* Finds the backup that ended last or, if `base` is not NULL, the backup of this name. Reads its
 * manifest. LLADD_CORRUPT_BACKUP: the manifest is damaged, or that of another backup that may have
 * ended later. */
int ll_ship_manifest_find(struct lladd_store *, const char *base, struct ll_ship_manifest *,
                          struct lladd_error *);
static inline size_t ll_ship_pages_parts(const struct ll_ship_manifest *m)
{
    return m->pages.len / sizeof(struct ll_ship_pages_part);
}
static inline size_t ll_ship_log_parts(const struct ll_ship_manifest *m)
{
    return m->log.len / sizeof(struct ll_ship_log_part);
}
static inline struct ll_ship_log_part *ll_ship_log_part(const struct ll_ship_manifest *m, size_t i)
{
    return (struct ll_ship_log_part *)(void *)m->log.data + i;
}
static inline struct ll_ship_pages_part *ll_ship_pages_part(const struct ll_ship_manifest *m,
                                                            size_t i)
{
    return (struct ll_ship_pages_part *)(void *)m->pages.data + i;
}
/* Names of the objects of a base: "base/<name>/<what>". */
void ll_ship_base_name(const char *base, const char *what, char out[LL_SHIP_NAME_MAX]);
void ll_ship_pages_name(const char *base, size_t part, char out[LL_SHIP_NAME_MAX]);
void ll_ship_log_name(const char *base, const struct ll_ship_log_part *,
                      char out[LL_SHIP_NAME_MAX]);

/* A frame: up to 16 pages that follow each other. They are compressed with LZ4, or plain if
 * compression does not make them smaller. A later frame replaces pages of earlier ones. */
struct ll_ship_frame {
    uint64_t first;
    uint32_t n;      /* pages */
    uint32_t part;   /* the frame is in the object pages.<part> */
    uint32_t offset; /* place in the object */
    uint32_t bytes;  /* size of the frame as stored */
    uint32_t crc;    /* CRC of the bytes as stored */
};
void ll_ship_frame_encode(const struct ll_ship_frame *, unsigned char out[LL_SHIP_FRAME_ENTRY]);
void ll_ship_frame_decode(const unsigned char in[LL_SHIP_FRAME_ENTRY], struct ll_ship_frame *);

/* ---- base_index.c --------------------------------------------------------------------------- */

/* Appends the entries of the frames. */
int ll_ship_base_frames(struct lladd_store *, const struct ll_ship_manifest *,
                        struct ll_ship_buf *out, struct lladd_error *);
/* Called for a page of a backup. `lsn` 0: the page has no header with a right checksum, for example
 * because the page is raw. `crc`: CRC of the page's bytes. If the function does not return 0,
 * ll_ship_base_pages stops and returns that value. */
typedef int ll_ship_base_page_fn(void *ctx, uint64_t page, uint64_t lsn, uint32_t crc);
/* Calls fn for each page of the backup that was ever written. The arguments come from "pages.idx",
 * or from the frames if the backup is of an earlier version. A page may come several times; the
 * last time counts. LLADD_CORRUPT_BACKUP: the arguments may have been wrong. */
int ll_ship_base_pages(struct lladd_store *, const struct ll_ship_manifest *,
                       ll_ship_base_page_fn *, void *ctx, struct lladd_error *);
/* Checks the entries of pages, which no other call of a restore reads. */
int ll_ship_base_check(struct lladd_store *, const struct ll_ship_manifest *, struct lladd_error *);
void ll_ship_page_entry_encode(uint64_t lsn, uint32_t crc, unsigned char out[LL_SHIP_PAGE_ENTRY]);

/* ---- files of a database (docs/disk-format.md) ---------------------------------------------- */

/* Kinds of log records. */
enum ll_ship_record_kind {
    LL_SHIP_REC_UPDATE = 1,
    LL_SHIP_REC_CLR = 2,
    LL_SHIP_REC_COMMIT = 6,
    LL_SHIP_REC_END = 7,
    LL_SHIP_REC_PREPARE = 8,
    LL_SHIP_REC_IMAGE = 10,
    LL_SHIP_REC_CHECKPOINT_DATA = 15,
    LL_SHIP_REC_CHECKPOINT_END = 16,
    LL_SHIP_REC_SEAL = 17,
    LL_SHIP_REC_REDO_BARRIER = 18,
    LL_SHIP_REC_PIN = 19,
    LL_SHIP_REC_HEURISTIC = 20,
    LL_SHIP_REC_NOTE = 22
};

#define LL_SHIP_CONTROL 256u
#define LL_SHIP_CONTROL_COPY 4096u
#define LL_SHIP_CONTROL_FILE (2u * LL_SHIP_CONTROL_COPY + 64u)
#define LL_SHIP_DWB_PAGES 17u
#define LL_SHIP_BLOCK_HEADER 64u

/* Reads the newer valid copy of a database's control block. */
int ll_ship_control_read(struct lladd_device *, unsigned char out[LL_SHIP_CONTROL],
                         struct lladd_error *);
bool ll_ship_control_ok(const unsigned char control[LL_SHIP_CONTROL]);
uint64_t ll_ship_control_redo(const unsigned char control[LL_SHIP_CONTROL]);
uint64_t ll_ship_control_checkpoint(const unsigned char control[LL_SHIP_CONTROL]);
/* The log was durable up to this LSN when the block was written. */
uint64_t ll_ship_control_watermark(const unsigned char control[LL_SHIP_CONTROL]);
/* The database was closed cleanly. */
bool ll_ship_control_clean(const unsigned char control[LL_SHIP_CONTROL]);
void ll_ship_control_uuid(const unsigned char control[LL_SHIP_CONTROL], unsigned char out[16]);
uint32_t ll_ship_control_page_size(const unsigned char control[LL_SHIP_CONTROL]);
uint32_t ll_ship_control_timeline(const unsigned char control[LL_SHIP_CONTROL]);
/* Changes the control block to the block of a copy that was not closed cleanly and is on this
 * timeline. `heuristic`: the log of the copy has heuristic records. */
void ll_ship_control_copy(unsigned char control[LL_SHIP_CONTROL], uint32_t timeline,
                          bool heuristic);
/* Does the same for a database that goes on with another timeline: the block becomes the next block
 * of the database. */
void ll_ship_control_fork(unsigned char control[LL_SHIP_CONTROL], uint32_t timeline);
/* Changes where recovery begins: at a checkpoint that is complete in the log, in a segment with
 * this incarnation. The CRC is wrong afterwards; ll_ship_control_copy makes it right. */
void ll_ship_control_at(unsigned char control[LL_SHIP_CONTROL], uint64_t checkpoint, uint64_t redo,
                        uint64_t watermark, uint64_t incarnation);
/* Does the page have the right checksum and number, or only zeros? */
bool ll_ship_page_ok(const unsigned char uuid[16], uint64_t number, const unsigned char *page,
                     uint32_t size);
static inline uint64_t ll_ship_round_up(uint64_t v, uint64_t to)
{
    return (v + to - 1) / to * to;
}

/* ---- segment.c: the log's files (docs/disk-format.md) --------------------------------------- */

/* The fields of a segment's header. */
struct ll_ship_segment {
    uint64_t first, cut, size, block, incarnation, uuid_hash;
    uint64_t start; /* LSN of the first record that begins in it; 0: the header does not say */
};
/* Decodes the header of the segment named `first`. Returns NULL, or a text that says what is
 * wrong. */
const char *ll_ship_segment_head(const unsigned char header[LL_SHIP_BLOCK_HEADER], uint64_t first,
                                 struct ll_ship_segment *out);
/* The LSN after the last one for which the segment has room. */
uint64_t ll_ship_segment_end(const struct ll_ship_segment *);
/* Offset in the segment's file at which the payload below the LSN ends. */
uint64_t ll_ship_segment_offset(const struct ll_ship_segment *, uint64_t lsn);
/* Copies the payload [lsn, lsn+len) out of the file's bytes, which begin at offset `skip`. */
void ll_ship_segment_payload(const struct ll_ship_segment *, const unsigned char *bytes,
                             uint64_t skip, uint64_t lsn, uint64_t len, unsigned char *out);

struct ll_ship_record {
    uint64_t lsn, end, txn;
    uint64_t page; /* LLADD_NO_PAGE: none */
    unsigned kind, flags;
    struct lladd_span redo;
};
typedef int ll_ship_record_fn(void *ctx, const struct ll_ship_record *, struct lladd_error *);
/* A walk over the records that begin in a segment, in the order of LSNs. Checks the header of each
 * block below `stop`, and each record. */
struct ll_ship_walk {
    struct ll_ship_segment seg;
    const unsigned char *bytes; /* bytes of the file from `skip` on, up to those of `stop`; up to
                                   the end of the file if `stop` is 0 */
    uint64_t skip;              /* offset in the file; a multiple of the block size */
    unsigned char uuid[16];
    uint64_t start; /* LSN of the first record; `stop` or above: no record begins here */
    uint64_t stop;  /* LSN at which the log in the segment ends. 0: it ends where only zeros
                       follow, and the walk sets `stop` */
    const unsigned char *after; /* the payload after `stop`, as far as the last record needs it */
    uint64_t after_len;
    ll_ship_record_fn *fn;
    void *ctx;
    const char *name; /* for messages */
    int code;         /* error code for damage */
    /* set by the walk */
    uint64_t next;       /* LSN after the last record that begins in the segment */
    uint64_t partial_at; /* LSN of the last record if it goes on after the segment, and `after`
                            lacks its rest; 0: no such record */
    struct ll_ship_buf scratch;
};
int ll_ship_walk(struct ll_ship_walk *, struct lladd_error *);
/* Visits the record at `partial_at`, for which the caller has put `next` - `stop` bytes into
 * `after`. Does nothing if there is no such record, or if `after` lacks bytes. */
int ll_ship_walk_rest(struct ll_ship_walk *, struct lladd_error *);
/* Finds the first record that begins in the segment, by the LSN in the record and its checksum, and
 * sets `start`. Call it if neither the header nor the segment before says where the record is.
 * False: no record begins in the segment. */
bool ll_ship_find_record(struct ll_ship_walk *);

/* Appends the segments (struct ll_ship_segment) of the log from `from` to `end`, the highest first.
 * A segment that begins at `end` is included. The cut of a segment says which segment precedes it.
 * The last segment that is appended begins at or below `from`, or its cut is at or below `from`. */
int ll_ship_segments(struct lladd_device *, uint64_t from, uint64_t end, struct ll_ship_buf *out,
                     struct lladd_error *);
/* Reads the header of a segment. */
int ll_ship_segment_get(struct lladd_device *, uint64_t first, struct ll_ship_segment *out,
                        struct lladd_error *);
int ll_ship_segment_open(struct lladd_device *, uint64_t first, struct lladd_file **out,
                         struct lladd_error *);
int ll_ship_segment_read(struct lladd_device *, struct lladd_file *, uint64_t first,
                         uint64_t offset, void *out, uint64_t len, struct lladd_error *);
int ll_ship_segment_fail(uint64_t first, const char *what, struct lladd_error *);

/* ---- index.c: the index of an archived segment ---------------------------------------------- */

#define LL_SHIP_MARK_NAME 65u
/* A mark says that the log below `end` existed at `time_us`. */
struct ll_ship_mark {
    lladd_lsn lsn; /* LSN of the record with the note */
    /* A named mark: the LSN after the record. A time mark: the end of the durable log before the
     * clock was read, so that all commits below it were made at `time_us` or before. */
    lladd_lsn end;
    int64_t time_us;
    char name[LL_SHIP_MARK_NAME]; /* "": a time mark */
};
/* A transaction that has logged redo barriers, and that has a commit or prepare record in the
 * segment. The transaction may have written pages in bulk. */
struct ll_ship_index_bulk {
    uint64_t txn;
    lladd_lsn lsn; /* LSN of its commit or prepare record */
};
enum { LL_SHIP_PAGE_BASE = 1, LL_SHIP_PAGE_BULK = 2 };
/* A page that has records in the segment. */
struct ll_ship_index_page {
    uint64_t page;
    uint32_t flags; /* LL_SHIP_PAGE_BASE: the page's first record in the segment is an image or
                       formats the page. LL_SHIP_PAGE_BULK: the page was written in bulk (unused in
                       this version) */
    uint32_t crc;   /* of a page written in bulk */
    uint64_t first; /* LSN of the page's first record in the segment; of a page written in bulk, of
                       the barrier */
    uint64_t last;  /* LSN of the page's last record in the segment */
};
struct ll_ship_index {
    unsigned char uuid[16];
    uint32_t timeline;
    lladd_lsn first, end, cut; /* of the segment, as its header says */
    lladd_lsn stop;            /* the segment's log ends here: `end`, or the next segment's cut */
    /* LSN of the first record that begins in the segment; end of the last record that begins in
     * it. */
    lladd_lsn start, next;
    struct ll_ship_buf marks; /* struct ll_ship_mark */
    struct ll_ship_buf bulk;  /* struct ll_ship_index_bulk */
    struct ll_ship_buf open;  /* uint64_t: transactions with redo barriers in this segment or
                                 before it that have neither ended nor prepared at its end */
    struct ll_ship_buf pages; /* struct ll_ship_index_page, sorted */
    /* uint64_t: transactions with redo barriers that were rolled back in the segment. Set by
     * ll_ship_index_make, and not stored. */
    struct ll_ship_buf ended;
};
#define LL_SHIP_MARK_MAX (24u + LL_SHIP_MARK_NAME)
/* Writes the bytes of a mark's note, and returns their number. `end` 0: the mark is where its
 * record ends. */
size_t ll_ship_mark_encode(const char *name, lladd_lsn end, int64_t time_us,
                           unsigned char out[LL_SHIP_MARK_MAX]);
/* Is the note a mark? `note`: the note's bytes. */
bool ll_ship_mark_is(struct lladd_span note);
void ll_ship_index_init(struct ll_ship_index *, struct ll_ship_mem);
void ll_ship_index_free(struct ll_ship_index *);
/* Makes the index of the walk's segment, except for a last record that goes on after the segment.
 * `open`: `open` of the index of the segment before; NULL: no transaction. */
int ll_ship_index_make(struct ll_ship_index *, struct ll_ship_walk *, uint32_t timeline,
                       const struct ll_ship_buf *open, struct lladd_error *);
/* Completes the index, with the record at `partial_at` if the walk has all of its bytes. */
int ll_ship_index_finish(struct ll_ship_index *, struct ll_ship_walk *, struct lladd_error *);
int ll_ship_index_encode(const struct ll_ship_index *, struct ll_ship_buf *out,
                         struct lladd_error *);
int ll_ship_index_decode(struct ll_ship_index *, struct ll_ship_mem, const char *name, const void *,
                         size_t, struct lladd_error *);
/* Reads the index of a segment from the store. LLADD_NOT_FOUND; LLADD_CORRUPT_BACKUP. */
int ll_ship_index_read(struct lladd_store *, struct ll_ship_mem, uint32_t timeline, lladd_lsn first,
                       struct ll_ship_index *, struct lladd_error *);
/* Reads the index of a segment, or makes it again from the segment if it is missing or damaged.
 * LLADD_NOT_FOUND: the store has no such segment. */
int ll_ship_index_load(struct lladd_store *, struct ll_ship_mem, uint32_t timeline, lladd_lsn first,
                       struct ll_ship_index *, struct lladd_error *);
void ll_ship_seg_name(uint32_t timeline, uint64_t first, char out[LL_SHIP_NAME_MAX]);
void ll_ship_idx_name(uint32_t timeline, uint64_t first, char out[LL_SHIP_NAME_MAX]);
/* Appends the first LSN (uint64_t) of each segment that the store has as a whole, sorted. */
int ll_ship_archived(struct lladd_store *, uint32_t timeline, struct ll_ship_buf *out,
                     struct lladd_error *);

/* ---- claim.c: which copy of a database archives --------------------------------------------- */

enum { LL_SHIP_CLAIM = 16 };
struct ll_ship_claim {
    uint64_t n; /* the object is claim.<n>; 0: there is no claim */
    unsigned char bytes[LL_SHIP_CLAIM];
};
/* Claims the timeline for the database on the device. LLADD_DIVERGED: another copy of the database
 * has put the last claim in the store. */
int ll_ship_claim(struct lladd_store *, struct ll_ship_mem, const struct lladd_environment *,
                  struct lladd_device *, uint32_t timeline, struct ll_ship_claim *out,
                  struct lladd_error *);
/* Reads the last claim in the store, and puts no claim. LLADD_DIVERGED: another copy of the
 * database has put the last claim. */
int ll_ship_claim_own(struct lladd_store *, struct lladd_device *, uint32_t timeline,
                      struct ll_ship_claim *out, struct lladd_error *);
/* Reads the last claim of the timeline. LLADD_CORRUPT_BACKUP: it is damaged. */
int ll_ship_claim_read(struct lladd_store *, uint32_t timeline, struct lladd_error *);
/* LLADD_DIVERGED: another copy has claimed the timeline after this claim. */
int ll_ship_claim_check(struct lladd_store *, uint32_t timeline, const struct ll_ship_claim *,
                        struct lladd_error *);
/* Deletes the claim of the database on the device, if there is one. */
int ll_ship_claim_forget(struct lladd_device *, struct lladd_error *);
/* Replaces a small file in "files/ship" of a database, durably; or deletes it, if it exists. */
int ll_ship_file_replace(struct lladd_device *, const char *name, const void *bytes, size_t len,
                         struct lladd_error *);
int ll_ship_file_remove(struct lladd_device *, const char *name, struct lladd_error *);

/* ---- timeline.c ----------------------------------------------------------------------------- */

/* Writes the text of the object "history" of a timeline that leaves `parent` at the LSN `fork`.
 * `why`: one word. The text has a random id, so two texts differ. */
int ll_ship_history(struct ll_ship_buf *text, uint32_t parent, uint64_t fork, const char *why,
                    const struct lladd_environment *, struct lladd_error *);
/* The highest number that the store has given to a timeline; at least `least`. */
int ll_ship_timelines(struct lladd_store *, uint32_t least, uint32_t *out, struct lladd_error *);
/* Gives the number to the timeline with this history. LLADD_EXISTS: another one has it. */
int ll_ship_timeline_put(struct lladd_store *, struct ll_ship_mem, uint32_t timeline,
                         const struct ll_ship_buf *text, struct lladd_error *);

/* ---- blk.c: pages that a transaction has written in bulk ------------------------------------ */

#define LL_SHIP_BLK_HEADER 48u
#define LL_SHIP_BLK_PIECE 32u

/* A part of a spool that is read from memory. */
struct ll_ship_blk {
    unsigned char uuid[16];
    uint32_t timeline, page_size;
    uint64_t txn;
    uint32_t part;
    const char *name; /* for messages */
    const unsigned char *bytes;
    size_t len, at;
    uint64_t pages;   /* number of pages in the pieces that were read */
    bool ended, last; /* `ended`: all pieces were read; `last`: no part follows */
};
/* Pages under one redo barrier, as they are in the page file. */
struct ll_ship_blk_piece {
    uint64_t barrier, page;
    uint32_t n;
    bool typed; /* the pages have headers; false: raw pages */
    const unsigned char *bytes;
};
/* The name of the object: "t<timeline>/bulk/<transaction>.<part>.blk". */
void ll_ship_blk_name(uint32_t timeline, uint64_t txn, uint32_t part, char out[LL_SHIP_NAME_MAX]);
/* The header of the part with the uuid, timeline, page_size, txn and part of `b`. */
void ll_ship_blk_header(const struct ll_ship_blk *b, unsigned char out[LL_SHIP_BLK_HEADER]);
/* Encodes the head of a piece, which precedes its pages; and the last piece of a part, which has no
 * pages. `pages`: number of pages in the part. `last`: no part follows. */
void ll_ship_blk_piece(const struct ll_ship_blk_piece *, uint32_t page_size,
                       unsigned char out[LL_SHIP_BLK_PIECE]);
void ll_ship_blk_end(uint64_t pages, bool last, unsigned char out[LL_SHIP_BLK_PIECE]);
/* Reads and checks the header of a part. LLADD_CORRUPT_BACKUP: the header is damaged. */
int ll_ship_blk_begin(struct ll_ship_blk *, const char *name, const void *bytes, size_t len,
                      struct lladd_error *);
/* Does what ll_ship_blk_begin does. Also compares the uuid, page_size, txn and part with those of
 * `want`. LLADD_FOREIGN_FILE: the uuid is another one. */
int ll_ship_blk_open(struct ll_ship_blk *, const char *name, const struct ll_ship_buf *bytes,
                     const struct ll_ship_blk *want, struct lladd_error *);
/* Decodes the head of a piece. *last: the piece has no pages, and no part follows. False: the bytes
 * are damaged. */
bool ll_ship_blk_head(const unsigned char in[LL_SHIP_BLK_PIECE], struct ll_ship_blk_piece *,
                      uint32_t *pages_crc, bool *last);
/* The next piece. LLADD_END after the last one: `at` is then the length of the part.
 * LLADD_CORRUPT_BACKUP. */
int ll_ship_blk_next(struct ll_ship_blk *, struct ll_ship_blk_piece *, struct lladd_error *);

/* ---- spool.c -------------------------------------------------------------------------------- */

/* The spools of an open database. An extension opens them in `attach`, closes them in `detach`,
 * calls ll_ship_spool_write in `bulk_written`, and has ll_ship_spool_participant among its
 * participants. Any number of threads may call ll_ship_spool_write. One thread at a time may call
 * the functions that are declared after it, except where a comment says otherwise. */
struct ll_ship_spool;
extern const struct lladd_participant ll_ship_spool_participant;
int ll_ship_spool_open(struct lladd_db *, struct ll_ship_mem, uint32_t timeline,
                       struct ll_ship_spool **, struct lladd_error *);
/* The spools of a database that no process has open; they are only read. */
int ll_ship_spool_look(struct lladd_device *, struct ll_ship_mem, const unsigned char uuid[16],
                       uint32_t page_size, struct ll_ship_spool **, struct lladd_error *);
/* Sets the timeline of spools that are written from now on. Call it before the first write. */
void ll_ship_spool_timeline(struct ll_ship_spool *, uint32_t timeline);
void ll_ship_spool_close(struct ll_ship_spool *);
/* If it fails, it sets the error of the transaction. */
int ll_ship_spool_write(struct ll_ship_spool *, struct lladd_txn *, lladd_lsn barrier,
                        lladd_pageno first, uint64_t n, bool typed, const void *bytes);
/* Reads a part whole, and checks it. LLADD_NOT_FOUND: there is no such part; LLADD_CORRUPT_BACKUP.
 * Call it for a transaction that has a commit or prepare record. */
int ll_ship_spool_read(struct ll_ship_spool *, uint64_t txn, uint32_t part, struct ll_ship_buf *out,
                       bool *last, struct lladd_error *);
/* Reads bytes of a part, also of a transaction that has not ended. LLADD_NOT_FOUND: there is no
 * such part; LLADD_CORRUPT_BACKUP: it has fewer bytes. Any thread. */
int ll_ship_spool_get(struct ll_ship_spool *, uint64_t txn, uint32_t part, uint64_t at, void *out,
                      size_t len, struct lladd_error *);
/* Does the transaction have files? */
bool ll_ship_spool_has(struct ll_ship_spool *, uint64_t txn);
/* Deletes the transaction's spool, durably. 0 if there is none. */
int ll_ship_spool_free(struct ll_ship_spool *, uint64_t txn, struct lladd_error *);
/* Bytes of all spools that were not freed. Any thread. */
uint64_t ll_ship_spool_bytes(struct ll_ship_spool *);
/* `live`: the transaction has not ended in this run. If the function does not return 0, `each`
 * stops and returns that value. */
typedef int ll_ship_spool_fn(void *ctx, uint64_t txn, bool live);
int ll_ship_spool_each(struct ll_ship_spool *, ll_ship_spool_fn *, void *ctx, struct lladd_error *);

/* ---- store_locked.c ------------------------------------------------------------------------- */

/* A store that several threads may use. `close` does not close the store inside. */
int ll_ship_store_lock(struct lladd_store *inside, struct ll_ship_mem, struct lladd_store **out,
                       struct lladd_error *);
/* Makes such a store if there are several threads, and `*store` is none yet. Returns it in
 * `*store`, and in `*made`, which the caller closes; `*made` is NULL if none was made. */
int ll_ship_store_share(struct lladd_store **store, unsigned threads, struct ll_ship_mem,
                        struct lladd_store **made, struct lladd_error *);

/* ---- store_filter.c ------------------------------------------------------------------------- */

/* Makes a store with a filter. It owns `inside`, and its `close` closes it. */
int ll_ship_filter_open(struct lladd_store *inside, const struct lladd_store_filter *,
                        struct ll_ship_mem, struct lladd_store **out, struct lladd_error *);
/* LLADD_OTHER_FILTER: the object was stored with a filter, and the store has none. 0 also if that
 * cannot be seen. */
int ll_ship_unfiltered(struct lladd_store *, const char *name, struct lladd_error *);

/* ---- store_dir.c ---------------------------------------------------------------------------- */

/* The operating system's calls with which a directory store writes. A test can make each fail. */
struct ll_ship_calls {
    void *ctx;
    int (*open_new)(void *ctx, const char *path, uint32_t mode); /* a descriptor, or -1 and errno */
    int64_t (*write)(void *ctx, int fd, const void *, size_t len);
    int (*sync)(void *ctx, int fd);
    int (*links)(void *ctx, int fd, uint64_t *out); /* the number of names of the file */
    int (*link)(void *ctx, const char *from, const char *to);
    int (*rename_new)(void *ctx, const char *from, const char *to); /* -EEXIST if `to` exists */
    int (*unlink)(void *ctx, const char *path);
    int (*mkdir)(void *ctx, const char *path, uint32_t mode);
    int (*sync_dir)(void *ctx, const char *path);
};
extern const struct ll_ship_calls ll_ship_posix;
int ll_ship_dir_open(const char *path, const struct lladd_store_options *,
                     const struct ll_ship_calls *, struct lladd_store **out, struct lladd_error *);

/* ---- s3/ ------------------------------------------------------------------------------------ */

/* `where`: the URL after "s3://". */
int ll_ship_s3_open(const char *where, const struct lladd_store_options *, struct lladd_store **out,
                    struct lladd_error *);

/* ---- store_device.c ------------------------------------------------------------------------- */

/* Sets the timeline of the control block that the device shows. */
void ll_ship_device_timeline(struct lladd_device *, uint32_t timeline);
/* Checks what the backup has besides what the device shows. */
int ll_ship_device_check(struct lladd_device *, struct lladd_error *);
/* A reader of the file "pages" for one thread: several threads read at the same time, if the
 * device's store is one that several threads may use (ll_ship_store_share). Close it before the
 * device; NULL does nothing. */
struct ll_ship_reader;
int ll_ship_reader_open(struct lladd_device *, struct ll_ship_reader **out, struct lladd_error *);
void ll_ship_reader_close(struct lladd_device *, struct ll_ship_reader *);
/* Reads bytes [at, at+len), which the file has. The reader reads little beyond them. */
int ll_ship_reader_get(struct lladd_device *, struct ll_ship_reader *, uint64_t at, void *out,
                       size_t len, struct lladd_error *);
/* The log that the device shows. No thread may read the device while the log is scanned. */
struct ll_ship_image;
struct ll_ship_image *ll_ship_device_log(struct lladd_device *);
#endif
