/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LOG_FIXTURE_H
#define LOG_FIXTURE_H
/*
 * A log on a device that can be crashed, with time, memory and named points in the test's hands,
 * and a list of what was appended, to compare with.
 *
 *     struct fixture f;
 *     fixture_init(&f);               4 KiB segments, 16 KiB ring; change f.cfg before create
 *     fixture_create(&f);
 *     put(&f, 100);                   a record with contents that depend on its place in the list
 *     force(&f);
 *     crash_and_reopen(&f, FAULT_POWER);
 *     check_records(&f, from, to);    the log holds exactly these of the list, in order
 */
#include "log/log_private.h"
#include "support/fault_alloc.h"
#include "support/fault_device.h"
#include "support/fixtures.h"
#include "support/test_world.h"

#include <check.h>
#include <errno.h>

struct appended {
    struct ll_record rec; /* redo and undo lengths are right, their bytes are generated from
                           * `seed` */
    uint64_t seed;
};

struct fixture {
    struct lladd_device *memory;
    struct fault_device *fd;
    struct fault_alloc fa;
    struct test_world world;
    struct ll_env env;
    struct ll_log_config cfg;
    struct ll_log_start start; /* what a control file would say */
    struct ll_log *log;
    struct ll_credit credit;
    struct lladd_error err;
    struct appended *list;
    size_t count, capacity;
    uint64_t durable_count; /* records of the list that are known to be durable */
    struct ll_poison poison;
    unsigned checkpoint_calls;
    enum { GOES_ON_IN_ANOTHER, GOES_ON_HERE } goes_on; /* what reopen does, if it can */
};

void fixture_init(struct fixture *);
void fixture_create(struct fixture *);
void fixture_free(struct fixture *);

/* Fills in kind, links and spans of `len` bytes altogether, from the seed. */
void make_record(struct ll_record *, uint64_t seed, size_t len, unsigned char *bytes);
/* Appends a record with this many bytes of payload; returns its LSN. */
lladd_lsn put(struct fixture *, size_t len);
/* The same, but returns an error code instead of failing the test. */
int try_put(struct fixture *, size_t len, lladd_lsn *);
/* Appends any record (spans are copied into the list by seed only if made by make_record). */
lladd_lsn put_record(struct fixture *, struct ll_record *);
/* Forces the last record. */
void force(struct fixture *);

/* Closes without forcing and opens again as after a crash; `how` says what survives on the device.
 * The scan must find a prefix of the list, and at least what was durable. */
void crash_and_reopen(struct fixture *, enum fault_crash_mode how);
/*
 * Closes (uncleanly) and opens again, the device as it is: 0 or the error of open, scan or start.
 */
int reopen(struct fixture *);
/* What open and scan return for the log as it is; they change nothing. */
int look(struct fixture *);
/* After a clean stop: finish, close, open, start. */
void stop_and_reopen(struct fixture *);
/* Only the first two. */
void stop(struct fixture *);

/* Compares a record from a scan or cursor with list[i]. */
void check_record(struct fixture *, const struct ll_record *, size_t i);
/* Reads list[from..to) with a cursor: each by its LSN, and in sequence with next. */
void check_records(struct fixture *, size_t from, size_t to);

/* The file that holds LSN, opened in the fault device's base, and the byte's offset in it. */
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
