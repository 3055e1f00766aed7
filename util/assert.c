/* SPDX-License-Identifier: BSD-2-Clause */
/* Where an expectation of ours that does not hold stops a debug or test build (ERR-1). The only
 * place in the library that prints or ends the process; a release build does not contain it. */
#include "util/env.h"

#ifdef LLADD_DEBUG
#include <stdio.h>
#include <stdlib.h>

void ll_assert_failed(const char *expr, const char *file, int line)
{
    (void)fprintf(stderr, "lladd: %s:%d: expected: %s\n", file, line, expr);
    abort();
}
#endif
