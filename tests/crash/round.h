/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CRASH_ROUND_H
#define CRASH_ROUND_H
/*
 * A round makes a database. Then it repeatedly works with the database, crashes it, recovers it (up
 * to four recoveries crash in turn), and checks it. A *life* is a process that opens the database,
 * or inspects its files. The *conductor* is the process that runs the round; it never opens the
 * database.
 */
#include "world.h"

enum leg {
    LEG_WHOLE, /* the whole round, in a directory of its own */
    LEG_NEXT,  /* one cycle; the next leg runs on another machine */
    LEG_LAST   /* the last process */
};

struct tally {
    uint64_t rounds, lives, opens, kills, kills_in_recovery, power_states, verified, refused;
    uint64_t by_feature[FEATURES]; /* for each feature: the number of kills during recovery in
                                    * rounds with this feature */
};

struct settings {
    unsigned features; /* features that may be drawn */
    uint64_t hang_ns;  /* a process that lives longer counts as hung */
    bool keep, verbose;
    enum leg leg;
    const char *relay; /* directory of the database and of the oracle; NULL with LEG_WHOLE */
};

struct failure {
    char kind[64], message[512];
    char *dir; /* NULL unless it was kept; the caller frees it */
};

/* Returns true if no check failed. Then LEG_WHOLE removes its directory. If a check failed,
 * LEG_WHOLE keeps the directory if `keep` is set. */
bool round_run(uint64_t seed, const struct settings *, struct tally *, struct failure *);

#endif
