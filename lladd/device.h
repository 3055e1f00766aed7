/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_DEVICE_H
#define LLADD_DEVICE_H
/**
 * @file
 * @brief The library's environment: files, memory, clock, random bytes, test hooks.
 *
 * A database does all input and output through one `struct lladd_device`. The library has devices
 * for POSIX files, memory and copy-on-write overlays; the simulator has its own. A device's
 * functions return 0 (or a byte count), or a *negative errno value* for a failure; they report
 * failures in no other way. Names are relative to the database directory, with '/' between
 * components. A name with an empty component, "." or "..", or with a '/' at its start or end is
 * refused with -EINVAL.
 *
 * Threads: a device must allow concurrent calls, also on the same file; only `close` of a file is
 * never concurrent with other calls on that file.
 * @ingroup io
 */
#include <lladd/error.h>
#include <lladd/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lladd_device;
struct lladd_file; /* defined by the device */

enum {
    LLADD_OPEN_CREATE = 1,    /**< create the file if it does not exist */
    LLADD_OPEN_EXCLUSIVE = 2, /**< with CREATE: return -EEXIST if the file exists */
    LLADD_OPEN_READ_ONLY = 4
};

/** One piece of a gathered write. */
struct lladd_iovec {
    const void *data;
    size_t len;
};

/** Called by `list` for each name in a directory (the last component only), in no order. The
 *  function may call the device. If it does not return 0, `list` stops and returns that value. */
typedef int lladd_list_fn(void *ctx, const char *name);

struct lladd_device_ops {
    size_t struct_size;
    int (*open)(struct lladd_device *, const char *name, unsigned flags, struct lladd_file **out);
    /** Releases the file. An error means that an earlier write has failed after it returned. */
    int (*close)(struct lladd_device *, struct lladd_file *);
    /** Reads up to len bytes and returns their number, which is less than len only at the end of
     *  the file. (Because a faulty device may return fewer bytes before the end of the file, the
     *  library compares a short read with the file's size, and reads once more.) */
    int64_t (*pread)(struct lladd_device *, struct lladd_file *, void *buf, size_t len,
                     uint64_t off);
    /** Writes all pieces, one after the other, from offset `off` on; extends the file if necessary.
     *  After an error any part may have been written. */
    int (*pwritev)(struct lladd_device *, struct lladd_file *, const struct lladd_iovec *, int n,
                   uint64_t off);
    /** Writes at the end; *off (nullable) gets the offset. */
    int (*append)(struct lladd_device *, struct lladd_file *, const void *buf, size_t len,
                  uint64_t *off);
    /** After `sync` has returned 0, everything written to the file before the call survives power
     *  loss. After an error the library never syncs the file again (LOG-4). */
    int (*sync)(struct lladd_device *, struct lladd_file *);
    int (*truncate)(struct lladd_device *, struct lladd_file *, uint64_t size);
    int (*size)(struct lladd_device *, struct lladd_file *, uint64_t *out);
    /** Renames a file; an existing file `to` is replaced. */
    int (*rename)(struct lladd_device *, const char *from, const char *to);
    int (*unlink)(struct lladd_device *, const char *name);
    /** Makes creations, renames and unlinks in a directory durable; "" is the database
     *  directory. */
    int (*sync_dir)(struct lladd_device *, const char *name);
    int (*mkdir)(struct lladd_device *, const char *name); /**< -EEXIST if the name exists */
    int (*list)(struct lladd_device *, const char *name, lladd_list_fn *, void *ctx);
    /** Takes the database's exclusive lock on the file `name`, without waiting; creates the file if
     *  it does not exist. -EAGAIN if another process or this process holds the lock; *owner then
     *  gets the pid of that process, or 0 if the pid is not known. `close` of *out releases the
     *  lock. */
    int (*lock)(struct lladd_device *, const char *name, struct lladd_file **out, int64_t *owner);
    /** Announces that [off, off+len) will be read soon. May do nothing. Nullable */
    void (*prefetch)(struct lladd_device *, struct lladd_file *, uint64_t off, uint64_t len);
    /** Does a process hold the lock that `lock` takes? 0: no; -EAGAIN: yes, and *owner gets its pid
     *  as for `lock`. Takes no lock and creates no file. Nullable: then the library does not know
     *  whether a process holds the lock. */
    int (*holder)(struct lladd_device *, const char *name, int64_t *owner);
    /** Makes the file at least `size` bytes long. The new part reads as zeros, and its space is
     *  allocated, so that a later write to it cannot fail for lack of space. Nullable. If the
     *  callback is NULL or returns -EOPNOTSUPP, the library writes zeros instead. */
    int (*allocate)(struct lladd_device *, struct lladd_file *, uint64_t size);
    /** Announces that a later `sync` will need the bytes written to [off, off+len): the device may
     *  start to write them to storage now. The call does not wait for these writes, and may do
     *  nothing. Nullable */
    void (*start_writeback)(struct lladd_device *, struct lladd_file *, uint64_t off, uint64_t len);
};

/** A device. Implementations define a larger struct that begins with this one. */
struct lladd_device {
    const struct lladd_device_ops *ops;
};

/** Makes a device for files in the operating system's directory `dir`. With `create`, a missing
 *  directory is created. Close the device with lladd_device_close after the database that uses
 *  it. */
LLADD_API int lladd_device_posix(const char *dir, bool create, struct lladd_device **out,
                                 struct lladd_error *);
/** Does the same as lladd_device_posix, with a mode for new files (0 means 0600), from which the
 *  bits of the process's umask are removed. A new directory gets search permission for each class
 *  (user, group, others) that has read permission for files. LLADD_BAD_ARGUMENT for bits other than
 *  read and write, or if the user class lacks read or write. A call of the device returns -ELOOP
 *  for a name that is a symbolic link, and -EPERM for anything else that is not a plain file. It
 *  also returns -EPERM for a plain file that belongs neither to this user nor to the directory's
 *  owner, unless the mode lets group or others write. */
LLADD_API int lladd_device_posix_mode(const char *dir, bool create, uint32_t mode,
                                      struct lladd_device **out, struct lladd_error *);
/** Makes a device for files in memory. The files live as long as the device, so that a test can
 *  crash a database and reopen it. */
LLADD_API int lladd_device_memory(struct lladd_device **out);
/** Makes a copy-on-write device: it shows the files of the device `below`, and keeps all bytes that
 *  are written to the new device in memory. A database can be opened, recovered, read and changed
 *  without any change to `below`. The `lock` of the new device returns -EAGAIN while a process
 *  holds the lock of `below`; the caller must ensure that no process takes the lock of `below`
 *  later. `below` must outlive the new device, and no process may write to `below` meanwhile.
 *  LLADD_NO_MEMORY. */
LLADD_API int lladd_device_overlay(struct lladd_device *below, struct lladd_device **out);
/** Does the same as lladd_device_overlay, with a bound on memory: blocks beyond `memory_bytes` go
 *  to unnamed files in the operating system's directory `spill_dir`; these files disappear with the
 *  device. The index of such an unnamed file needs additional memory: one bit for each 4096 bytes
 *  of the database file. If `spill_dir` has no space left, the write returns the negative errno of
 *  the file system. If `memory_bytes` is UINT64_MAX, there is no bound, and `spill_dir` may be
 *  NULL. LLADD_NO_MEMORY, LLADD_BAD_ARGUMENT. */
LLADD_API int lladd_device_overlay_bounded(struct lladd_device *below, uint64_t memory_bytes,
                                           const char *spill_dir, struct lladd_device **out);
/** Closes and frees a device made by one of the functions above; NULL does nothing. No database may
 *  be open on the device. */
LLADD_API void lladd_device_close(struct lladd_device *);

/** An allocator; NULL in the options means malloc. `resize` has the semantics of realloc. */
struct lladd_allocator {
    void *ctx;
    void *(*alloc)(void *ctx, size_t size);
    void *(*resize)(void *ctx, void *ptr, size_t size);
    void (*release)(void *ctx, void *ptr);
};

/** Clock and random bytes. A NULL member means the clock or the random bytes of the operating
 *  system. */
struct lladd_environment {
    void *ctx;
    uint64_t (*now_ns)(void *ctx);                   /**< monotonic */
    int64_t (*wall_us)(void *ctx);                   /**< microseconds since 1970 */
    int (*random)(void *ctx, void *buf, size_t len); /**< 0 or negative errno */
    /** Called at named places on slow paths ("log.group.before_sync"). A test can block the thread
     *  here, or return a negative errno to make the step fail; 0 continues. */
    int (*point)(void *ctx, const char *name);
};

#ifdef __cplusplus
}
#endif
#endif
