/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_OPERATIONS_OP_FIXTURE_H
#define TESTS_OPERATIONS_OP_FIXTURE_H
/*
 * The fixture of the tests of operations/: a database in memory that can be crashed and reopened,
 * and single pages without a database.
 *
 *     struct fixture b;
 *     fixture_init(&b, 4096);               page size; options may be changed now
 *     fixture_open(&b);
 *     struct lladd_txn *txn = fixture_begin(&b);
 *     ok(txn, lladd_page_alloc(txn, &page));
 *     commit(txn);
 *     fixture_crash(&b);                    unsynced changes are lost; opens again
 *     fixture_free(&b);                     closes; asserts that no memory is lost
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
/* For many threads: with the library's own threads, and room for all. */
void fixture_init_threads(struct fixture *);
void fixture_free(struct fixture *);
void fixture_open(struct fixture *);
int fixture_try_open(struct fixture *);
void fixture_close(struct fixture *);
/* A power failure; the database is not open afterwards. */
void fixture_kill(struct fixture *);
/* Opens again: recovery has run. */
void fixture_crash(struct fixture *);
/* May be called by any thread. */
struct lladd_txn *fixture_begin(struct fixture *);
struct lladd_gid fixture_gid(const char *text);

/* A new page, formatted with lladd_page_format, committed. */
lladd_pageno fixture_page(struct fixture *, const char *type);
/* Every page of the database passes its type's check. */
void fixture_check(struct fixture *);
/* Writes bytes to a page in the file while the database is open, and the old ones into `bytes`: a
 * second call restores the page. */
void fixture_forge(struct fixture *, lladd_pageno, uint32_t offset, void *bytes, size_t len);
/* The number of allocated pages. */
uint64_t fixture_pages_used(struct fixture *);
/* For operations that are not called: `validate` and `redo`. */
bool fixture_any(struct lladd_view, enum lladd_span_kind, struct lladd_span);
void fixture_nothing(struct lladd_page *, struct lladd_span);
/* Commits if rc is 0, and aborts if that or the commit fails, unless the handle is poisoned.
 * Returns the first error, or that of the abort. */
int fixture_end(struct lladd_txn *, int rc);
/* A workload in steps. */
struct fixture_steps {
    int n;
    void (*setup)(void);
    int (*step)(int i);
    void (*unchanged)(int i);  /* asserts that step i, which failed, has changed nothing */
    void (*crashed)(int i);    /* the device failed in step i for good: crashes, looks, closes */
    void (*done)(uint64_t run); /* after all steps: looks, closes */
};
/* Each allocation, or with `reads` each read, fails once. A step that returns the error is
 * repeated. Returns how many did. */
unsigned fixture_each_fails_once(struct fixture *, const struct fixture_steps *, bool reads);
/* The device fails for good from each write on. Returns how often a step failed. */
unsigned fixture_each_write_fails(struct fixture *, const struct fixture_steps *);
/* For lladd_..._pages: adds one to the uint64_t that is ctx. */
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
/* Asserts that rc is this code, with a message. */
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
    unsigned char *bytes; /* malloc'ed to the byte, so that sanitizers see every access outside */
};

/* A page that `format` has formatted with these redo bytes. */
void scratch_init(struct scratch *, uint32_t size, uint64_t number, const struct lladd_op *format,
                  struct lladd_span redo);
void scratch_copy(struct scratch *to, const struct scratch *from);
void scratch_free(struct scratch *);
struct lladd_view scratch_view(const struct scratch *);
/* A copy in memory of exactly this size. */
unsigned char *exact(const void *bytes, size_t len);

#endif
