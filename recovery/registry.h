/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_RECOVERY_REGISTRY_H
#define LL_RECOVERY_REGISTRY_H
/* The registry: pointers to the descriptors that were registered before open, in order. The options
 * own it. A handle's registry also refers to the built-in extensions. These are not copied into the
 * registry, because each open would have to copy them. */
#include "util/env.h"

#include <lladd/op.h>

struct ll_registered {
    uint8_t kind; /* enum ll_name_kind, or LL_REGISTERED_EXTENSION */
    const void *desc;
};

#define LL_REGISTERED_EXTENSION 100

/* Sizes of the catalogue records of the registered names, computed at registration. */
struct ll_payloads {
    size_t names;
    size_t bytes;   /* sum of all payloads */
    size_t longest; /* longest payload */
};

/* The sizes for the built-in names: constants that a test checks. */
extern const struct ll_payloads ll_extensions_builtin;

struct lladd_registry {
    struct ll_env env;
    const struct lladd_extension *const *builtin; /* precede the items; NULL-terminated, or NULL */
    struct ll_registered *items;
    size_t n, cap;
    struct ll_payloads payloads; /* also of the built-in names */
};

#endif
