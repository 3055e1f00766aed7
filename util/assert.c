/* SPDX-License-Identifier: BSD-2-Clause */
/* Stops a debug or test build when an assertion of the library fails (ERR-1). No other code of the
 * library prints text or ends the process. */
#include "util/env.h"

#ifdef LLADD_DEBUG
#include <stdio.h>
#include <stdlib.h>

void ll_assert_failed(const char *expr, const char *file, int line)
{
    (void)fprintf(stderr, "lladd: %s:%d: expected: %s\n", file, line, expr);
    abort();
}

void ll_misuse_failed(const char *expr, const char *file, int line, const char *why,
                      const char *what)
{
    (void)fprintf(stderr, "lladd: %s (%s); docs/threads.md, %s:%d: expected: %s\n", why, what,
                  file, line, expr);
    abort();
}
#endif
