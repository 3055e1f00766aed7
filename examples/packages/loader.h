/* SPDX-License-Identifier: BSD-2-Clause */
/* The process that loads, and is killed. */
#ifndef PACKAGES_LOADER_H
#define PACKAGES_LOADER_H
#include "ledger.h"
#include "stanzas.h"

struct loader_job {
    const char *dir;
    const struct stanzas *stanzas;
    const struct ledger *ledger; /**< loads what is LEDGER_OPEN; as it was at the fork */
    uint64_t limit;              /**< and has a sequence number below this */
    unsigned threads;
    uint64_t seed; /**< for the order of its work */
    int acks;      /**< writes struct ack to this pipe */
    int leave;     /**< waits for the end of this pipe before it closes the database */
};

/** The name of the pin that keeps the last transaction in the log, for `lladd log`. */
#define LAST_PIN "packages.last"

/** Loads. Returns the exit status; reports failures on stderr. */
int loader_run(const struct loader_job *);
#endif
