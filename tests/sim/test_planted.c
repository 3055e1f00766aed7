/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The simulator finds every planted bug of <lladd/dst.h> without a hint, in the mode, in the
 * subject and by the oracle that this file names. The token repeats the failure. Without the bug,
 * the same search finds nothing. The test fails if a bug has no row or is not found.
 *
 * There is a test case for each row. It is named after the bug of the row, and prints how much work
 * the search took. With the argument "table" the program prints the table of docs/simulator.md
 * instead; a case compares that table with the rows.
 */
#include "verdicts.h"

#include <check.h>
#include <lladd/dst.h>
#include <lladd/sim.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum mode { EXPLORE, ERRORS, DAMAGE, RANDOM, INTERLEAVE };

static const char *const mode_names[] = {"explore", "errors", "damage", "random", "interleave"};

/* A bug, and the mode, the subject and the oracle that must find it. Only the first row of a bug is
 * in the table of docs/simulator.md. The other rows show that other modes find the bug, too. */
struct row {
    enum lladd_bug bug;
    enum mode mode;
    const char *subject;
    enum lladd_sim_oracle oracle;
    uint32_t depth;  /* 0: default */
    uint32_t flags;  /* of the bounds */
    uint64_t seed;   /* 0: default */
    uint64_t states; /* the largest number of states, or in mode DAMAGE the number of damages; 0:
                      * MOST */
};

enum { MOST = 20000, LONG = 400000, SAMPLES = 1000 };

#define ATOMIC LLADD_SIM_ATOMIC_PAGES
#define TURNS (LLADD_SIM_ATOMIC_PAGES | LLADD_SIM_TURNS)
#define AT_RANDOM LLADD_SIM_RANDOM_SCHEDULES
#define KILLED LLADD_SIM_NO_POWER

static const struct row rows[] = {
    {LLADD_BUG_WAL_GATE, EXPLORE, "counters", LLADD_SIM_O_WAL, 1, 0, 0, 0},
    {LLADD_BUG_LSN_STAMP, EXPLORE, "counters", LLADD_SIM_O_OPEN, 1, 0, 0, 0},
    /* ATOMIC, because only with atomic pages does redo begin at the oldest entry of the dirty-page
     * table. Otherwise it begins at the oldest base image. */
    {LLADD_BUG_DIRTY_ENTRY, RANDOM, "extents", LLADD_SIM_O_OPEN, 0, ATOMIC, 0, 0},
    /* If the log reaches back far enough, recovery rebuilds a torn page that has neither an image
     * nor a copy in the double-write area. Then the bug does not show. */
    {LLADD_BUG_IMAGE, RANDOM, "full", LLADD_SIM_O_OPEN, 0, 0, 2, 0},
    {LLADD_BUG_IMAGE_HEADER, EXPLORE, "counters", LLADD_SIM_O_OPEN, 1, 0, 0, 0},
    {LLADD_BUG_IMAGE_FORCE, EXPLORE, "counters", LLADD_SIM_O_WAL, 1, 0, 0, 0},
    {LLADD_BUG_IMAGE_LSN, EXPLORE, "counters", LLADD_SIM_O_OPEN, 1, 0, 0, 0},
    {LLADD_BUG_CLR, EXPLORE, "counters", LLADD_SIM_O_CONTENTS, 2, 0, 0, 0},
    {LLADD_BUG_CLR_END, EXPLORE, "actions", LLADD_SIM_O_CONTENTS, 1, 0, 0, 0},
    {LLADD_BUG_UNDO_NEXT, EXPLORE, "counters", LLADD_SIM_O_CONTENTS, 2, 0, 0, 0},
    {LLADD_BUG_REDO_CLR, EXPLORE, "small", LLADD_SIM_O_CONTENTS, 2, 0, 0, 0},
    /* ATOMIC, because redo with images replaces the page by its image first. Then no record is
     * redone twice. */
    {LLADD_BUG_REDO_TWICE, EXPLORE, "counters", LLADD_SIM_O_CONTENTS, 2, ATOMIC, 0, 0},
    {LLADD_BUG_LOSER, EXPLORE, "small", LLADD_SIM_O_CONTENTS, 1, 0, 0, 0},
    {LLADD_BUG_END_FIRST, EXPLORE, "records", LLADD_SIM_O_CONTENTS, 1, 0, 0, 0},
    {LLADD_BUG_SAVEPOINT, EXPLORE, "actions", LLADD_SIM_O_CONTENTS, 1, 0, 0, 0},
    {LLADD_BUG_ACKNOWLEDGE, EXPLORE, "counters", LLADD_SIM_O_LOST, 1, 0, 0, 0},
    {LLADD_BUG_PREPARE, EXPLORE, "prepared", LLADD_SIM_O_IN_DOUBT, 1, 0, 0, 0},
    /* With seed 1 another oracle (O2) reports the bug first. */
    {LLADD_BUG_PREPARED, RANDOM, "prepared", LLADD_SIM_O_IN_DOUBT, 0, 0, 2, 0},
    {LLADD_BUG_OUTCOMES, EXPLORE, "heuristic", LLADD_SIM_O_IN_DOUBT, 1, 0, 0, 0},
    {LLADD_BUG_NAMES, EXPLORE, "counters", LLADD_SIM_O_OPEN, 1, 0, 0, 0},
    /* INSTANT, because full recovery mostly finds no base for a page that was written in bulk, and
     * then does not write the page. */
    {LLADD_BUG_REDO_BARRIER, RANDOM, "extents", LLADD_SIM_O_CONTENTS, 0, LLADD_SIM_INSTANT, 0, 0},
    {LLADD_BUG_BULK_SYNC, RANDOM, "extents", LLADD_SIM_O_CONTENTS, 0, 0, 0, 0},
    /* The recording itself reveals the bug. There are few states, because a violation after a crash
     * would replace that of the recording. */
    {LLADD_BUG_BULK_TOLD, EXPLORE, "bulk", LLADD_SIM_O_REBUILD, 1, 0, 0, 100},
    {LLADD_BUG_FREE_EARLY, EXPLORE, "pages", LLADD_SIM_O_CONTENTS, 1, 0, 0, 0},
    {LLADD_BUG_FLUSH, EXPLORE, "counters", LLADD_SIM_O_CONTENTS, 2, 0, 0, 0},
    {LLADD_BUG_CONTROL_FIRST, EXPLORE, "actions", LLADD_SIM_O_CONTENTS, 2, 0, 0, 0},
    {LLADD_BUG_CONTROL_SYNC, EXPLORE, "promises", LLADD_SIM_O_OPEN, 1, 0, 0, 0},
    {LLADD_BUG_TRUNCATE, EXPLORE, "prepared", LLADD_SIM_O_IN_DOUBT, 1, 0, 0, 0},
    {LLADD_BUG_SYNC_DIR, EXPLORE, "rounds", LLADD_SIM_O_OPEN, 1, 0, 0, 0},
    {LLADD_BUG_SETTLE, EXPLORE, "counters", LLADD_SIM_O_OPEN, 4, 0, 0, 0},
    {LLADD_BUG_RECYCLE, EXPLORE, "counters", LLADD_SIM_O_OPEN, 2, 0, 0, 0},
    {LLADD_BUG_LOG_SYNC, EXPLORE, "counters", LLADD_SIM_O_LOST, 1, 0, 0, 0},
    {LLADD_BUG_SYNC_AGAIN, ERRORS, "counters", LLADD_SIM_O_ERRORS, 0, 0, 0, 0},
    {LLADD_BUG_PAGE_SYNC_ERROR, ERRORS, "counters", LLADD_SIM_O_ERRORS, 0, 0, 0, 0},
    {LLADD_BUG_RECORD_CRC, EXPLORE, "counters", LLADD_SIM_O_OPEN, 1, 0, 0, 0},
    {LLADD_BUG_STALE_RECORD, RANDOM, "rounds", LLADD_SIM_O_OPEN, 0, 0, 2, 0},
    /* Damage, because after a crash recovery fills torn pages from images without reading them. */
    {LLADD_BUG_PAGE_CRC, DAMAGE, "counters", LLADD_SIM_O_CONTENTS, 0, 0, 0, SAMPLES},
    {LLADD_BUG_WATERMARK, DAMAGE, "counters", LLADD_SIM_O_CONTENTS, 0, 0, 0, SAMPLES},
    {LLADD_BUG_REWRITE, EXPLORE, "counters", LLADD_SIM_O_OPEN, 2, 0, 0, 0},
    {LLADD_BUG_WAKE, INTERLEAVE, "threads.commit", LLADD_SIM_O_DEADLOCK, 1, 0, 0, 0},
    {LLADD_BUG_LSN_REUSE, RANDOM, "counters", LLADD_SIM_O_OPEN, 0, 0, 0, 0},
    {LLADD_BUG_GROUP_LATE, INTERLEAVE, "threads.commit", LLADD_SIM_O_LOST, 1, 0, 0, 0},
    {LLADD_BUG_UNDO_LATE, INTERLEAVE, "threads.checkpoint", LLADD_SIM_O_OPEN, 1, KILLED, 0, LONG},
    {LLADD_BUG_IN_FLIGHT, INTERLEAVE, "threads.background", LLADD_SIM_O_CONTENTS, 1, AT_RANDOM, 0,
     LONG},
    {LLADD_BUG_CREDIT_HELD, INTERLEAVE, "threads.credit", LLADD_SIM_O_DEADLOCK, 1, AT_RANDOM, 0, 0},
    {LLADD_BUG_SHARE, EXPLORE, "redo.shares", LLADD_SIM_O_CONTENTS, 1, 0, 0, 0},
    {LLADD_BUG_REDO_LEFT, EXPLORE, "instant", LLADD_SIM_O_CONTENTS, 2, 0, 0, 0},
    {LLADD_BUG_CAUGHT_UP, EXPLORE, "instant", LLADD_SIM_O_CONTENTS, 2, 0, 0, 0},
    {LLADD_BUG_EARLY, EXPLORE, "instant.tight", LLADD_SIM_O_CONTENTS, 2, 0, 0, 0},
    {LLADD_BUG_EARLY, EXPLORE, "instant.long", LLADD_SIM_O_CONTENTS, 1, 0, 0, 0},
    {LLADD_BUG_UNPROTECTED, EXPLORE, "losers", LLADD_SIM_O_CONTENTS, 1, 0, 0, 0},
    {LLADD_BUG_BLOB_ONCE, INTERLEAVE, "threads.values", LLADD_SIM_O_WORKLOAD, 1, 0, 0, 0},
    {LLADD_BUG_GIVEN_UP, EXPLORE, "losers", LLADD_SIM_O_CONTENTS, 2, 0, 0, 0},
    /* The log reaches back to before the start of redo. There recovery finds the base of a damaged
     * page. */
    {LLADD_BUG_REBUILD, DAMAGE, "space", LLADD_SIM_O_OPEN, 0, 0, 0, 3 * SAMPLES},
    {LLADD_BUG_WITNESS, DAMAGE, "counters", LLADD_SIM_O_LOST, 0, 0, 0, 4 * SAMPLES},
    {LLADD_BUG_BULK_IMAGE, RANDOM, "extents", LLADD_SIM_O_OPEN, 0, 0, 0, 0},
    {LLADD_BUG_PROTECTION, RANDOM, "full", LLADD_SIM_O_OPEN, 0, 0, 2, 0},
    {LLADD_BUG_TAKE_SYNC, EXPLORE, "stale", LLADD_SIM_O_OPEN, 4, 0, 0, 0},
    {LLADD_BUG_LOWEST_FIRST, EXPLORE, "stale", LLADD_SIM_O_OPEN, 3, KILLED, 0, 0},
    /* Depth 8, because the reserve suffices for three crashes in a row. */
    {LLADD_BUG_OWED, RANDOM, "full", LLADD_SIM_O_OPEN, 8, 0, 0, 0},
    /* With other seeds another oracle (O11) reports the bug first. */
    {LLADD_BUG_DISOWN, RANDOM, "space", LLADD_SIM_O_CONTENTS, 0, 0, 3, 0},
    {LLADD_BUG_STEP_STAYS, EXPLORE, "ends", LLADD_SIM_O_CONTENTS, 1, 0, 0, 0},
    {LLADD_BUG_LISTED_APART, EXPLORE, "regions", LLADD_SIM_O_CONTENTS, 1, 0, 0, 0},
    {LLADD_BUG_ACCUSE, EXPLORE, "counters", LLADD_SIM_O_INSPECT, 1, 0, 0, 0},
    {LLADD_BUG_TRUSTING, DAMAGE, "losers", LLADD_SIM_O_OPEN, 0, 0, 0, SAMPLES},
    {LLADD_BUG_BT_FENCE, EXPLORE, "trees", LLADD_SIM_O_CHECK, 1, 0, 0, 0},
    {LLADD_BUG_BT_GHOST, INTERLEAVE, "threads.trees", LLADD_SIM_O_WORKLOAD, 1, 0, 0, 0},
    {LLADD_BUG_BT_ORDER, EXPLORE, "trees", LLADD_SIM_O_CONTENTS, 1, 0, 0, 0},
    {LLADD_BUG_BT_SPARE, INTERLEAVE, "threads.trees", LLADD_SIM_O_CHECK, 1, AT_RANDOM, 0, LONG},
    {LLADD_BUG_BT_LOAD, EXPLORE, "trees.loaded", LLADD_SIM_O_CONTENTS, 1, 0, 0, 0},
    {LLADD_BUG_BW_BOUND, INTERLEAVE, "bwtree.threads", LLADD_SIM_O_CONTENTS, 1, AT_RANDOM, 0, 0},
    {LLADD_BUG_BW_LIST, INTERLEAVE, "bwtree.threads", LLADD_SIM_O_CONTENTS, 1, AT_RANDOM, 0, 0},
    {LLADD_BUG_BW_PAIR, EXPLORE, "bwtree", LLADD_SIM_O_WORKLOAD, 1, 0, 0, 0},
    {LLADD_BUG_BW_RSSP, EXPLORE, "bwtree", LLADD_SIM_O_LOST, 1, 0, 0, 0},
    {LLADD_BUG_BW_SEGMENT, EXPLORE, "bwtree", LLADD_SIM_O_CONTENTS, 1, 0, 0, 0},
    {LLADD_BUG_IMAGE_LATE, INTERLEAVE, "threads.writeback", LLADD_SIM_O_CONTENTS, 1, 0, 0, LONG},
    {LLADD_BUG_IMAGE_REDO, EXPLORE, "writeback.redo", LLADD_SIM_O_LOST, 1, KILLED, 0, 0},
    {LLADD_BUG_HORIZON_EARLY, INTERLEAVE, "threads.writeback", LLADD_SIM_O_OPEN, 1, 0, 0, LONG},
    {LLADD_BUG_HORIZON_WAIT, INTERLEAVE, "threads.writeback", LLADD_SIM_O_OPEN, 1, 0, 0, LONG},
    {LLADD_BUG_UNMARKED, EXPLORE, "writeback.clean", LLADD_SIM_O_OPEN, 1, 0, 0, 0},
    {LLADD_BUG_IMAGE_WAIT, INTERLEAVE, "threads.ring", LLADD_SIM_O_DEADLOCK, 1, AT_RANDOM | KILLED,
     0, 0},
    {LLADD_BUG_BULK_LOADED, INTERLEAVE, "threads.bulk", LLADD_SIM_O_WORKLOAD, 1, 0, 0, 0},
    {LLADD_BUG_BULK_CHANGED, INTERLEAVE, "threads.bulk", LLADD_SIM_O_CONTENTS, 1, 0, 0, 0},
    {LLADD_BUG_LAST_EIGHTH, EXPLORE, "writeback.limit", LLADD_SIM_O_WORKLOAD, 1, 0, 0, 0},
    {LLADD_BUG_BT_UNDO, EXPLORE, "trees", LLADD_SIM_O_CONTENTS, 1, 0, 0, 0},
    {LLADD_BUG_BT_MERGE, EXPLORE, "trees.merge", LLADD_SIM_O_CONTENTS, 1, 0, 0, 0},
    /* KILLED, because these bugs show late in the workload. Without it, most states would be losses
     * of power in the middle of a write. */
    {LLADD_BUG_MANIFEST_FIRST, EXPLORE, "backup", LLADD_SIM_O_CHECK, 1, KILLED, 0, 0},
    {LLADD_BUG_BULK_LEFT, EXPLORE, "backup", LLADD_SIM_O_CHECK, 1, KILLED, 0, 0},
    {LLADD_BUG_OUTSIDE_END, EXPLORE, "backup.outside", LLADD_SIM_O_CHECK, 1, KILLED, 0, 0},
    {LLADD_BUG_OUTSIDE_BULK, EXPLORE, "backup.outside", LLADD_SIM_O_CHECK, 1, KILLED, 0, 0},
    {LLADD_BUG_PIN_EARLY, EXPLORE, "archive", LLADD_SIM_O_CHECK, 1, KILLED, 0, 0},
    {LLADD_BUG_SPOOL_LEFT, EXPLORE, "archive", LLADD_SIM_O_PROGRESS, 1, KILLED, 0, 0},
    /* Not KILLED, because what was written is there after the death of the process. */
    {LLADD_BUG_SPOOL_SYNC, EXPLORE, "bulk.scrubbed", LLADD_SIM_O_PROGRESS, 1, 0, 0, 0},
    {LLADD_BUG_SPOOL_OPEN, EXPLORE, "archive", LLADD_SIM_O_PROGRESS, 1, KILLED, 0, 0},
    {LLADD_BUG_FROM_REDO, EXPLORE, "backup", LLADD_SIM_O_CHECK, 1, KILLED, 0, 0},
    {LLADD_BUG_GAP_PASSED, EXPLORE, "archive", LLADD_SIM_O_PROGRESS, 1, KILLED, 0, 0},
    {LLADD_BUG_MARK_AFTER, EXPLORE, "archive", LLADD_SIM_O_PROGRESS, 1, KILLED, 0, 0},
    {LLADD_BUG_RESTORE_ORDER, EXPLORE, "restore", LLADD_SIM_O_CHECK, 1, KILLED, 0, 0},
    {LLADD_BUG_SCRUB_BARRIERS, EXPLORE, "extents.scrubbed", LLADD_SIM_O_PROGRESS, 1, KILLED, 0, 0},
    {LLADD_BUG_SCRUB_CACHE, EXPLORE, "archive", LLADD_SIM_O_PROGRESS, 1, KILLED, 0, 0},
    {LLADD_BUG_SCRUB_BLIND, EXPLORE, "bulk.scrubbed", LLADD_SIM_O_PROGRESS, 1, KILLED, 0, 0},
    {LLADD_BUG_EXPIRE_ORDER, EXPLORE, "expire", LLADD_SIM_O_CHECK, 1, KILLED, 0, 0},
    {LLADD_BUG_EXPIRE_KEPT, EXPLORE, "expire", LLADD_SIM_O_CHECK, 1, KILLED, 0, 0},
    /* The recording itself reveals these bugs. */
    {LLADD_BUG_FORK_IGNORED, EXPLORE, "restore", LLADD_SIM_O_WORKLOAD, 1, KILLED, 0, 100},
    {LLADD_BUG_UNDECODED, EXPLORE, "archive", LLADD_SIM_O_WORKLOAD, 1, KILLED, 0, 100},
    {LLADD_BUG_PIN_INHERITED, EXPLORE, "restore", LLADD_SIM_O_WORKLOAD, 1, KILLED, 0, 100},
    {LLADD_BUG_BASE_BEYOND, EXPLORE, "restore", LLADD_SIM_O_WORKLOAD, 1, KILLED, 0, 100},
    {LLADD_BUG_NAME_TAKEN, EXPLORE, "restore", LLADD_SIM_O_WORKLOAD, 1, KILLED, 0, 100},
    {LLADD_BUG_EXPIRE_RUNNING, EXPLORE, "expire", LLADD_SIM_O_WORKLOAD, 1, KILLED, 0, 100},
    {LLADD_BUG_ABSORB_KEEPS, EXPLORE, "dtable.managed.levels", LLADD_SIM_O_CONTENTS, 1, 0, 0, 0},
    {LLADD_BUG_DROP_EARLY, EXPLORE, "dtable.managed.levels", LLADD_SIM_O_CONTENTS, 1, KILLED, 0,
     0},
    {LLADD_BUG_POSITION_NEWEST, EXPLORE, "dtable.managed.unlogged", LLADD_SIM_O_CHECK, 1, 0, 0, 0},
    {LLADD_BUG_POSITION_NEWEST, INTERLEAVE, "replica.threads", LLADD_SIM_O_CHECK, 1, 0, 0, 0},
    {LLADD_BUG_ACK_EARLY, EXPLORE, "replica", LLADD_SIM_O_CHECK, 1, 0, 0, 0},
    /* With seed 1 the first call that fails finds a merge without a removed page. It then reports a
     * lack of memory, which ends the simulation. */
    {LLADD_BUG_BW_MERGE, INTERLEAVE, "threads.bwtree", LLADD_SIM_O_WORKLOAD, 1, AT_RANDOM, 2, LONG},
    {LLADD_BUG_BW_PID, INTERLEAVE, "threads.bwtree", LLADD_SIM_O_WORKLOAD, 1, AT_RANDOM, 0, LONG},
    /* The recording itself reveals the bug. */
    {LLADD_BUG_VERSION_LOST, EXPLORE, "dtable.managed.snapshots", LLADD_SIM_O_WORKLOAD, 1, 0, 0,
     100},
    {LLADD_BUG_ABSENT_LOST, EXPLORE, "dtable.managed.versions", LLADD_SIM_O_WORKLOAD, 1, 0, 0, 100},
    {LLADD_BUG_VERSION_LEAKS, EXPLORE, "dtable.managed.versions", LLADD_SIM_O_LEAK, 1, 0, 0, 0},
    /* Mode ERRORS injects errors, but also finds bugs that need no error. */
    {LLADD_BUG_WAL_GATE, ERRORS, "counters", LLADD_SIM_O_WAL, 0, 0, 0, 0},
    {LLADD_BUG_ACKNOWLEDGE, ERRORS, "counters", LLADD_SIM_O_LOST, 0, 0, 0, 0},
    {LLADD_BUG_LOSER, ERRORS, "counters", LLADD_SIM_O_CONTENTS, 0, 0, 0, 0},
    {LLADD_BUG_REWRITE, ERRORS, "counters", LLADD_SIM_O_OPEN, 0, 0, 0, 0},
    /* At random. */
    {LLADD_BUG_WAL_GATE, RANDOM, "counters", LLADD_SIM_O_WAL, 0, 0, 0, 0},
    {LLADD_BUG_CLR, RANDOM, "counters", LLADD_SIM_O_CONTENTS, 0, 0, 0, 0},
    {LLADD_BUG_UNDO_NEXT, RANDOM, "counters", LLADD_SIM_O_CONTENTS, 0, 0, 0, 0},
    {LLADD_BUG_REDO_CLR, RANDOM, "counters", LLADD_SIM_O_OPEN, 0, 0, 6, 0},
    {LLADD_BUG_LOSER, RANDOM, "counters", LLADD_SIM_O_CONTENTS, 0, 0, 0, 0},
    {LLADD_BUG_END_FIRST, RANDOM, "counters", LLADD_SIM_O_CONTENTS, 0, 0, 0, 0},
    {LLADD_BUG_ACKNOWLEDGE, RANDOM, "counters", LLADD_SIM_O_LOST, 0, 0, 0, 0},
    {LLADD_BUG_SYNC_AGAIN, RANDOM, "counters", LLADD_SIM_O_OPEN, 0, 0, 2, 0},
    {LLADD_BUG_TAKE_SYNC, RANDOM, "stale", LLADD_SIM_O_OPEN, 0, 0, 0, 0},
    {LLADD_BUG_LOWEST_FIRST, RANDOM, "stale", LLADD_SIM_O_OPEN, 0, 0, 0, 0},
    {LLADD_BUG_PROTECTION, RANDOM, "full", LLADD_SIM_O_OPEN, 0, TURNS, 2, 0},
    {LLADD_BUG_BULK_IMAGE, RANDOM, "extents", LLADD_SIM_O_OPEN, 0, ATOMIC, 0, 0},
    {LLADD_BUG_ACCUSE, RANDOM, "counters", LLADD_SIM_O_INSPECT, 0, 0, 0, 0},
    /* Damage. */
    {LLADD_BUG_RECORD_CRC, DAMAGE, "counters", LLADD_SIM_O_CONTENTS, 0, 0, 2, SAMPLES},
    {LLADD_BUG_PAGE_CRC, DAMAGE, "counters", LLADD_SIM_O_CONTENTS, 0, 0, 0, SAMPLES},
    /* Many samples, because only damage in the last group of the log reveals the bug. ATOMIC,
     * because the images of the next checkpoint would overwrite the torn tail. */
    {LLADD_BUG_LSN_REUSE, DAMAGE, "counters", LLADD_SIM_O_CONTENTS, 0, ATOMIC, 0, 10 * SAMPLES},
};

enum { ROWS = sizeof rows / sizeof *rows };

static const struct {
    const char *name, *oracle, *what;
} bugs[] = {
#define BUG(id, text, oracle, what) {text, oracle, what},
    LLADD_BUG_LIST(BUG)
#undef BUG
};

static bool is_first(const struct row *row)
{
    for (const struct row *r = rows; r < row; r++)
        if (r->bug == row->bug)
            return false;
    return true;
}

/* ---- a search ---------------------------------------------------------------------------- */

/* The result of a search: the first failure, if any. */
struct result {
    uint32_t n_failures;
    struct lladd_sim_failure failure;
    uint64_t states;
    double ms;
};

static void bound(const struct row *row, struct lladd_sim_bounds *b)
{
    *b = (struct lladd_sim_bounds)LLADD_SIM_BOUNDS_INIT;
    b->planted = LLADD_BUG_MASK(row->bug);
    b->depth = row->depth;
    b->flags = row->flags | LLADD_SIM_NO_COVERAGE;
    b->seed = row->seed;
    b->schedules = row->mode == INTERLEAVE ? MOST : 0;
    b->states = row->states ? row->states : MOST;
}

/* The reports of the modes have different types. These are the members that they have in common. */
#define TAKE(result, report, count) \
    do { \
        (result)->n_failures = (report)->n_failures; \
        if ((report)->n_failures) \
            (result)->failure = (report)->failures[0]; \
        (result)->states = (report)->count; \
        (result)->ms = (double)(report)->nanoseconds / 1e6; \
    } while (0)

static int search(const struct row *row, const struct lladd_sim_bounds *b, struct result *result,
                  struct lladd_error *err)
{
    const struct lladd_sim_subject *s = lladd_sim_subject_find(row->subject);
    struct lladd_sim_report *explored;
    struct lladd_sim_errors_report *failed;
    struct lladd_sim_damage_report *damaged;
    struct lladd_sim_random_report *drawn;
    int rc = LLADD_BAD_ARGUMENT;
    memset(result, 0, sizeof *result);
    if (!s)
        return lladd_error_set(err, rc, "there is no subject %s", row->subject);
    if ((row->mode == EXPLORE && (rc = lladd_sim_explore(s, b, &explored, err)) == 0) ||
        (row->mode == INTERLEAVE && (rc = lladd_sim_interleave(s, b, &explored, err)) == 0)) {
        TAKE(result, explored, states);
        lladd_sim_report_free(explored);
    } else if (row->mode == ERRORS && (rc = lladd_sim_errors(s, b, &failed, err)) == 0) {
        TAKE(result, failed, states);
        lladd_sim_errors_free(failed);
    } else if (row->mode == DAMAGE && (rc = lladd_sim_damage(s, b, &damaged, err)) == 0) {
        TAKE(result, damaged, done);
        lladd_sim_damage_free(damaged);
    } else if (row->mode == RANDOM && (rc = lladd_sim_random(s, b, &drawn, err)) == 0) {
        TAKE(result, drawn, states);
        lladd_sim_random_free(drawn);
    }
    return rc;
}

/* Searches with the row's seed. In mode RANDOM, tries the next seeds, too, until one finds what the
 * row says, because the layout of the log decides which states a seed reaches. */
static int catch(const struct row *row, struct lladd_sim_bounds *b, struct result *result,
                 struct lladd_error *err)
{
    enum { SEEDS = 8 };
    bound(row, b);
    uint64_t last = b->seed + (row->mode == RANDOM ? SEEDS - 1 : 0);
    int rc = search(row, b, result, err);
    while (rc == 0 && b->seed < last &&
           (!result->n_failures || result->failure.oracle != row->oracle)) {
        b->seed++;
        rc = search(row, b, result, err);
    }
    return rc;
}

/* ---- the table --------------------------------------------------------------------------- */

/* A line of docs/simulator.md, without the numbers. */
static void say(const struct row *row, char *out, size_t size)
{
    (void)snprintf(out, size, "| `%s` | %s | %s | `%s` | %s |", bugs[row->bug].name,
                   bugs[row->bug].what, mode_names[row->mode], row->subject,
                   lladd_sim_oracle_name(row->oracle));
}

static int print_table(void)
{
    for (const struct row *row = rows; row < rows + ROWS; row++) {
        struct lladd_error err = LLADD_ERROR_INIT;
        struct lladd_sim_bounds b;
        struct result r;
        char line[400];
        if (!is_first(row))
            continue;
        say(row, line, sizeof line);
        if (catch(row, &b, &r, &err) || !r.n_failures) {
            fprintf(stderr, "%s: %s\n", bugs[row->bug].name, err.message);
            return EXIT_FAILURE;
        }
        printf("%s %llu | %.1f |\n", line, (unsigned long long)r.states, r.ms);
    }
    return EXIT_SUCCESS;
}

/* ---- cases ------------------------------------------------------------------------------- */

START_TEST(each_bug_has_a_row)
{
    ck_assert_uint_le(LLADD_BUGS, LLADD_BUGS_ALONE + 63); /* LLADD_BUG_MASK */
    for (unsigned bug = 0; bug < LLADD_BUGS; bug++) {
        const struct row *row = rows;
        while (row < rows + ROWS && (unsigned)row->bug != bug)
            row++;
        ck_assert_msg(row < rows + ROWS, "nothing is said to catch \"%s\"", bugs[bug].name);
        char oracle[8];
        (void)snprintf(oracle, sizeof oracle, "O%d", (int)row->oracle);
        ck_assert_msg(strcmp(oracle, bugs[bug].oracle) == 0, "\"%s\" is caught by %s, not by %s",
                      bugs[bug].name, oracle, bugs[bug].oracle);
        for (unsigned other = 0; other < bug; other++)
            ck_assert_str_ne(bugs[other].name, bugs[bug].name);
    }
}
END_TEST

/* Without the bug, the run of the token must not fail. The token may also be refused, because the
 * workload does other things then. */
static void expect_innocent(const struct row *row, const struct lladd_sim_failure *f)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_sim_report *r;
    int rc = lladd_sim_replay(lladd_sim_subject_find(row->subject), NULL, f->token, NULL, &r, &err);
    ck_assert(rc == LLADD_BAD_ARGUMENT || (rc == 0 && r->n_failures == 0));
    lladd_sim_report_free(r);
}

static struct text told;

START_TEST(a_planted_bug_is_caught)
{
    const struct row *row = &rows[_i];
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_sim_bounds b;
    struct result r, without;
    ck_assert_msg(catch(row, &b, &r, &err) == 0, "%s", err.message);
    ck_assert_msg(r.n_failures == 1, "\"%s\" survives %llu states", bugs[row->bug].name,
                  (unsigned long long)r.states);
    (void)ll_expect_one(&r.failure, r.n_failures, row->oracle);
    bool recorded = row->mode == EXPLORE && r.states == 0; /* no crash: there is no token */
    printf("%-15s %-8s %-9s %-12s %6llu states %8.1f ms\n", bugs[row->bug].name,
           mode_names[row->mode], row->subject, lladd_sim_oracle_name(r.failure.oracle),
           (unsigned long long)r.states, r.ms);
    (void)fflush(stdout); /* the process may be Check's child */
    if (row->oracle != LLADD_SIM_O_REBUILD && !recorded) { /* O7 judges the recording, too */
        expect_again(lladd_sim_subject_find(row->subject), &b, &r.failure, &told);
        expect_innocent(row, &r.failure);
    }
    b.planted = 0;
    if (row->mode != DAMAGE) /* in mode DAMAGE this number also determines which damages are tried
                              */
        b.states = r.states + 1;
    ck_assert_msg(search(row, &b, &without, &err) == 0, "%s", err.message);
    ll_expect_none(row->subject, &without.failure, without.n_failures);
}
END_TEST

static char *page; /* docs/simulator.md */

static void read_page(void)
{
    FILE *f = fopen(LL_SIMULATOR_PAGE, "rb");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fseek(f, 0, SEEK_END), 0);
    long size = ftell(f);
    ck_assert_int_gt(size, 0);
    rewind(f);
    page = calloc(1, (size_t)size + 1);
    ck_assert_ptr_nonnull(page);
    ck_assert_uint_eq(fread(page, 1, (size_t)size, f), (size_t)size);
    ck_assert_int_eq(fclose(f), 0);
}

/* The numbers in the table depend on the machine; everything else must match, and there must be no
 * extra line. */
START_TEST(the_table_of_the_manual_is_this_one)
{
    unsigned lines = 0, expected = 0;
    read_page();
    char *table = strstr(page, "## The planted bugs\n");
    ck_assert_ptr_nonnull(table);
    char *end = strstr(table, "\n## ");
    if (end)
        *end = '\0';
    for (const char *p = strstr(table, "\n| `"); p; p = strstr(p + 1, "\n| `"))
        lines++;
    for (const struct row *row = rows; row < rows + ROWS; row++) {
        char line[400];
        if (!is_first(row))
            continue;
        say(row, line, sizeof line);
        ck_assert_msg(strstr(table, line) != NULL, "docs/simulator.md does not say: %s", line);
        expected++;
    }
    ck_assert_uint_eq(lines, expected);
    free(page);
}
END_TEST

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "table") == 0)
        return print_table();
    Suite *s = suite_create("planted");
    TCase *t = tcase_create("table");
    tcase_add_test(t, each_bug_has_a_row);
    tcase_add_test(t, the_table_of_the_manual_is_this_one);
    suite_add_tcase(s, t);
    for (int i = 0; i < ROWS; i++) {
        t = tcase_create(bugs[rows[i].bug].name);
        tcase_add_loop_test(t, a_planted_bug_is_caught, i, i + 1);
        suite_add_tcase(s, t);
    }
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
