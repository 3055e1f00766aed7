/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_TRY_H
#define LL_OPERATIONS_TRY_H

/* Evaluates a call. If it fails, returns its error from the function that contains TRY. A function
 * that holds a latch, or has a step to end, does not use it. */
#define TRY(call) \
    do { \
        int try_rc = (call); \
        if (try_rc) \
            return try_rc; \
    } while (0)

#endif
