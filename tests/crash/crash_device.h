/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CRASH_DEVICE_H
#define CRASH_DEVICE_H
/*
 * A device around real files that ends its own process at a chosen call, runs full, and writes down
 * what was done, so that another process can tell what a power failure would have left.
 *
 * Calls that change or persist something are counted from the moment the device is armed, over all
 * threads. At the chosen one the process gets SIGKILL, by itself: before the call, after it, or
 * within a write, of which some whole pieces are there then. With a trace, calls
 * are made one at a time and each is written down (trace.h) before the next begins, so that the
 * files and the trace agree whenever the process dies; with DEATH_POWER the call is written down as
 * being under way, and not made.
 */
#include <lladd/device.h>

#include <stdatomic.h>

enum death { DEATH_BEFORE, DEATH_AFTER, DEATH_WITHIN, DEATH_POWER };

struct crash_device_config {
    const char *dir;          /* the files; copied */
    int trace;                /* descriptor, opened for appending; -1: none */
    uint32_t piece;           /* of a write that is cut short, pieces that end at multiples of this
                                 are there or not: 4096 as in the system's cache, or what the
                                 database was told that is never torn */
    bool serial;              /* changing calls are made one at a time, also without a trace */
    uint64_t capacity;        /* -ENOSPC beyond so many bytes of all files together; if it is ever
                                 less than UINT64_MAX, serial */
    _Atomic uint64_t *calls;  /* counts those since the device was armed; in shared memory */
    _Atomic uint32_t *killed; /* becomes 1 when the device is about to end the process */
};

struct crash_device;

/* NULL if the directory cannot be opened or there is no memory. */
struct crash_device *crash_device_new(const struct crash_device_config *);
void crash_device_free(struct crash_device *);
struct lladd_device *crash_device_dev(struct crash_device *);
/* The process dies at the n-th call from now on; 0: at none. */
void crash_device_arm(struct crash_device *, uint64_t n, enum death);
void crash_device_capacity(struct crash_device *, uint64_t bytes);
/* The bytes of all files of a database. */
uint64_t crash_device_used(const char *dir);

#endif
