/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CRASH_ROUND_H
#define CRASH_ROUND_H
/*
 * A round: a database is made, and then again and again worked with, crashed, recovered from
 * (which is crashed up to four times on the way), and checked. Every process that has it open is a
 * *life* of it. The process that conducts the round never opens it.
 */
#include "world.h"

enum leg {
    LEG_WHOLE, /* from the first process to the last, in a directory of its own */
    LEG_NEXT,  /* one cycle; what it leaves is for another machine's */
    LEG_LAST   /* the last process */
};

struct tally {
    uint64_t rounds, lives, opens, kills, kills_in_recovery, power_states, verified, refused;
    uint64_t by_feature[FEATURES]; /* kills inside recovery in rounds with it */
};

struct settings {
    unsigned features; /* that may be drawn */
    uint64_t hang_ns;  /* a process that lives so long hangs */
    bool keep, verbose;
    enum leg leg;
    const char *relay; /* where the database is and what is known of it; NULL with LEG_WHOLE */
};

struct failure {
    char kind[64], message[512];
    char *dir; /* NULL unless it was kept; to be freed */
};

/* True: nothing was wrong. The directory is removed, or kept if something was. */
bool round_run(uint64_t seed, const struct settings *, struct tally *, struct failure *);

#endif
