/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_TRY_H
#define LL_OPERATIONS_TRY_H

/* Evaluates a call. If the call fails, returns its error from the function that contains TRY. Not
 * for code that holds a latch or must clean up. */
#define TRY(call) \
    do { \
        int try_rc = (call); \
        if (try_rc) \
            return try_rc; \
    } while (0)

#endif
