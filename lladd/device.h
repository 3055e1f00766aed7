/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_DEVICE_H
#define LLADD_DEVICE_H
/**
 * @file
 * @brief The world below the library: files, allocation, time, chance, named points.
 *
 * All input and output goes through one `struct lladd_device`. The library brings two (POSIX
 * files, memory); the simulator is another. Every function returns 0 (or a byte count) or a
 * *negative errno value*; nothing else is used to report failure. Names are relative to the
 * database directory, with '/' between components; an empty component, "." or ".." and a leading
 * or trailing '/' are refused with -EINVAL.
 *
 * Threads: a device must allow concurrent calls, also on one file, apart from `close`.
 * @ingroup io
 */
#include <lladd/error.h>
#include <lladd/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lladd_device;
struct lladd_file; /* the device's own */

enum {
    LLADD_OPEN_CREATE = 1,    /**< create if absent */
    LLADD_OPEN_EXCLUSIVE = 2, /**< with CREATE: fail with -EEXIST if present */
    LLADD_OPEN_READ_ONLY = 4
};

/** One piece of a gathered write. */
struct lladd_iovec {
    const void *data;
    size_t len;
};

/** Called by `list` for each name in a directory (the last component only), in no order. May call
 *  the device. Not 0 stops, and is then what `list` returns. */
typedef int lladd_list_fn(void *ctx, const char *name);

struct lladd_device_ops {
    size_t struct_size;
    int (*open)(struct lladd_device *, const char *name, unsigned flags, struct lladd_file **out);
    /** Releases the file; the result tells whether earlier writes failed late. */
    int (*close)(struct lladd_device *, struct lladd_file *);
    /** Reads up to len bytes; returns how many, fewer only at the end of the file. (Fewer before
     *  that is an error of the device: the library compares with `size`, and asks once more.) */
    int64_t (*pread)(struct lladd_device *, struct lladd_file *, void *buf, size_t len,
                     uint64_t off);
    /** Writes all the pieces one after the other at off, or fails. Extends the file if needed. */
    int (*pwritev)(struct lladd_device *, struct lladd_file *, const struct lladd_iovec *, int n,
                   uint64_t off);
    /** Writes at the end; *off (nullable) gets where that was. */
    int (*append)(struct lladd_device *, struct lladd_file *, const void *buf, size_t len,
                  uint64_t *off);
    /** After return 0, everything written to the file before the call survives power loss. A
     *  failure is final: the caller never asks again (LOG-4). */
    int (*sync)(struct lladd_device *, struct lladd_file *);
    int (*truncate)(struct lladd_device *, struct lladd_file *, uint64_t size);
    int (*size)(struct lladd_device *, struct lladd_file *, uint64_t *out);
    int (*rename)(struct lladd_device *, const char *from, const char *to); /**< of a file */
    int (*unlink)(struct lladd_device *, const char *name);
    /** Makes creations, renames and unlinks in a directory ("" is the database's own) durable. */
    int (*sync_dir)(struct lladd_device *, const char *name);
    int (*mkdir)(struct lladd_device *, const char *name); /**< -EEXIST if present */
    int (*list)(struct lladd_device *, const char *name, lladd_list_fn *, void *ctx);
    /** Takes the database's exclusive lock on the file `name` (created if absent) without
     *  waiting. -EAGAIN if held, also by this process; *owner gets the holder's pid, 0 if not
     *  known. `close` of *out releases it. */
    int (*lock)(struct lladd_device *, const char *name, struct lladd_file **out, int64_t *owner);
    /** Says that [off, off+len) will be read soon; nullable, may do nothing. */
    void (*prefetch)(struct lladd_device *, struct lladd_file *, uint64_t off, uint64_t len);
    /** Does somebody hold the lock that `lock` takes? 0: nobody; -EAGAIN: yes, *owner as for
     * `lock`. Takes and creates nothing. Nullable: not known. */
    int (*holder)(struct lladd_device *, const char *name, int64_t *owner);
    /** Makes the file at least `size` bytes long. What is new reads as zeros, and the space for it
     *  is taken: that there is none any more cannot make a later write there fail. Nullable, or
     *  -EOPNOTSUPP: not capable, and the library writes zeros instead. */
    int (*allocate)(struct lladd_device *, struct lladd_file *, uint64_t size);
    /** Says that a `sync` will come some time for [off, off+len), which was written: it may as well
     *  be on its way by then. Nullable, may do nothing; does not wait for the writing. */
    void (*write_behind)(struct lladd_device *, struct lladd_file *, uint64_t off, uint64_t len);
};

/** A device is whatever begins with this. */
struct lladd_device {
    const struct lladd_device_ops *ops;
};

/** Files below a directory of the operating system, created if `create` and absent. The device is
 *  closed with lladd_device_close after the database that uses it. */
LLADD_API int lladd_device_posix(const char *dir, bool create, struct lladd_device **out,
                                 struct lladd_error *);
/** The same with the mode of the files that are made (0: 0600), less the process's umask; a
 *  directory can be searched besides by those who may read. LLADD_BAD_ARGUMENT for other bits than
 *  those of reading and writing, or if the user has not both. No symbolic link in the directory is
 *  followed, and no file used that is not a plain one of this user or of the directory's owner,
 *  unless the mode lets others write: LLADD_NO_ACCESS. */
LLADD_API int lladd_device_posix_mode(const char *dir, bool create, uint32_t mode,
                                      struct lladd_device **out, struct lladd_error *);
/** Files in memory. They live as long as the device, across any number of opens: what a test
 *  crashes and reopens. */
LLADD_API int lladd_device_memory(struct lladd_device **out);
/** The files of another device, and over them, in memory, whatever is written here: a database can
 *  be opened, recovered, looked at and changed, and below nothing is. Refuses to be locked while
 *  somebody has the lock below; that nobody takes it later is the caller's affair. `below` must
 *  outlive it, and nobody may write there meanwhile. LLADD_NO_MEMORY. */
LLADD_API int lladd_device_overlay(struct lladd_device *below, struct lladd_device **out);
LLADD_API void lladd_device_close(struct lladd_device *);

/** Memory comes from here; NULL in the options means malloc. `resize` moves like realloc. */
struct lladd_allocator {
    void *ctx;
    void *(*alloc)(void *ctx, size_t size);
    void *(*resize)(void *ctx, void *ptr, size_t size);
    void (*release)(void *ctx, void *ptr);
};

/** Time and chance; NULL members mean the operating system's. */
struct lladd_world {
    void *ctx;
    uint64_t (*now_ns)(void *ctx);                   /**< monotonic */
    int64_t (*wall_us)(void *ctx);                   /**< microseconds since 1970 */
    int (*random)(void *ctx, void *buf, size_t len); /**< 0 or negative errno */
    /** Called at named places on slow paths ("log.group.before_sync"). A test stops a thread here
     *  or returns a negative errno to make the step fail; 0 goes on. */
    int (*point)(void *ctx, const char *name);
};

#ifdef __cplusplus
}
#endif
#endif
