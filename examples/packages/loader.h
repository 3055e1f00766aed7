/* SPDX-License-Identifier: BSD-2-Clause */
/* The process that loads the database, and is killed. */
#ifndef PACKAGES_LOADER_H
#define PACKAGES_LOADER_H
#include "ledger.h"
#include "stanzas.h"

struct loader_job {
    const char *dir;
    const struct stanzas *stanzas;
    const struct ledger *ledger; /**< a copy made by fork; the loader loads the transactions that
                                      are LEDGER_OPEN in it */
    uint64_t limit;              /**< only transactions with lower sequence numbers are loaded */
    unsigned threads;
    uint64_t seed; /**< seed for the order of the work */
    int acks;      /**< pipe to which the loader writes struct ack */
    int leave;     /**< the loader waits for the end of this pipe before it closes the database */
};

/** The name of the pin that keeps the last transaction in the log, for `lladd log`. */
#define LAST_PIN "packages.last"

/** Runs the loader. Returns the exit status; prints errors on stderr. */
int loader_run(const struct loader_job *);
#endif
