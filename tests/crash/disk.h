/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CRASH_DISK_H
#define CRASH_DISK_H
/*
 * What is durable of a directory, told from traces (trace.h), and what a power failure leaves of
 * it. The model is that of support/crash_model.h: what was synced, and of the rest any part.
 */
#include "support/fault_device.h"

struct disk;

struct disk *disk_new(void); /* an empty directory, durable */
void disk_free(struct disk *);
/* A process has ended that has left this trace; its files are closed. */
void disk_replay(struct disk *, const void *trace, size_t len);
/* What is written and not durable. */
uint64_t disk_pending(const struct disk *);
/* Makes `dir`, and in it what the power failure leaves. The disk stays as it was. */
void disk_power(const struct disk *, const struct fault_crash *, const char *dir,
                struct disk **after);

#endif
