/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_INTEROP_ACCOUNTS_H
#define TESTS_INTEROP_ACCOUNTS_H
/*
 * The part of a test that works in a resource manager, in C: accounts with balances. For each
 * resource manager a shared object implements these functions. java/lladd/interop/Host.java calls
 * them, and the functions of the switch, through JNA. 0 is success, everything else an error.
 *
 * Each thread calls xa_open itself. All threads share the accounts.
 */
#include <stdint.h>

#define ACCOUNTS_API __attribute__((visibility("default")))

struct accounts;

/* Returns the name of the switch: a symbol of this shared object, or of a library with which it is
 * linked. */
ACCOUNTS_API const char *accounts_switch(void);
/* Prepares the rmid. Call it before the first xa_open under the rmid; `info`: the open string. */
ACCOUNTS_API int accounts_register(int rmid, const char *info);
/* Opens the existing accounts, or makes `n` new ones. Call it after xa_open. The result lives until
 * the process ends. */
ACCOUNTS_API int accounts_open(int rmid, int n, int64_t balance, struct accounts **out);
/* Adds to an account, in the branch with which the calling thread is associated. */
ACCOUNTS_API int accounts_add(struct accounts *, int account, int64_t delta);
/* Reads a balance, outside any branch. */
ACCOUNTS_API int accounts_read(struct accounts *, int account, int64_t *out);
/* Returns 1 if a lock keeps other transactions from changing this account, and 0 if none does. */
ACCOUNTS_API int accounts_locked(struct accounts *, int account);
/* Makes an administrator's decision about a branch in doubt. */
ACCOUNTS_API int accounts_decide(struct accounts *, int format, int gtrid_length, const char *gtrid,
                                 int bqual_length, const char *bqual, int commit);

#endif
