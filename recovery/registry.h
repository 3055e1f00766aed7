/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_RECOVERY_REGISTRY_H
#define LL_RECOVERY_REGISTRY_H
/* What was registered before open: pointers to descriptors, in order. Grows; owned by the options.
 */
#include "util/env.h"

#include <lladd/op.h>

struct ll_registered {
    uint8_t kind; /* enum ll_name_kind, or LL_REGISTERED_EXTENSION */
    const void *desc;
    const char *name;
    uint32_t version;
};

#define LL_REGISTERED_EXTENSION 100

struct lladd_registry {
    struct ll_env env;
    struct ll_registered *items;
    size_t n, cap;
};

/* Without and with a look at what is there: the same name and version with another descriptor is
 * LLADD_BAD_REGISTRATION, with the same one nothing to do. */
int ll_registry_push(struct lladd_registry *, uint8_t kind, const void *desc, struct lladd_error *);
int ll_registry_add(struct lladd_registry *, uint8_t kind, const void *desc, struct lladd_error *);

#endif
