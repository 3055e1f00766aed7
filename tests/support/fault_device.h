/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SUPPORT_FAULT_DEVICE_H
#define SUPPORT_FAULT_DEVICE_H
/*
 * A device around another one (the base) that counts calls, makes chosen ones fail, fills up, and
 * knows what a crash would leave. Depends on <lladd/device.h> only, so it can be linked with any
 * layer.
 *
 *     struct lladd_device *memory;
 *     lladd_device_memory(&memory);
 *     struct fault_device *fd = fault_device_new(memory);
 *     options.device = fault_device_dev(fd);
 *
 * Failing. Calls are numbered from 1. Plan a failure, run, and check whether it happened; once a
 * run has passed without it, every n was tried:
 *
 *     for (uint64_t n = 1;; n++) {
 *         ... new base, new fault device ...
 *         fault_device_fail(fd, n, FAULT_ANY, EIO, false);
 *         ... run the workload: a clean error, or success ...
 *         if (fault_device_fired(fd) == 0)
 *             break;
 *     }
 *
 * A failed call has no effect on the base. A failed sync also leaves the writes it should have made
 * durable in the state in which a kernel leaves them (crash-model.md, B2 i): readable, marked
 * clean, and never written by a later sync, which returns 0 all the same.
 *
 * Crashing. For every file the device knows what is durable, and the list of pending operations:
 * writes and truncations, and in directories creations, renames, unlinks and mkdirs. sync makes a
 * file's contents durable, but not its name; sync_dir makes names durable, but not contents. A
 * crash leaves the durable state plus those pending operations that the caller chooses, applied in
 * the order in which they were issued:
 *
 *     FAULT_KILL      all of them: the process dies, the machine goes on
 *     FAULT_POWER     none of them: the strictest device there can be
 *     FAULT_PREFIX    the first `seed` of them
 *     FAULT_SUBSET    each with probability 1/2, drawn from `seed`; with `torn`, each 512-byte
 *                     sector of a write that survives is also drawn
 *     FAULT_SHARE     the same with another probability: the seed determines how much survives,
 *                     from next to nothing to nearly everything
 *
 * fault_device_crash() puts that state into another, empty device, at any moment, also from the
 * hook, and changes nothing here. fault_device_power_cycle() puts it into the base: files opened
 * before are dead (calls fail with EIO, close works), planned failures are forgotten, the numbering
 * goes on.
 *
 *     fault_device_crash_at(fd, n);      the n-th call is in progress when the power fails
 *     ... run the workload until it gives up; close the database ...
 *     fault_device_power_cycle(fd, &(struct fault_crash){FAULT_POWER});
 *     ... reopen, compare ...
 *
 * After FAULT_KILL what was pending is still pending, and a power failure may still lose it
 * (REC-4); after the others everything that is left is durable.
 *
 * Not modelled: a rename between two directories becomes durable with either of them, as one; a
 * write that is torn below 512 bytes; damage to what was durable (flip bytes in the base for that).
 *
 * Threads: every call may be made from any thread; calls on the base are made one at a time. If
 * memory runs out here, the test ends.
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

    /* All but close: a failing close closes the file all the same. */
    FAULT_ANY = ((1 << FAULT_KINDS) - 1) & ~(1 << 1),
    /* What changes or persists something. */
    FAULT_WRITES = 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 11
};

struct fault_device;

struct fault_device *fault_device_new(struct lladd_device *base);
/* Closes what is still open in the base. The base belongs to the caller. */
void fault_device_free(struct fault_device *);
struct lladd_device *fault_device_dev(struct fault_device *);

/* ---- counting ---- */

/* Returns the number of calls of these kinds (including failed ones) on files with the prefix. */
uint64_t fault_device_calls(struct fault_device *, unsigned kinds);
void fault_device_reset_calls(struct fault_device *);
/* Number of files open through this device; 0 when everything was closed. */
uint64_t fault_device_open_files(struct fault_device *);

/* ---- failing ---- */

/* The n-th call from now of one of `kinds` fails with -err, and with `forever` every later one,
 * too. There is one plan at a time; n = 0 plans none. */
void fault_device_fail(struct fault_device *, uint64_t n, unsigned kinds, int err, bool forever);
/* Restricts the plan to calls on files with this prefix in their names; NULL or "" for all. */
void fault_device_only(struct fault_device *, const char *prefix);
/* Number of calls that have failed by plan or by capacity since the plan was made. */
uint64_t fault_device_fired(struct fault_device *);
/* Calls fail with -ENOSPC if they would make the sizes of all files together exceed this;
 * UINT64_MAX: no limit. */
void fault_device_capacity(struct fault_device *, uint64_t bytes);
/* Without: like a file system that allocates only what is written. (By default the device can; that
 * counts as FAULT_TRUNCATE.) */
void fault_device_can_allocate(struct fault_device *, bool can);
uint64_t fault_device_bytes(struct fault_device *); /* the present sum */

/* Called before each call (number and kind as above, name of the file), with no latch held. */
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
 * does every call (including reads) after it. If that call would have changed something, the change
 * is pending: a crash may keep it. n = 0 cancels the plan. */
void fault_device_crash_at(struct fault_device *, uint64_t n);
bool fault_device_crashed(struct fault_device *);
/* Number of pending operations, i.e. seeds 0...n for FAULT_PREFIX. */
uint64_t fault_device_pending(struct fault_device *);
void fault_device_crash(struct fault_device *, const struct fault_crash *,
                        struct lladd_device *into);
void fault_device_power_cycle(struct fault_device *, const struct fault_crash *);

#endif
