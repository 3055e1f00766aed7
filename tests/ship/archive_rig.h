/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_SHIP_ARCHIVE_RIG_H
#define TESTS_SHIP_ARCHIVE_RIG_H
/*
 * What the tests of the archive share: a database with an archive in a store in memory, and checks
 * of what the store has, against the log itself.
 */
#include "calls.h"
#include "ledger.h"

#include "ship/ship_private.h"

#include <check.h>

extern struct memory_store store;
extern struct lladd_device *disk, *copy;
extern struct ledger ledger;
extern struct lladd_log_hold *hold;
extern struct lladd_error err;

void setup(void);
void teardown(void);
/* Opens the ledger on the device, with segments of this size. */
void begin(struct lladd_device *, uint64_t segment);
/* Keeps all log, so that it can be compared with the store. */
void keep(void);
/* Ends that, and closes the ledger. */
void end(void);

/* The indexes of the segments in the store. */
struct archived {
    struct ll_ship_buf firsts;
    struct ll_ship_index *ix;
    size_t n;
};

struct archived read_archive(void);
void free_archive(struct archived *);
#define SEG "t00000000/log/%016llx.seg"
#define IDX "t00000000/idx/%016llx.idx"

/* The object with this name, or NULL. `fmt` has a place for an LSN. */
struct memory_object *object(const char *fmt, uint64_t first);
/* Each segment follows the one before, and has the bytes of the log's file. */
void check_segments(const struct archived *);
/* The index of each segment has the bytes that it is encoded to, and is the same when it is made
 * again: with the others there, and without any. */
void check_remade(const struct archived *);
/* All that, and the status; with_pages: and that the indexes have all records of pages, of which
 * the log must still have all. */
void check_all(bool with_pages);
#endif
