/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_CORE_DB_FIXTURE_H
#define TESTS_CORE_DB_FIXTURE_H
/*
 * The fixture: a database with small segments, a small ring, a small cache, an allocator that
 * counts, a clock that only the test moves, and random numbers from a fixed seed. Without
 * FIXTURE_FILES it is on a device that can fail and crash.
 *
 *     struct fixture r;
 *     fixture_init(&r, FIXTURE_RESERVED);   flags or 0; options may be changed now
 *     fixture_open(&r);                     creates or recovers the database; asserts success
 *     fixture_crash(&r, &fault_power);      simulates a power failure; leaves no handle
 *     fixture_open(&r);
 *     fixture_free(&r);                     closes if open; asserts that nothing has leaked
 *
 * Loop tests pass their _i: 0 <= _i < FIXTURE_KINDS covers devices, frame providers and threads.
 */
#include "support/fault_alloc.h"
#include "support/fault_device.h"
#include "support/test_world.h"
#include "testops.h"

#include <check.h>
#include <lladd/extension.h>
#include <lladd/lladd.h>
#include <lladd/pages.h>
#include <lladd/stats.h>
#include <lladd/twophase.h>

enum {
    FIXTURE_FILES = 1,    /* real files in a temporary directory; no fault device */
    FIXTURE_RESERVED = 2, /* reserved address space; else heap frames */
    FIXTURE_THREADS = 4,  /* background threads; else none */
    FIXTURE_KINDS = 8
};

struct fixture {
    unsigned kind;
    char *dir;                 /* the directory with FIXTURE_FILES, else NULL */
    struct lladd_device *base; /* a device in memory; NULL with FIXTURE_FILES */
    struct fault_device *fd;   /* the database's device, on `base`; NULL with FIXTURE_FILES */
    struct fault_alloc mem;
    struct test_world world;
    struct lladd_options options;
    struct lladd_db *db; /* NULL: not open */
    struct lladd_error err;
    struct test_ids ids;
    char *trace; /* the trace of the recovery in the last open, as lines that end with '\n'; NULL:
                  * the trace is not collected */
    size_t trace_len, trace_cap;
};

/* About the smallest cache that a database of this kind opens with. With reserved address space the
 * buffer manager's tables need more. */
static inline uint64_t fixture_small_cache(unsigned kind)
{
    return (kind & FIXTURE_RESERVED ? 96u : 64u) << 10;
}

extern const struct fault_crash fault_power, fault_kill;

void fixture_init(struct fixture *, unsigned kind);
void fixture_free(struct fixture *);
/* Returns 0 or the code of lladd_open; r->err has the details. */
int fixture_try_open(struct fixture *);
void fixture_open(struct fixture *);
void fixture_close(struct fixture *); /* asserts success; then the device's power fails */
/* Kills the database without closing it; r->db is then NULL. `how` decides which unsynced changes
 * are lost. With FIXTURE_FILES all writes are kept, as after kill -9. */
void fixture_crash(struct fixture *, const struct fault_crash *how);
/* Closes and opens again. */
void fixture_reopen(struct fixture *);
/* From the next open on, collects the trace of each recovery. */
void fixture_want_trace(struct fixture *);

/* Asserts that the call returns 0; else shows the error of the transaction or of the fixture. */
#define ok_db(r, call) \
    do { \
        int ok_rc = (call); \
        ck_assert_msg(ok_rc == 0, "%s: %s: %s", #call, \
                      lladd_code_name(ok_rc) ? lladd_code_name(ok_rc) : "?", (r)->err.message); \
    } while (0)
#define ok(txn, call) \
    do { \
        int ok_rc = (call); \
        ck_assert_msg(ok_rc == 0, "%s: %s: %s", #call, \
                      lladd_code_name(ok_rc) ? lladd_code_name(ok_rc) : "?", \
                      lladd_txn_error(txn)->message); \
    } while (0)
/* Asserts that a call that ends the transaction succeeds. */
#define done(call) \
    do { \
        int done_rc = (call); \
        ck_assert_msg(done_rc == 0, "%s: %s", #call, \
                      lladd_code_name(done_rc) ? lladd_code_name(done_rc) : "?"); \
    } while (0)
/* Asserts that the call returns this code, and that the transaction's error has this code and a
 * source. */
#define refused(txn, want, call) \
    do { \
        ck_assert_int_eq((call), (want)); \
        ck_assert_int_eq(lladd_txn_error(txn)->code, (want)); \
        ck_assert_ptr_nonnull(lladd_txn_error(txn)->source); \
        ck_assert_str_ne(lladd_txn_error(txn)->message, ""); \
    } while (0)
#define ck_contains(text, part) \
    ck_assert_msg(strstr((text), (part)) != NULL, "\"%s\" is not in: %s", (part), (text))

struct lladd_txn *fixture_begin(struct fixture *);
struct lladd_txn *fixture_begin_with(struct fixture *, const struct lladd_txn_options *);
/* Allocates pages, formats them as pages of cells, and commits. */
lladd_pageno fixture_page(struct fixture *);
void fixture_pages(struct fixture *, lladd_pageno *out, size_t n);
/* Sets a cell in a transaction of its own, and commits. */
void fixture_set(struct fixture *, struct cell, uint64_t value);
void fixture_expect(struct fixture *, struct cell, uint64_t value);
/* Commits, takes checkpoints and reopens until the log has no record from before the call. After
 * that, only the page `scratch` can be rebuilt from the log. Changes cell 1 of `scratch`. */
void fixture_forget_log(struct fixture *, lladd_pageno scratch);
/* Commits until a checkpoint is due, and takes it. It writes only pages that have been dirty since
 * before the previous checkpoint. Changes cells of `scratch` from 40 on. */
void fixture_fuzzy_checkpoint(struct fixture *, lladd_pageno scratch);
/* Commits changes of cell 1 of `scratch` until the log is longer by at least this many bytes. */
void fixture_fill_log(struct fixture *, lladd_pageno scratch, uint64_t bytes);
struct lladd_stats fixture_stats(struct fixture *);
/* Returns the contents of a file of the database, read from the device, or NULL if there is no such
 * file. The caller frees the contents. */
unsigned char *fixture_file(struct fixture *, const char *name, size_t *len);
/* The database must not be open. */
void fixture_file_write(struct fixture *, const char *name, const void *bytes, size_t len,
                        uint64_t off);
/* A global id made of a text. */
struct lladd_gid gid_of(const char *text);
/* Makes a transaction that has set the cell and is prepared under gid_of(name). */
struct lladd_txn *fixture_prepared(struct fixture *, const char *name, struct cell, uint64_t value);
struct lladd_txn *fixture_claim(struct fixture *, const char *name);
/* The transactions that lladd_in_doubt_each reports. */
struct fixture_doubts {
    unsigned n;
    struct lladd_in_doubt_info info[8];
};
struct fixture_doubts fixture_in_doubt(struct fixture *);
/* Does the work that the library's threads do, until no work is left. */
void fixture_maintain(struct fixture *);

#endif
