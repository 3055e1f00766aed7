/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_CORE_RIG_H
#define TESTS_CORE_RIG_H
/*
 * The fixture: a database with small segments, a small ring, a small cache, an allocator that
 * counts, a clock and random numbers that repeat, on a device that can fail and crash.
 *
 *     struct rig r; rig_init(&r, RIG_RESERVED); flags or 0; options may be changed now
 *     rig_open(&r); asserts; creates or recovers ... rig_crash(&r, &fault_power); a power failure;
 *     the handle is gone rig_open(&r); ... rig_free(&r); closes if open; asserts that nothing has
 *     leaked
 *
 * Loop tests pass their _i: 0 <= _i < RIG_KINDS covers devices, frame providers and threads.
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
    RIG_FILES = 1,    /* real files in a temporary directory; no fault device */
    RIG_RESERVED = 2, /* reserved address space; else heap frames */
    RIG_THREADS = 4,  /* background threads; else none */
    RIG_KINDS = 8
};

struct rig {
    unsigned kind;
    char *dir;                 /* RIG_FILES */
    struct lladd_device *base; /* others: in memory, and */
    struct fault_device *fd;   /* the device given to the database */
    struct fault_alloc mem;
    struct test_world world;
    struct lladd_options options;
    struct lladd_db *db; /* NULL: not open */
    struct lladd_error err;
    struct test_ids ids;
    char *trace; /* of the last open, lines with '\n'; NULL unless asked for */
    size_t trace_len, trace_cap;
};

/* About the smallest cache that a database of this kind opens with: reserved address space needs
 * tables. */
static inline uint64_t rig_small_cache(unsigned kind)
{
    return (kind & RIG_RESERVED ? 96u : 64u) << 10;
}

extern const struct fault_crash fault_power, fault_kill;

void rig_init(struct rig *, unsigned kind);
void rig_free(struct rig *);
/* 0 or the code of lladd_open; r->err has the details. */
int rig_try_open(struct rig *);
void rig_open(struct rig *);
void rig_close(struct rig *); /* asserts success */
/* `how` decides which unsynced changes are lost (RIG_FILES: all writes are kept, as after kill -9).
 * The handle is gone. */
void rig_crash(struct rig *, const struct fault_crash *how);
/* Closes, opens again. */
void rig_reopen(struct rig *);
/* Collects recovery's trace from the next open on. */
void rig_want_trace(struct rig *);

/* Asserts that rc is 0, and shows the error of the transaction or of the fixture. */
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
/* For calls that end the transaction when they succeed. */
#define done(call) \
    do { \
        int done_rc = (call); \
        ck_assert_msg(done_rc == 0, "%s: %s", #call, \
                      lladd_code_name(done_rc) ? lladd_code_name(done_rc) : "?"); \
    } while (0)
/* Asserts that a call returns this code, with a message. */
#define refused(txn, want, call) \
    do { \
        ck_assert_int_eq((call), (want)); \
        ck_assert_int_eq(lladd_txn_error(txn)->code, (want)); \
        ck_assert_ptr_nonnull(lladd_txn_error(txn)->source); \
        ck_assert_str_ne(lladd_txn_error(txn)->message, ""); \
    } while (0)
#define ck_contains(text, part) \
    ck_assert_msg(strstr((text), (part)) != NULL, "\"%s\" is not in: %s", (part), (text))

struct lladd_txn *rig_begin(struct rig *);
struct lladd_txn *rig_begin_with(struct rig *, const struct lladd_txn_options *);
/* A fresh page of cells, taken from the allocator, committed. */
lladd_pageno rig_page(struct rig *);
void rig_pages(struct rig *, lladd_pageno *out, size_t n);
/* cell = value, committed. */
void rig_set(struct rig *, struct cell, uint64_t value);
void rig_expect(struct rig *, struct cell, uint64_t value);
/* Truncates the log below its end and lets the files be reused: no page can be rebuilt from it any
 * more. Reopens; changes cell 1 of `scratch`. */
void rig_forget_log(struct rig *, lladd_pageno scratch);
struct lladd_stats rig_stats(struct rig *);
/* Contents of a file of the database, read from the device; the caller frees them. NULL: no such
 * file. */
unsigned char *rig_file(struct rig *, const char *name, size_t *len);
/* The database must not be open. */
void rig_file_write(struct rig *, const char *name, const void *bytes, size_t len, uint64_t off);
/* A global id made of a text. */
struct lladd_gid gid_of(const char *text);
/* Makes a transaction that has set the cell and is prepared under gid_of(name). */
struct lladd_txn *rig_prepared(struct rig *, const char *name, struct cell, uint64_t value);
struct lladd_txn *rig_claim(struct rig *, const char *name);
/* What lladd_in_doubt_each reports. */
struct rig_doubts {
    unsigned n;
    struct lladd_in_doubt_info info[8];
};
struct rig_doubts rig_in_doubt(struct rig *);
/* Does background work, as the threads would, until nothing is left to do. */
void rig_maintain(struct rig *);

#endif
