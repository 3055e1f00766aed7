/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SUPPORT_FAULT_DEVICE_H
#define SUPPORT_FAULT_DEVICE_H
/*
 * A device around another one (the base) that counts calls, makes chosen ones fail, runs full, and
 * knows what a crash would leave. Needs nothing but <lladd/device.h>: link any layer with it.
 *
 *     struct lladd_device *memory;
 *     lladd_device_memory(&memory);
 *     struct fault_device *fd = fault_device_new(memory);
 *     options.device = fault_device_dev(fd);
 *
 * Failing. Calls are numbered from 1. Plan a failure, run, see whether it fired; when a run passes
 * without it, every n has been tried:
 *
 *     for (uint64_t n = 1;; n++) {
 *         ... new base, new fault device ...
 *         fault_device_fail(fd, n, FAULT_ANY, EIO, false);
 *         ... run the workload: a clean error, or success ...
 *         if (fault_device_fired(fd) == 0)
 *             break;
 *     }
 *
 * A failed call has no effect on the base. A failed sync, moreover, leaves the writes it should
 * have made durable in the state a kernel leaves them in (crash-model.md, B2 i): readable, marked
 * clean, and not written by any later sync, which returns 0 all the same.
 *
 * Crashing. The device holds for every file what is durable and the list of what was only written:
 * writes, truncations, and in directories creations, renames, unlinks and mkdirs. sync makes a
 * file's contents durable and not its name; sync_dir makes names durable and not contents. What a
 * crash leaves is the durable state plus those pending operations that the caller chooses, applied
 * in the order in which they were issued:
 *
 *     FAULT_KILL      all of them: the process dies, the machine goes on
 *     FAULT_POWER     none of them: the strictest device there can be
 *     FAULT_PREFIX    the first `seed` of them
 *     FAULT_SUBSET    each by a coin thrown from `seed`; with `torn`, a write that survives keeps
 *                     each 512-byte sector by a coin as well
 *     FAULT_SHARE     the same with a coin that is not fair: the seed says how much of it all
 *                     survives, from next to nothing to nearly everything
 *
 * fault_device_crash() puts that into another, empty device, at any moment, also from the hook, and
 * changes nothing here. fault_device_power_cycle() puts it into the base: files opened before are
 * dead (calls fail with EIO, close works), planned failures are forgotten, the numbering goes on.
 *
 *     fault_device_crash_at(fd, n);      the n-th call is under way when the lights go out
 *     ... run the workload until it gives up; close the database ...
 *     fault_device_power_cycle(fd, &(struct fault_crash){FAULT_POWER});
 *     ... reopen, compare ...
 *
 * After FAULT_KILL what was pending is still pending, and a power failure may yet take it (REC-4);
 * after the others, what is there is durable.
 *
 * Not modelled: a rename between two directories becomes durable with either of them, as one; a
 * write that is torn below 512 bytes; damage to what was durable (flip bytes in the base for that).
 *
 * Threads: every call may be made from any thread; calls on the base are made one at a time.
 * Out of memory in here ends the test.
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

    /* All but close, whose failure is special: the file is closed all the same. */
    FAULT_ANY = ((1 << FAULT_KINDS) - 1) & ~(1 << 1),
    /* What changes or persists something. */
    FAULT_WRITES = 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 11
};

struct fault_device;

struct fault_device *fault_device_new(struct lladd_device *base);
/* Closes what is still open in the base, and leaves the base to its owner. */
void fault_device_free(struct fault_device *);
struct lladd_device *fault_device_dev(struct fault_device *);

/* ---- counting ---- */

/* How many calls of these kinds there were (failed ones included), the prefix regarded. */
uint64_t fault_device_calls(struct fault_device *, unsigned kinds);
void fault_device_reset_calls(struct fault_device *);
/* Files open through this device now: 0 when everything was closed. */
uint64_t fault_device_open_files(struct fault_device *);

/* ---- failing ---- */

/* The n-th call from now of one of `kinds` fails with -err, and with `forever` every later one of
 * them too. One plan at a time; n = 0 plans none. */
void fault_device_fail(struct fault_device *, uint64_t n, unsigned kinds, int err, bool forever);
/* Only calls on files whose names begin so count for the plan; NULL or "" for all. */
void fault_device_only(struct fault_device *, const char *prefix);
/* How many calls failed by plan or by capacity since the plan was made. */
uint64_t fault_device_fired(struct fault_device *);
/* -ENOSPC for what would make the sizes of all files together exceed this; UINT64_MAX: no limit. */
void fault_device_capacity(struct fault_device *, uint64_t bytes);
/* As it is for file systems that allocate nothing but what is written. (It can, to begin with; that
 * counts as FAULT_TRUNCATE.) */
void fault_device_can_allocate(struct fault_device *, bool can);
uint64_t fault_device_bytes(struct fault_device *); /* that sum now */

/* Called before each call (number and kind as above, name of the file), outside all latches. */
typedef void fault_hook(void *ctx, uint64_t number, unsigned kind, const char *name);
void fault_device_hook(struct fault_device *, fault_hook *, void *ctx);

/* ---- crashing ---- */

enum fault_crash_mode { FAULT_KILL, FAULT_POWER, FAULT_PREFIX, FAULT_SUBSET, FAULT_SHARE };

struct fault_crash {
    enum fault_crash_mode mode;
    uint64_t seed;
    bool torn;
};

/* The n-th call from now of any kind but close, list, size, holder and pread fails with EIO and so
 * does every call (reads too) after it. That one, if it would have changed something, is pending:
 * a crash may keep it. n = 0 takes it back. */
void fault_device_crash_at(struct fault_device *, uint64_t n);
bool fault_device_crashed(struct fault_device *);
/* How many operations are pending, i.e. seeds 0...n for FAULT_PREFIX. */
uint64_t fault_device_pending(struct fault_device *);
void fault_device_crash(struct fault_device *, const struct fault_crash *,
                        struct lladd_device *into);
void fault_device_power_cycle(struct fault_device *, const struct fault_crash *);

#endif
