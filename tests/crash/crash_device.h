/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CRASH_DEVICE_H
#define CRASH_DEVICE_H
/*
 * A device on real files. It kills its own process at a chosen call, it can be full, and it records
 * the calls. From the record, another process can compute what a power failure would have left.
 *
 * The device counts the calls that change or persist something, over all threads, from the moment
 * when it is armed. The process sends itself SIGKILL before the chosen call, after this call, or
 * within it, if it is a write. In the last case the first pieces of the write are done. With a
 * trace, calls are made one at a time, and each is recorded (trace.h) before the next begins. So
 * files and trace agree at any death of the process. With DEATH_POWER the call is recorded as in
 * progress, but not made.
 */
#include <lladd/device.h>

#include <stdatomic.h>

enum death { DEATH_BEFORE, DEATH_AFTER, DEATH_WITHIN, DEATH_POWER };

struct crash_device_config {
    const char *dir;          /* directory of the files; copied */
    int trace;                /* file descriptor opened for appending; -1: none */
    uint32_t piece;           /* a write that is cut short ends at a multiple of this size. The size
                               * is 4096, as in the system's cache, or the size of which the options
                               * of the database say that it is never torn */
    bool serial;              /* changing calls are made one at a time, even without a trace */
    uint64_t capacity;        /* a call that would make all files together larger than this fails
                               * with -ENOSPC. Set `serial` if `capacity` is ever less than
                               * UINT64_MAX */
    _Atomic uint64_t *calls;  /* number of calls since the device was armed; in shared memory */
    _Atomic uint32_t *killed; /* set to 1 when the device is about to kill the process */
};

struct crash_device;

/* Returns NULL if the directory cannot be opened or there is no memory. */
struct crash_device *crash_device_new(const struct crash_device_config *);
void crash_device_free(struct crash_device *);
/* If the device has `serial` set or writes a trace, blocks further changes. Call it before a
 * process ends while other threads run. */
void crash_device_stop(struct crash_device *);
struct lladd_device *crash_device_dev(struct crash_device *);
/* Kills the process at the n-th call from now; 0: never. */
void crash_device_arm(struct crash_device *, uint64_t n, enum death);
void crash_device_capacity(struct crash_device *, uint64_t bytes);
/* Returns the bytes of all files of a database. */
uint64_t crash_device_used(const char *dir);

#endif
