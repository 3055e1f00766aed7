/* SPDX-License-Identifier: BSD-2-Clause */
/* The structure as a plugin of the lladd command: lladd verify --ops ordered-ops.so DIRECTORY. */
#include "ordered.h"

#include <lladd/inspect.h>

LLADD_API const struct lladd_extension *const *lladd_plugin(void);

const struct lladd_extension *const *lladd_plugin(void)
{
    static const struct lladd_extension *const all[] = {&ordered_extension, NULL};
    return all;
}
