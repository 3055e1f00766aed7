/* SPDX-License-Identifier: BSD-2-Clause */
/* Compares the database with the file and with the ledger. */
#ifndef PACKAGES_VERIFY_H
#define PACKAGES_VERIFY_H
#include "ledger.h"
#include "stanzas.h"
#include "store.h"

#define VERDICT_SHOWN 5u

struct verdict {
    uint64_t whole;                 /**< transactions that are LEDGER_COMMITTED, with stanzas in
                                         the database */
    uint64_t nothing;               /**< transactions that were aborted on purpose, with no stanza
                                         in the database */
    uint64_t found;                 /**< transactions that were not acknowledged before the crash,
                                         with complete stanzas */
    uint64_t elements;              /**< number of elements of the table */
    uint64_t discrepancies;         /**< number of contradictions */
    char shown[VERDICT_SHOWN][160]; /**< descriptions of the first discrepancies */
};

/** Reads the whole database. Transactions that were found become LEDGER_COMMITTED: they must be
 *  found after every later recovery, too. Returns 0 or an error of the library. */
int verify(struct store *, const struct stanzas *, struct ledger *, struct verdict *,
           struct lladd_error *);
#endif
