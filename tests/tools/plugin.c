/* SPDX-License-Identifier: BSD-2-Clause */
/* An application's plug-in for the tools: a shared object with the application's operations
 * (lladd/inspect.h). */
#include "made.h"

#include <lladd/inspect.h>

static const struct lladd_extension *const extensions[] = {&made_extension, NULL};

/* The function has the type lladd_plugin_fn and the name LLADD_PLUGIN_SYMBOL. */
LLADD_API const struct lladd_extension *const *lladd_plugin(void);

const struct lladd_extension *const *lladd_plugin(void)
{
    return extensions;
}
