/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_RECOVERY_REGISTRY_H
#define LL_RECOVERY_REGISTRY_H
/* What was registered before open: pointers to descriptors, in order. Grows; owned by the options.
 * A handle's has the built-in extensions besides: in place, as every open would copy them. */
#include "util/env.h"

#include <lladd/op.h>
#include <stddef.h>

struct ll_registered {
    uint8_t kind; /* enum ll_name_kind, or LL_REGISTERED_EXTENSION */
    const void *desc;
};

#define LL_REGISTERED_EXTENSION 100

/* What the catalogue records of some names take: measured when they are registered, not at every
 * open. */
struct ll_payloads {
    size_t names;
    size_t bytes;   /* of payload, together */
    size_t longest; /* of one */
};

/* Of the built-in names, known without counting; a test counts them. */
extern const struct ll_payloads ll_extensions_builtin;

struct lladd_registry {
    struct ll_env env;
    const struct lladd_extension *const *builtin; /* before the items; NULL-terminated, or NULL */
    struct ll_registered *items;
    size_t n, cap;
    struct ll_payloads payloads; /* of the built-in ones, too */
};

/* Room for so many in all. */
int ll_registry_reserve(struct lladd_registry *, size_t items, struct lladd_error *);
/* Without a look at what is there; there is room, and the caller counts the payload. */
void ll_registry_put(struct lladd_registry *, uint8_t kind, const void *desc);
/* Is it there? The same name and version with another descriptor is LLADD_BAD_REGISTRATION. */
int ll_registry_find(const struct lladd_registry *, uint8_t kind, const void *desc, bool *there,
                     struct lladd_error *);
/* With a look, room and counting. */
int ll_registry_add(struct lladd_registry *, uint8_t kind, const void *desc, struct lladd_error *);

/* Has the extension any structures? Those of an older struct_size have not. */
static inline bool ll_extension_has_structures(const struct lladd_extension *e)
{
    return e->struct_size >= offsetof(struct lladd_extension, structures) + sizeof e->structures &&
           e->structures;
}
static inline bool ll_extension_has_stop(const struct lladd_extension *e)
{
    return e->struct_size >= offsetof(struct lladd_extension, stop) + sizeof e->stop && e->stop;
}

#endif
