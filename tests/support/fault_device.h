/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SUPPORT_FAULT_DEVICE_H
#define SUPPORT_FAULT_DEVICE_H
/*
 * A device that passes calls on to another device, the base. It counts the calls, makes chosen
 * calls fail, can be full, and knows what a crash would leave. Of the library it uses only public
 * headers, so it can be linked with any layer.
 *
 *     struct lladd_device *memory;
 *     lladd_device_memory(&memory);
 *     struct fault_device *fd = fault_device_new(memory);
 *     options.device = fault_device_dev(fd);
 *
 * Failing. Calls are numbered from 1. Plan a failure, run, and check whether it happened. If a run
 * had no failure, every n was tried:
 *
 *     for (uint64_t n = 1;; n++) {
 *         ... new base, new fault device ...
 *         fault_device_fail(fd, n, FAULT_ANY, EIO, false);
 *         ... run the workload: a clean error, or success ...
 *         if (fault_device_fired(fd) == 0)
 *             break;
 *     }
 *
 * A failed call has no effect on the base. A sync that fails leaves the writes of the file as a
 * kernel leaves them: they can be read, but no later sync makes them durable, although it
 * returns 0.
 *
 * Crashing. For every file the device knows what is durable, and the list of pending operations:
 * writes and truncations, and in directories creations, renames, unlinks and mkdirs. sync makes a
 * file's contents durable, but not its name; sync_dir makes names durable, but not contents. A
 * crash leaves the durable state plus those pending operations that the caller chooses, applied in
 * the order in which they were issued:
 *
 *     FAULT_KILL      all of them: the process dies, the machine goes on
 *     FAULT_POWER     none of them: the power fails, and all that was not synced is lost
 *     FAULT_PREFIX    the first `seed` of them
 *     FAULT_SUBSET    each with probability 1/2, drawn from `seed`; with `torn`, each 512-byte
 *                     sector of a write that survives is also drawn
 *     FAULT_SHARE     as FAULT_SUBSET, but the seed also determines the probability, from nearly 0
 *                     to nearly 1
 *
 * fault_device_crash() puts the state that a crash leaves into another, empty device. It may be
 * called at any moment, also from the hook, and does not change this device.
 * fault_device_power_cycle() puts the state into the base. It forgets planned failures. Calls on
 * files that were opened before it fail with EIO; only close succeeds. The numbering of calls goes
 * on.
 *
 *     fault_device_crash_at(fd, n);      the n-th call is in progress when the power fails
 *     ... run the workload until it gives up; close the database ...
 *     fault_device_power_cycle(fd, &(struct fault_crash){FAULT_POWER});
 *     ... reopen, compare ...
 *
 * After FAULT_KILL, pending operations are still pending, and a power failure may still lose them
 * (REC-4). After the other crashes everything that is left is durable.
 *
 * The model is simpler than a disk. A rename between two directories becomes durable as a whole,
 * with the sync of the new directory. No sector of 512 bytes is torn. Durable bytes are not
 * damaged; a test can change them in the base.
 *
 * Threads: every call may be made from any thread; calls on the base are made one at a time. If the
 * model gets no memory, the test ends.
 */
#include <lladd/device.h>

enum {
    FAULT_OPEN = 1 << 0,
    FAULT_CLOSE = 1 << 1,
    FAULT_PREAD = 1 << 2,
    FAULT_PWRITEV = 1 << 3,
    FAULT_APPEND = 1 << 4,
    FAULT_SYNC = 1 << 5,
    FAULT_TRUNCATE = 1 << 6,
    FAULT_SIZE = 1 << 7,
    FAULT_RENAME = 1 << 8,
    FAULT_UNLINK = 1 << 9,
    FAULT_SYNC_DIR = 1 << 10,
    FAULT_MKDIR = 1 << 11,
    FAULT_LIST = 1 << 12,
    FAULT_LOCK = 1 << 13,
    FAULT_HOLDER = 1 << 14,
    FAULT_KINDS = 15,

    /* All kinds but close, because a close that fails closes the file too. */
    FAULT_ANY = ((1 << FAULT_KINDS) - 1) & ~(1 << 1),
    /* Calls that change something or make it durable. */
    FAULT_WRITES = 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 11
};

struct fault_device;

struct fault_device *fault_device_new(struct lladd_device *base);
/* Closes files that are still open in the base. The base belongs to the caller. */
void fault_device_free(struct fault_device *);
struct lladd_device *fault_device_dev(struct fault_device *);

/* ---- counting ---- */

/* Returns the number of calls of these kinds, including failed ones. If fault_device_only has set a
 * prefix, counts only calls on files with this prefix. */
uint64_t fault_device_calls(struct fault_device *, unsigned kinds);
void fault_device_reset_calls(struct fault_device *);
/* Number of files open through this device; 0 when everything was closed. */
uint64_t fault_device_open_files(struct fault_device *);

/* ---- failing ---- */

/* Of the calls of one of `kinds`, the n-th from now fails with -err. If `forever` is true, every
 * later call of these kinds fails, too. A new plan replaces the old one; n = 0 cancels it. */
void fault_device_fail(struct fault_device *, uint64_t n, unsigned kinds, int err, bool forever);
/* Restricts the plan to calls on files with this prefix in their names; NULL or "" for all. */
void fault_device_only(struct fault_device *, const char *prefix);
/* Until the byte at `off` of this file is written, each read that includes it fails with EIO. Each
 * call adds a byte; after a call with NULL, all can be read again. A power cycle keeps the
 * bytes. */
void fault_device_bad_sector(struct fault_device *, const char *name, uint64_t off);
/* The next n writes of any of these `len` bytes succeed and leave all these bytes as they are. The
 * file must have the bytes. A new plan replaces the old one. A power cycle keeps the plan. */
void fault_device_lose(struct fault_device *, const char *name, uint64_t off, size_t len,
                       uint64_t n);
/* The number of calls that have failed, by the plan or for lack of space, since the last plan or
 * capacity was set. */
uint64_t fault_device_fired(struct fault_device *);
/* A call fails with -ENOSPC if it would make all files together larger than this. UINT64_MAX: no
 * limit. */
void fault_device_capacity(struct fault_device *, uint64_t bytes);
/* Sets whether the device can allocate space that is not written, which counts as FAULT_TRUNCATE.
 * By default it can. */
void fault_device_can_allocate(struct fault_device *, bool can);
uint64_t fault_device_bytes(struct fault_device *); /* the present sizes of all files together */

/* Called before each call, with the call's number, its kind and the name of the file. The thread
 * does not hold the mutex of the device. */
typedef void fault_hook(void *ctx, uint64_t number, unsigned kind, const char *name);
void fault_device_hook(struct fault_device *, fault_hook *, void *ctx);

/* ---- crashing ---- */

enum fault_crash_mode { FAULT_KILL, FAULT_POWER, FAULT_PREFIX, FAULT_SUBSET, FAULT_SHARE };

struct fault_crash {
    enum fault_crash_mode mode;
    uint64_t seed;
    bool torn;
};

/* The n-th call from now of any kind but close, list, size, holder and pread fails with EIO, and so
 * does every later call of any kind but close. If the n-th call would have changed something, the
 * change is pending: a crash may keep it. n = 0 cancels the plan. */
void fault_device_crash_at(struct fault_device *, uint64_t n);
bool fault_device_crashed(struct fault_device *);
/* Returns the number n of pending operations. For FAULT_PREFIX the seeds are 0 to n. */
uint64_t fault_device_pending(struct fault_device *);
void fault_device_crash(struct fault_device *, const struct fault_crash *,
                        struct lladd_device *into);
void fault_device_power_cycle(struct fault_device *, const struct fault_crash *);

#endif
