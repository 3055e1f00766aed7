/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CRASH_DISK_H
#define CRASH_DISK_H
/*
 * Computes from traces (trace.h) the durable state of a directory, and what a power failure leaves
 * of the directory. The model is that of support/crash_model.h: what was synced survives; of the
 * rest, any part can survive.
 */
#include "support/fault_device.h"

struct disk;

struct disk *disk_new(void); /* an empty, durable directory */
void disk_free(struct disk *);
/* Applies the trace of a process that has ended. Its files are closed. */
void disk_replay(struct disk *, const void *trace, size_t len);
/* Returns the number of pending operations: those that are written and not durable. */
uint64_t disk_pending(const struct disk *);
/* Makes the directory `dir` with what the power failure leaves. *after (nullable) becomes the disk
 * after the failure. */
void disk_power(const struct disk *, const struct fault_crash *, const char *dir,
                struct disk **after);

#endif
