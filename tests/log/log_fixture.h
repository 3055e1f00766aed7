/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LOG_FIXTURE_H
#define LOG_FIXTURE_H
/*
 * A log on a device that can crash. The test controls its time, memory and named points. A list
 * holds the appended records, and checks compare the records of the log with the list.
 *
 *     struct fixture f;
 *     fixture_init(&f);               segments of 4 to 16 KiB, ring of 16 KiB; then change f.cfg
 *     fixture_create(&f);
 *     put(&f, 100);                   appends a record with 100 bytes of redo and undo together
 *     force(&f);
 *     crash_and_reopen(&f, FAULT_POWER);
 *     check_records(&f, from, to);    compares list[from] ... list[to - 1] with the log
 */
#include "log/log_private.h"
#include "support/fault_alloc.h"
#include "support/fault_device.h"
#include "support/fixtures.h"
#include "support/test_world.h"

#include <check.h>
#include <errno.h>

struct appended {
    struct ll_record rec; /* has the lengths of redo and undo, but not their bytes, which `seed`
                           * generates */
    uint64_t seed;
};

struct fixture {
    struct lladd_device *memory;
    struct fault_device *fd;
    struct fault_alloc fa;
    struct test_world world;
    struct ll_env env;
    struct ll_log_config cfg;
    struct ll_log_start start; /* what lladd_open would read from the control block */
    struct ll_log *log;
    struct ll_credit credit;
    struct lladd_error err;
    struct appended *list;
    size_t count, capacity;
    uint64_t durable_count; /* how many records from the beginning of the list are known to be
                             * durable */
    struct ll_poison poison;
    unsigned checkpoint_calls;
    /* Says whether a reopen continues the log in another segment, or in the same segment if
     * possible. */
    enum { GOES_ON_IN_ANOTHER, GOES_ON_HERE } goes_on;
};

void fixture_init(struct fixture *);
void fixture_create(struct fixture *);
void fixture_free(struct fixture *);

/* Makes a record from the seed, without links to other records. Redo and undo together have `len`
 * bytes; `bytes` receives these. */
void make_record(struct ll_record *, uint64_t seed, size_t len, unsigned char *bytes);
/* Makes a record with `len` bytes of redo and undo together, links it to earlier records, appends
 * it to the log and to the list, and returns its LSN. */
lladd_lsn put(struct fixture *, size_t len);
/* Like put, but returns the error code if there is no log credit. */
int try_put(struct fixture *, size_t len, lladd_lsn *);
/* Appends any record to the log, but not to the list. */
lladd_lsn put_record(struct fixture *, struct ll_record *);
/* Makes the last record of the list durable. */
void force(struct fixture *);

/* Closes without forcing and opens again as after a crash; `how` says what survives on the device.
 * The scan must find the first records of the list, at least all durable ones. */
void crash_and_reopen(struct fixture *, enum fault_crash_mode how);
/* Closes uncleanly, leaves the device as it is, and opens again. Returns 0 or the error of open,
 * scan or start. */
int reopen(struct fixture *);
/* Closes uncleanly, then opens and scans the log. No file changes. Returns 0 or the error. */
int look(struct fixture *);
/* Stops the log cleanly, opens and starts it. */
void stop_and_reopen(struct fixture *);
/* Stops the log cleanly: finishes and closes it. */
void stop(struct fixture *);

/* Compares a record from a scan or cursor with list[i]. */
void check_record(struct fixture *, const struct ll_record *, size_t i);
/* Reads list[from] ... list[to - 1] with a cursor: first each record by its LSN, then all in
 * sequence. */
void check_records(struct fixture *, size_t from, size_t to);

/* Access to files in the base of the fault device. name_of makes the name of the segment that
 * begins with this LSN. */
void flip_byte(struct fixture *, const char *name, uint64_t offset, unsigned char mask);
void read_file(struct fixture *, const char *name, uint64_t offset, void *buf, size_t len);
void write_file(struct fixture *, const char *name, uint64_t offset, const void *buf, size_t len);
uint64_t file_size(struct fixture *, const char *name);
void name_of(uint64_t first, char out[LL_LOG_NAME_SIZE]);
bool file_exists(struct fixture *, const char *name);

#define must(f, call) \
    do { \
        int must_rc_ = (call); \
        ck_assert_msg(must_rc_ == 0, "%s: %d: %s", #call, must_rc_, (f)->err.message); \
    } while (0)
#define must_fail(f, code_, call) \
    do { \
        int must_rc_ = (call); \
        ck_assert_msg(must_rc_ == (code_), "%s: %d instead of %s: %s", #call, must_rc_, #code_, \
                      (f)->err.message); \
    } while (0)

#endif
