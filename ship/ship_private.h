/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SHIP_SHIP_PRIVATE_H
#define SHIP_SHIP_PRIVATE_H
/* What the files of ship/ share: memory, text, the formats of the objects in a store
 * (docs/backup.md), and calls on a store. */
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

/* The error of a device's call that has returned the negative errno `rc`. */
int ll_ship_fail_io(struct lladd_error *, int rc, const char *what, const char *name);

/* Keeps a rate: waits until `bytes` more may pass. */
struct ll_ship_pace {
    uint64_t bytes_per_second, began_ns, passed;
    const struct lladd_environment *world;
};
int ll_ship_pace(struct ll_ship_pace *, uint64_t bytes, struct lladd_error *);

/* ---- objects.c ------------------------------------------------------------------------------ */

#define LL_SHIP_NAME_MAX 160u
#define LL_SHIP_OBJECT_MAX (64u << 20) /* most bytes of an object of pages or log */
#define LL_SHIP_FRAME 16u              /* most pages of a frame */
#define LL_SHIP_FRAME_ENTRY 32u
#define LL_SHIP_PARTS_MAX 65536u

/* Puts an object. If the name is taken and the object there has the same bytes, the reply to an
 * earlier put was lost: returns 0. If it has other bytes, returns LLADD_EXISTS. */
int ll_ship_put(struct lladd_store *, struct ll_ship_mem, const char *name,
                const struct lladd_iovec *, int n, struct lladd_error *);
/* Reads a whole object that has at most `most` bytes. */
int ll_ship_get_all(struct lladd_store *, const char *name, uint64_t most, struct ll_ship_buf *out,
                    struct lladd_error *);
/* Size of an object, or LLADD_NOT_FOUND. */
int ll_ship_size(struct lladd_store *, const char *name, uint64_t *out, struct lladd_error *);
/* May an object have this name? */
bool ll_ship_name_ok(const char *name);
int ll_ship_corrupt(struct lladd_error *, const char *name, const char *what);

/* The object "archive": to which database a store belongs. */
int ll_ship_claim_store(struct lladd_store *, struct ll_ship_mem, const unsigned char uuid[16],
                        uint32_t page_size, struct lladd_error *);

/* An object with a part of the log: the bytes of a segment's file from `offset` on. */
struct ll_ship_log_part {
    uint64_t first;        /* first LSN of the segment: its name */
    uint64_t segment_size; /* bytes of the segment's file; zeros from the last part's end on */
    uint64_t offset, bytes;
    uint32_t crc;
};
/* An object with frames of pages. */
struct ll_ship_pages_part {
    uint64_t bytes;
    uint32_t crc;
};
/* A manifest, and what it is made of. */
struct ll_ship_manifest {
    struct lladd_backup_info info;
    lladd_lsn redo;
    uint64_t index_bytes;
    uint32_t index_crc, control_crc;
    bool heuristic;           /* the log has heuristic records */
    struct ll_ship_buf pages; /* struct ll_ship_pages_part */
    struct ll_ship_buf log;   /* struct ll_ship_log_part, in the order of LSNs */
};
void ll_ship_manifest_init(struct ll_ship_manifest *, struct ll_ship_mem);
void ll_ship_manifest_free(struct ll_ship_manifest *);
int ll_ship_manifest_write(const struct ll_ship_manifest *, struct ll_ship_buf *out,
                           struct lladd_error *);
/* Reads and checks a manifest. `name`: that of the object, for messages. */
int ll_ship_manifest_read(struct ll_ship_manifest *, const char *name, const void *bytes,
                          size_t len, struct lladd_error *);
/* Finds the newest complete backup, or the one named `base`, and reads its manifest. */
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

/* A frame: up to 16 pages that follow each other, compressed with LZ4, or plain if that is no
 * smaller. A later frame replaces pages of earlier ones. */
struct ll_ship_frame {
    uint64_t first;
    uint32_t n;      /* pages */
    uint32_t part;   /* number of the object */
    uint32_t offset; /* in the object */
    uint32_t bytes;  /* as stored */
    uint32_t crc;    /* of the bytes as stored */
};
void ll_ship_frame_encode(const struct ll_ship_frame *, unsigned char out[LL_SHIP_FRAME_ENTRY]);
void ll_ship_frame_decode(const unsigned char in[LL_SHIP_FRAME_ENTRY], struct ll_ship_frame *);

/* ---- files of a database (docs/disk-format.md) ---------------------------------------------- */

#define LL_SHIP_CONTROL 256u
#define LL_SHIP_CONTROL_COPY 4096u
#define LL_SHIP_CONTROL_FILE (2u * LL_SHIP_CONTROL_COPY + 64u)
#define LL_SHIP_DWB_PAGES 17u
#define LL_SHIP_BLOCK_HEADER 64u

bool ll_ship_control_ok(const unsigned char control[LL_SHIP_CONTROL]);
uint64_t ll_ship_control_redo(const unsigned char control[LL_SHIP_CONTROL]);
uint64_t ll_ship_control_checkpoint(const unsigned char control[LL_SHIP_CONTROL]);
uint32_t ll_ship_control_timeline(const unsigned char control[LL_SHIP_CONTROL]);
/* Changes the control block to that of a copy: not closed cleanly, on this timeline. */
void ll_ship_control_copy(unsigned char control[LL_SHIP_CONTROL], uint32_t timeline,
                          bool heuristic);
/* Is the page what its header says, or zeros? */
bool ll_ship_page_ok(const unsigned char uuid[16], uint64_t number, const unsigned char *page,
                     uint32_t size);
static inline uint64_t ll_ship_round_up(uint64_t v, uint64_t to)
{
    return (v + to - 1) / to * to;
}

/* ---- store_dir.c ---------------------------------------------------------------------------- */

/* The operating system's calls by which a directory store writes, so that a test can fail each. */
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

/* ---- store_device.c ------------------------------------------------------------------------- */

/* Sets the timeline of the control block that the device shows. */
void ll_ship_device_timeline(struct lladd_device *, uint32_t timeline);
const struct ll_ship_manifest *ll_ship_device_manifest(struct lladd_device *);
#endif
