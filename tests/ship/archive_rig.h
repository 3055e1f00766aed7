/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_SHIP_ARCHIVE_RIG_H
#define TESTS_SHIP_ARCHIVE_RIG_H
/*
 * Fixture of the archive's tests: a database that is archived to a store in memory, and checks that
 * compare the objects in the store with the log.
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
/* Releases the hold of keep(), and closes the ledger. */
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
/* Asserts that each stored segment follows the one before, and has the bytes of the log's file if
 * that file still exists. */
void check_segments(const struct archived *);
/* Hides the index object of each segment and makes the index again. Asserts that the new index is
 * encoded to the same bytes: once with the other indexes in the store, and once without any. */
void check_remade(const struct archived *);
/* Makes both checks, and checks the status. with_pages: also compares the indexes with all records
 * of pages in the log, which must still have all of them. */
void check_all(bool with_pages);
#endif
