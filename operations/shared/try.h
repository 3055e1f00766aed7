/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_TRY_H
#define LL_OPERATIONS_TRY_H

/* Evaluates a call. Returns the call's error from the function that contains TRY, if the call
 * fails. Not for code that holds a latch or must clean up. */
#define TRY(call) \
    do { \
        int try_rc = (call); \
        if (try_rc) \
            return try_rc; \
    } while (0)

#endif
