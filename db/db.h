/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_DB_H
#define LL_DB_H
/* What inspect/ needs of db/: the operations and classes that every database has. */
#include "recovery/registry.h"

struct ll_env;

/* Writes to *out what every database has (operations/) and, after it, what `user` registers.
 * LLADD_NO_MEMORY, or LLADD_BAD_ARGUMENT if a name appears twice. The caller frees the arrays. */
int ll_extensions_merge(const struct ll_env *, const struct lladd_registry *user,
                        struct lladd_registry *out, struct lladd_error *);
#endif
