/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_DEVICE_H
#define LLADD_DEVICE_H
/**
 * @file
 * @brief What the library needs from its environment: files, memory, clock, random bytes, test
 * hooks.
 *
 * All input and output goes through one `struct lladd_device`. The library has two (POSIX files,
 * memory); the simulator is another. Every function returns 0 (or a byte count) or a *negative
 * errno value*, and reports failure in no other way. Names are relative to the database directory,
 * with '/' between components; an empty component, "." or ".." and a leading or trailing '/' are
 * refused with -EINVAL.
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
    /** Releases the file; the result reports an earlier write that failed late. */
    int (*close)(struct lladd_device *, struct lladd_file *);
    /** Reads up to len bytes; returns how many, fewer only at the end of the file. (A device that
     *  returns fewer before that is faulty: the library compares with `size` and reads once
     *  more.) */
    int64_t (*pread)(struct lladd_device *, struct lladd_file *, void *buf, size_t len,
                     uint64_t off);
    /** Writes all the pieces one after the other at off, or fails. Extends the file if
     *  necessary. */
    int (*pwritev)(struct lladd_device *, struct lladd_file *, const struct lladd_iovec *, int n,
                   uint64_t off);
    /** Writes at the end; *off (nullable) gets the offset. */
    int (*append)(struct lladd_device *, struct lladd_file *, const void *buf, size_t len,
                  uint64_t *off);
    /** After it returns 0, everything written to the file before the call survives power loss. A
     *  failure is final: the caller never tries again (LOG-4). */
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
    /** Is the lock of `lock` held? 0: no; -EAGAIN: yes, *owner as for `lock`. Takes and creates
     *  nothing. Nullable: not known. */
    int (*holder)(struct lladd_device *, const char *name, int64_t *owner);
    /** Makes the file at least `size` bytes long. The new part reads as zeros and its space is
     *  allocated, so a later write there cannot fail for lack of space. If NULL, or if it returns
     *  -EOPNOTSUPP, the library writes zeros instead. */
    int (*allocate)(struct lladd_device *, struct lladd_file *, uint64_t size);
    /** Announces that a later `sync` will need [off, off+len), which has been written, so the
     *  device may start writing it now. Nullable, may do nothing; does not wait for the writing. */
    void (*start_writeback)(struct lladd_device *, struct lladd_file *, uint64_t off, uint64_t len);
};

/** A device: a struct of any kind that begins with this one. */
struct lladd_device {
    const struct lladd_device_ops *ops;
};

/** Files below a directory of the operating system, which is created if `create` is set and it is
 *  absent. Close the device with lladd_device_close after the database that uses it. */
LLADD_API int lladd_device_posix(const char *dir, bool create, struct lladd_device **out,
                                 struct lladd_error *);
/** The same with the mode of new files (0: 0600), less the process's umask; a class of users that
 *  may read the files may also search a new directory. LLADD_BAD_ARGUMENT for bits other than read
 *  and write, or if the user lacks one of the two. LLADD_NO_ACCESS: the directory holds a symbolic
 *  link, or a file that is not a plain file of this user or of the directory's owner (other owners
 *  are allowed if the mode lets others write). */
LLADD_API int lladd_device_posix_mode(const char *dir, bool create, uint32_t mode,
                                      struct lladd_device **out, struct lladd_error *);
/** Files in memory. They live as long as the device, across any number of opens, so that a test can
 *  crash a database and reopen it. */
LLADD_API int lladd_device_memory(struct lladd_device **out);
/** A copy-on-write device: the files of another device, with everything written here kept in
 *  memory. A database can be opened, recovered, read and changed without any change to `below`. It
 *  refuses its lock while the lock of `below` is held; the caller must see that it is not taken
 *  later. `below` must outlive this device, and nothing may write to it meanwhile.
 *  LLADD_NO_MEMORY. */
LLADD_API int lladd_device_overlay(struct lladd_device *below, struct lladd_device **out);
/** The same with a bound on memory: blocks beyond `memory_bytes` go to unnamed files of the
 *  operating system below `spill_dir`, which disappear with the device. These need memory too: one
 *  bit for each 4096 bytes of the file they belong to. A write that finds no space there fails with
 *  its errno. UINT64_MAX: no bound, and spill_dir may be NULL. LLADD_NO_MEMORY,
 *  LLADD_BAD_ARGUMENT. */
LLADD_API int lladd_device_overlay_bounded(struct lladd_device *below, uint64_t memory_bytes,
                                           const char *spill_dir, struct lladd_device **out);
/** Closes a device of one of the functions above, and frees it; NULL does nothing. No database may
 *  have it open. */
LLADD_API void lladd_device_close(struct lladd_device *);

/** The allocator; NULL in the options means malloc. `resize` moves like realloc. */
struct lladd_allocator {
    void *ctx;
    void *(*alloc)(void *ctx, size_t size);
    void *(*resize)(void *ctx, void *ptr, size_t size);
    void (*release)(void *ctx, void *ptr);
};

/** Clock and random bytes; a NULL member means the operating system's. */
struct lladd_environment {
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
