/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_IO_PRIVATE_H
#define LL_IO_PRIVATE_H
/* Internal declarations of the io layer. */
#include "io/io.h"

extern const struct lladd_device_ops ll_io__posix_ops;
extern const struct lladd_device_ops ll_io__memory_ops;
extern const struct lladd_device_ops ll_io__overlay_ops;
extern const struct lladd_device_ops ll_io__deferred_ops;
void ll_io__posix_close_device(struct lladd_device *);
void ll_io__memory_close_device(struct lladd_device *);
void ll_io__overlay_close_device(struct lladd_device *);

/* Is this a valid name (<lladd/device.h>)? "" is valid only if `directory`. */
bool ll_io__name_ok(const char *name, bool directory);
/* Returns 0, or -EINVAL for unknown or contradictory flags. */
int ll_io__check_flags(unsigned flags);

#endif
