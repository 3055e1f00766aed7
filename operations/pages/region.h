/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_REGION_H
#define LL_OPERATIONS_REGION_H
/* Regions: see region.c. */
#include "operations/operations_private.h"

struct lladd_hash;

/* The extension's state. */
struct ll_regions {
    struct lladd_db *db;
    struct lladd_mutex create;
    struct lladd_hash *catalogue; /* atomic; NULL: not looked up yet, or it does not exist */
};

extern const struct lladd_extension ll_operations__region_extension;

#endif
