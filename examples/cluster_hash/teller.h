/* SPDX-License-Identifier: BSD-2-Clause */
/* The bank: the format of an account, and the options. */
#ifndef CLUSTER_HASH_TELLER_H
#define CLUSTER_HASH_TELLER_H
#include <lladd/types.h>

#define ACCOUNT_KEY 12u   /* "acc" and nine digits */
#define ACCOUNT_VALUE 64u /* i64 amount, then other data */
#define ACCOUNT_OPENING 1000

struct bank_options {
    const char *dir, **servers;
    size_t n_servers;
    uint64_t replicas, accounts, threads, seconds;
    bool until_eof, exclusive, across, blind;
};

void account_key(uint64_t account, unsigned char key[ACCOUNT_KEY]);
/** Compares the databases of all servers. No process may have them open. */
bool inspect(const struct bank_options *, char **dirs, size_t n);
#endif
