/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_DB_H
#define LL_DB_H
/* What inspect/ needs of db/: the files, operations and classes that every database has. */
#include "recovery/registry.h"

#define FILE_CONTROL "control"
#define FILE_CREATING "creating"
#define FILE_LOCK "lock"
#define FILE_PAGES "pages"
#define FILE_DWB "dwb"
#define DIR_LOG "log"

struct ll_env;
struct lladd_options;

/* Copies options of an older or newer program. Missing members become 0; NULL: all are missing. */
int ll_options_take(const struct lladd_options *, struct lladd_options *out, struct lladd_error *);
/* Writes the built-in descriptors (operations/) to *out, and after them the descriptors that `user`
 * registers. LLADD_NO_MEMORY, or LLADD_BAD_REGISTRATION if two descriptors have the same name and
 * version. The caller frees out->items. */
int ll_extensions_merge(const struct ll_env *, const struct lladd_registry *user,
                        struct lladd_registry *out, struct lladd_error *);
#endif
