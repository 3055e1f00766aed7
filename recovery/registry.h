/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_RECOVERY_REGISTRY_H
#define LL_RECOVERY_REGISTRY_H
/* The registry: pointers to the descriptors that were registered before open, in order. The options
 * own it. A handle's registry also refers to the built-in extensions; they are not copied into it,
 * because each open would have to copy them. */
#include "util/env.h"

#include <lladd/op.h>
#include <stddef.h>

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

/* Reserves room for `items` items in total. */
int ll_registry_reserve(struct lladd_registry *, size_t items, struct lladd_error *);
/* Adds an item without a check. The caller has reserved room, and counts the payload. */
void ll_registry_put(struct lladd_registry *, uint8_t kind, const void *desc);
/* Finds the descriptor. Another descriptor with the same name and version is
 * LLADD_BAD_REGISTRATION. */
int ll_registry_find(const struct lladd_registry *, uint8_t kind, const void *desc, bool *there,
                     struct lladd_error *);

/* Does the extension have structures? The struct of an older extension may lack the field. */
static inline bool ll_extension_has_structures(const struct lladd_extension *e)
{
    return e->struct_size >= offsetof(struct lladd_extension, structures) + sizeof e->structures &&
           e->structures;
}
static inline bool ll_extension_has_stop(const struct lladd_extension *e)
{
    return e->struct_size >= offsetof(struct lladd_extension, stop) + sizeof e->stop && e->stop;
}
static inline bool ll_extension_has_bulk_written(const struct lladd_extension *e)
{
    return e->struct_size >=
               offsetof(struct lladd_extension, bulk_written) + sizeof e->bulk_written &&
           e->bulk_written;
}
static inline bool ll_extension_has_base_of(const struct lladd_extension *e)
{
    return e->struct_size >= offsetof(struct lladd_extension, base_of) + sizeof e->base_of &&
           e->base_of;
}

#endif
