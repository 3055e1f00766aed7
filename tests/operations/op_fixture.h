/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_OPERATIONS_OP_FIXTURE_H
#define TESTS_OPERATIONS_OP_FIXTURE_H
/*
 * The fixture of the tests of operations/: a database in memory that can be crashed and reopened,
 * and single pages without a database.
 *
 *     struct fixture b;
 *     fixture_init(&b, 4096);               with pages of 4096 bytes; options may be changed now
 *     fixture_open(&b);
 *     struct lladd_txn *txn = fixture_begin(&b);
 *     ok(txn, lladd_page_alloc(txn, &page));
 *     commit(txn);
 *     fixture_crash(&b);                    loses unsynced changes, and opens the database again
 *     fixture_free(&b);                     checks the pages of an open database, and closes it;
 *                                           asserts that no memory and no open file is left
 */
#include "operations/operations_private.h"
#include "support/fault_alloc.h"
#include "support/fault_device.h"
#include "support/fixtures.h"

#include <check.h>
#include <lladd/twophase.h>
#include <stdlib.h>
#include <string.h>

struct fixture {
    struct lladd_device *base;
    struct fault_device *fd;
    struct fault_alloc mem;
    struct lladd_options options;
    struct lladd_db *db;
    struct lladd_error err;
};

void fixture_init(struct fixture *, uint32_t page_size);
/* Like fixture_init, for tests with many threads. Starts the library's own threads, and makes the
 * cache and the log buffer larger. */
void fixture_init_threads(struct fixture *);
void fixture_free(struct fixture *);
void fixture_open(struct fixture *);
int fixture_try_open(struct fixture *);
void fixture_close(struct fixture *);
/* Simulates a power failure, and leaves the database closed. */
void fixture_kill(struct fixture *);
/* Simulates a power failure, and opens the database again. */
void fixture_crash(struct fixture *);
/* May be called by any thread. */
struct lladd_txn *fixture_begin(struct fixture *);
struct lladd_gid fixture_gid(const char *text);

/* Allocates a page, formats it with lladd_page_format, and commits. */
lladd_pageno fixture_page(struct fixture *, const char *type);
/* Asserts that each page in use passes the check of its type, if the type belongs to a built-in
 * extension and has a check. */
void fixture_check(struct fixture *);
/* Exchanges `bytes` with the bytes of a page in the cache, without logging. A second call restores
 * the page. */
void fixture_forge(struct fixture *, lladd_pageno, uint32_t offset, void *bytes, size_t len);
/* The number of allocated pages. The root page and the allocation bitmaps do not count. */
uint64_t fixture_pages_used(struct fixture *);
/* `validate` and `redo` for operations that are registered and never called. */
bool fixture_any(struct lladd_view, enum lladd_span_kind, struct lladd_span);
void fixture_nothing(struct lladd_page *, struct lladd_span);
/* Ends a transaction: commits if rc is 0. If rc is an error, or if the commit fails, aborts the
 * transaction, unless the handle is poisoned. Returns 0 after a commit. If the abort fails, returns
 * its error. Otherwise returns rc or the error of the commit. */
int fixture_end(struct lladd_txn *, int rc);
/* A workload in steps. */
struct fixture_steps {
    int n;
    void (*setup)(void);
    int (*step)(int i);
    void (*unchanged)(int i);   /* called if step i has failed; asserts that the step has changed
                                 * nothing */
    void (*crashed)(int i);     /* called if the device has failed in step i; crashes, checks,
                                 * closes */
    void (*done)(uint64_t run); /* called after all steps; checks, closes */
};
/* Runs the workload once for each of its allocations or, if `reads` is true, once for each of its
 * reads. In run n only the n-th of these calls fails. A step that returns the error is repeated.
 * Returns how many steps have failed. */
unsigned fixture_each_fails_once(struct fixture *, const struct fixture_steps *, bool reads);
/* Runs the workload once for each call that writes. In each run the device fails from that call on.
 * Returns how many runs had a step that failed. */
unsigned fixture_each_write_fails(struct fixture *, const struct fixture_steps *);
/* A callback for lladd_array_pages, lladd_hash_pages and the like. ctx points to a uint64_t, which
 * the callback increments. */
int fixture_count_page(void *ctx, lladd_pageno);

#define ok(txn, call) \
    do { \
        int ok_rc = (call); \
        ck_assert_msg(ok_rc == 0, "%s: %s: %s", #call, lladd_code_name(ok_rc), \
                      lladd_txn_error(txn)->message); \
    } while (0)
#define ok_db(fixture, call) \
    do { \
        int ok_rc = (call); \
        ck_assert_msg(ok_rc == 0, "%s: %s: %s", #call, lladd_code_name(ok_rc), \
                      (fixture)->err.message); \
    } while (0)
/* Asserts that the call returns this code, and that the transaction's error has this code and a
 * message. */
#define refuses(txn, want, call) \
    do { \
        ck_assert_int_eq((call), (want)); \
        ck_assert_int_eq(lladd_txn_error(txn)->code, (want)); \
        ck_assert_str_ne(lladd_txn_error(txn)->message, ""); \
    } while (0)
#define commit(txn) ck_assert_int_eq(lladd_commit(txn), 0)
#define abort_txn(txn) ck_assert_int_eq(lladd_abort(txn), 0)

/* Runs the suite; returns the result for main. */
int fixture_run(Suite *);

/* ---- a page without a database --------------------------------------------------------------- */

struct scratch {
    struct lladd_page page;
    unsigned char *bytes; /* a block of exactly the page's size: sanitizers see accesses outside */
};

/* Makes a page in memory, and formats it by the redo of `format` with these bytes. */
void scratch_init(struct scratch *, uint32_t size, uint64_t number, const struct lladd_op *format,
                  struct lladd_span redo);
void scratch_copy(struct scratch *to, const struct scratch *from);
void scratch_free(struct scratch *);
struct lladd_view scratch_view(const struct scratch *);
/* Returns a copy in a block of exactly this size; the caller frees it. */
unsigned char *exact(const void *bytes, size_t len);

#endif
