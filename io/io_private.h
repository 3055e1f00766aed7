/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_IO_PRIVATE_H
#define LL_IO_PRIVATE_H
/* What the files of this folder share. */
#include "io/io.h"

extern const struct lladd_device_ops ll_io__posix_ops;
extern const struct lladd_device_ops ll_io__memory_ops;
extern const struct lladd_device_ops ll_io__overlay_ops;
extern const struct lladd_device_ops ll_io__deferred_ops;
void ll_io__posix_close_device(struct lladd_device *);
void ll_io__memory_close_device(struct lladd_device *);
void ll_io__overlay_close_device(struct lladd_device *);

/* Is this a name as <lladd/device.h> has them? "" only where a directory is meant. */
bool ll_io__name_ok(const char *name, bool directory);
/* Flags that contradict each other: -EINVAL. */
int ll_io__check_flags(unsigned flags);

#endif
