/* SPDX-License-Identifier: BSD-2-Clause */
/* The ledger: the parent process's record of the outcome of every transaction, outside the
 * database. */
#ifndef PACKAGES_LEDGER_H
#define PACKAGES_LEDGER_H
#include <stdbool.h>
#include <stdint.h>

enum ledger_state {
    LEDGER_OPEN = 0,      /**< unknown: not begun, or open when the loader died */
    LEDGER_COMMITTED = 1, /**< acknowledged, or found after a crash: must be in the database from
                               now on */
    LEDGER_ABORTED = 2    /**< rolled back on purpose: must not be in the database */
};

struct ledger {
    uint64_t n; /**< transactions 0 to n - 1 */
    uint64_t seed;
    unsigned char *state;
    uint64_t committed, aborted; /**< number of transactions in these states */
};

/** One in ABORT_EVERY transactions does all its work and is then aborted on purpose. */
#define ABORT_EVERY 20u

/** A message of the loader to its parent, through the pipe: one transaction has ended. */
struct ack {
    uint64_t sequence;
    uint64_t txn;    /**< the transaction's id: LSN of its first record */
    uint64_t commit; /**< LSN of its commit, which is durable; 0: the transaction was aborted */
    uint64_t ready;  /**< not 0: this message is not about a transaction, but says that the database
                          is open and loading begins */
};

/** splitmix64: a pseudo-random function. */
static inline uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/** True if the transaction is one of those that are aborted on purpose. */
static inline bool ledger_aborts(const struct ledger *l, uint64_t sequence)
{
    return mix(l->seed ^ mix(sequence)) % ABORT_EVERY == 0;
}

static inline void ledger_set(struct ledger *l, uint64_t sequence, enum ledger_state state)
{
    l->state[sequence] = (unsigned char)state;
    if (state == LEDGER_COMMITTED)
        l->committed++;
    else if (state == LEDGER_ABORTED)
        l->aborted++;
}
#endif
