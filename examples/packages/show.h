/* SPDX-License-Identifier: BSD-2-Clause */
/* Output for the user. */
#ifndef PACKAGES_SHOW_H
#define PACKAGES_SHOW_H
#include "verify.h"

#include <lladd/stats.h>

/** A number for display: "200,000". */
struct number {
    char text[28];
};
struct number number_of(uint64_t);

/** Seconds on a monotonic clock, for differences. */
double clock_seconds(void);

/** Progress of the load: a bar on a terminal; otherwise a line after each of the first three
 *  quarters. */
struct progress {
    uint64_t of;
    bool terminal, visible;
    double began, shown;
    uint64_t at_begin;
    unsigned quarter;
};
void progress_begin(struct progress *, uint64_t done);
void progress_show(struct progress *, uint64_t done);
/** Removes the bar. */
void progress_end(struct progress *);

/** The trace of a recovery, filled in by recovery_line, an lladd_trace_fn. */
struct recovery {
    char analysis[256]; /**< the line about the log, unchanged */
    uint64_t undone;    /**< transactions rolled back, one line each */
};
void recovery_line(void *recovery, const char *line);
void recovery_show(const struct recovery *, const struct lladd_stats *);
void verdict_show(const struct verdict *);
/** Prints the text that can be read from `fd`, with long lines folded and very long lines
 *  truncated; closes `fd`. False if `fd` cannot be read or is empty. */
bool show_folded(int fd);
#endif
