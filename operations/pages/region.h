/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_REGION_H
#define LL_OPERATIONS_REGION_H
/* Regions: see region.c. */
#include "operations/operations_private.h"

extern const struct lladd_extension ll_operations__region_extension;

#endif
