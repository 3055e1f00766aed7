/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_SHIP_CALLS_H
#define TESTS_SHIP_CALLS_H
/* Calls that must succeed. `err`, and `txn` in TXN, are variables of the caller. */
#include <check.h>
#include <lladd/error.h>
#include <lladd/lladd.h>

#define OK(call) \
    do { \
        int ok_rc = (call); \
        ck_assert_msg(ok_rc == 0, "%s: %s: %s", #call, \
                      lladd_code_name(ok_rc) ? lladd_code_name(ok_rc) : "?", err.message); \
    } while (0)
#define TXN(call) \
    do { \
        int ok_rc = (call); \
        ck_assert_msg(ok_rc == 0, "%s: %s: %s", #call, \
                      lladd_code_name(ok_rc) ? lladd_code_name(ok_rc) : "?", \
                      lladd_txn_error(txn)->message); \
    } while (0)
#endif
